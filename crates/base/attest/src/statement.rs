//! Statements of in-toto, version 1 (in-toto/attestation, `spec/v1/statement.md`).

use rocwheel_content::document;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::{SignedEnvelope, SigningKey};

/// `_type` of a statement.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The payload type of a statement in an envelope.
pub const STATEMENT_PAYLOAD: &str = "application/vnd.in-toto+json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatementSubject {
    pub name: String,
    /// Algorithm → digest in hexadecimal: `sha256`.
    pub digest: BTreeMap<String, String>,
}

impl StatementSubject {
    /// A file by its SHA-256 in hexadecimal.
    pub fn new(name: &str, sha256: &str) -> StatementSubject {
        StatementSubject { name: name.to_owned(), digest: BTreeMap::from([("sha256".to_owned(), sha256.to_owned())]) }
    }
}

/// An in-toto v1 statement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InTotoStatement {
    /// [`STATEMENT_TYPE`].
    #[serde(rename = "_type")]
    pub kind: String,
    pub subject: Vec<StatementSubject>,
    /// The address that names the form of the predicate.
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    /// The statement itself, in the form that `predicate_type` names.
    pub predicate: Value,
}

impl InTotoStatement {
    pub fn new(subject: Vec<StatementSubject>, predicate_type: &str, predicate: Value) -> InTotoStatement {
        InTotoStatement {
            kind: STATEMENT_TYPE.to_owned(),
            subject,
            predicate_type: predicate_type.to_owned(),
            predicate,
        }
    }

    /// The statement in an envelope, signed with every key.
    pub fn seal(&self, keys: &[SigningKey]) -> SignedEnvelope {
        SignedEnvelope::seal(STATEMENT_PAYLOAD, &document::write(self), keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_the_keys_of_the_specification() {
        let subject = StatementSubject::new("a-1-py3-none-any.whl", "00ff");
        let statement = InTotoStatement::new(vec![subject], "https://example.com/x/v1", serde_json::json!({ "y": 1 }));
        let text = serde_json::to_string(&statement).unwrap();
        assert_eq!(
            text,
            "{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":\"a-1-py3-none-any.whl\",\
             \"digest\":{\"sha256\":\"00ff\"}}],\"predicateType\":\"https://example.com/x/v1\",\"predicate\":{\"y\":1}}"
        );
        let (_, payload) = SignedEnvelope::parse(&statement.seal(&[]).bytes(), "x", STATEMENT_PAYLOAD).unwrap();
        assert_eq!(serde_json::from_slice::<InTotoStatement>(&payload).unwrap(), statement);
    }
}
