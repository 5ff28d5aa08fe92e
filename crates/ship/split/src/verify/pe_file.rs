//! Input: a host PE file before its GPU code was removed, and after. Output: all other differences.
//!
//! The comparison covers the headers, except fields with file offsets, and all sections but that of
//! the GPU code.

use object::LittleEndian as LE;
use object::pe::{ImageDosHeader, ImageNtHeaders64, ImageSectionHeader};
use object::read::pe::ImageNtHeaders as _;
use positioned_io::ReadAt as _;
use rocwheel_content::{Content, Reader};
use rocwheel_kpack::fatbin::{FatBinary, WRAPPER_SIZE};

/// Bytes of headers that are read; linkers write fewer.
const HEADERS: u64 = 64 << 10;
/// Bytes compared at a time.
const WINDOW: u64 = 1 << 20;

struct Side {
    reader: Reader,
    sections: Vec<ImageSectionHeader>,
    /// Names and values of header fields that are not file offsets.
    headers: Vec<(&'static str, String)>,
}

impl Side {
    fn new(content: &dyn Content) -> Result<Self, String> {
        let reader = content.open().map_err(|error| error.to_string())?;
        let mut bytes = vec![0; HEADERS.min(content.size()) as usize];
        reader.read_exact_at(0, &mut bytes).map_err(|error| error.to_string())?;
        let data = bytes.as_slice();
        let dos = ImageDosHeader::parse(data).map_err(headers_error)?;
        let mut offset = dos.nt_headers_offset().into();
        let (nt, directories) = ImageNtHeaders64::parse(data, &mut offset).map_err(headers_error)?;
        let sections = nt.sections(data, offset).map_err(headers_error)?.iter().copied().collect();
        let (file, optional) = (&nt.file_header, &nt.optional_header);
        let headers = vec![
            ("its machine", format!("{:?}", file.machine.get(LE))),
            ("its characteristics", format!("{:?}", file.characteristics.get(LE))),
            ("its entry point", format!("{:#x}", optional.address_of_entry_point.get(LE))),
            ("its image base", format!("{:#x}", optional.image_base.get(LE))),
            ("its subsystem", format!("{:?}", optional.subsystem.get(LE))),
            ("its DLL characteristics", format!("{:?}", optional.dll_characteristics.get(LE))),
            // The directory with index 4 is the signature, which is only in the file.
            (
                "its data directories",
                directories
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| *index != 4)
                    .map(|(_, directory)| {
                        format!("{:#x}+{:#x} ", directory.virtual_address.get(LE), directory.size.get(LE))
                    })
                    .collect(),
            ),
        ];
        Ok(Self { reader, sections, headers })
    }

    /// Fills `buffer` with the memory of a section as the loader would, beginning at `skip` bytes.
    fn memory(&self, section: &ImageSectionHeader, skip: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        buffer.fill(0);
        let in_file = u64::from(section.size_of_raw_data.get(LE)).saturating_sub(skip).min(buffer.len() as u64);
        let offset = u64::from(section.pointer_to_raw_data.get(LE)) + skip;
        self.reader.read_exact_at(offset, &mut buffer[..in_file as usize])
    }
}

fn headers_error(error: object::Error) -> String {
    format!("its headers could not be read: {error}")
}

fn name(section: &ImageSectionHeader) -> String {
    String::from_utf8_lossy(section.raw_name()).into_owned()
}

/// Returns all differences, as sentences about the file.
pub(crate) fn compare(
    before: &dyn Content,
    before_fat: &FatBinary,
    after: &dyn Content,
) -> Result<Vec<String>, String> {
    let (before, after) = (Side::new(before)?, Side::new(after)?);
    let mut found = Vec::new();
    for ((what, was), (_, is)) in before.headers.iter().zip(&after.headers) {
        if was != is {
            found.push(format!("{what} is {is}, it was {was}"));
        }
    }
    let mut remaining: Vec<&ImageSectionHeader> = after.sections.iter().collect();
    for section in &before.sections {
        let address = section.virtual_address.get(LE);
        let Some(place) = remaining.iter().position(|other| other.virtual_address.get(LE) == address) else {
            found.push(format!("its section `{}` is gone", name(section)));
            continue;
        };
        let other = remaining.remove(place);
        if section.name != other.name || section.characteristics.get(LE) != other.characteristics.get(LE) {
            found.push(format!("its section `{}` has another name or other permissions", name(section)));
        }
        if u64::from(address) != before_fat.address
            && let Some(at) = differs(&before, section, (&after, other), before_fat)?
        {
            found.push(format!("its section `{}` differs at byte {at}", name(section)));
        }
    }
    found.extend(remaining.iter().map(|section| format!("it has a section `{}`, which it had not", name(section))));
    Ok(found)
}

/// Returns the first byte at which a section differs, except in wrappers.
fn differs(
    before: &Side,
    section: &ImageSectionHeader,
    (after, other): (&Side, &ImageSectionHeader),
    fat: &FatBinary,
) -> Result<Option<u64>, String> {
    let [was, is] = [section, other].map(|section| section.virtual_size.get(LE).max(section.size_of_raw_data.get(LE)));
    let length = u64::from(was.max(is));
    let address = u64::from(section.virtual_address.get(LE));
    let mut buffers = [Vec::new(), Vec::new()];
    let mut position = 0;
    while position < length {
        let window = (length - position).min(WINDOW) as usize;
        for buffer in &mut buffers {
            buffer.resize(window, 0);
        }
        let [was, is] = &mut buffers;
        let read = before.memory(section, position, was).and_then(|()| after.memory(other, position, is));
        read.map_err(|error| format!("the section `{}` could not be read: {error}", name(section)))?;
        for wrapper in &fat.wrappers {
            let [start, end] = [wrapper.address, wrapper.address + WRAPPER_SIZE]
                .map(|place| place.saturating_sub(address).clamp(position, position + window as u64) - position);
            for buffer in &mut buffers {
                buffer[start as usize..end as usize].fill(0);
            }
        }
        if let Some(at) = buffers[0].iter().zip(&buffers[1]).position(|(was, is)| was != is) {
            return Ok(Some(position + at as u64));
        }
        position += window as u64;
    }
    Ok(None)
}
