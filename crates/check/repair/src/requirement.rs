//! Input: METADATA, and the distributions that the binaries need. Output: the changes of the
//! requirements.

use std::collections::BTreeSet;

use rocwheel_wheel::{Headers, canonical_name, raise_metadata_version};

use crate::plan::RequirementChange;

/// The parts of a requirement that a pin changes (PEP 508): name, extras, specifier and marker.
#[derive(Debug, PartialEq, Eq)]
struct Parts {
    name: String,
    extras: BTreeSet<String>,
    specifier: String,
    marker: Option<String>,
}

fn parse(text: &str) -> Parts {
    let (rest, marker) = match text.split_once(';') {
        Some((rest, marker)) => (rest, Some(marker.trim().to_owned())),
        None => (text, None),
    };
    let rest = rest.trim();
    let end = rest.find(|next: char| !(next.is_ascii_alphanumeric() || "-_.".contains(next))).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let rest = rest.trim_start();
    let (extras, specifier) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((extras, rest)) => (extras, rest),
        None => ("", rest),
    };
    let extras = extras.split(',').map(str::trim).filter(|extra| !extra.is_empty()).map(canonical_name).collect();
    let specifier = specifier.trim().trim_start_matches('(').trim_end_matches(')');
    let specifier = specifier.chars().filter(|next| !next.is_whitespace()).collect();
    Parts { name: canonical_name(name), extras, specifier, marker }
}

/// The requirement on ROCm: its version, and the extras that bring what is needed.
pub(crate) struct Rocm<'a> {
    pub(crate) version: &'a str,
    pub(crate) extras: BTreeSet<String>,
}

/// The extra that brings a distribution; every installation of ROCm has core.
pub(crate) fn extra_of(distribution: &str) -> Option<String> {
    distribution.strip_prefix("rocm-sdk-").filter(|extra| *extra != "core").map(str::to_owned)
}

/// `true` if METADATA already requires ROCm's packages.
pub(crate) fn requires_rocm(metadata: &Headers) -> bool {
    metadata.all("Requires-Dist").iter().any(|text| is_rocm(&parse(text).name))
}

/// `true` if METADATA requires torch without an extra.
pub(crate) fn requires_torch(metadata: &Headers) -> bool {
    let requirements = metadata.all("Requires-Dist");
    let mut parts = requirements.iter().map(|text| parse(text));
    parts.any(|parts| parts.name == "torch" && !parts.marker.is_some_and(|marker| marker.contains("extra")))
}

fn is_rocm(name: &str) -> bool {
    name == "rocm" || name.starts_with("rocm-sdk-")
}

/// The change that pins ROCm; empty if none is necessary.
pub(crate) fn pin(metadata: &Headers, rocm: &Rocm<'_>) -> Vec<RequirementChange> {
    let wanted = format!("=={}", rocm.version);
    let present: Vec<(String, Parts)> = metadata
        .all("Requires-Dist")
        .into_iter()
        .map(|text| (text.clone(), parse(&text)))
        .filter(|(_, parts)| parts.name == "rocm" && parts.marker.is_none())
        .collect();
    let mut extras: BTreeSet<String> = present.iter().flat_map(|(_, parts)| parts.extras.clone()).collect();
    extras.extend(rocm.extras.iter().cloned());
    let listed: Vec<&str> = extras.iter().map(String::as_str).collect();
    let after = if listed.is_empty() { format!("rocm{wanted}") } else { format!("rocm[{}]{wanted}", listed.join(",")) };
    if let [(_, parts)] = &present[..]
        && parts.specifier == wanted
        && parts.extras == extras
    {
        return Vec::new();
    }
    let mut changes =
        vec![RequirementChange { before: present.first().map(|(text, _)| text.clone()), after: Some(after) }];
    changes
        .extend(present.iter().skip(1).map(|(text, _)| RequirementChange { before: Some(text.clone()), after: None }));
    changes
}

