//! Sets that would not install or not load are refused before anything is written.

#![allow(clippy::unwrap_used)]

mod support;

use rocwheel_package::{IncompleteSet, Request, Shape};
use rocwheel_progress::{Exit, Failure};
use support::Build;

fn minimal() -> Build {
    let build = Build::split();
    build.library("amd-llvm_lib_generic", "lib/libamd_comgr.so.3", Some("libamd_comgr.so.3"), &[]);
    build.library("core-hip_lib_generic", "lib/libamdhip64.so.7", Some("libamdhip64.so.7"), &[]);
    build
}

fn refused(build: &Build, request: &Request) -> Failure {
    let error = build.package(request).unwrap_err();
    assert!(!build.dist().exists(), "nothing may be written");
    error
}

#[test]
fn one_path_with_two_contents_names_both_owners() {
    let build = minimal();
    build.file("core-hip_lib_generic", "lib/dup.txt", "A");
    build.file("core-runtime_lib_generic", "lib/dup.txt", "B");
    let error = refused(&build, &build.request());
    let expected =
        "`lib/dup.txt` is in `core-hip_lib_generic` and in `core-runtime_lib_generic`, with different contents";
    assert_eq!(error.to_string(), expected);
    assert!(error.hint().is_some());
}

#[test]
fn equal_files_at_one_path_are_no_conflict() {
    let build = minimal();
    build.file("core-hip_lib_generic", "lib/dup.txt", "A");
    build.file("core-runtime_lib_generic", "lib/dup.txt", "A");
    build.package(&build.request()).unwrap();
}

#[test]
fn a_library_that_nothing_provides_is_named_with_who_needs_it() {
    let build = minimal();
    let gone = build.library("core-hip_lib_generic", "lib/libgone.so.1", Some("libgone.so.1"), &[]);
    build.library("rand_lib_generic", "lib/librocrand.so.1", Some("librocrand.so.1"), &[gone.to_str().unwrap()]);
    fs_err::remove_file(&gone).unwrap();
    let error = refused(&build, &build.request());
    assert_eq!(
        error.find::<IncompleteSet>().unwrap().problems,
        ["`libgone.so.1` is needed by `_rocm_sdk_libraries/lib/librocrand.so.1`"]
    );
}

#[test]
fn a_link_to_a_library_in_another_folder_is_skipped_as_one_beside_it() {
    let build = minimal();
    build.library("rand_lib_generic", "lib/librocrand.so.1", Some("librocrand.so.1"), &[]);
    build.link("rand_lib_generic", "lib/librocrand.so", "librocrand.so.1");
    build.link("rand_lib_generic", "lib/compat/librocrand.so", "../librocrand.so.1");
    build.package(&build.request()).unwrap();
}

#[test]
fn core_must_not_need_what_only_the_libraries_hold() {
    let build = minimal();
    let rand = build.library("rand_lib_generic", "lib/librocrand.so.1", Some("librocrand.so.1"), &[]);
    build.library("core-runtime_lib_generic", "lib/libx.so.1", Some("libx.so.1"), &[rand.to_str().unwrap()]);
    assert!(refused(&build, &build.request()).find::<IncompleteSet>().is_some());
}

#[test]
fn split_code_needs_a_runtime_that_reads_it() {
    let build = minimal();
    let library = build.library("rand_lib_generic", "lib/librocrand.so.1", Some("librocrand.so.1"), &[]);
    let marker = build.artifacts().join("marker");
    fs_err::write(&marker, "x").unwrap();
    let status = std::process::Command::new("objcopy")
        .arg(format!("--add-section=.rocm_kpack_ref={}", marker.display()))
        .arg(&library)
        .status()
        .unwrap();
    assert!(status.success());
    fs_err::remove_file(marker).unwrap();
    let error = refused(&build, &build.request()).to_string();
    assert!(error.contains("librocrand.so.1` expects its device code in .kpack archives"), "{error}");
    let forced = Request { unsupported: rocwheel_package::Unsupported::Allow, ..build.request() };
    build.package(&forced).unwrap();
}

#[test]
fn split_code_is_known_by_its_wrappers() {
    let build = minimal();
    // The result of `rocwheel split`: no section of its own, but wrappers with the magic HIPK.
    let code = r#"
        __attribute__((section(".hip_fatbin"), aligned(4096))) const char code[64] =
            "\x82\xab" "kernel_name\xa1" "a\xb2" "kpack_search_paths\x91\xa1" "b";
        __attribute__((section(".hipFatBinSegment"), used))
        static struct { unsigned magic, version; const void *binary; unsigned long index; } wrapper =
            {0x4B504948, 1, code, 0};
    "#;
    let source = build.output().with_extension("c");
    fs_err::write(&source, code).unwrap();
    let flags = [source.to_str().unwrap()];
    build.library("rand_lib_generic", "lib/librocrand.so.1", Some("librocrand.so.1"), &flags);
    let error = refused(&build, &build.request());
    let refused = "lib/librocrand.so.1` expects its device code in .kpack archives";
    assert!(error.to_string().contains(refused), "{error}");
    build.library("core-kpack_lib_generic", "lib/librocm_kpack.so.1", Some("librocm_kpack.so.1"), &[]);
    build.package(&build.request()).unwrap();
}

