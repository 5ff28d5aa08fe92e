//! RW007: the files need a newer glibc, or a newer version of another system library, than the tags
//! promise.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_wheel::manylinux;
use rocwheel_wheel::manylinux::{DottedVersion, FileNeeds, LibraryNeeds, Policies};
use rocwheel_wheel::{CLibrary, LoaderFeature, LoaderSupport, PlatformTag};

use crate::Error;
use crate::analysis::floor::{needs, unreached_needs};
use crate::analysis::{Context, listed, platform_tags};
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::fix;
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::TooNew, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, _) in context.audited() {
        too_new(context, wheel, &needs(context, wheel), findings);
        let first = findings.len();
        too_new(context, wheel, &unreached_needs(context, wheel), findings);
        for finding in &mut findings[first..] {
            finding.decides = false;
            finding.fix = None;
        }
        too_new_for_loader(context, wheel, findings);
    }
    Ok(())
}

fn too_new(context: &Context<'_>, wheel: usize, needs: &[FileNeeds], findings: &mut Vec<Finding>) {
    let installed = &context.site.distributions[wheel];
    if context.is_for_musl(wheel) {
        return;
    }
    let tags = platform_tags(installed).filter_map(|(tag, platform)| match platform {
        PlatformTag::Manylinux { glibc, .. } => Some((format!("the tag `{tag}` promises"), tag, glibc)),
        _ => None,
    });
    let mut asked: Vec<(String, String, DottedVersion)> = tags.collect();
    // A promise can have several names: `manylinux2014` and `manylinux_2_17`.
    asked.sort_by(|one, other| (&one.2, one.1.len()).cmp(&(&other.2, other.1.len())));
    asked.dedup_by(|one, other| one.2 == other.2);
    let named = context
        .options
        .glibc
        .iter()
        .map(|glibc| ("it is to work with".to_owned(), "--glibc".to_owned(), glibc.clone()));
    let is_from_tag = asked.len();
    asked.extend(named);
    let lowest = manylinux::floor(needs).tag;
    for (index, (who, subject, glibc)) in asked.into_iter().enumerate() {
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for file in needs {
            for library in file.libraries.iter().filter(|library| Policies::built_in().provides(&library.library)) {
                for version in library.versions.iter().filter(|version| !is_promised(version, &glibc)) {
                    versions.entry(version).or_default().insert(&file.file);
                }
                if !has_library(&library.library, &glibc) {
                    versions.entry(&library.library).or_default().insert(&file.file);
                }
            }
        }
        if versions.is_empty() {
            continue;
        }
        let files: BTreeSet<&str> = versions.values().flatten().copied().collect();
        let mut names: Vec<&str> = versions.keys().copied().collect();
        names.sort_by_key(|name| std::cmp::Reverse(sort_key(name)));
        let file = files.first().copied().unwrap_or_default();
        let message = format!("{who} glibc {glibc}, and the files need {}", listed(names.iter().copied()));
        let mut finding = Finding::new(Code::TooNew, subject, message)
            .of(installed.file_name())
            .in_files(files.clone())
            .naming(names);
        finding.file = Some(file.to_owned());
        if index < is_from_tag && lowest.starts_with("manylinux") {
            finding.fix = fix::platform(installed, &lowest);
        }
        findings.push(finding);
    }
}

/// A C library version that a tag or an option promises.
struct PromisedLibrary {
    /// Subject and verb: "the tag `x` promises".
    promise: String,
    /// The tag, or the option.
    subject: String,
    /// The name of the library: `glibc`.
    name: &'static str,
    library: CLibrary,
    version: DottedVersion,
}

/// The oldest C libraries of the tags of a wheel, and the one that the user names.
fn promised_libraries(context: &Context<'_>, wheel: usize) -> Vec<PromisedLibrary> {
    let tags = platform_tags(&context.site.distributions[wheel]);
    let mut promised: Vec<PromisedLibrary> = tags
        .filter_map(|(tag, platform)| {
            let (name, library, version) = match platform {
                PlatformTag::Manylinux { glibc, .. } => ("glibc", CLibrary::Glibc, glibc),
                PlatformTag::Musllinux { musl, .. } => ("musl", CLibrary::Musl, musl),
                _ => return None,
            };
            Some(PromisedLibrary { promise: format!("the tag `{tag}` promises"), subject: tag, name, library, version })
        })
        .collect();
    promised.extend(context.options.glibc.iter().map(|glibc| PromisedLibrary {
        promise: "it is to work with".to_owned(),
        subject: "--glibc".to_owned(),
        name: "glibc",
        library: CLibrary::Glibc,
        version: glibc.clone(),
    }));
    promised
}

