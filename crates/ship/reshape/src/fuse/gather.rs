//! Input: a file with GPU code, or with markers that lead to archives. Output: the code objects
//! that each of its wrappers reaches.

use std::collections::BTreeMap;
use std::sync::Arc;

use positioned_io::ReadAt as _;
use rocwheel_content::Content;
use rocwheel_kpack::fatbin::{FatBinary, Format, Points};

use rocwheel_progress::Failure;

use super::fuse_error;
use rocwheel_split::error::{gpu_code_error, read_error};
use rocwheel_split::verify::{Archives, OpenArchive};

/// clang's names of the host entry, which never has code.
const HOST_LINUX: &str = "host-x86_64-unknown-linux-gnu-";
const HOST_WINDOWS: &str = "host-x86_64-pc-windows-msvc-";
/// Kind and triple of device code for every code object version since 4.
const DEVICE: &str = "hipv4-amdgcn-amd-amdhsa--";

/// A path without the artificial folders `_/` that keep the search paths of a single file inside
/// the tree.
pub(crate) fn shown(path: &str) -> &str {
    path.trim_start_matches("_/")
}

pub struct BuildPart {
    pub(crate) build: String,
    /// Path at which the file is installed.
    pub(crate) path: String,
    pub(crate) content: Arc<dyn Content>,
    pub(crate) fat: FatBinary,
    /// The code that wrappers reach; several wrappers may share an element.
    pub(crate) reached: Vec<Reached>,
    /// For each wrapper, its index in `reached`.
    pub(crate) wrappers: Vec<usize>,
    /// Name of the host entry in the bundles.
    pub(crate) host: String,
    /// Remarks about reading the file.
    pub(crate) notes: Vec<String>,
}

/// The code that a wrapper reaches.
#[derive(Clone)]
pub(crate) struct Reached {
    /// Sorts the bundles into their original order: number of the bundle or index, then number of
    /// the marker.
    pub(crate) order: (u64, usize),
    /// Number of the marker, if the code is in archives.
    pub(crate) marker: Option<usize>,
    pub(crate) codes: Vec<Code>,
}

#[derive(Clone)]
pub(crate) struct Code {
    pub(crate) id: String,
    pub(crate) size: u64,
    pub(crate) origin: Origin,
}

#[derive(Clone)]
pub(crate) enum Origin {
    /// An entry of a bundle in the part's file.
    Bundle { bundle: usize, entry: usize },
    /// A blob of an archive.
    Archive { archive: Arc<OpenArchive>, name: String, index: u32, target: String },
}

impl BuildPart {
    /// Reads a file of a build; `None` if none of its wrappers registers GPU code.
    pub(crate) fn read(
        build: &str,
        path: &str,
        content: &Arc<dyn Content>,
        archives: &Archives<'_>,
    ) -> Result<Option<Self>, Failure> {
        let reader = content.open().map_err(read_error(path))?;
        let Some(fat) = FatBinary::read(&reader, content.size()).map_err(gpu_code_error(path))? else {
            return Ok(None);
        };
        if fat.wrappers.is_empty() {
            return Ok(None);
        }
        let host = fat.bundles.iter().flat_map(|bundle| &bundle.entries).find(|entry| entry.id.starts_with("host-"));
        let default = if fat.format == Format::Pe { HOST_WINDOWS } else { HOST_LINUX };
        let host = host.map_or_else(|| default.to_owned(), |entry| entry.id.clone());
        let (build, path, content) = (build.to_owned(), path.to_owned(), Arc::clone(content));
        let (reached, wrappers, notes) = (Vec::new(), Vec::new(), Vec::new());
        let mut part = Self { build, path, content, fat, reached, wrappers, host, notes };
        part.reach(archives)?;
        Ok(Some(part))
    }

    fn reach(&mut self, archives: &Archives<'_>) -> Result<(), Failure> {
        let mut known: BTreeMap<(Points, u64), usize> = BTreeMap::new();
        for (number, wrapper) in self.fat.wrappers.iter().enumerate() {
            let index = if matches!(wrapper.points, Points::Marker(_)) { wrapper.index } else { 0 };
            if let Some(&place) = known.get(&(wrapper.points, index)) {
                self.wrappers.push(place);
                continue;
            }
            let reached = match wrapper.points {
                Points::Bundle(bundle) => self.in_bundle(bundle),
                Points::Marker(marker) => self.in_archives(marker, wrapper.index, archives)?,
                Points::Elsewhere(address) => {
                    let why = format!("wrapper {number} points to {address:#x}, which is no bundle and no marker");
                    return Err(fuse_error(shown(&self.path), &why));
                }
            };
            known.insert((wrapper.points, index), self.reached.len());
            self.wrappers.push(self.reached.len());
            self.reached.push(reached);
        }
        self.share(archives)
    }

    fn in_bundle(&self, bundle: usize) -> Reached {
        let entries = self.fat.bundles[bundle].entries.iter().enumerate().filter(|(_, entry)| entry.has_code());
        let codes = entries.map(|(place, entry)| {
            let origin = Origin::Bundle { bundle, entry: place };
            Code { id: entry.id.clone(), size: entry.size, origin }
        });
        Reached { order: (bundle as u64, 0), marker: None, codes: codes.collect() }
    }

