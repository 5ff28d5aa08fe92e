//! Code without a bundle: code objects in the data of a library, and archives of AOTriton. clang
//! and Python's lzma make the files.

#![allow(clippy::unwrap_used, reason = "a test file")]

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use rocwheel_archive::FileDigest;
use rocwheel_kpack::Error;
use rocwheel_progress::Silent;
use rocwheel_survey::{self as survey, Checksum, FileFormat, Kernels, Options, Subject, Surveyed, Weight};

const TARGETS: [&str; 3] = ["gfx942:sramecc+:xnack-", "gfx942", "gfx1100"];

/// A folder with a code object for each target: `0.co`, `1.co`, `2.co`.
static CODE: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs_err::write(path("k.cl"), "kernel void twice(global int *a) { *a *= 2; }\n").unwrap();
    for (number, target) in TARGETS.iter().enumerate() {
        let mut clang = Command::new("clang-19");
        clang.args(["-target", "amdgcn-amd-amdhsa", "-nogpulib", "-O2", "-w", "-mcode-object-version=5"]);
        clang.arg(format!("-mcpu={target}")).arg(path("k.cl")).arg("-o").arg(path(&format!("{number}.co")));
        run(&mut clang);
    }
    folder
});

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn code(number: usize) -> Vec<u8> {
    fs_err::read(CODE.path().join(format!("{number}.co"))).unwrap()
}

/// A library with these lines of assembler in its constants.
fn library(path: &Path, constants: &str) -> Vec<u8> {
    let source = path.with_extension("s");
    fs_err::write(&source, format!(".section .rodata\n{constants}\n")).unwrap();
    run(Command::new("clang-19").current_dir(CODE.path()).args(["-shared", "-nostdlib", "-o"]).arg(path).arg(source));
    fs_err::read(path).unwrap()
}

fn survey(path: &Path) -> Surveyed {
    let options = Options {
        scratch: path.parent().unwrap().to_owned(),
        targets: None,
        kernels: Kernels::Listed,
        digest: FileDigest::Sha256,
        checksum: Checksum::Compare,
    };
    let mut files = Vec::new();
    let collect = |file| -> Result<(), Error> {
        files.push(file);
        Ok(())
    };
    survey::survey(&[path.to_owned()], &options, &Silent, collect).unwrap();
    assert_eq!(files.len(), 1, "{files:#?}");
    files.remove(0)
}

fn survey_bytes(folder: &Path, bytes: &[u8]) -> Surveyed {
    let path = folder.join("changed");
    fs_err::write(&path, bytes).unwrap();
    survey(&path)
}

fn faults(file: &Surveyed) -> Vec<(Subject, &str)> {
    let faults = file.findings.iter().filter(|finding| finding.weight == Weight::Fault);
    faults.map(|finding| (finding.subject, finding.message.as_str())).collect()
}

/// Targets and sizes of the code objects.
fn found(file: &Surveyed) -> Vec<(&str, u64)> {
    file.code_objects.iter().map(|found| (found.target.as_str(), found.size)).collect()
}

#[test]
fn code_objects_in_constants_are_found_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lib.so");
    // The second one begins at an odd address, and a constant looks like the magic of another.
    let constants = ".ascii \"\\177ELF\\2\\1\\1\"\n.balign 16\n.incbin \"0.co\"\n.byte 1\n.incbin \"1.co\"\n.fill 1100000\n\
                     .incbin \"2.co\"\n.ascii \"\\177ELF\"";
    let bytes = library(&path, constants);
    let expected: Vec<(&str, u64)> = TARGETS.into_iter().zip((0..3).map(|number| code(number).len() as u64)).collect();
    let file = survey(&path);
    assert_eq!((file.kind, file.findings.len()), (FileFormat::Elf, 0), "{file:#?}");
    assert_eq!(found(&file), expected);
    for (number, found) in file.code_objects.iter().enumerate() {
        let start = found.offset.unwrap() as usize;
        assert!(bytes[start..start + found.size as usize] == code(number), "{number}");
        assert_eq!(found.kernels[0].name, "twice");
    }
    // Without section headers, the segments say what is data.
    let mut bare = bytes.clone();
    bare[40..48].fill(0);
    bare[60..64].fill(0);
    assert_eq!(found(&survey_bytes(folder.path(), &bare)), expected);
}

