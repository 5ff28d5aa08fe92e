//! Packages for Windows: alone, and together with those for Linux. The libraries are made by clang
//! and lld; none of them runs here.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;

use rocwheel_package::{IncompleteSet, Incompletes, Request, Shape};
use rocwheel_progress::Exit;
use rocwheel_wheel::Platform;
use support::{Build, members, tar_members, text};

const VERSION: &str = "10.1.0a20260822";

/// Creates a build for Windows in TheRock's layout: libraries in `bin`, import libraries in `lib`.
fn windows() -> Build {
    let build = Build::split();
    build.dll("core-hip_lib_generic", "bin/amdhip64_7.dll", &["KERNEL32.dll", "amd_comgr0701.dll"]);
    build.dll("amd-llvm_lib_generic", "bin/amd_comgr0701.dll", &["api-ms-win-crt-heap-l1-1-0.dll"]);
    build.dll("core-kpack_lib_generic", "bin/rocm_kpack.dll", &[]);
    build.file("core-hip_dev_generic", "lib/amdhip64.lib", "!<arch>\n");
    build.file("core-hip_dev_generic", "include/hip/hip_runtime.h", "// hip\n");
    build.exe("core-hip_run_generic", "bin/hipcc.exe", &["KERNEL32.dll"]);
    build.link("core-hip_run_generic", "bin/hipconfig.exe", "hipcc.exe");
    build.exe("amd-llvm_run_generic", "lib/llvm/bin/amdclang++.exe", &[]);
    build.dll("blas_lib_generic", "bin/rocblas.dll", &["AMDHIP64_7.dll", "MSVCP140.dll"]);
    build.file("blas_dev_generic", "lib/rocblas.lib", "!<arch>\n");
    build.file("blas_lib_gfx1100", "bin/rocblas/library/K_gfx1100.co", "c");
    build
}

/// Creates the same build for Linux, with one more target and a profiler.
fn linux() -> Build {
    let build = Build::split();
    build.library("amd-llvm_lib_generic", "lib/libamd_comgr.so.3", Some("libamd_comgr.so.3"), &[]);
    build.library("core-hip_lib_generic", "lib/libamdhip64.so.7", Some("libamdhip64.so.7"), &[]);
    build.library("core-kpack_lib_generic", "lib/librocm_kpack.so.1", Some("librocm_kpack.so.1"), &[]);
    build.library("blas_lib_generic", "lib/librocblas.so.5", Some("librocblas.so.5"), &[]);
    build.file("core-hip_dev_generic", "lib/cmake/hip/hip-config.cmake", "# hip\n");
    build.program("rocprofiler-systems_run_generic", "bin/rocprof-sys-run", "return 0;", &[]);
    for target in ["gfx942", "gfx1100"] {
        build.file(&format!("blas_lib_{target}"), &format!("lib/rocblas/library/K_{target}.co"), target);
    }
    build
}

fn wheel(build: &Build, start: &str, tag: &str) -> std::path::PathBuf {
    let names = build.dist_names();
    let found = names.iter().find(|name| name.starts_with(&format!("{start}-{VERSION}-py3-none-{tag}")));
    build.dist().join(found.unwrap_or_else(|| panic!("{start} for {tag} is not among {names:?}")))
}

