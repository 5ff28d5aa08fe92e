//! Every kind of file is edited, read back, checked by readelf, loaded and called, stripped,
//! loaded, edited again and loaded again.

use std::path::{Path, PathBuf};

use rocwheel_elf::{Edit, EditOutcome, Elf, NeededEdit, SearchPath, StackFlag, edit_file};

use crate::fixtures::{Try, Workshop, forget_sections, readelf};

/// Returns an edit of everything. Afterwards the file finds its libraries in `deps/` only.
fn first_edit() -> Edit {
    Edit {
        search_path: Some(SearchPath::Set(vec!["$ORIGIN/deps".to_owned()])),
        soname: Some("libedited-with-a-long-name.so.9".to_owned()),
        needed: vec![
            NeededEdit::Replace { from: "libfirst.so".to_owned(), to: "librenamed.so.1".to_owned() },
            NeededEdit::Add("libadded.so".to_owned()),
        ],
        ..Edit::default()
    }
}

fn second_edit() -> Edit {
    let added = vec!["$ORIGIN/deps".to_owned(), "/nowhere/of/importance".to_owned()];
    Edit {
        search_path: Some(SearchPath::Add(added)),
        needed: vec![NeededEdit::Remove("libadded.so".to_owned())],
        ..Edit::default()
    }
}

pub(crate) fn read(file: &Path) -> Elf {
    Elf::read(&fs_err::read(file).unwrap()).unwrap().unwrap()
}

struct Case<'a> {
    workshop: &'a Workshop,
    file: PathBuf,
    how: Try,
    /// The warnings of readelf before any edit.
    complaints: String,
    /// Bytes by which the first edit may make the file grow.
    growth: u64,
}

impl Case<'_> {
    fn edit(file: &Path, edit: &Edit) {
        let outcome = edit_file(file, edit).unwrap_or_else(|error| panic!("{}: {error:?}", file.display()));
        assert_eq!(outcome, EditOutcome::Changed, "{}", file.display());
        assert_eq!(edit_file(file, edit).unwrap(), EditOutcome::Unchanged, "{}: the same edit again", file.display());
    }

    fn check(&self, file: &Path, path: &str, needed: &[&str]) {
        let found = read(file);
        assert_eq!((found.rpath.as_deref(), found.runpath.as_deref()), (Some(path), None));
        assert_eq!(found.soname.as_deref(), Some("libedited-with-a-long-name.so.9"));
        let ours: Vec<_> =
            found.needed.iter().map(String::as_str).filter(|name| !name.starts_with("libc.so")).collect();
        for name in needed {
            assert!(ours.contains(name), "{name} in {ours:?}");
        }
        assert!(!ours.contains(&"libfirst.so"));
        assert!(
            found.version_needs.iter().any(|need| need.library == "librenamed.so.1" && need.versions == ["FIRST_1.0"])
        );
        let (said, complaints) = readelf(file);
        assert_eq!(complaints, self.complaints, "{}", file.display());
        let quoted = |tag: &str, label: &str, value: &str| {
            let mut lines = said.lines().filter(|line| line.contains(tag));
            assert!(lines.any(|line| line.ends_with(&format!("{label}: [{value}]"))), "{tag} {value} in {said}");
        };
        quoted("(RPATH)", "Library rpath", path);
        quoted("(SONAME)", "Library soname", "libedited-with-a-long-name.so.9");
        found.needed.iter().for_each(|name| quoted("(NEEDED)", "Shared library", name));
        let loads: Vec<_> = found.segments.iter().filter(|segment| segment.kind == 1).collect();
        assert!(loads.windows(2).all(|pair| pair[0].address + pair[0].memory_size <= pair[1].address), "{loads:?}");
    }

    fn answers(&self, file: &Path, when: &str) {
        if let Err(error) = self.workshop.answer(file, self.how, None) {
            panic!("{} {when}: {error}", file.display());
        }
    }

    fn copy(&self, suffix: &str) -> PathBuf {
        let copy = self.file.with_extension(suffix);
        fs_err::copy(&self.file, &copy).unwrap();
        copy
    }

    /// Goes through the whole life of an edited file. `strips`: the tools that rewrite it in
    /// between.
    fn live(&self, strips: &[&[&str]]) {
        let before = fs_err::metadata(&self.file).unwrap().len();
        Self::edit(&self.file, &first_edit());
        let needed = ["librenamed.so.1", "libsecond.so", "libadded.so"];
        self.check(&self.file, "$ORIGIN/deps", &needed);
        self.answers(&self.file, "after the edit");
        let once = fs_err::metadata(&self.file).unwrap().len();
        assert!(once - before < self.growth, "{} grew from {before} to {once}", self.file.display());

        let again = self.copy("again");
        Self::edit(&again, &second_edit());
        let path = "$ORIGIN/deps:/nowhere/of/importance";
        self.check(&again, path, &needed[..2]);
        self.answers(&again, "after the second edit");
        let twice = fs_err::metadata(&again).unwrap().len();
        assert!(twice - once < 256, "{} grew from {once} to {twice}", again.display());

        for (number, tool) in strips.iter().enumerate() {
            let stripped = self.copy(&format!("strip{number}"));
            let mut arguments = tool[1..].to_vec();
            arguments.push(stripped.to_str().unwrap());
            self.workshop.tool(tool[0], &arguments);
            self.check(&stripped, "$ORIGIN/deps", &needed);
            self.answers(&stripped, &format!("after {tool:?}"));
            Self::edit(&stripped, &second_edit());
            self.check(&stripped, path, &needed[..2]);
            self.answers(&stripped, &format!("after {tool:?} and another edit"));
            self.workshop.tool(tool[0], &arguments);
            self.check(&stripped, path, &needed[..2]);
            self.answers(&stripped, &format!("after {tool:?}, another edit and {tool:?}"));
        }
    }
}

