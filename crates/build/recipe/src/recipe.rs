//! Input: a recipe's TOML. Output: the recipe as written, in types that allow only valid values.
//!
//! [`crate::evaluate()`] decides what a recipe means for one cell. It decides conditions (`when`)
//! too; conditions that depend on the running job (`exists`, `contains`, `if-variable`) stay.

mod reading;

use std::collections::BTreeMap;
use std::time::Duration;

use rocwheel_source::Project;
use serde::Deserialize;

use crate::cell::{Cell, Platform, Repair, Switch};
use crate::executor::ImagePackages;
use crate::framework::Framework;
pub use reading::PLAN_COMMANDS;
pub(crate) use reading::SCHEMA;

/// A recipe: how to build one framework.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    /// Version of the file format.
    pub schema: u32,
    /// Name of the recipe, as users type it.
    pub name: String,
    /// A description in a few words.
    pub summary: String,
    /// Name of the wheel. A tarball has none.
    pub distribution: Option<String>,
    /// Project whose sources are built, a key of `data/sources.toml`.
    pub source: String,
    /// Location of the sources, unless the table of sources has the project. The project's name is
    /// `source`.
    pub project: Option<Project>,
    /// Versions that can be built, unless the table of frameworks has them. Its recipe name,
    /// backends and platforms are those of this recipe.
    pub framework: Option<Framework>,
    /// Recipes that are built before this one if both are built.
    #[serde(default)]
    pub after: Vec<String>,
    /// Distributions that must be installed: built before, or installed because of `--torch`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// `true` if `rocwheel build all` builds it.
    #[serde(default)]
    pub part_of_all: bool,
    /// Platforms on which it can be built.
    pub platforms: Vec<Platform>,
    /// Variants of the build; the first is the default.
    pub backends: Vec<String>,
    /// Backends that are built without ROCm.
    #[serde(default)]
    pub without_sdk: Vec<String>,
    /// Backends that do not need the submodules of the sources.
    #[serde(default)]
    pub without_submodules: Vec<String>,
    /// Backends whose result is the same for every Python.
    #[serde(default)]
    pub any_python: Vec<String>,
    /// Names of [`Layer`]s whose environment and steps come before those of this recipe.
    #[serde(default)]
    pub layers: Vec<String>,
    /// Folder in which it is built.
    #[serde(default)]
    pub work_on: WorkOn,
    /// Built in a container unless the user asks for something else.
    #[serde(default)]
    pub in_container: bool,
    /// System packages that its image is given.
    #[serde(default)]
    pub image_packages: ImagePackages,
    /// Prefix that makes a recipe name with digits mean a ROCm version: with `magma-rocm`,
    /// `magma-rocm63` is this recipe for ROCm 6.3.
    pub named_by_rocm: Option<String>,
    /// `true` if the framework makes its version itself; it is read from the wheel.
    #[serde(default)]
    pub version_from_wheel: bool,
    /// GPU targets that it can be built for; the first rule that applies counts.
    #[serde(default)]
    pub targets: Vec<TargetRule>,
    /// Features that can be switched on and off.
    #[serde(default, rename = "feature")]
    pub features: Vec<RecipeFeature>,
    /// Version of the result; the first rule that applies counts.
    #[serde(default, rename = "version")]
    pub versions: Vec<VersionRule>,
    /// File in the sources that has their version.
    pub version_file: Option<SourceVersionFile>,
    /// File in the sources that has their list of GPU targets.
    pub targets_file: Option<TargetsFile>,
    /// Blocks of variables, applied in order.
    #[serde(default)]
    pub environment: Vec<EnvironmentBlock>,
    /// The steps, in order.
    #[serde(default, rename = "step")]
    pub steps: Vec<RecipeStep>,
    /// Steps that run at the end, even after a failure.
    #[serde(default, rename = "finish")]
    pub finish: Vec<RecipeStep>,
    /// Requirements that the machine must meet.
    #[serde(default, rename = "require")]
    pub requirements: Vec<MachineRequirement>,
    /// The expected result.
    pub output: ExpectedOutput,
    /// Checks of the result.
    #[serde(default, rename = "check")]
    pub checks: Vec<RecipeCheck>,
    /// Variables that the result needs at run time.
    #[serde(default)]
    pub run_time: Vec<RunTime>,
    /// Resources that a build takes; the first rule that applies counts.
    #[serde(default, rename = "cost")]
    pub costs: Vec<CostRule>,
    /// How to count the files that will be compiled.
    pub estimate: Option<CostEstimate>,
}

