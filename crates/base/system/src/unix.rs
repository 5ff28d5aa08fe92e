//! Implementation for Unix: Linux, and what other Unix systems share with it.

use std::collections::BTreeMap;
use std::fs::TryLockError;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags};
use rustix::process::{Pid, Signal};
use rustix::time::{ClockId, clock_gettime};
use tempfile::NamedTempFile;

use crate::lock::Sharing;
use crate::metadata::{FileIdentity, FileMetadata, FileOwner, Timestamp};

/// The trait of types that lend the handle of an open file.
pub use std::os::fd::AsFd as OpenFile;

/// Size in bytes from which the allocator keeps no freed block.
#[cfg(target_env = "gnu")]
const LARGE_BLOCK: i32 = 2 << 20;

/// `true` if a folder can be removed while this process has files in it open.
pub const REMOVES_OPEN_FILES: bool = true;

/// Linux's monotonic clock stands still while the machine sleeps.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: ClockId = ClockId::Monotonic;

/// The time since a fixed moment in the past. It also passes while the machine sleeps and while the
/// process is stopped, and is not moved when the date is set.
pub fn steady_time() -> Duration {
    Duration::try_from(clock_gettime(STEADY)).unwrap_or_default()
}

/// Makes the allocator return blocks of 2 MiB and more to the system when they are freed. Once it
/// has seen such blocks, glibc otherwise keeps up to 64 MiB for each thread, and a limit of memory
/// that threads share would not hold. Smaller blocks are kept, because the system has to clear each
/// page that it gives again.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "a function of C")]
    // SAFETY: it is called with parameters of its manual page, mallopt(3). A refusal is harmless.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BLOCK);
    }
}

impl FileMetadata for std::fs::Metadata {
    fn mode(&self, _: &Path) -> u32 {
        self.permissions().mode()
    }

    fn identity(&self, _: &Path) -> io::Result<FileIdentity> {
        Ok(FileIdentity { device: self.dev(), inode: self.ino() })
    }

    fn link_count(&self, _: &Path) -> io::Result<u64> {
        Ok(self.nlink())
    }

    fn modified_at(&self) -> Timestamp {
        Timestamp { seconds: self.mtime(), nanoseconds: self.mtime_nsec() }
    }

    fn changed_at(&self, _: &Path) -> io::Result<Timestamp> {
        Ok(Timestamp { seconds: self.ctime(), nanoseconds: self.ctime_nsec() })
    }

    fn owner(&self) -> Option<FileOwner> {
        Some(FileOwner { user: self.uid(), group: self.gid() })
    }
}

/// Which file an open file is.
pub fn open_identity(file: &fs_err::File) -> io::Result<FileIdentity> {
    file.metadata()?.identity(file.path())
}

/// A word for a file type that is neither a file, a folder nor a link.
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

/// Sets the mode of a file or folder, regardless of the umask.
///
/// # Errors
/// A path that does not exist or belongs to another user.
pub fn set_mode(path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
    fs_err::set_permissions(path.as_ref(), std::fs::Permissions::from_mode(mode))
}

/// Sets the mode of an open file, regardless of the umask.
///
/// # Errors
/// A file of another user.
#[expect(clippy::disallowed_types, reason = "temporary files have one inside")]
pub fn set_open_mode(file: &std::fs::File, mode: u32) -> io::Result<()> {
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

/// Sets the mode of temporary files; the umask is subtracted.
pub fn temporary_mode<'a, 'b, 'c>(
    builder: &'a mut tempfile::Builder<'b, 'c>,
    mode: u32,
) -> &'a mut tempfile::Builder<'b, 'c> {
    builder.permissions(std::fs::Permissions::from_mode(mode))
}

/// Sets the mode of files that these options create; the umask is subtracted.
pub fn create_mode(options: &mut fs_err::OpenOptions, mode: u32) -> &mut fs_err::OpenOptions {
    options.options_mut().mode(mode);
    options
}

/// Changes user and group of an open file, which only an administrator may do.
///
/// # Errors
/// A process without that permission.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub fn set_owner(file: &fs_err::File, owner: FileOwner) -> io::Result<()> {
    std::os::unix::fs::fchown(file.file(), Some(owner.user), Some(owner.group))
}

/// Creates a symbolic link at `link` with the text `target`.
///
/// # Errors
/// An existing path, or a missing folder.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub fn symlink(target: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    fs_err::os::unix::fs::symlink(target.as_ref(), link.as_ref())
}

#[expect(clippy::disallowed_types, reason = "both kinds of files have one inside")]
pub(crate) fn write_at(file: &std::fs::File, bytes: &[u8], position: u64) -> io::Result<usize> {
    file.write_at(bytes, position)
}