/// The changes that remove the requirements on ROCm's packages, which a wheel that contains ROCm
/// does not need.
pub(crate) fn drop_rocm(metadata: &Headers) -> Vec<RequirementChange> {
    let all = metadata.all("Requires-Dist").into_iter();
    all.filter(|text| {
        let parts = parse(text);
        is_rocm(&parts.name) && !parts.marker.is_some_and(|marker| marker.contains("extra"))
    })
    .map(|text| RequirementChange { before: Some(text), after: None })
    .collect()
}

pub(crate) fn apply(metadata: &mut Headers, changes: &[RequirementChange]) -> Result<(), rocwheel_wheel::Error> {
    for change in changes {
        match (&change.before, &change.after) {
            (Some(before), Some(after)) => {
                metadata.replace("Requires-Dist", |value| (value == before).then(|| after.clone()))?;
            }
            (Some(before), None) => drop(metadata.remove("Requires-Dist", |value| value == before)),
            (None, Some(after)) => {
                metadata.push("Requires-Dist", after)?;
                raise_metadata_version(metadata, ["Requires-Dist"])?;
            }
            (None, None) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(requirements: &[&str], distributions: &[&str]) -> String {
        let lines: Vec<String> = requirements.iter().map(|text| format!("Requires-Dist: {text}\n")).collect();
        let mut metadata = Headers::parse(&format!("Name: a\n{}", lines.concat()));
        let extras = distributions.iter().filter_map(|distribution| extra_of(distribution)).collect();
        let rocm = Rocm { version: "7.1.0", extras };
        let changes = pin(&metadata, &rocm);
        apply(&mut metadata, &changes).unwrap();
        assert!(pin(&metadata, &rocm).is_empty());
        metadata.all("Requires-Dist").join(" | ")
    }

    #[test]
    fn torch_is_required_only_where_every_install_has_it() {
        let requires = |line: &str| requires_torch(&Headers::parse(&format!("Name: a\nRequires-Dist: {line}\n")));
        assert!(requires("torch") && requires("Torch >=2.5; python_version > '3.8'"));
        assert!(!requires("torchvision") && !requires("torch; extra == 'test'"));
    }

    #[test]
    fn rocm_is_pinned_once() {
        const CORE: &str = "rocm-sdk-core";
        const LIBRARIES: &str = "rocm-sdk-libraries";
        assert_eq!(pinned(&[], &[CORE, LIBRARIES]), "rocm[libraries]==7.1.0");
        assert_eq!(pinned(&[], &["rocm-sdk-hpc", LIBRARIES]), "rocm[hpc,libraries]==7.1.0");
        assert_eq!(pinned(&["numpy"], &[CORE]), "numpy | rocm==7.1.0");
        assert_eq!(pinned(&["ROCm [devel] >= 6", "numpy"], &[CORE, LIBRARIES]), "rocm[devel,libraries]==7.1.0 | numpy");
        assert_eq!(pinned(&["rocm[libraries] == 7.1.0"], &[CORE, LIBRARIES]), "rocm[libraries] == 7.1.0");
        assert_eq!(pinned(&["rocm==7.0", "rocm[libraries]"], &[CORE]), "rocm[libraries]==7.1.0");
        let marked = "rocm==6; extra == \"old\"";
        assert_eq!(pinned(&[marked], &[CORE]), format!("{marked} | rocm==7.1.0"));
    }

    #[test]
    fn a_wheel_with_rocm_inside_does_not_require_it() {
        let metadata =
            Headers::parse("Requires-Dist: rocm[libraries]==7\nRequires-Dist: torch\nRequires-Dist: rocm-sdk-core\n");
        assert!(requires_rocm(&metadata));
        assert_eq!(drop_rocm(&metadata).len(), 2);
        assert!(!requires_rocm(&Headers::parse("Requires-Dist: rocm-bootstrap\n")));
    }
}
