//! Differences between two wheels, libraries, archives and sets that are found, and those that are
//! not.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::path::{Path, PathBuf};

use rocwheel_diff::{Change, ChangeKind, ComparisonReport, Deviations, FailOn, Kept, Request};
use rocwheel_fixtures::gpu::{Gpu, Link, TranslationUnit};
use rocwheel_fixtures::{TestWheel, tool};
use rocwheel_progress::{Failure, Silent};
use tempfile::TempDir;

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, bytes).unwrap();
        path
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        tool(self.0.path(), program, arguments);
    }

    /// Writes a wheel into the folder that its path begins with.
    fn wheel(&self, path: &str, members: &[(&str, &str)]) -> PathBuf {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        TestWheel::new(name).files(members.iter().copied()).write(&self.path(folder))
    }

    fn compare(&self, old: &Path, new: &Path) -> ComparisonReport {
        self.try_compare(old, new).unwrap()
    }

    fn try_compare(&self, old: &Path, new: &Path) -> Result<ComparisonReport, Failure> {
        let scratch = self.path("scratch");
        fs_err::create_dir_all(&scratch).unwrap();
        let request = Request { old: old.to_owned(), new: new.to_owned(), scratch: scratch.clone() };
        let report = rocwheel_diff::compare(&request, &Silent);
        assert_eq!(fs_err::read_dir(&scratch).unwrap().count(), 0, "something is left");
        report
    }
}

/// The text of METADATA.
fn metadata(name: &str, version: &str, more: &str) -> String {
    format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}")
}

/// Returns `kind file: what` for every change.
fn lines(report: &ComparisonReport) -> Vec<String> {
    let line = |(_, file, change): (_, Option<&rocwheel_diff::FileReport>, &Change)| {
        let path = file.map(|file| file.path.as_str()).unwrap_or_default();
        format!("{} {path}: {change}", change.kind)
    };
    report.changes().map(line).collect()
}

fn kinds(report: &ComparisonReport) -> Vec<ChangeKind> {
    report.changes().map(|(_, _, change)| change.kind).collect()
}

fn notes(report: &ComparisonReport) -> Vec<String> {
    let files = report.packages.iter().flat_map(|package| &package.files);
    files
        .filter(|file| file.kept == Kept::Meaning)
        .map(|file| format!("{}: {}", file.path, file.notes.join("; ")))
        .collect()
}

#[test]
fn wheels_packed_by_two_tools_are_the_same_bytes() {
    let place = Place::new();
    let wheel = TestWheel::new("pkg-1.0-py3-none-any.whl").file("pkg/__init__.py", "x = 1\n".repeat(500));
    let wheel = wheel.file("pkg/data.bin", (0..=255).collect::<Vec<u8>>().repeat(40));
    let old = wheel.clone().level(1).write(&place.path("old"));
    let new = wheel.level(9).write(&place.path("new"));
    let report = place.compare(&old, &new);
    assert!(report.is_equal() && report.packages[0].files.is_empty(), "{report:#?}");
    assert_eq!(report.same(), 5);
}

#[test]
fn what_means_the_same_is_told_from_what_differs() {
    let place = Place::new();
    let old = place.wheel(
        "old/pkg-1.0-py3-none-any.whl",
        &[
            ("pkg/a.json", "{\"a\": 1, \"b\": 2}"),
            ("pkg/t.txt", "a\nb\n"),
            ("pkg/gone.txt", "gone"),
            ("pkg/here.txt", "same text"),
            ("INFO/METADATA", &metadata("pkg", "1.0", "Requires-Dist: a (>=1)\nRequires-Dist: b==1\n")),
            ("INFO/entry_points.txt", "[console_scripts]\na = pkg:a\nb = pkg:b\n"),
        ],
    );
    let new = place.wheel(
        "new/pkg-1.1-py3-none-any.whl",
        &[
            ("pkg/a.json", "{\"b\":2,\"a\":1}"),
            ("pkg/t.txt", "a\nc\nd\n"),
            ("pkg/new.txt", "new one"),
            ("pkg/sub/there.txt", "same text"),
            ("INFO/METADATA", &metadata("pkg", "1.1", "Requires-Dist: b==2\nRequires-Dist: a>=1\n")),
            ("INFO/entry_points.txt", "[console_scripts]\nb = pkg:c\n"),
        ],
    );
    let report = place.compare(&old, &new);
    let expected = [
        "content pkg/t.txt: +2 −1 lines",
        "entry-point pkg-1.1.dist-info/entry_points.txt: console_scripts: b: pkg:b → pkg:c",
        "lost-entry-point pkg-1.1.dist-info/entry_points.txt: console_scripts: a",
        "lost-file pkg/gone.txt: ",
        "moved-file pkg/sub/there.txt: pkg/here.txt → pkg/sub/there.txt",
        "new-file pkg/new.txt: ",
        "requirement pkg-1.1.dist-info/METADATA: b: b==1 → b==2",
        "version : 1.0 → 1.1",
    ];
    let mut found = lines(&report);
    found.sort();
    assert_eq!(found, expected, "{report:#?}");
    let same = notes(&report);
    assert_eq!(same.len(), 2, "{same:?}");
    assert!(same[0].contains("RECORD: its rows follow the files"), "{same:?}");
    assert!(same[1].contains("pkg/a.json: the same JSON"), "{same:?}");
}

