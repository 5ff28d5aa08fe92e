//! Imports of packages, prefixes and tarballs made here: where files land, what is renamed, what is
//! refused.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod fixture;
mod hostile;
mod other_sources;
#[cfg(feature = "real")]
mod real;

use std::path::{Path, PathBuf};

use rocwheel_artifact::import::{Error, ImportSource, Sonames, rehearse};
use rocwheel_artifact::{Catalog, DistInfo, Manifest};
use rocwheel_report::{Exit, Hint as _, Silent};

use fixture::{Packing, Tar, deb, import, library, listing, options};

/// A runtime with a library that is not ROCm's, a math library with a kernel database, and
/// development files.
struct Set {
    directory: tempfile::TempDir,
    debs: Vec<PathBuf>,
}

impl Set {
    fn new(packing: Packing) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let build = root.join("build");
        fs_err::create_dir(&build).unwrap();
        let base = library(&build, "libbase.so.1", "int base(void) { return 1; }", &[]);
        let numa = library(&build, "libnuma.so.1", "int base(void); int numa(void) { return base() + 1; }", &[&base]);
        let comgr = library(&build, "libamd_comgr.so.2", "int comgr(void) { return 3; }", &[]);
        let source = "int numa(void); const char *f = \"libmystery.so.4\"; int hip(void) { return numa() + f[0]; }";
        let hip = library(&build, "libamdhip64.so.5", source, &[&numa]);
        let blas = library(&build, "librocblas.so.0", "int hip(void); int blas(void) { return hip(); }", &[&hip]);
        let read = |path: &Path| fs_err::read(path).unwrap();
        let lib = |name: &str| format!("./usr/lib/x86_64-linux-gnu/{name}");
        let cmake = "get_filename_component(P \"${CMAKE_CURRENT_LIST_DIR}/../../../../\" ABSOLUTE)\n";
        let copyright = |package: &str| format!("./usr/share/doc/{package}/copyright");
        let packages = [
            ("libamdhip64-5", "5.2.3-8", {
                let tar = Tar::default().file(&lib("libamdhip64.so.5.2"), &read(&hip));
                let tar = tar.link(&lib("libamdhip64.so.5"), "libamdhip64.so.5.2");
                tar.file(&copyright("libamdhip64-5"), b"MIT").file("./usr/share/lintian/overrides/x", b"x")
            }),
            ("libamdhip64-dev", "5.2.3-8", {
                let tar = Tar::default().file("./usr/include/hip/hip_runtime.h", b"// hip\n");
                let tar = tar.file(&lib("cmake/hip/hip-config.cmake"), cmake.as_bytes());
                tar.link(&lib("libamdhip64.so"), "libamdhip64.so.5").link("./usr/bin/gone", "../nowhere/x")
            }),
            ("libamd-comgr2", "5.2.3-2", Tar::default().file(&lib("libamd_comgr.so.2"), &read(&comgr))),
            ("librocblas0", "5.5.1+dfsg-7", {
                let tar = Tar::default().file(&lib("librocblas.so.0"), &read(&blas));
                let tar = tar.file(&lib("rocblas/1.0/library/TensileLibrary_gfx1100.co"), b"kernels");
                let tar = tar.file(&lib("rocblas/1.0/library/K-gfx90a-xnack+.hsaco"), b"kernels");
                tar.file(&lib("rocblas/1.0/library/TensileLibrary.dat"), b"index")
            }),
            ("libnuma1", "2.0.16-1", {
                let tar = Tar::default().file(&lib("libnuma.so.1.0.0"), &read(&numa));
                let tar = tar.link(&lib("libnuma.so.1"), "libnuma.so.1.0.0").file(&copyright("libnuma1"), b"LGPL");
                tar.file("./usr/share/doc/libnuma1/changelog.gz", b"x")
            }),
            ("libbase1", "1.0-1", Tar::default().file("./lib/x86_64-linux-gnu/libbase.so.1", &read(&base))),
            ("libidle1", "1.0-1", Tar::default().file(&lib("libidle.so.1"), b"no ELF file")),
        ];
        let debs = packages.into_iter().map(|(name, version, tar)| deb(root, name, version, tar, packing)).collect();
        Self { directory, debs }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn source(&self) -> ImportSource {
        ImportSource::Debs(self.debs.clone())
    }

    fn without(&self, package: &str) -> ImportSource {
        let keep = |path: &&PathBuf| !path.to_string_lossy().contains(&format!("/{package}_"));
        ImportSource::Debs(self.debs.iter().filter(keep).cloned().collect())
    }
}

