//! `--drop-incomplete`: complete packages are shipped, and only they are offered.

#![allow(clippy::unwrap_used)]

mod support;

use rocwheel_package::{IncompleteSet, Incompletes, Logical, Plan, Request, Shape};
use support::{Build, text};

fn build() -> Build {
    let build = Build::split();
    build.library("amd-llvm_lib_generic", "lib/libamd_comgr.so.3", Some("libamd_comgr.so.3"), &[]);
    build.library("rand_lib_generic", "lib/librocrand.so.1", Some("librocrand.so.1"), &[]);
    build.file("rand_dev_generic", "include/rocrand/rocrand.h", "// rand\n");
    for target in ["gfx942", "gfx1100"] {
        build.file(&format!("blas_lib_{target}"), &format!("lib/rocblas/library/K_{target}.co"), target);
    }
    build
}

/// Adds a library to the artifact that needs a library which nothing provides.
fn needing(build: &Build, artifact: &str, path: &str) {
    let other = build.output().with_extension("elsewhere");
    fs_err::create_dir_all(&other).unwrap();
    let missing = other.join("libnowhere.so");
    let source = other.join("nowhere.c");
    fs_err::write(&source, "int nowhere(void) { return 1; }\n").unwrap();
    let status = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-soname,libnowhere.so.9", "-o"])
        .args([&missing, &source])
        .status()
        .unwrap();
    assert!(status.success());
    let soname = path.rsplit('/').next();
    build.library(artifact, path, soname, &[missing.to_str().unwrap()]);
}

fn drop_them(build: &Build) -> Request {
    Request { incompletes: Incompletes::Drop, ..build.request() }
}

fn left_out(plan: &Plan) -> Vec<(&str, &str)> {
    plan.incomplete.iter().map(|row| (row.package.as_str(), row.reasons[0].as_str())).collect()
}

fn names(build: &Build) -> Vec<String> {
    build.dist_names().iter().map(|name| name.split("-10.1.0").next().unwrap().to_owned()).collect()
}

#[test]
fn a_whole_set_is_what_it_was() {
    let build = build();
    let plan = build.plan(&drop_them(&build)).unwrap();
    assert!(plan.incomplete.is_empty());
    let same = build.plan(&build.request()).unwrap();
    let json = |plan: &Plan| serde_json::to_string(plan).unwrap();
    assert_eq!(json(&plan), json(&same));
}

#[test]
fn a_target_that_is_missing_is_not_promised() {
    let build = build();
    let asked = Request { targets: vec!["gfx942;gfx1100;gfx950".into()], ..drop_them(&build) };
    let (plan, _) = build.package(&asked).unwrap();
    assert_eq!(left_out(&plan), [("rocm-sdk-device-gfx950", "no artifact holds code for it")]);
    assert_eq!(plan.targets, ["gfx942", "gfx1100"]);
    let core = build.dist_names().into_iter().find(|name| name.starts_with("rocm_sdk_core")).unwrap();
    let information = text(&build.dist().join(core), "rocm_sdk_core/_dist_info.py");
    assert!(information.contains("gfx1100") && !information.contains("append('gfx950')"), "{information}");
    assert!(!plan.selectors[0].extras.keys().any(|extra| extra.contains("gfx950")));
    let none = Request { targets: vec!["gfx950".into()], ..drop_them(&build) };
    let error = build.plan(&none).unwrap_err().to_string();
    assert!(error.starts_with("no artifact holds code for "), "nothing of it is there: {error}");
}

#[test]
fn libraries_take_their_device_packages_with_them() {
    let build = build();
    needing(&build, "blas_lib_generic", "lib/librocblas.so.5");
    assert!(build.plan(&build.request()).unwrap_err().find::<IncompleteSet>().is_some());
    let (plan, _) = build.package(&drop_them(&build)).unwrap();
    let reason = "`libnowhere.so.9` is needed by `_rocm_sdk_libraries/lib/librocblas.so.5`";
    assert_eq!(
        left_out(&plan),
        [
            ("rocm-sdk-device-gfx1100", "it requires rocm-sdk-libraries"),
            ("rocm-sdk-device-gfx942", "it requires rocm-sdk-libraries"),
            ("rocm-sdk-libraries", reason),
        ]
    );
    assert_eq!(names(&build), ["rocm", "rocm_sdk_core", "rocm_sdk_devel"]);
    let extras: Vec<&String> = plan.selectors[0].extras.keys().collect();
    assert_eq!(extras, ["devel"]);
    let devel = plan.wheels.iter().find(|wheel| wheel.name == "rocm-sdk-devel").unwrap();
    let members: Vec<&str> = devel.devel.iter().flat_map(|tar| &tar.members).map(|(path, _)| path.as_str()).collect();
    assert!(members.contains(&"include/rocrand/rocrand.h"), "headers are whole");
    assert!(!members.iter().any(|path| path.contains("librocblas")), "{members:?}");
}

