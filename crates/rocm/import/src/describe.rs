//! Input: the finished staging tree. Output: the files that describe it: `artifact_manifest.txt` in
//! each artifact, `therock_manifest.json` and `dist_info.json` in `base_lib_generic`, and the
//! report.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_artifact::manifest::{DIST_INFO_FILE, DistInfo, MANIFEST_FILE, Manifest};
use rocwheel_artifact::name::{ArtifactName, GENERIC};
use rocwheel_artifact::{Component, MANIFEST};
use rocwheel_progress::Failure;
use rocwheel_tables::target;
use serde_json::{Map, Value, json};

use crate::deb::upstream;
use crate::libraries::license;
use crate::plan::ImportPlan;
use crate::relink::{Context, Relinked, make_link};
use crate::report::{ArtifactSummary, InputPackage, SourceKind, SystemLibrary};
use crate::table::{FALLBACK, Place};
use crate::unpack::{Unpacked, staged};

/// Directory of both JSON files in the flattened tree.
const THEROCK: &str = "share/therock";
/// The directory of the compiler's device libraries, and the link to it that programs look for.
const DEVICE_LIBRARIES: (&str, &str) = ("lib/llvm/amdgcn", "amdgcn");

/// GPU targets, without features, that fat binaries and kernel databases have code for.
pub(crate) fn gpu_targets(unpacked: &Unpacked) -> Vec<String> {
    let code = unpacked.files.iter().flat_map(|file| &file.inspected.targets);
    let databases =
        unpacked.files.iter().map(|file| &file.place.artifact.target_family).filter(|name| *name != GENERIC);
    let mut found: Vec<String> = code.chain(databases).map(|target| target::base_target(target).to_owned()).collect();
    target::sort(&mut found);
    found
}

/// The libraries from outside ROCm that were taken, sorted by SONAME.
pub(crate) fn system_libraries(
    unpacked: &Unpacked,
    relinked: &Relinked,
    sources: &[InputPackage],
) -> Vec<SystemLibrary> {
    let copyrights: BTreeMap<usize, &str> = unpacked
        .files
        .iter()
        .filter(|file| file.system && file.place.path.ends_with("/copyright"))
        .map(|file| (file.source, file.place.path.as_str()))
        .collect();
    let sonames: BTreeMap<String, (&str, usize)> = unpacked
        .files
        .iter()
        .filter(|file| file.system)
        .filter_map(|file| {
            let name = file.place.path.rsplit('/').next()?;
            let (soname, original) = relinked.taken.values().find(|(soname, _)| soname == name)?;
            Some((soname.clone(), (original.as_str(), file.source)))
        })
        .collect();
    let entries = sonames.into_iter().map(|(soname, (original, index))| {
        let source = &sources[index];
        SystemLibrary {
            soname,
            original: original.to_owned(),
            package: source.name.clone(),
            version: source.version.clone(),
            source: source.source.clone(),
            source_version: source.source_version.clone(),
            license: license(&source.source, &upstream(&source.source_version)).map(str::to_owned),
            copyright: copyrights.get(&index).map(|path| (*path).to_owned()),
        }
    });
    entries.collect()
}

pub(crate) fn components(sources: &[InputPackage]) -> BTreeMap<String, String> {
    let rocm = sources.iter().filter(|source| source.artifact.is_some());
    rocm.map(|source| (source.source.clone(), upstream(&source.source_version))).collect()
}

