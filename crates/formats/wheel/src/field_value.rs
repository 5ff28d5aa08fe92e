//! Input: a field of METADATA and its value. Output: the reason why the value does not fit.

use crate::Error;

/// Checks that a value fits on the line of its field.
pub fn check_value(field: &str, value: &str) -> Result<(), Error> {
    let reason = if value.is_empty() {
        "it is empty"
    } else if value.chars().any(char::is_control) {
        "it contains a line break or another control character"
    } else if value.trim() != value {
        "it begins or ends with white space"
    } else if matches!(field, "Dynamic") && !is_dynamic_name(value) {
        "it is not one field name in its usual spelling, or a field that cannot be dynamic"
    } else {
        return Ok(());
    };
    Err(Error::Metadata { field: field.to_owned(), value: value.to_owned(), reason })
}

fn is_dynamic_name(value: &str) -> bool {
    value.starts_with(|first: char| first.is_ascii_uppercase())
        && value.chars().all(|character| character.is_ascii_alphabetic() || character == '-')
        && !matches!(value, "Name" | "Version" | "Metadata-Version")
}
