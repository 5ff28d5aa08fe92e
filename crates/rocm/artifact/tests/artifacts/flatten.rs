//! Flattened trees.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rocwheel_artifact::Error;
use rocwheel_artifact::archive::{self, ArchiveOptions, Compression};
use rocwheel_artifact::flatten::{Flattened, MARKER, Replaceable, flatten};
use rocwheel_fixtures::{Impatient, names};
use rocwheel_output::Mode;
use rocwheel_progress::{Hint as _, Silent};

use crate::fixture::{Artifact, Recorder, rich, snapshot};

fn run(inputs: &[&Path], output: &Path) -> Result<Flattened, Error> {
    let inputs: Vec<PathBuf> = inputs.iter().map(|path| (*path).to_owned()).collect();
    flatten(&inputs, output, Replaceable::OnlyOurs, Mode::Execute, &Silent)
}

fn pack(artifact: &Artifact, output: &Path) -> PathBuf {
    let options = ArchiveOptions { compression: Compression::Zstd, level: 1, epoch: 0, threads: 1 };
    let plan = archive::plan(std::slice::from_ref(&artifact.root), output, options, &Silent).unwrap();
    archive::write(&plan, &Silent).unwrap().swap_remove(0).path
}

#[test]
fn directories_and_archives_make_the_same_tree() {
    let temporary = tempfile::tempdir().unwrap();
    let core = rich(temporary.path(), false);
    let more = Artifact::new(temporary.path(), "more_run_generic", &["more"])
        .executable("more/bin/more", "m")
        .link("more/bin/amdtool", "../lib/libbig.so")
        .file("more/lib/part00.txt", "0\n".repeat(50));
    let (plain, packed) = (temporary.path().join("plain"), temporary.path().join("packed"));
    let recorder = Recorder::default();
    let inputs = [more.root.clone(), core.root.clone()];
    let flattened = flatten(&inputs, &plain, Replaceable::OnlyOurs, Mode::Execute, &recorder).unwrap();
    assert_eq!((flattened.files, flattened.links, flattened.identical), (48, 4, 1));
    assert_eq!(flattened.artifacts.len(), 2);
    let archives = [pack(&core, &temporary.path().join("archives")), pack(&more, &temporary.path().join("archives"))];
    run(&[&archives[0], &archives[1]], &packed).unwrap();
    assert_eq!(snapshot(&plain), snapshot(&packed));
    for tree in [&plain, &packed] {
        assert_eq!(fs_err::metadata(tree.join("sbin/tool")).unwrap().nlink(), 3);
        assert_eq!(fs_err::metadata(tree.join("bin/tool")).unwrap().mode() & 0o777, 0o755);
        assert_eq!(fs_err::read_link(tree.join("strange")).unwrap().to_str(), Some(".//lib/./libbig.so"));
        assert!(tree.join("nothing").is_dir());
        assert_eq!(fs_err::metadata(tree).unwrap().mode() & 0o777, 0o755);
    }
    // The tree has copies of the artifact's files, not hard links to them.
    assert_eq!(fs_err::metadata(core.path("core/stage/bin/tool")).unwrap().nlink(), 3);
    assert_eq!(fs_err::metadata(core.path("core/stage/empty")).unwrap().nlink(), 1);
    let left: Vec<_> = names(temporary.path()).into_iter().filter(|name| name.starts_with('.')).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn modes_are_kept() {
    let temporary = tempfile::tempdir().unwrap();
    let artifact =
        Artifact::new(temporary.path(), "a_lib_generic", &["a"]).file("a/x", "").file("a/y", "").file("a/z", "");
    for (path, mode) in [("a/x", 0o750), ("a/y", 0o444), ("a/z", 0o4755)] {
        fs_err::set_permissions(artifact.path(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let output = temporary.path().join("out");
    run(&[&artifact.root], &output).unwrap();
    let mode = |path: &str| fs_err::metadata(output.join(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("x"), mode("y"), mode("z")), (0o750, 0o644, 0o755));
}

#[test]
fn two_contents_for_one_path() {
    let temporary = tempfile::tempdir().unwrap();
    let one = Artifact::new(temporary.path(), "one_lib_generic", &["a", "b"]).file("a/lib/x", "A").file("b/lib/x", "B");
    let output = temporary.path().join("out");
    let error = run(&[&one.root], &output).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`lib/x` is provided twice, by `one_lib_generic` (basedir `a`) and by `one_lib_generic` (basedir `b`)"
    );
    assert!(error.hint().is_some());
    let one = one.file("b/lib/x", "A");
    assert_eq!(run(&[&one.root], &output).unwrap().identical, 1);
    let two = Artifact::new(temporary.path(), "two_run_generic", &["t"]).link("t/lib", "elsewhere");
    let error = run(&[&one.root, &two.root], &output).unwrap_err();
    assert!(error.to_string().starts_with("`lib` is provided twice"), "{error}");
    assert_eq!(names(&output), [MARKER, "lib"], "the tree of the run before is still there");
}

#[test]
fn links_that_leave_together() {
    let temporary = tempfile::tempdir().unwrap();
    let one = Artifact::new(temporary.path(), "one_lib_generic", &["a"]).link("a/up", "x/y");
    let two = Artifact::new(temporary.path(), "two_lib_generic", &["b"])
        .link("b/x", "deep/er")
        .link("b/out", "up/../../../../z");
    let error = run(&[&one.root, &two.root], &temporary.path().join("out")).unwrap_err();
    assert!(error.to_string().contains("out` in ") && error.to_string().ends_with("out of the tree"), "{error}");
}

#[test]
fn outputs_that_are_not_ours() {
    let temporary = tempfile::tempdir().unwrap();
    let one = Artifact::new(temporary.path(), "one_lib_generic", &["a"]).file("a/lib/x", "A");
    let output = temporary.path().join("out");
    fs_err::create_dir(&output).unwrap();
    run(&[&one.root], &output).unwrap();
    assert_eq!(
        fs_err::read_to_string(output.join(MARKER)).unwrap(),
        "Made by rocwheel artifact flatten from:\none_lib_generic\n"
    );
    fs_err::write(output.join("stale"), "").unwrap();
    run(&[&one.root], &output).unwrap();
    assert_eq!(names(&output), [MARKER, "lib"], "our own tree is made anew");

    fs_err::remove_file(output.join(MARKER)).unwrap();
    let error = run(&[&one.root], &output).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the output `{}` is not empty and was not made by this command", output.display())
    );
    let inputs = [one.root.clone()];
    flatten(&inputs, &output, Replaceable::Anything, Mode::DryRun, &Silent).unwrap();
    assert_eq!(names(&output), ["lib"], "a dry run changes nothing");
    flatten(&inputs, &output, Replaceable::Anything, Mode::Execute, &Silent).unwrap();
    assert_eq!(names(&output), [MARKER, "lib"]);

    // A link to the output is followed and stays a link.
    rocwheel_system::symlink("out", temporary.path().join("link")).unwrap();
    run(&[&one.root], &temporary.path().join("link")).unwrap();
    assert!(temporary.path().join("link").is_symlink());

    for output in [one.root.join("a/out"), temporary.path().to_owned(), one.root.clone()] {
        let error = flatten(&inputs, &output, Replaceable::Anything, Mode::Execute, &Silent).unwrap_err();
        assert!(error.to_string().ends_with("are inside one another"), "{error}");
    }
    assert_eq!(names(&one.root), ["a", "artifact_manifest.txt"]);
}

#[test]
fn inputs_that_are_no_artifacts() {
    let temporary = tempfile::tempdir().unwrap();
    let output = temporary.path().join("out");
    let plain = temporary.path().join("plain");
    fs_err::create_dir(&plain).unwrap();
    let refused = |inputs: &[&Path]| run(inputs, &output).unwrap_err().to_string();
    assert!(refused(&[&plain]).ends_with("is neither an artifact directory nor an artifact archive"));
    let file = temporary.path().join("file.txt");
    fs_err::write(&file, "").unwrap();
    assert!(refused(&[&file]).ends_with("its name ends in neither .tar.zst nor .tar.xz"));
    let error = run(&[&temporary.path().join("absent_lib_generic")], &output).unwrap_err();
    assert!(error.to_string().contains("absent_lib_generic"));
    let one = Artifact::new(temporary.path(), "one_lib_generic", &["a"]).file("a/lib/x", "A");
    let archive = pack(&one, &temporary.path().join("archives"));
    assert!(refused(&[&one.root, &archive]).starts_with("artifact `one_lib_generic` is given twice"));
    let bytes = fs_err::read(&archive).unwrap();
    fs_err::write(&archive, &bytes[..bytes.len() / 2]).unwrap();
    assert!(matches!(run(&[&archive], &output), Err(Error::DigestMismatch { .. })));
    fs_err::remove_file(archive::sidecar_path(&archive)).unwrap();
    let error = run(&[&archive], &output).unwrap_err();
    assert_eq!(error.to_string(), format!("could not read the archive `{}`", archive.display()));
    assert!(!output.exists());
}

#[test]
fn names_that_differ_only_by_case() {
    let temporary = tempfile::tempdir().unwrap();
    let one = Artifact::new(temporary.path(), "one_lib_generic", &["a"]).file("a/lib/x", "A").file("a/lib/X", "B");
    let recorder = Recorder::default();
    let output = temporary.path().join("out");
    let flattened =
        flatten(std::slice::from_ref(&one.root), &output, Replaceable::OnlyOurs, Mode::Execute, &recorder).unwrap();
    assert_eq!(flattened.same_but_for_case, [("lib/X".to_owned(), "lib/x".to_owned())]);
    assert_eq!(recorder.warnings.lock().unwrap().len(), 1);
}

#[test]
fn an_interruption_keeps_the_tree_that_was_there() {
    let temporary = tempfile::tempdir().unwrap();
    let core = rich(temporary.path(), false);
    let output = temporary.path().join("out");
    let small = Artifact::new(temporary.path(), "small_lib_generic", &["a"]).file("a/lib/x", "A");
    run(&[&small.root], &output).unwrap();
    let before = snapshot(&output);
    let archive = pack(&core, &temporary.path().join("archives"));
    for input in [core.root.clone(), archive] {
        let mut finished = false;
        for questions in (0..1000).step_by(7) {
            let reporter = Impatient::asked(questions);
            match flatten(std::slice::from_ref(&input), &output, Replaceable::OnlyOurs, Mode::Execute, &reporter) {
                Ok(_) => {
                    finished = true;
                    break;
                }
                Err(error) => assert!(matches!(error, Error::Interrupted(_)), "{error}"),
            }
            assert_eq!(snapshot(&output), before);
            let left: Vec<_> = names(temporary.path()).into_iter().filter(|name| name.starts_with('.')).collect();
            assert_eq!(left, [""; 0]);
        }
        assert!(finished);
        run(&[&small.root], &output).unwrap();
    }
}
