//! Input: an original file and a [`Patch`], bytes that replace parts of it or are appended. Output:
//! [`Patched`], the edited file as a random-access view. The original is not copied.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use positioned_io::{ReadAt, Size, WriteAt};

/// The result of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditOutcome {
    /// The file changes.
    Changed,
    /// The file already has the requested contents.
    Unchanged,
    /// A static program: it has no dynamic section, so there is nothing to edit.
    NotDynamic,
}

/// An edit of one file, ready to be applied: bytes that differ, bytes that are appended, ranges
/// that are removed, and bytes from other files. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Patch {
    /// Size of the original in bytes.
    pub original_size: u64,
    /// Size of the edited file in bytes.
    pub size: u64,
    /// The result of the edit; for all but [`EditOutcome::Changed`] the patch is empty.
    pub outcome: EditOutcome,
    /// Sorted by offset, without overlaps. Bytes that no extent covers are the original's, or zero
    /// behind its end.
    extents: Arc<[Extent]>,
    /// `true` if the kept bytes keep their offsets.
    in_place: bool,
}

#[derive(Debug, Clone)]
struct Extent {
    offset: u64,
    length: u64,
    content: Content,
}

/// A source of bytes that are not the original's and too many to hold in memory.
pub type External = Arc<dyn ReadAt + Send + Sync>;

#[derive(Clone)]
enum Content {
    Bytes(Vec<u8>),
    /// A copy of the original's bytes at this offset.
    Original(u64),
    /// A copy of these bytes, from this offset on.
    External(External, u64),
    Zero,
}

impl fmt::Debug for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => formatter.debug_tuple("Bytes").field(&bytes.len()).finish(),
            Self::Original(from) => formatter.debug_tuple("Original").field(from).finish(),
            Self::External(_, from) => formatter.debug_tuple("External").field(from).finish(),
            Self::Zero => formatter.write_str("Zero"),
        }
    }
}

impl Extent {
    fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// Returns the part of the extent from `start` to `end`, both inside it.
    fn part(&self, start: u64, end: u64) -> Self {
        let skip = start - self.offset;
        let content = match &self.content {
            Content::Bytes(bytes) => Content::Bytes(bytes[skip as usize..(end - self.offset) as usize].to_vec()),
            Content::Original(from) => Content::Original(from + skip),
            Content::External(reader, from) => Content::External(Arc::clone(reader), from + skip),
            Content::Zero => Content::Zero,
        };
        Self { offset: start, length: end - start, content }
    }
}

impl Patch {
    /// Creates a patch that changes nothing.
    pub(crate) fn empty(original_size: u64, outcome: EditOutcome) -> Self {
        Self { original_size, size: original_size, outcome, extents: Arc::new([]), in_place: true }
    }

