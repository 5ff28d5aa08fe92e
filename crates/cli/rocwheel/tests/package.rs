//! `rocwheel package` on a set of a few files: plan, result, second run, exit codes. The crate
//! `package` tests the contents of the wheels.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use insta::assert_snapshot;
use rocwheel_fixtures::TestContext;
use serde_json::Value;

const MANIFEST: &str = r#"{"the_rock_commit": null, "rocm_package_version": "7.1.0", "rocm_version": "7.1.0", "submodules": [],
    "flags": {"KPACK_SPLIT_ARTIFACTS": true}}"#;
const DIST_INFO: &str = r#"{"dist_amdgpu_targets": "gfx942"}"#;

fn library(context: &TestContext, soname: &str) -> Vec<u8> {
    context.write("build/library.c", "int answer(void) { return 42; }\n");
    let soname = format!("-Wl,-soname,{soname}");
    context.tool("cc", &["-shared", "-fPIC", "-nostdlib", "-o", "build/library.so", &soname, "build/library.c"]);
    fs_err::read(context.path("build/library.so")).unwrap()
}

fn filled() -> TestContext {
    let context = without_compiler();
    let compiler = library(&context, "libamd_comgr.so.3");
    context.artifact("in", "amd-llvm_lib_generic", &[("compiler/amd-llvm/stage/lib/libamd_comgr.so.3", &compiler)]);
    context
}

/// The HIP runtime loads `libamd_comgr` by name; its headers do not show that.
fn without_compiler() -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    let directory = "base/aux-overlay/stage/share/therock";
    context.artifact(
        "in",
        "base_lib_generic",
        &[
            (&format!("{directory}/therock_manifest.json"), MANIFEST.as_bytes()),
            (&format!("{directory}/dist_info.json"), DIST_INFO.as_bytes()),
        ],
    );
    let hip = library(&context, "libamdhip64.so.7");
    context.artifact("in", "core-hip_lib_generic", &[("core/stage/lib/libamdhip64.so.7", &hip)]);
    context.artifact("in", "core-hip_dev_generic", &[("core/stage/include/hip/hip.h", b"#pragma once\n")]);
    let blas = library(&context, "librocblas.so.5");
    context.artifact("in", "blas_lib_generic", &[("blas/stage/lib/librocblas.so.5", &blas)]);
    context.artifact("in", "blas_lib_gfx942", &[("blas/stage/lib/rocblas/library/k_gfx942.co", &[7; 4000])]);
    context
}

const PACKAGE: [&str; 5] = ["package", "--artifacts", "in", "--output", "out"];

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    let context = filled();
    let ran = context.run(PACKAGE.iter().chain(&["--dry-run"])).exits(0);
    for word in
        ["shape split", "rocm_sdk_core-7.1.0", "rocm_sdk_device_gfx942-7.1.0", "rocm-7.1.0.tar.gz", "libamdhip64.so.7"]
    {
        assert!(ran.stdout.contains(word), "{word}: {}", ran.stdout);
    }
    assert!(ran.stderr.contains("would write 5 packages with "), "{}", ran.stderr);
    let json = context.run(PACKAGE.iter().chain(&["--dry-run", "--json"]));
    assert!(
        json.stdout.starts_with("{\n  \"schema\": 1,\n  \"shape\": \"split\",\n  \"version\": \"7.1.0\""),
        "{}",
        json.stdout
    );
    assert!(!context.path("out").exists());
}

#[test]
fn the_result_is_a_table_and_a_second_run_writes_nothing() {
    let context = filled();
    let ran = context.run(PACKAGE).exits(0);
    let header = ran.stdout.lines().next().unwrap();
    assert_eq!(header.split_whitespace().collect::<Vec<_>>(), ["Package", "Files", "Raw", "Compressed", "Time"]);
    assert!(ran.stdout.lines().last().unwrap().starts_with("5 packages "), "{}", ran.stdout);
    assert_eq!(fs_err::read_dir(context.path("out/dist")).unwrap().count(), 5);

    assert!(ran.stderr.contains("audited: no errors"), "{}", ran.stderr);

    let again = context.run(PACKAGE);
    assert_eq!(again.stdout.matches("up to date").count(), 5, "{}", again.stdout);
    assert!(!again.stderr.contains("audited"), "what was audited is not audited again: {}", again.stderr);
    let json = context.run(PACKAGE.iter().chain(&["--json"]));
    assert!(
        json.stdout.starts_with("{\n  \"schema\": 1,\n  \"version\": \"7.1.0\",\n  \"shape\": \"split\""),
        "{}",
        json.stdout
    );
    assert!(json.stdout.contains("\"sha256\": \""), "{}", json.stdout);
    assert!(!json.stdout.contains("\"written\": true"), "{}", json.stdout);
}

#[test]
fn what_cannot_be_done_is_refused_with_a_hint() {
    let context = filled();
    let refused = |more: &[&str]| context.run(PACKAGE.iter().chain(more)).snapshot();
    assert_snapshot!("package_missing_target", refused(&["--targets", "gfx942,gfx1100"]));
    assert_snapshot!("package_unknown_target", refused(&["--targets", "gfx94X-dgpu"]));
    assert_snapshot!("package_bad_version", refused(&["--version", "7.1.0~x"]));
    assert_snapshot!("package_bad_only", refused(&["--only", "core,everything"]));
    assert!(!context.path("out/dist").exists());
    context.write("foreign/precious", "x");
    let foreign = context.types("package --artifacts in --output foreign");
    assert_snapshot!("package_foreign", foreign.snapshot());
    assert_eq!(fs_err::read_dir(context.path("foreign")).unwrap().count(), 1);
    context.types("package --artifacts foreign --output out").exits(1);
}

