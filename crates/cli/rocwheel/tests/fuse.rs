//! `rocwheel fuse` after `rocwheel split`: files, artifacts, trees and wheels get their code back.
//! The crate `split` tests this for every form of library.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use rocwheel_fixtures::TestContext;
use rocwheel_fixtures::gpu::{Gpu, Link, TranslationUnit};
use serde_json::Value;

fn library(targets: &[&str], name: &str) -> Vec<u8> {
    let units = [TranslationUnit { source: "first", targets }, TranslationUnit { source: "second", targets }];
    let gpu = Gpu::new();
    fs_err::read(gpu.build(&Link { name, units: &units, compile: &[], link: &["-shared"] })).unwrap()
}

const BOTH: &[&str] = &["gfx942", "gfx1100"];
const MANIFEST: &[u8] = br#"{"the_rock_commit": null, "rocm_package_version": "7.1.0"}"#;
const LIBRARY: &str = "rand/stage/lib/librocrand.so.1";

/// Artifacts with one library, and the same split in `out`.
fn split() -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    let manifest = "base/aux-overlay/stage/share/therock/therock_manifest.json";
    context.artifact("in", "base_lib_generic", &[(manifest, MANIFEST)]);
    let database = "rand/stage/lib/rocblas/library/K_gfx942.co";
    context.artifact("in", "rand_lib_gfx9X-all", &[(LIBRARY, &library(BOTH, "librocrand.so.1")), (database, b"942")]);
    context.types("split in -o out").exits(0);
    context
}

/// Code objects by target and size, sorted.
fn kernels(context: &TestContext, path: &str) -> Vec<(String, u64)> {
    let document = context.run(["kernels", path, "--json"]).exits(0).json();
    let mut found = Vec::new();
    collect(&document, &mut found);
    found.sort();
    found
}

/// Collects every object of the document that has a target and a size.
fn collect(value: &Value, found: &mut Vec<(String, u64)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => {
            if let (Some(Value::String(target)), Some(Value::Number(size))) = (fields.get("target"), fields.get("size"))
            {
                found.push((target.clone(), size.as_u64().unwrap()));
            }
            fields.values().for_each(|field| collect(field, found));
        }
        _ => {}
    }
}

#[test]
fn artifacts_come_back_whole() {
    let context = split();
    context
        .types("fuse out -o back")
        .exits(0)
        .prints("lib/librocrand.so.1")
        .says("put 4 code objects of ")
        .says(" into 1 file and checked them");
    let back = context.path("back/rand_lib_generic");
    assert_eq!(fs_err::read_to_string(back.join("artifact_manifest.txt")).unwrap(), "rand/stage\n");
    assert_eq!(fs_err::read(back.join("rand/stage/lib/rocblas/library/K_gfx942.co")).unwrap(), b"942");
    assert!(!back.join("rand/stage/.kpack").exists());
    assert_eq!(kernels(&context, "back"), kernels(&context, "in"));
    let manifest = context.path("back/base_lib_generic/base/aux-overlay/stage/share/therock/therock_manifest.json");
    assert!(fs_err::read_to_string(manifest).unwrap().contains("\"KPACK_SPLIT_ARTIFACTS\": false"));
    // The result can be split again, and an output of this command may be replaced.
    context.types("split back -o again").exits(0);
    context.types("fuse again -o back --compress --family all").exits(0);
    assert!(context.path("back/rand_lib_all").exists() && !context.path("back/rand_lib_generic").exists());
    assert_eq!(kernels(&context, "back").len(), kernels(&context, "in").len());
}

#[test]
fn a_dry_run_writes_nothing() {
    let context = split();
    context.types("fuse out --dry-run").ends(0, "would put 4 code objects of ");
    let document = context.types("fuse out --dry-run --json").json();
    let plans = document["plans"].as_array().unwrap();
    assert!(plans.iter().any(|plan| plan["targets"] == serde_json::json!(["gfx942", "gfx1100"])), "{document}");
    assert!(!context.path("back").exists());
}

