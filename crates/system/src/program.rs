//! Input: the name of a program, or a running one. Output: its path; the end of it and of every
//! process that it has started.

use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a group that was asked to end is checked.
const TICK: Duration = Duration::from_millis(20);

/// Finds a program in a list of folders in the format of PATH. Relative folders are skipped,
/// because the working directory is not the user's; `None` for a name that contains a folder.
pub fn find_program(name: &str, path: &str) -> Option<PathBuf> {
    if name.contains(['/', '\\']) {
        return None;
    }
    let folders = std::env::join_paths(std::env::split_paths(path).filter(|folder| folder.is_absolute())).ok()?;
    which::which_in_global(name, Some(folders)).ok()?.next()
}

/// A child that was started with [`start_in_group`](crate::start_in_group), and every process that
/// it has started.
pub struct RunningGroup<'a>(pub &'a mut Child);

impl RunningGroup<'_> {
    /// Asks the whole group to end, and kills the processes that are left after `patience`.
    pub fn end(self, patience: Duration) {
        let Some(group) = crate::unix::Group::of(self.0) else { return };
        group.ask_to_end();
        let end = Instant::now() + patience;
        while Instant::now() < end {
            // A child stays in the group until it is waited for. Other members are gone when no
            // process of the group can receive a signal.
            let _ = self.0.try_wait();
            if group.is_empty() {
                return;
            }
            thread::sleep(TICK);
        }
        group.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn programs_are_found_in_absolute_folders_only_and_when_they_can_be_executed() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        for path in [&first, &second] {
            fs_err::create_dir(path).unwrap();
            fs_err::write(path.join("tool"), "#!/bin/sh\n").unwrap();
        }
        crate::set_mode(second.join("tool"), 0o755).unwrap();
        let path = format!("relative:{}:{}", first.display(), second.display());
        assert_eq!(find_program("tool", &path), Some(second.join("tool")));
        assert_eq!(find_program("tool", &first.display().to_string()), None);
        assert_eq!(find_program("./tool", &path), None);
        assert_eq!(find_program("tool", ""), None);
    }

    #[test]
    fn a_group_ends_with_everything_it_started_also_if_it_does_not_want_to() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        for (trap, patience) in [("", 5000), ("trap '' TERM;", 200)] {
            let script = format!("{trap} (sleep 2; touch {}) & echo; sleep 60", mark.display());
            let mut command = Command::new("sh");
            crate::start_in_group(command.args(["-c", &script]));
            let mut child = command.spawn().unwrap();
            thread::sleep(Duration::from_millis(100));
            let begun = Instant::now();
            RunningGroup(&mut child).end(Duration::from_millis(patience));
            assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
            assert!(!child.wait().unwrap().success());
        }
        thread::sleep(Duration::from_millis(2200));
        assert!(!mark.exists(), "what it had started went on");
    }
}
