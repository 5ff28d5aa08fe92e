//! Input with damaged bytes: no command turns it into a result that looks sound.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::process::Command;

use rocwheel_fixtures::gpu::{Gpu, Link, TranslationUnit};
use rocwheel_fixtures::{Ran, TestContext, TestWheel};

const NAME: &str = "demo-1.0-py3-none-linux_x86_64.whl";

/// Changes one byte of the stored member whose name has this ending.
const FLIP: &str = r#"
import sys, zipfile
wheel, suffix, place = sys.argv[1:]
(member,) = [item for item in zipfile.ZipFile(wheel).infolist() if item.filename.endswith(suffix)]
data = bytearray(open(wheel, "rb").read())
assert member.compress_type == zipfile.ZIP_STORED
header = member.header_offset
start = header + 30 + sum(int.from_bytes(data[header + at : header + at + 2], "little") for at in (26, 28))
assert int(place) < member.file_size
data[start + int(place)] ^= 1
open(wheel, "wb").write(data)
"#;

/// Gives a member another CRC-32 in both of its headers.
const CRC: &str = r#"
import struct, sys, zipfile
wheel, name = sys.argv[1:]
member = zipfile.ZipFile(wheel).getinfo(name)
data = open(wheel, "rb").read()
was, new = (struct.pack("<I", crc) for crc in (member.CRC, member.CRC ^ 1))
assert data.count(was) == 2
open(wheel, "wb").write(data.replace(was, new))
"#;

fn library(context: &TestContext) {
    let targets = &["gfx90a", "gfx942"];
    let units = [TranslationUnit { source: "first", targets }, TranslationUnit { source: "second", targets }];
    let gpu = Gpu::new();
    let built = gpu.build(&Link { name: "libdemo.so", units: &units, compile: &[], link: &["-shared"] });
    context.write("libdemo.so", fs_err::read(built).unwrap());
}

/// A wheel, and its parts in `parts`.
fn split() -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    library(&context);
    context.gpu_wheel("libdemo.so", NAME);
    context.run(["split", NAME, "-o", "parts"]).exits(0);
    context
}

fn refused(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for word in words {
        assert!(ran.stderr.contains(word) || ran.stdout.contains(word), "{word}: {ran:?}");
    }
    assert!(!ran.stderr.contains("should not happen"), "{ran:?}");
}

#[test]
fn a_stored_member_is_compared_with_its_checksum() {
    let context = split();
    let device = "parts/demo_device_gfx90a-1.0-py3-none-linux_x86_64.whl";
    context.python(FLIP, &[device, ".kpack", "100"]);
    let words = ["its CRC-32 is not the one that the archive says", "_gfx90a.kpack`"];
    let host = format!("parts/{NAME}");
    refused(&context.run(["fuse", &host, device, "-o", "fat"]), &words);
    assert!(!context.path("fat").join(NAME).exists());
    refused(&context.run(["prune", "--keep", "gfx90a", device, "-o", "pruned"]), &words);
    refused(&context.run(["kernels", device]), &words[..1]);
    refused(&context.run(["split", "--verify-only", NAME, "parts"]), &[]);
}

#[test]
fn a_member_that_is_copied_as_it_is_packed_is_compared_with_its_checksum() {
    for member in ["demo/__init__.py", "demo/lib/rocblas/library/K_gfx942.co"] {
        let context = split();
        let words = ["its CRC-32 is not the one that the archive says", member];
        let parts = fs_err::read_dir(context.path("parts")).unwrap().map(|entry| entry.unwrap().path());
        let parts: Vec<String> = parts.map(|path| path.to_str().unwrap().to_owned()).collect();
        context.python(CRC, &[NAME, member]);
        refused(&context.run(["split", NAME, "-o", "again"]), &words);
        assert!(!context.path("again").join(NAME).exists());
        refused(&context.run(["prune", "--keep", "gfx942", NAME, "-o", "pruned"]), &words);
        // The damage is found even if all of the member is kept.
        refused(&context.run(["prune", "--keep", "gfx942,gfx90a", NAME, "-o", "pruned"]), &words);
        assert!(!context.path("pruned").join(NAME).exists());
        let holder = if member.ends_with("py") { NAME } else { "demo_device_gfx942-1.0-py3-none-linux_x86_64.whl" };
        context.python(CRC, &[&format!("parts/{holder}"), member]);
        let arguments = ["fuse", "-o", "fat"].into_iter().chain(parts.iter().map(String::as_str));
        refused(&context.run(arguments), &words);
        assert!(!context.path("fat").join(NAME).exists());
    }
}

#[test]
fn a_damaged_archive_is_not_taken_for_a_sound_one() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    library(&context);
    context.types("split libdemo.so -o parts").exits(0);
    let archive = context.path("parts/.kpack/libdemo_gfx90a.kpack");
    let sound = fs_err::read(&archive).unwrap();
    for place in [80, sound.len() / 2] {
        let mut bytes = sound.clone();
        bytes[place] ^= 1;
        fs_err::write(&archive, bytes).unwrap();
        refused(&context.types("fuse parts/libdemo.so -o fat.so"), &["libdemo_gfx90a.kpack"]);
        assert!(!context.path("fat.so").exists());
        let pruned = context.run(["prune", "--keep", "gfx90a", archive.to_str().unwrap(), "-o", "pruned"]);
        refused(&pruned, &["libdemo_gfx90a.kpack"]);
        assert!(!context.path("pruned/libdemo_gfx90a.kpack").exists());
        refused(&context.types("kernels parts"), &["could not read `libdemo.so#"]);
    }
}

