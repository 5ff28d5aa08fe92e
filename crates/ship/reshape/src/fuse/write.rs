//! Input: a fused tree. Output: a directory or a file that appears completely or not at all.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_content::Content;
use rocwheel_output::{OutputTree, TreeMaker};
use rocwheel_progress::{Failure, Reporter, Unit};
use serde::Serialize;

use super::fuse_error;
use rocwheel_split::copy;
use rocwheel_split::verify::{Item, View};

const MAKER: TreeMaker = TreeMaker { marker: ".rocwheel-fuse", command: "rocwheel fuse" };

#[derive(Debug, Clone, Serialize)]
pub struct FusedOutput {
    pub path: PathBuf,
    /// Number of files and links.
    pub files: u64,
    /// Size of the files in bytes.
    pub bytes: u64,
}

/// Writes a tree to the directory `output`. An existing directory is replaced if this command made
/// it. `extra` are additional small files.
///
/// # Errors
/// The output has something else in it or is inside an input, a file cannot be read or written, or
/// the user interrupts.
pub fn write_directory(
    view: &View,
    extra: &[(String, Vec<u8>)],
    (output, inputs): (&Path, &[PathBuf]),
    reporter: &dyn Reporter,
) -> Result<FusedOutput, Failure> {
    rocwheel_artifact::outside(output, inputs)?;
    let staging = OutputTree::new(output, MAKER)?;
    let items: Vec<(PathBuf, &Item)> = view.items().map(|(path, item)| (staging.root().join(path), item)).collect();
    for (path, _) in &items {
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
    }
    let sizes = items.iter().map(|(_, item)| match item {
        Item::File { content, .. } => content.size(),
        Item::Link { .. } => 0,
    });
    let mut bytes = sizes.sum::<u64>();
    staging.reserve(bytes)?;
    let stage = reporter.stage("Writing files", Some(bytes), Unit::Bytes);
    let written: Result<(), Failure> = items.par_iter().try_for_each(|(path, item)| match item {
        Item::Link { target } => Ok(rocwheel_system::symlink(target, path)?),
        Item::File { content, executable } => {
            copy(content.as_ref(), fs_err::File::create(path)?, reporter)?;
            let mode = if *executable { 0o755 } else { 0o644 };
            Ok(rocwheel_system::set_mode(path, mode)?)
        }
    });
    drop(stage);
    written?;
    for (path, text) in extra {
        let path = staging.root().join(path);
        fs_err::write(&path, text)?;
        rocwheel_system::set_mode(&path, 0o644)?;
        bytes += text.len() as u64;
    }
    reporter.check()?;
    staging.commit()?;
    Ok(FusedOutput { path: output.to_owned(), files: (items.len() + extra.len()) as u64, bytes })
}

/// Writes one file with the mode of `like`.
///
/// # Errors
/// The output exists already, a file cannot be read or written, or the user interrupts.
pub fn write_file(
    content: &dyn Content,
    like: &Path,
    output: &Path,
    reporter: &dyn Reporter,
) -> Result<FusedOutput, Failure> {
    let absolute = std::path::absolute(output)?;
    let parent = absolute.parent().unwrap_or(Path::new("/"));
    fs_err::create_dir_all(parent)?;
    let staged = tempfile::Builder::new().prefix(".rocwheel-").tempfile_in(parent)?;
    let stage = reporter.stage("Writing the file", Some(content.size()), Unit::Bytes);
    copy(content, staged.as_file(), reporter)?;
    drop(stage);
    let permissions = fs_err::metadata(like)?.permissions();
    fs_err::set_permissions(staged.path(), permissions)?;
    rocwheel_system::persist_new(staged, &absolute).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => fuse_error(&output.display().to_string(), "there is such a file already"),
        _ => error.into(),
    })?;
    Ok(FusedOutput { path: output.to_owned(), files: 1, bytes: content.size() })
}
