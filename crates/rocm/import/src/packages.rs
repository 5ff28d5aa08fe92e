//! Input: Debian packages. Output: the plan of their import, and their files in the staging tree.

use std::path::PathBuf;

use rayon::prelude::*;
use rocwheel_artifact::archive::digest;
use rocwheel_progress::{Interrupted, Reporter, Unit};

use crate::deb::{self, ControlArchive};
use crate::error::Error;
use crate::feed::Feed;
use crate::options::ImportOptions;
use crate::plan::{ImportPlan, PlannedSource, SCHEMA, belongs, input_package, is_archive_reader, version_of};
use crate::preflight;
use crate::report::SourceKind;
use crate::unpack::Unpacker;

/// Packages of at least this many bytes are decompressed one at a time with all threads; smaller
/// ones in parallel.
const LARGE: u64 = 8 << 20;

pub(crate) fn plan(paths: &[PathBuf], options: &ImportOptions, reporter: &dyn Reporter) -> Result<ImportPlan, Error> {
    let total = paths.iter().filter_map(|path| fs_err::metadata(path).ok()).map(|metadata| metadata.len()).sum();
    let stage = reporter.stage("Reading packages", Some(total), Unit::Bytes);
    let read = paths.par_iter().map(|path| -> Result<(PlannedSource, ControlArchive), Error> {
        let archive = deb::control(path)?;
        let sha256 = digest(path, reporter).map_err(|error| match error {
            rocwheel_artifact::Error::Io(source) => Error::Io(source),
            _ => Error::Interrupted(Interrupted),
        })?;
        let mut source = input_package(archive.control.clone());
        source.sha256 = Some(sha256);
        source.size = fs_err::metadata(path)?.len();
        Ok((PlannedSource { source, path: path.clone(), files: Vec::new() }, archive))
    });
    let mut read: Vec<(PlannedSource, ControlArchive)> = read.collect::<Result<_, Error>>()?;
    drop(stage);
    read.sort_by(|(left, _), (right, _)| (&left.source.name, &left.path).cmp(&(&right.source.name, &right.path)));
    let installed = read.iter().map(|(_, archive)| archive.control.installed).sum();
    let (sources, archives): (Vec<PlannedSource>, Vec<ControlArchive>) = read.into_iter().unzip();
    for pair in sources.windows(2) {
        if pair[0].source.name == pair[1].source.name {
            let name = pair[0].source.name.clone();
            return Err(Error::DuplicatePackage { name, first: pair[0].path.clone(), second: pair[1].path.clone() });
        }
    }
    if !sources.iter().any(|planned| planned.source.artifact.is_some()) {
        let path = paths.first().cloned().unwrap_or_default();
        return Err(Error::Empty { path, reason: "none of the packages is one of ROCm's".into() });
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
pub(crate) fn unpack(plan: &ImportPlan, unpacker: &Unpacker<'_>) -> Result<(), Error> {
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

fn unpack_package(planned: &PlannedSource, source: usize, unpacker: &Unpacker<'_>, threads: u32) -> Result<(), Error> {
    let mut feed = Feed { unpacker, source, belongs: belongs(&planned.source) };
    deb::data(&planned.path, threads, &mut feed)
}
