//! Input: a question. Output: the newest set that is complete.

use std::collections::BTreeSet;

use pep440_rs::Version;
use rocwheel_index::requirement::Requirement;
use rocwheel_index::tags;
use rocwheel_progress::{Exit, Failure, Reporter};
use rocwheel_tables::TargetTable;
use rocwheel_tables::device_packages::{distribution, extra};
use rocwheel_wheel::{WheelName, canonical_name};

use crate::evidence::{Pages, is_cuda, is_of_set, runs, served_by, target_of};
use crate::lock::LockedPackage;
use crate::question::{Question, parsed, python_of, with_extras};
use crate::resolver::{Outcome, Query, Resolvers, uv_platform};
use crate::set::{ChosenPackage, CodeSeen, NotTaken, PackageOrigin, Refusal, Seen, Set};

/// How often a resolver is asked before the search is given up.
const ROUNDS: usize = 64;

/// The question with a package: torch, or what else an index has.
pub(crate) fn with_package<'a>(question: &Question<'a>, pages: &mut Pages<'_>) -> Result<Question<'a>, Failure> {
    let has_torch = pages.project("torch")?.is_some();
    Ok(question.with(|one| {
        if one.packages.is_empty() {
            one.packages.push(if has_torch { "torch" } else { "rocm" }.to_owned());
        }
    }))
}

/// How much of a set is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looking {
    /// Names and METADATA.
    AtNames,
    /// The wheels too.
    Into,
}

/// The newest complete set; the inner error is a no.
pub(crate) fn search(
    question: &Question<'_>,
    resolvers: &Resolvers,
    pages: &mut Pages<'_>,
    looking: Looking,
    reporter: &dyn Reporter,
) -> Result<Result<Set, Refusal>, Failure> {
    let mut asked: Vec<String> = question.packages.clone();
    for text in &mut asked {
        let requirement = parsed(text)?;
        if requirement.name == "rocm" && requirement.extras.is_empty() {
            *text = with_extras(text, &["libraries".to_owned()]);
        }
    }
    let mut barred: Vec<NotTaken> = Vec::new();
    let mut pre_releases = question.pre_releases;
    let (python, platform) = (python_of(question.target.python), uv_platform(&question.target));
    for _ in 0..ROUNDS {
        reporter.check()?;
        let mut constraints = question.constraints.clone();
        if let Some(rocm) = &question.rocm {
            constraints.extend(["rocm", "rocm-sdk-core"].map(|name| format!("{name}=={rocm}.*")));
        }
        constraints.extend(barred.iter().map(|one| format!("{}!={}", one.name, one.version)));
        let query = Query {
            requirements: &asked,
            constraints: &constraints,
            indexes: question.addresses,
            python: &python,
            interpreter: resolvers.python.as_deref(),
            platform: &platform,
            pre_releases,
            wheels_only: false,
        };
        let (outcome, resolved_by) = resolvers.resolve(&query, &question.target)?;
        let packages = match outcome {
            Outcome::Found(packages) => packages,
            // Nightly builds are all pre-releases, and a pin on one does not allow it.
            Outcome::Refused(reason) if !pre_releases && reason.contains("pre-release") => {
                pre_releases = true;
                continue;
            }
            Outcome::Refused(reason) => {
                let refused = pages.refused_of(&reason)?;
                let first = match (barred.first(), refused) {
                    (Some(one), _) => one.reason.clone(),
                    (None, Some(name)) => {
                        format!("the server answers 403 for `{name}`: it is not there, or not for you")
                    }
                    (None, None) => because(&reason),
                };
                return Ok(Err(Refusal { reason: first, asked, barred, resolved_by }));
            }
        };
        let members = packages.into_iter().map(|one| member(one, question, pages)).collect::<Result<Vec<_>, _>>()?;
        if let Some(reason) = stranger(question, &members, pages)? {
            return Ok(Err(Refusal { reason, asked, barred, resolved_by }));
        }
        let before = (asked.clone(), barred.len());
        ask_for_gpus(question, pages, &members, (&mut asked, &mut barred))?;
        if (asked.clone(), barred.len()) != before {
            continue;
        }
        let seen = if looking == Looking::Into { pages.look_into(&members)? } else { Vec::new() };
        barred.extend(members.iter().zip(&seen).filter_map(|(member, seen)| lacking(question, member, seen)));
        if barred.len() == before.1 {
            return Ok(Ok(Set { asked, members, pre_releases, seen, barred, resolved_by }));
        }
    }
    let first = barred.first().map_or("", |one| &one.reason);
    Err(Failure::message(format!("{ROUNDS} sets were tried, and each lacks something; the newest: {first}"))
        .with_hint("ask for a version that is older: `--torch`, `--rocm`, `--constraint`")
        .with_exit(Exit::Partial))
}

