//! Input: what a user wants, and indexes. Output: the one wheel that is meant.

use std::cmp::Reverse;
use std::str::FromStr as _;

use pep440_rs::{Version, VersionSpecifiers};
use rocwheel_index::page::PageLink;
use rocwheel_index::requirement::{InstallTarget, Requirement};
use rocwheel_index::tags;
use rocwheel_progress::{Exit, Reporter};
use rocwheel_wheel::{Platform, WheelName, canonical_name};

use crate::chosen_wheel::ChosenWheel;
use crate::error::Error;
use crate::index_site::shown;
use crate::refused_extras;
use crate::request::GetRequest;

/// Names that a message lists.
const SHOWN: usize = 8;

enum Wanted {
    File(WheelName),
    Project(Box<Requirement>),
}

/// Finds the wheel in the first index that has the project.
pub(crate) fn choose<'a>(request: &GetRequest<'a>, reporter: &dyn Reporter) -> Result<ChosenWheel<'a>, Error> {
    let text = request.name;
    let wanted = if WheelName::is_wheel(text) {
        Wanted::File(text.parse()?)
    } else {
        let parsed = Requirement::parse(text).map_err(|reason| {
            let hint = "give a project such as `rocm-sdk-core`, a requirement such as `rocm-sdk-core==7.2.0`, or the name of a wheel";
            Error::Get {
                attempted: format!("find `{text}`"),
                reason: format!("it is no requirement: {reason}"),
                hint: hint.to_owned(),
                exit: Exit::Usage,
            }
        })?;
        Wanted::Project(Box::new(parsed))
    };
    let project = match &wanted {
        Wanted::File(name) => canonical_name(&name.distribution),
        Wanted::Project(requirement) => requirement.name.clone(),
    };
    for site in request.sites {
        if let Some(links) = site.links(&project, reporter)? {
            let (link, name) = match &wanted {
                Wanted::File(name) => one_file(links, name, text)?,
                Wanted::Project(requirement) => one_of(links, requirement, request)?,
            };
            let chosen = ChosenWheel { site, link, name };
            return match &wanted {
                Wanted::Project(requirement) if !requirement.extras.is_empty() => {
                    Err(refused_extras::refused(&chosen, (requirement, text), reporter)?)
                }
                _ => Ok(chosen),
            };
        }
    }
    let asked: Vec<String> = request.sites.iter().map(|site| format!("`{}`", shown(&site.root))).collect();
    Err(nothing(text, format!("{} does not have the project", asked.join(", ")), "name the index with `--index`"))
}

fn one_file(links: Vec<(PageLink, WheelName)>, name: &WheelName, text: &str) -> Result<(PageLink, WheelName), Error> {
    let names: Vec<String> = links.iter().map(|(link, _)| link.file_name.clone()).collect();
    links.into_iter().find(|(_, other)| other == name).ok_or_else(|| {
        let reason = "the page of the project does not list it".to_owned();
        nothing(text, reason, &rocwheel_progress::suggestion(text, names.iter().map(String::as_str)))
    })
}

/// The newest version that meets a requirement, and of that the wheel that an installer would take.
fn one_of(
    links: Vec<(PageLink, WheelName)>,
    requirement: &Requirement,
    request: &GetRequest<'_>,
) -> Result<(PageLink, WheelName), Error> {
    let total = links.len();
    let mut left: Vec<(Version, (PageLink, WheelName))> = Vec::new();
    let mut withdrawn: Vec<(Version, String)> = Vec::new();
    for (link, name) in links {
        let Ok(version) = name.version.replace('_', "-").parse::<Version>() else { continue };
        if !requirement.accepts(&version) || !suits(&link, &name, request) {
            continue;
        }
        match &link.yanked {
            Some(reason) if !requirement.pins() => withdrawn.push((version, reason.clone())),
            _ => left.push((version, (link, name))),
        }
    }
    if !requirement.wants_prereleases() && left.iter().any(|(version, _)| !version.any_prerelease()) {
        left.retain(|(version, _)| !version.any_prerelease());
    }
    let Some(newest) = left.iter().map(|(version, _)| version.clone()).max() else {
        if let Some((version, why)) = withdrawn.into_iter().max() {
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            let reason = format!("every version that meets it is withdrawn; version {version}{why} is the newest");
            let hint = format!("`{}=={version}` gets it all the same", requirement.name);
            return Err(nothing(request.name, reason, &hint));
        }
        if total == 0 {
            let hint = "it may have source distributions, which `pip download` gets";
            return Err(nothing(request.name, "the project has no wheels".to_owned(), hint));
        }
        let reason = format!("none of the {total} wheels of the project meets it on this Python and system");
        let hint = "`--python` and `--platform` name others, and the name of a wheel gets that wheel";
        return Err(nothing(request.name, reason, hint));
    };
    left.retain(|(version, _)| *version == newest);
    if let Some(python) = request.python {
        let target = InstallTarget { python, platform: request.platform, glibc: None };
        left.sort_by_key(|(_, (_, name))| (tags::rank(&target, name), Reverse(build_number(name))));
        left.truncate(1);
    }
    let mut left: Vec<(PageLink, WheelName)> = left.into_iter().map(|(_, wheel)| wheel).collect();
    if left.len() > 1 {
        let mut names: Vec<String> = left.iter().map(|(link, _)| format!("`{}`", link.file_name)).collect();
        names.sort();
        names.truncate(SHOWN);
        let reason = format!("version {newest} has {} wheels: {}", left.len(), names.join(", "));
        return Err(nothing(request.name, reason, "choose one with `--python`, or give its name"));
    }
    // Not empty: one of them has the newest version.
    left.pop().ok_or_else(|| nothing(request.name, "there is none".to_owned(), "give the name of a wheel"))
}

fn build_number(name: &WheelName) -> Option<u64> {
    let digits: String = name.build.as_ref()?.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// `true` if a wheel is for the Python and system of the request.
fn suits(link: &PageLink, name: &WheelName, request: &GetRequest<'_>) -> bool {
    let Some(python) = request.python else {
        return name.platforms.iter().any(|tag| Platform::of_tag(tag).is_none_or(|system| system == request.platform));
    };
    let target = InstallTarget { python, platform: request.platform, glibc: None };
    let specifiers = link.python.as_deref().and_then(|text| VersionSpecifiers::from_str(text).ok());
    tags::rank(&target, name).is_some()
        && specifiers.is_none_or(|specifiers| rocwheel_wheel::accepts(&specifiers, &target.full_version()))
}

fn nothing(name: &str, reason: String, hint: &str) -> Error {
    Error::Get { attempted: format!("choose a wheel of `{name}`"), reason, hint: hint.to_owned(), exit: Exit::Failed }
}
