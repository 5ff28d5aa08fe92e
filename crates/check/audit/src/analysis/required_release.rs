//! Input: the libraries of a product that the files of a wheel need. Output: the requirement that
//! brings them, with its extras and releases, or what has to be decided because none does; and what
//! is wrong with the requirement that METADATA has.

use std::collections::BTreeSet;

use rocwheel_index::requirement::Requirement;
use rocwheel_tables::owners::{LibraryOwner, Owners};
use rocwheel_tables::providers::{FIRST_ON_INDEXES, releases_of_runtime};

use super::rocm_version::is_rocm;
use super::verdict::Verdict;
use super::{Context, file_name};
use crate::declared::Extras;
use crate::finding::Code;
use crate::fix::{self, Fix};

/// The reason why the requirements of a wheel do not bring a library that they should. `None` if
/// one may bring it.
pub(super) fn wrong_requirement(
    context: &Context<'_>,
    wheel: usize,
    (owner, library): (&LibraryOwner, &str),
) -> Option<Verdict> {
    let bringers = context.requirements[wheel].bringers(context, owner);
    let judged: Option<Vec<Verdict>> = bringers
        .iter()
        .map(|distribution| {
            other_release(context, wheel, (distribution, library))
                .or_else(|| other_cuda(context, wheel, (owner, distribution, library)))
        })
        .collect();
    judged?.into_iter().next()
}

/// Compares a requirement on a part of CUDA with the releases that have a library of CUDA. `None`
/// if the requirement may bring it, or if it is that of another distribution.
fn other_cuda(
    context: &Context<'_>,
    wheel: usize,
    (owner, distribution, library): (&LibraryOwner, &str, &str),
) -> Option<Verdict> {
    let part = owner.part_with(library).filter(|_| owner.is_cuda())?;
    let releases = part.releases.as_ref();
    let mut asked = context.declared.of(wheel, Extras::Asked).filter(|asked| asked.name == distribution).peekable();
    asked.peek()?;
    let is_toolkit = owner.requirement(0).is_some_and(|requirement| requirement == distribution);
    let mut wrong = None;
    for requirement in asked {
        let lacking = part
            .extra
            .as_ref()
            .filter(|extra| is_toolkit && !requirement.extras.iter().any(|asked| asked == *extra || asked == "all"));
        let is_wrong_release = releases.is_some_and(|releases| match distribution.rsplit_once("-cu") {
            // The libraries of `nvidia-cublas-cu12` are those of CUDA 12.
            Some((_, cuda)) if owner.has_extras() => cuda.parse().is_ok_and(|cuda| !releases.contains(&cuda)),
            _ => {
                (is_toolkit || !owner.has_extras())
                    && !allows_any(requirement, releases.iter().map(|release| u64::from(*release)))
            }
        });
        let why = if is_wrong_release {
            let numbers = releases.into_iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
            format!(" of {} {numbers}, and METADATA requires `{}`", owner.name, requirement.text)
        } else if let Some(extra) = lacking {
            let text = &requirement.text;
            format!(" of {}, and METADATA requires `{text}` without the extra `{extra}`, which brings it", owner.name)
        } else {
            return None;
        };
        wrong.get_or_insert(why);
    }
    let installed = &context.site.distributions[wheel];
    let fix = requirement(context, wheel, owner).map_err(Some).and_then(|right| {
        // Another distribution would be a second requirement beside the wrong one.
        let name = right.split(['[', '=', '>', '<']).next().unwrap_or_default();
        if name != distribution {
            return Err(Some(format!("replace `{distribution}` by `{right}`")));
        }
        fix::replace_requirement(installed, &right).ok_or(None)
    });
    Some(Verdict::new(Code::WrongRequirement, wrong?).mended_by(fix))
}

