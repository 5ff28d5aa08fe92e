//! Input: the previous page of all packages, and the files of a release. Output: the page with the
//! files added. No file is ever removed from it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::assets::{Asset, WheelFacts};
use super::{head, newest_first, row};
use rocwheel_progress::Failure;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub tag: String,
    /// Prefix of the addresses of its files, with a final `/`; empty: the files are beside the
    /// page.
    pub base: String,
}

/// A file on the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadablePackage {
    pub name: String,
    pub facts: WheelFacts,
    /// Its size with a unit.
    pub size: String,
    /// Lower-case hexadecimal SHA-256.
    pub sha256: String,
    /// Release and address of each download, the newest release first.
    pub downloads: Vec<(String, String)>,
}

/// All files of the page, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packages {
    files: BTreeMap<String, DownloadablePackage>,
}

const COLUMNS: [&str; 8] = ["Python", "PyTorch", "ROCm", "GPU targets", "File", "Size", "SHA-256", "Download"];
const TITLE: &str =
    "# Packages\n\nWritten by `rocwheel release pages`, which reads the tables again: files of older releases stay.\n";

static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[([^\]]*)\]\(([^)\s]*)\)").expect("it is constant"));

impl Packages {
    /// Reads an earlier version of the page; `path` is its name in errors. `rocm` lists the
    /// versions that digits without a dot can mean.
    ///
    /// # Errors
    /// A row does not have this format and would be lost.
    pub fn parse(text: &str, path: &Path, rocm: &[String]) -> Result<Packages, Failure> {
        let mut files = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let Some(inner) = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|')) else { continue };
            let cells: Vec<String> = inner.split(" | ").map(|cell| cell.trim().replace("\\|", "|")).collect();
            let is_rule = cells.iter().all(|cell| !cell.is_empty() && cell.bytes().all(|byte| byte == b'-'));
            if is_rule || cells.iter().map(String::as_str).eq(COLUMNS) {
                continue;
            }
            let package = read(&cells, rocm).ok_or_else(|| rocwheel_recipe::Error::Malformed {
                path: path.to_string_lossy().into_owned(),
                line: Some(at + 1),
                reason: "it is no row of the table of packages".into(),
                hint: Some(
                    "the contents of that row would be lost: correct it, or move the page away and start a new one"
                        .into(),
                ),
            })?;
            files.insert(package.name.clone(), package);
        }
        Ok(Packages { files })
    }

    /// Adds the files of a release.
    /// A file that the page has with another SHA-256 is an error.
    pub fn add(&mut self, assets: &[Asset], release: &Release) -> Result<(), Failure> {
        for asset in assets {
            let Some(facts) = &asset.facts else { continue };
            let link = (release.tag.clone(), format!("{}{}", release.base, encoded(&asset.name)));
            let package = self.files.entry(asset.name.clone()).or_insert_with(|| DownloadablePackage {
                name: asset.name.clone(),
                facts: facts.clone(),
                size: size(asset.size),
                sha256: asset.sha256.clone(),
                downloads: Vec::new(),
            });
            if package.sha256 != asset.sha256 {
                return Err(rocwheel_recipe::Error::request_with(
                    format!("`{}` was released with another content: its SHA-256 was {}", asset.name, package.sha256),
                    "a file of a name never changes: build it with another version or build number",
                )
                .into());
            }
            // The provenance may be available now and not before, or the other way round.
            let before = std::mem::replace(&mut package.facts, facts.clone());
            if package.facts.torch.is_empty() {
                package.facts.torch = before.torch;
            }
            if package.facts.rocm.is_empty() {
                package.facts.rocm = before.rocm;
            }
            if package.facts.targets.is_empty() {
                package.facts.targets = before.targets;
            }
            match package.downloads.iter_mut().find(|(tag, _)| *tag == release.tag) {
                Some(known) => known.1 = link.1,
                None => package.downloads.insert(0, link),
            }
        }
        Ok(())
    }

    pub fn names(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    pub fn text(&self) -> String {
        let mut groups: BTreeMap<(&str, &str), BTreeMap<&str, Vec<&DownloadablePackage>>> = BTreeMap::new();
        for package in self.files.values() {
            let facts = &package.facts;
            let group = groups.entry((&facts.platform, &facts.package)).or_default();
            group.entry(&facts.version).or_default().push(package);
        }
        let mut text = TITLE.to_owned();
        let mut platforms: Vec<&str> = groups.keys().map(|(platform, _)| *platform).collect();
        platforms.dedup();
        if !platforms.is_empty() {
            text.push('\n');
        }
        for platform in &platforms {
            text.push_str(&format!("* [{platform}](#{})\n", platform.to_lowercase().replace(' ', "-")));
        }
        let mut platform = "";
        for ((of, package), versions) in groups {
            if of != platform {
                text.push_str(&format!("\n## {of}\n"));
                platform = of;
            }
            let mut numbers: Vec<&str> = versions.keys().copied().collect();
            numbers.sort_by(|one, other| newest_first(one, other));
            for number in numbers {
                let mut rows = versions[number].clone();
                rows.sort_by(|one, other| {
                    newest_first(&one.facts.torch, &other.facts.torch)
                        .then_with(|| newest_first(&one.facts.rocm, &other.facts.rocm))
                        .then_with(|| rocwheel_recipe::compare_python_versions(&one.facts.python, &other.facts.python))
                        .then_with(|| one.name.cmp(&other.name))
                });
                text.push_str(&format!("\n<details>\n<summary>{package} {number} ({})</summary>\n\n", rows.len()));
                text.push_str(&head(&COLUMNS));
                for package in rows {
                    text.push_str(&package.row());
                }
                text.push_str("\n</details>\n");
            }
        }
        text
    }
}

