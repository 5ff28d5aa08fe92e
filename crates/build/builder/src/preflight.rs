//! Input: the resources that a recipe takes and those of the machine. Output: the number of
//! parallel compilers, and problems that would otherwise appear after hours.

#![allow(
    clippy::cast_precision_loss,
    reason = "bytes and files are counted in numbers far below 2^52, and shown with a digit or two"
)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use rocwheel_progress::Failure;
use serde::Serialize;
use walkdir::WalkDir;

use rocwheel_recipe::Evaluated;

use crate::error;

/// Bytes of a decimal GB, the unit of memory in recipes.
const GB: f64 = 1e9;
/// Space for the environment and the flags, besides the names of the object files.
const OTHER_ARGUMENTS: u64 = 32 << 10;
/// Each argument takes a pointer and a terminating zero besides its characters.
const PER_ARGUMENT: u64 = 9;

/// The machine's resources, within the limits of this process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: u16,
    /// Memory in bytes; `None`: unknown.
    pub memory: Option<u64>,
    /// The limit that reduces the memory, in words; `None`: there is none.
    pub limited_by: Option<String>,
    /// Free bytes on the disk of the work folder; `None`: unknown.
    pub disk: Option<u64>,
    /// Largest size of one program's arguments in bytes; `None`: no limit is known.
    pub arguments: Option<u64>,
}

/// The number of parallel compilers, and its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Jobs {
    pub count: u16,
    /// The reason, in words.
    pub reason: String,
}

/// The estimated compilation work.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Estimated {
    /// Number of files.
    pub units: u64,
    /// Time in minutes at the recipe's speed; `None`: the recipe has none.
    pub minutes: Option<f64>,
    /// Size in bytes of the command that links them.
    pub link_bytes: u64,
}

impl Machine {
    /// Reads the resources of this machine. `root` is `/` except in tests. `work` is the folder of
    /// the work; it need not exist.
    pub fn look(root: &Path, work: &Path) -> Machine {
        let cores =
            std::thread::available_parallelism().map_or(1, |cores| u16::try_from(cores.get()).unwrap_or(u16::MAX));
        let total = meminfo(root);
        let limit = cgroup_limit(root);
        let (memory, limited_by) = match (total, limit) {
            (Some(total), Some((limit, by))) if limit < total => (Some(limit), Some(by)),
            (total, limit) => (total.or(limit.map(|(limit, _)| limit)), None),
        };
        Machine { cores, memory, limited_by, disk: free(work), arguments: rocwheel_system::argument_limit() }
    }

    /// The number of parallel compilers: `said` if the user gave a number, otherwise as many as
    /// cores and memory allow.
    pub fn jobs(&self, recipe: &Evaluated, said: Option<u16>) -> Jobs {
        if let Some(count) = said {
            return Jobs { count, reason: "as asked for".into() };
        }
        let each = recipe.cost.memory_per_job.max(0.1);
        let Some(memory) = self.memory else {
            return Jobs { count: self.cores, reason: format!("{} cores", self.cores) };
        };
        let fitting = ((memory as f64 / GB / each) as u64).clamp(1, u64::from(u16::MAX)) as u16;
        let by = self.limited_by.as_ref().map(|by| format!(" that {by} allows")).unwrap_or_default();
        let memory = format!("{:.1} GB of memory{by}, {each} GB each", memory as f64 / GB);
        let reason = if fitting < self.cores { memory } else { format!("{} cores; {memory}", self.cores) };
        Jobs { count: fitting.min(self.cores).max(1), reason }
    }

    /// Checks in advance that the build will not fail for lack of resources. What an earlier run
    /// has left in the job's folder counts.
    ///
    /// # Errors
    /// The disk has too little space.
    pub fn check(&self, recipe: &Evaluated, job: &Path) -> Result<(), Failure> {
        let files = WalkDir::new(job).into_iter().filter_map(Result::ok).filter(|entry| entry.file_type().is_file());
        let there: u64 = files.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum();
        match self.disk {
            Some(disk) if ((disk + there) as f64) < recipe.cost.disk * GB => Err(error::preflight(
                &recipe.title(),
                &format!(
                    "{:.1} GB are free where it is built{}, and it takes about {} GB",
                    disk as f64 / GB,
                    if there > 0 {
                        format!(", an earlier run has {:.1} GB there", there as f64 / GB)
                    } else {
                        String::new()
                    },
                    recipe.cost.disk
                ),
                "free some, name a folder on another disk with `--work`, or skip the check with `--no-preflight`",
            )),
            _ => Ok(()),
        }
    }
}

impl Estimated {
    /// The estimate for these files, with their objects in `folder`.
    pub(crate) fn new(files: &[PathBuf], folder: &str, per_minute: f64) -> Estimated {
        let units = files.len() as u64;
        let names: u64 = files
            .iter()
            .map(|file| file.file_stem().map_or(0, |stem| stem.len() as u64))
            .map(|stem| folder.len() as u64 + 1 + stem + ".o".len() as u64 + PER_ARGUMENT)
            .sum();
        let minutes = (per_minute > 0.0).then(|| units as f64 / per_minute);
        Estimated { units, minutes, link_bytes: if units == 0 { 0 } else { names + OTHER_ARGUMENTS } }
    }

