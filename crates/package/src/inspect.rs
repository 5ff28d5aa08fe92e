//! What kind of thing each file is: paths in, [`Nature`] out, read from the first bytes and the ELF
//! headers only.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;
use rayon::prelude::*;
use rocwheel_elf::{Elf, Imports, Kind, Pe};
use rocwheel_report::Reporter;

use crate::Error;

/// ELF machine number of x86-64, the only one whose search paths are edited (pitfalls 5).
const X86_64: u16 = 62;
/// The same in PE files.
const PE_X86_64: u16 = 0x8664;
/// What programs and libraries for Windows are called.
const WINDOWS_ENDINGS: [&str; 3] = [".dll", ".exe", ".pyd"];

/// How packaging treats a file.
#[derive(Debug, Clone)]
pub enum Nature {
    /// A shared library.
    Library(Arc<Elf>),
    /// A dynamically linked program.
    Program(Arc<Elf>),
    /// A program that needs no loader: a static executable or a script.
    Standalone,
    /// A program or library for 64-bit Windows.
    Windows(Arc<WindowsFile>),
    /// Anything else, ELF files of other machines (GPU code objects) among them.
    Data,
}

/// What the headers of a PE file say.
#[derive(Debug)]
pub struct WindowsFile {
    /// Sections and kind.
    pub pe: Pe,
    /// The DLLs that it asks for.
    pub imports: Imports,
}

impl Nature {
    /// The headers of what the dynamic loader reads.
    pub fn elf(&self) -> Option<&Elf> {
        match self {
            Nature::Library(elf) | Nature::Program(elf) => Some(elf),
            Nature::Standalone | Nature::Windows(_) | Nature::Data => None,
        }
    }

    /// The SONAME when the file is a shared library that has one.
    pub fn soname(&self) -> Option<&str> {
        match self {
            Nature::Library(elf) => elf.soname.as_deref(),
            _ => None,
        }
    }

    /// True for what a loader of either system takes as a library.
    pub fn is_library(&self) -> bool {
        match self {
            Nature::Library(_) => true,
            Nature::Windows(file) => file.pe.is_library,
            _ => false,
        }
    }

    /// True for what can be started.
    pub fn runs(&self) -> bool {
        match self {
            Nature::Program(_) | Nature::Standalone => true,
            Nature::Windows(file) => !file.pe.is_library,
            Nature::Library(_) | Nature::Data => false,
        }
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
                reporter.check()?;
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
    if magic.starts_with(b"MZ") {
        return match windows_file(file.file()) {
            Ok(found) => Ok(found.map_or(Nature::Data, |found| Nature::Windows(Arc::new(found)))),
            // Many a file begins with these letters.
            Err(_) if !is_called_program(path) => Ok(Nature::Data),
            Err(source) => Err(Error::Elf { path: path.to_owned(), source }),
        };
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

fn is_called_program(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    WINDOWS_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// `None` for programs of DOS, for those of 32 bits, which HIP does not exist for, and for those of
/// other machines.
fn windows_file(file: &dyn positioned_io::ReadAt) -> Result<Option<WindowsFile>, rocwheel_elf::Error> {
    if !rocwheel_elf::is_pe(file)? {
        return Ok(None);
    }
    let Some(pe) = Pe::read(file)?.filter(|pe| pe.machine == PE_X86_64) else { return Ok(None) };
    Ok(Some(WindowsFile { imports: pe.imports(file)?, pe }))
}
