//! Input: Debian packages. Output: the plan of their import, and their files in the staging tree.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_artifact::archive::digest;
use rocwheel_progress::{Failure, Reporter, Unit};

use crate::deb::{self, ControlArchive};
use crate::error::empty;
use crate::feed::Feed;
use crate::options::ImportOptions;
use crate::plan::{ImportPlan, PlannedSource, SCHEMA, belongs, input_package, is_archive_reader, version_of};
use crate::preflight;
use crate::report::SourceKind;
use crate::unpack::Unpacker;

/// Packages of at least this many bytes are decompressed one at a time with all threads; smaller
/// ones in parallel.
const LARGE: u64 = 8 << 20;

pub(crate) fn plan(paths: &[PathBuf], options: &ImportOptions, reporter: &dyn Reporter) -> Result<ImportPlan, Failure> {
    let total = paths.iter().filter_map(|path| fs_err::metadata(path).ok()).map(|metadata| metadata.len()).sum();
    let stage = reporter.stage("Reading packages", Some(total), Unit::Bytes);
    let read = paths.par_iter().map(|path| -> Result<(PlannedSource, ControlArchive), Failure> {
        let archive = deb::control(path)?;
        let mut source = input_package(archive.control.clone());
        source.sha256 = Some(digest(path, reporter)?);
        source.size = fs_err::metadata(path)?.len();
        Ok((PlannedSource { source, path: path.clone(), files: Vec::new() }, archive))
    });
    let mut read: Vec<(PlannedSource, ControlArchive)> = read.collect::<Result<_, Failure>>()?;
    drop(stage);
    read.sort_by(|(left, _), (right, _)| (&left.source.name, &left.path).cmp(&(&right.source.name, &right.path)));
    let installed = read.iter().map(|(_, archive)| archive.control.installed).sum();
    let (sources, archives): (Vec<PlannedSource>, Vec<ControlArchive>) = read.into_iter().unzip();
    for pair in sources.windows(2) {
        if pair[0].source.name == pair[1].source.name {
            let (first, second) = (pair[0].path.display(), pair[1].path.display());
            let text = format!("the package `{}` is given twice: `{first}` and `{second}`", pair[0].source.name);
            return Err(Failure::message(text).with_hint("give one version of each package"));
        }
    }
    if !sources.iter().any(|planned| planned.source.artifact.is_some()) {
        let path = paths.first().map_or(Path::new(""), PathBuf::as_path);
        return Err(empty(path, "none of the packages is one of ROCm's"));
    }
    preflight::check(&sources, &archives, options, reporter)?;
    let mut paths = archives.iter().flat_map(|archive| archive.digests.keys());
    let has_archive_reader = Some(paths.any(|path| is_archive_reader(path)));
    let dependencies = archives.iter().flat_map(|archive| archive.control.depends.iter().flatten().cloned()).collect();
    Ok(ImportPlan {
        schema: SCHEMA,
        kind: SourceKind::Deb,
        version: version_of(&sources),
        sources,
        left_out: Vec::new(),
        dependencies,
        has_archive_reader,
        installed,
        options: options.clone(),
    })
}

/// Unpacks the planned packages, the large ones one after the other.
pub(crate) fn unpack(plan: &ImportPlan, unpacker: &Unpacker<'_>) -> Result<(), Failure> {
    let mut order: Vec<usize> = (0..plan.sources.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(plan.sources[*index].source.size));
    let (large, small): (Vec<usize>, Vec<usize>) =
        order.into_iter().partition(|index| plan.sources[*index].source.size >= LARGE);
    let threads = rayon::current_num_threads() as u32;
    for index in large {
        unpack_package(&plan.sources[index], index, unpacker, threads)?;
    }
    small.into_par_iter().try_for_each(|index| unpack_package(&plan.sources[index], index, unpacker, 1))
}

fn unpack_package(
    planned: &PlannedSource,
    source: usize,
    unpacker: &Unpacker<'_>,
    threads: u32,
) -> Result<(), Failure> {
    let mut feed = Feed { unpacker, source, belongs: belongs(&planned.source) };
    deb::data(&planned.path, threads, &mut feed)
}
