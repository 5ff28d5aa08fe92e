//! A member of a package, and whether it says the version of its set and gets the new one.

use rocwheel_content::archive_path::{file_name, parent};

/// A member: the path that patterns are compared with, and the one that messages name.
#[derive(Clone, Copy)]
pub(crate) struct MemberPath<'a> {
    pub(crate) path: &'a str,
    pub(crate) shown: &'a str,
}

/// File names of members that get the new version, wherever they are.
const NAMES: [&str; 14] = [
    "METADATA",
    "PKG-INFO",
    "requires.txt",
    "__init__.py",
    "version.py",
    "_version.py",
    "_dist_info.py",
    "_contents.json",
    // How torch and apex know what they were built with.
    "_rocm_init.py",
    "git_version_info_installed.py",
    "therock_manifest.json",
    "dist_info.json",
    "rocm_version.json",
    "pyproject.toml",
];

/// `true` for a member that is known to say the version of its set.
pub(crate) fn says_version(path: &str) -> bool {
    let (name, folder) = (file_name(path), file_name(parent(path)));
    let (_, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    NAMES.contains(&name)
        || folder == ".devel_links" && extension == "json"
        || folder == ".info" && name.starts_with("version")
        // Bills of materials (PEP 770).
        || path.contains(".dist-info/sboms/")
        || name.starts_with("_device_") && extension == "py"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_known_by_name_and_folder() {
        for path in "torch-2.0.dist-info/METADATA _rocm_sdk_libraries/.devel_links/gfx942.json \
            _rocm_sdk_libraries/_device_gfx942.py _rocm_sdk_devel/.info/version-dev \
            a-1.dist-info/sboms/auditwheel.cdx.json"
            .split(' ')
        {
            assert!(says_version(path), "{path}");
        }
        for path in ["a/CHANGELOG.md", "a/links.json", "_device_x.c", "a-1.dist-info/licenses/LICENSE"] {
            assert!(!says_version(path), "{path}");
        }
    }
}
