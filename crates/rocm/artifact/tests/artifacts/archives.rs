//! Archives have the same bytes each time, and other programs can read them.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use rocwheel_artifact::Error;
use rocwheel_artifact::archive::{self, ArchiveOptions, ArchiveState, Compression, PackedArtifact};
use rocwheel_fixtures::{Impatient, names};
use rocwheel_progress::{Exit, Hint as _, Silent};

use crate::fixture::{Artifact, noise, rich, snapshot};

const BOTH: [Compression; 2] = [Compression::Zstd, Compression::Xz];

fn options(compression: Compression, threads: usize) -> ArchiveOptions {
    ArchiveOptions { compression, level: compression.default_level(), epoch: 315_532_800, threads }
}

fn write(artifact: &Artifact, output: &Path, options: ArchiveOptions) -> PackedArtifact {
    let plan = archive::plan(std::slice::from_ref(&artifact.root), output, options, &Silent).unwrap();
    archive::write(&plan, &Silent).unwrap().swap_remove(0)
}

#[test]
fn threads_and_directory_order_do_not_change_the_bytes() {
    let temporary = tempfile::tempdir().unwrap();
    let huge = noise(1 << 16).repeat(26 * 16);
    for compression in BOTH {
        let mut digests = Vec::new();
        for (index, threads) in [1, 2, 5].into_iter().enumerate() {
            let place = temporary.path().join(format!("{compression:?}{threads}"));
            let artifact = rich(&place, index % 2 == 1);
            // The file spans several jobs of zstd and two blocks of xz.
            let artifact = artifact.file("core/stage/huge", &huge);
            for path in ["core/stage/huge", "core/stage/lib/part03.txt"] {
                let mode = if index % 2 == 1 { 0o400 } else { 0o664 };
                fs_err::set_permissions(artifact.path(path), std::fs::Permissions::from_mode(mode)).unwrap();
            }
            let level = if compression == Compression::Xz { 0 } else { 3 };
            let written = write(&artifact, &place, ArchiveOptions { level, ..options(compression, threads) });
            assert_eq!(written.compressed, fs_err::metadata(&written.path).unwrap().len());
            digests.push(written.digest);
        }
        digests.dedup();
        assert_eq!(digests.len(), 1, "{compression:?}");
    }
}

#[test]
fn sha256sum_and_python_agree() {
    let temporary = tempfile::tempdir().unwrap();
    let artifact = rich(&temporary.path().join("in"), false);
    let output = temporary.path().join("out");
    let zstd = write(&artifact, &output, options(Compression::Zstd, 2));
    let xz = write(&artifact, &output, options(Compression::Xz, 2));
    for written in [&zstd, &xz] {
        let checked = Command::new("sha256sum").arg("-c").arg(&written.sidecar).current_dir(&output).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let expected = format!("{}: OK\n", written.path.file_name().unwrap().to_str().unwrap());
        assert_eq!(String::from_utf8_lossy(&checked.stdout), expected);
        assert_eq!(fs_err::metadata(&written.path).unwrap().mode() & 0o777, 0o644);
        assert_eq!((written.files, written.raw), (50, 3_145_728 + 5_500 + 25), "{written:?}");
    }
    let script = r"
import sys, tarfile
with tarfile.open(sys.argv[1]) as archive:
    for member in archive:
        print(member.name, oct(member.mode), member.type.decode(), member.linkname, member.size, member.mtime,
              member.uid, member.gid, repr(member.uname), repr(member.gname))
        if member.isreg():
            assert len(archive.extractfile(member).read()) == member.size
";
    let python = Command::new("python3").args(["-c", script]).arg(&xz.path).output().unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let lines = String::from_utf8(python.stdout).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines[0], "artifact_manifest.txt 0o644 0  37 315532800 0 0 '' ''");
    assert_eq!(lines[1], "core/stage/bin 0o755 5  0 315532800 0 0 '' ''");
    assert_eq!(lines[2], "core/stage/bin/another 0o755 0  10 315532800 0 0 '' ''");
    assert_eq!(lines[3], "core/stage/bin/tool 0o755 1 core/stage/bin/another 0 315532800 0 0 '' ''");
    assert!(lines.contains(&"core/stage/sbin/tool 0o755 1 core/stage/bin/another 0 315532800 0 0 '' ''"));
    assert!(lines.contains(&"core/stage/strange 0o777 2 .//lib/./libbig.so 0 315532800 0 0 '' ''"));
    assert!(lines.contains(&"core/stage/nothing 0o755 5  0 315532800 0 0 '' ''"));
    assert!(lines.contains(&"other/stage/include/naïve.h 0o644 0  11 315532800 0 0 '' ''"));
    let long = format!("share/{}/{}/end.txt", "d".repeat(90), "e".repeat(120));
    assert!(lines.contains(&format!("core/stage/{long} 0o644 0  4 315532800 0 0 '' ''").as_str()));
    assert!(lines.contains(&format!("core/stage/long 0o777 2 {long} 0 315532800 0 0 '' ''").as_str()));
}

