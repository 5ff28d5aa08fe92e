//! The selector: the files that Rust writes into it agree with those that its own backend computes
//! at installation.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::Command;

use rocwheel_package::{Request, SelectorForm, Shape};
use support::Build;

const FOLDER: &str = "rocm-10.1.0a20260822";

fn build(targets: &[&str]) -> Build {
    let build = Build::split();
    build.library("amd-llvm_lib_generic", "lib/libamd_comgr.so.3", Some("libamd_comgr.so.3"), &[]);
    build.library("rand_lib_generic", "lib/librocrand.so.1", Some("librocrand.so.1"), &[]);
    build.library("hiptensor_lib_generic", "lib/libhiptensor.so.0", Some("libhiptensor.so.0"), &[]);
    for target in targets {
        build.file(&format!("blas_lib_{target}"), &format!("lib/rocblas/library/K_{target}.co"), target);
    }
    build
}

/// Unpacks the selector of the set and lets its backend write the generated files again beside it.
fn unpacked(build: &Build, request: &Request, into: &Path) {
    build.package(request).unwrap();
    let archive = fs_err::read(build.dist().join(format!("{FOLDER}.tar.gz"))).unwrap();
    for folder in ["ours", "theirs"] {
        let decoder = flate2::read::GzDecoder::new(archive.as_slice());
        tar::Archive::new(decoder).unpack(into.join(folder)).unwrap();
    }
    let output = Command::new("python3")
        .args(["rocm_build.py", "--write-egg-info"])
        .current_dir(into.join("theirs").join(FOLDER))
        .env_remove("ROCM_SDK_TARGET_FAMILY")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn agree(build: &Build, request: &Request) {
    let into = tempfile::tempdir().unwrap();
    unpacked(build, request, into.path());
    let read = |side: &str, name: &str| fs_err::read_to_string(into.path().join(side).join(FOLDER).join(name)).unwrap();
    for name in ["requires.txt", "entry_points.txt", "top_level.txt", "dependency_links.txt", "SOURCES.txt"] {
        let name = format!("src/rocm.egg-info/{name}");
        assert_eq!(read("ours", &name), read("theirs", &name), "{name}");
    }
    let fields = |side: &str, name: &str| {
        let text = read(side, name);
        let (head, _) = text.split_once("\n\n").unwrap();
        let mut lines: Vec<String> = head
            .lines()
            .filter(|line| {
                ["Name", "Version", "Requires-", "Provides-", "Dynamic"].iter().any(|field| line.starts_with(field))
            })
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    for name in ["PKG-INFO", "src/rocm.egg-info/PKG-INFO"] {
        assert_eq!(fields("ours", name), fields("theirs", "PKG-INFO"), "{name}");
    }
    let information = read("ours", "PKG-INFO");
    assert!(information.contains("\nDynamic: Requires-Dist\n") && information.contains("\nDynamic: Provides-Extra\n"));
}

#[test]
fn split_sets_with_several_targets() {
    let build = build(&["gfx942", "gfx1100"]);
    agree(&build, &build.request());
    let listed = Request { targets: vec!["gfx942,gfx1100".into()], ..build.request() };
    agree(&build, &listed);
}

#[test]
fn a_set_that_another_run_completes_for_windows() {
    let build = build(&["gfx942", "gfx1100"]);
    let both = Request {
        targets: vec!["gfx94X-dcgpu;gfx1100".into()],
        windows_targets: vec!["gfx110X-all".into()],
        ..build.request()
    };
    agree(&build, &both);
    let plan = build.plan(&both).unwrap();
    let extras = &plan.selectors[0].extras;
    assert_eq!(
        extras["device-gfx942"],
        ["rocm-sdk-device-gfx942==10.1.0a20260822; sys_platform == \"linux\""],
        "{extras:?}"
    );
    assert_eq!(extras["device-gfx1100"], ["rocm-sdk-device-gfx1100==10.1.0a20260822"]);
    assert_eq!(extras["device-gfx1103"], ["rocm-sdk-device-gfx1103==10.1.0a20260822; sys_platform == \"win32\""]);
    // The first family that both systems have is the default.
    assert_eq!(extras["device"], ["rocm-sdk-device-gfx1100==10.1.0a20260822"]);
    assert_eq!(plan.targets, ["gfx942", "gfx1100"], "nothing is packaged for Windows");

    let windows_only = Request { windows_targets: vec!["gfx1103".into()], ..build.request() };
    agree(&build, &windows_only);
    let extras = build.plan(&windows_only).unwrap().selectors.swap_remove(0).extras;
    assert_eq!(extras["device-gfx942"], ["rocm-sdk-device-gfx942==10.1.0a20260822; sys_platform == \"linux\""]);
    let unknown = Request { windows_targets: vec!["gfx94".into()], ..build.request() };
    assert!(build.plan(&unknown).unwrap_err().to_string().contains("gfx94"));
}

#[test]
fn a_set_of_both_systems() {
    let (linux, windows) = (build(&["gfx942", "gfx1100"]), Build::split());
    windows.dll("core-hip_lib_generic", "bin/amdhip64_7.dll", &[]);
    linux.program("rocprofiler-systems_run_generic", "bin/rocprof-sys-run", "return 0;", &[]);
    agree(&linux, &linux.request_with(&windows));
    // The artifacts for Windows have no device packages and no libraries.
    windows.file("blas_lib_gfx1151", "bin/rocblas/library/K_gfx1151.co", "code");
    windows.dll("rand_lib_generic", "bin/rocrand.dll", &[]);
    let request = linux.request_with(&windows);
    agree(&linux, &request);
    agree(&linux, &Request { shape: Some(Shape::Fat), ..request });
}

#[test]
fn a_split_set_with_one_target() {
    let build = build(&["gfx942"]);
    agree(&build, &build.request());
}

#[test]
fn fat_sets_promise_no_device_wheels() {
    let build = build(&["gfx942", "gfx1100"]);
    agree(&build, &Request { shape: Some(Shape::Fat), ..build.request() });
}

#[test]
fn a_per_family_set() {
    let build = build(&["gfx94X-dcgpu"]);
    agree(&build, &Request { shape: Some(Shape::PerFamily), ..build.request() });
}

#[test]
fn text_in_names_never_becomes_code() {
    let build = build(&["gfx942"]);
    let request = Request { nonce: "'; import os; os.abort() #".into(), ..build.request() };
    let error = build.plan(&request).unwrap_err();
    assert!(error.to_string().ends_with("cannot be part of the name of an import package"), "{error}");
}

#[test]
fn every_python_file_is_embedded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../python");
    let templates = fs_err::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/templates.rs")).unwrap();
    let mut pending = vec![root.clone()];
    let mut seen = 0;
    while let Some(folder) = pending.pop() {
        for entry in fs_err::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let below = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                // The crate `audit` embeds the files that a repair writes into foreign wheels, and
                // has separate tests for them.
                if below != "tests" && below != "wheel-repair" && name != "__pycache__" {
                    pending.push(path);
                }
            } else if below.contains('/') && Path::new(&name).extension().is_some_and(|extension| extension == "py") {
                seen += 1;
                let (distribution, inside) = below.split_once('/').unwrap();
                let written = if distribution == "rocm" { inside } else { &name };
                assert!(
                    templates.contains(&format!("\"{written}\"")) || templates.contains(&format!("/{written}\"")),
                    "python/{below} is shipped in no package"
                );
            }
        }
    }
    assert!(seen > 10);
}

