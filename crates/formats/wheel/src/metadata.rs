//! Input: the properties of a distribution. Output: the text of METADATA and PKG-INFO, core
//! metadata 2.4 (PEP 566, 621, 639, 643, 685), in a fixed order of fields.

use std::fmt::Write as _;

use crate::field_value::check_value;
use crate::{Error, Headers, names};

pub(crate) const METADATA_VERSION: &str = "Metadata-Version";

/// Fields of core metadata 2.4, except Name, Version and License-File, which [`Metadata::text`]
/// gets as arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// A summary in one line.
    pub summary: Option<String>,
    /// Words, separated by commas.
    pub keywords: Option<String>,
    /// Name of the author.
    pub author: Option<String>,
    /// E-mail address of the author; `Name <mail>` is allowed.
    pub author_email: Option<String>,
    /// SPDX expression (PEP 639).
    pub license_expression: Option<String>,
    /// Trove classifiers. Their order is kept.
    pub classifiers: Vec<String>,
    /// Labels and URLs (PEP 753). Their order is kept.
    pub project_urls: Vec<(String, String)>,
    /// Version specifiers: `>=3.10`.
    pub requires_python: Option<String>,
    /// Requirements with their markers (PEP 508). Their order is kept.
    pub requires_dist: Vec<String>,
    /// Normalised names of extras (PEP 685). Their order is kept.
    pub provides_extra: Vec<String>,
    /// Fields that a build of the sdist may change (PEP 643). Each gets its own line: uv takes
    /// several on one line, or lower-cased names, for static metadata.
    pub dynamic: Vec<String>,
    /// The long description.
    pub description: Option<Description>,
}

/// The long description and its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// MIME type: `text/markdown`, `text/x-rst`, `text/plain`.
    pub content_type: String,
    /// The description in the markup of `content_type`.
    pub text: String,
}

impl Metadata {
    /// The text of METADATA or PKG-INFO. `license_files` are paths below `dist-info/licenses/`, or
    /// below the root of an sdist. An error names the field whose value does not fit on its line.
    pub fn text(&self, name: &str, version: &str, license_files: &[String]) -> Result<String, Error> {
        names::check_name(name)?;
        names::check_version(version)?;
        let mut out = String::new();
        write_field(&mut out, "Metadata-Version", "2.4")?;
        write_field(&mut out, "Name", name)?;
        write_field(&mut out, "Version", version)?;
        for value in &self.dynamic {
            write_field(&mut out, "Dynamic", value)?;
        }
        let optional = [
            ("Summary", &self.summary),
            ("Keywords", &self.keywords),
            ("Author", &self.author),
            ("Author-email", &self.author_email),
            ("License-Expression", &self.license_expression),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                write_field(&mut out, name, value)?;
            }
        }
        for value in license_files {
            write_field(&mut out, "License-File", value)?;
        }
        for value in &self.classifiers {
            write_field(&mut out, "Classifier", value)?;
        }
        for (label, address) in &self.project_urls {
            check_label(label)?;
            write_field(&mut out, "Project-URL", &format!("{label}, {address}"))?;
        }
        if let Some(value) = &self.requires_python {
            write_field(&mut out, "Requires-Python", value)?;
        }
        for value in &self.requires_dist {
            write_field(&mut out, "Requires-Dist", value)?;
        }
        for value in &self.provides_extra {
            check_extra(value)?;
            write_field(&mut out, "Provides-Extra", value)?;
        }
        if let Some(description) = &self.description {
            write_field(&mut out, "Description-Content-Type", &description.content_type)?;
            out.push('\n');
            out.push_str(&description.text);
            if !description.text.ends_with('\n') {
                out.push('\n');
            }
        }
        Ok(out)
    }
}

fn write_field(out: &mut String, name: &str, value: &str) -> Result<(), Error> {
    check_value(name, value)?;
    let _ = writeln!(out, "{name}: {value}");
    Ok(())
}

/// The fields that 1.0 does not have, by the first version of core metadata that has them
/// (<https://packaging.python.org/en/latest/specifications/core-metadata/>).
const NEWER_FIELDS: [(FormatVersion, &[&str]); 6] = [
    ((1, 1), &["Classifier", "Download-URL", "Obsoletes", "Provides", "Requires", "Supported-Platform"]),
    (
        (1, 2),
        &[
            "Maintainer",
            "Maintainer-email",
            "Obsoletes-Dist",
            "Project-URL",
            "Provides-Dist",
            "Requires-Dist",
            "Requires-External",
            "Requires-Python",
        ],
    ),
    ((2, 1), &["Description-Content-Type", "Provides-Extra"]),
    ((2, 2), &["Dynamic"]),
    ((2, 4), &["License-Expression", "License-File"]),
    ((2, 5), &["Import-Name", "Import-Namespace"]),
];