#[test]
fn unpacking_and_packing_again_gives_the_same_archive() {
    let temporary = tempfile::tempdir().unwrap();
    let artifact = rich(&temporary.path().join("in"), false);
    for compression in BOTH {
        let first = write(&artifact, &temporary.path().join("first"), options(compression, 2));
        let parent = temporary.path().join(format!("{compression:?}"));
        fs_err::create_dir(&parent).unwrap();
        let unpacked = Artifact { root: parent.join("core_lib_generic") };
        archive::unpack(&first.path, &unpacked.root, &Silent).unwrap();
        let second = write(&unpacked, &temporary.path().join("second"), options(compression, 1));
        assert_eq!(first.digest, second.digest);
        // The three names still belong to one file.
        assert_eq!(fs_err::metadata(unpacked.path("core/stage/sbin/tool")).unwrap().nlink(), 3);
    }
}

fn update(artifact: &Artifact, output: &Path, options: ArchiveOptions) -> PackedArtifact {
    let plan = archive::plan(std::slice::from_ref(&artifact.root), output, options, &Silent).unwrap();
    archive::update(&plan, &Silent).unwrap().swap_remove(0)
}

/// Makes the record of the one archive look as if it was written when all files had settled.
fn settle(output: &Path) -> std::path::PathBuf {
    let mut entries = fs_err::read_dir(output.join(".rocwheel-archives")).unwrap();
    let record = entries.next().unwrap().unwrap().path();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(99);
    fs_err::File::options().write(true).open(&record).unwrap().file().set_modified(later).unwrap();
    record
}

