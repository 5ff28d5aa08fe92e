//! The selector: what Rust writes into it agrees with what its own backend computes where it is installed.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::Command;

use package::{Request, Shape};
use support::Build;

const FOLDER: &str = "rocm-10.1.0a20260822";

fn build(targets: &[&str]) -> Build {
    let build = Build::split();
    build.library("amd-llvm_lib_generic", "lib/libamd_comgr.so.3", Some("libamd_comgr.so.3"), &[]);
    build.library("rand_lib_generic", "lib/librocrand.so.1", Some("librocrand.so.1"), &[]);
    for target in targets {
        build.file(&format!("blas_lib_{target}"), &format!("lib/rocblas/library/K_{target}.co"), target);
    }
    build
}

/// Unpacks the selector of the set and lets its backend write its generated files anew beside it.
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
    let into = tempfile::tempdir().unwrap();
    unpacked(&build, &request, into.path());
}

#[test]
fn every_python_file_is_embedded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let templates = fs_err::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/templates.rs")).unwrap();
    let mut pending = vec![root.clone()];
    let mut seen = 0;
    while let Some(folder) = pending.pop() {
        for entry in fs_err::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let below = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                // What a repair writes into wheels of others is embedded by the crate `audit`, with its own tests.
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
