//! Input: what the last run found out about each file. Output: the files that need not be read
//! again, and the projects whose pages need not be made again.
//!
//! A project has two records. `PROJECT.json`, its head, has what its pages were made of, as a
//! digest, and where they are: a run in which nothing changed reads no more than the heads.
//! `PROJECT.files` has the facts about its files. Both end in their SHA-256, so a damaged record is
//! noticed and its files are read again.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rocwheel_content::archive_path::join;
use rocwheel_content::{Digest, hexadecimal, parse_sha256};
use rocwheel_store::StoredFile;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::catalog::ListedFile;
use crate::facts::DistributionFacts;
use crate::seal::{sealed, unsealed};

/// The folder of the records. Installers and listings ignore it for its dot.
pub(crate) const FOLDER: &str = ".rocwheel/index";
/// The form of the records. One of another form is ignored, and its files are read again.
pub(crate) const SCHEMA: u32 = 4;
/// A file that changed later than this before it was read may change again without a new time:
/// file systems count in steps of up to two seconds.
const YOUNG: Duration = Duration::from_secs(2);
/// The ending of heads.
const HEAD: &str = ".json";

/// The facts about a file that pages need. There are as many in memory as files changed, or all of
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownFile {
    pub(crate) sha256: Digest,
    pub(crate) metadata_sha256: Option<Digest>,
    pub(crate) requires_python: Option<Arc<str>>,
    /// The version of ROCm that METADATA pins.
    pub(crate) rocm: Option<Arc<str>>,
    /// What METADATA requires, as the chooser has it.
    pub(crate) needs: Arc<str>,
    /// When the file was first in the index.
    pub(crate) uploaded: Timestamp,
    /// `true` for a file that may have changed while it was read, without a new time. It is read
    /// again by the next run.
    pub(crate) is_young: bool,
}

impl KnownFile {
    pub(crate) fn new(file: &StoredFile, facts: &DistributionFacts, texts: &mut Texts, began: SystemTime) -> KnownFile {
        let is_old = began.checked_sub(YOUNG).is_some_and(|limit| file.stamp < rocwheel_store::time_stamp(limit));
        KnownFile {
            sha256: parse_sha256(&facts.sha256).unwrap_or_default(),
            metadata_sha256: facts.metadata_sha256.as_deref().and_then(parse_sha256),
            requires_python: facts.requires_python.as_deref().map(|text| texts.shared(text)),
            rocm: facts.rocm.as_deref().map(|text| texts.shared(text)),
            needs: texts.shared(&facts.needs),
            uploaded: Timestamp::UNIX_EPOCH,
            is_young: !is_old && rocwheel_store::is_time_stamp(&file.stamp),
        }
    }
}

/// Texts that many files have in common, each in memory once.
#[derive(Default)]
pub(crate) struct Texts(HashMap<Arc<str>, usize>);

impl Texts {
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some((known, _)) = self.0.get_key_value(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new), self.0.len());
        new
    }

    fn number(&mut self, text: &Arc<str>) -> usize {
        let next = self.0.len();
        *self.0.entry(Arc::clone(text)).or_insert(next)
    }
}

/// A file in the record of its project.
#[derive(Debug)]
pub(crate) struct RecordedFile {
    pub(crate) key: String,
    size: u64,
    /// [`StoredFile::stamp`] when it was read; empty for a file that was too young.
    stamp: String,
    pub(crate) known: KnownFile,
}

impl RecordedFile {
    pub(crate) fn is_of(&self, file: &StoredFile) -> bool {
        self.size == file.size && self.stamp == file.stamp && !self.stamp.is_empty()
    }
}

#[derive(Serialize, Deserialize)]
struct FilesHeader<'a> {
    schema: u32,
    /// Texts of which lines have the numbers: all builds of a wheel require the same.
    #[serde(borrow)]
    texts: Vec<Cow<'a, str>>,
}