/// A set of two packages of one night; the second pins the first.
fn night(place: &Place, version: &str, data: &str) -> PathBuf {
    let folder = format!("{version}{data}");
    for (name, path, text, more) in [
        ("a", "a/_version.py", format!("VERSION = \"{version}\"\n"), format!("\nThis is {version}.\n")),
        ("b", "b/names.json", format!("{{\"wheel\": \"a-{version}\"}}"), format!("Requires-Dist: a=={version}\n")),
    ] {
        let metadata = metadata(name, version, &more);
        let mut members = vec![(path, &*text), ("INFO/METADATA", &*metadata)];
        if name == "a" {
            members.insert(1, ("a/data.txt", data));
        }
        place.wheel(&format!("{folder}/{name}-{version}-py3-none-any.whl"), &members);
    }
    place.path(&folder)
}

#[test]
fn a_night_that_only_has_another_version_is_told_from_one_with_changes() {
    let place = Place::new();
    let old = night(&place, "5.2.3", "same");
    let report = place.compare(&old, &night(&place, "5.2.4a20261128", "same"));
    assert!(report.differs_only_in_version(), "{report:#?}");
    let expected = [
        "version : 5.2.3 → 5.2.4a20261128",
        "version-text a-5.2.4a20261128.dist-info/METADATA: description",
        "version-text a/_version.py: ",
        "version : 5.2.3 → 5.2.4a20261128",
        "version-text b-5.2.4a20261128.dist-info/METADATA: a: a==5.2.3 → a==5.2.4a20261128",
        "version-text b/names.json: ",
    ];
    assert_eq!(lines(&report), expected);
    let fail_on = FailOn::parse("any-but-version").unwrap();
    assert_eq!(fail_on.failures(&report), 0);
    let changed = place.compare(&old, &night(&place, "5.2.4a20261128", "other"));
    assert!(!changed.differs_only_in_version(), "{changed:#?}");
    assert_eq!(fail_on.failures(&changed), 1);
    assert!(!place.compare(&old, &old).differs_only_in_version());
}

#[test]
fn two_wheels_are_compared_under_any_file_names() {
    let place = Place::new();
    for (name, file) in [("pkg-1.0-py3-none-any.whl", "old.whl"), ("pkg-1.1-py3-none-any.whl", "new (1).whl")] {
        let wheel = place.wheel(&format!("named/{name}"), &[("pkg/__init__.py", "x = 1\n")]);
        fs_err::rename(wheel, place.path(file)).unwrap();
    }
    let report = place.compare(&place.path("old.whl"), &place.path("new (1).whl"));
    assert_eq!(lines(&report), ["version : 1.0 → 1.1"], "{report:#?}");
    let garbage = place.write("garbage.whl", "no archive");
    assert!(place.try_compare(&garbage, &garbage).unwrap_err().find::<rocwheel_wheel::Error>().is_some());
}

/// Compiles a library with gcc; `options` are appended to the command line.
fn library(place: &Place, name: &str, source: &str, options: &[&str]) -> PathBuf {
    place.write("source.c", source);
    let path = place.path(name);
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    let mut arguments = vec!["-shared", "-fPIC", "-g", "-o", path.to_str().unwrap(), "source.c"];
    arguments.extend(options);
    place.run("gcc", &arguments);
    path
}

const SOURCE: &str = "int one(void) { return 1; }\nint two(void) { return 2; }\n";

