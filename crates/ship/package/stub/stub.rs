//! The exec stub: a wheel cannot hold symbolic links, so a link to a program becomes a copy of this
//! program, which runs the link's target instead.
//!
//! Input: its own path on disk and the relative path in [`TARGET`]. Output: the target, running in
//! this process with unchanged arguments (including the first) and environment. If that fails, it
//! prints one line on stderr and exits with status 1.
//!
//! The kernel follows the path: directory of `/proc/self/exe`, `/`, and the unchanged text.
//! `/proc/self/exe` is the real path of the stub, so a link to the stub works too. The stub has no
//! libc, so it runs on every Linux. `build.sh` makes the committed `stub.elf` from this file;
//! `rocwheel_package::stub` fills in the path.

#![no_std]
#![no_main]

use core::arch::{asm, naked_asm};
use core::panic::PanicInfo;

/// Path of the target, relative to the stub's directory, ended by a zero byte. The mark before it
/// serves to find it.
const CAPACITY: usize = 512;
const MARK: usize = 16;

#[repr(C)]
struct Placeholder {
    mark: [u8; MARK],
    path: [u8; CAPACITY - MARK],
}

#[used]
#[unsafe(link_section = ".target")]
static TARGET: Placeholder = Placeholder { mark: *b"\x7frocwheel-target", path: [0; CAPACITY - MARK] };

/// `PATH_MAX` of Linux, with the final zero byte.
const PATH_MAX: usize = 4096;

const WRITE: usize = 1;
const EXECVE: usize = 59;
const EXIT: usize = 60;
const READLINK: usize = 89;

const ENAMETOOLONG: usize = 36;

/// The entry point. The argument count is at the top of the stack, and the vectors are above
/// it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!("mov rdi, rsp", "and rsp, -16", "call {run}", "ud2", run = sym run)
}

/// # Safety
/// `stack` is the stack pointer at process entry (System V x86-64 ABI, 3.4.1).
unsafe extern "C" fn run(stack: *const usize) -> ! {
    // SAFETY: the ABI puts the count, then that many pointers, a null, and the environment's
    // pointers, on the stack.
    let (arguments, environment) = unsafe {
        let count = *stack;
        (stack.add(1), stack.add(1 + count + 1))
    };
    let mut path = [0_u8; PATH_MAX];
    // SAFETY: the name ends in a zero byte, and the kernel writes at most the length it is given.
    let length =
        unsafe { system_call(READLINK, c"/proc/self/exe".as_ptr() as usize, path.as_mut_ptr() as usize, PATH_MAX) };
    if length > PATH_MAX {
        fail(b"could not find the own path in /proc/self/exe", &[], length.wrapping_neg());
    }
    let directory = path[..length].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let mut end = directory;
    for offset in 0..CAPACITY - MARK {
        // SAFETY: within the array; volatile because the path is written into the finished file.
        let byte = unsafe { (&raw const TARGET.path).cast::<u8>().add(offset).read_volatile() };
        if end == PATH_MAX {
            fail(b"could not exec ", &path, ENAMETOOLONG);
        }
        path[end] = byte;
        if byte == 0 {
            break;
        }
        end += 1;
    }
    // SAFETY: the path ends in a zero byte, the kernel made the vectors for this process.
    let answer = unsafe { system_call(EXECVE, path.as_ptr() as usize, arguments as usize, environment as usize) };
    fail(b"could not exec ", path.get(..end).unwrap_or(&[]), answer.wrapping_neg())
}

fn fail(attempt: &[u8], path: &[u8], errno: usize) -> ! {
    let digits = [b'0' + (errno / 100 % 10) as u8, b'0' + (errno / 10 % 10) as u8, b'0' + (errno % 10) as u8, b'\n'];
    let leading = if errno >= 100 {
        0
    } else if errno >= 10 {
        1
    } else {
        2
    };
    for text in [attempt, path, b": errno ", digits.get(leading..).unwrap_or(&[])] {
        // SAFETY: pointer and length are those of a slice.
        unsafe { system_call(WRITE, 2, text.as_ptr() as usize, text.len()) };
    }
    // SAFETY: exit takes a number and does not return.
    unsafe { system_call(EXIT, 1, 0, 0) };
    loop {}
}

/// Returns the result of a system call; an error is the negated errno.
///
/// # Safety
/// The arguments must be those in the manual page of the system call.
unsafe fn system_call(number: usize, first: usize, second: usize, third: usize) -> usize {
    let answer;
    // SAFETY: the kernel changes rax, rcx and r11 only.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => answer,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    fail(b"could not exec", &[], 0)
}
