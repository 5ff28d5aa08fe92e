//! Input: the name of an image without a tag, and a cell. Output: the image whose tag matches the
//! cell's ROCm, torch and Python, and the options for containers of an image. Both come from
//! `[[tagged]]` in `data/images.toml`.

use std::collections::BTreeMap;

use regex::Regex;
use serde::Deserialize;

use super::Images;
use crate::cell::Cell;
use crate::error::Error;

/// The images of one repository.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TagPattern {
    name: String,
    /// Pattern of the tags. A word in capitals is replaced by the value of that name.
    tag: String,
    /// Options of the engine's `run`.
    #[serde(default)]
    options: Vec<String>,
    /// The existing tags, each as its values by lower-case name.
    #[serde(rename = "image")]
    images: Vec<BTreeMap<String, String>>,
}

impl TagPattern {
    /// Checks the table itself; `path` is its name in errors.
    pub(super) fn check(&self, path: &str) -> Result<(), Error> {
        for values in &self.images {
            if let Some(name) = values.keys().find(|name| !self.tag.contains(&name.to_uppercase())) {
                let reason = format!("the tag `{}` of {} has no {}", self.tag, self.name, name.to_uppercase());
                return Err(Error::malformed(path, reason));
            }
            let tag = self.tag_of(values);
            if tag.contains(|letter: char| letter.is_ascii_uppercase()) {
                let reason = format!("an image of {} leaves words of its tag open: `{tag}`", self.name);
                return Err(Error::malformed(path, reason));
            }
        }
        Ok(())
    }

    fn tag_of(&self, values: &BTreeMap<String, String>) -> String {
        values.iter().fold(self.tag.clone(), |tag, (name, value)| tag.replace(&name.to_uppercase(), value))
    }

    /// The values that a tag has in the places of the pattern's words, by lower-case name.
    fn values_of(&self, tag: &str) -> Option<BTreeMap<String, String>> {
        let word = Regex::new("[A-Z]+").ok()?;
        let names: Vec<String> = word.find_iter(&self.tag).map(|name| name.as_str().to_lowercase()).collect();
        let tags = Regex::new(&format!("^{}$", word.replace_all(&regex::escape(&self.tag), "([^_]+)"))).ok()?;
        let values = tags.captures(tag)?;
        Some(names.into_iter().enumerate().map(|(at, name)| (name, values[at + 1].to_owned())).collect())
    }

    fn fits(values: &BTreeMap<String, String>, cell: &Cell) -> bool {
        let python = cell.python.map(|python| python.to_string());
        let asked = [("rocm", &cell.rocm), ("torch", &cell.torch), ("python", &python)];
        asked.into_iter().all(|(name, asked)| match (asked, values.get(name)) {
            (Some(asked), Some(value)) => value == asked || value.starts_with(&format!("{asked}.")),
            _ => true,
        })
    }
}

/// The repository of an image, without digest and Docker's own registry, and its tag.
fn repository_and_tag(image: &str) -> (&str, &str) {
    let image = image.split('@').next().unwrap_or(image);
    let last = image.rfind('/').map_or(0, |at| at + 1);
    let (name, tag) = match image[last..].find(':') {
        Some(at) => (&image[..last + at], &image[last + at + 1..]),
        None => (image, ""),
    };
    (name.strip_prefix("docker.io/").unwrap_or(name), tag)
}

impl Images {
    /// Adds the tag for the cell's ROCm, torch and Python if `name` is a repository of this table.
    /// Every other name, including one with a tag, stays unchanged.
    pub fn full_name(&self, name: &str, cell: &Cell) -> Result<String, Error> {
        let Some(tagged) = self.tagged.iter().find(|tagged| tagged.name == name) else { return Ok(name.to_owned()) };
        if let Some(values) = tagged.images.iter().find(|values| TagPattern::fits(values, cell)) {
            return Ok(format!("{name}:{}", tagged.tag_of(values)));
        }
        let python = cell.python.map(|python| python.to_string());
        let asked = [("ROCm", &cell.rocm), ("torch", &cell.torch), ("Python", &python)];
        let asked: Vec<String> =
            asked.iter().filter_map(|(what, value)| Some(format!("{what} {}", value.as_ref()?))).collect();
        let known: Vec<String> = tagged.images.iter().map(|values| tagged.tag_of(values)).collect();
        let reason = format!("no tag of `{name}` is known for {}", asked.join(", "));
        let hint = format!("known: {}; `--image {name}:TAG` names any other", known.join(", "));
        Err(Error::request_with(reason, hint))
    }

