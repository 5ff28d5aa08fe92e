//! Input: the messages and results of a command. Output: GitHub Actions' form of them: annotations,
//! groups in the log, outputs of the step and the step's summary.
//!
//! The forms are those of GitHub's documentation, "Workflow commands for GitHub Actions". Values
//! are data: whatever they contain, they cannot add an output, end a group or start a command.

use std::borrow::Cow;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::OnceLock;

use rocwheel_progress::Context;

use crate::environment::{self, Step};
use crate::failure::Result;

/// Largest size in bytes that GitHub accepts for a step's summary, and for one output.
const LARGEST: u64 = 1 << 20;
/// Largest number of rows of a table in the summary; the log has all of them.
const MOST_ROWS: usize = 500;
/// Largest number of characters of a cell in the summary.
const LONGEST_CELL: usize = 300;

static STEP: OnceLock<Step> = OnceLock::new();
static COMMAND: OnceLock<String> = OnceLock::new();

/// A kind of annotation.
#[derive(Debug, Clone, Copy)]
pub enum AnnotationLevel {
    Error,
    Warning,
}

/// The step in which this process runs.
pub fn step() -> &'static Step {
    STEP.get_or_init(environment::github_step)
}

/// Remembers the running command for titles: `package`, `artifact list`.
pub fn begin(command: String) {
    // It is set only once.
    let _ = COMMAND.set(command);
}

fn title() -> String {
    COMMAND.get().map_or_else(|| "rocwheel".to_owned(), |command| format!("rocwheel {command}"))
}

impl Step {
    /// A text of one or more lines as an annotation; `None` outside of GitHub Actions.
    pub fn annotation(&self, level: AnnotationLevel, text: &str) -> Option<String> {
        let name = match level {
            AnnotationLevel::Error => "error",
            AnnotationLevel::Warning => "warning",
        };
        self.is_running.then(|| format!("::{name} title={}::{}", property(&title()), data(text.trim_end())))
    }

    /// The line that begins a group of the log; `None` outside of GitHub Actions.
    pub fn group(&self, name: &str) -> Option<String> {
        self.is_running.then(|| format!("::group::{}\n", data(name)))
    }

    /// The line that ends a group.
    pub fn end_group(&self) -> Option<&'static str> {
        self.is_running.then_some("::endgroup::\n")
    }

    /// A text that starts no command: names come from archives, and may contain anything.
    pub fn defused<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_running { defused(text) } else { Cow::Borrowed(text) }
    }

    /// Appends outputs to those of the step. Outputs over GitHub's limit are skipped; their names
    /// are returned.
    pub fn set_outputs<'a>(&self, outputs: &[(&'a str, &str)]) -> Result<Vec<&'a str>> {
        let Some(path) = &self.output else { return Ok(Vec::new()) };
        let (small, large): (Vec<_>, Vec<_>) = outputs.iter().partition(|(_, value)| (value.len() as u64) < LARGEST);
        let text: String = small.iter().map(|(name, value)| assignment(name, value)).collect();
        append(path, &text).context("cannot write the outputs of the GitHub step (GITHUB_OUTPUT)")?;
        Ok(large.into_iter().map(|output| output.0).collect())
    }

    /// Appends a table to the step's summary.
    pub fn summarise_table(&self, columns: &[&str], rows: &[Vec<String>]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut lines =
            vec![columns.iter().map(|column| cell(column)).collect(), vec!["---".to_owned(); columns.len()]];
        lines.extend(rows.iter().take(MOST_ROWS).map(|row| row.iter().map(|value| cell(value)).collect()));
        let mut text: String = lines.iter().map(|cells| format!("| {} |\n", cells.join(" | "))).collect();
        if rows.len() > MOST_ROWS {
            text += &format!("\n… and {} more: see the log\n", rows.len() - MOST_ROWS);
        }
        self.summarise(&text)
    }

    /// Appends a sentence to the step's summary.
    pub fn summarise_sentence(&self, sentence: &str) -> Result<()> {
        self.summarise(&format!("{}\n", cell(sentence)))
    }

    fn summarise(&self, text: &str) -> Result<()> {
        let Some(path) = self.summary.as_ref().filter(|_| self.is_running) else { return Ok(()) };
        let text = format!("### {}\n\n{text}\n", cell(&title()));
        let there = fs_err::metadata(path).map_or(0, |metadata| metadata.len());
        // GitHub drops a summary that is too large as a whole, and the existing part is worth more
        // than this one.
        if there + text.len() as u64 >= LARGEST {
            return Ok(());
        }
        append(path, &text).context("cannot write the summary of the GitHub step (GITHUB_STEP_SUMMARY)")
    }
}