/// Reports features of files that the oldest promised loader does not know.
fn too_new_for_loader(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let installed = &context.site.distributions[wheel];
    let mut files: BTreeMap<LoaderFeature, Vec<&str>> = BTreeMap::new();
    for (path, object) in context.native(wheel) {
        for feature in LoaderFeature::of(&object.elf) {
            files.entry(feature).or_default().push(path);
        }
    }
    let mut promised = promised_libraries(context, wheel);
    promised.sort_by(|one, other| one.version.cmp(&other.version));
    for (feature, paths) in files {
        let oldest = promised.iter().find(|promised| match feature.support(promised.library) {
            LoaderSupport::Since(version) => first_version(version).is_some_and(|first| promised.version < first),
            LoaderSupport::Always | LoaderSupport::Never => false,
        });
        let Some(oldest) = oldest else { continue };
        let LoaderSupport::Since(version) = feature.support(oldest.library) else { continue };
        let PromisedLibrary { promise, subject, name, version: asked, .. } = oldest;
        let message = format!(
            "{promise} {name} {asked}, and the file has {}, which {name} loads since {version}: {}",
            feature.name(),
            feature.fault()
        );
        let finding = context.finding((Code::TooNew, wheel), subject, message, paths).naming([feature.word()]);
        let lowest = manylinux::floor(&needs(context, wheel)).tag;
        let is_glibc = oldest.library == CLibrary::Glibc && lowest.starts_with("manylinux");
        findings.push(finding.fixed_by(is_glibc.then(|| fix::platform(installed, &lowest)).flatten()));
    }
}

fn first_version(text: &str) -> Option<DottedVersion> {
    DottedVersion::try_from(text.to_owned()).ok()
}

/// `true` if systems with this glibc have a version of a system library's symbols.
///
/// A glibc without a policy was in distributions between two policies. Apart from glibc, such a
/// system had no more than the next policy promises.
fn is_promised(version: &str, glibc: &DottedVersion) -> bool {
    let policies = Policies::built_in().policies();
    if let Some(number) = version.strip_prefix("GLIBC_")
        && let Ok(number) = DottedVersion::try_from(number.to_owned())
    {
        return number <= *glibc;
    }
    let policy = policies.iter().find(|policy| policy.glibc >= *glibc).or(policies.last());
    policy.is_some_and(|policy| policy.promises(version))
}

/// `true` if the policy of this glibc lists a library.
fn has_library(library: &str, glibc: &DottedVersion) -> bool {
    let files = [FileNeeds {
        libraries: vec![LibraryNeeds { library: library.to_owned(), versions: Vec::new() }],
        ..FileNeeds::default()
    }];
    manylinux::floor(&files).policy.is_some_and(|policy| policy.glibc <= *glibc || policy.glibc == *oldest())
}

fn oldest() -> &'static DottedVersion {
    &Policies::built_in().policies()[0].glibc
}

fn sort_key(version: &str) -> (bool, Option<DottedVersion>) {
    let number = version.split_once('_').and_then(|(_, number)| DottedVersion::try_from(number.to_owned()).ok());
    (version.starts_with("GLIBC_"), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> DottedVersion {
        DottedVersion::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn promises_between_policies_are_kept() {
        for (version, glibc, answer) in [
            ("GLIBC_2.29", "2.29", true),
            ("GLIBC_2.30", "2.29", false),
            ("GLIBC_2.34", "2.28", false),
            // 2.29 has no policy, so versions that 2.31 promises besides glibc are accepted.
            ("GLIBCXX_3.4.28", "2.29", true),
            ("GLIBCXX_3.4.29", "2.29", false),
            ("GLIBCXX_3.4.25", "2.28", false),
            ("GLIBC_2.99", "2.99", true),
            ("CXXABI_1.3.15", "2.99", true),
            ("GLIBC_PRIVATE", "2.41", false),
        ] {
            assert_eq!(is_promised(version, &release(glibc)), answer, "{version} with {glibc}");
        }
        assert!(has_library("libexpat.so.1", &release("2.12")) && has_library("libexpat.so.1", &release("2.28")));
        assert!(!has_library("libexpat.so.1", &release("2.5")));
        assert!(has_library("libc.so.6", &release("2.5")));
    }
}