#[test]
fn the_platform_tag_can_be_named() {
    let context = filled();
    context.run(PACKAGE.iter().chain(&["--platform-tag", "manylinux_2_39_x86_64"])).exits(0);
    let names = fs_err::read_dir(context.path("out/dist")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    let wheels: Vec<_> = names.iter().filter(|name| !name.ends_with(".tar.gz")).collect();
    assert!(
        wheels.len() > 2 && wheels.iter().all(|name| name.ends_with("-py3-none-manylinux_2_39_x86_64.whl")),
        "{names:?}"
    );
    context.run(PACKAGE.iter().chain(&["--platform-tag", "many-linux"])).ends(2, "many-linux");
}

#[test]
fn a_dry_run_of_an_incomplete_set_shows_the_rest() {
    let context = filled();
    let linked = ["-shared", "-nostdlib", "-Wl,--no-as-needed", "-Wl,-soname,librocrand.so.1", "build/library.so"];
    context.tool("cc", &[&linked[..], &["-o", "build/needing.so"]].concat());
    // The library that it needs exists only under another name.
    let mut bytes = fs_err::read(context.path("build/needing.so")).unwrap();
    let name = b"libamd_comgr.so.3";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at + name.len() - 1] = b'9';
    context.artifact("in", "rand_lib_generic", &[("rand/stage/lib/librocrand.so.1", &bytes)]);
    let ran = context.run(PACKAGE.iter().chain(&["--dry-run"])).exits(1);
    assert!(ran.stdout.contains("rocm_sdk_core-7.1.0"), "the plan of what is whole: {ran:?}");
    assert!(ran.stderr.contains("libamd_comgr.so.9") && ran.stderr.contains("--drop-incomplete"), "{ran:?}");
}

#[test]
fn a_library_that_may_be_missing_is_an_accepted_error() {
    let context = filled();
    context.write("build/gone.c", "");
    let shared = ["-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed", "build/gone.c", "-o"];
    context.tool("cc", &[&shared[..], &["build/libgone.so.1", "-Wl,-soname,libgone.so.1"]].concat());
    let user = ["build/user.so", "-Wl,-soname,libuser.so.1", "build/libgone.so.1"];
    context.tool("cc", &[&shared[..], &user].concat());
    let user = fs_err::read(context.path("build/user.so")).unwrap();
    context.artifact("in", "core-runtime_lib_generic", &[("core/stage/lib/libuser.so.1", &user)]);
    assert_eq!(context.run(PACKAGE).code, Some(1));
    context
        .run(PACKAGE.iter().chain(&["--allow-unresolved", "libgone.so.1"]))
        .ends(0, "audited: 1 error that was accepted (RW001)");
}

#[test]
fn packages_of_another_version_are_removed_only_when_that_is_asked_for() {
    let context = filled();
    assert_eq!(context.run(PACKAGE).code, Some(0));
    context
        .run(PACKAGE.iter().chain(&["--version", "7.2.0"]))
        .ends(1, "`out` has packages of version 7.1.0")
        .says("--replace");
    assert_eq!(fs_err::read_dir(context.path("out/dist")).unwrap().count(), 5);
    context.run(PACKAGE.iter().chain(&["--version", "7.2.0", "--replace"])).ends(0, "removed `dist/rocm-7.1.0.tar.gz`");
}

#[test]
fn inputs_that_are_given_in_another_way_are_explained() {
    let context = filled();
    context.types("package in --output out").ends(2, "did you mean `--artifacts in`?");
    context.types("artifact import --rpm x.rpm --output out").ends(2, "--prefix DIR");
}

#[test]
fn names_with_line_breaks_are_escaped_in_errors() {
    let context = filled();
    context.artifact("in", "core-hip_run_generic", &[("core/stage/lib/new\nline", b"x")]);
    context.run(PACKAGE).ends(1, "lib/new\\nline`");
}

#[test]
fn a_set_without_profilers_says_so() {
    let context = filled();
    context.run(PACKAGE).says("no artifact is for `rocm-profiler`");
    let some = context.run(PACKAGE.iter().chain(&["--only", "core"]));
    assert!(!some.stderr.contains("no artifact is for `rocm-profiler`"), "{some:?}");
}

#[test]
fn a_set_that_does_not_load_is_not_published() {
    let context = without_compiler();
    let ran = context.run(PACKAGE).exits(1);
    assert!(ran.stdout.starts_with("error RW022 dlopen-missing: _rocm_sdk_core/lib/libamdhip64.so.7\n"), "{ran:?}");
    assert!(ran.stderr.contains("error: nothing was written: the audit finds 1 error in the set\n"), "{ran:?}");
    assert!(ran.stderr.contains("hint: ") && ran.stderr.contains("`--no-audit` writes the result anyway"), "{ran:?}");
    assert!(!context.path("out").exists(), "nothing is left");

    let json = context.run(PACKAGE.iter().chain(&["--json"]));
    let document = json.json();
    assert_eq!((json.code, &document["error"]["exit_code"]), (Some(1), &Value::from(1)), "{json:?}");
    assert_eq!(document["audit"]["new_errors"][0]["code"], "RW022", "{json:?}");

    let forced = context.run(PACKAGE.iter().chain(&["--no-audit"])).exits(0);
    assert!(!forced.stderr.contains("audit"), "{forced:?}");
    let again = context.run(PACKAGE);
    assert_eq!(again.code, Some(1), "what was never audited is audited by the next run: {again:?}");
    assert_eq!(fs_err::read_dir(context.path("out/dist")).unwrap().count(), 5, "and what is there stays");
}
