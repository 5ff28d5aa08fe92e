//! Input: a document, and keys. Output: the document in a DSSE envelope with their signatures, and
//! back; and in-toto statements about files, which are identified by their SHA-256.

mod envelope;
mod error;
mod keys;
mod statement;

pub use envelope::{EnvelopeSignature, SignedEnvelope};
pub use error::AttestError;
pub use keys::{PublicKey, SigningKey};
pub use statement::{InTotoStatement, STATEMENT_PAYLOAD, STATEMENT_TYPE, StatementSubject};
