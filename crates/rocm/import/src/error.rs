//! Everything that can go wrong with an import, and hints how to fix it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_output::storage_hint;
use rocwheel_progress::{Exit, Hint, in_backticks, is_full};

use crate::report::Missing;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// The folder that was searched for packages has none.
    #[error("`{folder}` has no .deb files")]
    NoPackages { folder: PathBuf },
    #[error(transparent)]
    Rocm(#[from] rocwheel_tables::Error),
    #[error("could not read the package `{package}`: {reason}")]
    Package { package: PathBuf, reason: String },
    /// A package in a format that is not known.
    #[error("the package `{package}` has the format {version}; only 2.x is supported")]
    Format {
        package: PathBuf,
        /// Version of the format, as in `debian-binary`.
        version: String,
    },
    #[error("could not read `{member}` of `{archive}`")]
    Damaged {
        archive: PathBuf,
        /// `control.tar.xz`, `data.tar.xz` or the file that was being read.
        member: String,
        source: io::Error,
    },
    /// A member that must not be unpacked.
    #[error("refused to unpack `{member}` of `{archive}`: {reason}")]
    Unsafe { archive: PathBuf, member: String, reason: String },
    /// A sparse file in the PAX format (`GNU.sparse.*`).
    #[error("`{member}` of `{archive}` is a sparse file in the PAX format, which is not supported")]
    Sparse { archive: PathBuf, member: String },
    /// One package is given twice.
    #[error("the package `{name}` is given twice: `{first}` and `{second}`")]
    DuplicatePackage { name: String, first: PathBuf, second: PathBuf },
    #[error("there is nothing to import in `{path}`: {reason}")]
    Empty { path: PathBuf, reason: String },
    /// Two files would have the same path in the output.
    #[error("`{path}` is provided twice, by {first} and by {second}")]
    Collision {
        path: String,
        /// The package or input and the path in it.
        first: String,
        second: String,
    },
    #[error("could not make the link `{path}` to `{target}`, which is {from}")]
    Link { path: String, target: String, from: String, source: io::Error },
    /// Packages of two HIP runtimes.
    #[error("{}", two_runtimes(.packages, .users))]
    TwoRuntimes {
        /// The packages of the runtimes, the older one first.
        packages: [String; 2],
        users: Vec<String>,
    },
    #[error("two libraries are called `{soname}`: {first} and {second}")]
    TwoVersions {
        /// The SONAME of both.
        soname: String,
        first: String,
        second: String,
    },
    #[error("{}", MissingList(.missing))]
    Unresolved {
        missing: Vec<Missing>,
        /// Debian packages that the packages of missing libraries need in turn, as far as known.
        in_turn: Vec<String>,
    },
    #[error("could not read `{path}`")]
    Walk { path: PathBuf, source: io::Error },
    /// A directory that has nothing of what every ROCm installation has.
    #[error("`{}` does not look like a ROCm: it has neither a HIP runtime (`libamdhip64.so`) nor `.info/version`", prefix.display())]
    NoRocm { prefix: PathBuf },
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
    DiskFull { output: PathBuf },
    #[error("could not tell the ROCm version: no package or file of the input is the HIP runtime")]
    NoVersion,
    /// A version that does not begin with a digit.
    #[error("`{version}` is not a version")]
    BadVersion { version: String },
    #[error("could not {action} the ELF file `{path}`")]
    Elf {
        /// `read` or `edit`.
        action: &'static str,
        path: String,
        source: rocwheel_elf::Error,
    },
    #[error("could not read the GPU code in `{path}`")]
    DeviceCode { path: String, source: rocwheel_kpack::Error },
    /// A library for another processor.
    #[error("`{path}` is built for the processor type {machine}; only x86-64 (62) is supported")]
    Machine {
        path: String,
        /// ELF's `e_machine`.
        machine: u16,
    },
    #[error(transparent)]
    Output(#[from] rocwheel_output::Error),
    #[error("could not understand the table `{name}`: {reason}")]
    Table { name: &'static str, reason: String },
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
        let renamed: Vec<String> =
            packages.iter().filter(|package| package.contains(' ')).map(|one| format!("; {one}")).collect();
        let mut names: Vec<String> =
            packages.iter().map(|package| package.split(' ').next().unwrap_or_default().to_owned()).collect();
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
