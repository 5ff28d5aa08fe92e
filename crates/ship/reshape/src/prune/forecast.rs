//! Input: a file with GPU code, and the targets to keep. Output: the size that the pruned file
//! would have, without writing it.
//!
//! Sizes of plain bundles and of archives follow from their tables. Those of compressed bundles are
//! estimated: a sample of each kept code object is compressed.

use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::Arc;

use positioned_io::ReadAt;
use rayon::prelude::*;
use rocwheel_content::Reader;
use rocwheel_kpack::bundle::{self, ALIGNMENT, Bundle, BundleForm, Checksum, Limits, Method, Part};
use rocwheel_kpack::{ArchiveWriter, Blob, BundleEntry, KpackArchive};

use super::pruner::{KeptEntry, Pruner, Section};
use super::size::{Amount, SizeForecast};

/// Bytes in the middle of each code object that are compressed as a sample; its beginning and its
/// end are tables.
const SAMPLE: usize = 256 << 10;

/// The content of a section that is never read.
struct Nothing;

impl ReadAt for Nothing {
    fn read_at(&self, _position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(0);
        Ok(buffer.len())
    }
}

impl Pruner<'_> {
    /// Returns the section that [`Pruner::write_section`] would write, without its content.
    pub(super) fn expect_section(
        &self,
        reader: &Reader,
        section: Range<u64>,
        bundles: &[Bundle],
    ) -> Result<Section, rocwheel_kpack::Error> {
        let expected = bundles.par_iter().map(|bundle| self.expect_bundle(reader, section.clone(), bundle));
        let expected: Vec<(Amount, bool)> = expected.collect::<Result<_, _>>()?;
        let (mut position, mut offsets) = (0_u64, Vec::with_capacity(bundles.len()));
        for (amount, _) in &expected {
            let start = position.next_multiple_of(ALIGNMENT);
            offsets.push(start);
            position = start + amount.bytes;
        }
        let was_packed = bundles.iter().any(|bundle| bundle.compression.is_some());
        let forecast = SizeForecast {
            size: position,
            is_estimate: expected.iter().any(|(_, is_estimate)| *is_estimate),
            before: Amount { bytes: section.end - section.start, is_packed: was_packed },
            after: Amount { bytes: position, is_packed: expected.iter().any(|(amount, _)| amount.is_packed) },
        };
        Ok(Section { file: Arc::new(Nothing), size: position, offsets, forecast: Some(forecast) })
    }

    /// Returns the size of the bundle that [`Pruner::bundle`] would write, and `true` if the size
    /// is estimated.
    fn expect_bundle(
        &self,
        reader: &Reader,
        section: Range<u64>,
        bundle: &Bundle,
    ) -> Result<(Amount, bool), rocwheel_kpack::Error> {
        let level = self.options.level;
        let is_whole = self.is_whole(bundle);
        let form = match (bundle.compression, self.options.compress) {
            (None, None) if !is_whole => {
                let parts = self.parts(reader, section.start + bundle.offset, bundle, |entry| entry.offset);
                let parts: Vec<Part<'_>> = parts.iter().map(KeptEntry::borrow).collect();
                return Ok((Amount { bytes: bundle::plain_size(&parts), is_packed: false }, false));
            }
            (Some(old), _) if !is_whole => BundleForm::Compressed { version: old.version, method: old.method, level },
            (None, Some(new)) => BundleForm::Compressed { version: new.version(), method: Method::Zstd, level },
            (compression, _) => {
                return Ok((Amount { bytes: bundle.length, is_packed: compression.is_some() }, false));
            }
        };
        let bytes = compressed(reader, section, bundle, form, &|entry| self.stays(entry))?;
        Ok((Amount { bytes, is_packed: true }, true))
    }
}

/// Estimates the size of a compressed bundle of the kept entries in bytes, from samples.
fn compressed(
    reader: &Reader,
    section: Range<u64>,
    bundle: &Bundle,
    form: BundleForm,
    stays: &dyn Fn(&BundleEntry) -> bool,
) -> Result<u64, rocwheel_kpack::Error> {
    let (mut size, mut samples) = (0, Vec::new());
    // Damaged bundles are detected by the real run.
    let limits = Limits { checksum: Checksum::Skip, ..Limits::default() };
    bundle.visit_within(reader, section, limits, |entry, code| {
        if stays(entry) {
            let start = code.len().saturating_sub(SAMPLE) / 2;
            size += code.len() as u64;
            samples.push((entry.id.clone(), code[start..code.len().min(start + SAMPLE)].to_vec()));
        }
        Ok::<(), rocwheel_kpack::Error>(())
    })?;
    let sampled: u64 = samples.iter().map(|(_, sample)| sample.len() as u64).sum();
    let nothing: &[u8] = &[];
    let without_code = bundle.entries.iter().filter(|entry| entry.size == 0 && stays(entry));
    let mut parts: Vec<Part<'_>> =
        without_code.map(|entry| Part { id: &entry.id, size: 0, content: &nothing }).collect();
    parts.extend(samples.iter().map(|(id, sample)| Part { id, size: sample.len() as u64, content: sample }));
    let packed = bundle::write(&parts, form, &mut io::sink())?;
    let whole = (u128::from(packed) * u128::from(size)).checked_div(u128::from(sampled));
    Ok(whole.map_or(packed, |whole| u64::try_from(whole).unwrap_or(u64::MAX)))
}

/// Returns the size of the archive with these targets only, in bytes.
pub(super) fn archive(archive: &KpackArchive, kept: &[String]) -> Result<u64, rocwheel_kpack::Error> {
    let mut writer = ArchiveWriter::new(Counter::default(), &archive.group, &archive.family, kept, archive.scheme)?;
    for located in archive.entries().filter(|located| kept.iter().any(|target| target == located.target)) {
        let bytes = vec![0; usize::try_from(located.size).unwrap_or(usize::MAX)];
        writer.add(
            located.name,
            located.index,
            located.target,
            &Blob { original_size: located.original_size, bytes },
        )?;
    }
    Ok(writer.finish()?.size)
}

/// Counts the bytes that are written.
#[derive(Debug, Default)]
struct Counter {
    position: u64,
    size: u64,
}

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.position += bytes.len() as u64;
        self.size = self.size.max(self.position);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Counter {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = match to {
            SeekFrom::Start(position) => position,
            SeekFrom::End(by) => self.size.saturating_add_signed(by),
            SeekFrom::Current(by) => self.position.saturating_add_signed(by),
        };
        Ok(self.position)
    }
}