/// Appends `text` on a new line after the text of earlier commands of the step.
fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs_err::OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    let begin = if last == *b"\n" { "" } else { "\n" };
    // In one write: jobs of a matrix do not share the file, but programs of one step may.
    file.write_all(format!("{begin}{text}").as_bytes())
}

/// An output as `name=value`, or with a delimiter if the value has several lines.
fn assignment(name: &str, value: &str) -> String {
    if !value.contains(['\n', '\r']) {
        return format!("{name}={value}\n");
    }
    let mut delimiter = "END_OF_VALUE".to_owned();
    while value.contains(&delimiter) {
        delimiter.push('_');
    }
    format!("{name}<<{delimiter}\n{value}\n{delimiter}\n")
}

/// Escapes the text of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a command's property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Rewrites lines that begin with `::`, and `##[` anywhere, which would be commands. JSON keeps its
/// meaning.
fn defused(text: &str) -> Cow<'_, str> {
    let mut lines = text.split(['\n', '\r']);
    if !lines.any(|line| line.trim_start().starts_with("::")) && !text.contains("##[") {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive(['\n', '\r']).map(|line| {
        let line = line.replace("##[", "#\\u0023[");
        if line.trim_start().starts_with("::") { line.replacen("::", "\\u003a:", 1) } else { line }
    });
    Cow::Owned(lines.collect())
}