/// The absolute path with all links resolved.
///
/// # Errors
/// A path that does not exist; the message names it.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    fs_err::canonicalize(path.as_ref())
}

/// Renames a file or folder and replaces an existing file.
///
/// # Errors
/// The errors of `rename(2)`; the message names both paths.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    fs_err::rename(from, to)
}

/// Removes a folder with all its contents.
///
/// # Errors
/// The errors of `rmdir(2)` and `unlink(2)`; the message names the path.
pub fn remove_folder(path: impl AsRef<Path>) -> io::Result<()> {
    fs_err::remove_dir_all(path.as_ref())
}

/// Removes everything in a folder but the file with the name `kept`.
///
/// # Errors
/// The first path that cannot be removed; the message names it.
pub fn remove_contents(folder: &Path, kept: &str) -> io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs_err::remove_dir_all(entry.path())?;
        } else if entry.file_name() != kept {
            fs_err::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Gives a temporary file its name and replaces an existing file.
///
/// # Errors
/// The error of `rename(2)`.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub fn persist<F>(file: NamedTempFile<F>, path: impl AsRef<Path>) -> io::Result<()> {
    file.persist(path.as_ref()).map(drop).map_err(|error| error.error)
}

/// Gives a temporary file its name, unless that exists.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if the name exists; the errors of `rename(2)`.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub fn persist_new<F>(file: NamedTempFile<F>, path: impl AsRef<Path>) -> io::Result<()> {
    file.persist_noclobber(path.as_ref()).map(drop).map_err(|error| error.error)
}

/// `None`: compilers are on the PATH.
///
/// # Errors
/// None; on Windows, where Visual Studio is looked for, there are some.
pub fn compiler_variables(_: &BTreeMap<String, String>) -> io::Result<Option<BTreeMap<String, String>>> {
    Ok(None)
}