#[test]
fn an_archive_is_written_again_when_anything_changed() {
    let temporary = tempfile::tempdir().unwrap();
    let artifact = rich(&temporary.path().join("in"), false);
    let (output, options) = (temporary.path().join("out"), options(Compression::Zstd, 2));
    let first = update(&artifact, &output, options);
    assert_eq!(first.state, ArchiveState::Written);
    assert_eq!(update(&artifact, &output, options).state, ArchiveState::Written, "the files are too new");
    settle(&output);
    let kept = update(&artifact, &output, ArchiveOptions { threads: 1, ..options });
    assert_eq!(kept, PackedArtifact { state: ArchiveState::Unchanged, ..first.clone() });

    let changes: [(&str, &dyn Fn()); 7] = [
        ("content", &|| fs_err::write(artifact.path("core/stage/lib/part03.txt"), "3\n".repeat(50)).unwrap()),
        ("mode", &|| {
            let mode = std::fs::Permissions::from_mode(0o755);
            fs_err::set_permissions(artifact.path("core/stage/empty"), mode).unwrap();
        }),
        ("name", &|| {
            let (old, new) = (artifact.path("core/stage/empty"), artifact.path("core/stage/vacant"));
            fs_err::rename(old, new).unwrap();
        }),
        ("archive", &|| fs_err::write(&first.path, "cut").unwrap()),
        ("no archive", &|| fs_err::remove_file(&first.path).unwrap()),
        ("sidecar", &|| fs_err::write(&first.sidecar, format!("{}\n", "0".repeat(64))).unwrap()),
        ("record", &|| {
            let record = settle(&output);
            let mut bytes = fs_err::read(&record).unwrap();
            bytes[99] ^= 1;
            fs_err::write(&record, bytes).unwrap();
        }),
    ];
    for (name, change) in changes {
        change();
        settle(&output);
        let again = update(&artifact, &output, options);
        assert_eq!(again.state, ArchiveState::Written, "{name}");
        let plain = write(&artifact, &temporary.path().join("plain"), options);
        assert_eq!((again.digest, again.raw), (plain.digest, plain.raw), "{name}");
        settle(&output);
        assert_eq!(update(&artifact, &output, options).state, ArchiveState::Unchanged, "{name}");
    }
    let level = ArchiveOptions { level: 1, ..options };
    assert_eq!(update(&artifact, &output, level).state, ArchiveState::Written);
    settle(&output);
    let epoch = ArchiveOptions { epoch: options.epoch + 2, ..level };
    assert_eq!(update(&artifact, &output, epoch).state, ArchiveState::Written);
}

