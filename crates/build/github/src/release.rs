//! Files of a GitHub release, through GitHub's command line program `gh`: lists the existing files,
//! plans the uploads and runs them.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocwheel_progress::{Reporter, Unit};
use serde::{Deserialize, Serialize};

use crate::pages::Asset;
use rocwheel_process::{ProcessEnd, Program};
use rocwheel_progress::Failure;
use rocwheel_recipe::provenance::SUFFIX;
use rocwheel_recipe::surroundings::Surroundings;

/// Size in bytes that a file of a release must stay below (GitHub, "About releases").
pub const LIMIT: u64 = 2 << 30;

const SUMS: &str = "SHA256SUMS";
/// Number of files that one call uploads.
const BATCH: usize = 10;
/// Time limit for a query.
const ASKING: Duration = Duration::from_mins(2);
/// Time limit for a call that uploads.
const UPLOADING: Duration = Duration::from_hours(6);

#[derive(Debug, Clone)]
pub struct Gh {
    pub program: PathBuf,
    /// Its environment. `gh` takes the token from there or from the user's configuration.
    pub environment: Surroundings,
    /// `OWNER/NAME`; `None`: the repository of the working directory.
    pub repository: Option<String>,
    pub directory: PathBuf,
}

#[derive(Debug, Clone)]
pub struct WantedRelease {
    pub tag: String,
    pub title: String,
    /// Path of a file with the notes.
    pub notes: PathBuf,
    /// `true` if an existing release gets these notes too. They may replace notes that someone
    /// wrote by hand.
    pub replaces_notes: bool,
    /// `true` if a new release stays a draft.
    pub draft: bool,
    pub prerelease: bool,
    /// How to treat existing files of the same name with another size or digest.
    pub existing: ExistingRelease,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingRelease {
    Refuse,
    Replace,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Upload {
    pub name: String,
    /// Path on this machine.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Lower-case hexadecimal SHA-256.
    pub sha256: String,
}

#[derive(Debug, Clone, Deserialize)]
pub struct Remote {
    pub assets: Vec<RemoteAsset>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct RemoteAsset {
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// `sha256:…`; GitHub stores it and `gh` prints it since 2025.
    #[serde(default)]
    pub digest: Option<String>,
    /// `uploaded`; another word for an upload that was not completed.
    #[serde(default)]
    pub state: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    pub tag: String,
    /// `true` if the release has to be created.
    pub is_new: bool,
    pub uploads: Vec<Upload>,
    /// Names of the uploads that replace a file.
    pub replaced: Vec<String>,
    pub unchanged: Vec<String>,
    /// The calls as they would be typed.
    pub commands: Vec<Vec<String>>,
}

fn upload(path: &Path, name: String) -> Result<Upload, Failure> {
    let (size, sha256) = (path.metadata()?.len(), rocwheel_source::sha256(path, &rocwheel_progress::Silent)?);
    Ok(Upload { name, path: path.to_owned(), size, sha256 })
}

/// The files of a release: built files, their provenance, and other files such as checksums.
pub fn uploads(assets: &[Asset], others: &[PathBuf]) -> Result<Vec<Upload>, Failure> {
    let mut uploads = Vec::new();
    for asset in assets {
        uploads.push(Upload {
            name: asset.name.clone(),
            path: asset.path.clone(),
            size: asset.size,
            sha256: asset.sha256.clone(),
        });
        if let Some(path) = &asset.provenance {
            uploads.push(upload(path, format!("{}{SUFFIX}", asset.name))?);
        }
    }
    for path in others {
        uploads.push(upload(path, path.file_name().unwrap_or_default().to_string_lossy().into_owned())?);
    }
    uploads.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(uploads)
}

impl Gh {
    /// Asks GitHub for a release; `None`: it does not exist.
    pub fn ask(&self, tag: &str, reporter: &dyn Reporter) -> Result<Option<Remote>, Failure> {
        let words = self.words(&["release", "view", tag, "--json", "assets"]);
        let finished = self.run(&words, ASKING, None, reporter)?;
        if finished.ended == ProcessEnd::Code(0) {
            let remote = serde_json::from_str(&finished.said).map_err(|error| {
                rocwheel_recipe::Error::malformed("the answer of `gh release view`", error.to_string())
            });
            return Ok(Some(remote?));
        }
        if finished.said.contains("release not found") {
            return Ok(None);
        }
        Err(failed(&words, &finished.tail(3)))
    }

    /// The checksums of a release: those of the local files, and for files that only GitHub has
    /// those in its own `SHA256SUMS`.
    pub fn checksums(
        &self,
        tag: &str,
        here: &str,
        remote: &Remote,
        reporter: &dyn Reporter,
    ) -> Result<String, Failure> {
        if !remote.assets.iter().any(|asset| asset.name == SUMS && asset.is_whole()) {
            return Ok(here.to_owned());
        }
        let words = self.words(&["release", "download", tag, "--pattern", SUMS, "--output", "-"]);
        let mut there = Vec::new();
        let finished = self.run(&words, ASKING, Some(&mut there), reporter)?;
        if finished.ended != ProcessEnd::Code(0) {
            return Err(failed(&words, &finished.tail(3)));
        }
        let there = String::from_utf8_lossy(&there);
        let theirs = rows(&there).filter(|(name, _)| remote.assets.iter().any(|asset| asset.name == *name));
        let rows: BTreeMap<&str, &str> = theirs.chain(rows(here)).collect();
        Ok(rows.iter().map(|(name, sha256)| format!("{sha256}  {name}\n")).collect())
    }

    /// Runs the calls of a plan.
    /// Files that were uploaded before a failed call stay, and the next run continues.
    pub fn execute(&self, plan: &Plan, reporter: &dyn Reporter) -> Result<(), Failure> {
        let _stage = reporter.stage("Uploading", Some(plan.commands.len() as u64), Unit::Items);
        for words in &plan.commands {
            let finished = self.run(words, UPLOADING, None, reporter)?;
            if finished.ended != ProcessEnd::Code(0) {
                return Err(failed(words, &finished.tail(3)));
            }
            reporter.advance(1);
        }
        Ok(())
    }

    fn words(&self, arguments: &[&str]) -> Vec<String> {
        let begin = std::iter::once("gh").chain(arguments.iter().copied()).map(str::to_owned);
        let repository = self.repository.iter().flat_map(|name| ["--repo".to_owned(), name.clone()]);
        begin.chain(repository).collect()
    }

    fn run(
        &self,
        words: &[String],
        timeout: Duration,
        log: Option<&mut dyn Write>,
        reporter: &dyn Reporter,
    ) -> Result<rocwheel_process::FinishedProcess, Failure> {
        let mut environment = self.environment.clone();
        // `gh` must not ask questions or report newer versions of itself.
        for name in ["GH_PROMPT_DISABLED", "GH_NO_UPDATE_NOTIFIER"] {
            environment.insert(name.into(), "1".into());
        }
        let program = std::iter::once(self.program.to_string_lossy().into_owned());
        let words = program.chain(words[1..].iter().cloned()).collect();
        let program = Program { words, directory: &self.directory, environment: &environment, timeout, deadline: None };
        Ok(rocwheel_process::run(&program, log, reporter)?)
    }

    /// Plans the changes that bring the files to GitHub.
    /// A file of 2 GiB or more is an error, and one of the same name with another content that must
    /// not be replaced.
    pub fn plan(
        &self,
        wanted: &WantedRelease,
        mut files: Vec<Upload>,
        remote: Option<&Remote>,
    ) -> Result<Plan, Failure> {
        if let Some(large) = files.iter().find(|file| file.size >= LIMIT) {
            return Err(rocwheel_recipe::Error::request_with(
                format!("`{}` has {} bytes, and GitHub takes files of less than {LIMIT}", large.name, large.size),
                "`rocwheel split` makes smaller wheels, `rocwheel prune` takes GPU targets out",
            )
            .into());
        }
        let there: BTreeMap<&str, &RemoteAsset> =
            remote.iter().flat_map(|remote| &remote.assets).map(|asset| (asset.name.as_str(), asset)).collect();
        let mut is_uploaded: BTreeMap<String, bool> = BTreeMap::new();
        let (mut uploads, mut replaced, mut unchanged, mut others) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // Files that describe others follow them: checksums come last, and provenance after its
        // file.
        files.sort_by_key(|file| (file.name == SUMS, file.name.ends_with(SUFFIX)));
        for file in files {
            let follows = match file.name.strip_suffix(SUFFIX) {
                _ if file.name == SUMS => is_uploaded.values().any(|uploaded| *uploaded),
                Some(of) => is_uploaded.get(of) == Some(&true),
                None => false,
            };
            let asset = there.get(file.name.as_str());
            let is_same = asset.is_some_and(|asset| asset.is(&file) && (asset.digest.is_some() || !follows));
            let may_replace = file.name == SUMS
                || follows
                || wanted.existing == ExistingRelease::Replace
                || asset.is_some_and(|asset| !asset.is_whole());
            is_uploaded.insert(file.name.clone(), !is_same);
            match asset {
                None => uploads.push(file),
                Some(_) if is_same => unchanged.push(file.name),
                Some(_) if may_replace => {
                    replaced.push(file.name.clone());
                    uploads.push(file);
                }
                Some(_) => others.push(file.name),
            }
        }
        uploads.sort_by(|one, other| one.name.cmp(&other.name));
        if let Some(first) = others.first() {
            let more = if others.len() > 1 { format!(" and {} more", others.len() - 1) } else { String::new() };
            return Err(rocwheel_recipe::Error::request_with(
                format!("the release {} has `{first}`{more} with another content", wanted.tag),
                "a file of a name never changes: build it with another version, or say `--clobber` to replace it",
            )
            .into());
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
        if remote.is_some() && wanted.replaces_notes {
            commands.push(self.words(&["release", "edit", tag, "--notes-file", &notes]));
        }
        Ok(Plan { tag: wanted.tag.clone(), is_new: remote.is_none(), uploads, replaced, unchanged, commands })
    }
}

impl RemoteAsset {
    /// `true` if it was uploaded completely.
    fn is_whole(&self) -> bool {
        self.state.as_deref().is_none_or(|state| state == "uploaded")
    }

    /// `true` if it is the same file, by its digest if GitHub has one, otherwise by its size.
    fn is(&self, file: &Upload) -> bool {
        match &self.digest {
            _ if !self.is_whole() => false,
            Some(digest) => *digest == format!("sha256:{}", file.sha256),
            None => self.size == file.size,
        }
    }
}

/// Names and digests in the output of `sha256sum`; other lines are ignored.
fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (sha256, name) = line.split_once([' ', '\t'])?;
        let is_digest = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        let name = name.trim_start_matches([' ', '*']);
        (is_digest && !name.is_empty()).then_some((name, sha256))
    })
}

fn failed(words: &[String], said: &[String]) -> Failure {
    let typed = words.iter().take(4).cloned().collect::<Vec<_>>().join(" ");
    let said = if said.is_empty() { "nothing".to_owned() } else { said.join("; ") };
    Failure::message(format!("`{typed}` failed: {said}"))
        .with_hint("`gh auth status` says who is logged in; the same command continues")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gh() -> Gh {
        Gh {
            program: "gh".into(),
            environment: Surroundings::default(),
            repository: Some("owner/name".into()),
            directory: ".".into(),
        }
    }

    fn wanted(existing: ExistingRelease) -> WantedRelease {
        WantedRelease {
            tag: "v1".into(),
            title: "One".into(),
            notes: "notes.md".into(),
            replaces_notes: false,
            draft: true,
            prerelease: false,
            existing,
        }
    }

    fn file(name: &str, size: u64, sha256: &str) -> Upload {
        Upload { name: name.into(), path: PathBuf::from("out").join(name), size, sha256: sha256.into() }
    }

    #[test]
    fn a_size_says_nothing_of_what_follows_others() {
        let files = || {
            let provenance = format!("a.whl{SUFFIX}");
            vec![
                file("SHA256SUMS", 3, "ee"),
                file("a.whl", 10, "aa"),
                file(&provenance, 5, "dd"),
                file("b.whl", 20, "bb"),
            ]
        };
        let names = |existing, assets: serde_json::Value| {
            let remote: Remote = serde_json::from_value(serde_json::json!({ "assets": assets })).unwrap();
            let plan = gh().plan(&wanted(existing), files(), Some(&remote)).unwrap();
            let uploads: Vec<String> = plan.uploads.into_iter().map(|file| file.name).collect();
            assert!(plan.replaced.iter().all(|name| uploads.contains(name)));
            uploads
        };
        let asset =
            |name: &str, size: u64, state: &str| serde_json::json!({"name": name, "size": size, "state": state});
        let provenance = format!("a.whl{SUFFIX}");
        let others = |of_a: serde_json::Value| {
            serde_json::json!([asset("SHA256SUMS", 3, "uploaded"), asset(&provenance, 5, "uploaded"), of_a])
        };
        // It has the same size as before; b is new.
        let all = others(asset("a.whl", 10, "uploaded"));
        assert_eq!(names(ExistingRelease::Refuse, all), ["SHA256SUMS", "b.whl"]);
        let other = others(asset("a.whl", 11, "uploaded"));
        assert_eq!(names(ExistingRelease::Replace, other), ["SHA256SUMS", "a.whl", &provenance, "b.whl"]);
        // Its upload was begun but not completed.
        let half = others(asset("a.whl", 10, "starter"));
        assert_eq!(names(ExistingRelease::Refuse, half), ["SHA256SUMS", "a.whl", &provenance, "b.whl"]);
    }

    #[test]
    fn checksums_are_read_as_sha256sum_writes_them() {
        let digest = "0".repeat(64);
        let text = format!("{digest}  a b.whl\n{digest} *c.whl\nwarning: x\n{digest}\n");
        assert_eq!(rows(&text).map(|(name, _)| name).collect::<Vec<_>>(), ["a b.whl", "c.whl"]);
    }

    #[test]
    fn only_what_is_missing_is_uploaded() {
        let files = || vec![file("SHA256SUMS", 3, "ee"), file("a.whl", 10, "aa"), file("b.whl", 20, "bb")];
        let typed = |plan: &Plan| plan.commands.iter().map(|words| words.join(" ")).collect::<Vec<_>>();
        let plan = gh().plan(&wanted(ExistingRelease::Refuse), files(), None).unwrap();
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
        let plan = gh().plan(&wanted(ExistingRelease::Refuse), files(), Some(&all)).unwrap();
        assert!(plan.commands.is_empty() && plan.unchanged.len() == 3, "{plan:?}");
        let old = remote(r#"{"assets":[{"name":"a.whl","size":10},{"name":"SHA256SUMS","size":2}]}"#);
        let plan = gh().plan(&wanted(ExistingRelease::Refuse), files(), Some(&old)).unwrap();
        assert_eq!(plan.replaced, ["SHA256SUMS"]);
        assert_eq!(
            typed(&plan),
            ["gh release upload v1 out/SHA256SUMS out/b.whl --clobber --repo owner/name"],
            "a person may have written the notes of an existing release"
        );
        let noted = WantedRelease { replaces_notes: true, ..wanted(ExistingRelease::Refuse) };
        let plan = gh().plan(&noted, files(), Some(&all)).unwrap();
        assert_eq!(typed(&plan), ["gh release edit v1 --notes-file notes.md --repo owner/name"]);
        let other = remote(r#"{"assets":[{"name":"b.whl","size":20,"digest":"sha256:cc"}]}"#);
        let error = gh().plan(&wanted(ExistingRelease::Refuse), files(), Some(&other)).unwrap_err();
        assert_eq!(error.to_string(), "the release v1 has `b.whl` with another content");
        assert_eq!(gh().plan(&wanted(ExistingRelease::Replace), files(), Some(&other)).unwrap().replaced, ["b.whl"]);
        let large = vec![file("c.whl", LIMIT, "cc")];
        assert!(
            gh().plan(&wanted(ExistingRelease::Refuse), large, None)
                .unwrap_err()
                .to_string()
                .contains("2147483648 bytes")
        );
    }
}