#[test]
fn libraries_are_compared_by_what_the_loader_reads() {
    let place = Place::new();
    let base = ["-Wl,-soname,liba.so.1", "-Wl,-rpath,/opt/rocm/lib", "-Wl,--build-id=0x01"];
    let with =
        |name: &str, source: &str, options: &[&str]| library(&place, name, source, &[&base[..], options].concat());
    let old = with("old/liba.so", SOURCE, &[]);
    let compare = |new: &Path| place.compare(&old, new);

    let built_again = with("again/liba.so", SOURCE, &["-Wl,--build-id=0x02"]);
    let report = compare(&built_again);
    assert!(report.is_equal() && notes(&report)[0].contains("other .note.gnu.build-id"), "{report:#?}");

    let stripped = with("stripped/liba.so", SOURCE, &["-s"]);
    let report = compare(&stripped);
    assert!(report.is_equal() && notes(&report)[0].contains(".debug_info"), "{report:#?}");

    // The same library after an edit: its strings and headers are at other positions.
    let edited = place.path("edited/liba.so");
    fs_err::create_dir_all(edited.parent().unwrap()).unwrap();
    fs_err::copy(&old, &edited).unwrap();
    let search_path = rocwheel_elf::SearchPath::Set(vec!["$ORIGIN/../a/longer/path/than/there/was".to_owned()]);
    rocwheel_elf::edit_file(
        &edited,
        &rocwheel_elf::Edit { search_path: Some(search_path), ..rocwheel_elf::Edit::default() },
    )
    .unwrap();
    let report = compare(&edited);
    assert_eq!(kinds(&report), [ChangeKind::SearchPath], "{report:#?}");

    // patchelf adds a section in front of others, so the section indices of the symbols change.
    let mut numbered = fs_err::read(&edited).unwrap();
    let header = rocwheel_elf::Elf::read(&numbered).unwrap().unwrap();
    let table = header.sections.iter().find(|section| section.name == ".dynsym").unwrap();
    let table = usize::try_from(table.offset).unwrap()..usize::try_from(table.offset + table.size).unwrap();
    let mut changed = 0;
    for entry in numbered[table].chunks_exact_mut(24).filter(|entry| entry[6] != 0) {
        entry[6] += 1;
        changed += 1;
    }
    assert_eq!(changed, 2, "the two functions");
    let report = compare(&place.write("numbered/liba.so", &numbered));
    assert_eq!(kinds(&report), [ChangeKind::SearchPath, ChangeKind::Mode], "{report:#?}");

    let needs = with("needs/liba.so", SOURCE, &["-Wl,--no-as-needed", "-lm"]);
    let report = compare(&needs);
    assert!(lines(&report).contains(&"new-needed liba.so: libm.so.6".to_owned()), "{report:#?}");

    let lost = with("lost/liba.so", "int one(void) { return 1; }\nint three(void) { return 3; }\n", &[]);
    let found = lines(&compare(&lost));
    for expected in ["lost-symbol liba.so: two", "new-symbol liba.so: three"] {
        assert!(found.contains(&expected.to_owned()), "{found:?}");
    }
    assert!(found.iter().any(|line| line.starts_with("code liba.so: ")), "{found:?}");

    // The report names all symbols, however many there are.
    let many: String = (0..20).map(|n| format!("int more_{n}(void) {{ return {n}; }}\n")).collect();
    let report = compare(&with("many/liba.so", &format!("{SOURCE}{many}"), &[]));
    let mut names: Vec<String> = (0..20).map(|n| format!("more_{n}")).collect();
    names.sort();
    assert!(lines(&report).contains(&format!("new-symbol liba.so: {}", names.join(", "))), "{report:#?}");

    let other_code = with("code/liba.so", "int one(void) { return 7; }\nint two(void) { return 2; }\n", &[]);
    assert_eq!(lines(&compare(&other_code)), ["code liba.so: .text"], "the section has the size it had");
    let more_code = with(
        "more/liba.so",
        "static int f[64] = {1};\nint one(void) { return f[two()]; }\nint two(void) { return 2; }\n"
            .replace("static", "int two(void);\nstatic")
            .as_str(),
        &[],
    );
    let report = compare(&more_code);
    let code = report.changes().find(|(_, _, change)| change.kind == ChangeKind::Code).unwrap().2;
    let number = |text: &Option<String>| text.as_ref().unwrap().replace(" bytes", "").parse::<u64>().unwrap();
    let size = fs_err::metadata(&old).unwrap().len();
    assert!(number(&code.old) < number(&code.new) && number(&code.new) < size / 2, "sizes of the sections: {code:?}");

    let soname =
        library(&place, "soname/liba.so", SOURCE, &["-Wl,-soname,liba.so.2", base[1], base[2], "-z", "execstack"]);
    let found = kinds(&compare(&soname));
    assert!(found.contains(&ChangeKind::Soname) && found.contains(&ChangeKind::ExecutableStack), "{found:?}");
}

