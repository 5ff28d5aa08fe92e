//! Archives that are written and read back, written by other tools, damaged, and read by the tools
//! of MessagePack and zstd.

#![allow(clippy::unwrap_used, reason = "a test file")]

use std::io::Cursor;

use proptest::prelude::*;
use rocwheel_kpack::{ArchiveWriter, Blob, Error, KpackArchive, Located, Scheme};

const TARGETS: [&str; 2] = ["gfx90a:xnack+", "gfx90a:xnack-"];

fn targets() -> Vec<String> {
    TARGETS.map(str::to_owned).to_vec()
}

/// Returns a substitute for a code object: bytes that compress, and are different for each kernel.
fn code(number: u8, size: usize) -> Vec<u8> {
    (0..size).map(|at| (at / 7) as u8 ^ number).collect()
}

/// Creates an archive of two binaries, the second with two bundles.
fn example(scheme: Scheme) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()), "blas_lib", "gfx90a", &targets(), scheme).unwrap();
    let mut number = 0;
    for (name, index) in [("lib/librocsolver.so.0", 0), ("lib/librocblas.so.4", 1), ("lib/librocblas.so.4", 0)] {
        for target in TARGETS {
            let blob = Blob::pack(&code(number, 1000 + usize::from(number)), scheme, 3).unwrap();
            writer.add(name, index, target, &blob).unwrap();
            number += 1;
        }
    }
    writer.finish().unwrap().into_inner()
}

fn open(bytes: &[u8]) -> Result<KpackArchive, Error> {
    KpackArchive::open(&bytes, bytes.len() as u64)
}

#[test]
fn what_was_written_is_read() {
    for scheme in [Scheme::None, Scheme::ZstdPerKernel] {
        let bytes = example(scheme);
        assert_eq!(bytes, example(scheme));
        let archive = open(&bytes).unwrap();
        assert_eq!((archive.group.as_str(), archive.family.as_str()), ("blas_lib", "gfx90a"));
        assert_eq!((&archive.targets, archive.scheme), (&targets(), scheme));
        let found: Vec<_> = archive.entries().map(|entry| (entry.name, entry.index, entry.target)).collect();
        assert_eq!(found.len(), 6);
        assert_eq!(found[0], ("lib/librocblas.so.4", Some(0), "gfx90a:xnack+"));
        assert_eq!(found[3], ("lib/librocblas.so.4", Some(1), "gfx90a:xnack-"));
        assert_eq!(found[5], ("lib/librocsolver.so.0", Some(0), "gfx90a:xnack-"));
        let located = archive.find("lib/librocblas.so.4", 1, "gfx90a:xnack-").unwrap();
        assert_eq!(archive.read(&bytes.as_slice(), &located).unwrap(), code(3, 1003));
        assert_eq!(located.original_size, 1003);
        let blob = archive.blob(&bytes.as_slice(), &located).unwrap();
        assert_eq!(blob, Blob::pack(&code(3, 1003), scheme, 3).unwrap());
        assert_eq!(archive.find("lib/librocblas.so.4", 2, "gfx90a:xnack-"), None);
        assert_eq!(archive.find("lib/librocblas.so.4", 1, "gfx90a"), None);
    }
}

#[test]
fn an_archive_that_the_loader_would_refuse_is_not_written() {
    let new = |targets: &[&str]| {
        let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
        ArchiveWriter::new(Cursor::new(Vec::new()), "g", "f", &targets, Scheme::None)
    };
    let text = |result: Result<(), Error>| result.unwrap_err().to_string();
    for targets in [&[][..], &["gfx90a", "gfx90a"], &[""]] {
        assert!(matches!(new(targets), Err(Error::NoArchive { .. })), "{targets:?}");
    }
    let blob = Blob::pack(b"code", Scheme::None, 3).unwrap();
    let mut writer = new(&["gfx90a", "gfx942"]).unwrap();
    writer.add("a", 0, "gfx90a", &blob).unwrap();
    assert!(text(writer.add("a", 0, "gfx90a", &blob)).contains("`a#0` for `gfx90a` twice"));
    assert!(text(writer.add("a", 0, "gfx908", &blob)).contains("none of its targets"));
    assert!(text(writer.add("", 0, "gfx90a", &blob)).contains("`` cannot be a name"));
    assert!(text(writer.add(r"lib\a", 0, "gfx90a", &blob)).contains("cannot be a name"));
    let packed = Blob::pack(b"code", Scheme::ZstdPerKernel, 3).unwrap();
    assert!(text(writer.add("b", 0, "gfx90a", &packed)).contains("is compressed"));
    assert!(writer.finish().unwrap_err().to_string().contains("no code object for its target `gfx942`"));
}

