//! Input: directories, files and links in the order of the archive. Output: a tar archive as a
//! [`Content`]: headers are in memory, file contents are read from their source, nothing is copied.
//!
//! The format is ustar; a name, link target or size that does not fit gets a pax extended header
//! (POSIX.1-2001). Owners are 0 without names, modes are 0755 and 0644, the caller chooses the
//! time.

mod members;

use std::io;

pub use members::{TarMember, TarMembers};
use rocwheel_content::{Concat, Content, Reader};

const BLOCK: usize = 512;
/// Two zero blocks end an archive.
pub(crate) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];
/// ustar's size field holds eleven octal digits.
const LARGEST_SIZE: u64 = 0o777_7777_7777;

/// The zeros between the end of a file of `size` bytes and the next block.
pub(crate) fn padding(size: u64) -> &'static [u8] {
    let used = (size % BLOCK as u64) as usize;
    if used == 0 { &[] } else { &END[..BLOCK - used] }
}

pub struct TarBuilder {
    epoch: u64,
    /// Headers and padding after the last file content.
    pending: Vec<u8>,
    parts: Vec<Box<dyn Content>>,
}

struct Entry<'a> {
    name: &'a str,
    kind: u8,
    mode: u32,
    size: u64,
    link: &'a str,
}

impl TarBuilder {
    /// An empty archive whose members all have the time stamp `epoch`, seconds since 1970.
    pub fn new(epoch: u64) -> TarBuilder {
        TarBuilder { epoch, pending: Vec::new(), parts: Vec::new() }
    }

    /// Adds a directory; `name` has no slash at its end.
    pub fn directory(&mut self, name: &str) {
        let header = self.directory_header(name);
        self.pending.extend(header);
    }

    /// Adds a file with mode 0755 if `executable`, else 0644.
    pub fn file(&mut self, name: &str, executable: bool, content: impl Content + 'static) {
        let size = content.size();
        let header = self.file_header(name, executable, size);
        self.pending.extend(header);
        self.parts.push(Box::new(std::mem::take(&mut self.pending)));
        self.parts.push(Box::new(content));
        self.pending.extend_from_slice(padding(size));
    }

    /// Adds a symbolic link with the text `target`.
    pub fn symlink(&mut self, name: &str, target: &str) {
        let header = self.symlink_header(name, target);
        self.pending.extend(header);
    }

    /// Adds a hard link to `target`, the name of an earlier member.
    pub fn hard_link(&mut self, name: &str, target: &str) {
        let header = self.hard_link_header(name, target);
        self.pending.extend(header);
    }

    /// Ends the archive and returns it as a content.
    pub fn finish(mut self) -> Tar {
        self.pending.extend_from_slice(&END);
        self.parts.push(Box::new(self.pending));
        Tar(Concat::new(self.parts))
    }

    /// The header of a directory, as [`TarBuilder::directory`] writes it.
    pub(crate) fn directory_header(&self, name: &str) -> Vec<u8> {
        self.header(&Entry { name: &format!("{name}/"), kind: b'5', mode: 0o755, size: 0, link: "" })
    }

    pub(crate) fn symlink_header(&self, name: &str, target: &str) -> Vec<u8> {
        self.header(&Entry { name, kind: b'2', mode: 0o777, size: 0, link: target })
    }

    pub(crate) fn hard_link_header(&self, name: &str, target: &str) -> Vec<u8> {
        self.header(&Entry { name, kind: b'1', mode: 0o644, size: 0, link: target })
    }

    /// The header of a regular file, preceded by a pax header if it needs one.
    pub(crate) fn file_header(&self, name: &str, executable: bool, size: u64) -> Vec<u8> {
        let mode = if executable { 0o755 } else { 0o644 };
        self.header(&Entry { name, kind: b'0', mode, size, link: "" })
    }

    fn header(&self, entry: &Entry<'_>) -> Vec<u8> {
        let mut records = String::new();
        if split_name(entry.name).is_none() {
            records.push_str(&pax_record("path", entry.name));
        }
        if entry.link.len() > 100 || !entry.link.is_ascii() {
            records.push_str(&pax_record("linkpath", entry.link));
        }
        if entry.size > LARGEST_SIZE {
            records.push_str(&pax_record("size", &entry.size.to_string()));
        }
        let mut bytes = Vec::new();
        if !records.is_empty() {
            let name = "PaxHeaders/member";
            let size = records.len() as u64;
            bytes.extend(self.ustar(&Entry { name, kind: b'x', mode: 0o644, size, link: "" }));
            bytes.extend_from_slice(records.as_bytes());
            bytes.extend_from_slice(padding(size));
        }
        bytes.extend(self.ustar(entry));
        bytes
    }

    fn ustar(&self, entry: &Entry<'_>) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        // A longer name is in the pax header, which readers prefer; here it is truncated.
        let (prefix, name) = split_name(entry.name).unwrap_or(("", entry.name));
        put(&mut block[0..100], name.as_bytes());
        octal(&mut block[100..108], u64::from(entry.mode));
        octal(&mut block[108..116], 0);
        octal(&mut block[116..124], 0);
        octal(&mut block[124..136], if entry.size > LARGEST_SIZE { 0 } else { entry.size });
        octal(&mut block[136..148], self.epoch.min(LARGEST_SIZE));
        block[156] = entry.kind;
        put(&mut block[157..257], entry.link.as_bytes());
        put(&mut block[257..265], b"ustar\x0000");
        octal(&mut block[329..337], 0);
        octal(&mut block[337..345], 0);
        put(&mut block[345..500], prefix.as_bytes());
        block[148..156].fill(b' ');
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        octal(&mut block[148..155], sum);
        block
    }
}

pub struct Tar(Concat);

impl Content for Tar {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn open(&self) -> io::Result<Reader> {
        self.0.open()
    }
}

/// Splits a name into ustar's prefix and name; `None` if it does not fit or is not ASCII.
fn split_name(name: &str) -> Option<(&str, &str)> {
    if !name.is_ascii() {
        return None;
    }
    if name.len() <= 100 {
        return Some(("", name));
    }
    name.match_indices('/')
        .map(|(at, _)| (&name[..at], &name[at + 1..]))
        .find(|(prefix, rest)| prefix.len() <= 155 && rest.len() <= 100 && !rest.is_empty())
}

/// `LENGTH KEY=VALUE
/// `. The length includes its own digits.
fn pax_record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n")
}

fn put(field: &mut [u8], value: &[u8]) {
    let length = value.len().min(field.len());
    field[..length].copy_from_slice(&value[..length]);
}

/// Writes the number in octal digits that fill the field up to a final zero byte.
fn octal(field: &mut [u8], value: u64) {
    let width = field.len() - 1;
    put(field, format!("{value:0width$o}").as_bytes());
}
