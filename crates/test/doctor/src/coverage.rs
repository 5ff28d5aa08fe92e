//! Input: a finished examination. Output: what was not looked at, why, and what would decide it.
//! What `doctor` never looks at is in docs/doctor.md.

use serde::Serialize;

use crate::finding::Evidence;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unexamined {
    /// The thing: `the Python packages`.
    pub what: String,
    pub why: String,
    /// What answers the question.
    pub decides: String,
}

impl Unexamined {
    pub fn new(what: impl Into<String>, why: impl Into<String>, decides: impl Into<String>) -> Unexamined {
        Unexamined { what: what.into(), why: why.into(), decides: decides.into() }
    }

    /// The Python packages, and where they were looked for.
    pub(crate) fn packages(seen: &[Evidence]) -> Unexamined {
        let places: Vec<String> = seen.iter().map(|one| format!("{}: {}", one.path, one.value)).collect();
        Unexamined::new("the Python packages", places.join("; "), "`--venv DIR` or `--python FILE` names them")
    }
}
