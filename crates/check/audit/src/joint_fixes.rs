//! Input: the findings of an audit. Output: the same with fixes that fit each other and the set,
//! and the questions that stay open.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rocwheel_tables::providers::FIRST_ON_INDEXES;

use crate::analysis::{Context, rocm_version};
use crate::finding::{Code, Finding};
use crate::fix::{self, Fix, Repair, Step, Way};

/// The commands that look for the distributions on which findings depend; none once an index was
/// asked.
pub(crate) fn questions(context: &Context<'_>, findings: &[Finding]) -> Vec<String> {
    if context.has_asked() {
        return Vec::new();
    }
    let open = findings.iter().filter(|finding| finding.decides && !finding.depends_on.is_empty());
    let open: BTreeSet<&String> = open.filter_map(|finding| finding.wheel.as_ref()).collect();
    let audited = context.audited().filter(|(_, distribution)| open.contains(&distribution.file_name()));
    audited.filter_map(|(_, distribution)| Some(fix::ask(distribution)?.command)).collect()
}

/// Removes the fixes of search paths where a library is found by these alone (RW002) and no repair
/// brings it: the wheel would load nowhere.
pub fn keep_search_paths(findings: &mut [Finding]) {
    let outside = findings.iter().filter(|finding| finding.code == Code::LibraryOutside);
    let lost = outside.filter(|finding| !finding.fix.as_ref().is_some_and(Fix::is_repair));
    let lost: BTreeSet<Option<String>> = lost.map(|finding| finding.wheel.clone()).collect();
    for finding in findings.iter_mut().filter(|finding| finding.code == Code::SearchPath && finding.fix.is_some()) {
        if lost.contains(&finding.wheel) {
            finding.drop_fix("where the libraries come from that only this search path finds (RW002)");
        }
    }
}

/// Adds the ROCm version that a wheel was built for to its repairs, if it can be determined and
/// METADATA lacks it. A repair that would require a version without packages is removed.
pub(crate) fn say_versions(context: &Context<'_>, findings: &mut [Finding]) {
    let mut versions: BTreeMap<PathBuf, Option<String>> = BTreeMap::new();
    for finding in findings {
        let Some(Fix { path, step: Step::Repair(Repair { way, .. }), .. }) = &finding.fix else { continue };
        let way = *way;
        if way < Way::Rocm {
            continue;
        }
        let Some(wheel) = context.site.distributions.iter().position(|wheel| wheel.path == *path) else { continue };
        let version = versions.entry(path.clone()).or_insert_with(|| rocm_version::rocm(context, wheel)).clone();
        let installed = &context.site.distributions[wheel];
        if let Some(version) = version.as_ref().filter(|version| !rocm_version::may_have_packages(context, version)) {
            finding.drop_fix(format!(
                "build it for ROCm {FIRST_ON_INDEXES} or newer: it is for ROCm {version}, of which no index has a release"
            ));
            continue;
        }
        // A preload list compares with one exact version, not with a range.
        let version = version.filter(|version| way == Way::Rocm || !version.ends_with(".*"));
        let repair = Step::Repair(Repair { way, rocm: version, ..Repair::default() });
        if let Some(new) = Fix::new(installed, repair) {
            finding.fix = Some(new);
        }
    }
}
