//! Input: a member of a wheel, or the first bytes of a file. Output: its content, and the kind of
//! GPU code in it.

use std::path::Path;
use std::sync::Arc;

use rocwheel_content::{Content, OpenContent};
use rocwheel_progress::Failure;
use rocwheel_wheel::read::{MemberContent, Wheel};

/// Members of up to this many bytes are unpacked each time they are read, larger ones only once.
const UNPACKED_ONCE: u64 = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A host program or library.
    FatBinary,
    /// A separate bundle file (`.co`, `.hipfb`).
    Bundle,
    /// A `.kpack` archive.
    Archive,
    CodeObject,
    Database,
    Other,
}

/// Determines the kind of a file from its first bytes.
pub(super) fn looks_like(start: &[u8]) -> Kind {
    const AMDGPU: [u8; 2] = 224_u16.to_le_bytes();
    match start {
        _ if start.starts_with(b"__CLANG_OFFLOAD_BUNDLE__") || start.starts_with(b"CCOB") => Kind::Bundle,
        _ if start.starts_with(b"KPAK") => Kind::Archive,
        _ if start.starts_with(b"\x7fELF") && start.get(18..20) == Some(&AMDGPU) => Kind::CodeObject,
        _ if start.starts_with(b"\x7fELF") || start.starts_with(b"MZ") => Kind::FatBinary,
        _ => Kind::Other,
    }
}

/// Returns a member as a content. A large one is unpacked once and kept on the disk.
pub(super) fn member_content(
    wheel: &Arc<Wheel>,
    name: &str,
    size: u64,
    scratch: &Path,
) -> Result<Arc<dyn Content>, Failure> {
    if size <= UNPACKED_ONCE {
        return Ok(Arc::new(MemberContent::new(wheel, name, scratch)?));
    }
    Ok(Arc::new(OpenContent::new(wheel.reader(name, scratch)?, size)))
}
