//! Input: the lock file of a run that was killed. Output: its git has ended, and git's unfinished
//! files are removed.
//!
//! A process that is killed (SIGKILL, out of memory) cannot end its children. A `git fetch`
//! continues alone; one that is killed too leaves lock files, at which every later git stops, and
//! incomplete packs.

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rocwheel_system::PositionedWriter;

/// Environment variable of each git with the folder of the lock. It identifies a git even if its
/// run was killed after starting it and before recording it.
pub(crate) const VARIABLE: &str = "ROCWHEEL_CHECKOUT";

/// Time that killed processes have to disappear.
const PATIENCE: Duration = Duration::from_secs(5);

/// Subfolders of the git folder that are not searched. Other work trees belong to other runs, and
/// files that end in `.lock` in the other folders are not git's.
const NOT_OURS: [&str; 4] = ["worktrees", "hooks", "lfs", "rocwheel"];

/// Content of the lock file while a run has the lock: the process group of the last git that it
/// started, and its start time. An empty file means that the run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Number of the group; 0 before the first git.
    group: i32,
    /// Start time in ticks of the kernel's clock since boot.
    begun: u64,
}

impl Mark {
    /// The mark of a run that has not started a git yet.
    pub(crate) const NOTHING: Mark = Mark { group: 0, begun: 0 };

    pub(crate) fn of(group: u32) -> Mark {
        let group = group.cast_signed();
        Mark { group, begun: Process::read(group).map_or(0, |process| process.begun) }
    }

    /// Reads the mark of a run that did not end; `None` if it ended.
    pub(crate) fn read(lock: &mut fs_err::File) -> io::Result<Option<Mark>> {
        let mut text = String::new();
        lock.read_to_string(&mut text)?;
        let mut numbers = text.split_whitespace();
        let (group, begun) = (numbers.next(), numbers.next());
        let (Some(group), Some(begun)) = (group, begun) else { return Ok(None) };
        Ok(group.parse().ok().zip(begun.parse().ok()).map(|(group, begun)| Mark { group, begun }))
    }

    /// Writes the mark, always with the same number of bytes, in a single write that happens
    /// completely or not at all.
    pub(crate) fn write(self, lock: &fs_err::File) -> io::Result<()> {
        PositionedWriter::new(lock.file(), 0).write_all(format!("{:<12} {:<24}\n", self.group, self.begun).as_bytes())
    }

    /// Ends the remaining processes of the group, and every git that was started for this lock
    /// folder.
    pub(crate) fn end(self, own: &Path) {
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

    /// The git processes of the group, and those whose environment names the folder. Process
    /// numbers are reused, so a process with another name belongs to another group.
    fn members(self, own: &Path) -> Vec<i32> {
        let Ok(entries) = fs_err::read_dir("/proc") else { return Vec::new() };
        let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
        let members = numbers.filter(|number| {
            Process::read(*number).is_some_and(|process| {
                let is_ours = self.group != 0 && process.group == self.group && process.begun >= self.begun;
                process.is_git && !process.is_over && (is_ours || names(*number, own))
            })
        });
        members.collect()
    }
}

/// `true` if the initial environment of a process names a folder.
fn names(number: i32, own: &Path) -> bool {
    let Ok(environment) = fs_err::read(format!("/proc/{number}/environ")) else { return false };
    let wanted = [VARIABLE.as_bytes(), b"=", own.as_os_str().as_encoded_bytes()].concat();
    environment.split(|byte| *byte == 0).any(|one| one == wanted)
}

/// Facts of the kernel about a process (proc_pid_stat(5)).
struct Process {
    group: i32,
    begun: u64,
    is_git: bool,
    /// `true` if it is dead and only not yet waited for.
    is_over: bool,
}

impl Process {
    fn read(number: i32) -> Option<Process> {
        let text = fs_err::read(format!("/proc/{number}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        // The name is in parentheses and may contain some itself.
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

/// Removes the lock files, incomplete packs and temporary files that a killed git has left in its
/// folder and in those of submodules.
pub(crate) fn remove_remains(directory: &Path) -> io::Result<()> {
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

/// Removes files that git was writing into an object store: all names that begin with `tmp_`, and
/// locks.
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

    use rocwheel_system::RunningGroup;

    use super::*;

    #[test]
    fn the_git_of_a_killed_run_is_ended_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        // A stand-in for git: only its name counts.
        let sleep =
            String::from_utf8(Command::new("sh").args(["-c", "command -v sleep"]).output().unwrap().stdout).unwrap();
        let git = folder.path().join("git-fetch");
        fs_err::copy(sleep.trim(), &git).unwrap();
        let mut child = RunningGroup::start(Command::new(&git).arg("300").stdin(Stdio::null())).unwrap();
        let mut other = RunningGroup::start(Command::new("sleep").arg("300").stdin(Stdio::null())).unwrap();
        let mark = Mark::of(child.id());
        let path = folder.path().join("lock");
        Mark::NOTHING.write(&fs_err::File::create(&path).unwrap()).unwrap();
        mark.write(&fs_err::OpenOptions::new().write(true).open(&path).unwrap()).unwrap();
        assert_eq!(Mark::read(&mut fs_err::File::open(&path).unwrap()).unwrap(), Some(mark));
        // A later process with the same number, and a process with another name, stay.
        Mark { begun: u64::MAX, ..mark }.end(folder.path());
        Mark::of(other.id()).end(folder.path());
        assert!(child.try_wait().unwrap().is_none() && other.try_wait().unwrap().is_none());
        // A git of another folder, and a git of this folder that was not recorded.
        let start = |own: &Path| {
            let mut command = Command::new(&git);
            RunningGroup::start(command.arg("300").stdin(Stdio::null()).env(VARIABLE, own)).unwrap()
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
        let remains: Vec<&str> = "index.lock refs/tags/x.lock objects/pack/tmp_pack_1 objects/ab/tmp_obj_2 \
                     objects/tmp_objdir-1/a modules/a/b/shallow.lock \
                     modules/a/b/objects/pack/.tmp-3-pack"
            .split(' ')
            .collect();
        let others: Vec<&str> = "index refs/heads/tmp_branch objects/pack/pack-1.pack worktrees/w/index.lock \
                     rocwheel/lock lfs/x.lock"
            .split(' ')
            .collect();
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
