//! Input: `data/frameworks.toml`, or a user's file of the same form. Output: what belongs together, and what is not built and why.

use serde::Deserialize;

use super::{Point, fits};
use crate::cell::{ChosenBy, PythonVersion, minor};
use crate::error::Error;
use crate::evaluated::{Action, Evaluated, Step};
use crate::recipe::from_toml;
use report::suggestion;

const BUILT_IN: &str = include_str!("../../../../data/frameworks.toml");
const NAME: &str = "data/frameworks.toml";
/// In place of a specifier: Pythons without the global lock.
const FREE_THREADED: &str = "free-threaded";

/// What there is to build.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Table {
    schema: u32,
    torch_index: TorchIndex,
    /// Versions of ROCm, oldest first.
    #[serde(default)]
    rocm: Vec<Release>,
    /// Versions of torch, oldest first.
    #[serde(default)]
    pub torch: Vec<Torch>,
    /// Frameworks.
    #[serde(default, rename = "framework")]
    pub frameworks: Vec<Framework>,
    #[serde(default)]
    exclude: Vec<Exclusion>,
    /// What errors call the file.
    #[serde(skip)]
    path: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct TorchIndex {
    release: String,
    nightly: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    version: String,
    /// Release of LLVM that its compiler is; `None`: not known.
    #[serde(default)]
    llvm: Option<u32>,
}

/// A version of torch and what it goes with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Torch {
    /// Its first two numbers.
    pub version: String,
    /// Versions of ROCm that there are wheels for.
    pub rocm: Vec<String>,
    /// The first and the last Python.
    python: [String; 2],
    /// Pythons without the global lock.
    #[serde(default, rename = "free-threaded")]
    free_threaded: Vec<String>,
}

/// A framework and its axes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Framework {
    /// Its recipe.
    pub recipe: String,
    /// Versions that are built.
    pub versions: Vec<String>,
    /// Backends that are built.
    pub backends: Vec<String>,
    /// Whether a result is for one version of torch.
    #[serde(default)]
    pub against_torch: bool,
    /// Whether it is torch itself, so that the support tables are about its own versions.
    #[serde(default)]
    pub is_torch: bool,
    /// Pythons that are built; none: the result is for no Python.
    #[serde(default)]
    pub python: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exclusion {
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

/// Why a cell is not built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyNot {
    /// The table says that it cannot be.
    Excluded(String),
    /// PyTorch has no wheels of its torch for its ROCm and Python.
    NoTorch(String),
}

impl WhyNot {
    /// The reason, as the table has it.
    pub fn reason(&self) -> &str {
        match self {
            WhyNot::Excluded(reason) | WhyNot::NoTorch(reason) => reason,
        }
    }
}

impl Framework {
    /// Its Pythons.
    pub(super) fn pythons(&self) -> impl Iterator<Item = PythonVersion> + '_ {
        // `Table::parse` has read them once.
        self.python.iter().filter_map(|text| text.parse().ok())
    }
}

impl Table {
    /// The text of the one that comes with the program.
    pub const BUILT_IN: &'static str = BUILT_IN;

    /// The one that comes with the program.
    ///
    /// # Errors
    /// None: a test reads it.
    pub fn built_in() -> Result<Table, Error> {
        Self::parse(BUILT_IN, NAME)
    }

    /// Reads a table; `path` is what errors call it.
    ///
    /// # Errors
    /// What is no table of this form, and versions that refer to nothing.
    pub fn parse(text: &str, path: &str) -> Result<Table, Error> {
        let mut table: Table = from_toml(text, path)?;
        let wrong = |reason: String| Err(Error::malformed(path, reason));
        if table.schema != 1 {
            return wrong(format!("its schema is {}, and this program knows 1", table.schema));
        }
        path.clone_into(&mut table.path);
        let rocm = table.rocm_versions();
        for torch in &table.torch {
            if let Some(unknown) = torch.rocm.iter().find(|version| !rocm.contains(*version)) {
                return wrong(format!(
                    "torch {} is for ROCm {unknown}, which is not among the versions of ROCm",
                    torch.version
                ));
            }
        }
        let pythons = table.frameworks.iter().flat_map(|framework| &framework.python);
        let of_torch = table.torch.iter().flat_map(|torch| torch.python.iter().chain(&torch.free_threaded));
        for text in pythons.chain(of_torch) {
            if text.parse::<PythonVersion>().is_err() {
                return wrong(format!("`{text}` is no version of Python"));
            }
        }
        for exclusion in &table.exclude {
            for specifier in
                [&exclusion.version, &exclusion.rocm, &exclusion.torch, &exclusion.python].into_iter().flatten()
            {
                if specifier != FREE_THREADED {
                    fits(specifier, None, path)?;
                }
            }
        }
        Ok(table)
    }

