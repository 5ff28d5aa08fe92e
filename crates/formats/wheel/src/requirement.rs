//! Input: requirements in METADATA and requires.txt. Output: their parts, and the texts with
//! changed parts; the spelling of each requirement is kept.

use pep508_rs::Requirement as Parsed;
use url::Url;

use crate::names::{canonical_name, check_requirement};
use crate::{Error, same_version};

/// A requirement that will be written (dependency specifiers, PEP 508).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenRequirement {
    text: String,
}

impl WrittenRequirement {
    /// Parses a requirement. The error describes the problem.
    pub fn parse(text: &str) -> Result<WrittenRequirement, Error> {
        let text = text.trim();
        if text.chars().any(char::is_control) {
            let reason = "it contains a line break or another control character";
            return Err(Error::name("requirement", text, reason));
        }
        check_requirement(text).map_err(|error| Error::name("requirement", text, error.to_string()))?;
        parsed(text).map_err(|error| Error::name("requirement", text, error.message.to_string()))?;
        Ok(WrittenRequirement { text: text.to_owned() })
    }

    /// The requirement as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of the distribution in its canonical form.
    pub fn name(&self) -> String {
        canonical_name(name_of(&self.text))
    }

    /// The requirement without its marker.
    pub fn head(&self) -> &str {
        split_marker(&self.text).0.trim_end()
    }

    /// The marker, without the semicolon; `None` if there is none.
    pub fn marker(&self) -> Option<&str> {
        split_marker(&self.text).1.map(str::trim)
    }

    /// The requirement with a marker that limits it to an extra.
    pub fn with_extra(&self, extra: &str) -> String {
        match self.marker() {
            Some(marker) => format!("{}; ({marker}) and extra == \"{extra}\"", self.head()),
            None => format!("{}; extra == \"{extra}\"", self.head()),
        }
    }

    /// `true` if a text is the same requirement, possibly spelled differently.
    pub fn is(&self, text: &str) -> bool {
        self.text == text
            || check_requirement(text).is_ok()
                && parsed(text).is_ok_and(|other| parsed(&self.text).is_ok_and(|own| own == other))
    }

    /// This requirement with the marker of `old`, a requirement on the same distribution.
    pub fn in_place_of(&self, old: &str) -> String {
        let marker = &old[split_marker(old).0.trim_end().len()..];
        format!("{}{marker}", self.head())
    }
}

fn parsed(text: &str) -> Result<Parsed<Url>, pep508_rs::Pep508Error<Url>> {
    text.parse()
}

/// The name that a requirement begins with, in its spelling.
pub fn name_of(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|character: char| !character.is_ascii_alphanumeric() && !matches!(character, '-' | '_' | '.'));
    &text[..end.unwrap_or(text.len())]
}

/// `true` if the requirement is on the distribution with this canonical name.
pub fn is_on(text: &str, canonical: &str) -> bool {
    canonical_name(name_of(text)) == canonical
}

