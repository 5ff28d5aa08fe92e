//! Edits of wheels and source distributions: Python reads the results, edits can be repeated and
//! reversed, bad input is reported and leaves nothing behind.

#[path = "../../../wheel/tests/forge/mod.rs"]
mod forge;
mod sdists;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forge::{NAME, forge, listing};
use proptest::prelude::*;
use rocwheel_archive::{FileDigest, WriteOptions};
use rocwheel_edit::{
    BuildEdit, EditPlacement, Edited, Error, ExtraEdit, FieldEdit, Pins, Plan, RequirementEdit, SearchPathEdit,
    TagEdit, VersionEdit, WheelEdit, execute, plan,
};
use rocwheel_fixtures::python;
use rocwheel_output::Destination;
use rocwheel_progress::Silent;
use rocwheel_wheel::MemberPattern;
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::requirement::WrittenRequirement;
use rocwheel_wheel::{Existing, TagPart};
use tempfile::TempDir;

const METADATA: &str = "Metadata-Version:  2.1\r\nName: Pkg\r\nVersion: 1.0\r\nSummary: one\r\n  two\r\n\
    Requires-Dist: pkg-core == 1.0 ; os_name == 'posix'\r\nRequires-Dist: numpy>=1; python_version < '3.12'\r\n\
    Requires-Dist: numpy>=1.2; python_version >= '3.12'\r\nProvides-Extra: Test_All\r\n\
    Requires-Dist: pytest; extra == \"Test_All\"\r\nRequires-Dist: pkg[Test_All]; extra == 'dev'\r\n\r\n# Pkg 1.0\r\n";

/// A wheel with a data folder, texts that contain the version, quotes in RECORD, and metadata with
/// CRLF line ends.
fn script() -> String {
    format!(
        r#"
from random import Random
blob = Random(1).randbytes(700000)
members = {{
    'pkg/__init__.py': b'from .version import version\n', 'pkg/version.py': b'version = "1.0"\nnot_it = "1.0.1"\n',
    'pkg/blob.bin': blob, 'pkg/a, "b".txt': b'1.0', 'pkg-1.0.data/scripts/tool': b'#!python\n',
    INFO + 'METADATA': {METADATA:?}.encode(), INFO + 'WHEEL':
    b'Wheel-Version: 1.0\nGenerator: forge\nRoot-Is-Purelib: true\nTag: py2-none-any\nTag: py3-none-any\n',
    INFO + 'licenses/LICENSE': b'as you like\n', INFO + 'RECORD.jws': b'{{}}',
}}
rows = io.StringIO()
out = csv.writer(rows, lineterminator='\r\n')
for name, data in members.items():
    put(name, data, 0o100755 if 'tool' in name else 0o100644)
    if not name.endswith('.jws'): out.writerow([name, good(data), len(data)])
put(INFO + 'RECORD', (rows.getvalue() + INFO + 'RECORD,,\r\n').encode())
"#
    )
}

/// The forged wheel is for one interpreter, this one for two.
fn wheel(folder: &TempDir) -> PathBuf {
    let forged = forge(folder.path(), &script());
    let path = folder.path().join("Pkg-1.0-py2.py3-none-any.whl");
    fs_err::rename(forged, &path).expect("rename");
    path
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("folder")
}

fn planned(input: &Path, edit: &WheelEdit) -> Result<Plan, Error> {
    let scratch = folder();
    let mut plans = plan(&[input.to_owned()], edit, scratch.path(), &Silent)?;
    Ok(plans.pop().expect("one plan"))
}

fn edited(input: &Path, edit: &WheelEdit, output: &Path) -> Result<(Plan, Edited), Error> {
    let plan = planned(input, edit)?;
    let place = EditPlacement {
        destination: Destination::Folder(output.to_owned()),
        existing: Existing::Refuse,
        scratch: std::env::temp_dir(),
    };
    let options = WriteOptions { digest: FileDigest::Skip, ..WriteOptions::default() };
    execute(&plan, &place, &options, &Silent).map(|edited| (plan, edited))
}

fn set(version: &str) -> WheelEdit {
    WheelEdit { version: Some(VersionEdit::set(version).expect("version")), ..WheelEdit::default() }
}

