//! Input: the METADATA of the files of an index. Output: releases that require others of their own
//! version which the index does not have: `rocm[libraries]` without `rocm-sdk-libraries`. A
//! publication of such a set is refused, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use rocwheel_index::page::PageLink;
use rocwheel_index::requirement::Requirement;
use rocwheel_progress::few_in_backticks;
use rocwheel_wheel::{Headers, canonical_name};
use url::Url;

use super::IndexFault;
use crate::views::target;

/// The releases whose METADATA was read.
#[derive(Debug, Default)]
pub(super) struct FoundReleases(Mutex<Vec<FoundRelease>>);

#[derive(Debug)]
struct FoundRelease {
    file: String,
    at: Url,
    project: String,
    version: String,
    /// The canonical names of what it requires with `==` and its own version, with the extra.
    siblings: BTreeMap<String, Option<String>>,
}

impl FoundReleases {
    pub(super) fn add(&self, link: &PageLink, headers: &Headers) {
        let (Some(name), Some(version)) = (headers.get("Name"), headers.get("Version")) else { return };
        let mut siblings = BTreeMap::new();
        for text in headers.all("Requires-Dist") {
            let (pinned, marker) = text.split_once(';').unwrap_or((&text, ""));
            if !pinned.replace([' ', '(', ')'], "").ends_with(&format!("=={version}")) {
                continue;
            }
            let extra = marker.split_once("extra").map(|(_, rest)| rest.trim_matches([' ', '=', '"', '\'']).to_owned());
            if let Ok(requirement) = Requirement::parse(&text) {
                siblings.entry(requirement.name).or_insert(extra);
            }
        }
        let (file, at) = (link.file_name.clone(), link.address.clone());
        let release = FoundRelease { file, at, project: canonical_name(&name), version, siblings };
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(release);
    }

    pub(super) fn missing_siblings(&self) -> Vec<IndexFault> {
        let releases = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let all: BTreeSet<(&str, &str)> =
            releases.iter().map(|release| (release.project.as_str(), release.version.as_str())).collect();
        let faults = releases.iter().filter_map(|release| {
            let FoundRelease { file, at, project, version, siblings } = release;
            let missing = siblings.iter().filter(|(name, _)| !all.contains(&(name.as_str(), version.as_str())));
            let missing: Vec<(&String, &Option<String>)> = missing.collect();
            let (_, extra) = missing.first()?;
            let extra = extra.as_ref().map(|extra| format!("[{extra}]")).unwrap_or_default();
            let names = few_in_backticks(missing.iter().map(|(name, _)| name.as_str()), 3);
            let text = format!("`{file}` requires {names} of its own version, and the index has none");
            if !missing.iter().any(|(name, _)| is_of_set(name) || releases.iter().any(|one| one.project == **name)) {
                return Some(IndexFault::warning(at, format!("{text}: another index has to bring it")));
            }
            let text = format!("{text}: `pip install '{project}{extra}=={version}'` fails");
            let fault =
                IndexFault::error(at, text).hint("publish the whole set: `rocwheel release publish` refuses a part");
            Some(IndexFault { needs_files: true, ..fault })
        });
        faults.collect()
    }
}

/// `true` for a project that no public index brings: a part of ROCm, or code for a GPU.
fn is_of_set(project: &str) -> bool {
    project == "rocm" || project.starts_with("rocm-") || target(project).is_some()
}