/// Environment and steps that several recipes share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Layer {
    /// Version of the file format.
    pub schema: u32,
    /// `true` if the layer is only for builds against ROCm.
    #[serde(default)]
    pub sdk: bool,
    /// The same as [`Recipe::environment`].
    #[serde(default)]
    pub environment: Vec<EnvironmentBlock>,
    /// The same as [`Recipe::steps`].
    #[serde(default, rename = "step")]
    pub steps: Vec<RecipeStep>,
    /// The same as [`Recipe::finish`].
    #[serde(default, rename = "finish")]
    pub finish: Vec<RecipeStep>,
}

/// The folder in which a recipe is built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkOn {
    /// In the checkout itself, as the project's own build does, so that the next build can reuse
    /// its files. Files that git tracks are not changed.
    #[default]
    Checkout,
    /// In a copy, because the build changes files.
    Copy,
}

/// A condition on the cell: for each name, the values that fit. `version`, `torch` and `rocm` take
/// version specifiers (`>=2.14`, PEP 440).
pub type When = BTreeMap<String, OneOrMany>;

/// A string, or a list of strings of which one has to fit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// A single string.
    One(String),
    /// A list of strings.
    Many(Vec<String>),
}

impl OneOrMany {
    /// All strings as a slice.
    pub(crate) fn all(&self) -> &[String] {
        match self {
            OneOrMany::One(text) => std::slice::from_ref(text),
            OneOrMany::Many(texts) => texts,
        }
    }
}

/// GPU targets that a recipe can be built for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TargetRule {
    /// Condition for the rule.
    #[serde(default)]
    pub when: When,
    /// `true` if nothing is compiled for GPUs.
    #[serde(default)]
    pub none: bool,
    /// Supported targets; empty: all.
    #[serde(default)]
    pub known: Vec<String>,
    /// Targets that are built by default; empty: those of the installed ROCm.
    #[serde(default)]
    pub default: Vec<String>,
    /// Advice for a target that is not supported.
    pub hint: Option<String>,
}

/// A feature that can be switched on and off.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RecipeFeature {
    /// Its name in conditions.
    pub name: String,
    /// Patterns of GPU targets (`gfx11*`) for which the feature is on by default; `*`: it is always
    /// on; none: it is off unless it is asked for.
    pub targets: Vec<String>,
    /// Name of the recipe whose result it needs.
    pub needs: Option<String>,
    /// Platforms on which it needs that recipe.
    #[serde(default)]
    pub needs_on: Vec<Platform>,
}

impl RecipeFeature {
    /// The recipe that the feature needs on this platform, if the same run does not build it
    /// before.
    pub fn lacks(&self, cell: &Cell) -> Option<&str> {
        let needed = self.needs.as_ref().filter(|_| self.needs_on.contains(&cell.platform))?;
        (!cell.with.contains(needed)).then_some(needed)
    }
}

/// A rule for the version of the result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VersionRule {
    /// Condition for the rule.
    #[serde(default)]
    pub when: When,
    /// The version; `${…}` is replaced.
    pub text: String,
}

/// The file in the sources that has their version.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SourceVersionFile {
    /// Path relative to the sources.
    pub path: String,
    /// Regular expression whose first group is the version. By default it is the whole text.
    pub pattern: Option<String>,
    /// Variable in which the project's own build takes the version; another release in it than in
    /// the file is an error.
    pub variable: Option<String>,
}

/// The file in the sources that has their list of GPU targets.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TargetsFile {
    /// Path relative to the sources.
    pub path: String,
    /// Regular expression whose first group is the list.
    pub pattern: String,
    /// `false`: the list counts instead of `known`. `true`: it is that of the project's own wheels.
    /// An installed ROCm that names no targets is built for with it, others are a warning.
    #[serde(default)]
    pub advisory: bool,
}

