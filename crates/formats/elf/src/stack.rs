//! Input: the program headers of a library and its code. Output: `true` if it requests an
//! executable stack, and `true` if it has code that needs one.
//!
//! The flag of `PT_GNU_STACK` is the linker's sum over all object files. One file of assembler
//! without a `.note.GNU-stack` section sets it for a whole library that never runs anything on a
//! stack. The only code that does is what compilers make for nested functions whose address is
//! taken (GCC: C, Ada, Fortran; LLVM: Fortran): a trampoline, a few instructions that are written
//! to the stack when the function runs. On x86-64 it ends in `49 ff e3`, a jump through r11 in a
//! form that no compiler emits as an instruction (that would be `41 ff e3`). So it is found in the
//! code that stores it: GCC stores it as one constant of four bytes at every level of optimisation,
//! LLVM as one of two bytes and one of one byte.

use memchr::memmem;
use object::elf;
use positioned_io::ReadAt;

use crate::image::Image;
use crate::source::Source;
use crate::{Elf, ElfKind, Error, PatchBuilder};

/// Bytes in a window, in which code is read.
const WINDOW: u64 = 1 << 20;
/// Bytes that two windows share: more than the longest instruction.
const OVERLAP: u64 = 16;
/// The bytes of the jump that both compilers store.
const JUMP: [u8; 2] = [0x49, 0xff];
/// The last byte of the jump in GCC's constant.
const THROUGH_R11: u8 = 0xe3;
/// Largest distance in bytes between the start of an instruction that stores two bytes and its
/// constant: prefixes, opcode, operand and offset.
const STORE: usize = 10;

impl Elf {
    /// `true` if the loader makes the stack executable for this file: by the flag, or because the
    /// file has no PT_GNU_STACK (x86-64). glibc before 2.41 makes the stack executable; newer
    /// versions refuse to load such a library at run time.
    pub fn wants_executable_stack(&self) -> bool {
        let mut stacks = self.segments.iter().filter(|segment| segment.kind == elf::PT_GNU_STACK.0);
        stacks.next().is_none_or(|stack| is_executable(stack.flags))
    }

    /// `true` if the file is a library with the flag and without code that needs it, so that
    /// [`crate::StackFlag::Clear`] clears the flag.
    ///
    /// # Errors
    /// As for [`Elf::runs_code_on_stack`].
    pub fn has_needless_stack_flag(&self, reader: &dyn ReadAt) -> Result<bool, Error> {
        let is_flagged =
            self.segments.iter().any(|segment| segment.kind == elf::PT_GNU_STACK.0 && is_executable(segment.flags));
        Ok(is_flagged && self.kind == ElfKind::SharedLibrary && !self.runs_code_on_stack(reader)?)
    }

    /// `true` if the file has code that puts code on the stack. All executable segments are read.
    ///
    /// # Errors
    /// [`Error::Read`] and [`Error::Truncated`].
    pub fn runs_code_on_stack(&self, reader: &dyn ReadAt) -> Result<bool, Error> {
        let source = Source { reader };
        let code =
            self.segments.iter().filter(|segment| segment.kind == elf::PT_LOAD.0 && is_executable(segment.flags));
        for segment in code {
            let mut start = segment.offset;
            while start < segment.file_end() {
                let length = WINDOW.min(segment.file_end() - start);
                if makes_trampoline(&source.bytes(start, length, "code")?) {
                    return Ok(true);
                }
                start += if length == WINDOW { WINDOW - OVERLAP } else { length };
            }
        }
        Ok(false)
    }
}

fn is_executable(flags: u32) -> bool {
    flags & elf::PF_X.0 != 0
}

fn makes_trampoline(code: &[u8]) -> bool {
    memmem::find_iter(code, &JUMP).any(|at| {
        let before = &code[at.saturating_sub(STORE)..at];
        let stores_two_bytes = before.windows(2).any(|pair| pair == [0x66, 0xc7])
            || before.windows(3).any(|three| three == [0x66, 0x41, 0xc7]);
        code.get(at + 2) == Some(&THROUGH_R11) || stores_two_bytes
    })
}

/// Clears the flag in a file whose headers are `image`. `None` if no header has it.
pub(crate) fn clear(image: &Image, size: u64) -> Option<PatchBuilder> {
    const HEADER: u64 = size_of::<elf::ProgramHeader64<object::LittleEndian>>() as u64;
    const FLAGS: u64 = std::mem::offset_of!(elf::ProgramHeader64<object::LittleEndian>, p_flags) as u64;
    let index = image
        .segments
        .iter()
        .position(|segment| segment.kind == elf::PT_GNU_STACK.0 && is_executable(segment.flags))?;
    let mut builder = PatchBuilder::new(size);
    let flags = image.segments[index].flags & !elf::PF_X.0;
    builder.bytes(image.program_header_offset + index as u64 * HEADER + FLAGS, &flags.to_le_bytes());
    Some(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trampolines_are_found_as_compilers_store_them() {
        let gcc: [&[u8]; 2] = [b"\xc7\x40\x14\x49\xff\xe3\x90", b"\xc7\x44\x24\x18\x49\xff\xe3\x90"];
        let llvm: [&[u8]; 2] = [b"\xc6\x44\x24\x16\xe3\x66\xc7\x44\x24\x14\x49\xff", b"\x66\x41\xc7\x40\x14\x49\xff"];
        for code in gcc.into_iter().chain(llvm) {
            assert!(makes_trampoline(code), "{code:x?}");
        }
        // These are inc %r8, a jump through r11, a store of another constant, and nothing.
        let others: [&[u8]; 4] = [b"\x49\xff\xc0\xc3", b"\x41\xff\xe3", b"\x66\xc7\x00\x49\xbb", b""];
        for code in others {
            assert!(!makes_trampoline(code), "{code:x?}");
        }
    }
}