#[test]
fn a_code_object_that_is_cut_or_damaged_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lib.so");
    library(&path, &format!(".incbin \"1.co\", 0, {}", code(1).len() / 2));
    let file = survey(&path);
    assert!(faults(&file)[0].1.ends_with(" is cut, or its headers are damaged"), "{file:#?}");
    assert_eq!(faults(&file)[0].0, Subject::Unreadable);
    let bytes = library(&path, ".incbin \"1.co\"");
    let start = survey(&path).code_objects[0].offset.unwrap() as usize;
    for position in start..start + 64 + 56 * 4 {
        let mut bytes = bytes.clone();
        bytes[position] ^= 0xff;
        survey_bytes(folder.path(), &bytes);
    }
}

/// Makes an archive as AOTriton's `v2python` does, with an image without bytes in between.
const PACK: &str = r"
import lzma, struct, sys
out, *paths = sys.argv[1:]
images = [open(path, 'rb').read() if path else b'' for path in paths]
directory, offset = b'', 0
for number, image in enumerate(images):
    name = f'attn-{number}\0'.encode()
    directory += struct.pack('<5I', 64, 128, offset, len(image), len(name)) + name
    offset += len(image)
data = directory + b''.join(images)
head = struct.pack('<4s3I', b'AKS2', len(data), len(images), len(directory))
open(out, 'wb').write(head + lzma.compress(data))
";

fn images(folder: &Path) -> Vec<u8> {
    let path = folder.join("x.aks2");
    let code = |number: usize| CODE.path().join(format!("{number}.co"));
    let mut python = Command::new("python3");
    python.arg("-c").arg(PACK).arg(&path).arg(code(0)).arg("").arg(code(1)).arg(code(2));
    run(&mut python);
    fs_err::read(path).unwrap()
}

#[test]
fn images_of_aotriton_are_listed_by_their_own_headers() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = images(folder.path());
    let file = survey(&folder.path().join("x.aks2"));
    assert_eq!((file.kind, file.findings.len()), (FileFormat::Aotriton, 0), "{file:#?}");
    assert_eq!(found(&file).iter().map(|(target, _)| *target).collect::<Vec<_>>(), TARGETS);
    let names: Vec<_> = file.code_objects.iter().map(|found| found.entry.as_deref().unwrap()).collect();
    assert_eq!(names, ["attn-0", "attn-2", "attn-3"]);
    assert_eq!(file.code_objects.iter().map(|found| found.stored).sum::<u64>(), bytes.len() as u64);
    assert!(file.code_objects.iter().all(|found| found.kernel_count == Some(1)));
}

#[test]
fn an_archive_that_cannot_be_read_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = images(folder.path());
    for length in [4, 15, 16, 40, bytes.len() / 2, bytes.len() - 1] {
        let file = survey_bytes(folder.path(), &bytes[..length]);
        assert_eq!(faults(&file).len(), 1, "{length} bytes: {file:#?}");
    }
    // xz has a checksum over the data; the header is checked against them.
    for position in (4..bytes.len()).step_by(7).chain(4..16) {
        let mut bytes = bytes.clone();
        bytes[position] ^= 0x55;
        let file = survey_bytes(folder.path(), &bytes);
        assert!(!faults(&file).is_empty(), "byte {position}: {file:#?}");
    }
    let mut more = bytes.clone();
    more[4] += 1;
    let file = survey_bytes(folder.path(), &more);
    let text = faults(&file)[0].1;
    assert!(text.starts_with("malformed AOTriton archive: it has ") && text.contains(" its header says "), "{text}");
    let path = folder.path().join("nonsense.aks2");
    fs_err::write(&path, "nonsense").unwrap();
    assert_eq!(faults(&survey(&path)), [(Subject::Unreadable, "it is no archive of AOTriton")]);
}
