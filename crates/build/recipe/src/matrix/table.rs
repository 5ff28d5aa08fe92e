//! Input: `data/frameworks.toml`, or a user's file in the same format. Output: the versions that
//! fit together, and the excluded combinations with their reasons.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::Point;
use crate::book::Book;
use crate::cell::{Cell, ChosenBy, Platform, PythonVersion, minor};
use crate::error::{Error, malformed};
use crate::evaluated::{Action, Evaluated, JobStep};
use crate::framework::Framework;
use crate::toml_text::from_toml;
use crate::version_specifier::fits;
use rocwheel_progress::suggestion;

const BUILT_IN: &str = include_str!("../../../../../data/frameworks.toml");
const NAME: &str = "data/frameworks.toml";
/// Instead of a version specifier: Pythons without the global lock.
const FREE_THREADED: &str = "free-threaded";

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FrameworkTable {
    schema: u32,
    /// Empty in a table that adds rows to the built-in one.
    #[serde(default)]
    torch_index: TorchIndex,
    /// Versions of ROCm, oldest first.
    #[serde(default)]
    rocm: Vec<Release>,
    /// Versions of torch, oldest first.
    #[serde(default)]
    pub torch: Vec<Torch>,
    #[serde(default, rename = "framework")]
    pub frameworks: Vec<Framework>,
    #[serde(default)]
    exclude: Vec<Exclusion>,
    #[serde(skip)]
    path: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TorchIndex {
    release: String,
    nightly: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    version: String,
    /// Major release of LLVM in its compiler; `None`: not known.
    #[serde(default)]
    llvm: Option<u32>,
}

/// A version of torch and the versions that it fits.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Torch {
    /// First two numbers of the version.
    pub version: String,
    /// Versions of ROCm that have wheels of this torch, each as the address of its index has it:
    /// with a third number where PyTorch's does.
    pub rocm: Vec<String>,
    /// Additional versions of ROCm for which this torch, and the projects built beside it, are
    /// built from sources.
    #[serde(default)]
    sources: Vec<String>,
    /// The first and the last supported Python.
    python: [String; 2],
    /// Supported Pythons without the global lock.
    #[serde(default, rename = "free-threaded")]
    free_threaded: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exclusion {
    #[serde(default)]
    platform: Option<Platform>,
    #[serde(default)]
    recipe: Option<String>,
    #[serde(default)]
    backend: Option<String>,
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    rocm: Option<String>,
    #[serde(default)]
    torch: Option<String>,
    #[serde(default)]
    python: Option<String>,
    reason: String,
}

/// `true` for two or three numbers: `2.16`, `11.0.1`.
fn is_well_formed(version: &str) -> bool {
    let numbers: Vec<&str> = version.split('.').collect();
    (2..=3).contains(&numbers.len()) && numbers.iter().all(|number| number.parse::<u32>().is_ok())
}

/// Adds rows. A row with an existing key replaces the old one.
fn lay<T>(rows: &mut Vec<T>, others: Vec<T>, key: fn(&T) -> &String) {
    for other in others {
        match rows.iter_mut().find(|row| key(row) == key(&other)) {
            Some(row) => *row = other,
            None => rows.push(other),
        }
    }
}

/// The reason why a cell is not built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyNot {
    /// The table excludes it.
    Excluded(String),
    /// PyTorch has no wheels of the required torch for its ROCm and Python.
    NoTorch(String),
}

impl WhyNot {
    pub fn reason(&self) -> &str {
        match self {
            WhyNot::Excluded(reason) | WhyNot::NoTorch(reason) => reason,
        }
    }
}

impl FrameworkTable {
    /// Text of the built-in table.
    pub const BUILT_IN: &'static str = BUILT_IN;

    pub fn built_in() -> Result<FrameworkTable, Error> {
        Self::parse(BUILT_IN, NAME)
    }

    /// Parses a table; `path` is its name in errors. A table with `[torch-index]` is complete. The
    /// rows of any other table are added to the built-in ones and replace those with the same key.
    pub fn parse(text: &str, path: &str) -> Result<FrameworkTable, Error> {
        let mut table: FrameworkTable = from_toml(text, path)?;
        if table.torch_index.release.is_empty() && path != NAME {
            table = Self::built_in()?.with_rows(table);
        }
        path.clone_into(&mut table.path);
        table.check()?;
        Ok(table)
    }

    /// Adds the frameworks that recipes define themselves. A row of the table has priority.
    /// A recipe that refers to versions that the table does not have is an error.
    pub fn with_recipes(mut self, book: &Book) -> Result<FrameworkTable, Error> {
        for framework in book.entries().filter_map(|entry| entry.recipe.framework.as_ref()) {
            if !self.frameworks.iter().any(|known| known.recipe == framework.recipe) {
                self.frameworks.push(framework.clone());
            }
        }
        self.check()?;
        Ok(self)
    }

