//! The Python that ships inside the packages, from `python/`, embedded. A test compares the tables with the folders.

use crate::Logical;
use crate::dist_info::repr;

macro_rules! python {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../../python/", $folder, "/", $name)))),+]
    };
}

/// Files by path.
pub type Files = &'static [(&'static str, &'static str)];

/// The template that [`crate::dist_info::Promise::lines`] is appended to.
pub const DIST_INFO: &str = include_str!("../../../python/rocm/src/rocm_sdk/_dist_info.py");

/// Where it lies in the selector.
pub const DIST_INFO_PATH: &str = "src/rocm_sdk/_dist_info.py";

/// The selector's description.
pub const README: &str = include_str!("../../../python/rocm/README.md");

/// The selector's tree.
pub const SELECTOR: Files = python!("rocm":
    "README.md",
    "pyproject.toml",
    "rocm_build.py",
    "src/rocm_sdk/__init__.py",
    "src/rocm_sdk/__main__.py",
    "src/rocm_sdk/_contents.py",
    "src/rocm_sdk/_devel.py",
    "src/rocm_sdk/_devices.py",
    "src/rocm_sdk/_dist_info.py",
    "src/rocm_sdk/_links.py",
    "src/rocm_sdk/_receipt.py",
    "src/rocm_sdk/_record.py",
    "src/rocm_sdk/_tree.py",
    "src/rocm_sdk/_verify.py",
    "src/rocm_sdk/tests/__init__.py",
    "src/rocm_sdk/tests/_dynamic.py",
    "src/rocm_sdk/tests/_load.py",
    "src/rocm_sdk/tests/_policy.py",
    "src/rocm_sdk/tests/_report.py",
    "src/rocm_sdk/tests/devel.py",
    "src/rocm_sdk/tests/devices.py",
    "src/rocm_sdk/tests/installation.py",
    "src/rocm_sdk/tests/libraries.py",
    "src/rocm_sdk/tests/tools.py",
);

const CORE: Files = python!("rocm-sdk-core/src/rocm_sdk_core": "__init__.py", "_cli.py");
const LIBRARIES: Files = python!("rocm-sdk-libraries/src/rocm_sdk_libraries": "__init__.py", "_cli.py");
const DEVEL: Files = python!("rocm-sdk-devel/src/rocm_sdk_devel": "__init__.py", "_cli.py");
const PROFILER: Files = python!("rocm-profiler/src/rocm_profiler": "__init__.py", "_cli.py");

/// The files of a distribution's import package, without `_dist_info.py`.
pub fn package_files(logical: Logical) -> Files {
    match logical {
        Logical::Core => CORE,
        Logical::Libraries => LIBRARIES,
        Logical::Devel => DEVEL,
        Logical::Profiler => PROFILER,
        Logical::Device | Logical::Meta => &[],
    }
}

/// The one module of a device wheel, named after its target so that no two wheels own the same file (pitfalls 18).
pub fn device_module(target: &str, version: &str) -> String {
    include_str!("../../../python/rocm-sdk-device/_device.py")
        .replace("@TARGET@", &repr(target))
        .replace("@VERSION@", &repr(version))
}
