//! Input: the built-in recipes and a user's. Output: recipes by name, and the order in which they
//! are built.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::cell::{Platform, minor};
use crate::error::Error;
use crate::recipe::{Layer, Recipe};
use rocwheel_progress::suggestion;
use rocwheel_source::Project;

// `RECIPES` and `LAYERS` have the paths and texts of the files in `recipes/`, as build.rs lists
// them.
include!(concat!(env!("OUT_DIR"), "/recipes.rs"));

/// All recipes, and the layers that they share.
#[derive(Debug, Clone)]
pub struct Book {
    recipes: BTreeMap<String, BookEntry>,
    layers: BTreeMap<String, Layer>,
}

#[derive(Debug, Clone)]
pub struct BookEntry {
    pub path: String,
    pub text: String,
    pub recipe: Recipe,
    pub author: Author,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The recipe is built in.
    Us,
    /// The recipe is the user's.
    User,
}

impl Book {
    /// The built-in recipes.
    pub fn built_in() -> Result<Book, Error> {
        let mut book = Book { recipes: BTreeMap::new(), layers: BTreeMap::new() };
        for (path, text) in LAYERS {
            let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
            book.layers.insert(name.into_owned(), Layer::parse(text, path)?);
        }
        for (path, text) in RECIPES {
            book.insert((*path).to_owned(), (*text).to_owned(), Author::Us)?;
        }
        Ok(book)
    }

    /// Adds the `.toml` files of a folder and returns the names of their recipes. They replace
    /// existing recipes of the same name; files in the folder's `layers` replace layers likewise.
    ///
    /// # Errors
    /// The folder cannot be read, a file is not a recipe, or two files have recipes of one name.
    pub fn add_folder(&mut self, folder: &Path) -> Result<Vec<String>, Error> {
        let mut own = BTreeMap::new();
        for path in files(&folder.join("layers")).unwrap_or_default() {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let layer = Layer::parse(&fs_err::read_to_string(&path)?, &path.to_string_lossy())?;
            self.layers.insert(name, layer);
        }
        for path in files(folder)? {
            let shown = path.to_string_lossy().into_owned();
            let name = self.add(shown.clone(), fs_err::read_to_string(&path)?)?;
            if let Some(other) = own.insert(name.clone(), shown.clone()) {
                return Err(Error::malformed(&shown, format!("the recipe `{name}` is in `{other}` already")));
            }
        }
        Ok(own.into_keys().collect())
    }

    pub fn add(&mut self, path: String, text: String) -> Result<String, Error> {
        self.insert(path, text, Author::User)
    }

    fn insert(&mut self, path: String, text: String, author: Author) -> Result<String, Error> {
        let recipe = Recipe::parse(&text, &path)?;
        if let Some(name) = recipe.layers.iter().find(|name| !self.layers.contains_key(*name)) {
            let hint = suggestion(name, self.layers.keys().map(String::as_str));
            let reason = format!("there is no layer `{name}`");
            return Err(Error::Malformed { path, line: None, reason, hint: Some(hint) });
        }
        let name = recipe.name.clone();
        if let Some((other, _)) = self.named_by_rocm(&name) {
            let reason = format!("a recipe cannot be called `{name}`");
            let hint =
                format!("it means the recipe `{}` for a version of ROCm; choose another name", other.recipe.name);
            return Err(Error::Malformed { path, line: None, reason, hint: Some(hint) });
        }
        self.recipes.insert(name.clone(), BookEntry { path, text, recipe, author });
        Ok(name)
    }

    /// All recipes, sorted by name.
    pub fn entries(&self) -> impl Iterator<Item = &BookEntry> {
        self.recipes.values()
    }

    /// Looks a recipe up by name.
    /// An unknown name is an error that suggests the nearest.
    pub fn get(&self, name: &str) -> Result<&BookEntry, Error> {
        self.recipes.get(name).ok_or_else(|| Error::Unknown {
            what: "recipe",
            name: name.to_owned(),
            place: String::new(),
            hint: suggestion(name, self.recipes.keys().map(String::as_str)),
        })
    }

