//! Input: a bucket. Output: the right to change it, for as long as it is renewed.
//!
//! The lock is an object that is written under conditions only: created if there is none, replaced
//! if it is the one that was read. Its age is the difference of two times of the server, so the
//! clocks of publishers do not matter. It is never deleted: a deletion has no condition on most
//! servers.
//!
//! A publisher that was stopped for longer than its lock lives must notice that before it writes
//! again. So it compares its own clock with the time of its last renewal before each request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::StatusCode;
use ring::rand::{SecureRandom as _, SystemRandom};
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_system::steady_time;
use rusty_s3::Method;
use serde::{Deserialize, Serialize};

use super::client::{Client, Reply, Request, Stop, within};
use super::{Condition, S3Store, put_request};
use crate::bucket_fault::BucketFault;
use crate::error::Error;
use crate::store::Store as _;
use crate::traces::LOCK;

/// A lock that was not renewed for this long may be taken over.
const LIFE: Duration = Duration::from_mins(1);
const RENEWAL: Duration = Duration::from_secs(15);
/// How long a renewal may take, and how soon after a failure it is tried again.
const ANSWER: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(2);
/// No request is begun this long after the last renewal, and none is repeated. The rest of [`LIFE`]
/// is for the request itself.
const LAST_BEGIN: Duration = Duration::from_secs(40);
const LAST_STEP: Duration = Duration::from_secs(50);
/// How long a request waits for a renewal that is late.
const PATIENCE: Duration = Duration::from_secs(20);
/// The interval at which the clock is read. Other clocks may stand still while the machine sleeps.
const NAP: Duration = Duration::from_millis(200);
/// How long a lock is tried to be given back.
const RELEASE: Duration = Duration::from_secs(10);
/// How often a race with other publishers is run again.
const TRIES: usize = 5;
/// The object that is written to see whether the server heeds conditions.
const PROBE: &str = ".rocwheel/probe";
/// The ETag of nothing.
const WRONG: &str = "\"00000000000000000000000000000000\"";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    owner: String,
    /// Which run holds it.
    run: String,
    /// `false` once it was given back.
    held: bool,
    /// For how many seconds it is held after it was written.
    life: u64,
    /// Makes each record another one, and so its ETag.
    renewals: u64,
}

struct Tenure {
    record: Record,
    /// When the last renewal that the server confirmed was sent, by [`steady_time`]. Another
    /// publisher may take the lock over [`LIFE`] later.
    renewed: Duration,
    /// `true` once another publisher has the lock.
    is_lost: bool,
}

impl Tenure {
    fn is_younger(&self, limit: Duration, now: Duration) -> bool {
        !self.is_lost && now.saturating_sub(self.renewed) < limit
    }
}

fn guard(tenure: &Mutex<Tenure>) -> MutexGuard<'_, Tenure> {
    tenure.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Lease {
    client: Arc<Client>,
    path: String,
    tenure: Arc<Mutex<Tenure>>,
    /// Ends the renewals.
    is_over: Arc<AtomicBool>,
}

impl Lease {
    /// Takes the lock, or reports who has it.
    pub(super) fn take(store: &S3Store) -> Result<Lease, Error> {
        let path = store.path(LOCK)?;
        let run = random().map_err(|fault| lock_error(store)(fault.into()))?;
        let life = LIFE.as_secs();
        let record = Record { owner: store.owner.clone(), run, held: true, life, renewals: 0 };
        let lock = LockObject { client: &store.client, path: &path, check: &|| store.client.check() };
        let renewed = steady_time();
        for _ in 0..TRIES {
            match lock.attempt(&record).map_err(lock_error(store))? {
                Attempt::Held(etag) => {
                    let tenure = Tenure { record, renewed, is_lost: false };
                    return Self::hold(&store.client, path, tenure, etag).map_err(lock_error(store));
                }
                Attempt::Raced => {}
                Attempt::Of(owner, rest) => {
                    return Err(Error::Leased { store: store.name(), owner, seconds: rest.as_secs() });
                }
            }
        }
        Err(Error::Locked { store: store.name() })
    }

    fn hold(client: &Arc<Client>, path: String, tenure: Tenure, etag: String) -> Result<Lease, Stop> {
        let lease = Lease {
            client: Arc::clone(client),
            path,
            tenure: Arc::new(Mutex::new(tenure)),
            is_over: Arc::new(AtomicBool::new(false)),
        };
        let (client, path) = (Arc::clone(client), lease.path.clone());
        let (tenure, is_over) = (Arc::clone(&lease.tenure), Arc::clone(&lease.is_over));
        let thread = std::thread::Builder::new().name("lock".to_owned());
        let renewing = thread.spawn(move || renew(&client, &path, &tenure, &is_over, etag));
        renewing.map_err(|error| BucketFault::Other(format!("no thread can be started: {error}")))?;
        Ok(lease)
    }

