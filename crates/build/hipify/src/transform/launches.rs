//! All kernel launches of a text: as the original converts them, or as they were meant.

use std::borrow::Cow;
use std::sync::OnceLock;

use memchr::memmem;
use regex::Regex;

use super::corrected_launch;
use super::launch::{self, Converted};
use crate::{Defects, Trouble};

pub(super) fn convert(text: &str, defects: Defects) -> Result<Converted, Trouble> {
    let joined = join_namespaces(text);
    if memmem::find(joined.as_bytes(), b"<<<").is_none() {
        return Ok(Converted { text: changed(joined), ..Converted::default() });
    }
    match defects {
        Defects::Fix => Ok(corrected_launch::convert(&joined)),
        Defects::Refuse => launch::convert(text, &joined),
    }
}

fn changed(text: Cow<'_, str>) -> Option<String> {
    match text {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    }
}

/// Joins a kernel's namespace, on a separate line of a macro, with the kernel.
fn join_namespaces(text: &str) -> Cow<'_, str> {
    static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
    // The `?` after the last letter is in the original too.
    let pattern = PATTERN.get_or_init(|| Regex::new(r"( +)(detail?)::[ ]+\\\n +").ok());
    match pattern {
        Some(pattern) if memmem::find(text.as_bytes(), b"detai").is_some() => pattern.replace_all(text, "${1}${2}::"),
        _ => Cow::Borrowed(text),
    }
}
