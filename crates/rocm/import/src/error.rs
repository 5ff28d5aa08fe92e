//! Everything that can go wrong with an import, and hints how to fix it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_output::storage_hint;
use rocwheel_progress::{Exit, Hint, in_backticks, is_full};

use crate::report::Missing;

/// Every failure of an import.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// The folder that was searched for packages has none.
    #[error("`{folder}` has no .deb files")]
    NoPackages { folder: PathBuf },
    /// An error in the name of a GPU target, or in a table.
    #[error(transparent)]
    Rocm(#[from] rocwheel_tables::Error),
    /// A file that is damaged or not a Debian package.
    #[error("could not read the package `{package}`: {reason}")]
    Package {
        /// Path of the `.deb` file.
        package: PathBuf,
        /// The reason, for the message.
        reason: String,
    },
    /// A package in a format that is not known.
    #[error("the package `{package}` has the format {version}; only 2.x is supported")]
    Format {
        /// Path of the `.deb` file.
        package: PathBuf,
        /// Version of the format, as in `debian-binary`.
        version: String,
    },
    /// A part of a package or tarball does not decompress or is cut off.
    #[error("could not read `{member}` of `{archive}`")]
    Damaged {
        /// Path of the `.deb` file or tarball.
        archive: PathBuf,
        /// `control.tar.xz`, `data.tar.xz` or the file that was being read.
        member: String,
        /// The error of the decompressor or tar reader.
        source: io::Error,
    },
    /// A member that must not be unpacked.
    #[error("refused to unpack `{member}` of `{archive}`: {reason}")]
    Unsafe {
        /// Path of the `.deb` file or tarball.
        archive: PathBuf,
        /// Name of the member.
        member: String,
        /// The reason, for the message.
        reason: String,
    },
    /// A sparse file in the PAX format (`GNU.sparse.*`).
    #[error("`{member}` of `{archive}` is a sparse file in the PAX format, which is not supported")]
    Sparse {
        /// Path of the `.deb` file or tarball.
        archive: PathBuf,
        /// Name of the file.
        member: String,
    },
    /// One package is given twice.
    #[error("the package `{name}` is given twice: `{first}` and `{second}`")]
    DuplicatePackage {
        /// Name of the package.
        name: String,
        /// Path of one file.
        first: PathBuf,
        /// Path of the other.
        second: PathBuf,
    },
    /// The input holds nothing to import.
    #[error("there is nothing to import in `{path}`: {reason}")]
    Empty {
        /// Path of the input.
        path: PathBuf,
        /// The reason, for the message.
        reason: String,
    },
    /// Two files would have the same path in the output.
    #[error("`{path}` is provided twice, by {first} and by {second}")]
    Collision {
        /// The path in the flattened tree.
        path: String,
        /// The package or input and the path in it.
        first: String,
        /// The same of the second file.
        second: String,
    },
    /// A link could not be made.
    #[error("could not make the link `{path}` to `{target}`, which is {from}")]
    Link {
        /// Path of the link in the flattened tree.
        path: String,
        /// Text of the link.
        target: String,
        /// The package or input and the path in it.
        from: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// Packages of two HIP runtimes.
    #[error("{}", two_runtimes(.packages, .users))]
    TwoRuntimes {
        /// The packages of the runtimes, the older one first.
        packages: [String; 2],
        /// The packages that depend on the older one.
        users: Vec<String>,
    },
    /// Two libraries have one SONAME.
    #[error("two libraries are called `{soname}`: {first} and {second}")]
    TwoVersions {
        /// The SONAME of both.
        soname: String,
        /// Package and path of one library.
        first: String,
        /// Package and path of the other.
        second: String,
    },
    /// Libraries that are needed and missing.
    #[error("{}", MissingList(.missing))]
    Unresolved {
        /// The libraries, sorted by SONAME.
        missing: Vec<Missing>,
        /// Debian packages that the packages of missing libraries need in turn, as far as known.
        in_turn: Vec<String>,
    },
    /// A prefix could not be walked.
    #[error("could not read `{path}`")]
    Walk {
        /// Path of the directory or file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A directory that has nothing of what every ROCm installation has.
    #[error("`{}` does not look like a ROCm: it has neither a HIP runtime (`libamdhip64.so`) nor `.info/version`", prefix.display())]
    NoRocm {
        /// Path of the directory.
        prefix: PathBuf,
    },
    /// A shared prefix without dpkg's database, so the files of its packages are not known.
    #[error("`{prefix}` is shared with other software, and there is no `{database}` to tell which files are ROCm's")]
    NoDatabase {
        prefix: PathBuf,
        /// The path that dpkg's database was expected at.
        database: PathBuf,
    },
    /// The disk is full. It has no source, which would name a temporary file that is removed by
    /// now.
    #[error("no space is left on the disk of `{output}`")]
    DiskFull {
        /// The output, or the directory of a dry run's temporary files.
        output: PathBuf,
    },
    /// The ROCm version cannot be determined.
    #[error("could not tell the ROCm version: no package or file of the input is the HIP runtime")]
    NoVersion,
    /// A version that does not begin with a digit.
    #[error("`{version}` is not a version")]
    BadVersion {
        /// The text that was given.
        version: String,
    },
    /// An ELF file could not be read or edited.
    #[error("could not {action} the ELF file `{path}`")]
    Elf {
        /// `read` or `edit`.
        action: &'static str,
        /// Path of the file in the flattened tree.
        path: String,
        /// The error of the ELF reader or editor.
        source: rocwheel_elf::Error,
    },
    /// Device code could not be read.
    #[error("could not read the GPU code in `{path}`")]
    DeviceCode {
        /// Path of the file in the flattened tree.
        path: String,
        /// The error of the reader.
        source: rocwheel_kpack::Error,
    },
    /// A library for another processor.
    #[error("`{path}` is built for the processor type {machine}; only x86-64 (62) is supported")]
    Machine {
        /// Path of the file in the flattened tree.
        path: String,
        /// ELF's `e_machine`.
        machine: u16,
    },
    /// The output cannot be written.
    #[error(transparent)]
    Output(#[from] rocwheel_output::Error),
    /// A table that does not parse.
    #[error("could not understand the table `{name}`: {reason}")]
    Table {
        /// File name of the table.
        name: &'static str,
        /// The parser's error.
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

fn two_runtimes([older, newer]: &[String; 2], users: &[String]) -> String {
    let needed = match users {
        [] => String::new(),
        [user] => format!("; `{user}` needs the older one"),
        users => format!("; {} need the older one", in_backticks(users)),
    };
    format!("the set has two HIP runtimes, `{older}` and `{newer}`, and a process can use only one{needed}")
}

impl Error {
    /// Names the package or input of the link in [`Error::Link`].
    pub(crate) fn of_link(self, owner: String) -> Self {
        match self {
            Self::Link { path, target, source, .. } => Self::Link { path, target, from: owner, source },
            other => other,
        }
    }

    /// Turns an I/O error that means a full disk into [`Error::DiskFull`]; other errors stay
    /// unchanged.
    pub(crate) fn or_full_disk(self, output: &Path) -> Self {
        match self {
            Self::Io(source) | Self::Link { source, .. } if is_full(&source) => {
                Self::DiskFull { output: output.to_owned() }
            }
            other => other,
        }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Output(error) => return error.hint(),
            Self::Elf { source, .. } => return source.hint(),
            Self::DeviceCode { source, .. } => return source.hint(),
            Self::DiskFull { .. } => "make room on that disk, or choose another output",
            Self::Io(source) | Self::Walk { source, .. } | Self::Link { source, .. } => {
                return storage_hint(source);
            }
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
            Self::Format { .. } => "unpack it with a dpkg-deb that knows the format, and pack it again in format 2.0",
            Self::Unsafe { .. } => "leave its package out, or rename or remove the file",
            Self::Sparse { .. } => rocwheel_content::PACK_WITHOUT_SPARSE,
            Self::DuplicatePackage { .. } => "give one version of each package",
            Self::Collision { first, second, .. } if source_of(first) == source_of(second) => {
                return Some(format!("leave {} out, or remove one of the two files from it", source_of(first)));
            }
            Self::Collision { .. } => "leave one of the two packages out",
            Self::TwoVersions { .. } => "leave one of the two versions out",
            Self::TwoRuntimes { packages: [older, _], users } => {
                let names = in_backticks([std::slice::from_ref(older), users.as_slice()].concat());
                return Some(format!("leave out {names}, or give packages of one release of ROCm"));
            }
            Self::Unresolved { missing, in_turn } => return Some(unresolved_hint(missing, in_turn)),
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

/// Returns the package or input, in backticks, from the words for the owner of a file.
fn source_of(owner: &str) -> &str {
    owner.rsplit_once(" of ").map_or(owner, |(_, source)| source)
}

fn unresolved_hint(missing: &[Missing], in_turn: &[String]) -> String {
    let (foreign, absent): (Vec<&Missing>, Vec<&Missing>) = missing.iter().partition(|one| one.other_version.is_some());
    let mut hints = Vec::new();
    if !foreign.is_empty() {
        let mut users: Vec<String> = foreign.iter().map(|missing| missing.source.clone()).collect();
        users.sort_unstable();
        users.dedup();
        let built = if users.len() == 1 { "which is" } else { "which are" };
        hints.push(format!("leave out {}, {built} built for another ROCm", in_backticks(&users)));
    }
    let mut packages: Vec<&str> = absent.iter().filter_map(|missing| missing.package.as_deref()).collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() && !absent.is_empty() {
        hints.push("add the packages that hold them".to_owned());
    } else if !packages.is_empty() {
        // The table adds the name that a package has in other releases in brackets.
        let name = |package: &&str| package.split(' ').next().unwrap_or_default().to_owned();
        let renamed: Vec<String> =
            packages.iter().filter(|package| package.contains(' ')).map(|one| format!("; {one}")).collect();
        let mut names: Vec<String> = packages.iter().map(name).collect();
        names.extend(in_turn.iter().cloned());
        names.sort_unstable();
        names.dedup();
        let turn = if in_turn.is_empty() { "" } else { " and what they need" };
        hints.push(format!("fetch them{turn} with `apt-get download {}`{}", names.join(" "), renamed.concat()));
    }
    let allow: Vec<String> = missing.iter().map(|missing| format!("--allow-unresolved {}", missing.library)).collect();
    hints.push(format!("or accept it with `{}`", allow.join(" ")));
    hints.join("; ")
}
