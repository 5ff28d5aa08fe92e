//! Results of the reader for files that are built in a known way.

use std::sync::atomic::{AtomicU64, Ordering};

use positioned_io::ReadAt;
use rocwheel_elf::{Edit, Elf, ElfKind, Error, SearchPath, is_pe};

use crate::editing::read;
use crate::fixtures::{Try, Workshop, readelf};

fn rpath(entry: &str) -> Edit {
    Edit { search_path: Some(SearchPath::Set(vec![entry.to_owned()])), ..Edit::default() }
}

#[test]
fn kinds_are_told_apart() {
    let workshop = Workshop::new();
    workshop.write("first_static.c", "int first(void) { return 15; }\n");
    let object = workshop.path("object.o");
    workshop.tool("gcc", &["-c", "-o", "object.o", "answer.c"]);
    let kinds: [(&str, &[&str], ElfKind); 5] = [
        ("kind.so", &["-shared", "-fPIC"], ElfKind::SharedLibrary),
        ("kind-pie", &["-pie", "-fPIE"], ElfKind::Executable),
        ("kind-no-pie", &["-no-pie"], ElfKind::Executable),
        ("kind-static", &["-static", "first_static.c"], ElfKind::StaticExecutable),
        ("kind-static-pie", &["-static-pie", "-fPIE", "first_static.c"], ElfKind::StaticExecutable),
    ];
    for (name, arguments, kind) in kinds {
        let file = workshop.build(name, &[arguments, &["-g"]].concat());
        assert_eq!(read(&file).kind, kind, "{name}");
        let debug = format!("{name}.debug");
        workshop.tool("objcopy", &["--only-keep-debug", name, &debug]);
        let debug = workshop.path(&debug);
        let found = read(&debug);
        assert_eq!((found.kind, found.build_id), (ElfKind::DebugOnly, read(&file).build_id), "{name}");
        let error = rpath("/x").plan(&fs_err::read(&debug).unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot edit a separate debug file: only executables and shared libraries have a search path and needed libraries"
        );
    }
    assert_eq!(read(&object).kind, ElfKind::Relocatable);
    assert!(matches!(rpath("/x").plan(&fs_err::read(&object).unwrap()), Err(Error::NotLinked { .. })));
    assert!(read(&workshop.path("kind-pie")).interpreter.is_some_and(|name| name.contains("ld-linux")));
}

/// Older versions of patchelf wrote string tables that end behind the last byte of their segment.
/// The kernel maps whole pages, so the loader finds the names.
#[test]
fn tables_may_end_in_the_last_page_of_their_segment() {
    // The end of the strings, and the strings with the dynamic section in front of them.
    for shorter in [18, 0x200] {
        tables_behind_the_segment(shorter);
    }
}

fn tables_behind_the_segment(shorter: u64) {
    let workshop = Workshop::new();
    let file = workshop.build("table.so", &["-shared", "-fPIC", "-Wl,-rpath,/old"]);
    rocwheel_elf::edit_file(&file, &rpath("$ORIGIN/original:/a/path/that/needs/room/of/its/own")).unwrap();
    let whole = read(&file);
    let mut bytes = fs_err::read(&file).unwrap();
    let table = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
    let last = whole.segments.iter().rposition(|segment| segment.kind == 1).unwrap();
    let size = whole.segments[last].file_size - shorter;
    for field in [32, 40] {
        let at = table + last * 56 + field;
        bytes[at..at + 8].copy_from_slice(&size.to_le_bytes());
    }
    fs_err::write(&file, &bytes).unwrap();
    let cut = read(&file);
    assert_eq!((&cut.rpath, &cut.needed), (&whole.rpath, &whole.needed));
    assert_eq!(cut.segments[last].file_size, size);
    workshop.answer(&file, Try::Library, None).unwrap();
    // An edit that changes nothing leaves the file alone, and another one does not lose the names.
    let same = rpath("$ORIGIN/original:/a/path/that/needs/room/of/its/own");
    assert_eq!(rocwheel_elf::edit_file(&file, &same).unwrap(), rocwheel_elf::EditOutcome::Unchanged);
    assert_eq!(fs_err::read(&file).unwrap(), bytes);
    rocwheel_elf::edit_file(&file, &rpath("$ORIGIN/original:/another/path")).unwrap();
    assert_eq!(read(&file).needed, whole.needed);
    workshop.answer(&file, Try::Library, None).unwrap();
}

