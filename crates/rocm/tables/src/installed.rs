//! Input: the folder of an installed ROCm, or of flattened artifacts. Output: its version.

use std::path::Path;

use serde::Deserialize;

/// The parts of `share/therock/therock_manifest.json` that have a version.
#[derive(Deserialize)]
struct Manifest {
    rocm_version: Option<String>,
    rocm_package_version: Option<String>,
}

/// The version of a ROCm without the number of its build (`7.2.4` for `7.2.4-93`). It is in
/// `.info/version`, in older builds in `share/therock/version.txt`, and otherwise in TheRock's
/// manifest; `None` if all of them are missing or do not start with a digit.
pub fn installed_version(prefix: &Path) -> Option<String> {
    let mut files = [".info/version", "share/therock/version.txt"].into_iter();
    files.find_map(|file| version_in(&fs_err::read_to_string(prefix.join(file)).ok()?)).or_else(|| {
        let text = fs_err::read(prefix.join("share/therock/therock_manifest.json")).ok()?;
        let manifest: Manifest = serde_json::from_slice(&text).ok()?;
        [manifest.rocm_version, manifest.rocm_package_version].into_iter().flatten().find_map(|text| version_in(&text))
    })
}

fn version_in(text: &str) -> Option<String> {
    let version = text.trim().split('-').next().unwrap_or_default();
    version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_in_one_of_three_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = folder.path().join(file);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        };
        let version = || installed_version(folder.path());
        assert_eq!(version(), None);
        let manifest = "share/therock/therock_manifest.json";
        for (file, text, expected) in [
            (manifest, "{", None),
            (manifest, "{}", None),
            (manifest, r#"{"rocm_package_version": "5.2.3.dev0"}"#, Some("5.2.3.dev0")),
            (manifest, r#"{"rocm_version": "5.2.3", "rocm_package_version": "5.2.3.dev0"}"#, Some("5.2.3")),
            ("share/therock/version.txt", "7.0.0\n", Some("7.0.0")),
            (".info/version", "unknown", Some("7.0.0")),
            (".info/version", "7.2.4-93\n", Some("7.2.4")),
        ] {
            write(file, text);
            assert_eq!(version().as_deref(), expected, "{file}: {text}");
        }
    }
}
