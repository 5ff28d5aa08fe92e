//! Input: a value. Output: a JSON document; and the check whether this program knows the format of
//! one that it reads.

use serde::Serialize;

/// Why values of this program can always be written.
const WRITABLE: &str = "all keys are text";

/// The value as JSON without line breaks.
pub fn write(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect(WRITABLE)
}

/// The value as JSON in one line, with its end.
pub fn write_line(value: &impl Serialize) -> Vec<u8> {
    ended(write(value))
}

/// The value as JSON for people, with the end of the last line.
pub fn write_pretty(value: &impl Serialize) -> Vec<u8> {
    ended(serde_json::to_vec_pretty(value).expect(WRITABLE))
}

fn ended(mut text: Vec<u8>) -> Vec<u8> {
    text.push(b'\n');
    text
}

/// Refuses a document of another version than the one that this program reads. The error is a
/// sentence about the document.
pub fn check_schema(found: u32, known: u32) -> Result<(), String> {
    if found == known { Ok(()) } else { Err(format!("its schema is {found}, and this program knows {known}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_end_with_their_last_line() {
        let value = std::collections::BTreeMap::from([("a", 1)]);
        assert_eq!(write(&value), b"{\"a\":1}");
        assert_eq!(write_line(&value), b"{\"a\":1}\n");
        assert_eq!(write_pretty(&value), b"{\n  \"a\": 1\n}\n");
    }

    #[test]
    fn another_schema_is_told() {
        assert_eq!(check_schema(1, 1), Ok(()));
        assert_eq!(check_schema(2, 1).unwrap_err(), "its schema is 2, and this program knows 1");
    }
}