/// A library of an artifact that is new to us is in the input: the hint has its row.
#[test]
fn a_library_of_an_artifact_without_a_row_is_found() {
    let build = build();
    needing(&build, "blas_lib_generic", "lib/librocblas.so.5");
    build.library("nowhere-hub_lib_generic", "lib/libnowhere.so.9", Some("libnowhere.so.9"), &[]);
    let error = build.plan(&build.request()).unwrap_err();
    let expected = "`nowhere-hub_lib_generic` has it, and no rule claims that artifact: add `--data-file FILE` with \
                    the row `artifact = [{ name = \"nowhere-hub\", package = \"libraries\" }]`";
    assert!(error.hint().unwrap().starts_with(expected), "{:?}", error.hint());
}

/// The message names the first files; the plan and the JSON form of the error list all of them.
#[test]
fn a_library_that_many_need_is_named_with_all_of_them() {
    let build = build();
    let needed_by = ["librocblas.so.5", "librocfft.so.0", "librocrand.so.2", "librocsolver.so.0", "librocsparse.so.1"];
    for library in needed_by {
        needing(&build, "blas_lib_generic", &format!("lib/{library}"));
    }
    let needed_by = needed_by.map(|library| format!("_rocm_sdk_libraries/lib/{library}"));
    let error = build.plan(&build.request()).unwrap_err();
    let line = format!("`libnowhere.so.9` is needed by `{}` and 2 more", needed_by[..3].join("`, `"));
    assert_eq!(error.to_string(), format!("the set is incomplete:\n  {line}"));
    assert_eq!(error.rows(), [format!("`libnowhere.so.9` is needed by `{}`", needed_by.join("`, `"))]);
    let plan = serde_json::to_value(build.plan(&drop_them(&build)).unwrap()).unwrap();
    let rows = plan["incomplete"].as_array().unwrap();
    let row = rows.iter().find(|row| row["package"] == "rocm-sdk-libraries").unwrap();
    assert_eq!(row["reasons"][0], line);
    assert_eq!(row["missing"][0]["needed_by"], serde_json::json!(needed_by));
}

#[test]
fn one_device_package_goes_alone() {
    let build = build();
    needing(&build, "blas_lib_gfx1100", "lib/hipblaslt/library/libkernels.so");
    let (plan, _) = build.package(&drop_them(&build)).unwrap();
    assert_eq!(plan.incomplete.len(), 1);
    assert_eq!(plan.incomplete[0].package, "rocm-sdk-device-gfx1100");
    assert_eq!(
        names(&build),
        ["rocm", "rocm_sdk_core", "rocm_sdk_devel", "rocm_sdk_device_gfx942", "rocm_sdk_libraries"]
    );
    assert_eq!(plan.selectors[0].extras["device"], ["rocm-sdk-device-gfx942==10.1.0a20260822"]);
}

#[test]
fn a_profiler_that_is_not_whole_and_a_core_that_is_not() {
    let build = build();
    needing(&build, "rocprofiler-systems_lib_generic", "lib/librocprof-sys.so.1");
    let plan = build.plan(&drop_them(&build)).unwrap();
    assert_eq!(plan.incomplete[0].package, "rocm-profiler");
    assert!(!plan.selectors[0].extras.contains_key("profiler"));
    needing(&build, "core-runtime_lib_generic", "lib/libhsa-runtime64.so.1");
    let error = build.plan(&drop_them(&build)).unwrap_err();
    assert!(error.find::<IncompleteSet>().unwrap().to_string().contains("libhsa-runtime64"), "{error}");
}

#[test]
fn hints_name_what_helps_in_this_run() {
    let build = build();
    needing(&build, "core-runtime_lib_generic", "lib/libhsa-runtime64.so.1");
    let hint = build.plan(&build.request()).unwrap_err().hint().unwrap().to_owned();
    assert!(
        hint.contains("--drop-incomplete") && hint.contains("--allow-unresolved LIB") && !hint.contains("import"),
        "{hint}"
    );
    let hint = build.plan(&drop_them(&build)).unwrap_err().hint().unwrap().to_owned();
    assert!(!hint.contains("--drop-incomplete"), "core has to be whole: {hint}");
}