#[test]
fn every_packing_gives_the_same_artifacts() {
    let mut first: Option<Vec<(String, String)>> = None;
    for packing in Packing::ALL {
        let set = Set::new(packing);
        let output = set.path("out");
        let report = import(&set.source(), &options(&output)).unwrap();
        // The manifest holds the digests of the packages, which differ.
        let mut listing = listing(&output);
        listing.retain(|(path, _)| !path.ends_with("therock_manifest.json"));
        assert_eq!(&listing, first.get_or_insert_with(|| listing.clone()), "{packing:?}");
        assert_eq!(report.input_entries, 19);
    }
}

#[test]
fn files_land_in_their_artifacts() {
    let set = Set::new(Packing::Xz);
    let output = set.path("out");
    let report = import(&set.source(), &options(&output)).unwrap();
    let names: Vec<&str> = report.artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "amd-llvm_lib_generic",
            "base_lib_generic",
            "blas_lib_generic",
            "blas_lib_gfx1100",
            "blas_lib_gfx90a",
            "core-hip_dev_generic",
            "core-hip_doc_generic",
            "core-hip_lib_generic",
            "sysdeps_doc_generic",
            "sysdeps_lib_generic",
        ]
    );
    let catalog = Catalog::open(&output, &set.path("scratch"), &Silent).unwrap();
    assert_eq!(catalog.collisions().len(), 0);
    let paths = |name: &str| -> Vec<String> {
        let artifact = catalog.artifacts.iter().find(|artifact| artifact.name.to_string() == name).unwrap();
        let files = artifact.entries.iter().filter(|entry| entry.kind != rocwheel_artifact::EntryKind::Directory);
        files.map(|entry| entry.path.clone()).collect()
    };
    assert_eq!(paths("core-hip_lib_generic"), ["lib/libamdhip64.so", "lib/libamdhip64.so.5", "lib/libamdhip64.so.5.2"]);
    assert_eq!(paths("blas_lib_gfx90a"), ["lib/rocblas/1.0/library/K-gfx90a-xnack+.hsaco"]);
    assert_eq!(
        paths("sysdeps_lib_generic"),
        ["lib/rocm_sysdeps/lib/librocm_sysdeps_base.so.1", "lib/rocm_sysdeps/lib/librocm_sysdeps_numa.so.1"]
    );
    assert_eq!(paths("base_lib_generic"), ["share/therock/dist_info.json", "share/therock/therock_manifest.json"]);
    let cmake = output.join("core-hip_dev_generic/core-hip/stage/lib/cmake/hip/hip-config.cmake");
    assert!(fs_err::read_to_string(cmake).unwrap().contains("LIST_DIR}/../../../\" ABSOLUTE"));
    assert_eq!(report.rewritten, ["lib/cmake/hip/hip-config.cmake"]);
    let manifest = Manifest::find(&catalog).unwrap();
    assert_eq!((manifest.rocm_package_version.as_str(), manifest.rocm_version.as_deref()), ("5.2.3", Some("5.2.3")));
    let imported = &manifest.other["rocwheel"]["import"];
    assert_eq!((imported["kind"].as_str(), imported["shape"].as_str()), (Some("deb"), Some("fat")));
    assert_eq!(imported["components"]["librocblas0-source"], "5.5.1");
    assert_eq!(imported["sources"].as_array().unwrap().len(), 7);
    assert_eq!(imported["sources"][0]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(imported["system_libraries"][1]["original"], "libnuma.so.1");
    assert_eq!(imported["system_libraries"][1]["copyright"], "share/doc/libnuma1/copyright");
    assert_eq!(DistInfo::find(&catalog).unwrap().unwrap().targets(), ["gfx90a", "gfx1100"]);
}

#[test]
fn everything_is_placed_or_listed() {
    let set = Set::new(Packing::Zst);
    let report = import(&set.source(), &options(&set.path("out"))).unwrap();
    let skipped: Vec<(&str, &str)> =
        report.skipped.iter().map(|skipped| (skipped.source.as_str(), skipped.path.as_str())).collect();
    assert_eq!(
        skipped,
        [
            ("libamdhip64-5", "usr/share/lintian/overrides/x"),
            ("libamdhip64-dev", "usr/bin/gone"),
            ("libidle1", "usr/lib/x86_64-linux-gnu/libidle.so.1"),
            ("libnuma1", "usr/lib/x86_64-linux-gnu/libnuma.so.1"),
            ("libnuma1", "usr/share/doc/libnuma1/changelog.gz"),
        ]
    );
    let written: u64 = report.artifacts.iter().map(|artifact| artifact.files + artifact.links).sum();
    // The two JSON files were not in the input.
    assert_eq!(written - 2 + skipped.len() as u64, report.input_entries);
    assert_eq!(report.unlisted_loads.len(), 1);
    assert_eq!(report.unlisted_loads[0].text, "libmystery.so.4");
}