/// The words of a resolver's refusal, without its advice to mix indexes.
fn because(reason: &str) -> String {
    let lines = reason.lines().map(str::trim).take_while(|line| !line.is_empty() && !line.starts_with("hint:"));
    let heads = ["error: No solution found when resolving dependencies", "× No solution found when resolving"];
    let lines = lines.filter(|line| !heads.iter().any(|head| line.starts_with(head)));
    let words: Vec<&str> = lines.map(|line| line.trim_start_matches(['╰', '─', '▶']).trim()).collect();
    let text = words.join(" ");
    // What follows from the first clause is only that there is no set.
    let first = text.split(", we can conclude").next().unwrap_or_default();
    ["cause: ", "Because ", "ERROR: "].iter().fold(first, |text, head| text.trim_start_matches(head)).to_owned()
}

/// The member that an installer makes of a package: the file with the best tags.
pub(crate) fn member(
    package: LockedPackage,
    question: &Question<'_>,
    pages: &mut Pages<'_>,
) -> Result<ChosenPackage, Failure> {
    let best = package.files.iter().min_by_key(|file| {
        let wheel = file.name.parse::<WheelName>().ok();
        let rank = wheel.and_then(|name| tags::rank(&question.target, &name));
        (rank.is_none(), rank)
    });
    let Some(file) = best else { return Err(Failure::message(format!("`{}` has no file", package.name))) };
    let link = pages.link(&package.name, &file.name)?;
    let origin = link.as_ref().map_or(PackageOrigin::Public, |(number, _)| pages.origin(*number));
    let link = link.map(|(_, link)| link);
    Ok(ChosenPackage {
        file: file.name.clone(),
        address: file.address.clone(),
        sha256: package.files.iter().filter_map(|file| file.sha256.clone()).collect(),
        size: file.size.or_else(|| link.as_ref()?.size),
        uploaded: link.and_then(|link| link.uploaded),
        name: package.name,
        version: package.version,
        origin,
    })
}

/// The first package that must not be where it is from, or not there at all.
fn stranger(
    question: &Question<'_>,
    members: &[ChosenPackage],
    pages: &mut Pages<'_>,
) -> Result<Option<String>, Failure> {
    if let Some(one) = members.iter().find(|member| is_of_set(member) && member.origin == PackageOrigin::Public) {
        let (name, version, file) = (&one.name, &one.version, &one.file);
        let is_own = pages.project(name)?.is_some_and(|(number, _)| *number < question.own());
        return Ok(Some(if is_own {
            format!("`{file}` of the public index, which may be anybody's, wins over `{name}` of the index")
        } else {
            format!("`{name}` is not in the index. The public index has a `{name} {version}`, which may be anybody's")
        }));
    }
    let cuda: Vec<&ChosenPackage> = members.iter().filter(|member| is_cuda(member)).collect();
    if let Some(first) = cuda.first() {
        let from: Vec<&str> = question
            .packages
            .iter()
            .filter_map(|text| Requirement::parse(text).ok())
            .filter_map(|asked| {
                members.iter().find(|member| member.name == asked.name && member.origin == PackageOrigin::Public)
            })
            .chain(members.iter().find(|member| member.name == "torch" && member.origin == PackageOrigin::Public))
            .map(|member| member.name.as_str())
            .collect();
        let from: BTreeSet<&str> = from.into_iter().collect();
        let from = from.into_iter().collect::<Vec<_>>().join("` and `");
        let from = if from.is_empty() { "a requirement".to_owned() } else { format!("`{from}`") };
        return Ok(Some(format!(
            "{from} would come from the public index, as a build for CUDA: it brings {} of NVIDIA's packages, the first is `{}`",
            cuda.len(),
            first.pin()
        )));
    }
    let served: BTreeSet<String> = question.gpus.iter().flat_map(|gpu| served_by(gpu)).collect();
    let mut parts = members.iter().filter(|member| target_of(&member.name).is_some_and(|target| target != "all"));
    let one = parts.find(|member| target_of(&member.name).is_some_and(|target| !served.contains(target)));
    Ok(one.map(|one| {
        let gpus = question.gpus.join(", ");
        format!("`{}` is for another GPU than {gpus}, and the packages of this index require it", one.pin())
    }))
}