#[test]
fn a_library_may_be_missing_where_that_is_accepted() {
    let build = Build::split();
    build.library("core-hip_lib_generic", "lib/libhiprtc.so.7", Some("libhiprtc.so.7"), &["-lm"]);
    let error = build.plan(&build.request()).unwrap_err().to_string();
    assert!(
        error.contains("`libamd_comgr.so.*` is loaded by name (dlopen) by `_rocm_sdk_core/lib/libhiprtc.so.7`"),
        "{error}"
    );
    let allow_unresolved = vec!["libamd_comgr.so.3".to_owned(), "libhiprtc-builtins*".to_owned()];
    build.plan(&Request { allow_unresolved, ..build.request() }).unwrap();
}

#[test]
fn artifacts_of_a_target_that_hold_nothing_are_named() {
    let build = build();
    build.directory("sparse_lib_gfx90a", "lib/rocsparse");
    let error = build.plan(&build.request()).unwrap_err();
    assert!(error.to_string().contains("gfx90a") && error.to_string().contains("`sparse_lib_gfx90a`"), "{error}");
    assert!(error.hint().unwrap().contains("without gfx90a"), "{error}");
}

#[test]
fn versions_and_suffixes_that_no_package_can_have() {
    let build = build();
    for (version, canonical) in [("10.1.0-rc1", "10.1.0rc1"), ("10.01.0", "10.1.0")] {
        let error = build.plan(&Request { version: Some(version.into()), ..build.request() }).unwrap_err();
        assert_eq!(error.hint().unwrap(), format!("give it as `--version {canonical}`"), "{error}");
    }
    for suffix in ["../x", "/etc", "a b", " b", "-1"] {
        let error = build.plan(&Request { nonce: suffix.into(), ..build.request() }).unwrap_err();
        assert_eq!(error.to_string(), format!("`{suffix}` cannot be part of the name of an import package"));
        assert!(error.hint().is_some());
    }
    build.plan(&Request { nonce: "_x1".into(), ..build.request() }).unwrap();
}

#[test]
fn one_family_of_two() {
    let build = Build::new("{}", "gfx942;gfx1100");
    build.library("amd-llvm_lib_generic", "lib/libamd_comgr.so.3", Some("libamd_comgr.so.3"), &[]);
    build.library("rand_lib_gfx94X-dcgpu", "lib/librocrand.so.1", Some("librocrand.so.1"), &[]);
    needing(&build, "rand_lib_gfx110X-all", "lib/librocrand.so.1");
    let (plan, _) = build.package(&drop_them(&build)).unwrap();
    assert_eq!((plan.shape, plan.targets.as_slice()), (Shape::PerFamily, &["gfx94X-dcgpu".to_owned()][..]));
    assert_eq!(plan.incomplete[0].package, "rocm-sdk-libraries-gfx110X-all");
    assert_eq!(names(&build), ["rocm", "rocm_sdk_core", "rocm_sdk_devel", "rocm_sdk_libraries_gfx94x_dcgpu"]);
}

/// hipTensor is not built for every GPU.
#[test]
fn a_family_without_a_package_promises_none() {
    let build = Build::new("{}", "gfx942;gfx1100");
    build.library("amd-llvm_lib_generic", "lib/libamd_comgr.so.3", Some("libamd_comgr.so.3"), &[]);
    for family in ["gfx94X-dcgpu", "gfx110X-all"] {
        build.library(&format!("rand_lib_{family}"), "lib/librocrand.so.1", Some("librocrand.so.1"), &[]);
    }
    build.library("hiptensor_lib_gfx94X-dcgpu", "lib/libhiptensor.so.0", Some("libhiptensor.so.0"), &[]);
    let plan = build.plan(&build.request()).unwrap();
    let of_hpc: Vec<_> = plan.wheels.iter().filter(|wheel| wheel.logical == Logical::Hpc).collect();
    assert_eq!(of_hpc.iter().map(|wheel| wheel.name.as_str()).collect::<Vec<_>>(), ["rocm-sdk-hpc-gfx94X-dcgpu"]);
    for member in ["rocm_sdk_hpc_gfx94X_dcgpu/_dist_info.py", "_rocm_sdk_hpc_gfx94X_dcgpu/lib/libhiptensor.so.0"] {
        assert!(of_hpc[0].files.contains_key(member), "{:?}", of_hpc[0].files.keys());
    }
    let offered: Vec<_> = plan
        .selectors
        .iter()
        .map(|selector| (selector.folder.as_deref(), selector.extras.get("hpc").map(|lines| lines[0].as_str())))
        .collect();
    let requirement = "rocm-sdk-hpc-gfx94X-dcgpu==10.1.0a20260822";
    assert_eq!(offered, [(Some("gfx94X-dcgpu"), Some(requirement)), (Some("gfx110X-all"), None)]);
}
