//! Input: METADATA. Output: what the chooser has to know of requirements. Versions that all builds
//! of a wheel have in common with themselves are placeholders, so that the builds share one text.

use pep440_rs::{Operator, Version, VersionSpecifiers};
use rocwheel_wheel::{Headers, canonical_name};
use serde::Serialize;

/// Extras and requirements of a distribution.
#[derive(Serialize)]
struct Needs {
    /// The extras that it offers, as written.
    e: Vec<String>,
    r: Vec<Need>,
}

/// A requirement: name, extras that are asked for, marker (or empty), and specifier (or empty).
///
/// In a specifier, `{v}` is the version of the distribution, `{l}` its local part, and `{r}` the
/// version of ROCm that it pins.
#[derive(PartialEq, Eq, Serialize)]
struct Need(String, Vec<String>, String, String);

/// The versions that placeholders are for.
struct OwnVersions {
    own: Option<Version>,
    rocm: Option<Version>,
}

/// The requirements as JSON, and the version of ROCm that they pin.
pub fn needs_of(headers: &Headers) -> (String, Option<String>) {
    let version = headers.get("Version").and_then(|text| text.parse().ok());
    needs_of_lists(version, headers.all("Provides-Extra"), &headers.all("Requires-Dist"))
}

/// The same of a version and the values of Provides-Extra and Requires-Dist.
pub fn needs_of_lists(own: Option<Version>, mut extras: Vec<String>, requires: &[String]) -> (String, Option<String>) {
    let read = requires.iter().filter_map(|line| {
        let (requirement, marker) = line.split_once(';').unwrap_or((line, ""));
        parts(requirement).map(|parts| (parts, marker.trim()))
    });
    let read: Vec<(RequirementParts<'_>, &str)> = read.collect();
    let rocm = read.iter().find(|(parts, _)| parts.name == "rocm" && pinned(parts.specifier).is_some());
    let rocm = rocm.and_then(|(parts, _)| pinned(parts.specifier)).map(str::to_owned);
    let versions = OwnVersions { own, rocm: rocm.as_deref().and_then(|text| text.parse().ok()) };
    let mut needs: Vec<Need> = Vec::new();
    for (parts, marker) in read {
        let need = Need(parts.name, parts.extras, marker.to_owned(), versions.shared_text(parts.specifier));
        if !needs.contains(&need) {
            needs.push(need);
        }
    }
    extras.sort();
    extras.dedup();
    // Texts and lists of texts always become JSON.
    (serde_json::to_string(&Needs { e: extras, r: needs }).unwrap_or_default(), rocm)
}

impl OwnVersions {
    /// A specifier in its canonical form with placeholders; one that cannot be read unchanged.
    fn shared_text(&self, specifier: &str) -> String {
        let specifier = specifier.trim().trim_start_matches('(').trim_end_matches(')').trim();
        let Ok(clauses) = specifier.parse::<VersionSpecifiers>() else { return specifier.to_owned() };
        let clauses = clauses.iter().map(|clause| match clause.operator() {
            Operator::Equal | Operator::ExactEqual => format!("=={}", self.placeholder(clause.version())),
            _ => clause.to_string(),
        });
        clauses.collect::<Vec<_>>().join(",")
    }

    fn placeholder(&self, version: &Version) -> String {
        if self.own.as_ref() == Some(version) {
            return "{v}".to_owned();
        }
        if self.rocm.as_ref() == Some(version) {
            return "{r}".to_owned();
        }
        match &self.own {
            Some(own) if version.is_local() && own.local() == version.local() => {
                format!("{}{{l}}", version.clone().without_local())
            }
            _ => version.to_string(),
        }
    }
}

/// A requirement without its marker.
struct RequirementParts<'a> {
    name: String,
    extras: Vec<String>,
    /// What follows, such as `==7.2.0`.
    specifier: &'a str,
}

fn parts(requirement: &str) -> Option<RequirementParts<'_>> {
    let requirement = requirement.trim();
    let end = requirement.find(|character: char| !character.is_ascii_alphanumeric() && !"-_.".contains(character));
    let (name, rest) = requirement.split_at(end.unwrap_or(requirement.len()));
    if name.is_empty() {
        return None;
    }
    let rest = rest.trim_start();
    let (extras, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((extras, rest)) => (extras, rest),
        None => ("", rest),
    };
    let extras = extras.split(',').map(|extra| extra.trim().to_owned()).filter(|extra| !extra.is_empty());
    Some(RequirementParts { name: canonical_name(name), extras: extras.collect(), specifier: rest })
}

/// The version of `==7.2.0`, also in parentheses.
fn pinned(rest: &str) -> Option<&str> {
    let version = rest.trim().trim_start_matches('(').trim_end_matches(')').trim().strip_prefix("==")?;
    let version = version.trim_start_matches('=').trim();
    let is_plain = version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-_!".contains(&byte));
    (is_plain && !version.is_empty()).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_of_a_wheel_share_one_text() {
        let text = |day: u32| {
            let headers = Headers::parse(&format!(
                "Metadata-Version: 2.1\nName: torchvision\nVersion: 0.25.0+rocm10.1.0a{day}\n\
                 Requires-Dist: rocm[libraries, devel] (==10.1.0.a{day})\n\
                 Requires-Dist: Sym_Py >=1.13,<2 ; python_version >= '3.9'\n\
                 Requires-Dist: torch==2.10.0+rocm10.1.0a{day}\n\
                 Requires-Dist: triton===3.5.0\n\
                 Requires-Dist: vision-device-gfx942==0.25.0+rocm10.1.0a{day}; extra == 'device-gfx942'\n\
                 Requires-Dist: vision-device-gfx942==0.25.0+rocm10.1.0a{day}; extra == 'device-gfx942'\n\
                 Requires-Dist: odd>=1.x\n\
                 Requires-Dist: @ strange\n\
                 Provides-Extra: device-gfx942\n\n"
            ));
            needs_of(&headers)
        };
        let (first, rocm) = text(20_261_120);
        assert_eq!(rocm.as_deref(), Some("10.1.0.a20261120"));
        assert_eq!(text(20_261_121).0, first);
        let needs: serde_json::Value = serde_json::from_str(&first).unwrap();
        let expected = serde_json::json!({"e": ["device-gfx942"], "r": [
            ["rocm", ["libraries", "devel"], "", "=={r}"],
            ["sym-py", [], "python_version >= '3.9'", ">=1.13,<2"],
            ["torch", [], "", "==2.10.0{l}"],
            ["triton", [], "", "==3.5.0"],
            ["vision-device-gfx942", [], "extra == 'device-gfx942'", "=={v}"],
            ["odd", [], "", ">=1.x"],
        ]});
        assert_eq!(needs, expected);
    }
}
