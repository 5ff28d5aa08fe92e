//! Input: a table. Output: Markdown, and a page that stands beside the chooser.

use rocwheel_choose::ChoiceCell;
use rocwheel_pages::{escaped_html, plain_page};

use super::text::{complete_nights, date, holes};

const TITLE: &str = "What is complete";

/// The Pythons of a table as columns, and the rows of each package by GPU.
struct Grid<'a> {
    pythons: Vec<&'a str>,
    rows: Vec<(&'a str, &'a str, Vec<&'a ChoiceCell>)>,
}

impl Grid<'_> {
    fn of(cells: &[ChoiceCell]) -> Grid<'_> {
        let mut grid = Grid { pythons: Vec::new(), rows: Vec::new() };
        for cell in cells {
            if !grid.pythons.contains(&cell.python.as_str()) {
                grid.pythons.push(&cell.python);
            }
            match grid.rows.iter_mut().find(|row| row.0 == cell.package && row.1 == cell.gpu) {
                Some(row) => row.2.push(cell),
                None => grid.rows.push((&cell.package, &cell.gpu, vec![cell])),
            }
        }
        grid
    }

    fn heads(&self) -> impl Iterator<Item = String> {
        let pythons = self.pythons.iter().map(|python| format!("Python {python}"));
        ["Package", "GPU"].into_iter().map(str::to_owned).chain(pythons)
    }
}

/// The version and day of the newest complete set.
fn shown(cell: &ChoiceCell) -> String {
    let Some(first) = cell.set.first() else { return "none".to_owned() };
    let version = first.rsplit_once("==").map_or(first.as_str(), |(_, version)| version);
    format!("{version} {} ({})", date(cell), complete_nights(cell)).replace("  ", " ")
}

pub(super) fn markdown(cells: &[ChoiceCell]) -> String {
    let grid = Grid::of(cells);
    let mut text = format!("# {TITLE}\n\n{}", row(grid.heads()));
    text += &row(grid.heads().map(|_| "---".to_owned()));
    for (package, gpu, cells) in grid.rows {
        let cells = cells.into_iter().map(|cell| plain(&shown(cell)));
        text += &row([plain(package), plain(gpu)].into_iter().chain(cells));
    }
    text += "\n";
    for (hole, places) in holes(cells) {
        text += &format!("* {}: {}\n", plain(&places), plain(&hole));
    }
    text
}

fn row(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// Text without markup.
fn plain(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        if r"\`*_[]<>|&#~".contains(letter) {
            shown.push('\\');
        }
        shown.push(letter);
    }
    shown
}

pub(super) fn html(cells: &[ChoiceCell]) -> String {
    let grid = Grid::of(cells);
    let heads: String = grid.heads().map(|head| format!("<th scope=\"col\">{}</th>", escaped_html(&head))).collect();
    let mut body = format!(
        "<section aria-labelledby=\"table\"><h2 id=\"table\">The newest complete set, with its day</h2>\n<div \
         class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{TITLE}\"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n"
    );
    for (package, gpu, cells) in grid.rows {
        body += &format!("<tr><th scope=\"row\">{}</th><td>{}</td>", escaped_html(package), escaped_html(gpu));
        for cell in cells {
            let class = if cell.set.is_empty() { "hole" } else { "there" };
            body += &format!("<td class=\"{class}\">{}</td>", escaped_html(&shown(cell)));
        }
        body += "</tr>\n";
    }
    body += "</tbody></table></div></section>\n<section aria-labelledby=\"holes-title\"><h2 id=\"holes-title\">Missing</h2>\n<ul>\n";
    for (hole, places) in holes(cells) {
        body += &format!("<li>{}: {}</li>\n", escaped_html(&places), escaped_html(&hole));
    }
    body += "</ul></section>\n";
    plain_page(TITLE, &body)
}