    /// Errors unless a request may be begun. A renewal that is late is waited for: it succeeds if
    /// no other publisher has taken the lock over.
    pub(super) fn check_begin(&self, store: &S3Store) -> Result<(), Error> {
        let end = steady_time() + PATIENCE;
        while !guard(&self.tenure).is_younger(LAST_BEGIN, steady_time()) {
            if guard(&self.tenure).is_lost {
                return Err(Error::Locked { store: store.name() });
            }
            let is_late = if steady_time() > end { Err(BucketFault::LockEnded.into()) } else { self.client.check() };
            is_late.map_err(|stop| stop.error(format!("write to `{}`", store.name())))?;
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Errors unless a request that is under way may go on.
    pub(super) fn check_step(&self) -> Result<(), BucketFault> {
        let may_go_on = guard(&self.tenure).is_younger(LAST_STEP, steady_time());
        if may_go_on { Ok(()) } else { Err(BucketFault::LockEnded) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let run = guard(&self.tenure).record.run.clone();
        let end = Instant::now() + RELEASE;
        let lock = LockObject { client: &self.client, path: &self.path, check: &|| within(end) };
        // What is there now: a renewal may have been under way.
        if let Ok(Some((found, etag))) = lock.read()
            && found.run == run
        {
            let free = Record { held: false, renewals: found.renewals + 1, ..found };
            // A lock that cannot be given back ends by itself.
            let _ = lock.put(&free, &Condition::Is(etag));
        }
    }
}

/// Writes the record again and again, until the lock is another publisher's. One that was not
/// renewed for longer than it lives is still ours if its object is: another publisher replaces it.
fn renew(client: &Arc<Client>, path: &str, tenure: &Mutex<Tenure>, is_over: &AtomicBool, mut etag: String) {
    let mut due = guard(tenure).renewed + RENEWAL;
    loop {
        while steady_time() < due {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(NAP);
        }
        let sent = steady_time();
        let next = {
            let mut tenure = guard(tenure);
            tenure.record.renewals += 1;
            tenure.record.clone()
        };
        due = sent + PAUSE;
        let end = Instant::now() + ANSWER;
        let lock = LockObject {
            client,
            path,
            check: &|| if is_over.load(Ordering::Relaxed) { Err(BucketFault::LockEnded.into()) } else { within(end) },
        };
        match lock.replace(&next, &etag) {
            Ok(Some(Replaced { renewals, etag: written })) => {
                etag = written;
                // An older record arrived late, at an unknown time: it is written again.
                if renewals == next.renewals {
                    guard(tenure).renewed = sent;
                    due = sent + RENEWAL;
                }
            }
            Ok(None) => break,
            // The server is busy or does not answer.
            Err(_) => {}
        }
    }
    guard(tenure).is_lost = true;
}

/// What became of one try to take the lock.
enum Attempt {
    Held(String),
    /// Another publisher was quicker, and may be done by now.
    Raced,
    /// Held by this one, and for how much longer if it is not renewed.
    Of(String, Duration),
}

/// The record that is there after a renewal.
struct Replaced {
    renewals: u64,
    etag: String,
}

/// What became of a write under a condition.
#[derive(PartialEq, Eq)]
enum Written {
    /// The record has this ETag.
    Done(String),
    /// The condition was not met, or another publisher's request is under way.
    Refused,
    /// The server knows no conditions, and says so.
    Unsupported,
}

/// The object of the lock, and until when its requests are waited for.
struct LockObject<'a> {
    client: &'a Arc<Client>,
    path: &'a str,
    check: &'a dyn Fn() -> Result<(), Stop>,
}

impl LockObject<'_> {
    fn send(&self, request: Request) -> Result<Reply, Stop> {
        self.client.send_while(request, self.check)
    }

    fn put(&self, record: &Record, condition: &Condition) -> Result<Written, Stop> {
        let bytes = serde_json::to_vec(record).expect("all keys are text");
        let digest = sha256(&bytes);
        let request = put_request(self.path, LOCK, bytes.into(), &digest, condition);
        let refusals = &[StatusCode::PRECONDITION_FAILED, StatusCode::CONFLICT, StatusCode::NOT_IMPLEMENTED];
        let reply = match self.send(request.answered_by(refusals)) {
            // The lock was deleted since it was read.
            Err(Stop::Fault(BucketFault::Changed)) => return Ok(Written::Refused),
            reply => reply?,
        };
        Ok(match reply.status {
            StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT => Written::Refused,
            StatusCode::NOT_IMPLEMENTED => Written::Unsupported,
            _ => Written::Done(reply.etag().unwrap_or_default()),
        })
    }

    /// The record and its ETag.
    fn read(&self) -> Result<Option<(Record, String)>, Stop> {
        let request = Request::new(Method::Get, self.path).answered_by(&[StatusCode::NOT_FOUND]);
        let reply = self.send(request)?;
        if reply.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let record = serde_json::from_slice(&reply.body);
        let record = record.map_err(|_| BucketFault::ForeignLock(self.path.to_owned()))?;
        Ok(Some((record, reply.etag().unwrap_or_default())))
    }

    fn attempt(&self, record: &Record) -> Result<Attempt, Stop> {
        match self.put(record, &Condition::Absent)? {
            Written::Done(etag) => return Ok(Attempt::Held(etag)),
            Written::Refused => {}
            Written::Unsupported => return Err(BucketFault::NoConditions.into()),
        }
        let Some((found, etag)) = self.read()? else { return Ok(Attempt::Raced) };
        if found.run == record.run {
            // The answer to our own request was lost.
            return Ok(Attempt::Held(etag));
        }
        if found.held {
            let head = self.client.head(self.path)?;
            let Some(head) = head.filter(|head| head.etag.as_ref() == Some(&etag)) else { return Ok(Attempt::Raced) };
            // A server without a clock never says that a lock is old.
            let life = Duration::from_secs(found.life);
            if head.age.is_none_or(|age| age < life) {
                return Ok(Attempt::Of(found.owner, life.saturating_sub(head.age.unwrap_or_default())));
            }
        }
        Ok(match self.put(record, &Condition::Is(etag))? {
            Written::Done(etag) => Attempt::Held(etag),
            Written::Refused => Attempt::Raced,
            Written::Unsupported => return Err(BucketFault::NoConditions.into()),
        })
    }

    /// Writes a record over that with this ETag; `None` when there is one of another publisher.
    fn replace(&self, next: &Record, etag: &str) -> Result<Option<Replaced>, Stop> {
        if let Written::Done(etag) = self.put(next, &Condition::Is(etag.to_owned()))? {
            return Ok(Some(Replaced { renewals: next.renewals, etag }));
        }
        match self.read() {
            // Our own request, whose answer was lost.
            Ok(Some((found, etag))) if found.run == next.run => Ok(Some(Replaced { renewals: found.renewals, etag })),
            Ok(_) | Err(Stop::Fault(BucketFault::ForeignLock(_))) => Ok(None),
            Err(stop) => Err(stop),
        }
    }

    /// `true` if the server refuses what its conditions forbid.
    fn heeds_conditions(&self) -> Result<bool, Stop> {
        let record = Record { owner: String::new(), run: String::new(), held: false, life: 0, renewals: 0 };
        // The first of the two may be the one that makes the object.
        let is_absent_heeded = self.put(&record, &Condition::Absent)? == Written::Refused
            || self.put(&record, &Condition::Absent)? == Written::Refused;
        Ok(is_absent_heeded && self.put(&record, &Condition::Is(WRONG.to_owned()))? == Written::Refused)
    }
}

fn random() -> Result<String, BucketFault> {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| BucketFault::Other("the system has no random numbers".to_owned()))?;
    Ok(hexadecimal(&bytes))
}

