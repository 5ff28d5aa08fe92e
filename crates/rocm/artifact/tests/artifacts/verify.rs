//! Findings and listings.

use rocwheel_artifact::archive::{self, ArchiveOptions, Compression};
use rocwheel_artifact::list::{self, DigestState, ListedForm};
use rocwheel_artifact::verify::{ArtifactsReport, verify};
use rocwheel_fixtures::Impatient;
use rocwheel_progress::Severity;
use rocwheel_progress::Silent;
use rocwheel_tables::TargetTable;

use crate::fixture::{Artifact, Recorder};

fn check(directory: &std::path::Path) -> ArtifactsReport {
    let scratch = tempfile::tempdir().unwrap();
    verify(directory, scratch.path(), &TargetTable::embedded(), &Recorder::default()).unwrap()
}

fn lines(report: &ArtifactsReport) -> Vec<String> {
    let line = |finding: &rocwheel_artifact::verify::ArtifactFinding| {
        let path = finding.path.as_deref().unwrap_or("-");
        format!("{:?} {} {path}: {}", finding.severity, finding.artifact, finding.message)
    };
    report.findings.iter().map(line).collect()
}

fn base(directory: &std::path::Path) -> Artifact {
    Artifact::new(directory, "base_lib_generic", &["base/aux-overlay/stage"])
        .file("base/aux-overlay/stage/share/therock/therock_manifest.json", r#"{"rocm_package_version": "6.4.0"}"#)
}

#[test]
fn a_good_directory() {
    let temporary = tempfile::tempdir().unwrap();
    base(temporary.path());
    Artifact::new(temporary.path(), "core_lib_generic", &["core"])
        .file("core/lib/liba.so.1", "")
        .link("core/lib/liba.so", "liba.so.1")
        .file("core/.kpack/core_lib_gfx942.kpack", "");
    Artifact::new(temporary.path(), "core_dev_generic", &["core"])
        .file("core/include/a.h", "")
        .file("core/lib/cmake/a/a.cmake", "");
    Artifact::new(temporary.path(), "core_run_gfx942", &["core"]).file("core/bin/a", "");
    let report = check(temporary.path());
    assert_eq!(lines(&report), Vec::<String>::new(), "what an import writes is no finding");
    assert!(!report.has_errors());
    assert_eq!((report.artifacts, report.files), (4, 7));
}

#[test]
fn everything_that_is_wrong_is_listed_at_once() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    base(root);
    Artifact::new(root, "one_lib_generic", &["a", "b"])
        .file("a/lib/libx.so", "A")
        .file("b/lib/libx.so", "B")
        .file("a/lib/same.so", "S")
        .file("b/lib/same.so", "S")
        .file("loose", "")
        .file("a/include/x.h", "")
        .file("a/include/y.h", "")
        .link("a/lib/out.so", "../../../x");
    Artifact::new(root, "test_run_generic", &["t"]).file("t/lib/libx2.so", "").file("t/include/z.h", "");
    Artifact::new(root, "odd_bits_gfx803", &["o"]).file("o/x", "");
    Artifact::new(root, "none_doc_generic", &[]);
    Artifact::new(root, "bad_name_lib_generic", &[]);
    fs_err::create_dir(root.join("gone_lib_generic")).unwrap();
    fs_err::write(root.join("cut_lib_generic.tar.zst"), "no archive").unwrap();
    let packed = Artifact::new(&root.join("elsewhere"), "packed_lib_generic", &["p"]).file("p/lib/libp.so", "");
    let options = ArchiveOptions { compression: Compression::Zstd, level: 3, epoch: 0, threads: 1 };
    let plan = archive::plan(&[packed.root], root, options, &Silent).unwrap();
    let written = archive::write(&plan, &Silent).unwrap().swap_remove(0);
    fs_err::write(&written.sidecar, "0".repeat(64)).unwrap();

    let report = check(root);
    let shown = root.display();
    let digest = written.digest;
    assert_eq!(
        lines(&report),
        [
            format!(
                "Error bad_name_lib_generic -: `{shown}/bad_name_lib_generic` is not named like an artifact: \
                 `bad_name_lib_generic` does not have exactly three fields separated by `_`"
            ),
            format!(
                "Error cut_lib_generic -: could not read the archive `{shown}/cut_lib_generic.tar.zst`: Unknown frame descriptor"
            ),
            format!(
                "Error gone_lib_generic -: artifact `gone_lib_generic` at `{shown}/gone_lib_generic` has no artifact_manifest.txt"
            ),
            format!(
                "Error one_lib_generic a/lib/out.so: the link `a/lib/out.so` in `{shown}/one_lib_generic` points to \
                 `../../../x`, out of the tree"
            ),
            "Error one_lib_generic lib/libx.so: provided with different contents by `one_lib_generic` (basedir `a`) and \
             by `one_lib_generic` (basedir `b`)"
                .into(),
            format!(
                "Error one_lib_generic loose: artifact `one_lib_generic` at `{shown}/one_lib_generic` has files that \
                 artifact_manifest.txt does not cover: 1, first `loose`"
            ),
            format!(
                "Error packed_lib_generic -: `{shown}/packed_lib_generic.tar.zst` has the SHA-256 digest `{digest}`, but \
                 its sidecar says `{}`",
                "0".repeat(64)
            ),
            "Warning odd_bits_gfx803 -: `bits` is no component; they are lib, run, dbg, dev, doc, test".into(),
            "Warning one_lib_generic include/x.h: named like files of the component `dev`: 2, first `include/x.h`".into(),
            "Warning test_run_generic lib/libx2.so: named like files of the component `lib`: 1, first `lib/libx2.so`".into(),
            "Note cut_lib_generic -: the archive has no sidecar to check it against".into(),
            "Note none_doc_generic -: the artifact holds no file".into(),
            "Note odd_bits_gfx803 -: `gfx803` is no GPU target or family of the table; it is kept unchanged".into(),
            "Note one_lib_generic lib/same.so: provided with the same contents by `one_lib_generic` (basedir `a`) and by \
             `one_lib_generic` (basedir `b`)"
                .into(),
        ]
    );
    assert!(report.has_errors());
    assert_eq!((report.count(Severity::Error), report.count(Severity::Warning)), (7, 3));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["findings"][0]["severity"], "error");
    assert_eq!(serde_json::to_string(&check(root)).unwrap(), serde_json::to_string(&report).unwrap());
}