const STRIPS: [&[&str]; 3] = [&["strip"], &["strip", "-g"], &["objcopy"]];

fn live(workshop: &Workshop, name: &str, how: Try, arguments: &[&str], strips: &[&[&str]]) {
    let file = workshop.build(name, arguments);
    live_file(workshop, file, how, strips, 8192);
}

fn live_file(workshop: &Workshop, file: PathBuf, how: Try, strips: &[&[&str]], growth: u64) {
    workshop.answer(&file, how, Some("original")).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let complaints = readelf(&file).1;
    Case { workshop, file, how, complaints, growth }.live(strips);
}

/// Tests every layout of one linker, as a library and as a program.
fn linker(linker: &str, relr: Option<&str>) {
    let workshop = Workshop::new();
    let with = format!("-fuse-ld={linker}");
    workshop
        .write("answer.map", "ANSWER_1.0 { global: answer; }; ANSWER_2.0 { global: chosen; local: *; } ANSWER_1.0;\n");
    let many: Vec<String> = (0..30).map(|number| format!("-lmany{number}")).collect();
    for number in 0..30 {
        for place in ["original", "deps"] {
            let name = format!("libmany{number}.so");
            let copy = workshop.path(&format!("{place}/{name}"));
            fs_err::copy(workshop.path("deps/libadded.so"), &copy).unwrap();
            edit_file(&copy, &Edit { soname: Some(name), ..Edit::default() }).unwrap();
        }
    }
    let mut many_arguments = vec!["-Loriginal", "-Wl,--no-as-needed"];
    many_arguments.extend(many.iter().map(String::as_str));
    let without_notes = ["-Wl,--build-id=none", "-fcf-protection=none"];
    let mut libraries: Vec<(&str, Vec<&str>)> = vec![
        ("plain", vec![]),
        ("debug", vec!["-g3"]),
        ("optimised", vec!["-O2", "-Wl,-O1,--gc-sections", "-ffunction-sections"]),
        ("stripped", vec!["-s"]),
        ("hash-sysv", vec!["-Wl,--hash-style=sysv"]),
        ("hash-gnu", vec!["-Wl,--hash-style=gnu"]),
        ("hash-both", vec!["-Wl,--hash-style=both"]),
        ("versions", vec!["-Wl,--version-script,answer.map"]),
        ("no-notes", without_notes.to_vec()),
        ("no-notes-sysv", [&without_notes[..], &["-Wl,--hash-style=sysv"]].concat()),
        ("now", vec!["-Wl,-z,relro,-z,now"]),
        ("no-relro", vec!["-Wl,-z,norelro"]),
        ("large-pages", vec!["-Wl,-z,max-page-size=0x200000"]),
        ("runpath", vec!["-Wl,-rpath,/old/path", "-Wl,--enable-new-dtags", "-Wl,-soname,libold.so"]),
        ("rpath", vec!["-Wl,-rpath,$ORIGIN/deps:/x", "-Wl,--disable-new-dtags"]),
        ("many", many_arguments),
        ("cpp", vec!["C++", "-O1"]),
    ];
    if linker != "gold" {
        libraries.push(("one-segment", vec!["-Wl,-z,noseparate-code"]));
    }
    for (name, mut arguments) in libraries {
        arguments.extend(["-shared", "-fPIC", with.as_str()]);
        live(&workshop, &format!("lib-{name}.so"), Try::Library, &arguments, &STRIPS);
    }
    let mut programs =
        vec![("pie", vec!["-pie", "-fPIE"]), ("no-pie", vec!["-no-pie", "-fno-pie"]), ("rdynamic", vec!["-rdynamic"])];
    if let Some(relr) = relr {
        programs.push(("pie-relr", vec!["-pie", "-fPIE", relr]));
        live(&workshop, "lib-relr.so", Try::Library, &["-shared", "-fPIC", &with, relr], &STRIPS);
    }
    for (name, mut arguments) in programs {
        arguments.push(with.as_str());
        live(&workshop, name, Try::Program, &arguments, &STRIPS);
        let file = workshop.build(&format!("{name}-headless"), &arguments);
        forget_sections(&file);
        live_file(&workshop, file, Try::Program, &[], 8192);
    }
    for (name, arguments) in [("headless", &[][..]), ("headless-no-notes", &without_notes[..])] {
        let arguments = [&["-shared", "-fPIC", with.as_str()], arguments].concat();
        let file = workshop.build(&format!("lib-{name}.so"), &arguments);
        forget_sections(&file);
        live_file(&workshop, file, Try::Library, &[], 8192);
    }
    for (name, arguments) in [("static", ["-static", "-no-pie"]), ("static-pie", ["-static-pie", "-fPIE"])] {
        if (linker, name) == ("gold", "static-pie") {
            continue; // gold makes none
        }
        workshop.write("first_static.c", "int first(void) { return 15; }\n");
        let file = workshop.build(name, &[&arguments[..], &["first_static.c", with.as_str()]].concat());
        let before = fs_err::read(&file).unwrap();
        assert_eq!(edit_file(&file, &first_edit()).unwrap(), EditOutcome::NotDynamic, "{name}");
        assert_eq!(fs_err::read(&file).unwrap(), before, "{name}");
        workshop.answer(&file, Try::Program, None).unwrap();
    }
}

