//! Input: the cells of a plan. Output: job arrays and their scripts for sbatch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Launch, script};
use rocwheel_recipe::plan::{Plan, PlanFolder, PlannedCell, Requests};

/// Minutes that a task gets beyond its own limit, so that it can stop by itself.
const GRACE: u64 = 10;

/// Cells of one kind that are submitted together.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    pub name: String,
    /// Number of its group in the plan.
    pub group: usize,
    /// The column that task 0 belongs to.
    pub first: usize,
    /// Number of each task → identifier of the cell.
    pub tasks: BTreeMap<usize, String>,
    pub requests: Requests,
    /// Indices of earlier arrays in which each task waits for the task of its own number.
    pub one_by_one: Vec<usize>,
    /// Indices of earlier arrays that have to end before any task begins.
    pub as_a_whole: Vec<usize>,
}

/// The arrays for some cells of a plan, in the order in which they are submitted. Task numbers are
/// below `largest`.
pub fn arrays(plan: &Plan, wanted: &[String], largest: usize) -> Vec<Array> {
    let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    let mut arrays: Vec<Array> = Vec::new();
    // Cell → index of its array.
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for cell in plan.to_build().filter(|cell| wanted.contains(cell.id.as_str())) {
        let Some((group, column)) = cell.place() else { continue };
        let (task, first) = (column % largest, column - column % largest);
        let known = arrays.iter().position(|array| array.group == group && array.first == first);
        let at = known.unwrap_or_else(|| {
            arrays.push(Array {
                name: cell.recipe.clone(),
                group,
                first,
                tasks: BTreeMap::new(),
                requests: cell.requests,
                one_by_one: Vec::new(),
                as_a_whole: Vec::new(),
            });
            arrays.len() - 1
        });
        arrays[at].tasks.insert(task, cell.id.clone());
        places.insert(&cell.id, at);
    }
    let cells: BTreeMap<&str, &PlannedCell> = plan.cells.iter().map(|cell| (cell.id.as_str(), cell)).collect();
    for at in 0..arrays.len() {
        let (mut same, mut whole) = (BTreeSet::new(), BTreeSet::new());
        for (task, id) in &arrays[at].tasks {
            let Some(cell) = cells.get(id.as_str()) else { continue };
            for before in &cell.needs {
                let Some(&place) = places.get(before.as_str()) else { continue };
                let is_same = arrays[place].tasks.get(task) == Some(before);
                if is_same {
                    same.insert(place)
                } else {
                    whole.insert(place)
                };
            }
        }
        // `aftercorr` needs a task of the same number for each task.
        for place in same {
            if !arrays[at].tasks.keys().all(|task| arrays[place].tasks.contains_key(task)) {
                whole.insert(place);
            } else if !whole.contains(&place) {
                arrays[at].one_by_one.push(place);
            }
        }
        arrays[at].as_a_whole = whole.into_iter().collect();
    }
    arrays
}

impl Array {
    /// The value of `--dependency`. `jobs` are Slurm's job numbers of the arrays before this one.
    pub(super) fn dependency(&self, jobs: &[u64]) -> Option<String> {
        // Each cell checks by itself that its inputs were built: with `afterok` of an array, one
        // failure would stop all cells.
        let kinds = [("aftercorr", &self.one_by_one), ("afterany", &self.as_a_whole)].into_iter();
        let parts = kinds.filter_map(|(kind, places)| {
            let jobs: Vec<String> = places.iter().filter_map(|place| Some(format!(":{}", jobs.get(*place)?))).collect();
            (!jobs.is_empty()).then(|| format!("{kind}{}", jobs.concat()))
        });
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| parts.join(","))
    }

    pub(super) fn script(&self, folder: &PlanFolder, launch: &Launch, logs: &Path, dependency: Option<&str>) -> String {
        self.text(folder.path(), launch, logs, dependency)
    }

    fn text(&self, plan: &Path, launch: &Launch, logs: &Path, dependency: Option<&str>) -> String {
        let mut options = vec![
            format!("--job-name=rocwheel-{}", self.name),
            format!("--array={}", ranges(self.tasks.keys().copied())),
            format!("--cpus-per-task={}", self.requests.cpus),
            format!("--mem={}M", self.requests.memory),
            // `%` begins a placeholder of sbatch.
            format!("--output={}/%A_%a.log", logs.to_string_lossy().replace('%', "%%")),
            "--open-mode=append".to_owned(),
            "--requeue".to_owned(),
            "--kill-on-invalid-dep=yes".to_owned(),
        ];
        let minutes = launch.limit.map(|limit| limit + GRACE).or(self.requests.minutes);
        options.extend(minutes.map(|minutes| format!("--time={minutes}")));
        options.extend(dependency.iter().map(|dependency| format!("--dependency={dependency}")));
        let lines: Vec<String> = options.iter().map(|option| format!("#SBATCH {}\n", of_directive(option))).collect();
        let task = match self.first {
            0 => "$SLURM_ARRAY_TASK_ID".to_owned(),
            first => format!("$((SLURM_ARRAY_TASK_ID + {first}))"),
        };
        let mut command = vec![
            word(&launch.program.to_string_lossy()),
            "build".to_owned(),
            format!("plan {}", word(&plan.to_string_lossy())),
            format!("--cell \"{}.{task}\"", self.group),
            "--jobs \"${SLURM_CPUS_PER_TASK:-1}\"".to_owned(),
        ];
        command.extend(launch.limit.map(|limit| format!("--time-limit {limit}m")));
        command.extend(launch.options.iter().map(|option| word(option)));
        let mut first = String::new();
        if !launch.first.is_empty() {
            let words: Vec<String> = launch.first.iter().map(|option| word(option)).collect();
            first = format!("[ \"${{SLURM_RESTART_COUNT:-0}}\" -gt 0 ] || set -- {}\n", words.join(" "));
            command.push("\"$@\"".to_owned());
        }
        format!("#!/bin/sh\n{}\n# Made by rocwheel.\n{first}{}", lines.concat(), script::task(&command.join(" ")))
    }
}

