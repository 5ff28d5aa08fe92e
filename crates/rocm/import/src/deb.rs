//! Input: a Debian package. Output: its control fields, and its files one by one.
//!
//! A `.deb` is an `ar` archive of `debian-binary`, `control.tar*` and `data.tar*`. This module
//! unpacks nothing to disk and holds nothing in memory but the decompressor's window.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, BufReader, Read};
use std::path::Path;

use rocwheel_content::open_regular;
use rocwheel_content::reader::TrackedReader;
use rocwheel_progress::Failure;

use crate::error::{DOWNLOAD_AGAIN, damaged};
use crate::members::{self, Decoding, Visitor};

/// Largest control file that is read, in bytes; real ones have some kilobytes.
const MAX_CONTROL: u64 = 1 << 20;
/// Largest list of files that is read, in bytes: enough for half a million files.
const MAX_LIST: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) source: String,
    pub(crate) source_version: String,
    /// Pre-Depends and Depends: each needs one of several packages.
    pub(crate) depends: Vec<Vec<String>>,
    /// Other names of the package.
    pub(crate) provides: Vec<String>,
    /// Maintainer and homepage, separated by a space.
    pub(crate) origin: String,
    /// Bytes on disk after installation, as the package announces them; 0 if it does not.
    pub(crate) installed: u64,
}

impl Control {
    /// Reads one paragraph of a control file or of dpkg's status file; `None` if a mandatory field
    /// is missing.
    pub(crate) fn parse(paragraph: &str) -> Option<Self> {
        let mut fields: BTreeMap<String, String> = BTreeMap::new();
        let mut last = None;
        for line in paragraph.lines() {
            if line.starts_with([' ', '\t']) {
                if let Some(value) = last.as_ref().and_then(|name| fields.get_mut(name)) {
                    value.push(' ');
                    value.push_str(line.trim());
                }
            } else if let Some((name, value)) = line.split_once(':') {
                let name = name.to_ascii_lowercase();
                fields.insert(name.clone(), value.trim().to_owned());
                last = Some(name);
            }
        }
        let package = fields.remove("package").filter(|name| !name.is_empty())?;
        let version = fields.remove("version").filter(|version| !version.is_empty())?;
        // `Source: name (version)`; both default to the package's own.
        let source = fields.remove("source").unwrap_or_else(|| package.clone());
        let (source, source_version) = match source.split_once('(') {
            Some((name, version)) => (name.trim().to_owned(), version.trim_end_matches(')').trim().to_owned()),
            None => (source, version.clone()),
        };
        let [before, later, provides] =
            ["pre-depends", "depends", "provides"].map(|field| fields.get(field).map_or("", String::as_str).split(','));
        let groups = before.chain(later).map(|group| package_names(group.split('|')));
        let depends = groups.filter(|group| !group.is_empty()).collect();
        let provides = package_names(provides);
        let origin = ["maintainer", "homepage"].iter().filter_map(|field| fields.get(*field).cloned());
        let origin = origin.collect::<Vec<String>>().join(" ");
        let kibibytes = fields.get("installed-size").and_then(|size| size.parse::<u64>().ok()).unwrap_or(0);
        let installed = kibibytes.saturating_mul(1024);
        Some(Self { package, version, source, source_version, depends, provides, origin, installed })
    }
}

/// Returns the names without the versions and architectures that follow them.
fn package_names<'a>(items: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names = items.map(|item| item.trim().split([' ', '(', ':', '[']).next().unwrap_or_default().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// The leading numbers of the upstream part of a Debian version: `1:5.3.0+dfsg-2` → `5.3.0`.
pub(crate) fn upstream(version: &str) -> String {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    let numbers: String = version.chars().take_while(|letter| letter.is_ascii_digit() || *letter == '.').collect();
    numbers.trim_matches('.').to_owned()
}

pub(crate) struct ControlArchive {
    pub(crate) control: Control,
    /// Path in the package → MD5 digest in hexadecimal, of all files as the package lists them.
    /// Empty if it has no list.
    pub(crate) digests: BTreeMap<String, String>,
    /// SONAMEs of its libraries, as other packages may rely on them.
    pub(crate) sonames: Vec<String>,
}

pub(crate) fn control(path: &Path) -> Result<ControlArchive, Failure> {
    let mut texts = BTreeMap::new();
    each_member(path, "control.tar", |name, stream| {
        struct Find<'a>(&'a mut BTreeMap<String, String>);
        impl Visitor for Find<'_> {
            fn file(&mut self, path: &str, _: u64, _: bool, content: &mut dyn Read) -> Result<(), Failure> {
                let limit = match path {
                    "control" => MAX_CONTROL,
                    "md5sums" | "shlibs" => MAX_LIST,
                    _ => return Ok(()),
                };
                let mut bytes = Vec::new();
                content.take(limit).read_to_end(&mut bytes)?;
                self.0.insert(path.to_owned(), String::from_utf8_lossy(&bytes).into_owned());
                Ok(())
            }
        }
        let decoding = Decoding { archive: path, member: name, threads: 1 };
        members::walk(&decoding, stream, &mut Find(&mut texts))
    })?;
    let text = texts.get("control").ok_or_else(|| bad(path, "its control archive has no file `control`"))?;
    let control = Control::parse(text).ok_or_else(|| bad(path, "its control file has no Package and Version"))?;
    let [digests, sonames] = ["md5sums", "shlibs"].map(|name| texts.get(name).map_or("", String::as_str).lines());
    let digests = digests.filter_map(|line| {
        let (digest, path) = line.split_once("  ")?;
        Some((path.trim_start_matches("./").to_owned(), digest.to_owned()))
    });
    // `libamdhip64 7 libamdhip64-7 (>= 7.2.4)`, with the kind of package before it where it is not
    // `deb`; a SONAME such as `libLLVM-15.so.1` may be split in another place.
    let sonames = sonames.filter_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| word.ends_with(':'));
        Some(format!("{}.so.{}", words.next()?, words.next()?))
    });
    Ok(ControlArchive { control, digests: digests.collect(), sonames: sonames.collect() })
}

