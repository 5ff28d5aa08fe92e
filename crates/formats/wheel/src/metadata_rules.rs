//! Input: the headers of METADATA. Output: the rules of core metadata that they break, and who
//! refuses such a wheel ([`MetadataFault`]).
//!
//! The rules are those of the specification
//! (<https://packaging.python.org/en/latest/specifications/core-metadata/>) as `packaging` 26 and
//! `twine check` enforce them, and those that PyPI adds when a file is uploaded. Whether a licence
//! identifier is on SPDX's list and a classifier on PyPI's is not looked up: both lists grow.
//! Requirements are read elsewhere.

use std::collections::BTreeMap;

use crate::metadata::{METADATA_VERSION, first_version, format_version};
use crate::{Headers, names};

/// A rule that METADATA breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataFault {
    /// The field: `Requires-Python`.
    pub field: String,
    /// The problem, as a sentence without a full stop.
    pub message: String,
    /// Who refuses the wheel for it.
    pub refused_by: RefusedBy,
}

/// Who refuses a wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusedBy {
    /// No reader refuses it, but readers do not find what was meant.
    Nobody,
    /// PyPI, which does not accept it; installers do.
    Index,
    /// An installer.
    Installer,
}

/// The versions of core metadata that exist, without 2.0, which was never finished.
const VERSIONS: [&str; 9] = ["1.0", "1.1", "1.2", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6"];

/// The fields of core metadata, and `true` for those that may be there several times.
const FIELDS: [(&str, bool); 32] = [
    ("Metadata-Version", false),
    ("Name", false),
    ("Version", false),
    ("Dynamic", true),
    ("Platform", true),
    ("Supported-Platform", true),
    ("Summary", false),
    ("Description", false),
    ("Description-Content-Type", false),
    ("Keywords", false),
    ("Home-page", false),
    ("Download-URL", false),
    ("Author", false),
    ("Author-email", false),
    ("Maintainer", false),
    ("Maintainer-email", false),
    ("License", false),
    ("License-Expression", false),
    ("License-File", true),
    ("Classifier", true),
    ("Requires-Dist", true),
    ("Requires-Python", false),
    ("Requires-External", true),
    ("Project-URL", true),
    ("Provides-Extra", true),
    ("Provides-Dist", true),
    ("Obsoletes-Dist", true),
    ("Requires", true),
    ("Provides", true),
    ("Obsoletes", true),
    ("Import-Name", true),
    ("Import-Namespace", true),
];

/// The first parts of PyPI's classifiers. `Private` is on no list, which keeps a wheel from PyPI:
/// who writes it wants that.
const CLASSIFIERS: [&str; 11] = [
    "Development Status",
    "Environment",
    "Framework",
    "Intended Audience",
    "License",
    "Natural Language",
    "Operating System",
    "Private",
    "Programming Language",
    "Topic",
    "Typing",
];

/// Longest Summary and longest label of a Project-URL in characters, as PyPI takes them.
const LONGEST_SUMMARY: usize = 512;
const LONGEST_LABEL: usize = 32;

/// The rules that the headers break, in the order of the fields.
pub fn metadata_faults(headers: &Headers) -> Vec<MetadataFault> {
    let mut rules = Rules { faults: Vec::new() };
    rules.structure(headers);
    for (field, value) in headers.iter() {
        if let Some(reason) = reason_against(field, &value) {
            rules.refuse(field, format!("`{field}: {}` {reason}", shortened(&value)));
        }
    }
    rules.requires_python(headers);
    rules.faults
}

/// The faults that were found.
struct Rules {
    faults: Vec<MetadataFault>,
}

impl Rules {
    /// Adds a fault for which PyPI refuses a wheel.
    fn refuse(&mut self, field: &str, message: String) {
        self.faults.push(MetadataFault { field: field.to_owned(), message, refused_by: RefusedBy::Index });
    }

    /// Checks which fields there are.
    fn structure(&mut self, headers: &Headers) {
        match headers.get(METADATA_VERSION) {
            None => self.refuse(METADATA_VERSION, format!("there is no `{METADATA_VERSION}`")),
            Some(version) if !VERSIONS.contains(&version.as_str()) => {
                self.refuse(METADATA_VERSION, format!("`{version}` is no version of core metadata"));
            }
            Some(_) => {}
        }
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (field, _) in headers.iter() {
            *counts.entry(field.to_ascii_lowercase()).or_default() += 1;
        }
        for (name, count) in counts {
            let Some((field, is_list)) = FIELDS.iter().find(|(field, _)| field.eq_ignore_ascii_case(&name)) else {
                self.refuse(&name, format!("core metadata has no field `{name}`"));
                continue;
            };
            if count > 1 && !is_list {
                self.refuse(field, format!("`{field}` is there {count} times"));
            }
            // setuptools wrote License-File before it was a field, and every reader allows that.
            let is_early = *field != "License-File" && is_newer(headers, field);
            if let Some((major, minor)) = first_version(field).filter(|_| is_early) {
                let version = headers.get(METADATA_VERSION).unwrap_or_default();
                self.refuse(field, format!("core metadata has `{field}` since {major}.{minor}, and this is {version}"));
            }
        }
        if headers.get("License").is_some() && headers.get("License-Expression").is_some() {
            self.refuse("License", "`License` and `License-Expression` exclude each other".to_owned());
        }
        if headers.is_folded("Summary") {
            self.refuse("Summary", "`Summary` has more than one line".to_owned());
        }
        if headers.get("Description").is_some() && !headers.body().trim().is_empty() {
            self.refuse("Description", "there is a `Description` and another one behind the fields".to_owned());
        }
        if let Some(line) = headers.broken_line() {
            let message = format!(
                "`{}` is no field: every reader takes it, and the fields behind it, for the description",
                shortened(line)
            );
            self.faults.push(MetadataFault { field: "line".to_owned(), message, refused_by: RefusedBy::Nobody });
        }
    }

    /// uv accepts a few old spellings of versions, and refuses a version without an operator. pip
    /// warns.
    fn requires_python(&mut self, headers: &Headers) {
        const FIELD: &str = "Requires-Python";
        let Some(value) = headers.get(FIELD).filter(|value| !value.is_empty()) else { return };
        if value.parse::<pep440_rs::VersionSpecifiers>().is_ok() {
            return;
        }
        let mut parts = value.split(',').map(str::trim_start);
        let has_operators = parts.all(|part| part.starts_with(['<', '>', '=', '!', '~']));
        let refused_by = if has_operators { RefusedBy::Index } else { RefusedBy::Installer };
        let message = format!("`{FIELD}: {}` is no list of version specifiers, and pip ignores it", shortened(&value));
        self.faults.push(MetadataFault { field: FIELD.to_owned(), message, refused_by });
    }
}

/// `true` if a field is newer than the Metadata-Version.
fn is_newer(headers: &Headers, field: &str) -> bool {
    let known = headers.get(METADATA_VERSION).filter(|text| VERSIONS.contains(&text.as_str()));
    let version = known.and_then(|_| format_version(headers));
    first_version(field).zip(version).is_some_and(|(first, version)| version < first)
}

/// Why PyPI does not take a value of a field, as a predicate.
fn reason_against(field: &str, value: &str) -> Option<String> {
    let field = FIELDS.iter().map(|(known, _)| *known).find(|known| known.eq_ignore_ascii_case(field))?;
    match field {
        "Version" => value.parse::<pep440_rs::Version>().is_err().then(|| "is no version (PEP 440)".to_owned()),
        "Summary" => (value.chars().count() > LONGEST_SUMMARY)
            .then(|| format!("has more than the {LONGEST_SUMMARY} characters that PyPI takes")),
        "Dynamic" => {
            let is_field = FIELDS.iter().any(|(known, _)| known.eq_ignore_ascii_case(value));
            let is_fixed = ["Name", "Version", METADATA_VERSION].iter().any(|fixed| fixed.eq_ignore_ascii_case(value));
            (!is_field || is_fixed).then(|| "is no field that a build may change".to_owned())
        }
        "Description-Content-Type" => content_type(value).map(str::to_owned),
        "Home-page" | "Download-URL" => (!is_address(value)).then(|| "is no address with `https://`".to_owned()),
        "Author-email" | "Maintainer-email" => (!has_mail_address(value)).then(|| "is no mail address".to_owned()),
        "License-Expression" => {
            (!is_license_expression(value)).then(|| "is no SPDX expression, such as `MIT OR Apache-2.0`".to_owned())
        }
        "License-File" => license_path(value).map(str::to_owned),
        "Classifier" => {
            let category = value.split(" :: ").next().unwrap_or_default();
            let is_known = CLASSIFIERS.contains(&category) && value.contains(" :: ");
            (!is_known).then(|| "is no classifier that PyPI knows".to_owned())
        }
        "Project-URL" => project_address(value),
        "Provides-Extra" => names::check_name(value).is_err().then(|| "is no name of an extra".to_owned()),
        "Requires-Dist" | "Provides-Dist" | "Obsoletes-Dist" => {
            let is_direct = value.split(';').next().is_some_and(|required| required.contains('@'));
            is_direct.then(|| "leads to an address, which only installers accept".to_owned())
        }
        _ => None,
    }
}

/// Why a content type is not one of the three, with UTF-8 and a variant of Markdown.
fn content_type(value: &str) -> Option<&'static str> {
    let mut parts = value.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    if !["text/plain", "text/x-rst", "text/markdown"].contains(&kind.as_str()) {
        return Some("is none of `text/plain`, `text/x-rst` and `text/markdown`");
    }
    for parameter in parts {
        let Some((name, value)) = parameter.split_once('=') else {
            return Some("has a parameter without a value");
        };
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "charset" if !value.eq_ignore_ascii_case("UTF-8") => return Some("has another character set than UTF-8"),
            "variant" if kind == "text/markdown" && !["GFM", "CommonMark"].contains(&value) => {
                return Some("has another variant of Markdown than `GFM` and `CommonMark`");
            }
            _ => {}
        }
    }
    None
}

