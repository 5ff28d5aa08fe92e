//! Input: symbolic links that a tree has. Output: the links, made when all files of the tree exist.

use std::io;
use std::path::PathBuf;

/// Creates links, given as pairs of text and place. One that leads to another one of them is made
/// after it: where Windows makes a copy instead of a link, what is copied must exist.
///
/// # Errors
/// The first link that cannot be made; the message names it.
pub fn make_links(mut links: Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    while !links.is_empty() {
        let (ready, waiting): (Vec<_>, Vec<_>) = links.into_iter().partition(|(target, place)| {
            // Only Windows distinguishes them; elsewhere the order of the list stays.
            cfg!(unix) || place.parent().is_some_and(|folder| folder.join(target).exists())
        });
        // Those that lead to nothing come last.
        let (now, later) = if ready.is_empty() { (waiting, ready) } else { (ready, waiting) };
        for (target, place) in now {
            crate::symlink(&target, &place)
                .map_err(|error| io::Error::new(error.kind(), format!("`{}`: {error}", place.display())))?;
        }
        links = later;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_links_is_made_whatever_its_order() {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("lib.so.1.2"), "x").unwrap();
        let chain = [("lib.so.1", "lib.so"), ("lib.so.1.2", "lib.so.1")];
        make_links(chain.iter().map(|(target, link)| (target.into(), folder.path().join(link))).collect()).unwrap();
        assert_eq!(fs_err::read_to_string(folder.path().join("lib.so")).unwrap(), "x");
        let error = make_links(vec![("x".into(), folder.path().join("lib.so"))]).unwrap_err();
        assert!(error.to_string().contains("lib.so`"), "{error}");
    }
}