impl DownloadablePackage {
    fn row(&self) -> String {
        let facts = &self.facts;
        let [python, torch, rocm, targets] = [&facts.python, &facts.torch, &facts.rocm, &facts.targets.join(", ")]
            .map(|text| if text.is_empty() { "–".to_owned() } else { text.clone() });
        let links: Vec<String> = self.downloads.iter().map(|(tag, url)| format!("[{tag}]({url})")).collect();
        row(&[
            python,
            torch,
            rocm,
            targets,
            format!("`{}`", self.name),
            self.size.clone(),
            format!("`{}`", self.sha256),
            links.join(", "),
        ])
    }
}

/// Reads a row. Facts in the file name are read from it, facts from the provenance from the cells.
fn read(cells: &[String], rocm: &[String]) -> Option<DownloadablePackage> {
    let [_, torch, for_rocm, targets, name, size, sha256, links] = cells else { return None };
    let name = name.strip_prefix('`')?.strip_suffix('`')?.to_owned();
    let sha256 = sha256.strip_prefix('`')?.strip_suffix('`')?.to_owned();
    let mut facts = WheelFacts::of(&name.parse().ok()?, None, rocm);
    let [torch, for_rocm, targets] = [torch, for_rocm, targets].map(|cell| if cell == "–" { "" } else { cell });
    (facts.torch, facts.rocm) = (torch.to_owned(), for_rocm.to_owned());
    facts.targets = targets.split(", ").filter(|target| !target.is_empty()).map(str::to_owned).collect();
    let downloads = LINK.captures_iter(links).map(|found| (found[1].to_owned(), found[2].to_owned())).collect();
    Some(DownloadablePackage { name, facts, size: size.clone(), sha256, downloads })
}

/// The address of the folder of a release's files on GitHub. `repository` is OWNER/NAME.
pub fn on_github(repository: &str, tag: &str) -> String {
    format!("https://github.com/{repository}/releases/download/{}/", encoded(tag))
}

/// A file name as part of an address, percent-encoded: `+` would be read as a space.
pub(super) fn encoded(name: &str) -> String {
    let encoded = name.bytes().map(|byte| match byte {
        b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    encoded.collect()
}

/// A size with a decimal unit.
#[allow(clippy::cast_precision_loss, reason = "it is shown with one digit")]
pub(super) fn size(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "kB", "MB"] {
        if size < 999.95 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{size:.1} {unit}") };
        }
        size /= 1000.0;
    }
    format!("{size:.1} GB")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn asset(name: &str, sha256: &str) -> Asset {
        let facts = WheelFacts::of(&name.parse().unwrap(), None, &[]);
        Asset {
            path: PathBuf::from(name),
            name: name.into(),
            size: 1_234_567,
            sha256: sha256.into(),
            facts: Some(WheelFacts { targets: vec!["gfx90a".into(), "gfx942".into()], ..facts }),
            provenance: None,
        }
    }

    #[test]
    fn what_is_on_the_page_stays_and_each_release_is_there_once() {
        let names = [
            "x-1.9+rocm7.2torch2.9-cp312-cp312-linux_x86_64.whl",
            "x-1.10+rocm7.2torch2.9-cp312-cp312-linux_x86_64.whl",
            "x-1.10+rocm7.2torch2.14-cp39-cp39-linux_x86_64.whl",
        ];
        let (path, none) = (Path::new("packages.md"), Vec::new());
        let first = Release { tag: "v1".into(), base: "https://example.org/v1/".into() };
        let mut page = Packages::default();
        page.add(&[asset(names[0], "aa"), asset(names[1], "bb")], &first).unwrap();
        let text = page.text();
        let mut again = Packages::parse(&text, path, &none).unwrap();
        assert_eq!(again, page);
        again.add(&[asset(names[0], "aa")], &first).unwrap();
        assert_eq!(again.text(), text);
        // Facts from the provenance stay, even if it is no longer beside the wheel.
        let mut alone = asset(names[0], "aa");
        alone.facts.as_mut().unwrap().targets.clear();
        again.add(&[alone], &first).unwrap();
        assert_eq!(again.text(), text);
        // The first file is no longer in the folder, and the second is in the next release too.
        let second = Release { tag: "v2".into(), base: "https://example.org/v2/".into() };
        again.add(&[asset(names[1], "bb"), asset(names[2], "cc")], &second).unwrap();
        let text = again.text();
        assert_eq!(again.names().len(), 3);
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words} is not in {text}"));
        assert!(at("x 1.10 (2)") < at("x 1.9 (1)") && at("torch2.14") < at("1.10+rocm7.2torch2.9"), "{text}");
        at(
            "[v2](https://example.org/v2/x-1.10%2Brocm7.2torch2.9-cp312-cp312-linux_x86_64.whl), [v1](https://example.org/v1/",
        );
        at("| 3.12 | 2.9 | 7.2 | gfx90a, gfx942 | `x-1.9+rocm7.2");
        assert_eq!(Packages::parse(&text, path, &none).unwrap().text(), text);
        let error = again.add(&[asset(names[0], "dd")], &second).unwrap_err();
        assert!(error.to_string().contains("released with another content"), "{error}");
        let broken = text.replace("| gfx90a, gfx942 ", "");
        assert!(Packages::parse(&broken, path, &none).unwrap_err().to_string().contains("`packages.md`, line"));
    }

    #[test]
    fn sizes_have_one_digit() {
        let sizes = [999, 1000, 999_950, 1_500_000_000].map(size);
        assert_eq!(sizes, ["999 B", "1.0 kB", "1.0 MB", "1.5 GB"]);
    }
}
