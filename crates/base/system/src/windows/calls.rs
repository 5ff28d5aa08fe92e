//! Input: a path, an open file or a number of a process. Output: what only a function of Windows
//! answers or does.
#![expect(unsafe_code, reason = "the functions of Windows take pointers; job.rs has the others")]

use std::ffi::OsString;
use std::io;
use std::os::windows::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::windows::fs::MetadataExt as _;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::path::{Component, Path, PathBuf, Prefix};
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, ERROR_SUCCESS, HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, GetNamedSecurityInfoW, SDDL_REVISION_1, SE_FILE_OBJECT,
};
use windows_sys::Win32::Security::{
    DACL_SECURITY_INFORMATION, EqualSid, GetTokenInformation, OWNER_SECURITY_INFORMATION,
    PROTECTED_DACL_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID, SetFileSecurityW, TOKEN_INFORMATION_CLASS,
    TOKEN_OWNER, TOKEN_QUERY, TOKEN_USER, TokenOwner, TokenUser,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_ATTRIBUTE_TEMPORARY, FILE_BASIC_INFO, FileBasicInfo, GetDiskFreeSpaceExW, GetFileInformationByHandleEx,
    GetFinalPathNameByHandleW, LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, MoveFileExW,
    SetFileAttributesW, UnlockFileEx,
};
use windows_sys::Win32::System::IO::OVERLAPPED;
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, OpenProcess, OpenProcessToken, PROCESS_TERMINATE, TerminateProcess,
};

use crate::lock::Sharing;

/// Full access for the owner, the system and administrators, and nothing for others; nothing is
/// inherited from the folder.
const PRIVATE: &str = "D:P(A;;FA;;;S-1-3-4)(A;;FA;;;SY)(A;;FA;;;BA)";

/// Exit code of a process that is killed here.
const KILLED: u32 = 1;

/// The error of the last function of Windows that returned zero.
fn checked(answer: i32) -> io::Result<()> {
    if answer == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn text(words: impl Iterator<Item = u16>) -> Vec<u16> {
    words.chain([0]).collect()
}

/// The absolute path as Windows takes it whatever its length (`\\?\…`), with the zero at its end.
fn wide(path: &Path) -> io::Result<Vec<u16>> {
    let path = std::path::absolute(path)?;
    let rest = |path: &Path| path.as_os_str().encode_wide().collect::<Vec<u16>>();
    let prefix = |name: &str| name.encode_utf16().collect::<Vec<u16>>();
    let words = match path.components().next() {
        Some(Component::Prefix(start)) => match start.kind() {
            Prefix::Disk(_) => [prefix(r"\\?\"), rest(&path)].concat(),
            Prefix::UNC(..) => [prefix(r"\\?\UNC"), rest(&path).split_off(1)].concat(),
            _ => rest(&path),
        },
        _ => rest(&path),
    };
    if words.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path with a zero byte"));
    }
    Ok(text(words.into_iter()))
}

/// Number of bytes that the user may still write to the volume of a folder.
///
/// # Errors
/// A path that does not exist.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let metadata = fs_err::metadata(path)?;
    let folder = if metadata.is_dir() { path } else { path.parent().unwrap_or(path) };
    let (folder, mut free) = (wide(folder)?, 0);
    // SAFETY: the path ends with a zero, and the number outlives the call; the other two outputs
    // may be null.
    checked(unsafe { GetDiskFreeSpaceExW(folder.as_ptr(), &raw mut free, null_mut(), null_mut()) })?;
    Ok(free)
}

/// The path of an open file.
///
/// # Errors
/// A file that has none, such as a pipe.
#[expect(clippy::disallowed_types, reason = "temporary files have one inside")]
pub(super) fn path_of(file: &std::fs::File) -> io::Result<PathBuf> {
    let mut name = vec![0; 512];
    loop {
        let room = u32::try_from(name.len()).unwrap_or(u32::MAX);
        // SAFETY: the buffer has room for this number of characters, and the handle is open.
        let needed = unsafe { GetFinalPathNameByHandleW(file.as_raw_handle(), name.as_mut_ptr(), room, 0) } as usize;
        match needed {
            0 => return Err(io::Error::last_os_error()),
            length if length < name.len() => return Ok(OsString::from_wide(&name[..length]).into()),
            _ => name.resize(needed + 1, 0),
        }
    }
}

/// Time of the last change of a file's bytes or metadata, in Windows' own unit.
///
/// # Errors
/// A file system without this time.
#[expect(clippy::disallowed_types, reason = "fs_err's file has one inside")]
pub(super) fn change_time(file: &std::fs::File) -> io::Result<i64> {
    let mut information = FILE_BASIC_INFO::default();
    let size = size_of::<FILE_BASIC_INFO>() as u32;
    // SAFETY: the structure is the one of `FileBasicInfo`, with its size, and the handle is open.
    checked(unsafe {
        GetFileInformationByHandleEx(file.as_raw_handle(), FileBasicInfo, (&raw mut information).cast(), size)
    })?;
    Ok(information.ChangeTime)
}

/// Removes the mark of a temporary file, with which Windows writes it to the disk late.
pub(super) fn make_permanent(path: &Path) -> io::Result<()> {
    let attributes = fs_err::symlink_metadata(path)?.file_attributes() & !FILE_ATTRIBUTE_TEMPORARY;
    let path = wide(path)?;
    // SAFETY: the path ends with a zero.
    checked(unsafe { SetFileAttributesW(path.as_ptr(), attributes) })
}

/// Renames a file, unless the other name exists.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if it exists; else the error of `MoveFileExW`.
pub(super) fn move_to_new(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (wide(from)?, wide(to)?);
    // SAFETY: both paths end with a zero.
    checked(unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), 0) })
}

