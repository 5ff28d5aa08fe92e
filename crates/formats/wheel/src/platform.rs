//! Input: the platform tags of wheels. Output: the operating system that they are for.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use rocwheel_progress::{Exit, Hint};
use serde::{Deserialize, Serialize};

use crate::WheelName;

/// An operating system, on x86-64.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Linux, whatever its C library.
    #[default]
    Linux,
    /// 64-bit Windows.
    Windows,
}

impl Platform {
    /// All systems.
    pub const ALL: [Platform; 2] = [Platform::Linux, Platform::Windows];

    /// The system that this program runs on.
    pub fn native() -> Platform {
        if cfg!(windows) { Platform::Windows } else { Platform::Linux }
    }

    /// The lower-case word for options, recipes and reports: `linux`.
    pub fn name(self) -> &'static str {
        match self {
            Platform::Linux => "linux",
            Platform::Windows => "windows",
        }
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Platform {
        match self {
            Platform::Linux => Platform::Windows,
            Platform::Windows => Platform::Linux,
        }
    }

    /// The value of Python's `sys.platform`, which markers compare (PEP 508).
    pub fn sys_platform(self) -> &'static str {
        match self {
            Platform::Linux => "linux",
            Platform::Windows => "win32",
        }
    }

    /// The system of a platform tag; `None` for `any`.
    pub fn of_tag(tag: &str) -> Option<Platform> {
        match tag {
            "any" => None,
            _ if tag.starts_with("win") => Some(Platform::Windows),
            _ => Some(Platform::Linux),
        }
    }

    /// The system of an environment that wheels with these platform tags make together: Windows
    /// when one of them is for nothing else, and none is for another system.
    pub fn of_wheels<'t>(wheels: impl IntoIterator<Item = &'t [String]>) -> Platform {
        let (mut windows, mut others) = (false, false);
        for platforms in wheels {
            windows |= Platform::Windows.is_all_of(platforms);
            others |= Platform::Linux.is_all_of(platforms);
        }
        if windows && !others { Platform::Windows } else { Platform::Linux }
    }

    /// As [`Platform::of_wheels`], by the file names of wheels; other files are ignored.
    pub fn of_files<P: AsRef<Path>>(wheels: &[P]) -> Platform {
        let names = wheels.iter().filter_map(|path| path.as_ref().file_name()?.to_str()?.parse::<WheelName>().ok());
        let platforms: Vec<Vec<String>> = names.map(|name| name.platforms).collect();
        Platform::of_wheels(platforms.iter().map(Vec::as_slice))
    }

    /// `true` if a wheel with these platform tags is for this system and nothing else.
    pub fn is_all_of(self, platforms: &[String]) -> bool {
        !platforms.is_empty() && platforms.iter().all(|tag| Platform::of_tag(tag) == Some(self))
    }

    /// `true` if this system installs a distribution with these platform tags. One without tags was
    /// installed already.
    pub fn takes(self, platforms: &[String]) -> bool {
        platforms.is_empty() || platforms.iter().any(|tag| Platform::of_tag(tag).is_none_or(|system| system == self))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Platform::Linux => "Linux",
            Platform::Windows => "Windows",
        })
    }
}

impl FromStr for Platform {
    type Err = UnknownPlatform;

    fn from_str(text: &str) -> Result<Self, UnknownPlatform> {
        let named = Platform::ALL.into_iter().find(|platform| platform.name() == text);
        named.ok_or_else(|| UnknownPlatform { text: text.to_owned() })
    }
}

/// A text that is not the name of a [`Platform`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no platform `{text}`")]
pub struct UnknownPlatform {
    /// The text as the user wrote it.
    pub text: String,
}

impl Hint for UnknownPlatform {
    fn hint(&self) -> Option<String> {
        Some(rocwheel_progress::suggestion(&self.text, Platform::ALL.into_iter().map(Platform::name)))
    }

    fn exit(&self) -> Exit {
        Exit::Usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        for platform in Platform::ALL {
            assert_eq!(platform.name().parse(), Ok(platform));
        }
        let error = "window".parse::<Platform>().unwrap_err();
        assert!(error.hint().is_some_and(|hint| hint.contains("windows")), "{error}");
    }

    #[test]
    fn a_tag_names_its_system() {
        assert_eq!(Platform::of_tag("any"), None);
        assert_eq!(Platform::of_tag("win_amd64"), Some(Platform::Windows));
        assert_eq!(Platform::of_tag("manylinux_2_28_x86_64"), Some(Platform::Linux));
    }

    #[test]
    fn wheels_for_windows_make_an_environment_for_windows() {
        let of = |wheels: &[&[&str]]| {
            let wheels: Vec<Vec<String>> =
                wheels.iter().map(|tags| tags.iter().map(|tag| (*tag).to_owned()).collect()).collect();
            Platform::of_wheels(wheels.iter().map(Vec::as_slice))
        };
        assert_eq!(of(&[&["win_amd64"]]), Platform::Windows);
        assert_eq!(of(&[&["win_amd64"], &["any"], &[]]), Platform::Windows);
        assert_eq!(of(&[&["any"]]), Platform::Linux);
        assert_eq!(of(&[]), Platform::Linux);
        assert_eq!(of(&[&["win_amd64"], &["manylinux2014_x86_64"]]), Platform::Linux);
        assert_eq!(of(&[&["win_amd64", "linux_x86_64"]]), Platform::Linux);
    }

    #[test]
    fn a_system_takes_what_its_tags_allow() {
        let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        for platform in [Platform::Linux, Platform::Windows] {
            assert!(platform.takes(&[]) && platform.takes(&tags(&["any"])));
            assert!(platform.takes(&tags(&["win_amd64", "linux_x86_64"])));
        }
        assert!(!Platform::Linux.takes(&tags(&["win_amd64"])));
        assert!(!Platform::Windows.takes(&tags(&["manylinux_2_28_x86_64"])));
    }
}
