//! Input: names, hashes and sizes of a wheel's members. Output: the text of RECORD (PEP 376, PEP
//! 427), and the reverse.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rocwheel_content::{Digest, HashAlgorithm, Hasher};

/// The value of RECORD's second column for a SHA-256.
pub fn hash_column(digest: &Digest) -> String {
    format!("sha256={}", URL_SAFE_NO_PAD.encode(digest))
}

/// A hash that RECORD may contain: SHA-256 or stronger, in URL-safe base64 without padding (PEP
/// 376, PEP 427).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hash {
    algorithm: HashAlgorithm,
    bytes: Vec<u8>,
}

impl Hash {
    /// Parses the second column of RECORD. `None` if it is empty, weak or in another form, such as
    /// hexadecimal.
    pub(crate) fn parse(column: &str) -> Option<Hash> {
        let (name, value) = column.split_once('=')?;
        let algorithm = HashAlgorithm::named(name)?;
        let bytes = URL_SAFE_NO_PAD.decode(value).ok()?;
        (bytes.len() == algorithm.size()).then_some(Hash { algorithm, bytes })
    }

    /// The hash of the bytes that `read` adds to the hasher.
    pub(crate) fn of<E>(algorithm: HashAlgorithm, read: impl FnOnce(&mut Hasher) -> Result<(), E>) -> Result<Hash, E> {
        let mut hasher = Hasher::new(algorithm);
        read(&mut hasher)?;
        Ok(Hash { algorithm, bytes: hasher.finish() })
    }

    pub(crate) fn algorithm(&self) -> HashAlgorithm {
        self.algorithm
    }

    /// The value of RECORD's second column.
    pub(crate) fn column(&self) -> String {
        format!("{}={}", self.algorithm.name(), URL_SAFE_NO_PAD.encode(&self.bytes))
    }
}

/// A RECORD that is being written.
#[derive(Debug, Default)]
pub(crate) struct Record {
    text: String,
}

impl Record {
    /// Adds the row of a member.
    pub(crate) fn push(&mut self, name: &str, digest: &Digest, size: u64) {
        self.push_row(name, &hash_column(digest), size);
    }

    /// Adds the row of a member with this second column.
    pub(crate) fn push_row(&mut self, name: &str, hash: &str, size: u64) {
        self.text.push_str(&format!("{},{hash},{size}\n", quoted(name)));
    }

    /// The whole text, which lists RECORD itself without hash and size.
    pub(crate) fn text(mut self, record_name: &str) -> String {
        self.text.push_str(&format!("{},,\n", quoted(record_name)));
        self.text
    }
}

/// The field in CSV's excel dialect: in quotes only if necessary.
fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// A row of RECORD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRow {
    /// Path of the file, relative to the folder in which the wheel is installed.
    pub path: String,
    /// `sha256=…`; empty for RECORD itself and for files that are made after the installation.
    pub hash: String,
    /// Size in bytes; `None` if the column is empty.
    pub size: Option<u64>,
}

/// The rows of a RECORD. The error contains the line.
pub fn parse_rows(text: &str) -> Result<Vec<RecordRow>, String> {
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
        rows.push(RecordRow { path: path.to_owned(), hash: hash.to_owned(), size });
    }
    Ok(rows)
}

/// The change of a row of RECORD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowEdit {
    /// Keep it unchanged.
    Keep,
    /// Remove it.
    Drop,
    /// Set the SHA-256 and the size in bytes.
    Replace(Digest, u64),
}

/// Edits some rows of a RECORD; the others keep their bytes. The error contains the line.
pub fn edit_rows(text: &str, mut edit: impl FnMut(&RecordRow) -> RowEdit) -> Result<String, String> {
    let mut edited = String::with_capacity(text.len());
    let (mut start, mut end, mut line) = (0, 0, 1);
    for part in text.split_inclusive('\n') {
        end += part.len();
        let row = &text[start..end];
        // A quoted name may contain line breaks.
        if row.matches('"').count() % 2 == 1 && end < text.len() {
            continue;
        }
        let parsed = parse_rows(row).map_err(|error| error.replacen("line 1", &format!("line {line}"), 1))?;
        match parsed.first().map(&mut edit) {
            None | Some(RowEdit::Keep) => edited.push_str(row),
            Some(RowEdit::Drop) => {}
            Some(RowEdit::Replace(digest, size)) => {
                let line_end = &row[row.trim_end_matches(['\r', '\n']).len()..];
                let path = parsed.first().map(|row| quoted(&row.path)).unwrap_or_default();
                edited.push_str(&format!("{path},{},{size}{line_end}", hash_column(&digest)));
            }
        }
        line += row.matches('\n').count();
        start = end;
    }
    Ok(edited)
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
    fn rows_that_do_not_change_keep_their_bytes() {
        let text = "a.so,sha256=x,1\r\n\"b,\nc\",,\r\n\n\"kept\",sha256=y,3\nlast,,";
        let edited = edit_rows(text, |row| match row.path.as_str() {
            "a.so" => RowEdit::Replace([7; 32], 5),
            "b,\nc" => RowEdit::Replace([7; 32], 6),
            "last" => RowEdit::Drop,
            _ => RowEdit::Keep,
        });
        let hash = "sha256=BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc";
        let expected = format!("a.so,{hash},5\r\n\"b,\nc\",{hash},6\r\n\n\"kept\",sha256=y,3\n");
        assert_eq!(edited.as_deref(), Ok(expected.as_str()));
        assert_eq!(edit_rows(text, |_| RowEdit::Keep).as_deref(), Ok(text));
        assert_eq!(edit_rows("a,,\nb\n", |_| RowEdit::Keep).unwrap_err(), "line 2 does not have three columns");
    }

    #[test]
    fn a_broken_row_is_named() {
        assert_eq!(parse_rows("a,b\n").unwrap_err(), "line 1 does not have three columns");
        assert_eq!(parse_rows("a,,\nb,,x\n").unwrap_err(), "line 2: `x` is not a size");
    }
}
