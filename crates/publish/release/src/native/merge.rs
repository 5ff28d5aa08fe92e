//! Compressed lists, and entries that are merged by what they are called.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

/// The largest list that is read. That of the whole of Debian has 50 MB.
const LARGEST: u64 = 1 << 30;

/// The endings of compressed lists; the first one is none.
pub(super) const ENDINGS: [&str; 4] = ["", ".gz", ".xz", ".zst"];

/// The contents of a list, which the end of its name says how to unpack.
pub(super) fn unpacked(name: &str, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let reader: Box<dyn Read + '_> = match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("gz") => Box::new(MultiGzDecoder::new(bytes)),
        Some("xz") => Box::new(liblzma::read::XzDecoder::new_multi_decoder(bytes)),
        Some("zst") => Box::new(zstd::Decoder::new(bytes)?),
        _ => Box::new(bytes),
    };
    let mut contents = Vec::new();
    let size = reader.take(LARGEST).read_to_end(&mut contents)?;
    if size as u64 == LARGEST { Err(io::Error::other("it has more than 1 GiB")) } else { Ok(contents) }
}

/// The same contents give the same bytes.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes all bytes")
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry<T> {
    /// The SHA-256 of its file.
    pub(super) sha256: String,
    pub(super) text: T,
}

/// Packages by name, version and architecture.
pub(super) type Entries<T> = BTreeMap<[String; 3], Entry<T>>;

/// Adds entries to others. A package that both have with different files is a problem.
pub(super) fn add<T>(to: &mut Entries<T>, more: Entries<T>, problems: &mut Vec<String>) {
    for (key, entry) in more {
        match to.get(&key) {
            Some(old) if old.sha256 != entry.sha256 => {
                let [name, version, architecture] = &key;
                problems.push(format!("`{name}` {version} ({architecture}) is there already, with other bytes"));
            }
            // The new description of the same file is as good as the old one.
            _ => drop(to.insert(key, entry)),
        }
    }
}
