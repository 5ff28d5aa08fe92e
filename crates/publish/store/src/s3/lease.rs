//! Input: a bucket. Output: the right to change it, for as long as it is renewed.
//!
//! The lock is an object that is written under conditions only: created if there is none, replaced
//! if it is the one that was read. Its age is the difference of two times of the server, so the
//! clocks of publishers do not matter. It is never deleted: a deletion has no condition on most
//! servers.
//!
//! A publisher that was stopped for longer than its lock lives must notice that before it writes
//! again. So it compares its own clock with the time of its last renewal before each request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use object_store::aws::AmazonS3;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion};
use ring::rand::{SecureRandom as _, SystemRandom};
use rocwheel_content::hexadecimal;
use rocwheel_system::steady_time;
use serde::{Deserialize, Serialize};
use tokio::task::AbortHandle;

use super::client::{Client, Stop};
use super::{S3Store, media};
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
/// The interval at which the clock is read. The runtime's own clock may stand still while the
/// machine sleeps.
const NAP: Duration = Duration::from_millis(200);
/// How long a lock is tried to be given back.
const RELEASE: Duration = Duration::from_secs(10);
/// How often a race with other publishers is run again.
const TRIES: usize = 5;
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

impl Record {
    fn payload(&self) -> object_store::PutPayload {
        serde_json::to_vec(self).expect("all keys are text").into()
    }
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
    path: Path,
    tenure: Arc<Mutex<Tenure>>,
    renewing: AbortHandle,
}

impl Lease {
    /// Takes the lock, or reports who has it.
    pub(super) fn take(store: &S3Store) -> Result<Lease, Error> {
        let failed = |stop: Stop| stop.error(format!("lock `{}`", store.name()));
        let path = store.path(LOCK)?;
        let run = random().map_err(|fault| failed(fault.into()))?;
        let life = LIFE.as_secs();
        let record = Record { owner: store.owner.clone(), run, held: true, life, renewals: 0 };
        let client = &store.client;
        let renewed = steady_time();
        for _ in 0..TRIES {
            match client.wait(attempt(client, &path, &record)).map_err(failed)? {
                Attempt::Held(etag) => {
                    let tenure = Tenure { record, renewed, is_lost: false };
                    return Ok(Self::hold(client, path, tenure, etag));
                }
                Attempt::Raced => {}
                Attempt::Of(owner, rest) => {
                    return Err(Error::Leased { store: store.name(), owner, seconds: rest.as_secs() });
                }
            }
        }
        Err(Error::Locked { store: store.name() })
    }

    fn hold(client: &Arc<Client>, path: Path, tenure: Tenure, etag: String) -> Lease {
        let tenure = Arc::new(Mutex::new(tenure));
        let store = client.store.clone();
        let (shared, key) = (Arc::clone(&tenure), path.clone());
        let renewing = client.spawn(async move { renew(&store, &key, &shared, etag).await });
        Lease { client: Arc::clone(client), path, tenure, renewing }
    }

    /// Errors unless a request may be begun. A renewal that is late is waited for: it succeeds if
    /// no other publisher has taken the lock over.
    pub(super) fn check_begin(&self, store: &S3Store) -> Result<(), Error> {
        let may_begin = || guard(&self.tenure).is_younger(LAST_BEGIN, steady_time());
        if may_begin() {
            return Ok(());
        }
        let end = steady_time() + PATIENCE;
        let renewal = async {
            while !may_begin() {
                if guard(&self.tenure).is_lost || steady_time() > end {
                    return Err(BucketFault::LockEnded);
                }
                tokio::time::sleep(NAP).await;
            }
            Ok(())
        };
        match self.client.wait(renewal) {
            Err(Stop::Fault(_)) if guard(&self.tenure).is_lost => Err(Error::Locked { store: store.name() }),
            ended => ended.map_err(|stop| stop.error(format!("write to `{}`", store.name()))),
        }
    }

    /// Errors unless a request that is under way may go on.
    pub(super) fn check_step(&self) -> Result<(), BucketFault> {
        let may_go_on = guard(&self.tenure).is_younger(LAST_STEP, steady_time());
        if may_go_on { Ok(()) } else { Err(BucketFault::LockEnded) }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
        let record = guard(&self.tenure).record.clone();
        let store = &self.client.store;
        let release = async {
            // What is there now: a renewal may have been under way.
            let Ok(Some((found, etag))) = read(store, &self.path).await else { return };
            if found.run == record.run {
                let free = Record { held: false, renewals: found.renewals + 1, ..found };
                // A lock that cannot be given back ends by itself.
                let _ = put(store, &self.path, &free, update(etag)).await;
            }
        };
        self.client.finish(RELEASE, release);
    }
}

/// What became of one try to take the lock.
enum Attempt {
    Held(String),
    /// Another publisher was quicker, and may be done by now.
    Raced,
    /// Held by this one, and for how much longer if it is not renewed.
    Of(String, Duration),
}

