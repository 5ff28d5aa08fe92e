//! Input: a GPU target in one of its spellings: `gfx90a:xnack+`, a bundle id, the runtime's ISA
//! name. Output: its parts, its sort order, and the order in which the runtime looks for its code.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use rocwheel_progress::Failure;

use crate::RocmTables;

/// Characters that the name of a processor may contain besides letters and digits. The name becomes
/// part of file names.
const PUNCTUATION: &[char] = &['-', '_', '.'];

/// A GPU target: a processor, and the two features that a code object can be built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TargetId {
    /// `gfx90a`, `gfx9-4-generic`, `gfx1250-strict`; a name that is in no table stays unchanged.
    pub processor: String,
    /// The XNACK feature: page faults are retried.
    pub xnack: Feature,
    /// The SRAM ECC feature: the memory on the chip corrects errors.
    pub sramecc: Feature,
}

/// The requirement of a target on a feature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// No requirement: the code runs with the feature and without it.
    #[default]
    Any,
    /// `+`: the code runs only with it.
    On,
    /// `-`: the code runs only without it.
    Off,
}

impl Feature {
    fn sign(self) -> Option<char> {
        match self {
            Self::Any => None,
            Self::On => Some('+'),
            Self::Off => Some('-'),
        }
    }
}

impl TargetId {
    /// A processor without features.
    pub fn plain(processor: impl Into<String>) -> Self {
        Self { processor: processor.into(), xnack: Feature::Any, sramecc: Feature::Any }
    }

    /// The targets whose code a GPU of this target can run, in the order in which the runtime's
    /// loader asks for them: all features first, then fewer. The rightmost feature is dropped first
    /// (spec 4.2).
    pub fn compatible(&self) -> Vec<Self> {
        let mut found = Vec::with_capacity(4);
        let [sramecc, xnack] = [self.sramecc, self.xnack]
            .map(|feature| if feature == Feature::Any { vec![feature] } else { vec![feature, Feature::Any] });
        for sramecc in sramecc {
            for &xnack in &xnack {
                found.push(Self { processor: self.processor.clone(), xnack, sramecc });
            }
        }
        found
    }

    /// The generic target, with the same features, that the runtime tries if there is no code for
    /// this target.
    pub fn generic(&self) -> Option<Self> {
        let processor = generic_processors().get(self.processor.as_str())?;
        Some(Self { processor: (*processor).to_owned(), ..self.clone() })
    }

    /// All targets that the loader asks for on a GPU of this target: [`TargetId::compatible`], then
    /// the same for [`TargetId::generic`].
    pub fn lookup_order(&self) -> Vec<Self> {
        let mut found = self.compatible();
        found.extend(self.generic().iter().flat_map(Self::compatible));
        found
    }
}

fn generic_processors() -> &'static BTreeMap<&'static str, &'static str> {
    static TABLE: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
        let rows = RocmTables::in_use().targets.iter();
        rows.filter_map(|row| Some((row.name.as_str(), row.generic.as_deref()?))).collect()
    });
    &TABLE
}

/// `gfx90a:sramecc+:xnack-`. Bundle ids list the features in this order, and the loader looks them
/// up in it.
impl fmt::Display for TargetId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.processor)?;
        for (name, feature) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            if let Some(sign) = feature.sign() {
                write!(formatter, ":{name}{sign}")?;
            }
        }
        Ok(())
    }
}

/// Parses `gfx90a:xnack+`, `gfx90a-xnack+` (file names), `amdgcn-amd-amdhsa--gfx90a:xnack+` (the
/// runtime) and `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+` (bundles). The features may be in any
/// order.
impl FromStr for TargetId {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        parse(text).map_err(|reason| Failure::message(format!("`{text}` is no GPU target: {reason}")))
    }
}

fn parse(text: &str) -> Result<TargetId, &'static str> {
    let name = if text.starts_with("gfx") { text } else { of_bundle_id(text).unwrap_or(text) };
    let name = name.replace("-xnack", ":xnack").replace("-sramecc", ":sramecc");
    let mut parts = name.split(':');
    let processor = parts.next().unwrap_or_default();
    if processor.is_empty() {
        return Err("it names no processor");
    }
    let is_valid = processor.chars().all(|letter| letter.is_ascii_alphanumeric() || PUNCTUATION.contains(&letter));
    if !is_valid || !processor.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return Err("a processor's name has letters, digits, `-`, `_` and `.` only");
    }
    let mut target = TargetId::plain(processor);
    for part in parts {
        let value = match part.chars().next_back() {
            Some('+') => Feature::On,
            Some('-') => Feature::Off,
            _ => return Err("a feature ends with `+` or `-`"),
        };
        let feature = match &part[..part.len() - 1] {
            "xnack" => &mut target.xnack,
            "sramecc" => &mut target.sramecc,
            _ => return Err("the features are `sramecc` and `xnack`"),
        };
        if std::mem::replace(feature, value) != Feature::Any {
            return Err("it has a feature twice");
        }
    }
    Ok(target)
}

