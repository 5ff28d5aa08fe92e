//! Input: `data/findings.toml`. Output: the kinds of findings ([`Code`], [`Explanation`]), and the
//! type of a finding ([`Finding`]).

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

pub use rocwheel_progress::Severity;
use serde::{Deserialize, Serialize};

pub use crate::code::Code;
use crate::fix::Fix;

pub(crate) const TABLE: &str = include_str!("../../../../data/findings.toml");

impl Code {
    /// The row of this code in `data/findings.toml`.
    pub fn explanation(self) -> &'static Explanation {
        static EXPLANATIONS: LazyLock<Vec<Explanation>> =
            LazyLock::new(|| parse(TABLE).expect("the embedded table is tested"));
        &EXPLANATIONS[self as usize]
    }

    /// The anchor of the code in docs/findings.md: `rw012-missing-requirement`.
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

/// A text that is neither the code nor the name of a finding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no finding `{0}`")]
pub struct UnknownCode(
    /// The text as the user wrote it.
    pub String,
);

impl FromStr for Code {
    type Err = UnknownCode;

    /// Parses the code or the name, in any case: `RW012`, `missing-requirement`.
    fn from_str(text: &str) -> Result<Code, UnknownCode> {
        let code = Code::ALL
            .iter()
            .find(|code| text.eq_ignore_ascii_case(code.text()) || text.eq_ignore_ascii_case(&code.explanation().name));
        code.copied().ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

/// The texts of one code: a row of `data/findings.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// The code: `RW012`.
    pub code: String,
    /// The name in words: `missing-requirement`.
    pub name: String,
    /// The usual severity; a finding may weigh less.
    pub severity: Severity,
    /// One sentence without a full stop.
    pub title: String,
    /// What the finding means, and for which users.
    pub explanation: String,
    /// How to fix it.
    pub cure: String,
    /// What the user has to decide or do if no command fixes it, for "needs a decision: …".
    pub decision: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    finding: Vec<Explanation>,
}

pub(crate) fn parse(text: &str) -> Result<Vec<Explanation>, toml::de::Error> {
    toml::from_str::<Table>(text).map(|table| table.finding)
}

/// A problem of a set of wheels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub code: Code,
    /// The usual severity of the code, or a lower one.
    pub severity: Severity,
    /// File name of the wheel that has to change. For an installed distribution, the name of its
    /// `.dist-info` folder.
    pub wheel: Option<String>,
    /// Member of that wheel; of several, the first in alphabetical order.
    pub file: Option<String>,
    /// The topic of the finding in a word: a library, a symbol, an entry of a path, a tag.
    pub subject: String,
    /// The problem in one sentence without a full stop.
    pub message: String,
    pub fix: Option<Fix>,
    /// What has to be decided because no command fixes the problem, for "needs a decision: …";
    /// `None` beside a fix.
    pub decision: Option<String>,
    /// `false` if nothing is seen to load the files that have the problem: test data, plug-ins. The
    /// verdict then does not depend on it.
    pub decides: bool,
    /// Canonical names of the distributions that were not given and that decide whether there is a
    /// problem.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// More files of the wheel with the same problem, and other files that are involved.
    pub related: Vec<String>,
    /// All names of a list that the message shortens: symbols, versions, requirements. Empty if
    /// `subject` has them all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

impl Finding {
    /// Creates a finding of the usual severity, without a wheel.
    pub fn new(code: Code, subject: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding {
            code,
            severity: code.explanation().severity,
            wheel: None,
            file: None,
            subject: subject.into(),
            message: message.into(),
            fix: None,
            decision: None,
            decides: true,
            depends_on: Vec::new(),
            related: Vec::new(),
            names: Vec::new(),
        }
    }

    #[must_use]
    pub fn weighing(self, severity: Severity) -> Finding {
        Finding { severity, ..self }
    }

    #[must_use]
    pub fn of(self, wheel: impl Into<String>) -> Finding {
        Finding { wheel: Some(wheel.into()), ..self }
    }

    /// Adds files of the wheel; the first in alphabetical order becomes `file`, the others are
    /// related.
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

    #[must_use]
    pub fn naming<T: Into<String>>(self, names: impl IntoIterator<Item = T>) -> Finding {
        Finding { names: names.into_iter().map(Into::into).collect(), ..self }
    }

    #[must_use]
    pub fn fixed_by(self, fix: impl Into<Option<Fix>>) -> Finding {
        Finding { fix: fix.into(), ..self }
    }

    /// Removes the fix, for a reason.
    pub fn drop_fix(&mut self, decision: impl Into<String>) {
        self.fix = None;
        self.decision = Some(decision.into());
    }

    /// The sort key: heaviest first, then by wheel, code, subject, file and message.
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
            assert!(!explanation.decision.ends_with('.') && !explanation.decision.is_empty(), "{}", explanation.code);
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
    fn the_first_file_stands_for_all() {
        let finding = Finding::new(Code::SearchPath, "/x", "y").in_files(["b", "a", "b"]);
        assert_eq!((finding.file.as_deref(), finding.related), (Some("a"), vec!["b".to_owned()]));
    }
}
