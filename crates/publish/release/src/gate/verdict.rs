//! Input: folders with DSSE envelopes of in-toto statements, and public keys. Output: the verdicts
//! of test suites among them, and who has signed each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rocwheel_attest::{InTotoStatement, PublicKey, STATEMENT_PAYLOAD, STATEMENT_TYPE, SignedEnvelope};
use rocwheel_content::{hexadecimal, read_small, sha256};
use rocwheel_store::Error as StoreError;
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::IgnoredVerdict;
use crate::Error;

/// The predicate type of a verdict.
pub const VERDICT_TYPE: &str = "https://rocwheel.dev/test-verdict/v1";
/// The largest verdict that is read, in bytes: a statement about a thousand wheels has 200 KB.
const LARGEST: u64 = 64 << 20;
/// Outcomes that no test of a passed suite has.
const BAD: [&str; 6] = ["crashed", "error", "failed", "out_of_memory", "timed_out", "unknown"];

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

/// What a verdict says of the program that ran the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunnerWord {
    /// Its exit code was 0, or rocwheel ran the tests.
    Good,
    /// Another exit code, a signal or a time limit.
    Bad,
    /// Nothing, as verdicts of rocwheel 0.1, or a word that is not known here.
    Unknown,
}

/// The tests of a suite that a verdict is made of.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct VerdictCensus {
    /// Number of tests that have an outcome.
    pub tests: u64,
    /// SHA-256 in hexadecimal of their sorted ids, each with a line feed behind it.
    pub sha256: String,
    /// The ids, if they were asked for.
    #[serde(default)]
    pub ids: Option<BTreeSet<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuiteVerdict {
    pub name: String,
    /// SHA-256 of its file in hexadecimal.
    pub sha256: String,
    pub envelope: Vec<u8>,
    pub suite: String,
    /// How it ended, as it says itself.
    pub result: SuiteResult,
    pub targets: BTreeSet<String>,
    /// Numbers of tests by outcome.
    pub counts: BTreeMap<String, u64>,
    /// Options and names that left tests of the suite out, such as `-k nn`.
    pub selection: Vec<String>,
    /// How the program ended that ran the tests.
    pub runner: RunnerWord,
    /// The tests, by the suites of their reports; empty in verdicts of older versions.
    pub census: BTreeMap<String, VerdictCensus>,
    /// When it ended.
    pub finished: Timestamp,
    /// SHA-256 of the wheels that were installed, by their names.
    pub subjects: BTreeMap<String, String>,
    /// The ids of the given keys that have signed it.
    pub signers: Vec<String>,
}

impl SuiteVerdict {
    pub(super) fn is_of(&self, suite: &str, target: Option<&str>) -> bool {
        self.suite == suite && target.is_none_or(|target| self.targets.contains(target))
    }

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

    /// The result that counts: a verdict that contradicts itself is a failure.
    pub(super) fn judged(&self) -> SuiteResult {
        if self.contradiction().is_some() { SuiteResult::Failed } else { self.result }
    }

    /// The contradiction of a verdict that says passed.
    pub(super) fn contradiction(&self) -> Option<&'static str> {
        let has_bad = BAD.iter().any(|outcome| self.counts.get(*outcome).is_some_and(|count| *count > 0));
        match self.result {
            SuiteResult::Passed if has_bad => Some("counts failures"),
            SuiteResult::Passed if self.runner == RunnerWord::Bad => Some("the runner of the tests says otherwise"),
            _ => None,
        }
    }

    /// `true` for a verdict that says passed although no test did.
    pub(super) fn is_empty(&self) -> bool {
        self.judged() == SuiteResult::Passed && self.counts.get("passed") == Some(&0)
    }
}

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
    runner: Option<RunnerRecord>,
    #[serde(default)]
    census: BTreeMap<String, VerdictCensus>,
    finished: Timestamp,
}

/// `{"end": "exited", "code": 0}`, or a word.
#[derive(Deserialize)]
#[serde(untagged)]
enum RunnerRecord {
    End { end: String, code: Option<u64> },
    Other(serde::de::IgnoredAny),
}

impl RunnerRecord {
    fn word(&self) -> RunnerWord {
        let Self::End { end, code } = self else { return RunnerWord::Unknown };
        match (end.as_str(), code) {
            ("supervised", _) | ("exited", Some(0)) => RunnerWord::Good,
            ("exited", Some(_)) | ("killed" | "timed_out", _) => RunnerWord::Bad,
            _ => RunnerWord::Unknown,
        }
    }
}

impl SetVerdicts {
    /// Reads the `.json` files of folders and of the folders in them, as artifacts of jobs are
    /// downloaded, and single files. Links are followed, and a file that is read twice counts once.
    /// Statements of other types are skipped; files that are not statements are in
    /// [`SetVerdicts::unreadable`].
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
                        return Err(StoreError::Read { path, source: error.into() }.into());
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
    let bytes = match read_small(path, LARGEST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => return Ok(Err(error.to_string())),
        Err(source) => return Err(StoreError::read(path)(source).into()),
    };
    Ok(SuiteVerdict::parse(bytes, name, keys))
}

impl SuiteVerdict {
    /// Reads the bytes of an envelope; `None` for a statement of another type.
    pub(super) fn parse(bytes: Vec<u8>, name: &str, keys: &[PublicKey]) -> Result<Option<SuiteVerdict>, String> {
        let (envelope, payload) =
            SignedEnvelope::parse(&bytes, name, STATEMENT_PAYLOAD).map_err(|fault| fault.to_string())?;
        let signers = envelope.signers(&payload, keys);
        let statement: InTotoStatement = serde_json::from_slice(&payload).map_err(|error| error.to_string())?;
        if statement.kind != STATEMENT_TYPE {
            return Err(format!("`{}` is no statement of in-toto, version 1", statement.kind));
        }
        if statement.predicate_type != VERDICT_TYPE {
            return Ok(None);
        }
        let predicate: Predicate = serde_json::from_value(statement.predicate).map_err(|error| error.to_string())?;
        let mut subjects = BTreeMap::new();
        for subject in statement.subject {
            let Some(digest) = subject.digest.get("sha256") else {
                return Err(format!("`{}` has no SHA-256 in it", subject.name));
            };
            let digest = digest.to_ascii_lowercase();
            if subjects.insert(subject.name.clone(), digest.clone()).is_some_and(|other| other != digest) {
                return Err(format!("`{}` has two SHA-256 in it", subject.name));
            }
        }
        let Predicate { suite, result, targets, counts, selection, runner, census, finished } = predicate;
        Ok(Some(SuiteVerdict {
            name: name.to_owned(),
            sha256: hexadecimal(&sha256(&bytes)),
            envelope: bytes,
            suite,
            result,
            targets,
            counts,
            selection,
            runner: runner.map_or(RunnerWord::Unknown, |runner| runner.word()),
            census,
            finished,
            subjects,
            signers,
        }))
    }
}
