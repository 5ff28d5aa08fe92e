//! Input: the bytes of a manifest. Output: a DSSE envelope with signatures of them, and back.
//!
//! The signed bytes are those of the DSSE protocol, version 1 (secure-systems-lab/dsse,
//! `protocol.md`): `DSSEv1 SP length SP type SP length SP body`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::StreamFault;
use super::keys::{PublicKey, SigningKey};

/// The payload type of a snapshot.
pub const SNAPSHOT_TYPE: &str = "application/vnd.rocwheel.snapshot+json";
/// The payload type of an in-toto statement.
pub const STATEMENT_TYPE: &str = "application/vnd.in-toto+json";

/// Bytes with signatures. One without signatures is also valid: nothing vouches for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedEnvelope {
    payload_type: String,
    /// In base64.
    payload: String,
    signatures: Vec<EnvelopeSignature>,
}

/// A signature by one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvelopeSignature {
    /// [`PublicKey::id`] of the key.
    pub keyid: String,
    /// In base64.
    sig: String,
}

/// The bytes that are signed ("pre-authentication encoding").
fn signed_bytes(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

impl SignedEnvelope {
    /// Signs a payload of a type with every key.
    pub fn seal(payload_type: &str, payload: &[u8], keys: &[SigningKey]) -> SignedEnvelope {
        let bytes = signed_bytes(payload_type, payload);
        let sign =
            |key: &SigningKey| EnvelopeSignature { keyid: key.public().id(), sig: STANDARD.encode(key.sign(&bytes)) };
        SignedEnvelope {
            payload_type: payload_type.to_owned(),
            payload: STANDARD.encode(payload),
            signatures: keys.iter().map(sign).collect(),
        }
    }

    /// Reads an envelope, with its payload. Signatures are not verified yet.
    ///
    /// # Errors
    /// [`StreamFault::Snapshot`]; `name` is what it calls the file.
    pub fn parse(payload_type: &str, bytes: &[u8], name: &str) -> Result<(SignedEnvelope, Vec<u8>), StreamFault> {
        let wrong = |reason: String| StreamFault::Snapshot { name: name.to_owned(), reason };
        let envelope: SignedEnvelope = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if envelope.payload_type != payload_type {
            return Err(wrong(format!("its payload is `{}` instead of `{payload_type}`", envelope.payload_type)));
        }
        let payload = STANDARD.decode(&envelope.payload).map_err(|error| wrong(error.to_string()))?;
        Ok((envelope, payload))
    }

    /// # Panics
    /// Never: all keys are text.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("all keys are text")
    }

    /// The signatures, in the order in which they were made.
    pub fn signatures(&self) -> &[EnvelopeSignature] {
        &self.signatures
    }

    /// The ids of those keys that have signed the payload.
    pub fn signers(&self, payload: &[u8], keys: &[PublicKey]) -> Vec<String> {
        let bytes = signed_bytes(&self.payload_type, payload);
        let has_signed = |key: &&PublicKey| {
            let decoded = self.signatures.iter().filter_map(|one| STANDARD.decode(&one.sig).ok());
            decoded.into_iter().any(|signature| key.has_signed(&bytes, &signature))
        };
        keys.iter().filter(has_signed).map(PublicKey::id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_signs_and_another_payload_has_no_signature() {
        let (one, _) = SigningKey::generate().unwrap();
        let (two, _) = SigningKey::generate().unwrap();
        let (other, _) = SigningKey::generate().unwrap();
        let keys = [one.public(), two.public(), other.public()];
        let sealed = SignedEnvelope::seal(SNAPSHOT_TYPE, b"{}", &[one, two]);
        let (read, payload) = SignedEnvelope::parse(SNAPSHOT_TYPE, &sealed.bytes(), "x").unwrap();
        assert_eq!((&read, payload.as_slice()), (&sealed, &b"{}"[..]));
        assert_eq!(read.signers(&payload, &keys), [keys[0].id(), keys[1].id()]);
        assert!(read.signers(b"{ }", &keys).is_empty());
        assert!(SignedEnvelope::parse(SNAPSHOT_TYPE, b"{}", "x").is_err());
        assert!(SignedEnvelope::parse(STATEMENT_TYPE, &sealed.bytes(), "x").is_err());
    }

    /// The example of the protocol.
    #[test]
    fn the_signed_bytes_are_those_of_the_protocol() {
        let bytes = signed_bytes("http://example.com/HelloWorld", b"hello world");
        assert_eq!(bytes, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }
}
