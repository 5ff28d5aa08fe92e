//! `Catalog::open` on directories, archives and the files beside them.

use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rocwheel_artifact::archive::{self, ArchiveOptions, Compression, Scratch};
use rocwheel_artifact::{ArtifactForm, Catalog, DistInfo, EntryKind, Error, Manifest, list};
use rocwheel_fixtures::{Impatient, names};
use rocwheel_progress::{Hint as _, Reporter, Silent, Unit};

use crate::fixture::{Artifact, Recorder, manifest, noise, raw, raw_tar, rich, snapshot, zstd};

fn open(directory: &Path) -> Result<Catalog, Error> {
    let scratch = tempfile::tempdir().unwrap();
    Catalog::open(directory, scratch.path(), &Silent)
}

fn pack(directories: &[&Artifact], output: &Path, compression: Compression) {
    let options = ArchiveOptions { compression, level: compression.default_level(), epoch: 315_532_800, threads: 2 };
    let directories: Vec<_> = directories.iter().map(|artifact| artifact.root.clone()).collect();
    archive::write(&archive::plan(&directories, output, options, &Silent).unwrap(), &Silent).unwrap();
}

/// Formats a catalog as text, without the path it was read from.
fn describe(catalog: &Catalog) -> String {
    let artifacts = catalog.artifacts.iter().map(|artifact| {
        let entries = artifact.entries.iter().map(|entry| format!("{} {} {:?}", entry.basedir, entry.path, entry.kind));
        let entries: Vec<_> = entries.collect();
        format!("{} {:?}\n{}\n", artifact.name, artifact.basedirs, entries.join("\n"))
    });
    artifacts.collect()
}

#[test]
fn directories_and_archives_read_the_same() {
    let temporary = tempfile::tempdir().unwrap();
    let (plain, mixed, scratch) = ("plain", "mixed", "scratch");
    let [plain, mixed, scratch] = [plain, mixed, scratch].map(|name| temporary.path().join(name));
    let core = rich(&plain, false);
    let blas = Artifact::new(&plain, "blas_lib_gfx942:xnack+", &["blas/stage"]).file("blas/stage/lib/a.co", "x");
    let empty = Artifact::new(&plain, "none_doc_generic", &[]);
    let expected = Catalog::open(&plain, &scratch, &Silent).unwrap();

    pack(&[&core], &mixed, Compression::Zstd);
    pack(&[&blas], &mixed, Compression::Xz);
    Artifact::new(&mixed, "none_doc_generic", &[]);
    fs_err::write(mixed.join("core_lib_generic.fprint"), "abc").unwrap();
    fs_err::write(mixed.join("therock-dist.tar.gz"), "abc").unwrap();
    fs_err::create_dir(mixed.join("logs")).unwrap();
    fs_err::create_dir(mixed.join("a_b_c")).unwrap();
    let recorder = Recorder::default();
    let catalog = Catalog::open(&mixed, &scratch, &recorder).unwrap();
    assert_eq!(describe(&catalog), describe(&expected));
    assert_eq!(*recorder.stages.lock().unwrap(), ["Checking archives", "Unpacking archives", "Reading artifacts"]);
    let forms: Vec<bool> = catalog.artifacts.iter().map(|artifact| artifact.form == ArtifactForm::Directory).collect();
    assert_eq!(forms, [false, false, true]);
    let ignored: Vec<_> = catalog
        .ignored
        .iter()
        .map(|ignored| (ignored.path.file_name().unwrap().to_str().unwrap(), ignored.reason.as_str()))
        .collect();
    assert_eq!(
        ignored,
        [
            ("a_b_c", "a directory that is no artifact"),
            ("blas_lib_gfx942:xnack+.tar.xz.sha256sum", "the sidecar of an archive"),
            ("core_lib_generic.fprint", "a build fingerprint"),
            ("core_lib_generic.tar.zst.sha256sum", "the sidecar of an archive"),
            ("logs", "a directory that is no artifact"),
            ("therock-dist.tar.gz", "a file that is no artifact archive"),
        ]
    );
    drop(empty);
    // Unpacked files have the bytes, links and permissions of the originals.
    let unpacked = catalog.get("core", "lib", "generic").unwrap();
    assert_eq!(snapshot(&unpacked.root.join("core")), snapshot(&core.root.join("core")));
    let tool = unpacked.entries.iter().find(|entry| entry.path == "bin/tool").unwrap();
    assert_eq!(tool.kind, EntryKind::File { size: 10, executable: true });
    assert_eq!(fs_err::read(unpacked.path(tool)).unwrap(), b"#!/bin/sh\n");

    // A second run unpacks nothing.
    let recorder = Recorder::default();
    let again = Catalog::open(&mixed, &scratch, &recorder).unwrap();
    assert_eq!(*recorder.stages.lock().unwrap(), ["Checking archives", "Reading artifacts"]);
    assert_eq!(again.artifacts[1].root, catalog.artifacts[1].root);

    // Without the mark that is written last, the unpacked directory is not used.
    let place = unpacked.root.parent().unwrap();
    fs_err::remove_file(place.join("complete")).unwrap();
    fs_err::remove_file(unpacked.path(tool)).unwrap();
    assert_eq!(describe(&Catalog::open(&mixed, &scratch, &Silent).unwrap()), describe(&expected));
}