#[test]
fn several_artifacts_make_one_archive_each() {
    let temporary = tempfile::tempdir().unwrap();
    let b = Artifact::new(temporary.path(), "b_lib_generic", &["b"]).file("b/x", "1");
    let a = Artifact::new(temporary.path(), "a_lib_generic", &[]);
    let output = temporary.path().join("deep/out");
    let both = [b.root.clone(), a.root.clone()];
    let plan = archive::plan(&both, &output, options(Compression::Zstd, 1), &Silent).unwrap();
    let planned: Vec<_> = plan.archives.iter().map(|archive| (archive.artifact.to_string(), archive.files)).collect();
    assert_eq!(planned, [("a_lib_generic".to_owned(), 0), ("b_lib_generic".to_owned(), 1)]);
    assert!(!output.exists(), "planning writes nothing");
    assert!(serde_json::to_string(&plan).unwrap().contains(r#""compression":"zstd""#));
    archive::write(&plan, &Silent).unwrap();
    archive::write(&plan, &Silent).unwrap();
    assert_eq!(
        names(&output),
        [
            "a_lib_generic.tar.zst",
            "a_lib_generic.tar.zst.sha256sum",
            "b_lib_generic.tar.zst",
            "b_lib_generic.tar.zst.sha256sum"
        ]
    );
    let twice = [b.root.clone(), b.root.clone()];
    let error = archive::plan(&twice, &output, options(Compression::Zstd, 1), &Silent).unwrap_err();
    assert!(error.to_string().starts_with("artifact `b_lib_generic` is given twice"), "{error}");
}

#[test]
fn names_with_a_newline_get_an_escaped_sidecar() {
    let temporary = tempfile::tempdir().unwrap();
    let artifact = Artifact::new(temporary.path(), "odd\\na\nme_lib_generic", &[]);
    let written = write(&artifact, temporary.path(), options(Compression::Zstd, 1));
    let checked =
        Command::new("sha256sum").arg("-c").arg(&written.sidecar).current_dir(temporary.path()).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert_eq!(archive::verify_digest(&written.path, &Silent).unwrap(), written.digest);
}

#[test]
fn bad_requests() {
    let temporary = tempfile::tempdir().unwrap();
    let artifact = Artifact::new(temporary.path(), "a_lib_generic", &["a"]).file("b", "outside");
    let plan = |level, compression| {
        let roots = [artifact.root.clone()];
        archive::plan(&roots, temporary.path(), ArchiveOptions { level, ..options(compression, 1) }, &Silent)
    };
    let error = plan(10, Compression::Xz).unwrap_err();
    assert_eq!(error.to_string(), "there is no compression level 10: levels go from 0 to 9");
    assert_eq!(error.exit(), Exit::Usage);
    let error = plan(0, Compression::Zstd).unwrap_err().to_string();
    assert!(error.starts_with("there is no compression level 0"), "{error}");
    let error = plan(3, Compression::Zstd).unwrap_err().to_string();
    assert!(error.contains("has files that artifact_manifest.txt does not cover"), "{error}");
}

#[test]
fn a_file_that_changes_meanwhile_is_an_error() {
    let temporary = tempfile::tempdir().unwrap();
    let artifact = Artifact::new(temporary.path(), "a_lib_generic", &["a"]).file("a/x", "12345");
    let output = temporary.path().join("out");
    for changed in ["1234", "123456"] {
        fs_err::write(artifact.path("a/x"), "12345").unwrap();
        let roots = [artifact.root.clone()];
        let plan = archive::plan(&roots, &output, options(Compression::Zstd, 1), &Silent).unwrap();
        fs_err::write(artifact.path("a/x"), changed).unwrap();
        let error = archive::write(&plan, &Silent).unwrap_err();
        assert!(matches!(error, Error::WriteArchive { .. }), "{error}");
        assert_eq!(names(&output), [""; 0]);
    }
}

#[test]
fn an_interruption_keeps_the_last_archive() {
    let temporary = tempfile::tempdir().unwrap();
    let artifact = Artifact::new(temporary.path(), "a_lib_generic", &["a"]).file("a/x", noise(3 << 20));
    let output = temporary.path().join("out");
    let before = write(&artifact, &output, options(Compression::Zstd, 1));
    let artifact = artifact.file("a/x", "other").file("a/y", noise(3 << 20));
    let roots = [artifact.root.clone()];
    let plan = archive::plan(&roots, &output, options(Compression::Zstd, 1), &Silent).unwrap();
    for questions in 0..6 {
        let error = archive::write(&plan, &Impatient::asked(questions)).unwrap_err();
        assert!(matches!(error, Error::Interrupted(_)), "{error}");
        assert_eq!(error.exit(), Exit::Interrupted);
        assert_eq!(names(&output), ["a_lib_generic.tar.zst", "a_lib_generic.tar.zst.sha256sum"]);
        assert_eq!(archive::verify_digest(&before.path, &Silent).unwrap(), before.digest);
    }
    let after = archive::write(&plan, &Impatient::asked(1000)).unwrap();
    assert_ne!(after[0].digest, before.digest);
}

#[test]
fn archives_of_python_are_read() {
    let temporary = tempfile::tempdir().unwrap();
    let artifact = rich(&temporary.path().join("in"), false);
    let archive = temporary.path().join("core_lib_generic.tar.xz");
    // This is TheRock's way: the manifest, then every entry by itself, in no particular order.
    let script = r"
import os, sys, tarfile
root, output = sys.argv[1:]
with tarfile.open(output, 'x:xz', preset=0) as archive:
    archive.add(os.path.join(root, 'artifact_manifest.txt'), arcname='artifact_manifest.txt')
    for basedir in ['core/stage', 'other/stage']:
        for directory, directories, files in os.walk(os.path.join(root, basedir), topdown=False):
            for name in directories + files:
                path = os.path.join(directory, name)
                archive.add(path, arcname=os.path.relpath(path, root), recursive=False)
";
    let python = Command::new("python3").args(["-c", script]).arg(&artifact.root).arg(&archive).output().unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let unpacked = temporary.path().join("unpacked");
    archive::unpack(&archive, &unpacked, &Silent).unwrap();
    assert_eq!(snapshot(&unpacked), snapshot(&artifact.root));
}
