//! Input: the differences between a RECORD and the files. Output: those that an expanded devel tree
//! does not explain.
//!
//! `rocm-sdk init` unpacks the tar file of `rocm-sdk-devel` into `_rocm_sdk_devel`. It adds every
//! file to RECORD, without a hash, before it creates the file, and then removes the tar file. Links
//! of the tree are also rows of the packages that they refer to. Our program lists what it created
//! in `.expanded.json`; that of ROCm's own build leaves no list.

use std::collections::BTreeSet;
use std::path::Path;

use rocwheel_wheel::read::WheelProblem;
use serde::Deserialize;

/// Prefix of the names of the tree's folder and of the package that contains it. Builds may append
/// a suffix.
const TREE: &str = "_rocm_sdk_devel";
const PACKAGE: &str = "rocm_sdk_devel";
const ARCHIVES: [&str; 2] = ["_devel.tar", "_devel.tar.xz"];
/// Files that exist only while a process writes the list or replaces a link.
const TEMPORARY: [&str; 2] = [".expanded.json.tmp", ".new_link.tmp"];
/// The kind, in the list, of a link that waits for a package that is not installed.
const WAITING: &str = "waiting";

/// The part of `.expanded.json` that determines the rows that may lack a file.
#[derive(Debug, Default, Deserialize)]
struct List {
    /// Path → text and kind of a link.
    #[serde(default)]
    links: std::collections::BTreeMap<String, (String, String)>,
    /// Files of device packages, which are removed together with their package.
    #[serde(default)]
    devices: std::collections::BTreeMap<String, String>,
}

/// The problems that no expanded tree in `folder` explains.
pub(crate) fn unexplained(folder: &Path, problems: Vec<WheelProblem>) -> Vec<WheelProblem> {
    let are_of_trees = problems.iter().any(|problem| match problem {
        WheelProblem::Missing(name) | WheelProblem::NoHash(name) => name.starts_with(TREE) || name.starts_with(PACKAGE),
        _ => false,
    });
    if !are_of_trees {
        return problems;
    }
    let mut may_be_missing: Option<BTreeSet<String>> = None;
    let unexplained = problems.into_iter().filter(|problem| match problem {
        WheelProblem::NoHash(name) => !is_in_tree(name),
        WheelProblem::Missing(name) => {
            let is_temporary = is_in_tree(name) && TEMPORARY.contains(&name.rsplit('/').next().unwrap_or_default());
            !may_be_missing.get_or_insert_with(|| without_file(folder)).contains(name) && !is_temporary
        }
        _ => true,
    });
    unexplained.collect()
}

/// `true` if a row is for a file in an expanded tree.
pub(crate) fn is_in_tree(row: &str) -> bool {
    row.starts_with(TREE) && row.contains('/')
}

/// Rows that need no file: the tar files of expanded trees, links that wait, and files that were
/// removed together with a device package.
fn without_file(folder: &Path) -> BTreeSet<String> {
    let names = names(folder);
    let trees: Vec<&String> =
        names.iter().filter(|name| name.starts_with(TREE) && folder.join(name).join("__init__.py").is_file()).collect();
    let mut rows = BTreeSet::new();
    for package in names.iter().filter(|name| name.starts_with(PACKAGE) && !trees.is_empty()) {
        rows.extend(ARCHIVES.map(|archive| format!("{package}/{archive}")));
    }
    for tree in trees {
        let text = fs_err::read(folder.join(tree).join(".expanded.json")).unwrap_or_default();
        // A damaged list explains nothing.
        let list: List = serde_json::from_slice(&text).unwrap_or_default();
        let waiting = list.links.into_iter().filter(|(_, (_, kind))| kind == WAITING).map(|(path, _)| path);
        rows.extend(waiting.chain(list.devices.into_keys()).map(|path| format!("{tree}/{path}")));
    }
    rows
}

/// The names in a folder; none if it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