#[test]
fn what_an_earlier_run_unpacked_is_not_written_again() {
    use std::os::unix::fs::MetadataExt as _;

    let temporary = tempfile::tempdir().unwrap();
    let [plain, packed] = ["plain", "packed"].map(|name| temporary.path().join(name));
    let night = |text: &str| {
        let _ = fs_err::remove_dir_all(&plain);
        let lib = Artifact::new(&plain, "blas_lib_gfx942", &["blas/stage"])
            .file("blas/stage/lib/same.co", "the same bytes every night")
            .file("blas/stage/lib/changed.co", text);
        // A label that begins with the other one.
        let dcgpu = Artifact::new(&plain, "blas_lib_gfx942-dcgpu", &["blas/stage"])
            .file("blas/stage/lib/other.co", "the same bytes every night");
        let _ = fs_err::remove_dir_all(&packed);
        pack(&[&lib, &dcgpu], &packed, Compression::Zstd);
    };
    let files = |scratch: &Scratch| -> Vec<(PathBuf, u64, String)> {
        let catalog = Catalog::open_over(&packed, scratch, &Silent).unwrap();
        let lib = catalog.get("blas", "lib", "gfx942").unwrap();
        let paths = lib.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. }));
        let paths = paths.map(|entry| lib.path(entry));
        let described = paths.map(|path| {
            let inode = fs_err::metadata(&path).unwrap().ino();
            let text = fs_err::read_to_string(&path).unwrap();
            (path, inode, text)
        });
        described.collect()
    };
    let scratch = |name: &str| Scratch::new(temporary.path().join(name));
    night("first");
    let first = files(&scratch("one"));
    night("second");
    // In the same scratch directory, and in another one that comes after it.
    let second = files(&scratch("one"));
    let other = files(&scratch("two").after(temporary.path().join("none")).after(temporary.path().join("one")));
    for later in [&second, &other] {
        assert_eq!(later[0].2, "second");
        assert_eq!(later[1].2, "the same bytes every night");
        assert_ne!(later[0].1, first[0].1);
        assert_eq!(later[1].1, first[1].1, "a second name of the first file");
        assert_ne!(later[1].0, first[1].0);
    }
    assert_eq!(first[0].2, "first");
    assert_eq!(fs_err::read_to_string(&first[0].0).unwrap(), "first", "the earlier tree is left alone");

    // An earlier tree with other bytes, with a link or without the mark gives the right files, too.
    fs_err::write(&second[1].0, "the same bytes every nighT").unwrap();
    fs_err::remove_file(&second[0].0).unwrap();
    rocwheel_system::symlink(&first[0].0, &second[0].0).unwrap();
    let spoilt = files(&scratch("three").after(temporary.path().join("one")));
    let texts = |found: &[(PathBuf, u64, String)]| found.iter().map(|file| file.2.clone()).collect::<Vec<_>>();
    assert_eq!(texts(&spoilt), texts(&other));

    // So does the directory of the archive itself, after any change.
    let again = files(&scratch("one"));
    assert_eq!(texts(&again), texts(&other));
    fs_err::write(again[1].0.with_file_name("added.co"), "x").unwrap();
    assert_eq!(texts(&files(&scratch("one"))), texts(&other));
    fs_err::remove_file(&again[1].0).unwrap();
    let again = files(&scratch("one"));
    assert_eq!(texts(&again), texts(&other));
    let time = fs_err::metadata(&again[1].0).unwrap().modified().unwrap();
    fs_err::write(&again[1].0, "the same bytes every nighT").unwrap();
    fs_err::OpenOptions::new().write(true).open(&again[1].0).unwrap().into_file().set_modified(time).unwrap();
    // No file tells of this change. The same archive is not unpacked again, unless that is wanted.
    let after = |name: &str| scratch(name).after(temporary.path().join("one"));
    assert_eq!(files(&after("four"))[1].2, "the same bytes every nighT");
    assert_eq!(texts(&files(&after("five").compare())), texts(&other));
    assert_eq!(texts(&files(&scratch("one").anew())), texts(&other));
}

