//! The shape of a TheRock build with kpack, against the table of appendix A.6 and the formats of
//! section 2.

#![allow(clippy::unwrap_used)]

mod support;

use rocwheel_package::{Logical, Shape};
use support::{Build, members, tar_members, text};

const VERSION: &str = "10.1.0a20260822";

/// Creates the libraries, links and tools of appendix A.6, and two targets.
fn build() -> Build {
    let build = Build::split();
    let core = "core-hip_lib_generic";
    build.library("amd-llvm_lib_generic", "lib/libamd_comgr.so.3", Some("libamd_comgr.so.3"), &[]);
    build.library(core, "lib/libamdhip64.so.7.1.0", Some("libamdhip64.so.7"), &[]);
    build.link(core, "lib/libamdhip64.so.7", "libamdhip64.so.7.1.0");
    build.link(core, "lib/libamdhip64.so", "libamdhip64.so.7");
    build.library(core, "lib/libnosoname.so", None, &[]);
    build.link(core, "lib/libnosoname_link.so", "libnosoname.so");
    build.library(core, "lib/liborphan.so.3.1", Some("liborphan.so.3"), &[]);
    build.link(core, "lib/dangling", "missing");
    build.directory(core, "lib/emptydir");
    build.library("core-kpack_lib_generic", "lib/librocm_kpack.so.1", Some("librocm_kpack.so.1"), &[]);
    build.program("core-hip_run_generic", "bin/hipcc", "printf(\"%s HIP version: 7\\n\", argv[0]); return 0;", &[]);
    build.link("core-hip_run_generic", "bin/hipconfig", "hipcc");
    build.script("core-hip_run_generic", "bin/script.sh", "#!/bin/sh\necho script\n");
    build.link("core-hip_run_generic", "bin/script-link", "script.sh");
    build.link("base_lib_generic", "llvm", "lib/llvm");
    build.file("core-hip_dev_generic", "include/hip/hip_runtime.h", "// hip\n");
    build.file("core-hip_dev_generic", "lib/cmake/hip/hip-config.cmake", "# hip\n");
    build.program("amd-llvm_run_generic", "lib/llvm/bin/clang-20", "return 0;", &[]);
    build.link("amd-llvm_run_generic", "lib/llvm/bin/clang", "clang-20");
    // This is a link into another artifact, which TheRock's current tool drops.
    build.link("base_run_generic", "bin/amdclang", "../lib/llvm/bin/clang");
    let hip = build.place(core, "lib/libamdhip64.so.7.1.0");
    build.library("blas_lib_generic", "lib/librocblas.so.5", Some("librocblas.so.5"), &[hip.to_str().unwrap()]);
    for (target, text) in [("gfx942", "a"), ("gfx942:xnack+", "b"), ("gfx1100", "c")] {
        let name = format!("blas_lib_{target}");
        let file = target.replace(':', "-");
        build.file(&name, &format!("lib/rocblas/library/K_{file}.co"), text);
    }
    build.file("blas_test_generic", "bin/rocblas-test", "test");
    build.file("fftw3_lib_generic", "lib/libfftw3.a", "left out");
    build
}

fn wheel(build: &Build, name: &str) -> std::path::PathBuf {
    let prefix = format!("{name}-{VERSION}-py3-none-");
    let found = build.dist_names().into_iter().find(|file| file.starts_with(&prefix));
    build.dist().join(found.unwrap_or_else(|| panic!("{name} is not among {:?}", build.dist_names())))
}

#[test]
fn the_set_has_todays_names_and_shapes() {
    let build = build();
    let (plan, outcome) = build.package(&build.request()).unwrap();
    assert_eq!(plan.shape, Shape::Split);
    assert_eq!(plan.targets, ["gfx942", "gfx1100"], "numerically");
    let names: Vec<String> =
        build.dist_names().into_iter().map(|name| name.split("-py3").next().unwrap().to_owned()).collect();
    assert_eq!(
        names.join(" "),
        "rocm-10.1.0a20260822.tar.gz rocm_sdk_core-10.1.0a20260822 rocm_sdk_devel-10.1.0a20260822 \
        rocm_sdk_device_gfx1100-10.1.0a20260822 rocm_sdk_device_gfx942-10.1.0a20260822 \
        rocm_sdk_libraries-10.1.0a20260822"
    );
    assert_eq!(outcome.packages.len(), 6);
    assert!(outcome.packages.iter().all(|package| package.written && package.compressed > 0));
    assert!(plan.wheels.iter().all(|wheel| wheel.platform_tag.starts_with("manylinux")), "honest tags");
}

