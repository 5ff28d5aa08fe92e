//! What is asked.

use rocwheel_delta::IndexSite;
use rocwheel_index::requirement::{InstallTarget, Requirement};
use rocwheel_progress::{Exit, Failure};
use rocwheel_wheel::PythonVersion;

pub struct Question<'a> {
    /// Requirements (PEP 508); without any, torch, or what else an index has.
    pub packages: Vec<String>,
    /// Requirements that count for what is installed anyway.
    pub constraints: Vec<String>,
    /// The version of ROCm, or its beginning.
    pub rocm: Option<String>,
    /// The indexes with packages for ROCm, and after them the public one.
    pub sites: &'a [IndexSite],
    /// Their addresses as installers take them.
    pub addresses: &'a [String],
    /// `true` if the last index is the public one.
    pub has_public: bool,
    /// GPU targets.
    pub gpus: Vec<String>,
    pub target: InstallTarget,
    pub pre_releases: bool,
}

impl Question<'_> {
    /// The number of indexes that are not the public one.
    pub(crate) fn own(&self) -> usize {
        self.sites.len() - usize::from(self.has_public)
    }

    /// The same with a change.
    pub(crate) fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut other = Question {
            packages: self.packages.clone(),
            constraints: self.constraints.clone(),
            rocm: self.rocm.clone(),
            gpus: self.gpus.clone(),
            target: self.target.clone(),
            ..*self
        };
        change(&mut other);
        other
    }
}

pub(crate) fn parsed(text: &str) -> Result<Requirement, Failure> {
    Requirement::parse(text).map_err(|reason| {
        Failure::message(format!("`{text}` is no requirement: {reason}"))
            .with_hint("write a package as pip takes it: `torch`, `torch==2.9.*`, `rocm[libraries]`")
            .with_exit(Exit::Usage)
    })
}

/// `3.12`, also for the build without the global lock.
pub(crate) fn python_of(python: PythonVersion) -> String {
    format!("{}.{}", python.major, python.minor)
}

/// A requirement with more extras: `rocm[libraries]==7` becomes `rocm[libraries,device-gfx942]==7`.
pub fn with_extras(requirement: &str, extras: &[String]) -> String {
    if extras.is_empty() {
        return requirement.to_owned();
    }
    let end = requirement.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter));
    let end = end.unwrap_or(requirement.len());
    let (name, rest) = requirement.split_at(end);
    let (own, rest) = match rest.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((own, rest)) => (own, rest),
        None => ("", rest),
    };
    let own = own.split(',').map(str::trim).filter(|extra| !extra.is_empty());
    let all: Vec<&str> = own.chain(extras.iter().map(String::as_str)).collect();
    format!("{name}[{}]{rest}", all.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extras_join_those_of_the_requirement() {
        let extras = ["device-gfx942".to_owned()];
        for (text, joined) in [
            ("rocm[libraries, devel]==7.1", "rocm[libraries,devel,device-gfx942]==7.1"),
            ("torch", "torch[device-gfx942]"),
            ("torch>=2; python_version > '3'", "torch[device-gfx942]>=2; python_version > '3'"),
        ] {
            assert_eq!(with_extras(text, &extras), joined);
        }
        assert_eq!(with_extras("torch[x]", &[]), "torch[x]");
    }
}