/// Takes a lock; `false` if another holder has one.
pub(crate) fn try_lock(file: &fs_err::File, sharing: Sharing) -> io::Result<bool> {
    let answer = match sharing {
        Sharing::Exclusive => file.file().try_lock(),
        Sharing::Shared => file.file().try_lock_shared(),
    };
    match answer {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

pub(crate) fn unlock(file: &fs_err::File) -> io::Result<()> {
    file.file().unlock()
}

/// Exchanges two paths atomically, so both exist at every moment.
///
/// # Errors
/// A missing path, or a file system without this operation.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Number of bytes that an ordinary user may still write to the file system of a path.
///
/// # Errors
/// A path that does not exist.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Appends a copy of `from` to `to`. If the file system supports it and `to` is empty, both share
/// their blocks.
///
/// # Errors
/// The errors of the files.
pub fn copy_content(mut from: impl OpenFile + io::Read, to: &mut (impl OpenFile + io::Write)) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(to.as_fd(), from.as_fd()).is_ok() {
        return Ok(());
    }
    io::copy(&mut from, to).map(drop)
}

/// Lets the kernel copy `length` bytes from one file to the end of another one. Returns the number
/// of copied bytes; `None` if the kernel cannot copy between these files, or met an error.
#[cfg(target_os = "linux")]
pub fn copy_range(source: &impl OpenFile, position: u64, target: &impl OpenFile, length: u64) -> Option<u64> {
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
pub fn copy_range(_: &impl OpenFile, _: u64, _: &impl OpenFile, _: u64) -> Option<u64> {
    None
}

/// Folder in which the kernel lists the open files of this process.
#[cfg(target_os = "linux")]
const DESCRIPTORS: &str = "/proc/self/fd";

/// Creates an unnamed file (`O_TMPFILE`) in a folder, which disappears when the process is killed;
/// `None` if the system has no such files, or no way to name them later.
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

/// Gives a file of [`nameless_file`] a name that does not exist yet.
///
/// # Errors
/// An existing path.
#[cfg(target_os = "linux")]
pub fn link_nameless(file: &fs_err::File, name: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, linkat};
    use std::os::fd::AsRawFd as _;
    let descriptor = format!("{DESCRIPTORS}/{}", file.as_raw_fd());
    Ok(linkat(CWD, descriptor, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

/// Other systems have no unnamed files.
#[cfg(not(target_os = "linux"))]
pub fn nameless_file(_: &Path, _: u32) -> Option<fs_err::File> {
    None
}

/// Other systems have no unnamed files.
#[cfg(not(target_os = "linux"))]
pub fn link_nameless(_: &fs_err::File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Opens a file for reading without waiting for the other end of a named pipe. The error keeps its
/// number, which those of `fs_err` do not.
///
/// # Errors
/// The errors of `open(2)`.
pub fn open_numbered(path: &Path) -> io::Result<fs_err::File> {
    open_with(path, rustix::fs::OFlags::RDONLY)
}

/// Opens a device for reading and writing and closes it again. The error keeps its number.
///
/// # Errors
/// The errors of `open(2)`.
pub fn try_device(path: &Path) -> io::Result<()> {
    open_with(path, rustix::fs::OFlags::RDWR).map(drop)
}

fn open_with(path: &Path, access: rustix::fs::OFlags) -> io::Result<fs_err::File> {
    use rustix::fs::{Mode, OFlags};
    let file = rustix::fs::open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    Ok(fs_err::File::from_parts(file.into(), path))
}

/// The entries of a folder. The error keeps its number.
#[expect(clippy::disallowed_methods, reason = "fs_err hides the number of the error")]
pub fn folder_entries(path: &Path) -> io::Result<std::fs::ReadDir> {
    std::fs::read_dir(path)
}

/// Effective user and group of this process; `None` where they are not numbers.
pub fn current_user() -> Option<FileOwner> {
    Some(FileOwner { user: rustix::process::geteuid().as_raw(), group: rustix::process::getegid().as_raw() })
}

/// `true` if a file belongs to the user of this process. `metadata` is that of `path`.
pub fn is_own(_: &Path, metadata: &std::fs::Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

/// The number of the signal that ended a process.
pub fn ending_signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Kills a process by its number. A process that has ended already is not an error.
pub fn kill_process(number: i32) {
    if let Some(process) = Pid::from_raw(number) {
        let _ = rustix::process::kill_process(process, Signal::KILL);
    }
}

/// A process group. A signal to a group that has ended already is not an error.
#[derive(Debug)]
pub(crate) struct Group(Option<Pid>);

impl Group {
    /// Starts a program as the leader of a new process group.
    pub(crate) fn start(command: &mut Command) -> io::Result<(Child, Group)> {
        let child = command.process_group(0).spawn()?;
        let leader = Pid::from_raw(child.id().cast_signed());
        Ok((child, Group(leader)))
    }

    pub(crate) fn interrupt(&self) {
        let _ = self.0.map(|leader| rustix::process::kill_process_group(leader, Signal::INT));
    }

    pub(crate) fn ask_to_end(&self) {
        let _ = self.0.map(|leader| rustix::process::kill_process_group(leader, Signal::TERM));
    }

    pub(crate) fn kill(&self) {
        let _ = self.0.map(|leader| rustix::process::kill_process_group(leader, Signal::KILL));
    }

    /// `true` if no process of the group can receive a signal.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none_or(|leader| rustix::process::test_kill_process_group(leader).is_err())
    }
}

/// Linux's upper limit for all arguments and variables of a program, whatever the stack limit
/// (three quarters of 8 MiB, `fs/exec.c`).
#[cfg(target_os = "linux")]
const MOST_ARGUMENTS: u64 = 6 << 20;
/// Linux's lower limit for them.
#[cfg(target_os = "linux")]
const LEAST_ARGUMENTS: u64 = 128 << 10;

/// Bytes of arguments and environment that a program can get (`ARG_MAX`), from the soft limit of
/// the stack; `None` if the system has no such limit.
#[cfg(target_os = "linux")]
#[allow(clippy::unnecessary_wraps, reason = "other systems have no such limit")]
pub fn argument_limit() -> Option<u64> {
    let stack = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    // A quarter of the stack (execve(2)), within these limits.
    Some(stack.map_or(MOST_ARGUMENTS, |stack| (stack / 4).clamp(LEAST_ARGUMENTS, MOST_ARGUMENTS)))
}

/// Raises the soft stack limit of this process, which its children inherit, as far as the hard
/// limit allows, so that a program can get `bytes` of arguments. Returns the resulting limit for
/// arguments; `None` if the system refuses.
#[cfg(target_os = "linux")]
pub fn raise_argument_limit(bytes: u64) -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let (limit, bytes) = (getrlimit(Resource::Stack), bytes.saturating_mul(4).max(64 << 20));
    let current = Some(limit.maximum.map_or(bytes, |maximum| bytes.min(maximum)));
    setrlimit(Resource::Stack, Rlimit { current, maximum: limit.maximum }).ok()?;
    argument_limit()
}

/// Other systems have no such limit.
#[cfg(not(target_os = "linux"))]
pub fn argument_limit() -> Option<u64> {
    None
}

/// Other systems have no such limit.
#[cfg(not(target_os = "linux"))]
pub fn raise_argument_limit(_: u64) -> Option<u64> {
    None
}
