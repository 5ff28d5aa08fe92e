//! Input: names, versions and tags as people write them. Output: their forms in file names and
//! metadata (PEP 427 and its later edits, PEP 440, PEP 503, PEP 625).

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use pep440_rs::Version;

use crate::{Error, Headers};

/// The name in its canonical form: lower case, with one `-` for each run of `-`, `_` and `.` (PEP
/// 503).
pub fn canonical_name(name: &str) -> String {
    let mut canonical = String::with_capacity(name.len());
    for character in name.chars() {
        if matches!(character, '-' | '_' | '.') {
            if !canonical.ends_with('-') {
                canonical.push('-');
            }
        } else {
            canonical.extend(character.to_lowercase());
        }
    }
    canonical
}

/// The name in the form for the first part of a file name: canonical, with `_` (PEP 427, PEP 625).
pub fn file_name_part(name: &str) -> String {
    canonical_name(name).replace('-', "_")
}

/// Checks a distribution name: ASCII letters, digits, `-`, `_`, `.`, beginning and ending with a
/// letter or digit (core metadata, Name).
pub fn check_name(name: &str) -> Result<(), Error> {
    let good = !name.is_empty()
        && name.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.'))
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.ends_with(|last: char| last.is_ascii_alphanumeric());
    if good {
        return Ok(());
    }
    let reason = "letters, digits, `-`, `_` and `.`, the first and last a letter or digit";
    Err(Error::name("distribution name", name, reason))
}

/// Checks for texts that the parser of requirements (PEP 508) cannot handle, so it must run first.
/// The parser panics at names and extras that end in a separator, and recurses into parentheses
/// until the stack overflows.
pub fn check_requirement(requirement: &str) -> Result<(), Error> {
    check_nesting(requirement)?;
    let text = requirement.trim_start();
    let rest = text.trim_start_matches(|sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign));
    check_name(&text[..text.len() - rest.len()])?;
    let extras = rest.trim_start().strip_prefix('[').map(|rest| rest.split(']').next().unwrap_or_default());
    let mut extras = extras.into_iter().flat_map(|extras| extras.split(',')).map(str::trim);
    extras.try_for_each(|extra| if extra.is_empty() { Ok(()) } else { check_name(extra) })
}

/// Limits the nesting of parentheses outside of strings to a depth that no real requirement
/// reaches.
fn check_nesting(requirement: &str) -> Result<(), Error> {
    const DEEPEST: usize = 64;
    let (mut depth, mut quote) = (0_usize, None);
    for character in requirement.chars() {
        match (quote, character) {
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            let value = requirement.chars().take(DEEPEST).chain(['…']).collect();
            let reason = format!("more than {DEEPEST} parentheses are open at once");
            return Err(Error::Name { what: "requirement", value, reason });
        }
    }
    Ok(())
}

/// Checks that a version is in the canonical form of PEP 440, which file names and pins require.
pub fn check_version(version: &str) -> Result<(), Error> {
    let parsed = Version::from_str(version).map_err(|error| Error::name("version", version, error.to_string()))?;
    if parsed.to_string() == version {
        return Ok(());
    }
    Err(Error::name("version", version, format!("its canonical form is `{parsed}`")))
}

/// A compatibility tag, `python-abi-platform` (PEP 425).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    /// Interpreter and version: `py3`, `cp311`.
    pub python: String,
    /// ABI: `none`, `abi3`, `cp311`.
    pub abi: String,
    /// Platform: `any`, `manylinux_2_28_x86_64`, `win_amd64`.
    pub platform: String,
}

impl Tag {
    /// `py3-none-PLATFORM`: files for one platform, but no compiled Python module.
    pub fn platform(platform: &str) -> Tag {
        Tag { python: "py3".to_owned(), abi: "none".to_owned(), platform: platform.to_owned() }
    }

    /// `py3-none-any`.
    pub fn any() -> Tag {
        Tag::platform("any")
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}-{}", self.python, self.abi, self.platform)
    }
}

impl FromStr for Tag {
    type Err = Error;

    fn from_str(text: &str) -> Result<Tag, Error> {
        let parts: Vec<&str> = text.split('-').collect();
        let [python, abi, platform] = parts[..] else {
            return Err(Error::name("tag", text, "a tag is python-abi-platform"));
        };
        for part in [python, abi, platform] {
            check_tag_part(part, text)?;
        }
        Ok(Tag { python: python.to_owned(), abi: abi.to_owned(), platform: platform.to_owned() })
    }
}