/// Variables with a common condition.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct EnvironmentBlock {
    /// Condition on the cell.
    pub when: When,
    /// The block applies only if this path exists when the job runs.
    pub exists: Option<String>,
    /// The block applies only if the caller's environment has this variable.
    pub if_variable: Option<String>,
    /// Warning if the path does not exist.
    pub warning: Option<String>,
    /// Error if the path does not exist, because nothing can be built without it.
    pub error: Option<String>,
    /// Variables and their values.
    pub set: BTreeMap<String, String>,
    /// Text that goes before the existing values, such as folders of a list.
    pub prepend: BTreeMap<String, String>,
    /// Text that is appended to the existing values.
    pub append: BTreeMap<String, String>,
    /// Values that apply unless the caller's environment has the variable.
    pub default: BTreeMap<String, String>,
    /// Path of a JSON object whose string values are set as variables.
    pub from_file: Option<String>,
}

/// One step of a build.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "reading::StepFields")]
pub struct RecipeStep {
    /// Its name in messages, logs and `--only`.
    pub name: String,
    /// Condition on the cell.
    pub when: When,
    /// Skips the step unless this path exists when its turn comes.
    pub exists: Option<String>,
    /// Skips the step if this path exists when its turn comes.
    pub lacks: Option<String>,
    /// Skips the step unless the caller has this environment variable.
    pub if_variable: Option<String>,
    /// Working folder. By default the sources.
    pub directory: Option<String>,
    /// Time limit of the step. By default 6 hours for programs, 1 hour for the rest.
    pub timeout: Option<Duration>,
    /// Environment variables for this step only.
    pub set: BTreeMap<String, String>,
    /// `true` if a failure does not stop the build.
    pub may_fail: bool,
    pub action: StepAction,
}

/// The action of a step. In TOML, its name is the key.
#[derive(Debug, Clone)]
pub enum StepAction {
    /// Runs a program.
    Run {
        /// The program and its arguments.
        command: Vec<String>,
        /// More arguments, under conditions.
        arguments: Vec<Arguments>,
        /// Regular expression that the program's output must match.
        expect: Option<String>,
    },
    /// Installs packages with pip or uv.
    Install {
        /// Requirements (PEP 508), or pip options.
        requirements: Vec<String>,
        /// Address of an additional index.
        index: Option<String>,
    },
    /// Uninstalls distributions.
    Uninstall(Vec<String>),
    /// Writes a file.
    Write(Text),
    /// Appends text to a file.
    Append(Text),
    /// Copies files.
    Copy(CopyAction),
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
    /// Condition on the cell.
    #[serde(default)]
    pub when: When,
    /// Condition at run time: a file contains a text.
    pub contains: Option<Contains>,
    /// The arguments to add.
    pub add: Vec<String>,
}

/// A text that a file must contain.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Contains {
    /// Path of the file.
    pub path: String,
    /// The text to find.
    pub text: String,
}

/// A file and its content.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// Path of the file.
    pub path: String,
    /// Content of the file, or the text to append.
    pub text: String,
}

/// Files to copy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CopyAction {
    /// Path of a file or folder, or a pattern (`**`, `*`).
    pub from: String,
    /// The destination folder; with `as-file`, the destination file; with `folder`, the folder that
    /// receives the content.
    pub to: String,
    /// How many matches are copied.
    pub pick: Pick,
    /// `true` if `to` is the path of the file itself.
    #[serde(default)]
    pub as_file: bool,
}

/// The matches of a pattern that are copied.
#[derive(Debug, Clone, std::marker::Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// The only match. No match, or several, is an error.
    One,
    /// The first match in sorted order; no match is an error.
    First,
    /// `from` is a folder, and its whole content is copied.
    Folder,
}

/// A replacement in a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Replace {
    /// Path of the file.
    pub path: String,
    /// Regular expression; no match is an error.
    pub pattern: String,
    /// The replacement; `$1` is the first group.
    pub with: String,
}

/// The expected result of a build.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExpectedOutput {
    /// Pattern of the wheel's path, relative to the sources.
    pub wheel: Option<String>,
    /// Other names that the wheel's distribution may have.
    #[serde(default)]
    pub other_names: Vec<String>,
    /// Smallest plausible size in bytes. A build that went wrong makes small wheels.
    #[serde(default)]
    pub smallest: u64,
    /// `true` if it is installed for the recipes that are built after it.
    #[serde(default)]
    pub install: bool,
    /// A tarball instead of a wheel.
    pub tarball: Option<Tarball>,
    /// How the wheel is repaired so that it loads on other machines. By default not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// On: the code for each GPU target gets its own wheel. By default off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Switch>,
}