fn name(edited: &Edited) -> String {
    edited.path.file_name().expect("name").to_string_lossy().into_owned()
}

/// Packed bytes by name, read by Python.
fn packed(path: &Path) -> BTreeMap<String, String> {
    let script = "import hashlib, struct, sys, zipfile\n\
        data = open(sys.argv[1], 'rb').read()\n\
        for i in zipfile.ZipFile(sys.argv[1]).infolist():\n  \
          n, m = struct.unpack('<HH', data[i.header_offset + 26:i.header_offset + 30])\n  \
          at = i.header_offset + 30 + n + m\n  \
          print(hashlib.sha256(data[at:at + i.compress_size]).hexdigest(), i.external_attr, i.filename, sep='\t')";
    let lines = python(script, [path]);
    let split = |line: &str| {
        let (facts, name) = line.rsplit_once('\t').expect("columns");
        (name.to_owned(), facts.to_owned())
    };
    lines.lines().map(split).collect()
}

#[test]
fn everything_follows_the_version() {
    let (folder, output) = (folder(), tempfile::tempdir().expect("folder"));
    let input = wheel(&folder);
    let before = fs_err::read(&input).expect("read");
    let edit = WheelEdit {
        pins: Pins::Follow,
        also_in: vec![MemberPattern::parse("version.py").expect("pattern")],
        ..set("2.0+rocm7.0")
    };
    let (plan, edited) = edited(&input, &edit, output.path()).expect("edit");
    assert_eq!(name(&edited), "Pkg-2.0+rocm7.0-py2.py3-none-any.whl");
    let listing = listing(&edited.path);
    assert!(
        !listing.contains("pkg-1.0") && listing.contains("pkg-2.0+rocm7.0.data/scripts/tool 8 0o100755"),
        "{listing}"
    );
    let result = Wheel::open(&edited.path).expect("open");
    assert_eq!(result.verify().expect("verify"), []);
    let expected =
        METADATA.replace("Version: 1.0", "Version: 2.0+rocm7.0").replace("core == 1.0 ;", "core == 2.0+rocm7.0 ;");
    assert_eq!(result.metadata().expect("METADATA"), expected, "every other byte is as it was");
    assert_eq!(result.bytes("pkg/version.py").expect("bytes"), b"version = \"2.0+rocm7.0\"\nnot_it = \"1.0.1\"\n");
    let leftovers: Vec<_> = plan.leftovers.iter().map(|left| (left.member.as_str(), left.line)).collect();
    assert_eq!(leftovers, [("pkg/a, \"b\".txt", 1)]);
    assert_eq!(plan.notes, ["`pkg-1.0.dist-info/RECORD.jws` is dropped: it signs the RECORD that was"]);
    let (old, new) = (packed(&input), packed(&edited.path));
    for member in ["pkg/__init__.py", "pkg/blob.bin", "pkg/a, \"b\".txt"] {
        assert_eq!(old[member], new[member], "{member}");
    }
    assert!(fs_err::read(&input).expect("read") == before, "the input is untouched");
}