#[test]
fn links_at_the_top_are_what_they_lead_to() {
    let temporary = tempfile::tempdir().unwrap();
    let [plain, store, linked] = ["plain", "store", "linked"].map(|name| temporary.path().join(name));
    let core = rich(&plain, false);
    let blas = Artifact::new(&plain, "blas_lib_gfx942", &["blas/stage"]).file("blas/stage/lib/a.co", "x");
    pack(&[&core], &store, Compression::Zstd);
    fs_err::create_dir(&linked).unwrap();
    // Content-addressed stores have files whose names are meaningless.
    fs_err::rename(store.join("core_lib_generic.tar.zst"), store.join("4711")).unwrap();
    let link = |target: &Path, name: &str| rocwheel_system::symlink(target, linked.join(name)).unwrap();
    link(&store.join("4711"), "core_lib_generic.tar.zst");
    link(&store.join("core_lib_generic.tar.zst.sha256sum"), "core_lib_generic.tar.zst.sha256sum");
    link(&blas.root, "blas_lib_gfx942");
    link(Path::new("nowhere"), "notes");
    let catalog = open(&linked).unwrap();
    assert_eq!(describe(&catalog), describe(&open(&plain).unwrap()));
    let listing = list::list(&linked, &Silent).unwrap();
    assert_eq!(listing.artifacts.len(), 2);
    assert_eq!(listing.artifacts[1].digest, list::DigestState::Verified);
    let output = temporary.path().join("packed");
    pack(&[&Artifact { root: linked.join("blas_lib_gfx942") }], &output, Compression::Xz);
    assert_eq!(open(&output).unwrap().artifacts.len(), 1);

    link(Path::new("nowhere"), "rand_lib_generic");
    let error = open(&linked).unwrap_err();
    assert!(error.to_string().contains("rand_lib_generic` is named like an artifact, but is a link"), "{error}");
}

#[test]
fn what_is_named_like_an_artifact_and_not_read_is_reported() {
    let temporary = tempfile::tempdir().unwrap();
    rich(temporary.path(), false);
    fs_err::create_dir(temporary.path().join("a_b_c")).unwrap();
    fs_err::create_dir(temporary.path().join("logs")).unwrap();
    for file in ["prim_dev_generic", "rand_lib_generic.tar.gz", "core_lib_generic.log", "notes.txt"] {
        fs_err::write(temporary.path().join(file), "").unwrap();
    }
    let recorder = Recorder::default();
    let scratch = tempfile::tempdir().unwrap();
    Catalog::open(temporary.path(), scratch.path(), &recorder).unwrap();
    let warnings = recorder.warnings.lock().unwrap();
    let named = |warning: &String| warning.split('`').nth(1).unwrap().rsplit('/').next().unwrap().to_owned();
    let names: Vec<String> = warnings.iter().map(named).collect();
    assert_eq!(names, ["a_b_c", "prim_dev_generic", "rand_lib_generic.tar.gz"], "{warnings:?}");
}

