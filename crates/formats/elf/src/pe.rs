//! Input: a random-access file. Output: `true` if it is a PE file (a Windows program or library).

use object::LittleEndian;
use object::pe::{IMAGE_DOS_SIGNATURE, IMAGE_NT_SIGNATURE, ImageDosHeader};
use positioned_io::ReadAt;

use crate::Error;
use crate::source::{Source, cast, present};

/// `true` if the file is PE: a DOS header whose `e_lfanew` leads to the PE signature.
pub fn is_pe(reader: &dyn ReadAt) -> Result<bool, Error> {
    let source = Source { reader };
    let Some(bytes) = present(source.bytes(0, size_of::<ImageDosHeader>() as u64, "DOS header"))? else {
        return Ok(false);
    };
    let header: ImageDosHeader = cast(&bytes, "DOS header")?;
    if header.e_magic.get(LittleEndian) != IMAGE_DOS_SIGNATURE {
        return Ok(false);
    }
    let signature = source.bytes(header.e_lfanew.get(LittleEndian).into(), 4, "PE signature");
    Ok(present(signature)?.is_some_and(|bytes| bytes == IMAGE_NT_SIGNATURE.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dos_header_that_leads_to_a_signature_is_pe() {
        let mut file = vec![0; 0x80];
        file[..2].copy_from_slice(b"MZ");
        file[0x3c] = 0x70;
        assert!(!is_pe(&file).unwrap());
        file[0x70..0x74].copy_from_slice(b"PE\0\0");
        assert!(is_pe(&file).unwrap());
        file.truncate(0x73);
        assert!(!is_pe(&file).unwrap());
        assert!(!is_pe(&b"MZ".to_vec()).unwrap());
    }
}
