//! Input: `data/findings.toml`. Output: what can be found ([`Code`], [`Explanation`]), and what was
//! found ([`Finding`]).

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::fix::Fix;

const TABLE: &str = include_str!("../../../data/findings.toml");

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// It works, but not everywhere, or not for long.
    Warning,
    /// It does not install, does not load, or is not true.
    Error,
}

impl Severity {
    /// All of them, the heaviest first.
    pub const ALL: [Severity; 3] = [Severity::Error, Severity::Warning, Severity::Note];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $variant:ident = $text:literal),* $(,)?) => {
        /// What can be found. Each has a text in `data/findings.toml`; a code is never given
        /// another meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Code {
            /// All of them in the order of their numbers.
            pub const ALL: &[Code] = &[$(Code::$variant),*];

            /// The code as people write it, `RW012`.
            pub fn text(self) -> &'static str {
                match self {
                    $(Code::$variant => $text,)*
                }
            }
        }
    };
}

codes! {
    /// A needed library is nowhere.
    LibraryNotFound = "RW001",
    /// A library is found outside of the environment only.
    LibraryOutside = "RW002",
    /// An entry of a search path leaves the environment.
    SearchPath = "RW003",
    /// Two different files have one SONAME and both are linked to.
    TwoCopies = "RW004",
    /// A symbol is nowhere defined.
    UndefinedSymbol = "RW005",
    /// A library lacks a symbol version.
    SymbolVersion = "RW006",
    /// A newer system is needed than the tag promises.
    TooNew = "RW007",
    /// A newer CPU is needed than the tag promises.
    CpuLevel = "RW008",
    /// The tags are not true.
    Tags = "RW009",
    /// An extension module is for another Python.
    Python = "RW010",
    /// Not the ROCm build that it says it is.
    NotRocm = "RW011",
    /// A requirement is not declared.
    MissingRequirement = "RW012",
    /// A requirement that nothing needs.
    UnneededRequirement = "RW013",
    /// A stray package at the top level.
    StrayPackage = "RW014",
    /// Two wheels install the same file.
    SharedFile = "RW015",
    /// RECORD does not match.
    Record = "RW016",
    /// RECORD has no usable hash.
    RecordHash = "RW017",
    /// A path is too long.
    PathLength = "RW018",
    /// A preload list does not fit.
    PreloadList = "RW019",
    /// Too large to be published.
    Size = "RW020",
    /// The runtime cannot read split GPU code.
    KpackRuntime = "RW021",
    /// A library that is loaded by name is missing.
    DlopenMissing = "RW022",
    /// A file is not what it claims to be.
    Unreadable = "RW023",
    /// GPU code is not what it says.
    GpuCode = "RW024",
    /// A requirement was not given.
    NotGiven = "RW025",
    /// A file is for another machine.
    Machine = "RW026",
    /// An executable stack is asked for.
    ExecutableStack = "RW027",
    /// A library of `LD_LIBRARY_PATH` comes first.
    LibraryPath = "RW028",
    /// Windows does not find a DLL.
    DllNotFound = "RW029",
}

