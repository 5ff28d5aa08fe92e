//! A recipe as evaluated: everything decided for one cell. What depends on the place where a job
//! runs is left as `${…}`, so that the same job means the same here, in a container and on a node
//! of a cluster, and has the same key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cell::{Cell, ChosenBy, Switch};
use crate::executor::ImagePackages;
use crate::recipe::{Contains, Copy, Cost, MachineRequirement, Output, Replace, SourceVersionFile, Text, WorkOn};
use crate::substitute::literal;

/// What is built, in one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Evaluated {
    /// Name of the recipe.
    pub recipe: String,
    /// What it is.
    pub summary: String,
    /// Name of the wheel; none for a tarball.
    pub distribution: Option<String>,
    /// The cell, with the backend, targets and features that were decided.
    pub cell: Cell,
    /// Whether it is built against ROCm.
    pub sdk: bool,
    /// Whether the wheel is for one Python.
    pub python: Pythons,
    /// The sources.
    pub source: Sources,
    /// Built in a container unless the user says otherwise.
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_container: bool,
    /// Packages of the system that its image is given.
    #[serde(default, skip_serializing_if = "ImagePackages::is_empty")]
    pub image_packages: ImagePackages,
    /// GPU targets, and who chose them.
    pub targets: Targets,
    /// Features, all of them.
    pub features: BTreeMap<String, Switch>,
    /// Version of the result; `None`: the wheel says it.
    pub version: Option<String>,
    /// Variables, in order.
    pub environment: Vec<Variables>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// What is done at the end, also after a failure.
    pub finish: Vec<Step>,
    /// What comes out.
    pub output: Output,
    /// What has to work afterwards.
    pub checks: Vec<Check>,
    /// Variables that the result needs where it is used.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub run_time: BTreeMap<String, String>,
    /// Requirements that the machine has to meet, checked before the first stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<MachineRequirement>,
    /// What it takes.
    pub cost: Cost,
    /// How many files will be compiled.
    pub estimate: Option<Estimate>,
}

impl Evaluated {
    /// Puts the caller's variables in place of the values that a recipe has for them. They decide
    /// what is made: from here on they are a part of the job, of its file and of its key.
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

/// For which Pythons a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pythons {
    /// The one of the cell.
    Each,
    /// All.
    Any,
}

/// Where sources are from and where they are built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sources {
    /// Project in `data/sources.toml`.
    pub project: String,
    /// In the checkout, or in a copy.
    pub work_on: WorkOn,
    /// Where they say their version.
    pub version_file: Option<SourceVersionFile>,
}

/// GPU targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Targets {
    /// The targets; empty when nothing is compiled for GPUs, or when ROCm says them as the job
    /// runs.
    pub names: Vec<String>,
    /// Who chose them.
    pub chosen_by: ChosenBy,
}

/// Variables under one condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Variables {
    /// Only if this holds when the job runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provided: Option<Provided>,
    /// What to warn of when it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Why nothing can be built when it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Put before a list of folders.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prepend: BTreeMap<String, String>,
    /// Put behind a text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub append: BTreeMap<String, String>,
    /// What whoever made the job did not say otherwise ([`Evaluated::take_defaults`]).
    #[serde(rename = "default", skip_serializing_if = "BTreeMap::is_empty")]
    pub default_values: BTreeMap<String, String>,
    /// A JSON object whose names and texts are set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_file: Option<String>,
}

/// What can only be known when a job runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provided {
    /// This path is there.
    Exists(String),
    /// It is not.
    Lacks(String),
    /// A file holds a text.
    Contains(Contains),
    /// Whoever runs the job has this variable.
    Variable(String),
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Step {
    /// What users call it.
    pub name: String,
    /// Only if this holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provided: Vec<Provided>,
    /// Folder it runs in.
    pub directory: String,
    /// Seconds after which it is stopped.
    pub timeout: u64,
    /// Variables for it only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Whether its failure does not matter.
    #[serde(default, skip_serializing_if = "is_false")]
    pub may_fail: bool,
    /// What is done.
    pub action: Action,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Runs a program.
    Run {
        /// The program and its arguments.
        command: Vec<String>,
        /// More arguments under conditions.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        more: Vec<More>,
        /// Regular expression that what it says has to hold.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expect: Option<String>,
    },
    /// Installs requirements.
    Install {
        /// As the command line of pip takes them.
        requirements: Vec<String>,
        /// An index besides the usual one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<String>,
    },
    /// Uninstalls distributions, if they are there.
    Uninstall(Vec<String>),
    /// Writes a file.
    Write(Text),
    /// Puts a text at the end of a file.
    Append(Text),
    /// Copies files.
    Copy(Copy),
    /// Removes files and folders, if they are there.
    Remove(Vec<String>),
    /// Replaces a text in a file.
    Replace(Replace),
    /// Writes these steps as a script.
    Script(String),
}

/// More arguments under a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct More {
    /// Only if this holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provided: Option<Provided>,
    /// The arguments.
    pub arguments: Vec<String>,
}

/// Something that has to work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What users call it.
    pub name: String,
    /// Whether it runs where nothing but the wheel is installed.
    pub fresh: bool,
    /// Whether what the wheel requires is installed there as well.
    #[serde(default, skip_serializing_if = "is_false")]
    pub requirements: bool,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Regular expression that what it says has to hold.
    pub expect: Option<String>,
}

/// How to count what will be compiled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Estimate {
    /// One run for each.
    pub directions: Vec<String>,
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Pattern of the files that count.
    pub count: String,
    /// How many are compiled in a minute.
    pub units_per_minute: f64,
    /// Folder of the object files.
    pub objects: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Evaluated {
    /// A name for people and folders: recipe, version, backend, ROCm, torch and Python, as far as
    /// they are known.
    pub fn title(&self) -> String {
        let cell = &self.cell;
        let mut parts = vec![self.recipe.clone()];
        // Of a commit, the digits that people know it by.
        let short = |text: &str| if rocwheel_source::is_commit(text) { text[..8].to_owned() } else { text.to_owned() };
        parts.extend(cell.version.as_deref().map(short));
        parts.extend(cell.backend.clone().filter(|backend| backend != "rocm"));
        parts.extend(cell.rocm.as_ref().map(|rocm| format!("rocm{rocm}")));
        parts.extend(cell.torch.as_ref().map(|torch| format!("torch{torch}")));
        parts.extend(cell.python.map(|python| format!("py{python}")));
        parts.join("-")
    }

    /// What whoever uses the result has to set; `None`: nothing.
    pub fn run_time_note(&self) -> Option<String> {
        run_time_note(&self.run_time)
    }

    /// The local part of the version, as far as it is known.
    pub fn local(&self) -> &str {
        self.version.as_deref().and_then(|version| version.split_once('+')).map_or("", |(_, local)| local)
    }
}

/// A sentence about the variables that the result needs at run time; `None` if it needs none.
pub(crate) fn run_time_note(variables: &BTreeMap<String, String>) -> Option<String> {
    let assignments: Vec<String> = variables.iter().map(|(name, value)| format!("`{name}={value}`")).collect();
    let list = assignments.join(" and ");
    (!assignments.is_empty()).then(|| format!("needs {list} in the environment of the program that uses it"))
}
