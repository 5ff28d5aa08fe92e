//! Imports of real packages from the folders in `ROCWHEEL_REAL_DEBS` (separated by `:`). Each
//! folder must be a complete set.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocwheel_artifact::Catalog;
use rocwheel_import::ImportSource;
use rocwheel_progress::Silent;

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
        let copies = report.kept_names.iter().map(|kept| &kept.text).collect::<BTreeSet<_>>().len() as u64;
        let accounted = written - own - device_libraries_link - copies + report.skipped.len() as u64;
        assert_eq!(accounted, report.input_entries, "every file of the input is placed or listed");
        assert!(report.unresolved.is_empty() && report.unknown.is_empty());
        assert!(report.unlisted_loads.is_empty(), "{:?}", report.unlisted_loads);
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
        let mut too_new = false;
        for entry in walkdir::WalkDir::new(moved.join("lib")).sort_by_file_name() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy();
            if !entry.file_type().is_file() || !(name.ends_with(".so") || name.contains(".so.")) {
                continue;
            }
            match outside(&loader, entry.path(), &moved) {
                Ok(foreign) => assert!(foreign.is_empty(), "{name} loads {foreign:?}"),
                // The set of a newer release does not load on an older one, but only for that
                // reason.
                Err(text) => {
                    assert!(text.contains("GLIBC_") || text.contains("GLIBCXX_") || text.contains("CXXABI_"), "{text}");
                    too_new = true;
                    continue;
                }
            }
            loaded += 1;
        }
        if !too_new {
            build_with_cmake(&moved, directory.path());
        }
    }
    assert!(loaded >= 30, "only {loaded} libraries load on this machine");
}

/// Runs `find_package` for HIP and rocRAND, compiles, links and runs against a set that was moved
/// after it was flattened.
fn build_with_cmake(root: &Path, scratch: &Path) {
    let project = scratch.join("project");
    fs_err::create_dir(&project).unwrap();
    let cmake = "cmake_minimum_required(VERSION 3.16)\nproject(probe CXX)\nfind_package(hip REQUIRED)\n\
                 find_package(rocrand REQUIRED)\nadd_executable(probe main.cpp)\n\
                 target_link_libraries(probe hip::host roc::rocrand)\n";
    fs_err::write(project.join("CMakeLists.txt"), cmake).unwrap();
    let source = "#include <hip/hip_runtime.h>\n#include <rocrand/rocrand.h>\n#include <cstdio>\n\
                  int main() { int n = 0, v = 0; int e = hipGetDeviceCount(&n); rocrand_get_version(&v);\n\
                  std::printf(\"%d %d\", e, v); return v > 0 ? 0 : 1; }\n";
    fs_err::write(project.join("main.cpp"), source).unwrap();
    let build = scratch.join("build");
    let run = |command: &mut Command| {
        let output = command.env_clear().env("PATH", "/usr/bin:/bin").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {text}");
    };
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", root.display());
    run(Command::new("cmake").arg("-S").arg(&project).arg("-B").arg(&build).arg(prefix));
    run(Command::new("cmake").arg("--build").arg(&build));
    run(&mut Command::new(build.join("probe")));
}