#[test]
fn done_again_it_changes_nothing_and_back_it_is_as_before() {
    let folders = [(); 5].map(|()| folder());
    let input = wheel(&folders[0]);
    let edit = WheelEdit {
        python_tags: Some(TagEdit::parse(TagPart::Python, "+cp312").expect("tag")),
        platform_tags: Some(TagEdit::parse(TagPart::Platform, "linux_x86_64").expect("tag")),
        build: Some(BuildEdit::parse("7").expect("build")),
        pins: Pins::Follow,
        also_in: vec![MemberPattern::parse("version.py").expect("pattern")],
        requirements: vec![RequirementEdit::Add(WrittenRequirement::parse("rocm>=7").expect("requirement"))],
        ..set("2.0")
    };
    let (_, once) = edited(&input, &edit, folders[1].path()).expect("edit");
    assert_eq!(name(&once), "Pkg-2.0-7-cp312.py2.py3-none-linux_x86_64.whl");
    let (plan, twice) = edited(&once.path, &edit, folders[2].path()).expect("again");
    assert!(!plan.changes_anything(), "{:?}", plan.changes);
    let read = |edited: &Edited| fs_err::read(&edited.path).expect("read");
    assert!(read(&once) == read(&twice));

    // An edit and its reverse turn the input into its normal form, which differs from it as little
    // as possible.
    let back = WheelEdit {
        python_tags: Some(TagEdit::parse(TagPart::Python, "-cp312").expect("tag")),
        platform_tags: Some(TagEdit::parse(TagPart::Platform, "any").expect("tag")),
        build: Some(BuildEdit::parse("").expect("build")),
        pins: Pins::Follow,
        also_in: edit.also_in.clone(),
        requirements: vec![RequirementEdit::Remove("ROCm".to_owned())],
        ..set("1.0")
    };
    let (_, back) = edited(&once.path, &back, folders[3].path()).expect("back");
    assert_eq!(name(&back), "Pkg-1.0-py2.py3-none-any.whl");
    let (old, new) = (Wheel::open(&input).expect("open"), Wheel::open(&back.path).expect("open"));
    assert_eq!(old.metadata().expect("text"), new.metadata().expect("text"));
    assert_eq!(old.wheel().expect("text"), new.wheel().expect("text"));
    let mut normal = packed(&input);
    normal.remove("pkg-1.0.dist-info/RECORD.jws").expect("signature");
    let mut after = packed(&back.path);
    // These were rewritten, so only their unpacked bytes are the same.
    for text in ["METADATA", "WHEEL", "RECORD"].map(|file| format!("pkg-1.0.dist-info/{file}")) {
        assert!(normal.remove(&text).is_some() && after.remove(&text).is_some());
    }
    assert_eq!(old.bytes("pkg/version.py").expect("bytes"), new.bytes("pkg/version.py").expect("bytes"));
    assert!(normal.remove("pkg/version.py").is_some() && after.remove("pkg/version.py").is_some());
    assert_eq!(normal, after);
    // From the normal form on, an edit and its reverse give the same file.
    let (_, there) = edited(&back.path, &edit, folders[4].path()).expect("there");
    assert!(read(&there) == read(&once));
}

#[test]
fn requirements_extras_and_fields_change_their_lines_only() {
    let (folder, output) = (folder(), tempfile::tempdir().expect("folder"));
    let input = wheel(&folder);
    let requirement = |text: &str| WrittenRequirement::parse(text).expect("requirement");
    let edit = WheelEdit {
        name: Some("Other.Pkg".to_owned()),
        requirements: vec![
            RequirementEdit::Remove("PKG.core".to_owned()),
            RequirementEdit::Remove("missing".to_owned()),
            RequirementEdit::Replace(requirement("numpy>=2")),
            RequirementEdit::Add(requirement("Pytest ; extra=='Test_All'")),
            RequirementEdit::Add(requirement("rocm>=7")),
        ],
        extras: vec![ExtraEdit::add("GPU:rocm[libraries]; os_name == 'posix'").expect("extra")],
        fields: vec![
            FieldEdit::parse("summary=short").expect("field"),
            FieldEdit::parse("Classifier+=Private :: Do Not Upload").expect("field"),
        ],
        ..WheelEdit::default()
    };
    let (plan, edited) = edited(&input, &edit, output.path()).expect("edit");
    assert_eq!(name(&edited), "other_pkg-1.0-py2.py3-none-any.whl");
    let result = Wheel::open(&edited.path).expect("open");
    assert_eq!(result.info(), "other_pkg-1.0.dist-info");
    assert_eq!(
        result.metadata().expect("METADATA"),
        "Metadata-Version:  2.1\r\nName: Other.Pkg\r\nVersion: 1.0\r\nSummary: short\r\n\
        Requires-Dist: numpy>=2; python_version < '3.12'\r\nRequires-Dist: numpy>=2; python_version >= '3.12'\r\n\
        Provides-Extra: Test_All\r\nProvides-Extra: gpu\r\nRequires-Dist: pytest; extra == \"Test_All\"\r\n\
        Requires-Dist: Other.Pkg[Test_All]; extra == 'dev'\r\nRequires-Dist: rocm>=7\r\n\
        Requires-Dist: rocm[libraries]; (os_name == 'posix') and extra == \"gpu\"\r\n\
        Classifier: Private :: Do Not Upload\r\n\r\n# Pkg 1.0\r\n"
    );
    assert!(plan.notes.contains(&"nothing to remove: it does not require `missing`".to_owned()), "{:?}", plan.notes);
    assert!(plan.leftovers.is_empty(), "the version is the same");
    let less = WheelEdit { extras: vec![ExtraEdit::remove("test.all").expect("extra")], ..WheelEdit::default() };
    let plan = planned(&edited.path, &less).expect("plan");
    let gone: Vec<&str> = plan.changes.iter().filter_map(|change| change.before.as_deref()).collect();
    assert_eq!(gone, ["pytest; extra == \"Test_All\"", "Test_All"]);
}

