//! Input: paths of files. Output: the [`Nature`] of each, read from the first bytes and the ELF or
//! PE headers only.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;
use rayon::prelude::*;
use rocwheel_elf::{Elf, ElfKind, Imports, Pe};
use rocwheel_progress::{Failure, Reporter};

use crate::error::{elf_error, io_error};

/// ELF's `e_machine` of x86-64, the only machine whose search paths are edited (pitfalls 5).
const X86_64: u16 = 62;
/// The machine number of x86-64 in PE files.
const PE_X86_64: u16 = 0x8664;
/// Lower-case endings of programs and libraries for Windows.
const WINDOWS_ENDINGS: [&str; 3] = [".dll", ".exe", ".pyd"];

#[derive(Debug, Clone)]
pub enum Nature {
    /// A shared library for x86-64 Linux.
    Library(Arc<Elf>),
    /// A dynamically linked program for x86-64 Linux.
    Program(Arc<Elf>),
    /// A program that needs no loader: a static executable or a script.
    Standalone,
    /// A program or library for 64-bit Windows.
    Windows(Arc<WindowsFile>),
    /// Any other file, including ELF files of other machines (GPU code objects).
    Data,
}

#[derive(Debug)]
pub struct WindowsFile {
    /// Sections and kind.
    pub pe: Pe,
    pub imports: Imports,
}

impl Nature {
    /// Returns the ELF headers of a file that the dynamic loader reads.
    pub fn elf(&self) -> Option<&Elf> {
        match self {
            Nature::Library(elf) | Nature::Program(elf) => Some(elf),
            Nature::Standalone | Nature::Windows(_) | Nature::Data => None,
        }
    }

    /// Returns the SONAME of a shared library, if it has one.
    pub fn soname(&self) -> Option<&str> {
        match self {
            Nature::Library(elf) => elf.soname.as_deref(),
            _ => None,
        }
    }

    pub fn is_library(&self) -> bool {
        match self {
            Nature::Library(_) => true,
            Nature::Windows(file) => file.pe.is_library,
            _ => false,
        }
    }

    /// `true` for programs and scripts.
    pub fn runs(&self) -> bool {
        match self {
            Nature::Program(_) | Nature::Standalone => true,
            Nature::Windows(file) => !file.pe.is_library,
            Nature::Library(_) | Nature::Data => false,
        }
    }
}

/// The natures of many files, each read once.
#[derive(Debug, Default)]
pub struct Natures {
    known: HashMap<PathBuf, Nature>,
}

impl Natures {
    /// Reads the headers of every path. The flag is the executable bit, without which a script
    /// counts as data.
    pub fn read(paths: &[(PathBuf, bool)], reporter: &dyn Reporter) -> Result<Natures, Failure> {
        let known = paths
            .par_iter()
            .map(|(path, executable)| {
                reporter.check()?;
                Ok((path.clone(), nature(path, *executable)?))
            })
            .collect::<Result<_, Failure>>()?;
        Ok(Natures { known })
    }

    /// Returns the nature of a path; [`Nature::Data`] if it was not read.
    pub fn of(&self, path: &Path) -> &Nature {
        self.known.get(path).unwrap_or(&Nature::Data)
    }
}

fn nature(path: &Path, executable: bool) -> Result<Nature, Failure> {
    let file = fs::File::open(path).map_err(io_error("look into an artifact's file"))?;
    let mut magic = [0; 4];
    let read = positioned_io::ReadAt::read_at(file.file(), 0, &mut magic)
        .map_err(io_error(format!("read `{}`", path.display())))?;
    if executable && magic[..read].starts_with(b"#!") {
        return Ok(Nature::Standalone);
    }
    if magic.starts_with(b"MZ") {
        return match windows_file(file.file()) {
            Ok(found) => Ok(found.map_or(Nature::Data, |found| Nature::Windows(Arc::new(found)))),
            // Many other files begin with these letters.
            Err(_) if !is_called_program(path) => Ok(Nature::Data),
            Err(error) => Err(elf_error(path)(error)),
        };
    }
    if magic != *b"\x7fELF" {
        return Ok(Nature::Data);
    }
    let elf = Elf::read(file.file()).map_err(elf_error(path))?;
    Ok(match elf {
        Some(elf) if elf.machine == X86_64 => match elf.kind {
            ElfKind::SharedLibrary => Nature::Library(Arc::new(elf)),
            ElfKind::Executable => Nature::Program(Arc::new(elf)),
            ElfKind::StaticExecutable => Nature::Standalone,
            _ => Nature::Data,
        },
        _ => Nature::Data,
    })
}

fn is_called_program(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    WINDOWS_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Returns `None` for DOS programs, for 32-bit ones, which HIP does not support, and for those of
/// other machines.
fn windows_file(file: &dyn positioned_io::ReadAt) -> Result<Option<WindowsFile>, rocwheel_elf::Error> {
    if !rocwheel_elf::is_pe(file)? {
        return Ok(None);
    }
    let Some(pe) = Pe::read(file)?.filter(|pe| pe.machine == PE_X86_64) else { return Ok(None) };
    Ok(Some(WindowsFile { imports: pe.imports(file)?, pe }))
}
