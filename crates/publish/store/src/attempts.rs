//! Input: a request that may fail for a while. Output: its answer, after as many attempts as may
//! help.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rocwheel_index::BadAddress;
use rocwheel_progress::{Exit, Reporter};

use crate::bucket_fault::BucketFault;

/// Requests to one server at the same time.
pub const CONNECTIONS: usize = 8;
/// Attempts for one request.
const MOST: u32 = 4;
/// Time before the second attempt; each later one waits three times as long.
const PAUSE: Duration = Duration::from_millis(300);

/// Runs `work` with [`CONNECTIONS`] threads, or with the existing ones if the system starts no
/// more.
pub fn with_connections<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    in_threads(CONNECTIONS, work)
}

pub(crate) fn in_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    }
}

/// Why a transfer failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferFault {
    /// Another attempt may help.
    #[error("{0}")]
    Passing(String),
    /// The server sent nothing for as long as the client waits, which is a minute. Another attempt
    /// may help, and may take as long.
    #[error("the server stopped sending: {0}")]
    Stalled(String),
    /// No attempt will help.
    #[error("{0}")]
    Lasting(String),
    /// A bucket refused, and no attempt will help.
    #[error("{reason}")]
    Refused {
        /// The refusal, with what was attempted where that is known.
        reason: String,
        /// `BucketFault::exit`.
        exit: Exit,
        /// `BucketFault::hint`.
        hint: Option<&'static str>,
    },
    /// The file of this machine cannot be written, whatever the server does.
    #[error("`{}` cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl TransferFault {
    pub fn passing(error: impl std::fmt::Display) -> TransferFault {
        TransferFault::Passing(error.to_string())
    }

    pub fn lasting(reason: impl std::fmt::Display) -> TransferFault {
        TransferFault::Lasting(reason.to_string())
    }

    /// The fault of a server that answers with this status.
    pub fn of_status(status: u16) -> TransferFault {
        let reason = format!("the server answers {status}");
        // 501 and 505: the server does not know what it is asked for.
        if matches!(status, 429 | 500 | 502..=504 | 506..) {
            TransferFault::Passing(reason)
        } else {
            TransferFault::Lasting(reason)
        }
    }

    /// The fault of a request without an answer.
    pub fn of_request(error: &(dyn std::error::Error + Send + Sync + 'static)) -> TransferFault {
        // Clients for servers have errors of their own; these are of the files in a folder.
        let is_of_file = error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput));
        let reason = rocwheel_progress::with_causes(error);
        if let Some(fault) = lasting_refusal(error) {
            TransferFault::refused(reason, fault)
        } else if error.downcast_ref().is_some_and(is_timeout) {
            TransferFault::Stalled(reason)
        } else if is_of_file || error.is::<BadAddress>() {
            TransferFault::Lasting(reason)
        } else {
            TransferFault::Passing(reason)
        }
    }

    /// The fault of an answer that cannot be read to its end.
    pub fn of_body(error: &io::Error) -> TransferFault {
        match lasting_refusal(error) {
            Some(fault) => TransferFault::refused(fault.to_string(), fault),
            None if is_timeout(error) => TransferFault::Stalled(error.to_string()),
            None => TransferFault::Passing(error.to_string()),
        }
    }

    fn refused(reason: String, fault: &BucketFault) -> TransferFault {
        TransferFault::Refused { reason, exit: fault.exit(), hint: fault.hint() }
    }

    /// The exit code of a command that ends with it.
    pub fn exit(&self) -> Exit {
        match self {
            TransferFault::Refused { exit, .. } => *exit,
            fault if fault.may_pass() => Exit::TryAgain,
            _ => Exit::Failed,
        }
    }

    pub fn hint(&self) -> Option<&'static str> {
        match self {
            TransferFault::Refused { hint, .. } => *hint,
            _ => None,
        }
    }

    pub fn may_pass(&self) -> bool {
        matches!(self, TransferFault::Passing(_) | TransferFault::Stalled(_))
    }
}

/// Finds the refusal of a bucket among the causes of an error, if no other attempt may help.
fn lasting_refusal<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a BucketFault> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(fault) = error.downcast_ref::<BucketFault>() {
            return Some(fault).filter(|fault| fault.exit() != Exit::TryAgain);
        }
        // `source` of an `io::Error` passes over the error in it.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    None
}

