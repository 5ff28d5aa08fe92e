//! One combination of everything a build can vary in: a cell of the matrix.

use std::collections::{BTreeMap, BTreeSet};

pub use rocwheel_wheel::PythonVersion;
use serde::{Deserialize, Serialize};

/// Enums whose values have names, for command lines and recipes.
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

            /// The name of this one.
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
                        hint: rocwheel_report::suggestion(text, Self::NAMES.iter().copied()),
                    }),
                }
            }
        }
    };
}

pub(crate) use named;

named! {
    /// The system that is built on and for.
    Platform, "platform" {
        /// Linux on x86-64.
        Linux = "linux",
        /// Windows on x86-64.
        Windows = "windows",
    }
}

named! {
    /// What a build is for, which decides how versions are written (TheRock's release types).
    Release, "release type" {
        /// Continuous integration.
        Ci = "ci",
        /// Development; versions name the commit.
        Dev = "dev",
        /// Development against the best known configuration; versions name the commit.
        DevBkc = "dev-bkc",
        /// Every night.
        Nightly = "nightly",
        /// Every night against the best known configuration.
        NightlyBkc = "nightly-bkc",
        /// Before a release, and releases.
        Prerelease = "prerelease",
    }
}

named! {
    /// What compilers are called through.
    CompilerCache, "compiler cache" {
        /// Nothing.
        None = "none",
        /// ccache.
        Ccache = "ccache",
        /// sccache, the device compiler too.
        Sccache = "sccache",
        /// sccache for host code only.
        SccacheNoWrap = "sccache-no-wrap",
    }
}

named! {
    /// What comes out.
    Mode, "mode" {
        /// A wheel.
        Wheel = "wheel",
        /// An environment in which the sources are installed in place (`--develop`).
        Develop = "develop",
    }
}

named! {
    /// Whether something is wanted.
    Switch, "switch" {
        /// It is.
        On = "on",
        /// It is not.
        Off = "off",
    }
}

named! {
    /// How ROCm comes to the build.
    #[derive(Default)]
    SdkKind, "kind of ROCm" {
        /// As Python packages (`rocm[libraries,devel]`), which the result then requires and finds
        /// its libraries in.
        #[default]
        Packages = "packages",
        /// As a folder that is already installed, such as `/opt/rocm`; the result requires no
        /// package of ROCm.
        Prefix = "prefix",
        /// Not at all: the backend is built without it.
        None = "none",
    }
}

named! {
    /// Which versions of ROCm's packages a result takes.
    #[derive(Default)]
    VersionLock, "version lock" {
        /// The one it was built against.
        #[default]
        Exact = "exact",
        /// All of the same first two numbers (`7.10.*`).
        Minor = "minor",
    }
}

named! {
    /// How the local part of a version names ROCm, in recipes that leave it to the user.
    #[derive(Default)]
    LabelStyle, "style of labels" {
        /// `rocm6.2torch2.5`.
        #[default]
        Dotted = "dotted",
        /// `rocm62torch2.5`, which cannot tell 7.14 from the fourth patch of 7.1.
        Compact = "compact",
    }
}

impl LabelStyle {
    /// The first two numbers of a version of ROCm in this style.
    pub(crate) fn rocm(self, version: &str) -> String {
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
    /// How a wheel is made to load on other machines (the modes of `rocwheel repair`).
    Repair, "way of repair" {
        /// Not at all.
        None = "none",
        /// Libraries of the machine are copied into it.
        Graft = "graft",
        /// The same, but ROCm and torch are found in their own wheels.
        Rocm = "rocm",
    }
}

impl Switch {
    /// Whether it is on.
    pub fn is_on(self) -> bool {
        self == Switch::On
    }
}

impl From<bool> for Switch {
    fn from(on: bool) -> Switch {
        if on { Switch::On } else { Switch::Off }
    }
}

/// Who chose the GPU targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChosenBy {
    /// Whoever asked for the build.
    User,
    /// The GPUs of the machine.
    Machine,
    /// The image that the job runs in, by its `PYTORCH_ROCM_ARCH`.
    Image,
    /// The ROCm that is built against: the family in the address of its index, the names of its
    /// packages, or its own list.
    Sdk,
    /// The recipe.
    Recipe,
    /// The ROCm that is built against, when the job runs.
    Rocm,
    /// Nobody: nothing is compiled for GPUs.
    Nobody,
}

