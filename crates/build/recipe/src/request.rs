//! Input: names of recipes, and the values of the axes from the options. Output: the cells to
//! build, recipe by recipe in build order.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_progress::suggestion;
use rocwheel_tables::TargetTable;

use crate::book::Book;
use crate::cell::{BuildMode, Cell, ChosenBy, PythonVersion, SdkKind, Switch};
use crate::error::Error;
use crate::matrix::{FrameworkTable, RocmLabel};
use crate::recipe::Recipe;

/// The name that means all recipes with `part-of-all`.
const ALL: &str = "all";

/// Recipes, the table of versions, and the combinations of them to build.
#[derive(Debug, Clone)]
pub struct BuildRequest {
    pub book: Book,
    /// Versions that fit together.
    pub table: FrameworkTable,
    /// Values that all cells share. For axes, the first value of each.
    pub cell: Cell,
    /// The values that vary.
    pub axes: Axes,
    /// `--torch-index`; `None`: the index that the table has for the version of ROCm.
    pub torch_index: Option<String>,
    /// Versions from `--rocm`; they may contradict a name such as `magma-rocm63`.
    pub rocm: Vec<String>,
    /// `BUILD_TRITON_BACKEND`: recipes with a second backend `triton` build both.
    pub with_triton_backend: bool,
}

/// A recipe that the user named.
#[derive(Debug, Clone)]
pub struct NamedRecipe {
    /// Name of the recipe.
    pub recipe: String,
    /// Versions of ROCm in the names that the user wrote (6.3 for `magma-rocm63`); empty: the
    /// versions of the axis.
    pub rocm: Vec<String>,
    /// Features that this recipe lacks and another recipe of the run has; `--feature` is meant for
    /// the other.
    features_of_others: BTreeSet<String>,
}

/// The values of everything that can vary; every combination is built. An axis without a value
/// holds one `None`.
#[derive(Debug, Clone)]
pub struct Axes {
    pub rocm: Vec<Option<String>>,
    pub torch: Vec<Option<String>>,
    pub python: Vec<Option<PythonVersion>>,
    pub backends: Vec<Option<String>>,
    /// Sets of GPU targets.
    pub targets: Vec<Vec<String>>,
}

impl Axes {
    /// `true` if an axis has more than one value.
    pub fn are_several(&self) -> bool {
        [self.rocm.len(), self.torch.len(), self.python.len(), self.backends.len(), self.targets.len()]
            .iter()
            .any(|count| *count > 1)
    }
}

/// The distinct values of an axis; one `None` if there are none.
pub fn values<T: PartialEq>(given: impl IntoIterator<Item = T>) -> Vec<Option<T>> {
    let mut values = Vec::new();
    for value in given.into_iter().map(Some) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    if values.is_empty() { vec![None] } else { values }
}

impl BuildRequest {
    /// The same request with another kind of ROCm.
    #[must_use]
    pub fn with_sdk(mut self, sdk: SdkKind) -> BuildRequest {
        self.cell.sdk = sdk;
        self
    }

    /// Uses the GPU targets of the ROCm packages, unless the user names some. They win over the GPU
    /// of this machine, because the packages have no code for other targets.
    #[must_use]
    pub fn with_targets_of_rocm(mut self, targets: Vec<String>) -> BuildRequest {
        let is_free = self.cell.chosen_by != ChosenBy::User;
        if is_free && !targets.is_empty() {
            self.axes.targets = vec![targets.clone()];
            (self.cell.targets, self.cell.chosen_by) = (targets, ChosenBy::Sdk);
        }
        self
    }

