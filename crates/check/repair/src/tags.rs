//! Input: the needs of all binaries of the result, the tags of the wheel, and the requested tag.
//! Output: the tags that fit the result (PEP 600), and the texts that contain them.

use std::collections::BTreeSet;

use rocwheel_elf::Elf;
use rocwheel_progress::{Exit, Failure};
use rocwheel_wheel::manylinux::{FileNeeds, Policies, Policy};
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{Headers, WheelName};

use crate::Error;
use crate::plan::{PlannedEdit, Tags};

/// The tag for Linux systems without any guarantee.
const LINUX: &str = "linux_x86_64";
/// The bit of the x86-64 baseline in the processor level that a file declares.
const BASELINE: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The lowest one that fits the files.
    Lowest,
    /// No policy: the result is for this machine only.
    Linux,
    /// This policy, and a lower one if it also fits the files.
    Policy(Policy),
    Only(Policy),
}

impl Wanted {
    /// Parses a tag: `manylinux_2_28_x86_64`, `manylinux_2_28`, `manylinux2014`, `linux_x86_64` or
    /// `auto`.
    pub(crate) fn parse(tag: Option<&str>, only: bool) -> Result<Wanted, Error> {
        let Some(tag) = tag.filter(|tag| *tag != "auto") else { return Ok(Wanted::Lowest) };
        if tag == LINUX || tag == "linux" {
            return Ok(Wanted::Linux);
        }
        let policies = Policies::built_in();
        let policy = policies.policies().iter().find(|policy| {
            policies.tags(policy).iter().any(|known| known == tag || known.strip_suffix("_x86_64") == Some(tag))
        });
        match policy {
            Some(policy) if only => Ok(Wanted::Only(policy.clone())),
            Some(policy) => Ok(Wanted::Policy(policy.clone())),
            None => {
                let known: Vec<String> =
                    policies.policies().iter().map(|policy| policies.tags(policy)[0].clone()).collect();
                Err(Failure::message(format!("`{tag}` is not a known manylinux tag"))
                    .with_hint(format!("known are {}", known.join(", ")))
                    .with_exit(Exit::Usage)
                    .into())
            }
        }
    }

    /// The policy whose libraries count as those of the system.
    pub(crate) fn policy(&self) -> Option<&Policy> {
        match self {
            Wanted::Policy(policy) | Wanted::Only(policy) => Some(policy),
            Wanted::Lowest | Wanted::Linux => None,
        }
    }
}

/// The needs of a file after it is edited.
pub(crate) fn needs(file: &str, elf: &Elf, edit: &PlannedEdit) -> FileNeeds {
    let mut needs = FileNeeds::of(file, elf);
    needs.libraries.retain(|needed| !edit.removed.contains(&needed.library));
    for needed in &mut needs.libraries {
        if let Some(renamed) = edit.needed.get(&needed.library) {
            needed.library.clone_from(renamed);
        }
    }
    needs
}

/// The level of x86-64 that a file declares: `x86-64-v3`.
fn level(elf: &Elf) -> Option<&'static str> {
    match elf.isa_needed.unwrap_or(BASELINE) & !BASELINE {
        0 => None,
        bits if bits & 8 != 0 => Some("x86-64-v4"),
        bits if bits & 4 != 0 => Some("x86-64-v3"),
        bits if bits & 2 != 0 => Some("x86-64-v2"),
        _ => Some("an unknown level of x86-64"),
    }
}

/// A file of the result.
pub(crate) struct Judged<'a> {
    pub(crate) file: &'a str,
    pub(crate) elf: &'a Elf,
    pub(crate) edit: &'a PlannedEdit,
}