fn check_tag_part(part: &str, whole: &str) -> Result<(), Error> {
    if !part.is_empty() && part.chars().all(|character| character.is_ascii_alphanumeric() || character == '_') {
        return Ok(());
    }
    Err(Error::name("tag", whole, format!("`{part}` should be letters, digits and `_`")))
}

/// The parts of a wheel's file name: `name-version(-build)?-python-abi-platform.whl` (PEP 427).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WheelName {
    /// Name in the form for file names, with `_` for `-`.
    pub distribution: String,
    /// Version with `_` for `-`; a canonical version (PEP 440) contains neither.
    pub version: String,
    /// Build tag, which begins with a digit.
    pub build: Option<String>,
    /// Interpreters of the compressed tag set, in the order of the file name.
    pub pythons: Vec<String>,
    /// ABIs of the compressed tag set.
    pub abis: Vec<String>,
    /// Platforms of the compressed tag set.
    pub platforms: Vec<String>,
}

impl WheelName {
    /// `true` if the name of a file ends like that of a wheel. Case is ignored, so `X.WHL` leads to
    /// an error about its name and is not silently treated as another kind of file.
    pub fn is_wheel(path: impl AsRef<Path>) -> bool {
        path.as_ref().extension().is_some_and(|extension| extension.eq_ignore_ascii_case("whl"))
    }

    /// The file name of a wheel with these tags, compressed and sorted. Fails if the name or
    /// version is not allowed in a file name, if there are no tags, and if the tags are not a full
    /// product, which one file name cannot express.
    pub fn new(name: &str, version: &str, tags: &[Tag]) -> Result<WheelName, Error> {
        check_name(name)?;
        check_version(version)?;
        let wheel = WheelName {
            distribution: file_name_part(name),
            version: version.to_owned(),
            build: None,
            pythons: distinct(tags.iter().map(|tag| &tag.python)),
            abis: distinct(tags.iter().map(|tag| &tag.abi)),
            platforms: distinct(tags.iter().map(|tag| &tag.platform)),
        };
        for tag in tags {
            for part in [&tag.python, &tag.abi, &tag.platform] {
                check_tag_part(part, &tag.to_string())?;
            }
        }
        if tags.is_empty() || wheel.tags() != tags.iter().cloned().collect() {
            let value = tags.iter().map(Tag::to_string).collect::<Vec<_>>().join(" ");
            let reason = "a file name needs every combination of its interpreters, ABIs and platforms".to_owned();
            return Err(Error::Name { what: "set of tags", value, reason });
        }
        Ok(wheel)
    }

    /// A name without parts, until METADATA and WHEEL are read.
    pub(crate) fn unknown() -> WheelName {
        let (pythons, abis, platforms) = (Vec::new(), Vec::new(), Vec::new());
        WheelName { distribution: String::new(), version: String::new(), build: None, pythons, abis, platforms }
    }

    /// The name that the fields of METADATA and WHEEL give a wheel. Its tags are those of WHEEL,
    /// and more if these are not a full product.
    ///
    /// # Errors
    /// [`Error::Name`] for a field that is missing or wrong.
    pub(crate) fn described(metadata: &Headers, wheel: &Headers) -> Result<WheelName, Error> {
        let (name, version) = (metadata.get("Name").unwrap_or_default(), metadata.get("Version").unwrap_or_default());
        check_name(&name)?;
        let parsed = Version::from_str(&version);
        let version = parsed.map_err(|error| Error::name("version", &version, error.to_string()))?;
        let (mut pythons, mut abis, mut platforms) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for tag in wheel.all("Tag") {
            let parts: Vec<&str> = tag.split('-').collect();
            if let [python, abi, platform] = parts[..] {
                pythons.extend(python.split('.').map(str::to_owned));
                abis.extend(abi.split('.').map(str::to_owned));
                platforms.extend(platform.split('.').map(str::to_owned));
            }
        }
        if pythons.is_empty() {
            return Err(wrong_wheel_name("Tag", "WHEEL has no tag of the form python-abi-platform"));
        }
        Ok(WheelName {
            distribution: file_name_part(&name),
            version: version.to_string(),
            build: wheel.get("Build"),
            pythons: pythons.into_iter().collect(),
            abis: abis.into_iter().collect(),
            platforms: platforms.into_iter().collect(),
        })
    }

