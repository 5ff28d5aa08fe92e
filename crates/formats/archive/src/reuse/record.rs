//! Input: how the members of a wheel were packed. Output: a record of it in a file, and back. The
//! file is found by the end of the wheel, which names all members and their checksums.
//!
//! A record is believed in what the packer made of which content, both as BLAKE3 hashes, and in
//! the SHA-256 of a member all of whose chunks are known. Both the content and the packed bytes are
//! hashed before they are used. And it says where a text is ([`SearchedMembers`]), which is
//! believed of this machine's own records only.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use positioned_io::ReadAt;
use rocwheel_content::{CacheFolder, Digest, document, with_checksum, without_checksum};
use serde::{Deserialize, Serialize};

/// Everything that decides which bytes a content is packed to, apart from the level: the library,
/// its version, the size of chunks in bytes, and the form in which chunks are joined.
pub(crate) const PACKER: &str = "libdeflate 1.26.1, chunks of 4194304, form 1";

/// Number of bytes at the end of a wheel that identify it, together with its size.
const TAIL: u64 = 64 << 10;
/// Extension of the files of records.
const EXTENSION: &str = "packed";
/// Records are removed, the oldest first, when all of them have more bytes than this.
const ALL_RECORDS: u64 = 512 << 20;

/// How one wheel was packed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PackingRecord {
    packer: String,
    /// Members that were compressed; others are not worth a record.
    pub(crate) members: Vec<PackedMember>,
    /// `None` if nothing was searched, or not all members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) searched: Option<SearchedMembers>,
}

/// Which members of a wheel have a text, as the packer saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchedMembers {
    /// The text that was searched for.
    pub text: String,
    /// SHA-256 of the whole wheel in hexadecimal. The record is found by the size and the end of a
    /// wheel, so a caller that skips members has to compare this.
    pub sha256: String,
    /// Names of the members that have the text; those of all others do not.
    pub members: BTreeSet<String>,
}

/// A member that was compressed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PackedMember {
    /// The last part of its name. Folders have the version in their names.
    pub(crate) file_name: String,
    /// Bytes before compression.
    pub(crate) size: u64,
    /// Hash of the bytes before compression.
    #[serde(with = "hash_text")]
    pub(crate) sha256: Digest,
    /// Its chunks, in order and without gaps.
    pub(crate) pieces: Vec<PackedPiece>,
}

/// A chunk of a member, packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PackedPiece {
    /// The library's number of the compression level.
    pub(crate) level: u8,
    /// Hash of the bytes before compression.
    #[serde(with = "hash_text")]
    pub(crate) content: [u8; 32],
    /// Position in the wheel.
    pub(crate) offset: u64,
    /// Number of packed bytes.
    pub(crate) length: u32,
    /// Hash of the packed bytes.
    #[serde(with = "hash_text")]
    pub(crate) blake3: [u8; 32],
}

/// 32 bytes as base64.
mod hash_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(hash: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD_NO_PAD.encode(hash))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD_NO_PAD.decode(text).map_err(de::Error::custom)?;
        bytes.try_into().map_err(|_| de::Error::custom("a hash has 32 bytes"))
    }
}

/// What identifies a wheel: its size and a hash of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WheelIdentity {
    size: u64,
    end: blake3::Hash,
}

impl WheelIdentity {
    /// The identity of a wheel of `size` bytes.
    pub(crate) fn of(wheel: &dyn ReadAt, size: u64) -> io::Result<WheelIdentity> {
        let mut end = vec![0; size.min(TAIL) as usize];
        wheel.read_exact_at(size - end.len() as u64, &mut end)?;
        Ok(WheelIdentity { size, end: blake3::hash(&end) })
    }

    fn name(&self) -> String {
        format!("{}-{}", self.size, self.end.to_hex())
    }
}

impl PackingRecord {
    /// The record of members that this program has just packed.
    pub(crate) fn new(members: Vec<PackedMember>, searched: Option<SearchedMembers>) -> PackingRecord {
        PackingRecord { packer: PACKER.to_owned(), members, searched }
    }

    /// The bytes of the file: a hash of the rest, a line break, JSON.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        with_checksum(&document::write(self))
    }

    /// `None` for a damaged record, and for one of another packer.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<PackingRecord> {
        PackingRecord::from_json(without_checksum(bytes)?)
    }

    fn from_json(text: &[u8]) -> Option<PackingRecord> {
        serde_json::from_slice(text).ok().filter(|record: &PackingRecord| record.packer == PACKER)
    }
}

/// A folder of records. The content of a record never changes.
#[derive(Debug, Clone)]
pub(crate) struct RecordFolder(CacheFolder);

impl RecordFolder {
    /// The records in a folder, which is created with the first of them.
    pub(crate) fn new(folder: PathBuf) -> RecordFolder {
        RecordFolder(CacheFolder::new(folder, EXTENSION, ALL_RECORDS))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The sizes in bytes of all wheels that have a record.
    pub(crate) fn sizes(&self) -> HashSet<u64> {
        self.0.names().iter().filter_map(|name| name.split_once('-')?.0.parse().ok()).collect()
    }

    /// The record of a wheel; `None` if there is none that can be used.
    pub(crate) fn read(&self, wheel: &WheelIdentity) -> Option<PackingRecord> {
        PackingRecord::from_json(&self.0.read(&wheel.name())?.content)
    }

    /// Writes the record of a wheel, and removes the oldest ones if there are too many.
    pub(crate) fn write(&self, wheel: &WheelIdentity, record: &PackingRecord) -> io::Result<()> {
        self.0.write(&wheel.name(), &document::write(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str) -> PackingRecord {
        let piece = PackedPiece { level: 5, content: [7; 32], offset: 1 << 40, length: 9, blake3: [3; 32] };
        let member = PackedMember { file_name: name.to_owned(), size: 10, sha256: [255; 32], pieces: vec![piece] };
        let searched =
            SearchedMembers { text: "1rc1".to_owned(), sha256: "7".repeat(64), members: [name.to_owned()].into() };
        PackingRecord::new(vec![member], Some(searched))
    }

    #[test]
    fn a_damaged_record_and_one_of_another_packer_are_no_records() {
        let good = record("größe");
        let bytes = good.to_bytes();
        assert_eq!(PackingRecord::from_bytes(&bytes), Some(good.clone()));
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            assert_eq!(PackingRecord::from_bytes(&damaged), None, "byte {place}");
            assert_eq!(PackingRecord::from_bytes(&bytes[..place]), None, "cut at {place}");
        }
        let other = PackingRecord { packer: "zlib 1.3, level 6".to_owned(), ..good };
        assert_eq!(PackingRecord::from_bytes(&other.to_bytes()), None);
    }

    #[test]
    fn the_packer_is_the_library_that_is_linked() {
        let lock = fs_err::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../Cargo.lock")).unwrap();
        let (_, after) = lock.split_once("name = \"libdeflate-sys\"\nversion = \"").unwrap();
        let version = after.split('"').next().unwrap();
        assert!(PACKER.starts_with(&format!("libdeflate {version}, chunks of {},", crate::write::CHUNK)), "{PACKER}");
    }

    #[test]
    fn a_record_is_found_by_the_wheel() {
        let folder = tempfile::tempdir().unwrap();
        let records = RecordFolder::new(folder.path().join("packed"));
        let identity = |number: u8| WheelIdentity::of(&vec![number; 9], 9).unwrap();
        records.write(&identity(1), &record("x")).unwrap();
        assert_eq!((records.read(&identity(1)), records.read(&identity(2))), (Some(record("x")), None));
        assert_eq!(records.sizes(), HashSet::from([9]));
    }
}
