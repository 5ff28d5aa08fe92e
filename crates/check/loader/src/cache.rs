//! Input: what a run read from a wheel. Output: the same for a later run of the same program that
//! has the same wheel, without reading the wheel.
//!
//! An entry belongs to the bytes of the program, to the SHA-256 and the file name of the wheel, and
//! to the kind of fact. So a program that was changed in any way finds none, a wheel that was
//! changed in any way neither, and no number of a format has to be kept. Entries check themselves
//! ([`CacheFolder`]). What depends on anything else, such as the paths of an environment, or on
//! whether a file could be read, must not be written.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rocwheel_content::{CacheFolder, Digest, DigestCache, SharedFile};
use rocwheel_progress::Reporter;
use rocwheel_wheel::read::Wheel;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Limit in bytes for all entries. A large wheel has 10 MB, mostly names of symbols.
const ALL_FACTS: u64 = 1 << 30;

/// Facts about wheels, in a folder that processes may share.
#[derive(Debug, Clone)]
pub struct FactsCache(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    entries: CacheFolder,
    digests: DigestCache,
    program: Digest,
    /// The SHA-256 of wheels that are open in this run; `None` for one that cannot be read.
    known: Mutex<HashMap<PathBuf, Option<Digest>>>,
    has_warned: AtomicBool,
}

impl FactsCache {
    /// The facts below `folder`, which is created with the first of them. `program` is the program
    /// that runs; `None` if it cannot be read.
    pub fn new(folder: &Path, program: &Path) -> Option<FactsCache> {
        let digests = DigestCache::new(folder.join("digests"));
        let program = digests.sha256(&SharedFile::new(fs_err::File::open(program).ok()?)).ok()?;
        let entries = CacheFolder::new(folder, "facts", ALL_FACTS);
        let (known, has_warned) = (Mutex::default(), AtomicBool::new(false));
        Some(FactsCache(Arc::new(Shared { entries, digests, program, known, has_warned })))
    }

    /// What an earlier run wrote about a wheel; `None` if there is nothing that can be used.
    pub fn read<T: DeserializeOwned>(&self, kind: &str, wheel: &Wheel) -> Option<T> {
        let entry = self.0.entries.read(&self.name(kind, wheel)?)?;
        rmp_serde::from_slice(&entry.content).ok()
    }

    /// Keeps facts about a wheel for later runs. If that fails, later runs read the wheel again,
    /// which the user is told once.
    pub fn write(&self, kind: &str, wheel: &Wheel, facts: &impl Serialize, reporter: &dyn Reporter) {
        let Some(name) = self.name(kind, wheel) else { return };
        let bytes = rmp_serde::to_vec(facts).expect("facts are numbers, texts and lists of them");
        if let Err(error) = self.0.entries.write(&name, &bytes)
            && !self.0.has_warned.swap(true, Ordering::Relaxed)
        {
            let folder = self.0.entries.path().display();
            reporter.warn(&format!("cannot keep facts in `{folder}`, so later runs read the wheels again: {error}"));
        }
    }

    fn name(&self, kind: &str, wheel: &Wheel) -> Option<String> {
        let digest = self.digest(wheel)?;
        let file_name = wheel.path().file_name()?.to_string_lossy();
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0.program).update(&digest).update(kind.as_bytes()).update(b"\0");
        Some(hasher.update(file_name.as_bytes()).finalize().to_hex().to_string())
    }

    /// The SHA-256 of an open wheel.
    fn digest(&self, wheel: &Wheel) -> Option<Digest> {
        if let Some(digest) = self.0.known.lock().unwrap_or_else(PoisonError::into_inner).get(wheel.path()) {
            return *digest;
        }
        let digest = self.0.digests.sha256(wheel.file()).ok();
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner).insert(wheel.path().to_owned(), digest);
        digest
    }
}
