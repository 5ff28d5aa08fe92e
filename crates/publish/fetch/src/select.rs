//! Input: the artifacts of a run, and filters. Output: the artifacts that all filters leave, and
//! the words of filters that nothing meets.

use std::collections::BTreeSet;

use globset::{Glob, GlobMatcher};
use regex::Regex;
use rocwheel_artifact::ArtifactName;
use rocwheel_artifact::archive::Compression;
use rocwheel_progress::{Failure, nearest};
use rocwheel_tables::TargetTable;
use rocwheel_tables::target::base_target;

use crate::error::{unmatched, wrong_place};

/// How many existing names an error suggests.
const SUGGESTED: usize = 12;

/// A pattern of artifact names: `blas_lib_*` for the whole name, or `regex:blas_lib` for any part
/// of the file's name, as today's `fetch_artifacts.py` has them.
#[derive(Debug, Clone)]
pub struct NamePattern {
    text: String,
    matcher: Matcher,
}

#[derive(Debug, Clone)]
enum Matcher {
    Whole(GlobMatcher),
    Part(Regex),
}

impl NamePattern {
    pub fn parse(text: &str) -> Result<NamePattern, Failure> {
        let matcher = match text.strip_prefix("regex:") {
            Some(expression) => Matcher::Part(Regex::new(expression).map_err(|error| {
                let reason = error.to_string();
                no_pattern(text, reason.lines().last().unwrap_or_default().trim_start_matches("error: "))
            })?),
            None if text.trim().is_empty() => return Err(no_pattern(text, "it is empty")),
            None => {
                let glob = Glob::new(text).map_err(|error| no_pattern(text, &error.kind().to_string()))?;
                Matcher::Whole(glob.compile_matcher())
            }
        };
        Ok(NamePattern { text: text.to_owned(), matcher })
    }

    fn accepts(&self, found: &Listed) -> bool {
        match &self.matcher {
            Matcher::Whole(glob) => glob.is_match(found.name.to_string()),
            Matcher::Part(expression) => expression.is_match(&found.file),
        }
    }
}

fn no_pattern(text: &str, reason: &str) -> Failure {
    wrong_place(format!("`{text}` is no pattern of artifact names: {reason}"))
        .with_hint("write a name with `*`, such as `blas_lib_*`, or a regular expression after `regex:`")
}

#[derive(Debug, Clone)]
pub(crate) struct Listed {
    pub(crate) name: ArtifactName,
    pub(crate) file: String,
}

/// Which artifacts are wanted. An empty filter leaves all of them.
#[derive(Debug, Clone, Default)]
pub struct ArtifactFilter {
    /// First fields of artifact names, as a stage or group has them; `None`: all.
    pub artifacts: Option<BTreeSet<String>>,
    pub components: Vec<String>,
    /// GPU targets, families and `generic`; none: all. Those without a GPU are always taken.
    pub targets: Vec<String>,
    /// Each has to match an artifact that the filters above leave; none: all.
    pub include: Vec<NamePattern>,
    /// What is left out of that. Each has to match an artifact of the listing, or a misspelt name
    /// would let through what it was to leave out.
    pub exclude: Vec<NamePattern>,
    /// `true` if the names in `exclude` were checked elsewhere, and a listing may lack some.
    pub exclude_may_miss: bool,
}

/// A word of `--targets` and the families of artifacts that it means.
struct TargetWord {
    word: String,
    means: Vec<String>,
    /// Code of a portable target is in no artifact of its own.
    is_optional: bool,
}

impl TargetWord {
    fn new(word: &str, table: &TargetTable) -> TargetWord {
        // Artifacts of a family carry its own name, those of its targets theirs. A name that the
        // table lacks may be that of a bundle, and is compared as it is.
        let mut means = table.expand(word).unwrap_or_default();
        let is_optional = means.iter().any(|target| table.is_portable(target));
        means.push(word.to_owned());
        TargetWord { word: word.to_owned(), means, is_optional }
    }

    fn accepts(&self, name: &ArtifactName) -> bool {
        self.means.iter().any(|target| base_target(target) == name.base_target())
    }
}

