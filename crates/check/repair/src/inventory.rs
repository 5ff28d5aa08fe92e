//! Input: an open wheel and, for `--mode fat`, the files of a ROCm tree. Output: every file that
//! the dynamic loader may load, with its installation path and headers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use rocwheel_archive::{Listed, MemberKind};
use rocwheel_content::{Content, FileContent, Reader, Spool, Spooled};
use rocwheel_elf::{Elf, ElfKind};
use rocwheel_loader::facts::{KnownHeaders, known_headers};
use rocwheel_progress::Reporter;
use rocwheel_wheel::read::{MemberContent, Wheel};

use crate::directories::MACHINE;
use crate::exclude::Excludes;
use crate::{Error, ReadingDepth, Request, paths};

/// The installation path of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this path below site-packages.
    Site(String),
    /// At this path in the folder for programs, from which no fixed relative path leads to
    /// site-packages.
    Script(String),
    /// Elsewhere, also without a fixed relative path to site-packages.
    Elsewhere,
}

impl Place {
    /// The installation path of a member of the wheel with this `.dist-info` folder (binary
    /// distribution format, "The .data directory").
    pub(crate) fn of(member: &str, info: &str) -> Place {
        let stem = info.strip_suffix(".dist-info").unwrap_or(info);
        let data = member.strip_prefix(stem).and_then(|rest| rest.strip_prefix(".data/"));
        let Some((scheme, path)) = data.and_then(|rest| rest.split_once('/')) else {
            return Place::Site(member.to_owned());
        };
        match scheme {
            "platlib" | "purelib" => Place::Site(path.to_owned()),
            "scripts" => Place::Script(path.to_owned()),
            _ => Place::Elsewhere,
        }
    }
}

/// A binary for a supported machine.
pub(crate) struct Binary {
    /// The member of the wheel, or the one that a file of the tree will become.
    pub(crate) member: String,
    pub(crate) place: Place,
    pub(crate) elf: Elf,
    pub(crate) content: Arc<dyn Content>,
    pub(crate) origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Wheel,
    /// The ROCm tree; the path is that of the file.
    Tree(PathBuf),
}

impl Binary {
    /// Its path below site-packages; `None` if it is installed elsewhere.
    pub(crate) fn site(&self) -> Option<&str> {
        match &self.place {
            Place::Site(path) => Some(path),
            Place::Script(_) | Place::Elsewhere => None,
        }
    }

    /// The entries of the search path that the loader uses.
    pub(crate) fn entries(&self) -> Vec<&str> {
        self.elf.search_path().map_or_else(Vec::new, |path| path.split(':').filter(|entry| !entry.is_empty()).collect())
    }
}

/// Everything in a wheel that matters for a repair.
#[derive(Default)]
pub(crate) struct Inventory {
    pub(crate) binaries: Vec<Binary>,
    /// Members that are PE files: Windows' libraries and programs.
    pub(crate) windows: Vec<String>,
    /// Members that are ELF files for another machine, with their `e_machine`.
    pub(crate) foreign: Vec<(String, u16)>,
    /// Members that cannot be read and that the user excluded.
    pub(crate) left_alone: Vec<String>,
}

enum Found {
    Binary(Box<Binary>),
    Windows(String),
    Foreign(String, u16),
    LeftAlone(String),
    Nothing,
}

impl Inventory {
    /// Reads the wheel. GPU code, object files and separate debug files do not count as binaries. A
    /// file that cannot be read is an error, unless it is excluded.
    pub(crate) fn read(
        wheel: &Arc<Wheel>,
        request: &Request,
        excludes: &Excludes,
        reporter: &dyn Reporter,
    ) -> Result<Inventory, Error> {
        let (scratch, depth) = (request.scratch.as_path(), &request.depth);
        let spool = Spool::new(scratch);
        let known = match depth {
            ReadingDepth::Headers(Some(facts)) => known_headers(facts, wheel),
            ReadingDepth::Headers(None) | ReadingDepth::Whole => BTreeMap::new(),
        };
        let files: Vec<&Listed> = wheel
            .members()
            .iter()
            .filter(|listed| listed.kind == MemberKind::File && listed.size >= 64 && !is_text(&listed.name))
            .collect();
        let found: Vec<Found> = files
            .par_iter()
            .map(|listed| {
                reporter.check()?;
                match known.get(&listed.name) {
                    Some(known) => known_member(wheel, listed, known, &spool),
                    None => match member(wheel, listed, depth, &spool) {
                        Err(Error::Unreadable { file, .. }) if excludes.has_member(&file) => Ok(Found::LeftAlone(file)),
                        found => found,
                    },
                }
            })
            .collect::<Result<_, Error>>()?;
        let mut inventory = Inventory::default();
        for found in found {
            match found {
                Found::Binary(binary) => inventory.binaries.push(*binary),
                Found::Windows(member) => inventory.windows.push(member),
                Found::Foreign(member, machine) => inventory.foreign.push((member, machine)),
                Found::LeftAlone(member) => inventory.left_alone.push(member),
                Found::Nothing => {}
            }
        }
        inventory.sort();
        Ok(inventory)
    }

