//! Input: missing cells. Output: one script for sbatch, for users who submit it themselves.

use rocwheel_recipe::matrix::{MatrixRow, Origin};

/// Maximum number of times that a stopped task returns to the queue.
const MOST_RESTARTS: u32 = 50;

/// The last part of a task's script, which runs a command of this program.
///
/// Slurm signals all processes of a task that it cancels, and kills the remaining ones once the
/// shell has ended. So the shell waits until the build has stopped and recorded its progress.
pub(super) fn task(command: &str) -> String {
    format!(
        r#"trap : TERM
{command}
code=$?
# Stopped at --time-limit (3), or something temporary (4): it goes on later.
case $code in
    3 | 4) [ "${{SLURM_RESTART_COUNT:-0}}" -ge {MOST_RESTARTS} ] || scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID" ;;
esac
exit $code
"#
    )
}

/// A script with a task for each cell. Arguments after it on the command line of sbatch are passed
/// to every build.
pub fn script(rows: &[(&MatrixRow, Option<Origin>)]) -> String {
    let (mut cells, mut sources) = (String::new(), String::new());
    for (row, origin) in rows {
        let point = &row.point;
        let mut words = vec![point.version.clone(), point.recipe.clone(), "--backend".into(), point.backend.clone()];
        words.extend(["--rocm".into(), point.rocm.clone()]);
        words.extend(point.torch.iter().flat_map(|torch| ["--torch".into(), torch.clone()]));
        words.extend(point.python.iter().flat_map(|python| ["--python".into(), python.to_string()]));
        cells += &format!("    {}\n", rocwheel_recipe::script::quoted(&words.join(" ")));
        let source = origin.as_ref().map(|origin| format!("--{} {}", origin.option().0, origin.option().1));
        sources += &format!("    {}\n", rocwheel_recipe::script::quoted(&source.unwrap_or_default()));
    }
    format!(
        r#"#!/bin/bash
#SBATCH --job-name=rocwheel
#SBATCH --array=0-{last}
#SBATCH --output=rocwheel-%A_%a.log
#SBATCH --open-mode=append
#SBATCH --requeue
# Made by `rocwheel matrix --format slurm`. `sbatch FILE --output DIR --rocm-sdk KIND=PLACE` gives these options to every build.
# SOURCE names other sources, in which {{version}} stands for the version of the cell. EXECUTOR=docker or podman builds in containers.
cells=(
{cells})
sources=(
{sources})
read -ra words <<<"${{cells[$SLURM_ARRAY_TASK_ID]}}"
read -ra origin <<<"${{sources[$SLURM_ARRAY_TASK_ID]}}"
[ -z "${{SOURCE:-}}" ] || origin=(--source "${{SOURCE//"{{version}}"/${{words[0]}}}}")
# A task builds, also where rocwheel.toml says that builds are submitted.
case " $* " in
    *" --executor"*) ;;
    *) origin+=(--executor "${{EXECUTOR:-here}}") ;;
esac
{task}"#,
        last = rows.len().saturating_sub(1),
        task = task(r#"rocwheel build "${words[@]:1}" "${origin[@]}" --jobs "${SLURM_CPUS_PER_TASK:-1}" "$@""#),
    )
}