/// What is to be built, as far as anybody said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cell {
    /// The system.
    pub platform: Platform,
    /// Python of the wheel; `None`: the one that runs the build, and no tag of the wheel names it.
    #[serde(with = "optional_text", default)]
    pub python: Option<PythonVersion>,
    /// ROCm as `7.2` or `7.2.1`; `None`: that of the SDK, known when the job runs.
    #[serde(default)]
    pub rocm: Option<String>,
    /// Release of LLVM that the compiler of that ROCm is, where that is known beforehand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llvm: Option<u32>,
    /// How that ROCm comes to the build.
    #[serde(default)]
    pub sdk: SdkKind,
    /// Which versions of its packages the result takes.
    #[serde(default)]
    pub rocm_lock: VersionLock,
    /// torch that is built against (`2.9`, `2.9.1`).
    #[serde(default)]
    pub torch: Option<String>,
    /// Version of the framework, as far as it decides anything in the recipe.
    #[serde(default)]
    pub version: Option<String>,
    /// One of the recipe's backends; `None`: its first.
    #[serde(default)]
    pub backend: Option<String>,
    /// GPU targets, sorted by whoever chose them; empty: the recipe's.
    #[serde(default)]
    pub targets: Vec<String>,
    /// Who chose them.
    pub chosen_by: ChosenBy,
    /// What it is for.
    pub release: Release,
    /// What compilers are called through.
    pub compiler_cache: CompilerCache,
    /// What comes out.
    pub mode: Mode,
    /// Whether what earlier builds left in the tree is removed first.
    pub clean: Switch,
    /// Features that somebody switched.
    #[serde(default)]
    pub features: BTreeMap<String, Switch>,
    /// Recipes whose wheels are built before in the same run and are there.
    #[serde(default)]
    pub with: BTreeSet<String>,
    /// Local part of the version, without `+`; `None`: as the ROCm that is there says.
    #[serde(default)]
    pub label: Option<String>,
    /// How the local part names ROCm when the user gives none.
    #[serde(default, skip_serializing_if = "LabelStyle::is_default")]
    pub label_style: LabelStyle,
    /// Counts builds of one version.
    pub build_number: u32,
    /// Index of torch wheels; `None`: PyTorch's for the version of ROCm.
    #[serde(default)]
    pub torch_index: Option<String>,
    /// Whether the interpreter's own packages are seen by the build.
    pub system_packages: Switch,
}

impl Cell {
    /// A build about which nothing was said.
    pub fn new(platform: Platform) -> Cell {
        Cell {
            platform,
            python: None,
            rocm: None,
            llvm: None,
            sdk: SdkKind::default(),
            rocm_lock: VersionLock::default(),
            torch: None,
            version: None,
            backend: None,
            targets: Vec::new(),
            chosen_by: ChosenBy::Recipe,
            release: Release::Nightly,
            compiler_cache: CompilerCache::None,
            mode: Mode::Wheel,
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
}

/// The first two numbers of a version: `2.9.1` → `2.9`.
pub(crate) fn minor(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Values that are texts in files.
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
        assert_eq!("windows".parse::<Platform>().unwrap(), Platform::Windows);
        let error = "nightley".parse::<Release>().unwrap_err();
        assert_eq!(error.to_string(), "there is no release type `nightley`");
        assert_eq!(rocwheel_report::Hint::hint(&error).unwrap(), "did you mean `nightly`?");
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
