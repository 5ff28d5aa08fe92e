//! Input: the rows about DLLs. Output: the component that provides a DLL, by its name.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use rocwheel_progress::{Exit, Failure};

use crate::rows::WindowsNames;

/// The component that provides a DLL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DllProvider {
    /// Windows itself, in every installation.
    System,
    /// The Python interpreter.
    Python,
    /// Visual Studio's redistributable package.
    Runtime,
    /// A driver, in no package.
    Driver,
    /// Visual Studio only: the DLL is for debugging and must not be redistributed.
    Debug,
    /// ROCm, so a package must contain it.
    Rocm,
}

/// Names of DLLs, grouped by provider.
#[derive(Debug)]
pub(crate) struct DllNames(Vec<(DllProvider, GlobSet)>);

impl DllNames {
    pub(crate) fn new(names: &WindowsNames, rocm: &[String]) -> Result<Self, Failure> {
        let groups = [
            // First, because their names are those of the other groups with one more letter.
            (DllProvider::Debug, names.debug.as_slice()),
            (DllProvider::System, &names.system),
            (DllProvider::Python, &names.python),
            (DllProvider::Runtime, &names.runtime),
            (DllProvider::Driver, &names.driver),
            (DllProvider::Rocm, rocm),
        ];
        let sets: Result<_, globset::Error> = groups
            .into_iter()
            .map(|(provider, patterns)| {
                let mut builder = GlobSetBuilder::new();
                for pattern in patterns {
                    builder.add(GlobBuilder::new(pattern).case_insensitive(true).build()?);
                }
                Ok((provider, builder.build()?))
            })
            .collect();
        sets.map(Self).map_err(|error| {
            Failure::other(error).context("could not understand a name of a DLL in the tables").with_exit(Exit::Usage)
        })
    }

    /// The provider of the DLL with this file name; `None` for an unknown one. Case is ignored.
    pub(crate) fn provider(&self, library: &str) -> Option<DllProvider> {
        self.0.iter().find(|(_, names)| names.is_match(library)).map(|(provider, _)| *provider)
    }
}
