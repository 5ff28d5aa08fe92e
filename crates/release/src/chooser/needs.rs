//! Input: METADATA. Output: what the chooser has to know of requirements, without versions, so that
//! all builds of a wheel share one text.

use rocwheel_wheel::{Headers, canonical_name};
use serde::Serialize;

/// Extras and requirements of a distribution.
#[derive(Serialize)]
struct Needs {
    /// The extras that it offers, as written.
    e: Vec<String>,
    /// Name, extras that are asked for, the extra that asks (or empty), `sys_platform` (or empty).
    r: Vec<(String, Vec<String>, String, String)>,
}

/// The requirements as JSON, and the version of ROCm that they pin.
pub(crate) fn needs_of(headers: &Headers) -> (String, Option<String>) {
    needs_of_lists(headers.all("Provides-Extra"), &headers.all("Requires-Dist"))
}

/// The same of the values of Provides-Extra and Requires-Dist.
pub(crate) fn needs_of_lists(extras: Vec<String>, requires: &[String]) -> (String, Option<String>) {
    let mut needs = Needs { e: extras, r: Vec::new() };
    let mut rocm = None;
    for line in requires {
        let (requirement, marker) = line.split_once(';').unwrap_or((line, ""));
        let Some((name, extras, rest)) = parts(requirement) else { continue };
        if name == "rocm" && rocm.is_none() {
            rocm = pinned(rest).map(str::to_owned);
        }
        let value = |variable| compared(marker, variable).unwrap_or_default().to_owned();
        let need = (name, extras, value("extra"), value("sys_platform"));
        if !needs.r.contains(&need) {
            needs.r.push(need);
        }
    }
    needs.e.sort();
    needs.e.dedup();
    // Texts and lists of texts always become JSON.
    (serde_json::to_string(&needs).unwrap_or_default(), rocm)
}

/// Name, extras, and the rest of `rocm[libraries]==7.2.0`.
fn parts(requirement: &str) -> Option<(String, Vec<String>, &str)> {
    let requirement = requirement.trim();
    let is_name = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let end = requirement.find(|character| !is_name(character)).unwrap_or(requirement.len());
    let (name, rest) = requirement.split_at(end);
    if name.is_empty() {
        return None;
    }
    let rest = rest.trim_start();
    let (extras, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((extras, rest)) => (extras, rest),
        None => ("", rest),
    };
    let extras = extras.split(',').map(|extra| extra.trim().to_owned()).filter(|extra| !extra.is_empty());
    Some((canonical_name(name), extras.collect(), rest))
}

/// The version of `==7.2.0`, also in parentheses.
fn pinned(rest: &str) -> Option<&str> {
    let version = rest.trim().trim_start_matches('(').trim_end_matches(')').trim().strip_prefix("==")?;
    let version = version.trim_start_matches('=').trim();
    let is_plain = version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-_!".contains(&byte));
    (is_plain && !version.is_empty()).then_some(version)
}

/// The text that a marker compares a variable with by `==`.
fn compared<'a>(marker: &'a str, variable: &str) -> Option<&'a str> {
    let (_, rest) = marker.split_once(variable)?;
    let rest = rest.trim_start().strip_prefix("==")?.trim_start();
    let quote = rest.chars().next().filter(|quote| "'\"".contains(*quote))?;
    rest[1..].split_once(quote).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_lose_their_versions() {
        let headers = Headers::parse(
            "Metadata-Version: 2.1\n\
             Requires-Dist: rocm[libraries, devel] (==10.1.0a20261120)\n\
             Requires-Dist: Sym_Py>=1.13 ; python_version >= '3.9'\n\
             Requires-Dist: rocm-sdk-device-gfx942==1; sys_platform == \"linux\" and extra == \"device-gfx942\"\n\
             Requires-Dist: rocm-sdk-device-gfx942==2; extra == 'device-gfx942' and sys_platform=='linux'\n\
             Requires-Dist: @ strange\n\
             Provides-Extra: device-gfx942\n\n",
        );
        let (text, rocm) = needs_of(&headers);
        assert_eq!(rocm.as_deref(), Some("10.1.0a20261120"));
        assert_eq!(
            text,
            r#"{"e":["device-gfx942"],"r":[["rocm",["libraries","devel"],"",""],["sym-py",[],"",""],["rocm-sdk-device-gfx942",[],"device-gfx942","linux"]]}"#
        );
    }
}
