//! What loaders, installers and the index refuse, without a missing library.

use std::process::Command;

use rocwheel_audit::Options;

use crate::fixture::{Bench, Pack, demo, pack, said};

const MODULE: &str = "demo/_m.cpython-312-x86_64-linux-gnu.so";
const NONE: [&str; 0] = [];
/// Pointers, which are relocated when a file is loaded, and a use of a versioned symbol.
const POINTERS: &str = "unsigned long strlen(const char *);
    const char *t[] = {\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\"};
    int f(void) { return strlen(t[3]); }";

fn with_tag(tag: &str, module: &[u8]) -> Pack {
    pack("demo-1.0", &format!("cp312-cp312-{tag}")).with(MODULE, module)
}

/// What the loader of this machine says about a library; empty if it loads it.
fn loaded(bench: &Bench, name: &str, bytes: &[u8]) -> String {
    let file = bench.place(name, bytes);
    let script = "import ctypes, sys; ctypes.CDLL(sys.argv[1])";
    let output = Command::new("python3").args(["-c", script]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn rw007_packed_relocations_need_glibc_2_36() {
    let bench = Bench::new();
    let linked = |arguments: &[&str]| bench.module(POINTERS, arguments);
    // GNU ld announces them with a symbol version.
    let announced = linked(&["-Wl,-z,pack-relative-relocs"]);
    let plain = linked(&[]);
    for (module, tag, found) in [
        (&plain, "manylinux_2_34_x86_64", &[][..]),
        (&announced, "manylinux_2_36_x86_64", &[]),
        (&announced, "manylinux_2_34_x86_64", &["RW007 error"]),
    ] {
        assert_eq!(bench.found(&[with_tag(tag, module)]), found, "{tag}");
    }
    // Without a versioned symbol nothing announces them, and every loader takes the file: old ones
    // without applying the relocations.
    let silent = bench.library(
        "_m.so",
        "int x; int *t[] = {&x, &x, &x, &x, &x, &x, &x, &x}; void *PyInit__m(void) { return t; }",
        &["-Wl,-z,pack-relative-relocs", "-Wl,--as-needed", "-nostdlib", "-Wl,-Bsymbolic"],
    );
    assert_eq!(loaded(&bench, "silent.so", &silent), "");
    let finding = bench.one(&[with_tag("manylinux_2_28_x86_64", &silent)], "");
    assert_eq!((finding.code.text(), finding.subject.as_str()), ("RW007", "manylinux_2_28_x86_64"));
    assert_eq!(finding.names, ["DT_RELR"]);
    assert!(finding.message.contains("promises glibc 2.28") && finding.message.contains("since 2.36"), "{finding:?}");
    assert!(finding.fix.unwrap().command().ends_with("--platform-tag manylinux_2_36_x86_64"));
    let report = bench.audit(&[with_tag("manylinux_2_36_x86_64", &silent)], &Options::default());
    assert_eq!(said(&report), NONE);
    assert_eq!(report.wheels[0].floor.as_ref().unwrap().tag, "manylinux_2_36_x86_64");
    let musl = pack("demo-1.0", "cp312-cp312-musllinux_1_2_x86_64");
    let finding = bench.one(&[musl.with("demo/_m.cpython-312-x86_64-linux-musl.so", &silent)], "");
    assert!(finding.message.contains("promises musl 1.2, ") && finding.message.contains("since 1.2.4"), "{finding:?}");
}

#[test]
fn rw033_packed_relocations_without_their_version_load_nowhere() {
    let bench = Bench::new();
    let module = bench.module(POINTERS, &["-fuse-ld=lld", "-Wl,--pack-dyn-relocs=relr"]);
    let message = loaded(&bench, "lld.so", &module);
    assert!(message.ends_with("DT_RELR without GLIBC_ABI_DT_RELR dependency"), "{message}");
    let finding = bench.one(&[with_tag("manylinux_2_36_x86_64", &module)], "");
    assert_eq!((finding.code.text(), finding.subject.as_str()), ("RW033", "DT_RELR"));
    assert!(finding.message.ends_with("`DT_RELR without GLIBC_ABI_DT_RELR dependency`"), "{finding:?}");
    assert_eq!(bench.found(&[with_tag("manylinux_2_28_x86_64", &module)]), ["RW007 error", "RW033 error"]);
}

/// glibc says the same about each file.
#[test]
fn rw033_files_that_the_loader_refuses_for_their_headers() {
    let bench = Bench::new();
    let plain = bench.module(POINTERS, &[]);
    let table = u64::from_le_bytes(plain[32..40].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes(plain[56..58].try_into().unwrap()));
    let last = (0..count).rfind(|index| plain[table + index * 56] == 1).unwrap();
    let field = |offset: usize| table + last * 56 + offset;
    let changed = |at: usize, bytes: &[u8]| {
        let mut module = plain.clone();
        module[at..at + bytes.len()].copy_from_slice(bytes);
        module
    };
    let address = u64::from_le_bytes(plain[field(16)..field(24)].try_into().unwrap());
    let refused: [(&str, Vec<u8>, &str, &str); 5] = [
        (
            "pie",
            bench.program(
                &format!("{POINTERS} void *PyInit__m(void) {{ return 0; }} int main(void) {{ return 0; }}"),
                &["-pie", "-fPIE", "-rdynamic"],
            ),
            "DF_1_PIE",
            "cannot dynamically load position-independent executable",
        ),
        ("noopen", bench.module(POINTERS, &["-Wl,-z,nodlopen"]), "DF_1_NOOPEN", "shared object cannot be dlopen()ed"),
        ("freebsd", changed(7, &[9]), "EI_OSABI", "ELF file OS ABI invalid"),
        ("version", changed(8, &[1]), "EI_OSABI", "ABI version invalid"),
        (
            "moved",
            changed(field(16), &(address - 8).to_le_bytes()),
            "PT_LOAD",
            "ELF load command address/offset not page-aligned",
        ),
    ];
    for (name, module, subject, fault) in &refused {
        let message = loaded(&bench, &format!("{name}.so"), module);
        assert!(message.contains(fault), "{name}: {message}");
        let report = bench
            .audit(&[demo().with(MODULE, module).with("demo/__init__.py", "from ._m import f")], &Options::default());
        let finding = report.findings.iter().find(|finding| finding.code.text() == "RW033");
        let finding = finding.unwrap_or_else(|| panic!("{name}: {report:?}"));
        assert_eq!((finding.subject.as_str(), finding.severity.name()), (*subject, "error"), "{name}");
        // No other finding hides the reason.
        assert!(!report.findings.iter().any(|finding| finding.code.text() == "RW010"), "{name}: {report:?}");
    }
    for (name, module) in [("gnu", changed(7, &[3])), ("aligned", changed(field(48), &0x20_0000_u64.to_le_bytes()))] {
        assert_eq!(loaded(&bench, &format!("{name}.so"), &module), "", "{name}");
        assert_eq!(bench.found(&[with_tag("manylinux_2_36_x86_64", &module)]), NONE, "{name}");
    }
    // musl looks at neither the system nor the flags.
    let flagged = bench.library("_m.so", "void *PyInit__m(void) { return 0; }", &["-nostdlib", "-Wl,-z,nodlopen"]);
    let musl = pack("demo-1.0", "cp312-cp312-musllinux_1_2_x86_64");
    assert_eq!(bench.found(&[musl.with("demo/_m.cpython-312-x86_64-linux-musl.so", &flagged)]), NONE);
}

#[test]
fn rw007_segments_that_older_versions_of_glibc_refuse() {
    let bench = Bench::new();
    let plain = bench.module(POINTERS, &[]);
    let table = u64::from_le_bytes(plain[32..40].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes(plain[56..58].try_into().unwrap()));
    let last = (0..count).rfind(|index| plain[table + index * 56] == 1).unwrap();
    let mut module = plain.clone();
    // Congruent for pages of 4 KiB only, as patchelf 0.18 left segments.
    module[table + last * 56 + 48..table + last * 56 + 56].copy_from_slice(&0x10000_u64.to_le_bytes());
    assert_eq!(loaded(&bench, "x.so", &module), "");
    assert_eq!(bench.found(&[with_tag("manylinux_2_35_x86_64", &module)]), NONE);
    let finding = bench.one(&[with_tag("manylinux_2_28_x86_64", &module)], "");
    assert_eq!((finding.code.text(), finding.names), ("RW007", vec!["PT_LOAD".to_owned()]));
}

#[test]
fn rw034_entry_points_that_installers_refuse_or_that_lead_nowhere() {
    let bench = Bench::new();
    let wheel = |points: &str| {
        pack("demo-1.0", "py3-none-any")
            .with("demo/__init__.py", "")
            .with("demo/cli.py", "def main(): pass\n")
            .with("demo/part/x.py", "")
            .with("demo-1.0.dist-info/entry_points.txt", points)
    };
    for (points, found) in [
        ("[console_scripts]\ntool = demo.cli:main\n", &[][..]),
        ("[console_scripts]\ntool = demo.part:main\n[other.group]\nx = any text at all\n", &[]),
        ("[console_scripts]\ntool = demo\n", &["RW034 error"]),
        ("[gui_scripts]\ntool = demo.cli:\n", &["RW034 error"]),
        ("tool = demo.cli:main\n", &["RW034 error"]),
        ("[console_scripts]\ntool = demo.missing:main\n", &["RW034 warning"]),
        ("[demo.plugins]\ntool = nowhere\n", &["RW034 warning"]),
    ] {
        assert_eq!(bench.found(&[wheel(points)]), found, "{points}");
    }
    let elsewhere = wheel("[console_scripts]\ntool = other.cli:main\n").requiring("other");
    assert_eq!(bench.found(std::slice::from_ref(&elsewhere)), ["RW034 note"]);
    let other = |file: &str| pack("other-1.0", "py3-none-any").with(file, "").beside();
    assert_eq!(
        bench
            .found(&[elsewhere.clone(), other("other/cli.py")])
            .iter()
            .filter(|found| found.starts_with("RW034"))
            .count(),
        0
    );
    assert!(bench.found(&[elsewhere, other("other/__init__.py")]).contains(&"RW034 warning".to_owned()));
}

#[test]
fn rw035_metadata_that_the_index_or_an_installer_refuses() {
    let bench = Bench::new();
    let wheel = |lines: &[&str]| {
        let mut wheel = pack("demo-1.0", "py3-none-any").with("demo/__init__.py", "");
        wheel.metadata.extend(lines.iter().map(|line| (*line).to_owned()));
        wheel
    };
    for (lines, found) in [
        (&["Requires-Python: >=3.8", "Project-URL: Home, https://x.org"][..], &[][..]),
        (&["Requires-Python: >=3.8.*"], &["RW035 warning"]),
        (&["Requires-Python: 3.8"], &["RW035 error"]),
        (&["Classifier: Nonsense", "Classifier: More :: Nonsense"], &["RW035 warning"]),
        (&["Dynamic: Version", "License-Expression: MIT"], &["RW035 warning", "RW035 warning"]),
        (&["no field", "Summary: x"], &["RW035 warning"]),
    ] {
        assert_eq!(bench.found(&[wheel(lines)]), found, "{lines:?}");
    }
    // Since 2.4 the texts of licences have a folder.
    let mut licensed = wheel(&["License-File: LICENSE", "License-File: vendor/NOTICE"]);
    licensed.encoding = |text| text.replace("Metadata-Version: 2.1", "Metadata-Version: 2.4").into_bytes();
    let whole = licensed
        .with("demo-1.0.dist-info/licenses/LICENSE", "text")
        .with("demo-1.0.dist-info/licenses/vendor/NOTICE", "text");
    assert_eq!(bench.found(std::slice::from_ref(&whole)), NONE);
    let mut lacking = whole;
    lacking.files.retain(|(name, _)| !name.ends_with("NOTICE"));
    let finding = bench.one(&[lacking], "");
    assert_eq!((finding.subject.as_str(), finding.names), ("License-File", vec!["vendor/NOTICE".to_owned()]));
}

#[test]
fn rw010_modules_whose_suffix_is_of_another_system() {
    let bench = Bench::new();
    let module = bench.module("", &[]);
    // No C library, so that the file fits both.
    let bare = bench.library("_m.so", "void *PyInit__m(void) { return 0; }", &["-nostdlib"]);
    let wheel = |tag: &str, name: &str, bytes: &[u8]| pack("demo-1.0", tag).with(&format!("demo/{name}"), bytes);
    let (gnu, musl) = ("_m.cpython-312-x86_64-linux-gnu.so", "_m.cpython-312-x86_64-linux-musl.so");
    for (tag, name, found) in [
        ("cp312-cp312-manylinux_2_34_x86_64", gnu, &[][..]),
        ("cp312-cp312-manylinux_2_34_x86_64", musl, &["RW010 error"]),
        ("cp312-cp312-manylinux_2_34_x86_64", "_m.cpython-312-aarch64-linux-gnu.so", &["RW010 error"]),
        ("cp312-cp312-musllinux_1_2_x86_64", musl, &[]),
        ("cp312-cp312-musllinux_1_2_x86_64", gnu, &["RW010 error"]),
        ("cp312-cp312-musllinux_1_2_x86_64", "_m.so", &[]),
        // Before Python 3.11 the suffix was the same for both.
        ("cp310-cp310-musllinux_1_2_x86_64", "_m.cpython-310-x86_64-linux-gnu.so", &[]),
        ("cp312-cp312-macosx_11_0_x86_64", gnu, &[]),
    ] {
        let bytes = if tag.contains("many") { &module } else { &bare };
        assert_eq!(bench.found(&[wheel(tag, name, bytes)]), found, "{tag} {name}");
    }
    let both = wheel("cp312-cp312-manylinux_2_34_x86_64", gnu, &module).with(&format!("demo/{musl}"), &bare);
    assert_eq!(bench.found(&[both]), NONE);
    let finding = bench.one(&[wheel("cp312-cp312-manylinux_2_34_x86_64", musl, &module)], "");
    assert!(finding.message.contains("named for x86_64-linux-musl"), "{finding:?}");
    assert!(finding.message.contains("`x86_64-linux-gnu`"), "{finding:?}");
}

#[test]
fn rw010_the_stable_abi_is_for_pythons_with_the_lock() {
    let bench = Bench::new();
    let module = bench.module("", &[]);
    for (tag, found) in [("cp312-abi3", &[][..]), ("cp314-cp314t", &["RW010 error"]), ("cp311-cp311", &["RW010 note"])]
    {
        let wheel = pack("demo-1.0", &format!("{tag}-manylinux_2_34_x86_64")).with("demo/_m.abi3.so", &module);
        assert_eq!(bench.found(&[wheel]), found, "{tag}");
    }
}

/// As pyg_lib_rocm, whose search path leads to the libraries of ROCm's compiler.
#[test]
fn rw012_a_library_that_the_search_path_expects_in_a_package_of_rocm() {
    let bench = Bench::new();
    bench.library("libomp.so", "int omp(void) { return 1; }", &["-Wl,-soname,libomp.so"]);
    let path = "-Wl,-rpath,$ORIGIN/../_rocm_sdk_core/lib/llvm/lib";
    let wheel = demo().with(MODULE, bench.module("", &["-l:libomp.so", path])).with("demo/a.py", "import rocm_sdk");
    let finding = bench.one(std::slice::from_ref(&wheel), "RW012 error");
    assert!(finding.message.contains("which the search path expects in `_rocm_sdk_core`"), "{finding:?}");
    assert_eq!(bench.found(&[wheel.requiring("rocm")]), ["RW025 note"]);
    let elsewhere = demo().with(MODULE, bench.module("", &["-l:libomp.so", "-Wl,-rpath,$ORIGIN/../other/lib"]));
    assert_eq!(bench.found(&[elsewhere]), ["RW001 error"]);
}

#[test]
fn rw004_a_chain_of_links_that_became_copies() {
    let bench = Bench::new();
    let library = bench.library("libx.so.1", "int x(void) { return 1; }", &["-Wl,-soname,libx.so.1"]);
    let other = bench.library("libx.so.1", "int x(void) { return 2; }", &["-Wl,-soname,libx.so.1"]);
    let wheel = |name: &str, bytes: &[u8]| demo().with("demo/libx.so.1", &library).with(name, bytes);
    for (name, bytes, found) in [
        ("demo/libx.so", &library, &["RW004 note"][..]),
        ("demo/libx.so", &other, &[]),
        ("demo/second/libx.so", &library, &[]),
        ("demo/libcopy.so", &library, &[]),
    ] {
        assert_eq!(bench.found(&[wheel(name, bytes)]), found, "{name}");
    }
}

#[test]
fn rw016_bytes_that_are_not_of_the_archive() {
    let bench = Bench::new();
    for (ahead, behind, expected) in [
        ("", "", None),
        ("", "\0\0\0\0", None),
        ("", "garbage", Some("7 bytes behind the archive")),
        ("#!/bin/sh\n", "", Some("10 bytes in front of the archive")),
    ] {
        let mut wheel = pack("demo-1.0", "py3-none-any").with("demo/__init__.py", "");
        wheel.around = (ahead, behind);
        let report = bench.audit(&[wheel], &Options::default());
        let found = report.findings.first().map(|finding| (finding.code.text(), finding.message.clone()));
        let message = |place: &str| ("RW016", format!("the file has {place}, and uv and PyPI refuse it"));
        assert_eq!(found, expected.map(message), "{ahead} {behind}");
    }
}

#[test]
fn rw033_programs_that_nobody_may_start() {
    let bench = Bench::new();
    let program = bench.program("int main(void) { return 0; }", &[]);
    let wheel = |name: &str, mode: u32| {
        let mut wheel = demo().with(name, &program);
        wheel.mode = mode;
        wheel
    };
    for (name, mode, found) in [
        ("demo/bin/tool", 0o755, &[][..]),
        ("demo/bin/tool", 0o644, &["RW033 warning"]),
        ("demo-1.0.data/scripts/tool", 0o755, &[]),
        ("demo-1.0.data/scripts/tool", 0o644, &["RW033 warning"]),
    ] {
        assert_eq!(bench.found(&[wheel(name, mode)]), found, "{name} {mode:o}");
    }
    let mut windows = pack("demo-1.0", "py3-none-win_amd64").with("demo-1.0.data/scripts/tool.py", "#!python\n");
    windows.mode = 0o644;
    assert_eq!(bench.found(&[windows]), &[] as &[&str], "Windows has no such permission");
}
