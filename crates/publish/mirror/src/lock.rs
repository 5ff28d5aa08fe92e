//! Input: a lock file of PEP 751, as uv writes it. Output: the files that it names.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LockedFile {
    /// Canonical name of the project.
    pub project: String,
    pub version: String,
    /// Where it is: an address, or a path of this machine.
    pub address: String,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

#[derive(Deserialize)]
struct LockDocument {
    #[serde(default)]
    packages: Vec<LockPackage>,
}

#[derive(Deserialize)]
struct LockPackage {
    name: String,
    #[serde(default)]
    version: String,
    sdist: Option<LockFile>,
    #[serde(default)]
    wheels: Vec<LockFile>,
}

#[derive(Deserialize)]
struct LockFile {
    name: Option<String>,
    url: Option<String>,
    path: Option<String>,
    #[serde(default)]
    hashes: LockHashes,
}

#[derive(Deserialize, Default)]
struct LockHashes {
    sha256: Option<String>,
}

/// The files of a lock by name: of each package its wheels, and its source distribution if it has
/// no wheels.
///
/// # Errors
/// The problem of the lock, in words.
pub(crate) fn files(text: &str) -> Result<Vec<(String, LockedFile)>, String> {
    let document: LockDocument = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let mut files = Vec::new();
    for package in document.packages {
        let chosen = if package.wheels.is_empty() { package.sdist.into_iter().collect() } else { package.wheels };
        if chosen.is_empty() {
            return Err(format!("`{}` has no file", package.name));
        }
        for file in chosen {
            let address = file.url.or(file.path).ok_or_else(|| format!("`{}` has no address", package.name))?;
            let last = address.rsplit('/').next().unwrap_or_default();
            let last = percent_encoding::percent_decode_str(last).decode_utf8_lossy().into_owned();
            let name = file.name.unwrap_or(last);
            if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
                return Err(format!("`{name}` is no name of a file"));
            }
            let sha256 = file.hashes.sha256.ok_or_else(|| format!("the index has no SHA-256 of `{name}`"))?;
            let (project, version) = (package.name.clone(), package.version.clone());
            files.push((name, LockedFile { project, version, address, sha256: sha256.to_ascii_lowercase() }));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_come_before_source_distributions() {
        let text = r#"
            lock-version = "1.0"
            [[packages]]
            name = "a"
            version = "1.0"
            sdist = { url = "https://x/a-1.0.tar.gz", hashes = { sha256 = "00" } }
            wheels = [{ url = "https://x/a-1.0%2Brocm-py3-none-any.whl", hashes = { sha256 = "AB" } }]
            [[packages]]
            name = "b"
            version = "2"
            sdist = { name = "b-2.tar.gz", path = "../b", hashes = { sha256 = "01" } }
        "#;
        let files = files(text).unwrap();
        assert_eq!(files[0].0, "a-1.0+rocm-py3-none-any.whl");
        assert_eq!(files[0].1.sha256, "ab");
        assert_eq!((files[1].0.as_str(), files[1].1.address.as_str()), ("b-2.tar.gz", "../b"));
        let wrong = |text: &str| super::files(text).unwrap_err();
        assert!(wrong("[[packages]]\nname = \"a\"\n").contains("no file"));
        assert!(wrong("[[packages]]\nname = \"a\"\nsdist = { url = \"x/a.zip\" }\n").contains("no SHA-256"));
    }
}