    /// Sorts everything by name, so that the order of the archive does not matter.
    pub(crate) fn sort(&mut self) {
        self.binaries.sort_by(|one, other| one.member.cmp(&other.member));
        self.windows.sort();
        self.foreign.sort();
        self.left_alone.sort();
    }

    /// Adds a library of the ROCm tree that will become `member`.
    pub(crate) fn add(&mut self, member: &str, path: &Path, elf: Elf) -> Result<(), Error> {
        let content = FileContent::new(path).map_err(Error::file("read", path))?;
        let binary = Binary {
            member: member.to_owned(),
            place: Place::Site(member.to_owned()),
            elf,
            content: Arc::new(content),
            origin: Origin::Tree(path.to_owned()),
        };
        self.binaries.push(binary);
        Ok(())
    }
}

/// Files whose names show that they are not programs. To read the start of thousands of sources
/// takes longer than everything else.
fn is_text(member: &str) -> bool {
    let extension = paths::name(member).rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| {
        [
            "py", "pyi", "pyc", "txt", "json", "h", "hpp", "hip", "cu", "cuh", "md", "rst", "yaml", "yml", "cmake",
            "html", "js", "css",
        ]
        .contains(&extension)
    })
}

fn known_member(wheel: &Arc<Wheel>, listed: &Listed, known: &KnownHeaders, spool: &Spool) -> Result<Found, Error> {
    Ok(match known {
        KnownHeaders::Data => Found::Nothing,
        KnownHeaders::Windows => Found::Windows(listed.name.clone()),
        KnownHeaders::Elf(elf) => {
            found(wheel, listed, (**elf).clone(), MemberContent::spooled(wheel, &listed.name, spool)?)
        }
    })
}

fn member(wheel: &Arc<Wheel>, listed: &Listed, depth: &ReadingDepth, spool: &Spool) -> Result<Found, Error> {
    let start = wheel.start(&listed.name, 4)?;
    if start.starts_with(b"MZ") {
        let reader = open(wheel, listed, depth, spool)?;
        let is_pe = rocwheel_elf::is_pe(&reader).unwrap_or(false);
        return Ok(if is_pe { Found::Windows(listed.name.clone()) } else { Found::Nothing });
    }
    if start != *b"\x7fELF" {
        return Ok(Found::Nothing);
    }
    let content = MemberContent::spooled(wheel, &listed.name, spool)?;
    let reader = open(wheel, listed, depth, spool)?;
    let elf = match Elf::read(&reader) {
        Ok(Some(elf)) => elf,
        Ok(None) => return Ok(Found::Nothing),
        Err(source) => {
            let (wheel, source) = (wheel.path().to_owned(), Box::new(source));
            return Err(Error::Unreadable { wheel, file: listed.name.clone(), source });
        }
    };
    Ok(found(wheel, listed, elf, content))
}

/// Random access to a member.
fn open(wheel: &Arc<Wheel>, listed: &Listed, depth: &ReadingDepth, spool: &Spool) -> Result<Reader, Error> {
    if let ReadingDepth::Whole = depth {
        let content = MemberContent::spooled(wheel, &listed.name, spool)?;
        return content.open().map_err(Error::file("read", wheel.path()));
    }
    let sparse = wheel.sparse(&listed.name, spool.scratch())?;
    sparse.want(&rocwheel_elf::header_places(&sparse, listed.size).unwrap_or_default());
    sparse.want(&rocwheel_elf::dynamic_places(&sparse).unwrap_or_default());
    Ok(Box::new(sparse))
}

fn found(wheel: &Wheel, listed: &Listed, elf: Elf, content: Spooled) -> Found {
    match elf.kind {
        ElfKind::Relocatable | ElfKind::DebugOnly | ElfKind::Other => Found::Nothing,
        // By its header a code object for a GPU is a shared library, but ld.so never loads it.
        _ if elf.machine == 224 => Found::Nothing,
        _ if elf.machine != MACHINE || !elf.is_64 => Found::Foreign(listed.name.clone(), elf.machine),
        ElfKind::Executable | ElfKind::StaticExecutable | ElfKind::SharedLibrary => Found::Binary(Box::new(Binary {
            member: listed.name.clone(),
            place: Place::of(&listed.name, wheel.info()),
            elf,
            content: Arc::new(content),
            origin: Origin::Wheel,
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_installed_where_the_specification_says() {
        let info = "a_b-1.0.dist-info";
        assert_eq!(Place::of("a/b.so", info), Place::Site("a/b.so".to_owned()));
        assert_eq!(Place::of("a_b-1.0.data/platlib/a/b.so", info), Place::Site("a/b.so".to_owned()));
        assert_eq!(Place::of("a_b-1.0.data/scripts/tool", info), Place::Script("tool".to_owned()));
        assert_eq!(Place::of("a_b-1.0.data/data/lib/b.so", info), Place::Elsewhere);
        assert_eq!(Place::of("a_b-2.0.data/data/lib/b.so", info), Place::Site("a_b-2.0.data/data/lib/b.so".to_owned()));
    }
}