    /// Looks a recipe up by its name, or by a name that ends in a ROCm version (`magma-rocm63`).
    /// `rocm` lists the known versions, which decide what digits mean; the one in the name is
    /// returned beside the recipe. An unknown one is read as PyTorch's Makefile names versions.
    ///
    /// # Errors
    /// The same as [`Book::get`]; also digits that are no version.
    pub fn named<'a>(&'a self, name: &str, rocm: &[String]) -> Result<(&'a BookEntry, Option<String>), Error> {
        let Some((entry, digits)) = self.named_by_rocm(name) else { return Ok((self.get(name)?, None)) };
        match rocm.iter().find(|version| minor(version).replace('.', "") == digits) {
            Some(version) => Ok((entry, Some(version.clone()))),
            None if digits.contains('.') => Ok((entry, Some(digits.to_owned()))),
            // ROCm went from 7.14 to 10.0.
            None if digits.len() == 2 => Ok((entry, Some(format!("{}.{}", &digits[..1], &digits[1..])))),
            None if digits.len() == 3 => {
                let major = if digits.starts_with('1') { 2 } else { 1 };
                Ok((entry, Some(format!("{}.{}", &digits[..major], &digits[major..]))))
            }
            None => Err(Error::Unknown {
                what: "version of ROCm",
                name: digits.to_owned(),
                place: format!(" for {}", entry.recipe.name),
                hint: format!("the versions are {}", rocm.iter().map(|one| minor(one)).collect::<Vec<_>>().join(", ")),
            }),
        }
    }

    /// The recipe that a name with a ROCm version means, and the digits of the version.
    fn named_by_rocm<'a, 'n>(&'a self, name: &'n str) -> Option<(&'a BookEntry, &'n str)> {
        self.recipes.values().find_map(|entry| {
            let digits = name.strip_prefix(entry.recipe.named_by_rocm.as_deref()?)?;
            let is_version = digits.split('.').count() <= 3
                && digits.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
            is_version.then_some((entry, digits))
        })
    }

    /// The recipes that `all` builds on a platform, sorted by name.
    pub fn part_of_all(&self, platform: Platform) -> impl Iterator<Item = &Recipe> {
        let recipes = self.recipes.values().map(|entry| &entry.recipe);
        recipes.filter(move |recipe| recipe.part_of_all && recipe.platforms.contains(&platform))
    }

    /// The projects that recipes define themselves.
    pub fn projects(&self) -> impl Iterator<Item = &Project> {
        self.recipes.values().filter_map(|entry| entry.recipe.project.as_ref())
    }

    pub(crate) fn layer(&self, name: &str) -> Option<&Layer> {
        self.layers.get(name)
    }

    /// Sorts recipes into build order: each comes after those that it names, if they are among
    /// `names`. Otherwise the given order stays.
    ///
    /// A cycle is an error.
    pub fn order(&self, names: &[String]) -> Result<Vec<&BookEntry>, Error> {
        let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let mut order: Vec<&BookEntry> = Vec::new();
        let mut path = Vec::new();
        for name in names {
            self.visit(name, &wanted, &mut path, &mut order)?;
        }
        Ok(order)
    }

    fn visit<'a>(
        &'a self,
        name: &str,
        wanted: &BTreeSet<&str>,
        path: &mut Vec<String>,
        order: &mut Vec<&'a BookEntry>,
    ) -> Result<(), Error> {
        let entry = self.get(name)?;
        if order.iter().any(|done| done.recipe.name == name) {
            return Ok(());
        }
        if let Some(at) = path.iter().position(|above| above == name) {
            let mut names = path.split_off(at);
            names.push(name.to_owned());
            return Err(Error::Cycle { names });
        }
        path.push(name.to_owned());
        for before in &entry.recipe.after {
            // A cycle is an error even if some of its recipes are not built now.
            if wanted.contains(before.as_str()) || self.recipes.contains_key(before) {
                let mut all = Vec::new();
                let target = if wanted.contains(before.as_str()) { &mut *order } else { &mut all };
                self.visit(before, wanted, path, target)?;
            }
        }
        path.pop();
        order.push(entry);
        Ok(())
    }
}

