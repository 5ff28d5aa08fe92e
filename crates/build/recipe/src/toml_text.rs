//! Input: the text of a recipe, a table or a job in TOML. Output: its value, or an error that names
//! the line and the nearest known name.

use rocwheel_progress::suggestion;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// Parses TOML. Errors have the line, and a hint with the nearest known name for an unknown one.
pub fn from_toml<T: DeserializeOwned>(text: &str, path: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let reason = error.message().trim_end().replace('\n', " ");
        let names = quoted(&reason);
        let hint = match names[..] {
            [wrong, ref known @ ..] if reason.starts_with("unknown") && !known.is_empty() => {
                Some(suggestion(wrong, known.iter().copied()))
            }
            _ => None,
        };
        // The list of all known names would hide the wrong one.
        let reason = match (&hint, reason.split_once(", expected")) {
            (Some(_), Some((first, _))) => first.to_owned(),
            _ => reason,
        };
        Error::Malformed { path: path.to_owned(), line, reason, hint }
    })
}

/// The texts between backticks.
pub(crate) fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}
