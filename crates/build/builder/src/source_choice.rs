//! Input: options for sources, a recipe and a cell. Output: the location of the sources. Named or
//! existing sources are used; all others are checked out, at commits that fit together.

mod checkouts;

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pep440_rs::Version;
use regex::Regex;
use rocwheel_progress::{Failure, Reporter};
use rocwheel_source::{Hipify, KnownArchive, Project, Table, absolute};
use rocwheel_tables::target::base_target;
use serde::Serialize;

use crate::error;
use crate::execute::{JobPlace, Listener};
use rocwheel_recipe::Book;
use rocwheel_recipe::JobSource;
use rocwheel_recipe::recipe::{Recipe, SourceVersionFile, TargetsFile};
use rocwheel_recipe::request::NamedRecipe;
use rocwheel_recipe::{Cell, minor};

/// Downloads the archive of a release, checks its SHA-256, and returns the path of the file.
pub type Download = fn(&KnownArchive, &dyn Reporter) -> Result<PathBuf, Failure>;

#[derive(Debug, Clone)]
pub struct SourceChoice {
    /// `[RECIPE=]PATH|VERSION`: a checkout, a folder, an archive, or the version of a release.
    pub source: Vec<String>,
    /// Versions of the framework: releases, or a version line of torch.
    pub versions: Vec<String>,
    /// Folder of the source trees, existing or new. `None`: the working directory for existing
    /// ones, `sources` in the work folder for new ones.
    pub root: Option<PathBuf>,
    /// Version line to check out; `None`: the line of the torch to build against.
    pub line: Option<String>,
    /// `[PROJECT=]REF`: another branch, tag or commit.
    pub reference: Vec<String>,
    /// `[PROJECT=]ORIGIN`: another repository.
    pub origin: Vec<String>,
    /// Path of a file with another table of projects, origins and lines.
    pub table: Option<PathBuf>,
    /// Projects that recipes define themselves.
    pub projects: Vec<Project>,
    /// `true` if missing sources are an error.
    pub no_checkout: bool,
    /// The working directory, where relative paths start.
    pub directory: PathBuf,
    /// Converts the sources of torch after a checkout.
    pub convert: Hipify,
    pub download: Download,
    /// Folders that this run has checked out or inspected, and the table once it is read.
    pub memory: SourceMemory,
}

/// The memory of a [`SourceChoice`] for later cells. A clone shares the table but not the folders.
#[derive(Debug, Clone, Default)]
pub struct SourceMemory {
    /// Folders that this run has brought up to date.
    obtained: RefCell<BTreeSet<PathBuf>>,
    table: Rc<OnceCell<Table>>,
}

enum Kind {
    /// Existing sources.
    Path(PathBuf),
    /// A release that is available as one file.
    Archive(KnownArchive),
    /// A checkout, of the named release if there is one.
    Checkout(Option<String>),
}

#[derive(Debug, Serialize)]
pub struct PlannedCheckout {
    /// Name of the project in the table of sources.
    pub project: String,
    /// The commit, branch or tag, and its origin in words.
    pub reference: String,
    pub directory: PathBuf,
}

/// Splits `RECIPE=VALUE`; the recipe is optional. Paths of folders may contain `=`.
fn parts(text: &str) -> (Option<&str>, &str) {
    match text.split_once('=') {
        Some((recipe, place)) if !recipe.contains(['/', '\\']) => (Some(recipe), place),
        _ => (None, text),
    }
}

/// The text before `=` if it can be a name; an address has other characters.
fn recipe_name(text: &str) -> Option<&str> {
    let name = recipe_of(text).filter(|name| !name.is_empty())?;
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)).then_some(name)
}

fn recipe_of(text: &str) -> Option<&str> {
    parts(text).0
}

/// Texts with other names before `=`.
fn renamed(texts: &[String], names: &BTreeMap<&str, &str>) -> Vec<String> {
    let renamed = texts.iter().map(|text| match parts(text) {
        (Some(old), value) if names.contains_key(old) => format!("{}={value}", names[old]),
        _ => text.clone(),
    });
    renamed.collect()
}

