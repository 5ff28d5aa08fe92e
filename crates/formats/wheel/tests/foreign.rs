//! Wheels that other tools made: some are accepted, others refused with a certain message.

mod forge;

use std::path::Path;

use forge::{NAME, forge};
use positioned_io::ReadAt as _;
use rocwheel_archive::Error as Archive;
use rocwheel_archive::MemberKind;
use rocwheel_wheel::Error;
use rocwheel_wheel::read::{Wheel, WheelProblem};

fn causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

fn open(folder: &Path, script: &str) -> Result<Wheel, Error> {
    Wheel::open(&forge(folder, script))
}

#[test]
fn quirks_of_real_wheels_are_read() {
    let folder = tempfile::tempdir().expect("folder");
    let script = r"
put('pkg/', b'', 0o40755, zipfile.ZIP_STORED)
put('pkg/a.py', b'a' * 1000, 0o100755)
put('pkg/stored', b'b' * 10, method=zipfile.ZIP_STORED)
put('pkg/dos', b'c', 0, system=0)
put('pkg/link', b'a.py', 0o120777)
put('Other.Name-1.0.dist-info/METADATA', b'Metadata-Version:  2.1\r\nName: x\r\n')
put('Other.Name-1.0.dist-info/WHEEL', b'Wheel-Version:  1.0\r\nTag: a-b-c\r\nTag: d-e-f\r\n')
put('Other.Name-1.0.dist-info/RECORD', ('pkg/a.py,sha256=%s,1000\r\npkg/stored,,\r\n\r\npkg/dos,sha512=%s,1\r\n' %
    (hashlib.sha256(b'a' * 1000).hexdigest(), base64.urlsafe_b64encode(hashlib.sha512(b'c').digest()).decode().rstrip('='))).encode())
put('Other.Name-1.0.dist-info/RECORD.jws', b'{}')
";
    let wheel = open(folder.path(), script).expect("open");
    assert_eq!((wheel.info(), wheel.name_agrees()), ("Other.Name-1.0.dist-info", false));
    let listed = |name: &str| {
        let member = wheel.member(name).expect("member");
        (member.kind, member.mode, member.executable, member.size)
    };
    assert_eq!(listed("pkg/"), (MemberKind::Directory, 0o755, true, 0));
    assert_eq!(listed("pkg/a.py"), (MemberKind::File, 0o755, true, 1000));
    assert_eq!(listed("pkg/dos"), (MemberKind::File, 0o644, false, 1));
    assert_eq!(listed("pkg/link"), (MemberKind::Symlink, 0o777, true, 4));
    assert_eq!(wheel.wheel().expect("WHEEL"), "Wheel-Version:  1.0\r\nTag: a-b-c\r\nTag: d-e-f\r\n");
    let info = "Other.Name-1.0.dist-info";
    let name = |file: &str| format!("{info}/{file}");
    let expected = [
        WheelProblem::FileName(info.to_owned()),
        WheelProblem::Unrecorded(name("METADATA")),
        WheelProblem::Unrecorded(name("RECORD")),
        WheelProblem::Unrecorded(name("WHEEL")),
        WheelProblem::Unrecorded("pkg/link".to_owned()),
        WheelProblem::NoHash("pkg/a.py".to_owned()),
        WheelProblem::NoHash("pkg/stored".to_owned()),
    ];
    assert_eq!(wheel.verify().expect("verify"), expected);
}

#[test]
fn members_are_read_at_random_from_where_they_are_best() {
    let folder = tempfile::tempdir().expect("folder");
    let script = r"
put('pkg/stored', bytes(range(256)) * 8, method=zipfile.ZIP_STORED)
put('pkg/memory', bytes(range(256)) * 8)
put('pkg/large', bytes(range(256)) * (260 << 10))
texts(b'')
";
    let wheel = open(folder.path(), script).expect("open");
    let scratch = tempfile::tempdir().expect("folder");
    for (name, size) in [("pkg/stored", 2048), ("pkg/memory", 2048), ("pkg/large", 65 << 20)] {
        let reader = wheel.reader(name, scratch.path()).expect("reader");
        let mut window = [0; 3];
        reader.read_exact_at(size - 2, &mut window[..2]).expect("the end");
        assert_eq!(window, [254, 255, 0], "{name}");
        assert_eq!(reader.read_at(size, &mut window).expect("behind the end"), 0, "{name}");
        std::thread::scope(|scope| {
            for start in 0..4_u64 {
                let reader = &reader;
                scope.spawn(move || {
                    let mut window = [0; 2];
                    reader.read_exact_at(256 + start, &mut window).expect("read");
                    assert_eq!(window, [start as u8, start as u8 + 1]);
                });
            }
        });
        assert_eq!(fs_err::read_dir(scratch.path()).expect("list").count(), 0, "the file has no name");
    }
    let error = causes(&wheel.bytes("pkg/large").expect_err("65 MiB"));
    assert!(error.contains("member `pkg/large`") && error.contains("68157440 bytes"), "{error}");
    let error = causes(&wheel.bytes("pkg/none").expect_err("no member"));
    assert!(error.contains("member `pkg/none`") && error.ends_with("does not exist"), "{error}");
    let error = wheel.reader("pkg/large", &folder.path().join("none")).err().expect("no scratch");
    assert!(
        matches!(&error, Error::Archive(Archive::Create { directory, .. }) if directory.ends_with("none")),
        "{error}"
    );
}

