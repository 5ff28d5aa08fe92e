//! Input: `cuda_to_hip_mappings.py` of a torch. Output: the replacement of each CUDA name, and the
//! algorithm that belongs to the tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};

use rocwheel_progress::Failure;
use rocwheel_python_literals::{Module, Value};
use serde::Serialize;

use crate::error::not_literal;
use crate::keys::Keys;

const FILE: &str = "cuda_to_hip_mappings.py";

/// Folder of the tables in a source tree, in site-packages, or in the package itself.
const FOLDERS: [&str; 3] = ["", "torch/utils/hipify", "utils/hipify"];

const VERSIONS: &str =
    "versions 1.x (torch up to 2.10) and 2.x (from 2.11) are known; `--tables` takes those of another torch";

/// The two algorithms that torch has had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// `torch.utils.hipify` 1.x: torch up to 2.10.
    V1,
    /// 2.x: torch from 2.11.
    V2,
}

type Pairs = Vec<(String, String)>;

#[derive(Debug, Clone)]
pub struct Tables {
    pub algorithm: Algorithm,
    /// The version in the file beside them; `None` without that file.
    pub version: Option<String>,
    /// Replaced as whole words.
    pub(crate) pytorch: Keys,
    /// Version 1: values that take precedence in files about sparse matrices and linear algebra.
    pub(crate) special: BTreeMap<String, String>,
    /// Version 1: replaced anywhere, in files that are not PyTorch's.
    pub(crate) caffe2: Keys,
    /// Functions that lose the prefix `std::` in device code.
    pub(crate) mathematics: Pairs,
    /// Version 2: paths, replaced one after the other.
    pub(crate) paths: Pairs,
    /// Names that HIP does not support, according to the tables.
    pub(crate) unsupported: BTreeSet<String>,
}

/// Finds the tables. `place` is the file itself, or a folder that contains it in one of torch's
/// layouts.
pub fn find(place: &Path) -> Result<PathBuf, Failure> {
    if place.is_file() {
        return Ok(place.to_owned());
    }
    let files = FOLDERS.iter().map(|folder| place.join(folder).join(FILE));
    files.into_iter().find(|file| file.is_file()).ok_or_else(|| no_tables(place.display()))
}

fn no_tables(place: impl Display) -> Failure {
    Failure::message(format!("`{place}` has no tables of CUDA and HIP names")).with_hint(
        "name them with `--tables`: cuda_to_hip_mappings.py, the folder it is in, or the folder of an installed torch",
    )
}

