//! Input: the installed packages, and the folders of ROCm of the machine. Output: the commits that
//! each ROCm was built from, as its manifest has them.

use std::path::PathBuf;

use rocwheel_artifact::Manifest;
use serde::Serialize;
use serde_json::Value;

use crate::coverage::Unexamined;
use crate::installed::Installed;
use crate::tree::MachineTree;
use crate::variables::SessionVariables;

const MANIFEST: &str = "share/therock/therock_manifest.json";
/// Limit in bytes for a manifest; TheRock's have some 20 KB.
const LIMIT: u64 = 8 << 20;

/// What a ROCm was built from.
#[derive(Debug, Serialize)]
pub struct RocmSource {
    /// The path of its manifest.
    pub manifest: PathBuf,
    pub version: Option<String>,
    /// The commit of TheRock.
    pub commit: Option<String>,
    /// The run of TheRock's CI.
    pub run: Option<String>,
    pub pins: Vec<SourcePin>,
}

/// A repository of a ROCm.
#[derive(Debug, Serialize)]
pub struct SourcePin {
    pub name: String,
    pub url: Value,
    pub commit: Value,
    pub patches: Value,
}

/// That of the packages first.
pub(crate) fn read(
    installed: Option<&Installed>,
    (tree, variables): (&MachineTree, &SessionVariables),
    unexamined: &mut Vec<Unexamined>,
) -> Vec<RocmSource> {
    let mut found: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    if let Some(installed) = installed {
        let path = format!("_rocm_sdk_core/{MANIFEST}");
        let bytes = installed.site.bytes(&format!("{}/{path}", installed.site.packages()));
        found.extend(bytes.ok().map(|bytes| (installed.folder.path().join(path), bytes)));
    }
    let prefix = variables.filled("ROCM_PATH").unwrap_or("/opt/rocm").trim_end_matches('/');
    let path = format!("{prefix}/{MANIFEST}");
    found.extend(tree.text_up_to(&path, LIMIT).ok().map(|text| (PathBuf::from(&path), text.into_bytes())));
    let mut sources = Vec::new();
    for (path, bytes) in found {
        match serde_json::from_slice::<Manifest>(&bytes) {
            Ok(manifest) => sources.push(source(path, manifest)),
            Err(error) => unexamined.push(Unexamined::new(
                format!("the commits that ROCm was built from, in `{}`", path.display()),
                error.to_string(),
                "the manifest of the same build elsewhere",
            )),
        }
    }
    sources
}

fn source(path: PathBuf, manifest: Manifest) -> RocmSource {
    let pins = manifest.submodules.into_iter().map(|one| SourcePin {
        name: one.submodule_name,
        url: one.submodule_url,
        commit: one.pin_sha,
        patches: one.patches,
    });
    RocmSource {
        manifest: path,
        version: manifest.rocm_package_version.or(manifest.rocm_version),
        commit: manifest.the_rock_commit,
        run: manifest.github_run_id,
        pins: pins.collect(),
    }
}
