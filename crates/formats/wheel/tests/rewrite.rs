//! Rewritten wheels as Python and pip read them. A failure leaves nothing behind and changes
//! nothing.

mod forge;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use forge::{NAME, forge, listing};
use proptest::prelude::*;
use rocwheel_archive::{FileDigest, WriteOptions, Written};
use rocwheel_content::Content;
use rocwheel_fixtures::{Impatient, Warnings, python};
use rocwheel_progress::{Reporter, Silent, Unit};
use rocwheel_wheel::read::{Wheel, WheelProblem};
use rocwheel_wheel::{Error, Existing, Headers, Member, MemberOrder, Rewrite, rewrite, rewrite_and_hash};

/// A wheel with many peculiarities: data descriptors, folders, a link, hexadecimal, missing and
/// wrong rows, signatures.
const QUIRKS: &str = r#"
class Pipe(io.RawIOBase):
    def __init__(self, file): self.file = file
    def writable(self): return True
    def write(self, data): return self.file.write(data)
wheel.close()
wheel = zipfile.ZipFile(Pipe(open(path, 'wb')), 'w', zipfile.ZIP_DEFLATED)
a, b, c = b'def main(): print("main")\n', b'b' * 5000, bytes(range(256)) * 99
put('pkg-1.0.dist-info/RECORD.jws', b'{}')
put('pkg-1.0.dist-info/licenses/LICENSE', b'as you like\n')
put('pkg/__init__.py', a, 0o100664)
put('pkg/', b'', 0o40755, zipfile.ZIP_STORED)
put('pkg/empty/', b'', 0o40700, zipfile.ZIP_STORED)
put('pkg-1.0.data/scripts/tool', b'#!python\n', 0o100755)
put('pkg/lib.so', b, 0o100755)
put('pkg/a, "b".bin', c, 0, system=0)
put('pkg/größe', b'stored', method=zipfile.ZIP_STORED)
put('pkg/sub/', b'', 0o40755, zipfile.ZIP_STORED)
put('pkg/sub/only', b'only')
record = ['pkg/__init__.py,%s,%d' % (good(a), len(a)),
    'pkg/lib.so,sha256=%s,5000' % hashlib.sha256(b).hexdigest(), 'pkg/größe,,', 'pkg/gone,,1',
    '"pkg/a, ""b"".bin",sha512=%s,25344' % base64.urlsafe_b64encode(hashlib.sha512(c).digest()).decode().rstrip('=')]
texts('\r\n'.join(record).encode())
"#;

fn write(input: &Path, change: &Rewrite, output: &Path) -> Result<Written, Error> {
    rewrite(&Wheel::open(input).expect("open"), change, output, &WriteOptions::default(), &Silent)
}

fn replace(name: &str, content: impl Content + 'static) -> BTreeMap<String, Box<dyn Content>> {
    BTreeMap::from([(name.to_owned(), Box::new(content) as Box<dyn Content>)])
}

/// The packed bytes of every member by name; Python reads them at the offsets in the directory.
fn packed(path: &Path) -> BTreeMap<String, String> {
    let script = "import hashlib, struct, sys, zipfile\n\
        data = open(sys.argv[1], 'rb').read()\n\
        for i in zipfile.ZipFile(sys.argv[1]).infolist():\n  \
          n, m = struct.unpack('<HH', data[i.header_offset + 26:i.header_offset + 30])\n  \
          at = i.header_offset + 30 + n + m\n  \
          packed = data[at:at + i.compress_size]\n  \
          print(hashlib.sha256(packed).hexdigest(), i.CRC, i.file_size, end='\t'); print(i.filename)";
    let lines = python(script, [path]);
    let split = |line: &str| {
        let (facts, name) = line.split_once('\t').expect("two columns");
        (name.to_owned(), facts.to_owned())
    };
    lines.lines().map(split).collect()
}