/// A byte that no file has. Windows lets no other program read or write bytes that are locked, and
/// files with a lock have content that others read.
fn locked_byte() -> OVERLAPPED {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.OffsetHigh = 1 << 30;
    place
}

/// Takes a lock; `false` if another holder has one.
///
/// # Errors
/// A file system without locks.
pub(crate) fn try_lock(file: &fs_err::File, sharing: Sharing) -> io::Result<bool> {
    let exclusive = if sharing == Sharing::Exclusive { LOCKFILE_EXCLUSIVE_LOCK } else { 0 };
    let mut place = locked_byte();
    // SAFETY: the handle is open, and the call waits for nothing, so the place outlives it.
    let answer = checked(unsafe {
        LockFileEx(file.file().as_raw_handle(), exclusive | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &raw mut place)
    });
    match answer {
        Ok(()) => Ok(true),
        Err(error)
            if [ERROR_LOCK_VIOLATION, ERROR_IO_PENDING]
                .map(u32::cast_signed)
                .map(Some)
                .contains(&error.raw_os_error()) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Frees a lock.
///
/// # Errors
/// A file without one.
pub(crate) fn unlock(file: &fs_err::File) -> io::Result<()> {
    let mut place = locked_byte();
    // SAFETY: as for taking it.
    checked(unsafe { UnlockFileEx(file.file().as_raw_handle(), 0, 1, 0, &raw mut place) })
}

/// A security descriptor that Windows has allocated.
struct Descriptor(PSECURITY_DESCRIPTOR);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the functions that return descriptors allocate them with `LocalAlloc`.
        unsafe { LocalFree(self.0) };
    }
}

/// Closes a file to all users but its owner, the system and administrators.
///
/// # Errors
/// A file system without access lists, a file of another user.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    let (words, path) = (text(PRIVATE.encode_utf16()), wide(path)?);
    let mut descriptor = Descriptor(null_mut());
    // SAFETY: the text ends with a zero, and the descriptor is freed once, when it is dropped.
    checked(unsafe {
        ConvertStringSecurityDescriptorToSecurityDescriptorW(
            words.as_ptr(),
            SDDL_REVISION_1,
            &raw mut descriptor.0,
            null_mut(),
        )
    })?;
    let what = DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION;
    // SAFETY: the path ends with a zero, and the descriptor lives until the end of this function.
    checked(unsafe { SetFileSecurityW(path.as_ptr(), what, descriptor.0) })
}