    /// `true` if applying the patch does not change the file.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty() && self.size == self.original_size
    }

    /// `true` if [`Patch::apply`] can write the patch over the original. Otherwise bytes of the
    /// original move to other offsets: copy a [`Patched`] view to a new file.
    pub fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Declares that no byte of the original moves, which [`Patch::then`] cannot detect.
    pub(crate) fn in_place(self) -> Self {
        Self { in_place: true, ..self }
    }

    /// Returns the patch that does the work of `self` and then of `next`, which was planned for the
    /// result of `self`.
    #[must_use]
    pub fn then(&self, next: &Self) -> Self {
        let mut extents = Vec::new();
        let mut position = 0;
        for extent in next.extents.iter() {
            self.resolve(position, extent.offset, position, next.original_size, &mut extents);
            if let Content::Original(from) = extent.content {
                self.resolve(extent.offset, extent.end(), from, next.original_size, &mut extents);
            } else {
                extents.push(extent.clone());
            }
            position = extent.end();
        }
        self.resolve(position, next.size, position, next.original_size, &mut extents);
        let outcome = if next.outcome == EditOutcome::Changed { next.outcome } else { self.outcome };
        Self { original_size: self.original_size, size: next.size, outcome, extents: extents.into(), in_place: false }
    }

    /// Appends the extents of `start..end`, which are the bytes from `from` on of this patch's
    /// result.
    fn resolve(&self, start: u64, end: u64, from: u64, available: u64, extents: &mut Vec<Extent>) {
        let mut at = start;
        let mut index = self.extents.partition_point(|extent| extent.end() <= from);
        while at < end {
            let source = from + (at - start);
            if source >= available {
                push_changed(extents, Extent { offset: at, length: end - at, content: Content::Zero });
                return;
            }
            let wanted = source + (end - at);
            let next = self.extents.get(index);
            let (stop, content) = if let Some(extent) = next.filter(|extent| extent.offset <= source) {
                let stop = extent.end().min(wanted);
                index += 1;
                (stop, extent.part(source, stop).content)
            } else {
                let behind = source >= self.original_size;
                let limit = if behind { available } else { self.original_size };
                let stop = next.map_or(u64::MAX, |extent| extent.offset).min(limit).min(wanted);
                (stop, if behind { Content::Zero } else { Content::Original(source) })
            };
            push_changed(extents, Extent { offset: at, length: stop - source, content });
            at += stop - source;
        }
    }

    /// Applies the patch to the file that it was planned for: appended bytes first, then the others
    /// from the end to the start, so that the ELF header comes last. A crash in between may leave a
    /// file that does not load; use [`crate::edit_file`] for files that other processes use.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if bytes of the original move ([`Patch::is_in_place`]), and
    /// errors of the file.
    pub fn apply<F: ReadAt + WriteAt>(&self, file: &mut F) -> io::Result<()> {
        if !self.in_place {
            let why =
                "the edit moves parts of the file, so it cannot be written over it: copy the edited view to a new file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut buffer = vec![0; 64 << 10];
        if self.size > self.original_size {
            file.write_all_at(self.size - 1, &[0])?;
        }
        for extent in self.extents.iter().rev() {
            let mut done = 0;
            while done < extent.length {
                let count = (extent.length - done).min(buffer.len() as u64) as usize;
                let window = &mut buffer[..count];
                match &extent.content {
                    Content::Bytes(bytes) => window.copy_from_slice(&bytes[done as usize..done as usize + count]),
                    Content::Original(from) => file.read_exact_at(from + done, window)?,
                    Content::External(reader, from) => reader.read_exact_at(from + done, window)?,
                    Content::Zero => window.fill(0),
                }
                file.write_all_at(extent.offset + done, window)?;
                done += count as u64;
            }
        }
        Ok(())
    }
}

/// Appends an extent, unless it is empty or has the original bytes.
fn push_changed(extents: &mut Vec<Extent>, extent: Extent) {
    let is_same = matches!(extent.content, Content::Original(from) if from == extent.offset);
    if extent.length > 0 && !is_same {
        extents.push(extent);
    }
}

/// Collects the extents of a patch; a later one wins where it overlaps an earlier one.
#[derive(Debug)]
pub struct PatchBuilder {
    original_size: u64,
    size: u64,
    extents: BTreeMap<u64, Extent>,
    in_place: bool,
}

impl PatchBuilder {
    /// Creates a patch of a file of `original_size` bytes.
    pub fn new(original_size: u64) -> Self {
        Self { original_size, size: original_size, extents: BTreeMap::new(), in_place: true }
    }

    /// Creates a patch that first replaces `removed` bytes at `at` by `inserted` zeros, all inside
    /// the original. Offsets in later calls are those of the result.
    pub fn spliced(original_size: u64, at: u64, removed: u64, inserted: u64) -> Self {
        let mut builder = Self::new(original_size);
        if removed != inserted {
            builder.in_place = false;
            builder.size = original_size - removed + inserted;
            builder.zero(at, inserted);
            builder.copy(at + inserted, at + removed, original_size - at - removed);
        }
        builder
    }

    /// Puts `bytes` at `offset`.
    pub fn bytes(&mut self, offset: u64, bytes: &[u8]) {
        self.insert(Extent { offset, length: bytes.len() as u64, content: Content::Bytes(bytes.to_vec()) });
    }

    /// Copies the original's bytes at `from` to `offset`. If the patch is applied in place, it must
    /// not change these bytes.
    pub fn copy(&mut self, offset: u64, from: u64, length: u64) {
        self.insert(Extent { offset, length, content: Content::Original(from) });
    }

    /// Puts `length` bytes from the start of `reader` at `offset`.
    pub fn external(&mut self, offset: u64, reader: External, length: u64) {
        self.insert(Extent { offset, length, content: Content::External(reader, 0) });
    }

    /// Puts `length` zeros at `offset`.
    pub fn zero(&mut self, offset: u64, length: u64) {
        self.insert(Extent { offset, length, content: Content::Zero });
    }

    fn insert(&mut self, extent: Extent) {
        if extent.length == 0 {
            return;
        }
        let (start, end) = (extent.offset, extent.end());
        let overlapping: Vec<u64> = self
            .extents
            .range(..end)
            .rev()
            .take_while(|(_, other)| other.end() > start)
            .map(|(&offset, _)| offset)
            .collect();
        for offset in overlapping {
            if let Some(other) = self.extents.remove(&offset) {
                if other.offset < start {
                    self.extents.insert(other.offset, other.part(other.offset, start));
                }
                if other.end() > end {
                    self.extents.insert(end, other.part(end, other.end()));
                }
            }
        }
        self.size = self.size.max(end);
        self.extents.insert(start, extent);
    }