/// Asks each package that is divided by GPU for its parts, and bars a version without them.
fn ask_for_gpus(
    question: &Question<'_>,
    pages: &mut Pages<'_>,
    members: &[ChosenPackage],
    (asked, barred): (&mut Vec<String>, &mut Vec<NotTaken>),
) -> Result<(), Failure> {
    for one in members.iter().filter(|member| member.origin != PackageOrigin::Public) {
        if let Some(rocm) = &question.rocm
            && let Some((_, local)) = one.version.split_once("+rocm")
            && !is_beginning(rocm, local)
        {
            let reason = format!("`{}` is for ROCm {local}, and {rocm} is asked for", one.pin());
            barred.push(NotTaken { name: one.name.clone(), version: one.version.clone(), reason });
            continue;
        }
        let offered = extras_of(one, pages)?;
        if offered.is_empty() {
            continue;
        }
        for gpu in &question.gpus {
            let fitting: Vec<String> =
                served_by(gpu).iter().map(|name| extra(name)).filter(|extra| offered.contains(extra)).collect();
            if fitting.is_empty() {
                let reason = format!("`{}` has no packages for {gpu}", one.pin());
                barred.push(NotTaken { name: one.name.clone(), version: one.version.clone(), reason });
                break;
            }
            add_extras(asked, &one.name, &fitting)?;
        }
    }
    Ok(())
}

/// `true` if one of two versions of ROCm is the beginning of the other, part by part.
fn is_beginning(asked: &str, local: &str) -> bool {
    let (asked, local): (Vec<&str>, Vec<&str>) = (asked.split('.').collect(), local.split('.').collect());
    asked.iter().zip(&local).all(|(one, other)| one == other)
}

/// The extras of a package that are for GPUs. The source distribution `rocm` says them only when it
/// is built, so the packages that they would require are looked for.
fn extras_of(member: &ChosenPackage, pages: &mut Pages<'_>) -> Result<BTreeSet<String>, Failure> {
    let Some(metadata) = pages.metadata(member)? else { return Ok(BTreeSet::new()) };
    let mut extras: BTreeSet<String> =
        metadata.all("Provides-Extra").iter().map(|extra| canonical_name(extra)).collect();
    if metadata.all("Dynamic").iter().any(|field| field.eq_ignore_ascii_case("Provides-Extra")) && member.name == "rocm"
    {
        for target in TargetTable::embedded().family_names() {
            if pages.project(&distribution("rocm-sdk-device", target))?.is_some() {
                extras.insert(extra(target));
            }
        }
    }
    extras.retain(|extra| extra.strip_prefix("device-").is_some_and(|target| target != "all"));
    Ok(extras)
}

/// Adds extras to the requirement on a package, or a requirement.
fn add_extras(asked: &mut Vec<String>, name: &str, extras: &[String]) -> Result<(), Failure> {
    for text in asked.iter_mut() {
        let requirement = parsed(text)?;
        if requirement.name == name {
            let new: Vec<String> = extras.iter().filter(|extra| !requirement.extras.contains(extra)).cloned().collect();
            *text = with_extras(text, &new);
            return Ok(());
        }
    }
    asked.push(format!("{name}[{}]", extras.join(",")));
    Ok(())
}