#[test]
fn a_changed_archive_is_refused() {
    let temporary = tempfile::tempdir().unwrap();
    let core = rich(&temporary.path().join("plain"), false);
    let packed = temporary.path().join("packed");
    pack(&[&core], &packed, Compression::Zstd);
    let (archive, sidecar) =
        (packed.join("core_lib_generic.tar.zst"), packed.join("core_lib_generic.tar.zst.sha256sum"));
    let line = fs_err::read_to_string(&sidecar).unwrap();
    let digest = line.split_whitespace().next().unwrap().to_owned();
    assert_eq!(line, format!("{digest}  core_lib_generic.tar.zst\n"));

    // TheRock writes the bare digest.
    fs_err::write(&sidecar, format!("{}\n", digest.to_uppercase())).unwrap();
    open(&packed).unwrap();
    fs_err::remove_file(&sidecar).unwrap();
    open(&packed).unwrap();

    let other = "0".repeat(64);
    fs_err::write(&sidecar, &other).unwrap();
    let error = open(&packed).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("`{}` has the SHA-256 digest `{digest}`, but its sidecar says `{other}`", archive.display())
    );
    assert!(error.hint().unwrap().starts_with("fetch the archive again"));
    for text in ["", "\n", "abc  core_lib_generic.tar.zst\n"] {
        fs_err::write(&sidecar, text).unwrap();
        let error = open(&packed).unwrap_err().to_string();
        assert!(error.ends_with("does not begin with a SHA-256 digest"), "{text}: {error}");
    }
}

#[test]
fn a_directory_wins_over_its_archive() {
    let temporary = tempfile::tempdir().unwrap();
    let core = rich(temporary.path(), false);
    pack(&[&core], temporary.path(), Compression::Zstd);
    pack(&[&core], temporary.path(), Compression::Xz);
    let catalog = open(temporary.path()).unwrap();
    assert_eq!(catalog.artifacts.len(), 1);
    assert_eq!(catalog.artifacts[0].form, ArtifactForm::Directory);
    let reasons: Vec<_> = catalog.ignored.iter().map(|ignored| ignored.reason.as_str()).collect();
    assert_eq!(reasons.iter().filter(|reason| **reason == "the directory of the same name is used").count(), 2);

    fs_err::remove_dir_all(&core.root).unwrap();
    let error = open(temporary.path()).unwrap_err();
    assert!(error.to_string().starts_with("artifact `core_lib_generic` is given twice"), "{error}");
}

#[test]
fn names_that_were_meant_as_artifacts() {
    for name in ["core_hip_lib_generic", "core_lib", "core_lib_"] {
        let temporary = tempfile::tempdir().unwrap();
        Artifact::new(temporary.path(), name, &[]);
        let error = open(temporary.path()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "`{}` is not named like an artifact: `{name}` does not have exactly three fields separated by `_`",
                temporary.path().join(name).display()
            )
        );
        assert!(error.hint().unwrap().contains("core-hip_lib_generic"));
    }
    let temporary = tempfile::tempdir().unwrap();
    fs_err::write(temporary.path().join("core_hip_lib_generic.tar.xz"), "").unwrap();
    let error = open(temporary.path()).unwrap_err().to_string();
    assert!(error.contains("is not named like an artifact: `core_hip_lib_generic`"), "{error}");
}

#[test]
fn missing_and_lying_manifests() {
    let temporary = tempfile::tempdir().unwrap();
    let artifact = Artifact::new(temporary.path(), "core_lib_generic", &["a/stage", "gone/stage"])
        .file("a/stage/x", "x")
        .file("b/stage/y", "y")
        .file("loose", "z");
    let error = open(temporary.path()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "artifact `core_lib_generic` at `{}` has files that artifact_manifest.txt does not cover: 2, first `b/stage/y`",
            artifact.root.display()
        )
    );
    fs_err::write(artifact.root.join("artifact_manifest.txt"), "a/stage\n../b\n").unwrap();
    let error = open(temporary.path()).unwrap_err().to_string();
    assert!(error.ends_with("lists `../b`, which is not a plain relative path"), "{error}");
    fs_err::write(artifact.root.join("artifact_manifest.txt"), "a\na/stage\n").unwrap();
    let error = open(temporary.path()).unwrap_err().to_string();
    assert!(error.ends_with("lists `a/stage` inside `a`, so its files have two places"), "{error}");
    fs_err::remove_file(artifact.root.join("artifact_manifest.txt")).unwrap();
    let error = open(temporary.path()).unwrap_err();
    assert!(error.to_string().contains("has no artifact_manifest.txt") && error.hint().is_some());
}

