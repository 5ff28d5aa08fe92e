//! `rocwheel split` on a few artifacts with real fat binaries: plan, result, check, exit codes. The
//! crate `split` tests the code itself.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::path::Path;

use rocwheel_fixtures::TestContext;
use rocwheel_fixtures::gpu::{Gpu, Link, TranslationUnit};

const MANIFEST: &[u8] = br#"{"the_rock_commit": null, "rocm_package_version": "7.1.0"}"#;

fn library() -> Vec<u8> {
    let units = [
        TranslationUnit { source: "first", targets: &["gfx942", "gfx1100"] },
        TranslationUnit { source: "second", targets: &["gfx942", "gfx1100"] },
    ];
    let gpu = Gpu::new();
    fs_err::read(gpu.build(&Link { name: "librocrand.so.1", units: &units, compile: &[], link: &["-shared"] })).unwrap()
}

fn filled() -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    let manifest = "base/aux-overlay/stage/share/therock/therock_manifest.json";
    context.artifact("in", "base_lib_generic", &[(manifest, MANIFEST)]);
    context.artifact("in", "rand_lib_gfx9X-all", &[("rand/stage/lib/librocrand.so.1", &library())]);
    context.artifact("in", "rand_doc_generic", &[("rand/stage/share/doc/readme", b"text")]);
    context
}

