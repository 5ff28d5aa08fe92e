//! Code objects made by clang, and hostile or old ones.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use proptest::prelude::*;
use rocwheel_kpack::code_object::MetadataFormat;
use rocwheel_kpack::{CodeObject, Kernel};
use rocwheel_tables::Feature;

const SOURCE: &str = "
kernel void add(global float *a, global const float *b, local float *s) { s[0] = b[1]; a[0] = s[1] + b[0]; }
__attribute__((reqd_work_group_size(64, 1, 1))) kernel void twice(global int *a) { local int x[32]; x[*a] = 1; *a *= x[3]; }
";

struct Compiler {
    folder: tempfile::TempDir,
}

impl Compiler {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("k.cl"), SOURCE).unwrap();
        Self { folder }
    }

    /// Compiles a code object for one processor with clang, without ROCm.
    fn compile(&self, processor: &str, arguments: &[&str]) -> Vec<u8> {
        let output = self.folder.path().join("k.co");
        tool(
            Command::new("clang-19")
                .args(["-target", "amdgcn-amd-amdhsa", "-nogpulib", "-O2", "-w"])
                .arg(format!("-mcpu={processor}"))
                .args(arguments)
                .arg(self.folder.path().join("k.cl"))
                .arg("-o")
                .arg(&output),
        );
        fs_err::read(&output).unwrap()
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("k.co")
    }
}