#[test]
fn what_no_artifact_may_hold() {
    let temporary = tempfile::tempdir().unwrap();
    let artifact = Artifact::new(temporary.path(), "core_lib_generic", &["stage"]).link("stage/lib/x", "/etc/passwd");
    let error = open(temporary.path()).unwrap_err();
    assert!(error.to_string().starts_with("the link `stage/lib/x` in "), "{error}");
    fs_err::remove_file(artifact.path("stage/lib/x")).unwrap();

    // A basedir that is a link would lead elsewhere.
    let elsewhere =
        Artifact::new(temporary.path(), "else_lib_generic", &["real"]).link("linked", "real").file("real/x", "");
    fs_err::write(elsewhere.root.join("artifact_manifest.txt"), "linked\nreal\n").unwrap();
    let error = open(temporary.path()).unwrap_err().to_string();
    assert!(error.ends_with("does not cover: 1, first `linked`"), "{error}");
    fs_err::remove_dir_all(&elsewhere.root).unwrap();

    let socket = std::os::unix::net::UnixListener::bind(artifact.path("stage/socket")).unwrap();
    let error = open(temporary.path()).unwrap_err();
    assert!(
        error.to_string().ends_with("stage/socket` is a socket; artifacts hold files, directories and symbolic links")
    );
    drop(socket);
    fs_err::remove_file(artifact.path("stage/socket")).unwrap();

    let name = artifact.root.join("stage").join(std::ffi::OsStr::from_bytes(b"latin\xe9"));
    fs_err::write(&name, "").unwrap();
    assert!(open(temporary.path()).unwrap_err().to_string().ends_with("is not UTF-8"));
    fs_err::remove_file(&name).unwrap();
    open(temporary.path()).unwrap();
}

#[test]
fn unknown_components_are_kept_with_a_warning() {
    let temporary = tempfile::tempdir().unwrap();
    Artifact::new(temporary.path(), "core_bits_generic", &["stage"]).file("stage/x", "");
    let recorder = Recorder::default();
    let catalog = Catalog::open(temporary.path(), temporary.path(), &recorder).unwrap();
    assert_eq!(catalog.artifacts[0].name.component, "bits");
    assert_eq!(
        *recorder.warnings.lock().unwrap(),
        ["artifact `core_bits_generic` has the unknown component `bits` (known: lib, run, dbg, dev, doc, test)"]
    );
}

#[test]
fn empty_and_absent_directories() {
    let temporary = tempfile::tempdir().unwrap();
    assert!(open(temporary.path()).unwrap_err().to_string().starts_with("there is no artifact in"));
    let error = open(&temporary.path().join("absent")).unwrap_err();
    assert!(error.to_string().contains("absent"), "{error}");
}

#[test]
fn collisions_name_all_owners() {
    let temporary = tempfile::tempdir().unwrap();
    Artifact::new(temporary.path(), "a_lib_generic", &["one/stage", "two/stage"])
        .file("one/stage/lib/dup.so", "A")
        .file("two/stage/lib/dup.so", "B")
        .file("one/stage/llvm/x", "")
        .file("one/stage/lib/own", "");
    Artifact::new(temporary.path(), "b_lib_generic", &["b"]).link("b/llvm", "lib/llvm").file("b/lib/other", "");
    let catalog = open(temporary.path()).unwrap();
    let collisions: Vec<_> = catalog
        .collisions()
        .into_iter()
        .map(|collision| {
            let owners: Vec<_> = collision.owners.iter().map(ToString::to_string).collect();
            format!("{}: {}", collision.path, owners.join(", "))
        })
        .collect();
    assert_eq!(
        collisions,
        [
            "lib/dup.so: `a_lib_generic` (basedir `one/stage`), `a_lib_generic` (basedir `two/stage`)",
            "llvm: `a_lib_generic` (basedir `one/stage`), `b_lib_generic` (basedir `b`)",
        ]
    );
}