/// Writes the describing files; `unpacked.files` must be the files of the tree.
pub(crate) fn describe(
    context: &Context<'_>,
    plan: &ImportPlan,
    unpacked: &Unpacked,
    relinked: &Relinked,
    libraries: &[SystemLibrary],
) -> Result<Vec<ArtifactSummary>, Failure> {
    // Links have no size.
    let mut added: Vec<(Place, Option<u64>)> = Vec::new();
    let present: BTreeSet<&str> = unpacked.files.iter().map(|file| file.place.path.as_str()).collect();
    let target_list = gpu_targets(unpacked);
    for (name, text) in [
        (MANIFEST_FILE, manifest(plan, libraries).to_json()),
        (DIST_INFO_FILE, DistInfo { dist_amdgpu_targets: target_list.join(";"), other: Map::new() }.to_json()),
    ] {
        let path = format!("{THEROCK}/{name}");
        if present.contains(path.as_str()) {
            continue;
        }
        let place = Place { artifact: generic(FALLBACK, Component::Lib), path };
        let target = staged(context.unpacker.root, context.unpacker.table, &place);
        fs_err::create_dir_all(target.parent().unwrap_or(context.unpacker.root))?;
        fs_err::write(target, &text)?;
        added.push((place, Some(text.len() as u64)));
    }
    let (libraries_at, link) = DEVICE_LIBRARIES;
    let has_device_libraries = present.iter().any(|path| path.starts_with(libraries_at));
    let has_link = relinked.links.iter().any(|place| place.path == link);
    if has_device_libraries && !has_link && !present.iter().any(|path| path.starts_with("amdgcn/")) {
        let place = Place { artifact: generic("amd-llvm", Component::Run), path: link.to_owned() };
        make_link(context, &place, libraries_at, "the import itself")?;
        added.push((place, None));
    }
    let mut summaries: BTreeMap<String, ArtifactSummary> = BTreeMap::new();
    let mut basedirs: BTreeMap<String, String> = BTreeMap::new();
    let files = unpacked.files.iter().map(|file| (&file.place, Some(file.size)));
    let links = relinked.links.iter().map(|place| (place, None));
    for (place, bytes) in files.chain(links).chain(added.iter().map(|(place, bytes)| (place, *bytes))) {
        let name = place.artifact.to_string();
        basedirs.entry(name.clone()).or_insert_with(|| context.unpacker.table.basedir(&place.artifact.name));
        let summary = summaries.entry(name.clone()).or_insert(ArtifactSummary { name, files: 0, links: 0, bytes: 0 });
        match bytes {
            Some(bytes) => {
                summary.files += 1;
                summary.bytes += bytes;
            }
            None => summary.links += 1,
        }
    }
    for (artifact, basedir) in &basedirs {
        let directory = context.unpacker.root.join(artifact);
        fs_err::write(directory.join(MANIFEST), format!("{basedir}\n"))?;
    }
    Ok(summaries.into_values().collect())
}

fn generic(name: &str, component: Component) -> ArtifactName {
    ArtifactName { name: name.to_owned(), component: component.to_string(), target_family: GENERIC.to_owned() }
}

/// `therock_manifest.json` (rocm-python-packages 1.9) with a description of the import under
/// `rocwheel.import`.
fn manifest(plan: &ImportPlan, libraries: &[SystemLibrary]) -> Manifest {
    let sources: Vec<Value> = plan
        .sources
        .iter()
        .map(|planned| {
            let source = &planned.source;
            json!({
                "name": source.name,
                "version": source.version,
                "source": source.source,
                "source_version": source.source_version,
                "sha256": source.sha256,
            })
        })
        .collect();
    let all: Vec<InputPackage> = plan.sources.iter().map(|planned| planned.source.clone()).collect();
    let import = json!({
        "kind": plan.kind,
        "shape": "fat",
        "sources": sources,
        "components": components(&all),
        "system_libraries": libraries,
        "allowed_unresolved": plan.options.allow_unresolved,
    });
    let mut other = Map::new();
    other.insert("rocwheel".into(), json!({ "import": import }));
    let mut flags = Map::new();
    flags.insert("KPACK_SPLIT_ARTIFACTS".into(), Value::Bool(false));
    let numbers: Vec<&str> = plan.version.split('.').take(3).collect();
    Manifest {
        rocm_package_version: Some(plan.version.clone()),
        rocm_version: (plan.kind != SourceKind::Tarball || !numbers.is_empty()).then(|| first_numbers(&plan.version)),
        flags: Some(flags),
        other,
        ..Manifest::default()
    }
}

/// The first `X.Y.Z` of a version.
pub(crate) fn first_numbers(version: &str) -> String {
    upstream(version).split('.').take(3).collect::<Vec<_>>().join(".")
}
