//! Reads recipes and layers, and checks what can be checked without a cell and without other
//! recipes.

use std::str::FromStr as _;

use super::{Layer, Recipe, Step};
use crate::error::Error;
use rocwheel_report::suggestion;

/// The version of this form.
pub(crate) const SCHEMA: u32 = 1;

impl Recipe {
    /// Reads a recipe; `path` is what errors call it.
    ///
    /// # Errors
    /// What is not a recipe, with the name that was probably meant.
    pub fn parse(text: &str, path: &str) -> Result<Recipe, Error> {
        let recipe: Recipe = from_toml(text, path)?;
        check_schema(recipe.schema, path)?;
        recipe.check(path)?;
        Ok(recipe)
    }

    /// What can be said without a cell and without other recipes.
    fn check(&self, path: &str) -> Result<(), Error> {
        let wrong = |reason: String| Err(Error::malformed(path, reason));
        let is_plain = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        if !is_plain(&self.name) {
            return wrong(format!("`{}` is no name: letters, digits, `-`, `_` and `.` make one", self.name));
        }
        if self.backends.is_empty() || self.platforms.is_empty() {
            return wrong("it needs at least one backend and one platform".into());
        }
        for (key, names) in [
            ("without-sdk", &self.without_sdk),
            ("without-submodules", &self.without_submodules),
            ("any-python", &self.any_python),
        ] {
            if let Some(name) = names.iter().find(|name| !self.backends.contains(name)) {
                let hint = suggestion(name, self.backends.iter().map(String::as_str));
                let reason = format!("`{key}` names the backend `{name}`, which it does not have");
                return Err(Error::Malformed { path: path.into(), line: None, reason, hint: Some(hint) });
            }
        }
        match (&self.output.wheel, &self.output.tarball, &self.distribution) {
            (Some(_), None, Some(_)) | (None, Some(_), None) => {}
            (Some(_), None, None) => return wrong("a recipe that makes a wheel has a `distribution`".into()),
            (None, Some(_), Some(_)) => return wrong("a tarball has no `distribution`".into()),
            _ => return wrong("`output` has either `wheel` or `tarball`".into()),
        }
        if self.output.tarball.is_some() && (self.output.repair.is_some() || self.output.split.is_some()) {
            return wrong("`repair` and `split` belong to wheels, and it makes a tarball".into());
        }
        if self.versions.is_empty() && !self.version_from_wheel {
            return wrong("it says no `version`, nor that the wheel does (`version-from-wheel`)".into());
        }
        if let Some(name) = self.image_packages.wrong_name() {
            return wrong(format!("`image-packages` names `{name}`, which is not a name of a package"));
        }
        for step in self.steps.iter().chain(&self.finish) {
            step.check(path)?;
        }
        for pattern in self.version_file.iter().filter_map(|file| file.pattern.as_ref()) {
            check_pattern(pattern, path)?;
        }
        for requirement in &self.requirements {
            match (&requirement.program, &requirement.version, requirement.python_without_spaces) {
                (Some(_), Some(version), false) => {
                    pep440_rs::VersionSpecifiers::from_str(version).map_err(|error| {
                        Error::malformed(path, format!("a `require` has the version `{version}`: {error}"))
                    })?;
                }
                (None, None, true) => {}
                _ => return wrong("a `require` has `program` and `version`, or `python-without-spaces`".into()),
            }
        }
        for check in &self.checks {
            check.expect.iter().try_for_each(|pattern| check_pattern(pattern, path))?;
            if check.run.is_empty() {
                return wrong(format!("check `{}` runs nothing", check.name));
            }
            if check.requirements && !check.fresh {
                return wrong(format!("check `{}` has `requirements`, which belong to `fresh`", check.name));
            }
        }
        Ok(())
    }
}

impl Layer {
    /// Reads a layer.
    ///
    /// # Errors
    /// As [`Recipe::parse`].
    pub fn parse(text: &str, path: &str) -> Result<Layer, Error> {
        let layer: Layer = from_toml(text, path)?;
        check_schema(layer.schema, path)?;
        layer.steps.iter().chain(&layer.finish).try_for_each(|step| step.check(path))?;
        Ok(layer)
    }
}