#[test]
fn the_flattened_tree_loads_from_anywhere() {
    let set = Set::new(Packing::Xz);
    for sonames in [Sonames::Rename, Sonames::Keep] {
        let output = set.path("out");
        let report =
            import(&set.source(), &rocwheel_artifact::import::ImportOptions { sonames, ..options(&output) }).unwrap();
        let name = |library: &rocwheel_artifact::import::SystemLibrary| library.soname.clone();
        let expected = match sonames {
            Sonames::Rename => ["librocm_sysdeps_base.so.1", "librocm_sysdeps_numa.so.1"],
            Sonames::Keep => ["libbase.so.1", "libnuma.so.1"],
        };
        assert_eq!(report.system_libraries.iter().map(name).collect::<Vec<_>>(), expected);
        let flat = set.path(&format!("flat-{sonames:?}"));
        fixture::flatten(&output, &flat);
        let moved = set.path(&format!("moved-{sonames:?}"));
        fs_err::rename(&flat, &moved).unwrap();
        let loader = fixture::loader(set.directory.path());
        for library in ["lib/librocblas.so.0", "lib/libamdhip64.so", "lib/libamd_comgr.so.2"] {
            assert_eq!(fixture::outside(&loader, &moved.join(library), &moved), Ok(Vec::new()), "{library}");
        }
    }
}

#[test]
fn what_is_missing_is_named_with_who_needs_it_and_where_to_get_it() {
    let set = Set::new(Packing::None);
    let output = set.path("out");
    let error = import(&set.without("libbase1"), &options(&output)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`libbase.so.1` is missing, needed by `lib/rocm_sysdeps/lib/libnuma.so.1.0.0`, which \
         `lib/libamdhip64.so.5.2` needs (probably in package `libbase1`)"
    );
    assert_eq!(
        error.hint().unwrap(),
        "fetch them with `apt-get download libbase1`; or accept it with `--allow-unresolved libbase.so.1`"
    );
    assert!(!output.exists());
    let error = import(&set.without("libamd-comgr2"), &options(&output)).unwrap_err();
    assert!(error.to_string().contains("`libamd_comgr.so.*` is missing, loaded at run time by"), "{error}");
    let mut options = options(&output);
    options.allow_unresolved = vec!["libbase.so.1".into()];
    let report = import(&set.without("libbase1"), &options).unwrap();
    assert_eq!(report.unresolved.len(), 1);
    assert_eq!(report.unresolved[0].library, "libbase.so.1");
}

#[test]
fn two_runs_give_the_same_bytes_whatever_the_order() {
    let set = Set::new(Packing::Gz);
    let (one, two) = (set.path("one"), set.path("elsewhere/two"));
    import(&set.source(), &options(&one)).unwrap();
    let mut reversed = set.debs.clone();
    reversed.reverse();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    pool.install(|| import(&ImportSource::Debs(reversed), &options(&two))).unwrap();
    assert_eq!(listing(&one), listing(&two));
}

#[test]
fn a_rehearsal_keeps_nothing() {
    let set = Set::new(Packing::Xz);
    let output = set.path("out");
    let scratch = set.path("scratch");
    fs_err::create_dir(&scratch).unwrap();
    let plan = rocwheel_artifact::import::plan(&set.source(), &options(&output), &Silent).unwrap();
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["sources"][1]["artifact"], "core-hip");
    let report = rehearse(&plan, &scratch, &Silent).unwrap();
    assert_eq!(report.version, "5.2.3");
    assert!(!output.exists());
    assert_eq!(fs_err::read_dir(&scratch).unwrap().count(), 0);
}

#[test]
fn the_version_is_the_runtime_s_or_what_is_said() {
    let set = Set::new(Packing::None);
    let source = set.without("libamdhip64-5");
    let error = rocwheel_artifact::import::plan(&source, &options(&set.path("out")), &Silent).unwrap_err();
    assert!(matches!(error, Error::NoVersion));
    let mut options = options(&set.path("out"));
    options.version = Some("6.4.0".into());
    assert_eq!(rocwheel_artifact::import::plan(&source, &options, &Silent).unwrap().version, "6.4.0");
    options.version = Some("latest".into());
    let error = rocwheel_artifact::import::plan(&source, &options, &Silent).unwrap_err();
    assert_eq!((error.to_string().as_str(), error.exit()), ("`latest` is not a version", Exit::Usage));
}

