//! Input: a folder. Output: its files by what they are, with the version in their names.

use std::path::{Path, PathBuf};

use pep440_rs::Version;
use rocwheel_index::companion::{ATTESTATIONS, DELTA, PACKING};
use rocwheel_wheel::{WheelName, canonical_name};

use crate::error::Error;
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

pub(crate) fn collect(request: &PromotionRequest<'_>, copy: &Patterns) -> Result<Collected, Error> {
    let read = |source| Error::Read { path: request.folder.to_owned(), source };
    let (include, ignore) = (Patterns::new(request.include)?, Patterns::new(request.ignore)?);
    let mut paths: Vec<PathBuf> = if let Some(files) = request.files {
        files.to_vec()
    } else {
        let entries = fs_err::read_dir(request.folder).map_err(read)?;
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>().map_err(read)?
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
        return Err(Error::Files { problems });
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
    let file = |kind, distribution: &str, version: Option<Version>| SetFile {
        path: path.to_owned(),
        name: name.to_owned(),
        kind,
        distribution: canonical_name(distribution),
        version,
    };
    if copy.matches(name) {
        return Ok(file(SetFileKind::Other, "", None));
    }
    if NATIVE.iter().any(|ending| name.ends_with(ending)) {
        return Ok(file(SetFileKind::Native, "", None));
    }
    if name.ends_with(".whl.metadata") {
        return Ok(file(SetFileKind::Metadata, "", None));
    }
    if WheelName::is_wheel(name) {
        let wheel: WheelName = name.parse().map_err(|error: rocwheel_wheel::Error| error.to_string())?;
        if canonical_name(&wheel.distribution) == BOOTSTRAP {
            return Ok(file(SetFileKind::Other, &wheel.distribution, None));
        }
        let version = wheel.version.replace('_', "-").parse().map_err(|_| "its version is none of PEP 440")?;
        return Ok(file(SetFileKind::Wheel, &wheel.distribution, Some(version)));
    }
    let stem = name.strip_suffix(".tar.gz").and_then(|stem| stem.rsplit_once('-'));
    if let Some((distribution, version)) = stem {
        if canonical_name(distribution) == BOOTSTRAP {
            return Ok(file(SetFileKind::Other, distribution, None));
        }
        let version = version.parse().map_err(|_| format!("`{version}` is no version of PEP 440"))?;
        let kind = if name.starts_with(TARBALL) { SetFileKind::Tarball } else { SetFileKind::Sdist };
        return Ok(file(kind, distribution, Some(version)));
    }
    Err("it is no wheel, no source distribution, no `therock-dist-*.tar.gz` and no native package".to_owned())
}

/// The version of the set, from the names of its files: that of the ROCm packages, or else that
/// which frameworks name, or that of tarballs.
pub(crate) fn set_version(folder: &Path, files: &[SetFile]) -> Result<Version, Error> {
    let of = |choose: &dyn Fn(&SetFile) -> Option<Version>| -> Vec<Version> {
        let mut versions: Vec<Version> =
            files.iter().filter_map(choose).map(|version| version.with_post(None)).collect();
        versions.sort();
        versions.dedup();
        versions
    };
    let own = |file: &SetFile| {
        let is_rocm = file.distribution == "rocm" || file.distribution.starts_with("rocm-");
        let is_package = matches!(file.kind, SetFileKind::Wheel | SetFileKind::Sdist);
        file.version.clone().filter(|_| is_rocm && is_package)
    };
    let named = |file: &SetFile| named_rocm(file.version.as_ref()?);
    let tarball = |file: &SetFile| file.version.clone().filter(|_| file.kind == SetFileKind::Tarball);
    let fail = |reason: String| Error::NoVersion { path: folder.to_owned(), reason };
    for versions in [of(&own), of(&named), of(&tarball)] {
        match &versions[..] {
            [] => {}
            [version] => return Ok(version.clone()),
            several => {
                let several: Vec<String> = several.iter().map(ToString::to_string).collect();
                return Err(fail(format!("there are several, {}", several.join(", "))));
            }
        }
    }
    Err(fail("there is no package of ROCm, and none that names one in its version".to_owned()))
}