impl ExpectedOutput {
    /// How the wheel is repaired; [`Repair::None`] by default.
    pub fn repair(&self) -> Repair {
        self.repair.unwrap_or(Repair::None)
    }

    /// `true` if the code for each GPU target gets its own wheel.
    pub fn is_split(&self) -> bool {
        self.split.is_some_and(Switch::is_on)
    }
}

/// A `.tar.bz2` as the result.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tarball {
    /// Path relative to the folder of outputs.
    pub path: String,
    /// The folder that is packed.
    pub from: String,
    /// Members of the folder to pack, in this order.
    pub members: Vec<String>,
    /// Files that the tarball must contain.
    pub holds: Vec<String>,
}

/// A check of the installed wheel.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RecipeCheck {
    /// Name of the check, as users see it.
    pub name: String,
    /// Condition on the cell.
    #[serde(default)]
    pub when: When,
    /// `true` if it runs in an environment with only the wheel, once for every requested Python.
    #[serde(default)]
    pub fresh: bool,
    /// `true` if that environment also has the wheel's requirements. ROCm comes from the build's
    /// source.
    #[serde(default)]
    pub requirements: bool,
    /// Packages that a `fresh` environment has beside the wheel, without their own requirements. If
    /// they cannot be installed, for example because none exists for this Python, the check is left
    /// out and the build prints a warning.
    #[serde(default)]
    pub beside: Vec<String>,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Regular expression that the program's output must match.
    pub expect: Option<String>,
}

/// Variables that a program needs that uses the result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTime {
    /// Condition on the cell.
    #[serde(default)]
    pub when: When,
    /// Variables and their values.
    pub set: BTreeMap<String, String>,
}

/// A requirement that the machine must meet, checked before anything is installed: the version of a
/// program, or an interpreter without spaces in its path.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MachineRequirement {
    /// Condition on the cell.
    #[serde(default, skip_serializing_if = "When::is_empty")]
    pub when: When,
    /// A program on the search path that prints its version with `--version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Accepted versions, as a specifier: `>=1.13.1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `true` if the path of the interpreter must not have spaces.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub python_without_spaces: bool,
    /// The failure that the requirement prevents, for the message.
    pub says: String,
    /// A remedy, for the message.
    pub fix: String,
}

/// A rule for the resources that a build takes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CostRule {
    /// Condition on the cell.
    #[serde(default)]
    pub when: When,
    /// GB of memory for each running compiler.
    pub memory_per_job: f64,
    /// GB of disk space.
    pub disk: f64,
    /// Number of cores to request from a scheduler.
    pub cpus: Option<u16>,
    /// Time limit on that many cores (`6h`).
    #[serde(default, deserialize_with = "reading::time")]
    pub time: Option<Duration>,
    /// Processor time that a recorded run took, for one GPU target where it has any (docs/build.md,
    /// "What has been tested").
    #[serde(default, deserialize_with = "reading::time")]
    pub recorded: Option<Duration>,
}

/// Resources that a build takes.
#[derive(Debug, Clone, std::marker::Copy, PartialEq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cost {
    /// GB of memory for each running compiler.
    pub memory_per_job: f64,
    /// GB of disk space.
    pub disk: f64,
    /// Number of cores to request from a scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u16>,
    /// Time limit on that many cores, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
    /// Processor time of a recorded run, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<u64>,
}

impl Default for Cost {
    fn default() -> Cost {
        Cost { memory_per_job: 2.0, disk: 1.0, cpus: None, time: None, recorded: None }
    }
}

/// How to count beforehand the files that will be compiled.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CostEstimate {
    /// Condition on the cell.
    #[serde(default)]
    pub when: When,
    /// Values of `${direction}`; the program runs once for each.
    pub directions: Vec<String>,
    /// The program and its arguments; it writes files into `${estimate}`.
    pub run: Vec<String>,
    /// Pattern of the files to count.
    pub count: String,
    /// Files that are compiled in a minute, as measured.
    pub units_per_minute: f64,
    /// Folder of the object files. Its length affects the length of the link command.
    pub objects: String,
}
