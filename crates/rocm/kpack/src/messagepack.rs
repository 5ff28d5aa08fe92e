//! Input: bytes that should be MessagePack. Output: one value after another, of the type that the
//! caller expects.
//!
//! Only values that the caller requests are built in memory: a hostile table of a few megabytes
//! would become gigabytes as a tree of values.

use rmp::Marker;
use rmp::decode::{self, NumValueReadError, ValueReadError};

/// A message with the defect and the byte offset.
pub(crate) type Problem = String;

pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, rest: bytes }
    }

    /// Returns the number of bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.bytes.len() - self.rest.len()
    }

    /// Reads the head of a map and returns its number of pairs.
    pub(crate) fn map(&mut self, what: &str) -> Result<u32, Problem> {
        self.length(what, "a map", decode::read_map_len)
    }

    /// Reads the head of an array and returns its number of values.
    pub(crate) fn array(&mut self, what: &str) -> Result<u32, Problem> {
        self.length(what, "an array", decode::read_array_len)
    }

    /// Reads a whole number that is not negative.
    pub(crate) fn number(&mut self, what: &str) -> Result<u64, Problem> {
        let at = self.position();
        decode::read_int::<u64, _>(&mut self.rest).map_err(|error| match error {
            NumValueReadError::TypeMismatch(_) | NumValueReadError::OutOfRange => {
                format!("{what} is not a whole number of 0 or more (byte {at})")
            }
            NumValueReadError::InvalidMarkerRead(_) | NumValueReadError::InvalidDataRead(_) => cut(what, at),
        })
    }

    /// Reads a string.
    pub(crate) fn text(&mut self, what: &str) -> Result<&'a str, Problem> {
        let at = self.position();
        let length = self.length(what, "a text", decode::read_str_len)? as usize;
        let bytes = self.rest.get(..length).ok_or_else(|| cut(what, at))?;
        self.rest = &self.rest[length..];
        std::str::from_utf8(bytes).map_err(|_| format!("{what} is not UTF-8 (byte {at})"))
    }

    /// Skips a value of any type and depth.
    pub(crate) fn skip(&mut self, what: &str) -> Result<(), Problem> {
        let at = self.position();
        let mut pending = 1_u64;
        while pending > 0 {
            pending -= 1;
            let marker = decode::read_marker(&mut self.rest).map_err(|_| cut(what, at))?;
            let (bytes, values) = match marker {
                Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => (0, 0),
                Marker::Reserved => return Err(format!("{what} has a byte that MessagePack reserves (byte {at})")),
                Marker::U8 | Marker::I8 => (1, 0),
                // Extensions have one byte for their type.
                Marker::U16 | Marker::I16 | Marker::FixExt1 => (2, 0),
                Marker::U32 | Marker::I32 | Marker::F32 => (4, 0),
                Marker::U64 | Marker::I64 | Marker::F64 => (8, 0),
                Marker::FixStr(length) => (u64::from(length), 0),
                Marker::Str8 | Marker::Bin8 => (self.size(1, what)?, 0),
                Marker::Str16 | Marker::Bin16 => (self.size(2, what)?, 0),
                Marker::Str32 | Marker::Bin32 => (self.size(4, what)?, 0),
                Marker::FixExt2 => (3, 0),
                Marker::FixExt4 => (5, 0),
                Marker::FixExt8 => (9, 0),
                Marker::FixExt16 => (17, 0),
                Marker::Ext8 => (1 + self.size(1, what)?, 0),
                Marker::Ext16 => (1 + self.size(2, what)?, 0),
                Marker::Ext32 => (1 + self.size(4, what)?, 0),
                Marker::FixArray(length) => (0, u64::from(length)),
                Marker::Array16 => (0, self.size(2, what)?),
                Marker::Array32 => (0, self.size(4, what)?),
                Marker::FixMap(length) => (0, 2 * u64::from(length)),
                Marker::Map16 => (0, 2 * self.size(2, what)?),
                Marker::Map32 => (0, 2 * self.size(4, what)?),
            };
            self.rest =
                usize::try_from(bytes).ok().and_then(|bytes| self.rest.get(bytes..)).ok_or_else(|| cut(what, at))?;
            pending += values;
        }
        Ok(())
    }

    fn size(&mut self, width: usize, what: &str) -> Result<u64, Problem> {
        let at = self.position();
        let bytes = self.rest.get(..width).ok_or_else(|| cut(what, at))?;
        self.rest = &self.rest[width..];
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(
        &mut self,
        what: &str,
        kind: &str,
        read: impl Fn(&mut &'a [u8]) -> Result<u32, ValueReadError>,
    ) -> Result<u32, Problem> {
        let at = self.position();
        read(&mut self.rest).map_err(|error| match error {
            ValueReadError::TypeMismatch(_) => format!("{what} is not {kind} (byte {at})"),
            ValueReadError::InvalidMarkerRead(_) | ValueReadError::InvalidDataRead(_) => cut(what, at),
        })
    }
}

fn cut(what: &str, at: usize) -> Problem {
    format!("it ends within {what} (byte {at})")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of every kind, in short and long forms.
    const VALUES: &[&[u8]] = &[
        &[0x05],
        &[0xff],
        &[0xc0],
        &[0xc2],
        &[0xcc, 1],
        &[0xd1, 1, 2],
        &[0xca, 1, 2, 3, 4],
        &[0xcf, 1, 2, 3, 4, 5, 6, 7, 8],
        &[0xa2, b'h', b'i'],
        &[0xd9, 1, b'x'],
        &[0xc5, 0, 1, 9],
        &[0xdb, 0, 0, 0, 1, b'x'],
        &[0xd4, 1, 2],
        &[0xd8, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        &[0xc7, 1, 9, 9],
        &[0x92, 1, 0x91, 2],
        &[0xdc, 0, 1, 0xc0],
        &[0x81, 1, 0x81, 2, 3],
        &[0xde, 0, 1, 1, 2],
        &[0xdf, 0, 0, 0, 1, 1, 2],
    ];

    #[test]
    fn a_value_of_any_kind_is_skipped_exactly_and_never_when_cut() {
        for value in VALUES {
            let mut bytes = value.to_vec();
            bytes.push(0x07);
            let mut reader = Reader::new(&bytes);
            reader.skip("x").unwrap();
            assert_eq!(reader.position(), value.len(), "{value:?}");
            assert_eq!(reader.number("x"), Ok(7));
            for length in 0..value.len() {
                assert!(Reader::new(&value[..length]).skip("x").is_err(), "{value:?}");
            }
        }
        assert!(Reader::new(&[0xc1]).skip("x").is_err());
    }

    #[test]
    fn a_value_may_be_deep_or_claim_to_be_long() {
        let mut deep = vec![0x91; 1_000_000];
        deep.push(0);
        Reader::new(&deep).skip("x").unwrap();
        assert!(Reader::new(&[0xdf, 0xff, 0xff, 0xff, 0xff, 1]).skip("x").is_err());
        assert!(Reader::new(&[0xdb, 0xff, 0xff, 0xff, 0xff, 1]).text("x").is_err());
    }

    #[test]
    fn wrong_types_say_what_was_expected() {
        assert_eq!(Reader::new(&[0xa0]).map("its table").unwrap_err(), "its table is not a map (byte 0)");
        assert_eq!(
            Reader::new(&[0xff]).number("`size`").unwrap_err(),
            "`size` is not a whole number of 0 or more (byte 0)"
        );
        assert_eq!(Reader::new(&[]).array("its list").unwrap_err(), "it ends within its list (byte 0)");
        assert_eq!(Reader::new(&[0xa1, 0xff]).text("`name`").unwrap_err(), "`name` is not UTF-8 (byte 0)");
        assert_eq!(Reader::new(&[0xd0, 0x05]).number("x"), Ok(5));
    }
}
