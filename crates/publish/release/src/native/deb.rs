//! The lists of a Debian repository: `dists/SUITE/COMPONENT/binary-ARCHITECTURE/Packages`, and
//! `dists/SUITE/Release` with their hashes (Debian's repository format).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::Timestamp;
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_store::Error as StoreError;

use super::merge::{ENDINGS, Entries, Entry, add, gzip, unpacked};
use super::{MergedLists, Repository, signed};
use crate::Error;

/// Fields of `Release` that this module writes itself.
const MADE: [&str; 9] =
    ["Date", "Valid-Until", "Architectures", "Components", "MD5Sum", "SHA1", "SHA256", "SHA512", "Acquire-By-Hash"];
/// Signatures beside and around `Release`.
const SIGNATURES: [&str; 2] = ["InRelease", "Release.gpg"];

pub(super) fn is_list(key: &str) -> bool {
    root(key).is_some()
}

/// The repository of a file below `dists`.
pub(super) fn root(key: &str) -> Option<&str> {
    if key.starts_with("dists/") {
        return Some("");
    }
    key.find("/dists/").map(|at| &key[..at])
}

pub(super) fn merged(repository: &Repository<'_>) -> Result<Result<MergedLists, Vec<String>>, Error> {
    let suites: BTreeSet<&str> = repository
        .members
        .keys()
        .filter_map(|path| path.strip_prefix("dists/")?.split_once('/'))
        .map(|(suite, _)| suite)
        .collect();
    let (mut lists, mut problems) = (MergedLists::default(), Vec::new());
    for suite in suites {
        Suite { repository, folder: format!("dists/{suite}") }.merge(&mut lists, &mut problems)?;
    }
    Ok(if problems.is_empty() { Ok(lists) } else { Err(problems) })
}

struct Suite<'r> {
    repository: &'r Repository<'r>,
    /// `dists/SUITE`
    folder: String,
}

impl Suite<'_> {
    fn merge(&self, lists: &mut MergedLists, problems: &mut Vec<String>) -> Result<(), Error> {
        let signatures = SIGNATURES.map(|name| format!("{}/{name}", self.folder));
        problems.extend(self.repository.signature_problem(&signatures.each_ref().map(String::as_str))?);
        // `main/binary-amd64`, one for each list.
        let places: BTreeSet<&str> = self
            .repository
            .members
            .keys()
            .filter_map(|path| path.strip_prefix(self.folder.as_str())?.strip_prefix('/'))
            .filter_map(|path| ENDINGS.iter().find_map(|ending| path.strip_suffix(&format!("/Packages{ending}"))))
            .collect();
        if places.is_empty() {
            problems.push(format!("`{}` has no `Packages`", self.folder));
        }
        let mut texts: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for place in places {
            let new = self.list(place, |path| self.repository.new_file(path), problems)?;
            for entry in new.values() {
                let path = field(&entry.text, "Filename").unwrap_or_default();
                let size = field(&entry.text, "Size").and_then(|size| size.parse().ok());
                problems.extend(self.repository.contradiction(path, &entry.sha256, size));
            }
            let mut all = self.list(place, |path| self.repository.stored(path), problems)?;
            add(&mut all, new, problems);
            let text: String = all.values().map(|entry| format!("{}\n\n", entry.text)).collect();
            texts.insert(format!("{place}/Packages.gz"), gzip(text.as_bytes()));
            texts.insert(format!("{place}/Packages"), text.into_bytes());
        }
        if problems.is_empty() {
            self.write(texts, lists)?;
        }
        Ok(())
    }

    /// The packages of a list; none where there is no list.
    fn list(
        &self,
        place: &str,
        read: impl Fn(&str) -> Result<Option<Vec<u8>>, StoreError>,
        problems: &mut Vec<String>,
    ) -> Result<Entries<String>, Error> {
        for ending in ENDINGS {
            let path = format!("{}/{place}/Packages{ending}", self.folder);
            let Some(bytes) = read(&path)? else { continue };
            let text = match unpacked(&path, &bytes).map(String::from_utf8) {
                Ok(Ok(text)) => text,
                Ok(Err(_)) => {
                    problems.push(format!("`{path}` is not UTF-8"));
                    continue;
                }
                Err(error) => {
                    problems.push(format!("`{path}` cannot be unpacked: {error}"));
                    continue;
                }
            };
            let mut entries = Entries::new();
            for paragraph in paragraphs(&text) {
                let fields = ["Package", "Version", "Architecture", "SHA256", "Filename"];
                let [Some(package), Some(version), Some(architecture), Some(sha256), Some(_)] =
                    fields.map(|name| field(paragraph, name))
                else {
                    problems.push(format!("`{path}` has an entry without {}", fields.join(", ")));
                    continue;
                };
                let key = [package, version, architecture].map(str::to_owned);
                let entry = Entry { sha256: sha256.to_ascii_lowercase(), text: paragraph.to_owned() };
                add(&mut entries, Entries::from([(key, entry)]), problems);
            }
            return Ok(entries);
        }
        Ok(Entries::new())
    }

    fn key(&self, path: &str) -> String {
        self.repository.key(&format!("{}/{path}", self.folder))
    }

    /// The files of the suite, unless the store has the same lists.
    fn write(&self, texts: BTreeMap<String, Vec<u8>>, lists: &mut MergedLists) -> Result<(), Error> {
        let release = format!("{}/Release", self.folder);
        let before = self.repository.stored(&release)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let mut hashes: BTreeMap<String, (String, u64)> = before.as_deref().map(hashes_of).unwrap_or_default();
        let old: BTreeSet<String> = hashes.iter().map(|(path, (hash, _))| by_hash(path, hash)).collect();
        let new = texts.iter().map(|(path, bytes)| (path.clone(), (hexadecimal(&sha256(bytes)), bytes.len() as u64)));
        let new: BTreeMap<String, (String, u64)> = new.collect();
        if before.is_some() && new.iter().all(|(path, hash)| hashes.get(path) == Some(hash)) {
            return Ok(());
        }
        for (path, hash) in &new {
            // Another compression of an old list.
            let list = path.trim_end_matches(".gz");
            hashes.retain(|known, _| !known.starts_with(list) || new.contains_key(known));
            hashes.insert(path.clone(), hash.clone());
        }
        let needed: BTreeSet<String> = hashes.iter().map(|(path, (hash, _))| by_hash(path, hash)).collect();
        let given = self.repository.new_file(&release)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = release_text(
            given.as_deref().or(before.as_deref()).unwrap_or_default(),
            &hashes,
            self.repository.options.now,
        );
        for (path, bytes) in texts {
            let (hash, _) = &new[&path];
            lists.first.push((self.key(&by_hash(&path, hash)), bytes.clone()));
            lists.last.push((self.key(&path), bytes));
        }
        if let Some(signer) = self.repository.options.signer {
            let signature = signed(signer, text.as_bytes())?;
            lists.last.push((self.key("Release.gpg"), signature.beside));
            lists.last.push((self.key("Release"), text.into_bytes()));
            lists.last.push((self.key("InRelease"), signature.around));
        } else {
            lists.last.push((self.key("Release"), text.into_bytes()));
        }
        // Installers may still have the old `Release`; what it names stays until the next change.
        let folders = needed.iter().filter_map(|path| Some(self.key(path.rsplit_once('/')?.0)));
        let used: BTreeSet<String> = old.iter().chain(&needed).map(|path| self.key(path)).collect();
        for folder in folders.collect::<BTreeSet<String>>() {
            let stored = self.repository.store.list(&folder, &rocwheel_progress::Silent)?;
            lists.stale.extend(stored.into_iter().map(|file| file.key).filter(|stored| !used.contains(stored)));
        }
        Ok(())
    }
}