impl SourceChoice {
    /// Number of versions of the sources: how often an option names the same recipe.
    pub fn variants(&self) -> Result<usize, Failure> {
        let recipes: Vec<Option<&str>> = self.source.iter().map(|text| recipe_of(text)).collect();
        let counts = recipes.iter().map(|recipe| recipes.iter().filter(|other| *other == recipe).count());
        let most = counts.clone().max().unwrap_or(1);
        match recipes.iter().zip(counts).find(|(_, count)| ![1, most].contains(count)) {
            None => Ok(most),
            Some((recipe, count)) => Err(error::request_with(
                format!("there are {count} sources for {}, and {most} for another recipe", recipe.unwrap_or("it")),
                "name as many for each: the first belong together, the second, and so on",
            )),
        }
    }

    /// The choice with one of these versions.
    #[must_use]
    pub fn variant(&self, number: usize) -> SourceChoice {
        let mut source: Vec<String> = Vec::new();
        for text in &self.source {
            if source.iter().any(|other| recipe_of(other) == recipe_of(text)) {
                continue;
            }
            let all: Vec<&String> = self.source.iter().filter(|other| recipe_of(other) == recipe_of(text)).collect();
            source.push(all.get(number).copied().unwrap_or(all[0]).clone());
        }
        SourceChoice { source, ..self.clone() }
    }

    pub fn filled(&self, cell: &Cell) -> Result<SourceChoice, Failure> {
        let source = self.source.iter().map(|text| cell.fill_versions(text)).collect::<Result<_, _>>()?;
        let root = self.root.as_ref().map(|root| cell.fill_versions(&root.to_string_lossy())).transpose()?;
        Ok(SourceChoice { source, root: root.map(PathBuf::from), ..self.clone() })
    }

    /// Normalizes names: recipes before `=` in `--source`, and projects in `--ref` and `--origin`.
    /// The user may write either; flash-attn is built from flash-attention.
    pub fn with_names(mut self, book: &Book) -> Result<SourceChoice, Failure> {
        self.projects = book.projects().cloned().collect();
        let recipes: Vec<&Recipe> = book.entries().map(|entry| &entry.recipe).collect();
        let table = self.table()?;
        let (mut project_of, mut recipe_of) = (BTreeMap::new(), BTreeMap::new());
        for recipe in &recipes {
            if table.project(&recipe.name).is_err() {
                project_of.insert(recipe.name.as_str(), recipe.source.as_str());
            }
            if !recipes.iter().any(|other| other.name == recipe.source) {
                recipe_of.entry(recipe.source.as_str()).or_insert(recipe.name.as_str());
            }
        }
        let names = table.projects.iter().map(|project| project.name.as_str());
        let names = names.chain(recipes.iter().map(|recipe| recipe.name.as_str()));
        for (option, texts) in [("--ref", &self.reference), ("--origin", &self.origin)] {
            for name in texts.iter().filter(|text| !Path::new(text).exists()).filter_map(|text| recipe_name(text)) {
                if table.project(name).is_err() && !project_of.contains_key(name) {
                    return Err(error::request_with(
                        format!("`{option} {name}=…`: there is no project `{name}`"),
                        rocwheel_progress::suggestion(name, names.clone()),
                    ));
                }
            }
        }
        let reference = renamed(&self.reference, &project_of);
        let origin = renamed(&self.origin, &project_of);
        let source = renamed(&self.source, &recipe_of);
        Ok(SourceChoice { source, reference, origin, ..self })
    }

    /// Applies the versions of `--framework-version`: as releases of the recipe, or as a line of
    /// torch.
    pub fn with_versions(self, book: &Book, names: &[NamedRecipe]) -> Result<SourceChoice, Failure> {
        let [named] = names else {
            if self.versions.is_empty() {
                return Ok(self);
            }
            return Err(error::request_with(
                "`--framework-version` is for one recipe, and several are named",
                "name releases with `--source RECIPE=VERSION`, and torch's line with `--line`",
            ));
        };
        let recipe = &book.get(&named.recipe)?.recipe;
        if recipe.source != "torch" || self.versions.is_empty() {
            let source = self.versions.iter().map(|version| format!("{}={version}", recipe.name));
            return Ok(SourceChoice { source: self.source.iter().cloned().chain(source).collect(), ..self });
        }
        let [version] = &self.versions[..] else {
            return Err(error::request_with("torch is built from one version line at a time", "name one of them"));
        };
        Ok(SourceChoice { line: Some(version.clone()), ..self })
    }