#[test]
fn a_broken_file_is_compared_by_its_bytes_and_said_to_be_broken() {
    let place = Place::new();
    let old = library(&place, "old/liba.so", SOURCE, &[]);
    let bytes = fs_err::read(&old).unwrap();
    let new = place.write("new/liba.so", &bytes[..200]);
    let report = place.compare(&old, &new);
    assert_eq!(kinds(&report), [ChangeKind::Content, ChangeKind::Unreadable, ChangeKind::Mode], "{report:#?}");
}

#[test]
fn archives_are_compared_by_their_members() {
    let place = Place::new();
    place.write("one.c", "int one;\n");
    place.write("two.c", "int two;\n");
    place.run("gcc", &["-c", "one.c", "two.c"]);
    for (folder, modifier) in [("old", "rcsD"), ("new", "rcsU")] {
        fs_err::create_dir(place.path(folder)).unwrap();
        place.run("ar", &[modifier, &format!("{folder}/libx.a"), "one.o", "two.o"]);
    }
    let tar = |name: &str, options: &[&str]| {
        let mut arguments = vec!["-cf", name];
        arguments.extend(options);
        place.run("tar", &arguments);
    };
    place.write("tree/b.txt", "two");
    place.write("tree/a.txt", "one");
    place.run("ln", &["-s", "a.txt", "tree/link"]);
    tar("old/inner.tar.gz", &["-z", "--mtime=@1", "tree/a.txt", "tree/b.txt", "tree/link"]);
    tar("new/inner.tar.gz", &["-z", "--mtime=@2", "tree/link", "tree/b.txt", "tree/a.txt"]);
    let (old, new) = (place.path("old"), place.path("new"));
    let report = place.compare(&old, &new);
    assert!(report.is_equal(), "{report:#?}");
    assert_eq!(notes(&report).len(), 2, "{report:#?}");

    place.write("tree/b.txt", "three");
    place.run("ln", &["-sf", "b.txt", "tree/link"]);
    tar("new/inner.tar.gz", &["-z", "tree"]);
    let report = place.compare(&old, &new);
    let expected = ["content inner.tar.gz:tree/b.txt: +1 −1 lines", "link inner.tar.gz:tree/link: a.txt → b.txt"];
    assert_eq!(lines(&report), expected, "{report:#?}");

    let cut = fs_err::read(place.path("new/inner.tar.gz")).unwrap();
    place.write("new/inner.tar.gz", &cut[..cut.len() / 2]);
    let report = place.compare(&old, &new);
    assert_eq!(kinds(&report), [ChangeKind::Content, ChangeKind::Unreadable], "{report:#?}");

    // A sparse file in the PAX format has other bytes in the archive than on disk.
    fs_err::File::create(place.path("tree/b.txt")).unwrap().file().set_len(1 << 20).unwrap();
    tar("new/inner.tar.gz", &["-z", "--sparse", "--format=posix", "tree/b.txt"]);
    let report = place.compare(&old, &new);
    assert_eq!(kinds(&report), [ChangeKind::Content, ChangeKind::Unreadable], "{report:#?}");
    assert!(lines(&report)[1].contains("`tree/b.txt` is a sparse file in the PAX format"), "{report:#?}");
}

#[test]
fn libraries_with_versions_in_their_names_belong_together() {
    let place = Place::new();
    library(&place, "old/lib/liba.so.1.2", SOURCE, &["-Wl,-soname,liba.so.1"]);
    place.run("ln", &["-s", "liba.so.1.2", "old/lib/liba.so.1"]);
    library(&place, "new/lib/liba.so.1.3", SOURCE, &["-Wl,-soname,liba.so.1"]);
    place.run("ln", &["-s", "liba.so.1.3", "new/lib/liba.so.1"]);
    let report = place.compare(&place.path("old"), &place.path("new"));
    let expected = [
        "link lib/liba.so.1: liba.so.1.2 → liba.so.1.3",
        "renamed-file lib/liba.so.1.3: lib/liba.so.1.2 → lib/liba.so.1.3",
    ];
    assert_eq!(lines(&report), expected, "{report:#?}");
}