#[test]
fn the_manifest_of_the_build() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = "base/aux-overlay/stage/share/therock";
    let base = Artifact::new(temporary.path(), "base_lib_generic", &["base/aux-overlay/stage"])
        .file(&format!("{directory}/dist_info.json"), r#"{"dist_amdgpu_targets": "gfx942;gfx1100"}"#);
    let catalog = open(temporary.path()).unwrap();
    let error = Manifest::find(&catalog).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no therock_manifest.json: artifact `base_lib_generic` does not hold \
         `base_lib_generic/base/aux-overlay/stage/share/therock/therock_manifest.json`"
    );
    assert_eq!(DistInfo::find(&catalog).unwrap().unwrap().targets(), ["gfx942", "gfx1100"]);
    let base = base.file(&format!("{directory}/therock_manifest.json"), r#"{"rocm_package_version": "6.4.0"}"#);
    let catalog = open(temporary.path()).unwrap();
    assert_eq!(Manifest::find(&catalog).unwrap().rocm_package_version.as_deref(), Some("6.4.0"));
    let base = base.file(&format!("{directory}/therock_manifest.json"), "{");
    let error = Manifest::find(&catalog).unwrap_err();
    assert!(error.to_string().starts_with("could not understand `") && error.to_string().contains(directory));
    drop(base);
}

#[test]
fn an_interruption_leaves_nothing_half_unpacked() {
    let temporary = tempfile::tempdir().unwrap();
    let core = rich(&temporary.path().join("plain"), false);
    let (packed, scratch) = (temporary.path().join("packed"), temporary.path().join("scratch"));
    pack(&[&core], &packed, Compression::Zstd);
    let mut finished = 0;
    for questions in (0..400).step_by(7) {
        match Catalog::open(&packed, &scratch, &Impatient::asked(questions)) {
            Ok(_) => finished += 1,
            Err(error) => assert!(matches!(error, Error::Interrupted(_)), "{questions}: {error}"),
        }
        if scratch.exists() {
            let left = names(&scratch);
            assert!(left.iter().all(|name| name.starts_with("core_lib_generic-")), "{questions}: {left:?}");
        }
    }
    assert!(finished > 0);
}

/// Calls `then` once while archives are unpacked, after this many bytes of them were read.
struct Meddler<F> {
    left: Mutex<Option<u64>>,
    begun: AtomicBool,
    then: F,
}

impl<F: Fn() + Send + Sync> Meddler<F> {
    fn after(bytes: u64, then: F) -> Self {
        Self { left: Mutex::new(Some(bytes)), begun: AtomicBool::new(false), then }
    }
}

impl<F: Fn() + Send + Sync> Reporter for Meddler<F> {
    fn begin(&self, stage: &str, _total: Option<u64>, _unit: Unit) {
        self.begun.store(stage == "Unpacking archives", Ordering::Relaxed);
        self.advance(0);
    }
    fn advance(&self, amount: u64) {
        let mut left = self.left.lock().unwrap();
        if let Some(bytes) = *left
            && self.begun.load(Ordering::Relaxed)
        {
            *left = bytes.checked_sub(amount).filter(|bytes| *bytes > 0);
            if left.is_none() {
                (self.then)();
            }
        }
    }
    fn end(&self) {}
    fn warn(&self, _message: &str) {}
    fn interrupted(&self) -> bool {
        false
    }
}

/// Writes an archive with a text and two files that hardly compress, the first of 1 MiB.
fn write_archive(path: &Path, text: &str, noise: &[u8]) {
    let (big, rest) = noise.split_at(1 << 20);
    let files = [("stage/big", big), ("stage/text", text.as_bytes()), ("stage/rest", rest)];
    let files = files.map(|(name, content)| raw(name, b'0', "", content));
    let members = [&[manifest(&["stage"])][..], &files[..]].concat();
    fs_err::write(path, zstd(&raw_tar(&members))).unwrap();
}

