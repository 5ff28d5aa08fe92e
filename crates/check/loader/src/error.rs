//! Errors of opening an environment and reading its files, with hints.

use std::path::PathBuf;

use rocwheel_archive::Fault;
use rocwheel_progress::{Exit, Hint};

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file is not a wheel, or a member of it cannot be unpacked.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// No wheel was given.
    #[error("there is no wheel to audit")]
    NoWheels,
    /// A folder without installed packages.
    #[error("`{}` has neither wheels nor installed packages, which would have `.dist-info` folders", path.display())]
    NotPackages {
        /// Path of the folder.
        path: PathBuf,
    },
    /// A virtual environment whose packages are in two folders.
    #[error("`{}` has packages in several folders: {}", environment.display(), paths(folders))]
    SeveralFolders {
        /// Path of the environment.
        environment: PathBuf,
        /// Its folders of packages.
        folders: Vec<PathBuf>,
    },
    /// A file or folder of an environment cannot be read.
    #[error("could not read `{}`", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The underlying I/O error.
        source: std::io::Error,
    },
    /// RECORD of an installed distribution cannot be parsed.
    #[error("`{info}/RECORD` cannot be read: {reason}")]
    Record {
        /// The `.dist-info` folder.
        info: String,
        /// The reason, printed after a colon.
        reason: String,
    },
    /// Two distributions with the same name were given, but an environment has only one.
    #[error("`{}` and `{}` are both {name}, and an environment has one", first.display(), second.display())]
    SameDistribution {
        /// The canonical name of the distribution.
        name: String,
        /// The wheel that was given first.
        first: PathBuf,
        /// The wheel that was given second.
        second: PathBuf,
    },
    /// A member of the `.data` folder that has no installation path. Installers refuse the wheel
    /// because of it.
    #[error("member `{member}` of `{}` cannot be installed: {why}", wheel.display())]
    Unplaceable {
        /// Path of the wheel.
        wheel: PathBuf,
        /// Name of the member, a path in the wheel.
        member: String,
        /// The reason, printed after a colon.
        why: &'static str,
    },
    /// The environment has no file at this path.
    #[error("the environment has no file `{path}`")]
    NoSuchFile {
        /// The path, relative to the environment.
        path: String,
    },
    /// A file of the system that the set will run on cannot be read.
    #[error("could not read the libraries of the system in `{}`", directory.display())]
    System {
        /// Root directory of the system.
        directory: PathBuf,
        /// The underlying I/O error.
        source: std::io::Error,
    },
}

impl Error {
    /// The reason why installers refuse the wheel that could not be opened, as a sentence about it;
    /// `None` for errors that say nothing about the wheel.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Wheel(rocwheel_wheel::Error::Archive(rocwheel_archive::Error::Malformed { reason, .. })) => {
                Some(reason.clone())
            }
            Self::Wheel(rocwheel_wheel::Error::Archive(rocwheel_archive::Error::Unpack { member, source, .. }))
                if !matches!(source, Fault::TooLarge { .. } | Fault::Read(_)) =>
            {
                Some(format!("its `{member}` cannot be unpacked: {source}"))
            }
            Self::Wheel(error @ rocwheel_wheel::Error::Name { .. }) => Some(error.to_string()),
            Self::Unplaceable { member, why, .. } => Some(format!("its `{member}` cannot be installed: {why}")),
            _ => None,
        }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Wheel(error) => error.hint(),
            Self::SameDistribution { .. } => {
                Some("audit them one by one, each with the wheels that are installed with it".to_owned())
            }
            Self::NoWheels => {
                Some("name at least one `.whl` file, or a folder of installed packages that has some".to_owned())
            }
            Self::NotPackages { .. } => {
                Some("name an environment, its `site-packages` folder, or a folder that has wheels".to_owned())
            }
            Self::SeveralFolders { .. } => Some("name one of the folders".to_owned()),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Wheel(error) => error.exit(),
            Self::Interrupted(_) => Exit::Interrupted,
            Self::NoWheels | Self::NotPackages { .. } | Self::SeveralFolders { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}

fn paths(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
    paths.join(", ")
}
