//! Input: a program that is about to start. Output: the program in a job, which contains every
//! process that it will start.
#![expect(unsafe_code, reason = "the functions of Windows take handles; calls.rs has the others")]

use std::io;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::os::windows::process::CommandExt as _;
use std::process::{Child, Command};
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOBOBJECT_BASIC_ACCOUNTING_INFORMATION,
    JobObjectBasicAccountingInformation, QueryInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED, OpenThread, ResumeThread, THREAD_SUSPEND_RESUME,
};

/// Exit code of processes that are killed with their job.
const KILLED: u32 = 1;

/// A job and the program that was started in it.
#[derive(Debug)]
pub(crate) struct Group {
    job: OwnedHandle,
    leader: u32,
}

impl Group {
    /// Starts a program in a new job. It runs only after it is in the job, so nothing that it
    /// starts is outside.
    ///
    /// # Errors
    /// A program that cannot be started, or cannot be put into a job; then it is killed.
    pub(crate) fn start(command: &mut Command) -> io::Result<(Child, Group)> {
        // SAFETY: both arguments may be null.
        let job = owned(unsafe { CreateJobObjectW(null(), null()) })?;
        let mut child = command.creation_flags(CREATE_NEW_PROCESS_GROUP | CREATE_SUSPENDED).spawn()?;
        // SAFETY: both handles are open.
        let is_in = unsafe { AssignProcessToJobObject(job.as_raw_handle(), child.as_raw_handle()) } != 0;
        let begun = if is_in { resume(child.id()) } else { Err(io::Error::last_os_error()) };
        if let Err(error) = begun {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        let leader = child.id();
        Ok((child, Group { job, leader }))
    }

    pub(crate) fn interrupt(&self) {
        self.ask_to_end();
    }

    /// Sends Ctrl-Break to the processes that share our console. Those without one do not hear it.
    pub(crate) fn ask_to_end(&self) {
        // SAFETY: the function takes numbers only.
        unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, self.leader) };
    }

    pub(crate) fn kill(&self) {
        // SAFETY: the handle is open.
        unsafe { TerminateJobObject(self.job.as_raw_handle(), KILLED) };
    }

    /// `true` if no process of the job runs.
    pub(crate) fn is_empty(&self) -> bool {
        let mut information = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        let size = size_of::<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION>() as u32;
        // SAFETY: the structure is that of the class, with its size, and the handle is open.
        let answer = unsafe {
            QueryInformationJobObject(
                self.job.as_raw_handle(),
                JobObjectBasicAccountingInformation,
                (&raw mut information).cast(),
                size,
                null_mut(),
            )
        };
        answer != 0 && information.ActiveProcesses == 0
    }
}

fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the handle was just opened, and nothing else owns it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Lets the threads of a process run that was started suspended. It has one, unless another program
/// has put one into it.
fn resume(process: u32) -> io::Result<()> {
    // SAFETY: the function takes numbers only.
    let list = owned(unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) })?;
    let mut thread = THREADENTRY32 { dwSize: size_of::<THREADENTRY32>() as u32, ..THREADENTRY32::default() };
    let mut count = 0;
    // SAFETY: the structure has its size in its first field, and the handle is open.
    let mut more = unsafe { Thread32First(list.as_raw_handle(), &raw mut thread) } != 0;
    while more {
        if thread.th32OwnerProcessID == process {
            // SAFETY: the function takes numbers only.
            let handle = owned(unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, thread.th32ThreadID) })?;
            // SAFETY: the handle is open.
            if unsafe { ResumeThread(handle.as_raw_handle()) } == u32::MAX {
                return Err(io::Error::last_os_error());
            }
            count += 1;
        }
        // SAFETY: as for the first one.
        more = unsafe { Thread32Next(list.as_raw_handle(), &raw mut thread) } != 0;
    }
    if count == 0 {
        return Err(io::Error::other("the threads of a new process were not found"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;
    use std::time::{Duration, Instant};

    use crate::RunningGroup;

    #[test]
    fn a_program_in_a_job_ends_with_its_own_code() {
        let mut running = RunningGroup::start(Command::new("cmd").args(["/c", "exit 7"])).unwrap();
        assert_eq!(running.wait().unwrap().code(), Some(7));
        running.end(Duration::ZERO);
        assert!(RunningGroup::start(&mut Command::new(r"C:\none.exe")).is_err());
    }

    #[test]
    fn a_job_ends_with_everything_that_was_started_in_it() {
        let folder = tempfile::tempdir().unwrap();
        // `ping -n 4` takes three seconds, and `start /b` does not wait.
        let inner = folder.path().join("inner.bat");
        fs_err::write(&inner, "@ping -n 4 127.0.0.1 >nul\r\n@echo on>mark\r\n").unwrap();
        let outer = folder.path().join("outer.bat");
        fs_err::write(&outer, "@start /b cmd /c inner.bat\r\n@echo x>begun\r\n@ping -n 60 127.0.0.1 >nul\r\n").unwrap();
        let mut command = Command::new("cmd");
        command.args(["/c", "outer.bat"]).current_dir(folder.path());
        let mut running = RunningGroup::start(&mut command).unwrap();
        let begun = Instant::now();
        while !folder.path().join("begun").exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it did not start");
            thread::sleep(Duration::from_millis(20));
        }
        let begun = Instant::now();
        running.end(Duration::from_millis(100));
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert!(!running.wait().unwrap().success());
        thread::sleep(Duration::from_secs(4));
        assert!(!folder.path().join("mark").exists(), "what it had started went on");
    }
}
