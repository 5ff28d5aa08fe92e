//! Input: one file. Output: the verdict on the file: unchanged, removed, or changed, with the new
//! content without the code for other targets.
//!
//! New contents are stored in unnamed temporary files in the scratch folder. Each thread holds one
//! code object in memory at a time.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::sync::Arc;

use positioned_io::{ReadAt, Slice};
use rocwheel_content::{Content, OpenContent, Reader};
use rocwheel_elf::PatchedContent;
use rocwheel_kpack::bundle::{self, ALIGNMENT, Bundle, BundleForm, Method, Part};
use rocwheel_kpack::{
    ArchiveWriter, BundleEntry, FatBinary, KpackArchive, Magic, NewWrapper, Replacement, code_object,
};
use rocwheel_progress::Failure;
use rocwheel_tables::target::sort;

use super::content::{Kind, looks_like};
use super::error::{nothing_left, scratch_error};
use super::forecast;
use super::outcome::sorted;
use super::pruner::{KeptEntry, Pruner, Section};
use super::size::{Amount, SizeForecast};
use super::{Empty, PruneAction, PrunedFile};
use rocwheel_split::error::{gpu_code_error, read_error};
use rocwheel_split::plan;

/// The decision about a file.
pub(super) struct Verdict {
    pub(super) kind: Kind,
    pub(super) fate: Fate,
    /// Targets whose code is kept, with their features.
    pub(super) kept: BTreeSet<String>,
    /// Targets whose code is removed.
    pub(super) dropped: BTreeSet<String>,
    pub(super) note: Option<String>,
}

pub(super) enum Fate {
    Stays,
    /// The file gets this content.
    Changes(Arc<dyn Content>),
    /// In a dry run: the file would get new content of this size.
    WouldChange(SizeForecast),
    Goes,
}

impl Verdict {
    /// Returns the record of the file at `path`, which has `before` bytes, for the outcome.
    pub(super) fn listed(&self, path: &str, before: u64) -> PrunedFile {
        let (action, after, estimated) = match &self.fate {
            Fate::Stays => (PruneAction::Kept, before, false),
            Fate::Changes(content) => (PruneAction::Changed, content.size(), false),
            Fate::WouldChange(forecast) => (PruneAction::Changed, forecast.size, forecast.is_estimate),
            Fate::Goes => (PruneAction::Dropped, 0, false),
        };
        PrunedFile {
            path: path.to_owned(),
            action,
            before,
            after,
            estimated,
            kept: sorted(self.kept.iter().cloned()),
            dropped: sorted(self.dropped.iter().cloned()),
            note: self.note.clone(),
        }
    }
}

