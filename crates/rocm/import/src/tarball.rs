//! Input: a `therock-dist-*` tarball, whose root is a flattened tree. Output: its files, sorted
//! into their artifacts.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use rocwheel_artifact::Manifest;
use rocwheel_content::open_regular;
use rocwheel_progress::{Failure, Reporter};

use crate::describe::first_numbers;
use crate::feed::Feed;
use crate::members::{self, Decoding, Visitor};
use crate::options::ImportOptions;
use crate::plan::{ImportPlan, PlannedSource, SCHEMA};
use crate::report::{InputPackage, SourceKind};
use crate::table::Table;
use crate::unpack::{Belongs, Unpacker};

const MANIFEST: &str = "share/therock/therock_manifest.json";
const INFO: &str = ".info/version";

pub(crate) fn plan(path: &Path, options: &ImportOptions, reporter: &dyn Reporter) -> Result<ImportPlan, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let version = match (&options.version, version_in(&name)) {
        (Some(version), _) => version.clone(),
        (None, Some(version)) => version,
        (None, None) => version_inside(path, &name)?,
    };
    let size = fs_err::metadata(path)?.len();
    let stage = reporter.stage("Reading the tarball", Some(size), rocwheel_progress::Unit::Bytes);
    let sha256 = rocwheel_artifact::archive::digest(path, reporter)?;
    drop(stage);
    let source = InputPackage {
        name,
        source: "TheRock".into(),
        source_version: version.clone(),
        version: version.clone(),
        sha256: Some(sha256),
        size,
        artifact: None,
    };
    Ok(ImportPlan {
        schema: SCHEMA,
        kind: SourceKind::Tarball,
        version,
        sources: vec![PlannedSource { source, path: path.to_owned(), files: Vec::new() }],
        left_out: Vec::new(),
        dependencies: BTreeSet::new(),
        has_archive_reader: None,
        installed: 0,
        options: options.clone(),
    })
}

pub(crate) fn unpack(plan: &ImportPlan, unpacker: &Unpacker<'_>) -> Result<(), Failure> {
    for (source, planned) in plan.sources.iter().enumerate() {
        let mut feed = Feed { unpacker, source, belongs: Belongs::ByPath };
        walk(&planned.path, &planned.source.name, &mut feed)?;
    }
    Ok(())
}

fn walk(path: &Path, name: &str, visitor: &mut dyn Visitor) -> Result<(), Failure> {
    let threads = rayon::current_num_threads() as u32;
    let mut file = open_regular(path)?;
    members::walk(&Decoding { archive: path, member: name, threads }, &mut file, visitor)
}

/// `therock-dist-linux-gfx94X-dcgpu-7.1.0a20260822.tar.gz` → `7.1.0a20260822`.
fn version_in(name: &str) -> Option<String> {
    static VERSION: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"-(\d+\.\d+\.\d+[^-]*)\.tar(?:\.\w+)?$").expect("a constant expression"));
    VERSION.captures(name).map(|found| found[1].to_owned())
}

/// The version in the tarball's manifest, or in `.info/version` (`7.2.4-93`); empty without both.
fn version_inside(path: &Path, name: &str) -> Result<String, Failure> {
    #[derive(Default)]
    struct Find {
        manifest: Option<String>,
        info: String,
    }
    impl Visitor for Find {
        fn file(&mut self, path: &str, _: u64, _: bool, content: &mut dyn Read) -> Result<(), Failure> {
            let flat = Table::embedded().flatten(path);
            if flat == MANIFEST || flat == INFO {
                let mut text = String::new();
                content.take(16 << 20).read_to_string(&mut text)?;
                if flat == MANIFEST {
                    let manifest: Option<Manifest> = serde_json::from_str(&text).ok();
                    self.manifest = manifest.and_then(|manifest| manifest.rocm_package_version);
                } else {
                    self.info = first_numbers(text.trim());
                }
            }
            Ok(())
        }
    }
    let mut find = Find::default();
    walk(path, name, &mut find)?;
    Ok(find.manifest.filter(|version| !version.is_empty()).unwrap_or(find.info))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_names() {
        let of = |name| version_in(name);
        assert_eq!(of("therock-dist-linux-gfx94X-dcgpu-7.1.0a20260822.tar.gz").as_deref(), Some("7.1.0a20260822"));
        assert_eq!(of("therock-dist-linux-gfx1100-6.5.0rc20250519.tar.gz").as_deref(), Some("6.5.0rc20250519"));
        assert_eq!(of("rocm.tar.gz"), None);
    }
}
