//! Input: what the lock of a folder says of a run that was killed there. Output: its git has ended,
//! and what git had begun to write is gone.
//!
//! A process that is killed (SIGKILL, out of memory) cannot end what it has started: a `git fetch`
//! goes on alone, and one that is killed with it leaves lock files, at which every later git stops,
//! and halves of packs.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rocwheel_system::PositionedWriter;

/// Names the folder of the lock in the environment of each git. A run may be killed after it has
/// started a git and before it has written down which.
pub(super) const VARIABLE: &str = "ROCWHEEL_CHECKOUT";

/// How long processes may take to disappear once they are killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Folders inside of git's in which nothing is looked for: other work trees are somebody else's,
/// and what else ends in `.lock` is not git's.
const NOT_OURS: [&str; 4] = ["worktrees", "hooks", "lfs", "rocwheel"];

/// What the lock says while a run has it: the group of the git that it has started last, and when
/// that began. Empty: the run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Number of the group; 0 before the first one.
    group: i32,
    /// Ticks of the kernel's clock since it was started.
    begun: u64,
}

impl Mark {
    /// A run that has started nothing yet.
    pub(super) const NOTHING: Mark = Mark { group: 0, begun: 0 };

    /// The group that a process leads.
    pub(super) fn of(group: u32) -> Mark {
        let group = group.cast_signed();
        Mark { group, begun: Process::read(group).map_or(0, |process| process.begun) }
    }

    /// Reads the mark of a run that did not end.
    pub(super) fn read(lock: &mut fs_err::File) -> io::Result<Option<Mark>> {
        let mut text = String::new();
        lock.read_to_string(&mut text)?;
        let mut numbers = text.split_whitespace();
        let (group, begun) = (numbers.next(), numbers.next());
        let (Some(group), Some(begun)) = (group, begun) else { return Ok(None) };
        Ok(group.parse().ok().zip(begun.parse().ok()).map(|(group, begun)| Mark { group, begun }))
    }

    /// Writes it, always in the same number of bytes: one write, which is there as a whole or not
    /// at all.
    pub(super) fn write(self, lock: &fs_err::File) -> io::Result<()> {
        PositionedWriter::new(lock.file(), 0).write_all(format!("{:<12} {:<24}\n", self.group, self.begun).as_bytes())
    }