#[test]
fn what_the_loader_does_with_the_same_code_is_part_of_it() {
    let place = Place::new();
    let base = ["-Wl,-soname,liba.so.1", "-Wl,--build-id=none"];
    let with = |name: &str, options: &[&str]| library(&place, name, SOURCE, &[&base[..], options].concat());
    let old = with("old/liba.so", &["-Wl,-z,lazy"]);
    // All sections have the same bytes; only a flag of the dynamic section, a permission or the
    // entry point differs.
    let bytes = fs_err::read(&old).unwrap();
    let changed = |name: &str, at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        assert_ne!(bytes[at], byte);
        bytes[at] = byte;
        let path = place.write(&format!("{name}/liba.so"), bytes);
        place.run("chmod", &["755", path.to_str().unwrap()]);
        path
    };
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (segments, size) = (word(32), 56);
    let first =
        |kind: u8| (0..usize::from(bytes[56])).map(|index| segments + index * size).find(|at| bytes[*at] == kind);
    let load = first(1).unwrap();
    let dynamic = word(first(2).unwrap() + 8);
    // DT_INIT (12) becomes an unknown tag.
    let init = (dynamic..).step_by(16).find(|at| word(*at) == 12).unwrap();
    for (name, at, byte) in [("entry", 24, 0x55), ("permission", load + 4, 7), ("dynamic", init, 0x55)] {
        let report = place.compare(&old, &changed(name, at, byte));
        assert_eq!(kinds(&report), [ChangeKind::Code], "{name}: {report:#?}");
    }
}

#[test]
fn libraries_for_windows_are_not_the_same_for_their_gpu_code_alone() {
    let (gpu, place) = (Gpu::new(), Place::new());
    let old = gpu.build_windows("old.dll", &["gfx942"], &[]);
    let mut bytes = fs_err::read(&old).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let new = place.write("new/old.dll", &bytes);
    assert_eq!(kinds(&place.compare(&old, &new)), [ChangeKind::Content, ChangeKind::Mode]);
    let name = b"amdhip64.dll";
    let at = bytes.windows(name.len()).position(|window| window.eq_ignore_ascii_case(name)).unwrap();
    bytes[at + 7] = b'5';
    let new = place.write("other/old.dll", bytes);
    let found = kinds(&place.compare(&old, &new));
    assert!([ChangeKind::LostNeeded, ChangeKind::NewNeeded].iter().all(|kind| found.contains(kind)), "{found:?}");
    let (text, other) = (place.write("a/MZ.txt", "MZ one"), place.write("b/MZ.txt", "MZ two"));
    assert_eq!(kinds(&place.compare(&text, &other)), [ChangeKind::Content]);
}

#[test]
fn gpu_code_is_compared_by_target() {
    let (gpu, place) = (Gpu::new(), Place::new());
    let build = |name: &str, targets: &[&str], compile: &[&str]| {
        let units = [TranslationUnit { source: "first", targets }];
        gpu.build(&Link { name, units: &units, compile, link: &["-shared", "-fuse-ld=lld-19"] })
    };
    let old = build("old.so", &["gfx90a", "gfx942"], &["-fuse-cuid=none"]);
    let compressed = build("compressed.so", &["gfx90a", "gfx942"], &["-fuse-cuid=none", "--offload-compress"]);
    let report = place.compare(&old, &compressed);
    let other: Vec<ChangeKind> = kinds(&report).into_iter().filter(|kind| *kind != ChangeKind::Code).collect();
    assert_eq!(other, [], "{report:#?}");
    assert!(report.packages[0].files[0].notes.iter().any(|note| note.contains("the same code objects")), "{report:#?}");

    let fewer = build("fewer.so", &["gfx942", "gfx1100"], &["-fuse-cuid=none"]);
    let report = place.compare(&old, &fewer);
    let found = kinds(&report);
    assert!(found.contains(&ChangeKind::LostTarget) && found.contains(&ChangeKind::NewTarget), "{report:#?}");
    assert!(!found.contains(&ChangeKind::GpuCode), "{report:#?}");
    let targets: Vec<&String> = report.packages[0].targets.keys().collect();
    assert_eq!(targets, ["gfx1100", "gfx90a", "gfx942"]);

    let optimised = build("optimised.so", &["gfx90a", "gfx942"], &["-O3", "-DUNUSED", "-mcode-object-version=6"]);
    assert!(kinds(&place.compare(&old, &optimised)).contains(&ChangeKind::GpuCode));
}