/// Key, size, stamp, SHA-256 of the file and of METADATA, the numbers of Requires-Python, ROCm and
/// needs, time of publication.
#[derive(Serialize, Deserialize)]
struct FileLine<'a>(
    #[serde(borrow)] Cow<'a, str>,
    u64,
    #[serde(borrow)] Cow<'a, str>,
    Hexadecimal,
    Option<Hexadecimal>,
    Option<usize>,
    Option<usize>,
    usize,
    Timestamp,
);

/// A digest that is text in JSON.
struct Hexadecimal(Digest);

impl Serialize for Hexadecimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hexadecimal(&self.0))
    }
}

impl<'de> Deserialize<'de> for Hexadecimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = Hexadecimal;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a SHA-256 in hexadecimal")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Hexadecimal, E> {
                parse_sha256(text).map(Hexadecimal).ok_or_else(|| E::custom("no SHA-256"))
            }
        }
        deserializer.deserialize_str(Digits)
    }
}

/// The record of the files of a project, which are in the same order in both.
pub(crate) fn files_record(files: &[ListedFile], known: &[KnownFile]) -> Vec<u8> {
    let mut texts = Texts::default();
    let mut lines = String::with_capacity(files.len() * 320);
    for (ListedFile { file, .. }, known) in files.iter().zip(known) {
        let [python, rocm] =
            [&known.requires_python, &known.rocm].map(|text| text.as_ref().map(|text| texts.number(text)));
        let stamp = if known.is_young { "" } else { file.stamp.as_str() };
        push_line(
            &mut lines,
            &FileLine(
                file.key.as_str().into(),
                file.size,
                stamp.into(),
                Hexadecimal(known.sha256),
                known.metadata_sha256.map(Hexadecimal),
                python,
                rocm,
                texts.number(&known.needs),
                known.uploaded,
            ),
        );
    }
    let mut ordered = vec![Cow::Borrowed(""); texts.0.len()];
    for (text, number) in &texts.0 {
        ordered[*number] = text.as_ref().into();
    }
    let mut text = String::with_capacity(lines.len() + 4096);
    push_line(&mut text, &FilesHeader { schema: SCHEMA, texts: ordered });
    text.push_str(&lines);
    sealed(text)
}

/// The files of a record, sorted by key; `None` for a record that is damaged or of another form.
pub(crate) fn parse_files(bytes: &[u8]) -> Option<Vec<RecordedFile>> {
    let mut lines = unsealed(bytes)?.lines();
    let header: FilesHeader<'_> = serde_json::from_str(lines.next()?).ok()?;
    let texts: Vec<Arc<str>> = header.texts.iter().map(|text| text.as_ref().into()).collect();
    let files = lines.map(|line| {
        let FileLine(key, size, stamp, sha256, metadata_sha256, python, rocm, needs, uploaded) =
            serde_json::from_str(line).ok()?;
        let known = KnownFile {
            sha256: sha256.0,
            metadata_sha256: metadata_sha256.map(|digest| digest.0),
            requires_python: python.and_then(|number| texts.get(number).cloned()),
            rocm: rocm.and_then(|number| texts.get(number).cloned()),
            needs: texts.get(needs)?.clone(),
            uploaded,
            is_young: stamp.is_empty(),
        };
        Some(RecordedFile { key: key.into_owned(), size, stamp: stamp.into_owned(), known })
    });
    if header.schema == SCHEMA { files.collect() } else { None }
}

/// What the pages of a project were made of, and where they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProjectHead {
    schema: u32,
    /// A digest of everything that its pages were made of; empty if its files have to be looked at
    /// again.
    pub(crate) seen: String,
    /// How many files each index lists, by the folder of its first page.
    pub(crate) roots: BTreeMap<String, usize>,
    pub(crate) pages: BTreeMap<String, u64>,
}

impl ProjectHead {
    pub(crate) fn new(seen: String) -> ProjectHead {
        ProjectHead { schema: SCHEMA, seen, ..ProjectHead::default() }
    }

