//! Input: the bytes of a document. Output: a DSSE envelope with signatures of them, and back.
//!
//! The signed bytes are those of the DSSE protocol, version 1 (secure-systems-lab/dsse,
//! `protocol.md`): `DSSEv1 SP length SP type SP length SP body`.

use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use base64::engine::{DecodePaddingMode, Engine as _};
use rocwheel_content::document;
use serde::{Deserialize, Serialize};

use crate::{AttestError, PublicKey, SigningKey};

/// Bytes with signatures. One without signatures is also valid: nothing vouches for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedEnvelope {
    payload_type: String,
    /// In base64.
    payload: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvelopeSignature {
    /// [`PublicKey::id`] of the key; empty if the signer does not name it.
    #[serde(default)]
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

/// Decodes base64 in either alphabet, with or without padding: DSSE's `envelope.md` lets signers
/// choose.
fn decoded(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    let letters = if text.contains(['-', '_']) { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
    let padding = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(letters, padding).decode(text)
}

impl SignedEnvelope {
    /// Signs a document with every key. `payload_type` is its media type.
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
    /// [`AttestError::Envelope`], also if the payload has another type; `name` is what it calls the
    /// file.
    pub fn parse(bytes: &[u8], name: &str, payload_type: &str) -> Result<(SignedEnvelope, Vec<u8>), AttestError> {
        let read: Result<SignedEnvelope, _> = serde_json::from_slice(bytes);
        let envelope = read.map_err(|error| AttestError::envelope(name, error.to_string()))?;
        if envelope.payload_type != payload_type {
            let reason = format!("its payload is `{}` and not `{payload_type}`", envelope.payload_type);
            return Err(AttestError::envelope(name, reason));
        }
        let payload = decoded(&envelope.payload).map_err(|error| AttestError::envelope(name, error.to_string()))?;
        Ok((envelope, payload))
    }

    /// The envelope as JSON.
    pub fn bytes(&self) -> Vec<u8> {
        document::write(self)
    }

    /// The signatures, in the order in which they were made.
    pub fn signatures(&self) -> &[EnvelopeSignature] {
        &self.signatures
    }

    /// The ids of those keys that have signed the payload.
    pub fn signers(&self, payload: &[u8], keys: &[PublicKey]) -> Vec<String> {
        let bytes = signed_bytes(&self.payload_type, payload);
        let signers = keys.iter().filter(|key| {
            let mut signatures = self.signatures.iter().filter_map(|one| decoded(&one.sig).ok());
            signatures.any(|signature| key.has_signed(&bytes, &signature))
        });
        signers.map(PublicKey::id).collect()
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
        let sealed = SignedEnvelope::seal("a/b", b"{}", &[one, two]);
        let (read, payload) = SignedEnvelope::parse(&sealed.bytes(), "x", "a/b").unwrap();
        assert_eq!((&read, payload.as_slice()), (&sealed, &b"{}"[..]));
        assert_eq!(read.signers(&payload, &keys), [keys[0].id(), keys[1].id()]);
        assert!(read.signers(b"{ }", &keys).is_empty());
        assert!(SignedEnvelope::parse(&sealed.bytes(), "x", "a/c").is_err());
        assert!(SignedEnvelope::parse(b"{}", "x", "a/b").is_err());
    }

    #[test]
    fn signers_choose_the_alphabet_and_need_not_name_the_key() {
        let (key, _) = SigningKey::generate().unwrap();
        let keys = [key.public()];
        // In base64, these bytes have both letters that differ.
        let body = b"\xfb\xff\xfe\xfa";
        let sealed = SignedEnvelope::seal("a/b", body, &[key]);
        let writers: [fn(&str) -> String; 3] = [
            str::to_owned,
            |text| text.replace('+', "-").replace('/', "_"),
            |text| text.trim_end_matches('=').to_owned(),
        ];
        for write in writers {
            let signatures = serde_json::json!([{ "sig": write(&sealed.signatures[0].sig) }]);
            let payload = write(&sealed.payload);
            let envelope = serde_json::json!({ "payloadType": "a/b", "payload": payload, "signatures": signatures });
            let (read, payload) = SignedEnvelope::parse(envelope.to_string().as_bytes(), "x", "a/b").unwrap();
            assert_eq!((payload.as_slice(), read.signatures()[0].keyid.as_str()), (&body[..], ""));
            assert_eq!(read.signers(&payload, &keys), [keys[0].id()]);
        }
    }

    /// The example of the protocol.
    #[test]
    fn the_signed_bytes_are_those_of_the_protocol() {
        let bytes = signed_bytes("http://example.com/HelloWorld", b"hello world");
        assert_eq!(bytes, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }
}
