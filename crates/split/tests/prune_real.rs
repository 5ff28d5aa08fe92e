//! The ROCm wheels of PyPI, pruned to two targets. With the feature `real` only; `ROCWHEEL_REAL_WHEELS` names the folder
//! that scripts/fetch-wheels filled.
#![cfg(feature = "real")]

use std::path::PathBuf;

use artifact::TargetTable;
use report::Silent;
use split::prune::{Destination, Empty, Keep, Options, Run, prune};
use wheel::WriteOptions;
use wheel::read::Wheel;

#[test]
fn real_wheels_are_pruned_to_two_targets() {
    let folder = std::env::var_os("ROCWHEEL_REAL_WHEELS")
        .expect("ROCWHEEL_REAL_WHEELS names the folder that scripts/fetch-wheels filled");
    let mut wheels: Vec<PathBuf> = fs_err::read_dir(PathBuf::from(folder))
        .expect("the folder can be listed")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .collect();
    wheels.sort();
    assert!(wheels.len() >= 8, "scripts/fetch-wheels downloads eight wheels: {wheels:?}");
    let (output, scratch) = (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder"));
    let options = Options {
        keep: Keep::parse("gfx942,gfx90a", &TargetTable::embedded()).expect("keep"),
        compress: None,
        level: split::prune::LEVEL,
        empty: Empty::Refuse,
        destination: Destination::Folder(output.path().to_owned()),
        run: Run::Execute,
        scratch: scratch.path(),
        write: WriteOptions::default(),
    };
    let outcome = prune(&wheels, &options, &Silent).expect("prune");
    assert!(outcome.missing.is_empty());
    for (input, path) in outcome.inputs.iter().zip(&wheels) {
        assert!(input.verified > 0 && input.after < input.before, "{}", path.display());
        for file in &input.files {
            assert!(file.after <= file.before && file.note.is_none(), "{}: {file:?}", path.display());
        }
        let result = Wheel::open(&output.path().join(path.file_name().expect("name"))).expect("open");
        assert_eq!(result.verify().expect("verify"), []);
    }
}
