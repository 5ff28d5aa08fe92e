//! Input: a folder. Output: its files by what they are, with the version in their names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pep440_rs::Version;
use rocwheel_index::companion::{ATTESTATIONS, DELTA, PACKING};
use rocwheel_progress::Failure;
use rocwheel_wheel::{WheelName, canonical_name};

use crate::error;
use crate::promoted::STATEMENT;
use crate::request::PromotionRequest;
use crate::rules::Patterns;
use crate::set_file::{SetFile, SetFileKind};
use crate::version_change::named_rocm;

/// The files of a folder, sorted by name.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) files: Vec<SetFile>,
    pub(crate) notes: Vec<String>,
}

const NATIVE: [&str; 2] = [".deb", ".rpm"];
/// Files about the bytes of others, which a promotion changes (PEP 740, GnuPG, Sigstore, ours).
const SIGNATURES: [&str; 7] = [ATTESTATIONS, ".attestation", ".asc", ".sig", ".sigstore", DELTA, PACKING];
const TARBALL: &str = "therock-dist-";
/// It has its own version, and nothing in it is of one set.
const BOOTSTRAP: &str = "rocm-bootstrap";

pub(crate) fn collect(request: &PromotionRequest<'_>, copy: &Patterns) -> Result<Collected, Failure> {
    let (include, ignore) = (Patterns::new(request.include)?, Patterns::new(request.ignore)?);
    let mut paths: Vec<PathBuf> = if let Some(files) = request.files {
        files.to_vec()
    } else {
        let entries = fs_err::read_dir(request.folder).map_err(error::read(request.folder))?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>();
        paths.map_err(error::read(request.folder))?
    };
    paths.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    let (mut collected, mut problems) = (Collected::default(), Vec::new());
    for path in paths {
        let Some(name) = path.file_name().and_then(|name| name.to_str()).map(str::to_owned) else {
            problems.push(format!("`{}`: its name is not UTF-8", path.display()));
            continue;
        };
        let is_left = ignore.matches(&name) || !include.is_empty() && !include.matches(&name);
        if is_left || name.starts_with('.') || name == STATEMENT {
            continue;
        }
        if path.is_dir() {
            if has_packages(&path) {
                problems.push(format!("`{name}`: it is a folder with packages, and only DIST itself is promoted"));
            } else {
                collected.notes.push(format!("`{name}` is a folder and was left behind"));
            }
            continue;
        }
        if SIGNATURES.iter().any(|ending| name.ends_with(ending)) {
            collected.notes.push(format!("`{name}` was left behind: it is about the bytes that change"));
            continue;
        }
        match classify(&path, &name, copy) {
            Ok(file) => collected.files.push(file),
            Err(reason) => problems.push(format!("`{name}`: {reason}")),
        }
    }
    if !problems.is_empty() {
        return Err(error::files(problems));
    }
    Ok(collected)
}

/// `true` if a folder has packages in it. One that cannot be read has none.
fn has_packages(folder: &Path) -> bool {
    let Ok(entries) = fs_err::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        WheelName::is_wheel(&path) || name.ends_with(".tar.gz") || path.is_dir() && has_packages(&path)
    })
}

fn classify(path: &Path, name: &str, copy: &Patterns) -> Result<SetFile, String> {
    let (path, name) = (path.to_owned(), name.to_owned());
    let file = SetFile { path, name, kind: SetFileKind::Other, distribution: String::new(), version: None };
    let name = &file.name;
    if copy.matches(name) {
        return Ok(file);
    }
    if NATIVE.iter().any(|ending| name.ends_with(ending)) {
        return Ok(SetFile { kind: SetFileKind::Native, ..file });
    }
    if name.ends_with(".whl.metadata") {
        return Ok(SetFile { kind: SetFileKind::Metadata, ..file });
    }
    if WheelName::is_wheel(name) {
        let wheel: WheelName = name.parse().map_err(|error: rocwheel_wheel::Error| error.to_string())?;
        let distribution = canonical_name(&wheel.distribution);
        if distribution == BOOTSTRAP {
            return Ok(SetFile { distribution, ..file });
        }
        let version = wheel.version.replace('_', "-").parse().map_err(|_| "its version is none of PEP 440")?;
        return Ok(SetFile { kind: SetFileKind::Wheel, distribution, version: Some(version), ..file });
    }
    let stem = name.strip_suffix(".tar.gz").and_then(|stem| stem.rsplit_once('-'));
    if let Some((distribution, version)) = stem {
        let distribution = canonical_name(distribution);
        if distribution == BOOTSTRAP {
            return Ok(SetFile { distribution, ..file });
        }
        let version = version.parse().map_err(|_| format!("`{version}` is no version of PEP 440"))?;
        let kind = if name.starts_with(TARBALL) { SetFileKind::Tarball } else { SetFileKind::Sdist };
        return Ok(SetFile { kind, distribution, version: Some(version), ..file });
    }
    Err("it is no wheel, no source distribution, no `therock-dist-*.tar.gz` and no native package".to_owned())
}

/// The version of the set, from the names of its files: that of the ROCm packages, or else that
/// which frameworks name, or that of tarballs.
pub(crate) fn set_version(folder: &Path, files: &[SetFile]) -> Result<Version, Failure> {
    let kinds: [fn(&SetFile) -> Option<Version>; 3] = [
        rocm_package_version,
        |file| named_rocm(file.version.as_ref()?),
        |file| file.version.clone().filter(|_| file.kind == SetFileKind::Tarball),
    ];
    let mut reason = "there is no package of ROCm, and none that names one in its version".to_owned();
    for version_of in kinds {
        let versions = files.iter().filter_map(version_of).map(|version| version.with_post(None));
        let versions: BTreeSet<Version> = versions.collect();
        if versions.len() > 1 {
            let several: Vec<String> = versions.iter().map(ToString::to_string).collect();
            reason = format!("there are several, {}", several.join(", "));
            break;
        }
        if let Some(version) = versions.into_iter().next() {
            return Ok(version);
        }
    }
    Err(Failure::message(format!("cannot tell the version of the set in `{}`: {reason}", folder.display()))
        .with_hint("name it with `--set-version`"))
}

fn rocm_package_version(file: &SetFile) -> Option<Version> {
    let is_rocm = file.distribution == "rocm" || file.distribution.starts_with("rocm-");
    let is_package = matches!(file.kind, SetFileKind::Wheel | SetFileKind::Sdist);
    file.version.clone().filter(|_| is_rocm && is_package)
}