    /// Returns the patch.
    pub fn finish(self) -> Patch {
        let extents: Vec<Extent> = self.extents.into_values().collect();
        Patch {
            original_size: self.original_size,
            size: self.size,
            outcome: EditOutcome::Changed,
            extents: extents.into(),
            in_place: self.in_place,
        }
    }
}

/// The result of a patch as a view, without applying it.
#[derive(Debug, Clone)]
pub struct Patched<R> {
    original: R,
    patch: Patch,
}

impl<R> Patched<R> {
    /// Combines `patch` with `original`, which must be the file it was planned for.
    pub fn new(original: R, patch: Patch) -> Self {
        Self { original, patch }
    }

    /// Returns the size of the result in bytes.
    pub fn size(&self) -> u64 {
        self.patch.size
    }

    /// Returns the original and the patch.
    pub fn into_parts(self) -> (R, Patch) {
        (self.original, self.patch)
    }
}

impl<R> Size for Patched<R> {
    fn size(&self) -> io::Result<Option<u64>> {
        Ok(Some(self.patch.size))
    }
}

impl<R: ReadAt> ReadAt for Patched<R> {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let patch = &self.patch;
        if position >= patch.size || buffer.is_empty() {
            return Ok(0);
        }
        let index = patch.extents.partition_point(|extent| extent.end() <= position);
        let next = patch.extents.get(index);
        if let Some(extent) = next.filter(|extent| extent.offset <= position) {
            let skip = position - extent.offset;
            let length = (extent.length - skip).min(buffer.len() as u64) as usize;
            match &extent.content {
                Content::Bytes(bytes) => {
                    buffer[..length].copy_from_slice(&bytes[skip as usize..skip as usize + length]);
                }
                Content::Original(from) => return self.original.read_at(from + skip, &mut buffer[..length]),
                Content::External(reader, from) => return reader.read_at(from + skip, &mut buffer[..length]),
                Content::Zero => buffer[..length].fill(0),
            }
            return Ok(length);
        }
        let gap_end = next.map_or(patch.size, |extent| extent.offset);
        if position < patch.original_size {
            let length = (gap_end.min(patch.original_size) - position).min(buffer.len() as u64) as usize;
            return self.original.read_at(position, &mut buffer[..length]);
        }
        let length = (gap_end - position).min(buffer.len() as u64) as usize;
        buffer[..length].fill(0);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<R: ReadAt>(patched: &Patched<R>) -> Vec<u8> {
        let mut bytes = vec![0; patched.size() as usize];
        patched.read_exact_at(0, &mut bytes).unwrap();
        bytes
    }

    fn original() -> Vec<u8> {
        (0..100).collect()
    }

    #[test]
    fn a_range_leaves_the_file_and_others_come_in() {
        let mut builder = PatchBuilder::spliced(100, 10, 80, 3);
        builder.bytes(11, b"x");
        builder.external(14, Arc::new(b"0123456789".to_vec()), 4);
        let patch = builder.finish();
        assert!(!patch.is_in_place() && !patch.is_empty());
        let mut expected: Vec<u8> = (0..10).collect();
        expected.extend([0, b'x', 0, 90]);
        expected.extend(b"0123");
        expected.extend(95..100);
        assert_eq!(bytes(&Patched::new(original(), patch)), expected);
    }

    #[test]
    fn what_moves_is_not_written_over_the_original() {
        let patch = PatchBuilder::spliced(100, 10, 80, 0).finish();
        let mut file = original();
        let error = patch.apply(&mut file.as_mut_slice()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("copy the edited view"), "{error}");
        assert_eq!(file, original());
    }

    #[test]
    fn patches_follow_each_other() {
        let mut first = PatchBuilder::spliced(100, 20, 50, 0);
        first.bytes(60, b"behind the end");
        first.copy(5, 40, 10);
        let first = first.finish();
        let mut second = PatchBuilder::spliced(first.size, 8, 4, 20);
        second.bytes(0, b"start");
        second.copy(30, 3, 30);
        let second = second.finish();
        let once = Patched::new(original(), first.clone());
        let twice = bytes(&Patched::new(bytes(&once), second.clone()));
        let both = first.then(&second);
        assert_eq!(both.size, second.size);
        assert_eq!(bytes(&Patched::new(original(), both)), twice);
    }
}