fn is_address(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let rest = lower.strip_prefix("https:").or_else(|| lower.strip_prefix("http:"));
    rest.is_some_and(|rest| {
        rest.trim_start_matches('/').len() > 1
            && !rest.contains(|sign: char| sign.is_whitespace() || sign.is_control() || "<>\"{}|\\^`".contains(sign))
    })
}

/// `true` if the first of the names with addresses has an address (RFC 822), or none at all.
fn has_mail_address(value: &str) -> bool {
    let address = value.split_once('<').map_or(value, |(_, rest)| rest.split('>').next().unwrap_or_default());
    let address = address.split(',').next().unwrap_or_default().trim();
    let is_mail = address.rsplit_once('@').is_some_and(|(user, domain)| {
        !user.is_empty() && domain.contains('.') && !domain.starts_with('.') && !domain.ends_with('.')
    });
    address.is_empty() || is_mail && !address.contains(char::is_whitespace)
}

/// `true` for identifiers with `AND`, `OR` and `WITH` between them, and parentheses.
fn is_license_expression(value: &str) -> bool {
    let spaced = value.replace('(', " ( ").replace(')', " ) ");
    let (mut depth, mut wants_name) = (0_u32, true);
    for word in spaced.split_whitespace() {
        let is_operator = ["AND", "OR", "WITH"].iter().any(|operator| word.eq_ignore_ascii_case(operator));
        match word {
            "(" if wants_name => depth += 1,
            ")" if !wants_name && depth > 0 => depth -= 1,
            _ if is_operator && !wants_name => wants_name = true,
            _ if !is_operator && wants_name && word.bytes().all(is_of_license) => wants_name = false,
            _ => return false,
        }
    }
    depth == 0 && !wants_name
}

