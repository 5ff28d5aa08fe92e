//! The rows of the tables in their file format. The head of each file in `data/` explains the
//! fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The tables that consist of rows: the name, and the key field of a row.
pub const KEYS: [(&str, &str); 7] = [
    ("target", "name"),
    ("package", "name"),
    ("library", "soname"),
    ("loader", "library"),
    ("owner", "name"),
    ("database", "name"),
    ("artifact", "name"),
];

/// The owner of the libraries that belong to the machine: its drivers and display server.
pub(crate) const MACHINE: &str = "machine";

/// A GPU target of `data/targets.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TargetRow {
    pub(crate) name: String,
    pub(crate) product: Option<String>,
    #[serde(default)]
    pub(crate) cards: Vec<String>,
    #[serde(default)]
    pub(crate) families: Vec<String>,
    pub(crate) llvm: Option<u32>,
    pub(crate) elf_machine: Option<u8>,
    #[serde(default)]
    pub(crate) one_bit_features: Vec<String>,
    pub(crate) generic: Option<String>,
    pub(crate) package: Option<String>,
    pub(crate) shares_package_of: Option<String>,
    pub(crate) pytorch_job: Option<String>,
    #[serde(default)]
    pub(crate) portable: bool,
}

/// A device package that serves more than one target.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageRow {
    pub(crate) name: String,
    pub(crate) parent: Option<String>,
    #[serde(default)]
    pub(crate) aliases: Vec<String>,
}

/// A library of `data/libraries.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LibraryRow {
    pub(crate) soname: String,
    #[serde(default = "rocm")]
    pub(crate) owner: String,
    pub(crate) distribution: Option<String>,
    pub(crate) directory: Option<String>,
    pub(crate) shortname: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) dll: Option<String>,
    pub(crate) dll_note: Option<String>,
    pub(crate) dlls: Option<Vec<String>>,
    pub(crate) since: Option<String>,
    #[serde(default)]
    pub(crate) optional: bool,
    #[serde(default)]
    pub(crate) loads: Vec<String>,
    #[serde(default)]
    pub(crate) may_load: Vec<String>,
}

fn rocm() -> String {
    "ROCm".to_owned()
}

impl LibraryRow {
    /// The file names of this library's DLL; `*` matches any text.
    pub(crate) fn dlls(&self) -> &[String] {
        self.dlls.as_deref().unwrap_or(self.dll.as_slice())
    }

    /// The pattern for the SONAMEs of all versions, by which loaders are looked up:
    /// `libamdhip64.so.*`.
    pub(crate) fn versioned(&self) -> String {
        format!("{}.*", self.soname)
    }
}

/// A script, or a library that is not part of ROCm, that loads libraries by name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoaderRow {
    pub(crate) library: String,
    #[serde(default)]
    pub(crate) loads: Vec<String>,
    #[serde(default)]
    pub(crate) may_load: Vec<String>,
}

/// A product whose libraries others link to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnerRow {
    pub(crate) name: String,
    pub(crate) require: Option<String>,
    #[serde(default)]
    pub(crate) parts: Vec<String>,
    #[serde(default)]
    pub(crate) cuda: bool,
    /// The number in a SONAME divided by this is the major version of the requirement.
    pub(crate) counts: Option<u32>,
    /// The libraries that the requirement brings, if it does not bring all.
    #[serde(default)]
    pub(crate) library: Vec<OwnedLibraryRow>,
    pub(crate) distributions: Vec<String>,
    /// The kind of the libraries whose rows name this owner.
    pub(crate) kind: Option<LibraryProduct>,
    #[serde(default)]
    pub(crate) families: Vec<String>,
    #[serde(default)]
    pub(crate) windows: Vec<String>,
}

/// The product that a library belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LibraryProduct {
    /// ROCm, in the `rocm-sdk-*` wheels.
    Rocm,
    /// PyTorch, which is imported before its extensions.
    Torch,
    /// The machine: a driver of its GPU or network, or its display server. In no wheel.
    Driver,
}

/// Libraries of an owner, and the part of its requirement that brings them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnedLibraryRow {
    /// Patterns of names up to `.so`.
    pub(crate) names: Vec<String>,
    /// The extra of the requirement.
    pub(crate) extra: Option<String>,
    /// Number in the SONAME → major versions of the requirement; an empty list means all.
    pub(crate) releases: Option<BTreeMap<String, Vec<u32>>>,
}

/// The kernel database of a library.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DatabaseRow {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) in_torch: bool,
    #[serde(default)]
    pub(crate) tensile: bool,
    #[serde(default)]
    pub(crate) rule: Vec<RuleRow>,
}

/// A rule for the names of files in a kernel database.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleRow {
    pub(crate) path: String,
    pub(crate) target: Option<String>,
    #[serde(default)]
    pub(crate) within: Within,
    pub(crate) fixed: Option<String>,
    #[serde(default)]
    pub(crate) rename: BTreeMap<String, String>,
}

/// The part of a path in which a rule looks for the target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Within {
    /// The name of the file.
    #[default]
    Name,
    /// A directory below the match of the rule's path.
    Directory,
}

/// One of TheRock's artifacts, of `data/artifacts.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ArtifactRow {
    /// The name that its folders and archives begin with: `core-hip`.
    pub name: String,
    /// The key of the Python distribution that contains it: `core`.
    pub package: Option<String>,
    /// `true` if its parts for one GPU target go into the device packages.
    #[serde(default)]
    pub device: bool,
    /// The reason why no Python distribution contains it.
    pub left_out: Option<String>,
    /// Names of distribution packages; `*` matches any text.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Globs ([`crate::Pattern`]) on the path in the flattened tree.
    #[serde(default)]
    pub files: Vec<String>,
    /// Globs of files that belong to the component `lib`.
    #[serde(default)]
    pub lib: Vec<String>,
    /// Globs of files that belong to the component `run`.
    #[serde(default)]
    pub run: Vec<String>,
    /// The folder of its tree, if that is not `{name}/stage`.
    pub basedir: Option<String>,
    /// An SPDX expression, if it is not [`crate::RocmTables::default_license`].
    pub license: Option<String>,
}

/// DLLs that a set of packages for Windows need not contain, of `data/windows-libraries.toml`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct WindowsNames {
    pub(crate) system: Vec<String>,
    pub(crate) python: Vec<String>,
    pub(crate) runtime: Vec<String>,
    pub(crate) debug: Vec<String>,
    pub(crate) driver: Vec<String>,
}
