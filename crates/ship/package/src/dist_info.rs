//! Input: a [`Promise`], the contents of a set of packages. Output: the generated tail of
//! `_dist_info.py`, and the requirements and extras in core metadata (rocm-python-packages spec
//! 2.4, 3.3, appendix A.2 and A.3).
//!
//! AMD's promotion tool edits these lines as text: one assignment per line, at column 0, no
//! annotations.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_tables::target::base_target;
use rocwheel_tables::{DevicePackages, PackageLevel};
use rocwheel_wheel::Platform;

use crate::Logical;

/// The packages, targets and systems that a set offers to the user.
#[derive(Debug, Clone)]
pub struct Promise {
    pub version: String,
    /// Suffix of the import packages that hold files (`--version-suffix`), usually empty.
    pub nonce: String,
    /// Targets (shape `split`) or families (shape `per-family`) that users can request, sorted.
    /// Empty if the set has one neutral `libraries` distribution and no device distributions.
    pub families: Vec<String>,
    /// The families offered on Linux; empty if no list was given.
    pub linux_families: Vec<String>,
    /// The families offered on Windows; empty if no list was given.
    pub windows_families: Vec<String>,
    /// `true` if `libraries` is one distribution for every target.
    pub neutral_libraries: bool,
    pub distributions: BTreeSet<Logical>,
    /// Distributions that a family lacks, although another one has them (in the per-family shape).
    pub lacking: BTreeMap<String, BTreeSet<Logical>>,
    /// Distributions that only one of two systems has.
    pub only_on: BTreeMap<Logical, Platform>,
}

impl Promise {
    /// Returns the promise for one family only (for a selector of the per-family shape).
    #[must_use]
    pub fn restricted_to(&self, family: &str) -> Promise {
        let mut promise = Promise { families: vec![family.to_owned()], ..self.clone() };
        promise.linux_families.retain(|name| name == family);
        promise.windows_families.retain(|name| name == family);
        if let Some(lacking) = self.lacking.get(family) {
            promise.distributions.retain(|logical| !lacking.contains(logical));
        }
        promise
    }

    /// Returns the family that is used if no GPU is found: the first that both systems have, else
    /// the first.
    pub fn default_family(&self) -> Option<&str> {
        self.linux_families
            .iter()
            .find(|family| self.windows_families.contains(family))
            .or_else(|| self.families.first())
            .map(String::as_str)
    }

    /// Returns the only family of the set, if there is just one and the libraries are not neutral
    /// (for a selector of the per-family shape).
    pub fn own_family(&self) -> Option<&str> {
        match self.families.as_slice() {
            [family] if !self.neutral_libraries => Some(family),
            _ => None,
        }
    }

    /// Returns the lines that are appended to the template of `_dist_info.py` for one distribution.
    /// `target` is the package's own target or family.
    pub fn lines(&self, logical: Logical, target: Option<&str>) -> String {
        let mut lines = vec![
            format!("__version__ = {}", repr(&self.version)),
            format!("PY_PACKAGE_SUFFIX_NONCE = {}", repr(&self.nonce)),
        ];
        if self.neutral_libraries {
            lines.push("ALL_PACKAGES[\"libraries\"].dist_package_template = \"rocm-sdk-libraries\"".to_owned());
        }
        if self.neutral_libraries && self.distributions.contains(&Logical::Hpc) {
            lines.push("ALL_PACKAGES[\"hpc\"].dist_package_template = \"rocm-sdk-hpc\"".to_owned());
        }
        for absent in Logical::ALL.into_iter().filter(|logical| !self.distributions.contains(logical)) {
            lines.push(format!("ALL_PACKAGES.pop({}, None)", repr(absent.key())));
        }
        for (logical, system) in &self.only_on {
            let (key, platform) = (repr(logical.key()), repr(system.sys_platform()));
            lines.push(format!("ALL_PACKAGES[{key}].sys_platform = {platform}"));
        }
        if let Some(family) = self.default_family() {
            lines.push(format!("DEFAULT_TARGET_FAMILY = {}", repr(family)));
        }
        for (name, families) in
            [("AVAILABLE", &self.families), ("LINUX", &self.linux_families), ("WINDOWS", &self.windows_families)]
        {
            lines.extend(families.iter().map(|family| format!("{name}_TARGET_FAMILIES.append({})", repr(family))));
        }
        lines.push(format!("THIS_TARGET_FAMILY = {}", target.map_or_else(|| "None".to_owned(), repr)));
        lines.push(format!("THIS_PACKAGE_ENTRY = ALL_PACKAGES[{}]", repr(logical.key())));
        if logical == Logical::Device {
            let libraries = format!("_rocm_sdk_libraries{}", self.nonce);
            lines.push(format!("LIBRARIES_PY_PACKAGE_NAME = {}", repr(&libraries)));
        }
        lines.join("\n") + "\n"
    }

