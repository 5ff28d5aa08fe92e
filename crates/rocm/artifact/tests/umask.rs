//! The umask belongs to the whole process, so this test runs in a separate process.

use std::os::unix::fs::MetadataExt as _;

use rocwheel_artifact::archive::{self, ArchiveOptions, Compression};
use rocwheel_artifact::flatten::{Replaceable, flatten};
use rocwheel_output::Mode;
use rocwheel_progress::Silent;

#[test]
fn the_umask_changes_nothing() {
    let mut seen = Vec::new();
    for umask in [0o022, 0o077, 0o000] {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let temporary = tempfile::tempdir().unwrap();
        let artifact = temporary.path().join("a_lib_generic");
        fs_err::create_dir_all(artifact.join("stage/lib")).unwrap();
        fs_err::write(artifact.join("artifact_manifest.txt"), "stage\n").unwrap();
        fs_err::write(artifact.join("stage/lib/x"), "x").unwrap();
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
        let options = ArchiveOptions { compression: Compression::Zstd, level: 3, epoch: 0, threads: 2 };
        let plan = archive::plan(&[artifact], temporary.path(), options, &Silent).unwrap();
        let written = archive::write(&plan, &Silent).unwrap().swap_remove(0);
        let tree = temporary.path().join("tree");
        flatten(std::slice::from_ref(&written.path), &tree, Replaceable::OnlyOurs, Mode::Execute, &Silent).unwrap();
        let mode = |path: &std::path::Path| fs_err::metadata(path).unwrap().mode() & 0o7777;
        let modes =
            [&written.path, &written.sidecar, &tree, &tree.join("lib"), &tree.join("lib/x")].map(|path| mode(path));
        seen.push((written.digest, modes));
    }
    assert_eq!(seen[0].1, [0o644, 0o644, 0o755, 0o755, 0o644]);
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
}
