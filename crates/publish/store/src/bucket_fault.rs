//! Input: what a request to a bucket ended with. Output: what that means to the user.

use std::io;

use http::StatusCode;
use rocwheel_progress::{Exit, with_causes};

/// The server's word for another request with a condition that is under way.
pub(crate) const CONFLICT: &str = "ConditionalRequestConflict";

/// Why a bucket did not do what it was asked. Texts have nothing of the credentials: servers send
/// key ids and what was signed back in their messages, so only their codes are taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BucketFault {
    #[error("the environment has no credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)")]
    NoCredentials,
    /// The options contradict or cannot be used.
    #[error("{0}")]
    Options(String),
    #[error("there is no such bucket")]
    NoBucket,
    #[error("the server does not accept the credentials ({0})")]
    Credentials(String),
    #[error("the server refuses access ({0})")]
    Denied(String),
    /// The bucket is elsewhere.
    #[error("the bucket is in another region ({0})")]
    Region(String),
    #[error("the server ignores conditions on writes, so two publishers could undo each other's work")]
    NoConditions,
    /// The object of the lock is not rocwheel's.
    #[error("`{0}` is no lock of rocwheel")]
    ForeignLock(String),
    /// The lock is too old, so another publisher may have taken it over.
    #[error("the lock could not be renewed in time, so another run may have it now")]
    LockEnded,
    #[error("it changed meanwhile")]
    Changed,
    /// The server cannot be reached, or stopped in the middle of an answer.
    #[error("the server does not answer: {0}")]
    Unreachable(String),
    /// The server is busy or out of order.
    #[error("the server is busy or out of order ({0})")]
    Busy(String),
    #[error("{0}")]
    Other(String),
}

impl BucketFault {
    /// What an answer with this status and body means.
    pub(crate) fn of_answer(status: StatusCode, body: &str) -> BucketFault {
        let code = code(body).unwrap_or_else(|| status.to_string());
        match code.as_str() {
            "NoSuchBucket" => Self::NoBucket,
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "ExpiredToken"
            | "InvalidToken"
            | "TokenRefreshRequired"
            | "RequestTimeTooSkewed"
            | "AuthorizationHeaderMalformed" => Self::Credentials(code),
            "PermanentRedirect" | "TemporaryRedirect" | "IllegalLocationConstraintException" => Self::Region(code),
            "SlowDown" | "InternalError" | "ServiceUnavailable" | "RequestTimeout" | CONFLICT | "OperationAborted" => {
                Self::Busy(code)
            }
            _ => match status {
                StatusCode::UNAUTHORIZED => Self::Credentials(code),
                StatusCode::FORBIDDEN => Self::Denied(code),
                StatusCode::MOVED_PERMANENTLY | StatusCode::TEMPORARY_REDIRECT => Self::Region(code),
                StatusCode::PRECONDITION_FAILED => Self::Changed,
                StatusCode::TOO_MANY_REQUESTS => Self::Busy(code),
                _ if status.is_server_error() => Self::Busy(code),
                _ if status.is_success() => Self::Other(reason(body)),
                _ => Self::Other(format!("the server answers {code}")),
            },
        }
    }

    /// `true` if another request changed the file, or is changing it.
    pub(crate) fn is_race(&self) -> bool {
        match self {
            Self::Changed => true,
            Self::Busy(code) => code == CONFLICT,
            _ => false,
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Unreachable(_) | Self::Busy(_) | Self::Changed | Self::LockEnded => Exit::TryAgain,
            Self::NoCredentials | Self::Options(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    pub(crate) fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoCredentials => {
                "rocwheel takes credentials from the environment only: run `eval \"$(aws configure export-credentials --format env)\"` first, or add `--anonymous` to read a public bucket"
            }
            Self::NoBucket => "check the name, and `--s3-endpoint` for a server other than AWS",
            Self::Credentials(_) => {
                "renew them, for example by `eval \"$(aws configure export-credentials --format env)\"`, and compare AWS_REGION with the region of the bucket"
            }
            Self::Denied(_) => {
                "the user needs s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload; without s3:ListBucket, S3 also says this of files that do not exist"
            }
            Self::Region(_) => "set AWS_REGION to the region of the bucket",
            Self::NoConditions => "add `--store-lock external` if nothing else writes at the same time",
            Self::ForeignLock(_) => "delete this object if no run is under way; the next run makes a new one",
            Self::Changed | Self::Busy(_) | Self::Unreachable(_) | Self::LockEnded => "try again",
            Self::Options(_) | Self::Other(_) => return None,
        })
    }
}

/// Why one try of a request failed.
pub(crate) enum Failure {
    /// Another try may help.
    Passing(BucketFault),
    Lasting(BucketFault),
    Slow(io::Error),
}

impl Failure {
    /// The failure of a request without a whole answer.
    pub(crate) fn of_client(error: &(dyn std::error::Error + 'static)) -> Failure {
        Failure::Passing(BucketFault::Unreachable(reason(&with_causes(error))))
    }
}

/// The `<Code>` of an error in XML.
fn code(body: &str) -> Option<String> {
    let (_, rest) = body.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    (code.len() < 100 && code.bytes().all(|byte| byte.is_ascii_alphanumeric())).then(|| code.to_owned())
}

/// The last cause, which names no address.
fn reason(text: &str) -> String {
    text.rsplit(": ").next().unwrap_or(text).chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_become_reasons_without_secrets() {
        let body = |code: &str| {
            format!("<Error><Code>{code}</Code><Message>m</Message><AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>")
        };
        let of = |status: u16, code: &str| {
            BucketFault::of_answer(StatusCode::from_u16(status).unwrap(), &body(code)).to_string()
        };
        assert_eq!(of(404, "NoSuchBucket"), "there is no such bucket");
        assert_eq!(
            of(403, "SignatureDoesNotMatch"),
            "the server does not accept the credentials (SignatureDoesNotMatch)"
        );
        assert_eq!(of(403, "AccessDenied"), "the server refuses access (AccessDenied)");
        assert_eq!(of(503, "SlowDown"), "the server is busy or out of order (SlowDown)");
        assert_eq!(of(301, "PermanentRedirect"), "the bucket is in another region (PermanentRedirect)");
        assert_eq!(of(400, "BadDigest"), "the server answers BadDigest");
        let plain = BucketFault::of_answer(StatusCode::FORBIDDEN, "").to_string();
        assert_eq!(plain, "the server refuses access (403 Forbidden)");
    }
}