/// A text for Markdown, whatever it contains: punctuation is written as character references, which
/// are never structure (CommonMark 0.31, "Entity and numeric character references").
fn cell(text: &str) -> String {
    let length = text.chars().count();
    let mut shown = String::new();
    for (index, character) in text.chars().enumerate() {
        if length > LONGEST_CELL && index == LONGEST_CELL / 2 {
            shown.push('…');
        }
        if length > LONGEST_CELL && (LONGEST_CELL / 2..length - LONGEST_CELL / 2).contains(&index) {
            continue;
        }
        match character {
            ' ' | '.' | '/' | ',' => shown.push(character),
            _ if character.is_ascii_punctuation() => shown += &format!("&#{};", u32::from(character)),
            _ if character.is_control() => shown.extend(character.escape_default()),
            _ => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running() -> Step {
        Step { is_running: true, ..Step::default() }
    }

    #[test]
    fn values_stay_values() {
        assert_eq!(assignment("version", "7.1.0"), "version=7.1.0\n");
        assert_eq!(assignment("x", "a=b<<c"), "x=a=b<<c\n");
        assert_eq!(assignment("x", "a\nevil=1"), "x<<END_OF_VALUE\na\nevil=1\nEND_OF_VALUE\n");
        assert_eq!(
            assignment("x", "a\nEND_OF_VALUE\nevil=1"),
            "x<<END_OF_VALUE_\na\nEND_OF_VALUE\nevil=1\nEND_OF_VALUE_\n"
        );
        assert_eq!(assignment("x", "a\revil=1"), "x<<END_OF_VALUE\na\revil=1\nEND_OF_VALUE\n");
    }

    #[test]
    fn annotations_are_one_line() {
        let line = running().annotation(AnnotationLevel::Error, "100 % of `a`\r\n::warning::b\n").unwrap();
        assert_eq!(line, "::error title=rocwheel::100 %25 of `a`%0D%0A::warning::b");
        assert_eq!(property("a:b,c%"), "a%3Ab%2Cc%25");
        assert_eq!(running().group("a\n::endgroup::").unwrap(), "::group::a%0A::endgroup::\n");
        assert!(
            Step::default().annotation(AnnotationLevel::Error, "x").is_none() && Step::default().group("x").is_none()
        );
    }

    #[test]
    fn names_start_no_commands() {
        let step = running();
        assert_eq!(step.defused("a::b\nc"), "a::b\nc");
        assert_eq!(step.defused("::add-mask::x"), "\\u003a:add-mask::x");
        assert_eq!(step.defused("a\n  ::stop-commands::x\r::y"), "a\n  \\u003a:stop-commands::x\r\\u003a:y");
        assert_eq!(step.defused("{\"name\": \"##[error]x\"}"), "{\"name\": \"#\\u0023[error]x\"}");
        let back: serde_json::Value = serde_json::from_str(&step.defused("{\"name\": \"##[error]x\"}")).unwrap();
        assert_eq!(back["name"], "##[error]x");
        assert_eq!(Step::default().defused("::x"), "::x");
    }

    #[test]
    fn cells_are_text() {
        assert_eq!(cell("dist/a-1.0.whl"), "dist/a&#45;1.0.whl");
        assert_eq!(cell("a|b\n<c>"), "a&#124;b\\n&#60;c&#62;");
        let long = cell(&"ü".repeat(1000));
        assert_eq!((long.chars().count(), long.contains("ü…ü")), (LONGEST_CELL + 1, true));
    }

    #[test]
    fn files_are_appended_to_on_a_line_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        fs_err::write(&path, "earlier=1").unwrap();
        let step = Step { output: Some(path.clone()), ..running() };
        assert!(step.set_outputs(&[("a", "1"), ("b", "2\n3")]).unwrap().is_empty());
        step.set_outputs(&[("c", "")]).unwrap();
        let text = fs_err::read_to_string(&path).unwrap();
        assert_eq!(text, "earlier=1\na=1\nb<<END_OF_VALUE\n2\n3\nEND_OF_VALUE\nc=\n");
        let large = "x".repeat(LARGEST as usize);
        assert_eq!(step.set_outputs(&[("large", &large), ("d", "4")]).unwrap(), ["large"]);
        assert!(fs_err::read_to_string(&path).unwrap().ends_with("c=\nd=4\n"));
        let nowhere = Step { output: Some(folder.path().join("none/output")), ..running() };
        assert!(nowhere.set_outputs(&[("a", "1")]).unwrap_err().to_string().contains("GITHUB_OUTPUT"));
    }

    #[test]
    fn the_summary_stays_below_what_github_takes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary");
        let step = Step { summary: Some(path.clone()), ..running() };
        let rows: Vec<Vec<String>> = (0..MOST_ROWS + 2).map(|row| vec![row.to_string(), "x|y".to_owned()]).collect();
        step.summarise_table(&["N", "Name"], &rows).unwrap();
        let text = fs_err::read_to_string(&path).unwrap();
        assert!(text.starts_with("### rocwheel\n\n| N | Name |\n| --- | --- |\n| 0 | x&#124;y |\n"), "{text}");
        assert!(text.ends_with("| 499 | x&#124;y |\n\n… and 2 more: see the log\n\n"), "{text}");
        fs_err::write(&path, "x".repeat(LARGEST as usize - 10)).unwrap();
        step.summarise_table(&["N", "Name"], &rows).unwrap();
        assert_eq!(fs_err::metadata(&path).unwrap().len(), LARGEST - 10);
        let elsewhere = Step { is_running: false, ..step };
        fs_err::remove_file(&path).unwrap();
        elsewhere.summarise_sentence("x").unwrap();
        assert!(!path.exists());
    }
}
