//! Input: a folder of packages. Output: the prefix of the Python that imports from it.

use std::path::Path;

/// The prefix of the Python whose packages are in a folder, which is `lib/python3.12/site-packages`
/// in it, or `Lib/site-packages` on Windows.
pub fn prefix_of(packages: &Path) -> Option<&Path> {
    let library = packages.parent()?;
    let is_of_windows = packages.ends_with("site-packages") && library.file_name()?.eq_ignore_ascii_case("lib");
    library.ancestors().nth(if is_of_windows { 1 } else { 2 })
}
