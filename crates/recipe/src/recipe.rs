//! Input: a recipe's TOML. Output: the recipe as written, in types that say what may stand where.
//!
//! What a recipe means for one cell is made of it by [`crate::evaluate`]. Conditions (`when`) are
//! decided there; what can only be known when the job runs (`exists`, `contains`, `if-variable`)
//! stays.

mod reading;

use std::collections::BTreeMap;
use std::time::Duration;

use rocwheel_source::Project;
use serde::Deserialize;

use crate::cell::{Cell, Platform, Repair, Switch};
use crate::executor::ImagePackages;
use crate::matrix::Framework;
pub(crate) use reading::{SCHEMA, from_toml};

/// How to build one framework.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    /// Version of the form.
    pub schema: u32,
    /// What users call it.
    pub name: String,
    /// What it is, in a few words.
    pub summary: String,
    /// Name of the wheel; none for a tarball.
    pub distribution: Option<String>,
    /// Project whose sources are built, as in `data/sources.toml`.
    pub source: String,
    /// Where the sources are; `None`: the table of sources has the project. Its name is `source`.
    pub project: Option<Project>,
    /// What there is to build; `None`: the table of frameworks has the recipe, or nothing does.
    /// Recipe, backends and platforms are those of the recipe.
    pub framework: Option<Framework>,
    /// Recipes that are built before this one when both are.
    #[serde(default)]
    pub after: Vec<String>,
    /// Distributions that have to be there: built before, or installed because `--torch` says so.
    #[serde(default)]
    pub needs: Vec<String>,
    /// `true`: `rocwheel build all` builds it.
    #[serde(default)]
    pub part_of_all: bool,
    /// Systems it can be built on.
    pub platforms: Vec<Platform>,
    /// Variants; the first is the default.
    pub backends: Vec<String>,
    /// Backends that need no ROCm.
    #[serde(default)]
    pub without_sdk: Vec<String>,
    /// Backends that need nothing of the submodules of the sources.
    #[serde(default)]
    pub without_submodules: Vec<String>,
    /// Backends whose result is the same for every Python.
    #[serde(default)]
    pub any_python: Vec<String>,
    /// Layers of environment and steps that go before.
    #[serde(default)]
    pub layers: Vec<String>,
    /// Where it is built.
    #[serde(default)]
    pub work_on: WorkOn,
    /// Built in a container unless the user says otherwise.
    #[serde(default)]
    pub in_container: bool,
    /// Packages of the system that its image is given.
    #[serde(default)]
    pub image_packages: ImagePackages,
    /// With this before the digits of a ROCm version, the name means the recipe for that version
    /// (`magma-rocm63`).
    pub named_by_rocm: Option<String>,
    /// The framework makes its version itself, and the wheel says it.
    #[serde(default)]
    pub version_from_wheel: bool,
    /// For which GPU targets it can be built; the first that applies.
    #[serde(default)]
    pub targets: Vec<TargetRule>,
    /// What can be switched on and off.
    #[serde(default, rename = "feature")]
    pub features: Vec<RecipeFeature>,
    /// The version of the result; the first that applies.
    #[serde(default, rename = "version")]
    pub versions: Vec<VersionRule>,
    /// Where the sources say their version.
    pub version_file: Option<SourceVersionFile>,
    /// Variables, in order.
    #[serde(default)]
    pub environment: Vec<EnvironmentBlock>,
    /// What is done, in order.
    #[serde(default, rename = "step")]
    pub steps: Vec<RecipeStep>,
    /// What is done at the end, also after a failure.
    #[serde(default, rename = "finish")]
    pub finish: Vec<RecipeStep>,
    /// Requirements that the machine has to meet.
    #[serde(default, rename = "require")]
    pub requirements: Vec<MachineRequirement>,
    /// What comes out.
    pub output: Output,
    /// What has to work afterwards.
    #[serde(default, rename = "check")]
    pub checks: Vec<RecipeCheck>,
    /// Variables that the result needs where it is used.
    #[serde(default)]
    pub run_time: Vec<RunTime>,
    /// What it takes; the first that applies.
    #[serde(default, rename = "cost")]
    pub costs: Vec<CostRule>,
    /// How many files will be compiled.
    pub estimate: Option<CostEstimate>,
}

/// Environment and steps that several recipes have in common.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Layer {
    /// Version of the form.
    pub schema: u32,
    /// Only for builds against ROCm.
    #[serde(default)]
    pub sdk: bool,
    /// As in a recipe.
    #[serde(default)]
    pub environment: Vec<EnvironmentBlock>,
    /// As in a recipe.
    #[serde(default, rename = "step")]
    pub steps: Vec<RecipeStep>,
    /// As in a recipe.
    #[serde(default, rename = "finish")]
    pub finish: Vec<RecipeStep>,
}

/// Where a recipe works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkOn {
    /// In the checkout itself, as its own build does, so that the next build goes on there. What
    /// git tracks is not changed.
    #[default]
    Checkout,
    /// In a copy, because files are changed.
    Copy,
}