/// Errors unless the server heeds the conditions that a lock needs. Some servers ignore them, and
/// the write succeeds. The probe is one object that is never deleted, so that killed runs leave no
/// others.
pub(super) fn probe(store: &S3Store) -> Result<(), Error> {
    let path = store.path(PROBE)?;
    let object = LockObject { client: &store.client, path: &path, check: &|| store.client.check() };
    let probed = object.heeds_conditions();
    if probed.map_err(lock_error(store))? { Ok(()) } else { Err(lock_error(store)(BucketFault::NoConditions.into())) }
}

fn lock_error(store: &S3Store) -> impl Fn(Stop) -> Error {
    |stop| stop.error(format!("lock `{}`", store.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_was_not_renewed_is_not_used() {
        let record = Record { owner: String::new(), run: "x".to_owned(), held: true, life: 60, renewals: 0 };
        let mut tenure = Tenure { record, renewed: Duration::from_secs(100), is_lost: false };
        let may_begin = |tenure: &Tenure, now| tenure.is_younger(LAST_BEGIN, Duration::from_secs(now));
        assert!(may_begin(&tenure, 100) && may_begin(&tenure, 139));
        assert!(!may_begin(&tenure, 140), "a request that is begun now may arrive after another run's");
        assert!(tenure.is_younger(LAST_STEP, Duration::from_secs(149)));
        assert!(!tenure.is_younger(LAST_STEP, Duration::from_secs(150)));
        tenure.renewed = Duration::from_secs(150);
        assert!(may_begin(&tenure, 151), "no other run had taken it over");
        tenure.is_lost = true;
        assert!(!may_begin(&tenure, 151));
        assert!(RENEWAL + ANSWER * 2 + PAUSE < LAST_BEGIN, "one renewal may fail");
        assert!(LAST_BEGIN < LAST_STEP && LAST_STEP < LIFE);
    }
}
