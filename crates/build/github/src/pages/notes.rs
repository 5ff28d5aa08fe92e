//! Input: the files of a release. Output: release notes with a table for each platform, how to
//! install and all files, and the history of all releases.

use std::collections::{BTreeMap, BTreeSet};

use super::assets::Asset;
use super::packages::{encoded, size};
use super::{head, newest_first, row};
use rocwheel_progress::Failure;
use rocwheel_recipe::Book;
use rocwheel_recipe::compare_python_versions;
use rocwheel_recipe::run_time;
use rocwheel_recipe::run_time_note;
use rocwheel_recipe::{Cell, Platform};

/// The columns that rows with different Pythons share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    platform: String,
    package: String,
    version: String,
    backend: String,
    torch: String,
    rocm: String,
    targets: String,
}

const COLUMNS: [&str; 6] = ["Package", "Version", "Python", "PyTorch", "ROCm", "GPU targets"];

/// Where the files of a release are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesAt<'a> {
    /// In a folder with this address, which ends in `/`; beside the page if it is empty.
    Folder(&'a str),
    /// At an address that is not known, so there are no links.
    Unknown,
}

impl FilesAt<'_> {
    /// `text` as a link to a file.
    fn link(self, text: &str, name: &str) -> String {
        match self {
            Self::Folder(base) => format!("[{text}]({base}{})", encoded(name)),
            Self::Unknown => text.to_owned(),
        }
    }

    /// The argument of `pip install`: the address of a file, or its name if that is not known.
    fn installable(self, name: &str) -> String {
        match self {
            Self::Folder(base) if !base.is_empty() => format!("{base}{}", encoded(name)),
            Self::Folder(_) | Self::Unknown => rocwheel_progress::shell_word(name),
        }
    }
}

/// The notes of a release, with one row for wheels that differ only in their Python.
pub fn notes(assets: &[Asset], book: &Book, at: FilesAt<'_>) -> Result<String, Failure> {
    let mut rows: BTreeMap<Key, BTreeMap<String, &str>> = BTreeMap::new();
    for (asset, facts) in assets.iter().filter_map(|asset| Some((asset, asset.facts.as_ref()?))) {
        let key = Key {
            platform: facts.platform.clone(),
            package: facts.package.clone(),
            version: facts.version.clone(),
            backend: facts.backend.clone(),
            torch: facts.torch.clone(),
            rocm: facts.rocm.clone(),
            targets: facts.targets.join(", "),
        };
        rows.entry(key).or_default().insert(facts.python.clone(), &asset.name);
    }
    let mut keys: Vec<&Key> = rows.keys().collect();
    keys.sort_by(|one, other| {
        (&one.platform, &one.package)
            .cmp(&(&other.platform, &other.package))
            .then_with(|| newest_first(&one.version, &other.version))
            .then_with(|| newest_first(&one.torch, &other.torch))
            .then_with(|| newest_first(&one.rocm, &other.rocm))
            .then_with(|| one.cmp(other))
    });
    let mut text = String::new();
    let mut platform = None;
    let mut example = None;
    for key in keys {
        if platform != Some(&key.platform) {
            let space = if text.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{space}#### {}\n\n{}", key.platform, head(&COLUMNS)));
            platform = Some(&key.platform);
        }
        let version =
            if key.backend.is_empty() { key.version.clone() } else { format!("{} ({})", key.version, key.backend) };
        let files = &rows[key];
        let mut pythons: Vec<String> = files.keys().cloned().collect();
        pythons.sort_by(|one, other| compare_python_versions(one, other));
        pythons.dedup();
        example = example.or_else(|| pythons.last().and_then(|newest| files.get(newest)));
        let links: Vec<String> = pythons.iter().map(|python| at.link(python, files[python])).collect();
        let cells = [&key.package, &version, &links.join(", "), &key.torch, &key.rocm, &key.targets];
        text.push_str(&row(&cells.map(|text| if text.is_empty() { "–".to_owned() } else { text.clone() })));
    }
    if let Some(name) = example {
        let links = if at == FilesAt::Unknown { "" } else { " Each version of Python above is a link to its wheel." };
        let command = at.installable(name);
        text.push_str(&format!(
            "\nInstall the wheel for your Python, torch and ROCm.{links}\n\n```\npip install {command}\n```\n"
        ));
    }
    let needs = at_run_time(assets, book)?;
    if !needs.is_empty() {
        text.push_str(&format!("\n{}", needs.into_iter().map(|line| format!("{line}.\n")).collect::<String>()));
    }
    if !assets.is_empty() {
        let count = if assets.len() == 1 { "The file".to_owned() } else { format!("All {} files", assets.len()) };
        text.push_str(&format!("\n<details><summary>{count}</summary>\n\n"));
        for asset in assets {
            let name = at.link(&format!("`{}`", asset.name), &asset.name);
            text.push_str(&format!("* {name}, {}\n", size(asset.size)));
        }
        text.push_str("\n</details>\n");
    }
    let stated = assets.iter().filter(|asset| asset.provenance.is_some()).count();
    if !assets.is_empty() {
        text.push_str("\n`SHA256SUMS` has the checksums of all files.");
        if stated > 0 {
            let whose =
                if stated == assets.len() { "each".to_owned() } else { format!("{stated} of {}", assets.len()) };
            text.push_str(&format!(
                " Where they come from stands beside {whose}, as SLSA provenance (`.provenance.json`)."
            ));
        }
        text.push('\n');
    }
    Ok(text)
}