impl Pruner<'_> {
    /// Decides about the file at `key`, a path relative to the root that databases are recognised
    /// from, separated by `/`.
    pub(super) fn judge(&self, key: &str, content: &Arc<dyn Content>) -> Result<Verdict, Failure> {
        self.reporter.check()?;
        let mut verdict = Verdict {
            kind: Kind::Other,
            fate: Fate::Stays,
            kept: BTreeSet::new(),
            dropped: BTreeSet::new(),
            note: None,
        };
        if let Some((target, kept)) = self.database_target(key) {
            verdict.kind = Kind::Database;
            if !kept {
                verdict.dropped.insert(target);
                verdict.fate = Fate::Goes;
                return Ok(verdict);
            }
            verdict.kept.insert(target);
        }
        let reader = content.open().map_err(read_error(key))?;
        let mut start = [0; 64];
        let length = start.len().min(usize::try_from(content.size()).unwrap_or(usize::MAX));
        reader.read_exact_at(0, &mut start[..length]).map_err(read_error(key))?;
        let kind = looks_like(&start[..length]);
        if kind != Kind::Other && verdict.kind == Kind::Other {
            verdict.kind = kind;
        }
        match kind {
            Kind::FatBinary => {
                self.fat_binary(key, content, &reader, &mut verdict)?;
                self.embedded(key, content.size(), &reader, &mut verdict)?;
            }
            Kind::Bundle => self.bundle_file(key, content.size(), &reader, &mut verdict)?,
            Kind::Archive => self.archive(key, content.size(), &reader, &mut verdict)?,
            Kind::CodeObject => self.code_object(key, &reader, &mut verdict)?,
            Kind::Database | Kind::Other => {}
        }
        Ok(verdict)
    }

    fn fat_binary(
        &self,
        key: &str,
        content: &Arc<dyn Content>,
        reader: &Reader,
        verdict: &mut Verdict,
    ) -> Result<(), Failure> {
        let Some(fat) = FatBinary::read(reader, content.size()).map_err(gpu_code_error(key))? else {
            if verdict.kind == Kind::FatBinary {
                verdict.kind = Kind::Other;
            }
            return Ok(());
        };
        let reached = match plan::wrappers(&fat) {
            Ok(reached) => reached,
            Err(reason) => {
                // Code in archives is removed together with the archives.
                verdict.note =
                    (reason != plan::UnchangedReason::AlreadySplit).then(|| format!("not changed: {reason}"));
                return Ok(());
            }
        };
        let Some(made) = self.section(key, reader, fat.section.clone(), &fat.bundles, verdict)? else { return Ok(()) };
        let wrappers = fat.wrappers.iter().zip(&reached).map(|(wrapper, bundle)| NewWrapper {
            magic: Magic::Fat,
            pointer: made.offsets[*bundle],
            index: wrapper.index,
        });
        let with = Replacement { content: made.file, size: made.size, wrappers: wrappers.collect() };
        let patch = fat.replace(reader, with).map_err(gpu_code_error(key))?;
        verdict.fate = match made.forecast {
            Some(forecast) => Fate::WouldChange(SizeForecast { size: patch.size, ..forecast }),
            None => Fate::Changes(Arc::new(PatchedContent::new(Arc::clone(content), patch))),
        };
        Ok(())
    }

    /// Lists the code objects in the data of a host file, which stay: only the program knows where
    /// they are.
    fn embedded(&self, key: &str, size: u64, reader: &Reader, verdict: &mut Verdict) -> Result<(), Failure> {
        let mut targets = BTreeSet::new();
        for code in code_object::embedded(reader, size).map_err(gpu_code_error(key))? {
            let window = Slice::new(reader, code.range.start, Some(code.range.end - code.range.start));
            // One for a GPU that is not known stays like the others.
            targets.extend(code_object::target(&window).ok().flatten().map(|(target, _)| target.to_string()));
        }
        if verdict.kind == Kind::Other && !targets.is_empty() {
            verdict.kind = Kind::FatBinary;
        }
        if !targets.iter().all(|target| self.takes(target)) {
            let note = "the code objects in its data stay, because only the program knows where they are";
            verdict.note.get_or_insert_with(|| note.to_owned());
        }
        verdict.kept.extend(targets);
        Ok(())
    }

    /// Decides about a separate code object. It is removed if its path names the target that its
    /// header states: the program chooses the file by its GPU. Any other may be opened on each GPU.
    fn code_object(&self, key: &str, reader: &Reader, verdict: &mut Verdict) -> Result<(), Failure> {
        let Some((target, _)) = code_object::target(reader).map_err(gpu_code_error(key))? else { return Ok(()) };
        let name = target.to_string();
        if verdict.kind == Kind::Database || self.takes(&name) {
            verdict.kept.insert(name);
        } else if names(key, &target.processor) {
            verdict.dropped.insert(name);
            verdict.fate = Fate::Goes;
        } else {
            verdict.kept.insert(name);
            verdict.note =
                Some("not changed: its path does not name its target, so it may be opened on any GPU".to_owned());
        }
        Ok(())
    }

    fn bundle_file(&self, key: &str, size: u64, reader: &Reader, verdict: &mut Verdict) -> Result<(), Failure> {
        let bundles = bundle::read(reader, 0..size).map_err(gpu_code_error(key))?;
        if let Some(made) = self.section(key, reader, 0..size, &bundles, verdict)? {
            verdict.fate = match made.forecast {
                Some(forecast) => Fate::WouldChange(forecast),
                None => Fate::Changes(Arc::new(OpenContent::new(made.file, made.size))),
            };
        }
        Ok(())
    }

    /// Reduces an archive to its kept targets. An archive without any is removed: the runtime skips
    /// archives that do not exist.
    fn archive(&self, key: &str, size: u64, reader: &Reader, verdict: &mut Verdict) -> Result<(), Failure> {
        let archive = KpackArchive::open(reader, size).map_err(gpu_code_error(key))?;
        let (kept, dropped): (Vec<String>, Vec<String>) =
            archive.targets.iter().cloned().partition(|target| self.takes(target));
        verdict.kept.extend(kept.iter().cloned());
        verdict.dropped.extend(dropped.iter().cloned());
        if kept.is_empty() && !dropped.is_empty() {
            verdict.fate = Fate::Goes;
            return Ok(());
        }
        if !self.is_dry() {
            self.check_archive(key, reader, &archive)?;
        }
        if dropped.is_empty() {
            return Ok(());
        }
        if self.is_dry() {
            let after = forecast::archive(&archive, &kept).map_err(gpu_code_error(key))?;
            let [before, after] = [size, after].map(|bytes| Amount { bytes, is_packed: true });
            verdict.fate = Fate::WouldChange(SizeForecast { size: after.bytes, is_estimate: false, before, after });
            return Ok(());
        }
        let mut file = tempfile::tempfile_in(self.scratch()).map_err(scratch_error(key))?;
        let writer = BufWriter::new(&mut file);
        let mut writer = ArchiveWriter::new(writer, &archive.group, &archive.family, &kept, archive.scheme)
            .map_err(gpu_code_error(key))?;
        for located in archive.entries().filter(|located| kept.iter().any(|target| target == located.target)) {
            self.reporter.check()?;
            let blob = archive.blob(reader, &located).map_err(gpu_code_error(key))?;
            writer.add(located.name, located.index, located.target, &blob).map_err(gpu_code_error(key))?;
        }
        writer.finish().map_err(gpu_code_error(key))?.flush().map_err(scratch_error(key))?;
        let size = file.seek(SeekFrom::End(0)).map_err(scratch_error(key))?;
        verdict.fate = Fate::Changes(Arc::new(OpenContent::new(Box::new(file) as Reader, size)));
        Ok(())
    }

    /// Fails if kept code in an archive is damaged, even if the archive stays unchanged.
    fn check_archive(&self, key: &str, reader: &Reader, archive: &KpackArchive) -> Result<(), Failure> {
        for located in archive.entries().filter(|located| self.takes(located.target)) {
            self.reporter.check()?;
            let read = archive.read_sound(reader, &located);
            read.map_err(gpu_code_error(key))?;
        }
        Ok(())
    }

    /// Returns the new content of a section of bundles; `None` if it stays unchanged.
    fn section(
        &self,
        key: &str,
        reader: &Reader,
        section: Range<u64>,
        bundles: &[Bundle],
        verdict: &mut Verdict,
    ) -> Result<Option<Section>, Failure> {
        let mut changes = false;
        let mut emptied = Vec::new();
        for (number, bundle) in bundles.iter().enumerate() {
            let targets: Vec<&str> = code(bundle).filter_map(BundleEntry::target).collect();
            let (kept, dropped): (Vec<&str>, Vec<&str>) = targets.iter().partition(|target| self.takes(target));
            if kept.is_empty() && !dropped.is_empty() {
                emptied.push((number, dropped.iter().map(|target| (*target).to_owned()).collect::<Vec<_>>()));
            }
            changes |= !dropped.is_empty() || (self.options.compress.is_some() && bundle.compression.is_none());
            verdict.kept.extend(kept.into_iter().map(str::to_owned));
            verdict.dropped.extend(dropped.into_iter().map(str::to_owned));
        }
        if let (Some((number, found)), Empty::Refuse) = (emptied.first(), self.options.empty) {
            let all = emptied.len() == bundles.iter().filter(|bundle| code(bundle).next().is_some()).count();
            let mut found = if all { verdict.dropped.iter().cloned().collect() } else { found.clone() };
            sort(&mut found);
            return Err(nothing_left(key, (!all).then_some(*number), &found.join(", ")));
        }
        if !changes {
            return Ok(None);
        }
        let old = section.end - section.start;
        if self.is_dry() {
            let made = self.expect_section(reader, section.clone(), bundles);
            return Ok(Some(made.map_err(gpu_code_error(key))?));
        }
        let made = self.write_section(key, reader, section, bundles)?;
        if made.size > old {
            verdict.note = Some(format!("its GPU code grew from {old} to {} bytes", made.size));
        }
        Ok(Some(made))
    }

    fn write_section(
        &self,
        key: &str,
        reader: &Reader,
        section: Range<u64>,
        bundles: &[Bundle],
    ) -> Result<Section, Failure> {
        let mut file = tempfile::tempfile_in(self.scratch()).map_err(scratch_error(key))?;
        let mut out = BufWriter::with_capacity(1 << 20, &mut file);
        let (mut position, mut offsets) = (0_u64, Vec::with_capacity(bundles.len()));
        rocwheel_pipeline::ordered(
            bundles.iter(),
            |bundle| {
                self.reporter.check()?;
                let made = self.bundle(reader, section.clone(), bundle);
                Ok((bundle, made.map_err(gpu_code_error(key))?))
            },
            |(bundle, made)| {
                let start = position.next_multiple_of(ALIGNMENT);
                io::copy(&mut io::Read::take(io::repeat(0), start - position), &mut out).map_err(scratch_error(key))?;
                offsets.push(start);
                let length = match made {
                    Made::Verbatim => {
                        let bytes = Slice::new(reader, section.start + bundle.offset, Some(bundle.length));
                        io::copy(&mut positioned_io::Cursor::new(bytes), &mut out).map_err(scratch_error(key))?
                    }
                    Made::Plain => {
                        let parts = self.parts(reader, section.start + bundle.offset, bundle, |entry| entry.offset);
                        let write = write_parts(&parts, BundleForm::Plain, &mut out);
                        write.map_err(gpu_code_error(key))?
                    }
                    Made::Compressed(bytes) => {
                        out.write_all(&bytes).map_err(scratch_error(key))?;
                        bytes.len() as u64
                    }
                };
                position = start + length;
                Ok::<_, Failure>(())
            },
        )?;
        out.flush().map_err(scratch_error(key))?;
        drop(out);
        Ok(Section { file: Arc::new(file), size: position, offsets, forecast: None })
    }

    fn bundle(&self, reader: &Reader, section: Range<u64>, bundle: &Bundle) -> Result<Made, rocwheel_kpack::Error> {
        let is_whole = self.is_whole(bundle);
        let Some(compression) = bundle.compression else {
            if let Some(compress) = self.options.compress {
                let form = BundleForm::Compressed {
                    version: compress.version(),
                    method: Method::Zstd,
                    level: self.options.level,
                };
                let parts = self.parts(reader, section.start + bundle.offset, bundle, |entry| entry.offset);
                let mut bytes = Vec::new();
                let length = write_parts(&parts, form, &mut bytes)?;
                let plain: Vec<Part<'_>> = parts.iter().map(KeptEntry::borrow).collect();
                // Bundles that do not shrink stay plain.
                if length < bundle::plain_size(&plain) {
                    return Ok(Made::Compressed(bytes));
                }
            }
            return Ok(if is_whole { Made::Verbatim } else { Made::Plain });
        };
        if is_whole {
            return Ok(Made::Verbatim);
        }
        let mut spool = tempfile::tempfile_in(self.scratch()).map_err(rocwheel_kpack::Error::WriteBundle)?;
        let mut places = std::collections::BTreeMap::new();
        let mut position = 0;
        bundle.visit(reader, section, |entry, bytes| {
            if self.stays(entry) {
                spool.write_all(bytes).map_err(rocwheel_kpack::Error::WriteBundle)?;
                places.insert(entry.id.clone(), position);
                position += bytes.len() as u64;
            }
            Ok::<(), rocwheel_kpack::Error>(())
        })?;
        let level = self.options.level;
        let form = BundleForm::Compressed { version: compression.version, method: compression.method, level };
        let parts = self.parts(&spool, 0, bundle, |entry| places.get(&entry.id).copied().unwrap_or_default());
        let mut bytes = Vec::new();
        write_parts(&parts, form, &mut bytes)?;
        Ok(Made::Compressed(bytes))
    }
}