/// `true` if a requirement allows one of these major versions, or a candidate or nightly of it.
fn allows_any(requirement: &Requirement, releases: impl IntoIterator<Item = u64>) -> bool {
    releases.into_iter().any(|release| {
        let versions = format!("{}>={release}.dev0,<{}.dev0", requirement.name, release + 1);
        Requirement::parse(&versions).is_ok_and(|versions| !Requirement::contradict(&[requirement, &versions]))
    })
}

/// Compares the releases of ROCm whose HIP runtime a wheel is linked to with its own requirement on
/// the distribution that should bring it. `None` if the requirement allows one of them.
fn other_release(context: &Context<'_>, wheel: usize, (distribution, library): (&str, &str)) -> Option<Verdict> {
    // Versions of torch and others do not count releases of ROCm.
    let releases = releases_of_runtime(library);
    let release = releases.first().filter(|_| is_rocm(distribution))?;
    let mut asked = context.declared.of(wheel, Extras::Asked).filter(|requirement| requirement.name == distribution);
    let wrong = asked.find(|requirement| !allows_any(requirement, releases.iter().copied()))?;
    let installed = &context.site.distributions[wheel];
    let extras = if wrong.extras.is_empty() { String::new() } else { format!("[{}]", wrong.extras.join(",")) };
    let right = format!("{}{extras}=={release}.*", wrong.name);
    let message = format!(" of ROCm {release}, and METADATA requires `{}`", wrong.text);
    let fix = if *release < FIRST_ON_INDEXES {
        Err(Some(built_for_older(*release)))
    } else {
        fix::replace_requirement(installed, &right).ok_or(None)
    };
    Some(Verdict::new(Code::WrongRequirement, message).mended_by(fix))
}

/// The libraries that the files of a wheel need, on Linux and on Windows.
pub(super) fn needed<'c>(context: &'c Context<'_>, wheel: usize) -> impl Iterator<Item = &'c String> {
    let on_windows = context.windows_files(wheel).flat_map(|(_, file)| file.needed());
    context.native(wheel).flat_map(|(_, object)| &object.elf.needed).chain(on_windows)
}

/// `true` if a wheel is linked to PyTorch, whose ROCm build brings ROCm, and is not PyTorch itself.
pub(super) fn needs_torch(context: &Context<'_>, wheel: usize) -> bool {
    *context.linked_to_torch[wheel].get_or_init(|| {
        needed(context, wheel).any(|name| {
            let is_own = context.native(wheel).any(|(path, _)| file_name(path) == name);
            Owners::embedded().of(name).is_some_and(LibraryOwner::is_torch) && !is_own
        })
    })
}

/// Fixes METADATA with the requirement that brings the libraries of an owner. Without one, returns
/// what has to be decided.
pub(super) fn require(context: &Context<'_>, wheel: usize, owner: &LibraryOwner) -> Result<Fix, Option<String>> {
    let installed = &context.site.distributions[wheel];
    // PyTorch brings the ROCm or CUDA that it was built with.
    if (owner.is_rocm() || owner.is_cuda()) && needs_torch(context, wheel) {
        return fix::require(installed, "torch").ok_or(None);
    }
    let requirement = requirement(context, wheel, owner).map_err(Some)?;
    if owner.has_part(&installed.name) {
        return Err(None);
    }
    fix::require(installed, &requirement).ok_or(None)
}

/// The requirement that brings all libraries of an owner that the files of a wheel need, with the
/// extras and versions that have them; otherwise what has to be decided.
fn requirement(context: &Context<'_>, wheel: usize, owner: &LibraryOwner) -> Result<String, String> {
    let template = owner.requirement(0).ok_or_else(|| format!("which distribution of {} to require", owner.name))?;
    let libraries: BTreeSet<&String> = needed(context, wheel)
        .filter(|library| Owners::embedded().of(library).is_some_and(|other| other.name == owner.name))
        .collect();
    let mut extras: BTreeSet<String> = BTreeSet::new();
    let mut majors = MajorVersions::default();
    for library in libraries {
        if owner.is_rocm() {
            majors.narrow(library, releases_of_rocm(library)?);
        }
        let part = owner.part_with(library);
        let part = part.ok_or_else(|| format!("no version of `{template}` is known to have `{library}`"))?;
        extras.extend(part.extra);
        majors.narrow(library, part.releases);
    }
    majors.agree(&owner.name)?;
    let is_for_one_cuda = owner.requirement(0) != owner.requirement(1);
    let name = if is_for_one_cuda { owner.requirement(cuda(context, wheel)?).unwrap_or(template) } else { template };
    let extras = extras.into_iter().collect::<Vec<_>>().join(",");
    let extras = if extras.is_empty() { extras } else { format!("[{extras}]") };
    Ok(format!("{name}{extras}{}", majors.specifier()))
}

