//! Input: the bytes that a wrapper of a split binary points at. Output: the name under which its
//! code objects are stored, and the search paths of their archives. Markers can be written as well.
//!
//! A marker is a MessagePack map (spec 3). The loader finds it through the wrapper's pointer only
//! and reads at most [`MAX_SIZE`] bytes of it. Its length is not stored, so any bytes may follow
//! it.

use rmp::encode;

use crate::error::Error;
use crate::messagepack::Reader;

/// Number of bytes that the loader reads; a marker must be shorter.
pub const MAX_SIZE: usize = 64 * 1024;

/// The placeholder that the loader replaces by each target's name; only the first one in a path.
pub const TARGET_PLACEHOLDER: &str = "@GFXARCH@";

const PATHS: &str = "kpack_search_paths";
const NAME: &str = "kernel_name";

/// The location of the code objects of one binary.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Marker {
    /// The name in the archives' tables, without the `#` and the index, which comes from the
    /// wrapper.
    pub kernel_name: String,
    /// Paths of archives, relative to the binary's folder; [`TARGET_PLACEHOLDER`] is replaced by
    /// the target.
    pub search_paths: Vec<String>,
}

impl Marker {
    /// Returns the bytes that a wrapper must point at.
    ///
    /// # Errors
    /// [`Error::Marker`] for a marker that the loader would refuse, or would not find.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        self.check().map_err(malformed)?;
        let mut bytes = Vec::new();
        let cannot_fail = "writing to memory cannot fail";
        encode::write_map_len(&mut bytes, 2).expect(cannot_fail);
        encode::write_str(&mut bytes, PATHS).expect(cannot_fail);
        encode::write_array_len(&mut bytes, u32::try_from(self.search_paths.len()).unwrap_or(u32::MAX))
            .expect(cannot_fail);
        for path in &self.search_paths {
            encode::write_str(&mut bytes, path).expect(cannot_fail);
        }
        encode::write_str(&mut bytes, NAME).expect(cannot_fail);
        encode::write_str(&mut bytes, &self.kernel_name).expect(cannot_fail);
        if bytes.len() >= MAX_SIZE {
            return Err(malformed(format!("it has {} bytes, and the loader reads less than {MAX_SIZE}", bytes.len())));
        }
        Ok(bytes)
    }

    /// Reads the marker at the start of `bytes`.
    ///
    /// # Errors
    /// [`Error::Marker`] for a marker that the loader would refuse.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        Ok(Self::decode_prefix(bytes)?.0)
    }

    /// Like [`Marker::decode`], and returns the size of the marker in bytes.
    pub fn decode_prefix(bytes: &[u8]) -> Result<(Self, usize), Error> {
        let bytes = &bytes[..bytes.len().min(MAX_SIZE - 1)];
        let (marker, length) = parse(bytes).map_err(malformed)?;
        marker.check_found().map_err(malformed)?;
        Ok((marker, length))
    }

    /// Checks the conditions of the loader.
    fn check_found(&self) -> Result<(), String> {
        if self.kernel_name.is_empty() {
            return Err(format!("its `{NAME}` is empty"));
        }
        if self.search_paths.is_empty() {
            return Err(format!("its `{PATHS}` is empty"));
        }
        if self.search_paths.iter().any(String::is_empty) {
            return Err(format!("its `{PATHS}` has an empty path"));
        }
        Ok(())
    }

    /// Checks the conditions of the loader, and that it would find the archives.
    fn check(&self) -> Result<(), String> {
        self.check_found()?;
        for text in self.search_paths.iter().chain([&self.kernel_name]) {
            if text.contains('\0') {
                return Err(format!("`{}` has a zero byte", text.escape_debug()));
            }
        }
        let twice = self.search_paths.iter().find(|path| path.matches(TARGET_PLACEHOLDER).count() > 1);
        if let Some(path) = twice {
            return Err(format!("the path `{path}` has `{TARGET_PLACEHOLDER}` twice, and the loader replaces one"));
        }
        Ok(())
    }
}

fn parse(bytes: &[u8]) -> Result<(Marker, usize), String> {
    let mut reader = Reader::new(bytes);
    let pairs = reader.map("the marker")?;
    let (mut name, mut paths) = (None, None);
    for _ in 0..pairs {
        match reader.text("a key")? {
            NAME if name.is_some() => return Err(format!("it has `{NAME}` twice")),
            PATHS if paths.is_some() => return Err(format!("it has `{PATHS}` twice")),
            NAME => name = Some(reader.text("`kernel_name`")?.to_owned()),
            PATHS => {
                let count = reader.array("`kpack_search_paths`")?;
                let found: Result<Vec<_>, _> =
                    (0..count).map(|_| reader.text("a search path").map(str::to_owned)).collect();
                paths = Some(found?);
            }
            // The loader ignores unknown keys.
            other => reader.skip(&format!("`{}`", other.escape_debug()))?,
        }
    }
    let kernel_name = name.ok_or_else(|| format!("it has no `{NAME}`"))?;
    let search_paths = paths.ok_or_else(|| format!("it has no `{PATHS}`"))?;
    Ok((Marker { kernel_name, search_paths }, reader.position()))
}

fn malformed(reason: impl Into<String>) -> Error {
    Error::Marker { reason: reason.into() }
}
