//! Input: folders with DSSE envelopes of in-toto statements, and public keys. Output: the verdicts
//! of test suites among them, and who has signed each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rocwheel_attest::{InTotoStatement, STATEMENT_TYPE};
use rocwheel_content::{hexadecimal, read_small, sha256};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::IgnoredVerdict;
use crate::Error;
use crate::stream::{PublicKey, STATEMENT_PAYLOAD, SignedEnvelope};

/// The predicate type of a verdict.
pub const VERDICT_TYPE: &str = "https://rocwheel.dev/test-verdict/v1";
/// The largest verdict that is read, in bytes: a statement about a thousand wheels has 200 KB.
const LARGEST: u64 = 64 << 20;
/// Outcomes that no test of a passed suite has.
const BAD: [&str; 5] = ["crashed", "error", "failed", "out_of_memory", "timed_out"];

/// How a suite ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SuiteResult {
    /// Everything that had to pass did.
    Passed,
    /// Something did not.
    Failed,
    /// It was stopped, or shards are missing.
    Incomplete,
}

/// The verdict of one run of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuiteVerdict {
    /// The name of its file.
    pub name: String,
    /// SHA-256 of its file in hexadecimal.
    pub sha256: String,
    /// The bytes of its file.
    pub envelope: Vec<u8>,
    /// The suite.
    pub suite: String,
    /// How it ended, as it says itself.
    pub result: SuiteResult,
    /// The GPU targets that it ran on.
    pub targets: BTreeSet<String>,
    /// Numbers of tests by outcome.
    pub counts: BTreeMap<String, u64>,
    /// Options and names that left tests of the suite out, such as `-k nn`.
    pub selection: Vec<String>,
    /// When it ended.
    pub finished: Timestamp,
    /// SHA-256 of the wheels that were installed, by their names.
    pub subjects: BTreeMap<String, String>,
    /// The ids of the given keys that have signed it.
    pub signers: Vec<String>,
}

impl SuiteVerdict {
    /// `12 passed, 1 failed, finished 2026-11-20T01:02:03Z`.
    pub(super) fn counted(&self) -> String {
        let found = self.counts.iter().filter(|(_, count)| **count > 0);
        let counts: String = found.map(|(outcome, count)| format!("{count} {outcome}, ")).collect();
        let selected = if self.selection.is_empty() { String::new() } else { format!("{}, ", self.selected()) };
        format!("{counts}{selected}finished {}", self.finished)
    }

    /// `selected by -k nn`.
    pub(super) fn selected(&self) -> String {
        format!("selected by `{}`", self.selection.join("`, `"))
    }

    /// The result that counts: one that contradicts itself is a failure.
    pub(super) fn judged(&self) -> SuiteResult {
        if self.contradicts_itself() { SuiteResult::Failed } else { self.result }
    }

    /// `true` for one that says passed while its own numbers say that tests failed.
    pub(super) fn contradicts_itself(&self) -> bool {
        let has = |outcome: &&str| self.counts.get(*outcome).is_some_and(|count| *count > 0);
        self.result == SuiteResult::Passed && BAD.iter().any(has)
    }

    /// `true` for one that says passed while its own numbers say that nothing did.
    pub(super) fn is_empty(&self) -> bool {
        self.judged() == SuiteResult::Passed && self.counts.get("passed") == Some(&0)
    }
}

/// All verdicts that were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetVerdicts {
    /// Those that can be read, by the names of their files.
    pub verdicts: Vec<SuiteVerdict>,
    /// Files that look like verdicts and are none.
    pub unreadable: Vec<IgnoredVerdict>,
}

/// More keys may follow in later versions; these are the ones that decide.
#[derive(Deserialize)]
struct Predicate {
    suite: String,
    result: SuiteResult,
    targets: BTreeSet<String>,
    #[serde(default)]
    counts: BTreeMap<String, u64>,
    #[serde(default)]
    selection: Vec<String>,
    finished: Timestamp,
}

