//! What can go wrong when a set of wheels is looked at, and what to do about it. What is wrong *with* the wheels is not here:
//! those are findings.

use std::path::PathBuf;

use report::{Exit, Hint};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file is no wheel, or a member of it cannot be unpacked.
    #[error(transparent)]
    Wheel(#[from] wheel::Error),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// Nothing to look at.
    #[error("there is no wheel to look at")]
    NoWheels,
    /// An environment has one wheel of a distribution, and two were given.
    #[error("`{}` and `{}` are both wheels of {name}, and an environment has one", first.display(), second.display())]
    SameDistribution {
        /// The canonical name of the distribution.
        name: String,
        /// The wheel that was given first.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
    /// A member of the `.data` folder that installers have no place for, and refuse the wheel for.
    #[error("member `{member}` of `{}` cannot be installed: {why}", wheel.display())]
    Unplaceable {
        /// The wheel.
        wheel: PathBuf,
        /// The member.
        member: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nothing lies at a path of the environment.
    #[error("the environment has no file `{path}`")]
    NoSuchFile {
        /// The path, relative to the environment.
        path: String,
    },
    /// The GPU code of a wheel could not be looked through.
    #[error("could not look through the GPU code of `{}`", path.display())]
    GpuCode {
        /// The wheel.
        path: PathBuf,
        /// Why.
        source: Box<kpack::Error>,
    },
    /// A version of Python that is none.
    #[error("`{text}` is not a version of Python")]
    PythonVersion {
        /// As it was given.
        text: String,
    },
    /// A file of the system that stands for the machine the set will run on.
    #[error("could not read the libraries of the system in `{}`", directory.display())]
    System {
        /// The system's root.
        directory: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Wheel(error) => error.hint(),
            Self::SameDistribution { .. } => {
                Some("look at them one by one, each with the wheels it is to be installed with".to_owned())
            }
            Self::PythonVersion { .. } => {
                Some("write it as `3.12`, or `3.13t` for the build without the global lock".to_owned())
            }
            Self::NoWheels => Some("name at least one `.whl` file".to_owned()),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Wheel(error) => error.exit(),
            Self::Interrupted => Exit::Interrupted,
            Self::PythonVersion { .. } | Self::NoWheels => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
