//! Input: `data/doctor.toml`. Output: the kinds of findings ([`DoctorRow`]) and the type of a
//! finding ([`Symptom`]).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

const TABLE: &str = include_str!("../../../../data/doctor.toml");

/// The weight of a finding, from light to heavy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gravity {
    /// Good to know.
    Note,
    /// It works, but not as it should.
    Warning,
    /// A check could not be made. It counts as an error: no answer is not a good one.
    Unknown,
    /// The GPU or a package cannot be used.
    Error,
}

impl Gravity {
    /// The word for reports: `error`.
    pub fn name(self) -> &'static str {
        match self {
            Gravity::Note => "note",
            Gravity::Warning => "warning",
            Gravity::Unknown => "unknown",
            Gravity::Error => "error",
        }
    }
}

/// What a command needs besides a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Need {
    /// The rights of the administrator.
    #[serde(rename = "root")]
    Root,
    /// The user has to log in again.
    #[serde(rename = "new login")]
    NewLogin,
    /// The machine has to be started again.
    #[serde(rename = "reboot")]
    Reboot,
    /// Another container has to be started.
    #[serde(rename = "new container")]
    NewContainer,
    /// A shell on the host of the container.
    #[serde(rename = "host")]
    Host,
}

impl Need {
    pub fn words(self) -> &'static str {
        match self {
            Need::Root => "root",
            Need::NewLogin => "new login",
            Need::Reboot => "reboot",
            Need::NewContainer => "new container",
            Need::Host => "a shell on the host",
        }
    }
}

/// The texts of one kind of finding: a row of `data/doctor.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DoctorRow {
    /// The code: `RD002`.
    pub code: String,
    /// The name in words: `device-denied`.
    pub name: String,
    pub severity: Gravity,
    /// One sentence without a full stop.
    pub title: String,
    /// What it means; `{words}` are filled in.
    pub meaning: String,
    pub command: Option<String>,
    /// The command in containers, by their kind. If it is not empty, other kinds have none.
    #[serde(default)]
    pub commands: BTreeMap<String, String>,
    /// Conditions of the command: root, a new login, a reboot, another container.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// `true` if command and check are for the machine, so that a container needs its host.
    #[serde(default)]
    pub machine: bool,
    /// What to look at where files cannot show the cause.
    pub check: Option<String>,
    /// `true` if `python -m rocm_sdk doctor` finds it too.
    #[serde(default)]
    pub python: bool,
}

/// A pair of a GPU and firmware that is known to fail.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownBad {
    pub(crate) target: String,
    /// File in the folder of the PCI device.
    pub(crate) file: String,
    /// Bits of its number that are the version.
    pub(crate) mask: u64,
    pub(crate) bad: Vec<u64>,
    /// Where it was reported.
    pub(crate) link: String,
}

/// A word of a command that only the reader knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blank {
    /// The word in braces in the table: `index`.
    #[serde(skip_serializing)]
    pub word: String,
    /// The word in the printed template: `INDEX`.
    #[serde(rename(serialize = "word"))]
    pub shown: String,
    /// What to write instead.
    pub meaning: String,
}

/// A package that has to do with GPUs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuPackage {
    /// The beginning of its name; the longest one that fits counts.
    pub name: String,
    /// `true` if it has compiled code for one kind of GPU.
    #[serde(default)]
    pub compiled: bool,
    /// `true` if its compiled code is for one version of torch.
    #[serde(default)]
    pub torch: bool,
    /// Parts of paths that only a build for ROCm has.
    #[serde(default)]
    pub rocm: Vec<String>,
    /// Parts of paths that only a build for CUDA has.
    #[serde(default)]
    pub cuda: Vec<String>,
    /// A file with the versions of CUDA or HIP.
    pub facts: Option<String>,
    /// The name of the package for AMD's GPUs, if it is another one.
    pub instead: Option<String>,
}

/// Beginnings of the names of libraries that a build for one kind of GPU needs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeededLibraries {
    /// Those of ROCm.
    pub rocm: Vec<String>,
    /// Those of CUDA.
    pub cuda: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DoctorTable {
    finding: Vec<DoctorRow>,
    known_bad: Vec<KnownBad>,
    blank: Vec<Blank>,
    package: Vec<GpuPackage>,
    needed: NeededLibraries,
}

static PARSED: LazyLock<DoctorTable> =
    LazyLock::new(|| toml::from_str(TABLE).expect("the embedded table is right: a test reads it"));

/// All kinds of findings, by code.
pub fn rows() -> &'static [DoctorRow] {
    &PARSED.finding
}

/// The words of commands that only the reader knows.
pub fn blanks() -> &'static [Blank] {
    &PARSED.blank
}

pub fn gpu_packages() -> &'static [GpuPackage] {
    &PARSED.package
}

/// The row of a package: the one with the longest beginning of its name.
pub(crate) fn gpu_package(name: &str) -> Option<&'static GpuPackage> {
    gpu_packages().iter().filter(|row| name.starts_with(&row.name)).max_by_key(|row| row.name.len())
}

/// The libraries that tell what a build is for.
pub fn needed_libraries() -> &'static NeededLibraries {
    &PARSED.needed
}

pub(crate) fn known_bad() -> &'static [KnownBad] {
    &PARSED.known_bad
}

/// A path or variable, and what it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The path, the variable or the package.
    pub path: String,
    /// Its value, or the error.
    pub value: String,
}

