//! Parses recipes and layers, and checks everything that does not depend on a cell or on other
//! recipes.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{Arguments, CopyAction, Layer, Recipe, RecipeStep, Replace, StepAction, Text, When};
use crate::error::{Error, malformed};
use crate::toml_text::from_toml;
use rocwheel_progress::suggestion;

/// The version of the format that this program reads.
pub(crate) const SCHEMA: u32 = 1;

/// The commands below `rocwheel build`, which recipes cannot be called.
pub const PLAN_COMMANDS: [&str; 4] = ["status", "logs", "cancel", "plan"];

/// The words that `rocwheel build` takes in the place of recipes, each with its meaning.
const BUILD_WORDS: [(&str, &str); 2] =
    [("all", "builds several recipes"), ("install-rocm", "installs the Python packages of ROCm")];

impl Recipe {
    /// Parses a recipe; `path` is its name in errors.
    ///
    /// # Errors
    /// The text is not a valid recipe; the hint has the name that was probably meant.
    pub fn parse(text: &str, path: &str) -> Result<Recipe, Error> {
        let mut recipe: Recipe = from_toml(text, path)?;
        check_schema(recipe.schema, path)?;
        recipe.project = recipe.project.map(|project| project.named(&recipe.source));
        let Recipe { name, backends, platforms, .. } = &recipe;
        let framework = recipe.framework.clone();
        recipe.framework = framework.map(|framework| framework.of_recipe(name, backends, platforms));
        recipe.check(path)?;
        Ok(recipe)
    }

    pub(crate) fn feature_names(&self) -> BTreeSet<String> {
        self.features.iter().map(|feature| feature.name.clone()).collect()
    }

    /// Checks everything that does not depend on a cell or on other recipes.
    fn check(&self, path: &str) -> Result<(), Error> {
        let is_plain = self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if self.name.is_empty() || !is_plain {
            return malformed(path, format!("`{}` is no name: letters, digits, `-`, `_` and `.` make one", self.name));
        }
        let meaning = BUILD_WORDS.iter().find(|(word, _)| *word == self.name).map(|(_, meaning)| *meaning);
        let of_plans = PLAN_COMMANDS.contains(&self.name.as_str()).then_some("is about plans");
        if let Some(meaning) = meaning.or(of_plans) {
            let reason = format!("a recipe cannot be called `{}`", self.name);
            let hint = Some(format!("`rocwheel build {}` {meaning}; choose another name", self.name));
            return Err(Error::Malformed { path: path.to_owned(), line: None, reason, hint });
        }
        if self.backends.is_empty() || self.platforms.is_empty() {
            return malformed(path, "it needs at least one backend and one platform");
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
            (Some(_), None, None) => return malformed(path, "a recipe that makes a wheel has a `distribution`"),
            (None, Some(_), Some(_)) => return malformed(path, "a tarball has no `distribution`"),
            _ => return malformed(path, "`output` has either `wheel` or `tarball`"),
        }
        if self.output.tarball.is_some() && (self.output.repair.is_some() || self.output.split.is_some()) {
            return malformed(path, "`repair` and `split` belong to wheels, and it makes a tarball");
        }
        if self.versions.is_empty() && !self.version_from_wheel {
            return malformed(path, "it says no `version`, nor that the wheel does (`version-from-wheel`)");
        }
        if let Some(name) = self.image_packages.wrong_name() {
            return malformed(path, format!("`image-packages` names `{name}`, which is not a name of a package"));
        }
        for step in self.steps.iter().chain(&self.finish) {
            step.check(path)?;
        }
        let version = self.version_file.iter().filter_map(|file| file.pattern.as_ref());
        for pattern in version.chain(self.targets_file.iter().map(|file| &file.pattern)) {
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
                _ => return malformed(path, "a `require` has `program` and `version`, or `python-without-spaces`"),
            }
        }
        for check in &self.checks {
            check.expect.iter().try_for_each(|pattern| check_pattern(pattern, path))?;
            if check.run.is_empty() {
                return malformed(path, format!("check `{}` runs nothing", check.name));
            }
            for (is_set, key) in [(check.requirements, "requirements"), (!check.beside.is_empty(), "beside")] {
                if is_set && !check.fresh {
                    return malformed(path, format!("check `{}` has `{key}`, which belongs to `fresh`", check.name));
                }
            }
        }
        Ok(())
    }
}

impl Layer {
    /// Parses a layer; `path` is its name in errors.
    ///
    /// # Errors
    /// The same as [`Recipe::parse`].
    pub fn parse(text: &str, path: &str) -> Result<Layer, Error> {
        let layer: Layer = from_toml(text, path)?;
        check_schema(layer.schema, path)?;
        layer.steps.iter().chain(&layer.finish).try_for_each(|step| step.check(path))?;
        Ok(layer)
    }
}

