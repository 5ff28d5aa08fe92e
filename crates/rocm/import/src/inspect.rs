//! Input: a file that was just written. Output: for an ELF file its headers, the GPU targets it has
//! code for and the names of libraries in its data.

use std::collections::BTreeSet;
use std::path::Path;

use positioned_io::ReadAt;
use rocwheel_elf::{Elf, library_names};
use rocwheel_kpack::{BundleEntry, FatBinary};
use rocwheel_progress::{Context, Failure};

/// The targets and names found in a file's data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inspected {
    /// GPU targets with their features, such as `gfx90a:xnack+`.
    pub(crate) targets: BTreeSet<String>,
    /// Texts of the form `lib*.so*`.
    pub(crate) mentions: BTreeSet<String>,
}

/// Inspects the file at `path`; `None` if it is not an ELF file. `name` is its path in the
/// flattened tree, for messages.
pub(crate) fn inspect(path: &Path, name: &str) -> Result<Option<(Elf, Inspected)>, Failure> {
    let file = fs_err::File::open(path)?;
    inspect_file(file.file(), file.metadata()?.len(), name)
}

/// Inspects an open file of `size` bytes, as [`inspect`] does.
pub(crate) fn inspect_file(reader: &dyn ReadAt, size: u64, name: &str) -> Result<Option<(Elf, Inspected)>, Failure> {
    let mut magic = [0; 4];
    if reader.read_at(0, &mut magic)? < 4 || magic != *b"\x7fELF" {
        return Ok(None);
    }
    let elf = Elf::read(reader).with_context(|| format!("could not read the ELF file `{name}`"))?;
    let Some(elf) = elf else { return Ok(None) };
    let fat = FatBinary::read(reader, size).with_context(|| format!("could not read the GPU code in `{name}`"))?;
    let entries = fat.iter().flat_map(|fat| &fat.bundles).flat_map(|bundle| &bundle.entries);
    let targets = entries.filter(|entry| entry.has_code()).filter_map(BundleEntry::target).map(str::to_owned).collect();
    let mentions = library_names(reader, &elf);
    Ok(Some((elf, Inspected { targets, mentions })))
}
