//! Input: key files in PEM. Output: signatures (ed25519), and answers to whose they are.
//!
//! A private key is PKCS#8 (RFC 8410), as `openssl genpkey -algorithm ed25519` writes it; a public
//! key is SubjectPublicKeyInfo, as `openssl pkey -pubout` writes it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use rocwheel_content::{hexadecimal, sha256};

use crate::AttestError;

/// The bytes of PKCS#8, version 1, before the 32 bytes of a private key.
const PRIVATE: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
/// The bytes of SubjectPublicKeyInfo before the 32 bytes of a public key.
const PUBLIC: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
/// Bytes of a key.
const SIZE: usize = 32;

/// A private key. Messages and logs never contain it.
pub struct SigningKey(Ed25519KeyPair);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("SigningKey").field(&self.public().id()).finish()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey([u8; SIZE]);

impl SigningKey {
    /// Makes a key, and returns it with the text of its file.
    pub fn generate() -> Result<(SigningKey, String), AttestError> {
        let mut seed = [0; SIZE];
        SystemRandom::new().fill(&mut seed).map_err(|_| AttestError::NoRandom)?;
        let der = [&PRIVATE[..], &seed].concat();
        let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map_err(|_| AttestError::NoRandom)?;
        Ok((SigningKey(key), pem("PRIVATE KEY", &der)))
    }

    /// Reads a private key; `name` is what errors call it.
    pub fn parse(text: &str, name: &str) -> Result<SigningKey, AttestError> {
        if text.contains("ENCRYPTED PRIVATE KEY") {
            return Err(AttestError::key(name, "the key is encrypted; decrypt it with `openssl pkey -in FILE`"));
        }
        let der = unpem(text, "PRIVATE KEY");
        let der = der.ok_or_else(|| AttestError::key(name, "it is no private key in PEM (PKCS#8)"))?;
        // Keys of version 1 have no public half; it is computed.
        let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der);
        Ok(SigningKey(key.map_err(|_| AttestError::key(name, "it is no key of ed25519"))?))
    }

    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; SIZE];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    pub(crate) fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.sign(bytes).as_ref().to_vec()
    }
}

impl PublicKey {
    /// Reads a public key, or the public half of a private one; `name` is what errors call it.
    pub fn parse(text: &str, name: &str) -> Result<PublicKey, AttestError> {
        let Some(der) = unpem(text, "PUBLIC KEY") else { return Ok(SigningKey::parse(text, name)?.public()) };
        let bytes = der.strip_prefix(&PUBLIC).and_then(|bytes| bytes.try_into().ok());
        bytes.map(PublicKey).ok_or_else(|| AttestError::key(name, "it is no public key of ed25519"))
    }

    /// The text of its file.
    pub fn text(&self) -> String {
        pem("PUBLIC KEY", &self.der())
    }

    /// SHA-256 of the key as SubjectPublicKeyInfo, in hexadecimal: `keyid` in signatures.
    pub fn id(&self) -> String {
        hexadecimal(&sha256(&self.der()))
    }

    pub(crate) fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(bytes, signature).is_ok()
    }

    fn der(&self) -> Vec<u8> {
        [&PUBLIC[..], &self.0].concat()
    }
}

/// One line is enough for a key of this size.
fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

fn unpem(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let packed: String = body.split_whitespace().collect();
    STANDARD.decode(packed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let (key, text) = SigningKey::generate().unwrap();
        let public = key.public();
        assert_eq!(SigningKey::parse(&text, "k").unwrap().public(), public);
        assert_eq!(PublicKey::parse(&public.text(), "k").unwrap(), public);
        assert_eq!(PublicKey::parse(&text, "k").unwrap(), public, "the private key has the public one");
        let signature = key.sign(b"bytes");
        assert!(public.has_signed(b"bytes", &signature) && !public.has_signed(b"other", &signature));
        assert!(!format!("{key:?}").contains(text.lines().nth(1).unwrap()));
        for wrong in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert!(SigningKey::parse(wrong, "k").is_err());
        }
    }

    /// The example of RFC 8410, 10.3, and RFC 8032's public key of it.
    #[test]
    fn the_key_of_the_standard_is_read() {
        let text = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
        let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
        assert_eq!(SigningKey::parse(text, "k").unwrap().public().text(), public);
    }
}
