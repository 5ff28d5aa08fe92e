//! What goes into builds besides sources: ROCm, and wheels that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use build::{Input, Packages, Rocm, SdkKind};
use clap::Args;
use report::Reporter;
use wheel::WheelName;

use crate::failure::Usage;

/// Where ROCm is, and what else is installed before.
#[derive(Clone, Args)]
#[command(next_help_heading = "ROCm and what else is installed before")]
pub(crate) struct Sdk {
    /// ROCm to build against: Python packages of an index (`index` or `index=URL`), of a page or folder with links (`find-links=…`), of
    /// a folder (`directory=DIR`), or an installed one (`prefix=DIR`) [default: ROCM_PATH or ROCM_HOME, else /opt/rocm]
    #[arg(long, value_name = "KIND[=PLACE]")]
    rocm_sdk: Option<String>,
    /// Which ROCm packages: a specifier with its operator
    #[arg(long, value_name = "SPECIFIER", default_value = ">1.0")]
    rocm_sdk_version: String,
    /// More extras of the package rocm, separated by commas, such as device-gfx942
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    rocm_extras: Vec<String>,
    /// Take no pre-releases of ROCm
    #[arg(long)]
    no_pre: bool,
    /// Wheels to install before, such as a torch that was built elsewhere
    #[arg(long, value_name = "WHEEL")]
    with: Vec<PathBuf>,
}

/// The address of an index may hold a secret, which is not shown.
impl fmt::Debug for Sdk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sdk { rocm_sdk, rocm_sdk_version, rocm_extras, no_pre, with } = self;
        let shown = rocm_sdk.as_deref().map(|text| match text.split_once('=') {
            Some((kind, place)) => format!("{kind}={}", source::without_secret(place)),
            None => text.to_owned(),
        });
        let mut fields = formatter.debug_struct("Sdk");
        fields.field("rocm_sdk", &shown).field("rocm_sdk_version", rocm_sdk_version).field("rocm_extras", rocm_extras);
        fields.field("no_pre", no_pre).field("with", with).finish()
    }
}

impl Sdk {
    /// How ROCm comes to the builds: an installed one, unless packages are named.
    pub(crate) fn kind(&self) -> SdkKind {
        let is_prefix = self.rocm_sdk.as_deref().is_none_or(|text| text.split('=').next() == Some("prefix"));
        if is_prefix { SdkKind::Prefix } else { SdkKind::Packages }
    }

    /// With what stands for the versions of a cell put in.
    pub(crate) fn filled(&self, fill: &dyn Fn(&str) -> Result<String, Usage>) -> Result<Sdk, Usage> {
        let rocm_sdk = self.rocm_sdk.as_deref().map(fill).transpose()?;
        Ok(Sdk { rocm_sdk, rocm_sdk_version: fill(&self.rocm_sdk_version)?, ..self.clone() })
    }

    /// The ROCm that recipes are built against.
    pub(crate) fn rocm(&self, version: Option<&str>, surroundings: &BTreeMap<String, String>) -> anyhow::Result<Rocm> {
        let Some(text) = &self.rocm_sdk else {
            let named = ["ROCM_PATH", "ROCM_HOME"].iter().find_map(|name| surroundings.get(*name)).map(PathBuf::from);
            let found = named.or_else(|| Some(PathBuf::from("/opt/rocm"))).filter(|path| path.is_dir());
            let Some(path) = found else {
                let usage = Usage::new("nobody says which ROCm is to be built against, and none is at /opt/rocm");
                return Err(usage
                    .hint("say it: `--rocm-sdk index=URL`, `find-links=…`, `directory=DIR` or `prefix=DIR`")
                    .into());
            };
            return prefix(&path, version);
        };
        let (kind, place) = text.split_once('=').map_or((text.as_str(), None), |(kind, place)| (kind, Some(place)));
        let packages =
            Packages { specifier: self.rocm_sdk_version.clone(), extras: self.rocm_extras.clone(), pre: !self.no_pre };
        let needed = || {
            Usage::new(format!("`--rocm-sdk {kind}` needs a place")).hint(format!("write `--rocm-sdk {kind}=PLACE`"))
        };
        match (kind, place.filter(|place| !place.is_empty())) {
            ("index", url) => Ok(Rocm::Index { url: url.map(str::to_owned), packages }),
            ("find-links", Some(links)) => {
                let is_local = Path::new(links).exists();
                let links = if is_local {
                    std::path::absolute(links)?.to_string_lossy().into_owned()
                } else {
                    links.to_owned()
                };
                Ok(Rocm::FindLinks { links, packages })
            }
            ("directory", Some(folder)) => {
                let path = std::path::absolute(folder)?;
                if !path.is_dir() {
                    return Err(Usage::new(format!("there is no folder `{folder}` with packages of ROCm")).into());
                }
                Ok(Rocm::FindLinks { links: path.to_string_lossy().into_owned(), packages })
            }
            ("prefix", Some(path)) => prefix(Path::new(path), version),
            ("find-links" | "directory" | "prefix", None) => Err(needed().into()),
            _ => {
                let usage = Usage::new(format!("`--rocm-sdk {text}` is nothing that is known"));
                Err(usage
                    .hint("it is `index`, `index=URL`, `find-links=PLACE`, `directory=DIR` or `prefix=DIR`")
                    .into())
            }
        }
    }

    /// Where an installed ROCm is in a container; `None`: it comes as packages. Variables of this machine say nothing about that.
    pub(crate) fn prefix_inside(&self) -> Option<PathBuf> {
        match self.rocm_sdk.as_deref() {
            None => Some(PathBuf::from("/opt/rocm")),
            Some(text) => text.strip_prefix("prefix=").filter(|path| !path.is_empty()).map(PathBuf::from),
        }
    }

    /// Distributions of the wheels that are given.
    pub(crate) fn given(&self) -> BTreeSet<String> {
        let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.parse::<WheelName>().ok()?.distribution);
        self.with.iter().filter_map(name).collect()
    }

    /// The wheels that are given, looked at.
    pub(crate) fn inputs(&self, reporter: &dyn Reporter) -> anyhow::Result<Vec<Input>> {
        let look = |path: &PathBuf| {
            if path.file_name().and_then(|name| name.to_str()).is_none_or(|name| name.parse::<WheelName>().is_err()) {
                return Err(Usage::new(format!("`{}` is not the name of a wheel", path.display())).into());
            }
            Ok(Input::at(path, reporter)?)
        };
        self.with.iter().map(look).collect()
    }
}

/// An installed ROCm, and what it says it is.
fn prefix(path: &Path, version: Option<&str>) -> anyhow::Result<Rocm> {
    let path = std::path::absolute(path)?;
    if !path.join("bin").is_dir() {
        let usage = Usage::new(format!("`{}` is no installed ROCm: it has no folder `bin`", path.display()));
        return Err(usage.hint("`--rocm-sdk prefix=DIR` names one").into());
    }
    let file = path.join(".info/version");
    let said = fs_err::read_to_string(&file).ok().map(|text| text.trim().split('-').next().unwrap_or("").to_owned());
    if let Some(version) = said.filter(|said| !said.is_empty()).or_else(|| version.map(str::to_owned)) {
        return Ok(Rocm::Prefix { path, version });
    }
    let usage = Usage::new(format!("`{}` does not say its version in .info/version", path.display()));
    Err(usage.hint("say it with `--rocm`").into())
}