    pub fn distribution_name(&self, logical: Logical, family: Option<&str>) -> String {
        match family.map(base_target).filter(|_| self.is_target_specific(logical)) {
            Some(target) => format!("{}-{target}", logical.distribution()),
            None => logical.distribution(),
        }
    }

    pub fn requirement(&self, logical: Logical, family: Option<&str>) -> String {
        format!("{}=={}", self.distribution_name(logical, family), self.version)
    }

    fn is_target_specific(&self, logical: Logical) -> bool {
        logical == Logical::Device || (logical.is_per_family() && !self.neutral_libraries)
    }

    /// Returns the marker of a distribution, or of one of its targets, that only one of the two
    /// systems has.
    fn marker(&self, logical: Logical, target: Option<&str>) -> Option<String> {
        let system = self.only_on.get(&logical).copied().or_else(|| self.system_of(target?))?;
        Some(format!("sys_platform == \"{}\"", system.sys_platform()))
    }

    fn system_of(&self, target: &str) -> Option<Platform> {
        if self.linux_families.is_empty() || self.windows_families.is_empty() {
            return None;
        }
        let lists = [&self.linux_families, &self.windows_families];
        match lists.map(|list| list.iter().any(|family| base_target(family) == target)) {
            [true, false] => Some(Platform::Linux),
            [false, true] => Some(Platform::Windows),
            _ => None,
        }
    }

    /// Returns the generic targets whose code a target runs where it has none of its own, as far as
    /// the set has their packages on this system.
    pub fn generics_of(&self, target: &str, system: Platform) -> impl Iterator<Item = &str> {
        let packages = DevicePackages::embedded();
        let runs = packages.chain(target).into_iter().filter(|key| packages.level(key) == PackageLevel::Generic);
        let runs: Vec<String> = runs.filter(|key| key != target).collect();
        let offered = self.targets().into_iter().filter(move |family| runs.iter().any(|key| key == family));
        offered.filter(move |family| self.system_of(family).is_none_or(|only| only == system))
    }

    /// Returns extras that are the same on every machine: those of [`Promise::extras`] that do not
    /// depend on a target, and one for each target, even if there is only one.
    pub fn neutral_extras(&self) -> Vec<(String, Vec<ExtraRequirement>)> {
        let mut extras: Vec<(String, Vec<ExtraRequirement>)> = Vec::new();
        for logical in self.optional().into_iter().filter(|logical| !self.is_target_specific(*logical)) {
            let (text, marker) = (self.requirement(logical, None), self.marker(logical, None));
            let requirement = ExtraRequirement { text, marker };
            extras.push((logical.key().to_owned(), vec![requirement]));
        }
        self.add_target_extras(&mut extras);
        extras
    }

    /// Returns the optional distributions in the order of the template's table, which differs from
    /// the planning order.
    fn optional(&self) -> Vec<Logical> {
        [Logical::Libraries, Logical::Device, Logical::Devel, Logical::Profiler, Logical::Hpc]
            .into_iter()
            .filter(|logical| self.distributions.contains(logical))
            .collect()
    }

    fn targets(&self) -> Vec<&str> {
        let mut targets: Vec<&str> = self.families.iter().map(|family| base_target(family)).collect();
        targets.dedup();
        targets
    }

    fn add_target_extras(&self, extras: &mut Vec<(String, Vec<ExtraRequirement>)>) {
        let targets = self.targets();
        for logical in self.optional().into_iter().filter(|logical| self.is_target_specific(*logical)) {
            let mut all = Vec::new();
            for target in &targets {
                let requirement = ExtraRequirement {
                    text: self.requirement(logical, Some(target)),
                    marker: self.marker(logical, Some(target)),
                };
                // Names of extras are normalised (PEP 685); the distribution keeps its spelling.
                extras.push((format!("{logical}-{}", target.to_lowercase()), vec![requirement.clone()]));
                all.push(requirement);
            }
            extras.push((format!("{logical}-all"), all));
        }
    }