#[test]
fn a_library_and_its_archives() {
    let context = split();
    let host = format!("out/rand_lib_generic/{LIBRARY}");
    // Its archives are in other artifacts, so its marker leads to no file.
    context
        .run(["fuse", &host, "-o", "x.so"])
        .ends(1, "no archive has it; its markers say `../.kpack/rand_lib_@GFXARCH@.kpack`");
    let archives = ["gfx942", "gfx1100"].map(|target| format!("out/rand_lib_{target}/rand/stage/.kpack"));
    context.run(["fuse", &host, &archives[0], &archives[1], "-o", "x.so"]).exits(0);
    assert_eq!(kernels(&context, "x.so"), kernels(&context, "in"));
    context.run(["fuse", &host, &archives[0], "-o", "x.so"]).ends(1, "there is such a file already");
    context.run(["fuse", &host, "in", "-o", "y.so"]).ends(2, "there are no `.kpack` archives in `in`");
}

#[test]
fn an_archive_that_is_left_out_or_of_no_use_is_an_error() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    let gpu = Gpu::new();
    let units = [
        TranslationUnit { source: "first", targets: &["gfx942", "gfx1100", "gfx90a"] },
        TranslationUnit { source: "second", targets: BOTH },
        TranslationUnit { source: "third", targets: &["gfx90a"] },
    ];
    let built = gpu.build(&Link { name: "l.so", units: &units, compile: &[], link: &["-shared"] });
    context.write("l.so", fs_err::read(built).unwrap());
    context.write("other.so", library(BOTH, "other.so"));
    assert_eq!(context.types("split l.so -o s").code, Some(0));
    assert_eq!(context.types("split other.so -o other").code, Some(0));
    let mut archives: Vec<String> = fs_err::read_dir(context.path("s/.kpack"))
        .unwrap()
        .map(|entry| format!("s/.kpack/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    archives.sort();
    let (of_sets, plain): (Vec<&str>, Vec<&str>) =
        archives.iter().map(String::as_str).partition(|path| path.contains("_set"));
    let fuse = |archives: &[&str], options: &[&str]| {
        context.run(["fuse", "s/l.so"].iter().chain(archives).chain(&["-o", "y.so"]).chain(options))
    };
    assert_eq!(archives.len(), 6, "{archives:?}");
    fuse(&of_sets, &[])
        .ends(1, "error: `l.so` would have a bundle without code: no archive behind `")
        .says("hint: give all archives that the file was split into");
    fuse(&plain, &["--dry-run"]).exits(1).prints("missing: `l.so`: ");
    assert!(!context.path("y.so").exists());
    fuse(&of_sets, &["--allow-empty"]).exits(0);
    fs_err::remove_file(context.path("y.so")).unwrap();
    let stranger = "other/.kpack/other_gfx942.kpack";
    let all: Vec<&str> = archives.iter().map(String::as_str).chain([stranger]).collect();
    fuse(&all, &[]).ends(1, format!("`{stranger}` holds no code for the files"));
    let twin = plain[0].replace("s/.kpack/", "other/");
    fs_err::copy(context.path(plain[0]), context.path(&twin)).unwrap();
    fuse(&["s/.kpack", &twin], &[]).ends(1, "has the same name");
    // In a directory, unrelated archives are reported and left alone.
    fuse(&["s/.kpack", "other/.kpack"], &[]).ends(0, format!("`{stranger}` has no code for the files that are joined"));
    assert_eq!(kernels(&context, "y.so"), kernels(&context, "l.so"));
}

#[test]
fn builds_for_different_gpus() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    for target in BOTH {
        let name = format!("{target}.so");
        fs_err::write(context.path(&name), library(&[target], &name)).unwrap();
    }
    context.types("fuse gfx942.so gfx1100.so -o both.so").exits(0);
    let mut each = [kernels(&context, "gfx942.so"), kernels(&context, "gfx1100.so")].concat();
    each.sort();
    assert_eq!(kernels(&context, "both.so"), each);
    fs_err::write(context.path("text.txt"), "text").unwrap();
    for (arguments, said) in [
        (&["fuse", "gfx942.so", "-o", "x.so"][..], "there is no GPU code to put together"),
        (&["fuse", "text.txt", "-o", "x.so"], "there is no GPU code to put together"),
        (&["fuse", "gfx942.so", "x.whl", "-o", "x"], "`x.whl`"),
        (&["fuse", "missing.so", "-o", "x.so"], "`missing.so`"),
        (&["fuse", "gfx942.so", "--family", "a_b", "-o", "x"], "`a_b` cannot be the last part"),
    ] {
        let ran = context.run(arguments.iter().copied());
        assert!(ran.code != Some(0) && ran.stderr.contains(said), "{arguments:?}: {ran:?}");
    }
    assert!(!context.path("x.so").exists());
}