fn is_of_license(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-+:".contains(&byte)
}

fn license_path(value: &str) -> Option<&'static str> {
    if value.starts_with('/') || value.get(1..3).is_some_and(|drive| drive == ":\\" || drive == ":/") {
        Some("is an absolute path")
    } else if value.split('/').any(|part| part == "..") {
        Some("leaves its folder through `..`")
    } else if value.contains('\\') {
        Some("has `\\` between its parts instead of `/`")
    } else if value.contains('*') {
        Some("is a pattern instead of a path")
    } else {
        None
    }
}

fn project_address(value: &str) -> Option<String> {
    let (label, address) = value.split_once(',').map_or(("", value), |(label, address)| (label.trim(), address.trim()));
    if label.is_empty() {
        Some("has no label in front of a comma".to_owned())
    } else if label.chars().count() > LONGEST_LABEL {
        Some(format!("has a label of more than {LONGEST_LABEL} characters"))
    } else if !is_address(address) {
        Some("has no address with `https://` behind its label".to_owned())
    } else {
        None
    }
}

/// A value for a message, at most 80 characters long.
fn shortened(value: &str) -> String {
    const LONGEST: usize = 80;
    let mut shortened: String = value.chars().take(LONGEST).collect();
    if shortened.len() < value.len() {
        shortened.push('…');
    }
    shortened
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(version: &str, lines: &str) -> Vec<MetadataFault> {
        let text = format!("Metadata-Version: {version}\nName: x\nVersion: 1.0\n{lines}");
        metadata_faults(&Headers::parse(&text))
    }

    /// `twine check` 6 and `packaging` 26 were given each of these.
    #[test]
    fn what_twine_refuses_is_a_fault() {
        for (version, lines, is_taken) in [
            ("2.1", "", true),
            ("2.6", "", true),
            ("9.9", "", false),
            ("2.0", "", false),
            ("foo", "", false),
            ("2.1", "Requires-Python: >=3.8,<4", true),
            ("2.1", "Requires-Python: >= 3.8 , < 4", true),
            ("2.1", "Requires-Python: ", true),
            ("2.1", "Requires-Python: >=3.8.*", false),
            ("2.1", "Requires-Python: 3.8", false),
            ("2.1", "Requires-Python: banana", false),
            ("2.1", "License-File: LICENSE.txt", true),
            ("2.4", "License-File: LICENSE.txt", true),
            ("2.4", "License-File: ../LICENSE", false),
            ("2.4", "License-File: /LICENSE", false),
            ("2.4", "License-File: LIC*", false),
            ("2.4", "License-Expression: MIT", true),
            ("2.4", "License-Expression: mit or (Apache-2.0+ AND LicenseRef-x)", true),
            ("2.4", "License-Expression: GPL-2.0-only WITH Classpath-exception-2.0", true),
            ("2.1", "License-Expression: MIT", false),
            ("2.4", "License-Expression: Foo License", false),
            ("2.4", "License-Expression: MIT AND", false),
            ("2.4", "License-Expression: MIT/Apache-2.0", false),
            ("2.1", "Dynamic: Requires-Dist", false),
            ("2.2", "Dynamic: Requires-Dist", true),
            ("2.2", "Dynamic: Version", false),
            ("2.2", "Dynamic: Nonsense", false),
            ("1.0", "Description-Content-Type: text/markdown", false),
            ("2.1", "Description-Content-Type: text/markdown; charset=utf-8; variant=GFM", true),
            ("2.1", "Description-Content-Type: TEXT/X-RST; charset=\"UTF-8\"", true),
            ("2.1", "Description-Content-Type: text/html", false),
            ("2.1", "Description-Content-Type: text/markdown; charset=latin-1", false),
            ("2.1", "Description-Content-Type: text/markdown; variant=gfm", false),
            ("2.1", "Description-Content-Type: text/markdown; UTF-8", false),
            ("2.1", "Project-URL: Home, https://x.org", true),
            ("2.1", "Keywords: a,b c", true),
            ("2.1", "Keywords: a\nKeywords: b", false),
            ("2.1", "Version: 2.0", false),
            ("2.1", "Unknown-Field: x", false),
            ("2.1", "Platform: any\nPlatform: linux", true),
            ("2.1", "Provides-Extra: a_b", true),
            ("2.1", "Provides-Extra: -a", false),
            ("2.1", "Requires-External: C", true),
            ("2.4", "Import-Name: x", false),
            ("2.5", "Import-Name: x", true),
            ("2.1", "Summary: one\n two", false),
            ("2.1", "Description: one\n\ntwo", false),
            ("2.1", "Author-email: A <a@x.org>, B <b@x.org>", true),
            ("2.1", "Classifier: Programming Language :: Python :: 3", true),
            ("2.1", "Classifier: Private :: Do Not Upload", true),
        ] {
            let found = faults(version, lines);
            assert_eq!(found.is_empty(), is_taken, "{version} {lines}: {found:?}");
        }
        assert_eq!(metadata_faults(&Headers::parse("Name: x\nVersion: 1.0\n")).len(), 1);
    }

    /// PyPI's own rules, from its sources: twine does not check them.
    #[test]
    fn what_pypi_refuses_beside_is_a_fault() {
        for lines in [
            "Classifier: Nonsense :: Foo",
            "Project-URL: https://x.org",
            "Project-URL: Home, x.org",
            "Project-URL: Home, ftp://x.org",
            "Project-URL: A label of more than thirty-two chars, https://x.org",
            "Home-page: UNKNOWN",
            "Download-URL: nonsense",
            "Author-email: nonsense",
            "Maintainer-email: A <a at x.org>",
            "License: MIT\nLicense-Expression: MIT",
            "Requires-Dist: foo @ https://x.org/foo.whl",
        ] {
            let found = faults("2.4", lines);
            let [fault] = &found[..] else { panic!("{lines}: {found:?}") };
            assert_eq!(fault.refused_by, RefusedBy::Index, "{lines}");
        }
        assert_eq!(faults("2.1", "Requires-Python: 3.8")[0].refused_by, RefusedBy::Installer);
        assert_eq!(faults("2.1", "Requires-Python: >=3.8.*")[0].refused_by, RefusedBy::Index);
    }

    #[test]
    fn a_line_that_ends_the_fields_is_named() {
        let found = faults("2.1", "nonsense\nRequires-Dist: foo\n");
        let [fault] = &found[..] else { panic!("{found:?}") };
        assert_eq!(fault.refused_by, RefusedBy::Nobody);
        assert!(fault.message.starts_with("`nonsense` is no field"), "{fault:?}");
        assert_eq!(faults("2.1", "\nA description\n"), []);
    }
}