/// Splits a requirement at the semicolon before its marker. A semicolon that belongs to a URL has
/// no space before it.
pub fn split_marker(text: &str) -> (&str, Option<&str>) {
    let at = match text.find('@') {
        Some(at) if !text[..at].contains(';') => text[at..].find(" ;").map(|space| at + space + 1),
        _ => text.find(';'),
    };
    match at {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// A requirement on the renamed distribution with the new name; `None` if it does not change.
pub fn renamed(text: &str, old: &str, new: &str) -> Option<String> {
    if !is_on(text, &canonical_name(old)) {
        return None;
    }
    let name = name_of(text);
    let begin = text.len() - text.trim_start().len();
    (name != new).then(|| format!("{}{new}{}", &text[..begin], &text[begin + name.len()..]))
}

/// The requirement with each `==OLD` changed to `==NEW`, where `follow` returns the new version for
/// a name and an old version; `None` if nothing changes.
pub fn followed(text: &str, follow: impl Fn(&str, &str) -> Option<String>) -> Option<String> {
    let name = canonical_name(name_of(text));
    let (head, _) = split_marker(text);
    let begin = head.find(']').map_or(text.len() - text.trim_start().len() + name_of(text).len(), |end| end + 1);
    if head[begin..].trim_start().starts_with('@') {
        return None;
    }
    let mut result = text.to_owned();
    let mut changed = false;
    let mut end = head.len();
    // From right to left, so that the offsets of earlier clauses stay valid.
    for clause in head[begin..].rsplit(',') {
        let start = end - clause.len();
        let trimmed = clause.trim_start_matches(|character: char| character == '(' || character.is_whitespace());
        let version = trimmed.strip_prefix("===").or_else(|| trimmed.strip_prefix("=="));
        if let Some(version) = version {
            let version = version.trim_start();
            let at = end - version.len();
            let version = version.trim_end_matches(|character: char| character == ')' || character.is_whitespace());
            if let Some(new) = follow(&name, version).filter(|new| !same_version(new, version)) {
                result.replace_range(at..at + version.len(), &new);
                changed = true;
            }
        }
        end = start.saturating_sub(1);
    }
    changed.then_some(result)
}

/// The relation of a requirement to an extra.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belongs {
    /// It does not depend on the extra.
    No,
    /// It applies only with the extra.
    Alone,
    /// Its marker names the extra as one of several alternatives.
    Mixed,
}

/// Determines from its marker how a requirement (PEP 508) relates to an extra, which is given in
/// canonical form.
pub fn belongs(text: &str, extra: &str) -> Belongs {
    let Some(marker) = split_marker(text).1 else { return Belongs::No };
    let names = marker.split("extra").skip(1).filter_map(|rest| {
        let rest = rest.trim_start().strip_prefix("==")?.trim_start();
        let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\''))?;
        rest[1..].split_once(quote).map(|(name, _)| canonical_name(name))
    });
    if !names.into_iter().any(|name| name == extra) {
        return Belongs::No;
    }
    let mut words = marker.split(|character: char| !character.is_alphanumeric());
    if words.any(|word| word == "or") { Belongs::Mixed } else { Belongs::Alone }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_checked() {
        for good in ["a", "a[x]>=1,<2; python_version < '3'", "a @ https://example.org/a.whl ; extra == 'x'", "a (>=1)"]
        {
            assert!(WrittenRequirement::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "a >= ", "a; nonsense", "a\nb", "-a", "a b"] {
            let error = WrittenRequirement::parse(bad).unwrap_err().to_string();
            assert!(error.contains("is not a valid requirement"), "{error}");
        }
        let requirement = WrittenRequirement::parse("NumPy>=2 ; python_version<'4'").unwrap();
        assert!(requirement.is("numpy >=2; python_version < \"4\"") && !requirement.is("numpy>=2"));
        assert_eq!(requirement.with_extra("x"), "NumPy>=2; (python_version<'4') and extra == \"x\"");
        assert_eq!(requirement.in_place_of("numpy ; os_name == 'a'"), "NumPy>=2 ; os_name == 'a'");
    }

    #[test]
    fn pins_follow_and_nothing_else_changes() {
        let follow = |text: &str| {
            followed(text, |name, version| {
                (name.starts_with("rocm") && same_version(version, "7.0")).then(|| "7.1+x".to_owned())
            })
        };
        let cases = [
            ("rocm-sdk-core==7.0", Some("rocm-sdk-core==7.1+x")),
            ("rocm[libraries,devel] == 7.0.0 ; extra == 'x'", Some("rocm[libraries,devel] == 7.1+x ; extra == 'x'")),
            ("ROCm (==7.0)", Some("ROCm (==7.1+x)")),
            ("rocm>=6,==7.0,<8", Some("rocm>=6,==7.1+x,<8")),
            ("rocm===7.0", Some("rocm===7.1+x")),
            ("rocm==7.0.*", None),
            ("rocm>=7.0", None),
            ("rocm==7.0rc1", None),
            ("other==7.0", None),
            ("rocm @ https://example.org/==7.0", None),
            ("rocm", None),
        ];
        for (text, expected) in cases {
            assert_eq!(follow(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn markers_say_which_extra() {
        assert_eq!(belongs("a; extra == 'Big_One'", "big-one"), Belongs::Alone);
        assert_eq!(belongs("a; os_name == 'x' and extra=='b'", "b"), Belongs::Alone);
        assert_eq!(belongs("a; extra == 'b' or extra == 'c'", "c"), Belongs::Mixed);
        assert_eq!(belongs("a; extra == 'bb'", "b"), Belongs::No);
        assert_eq!(belongs("extra", "b"), Belongs::No);
        assert_eq!(split_marker("a @ file:///x;y ; os_name == 'z'"), ("a @ file:///x;y ", Some(" os_name == 'z'")));
        assert_eq!(renamed("Foo_bar[x]>=1", "foo-bar", "baz").as_deref(), Some("baz[x]>=1"));
    }
}
