//! Files of a release on GitHub, by its own command line program `gh`: what is there, what has to be uploaded, and doing it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use report::{Reporter, Unit};
use serde::{Deserialize, Serialize};

use super::assets::Asset;
use crate::error::Error;
use crate::process::{self, Ended, Program};
use crate::provenance::SUFFIX;

/// Bytes that a file of a release has less than (GitHub, "About releases").
pub const LIMIT: u64 = 2 << 30;

/// Files that are uploaded by one call.
const BATCH: usize = 10;
/// How long a question may take.
const ASKING: Duration = Duration::from_mins(2);
/// How long a call that uploads may take.
const UPLOADING: Duration = Duration::from_hours(6);

/// How `gh` runs.
#[derive(Debug, Clone)]
pub struct Gh {
    /// The program.
    pub program: PathBuf,
    /// Its environment: it has the token from there, or from the user's configuration.
    pub environment: BTreeMap<String, String>,
    /// `OWNER/NAME`; `None`: that of the working directory.
    pub repository: Option<String>,
    /// Where it runs.
    pub directory: PathBuf,
}

/// What a release is to be.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Its tag.
    pub tag: String,
    /// Its title.
    pub title: String,
    /// A file with its notes.
    pub notes: PathBuf,
    /// Whether it stays a draft when it is made.
    pub draft: bool,
    /// Whether it is marked as one that is not final.
    pub prerelease: bool,
    /// What becomes of files of the same name with another size or digest.
    pub existing: Existing,
}

/// What becomes of a file that is there with another content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It is an error.
    Refuse,
    /// It is replaced.
    Replace,
}

/// A file for the release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Upload {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Lower-case hexadecimal SHA-256.
    pub sha256: String,
}

/// A release as GitHub has it.
#[derive(Debug, Clone, Deserialize)]
pub struct Remote {
    /// Its files.
    pub assets: Vec<RemoteAsset>,
}

/// A file of a release as GitHub has it.
#[derive(Debug, Clone, Deserialize)]
pub struct RemoteAsset {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// `sha256:…`; GitHub has it since 2025, and gh says it since then.
    #[serde(default)]
    pub digest: Option<String>,
}

/// What is going to be done.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// The tag.
    pub tag: String,
    /// Whether the release has to be made.
    pub is_new: bool,
    /// Files that are uploaded.
    pub uploads: Vec<Upload>,
    /// Of those, the ones that replace another.
    pub replaced: Vec<String>,
    /// Files that are there already.
    pub unchanged: Vec<String>,
    /// The calls, as they would be typed.
    pub commands: Vec<Vec<String>>,
}

/// The files of a release: what was built, where it comes from, and other files such as checksums.
///
/// # Errors
/// What cannot be read.
pub fn uploads(assets: &[Asset], others: &[PathBuf]) -> Result<Vec<Upload>, Error> {
    let mut uploads = Vec::new();
    let file = |path: &Path, name: String| -> Result<Upload, Error> {
        let (size, sha256) = (path.metadata()?.len(), source::sha256(path, &report::Silent)?);
        Ok(Upload { name, path: path.to_owned(), size, sha256 })
    };
    for asset in assets {
        uploads.push(Upload {
            name: asset.name.clone(),
            path: asset.path.clone(),
            size: asset.size,
            sha256: asset.sha256.clone(),
        });
        if let Some(path) = &asset.provenance {
            uploads.push(file(path, format!("{}{SUFFIX}", asset.name))?);
        }
    }
    for path in others {
        uploads.push(file(path, path.file_name().unwrap_or_default().to_string_lossy().into_owned())?);
    }
    uploads.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(uploads)
}

impl Gh {
    /// What GitHub has of a release; `None`: it is not there.
    ///
    /// # Errors
    /// What gh says, such as that nobody has logged in.
    pub fn ask(&self, tag: &str, reporter: &dyn Reporter) -> Result<Option<Remote>, Error> {
        let words = self.words(&["release", "view", tag, "--json", "assets"]);
        let finished = self.run(&words, ASKING, reporter)?;
        if finished.ended == Ended::Code(0) {
            return serde_json::from_str(&finished.said)
                .map(Some)
                .map_err(|error| Error::malformed("the answer of `gh release view`", error.to_string()));
        }
        if finished.said.contains("release not found") {
            return Ok(None);
        }
        Err(failed(&words, &finished.tail(3)))
    }