#[test]
fn a_build_for_windows_is_known_by_its_files() {
    let build = windows();
    let (plan, _) = build.package(&build.request()).unwrap();
    assert_eq!(plan.systems, BTreeMap::from([(Platform::Windows, vec!["gfx1100".to_owned()])]));
    assert_eq!(
        build.dist_names().join(" "),
        "rocm-10.1.0a20260822.tar.gz rocm_sdk_core-10.1.0a20260822-py3-none-win_amd64.whl \
        rocm_sdk_devel-10.1.0a20260822-py3-none-win_amd64.whl \
        rocm_sdk_device_gfx1100-10.1.0a20260822-py3-none-win_amd64.whl \
        rocm_sdk_libraries-10.1.0a20260822-py3-none-win_amd64.whl"
    );
    assert_eq!((&plan.unclaimed, &plan.unknown_libraries), (&Vec::new(), &Vec::new()));

    let path = wheel(&build, "rocm_sdk_core", "win");
    let core = members(&path);
    for (artifact, file) in [("core-hip_lib_generic", "bin/amdhip64_7.dll"), ("core-hip_run_generic", "bin/hipcc.exe")]
    {
        let bytes = fs_err::read(build.place(artifact, file)).unwrap();
        assert!(core[&format!("_rocm_sdk_core/{file}")] == bytes, "{file} is as it was");
    }
    assert_eq!(core["_rocm_sdk_core/bin/hipconfig.exe"], core["_rocm_sdk_core/bin/hipcc.exe"], "a copy, no stub");
    assert!(plan.notes.iter().any(|note| note.path == "bin/hipconfig.exe"), "{:?}", plan.notes);
    let scripts = text(&path, "entry_points.txt");
    for script in ["amdclang++ = rocm_sdk_core._cli:amdclangpp", "hipcc = rocm_sdk_core._cli:hipcc", "hipconfig = "] {
        assert!(scripts.contains(script), "{scripts}");
    }
    let contents = text(&path, "rocm_sdk_core/_contents.json");
    let contents: serde_json::Value = serde_json::from_str(&contents).unwrap();
    let libraries: Vec<&str> =
        contents["libraries"].as_array().unwrap().iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(libraries, ["bin/amd_comgr0701.dll", "bin/amdhip64_7.dll", "bin/rocm_kpack.dll"]);
    assert_eq!(contents["tools"][0]["path"], "lib/llvm/bin/amdclang++.exe");

    let device = members(&wheel(&build, "rocm_sdk_device_gfx1100", "win"));
    let names: Vec<&str> = device.keys().filter(|name| !name.contains("dist-info")).map(String::as_str).collect();
    assert_eq!(
        names.join(" "),
        "_rocm_sdk_libraries/.devel_links/gfx1100.json _rocm_sdk_libraries/_device_gfx1100.py \
        _rocm_sdk_libraries/bin/rocblas/library/K_gfx1100.co"
    );
    let devel = members(&wheel(&build, "rocm_sdk_devel", "win"));
    let tree: BTreeMap<String, String> = tar_members(&devel["rocm_sdk_devel/_devel.tar"]).into_iter().collect();
    for (path, kind) in [
        ("lib/amdhip64.lib", "-> ../../_rocm_sdk_core/lib/amdhip64.lib"),
        ("lib/rocblas.lib", "file"),
        ("bin/amdhip64_7.dll", "-> ../../_rocm_sdk_core/bin/amdhip64_7.dll"),
        ("bin/rocblas.dll", "-> ../../_rocm_sdk_libraries/bin/rocblas.dll"),
    ] {
        assert_eq!(tree[&format!("_rocm_sdk_devel/{path}")], kind, "{path}");
    }
}

#[test]
fn both_systems_have_one_selector() {
    let (linux, windows) = (linux(), windows());
    let (plan, outcome) = linux.package(&linux.request_with(&windows)).unwrap();
    let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(plan.systems[&Platform::Linux], all(&["gfx942", "gfx1100"]));
    assert_eq!(plan.systems[&Platform::Windows], all(&["gfx1100"]));
    assert_eq!(plan.targets, all(&["gfx942", "gfx1100"]));
    assert_eq!(plan.selectors.len(), 1);
    let names: Vec<&str> = outcome.packages.iter().map(|package| package.path.as_str()).collect();
    let of = |tag: &str| names.iter().filter(|name| name.contains(tag)).count();
    assert_eq!((of("-manylinux"), of("-win_amd64"), names.len()), (6, 4, 11), "{names:?}");
    let extras = &plan.selectors[0].extras;
    let version = format!("=={VERSION}");
    for (extra, expected) in [
        ("libraries", format!("rocm-sdk-libraries{version}")),
        ("device", format!("rocm-sdk-device-gfx1100{version}")),
        ("device-gfx942", format!("rocm-sdk-device-gfx942{version}; sys_platform == \"linux\"")),
        ("device-gfx1100", format!("rocm-sdk-device-gfx1100{version}")),
        ("profiler", format!("rocm-profiler{version}; sys_platform == \"linux\"")),
    ] {
        assert_eq!(extras[extra], [expected], "{extra}");
    }
    // Every package describes the set in the same way, whatever system it is for (spec 2.4).
    let said = |tag: &str| text(&wheel(&linux, "rocm_sdk_core", tag), "rocm_sdk_core/_dist_info.py");
    assert_eq!(said("manylinux"), said("win_amd64"));
    let said = said("win_amd64");
    for line in [
        "DEFAULT_TARGET_FAMILY = 'gfx1100'",
        "LINUX_TARGET_FAMILIES.append('gfx942')",
        "WINDOWS_TARGET_FAMILIES.append('gfx1100')",
        "ALL_PACKAGES['profiler'].sys_platform = 'linux'",
    ] {
        assert!(said.lines().any(|other| other == line), "{line}");
    }
}