#[test]
fn files_of_the_gnu_linker() {
    linker("bfd", Some("-Wl,-z,pack-relative-relocs"));
}

#[test]
fn files_of_gold() {
    linker("gold", None);
}

#[test]
fn files_of_lld() {
    // Debian 12's lld packs relative relocations without the symbol version that glibc 2.36
    // requires for them.
    linker("lld", None);
}

/// Something that cannot move is right behind the program header table, so the table itself moves.
#[test]
fn tables_without_room() {
    let workshop = Workshop::new();
    workshop.write("fixed.c", "const char fixed[300] __attribute__((section(\".fixed\"), aligned(1))) = {1};\n");
    // Without the notes in front, the sections that can move are shorter than a program header.
    let script = "SECTIONS { /DISCARD/ : { *(.note.ABI-tag) *(.note.gnu.property) } .fixed : { KEEP(*(.fixed)) } }";
    workshop.write("fixed.ld", &format!("{script} INSERT BEFORE .gnu.hash;\n"));
    let common = ["fixed.c", "-Wl,--build-id=none", "-fcf-protection=none", "-Wa,-mx86-used-note=no"];
    let kinds: [(&str, Try, &[&str]); 3] = [
        ("fixed.so", Try::Library, &["-shared", "-fPIC", "-Wl,-T,fixed.ld"]),
        ("fixed-pie", Try::Program, &["-pie", "-fPIE", "-Wl,-T,fixed.ld"]),
        ("fixed-no-pie", Try::Program, &["-no-pie", "-fno-pie", "-Wl,-T,fixed.ld"]),
    ];
    for (name, how, arguments) in kinds {
        let file = workshop.build(name, &[arguments, &common].concat());
        let table = |file: &Path| fs_err::read(file).unwrap()[0x20..0x28].to_vec();
        let before = table(&file);
        // A program's table must have the same offset as its address, behind 400 kB of zeroed
        // memory.
        let growth = if how == Try::Program { 420 << 10 } else { 8192 };
        live_file(&workshop, file.clone(), how, &[], growth);
        assert_ne!(table(&file), before, "{name}: the table did not move");
    }
}

