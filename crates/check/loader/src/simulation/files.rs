//! Input: a path that the loader would open. Output: the file of the environment or of the machine
//! at that path, and the loader's verdict on it.

use std::sync::Arc;

use rocwheel_wheel::CLibrary;

use super::Loader;
use super::machine::{NotTaken, Real};
use super::verdict::{Verdict, judge};
use crate::facts::Object;

/// A file of the environment and the folder it is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) folder: &'a str,
    pub(super) path: &'a str,
}

/// A file that can be loaded.
#[derive(Clone)]
pub(super) enum File<'a> {
    Site(&'a str, &'a Object),
    Real(Arc<Real>),
}

impl File<'_> {
    pub(super) fn object(&self) -> &Object {
        match self {
            File::Site(_, object) => object,
            File::Real(real) => &real.object,
        }
    }
}

/// The target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Location {
    /// A path in the environment, relative to its prefix.
    Site(String),
    /// A path outside the environment, absolute and as written.
    Outside(String),
    /// No target: the path is relative to the working directory, or goes through a folder that does
    /// not exist.
    Nowhere,
}

/// The file at a path.
pub(super) enum Opened<'a> {
    File(File<'a>),
    /// The loader skips it.
    Skipped(String),
    /// The loader gives up. The values are the path and the reason.
    Refused(String, String),
    Absent,
}

impl<'a> Loader<'a> {
    /// Resolves a path like the kernel. The environment has no links.
    pub(super) fn locate(&self, path: &str) -> Location {
        if !path.starts_with('/') {
            return Location::Nowhere;
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
            if part != ".." {
                parts.push(part);
            } else if parts.starts_with(&self.prefix) && !self.site.has_folder(&parts[self.prefix.len()..].join("/")) {
                return Location::Nowhere;
            } else {
                parts.pop();
            }
        }
        if parts.starts_with(&self.prefix) {
            Location::Site(parts[self.prefix.len()..].join("/"))
        } else {
            Location::Outside(path.to_owned())
        }
    }

    /// The absolute path of a file of the environment.
    pub(super) fn absolute(&self, path: &str) -> String {
        format!("/{}/{path}", self.prefix.join("/"))
    }

    /// Opens a file of the environment.
    pub(super) fn open_site(&self, path: &str) -> Opened<'a> {
        let Some((path, _)) = self.site.files.get_key_value(path) else { return Opened::Absent };
        if let Some(broken) = self.facts.unreadable.get(path).filter(|broken| broken.format == "ELF") {
            return Opened::Refused(path.clone(), broken.reason.clone());
        }
        let object = self.facts.objects.get(path);
        let library = if self.machine.is_musl() { CLibrary::Musl } else { CLibrary::Glibc };
        match (judge(object, library), object) {
            (Verdict::Taken, Some(object)) => Opened::File(File::Site(path, object)),
            (Verdict::Refused(why), _) => Opened::Refused(path.clone(), why.to_owned()),
            _ => Opened::Skipped(path.clone()),
        }
    }

    /// Opens a file outside the environment.
    pub(super) fn open_outside(&self, path: &str) -> Opened<'a> {
        from_machine(self.machine.open(path), path)
    }
}

/// Converts a result of the machine; `asked` is the requested path or name.
pub(super) fn from_machine<'a>(found: Result<Arc<Real>, NotTaken>, asked: &str) -> Opened<'a> {
    match found {
        Ok(real) => Opened::File(File::Real(real)),
        Err(NotTaken::Absent) => Opened::Absent,
        Err(NotTaken::Skipped) => Opened::Skipped(asked.to_owned()),
        Err(NotTaken::Refused(why)) => Opened::Refused(asked.to_owned(), why),
    }
}
