//! Input: the files of an index. Output: smaller indexes over the same files: one for each Python,
//! one for each GPU target.
//!
//! A page of `torch` has 4,800 files after four months of nightly builds. A view has a fifth of
//! them for a Python and leaves out the packages of other GPUs; no file is copied.

use std::collections::BTreeSet;

use rocwheel_store::listing::StoredDistribution;
use rocwheel_wheel::WheelNameParts;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexView {
    /// `by_python/cp312/`: what has tags for CPython 3.12. Installers read Requires-Python
    /// themselves.
    Python,
    /// `by_target/gfx942/`: everything but the packages of other GPU targets.
    Target,
}

impl IndexView {
    /// The folder of such views. A project's folder has no `_` in its name.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Python => "by_python",
            Self::Target => "by_target",
        }
    }

    /// The names of the views of these projects, which come with the CPythons that their wheels
    /// were compiled for.
    pub fn names<'a>(self, projects: impl IntoIterator<Item = (&'a String, &'a BTreeSet<String>)>) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (name, pythons) in projects {
            match self {
                Self::Python => names.extend(pythons.iter().cloned()),
                Self::Target => names.extend(target(name).map(str::to_owned)),
            }
        }
        names
    }

    /// `true` if the view of this name lists a file.
    pub fn has(self, distribution: &StoredDistribution, name: &str) -> bool {
        match self {
            Self::Python => fits_python(distribution, name),
            Self::Target => target(&distribution.project).is_none_or(|target| target == name),
        }
    }
}

/// The CPythons that a wheel was compiled for: `cp312`.
pub fn pythons<'n>(wheel: &WheelNameParts<'n>) -> impl Iterator<Item = &'n str> {
    let [pythons, abis, _] = wheel.tags;
    let is_stable = abis.split('.').all(|abi| abi == "abi3" || abi == "none");
    let pythons = (!is_stable).then(|| pythons.split('.'));
    pythons.into_iter().flatten().filter(|tag| minor(tag).is_some())
}

/// `12` of `cp312`.
fn minor(tag: &str) -> Option<u32> {
    tag.strip_prefix("cp3")?.parse().ok()
}

fn fits_python(distribution: &StoredDistribution, python: &str) -> bool {
    let Some(wheel) = &distribution.wheel else { return true };
    let wanted = minor(python);
    wheel.pythons.iter().any(|tag| {
        let least = tag.strip_prefix("py3").map(|rest| rest.parse().unwrap_or(0));
        let stable = wheel.abis.iter().any(|abi| abi == "abi3" || abi == "none").then(|| minor(tag)).flatten();
        tag == python || [least, stable].into_iter().flatten().any(|least| Some(least) <= wanted)
    })
}

/// The GPU target of a project that is for one: `gfx942` of `amd-torch-device-gfx942`,
/// `gfx94x-dcgpu` of `rocm-sdk-libraries-gfx94x-dcgpu`.
pub fn target(project: &str) -> Option<&str> {
    let at = project.find("-gfx")?;
    Some(&project[at + 1..])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rocwheel_store::StoredFile;
    use rocwheel_store::listing::{DistributionListing, NameFilter};

    use super::*;
    use crate::layout::IndexRoot;

    #[test]
    fn a_view_has_what_fits() {
        let names = "torch-2.9.0-cp312-cp312-linux_x86_64.whl torch-2.9.0-cp313-cp313-linux_x86_64.whl \
                     torch-2.9.0-cp313-cp313t-linux_x86_64.whl stable-1-cp313-abi3-linux_x86_64.whl \
                     pure-1-py3-none-any.whl rocm-7.2.0.tar.gz \
                     amd_torch_device_gfx942-2.9.0-py3-none-linux_x86_64.whl \
                     amd_torch_device_gfx1100-2.9.0-py3-none-linux_x86_64.whl";
        let file = |name: &str| StoredFile { key: name.to_owned(), size: 1, stamp: String::new() };
        let all = DistributionListing::of(names.split(' ').map(file).collect(), &NameFilter::default()).distributions;
        let mut projects: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for one in &all {
            let project = projects.entry(one.project.clone()).or_default();
            project.extend(one.parts().iter().flat_map(pythons).map(str::to_owned));
        }
        let root = IndexRoot { pages: "simple".to_owned(), ..IndexRoot::default() };
        let shown = |view: IndexView| -> Vec<String> {
            let names = |root: IndexRoot| {
                let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
                for one in all.iter().filter(|one| root.has(one)) {
                    *counts.entry(&one.project).or_default() += 1;
                }
                let projects = counts.into_iter().map(|(name, files)| format!("{name} {files}"));
                format!("{}: {}", root.pages, projects.collect::<Vec<_>>().join(", "))
            };
            view.names(&projects).iter().map(|name| names(root.with_view(view, name))).collect()
        };
        let devices = "amd-torch-device-gfx1100 1, amd-torch-device-gfx942 1";
        assert_eq!(
            shown(IndexView::Python),
            [
                format!("simple/by_python/cp312: {devices}, pure 1, rocm 1, torch 1"),
                format!("simple/by_python/cp313: {devices}, pure 1, rocm 1, stable 1, torch 2"),
            ]
        );
        assert_eq!(
            shown(IndexView::Target),
            [
                "simple/by_target/gfx1100: amd-torch-device-gfx1100 1, pure 1, rocm 1, stable 1, torch 3",
                "simple/by_target/gfx942: amd-torch-device-gfx942 1, pure 1, rocm 1, stable 1, torch 3",
            ]
        );
    }
}