/// BOLT rewrites a program into new segments and moves its program header table.
#[test]
fn files_of_bolt() {
    let workshop = Workshop::new();
    let kinds: [(&str, Try, &[&str]); 3] = [
        ("bolt.so", Try::Library, &["-shared", "-fPIC"]),
        ("bolt-pie", Try::Program, &["-pie", "-fPIE"]),
        ("bolt-no-pie", Try::Program, &["-no-pie", "-fno-pie"]),
    ];
    for (name, how, arguments) in kinds {
        let plain = format!("plain-{name}");
        workshop.build(&plain, &[arguments, &["-O1", "-Wl,--emit-relocs", "-DWITHOUT_IFUNC"]].concat());
        workshop.tool("llvm-bolt-19", &[&plain, "-o", name, "-reorder-blocks=ext-tsp", "-split-functions"]);
        live_file(&workshop, workshop.path(name), how, &[], 8192);
    }
}

/// A nested function whose address is taken: GCC writes code for it to the stack and runs it there.
const NESTED: &str = "
int first(void);
int apply(int (*called)(int), int value);
int apply(int (*called)(int), int value) { return called(value); }
int answer(void) {
    int base = first();
    int inner(int value) { return base + value; }
    return apply(inner, 27);
}
";

#[test]
fn the_stack_flag_goes_where_nothing_needs_it() {
    let workshop = Workshop::new();
    workshop.write("nested.c", NESTED);
    let flag = |file: &Path| readelf(file).0.lines().find(|line| line.contains("GNU_STACK")).unwrap().to_owned();
    let clear = Edit { stack: StackFlag::Clear, ..Edit::default() };
    let library = workshop.build("libflagged.so", &["-shared", "-fPIC", "-Wl,-z,execstack"]);
    assert!(flag(&library).contains(" RWE "));
    let before = fs_err::read(&library).unwrap();
    // Alone and together with other edits, the same one bit of the file changes.
    let together = workshop.path("libtogether.so");
    fs_err::copy(&library, &together).unwrap();
    assert_eq!(edit_file(&library, &clear).unwrap(), EditOutcome::Changed);
    let after = fs_err::read(&library).unwrap();
    let differing: Vec<u8> =
        before.iter().zip(&after).filter(|(one, other)| one != other).map(|(_, other)| *other).collect();
    assert_eq!((before.len(), differing), (after.len(), vec![6]));
    assert_eq!(edit_file(&library, &clear).unwrap(), EditOutcome::Unchanged);
    workshop.answer(&library, Try::Library, Some("original")).unwrap();
    edit_file(&together, &Edit { stack: StackFlag::Clear, ..first_edit() }).unwrap();
    assert!(!flag(&together).contains('E') && read(&together).soname.is_some());
    workshop.answer(&together, Try::Library, None).unwrap();
    // Programs are started with the stack that they request.
    let program = workshop.build("flagged", &["-Wl,-z,execstack"]);
    assert_eq!(edit_file(&program, &clear).unwrap(), EditOutcome::Unchanged);

    for level in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
        let name = format!("libnested{level}.so");
        let arguments = ["-shared", "-fPIC", "-w", level, "-o", name.as_str(), "nested.c", "-Loriginal", "-lfirst"];
        workshop.tool("gcc", &arguments);
        let nested = workshop.path(&name);
        let found = read(&nested);
        assert!(found.wants_executable_stack(), "{level}");
        assert!(found.runs_code_on_stack(&fs_err::read(&nested).unwrap()).unwrap(), "{level}");
        assert_eq!(edit_file(&nested, &clear).unwrap(), EditOutcome::Unchanged, "{level}");
    }
}