#[test]
fn the_sets_of_two_systems_are_two() {
    let (linux, windows) = (linux(), windows());
    let request = linux.request_with(&windows);
    let plan = linux.plan(&request).unwrap();
    let mut folder = rocwheel_package::OutputFolder::open(&request.output).unwrap();
    let prepared = rocwheel_package::prepare(&plan, &request, &mut folder, &rocwheel_progress::Silent).unwrap();
    let sets = prepared.report().sets(&folder);
    let counts: Vec<(Platform, usize)> = sets.iter().map(|set| (set.system, set.wheels.len())).collect();
    assert_eq!(counts, [(Platform::Linux, 6), (Platform::Windows, 4)]);
}

#[test]
fn what_is_asked_for_counts_where_it_is_asked_for() {
    let (linux, windows) = (linux(), windows());
    let request = linux.request_with(&windows);
    let everywhere = Request { targets: vec!["gfx1100".into()], ..request.clone() };
    let plan = linux.plan(&everywhere).unwrap();
    assert_eq!(plan.targets, ["gfx1100"]);
    // Windows has no gfx942.
    let too_much = Request { targets: vec!["gfx942;gfx1100".into()], ..request.clone() };
    let error = linux.plan(&too_much).unwrap_err();
    assert_eq!(error.to_string(), "no artifact holds code for gfx942");
    let fitting = Request {
        linux_targets: vec!["gfx942;gfx1100".into()],
        windows_targets: vec!["gfx110X-dgpu".into()],
        ..request.clone()
    };
    let error = linux.plan(&fitting).unwrap_err();
    assert_eq!(error.to_string(), "no artifact holds code for gfx1101, gfx1102");
    let dropped = Request { incompletes: Incompletes::Drop, ..fitting };
    let plan = linux.plan(&dropped).unwrap();
    assert_eq!(plan.systems[&Platform::Windows], ["gfx1100"]);
    let left: Vec<&str> = plan.incomplete.iter().map(|row| row.package.as_str()).collect();
    assert_eq!(left, ["rocm-sdk-device-gfx1101", "rocm-sdk-device-gfx1102"]);
    assert!(plan.incomplete[0].reasons[0].ends_with("for Windows"), "{:?}", plan.incomplete);

    // For Windows alone, the targets that another run packages for Linux are offered too.
    let alone = Request { linux_targets: vec!["gfx942".into()], ..windows.request() };
    let plan = windows.plan(&alone).unwrap();
    assert_eq!(plan.targets, ["gfx1100"]);
    let extras = &plan.selectors[0].extras;
    assert_eq!(extras["device-gfx942"], [format!("rocm-sdk-device-gfx942=={VERSION}; sys_platform == \"linux\"")]);
    assert_eq!(extras["device-gfx1100"], [format!("rocm-sdk-device-gfx1100=={VERSION}; sys_platform == \"win32\"")]);
}

#[test]
fn the_same_input_gives_the_same_bytes_elsewhere() {
    let digests = |threads: usize| {
        let (linux, windows) = (linux(), windows());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let outcome = pool.install(|| linux.package(&linux.request_with(&windows)).unwrap().1);
        outcome.packages.into_iter().map(|package| (package.path, package.sha256)).collect::<Vec<_>>()
    };
    assert_eq!(digests(1), digests(3));
}

/// On Windows a file has no mode, and rocwheel looks at its first bytes; on Linux an archive has
/// the modes that its maker gave it. Neither may change the packages for Windows.
#[test]
fn modes_do_not_change_packages_for_windows() {
    let digests = |mode: u32| {
        let build = windows();
        build.file("core-hip_run_generic", "bin/hipconfig.bat", "@exit /b\r\n");
        build.file("core-hip_dev_generic", "bin/hip.py", "#!/usr/bin/env python3\n");
        for entry in walkdir::WalkDir::new(build.artifacts()) {
            let entry = entry.unwrap();
            if entry.file_type().is_file() {
                rocwheel_system::set_mode(entry.path(), mode).unwrap();
            }
        }
        let packages = build.package(&build.request()).unwrap().1.packages;
        packages.into_iter().map(|package| (package.path, package.sha256)).collect::<Vec<_>>()
    };
    assert_eq!(digests(0o644), digests(0o755));
}

