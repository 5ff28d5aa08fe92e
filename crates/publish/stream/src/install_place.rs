//! The Pythons and systems that packages are installed on.

use std::collections::BTreeSet;

use pep508_rs::MarkerEnvironment;
use rocwheel_index::requirement::InstallTarget;
use rocwheel_store::listing::StoredDistribution;
use rocwheel_wheel::{Platform, PythonVersion, WheelName};

/// The minor versions of Python 3 that a set without compiled wheels is checked for.
pub const PYTHONS: [u16; 5] = [10, 11, 12, 13, 14];

/// A Python on a system.
#[derive(Debug, Clone)]
pub struct InstallPlace {
    /// As requirements and tags are compared with it.
    pub target: InstallTarget,
    /// As markers are evaluated (PEP 508).
    pub markers: MarkerEnvironment,
}

impl InstallPlace {
    /// A Python on a system, with any C library.
    pub fn new(python: PythonVersion, platform: Platform) -> InstallPlace {
        let target = InstallTarget { python, platform, glibc: None };
        InstallPlace { markers: target.environment(), target }
    }

    /// `Python 3.12 on Linux`.
    pub fn name(&self) -> String {
        format!("Python {} on {}", self.target.python, self.target.platform)
    }
}

/// The Pythons and systems in which a requirement of a listed file can count.
pub fn marker_environments(listed: &[StoredDistribution]) -> Vec<MarkerEnvironment> {
    let compiled = listed.iter().filter_map(|one| one.wheel.as_ref()).flat_map(compiled_for);
    let minors: BTreeSet<u16> = compiled.map(|python| python.minor).chain(PYTHONS).collect();
    let environments = minors.into_iter().flat_map(|minor| {
        let python = PythonVersion { major: 3, minor, free_threaded: false };
        [Platform::Linux, Platform::Windows].map(|platform| InstallPlace::new(python, platform).markers)
    });
    environments.collect()
}

/// The Pythons that a wheel was compiled for.
pub fn compiled_for(wheel: &WheelName) -> BTreeSet<PythonVersion> {
    let pythons = wheel.tags().into_iter().filter_map(|tag| {
        let python = tag.python.strip_prefix("cp3")?;
        let (minor, abi) = (python.parse().ok()?, tag.abi.strip_prefix("cp3")?);
        let is_compiled = abi == python || abi.ends_with('t');
        is_compiled.then_some(PythonVersion { major: 3, minor, free_threaded: abi != python })
    });
    pythons.collect()
}