    fn in_archives(&self, marker: usize, index: u64, archives: &Archives<'_>) -> Result<Reached, Failure> {
        let found = &self.fat.markers[marker].0;
        let mut codes: Vec<Code> = Vec::new();
        // The runtime truncates the index to 32 bits.
        let index = index as u32;
        for archive in archives.reachable(&self.path, found) {
            let entries = archive.archive.entries();
            for entry in entries.filter(|entry| entry.name == found.kernel_name && entry.index == Some(index)) {
                let id = format!("{DEVICE}{}", entry.target);
                if let Some(other) = codes.iter().find(|code| code.id == id)
                    && !same_place(&other.origin, &archive)
                {
                    let why = format!("`{}` and another archive have code for {}", archive.path, entry.target);
                    return Err(fuse_error(shown(&self.path), &why));
                }
                let origin = Origin::Archive {
                    archive: Arc::clone(&archive),
                    name: entry.name.to_owned(),
                    index,
                    target: entry.target.to_owned(),
                };
                codes.push(Code { id, size: entry.original_size, origin });
            }
        }
        Ok(Reached { order: (u64::from(index), marker), marker: Some(marker), codes })
    }

    /// Existing tools number wrappers instead of bundles. If several wrappers share a bundle, as in
    /// relocatable device code, the archives have only index 0, and the runtime never asks for the
    /// others. If there is code of another index, a wrapper without code has lost its own.
    fn share(&mut self, archives: &Archives<'_>) -> Result<(), Failure> {
        if self.reached.iter().all(|reached| reached.codes.is_empty()) {
            let searches = self.fat.markers.iter().flat_map(|(marker, _)| &marker.search_paths);
            let searches: Vec<&str> = searches.map(String::as_str).collect();
            let why = if searches.is_empty() {
                "no wrapper reaches any".to_owned()
            } else {
                format!("no archive has it; its markers say `{}`", searches.join("`, `"))
            };
            return Err(fuse_error(shown(&self.path), &why));
        }
        for place in 0..self.reached.len() {
            let Some(marker) = self.reached[place].marker.filter(|_| self.reached[place].codes.is_empty()) else {
                continue;
            };
            let found = &self.fat.markers[marker].0;
            let is_numbered = archives.reachable(&self.path, found).iter().any(|archive| {
                archive.archive.entries().any(|entry| entry.name == found.kernel_name && entry.index > Some(0))
            });
            let first = self.reached.iter().position(|found| found.marker == Some(marker) && !found.codes.is_empty());
            let Some(first) = first.filter(|_| !is_numbered) else { continue };
            self.notes.push(format!(
                "`{}`: no archive has code of index {}, so its wrapper shares the code of index 0",
                shown(&self.path),
                self.reached[place].order.0
            ));
            self.wrappers.iter_mut().filter(|wrapper| **wrapper == place).for_each(|wrapper| *wrapper = first);
        }
        Ok(())
    }

    /// The reason why the code of a wrapper is missing; `None` if it never had any.
    pub(crate) fn missing(&self, wrapper: usize) -> Option<String> {
        let reached = &self.reached[self.wrappers[wrapper]];
        let marker = reached.marker.filter(|_| reached.codes.is_empty())?;
        let searches = self.fat.markers[marker].0.search_paths.join("`, `");
        Some(format!(
            "no archive behind `{searches}` has code of index {}, which wrapper {wrapper} needs",
            reached.order.0
        ))
    }

    pub(crate) fn code(&self, code: &Code) -> Result<Vec<u8>, Failure> {
        match &code.origin {
            Origin::Archive { archive, name, index, target } => {
                let reader = archive.content.open().map_err(read_error(&self.path))?;
                let located = archive.archive.find(name, *index, target).ok_or_else(|| {
                    let why = format!("`{}` has no code for {target} any more", archive.path);
                    fuse_error(shown(&self.path), &why)
                })?;
                archive.archive.read_sound(&reader, &located).map_err(gpu_code_error(&archive.path))
            }
            Origin::Bundle { bundle, entry } => {
                let bundle = &self.fat.bundles[*bundle];
                let entry = &bundle.entries[*entry];
                let mut bytes = vec![0; entry.size as usize];
                let reader = self.content.open().map_err(read_error(&self.path))?;
                reader
                    .read_exact_at(self.fat.section.start + bundle.offset + entry.offset, &mut bytes)
                    .map_err(read_error(&self.path))?;
                Ok(bytes)
            }
        }
    }

    /// The bundle that must be decompressed to read a code object; `None` if it can be read
    /// directly.
    pub(crate) fn compressed(&self, code: &Code) -> Option<usize> {
        match code.origin {
            Origin::Bundle { bundle, .. } if self.fat.bundles[bundle].compression.is_some() => Some(bundle),
            _ => None,
        }
    }
}

fn same_place(origin: &Origin, archive: &OpenArchive) -> bool {
    matches!(origin, Origin::Archive { archive: other, .. } if other.path == archive.path)
}
