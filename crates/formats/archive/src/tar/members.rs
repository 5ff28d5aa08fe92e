//! Input: a tar archive of any tool as a stream. Output: its members, the positions of their
//! blocks, and the blocks that describe a member with another name or size.
//!
//! This is for archives that stay the same but for a few members: what is not changed is copied
//! from its position. Formats are ustar, pax (POSIX.1-2001) and GNU's long names.

use std::io::{self, Read};
use std::mem;

use super::{BLOCK, LARGEST_SIZE, octal, padding, pax_record, put, split_name};

/// Limit in bytes for the extended headers of one member.
const LARGEST_EXTENSION: u64 = 1 << 20;

#[derive(Debug, Clone)]
pub struct TarMember {
    /// Its path, as in the archive.
    pub name: String,
    /// The text of a link; empty for other members.
    pub link: String,
    /// `true` if it has content.
    pub is_file: bool,
    /// Number of bytes of its content.
    pub size: u64,
    /// Position of its first header in the archive.
    pub start: u64,
    /// Position of its content.
    pub content: u64,
    block: [u8; BLOCK],
    /// Extended headers of this member, unchanged.
    extended: Vec<u8>,
    records: Vec<(String, String)>,
    /// Headers for all members that follow, unchanged.
    global: Vec<u8>,
}

impl TarMember {
    /// Position behind the content, where the next member begins.
    pub fn end(&self) -> u64 {
        self.content + self.size.next_multiple_of(BLOCK as u64)
    }

    /// The headers of this member with another name, link text or size. Owner, mode and time stay.
    pub fn header(&self, name: &str, link: &str, size: u64) -> Vec<u8> {
        let mut bytes = self.global.clone();
        let mut block = self.block;
        octal(&mut block[124..136], if size > LARGEST_SIZE { 0 } else { size });
        let is_same = name == self.name && link == self.link && size.max(self.size) <= LARGEST_SIZE;
        if is_same {
            bytes.extend_from_slice(&self.extended);
        } else {
            let of_us = ["path", "linkpath", "size"];
            let mut records: String = self
                .records
                .iter()
                .filter(|(key, _)| !of_us.contains(&key.as_str()))
                .map(|(key, value)| pax_record(key, value))
                .collect();
            let (prefix, short) = split_name(name).unwrap_or_else(|| {
                records.push_str(&pax_record("path", name));
                ("", name)
            });
            // GNU's format has other fields in the place of the prefix.
            if &block[257..263] == b"ustar\0" {
                block[345..500].fill(0);
                put(&mut block[345..500], prefix.as_bytes());
                block[..100].fill(0);
                put(&mut block[..100], short.as_bytes());
            } else {
                if !prefix.is_empty() {
                    records.push_str(&pax_record("path", name));
                }
                block[..100].fill(0);
                put(&mut block[..100], name.as_bytes());
            }
            if link.len() > 100 || !link.is_ascii() {
                records.push_str(&pax_record("linkpath", link));
            }
            block[157..257].fill(0);
            put(&mut block[157..257], link.as_bytes());
            if size > LARGEST_SIZE {
                records.push_str(&pax_record("size", &size.to_string()));
            }
            bytes.extend(self.pax_header(&records));
        }
        seal(&mut block);
        bytes.extend(block);
        bytes
    }

    fn pax_header(&self, records: &str) -> Vec<u8> {
        if records.is_empty() {
            return Vec::new();
        }
        let mut block = self.block;
        block[..100].fill(0);
        put(&mut block[..100], b"PaxHeaders/member");
        octal(&mut block[124..136], records.len() as u64);
        block[156] = b'x';
        block[157..257].fill(0);
        put(&mut block[257..265], b"ustar\x0000");
        block[345..500].fill(0);
        seal(&mut block);
        let mut bytes = block.to_vec();
        bytes.extend_from_slice(records.as_bytes());
        bytes.extend_from_slice(padding(records.len() as u64));
        bytes
    }
}

fn seal(block: &mut [u8; BLOCK]) {
    block[148..156].fill(b' ');
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut block[148..155], sum);
}

/// Reads an archive member by member. As a [`Read`], it gives the content of the last member.
pub struct TarMembers<R> {
    reader: R,
    position: u64,
    /// Bytes of the content that were not read.
    left: u64,
    /// Bytes between the content and the next header.
    padding: u64,
}

impl<R: Read> TarMembers<R> {
    /// An archive that begins at the next byte of the reader.
    pub fn new(reader: R) -> TarMembers<R> {
        TarMembers { reader, position: 0, left: 0, padding: 0 }
    }

