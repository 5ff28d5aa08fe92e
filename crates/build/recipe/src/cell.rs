//! One combination of everything that a build can vary: a cell of the matrix.

use std::collections::{BTreeMap, BTreeSet};

pub use rocwheel_wheel::{Platform, PythonVersion};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Defines enums whose values have names, for command lines and recipes.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident, $what:literal { $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// The names of all values.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The name of this value.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.write_str(self.name())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::error::Error;

            fn from_str(text: &str) -> Result<Self, $crate::error::Error> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::error::Error::Unknown {
                        what: $what,
                        name: text.to_owned(),
                        place: String::new(),
                        hint: rocwheel_progress::suggestion(text, Self::NAMES.iter().copied()),
                    }),
                }
            }
        }
    };
}

pub(crate) use named;

named! {
    /// The purpose of a build, which decides how versions are written (TheRock's release types).
    BuildPurpose, "release type" {
        /// Continuous integration.
        Ci = "ci",
        /// Development; versions name the commit.
        Dev = "dev",
        /// Development against the best known configuration; versions name the commit.
        DevBkc = "dev-bkc",
        /// Nightly.
        Nightly = "nightly",
        /// Nightly, against the best known configuration.
        NightlyBkc = "nightly-bkc",
        /// Prereleases and releases.
        Prerelease = "prerelease",
    }
}

named! {
    /// The cache that compilers are called through.
    CompilerCache, "compiler cache" {
        /// No cache.
        None = "none",
        /// ccache.
        Ccache = "ccache",
        /// sccache, for the device compiler too.
        Sccache = "sccache",
        /// sccache for host code only.
        SccacheNoWrap = "sccache-no-wrap",
    }
}

named! {
    /// The kind of result.
    BuildMode, "mode" {
        /// A wheel is built.
        Wheel = "wheel",
        /// The sources are installed in place, in an environment (`--develop`).
        Develop = "develop",
    }
}

named! {
    /// The state of an option.
    Switch, "switch" {
        /// The option is on.
        On = "on",
        /// The option is off.
        Off = "off",
    }
}

named! {
    /// How the build gets ROCm.
    #[derive(Default)]
    SdkKind, "kind of ROCm" {
        /// From Python packages (`rocm[libraries,devel]`). The result requires them and finds its
        /// libraries in them.
        #[default]
        Packages = "packages",
        /// From an installed folder, such as `/opt/rocm`. The result requires no ROCm package.
        Prefix = "prefix",
        /// The backend is built without ROCm.
        None = "none",
    }
}

named! {
    /// The versions of the ROCm packages that a result accepts.
    #[derive(Default)]
    VersionLock, "version lock" {
        /// Only the version it was built against.
        #[default]
        Exact = "exact",
        /// All versions with the same first two numbers (`7.10.*`).
        Minor = "minor",
    }
}

named! {
    /// How the local part of a version names ROCm, in recipes that let the user choose.
    #[derive(Default)]
    LabelStyle, "style of labels" {
        /// `rocm6.2torch2.5`.
        #[default]
        Dotted = "dotted",
        /// `rocm62torch2.5`. 7.14 and the fourth patch of 7.1 look the same.
        Compact = "compact",
    }
}

impl LabelStyle {
    /// The first two numbers of a ROCm version in this style.
    pub fn rocm(self, version: &str) -> String {
        match self {
            LabelStyle::Dotted => minor(version),
            LabelStyle::Compact => minor(version).replace('.', ""),
        }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_default(&self) -> bool {
        *self == LabelStyle::default()
    }
}

named! {
    /// How a wheel is repaired so that it loads on other machines (the modes of `rocwheel repair`).
    Repair, "way of repair" {
        /// The wheel stays unchanged.
        None = "none",
        /// The machine's libraries are copied into the wheel.
        Graft = "graft",
        /// The machine's libraries are copied into the wheel, except those of ROCm and torch: they
        /// are found in their own wheels.
        Rocm = "rocm",
    }
}

impl Switch {
    /// `true` for [`Switch::On`].
    pub fn is_on(self) -> bool {
        self == Switch::On
    }
}

impl From<bool> for Switch {
    fn from(on: bool) -> Switch {
        if on { Switch::On } else { Switch::Off }
    }
}

/// The source of the GPU targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChosenBy {
    /// The user who asked for the build.
    User,
    /// The GPUs of the machine, which name the targets.
    Machine,
    /// The image that the job runs in, through its `PYTORCH_ROCM_ARCH`.
    Image,
    /// The ROCm packages that the job builds against: the family in the address of their index,
    /// their names, or their own list.
    Sdk,
    /// The recipe's own list.
    Recipe,
    /// The list of the project's own wheels, in the sources.
    Sources,
    /// The ROCm that the job builds against, once the job runs.
    Rocm,
    /// No targets: nothing is compiled for GPUs.
    Nobody,
}

