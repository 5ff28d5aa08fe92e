//! Input: two entries with the same path in the flattened tree. Output: `true` if their contents
//! are equal.

use std::io::{self, Read};
use std::path::Path;

use rocwheel_progress::Reporter;

use crate::catalog::{Catalog, Collision};
use crate::error::Error;

const WINDOW: usize = 1 << 18;

/// `true` if all owners of a path provide the same: files with equal bytes, or links with equal
/// text.
pub(crate) fn all_same(collision: &Collision, reporter: &dyn Reporter) -> Result<bool, Error> {
    let first = &collision.owners[0].file;
    for other in &collision.owners[1..] {
        if !same(first, &other.file, reporter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The collisions with different contents, and those with equal contents.
pub(crate) fn conflicts(catalog: &Catalog, reporter: &dyn Reporter) -> Result<(Vec<Collision>, Vec<Collision>), Error> {
    let (mut different, mut equal) = (Vec::new(), Vec::new());
    for collision in catalog.collisions() {
        if all_same(&collision, reporter)? {
            equal.push(collision);
        } else {
            different.push(collision);
        }
    }
    Ok((different, equal))
}

/// `true` if both are files with equal bytes or links with equal text.
pub(crate) fn same(left: &Path, right: &Path, reporter: &dyn Reporter) -> Result<bool, Error> {
    let (left_metadata, right_metadata) = (fs_err::symlink_metadata(left)?, fs_err::symlink_metadata(right)?);
    if left_metadata.is_symlink() && right_metadata.is_symlink() {
        return Ok(fs_err::read_link(left)? == fs_err::read_link(right)?);
    }
    if !left_metadata.is_file() || !right_metadata.is_file() || left_metadata.len() != right_metadata.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (fs_err::File::open(left)?, fs_err::File::open(right)?);
    let (mut left_window, mut right_window) = (vec![0; WINDOW], vec![0; WINDOW]);
    loop {
        reporter.check()?;
        let read = fill(&mut left, &mut left_window)?;
        if fill(&mut right, &mut right_window)? != read || left_window[..read] != right_window[..read] {
            return Ok(false);
        }
        if read == 0 {
            return Ok(true);
        }
    }
}

fn fill(reader: &mut impl Read, window: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < window.len() {
        match reader.read(&mut window[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}