    /// The next member; `None` at the end of the archive. What was not read of the one before is
    /// skipped.
    pub fn next_member(&mut self) -> io::Result<Option<TarMember>> {
        let rest = self.left + self.padding;
        self.skip(rest)?;
        (self.left, self.padding) = (0, 0);
        let start = self.position;
        let (mut global, mut extended, mut records) = (Vec::new(), Vec::new(), Vec::<(String, String)>::new());
        loop {
            let Some(block) = self.block()? else { return Ok(None) };
            if block.iter().all(|byte| *byte == 0) {
                return Ok(None);
            }
            check(&block)?;
            let (kind, size) = (block[156], number(&block[124..136])?);
            if !matches!(kind, b'x' | b'g' | b'L' | b'K') {
                return self.member(&block, start, (global, extended, records)).map(Some);
            }
            if size > LARGEST_EXTENSION {
                return Err(malformed("an extended header is larger than 1 MiB"));
            }
            let mut content = vec![0; size as usize];
            self.fill(&mut content)?;
            let padding = padding(size);
            self.skip(padding.len() as u64)?;
            let whole = if kind == b'g' { &mut global } else { &mut extended };
            whole.extend_from_slice(&block);
            whole.extend_from_slice(&content);
            whole.extend_from_slice(padding);
            let newer = match kind {
                b'x' => parse_records(&content)?,
                b'L' => vec![("path".to_owned(), text(until_zero(&content))?)],
                b'K' => vec![("linkpath".to_owned(), text(until_zero(&content))?)],
                _ => Vec::new(),
            };
            for (key, value) in newer {
                records.retain(|(known, _)| *known != key);
                records.push((key, value));
            }
        }
    }

    fn member(
        &mut self,
        block: &[u8; BLOCK],
        start: u64,
        (global, extended, records): (Vec<u8>, Vec<u8>, Vec<(String, String)>),
    ) -> io::Result<TarMember> {
        if block[156] == b'S' || records.iter().any(|(key, _)| key.starts_with("GNU.sparse")) {
            return Err(malformed("a member is a sparse file"));
        }
        let is_file = matches!(block[156], b'0' | 0 | b'7');
        let announced = match find_record(&records, "size") {
            Some(size) => size.parse().map_err(|_| malformed("a size is not a number"))?,
            None => number(&block[124..136])?,
        };
        // Links and folders have no content, whatever their size field says.
        let size = if is_file { announced } else { 0 };
        let name = find_record(&records, "path").map_or_else(|| short_name(block), Ok)?;
        let link = find_record(&records, "linkpath").map_or_else(|| text(until_zero(&block[157..257])), Ok)?;
        self.left = size;
        self.padding = padding(size).len() as u64;
        let content = self.position;
        Ok(TarMember { name, link, is_file, size, start, content, block: *block, extended, records, global })
    }

    /// Reads the bytes behind the end of the archive, which shows a stream that is cut short or
    /// damaged. Returns the size of everything.
    pub fn finish(mut self) -> io::Result<u64> {
        let left = mem::take(&mut self.left);
        self.skip(left)?;
        Ok(self.position + io::copy(&mut self.reader, &mut io::sink())?)
    }

    /// The next block; `None` at the end of the stream.
    fn block(&mut self) -> io::Result<Option<[u8; BLOCK]>> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.reader.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.position += BLOCK as u64;
        Ok(Some(block))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.reader.read_exact(buffer)?;
        self.position += buffer.len() as u64;
        Ok(())
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        let skipped = io::copy(&mut (&mut self.reader).take(count), &mut io::sink())?;
        self.position += skipped;
        if skipped < count { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

impl<R: Read> Read for TarMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.left.min(buffer.len() as u64) as usize;
        if length == 0 {
            return Ok(0);
        }
        let count = self.reader.read(&mut buffer[..length])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        self.position += count as u64;
        Ok(count)
    }
}

/// The name in the fields of a header.
fn short_name(block: &[u8; BLOCK]) -> io::Result<String> {
    let name = text(until_zero(&block[..100]))?;
    let prefix = if &block[257..263] == b"ustar\0" { text(until_zero(&block[345..500]))? } else { String::new() };
    Ok(if prefix.is_empty() { name } else { format!("{prefix}/{name}") })
}

fn malformed(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("this is no tar archive that can be changed: {reason}"))
}

fn check(block: &[u8; BLOCK]) -> io::Result<()> {
    let said = number(&block[148..156])?;
    let sum: u64 =
        block.iter().enumerate().map(|(at, byte)| u64::from(if (148..156).contains(&at) { b' ' } else { *byte })).sum();
    if said == sum { Ok(()) } else { Err(malformed("the checksum of a header is wrong")) }
}

