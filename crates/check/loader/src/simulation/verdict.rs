//! Input: what a file with the right name says about itself. Output: whether the loader takes it.

use rocwheel_wheel::{CLibrary, LoaderFeature, LoaderSupport};

use crate::facts::{Object, Purpose};

/// Program header type `PT_DYNAMIC`.
const DYNAMIC: u32 = 2;

/// The loader's reaction to a file with the right name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Taken,
    /// It continues the search.
    Skipped,
    /// It ends the search with this error.
    Refused(&'static str),
}

/// The reaction of a C library's loader to a file; `None` is a file that is not ELF (`open_verify`
/// and `_dl_map_object_from_fd`).
pub(super) fn judge(object: Option<&Object>, library: CLibrary) -> Verdict {
    let Some(object) = object else { return Verdict::Refused("it is not an ELF file") };
    match object.purpose {
        Purpose::OtherMachine | Purpose::GpuCode => return Verdict::Skipped,
        Purpose::Relocatable | Purpose::Other => return Verdict::Refused("it is neither a program nor a library"),
        Purpose::Debug => return Verdict::Refused("it holds debug information only"),
        Purpose::Static => return Verdict::Refused("it is a program"),
        Purpose::Native => {}
    }
    let refused =
        LoaderFeature::of(&object.elf).into_iter().find(|feature| feature.support(library) == LoaderSupport::Never);
    match refused {
        Some(LoaderFeature::Program) => return Verdict::Refused("it is a program"),
        Some(feature) => return Verdict::Refused(feature.fault()),
        None => {}
    }
    if !object.elf.segments.iter().any(|segment| segment.kind == DYNAMIC) {
        return Verdict::Refused("it has no dynamic section");
    }
    Verdict::Taken
}
