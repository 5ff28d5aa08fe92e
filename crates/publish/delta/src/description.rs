//! Input: the pieces of a wheel. Output: its description, the file `WHEEL.delta` beside it; and
//! back.
//!
//! The first line is a JSON object: `schema`, `size` and `sha256` of the wheel, the way it was
//! `cut`, the number of `pieces`, and `table`, the SHA-256 of everything after the line. That is 20
//! bytes for each piece in order: its length, 32 bits with the lowest byte first, and the first 16
//! bytes of its SHA-256.

use std::path::Path;

use rocwheel_content::{hexadecimal, sha256};
use rocwheel_progress::Reporter;
use serde::{Deserialize, Serialize};

use crate::cut::{LARGEST, Piece, PieceHash, WAY, cut};
use crate::error::Error;

const SCHEMA: u32 = 1;
/// Bytes of a piece in the table.
const ROW: usize = 20;

/// The pieces of a wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaDescription {
    /// Bytes of the wheel.
    pub size: u64,
    /// SHA-256 of the wheel in hexadecimal.
    pub sha256: String,
    pub(crate) pieces: Vec<Piece>,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    schema: u32,
    size: u64,
    sha256: String,
    cut: String,
    pieces: usize,
    table: String,
}

impl DeltaDescription {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut table = Vec::with_capacity(self.pieces.len() * ROW);
        for piece in &self.pieces {
            table.extend(piece.length.to_le_bytes());
            table.extend(piece.hash);
        }
        let head = Head {
            schema: SCHEMA,
            size: self.size,
            sha256: self.sha256.clone(),
            cut: WAY.to_owned(),
            pieces: self.pieces.len(),
            table: hexadecimal(&sha256(&table)),
        };
        let mut bytes = serde_json::to_vec(&head).expect("all keys are text");
        bytes.push(b'\n');
        bytes.extend(table);
        bytes
    }

    /// The error is the end of a sentence about the bytes.
    pub fn parse(bytes: &[u8]) -> Result<DeltaDescription, String> {
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("is cut off")?;
        let (line, table) = (&bytes[..end], &bytes[end + 1..]);
        let head: Head = serde_json::from_slice(line).map_err(|error| format!("is damaged: {error}"))?;
        if head.schema != SCHEMA || head.cut != WAY {
            return Err("was made by another version of rocwheel".to_owned());
        }
        if Some(table.len()) != head.pieces.checked_mul(ROW) {
            let what = "is cut off";
            return Err(format!("{what}: it has {} bytes for {} pieces", table.len(), head.pieces));
        }
        if hexadecimal(&sha256(table)) != head.table {
            return Err("is damaged".to_owned());
        }
        let mut pieces = Vec::with_capacity(head.pieces);
        let mut size: u64 = 0;
        for row in table.chunks_exact(ROW) {
            let (mut length, mut hash) = ([0; 4], PieceHash::default());
            length.copy_from_slice(&row[..4]);
            hash.copy_from_slice(&row[4..]);
            let length = u32::from_le_bytes(length);
            // Longer pieces would plan downloads of any size.
            if length == 0 || length > LARGEST {
                return Err(format!("is damaged: it has a piece of {length} bytes, and the cut allows 1 to {LARGEST}"));
            }
            // The sum of so many lengths as fit into memory has fewer than 64 bits.
            size += u64::from(length);
            pieces.push(Piece { length, hash });
        }
        if size != head.size {
            return Err(format!("contradicts itself: its pieces have {size} bytes, and the wheel {}", head.size));
        }
        Ok(DeltaDescription { size, sha256: head.sha256, pieces })
    }

    /// Compares the description with what an index says of the wheel.
    ///
    /// The error is how they differ, as the end of a sentence about the description.
    pub fn check(&self, size: Option<u64>, sha256: Option<&str>) -> Result<(), String> {
        if size.is_some_and(|size| size != self.size) || sha256.is_some_and(|sha256| sha256 != self.sha256) {
            return Err("is of other bytes than the wheel".to_owned());
        }
        Ok(())
    }
}

/// Describes the pieces of a wheel with this SHA-256 in hexadecimal.
pub fn describe(path: &Path, sha256: &str, reporter: &dyn Reporter) -> Result<Vec<u8>, Error> {
    let pieces = cut(path, reporter)?;
    let size = pieces.iter().map(|piece| u64::from(piece.length)).sum();
    Ok(DeltaDescription { size, sha256: sha256.to_owned(), pieces }.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> DeltaDescription {
        let piece = |length: u32| Piece { length, hash: [length as u8; 16] };
        DeltaDescription { size: 300, sha256: "ab".repeat(32), pieces: vec![piece(100), piece(200)] }
    }

    #[test]
    fn a_description_that_was_cut_or_damaged_is_none() {
        let good = description();
        let bytes = good.to_bytes();
        assert_eq!(DeltaDescription::parse(&bytes), Ok(good));
        let line = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        for place in 0..bytes.len() {
            assert!(DeltaDescription::parse(&bytes[..place]).is_err(), "cut at {place}");
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            if place > line {
                assert_eq!(DeltaDescription::parse(&damaged), Err("is damaged".to_owned()), "byte {place}");
            }
        }
        assert!(DeltaDescription::parse(&[&bytes[..], b"more"].concat()).is_err());
        assert!(DeltaDescription::parse(b"<html>404</html>\n").is_err());
    }

    #[test]
    fn pieces_that_no_cut_makes_are_damage() {
        for length in [0, LARGEST + 1, u32::MAX] {
            let pieces = vec![Piece { length: 300, hash: [1; 16] }, Piece { length, hash: [2; 16] }];
            let lie = DeltaDescription { size: 300 + u64::from(length), pieces, ..description() };
            let error = DeltaDescription::parse(&lie.to_bytes()).unwrap_err();
            assert!(error.starts_with(&format!("is damaged: it has a piece of {length} bytes")), "{error}");
        }
        let pieces = vec![Piece { length: LARGEST, hash: [1; 16] }];
        let largest = DeltaDescription { size: LARGEST.into(), pieces, ..description() };
        assert_eq!(DeltaDescription::parse(&largest.to_bytes()), Ok(largest));
    }

    #[test]
    fn lies_are_told_from_the_page() {
        let lie = DeltaDescription { size: 301, ..description() };
        let error = DeltaDescription::parse(&lie.to_bytes()).unwrap_err();
        assert_eq!(error, "contradicts itself: its pieces have 300 bytes, and the wheel 301");
        let good = description();
        let hash = "ab".repeat(32);
        assert_eq!(good.check(Some(300), Some(&hash)), Ok(()));
        assert_eq!(good.check(None, None), Ok(()));
        assert!(good.check(Some(299), Some(&hash)).is_err());
        assert!(good.check(Some(300), Some(&"ac".repeat(32))).is_err());
    }
}