impl RecipeStep {
    fn check(&self, path: &str) -> Result<(), Error> {
        let pattern = match &self.action {
            StepAction::Run { expect, .. } => expect.as_ref(),
            StepAction::Replace(replace) => Some(&replace.pattern),
            _ => None,
        };
        pattern.map_or(Ok(()), |pattern| check_pattern(pattern, path))
    }
}

/// A step as TOML has it: any of the keys, or none. It is read first, so that errors about wrong
/// keys have a line number.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct StepFields {
    /// Its name in messages, logs and `--only`.
    name: Option<String>,
    /// Condition on the cell.
    when: When,
    /// Skips the step unless this path exists when its turn comes.
    exists: Option<String>,
    /// Skips the step if this path exists when its turn comes.
    lacks: Option<String>,
    /// Skips the step unless the caller has this environment variable.
    if_variable: Option<String>,
    /// Working folder. By default the sources.
    directory: Option<String>,
    /// Time limit of the step (`30m`). By default 6 hours for programs, 1 hour for the rest.
    timeout: Option<String>,
    /// Environment variables for this step only.
    set: BTreeMap<String, String>,
    /// `true` if a failure does not stop the build.
    may_fail: bool,
    /// Runs this program with these arguments.
    run: Option<Vec<String>>,
    /// More arguments of `run`, under conditions.
    arguments: Vec<Arguments>,
    /// Regular expression that the output of `run` must match.
    expect: Option<String>,
    /// Installs these requirements (PEP 508), or options of pip, with pip or uv.
    install: Option<Vec<String>>,
    /// Address of an additional index for `install`.
    index: Option<String>,
    /// Uninstalls these distributions.
    uninstall: Option<Vec<String>>,
    /// Writes a file.
    write: Option<Text>,
    /// Appends text to a file.
    append: Option<Text>,
    /// Copies files.
    copy: Option<CopyAction>,
    /// Removes files and folders.
    remove: Option<Vec<String>>,
    /// Replaces a text in a file.
    replace: Option<Replace>,
    /// Writes the environment and steps as a script to this file.
    script: Option<String>,
}

/// The keys of actions.
const ACTIONS: &str = "run, install, uninstall, write, append, copy, remove, replace, script";

impl TryFrom<StepFields> for RecipeStep {
    type Error = String;

    /// # Errors
    /// The step has no action, several actions, or keys of another action.
    fn try_from(mut fields: StepFields) -> Result<RecipeStep, String> {
        let name = fields.name.take().ok_or("missing field `name`")?;
        let timeout = match fields.timeout.take() {
            Some(text) => Some(crate::duration::parse(&text).ok_or_else(|| {
                format!("step `{name}` has the timeout `{text}`, which is no time: write `90s`, `30m` or `12h`")
            })?),
            None => None,
        };
        let action = fields.action().map_err(|reason| format!("step `{name}` {reason}"))?;
        let StepFields { when, exists, lacks, if_variable, directory, set, may_fail, .. } = fields;
        Ok(RecipeStep { name, when, exists, lacks, if_variable, directory, timeout, set, may_fail, action })
    }
}

impl StepFields {
    /// Takes the only action out of the fields.
    fn action(&mut self) -> Result<StepAction, String> {
        let run = self.run.take().map(|command| StepAction::Run {
            command,
            arguments: std::mem::take(&mut self.arguments),
            expect: self.expect.take(),
        });
        let install = self.install.take().map(|requirements| {
            let index = self.index.take();
            StepAction::Install { requirements, index }
        });
        let actions = [
            ("run", run),
            ("install", install),
            ("uninstall", self.uninstall.take().map(StepAction::Uninstall)),
            ("write", self.write.take().map(StepAction::Write)),
            ("append", self.append.take().map(StepAction::Append)),
            ("copy", self.copy.take().map(StepAction::Copy)),
            ("remove", self.remove.take().map(StepAction::Remove)),
            ("replace", self.replace.take().map(StepAction::Replace)),
            ("script", self.script.take().map(StepAction::Script)),
        ];
        let (names, mut actions): (Vec<&str>, Vec<StepAction>) =
            actions.into_iter().filter_map(|(name, action)| Some((name, action?))).unzip();
        let Some(action) = actions.pop() else { return Err(format!("does nothing: it needs one of {ACTIONS}")) };
        if !actions.is_empty() {
            return Err(format!("does several things at once: {}", names.join(", ")));
        }
        // Each action has taken its own keys out, so the keys that are left belong to another
        // action.
        if !self.arguments.is_empty() || self.expect.is_some() {
            return Err("has `arguments` or `expect`, which belong to `run`".into());
        }
        if self.index.is_some() {
            return Err("has an `index`, which belongs to `install`".into());
        }
        match &action {
            StepAction::Run { command: words, .. }
            | StepAction::Install { requirements: words, .. }
            | StepAction::Uninstall(words)
                if words.is_empty() =>
            {
                Err("has an empty list".into())
            }
            _ => Ok(action),
        }
    }
}

