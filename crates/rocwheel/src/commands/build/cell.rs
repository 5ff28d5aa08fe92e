//! What is to be built, as options say it: the same for `rocwheel build` and
//! `rocwheel recipe show`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use rocwheel_recipe::matrix::{RocmLabel, Table};
use rocwheel_recipe::recipe::Recipe;
use rocwheel_recipe::{
    Book, Cell, ChosenBy, CompilerCache, LabelStyle, Mode, Platform, PythonVersion, Release, SdkKind, Switch,
    VersionLock,
};
use rocwheel_rocm::TargetTable;

use super::machine;
use crate::environment;
use crate::failure::Usage;

/// Options about what is built.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What is built")]
pub(crate) struct CellArguments {
    /// Pythons of the wheels, separated by commas, for example 3.12 or 3.13t [default: the
    /// `python3` of this machine]
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    python: Vec<PythonVersion>,
    /// Versions of ROCm, separated by commas, for example 7.2 [default: DESIRED_ROCM, else that of
    /// the installed ROCm]
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    rocm: Vec<String>,
    /// Versions of torch to build against, separated by commas, for example 2.9.1
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    torch: Vec<String>,
    /// Index with that torch [default: PyTorch's for the version of ROCm]
    #[arg(long, value_name = "URL")]
    torch_index: Option<String>,
    /// Variants, separated by commas, such as ck or triton for flash-attn and cpu for torchvision
    /// [default: the recipe's first]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    backend: Vec<String>,
    /// GPU targets and families, separated by `;` or `,`; repeat it for a second set, which is
    /// built separately [default: PYTORCH_ROCM_ARCH or GPU_ARCHS, else what this machine has, else
    /// the recipe's]
    #[arg(long, value_name = "LIST")]
    gpu_targets: Vec<String>,
    /// What the build is for: ci, dev, dev-bkc, nightly, nightly-bkc, prerelease; versions of dev
    /// builds name the commit
    #[arg(long, value_name = "TYPE", default_value = "nightly")]
    release_type: Release,
    /// Local part of the version [default: from the installed ROCm]
    #[arg(long, value_name = "TEXT")]
    version_suffix: Option<String>,
    /// How the name of the wheel spells ROCm if the recipe sets the local part: dotted
    /// (rocm6.2torch2.5) or compact (rocm62torch2.5); both count as the same wheel
    #[arg(long, value_name = "STYLE", default_value = "dotted", conflicts_with = "version_suffix")]
    label_style: LabelStyle,
    /// Versions of ROCm's packages that the result takes: exact (the one it is built against) or
    /// minor (all of the same first two numbers, such as 7.10.*)
    #[arg(long, value_name = "LOCK", default_value = "exact")]
    rocm_lock: VersionLock,
    /// Number of the build
    #[arg(long, value_name = "N", default_value_t = 1)]
    build_number: u32,
    /// Compiler cache: none, ccache, sccache, sccache-no-wrap
    #[arg(long, value_name = "NAME", default_value = "none")]
    compiler_cache: CompilerCache,
    /// Switch a feature of the recipe, such as flash-attention of torch
    #[arg(long, value_name = "NAME=on|off", value_parser = feature)]
    feature: Vec<(String, Switch)>,
    /// Remove what earlier builds left in the tree first
    #[arg(long)]
    clean: bool,
    /// Install the sources in place into an environment instead of making a wheel
    #[arg(long)]
    develop: bool,
    /// Let the build see the packages of the interpreter
    #[arg(long)]
    system_packages: bool,
    /// Folder with your recipes; one of the same name replaces ours
    #[arg(long, value_name = "DIR")]
    recipes: Option<PathBuf>,
    /// Rows for the table of versions, in the form that `rocwheel matrix --print-table` prints; a
    /// file with `[torch-index]` replaces the table
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
#[derive(Debug, Clone)]
pub(crate) struct Wishes {
    pub(crate) book: Book,
    pub(crate) table: Table,
    cell: Cell,
    /// What varies; the cell has the first value of each.
    pub(crate) axes: Axes,
    torch_index: Option<String>,
    /// Versions named with `--rocm`.
    rocm: Vec<String>,
    /// `BUILD_TRITON_BACKEND`: the Triton backend too, where there is one.
    triton_too: bool,
}

/// A recipe that is built.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) recipe: String,
    /// The versions of ROCm that the names said which asked for it, such as magma-rocm63; none:
    /// those of the axis.
    pub(crate) rocm: Vec<String>,
    /// Features that this recipe lacks and another of the run has: `--feature` is for that one.
    features_of_others: BTreeSet<String>,
}