    /// `None` for a record that is damaged or of another form.
    pub(crate) fn parse(bytes: &[u8]) -> Option<ProjectHead> {
        let head: ProjectHead = serde_json::from_str(unsealed(bytes)?).ok()?;
        (head.schema == SCHEMA).then_some(head)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut text = String::new();
        push_line(&mut text, self);
        sealed(text)
    }
}

fn push_line(text: &mut String, value: &impl Serialize) {
    text.push_str(&serde_json::to_string(value).expect("all keys are text"));
    text.push('\n');
}

pub(crate) fn head_key(project: &str) -> String {
    join(FOLDER, &format!("{project}{HEAD}"))
}

pub(crate) fn head_project(key: &str) -> Option<&str> {
    key.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(HEAD).filter(|name| !name.contains('/'))
}

pub(crate) fn files_key(project: &str) -> String {
    join(FOLDER, &format!("{project}.files"))
}

/// Where the record is of the pages that an index has once; `pages` is the folder of its first
/// page. No project is called `_roots`.
pub(crate) fn root_key(pages: &str) -> String {
    join(FOLDER, &join("_roots", &join(pages, "pages")))
}

#[cfg(test)]
mod tests {
    use rocwheel_content::sha256;

    use super::*;

    /// A store lists normal keys. A record with another key is that of a project that is gone.
    #[test]
    fn keys_are_normal() {
        assert_eq!(head_key("torch"), ".rocwheel/index/torch.json");
        assert_eq!(head_project(&head_key("torch")), Some("torch"));
        assert_eq!(head_project(".rocwheel/index/simple/torch.json"), None);
        assert_eq!(root_key(""), ".rocwheel/index/_roots/pages");
        assert_eq!(root_key("gfx110X/simple"), ".rocwheel/index/_roots/gfx110X/simple/pages");
    }

    fn record() -> Vec<u8> {
        let file = |key: &str| {
            let file = StoredFile { key: key.to_owned(), size: 7, stamp: "000000000012.000000000".to_owned() };
            ListedFile { file, has_metadata: true, has_attestations: false }
        };
        let known = |needs: &str, python: Option<&str>| KnownFile {
            sha256: sha256(needs.as_bytes()),
            metadata_sha256: python.map(|_| sha256(b"metadata")),
            requires_python: python.map(Into::into),
            rocm: Some("7.2.0".into()),
            needs: needs.into(),
            uploaded: "2026-11-20T01:02:03Z".parse().unwrap(),
            is_young: false,
        };
        files_record(&[file("a/\"1\".whl"), file("a/2.whl")], &[known("{}", Some(">=3.9")), known("{\"e\":[]}", None)])
    }

    #[test]
    fn records_say_what_was_written() {
        let files = parse_files(&record()).unwrap();
        assert_eq!((files[0].key.as_str(), files[1].known.needs.as_ref()), ("a/\"1\".whl", "{\"e\":[]}"));
        assert_eq!(
            (files[0].known.requires_python.as_deref(), &files[1].known.requires_python),
            (Some(">=3.9"), &None)
        );
        assert_eq!(files[1].known.rocm.as_deref(), Some("7.2.0"));
        let mut head = ProjectHead::new("seen".to_owned());
        head.pages.insert("a/index.html".to_owned(), 12);
        assert_eq!(ProjectHead::parse(&head.bytes()), Some(head));
    }

    #[test]
    fn every_damaged_byte_is_noticed() {
        let good = record();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(parse_files(&bad).is_none(), "byte {at}");
            assert!(parse_files(&good[..at]).is_none(), "cut off at {at}");
        }
        let head = ProjectHead::new("seen".to_owned()).bytes();
        for at in 0..head.len() {
            let mut bad = head.clone();
            bad[at] ^= 1;
            assert!(ProjectHead::parse(&bad).is_none(), "byte {at}");
        }
    }
}
