//! Input: a matrix. Output: the share of buildable cells that exist, as one table of the frameworks
//! with at least one file, and a grid for each.

use std::collections::BTreeSet;

use super::{head, newest_first, row};
use rocwheel_recipe::matrix::{CellStatus, Matrix, MatrixRow};

/// Name, version and backend of a framework.
type Group<'a> = (&'a str, &'a str, &'a str);

/// The tables of a matrix in Markdown. What this publisher does not build is named below them and
/// not counted: no version of it exists with this backend.
pub fn coverage(matrix: &Matrix) -> String {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut others: Vec<Group<'_>> = Vec::new();
    for row in &matrix.rows {
        let group = of(row);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups.retain(|group| {
        let (mut exists, mut possible) = (false, false);
        for row in rows(matrix, group) {
            exists |= row.status == CellStatus::Exists;
            possible |= row.status != CellStatus::Excluded;
        }
        if possible && !exists {
            others.push(*group);
        }
        exists
    });
    let mut text = head(&["Framework", "Version", "Backend", "There", "Possible", "Coverage"]);
    let mut grids = String::new();
    let (mut all_there, mut all_possible) = (0, 0);
    for group in &groups {
        let there = rows(matrix, group).filter(|row| row.status == CellStatus::Exists).count();
        let possible = rows(matrix, group).filter(|row| row.status != CellStatus::Excluded).count();
        let (name, version, backend) = group;
        text.push_str(&line([name, &shorten(version), backend], there, possible));
        (all_there, all_possible) = (all_there + there, all_possible + possible);
        grids.push_str(&grid(matrix, group));
    }
    match groups.len() {
        0 => "No file is of the matrix.\n".clone_into(&mut text),
        1 => {}
        _ => text.push_str(&line(["all", "", ""], all_there, all_possible)),
    }
    if !others.is_empty() {
        let others = others.into_iter().map(|(name, version, backend)| {
            let is_built = groups.iter().any(|built| built.0 == name);
            if is_built { format!("{name} {} ({backend})", shorten(version)) } else { name.to_owned() }
        });
        let others: BTreeSet<String> = others.collect();
        let others = others.into_iter().collect::<Vec<_>>().join(", ");
        grids.push_str(&format!("\nIn no version of the matrix: {others}.\n"));
    }
    text + &grids
}

fn line(names: [&str; 3], there: usize, possible: usize) -> String {
    let numbers = [there.to_string(), possible.to_string(), percent(there, possible)];
    row(&names.map(str::to_owned).into_iter().chain(numbers).collect::<Vec<_>>())
}

/// The name of a version; of a commit the first ten digits.
fn shorten(version: &str) -> String {
    let is_commit = version.len() == 40 && version.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit { version[..10].to_owned() } else { version.to_owned() }
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

/// The torch and the ROCm of a row.
fn line_of(row: &MatrixRow) -> (&str, &str) {
    (row.point.torch.as_deref().unwrap_or_default(), &row.point.rocm)
}

/// A grid with a row for each torch and ROCm and a column for each Python. Rows of which nothing
/// exists are folded away.
fn grid(matrix: &Matrix, group: &Group<'_>) -> String {
    let live = rows(matrix, group).filter(|row| row.status != CellStatus::Excluded);
    let lines: BTreeSet<(&str, &str)> = live.map(line_of).collect();
    let mut lines: Vec<(&str, &str)> = lines.into_iter().collect();
    lines.sort_by(|one, other| newest_first(one.0, other.0).then_with(|| newest_first(one.1, other.1)));
    let mut pythons: Vec<_> = rows(matrix, group).map(|row| row.point.python).collect();
    pythons.sort();
    pythons.dedup();
    let titles = pythons.iter().map(|python| python.map_or_else(|| "any".to_owned(), |python| python.to_string()));
    let titles: Vec<String> = ["torch".to_owned(), "ROCm".to_owned()].into_iter().chain(titles).collect();
    let titles = head(&titles.iter().map(String::as_str).collect::<Vec<_>>());
    let (mut built, mut unbuilt, mut folded) = (String::new(), String::new(), 0);
    for wanted in lines {
        let signs: Vec<&str> = pythons
            .iter()
            .map(|python| {
                let found = rows(matrix, group).find(|row| row.point.python == *python && line_of(row) == wanted);
                match found.map(|row| row.status) {
                    Some(CellStatus::Exists) => "✓",
                    Some(CellStatus::Missing) => "✗",
                    Some(CellStatus::Excluded) | None => "–",
                }
            })
            .collect();
        let (torch, rocm) = wanted;
        let torch = if torch.is_empty() { "–" } else { torch };
        let text = row(&[torch, rocm].iter().chain(&signs).map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
        if signs.contains(&"✓") {
            built.push_str(&text);
        } else {
            unbuilt.push_str(&text);
            folded += 1;
        }
    }
    let (name, version, backend) = group;
    let mut text = format!("\n{name} {} ({backend}):\n\n{titles}{built}", shorten(version));
    if folded > 0 {
        let combinations = if folded == 1 { "combination".to_owned() } else { format!("{folded} combinations") };
        text.push_str(&format!(
            "\n<details><summary>{combinations} of torch and ROCm without a file</summary>\n\n{titles}{unbuilt}\n</details>\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocwheel_recipe::Book;
    use rocwheel_recipe::matrix::{FrameworkTable, MatrixQuery, make};

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
        let line = |start: &str| {
            text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start} in {text}"))
        };
        let titles = line("| torch | ROCm |");
        let at = |python: &str| titles.split(" | ").position(|title| title.trim_matches([' ', '|']) == python).unwrap();
        let signs: Vec<&str> = line("| 2.14 | 7.2 |").split(" | ").collect();
        assert_eq!((signs[at("3.12")], signs[at("3.13")]), ("✓", "✗"), "{text}");
        let (shown, folded) = text.split_once("<details>").unwrap();
        assert!(!shown.contains("| 2.14 | 7.14 |") && folded.contains("| 2.14 | 7.14 | ✗"), "{text}");
        assert!(!text.contains("| all |"), "one framework needs no sum: {text}");
        let asked = MatrixQuery {
            rocm: vec!["7.2".into()],
            torch: vec!["2.14".into()],
            python: vec!["3.12".parse().unwrap()],
            ..wanted.clone()
        };
        let asked = coverage(&make(&table, &book, &asked, &wheels).unwrap());
        assert!(asked.contains("| flash-attn | 2.8.3 | ck | 1 | 1 | 100 % |"), "what was asked for: {asked}");
        let all = coverage(&make(&table, &book, &MatrixQuery::default(), &wheels).unwrap());
        assert!(all.contains("| flash-attn | 2.8.3 | ck | 1 | ") && !all.contains("| torch | 2."), "{all}");
        assert!(all.contains(", torch, ") && all.contains("flash-attn 2.8.3 (triton)"), "{all}");
        let none = coverage(&make(&table, &book, &wanted, &[]).unwrap());
        assert_eq!(none, "No file is of the matrix.\n\nIn no version of the matrix: flash-attn.\n");
    }
}