#[test]
fn sets_are_paired_by_distribution() {
    let place = Place::new();
    place.wheel("old/a-1.0-py3-none-any.whl", &[("a.py", "a")]);
    place.wheel("old/b-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", &[("b.py", "b")]);
    place.wheel("old/b-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", &[("b.py", "b")]);
    place.wheel("new/a-2.0-py3-none-any.whl", &[("a.py", "a")]);
    place.wheel("new/b-2.0-cp311-cp311-manylinux_2_17_x86_64.whl", &[("b.py", "b")]);
    place.wheel("new/b-2.0-cp312-cp312-linux_x86_64.whl", &[("b.py", "B")]);
    place.wheel("new/c-2.0-py3-none-any.whl", &[("c.py", "c")]);
    place.write("new/SHA256SUMS", "sums");
    let (old, new) = (place.path("old"), place.path("new"));
    let report = place.compare(&old, &new);
    let names: Vec<&str> = report.packages.iter().map(|package| package.name.as_str()).collect();
    assert_eq!(names, ["", "a", "b cp311-cp311-linux", "b cp312-cp312-linux", "c"]);
    let found: Vec<String> = report.packages[2].changes.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["1.0 → 2.0", "cp311-cp311-manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_17_x86_64"]);
    assert!(report.packages[2].files.iter().all(|file| file.kept == Kept::Meaning), "{report:#?}");
    assert_eq!(report.packages[4].changes, [Change { accepted: None, ..report.packages[4].changes[0].clone() }]);
    assert_eq!(report.packages[4].changes[0].kind, ChangeKind::NewPackage);

    // A set for two GPU families has this layout.
    for (folder, text) in [("gfx942", "x"), ("gfx1100", "y")] {
        place.wheel(&format!("families/{folder}/d-1.0-py3-none-any.whl"), &[("d.py", text)]);
        place.run("python3", &["-c", &format!("import tarfile; tarfile.open('families/{folder}/d-1.0.tar.gz', 'w:gz').add('new/SHA256SUMS', 'd-1.0/{text}')")]);
    }
    let families = place.path("families");
    let report = place.compare(&families, &families);
    assert!(report.is_equal(), "{report:#?}");
    let names: Vec<&str> = report.packages.iter().map(|package| package.name.as_str()).collect();
    let expected =
        ["d (sdist) in gfx1100", "d (sdist) in gfx942", "d py3-none-any in gfx1100", "d py3-none-any in gfx942"];
    assert_eq!(names, expected);

    place.wheel("new/a-3.0-py3-none-any.whl", &[("a.py", "a")]);
    let error = place.try_compare(&old, &new).unwrap_err().to_string();
    let [first, second] = ["a-2.0", "a-3.0"].map(|name| place.path(&format!("new/{name}-py3-none-any.whl")));
    let both = format!("`{}` and `{}` are both `", first.display(), second.display());
    assert!(error.starts_with(&both), "{error}");
}