/// Determines the tags. Without binaries they stay.
pub(crate) fn tags(wheel: &Wheel, files: &[Judged<'_>], wanted: &Wanted) -> Result<Tags, Error> {
    let before = wheel.name.platforms.clone();
    let policies = Policies::built_in();
    let all: Vec<FileNeeds> = files.iter().map(|file| needs(file.file, file.elf, file.edit)).collect();
    let floor = policies.floor(&all);
    let mut reasons: Vec<String> = floor.reasons.iter().map(ToString::to_string).collect();
    let levels: Vec<String> = files
        .iter()
        .filter_map(|file| level(file.elf).map(|level| format!("{} needs the processor level {level}", file.file)))
        .collect();
    let mut deserved = floor.policy;
    if !levels.is_empty() {
        deserved = None;
        reasons = levels;
    }
    let tag = deserved.as_ref().map_or_else(|| LINUX.to_owned(), |policy| policies.tags(policy)[0].clone());
    if files.is_empty() {
        return Ok(Tags { after: before.clone(), before, floor: tag, reasons, untrue: Vec::new(), wheel: None });
    }
    let added = added(wheel, wanted, deserved.as_ref(), &reasons)?;
    let platforms = before.iter().cloned();
    let (untrue, kept): (Vec<String>, Vec<String>) = platforms.partition(|platform| match (&deserved, wanted) {
        (_, Wanted::Linux) => platform.starts_with("manylinux"),
        (Some(deserved), _) => policies
            .policies()
            .iter()
            .any(|policy| policy.glibc < deserved.glibc && policies.tags(policy).contains(platform)),
        (None, _) => false,
    });
    let kept = kept.into_iter().filter(|platform| platform != "any" && platform != LINUX);
    let kept: Vec<String> = if matches!(wanted, Wanted::Only(_)) { Vec::new() } else { kept.collect() };
    let after: Vec<String> = kept.into_iter().chain(added).collect::<BTreeSet<_>>().into_iter().collect();
    let name = WheelName { platforms: after.clone(), ..wheel.name.clone() };
    // If only the order of the tags differs, the file name stays.
    let same = before.iter().collect::<BTreeSet<_>>() == after.iter().collect::<BTreeSet<_>>();
    let after = if same { before.clone() } else { after };
    Ok(Tags { before, after, floor: tag, reasons, untrue, wheel: wheel_text(wheel, &name)? })
}

fn added(wheel: &Wheel, wanted: &Wanted, deserved: Option<&Policy>, reasons: &[String]) -> Result<Vec<String>, Error> {
    const SHOWN: usize = 10;
    let policies = Policies::built_in();
    let (wanted, floor) = match (wanted, deserved) {
        (Wanted::Linux, _) => return Ok(vec![LINUX.to_owned()]),
        (Wanted::Lowest, Some(deserved)) => return Ok(policies.tags(deserved)),
        (Wanted::Lowest, None) => ("manylinux, as no policy promises what its files need".to_owned(), None),
        (Wanted::Policy(policy) | Wanted::Only(policy), None) => (format!("`{}`", policies.tags(policy)[0]), None),
        (Wanted::Policy(policy) | Wanted::Only(policy), Some(deserved)) if policy.glibc < deserved.glibc => {
            (format!("`{}`", policies.tags(policy)[0]), Some(policies.tags(deserved)[0].clone()))
        }
        (Wanted::Policy(policy), Some(deserved)) => {
            return Ok([policies.tags(deserved), policies.tags(policy)].concat());
        }
        (Wanted::Only(policy), Some(_)) => return Ok(policies.tags(policy)),
    };
    let mut text = format!("`{}` cannot be tagged {wanted}:", wheel.path().display());
    text.extend(reasons.iter().take(SHOWN).map(|reason| format!("\n  {reason}")));
    if reasons.len() > SHOWN {
        text.push_str(&format!("\n  and {} more", reasons.len() - SHOWN));
    }
    let hint = match floor {
        Some(floor) => format!("`--plat {floor}` is what the files deserve; build on an older system for an older tag"),
        None => "build on an older system, or keep the tag of this machine with `--plat linux_x86_64`".to_owned(),
    };
    Err(Failure::message(text).with_hint(hint).with_rows(reasons.to_vec()).into())
}

/// The new text of WHEEL; `None` if it contains these tags already.
fn wheel_text(wheel: &Wheel, name: &WheelName) -> Result<Option<String>, Error> {
    let text = wheel.wheel()?;
    let mut headers = Headers::parse(&text);
    let tags: BTreeSet<String> = name.tags().iter().map(ToString::to_string).collect();
    headers.remove("Tag", |tag| !tags.contains(tag));
    let present = headers.all("Tag");
    for tag in tags.iter().filter(|tag| !present.contains(tag)) {
        headers.push("Tag", tag)?;
    }
    if headers.get("Root-Is-Purelib").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        headers.set("Root-Is-Purelib", "false")?;
    }
    let new = headers.to_string();
    Ok((new != text).then_some(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_with_and_without_the_machine() {
        let glibc = |tag: &str| Wanted::parse(Some(tag), false).unwrap().policy().unwrap().glibc.to_string();
        assert_eq!(glibc("manylinux_2_28_x86_64"), "2.28");
        assert_eq!(glibc("manylinux_2_28"), "2.28");
        assert_eq!(glibc("manylinux2014"), "2.17");
        assert_eq!(glibc("manylinux1_x86_64"), "2.5");
        assert_eq!(Wanted::parse(Some("linux_x86_64"), false).unwrap(), Wanted::Linux);
        assert_eq!(Wanted::parse(Some("auto"), false).unwrap(), Wanted::Lowest);
        assert_eq!(Wanted::parse(None, true).unwrap(), Wanted::Lowest);
        let error = Wanted::parse(Some("manylinux_9_9_x86_64"), false).unwrap_err();
        assert_eq!(error.to_string(), "`manylinux_9_9_x86_64` is not a known manylinux tag");
    }
}