/// A single-quoted shell word, in which nothing is expanded.
fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// An option for a `#SBATCH` line. Spaces separate words there too, and `#` begins a comment.
fn of_directive(option: &str) -> String {
    if option.contains([' ', '\t', '"', '\'', '\\', '#']) {
        format!("\"{}\"", option.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        option.to_owned()
    }
}

/// Numbers in the format of sbatch: `0-3,7`.
pub(crate) fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text =
        |(first, last): &(usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn plan(cells: &[(&str, &[&str])]) -> Plan {
        let cells = cells.iter().map(|(id, needs)| PlannedCell {
            id: (*id).to_owned(),
            title: (*id).to_owned(),
            recipe: format!("recipe{}", &id[..1]),
            key: (*id).to_owned(),
            needs: needs.iter().map(|&id| id.to_owned()).collect(),
            installs: true,
            folder: String::new(),
            left_out: None,
            requests: Requests { cpus: 2, memory: 500, minutes: Some(90) },
        });
        Plan { schema: 1, output: PathBuf::from("/out"), work: PathBuf::from("/work"), cells: cells.collect() }
    }

    fn all(plan: &Plan) -> Vec<String> {
        plan.cells.iter().map(|cell| cell.id.clone()).collect()
    }

    #[test]
    fn cells_of_a_column_wait_for_each_other() {
        let plan =
            plan(&[("0.0", &[]), ("0.1", &[]), ("0.2", &[]), ("1.0", &["0.0"]), ("1.2", &["0.2"]), ("2.0", &["0.1"])]);
        let made = arrays(&plan, &all(&plan), 1000);
        assert_eq!(
            made.iter().map(|array| ranges(array.tasks.keys().copied())).collect::<Vec<_>>(),
            ["0-2", "0,2", "0"]
        );
        let waits: Vec<_> = made.iter().map(|array| array.dependency(&[7, 8, 9])).collect();
        // The last array waits for a cell of another column, and so for all cells of that array.
        assert_eq!(waits, [None, Some("aftercorr:7".to_owned()), Some("afterany:7".to_owned())]);
    }

    #[test]
    fn large_arrays_are_cut_at_the_same_columns() {
        let ids: Vec<(String, String)> = (0..25).map(|column| (format!("0.{column}"), format!("1.{column}"))).collect();
        let needs: Vec<[&str; 1]> = ids.iter().map(|(before, _)| [before.as_str()]).collect();
        let mut cells: Vec<(&str, &[&str])> = ids.iter().map(|(before, _)| (before.as_str(), &[][..])).collect();
        cells.extend(ids.iter().zip(&needs).map(|((_, id), needs)| (id.as_str(), &needs[..])));
        let plan = plan(&cells);
        let made = arrays(&plan, &all(&plan), 10);
        assert_eq!(made.len(), 6);
        assert!(made.iter().all(|array| array.tasks.keys().all(|task| *task < 10)));
        assert_eq!(made[5].first, 20);
        assert_eq!(made[5].one_by_one, [2]);
        // Cells that are already built are not waited for.
        let rest: Vec<String> = all(&plan).into_iter().filter(|id| id.starts_with("1.")).collect();
        assert!(
            arrays(&plan, &rest, 10).iter().all(|array| array.one_by_one.is_empty() && array.as_a_whole.is_empty())
        );
    }

    #[test]
    fn paths_are_what_they_are_and_steps_begin_again_once() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("$HOME 50% #1 it's");
        fs_err::create_dir_all(&odd).unwrap();
        let program = odd.join("rocwheel");
        fs_err::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
        rocwheel_fixtures::make_program(&program);
        let plan = plan(&[("0.0", &[])]);
        let array = arrays(&plan, &all(&plan), 10).remove(0);
        let launch = Launch {
            program,
            options: vec!["--interpreter".into(), "/$x/python".into()],
            first: vec!["--from".into(), "wheel".into()],
            sbatch: Vec::new(),
            limit: None,
        };
        let text = array.text(&odd, &launch, &odd, None);
        let shown = odd.display().to_string().replace('%', "%%");
        assert!(text.contains(&format!("\n#SBATCH \"--output={shown}/%A_%a.log\"\n")), "{text}");
        let said = |count: &str| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &text]).env("SLURM_ARRAY_TASK_ID", "7").env("SLURM_RESTART_COUNT", count);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let plan = odd.display();
        let always = format!("build\nplan\n{plan}\n--cell\n0.7\n--jobs\n1\n--interpreter\n/$x/python\n");
        assert_eq!(said("0"), format!("{always}--from\nwheel\n"));
        assert_eq!(said("1"), always);
    }

    #[test]
    fn a_task_that_is_cancelled_may_write_down_how_far_it_came() {
        // Slurm signals all processes of a task, and its end is the end of the shell.
        let text = script::task("sh -c 'trap \"sleep 0.3; echo written; exit 130\" TERM; kill 0; sleep 9'");
        let ran = std::process::Command::new("setsid").args(["--wait", "sh", "-c", &text]).output().unwrap();
        assert_eq!((ran.status.code(), &*ran.stdout), (Some(130), &b"written\n"[..]), "{ran:?}");
    }

    #[test]
    fn numbers_are_written_as_ranges() {
        assert_eq!(ranges([0, 1, 2, 5, 7, 8].into_iter()), "0-2,5,7-8");
        assert_eq!(of_directive("--output=/a b/%A.log"), "\"--output=/a b/%A.log\"");
    }
}