/// Runs a tool; a missing one fails the test.
fn tool(command: &mut Command) -> String {
    let output =
        command.output().unwrap_or_else(|error| panic!("`make setup` installs what is missing: {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn read(bytes: &[u8]) -> CodeObject {
    CodeObject::read(&bytes.to_vec()).unwrap().expect("it is a code object")
}

/// A code object for all tests that change its bytes.
static EXAMPLE: LazyLock<Vec<u8>> = LazyLock::new(|| Compiler::new().compile("gfx90a:sramecc-:xnack+", &[]));

#[test]
fn the_target_is_that_of_the_compiler() {
    let compiler = Compiler::new();
    for (processor, target) in [
        ("gfx803", "gfx803"),
        ("gfx90a", "gfx90a"),
        ("gfx90a:xnack+", "gfx90a:xnack+"),
        ("gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"),
        ("gfx906:sramecc-", "gfx906:sramecc-"),
        ("gfx942:xnack-", "gfx942:xnack-"),
        ("gfx1010:xnack+", "gfx1010:xnack+"),
        ("gfx1100", "gfx1100"),
        ("gfx1201", "gfx1201"),
    ] {
        for (version, abi) in [("4", 2), ("5", 3), ("6", 4)] {
            let object = read(&compiler.compile(processor, &[&format!("-mcode-object-version={version}")]));
            assert_eq!(object.target.to_string(), target, "version {version}");
            assert_eq!((object.abi_version, object.code_object_version), (abi, Some(abi + 2)));
            assert!(object.is_known);
            assert_eq!(object.metadata, MetadataFormat::MessagePack);
        }
    }
    for generic in ["gfx9-generic", "gfx10-1-generic", "gfx10-3-generic", "gfx11-generic", "gfx12-generic"] {
        assert_eq!(read(&compiler.compile(generic, &["-mcode-object-version=6"])).target.to_string(), generic);
    }
}

/// Every processor that clang 19 knows must have the same name here.
#[test]
fn every_processor_of_the_compiler_is_known() {
    let mut command = Command::new("clang-19");
    command.args(["-target", "amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus"]);
    let listed = command.output().expect("`make setup` installs clang-19");
    let text = String::from_utf8(listed.stderr).unwrap();
    let names: Vec<&str> = text.lines().map(str::trim).filter(|line| line.starts_with("gfx")).collect();
    assert!(names.len() > 40, "{text}");
    let compiler = Compiler::new();
    for name in names {
        let version = if name.ends_with("-generic") { "6" } else { "5" };
        let made = compiler.compile(name, &[&format!("-mcode-object-version={version}"), "-c"]);
        assert_eq!(read(&made).target.processor, name);
    }
}

#[test]
fn kernels_have_the_names_and_registers_of_the_note() {
    let compiler = Compiler::new();
    let object = read(&compiler.compile("gfx90a", &[]));
    let printed = tool(Command::new("llvm-readelf-19").arg("--notes").arg(compiler.path()));
    let number = |kernel: &str, key: &str| {
        let end = printed.find(&format!(".symbol:         {kernel}.kd")).expect("the kernel is in the note");
        // A kernel's keys are sorted, so a key that sorts behind `.symbol` comes after it.
        let line = if key > ".symbol" {
            printed[end..].lines().find(|line| line.contains(key))
        } else {
            printed[..end].lines().rev().find(|line| line.contains(key))
        };
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
    };
    assert_eq!(object.kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>(), ["add", "twice"]);
    for kernel in &object.kernels {
        let Kernel { name, symbol, vgpr, agpr, sgpr, vgpr_spills, sgpr_spills, lds, scratch, wavefront, max_workgroup } =
            kernel;
        assert_eq!(*symbol, format!("{name}.kd"));
        for (value, key) in [
            (vgpr, ".vgpr_count:"),
            (agpr, ".agpr_count:"),
            (sgpr, ".sgpr_count:"),
            (vgpr_spills, ".vgpr_spill_count:"),
            (sgpr_spills, ".sgpr_spill_count:"),
            (lds, ".group_segment_fixed_size:"),
            (scratch, ".private_segment_fixed_size:"),
            (wavefront, ".wavefront_size:"),
            (max_workgroup, ".max_flat_workgroup_size:"),
        ] {
            assert!(value.is_some(), "{name} {key}");
            assert_eq!(*value, number(name, key), "{name} {key}");
        }
    }
    assert_eq!(object.kernels[1].lds, Some(128));
    assert_eq!(object.kernels[1].max_workgroup, Some(64));
}

#[test]
fn what_is_not_linked_yet_is_read_by_its_sections() {
    let object = read(&Compiler::new().compile("gfx1030", &["-c"]));
    assert_eq!((object.target.to_string().as_str(), object.kernels.len()), ("gfx1030", 2));
}

#[test]
fn other_files_are_no_code_objects() {
    let host = fs_err::read("/proc/self/exe").unwrap();
    for bytes in [&b""[..], b"\x7fELF", b"MZ", &EXAMPLE[..19], &host[..4096], b"__CLANG_OFFLOAD_BUNDLE__"] {
        assert_eq!(CodeObject::read(&bytes.to_vec()).unwrap(), None);
    }
}

fn with_header(abi: u8, flags: u32) -> Vec<u8> {
    let mut bytes = EXAMPLE.clone();
    bytes[8] = abi;
    bytes[48..52].copy_from_slice(&flags.to_le_bytes());
    bytes
}

#[test]
fn the_rules_of_each_version_differ() {
    for (abi, flags, target, version) in [
        // Version 3: one bit each; unset means "off" if the processor has the feature.
        (1, 0x13f, "gfx90a:sramecc-:xnack+", Some(3)),
        (1, 0x23f, "gfx90a:sramecc+:xnack-", Some(3)),
        (1, 0x036, "gfx1030", Some(3)),
        (1, 0x033, "gfx1010:xnack-", Some(3)),
        // Version 4: 0 not supported, 1 any, 2 off, 3 on.
        (2, 0x53f, "gfx90a", Some(4)),
        (2, 0xe3f, "gfx90a:sramecc+:xnack-", Some(4)),
        (3, 0x83f, "gfx90a:sramecc-", Some(5)),
        // Version 6: the version of a generic target is in the upper bits.
        (4, 0x0100_015f, "gfx9-4-generic", Some(6)),
        (4, 0x049, "gfx1250", Some(6)),
        (9, 0x54f, "gfx950", None),
        (4, 0x0fe, "unknown-0xfe", Some(6)),
    ] {
        let object = read(&with_header(abi, flags));
        assert_eq!(
            (object.target.to_string().as_str(), object.code_object_version),
            (target, version),
            "{abi} {flags:#x}"
        );
        assert_eq!(object.is_known, !target.starts_with("unknown"));
        assert_eq!(u32::from(object.machine), flags & 0xff);
    }
}

/// Creates a file with notes (name, type, value) in its only segment.
fn with_notes(abi: u8, notes: &[(&[u8], u32, &[u8])]) -> Vec<u8> {
    let mut bytes = with_header(abi, 0)[..64].to_vec();
    bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
    bytes[40..48].fill(0);
    bytes[56..58].copy_from_slice(&1u16.to_le_bytes());
    bytes[60..62].fill(0);
    let mut body = Vec::new();
    for (name, kind, value) in notes {
        for number in [name.len() as u32, value.len() as u32, *kind] {
            body.extend(number.to_le_bytes());
        }
        for part in [name, value] {
            body.extend(*part);
            body.resize(body.len().next_multiple_of(4), 0);
        }
    }
    bytes.extend([4u32, 4].map(u32::to_le_bytes).concat());
    let size = body.len() as u64;
    bytes.extend([120, 0, 0, size, size, 4].map(u64::to_le_bytes).concat());
    bytes.extend(body);
    bytes
}

#[test]
fn version_2_has_its_target_in_notes() {
    let version = [3u32, 8, 0, 3].map(u32::to_le_bytes).concat();
    let mut value = vec![4, 0, 7, 0];
    value.extend(&version[4..]);
    value.extend(b"AMD\0AMDGPU\0");
    let object = read(&with_notes(0, &[(b"AMD\0", 3, &value), (b"AMD\0", 10, b"---\nVersion: [ 1, 0 ]\n...\n")]));
    assert_eq!((object.target.to_string().as_str(), object.code_object_version), ("gfx803", Some(2)));
    assert_eq!(object.metadata, MetadataFormat::Yaml);
    let object = read(&with_notes(0, &[(b"AMD\0", 11, b"amdgcn-amd-amdhsa--gfx906+xnack+sram-ecc\0")]));
    assert_eq!(object.target.to_string(), "gfx906:sramecc+:xnack+");
    assert_eq!(object.target.xnack, Feature::On);
}

/// The HSA runtime has objects of its old finalizer, whose notes are aligned to 4 bytes although
/// their section says 8.
#[test]
fn notes_may_be_aligned_less_than_their_section() {
    let mut version = [4u16, 7].map(u16::to_le_bytes).concat();
    version.extend([7u32, 0, 0].map(u32::to_le_bytes).concat());
    version.extend(b"AMD\0AMDGPU");
    let mut producer = [25u32, 1, 0].map(u32::to_le_bytes).concat();
    producer.extend(b"AMD HSA Runtime Finalizer\0\0\0\0");
    let notes: [(&[u8], u32, &[u8]); 4] = [
        (b"AMD\0", 1, &[1, 0, 0, 0, 0, 0, 0, 0]),
        (b"AMD\0", 2, &[1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0]),
        (b"AMD\0", 3, &version),
        (b"AMD\0", 4, &producer),
    ];
    let mut bytes = with_notes(0, &notes);
    bytes[112..120].copy_from_slice(&8u64.to_le_bytes());
    let object = read(&bytes);
    assert_eq!((object.target.to_string().as_str(), object.is_known), ("gfx700", true));
    assert_eq!((object.metadata, object.kernels.len()), (MetadataFormat::Absent, 0));
}

#[test]
fn a_note_that_lies_leaves_the_target() {
    let many = [&b"\x81\xaeamdhsa.kernels"[..], b"\xdd\xff\xff\xff\xff"].concat();
    let deep = [&b"\x81\xa1x"[..], &vec![0x91; 100_000]].concat();
    let wrong = b"\x81\xaeamdhsa.kernels\x91\x82\xa5.name\x01\xa7.symbol\xa1x".to_vec();
    for value in [b"".to_vec(), b"\xc1".to_vec(), many, deep, wrong, b"\x81\xaeamdhsa.kernels\x91\x80".to_vec()] {
        let object = read(&with_notes(3, &[(b"AMDGPU\0", 32, &value)]));
        assert!(matches!(object.metadata, MetadataFormat::Malformed(_)), "{:?}", object.metadata);
        assert!(object.kernels.is_empty());
    }
    // A note without kernels is valid.
    assert_eq!(read(&with_notes(3, &[(b"AMDGPU\0", 32, b"\x80")])).metadata, MetadataFormat::MessagePack);
    let mut bytes = with_notes(3, &[(b"AMDGPU\0", 32, b"\x80")]);
    bytes[124..128].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(read(&bytes).metadata, MetadataFormat::Malformed("a note leaves its segment".to_owned()));
}

#[test]
fn more_kernels_than_memory_are_refused() {
    let mut value = b"\x81\xaeamdhsa.kernels\xdd\x00\x10\x00\x00".to_vec();
    for _ in 0..1 << 20 {
        value.extend(b"\x82\xa5.name\xa0\xa7.symbol\xa0");
    }
    let object = read(&with_notes(3, &[(b"AMDGPU\0", 32, &value)]));
    assert_eq!(object.metadata, MetadataFormat::Malformed("more than 262144 kernels".to_owned()));
}

#[test]
fn a_cut_code_object_is_an_error() {
    let error = CodeObject::read(&EXAMPLE[..100].to_vec()).unwrap_err();
    assert_eq!(error.to_string(), "malformed AMDGPU code object: its program header table leaves the file");
    let mut bytes = EXAMPLE.clone();
    bytes[54] = 1;
    let error = CodeObject::read(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "malformed AMDGPU code object: an entry of its program header table has 1 bytes");
}

/// A count of program headers that does not fit the file header is in section 0.
#[test]
fn program_headers_are_counted_in_section_0() {
    let compiler = Compiler::new();
    let original = compiler.compile("gfx90a", &[]);
    let headers = |path| tool(Command::new("readelf").args(["--program-headers", "--wide"]).arg(path));
    let listed = |text: &str| text[text.find("Program Headers:").unwrap()..].to_owned();
    let before = headers(compiler.path());
    let number = |at: usize| u64::from_le_bytes(original[at..at + 8].try_into().unwrap()) as usize;
    let (sections, count) = (number(40), u32::from(original[56]));
    let mut bytes = original.clone();
    bytes[56..58].copy_from_slice(&[0xff, 0xff]);
    let uncounted = "65535 says that it is in section 0, which has none";
    let error = CodeObject::read(&bytes).unwrap_err().to_string();
    assert!(error.contains(uncounted), "{error}");
    let mut bare = bytes.clone();
    bare[40..48].fill(0);
    let error = CodeObject::read(&bare).unwrap_err().to_string();
    assert!(error.contains(uncounted), "{error}");
    bytes[sections + 44..sections + 48].copy_from_slice(&count.to_le_bytes());
    fs_err::write(compiler.path(), &bytes).unwrap();
    assert_eq!(listed(&headers(compiler.path())), listed(&before));
    assert_eq!(read(&bytes), read(&original));
    // There are more of them than the file has bytes for.
    bytes[sections + 44..sections + 48].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = CodeObject::read(&bytes).unwrap_err().to_string();
    assert_eq!(error, "malformed AMDGPU code object: its program header table leaves the file");
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(at in 0usize..8192, with in any::<[u8; 8]>(), keep in 0usize..8192) {
        let mut bytes = EXAMPLE.clone();
        let at = at % (bytes.len() - 8);
        bytes[at..at + 8].copy_from_slice(&with);
        drop(CodeObject::read(&bytes));
        bytes.truncate(keep);
        drop(CodeObject::read(&bytes));
    }
}