/// A library that loads libdrm by name when it is loaded itself, and ends the process when it does
/// not find it.
const LOADS_DRM: &str = r#"
#include <dlfcn.h>
#include <unistd.h>
__attribute__((constructor)) static void load(void) { if (!dlopen("libdrm.so.2", RTLD_NOW)) _exit(7); }
"#;

#[test]
fn what_is_loaded_by_name_is_found_by_that_name() {
    let set = Set::new(Packing::None);
    let build = set.path("build");
    let drm = library(&build, "libdrm.so.2", "int drm(void) { return 4; }", &[]);
    // One needs libdrm, and so gets the renamed one; the other asks for it by name.
    let needs = library(&build, "libhsakmt.so.1", "int drm(void); int kmt(void) { return drm(); }", &[&drm]);
    let at = |name: &str| format!("./usr/lib/x86_64-linux-gnu/{name}");
    let package = |name: &str, library: &Path| {
        let file = library.file_name().unwrap().to_string_lossy().into_owned();
        let tar = Tar::default().file(&at(&file), &fs_err::read(library).unwrap());
        deb(set.directory.path(), name, "6.2.0-1", tar, Packing::None)
    };
    let mut debs = set.debs.clone();
    debs.extend([package("libdrm2", &drm), package("libhsakmt1", &needs)]);
    for (source, loads) in [("int smi;", false), (LOADS_DRM, true)] {
        let smi = library(&build, "libamd_smi.so.26", source, &[]);
        let mut debs = debs.clone();
        debs.push(package("amd-smi-lib", &smi));
        let output = set.path("out");
        let report = import(&ImportSource::Debs(debs), &options(&output)).unwrap();
        let taken = |name: &str| report.system_libraries.iter().any(|library| library.soname == name);
        assert!(taken("librocm_sysdeps_drm.so.2"));
        assert_eq!(taken("libdrm.so.2"), loads);
        let kept: Vec<_> = report.kept_names.iter().map(|kept| (kept.path.as_str(), kept.text.as_str())).collect();
        assert_eq!(kept, if loads { vec![("lib/libamd_smi.so.26", "libdrm.so.2")] } else { vec![] });
        assert!(report.unlisted_loads.iter().all(|mention| mention.text != "libdrm.so.2"));
        let flat = set.path(&format!("flat-{loads}"));
        fixture::flatten(&output, &flat);
        let loader = fixture::loader(set.directory.path());
        for library in ["lib/libamd_smi.so.26", "lib/libhsakmt.so.1"] {
            assert_eq!(fixture::outside(&loader, &flat.join(library), &flat), Ok(Vec::new()), "{library}");
        }
    }
}

#[test]
fn absolute_links_mean_the_packages_and_never_this_machine() {
    let directory = tempfile::tempdir().unwrap();
    let tar = Tar::default()
        .file("./opt/rocm-6.2.0/lib/libamdhip64.txt", b"x")
        .file("./opt/rocm-6.2.0/bin/tool", b"#!/bin/sh\n")
        .link("./opt/rocm-6.2.0/bin/also", "/opt/rocm-6.2.0/bin/tool")
        .link("./opt/rocm-6.2.0/bin/alternative", "/etc/alternatives/tool")
        .link("./opt/rocm-6.2.0/bin/here", "/etc/hostname");
    let path = deb(directory.path(), "hip-runtime-amd", "6.2.0-1", tar, Packing::Xz);
    let output = directory.path().join("out");
    let report = import(&ImportSource::Debs(vec![path]), &options(&output)).unwrap();
    let links: Vec<(String, String)> =
        listing(&output).into_iter().filter(|(path, _)| path.contains("/bin/") && !path.ends_with("/tool")).collect();
    assert_eq!(links.len(), 1, "{links:?}");
    assert!(links[0].0.ends_with("stage/bin/also") && links[0].1 == "tool", "{links:?}");
    let lost: Vec<(&str, &str)> =
        report.skipped.iter().filter_map(|skipped| Some((skipped.path.as_str(), skipped.target.as_deref()?))).collect();
    assert_eq!(
        lost,
        [("opt/rocm-6.2.0/bin/alternative", "/etc/alternatives/tool"), ("opt/rocm-6.2.0/bin/here", "/etc/hostname"),]
    );
}