impl ArtifactFilter {
    /// The archives that the filter leaves, one for each artifact, sorted by artifact.
    pub(crate) fn select(&self, files: &[String], folder: &str) -> Result<Vec<Listed>, Failure> {
        let all = listed(files);
        if all.is_empty() {
            return Err(Failure::message(format!("`{folder}` has no artifacts")).with_hint(
                "check the run, `--platform`, `--release-type` and `--repository` (nightly builds run in `ROCm/rockrel`)",
            ));
        }
        let count = all.len();
        let wanted: Vec<Listed> = all.iter().filter(|found| self.is_of_build(&found.name)).cloned().collect();
        let table = TargetTable::embedded();
        let words: Vec<TargetWord> = self.targets.iter().map(|word| TargetWord::new(word, &table)).collect();
        // Before the stage for the GPUs has run there is nothing for any of them.
        let is_for_gpus = wanted.iter().any(|found| !found.name.is_generic());
        let missing = words.iter().filter(|word| !word.is_optional);
        let missing = missing.filter(|word| !wanted.iter().any(|found| word.accepts(&found.name)));
        let missing: Vec<String> = missing.map(|word| word.word.clone()).collect();
        if is_for_gpus && !missing.is_empty() {
            let families: BTreeSet<&str> = wanted.iter().map(|found| found.name.target_family.as_str()).collect();
            let existing: Vec<String> = families.into_iter().map(str::to_owned).collect();
            return Err(unmatched(folder, &missing, &existing));
        }
        let mut left = wanted;
        left.retain(|Listed { name, .. }| {
            words.is_empty() || name.is_generic() || words.iter().any(|word| word.accepts(name))
        });
        let excluded = if self.exclude_may_miss { &[][..] } else { &self.exclude };
        for (patterns, listed) in [(&self.include[..], &left), (excluded, &all)] {
            let unmet: Vec<&NamePattern> =
                patterns.iter().filter(|pattern| !listed.iter().any(|found| pattern.accepts(found))).collect();
            if !unmet.is_empty() {
                let wanted: Vec<String> = unmet.iter().map(|pattern| pattern.text.clone()).collect();
                return Err(unmatched(folder, &wanted, &suggestions(&unmet, listed)));
            }
        }
        left.retain(|found| {
            let is_included = self.include.is_empty() || self.include.iter().any(|pattern| pattern.accepts(found));
            is_included && !self.exclude.iter().any(|pattern| pattern.accepts(found))
        });
        if left.is_empty() {
            let text = format!("`{folder}` has {count} artifacts, none of which is selected");
            return Err(
                Failure::message(text).with_hint("remove some of the filters; `--dry-run` lists what they leave")
            );
        }
        Ok(left)
    }

    fn is_of_build(&self, name: &ArtifactName) -> bool {
        self.artifacts.as_ref().is_none_or(|names| names.contains(&name.name))
            && (self.components.is_empty() || self.components.contains(&name.component))
    }
}

/// The patterns that no archive of a listing meets.
pub(crate) fn unmet(patterns: &[NamePattern], files: &[String]) -> Vec<String> {
    let all = listed(files);
    let open = patterns.iter().filter(|pattern| !all.iter().any(|found| pattern.accepts(found)));
    open.map(|pattern| pattern.text.clone()).collect()
}

/// The archives of artifacts in a listing, one for each artifact: `.tar.zst` before `.tar.xz`.
fn listed(files: &[String]) -> Vec<Listed> {
    let found = files.iter().filter_map(|file| Some((ArtifactName::parse_archive(file)?, file.clone())));
    let mut found: Vec<((ArtifactName, Compression), String)> = found.collect();
    found.sort();
    found.dedup_by(|((later, _), _), ((earlier, _), _)| later == earlier);
    found.into_iter().map(|((name, _), file)| Listed { name, file }).collect()
}

