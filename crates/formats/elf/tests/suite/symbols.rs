//! Compares dynamic symbols with `readelf`, and the results of lookups with the loader.

use std::path::Path;

use rocwheel_elf::{DynamicSymbols, Lookup, NameHash, visit_symbols};

use crate::fixtures::{Workshop, forget_sections};
use crate::oracle::{our_symbols, readelf_symbols};

const MAP: &str =
    "ANSWER_1.0 { global: answer; }; ANSWER_2.0 { global: chosen; texts; thread_local_value; local: *; } ANSWER_1.0;\n";

fn symbols(file: &Path) -> DynamicSymbols {
    DynamicSymbols::read(fs_err::File::open(file).unwrap().file()).unwrap()
}

#[test]
fn symbols_agree_with_readelf_with_and_without_section_headers() {
    let workshop = Workshop::new();
    workshop.write("answer.map", MAP);
    workshop.write("needs.c", "extern int first(void); extern int weak(void) __attribute__((weak)); __attribute__((constructor)) static void f(void) { if (weak) weak(); first(); }\n");
    let versioned = ["-shared", "-fPIC", "-Wl,--version-script,answer.map"];
    let mut files = vec![
        workshop.build("versioned.so", &versioned),
        workshop.build("gnu.so", &["-shared", "-fPIC", "-Wl,--hash-style=gnu"]),
        workshop.build("both.so", &["-shared", "-fPIC", "-fuse-ld=lld", "-Wl,--hash-style=both"]),
        workshop.build("gold.so", &["-shared", "-fPIC", "-fuse-ld=gold", "-O2", "-Wl,-O2", "-Wl,--hash-style=sysv"]),
        workshop.build("cpp.so", &["C++", "-shared", "-fPIC"]),
        workshop.build("program", &["-pie", "-fPIE", "-rdynamic"]),
    ];
    // Nothing is exported, so the hash table counts no symbol.
    for (linker, style) in [("bfd", "gnu"), ("lld", "gnu"), ("lld", "sysv")] {
        let name = format!("needs-{linker}-{style}.so");
        let (linker, style) = (format!("-fuse-ld={linker}"), format!("-Wl,--hash-style={style}"));
        let rest = ["-shared", "-fPIC", "-nostdlib", "needs.c", "-Loriginal", "-lfirst"];
        workshop.tool("gcc", &[&["-o", &name, &linker, &style][..], &rest].concat());
        files.push(workshop.path(&name));
    }
    for file in &files {
        let (name, expected) = (file.display(), readelf_symbols(file));
        assert!(expected.len() >= 2, "{name}: {expected:?}");
        assert_eq!(our_symbols(file).unwrap(), expected, "{name}");
        forget_sections(file);
        assert_eq!(our_symbols(file).unwrap(), expected, "{name} without section headers");
    }
}

#[test]
fn needed_symbols_have_names_versions_and_libraries() {
    let workshop = Workshop::new();
    workshop.write("answer.map", MAP);
    let file = workshop.build("needs.so", &["-shared", "-fPIC", "-Wl,--version-script,answer.map"]);
    let found = symbols(&file);
    let first = found.undefined().find(|symbol| symbol.name == "first").unwrap();
    assert_eq!((first.version, first.library, first.weak), (Some("FIRST_1.0"), Some("libfirst.so"), false));
    assert!(found.undefined().any(|symbol| symbol.name == "__cxa_finalize" && symbol.weak));
    let library = symbols(&workshop.path("original/libfirst.so"));
    assert_eq!(library.find(first.hash, first.version), Lookup::Found);
    assert_eq!(library.find(first.hash, Some("FIRST_2.0")), Lookup::OtherVersion);
    assert_eq!(library.find(NameHash::of("second"), None), Lookup::Missing);
    assert_eq!(
        symbols(&workshop.path("original/libsecond.so")).find(NameHash::of("other"), Some("ANY")),
        Lookup::Found
    );
    // A symbol that a file needs itself is not offered.
    assert_eq!(found.find(first.hash, None), Lookup::Missing);
    assert_eq!(found.find(NameHash::of("chosen"), Some("ANSWER_2.0")), Lookup::Found);
    assert_eq!(found.find(NameHash::of("zeros"), None), Lookup::Missing, "a local symbol");
}

