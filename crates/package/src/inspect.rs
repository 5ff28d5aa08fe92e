//! What kind of thing each file is: paths in, [`Nature`] out, read from the first bytes and the ELF headers only.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use elf::{Elf, Kind};
use fs_err as fs;
use rayon::prelude::*;
use report::Reporter;

use crate::Error;

/// ELF machine number of x86-64, the only one whose search paths are edited (pitfalls 5).
const X86_64: u16 = 62;

/// How packaging treats a file.
#[derive(Debug, Clone)]
pub enum Nature {
    /// A shared library.
    Library(Arc<Elf>),
    /// A dynamically linked program.
    Program(Arc<Elf>),
    /// A program that needs no loader: a static executable or a script.
    Standalone,
    /// Anything else, ELF files of other machines (GPU code objects) among them.
    Data,
}

impl Nature {
    /// The headers of what the dynamic loader reads.
    pub fn elf(&self) -> Option<&Elf> {
        match self {
            Nature::Library(elf) | Nature::Program(elf) => Some(elf),
            Nature::Standalone | Nature::Data => None,
        }
    }

    /// The SONAME when the file is a shared library that has one.
    pub fn soname(&self) -> Option<&str> {
        match self {
            Nature::Library(elf) => elf.soname.as_deref(),
            _ => None,
        }
    }

    /// True for what can be started.
    pub fn runs(&self) -> bool {
        matches!(self, Nature::Program(_) | Nature::Standalone)
    }
}

/// The natures of many files, read once.
#[derive(Debug, Default)]
pub struct Natures {
    known: HashMap<PathBuf, Nature>,
}

impl Natures {
    /// Looks into every path; `executable` is the mode bit, without which a script is data.
    pub fn read(paths: &[(PathBuf, bool)], reporter: &dyn Reporter) -> Result<Natures, Error> {
        let known = paths
            .par_iter()
            .map(|(path, executable)| {
                if reporter.interrupted() {
                    return Err(Error::Interrupted);
                }
                Ok((path.clone(), nature(path, *executable)?))
            })
            .collect::<Result<_, Error>>()?;
        Ok(Natures { known })
    }

    /// The nature of a path that was read.
    pub fn of(&self, path: &Path) -> &Nature {
        self.known.get(path).unwrap_or(&Nature::Data)
    }
}

fn nature(path: &Path, executable: bool) -> Result<Nature, Error> {
    let file = fs::File::open(path).map_err(Error::io("look into an artifact's file"))?;
    let mut magic = [0; 4];
    let read = positioned_io::ReadAt::read_at(file.file(), 0, &mut magic)
        .map_err(Error::io(format!("read `{}`", path.display())))?;
    if executable && magic[..read].starts_with(b"#!") {
        return Ok(Nature::Standalone);
    }
    if magic != *b"\x7fELF" {
        return Ok(Nature::Data);
    }
    let elf = Elf::read(file.file()).map_err(|source| Error::Elf { path: path.to_owned(), source })?;
    Ok(match elf {
        Some(elf) if elf.machine == X86_64 => match elf.kind {
            Kind::SharedLibrary => Nature::Library(Arc::new(elf)),
            Kind::Executable => Nature::Program(Arc::new(elf)),
            Kind::StaticExecutable => Nature::Standalone,
            _ => Nature::Data,
        },
        _ => Nature::Data,
    })
}
