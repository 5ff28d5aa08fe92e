//! Input: a built file. Output: its attestations (PEP 740), if they are about its bytes.
//!
//! `FILE.provenance` is a provenance object: bundles of attestations, each with a statement of
//! in-toto that names the file and its SHA-256. Who signed it is for those who install it to judge.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rocwheel_attest::InTotoStatement;
use rocwheel_content::read_small;
use rocwheel_index::companion::ATTESTATIONS;
use rocwheel_promote::Promoted;
use rocwheel_store::Error as StoreError;
use serde::Deserialize;

use super::local::{LocalFile, LocalSet};
use crate::Error;
use crate::stream::Stream;

/// The largest provenance object that is read, in bytes; PyPI's have about 10 KB.
const LARGEST: u64 = 16 << 20;

#[derive(Deserialize)]
struct Provenance {
    version: u32,
    attestation_bundles: Vec<Bundle>,
}

#[derive(Deserialize)]
struct Bundle {
    attestations: Vec<Attestation>,
}

#[derive(Deserialize)]
struct Attestation {
    envelope: Envelope,
}

#[derive(Deserialize)]
struct Envelope {
    /// In base64.
    statement: String,
}

/// Reads the attestations beside a file. The error is the reason why they cannot be published.
pub(super) fn read(path: &Path, sha256: &str) -> Result<Option<Vec<u8>>, String> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(ATTESTATIONS);
    let bytes = match read_small(beside.as_ref(), LARGEST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    check_attestations(&bytes, &name, sha256)?;
    Ok(Some(bytes))
}

/// Checks that attestations are about a file of this name and SHA-256. The error is the reason why
/// no page may link them.
pub(crate) fn check_attestations(bytes: &[u8], name: &str, sha256: &str) -> Result<(), String> {
    check(bytes, name, sha256).map_err(|reason| format!("its attestations cannot be used: {reason}"))
}

fn check(bytes: &[u8], name: &str, sha256: &str) -> Result<(), String> {
    let provenance: Provenance = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if provenance.version != 1 {
        return Err(format!("they are of version {}, and 1 is known", provenance.version));
    }
    let mut all = provenance.attestation_bundles.iter().flat_map(|bundle| &bundle.attestations).peekable();
    if all.peek().is_none() {
        return Err("there are none in the file".to_owned());
    }
    for attestation in all {
        let statement = STANDARD.decode(&attestation.envelope.statement).map_err(|error| error.to_string())?;
        let statement: InTotoStatement = serde_json::from_slice(&statement).map_err(|error| error.to_string())?;
        let [subject] = &statement.subject[..] else {
            return Err(format!("one is about {} files", statement.subject.len()));
        };
        if subject.name != name {
            return Err(format!("one is about `{}`", subject.name));
        }
        if !subject.digest.get("sha256").is_some_and(|digest| digest.eq_ignore_ascii_case(sha256)) {
            return Err("one is about other bytes of this name".to_owned());
        }
    }
    Ok(())
}

/// Files with attestations that the stream does not have yet.
pub(super) fn newly_attested<'l>(stream: &Stream<'_>, local: &'l LocalSet) -> Vec<(&'l String, &'l Vec<u8>)> {
    let is_new = |key: &String, file: &LocalFile| {
        stream.manifest.files.get(key).is_none_or(|row| row.provenance_sha256 != file.provenance_sha256())
    };
    let attested = local.files.iter().filter_map(|(key, file)| Some((key, file, file.provenance.as_ref()?)));
    attested.filter(|(key, file, _)| is_new(key, file)).map(|(key, _, bytes)| (key, bytes)).collect()
}

/// Writes attestations beside those promoted files that have the name and the bytes of the file
/// that they were made from; `find` returns those of the file with a name. Returns the number of
/// the other files with attestations.
///
/// # Errors
/// [`rocwheel_store::Error::Write`].
pub fn carry_attestations(
    promoted: &[Promoted],
    folder: &Path,
    find: impl Fn(&str) -> Option<Vec<u8>>,
) -> Result<usize, Error> {
    let mut left = 0;
    for file in promoted {
        let Some(source) = &file.source else { continue };
        let Some(bytes) = find(&source.name) else { continue };
        if source.name != file.name || source.sha256 != file.sha256 {
            left += 1;
            continue;
        }
        let path = folder.join(format!("{}{ATTESTATIONS}", file.name));
        fs_err::write(&path, bytes).map_err(|source| StoreError::Write { path, source })?;
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attestations_are_about_the_file_beside_them() {
        let object = |version: u32, name: &str, sha256: &str| {
            let statement = serde_json::json!({
                "_type": "https://in-toto.io/Statement/v1",
                "subject": [{ "name": name, "digest": { "sha256": sha256 } }],
                "predicateType": "https://docs.pypi.org/attestations/publish/v1",
                "predicate": null,
            });
            let envelope = serde_json::json!({ "statement": STANDARD.encode(statement.to_string()), "signature": "" });
            let attestation = serde_json::json!({ "version": 1, "envelope": envelope });
            let bundles = serde_json::json!([{ "publisher": { "kind": "x" }, "attestations": [attestation] }]);
            serde_json::json!({ "version": version, "attestation_bundles": bundles }).to_string().into_bytes()
        };
        assert_eq!(check(&object(1, "a.whl", "ABC"), "a.whl", "abc"), Ok(()));
        let wrong = |bytes: &[u8]| check(bytes, "a.whl", "abc").unwrap_err();
        assert!(wrong(&object(2, "a.whl", "abc")).contains("version 2"));
        assert!(wrong(&object(1, "b.whl", "abc")).contains("`b.whl`"));
        assert!(wrong(&object(1, "a.whl", "abd")).contains("other bytes"));
        assert!(wrong(b"{\"version\": 1, \"attestation_bundles\": []}").contains("none"));
        assert!(!wrong(b"<html>").is_empty());
    }

    #[cfg_attr(windows, ignore = "Windows has no pipes among its files, and Wine has no links")]
    #[test]
    fn a_pipe_beside_a_file_is_no_attestation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.whl");
        assert_eq!(read(&path, "abc"), Ok(None));
        let pipe = folder.path().join("a.whl.provenance");
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        let reason = read(&path, "abc").unwrap_err();
        assert!(reason.contains("a named pipe, no regular file"), "{reason}");
    }
}