/// Creates an archive like the existing Python tools, by hand from the description of the format.
fn foreign(table: &[u8], blobs: &[u8]) -> Vec<u8> {
    let mut bytes = b"KPAK".to_vec();
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend((64 + blobs.len() as u64).to_le_bytes());
    bytes.resize(64, 0);
    bytes.extend(blobs);
    bytes.extend(table);
    bytes
}

fn text(value: &str) -> Vec<u8> {
    assert!(value.len() < 32);
    [vec![0xa0 | value.len() as u8], value.as_bytes().to_vec()].concat()
}

/// Creates the table of two kernels in frames, with a metadata map, 64-bit numbers, a signed
/// number, and a name from Windows.
fn foreign_table(size: u64) -> Vec<u8> {
    let entry = |ordinal: &[u8]| {
        let metadata = [text("metadata"), vec![0x81], text("target"), text("hip-amdgcn-amd-amdhsa--gfx906")].concat();
        let size = [text("original_size"), vec![0xcf], 5_u64.to_be_bytes().to_vec()].concat();
        [vec![0x84], text("type"), text("hsaco"), text("ordinal"), ordinal.to_vec(), size, metadata].concat()
    };
    let table = [
        [vec![0x88], text("format_version"), vec![1], text("group_name"), text("test")].concat(),
        [text("gfx_arch_family"), text("gfx900"), text("gfx_arches"), vec![0x92], text("gfx900"), text("gfx906")]
            .concat(),
        [text("toc"), vec![0x82], text(r"lib\libtest.so#0"), vec![0x81], text("gfx900"), entry(&[0xd0, 1])].concat(),
        [text("bin/testapp#0"), vec![0x81], text("gfx906"), entry(&[0])].concat(),
        [text("compression_scheme"), text("zstd-per-kernel"), text("zstd_offset"), vec![64]].concat(),
        [text("zstd_size"), vec![0xce], (size as u32).to_be_bytes().to_vec()].concat(),
    ];
    table.concat()
}

fn frames() -> Vec<u8> {
    let mut blobs = 2_u32.to_le_bytes().to_vec();
    for code in [b"first", b"other"] {
        let frame = zstd::bulk::compress(code, 19).unwrap();
        blobs.extend((frame.len() as u32).to_le_bytes());
        blobs.extend(frame);
    }
    blobs
}

#[test]
fn a_flipped_bit_of_a_frame_is_noticed() {
    let bytes = example(Scheme::ZstdPerKernel);
    let archive = open(&bytes).unwrap();
    for located in archive.entries() {
        let code = archive.read(&bytes.as_slice(), &located).unwrap();
        for bit in located.offset * 8..(located.offset + located.size) * 8 {
            let mut flipped = bytes.clone();
            flipped[(bit / 8) as usize] ^= 1 << (bit % 8);
            // Some bits of a frame have no meaning; bit 2 of its descriptor indicates a checksum.
            let read = archive.read(&flipped.as_slice(), &located);
            assert!(read.is_err() || read.is_ok_and(|read| read == code), "bit {bit}");
        }
    }
}

