//! Input: a folder of outputs, and an evaluated recipe. Output: the existing files that the recipe
//! would make, recognized by their names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocwheel_progress::Reporter;
use rocwheel_wheel::WheelName;

use super::{FrameworkTable, Label, RocmLabel, outputs_in};
use crate::cell::{Platform, minor};
use crate::error::Error;
use crate::evaluated::{Evaluated, Pythons};
use crate::job::InputWheel;

/// The wheels in a folder of outputs.
#[derive(Debug, Clone)]
pub struct ExistingWheels {
    output: PathBuf,
    /// Versions of ROCm that names may refer to.
    rocm: Vec<String>,
    /// Wheels by subfolder and canonical name of the distribution.
    wheels: BTreeMap<(String, String), Vec<(String, WheelName)>>,
}

impl ExistingWheels {
    /// Reads a folder of outputs and its subfolders `folders`. A subfolder that does not exist is
    /// empty.
    pub fn look(
        output: &Path,
        folders: &[String],
        table: &FrameworkTable,
        rocm: &[String],
    ) -> Result<ExistingWheels, Error> {
        let mut known = table.rocm_versions();
        known.extend(rocm.iter().map(|version| minor(version)));
        known.sort();
        known.dedup();
        let mut existing = ExistingWheels { output: output.to_owned(), rocm: known, wheels: BTreeMap::new() };
        for folder in folders {
            let path = output.join(folder);
            if !path.is_dir() {
                continue;
            }
            for file in outputs_in(&path)? {
                let Ok(name) = file.parse::<WheelName>() else { continue };
                let key = (folder.clone(), rocwheel_wheel::canonical_name(&name.distribution));
                existing.wheels.entry(key).or_default().push((file, name));
            }
        }
        Ok(existing)
    }

    /// The existing file that a recipe would make, relative to the folder of outputs. Of several,
    /// only the one with the most specific name is returned.
    pub fn of(&self, recipe: &Evaluated, folder: &str) -> Vec<String> {
        if let Some(tarball) = &recipe.output.tarball {
            let revision = recipe.cell.version.as_deref().unwrap_or("${source.revision}");
            let file = path_in(folder, &tarball.path.replace("${source.revision}", revision));
            return if self.output.join(&file).is_file() { vec![file] } else { Vec::new() };
        }
        let Some(wanted) = self.wanted(recipe) else { return Vec::new() };
        let names = recipe.distribution.iter().chain(&recipe.output.other_names);
        let keys = names.map(|name| (folder.to_owned(), rocwheel_wheel::canonical_name(name)));
        let wheels = keys.filter_map(|key| self.wheels.get(&key)).flatten();
        let wheels = wheels.filter(|(_, name)| self.is_it(name, &wanted, recipe));
        // Two wheels of one package cannot both be installed. A label with dots is exact about
        // ROCm, and later builds have higher numbers.
        let found = wheels.max_by_key(|(file, name)| {
            let local = name.version.split_once('+').map_or("", |(_, local)| local);
            // A build tag sorts by the number at its start, then by the rest (PEP 427).
            let build = name.build.as_deref().unwrap_or_default();
            let digits = build.bytes().take_while(u8::is_ascii_digit).count();
            let number: u64 = build[..digits].parse().unwrap_or_default();
            let is_exact = matches!(Label::parse(local).rocm, Some(RocmLabel::Version(_)));
            (is_exact, number, build[digits..].to_owned(), file.clone())
        });
        found.map(|(file, _)| path_in(folder, file)).into_iter().collect()
    }

    /// The files as inputs of later builds.
    pub fn inputs(&self, files: &[String], reporter: &dyn Reporter) -> Result<Vec<InputWheel>, Error> {
        files.iter().map(|file| InputWheel::at(&self.output.join(file), reporter)).collect()
    }

    /// Version and label of the result; `None` if only the sources or the place know them.
    fn wanted(&self, recipe: &Evaluated) -> Option<(String, Option<String>, Label)> {
        let mut version = recipe.version.clone()?;
        if let Some(known) = &recipe.cell.version {
            version = version.replace("${source.version}", known);
        }
        if let Some(rocm) = &recipe.cell.rocm {
            version = version.replace("${label}", &format!("rocm{rocm}"));
        }
        if version.contains("${") {
            return None;
        }
        let (public, local) = version.split_once('+').unwrap_or((&version, ""));
        let label = Label::parse(local);
        let rocm = match (&label.rocm, &recipe.cell.rocm) {
            (None, _) => None,
            (Some(_), Some(rocm)) => Some(minor(rocm)),
            // A label that is ambiguous counts as missing.
            (Some(found), None) => Some(found.candidates(&self.rocm).into_iter().next()?),
        };
        Some((public.to_owned(), rocm, label))
    }

