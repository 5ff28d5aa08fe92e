//! Input: the path of a wheel. Output: the reason why no installer takes it ([`RefusedWheel`]).

use std::path::{Path, PathBuf};

use rocwheel_archive::MemberKind;

use super::distribution::{Distribution, DistributionForm};
use super::installation_path::{Destination, PythonEnvironment, entry_points};
use super::{Role, Site};
use crate::Error;

/// A file that installers refuse, of which nothing else is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedWheel {
    /// Its path.
    pub path: PathBuf,
    /// The reason, as a sentence about the wheel without a full stop.
    pub reason: String,
}

impl RefusedWheel {
    /// Opens a wheel as an installer does; `None` if it takes the wheel, or if this machine cannot
    /// read the file, which says nothing about the wheel.
    pub fn find(path: &Path) -> Option<RefusedWheel> {
        let reason = open(path).err()?.refusal()?;
        Some(RefusedWheel { path: path.to_owned(), reason })
    }

    /// The name of the file.
    pub fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Opens a wheel and finds a place for each of its members.
fn open(path: &Path) -> Result<(), Error> {
    let distribution = Distribution::open(path, Role::Audited)?;
    let DistributionForm::Wheel(wheel) = &distribution.form else { return Ok(()) };
    let points = entry_points(wheel)?;
    let place = PythonEnvironment::new(rocwheel_wheel::PythonVersion::newest_of(&[path.to_owned()]), "/environment");
    let destination = Destination { place: &place, path, wheel, points: &points };
    let files = wheel.members().iter().filter(|member| member.kind != MemberKind::Directory);
    for member in files {
        destination.of(&member.name)?;
    }
    Ok(())
}

impl Site {
    /// An environment for which only wheels were given that installers refuse.
    pub fn of_refused(refused: Vec<RefusedWheel>, place: &PythonEnvironment) -> Site {
        Site { refused, ..Site::of_files([], place) }
    }
}