    /// All tags of the compressed set.
    pub fn tags(&self) -> BTreeSet<Tag> {
        let mut tags = BTreeSet::new();
        for python in &self.pythons {
            for abi in &self.abis {
                for platform in &self.platforms {
                    tags.insert(Tag { python: python.clone(), abi: abi.clone(), platform: platform.clone() });
                }
            }
        }
        tags
    }

    /// `name-version`, the stem of the names of the `.dist-info` and `.data` folders.
    pub fn stem(&self) -> String {
        format!("{}-{}", self.distribution, self.version)
    }
}

impl fmt::Display for WheelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.distribution, self.version)?;
        if let Some(build) = &self.build {
            write!(formatter, "-{build}")?;
        }
        let (pythons, abis, platforms) = (self.pythons.join("."), self.abis.join("."), self.platforms.join("."));
        write!(formatter, "-{pythons}-{abis}-{platforms}.whl")
    }
}

/// The parts of a wheel's file name as they are in it, without a copy of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WheelNameParts<'n> {
    /// Name in the form for file names.
    pub distribution: &'n str,
    /// Version with `_` for `-`. It may be none: [`WheelNameParts::parsed_version`] tells.
    pub version: &'n str,
    /// Build tag, which begins with a digit.
    pub build: Option<&'n str>,
    /// Interpreters, ABIs and platforms, each a set with `.` between its members.
    pub tags: [&'n str; 3],
}

impl<'n> WheelNameParts<'n> {
    /// Divides a file name, and checks everything but the version.
    ///
    /// # Errors
    /// [`Error::Name`] for text that is not the name of a wheel.
    pub fn parse(text: &'n str) -> Result<WheelNameParts<'n>, Error> {
        let stem = text.strip_suffix(".whl").ok_or_else(|| wrong_wheel_name(text, "it does not end in `.whl`"))?;
        let mut split = stem.split('-');
        let parts: [Option<&str>; 7] = std::array::from_fn(|_| split.next());
        let (distribution, version, build, tags) = match parts {
            [Some(distribution), Some(version), Some(python), Some(abi), Some(platform), None, None] => {
                (distribution, version, None, [python, abi, platform])
            }
            [Some(distribution), Some(version), build, Some(python), Some(abi), Some(platform), None] => {
                (distribution, version, build, [python, abi, platform])
            }
            _ => return Err(wrong_wheel_name(text, "five or six parts separated by `-` are expected")),
        };
        check_name(distribution).map_err(|_| wrong_wheel_name(text, "the first part is not a distribution name"))?;
        if let Some(build) = build
            && !build.starts_with(|first: char| first.is_ascii_digit())
        {
            return Err(wrong_wheel_name(text, "the build tag does not begin with a digit"));
        }
        // The part becomes part of a path.
        if build.is_some_and(|build| build.contains(|sign: char| !sign.is_ascii_graphic() || r"/\:".contains(sign))) {
            return Err(wrong_wheel_name(text, "the build tag has characters that cannot be in a file name"));
        }
        for part in tags.iter().flat_map(|set| set.split('.')) {
            check_tag_part(part, text)?;
        }
        Ok(WheelNameParts { distribution, version, build, tags })
    }

    /// The version.
    ///
    /// # Errors
    /// [`Error::Name`] for a text that is not a version (PEP 440).
    pub fn parsed_version(&self) -> Result<Version, Error> {
        let parsed =
            if self.version.contains('_') { self.version.replace('_', "-").parse() } else { self.version.parse() };
        parsed.map_err(|_| wrong_wheel_name(&self.to_string(), "the second part is not a version"))
    }

    /// The same, with copies of the parts.
    pub fn to_wheel_name(&self) -> WheelName {
        let [pythons, abis, platforms] = self.tags.map(|set| set.split('.').map(str::to_owned).collect());
        WheelName {
            distribution: self.distribution.to_owned(),
            version: self.version.to_owned(),
            build: self.build.map(str::to_owned),
            pythons,
            abis,
            platforms,
        }
    }
}

impl fmt::Display for WheelNameParts<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_wheel_name().fmt(formatter)
    }
}

