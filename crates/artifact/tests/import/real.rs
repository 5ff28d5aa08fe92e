//! Real packages: the folders named by `ROCWHEEL_REAL_DEBS` (separated by `:`), each a set that is complete by itself.

use std::collections::BTreeSet;
use std::path::PathBuf;

use artifact::Catalog;
use artifact::import::ImportSource;
use report::Silent;

use super::fixture::{flatten, import, loader, options, outside};

#[test]
fn real_sets_are_complete_and_load() {
    let folders = std::env::var_os("ROCWHEEL_REAL_DEBS").expect("ROCWHEEL_REAL_DEBS names folders with .deb files");
    let mut loaded = 0;
    for folder in std::env::split_paths(&folders) {
        let mut debs: Vec<PathBuf> = fs_err::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        debs.retain(|path| path.extension().is_some_and(|extension| extension == "deb"));
        assert!(!debs.is_empty(), "no packages in {}", folder.display());
        let directory = tempfile::tempdir_in(folder.parent().unwrap()).unwrap();
        let output = directory.path().join("out");
        let report = import(&ImportSource::Debs(debs), &options(&output)).unwrap();
        let own = BTreeSet::from(["therock_manifest.json", "dist_info.json"]).len() as u64;
        let written: u64 = report.artifacts.iter().map(|artifact| artifact.files + artifact.links).sum();
        let device_libraries_link = 1;
        let accounted = written - own - device_libraries_link + report.skipped.len() as u64;
        assert_eq!(accounted, report.input_entries, "every file of the input is placed or listed");
        assert!(report.unresolved.is_empty() && report.unknown.is_empty());
        assert!(!report.targets.is_empty());
        let unlicensed: Vec<_> = report.system_libraries.iter().filter(|library| library.license.is_none()).collect();
        assert!(unlicensed.is_empty(), "{unlicensed:?}");
        assert!(report.system_libraries.iter().all(|library| library.copyright.is_some()));
        let catalog = Catalog::open(&output, &directory.path().join("scratch"), &Silent).unwrap();
        assert!(catalog.collisions().is_empty());
        let flat = directory.path().join("flat");
        flatten(&output, &flat);
        let moved = directory.path().join("moved");
        fs_err::rename(&flat, &moved).unwrap();
        let loader = loader(directory.path());
        for entry in walkdir::WalkDir::new(moved.join("lib")).sort_by_file_name() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy();
            if !entry.file_type().is_file() || !(name.ends_with(".so") || name.contains(".so.")) {
                continue;
            }
            match outside(&loader, entry.path(), &moved) {
                Ok(foreign) => assert!(foreign.is_empty(), "{name} loads {foreign:?}"),
                // The set of a newer release does not load on an older one, but only for that reason.
                Err(text) => {
                    assert!(text.contains("GLIBC_") || text.contains("GLIBCXX_") || text.contains("CXXABI_"), "{text}");
                    continue;
                }
            }
            loaded += 1;
        }
    }
    assert!(loaded >= 30, "only {loaded} libraries load on this machine");
}