#[test]
fn archives_that_installers_would_not_agree_on_are_refused() {
    let cases = [
        ("put('../evil', b'')\ntexts(b'')", "member name `../evil` cannot be used: it contains `..`"),
        ("put('/evil', b'')\ntexts(b'')", "member name `/evil` cannot be used: it is absolute"),
        ("put('C:/evil', b'')\ntexts(b'')", "`C:/evil` cannot be used: it begins with a drive letter"),
        ("put('a|b', b'')\ntexts(b'')\npatch(b'a|b', b'a\\\\b')", "`a\\b` cannot be used: it contains a backslash"),
        ("put('a', b'1')\nput('a', b'2')\ntexts(b'')", "two members are named `a`"),
        ("texts(b'')\nwheel.comment = b'PK\\5\\6' + bytes(18)", "its comment has the mark of an end record"),
        ("texts(b'')\nwheel.comment = b'see PK\\5\\6'", "its comment has the mark of an end record"),
        ("put('one', b'1')\nput('two', b'2')\ntexts(b'')\npatch(b'two', b'odd', 1)", "member `two` has another name"),
        // Both entries of the directory refer to the first member.
        (
            "put('aa', b'1')\nput('ab', b'1')\ntexts(b'')\nwheel.close()\ndata = open(path, 'rb').read()\n\
             at = data.rindex(b'ab'); data = data[:at - 4] + bytes(4) + b'aa' + data[at + 2:]\n\
             open(path, 'wb').write(data)",
            "two members are named `aa`",
        ),
        ("put('a', b'')", "it has no `.dist-info` folder"),
        ("put('x-1.dist-info/METADATA', b'')\ntexts(b'')", "`pkg-1.0.dist-info`, `x-1.dist-info`"),
        ("put('pkg-1.0.dist-info/METADATA', b'')", "it has no `pkg-1.0.dist-info/WHEEL`"),
    ];
    for (script, words) in cases {
        let folder = tempfile::tempdir().expect("folder");
        let error = causes(&open(folder.path(), script).err().expect(words));
        assert!(error.contains(words) && error.contains(NAME), "`{error}` should say {words}");
    }
}

/// Makes a member `pkg/a` of 3000 bytes and changes its local and its central header, each with a
/// Python expression.
fn lie(folder: &Path, local: &str, central: &str) -> Result<Wheel, Error> {
    let script = format!(
        r"
put('pkg/a', bytes(range(250)) * 12)
put('pkg/b', b'b' * 3000)
texts(b'pkg/a,,\npkg/b,,\n')
wheel.close()
data = bytearray(open(path, 'rb').read())
def change(at, field, value):
    offsets = dict(flags=(6, 'H'), method=(8, 'H'), crc=(14, 'I'), packed=(18, 'I'), size=(22, 'I'))
    place, kind = offsets[field]
    struct.pack_into('<' + kind, data, at + place, value)
change.local, change.central = data.index(b'PK\3\4'), data.index(b'PK\1\2') + 2
at = change.local
{local}
at = change.central
{central}
open(path, 'wb').write(data)
"
    );
    open(folder, &script)
}

