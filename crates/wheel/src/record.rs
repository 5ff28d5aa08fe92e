//! Input: names, hashes and sizes of a wheel's members. Output: the text of RECORD (PEP 376, PEP 427), and back.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// SHA-256 of a member.
pub type Digest = [u8; 32];

/// The value of RECORD's second column for a SHA-256.
pub fn hash_column(digest: &Digest) -> String {
    format!("sha256={}", URL_SAFE_NO_PAD.encode(digest))
}

/// RECORD as it grows.
#[derive(Debug, Default)]
pub(crate) struct Record {
    text: String,
}

impl Record {
    /// Adds the row of a member.
    pub(crate) fn push(&mut self, name: &str, digest: &Digest, size: u64) {
        self.text.push_str(&format!("{},{},{size}\n", quoted(name), hash_column(digest)));
    }

    /// The whole text; RECORD itself stands in it without hash and size.
    pub(crate) fn text(mut self, record_name: &str) -> String {
        self.text.push_str(&format!("{},,\n", quoted(record_name)));
        self.text
    }
}

/// The field as CSV's excel dialect writes it: in quotes only where it must be.
fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// A row of RECORD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Path of the file, relative to the folder the wheel is installed to.
    pub path: String,
    /// `sha256=…`; empty for RECORD itself and for files made after the installation.
    pub hash: String,
    /// Bytes, `None` where the column is empty.
    pub size: Option<u64>,
}

/// The rows of a RECORD. Errors say which line is wrong.
pub fn parse_rows(text: &str) -> Result<Vec<Row>, String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        let (Some(path), Some(hash), Some(size), 3) = (record.get(0), record.get(1), record.get(2), record.len())
        else {
            return Err(format!("line {line} does not have three columns"));
        };
        let size = match size {
            "" => None,
            text => Some(text.parse().map_err(|_| format!("line {line}: `{text}` is not a size"))?),
        };
        rows.push(Row { path: path.to_owned(), hash: hash.to_owned(), size });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_are_read_back(names in proptest::collection::vec("[a-z,\"'é /]{1,20}", 0..8), size in any::<u64>()) {
            let mut record = Record::default();
            for name in &names {
                record.push(name, &[7; 32], size);
            }
            let rows = parse_rows(&record.text("x.dist-info/RECORD")).unwrap();
            prop_assert_eq!(rows.len(), names.len() + 1);
            for (row, name) in rows.iter().zip(&names) {
                prop_assert_eq!(&row.path, name);
                prop_assert_eq!(row.size, Some(size));
                prop_assert_eq!(&row.hash, "sha256=BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc");
            }
        }
    }

    #[test]
    fn a_broken_row_is_named() {
        assert_eq!(parse_rows("a,b\n").unwrap_err(), "line 1 does not have three columns");
        assert_eq!(parse_rows("a,,\nb,,x\n").unwrap_err(), "line 2: `x` is not a size");
    }
}