    fn is_it(&self, name: &WheelName, wanted: &(String, Option<String>, Label), recipe: &Evaluated) -> bool {
        let (version, rocm, label) = wanted;
        let (public, local) = name.version.split_once('+').unwrap_or((&name.version, ""));
        let found = Label::parse(local);
        let candidates = found.rocm.as_ref().map(|found| found.candidates(&self.rocm)).unwrap_or_default();
        let same_rocm = match rocm {
            None => found.rocm.is_none(),
            Some(rocm) => candidates == [rocm.clone()],
        };
        rocwheel_wheel::same_version(public, version)
            && same_rocm
            && found.torch.as_deref().map(minor) == label.torch.as_deref().map(minor)
            && found.backend == label.backend
            && is_for(name, recipe)
            && is_on(name, recipe.cell.platform)
    }
}

/// Path of a file in a subfolder of the outputs, or in the folder of outputs if that is empty.
fn path_in(folder: &str, file: &str) -> String {
    if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") }
}

/// `true` if a wheel is for a platform (`packaging.python.org`, "Platform compatibility tags").
pub(super) fn is_on(name: &WheelName, platform: Platform) -> bool {
    name.platforms.iter().any(|tag| match platform {
        _ if tag == "any" => true,
        Platform::Linux => {
            ["linux", "manylinux", "musllinux"].iter().any(|system| tag.starts_with(system)) && tag.ends_with("_x86_64")
        }
        Platform::Windows => tag == "win_amd64",
    })
}

