//! Input: a recipe and a version of ROCm. Output: the default image to build it in, from
//! `data/images.toml`.

mod tag_pattern;

use rocwheel_progress::suggestion;
use serde::Deserialize;

use crate::cell::{PythonVersion, SdkKind, minor};
use crate::error::Error;
use crate::toml_text::from_toml;
use crate::version_specifier::fits;
use tag_pattern::TagPattern;

const BUILT_IN: &str = include_str!("../../../../data/images.toml");
const NAME: &str = "data/images.toml";

/// The table of images by recipe and ROCm.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Images {
    schema: u32,
    #[serde(rename = "image")]
    rows: Vec<Row>,
    /// Path of the table, as errors show it.
    #[serde(skip)]
    path: String,
    /// Images whose tags contain versions.
    #[serde(default)]
    tagged: Vec<TagPattern>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    /// Names of recipes; empty: all.
    #[serde(default)]
    recipes: Vec<String>,
    /// The kind of ROCm; `None`: any.
    #[serde(default)]
    sdk: Option<SdkKind>,
    /// Matching ROCm versions; `None`: one image serves all versions.
    #[serde(default)]
    rocm: Option<Versions>,
    #[serde(default)]
    interpreter: Option<String>,
}

/// The ROCm versions that have an image.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Versions {
    /// Every version that fits a specifier (PEP 440), including future ones.
    Fitting(String),
    /// These versions, as first two numbers.
    Listed(Vec<String>),
}

impl Versions {
    fn contain(&self, rocm: &str, path: &str) -> Result<bool, Error> {
        match self {
            Versions::Fitting(specifier) => fits(specifier, Some(rocm), path),
            Versions::Listed(versions) => Ok(versions.iter().any(|version| version == rocm)),
        }
    }