/// The TOML files of a folder, sorted.
fn files(folder: &Path) -> Result<Vec<std::path::PathBuf>, Error> {
    let mut paths = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use rocwheel_progress::Hint as _;

    use super::*;

    fn names(book: &Book, wanted: &[&str]) -> Result<Vec<String>, Error> {
        let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        Ok(book.order(&wanted)?.into_iter().map(|entry| entry.recipe.name.clone()).collect())
    }

    #[test]
    fn recipes_are_built_after_those_they_need() {
        let book = Book::built_in().unwrap();
        let order = names(&book, &["torchvision", "apex", "torch", "triton"]).unwrap();
        assert_eq!(order, ["triton", "torch", "torchvision", "apex"]);
        assert_eq!(names(&book, &["torchvision"]).unwrap(), ["torchvision"]);
        assert_eq!(names(&book, &["torch-vision"]).unwrap_err().hint().unwrap(), "did you mean `torchvision`?");
    }

    #[test]
    fn every_file_in_the_folder_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../recipes");
        let shown = |path: &std::path::PathBuf| format!("recipes/{}", path.file_name().unwrap().display());
        let there: Vec<String> = files(&folder).unwrap().iter().map(shown).collect();
        let mut built_in: Vec<String> = Book::built_in().unwrap().entries().map(|entry| entry.path.clone()).collect();
        built_in.sort();
        assert_eq!(built_in, there);
        assert!(there.len() >= 7, "{there:?}");
    }

    #[test]
    fn circles_are_errors_that_name_them() {
        let mut book = Book::built_in().unwrap();
        let text = book.get("triton").unwrap().text.replace("summary", "after = [\"torchvision\"]\nsummary");
        book.add("mine.toml".into(), text).unwrap();
        let error = names(&book, &["torchvision"]).unwrap_err();
        assert_eq!(error.to_string(), "recipes wait for each other: torchvision → torch → triton → torchvision");
    }

    #[test]
    fn a_name_can_say_for_which_rocm() {
        let book = Book::built_in().unwrap();
        let known = ["6.3".to_owned(), "7.14".to_owned()];
        let (entry, rocm) = book.named("magma-rocm714", &known).unwrap();
        assert_eq!((entry.recipe.name.as_str(), rocm.as_deref()), ("magma", Some("7.14")));
        assert_eq!(book.named("magma", &known).unwrap().1, None);
        for (name, version) in
            [("magma-rocm99", "9.9"), ("magma-rocm100", "10.0"), ("magma-rocm715", "7.15"), ("magma-rocm6.3", "6.3")]
        {
            assert_eq!(book.named(name, &known).unwrap().1.as_deref(), Some(version));
        }
        let error = book.named("magma-rocm9", &known).unwrap_err();
        assert_eq!(error.to_string(), "there is no version of ROCm `9` for magma");
        assert_eq!(error.hint().unwrap(), "the versions are 6.3, 7.14");
    }

    #[test]
    fn a_recipe_that_no_command_would_reach_is_refused() {
        let mut book = Book::built_in().unwrap();
        let text = book.get("triton").unwrap().text.clone();
        let mut add = |name: &str| book.add("mine.toml".into(), text.replacen("\"triton\"", &format!("\"{name}\""), 1));
        for name in ["all", "install-rocm", "plan", "magma-rocm63"] {
            let error = add(name).unwrap_err();
            assert!(error.to_string().ends_with(&format!("a recipe cannot be called `{name}`")), "{error}");
            assert!(error.hint().unwrap().ends_with("; choose another name"), "{error}");
        }
        assert_eq!(add("magma-mine").unwrap(), "magma-mine");
    }
}
