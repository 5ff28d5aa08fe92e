//! Input: folders with built files, and the table of what can be built. Output: pages about the
//! files (release notes, a list of all packages, coverage, checksums), and the steps that publish
//! them on GitHub.
//!
//! Everything is derived from the files. Pages that have grown over several releases keep their
//! rows about files that are elsewhere now. A second run writes the same bytes.

mod assets;
mod coverage;
mod notes;
mod packages;

use std::path::Path;

pub use assets::{Asset, WheelFacts, checksums, look};
pub use coverage::coverage;
pub use notes::{FilesAt, history, notes};
pub use packages::{DownloadablePackage, Packages, Release, on_github};

use rocwheel_recipe::Error;

/// The marks in a user's page between which the coverage is inserted.
pub const COVERAGE: [&str; 2] = ["<!-- rocwheel coverage: begin -->", "<!-- rocwheel coverage: end -->"];

/// Replaces the text between two marks, which must occur once each and in order. `path` is the name
/// of the file in errors.
pub fn between(text: &str, marks: [&str; 2], new: &str, path: &Path) -> Result<String, Error> {
    let parts = text.split_once(marks[0]).and_then(|(before, rest)| Some((before, rest.split_once(marks[1])?.1)));
    let parts = parts.filter(|(before, after)| !marks.iter().any(|mark| before.contains(mark) || after.contains(mark)));
    let (before, after) = parts.ok_or_else(|| Error::Malformed {
        path: path.to_string_lossy().into_owned(),
        line: None,
        reason: "it does not have the two marks between which the coverage goes, each once".into(),
        hint: Some(format!("add a line `{}` and below it a line `{}`", marks[0], marks[1])),
    })?;
    Ok(format!("{before}{}\n{}\n{}{after}", marks[0], new.trim(), marks[1]))
}

/// A cell of a Markdown table. Characters that would end the cell are escaped.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// A row of a Markdown table.
fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(" | "))
}

/// The head of a Markdown table.
fn head(columns: &[&str]) -> String {
    let names: Vec<String> = columns.iter().map(|&name| name.to_owned()).collect();
    let rule = columns.iter().map(|_| "---").collect::<Vec<_>>().join(" | ");
    format!("{}| {rule} |\n", row(&names))
}

/// Compares versions so that the newest comes first. A text that is not a version comes last.
fn newest_first(one: &str, other: &str) -> std::cmp::Ordering {
    let [first, second] = [one, other].map(|text| text.parse::<pep440_rs::Version>().ok());
    second.cmp(&first).then_with(|| other.cmp(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_changes() {
        let page = format!("# Mine\n{}\nold\n{}\nrest\n", COVERAGE[0], COVERAGE[1]);
        let once = between(&page, COVERAGE, "new\n", Path::new("README.md")).unwrap();
        assert_eq!(once, page.replace("old", "new"));
        assert_eq!(between(&once, COVERAGE, "new\n", Path::new("README.md")).unwrap(), once);
        for wrong in ["# Mine\n".to_owned(), format!("{page}{page}"), page.replace("end", "finish")] {
            let error = between(&wrong, COVERAGE, "new", Path::new("README.md")).unwrap_err();
            assert!(error.to_string().contains("`README.md`"), "{error}");
        }
    }

    #[test]
    fn versions_are_sorted_as_versions() {
        let mut versions = ["2.9", "2.14", "any", "2.10"];
        versions.sort_by(|one, other| newest_first(one, other));
        assert_eq!(versions, ["2.14", "2.10", "2.9", "any"]);
        assert_eq!(row(&["a|b".into(), "c\nd".into()]), "| a\\|b | c d |\n");
    }
}
