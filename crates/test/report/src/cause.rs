//! Input: an attempt that went wrong. Output: what outside of the test made it fail, if its words
//! show that.
//!
//! A test that fails since the disk is full says nothing about what is tested, and it is not flaky
//! if it passes later. It still fails.

use crate::outcome::{OutsideCause, TestOutcome};

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

/// Lines at the end of an output that tell why a process died. HIP prints two before it aborts, and
/// a C++ runtime one; Python's stacks follow them.
const LAST_LINES: usize = 40;

/// What outside of the test made an attempt fail, as far as its words show that.
///
/// A test may print or compare such words itself, so they count only where the failure is told: in
/// its message, unless that is an assertion of Python's, which quotes what it compares. The end of
/// the output counts for a process that died or was ended, and for a failure without a message.
pub fn cause_of(outcome: TestOutcome, message: Option<&str>, output: Option<&str>) -> Option<OutsideCause> {
    if !outcome.is_bad() {
        return None;
    }
    let message = message.filter(|text| !text.trim().is_empty());
    let told = message.filter(|text| !is_assertion(text)).and_then(|text| {
        // pytest begins the lines of the error, and of those that led to it, with `E`.
        let lines = output.unwrap_or_default().lines().filter(|line| line.starts_with("E   "));
        std::iter::once(text).chain(lines).find_map(|text| causes_in(text).next())
    });
    let has_died = !matches!(outcome, TestOutcome::Failed | TestOutcome::Error);
    let end = output.filter(|_| has_died || message.is_none()).map(end_of);
    told.or_else(|| causes_in(end?).next())
}

/// The causes whose words a text has. An attempt that passed and printed them refutes these causes
/// for the other attempts of its test.
pub fn causes_in(text: &str) -> impl Iterator<Item = OutsideCause> + '_ {
    SIGNS.iter().filter(|(sign, _)| text.contains(sign)).map(|(_, cause)| *cause)
}

/// `AssertionError: …` and pytest's `assert a in b`, also behind `setup failed: `.
fn is_assertion(message: &str) -> bool {
    let line = message.trim_start().lines().next().unwrap_or_default();
    let line = line.split_once(" failed: ").map_or(line, |(_, rest)| rest);
    line.starts_with("AssertionError") || line.starts_with("assert ")
}

fn end_of(output: &str) -> &str {
    let lines = output.trim_end().rmatch_indices('\n').nth(LAST_LINES - 1);
    lines.map_or(output, |(index, _)| &output[index..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_read_from_what_real_programs_print() {
        let cause = |message: &str| cause_of(TestOutcome::Failed, Some(message), None);
        // `/dev/full` answers every write as a full disk does.
        let full = std::io::Write::write_all(&mut fs_err::File::create("/dev/full").unwrap(), b"a").unwrap_err();
        assert_eq!(cause(&full.to_string()), Some(OutsideCause::DiskFull));
        let resolver = std::net::ToSocketAddrs::to_socket_addrs("no-such-host.invalid:1").unwrap_err().to_string();
        assert_eq!(cause(&resolver), Some(OutsideCause::Network), "{resolver}");
        assert_eq!(cause("setup failed: OSError: [Errno 28] No space left on device"), Some(OutsideCause::DiskFull));
        assert_eq!(cause("HW Exception by GPU node-1 reason :GPU Hang"), Some(OutsideCause::GpuLost));
        for own in ["Memory access fault by GPU node-1", "Connection refused", "MemoryError", "assert 28 == 29"] {
            assert_eq!(cause(own), None, "{own}");
        }
    }

    #[test]
    fn words_of_the_test_itself_are_no_cause() {
        let printed = "connecting: No route to host\nOSError: [Errno 28] No space left on device\n";
        for message in [
            "AssertionError: 'No route to host' not found in 'refused'",
            "assert 'Network is unreachable' in 'refused'",
            "teardown failed: AssertionError: No space left on device",
            "ValueError: 3",
        ] {
            assert_eq!(cause_of(TestOutcome::Failed, Some(message), Some(printed)), None, "{message}");
        }
        let traceback = "E   OSError: [Errno 28] No space left on device\n\nE   RuntimeError: the worker died";
        let worker = cause_of(TestOutcome::Failed, Some("RuntimeError: the worker died"), Some(traceback));
        assert_eq!(worker, Some(OutsideCause::DiskFull));
        assert_eq!(cause_of(TestOutcome::Passed, Some("No route to host"), None), None);
        // Nothing but the output tells why a process died, or why a script failed.
        let died = Some("the process was ended by signal 6 (SIGABRT)");
        assert_eq!(cause_of(TestOutcome::Crashed, died, Some(printed)), Some(OutsideCause::DiskFull));
        assert_eq!(cause_of(TestOutcome::Failed, None, Some(printed)), Some(OutsideCause::DiskFull));
        let long_ago = format!("{printed}{}", "working\n".repeat(LAST_LINES));
        assert_eq!(cause_of(TestOutcome::Crashed, died, Some(&long_ago)), None);
    }
}
