//! Errors of what the user named: everything else that cannot be read is a finding.

use std::path::PathBuf;

use rocwheel_progress::Hint;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `--root` is not a folder.
    #[error("`{}` is not a folder", path.display())]
    NoRoot { path: PathBuf },
    /// The folder of `--root` has no folder of a machine.
    #[error("`{}` has no `sys`, `proc`, `dev` or `etc`: it is no copy of a machine", path.display())]
    NoMachine { path: PathBuf },
    /// The file with what a copy of a machine cannot hold is wrong.
    #[error("`{}` is not understood", path.display())]
    TreeFile {
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    #[error("`{}`: {reason}", path.display())]
    TreeValue {
        path: PathBuf,
        /// The row and what is wrong with it.
        reason: String,
    },
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The folder of `--venv` has no packages.
    #[error("`{}` has no folder of Python packages", path.display())]
    NoPackages { path: PathBuf },
    #[error("`{}` is not a program{}", path.display(), leads_nowhere(link.as_deref()))]
    NoProgram {
        path: PathBuf,
        /// What it leads to, if it is a link.
        link: Option<PathBuf>,
    },
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
}

fn leads_nowhere(link: Option<&std::path::Path>) -> String {
    link.map_or_else(String::new, |target| format!(": it is a link to `{}`, which does not exist", target.display()))
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Error::NoRoot { .. } | Error::NoMachine { .. } => {
                "name the folder that has `sys`, `dev` and `etc` of the machine".to_owned()
            }
            Error::TreeFile { .. } | Error::TreeValue { .. } => {
                "a row is `[[path]]` with `path`, and `error`, `mode` or `owner` (docs/doctor.md)".to_owned()
            }
            Error::NoProgram { .. } => "name a file such as `.venv/bin/python`".to_owned(),
            Error::NoPackages { .. } => "name a virtual environment, or its Python".to_owned(),
            Error::Read { .. } | Error::Interrupted(_) => return None,
        })
    }

    fn exit(&self) -> rocwheel_progress::Exit {
        match self {
            Error::Interrupted(_) => rocwheel_progress::Exit::Interrupted,
            Error::NoProgram { .. } | Error::NoRoot { .. } => rocwheel_progress::Exit::Usage,
            _ => rocwheel_progress::Exit::Failed,
        }
    }
}