/// The cell as the user asked for it; `None` and empty values are decided by the recipe or the
/// machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cell {
    /// The platform of the build and the result.
    pub platform: Platform,
    /// Python of the wheel. `None`: the one that runs the build, and the wheel's tags do not name
    /// it.
    #[serde(with = "optional_text", default)]
    pub python: Option<PythonVersion>,
    /// ROCm as `7.2` or `7.2.1`. `None`: the SDK's, known when the job runs.
    #[serde(default)]
    pub rocm: Option<String>,
    /// Major release of LLVM in that ROCm's compiler, if it is known beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llvm: Option<u32>,
    /// How the build gets that ROCm.
    #[serde(default)]
    pub sdk: SdkKind,
    /// The versions of the ROCm packages that the result accepts.
    #[serde(default)]
    pub rocm_lock: VersionLock,
    /// torch to build against (`2.9`, `2.9.1`).
    #[serde(default)]
    pub torch: Option<String>,
    /// The triton that this torch requires, first two numbers, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triton: Option<String>,
    /// Version of the framework, if it decides anything in the recipe.
    #[serde(default)]
    pub version: Option<String>,
    /// GPU targets that the sources themselves name; empty: they name none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_targets: Vec<String>,
    /// One of the recipe's backends; `None`: the recipe's first.
    #[serde(default)]
    pub backend: Option<String>,
    /// GPU targets, sorted by the code that sets them; empty: the recipe's.
    #[serde(default)]
    pub targets: Vec<String>,
    /// The source of `targets`.
    pub chosen_by: ChosenBy,
    pub release: BuildPurpose,
    /// The cache that compilers are called through.
    pub compiler_cache: CompilerCache,
    /// The kind of result.
    pub mode: BuildMode,
    /// On: files of earlier builds are removed from the tree first.
    pub clean: Switch,
    /// Features that the user switched on or off.
    #[serde(default)]
    pub features: BTreeMap<String, Switch>,
    /// Recipes that the same run builds before this one; their wheels are available.
    #[serde(default)]
    pub with: BTreeSet<String>,
    /// Local part of the version, without `+`; `None`: derived from the installed ROCm.
    #[serde(default)]
    pub label: Option<String>,
    /// How the local part names ROCm when the user gives none.
    #[serde(default, skip_serializing_if = "LabelStyle::is_default")]
    pub label_style: LabelStyle,
    /// The build number, which distinguishes builds of one version.
    pub build_number: u32,
    /// `None`: PyTorch's index for the ROCm version.
    #[serde(default)]
    pub torch_index: Option<String>,
    /// On: the build sees the interpreter's own packages.
    pub system_packages: Switch,
}

impl Cell {
    /// A cell with defaults for everything but the platform.
    pub fn new(platform: Platform) -> Cell {
        Cell {
            platform,
            python: None,
            rocm: None,
            llvm: None,
            sdk: SdkKind::default(),
            rocm_lock: VersionLock::default(),
            torch: None,
            triton: None,
            version: None,
            source_targets: Vec::new(),
            backend: None,
            targets: Vec::new(),
            chosen_by: ChosenBy::Recipe,
            release: BuildPurpose::Nightly,
            compiler_cache: CompilerCache::None,
            mode: BuildMode::Wheel,
            clean: Switch::Off,
            features: BTreeMap::new(),
            with: BTreeSet::new(),
            label: None,
            label_style: LabelStyle::default(),
            build_number: 1,
            torch_index: None,
            system_packages: Switch::Off,
        }
    }

    /// Replaces `{rocm}` and `{torch}` in an address or path by the versions of the cell.
    pub fn fill_versions(&self, text: &str) -> Result<String, Error> {
        let mut filled = text.to_owned();
        for (name, option, value) in [("{rocm}", "--rocm", &self.rocm), ("{torch}", "--torch", &self.torch)] {
            if !filled.contains(name) {
                continue;
            }
            let Some(value) = value else {
                return Err(Error::request(format!("`{name}` in `{text}` needs `{option}`")));
            };
            filled = filled.replace(name, value);
        }
        Ok(filled)
    }
}

/// Compares Python versions by number: `3.9` before `3.13` before `3.13t`. A text that is not a
/// version comes last.
pub fn compare_python_versions(one: &str, other: &str) -> std::cmp::Ordering {
    let [first, second] = [one, other].map(|text| {
        let begin = text.split([' ', '+']).next().unwrap_or(text);
        begin.parse::<PythonVersion>().map_or((true, None), |version| (false, Some(version)))
    });
    first.cmp(&second).then_with(|| one.cmp(other))
}

/// The first two numbers of a version: `2.9.1` → `2.9`.
pub fn minor(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Serializes optional values as strings.
pub(crate) mod optional_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize as _, Deserializer, Serializer};

    #[allow(clippy::ref_option, reason = "serde calls it so")]
    pub(crate) fn serialize<T: Display, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_wrong_ones_get_the_nearest() {
        let error = "nightley".parse::<BuildPurpose>().unwrap_err();
        assert_eq!(error.to_string(), "there is no release type `nightley`");
        assert_eq!(rocwheel_progress::Hint::hint(&error).unwrap(), "did you mean `nightly`?");
        assert_eq!(minor("2.9.1"), "2.9");
        assert_eq!(minor("2"), "2");
    }

    #[test]
    fn a_cell_survives_json() {
        let cell = Cell { python: Some("3.13t".parse().unwrap()), ..Cell::new(Platform::Linux) };
        let text = serde_json::to_string(&cell).unwrap();
        assert!(text.contains(r#""python":"3.13t""#), "{text}");
        assert_eq!(serde_json::from_str::<Cell>(&text).unwrap(), cell);
    }
}