#[test]
fn each_family_has_the_packages_of_both_systems() {
    let (linux, windows) = (linux(), windows());
    let request = Request { shape: Some(Shape::PerFamily), ..linux.request_with(&windows) };
    let (plan, outcome) = linux.package(&request).unwrap();
    let places: Vec<String> = plan
        .selectors
        .iter()
        .map(|selector| format!("{}/{}", selector.folder.as_deref().unwrap_or_default(), selector.file_name))
        .collect();
    assert_eq!(places, [format!("gfx942/rocm-{VERSION}.tar.gz"), format!("gfx1100/rocm-{VERSION}.tar.gz")]);
    let paths: Vec<&str> = outcome.packages.iter().map(|package| package.path.as_str()).collect();
    for path in [
        format!("dist/gfx1100/rocm_sdk_devel-{VERSION}-py3-none-win_amd64.whl"),
        format!("dist/rocm_sdk_libraries_gfx1100-{VERSION}-py3-none-win_amd64.whl"),
    ] {
        assert!(paths.contains(&path.as_str()), "{path} is not among {paths:?}");
    }
    assert!(!paths.iter().any(|path| path.contains("libraries_gfx942") && path.contains("win_")), "{paths:?}");
}

#[test]
fn files_of_the_other_system_are_refused_by_name() {
    let build = windows();
    build.library("blas_lib_generic", "lib/librocblas.so.5", Some("librocblas.so.5"), &[]);
    let explicit = Request { system: Some(Platform::Windows), ..build.request() };
    let error = build.plan(&explicit).unwrap_err();
    assert!(error.to_string().contains("the artifacts for Windows in `"), "{error}");
    assert_eq!(error.rows(), ["blas_lib_generic/blas/stage/lib/librocblas.so.5"]);
    assert!(error.hint().unwrap().contains("a build for Linux"), "{:?}", error.hint());
    // Judged by their files, these artifacts are for Linux, in which the added files are foreign.
    let error = build.plan(&build.request()).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("the artifacts for Linux in `"), "{message}");
    assert!(message.contains("6 files for Windows: `") && message.contains("bin/amd_comgr0701.dll`"), "{message}");
    assert!(message.ends_with(" and 3 more"), "{message}");
    let rows = error.rows();
    assert!(rows.len() == 6 && rows.iter().any(|path| path.ends_with("/bin/amd_comgr0701.dll")), "{rows:?}");

    let (linux, windows) = (linux(), self::windows());
    // Launchers in a Python package are not a mistake.
    let site = "lib/python/site-packages/distlib/t64.exe";
    linux.exe("rocprofiler-sdk_run_generic", site, &[]);
    linux.plan(&linux.request()).unwrap();
    // The artifacts for Windows and Linux are swapped.
    let swapped = Request {
        artifacts: windows.artifacts(),
        windows_artifacts: Some(linux.artifacts()),
        ..linux.request_with(&windows)
    };
    let error = linux.plan(&swapped).unwrap_err().to_string();
    assert!(error.contains("the artifacts for ") && error.contains(" hold "), "{error}");
}

#[test]
fn a_library_of_rocm_that_is_nowhere_is_missed() {
    let build = windows();
    build.dll("rand_lib_generic", "bin/rocrand.dll", &["hiprtc0701.dll", "mystery.dll"]);
    let error = build.plan(&build.request()).unwrap_err();
    assert_eq!(
        error.find::<IncompleteSet>().unwrap().problems,
        ["`hiprtc0701.dll` is needed by `_rocm_sdk_libraries/bin/rocrand.dll`"]
    );
    build.dll("core-hip_lib_generic", "bin/HIPRTC0701.dll", &[]);
    let plan = build.plan(&build.request()).unwrap();
    let unknown: Vec<&str> = plan.unknown_libraries.iter().map(|missing| missing.library.as_str()).collect();
    assert_eq!(unknown, ["mystery.dll"], "told, and no error: nobody knows all libraries of Windows");
}

#[test]
fn names_that_windows_cannot_have_are_refused() {
    let build = windows();
    build.file("core-hip_dev_generic", "include/hip/Aux.h", "x");
    let error = build.plan(&build.request()).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("include/hip/Aux.h` cannot be packaged for Windows: "), "{message}");
    assert!(message.contains("device"), "{message}");

    let build = windows();
    build.file("core-hip_dev_generic", "include/hip/HIP_runtime.h", "x");
    let error = build.plan(&build.request()).unwrap_err();
    assert!(error.to_string().contains("cannot be packaged for Windows: it is the same path as "), "{error}");
}