    /// Carries a plan out.
    ///
    /// # Errors
    /// A call that fails; what was uploaded before it stays, and the next run goes on.
    pub fn execute(&self, plan: &Plan, reporter: &dyn Reporter) -> Result<(), Error> {
        reporter.begin("Uploading", Some(plan.commands.len() as u64), Unit::Items);
        let mut done = Ok(());
        for words in &plan.commands {
            done = self.run(words, UPLOADING, reporter).and_then(|finished| match finished.ended {
                Ended::Code(0) => Ok(()),
                _ => Err(failed(words, &finished.tail(3))),
            });
            if done.is_err() {
                break;
            }
            reporter.advance(1);
        }
        reporter.end();
        done
    }

    fn words(&self, arguments: &[&str]) -> Vec<String> {
        let begin = std::iter::once("gh").chain(arguments.iter().copied()).map(str::to_owned);
        let repository = self.repository.iter().flat_map(|name| ["--repo".to_owned(), name.clone()]);
        begin.chain(repository).collect()
    }

    fn run(&self, words: &[String], timeout: Duration, reporter: &dyn Reporter) -> Result<process::Finished, Error> {
        let mut environment = self.environment.clone();
        // It asks nothing, and tells nothing about newer versions of itself.
        for name in ["GH_PROMPT_DISABLED", "GH_NO_UPDATE_NOTIFIER"] {
            environment.insert(name.into(), "1".into());
        }
        let program = std::iter::once(self.program.to_string_lossy().into_owned());
        let words = program.chain(words[1..].iter().cloned()).collect();
        let program = Program { words, directory: &self.directory, environment: &environment, timeout, deadline: None };
        process::run(&program, None, reporter)
    }

