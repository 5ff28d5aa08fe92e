//! Input: the name of a program, or a running one. Output: its path; the end of it and of every
//! process that it has started.

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::system::Group;

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

/// The name under which installers put Python on PATH. The `python3` of Windows is a program that
/// opens its shop.
pub const PYTHON: &str = if cfg!(windows) { "python" } else { "python3" };

/// The path at which a virtual environment has a program such as `python` or `pip`.
pub fn program_of(environment: &Path, name: &str) -> PathBuf {
    if cfg!(windows) {
        environment.join("Scripts").join(format!("{name}.exe"))
    } else {
        environment.join("bin").join(name)
    }
}

/// The value of a key of `pyvenv.cfg`, the settings of a virtual environment, as Python reads it.
pub fn environment_setting<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case(key)).map(|(_, value)| value.trim())
}

/// A child, and every process that it has started. On Unix it is a process group, on Windows a job.
///
/// Dropping it ends nothing.
#[derive(Debug)]
pub struct RunningGroup {
    child: Child,
    group: Group,
}

impl RunningGroup {
    /// Starts a program in a new group.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let (child, group) = Group::start(command)?;
        Ok(Self { child, group })
    }

    /// Sends Ctrl-C to the whole group; on Windows Ctrl-Break, which alone reaches a group.
    pub fn interrupt(&mut self) {
        self.group.interrupt();
    }

    /// Asks the whole group to end, and kills the processes that are left after `patience`.
    pub fn end(&mut self, patience: Duration) {
        self.group.ask_to_end();
        let end = Instant::now() + patience;
        while Instant::now() < end {
            // A child stays in the group until it is waited for. Other members are gone when no
            // process of the group can receive a signal.
            let _ = self.child.try_wait();
            if self.group.is_empty() {
                return;
            }
            thread::sleep(TICK);
        }
        self.group.kill();
    }
}

impl Deref for RunningGroup {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for RunningGroup {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that this system can execute, and its content.
    const TOOL: (&str, &str) = if cfg!(windows) { ("tool.bat", "@exit\r\n") } else { ("tool", "#!/bin/sh\n") };

    #[test]
    fn programs_are_found_in_absolute_folders_only_and_when_they_can_be_executed() {
        let folder = tempfile::tempdir().unwrap();
        // Windows separates folders with `;`, and a folder may have one in its name.
        let odd = if cfg!(windows) { "second;one" } else { "second" };
        let (first, second) = (folder.path().join("first"), folder.path().join(odd));
        for (path, name) in [(&first, "tool"), (&second, TOOL.0)] {
            fs_err::create_dir(path).unwrap();
            fs_err::write(path.join(name), TOOL.1).unwrap();
        }
        let tool = second.join(TOOL.0);
        crate::set_mode(&tool, 0o755).unwrap();
        let path = std::env::join_paths([Path::new("relative"), &first, &second]).unwrap().into_string().unwrap();
        // Windows adds the extension as PATHEXT has it.
        let found = find_program("tool", &path).unwrap();
        assert!(is_same_path(&found, &tool), "{}", found.display());
        assert_eq!(find_program("tool", &first.display().to_string()), None);
        assert_eq!(find_program("./tool", &path), None);
        assert_eq!(find_program("tool", ""), None);
    }

    fn is_same_path(one: &Path, other: &Path) -> bool {
        one == other || cfg!(windows) && one.to_string_lossy().eq_ignore_ascii_case(&other.to_string_lossy())
    }

    #[cfg(unix)]
    #[test]
    fn a_group_ends_with_everything_it_started_also_if_it_does_not_want_to() {
        use std::io::{BufRead as _, BufReader, Read as _};
        use std::process::Stdio;
        for (trap, patience) in [("", 60), ("trap '' TERM;", 0)] {
            let script = format!("{trap} (sleep 30; echo went on) & echo ready; sleep 60");
            let mut shell = Command::new("sh");
            let mut running = RunningGroup::start(shell.args(["-c", &script]).stdout(Stdio::piped())).unwrap();
            let mut output = BufReader::new(running.stdout.take().unwrap());
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            running.end(Duration::from_secs(patience));
            // The output ends when no process has it open any more.
            let mut rest = String::new();
            output.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "");
            assert!(!running.wait().unwrap().success());
        }
    }

    #[test]
    fn settings_of_an_environment_are_read_as_python_does() {
        let text = "home = /usr/bin\nInclude-System-Site-Packages=TRUE\nprompt = a = b\n";
        assert_eq!(environment_setting(text, "include-system-site-packages"), Some("TRUE"));
        assert_eq!((environment_setting(text, "prompt"), environment_setting(text, "uv")), (Some("a = b"), None));
    }
}