/// Names that are near the patterns, or the first ones.
fn suggestions(unmet: &[&NamePattern], left: &[Listed]) -> Vec<String> {
    let names: Vec<String> = left.iter().map(|found| found.name.to_string()).collect();
    let near: BTreeSet<&str> =
        unmet.iter().filter_map(|pattern| nearest(&pattern.text, names.iter().map(String::as_str))).collect();
    if near.is_empty() {
        names.into_iter().take(SUGGESTED).collect()
    } else {
        near.into_iter().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<String> {
        let names = "base_lib_generic.tar.zst base_lib_generic.tar.xz base_lib_generic.tar.zst.sha256sum \
                     blas_lib_generic.tar.zst blas_lib_gfx942.tar.zst blas_lib_gfx942:xnack+.tar.zst \
                     blas_test_gfx942.tar.xz host-blas_lib_generic.tar.zst fft_lib_gfx110X-all.tar.zst \
                     index.html not_an_artifact_here.tar.zst";
        names.split(' ').map(str::to_owned).collect()
    }

    fn patterns(texts: &[&str]) -> Vec<NamePattern> {
        texts.iter().map(|text| NamePattern::parse(text).unwrap()).collect()
    }

    fn selected(filter: &ArtifactFilter) -> Result<String, String> {
        let selected = filter.select(&files(), "s3://b/1-linux").map_err(|error| {
            let hint = error.hint().unwrap_or_default().to_owned();
            format!("{error} | {hint}")
        })?;
        Ok(selected.iter().map(|found| found.file.trim_end_matches(".tar.zst")).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn filters_narrow_each_other() {
        let all = selected(&ArtifactFilter::default()).unwrap();
        assert_eq!(
            all,
            "base_lib_generic blas_lib_generic blas_lib_gfx942 blas_lib_gfx942:xnack+ blas_test_gfx942.tar.xz \
             fft_lib_gfx110X-all host-blas_lib_generic"
        );
        let of = |targets: &[&str]| ArtifactFilter {
            targets: targets.iter().map(|word| (*word).to_owned()).collect(),
            components: vec!["lib".to_owned()],
            ..ArtifactFilter::default()
        };
        assert_eq!(
            selected(&of(&["gfx94X-dcgpu"])).unwrap(),
            "base_lib_generic blas_lib_generic blas_lib_gfx942 blas_lib_gfx942:xnack+ host-blas_lib_generic"
        );
        assert!(selected(&of(&["gfx110X-all"])).unwrap().contains("fft_lib_gfx110X-all"));
        assert_eq!(
            selected(&of(&["gfx1201"])).unwrap_err(),
            "`s3://b/1-linux` has nothing for `gfx1201` | there are `generic`, `gfx110X-all`, `gfx942`, `gfx942:xnack+`"
        );
        let generic = ArtifactFilter { artifacts: Some(["base".to_owned()].into()), ..of(&["gfx1201"]) };
        assert_eq!(selected(&generic).unwrap(), "base_lib_generic");
    }

    #[test]
    fn each_pattern_has_to_match() {
        let of = |include: &[&str], exclude: &[&str]| ArtifactFilter {
            include: patterns(include),
            exclude: patterns(exclude),
            ..ArtifactFilter::default()
        };
        assert_eq!(selected(&of(&["blas_lib_*"], &["*xnack*"])).unwrap(), "blas_lib_generic blas_lib_gfx942");
        // Today's expressions match anywhere.
        assert!(selected(&of(&["regex:blas_lib"], &[])).unwrap().contains("host-blas_lib_generic"));
        assert_eq!(
            selected(&of(&["base_lib_generic", "bals_lib_generic"], &[])).unwrap_err(),
            "`s3://b/1-linux` has nothing for `bals_lib_generic` | there are `blas_lib_generic`"
        );
        assert!(selected(&of(&["base_*"], &["*"])).unwrap_err().contains("none of which is selected"));
        // What was to be left out is not fetched because of a typing error.
        let misspelt = of(&[], &["blas_*", "*_tests_*"]);
        let said = selected(&misspelt).unwrap_err();
        assert!(said.starts_with("`s3://b/1-linux` has nothing for `*_tests_*` | there are "), "{said}");
        assert!(said.contains("`blas_test_gfx942`"), "{said}");
        let lenient = ArtifactFilter { exclude_may_miss: true, ..misspelt };
        assert!(!selected(&lenient).unwrap().contains(" blas_"));
        assert!(NamePattern::parse("regex:(").unwrap_err().to_string().contains("unclosed group"));
        assert!(NamePattern::parse("[").is_err() && NamePattern::parse(" ").is_err());
        let nothing = ArtifactFilter::default().select(&["index.html".to_owned()], "x").unwrap_err();
        assert_eq!(nothing.to_string(), "`x` has no artifacts");
        assert_eq!(unmet(&patterns(&["blas_*", "rand_*"]), &files()), ["rand_*"]);
    }
}