/// `true` if a file belongs to the user of this process, or to the group that owns what an
/// administrator creates.
pub fn is_own(path: &Path, _: &std::fs::Metadata) -> bool {
    let Ok(path) = wide(path) else { return false };
    let (mut owner, mut descriptor): (PSID, _) = (null_mut(), Descriptor(null_mut()));
    // SAFETY: the path ends with a zero; outputs that are not wanted may be null.
    let answer = unsafe {
        GetNamedSecurityInfoW(
            path.as_ptr(),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION,
            &raw mut owner,
            null_mut(),
            null_mut(),
            null_mut(),
            &raw mut descriptor.0,
        )
    };
    if answer != ERROR_SUCCESS || owner.is_null() {
        return false;
    }
    let is_equal = |class: TOKEN_INFORMATION_CLASS| {
        let Ok(information) = token_information(class) else { return false };
        // SAFETY: the kernel has filled the buffer, which is aligned for pointers, with the
        // structure of the class. Its pointer leads into the buffer.
        let other = unsafe {
            if class == TokenUser {
                (*information.as_ptr().cast::<TOKEN_USER>()).User.Sid
            } else {
                (*information.as_ptr().cast::<TOKEN_OWNER>()).Owner
            }
        };
        // SAFETY: both identifiers live: one in the descriptor, one in the buffer.
        unsafe { EqualSid(owner, other) != 0 }
    };
    is_equal(TokenUser) || is_equal(TokenOwner)
}

/// Reads a property of the access token of this process.
fn token_information(class: TOKEN_INFORMATION_CLASS) -> io::Result<Vec<usize>> {
    let mut token: HANDLE = null_mut();
    // SAFETY: the handle of the own process is always valid.
    checked(unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) })?;
    // SAFETY: the handle was just opened, and nothing else owns it.
    let token = unsafe { OwnedHandle::from_raw_handle(token) };
    let mut needed = 0;
    // SAFETY: without a buffer the function only says how many bytes it needs.
    unsafe { GetTokenInformation(token.as_raw_handle(), class, null_mut(), 0, &raw mut needed) };
    let mut information = vec![0; (needed as usize).div_ceil(size_of::<usize>()).max(1)];
    let size = u32::try_from(information.len() * size_of::<usize>()).unwrap_or(u32::MAX);
    // SAFETY: the buffer has this size in bytes.
    checked(unsafe {
        GetTokenInformation(token.as_raw_handle(), class, information.as_mut_ptr().cast(), size, &raw mut needed)
    })?;
    Ok(information)
}

/// Kills a process by its number. A process that has ended already is not an error.
pub fn kill_process(number: i32) {
    // SAFETY: the handle is owned by this function alone, and null if there is no such process.
    unsafe {
        let process = OpenProcess(PROCESS_TERMINATE, 0, number.cast_unsigned());
        if !process.is_null() {
            let process = OwnedHandle::from_raw_handle(process);
            TerminateProcess(process.as_raw_handle(), KILLED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_and_shares_get_the_form_that_has_no_limit() {
        let of = |path: &str| String::from_utf16(&wide(Path::new(path)).unwrap()).unwrap();
        assert_eq!(of(r"C:\folder\file"), "\\\\?\\C:\\folder\\file\0");
        assert_eq!(of("C:/folder/./file"), "\\\\?\\C:\\folder\\file\0");
        assert_eq!(of(r"\\server\share\file"), "\\\\?\\UNC\\server\\share\\file\0");
        assert_eq!(of(r"\\?\C:\file"), "\\\\?\\C:\\file\0");
        // A path that is relative to the folder of a drive becomes absolute.
        assert!(of("C:file").starts_with("\\\\?\\C:\\"));
        assert!(wide(Path::new("a\0b")).is_err());
    }

    #[test]
    fn space_path_and_owner_of_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let free = free_space(file.path()).unwrap();
        assert!(free > 1 << 20, "{free}");
        assert!(free_space(Path::new(r"C:\none\none")).is_err());
        let path = path_of(file.as_file()).unwrap();
        assert_eq!(path.file_name(), file.path().file_name());
        let metadata = fs_err::metadata(&path).unwrap();
        assert!(is_own(&path, &metadata), "a new file is ours");
        assert!(!is_own(Path::new(r"C:\none"), &metadata));
        make_private(&path).unwrap();
        assert!(fs_err::read(&path).is_ok());
        make_permanent(&path).unwrap();
        assert_eq!(fs_err::metadata(&path).unwrap().file_attributes() & FILE_ATTRIBUTE_TEMPORARY, 0);
    }

    #[test]
    fn a_process_is_killed_by_its_number() {
        let mut child = std::process::Command::new("cmd").args(["/c", "ping -n 60 127.0.0.1 >nul"]).spawn().unwrap();
        kill_process(child.id().cast_signed());
        assert_eq!(child.wait().unwrap().code(), Some(KILLED.cast_signed()));
        kill_process(child.id().cast_signed());
    }
}
