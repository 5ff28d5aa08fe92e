//! Input: the bytes of an archive's table of contents. Output: its fields, after checks of their
//! types and for missing or repeated ones.

use super::{MAX_BLOBS, Scheme, malformed};
use crate::error::Error;
use crate::messagepack::Reader;

/// A table of contents as in the file.
pub(super) struct Table {
    pub(super) group: String,
    pub(super) family: String,
    pub(super) targets: Vec<String>,
    pub(super) scheme: Scheme,
    pub(super) kernels: Vec<Kernel>,
    pub(super) blobs: Blobs,
}

/// An entry of the table: one code object.
pub(super) struct Kernel {
    pub(super) name: String,
    pub(super) index: Option<u32>,
    pub(super) target: String,
    pub(super) ordinal: u64,
    pub(super) original_size: u64,
}

/// The positions of the code objects.
pub(super) enum Blobs {
    /// Offset in the file and size of each, in bytes.
    Listed(Vec<(u64, u64)>),
    /// Offset in the file and size of the area with all frames, in bytes.
    Frames { offset: u64, size: u64 },
}

/// The fields in the file; the scheme determines which of them are required.
#[derive(Default)]
struct Fields {
    format_version: Option<u64>,
    group: Option<String>,
    family: Option<String>,
    targets: Option<Vec<String>>,
    kernels: Option<Vec<Kernel>>,
    scheme: Option<String>,
    blobs: Option<Vec<(u64, u64)>>,
    frames_offset: Option<u64>,
    frames_size: Option<u64>,
}

impl Table {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let fields = Fields::parse(&mut Reader::new(bytes));
        let fields = fields.map_err(|reason| malformed(format!("in its table of contents, {reason}")))?;
        if let Some(version) = fields.format_version.filter(|version| *version != 1) {
            return Err(Error::UnsupportedArchive { field: "format version", value: version.to_string() });
        }
        let scheme = required(fields.scheme, "compression_scheme")?;
        let scheme = match scheme.as_str() {
            "none" => Scheme::None,
            "zstd-per-kernel" => Scheme::ZstdPerKernel,
            _ => {
                return Err(Error::UnsupportedArchive {
                    field: "compression",
                    value: scheme.escape_debug().to_string(),
                });
            }
        };
        let blobs = match scheme {
            Scheme::None => Blobs::Listed(required(fields.blobs, "blobs")?),
            Scheme::ZstdPerKernel => Blobs::Frames {
                offset: required(fields.frames_offset, "zstd_offset")?,
                size: required(fields.frames_size, "zstd_size")?,
            },
        };
        Ok(Self {
            group: required(fields.group, "group_name")?,
            family: required(fields.family, "gfx_arch_family")?,
            targets: required(fields.targets, "gfx_arches")?,
            kernels: required(fields.kernels, "toc")?,
            scheme,
            blobs,
        })
    }
}

fn required<T>(field: Option<T>, name: &str) -> Result<T, Error> {
    field.ok_or_else(|| malformed(format!("its table of contents has no `{name}`")))
}

impl Fields {
    fn parse(reader: &mut Reader<'_>) -> Result<Self, String> {
        let mut fields = Self::default();
        for _ in 0..reader.map("the table")? {
            let key = reader.text("a key")?;
            match key {
                "format_version" => once(&mut fields.format_version, key, reader.number("`format_version`")?)?,
                "group_name" => once(&mut fields.group, key, reader.text("`group_name`")?.to_owned())?,
                "gfx_arch_family" => once(&mut fields.family, key, reader.text("`gfx_arch_family`")?.to_owned())?,
                "gfx_arches" => once(&mut fields.targets, key, targets(reader)?)?,
                "toc" => once(&mut fields.kernels, key, kernels(reader)?)?,
                "compression_scheme" => once(&mut fields.scheme, key, reader.text("`compression_scheme`")?.to_owned())?,
                "blobs" => once(&mut fields.blobs, key, blobs(reader)?)?,
                "zstd_offset" => once(&mut fields.frames_offset, key, reader.number("`zstd_offset`")?)?,
                "zstd_size" => once(&mut fields.frames_size, key, reader.number("`zstd_size`")?)?,
                other => reader.skip(&format!("`{}`", other.escape_debug()))?,
            }
        }
        Ok(fields)
    }
}

