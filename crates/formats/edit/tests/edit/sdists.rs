//! Edits of source distributions.

use std::path::{Path, PathBuf};

use rocwheel_edit::*;

use crate::*;
use rocwheel_fixtures::python;

/// A source distribution like those of setuptools. `more` is Python code that may add members to
/// `tar`.
fn sdist(folder: &Path, more: &str) -> PathBuf {
    let script = format!(
        r#"
import io, sys, tarfile
path = sys.argv[1]
tar = tarfile.open(path, 'w:gz', format=tarfile.PAX_FORMAT)
def put(name, data=b'', **more):
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.uid, info.uname = len(data), 1700000000.5, 1000, 'me'
    for key, value in more.items(): setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))
information = b'Metadata-Version: 2.4\nName: rocm\nVersion: 7.0.0\nDynamic: Requires-Dist\n\nrocm 7.0.0\n'
put('rocm-7.0.0/', type=tarfile.DIRTYPE, mode=0o755)
put('rocm-7.0.0/PKG-INFO', information)
put('rocm-7.0.0/setup.py', b'#!python\n', mode=0o755)
put('rocm-7.0.0/src/rocm_sdk/_dist_info.py', b'__version__ = "7.0.0"\nfloor = "7.0.0.1"\n')
put('rocm-7.0.0/src/rocm.egg-info/PKG-INFO', information)
put('rocm-7.0.0/src/rocm.egg-info/requires.txt', b'rocm-sdk-core==7.0.0\n\n[libraries]\nrocm-sdk-libraries==7.0.0\n')
put('rocm-7.0.0/src/rocm.egg-info/SOURCES.txt', b'setup.py\nsrc/rocm.egg-info/PKG-INFO\n')
put('rocm-7.0.0/' + 'd' * 120 + '/long.bin', bytes(range(256)) * 2000)
put('rocm-7.0.0/link', type=tarfile.SYMTYPE, linkname='setup.py')
put('rocm-7.0.0/hard', type=tarfile.LNKTYPE, linkname='rocm-7.0.0/setup.py')
{more}
tar.close()
"#
    );
    let path = folder.join("rocm-7.0.0.tar.gz");
    python(&script, [&path]);
    path
}

/// Names, types, modes, owners, dates and hashes of the members.
fn members(path: &Path) -> String {
    python(
        "import hashlib, sys, tarfile\n\
         for i in tarfile.open(sys.argv[1]):\n  \
           f = tarfile.open(sys.argv[1]).extractfile(i) if i.isreg() else None\n  \
           print(i.name, i.type.decode(), oct(i.mode), i.uid, int(i.mtime), i.linkname, f and hashlib.md5(f.read()).hexdigest())",
        [path],
    )
}

fn read_member(path: &Path, member: &str) -> String {
    let script = format!(
        "import sys, tarfile; print(tarfile.open(sys.argv[1]).extractfile({member:?}).read().decode(), end='|')"
    );
    // The mark keeps the last end of a line.
    python(&script, [path]).strip_suffix('|').expect("the script ends with it").to_owned()
}

