//! `rocwheel prune` on a fat library: table, JSON, exit codes. The crate `split` tests the pruned
//! code.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use rocwheel_fixtures::TestContext;
use rocwheel_fixtures::gpu::{Gpu, Link, TranslationUnit};

fn context() -> TestContext {
    let units = [TranslationUnit { source: "first", targets: &["gfx90a", "gfx942", "gfx1100"] }];
    let gpu = Gpu::new();
    let library = gpu.build(&Link { name: "libfat.so", units: &units, compile: &[], link: &["-shared"] });
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    context.write("libfat.so", fs_err::read(library).unwrap());
    context
}

#[test]
fn savings_are_said_and_checked() {
    let context = context();
    context
        .types("prune --keep gfx942 libfat.so --dry-run")
        .exits(0)
        .prints("libfat.so (not written): ")
        .prints(" % less\n");
    assert!(!context.path("out").exists());
    let ran = context.types("prune --keep gfx942 libfat.so --output out").exits(0);
    let rows: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["action", "before", "after", "kept", "dropped", "file"]);
    assert_eq!((rows[1][0], &rows[1][5..]), ("changed", &["gfx942", "gfx90a,gfx1100", "libfat.so"][..]));
    assert!(ran.stdout.contains("out/libfat.so: "), "{ran:?}");
    assert!(ran.stderr.contains("1 code object that stayed was compared with the original"), "{ran:?}");
    context.types("prune --keep gfx942 libfat.so --output out").ends(1, "error: the output `out/libfat.so` exists");
}

#[test]
fn machines_get_the_same() {
    let context = context();
    let ran = context.types("prune --keep gfx942,gfx1201 libfat.so --in-place --json");
    assert_eq!(ran.code, Some(1), "a target is missing: {ran:?}");
    assert!(ran.stderr.contains("no GPU code was found for gfx1201"), "{ran:?}");
    let outcome = ran.json();
    assert_eq!(outcome["missing"], serde_json::json!(["gfx1201"]));
    let file = &outcome["inputs"][0]["files"][0];
    assert_eq!((&file["action"], &file["dropped"]), (&"changed".into(), &serde_json::json!(["gfx90a", "gfx1100"])));
    let size = fs_err::metadata(context.path("libfat.so")).unwrap().len();
    assert_eq!(outcome["after"], serde_json::json!(size));
    assert!(outcome["before"].as_u64().unwrap() > size);
}

#[test]
fn wrong_usage_is_named() {
    let context = context();
    for (arguments, code, words) in [
        (&["libfat.so"][..], 2, "--keep <LIST>"),
        (&["--keep", "gfx942", "libfat.so"], 2, "--output <DIR>"),
        (&["--keep", ",", "libfat.so", "-o", "out"], 2, "no GPU target is named that is to be kept"),
        (&["--keep", "gfx94x-dcgpu", "libfat.so", "-o", "out"], 2, "did you mean `gfx94X-dcgpu`?"),
        (&["--keep", "gfx942:wave+", "libfat.so", "-o", "out"], 2, "the features are `sramecc` and `xnack`"),
        (&["--keep", "gfx1030", "libfat.so", "-o", "out"], 1, "hint: keep one of its targets as well"),
        (&["--keep", "gfx942", "nothing.so", "-o", "out"], 1, "nothing.so"),
    ] {
        let ran = context.run(["prune"].iter().chain(arguments)).exits(code);
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
}

/// The header of a code object for gfx950 or gfx942, without kernels.
fn code_object(machine: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x03");
    bytes[18] = 224;
    bytes[20] = 1;
    bytes[48] = machine;
    bytes[52] = 64;
    bytes
}

#[test]
fn many_files_with_one_result_are_one_row() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    for number in 0..11 {
        context.write(format!("tree/hsa/gfx942/a/{number}.co"), code_object(0x4c));
        context.write(format!("tree/hsa/gfx950/{number}/b.co"), code_object(0x4f));
        context.write(format!("tree/aot/{number}.hsaco"), code_object(0x4f));
    }
    context.write("tree/aot/one.hsaco", code_object(0x4c));
    let ran = context.types("prune --keep gfx942 tree --output out").exits(0);
    let rows: Vec<String> =
        ran.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        rows,
        [
            "action before after kept dropped file",
            "kept 704 B 704 B gfx950 - tree/aot (11 files)",
            "kept 768 B 768 B gfx942 - tree (12 files)",
            "dropped 704 B 0 B - gfx950 tree/hsa/gfx950 (11 files)",
            "out/tree: 2.2 kB became 1.5 kB, 32 % less",
        ]
    );
    let note = "`tree/aot` (11 files): not changed: its path does not name its target, so it may be opened on any GPU";
    assert!(ran.stderr.contains(note), "{ran:?}");
    assert_eq!(ran.stderr.matches("not changed").count(), 1, "{ran:?}");
    let ran = context.types("prune --keep gfx942 tree --dry-run --verbose");
    assert_eq!(ran.stdout.lines().count(), 36, "{ran:?}");
}
