//! Input: sizes by wheel, file and GPU target. Output: an SVG picture with a cell for each file and
//! target, and bars for the sums.
//!
//! It has its own background, light or dark as the reader prefers, and needs no script or font. The
//! same sizes give the same bytes.

#![allow(clippy::cast_precision_loss, reason = "a picture needs four digits")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rocwheel_progress::counted;
use rocwheel_tables::target;

/// Number of rows of all wheels together; further files of a wheel are folded into one row.
const MOST_ROWS: usize = 30;
/// Number of rows that each wheel may have, however many wheels there are.
const FEWEST_ROWS: usize = 4;
/// Number of characters of a label. Longer ones lose their beginning, since paths differ at their
/// end.
const LABEL: usize = 56;

const CELL_WIDTH: f64 = 58.0;
const CELL_HEIGHT: f64 = 24.0;
const MARGIN: f64 = 24.0;
/// Height of the bars above the columns and width of those beside the rows, in SVG units.
const BAR: f64 = 90.0;
/// Angle of the slanted names of the targets, in degrees.
const SLANT: f64 = 52.0;
/// Width of a character of a label and of a small number, in SVG units.
const CHARACTER: f64 = 6.9;

const STYLE: &str = "text{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;font-size:11px;fill:#1b1f24}\
    .title{font-size:15px;font-weight:bold}.group{font-weight:bold}.dim{fill:#57606a}.card{fill:#ffffff;stroke:#d0d7de}\
    .cell{fill:#0b3d91}.bar{fill:#bf5a0a}.on{fill:#ffffff}.none{fill:#eaeef2}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#9198a1}.card{fill:#0d1117;stroke:#30363d}\
    .cell{fill:#2f6fde}.bar{fill:#d2731f}.none{fill:#1c2129}}";

/// The code of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlotRow {
    /// The name that is shown.
    pub label: String,
    /// Bytes of code for each target.
    pub sizes: BTreeMap<String, u64>,
}

/// The files of a wheel or archive, or those that are in none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlotGroup {
    /// The name that is shown above its rows if there are several groups.
    pub name: String,
    /// Its files.
    pub rows: Vec<PlotRow>,
}

impl PlotRow {
    /// Bytes of code for all targets.
    fn sum(&self) -> u64 {
        self.sizes.values().sum()
    }
}

impl PlotGroup {
    fn sum(&self) -> u64 {
        self.rows.iter().map(PlotRow::sum).sum()
    }
}

/// A line of the picture.
enum Line {
    /// The name of a group.
    Name(String),
    Row(PlotRow),
}

impl Line {
    /// Number of characters before the cells.
    fn width(&self) -> usize {
        match self {
            Line::Name(_) => 0,
            Line::Row(row) => shorten(&row.label).chars().count(),
        }
    }
}

/// Draws a row for each file and a column for each target in numeric order; the largest wheel and
/// the largest file are first. `title` is above them.
pub fn svg(title: &str, mut groups: Vec<PlotGroup>) -> String {
    for group in &mut groups {
        group.rows.retain(|row| row.sum() > 0);
        group.rows.sort_by(|left, right| right.sum().cmp(&left.sum()).then_with(|| left.label.cmp(&right.label)));
    }
    groups.retain(|group| !group.rows.is_empty());
    groups.sort_by(|left, right| right.sum().cmp(&left.sum()).then_with(|| left.name.cmp(&right.name)));
    let files: usize = groups.iter().map(|group| group.rows.len()).sum();
    let mut totals: BTreeMap<String, u64> = BTreeMap::new();
    for (target, size) in groups.iter().flat_map(|group| &group.rows).flat_map(|row| &row.sizes) {
        *totals.entry(target.clone()).or_default() += size;
    }
    let mut targets: Vec<String> = totals.keys().cloned().collect();
    target::sort(&mut targets);
    let whole: u64 = totals.values().sum();
    let heading = format!(
        "{} of GPU code in {} for {}",
        size_text(whole),
        counted(files as u64, "file"),
        counted(targets.len() as u64, "target")
    );
    let lines = lines(groups);
    Sheet::new(title, &heading, &lines, &targets).draw(&lines, &targets, &totals)
}

/// The lines of all groups. The smallest files of a group share a row.
fn lines(groups: Vec<PlotGroup>) -> Vec<Line> {
    let (has_names, most) = (groups.len() > 1, (MOST_ROWS / groups.len().max(1)).max(FEWEST_ROWS));
    let mut lines = Vec::new();
    for mut group in groups {
        if has_names {
            lines.push(Line::Name(format!("{}: {}", group.name, size_text(group.sum()))));
        }
        fold(&mut group.rows, most);
        lines.extend(group.rows.into_iter().map(Line::Row));
    }
    lines
}