/// `true` if a wheel is for the Python of a recipe.
fn is_for(name: &WheelName, recipe: &Evaluated) -> bool {
    // Wheels for every Python often have the tag of the Python that built them.
    if recipe.python == Pythons::Any {
        return true;
    }
    let is_any = name.pythons.iter().any(|python| !python.starts_with("cp"));
    let Some(python) = recipe.cell.python else { return is_any };
    let tag = format!("cp{}{}", python.major, python.minor);
    let abi = if python.free_threaded { format!("{tag}t") } else { tag.clone() };
    let mut first = name.pythons.iter().filter_map(|tag| tag.strip_prefix("cp3")?.parse::<u16>().ok());
    let is_stable =
        !python.free_threaded && name.abis.iter().any(|abi| abi == "abi3") && first.any(|first| first <= python.minor);
    (name.pythons.contains(&tag) && name.abis.contains(&abi)) || is_stable || is_any
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::Book;
    use crate::cell::Cell;
    use crate::evaluate::evaluate;

    #[test]
    fn wheels_are_known_by_their_names_in_every_spelling() {
        let output = tempfile::tempdir().unwrap();
        for name in [
            "flash_attn-2.8.3+rocm72torch2.9triton-py3-none-any.whl",
            "flash_attn-2.8.3+rocm7.2torch2.10-cp312-cp312-linux_x86_64.whl",
            "flash_attn-2.8.3+rocm72torch2.10-cp312-cp312-linux_x86_64.whl",
            "flash_attn-2.8.3+rocm7.2torch2.11-cp312-cp312-win_amd64.whl",
            "flash_attn-2.8.3+rocm7.2torch2.12-cp312-cp312-manylinux_2_28_aarch64.whl",
            "flash_attn-2.8.3+rocm714torch2.14triton-py3-none-any.whl",
            "flash_attn-2.8.3+rocm62torch2.5triton-cp311-cp311-linux_x86_64.whl",
            "no wheel.whl",
        ] {
            fs_err::write(output.path().join(name), "").unwrap();
        }
        let (book, table) = (Book::built_in().unwrap(), FrameworkTable::built_in().unwrap());
        let folders = [String::new(), "gone".to_owned()];
        let existing = ExistingWheels::look(output.path(), &folders, &table, &[]).unwrap();
        let of = |backend: &str, rocm: &str, torch: &str, python: &str| {
            let cell = Cell {
                backend: Some(backend.into()),
                rocm: Some(rocm.into()),
                torch: Some(torch.into()),
                version: Some("2.8.3".into()),
                python: python.parse().ok(),
                torch_index: Some(table.torch_index(Some(torch), rocm)),
                ..Cell::new(Platform::Linux)
            };
            existing.of(&evaluate(book.get("flash-attn").unwrap(), &book, &cell).unwrap(), "")
        };
        let dotted = "flash_attn-2.8.3+rocm7.2torch2.10-cp312-cp312-linux_x86_64.whl";
        assert_eq!(of("ck", "7.2", "2.10", "3.12"), [dotted]);
        // There are only wheels for Windows and for another machine.
        assert_eq!(of("ck", "7.2", "2.11", "3.12").len() + of("ck", "7.2", "2.12", "3.12").len(), 0);
        let of = |backend: &str, rocm: &str, torch: &str, python: &str| of(backend, rocm, torch, python).len();
        assert_eq!(of("triton", "7.2", "2.9", ""), 1);
        assert_eq!(of("triton", "7.2.1", "2.9.1", ""), 1);
        assert_eq!(of("triton", "7.1", "2.9", ""), 0);
        assert_eq!(of("triton", "6.2", "2.5.1", ""), 1);
        // It may be 7.14, or 7.1 with a patch number.
        assert_eq!(of("triton", "7.14", "2.14", ""), 0);
        assert_eq!(of("ck", "7.2", "2.10", "3.12"), 1);
        assert_eq!(of("ck", "7.2", "2.10", "3.13"), 0);
        assert_eq!(of("ck", "7.2", "2.9", "3.12"), 0);
    }

    #[test]
    fn the_highest_build_number_counts() {
        let output = tempfile::tempdir().unwrap();
        let name = |build: &str| format!("flash_attn-2.8.3+rocm7.2torch2.10{build}-cp312-cp312-linux_x86_64.whl");
        for build in ["", "-9", "-10", "-10a", "-2"] {
            fs_err::write(output.path().join(name(build)), "").unwrap();
        }
        let (book, table) = (Book::built_in().unwrap(), FrameworkTable::built_in().unwrap());
        let existing = ExistingWheels::look(output.path(), &[String::new()], &table, &[]).unwrap();
        let cell = Cell {
            backend: Some("ck".into()),
            rocm: Some("7.2".into()),
            torch: Some("2.10".into()),
            version: Some("2.8.3".into()),
            python: "3.12".parse().ok(),
            torch_index: Some(table.torch_index(Some("2.10"), "7.2")),
            ..Cell::new(Platform::Linux)
        };
        let evaluated = evaluate(book.get("flash-attn").unwrap(), &book, &cell).unwrap();
        assert_eq!(existing.of(&evaluated, ""), [name("-10a")]);
    }

    #[test]
    fn tarballs_count() {
        let (table, book) = (FrameworkTable::built_in().unwrap(), Book::built_in().unwrap());
        let version = "a68b9257ac435afa1ebdfb8f50d67668950aef61";
        let output = tempfile::tempdir().unwrap();
        fs_err::create_dir(output.path().join("linux-64")).unwrap();
        let file = format!("linux-64/magma-rocm63-{version}-1.tar.bz2");
        fs_err::write(output.path().join(&file), "").unwrap();
        let existing = ExistingWheels::look(output.path(), &[String::new()], &table, &[]).unwrap();
        let of = |rocm: &str, version: &str| {
            let (rocm, version) = (Some(rocm.to_owned()), Some(version.to_owned()));
            let cell = Cell { rocm, version, ..Cell::new(Platform::Linux) };
            existing.of(&evaluate(book.get("magma").unwrap(), &book, &cell).unwrap(), "")
        };
        assert_eq!(of("6.3", version), [file.as_str()]);
        assert!(of("6.4", version).is_empty() && of("6.3", &version.replace('a', "b")).is_empty());

        let wanted =
            crate::matrix::MatrixQuery { recipes: vec!["magma".into()], ..crate::matrix::MatrixQuery::default() };
        let matrix = crate::matrix::make(&table, &book, &wanted, &outputs_in(output.path()).unwrap()).unwrap();
        let found: Vec<_> = matrix.rows.iter().filter(|row| !row.files.is_empty()).collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].point.rocm.as_str(), &found[0].files[..]), ("6.3", &[file][..]));
        assert_eq!(matrix.counts()[0], 1);
    }
}
