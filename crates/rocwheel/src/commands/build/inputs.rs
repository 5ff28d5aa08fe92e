//! What goes into builds: sources, ROCm, and wheels that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use build::recipe::Recipe;
use build::{Input, Packages, Rocm, Source};
use clap::Args;
use regex::Regex;
use report::Reporter;
use wheel::WheelName;

use crate::commands::source::{download, projects};
use crate::environment;
use crate::failure::Usage;
use crate::printer::Printer;

/// Where sources are.
#[derive(Debug, Clone, Args)]
pub(crate) struct Sources {
    /// Sources of a recipe: a checkout, a folder, an archive, or the version of a release that is known [default: its folder below the
    /// source root]
    #[arg(long, value_name = "[RECIPE=]PATH|VERSION")]
    source: Vec<String>,
    /// Folder below which `rocwheel source checkout` put the trees
    #[arg(long, value_name = "DIR", default_value = ".")]
    source_root: PathBuf,
}

/// Where ROCm is, and what else is installed before.
#[derive(Debug, Clone, Args)]
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

impl Sources {
    /// Every `RECIPE=` is one of those that are built.
    pub(crate) fn check(&self, names: &[(String, Option<String>)]) -> Result<(), Usage> {
        for text in &self.source {
            match text.split_once('=') {
                Some((recipe, _)) if !names.iter().any(|(name, _)| name == recipe) => {
                    return Err(Usage::new(format!("`--source {text}` is for {recipe}, which is not built")));
                }
                None if names.len() > 1 => {
                    let hint = format!("write `--source {}={text}`", names[0].0);
                    return Err(Usage::new(format!("`--source {text}` does not say for which recipe it is")).hint(hint));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn given(&self, recipe: &Recipe) -> Option<&str> {
        let of = |text: &'_ String| match text.split_once('=') {
            Some((name, _)) => name == recipe.name,
            None => true,
        };
        let text = self.source.iter().rfind(|text| of(text))?;
        Some(text.split_once('=').map_or(text.as_str(), |(_, value)| value))
    }

    /// The version of the sources, as far as it can be told without unpacking anything.
    pub(crate) fn version(&self, recipe: &Recipe) -> anyhow::Result<Option<String>> {
        let place = match self.given(recipe) {
            Some(text) if !Path::new(text).exists() => return Ok(is_version(text).then(|| text.to_owned())),
            Some(text) => PathBuf::from(text),
            None => self.below_root(recipe)?,
        };
        if place.is_file() {
            let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Ok(version_of_archive(&name));
        }
        let Some(file) = &recipe.version_file else { return Ok(None) };
        let Ok(text) = fs_err::read_to_string(place.join(&file.path)) else { return Ok(None) };
        let Some(pattern) = &file.pattern else { return Ok(Some(text.trim().to_owned())) };
        let pattern = Regex::new(&format!("(?m){pattern}"))?;
        Ok(pattern.captures(&text).and_then(|found| found.get(1)).map(|found| found.as_str().to_owned()))
    }

    fn below_root(&self, recipe: &Recipe) -> anyhow::Result<PathBuf> {
        let table = projects::table(None)?;
        let folder = table.project(&recipe.source).map_or(recipe.source.clone(), |project| project.directory.clone());
        Ok(self.source_root.join(folder))
    }

    /// The sources of a recipe, looked at; a release that is known is fetched.
    pub(crate) fn source(
        &self,
        recipe: &Recipe,
        surroundings: &BTreeMap<String, String>,
        printer: &Printer,
    ) -> anyhow::Result<Source> {
        let reporter = printer.reporter();
        let Some(text) = self.given(recipe) else {
            let place = self.below_root(recipe)?;
            if !place.exists() {
                let usage = Usage::new(format!("there are no sources of {} at `{}`", recipe.name, place.display()));
                let (project, root) = (&recipe.source, self.source_root.display());
                return Err(usage
                    .hint(format!(
                        "`rocwheel source checkout {project} --root {root}` checks them out, `--source` says where they are"
                    ))
                    .into());
            }
            return Ok(Source::at(&place, surroundings, reporter)?);
        };
        if Path::new(text).exists() || !is_version(text) {
            return Ok(Source::at(Path::new(text), surroundings, reporter)?);
        }
        let table = projects::table(None)?;
        let Some(known) = table.archive(&recipe.source, text) else {
            let known: Vec<&str> = table
                .archives
                .iter()
                .filter(|known| known.project == recipe.source)
                .map(|known| known.version.as_str())
                .collect();
            let usage = Usage::new(format!("the release {text} of {} is not known", recipe.name));
            let names = if known.is_empty() { "none is".to_owned() } else { known.join(", ") };
            let project = &recipe.source;
            return Err(usage
                .hint(format!(
                    "known: {names}; `rocwheel source checkout {project} --ref v{text}` checks any other out"
                ))
                .into());
        };
        let cache = environment::cache()
            .ok_or_else(|| Usage::new("there is no place for downloads").hint("set `ROCWHEEL_CACHE`"))?;
        let path = download::archive(&known.url, &known.sha256, &cache, reporter)?;
        Ok(Source::at(&path, surroundings, reporter)?)
    }
}

impl Sdk {
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

fn is_version(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+".contains(&byte))
}

/// `flash_attn-2.8.3.tar.gz` is 2.8.3.
fn version_of_archive(name: &str) -> Option<String> {
    let stem = [".tar.gz", ".tar.xz", ".tar.bz2", ".tar.zst", ".tar", ".tgz"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))?;
    let version = stem.rsplit_once(['-', '_'])?.1.trim_start_matches('v');
    is_version(version).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_say_their_version() {
        assert_eq!(version_of_archive("flash_attn-2.8.3.tar.gz").as_deref(), Some("2.8.3"));
        assert_eq!(version_of_archive("pytorch-v2.9.1.tar.xz").as_deref(), Some("2.9.1"));
        assert_eq!(version_of_archive("sources.tar.gz"), None);
        assert_eq!(version_of_archive("x-main.tar"), None);
    }
}
