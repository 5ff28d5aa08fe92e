//! Input: the table of what can be built (`data/frameworks.toml`), a query, and existing wheels.
//! Output: the cells that exist, those that are missing, and those that are not built, with the
//! reason.

mod existing;
mod label;
mod origin;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rocwheel_progress::suggestion;
use rocwheel_wheel::{WheelName, canonical_name};
use serde::Serialize;

use crate::book::Book;
use crate::cell::{Cell, Platform, PythonVersion, SdkKind, minor};
use crate::error::Error;
use crate::evaluate::evaluate;
use crate::framework::Framework;
use crate::images::{ImageQuery, Images};
use crate::recipe::Recipe;
pub use existing::ExistingWheels;
pub use label::{Label, RocmLabel};
pub use origin::Origin;
pub use table::{FrameworkTable, WhyNot};

/// A selection of cells. An empty list selects everything in the table.
#[derive(Debug, Clone, Default)]
pub struct MatrixQuery {
    pub recipes: Vec<String>,
    pub versions: Vec<String>,
    pub backends: Vec<String>,
    pub rocm: Vec<String>,
    pub torch: Vec<String>,
    pub python: Vec<PythonVersion>,
    /// Target systems; empty: Linux.
    pub platforms: Vec<Platform>,
}

impl MatrixQuery {
    /// A torch version of the table as the query has it: 2.5 as `2.5` or `2.5.1`.
    fn torch_as_asked(&self, version: &str) -> Option<&str> {
        self.torch.iter().find(|asked| minor(asked) == version).map(String::as_str)
    }

    fn is_for_torch(&self, version: &str) -> bool {
        self.torch.is_empty() || self.torch_as_asked(version).is_some()
    }
}

/// Coordinates of one thing that could be built.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Point {
    pub platform: Platform,
    pub recipe: String,
    pub version: String,
    pub backend: String,
    /// First two numbers of ROCm's version.
    pub rocm: String,
    /// Version of torch, if the result is for one: the first two numbers, or the patch release that
    /// the query asks for.
    pub torch: Option<String>,
    /// The Python; `None` if the result is for all.
    #[serde(serialize_with = "crate::cell::optional_text::serialize")]
    pub python: Option<PythonVersion>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MatrixRow {
    #[serde(flatten)]
    pub point: Point,
    pub status: CellStatus,
    /// The reason if it is excluded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// File names of its wheels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellStatus {
    /// A wheel of it exists.
    Exists,
    /// It can be built, and no wheel exists.
    Missing,
    /// It is not built; [`MatrixRow::reason`] has the reason.
    Excluded,
}

/// A wheel whose name does not identify one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnclearWheel {
    pub file: String,
    /// The ambiguity.
    pub reason: String,
}

/// All cells, sorted in the order of the query, and ambiguous wheels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Matrix {
    /// The cells in the order of the query.
    pub rows: Vec<MatrixRow>,
    /// Wheels of the frameworks that could belong to several cells.
    pub unclear: Vec<UnclearWheel>,
    /// A sentence for each version of the query that the table lacks.
    pub unknown: Vec<String>,
}

/// Makes the matrix. `wheels` are file names.
/// If the table does not have a recipe, version or backend, the error suggests the nearest.
pub fn make(table: &FrameworkTable, book: &Book, wanted: &MatrixQuery, wheels: &[String]) -> Result<Matrix, Error> {
    for name in &wanted.recipes {
        if let Ok((entry, Some(rocm))) = book.named(name, &table.rocm_versions()) {
            let line = format!("write `rocwheel matrix {} --rocm {rocm}`", entry.recipe.name);
            return Err(Error::request_with(format!("`{name}` is a framework and a version of ROCm"), line));
        }
    }
    let mut rows = Vec::new();
    let unknown = table.unknown_versions(wanted.rocm.iter(), wanted.torch.iter());
    let table = &table.clone().with_versions(&wanted.rocm, &wanted.torch);
    let (frameworks, images) = (table.chosen(&wanted.recipes)?, Images::built_in()?);
    check_wanted(table, &frameworks, wanted)?;
    for framework in &frameworks {
        let recipe = &book.get(&framework.recipe)?.recipe;
        for point in points(table, framework, wanted, |backend| recipe.any_python.iter().any(|any| any == backend)) {
            let reason = table.excluded(framework, &point)?.or_else(|| without_image(recipe, &images, &point.rocm));
            let status = if reason.is_some() { CellStatus::Excluded } else { CellStatus::Missing };
            rows.push(MatrixRow { point, status, reason, files: Vec::new() });
        }
    }
    let mut matrix = Matrix { rows, unclear: Vec::new(), unknown };
    matrix.find(table, book, &frameworks, wheels)?;
    for torch in matrix.rows.iter_mut().filter_map(|row| row.point.torch.as_mut()) {
        if let Some(asked) = wanted.torch_as_asked(torch) {
            asked.clone_into(torch);
        }
    }
    Ok(matrix)
}