/// Parses a time such as `6h`.
///
/// # Errors
/// The text is not a time.
pub(super) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = crate::duration::parse(&text).map(Some);
    time.ok_or_else(|| D::Error::custom(format!("`{text}` is no time: write `90m` or `6h`")))
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

#[cfg(test)]
mod tests {
    use rocwheel_progress::Hint as _;

    use super::super::WorkOn;
    use std::collections::BTreeSet;

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
            ("run = [\"true\"]", "run = [\"true\"]\nindex = \"x\"", "an `index`, which belongs to `install`"),
            ("run = [\"true\"]", "run = [\"true\"]\nunpack = \"x\"", "line 16: unknown field `unpack`"),
            ("run = [\"true\"]", "run = \"true\"", "line 15: invalid type: string"),
            ("name = \"wheel\"", "", "missing field `name`"),
            ("[output]", "[[cost]]\nmemory-per-job = 1\ndisk = 1\ntime = \"long\"\n[output]", "`long` is no time"),
            ("run = [\"true\"]", "run = [\"true\"]\nexpect = \"(\"", "`(` is no regular expression"),
            ("name = \"small\"", "name = \"../small\"", "is no name"),
            ("distribution = \"small\"", "", "has a `distribution`"),
            ("[[version]]\ntext = \"1.0\"", "", "says no `version`"),
            ("backends = [\"rocm\"]", "backends = [\"rocm\"]\nany-python = [\"rcm\"]", "names the backend `rcm`"),
            ("backends = [\"rocm\"]", "backends = []", "at least one backend"),
            ("[[version]]", "[image-packages]\napt = [\"g++\", \"x; y\"]\n[[version]]", "`x; y`, which is not a name"),
            ("name = \"small\"", "name = ", "line 3"),
        ] {
            let text = wrong(from, to).to_string();
            assert!(text.contains(words), "{text}");
        }
    }

    /// The keys that serde lists when a table has another one.
    fn keys<T: serde::de::DeserializeOwned>() -> BTreeSet<String> {
        let error = toml::from_str::<T>("no-such-key = 1").err().unwrap();
        crate::toml_text::quoted(error.message()).into_iter().skip(1).map(str::to_owned).collect()
    }

    /// `docs/schemas/recipe.json` is written by hand, so that no crate for schemas is needed.
    #[test]
    fn the_schema_has_the_keys_and_the_comments_of_the_types() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("../../../../../docs/schemas/recipe.json")).unwrap();
        let tables = [
            ("Recipe", keys::<Recipe>()),
            ("Project", keys::<rocwheel_source::Project>()),
            ("Framework", keys::<crate::framework::Framework>()),
            ("ImagePackages", keys::<crate::executor::ImagePackages>()),
            ("TargetRule", keys::<super::super::TargetRule>()),
            ("RecipeFeature", keys::<super::super::RecipeFeature>()),
            ("VersionRule", keys::<super::super::VersionRule>()),
            ("SourceVersionFile", keys::<super::super::SourceVersionFile>()),
            ("TargetsFile", keys::<super::super::TargetsFile>()),
            ("EnvironmentBlock", keys::<super::super::EnvironmentBlock>()),
            ("RecipeStep", keys::<StepFields>()),
            ("Arguments", keys::<Arguments>()),
            ("Contains", keys::<super::super::Contains>()),
            ("Text", keys::<Text>()),
            ("CopyAction", keys::<CopyAction>()),
            ("Replace", keys::<Replace>()),
            ("MachineRequirement", keys::<super::super::MachineRequirement>()),
            ("ExpectedOutput", keys::<super::super::ExpectedOutput>()),
            ("Tarball", keys::<super::super::Tarball>()),
            ("RecipeCheck", keys::<super::super::RecipeCheck>()),
            ("RunTime", keys::<super::super::RunTime>()),
            ("CostRule", keys::<super::super::CostRule>()),
            ("CostEstimate", keys::<super::super::CostEstimate>()),
        ];
        let sources = [
            include_str!("../recipe.rs"),
            include_str!("reading.rs"),
            include_str!("../executor.rs"),
            include_str!("../framework.rs"),
            include_str!("../../../source/src/table.rs"),
        ];
        let comments =
            sources.concat().lines().filter_map(|line| line.trim().strip_prefix("/// ")).collect::<Vec<_>>().join(" ");
        let comments = comments.replace("[`", "`").replace("`]", "`");
        assert_eq!(schema["$defs"].as_object().unwrap().len() + 1, tables.len());
        for (name, keys) in tables {
            let table = if name == "Recipe" { &schema } else { &schema["$defs"][name] };
            let properties = table["properties"].as_object().unwrap();
            assert_eq!(properties.keys().cloned().collect::<BTreeSet<_>>(), keys, "{name}");
            for (key, property) in properties {
                let said = property["description"].as_str().unwrap_or_default();
                assert!(comments.contains(said), "{name}.{key}: no comment is `{said}`");
            }
        }
    }
}