/// The values of everything that can vary, of which every combination is built.
#[derive(Debug, Clone)]
pub(crate) struct Axes {
    /// Versions of ROCm; one that is nothing where nobody names one, as in the others.
    pub(crate) rocm: Vec<Option<String>>,
    pub(crate) torch: Vec<Option<String>>,
    pub(crate) python: Vec<Option<PythonVersion>>,
    pub(crate) backends: Vec<Option<String>>,
    /// Sets of GPU targets.
    pub(crate) targets: Vec<Vec<String>>,
}

impl Axes {
    /// Whether there is anything to combine.
    pub(crate) fn are_several(&self) -> bool {
        [self.rocm.len(), self.torch.len(), self.python.len(), self.backends.len(), self.targets.len()]
            .iter()
            .any(|count| *count > 1)
    }
}

/// The values, each once; one that is nothing when there are none.
fn values<T: PartialEq>(given: impl IntoIterator<Item = T>) -> Vec<Option<T>> {
    let mut values = Vec::new();
    for value in given.into_iter().map(Some) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    if values.is_empty() { vec![None] } else { values }
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
        let mut lists = self.gpu_targets;
        if lists.is_empty() {
            lists.extend(wish(&["PYTORCH_ROCM_ARCH", "GPU_ARCHS"]));
        }
        let (sets, chosen_by) = match &lists[..] {
            [] if platform == here => (vec![machine::gpu_targets(std::path::Path::new("/"))], ChosenBy::Machine),
            [] => (vec![Vec::new()], ChosenBy::Recipe),
            lists => (lists.iter().map(|list| target_set(list)).collect::<anyhow::Result<_>>()?, ChosenBy::User),
        };
        let asked = self.rocm.clone();
        let named = || wish(&["DESIRED_ROCM"]).map(|rocm| rocm.trim_start_matches("rocm").to_owned());
        let rocm = if self.rocm.is_empty() { named().into_iter().collect() } else { self.rocm };
        let axes = Axes {
            rocm: values(rocm),
            torch: values(self.torch),
            python: values(self.python),
            backends: values(self.backend),
            targets: values(sets).into_iter().flatten().collect(),
        };
        let targets = axes.targets[0].clone();
        let cell = Cell {
            python: axes.python[0],
            rocm: axes.rocm[0].clone(),
            torch: axes.torch[0].clone(),
            backend: axes.backends[0].clone(),
            chosen_by: if targets.is_empty() { ChosenBy::Recipe } else { chosen_by },
            targets,
            release: self.release_type,
            rocm_lock: self.rocm_lock,
            compiler_cache: self.compiler_cache,
            mode: if self.develop { Mode::Develop } else { Mode::Wheel },
            clean: self.clean.into(),
            features: self.feature.into_iter().collect::<BTreeMap<_, _>>(),
            label_style: self.label_style,
            label: self.version_suffix.map(|suffix| suffix.trim_start_matches('+').to_owned()),
            build_number: self.build_number,
            system_packages: self.system_packages.into(),
            ..Cell::new(platform)
        };
        if self.label_style == LabelStyle::Compact {
            axes.rocm.iter().flatten().try_for_each(|rocm| check_compact(rocm, &table))?;
        }
        let is_true = |text: String| ["1", "true", "TRUE", "True", "on", "ON"].contains(&text.as_str());
        let triton_too = wish(&["BUILD_TRITON_BACKEND"]).is_some_and(is_true);
        Ok(Wishes { book, table, cell, axes, torch_index: self.torch_index, rocm: asked, triton_too })
    }
}

