//! Converts between manifests (schema 1) and checkouts, in both directions.
//!
//! A manifest is a JSON object in the format of TheRock's scripts: `schema_version` 1, then for
//! each project `repo` and `commit`, and `branch` and `version` where they are known.

use std::path::{Path, PathBuf};

use rocwheel_progress::{Failure, Reporter};
use serde_json::{Map, Value};

use crate::error;
use crate::git::{Git, without_secret};
use crate::pins;
use crate::repository::{Repository, UPSTREAM};
use crate::state;
use crate::table::{Project, Table};

const SCHEMA: u64 = 1;
/// Size limit of a manifest in bytes, far above any real one.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceManifest {
    pub entries: Vec<ManifestProject>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestProject {
    /// Its key, such as `pytorch_audio`.
    pub key: String,
    /// Address of the repository, without `.git`.
    pub repo: String,
    pub commit: String,
    /// The branch whose last commit it was.
    pub branch: Option<String>,
    /// Version of the package that is built from it.
    pub version: Option<String>,
}

impl SourceManifest {
    /// Reads a manifest.
    /// An error names the project and the field.
    pub fn read(path: &Path) -> Result<SourceManifest, Failure> {
        let size = fs_err::metadata(path)?.len();
        let manifest =
            if size > LARGEST { Err(format!("it has {size} bytes")) } else { Self::parse(&fs_err::read(path)?) };
        manifest.map_err(|reason| {
            Failure::message(format!("could not understand the manifest `{}`: {reason}", path.display()))
        })
    }

    /// Parses the text of a manifest; the error is the reason.
    fn parse(text: &[u8]) -> Result<SourceManifest, String> {
        let document: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let Value::Object(fields) = document else { return Err("it is not a JSON object".into()) };
        match fields.get("schema_version") {
            None => {}
            Some(version) if version.as_u64() == Some(SCHEMA) => {}
            Some(version) => return Err(format!("its schema_version is {version}, and this program knows {SCHEMA}")),
        }
        let mut entries = Vec::new();
        for (key, value) in fields.iter().filter(|(key, _)| *key != "schema_version") {
            let Value::Object(fields) = value else { return Err(format!("`{key}` is not an object")) };
            let repo = text_of(key, fields, "repo")?.ok_or_else(|| format!("`{key}` has no `repo`"))?;
            let commit = text_of(key, fields, "commit")?.ok_or_else(|| format!("`{key}` has no `commit`"))?;
            if !pins::is_commit(&commit) {
                return Err(format!(
                    "`commit` of `{key}` is `{commit}`, not a full commit (40 or 64 hexadecimal digits)"
                ));
            }
            let (branch, version) = (text_of(key, fields, "branch")?, text_of(key, fields, "version")?);
            entries.push(ManifestProject { key: key.clone(), repo, commit, branch, version });
        }
        Ok(SourceManifest { entries })
    }

    /// The text of the manifest: indented by two spaces, entries in their order, with a final
    /// newline.
    pub fn text(&self) -> String {
        let mut fields = Map::from_iter([("schema_version".to_owned(), SCHEMA.into())]);
        for entry in &self.entries {
            let mut values = Map::new();
            let known = [
                ("repo", Some(&entry.repo)),
                ("commit", Some(&entry.commit)),
                ("branch", entry.branch.as_ref()),
                ("version", entry.version.as_ref()),
            ];
            for (field, value) in known {
                values.extend(value.map(|value| (field.to_owned(), Value::from(value.as_str()))));
            }
            fields.insert(entry.key.clone(), Value::Object(values));
        }
        let text = serde_json::to_string_pretty(&fields).expect("texts and numbers can be written");
        format!("{text}\n")
    }

    pub fn entry(&self, project: &Project) -> Option<&ManifestProject> {
        self.entries.iter().find(|entry| Some(&entry.key) == project.manifest.as_ref())
    }
}

#[derive(Debug, Clone)]
pub struct ManifestSources {
    /// Names of projects and absolute paths of their checkouts, in any order.
    pub checkouts: Vec<(String, PathBuf)>,
    /// Suffix of each project's own version (`+rocm7.14.0`); may be empty.
    pub suffix: String,
    /// The entry of TheRock itself, which comes last.
    pub therock: Option<ManifestProject>,
}

/// A field of a manifest's entry; `None` if it is not given.
fn text_of(key: &str, fields: &Map<String, Value>, field: &str) -> Result<Option<String>, String> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
        Some(other) => Err(format!("`{field}` of `{key}` is {other}, not a text")),
    }
}

/// The version suffix of packages that are built on a ROCm: `+rocm7.14.0` for `7.14.0`,
/// `+devrocm7.14.0.dev0-abc` for `7.14.0.dev0+abc`.
///
/// # Errors
/// The text is not a version (PEP 440).
pub fn suffix(rocm_version: &str) -> Result<String, Failure> {
    let version: pep440_rs::Version = rocm_version.parse().map_err(|_| {
        error::request(format!("`{rocm_version}` is not a version of ROCm"))
            .with_hint("it is written as Python packages have it, such as `7.14.0` or `7.14.0a20260501`")
    })?;
    let word = if rocm_version.contains("dev") { "devrocm" } else { "rocm" };
    Ok(format!("+{word}{}", version.to_string().replace('+', "-")))
}

