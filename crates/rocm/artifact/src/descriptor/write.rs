//! Input: the files of a component. Output: its artifact directory, complete or not at all.

use std::path::{Path, PathBuf};

use rocwheel_output::StagingFolder;
use rocwheel_progress::{Reporter, Unit};

use super::{ClaimedComponent, Error};
use crate::error::output_not_ours;
use crate::fileset::Transfer;
use crate::flatten;
use crate::input::separate;
use crate::scan::MANIFEST;

/// Writes the artifact directory `output`, replacing an existing artifact. Files are copied, not
/// hard-linked to those of the build. `root` is the build tree; its stage directories must not
/// overlap `output`.
pub fn write(component: &ClaimedComponent, root: &Path, output: &Path, reporter: &dyn Reporter) -> Result<(), Error> {
    Ok(write_artifact(component, root, output, reporter).map_err(|error| error.or_full_disk(output))?)
}

fn write_artifact(
    component: &ClaimedComponent,
    root: &Path,
    output: &Path,
    reporter: &dyn Reporter,
) -> Result<(), crate::Error> {
    // Artifacts are often written into the build tree itself, so only the stage directories count
    // as inputs that the output must not overlap.
    let stages: Vec<PathBuf> =
        component.basedirs.iter().map(|basedir| root.join(&basedir.path)).filter(|stage| stage.is_dir()).collect();
    let output = separate(output, &stages)?;
    let is_there = fs_err::symlink_metadata(&output).is_ok();
    let is_ours = output.is_dir() && (output.join(MANIFEST).is_file() || fs_err::read_dir(&output)?.next().is_none());
    if is_there && !is_ours {
        return Err(output_not_ours(&output).into());
    }
    let parent = output.parent().unwrap_or(Path::new("/"));
    fs_err::create_dir_all(parent)?;
    let work = StagingFolder::new_in(parent, ".rocwheel-artifact-")?;
    let tree = work.path().join("tree");
    fs_err::create_dir(&tree)?;
    let bytes = component.basedirs.iter().map(|basedir| basedir.files.bytes()).sum();
    let stage = reporter.stage("Writing an artifact", Some(bytes), Unit::Bytes);
    let copied = component
        .basedirs
        .iter()
        .filter(|basedir| !basedir.files.entries.is_empty())
        .try_for_each(|basedir| basedir.files.copy_into(&tree.join(&basedir.path), Transfer::Contents, reporter));
    drop(stage);
    copied?;
    let lines: Vec<&str> = component.basedirs.iter().map(|basedir| basedir.path.as_str()).collect();
    fs_err::write(tree.join(MANIFEST), lines.join("\n") + "\n")?;
    flatten::replace(&tree, &output, work.path())
}

#[cfg(test)]
mod tests {
    use rocwheel_system::FileMetadata as _;

    use rocwheel_progress::Silent;

    use super::super::Descriptor;
    use super::*;

    #[cfg_attr(windows, ignore = "Wine tells the number of a volume at times only, so hard links are not known")]
    #[test]
    fn an_artifact_is_whole_and_shares_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs_err::create_dir_all(at("a/stage/lib")).unwrap();
        fs_err::write(at("a/stage/lib/x.so"), "x").unwrap();
        fs_err::hard_link(at("a/stage/lib/x.so"), at("a/stage/lib/y.so")).unwrap();
        let text = "[components.lib.\"a/stage\"]\n[components.lib.\"gone\"]\n";
        let descriptor = Descriptor::parse(text, Path::new("artifact.toml"), "x").unwrap();
        let claims = descriptor.claim(folder.path(), &Silent).unwrap();
        for _ in 0..2 {
            write(&claims.components["lib"], folder.path(), &at("out/x_lib_generic"), &Silent).unwrap();
            let made = at("out/x_lib_generic/a/stage/lib");
            let inode = |path: PathBuf| fs_err::metadata(&path).unwrap().identity(&path).unwrap();
            assert_eq!(inode(made.join("x.so")), inode(made.join("y.so")));
            assert_ne!(inode(made.join("x.so")), inode(at("a/stage/lib/x.so")));
        }
        let manifest = |name: &str| fs_err::read_to_string(at(name).join(MANIFEST)).unwrap();
        assert_eq!(manifest("out/x_lib_generic"), "a/stage\ngone\n");
        write(&claims.components["run"], folder.path(), &at("out/x_run_generic"), &Silent).unwrap();
        assert_eq!(manifest("out/x_run_generic"), "\n");
        fs_err::create_dir_all(at("precious/x")).unwrap();
        let error = write(&claims.components["lib"], folder.path(), &at("precious"), &Silent).unwrap_err();
        assert!(error.to_string().contains("precious"), "{error}");
        assert_eq!(fs_err::read_dir(at("out")).unwrap().count(), 2);
    }
}
