//! Why a library is missing, and the findings that say so.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_progress::in_backticks;

use super::{Context, listed};
use crate::finding::{Code, Finding, Severity};
use crate::fix::{self, Fix};

/// By the number of the wheel and the reason: the missing libraries, and the files that need one of
/// them.
pub(crate) type Groups<'a> = BTreeMap<(usize, Verdict), (BTreeSet<&'a str>, BTreeSet<&'a str>)>;

/// Why a library is missing, and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Verdict {
    pub(super) code: Code,
    severity: Severity,
    /// Text before the word "needs" in the message.
    pub(super) before: String,
    /// Text after the names of the libraries.
    pub(super) behind: String,
    /// All names of a list that `behind` may shorten.
    names: Vec<String>,
    fix: Option<Fix>,
    /// What the user has to decide because there is no fix, if more is known than the code tells.
    decision: Option<String>,
    /// Distributions that were not given and that decide whether the library is missing.
    depends_on: Vec<String>,
    /// `false` for files that nothing is seen to load.
    pub(super) decides: bool,
}

impl Verdict {
    pub(crate) fn new(code: Code, behind: impl Into<String>) -> Verdict {
        let severity = code.explanation().severity;
        Verdict {
            code,
            severity,
            before: String::new(),
            behind: behind.into(),
            names: Vec::new(),
            fix: None,
            decision: None,
            depends_on: Vec::new(),
            decides: true,
        }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    pub(crate) fn weighing(self, severity: Severity) -> Verdict {
        Verdict { severity, ..self }
    }

    pub(crate) fn naming<T: Into<String>>(self, names: impl IntoIterator<Item = T>) -> Verdict {
        Verdict { names: names.into_iter().map(Into::into).collect(), ..self }
    }

    pub(crate) fn fixed_by(self, fix: Option<Fix>) -> Verdict {
        Verdict { fix, ..self }
    }

    /// Sets the fix, or what has to be decided because there is none.
    pub(super) fn mended_by(self, fix: Result<Fix, Option<String>>) -> Verdict {
        match fix {
            Ok(fix) => Verdict { fix: Some(fix), ..self },
            Err(decision) => Verdict { decision, ..self },
        }
    }

    /// Makes the answer depend on distributions that were not given. Without a fix, the search for
    /// them is proposed.
    pub(crate) fn open(self, context: &Context<'_>, wheel: usize, distributions: Vec<String>) -> Verdict {
        let verdict = Verdict { depends_on: distributions, ..self };
        if verdict.fix.is_some() {
            return verdict;
        }
        let installed = &context.site.distributions[wheel];
        if context.has_asked() {
            let list = in_backticks(&verdict.depends_on);
            return Verdict { decision: Some(format!("name a place that has {list}, with `--with`")), ..verdict };
        }
        match fix::ask(installed) {
            Some(fix) => Verdict { fix: Some(fix), decision: None, ..verdict },
            None => verdict,
        }
    }

    /// Gives a finding the fix of this verdict, and what it depends on.
    pub(crate) fn settle(self, finding: Finding) -> Finding {
        Finding { fix: self.fix, decision: self.decision, depends_on: self.depends_on, ..finding }
    }
}

/// Reports libraries that are missing for one reason as one finding, with all files that need one
/// of them.
pub(crate) fn say(context: &Context<'_>, groups: Groups<'_>, findings: &mut Vec<Finding>) {
    for ((wheel, verdict), (names, files)) in groups {
        let message = format!("{}needs {}{}", verdict.before, listed(names.iter().copied()), verdict.behind);
        let subject = names.into_iter().collect::<Vec<_>>().join(", ");
        let mut finding = context.finding((verdict.code, wheel), subject, message, files).naming(verdict.names);
        finding.severity = verdict.severity;
        finding.decision = verdict.decision;
        finding.depends_on = verdict.depends_on;
        finding.decides = verdict.decides;
        // A repair takes libraries from this machine, which has glibc.
        finding.fix = verdict.fix.filter(|fix| !fix.is_repair() || !context.is_for_musl(wheel));
        findings.push(finding);
    }
}