/// The reason why a recipe that is built in a container cannot be built for a ROCm version; `None`
/// if there is an image.
fn without_image(recipe: &Recipe, images: &Images, rocm: &str) -> Option<String> {
    let wanted = ImageQuery { recipe: &recipe.name, sdk: SdkKind::Prefix, rocm: Some(rocm) };
    recipe.in_container.then(|| images.name(wanted).err())?.map(|error| error.to_string())
}

/// Checks that the table has every value of the query.
fn check_wanted(table: &FrameworkTable, frameworks: &[&Framework], wanted: &MatrixQuery) -> Result<(), Error> {
    let versions = frameworks.iter().flat_map(|framework| &framework.versions);
    check_known("version", &wanted.versions, versions)?;
    check_known("backend", &wanted.backends, frameworks.iter().flat_map(|framework| &framework.backends))?;
    check_known("version of ROCm", &wanted.rocm, &table.rocm_versions())?;
    let torch: Vec<String> = wanted.torch.iter().map(|version| minor(version)).collect();
    check_known("version of torch", &torch, table.torch.iter().map(|torch| &torch.version))
}

fn check_known<'v>(
    what: &'static str,
    asked: &[String],
    known: impl IntoIterator<Item = &'v String>,
) -> Result<(), Error> {
    let known: BTreeSet<&str> = known.into_iter().map(String::as_str).collect();
    let Some(value) = asked.iter().find(|value| !known.contains(value.as_str())) else { return Ok(()) };
    let (name, place) = (value.clone(), " in the table".into());
    Err(Error::Unknown { what, name, place, hint: suggestion(value, known) })
}

/// `true` if a list of the query has a value, or is empty.
fn is_any_or_has(wanted: &[String], value: &str) -> bool {
    wanted.is_empty() || wanted.iter().any(|one| one == value)
}

fn points(
    table: &FrameworkTable,
    framework: &Framework,
    wanted: &MatrixQuery,
    is_for_any: impl Fn(&str) -> bool,
) -> Vec<Point> {
    let all: Vec<String> = table.torch.iter().map(|torch| torch.version.clone()).collect();
    let platforms = if wanted.platforms.is_empty() { &[Platform::Linux][..] } else { &wanted.platforms };
    let mut places = Vec::new();
    for platform in framework.platforms.iter().filter(|platform| platforms.contains(platform)) {
        places.extend(framework.versions.iter().map(|version| (*platform, version)));
    }
    let mut points = Vec::new();
    places.retain(|(_, version)| {
        is_any_or_has(&wanted.versions, version) && (!framework.is_torch || wanted.is_for_torch(version))
    });
    for (platform, version) in places {
        let torches = if framework.against_torch { &all[..] } else { framework.torch_of(version) };
        let of_torch = torches.iter().filter(|torch| wanted.is_for_torch(torch)).cloned().map(Some);
        let torches: Vec<_> = if torches.is_empty() { vec![None] } else { of_torch.collect() };
        for backend in framework.backends.iter().filter(|backend| is_any_or_has(&wanted.backends, backend)) {
            let pythons: Vec<Option<PythonVersion>> = if is_for_any(backend) || framework.python.is_empty() {
                vec![None]
            } else if wanted.python.is_empty() {
                framework.pythons().map(Some).collect()
            } else {
                wanted.python.iter().copied().map(Some).collect()
            };
            for rocm in table.rocm_versions().iter().filter(|rocm| is_any_or_has(&wanted.rocm, rocm)) {
                for torch in &torches {
                    for &python in &pythons {
                        points.push(Point {
                            platform,
                            recipe: framework.recipe.clone(),
                            version: version.clone(),
                            backend: backend.clone(),
                            rocm: rocm.clone(),
                            torch: torch.clone(),
                            python,
                        });
                    }
                }
            }
        }
    }
    points
}

impl Matrix {
    fn find(
        &mut self,
        table: &FrameworkTable,
        book: &Book,
        frameworks: &[&Framework],
        wheels: &[String],
    ) -> Result<(), Error> {
        let rocm = table.rocm_versions();
        let places: BTreeMap<Point, usize> =
            self.rows.iter().enumerate().map(|(at, row)| (row.point.clone(), at)).collect();
        for row in &mut self.rows {
            if let Some(expected) = tarball(book, &row.point)? {
                let found = wheels.iter().filter(|file| file.rsplit('/').next() == Some(expected.as_str()));
                row.files.extend(found.cloned());
                if !row.files.is_empty() && row.status == CellStatus::Missing {
                    row.status = CellStatus::Exists;
                }
            }
        }
        for file in wheels {
            let Ok(name) = file.parse::<WheelName>() else { continue };
            let distribution = canonical_name(&name.distribution);
            for framework in frameworks {
                let recipe = &book.get(&framework.recipe)?.recipe;
                if !recipe.distribution.iter().any(|known| canonical_name(known) == distribution) {
                    continue;
                }
                match points_of(&name, framework, recipe, &rocm) {
                    Ok(points) => {
                        for at in points.iter().filter_map(|point| places.get(point)) {
                            let row = &mut self.rows[*at];
                            row.status = CellStatus::Exists;
                            row.files.push(file.clone());
                        }
                    }
                    Err(reason) => self.unclear.push(UnclearWheel { file: file.clone(), reason }),
                }
            }
        }
        Ok(())
    }

