//! Input: files of this machine. Output: the system packages that contain them, with version and
//! licences, from dpkg's database, or from `rpm` if that is the package manager.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rayon::prelude::*;

use crate::plan::SystemPackage;

/// The largest copyright file that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// The packages of the files; a file that no package contains is omitted.
pub(crate) fn owners(files: &BTreeSet<PathBuf>) -> BTreeMap<PathBuf, SystemPackage> {
    if files.is_empty() {
        return BTreeMap::new();
    }
    let dpkg = Path::new("/var/lib/dpkg");
    if dpkg.join("info").is_dir() { debian(dpkg, files) } else { rpm(files) }
}

/// The paths that packages may list for the file: with and without `/usr`, which is the same on
/// merged systems.
fn spellings(file: &Path) -> Vec<String> {
    let text = file.to_string_lossy().into_owned();
    match text.strip_prefix("/usr") {
        Some(rest) => vec![text.clone(), rest.to_owned()],
        None => vec![text.clone(), format!("/usr{text}")],
    }
}

fn debian(dpkg: &Path, files: &BTreeSet<PathBuf>) -> BTreeMap<PathBuf, SystemPackage> {
    let wanted: BTreeMap<String, &PathBuf> =
        files.iter().flat_map(|file| spellings(file).into_iter().map(move |text| (text, file))).collect();
    let mut lists: Vec<PathBuf> = fs_err::read_dir(dpkg.join("info"))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    lists.retain(|path| path.extension().is_some_and(|extension| extension == "list"));
    lists.sort();
    let found: Vec<(&PathBuf, String)> = lists
        .par_iter()
        .flat_map_iter(|list| {
            let text = fs_err::read_to_string(list).unwrap_or_default();
            let name = list.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let hits: Vec<_> =
                text.lines().filter_map(|line| wanted.get(line).map(|file| (*file, name.clone()))).collect();
            hits
        })
        .collect();
    let names: BTreeSet<&str> = found.iter().map(|(_, name)| bare(name)).collect();
    let status = fs_err::read_to_string(dpkg.join("status")).unwrap_or_default();
    let packages = installed(&status, &names);
    found
        .iter()
        .filter_map(|(file, name)| packages.get(bare(name)).map(|package| ((*file).clone(), package.clone())))
        .collect()
}

/// The name of a package without its architecture.
fn bare(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

fn installed(status: &str, names: &BTreeSet<&str>) -> BTreeMap<String, SystemPackage> {
    let (distribution, release) = system();
    let mut packages = BTreeMap::new();
    for paragraph in status.split("\n\n") {
        let [name, version, architecture] = ["Package", "Version", "Architecture"]
            .map(|name| paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::trim));
        let (Some(name), Some(version)) = (name, version) else { continue };
        if !names.contains(name) {
            continue;
        }
        let architecture = architecture.unwrap_or("amd64");
        let copyright = PathBuf::from(format!("/usr/share/doc/{name}/copyright"));
        let text = read_copyright(&copyright);
        let purl = format!(
            "pkg:deb/{distribution}/{name}@{}?arch={architecture}&distro={distribution}-{release}",
            percent(version)
        );
        packages.insert(
            name.to_owned(),
            SystemPackage {
                name: name.to_owned(),
                version: version.to_owned(),
                purl,
                licenses: text.as_deref().map(licenses).unwrap_or_default(),
                copyright: text.is_some().then_some(copyright),
            },
        );
    }
    packages
}

pub(crate) fn read_copyright(path: &Path) -> Option<String> {
    let size = fs_err::metadata(path).ok()?.len();
    let bytes = (size <= LARGEST).then(|| fs_err::read(path).ok()).flatten()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The short names of licences in a machine-readable copyright file (Debian's DEP-5).
fn licenses(copyright: &str) -> Vec<String> {
    if !copyright.contains("copyright-format/1.0") {
        return Vec::new();
    }
    let names = copyright.lines().filter_map(|line| line.strip_prefix("License:")).map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Name and release of the system, from os-release: `debian`, `12`.
fn system() -> (String, String) {
    let text = fs_err::read_to_string("/etc/os-release").unwrap_or_default();
    let [name, release] = [("ID", "linux"), ("VERSION_ID", "unknown")].map(|(name, unknown)| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.map_or(unknown, |value| value.trim_matches(['"', '\''])).to_owned()
    });
    (name, release)
}

fn rpm(files: &BTreeSet<PathBuf>) -> BTreeMap<PathBuf, SystemPackage> {
    let (distribution, release) = system();
    let mut packages = BTreeMap::new();
    for file in files {
        let format = "%{NAME}\\t%{VERSION}-%{RELEASE}\\t%{ARCH}\\t%{LICENSE}\\n";
        let output = Command::new("rpm")
            .args(["-q", "--queryformat", format, "-f"])
            .arg(file)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let Ok(output) = output else { break };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let fields: Vec<&str> = text.lines().next().unwrap_or_default().split('\t').collect();
        if let ([name, version, architecture, license], true) = (&fields[..], output.status.success()) {
            let purl = format!(
                "pkg:rpm/{distribution}/{name}@{}?arch={architecture}&distro={distribution}-{release}",
                percent(version)
            );
            packages.insert(
                file.clone(),
                SystemPackage {
                    name: (*name).to_owned(),
                    version: (*version).to_owned(),
                    purl,
                    licenses: vec![(*license).to_owned()],
                    copyright: None,
                },
            );
        }
    }
    packages
}

/// Percent-encodes the characters that a package URL does not allow.
pub(crate) fn percent(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_found_by_its_files() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::create_dir(folder.path().join("info")).unwrap();
        fs_err::write(folder.path().join("info/libx1:amd64.list"), "/.\n/lib/x/libx.so.1.2\n").unwrap();
        fs_err::write(folder.path().join("info/other.list"), "/usr/bin/other\n").unwrap();
        let status = "Package: other\nVersion: 1\n\nPackage: libx1\nStatus: install ok installed\nArchitecture: amd64\n\
            Version: 1:2.0+dfsg-1~deb12u1\n";
        fs_err::write(folder.path().join("status"), status).unwrap();
        let file = PathBuf::from("/usr/lib/x/libx.so.1.2");
        let found = debian(folder.path(), &BTreeSet::from([file.clone(), PathBuf::from("/opt/none.so")]));
        assert_eq!(found.len(), 1);
        let package = &found[&file];
        assert_eq!((package.name.as_str(), package.version.as_str()), ("libx1", "1:2.0+dfsg-1~deb12u1"));
        assert!(package.purl.contains("/libx1@1%3A2.0%2Bdfsg-1~deb12u1?arch=amd64&distro="), "{}", package.purl);
    }

    #[test]
    fn licences_are_read_where_machines_can() {
        let text = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: Zlib\n\n\
            Files: a\nLicense: MIT\n text\n\nLicense: MIT\n text\n";
        assert_eq!(licenses(text), ["MIT", "Zlib"]);
        assert!(licenses("License: none of the format\n").is_empty());
    }
}