#[test]
fn versions_that_pip_would_not_take_are_refused() {
    let build = minimal();
    for version in ["7.1.0-rc1", "seven", "7.1.0+A", ""] {
        let request = Request { version: Some(version.into()), ..build.request() };
        let error = refused(&build, &request);
        assert!(error.to_string().starts_with(&format!("`{version}` is not ")), "{version}: {error}");
        assert_eq!(error.exit(), Exit::Usage);
    }
}

#[test]
fn artifacts_without_the_base_are_refused() {
    let build = minimal();
    fs_err::remove_dir_all(build.artifacts().join("base_lib_generic")).unwrap();
    let error = refused(&build, &build.request());
    assert!(error.to_string().contains("base_lib_generic"), "{error}");
}

#[test]
fn a_folder_of_others_is_left_alone() {
    let build = minimal();
    fs_err::create_dir_all(build.output()).unwrap();
    fs_err::write(build.output().join("mine"), "x").unwrap();
    let error = refused(&build, &build.request()).to_string();
    assert!(error.ends_with("is not empty and was not made by `rocwheel package`"), "{error}");
    assert_eq!(support::names(&build.output()), ["mine"]);
}

#[test]
fn a_library_cut_short_is_named() {
    let build = minimal();
    let library = build.place("core-hip_lib_generic", "lib/libamdhip64.so.7");
    let bytes = fs_err::read(&library).unwrap();
    fs_err::write(&library, &bytes[..bytes.len() / 8]).unwrap();
    let error = refused(&build, &build.request());
    assert!(error.to_string().contains("libamdhip64.so.7"), "{error}");
}