impl Wishes {
    /// The same, with ROCm that comes in another way than as packages.
    pub(crate) fn with_sdk(mut self, sdk: SdkKind) -> Wishes {
        self.cell.sdk = sdk;
        self
    }

    /// Takes the GPU targets of the ROCm, unless the user names some. They win over the GPU of this
    /// machine, because ROCm's packages have no code for other targets.
    pub(crate) fn with_targets_of_rocm(mut self, targets: Vec<String>) -> Wishes {
        let is_free = self.cell.chosen_by != ChosenBy::User;
        if is_free && !targets.is_empty() {
            self.axes.targets = vec![targets.clone()];
            (self.cell.targets, self.cell.chosen_by) = (targets, ChosenBy::Sdk);
        }
        self
    }

    /// `true` for `--develop`: the sources are installed where they are.
    pub(crate) fn is_in_place(&self) -> bool {
        self.cell.mode == Mode::Develop
    }

    /// Names of recipes, `all`, and names that say for which ROCm: recipes in the order in which
    /// they are built, with that ROCm.
    pub(crate) fn recipes(&self, names: &[String]) -> anyhow::Result<Vec<Named>> {
        // apex is built by its name only, as TheRock's script builds it only where its sources are.
        const ALL: [&str; 4] = ["triton", "torch", "torchaudio", "torchvision"];
        let mut rocm: BTreeMap<String, Vec<String>> = BTreeMap::new();
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
                let versions = rocm.entry(entry.recipe.name.clone()).or_default();
                versions.extend(Some(version).filter(|version| !versions.contains(version)));
            }
            wanted.push(entry.recipe.name.clone());
        }
        let order = self.book.order(&wanted)?;
        let features = |entry: &rocwheel_recipe::Entry| -> BTreeSet<String> {
            entry.recipe.features.iter().map(|feature| feature.name.clone()).collect()
        };
        let known: BTreeSet<String> = order.iter().flat_map(|entry| features(entry)).collect();
        let named = |entry: &rocwheel_recipe::Entry| {
            let recipe = entry.recipe.name.clone();
            let features_of_others = &known - &features(entry);
            Named { rocm: rocm.get(&recipe).cloned().unwrap_or_default(), recipe, features_of_others }
        };
        let named: Vec<Named> = order.into_iter().map(named).collect();
        // Beside a recipe whose name says nothing, `--rocm` is for that.
        if named.iter().all(|named| !named.rocm.is_empty())
            && let Some(other) = self.rocm.iter().find(|asked| !named.iter().all(|named| named.rocm.contains(asked)))
        {
            let usage = Usage::new(format!("`{}` is for another ROCm than `--rocm {other}`", names.join(" ")));
            let hint = format!("remove `--rocm`, or write `{} --rocm {other}`", named[0].recipe);
            return Err(usage.hint(hint).into());
        }
        Ok(named)
    }

    /// The cells of a recipe that is built after others: every combination of the axes.
    pub(crate) fn cells(&self, named: &Named, with: &BTreeSet<String>) -> anyhow::Result<Vec<Cell>> {
        Ok(self.combinations(named, with)?.into_iter().map(|(cell, _)| cell).collect())
    }

    /// The same, each with the number of its combination, which is that of the cells of other
    /// recipes that it belongs to: backends are a recipe's own.
    pub(crate) fn combinations(&self, named: &Named, with: &BTreeSet<String>) -> anyhow::Result<Vec<(Cell, usize)>> {
        let recipe = &self.book.get(&named.recipe)?.recipe;
        let mut base = self.cell.clone();
        base.with.clone_from(with);
        base.features.retain(|name, _| !named.features_of_others.contains(name));
        let axes = &self.axes;
        let of_name: Vec<Option<String>> = named.rocm.iter().cloned().map(Some).collect();
        let versions = if of_name.is_empty() { &axes.rocm } else { &of_name };
        let mut cells = Vec::new();
        let mut column = 0;
        for rocm in versions {
            for torch in &axes.torch {
                let index = rocm.as_ref().map(|rocm| self.table.torch_index(torch.as_deref(), rocm));
                let torch_index = self.torch_index.clone().or(index);
                for &python in &axes.python {
                    for targets in &axes.targets {
                        for backend in self.backends(recipe) {
                            let (rocm, torch, targets) = (rocm.clone(), torch.clone(), targets.clone());
                            let torch_index = torch_index.clone();
                            let llvm = rocm.as_deref().and_then(|rocm| self.table.llvm(rocm));
                            let cell =
                                Cell { rocm, llvm, torch, torch_index, python, targets, backend, ..base.clone() };
                            cells.push((cell, column));
                        }
                        column += 1;
                    }
                }
            }
        }
        Ok(cells)
    }

    /// Every value of the table on the axes that nobody named.
    pub(crate) fn fill_axes(&mut self, names: &[String]) -> anyhow::Result<()> {
        let frameworks: Vec<_> = self.table.frameworks.iter().filter(|one| names.contains(&one.recipe)).collect();
        let unknown = names.iter().find(|name| !frameworks.iter().any(|one| one.recipe == **name));
        if let Some(name) = unknown {
            let known = rocwheel_report::suggestion(name, self.table.frameworks.iter().map(|one| one.recipe.as_str()));
            return Err(Usage::new(format!("the table of frameworks does not know {name}"))
                .hint(format!("{known}; without `--matrix`, name the values of every axis"))
                .into());
        }
        let is_free = |axis: &[Option<String>]| axis == [None];
        let axes = &mut self.axes;
        if is_free(&axes.rocm) {
            axes.rocm = values(self.table.rocm_versions());
        }
        if is_free(&axes.torch) {
            axes.torch = values(frameworks.iter().flat_map(|one| self.table.torch_versions(one)).cloned());
        }
        if axes.python == [None] {
            axes.python = values(frameworks.iter().flat_map(|one| &one.python).filter_map(|text| text.parse().ok()));
        }
        if is_free(&axes.backends) {
            axes.backends = values(frameworks.iter().flat_map(|one| one.backends.clone()));
        }
        Ok(())
    }

    /// The backends of a recipe that are built: those that were asked for. Of several, other
    /// recipes do not have all.
    fn backends(&self, recipe: &Recipe) -> Vec<Option<String>> {
        let asked = &self.axes.backends;
        let has = |backend: &&Option<String>| backend.as_ref().is_some_and(|name| recipe.backends.contains(name));
        let is_second = recipe.backends.iter().skip(1).any(|backend| backend == "triton");
        match asked.iter().filter(has).cloned().collect::<Vec<_>>() {
            _ if asked[0].is_none() && self.triton_too && is_second => vec![None, Some("triton".to_owned())],
            // The recipe says what is wrong with it.
            none if none.is_empty() => vec![if asked.len() > 1 { None } else { asked[0].clone() }],
            some => some,
        }
    }
}

/// Digits without a dot have to mean one version of ROCm.
fn check_compact(rocm: &str, table: &Table) -> Result<(), Usage> {
    let digits = rocm.split('.').take(2).collect::<String>();
    let candidates = RocmLabel::Digits(digits.clone()).candidates(&table.rocm_versions());
    if candidates.len() < 2 {
        return Ok(());
    }
    let usage = Usage::new(format!("`rocm{digits}` can mean ROCm {}", candidates.join(" or ")));
    Err(usage.hint("remove `--label-style compact`: the name then has the dot"))
}

/// GPU targets of a list, sorted.
pub(crate) fn target_set(list: &str) -> anyhow::Result<Vec<String>> {
    // What the variable may hold: separated by blanks as well.
    let targets = TargetTable::embedded().expand(&list.replace(' ', ";"))?;
    if targets.is_empty() {
        return Err(Usage::new(format!("`{list}` names no GPU target")).into());
    }
    Ok(targets)
}