    /// Returns the extras of the selector in order, each with its requirements and their markers
    /// (without the `extra == …` part).
    pub fn extras(&self) -> Vec<(String, Vec<ExtraRequirement>)> {
        let default = self.default_family();
        let mut extras: Vec<(String, Vec<ExtraRequirement>)> = self
            .optional()
            .into_iter()
            .map(|logical| {
                let (text, marker) = (self.requirement(logical, default), self.marker(logical, None));
                (logical.key().to_owned(), vec![ExtraRequirement { text, marker }])
            })
            .collect();
        if self.targets().len() > 1 {
            self.add_target_extras(&mut extras);
        }
        extras
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraRequirement {
    /// `name==version`.
    pub text: String,
    /// Environment marker besides the extra, for example `sys_platform == "win32"`.
    pub marker: Option<String>,
}

impl ExtraRequirement {
    /// Returns the value of a Requires-Dist line inside `extra`.
    pub fn requires_dist(&self, extra: &str) -> String {
        match &self.marker {
            Some(marker) => format!("{}; {marker} and extra == \"{extra}\"", self.text),
            None => format!("{}; extra == \"{extra}\"", self.text),
        }
    }
}

/// Returns a Python string literal, quoted as by Python's `repr`.
pub fn repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut literal = String::from(quote);
    for character in text.chars() {
        match character {
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            character if character == quote => {
                literal.push('\\');
                literal.push(character);
            }
            character if character.is_control() => literal.push_str(&format!("\\x{:02x}", character as u32)),
            character => literal.push(character),
        }
    }
    literal.push(quote);
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise() -> Promise {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Promise {
            version: "10.1.0a20260822".into(),
            nonce: String::new(),
            families: list(&["gfx1100", "gfx942"]),
            linux_families: list(&["gfx1100", "gfx942"]),
            windows_families: list(&["gfx1100"]),
            neutral_libraries: true,
            distributions: Logical::ALL.into_iter().collect(),
            lacking: BTreeMap::new(),
            only_on: BTreeMap::new(),
        }
    }

    #[test]
    fn the_lines_are_those_of_appendix_a_2() {
        assert_eq!(
            promise().lines(Logical::Meta, None),
            "__version__ = '10.1.0a20260822'\nPY_PACKAGE_SUFFIX_NONCE = ''\n\
             ALL_PACKAGES[\"libraries\"].dist_package_template = \"rocm-sdk-libraries\"\n\
             ALL_PACKAGES[\"hpc\"].dist_package_template = \"rocm-sdk-hpc\"\n\
             DEFAULT_TARGET_FAMILY = 'gfx1100'\nAVAILABLE_TARGET_FAMILIES.append('gfx1100')\n\
             AVAILABLE_TARGET_FAMILIES.append('gfx942')\nLINUX_TARGET_FAMILIES.append('gfx1100')\n\
             LINUX_TARGET_FAMILIES.append('gfx942')\nWINDOWS_TARGET_FAMILIES.append('gfx1100')\n\
             THIS_TARGET_FAMILY = None\nTHIS_PACKAGE_ENTRY = ALL_PACKAGES['meta']\n"
        );
    }

    #[test]
    fn the_extras_are_those_of_appendix_a_3() {
        let lines: Vec<String> = promise()
            .extras()
            .into_iter()
            .flat_map(|(extra, requirements)| {
                requirements.into_iter().map(move |requirement| requirement.requires_dist(&extra)).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(
            lines,
            [
                "rocm-sdk-libraries==10.1.0a20260822; extra == \"libraries\"",
                "rocm-sdk-device-gfx1100==10.1.0a20260822; extra == \"device\"",
                "rocm-sdk-devel==10.1.0a20260822; extra == \"devel\"",
                "rocm-profiler==10.1.0a20260822; extra == \"profiler\"",
                "rocm-sdk-hpc==10.1.0a20260822; extra == \"hpc\"",
                "rocm-sdk-device-gfx1100==10.1.0a20260822; extra == \"device-gfx1100\"",
                "rocm-sdk-device-gfx942==10.1.0a20260822; sys_platform == \"linux\" and extra == \"device-gfx942\"",
                "rocm-sdk-device-gfx1100==10.1.0a20260822; extra == \"device-all\"",
                "rocm-sdk-device-gfx942==10.1.0a20260822; sys_platform == \"linux\" and extra == \"device-all\"",
            ]
        );
    }

    #[test]
    fn what_is_not_built_is_not_promised() {
        let mut promise = promise();
        promise.distributions.remove(&Logical::Profiler);
        promise.distributions.remove(&Logical::Device);
        promise.families.clear();
        promise.linux_families.clear();
        let names: Vec<String> = promise.extras().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["libraries", "devel", "hpc"]);
        assert!(promise.lines(Logical::Core, None).contains("ALL_PACKAGES.pop('profiler', None)\n"));
    }

    #[test]
    fn what_one_system_lacks_is_marked() {
        let promise = Promise { only_on: BTreeMap::from([(Logical::Profiler, Platform::Linux)]), ..promise() };
        let (_, requirements) = promise.extras().into_iter().find(|(extra, _)| extra == "profiler").unwrap();
        assert_eq!(
            requirements[0].requires_dist("profiler"),
            "rocm-profiler==10.1.0a20260822; sys_platform == \"linux\" and extra == \"profiler\""
        );
        let lines = promise.lines(Logical::Core, None);
        assert!(lines.contains("\nALL_PACKAGES['profiler'].sys_platform = 'linux'\n"), "{lines}");
    }

    #[test]
    fn text_is_data_and_never_code() {
        assert_eq!(repr("it's"), "\"it's\"");
        assert_eq!(repr("'\"\\\n"), "'\\'\"\\\\\\n'");
        assert_eq!(repr("\u{1}"), "'\\x01'");
    }
}
