//! Provenance of a built file: an in-toto statement (<https://in-toto.io/Statement/v1>) with SLSA
//! provenance (<https://slsa.dev/provenance/v1>), written beside the file. It names the recipe and
//! the cell, the sources by commit or digest, ROCm, the packages of the build's Python, the image
//! and the version of this program. It has no time and no path, so the same build writes the same
//! bytes. It is not signed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocwheel_attest::{InTotoStatement, STATEMENT_TYPE, StatementSubject};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;

pub const PREDICATE: &str = "https://slsa.dev/provenance/v1";
/// Type of the build, which defines the meaning of the parameters.
pub const BUILD_TYPE: &str = "urn:rocwheel:build:1";
pub const BUILDER: &str = "urn:rocwheel:builder";
/// Suffix that is added to the name of the built file.
pub const SUFFIX: &str = ".provenance.json";

/// The provenance of one file, as read.
#[derive(Debug, Clone, PartialEq)]
pub struct FileProvenance {
    /// Lower-case hexadecimal SHA-256 of the file, as stated.
    pub sha256: Option<String>,
    predicate: ProvenancePredicate,
}

/// A file or another object with an address or a digest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its address, such as that of a repository or a package URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Digests by algorithm: `sha256`, `gitCommit`; `rocwheelTree` is BLAKE3 over names and
    /// contents of a folder, or over a commit and the changes in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub digest: BTreeMap<String, String>,
}

/// The SLSA predicate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProvenancePredicate {
    pub build_definition: BuildDefinition,
    pub run_details: RunDetails,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildDefinition {
    /// Always [`BUILD_TYPE`].
    pub build_type: String,
    /// Values that users choose: `recipe`, and the `cell` with backend, Python, ROCm, torch, GPU
    /// targets and the rest.
    pub external_parameters: BTreeMap<String, Value>,
    /// Values that follow from them: `job` is the key of the job, `recipe` the BLAKE3 digest of the
    /// evaluated recipe, `epoch` the time stamp in seconds since 1970.
    #[serde(default)]
    pub internal_parameters: BTreeMap<String, Value>,
    /// Sources, ROCm, wheels, packages and the image.
    pub resolved_dependencies: Vec<Resource>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunDetails {
    pub builder: Builder,
    #[serde(default)]
    pub metadata: BTreeMap<String, Value>,
    /// Other files that the same build made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub byproducts: Vec<Resource>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Builder {
    /// Always [`BUILDER`].
    pub id: String,
    /// Version numbers by name of the program.
    #[serde(default)]
    pub version: BTreeMap<String, String>,
}

impl Resource {
    /// A file with its SHA-256 in lower-case hexadecimal.
    pub fn file(name: impl Into<String>, sha256: impl Into<String>) -> Resource {
        Resource { name: Some(name.into()), uri: None, digest: BTreeMap::from([("sha256".into(), sha256.into())]) }
    }

    /// An object with only an address.
    pub fn at(name: impl Into<String>, uri: impl Into<String>) -> Resource {
        Resource { name: Some(name.into()), uri: Some(uri.into()), digest: BTreeMap::new() }
    }

    #[must_use]
    pub fn with_digest(mut self, algorithm: &str, value: impl Into<String>) -> Resource {
        self.digest.insert(algorithm.to_owned(), value.into());
        self
    }
}

/// Path of the statement about a file.
pub fn statement_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(SUFFIX);
    PathBuf::from(name)
}

/// The statement that a build made a file, as JSON with a final newline. `sha256` is in lower-case
/// hexadecimal.
pub fn statement(name: &str, sha256: &str, predicate: &ProvenancePredicate) -> Result<String, Error> {
    let predicate = serde_json::to_value(predicate).map_err(Error::unwritable("provenance"))?;
    let statement = InTotoStatement::new(vec![StatementSubject::new(name, sha256)], PREDICATE, predicate);
    Ok(serde_json::to_string_pretty(&statement).map_err(Error::unwritable("provenance"))? + "\n")
}

fn read_error(path: &str) -> impl FnOnce(serde_json::Error) -> Error {
    let path = path.to_owned();
    move |error| {
        let line = Some(error.line()).filter(|line| *line > 0);
        Error::Malformed { path, line, reason: format!("no provenance: {error}"), hint: None }
    }
}

impl FileProvenance {
    /// Reads the provenance of a file; `None` if there is none. One that is about other files is an
    /// error.
    pub fn of(file: &Path) -> Result<Option<FileProvenance>, Error> {
        let path = statement_path(file);
        let text = match fs_err::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let shown = path.to_string_lossy();
        let statement: InTotoStatement = serde_json::from_str(&text).map_err(read_error(&shown))?;
        if statement.kind != STATEMENT_TYPE || statement.predicate_type != PREDICATE {
            let reason =
                format!("it is `{}` about `{}`, not SLSA provenance", statement.kind, statement.predicate_type);
            return Err(Error::malformed(&shown, reason));
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if !statement.subject.iter().any(|subject| subject.name == name) {
            return Err(Error::malformed(&shown, format!("it does not mention `{name}`")));
        }
        let sha256 = statement.subject.first().and_then(|subject| subject.digest.get("sha256")).cloned();
        let predicate = serde_json::from_value(statement.predicate).map_err(read_error(&shown))?;
        Ok(Some(FileProvenance { sha256, predicate }))
    }

    /// The values of a field of the cell, such as `rocm` or `targets`: a string or a list of
    /// strings.
    pub fn of_cell(&self, name: &str) -> Vec<&str> {
        match self.predicate.build_definition.external_parameters.get("cell").and_then(|cell| cell.get(name)) {
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement_about(name: &str) -> String {
        let predicate = ProvenancePredicate {
            build_definition: BuildDefinition {
                build_type: BUILD_TYPE.into(),
                external_parameters: BTreeMap::from([(
                    "cell".into(),
                    serde_json::json!({"rocm": "7.2", "targets": ["gfx942"]}),
                )]),
                internal_parameters: BTreeMap::new(),
                resolved_dependencies: Vec::new(),
            },
            run_details: RunDetails {
                builder: Builder { id: BUILDER.into(), version: BTreeMap::new() },
                metadata: BTreeMap::new(),
                byproducts: Vec::new(),
            },
        };
        statement(name, "00", &predicate).unwrap()
    }

    #[test]
    fn a_statement_is_about_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let wheel = folder.path().join("x-1-py3-none-any.whl");
        assert_eq!(FileProvenance::of(&wheel).unwrap(), None);
        let place = statement_path(&wheel);
        fs_err::write(&place, statement_about("x-1-py3-none-any.whl")).unwrap();
        let read = FileProvenance::of(&wheel).unwrap().unwrap();
        assert_eq!(
            (read.sha256.as_deref(), read.of_cell("rocm"), read.of_cell("targets")),
            (Some("00"), vec!["7.2"], vec!["gfx942"])
        );
        for (text, words) in [
            (statement_about("other.whl"), "does not mention `x-1-py3-none-any.whl`"),
            ("{".into(), "no provenance"),
            (statement_about("x-1-py3-none-any.whl").replace("slsa.dev", "example.org"), "not SLSA provenance"),
        ] {
            fs_err::write(&place, text).unwrap();
            let error = FileProvenance::of(&wheel).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