    /// The versions that the tag of an image names, by lower-case word of the pattern: `rocm`,
    /// `torch`, `python`. Empty if the table has no pattern for the image, or the tag another form.
    pub fn versions(&self, image: &str) -> BTreeMap<String, String> {
        let (name, tag) = repository_and_tag(image);
        let tagged = self.tagged.iter().find(|tagged| tagged.name == name);
        tagged.and_then(|tagged| tagged.values_of(tag)).unwrap_or_default()
    }

    /// Options of the engine's `run` for containers of an image.
    pub fn options(&self, image: &str) -> Vec<String> {
        let tagged = self.tagged.iter().find(|tagged| tagged.name == repository_and_tag(image).0);
        tagged.map(|tagged| tagged.options.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use rocwheel_progress::Hint as _;

    use super::*;
    use crate::cell::Platform;

    fn cell(rocm: &str, torch: &str, python: &str) -> Cell {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let (rocm, torch) = (text(rocm), text(torch));
        Cell { rocm, torch, python: python.parse().ok(), ..Cell::new(Platform::Linux) }
    }

    #[test]
    fn a_tag_says_rocm_torch_and_python() {
        let images = Images::built_in().unwrap();
        let name = |cell: &Cell| images.full_name("rocm/pytorch", cell);
        let first = "rocm/pytorch:rocm7.1.1_ubuntu24.04_py3.12_pytorch_release_2.9.1";
        assert_eq!(name(&cell("7.1", "2.9", "3.12")).unwrap(), first);
        assert_eq!(name(&cell("7.1.1", "2.9.1", "")).unwrap(), first);
        let second = "rocm/pytorch:rocm7.2_ubuntu22.04_py3.10_pytorch_release_2.9.1";
        assert_eq!(name(&cell("7.2", "", "3.10")).unwrap(), second);
        let error = name(&cell("6.2", "2.5.1", "3.11")).unwrap_err();
        assert_eq!(error.to_string(), "no tag of `rocm/pytorch` is known for ROCm 6.2, torch 2.5.1, Python 3.11");
        assert!(error.hint().unwrap().contains("`--image rocm/pytorch:TAG`"));
        for other in ["rocm/pytorch:latest", "mine/pytorch", "debian:trixie"] {
            assert_eq!(images.full_name(other, &cell("6.2", "", "")).unwrap(), other);
        }
    }

    #[test]
    fn a_tag_that_is_not_in_the_table_says_its_versions_too() {
        let images = Images::built_in().unwrap();
        let tag = "rocm9.9.1_ubuntu28.04_py3.15_pytorch_release_3.0.0";
        for image in [format!("rocm/pytorch:{tag}"), format!("docker.io/rocm/pytorch:{tag}@sha256:0")] {
            let versions = images.versions(&image);
            assert_eq!(["rocm", "python", "torch"].map(|name| versions[name].as_str()), ["9.9.1", "3.15", "3.0.0"]);
        }
        for other in
            ["rocm/pytorch", "rocm/pytorch:latest", "mine/pytorch:rocm7.2_ubuntu22.04_py3.10_pytorch_release_2"]
        {
            assert!(images.versions(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn containers_of_some_images_get_options() {
        let images = Images::built_in().unwrap();
        let options = ["--group-add=video", "--cap-add=SYS_PTRACE", "--security-opt=seccomp=unconfined", "--ipc=host"];
        for image in ["rocm/pytorch", "rocm/pytorch:latest", "docker.io/rocm/pytorch:x@sha256:0"] {
            assert_eq!(images.options(image), options, "{image}");
        }
        for image in ["localhost:5000/rocm/pytorch", "rocm/pytorch-nightly:x", "pytorch/manylinux2_28-builder:cpu"] {
            assert!(images.options(image).is_empty(), "{image}");
        }
    }

    #[test]
    fn a_tag_with_words_left_open_is_refused() {
        let parse = |row: &str| {
            let text = format!(
                "schema = 1\nimage = []\n[[tagged]]\nname = \"x\"\ntag = \"aROCM_TORCH\"\n[[tagged.image]]\n{row}"
            );
            Images::parse(&text, "my.toml").map(|_| ()).map_err(|error| error.to_string())
        };
        assert!(parse("rocm = \"7.2\"").unwrap_err().contains("leaves words of its tag open: `a7.2_TORCH`"));
        assert!(parse("rocm = \"7\"\ntorch = \"2\"\nos = \"u\"").unwrap_err().contains("has no OS"));
        assert_eq!(parse("rocm = \"7\"\ntorch = \"2\""), Ok(()));
    }
}