    /// Number of cells of each status: exists, missing, excluded.
    pub fn counts(&self) -> [usize; 3] {
        [CellStatus::Exists, CellStatus::Missing, CellStatus::Excluded]
            .map(|status| self.rows.iter().filter(|row| row.status == status).count())
    }

    /// Percentage of buildable cells that exist; `None` if there are none to build.
    #[allow(clippy::cast_precision_loss, reason = "no matrix has 2^52 cells")]
    pub fn coverage(&self) -> Option<f64> {
        let [exists, missing, _] = self.counts();
        (exists + missing > 0).then(|| exists as f64 * 100.0 / (exists + missing) as f64)
    }
}

/// File name of a cell's tarball. `None`: it is a wheel, or its name depends on more than the table
/// knows.
fn tarball(book: &Book, point: &Point) -> Result<Option<String>, Error> {
    let entry = book.get(&point.recipe)?;
    if entry.recipe.output.tarball.is_none() {
        return Ok(None);
    }
    let cell = Cell {
        rocm: Some(point.rocm.clone()),
        torch: point.torch.clone(),
        version: Some(point.version.clone()),
        backend: Some(point.backend.clone()),
        python: point.python,
        ..Cell::new(point.platform)
    };
    let path = evaluate(entry, book, &cell)?.output.tarball.map(|tarball| tarball.path).unwrap_or_default();
    let path = path.replace("${source.revision}", &point.version);
    Ok(path.rsplit('/').next().filter(|name| !name.contains("${")).map(str::to_owned))
}

/// The cells that a wheel belongs to, by its name.
fn points_of(name: &WheelName, framework: &Framework, recipe: &Recipe, rocm: &[String]) -> Result<Vec<Point>, String> {
    let (public, local) = name.version.split_once('+').unwrap_or((&name.version, ""));
    let label = Label::parse(local);
    let Some(found) = &label.rocm else { return Ok(Vec::new()) };
    let candidates = found.candidates(rocm);
    let [rocm] = &candidates[..] else {
        return Err(match candidates.len() {
            0 => format!("`{local}` names a ROCm that is not in the table"),
            _ => format!("`{local}` can mean ROCm {}", candidates.join(" or ")),
        });
    };
    let version = framework.version_of(public);
    let backend = match &label.backend {
        Some(backend) => backend.clone(),
        None => framework.backends.first().cloned().unwrap_or_default(),
    };
    // Wheels for every Python often have the tag of the Python that built them.
    let is_for_any = recipe.any_python.contains(&backend);
    let pythons = if is_for_any { vec![None] } else { framework_pythons(name, framework) };
    let of_label = framework.against_torch.then(|| label.torch.as_deref().map(minor)).flatten();
    let torches: Vec<_> = match framework.torch_of(&version) {
        [] => vec![of_label],
        of_version => of_version.iter().cloned().map(Some).collect(),
    };
    let mut points = Vec::new();
    for &platform in framework.platforms.iter().filter(|platform| existing::is_on(name, **platform)) {
        for torch in &torches {
            points.extend(pythons.iter().map(|&python| Point {
                platform,
                recipe: framework.recipe.clone(),
                version: version.clone(),
                backend: backend.clone(),
                rocm: rocm.clone(),
                torch: torch.clone(),
                python,
            }));
        }
    }
    Ok(points)
}

/// The Pythons that a wheel is for: `None` for all, several for the stable ABI.
fn framework_pythons(name: &WheelName, framework: &Framework) -> Vec<Option<PythonVersion>> {
    let is_stable = name.abis.iter().any(|abi| abi == "abi3");
    let mut pythons = Vec::new();
    for tag in &name.pythons {
        let Some(number) = tag.strip_prefix("cp3").and_then(|number| number.parse::<u16>().ok()) else {
            pythons.push(None);
            continue;
        };
        let free_threaded = name.abis.iter().any(|abi| *abi == format!("{tag}t"));
        if is_stable {
            pythons.extend(framework.pythons().filter(|one| !one.free_threaded && one.minor >= number).map(Some));
        } else {
            pythons.push(Some(PythonVersion { major: 3, minor: number, free_threaded }));
        }
    }
    pythons
}

/// The names of wheels and tarballs in a folder, sorted. Tarballs may be one folder deeper, as
/// `linux-64/NAME.tar.bz2`.
pub fn outputs_in(folder: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_output(&name) {
            names.push(name);
        } else if entry.path().is_dir() && !name.starts_with('.') {
            for inner in fs_err::read_dir(entry.path())? {
                let inner = inner?.file_name().to_string_lossy().into_owned();
                names.extend(is_tarball(&inner).then(|| format!("{name}/{inner}")));
            }
        }
    }
    names.sort();
    Ok(names)
}

fn is_output(name: &str) -> bool {
    WheelName::is_wheel(name) || is_tarball(name)
}

fn is_tarball(name: &str) -> bool {
    name.ends_with(".tar.bz2")
}
