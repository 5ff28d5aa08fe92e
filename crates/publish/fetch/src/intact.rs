//! Input: an archive or a directory that an earlier run put into the output. Output: whether it is
//! as it was then.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use rocwheel_artifact::archive::{parse_sidecar, sidecar_path};
use rocwheel_content::{hexadecimal, open_regular, sha256, sha256_of};
use rocwheel_progress::{Reporter, Watched};

/// `true` if a file is the archive with this SHA-256 and has its sidecar.
pub(crate) fn is_archive(path: &Path, sha256: &str, reporter: &dyn Reporter) -> bool {
    let sidecar = fs_err::read_to_string(sidecar_path(path)).ok().and_then(|line| parse_sidecar(&line));
    sidecar.as_deref() == Some(sha256)
        && open_regular(path)
            .and_then(|file| sha256_of(Watched::new(file, reporter)))
            .is_ok_and(|digest| hexadecimal(&digest) == sha256)
}

/// SHA-256 of the names, kinds and sizes of everything in a directory, in hexadecimal. The bytes of
/// files are not read.
pub(crate) fn tree_digest(root: &Path) -> io::Result<String> {
    let (mut folders, mut lines) = (vec![root.to_owned()], BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder)? {
            let path = entry?.path();
            let metadata = fs_err::symlink_metadata(&path)?;
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            if metadata.is_dir() {
                lines.insert(format!("{name}\0folder\n"));
                folders.push(path);
            } else {
                let kind = if metadata.is_symlink() { "link" } else { "file" };
                lines.insert(format!("{name}\0{kind} {}\n", metadata.len()));
            }
        }
    }
    let lines: String = lines.into_iter().collect();
    Ok(hexadecimal(&sha256(lines.as_bytes())))
}
