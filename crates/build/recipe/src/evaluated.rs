//! An evaluated recipe: everything is decided for one cell. Values that depend on the place where a
//! job runs stay as `${…}`. So the same job means the same here, in a container and on a node of a
//! cluster, and has the same key.

use std::collections::BTreeMap;

use rocwheel_source::is_commit;
use serde::{Deserialize, Serialize};

use crate::cell::{Cell, ChosenBy, Switch};
use crate::executor::ImagePackages;
use crate::recipe::{
    Contains, CopyAction, Cost, ExpectedOutput, MachineRequirement, Replace, SourceVersionFile, Text, WorkOn,
};
use crate::substitute::literal;

/// A recipe, decided for one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Evaluated {
    pub recipe: String,
    pub summary: String,
    /// Name of the wheel; `None` for a tarball.
    pub distribution: Option<String>,
    /// The cell, with the chosen backend, targets and features.
    pub cell: Cell,
    /// `true` if it is built against ROCm.
    pub sdk: bool,
    /// The Python versions that the wheel is for.
    pub python: Pythons,
    pub source: Sources,
    /// Built in a container unless the user asks for something else.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_container: bool,
    /// System packages that its image is given.
    #[serde(default, skip_serializing_if = "ImagePackages::is_empty")]
    pub image_packages: ImagePackages,
    /// GPU targets and their origin.
    pub targets: Targets,
    /// All features of the recipe.
    pub features: BTreeMap<String, Switch>,
    /// Version of the result; `None`: the wheel has it.
    pub version: Option<String>,
    /// Blocks of variables, applied in order.
    pub environment: Vec<Variables>,
    pub steps: Vec<JobStep>,
    /// Steps that run at the end, even after a failure.
    pub finish: Vec<JobStep>,
    pub output: ExpectedOutput,
    pub checks: Vec<Check>,
    /// Variables that the result needs at run time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub run_time: BTreeMap<String, String>,
    /// Requirements that the machine must meet, checked before the first stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<MachineRequirement>,
    pub cost: Cost,
    /// How to count the files that will be compiled.
    pub estimate: Option<Estimate>,
}

impl Evaluated {
    /// Replaces the recipe's default values with the caller's variables. They affect the result, so
    /// they become part of the job, its file and its key.
    pub fn take_defaults(&mut self, surroundings: &BTreeMap<String, String>) {
        for block in &mut self.environment {
            for (name, value) in &mut block.default_values {
                if let Some(own) = surroundings.get(name) {
                    *value = literal(own);
                }
            }
        }
    }
}

/// The Python versions that a result is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pythons {
    /// The cell's Python.
    Each,
    /// All Pythons.
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sources {
    /// Name of the project in the table of sources (`data/sources.toml`).
    pub project: String,
    /// Build in the checkout, or in a copy.
    pub work_on: WorkOn,
    /// File in the sources that has their version.
    pub version_file: Option<SourceVersionFile>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Targets {
    /// Names of the targets. Empty if nothing is compiled for GPUs, or if ROCm names them when the
    /// job runs.
    pub names: Vec<String>,
    /// The source of the names.
    pub chosen_by: ChosenBy,
}

/// Variables with a common condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Variables {
    /// Conditions at run time; all must hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub provided: Vec<Provided>,
    /// Warning if only the last condition does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Error if only the last condition does not hold: the reason why nothing can be built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Variables and their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Variables with lists of folders, and the folders that go in front.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prepend: BTreeMap<String, String>,
    /// Variables with text, and the text that goes to the end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub append: BTreeMap<String, String>,
    /// Values that apply unless the caller has the variable ([`Evaluated::take_defaults`]).
    #[serde(rename = "default", skip_serializing_if = "BTreeMap::is_empty")]
    pub default_values: BTreeMap<String, String>,
    /// Path of a JSON object whose string values are set as variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_file: Option<String>,
}

/// A condition that is only known when a job runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provided {
    /// This path exists.
    Exists(String),
    /// This path does not exist.
    Lacks(String),
    /// A file contains a text.
    Contains(Contains),
    /// The environment of the job's caller has this variable.
    Variable(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobStep {
    /// Name of the step, as users see it.
    pub name: String,
    /// Conditions at run time; all must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provided: Vec<Provided>,
    pub directory: String,
    /// Time limit in seconds.
    pub timeout: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// `true` if a failure of the step is ignored.
    #[serde(default, skip_serializing_if = "is_false")]
    pub may_fail: bool,
    pub action: Action,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    Run {
        /// The program and its arguments.
        command: Vec<String>,
        /// More arguments, under conditions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        more: Vec<More>,
        /// Regular expression that the program's output must match.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expect: Option<String>,
    },
    Install {
        /// Requirements, in the syntax of pip's command line.
        requirements: Vec<String>,
        /// An additional index.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<String>,
    },
    Uninstall(Vec<String>),
    Write(Text),
    Append(Text),
    Copy(CopyAction),
    /// Removes files and folders if they exist.
    Remove(Vec<String>),
    Replace(Replace),
    /// Writes the job's steps as a script.
    Script(String),
}

/// More arguments under a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct More {
    /// Condition at run time; `None`: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provided: Option<Provided>,
    /// The arguments to add.
    pub arguments: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub name: String,
    /// `true` if it runs in an environment with only the wheel.
    pub fresh: bool,
    /// `true` if the wheel's requirements are installed there as well.
    #[serde(default, skip_serializing_if = "is_false")]
    pub requirements: bool,
    /// Packages beside the wheel, without their own requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    pub run: Vec<String>,
    /// Regular expression that the program's output must match.
    pub expect: Option<String>,
}

/// How to count the files that will be compiled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Estimate {
    /// The counting program runs once for each of these.
    pub directions: Vec<String>,
    pub run: Vec<String>,
    /// Pattern of the files to count.
    pub count: String,
    /// Files that are compiled in a minute.
    pub units_per_minute: f64,
    /// Folder of the object files. Its length affects the length of the link command.
    pub objects: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Evaluated {
    /// A name for messages and folders: recipe, version, backend, ROCm, torch and Python, as far as
    /// they are known.
    pub fn title(&self) -> String {
        let cell = &self.cell;
        let mut parts = vec![self.recipe.clone()];
        // The first eight digits of a commit are enough to recognize it.
        let version = cell.version.as_deref();
        parts.extend(version.map(|text| if is_commit(text) { text[..8].to_owned() } else { text.to_owned() }));
        parts.extend(cell.backend.clone().filter(|backend| backend != "rocm"));
        parts.extend(cell.rocm.as_ref().map(|rocm| format!("rocm{rocm}")));
        parts.extend(cell.torch.as_ref().map(|torch| format!("torch{torch}")));
        parts.extend(cell.python.map(|python| format!("py{python}")));
        parts.join("-")
    }

    /// A note about the variables that users of the result must set; `None` if there are none.
    pub fn run_time_note(&self) -> Option<String> {
        run_time_note(&self.run_time)
    }

    /// The local part of the version, or an empty string if it is not known.
    pub fn local(&self) -> &str {
        self.version.as_deref().and_then(|version| version.split_once('+')).map_or("", |(_, local)| local)
    }
}

/// A sentence about the variables that the result needs at run time; `None` if it needs none.
pub fn run_time_note(variables: &BTreeMap<String, String>) -> Option<String> {
    let assignments: Vec<String> = variables.iter().map(|(name, value)| format!("`{name}={value}`")).collect();
    let list = assignments.join(" and ");
    (!assignments.is_empty()).then(|| format!("needs {list} in the environment of the program that uses it"))
}
