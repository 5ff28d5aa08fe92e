//! Input: a bucket. Output: the right to change it, for as long as it is renewed.
//!
//! The lock is an object that is written under conditions only: created if there is none, replaced
//! if it is the one that was read. Its age is the difference of two times of the server, so the
//! clocks of publishers do not matter. It is never deleted: a deletion has no condition on most
//! servers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::path::Path;
use object_store::{GetOptions, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion};
use ring::rand::{SecureRandom as _, SystemRandom};
use rocwheel_content::hexadecimal;
use serde::{Deserialize, Serialize};
use tokio::task::AbortHandle;

use super::client::{Client, Stop};
use super::{BucketFault, S3Store, media};
use crate::store::Store as _;
use crate::{Error, known};

/// A lock that was not renewed for this long may be taken over.
const LIFE: Duration = Duration::from_mins(1);
const RENEWAL: Duration = Duration::from_secs(15);
/// How long a lock is tried to be given back.
const RELEASE: Duration = Duration::from_secs(10);
/// How often a race with other publishers is run again.
const TRIES: usize = 5;
/// The ETag of nothing.
const WRONG: &str = "\"00000000000000000000000000000000\"";

/// What the object says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    /// Who holds the lock, in words.
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
    /// # Panics
    /// Never: all keys are text.
    fn payload(&self) -> object_store::PutPayload {
        serde_json::to_vec(self).expect("all keys are text").into()
    }
}

/// The held lock of a store.
pub(super) struct Lease {
    client: Arc<Client>,
    path: Path,
    record: Arc<Mutex<Record>>,
    is_lost: Arc<AtomicBool>,
    renewing: AbortHandle,
}

impl Lease {
    /// Takes the lock, or reports who has it.
    pub(super) fn take(store: &S3Store) -> Result<Lease, Error> {
        let failed = |stop: Stop| stop.error(format!("lock `{}`", store.name()));
        let path = store.path(known::LOCK)?;
        let run = random().map_err(|fault| failed(fault.into()))?;
        let life = LIFE.as_secs();
        let record = Record { owner: store.owner.clone(), run, held: true, life, renewals: 0 };
        let client = &store.client;
        for _ in 0..TRIES {
            match client.wait(attempt(client, &path, &record)).map_err(failed)? {
                Attempt::Held(etag) => return Ok(Self::hold(client, path, record, etag)),
                Attempt::Raced => {}
                Attempt::Of(owner) => {
                    return Err(Error::Leased { store: store.name(), owner, seconds: life });
                }
            }
        }
        Err(Error::Locked { store: store.name() })
    }

    fn hold(client: &Arc<Client>, path: Path, record: Record, etag: String) -> Lease {
        let record = Arc::new(Mutex::new(record));
        let is_lost = Arc::new(AtomicBool::new(false));
        let store = client.store.clone();
        let (shared, lost, key) = (Arc::clone(&record), Arc::clone(&is_lost), path.clone());
        let renewing = client.spawn(async move {
            renew(&store, &key, &shared, etag).await;
            lost.store(true, Ordering::Release);
        });
        Lease { client: Arc::clone(client), path, record, is_lost, renewing }
    }

    /// `true` once another publisher may have taken the lock over.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner).clone();
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
    /// Held, with this ETag.
    Held(String),
    /// Another publisher was quicker, and may be done by now.
    Raced,
    /// Held by this one.
    Of(String),
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
        if head.age.is_none_or(|age| age < Duration::from_secs(found.life)) {
            return Ok(Attempt::Of(found.owner));
        }
    }
    match put(store, path, record, update(etag)).await {
        Ok(etag) => Ok(Attempt::Held(etag)),
        Err(object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. }) => Ok(Attempt::Raced),
        Err(error) => Err(error.into()),
    }
}

/// Writes the record again and again, until the lock is another publisher's.
async fn renew(store: &object_store::aws::AmazonS3, path: &Path, record: &Mutex<Record>, mut etag: String) {
    let mut last = Instant::now();
    loop {
        tokio::time::sleep(RENEWAL).await;
        let next = {
            let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
            record.renewals += 1;
            record.clone()
        };
        match put(store, path, &next, update(etag.clone())).await {
            Ok(written) => (etag, last) = (written, Instant::now()),
            Err(object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. }) => {
                match read(store, path).await {
                    // Our own request, whose answer was lost.
                    Ok(Some((found, written))) if found.run == next.run => (etag, last) = (written, Instant::now()),
                    Ok(_) => return,
                    Err(_) => {}
                }
            }
            Err(_) => {}
        }
        if last.elapsed() >= LIFE {
            return;
        }
    }
}

fn update(etag: String) -> PutMode {
    PutMode::Update(UpdateVersion { e_tag: Some(etag), version: None })
}

async fn put(
    store: &object_store::aws::AmazonS3,
    path: &Path,
    record: &Record,
    mode: PutMode,
) -> object_store::Result<String> {
    let options = PutOptions { mode, attributes: media::attributes(known::LOCK), ..PutOptions::default() };
    let put = store.put_opts(path, record.payload(), options).await?;
    Ok(put.e_tag.unwrap_or_default())
}

async fn read(store: &object_store::aws::AmazonS3, path: &Path) -> Result<Option<(Record, String)>, BucketFault> {
    let found = match store.get_opts(path, GetOptions::default()).await {
        Ok(found) => found,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let etag = found.meta.e_tag.clone().unwrap_or_default();
    let bytes = found.bytes().await?;
    let wrong = |_| BucketFault::Other(format!("`{path}` is no lock of rocwheel"));
    Ok(Some((serde_json::from_slice(&bytes).map_err(wrong)?, etag)))
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

async fn heeds_conditions(store: &object_store::aws::AmazonS3, path: &Path, run: &str) -> Result<bool, BucketFault> {
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
    let text = rocwheel_report::with_causes(&error);
    if text.contains("NotImplemented") || text.contains("status code: 501") { Ok(false) } else { Err(error.into()) }
}