#[test]
fn a_dry_run_says_what_goes_where_and_writes_nothing() {
    let context = filled();
    let ran = context.types("split in --dry-run").exits(0);
    for said in
        ["rand_lib: 2 bundles for gfx942, gfx1100", "rand_lib_gfx942.kpack: 2 code objects of ", "rand_doc_generic"]
    {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
    assert!(ran.stderr.contains("would write 5 artifacts and move 4 code objects of "), "{}", ran.stderr);
    let names: Vec<_> =
        fs_err::read_dir(context.directory()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["in"]);
    let plan = context.types("split in --dry-run --json").json();
    assert_eq!(plan["groups"][0]["archives"][0]["name"], "rand_lib_gfx942.kpack");
    assert_eq!(plan["groups"][0]["binaries"][0]["wrappers"], serde_json::json!([0, 1]));
}

#[test]
fn a_split_is_checked_and_can_be_checked_again() {
    let context = filled();
    let ran = context.types("split in -o out").ends(0, "checked 4 code objects of ").says(": nothing is different");
    for name in ["rand_lib_generic", "rand_lib_gfx942", "rand_lib_gfx1100", "rand_doc_generic", "base_lib_generic"] {
        assert!(ran.stdout.contains(name) && context.path("out").join(name).is_dir(), "{name}: {}", ran.stdout);
    }
    context.types("split --verify-only in out").exits(0);
    let archive = context.path("out/rand_lib_gfx942/rand/stage/.kpack/rand_lib_gfx942.kpack");
    let mut bytes = fs_err::read(&archive).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 0x20;
    fs_err::write(&archive, bytes).unwrap();
    let report = context.types("split --verify-only in out --json").exits(1).json();
    assert!(!report["differences"].as_array().unwrap().is_empty());
    context
        .types("split --verify-only in out")
        .exits(1)
        .prints("difference: `lib/librocrand.so.1`, wrapper 0, gfx942: ");
}

#[test]
fn a_family_is_as_good_as_its_targets() {
    let context = filled();
    let document = context.types("split in -o out --targets gfx94X-dcgpu --json").exits(0).json();
    let names: Vec<&str> =
        document["outcome"]["artifacts"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["base_lib_generic", "rand_doc_generic", "rand_lib_generic", "rand_lib_gfx942"]);
    assert_eq!(document["outcome"]["verification"]["differences"], serde_json::json!([]));
    context.types("split --verify-only in out --targets gfx942").exits(0);
    assert_eq!(context.types("split --verify-only in out").code, Some(1));
}

#[test]
fn wrong_usage_and_bad_input() {
    let context = filled();
    context.write("in/core-hip_lib_generic/artifact_manifest.txt", "core/stage\n");
    context.write("in/core-hip_lib_generic/core/stage/lib/libamdhip64.so.7", "x");
    context.write("empty/file", "x");
    for (arguments, code, said) in [
        (&["split", "in"][..], 2, "--output"),
        (&["split", "-o", "out"], 2, "PATH"),
        (&["split", "in", "-o", "out", "--level", "23"], 2, "23"),
        (&["split", "in", "-o", "out", "--split-databases", "rocblass"], 2, "hint: known are "),
        (&["split", "in", "-o", "out", "--targets", "radeon"], 2, "unknown GPU target or family `radeon`"),
        (&["split", "in", "-o", "out", "--targets", "gfx1201", "--force"], 1, "there is no GPU code for gfx1201"),
        (&["split", "in", "-o", "out"], 1, "hint: add the artifact `core-kpack`, or split all the same with `--force`"),
        (&["split", "in", "-o", "in/out", "--force"], 1, "are inside one another"),
        (&["split", "empty", "-o", "out"], 1, "there is no artifact"),
        (&["split", "missing", "-o", "out"], 1, "missing"),
        (&["split", "--verify-only", "in"], 2, "--verify-only"),
    ] {
        let ran = context.run(arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
        assert!(!context.path("out").exists(), "{arguments:?}");
    }
}

#[test]
fn a_library_becomes_a_file_and_archives_beside_it() {
    let context = filled();
    let library = "in/rand_lib_gfx9X-all/rand/stage/lib/librocrand.so.1";
    let before = fs_err::read(context.path(library)).unwrap();
    context
        .run(["split", library, "--dry-run"])
        .exits(0)
        .prints(".kpack/librocrand_gfx942.kpack")
        .says("would move 4 code objects of ");
    context.run(["split", library, "-o", "out"]).ends(0, ": nothing is different").says("moved 4 code objects of ");
    for archive in ["gfx942", "gfx1100"] {
        assert!(context.path(format!("out/.kpack/librocrand_{archive}.kpack")).is_file());
    }
    assert_eq!(fs_err::read(context.path(library)).unwrap(), before);
    context.run(["split", "--verify-only", library, "out/librocrand.so.1"]).exits(0);
    // Splitting again replaces the output; files of others are left alone.
    let ran = context.run(["split", library, "-o", "out", "--targets", "gfx942", "--json"]).exits(0);
    let document = ran.json();
    assert_eq!(document["outcome"]["archives"].as_array().unwrap().len(), 1);
    assert_eq!(document["outcome"]["verification"]["differences"], serde_json::json!([]));
    assert!(!context.path("out/.kpack/librocrand_gfx1100.kpack").exists());

    context.types("split out/librocrand.so.1 -o again").ends(1, "holds no GPU code that can be split off");
    for (arguments, said) in [
        (&["split", library, "in", "-o", "new"][..], "cannot be split together"),
        (&["split", library, "-o", "new", "--split-databases", "rocblas"], "`--split-databases` is for artifacts"),
        (&["split", library, "-o", "new", "--force"], "`--force` is for artifacts"),
        (&["split", library, "-o", "new", "--device-prefix", "x"], "`--device-prefix` is for wheels"),
        (&["split", library, library, "-o", "new"], "`librocrand.so.1` is given twice"),
        (&["split", library, "-o", "in/rand_lib_gfx9X-all/rand/stage/lib"], "are inside one another"),
    ] {
        let ran = context.run(arguments);
        assert_ne!(ran.code, Some(0), "{arguments:?}");
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
        assert!(!context.path("new").exists(), "{arguments:?}");
    }
}

#[test]
fn single_files_can_be_compared() {
    let context = filled();
    assert_eq!(context.types("split in -o out").code, Some(0));
    let before = "in/rand_lib_gfx9X-all/rand/stage/lib/librocrand.so.1";
    let after = "out/rand_lib_generic/rand/stage/lib/librocrand.so.1";
    // The archives are in another artifact, so this file finds nothing from its place.
    context
        .run(["split", "--verify-only", before, after])
        .exits(1)
        .prints("wrapper 1, gfx1100: the runtime finds no archive for it");
    context.types("artifact flatten out -o flat").exits(0);
    assert!(Path::new(&context.path("flat/.kpack/rand_lib_gfx942.kpack")).is_file());
    context.run(["split", "--verify-only", before, "flat/lib/librocrand.so.1"]).exits(0);
}

#[test]
fn a_library_may_be_called_like_an_artifact() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    let names = ["libonnxruntime_providers_rocm.so", "a_b_c.so", "a_b_c.so.1"];
    for name in names {
        context.write(format!("before/{name}"), library());
    }
    let paths = names.map(|name| format!("before/{name}"));
    context.run(["split", "-o", "after"].into_iter().chain(paths.iter().map(String::as_str))).exits(0);
    // The marker file of the output is not a difference, and is not copied.
    context.types("split --verify-only before after").ends(0, "nothing is different");
    context.types("fuse after -o fused").exits(0);
    let mut found: Vec<_> =
        fs_err::read_dir(context.path("fused")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, [".rocwheel-fuse", "a_b_c.so", "a_b_c.so.1", "libonnxruntime_providers_rocm.so"]);
}

#[test]
fn generic_targets_are_known() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    let gpu = Gpu::new();
    let units = [TranslationUnit {
        source: "first",
        targets: &["gfx11-generic", "gfx12-generic", "gfx10-3-generic", "gfx803"],
    }];
    let compile = ["-mcode-object-version=6"];
    let built = gpu.build(&Link { name: "l.so", units: &units, compile: &compile, link: &["-shared"] });
    context.write("l.so", fs_err::read(built).unwrap());
    let ran = context.types("split l.so -o out").exits(0);
    assert!(!ran.stderr.contains("is in no table") && !ran.stderr.contains("generic"), "{ran:?}");
}
