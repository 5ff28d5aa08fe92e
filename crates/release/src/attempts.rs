//! Input: a request that may fail for a while. Output: its answer, after as many attempts as may
//! help.

use std::time::Duration;

use rocwheel_report::Reporter;

/// Requests to one server at the same time.
pub(crate) const CONNECTIONS: usize = 8;
/// Attempts for one request.
const MOST: u32 = 4;
/// Time before the second attempt; each later one waits three times as long.
const PAUSE: Duration = Duration::from_millis(300);

/// Why a transfer failed, and whether another attempt may help.
pub(crate) struct TransferFault {
    pub(crate) reason: String,
    pub(crate) may_pass: bool,
}

impl TransferFault {
    pub(crate) fn passing(error: impl std::fmt::Display) -> TransferFault {
        TransferFault { reason: error.to_string(), may_pass: true }
    }

    pub(crate) fn lasting(reason: impl std::fmt::Display) -> TransferFault {
        TransferFault { reason: reason.to_string(), may_pass: false }
    }

    pub(crate) fn of_status(status: u16) -> TransferFault {
        TransferFault { reason: format!("the server answers {status}"), may_pass: matches!(status, 429 | 500..) }
    }
}

/// Attempts a request until it succeeds, until another attempt cannot help, or until the user stops
/// it; then the last fault is returned.
pub(crate) fn attempt<T>(
    reporter: &dyn Reporter,
    request: impl Fn() -> Result<T, TransferFault>,
) -> Result<T, TransferFault> {
    let mut pause = PAUSE;
    for _ in 1..MOST {
        match request() {
            Err(fault) if fault.may_pass && !reporter.interrupted() => std::thread::sleep(pause),
            result => return result,
        }
        pause *= 3;
    }
    request()
}