impl Step {
    fn check(&self, path: &str) -> Result<(), Error> {
        let wrong = |reason: String| Err(Error::malformed(path, format!("step `{}` {reason}", self.name)));
        let actions = [
            ("run", self.run.is_some()),
            ("install", self.install.is_some()),
            ("uninstall", self.uninstall.is_some()),
            ("write", self.write.is_some()),
            ("append", self.append.is_some()),
            ("copy", self.copy.is_some()),
            ("remove", self.remove.is_some()),
            ("replace", self.replace.is_some()),
            ("script", self.script.is_some()),
        ];
        let there: Vec<&str> = actions.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
        match there[..] {
            [_] => {}
            [] => return wrong(format!("does nothing: it needs one of {}", actions.map(|(name, _)| name).join(", "))),
            _ => return wrong(format!("does several things at once: {}", there.join(", "))),
        }
        if self.run.as_ref().or(self.install.as_ref()).or(self.uninstall.as_ref()).is_some_and(Vec::is_empty) {
            return wrong("has an empty list".into());
        }
        if self.run.is_none() && (!self.arguments.is_empty() || self.expect.is_some()) {
            return wrong("has `arguments` or `expect`, which belong to `run`".into());
        }
        if self.install.is_none() && self.index.is_some() {
            return wrong("has an `index`, which belongs to `install`".into());
        }
        if let Some(timeout) = &self.timeout
            && crate::duration::parse(timeout).is_none()
        {
            return wrong(format!("has the timeout `{timeout}`, which is no time: write `90s`, `30m` or `12h`"));
        }
        let patterns = self.expect.iter().chain(self.replace.iter().map(|replace| &replace.pattern));
        patterns.into_iter().try_for_each(|pattern| check_pattern(pattern, path))
    }
}

fn check_pattern(pattern: &str, path: &str) -> Result<(), Error> {
    let Err(error) = regex::Regex::new(pattern) else { return Ok(()) };
    Err(Error::malformed(path, format!("`{pattern}` is no regular expression: {error}")))
}

fn check_schema(schema: u32, path: &str) -> Result<(), Error> {
    if schema == SCHEMA {
        return Ok(());
    }
    Err(Error::malformed(path, format!("its schema is {schema}, and this program knows {SCHEMA}")))
}

/// Reads TOML; what is wrong gets its line, and unknown names the nearest known one.
pub(crate) fn from_toml<T: serde::de::DeserializeOwned>(text: &str, path: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let reason = error.message().trim_end().replace('\n', " ");
        let names = quoted(&reason);
        let hint = match names[..] {
            [wrong, ref known @ ..] if reason.starts_with("unknown") && !known.is_empty() => {
                Some(suggestion(wrong, known.iter().copied()))
            }
            _ => None,
        };
        // All the names there are would bury the one that is wrong.
        let reason = match (&hint, reason.split_once(", expected")) {
            (Some(_), Some((first, _))) => first.to_owned(),
            _ => reason,
        };
        Error::Malformed { path: path.to_owned(), line, reason, hint }
    })
}

/// Names between backticks in a text.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use rocwheel_report::Hint as _;

    use super::super::WorkOn;
    use super::*;

    const SMALL: &str = r#"
schema = 1
name = "small"
summary = "Something small"
distribution = "small"
source = "small"
platforms = ["linux"]
backends = ["rocm"]

[[version]]
text = "1.0"

[[step]]
name = "wheel"
run = ["true"]

[output]
wheel = "dist/*.whl"
"#;

    #[test]
    fn a_small_recipe_is_read() {
        let recipe = Recipe::parse(SMALL, "small.toml").unwrap();
        assert_eq!((recipe.name.as_str(), recipe.steps.len(), recipe.work_on), ("small", 1, WorkOn::Checkout));
    }

    #[test]
    fn what_is_wrong_gets_its_line_and_the_nearest_name() {
        let wrong = |from: &str, to: &str| Recipe::parse(&SMALL.replacen(from, to, 1), "small.toml").unwrap_err();
        let error = wrong("summary", "sumary");
        assert_eq!(error.to_string(), "could not understand `small.toml`, line 4: unknown field `sumary`");
        assert_eq!(error.hint().unwrap(), "did you mean `summary`?");
        let error = wrong("\"linux\"", "\"linx\"");
        assert_eq!(error.hint().unwrap(), "did you mean `linux`?");
        for (from, to, words) in [
            ("schema = 1", "schema = 2", "its schema is 2"),
            ("run = [\"true\"]", "", "does nothing"),
            ("run = [\"true\"]", "run = [\"true\"]\nremove = [\"x\"]", "several things at once: run, remove"),
            ("run = [\"true\"]", "run = []", "an empty list"),
            ("run = [\"true\"]", "remove = [\"x\"]\nexpect = \"x\"", "belong to `run`"),
            ("run = [\"true\"]", "run = [\"true\"]\ntimeout = \"soon\"", "`soon`, which is no time"),
            ("run = [\"true\"]", "run = [\"true\"]\nexpect = \"(\"", "`(` is no regular expression"),
            ("name = \"small\"", "name = \"../small\"", "is no name"),
            ("distribution = \"small\"", "", "has a `distribution`"),
            ("[[version]]\ntext = \"1.0\"", "", "says no `version`"),
            ("backends = [\"rocm\"]", "backends = [\"rocm\"]\nany-python = [\"rcm\"]", "names the backend `rcm`"),
            ("backends = [\"rocm\"]", "backends = []", "at least one backend"),
            ("[[version]]", "[image-packages]\napt = [\"g++\", \"x; y\"]\n[[version]]", "`x; y`, which is no name"),
            ("name = \"small\"", "name = ", "line 3"),
        ] {
            let text = wrong(from, to).to_string();
            assert!(text.contains(words), "{text}");
        }
    }
}