    fn describe(&self, wanted: &str) -> String {
        match self {
            Versions::Fitting(specifier) => format!("there are images for ROCm {specifier}"),
            Versions::Listed(versions) => suggestion(wanted, versions.iter().map(String::as_str)),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct ImageQuery<'a> {
    pub recipe: &'a str,
    pub sdk: SdkKind,
    /// Version of ROCm, if it is known; only its first two numbers count.
    pub rocm: Option<&'a str>,
}

impl Images {
    /// Text of the built-in table.
    pub const BUILT_IN: &'static str = BUILT_IN;

    pub fn built_in() -> Result<Images, Error> {
        Self::parse(BUILT_IN, NAME)
    }

    /// Parses a table; `path` is its name in errors.
    pub fn parse(text: &str, path: &str) -> Result<Images, Error> {
        let mut images: Images = from_toml(text, path)?;
        path.clone_into(&mut images.path);
        if images.schema != 1 {
            return Err(Error::malformed(path, format!("its schema is {}, and this program knows 1", images.schema)));
        }
        for row in &images.rows {
            if let Some(Versions::Fitting(specifier)) = &row.rocm {
                fits(specifier, None, path)?;
            }
            if row.name.contains("ROCM") && row.rocm.is_none() {
                return Err(Error::malformed(
                    path,
                    format!("`{}` does not say for which `rocm` there are images", row.name),
                ));
            }
        }
        images.tagged.iter().try_for_each(|tagged| tagged.check(path))?;
        Ok(images)
    }

    /// The rows of a user's table, followed by the built-in ones.
    pub fn with_own(text: &str, path: &str) -> Result<Images, Error> {
        let mut images = Self::parse(text, path)?;
        let ours = Self::built_in()?;
        images.rows.extend(ours.rows);
        images.tagged.extend(ours.tagged);
        Ok(images)
    }

    /// The name of the image for a recipe.
    ///
    /// # Errors
    /// There is no image for the recipe, or none for that ROCm; the error lists the versions that
    /// have one.
    pub fn name(&self, wanted: ImageQuery<'_>) -> Result<String, Error> {
        let rows = self.rows.iter().filter(|row| {
            (row.recipes.is_empty() || row.recipes.iter().any(|recipe| recipe == wanted.recipe))
                && row.sdk.is_none_or(|sdk| sdk == wanted.sdk)
        });
        let of_rocm = wanted.rocm.map(minor);
        let mut chosen = rows.clone().next();
        for row in rows {
            let has_rocm = match (&row.rocm, &of_rocm) {
                (Some(versions), Some(rocm)) => versions.contain(rocm, &self.path)?,
                (versions, _) => versions.is_none(),
            };
            if has_rocm {
                chosen = Some(row);
                break;
            }
        }
        let Some(row) = chosen else {
            let reason = format!("no image is known in which {} could be built", wanted.recipe);
            return Err(Error::request_with(reason, "name one with `--image`"));
        };
        let Some(versions) = row.rocm.as_ref().filter(|_| row.name.contains("ROCM")) else {
            return Ok(row.name.clone());
        };
        let Some(rocm) = of_rocm else {
            let reason = format!("the ROCm that {} is built for is not known, and it decides the image", wanted.recipe);
            return Err(Error::request_with(
                reason,
                "give it with `--rocm`, or name the image with `--image`; `--matrix` builds for each ROCm of the table",
            ));
        };
        if !versions.contain(&rocm, &self.path)? {
            return Err(Error::Unknown {
                what: "image for ROCm",
                hint: format!("{}; `--image` names any other", versions.describe(&rocm)),
                name: rocm,
                place: format!(" and {}", wanted.recipe),
            });
        }
        Ok(row.name.replace("ROCM", &rocm))
    }

    /// Path of a Python in an image of this table; `None` if the table has none for it.
    pub fn interpreter(&self, image: &str, python: PythonVersion) -> Option<String> {
        let row = self.rows.iter().find(|row| match row.name.split_once("ROCM") {
            Some((begin, end)) => image.starts_with(begin) && image.ends_with(end),
            None => row.name == image,
        });
        let pattern = row?.interpreter.as_ref()?;
        let compact = format!("{}{}", python.major, python.minor);
        let abi = format!("{compact}{}", if python.free_threaded { "t" } else { "" });
        Some(pattern.replace("COMPACT", &compact).replace("ABI", &abi))
    }
}

#[cfg(test)]
mod tests {
    use rocwheel_progress::Hint as _;

    use super::*;

    #[test]
    fn every_recipe_has_an_image() {
        let images = Images::built_in().unwrap();
        let name = |recipe, sdk, rocm| images.name(ImageQuery { recipe, sdk, rocm });
        assert_eq!(name("magma", SdkKind::Prefix, Some("7.1")).unwrap(), "pytorch/almalinux-builder:rocm7.1");
        assert_eq!(name("torch", SdkKind::Prefix, Some("6.4.1")).unwrap(), "pytorch/manylinux2_28-builder:rocm6.4");
        assert_eq!(
            name("torch", SdkKind::Packages, None).unwrap(),
            "ghcr.io/rocm/therock_build_manylinux_x86_64:latest"
        );
        assert_eq!(name("flash-attn", SdkKind::None, Some("7.2")).unwrap(), "pytorch/manylinux2_28-builder:cpu");
        // A version that did not exist when the table was written.
        assert_eq!(name("magma", SdkKind::Prefix, Some("7.15")).unwrap(), "pytorch/almalinux-builder:rocm7.15");
        // A version that is older than MAGMA's own image.
        assert_eq!(name("magma", SdkKind::Prefix, Some("6.2")).unwrap(), "pytorch/manylinux2_28-builder:rocm6.2");
        let error = name("torch", SdkKind::Prefix, Some("7.14")).unwrap_err();
        assert_eq!(error.to_string(), "there is no image for ROCm `7.14` and torch");
        assert_eq!(error.hint().unwrap(), "there are images for ROCm >=6.1, !=7.14; `--image` names any other");
        assert!(name("torch", SdkKind::Prefix, None).unwrap_err().hint().unwrap().contains("--rocm"));
    }

    #[test]
    fn known_images_say_where_their_pythons_are() {
        let images = Images::built_in().unwrap();
        let python = |image: &str, version: &str| images.interpreter(image, version.parse().unwrap());
        let found = python("pytorch/manylinux2_28-builder:rocm7.2", "3.13t");
        assert_eq!(found.as_deref(), Some("/opt/python/cp313-cp313t/bin/python"));
        assert_eq!(python("debian:trixie", "3.13"), None);
    }

    #[test]
    fn the_rows_of_a_user_come_first() {
        let row = "[[image]]\nname = \"mine:ROCM\"\nrecipes = [\"magma\"]\nrocm = [\"6.2\", \"7.14\"]";
        let images = Images::with_own(&format!("schema = 1\n{row}"), "my.toml").unwrap();
        let name = |rocm| images.name(ImageQuery { recipe: "magma", sdk: SdkKind::Prefix, rocm: Some(rocm) }).unwrap();
        assert_eq!(["6.2.4", "7.14", "7.2"].map(name), ["mine:6.2", "mine:7.14", "pytorch/almalinux-builder:rocm7.2"]);
    }

    #[test]
    fn a_table_that_says_too_little_is_refused() {
        let parse =
            |row: &str| Images::parse(&format!("schema = 1\n[[image]]\n{row}"), "my.toml").unwrap_err().to_string();
        assert!(parse("name = \"x:ROCM\"").contains("`x:ROCM`"));
        assert!(parse("name = \"x:ROCM\"\nrocm = \"new\"").contains("`new` is no specifier"));
        assert!(parse("name = \"x\"\nsdk = \"wheels\"").contains("unknown variant `wheels`"));
        assert!(Images::parse("schema = 2\nimage = []", "my.toml").unwrap_err().to_string().contains("schema is 2"));
    }
}
