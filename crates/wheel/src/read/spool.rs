//! Input: a large member of a wheel. Output: its bytes at random access, unpacked once however often it is opened.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{MemberContent, Wheel};
use crate::{Content, Error, Reader};
use positioned_io::ReadAt;

/// Members of up to this many bytes are kept in memory once they are unpacked.
const IN_MEMORY: u64 = 1 << 20;
/// Bytes that are copied at once.
const WINDOW: usize = 1 << 20;

/// Unpacks members into files without names.
pub struct Spool {
    scratch: PathBuf,
    /// The wheel unpacks members of medium size in memory: one at a time, or memory grows with the threads.
    turn: Arc<Mutex<()>>,
}

impl Spool {
    /// A spool in the folder `scratch`.
    pub fn new(scratch: &Path) -> Spool {
        Spool { scratch: scratch.to_owned(), turn: Arc::default() }
    }

    /// The member `name` of `wheel`. It is unpacked when it is opened for the first time, and goes with its last owner.
    pub fn member(&self, wheel: &Arc<Wheel>, name: &str) -> Result<Spooled, Error> {
        let member = MemberContent::new(wheel, name, &self.scratch)?;
        let (scratch, turn) = (self.scratch.clone(), Arc::clone(&self.turn));
        Ok(Spooled { member, scratch, turn, opened: Mutex::default() })
    }
}

/// A member of a wheel that is unpacked at most once.
pub struct Spooled {
    member: MemberContent,
    scratch: PathBuf,
    turn: Arc<Mutex<()>>,
    opened: Mutex<Option<Shared>>,
}

#[derive(Clone)]
struct Shared(Arc<dyn ReadAt + Send + Sync>);

impl ReadAt for Shared {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(position, buffer)
    }
}

impl Spooled {
    fn unpack(&self) -> io::Result<Shared> {
        let size = self.member.size();
        if size <= IN_MEMORY {
            return Ok(Shared(self.member.open()?.into()));
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = self.member.open()?;
        let mut file = tempfile::tempfile_in(&self.scratch)?;
        let mut window = vec![0; WINDOW.min(size as usize)];
        let mut position = 0;
        while position < size {
            let length = (size - position).min(WINDOW as u64) as usize;
            reader.read_exact_at(position, &mut window[..length])?;
            file.write_all(&window[..length])?;
            position += length as u64;
        }
        Ok(Shared(Arc::new(file)))
    }
}

impl Content for Spooled {
    fn size(&self) -> u64 {
        self.member.size()
    }

    fn open(&self) -> io::Result<Reader> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = match &*opened {
            Some(shared) => shared.clone(),
            None => opened.insert(self.unpack()?).clone(),
        };
        Ok(Box::new(shared))
    }

    fn origin(&self) -> Option<&Path> {
        self.member.origin()
    }
}