impl SetVerdicts {
    /// Reads the `.json` files of folders and of the folders in them, as artifacts of jobs are
    /// downloaded, and single files. Links are followed, and a file that is read twice counts once.
    /// Statements of other types are passed over, files that are none are in
    /// [`SetVerdicts::unreadable`].
    ///
    /// # Errors
    /// What cannot be read.
    pub fn read(folders: &[PathBuf], keys: &[PublicKey]) -> Result<SetVerdicts, Error> {
        let mut paths = Vec::new();
        for folder in folders {
            for entry in WalkDir::new(folder).follow_links(true) {
                let entry = match entry {
                    Ok(entry) => entry,
                    // A link to a folder that it is in: that one is read already.
                    Err(error) if error.loop_ancestor().is_some() => continue,
                    Err(error) => {
                        let path = error.path().unwrap_or(folder).to_owned();
                        return Err(Error::Read { path, source: error.into() });
                    }
                };
                let (path, is_named) = (entry.path(), entry.depth() == 0);
                let is_json = path.extension().is_some_and(|extension| extension == "json");
                if (is_json || is_named) && path.is_file() {
                    let inside = path.strip_prefix(folder).unwrap_or(path);
                    let inside = if is_named { Path::new(entry.file_name()) } else { inside };
                    let name = rocwheel_system::slashed(inside).to_string_lossy().into_owned();
                    paths.push((name, path.to_owned()));
                }
            }
        }
        paths.sort();
        let (mut found, mut digests) = (SetVerdicts::default(), BTreeSet::new());
        for (name, path) in paths {
            match read(&path, &name, keys)? {
                Ok(verdict) => {
                    found.verdicts.extend(verdict.filter(|verdict| digests.insert(verdict.sha256.clone())));
                }
                Err(reason) => found.unreadable.push(IgnoredVerdict { verdict: name, reason }),
            }
        }
        Ok(found)
    }
}

/// `None` for a statement of another type. The inner error is the reason why it cannot be read.
fn read(path: &Path, name: &str, keys: &[PublicKey]) -> Result<Result<Option<SuiteVerdict>, String>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let bytes = match read_small(path, LARGEST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => return Ok(Err(error.to_string())),
        Err(source) => return Err(failed(source)),
    };
    let (envelope, payload) = match SignedEnvelope::parse(&bytes, name, STATEMENT_PAYLOAD) {
        Ok(found) => found,
        Err(fault) => return Ok(Err(fault.to_string())),
    };
    let signers = envelope.signers(&payload, keys);
    let statement: InTotoStatement = match serde_json::from_slice(&payload) {
        Ok(statement) => statement,
        Err(error) => return Ok(Err(error.to_string())),
    };
    if statement.kind != STATEMENT_TYPE {
        return Ok(Err(format!("`{}` is no statement of in-toto, version 1", statement.kind)));
    }
    if statement.predicate_type != VERDICT_TYPE {
        return Ok(Ok(None));
    }
    let predicate: Predicate = match serde_json::from_value(statement.predicate) {
        Ok(predicate) => predicate,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let mut subjects = BTreeMap::new();
    for subject in statement.subject {
        let Some(digest) = subject.digest.get("sha256") else {
            return Ok(Err(format!("`{}` has no SHA-256 in it", subject.name)));
        };
        let digest = digest.to_ascii_lowercase();
        if subjects.insert(subject.name.clone(), digest.clone()).is_some_and(|other| other != digest) {
            return Ok(Err(format!("`{}` has two SHA-256 in it", subject.name)));
        }
    }
    let Predicate { suite, result, targets, counts, selection, finished } = predicate;
    let (name, sha256) = (name.to_owned(), hexadecimal(&sha256(&bytes)));
    Ok(Ok(Some(SuiteVerdict {
        name,
        sha256,
        envelope: bytes,
        suite,
        result,
        targets,
        counts,
        selection,
        finished,
        subjects,
        signers,
    })))
}