impl Evidence {
    pub(crate) fn new(path: impl Into<String>, value: impl Into<String>) -> Evidence {
        Evidence { path: path.into(), value: value.into() }
    }
}

/// A finding about a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Symptom {
    /// The code: `RD002`.
    pub code: &'static str,
    /// The name: `device-denied`.
    pub name: &'static str,
    pub severity: Gravity,
    /// One sentence without a full stop.
    pub title: &'static str,
    /// Where it was seen.
    pub evidence: Vec<Evidence>,
    pub meaning: String,
    /// The one command that fixes it, which works unchanged.
    pub command: Option<String>,
    /// The command if it has [`Symptom::blanks`]: then there is no other one.
    pub template: Option<String>,
    /// Words of the template that the reader has to replace.
    pub blanks: Vec<Blank>,
    /// Conditions of the command: root, a new login, a reboot, another container.
    pub needs: Vec<Need>,
    /// What to look at where files cannot show the cause.
    pub check: Option<String>,
    /// The command in containers, by their kind.
    #[serde(skip)]
    pub(crate) commands: BTreeMap<String, String>,
    /// `true` if command and check are for the machine.
    #[serde(skip)]
    pub(crate) machine: bool,
    /// What the command takes from an index, where it takes new versions.
    #[serde(skip)]
    pub from_index: Option<IndexInstall>,
}

/// An installation of new versions from an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IndexInstall {
    pub requirements: Vec<String>,
    /// The commands that come before it; ready to be typed.
    pub(crate) before: Vec<String>,
    /// `true` if it takes the place of installed packages of the same version.
    pub(crate) reinstalls: bool,
}

impl Symptom {
    /// Panics without a row of this name; a test looks every name of the sources up.
    pub(crate) fn new(name: &str) -> Symptom {
        let row = rows().iter().find(|row| row.name == name);
        let row = row.unwrap_or_else(|| panic!("data/doctor.toml has no row `{name}`"));
        Symptom {
            code: &row.code,
            name: &row.name,
            severity: row.severity,
            title: &row.title,
            evidence: Vec::new(),
            meaning: row.meaning.clone(),
            command: row.command.clone(),
            template: None,
            blanks: Vec::new(),
            needs: row.needs.clone(),
            check: row.check.clone(),
            commands: row.commands.clone(),
            machine: row.machine,
            from_index: None,
        }
    }

    /// A check that could not be made: `question` begins the sentence.
    pub(crate) fn not_read(question: &str, path: &str, fault: &crate::tree::ReadFault) -> Symptom {
        Symptom::new("not-read").fill("question", question).seen(path, fault.words())
    }

    /// Fills `{word}` of the texts.
    #[must_use]
    pub(crate) fn fill(mut self, word: &str, value: &str) -> Symptom {
        let word = format!("{{{word}}}");
        let texts = [Some(&mut self.meaning), self.command.as_mut(), self.check.as_mut()];
        for text in texts.into_iter().flatten().chain(self.commands.values_mut()) {
            if text.contains(&word) {
                *text = text.replace(&word, value);
            }
        }
        self
    }

    #[must_use]
    pub(crate) fn seen(mut self, path: impl Into<String>, value: impl Into<String>) -> Symptom {
        self.evidence.push(Evidence::new(path, value));
        self
    }

    #[must_use]
    pub(crate) fn weighing(self, severity: Gravity) -> Symptom {
        Symptom { severity, ..self }
    }

    /// Drops the command, which would not help here.
    #[must_use]
    pub(crate) fn without_command(self) -> Symptom {
        Symptom { command: None, commands: BTreeMap::new(), needs: Vec::new(), ..self }
    }

    /// Drops the advice to look further, which is not needed here.
    #[must_use]
    pub(crate) fn without_check(self) -> Symptom {
        Symptom { check: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rows_are_in_order_and_complete() {
        let codes: Vec<&str> = rows().iter().map(|row| row.code.as_str()).collect();
        assert!(codes.is_sorted() && codes.iter().all(|code| code.len() == 5 && code.starts_with("RD")), "{codes:?}");
        let names: BTreeSet<&str> = rows().iter().map(|row| row.name.as_str()).collect();
        assert_eq!((codes.iter().collect::<BTreeSet<_>>().len(), names.len()), (rows().len(), rows().len()));
        for row in rows() {
            assert!(!row.title.ends_with('.') && !row.title.contains('{'), "{}", row.code);
            assert!(row.meaning.ends_with(['.', '}']) && !row.meaning.contains("  "), "{}", row.code);
            let has_command = row.command.is_some() || !row.commands.is_empty();
            assert!(row.needs.is_empty() || has_command || row.check.is_some(), "{}", row.code);
        }
        assert!(!known_bad().is_empty());
    }

    /// A name without a row would be a panic on a user's machine; a row without a name is dead.
    #[test]
    fn sources_and_rows_name_each_other() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut used = BTreeSet::from(["not-read".to_owned()]);
        for entry in fs_err::read_dir(folder).unwrap() {
            let text = fs_err::read_to_string(entry.unwrap().path()).unwrap();
            for marker in ["Symptom::new(\"", "symptom(\""] {
                let names = text.split(marker).skip(1).filter_map(|rest| rest.split('"').next());
                used.extend(names.map(str::to_owned));
            }
        }
        let rows: BTreeSet<String> = rows().iter().map(|row| row.name.clone()).collect();
        assert_eq!(used, rows);
    }
}