/// The releases of ROCm that have a library of its runtime; `None` for other libraries. Fails if no
/// index has packages of these.
fn releases_of_rocm(library: &str) -> Result<Option<BTreeSet<u32>>, String> {
    let releases = releases_of_runtime(library);
    match releases.last() {
        Some(newest) if *newest < FIRST_ON_INDEXES => Err(built_for_older(*newest)),
        Some(_) => Ok(Some(releases.into_iter().filter_map(|release| release.try_into().ok()).collect())),
        None => Ok(None),
    }
}

/// What has to be decided about a file that is linked to a release of ROCm without packages.
fn built_for_older(release: u64) -> String {
    format!("build it for ROCm {FIRST_ON_INDEXES} or newer: no index has a release of ROCm {release}")
}

/// The major version of CUDA that a wheel is linked to, from those of NVIDIA's libraries whose
/// releases are known; otherwise what has to be decided.
pub(super) fn cuda(context: &Context<'_>, wheel: usize) -> Result<u32, String> {
    let mut majors = MajorVersions::default();
    for library in needed(context, wheel) {
        let owner = Owners::embedded().of(library).filter(|owner| owner.is_cuda() && owner.has_extras());
        if let Some(part) = owner.and_then(|owner| owner.part_with(library)) {
            majors.narrow(library, part.releases);
        }
    }
    majors.agree("CUDA")?;
    let known: Vec<u32> = majors.common.into_iter().flatten().collect();
    match known[..] {
        [one] => Ok(one),
        _ => Err("which major version of CUDA the wheel is for".to_owned()),
    }
}

/// The major versions of a distribution that have every library looked at so far.
#[derive(Debug, Default)]
struct MajorVersions<'a> {
    /// `None` until a library determines versions.
    common: Option<BTreeSet<u32>>,
    /// The libraries that determined versions, each with its own.
    libraries: Vec<(&'a str, BTreeSet<u32>)>,
}

impl<'a> MajorVersions<'a> {
    fn narrow(&mut self, library: &'a str, releases: Option<BTreeSet<u32>>) {
        let Some(releases) = releases else { return };
        self.common = Some(match self.common.take() {
            Some(common) => common.intersection(&releases).copied().collect(),
            None => releases.clone(),
        });
        self.libraries.push((library, releases));
    }

    /// Fails if no version has all the libraries: a process has one.
    fn agree(&self, owner: &str) -> Result<(), String> {
        if self.common.as_ref().is_none_or(|common| !common.is_empty()) {
            return Ok(());
        }
        let first = &self.libraries[0];
        let other = self.libraries.iter().find(|(_, releases)| releases.is_disjoint(&first.1));
        let other = other.unwrap_or(&self.libraries[self.libraries.len() - 1]);
        let [first, other] = [first, other].map(|(library, releases)| {
            let releases = releases.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ");
            format!("`{library}` of {owner} {releases}")
        });
        Err(format!("its files need {first} and {other}, and no requirement brings both"))
    }

    /// The versions as PEP 440 writes them.
    fn specifier(&self) -> String {
        let common: Vec<u32> = self.common.iter().flatten().copied().collect();
        match common[..] {
            [] => String::new(),
            [one] => format!("=={one}.*"),
            [first, .., last] => format!(">={first},<{}", last + 1),
        }
    }
}
