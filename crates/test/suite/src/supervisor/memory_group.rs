//! Input: a limit of memory. Output: a control group (cgroup v2) for one program, in which the
//! kernel keeps the limit, where groups were delegated to this process.
//!
//! Names and rules are those of `admin-guide/cgroup-v2.rst`. A group may have either processes or
//! controllers for its children. So a group that has only this process is emptied first, as under
//! `systemd-run --user --scope --property=Delegate=yes`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// The group of this process beside those of programs.
const OWN_LEAF: &str = "rocwheel-supervisor";

/// A group with a limit; it is removed at the end.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// Makes a group below that of this process. `None` if groups are not delegated: version 1,
    /// no rights, or other processes in the group.
    pub(crate) fn create(name: &str, limit: u64) -> Option<MemoryGroup> {
        static PARENT: OnceLock<Option<PathBuf>> = OnceLock::new();
        let parent = PARENT.get_or_init(|| {
            let [mounts, groups] = ["/proc/self/mountinfo", "/proc/self/cgroup"]
                .map(|path| fs_err::read_to_string(path).unwrap_or_default());
            let folder = own_folder(&mounts, &groups)?;
            delegate(&folder, std::process::id()).ok()?.then_some(folder)
        });
        MemoryGroup::below(parent.as_deref()?, name, limit).ok()
    }

    fn below(parent: &Path, name: &str, limit: u64) -> io::Result<MemoryGroup> {
        let plain: String =
            name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
        let begin = plain.len().saturating_sub(80);
        let folder = parent.join(format!("rocwheel-{}-{}", std::process::id(), &plain[begin..]));
        fs_err::create_dir(&folder)?;
        let group = MemoryGroup { folder };
        group.write("memory.max", &limit.to_string())?;
        // Without swap (or with a kernel that does not count it) the file does not exist.
        if group.folder.join("memory.swap.max").exists() {
            group.write("memory.swap.max", "0")?;
        }
        // A test whose helper is killed says nothing, so that all of it is.
        group.write("memory.oom.group", "1")?;
        Ok(group)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs_err::write(self.folder.join(file), text)
    }

    /// Moves a process, which its children follow.
    pub(crate) fn add(&self, process: u32) -> io::Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    /// How often the kernel ended processes because of the limit.
    pub(crate) fn kills(&self) -> u64 {
        let text = fs_err::read_to_string(self.folder.join("memory.events")).unwrap_or_default();
        let number = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
        number.unwrap_or_default()
    }

    /// Most bytes that were used at once; `None` before Linux 5.19.
    pub(crate) fn peak(&self) -> Option<u64> {
        fs_err::read_to_string(self.folder.join("memory.peak")).ok()?.trim().parse().ok()
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Linux 5.14 ends all processes of a group at once; before that, they were ended by number.
        let _ = self.write("cgroup.kill", "1");
        for _ in 0..50 {
            if fs_err::remove_dir(&self.folder).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The folder of this process's group: the mount of cgroup2, and the path behind `0::`.
fn own_folder(mounts: &str, groups: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, mount) = mounts.lines().find_map(|line| {
        let (fields, kind) = line.split_once(" - ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        kind.starts_with("cgroup2 ").then_some((*fields.get(3)?, *fields.get(4)?))
    })?;
    // A container may have mounted only its own part.
    let rest = Path::new(path).strip_prefix(root).ok()?;
    Some(Path::new(mount).join(rest))
}

fn has_word(folder: &Path, file: &str, word: &str) -> io::Result<bool> {
    Ok(fs_err::read_to_string(folder.join(file))?.split_whitespace().any(|found| found == word))
}

/// Gives the memory controller to the children of a group; `false` if the group does not have it.
fn delegate(folder: &Path, process: u32) -> io::Result<bool> {
    if !has_word(folder, "cgroup.controllers", "memory")? {
        return Ok(false);
    }
    if has_word(folder, "cgroup.subtree_control", "memory")? {
        return Ok(true);
    }
    let processes = fs_err::read_to_string(folder.join("cgroup.procs"))?;
    let is_alone = processes.split_whitespace().eq([process.to_string()]);
    if is_alone {
        let leaf = folder.join(OWN_LEAF);
        fs_err::create_dir_all(&leaf)?;
        fs_err::write(leaf.join("cgroup.procs"), process.to_string())?;
    }
    fs_err::write(folder.join("cgroup.subtree_control"), "+memory")?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_process_is_found() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let groups = "0::/user.slice/user-1000.slice/a.scope\n";
        let found = own_folder(mounts, groups).unwrap();
        assert_eq!(found, Path::new("/sys/fs/cgroup/user.slice/user-1000.slice/a.scope"));
        let part = "30 24 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(own_folder(part, "0::/docker/abc/x\n").unwrap(), Path::new("/sys/fs/cgroup/x"));
        assert_eq!(own_folder(part, "0::/other\n"), None);
        assert_eq!(own_folder("30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", groups), None);
        assert_eq!(own_folder(mounts, "4:memory:/a\n"), None);
    }

    #[test]
    fn a_group_without_the_controller_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs_err::write(folder.path().join(file), text).unwrap();
        let read = |file: &str| fs_err::read_to_string(folder.path().join(file)).unwrap();
        write("cgroup.controllers", "cpu io\n");
        write("cgroup.subtree_control", "\n");
        write("cgroup.procs", "7\n8\n");
        assert!(!delegate(folder.path(), 7).unwrap());
        assert_eq!(read("cgroup.subtree_control"), "\n");
        write("cgroup.controllers", "cpu memory pids\n");
        assert!(delegate(folder.path(), 7).unwrap());
        // Others are in the group, so that this process stays; a real kernel answers EBUSY.
        assert_eq!(
            (read("cgroup.subtree_control").as_str(), folder.path().join(OWN_LEAF).exists()),
            ("+memory", false)
        );
        write("cgroup.subtree_control", "\n");
        write("cgroup.procs", "7\n");
        assert!(delegate(folder.path(), 7).unwrap());
        assert_eq!(read(&format!("{OWN_LEAF}/cgroup.procs")), "7");
    }

    #[test]
    fn the_kernels_answers_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let group = MemoryGroup { folder: folder.path().join("group") };
        fs_err::create_dir(&group.folder).unwrap();
        assert_eq!((group.kills(), group.peak()), (0, None));
        group.write("memory.events", "low 0\nhigh 0\nmax 41\noom 1\noom_kill 3\noom_group_kill 1\n").unwrap();
        group.write("memory.peak", "104857600\n").unwrap();
        assert_eq!((group.kills(), group.peak()), (3, Some(100 << 20)));
    }

    /// What the kernel makes of these files is tested in a real one: test_memory_limit_real.py.
    #[test]
    fn a_group_has_the_limit_and_no_swap() {
        let parent = tempfile::tempdir().unwrap();
        let group = MemoryGroup::below(parent.path(), "/tmp/a b/process-1", 64 << 20).unwrap();
        let read = |group: &MemoryGroup, file: &str| fs_err::read_to_string(group.folder.join(file)).unwrap();
        let name = group.folder.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(name, format!("rocwheel-{}--tmp-a-b-process-1", std::process::id()));
        assert_eq!((read(&group, "memory.max"), read(&group, "memory.oom.group")), ("67108864".into(), "1".into()));
        assert!(!group.folder.join("memory.swap.max").exists());
        group.add(7).unwrap();
        assert_eq!(read(&group, "cgroup.procs"), "7");
        let folder = group.folder.clone();
        // A group of the kernel's has no files that keep it from being removed; these do.
        drop(group);
        assert_eq!(fs_err::read_to_string(folder.join("cgroup.kill")).unwrap(), "1");
        assert!(MemoryGroup::below(&parent.path().join("absent"), "a", 1).is_err());
        // An earlier group of the name is not shared.
        assert!(MemoryGroup::below(parent.path(), "/tmp/a b/process-1", 1).is_err());
    }
}