impl Tables {
    /// Reads the tables at `path`, and the version in the file beside them.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let version_path = path.with_file_name("version.py");
        let version = match fs_err::read_to_string(&version_path) {
            Ok(text) => {
                let shown = version_path.display().to_string();
                let module = Module::read(&text).map_err(|unreadable| not_literal(unreadable, &shown))?;
                module.scope.get("__version__").and_then(Value::text).map(str::to_owned)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        Self::parse(&fs_err::read_to_string(path)?, version, &path.display().to_string())
    }

    /// Parses the tables; `path` is for error messages. Without a version the form of the tables
    /// determines the algorithm.
    pub fn parse(text: &str, version: Option<String>, path: &str) -> Result<Self, Failure> {
        let module = Module::read(text).map_err(|unreadable| not_literal(unreadable, path))?;
        let entries = entries(&module).ok_or_else(|| no_tables(path))?;
        let with_tags = entries.iter().filter(|entry| entry.tags.is_some()).count();
        let form = match with_tags {
            0 if !entries.is_empty() => Algorithm::V2,
            all if all == entries.len() && all > 0 => Algorithm::V1,
            _ => return Err(no_tables(path)),
        };
        let algorithm = match version.as_deref() {
            None => form,
            Some(version) if version.starts_with("1.") => Algorithm::V1,
            Some(version) if version.starts_with("2.") => Algorithm::V2,
            Some(version) => {
                let failure = Failure::message(format!("`{path}`: version `{version}` of hipify is not known"));
                return Err(failure.with_hint(VERSIONS));
            }
        };
        if algorithm != form {
            let version = version.unwrap_or_default();
            let text =
                format!("`{path}` says version `{version}`, but its tables have the form of the other algorithm");
            return Err(Failure::message(text).with_hint(VERSIONS));
        }
        let paths = Some("CAFFE2_PATH_MAPPINGS").filter(|_| algorithm == Algorithm::V2);
        let pairs = [Some("MATH_TRANSPILATIONS"), paths]
            .map(|name| name.and_then(|name| module.scope.get(name)).map_or_else(|| Some(Vec::new()), text_pairs));
        let [Some(mathematics), Some(paths)] = pairs else { return Err(no_tables(path)) };
        Ok(Self::route(algorithm, version, &entries, (mathematics, paths)))
    }

    /// Distributes the words to the tables: all of them to `pytorch` for version 2, by their tags
    /// for version 1.
    fn route(
        algorithm: Algorithm,
        version: Option<String>,
        entries: &[Entry],
        (mathematics, paths): (Pairs, Pairs),
    ) -> Self {
        let (mut pytorch, mut caffe2, mut special) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut unsupported = BTreeSet::new();
        for entry in entries {
            let Entry { word, value, .. } = entry;
            let is_special = entry.has_tag("API_SPECIAL", "40");
            if entry.has_tag("HIP_UNSUPPORTED", "47") {
                unsupported.insert(word.clone());
            }
            if !entry.has_tag("API_CAFFE2", "1338") {
                if is_special && pytorch.get(word).is_some_and(|value: &String| !value.is_empty()) {
                    special.insert(word.clone(), value.clone());
                } else {
                    pytorch.insert(word.clone(), value.clone());
                }
            }
            if algorithm == Algorithm::V1 && !entry.has_tag("API_PYTORCH", "1337") && !is_special {
                caffe2.insert(word.clone(), value.clone());
            }
        }
        let (pytorch, caffe2) = (Keys::new(&pytorch), Keys::new(&caffe2));
        Self { algorithm, version, pytorch, special, caffe2, mathematics, paths, unsupported }
    }
}

struct Entry {
    word: String,
    value: String,
    /// The tags beside the value in version 1.
    tags: Option<Vec<String>>,
}

impl Entry {
    fn has_tag(&self, tag: &str, number: &str) -> bool {
        self.tags.iter().flatten().any(|found| found == tag || found == number)
    }
}

fn entries(module: &Module) -> Option<Vec<Entry>> {
    let lists = module.scope.get("CUDA_TO_HIP_MAPPINGS").and_then(Value::sequence)?;
    let pairs = lists.iter().map(Value::sequence).collect::<Option<Vec<_>>>()?;
    pairs.into_iter().flatten().map(entry).collect()
}

fn entry(pair: &Value) -> Option<Entry> {
    let [word, value] = pair.sequence()? else { return None };
    let word = word.text()?.to_owned();
    match value {
        Value::Text(value) => Some(Entry { word, value: value.clone(), tags: None }),
        Value::Sequence(values) => {
            let (value, tags) = values.split_first()?;
            let tags = tags.iter().filter_map(|tag| match tag {
                Value::Name(name) | Value::Number(name) => Some(name.rsplit('.').next().unwrap_or(name).to_owned()),
                _ => None,
            });
            Some(Entry { word, value: value.text()?.to_owned(), tags: Some(tags.collect()) })
        }
        _ => None,
    }
}

/// Pairs of texts in the order of an `OrderedDict`: a repeated key has its first position and its
/// last value.
fn text_pairs(value: &Value) -> Option<Pairs> {
    let mut pairs: Pairs = Vec::new();
    for pair in value.sequence()? {
        let [key, value] = pair.sequence()? else { return None };
        let (key, value) = (key.text()?.to_owned(), value.text()?.to_owned());
        match pairs.iter_mut().find(|(known, _)| *known == key) {
            Some(known) => known.1 = value,
            None => pairs.push((key, value)),
        }
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "M = collections.OrderedDict([('cuA', ('hipA', CONV_X, API_BLAS)), ('cuS', ('rocS', API_BLAS)), ('cuC', ('hipC', API_CAFFE2))])\n\
                         S = collections.OrderedDict([('cuS', ('hipS', API_SPECIAL)), ('cuP', ('hipP', API_PYTORCH, HIP_UNSUPPORTED))])\n\
                         CUDA_TO_HIP_MAPPINGS = [M, S]\n";
    const SECOND: &str = "M = dict([('cuA', 'hipA')])\nCUDA_TO_HIP_MAPPINGS = [M]\nMATH_TRANSPILATIONS = dict([('a', 'b'), ('c', 'd'), ('a', 'e')])\n";

    #[test]
    fn tags_say_where_a_word_goes() {
        let tables = Tables::parse(FIRST, Some("1.0.0".to_owned()), "t").unwrap();
        assert_eq!(tables.algorithm, Algorithm::V1);
        assert_eq!(tables.special, BTreeMap::from([("cuS".to_owned(), "hipS".to_owned())]));
        assert_eq!(tables.unsupported, BTreeSet::from(["cuP".to_owned()]));
    }

    #[test]
    fn the_form_decides_where_no_version_is() {
        assert_eq!(Tables::parse(FIRST, None, "t").unwrap().algorithm, Algorithm::V1);
        let second = Tables::parse(SECOND, None, "t").unwrap();
        assert_eq!(second.algorithm, Algorithm::V2);
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(second.mathematics, [pair("a", "e"), pair("c", "d")]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error =
            |text: &str, number: &str| Tables::parse(text, Some(number.to_owned()), "t").unwrap_err().to_string();
        assert_eq!(
            error(SECOND, "1.0.0"),
            "`t` says version `1.0.0`, but its tables have the form of the other algorithm"
        );
        assert_eq!(error(SECOND, "3.0.0"), "`t`: version `3.0.0` of hipify is not known");
        assert_eq!(error("x = 1\n", "2.0.0"), "`t` has no tables of CUDA and HIP names");
        assert_eq!(error("CUDA_TO_HIP_MAPPINGS = [[('a', 1)]]\n", "2.0.0"), "`t` has no tables of CUDA and HIP names");
        assert_eq!(error("x = open('y')\n", "2.0.0"), "`t`, line 1: `open(…)` is not a literal");
    }
}