    /// Checks that all references and versions are valid.
    fn check(&self) -> Result<(), Error> {
        if self.schema != 1 {
            return malformed(&self.path, format!("its schema is {}, and this program knows 1", self.schema));
        }
        let rocm = self.rocm_versions();
        for torch in &self.torch {
            if let Some(unknown) =
                torch.rocm.iter().chain(&torch.sources).find(|version| !rocm.contains(&minor(version)))
            {
                return malformed(
                    &self.path,
                    format!("torch {} is for ROCm {unknown}, which is not among the versions of ROCm", torch.version),
                );
            }
        }
        for framework in &self.frameworks {
            let recipe = &framework.recipe;
            if recipe.is_empty() || framework.backends.is_empty() {
                return malformed(&self.path, "a framework has a `recipe` and `backends`");
            }
            let torch = framework.torch.values().flatten();
            if let Some(unknown) = torch.clone().find(|torch| !self.torch.iter().any(|known| known.version == **torch))
            {
                return malformed(&self.path, format!("{recipe} is for torch {unknown}, which is not in the table"));
            }
            let mut versions = framework.versions.iter();
            if !framework.torch.is_empty()
                && let Some(version) = versions.find(|version| !framework.torch.contains_key(*version))
            {
                return malformed(&self.path, format!("it does not say which torch {recipe} {version} is for"));
            }
        }
        let pythons = self.frameworks.iter().flat_map(|framework| &framework.python);
        let of_torch = self.torch.iter().flat_map(|torch| torch.python.iter().chain(&torch.free_threaded));
        for text in pythons.chain(of_torch) {
            if text.parse::<PythonVersion>().is_err() {
                return malformed(&self.path, format!("`{text}` is not a version of Python"));
            }
        }
        for exclusion in &self.exclude {
            for specifier in
                [&exclusion.version, &exclusion.rocm, &exclusion.torch, &exclusion.python].into_iter().flatten()
            {
                if specifier != FREE_THREADED {
                    fits(specifier, None, &self.path)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the rows of another table. They replace rows of the same version or recipe.
    fn with_rows(mut self, other: FrameworkTable) -> FrameworkTable {
        lay(&mut self.rocm, other.rocm, |row| &row.version);
        lay(&mut self.torch, other.torch, |row| &row.version);
        lay(&mut self.frameworks, other.frameworks, |row| &row.recipe);
        self.rocm.sort_by_key(|row| row.version.parse::<pep440_rs::Version>().ok());
        self.torch.sort_by_key(|row| row.version.parse::<pep440_rs::Version>().ok());
        self.exclude.extend(other.exclude);
        FrameworkTable { schema: other.schema, ..self }
    }

    /// Major release of LLVM in the compiler of a ROCm, if the table knows it.
    pub fn llvm(&self, rocm: &str) -> Option<u32> {
        self.rocm.iter().find(|release| minor(&release.version) == minor(rocm))?.llvm
    }

    /// The versions of ROCm, first two numbers, oldest first.
    pub fn rocm_versions(&self) -> Vec<String> {
        self.rocm.iter().map(|release| minor(&release.version)).collect()
    }

    /// A sentence for each version of ROCm and torch that the table lacks.
    pub fn unknown_versions<'v>(
        &self,
        rocm: impl Iterator<Item = &'v String>,
        torch: impl Iterator<Item = &'v String>,
    ) -> Vec<String> {
        let known = self.rocm_versions();
        let rocm: BTreeSet<&String> = rocm.filter(|rocm| !known.contains(&minor(rocm))).collect();
        let torch: BTreeSet<&String> =
            torch.filter(|torch| self.torch.iter().all(|row| row.version != minor(torch))).collect();
        let rocm = rocm
            .iter()
            .map(|rocm| format!("no table knows ROCm {rocm}: GPU targets are not compared with its compiler"));
        let torch =
            torch.iter().map(|torch| format!("no table knows torch {torch}: its ROCm and its Python are not checked"));
        rocm.chain(torch).collect()
    }

    /// The table with rows for well-formed versions that it lacks: a torch is as the newest one,
    /// and a ROCm fits the torch that is asked for, or the newest one.
    pub(super) fn with_versions(mut self, rocm: &[String], torch: &[String]) -> FrameworkTable {
        let Some(newest) = self.torch.last().cloned() else { return self };
        for version in torch.iter().filter(|version| is_well_formed(version)).map(|version| minor(version)) {
            if self.torch.iter().all(|row| row.version != version) {
                self.torch.push(Torch { version: version.clone(), ..newest.clone() });
                let own = self.frameworks.iter_mut().filter(|framework| framework.is_torch);
                own.for_each(|framework| framework.versions.push(version.clone()));
            }
        }
        let asked: Vec<String> =
            if torch.is_empty() { vec![newest.version] } else { torch.iter().map(|version| minor(version)).collect() };
        for version in rocm.iter().filter(|version| is_well_formed(version)) {
            if !self.rocm_versions().contains(version) {
                self.rocm.push(Release { version: version.clone(), llvm: None });
                let fitting = self.torch.iter_mut().filter(|row| asked.contains(&row.version));
                fitting.for_each(|row| row.rocm.push(version.clone()));
            }
        }
        self
    }

    /// The torch versions that a framework is built for, oldest first; empty if it does not depend
    /// on torch.
    pub fn torch_versions<'t>(&'t self, framework: &'t Framework) -> impl Iterator<Item = &'t String> {
        // A row may map a version that is not in `versions`: such a version has no cells.
        let built = framework.torch.iter().filter(|(version, _)| framework.versions.contains(version));
        let mapped: Vec<&String> = built.flat_map(|(_, torches)| torches).collect();
        self.torch.iter().map(|torch| &torch.version).filter(move |version| {
            let is_own = framework.is_torch && framework.versions.contains(version);
            framework.against_torch || is_own || mapped.contains(version)
        })
    }

    /// The torch of a cell, first two numbers. For torch itself this is its own version.
    pub fn torch_of(&self, point: &Point) -> Option<String> {
        let is_torch = self.frameworks.iter().any(|framework| framework.recipe == point.recipe && framework.is_torch);
        if is_torch { Some(minor(&point.version)) } else { point.torch.as_deref().map(minor) }
    }

    /// Address of the index with wheels of a torch for a ROCm.
    pub fn torch_index(&self, torch: Option<&str>, rocm: &str) -> String {
        let is_nightly = torch.is_some_and(|torch| torch.contains("dev"));
        let index = if is_nightly { &self.torch_index.nightly } else { &self.torch_index.release };
        let row = torch.and_then(|torch| self.torch.iter().find(|row| row.version == minor(torch)));
        let exact = row.and_then(|row| row.rocm.iter().find(|known| minor(known) == minor(rocm)));
        index.replace("ROCM", &exact.filter(|_| !is_nightly).map_or_else(|| minor(rocm), Clone::clone))
    }

    /// The triton that a torch requires, first two numbers, if the table knows it.
    pub fn triton(&self, torch: &str) -> Option<String> {
        let triton = self.frameworks.iter().find(|framework| framework.recipe == "triton")?;
        let mut versions = triton.torch.iter();
        versions.find(|(_, torches)| torches.contains(&minor(torch))).map(|(version, _)| version.clone())
    }

    /// Frameworks by name; no names: all.
    pub(super) fn chosen(&self, names: &[String]) -> Result<Vec<&Framework>, Error> {
        if names.is_empty() {
            return Ok(self.frameworks.iter().collect());
        }
        let chosen = names.iter().map(|name| {
            self.frameworks.iter().find(|framework| framework.recipe == *name).ok_or_else(|| Error::Unknown {
                what: "framework",
                name: name.clone(),
                place: " in the table".into(),
                hint: suggestion(name, self.frameworks.iter().map(|framework| framework.recipe.as_str())),
            })
        });
        chosen.collect()
    }

    /// The reason why a cell is not built; `None`: it is built.
    pub(super) fn excluded(&self, framework: &Framework, point: &Point) -> Result<Option<String>, Error> {
        let torch = if framework.is_torch { Some(&point.version) } else { point.torch.as_ref() };
        if let Some(torch) = torch
            && let Some(reason) = self.unsupported(torch, !framework.against_torch, point)
        {
            return Ok(Some(reason));
        }
        self.reason_of_exclusion(framework.is_torch, point)
    }

    /// The reason of the first exclusion that applies to a cell.
    fn reason_of_exclusion(&self, is_torch: bool, point: &Point) -> Result<Option<String>, Error> {
        for exclusion in &self.exclude {
            if self.applies(exclusion, is_torch, point)? {
                return Ok(Some(exclusion.reason.clone()));
            }
        }
        Ok(None)
    }

    /// The reason why a torch does not fit a cell. With `from_source`, versions of ROCm for which
    /// torch is built from sources count too.
    fn unsupported(&self, torch: &str, from_source: bool, point: &Point) -> Option<String> {
        let Some(known) = self.torch.iter().find(|known| known.version == minor(torch)) else {
            return Some(format!("torch {torch} is not in the table"));
        };
        let more = if from_source { &known.sources[..] } else { &[] };
        let versions: Vec<String> = known.rocm.iter().chain(more).map(|version| minor(version)).collect();
        if !versions.contains(&point.rocm) {
            return Some(format!("torch {torch} is not for ROCm {}, but for {}", point.rocm, versions.join(", ")));
        }
        let python = point.python?;
        if python.free_threaded {
            let mut built = known.free_threaded.iter().map(|text| text.parse::<PythonVersion>());
            let is_built = built.any(|built| built.is_ok_and(|built| built == python));
            return (!is_built).then(|| format!("torch {torch} is not for Python {python}"));
        }
        let [first, last] = &known.python;
        let is_between =
            first.parse().is_ok_and(|first| python >= first) && last.parse().is_ok_and(|last| python <= last);
        (!is_between).then(|| format!("torch {torch} is for Python {first} to {last}"))
    }

    /// The reason why a cell is not built; `None`: it is built, or the table does not have its
    /// recipe. `[[exclude]]` always applies. The lists of versions that fit together apply if the
    /// table chose one of the versions, or if the build installs torch from PyTorch's index, which
    /// has no other combinations.
    pub fn why_not(&self, recipe: &Evaluated, chosen_by: ChosenBy) -> Result<Option<WhyNot>, Error> {
        let (recipe, cell, installs_torch) = (&recipe.recipe, &recipe.cell, self.installs_torch(recipe));
        let (framework, point) = self.point(recipe, cell);
        if let Some(framework) = framework.filter(|_| chosen_by != ChosenBy::User && cell.rocm.is_some()) {
            return Ok(self.excluded(framework, &point)?.map(WhyNot::Excluded));
        }
        if let Some(reason) = self.excludes(recipe, cell)? {
            return Ok(Some(WhyNot::Excluded(reason)));
        }
        // The table may be older than this torch or ROCm.
        let torch = point.torch.as_ref().filter(|torch| {
            let is_known = self.torch.iter().any(|known| known.version == **torch);
            installs_torch && is_known && self.rocm_versions().contains(&point.rocm)
        });
        Ok(torch.and_then(|torch| self.unsupported(torch, false, &point)).map(WhyNot::NoTorch))
    }

    /// The reason why `[[exclude]]` rules a cell out, independent of who chose its versions.
    pub fn excludes(&self, recipe: &str, cell: &Cell) -> Result<Option<String>, Error> {
        let (framework, point) = self.point(recipe, cell);
        self.reason_of_exclusion(framework.is_some_and(|framework| framework.is_torch), &point)
    }

    /// The framework of a recipe, if the table has it, and the coordinates of the cell.
    fn point(&self, recipe: &str, cell: &Cell) -> (Option<&Framework>, Point) {
        let framework = self.frameworks.iter().find(|framework| framework.recipe == recipe);
        // Before the checkout, only the requested torch gives the version.
        let is_torch = framework.is_some_and(|framework| framework.is_torch);
        let version = cell.version.clone().or_else(|| cell.torch.clone().filter(|_| is_torch));
        let point = Point {
            platform: cell.platform,
            recipe: recipe.to_owned(),
            version: version.unwrap_or_default(),
            backend: cell.backend.clone().unwrap_or_default(),
            rocm: cell.rocm.as_deref().map(minor).unwrap_or_default(),
            torch: cell.torch.as_deref().map(minor),
            python: cell.python,
        };
        (framework, point)
    }

    /// `true` if a build installs torch from PyTorch's own index.
    fn installs_torch(&self, recipe: &Evaluated) -> bool {
        let (torch, rocm) = (recipe.cell.torch.as_deref(), recipe.cell.rocm.as_deref());
        let Some(own) = rocm.map(|rocm| self.torch_index(torch, rocm)) else { return false };
        let is_it =
            |step: &JobStep| matches!(&step.action, Action::Install { index: Some(index), .. } if *index == own);
        recipe.steps.iter().any(is_it)
    }

    fn applies(&self, exclusion: &Exclusion, is_torch: bool, point: &Point) -> Result<bool, Error> {
        if exclusion.platform.is_some_and(|platform| platform != point.platform) {
            return Ok(false);
        }
        let torch = if is_torch { Some(point.version.as_str()) } else { point.torch.as_deref() };
        if exclusion.recipe.as_ref().is_some_and(|recipe| *recipe != point.recipe)
            || exclusion.backend.as_ref().is_some_and(|backend| *backend != point.backend)
        {
            return Ok(false);
        }
        let is_free_threaded = point.python.is_some_and(|python| python.free_threaded);
        let (of_threads, specifier) = match exclusion.python.as_deref() {
            Some(FREE_THREADED) => (true, None),
            _ => (false, exclusion.python.clone()),
        };
        if of_threads && !is_free_threaded {
            return Ok(false);
        }
        let python = point.python.map(|python| format!("{}.{}", python.major, python.minor));
        for (specifier, value) in [
            (&exclusion.version, Some(point.version.as_str())),
            (&exclusion.rocm, Some(point.rocm.as_str())),
            (&exclusion.torch, torch),
            (&specifier, python.as_deref()),
        ] {
            if let Some(specifier) = specifier
                && !fits(specifier, value, &self.path)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