/// Libraries have `value` in several versions, and files need it: the lookup must find what the
/// loader finds.
#[test]
fn versions_are_found_as_the_loader_finds_them() {
    let workshop = Workshop::new();
    let folder = |name: &str| fs_err::create_dir(workshop.path(name)).unwrap();
    let libraries: [(&str, &str, &str); 7] = [
        ("bare", "int value(void) { return 1; }", ""),
        ("plain", "#include <stdlib.h>\nint value(void) { return getenv(\"PATH\") ? 1 : 1; }", ""),
        ("default1", "int value(void) { return 1; }", "V1 { global: value; local: *; };"),
        (
            "default2",
            "int base(void) { return 1; } int value(void) { return 1; }",
            "V1 { global: base; local: *; }; V2 { global: value; } V1;",
        ),
        (
            "hidden1",
            "int old(void) { return 1; } __asm__(\".symver old,value@V1\"); int base(void) { return 1; }",
            "V1 { global: base; value; local: *; };",
        ),
        (
            "hidden2",
            "int old(void) { return 1; } __asm__(\".symver old,value@V2\"); int base(void) { return 1; }",
            "V1 { global: base; local: *; }; V2 { } V1;",
        ),
        ("without", "int base(void) { return 1; }", "V1 { global: base; local: *; };"),
    ];
    for (name, source, map) in libraries {
        folder(name);
        workshop.write(&format!("{name}.c"), source);
        workshop.write(&format!("{name}.map"), map);
        let (source, output, script) =
            (format!("{name}.c"), format!("{name}/libvalue.so"), format!("-Wl,--version-script,{name}.map"));
        let mut arguments = vec!["-shared", "-fPIC", "-o", &output, &source, "-Wl,-soname,libvalue.so"];
        if !map.is_empty() {
            arguments.push(&script);
        }
        workshop.tool("gcc", &arguments);
    }
    workshop.write("asks.c", "extern int value(void); int answer(void) { return 41 + value(); }\n");
    let mut compared = Vec::new();
    for asks in ["plain", "default1", "default2"] {
        let (name, search) = (format!("asks-{asks}.so"), format!("-L{asks}"));
        workshop.tool("gcc", &["-shared", "-fPIC", "-o", &name, "asks.c", &search, "-lvalue"]);
        let needed = symbols(&workshop.path(&name));
        let value = needed.undefined().find(|symbol| symbol.name == "value").unwrap();
        for (library, ..) in libraries {
            let file = symbols(&workshop.path(&format!("{library}/libvalue.so")));
            assert_eq!(file.has_versions(), library != "bare");
            let found = file.find(value.hash, value.version);
            let loaded = workshop.answer(&workshop.path(&name), crate::fixtures::Try::Library, Some(library));
            // A version that a library defines nowhere is refused before any symbol is looked up.
            let refused = loaded.as_ref().is_err_and(|said| said.contains("version `"));
            let aborted = loaded.as_ref().is_err_and(|said| said.contains("check_match: Assertion"));
            assert_eq!(aborted, library == "bare" && value.version.is_some(), "{asks} with {library}: {loaded:?}");
            assert!(
                refused || aborted || loaded.is_ok() == (found == Lookup::Found),
                "{asks} with {library}: {found:?} {loaded:?}"
            );
            compared.push((asks, library, found));
        }
    }
    assert!(compared.contains(&("plain", "hidden1", Lookup::Found)), "{compared:?}");
    assert!(compared.contains(&("plain", "hidden2", Lookup::OtherVersion)), "{compared:?}");
    assert!(compared.contains(&("default1", "plain", Lookup::Found)), "{compared:?}");
    assert!(compared.contains(&("default1", "without", Lookup::Missing)), "{compared:?}");
}

#[test]
fn tables_that_lie_are_errors() {
    let workshop = Workshop::new();
    let file = workshop.build("lies.so", &["-shared", "-fPIC", "-Wl,--hash-style=sysv", "-Wl,-z,norelro"]);
    let section = |name: &str| {
        let elf = rocwheel_elf::Elf::read(fs_err::File::open(&file).unwrap().file()).unwrap().unwrap();
        elf.sections.into_iter().find(|section| section.name == name).unwrap()
    };
    let (hash, symbols, strings) = (section(".hash"), section(".dynsym"), section(".dynstr"));
    forget_sections(&file);
    let whole = fs_err::read(&file).unwrap();
    let with = |offset: u64, bytes: &[u8]| {
        let mut changed = whole.clone();
        changed[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        DynamicSymbols::read(&changed).map(|symbols| symbols.defined()).map_err(|error| error.to_string())
    };
    assert!(with(0, b"\x7fELF").unwrap() > 3);
    let many = with(hash.offset + 4, &u32::MAX.to_le_bytes()).unwrap_err();
    assert!(many.contains("4294967295 symbols do not fit"), "{many}");
    let name = with(symbols.offset + 24, &u32::MAX.to_le_bytes()).unwrap_err();
    assert!(name.contains("string 0xffffffff is not inside"), "{name}");
    let filled = vec![b'x'; strings.size as usize];
    assert!(with(strings.offset, &filled).unwrap_err().contains("string"));
    assert!(matches!(DynamicSymbols::read(&b"no ELF".to_vec()), Err(rocwheel_elf::Error::NotElf)));
}

/// Thousands of symbols whose names are tails of one string would cost the square of the file's
/// size.
#[test]
fn names_that_share_everything_are_refused() {
    let workshop = Workshop::new();
    let long = "y".repeat(200_000);
    workshop.write("long.s", &format!(".globl {long}\n{long}: .quad 1\n.set other, {long}\n.globl other\n"));
    workshop.write("many.s", &(0..2000).map(|n| format!(".globl f{n}\nf{n}: .quad {n}\n")).collect::<String>());
    workshop.tool("gcc", &["-shared", "-nostdlib", "-o", "long.so", "long.s", "many.s"]);
    let mut bytes = fs_err::read(workshop.path("long.so")).unwrap();
    let mut found = Vec::new();
    visit_symbols(&bytes, &mut |symbol| {
        found.push((symbol.index, symbol.name.len()));
        Ok(())
    })
    .unwrap();
    assert!(found.len() > 2000 && found.iter().any(|(_, length)| *length == 200_000));
    let elf = rocwheel_elf::Elf::read(&bytes).unwrap().unwrap();
    let table = elf.sections.iter().find(|section| section.name == ".dynsym").unwrap().offset as usize;
    let long = found.iter().find(|(_, length)| *length == 200_000).unwrap().0 as usize;
    let name = u32::from_le_bytes(bytes[table + long * 24..][..4].try_into().unwrap());
    for symbol in 1..found.len() {
        let tail = name + symbol as u32;
        bytes[table + symbol * 24..][..4].copy_from_slice(&tail.to_le_bytes());
    }
    let error = DynamicSymbols::read(&bytes).unwrap_err().to_string();
    assert!(error.contains("overlap"), "{error}");
}
