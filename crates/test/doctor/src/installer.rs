//! Input: the settings of pip and uv, the libraries of conda and the disk. Output: findings about
//! what the next installation would do, or the last one did.

use std::collections::BTreeSet;
use std::path::Path;

use rocwheel_tables::TargetTable;

use crate::finding::Symptom;
use crate::installed::Installed;
use crate::target_names::is_covered;
use crate::tree::{MachineTree, ReadFault};
use crate::uv_settings;
use crate::variables::SessionVariables;

/// Variables that name an index: `UV_INDEX` may have several, as `NAME=ADDRESS`.
const VARIABLES: [&str; 8] = [
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
];
/// Bytes below which an installation of ROCm for one GPU does not fit any more.
const LITTLE: u64 = 2_000_000_000;
/// The folders in which Debian's, Fedora's and SUSE's C++ library is.
const SYSTEM: [&str; 3] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
const CXX: &str = "libstdc++.so.6.0.";

/// Addresses of indexes whose path names a GPU target or family that is not that of a GPU. `true`
/// if there is another one, which commands need not name.
pub(crate) fn check_indexes(
    tree: &MachineTree,
    variables: &SessionVariables,
    (prefix, directory): (&str, Option<&Path>),
    targets: &[String],
    symptoms: &mut Vec<Symptom>,
) -> bool {
    let mut places: Vec<(String, String, Option<String>)> = Vec::new();
    for name in VARIABLES {
        let value = variables.filled(name).unwrap_or_default();
        let command = format!("unset {name}");
        places.extend(
            value
                .split([' ', ',', '\t', '\n'])
                .filter(|address| !address.is_empty())
                .map(|address| (name.to_owned(), address.to_owned(), Some(command.clone()))),
        );
    }
    for (file, scope) in pip_files(variables, prefix) {
        for (key, address) in indexes_of(&tree.text_if_any(&file).unwrap_or_default()) {
            let command = scope.map(|scope| format!("pip config --{scope} unset {key}"));
            places.push((file.clone(), address, command));
        }
    }
    for file in uv_settings::read(tree, variables, directory) {
        match file.indexes {
            Ok(addresses) => places.extend(addresses.into_iter().map(|address| (file.path.clone(), address, None))),
            Err(words) => {
                let fault = ReadFault::Other(words);
                symptoms.push(Symptom::not_read("From which indexes uv takes packages", &file.path, &fault));
            }
        }
    }
    let mut has_index = false;
    for (place, address, command) in places {
        let family = family_of(&address);
        let covering: BTreeSet<String> = family.iter().cloned().collect();
        let (Some(family), Some(target)) = (&family, targets.iter().find(|target| !is_covered(target, &covering)))
        else {
            // A folder of files does not have everything, as an index does.
            has_index |= !address.contains("pypi.org") && address.contains("://");
            continue;
        };
        let symptom = Symptom::new("other-index").fill("family", family).fill("target", target);
        let symptom = match command {
            Some(command) => symptom.fill("command", &command),
            None => symptom.without_command(),
        };
        symptoms.push(symptom.seen(place, without_user(&address)));
    }
    has_index
}

/// The files in which pip looks for settings, each with the option of `pip config` that changes it.
fn pip_files(variables: &SessionVariables, prefix: &str) -> Vec<(String, Option<&'static str>)> {
    let home = variables.filled("HOME").unwrap_or_default();
    let settings = variables.filled("XDG_CONFIG_HOME").map_or_else(|| format!("{home}/.config"), str::to_owned);
    let mut files = vec![
        ("/etc/xdg/pip/pip.conf".to_owned(), None),
        ("/etc/pip.conf".to_owned(), Some("global")),
        // `pip config --user` changes the newer one of the two.
        (format!("{home}/.pip/pip.conf"), None),
        (format!("{settings}/pip/pip.conf"), Some("user")),
        (format!("{prefix}/pip.conf"), Some("site")),
    ];
    files.extend(variables.filled("PIP_CONFIG_FILE").map(|file| (file.to_owned(), None)));
    files
}

/// The indexes in a file of pip's: `SECTION.KEY`, and the address. Values may have several lines.
fn indexes_of(text: &str) -> Vec<(String, String)> {
    let (mut section, mut key, mut found) = (String::new(), None, Vec::new());
    let mut has_option = false;
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['#', ';'])) {
        let word = line.trim();
        let value = if has_option && line.starts_with([' ', '\t']) {
            word
        } else if let Some(name) = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            (section, key, has_option) = (name.to_owned(), None, false);
            continue;
        } else {
            let Some((name, value)) = word.split_once(['=', ':']) else { continue };
            has_option = true;
            let name = name.trim().replace('_', "-");
            key = ["index-url", "extra-index-url", "find-links"]
                .contains(&name.as_str())
                .then(|| format!("{section}.{name}"));
            value
        };
        let Some(key) = &key else { continue };
        found.extend(value.split_whitespace().map(|address| (key.clone(), address.to_owned())));
    }
    found
}