#[test]
fn core_holds_what_appendix_a_6_says_and_loses_nothing() {
    let build = build();
    let (plan, _) = build.package(&build.request()).unwrap();
    let core = members(&wheel(&build, "rocm_sdk_core"));
    let names: Vec<&str> = core.keys().filter_map(|name| name.strip_prefix("_rocm_sdk_core/")).collect();
    assert_eq!(
        names.join(" "),
        "__init__.py bin/amdclang bin/hipcc bin/hipconfig bin/script-link bin/script.sh \
        include/hip/hip_runtime.h lib/libamd_comgr.so.3 lib/libamdhip64.so.7 lib/libnosoname.so \
        lib/libnosoname_link.so lib/liborphan.so.3 lib/librocm_kpack.so.1 lib/llvm/bin/clang \
        lib/llvm/bin/clang-20 share/therock/dist_info.json share/therock/therock_manifest.json"
    );
    assert!(core["_rocm_sdk_core/bin/hipconfig"].len() < 8192, "an exec stub");
    let notes: Vec<&str> = plan.notes.iter().map(|note| note.path.as_str()).collect();
    assert!(notes.contains(&"lib/liborphan.so.3.1") && notes.contains(&"lib/dangling"), "{notes:?}");
}

#[test]
fn libraries_find_core_beside_them() {
    let build = build();
    build.package(&build.request()).unwrap();
    let path = wheel(&build, "rocm_sdk_libraries");
    let library = members(&path).remove("_rocm_sdk_libraries/lib/librocblas.so.5").unwrap();
    let elf = rocwheel_elf::Elf::read(&library).unwrap().unwrap();
    assert_eq!(
        elf.rpath.as_deref(),
        Some(
            "$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib:$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib:\
             $ORIGIN/../../_rocm_sdk_core/lib/host-math/lib:$ORIGIN/../../_rocm_sdk_core/lib/llvm/lib"
        )
    );
    let metadata = text(&path, "dist-info/METADATA");
    assert!(metadata.contains("\nRequires-Dist: rocm-sdk-core==10.1.0a20260822\n"), "{metadata}");
    assert!(metadata.contains("\nRequires-Python: >=3.10\n") && metadata.contains("\nLicense-Expression: "));
}