    pub fn time(&self) -> Option<String> {
        Some(rocwheel_recipe::duration::words(Duration::from_secs_f64(self.minutes? * 60.0)))
    }
}

/// The time that a build for one GPU target will take, if a run of it was recorded: its processor
/// time, divided among the compilers that run at once.
pub(crate) fn expected(recipe: &Evaluated, jobs: u16) -> Option<String> {
    let recorded = Duration::from_secs(recipe.cost.recorded?);
    let targets = match recipe.targets.names.len() {
        0 | 1 => String::new(),
        count => format!(" for one of the {count} GPU targets"),
    };
    let [here, whole] = [recorded / u32::from(jobs.max(1)), recorded].map(rocwheel_recipe::duration::words);
    Some(format!("about {here} on {jobs} free cores{targets}; a recorded run took {whole} of processor time"))
}

/// Makes room for the link command. The stack limit decides how long a command may be, and a
/// process may raise its own within the hard limit.
///
/// # Errors
/// The command does not fit even with the largest limit.
pub(crate) fn make_room(job: &str, estimated: &Estimated) -> Result<(), Failure> {
    let Some(limit) = rocwheel_system::argument_limit() else { return Ok(()) };
    if estimated.link_bytes <= limit {
        return Ok(());
    }
    let limit = rocwheel_system::raise_argument_limit(estimated.link_bytes).unwrap_or(limit);
    if estimated.link_bytes <= limit {
        return Ok(());
    }
    Err(error::preflight(
        job,
        &format!(
            "the command that links {} files has about {} bytes, and the system takes {limit}",
            estimated.units, estimated.link_bytes
        ),
        "raise the stack limit (`ulimit -s 65536`), use a shorter path with `--work`, or build fewer GPU targets at once",
    ))
}

/// Memory of the machine in bytes.
fn meminfo(root: &Path) -> Option<u64> {
    let text = fs_err::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The lowest memory limit of the control groups of this process: version 2, otherwise version 1.
fn cgroup_limit(root: &Path) -> Option<(u64, String)> {
    let groups = fs_err::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut lowest: Option<u64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (base, file) = match (number, controllers) {
            ("0", "") => (root.join("sys/fs/cgroup"), "memory.max"),
            (_, controllers) if controllers.split(',').any(|name| name == "memory") => {
                (root.join("sys/fs/cgroup/memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // A limit counts for all groups below it. In a container the group's own path may not
        // exist, and the root is the group.
        let inside = base.join(path.trim_start_matches('/'));
        for folder in inside.ancestors().take_while(|folder| folder.starts_with(&base)) {
            let limit = fs_err::read_to_string(folder.join(file)).ok().and_then(|text| text.trim().parse::<u64>().ok());
            lowest = [lowest, limit].into_iter().flatten().min();
        }
    }
    // Version 1 writes "no limit" as a number that no machine has.
    lowest.filter(|limit| *limit < 1 << 60).map(|limit| (limit, "the control group".into()))
}

fn free(work: &Path) -> Option<u64> {
    rocwheel_system::free_space(work.ancestors().find(|folder| folder.exists())?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> Machine {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        Machine::look(root.path(), root.path())
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:       65536000 kB\nMemFree: 1 kB\n");

    #[test]
    fn limits_of_control_groups_count() {
        assert_eq!(machine(&[MEMINFO]).memory, Some(65_536_000 * 1024));
        let two = machine(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/user.slice/session\n"),
            ("sys/fs/cgroup/user.slice/session/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "8000000000\n"),
        ]);
        assert_eq!((two.memory, two.limited_by.as_deref()), (Some(8_000_000_000), Some("the control group")));
        // In a container the path is the host's.
        let container =
            machine(&[MEMINFO, ("proc/self/cgroup", "0::/../host/path\n"), ("sys/fs/cgroup/memory.max", "4000000000")]);
        assert_eq!(container.memory, Some(4_000_000_000));
        let one = machine(&[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/a\n0::/\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000000000"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
        ]);
        assert_eq!(one.memory, Some(2_000_000_000));
    }

    #[test]
    fn an_estimate_counts_files_and_the_bytes_of_their_link() {
        let files: Vec<PathBuf> =
            (0..2775).map(|number| PathBuf::from(format!("x/fmha_fwd_{number:04}.cpp"))).collect();
        let estimated = Estimated::new(&files, "/jobs/build/temp", 19.0);
        assert_eq!(estimated.units, 2775);
        assert_eq!(estimated.link_bytes, 2775 * (16 + 1 + 13 + 2 + 9) + (32 << 10));
        assert_eq!(estimated.time().unwrap(), "2 h 26 min");
        let too_long = Estimated { link_bytes: 7 << 20, ..estimated };
        let error = make_room("flash-attn", &too_long).unwrap_err();
        assert!(error.to_string().contains("the system takes 6291456"), "{error}");
    }
}