#[test]
fn members_go_and_search_paths_change() {
    let folders = [(); 3].map(|()| folder());
    let library = folders[0].path().join("lib.so");
    let compiled = std::process::Command::new("gcc")
        .args(["-shared", "-fPIC", "-x", "c", "/dev/null", "-Wl,-rpath,/opt/rocm/lib", "-Wl,--enable-new-dtags", "-o"])
        .arg(&library)
        .status();
    assert!(compiled.expect("gcc is on PATH").success());
    let more = format!(
        "lib = open({:?}, 'rb').read()\nput('pkg/lib/libx.so', lib, 0o100755)\nput('pkg/lib/liby.so', lib, 0o100755)\n\
         put('pkg/lib/text.so', b'INPUT(libx.so)')\ntexts(b'')",
        library.display().to_string()
    );
    let input = forge(folders[0].path(), &more);
    let edit = WheelEdit {
        search_paths: vec![SearchPathEdit::parse("lib*.so=$ORIGIN:$ORIGIN/../core").expect("path")],
        drop: vec![
            MemberPattern::parse("pkg/lib/liby*").expect("pattern"),
            MemberPattern::parse("none").expect("pattern"),
        ],
        ..WheelEdit::default()
    };
    let (plan, edited) = edited(&input, &edit, folders[1].path()).expect("edit");
    assert_eq!(plan.notes, ["nothing to drop: no member matches `none`"]);
    let result = Wheel::open(&edited.path).expect("open");
    assert_eq!(result.verify().expect("verify"), []);
    assert!(result.member("pkg/lib/liby.so").is_none());
    let elf = rocwheel_elf::Elf::read(&result.bytes("pkg/lib/libx.so").expect("bytes")).expect("ELF").expect("ELF");
    assert_eq!((elf.rpath, elf.runpath.as_deref()), (None, Some("$ORIGIN:$ORIGIN/../core")));
    assert!(!planned(&edited.path, &edit).expect("plan").changes_anything());
    let remove =
        WheelEdit { search_paths: vec![SearchPathEdit::remove("*.so").expect("path")], ..WheelEdit::default() };
    let (_, removed) = self::edited(&edited.path, &remove, folders[2].path()).expect("edit");
    let bytes = Wheel::open(&removed.path).expect("open").bytes("pkg/lib/libx.so").expect("bytes");
    let elf = rocwheel_elf::Elf::read(&bytes).expect("ELF").expect("ELF");
    assert_eq!((elf.rpath, elf.runpath), (None, None));
}