#[test]
fn a_wheel_is_the_same_everywhere() {
    let build = build(&["gfx942", "gfx1100"]);
    let wheel = Request { selectors: vec![SelectorForm::Wheel], ..build.request() };
    let (plan, _) = build.package(&wheel).unwrap();
    let path = build.dist().join("rocm-10.1.0a20260822-py3-none-any.whl");
    assert!(!build.dist_names().contains(&"rocm-10.1.0a20260822.tar.gz".to_owned()));
    let metadata = support::text(&path, "METADATA");
    let requirements: Vec<&str> = metadata.lines().filter(|line| line.starts_with("Requires-Dist: ")).collect();
    let version = "==10.1.0a20260822";
    assert_eq!(
        requirements,
        [
            format!("Requires-Dist: rocm-sdk-core{version}"),
            format!("Requires-Dist: rocm-sdk-libraries{version}; extra == \"libraries\""),
            format!("Requires-Dist: rocm-sdk-devel{version}; extra == \"devel\""),
            format!("Requires-Dist: rocm-sdk-hpc{version}; extra == \"hpc\""),
            format!("Requires-Dist: rocm-sdk-device-gfx942{version}; extra == \"device-gfx942\""),
            format!("Requires-Dist: rocm-sdk-device-gfx1100{version}; extra == \"device-gfx1100\""),
            format!("Requires-Dist: rocm-sdk-device-gfx942{version}; extra == \"device-all\""),
            format!("Requires-Dist: rocm-sdk-device-gfx1100{version}; extra == \"device-all\""),
        ]
    );
    assert!(!metadata.contains("Dynamic"), "nothing is left to be computed");
    assert!(!metadata.contains("Provides-Extra: device\n"), "which device would depend on the machine");
    assert_eq!(support::text(&path, "entry_points.txt"), "[console_scripts]\nrocm-sdk = rocm_sdk.__main__:main\n");
    assert!(support::text(&path, "rocm_sdk/_dist_info.py").contains("\n__version__ = '10.1.0a20260822'\n"));
    assert!(!support::members(&path).keys().any(|name| name.contains("rocm_build") || name.starts_with("src/")));
    assert_eq!(plan.selectors.len(), 1);

    // With both forms, each is in its own folder, and the old file that is no longer requested is
    // removed.
    let both = Request { selectors: vec![SelectorForm::Sdist, SelectorForm::Wheel], ..build.request() };
    let (_, outcome) = build.package(&both).unwrap();
    assert_eq!(outcome.removed, ["dist/rocm-10.1.0a20260822-py3-none-any.whl"]);
    assert!(build.dist().join("rocm-10.1.0a20260822.tar.gz").is_file() && !path.exists());
    assert!(build.output().join("dist-wheel/rocm-10.1.0a20260822-py3-none-any.whl").is_file());
    let (_, again) = build.package(&both).unwrap();
    assert!(again.packages.iter().all(|package| !package.written) && again.strangers.is_empty(), "{again:?}");
    let (_, outcome) = build.package(&build.request()).unwrap();
    assert_eq!(outcome.removed, ["dist-wheel/rocm-10.1.0a20260822-py3-none-any.whl"]);
    assert!(!build.output().join("dist-wheel").exists());
}

#[test]
fn a_wheel_for_one_target_still_names_it() {
    let build = build(&["gfx942"]);
    let plan = build.plan(&Request { selectors: vec![SelectorForm::Wheel], ..build.request() }).unwrap();
    let extras: Vec<&str> = plan.selectors[0].extras.keys().map(String::as_str).collect();
    assert_eq!(extras, ["devel", "device-all", "device-gfx942", "hpc", "libraries"]);
}
