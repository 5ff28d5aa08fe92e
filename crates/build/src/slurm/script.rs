//! Cells that are missing as one script for sbatch, for those who submit by themselves.

use crate::matrix::{Origin, Row};

/// A script with a task for each cell. What follows it on the command line of sbatch goes to every build.
pub fn script(rows: &[(&Row, Option<Origin>)]) -> String {
    let (mut cells, mut sources) = (String::new(), String::new());
    for (row, origin) in rows {
        let point = &row.point;
        let mut words = vec![point.version.clone(), point.recipe.clone(), "--backend".into(), point.backend.clone()];
        words.extend(["--rocm".into(), point.rocm.clone()]);
        words.extend(point.torch.iter().flat_map(|torch| ["--torch".into(), torch.clone()]));
        words.extend(point.python.iter().flat_map(|python| ["--python".into(), python.to_string()]));
        cells += &format!("    {}\n", crate::script::quoted(&words.join(" ")));
        let source = origin.as_ref().map(|origin| format!("--{} {}", origin.option().0, origin.option().1));
        sources += &format!("    {}\n", crate::script::quoted(&source.unwrap_or_default()));
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
code=0
rocwheel build "${{words[@]:1}}" "${{origin[@]}}" --jobs "${{SLURM_CPUS_PER_TASK:-1}}" "$@" || code=$?
# Stopped at --time-limit, or something temporary: it goes on later.
case $code in
    3 | 4) [ "${{SLURM_RESTART_COUNT:-0}}" -ge 50 ] || scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID" ;;
esac
exit $code
"#,
        last = rows.len().saturating_sub(1),
    )
}