/// A count of program headers that does not fit the file header is in section 0.
#[test]
fn program_headers_are_counted_in_section_0() {
    let workshop = Workshop::new();
    let file = workshop.build("counted.so", &["-shared", "-fPIC"]);
    let (whole, mut bytes) = (read(&file), fs_err::read(&file).unwrap());
    let sections = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    bytes[56..58].copy_from_slice(&[0xff, 0xff]);
    let uncounted = Elf::read(&bytes).unwrap_err().to_string();
    assert!(uncounted.contains("65535 says that it is in section 0, which has none"), "{uncounted}");
    let mut bare = bytes.clone();
    bare[40..48].fill(0);
    assert_eq!(Elf::read(&bare).unwrap_err().to_string(), uncounted);
    bytes[sections + 44..sections + 48].copy_from_slice(&(whole.segments.len() as u32).to_le_bytes());
    fs_err::write(&file, &bytes).unwrap();
    assert_eq!(read(&file), whole);
    // Its only warning is that so few would fit the file header.
    let complaint = format!("readelf: Warning: [ 0]: Unexpected value ({}) in info field.\n", whole.segments.len());
    let (said, complaints) = readelf(&file);
    assert!(said.contains(&format!("There are {} program headers", whole.segments.len())), "{said}");
    assert_eq!(complaints, complaint);
    let edited = workshop.path("edited.so");
    fs_err::copy(&file, &edited).unwrap();
    rocwheel_elf::edit_file(&edited, &rpath("/a/path/that/needs/room/of/its/own")).unwrap();
    assert_eq!(read(&edited).rpath.as_deref(), Some("/a/path/that/needs/room/of/its/own"));
    let (said, complaints) = readelf(&edited);
    assert!(said.contains("/a/path/that/needs/room/of/its/own"), "{said}");
    assert_eq!(complaints, complaint);
}

#[test]
fn headers_agree_with_readelf() {
    let workshop = Workshop::new();
    workshop
        .write("answer.map", "ANSWER_1.0 { global: answer; }; ANSWER_2.0 { global: chosen; local: *; } ANSWER_1.0;\n");
    let arguments = [
        "-shared",
        "-fPIC",
        "-Wl,--version-script,answer.map",
        "-Wl,-soname,libanswer.so.3",
        "-Wl,-rpath,/a:/b",
        "-Wl,-z,x86-64-v3",
    ];
    let file = workshop.build("whole.so", &arguments);
    let found = read(&file);
    assert_eq!((found.machine, found.is_64, found.isa_needed), (62, true, Some(4)));
    assert_eq!(found.soname.as_deref(), Some("libanswer.so.3"));
    assert_eq!(found.search_path(), Some("/a:/b"));
    assert_eq!(found.needed, ["libfirst.so", "libsecond.so", "libc.so.6", "ld-linux-x86-64.so.2"]);
    assert_eq!(found.version_definitions, ["ANSWER_1.0", "ANSWER_2.0"]);
    assert_eq!(found.version_needs[0].versions, ["FIRST_1.0"]);
    let (said, _) = readelf(&file);
    let hexadecimal: String = found.build_id.unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(said.contains(&format!("Build ID: {hexadecimal}")));
    for section in &found.sections {
        let line = format!("{:016x} {:06x} {:06x}", section.address, section.offset, section.size);
        assert!(said.lines().any(|said| said.contains(&section.name) && said.contains(&line)), "{section:?}");
    }
}

#[test]
fn other_machines_are_read_and_not_edited() {
    let workshop = Workshop::new();
    let file = workshop.build("machine.so", &["-shared", "-fPIC"]);
    let mut bytes = fs_err::read(&file).unwrap();
    for (machine, name) in [(224, "AMD GPU code"), (183, "AArch64")] {
        bytes[18] = machine;
        assert_eq!(Elf::read(&bytes).unwrap().unwrap().machine, u16::from(machine));
        let error = rpath("/x").plan(&bytes).unwrap_err();
        let wanted =
            format!("cannot edit an ELF file for machine {machine} ({name}): only 64-bit x86-64 files are edited");
        assert_eq!(error.to_string(), wanted);
    }
    workshop.tool("gcc", &["-m32", "-c", "-o", "narrow.o", "first.c"]);
    let narrow = read(&workshop.path("narrow.o"));
    assert_eq!((narrow.machine, narrow.is_64, narrow.kind), (3, false, ElfKind::Relocatable));
    assert!(narrow.sections.iter().any(|section| section.name == ".text" && section.size > 0));
}

#[test]
fn what_is_not_elf_is_none() {
    for bytes in [&b""[..], b"\x7fEL", b"!<arch>\n", b"#!/bin/sh\nexit 0\n"] {
        assert_eq!(Elf::read(&bytes.to_vec()).unwrap(), None);
        assert!(!is_pe(&bytes.to_vec()).unwrap());
        assert!(matches!(rpath("/x").plan(&bytes.to_vec()), Err(Error::NotElf)));
    }
    assert!(matches!(Elf::read(&b"\x7fELF\x02\x01".to_vec()), Err(Error::Truncated { .. })));
}

struct Counting {
    file: fs_err::File,
    bytes: AtomicU64,
}

impl ReadAt for Counting {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.file().read_at(position, buffer)?;
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Reading or editing a library of 64 MB takes some kilobytes.
#[test]
fn only_headers_are_read() {
    let workshop = Workshop::new();
    workshop.write("large.c", "char large[64 << 20] = {1};\n");
    let file = workshop.build("large.so", &["-shared", "-fPIC", "large.c"]);
    let reader = Counting { file: fs_err::File::open(file).unwrap(), bytes: AtomicU64::new(0) };
    assert!(Elf::read(&reader).unwrap().is_some());
    let read = reader.bytes.swap(0, Ordering::Relaxed);
    let patch = rpath("/some/where").plan(&reader).unwrap();
    let planned = reader.bytes.into_inner();
    assert!(read < 16 << 10 && planned < 48 << 10, "{read} and {planned} bytes");
    assert!(patch.original_size > 64 << 20 && patch.size - patch.original_size < 4096);
}