#[test]
fn device_wheels_own_nothing_that_another_wheel_owns() {
    let build = build();
    build.package(&build.request()).unwrap();
    let device = members(&wheel(&build, "rocm_sdk_device_gfx942"));
    let names: Vec<&str> = device.keys().filter(|name| !name.contains("dist-info")).map(String::as_str).collect();
    assert_eq!(
        names.join(" "),
        "_rocm_sdk_libraries/.devel_links/gfx942.json _rocm_sdk_libraries/_device_gfx942.py \
        _rocm_sdk_libraries/lib/rocblas/library/K_gfx942-xnack+.co \
        _rocm_sdk_libraries/lib/rocblas/library/K_gfx942.co"
    );
    let other = members(&wheel(&build, "rocm_sdk_device_gfx1100"));
    let libraries = members(&wheel(&build, "rocm_sdk_libraries"));
    for name in names {
        assert!(!other.contains_key(name) && !libraries.contains_key(name), "{name} has two owners");
    }
    let links = String::from_utf8(device["_rocm_sdk_libraries/.devel_links/gfx942.json"].clone()).unwrap();
    assert!(
        links.contains(r#""target": "../../../../_rocm_sdk_libraries/lib/rocblas/library/K_gfx942.co""#),
        "{links}"
    );
}

/// TheRock's own test of installed packages demands that the devel tree is a superset of the
/// libraries' folder.
#[test]
fn every_file_of_the_libraries_folder_is_in_the_devel_tree() {
    let build = build();
    build.package(&build.request()).unwrap();
    let devel = members(&wheel(&build, "rocm_sdk_devel"));
    let tar = tar_members(&devel["rocm_sdk_devel/_devel.tar"]);
    let mut mirrored: Vec<String> = tar.into_iter().map(|(name, _)| name.replace("_rocm_sdk_devel/", "")).collect();
    let mut files: Vec<String> = Vec::new();
    for name in ["rocm_sdk_libraries", "rocm_sdk_device_gfx942", "rocm_sdk_device_gfx1100"] {
        for (path, content) in members(&wheel(&build, name)) {
            let Some(path) = path.strip_prefix("_rocm_sdk_libraries/") else { continue };
            if path.starts_with(".devel_links/") {
                let links: serde_json::Value = serde_json::from_slice(&content).unwrap();
                let links = links["links"].as_array().unwrap();
                mirrored.extend(links.iter().map(|link| link["relpath"].as_str().unwrap().to_owned()));
            } else if path != "__init__.py" {
                files.push(path.to_owned());
            }
        }
    }
    assert!(files.contains(&"_device_gfx942.py".to_owned()) && files.len() > 5, "{files:?}");
    let missing: Vec<&String> = files.iter().filter(|file| !mirrored.contains(file)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn compiler_drivers_of_the_devel_tree_lead_to_its_own_compiler() {
    let build = build();
    build.link("base_run_generic", "bin/amdclang++", "../lib/llvm/bin/clang++");
    build.link("amd-llvm_run_generic", "lib/llvm/bin/clang++", "clang");
    build.package(&build.request()).unwrap();
    let devel = members(&wheel(&build, "rocm_sdk_devel"));
    let tar = tar_members(&devel["rocm_sdk_devel/_devel.tar"]);
    for name in ["amdclang", "amdclang++"] {
        let driver = tar.iter().find(|(path, _)| *path == format!("_rocm_sdk_devel/bin/{name}")).unwrap();
        assert_eq!(driver.1, format!("-> ../lib/llvm/bin/{}", name.replace("amd", "")));
    }
    let program = tar.iter().find(|(path, _)| path == "_rocm_sdk_devel/lib/llvm/bin/clang++").unwrap();
    assert_eq!(program.1, "-> ../../../../_rocm_sdk_core/lib/llvm/bin/clang++");
}

#[test]
fn the_devel_tree_links_to_what_is_installed_and_holds_the_rest() {
    let build = build();
    build.package(&build.request()).unwrap();
    let devel = members(&wheel(&build, "rocm_sdk_devel"));
    let members = tar_members(&devel["rocm_sdk_devel/_devel.tar"]);
    let kind = |path: &str| {
        let name = format!("_rocm_sdk_devel/{path}");
        members.iter().find(|(member, _)| *member == name).map(|(_, kind)| kind.as_str())
    };
    for (path, expected) in [
        ("lib/libamdhip64.so.7.1.0", "-> libamdhip64.so.7"),
        ("lib/libamdhip64.so.7", "-> ../../_rocm_sdk_core/lib/libamdhip64.so.7"),
        ("lib/libamdhip64.so", "-> libamdhip64.so.7"),
        ("lib/libnosoname.so", "-> ../../_rocm_sdk_core/lib/libnosoname.so"),
        ("lib/liborphan.so.3.1", "-> liborphan.so.3"),
        ("lib/liborphan.so.3", "-> ../../_rocm_sdk_core/lib/liborphan.so.3"),
        ("bin/hipconfig", "-> ../../_rocm_sdk_core/bin/hipconfig"),
        ("llvm", "-> lib/llvm"),
        ("lib/dangling", "-> missing"),
        ("lib/emptydir", "directory"),
        ("lib/cmake/hip/hip-config.cmake", "file"),
        ("include/hip/hip_runtime.h", "-> ../../../_rocm_sdk_core/include/hip/hip_runtime.h"),
    ] {
        assert_eq!(kind(path), Some(expected), "{path}");
    }
    assert_eq!(kind("bin/rocblas-test"), None, "tests are left out of this shape");
    for (position, (name, _)) in members.iter().enumerate() {
        let parent = name.rsplit_once('/').unwrap().0;
        let before = members[..position].iter().any(|(member, kind)| member == parent && kind == "directory");
        assert!(before || parent == "_rocm_sdk_devel", "{name} comes before its directory");
    }
}

#[test]
fn what_is_in_no_package_is_told_with_the_reason() {
    let build = build();
    build.file("blas_wild_generic", "lib/x", "x");
    build.file("novelty_lib_generic", "lib/y", "y");
    let plan = build.plan(&build.request()).unwrap();
    let unclaimed: Vec<&str> = plan.unclaimed.iter().map(|row| row.what.as_str()).collect();
    assert_eq!(unclaimed, ["blas_wild_generic", "novelty_lib_generic"]);
    let left_out: Vec<&str> = plan.left_out.iter().map(|row| row.what.as_str()).collect();
    assert_eq!(left_out, ["blas_test_generic", "fftw3_lib_generic"]);
    let strict = rocwheel_package::Request { unclaimed: rocwheel_package::Unclaimed::Refuse, ..build.request() };
    let error = build.plan(&strict).unwrap_err();
    assert!(error.to_string().starts_with("2 things that no rule claims:\n  blas_wild_generic: "), "{error}");
}

#[test]
fn only_some_targets_and_only_some_distributions() {
    let build = build();
    let request = rocwheel_package::Request { targets: vec!["gfx94X-dcgpu".into()], ..build.request() };
    let plan = build.plan(&request).unwrap();
    assert_eq!(plan.targets, ["gfx942"]);
    assert!(plan.left_out.iter().any(|row| row.what == "blas_lib_gfx1100"));
    let request = rocwheel_package::Request { targets: vec!["gfx942;gfx1200".into()], ..build.request() };
    let error = build.plan(&request).unwrap_err();
    assert_eq!(error.to_string(), "no artifact holds code for gfx1200");
    let request = rocwheel_package::Request { only: vec![Logical::Core], ..build.request() };
    let plan = build.plan(&request).unwrap();
    assert_eq!((plan.wheels.len(), plan.selectors.len()), (1, 0));
}

#[test]
fn a_second_run_writes_only_what_changed() {
    let build = build();
    let request = build.request();
    build.package(&request).unwrap();
    let (_, outcome) = build.package(&request).unwrap();
    assert!(outcome.packages.iter().all(|package| !package.written));
    build.file("blas_lib_gfx1100", "lib/rocblas/library/K_gfx1100.co", "changed");
    let (_, outcome) = build.package(&request).unwrap();
    let written: Vec<&str> =
        outcome.packages.iter().filter(|package| package.written).map(|package| package.path.as_str()).collect();
    assert!(matches!(written.as_slice(), [path] if path.contains("device_gfx1100")), "{written:?}");
    fs_err::remove_dir_all(build.artifacts().join("blas_lib_gfx1100")).unwrap();
    let (_, outcome) = build.package(&request).unwrap();
    assert!(matches!(outcome.removed.as_slice(), [path] if path.contains("device_gfx1100")), "{:?}", outcome.removed);
}

#[test]
fn the_same_input_gives_the_same_bytes_elsewhere() {
    let digests = |build: &Build, threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let outcome = pool.install(|| build.package(&build.request()).unwrap().1);
        outcome.packages.into_iter().map(|package| (package.path, package.sha256)).collect::<Vec<_>>()
    };
    let (one, other) = (build(), build());
    assert_eq!(digests(&one, 1), digests(&other, 3));
}

#[test]
fn a_file_that_two_targets_share_goes_to_the_libraries() {
    let build = build();
    for target in ["gfx942", "gfx1100"] {
        build.file(&format!("blas_lib_{target}"), "lib/rocblas/library/fallback.dat", "the same");
    }
    build.package(&build.request()).unwrap();
    let libraries = members(&wheel(&build, "rocm_sdk_libraries"));
    assert!(libraries.contains_key("_rocm_sdk_libraries/lib/rocblas/library/fallback.dat"));
    let device = members(&wheel(&build, "rocm_sdk_device_gfx942"));
    assert!(!device.contains_key("_rocm_sdk_libraries/lib/rocblas/library/fallback.dat"));
}

#[test]
fn the_manifest_ships_untouched_under_any_version() {
    let build = build();
    let text_of_the_build = r#"{ "zebra": 123456789012345678901234567890, "n": 1.10, "the_rock_commit": "abc",
        "rocm_package_version": "10.1.0a20260822", "rocm_version": "10.1.0", "submodules": [], "flags": {"KPACK_SPLIT_ARTIFACTS": true} }"#;
    build.file("base_lib_generic", "share/therock/therock_manifest.json", text_of_the_build);
    let request = rocwheel_package::Request { version: Some("10.2.0rc1".into()), ..build.request() };
    build.package(&request).unwrap();
    let core = build.dist().join(build.dist_names().into_iter().find(|name| name.contains("core-10.2.0rc1")).unwrap());
    assert_eq!(
        text(&core, "share/therock/therock_manifest.json"),
        text_of_the_build,
        "the commit is that of this version"
    );
}

#[test]
fn the_profilers_have_their_own_wheel_with_the_names_they_ask_for() {
    let build = build();
    let systems = "rocprofiler-systems_lib_generic";
    build.library(systems, "lib/librocprof-sys-dl.so.1.2.0", Some("librocprof-sys-dl.so.1"), &[]);
    build.link(systems, "lib/librocprof-sys-dl.so.1", "librocprof-sys-dl.so.1.2.0");
    build.program("rocprofiler-systems_run_generic", "bin/rocprof-sys-run", "return 0;", &[]);
    build.file("rocprofiler-systems_run_generic", "bin/something-else", "not the profiler's");
    build.script("rocprofiler-compute_run_generic", "libexec/rocprofiler-compute/rocprof-compute", "#!/bin/sh\n");
    build.program("rocprofiler-sdk_run_generic", "bin/rocprof-attach", "return 0;", &[]);
    let (plan, _) = build.package(&build.request()).unwrap();
    let core = wheel(&build, "rocm_sdk_core");
    assert!(members(&core).contains_key("_rocm_sdk_core/bin/rocprof-attach"));
    assert!(text(&core, "entry_points.txt").contains("rocprof-attach = rocm_sdk_core._cli:rocprof_attach\n"));
    let path = wheel(&build, "rocm_profiler");
    let members = members(&path);
    for name in "lib/librocprof-sys-dl.so.1 lib/librocprof-sys-dl.so bin/rocprof-sys-run bin/rocprof-compute \
        libexec/rocprofiler-compute/rocprof-compute"
        .split(' ')
    {
        assert!(members.contains_key(&format!("_rocm_profiler/{name}")), "{name}: {:?}", members.keys());
    }
    assert!(!members.contains_key("_rocm_profiler/bin/something-else"));
    assert!(plan.left_out.iter().any(|row| row.what == "part of rocprofiler-systems_run_generic" && row.files == 1));
    let scripts = text(&path, "entry_points.txt");
    assert!(scripts.contains("rocprof-sys-run = rocm_profiler._cli:rocprof_sys_run\n"), "{scripts}");
    assert!(plan.selectors[0].extras.contains_key("profiler"));
}

/// The parts of hipTensor in a set without a package of it, with the reasons.
fn parts_left_out(build: &Build) -> Vec<(String, String)> {
    let plan = build.plan(&build.request()).unwrap();
    assert!(!plan.wheels.iter().any(|wheel| wheel.logical == Logical::Hpc));
    assert!(!plan.selectors[0].extras.contains_key("hpc"));
    let rows = plan.left_out.into_iter().filter(|row| row.what.starts_with("hiptensor"));
    rows.map(|row| (row.what, row.reason)).collect()
}

#[test]
fn libraries_for_hpc_have_a_wheel_and_an_extra() {
    let build = build();
    build.file("hiptensor_dev_generic", "include/hiptensor/hiptensor.h", "// hiptensor\n");
    let without_libraries = "its libraries are not among the artifacts".to_owned();
    assert_eq!(parts_left_out(&build), [("hiptensor_dev_generic".to_owned(), without_libraries)]);
    let hip = build.place("core-hip_lib_generic", "lib/libamdhip64.so.7.1.0");
    let flags = [hip.to_str().unwrap()];
    build.library("hiptensor_lib_generic", "lib/libhiptensor.so.0.1", Some("libhiptensor.so.0"), &flags);
    let (plan, _) = build.package(&build.request()).unwrap();
    let path = wheel(&build, "rocm_sdk_hpc");
    assert!(members(&path).contains_key("_rocm_sdk_hpc/lib/libhiptensor.so.0"), "{:?}", members(&path).keys());
    assert!(text(&path, "METADATA").contains(&format!("\nRequires-Dist: rocm-sdk-core=={VERSION}\n")));
    let dist_info = text(&path, "rocm_sdk_hpc/_dist_info.py");
    assert!(dist_info.contains("\nALL_PACKAGES[\"hpc\"].dist_package_template = \"rocm-sdk-hpc\"\n"));
    assert_eq!(plan.selectors[0].extras["hpc"], [format!("rocm-sdk-hpc=={VERSION}")]);
    let devel = members(&wheel(&build, "rocm_sdk_devel"));
    let names: Vec<String> =
        tar_members(&devel["rocm_sdk_devel/_devel.tar"]).into_iter().map(|(name, _)| name).collect();
    for name in ["include/hiptensor/hiptensor.h", "lib/libhiptensor.so.0"] {
        assert!(names.iter().any(|member| member.ends_with(name)), "{name} is not among {names:?}");
    }
    // Its kernels would be nowhere.
    build.file("hiptensor_lib_gfx942", ".kpack/hiptensor_lib_gfx942.kpack", "kernels");
    let parts = ["hiptensor_dev_generic", "hiptensor_lib_generic", "hiptensor_lib_gfx942"].map(str::to_owned);
    let split = "its code was split by GPU target, and no device package takes that";
    assert_eq!(parts_left_out(&build), parts.map(|part| (part, split.to_owned())));
}

#[test]
fn archives_give_the_same_packages_as_directories() {
    let build = build();
    let digests = |outcome: rocwheel_package::PackagingReport| {
        outcome.packages.into_iter().map(|package| (package.path, package.sha256)).collect::<Vec<_>>()
    };
    let from_directories = digests(build.package(&build.request()).unwrap().1);
    for (index, name) in support::names(&build.artifacts()).into_iter().enumerate() {
        let (flag, suffix) = if index % 2 == 0 { ("--zstd", "tar.zst") } else { ("--xz", "tar.xz") };
        let artifact = build.artifacts().join(&name);
        let status = std::process::Command::new("tar")
            .args([flag, "-cf"])
            .arg(build.artifacts().join(format!("{name}.{suffix}")))
            .arg("-C")
            .arg(&artifact)
            .arg("artifact_manifest.txt")
            .args(support::names(&artifact).into_iter().filter(|name| name != "artifact_manifest.txt"))
            .status()
            .unwrap();
        assert!(status.success());
        fs_err::remove_dir_all(artifact).unwrap();
    }
    assert_eq!(digests(build.package(&build.request()).unwrap().1), from_directories);
}

#[test]
fn links_that_leave_the_tree_only_together_are_not_shipped() {
    let build = build();
    build.link("core-hip_lib_generic", "lib/evil", "../deep/link/../../etc/passwd");
    build.link("rand_lib_generic", "deep/link", "..");
    let (plan, _) = build.package(&build.request()).unwrap();
    let devel = members(&wheel(&build, "rocm_sdk_devel"));
    let names = tar_members(&devel["rocm_sdk_devel/_devel.tar"]);
    assert!(!names.iter().any(|(name, _)| name.ends_with("lib/evil")), "{names:?}");
    assert!(plan.notes.iter().any(|note| note.path == "lib/evil" && note.message.contains("leaves the tree")));
}

/// Targets without own code run that of their generic target: their packages bring it.
#[test]
fn the_code_of_a_generic_target_comes_with_the_targets_that_run_it() {
    let build = build();
    for target in ["gfx1201", "gfx12-generic", "gfx11-generic"] {
        build.file(&format!("rand_lib_{target}"), &format!(".kpack/rand_lib_{target}.kpack"), target);
    }
    build.package(&build.request()).unwrap();
    let requires = |name: &str| {
        let metadata = text(&wheel(&build, name), "METADATA");
        let lines = metadata.lines().filter_map(|line| line.strip_prefix("Requires-Dist: rocm-sdk-"));
        lines.map(|line| line.split("==").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(requires("rocm_sdk_device_gfx1201"), ["libraries", "device-gfx12-generic"]);
    assert_eq!(requires("rocm_sdk_device_gfx1100"), ["libraries", "device-gfx11-generic"]);
    assert_eq!(requires("rocm_sdk_device_gfx942"), ["libraries"]);
    assert_eq!(requires("rocm_sdk_device_gfx12_generic"), ["libraries"]);
}

/// TheRock writes a version into the manifest when it is given one, since 2026.
#[test]
fn a_manifest_may_have_no_version_when_the_request_has_one() {
    let build = build();
    build.file(
        "base_lib_generic",
        "share/therock/therock_manifest.json",
        r#"{"the_rock_commit": "a", "submodules": []}"#,
    );
    let error = build.package(&build.request()).unwrap_err();
    assert!(error.to_string().ends_with("does not name a version"), "{error}");
    let request = rocwheel_package::Request { version: Some("6.1.0".into()), ..build.request() };
    let (plan, _) = build.package(&request).unwrap();
    assert!(plan.wheels.iter().all(|wheel| wheel.file_name.contains("-6.1.0-")));
}