#[test]
fn quirks_become_a_wheel_by_the_rules() {
    let folders = [tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder")];
    let input = forge(folders[0].path(), QUIRKS);
    let before = fs_err::read(&input).expect("read");
    let written = write(&input, &Rewrite::default(), folders[1].path()).expect("rewrite");
    assert_eq!(written.path, folders[1].path().join(NAME));
    let expected = "pkg/ 0 0o40755 2048 1980
pkg/__init__.py 8 0o100664 2048 1980
pkg/a, \"b\".bin 8 0o100644 2048 1980
pkg/empty/ 0 0o40700 2048 1980
pkg/größe 0 0o100644 2048 1980
pkg/lib.so 8 0o100755 2048 1980
pkg/sub/ 0 0o40755 2048 1980
pkg/sub/only 8 0o100644 2048 1980
pkg-1.0.data/scripts/tool 8 0o100755 2048 1980
pkg-1.0.dist-info/METADATA 8 0o100644 2048 1980
pkg-1.0.dist-info/WHEEL 8 0o100644 2048 1980
pkg-1.0.dist-info/licenses/LICENSE 8 0o100644 2048 1980
pkg-1.0.dist-info/RECORD 8 0o100644 2048 1980
";
    let mut lines: Vec<&str> = expected.lines().collect();
    lines.sort_by_key(|line| (line.contains(".dist-info/"), line.contains("RECORD"), line.split(' ').next()));
    let actual = listing(&written.path);
    let mut sorted: Vec<&str> = actual.lines().collect();
    assert!(sorted.last().expect("lines").contains("/RECORD "), "{actual}");
    sorted.sort_by_key(|line| (line.contains(".dist-info/"), line.contains("RECORD"), line.split(' ').next()));
    assert_eq!(sorted, lines);
    let (mut old, mut new) = (packed(&input), packed(&written.path));
    assert!(new.remove("pkg-1.0.dist-info/RECORD").is_some());
    assert!(old.remove("pkg-1.0.dist-info/RECORD").is_some() && old.remove("pkg-1.0.dist-info/RECORD.jws").is_some());
    assert_eq!(new, old, "every other member has its packed bytes");
    let record =
        String::from_utf8(Wheel::open(&written.path).expect("open").bytes("pkg-1.0.dist-info/RECORD").unwrap());
    assert!(record.expect("UTF-8").contains("\"pkg/a, \"\"b\"\".bin\",sha512="), "a better hash is taken over");
    assert_eq!(Wheel::open(&written.path).expect("open").verify().expect("verify"), []);
    assert_eq!(written.files, 13);
    assert!(fs_err::read(&input).expect("read") == before, "the input is untouched");

    // A second rewrite gives the same file.
    let third = tempfile::tempdir().expect("folder");
    assert_eq!(write(&written.path, &Rewrite::default(), third.path()).expect("rewrite").sha256, written.sha256);
}

/// A wheel in which two files were changed after RECORD was written.
const CHANGED: &str = r"
put('pkg/longer.py', b'changed')
put('pkg/other.py', b'one')
texts(('pkg/longer.py,%s,4\npkg/other.py,%s,3\n' % (good(b'text'), good(b'two'))).encode())
";

#[test]
fn a_row_that_tells_of_changed_bytes_stays() {
    let folders = [tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder")];
    let input = forge(folders[0].path(), CHANGED);
    let written = write(&input, &Rewrite::default(), folders[1].path()).expect("rewrite");
    let problems = |path: &Path| Wheel::open(path).expect("open").verify().expect("verify");
    let changed: Vec<WheelProblem> = problems(&input)
        .into_iter()
        .filter(|problem| matches!(problem, WheelProblem::Hash(_) | WheelProblem::Size(_)))
        .collect();
    assert!(changed.len() >= 2, "{changed:?}");
    assert_eq!(problems(&written.path), changed);
}

#[test]
fn members_go_come_and_change() {
    let folders = [tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder")];
    let input = forge(folders[0].path(), QUIRKS);
    let mut metadata = Headers::parse(&Wheel::open(&input).expect("open").metadata().expect("METADATA"));
    metadata.push("Requires-Dist", "rocm-bootstrap").expect("header");
    let change = Rewrite {
        drop: ["pkg/größe", "pkg/sub/only"].map(str::to_owned).into(),
        replace: replace("pkg/lib.so", vec![7_u8; 5_000_000]),
        add: vec![Member::executable("pkg/größe", b"new".to_vec()), Member::new("aaa/x", b"x".to_vec())],
        metadata: Some(metadata.to_string()),
        ..Rewrite::default()
    };
    let mut hashes = BTreeSet::new();
    for threads in [1, 2, 5] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
        hashes.insert(pool.install(|| write(&input, &change, folders[1].path())).expect("rewrite").sha256);
    }
    hashes.insert(write(&input, &change, folders[1].path()).expect("outside of a pool").sha256);
    assert_eq!(hashes.len(), 1);
    let output = folders[1].path().join(NAME);
    let listing = listing(&output);
    for line in ["aaa/x 0 0o100644 2048 1980", "pkg/größe 0 0o100755 2048 1980", "pkg/lib.so 8 0o100755 2048 1980"] {
        assert!(listing.contains(line), "{listing}");
    }
    assert!(!listing.contains("pkg/sub/"), "a folder without members goes: {listing}");
    assert!(listing.contains("pkg/empty/"), "a folder that was empty stays: {listing}");
    let wheel = Wheel::open(&output).expect("open");
    assert!(wheel.metadata().expect("METADATA").ends_with("Version: 1.0\nRequires-Dist: rocm-bootstrap\n"));
    assert_eq!(wheel.bytes("pkg/lib.so").expect("bytes"), vec![7; 5_000_000]);
    let (old, new) = (packed(&input), packed(&output));
    for name in ["pkg/__init__.py", "pkg/a, \"b\".bin", "pkg-1.0.data/scripts/tool", "pkg-1.0.dist-info/WHEEL"] {
        assert_eq!(old[name], new[name], "{name}");
    }
}

#[test]
fn pip_installs_what_was_rewritten() {
    let folders = [tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder")];
    let input = forge(folders[0].path(), QUIRKS);
    let written = write(&input, &Rewrite::default(), folders[1].path()).expect("rewrite");
    let target = folders[1].path().join("target");
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--no-compile", "--target"])
        .args([&target, &written.path])
        .output()
        .expect("python3 is on PATH");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (name, content) in [("pkg/größe", "stored"), ("pkg/sub/only", "only")] {
        assert_eq!(fs_err::read_to_string(target.join(name)).expect("installed"), content);
    }
    assert!(target.join("bin/tool").is_file());
    assert!(fs_err::metadata(target.join("pkg/lib.so")).expect("installed").permissions().mode() & 0o111 != 0);
}

#[test]
fn a_new_name_renames_the_folders_that_have_it() {
    let folders = [tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder")];
    let input = forge(folders[0].path(), QUIRKS);
    let name = || Some("other_pkg-2.0-cp312-abi3-linux_x86_64.whl".parse().expect("name"));
    let change = Rewrite { name: name(), ..Rewrite::default() };
    let error = write(&input, &change, folders[1].path()).expect_err("METADATA says pkg 1.0");
    assert!(error.to_string().ends_with("METADATA says `pkg` `1.0`"), "{error}");
    let metadata = "Metadata-Version: 2.1\nName: Other.Pkg\nVersion: 2.0.0\n".to_owned();
    let tags = "Wheel-Version: 1.0\nTag: cp312-abi3-linux_x86_64\n".to_owned();
    let change = Rewrite { name: name(), metadata: Some(metadata), wheel: Some(tags), ..Rewrite::default() };
    let written = write(&input, &change, folders[1].path()).expect("rewrite");
    let listing = listing(&written.path);
    assert!(!listing.contains("pkg-1.0"), "{listing}");
    for member in ["other_pkg-2.0.data/scripts/tool", "other_pkg-2.0.dist-info/licenses/LICENSE"] {
        assert!(listing.contains(member), "{listing}");
    }
    let wheel = Wheel::open(&written.path).expect("open");
    assert!(wheel.name_agrees());
    assert_eq!(wheel.verify().expect("verify"), []);
    // A new tag alone does not change the folders.
    let third = tempfile::tempdir().expect("folder");
    let change = Rewrite { name: Some("PKG-1.0.0-1-py3-none-any.whl".parse().expect("name")), ..Rewrite::default() };
    let written = write(&input, &change, third.path()).expect("rewrite");
    assert!(written.path.ends_with("PKG-1.0.0-1-py3-none-any.whl"));
    assert_eq!(Wheel::open(&written.path).expect("open").info(), "pkg-1.0.dist-info");
}

#[test]
fn without_its_digest_the_file_is_the_same() {
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("folder"));
    let script = "import random\nr = random.Random(1).randbytes(3 << 20)\nput('pkg/a', r)\nput('pkg/b', b'b')\n\
        put('pkg/c', r, method=zipfile.ZIP_STORED)\n\
        texts(''.join('pkg/%s,%s,%d\\n' % (n, good(r), len(r)) for n in 'ac').encode())";
    let input = forge(folders[0].path(), script);
    let wheel = Wheel::open(&input).expect("open");
    let write = |digest, folder: &Path| {
        let options = WriteOptions { digest, ..WriteOptions::default() };
        rewrite(&wheel, &Rewrite::default(), folder, &options, &Silent).expect("rewrite")
    };
    let hashed = write(FileDigest::Sha256, folders[1].path());
    let copied = write(FileDigest::Skip, folders[2].path());
    assert!(hashed.sha256.is_some());
    assert_eq!(copied.sha256, None);
    assert_eq!(copied.compressed, hashed.compressed);
    assert!(fs_err::read(&copied.path).expect("read") == fs_err::read(&hashed.path).expect("read"));
    assert_eq!(Wheel::open(&copied.path).expect("open").verify().expect("verify"), []);
}

#[test]
fn the_hash_of_the_input_is_right_wherever_the_results_part() {
    let folders = [(); 4].map(|()| tempfile::tempdir().expect("folder"));
    let script = "import random\nr = random.Random(1).randbytes(3 << 20)\nput('pkg/y', r)\nput('pkg/a', b'a')\n\
        put('pkg/z', r[:9], 0o100755)\n\
        texts(''.join('pkg/%s,%s,%d\\n' % (n, good(d), len(d)) for n, d in \
        (('y', r), ('a', b'a'), ('z', r[:9]))).encode())";
    let foreign = forge(folders[0].path(), script);
    let ours = write(&foreign, &Rewrite::default(), folders[1].path()).expect("rewrite").path;
    let quirks = forge(folders[2].path(), QUIRKS);
    let drop = |name: &str| Rewrite { drop: [name.to_owned()].into(), ..Rewrite::default() };
    let changes: [fn() -> Rewrite; 4] = [
        Rewrite::default,
        || Rewrite { replace: replace("pkg/lib.so", b"new".to_vec()), ..Rewrite::default() },
        || Rewrite { replace: replace("pkg/a", b"new".to_vec()), ..Rewrite::default() },
        || Rewrite { replace: replace("pkg/z", b"new".to_vec()), ..Rewrite::default() },
    ];
    let named = |input: &Path| {
        let script = "import hashlib, sys\nprint(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())";
        python(script, [input]).trim().to_owned()
    };
    let check = |input: &Path, change: &Rewrite| {
        let wheel = Wheel::open(input).expect("open");
        let expected = named(input);
        let results = [FileDigest::Sha256, FileDigest::Skip].map(|digest| {
            let options = WriteOptions { digest, ..WriteOptions::default() };
            let (written, sha256) =
                rewrite_and_hash(&wheel, change, folders[3].path(), &options, &Silent).expect("rewrite");
            assert_eq!(sha256, expected, "{} with {digest:?}", input.display());
            written
        });
        assert_eq!(results[0].sha256, Some(named(&results[0].path)));
        assert_eq!(results[0].compressed, results[1].compressed);
    };
    for order in [MemberOrder::Sorted, MemberOrder::Kept] {
        for (input, numbers) in [(&foreign, [0, 2, 3]), (&ours, [0, 2, 3]), (&quirks, [0, 0, 1])] {
            for number in numbers {
                check(input, &Rewrite { order, ..changes[number]() });
            }
        }
        check(&ours, &Rewrite { order, ..drop("pkg/a") });
        check(&ours, &Rewrite { order, ..drop("pkg/z") });
    }
}

#[test]
fn links_stay_links_and_are_named() {
    let folders = [tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder")];
    let input = forge(folders[0].path(), "put('pkg/a', b'a')\nput('pkg/l', b'a', 0o120777)\ntexts(b'')");
    let reporter = Warnings::default();
    let wheel = Wheel::open(&input).expect("open");
    let written =
        rewrite(&wheel, &Rewrite::default(), folders[1].path(), &WriteOptions::default(), &reporter).expect("rewrite");
    assert!(listing(&written.path).contains("pkg/l 8 0o120777"));
    assert!(reporter.all().contains(&"`pkg/l` is a link: installers make a file of it".to_owned()));
    assert_fails(&input, &Rewrite { replace: replace("pkg/l", Vec::new()), ..Rewrite::default() }, "`pkg/l` of");
}

fn assert_fails(input: &Path, change: &Rewrite, words: &str) {
    let before = fs_err::read(input).expect("read");
    let output = tempfile::tempdir().expect("folder");
    let error = write(input, change, output.path()).expect_err(words);
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(&error) {
        text.push_str(&format!(": {source}"));
    }
    assert!(text.contains(words), "`{text}` should say {words}");
    assert_eq!(fs_err::read_dir(output.path()).expect("list").count(), 0, "{text}");
    assert!(fs_err::read(input).expect("read") == before);
}

#[test]
fn changes_that_cannot_be_are_named_and_leave_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let input = forge(folder.path(), QUIRKS);
    let drop = |name: &str| Rewrite { drop: [name.to_owned()].into(), ..Rewrite::default() };
    let put = |name: &str| Rewrite { replace: replace(name, b"x".to_vec()), ..Rewrite::default() };
    let add = |name: &str| Rewrite { add: vec![Member::new(name, Vec::new())], ..Rewrite::default() };
    assert_fails(&input, &drop("pkg/none"), "member `pkg/none` of");
    assert_fails(&input, &put("pkg/none"), "does not exist");
    assert_fails(&input, &drop("pkg-1.0.dist-info/METADATA"), "cannot be dropped");
    assert_fails(&input, &drop("pkg-1.0.dist-info/RECORD"), "is always rewritten");
    assert_fails(&input, &put("pkg-1.0.dist-info/RECORD"), "is always rewritten");
    assert_fails(&input, &put("pkg/"), "is a folder");
    assert_fails(&input, &add("pkg/lib.so"), "two members are named `pkg/lib.so`");
    assert_fails(&input, &add("pkg/lib.so/x"), "`pkg/lib.so` cannot be used: it is also the folder");
    assert_fails(&input, &add("../x"), "`../x`");
    assert_fails(&input, &add("pkg-1.0.dist-info/RECORD"), "two members are named `pkg-1.0.dist-info/RECORD`");
    let both = Rewrite { metadata: Some("Name: pkg\n".to_owned()), ..put("pkg-1.0.dist-info/METADATA") };
    assert_fails(&input, &both, "is replaced twice");
    let both = Rewrite { drop: ["pkg/lib.so".to_owned()].into(), ..put("pkg/lib.so") };
    assert_fails(&input, &both, "both dropped and replaced");

    let bad = |script: &str, words: &str| {
        let folder = tempfile::tempdir().expect("folder");
        assert_fails(&forge(folder.path(), script), &Rewrite::default(), words);
    };
    let texts = "texts(b'')\n";
    bad("put(INFO + 'METADATA', b'')\nput(INFO + 'WHEEL', b'')", "it has no `pkg-1.0.dist-info/RECORD`");
    bad("texts(b'a,b\\n')", "RECORD: line 1 does not have three columns");
    bad(&format!("put('a', b'x' * 99, method=zipfile.ZIP_LZMA)\n{texts}"), "method 14");
    bad(&format!("put('a', b'x')\nput('a/b', b'x')\n{texts}"), "`a` cannot be used: it is also the folder");
    // Without a hash in RECORD the member is unpacked, which reveals its problem.
    bad(&format!("put('a', b'x' * 99)\n{texts}patch(struct.pack('<I', 99), struct.pack('<I', 98))"), "98 bytes");
    bad(
        &format!("put('a', b'x' * 99)\n{texts}patch(zipfile.crc32(b'x' * 99).to_bytes(4, 'little'), b'1234')"),
        "CRC-32",
    );
}

#[test]
fn the_input_is_replaced_only_when_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("folder");
    let input = forge(folder.path(), QUIRKS);
    let before = fs_err::read(&input).expect("read");
    let dotted = folder.path().join(".");
    let error = write(&input, &Rewrite::default(), &dotted).expect_err("the same file");
    assert!(matches!(error, Error::SameFile { .. }), "{error}");
    assert!(fs_err::read(&input).expect("read") == before);
    let change = Rewrite { existing: Existing::Replace, ..Rewrite::default() };
    let written = write(&input, &change, folder.path()).expect("rewrite");
    assert_eq!(Wheel::open(&written.path).expect("open").verify().expect("verify"), []);
    assert_eq!(fs_err::read_dir(folder.path()).expect("list").count(), 1);
}

#[test]
fn where_the_order_stays_headers_of_what_is_not_touched_do_too() {
    let script = "import random
members = {'pkg/z': random.Random(1).randbytes(3 << 20), 'pkg/a': b'a' * 99, 'pkg/größe': b'x', 'pkg/b': b'b'}
modes = {'pkg/b': 0o100755, 'pkg/größe': 0}
for name, data in members.items():
    put(name, data, modes.get(name, 0o100644))
put('pkg/empty/', b'', 0o40755, zipfile.ZIP_STORED)
texts(''.join('%s,%s,%d\\n' % (name, good(data), len(data)) for name, data in members.items()).encode())
put(INFO + 'INSTALLER', b'')
put(INFO + 'top_level.txt', b'pkg')";
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("folder"));
    let input = forge(folders[0].path(), script);
    let wheel = Wheel::open(&input).expect("open");
    let metadata = wheel.metadata().expect("METADATA").replace("2.1", "2.2");
    let change = Rewrite {
        drop: ["pkg/a".to_owned()].into(),
        metadata: Some(metadata),
        add: vec![Member::new("pkg/aaa", b"new".to_vec())],
        order: MemberOrder::Kept,
        ..Rewrite::default()
    };
    let options =
        [FileDigest::Sha256, FileDigest::Skip].map(|digest| WriteOptions { digest, ..WriteOptions::default() });
    let results = [0, 1].map(|number| {
        let output = folders[number + 1].path();
        rewrite(&wheel, &change, output, &options[number], &Silent).expect("rewrite").path
    });
    let expected = "pkg/z 8 0o100644 0 2020
pkg/größe 8 0o0 2048 2020
pkg/b 8 0o100755 0 2020
pkg/empty/ 0 0o40755 0 2020
pkg-1.0.dist-info/METADATA 8 0o100644 2048 1980
pkg-1.0.dist-info/WHEEL 8 0o100644 0 2020
pkg-1.0.dist-info/INSTALLER 8 0o100644 0 2020
pkg-1.0.dist-info/top_level.txt 8 0o100644 0 2020
pkg/aaa 0 0o100644 2048 1980
pkg-1.0.dist-info/RECORD 8 0o100644 2048 1980";
    let [one, other] = results.each_ref().map(|path| fs_err::read(path).expect("read"));
    assert_eq!(listing(&results[0]).replace("pkg/aaa 8", "pkg/aaa 0"), expected);
    assert!(one == other, "copied by the kernel and by hand");
    assert!(one[..3 << 20] == fs_err::read(&input).expect("read")[..3 << 20]);
    let after = Wheel::open(&results[0]).expect("open");
    assert_eq!(after.verify().expect("verify"), []);
    let kept = packed(&results[0]);
    assert!(packed(&input).iter().filter(|(name, facts)| kept.get(*name) == Some(facts)).count() == 7);

    // Members with data descriptors, and members whose names change, get new headers but keep their
    // position.
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("folder"));
    let quirks = forge(folders[0].path(), QUIRKS);
    let change = || Rewrite { order: MemberOrder::Kept, ..Rewrite::default() };
    let path = write(&quirks, &change(), folders[1].path()).expect("rewrite").path;
    let names = |path: &Path| listing(path).lines().map(str::to_owned).collect::<Vec<_>>();
    let found = names(&path);
    assert!(found[0].starts_with("pkg-1.0.dist-info/licenses/LICENSE 8 0o100644 2048 1980"), "{found:?}");
    assert!(found.last().expect("lines").contains("/RECORD "), "{found:?}");
    assert_eq!(Wheel::open(&path).expect("open").verify().expect("verify"), []);
}

