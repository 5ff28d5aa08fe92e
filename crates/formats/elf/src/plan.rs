//! Input: an [`Edit`] and a random-access file. Output: a [`Patch`].
//!
//! The edit is first applied to names ([`Wanted`]: the desired dynamic section); `rewrite` decides
//! where the bytes go. At the end the patched file is read back, and a difference is an error.

use object::elf;
use positioned_io::ReadAt;

use crate::edit::{Edit, NeededEdit, SearchPath, StackFlag};
use crate::image::Image;
use crate::named_entries::{Current, Wanted};
use crate::read::{ElfKind, kind};
use crate::source::Source;
use crate::{EditOutcome, Elf, Error, Patch, Patched, rewrite, stack};

impl Edit {
    /// Computes which bytes of the file change. The file is neither loaded nor written.
    ///
    /// Static programs and edits that change nothing give an empty patch; [`Patch::outcome`]
    /// distinguishes the two.
    ///
    /// # Errors
    /// [`Error::NotElf`], [`Error::Machine`], [`Error::NotLinked`] for files that cannot be edited,
    /// [`Error::Text`] for names that cannot be stored, and those of [`Elf::read`].
    pub fn plan(&self, reader: &dyn ReadAt) -> Result<Patch, Error> {
        self.check()?;
        let source = Source { reader };
        let image = Image::read(source)?.ok_or(Error::NotElf)?;
        let before = Elf::from_image(&image, source)?;
        let size = source.size()?;
        match kind(&image, before.interpreter.is_some(), before.soname.is_some()) {
            ElfKind::Executable | ElfKind::SharedLibrary => {}
            ElfKind::StaticExecutable => return Ok(Patch::empty(size, EditOutcome::NotDynamic)),
            ElfKind::DebugOnly => return Err(Error::NotLinked { kind: "a separate debug file" }),
            ElfKind::Relocatable => return Err(Error::NotLinked { kind: "an object file" }),
            ElfKind::Other => return Err(Error::NotLinked { kind: "a core dump or an unknown kind of ELF file" }),
        }
        check_machine(&image)?;
        if image.dynamic.is_none() {
            return Err(Error::malformed("program header table", "a dynamic executable or library without PT_DYNAMIC"));
        }
        let current = Current::read(&image, source)?;
        let wanted = Wanted::new(self, &current);
        let patch = if wanted.changes_nothing(&current) {
            Patch::empty(size, EditOutcome::Unchanged)
        } else {
            let patch = rewrite::rewrite(image, source, size, &current, &wanted)?;
            let after = Elf::read(&Patched::new(reader, patch.clone()))?.ok_or(Error::NotElf)?;
            wanted.check(&before, &after)?;
            patch
        };
        self.without_stack_flag(&before, reader, patch)
    }

    /// Adds to `patch` that the stack flag is cleared, if that is wanted and no code needs it.
    fn without_stack_flag(&self, before: &Elf, reader: &dyn ReadAt, patch: Patch) -> Result<Patch, Error> {
        if self.stack == StackFlag::Keep || !before.has_needless_stack_flag(reader)? {
            return Ok(patch);
        }
        let patched = Patched::new(reader, patch.clone());
        let image = Image::read(Source { reader: &patched })?.ok_or(Error::NotElf)?;
        let Some(builder) = stack::clear(&image, patch.size) else { return Ok(patch) };
        let both = patch.then(&builder.finish());
        // Neither of the two moves bytes that the other one keeps.
        Ok(if patch.is_in_place() { both.in_place() } else { both })
    }

    fn check(&self) -> Result<(), Error> {
        let paths = self.search_path.iter().flat_map(|path| match path {
            SearchPath::Set(entries) | SearchPath::Add(entries) => entries,
        });
        let needed = self.needed.iter().flat_map(|edit| match edit {
            NeededEdit::Add(name) | NeededEdit::Remove(name) => vec![name],
            NeededEdit::Replace { from, to } => vec![from, to],
        });
        let names: Vec<&String> = needed.chain(&self.soname).collect();
        if let Some(text) = paths.chain(names.iter().copied()).find(|text| text.contains('\0')) {
            return Err(Error::Text { text: text.clone(), why: "it holds a zero byte, which ends names there" });
        }
        if names.iter().any(|name| name.is_empty()) {
            return Err(Error::Text { text: String::new(), why: "a library's name cannot be empty" });
        }
        Ok(())
    }
}

pub(crate) fn check_machine(image: &Image) -> Result<(), Error> {
    let machine = elf::Machine(image.machine);
    let is_little = matches!(image.endian, object::Endianness::Little);
    if machine == elf::EM_X86_64 && image.is_64 && is_little {
        return Ok(());
    }
    let name = match machine {
        elf::EM_X86_64 => "x86-64 in 32-bit or big-endian form",
        elf::EM_AMDGPU => "AMD GPU code",
        elf::EM_AARCH64 => "AArch64",
        elf::EM_386 => "32-bit x86",
        elf::EM_RISCV => "RISC-V",
        elf::EM_PPC64 => "PowerPC 64",
        elf::EM_S390 => "S/390",
        elf::EM_ARM => "32-bit ARM",
        _ => "not one of the common ones",
    };
    Err(Error::Machine { machine: machine.0, name })
}
