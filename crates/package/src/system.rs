//! The operating systems that packages are for.

use std::fmt;

use rocwheel_artifact::{Artifact, EntryKind};
use rocwheel_content::archive_path::file_name;
use serde::{Deserialize, Serialize};

use crate::inspect::{Nature, Natures};

/// An operating system, on x86-64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// Linux with glibc.
    Linux,
    /// Windows. Experimental: packages for it are made on Linux, and none of them has been run.
    Windows,
}

impl System {
    /// Returns the other system.
    #[must_use]
    pub fn other(self) -> System {
        match self {
            System::Linux => System::Windows,
            System::Windows => System::Linux,
        }
    }

    /// Returns the value of Python's `sys.platform`, which markers compare with (PEP 508).
    pub fn sys_platform(self) -> &'static str {
        match self {
            System::Linux => "linux",
            System::Windows => "win32",
        }
    }

    /// Returns the system of a platform tag; `None` for `any`.
    pub fn of_tag(tag: &str) -> Option<System> {
        match tag {
            "any" => None,
            _ if tag.starts_with("win") => Some(System::Windows),
            _ => Some(System::Linux),
        }
    }

    /// Returns the system that the programs and libraries of artifacts are for; Linux if there are
    /// none. A tree for Linux may hold programs for Windows, because some Python packages contain
    /// launchers.
    pub(crate) fn of_files(artifacts: &[Artifact], natures: &Natures) -> System {
        let any = |wanted: fn(&Nature) -> bool| {
            artifacts.iter().any(|artifact| {
                artifact.entries.iter().any(|entry| {
                    matches!(entry.kind, EntryKind::File { .. }) && wanted(natures.of(&artifact.path(entry)))
                })
            })
        };
        let is_linux = any(|nature| nature.elf().is_some());
        if !is_linux && any(|nature| matches!(nature, Nature::Windows(_))) { System::Windows } else { System::Linux }
    }

    /// `true` if a file can only be in the artifacts by mistake: no program of this system starts
    /// or loads it.
    pub(crate) fn is_foreign(self, path: &str, nature: &Nature) -> bool {
        match self {
            System::Windows => nature.elf().is_some(),
            // Only folders called `bin`, where ROCm has its programs and on Windows its libraries,
            // are checked; in other folders such files are data.
            System::Linux => {
                let in_bin = path.split('/').rev().skip(1).any(|folder| folder == "bin");
                let name = file_name(path).to_ascii_lowercase();
                let is_named = [".dll", ".exe"].iter().any(|ending| name.ends_with(ending));
                in_bin && is_named && matches!(nature, Nature::Windows(_))
            }
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            System::Linux => "Linux",
            System::Windows => "Windows",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_its_system() {
        assert_eq!(System::of_tag("any"), None);
        assert_eq!(System::of_tag("win_amd64"), Some(System::Windows));
        assert_eq!(System::of_tag("manylinux_2_28_x86_64"), Some(System::Linux));
    }
}