async fn attempt(client: &Client, path: &Path, record: &Record) -> Result<Attempt, BucketFault> {
    let store = &client.store;
    match put(store, path, record, PutMode::Create).await {
        Ok(etag) => return Ok(Attempt::Held(etag)),
        // Also the answer 409: another publisher's request is under way.
        Err(object_store::Error::AlreadyExists { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let Some((found, etag)) = read(store, path).await? else { return Ok(Attempt::Raced) };
    if found.run == record.run {
        // The answer to our own request was lost.
        return Ok(Attempt::Held(etag));
    }
    if found.held {
        let head = client.head(path).await?;
        let Some(head) = head.filter(|head| head.etag.as_ref() == Some(&etag)) else { return Ok(Attempt::Raced) };
        // A server without a clock never says that a lock is old.
        let life = Duration::from_secs(found.life);
        if head.age.is_none_or(|age| age < life) {
            return Ok(Attempt::Of(found.owner, life.saturating_sub(head.age.unwrap_or_default())));
        }
    }
    match put(store, path, record, update(etag)).await {
        Ok(etag) => Ok(Attempt::Held(etag)),
        Err(object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. }) => Ok(Attempt::Raced),
        Err(error) => Err(error.into()),
    }
}

/// Writes the record again and again, until the lock is another publisher's. One that was not
/// renewed for longer than it lives is still ours if its object is: another publisher replaces it.
async fn renew(store: &AmazonS3, path: &Path, tenure: &Mutex<Tenure>, mut etag: String) {
    let mut due = guard(tenure).renewed + RENEWAL;
    loop {
        while steady_time() < due {
            tokio::time::sleep(NAP).await;
        }
        let sent = steady_time();
        let next = {
            let mut tenure = guard(tenure);
            tenure.record.renewals += 1;
            tenure.record.clone()
        };
        due = sent + PAUSE;
        match tokio::time::timeout(ANSWER, replace(store, path, &next, &etag)).await {
            Ok(Ok(Some(Replaced { renewals, etag: written }))) => {
                etag = written;
                // An older record arrived late, at an unknown time: it is written again.
                if renewals == next.renewals {
                    guard(tenure).renewed = sent;
                    due = sent + RENEWAL;
                }
            }
            Ok(Ok(None)) => break,
            // The server is busy or does not answer.
            Ok(Err(_)) | Err(_) => {}
        }
    }
    guard(tenure).is_lost = true;
}

/// The record that is there after a renewal.
struct Replaced {
    renewals: u64,
    etag: String,
}

/// Writes a record over that with this ETag; `None` when there is one of another publisher.
async fn replace(store: &AmazonS3, path: &Path, next: &Record, etag: &str) -> Result<Option<Replaced>, BucketFault> {
    match put(store, path, next, update(etag.to_owned())).await {
        Ok(etag) => return Ok(Some(Replaced { renewals: next.renewals, etag })),
        Err(object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    match read(store, path).await {
        // Our own request, whose answer was lost.
        Ok(Some((found, etag))) if found.run == next.run => Ok(Some(Replaced { renewals: found.renewals, etag })),
        Ok(_) | Err(BucketFault::ForeignLock(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

fn update(etag: String) -> PutMode {
    PutMode::Update(UpdateVersion { e_tag: Some(etag), version: None })
}

async fn put(store: &AmazonS3, path: &Path, record: &Record, mode: PutMode) -> object_store::Result<String> {
    let options = PutOptions { mode, attributes: media::attributes(LOCK), ..PutOptions::default() };
    let put = store.put_opts(path, record.payload(), options).await?;
    Ok(put.e_tag.unwrap_or_default())
}

async fn read(store: &AmazonS3, path: &Path) -> Result<Option<(Record, String)>, BucketFault> {
    let found = match store.get_opts(path, GetOptions::default()).await {
        Ok(found) => found,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let etag = found.meta.e_tag.clone().unwrap_or_default();
    let bytes = found.bytes().await?;
    let foreign = |_| BucketFault::ForeignLock(path.to_string());
    Ok(Some((serde_json::from_slice(&bytes).map_err(foreign)?, etag)))
}

fn random() -> Result<String, BucketFault> {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| BucketFault::Other("the system has no random numbers".to_owned()))?;
    Ok(hexadecimal(&bytes))
}

/// Errors unless the server heeds the conditions that a lock needs. Some servers ignore them, and
/// the write succeeds.
pub(super) fn probe(store: &S3Store) -> Result<(), Error> {
    let failed = |stop: Stop| stop.error(format!("lock `{}`", store.name()));
    let name = random().map_err(|fault| failed(fault.into()))?;
    let path = store.path(&format!(".rocwheel/probe-{name}"))?;
    let client = &store.client;
    let probed = client.wait(heeds_conditions(&client.store, &path, &name));
    client.finish(RELEASE, client.store.delete(&path));
    if probed.map_err(failed)? { Ok(()) } else { Err(failed(BucketFault::NoConditions.into())) }
}

async fn heeds_conditions(store: &AmazonS3, path: &Path, run: &str) -> Result<bool, BucketFault> {
    let record = |renewals| Record { owner: String::new(), run: run.to_owned(), held: false, life: 0, renewals };
    let (mut exists, mut tries) = (false, 0);
    while !exists && tries < TRIES {
        tries += 1;
        exists = match put(store, path, &record(0), PutMode::Create).await {
            Ok(_) => true,
            // 409, or the answer to the first of two tries was lost.
            Err(object_store::Error::AlreadyExists { .. }) => read(store, path).await?.is_some(),
            Err(error) => return unsupported(error),
        };
    }
    match put(store, path, &record(1), PutMode::Create).await {
        Ok(_) => return Ok(false),
        Err(object_store::Error::AlreadyExists { .. }) => {}
        Err(error) => return unsupported(error),
    }
    match put(store, path, &record(2), update(WRONG.to_owned())).await {
        Ok(_) => Ok(false),
        Err(object_store::Error::Precondition { .. }) => Ok(true),
        Err(error) => unsupported(error),
    }
}

/// Servers that know no conditions may also say so.
fn unsupported(error: object_store::Error) -> Result<bool, BucketFault> {
    let text = rocwheel_progress::with_causes(&error);
    if text.contains("NotImplemented") || text.contains("status code: 501") { Ok(false) } else { Err(error.into()) }
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