/// The paragraphs of a list.
fn paragraphs(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n").map(|paragraph| paragraph.trim_matches('\n')).filter(|paragraph| !paragraph.is_empty())
}

/// The value of a field of one line.
fn field<'t>(paragraph: &'t str, name: &str) -> Option<&'t str> {
    let line = paragraph.lines().find_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.eq_ignore_ascii_case(name).then_some(value)
    })?;
    Some(line.trim())
}

/// `main/binary-amd64/by-hash/SHA256/…` of `main/binary-amd64/Packages`.
fn by_hash(path: &str, hash: &str) -> String {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{folder}/by-hash/SHA256/{hash}")
}

/// The SHA-256 and size of each list that a `Release` names.
fn hashes_of(release: &str) -> BTreeMap<String, (String, u64)> {
    let lines = release.lines().skip_while(|line| !line.eq_ignore_ascii_case("SHA256:")).skip(1);
    let entries = lines.take_while(|line| line.starts_with(' ')).filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (hash, size, path) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        Some((path.to_owned(), (hash.to_owned(), size)))
    });
    entries.collect()
}

/// The text of `Release`: the fields of `given` that say what the repository is, and the lists.
fn release_text(given: &str, hashes: &BTreeMap<String, (String, u64)>, now: Timestamp) -> String {
    let mut text = String::new();
    let mut is_kept = false;
    for line in given.lines().filter(|line| !line.trim().is_empty()) {
        if !line.starts_with([' ', '\t']) {
            let name = line.split(':').next().unwrap_or_default();
            is_kept = line.contains(':') && !MADE.iter().any(|made| made.eq_ignore_ascii_case(name));
        }
        if is_kept {
            let _ = writeln!(text, "{line}");
        }
    }
    let architectures = hashes.keys().filter_map(|path| path.split('/').find_map(|part| part.strip_prefix("binary-")));
    let components = hashes.keys().filter_map(|path| Some(path.split_once("/binary-")?.0));
    let (architectures, components) = (joined_names(architectures), joined_names(components));
    let date = now.strftime("%a, %d %b %Y %H:%M:%S UTC");
    let _ = write!(
        text,
        "Architectures: {architectures}\nComponents: {components}\nDate: {date}\nAcquire-By-Hash: yes\nSHA256:\n"
    );
    for (path, (hash, size)) in hashes {
        let _ = writeln!(text, " {hash} {size} {path}");
    }
    text
}

/// The names without repetitions, separated by spaces.
fn joined_names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: BTreeSet<&str> = names.collect();
    names.into_iter().collect::<Vec<_>>().join(" ")
}
