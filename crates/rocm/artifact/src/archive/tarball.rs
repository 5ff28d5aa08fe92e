//! Input: members in order. Output: a GNU tar archive whose bytes depend on nothing else: owner and
//! group are 0 without names, every time is the same, the header of a long name has fixed fields.

use std::io::{self, Write};

use tar::{EntryType, Header};

const BLOCK: usize = 512;
const LONGEST_PLAIN_NAME: usize = 100;

pub(super) struct Tarball<W: Write> {
    output: W,
    epoch: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) kind: EntryType,
    pub(super) mode: u32,
    /// Bytes of content that follow; 0 for everything but regular files.
    pub(super) size: u64,
    /// The target of a link; empty for everything else.
    pub(super) link: &'a str,
}

impl<W: Write> Tarball<W> {
    pub(super) fn new(output: W, epoch: u64) -> Self {
        Self { output, epoch }
    }

    /// Writes the header of a member. The caller then writes `head.size` bytes and calls
    /// [`Tarball::pad`].
    pub(super) fn head(&mut self, name: &str, head: Head) -> io::Result<()> {
        if head.link.len() > LONGEST_PLAIN_NAME {
            self.long(EntryType::GNULongLink, head.link)?;
        }
        if name.len() > LONGEST_PLAIN_NAME {
            self.long(EntryType::GNULongName, name)?;
        }
        self.block(name, head, self.epoch)
    }

    /// Fills the last block after a content of `size` bytes with zeros.
    pub(super) fn pad(&mut self, size: u64) -> io::Result<()> {
        let used = (size % BLOCK as u64) as usize;
        if used == 0 { Ok(()) } else { self.output.write_all(&[0; BLOCK][used..]) }
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.output.write_all(&[0; 2 * BLOCK])?;
        Ok(self.output)
    }

    fn long(&mut self, kind: EntryType, text: &str) -> io::Result<()> {
        let size = text.len() as u64 + 1;
        self.block("././@LongLink", Head { kind, mode: 0o644, size, link: "" }, 0)?;
        self.output.write_all(text.as_bytes())?;
        self.output.write_all(&[0])?;
        self.pad(size)
    }

    fn block(&mut self, name: &str, head: Head, time: u64) -> io::Result<()> {
        let mut header = Header::new_gnu();
        let fields = header.as_old_mut();
        copy(&mut fields.name, name);
        copy(&mut fields.linkname, head.link);
        header.set_entry_type(head.kind);
        header.set_mode(head.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(head.size);
        header.set_mtime(time);
        header.set_cksum();
        self.output.write_all(header.as_bytes())
    }
}

impl<W: Write> Write for Tarball<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Copies the text into a field of a header. Of a longer text only the beginning fits; readers use
/// the GNU long-name member before it.
fn copy(field: &mut [u8; LONGEST_PLAIN_NAME], text: &str) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
}
