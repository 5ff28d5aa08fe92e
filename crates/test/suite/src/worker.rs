//! The processes that run tests, and what they may use.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::supervisor::{MOST_PROCESSES, ProcessLimits};

/// How long things may take, and how often they are tried.
#[derive(Debug, Clone)]
pub struct SuiteLimits {
    /// Longest time of one test.
    pub timeout: Duration,
    /// Longest time from the start of a process to its first test: imports and collection.
    pub collect_timeout: Duration,
    /// Further attempts of a test that fails, each in a fresh process.
    pub retries: u32,
    /// What a test process and its children may use.
    pub process: ProcessLimits,
}

impl Default for SuiteLimits {
    fn default() -> Self {
        let (timeout, collect_timeout) = (Duration::from_mins(10), Duration::from_mins(10));
        let process = ProcessLimits { processes: MOST_PROCESSES, memory: None };
        Self { timeout, collect_timeout, retries: 0, process }
    }
}

/// One of the processes that test at the same time.
#[derive(Debug, Clone, Default)]
pub struct TestWorker {
    /// The GPU that it sees, as the facts of the run name it.
    pub gpu: Option<String>,
    /// What hides the other GPUs: `HIP_VISIBLE_DEVICES`.
    pub variables: BTreeMap<String, String>,
}