#[test]
fn two_builds_have_to_be_of_one_version_and_shape() {
    let (linux, windows) = (linux(), windows());
    let manifest = "share/therock/therock_manifest.json";
    let place = windows.place("base_lib_generic", manifest);
    let before = fs_err::read_to_string(&place).unwrap();
    fs_err::write(&place, before.replace(VERSION, "10.1.0a20260823")).unwrap();
    let request = linux.request_with(&windows);
    let error = linux.plan(&request).unwrap_err();
    let words = format!("the artifacts for Linux are of version {VERSION}, those for Windows of version ");
    assert!(error.to_string().starts_with(&words) && error.hint().is_some(), "{error}");
    linux.plan(&Request { version: Some("10.1.0".into()), ..request.clone() }).unwrap();
    fs_err::write(&place, before.replace("true", "false")).unwrap();
    let error = linux.plan(&request).unwrap_err();
    let words = "the artifacts for Linux are made for the shape `split`, those for Windows for `";
    assert!(error.to_string().starts_with(words) && error.hint().is_some(), "{error}");
}

#[test]
fn a_platform_tag_is_for_its_system() {
    let (linux, windows) = (linux(), windows());
    let tagged = |tag: &str, request: Request| Request { platform_tag: Some(tag.into()), ..request };
    let tag = "manylinux_2_28_x86_64";
    for (build, tag, system) in [(&windows, tag, "Windows"), (&linux, "win_amd64", "Linux")] {
        let error = build.plan(&tagged(tag, build.request())).unwrap_err();
        let words = format!("`{tag}` is not a platform tag for {system}, which these artifacts are for");
        assert_eq!((error.to_string(), error.exit()), (words, Exit::Usage));
    }
    let plan = linux.plan(&tagged("manylinux_2_28_x86_64", linux.request_with(&windows))).unwrap();
    let mut tags: Vec<&str> = plan.wheels.iter().map(|wheel| wheel.platform_tag.as_str()).collect();
    tags.dedup();
    assert_eq!(tags, ["manylinux_2_28_x86_64", "win_amd64"]);
}

#[test]
fn split_code_needs_a_runtime_that_reads_it() {
    let build = windows();
    fs_err::remove_file(build.place("core-kpack_lib_generic", "bin/rocm_kpack.dll")).unwrap();
    let library = build.place("blas_lib_generic", "bin/rocblas.dll");
    // LLVM's `objcopy` supports PE; the section is the marker of AMD's tool (kpack spec 3).
    let marker = build.output().with_extension("marker");
    fs_err::write(&marker, "x").unwrap();
    let add = format!("--add-section=.kpackrf={}", marker.display());
    let status = std::process::Command::new("llvm-objcopy-19").arg(add).arg(&library).status().unwrap();
    assert!(status.success());
    let error = build.plan(&build.request()).unwrap_err();
    assert!(error.to_string().contains("bin/rocblas.dll` expects its device code in .kpack archives"), "{error}");
}

#[test]
fn a_damaged_library_is_named_and_other_files_may_begin_as_they_like() {
    let build = windows();
    build.file("core-hip_dev_generic", "include/hip/notes.txt", "MZ is where DOS programs begin, and this text");
    build.plan(&build.request()).unwrap();
    let library = build.place("blas_lib_generic", "bin/rocblas.dll");
    let whole = fs_err::read(&library).unwrap();
    let start = u32::from_le_bytes(whole[0x3c..0x40].try_into().unwrap()) as usize;
    // The import directory is the second entry behind the 112 bytes of the optional header;
    // signature and file header take 24 bytes.
    let imports = start + 24 + 112 + 8;
    for (place, bytes) in [(imports, 0x7fff_ffff_u32), (imports, 1)] {
        let mut damaged = whole.clone();
        damaged[place..place + 4].copy_from_slice(&bytes.to_le_bytes());
        fs_err::write(&library, &damaged).unwrap();
        let error = build.plan(&build.request()).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot read the headers of `{}`", library.display()));
    }
    for length in [whole.len() / 2, start + 10] {
        fs_err::write(&library, &whole[..length]).unwrap();
        let error = build.plan(&build.request()).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot read the headers of `{}`", library.display()));
    }
    // Without imports it is still a library.
    let mut none = whole.clone();
    none[imports..imports + 8].fill(0);
    fs_err::write(&library, &none).unwrap();
    build.plan(&build.request()).unwrap();
}