/// The GPU target or family in the path of an address: the part for `gfx94X-dcgpu` of
/// `https://HOST/v2/gfx94X-dcgpu/`.
fn family_of(address: &str) -> Option<String> {
    let (_, rest) = address.split_once("://")?;
    let table = TargetTable::embedded();
    let known = rest.split('/').skip(1).find(|part| !table.members(part).is_empty())?;
    Some(known.to_owned())
}

/// An address without the user and password in it.
fn without_user(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let host = rest.split('/').next().unwrap_or_default();
    match host.rsplit_once('@') {
        Some((user, _)) => format!("{scheme}://{}", &rest[user.len() + 1..]),
        None => address.to_owned(),
    }
}

/// A C++ library of conda that is older than that of the system: it comes first for the programs of
/// the environment.
pub(crate) fn check_conda(tree: &MachineTree, prefix: &str, symptoms: &mut Vec<Symptom>) {
    if !tree.exists(&format!("{prefix}/conda-meta")) {
        return;
    }
    let own = newest_cxx(tree, &format!("{prefix}/lib"));
    let system = SYSTEM.iter().find_map(|folder| newest_cxx(tree, folder));
    if let (Some((own, path)), Some((theirs, other))) = (own, system)
        && own < theirs
    {
        let symptom = Symptom::new("old-cxx-library").fill("file", &path).fill("other", &other);
        symptoms.push(symptom.seen(path, format!("6.0.{own}")).seen(other, format!("6.0.{theirs}")));
    }
}

/// Number and path of the newest C++ library in a folder.
fn newest_cxx(tree: &MachineTree, folder: &str) -> Option<(u32, String)> {
    let names = tree.names(folder).unwrap_or_default();
    let number = names.iter().filter_map(|name| name.strip_prefix(CXX)?.parse::<u32>().ok()).max()?;
    Some((number, format!("{folder}/{CXX}{number}")))
}

/// Free space for the packages of this machine. A copy of a machine says nothing of its disk.
pub(crate) fn check_space(tree: &MachineTree, installed: &Installed, symptoms: &mut Vec<Symptom>) {
    if tree.root().is_some() {
        return;
    }
    let folder = installed.folder.path();
    if let Ok(free) = rocwheel_system::free_space(folder)
        && free < LITTLE
    {
        symptoms.push(little_space(folder, free));
    }
}

fn little_space(folder: &Path, free: u64) -> Symptom {
    let megabytes = format!("{} MB", free / 1_000_000);
    Symptom::new("little-space").fill("free", &megabytes).seen(folder.to_string_lossy(), megabytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_found_in_addresses() {
        let family = |address: &str| family_of(address);
        assert_eq!(family("https://example.com/v2/gfx94X-dcgpu/").as_deref(), Some("gfx94X-dcgpu"));
        assert_eq!(family("https://me:secret@example.com/gfx1151/simple").as_deref(), Some("gfx1151"));
        assert_eq!(family("https://gfx942/simple"), None, "a host");
        assert_eq!(family("https://example.com/whl/rocm7.2"), None);
    }

    #[test]
    fn settings_of_pip_are_read_as_pip_does() {
        let text = "[install]\nno-index = false\nextra_index_url =\n    https://a/gfx942\n    https://b/gfx1100\n\n\
                    [global]\n# index-url = https://c\n  index-url = https://d\n";
        let found: Vec<String> =
            indexes_of(text).into_iter().map(|(key, address)| format!("{key} {address}")).collect();
        let keys = ["install.extra-index-url https://a/gfx942", "install.extra-index-url https://b/gfx1100"];
        assert_eq!(found, [keys[0], keys[1], "global.index-url https://d"]);
    }

    #[test]
    fn passwords_are_in_no_finding() {
        assert_eq!(without_user("https://me:secret@example.com/a@b"), "https://example.com/a@b");
        assert_eq!(without_user("https://example.com/a@b"), "https://example.com/a@b");
    }

    #[test]
    fn little_space_is_told_with_its_number() {
        let symptom = little_space(Path::new("/venv"), 1_500_000_000);
        assert!(symptom.meaning.contains("1500 MB"), "{}", symptom.meaning);
    }
}
