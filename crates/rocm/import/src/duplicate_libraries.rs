//! Input: the files of the staging tree. Output: the same tree with one file for each library, and
//! links for its other names.
//!
//! A tree that was copied with its links followed (`cp -L`, `aws s3 sync`, ZIP) has each library
//! two or three times, as `libfoo.so`, `libfoo.so.1` and `libfoo.so.1.2`; one with hard links has
//! the same names for one file.

use std::collections::BTreeMap;

use rocwheel_content::archive_path::file_name;
use rocwheel_progress::Failure;

use crate::closure;
use crate::unpack::{Link, Unpacked, Unpacker, same_bytes};

/// Replaces the copies of a library in its own directory by links to it. Of equal files with one
/// SONAME, the file with the longest name is kept, which is the one with the full version. Returns
/// the flattened paths of the copies, sorted.
pub(crate) fn merge(unpacker: &Unpacker<'_>, unpacked: &mut Unpacked) -> Result<Vec<String>, Failure> {
    let mut libraries: BTreeMap<(usize, &str, &str, u64), Vec<usize>> = BTreeMap::new();
    for (index, file) in unpacked.files.iter().enumerate() {
        if let Some(soname) = file.elf.as_deref().and_then(|elf| elf.soname.as_deref()) {
            let key = (file.source, closure::parent(&file.place.path), soname, file.size);
            libraries.entry(key).or_default().push(index);
        }
    }
    // Index of a copy → index of the file that is kept.
    let mut copies: BTreeMap<usize, usize> = BTreeMap::new();
    for same in libraries.into_values() {
        let longest = same.iter().copied().max_by_key(|index| file_name(&unpacked.files[*index].place.path).len());
        let Some(kept) = longest else { continue };
        let path = unpacker.path(&unpacked.files[kept].place);
        for copy in same.into_iter().filter(|copy| *copy != kept) {
            if same_bytes(&path, &unpacker.path(&unpacked.files[copy].place), unpacker.reporter)? {
                copies.insert(copy, kept);
            }
        }
    }
    let mut paths = Vec::new();
    for (&copy, &kept) in &copies {
        let file = &unpacked.files[copy];
        fs_err::remove_file(unpacker.path(&file.place))?;
        unpacked.owners.remove(&file.place.path);
        unpacked.links.push(Link {
            source: file.source,
            input: file.input.clone(),
            // From the root of the input, because two of its directories can be one of the tree.
            target: format!("/{}", unpacked.files[kept].input),
            place: (!file.system).then(|| file.place.clone()),
        });
        paths.push(file.place.path.clone());
    }
    paths.sort();
    let mut index = 0;
    unpacked.files.retain(|_| {
        index += 1;
        !copies.contains_key(&(index - 1))
    });
    unpacked.links.sort_by(|left, right| (&left.input, left.source).cmp(&(&right.input, right.source)));
    unpacked.unknown.retain(|path| paths.binary_search(path).is_err());
    Ok(paths)
}