/// Makes the manifest of checkouts. The commit is the upstream one, without commits on top of it.
///
/// # Errors
/// A project has no checkout, no tag, or comes from an archive; or manifests have no entry for it.
pub fn describe(
    sources: &ManifestSources,
    table: &Table,
    git: &Git,
    reporter: &dyn Reporter,
) -> Result<SourceManifest, Failure> {
    let mut manifest = SourceManifest::default();
    for project in &table.projects {
        let wanted =
            sources.checkouts.iter().find(|(name, _)| table.project(name).is_ok_and(|it| it.name == project.name));
        if let Some((_, directory)) = wanted {
            manifest.entries.push(entry(
                project,
                directory,
                sources,
                table,
                &Repository::new(git, directory, reporter),
            )?);
        }
    }
    manifest.entries.extend(sources.therock.clone());
    Ok(manifest)
}

fn entry(
    project: &Project,
    directory: &Path,
    sources: &ManifestSources,
    table: &Table,
    repository: &Repository<'_>,
) -> Result<ManifestProject, Failure> {
    let Some(key) = project.manifest.clone() else {
        let reason = format!("manifests of schema {SCHEMA} do not have {}", project.name);
        return Err(error::request(reason));
    };
    if !directory.join(".git").exists() {
        return Err(Failure::message(format!("there is no checkout of {} in `{}`", project.name, directory.display()))
            .with_hint("check it out first, or say where it is with `--root` or `--directory`"));
    }
    let state = state::read(directory);
    let tagged = repository.commit(&format!("refs/tags/{UPSTREAM}"))?;
    let commit = tagged.ok_or_else(|| crate::repository::no_tag(directory))?;
    let origin =
        repository.git.at(directory).args(["config", "--local", "remote.origin.url"]).answer(repository.reporter)?;
    let Some(origin) = origin.filter(|_| state.archive.is_none()) else {
        let reason = format!("`{}` comes from no repository, so a manifest cannot say where from", directory.display());
        return Err(error::request(reason).with_hint("remove the project"));
    };
    let origin = without_secret(&origin);
    let repo = origin.strip_suffix(".git").unwrap_or(&origin).to_owned();
    let asked = Some(state.reference).filter(|reference| !reference.is_empty() && !pins::is_commit(reference));
    let branch = state.branch.or(asked).filter(|_| state.commit == commit);
    let base = match (&project.version_file, project.pinned_by_torch) {
        // The file is read from the upstream commit: a local change of it does not change the
        // version.
        (Some(file), _) => {
            repository.git.at(directory).args(["show", &format!("{commit}:{file}")]).answer(repository.reporter)?
        }
        (None, true) => triton_version(sources, table, repository)?,
        (None, false) => None,
    };
    let version =
        base.map(|base| format!("{}{}", base.trim(), sources.suffix)).filter(|version| *version != sources.suffix);
    Ok(ManifestProject { key, repo, commit, branch, version })
}

/// triton's version, from a file in torch's tree.
fn triton_version(
    sources: &ManifestSources,
    table: &Table,
    repository: &Repository<'_>,
) -> Result<Option<String>, Failure> {
    let torch =
        sources.checkouts.iter().find(|(name, _)| table.project(name).is_ok_and(|project| project.name == "torch"));
    let Some((_, directory)) = torch else { return Ok(None) };
    let name = format!("{UPSTREAM}:{}", table.pins.triton_version);
    repository.git.at(directory).args(["show", &name]).answer(repository.reporter)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn what_is_written_is_read_again() {
        let entry = |key: &str, branch: Option<&str>| ManifestProject {
            key: key.into(),
            repo: "https://github.com/x/y".into(),
            commit: SHA.into(),
            branch: branch.map(Into::into),
            version: Some("1.2+rocm7".into()),
        };
        let manifest = SourceManifest { entries: vec![entry("pytorch", Some("nightly")), entry("triton", None)] };
        let text = manifest.text();
        assert!(
            text.starts_with(
                "{\n  \"schema_version\": 1,\n  \"pytorch\": {\n    \"repo\": \"https://github.com/x/y\",\n"
            )
        );
        assert!(text.ends_with("  }\n}\n") && !text.contains("null"), "{text}");
        assert_eq!(SourceManifest::parse(text.as_bytes()).unwrap(), manifest);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("[]", "not a JSON object"),
            ("", "EOF"),
            (r#"{"schema_version": 2}"#, "schema_version is 2"),
            (r#"{"schema_version": "1"}"#, r#"schema_version is "1""#),
            (r#"{"pytorch": 1}"#, "`pytorch` is not an object"),
            (r#"{"pytorch": {"commit": "x"}}"#, "`pytorch` has no `repo`"),
            (r#"{"pytorch": {"repo": "", "commit": "x"}}"#, "`repo` of `pytorch`"),
            (r#"{"pytorch": {"repo": "r", "commit": "main"}}"#, "`commit` of `pytorch` is `main`"),
            (r#"{"pytorch": {"repo": "r", "commit": 7}}"#, "`commit` of `pytorch` is 7"),
        ] {
            let reason = SourceManifest::parse(text.as_bytes()).unwrap_err();
            assert!(reason.contains(words), "{reason}");
        }
        let absent = format!(r#"{{"pytorch": {{"repo": "r", "commit": "{SHA}"}}}}"#);
        assert_eq!(SourceManifest::parse(absent.as_bytes()).unwrap().entries.len(), 1);
    }

    #[test]
    fn suffixes_follow_the_version_of_rocm() {
        assert_eq!(suffix("7.14.0").unwrap(), "+rocm7.14.0");
        assert_eq!(suffix("7.14.0a20260501").unwrap(), "+rocm7.14.0a20260501");
        assert_eq!(suffix("7.14.0.dev0+abc").unwrap(), "+devrocm7.14.0.dev0-abc");
        assert!(suffix("newest").is_err());
    }
}
