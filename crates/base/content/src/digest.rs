//! Input: bytes, in memory, from a stream or at random access. Output: their hash.
//!
//! This is the only module that hashes with SHA-2. It uses `ring`, which TLS needs anyway and which
//! uses the processor's SHA instructions. Cache keys, which no other program reads, are BLAKE3
//! hashes and are computed by the caches.

use std::io::{self, Read, Write};
use std::path::Path;

use positioned_io::ReadAt;
use ring::digest::{Context, SHA256, SHA384, SHA512};

use crate::WINDOW;

/// A SHA-256 hash, 32 bytes.
pub type Digest = [u8; 32];

/// The hashes that RECORD (PEP 376, PEP 427) and indexes (PEP 503) may use and that are strong
/// enough to identify a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashAlgorithm {
    /// 32 bytes.
    Sha256,
    /// 48 bytes.
    Sha384,
    /// 64 bytes.
    Sha512,
}

impl HashAlgorithm {
    /// All of them, the weakest first.
    pub const ALL: [HashAlgorithm; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// The name in RECORD and in the URLs of an index: `sha256`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    /// The algorithm with that name; `None` for a weak or unknown one.
    pub fn named(name: &str) -> Option<HashAlgorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Length of a hash in bytes.
    pub fn size(self) -> usize {
        self.ring().output_len()
    }

    fn ring(self) -> &'static ring::digest::Algorithm {
        match self {
            Self::Sha256 => &SHA256,
            Self::Sha384 => &SHA384,
            Self::Sha512 => &SHA512,
        }
    }
}

/// Hashes bytes as they arrive.
#[derive(Clone)]
pub struct Hasher(Context);

impl Hasher {
    /// Starts a hash of no bytes.
    pub fn new(algorithm: HashAlgorithm) -> Hasher {
        Hasher(Context::new(algorithm.ring()))
    }

    /// Adds bytes at the end.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds everything that a reader returns. Wrap the reader in a `Watched` to report progress and
    /// to stop on request.
    ///
    /// # Errors
    /// The errors of the reader.
    pub fn read(&mut self, mut reader: impl Read) -> io::Result<()> {
        let mut window = vec![0; WINDOW];
        loop {
            match reader.read(&mut window) {
                Ok(0) => return Ok(()),
                Ok(length) => self.update(&window[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds the first `size` bytes of a reader.
    ///
    /// # Errors
    /// The errors of the reader; a reader with fewer than `size` bytes.
    pub fn read_at(&mut self, reader: &dyn ReadAt, size: u64) -> io::Result<()> {
        let mut window = vec![0; WINDOW.min(usize::try_from(size).unwrap_or(WINDOW))];
        let mut position = 0;
        while position < size {
            let length = (size - position).min(WINDOW as u64) as usize;
            reader.read_exact_at(position, &mut window[..length])?;
            self.update(&window[..length]);
            position += length as u64;
        }
        Ok(())
    }

    /// The hash; its length is [`HashAlgorithm::size`].
    pub fn finish(self) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

/// Hashes bytes with SHA-256 as they arrive.
#[derive(Clone)]
pub struct Sha256(Hasher);

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

impl Sha256 {
    /// Starts a hash of no bytes.
    pub fn new() -> Sha256 {
        Sha256(Hasher::new(HashAlgorithm::Sha256))
    }

    /// Adds bytes at the end.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds everything that a reader returns when latency matters: one thread of rayon's pool reads
    /// the next bytes while another one hashes.
    ///
    /// # Errors
    /// The errors of the reader.
    pub fn read_ahead(&mut self, reader: &mut (impl Read + Send)) -> io::Result<()> {
        let (mut window, mut ahead) = (vec![0; WINDOW], vec![0; WINDOW]);
        let mut length = reader.read(&mut window)?;
        while length > 0 {
            let ((), next) = rayon::join(|| self.update(&window[..length]), || reader.read(&mut ahead));
            length = next?;
            std::mem::swap(&mut window, &mut ahead);
        }
        Ok(())
    }

    /// The hash of all bytes so far.
    pub fn finish(self) -> Digest {
        let mut digest = Digest::default();
        digest.copy_from_slice(self.0.0.finish().as_ref());
        digest
    }
}

impl Write for Sha256 {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The SHA-256 of bytes in memory.
pub fn sha256(bytes: &[u8]) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update(bytes);
    hasher.finish()
}

/// The SHA-256 of everything that a reader returns, read as by [`Hasher::read`].
///
/// # Errors
/// The errors of the reader.
pub fn sha256_of(reader: impl Read) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    hasher.0.read(reader)?;
    Ok(hasher.finish())
}

/// The SHA-256 of the first `size` bytes of a reader, read as by [`Hasher::read_at`].
///
/// # Errors
/// The errors of the reader; a reader with fewer than `size` bytes.
pub fn sha256_at(reader: &dyn ReadAt, size: u64) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    hasher.0.read_at(reader, size)?;
    Ok(hasher.finish())
}

/// The SHA-256 of a file, read as by [`Sha256::read_ahead`].
///
/// # Errors
/// A file that cannot be read.
pub fn sha256_ahead(file: &Path) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    hasher.read_ahead(&mut fs_err::File::open(file)?)?;
    Ok(hasher.finish())
}

/// Bytes as lower-case hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()
}

/// The SHA-256 that a text has in hexadecimal digits; `None` for any other text.
pub fn parse_sha256(text: &str) -> Option<Digest> {
    if text.len() != 2 * HashAlgorithm::Sha256.size() || !text.is_ascii() {
        return None;
    }
    let bytes: Option<Vec<u8>> =
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect();
    Digest::try_from(bytes?).ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[cfg_attr(windows, ignore = "compares with sha256sum, which Windows has not")]
    #[test]
    fn every_way_to_hash_gives_what_sha256sum_gives() {
        // Longer than two windows, and not a multiple of one.
        let bytes: Vec<u8> = (0..WINDOW * 2 + 77).map(|index| (index * 31 % 251) as u8).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bytes");
        fs_err::write(&path, &bytes).unwrap();
        for (algorithm, program) in HashAlgorithm::ALL.into_iter().zip(["sha256sum", "sha384sum", "sha512sum"]) {
            let output = Command::new(program).arg(&path).output().unwrap();
            let expected = String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned();
            let (mut stream, mut random) = (Hasher::new(algorithm), Hasher::new(algorithm));
            stream.read(&bytes[..]).unwrap();
            random.read_at(&bytes, bytes.len() as u64).unwrap();
            let hash = stream.finish();
            assert_eq!((hash.len(), hexadecimal(&hash)), (algorithm.size(), expected));
            assert_eq!(hash, random.finish());
            if algorithm == HashAlgorithm::Sha256 {
                let all =
                    [sha256(&bytes), sha256_at(&bytes, bytes.len() as u64).unwrap(), sha256_ahead(&path).unwrap()];
                assert!(all.iter().all(|digest| digest[..] == hash[..]));
            }
        }
        assert!(sha256_at(&bytes, bytes.len() as u64 + 1).is_err(), "a file that has become shorter");
        assert_eq!(HashAlgorithm::named("md5"), None);
    }
}