fn once<T>(field: &mut Option<T>, name: &str, value: T) -> Result<(), String> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("`{name}` is listed twice")),
    }
}

fn targets(reader: &mut Reader<'_>) -> Result<Vec<String>, String> {
    let mut found: Vec<String> = Vec::new();
    for _ in 0..reader.array("`gfx_arches`")? {
        let target = reader.text("a target of `gfx_arches`")?;
        found.push(target.to_owned());
    }
    let mut sorted: Vec<&String> = found.iter().collect();
    sorted.sort();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("`gfx_arches` has `{}` twice", pair[0].escape_debug())),
        None => Ok(found),
    }
}

fn kernels(reader: &mut Reader<'_>) -> Result<Vec<Kernel>, String> {
    let mut found = Vec::new();
    for _ in 0..reader.map("`toc`")? {
        let key = reader.text("a name in `toc`")?;
        let (name, index) = split(key);
        let targets = reader.map(&format!("the entry of `{}`", key.escape_debug()))?;
        for _ in 0..targets {
            let target = reader.text("a target in `toc`")?.to_owned();
            let (ordinal, original_size) = kernel(reader)?;
            found.push(Kernel { name: name.clone(), index, target, ordinal, original_size });
            if found.len() as u64 > MAX_BLOBS {
                return Err(format!("`toc` has more than {MAX_BLOBS} entries, which the loader does not take"));
            }
        }
    }
    Ok(found)
}

/// Splits `lib/librocblas.so.4#0` into name and index. Archives made on Windows may have `\` in
/// names. A text without an index, which rocm-kpack's `pack_tree` writes, is a name.
pub(super) fn split(key: &str) -> (String, Option<u32>) {
    // The loader compares texts, so `#00` differs from `#0`.
    let parts = key.rsplit_once('#').and_then(|(name, digits)| {
        let index: u32 = digits.parse().ok()?;
        (index.to_string() == digits && !name.is_empty()).then_some((name, Some(index)))
    });
    let (name, index) = parts.unwrap_or((key, None));
    (name.replace('\\', "/"), index)
}

/// Reads a code object's number and its size in bytes.
fn kernel(reader: &mut Reader<'_>) -> Result<(u64, u64), String> {
    let (mut ordinal, mut size, mut kind) = (None, None, None);
    for _ in 0..reader.map("a code object's entry")? {
        match reader.text("a key of a code object's entry")? {
            "ordinal" => once(&mut ordinal, "ordinal", reader.number("`ordinal`")?)?,
            "original_size" => once(&mut size, "original_size", reader.number("`original_size`")?)?,
            "type" => once(&mut kind, "type", reader.text("`type`")?)?,
            other => reader.skip(&format!("`{}`", other.escape_debug()))?,
        }
    }
    if let Some(kind) = kind.filter(|kind| *kind != "hsaco") {
        return Err(format!("a code object is of the unknown type `{}`", kind.escape_debug()));
    }
    let ordinal = ordinal.ok_or("a code object has no `ordinal`")?;
    Ok((ordinal, size.ok_or("a code object has no `original_size`")?))
}

fn blobs(reader: &mut Reader<'_>) -> Result<Vec<(u64, u64)>, String> {
    let count = reader.array("`blobs`")?;
    if u64::from(count) > MAX_BLOBS {
        return Err(format!("`blobs` has {count} entries, and the loader takes {MAX_BLOBS}"));
    }
    let mut found = Vec::new();
    for _ in 0..count {
        let (mut offset, mut size) = (None, None);
        for _ in 0..reader.map("an entry of `blobs`")? {
            match reader.text("a key of an entry of `blobs`")? {
                "offset" => once(&mut offset, "offset", reader.number("`offset`")?)?,
                "size" => once(&mut size, "size", reader.number("`size`")?)?,
                other => reader.skip(&format!("`{}`", other.escape_debug()))?,
            }
        }
        let offset = offset.ok_or("an entry of `blobs` has no `offset`")?;
        found.push((offset, size.ok_or("an entry of `blobs` has no `size`")?));
    }
    Ok(found)
}
