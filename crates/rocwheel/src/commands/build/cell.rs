//! What is to be built, as options say it: the same for `rocwheel build` and `rocwheel recipe show`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use artifact::targets::TargetTable;
use build::matrix::Table;
use build::{Book, Cell, ChosenBy, CompilerCache, Mode, Platform, PythonVersion, Release, Switch};
use clap::Args;

use super::machine;
use crate::environment;
use crate::failure::Usage;

/// Options about what is built.
#[derive(Debug, Clone, Args)]
pub(crate) struct CellArguments {
    /// Python of the wheel, for example 3.12 or 3.13t [default: the `python3` that is there]
    #[arg(long, value_name = "VERSION")]
    python: Option<PythonVersion>,
    /// Version of ROCm, for example 7.2 [default: DESIRED_ROCM, else that of the ROCm that is there]
    #[arg(long, value_name = "VERSION")]
    rocm: Option<String>,
    /// Version of torch that is built against, for example 2.9.1
    #[arg(long, value_name = "VERSION")]
    torch: Option<String>,
    /// Index with that torch [default: PyTorch's for the version of ROCm]
    #[arg(long, value_name = "URL")]
    torch_index: Option<String>,
    /// Variant, such as ck or triton for flash-attn and cpu for torchvision [default: the recipe's first]
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// GPU targets and families, separated by `;` or `,` [default: PYTORCH_ROCM_ARCH or GPU_ARCHS, else what this machine has, else the
    /// recipe's]
    #[arg(long, value_name = "LIST")]
    gpu_targets: Option<String>,
    /// What it is for: ci, dev, dev-bkc, nightly, nightly-bkc, prerelease; versions of dev builds name the commit
    #[arg(long, value_name = "TYPE", default_value = "nightly")]
    release_type: Release,
    /// Local part of the version [default: as the ROCm that is there says]
    #[arg(long, value_name = "TEXT")]
    version_suffix: Option<String>,
    /// Number of the build
    #[arg(long, value_name = "N", default_value_t = 1)]
    build_number: u32,
    /// What compilers are called through: none, ccache, sccache, sccache-no-wrap
    #[arg(long, value_name = "NAME", default_value = "none")]
    compiler_cache: CompilerCache,
    /// Switch a feature of the recipe, such as flash-attention of torch
    #[arg(long, value_name = "NAME=on|off", value_parser = feature)]
    feature: Vec<(String, Switch)>,
    /// Remove what earlier builds left in the tree first
    #[arg(long)]
    clean: bool,
    /// Install the sources in place into an environment, in place of making a wheel
    #[arg(long)]
    develop: bool,
    /// Let the build see the packages of the interpreter itself
    #[arg(long)]
    system_packages: bool,
    /// Folder with recipes of your own; one of the same name replaces ours
    #[arg(long, value_name = "DIR")]
    recipes: Option<PathBuf>,
    /// Another table of versions, in the form of data/frameworks.toml
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

fn feature(text: &str) -> Result<(String, Switch), String> {
    let (name, switch) = text.split_once('=').ok_or("write it as `flash-attention=on`")?;
    let switch = match switch {
        "on" => Switch::On,
        "off" => Switch::Off,
        _ => return Err("a feature is `on` or `off`".into()),
    };
    Ok((name.to_owned(), switch))
}

/// Recipes and versions, and what is to be built of them.
#[derive(Debug)]
pub(crate) struct Wishes {
    pub(crate) book: Book,
    pub(crate) table: Table,
    cell: Cell,
    /// `BUILD_TRITON_BACKEND`: the Triton backend too, where there is one.
    triton_too: bool,
}

impl CellArguments {
    /// Reads the options, and the variables that people use for the same.
    pub(crate) fn wishes(self, platform: Option<Platform>) -> anyhow::Result<Wishes> {
        let mut book = Book::built_in()?;
        if let Some(folder) = &self.recipes {
            book.add_folder(folder)?;
        }
        let table = match &self.table {
            Some(path) => Table::parse(&fs_err::read_to_string(path)?, &path.to_string_lossy())?,
            None => Table::built_in()?,
        };
        let here = if cfg!(windows) { Platform::Windows } else { Platform::Linux };
        let platform = platform.unwrap_or(here);
        let wish = |names: &[&str]| environment::first_of(names);
        let (targets, chosen_by) = match self.gpu_targets.or_else(|| wish(&["PYTORCH_ROCM_ARCH", "GPU_ARCHS"])) {
            Some(list) => {
                // What the variable may hold: separated by blanks as well.
                let targets = TargetTable::embedded().expand(&list.replace(' ', ";"))?;
                if targets.is_empty() {
                    return Err(Usage::new(format!("`{list}` names no GPU target")).into());
                }
                (targets, ChosenBy::User)
            }
            None if platform == here => (machine::gpu_targets(std::path::Path::new("/")), ChosenBy::Machine),
            None => (Vec::new(), ChosenBy::Recipe),
        };
        let rocm = self.rocm.or_else(|| wish(&["DESIRED_ROCM"]).map(|rocm| rocm.trim_start_matches("rocm").to_owned()));
        let torch_index =
            self.torch_index.or_else(|| rocm.as_ref().map(|rocm| table.torch_index(self.torch.as_deref(), rocm)));
        let cell = Cell {
            python: self.python,
            rocm,
            torch: self.torch,
            backend: self.backend,
            chosen_by: if targets.is_empty() { ChosenBy::Recipe } else { chosen_by },
            targets,
            release: self.release_type,
            compiler_cache: self.compiler_cache,
            mode: if self.develop { Mode::Develop } else { Mode::Wheel },
            clean: self.clean.into(),
            features: self.feature.into_iter().collect::<BTreeMap<_, _>>(),
            label: self.version_suffix.map(|suffix| suffix.trim_start_matches('+').to_owned()),
            build_number: self.build_number,
            torch_index,
            system_packages: self.system_packages.into(),
            ..Cell::new(platform)
        };
        let is_true = |text: String| ["1", "true", "TRUE", "True", "on", "ON"].contains(&text.as_str());
        let triton_too = wish(&["BUILD_TRITON_BACKEND"]).is_some_and(is_true);
        Ok(Wishes { book, table, cell, triton_too })
    }
}

impl Wishes {
    /// Names of recipes, `all`, and names that say for which ROCm: recipes in the order in which they are built, with that ROCm.
    pub(crate) fn recipes(&self, names: &[String]) -> anyhow::Result<Vec<(String, Option<String>)>> {
        const ALL: [&str; 5] = ["triton", "torch", "torchaudio", "torchvision", "apex"];
        let mut rocm = BTreeMap::new();
        let mut wanted: Vec<String> = Vec::new();
        for name in names {
            if name == "all" {
                let fits = |name: &&&str| {
                    self.book.get(name).is_ok_and(|entry| entry.recipe.platforms.contains(&self.cell.platform))
                };
                wanted.extend(ALL.iter().filter(fits).map(|&name| name.to_owned()));
                continue;
            }
            let (entry, of_name) = self.book.named(name, &self.table.rocm_versions())?;
            if let Some(version) = of_name {
                rocm.insert(entry.recipe.name.clone(), version);
            }
            wanted.push(entry.recipe.name.clone());
        }
        let order = self.book.order(&wanted)?;
        Ok(order.into_iter().map(|entry| (entry.recipe.name.clone(), rocm.get(&entry.recipe.name).cloned())).collect())
    }

    /// The cells of a recipe that is built after others: one, or two where the Triton backend is built too.
    pub(crate) fn cells(
        &self,
        recipe: &str,
        rocm: Option<&String>,
        with: &BTreeSet<String>,
    ) -> anyhow::Result<Vec<Cell>> {
        let recipe = &self.book.get(recipe)?.recipe;
        let mut cell = self.cell.clone();
        cell.with.clone_from(with);
        if let Some(rocm) = rocm {
            cell.rocm = Some(rocm.clone());
        }
        // Features are named for the recipe that has them; of several recipes, the others do not.
        cell.features.retain(|name, _| {
            recipe.features.is_empty() || recipe.features.iter().any(|feature| feature.name == *name) || with.is_empty()
        });
        let mut cells = vec![cell];
        let is_second = recipe.backends.iter().skip(1).any(|backend| backend == "triton");
        if self.triton_too && self.cell.backend.is_none() && is_second {
            let also = Cell { backend: Some("triton".to_owned()), ..cells[0].clone() };
            cells.push(also);
        }
        Ok(cells)
    }
}