/// Lists a folder while a file is written into it.
struct Looks<'a> {
    folder: &'a Path,
    names: std::sync::Mutex<BTreeSet<String>>,
}

impl Reporter for Looks<'_> {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {}
    fn advance(&self, _amount: u64) {
        let entries = fs_err::read_dir(self.folder).expect("list");
        let names = entries.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned());
        self.names.lock().expect("lock").extend(names);
    }
    fn end(&self) {}
    fn warn(&self, _message: &str) {}
    fn interrupted(&self) -> bool {
        false
    }
}

/// A killed process cannot remove anything. This test holds on the usual file systems: ext4, xfs,
/// btrfs, tmpfs.
#[test]
fn what_is_being_written_has_no_name_that_could_be_left() {
    let folders = [tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder")];
    let input = forge(folders[0].path(), QUIRKS);
    let output = folders[1].path();
    let looks = Looks { folder: output, names: std::sync::Mutex::default() };
    let wheel = Wheel::open(&input).expect("open");
    let path = rewrite(&wheel, &Rewrite::default(), output, &WriteOptions::default(), &looks).expect("rewrite").path;
    assert!(looks.names.lock().expect("lock").is_empty(), "{:?}", looks.names);
    let mode = fs_err::metadata(&path).expect("metadata").permissions().mode();
    let plain = output.join("plain");
    fs_err::write(&plain, "").expect("write");
    assert_eq!(mode, fs_err::metadata(&plain).expect("metadata").permissions().mode());
    // An existing file is replaced.
    rewrite(&wheel, &Rewrite::default(), output, &WriteOptions::default(), &Silent).expect("again");
    assert_eq!(fs_err::read_dir(output).expect("list").count(), 2);
}

#[test]
fn an_interruption_leaves_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let script = "import random\nr = random.Random(1).randbytes(9 << 20)\nput('pkg/a', r)\nput('pkg/b', r)\n\
        texts(('pkg/a,%s,%d\\n' % (good(r), len(r))).encode())";
    let input = forge(folder.path(), script);
    let wheel = Wheel::open(&input).expect("open");
    // During hashing, and during copying.
    for after in [0, 12 << 20] {
        let output = tempfile::tempdir().expect("folder");
        let reporter = Impatient::after(after);
        let result = rewrite(&wheel, &Rewrite::default(), output.path(), &WriteOptions::default(), &reporter);
        assert!(matches!(result, Err(Error::Interrupted(_))), "{result:?}");
        assert_eq!(fs_err::read_dir(output.path()).expect("list").count(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_change_gives_a_true_record(
        members in proptest::collection::btree_map("[a-z]{1,3}/[a-z]{1,3}", proptest::collection::vec(any::<u8>(), 0..300), 1..9),
        fates in proptest::collection::vec(0_u8..4, 9),
    ) {
        let folders = [tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder")];
        let lines: Vec<String> =
            members.iter().map(|(name, bytes)| format!("put('{name}', bytes({bytes:?}))")).collect();
        let input = forge(folders[0].path(), &format!("{}\ntexts(b'')", lines.join("\n")));
        let mut expected = members.clone();
        let mut change = Rewrite::default();
        for ((name, bytes), fate) in members.iter().zip(fates) {
            match fate {
                0 => {
                    change.drop.insert(name.clone());
                    expected.remove(name);
                }
                1 => {
                    let bytes: Vec<u8> = bytes.iter().rev().copied().collect();
                    expected.insert(name.clone(), bytes.clone());
                    change.replace.insert(name.clone(), Box::new(bytes));
                }
                2 => {
                    let name = format!("{name}x/new");
                    expected.insert(name.clone(), bytes.clone());
                    change.add.push(Member::new(name, bytes.clone()));
                }
                _ => {}
            }
        }
        let written = write(&input, &change, folders[1].path()).expect("rewrite");
        let wheel = Wheel::open(&written.path).expect("open");
        prop_assert_eq!(wheel.verify().expect("verify"), []);
        let names: BTreeSet<&str> = wheel.members().iter().map(|member| member.name.as_str()).collect();
        let names: BTreeSet<&str> = names.into_iter().filter(|name| !name.contains(".dist-info/")).collect();
        prop_assert_eq!(names, expected.keys().map(String::as_str).collect::<BTreeSet<_>>());
        for (name, bytes) in &expected {
            prop_assert_eq!(&wheel.bytes(name).expect("bytes"), bytes);
        }
    }
}