    /// Ends what is left of the group, and every git that was started for the folder of the lock.
    pub(super) fn end(self, own: &Path) {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let left = self.members(own);
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(rocwheel_system::kill_process);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Processes of the group that are git's, and those whose environment names the folder. Numbers
    /// are used again, so a name that is not git's is another group's.
    fn members(self, own: &Path) -> Vec<i32> {
        let Ok(entries) = fs_err::read_dir("/proc") else { return Vec::new() };
        let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let is_member = |number: &i32| {
            Process::read(*number).is_some_and(|process| {
                let is_ours = self.group != 0 && process.group == self.group && process.begun >= self.begun;
                process.is_git && !process.is_over && (is_ours || names(*number, own))
            })
        };
        numbers.filter(is_member).collect()
    }
}

/// Whether the environment that a process was started with names a folder.
fn names(number: i32, own: &Path) -> bool {
    let Ok(environment) = fs_err::read(format!("/proc/{number}/environ")) else { return false };
    let wanted = [VARIABLE.as_bytes(), b"=", own.as_os_str().as_encoded_bytes()].concat();
    environment.split(|byte| *byte == 0).any(|one| one == wanted)
}

/// What the kernel says of a process (proc_pid_stat(5)).
struct Process {
    group: i32,
    begun: u64,
    is_git: bool,
    /// Dead, and only not waited for.
    is_over: bool,
}

impl Process {
    fn read(number: i32) -> Option<Process> {
        let text = fs_err::read(format!("/proc/{number}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        // The name is in parentheses and may have some itself.
        let (head, rest) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Process {
            group: fields.get(2)?.parse().ok()?,
            begun: fields.get(19)?.parse().ok()?,
            is_git: name.starts_with("git"),
            is_over: matches!(*fields.first()?, "Z" | "X"),
        })
    }
}

/// Removes the lock files, halves of packs and temporary files that a killed git has left in its
/// folder and in those of submodules.
pub(super) fn remove_remains(directory: &Path) -> io::Result<()> {
    for entry in fs_err::read_dir(directory)? {
        let (path, name, kind) = {
            let entry = entry?;
            (entry.path(), entry.file_name().to_string_lossy().into_owned(), entry.file_type()?)
        };
        if kind.is_dir() {
            if name == "objects" {
                remove_temporary(&path)?;
            } else if !NOT_OURS.contains(&name.as_str()) {
                remove_remains(&path)?;
            }
        } else if is_lock(&path) {
            fs_err::remove_file(path)?;
        }
    }
    Ok(())
}

fn is_lock(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "lock")
}

/// Removes what git was writing into a store of objects: everything whose name begins with `tmp_`,
/// and locks.
fn remove_temporary(objects: &Path) -> io::Result<()> {
    for entry in fs_err::read_dir(objects)? {
        let (path, name, kind) = {
            let entry = entry?;
            (entry.path(), entry.file_name().to_string_lossy().into_owned(), entry.file_type()?)
        };
        let is_temporary = name.starts_with("tmp_") || name.starts_with(".tmp-") || is_lock(&path);
        match (is_temporary, kind.is_dir()) {
            (true, true) => fs_err::remove_dir_all(path)?,
            (true, false) => fs_err::remove_file(path)?,
            (false, true) => remove_temporary(&path)?,
            (false, false) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rocwheel_system::start_in_group;

    use super::*;

    #[test]
    fn the_git_of_a_killed_run_is_ended_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        // Stands for git: what counts is its name.
        let sleep =
            String::from_utf8(Command::new("sh").args(["-c", "command -v sleep"]).output().unwrap().stdout).unwrap();
        let git = folder.path().join("git-fetch");
        fs_err::copy(sleep.trim(), &git).unwrap();
        let mut child = start_in_group(Command::new(&git).arg("300")).stdin(Stdio::null()).spawn().unwrap();
        let mut other = start_in_group(Command::new("sleep").arg("300")).stdin(Stdio::null()).spawn().unwrap();
        let mark = Mark::of(child.id());
        let path = folder.path().join("lock");
        Mark::NOTHING.write(&fs_err::File::create(&path).unwrap()).unwrap();
        mark.write(&fs_err::OpenOptions::new().write(true).open(&path).unwrap()).unwrap();
        assert_eq!(Mark::read(&mut fs_err::File::open(&path).unwrap()).unwrap(), Some(mark));
        // Another process that has the number by now, and one of another name.
        Mark { begun: u64::MAX, ..mark }.end(folder.path());
        Mark::of(other.id()).end(folder.path());
        assert!(child.try_wait().unwrap().is_none() && other.try_wait().unwrap().is_none());
        // One that was started for another folder, and one of this folder that nobody has written
        // down.
        let start = |own: &Path| {
            let mut command = Command::new(&git);
            start_in_group(command.arg("300")).stdin(Stdio::null()).env(VARIABLE, own).spawn().unwrap()
        };
        let (mut unknown, mut elsewhere) = (start(folder.path()), start(&folder.path().join("x")));
        Mark::NOTHING.end(folder.path());
        assert!(!unknown.wait().unwrap().success() && elsewhere.try_wait().unwrap().is_none());
        elsewhere.kill().unwrap();
        elsewhere.wait().unwrap();
        assert!(child.try_wait().unwrap().is_none());
        mark.end(folder.path());
        assert!(!child.wait().unwrap().success());
        other.kill().unwrap();
        other.wait().unwrap();
        fs_err::write(&path, "").unwrap();
        assert_eq!(Mark::read(&mut fs_err::File::open(&path).unwrap()).unwrap(), None);
    }

    #[test]
    fn remains_go_and_everything_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let remains = [
            "index.lock",
            "refs/tags/x.lock",
            "objects/pack/tmp_pack_1",
            "objects/ab/tmp_obj_2",
            "objects/tmp_objdir-1/a",
            "modules/a/b/shallow.lock",
            "modules/a/b/objects/pack/.tmp-3-pack",
        ];
        let others = [
            "index",
            "refs/heads/tmp_branch",
            "objects/pack/pack-1.pack",
            "worktrees/w/index.lock",
            "rocwheel/lock",
            "lfs/x.lock",
        ];
        for path in remains.iter().chain(&others) {
            let path = folder.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, "").unwrap();
        }
        remove_remains(folder.path()).unwrap();
        assert!(remains.iter().all(|path| !folder.path().join(path).exists()));
        assert!(others.iter().all(|path| folder.path().join(path).exists()));
    }
}