/// The run-time variables that users have to set, one line for each package and backend.
fn at_run_time(assets: &[Asset], book: &Book) -> Result<BTreeSet<String>, Failure> {
    let mut lines = BTreeSet::new();
    for facts in assets.iter().filter_map(|asset| asset.facts.as_ref()) {
        let package = rocwheel_wheel::canonical_name(&facts.package);
        let entry = book.entries().find(|entry| {
            entry.recipe.distribution.as_deref().is_some_and(|name| rocwheel_wheel::canonical_name(name) == package)
        });
        let Some(entry) = entry else { continue };
        let [backend, rocm, torch, version] = [&facts.backend, &facts.rocm, &facts.torch, &facts.version]
            .map(|text| Some(text.clone()).filter(|text| !text.is_empty()));
        let platform = if facts.platform.starts_with("Windows") { Platform::Windows } else { Platform::Linux };
        let is_of_recipe = entry.recipe.platforms.contains(&platform)
            && backend.as_ref().is_none_or(|backend| entry.recipe.backends.contains(backend));
        if !is_of_recipe {
            continue;
        }
        let cell = Cell { backend, rocm, torch, version, ..Cell::new(platform) };
        let name = if facts.backend.is_empty() { package } else { format!("{package} ({})", facts.backend) };
        lines.extend(run_time_note(&run_time(entry, &cell)?).map(|note| format!("{name} {note}")));
    }
    Ok(lines)
}

/// `true` for a heading in Markdown of at most this level.
fn is_heading(line: &str, most: usize) -> bool {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    level > 0 && level <= most && line.as_bytes().get(level) == Some(&b' ')
}

/// Inserts the notes of a release into a history of releases. They replace an older section of the
/// same name, or become the first section under `## History`. A text without that heading gets it
/// at its end.
pub fn history(text: &str, tag: &str, notes: &str) -> String {
    const HEADING: &str = "## History";
    let section = format!("### {tag}\n\n{}\n", notes.trim_end());
    let lines: Vec<&str> = text.lines().collect();
    let Some(begin) = lines.iter().position(|line| line.trim_end() == HEADING) else {
        let before = text.trim_end();
        let space = if before.is_empty() { "" } else { "\n\n" };
        return format!("{before}{space}{HEADING}\n\n{section}");
    };
    let end = lines[begin + 1..].iter().position(|line| is_heading(line, 2)).map_or(lines.len(), |at| begin + 1 + at);
    let own = format!("### {tag}");
    let place = lines[begin + 1..end].iter().position(|line| line.trim_end() == own).map(|at| begin + 1 + at);
    let next =
        |from: usize| lines[from + 1..end].iter().position(|line| is_heading(line, 3)).map_or(end, |at| from + 1 + at);
    let (from, to) = place.map_or_else(|| (next(begin), next(begin)), |from| (from, next(from)));
    let [before, after] =
        [&lines[..from], &lines[to..]].map(|lines| lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    let space = if after.trim().is_empty() { "" } else { "\n" };
    format!("{}\n\n{section}{space}{}", before.trim_end(), after.trim_start_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_gets_each_release_once() {
        let one = history("# Releases\n", "v1", "first\n");
        assert_eq!(one, "# Releases\n\n## History\n\n### v1\n\nfirst\n");
        let two = history(&one, "v2", "#### Linux\n\nsecond\n");
        assert_eq!(two, "# Releases\n\n## History\n\n### v2\n\n#### Linux\n\nsecond\n\n### v1\n\nfirst\n");
        assert_eq!(history(&two, "v2", "#### Linux\n\nsecond\n"), two);
        assert_eq!(history(&two, "v1", "again\n"), two.replace("first", "again"));
        let more = format!("{two}\n## Licence\n\nMIT\n");
        assert_eq!(history(&more, "v1", "again\n"), more.replace("first", "again"));
        assert_eq!(history("", "v1", "x"), "## History\n\n### v1\n\nx\n");
    }
}