/// Why a wheel does not count: its code is for other GPUs.
fn lacking(question: &Question<'_>, member: &ChosenPackage, seen: &Seen) -> Option<NotTaken> {
    let reason = match &seen.code {
        CodeSeen::For(targets, false) => {
            let mut lacking = question.gpus.iter().filter(|gpu| !targets.keys().any(|code| runs(gpu, code)));
            let gpu = lacking.next()?;
            // A part has the code for one of the GPUs.
            if target_of(&member.name).is_some() && lacking.count() + 1 < question.gpus.len() {
                return None;
            }
            let targets: Vec<&str> = targets.keys().map(String::as_str).collect();
            format!("`{}` has code for {}, and none for {gpu}", member.pin(), targets.join(", "))
        }
        CodeSeen::Cuda => format!("`{}` has code for NVIDIA's GPUs, and none for AMD's", member.pin()),
        _ => return None,
    };
    Some(NotTaken { name: member.name.clone(), version: member.version.clone(), reason })
}

/// Newer versions of what was asked for, with the reason of the resolver or of the search.
pub(crate) fn not_taken(
    question: &Question<'_>,
    set: &Set,
    resolvers: &Resolvers,
    pages: &mut Pages<'_>,
) -> Result<Vec<NotTaken>, Failure> {
    let mut found = set.barred.clone();
    for (number, text) in set.asked.iter().enumerate() {
        let requirement = parsed(text)?;
        let Some(member) = set.members.iter().find(|member| member.name == requirement.name) else { continue };
        let (Ok(chosen), Some((_, links))) = (member.version.parse::<Version>(), pages.project(&member.name)?) else {
            continue;
        };
        let versions = links.iter().filter(|link| link.yanked.is_none()).filter_map(|link| {
            let version: Version = link.file_name.parse::<WheelName>().ok()?.version.replace('_', "-").parse().ok()?;
            (set.pre_releases || !version.any_prerelease()).then_some(version)
        });
        let Some(newest) = versions.max().filter(|newest| *newest > chosen) else { continue };
        if found.iter().any(|one| one.name == member.name && one.version == newest.to_string()) {
            continue;
        }
        let mut requirements = set.asked.clone();
        let extras = requirement.extras.join(",");
        requirements[number] = format!("{}[{extras}]=={newest}", requirement.name).replace("[]", "");
        let reason = if requirement.accepts(&newest) {
            refusal(question, resolvers, &requirements, set.pre_releases)?
        } else {
            format!("`{text}` is asked for")
        };
        found.push(NotTaken { name: member.name.clone(), version: newest.to_string(), reason });
    }
    Ok(found)
}

/// Why a resolver does not take these requirements.
fn refusal(
    question: &Question<'_>,
    resolvers: &Resolvers,
    requirements: &[String],
    pre_releases: bool,
) -> Result<String, Failure> {
    let query = Query {
        requirements,
        constraints: &question.constraints,
        indexes: question.addresses,
        python: &python_of(question.target.python),
        interpreter: resolvers.python.as_deref(),
        platform: &uv_platform(&question.target),
        pre_releases,
        wheels_only: false,
    };
    Ok(match resolvers.resolve(&query, &question.target)?.0 {
        Outcome::Refused(reason) => because(&reason),
        Outcome::Found(_) => "what else is asked for, or a version that lacks something, rules it out".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_rocm_are_compared_part_by_part() {
        assert!(is_beginning("7.1", "7.1.2") && is_beginning("7.1.2", "7.1") && !is_beginning("7.1", "7.10"));
    }

    #[test]
    fn a_refusal_is_told_without_the_advice_to_mix_indexes() {
        let uv = "error: No solution found when resolving dependencies\n  cause: Because there is no torch\n         and \
                  you require it, we can conclude that no.\n\nhint: use `--index-strategy unsafe-best-match`\n";
        assert_eq!(because(uv), "there is no torch and you require it");
        assert_eq!(
            because("ERROR: No matching distribution found for torch"),
            "No matching distribution found for torch"
        );
    }
}