/// An edit copies unchanged members without unpacking them, together with the checksum that reveals
/// the damage.
#[test]
fn damage_that_an_edit_copies_stays_visible() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    library(&context);
    context.gpu_wheel("libdemo.so", NAME);
    context.python(CRC, &[NAME, "demo/__init__.py"]);
    context.run(["edit", NAME, "--metadata", "Summary=Text", "-o", "edited"]).exits(0);
    for wheel in [NAME, &format!("edited/{NAME}")] {
        context.run(["audit", wheel]).exits(1).prints("error RW016 record: demo/__init__.py");
    }
}

/// Every command that reads requirements limits the depth of brackets, so none ends by a signal.
#[test]
fn a_requirement_may_be_nested_however_deep() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    library(&context);
    for (folder, depth) in [("", 50_000), ("old", 20)] {
        let marker = format!("{}python_version > '3'{}", "(".repeat(depth), ")".repeat(depth));
        let library = fs_err::read(context.path("libdemo.so")).unwrap();
        let wheel = TestWheel::new(NAME).file("demo/lib/libdemo.so", library).requires([format!("a; {marker}")]);
        wheel.write(&context.path(folder));
    }
    let old = format!("old/{NAME}");
    for (arguments, code) in [
        (&["audit", NAME][..], 1),
        (&["edit", NAME, "--replace-requires", "b==2", "-o", "edited"], 0),
        (&["repair", NAME, "--mode", "rocm", "--rocm-version", "7.1.0", "-o", "repaired"], 0),
        (&["diff", &old, NAME], 0),
        (&["split", NAME, "-o", "parts"], 0),
    ] {
        let ran = context.run(arguments);
        assert!(ran.code == Some(code), "{arguments:?}: {:?} {}", ran.code, &ran.stderr[..ran.stderr.len().min(600)]);
    }
}

/// Changes the type of a section in a table of section headers.
const RETYPE: &str = r#"
import struct, sys
path, number = sys.argv[1], 0
data = bytearray(open(path, "rb").read())
(start,), (count, names) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 60)
(texts,) = struct.unpack_from("<Q", data, start + 64 * names + 24)
for header in range(start, start + 64 * count, 64):
    (name,) = struct.unpack_from("<I", data, header)
    if data[texts + name :].startswith(b".rela.dyn\0"):
        data[header + 4] ^= 1
        number += 1
assert number == 1
open(path, "wb").write(data)
"#;

#[test]
fn damaged_section_headers_are_a_fault_of_the_input() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    library(&context);
    assert_eq!(context.types("split libdemo.so -o parts").code, Some(0));
    context.python(RETYPE, &["parts/libdemo.so"]);
    let ran = context.types("fuse parts/libdemo.so -o fat.so");
    refused(&ran, &["error: `libdemo.so` is damaged: the header of its section `.rela.dyn` (type 5, "]);
    assert!(!context.path("fat.so").exists());
}

#[test]
fn kernels_says_what_it_could_not_look_at() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    library(&context);
    context.write("two.whl", "PK");
    context.write("empty.whl", "");
    context.write("text.kpack", "version https://git-lfs.github.com/spec/v1\n");
    for (file, words) in
        [("two.whl", "it is no wheel"), ("empty.whl", "it is empty"), ("text.kpack", "it is no kpack archive")]
    {
        let ran = context.run(["kernels", file]);
        refused(&ran, &[&format!("warning: `{file}`: {words}"), "no GPU code could be read in 1 file"]);
    }
    refused(&context.types("kernels missing.so"), &["error: there is no `missing.so`"]);
    refused(&context.types("kernels libdemo.so missing.so"), &["`missing.so`: it cannot be read", "gfx942"]);
    // The loader reads no section headers, so such a library registers its code.
    let mut objcopy = Command::new("llvm-objcopy-19");
    objcopy.args(["--strip-sections", "libdemo.so", "bare.so"]).current_dir(context.directory());
    assert!(objcopy.status().expect("llvm-objcopy-19 is needed for this test").success());
    refused(&context.types("kernels bare.so"), &["it registers GPU code, which cannot be found"]);
    for (arguments, words) in [
        (["--targets", "gfx90"], "unknown GPU target or family `gfx90`"),
        (["--plot", "a.png"], "hint: let it end in `.svg`"),
    ] {
        context.run(["kernels", "libdemo.so"].into_iter().chain(arguments)).ends(2, words);
    }
    assert!(!context.path("a.png").exists());
    // Code for CUDA is not code for AMD's GPUs, but it is reported.
    context.write("cuda.c", "__attribute__((section(\".nv_fatbin\"))) const char code[] = \"code\";");
    context.tool("gcc", &["-shared", "-o", "cuda.so", "cuda.c"]);
    context.tool("clang-19", &["--target=x86_64-pc-windows-msvc", "-c", "-o", "cuda.obj", "cuda.c"]);
    context.tool("lld-link-19", &["/dll", "/noentry", "/nodefaultlib", "/export:code", "/out:cuda.dll", "cuda.obj"]);
    for library in ["cuda.so", "cuda.dll"] {
        context.run(["kernels", library]).ends(0, "no code for AMD GPUs in 1 file: 1 file has CUDA code");
    }
}
