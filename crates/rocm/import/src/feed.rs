//! Input: the members of an archive. Output: their files in the staging tree.

use std::io::Read;

use rocwheel_progress::Failure;

use crate::members::Visitor;
use crate::unpack::{Belongs, Incoming, Unpacker};

/// Passes the members of an archive to the unpacker.
pub(crate) struct Feed<'a> {
    pub(crate) unpacker: &'a Unpacker<'a>,
    pub(crate) source: usize,
    pub(crate) belongs: Belongs,
}

impl Visitor for Feed<'_> {
    fn takes(&self, path: &str) -> bool {
        self.unpacker.takes(self.belongs, path)
    }

    fn file(&mut self, path: &str, size: u64, executable: bool, content: &mut dyn Read) -> Result<(), Failure> {
        let incoming = Incoming { source: self.source, belongs: self.belongs, path, size, executable };
        self.unpacker.file(&incoming, content)
    }

    fn symlink(&mut self, path: &str, target: &str) -> Result<(), Failure> {
        self.unpacker.symlink(self.source, self.belongs, path, target);
        Ok(())
    }

    fn hard_link(&mut self, path: &str, target: &str) -> Result<(), Failure> {
        let incoming = Incoming { source: self.source, belongs: self.belongs, path, size: 0, executable: false };
        self.unpacker.hard_link(&incoming, target)
    }
}