/// Passes every file and link of the package at `path` to `visitor`. Uses up to `threads` threads
/// to decompress archives that are divided into blocks.
pub(crate) fn data(path: &Path, threads: u32, visitor: &mut dyn Visitor) -> Result<(), Failure> {
    each_member(path, "data.tar", |name, stream| {
        members::walk(&Decoding { archive: path, member: name, threads }, stream, visitor)
    })
}

/// Calls `found` with the archive member whose name begins with `wanted`.
fn each_member(
    path: &Path,
    wanted: &str,
    found: impl FnOnce(&str, &mut dyn Read) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let file = open_regular(path)?;
    let length = file.metadata()?.len();
    let mut archive = ar::Archive::new(BufReader::with_capacity(1 << 16, file));
    let mut first = true;
    let mut position = 8;
    while let Some(entry) = archive.next_entry() {
        let mut entry = entry.map_err(|error| bad(path, format!("it is no Debian package ({error})")))?;
        let name = String::from_utf8_lossy(entry.header().identifier()).trim_end_matches('/').to_owned();
        if first && name != "debian-binary" {
            return Err(bad(path, format!("it begins with `{name}`, not with `debian-binary`")));
        }
        let size = entry.header().size();
        position += 60 + size.next_multiple_of(2);
        if position > length.next_multiple_of(2) {
            return Err(bad(path, format!("it is cut off within `{name}`")));
        }
        if first {
            check_format(path, &mut entry)?;
            first = false;
        }
        if name == wanted || name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('.')) {
            let mut counted = TrackedReader::new(entry);
            found(&name, &mut counted)?;
            // The tar archive may end before the member does, but if the package ends before its
            // member, it is cut off.
            let rest = io::copy(&mut counted, &mut io::sink());
            rest.map_err(|error| damaged(path, wanted, error))?;
            if counted.count < size {
                return Err(bad(path, format!("it is cut off within `{name}`")));
            }
            return Ok(());
        }
    }
    Err(bad(path, format!("it has no `{wanted}`")))
}

/// Refuses a package whose `debian-binary` names another version of the format than 2.x.
fn check_format(path: &Path, content: &mut dyn Read) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    content.take(64).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let version = text.lines().next().unwrap_or_default();
    match version.split_once('.') {
        Some(("2", _)) => Ok(()),
        Some((major, minor)) if [major, minor].iter().all(|number| number.parse::<u32>().is_ok()) => {
            let path = path.display();
            let text = format!("the package `{path}` has the format {version}; only 2.x is supported");
            Err(Failure::message(text)
                .with_hint("unpack it with a dpkg-deb that knows the format, and pack it again in format 2.0"))
        }
        _ => Err(bad(path, "its `debian-binary` names no version")),
    }
}

fn bad(package: &Path, reason: impl Display) -> Failure {
    Failure::message(format!("could not read the package `{}`: {reason}", package.display())).with_hint(DOWNLOAD_AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_fields() {
        let text = "Package: libz3-4\nSource: z3 (4.8.12-3)\nVersion: 4.8.12-3.1\nPre-Depends: a\n\
                    Depends: libc6 (>= 2.34), b:any | c,\n d [amd64]\nDescription: x\n y: z\n";
        let control = Control::parse(text).unwrap();
        assert_eq!((control.source.as_str(), control.source_version.as_str()), ("z3", "4.8.12-3"));
        assert_eq!(control.depends, [vec!["a"], vec!["libc6"], vec!["b", "c"], vec!["d"]]);
        let control = Control::parse("Package: x\nVersion: 1\n").unwrap();
        assert_eq!((control.source.as_str(), control.source_version.as_str()), ("x", "1"));
        assert_eq!(Control::parse("Package: x\n"), None);
    }

    #[test]
    fn upstream_versions() {
        for (version, upstream_version) in [
            ("5.2.3-8", "5.2.3"),
            ("5.3.0+dfsg-2", "5.3.0"),
            ("1:15.0.6-4+b1", "15.0.6"),
            ("6.0+git20231212.4510c28+dfsg-3+b2", "6.0"),
            ("6.2.0.60200-66~22.04", "6.2.0.60200"),
        ] {
            assert_eq!(upstream(version), upstream_version);
        }
    }
}