#[test]
fn an_archive_that_changes_after_its_digest_is_an_error() {
    let temporary = tempfile::tempdir().unwrap();
    let [packed, scratch, other] = ["packed", "scratch", "other"].map(|name| temporary.path().join(name));
    fs_err::create_dir(&packed).unwrap();
    let archive = packed.join("a_lib_generic.tar.zst");
    let noise = noise(3 << 19);
    // Replaced before its first byte is read, and written to after half of them.
    for (bytes, is_replaced) in [(0, true), (1 << 19, false)] {
        write_archive(&archive, "old", &noise);
        write_archive(&other, "new", &noise);
        let meddler = Meddler::after(bytes, || {
            if is_replaced {
                fs_err::rename(&other, &archive).unwrap();
            } else {
                fs_err::File::options().append(true).open(&archive).unwrap().file().set_len(1 << 19).unwrap();
            }
        });
        let error = Catalog::open(&packed, &scratch, &meddler).unwrap_err();
        assert_eq!(error.to_string(), format!("the archive `{}` changed while it was read", archive.display()));
        assert_eq!(names(&scratch), [""; 0]);
    }
}

#[test]
fn an_earlier_tree_that_changes_meanwhile_is_not_used() {
    let temporary = tempfile::tempdir().unwrap();
    let packed = temporary.path().join("packed");
    fs_err::create_dir(&packed).unwrap();
    let archive = packed.join("a_lib_generic.tar.zst");
    let noise = noise(3 << 19);
    // Also after the file was compared, when the rest of the archive is read.
    for (turn, bytes) in [1 << 19, 11 << 17].into_iter().enumerate() {
        let scratch = temporary.path().join(format!("scratch{turn}"));
        write_archive(&archive, "old", &noise);
        let old = Catalog::open(&packed, &scratch, &Silent).unwrap().artifacts[0].root.join("stage/big");
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        fs_err::File::options().write(true).open(&old).unwrap().file().set_modified(long_ago).unwrap();
        write_archive(&archive, "new", &noise);
        let meddler = Meddler::after(bytes, || {
            let mut file = fs_err::File::options().write(true).open(&old).unwrap();
            file.write_all(b"CORRUPTED").unwrap();
        });
        let root = Catalog::open(&packed, &scratch, &meddler).unwrap().artifacts[0].root.clone();
        assert!(fs_err::read(&old).unwrap().starts_with(b"CORRUPTED"), "it was not changed");
        assert!(fs_err::read(root.join("stage/big")).unwrap() == noise[..1 << 20]);
        assert_eq!(fs_err::read_to_string(root.join("stage/text")).unwrap(), "new");
    }
}

#[test]
fn a_directory_that_is_not_one_of_artifacts_is_explained() {
    let temporary = tempfile::tempdir().unwrap();
    let open = |path: &str| {
        let path = temporary.path().join(path);
        let error = Catalog::open(&path, &temporary.path().join("scratch"), &Silent).unwrap_err();
        assert_eq!(rocwheel_artifact::list::list(&path, &Silent).unwrap_err().to_string(), error.to_string());
        (error.to_string(), error.hint().unwrap())
    };
    Artifact::new(temporary.path(), "core_lib_generic", &["stage"]).file("stage/x", "");
    fs_err::write(temporary.path().join("file"), "").unwrap();
    let (message, hint) = open("core_lib_generic");
    assert!(message.ends_with("core_lib_generic` is an artifact, not a directory that holds artifacts"), "{message}");
    assert_eq!(hint, format!("give the directory above: `{}`", temporary.path().display()));
    let at = |path: &str| temporary.path().join(path).display().to_string();
    let missing = "give the directory that holds the artifacts; `rocwheel artifact import` makes one of packages";
    assert_eq!(open("nope"), (format!("there is no `{}`", at("nope")), missing.to_owned()));
    assert_eq!(open("file"), (format!("`{}` is not a directory", at("file")), missing.to_owned()));
}