    /// The release of LLVM that the compiler of a ROCm is, as far as the table knows.
    pub fn llvm(&self, rocm: &str) -> Option<u32> {
        self.rocm.iter().find(|release| minor(&release.version) == minor(rocm))?.llvm
    }

    /// The versions of ROCm, first two numbers, oldest first.
    pub fn rocm_versions(&self) -> Vec<String> {
        self.rocm.iter().map(|release| minor(&release.version)).collect()
    }

    /// Where wheels of a torch for a ROCm are.
    pub fn torch_index(&self, torch: Option<&str>, rocm: &str) -> String {
        let is_nightly = torch.is_some_and(|torch| torch.contains("dev"));
        let index = if is_nightly { &self.torch_index.nightly } else { &self.torch_index.release };
        index.replace("ROCM", &minor(rocm))
    }

    /// Frameworks by name; all for none.
    pub(super) fn chosen(&self, names: &[String]) -> Result<Vec<&Framework>, Error> {
        if names.is_empty() {
            return Ok(self.frameworks.iter().collect());
        }
        let find = |name: &String| {
            self.frameworks.iter().find(|framework| framework.recipe == *name).ok_or_else(|| Error::Unknown {
                what: "framework",
                name: name.clone(),
                place: " in the table".into(),
                hint: suggestion(name, self.frameworks.iter().map(|framework| framework.recipe.as_str())),
            })
        };
        names.iter().map(find).collect()
    }

    /// Why a cell is not built; `None`: it is.
    pub(super) fn excluded(&self, framework: &Framework, point: &Point) -> Result<Option<String>, Error> {
        let torch = if framework.is_torch { Some(&point.version) } else { point.torch.as_ref() };
        if let Some(torch) = torch
            && let Some(reason) = self.unsupported(torch, point)
        {
            return Ok(Some(reason));
        }
        for exclusion in &self.exclude {
            if self.applies(exclusion, point)? {
                return Ok(Some(exclusion.reason.clone()));
            }
        }
        Ok(None)
    }

    /// Why a torch does not go with a cell.
    fn unsupported(&self, torch: &str, point: &Point) -> Option<String> {
        let Some(known) = self.torch.iter().find(|known| known.version == minor(torch)) else {
            return Some(format!("torch {torch} is not in the table"));
        };
        if !known.rocm.contains(&point.rocm) {
            let others = known.rocm.join(" and ");
            return Some(format!("torch {torch} is not for ROCm {}, but for {others}", point.rocm));
        }
        let python = point.python?;
        if python.free_threaded {
            let is_it = |text: &String| text.parse::<PythonVersion>().is_ok_and(|known| known == python);
            return (!known.free_threaded.iter().any(is_it))
                .then(|| format!("torch {torch} is not for Python {python}"));
        }
        let [first, last] = &known.python;
        let is_between =
            first.parse().is_ok_and(|first| python >= first) && last.parse().is_ok_and(|last| python <= last);
        (!is_between).then(|| format!("torch {torch} is for Python {first} to {last}"))
    }

