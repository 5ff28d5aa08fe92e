//! Input: a script of a workflow. Output: its commands as words. Expansions (`$VAR`, `$(…)`,
//! `${{ inputs.x }}`) stay in the words unchanged.

use std::sync::LazyLock;

use rable::{Node, NodeKind};
use regex::{Captures, Regex};

use super::workflow::{Language, Script};

/// A word of a command, without its quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// `true` if a part of it is known only when the script runs.
    pub(super) is_open: bool,
    /// `true` if the run replaces it by any number of words: `$ARGUMENTS`, `"${list[@]}"`.
    pub(super) is_any: bool,
}

/// A command and the lines of the file that it is on.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) line: usize,
    pub(super) last: usize,
    pub(super) words: Vec<Word>,
}

/// An expression that GitHub replaces before the script runs.
static EXPRESSION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?s)\$\{\{.*?\}\}").expect("a test compiles it"));
/// The same, and the variables of cmd.
static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)\$\{\{.*?\}\}|%\w+%").expect("a test compiles it"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new("\u{e000}([0-9]+)\u{e001}").expect("a test compiles it"));
/// One expansion and nothing else.
static EXPANSION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("^(\u{e000}[0-9]+\u{e001}|\\$\\w+|\\$\\{[^{}]*\\}|\\$\\(.*\\)|\\$[@*])$").expect("a test compiles it")
});

/// A script that the parser can read, and how to go back to what is written.
struct Readable {
    text: String,
    expressions: Vec<String>,
    /// The line that the text begins at.
    line: usize,
}

/// The commands of a script, and those inside of `bash -c '…'`.
pub(super) fn calls(script: &Script) -> Vec<Call> {
    let mut expressions = Vec::new();
    let replaced = if script.language == Language::Cmd { &*VARIABLE } else { &*EXPRESSION };
    let masked = replaced.replace_all(&script.text, |found: &Captures<'_>| {
        expressions.push(found[0].to_owned());
        format!("\u{e000}{}\u{e001}", expressions.len() - 1)
    });
    let text = match script.language {
        Language::Shell => masked.into_owned(),
        Language::PowerShell => masked.replace('\\', "/").replace("`\n", "\\\n"),
        Language::Cmd => masked
            .replace('\\', "/")
            .replace("^\n", "\\\n")
            .lines()
            .map(|line| if line.trim_start().to_uppercase().starts_with("REM") { "" } else { line })
            .collect::<Vec<_>>()
            .join("\n"),
    };
    Readable { text, expressions, line: script.line }.calls()
}

impl Readable {
    fn calls(&self) -> Vec<Call> {
        let mut found = Vec::new();
        if let Ok(nodes) = rable::parse(&self.text, false) {
            for node in &nodes {
                self.collect(node, &self.text, self.line, &mut found);
            }
            return found;
        }
        // The parser refuses the whole script, so it reads one line at a time and skips bad ones.
        let (mut begun, mut line) = (String::new(), self.line);
        for (at, text) in (self.line..).zip(self.text.lines()) {
            if begun.is_empty() {
                line = at;
            }
            begun.push_str(text);
            begun.push('\n');
            if text.ends_with('\\') {
                continue;
            }
            for node in rable::parse(&begun, false).unwrap_or_default() {
                self.collect(&node, &begun, line, &mut found);
            }
            begun.clear();
        }
        found
    }

    /// Adds the commands below a node of `source`, which begins at a line of the file.
    fn collect(&self, node: &Node, source: &str, line: usize, found: &mut Vec<Call>) {
        if let NodeKind::Command { words, .. } = &node.kind {
            let call = Call {
                line: line + self.lines(source, node.span.start),
                last: line + self.lines(source, node.span.end),
                words: words.iter().map(|word| self.word(word)).collect(),
            };
            let inner = nested(&call.words).map(|at| Script {
                text: call.words[at].text.clone(),
                line: line + self.lines(source, words[at].span.start),
                language: Language::Shell,
            });
            found.push(call);
            found.extend(inner.iter().flat_map(calls));
        }
        for child in children(node) {
            match &child.kind {
                // The text of a substitution is parsed by itself, so its places begin with it.
                NodeKind::CommandSubstitution { command, .. } | NodeKind::ProcessSubstitution { command, .. } => {
                    self.collect(command, "", line + self.lines(source, node.span.start), found);
                }
                _ => self.collect(child, source, line, found),
            }
        }
    }

    /// The lines of the file that are in the first characters of `source`.
    fn lines(&self, source: &str, characters: usize) -> usize {
        self.original(&source.chars().take(characters).collect::<String>()).matches('\n').count()
    }

    /// The text with the expressions of the workflow.
    fn original(&self, text: &str) -> String {
        NUMBER
            .replace_all(text, |found: &Captures<'_>| {
                let index: Option<usize> = found[1].parse().ok();
                index.and_then(|index| self.expressions.get(index).cloned()).unwrap_or_default()
            })
            .into_owned()
    }

    fn word(&self, node: &Node) -> Word {
        let NodeKind::Word { value, .. } = &node.kind else {
            return Word { text: String::new(), is_open: true, is_any: true };
        };
        let is_open = value.contains(['$', '`', '\u{e000}']) && !value.starts_with('\'');
        // Quotes inside of `"$(…)"` are not those of the word.
        let split = shlex::split(value).filter(|words| words.len() == 1);
        let text = split.map_or_else(|| value.clone(), |mut words| words.remove(0));
        let is_any = EXPANSION.is_match(value) || value.contains("[@]}") || value == "\"$@\"";
        Word { text: self.original(&text), is_open, is_any }
    }
}

/// The place of the script in `bash -c SCRIPT`, wherever it is in the command.
fn nested(words: &[Word]) -> Option<usize> {
    let at = words.windows(2).position(|pair| {
        let shell = pair[0].text.rsplit('/').next().unwrap_or_default();
        ["bash", "sh", "zsh"].contains(&shell) && pair[1].text.starts_with('-') && pair[1].text.ends_with('c')
    })?;
    (at + 2 < words.len()).then_some(at + 2)
}

/// The nodes right below this one that may hold commands.
fn children(node: &Node) -> Vec<&Node> {
    match &node.kind {
        NodeKind::Word { parts, .. } => parts.iter().collect(),
        NodeKind::Command { assignments, words, redirects } => {
            assignments.iter().chain(words).chain(redirects).collect()
        }
        NodeKind::Pipeline { commands, .. } => commands.iter().collect(),
        NodeKind::List { items } => items.iter().map(|item| &item.command).collect(),
        NodeKind::If { condition, then_body, else_body, .. } => {
            [condition, then_body].into_iter().chain(else_body).map(|node| &**node).collect()
        }
        NodeKind::While { condition, body, .. } | NodeKind::Until { condition, body, .. } => vec![condition, body],
        NodeKind::For { words, body, .. } | NodeKind::Select { words, body, .. } => {
            words.iter().flatten().chain([&**body]).collect()
        }
        NodeKind::Case { patterns, .. } => patterns.iter().filter_map(|pattern| pattern.body.as_ref()).collect(),
        NodeKind::ForArith { body, .. }
        | NodeKind::Function { body, .. }
        | NodeKind::Subshell { body, .. }
        | NodeKind::BraceGroup { body, .. } => vec![body],
        NodeKind::Coproc { command, .. } => vec![command],
        NodeKind::Redirect { target, .. } => vec![target],
        NodeKind::Negation { pipeline } | NodeKind::Time { pipeline, .. } => vec![pipeline],
        _ => Vec::new(),
    }
}