/// A version of core metadata: `(2, 4)`.
pub(crate) type FormatVersion = (u32, u32);

/// The value of Metadata-Version; `None` if it is missing or no version.
pub(crate) fn format_version(headers: &Headers) -> Option<FormatVersion> {
    let text = headers.get(METADATA_VERSION)?;
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The first version of core metadata that has a field; `None` for those of 1.0 and others.
pub(crate) fn first_version(field: &str) -> Option<FormatVersion> {
    let newer = NEWER_FIELDS.iter().find(|(_, names)| names.iter().any(|name| name.eq_ignore_ascii_case(field)));
    newer.map(|(version, _)| *version)
}

/// Raises Metadata-Version to the first one that has all these fields: validators refuse a field
/// that is newer. No version makes an older file invalid.
///
/// # Errors
/// Those of [`Headers::set`].
pub fn raise_metadata_version<'f>(
    headers: &mut Headers,
    fields: impl IntoIterator<Item = &'f str>,
) -> Result<(), Error> {
    let needed = fields.into_iter().filter_map(first_version).max();
    match (format_version(headers), needed) {
        (Some(known), Some(needed)) if known < needed => {
            headers.set(METADATA_VERSION, &format!("{}.{}", needed.0, needed.1))
        }
        _ => Ok(()),
    }
}

/// `true` if builders and installers take the fields of a source distribution for those of its
/// wheels, unless Dynamic names them (PEP 643).
pub fn is_static(headers: &Headers) -> bool {
    format_version(headers).is_some_and(|version| version >= (2, 2))
}

fn check_label(label: &str) -> Result<(), Error> {
    let reason = if label.chars().count() > 32 {
        "a label has at most 32 characters"
    } else if label.contains(',') || label.is_empty() {
        "a label is not empty and has no comma"
    } else {
        return Ok(());
    };
    Err(Error::Metadata { field: "Project-URL".to_owned(), value: label.to_owned(), reason })
}

fn check_extra(extra: &str) -> Result<(), Error> {
    if names::check_name(extra).is_ok() && names::canonical_name(extra) == extra {
        return Ok(());
    }
    let reason = "an extra is lower case, with `-` between its words (PEP 685)";
    Err(Error::Metadata { field: "Provides-Extra".to_owned(), value: extra.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_place() {
        let metadata = Metadata {
            summary: Some("ROCm".to_owned()),
            license_expression: Some("MIT AND Apache-2.0".to_owned()),
            classifiers: vec!["Private :: Do Not Upload".to_owned()],
            project_urls: vec![("Homepage".to_owned(), "https://example.org".to_owned())],
            requires_python: Some(">=3.10".to_owned()),
            requires_dist: vec!["rocm-sdk-core==6.4.0".to_owned()],
            provides_extra: vec!["device-gfx942".to_owned()],
            dynamic: vec!["Requires-Dist".to_owned(), "Provides-Extra".to_owned()],
            description: Some(Description { content_type: "text/markdown".to_owned(), text: "# ROCm".to_owned() }),
            ..Metadata::default()
        };
        let text = metadata.text("rocm", "6.4.0", &["LICENSE".to_owned()]).unwrap();
        let expected = "Metadata-Version: 2.4\nName: rocm\nVersion: 6.4.0\nDynamic: Requires-Dist\n\
            Dynamic: Provides-Extra\nSummary: ROCm\nLicense-Expression: MIT AND Apache-2.0\nLicense-File: LICENSE\n\
            Classifier: Private :: Do Not Upload\nProject-URL: Homepage, https://example.org\n\
            Requires-Python: >=3.10\nRequires-Dist: rocm-sdk-core==6.4.0\nProvides-Extra: device-gfx942\n\
            Description-Content-Type: text/markdown\n\n# ROCm\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn values_that_would_break_the_file_are_errors() {
        let text = |metadata: Metadata| metadata.text("a", "1.0", &[]).map_err(|error| error.to_string());
        let summary = Some("a\nName: evil".to_owned());
        assert!(text(Metadata { summary, ..Metadata::default() }).unwrap_err().contains("Summary"));
        let dynamic = vec!["Requires-Dist, Provides-Extra".to_owned()];
        assert!(text(Metadata { dynamic, ..Metadata::default() }).unwrap_err().contains("Dynamic"));
        let dynamic = vec!["requires-dist".to_owned()];
        assert!(text(Metadata { dynamic, ..Metadata::default() }).is_err());
        let provides_extra = vec!["Device_X".to_owned()];
        assert!(text(Metadata { provides_extra, ..Metadata::default() }).is_err());
        let requires_python = Some(String::new());
        assert!(text(Metadata { requires_python, ..Metadata::default() }).is_err());
    }
}