    /// Why a cell is not one to build; `None`: it is, or the table knows nothing of its recipe. Which versions of ROCm, torch and Python
    /// belong together counts where the table chose some of them, and where the build installs torch from
    /// PyTorch's index: who names all of them and has torch from elsewhere knows.
    ///
    /// # Errors
    /// A specifier in the table that is none.
    pub fn why_not(&self, recipe: &Evaluated, chosen_by: ChosenBy) -> Result<Option<WhyNot>, Error> {
        let (recipe, cell, installs_torch) = (&recipe.recipe, &recipe.cell, self.installs_torch(recipe));
        let Some(rocm) = &cell.rocm else { return Ok(None) };
        let point = Point {
            recipe: recipe.clone(),
            version: cell.version.clone().unwrap_or_default(),
            backend: cell.backend.clone().unwrap_or_default(),
            rocm: minor(rocm),
            torch: cell.torch.as_deref().map(minor),
            python: cell.python,
        };
        let framework = self.frameworks.iter().find(|framework| framework.recipe == *recipe);
        if let Some(framework) = framework.filter(|_| chosen_by != ChosenBy::User) {
            return Ok(self.excluded(framework, &point)?.map(WhyNot::Excluded));
        }
        for exclusion in &self.exclude {
            if self.applies(exclusion, &point)? {
                return Ok(Some(WhyNot::Excluded(exclusion.reason.clone())));
            }
        }
        // The table may be older than torch or ROCm.
        let is_known = |torch: &&String| {
            self.torch.iter().any(|known| known.version == **torch) && self.rocm_versions().contains(&point.rocm)
        };
        let torch = point.torch.as_ref().filter(|_| installs_torch).filter(is_known);
        Ok(torch.and_then(|torch| self.unsupported(torch, &point)).map(WhyNot::NoTorch))
    }

    /// Whether a build installs torch from PyTorch's own index.
    fn installs_torch(&self, recipe: &Evaluated) -> bool {
        let (torch, rocm) = (recipe.cell.torch.as_deref(), recipe.cell.rocm.as_deref());
        let Some(own) = rocm.map(|rocm| self.torch_index(torch, rocm)) else { return false };
        let is_it = |step: &Step| matches!(&step.action, Action::Install { index: Some(index), .. } if *index == own);
        recipe.steps.iter().any(is_it)
    }

    fn applies(&self, exclusion: &Exclusion, point: &Point) -> Result<bool, Error> {
        let same = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        if !same(&exclusion.recipe, &point.recipe) || !same(&exclusion.backend, &point.backend) {
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
            (&exclusion.torch, point.torch.as_deref()),
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
mod tests {
    use super::*;
    use crate::Book;
    use crate::matrix::{Status, Wanted, make};

    #[test]
    fn free_threaded_pythons_are_an_axis() {
        let (table, book) = (Table::built_in().unwrap(), Book::built_in().unwrap());
        let reasons = |recipe: &str, backend: &str, version: &str, python: &str| {
            let wanted = Wanted {
                recipes: vec![recipe.into()],
                backends: vec![backend.into()],
                versions: vec![version.into()],
                python: vec![python.parse().unwrap()],
                ..Wanted::default()
            };
            let wheel = "torch-2.10.0+rocm7.1-cp313-cp313t-linux_x86_64.whl".to_owned();
            let matrix = make(&table, &book, &wanted, &[wheel]).unwrap();
            matrix.rows.into_iter().filter(|row| row.point.rocm == "7.1").collect::<Vec<_>>()
        };
        let row = |version: &str, python: &str| reasons("torch", "rocm", version, python)[0].clone();
        assert_eq!((row("2.10", "3.13t").status, row("2.10", "3.13").status), (Status::Exists, Status::Missing));
        assert_eq!(row("2.13", "3.14t").status, Status::Missing);
        assert_eq!(row("2.13", "3.13t").reason.as_deref(), Some("torch 2.13 is not for Python 3.13t"));
        let rows = reasons("flash-attn", "ck", "2.8.3", "3.14t");
        let of_torch = |torch: &str| rows.iter().find(|row| row.point.torch.as_deref() == Some(torch)).unwrap();
        let reason = of_torch("2.12").reason.as_deref();
        assert_eq!(reason, Some("PyTorch has no free-threaded wheels for ROCm"));
        let wrong = BUILT_IN.replace("\"free-threaded\"", "\"free-thraeded\"");
        assert!(Table::parse(&wrong, "mine.toml").unwrap_err().to_string().contains("is no specifier"));
    }
}