#[test]
fn code_without_a_checksum_has_to_fit_its_target() {
    let header = |flags: u8| {
        let mut elf = vec![0; 64];
        elf[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x40");
        (elf[8], elf[18], elf[20], elf[48]) = (3, 224, 1, flags);
        elf
    };
    let read = |code: &[u8], scheme| {
        let targets = ["gfx906".to_owned()];
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()), "g", "f", &targets, scheme).unwrap();
        let bytes = match scheme {
            Scheme::None => code.to_vec(),
            // Other tools write frames without a checksum.
            Scheme::ZstdPerKernel => zstd::bulk::compress(code, 3).unwrap(),
        };
        writer.add("a", 0, "gfx906", &Blob { original_size: code.len() as u64, bytes }).unwrap();
        let bytes = writer.finish().unwrap().into_inner();
        let archive = open(&bytes).unwrap();
        let located = archive.find("a", 0, "gfx906").unwrap();
        assert_eq!(archive.read(&bytes.as_slice(), &located).unwrap(), code);
        archive.read_sound(&bytes.as_slice(), &located).map_err(|error| error.to_string())
    };
    for scheme in [Scheme::None, Scheme::ZstdPerKernel] {
        for sound in [&header(0x2f)[..], b"BC\xc0\xde", b""] {
            assert_eq!(read(sound, scheme).unwrap(), sound);
        }
        let error = read(&header(0x30), scheme).unwrap_err();
        assert_eq!(error, "`a#0` for `gfx906` is damaged: it is code for `gfx908` by its own ELF flags");
        let error = read(b"\x7fELG", scheme).unwrap_err();
        assert!(error.ends_with("it starts with `\\x7fELG`, as no code object does"), "{error}");
        let mut broken = header(0x2f);
        (broken[32], broken[54], broken[56]) = (200, 56, 1);
        let error = read(&broken, scheme).unwrap_err();
        assert!(error.ends_with("its program header table leaves the file"), "{error}");
    }
    // The checksum covers the bytes that were compressed, correct or not.
    let bytes = example(Scheme::ZstdPerKernel);
    let archive = open(&bytes).unwrap();
    let located = archive.find("lib/librocblas.so.4", 1, "gfx90a:xnack-").unwrap();
    assert_eq!(archive.read_sound(&bytes.as_slice(), &located).unwrap(), code(3, 1003));
}

#[test]
fn archives_of_other_tools_are_read() {
    let bytes = foreign(&foreign_table(frames().len() as u64), &frames());
    let archive = open(&bytes).unwrap();
    assert_eq!(archive.targets, ["gfx900", "gfx906"]);
    let windows = archive.find("lib/libtest.so", 0, "gfx900").unwrap();
    assert_eq!(archive.read(&bytes.as_slice(), &windows).unwrap(), b"other");
    let first = archive.find("bin/testapp", 0, "gfx906").unwrap();
    assert_eq!(archive.read(&bytes.as_slice(), &first).unwrap(), b"first");
    assert_eq!((first.original_size, first.offset), (5, 64 + 8));
}

/// rocm-kpack's `pack_tree` writes names without `#` and index. Its own reader accepts any text.
#[test]
fn entries_without_an_index_are_read_and_written() {
    for (written, scheme) in
        [(&b"so.4.1"[..], Scheme::None), (b"so.#01", Scheme::ZstdPerKernel), (b"so.#4-", Scheme::None)]
    {
        let bytes = replaced(scheme, b"so.4#1", written);
        let archive = open(&bytes).unwrap();
        let name = format!("lib/librocblas.{}", written.escape_ascii());
        let mut writer =
            ArchiveWriter::new(Cursor::new(Vec::new()), "blas_lib", "gfx90a", &archive.targets, scheme).unwrap();
        for entry in archive.entries() {
            let blob = archive.blob(&bytes.as_slice(), &entry).unwrap();
            writer.add(entry.name, entry.index, entry.target, &blob).unwrap();
        }
        let again = writer.finish().unwrap().into_inner();
        for bytes in [bytes, again] {
            let archive = open(&bytes).unwrap();
            let plain: Vec<_> = archive.entries().filter(|entry| entry.index.is_none()).collect();
            assert_eq!(plain.iter().map(Located::key).collect::<Vec<_>>(), [name.as_str(), &name]);
            assert_eq!(archive.read(&bytes.as_slice(), &plain[1]).unwrap(), code(3, 1003));
            assert_eq!(archive.entries().len(), 6);
            assert_eq!(archive.find("lib/librocblas.so.4", 1, "gfx90a:xnack+"), None);
        }
    }
    let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()), "g", "f", &targets(), Scheme::None).unwrap();
    let blob = Blob::pack(b"code", Scheme::None, 3).unwrap();
    assert!(writer.add("a#0", None, TARGETS[0], &blob).is_err());
}

/// Replaces one byte string in the table of the uncompressed example by another of the same length.
fn changed(from: &[u8], to: &[u8]) -> String {
    changed_in(Scheme::None, from, to)
}

