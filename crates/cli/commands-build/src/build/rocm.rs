//! The options of `rocwheel build` about ROCm, and about wheels to install before the build.

use std::path::PathBuf;

use clap::Args;
use rocwheel_recipe::RocmChoice;

/// Where ROCm is, and what else is installed before.
#[derive(Debug, Args)]
#[command(next_help_heading = "ROCm and other packages to build against")]
pub(crate) struct RocmArguments {
    /// ROCm to build against: Python packages of an index (`index` or `index=URL`), of a page or
    /// folder with links (`find-links=…`), of a folder (`directory=DIR`), or an installed one
    /// (`prefix=DIR`) [default: ROCM_PATH or ROCM_HOME, else /opt/rocm or the newest
    /// /opt/rocm-VERSION]
    #[arg(long, value_name = "KIND[=PLACE]")]
    rocm_sdk: Option<String>,
    /// Version of the ROCm packages: a specifier with its operator
    #[arg(long, value_name = "SPECIFIER", default_value = ">1.0")]
    rocm_sdk_version: String,
    /// More extras of the package rocm, separated by commas, such as device-gfx942
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    rocm_extras: Vec<String>,
    /// Take no pre-releases of ROCm
    #[arg(long)]
    no_pre: bool,
    /// Wheels to install first, such as a torch that was built elsewhere
    #[arg(long, value_name = "WHEEL")]
    with: Vec<PathBuf>,
}

impl RocmArguments {
    /// Converts the options to the type of the library.
    pub(super) fn choice(self) -> RocmChoice {
        RocmChoice {
            place: self.rocm_sdk,
            specifier: self.rocm_sdk_version,
            extras: self.rocm_extras,
            no_pre: self.no_pre,
            with: self.with,
        }
    }
}
