//! Input: a question that has no set. Output: sets that exist for questions that differ in one
//! thing.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rocwheel_progress::{Failure, Reporter};
use rocwheel_tables::{TargetId, TargetTable};
use rocwheel_wheel::{PythonVersion, WheelNameParts};

use crate::answer::Nearest;
use crate::evidence::Pages;
use crate::question::{Question, parsed};
use crate::resolver::Resolvers;
use crate::search::{Looking, search};
use crate::set::pinned;

/// The most Pythons and GPUs that are tried.
const MOST: usize = 3;

/// Sets that exist for questions that differ in one thing, and what there is no set with either.
/// Wheels are not looked into.
pub(crate) fn nearest(
    question: &Question<'_>,
    resolvers: &Resolvers,
    pages: &mut Pages<'_>,
    reporter: &dyn Reporter,
) -> Result<(Vec<Nearest>, Vec<String>), Failure> {
    let (mut found, mut without) = (Vec::new(), Vec::new());
    let mut tried: Vec<(String, Vec<String>, Option<String>, Question<'_>)> = Vec::new();
    let own = &question.target.python;
    let mut pythons: Vec<u16> = BTreeSet::from_iter(pythons_of(question, pages)?).into_iter().collect();
    pythons.retain(|minor| *minor != own.minor);
    pythons.sort_by_key(|minor| (minor.abs_diff(own.minor), *minor));
    for minor in pythons.into_iter().take(MOST) {
        let python = PythonVersion { minor, ..*own };
        let options = vec!["--python".to_owned(), format!("3.{minor}")];
        tried.push((format!("Python 3.{minor}"), options, None, question.with(|one| one.target.python = python)));
    }
    if let Some(rocm) = &question.rocm {
        tried.push((format!("another ROCm than {rocm}"), Vec::new(), None, question.with(|one| one.rocm = None)));
    }
    if !question.constraints.is_empty() {
        let constraints = question.constraints.join(", ");
        tried.push((
            format!("other versions than {constraints}"),
            Vec::new(),
            None,
            question.with(|one| one.constraints.clear()),
        ));
    }
    if let [gpu] = &question.gpus[..] {
        for other in siblings(gpu).into_iter().take(MOST) {
            let caution = format!(
                "it takes HSA_OVERRIDE_GFX_VERSION={}, by which a {gpu} runs code for {other}: AMD does not test this, and \
                 programs may compute wrong results or crash",
                override_of(&other)
            );
            let options = vec!["--gpu".to_owned(), other.clone()];
            tried.push((
                format!("code for {other}"),
                options,
                Some(caution),
                question.with(|one| one.gpus = vec![other]),
            ));
        }
    }
    for (with, options, caution, other) in tried {
        match search(&other, resolvers, pages, Looking::AtNames, reporter)? {
            Ok(set) => found.push(Nearest { with, options, packages: pinned(&set), caution }),
            Err(_) => without.push(with),
        }
    }
    Ok((found, without))
}

/// The minor versions of Python that the packages have compiled wheels for.
pub(crate) fn pythons_of(question: &Question<'_>, pages: &mut Pages<'_>) -> Result<Vec<u16>, Failure> {
    let mut found = Vec::new();
    for text in &question.packages {
        let Some((_, links)) = pages.project(&parsed(text)?.name)? else { continue };
        for parts in links.iter().filter_map(|link| WheelNameParts::parse(&link.file_name).ok()) {
            found.extend(
                rocwheel_pages::views::pythons(&parts).filter_map(|tag| tag.strip_prefix("cp3")?.parse::<u16>().ok()),
            );
        }
    }
    Ok(found)
}

/// The other targets that run the code of the same generic target, those with the most similar
/// numbers first.
fn siblings(gpu: &str) -> Vec<String> {
    let Some(generic) = TargetId::plain(gpu).generic() else { return Vec::new() };
    let table = TargetTable::embedded();
    let others = table.targets().iter().map(|target| target.name.clone()).filter(|name| name != gpu);
    let mut found: Vec<String> =
        others.filter(|name| TargetId::plain(name.as_str()).generic().as_ref() == Some(&generic)).collect();
    found.sort_by_key(|other| Reverse(gpu.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()));
    found
}

/// `10.3.0` for gfx1030: the last two characters are minor version and stepping, in hexadecimal.
fn override_of(target: &str) -> String {
    let digits = target.trim_start_matches("gfx");
    let (major, rest) = digits.split_at(digits.len().saturating_sub(2));
    let parts = rest.chars().filter_map(|digit| digit.to_digit(16)).map(|number| number.to_string());
    std::iter::once(major.to_owned()).chain(parts).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_versions_of_the_target() {
        assert_eq!(["gfx1030", "gfx90a", "gfx942"].map(override_of), ["10.3.0", "9.0.10", "9.4.2"]);
        for (target, nearest) in [("gfx1036", Some("gfx1030")), ("gfx1150", Some("gfx1151")), ("gfx90a", None)] {
            assert_eq!(siblings(target).first().map(String::as_str), nearest);
        }
    }
}
