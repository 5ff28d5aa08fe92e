//! Input: what the files of artifacts are. Output: the system that they are for, and files that are
//! there by mistake.

use rocwheel_artifact::{Artifact, EntryKind};
use rocwheel_content::archive_path::file_name;
use rocwheel_wheel::Platform;

use crate::inspect::{Nature, Natures};

/// The system that the programs and libraries of artifacts are for; Linux where there are none.
/// A tree for Linux may hold programs for Windows: Python's packages bring launchers.
pub(crate) fn of_files(artifacts: &[Artifact], natures: &Natures) -> Platform {
    let mut platform = Platform::Linux;
    for artifact in artifacts {
        for entry in artifact.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. })) {
            match natures.of(&artifact.path(entry)) {
                Nature::Windows(_) => platform = Platform::Windows,
                nature if nature.elf().is_some() => return Platform::Linux,
                _ => {}
            }
        }
    }
    platform
}

/// `true` for a file that can only be there by mistake, because no program of this system starts or
/// loads it.
pub(crate) fn is_foreign(platform: Platform, path: &str, nature: &Nature) -> bool {
    match platform {
        Platform::Windows => nature.elf().is_some(),
        // ROCm has its programs in `bin`, and on Windows its libraries too. Elsewhere such files
        // may be data.
        Platform::Linux => {
            let in_bin = path.split('/').rev().skip(1).any(|folder| folder == "bin");
            let name = file_name(path).to_ascii_lowercase();
            let is_named = [".dll", ".exe"].iter().any(|ending| name.ends_with(ending));
            in_bin && is_named && matches!(nature, Nature::Windows(_))
        }
    }
}