#[test]
fn deviations_accept_and_unused_ones_are_known() {
    let place = Place::new();
    let old = place.wheel("old/pkg-1.0-py3-none-any.whl", &[("pkg/a.txt", "a"), ("pkg/b.txt", "b")]);
    let new = place.wheel("new/pkg-1.0-py3-none-any.whl", &[("pkg/a.txt", "other"), ("pkg/c.txt", &"c".repeat(9000))]);
    let mut report = place.compare(&old, &new);
    let path = place.write(
        "deviations.toml",
        "schema = 1\n[[deviation]]\nchange = 'content'\npackage = 'pk?'\npath = 'pkg/*.txt'\nreason = 'newer'\n\
         [[deviation]]\nchange = 'lost-needed'\nreason = 'never'\n",
    );
    let accepted = Deviations::read(&path).unwrap().accept(&mut report);
    assert_eq!(accepted.iter().map(|row| row.count).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(FailOn::any().failures(&report), 2, "{report:#?}");
    assert_eq!(FailOn::parse("content,mode").unwrap().failures(&report), 0);

    let fail_on = FailOn::parse("growth=1%").unwrap();
    fail_on.measure(&mut report);
    assert_eq!(fail_on.failures(&report), 1);

    // The written file accepts everything, once the reasons are filled in.
    let all = place.write("all.toml", report.as_deviations());
    assert!(Deviations::read(&all).unwrap_err().to_string().starts_with("deviation 1 in `"));
    let all = place.write("all.toml", report.as_deviations().replace("reason = \"\"", "reason = \"seen\""));
    let mut again = place.compare(&old, &new);
    fail_on.measure(&mut again);
    let accepted = Deviations::read(&all).unwrap().accept(&mut again);
    assert!(accepted.iter().all(|row| row.count == 1), "{accepted:?}");
    assert_eq!(again.unaccepted(), 1, "what the other file accepts is not in it");
}

#[test]
fn what_is_written_down_fits_the_next_build_too() {
    let place = Place::new();
    let wheel = |version: &str, text: &str| {
        let metadata = metadata("pkg", version, &format!("Requires-Dist: core=={version}\n"));
        place.wheel(
            &format!("{version}/pkg-{version}-py3-none-any.whl"),
            &[("pkg/a.txt", text), ("INFO/METADATA", &metadata)],
        )
    };
    let (old, new, next) = (wheel("1.0", "a\n"), wheel("1.1", "b\n"), wheel("1.2", "c\nd\ne\n"));
    let text = place.compare(&old, &new).as_deviations();
    assert!(text.contains("pkg-*.dist-info/METADATA") && !text.contains("lines"), "{text}");
    let all = place.write("all.toml", text.replace("reason = \"\"", "reason = \"seen\""));
    let mut again = place.compare(&old, &next);
    Deviations::read(&all).unwrap().accept(&mut again);
    assert_eq!(again.unaccepted(), 0, "{:?}", lines(&again));
}

#[test]
fn an_empty_folder_has_lost_nothing() {
    let place = Place::new();
    fs_err::create_dir(place.path("empty")).unwrap();
    let wheel = place.wheel("pkg-1.0-py3-none-any.whl", &[("pkg/a.txt", "a")]);
    assert_eq!(kinds(&place.compare(&place.path("empty"), &wheel)), [ChangeKind::NewPackage]);
    assert_eq!(kinds(&place.compare(&wheel, &place.path("empty"))), [ChangeKind::LostPackage]);
    let nothing = place.try_compare(&place.path("empty"), &place.path("empty"));
    assert!(nothing.unwrap_err().to_string().contains("` have no files"));
}

#[test]
fn wrong_deviations_are_named() {
    let place = Place::new();
    let read = |text: &str| {
        let error = Deviations::read(&place.write("d.toml", text)).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        format!("{error}: {source}")
    };
    assert!(read("schema = 2").contains("schema 2"));
    assert!(read("schema = 1\n[[deviation]]\nchange = 'mode'\nreason = ' '\n").contains("deviation 1"));
    assert!(read("schema = 1\n[[deviation]]\nchange = 'mode'\npath = 'a[b'\nreason = 'x'\n").contains("wrong glob"));
    assert!(read("schema = 1\n[[deviation]]\nchange = 'needed-new'\nreason = 'x'\n").contains("new-needed"));
    assert!(read("schema = 1\n[[deviation]]\nchange = 'mode'\nreson = 'x'\n").contains("reson"));
}

#[test]
fn sides_that_cannot_be_read_are_errors() {
    let place = Place::new();
    let good = place.wheel("good/pkg-1.0-py3-none-any.whl", &[("a.py", "a")]);
    let missing = place.try_compare(&good, &place.path("missing")).unwrap_err();
    assert!(missing.to_string().contains("missing"), "{missing}");
    let bytes = fs_err::read(&good).unwrap();
    let cut = place.write("cut/pkg-1.0-py3-none-any.whl", &bytes[..bytes.len() - 30]);
    assert!(place.try_compare(&cut, &good).unwrap_err().find::<rocwheel_wheel::Error>().is_some());
    place.run("mkfifo", &["fifo"]);
    let fifo = place.try_compare(&good, &place.path("fifo")).unwrap_err();
    assert!(fifo.to_string().ends_with("` is neither a file nor a folder"), "{fifo}");
    assert_eq!(bytes, fs_err::read(&good).unwrap());
}