/// A condition on the cell: for each name the values that fit. `version`, `torch` and `rocm` take
/// specifiers (`>=2.14`, PEP 440).
pub type When = BTreeMap<String, OneOrMany>;

/// A text, or a list of them of which one has to fit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl OneOrMany {
    /// All of them.
    pub(crate) fn all(&self) -> &[String] {
        match self {
            OneOrMany::One(text) => std::slice::from_ref(text),
            OneOrMany::Many(texts) => texts,
        }
    }
}

/// For which GPU targets a recipe can be built.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TargetRule {
    /// When the rule applies.
    #[serde(default)]
    pub when: When,
    /// Nothing is compiled for GPUs.
    #[serde(default)]
    pub none: bool,
    /// The targets it takes; empty: all.
    #[serde(default)]
    pub known: Vec<String>,
    /// Those it is built for when nobody says otherwise; empty: those of the ROCm that is there.
    #[serde(default)]
    pub default: Vec<String>,
    /// What helps with a target that it does not take.
    pub hint: Option<String>,
}

/// Something that can be switched.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RecipeFeature {
    /// Its name in conditions.
    pub name: String,
    /// On by itself when one of the GPU targets is one of these (`gfx11*`).
    pub targets: Vec<String>,
    /// Recipe whose result it needs.
    pub needs: Option<String>,
    /// Where it does.
    #[serde(default)]
    pub needs_on: Vec<Platform>,
}

impl RecipeFeature {
    /// The recipe that it needs and that is not built before in the same run.
    pub fn lacks(&self, cell: &Cell) -> Option<&str> {
        let needed = self.needs.as_ref().filter(|_| self.needs_on.contains(&cell.platform))?;
        (!cell.with.contains(needed)).then_some(needed)
    }
}

/// How the version of the result is made.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VersionRule {
    /// When.
    #[serde(default)]
    pub when: When,
    /// The version.
    pub text: String,
}

/// Where the sources say their version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SourceVersionFile {
    /// Relative to the sources.
    pub path: String,
    /// Regular expression whose first group is the version; without one, it is the whole text.
    pub pattern: Option<String>,
}

/// Variables that belong together.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct EnvironmentBlock {
    /// When.
    pub when: When,
    /// Only if this path is there when the job runs.
    pub exists: Option<String>,
    /// Only if whoever runs the job has this variable.
    pub if_variable: Option<String>,
    /// What to warn of when the path is not there.
    pub warning: Option<String>,
    /// Without the path nothing can be built.
    pub error: Option<String>,
    /// Values.
    pub set: BTreeMap<String, String>,
    /// Put before what is there, as in lists of folders.
    pub prepend: BTreeMap<String, String>,
    /// Put behind what is there, as text.
    pub append: BTreeMap<String, String>,
    /// Set when whoever runs the job has not; else taken from there.
    pub default: BTreeMap<String, String>,
    /// A JSON object whose names and texts are set.
    pub from_file: Option<String>,
}

/// One thing to do.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "reading::StepFields")]
pub struct RecipeStep {
    /// Its name in messages, logs and `--only`.
    pub name: String,
    /// When the step is part of a build.
    pub when: When,
    /// Skips the step unless this path exists when its turn comes.
    pub exists: Option<String>,
    /// Skips the step if this path exists when its turn comes.
    pub lacks: Option<String>,
    /// Skips the step unless the caller has this environment variable.
    pub if_variable: Option<String>,
    /// Folder to run in; `None`: the sources.
    pub directory: Option<String>,
    /// After this time the step is stopped; `None`: 6 hours for programs, 1 hour for the rest.
    pub timeout: Option<Duration>,
    /// Environment variables for this step only.
    pub set: BTreeMap<String, String>,
    /// `true`: a failure does not stop the build.
    pub may_fail: bool,
    /// What the step does.
    pub action: StepAction,
}

/// What a step does, under the key of that name.
#[derive(Debug, Clone)]
pub enum StepAction {
    /// Runs a program.
    Run {
        /// The program and its arguments.
        command: Vec<String>,
        /// More arguments, under conditions.
        arguments: Vec<Arguments>,
        /// Regular expression that has to match the output.
        expect: Option<String>,
    },
    /// Installs packages with pip or uv.
    Install {
        /// Requirements (PEP 508), or options of pip.
        requirements: Vec<String>,
        /// Address of an index besides the usual one.
        index: Option<String>,
    },
    /// Uninstalls distributions.
    Uninstall(Vec<String>),
    /// Writes a file.
    Write(Text),
    /// Adds a text to the end of a file.
    Append(Text),
    /// Copies files.
    Copy(Copy),
    /// Removes files and folders.
    Remove(Vec<String>),
    /// Replaces a text in a file.
    Replace(Replace),
    /// Writes the environment and steps as a script to this file.
    Script(String),
}

/// More arguments, under conditions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Arguments {
    /// When.
    #[serde(default)]
    pub when: When,
    /// Only if a file holds a text.
    pub contains: Option<Contains>,
    /// The arguments.
    pub add: Vec<String>,
}

