//! Records that notice when they are damaged.

use rocwheel_content::{hexadecimal, sha256};

/// Lines, and a last one with the SHA-256 of the others.
pub(crate) fn sealed(mut text: String) -> Vec<u8> {
    let digest = hexadecimal(&sha256(text.as_bytes()));
    text.push_str(&digest);
    text.push('\n');
    text.into_bytes()
}

/// The lines without the last one; `None` if they are not those that were written.
pub(crate) fn unsealed(bytes: &[u8]) -> Option<&str> {
    let (text, last) = bytes.strip_suffix(b"\n")?.split_at_checked(bytes.len().checked_sub(65)?)?;
    (hexadecimal(&sha256(text)).as_bytes() == last).then(|| std::str::from_utf8(text).ok())?
}