#[test]
fn sizes_that_lie_are_found_before_or_while_unpacking() {
    let both = |change: &str| {
        let folder = tempfile::tempdir().expect("folder");
        let wheel = lie(folder.path(), change, change)?;
        let scratch = tempfile::tempdir().expect("folder");
        let by_reader = wheel.reader("pkg/a", scratch.path()).map(|_| ());
        let by_windows = wheel.verify().expect("verify");
        // Reading in windows finds the same problem.
        let unreadable = by_windows.contains(&WheelProblem::Unreadable("pkg/a".to_owned()));
        assert_eq!(by_reader.is_err(), unreadable, "{change}: {by_windows:?}");
        by_reader
    };
    let cases = [
        ("change(at, 'size', 2999)", "more than the 2999 bytes"),
        ("change(at, 'size', 3001)", "unpacks to 3000 bytes, and the archive says 3001"),
        ("change(at, 'size', 0x7fffffff)", "cannot have 2147483647 bytes unpacked and"),
        ("change(at, 'packed', 0x7fffffff)", "overlap"),
        ("change(at, 'packed', 10)", "not a deflate stream"),
        ("change(at, 'crc', 1)", "CRC-32"),
        ("change(at, 'flags', 1)", "it is encrypted"),
        ("change(at, 'method', 93)", "method 93"),
        ("change(at, 'method', 0)", "cannot have 3000 bytes unpacked and"),
    ];
    for (change, words) in cases {
        let error = causes(&both(change).expect_err(words));
        assert!(error.contains(words) && error.contains("`pkg/a`"), "{change}: `{error}` should say {words}");
    }
    let folder = tempfile::tempdir().expect("folder");
    let error = causes(&lie(folder.path(), "change(at, 'size', 2999)", "").err().expect("headers differ"));
    assert!(error.contains("member `pkg/a` has another size in its own header"), "{error}");
}

#[test]
fn a_large_bomb_is_stopped_at_its_announced_size() {
    // 200 MiB of zeros announced as 100 MiB. That is more than is unpacked in memory, so a
    // temporary file is used.
    let folder = tempfile::tempdir().expect("folder");
    let script = "put('pkg/a', bytes(200 << 20))\ntexts(b'')\n\
        patch(struct.pack('<I', 200 << 20), struct.pack('<I', 100 << 20))";
    let wheel = open(folder.path(), script).expect("open");
    let scratch = tempfile::tempdir().expect("folder");
    let error = causes(&wheel.reader("pkg/a", scratch.path()).err().expect("bomb"));
    assert!(error.contains("more than the 104857600 bytes"), "{error}");
    assert_eq!(fs_err::read_dir(scratch.path()).expect("list").count(), 0);
}

#[test]
fn what_is_no_wheel_says_so() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join(NAME);
    for bytes in [&b""[..], b"PK\x05\x06", b"\x7fELF and more", &[0; 100]] {
        fs_err::write(&path, bytes).expect("write");
        let error = Wheel::open(&path).err().expect("no ZIP");
        assert!(matches!(error, Error::Archive(Archive::Open { .. } | Archive::Malformed { .. })), "{error}");
    }
    let unnamed = folder.path().join("x.whl");
    for missing in [unnamed.as_path(), folder.path()] {
        let error = Wheel::open(missing).err().expect("no file");
        assert!(matches!(error, Error::Archive(Archive::Open { .. })), "{error}");
    }
    fs_err::write(&unnamed, "").expect("write");
    let error = Wheel::open(&unnamed).err().expect("no name");
    assert!(error.to_string().contains("`x.whl` is not a valid wheel file name"), "{error}");
    // Every truncation of a good wheel is an error, and none is a crash.
    let good = fs_err::read(forge(folder.path(), "put('pkg/a', b'a' * 100)\ntexts(b'')")).expect("read");
    for length in (0..good.len()).step_by(7) {
        fs_err::write(&path, &good[..length]).expect("write");
        assert!(Wheel::open(&path).is_err(), "{length}");
    }
}

#[test]
fn stored_members_are_compared_with_their_checksum() {
    let folder = tempfile::tempdir().expect("folder");
    let script = r"
put('pkg/stored', bytes(range(256)) * 2048, method=zipfile.ZIP_STORED)
put('pkg/packed', b'a' * 1000)
texts(b'')
wheel.close()
data = bytearray(open(path, 'rb').read())
data[data.index(bytes(range(256))) + 300000] ^= 1
open(path, 'wb').write(data)
";
    let wheel = open(folder.path(), script).expect("open");
    let scratch = tempfile::tempdir().expect("folder");
    // Every call fails, not only the first.
    for _ in 0..2 {
        let error = causes(&wheel.reader("pkg/stored", scratch.path()).err().expect("a flipped bit"));
        assert!(error.contains("`pkg/stored`") && error.contains("CRC-32"), "{error}");
    }
    let members = ["pkg/stored", "pkg/packed"];
    let error = causes(&wheel.check_members(members, &rocwheel_progress::Silent).expect_err("a flipped bit"));
    assert!(error.contains("`pkg/stored`") && error.contains("CRC-32"), "{error}");
    wheel.check_members(["pkg/packed"], &rocwheel_progress::Silent).expect("the other one");
    // Reading a few ranges does not check the CRC.
    assert!(wheel.sparse("pkg/stored", scratch.path()).is_ok());
}
