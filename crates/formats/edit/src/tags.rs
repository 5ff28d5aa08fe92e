//! Input: the tags in a wheel's file name, and their change in the syntax of `wheel tags`. Output:
//! the new tags.

use std::collections::BTreeSet;

use rocwheel_wheel::{Error, TagPart};

use crate::error::unusable;

/// A change of the interpreters, ABIs or platforms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagEdit {
    Set(Vec<String>),
    Add(Vec<String>),
    Remove(Vec<String>),
}

impl TagEdit {
    /// Parses `cp312.cp313`, `+cp313` or `-cp312`. Fails if a part is not a tag, and for setting or
    /// adding a tag that no installer knows; such a tag may be removed.
    pub fn parse(part: TagPart, text: &str) -> Result<TagEdit, Error> {
        let (make, rest): (fn(Vec<String>) -> TagEdit, &str) = match text.as_bytes().first() {
            Some(b'+') => (TagEdit::Add, &text[1..]),
            Some(b'-') => (TagEdit::Remove, &text[1..]),
            _ => (TagEdit::Set, text),
        };
        let wrong = rest.split('.').find(|part| {
            part.is_empty() || part.contains(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        });
        if let Some(part) = wrong {
            return Err(unusable("set of tags", text, format!("`{part}` should be letters, digits and `_`")));
        }
        if !text.starts_with('-') {
            part.check(rest)?;
        }
        Ok(make(rest.split('.').map(str::to_owned).collect()))
    }

    /// The new tags, sorted; `None` if the set does not change. Fails if no tag is left.
    pub(crate) fn apply(&self, old: &[String]) -> Result<Option<Vec<String>>, Error> {
        let before: BTreeSet<&String> = old.iter().collect();
        let mut tags = before.clone();
        match self {
            TagEdit::Set(new) => tags = new.iter().collect(),
            TagEdit::Add(new) => tags.extend(new),
            TagEdit::Remove(gone) => tags.retain(|tag| !gone.contains(tag)),
        }
        if tags.is_empty() {
            return Err(unusable("change of the tags", &old.join("."), "no tag would be left"));
        }
        Ok((tags != before).then(|| tags.into_iter().cloned().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_sets() {
        let apply = |edit: &str, old: &[&str]| {
            let old: Vec<String> = old.iter().map(|tag| (*tag).to_owned()).collect();
            TagEdit::parse(TagPart::Python, edit)
                .and_then(|edit| edit.apply(&old))
                .map(|tags| tags.map(|tags| tags.join(".")))
        };
        assert_eq!(apply("py3", &["py2"]).unwrap().as_deref(), Some("py3"));
        assert_eq!(apply("+cp39", &["py2"]).unwrap().as_deref(), Some("cp39.py2"));
        assert_eq!(apply("-py2", &["py3", "py2"]).unwrap().as_deref(), Some("py3"));
        assert_eq!(apply("py2.py3", &["py3", "py2"]).unwrap(), None);
        assert_eq!(apply("+py2", &["py2"]).unwrap(), None);
        assert_eq!(apply("-py4", &["py2"]).unwrap(), None);
        assert!(apply("-py2", &["py2"]).unwrap_err().to_string().contains("no tag would be left"));
        for wrong in ["", "+", "a-b", "a..b", "a b"] {
            assert!(TagEdit::parse(TagPart::Python, wrong).is_err(), "{wrong}");
        }
        assert!(TagEdit::parse(TagPart::Python, "-12").is_ok(), "a wrong tag can be removed");
    }
}