    /// The same request in an image with these versions ([`crate::Images::versions`]). Open axes
    /// take them. The build is against a torch of the image, unless the user named an index, or
    /// the run builds torch.
    ///
    /// # Errors
    /// An axis has a version that the image does not have.
    pub fn in_image(
        mut self,
        image: &str,
        versions: &BTreeMap<String, String>,
        names: &[NamedRecipe],
    ) -> Result<BuildRequest, Error> {
        let own = self.table.frameworks.iter().find(|framework| framework.is_torch);
        let builds_torch = names.iter().any(|named| own.is_some_and(|framework| framework.recipe == named.recipe));
        let has_torch = versions.contains_key("torch") && self.torch_index.is_none() && !builds_torch;
        let python = self.axes.python.iter().map(|python| python.map(|python| python.to_string())).collect();
        let of_names = names.iter().flat_map(|named| &named.rocm).cloned().map(Some);
        let rocm: Vec<Option<String>> = self.axes.rocm.iter().cloned().chain(of_names).collect();
        let torch = if has_torch { self.axes.torch.clone() } else { Vec::new() };
        for (name, what, asked) in [("rocm", "ROCm", rocm), ("torch", "torch", torch), ("python", "Python", python)] {
            let Some(version) = versions.get(name) else { continue };
            if let Some(other) = asked.iter().flatten().find(|asked| !is_part_of(asked, version)) {
                return Err(Error::request_with(
                    format!("the image `{image}` has {what} {version}, and {what} {other} is asked for"),
                    format!("remove `--{name} {other}`, which then is {version}, or name another image"),
                ));
            }
        }
        if has_torch {
            self.axes.torch = vec![versions.get("torch").cloned()];
            self.cell.torch.clone_from(&self.axes.torch[0]);
            self.cell.system_packages = Switch::On;
        }
        if self.axes.rocm == [None] && names.iter().all(|named| named.rocm.is_empty()) {
            self.axes.rocm = vec![versions.get("rocm").cloned()];
            self.cell.rocm.clone_from(&self.axes.rocm[0]);
        }
        if let (&[None], Some(python)) = (&self.axes.python[..], versions.get("python")) {
            self.axes.python = vec![python.parse().ok()];
            self.cell.python = self.axes.python[0];
        }
        Ok(self)
    }

    /// `true` for `--develop`: the sources are installed in place.
    pub fn is_in_place(&self) -> bool {
        self.cell.mode == BuildMode::Develop
    }

