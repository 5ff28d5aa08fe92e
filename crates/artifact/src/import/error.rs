//! What can go wrong with an import.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_report::{Exit, Hint};

use super::report::Missing;
use crate::staging;

/// Every failure of an import.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_report::Interrupted),
    /// A file that is no Debian package, or a damaged one.
    #[error("could not read the package `{package}`: {reason}")]
    Package {
        /// The .deb file.
        package: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A part of a package or tarball does not decompress or is cut off.
    #[error("could not read `{member}` of `{archive}`")]
    Damaged {
        /// The .deb file or tarball.
        archive: PathBuf,
        /// `control.tar.xz`, `data.tar.xz` or the file that was being read.
        member: String,
        /// What the decompressor or tar reader said.
        source: io::Error,
    },
    /// A member that must not be unpacked.
    #[error("refused to unpack `{member}` of `{archive}`: {reason}")]
    Unsafe {
        /// The .deb file or tarball.
        archive: PathBuf,
        /// The member's name.
        member: String,
        /// Why.
        reason: String,
    },
    /// One package given twice.
    #[error("the package `{name}` is given twice: `{first}` and `{second}`")]
    DuplicatePackage {
        /// Its name.
        name: String,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Nothing to import.
    #[error("there is nothing to import in `{path}`: {reason}")]
    Empty {
        /// The input.
        path: PathBuf,
        /// What was looked for.
        reason: String,
    },
    /// Two files want the same place.
    #[error("`{path}` is provided twice, by {first} and by {second}")]
    Collision {
        /// The path in the flattened tree.
        path: String,
        /// Package or input, and path in it.
        first: String,
        /// The other.
        second: String,
    },
    /// Two libraries of one SONAME.
    #[error("two libraries are called `{soname}`: {first} and {second}")]
    TwoVersions {
        /// The SONAME.
        soname: String,
        /// Package and path.
        first: String,
        /// The other.
        second: String,
    },
    /// Libraries that are needed and not there.
    #[error("{}", MissingList(.0))]
    Unresolved(Vec<Missing>),
    /// A prefix that could not be walked.
    #[error("could not read `{path}`")]
    Walk {
        /// Where it failed.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A directory without anything that every ROCm has.
    #[error("`{}` does not look like a ROCm: it has neither a HIP runtime (`libamdhip64.so`) nor `.info/version`", prefix.display())]
    NoRocm {
        /// The directory.
        prefix: PathBuf,
    },
    /// A shared prefix whose packages nobody lists.
    #[error("`{prefix}` is shared with other software, and there is no `{database}` to tell which files are ROCm's")]
    NoDatabase {
        /// The prefix.
        prefix: PathBuf,
        /// Where dpkg's database was looked for.
        database: PathBuf,
    },
    /// The disk is full. No source: it would name a temporary file that is gone by now.
    #[error("no space is left on the disk of `{output}`")]
    DiskFull {
        /// The output, or the directory of a dry run's temporary files.
        output: PathBuf,
    },
    /// The version cannot be told.
    #[error("could not tell the ROCm version: no package or file of the input is the HIP runtime")]
    NoVersion,
    /// A version that is none.
    #[error("`{version}` is not a version")]
    BadVersion {
        /// As given.
        version: String,
    },
    /// An ELF file that could not be understood or edited.
    #[error("could not {action} the ELF file `{path}`")]
    Elf {
        /// `read` or `edit`.
        action: &'static str,
        /// The file, in the flattened tree.
        path: String,
        /// Why.
        source: rocwheel_elf::Error,
    },
    /// Device code that could not be understood.
    #[error("could not read the GPU code in `{path}`")]
    DeviceCode {
        /// The file, in the flattened tree.
        path: String,
        /// Why.
        source: rocwheel_kpack::Error,
    },
    /// A library for another processor.
    #[error("`{path}` is built for the processor type {machine}; only x86-64 (62) is supported")]
    Machine {
        /// The file, in the flattened tree.
        path: String,
        /// ELF's `e_machine`.
        machine: u16,
    },
    /// The output cannot be made.
    #[error(transparent)]
    Output(#[from] staging::Error),
    /// A table that does not parse.
    #[error("could not understand the table `{name}`: {reason}")]
    Table {
        /// Its file name.
        name: &'static str,
        /// Why.
        reason: String,
    },
}

struct MissingList<'a>(&'a [Missing]);

impl fmt::Display for MissingList<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [missing] = self.0 {
            return write!(formatter, "`{}` is missing, {}", missing.library, missing.needed_by());
        }
        write!(formatter, "{} libraries are missing:", self.0.len())?;
        self.0.iter().try_for_each(|missing| write!(formatter, "\n  `{}`, {}", missing.library, missing.needed_by()))
    }
}

impl Error {
    /// The same, or [`Error::DiskFull`] when a file of the output could not be written for lack of
    /// space.
    pub(super) fn or_full_disk(self, output: &Path) -> Self {
        match self {
            Self::Io(source) if crate::error::is_full(&source) => Self::DiskFull { output: output.to_owned() },
            other => other,
        }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Output(error) => return error.hint(),
            Self::DiskFull { .. } => "make room on that disk, or choose another output",
            Self::Io(source) | Self::Walk { source, .. } => return crate::error::storage_hint(source),
            Self::Empty { .. } => "give ROCm's .deb files, a directory such as /opt/rocm, or a therock-dist-* tarball",
            Self::NoRocm { .. } => {
                "give the directory that ROCm is installed in, such as /opt/rocm, or the system's /usr"
            }
            Self::NoDatabase { .. } => {
                "give a directory that holds nothing but ROCm, such as /opt/rocm, or the packages with --deb"
            }
            Self::Package { .. } | Self::Damaged { .. } => {
                "download the file again; it is incomplete or no such archive"
            }
            Self::DuplicatePackage { .. } => "give one version of each package",
            Self::Collision { .. } => "leave one of the two packages out",
            Self::TwoVersions { .. } => "leave one of the two versions out",
            Self::Unresolved(missing) => return Some(unresolved_hint(missing)),
            Self::NoVersion => "add the HIP runtime (`libamdhip64-5`, `hip-runtime-amd`), or say `--version X.Y.Z`",
            Self::Machine { .. } => "leave its package out",
            _ => return None,
        };
        Some(text.to_owned())
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Output(error) => error.exit(),
            Self::BadVersion { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}

fn unresolved_hint(missing: &[Missing]) -> String {
    let mut packages: Vec<&str> = missing.iter().filter_map(|missing| missing.package.as_deref()).collect();
    packages.sort_unstable();
    packages.dedup();
    let allow: Vec<String> = missing.iter().map(|missing| format!("--allow-unresolved {}", missing.library)).collect();
    let allow = allow.join(" ");
    if packages.is_empty() {
        return format!("add the packages that hold them, or accept it with `{allow}`");
    }
    // Some have another name in later releases, which the table tells in brackets.
    let name = |package: &&str| package.split(' ').next().unwrap_or_default().to_owned();
    let renamed: Vec<String> =
        packages.iter().filter(|package| package.contains(' ')).map(|one| format!("; {one}")).collect();
    let names: Vec<String> = packages.iter().map(name).collect();
    format!("fetch them with `apt-get download {}`{}; or accept it with `{allow}`", names.join(" "), renamed.concat())
}