#[test]
fn the_result_takes_the_place_of_the_input() {
    let folder = folder();
    let input = wheel(&folder);
    let run = |input: &Path, edit: &WheelEdit, existing| {
        let plan = planned(input, edit).expect("plan");
        let place = EditPlacement { destination: Destination::InPlace, existing, scratch: std::env::temp_dir() };
        execute(&plan, &place, &WriteOptions::default(), &Silent)
    };
    let files = || -> Vec<String> {
        let entries = fs_err::read_dir(folder.path()).expect("list");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let summary = WheelEdit { fields: vec![FieldEdit::parse("Summary=new").expect("field")], ..WheelEdit::default() };
    run(&input, &summary, Existing::Refuse).expect("edit");
    assert_eq!(files(), ["Pkg-1.0-py2.py3-none-any.whl"]);
    let before = fs_err::read(&input).expect("read");
    assert_eq!(run(&input, &summary, Existing::Refuse).expect("nothing to do").path, input);
    assert!(fs_err::read(&input).expect("read") == before);

    let other = folder.path().join("Pkg-2.0-py2.py3-none-any.whl");
    fs_err::write(&other, b"in the way").expect("write");
    let error = run(&input, &set("2.0"), Existing::Refuse).expect_err("there is one");
    assert!(matches!(&error, Error::Exists { path } if path.ends_with("Pkg-2.0-py2.py3-none-any.whl")), "{error}");
    assert!(fs_err::read(&input).expect("read") == before);
    assert_eq!(fs_err::read(&other).expect("read"), b"in the way");
    run(&input, &set("2.0"), Existing::Replace).expect("edit");
    assert_eq!(files(), ["Pkg-2.0-py2.py3-none-any.whl"]);
    assert_eq!(Wheel::open(&other).expect("open").verify().expect("verify"), []);
    let error = edited(&other, &summary_of("x"), folder.path()).map(drop).expect_err("it is the input");
    assert!(matches!(error, Error::Wheel(rocwheel_wheel::Error::SameFile { .. })), "{error}");
}

fn summary_of(text: &str) -> WheelEdit {
    WheelEdit { fields: vec![FieldEdit::parse(&format!("Summary={text}")).expect("field")], ..WheelEdit::default() }
}

#[test]
fn what_has_no_change_is_copied_with_its_signature() {
    let (folder, output) = (folder(), tempfile::tempdir().expect("folder"));
    let input = wheel(&folder);
    let (plan, edited) = edited(&input, &set("1.0"), output.path()).expect("edit");
    assert!(!plan.changes_anything() && plan.notes.is_empty(), "{:?}", plan.notes);
    assert!(fs_err::read(&edited.path).expect("read") == fs_err::read(&input).expect("read"));
}

#[test]
fn a_folder_with_a_wrong_name_gets_the_right_one() {
    let (folder, output) = (folder(), tempfile::tempdir().expect("folder"));
    let input = forge(folder.path(), &format!("INFO = 'pkg-1.0-1.0.dist-info/'\n{}", script()));
    let (plan, edited_once) = edited(&input, &summary_of("x"), output.path()).expect("edit");
    assert!(plan.changes.iter().any(|change| change.subject == "folder"), "{:?}", plan.changes);
    assert_eq!(Wheel::open(&edited_once.path).expect("open").info(), "pkg-1.0.dist-info");
    listing(&edited_once.path);
    assert!(!planned(&edited_once.path, &summary_of("x")).expect("plan").changes_anything());
}

#[test]
fn the_comment_of_the_archive_stays() {
    let (folder, output) = (folder(), tempfile::tempdir().expect("folder"));
    let input = forge(folder.path(), &format!("{}\nwheel.comment = b'made by hand'\n", script()));
    let (plan, edited) = edited(&input, &set("2.0"), output.path()).expect("edit");
    assert!(plan.changes_anything());
    let read = "import sys, zipfile\nprint(zipfile.ZipFile(sys.argv[1]).comment.decode())";
    assert_eq!(python(read, [&edited.path]), "made by hand");
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

fn assert_refused(input: &Path, edit: &WheelEdit, words: &str) {
    let before = fs_err::read(input).expect("read");
    let output = folder();
    let error = edited(input, edit, output.path()).err().unwrap_or_else(|| panic!("this should fail: {words}"));
    let text = chain(&error);
    assert!(text.contains(words), "`{text}` should say {words}");
    assert_eq!(fs_err::read_dir(output.path()).expect("list").count(), 0, "{text}");
    assert!(fs_err::read(input).expect("read") == before);
}

#[test]
fn bad_wheels_are_named_and_leave_nothing() {
    let bad = |script: &str, words: &str| {
        let folder = folder();
        assert_refused(&forge(folder.path(), script), &set("2.0"), words);
    };
    let texts = "texts(b'')\n";
    bad(&format!("put('../evil.py', b'')\n{texts}"), "`..`");
    bad(&format!("put('/etc/evil', b'')\n{texts}"), "it is absolute");
    bad(&format!("put('a\\\\b', b'')\n{texts}"), "backslash");
    bad(&format!("put('a', b'1')\nput('a', b'2')\n{texts}"), "two members are named `a`");
    bad("put('pkg/__init__.py', b'')", "it has no `.dist-info` folder");
    bad("put(INFO + 'METADATA', b'Name: pkg\\nVersion: 1.0\\n')", "it has no `pkg-1.0.dist-info/WHEEL`");
    bad(
        "put(INFO + 'METADATA', b'Name: pkg\\nVersion: 1.0\\n')\nput(INFO + 'WHEEL', b'')",
        "it has no `pkg-1.0.dist-info/RECORD`",
    );
    bad(&format!("put('other-2.dist-info/METADATA', b'')\n{texts}"), "several `.dist-info` folders");
    bad("texts(b'\"a,b\\n')", "RECORD");
    bad("put(INFO + 'METADATA', b'Name: p\\xff')\nput(INFO + 'WHEEL', b'')\nput(INFO + 'RECORD', b'')", "is not UTF-8");
    bad(
        "put(INFO + 'METADATA', b'Name: x\\nVersion: 1.0\\n')\nput(INFO + 'WHEEL', b'')\nput(INFO + 'RECORD', b'')",
        "its METADATA is of `x` `1.0`",
    );
    // A bomb: a few bytes that announce 4 GiB, which is impossible for deflate; and METADATA that
    // really unpacks to 70 MB.
    bad(
        &format!("put('a', b'x' * 99)\n{texts}patch(struct.pack('<I', 99), struct.pack('<I', 0xfffffff0))"),
        "cannot have 4294967280 bytes unpacked",
    );
    bad(
        "put(INFO + 'METADATA', b'x' * 70000000)\nput(INFO + 'WHEEL', b'')\nput(INFO + 'RECORD', b'')",
        "held in memory",
    );
    // Two members with the same bytes in the file.
    let overlap = format!(
        "put('a', b'x' * 5000, method=zipfile.ZIP_STORED)\nput('b', b'x' * 5000, method=zipfile.ZIP_STORED)\n{texts}\
         wheel.close()\ndata = bytearray(open(path, 'rb').read())\nend = data.rfind(b'PK\\x05\\x06')\n\
         start = struct.unpack('<I', data[end + 16:end + 20])[0]\nsecond = data.find(b'PK\\x01\\x02', start + 1)\n\
         data[second + 42:second + 46] = struct.pack('<I', 100)\n\
         data[100:130] = b'PK\\x03\\x04' + data[4:30]\ndata[130:131] = b'b'\nopen(path, 'wb').write(data)"
    );
    bad(&overlap, "overlap");
    let folder = folder();
    let cut = folder.path().join(NAME);
    let whole = fs_err::read(wheel(&folder)).expect("read");
    fs_err::write(&cut, &whole[..whole.len() / 2]).expect("write");
    assert_refused(&cut, &set("2.0"), "it is cut off");
    fs_err::write(&cut, b"").expect("write");
    assert_refused(&cut, &set("2.0"), "the file is empty");
}

#[test]
fn edits_that_cannot_be_are_named_and_leave_nothing() {
    let folder = folder();
    let input = wheel(&folder);
    let drop = |pattern: &str| WheelEdit {
        drop: vec![MemberPattern::parse(pattern).expect("pattern")],
        ..WheelEdit::default()
    };
    assert_refused(&input, &drop("METADATA"), "cannot be dropped: no wheel is without it");
    assert_refused(&input, &drop("RECORD"), "cannot be dropped: no wheel is without it");
    let tags = WheelEdit {
        python_tags: Some(TagEdit::parse(TagPart::Python, "-py2.py3").expect("tags")),
        ..WheelEdit::default()
    };
    assert_refused(&input, &tags, "no tag would be left");
    assert_refused(
        &input,
        &WheelEdit { name: Some("-x".to_owned()), ..WheelEdit::default() },
        "not a valid distribution name",
    );
    for (field, words) in [
        ("Version=2", "`--version` changes the version"),
        ("requires-dist=x", "change the requirements"),
        ("Nonsense=x", "`Nonsense` is no field"),
        ("Summary", "FIELD=VALUE is expected"),
        ("Summary=a\nName: evil", "line break"),
    ] {
        let error = FieldEdit::parse(field).expect_err(field).to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(SearchPathEdit::parse("*.so=").is_err() && SearchPathEdit::parse("*.so").is_err());
    assert!(BuildEdit::parse("x1").is_err() && ExtraEdit::add("a b").is_err() && ExtraEdit::add("a:b c").is_err());
}
