//! Input: the bytes of a file. Output: the text as Python reads it, and the bytes of a converted
//! text.

use std::borrow::Cow;

use crate::{ConversionProblem, Defects, Trouble};

/// The first of the private-use characters that represent the bytes 0x80 to 0xFF if a file is not
/// UTF-8. A file that contains these characters itself is not fixed.
const STAND_INS: u32 = 0x0010_FE00;

/// A text, and `true` if some characters represent bytes.
#[derive(Debug)]
pub struct Decoded<'a> {
    /// The text with Python's universal newlines: CRLF and CR become LF. A byte order mark stays.
    pub text: Cow<'a, str>,
    /// `true` if [`Decoded::encode`] must convert characters back to bytes.
    stand_ins: bool,
}

impl Decoded<'_> {
    /// The bytes of a text that was derived from this one.
    pub fn encode(&self, text: String) -> Vec<u8> {
        if !self.stand_ins {
            return text.into_bytes();
        }
        let mut bytes = Vec::with_capacity(text.len());
        for character in text.chars() {
            match u32::from(character).checked_sub(STAND_INS) {
                Some(byte @ 0x80..=0xff) => bytes.push(byte as u8),
                _ => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        bytes
    }
}

/// Decodes a text; with [`Defects::Fix`] bytes that are not UTF-8 are kept.
pub fn decode(bytes: &[u8], defects: Defects) -> Result<Decoded<'_>, Trouble> {
    let (text, stand_ins) = match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), false),
        Err(error) => {
            let valid = &bytes[..error.valid_up_to()];
            let trouble = Trouble { line: lines(valid), problem: ConversionProblem::InvalidText };
            if defects == Defects::Refuse {
                return Err(trouble);
            }
            (Cow::Owned(with_stand_ins(bytes).ok_or(trouble)?), true)
        }
    };
    let text = if memchr::memchr(b'\r', text.as_bytes()).is_some() {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        text
    };
    Ok(Decoded { text, stand_ins })
}

/// The line number of the next byte. CRLF, CR and LF end a line.
fn lines(text: &[u8]) -> usize {
    let single = memchr::memchr2_iter(b'\n', b'\r', text).count();
    single - memchr::memmem::find_iter(text, b"\r\n").count() + 1
}

fn with_stand_ins(bytes: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        if chunk.valid().chars().any(|character| (STAND_INS..STAND_INS + 0x100).contains(&u32::from(character))) {
            return None;
        }
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().filter_map(|byte| char::from_u32(STAND_INS + u32::from(*byte))));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_pythons() {
        assert_eq!(decode(b"a\r\nb\rc\nd\r\r\n", Defects::Refuse).unwrap().text, "a\nb\nc\nd\n\n");
        assert_eq!(decode("\u{feff}a".as_bytes(), Defects::Refuse).unwrap().text, "\u{feff}a");
    }

    #[test]
    fn bytes_that_are_no_text_are_named_or_kept() {
        let bytes = b"a\r\nb\n\xff \xc3( \xe2\x82";
        let trouble = decode(bytes, Defects::Refuse).unwrap_err();
        assert_eq!(trouble, Trouble { line: 3, problem: ConversionProblem::InvalidText });
        let decoded = decode(bytes, Defects::Fix).unwrap();
        assert_eq!(decoded.encode(decoded.text.to_string()), b"a\nb\n\xff \xc3( \xe2\x82");
    }

    #[test]
    fn a_text_that_has_the_stand_ins_itself_is_not_mended() {
        let bytes = ["\u{10fe80}".as_bytes(), b"\xff"].concat();
        assert!(decode(&bytes, Defects::Fix).is_err());
        assert_eq!(decode("\u{10fe80}".as_bytes(), Defects::Fix).unwrap().text, "\u{10fe80}");
    }
}
