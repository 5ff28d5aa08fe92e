//! Input: an attempt that went wrong. Output: what outside of the test made it fail, if its words
//! show that.
//!
//! A test that fails since the disk is full says nothing about what is tested, and it is not flaky
//! if it passes later. It still fails.

use serde::{Deserialize, Serialize};

/// What a test cannot help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutsideCause {
    /// A disk or a quota is full.
    DiskFull,
    /// The GPU hung, was reset or has gone.
    GpuLost,
    /// The kernel ended processes to get memory.
    MemoryKiller,
    /// Names are not resolved, or there is no way to a machine.
    Network,
}

impl OutsideCause {
    /// For messages: `the disk is full`.
    pub fn words(self) -> &'static str {
        match self {
            Self::DiskFull => "the disk is full",
            Self::GpuLost => "the GPU was lost or reset",
            Self::MemoryKiller => "the kernel ended processes for want of memory",
            Self::Network => "the network does not work",
        }
    }
}

/// Words of glibc, HIP, ROCr and resolvers. A refused or lost connection is not among them: a peer
/// that crashed says the same. Neither is a memory access fault, which is the fault of a kernel.
const SIGNS: [(&str, OutsideCause); 14] = [
    ("No space left on device", OutsideCause::DiskFull),
    ("Disk quota exceeded", OutsideCause::DiskFull),
    ("[Errno 28]", OutsideCause::DiskFull),
    ("HW Exception by GPU", OutsideCause::GpuLost),
    ("GPU Hang", OutsideCause::GpuLost),
    ("GPU reset", OutsideCause::GpuLost),
    ("hipErrorNoDevice", OutsideCause::GpuLost),
    ("no ROCm-capable device is detected", OutsideCause::GpuLost),
    ("No HIP GPUs are available", OutsideCause::GpuLost),
    ("Temporary failure in name resolution", OutsideCause::Network),
    ("Name or service not known", OutsideCause::Network),
    ("Could not resolve host", OutsideCause::Network),
    ("Network is unreachable", OutsideCause::Network),
    ("No route to host", OutsideCause::Network),
];

/// The cause that the words of a failure show: its message and its output.
pub(crate) fn cause_of(texts: [Option<&str>; 2]) -> Option<OutsideCause> {
    let is_shown = |sign: &str| texts.iter().flatten().any(|text| text.contains(sign));
    SIGNS.iter().find(|(sign, _)| is_shown(sign)).map(|(_, cause)| *cause)
}

/// How often the kernel has ended a process of this machine to get memory; 0 if it does not say.
pub(crate) fn memory_kills() -> u64 {
    let text = fs_err::read_to_string("/proc/vmstat").unwrap_or_default();
    let number = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
    number.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_read_from_what_real_programs_print() {
        let cause = |output: &str| cause_of([Some("it failed"), Some(output)]);
        // `/dev/full` answers every write as a full disk does.
        let full = std::io::Write::write_all(&mut std::fs::File::create("/dev/full").unwrap(), b"a").unwrap_err();
        assert_eq!(cause(&full.to_string()), Some(OutsideCause::DiskFull));
        let resolver = std::net::ToSocketAddrs::to_socket_addrs("no-such-host.invalid:1").unwrap_err().to_string();
        assert_eq!(cause(&resolver), Some(OutsideCause::Network), "{resolver}");
        assert_eq!(cause("HW Exception by GPU node-1 reason :GPU Hang"), Some(OutsideCause::GpuLost));
        for own in ["Memory access fault by GPU node-1", "Connection refused", "MemoryError", "assert 28 == 29"] {
            assert_eq!(cause(own), None, "{own}");
        }
    }
}
