//! The Unix half: Linux, and what other systems of the family share with it.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use rustix::fs::{CWD, RenameFlags};
use rustix::process::{Pid, Signal};

/// Device and inode: two paths with the same identity are one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// Number of the device.
    pub device: u64,
    /// Number of the inode on it.
    pub inode: u64,
}

/// Seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanoseconds: i64,
}

/// Who a file belongs to, by numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOwner {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// What the file system says of a file beyond the standard library's portable part.
pub trait FileMetadata {
    /// Type and permissions, as `st_mode` has them.
    fn mode(&self) -> u32;

    /// Whether anybody may execute it.
    fn is_executable(&self) -> bool {
        self.mode() & 0o111 != 0
    }

    /// Which file it is.
    fn identity(&self) -> FileIdentity;

    /// How many names it has.
    fn link_count(&self) -> u64;

    /// The last change of its bytes.
    fn modified_at(&self) -> Timestamp;

    /// The last change of its bytes or of what is said about it.
    fn changed_at(&self) -> Timestamp;

    /// Who it belongs to.
    fn owner(&self) -> FileOwner;
}

impl FileMetadata for std::fs::Metadata {
    fn mode(&self) -> u32 {
        self.permissions().mode()
    }

    fn identity(&self) -> FileIdentity {
        FileIdentity { device: self.dev(), inode: self.ino() }
    }

    fn link_count(&self) -> u64 {
        self.nlink()
    }

    fn modified_at(&self) -> Timestamp {
        Timestamp { seconds: self.mtime(), nanoseconds: self.mtime_nsec() }
    }

    fn changed_at(&self) -> Timestamp {
        Timestamp { seconds: self.ctime(), nanoseconds: self.ctime_nsec() }
    }

    fn owner(&self) -> FileOwner {
        FileOwner { user: self.uid(), group: self.gid() }
    }
}

/// A word for what is neither a file, a folder nor a link.
pub fn special_kind(file_type: std::fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt as _;
    if file_type.is_fifo() {
        "named pipe"
    } else if file_type.is_socket() {
        "socket"
    } else {
        "device"
    }
}

/// Permissions of that mode.
pub fn permissions(mode: u32) -> std::fs::Permissions {
    std::fs::Permissions::from_mode(mode)
}

/// Gives a file or folder a mode, whatever the umask.
///
/// # Errors
/// When it is not there or another user's.
pub fn set_mode(path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
    fs_err::set_permissions(path.as_ref(), permissions(mode))
}

/// The mode of a file that these options create; the umask is subtracted.
pub fn create_mode(options: &mut fs_err::OpenOptions, mode: u32) -> &mut fs_err::OpenOptions {
    options.options_mut().mode(mode);
    options
}

/// Gives an open file to another user and group, which only an administrator may.
///
/// # Errors
/// When that is not allowed.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub fn set_owner(file: &fs_err::File, owner: FileOwner) -> io::Result<()> {
    std::os::unix::fs::fchown(file.file(), Some(owner.user), Some(owner.group))
}

/// Makes a symbolic link at `link` with the text `target`.
///
/// # Errors
/// When there is something already, or the folder is missing.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub fn symlink(target: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    fs_err::os::unix::fs::symlink(target.as_ref(), link.as_ref())
}

/// Writes to an open file from a position on, without moving the position of the file: several
/// threads may write to different places of it.
#[derive(Debug)]
#[expect(clippy::disallowed_types, reason = "both kinds of files have one inside")]
pub struct PositionedWriter<'a> {
    file: &'a std::fs::File,
    position: u64,
}

#[expect(clippy::disallowed_types, reason = "both kinds of files have one inside")]
impl<'a> PositionedWriter<'a> {
    /// Begins at `position`, in bytes.
    pub fn new(file: &'a std::fs::File, position: u64) -> Self {
        Self { file, position }
    }
}

impl io::Write for PositionedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write_at(bytes, self.position)?;
        self.position += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets two paths change their files in one step, so that there is no moment without either.
///
/// # Errors
/// When one is not there, or the file system cannot do it.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Bytes that a user who is not root may still write where a path is.
///
/// # Errors
/// When the path is not there.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Writes a copy of `from` to the end of `to`: both share their blocks where the file system can do
/// that and `to` is empty.
///
/// # Errors
/// Those of the files.
pub fn copy_content(mut from: impl AsFd + io::Read, to: &mut (impl AsFd + io::Write)) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(to.as_fd(), from.as_fd()).is_ok() {
        return Ok(());
    }
    io::copy(&mut from, to).map(drop)
}