/// Folds the rows beyond the limit into one.
fn fold(rows: &mut Vec<PlotRow>, most: usize) {
    if rows.len() <= most {
        return;
    }
    let rest = rows.split_off(most - 1);
    let mut folded = PlotRow { label: format!("{} other files", rest.len()), ..PlotRow::default() };
    for (target, size) in rest.into_iter().flat_map(|row| row.sizes) {
        *folded.sizes.entry(target).or_default() += size;
    }
    rows.push(folded);
}

/// The drawing so far and the positions of its parts.
struct Sheet {
    text: String,
    left: f64,
    top: f64,
    /// The lower end of the bars above the columns.
    foot: f64,
    right: f64,
}

impl Sheet {
    fn new(title: &str, heading: &str, lines: &[Line], targets: &[String]) -> Self {
        let longest = lines.iter().map(Line::width).max().unwrap_or(0);
        let left = MARGIN + longest as f64 * CHARACTER + 12.0;
        let longest = targets.iter().map(|target| target.chars().count()).max().unwrap_or(0);
        let names = longest as f64 * CHARACTER * SLANT.to_radians().sin() + 18.0;
        let top = MARGIN + 60.0 + BAR + names;
        let right = left + targets.len() as f64 * CELL_WIDTH + 12.0;
        let groups =
            lines.iter().filter_map(|line| if let Line::Name(name) = line { Some(name.as_str()) } else { None });
        let words = groups.chain([title, heading]).map(|text| text.chars().count()).max().unwrap_or(0) as f64;
        let width = (right + BAR + 60.0 + MARGIN).max(2.0 * MARGIN + words * 9.2);
        let height = top + lines.len() as f64 * CELL_HEIGHT + MARGIN;
        let mut sheet = Self { text: String::new(), left, top, foot: top - names, right };
        sheet.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
             <rect x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\" class=\"card\"/>",
            escape(title),
            width - 1.0,
            height - 1.0
        ));
        sheet.label(MARGIN, MARGIN + 14.0, "title", "start", title);
        sheet.label(MARGIN, MARGIN + 34.0, "dim", "start", heading);
        sheet
    }

    fn draw(mut self, lines: &[Line], targets: &[String], totals: &BTreeMap<String, u64>) -> String {
        let highest = totals.values().copied().max().unwrap_or(0);
        for (column, target) in targets.iter().enumerate() {
            let size = totals.get(target).copied().unwrap_or(0);
            let x = self.left + column as f64 * CELL_WIDTH;
            let length = part(size, highest) * BAR;
            let foot = self.foot;
            self.rectangle("bar", (x + 6.0, foot - length), (CELL_WIDTH - 12.0, length), &bar_title(target, size));
            self.label(x + CELL_WIDTH / 2.0, foot - length - 5.0, "dim", "middle", &size_text(size));
            let (x, y) = (x + CELL_WIDTH / 2.0 - 2.0, self.top - 8.0);
            self.add(format_args!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" transform=\"rotate(-{SLANT} {x:.1} {y:.1})\">{}</text>",
                escape(target)
            ));
        }
        let rows = lines.iter().filter_map(|line| if let Line::Row(row) = line { Some(row) } else { None });
        let largest = rows.clone().flat_map(|row| row.sizes.values()).copied().max().unwrap_or(0);
        let longest = rows.map(PlotRow::sum).max().unwrap_or(0);
        for (number, line) in lines.iter().enumerate() {
            let y = self.top + number as f64 * CELL_HEIGHT;
            let baseline = y + CELL_HEIGHT / 2.0 + 4.0;
            match line {
                Line::Name(name) => self.label(MARGIN, baseline, "group", "start", name),
                Line::Row(row) => {
                    for (column, target) in targets.iter().enumerate() {
                        let size = row.sizes.get(target).copied().unwrap_or(0);
                        let x = self.left + column as f64 * CELL_WIDTH;
                        self.cell((x, y), size, largest, &bar_title(target, size));
                    }
                    self.ends(row, y, baseline, longest);
                }
            }
        }
        self.text.push_str("</svg>\n");
        self.text
    }

    /// Draws the name of a row before its cells, and its sum behind them. `longest` is the largest
    /// sum.
    fn ends(&mut self, row: &PlotRow, y: f64, baseline: f64, longest: u64) {
        self.label(self.left - 10.0, baseline, "row", "end", &shorten(&row.label));
        let (sum, right) = (row.sum(), self.right);
        let length = part(sum, longest) * BAR;
        self.rectangle("bar", (right, y + 4.0), (length, CELL_HEIGHT - 8.0), &bar_title(&row.label, sum));
        self.label(right + length + 6.0, baseline, "dim", "start", &size_text(sum));
    }

    /// Draws a cell whose strength is its share of the largest one, with its size in it.
    fn cell(&mut self, (x, y): (f64, f64), size: u64, largest: u64, title: &str) {
        let place = (x + 1.5, y + 1.5);
        let extent = (CELL_WIDTH - 3.0, CELL_HEIGHT - 3.0);
        if size == 0 {
            self.rectangle("none", place, extent, title);
            return;
        }
        let share = part(size, largest);
        let strength = 0.14 + 0.86 * share;
        self.add(format_args!(
            "<rect class=\"cell\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" \
             fill-opacity=\"{strength:.2}\"><title>{}</title></rect>",
            place.0,
            place.1,
            extent.0,
            extent.1,
            escape(title)
        ));
        // White is readable on the stronger colours, dark on the weaker ones.
        let class = if strength > 0.66 { "on" } else { "in" };
        self.label(x + CELL_WIDTH / 2.0, y + CELL_HEIGHT / 2.0 + 4.0, class, "middle", &size_text(size));
    }

    fn rectangle(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), title: &str) {
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\">\
             <title>{}</title></rect>",
            escape(title)
        ));
    }

    fn label(&mut self, x: f64, y: f64, class: &str, anchor: &str, text: &str) {
        let text = escape(text);
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    fn add(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

fn bar_title(name: &str, size: u64) -> String {
    format!("{name}: {}", size_text(size))
}

fn part(amount: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { amount as f64 / whole as f64 }
}

/// Bytes in decimal units with three digits: `1.31 GB`, `24.5 MB`, `980 B`.
fn size_text(amount: u64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let (mut size, mut unit) = (amount as f64, 0);
    // A number that would be rounded to 1000 moves to the next unit.
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    let number = match (unit, size) {
        (0, size) => format!("{size:.0}"),
        (_, size) if size < 9.995 => format!("{size:.2}"),
        (_, size) if size < 99.95 => format!("{size:.1}"),
        (_, size) => format!("{size:.0}"),
    };
    format!("{number} {}B", UNITS[unit])
}

fn shorten(label: &str) -> String {
    let length = label.chars().count();
    if length <= LABEL {
        return label.to_owned();
    }
    let rest: String = label.chars().skip(length - LABEL + 1).collect();
    format!("…{rest}")
}

/// Escapes text for XML; characters that XML does not allow become a question mark.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            character if character.is_control() => escaped.push('?'),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        for (amount, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_994, "9.99 kB"),
            (9_996, "10.0 kB"),
            (99_960, "100 kB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (1_310_000_000, "1.31 GB"),
        ] {
            assert_eq!(size_text(amount), text);
        }
        assert_eq!(size_text(u64::MAX), "18447 PB");
    }

    fn row(label: &str, sizes: &[(&str, u64)]) -> PlotRow {
        PlotRow {
            label: label.to_owned(),
            sizes: sizes.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect(),
        }
    }

    fn group(rows: Vec<PlotRow>) -> Vec<PlotGroup> {
        vec![PlotGroup { name: "a.whl".into(), rows }]
    }

    #[test]
    fn each_wheel_has_its_name_above_its_files() {
        let mut groups = group(vec![row("lib/one.so", &[("gfx90a", 10)])]);
        groups.push(PlotGroup { name: "b<.whl".into(), rows: vec![row("lib/one.so", &[("gfx90a", 3000)])] });
        groups.push(PlotGroup { name: "empty.whl".into(), rows: vec![row("lib/none.so", &[])] });
        let picture = svg("a.whl and 2 more", groups);
        let at = |text: &str| picture.find(text).unwrap_or_else(|| panic!("{text} in {picture}"));
        assert!(at(">b&lt;.whl: 3.00 kB</text>") < at(">a.whl: 10 B</text>"), "the largest first");
        assert!(!picture.contains("empty.whl"));
    }

    #[test]
    fn targets_stand_in_numeric_order_and_files_by_size() {
        let rows = vec![row("small.so", &[("gfx1100", 5)]), row("large.so", &[("gfx90a", 1), ("gfx942", 2_500_000)])];
        let picture = svg("a < b & \u{1}", group(rows));
        let at = |text: &str| picture.find(text).unwrap_or_else(|| panic!("{text} in {picture}"));
        assert!(at(">gfx90a</text>") < at(">gfx942</text>") && at(">gfx942</text>") < at(">gfx1100</text>"));
        assert!(at(">large.so</text>") < at(">small.so</text>"));
        at("<title>a &lt; b &amp; ?</title>");
        at("2.50 MB of GPU code in 2 files for 3 targets");
        at(">2.50 MB</text>");
        assert!(!picture.contains("class=\"group\""));
    }

    #[test]
    fn many_files_become_one_row() {
        let rows = (0..100).map(|number| row(&format!("lib{number}.so"), &[("gfx90a", 1000 + number)])).collect();
        let picture = svg("many", group(rows));
        assert!(picture.contains(">71 other files</text>"));
        assert!(picture.contains("in 100 files for 1 target<"));
    }

    #[test]
    fn nothing_is_a_picture_too() {
        assert!(svg("none", Vec::new()).contains("0 B of GPU code in 0 files for 0 targets"));
    }
}
