//! Input: a matrix. Output: the share of buildable cells that exist, as one table of all frameworks
//! and a grid for each.

use std::collections::BTreeSet;

use super::{head, newest_first, row};
use crate::matrix::{CellStatus, Matrix, MatrixRow};

/// Name, version and backend of a framework.
type Group<'a> = (&'a str, &'a str, &'a str);

/// The tables of a matrix in Markdown. Columns without buildable cells are skipped.
pub fn coverage(matrix: &Matrix) -> String {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in &matrix.rows {
        let group = of(row);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups.retain(|group| rows(matrix, group).any(|row| row.status != CellStatus::Excluded));
    let mut text = head(&["Framework", "Version", "Backend", "There", "Possible", "Coverage"]);
    let mut grids = String::new();
    for group in &groups {
        let there = rows(matrix, group).filter(|row| row.status == CellStatus::Exists).count();
        let possible = rows(matrix, group).filter(|row| row.status != CellStatus::Excluded).count();
        let (name, version, backend) = group;
        text.push_str(&self::row(&[
            (*name).to_owned(),
            (*version).to_owned(),
            (*backend).to_owned(),
            there.to_string(),
            possible.to_string(),
            percent(there, possible),
        ]));
        // For a framework without any files, an empty grid adds nothing.
        if there > 0 {
            grids.push_str(&grid(matrix, group));
        }
    }
    let [exists, missing, _] = matrix.counts();
    text.push_str(&row(&[
        "all".into(),
        String::new(),
        String::new(),
        exists.to_string(),
        (exists + missing).to_string(),
        percent(exists, exists + missing),
    ]));
    text + &grids
}

fn of(row: &MatrixRow) -> Group<'_> {
    (&row.point.recipe, &row.point.version, &row.point.backend)
}

fn rows<'a>(matrix: &'a Matrix, group: &'a Group<'_>) -> impl Iterator<Item = &'a MatrixRow> {
    matrix.rows.iter().filter(move |row| of(row) == *group)
}

/// Percentage, rounded down so that 100 % means all.
fn percent(there: usize, possible: usize) -> String {
    (there * 100).checked_div(possible).map_or_else(|| "–".to_owned(), |percent| format!("{percent} %"))
}

/// A grid with a row for each Python and a column for each torch and ROCm.
fn grid(matrix: &Matrix, group: &Group<'_>) -> String {
    let column = |row: &MatrixRow| (row.point.torch.clone().unwrap_or_default(), row.point.rocm.clone());
    let live = rows(matrix, group).filter(|row| row.status != CellStatus::Excluded);
    let mut columns: Vec<(String, String)> = live.map(column).collect::<BTreeSet<_>>().into_iter().collect();
    columns.sort_by(|one, other| newest_first(&one.0, &other.0).then_with(|| newest_first(&one.1, &other.1)));
    let mut pythons: Vec<_> = rows(matrix, group).map(|row| row.point.python).collect();
    pythons.sort();
    pythons.dedup();
    let title = |(torch, rocm): &(String, String)| {
        if torch.is_empty() { format!("ROCm {rocm}") } else { format!("torch {torch}, ROCm {rocm}") }
    };
    let titles: Vec<String> = std::iter::once("Python".to_owned()).chain(columns.iter().map(title)).collect();
    let (name, version, backend) = group;
    let mut text = format!("\n{name} {version} ({backend}):\n\n");
    text.push_str(&head(&titles.iter().map(String::as_str).collect::<Vec<_>>()));
    for python in pythons {
        let sign = |wanted: &(String, String)| {
            let found = rows(matrix, group).find(|row| row.point.python == python && column(row) == *wanted);
            match found.map(|row| row.status) {
                Some(CellStatus::Exists) => "✓",
                Some(CellStatus::Missing) => "✗",
                Some(CellStatus::Excluded) | None => "–",
            }
        };
        let first = python.map_or_else(|| "any".to_owned(), |python| python.to_string());
        let cells: Vec<String> =
            std::iter::once(first).chain(columns.iter().map(|column| sign(column).to_owned())).collect();
        text.push_str(&row(&cells));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Book;
    use crate::matrix::{FrameworkTable, MatrixQuery, make};

    #[test]
    fn a_grid_has_what_is_there_and_what_is_missing() {
        let (table, book) = (FrameworkTable::built_in().unwrap(), Book::built_in().unwrap());
        let wanted = MatrixQuery {
            recipes: vec!["flash-attn".into()],
            versions: vec!["2.8.3".into()],
            backends: vec!["ck".into()],
            ..MatrixQuery::default()
        };
        let wheels = ["flash_attn-2.8.3+rocm7.2torch2.14-cp312-cp312-linux_x86_64.whl".to_owned()];
        let text = coverage(&make(&table, &book, &wanted, &wheels).unwrap());
        assert!(text.contains("| flash-attn | 2.8.3 | ck | 1 | "), "{text}");
        let mut lines = text.lines();
        let titles = lines.find(|line| line.starts_with("| Python")).unwrap();
        assert!(titles.starts_with("| Python | torch 2.14, ROCm 7.14 | torch 2.14, ROCm 7.2 |"), "{titles}");
        let of =
            |python: &str| text.lines().find(|line| line.starts_with(&format!("| {python} |"))).unwrap().to_owned();
        assert!(of("3.12").starts_with("| 3.12 | ✗ | ✓ |") && of("3.13").starts_with("| 3.13 | ✗ | ✗ |"), "{text}");
        let none = coverage(&make(&table, &book, &wanted, &[]).unwrap());
        assert!(!none.contains("| Python") && none.contains("| 0 % |"), "{none}");
    }
}