/// A file and a text in it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Contains {
    /// The file.
    pub path: String,
    /// The text.
    pub text: String,
}

/// A file and its text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// The file.
    pub path: String,
    /// The text.
    pub text: String,
}

/// Files to copy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Copy {
    /// A file, a pattern (`**`, `*`), or a folder.
    pub from: String,
    /// The folder it is copied into; with `as-file` the file it becomes; with `folder` the folder
    /// that gets the content.
    pub to: String,
    /// Which of the files.
    pub pick: Pick,
    /// Whether `to` is the file itself.
    #[serde(default)]
    pub as_file: bool,
}

/// Which of the files that fit a pattern are copied.
#[derive(Debug, Clone, std::marker::Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// There has to be exactly one.
    One,
    /// The first in sorted order; there has to be one.
    First,
    /// `from` is a folder, and all of it is.
    Folder,
}

/// A text to replace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Replace {
    /// The file.
    pub path: String,
    /// Regular expression, which has to be found.
    pub pattern: String,
    /// What stands there afterwards; `$1` is the first group.
    pub with: String,
}

/// What comes out.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Output {
    /// Pattern of the wheel, relative to the sources.
    pub wheel: Option<String>,
    /// Other names that the wheel's distribution may have.
    #[serde(default)]
    pub other_names: Vec<String>,
    /// Bytes that it has at least: a build that went wrong makes small ones.
    #[serde(default)]
    pub smallest: u64,
    /// Whether it is installed for what is built after it.
    #[serde(default)]
    pub install: bool,
    /// A tarball in place of a wheel.
    pub tarball: Option<Tarball>,
    /// How the wheel is made to load on other machines; `None`: not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// Whether the code for each GPU target gets a wheel of its own; `None`: it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Switch>,
}

impl Output {
    /// How the wheel is made to load on other machines.
    pub fn repair(&self) -> Repair {
        self.repair.unwrap_or(Repair::None)
    }

    /// Whether the code for each GPU target gets a wheel of its own.
    pub fn is_split(&self) -> bool {
        self.split.is_some_and(Switch::is_on)
    }
}

/// A `.tar.bz2`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tarball {
    /// Relative to the folder of outputs.
    pub path: String,
    /// The folder it is made of.
    pub from: String,
    /// What of it, in this order.
    pub members: Vec<String>,
    /// Files that have to be in it.
    pub holds: Vec<String>,
}

/// Something that has to work when the wheel is installed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RecipeCheck {
    /// What users call it.
    pub name: String,
    /// When.
    #[serde(default)]
    pub when: When,
    /// Whether it runs in an environment that has nothing but the wheel, for every Python that was
    /// asked for.
    #[serde(default)]
    pub fresh: bool,
    /// Whether that environment has what the wheel requires as well, ROCm from where the build has
    /// it.
    #[serde(default)]
    pub requirements: bool,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Regular expression that what it says has to hold.
    pub expect: Option<String>,
}

/// Variables of the program that uses the result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTime {
    /// When.
    #[serde(default)]
    pub when: When,
    /// Values.
    pub set: BTreeMap<String, String>,
}

/// A requirement that the machine has to meet, checked before anything is installed: the version of
/// a program, or an interpreter without spaces in its path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MachineRequirement {
    /// When.
    #[serde(default, skip_serializing_if = "When::is_empty")]
    pub when: When,
    /// A program on the search path, which says its version with `--version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The versions that will do, as in requirements: `>=1.13.1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `true`: the path of the interpreter must not have spaces.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub python_without_spaces: bool,
    /// What would fail otherwise.
    pub says: String,
    /// What helps.
    pub fix: String,
}

/// What a build takes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CostRule {
    /// When.
    #[serde(default)]
    pub when: When,
    /// GB of memory for each compiler that runs.
    pub memory_per_job: f64,
    /// GB on the disk.
    pub disk: f64,
    /// Cores that are worth asking a scheduler for.
    pub cpus: Option<u16>,
    /// How long it may take on so many (`6h`).
    #[serde(default, deserialize_with = "reading::time")]
    pub time: Option<Duration>,
}

/// What a build takes.
#[derive(Debug, Clone, std::marker::Copy, PartialEq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cost {
    /// GB of memory for each compiler that runs.
    pub memory_per_job: f64,
    /// GB on the disk.
    pub disk: f64,
    /// Cores that are worth asking a scheduler for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u16>,
    /// Seconds that it may take on so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
}

impl Default for Cost {
    fn default() -> Cost {
        Cost { memory_per_job: 2.0, disk: 1.0, cpus: None, time: None }
    }
}

/// How to find out beforehand how many files will be compiled.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CostEstimate {
    /// When.
    #[serde(default)]
    pub when: When,
    /// What `${direction}` is, one run for each.
    pub directions: Vec<String>,
    /// The program and its arguments; it writes files into `${estimate}`.
    pub run: Vec<String>,
    /// Pattern of the files that count.
    pub count: String,
    /// How many are compiled in a minute, by those who measured it.
    pub units_per_minute: f64,
    /// Folder of the object files: its length decides that of the command that links them.
    pub objects: String,
}