#[test]
fn unknown_targets_get_a_suggestion() {
    let build = minimal();
    let request = Request { targets: vec!["gfx94".into()], ..build.request() };
    let error = refused(&build, &request);
    assert!(error.to_string().contains("gfx94"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn the_three_shapes_differ_as_they_should() {
    let build = minimal();
    build.library("rand_lib_generic", "lib/librocrand.so.1", Some("librocrand.so.1"), &[]);
    build.file("blas_lib_gfx942", "lib/rocblas/library/a.co", "a");
    build.file("blas_lib_gfx1100", "lib/rocblas/library/b.co", "b");
    let fat = Request { shape: Some(Shape::Fat), ..build.request() };
    build.package(&fat).unwrap();
    let names = build.dist_names().join(" ");
    assert!(!names.contains("device") && names.contains("rocm_sdk_libraries-"), "{names}");
    let libraries = build.dist().join(build.dist_names().into_iter().find(|name| name.contains("libraries")).unwrap());
    assert!(support::members(&libraries).contains_key("_rocm_sdk_libraries/lib/rocblas/library/b.co"));

    let families = Request { shape: Some(Shape::PerFamily), ..build.request() };
    let (_, outcome) = build.package(&families).unwrap();
    let paths: Vec<&str> = outcome.packages.iter().map(|package| package.path.split("-py3").next().unwrap()).collect();
    for path in "dist/rocm_sdk_core-10.1.0a20260822 dist/rocm_sdk_libraries_gfx942-10.1.0a20260822 \
        dist/rocm_sdk_libraries_gfx1100-10.1.0a20260822 dist/gfx942/rocm-10.1.0a20260822.tar.gz \
        dist/gfx1100/rocm-10.1.0a20260822.tar.gz"
        .split(' ')
    {
        assert!(paths.contains(&path), "{path} is not among {paths:?}");
    }
    assert!(outcome.removed.iter().any(|path| path.contains("rocm_sdk_libraries-")), "{:?}", outcome.removed);
}

/// Marks the artifacts as imported, which makes their shape `fat`.
fn imported(build: &Build) {
    let path = build.place("base_lib_generic", "share/therock/therock_manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    manifest["flags"]["KPACK_SPLIT_ARTIFACTS"] = false.into();
    manifest["rocwheel"] = serde_json::json!({ "import": { "kind": "deb", "shape": "fat" } });
    fs_err::write(path, manifest.to_string()).unwrap();
}

#[test]
fn an_import_too_large_for_one_wheel_is_split_and_says_why() {
    let build = minimal();
    build.library("rand_lib_generic", "lib/librocrand.so.1", Some("librocrand.so.1"), &[]);
    // A megabyte that does not compress, and one that does.
    let noise: Vec<u8> =
        (0..250_000u32).flat_map(|number| (number.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
    let text = noise.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    build.file("blas_lib_gfx942", "lib/rocblas/library/a.co", &text);
    build.file("blas_lib_gfx1100", "lib/rocblas/library/b.co", &"b".repeat(5_000_000));
    imported(&build);
    let small = build.request();
    let plan = build.plan(&small).unwrap();
    assert_eq!((plan.shape, plan.shape_reason.is_none(), plan.too_large.len()), (Shape::Fat, true, 0));
    let limited = Request { largest_wheel: 700_000, ..build.request() };
    let plan = build.plan(&limited).unwrap();
    assert_eq!(plan.shape, Shape::Split);
    let reason = plan.shape_reason.clone().unwrap();
    assert!(reason.instead_of.file_name.starts_with("rocm_sdk_libraries-"), "{reason}");
    // About half of the text, as bytes of a hexadecimal number.
    assert!((900_000..1_500_000).contains(&reason.instead_of.bytes), "{:?}", reason.instead_of);
    assert!(reason.to_string().contains("`--shape split`; `--shape fat` does otherwise"), "{reason}");
    let large: Vec<&str> = plan.too_large.iter().map(|large| large.file_name.split('-').next().unwrap()).collect();
    assert_eq!(large, ["rocm_sdk_device_gfx942"], "what is still too large is said");
    let asked = Request { shape: Some(Shape::Fat), ..limited };
    let plan = build.plan(&asked).unwrap();
    assert_eq!((plan.shape, plan.shape_reason.is_none(), plan.too_large.len()), (Shape::Fat, true, 1));
}

#[test]
fn variants_of_a_target_are_one_package_in_every_shape() {
    let build = minimal();
    for (target, text) in [("gfx942", "a"), ("gfx942:xnack+", "b"), ("gfx1100", "c")] {
        let name = target.replace(':', "-");
        build.file(&format!("blas_lib_{target}"), &format!("lib/rocblas/library/K_{name}.co"), text);
    }
    let families = Request { shape: Some(Shape::PerFamily), ..build.request() };
    let (plan, outcome) = build.package(&families).unwrap();
    assert_eq!(plan.targets, ["gfx942", "gfx1100"]);
    let mut paths: Vec<&str> = outcome.packages.iter().map(|package| package.path.as_str()).collect();
    assert!(paths.iter().all(|path| !path.contains(':')), "{paths:?}");
    let count = paths.len();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), count, "no package overwrites another: {paths:?}");
    let name = build.dist_names().into_iter().find(|name| name.contains("libraries_gfx942")).unwrap();
    let libraries = support::members(&build.dist().join(name));
    for kernels in ["K_gfx942.co", "K_gfx942-xnack+.co"] {
        assert!(
            libraries.contains_key(&format!("_rocm_sdk_libraries_gfx942/lib/rocblas/library/{kernels}")),
            "{kernels}"
        );
    }
    build.plan(&Request { targets: vec!["gfx942:xnack+".into()], ..families.clone() }).unwrap();

    build.file("blas_lib_gfx942", "lib/librocblas.dat", "one");
    build.file("blas_lib_gfx942:xnack+", "lib/librocblas.dat", "other");
    let error = build.plan(&families).unwrap_err();
    assert!(error.to_string().contains("` is in `blas_lib_gfx942` and in `blas_lib_gfx942:xnack+`, "), "{error}");
}

#[test]
fn two_packages_of_one_name_are_refused_with_their_artifacts() {
    let build = minimal();
    build.file("blas_lib_gfx94X-dcgpu", "lib/a.co", "a");
    build.file("blas_lib_gfx94x-dcgpu", "lib/b.co", "b");
    let error = refused(&build, &Request { shape: Some(Shape::PerFamily), ..build.request() });
    let artifacts = "the artifacts are `blas_lib_gfx94X-dcgpu`, `blas_lib_gfx94x-dcgpu`";
    assert!(error.to_string().ends_with(artifacts), "{error}");
    assert!(error.hint().unwrap().contains("--targets"));
}

#[test]
fn a_name_that_no_wheel_can_hold_is_refused_with_the_file() {
    let build = minimal();
    build.file("core-hip_run_generic", "share/back\\slash", "x");
    let error = refused(&build, &build.request());
    let words = "core-hip/stage/share/back\\slash` cannot be packaged under its name";
    assert!(error.to_string().ends_with(words), "{error}");
    assert!(error.hint().is_some());
    assert!(build.plan(&build.request()).unwrap_err().to_string().ends_with(words), "the plan refuses it already");
}
