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