impl Code {
    /// What is known about it.
    pub fn explanation(self) -> &'static Explanation {
        static EXPLANATIONS: LazyLock<Vec<Explanation>> =
            LazyLock::new(|| parse(TABLE).expect("the embedded table is tested"));
        &EXPLANATIONS[self as usize]
    }

    /// Where docs/findings.md explains it: an anchor.
    pub fn anchor(self) -> String {
        let explanation = self.explanation();
        format!("{}-{}", explanation.code.to_lowercase(), explanation.name)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

/// A text that is no code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no finding `{0}`")]
pub struct UnknownCode(
    /// The text.
    pub String,
);

impl FromStr for Code {
    type Err = UnknownCode;

    /// The code or the name, in any case: `RW012`, `missing-requirement`.
    fn from_str(text: &str) -> Result<Code, UnknownCode> {
        let matches = |code: &&Code| {
            text.eq_ignore_ascii_case(code.text()) || text.eq_ignore_ascii_case(&code.explanation().name)
        };
        Code::ALL.iter().find(matches).copied().ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

/// The texts of one code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// `RW012`.
    pub code: String,
    /// A name in words, `missing-requirement`.
    pub name: String,
    /// The usual severity; findings may weigh less.
    pub severity: Severity,
    /// A sentence without a full stop.
    pub title: String,
    /// What it means, and for whom.
    pub explanation: String,
    /// What to do about it.
    pub cure: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    finding: Vec<Explanation>,
}

fn parse(text: &str) -> Result<Vec<Explanation>, toml::de::Error> {
    toml::from_str::<Table>(text).map(|table| table.finding)
}

/// docs/findings.md.
pub fn documentation() -> String {
    let mut text = String::from(
        "# The findings of `rocwheel audit`\n\n```\nrocwheel audit --explain RW012    # one of them\n\
         rocwheel audit --explain all\n```\n\nGenerated from `data/findings.toml`. The severity is the usual one; \
         the text says when a finding weighs less.\n\n| code | name | severity | |\n| --- | --- | --- | --- |\n",
    );
    let explanations = || Code::ALL.iter().map(|code| (code.anchor(), code.explanation()));
    for (anchor, explanation) in explanations() {
        let Explanation { code, name, severity, title, .. } = explanation;
        text.push_str(&format!("| [{code}](#{anchor}) | `{name}` | {} | {title} |\n", severity.name()));
    }
    for (_, explanation) in explanations() {
        let Explanation { code, name, severity, title, explanation, cure } = explanation;
        text.push_str(&format!(
            "\n## {code} {name}\n\n{title} ({}).\n\n{explanation}\n\nWhat to do: {cure}\n",
            severity.name()
        ));
    }
    text
}

/// Something that is the matter with a set of wheels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is.
    pub code: Code,
    /// How much it weighs.
    pub severity: Severity,
    /// File name of the wheel that has to change; of what is installed, the name of its
    /// `.dist-info` folder.
    pub wheel: Option<String>,
    /// Member of that wheel, the first in order when there are several.
    pub file: Option<String>,
    /// What it is about in a word: a library, a symbol, an entry of a path, a tag.
    pub subject: String,
    /// One sentence without a full stop, which says what is the matter.
    pub message: String,
    /// The command that fixes it, where one does.
    pub fix: Option<Fix>,
    /// More files of the wheel of which the same is true, and what else has to do with it.
    pub related: Vec<String>,
    /// All names of a list of which the message has the first: symbols, versions, requirements.
    /// Empty where `subject` has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Finding {
    /// A finding of the usual severity about a subject, so far of no wheel.
    pub fn new(code: Code, subject: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding {
            code,
            severity: code.explanation().severity,
            wheel: None,
            file: None,
            subject: subject.into(),
            message: message.into(),
            fix: None,
            related: Vec::new(),
            names: Vec::new(),
        }
    }

    /// The same with another severity.
    #[must_use]
    pub fn weighing(self, severity: Severity) -> Finding {
        Finding { severity, ..self }
    }

    /// The same about a wheel.
    #[must_use]
    pub fn of(self, wheel: impl Into<String>) -> Finding {
        Finding { wheel: Some(wheel.into()), ..self }
    }

    /// The same about files of the wheel; the first in order is the file, the others are related.
    #[must_use]
    pub fn in_files<T: Into<String>>(self, files: impl IntoIterator<Item = T>) -> Finding {
        let mut files: Vec<String> = files.into_iter().map(Into::into).collect();
        files.sort();
        files.dedup();
        let mut files = files.into_iter();
        let file = files.next();
        let related = files.chain(self.related).collect();
        Finding { file, related, ..self }
    }

    /// The same with all names of the list that the message shortens.
    #[must_use]
    pub fn naming<T: Into<String>>(self, names: impl IntoIterator<Item = T>) -> Finding {
        Finding { names: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same with the command that mends it, where there is one.
    #[must_use]
    pub fn fixed_by(self, fix: impl Into<Option<Fix>>) -> Finding {
        Finding { fix: fix.into(), ..self }
    }

    /// What findings are sorted by: the heaviest first, then by wheel, code, file and subject.
    pub(crate) fn key(&self) -> impl Ord + '_ {
        (std::cmp::Reverse(self.severity), &self.wheel, self.code, &self.subject, &self.file, &self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_texts_in_order() {
        let table = parse(TABLE).unwrap();
        let codes: Vec<&str> = table.iter().map(|explanation| explanation.code.as_str()).collect();
        assert_eq!(codes, Code::ALL.iter().map(|code| code.text()).collect::<Vec<_>>());
        let mut names: Vec<&str> = table.iter().map(|explanation| explanation.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table.len(), "two codes have one name");
        for explanation in &table {
            assert!(!explanation.title.ends_with('.') && explanation.cure.ends_with('.'), "{}", explanation.code);
            let text = format!("{} {}", explanation.explanation, explanation.cure);
            assert!(!text.contains('\n') && !text.contains("  "), "{}: a line break or two spaces", explanation.code);
        }
    }

    #[test]
    fn codes_and_names_are_understood() {
        assert_eq!("rw012".parse(), Ok(Code::MissingRequirement));
        assert_eq!("Missing-Requirement".parse(), Ok(Code::MissingRequirement));
        let unknown = "RW999".parse::<Code>().unwrap_err();
        assert_eq!(unknown.to_string(), "there is no finding `RW999`");
    }

    #[test]
    fn the_documentation_is_made_of_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
        if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
            fs_err::write(path, documentation()).unwrap();
        }
        let written = fs_err::read_to_string(path).unwrap();
        assert!(written == documentation(), "docs/findings.md is old: run this test with INSTA_UPDATE=always");
    }

    #[test]
    fn the_first_file_stands_for_all() {
        let finding = Finding::new(Code::SearchPath, "/x", "y").in_files(["b", "a", "b"]);
        assert_eq!((finding.file.as_deref(), finding.related), (Some("a"), vec!["b".to_owned()]));
    }
}
