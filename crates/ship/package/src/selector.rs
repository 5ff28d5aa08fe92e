//! Input: a promise. Output: the files of the `rocm` source distribution, or the selector wheel
//! (rocm-python-packages spec 2.13, 3.3).
//!
//! AMD's promotion tool edits PKG-INFO, `requires.txt` and `_dist_info.py` as text, so all of them
//! exist and agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rocwheel_wheel::{EntryPoints, Member, Metadata, Sdist, Tag, WheelContents};

use rocwheel_progress::Failure;

use crate::Logical;
use crate::dist_info::{ExtraRequirement, Promise};
use crate::templates::{self, Templates};

const EGG_INFO: &str = "src/rocm.egg-info";
const SCRIPTS: &str = "[console_scripts]\nrocm-sdk = rocm_sdk.__main__:main\n";

/// Returns the metadata that all packages of the set share.
pub fn metadata(summary: &str) -> Metadata {
    Metadata {
        summary: Some(summary.to_owned()),
        requires_python: Some(">=3.10".to_owned()),
        license_expression: Some("MIT OR Apache-2.0".to_owned()),
        classifiers: [
            "Development Status :: 4 - Beta",
            "Intended Audience :: Developers",
            "Programming Language :: Python :: 3",
        ]
        .map(str::to_owned)
        .to_vec(),
        ..Metadata::default()
    }
}

/// Returns the metadata of a selector with these extras.
fn with_extras(promise: &Promise, templates: &Templates, extras: Vec<(String, Vec<ExtraRequirement>)>) -> Metadata {
    let mut metadata = metadata("ROCm for Python environments: selects the packages for this machine");
    metadata.requires_dist.push(promise.requirement(Logical::Core, None));
    for (extra, requirements) in extras {
        metadata.requires_dist.extend(requirements.iter().map(|requirement| requirement.requires_dist(&extra)));
        metadata.provides_extra.push(extra);
    }
    let text = templates.readme().to_owned();
    metadata.description = Some(rocwheel_wheel::Description { content_type: "text/markdown".to_owned(), text });
    metadata
}

/// Returns the selector as a wheel. Its metadata is the same on every machine, and nothing is built
/// at installation.
pub fn wheel(promise: &Promise, templates: &Templates) -> WheelContents {
    let mut metadata = with_extras(promise, templates, promise.neutral_extras());
    metadata.summary = Some("ROCm for Python environments: an extra for each GPU target".to_owned());
    let generated = promise.lines(Logical::Meta, promise.own_family());
    let members = templates
        .selector
        .iter()
        .filter_map(|(name, text)| {
            let text = if name == templates::DIST_INFO_PATH { text.clone() + &generated } else { text.clone() };
            Some(Member::new(name.strip_prefix("src/")?, text.into_bytes()))
        })
        .collect();
    let mut entry_points = EntryPoints::default();
    entry_points.script("rocm-sdk", "rocm_sdk.__main__:main");
    WheelContents {
        name: "rocm".to_owned(),
        version: promise.version.clone(),
        tags: vec![Tag::any()],
        metadata,
        entry_points,
        licenses: Vec::new(),
        members,
    }
}

pub fn sdist(promise: &Promise, templates: &Templates) -> Result<Sdist, Failure> {
    let mut metadata = with_extras(promise, templates, promise.extras());
    // There must be two lines in this spelling, or uv takes the requirements as final and never
    // asks the backend (pitfalls 16).
    metadata.dynamic = vec!["Requires-Dist".to_owned(), "Provides-Extra".to_owned()];
    let information = metadata.text("rocm", &promise.version, &[])?;

    let mut files = templates.selector.clone();
    let dist_info = templates.dist_info().to_owned() + &promise.lines(Logical::Meta, promise.own_family());
    files.insert(templates::DIST_INFO_PATH.to_owned(), dist_info);
    files.insert(format!("{EGG_INFO}/PKG-INFO"), information);
    files.insert(format!("{EGG_INFO}/dependency_links.txt"), "\n".to_owned());
    files.insert(format!("{EGG_INFO}/entry_points.txt"), SCRIPTS.to_owned());
    files.insert(format!("{EGG_INFO}/requires.txt"), requires_text(promise));
    files.insert(format!("{EGG_INFO}/top_level.txt"), "rocm_sdk\n".to_owned());
    let mut sources: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    let own = format!("{EGG_INFO}/SOURCES.txt");
    sources.insert(&own);
    let sources = sources.into_iter().fold(String::new(), |text, name| text + name + "\n");
    files.insert(own, sources);
    let members = files.into_iter().map(|(name, text)| Member::new(name, text.into_bytes())).collect();
    Ok(Sdist {
        name: "rocm".to_owned(),
        version: promise.version.clone(),
        metadata,
        license_files: Vec::new(),
        members,
    })
}

/// Returns `requires.txt` in setuptools' format: a section for each extra and marker, sorted.
fn requires_text(promise: &Promise) -> String {
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (extra, requirements) in promise.extras() {
        sections.entry(extra.clone()).or_default();
        for requirement in requirements {
            let section = match &requirement.marker {
                Some(marker) => format!("{extra}:{marker}"),
                None => extra.clone(),
            };
            sections.entry(section).or_default().push(requirement.text);
        }
    }
    let mut text = promise.requirement(Logical::Core, None) + "\n";
    for (section, requirements) in sections {
        let _ = write!(text, "\n[{section}]\n");
        for requirement in requirements {
            let _ = writeln!(text, "{requirement}");
        }
    }
    text
}