/// A number in octal digits, or in GNU's binary form.
fn number(field: &[u8]) -> io::Result<u64> {
    if field[0] & 0x80 != 0 {
        let bytes = &field[field.len() - 8..];
        return Ok(bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    }
    let digits = until_zero(field);
    let digits = std::str::from_utf8(digits).unwrap_or("x").trim();
    if digits.is_empty() {
        return Ok(0);
    }
    u64::from_str_radix(digits, 8).map_err(|_| malformed("a field of a header is not a number"))
}

fn until_zero(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn text(bytes: &[u8]) -> io::Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| malformed("a name is not UTF-8"))
}

const NO_RECORDS: &str = "an extended header has no records";

/// Records `LENGTH KEY=VALUE` with a line break at the end of each.
fn parse_records(mut bytes: &[u8]) -> io::Result<Vec<(String, String)>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (record, rest) = first_record(bytes).ok_or_else(|| malformed(NO_RECORDS))?;
        let record = text(record)?;
        let (key, value) = record.split_once('=').ok_or_else(|| malformed(NO_RECORDS))?;
        records.push((key.to_owned(), value.to_owned()));
        bytes = rest;
    }
    Ok(records)
}

/// The content of the first record, and the bytes behind it.
fn first_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = bytes.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
    Some((bytes.get(space + 1..length)?.strip_suffix(b"\n")?, &bytes[length..]))
}

fn find_record(records: &[(String, String)], wanted: &str) -> Option<String> {
    records.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.clone())
}

#[cfg(test)]
mod tests {
    use rocwheel_content::Content as _;

    use super::super::TarBuilder;
    use super::*;

    fn archive(name: &str, bytes: &[u8]) -> Vec<u8> {
        let mut builder = TarBuilder::new(1_577_836_800);
        builder.directory("top");
        builder.file(name, true, bytes.to_vec());
        builder.symlink("top/link", "file");
        let tar = builder.finish();
        let mut whole = vec![0; tar.size() as usize];
        tar.open().unwrap().read_exact_at(0, &mut whole).unwrap();
        whole
    }

    /// Replaces the content of the file, and renames it.
    fn changed(whole: &[u8], name: &str, bytes: &[u8]) -> Vec<u8> {
        let mut members = TarMembers::new(whole);
        let mut result = Vec::new();
        while let Some(member) = members.next_member().unwrap() {
            if member.is_file {
                result.extend(member.header(name, "", bytes.len() as u64));
                result.extend_from_slice(bytes);
                result.extend_from_slice(padding(bytes.len() as u64));
            } else {
                result.extend_from_slice(&whole[member.start as usize..member.end() as usize]);
            }
        }
        result.extend_from_slice(&super::super::END);
        result
    }

    #[test]
    fn a_changed_archive_is_the_one_that_would_have_been_made() {
        let long = format!("top/{}/file", "a".repeat(120));
        let unsplit = format!("top/{}", "b".repeat(120));
        for (old, new) in [("top/file", "top/file"), ("top/file", &long), (&long, "top/other"), ("top/file", &unsplit)]
        {
            let (before, after) = (archive(old, b"7.0rc1"), archive(new, b"7.0"));
            let result = changed(&before, new, b"7.0");
            if new.len() <= 100 || split_name(new).is_some() {
                assert!(result == after, "{old} {new}");
            }
            let mut members = TarMembers::new(&result[..]);
            members.next_member().unwrap();
            assert_eq!(members.next_member().unwrap().unwrap().name, new);
            let mut content = String::new();
            members.read_to_string(&mut content).unwrap();
            assert_eq!(content, "7.0");
            assert_eq!(members.next_member().unwrap().unwrap().link, "file");
            assert!(members.next_member().unwrap().is_none());
            assert_eq!(members.finish().unwrap(), result.len() as u64);
        }
    }

    #[test]
    fn what_is_no_archive_is_an_error() {
        let whole = archive("top/file", b"x");
        assert!(TarMembers::new(&whole[..700]).next_member().unwrap().is_some());
        let mut broken = whole.clone();
        broken[3] ^= 1;
        let error = TarMembers::new(&broken[..]).next_member().unwrap_err().to_string();
        assert!(error.contains("checksum"), "{error}");
        let mut cut = TarMembers::new(&whole[..700]);
        cut.next_member().unwrap();
        assert!(cut.next_member().is_err());
    }
}
