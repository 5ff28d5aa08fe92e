//! What a user wants to get, and from where.

use std::path::{Path, PathBuf};

use rocwheel_wheel::{Platform, PythonVersion};

use crate::index_site::IndexSite;

/// The input of [`plan_get`](crate::plan_get).
#[derive(Debug, Clone, Copy)]
pub struct GetRequest<'a> {
    /// A project, a requirement that names versions, or the name of a wheel.
    pub name: &'a str,
    /// Indexes; the first one that has the project counts.
    pub sites: &'a [IndexSite],
    /// Wheels, and folders with wheels.
    pub have: &'a [PathBuf],
    pub output: &'a Path,
    /// The Python that the wheel is for; `None` if the version has one wheel only.
    pub python: Option<PythonVersion>,
    pub platform: Platform,
}
