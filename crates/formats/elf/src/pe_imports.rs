//! Input: a [`Pe`]. Output: the DLLs that it imports: those in the import table are loaded with it,
//! those in the table of delayed imports when one of their functions is first called.

use std::collections::BTreeSet;
use std::ops::Range;

use object::pe::{IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT, IMAGE_DIRECTORY_ENTRY_IMPORT};
use positioned_io::ReadAt;
use serde::{Deserialize, Serialize};

use crate::source::Source;
use crate::{Error, Pe};

const IMPORTS: &str = "PE import table";
const DELAYED: &str = "PE table of delayed imports";
/// Bytes of an entry, and the offset of the name's address in it.
const IMPORT: (u64, usize) = (20, 12);
const DELAYED_IMPORT: (u64, usize) = (32, 4);
/// Largest number of entries in a table; real libraries have some tens.
const MOST: u64 = 512;
/// Bytes behind the beginning of a table in which linkers put the names.
const NEAR: u64 = 1 << 20;
/// Bytes of the longest file name on Windows, with the final zero.
const LONGEST_NAME: u64 = 256;

/// Names of DLLs as written in the file and in its order, without repetitions; Windows ignores
/// upper and lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imports {
    /// DLLs without which it is not loaded.
    pub needed: Vec<String>,
    /// DLLs that are looked for when they are used.
    pub delayed: Vec<String>,
}

impl Pe {
    /// Returns the file ranges of both tables and of the names, which linkers put behind them. A
    /// caller that unpacks the file should provide these before it calls [`Pe::imports`].
    pub fn import_places(&self) -> Vec<Range<u64>> {
        let tables = [IMAGE_DIRECTORY_ENTRY_IMPORT, IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT];
        let addresses = tables.into_iter().filter_map(|table| self.directories.get(table)).map(|(address, _)| *address);
        let places = addresses.filter(|address| *address != 0).filter_map(|address| self.mapped(address));
        places.map(|place| place.start..place.end.min(place.start + NEAR)).collect()
    }

    /// Reads both tables; a file without them imports nothing.
    ///
    /// # Errors
    /// [`Error::Truncated`] and [`Error::Malformed`] for tables that are cut, lead out of the file
    /// or have no end.
    pub fn imports(&self, reader: &dyn ReadAt) -> Result<Imports, Error> {
        let source = Source { reader };
        Ok(Imports {
            needed: self.names(source, IMAGE_DIRECTORY_ENTRY_IMPORT, IMPORT, IMPORTS)?,
            delayed: self.names(source, IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT, DELAYED_IMPORT, DELAYED)?,
        })
    }

    fn names(
        &self,
        source: Source<'_>,
        directory: usize,
        (size, name_at): (u64, usize),
        what: &'static str,
    ) -> Result<Vec<String>, Error> {
        let Some((address, _)) = self.directories.get(directory).copied().filter(|(address, _)| *address != 0) else {
            return Ok(Vec::new());
        };
        let table = self.find_mapped(address, what)?;
        let (mut names, mut seen) = (Vec::new(), BTreeSet::new());
        for index in 0..MOST {
            let at = table.start + index * size;
            if at + size > table.end {
                break;
            }
            let entry = source.bytes(at, size, what)?;
            let mut word = [0; 4];
            word.copy_from_slice(&entry[name_at..name_at + 4]);
            let address = u64::from(u32::from_le_bytes(word));
            if address == 0 {
                return Ok(names);
            }
            let place = self.find_mapped(address, what)?;
            let bytes = source.bytes(place.start, (place.end - place.start).min(LONGEST_NAME), what)?;
            let Some(end) = bytes.iter().position(|&byte| byte == 0) else {
                return Err(Error::malformed(what, "a name has no end".to_owned()));
            };
            let name = String::from_utf8_lossy(&bytes[..end]).into_owned();
            if seen.insert(name.to_ascii_lowercase()) {
                names.push(name);
            }
        }
        Err(Error::malformed(what, format!("it has no end within {MOST} entries")))
    }

    fn find_mapped(&self, address: u64, what: &'static str) -> Result<Range<u64>, Error> {
        self.mapped(address).ok_or_else(|| Error::malformed(what, format!("address {address:#x} is in no section")))
    }
}
