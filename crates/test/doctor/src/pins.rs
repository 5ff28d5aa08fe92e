//! Input: the installed packages, and the folders of ROCm of the machine. Output: the commits that
//! each ROCm was built from, as its manifest has them.

use std::path::PathBuf;

use rocwheel_artifact::Manifest;
use rocwheel_progress::with_causes;
use serde::Serialize;
use serde_json::Value;

use crate::coverage::Unexamined;
use crate::installed::Installed;
use crate::tree::{MachineTree, ReadFault};
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
    let mut found: Vec<(PathBuf, Result<Vec<u8>, String>)> = Vec::new();
    if let Some(installed) = installed {
        let path = format!("_rocm_sdk_core/{MANIFEST}");
        match installed.site.bytes(&format!("{}/{path}", installed.site.packages())) {
            Err(rocwheel_loader::Error::NoSuchFile { .. }) => {}
            bytes => found.push((installed.folder.path().join(path), bytes.map_err(|error| with_causes(&error)))),
        }
    }
    let prefix = variables.filled("ROCM_PATH").unwrap_or("/opt/rocm").trim_end_matches('/');
    let path = format!("{prefix}/{MANIFEST}");
    match tree.text_up_to(&path, LIMIT) {
        Err(ReadFault::Absent) => {}
        text => found.push((path.into(), text.map(String::into_bytes).map_err(|fault| fault.words()))),
    }
    let mut sources = Vec::new();
    for (path, bytes) in found {
        let parsed = bytes.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()));
        match parsed {
            Ok(manifest) => sources.push(source(path, manifest)),
            Err(reason) => unexamined.push(Unexamined::new(
                format!("the commits that ROCm was built from, in `{}`", path.display()),
                reason,
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
