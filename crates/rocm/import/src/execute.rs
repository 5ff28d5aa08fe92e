//! Input: an [`ImportPlan`]. Output: a directory of artifacts, and an [`ImportReport`].

use std::path::Path;

use rocwheel_output::{OutputTree, TreeMaker};
use rocwheel_progress::{Failure, Reporter, Unit};

use crate::error::with_storage_advice;
use crate::plan::{ImportPlan, SCHEMA};
use crate::relink::{self, Context};
use crate::report::{ImportReport, InputPackage, Skipped, SourceKind};
use crate::unpack::Unpacker;
use crate::{closure, describe, duplicate_libraries, packages, prefix, tarball};

/// The owner of the output of an import.
pub const MAKER: TreeMaker = TreeMaker { marker: ".rocwheel-import", command: "rocwheel artifact import" };
/// Writes the artifacts.
/// After an error nothing is left behind, and an existing output stays unchanged.
pub fn execute(plan: &ImportPlan, reporter: &dyn Reporter) -> Result<ImportReport, Failure> {
    let staging = OutputTree::new(&plan.options.output, MAKER)?;
    staging.reserve(plan.installed)?;
    let report =
        fill(plan, staging.root(), reporter).map_err(|failure| with_storage_advice(failure, &plan.options.output))?;
    staging.commit()?;
    Ok(report)
}

/// Does the work of [`execute`] in a temporary directory below `scratch`, and removes it.
pub fn rehearse(plan: &ImportPlan, scratch: &Path, reporter: &dyn Reporter) -> Result<ImportReport, Failure> {
    let directory = tempfile::Builder::new().prefix(".rocwheel-").tempdir_in(scratch)?;
    fill(plan, directory.path(), reporter).map_err(|failure| with_storage_advice(failure, scratch))
}

fn fill(plan: &ImportPlan, root: &Path, reporter: &dyn Reporter) -> Result<ImportReport, Failure> {
    let names: Vec<String> = plan.sources.iter().map(|planned| planned.source.name.clone()).collect();
    let unpacker = Unpacker::new(root, &names, reporter);
    let total = (plan.installed > 0).then_some(plan.installed);
    let stage = reporter.stage("Unpacking", total, Unit::Bytes);
    match plan.kind {
        SourceKind::Deb => packages::unpack(plan, &unpacker)?,
        SourceKind::Prefix => prefix::unpack(plan, &unpacker)?,
        SourceKind::Tarball => tarball::unpack(plan, &unpacker)?,
    }
    drop(stage);
    let mut unpacked = unpacker.take();
    unpacker.settle(&mut unpacked)?;
    let copies = duplicate_libraries::merge(&unpacker, &mut unpacked)?;
    let resolution = closure::resolve(&unpacked, &names, &plan.dependencies)?;
    let unresolved = plan.options.judge(resolution.missing.clone(), &names)?;
    let context = Context { unpacker: &unpacker, options: &plan.options, reporter };
    let stage = reporter.stage("Linking", None, Unit::Items);
    let relinked = relink::relink(&context, &mut unpacked, &resolution)?;
    let sources: Vec<InputPackage> = plan.sources.iter().map(|planned| planned.source.clone()).collect();
    let libraries = describe::system_libraries(&unpacked, &relinked, &sources);
    let artifacts = describe::describe(&context, plan, &unpacked, &relinked, &libraries)?;
    drop(stage);
    let mut skipped: Vec<Skipped> = unpacked.skipped.iter().map(|(_, skipped)| skipped.clone()).collect();
    skipped.extend(relinked.skipped);
    skipped.extend(plan.left_out.iter().cloned());
    skipped.sort();
    Ok(ImportReport {
        schema: SCHEMA,
        kind: plan.kind,
        output: plan.options.output.clone(),
        version: plan.version.clone(),
        artifacts,
        components: describe::components(&sources),
        sources,
        targets: describe::gpu_targets(&unpacked),
        system_libraries: libraries,
        unresolved,
        skipped,
        displaced: unpacked.displaced,
        unknown: unpacked.unknown,
        unlisted_loads: resolution.unlisted,
        kept_names: relinked.kept_names,
        dropped_search_paths: relinked.dropped,
        rewritten: unpacked.rewritten,
        copies,
        input_entries: unpacked.entries,
    })
}
