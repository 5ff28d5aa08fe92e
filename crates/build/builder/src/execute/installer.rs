//! Input: the place of a job and an interpreter. Output: the command lines of pip or uv that
//! install into its environment.

use std::path::Path;
use std::time::Duration;

use crate::execute::JobPlace;
use rocwheel_recipe::Rocm;

/// Time limit for installing packages: ROCm has gigabytes.
pub(super) const INSTALLING: Duration = Duration::from_hours(2);

/// The command line that installs into or uninstalls from an interpreter's environment, up to the
/// names of packages.
pub(super) fn installer(place: &JobPlace, python: &Path, verb: &str) -> Vec<String> {
    let python = python.to_string_lossy().into_owned();
    if let Some(uv) = &place.uv {
        return vec![uv.to_string_lossy().into_owned(), "pip".into(), verb.into(), "--python".into(), python];
    }
    let mut words = vec![python, "-m".into(), "pip".into(), verb.into(), "--no-input".into()];
    words.push("--disable-pip-version-check".into());
    words
}

/// The command line before `rocm` that builds its source distribution here and now, without its
/// requirements. A cached wheel may have been built for another GPU. The cache itself stays
/// unchanged, because other builds may be using it.
pub(super) fn fresh_install(place: &JobPlace, python: &Path) -> Vec<String> {
    let mut words = installer(place, python, "install");
    let without_cache = if place.uv.is_some() { "--no-cache" } else { "--no-cache-dir" };
    words.extend([without_cache.to_owned(), "--no-deps".to_owned()]);
    words
}

pub(super) fn ensurepip(python: &Path) -> Vec<String> {
    module(python, &["ensurepip", "--default-pip"])
}

fn module(python: &Path, arguments: &[&str]) -> Vec<String> {
    let words = ["-m"].into_iter().chain(arguments.iter().copied()).map(str::to_owned);
    std::iter::once(python.to_string_lossy().into_owned()).chain(words).collect()
}

/// Options that make an installer find the packages of a ROCm; empty if it has no packages.
pub(super) fn rocm_options(rocm: &Rocm, place: &JobPlace) -> Vec<String> {
    let mut words = match rocm {
        Rocm::Index { url: Some(url), .. } => {
            // uv prefers `UV_DEFAULT_INDEX` to `--index-url`.
            let option = if place.uv.is_some() { "--default-index" } else { "--index-url" };
            vec![option.into(), url.clone()]
        }
        Rocm::FindLinks { links, .. } => vec!["--find-links".into(), links.clone()],
        Rocm::Index { url: None, .. } | Rocm::None | Rocm::Prefix { .. } => Vec::new(),
    };
    words.extend(prerelease_options(rocm, place));
    words
}

/// Options that make an installer accept pre-releases if those of ROCm's packages are accepted.
pub(super) fn prerelease_options(rocm: &Rocm, place: &JobPlace) -> Vec<String> {
    let (Rocm::Index { packages, .. } | Rocm::FindLinks { packages, .. }) = rocm else { return Vec::new() };
    match (&place.uv, packages.pre) {
        (Some(_), true) => vec!["--prerelease".into(), "allow".into()],
        (None, true) => vec!["--pre".into()],
        (_, false) => Vec::new(),
    }
}

pub(super) fn has_pip(venv: &Path) -> bool {
    rocwheel_system::program_of(venv, "pip").exists()
}