    /// Adds the releases of a recipe from the table of frameworks, unless the user names the
    /// sources.
    pub fn with_table(self, recipe: &Recipe, versions: &[String]) -> Result<SourceChoice, Failure> {
        let is_said = self.given(recipe).is_some()
            || self.root.is_some()
            || self.line.is_some()
            || self.no_checkout
            || !self.reference.is_empty();
        let table = self.table()?;
        if is_said {
            return Ok(self);
        }
        let releases = versions.iter().filter(|version| {
            let tag = table.project(&recipe.source).ok().and_then(|project| project.release_tag(version));
            !rocwheel_source::is_commit(version) && (tag.is_some() || table.archive(&recipe.source, version).is_some())
        });
        let releases = releases.map(|version| format!("{}={version}", recipe.name));
        Ok(SourceChoice { source: self.source.iter().cloned().chain(releases).collect(), ..self })
    }

    /// Checks that every `RECIPE=` is a recipe of this run.
    pub fn check(&self, names: &[NamedRecipe]) -> Result<(), Failure> {
        for text in &self.source {
            match recipe_of(text) {
                Some(recipe) if !names.iter().any(|named| named.recipe == recipe) => {
                    return Err(error::request(format!("`--source {text}` is for {recipe}, which is not built")));
                }
                None if names.len() > 1 => {
                    let hint = format!("write `--source {}={text}`", names[0].recipe);
                    return Err(error::request_with(
                        format!("`--source {text}` does not say for which recipe it is"),
                        hint,
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn given(&self, recipe: &Recipe) -> Option<&str> {
        let text = self.source.iter().rfind(|text| recipe_of(text).is_none_or(|name| name == recipe.name))?;
        Some(parts(text).1)
    }

    fn table(&self) -> Result<&Table, Failure> {
        if let Some(known) = self.memory.table.get() {
            return Ok(known);
        }
        let table = match &self.table {
            None => Table::built_in(),
            Some(path) => Table::parse(&fs_err::read_to_string(path)?, &path.display().to_string())?,
        };
        let table = table.with_projects(self.projects.iter())?;
        Ok(self.memory.table.get_or_init(|| table))
    }

    fn kind(&self, recipe: &Recipe, table: &Table) -> Result<Kind, Failure> {
        let Some(text) = self.given(recipe) else { return Ok(Kind::Checkout(None)) };
        if Path::new(text).exists() || !is_version(text) {
            return Ok(Kind::Path(PathBuf::from(text)));
        }
        if let Some(known) = table.archive(&recipe.source, text) {
            return Ok(Kind::Archive(known.clone()));
        }
        let tag = table.project(&recipe.source).ok().and_then(|project| project.tag_of_source(text));
        if tag.is_some() {
            return Ok(Kind::Checkout(tag));
        }
        let known = table.archives.iter().filter(|known| known.project == recipe.source);
        let known: Vec<&str> = known.map(|known| known.version.as_str()).collect();
        let names = if known.is_empty() { "none is".to_owned() } else { known.join(", ") };
        Err(error::request_with(
            format!("the release {text} of {} is not known", recipe.name),
            format!("known: {names}; `--ref {}=v{text}` checks any other out", recipe.source),
        ))
    }

    /// Sentences about what no table knows and what is built all the same: a line, and GPU targets
    /// that the sources do not name.
    pub(crate) fn unknown_versions(
        &self,
        recipe: &Recipe,
        cell: &Cell,
        place: &JobPlace,
    ) -> Result<Vec<String>, Failure> {
        let mut sentences = Vec::new();
        if let Some(line) = &self.line {
            sentences.extend(self.table()?.unknown_line(line));
        }
        let Some(file) = &recipe.targets_file else { return Ok(sentences) };
        let Some(list) = self.targets_file(file, recipe, cell, place)?.filter(|list| list.is_file()) else {
            return Ok(sentences);
        };
        let known = targets_in(file, &list)?;
        let list = list.display();
        if known.is_empty() {
            let instead = if file.advisory { "none is compared with it" } else { "those of the recipe are taken" };
            sentences.push(format!("`{list}` names no GPU targets: {instead}"));
        } else if file.advisory {
            let others = cell.targets.iter().filter(|target| !known.iter().any(|name| name == base_target(target)));
            let others: Vec<&str> = others.map(String::as_str).collect();
            if !others.is_empty() {
                let (name, others) = (&recipe.name, others.join(", "));
                sentences.push(format!("the project's own wheels of {name} are not for {others}: see `{list}`"));
            }
        }
        Ok(sentences)
    }

    /// The version line that is checked out for a cell.
    fn line(&self, cell: &Cell, table: &Table) -> Result<String, Failure> {
        if let Some(name) = &self.line {
            return Ok(table.line(name)?.name.clone());
        }
        let Some(torch) = &cell.torch else { return Ok("nightly".into()) };
        // A torch older than every line has no line, and a project that does not follow torch needs
        // none.
        Ok(table.line(&minor(torch)).map_or_else(|_| "nightly".into(), |line| line.name.clone()))
    }

    /// Path of a recipe's source tree, existing or not.
    fn folder(&self, recipe: &Recipe, tag: Option<&str>, cell: &Cell, place: &JobPlace) -> Result<PathBuf, Failure> {
        let table = self.table()?;
        let name = table.project(&recipe.source).map_or(recipe.source.clone(), |project| project.directory.clone());
        if let Some(root) = &self.root {
            return Ok(absolute(&self.directory, &root.join(name)));
        }
        let here = absolute(&self.directory, Path::new(&name));
        if tag.is_none() && here.is_dir() && self.line.is_none() {
            return Ok(here);
        }
        // One run may need trees of another line or release, and trees with submodules for another
        // backend.
        let mut name = tag.map_or(name.clone(), |tag| format!("{name}-{}", tag.replace('/', "-")));
        if self.leaves_submodules(recipe, cell) {
            name.push_str("-without-submodules");
        }
        Ok(place.work.join("sources").join(self.line(cell, table)?).join(name))
    }

    /// `true` if submodules are not checked out. A folder that the user named may serve other
    /// backends too, so it gets them.
    pub(super) fn leaves_submodules(&self, recipe: &Recipe, cell: &Cell) -> bool {
        let backend = cell.backend.as_ref().or(recipe.backends.first());
        self.root.is_none() && backend.is_some_and(|backend| recipe.without_submodules.contains(backend))
    }

    /// The version of the sources, if it is known without unpacking or checking out anything.
    ///
    /// # Errors
    /// The caller's variable says another one.
    pub fn version(&self, recipe: &Recipe, cell: &Cell, place: &JobPlace) -> Result<Option<String>, Failure> {
        let folder = match self.kind(recipe, self.table()?)? {
            Kind::Archive(known) => return Ok(Some(known.version)),
            Kind::Path(path) if path.is_file() => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return Ok(version_of_archive(&name));
            }
            Kind::Path(path) => path,
            Kind::Checkout(tag) => self.folder(recipe, tag.as_deref(), cell, place)?,
        };
        let given = self.given(recipe).filter(|text| is_version(text)).map(str::to_owned);
        let Some(file) = &recipe.version_file else {
            return Ok(given.or_else(|| self.revision(recipe, &folder)));
        };
        let path = folder.join(&file.path);
        let Ok(text) = fs_err::read_to_string(&path) else { return Ok(given) };
        let Some(pattern) = &file.pattern else {
            let version = text.trim();
            check_variable(file, version, &path, place)?;
            return Ok(Some(version.to_owned()));
        };
        let pattern = Regex::new(&format!("(?m){pattern}"))
            .map_err(|error| error::malformed(&file.path, format!("`{pattern}` is no regular expression: {error}")))?;
        Ok(pattern.captures(&text).and_then(|found| found.get(1)).map(|found| found.as_str().to_owned()))
    }

    /// The GPU targets that existing sources name in the recipe's `targets-file`; empty if they
    /// name none, or are not here yet.
    ///
    /// # Errors
    /// Sources that are complete lack the file.
    pub fn targets(&self, recipe: &Recipe, cell: &Cell, place: &JobPlace) -> Result<Vec<String>, Failure> {
        let Some(file) = &recipe.targets_file else { return Ok(Vec::new()) };
        let Some(list) = self.targets_file(file, recipe, cell, place)? else { return Ok(Vec::new()) };
        if !list.is_file() {
            let text = format!("there is no `{}`, which says what GPU targets {} has", list.display(), recipe.name);
            return Err(error::request_with(text, "name a whole tree of the sources with `--source`"));
        }
        targets_in(file, &list)
    }

    /// Path of the list of GPU targets in sources that are here: of a file that they should have.
    fn targets_file(
        &self,
        file: &TargetsFile,
        recipe: &Recipe,
        cell: &Cell,
        place: &JobPlace,
    ) -> Result<Option<PathBuf>, Failure> {
        let (folder, is_complete) = match self.kind(recipe, self.table()?)? {
            Kind::Archive(_) => return Ok(None),
            Kind::Path(path) => (path, !file.advisory),
            Kind::Checkout(tag) => {
                let folder = self.folder(recipe, tag.as_deref(), cell, place)?;
                let is_complete = !file.advisory && self.memory.obtained.borrow().contains(&folder);
                (folder, is_complete)
            }
        };
        let list = folder.join(&file.path);
        Ok(Some(list).filter(|list| folder.is_dir() && (is_complete || list.exists())))
    }

    /// The commit that names a result without another version: the checkout's, otherwise the one
    /// that the table pins. `None` if another reference is requested, or if only git could tell.
    fn revision(&self, recipe: &Recipe, folder: &Path) -> Option<String> {
        if !self.reference.is_empty() {
            return None;
        }
        let commit = if folder.exists() {
            fs_err::read_to_string(folder.join(".git/HEAD")).ok()?.trim().to_owned()
        } else {
            self.table().ok()?.project(&recipe.source).ok()?.reference.clone()?
        };
        Some(commit).filter(|commit| rocwheel_source::is_commit(commit))
    }

    /// Checks out the missing sources of `recipes`, which one run builds. Sets the version of the
    /// cell to that of the sources of `recipe`, which is one of them.
    pub(crate) fn obtain(
        &self,
        recipe: &Recipe,
        recipes: &[&Recipe],
        cell: &mut Cell,
        place: &JobPlace,
        listener: &dyn Listener,
    ) -> Result<FoundSource, Failure> {
        if let Some((request, table)) = self.request(recipes, cell, place)? {
            self.check_out(&request, table, place, listener)?;
        }
        cell.version = self.version(recipe, cell, place)?;
        cell.source_targets = self.targets(recipe, cell, place)?;
        match self.kind(recipe, self.table()?)? {
            Kind::Path(path) => Ok(FoundSource::Path(path)),
            Kind::Archive(known) => Ok(FoundSource::Release(known, self.download)),
            Kind::Checkout(tag) => {
                let folder = self.folder(recipe, tag.as_deref(), cell, place)?;
                Ok(FoundSource::Checkout(folder, recipe.name.clone()))
            }
        }
    }

    /// Location of a recipe's sources, existing or not. They are not inspected.
    pub fn sketch(&self, recipe: &Recipe, cell: &Cell, place: &JobPlace) -> Result<JobSource, Failure> {
        let path = match self.kind(recipe, self.table()?)? {
            Kind::Path(path) => path,
            Kind::Archive(known) => return Ok(JobSource::Archive { path: known.url.into(), sha256: known.sha256 }),
            Kind::Checkout(tag) => self.folder(recipe, tag.as_deref(), cell, place)?,
        };
        Ok(JobSource::Folder { path: std::path::absolute(path)?, digest: String::new() })
    }
}

/// Sources that have not been inspected.
pub(crate) enum FoundSource {
    Path(PathBuf),
    Release(KnownArchive, Download),
    /// The folder of a checkout, and the name of its recipe.
    Checkout(PathBuf, String),
}

impl FoundSource {
    /// Computes the digest of the sources. A release is downloaded first.
    pub(crate) fn look(self, place: &JobPlace, reporter: &dyn Reporter) -> Result<JobSource, Failure> {
        let path = match self {
            FoundSource::Path(path) => path,
            FoundSource::Release(known, download) => download(&known, reporter)?,
            FoundSource::Checkout(folder, recipe) => {
                if !folder.exists() {
                    let reason = format!("there are no sources of {recipe} at `{}`", folder.display());
                    return Err(error::request_with(reason, "`--source` says where they are"));
                }
                folder
            }
        };
        Ok(JobSource::at(&path, &place.surroundings, reporter)?)
    }
}

fn release_of(version: &str) -> Option<Vec<u64>> {
    version.parse::<Version>().ok().map(|version| version.release().to_vec())
}

/// Compares the caller's variable for the version with the file of the sources.
fn check_variable(file: &SourceVersionFile, version: &str, path: &Path, place: &JobPlace) -> Result<(), Failure> {
    let Some(name) = &file.variable else { return Ok(()) };
    let Some(said) = place.surroundings.get(name).filter(|said| !said.is_empty()) else { return Ok(()) };
    if release_of(said) == release_of(version) {
        return Ok(());
    }
    Err(error::request_with(
        format!("the variable `{name}` says version {said}, and `{}` says {version}", path.display()),
        format!("unset `{name}`: the build sets it, and `--label` says what is behind `+`"),
    ))
}

/// The GPU targets in a file. There is one list, which that of wheels may extend further below.
fn targets_in(file: &TargetsFile, path: &Path) -> Result<Vec<String>, Failure> {
    let text = fs_err::read_to_string(path)?;
    let pattern = Regex::new(&format!("(?ms){}", file.pattern)).map_err(|error| {
        error::malformed(&file.path, format!("`{}` is no regular expression: {error}", file.pattern))
    })?;
    let mut lists: Vec<(usize, Vec<String>)> = Vec::new();
    for list in pattern.captures_iter(&text).filter_map(|found| found.get(1)) {
        let words = list.as_str().split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        let targets = words.filter(|word| word.starts_with("gfx")).map(str::to_owned).collect();
        lists.push((text[..list.start()].lines().count(), targets));
    }
    let Some((line, first)) = lists.first() else { return Ok(Vec::new()) };
    if let Some((other, _)) = lists.iter().find(|(_, targets)| !file.advisory && targets != first) {
        let path = path.display();
        return Err(error::request_with(
            format!("`{path}` lists its GPU targets in line {line} and in line {other}, and they differ"),
            "which of them the build takes cannot be said: make them one",
        ));
    }
    let mut targets: Vec<String> = lists.into_iter().flat_map(|(_, targets)| targets).collect();
    rocwheel_tables::target::sort(&mut targets);
    Ok(targets)
}

fn is_version(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+".contains(&byte))
}

/// The version in the name of an archive: 2.8.3 for `flash_attn-2.8.3.tar.gz`.
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
    fn folders_may_have_an_equals_sign() {
        assert_eq!(parts("torch=/data/a=b"), (Some("torch"), "/data/a=b"));
        assert_eq!(parts("/data/a=b"), (None, "/data/a=b"));
        assert_eq!(parts("./a=b"), (None, "./a=b"));
        assert_eq!(parts("2.8.3"), (None, "2.8.3"));
    }

    #[test]
    fn archives_say_their_version() {
        assert_eq!(version_of_archive("flash_attn-2.8.3.tar.gz").as_deref(), Some("2.8.3"));
        assert_eq!(version_of_archive("pytorch-v2.9.1.tar.xz").as_deref(), Some("2.9.1"));
        assert_eq!(version_of_archive("sources.tar.gz"), None);
        assert_eq!(version_of_archive("x-main.tar"), None);
    }
}
