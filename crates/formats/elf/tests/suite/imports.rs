//! Import tables of files for Windows, including some that no linker makes.

use rocwheel_elf::{Imports, Pe};

/// Position of the only section: in the file, and relative to the image's base.
const SECTION: u32 = 0x400;
const ADDRESS: u32 = 0x1000;
const SIZE: u32 = 0x10000;

/// Creates a library with these bytes as its section, whose import table is at its beginning.
fn library(content: &[u8]) -> Vec<u8> {
    let mut file = vec![0; SECTION as usize];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"MZ");
    put(0x3c, &0x40u32.to_le_bytes());
    put(0x40, b"PE\0\0");
    put(0x44, &0x8664u16.to_le_bytes());
    put(0x46, &1u16.to_le_bytes());
    put(0x54, &240u16.to_le_bytes());
    put(0x56, &0x2022u16.to_le_bytes());
    let optional = 0x58;
    put(optional, &0x20bu16.to_le_bytes());
    put(optional + 32, &0x1000u32.to_le_bytes());
    put(optional + 36, &0x200u32.to_le_bytes());
    put(optional + 108, &16u32.to_le_bytes());
    put(optional + 112 + 8, &ADDRESS.to_le_bytes());
    let section = optional + 240;
    put(section, b".rdata\0\0");
    for (at, value) in [(8, SIZE), (12, ADDRESS), (16, SIZE), (20, SECTION)] {
        put(section + at, &value.to_le_bytes());
    }
    file.extend_from_slice(content);
    file.resize((SECTION + SIZE) as usize, b'x');
    file
}

/// Creates an entry of the table; `name` is the distance of the name from the beginning of the
/// section.
fn entry(name: u32) -> Vec<u8> {
    let mut entry = vec![0; 20];
    entry[12..16].copy_from_slice(&(ADDRESS + name).to_le_bytes());
    entry
}

fn imports(content: &[u8]) -> Result<Imports, String> {
    let file = library(content);
    let pe = Pe::read(&&file[..]).unwrap().unwrap();
    pe.imports(&&file[..]).map_err(|error| error.to_string())
}

#[test]
fn a_name_counts_once_whatever_its_letters() {
    let names = b"A.dll\0b.dll\0a.DLL\0";
    let table: Vec<u8> = [100, 106, 112, 100].into_iter().flat_map(entry).collect();
    let content = [&table[..], &[0; 20], names].concat();
    assert_eq!(imports(&content).unwrap().needed, ["A.dll", "b.dll"]);
}

#[test]
fn tables_without_end_are_refused() {
    let name = 20 * 513;
    let table =
        |entries: usize| [entry(name).repeat(entries), vec![0; 20 * (513 - entries)], b"a.dll\0".to_vec()].concat();
    assert_eq!(imports(&table(511)).unwrap().needed, ["a.dll"]);
    let error = imports(&table(513)).unwrap_err();
    assert!(error.contains("PE import table") && error.contains("no end within 512 entries"), "{error}");
}

#[test]
fn names_without_end_are_refused() {
    let error = imports(&[&entry(40)[..], &[0; 20], &[b'a'; 300]].concat()).unwrap_err();
    assert!(error.contains("a name has no end"), "{error}");
    let mut longest = vec![b'a'; 255];
    longest.push(0);
    assert_eq!(imports(&[&entry(40)[..], &[0; 20], &longest].concat()).unwrap().needed[0].len(), 255);
}
