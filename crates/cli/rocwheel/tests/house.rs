//! Rules of the project that no compiler checks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Names that several crates may have: each crate has one error enum, each command arguments and
/// settings.
const SHARED: [&str; 6] = ["Arguments", "Error", "Options", "Plan", "Request", "Settings"];

/// The shelves of `crates/`, in the order of the data.
const SHELVES: [&str; 9] = ["base", "formats", "rocm", "check", "ship", "build", "publish", "test", "cli"];

fn crates() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a folder of the repository")
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs_err::read_dir(folder).expect("a folder of the repository");
    entries.map(|entry| entry.expect("a folder of the repository").path())
}

/// The folder of each crate, as `shelf/crate`.
fn crate_folders() -> BTreeSet<String> {
    let folders = entries(crates()).flat_map(|shelf| entries(&shelf).collect::<Vec<_>>());
    let relative = folders.map(|folder| folder.strip_prefix(crates()).expect("it is below").to_owned());
    relative.map(|folder| folder.to_string_lossy().replace('\\', "/")).collect()
}

fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = crate_folders().iter().map(|name| crates().join(name).join("src")).collect();
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The name of the type that a line declares for other crates or modules: as `pub struct`, or in
/// `named!` of the crate recipe as `    Name, "what it is" {`.
fn public_type(line: &str) -> Option<&str> {
    if let Some((name, text)) = line.strip_prefix("    ").and_then(|line| line.split_once(", \"")) {
        let is_name = name.chars().all(char::is_alphanumeric) && name.starts_with(char::is_uppercase);
        return (is_name && text.ends_with("\" {")).then_some(name);
    }
    let declaration = line.strip_prefix("pub ")?;
    let (kind, rest) = declaration.split_once(' ')?;
    let is_type = matches!(kind, "struct" | "enum" | "trait" | "type" | "union");
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    is_type.then_some(&rest[..end])
}

#[test]
fn a_public_type_has_its_name_alone() {
    let mut places: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in sources() {
        let text = fs_err::read_to_string(&file).unwrap();
        for name in text.lines().filter_map(public_type) {
            places.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    assert!(places.len() > 400, "only {} public types were found", places.len());
    let several: Vec<_> =
        places.iter().filter(|(name, files)| files.len() > 1 && !SHARED.contains(&name.as_str())).collect();
    assert!(several.is_empty(), "public types of the same name: {several:#?}");
}

#[test]
fn declarations_are_recognised() {
    assert_eq!(public_type("pub struct Entry<'a> {"), Some("Entry"));
    assert_eq!(public_type("pub type Members = Vec<Member>;"), Some("Members"));
    assert_eq!(public_type("pub(crate) struct Entry;"), None);
    assert_eq!(public_type("    pub struct Inner;"), None);
    assert_eq!(public_type("pub fn entry() {"), None);
    assert_eq!(public_type("    Switch, \"switch\" {"), Some("Switch"));
    assert_eq!(public_type("    Error, \"text\");"), None);
}

/// A row of the table of crates in docs/architecture.md.
struct CrateRow {
    /// As `shelf/crate`.
    folder: String,
    name: String,
    knows_rocm: bool,
    uses: BTreeSet<String>,
}

/// The place of a crate's shelf among the shelves.
fn shelf(row: &CrateRow) -> usize {
    let name = row.folder.split('/').next().expect("a name");
    SHELVES.iter().position(|shelf| *shelf == name).unwrap_or_else(|| panic!("`{name}` is no shelf"))
}

fn table_of_crates() -> Vec<CrateRow> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/architecture.md");
    let text = fs_err::read_to_string(page).expect("the page of the architecture");
    let rows = text.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
            let folder = names(cells[0])[0].clone();
            CrateRow {
                name: folder.split('/').next_back().expect("a name").to_owned(),
                folder,
                knows_rocm: cells[2] == "yes",
                uses: names(cells[3]).into_iter().collect(),
            }
        })
        .collect()
}

/// The crates of the workspace that a crate depends on, without those of its tests, which may use
/// any crate.
fn dependencies(folder: &Path) -> BTreeSet<String> {
    let manifest: toml::Table =
        fs_err::read_to_string(folder.join("Cargo.toml")).expect("a manifest").parse().expect("TOML");
    let names = manifest.get("dependencies").and_then(|table| table.as_table()).into_iter().flat_map(toml::Table::keys);
    names.filter_map(|name| name.strip_prefix("rocwheel-")).map(str::to_owned).collect()
}

#[test]
fn arrows_between_crates_are_those_of_the_architecture() {
    let table = table_of_crates();
    assert!(table.iter().map(shelf).is_sorted(), "the table has the shelves in their order");
    let named: Vec<&str> = table.iter().map(|row| row.name.as_str()).collect();
    for (index, row) in table.iter().enumerate() {
        assert_eq!(dependencies(&crates().join(&row.folder)), row.uses, "what `{}` uses", row.name);
        for used in &row.uses {
            let place = named.iter().position(|name| name == used);
            assert!(place.is_some_and(|place| place < index), "`{used}` has to stand above `{}`", row.name);
            let rocm = place.is_some_and(|place| table[place].knows_rocm);
            // The rows of the program have `–`: it may know everything.
            let may = row.knows_rocm || row.folder.starts_with("cli/");
            assert!(may || !rocm, "`{}`, which does not know ROCm, uses `{used}`", row.name);
        }
    }
    assert_eq!(table.into_iter().map(|row| row.folder).collect::<BTreeSet<_>>(), crate_folders());
}

#[test]
fn one_crate_speaks_with_the_system() {
    let system = Path::new("base").join("system");
    let is_elsewhere = |file: &&PathBuf| !file.to_string_lossy().contains(&*system.to_string_lossy());
    let words = "os::unix os::fd os::windows rustix:: libc:: windows_sys:: winapi_util:: cfg(unix \
                 cfg(windows cfg(not(unix cfg(not(windows cfg(not(target_os cfg(target_os"
        .split(' ');
    let mut files = 0;
    for file in sources().iter().filter(is_elsewhere) {
        files += 1;
        for (number, line) in fs_err::read_to_string(file).unwrap().lines().enumerate() {
            let word = words.clone().find(|word| line.contains(word));
            assert_eq!(word, None, "{}:{}: use rocwheel_system", file.display(), number + 1);
        }
    }
    assert!(files > 300, "only {files} files were found");
    for folder in crate_folders() {
        let manifest = fs_err::read_to_string(crates().join(&folder).join("Cargo.toml")).expect("a manifest");
        let before_tests = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        let is_for_system =
            |line: &str| ["libc", "rustix", "windows-sys", "winapi-util"].iter().any(|name| line.starts_with(name));
        let may = folder == "base/system" || !before_tests.lines().any(is_for_system);
        assert!(may, "{folder}: libc, rustix, windows-sys and winapi-util are for rocwheel-system");
    }
}