#[test]
fn nothing_and_no_manifest() {
    let temporary = tempfile::tempdir().unwrap();
    let report = check(temporary.path());
    assert_eq!(report.count(Severity::Error), 1);
    Artifact::new(temporary.path(), "core_doc_generic", &["c"]).file("c/share/doc/x", "");
    let report = check(temporary.path());
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].severity, Severity::Warning);
    assert!(report.findings[0].message.starts_with("there is no therock_manifest.json"));
}

#[test]
fn listings() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    let blas = Artifact::new(&root.join("in"), "blas_lib_gfx942:xnack+", &["b"])
        .file("b/lib/a", "12345")
        .link("b/lib/l", "a")
        .hard_link("b/lib/a", "b/lib/h");
    for (compression, level) in [(Compression::Xz, 6), (Compression::Zstd, 3)] {
        let options = ArchiveOptions { compression, level, epoch: 0, threads: 1 };
        let output = root.join(format!("{compression:?}"));
        let roots = [blas.root.clone()];
        archive::write(&archive::plan(&roots, &output, options, &Silent).unwrap(), &Silent).unwrap();
    }
    let recorder = Recorder::default();
    let listing = list::list(&root.join("in"), &recorder).unwrap();
    let directory = &listing.artifacts[0];
    assert_eq!((directory.files, directory.bytes, directory.form), (3, 10, ListedForm::Directory));
    assert_eq!(directory.digest, DigestState::NotAnArchive);
    for (place, form) in [("Xz", ListedForm::Xz), ("Zstd", ListedForm::Zstd)] {
        let listed = list::list(&root.join(place), &recorder).unwrap().artifacts.swap_remove(0);
        assert_eq!((listed.files, listed.bytes, listed.form, listed.digest), (3, 10, form, DigestState::Verified));
        assert_eq!((listed.name.as_str(), listed.component.as_str()), ("blas", "lib"));
        assert_eq!(listed.target_family, "gfx942:xnack+");
    }
    let sidecar = root.join("Xz/blas_lib_gfx942:xnack+.tar.xz.sha256sum");
    fs_err::write(&sidecar, "1".repeat(64)).unwrap();
    let listed = list::list(&root.join("Xz"), &Silent).unwrap().artifacts.swap_remove(0);
    assert_eq!((listed.digest, listed.files), (DigestState::Mismatch, 3));
    assert!(listed.problem.unwrap().contains("has the SHA-256 digest"));
    fs_err::remove_file(&sidecar).unwrap();
    let listed = list::list(&root.join("Xz"), &Silent).unwrap().artifacts.swap_remove(0);
    assert_eq!((listed.digest, listed.problem), (DigestState::NoSidecar, None));

    Artifact::new(&root.join("in"), "a_b_lib_c", &[]);
    let listing = list::list(&root.join("in"), &Silent).unwrap();
    assert_eq!((listing.artifacts.len(), listing.problems.len()), (1, 1));
    let json = serde_json::to_value(&listing).unwrap();
    assert_eq!(json["artifacts"][0]["artifact"], "blas_lib_gfx942:xnack+");
    assert_eq!(json["artifacts"][0]["digest"], "not-an-archive");
    assert!(matches!(
        list::list(&root.join("in"), &Impatient::asked(0)),
        Err(rocwheel_artifact::Error::Interrupted(_))
    ));
}

#[test]
fn links_that_leave_the_tree_together_with_those_of_another_artifact() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    base(root);
    Artifact::new(root, "one_run_generic", &["a"]).file("a/bin/x", "").link("a/up", "bin/..");
    Artifact::new(root, "two_run_generic", &["b"]).link("b/bin/out", "../up/../y").link("b/bin/in", "../up/bin/x");
    let report = check(root);
    let errors: Vec<String> = lines(&report).into_iter().filter(|line| line.starts_with("Error")).collect();
    assert_eq!(
        errors,
        ["Error two_run_generic bin/out: the link to `../up/../y` leaves the tree through links of other artifacts"]
    );
}

#[test]
fn names_that_not_every_system_can_hold() {
    let temporary = tempfile::tempdir().unwrap();
    base(temporary.path());
    Artifact::new(temporary.path(), "one_run_generic", &["a"]).file("a/bin/Tool", "").file("a/bin/x:y", "");
    Artifact::new(temporary.path(), "two_run_generic", &["b"]).file("b/bin/tool", "").file("b/bin/aux", "");
    let report = check(temporary.path());
    assert!(!report.has_errors());
    let notes: Vec<String> = lines(&report).into_iter().filter(|line| line.contains("_run_")).collect();
    assert_eq!(
        notes,
        [
            "Note one_run_generic bin/x:y: Windows cannot hold this path, as a name cannot hold any of <>:\"|?*\\: 1, \
             first `bin/x:y`",
            "Note two_run_generic bin/aux: Windows cannot hold this path, as a device is called like that: 1, first \
             `bin/aux`",
            "Note two_run_generic bin/tool: differs only by case from `bin/Tool`, which not every file system can hold \
             beside it",
        ]
    );
}