impl Ord for TargetId {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.to_string(), &other.to_string())
    }
}

impl PartialOrd for TargetId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The target in the id of a bundle entry: kind, triple and target, joined by `-`. `None` for the
/// host's entry and for ids of another form.
///
/// The triple has four parts, of which the environment is usually empty: the target is the text
/// after the last `--`. A newer compiler may write the environment
/// (`hip-amdgcn-amd-amdhsa-unknown-gfx906`). The one of ROCm 4.0 wrote three parts
/// (`hip-amdgcn-amd-amdhsa-gfx1010`), as in the wheel cupy-rocm-4-0 10.6.0.
pub fn of_bundle_id(id: &str) -> Option<&str> {
    if id.starts_with("host-") {
        return None;
    }
    let target = if let Some((_, target)) = id.rsplit_once("--") {
        target
    } else {
        let rest = id.splitn(5, '-').nth(4)?;
        if rest.starts_with("gfx") { rest } else { rest.split_once('-')?.1 }
    };
    (!target.is_empty()).then_some(target)
}

/// The target without its features: the text before the first `:` (`gfx942` for `gfx942:xnack+`).
pub fn base_target(target: &str) -> &str {
    target.split(':').next().unwrap_or(target)
}

/// `true` if a processor has a name of the form `gfx90a`, `gfx1250-strict` or `gfx9-4-generic`.
pub fn is_processor(processor: &str) -> bool {
    let Some(rest) = processor.strip_prefix("gfx") else { return false };
    let (number, suffix) = rest.split_once('-').unwrap_or((rest, ""));
    let digits = number.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let is_generic = suffix == "generic" || suffix.ends_with("-generic");
    digits && !number.is_empty() && if is_generic { true } else { number.len() >= 3 && matches!(suffix, "" | "strict") }
}

/// Orders targets for people: by major, minor and stepping, so `gfx90a` comes before `gfx942` and
/// both before `gfx1010`. The last two characters of a name are hexadecimal digits, those before
/// them are decimal. Variants of a target (`gfx942:xnack+`, `gfx1250-strict`) follow it and are
/// ordered as text. An `X` in a family matches any digit and comes after all of them:
/// `gfx94X-dcgpu` after `gfx942`, before `gfx950` and `gfx110X-all`. Names of another form come
/// last, ordered as text.
pub fn compare(left: &str, right: &str) -> Ordering {
    key(left).cmp(&key(right)).then_with(|| left.cmp(right))
}

fn key(target: &str) -> (bool, u32, u32) {
    let base = base_target(target);
    let name = base.split('-').next().unwrap_or(base);
    let parsed = name.strip_prefix("gfx").and_then(|digits| {
        let split = digits.len().checked_sub(2).filter(|split| *split > 0 && digits.is_ascii())?;
        let (major, rest) = digits.split_at(split);
        let number = rest.chars().try_fold(0, |number, character| match character {
            '0'..='9' | 'a'..='f' => Some(number * 17 + character.to_digit(16)?),
            'X' => Some(number * 17 + 16),
            _ => None,
        });
        let major = major.bytes().all(|byte| byte.is_ascii_digit()).then(|| major.parse().ok())?;
        Some((major?, number?))
    });
    parsed.map_or((true, 0, 0), |(major, rest)| (false, major, rest))
}

