//! Input: the rows about DLLs. Output: the component that provides a DLL, by its name.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::Error;
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
    pub(crate) fn new(names: &WindowsNames, rocm: &[String]) -> Result<Self, Error> {
        let set = |provider, patterns: &[String]| -> Result<(DllProvider, GlobSet), Error> {
            let wrong = |source| Error::DllName { source: Box::new(source) };
            let mut builder = GlobSetBuilder::new();
            for pattern in patterns {
                builder.add(GlobBuilder::new(pattern).case_insensitive(true).build().map_err(wrong)?);
            }
            Ok((provider, builder.build().map_err(wrong)?))
        };
        Ok(Self(vec![
            // First, because their names are those of the other groups with one more letter.
            set(DllProvider::Debug, &names.debug)?,
            set(DllProvider::System, &names.system)?,
            set(DllProvider::Python, &names.python)?,
            set(DllProvider::Runtime, &names.runtime)?,
            set(DllProvider::Driver, &names.driver)?,
            set(DllProvider::Rocm, rocm)?,
        ]))
    }

    /// The provider of the DLL with this file name; `None` for an unknown one. Case is ignored.
    pub(crate) fn provider(&self, library: &str) -> Option<DllProvider> {
        self.0.iter().find(|(_, names)| names.is_match(library)).map(|(provider, _)| *provider)
    }
}