    /// What has to be done so that GitHub has the files.
    ///
    /// # Errors
    /// Files that are too large, and files of the same name with another content unless they may be replaced.
    pub fn plan(&self, wanted: &Wanted, files: Vec<Upload>, remote: Option<&Remote>) -> Result<Plan, Error> {
        if let Some(large) = files.iter().find(|file| file.size >= LIMIT) {
            return Err(Error::request_with(
                format!("`{}` has {} bytes, and GitHub takes files of less than {LIMIT}", large.name, large.size),
                "`rocwheel split` makes smaller wheels, `rocwheel prune` takes GPU targets out",
            ));
        }
        let there: BTreeMap<&str, &RemoteAsset> =
            remote.iter().flat_map(|remote| &remote.assets).map(|asset| (asset.name.as_str(), asset)).collect();
        let (mut uploads, mut replaced, mut unchanged, mut others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for file in files {
            match there.get(file.name.as_str()) {
                None => uploads.push(file),
                Some(asset) if asset.is(&file) => unchanged.push(file.name),
                // They say what is there, and change with it.
                Some(_) if file.name == "SHA256SUMS" || wanted.existing == Existing::Replace => {
                    replaced.push(file.name.clone());
                    uploads.push(file);
                }
                Some(_) => others.push(file.name),
            }
        }
        if let Some(first) = others.first() {
            let more = if others.len() > 1 { format!(" and {} more", others.len() - 1) } else { String::new() };
            return Err(Error::request_with(
                format!("the release {} has `{first}`{more} with another content", wanted.tag),
                "a file of a name never changes: build it with another version, or say `--clobber` to replace it",
            ));
        }
        let mut commands = Vec::new();
        let (tag, notes) = (wanted.tag.as_str(), wanted.notes.to_string_lossy());
        if remote.is_none() {
            let mut words = vec!["release", "create", tag, "--title", &wanted.title, "--notes-file", &notes];
            words.extend(wanted.draft.then_some("--draft"));
            words.extend(wanted.prerelease.then_some("--prerelease"));
            commands.push(self.words(&words));
        }
        for batch in uploads.chunks(BATCH) {
            let mut words = vec!["release".to_owned(), "upload".into(), tag.into()];
            words.extend(batch.iter().map(|file: &Upload| file.path.to_string_lossy().into_owned()));
            if batch.iter().any(|file| replaced.contains(&file.name)) {
                words.push("--clobber".into());
            }
            commands.push(self.words(&words.iter().map(String::as_str).collect::<Vec<_>>()));
        }
        if remote.is_some() && !uploads.is_empty() {
            commands.push(self.words(&["release", "edit", tag, "--notes-file", &notes]));
        }
        Ok(Plan { tag: wanted.tag.clone(), is_new: remote.is_none(), uploads, replaced, unchanged, commands })
    }
}

impl RemoteAsset {
    /// Whether it is this file: by its digest where GitHub says it, else by its size.
    fn is(&self, file: &Upload) -> bool {
        match &self.digest {
            Some(digest) => *digest == format!("sha256:{}", file.sha256),
            None => self.size == file.size,
        }
    }
}

fn failed(words: &[String], said: &[String]) -> Error {
    let typed = words.iter().take(4).cloned().collect::<Vec<_>>().join(" ");
    let said = if said.is_empty() { "nothing".to_owned() } else { said.join("; ") };
    Error::Source {
        reason: format!("`{typed}` failed: {said}"),
        hint: Some("`gh auth status` says who is logged in; the same command goes on where it stopped".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gh() -> Gh {
        Gh {
            program: "gh".into(),
            environment: BTreeMap::new(),
            repository: Some("owner/name".into()),
            directory: ".".into(),
        }
    }

    fn wanted(existing: Existing) -> Wanted {
        Wanted {
            tag: "v1".into(),
            title: "One".into(),
            notes: "notes.md".into(),
            draft: true,
            prerelease: false,
            existing,
        }
    }

    fn file(name: &str, size: u64, sha256: &str) -> Upload {
        Upload { name: name.into(), path: PathBuf::from("out").join(name), size, sha256: sha256.into() }
    }

    #[test]
    fn only_what_is_missing_is_uploaded() {
        let files = || vec![file("SHA256SUMS", 3, "ee"), file("a.whl", 10, "aa"), file("b.whl", 20, "bb")];
        let typed = |plan: &Plan| plan.commands.iter().map(|words| words.join(" ")).collect::<Vec<_>>();
        let plan = gh().plan(&wanted(Existing::Refuse), files(), None).unwrap();
        assert_eq!(
            typed(&plan),
            [
                "gh release create v1 --title One --notes-file notes.md --draft --repo owner/name",
                "gh release upload v1 out/SHA256SUMS out/a.whl out/b.whl --repo owner/name",
            ]
        );
        let remote = |text: &str| serde_json::from_str::<Remote>(text).unwrap();
        let all = remote(
            r#"{"assets":[{"name":"a.whl","size":10},{"name":"b.whl","size":20,"digest":"sha256:bb"},{"name":"SHA256SUMS","size":3}]}"#,
        );
        let plan = gh().plan(&wanted(Existing::Refuse), files(), Some(&all)).unwrap();
        assert!(plan.commands.is_empty() && plan.unchanged.len() == 3, "{plan:?}");
        let old = remote(r#"{"assets":[{"name":"a.whl","size":10},{"name":"SHA256SUMS","size":2}]}"#);
        let plan = gh().plan(&wanted(Existing::Refuse), files(), Some(&old)).unwrap();
        assert_eq!(plan.replaced, ["SHA256SUMS"]);
        assert_eq!(
            typed(&plan),
            [
                "gh release upload v1 out/SHA256SUMS out/b.whl --clobber --repo owner/name",
                "gh release edit v1 --notes-file notes.md --repo owner/name",
            ]
        );
        let other = remote(r#"{"assets":[{"name":"b.whl","size":20,"digest":"sha256:cc"}]}"#);
        let error = gh().plan(&wanted(Existing::Refuse), files(), Some(&other)).unwrap_err();
        assert_eq!(error.to_string(), "the release v1 has `b.whl` with another content");
        assert_eq!(gh().plan(&wanted(Existing::Replace), files(), Some(&other)).unwrap().replaced, ["b.whl"]);
        let large = vec![file("c.whl", LIMIT, "cc")];
        assert!(
            gh().plan(&wanted(Existing::Refuse), large, None).unwrap_err().to_string().contains("2147483648 bytes")
        );
    }
}