    /// Resolves names of recipes, `all`, and names with a ROCm version (`magma-rocm63`). The
    /// recipes are returned in build order.
    ///
    /// # Errors
    /// A name is unknown, or has another ROCm version than `--rocm`.
    pub fn recipes(&self, names: &[String]) -> Result<Vec<NamedRecipe>, Error> {
        let mut rocm: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut wanted: Vec<String> = Vec::new();
        for name in names {
            if name == ALL {
                let all = self.book.part_of_all(self.cell.platform);
                wanted.extend(all.map(|recipe| recipe.name.clone()));
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
        let known: BTreeSet<String> = order.iter().flat_map(|entry| entry.recipe.feature_names()).collect();
        let named = order.into_iter().map(|entry| {
            let recipe = entry.recipe.name.clone();
            let features_of_others = &known - &entry.recipe.feature_names();
            NamedRecipe { rocm: rocm.get(&recipe).cloned().unwrap_or_default(), recipe, features_of_others }
        });
        let named: Vec<NamedRecipe> = named.collect();
        // Beside a recipe without a version in its name, `--rocm` is meant for that recipe.
        if named.iter().all(|named| !named.rocm.is_empty())
            && let Some(other) = self.rocm.iter().find(|asked| !named.iter().all(|named| named.rocm.contains(asked)))
        {
            return Err(Error::request_with(
                format!("`{}` is for another ROCm than `--rocm {other}`", names.join(" ")),
                format!("remove `--rocm`, or write `{} --rocm {other}`", named[0].recipe),
            ));
        }
        Ok(named)
    }

    /// The cells of a recipe: every combination of the axes. `with` names the recipes that are
    /// built before it.
    pub fn cells(&self, named: &NamedRecipe, with: &BTreeSet<String>) -> Result<Vec<Cell>, Error> {
        Ok(self.combinations(named, with)?.into_iter().map(|(cell, _)| cell).collect())
    }

    /// The same cells, each with the number of its combination. Cells of several recipes with one
    /// number belong together. Backends do not count for the number, because each recipe has its
    /// own.
    pub fn combinations(&self, named: &NamedRecipe, with: &BTreeSet<String>) -> Result<Vec<(Cell, usize)>, Error> {
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
                            let triton = torch.as_deref().and_then(|torch| self.table.triton(torch));
                            let axes = Cell { python, rocm, torch, backend, targets, ..base.clone() };
                            let cell = Cell { llvm, triton, torch_index, ..axes };
                            cells.push((cell, column));
                        }
                        column += 1;
                    }
                }
            }
        }
        Ok(cells)
    }

    /// Fills the axes that options leave open with every value of the table (`--matrix`).
    pub fn fill_axes(&mut self, names: &[String]) -> Result<(), Error> {
        let frameworks: Vec<_> = self.table.frameworks.iter().filter(|one| names.contains(&one.recipe)).collect();
        let unknown = names.iter().find(|name| !frameworks.iter().any(|one| one.recipe == **name));
        if let Some(name) = unknown {
            let known = suggestion(name, self.table.frameworks.iter().map(|one| one.recipe.as_str()));
            return Err(Error::request_with(
                format!("the table of frameworks does not know {name}"),
                format!("{known}; without `--matrix`, name the values of every axis"),
            ));
        }
        let axes = &mut self.axes;
        if axes.rocm == [None] {
            axes.rocm = values(self.table.rocm_versions());
        }
        if axes.torch == [None] {
            axes.torch = values(frameworks.iter().flat_map(|one| self.table.torch_versions(one)).cloned());
        }
        if axes.python == [None] {
            axes.python = values(frameworks.iter().flat_map(|one| &one.python).filter_map(|text| text.parse().ok()));
        }
        if axes.backends == [None] {
            axes.backends = values(frameworks.iter().flat_map(|one| one.backends.clone()));
        }
        Ok(())
    }

    /// The backends of a recipe to build. If several backends were requested, those that the recipe
    /// does not have are skipped.
    fn backends(&self, recipe: &Recipe) -> Vec<Option<String>> {
        let asked = &self.axes.backends;
        let existing =
            asked.iter().filter(|backend| backend.as_ref().is_some_and(|name| recipe.backends.contains(name)));
        let is_second = recipe.backends.iter().skip(1).any(|backend| backend == "triton");
        match existing.cloned().collect::<Vec<_>>() {
            _ if asked[0].is_none() && self.with_triton_backend && is_second => vec![None, Some("triton".to_owned())],
            // The recipe's evaluation reports what is wrong with it.
            none if none.is_empty() => vec![if asked.len() > 1 { None } else { asked[0].clone() }],
            some => some,
        }
    }
}

/// `true` if one version says what the other says, or less: 7.1 and 7.1.1.
fn is_part_of(asked: &str, version: &str) -> bool {
    let (asked, version) = (format!("{asked}."), format!("{version}."));
    asked.starts_with(&version) || version.starts_with(&asked)
}

/// Checks that the digits of `rocm62` stand for only one version of ROCm (`--label-style compact`).
pub fn check_compact_label(rocm: &str, table: &FrameworkTable) -> Result<(), Error> {
    let digits = rocm.split('.').take(2).collect::<String>();
    let candidates = RocmLabel::Digits(digits.clone()).candidates(&table.rocm_versions());
    if candidates.len() < 2 {
        return Ok(());
    }
    Err(Error::request_with(
        format!("`rocm{digits}` can mean ROCm {}", candidates.join(" or ")),
        "remove `--label-style compact`: the name then has the dot",
    ))
}

/// Parses a list of GPU targets and families, separated by `;`, `,` or spaces
/// (`PYTORCH_ROCM_ARCH`). The targets are returned sorted.
pub fn parse_targets(list: &str) -> Result<Vec<String>, Error> {
    let targets = TargetTable::embedded().expand(&list.replace(' ', ";"))?;
    if targets.is_empty() {
        return Err(Error::request(format!("`{list}` names no GPU target")));
    }
    Ok(targets)
}
