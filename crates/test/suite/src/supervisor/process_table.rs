//! Input: `/proc`. Output: the processes of this machine, and what they use.

use std::path::PathBuf;

/// A process, as proc_pid_stat(5) shows it.
#[derive(Debug)]
pub(crate) struct ProcessState {
    pub(crate) number: i32,
    folder: PathBuf,
    pub(crate) group: u32,
    /// Start in ticks since the machine started.
    pub(crate) begun: u64,
}

impl ProcessState {
    /// Bytes in memory, with those that it shares.
    pub(crate) fn resident(&self) -> u64 {
        self.kibibytes("status", "VmRSS:") << 10
    }

    /// Bytes in memory; of those that n processes share, the n-th part.
    pub(crate) fn proportional(&self) -> u64 {
        self.kibibytes("smaps_rollup", "Pss:") << 10
    }

    /// `true` if its environment has `wanted`, which is `NAME=VALUE`.
    pub(crate) fn has_variable(&self, wanted: &str) -> bool {
        let variables = fs_err::read(self.folder.join("environ")).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    }

    /// A row of a file; a process that ends meanwhile uses nothing.
    fn kibibytes(&self, file: &str, row: &str) -> u64 {
        let text = fs_err::read_to_string(self.folder.join(file)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(row));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
    }
}

/// All processes that have not ended.
pub(crate) fn process_states() -> impl Iterator<Item = ProcessState> {
    let entries = fs_err::read_dir("/proc").ok().into_iter().flatten().flatten();
    entries.filter_map(|entry| process_state(entry.file_name().to_str()?.parse().ok()?))
}

/// `true` if the machine has more processes than `most`. Only names are read.
pub(crate) fn are_more_than(most: usize) -> bool {
    let entries = fs_err::read_dir("/proc").ok().into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names.filter(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit)).nth(most).is_some()
}

fn process_state(number: i32) -> Option<ProcessState> {
    let folder = PathBuf::from(format!("/proc/{number}"));
    let stat = fs_err::read_to_string(folder.join("stat")).ok()?;
    // The name of the program, in brackets, may contain spaces and brackets.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // One that has ended and was not waited for costs a number, and nothing else.
    if *fields.first()? == "Z" {
        return None;
    }
    Some(ProcessState { number, folder, group: fields.get(2)?.parse().ok()?, begun: fields.get(19)?.parse().ok()? })
}

/// When a process started, in ticks since the machine started; `None` if it has ended. Number and
/// start are an identity: numbers are used again.
pub(crate) fn process_start(number: i32) -> Option<u64> {
    Some(process_state(number)?.begun)
}

/// How often the kernel has ended a process of this machine to get memory; 0 if it does not say.
pub(crate) fn memory_kills() -> u64 {
    let text = fs_err::read_to_string("/proc/vmstat").unwrap_or_default();
    let number = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
    number.unwrap_or_default()
}
