//! Input: a lock file of PEP 751, as uv writes it. Output: the packages and files that it names.

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedPackage {
    /// Canonical name of the project.
    pub name: String,
    pub version: String,
    /// Its wheels, and its source distribution if it has no wheels.
    pub files: Vec<LockedPackageFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedPackageFile {
    pub name: String,
    /// Where it is: an address, or a path of this machine.
    pub address: String,
    /// SHA-256 in lower-case hexadecimal; `None` if the index has none.
    pub sha256: Option<String>,
    /// Size in bytes.
    pub size: Option<u64>,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    #[serde(default)]
    version: String,
    sdist: Option<File>,
    #[serde(default)]
    wheels: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    name: Option<String>,
    url: Option<String>,
    path: Option<String>,
    size: Option<u64>,
    #[serde(default)]
    hashes: Hashes,
}

#[derive(Deserialize, Default)]
struct Hashes {
    sha256: Option<String>,
}

/// The packages of a lock.
///
/// # Errors
/// The problem of the lock, in words.
pub fn parse_lock(text: &str) -> Result<Vec<LockedPackage>, String> {
    let document: Document = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    document.packages.into_iter().map(package).collect()
}

fn package(Package { name, version, sdist, wheels }: Package) -> Result<LockedPackage, String> {
    let chosen = if wheels.is_empty() { sdist.into_iter().collect() } else { wheels };
    if chosen.is_empty() {
        return Err(format!("`{name}` has no file"));
    }
    let files = chosen.into_iter().map(|file| locked(&name, file)).collect::<Result<_, _>>()?;
    Ok(LockedPackage { name, version, files })
}

fn locked(project: &str, file: File) -> Result<LockedPackageFile, String> {
    let address = file.url.or(file.path).ok_or_else(|| format!("`{project}` has no address"))?;
    let name = file.name.unwrap_or_else(|| last_part(&address));
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0']) {
        return Err(format!("`{name}` is no name of a file"));
    }
    let sha256 = file.hashes.sha256.map(|hash| hash.to_ascii_lowercase());
    Ok(LockedPackageFile { name, address, sha256, size: file.size })
}

/// The name of the file at an address.
pub(crate) fn last_part(address: &str) -> String {
    let last = address.split(['?', '#']).next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    percent_encoding::percent_decode_str(last).decode_utf8_lossy().into_owned()
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
            wheels = [{ url = "https://x/a-1.0%2Brocm-py3-none-any.whl", size = 7, hashes = { sha256 = "AB" } }]
            [[packages]]
            name = "b"
            version = "2"
            sdist = { name = "b-2.tar.gz", path = "../b", hashes = {} }
        "#;
        let packages = parse_lock(text).unwrap();
        let (a, b) = (&packages[0].files[0], &packages[1].files[0]);
        assert_eq!(
            (a.name.as_str(), a.sha256.as_deref(), a.size),
            ("a-1.0+rocm-py3-none-any.whl", Some("ab"), Some(7))
        );
        assert_eq!((b.name.as_str(), b.address.as_str(), b.sha256.as_deref()), ("b-2.tar.gz", "../b", None));
        assert!(parse_lock("[[packages]]\nname = \"a\"\n").unwrap_err().contains("no file"));
        assert!(
            parse_lock("[[packages]]\nname = \"a\"\nsdist = { url = \"x/..\" }\n").unwrap_err().contains("no name")
        );
    }
}
