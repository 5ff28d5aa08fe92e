//! Rules of the house that no compiler keeps.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names that several crates may have: each has one error enum, and commands of one shape.
const SHARED: [&str; 4] = ["Error", "Options", "Plan", "Request"];

/// Public names that still occur more than once. A name that no longer does has to leave the list,
/// and nothing joins it.
const STILL_SHARED: &[&str] = &[
    "Action",
    "Archive",
    "Bundle",
    "Change",
    "Check",
    "Compression",
    "Conversion",
    "Copy",
    "Counts",
    "Destination",
    "Distribution",
    "Done",
    "Dropped",
    "Edit",
    "Entry",
    "Environment",
    "Estimate",
    "Existing",
    "Extra",
    "Facts",
    "Feature",
    "Finding",
    "Finished",
    "Floor",
    "Form",
    "Found",
    "Growth",
    "Kept",
    "Kind",
    "Listed",
    "Manifest",
    "Member",
    "Metadata",
    "Missing",
    "Outcome",
    "Output",
    "Owner",
    "Package",
    "Packages",
    "Part",
    "Pattern",
    "Place",
    "PlannedArchive",
    "PlannedFile",
    "Prepared",
    "Problem",
    "Provider",
    "Ready",
    "Reason",
    "Related",
    "Release",
    "Report",
    "Requirement",
    "Row",
    "Rule",
    "Run",
    "Scope",
    "Selection",
    "Set",
    "Severity",
    "Source",
    "Sources",
    "Staging",
    "Status",
    "Step",
    "Survey",
    "System",
    "Target",
    "Text",
    "Tree",
    "Unit",
    "Unmet",
    "Unreadable",
    "Unsupported",
    "Wanted",
    "WindowsFile",
    "WriteOptions",
    "Written",
];

fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> =
        fs_err::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// The name of the type that a line declares for other crates or modules.
fn public_type(line: &str) -> Option<&str> {
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
    let shared = |name: &str| places.get(name).is_some_and(|files| files.len() > 1);
    let new: Vec<_> = places
        .iter()
        .filter(|(name, files)| {
            files.len() > 1 && !SHARED.contains(&name.as_str()) && !STILL_SHARED.contains(&name.as_str())
        })
        .collect();
    assert!(new.is_empty(), "public types of the same name: {new:#?}");
    let gone: Vec<_> = STILL_SHARED.iter().filter(|name| !shared(name)).collect();
    assert!(gone.is_empty(), "no longer shared, take them off the list: {gone:?}");
}

#[test]
fn declarations_are_recognised() {
    assert_eq!(public_type("pub struct Entry<'a> {"), Some("Entry"));
    assert_eq!(public_type("pub type Members = Vec<Member>;"), Some("Members"));
    assert_eq!(public_type("pub(crate) struct Entry;"), None);
    assert_eq!(public_type("    pub struct Inner;"), None);
    assert_eq!(public_type("pub fn entry() {"), None);
}