fn distinct<'t>(parts: impl Iterator<Item = &'t String>) -> Vec<String> {
    parts.cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

fn wrong_wheel_name(text: &str, reason: &str) -> Error {
    Error::name("wheel file name", text, reason)
}

impl FromStr for WheelName {
    type Err = Error;

    fn from_str(text: &str) -> Result<WheelName, Error> {
        let parts = WheelNameParts::parse(text)?;
        parts.parsed_version()?;
        Ok(parts.to_wheel_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_requirements_are_checked() {
        for good in ["a", " a.b >=1", "a[b, c-d]; extra == 'x.'", "a[]", "a (==1)", "a @ file:///x.", "a[ "] {
            assert!(check_requirement(good).is_ok(), "{good}");
        }
        for bad in ["", "a.", "a- >=1", ".a", "a[b.]", "a[c,b_]>=1", "[a]", "ä"] {
            assert!(check_requirement(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nesting_of_requirements_is_bounded() {
        let nested = |depth: usize| format!("a; {}python_version>'3'{}", "(".repeat(depth), ")".repeat(depth));
        assert!(check_requirement(&nested(64)).is_ok());
        assert!(check_requirement(&nested(65)).unwrap_err().to_string().contains("parentheses are open at once"));
        assert!(check_requirement(&format!("a; platform_version == '{}'", "(".repeat(100))).is_ok());
    }

    #[test]
    fn names_are_normalised() {
        assert_eq!(canonical_name("Rocm_SDK--device.gfx94X"), "rocm-sdk-device-gfx94x");
        assert_eq!(file_name_part("rocm-sdk-libraries-gfx94X-dcgpu"), "rocm_sdk_libraries_gfx94x_dcgpu");
        assert!(check_name("rocm-sdk").is_ok());
        for bad in ["", "-a", "a-", "a b", "größe"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn versions_must_be_canonical() {
        for good in ["6.4.0", "10.1.0a20260822", "7.0.0.dev0+abc123", "6.4.0.post1", "1!2.0rc1"] {
            assert!(check_version(good).is_ok(), "{good}");
        }
        for bad in ["6.4.0-1", "6.04", "v1", "1.0.DEV0", "", "x"] {
            assert!(check_version(bad).is_err(), "{bad}");
        }
        let error = check_version("6.4.0-rc1").unwrap_err();
        assert_eq!(error.to_string(), "`6.4.0-rc1` is not a valid version: its canonical form is `6.4.0rc1`");
        assert_eq!(
            rocwheel_progress::Hint::hint(&error).as_deref(),
            Some("write it as `6.4.0rc1`, the canonical form of PEP 440")
        );
    }

    #[test]
    fn wheel_names_are_read_and_written() {
        for text in [
            "rocm_sdk_core-10.1.0a20260822-py3-none-linux_x86_64.whl",
            "a-1.0+rocm6.4-1local-cp311.cp312-abi3.none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        ] {
            assert_eq!(text.parse::<WheelName>().unwrap().to_string(), text);
        }
        let name: WheelName = "a-1.0-2-py2.py3-none-any.whl".parse().unwrap();
        assert_eq!(name.build.as_deref(), Some("2"));
        let tags: Vec<String> = name.tags().iter().map(Tag::to_string).collect();
        assert_eq!(tags, ["py2-none-any", "py3-none-any"]);
        assert!(WheelName::is_wheel("x/a-1.0-py3-none-any.whl") && WheelName::is_wheel("X.WHL"));
        assert!(!WheelName::is_wheel("a.whl.zip") && !WheelName::is_wheel("whl") && !WheelName::is_wheel("x.whl/y"));
        for bad in ["a-1.0-py3-none-any.zip", "a-1.0-py3-none.whl", "a-x-py3-none-any.whl", "a-1-b-py3-none-any.whl"] {
            assert!(bad.parse::<WheelName>().is_err(), "{bad}");
        }
        for bad in ["a-1-2/../x-py3-none-any.whl", r"a-1-2\x-py3-none-any.whl", "a-1-2\n-py3-none-any.whl"] {
            assert!(bad.parse::<WheelName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_name_says_exactly_its_tags() {
        let parse = |tags: &[&str]| tags.iter().map(|tag| tag.parse().unwrap()).collect::<Vec<Tag>>();
        let full = parse(&["cp311-abi3-a", "cp311-abi3-b"]);
        assert_eq!(WheelName::new("A.b", "1.0", &full).unwrap().to_string(), "a_b-1.0-cp311-abi3-a.b.whl");
        assert!(WheelName::new("a", "1.0", &parse(&["cp311-none-a", "cp312-none-b"])).is_err());
        assert!(WheelName::new("a", "1.0", &[]).is_err());
        assert!("py3-none".parse::<Tag>().is_err());
        assert!("py3-none-a.b".parse::<Tag>().is_err());
    }
}