fn write_parts(
    kept: &[KeptEntry<'_>],
    form: BundleForm,
    out: &mut dyn io::Write,
) -> Result<u64, rocwheel_kpack::Error> {
    let parts: Vec<Part<'_>> = kept.iter().map(KeptEntry::borrow).collect();
    bundle::write(&parts, form, out)
}

/// The new form of a bundle.
enum Made {
    Verbatim,
    Plain,
    Compressed(Vec<u8>),
}

/// Returns the entries with device code.
pub(super) fn code(bundle: &Bundle) -> impl Iterator<Item = &BundleEntry> {
    bundle.entries.iter().filter(|entry| entry.has_code() && entry.target().is_some())
}

/// `true` if a path has a target's processor as a whole word: `hsa/gfx950/a.co`, `a_gfx950.co`.
fn names(path: &str, processor: &str) -> bool {
    path.match_indices(processor).any(|(start, _)| {
        let neighbours = [path[..start].chars().next_back(), path[start + processor.len()..].chars().next()];
        neighbours.into_iter().flatten().all(|neighbour| !neighbour.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_target_in_a_word_of_its_own() {
        for path in ["hsa/gfx950/a.co", "a_gfx950.co", "gfx950", "x/k.gfx950-xnack+.hsaco", "gfx9500/gfx950/é"] {
            assert!(names(path, "gfx950"), "{path}");
        }
        for path in ["", "hsa/gfx9500/a.co", "hsa/gfx942/a.co", "agfx950.co", "gfx95/0"] {
            assert!(!names(path, "gfx950"), "{path}");
        }
    }
}
