//! Input: folders with what was built, and the table of what there is to build. Output: pages about
//! it: release notes, a list of all packages, coverage, checksums; and what to do so that GitHub
//! has them.
//!
//! Everything is made of what is there. Pages that have grown over several releases keep what they
//! say of files that are elsewhere now, and a second run writes the same bytes.

mod assets;
mod coverage;
mod notes;
mod packages;

pub mod github;

use std::path::Path;

pub use assets::{Asset, WheelFacts, checksums, look};
pub use coverage::coverage;
pub use notes::{history, notes};
pub use packages::{Package, Packages, Release};

use crate::error::Error;

/// Where a page of somebody else's gets the coverage.
pub const COVERAGE: [&str; 2] = ["<!-- rocwheel coverage: begin -->", "<!-- rocwheel coverage: end -->"];

/// A text with what stands between two marks replaced; `path` is what errors call it.
///
/// # Errors
/// A text that does not have both, in order and once.
pub fn between(text: &str, marks: [&str; 2], new: &str, path: &Path) -> Result<String, Error> {
    let wrong = || Error::Malformed {
        path: path.to_string_lossy().into_owned(),
        line: None,
        reason: "it does not have the two marks between which the coverage goes, each once".into(),
        hint: Some(format!("add a line `{}` and below it a line `{}`", marks[0], marks[1])),
    };
    let (before, rest) = text.split_once(marks[0]).ok_or_else(wrong)?;
    let (_, after) = rest.split_once(marks[1]).ok_or_else(wrong)?;
    if marks.iter().any(|mark| before.contains(mark) || after.contains(mark)) {
        return Err(wrong());
    }
    Ok(format!("{before}{}\n{}\n{}{after}", marks[0], new.trim(), marks[1]))
}

/// A cell of a Markdown table: nothing in it ends the cell.
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

/// Versions, newest first; what is no version comes last.
fn newest_first(one: &str, other: &str) -> std::cmp::Ordering {
    let version = |text: &str| text.parse::<pep440_rs::Version>().ok();
    version(other).cmp(&version(one)).then_with(|| other.cmp(one))
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