fn is_timeout(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

/// Attempts a request until it succeeds, until another attempt cannot help, or until the user stops
/// it; then the last fault is returned.
pub fn attempt<T>(reporter: &dyn Reporter, request: impl Fn() -> Result<T, TransferFault>) -> Result<T, TransferFault> {
    attempt_after(TransferFault::may_pass, reporter, request)
}

/// Like [`attempt`], but a server that stalls is not asked again, because a user waits.
pub fn attempt_unless_stalled<T>(
    reporter: &dyn Reporter,
    request: impl Fn() -> Result<T, TransferFault>,
) -> Result<T, TransferFault> {
    attempt_after(|fault| matches!(fault, TransferFault::Passing(_)), reporter, request)
}

fn attempt_after<T>(
    is_attempted: impl Fn(&TransferFault) -> bool,
    reporter: &dyn Reporter,
    request: impl Fn() -> Result<T, TransferFault>,
) -> Result<T, TransferFault> {
    let mut pause = PAUSE;
    for _ in 1..MOST {
        match request() {
            Err(fault) if is_attempted(&fault) && !reporter.interrupted() => std::thread::sleep(pause),
            result => return result,
        }
        pause *= 3;
    }
    request()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_not_tried_again() {
        let address = url::Url::parse("http://joe:S3cretPw@host/x.whl").unwrap();
        let bad = TransferFault::of_request(&BadAddress::new(&address, "is no path of this machine"));
        assert_eq!(
            (bad.to_string().as_str(), bad.may_pass()),
            ("`http://host/x.whl` is no path of this machine", false)
        );
        let of = |kind| TransferFault::of_request(&io::Error::from(kind)).may_pass();
        assert!(!of(io::ErrorKind::PermissionDenied) && of(io::ErrorKind::TimedOut));
        let passing = [429, 500, 502, 503, 504, 529];
        assert!(passing.into_iter().all(|status| TransferFault::of_status(status).may_pass()));
        assert!(![400, 403, 404, 416, 501, 505].into_iter().any(|status| TransferFault::of_status(status).may_pass()));
        let attempts = std::cell::Cell::new(0);
        let fault = attempt(&rocwheel_progress::Silent, || -> Result<(), _> {
            attempts.set(attempts.get() + 1);
            Err(TransferFault::lasting("no"))
        });
        assert!(fault.is_err() && attempts.get() == 1);
    }

    #[test]
    fn a_refusal_of_a_bucket_lasts_however_deep_it_is() {
        let denied = || BucketFault::Denied("AccessDenied".to_owned());
        let attempted = "list `s3://b/x`".to_owned();
        let read = |fault| crate::Error::Read { path: "s3://b/x".into(), source: io::Error::other(fault) };
        let faults = [
            TransferFault::of_request(&crate::Error::Bucket { attempted, source: denied() }),
            TransferFault::of_request(&read(denied())),
            TransferFault::of_body(&io::Error::other(denied())),
            TransferFault::of_body(&io::Error::other(read(denied()))),
        ];
        for fault in faults {
            let (is_refusal, hint) = (fault.to_string().contains("AccessDenied"), fault.hint().unwrap());
            assert_eq!((fault.may_pass(), fault.exit(), is_refusal), (false, Exit::Failed, true), "{fault}");
            assert!(hint.contains("s3:GetObject"), "{hint}");
        }
        for lasting in [BucketFault::Credentials("ExpiredToken".to_owned()), BucketFault::Region("301".to_owned())] {
            let fault = TransferFault::of_body(&io::Error::other(lasting));
            assert!(!fault.may_pass() && fault.hint().is_some_and(|hint| hint.contains("AWS_REGION")), "{fault}");
        }
        let other = TransferFault::of_request(&read(BucketFault::Other("no ranges".to_owned())));
        assert_eq!((other.exit(), other.hint()), (Exit::Failed, None));
        let busy = TransferFault::of_request(&read(BucketFault::Busy("SlowDown".to_owned())));
        assert_eq!((busy.may_pass(), busy.exit()), (true, Exit::TryAgain));
    }

    #[test]
    fn a_server_that_stalls_is_not_asked_again_while_somebody_waits() {
        for fault in [
            || TransferFault::of_request(&io::Error::from(io::ErrorKind::TimedOut)),
            || TransferFault::of_body(&io::Error::from(io::ErrorKind::TimedOut)),
        ] {
            let attempts = std::cell::Cell::new(0);
            let fault = attempt_unless_stalled(&rocwheel_progress::Silent, || -> Result<(), _> {
                attempts.set(attempts.get() + 1);
                Err(fault())
            });
            let fault = fault.unwrap_err();
            assert_eq!((attempts.get(), fault.exit()), (1, Exit::TryAgain), "{fault}");
            assert!(fault.to_string().starts_with("the server stopped sending: "), "{fault}");
        }
        assert!(matches!(TransferFault::of_body(&io::ErrorKind::ConnectionReset.into()), TransferFault::Passing(_)));
        // A mirror of many files goes on.
        let attempts = std::cell::Cell::new(0);
        let second = attempt(&rocwheel_progress::Silent, || {
            attempts.set(attempts.get() + 1);
            if attempts.get() == 1 { Err(TransferFault::of_body(&io::ErrorKind::TimedOut.into())) } else { Ok(()) }
        });
        assert!(second.is_ok() && attempts.get() == 2);
    }
}