#[test]
fn source_distributions_follow_too() {
    let folders = [(); 4].map(|()| folder());
    let input = sdist(folders[0].path(), "");
    let edit = |version: &str| WheelEdit {
        pins: Pins::Follow,
        also_in: vec![MemberPattern::parse("_dist_info.py").expect("pattern")],
        ..set(version)
    };
    let (plan, edited) = edited(&input, &edit("7.0.0rc1"), folders[1].path()).expect("edit");
    assert_eq!(name(&edited), "rocm-7.0.0rc1.tar.gz");
    let read = |file: &str| read_member(&edited.path, &format!("rocm-7.0.0rc1/{file}"));
    assert!(read("PKG-INFO").contains("Version: 7.0.0rc1\nDynamic: Requires-Dist\n\nrocm 7.0.0\n"));
    assert_eq!(read("PKG-INFO"), read("src/rocm.egg-info/PKG-INFO"));
    assert_eq!(
        read("src/rocm.egg-info/requires.txt"),
        "rocm-sdk-core==7.0.0rc1\n\n[libraries]\nrocm-sdk-libraries==7.0.0rc1\n"
    );
    assert_eq!(read("src/rocm_sdk/_dist_info.py"), "__version__ = \"7.0.0rc1\"\nfloor = \"7.0.0.1\"\n");
    let left: Vec<&str> = plan.leftovers.iter().map(|left| left.member.as_str()).collect();
    assert_eq!(left, ["PKG-INFO", "src/rocm.egg-info/PKG-INFO"], "the description says it");
    let listed = members(&edited.path);
    for line in [
        "rocm-7.0.0rc1 5 0o755 0 315532800",
        "rocm-7.0.0rc1/setup.py 0 0o755 0 315532800",
        "rocm-7.0.0rc1/link 2 0o777 0 315532800 setup.py",
        "rocm-7.0.0rc1/hard 1 0o644 0 315532800 rocm-7.0.0rc1/setup.py",
    ] {
        assert!(listed.contains(line), "{listed}");
    }
    assert_eq!(listed.lines().count(), members(&input).lines().count());

    let (again, same) = self::edited(&edited.path, &edit("7.0.0rc1"), folders[2].path()).expect("again");
    assert!(!again.changes_anything());
    assert!(fs_err::read(&same.path).expect("read") == fs_err::read(&edited.path).expect("read"));
    let (_, back) = self::edited(&edited.path, &edit("7.0.0"), folders[2].path()).expect("back");
    let (_, there) = self::edited(&back.path, &edit("7.0.0rc1"), folders[3].path()).expect("there");
    assert!(fs_err::read(&there.path).expect("read") == fs_err::read(&edited.path).expect("read"));
    let hashes = |path: &Path| -> Vec<String> {
        members(path).lines().map(|line| line.rsplit(' ').next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(hashes(&back.path), hashes(&input), "every byte of every file is back");
}

#[test]
fn a_renamed_source_distribution_keeps_its_packages() {
    let (folder, output) = (folder(), tempfile::tempdir().expect("folder"));
    let input = sdist(folder.path(), "");
    let edit = WheelEdit {
        name: Some("amd-rocm".to_owned()),
        drop: vec![MemberPattern::parse("long.bin").expect("pattern")],
        requirements: vec![RequirementEdit::Add(WrittenRequirement::parse("x>=1").expect("requirement"))],
        ..WheelEdit::default()
    };
    let (plan, edited) = edited(&input, &edit, output.path()).expect("edit");
    let listed = members(&edited.path);
    assert!(listed.contains("amd_rocm-7.0.0/src/amd_rocm.egg-info/PKG-INFO"), "{listed}");
    assert!(listed.contains("amd_rocm-7.0.0/src/rocm_sdk/_dist_info.py") && !listed.contains("long.bin"), "{listed}");
    let sources = read_member(&edited.path, "amd_rocm-7.0.0/src/amd_rocm.egg-info/SOURCES.txt");
    assert_eq!(sources, "setup.py\nsrc/amd_rocm.egg-info/PKG-INFO\n");
    let note = "a wheel built from it requires what setup.py say, and these are not changed";
    assert!(plan.notes.iter().any(|text| text == note), "{:?}", plan.notes);
}

#[test]
fn bad_source_distributions_are_named_and_leave_nothing() {
    let bad = |more: &str, words: &str| {
        let folder = folder();
        assert_refused(&sdist(folder.path(), more), &set("8.0"), words);
    };
    bad("put('rocm-7.0.0/../../evil')", "`..`");
    bad("put('/etc/evil')", "it is absolute");
    bad("put('other/x')", "several folders at the top: `rocm-7.0.0`, `other`");
    bad("put('rocm-7.0.0/setup.py')", "two members are named `rocm-7.0.0/setup.py`");
    bad("put('rocm-7.0.0/pipe', type=tarfile.FIFOTYPE)", "neither a file nor a folder nor a link");
    let folder = folder();
    let input = sdist(folder.path(), "");
    assert_refused(
        &input,
        &WheelEdit {
            drop: vec![
                MemberPattern::parse("/PKG-INFO").expect("pattern"),
                MemberPattern::parse("PKG-INFO").expect("pattern"),
            ],
            ..WheelEdit::default()
        },
        "`PKG-INFO` of",
    );
    let tags = WheelEdit {
        python_tags: Some(TagEdit::parse(TagPart::Python, "cp312").expect("tags")),
        ..WheelEdit::default()
    };
    assert_refused(&input, &tags, "is a source distribution and does not have tags");
    let whole = fs_err::read(&input).expect("read");
    for (bytes, words) in
        [(&whole[..whole.len() - 3], "cannot read"), (&whole[..40], "cannot read"), (b"", "cannot read")]
    {
        fs_err::write(&input, bytes).expect("write");
        assert_refused(&input, &set("8.0"), words);
    }
    let mut damaged = whole.clone();
    let last = damaged.len() - 6;
    damaged[last] ^= 1;
    fs_err::write(&input, damaged).expect("write");
    assert_refused(&input, &set("8.0"), "cannot read source distribution");
    let other = folder.path().join("rocm-9.0.tar.gz");
    fs_err::write(&other, whole).expect("write");
    assert_refused(&other, &set("8.0"), "its PKG-INFO is of `rocm` `7.0.0`, and the file is called `rocm-9.0`");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_edit_can_be_repeated_and_taken_back(
        version in "[1-9]\\.[0-9](\\.[0-9])?(rc[1-9])?(\\+[a-z][0-9])?",
        platform in "linux_[a-z]{3}9[a-z0-9_]{0,6}",
        build in proptest::option::of("[1-9][0-9]{0,2}"),
        requirement in "(scipy|torch)(>=[1-9]|)",
    ) {
        let folders = [(); 4].map(|()| folder());
        let input = wheel(&folders[0]);
        let edit = WheelEdit {
            platform_tags: Some(TagEdit::parse(TagPart::Platform, &platform).expect("tag")),
            build: build.map(|build| BuildEdit::parse(&build).expect("build")),
            requirements: vec![RequirementEdit::Add(WrittenRequirement::parse(&requirement).expect("requirement"))],
            pins: Pins::Follow,
            ..set(&version)
        };
        let back = WheelEdit {
            platform_tags: Some(TagEdit::parse(TagPart::Platform, "any").expect("tag")),
            build: Some(BuildEdit::Remove),
            requirements: vec![RequirementEdit::Remove("scipy".to_owned()), RequirementEdit::Remove("torch".to_owned())],
            pins: Pins::Follow,
            ..set("1.0")
        };
        let (_, once) = edited(&input, &edit, folders[1].path()).expect("edit");
        let result = Wheel::open(&once.path).expect("open");
        prop_assert_eq!(result.verify().expect("verify"), []);
        prop_assert!(result.name_agrees());
        prop_assert!(!planned(&once.path, &edit).expect("plan").changes_anything());
        let (_, normal) = edited(&once.path, &back, folders[2].path()).expect("back");
        let (before, after) = (Wheel::open(&input).expect("open"), Wheel::open(&normal.path).expect("open"));
        prop_assert_eq!(before.metadata().expect("text"), after.metadata().expect("text"));
        prop_assert_eq!(before.wheel().expect("text"), after.wheel().expect("text"));
        let (_, there) = edited(&normal.path, &edit, folders[3].path()).expect("there");
        prop_assert!(fs_err::read(&there.path).expect("read") == fs_err::read(&once.path).expect("read"));
    }
}