fn replaced(scheme: Scheme, from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = example(scheme);
    let at = bytes.windows(from.len()).rposition(|window| window == from).unwrap();
    bytes.splice(at..at + from.len(), to.iter().copied());
    bytes
}

fn changed_in(scheme: Scheme, from: &[u8], to: &[u8]) -> String {
    let bytes = replaced(scheme, from, to);
    match open(&bytes) {
        Ok(archive) => {
            let first = archive.entries().next().unwrap();
            archive.read(&bytes.as_slice(), &first).unwrap_err().to_string()
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_table_that_lies_is_an_error_that_says_where() {
    let with = |name: &str, value: &[u8]| [text(name), value.to_vec()].concat();
    let has = |message: String, expected: &str| assert!(message.contains(expected), "{message}");
    let ordinal = |value| with("ordinal", &[value]);
    has(changed(&ordinal(5), &ordinal(6)), "is number 6 of 6 code objects");
    has(changed(&ordinal(5), &ordinal(0xff)), "`ordinal` is not a whole number");
    // The size is 1004 = 0x03ec.
    has(
        changed(&with("original_size", &[0xcd, 3, 0xec]), &with("original_size", &[0xcd, 3, 0xed])),
        "should have 1005 bytes, but 1004 are stored",
    );
    has(changed(&with("offset", &[64]), &with("offset", &[63])), "1000 bytes from byte 63 are not between");
    has(changed(&with("size", &[0xcd, 3, 0xed]), &with("size", &[0xcd, 0xff, 0xff])), "are not between");
    has(changed(&text("toc"), &text("tok")), "has no `toc`");
    has(changed(&text("group_name"), &text("gfx_arches")), "`gfx_arches` is not an array");
    has(changed(&text("none"), &text("lzma")), "unknown compression `lzma`");
    has(changed(&with("format_version", &[1]), &with("format_version", &[2])), "unknown format version `2`");
    has(changed(&text("hsaco"), &text("spirv")), "unknown type `spirv`");
    has(
        changed(&text("lib/librocblas.so.4#1"), &text("lib/librocblas.so.4#0")),
        "has `lib/librocblas.so.4#0` for `gfx90a:xnack+` twice",
    );
    has(changed(b"blas_lib", b"blas\xffib "), "`group_name` is not UTF-8");
    let zstd = |from: &[u8], to: &[u8]| changed_in(Scheme::ZstdPerKernel, from, to);
    has(zstd(&with("zstd_offset", &[64]), &with("zstd_offset", &[63])), "are not between");
    has(zstd(&with("zstd_offset", &[64]), &with("zstd_offset", &[65])), "frames");
    has(
        zstd(&with("original_size", &[0xcd, 3, 0xec]), &with("original_size", &[0xcd, 3, 0xed])),
        "should have 1005 bytes, but has 1004",
    );
    has(
        zstd(&with("original_size", &[0xcd, 3, 0xec]), &with("original_size", &[0xcd, 3, 0xeb])),
        "should have 1003 bytes, but has more",
    );
    let twice = [text("gfx90a:xnack+"), text("gfx90a:xnack-"), text("toc")].concat();
    let same = [text("gfx90a:xnack+"), text("gfx90a:xnack+"), text("toc")].concat();
    has(changed(&twice, &same), "`gfx_arches` has `gfx90a:xnack+` twice");
}

#[test]
fn frames_that_lie_are_errors() {
    let table = |blobs: &[u8]| open(&foreign(&foreign_table(blobs.len() as u64), blobs)).map(|_| ());
    let text = |blobs: &[u8]| table(blobs).unwrap_err().to_string();
    let good = frames();
    table(&good).unwrap();
    let mut many = good.clone();
    many[..4].fill(0xff);
    assert!(text(&many).contains("4294967295 frames; the loader takes 1048576"));
    let mut more = good.clone();
    more[0] = 3;
    assert!(text(&more).contains("frame 2 of 3 reaches beyond"));
    let mut less = good.clone();
    less[0] = 1;
    assert!(text(&less).contains("bytes follow its last frame"));
    let mut long = good.clone();
    long[4..8].fill(0xff);
    assert!(text(&long).contains("frame 0 of 2 reaches beyond"));
    assert!(text(&[0, 0]).contains("are not between"));
    let mut damaged = good;
    damaged[8..12].fill(0);
    let bytes = foreign(&foreign_table(damaged.len() as u64), &damaged);
    let archive = open(&bytes).unwrap();
    let error = archive.read(&bytes.as_slice(), &archive.find("bin/testapp", 0, "gfx906").unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "could not read `bin/testapp#0` for `gfx906` of the kpack archive");
}

#[test]
fn a_frame_that_decompresses_to_gigabytes_stops_at_the_stated_size() {
    let bomb = zstd::stream::encode_all(std::io::Read::take(std::io::repeat(0), 1 << 28), 3).unwrap();
    let mut blobs = 2_u32.to_le_bytes().to_vec();
    for _ in 0..2 {
        blobs.extend((bomb.len() as u32).to_le_bytes());
        blobs.extend(&bomb);
    }
    let bytes = foreign(&foreign_table(blobs.len() as u64), &blobs);
    let archive = open(&bytes).unwrap();
    let error = archive.read(&bytes.as_slice(), &archive.entries().next().unwrap()).unwrap_err();
    assert!(error.to_string().contains("should have 5 bytes, but has more"), "{error}");
}

#[test]
fn files_that_are_no_archives_say_so() {
    let text = |bytes: &[u8]| open(bytes).unwrap_err().to_string();
    let good = example(Scheme::None);
    assert_eq!(text(b""), "not a kpack archive: it has 0 bytes, and the header alone has 64");
    assert_eq!(text(&[0x7f; 100]), r"not a kpack archive: it starts with `\x7f\x7f\x7f\x7f`");
    let mut version = good.clone();
    version[4] = 2;
    assert_eq!(text(&version), "the kpack archive has the unknown version `2`");
    for offset in [0, 63, good.len() as u64, u64::MAX] {
        let mut table = good.clone();
        table[8..16].copy_from_slice(&offset.to_le_bytes());
        assert!(text(&table).contains(&format!("would start at byte {offset} of")), "{}", text(&table));
    }
    let mut cut = good.clone();
    cut.pop();
    assert!(text(&cut).contains("it ends within"), "{}", text(&cut));
    let mut list = foreign(&[0x90], &[]);
    assert!(text(&list).contains("the table is not a map"));
    list[64] = 0x80;
    assert!(text(&list).contains("has no `compression_scheme`"));
    assert!(KpackArchive::open(&good.as_slice(), good.len() as u64 + 1).is_err());
    // The table claims to have four thousand million entries.
    assert!(text(&foreign(&[0xdf, 0xff, 0xff, 0xff, 0xff], &[])).contains("it ends within a key"));
}

proptest! {
    #[test]
    fn any_kernels_come_back(
        kernels in proptest::collection::btree_map(("[a-z#/. é]{1,20}", 0_u32.., 0_usize..2), 0_usize..5000, 2..20),
        compressed: bool, level in 1_i32..6,
    ) {
        let scheme = if compressed { Scheme::ZstdPerKernel } else { Scheme::None };
        let used: std::collections::BTreeSet<_> = kernels.keys().map(|(_, _, target)| TARGETS[*target].to_owned()).collect();
        let used: Vec<String> = used.into_iter().collect();
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()), "é", "", &used, scheme).unwrap();
        for ((name, index, target), size) in &kernels {
            writer.add(name, *index, TARGETS[*target], &Blob::pack(&code(*index as u8, *size), scheme, level).unwrap()).unwrap();
        }
        let bytes = writer.finish().unwrap().into_inner();
        let archive = open(&bytes).unwrap();
        prop_assert_eq!(archive.entries().len(), kernels.len());
        for ((name, index, target), size) in &kernels {
            let located = archive.find(name, *index, TARGETS[*target]).unwrap();
            prop_assert_eq!(archive.read(&bytes.as_slice(), &located).unwrap(), code(*index as u8, *size));
        }
    }

    #[test]
    fn damage_never_panics(at in 0_usize..8000, value: u8, cut in 0_usize..8000, compressed: bool) {
        let mut bytes = example(if compressed { Scheme::ZstdPerKernel } else { Scheme::None });
        let length = bytes.len();
        bytes[at % length] = value;
        bytes.truncate(cut.max(64));
        if let Ok(archive) = open(&bytes) {
            for located in archive.entries() {
                let _ = archive.read(&bytes.as_slice(), &located);
            }
        }
    }
}