/// Prints the differences between two wheels, as Python reads them.
const COMPARE: &str = r#"
import sys, zipfile
one, two = (zipfile.ZipFile(path) for path in sys.argv[1:])
names = set(one.namelist()) ^ set(two.namelist())
names |= {name for name in set(one.namelist()) & set(two.namelist()) if one.read(name) != two.read(name)}
print(" ".join(sorted(names)))
"#;

#[test]
fn images_of_device_wheels_come_back() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    let name = "demo-1.0-py3-none-linux_x86_64.whl";
    let image = b"triton 11".repeat(900);
    context.wheel(
        name,
        &[("demo/__init__.py", b""), ("demo/lib/aotriton.images/amd-gfx11xx/flash/attention.aks2", &image)],
    );
    context.run(["split", name, "-o", "apart"]).exits(0);
    let host = format!("apart/{name}");
    let device = "apart/demo_device_gfx11-1.0-py3-none-linux_x86_64.whl";
    context.run(["fuse", &host, device, "-o", "back"]).ends(0, "the device wheels have 1 file of kernel databases");
    let differing = context.python(COMPARE, &[name, &format!("back/{name}")]);
    assert!(["", "demo-1.0.dist-info/RECORD"].contains(&differing.as_str()), "{differing}");
    context.run(["fuse", &host, "-o", "none"]).exits(2);
}

#[test]
fn a_wheel_and_its_device_wheels() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    fs_err::write(context.path("libdemo.so"), library(BOTH, "libdemo.so")).unwrap();
    let name = "demo-1.0-py3-none-linux_x86_64.whl";
    context.gpu_wheel("libdemo.so", name);
    context.run(["split", name, "-o", "apart"]).exits(0);
    let mut wheels: Vec<String> = fs_err::read_dir(context.path("apart"))
        .unwrap()
        .map(|entry| format!("apart/{}", entry.unwrap().file_name().to_str().unwrap()))
        .filter(|name| name.contains(".whl"))
        .collect();
    wheels.sort();
    assert!(wheels.len() >= 3, "{wheels:?}");
    let fuse = |wheels: &[String], output: &str| {
        let mut arguments = vec!["fuse".to_owned()];
        arguments.extend(wheels.iter().cloned());
        arguments.extend(["-o".to_owned(), output.to_owned()]);
        context.run(arguments)
    };
    fuse(&wheels, "back").exits(0);
    let back = format!("back/{name}");
    // The host entry of the library has another name, so the library and RECORD differ; METADATA is
    // that of the original again.
    assert_eq!(context.python(COMPARE, &[name, &back]), "demo-1.0.dist-info/RECORD demo/lib/libdemo.so");
    assert_eq!(kernels(&context, &back), kernels(&context, name));
    let (devices, hosts): (Vec<String>, Vec<String>) = wheels.into_iter().partition(|wheel| wheel.contains("device"));
    fuse(&devices, "none").ends(1, "does not belong to");
    fuse(&[&hosts[..], &devices[..1]].concat(), "some").ends(0, "is not here, so its GPU code will not be either");
    assert!(kernels(&context, &format!("some/{name}")).len() < kernels(&context, name).len());
}