/// Lets the kernel copy `length` bytes from one file to the end of another one. Says how many it
/// copied; `None` when it cannot between these, or met an error.
#[cfg(target_os = "linux")]
pub fn copy_range(source: &impl AsFd, position: u64, target: &impl AsFd, length: u64) -> Option<u64> {
    let (mut position, mut done) = (position, 0);
    while done < length {
        let left = usize::try_from(length - done).unwrap_or(usize::MAX);
        match rustix::fs::copy_file_range(source, Some(&mut position), target, None, left) {
            Ok(0) => break,
            Ok(count) => done += count as u64,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    (done > 0).then_some(done)
}

/// Other systems copy through the process.
#[cfg(not(target_os = "linux"))]
pub fn copy_range(_: &impl AsFd, _: u64, _: &impl AsFd, _: u64) -> Option<u64> {
    None
}

/// Where the kernel shows the open files of a process.
#[cfg(target_os = "linux")]
const DESCRIPTORS: &str = "/proc/self/fd";

/// A file without a name (`O_TMPFILE`) in a folder, of which nothing is left when the process is
/// killed; `None` where there is no such thing, or no way to name it later.
#[cfg(target_os = "linux")]
pub fn nameless_file(folder: &Path, mode: u32) -> Option<fs_err::File> {
    use rustix::fs::{Mode, OFlags};
    if !Path::new(DESCRIPTORS).is_dir() {
        return None;
    }
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder, flags, Mode::from_raw_mode(mode)).ok()?;
    Some(fs_err::File::from_parts(file.into(), folder))
}

/// Gives a file of [`nameless_file`] a name that nothing has yet.
///
/// # Errors
/// When there is something of that name.
#[cfg(target_os = "linux")]
pub fn link_nameless(file: &fs_err::File, name: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, linkat};
    use std::os::fd::AsRawFd as _;
    let descriptor = format!("{DESCRIPTORS}/{}", file.as_raw_fd());
    Ok(linkat(CWD, descriptor, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Other systems have no such files.
#[cfg(not(target_os = "linux"))]
pub fn nameless_file(_: &Path, _: u32) -> Option<fs_err::File> {
    None
}

/// Other systems have no such files.
#[cfg(not(target_os = "linux"))]
pub fn link_nameless(_: &fs_err::File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// User and group that this process runs as.
pub fn current_user() -> FileOwner {
    FileOwner { user: rustix::process::geteuid().as_raw(), group: rustix::process::getegid().as_raw() }
}

/// Makes the program that is going to be started the first of a new group of processes.
pub fn start_in_group(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

/// The number of the signal that ended a process.
pub fn ending_signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Kills a process by its number. That it has ended by itself is no error.
pub fn kill_process(number: i32) {
    if let Some(process) = Pid::from_raw(number) {
        let _ = rustix::process::kill_process(process, Signal::KILL);
    }
}

/// A group of processes. Signals to one that has ended by itself are no errors.
pub(crate) struct Group(Pid);

impl Group {
    pub(crate) fn of(child: &Child) -> Option<Group> {
        Pid::from_raw(child.id().cast_signed()).map(Group)
    }

    pub(crate) fn ask_to_end(&self) {
        let _ = rustix::process::kill_process_group(self.0, Signal::TERM);
    }

    pub(crate) fn kill(&self) {
        let _ = rustix::process::kill_process_group(self.0, Signal::KILL);
    }

    /// Whether nobody is left to get a signal.
    pub(crate) fn is_empty(&self) -> bool {
        rustix::process::test_kill_process_group(self.0).is_err()
    }
}

/// The soft limit of the stack in bytes; `None`: there is none.
#[cfg(target_os = "linux")]
pub fn stack_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Stack).current
}

/// Raises this process' own soft limit of the stack, which the programs that it starts get, as far
/// as the hard limit allows.
///
/// # Errors
/// When the system refuses.
#[cfg(target_os = "linux")]
pub fn raise_stack_limit(bytes: u64) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Stack);
    let current = Some(limit.maximum.map_or(bytes, |maximum| bytes.min(maximum)));
    Ok(setrlimit(Resource::Stack, Rlimit { current, maximum: limit.maximum })?)
}
