//! Input: a large member of a wheel. Output: its bytes at random access, unpacked once however
//! often it is opened.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use positioned_io::ReadAt;

use super::{Listed, MemberContent, Wheel};
use crate::Error;
use rocwheel_content::{Content, Reader};

/// Members of up to this many bytes are kept in memory once they are unpacked.
const IN_MEMORY: u64 = 1 << 20;
/// Bytes of members that threads unpack in memory at the same time. A larger one is unpacked alone.
const AT_ONCE: u64 = 96 << 20;

/// Unpacks members into files without names.
pub struct Spool {
    scratch: PathBuf,
    budget: Arc<Budget>,
}

impl Spool {
    /// A spool in the folder `scratch`.
    pub fn new(scratch: &Path) -> Spool {
        Spool { scratch: scratch.to_owned(), budget: Arc::default() }
    }

    /// The member `name` of `wheel`. It is unpacked when it is opened for the first time, and goes
    /// with its last owner.
    pub fn member(&self, wheel: &Arc<Wheel>, name: &str) -> Result<Spooled, Error> {
        let member = MemberContent::new(wheel, name, &self.scratch)?;
        let form = wheel.member(name).map_or(Form::File, Form::of);
        let (scratch, budget) = (self.scratch.clone(), Arc::clone(&self.budget));
        Ok(Spooled { member, form, scratch, budget, opened: Mutex::default() })
    }
}

/// What the wheel's own reader has of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A part of the wheel, or a file with all bytes.
    File,
    /// So few bytes that they may stay in memory.
    Small,
    /// All bytes in memory, for which there is no room for long; `packed` beside them while it
    /// unpacks.
    Held { packed: u64 },
}

impl Form {
    fn of(listed: &Listed) -> Form {
        match listed.is_held() {
            false => Form::File,
            true if listed.size <= IN_MEMORY => Form::Small,
            true => Form::Held { packed: listed.compressed },
        }
    }
}

/// Memory that threads share.
#[derive(Default)]
struct Budget {
    taken: Mutex<u64>,
    returned: Condvar,
}

impl Budget {
    /// Waits until `bytes` are there to be taken. Who has taken some never waits for more.
    fn take(&self, bytes: u64) -> Taken<'_> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken > 0 && *taken + bytes > AT_ONCE {
            taken = self.returned.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken += bytes;
        Taken { budget: self, bytes }
    }
}

/// Goes back with the guard.
struct Taken<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.budget.taken.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        self.budget.returned.notify_all();
    }
}

/// A member of a wheel that is unpacked at most once.
pub struct Spooled {
    member: MemberContent,
    form: Form,
    scratch: PathBuf,
    budget: Arc<Budget>,
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
    /// Shows the bytes to `look`, whose answer is whether they will be asked for again: only then
    /// they are kept.
    pub fn look<T>(&self, look: impl FnOnce(&Reader) -> Option<T>) -> io::Result<Option<T>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let _taken = self.take();
        let reader = self.member.open()?;
        let found = look(&reader);
        if found.is_some() {
            *opened = Some(self.keep(reader)?);
        }
        Ok(found)
    }

    fn take(&self) -> Option<Taken<'_>> {
        match self.form {
            Form::Held { packed } => Some(self.budget.take(self.member.size() + packed)),
            Form::File | Form::Small => None,
        }
    }

    /// What reads the bytes from now on: what is in memory goes to a file.
    fn keep(&self, reader: Reader) -> io::Result<Shared> {
        const WINDOW: usize = 1 << 18;
        let Form::Held { .. } = self.form else { return Ok(Shared(reader.into())) };
        let size = self.member.size();
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
        let shared = if let Some(shared) = &*opened {
            shared.clone()
        } else {
            let _taken = self.take();
            let kept = self.keep(self.member.open()?)?;
            opened.insert(kept).clone()
        };
        Ok(Box::new(shared))
    }

    fn origin(&self) -> Option<&Path> {
        self.member.origin()
    }
}