/// Sorts with [`compare`] and removes duplicates.
pub fn sort(targets: &mut Vec<String>) {
    targets.sort_by(|left, right| compare(left, right));
    targets.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_the_same_target() {
        for (spelled, written) in [
            ("gfx90a", "gfx90a"),
            ("gfx90a:xnack+", "gfx90a:xnack+"),
            ("gfx90a-xnack-", "gfx90a:xnack-"),
            ("gfx90a-sramecc--xnack+", "gfx90a:sramecc-:xnack+"),
            ("gfx90a:xnack+:sramecc-", "gfx90a:sramecc-:xnack+"),
            ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", "gfx90a:xnack+"),
            ("hip-amdgcn-amd-amdhsa--gfx906", "gfx906"),
            ("hip-amdgcn-amd-amdhsa-gfx1010", "gfx1010"),
            ("hip-amdgcn-amd-amdhsa-gfx9-4-generic:xnack-", "gfx9-4-generic:xnack-"),
            ("hip-amdgcn-amd-amdhsa-unknown-gfx9-4-generic:xnack-", "gfx9-4-generic:xnack-"),
            ("hipv4-spirv64-amd-amdhsa--amdgcnspirv", "amdgcnspirv"),
            ("amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", "gfx942:sramecc+:xnack-"),
            ("gfx1250-strict", "gfx1250-strict"),
            ("gfx12-generic", "gfx12-generic"),
            ("gfx9999", "gfx9999"),
        ] {
            let target: TargetId = spelled.parse().unwrap();
            assert_eq!(target.to_string(), written, "{spelled}");
            assert_eq!(written.parse::<TargetId>().unwrap(), target);
        }
    }

    #[test]
    fn names_that_are_no_targets_are_refused() {
        for (text, reason) in [
            ("", "no processor"),
            (":xnack+", "no processor"),
            ("../gfx90a", "letters, digits"),
            ("gfx90a/x", "letters, digits"),
            (".gfx90a", "letters, digits"),
            ("gfx90a:xnack", "ends with"),
            ("gfx90a:", "ends with"),
            ("gfx90a:é", "ends with"),
            ("gfx90a:wave64+", "`sramecc` and `xnack`"),
            ("gfx90a:xnack+:xnack-", "twice"),
        ] {
            let error = text.parse::<TargetId>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(&format!("`{text}`")), "{error}");
        }
    }

    #[test]
    fn the_host_has_no_target() {
        for id in
            ["host-x86_64-unknown-linux--", "host-x86_64-unknown-linux-gnu-", "host-x86_64-unknown-linux", "x", "a--"]
        {
            assert_eq!(of_bundle_id(id), None, "{id}");
        }
    }

    fn texts(targets: &[TargetId]) -> Vec<String> {
        targets.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_loader_drops_features_from_the_right_and_then_tries_the_generic_target() {
        let target: TargetId = "gfx942:sramecc+:xnack-".parse().unwrap();
        assert_eq!(
            texts(&target.compatible()),
            ["gfx942:sramecc+:xnack-", "gfx942:sramecc+", "gfx942:xnack-", "gfx942"]
        );
        assert_eq!(texts(&TargetId::plain("gfx1100").compatible()), ["gfx1100"]);
        assert_eq!(texts(&TargetId::plain("gfx1100").lookup_order()), ["gfx1100", "gfx11-generic"]);
        let order = texts(&"gfx906:sramecc-:xnack+".parse::<TargetId>().unwrap().lookup_order());
        assert_eq!(order.len(), 8);
        assert_eq!(order[4], "gfx9-generic:sramecc-:xnack+");
        assert_eq!(TargetId::plain("gfx90a").generic(), None);
        assert_eq!(TargetId::plain("gfx908").generic(), None);
    }

    #[test]
    fn targets_sort_numerically() {
        let sorted = "gfx803 gfx906 gfx90a gfx90a:sramecc+ gfx90a:xnack+ gfx90a:xnack- gfx90c gfx942 gfx1010 gfx1100 \
                      gfx1250 gfx1250-strict gfx1251 gfx11-generic gfx9-4-generic gfx9-generic native";
        let sorted: Vec<&str> = sorted.split(' ').collect();
        let mut targets: Vec<TargetId> = sorted.iter().rev().map(|name| name.parse().unwrap()).collect();
        targets.sort();
        assert_eq!(texts(&targets), sorted);
        let mut names: Vec<String> = sorted.iter().rev().chain(&sorted).map(|name| (*name).to_owned()).collect();
        sort(&mut names);
        assert_eq!(names, sorted);
    }

    #[test]
    fn families_sort_among_targets() {
        let mut names: Vec<String> =
            ["gfx110X-all", "gfx950-dcgpu", "gfx94X-dcgpu", "gfx1100", "dgpu-all", "gfx942", "gfx90a", "gfx120X-all"]
                .map(str::to_owned)
                .to_vec();
        sort(&mut names);
        let expected =
            ["gfx90a", "gfx942", "gfx94X-dcgpu", "gfx950-dcgpu", "gfx1100", "gfx110X-all", "gfx120X-all", "dgpu-all"];
        assert_eq!(names, expected);
    }
}
