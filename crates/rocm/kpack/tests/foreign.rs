//! Other programs check the results: clang's offload bundler and this crate read each other's
//! bundles, and MessagePack's Python package and the zstd program read archives and markers.

#![allow(clippy::unwrap_used, reason = "a test file")]

use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use rocwheel_kpack::bundle::{self, BundleForm, Method, Part};
use rocwheel_kpack::{ArchiveWriter, Blob, Bundle, Error, KpackArchive, Marker, Scheme};
use tempfile::TempDir;

const SOURCE: &str = "__attribute__((global)) void add(float *a, const float *b) { a[0] += b[0]; }\n";
const HOST: &str = "host-x86_64-unknown-linux--";
const TARGETS: [&str; 5] = ["gfx1100", "gfx90a:xnack+", "gfx90a:xnack-", "gfx942", "gfx9-generic"];

/// Runs a program in a folder; a missing one fails the test.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.unwrap_or_else(|error| panic!("`make setup` installs what is missing: `{program}`: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn python(folder: &Path, arguments: &[&str]) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle.py");
    run(folder, &format!("{root}/.venv/bin/python"), &[&[script], arguments].concat())
}

/// Compiles a bundle of real code objects with clang.
fn compile(folder: &TempDir, arguments: &[&str]) -> Vec<u8> {
    fs_err::write(folder.path().join("k.hip"), SOURCE).unwrap();
    let targets = TARGETS.map(|target| format!("--offload-arch={target}"));
    let mut all = vec!["-x", "hip", "-nogpulib", "-nogpuinc", "-O2", "-mcode-object-version=6", "-cuid=1"];
    all.extend(["--offload-device-only", "--gpu-bundle-output"]);
    all.extend(targets.iter().map(String::as_str));
    all.extend(arguments);
    all.extend(["k.hip", "-o", "k.hipfb"]);
    run(folder.path(), "clang++-19", &all);
    fs_err::read(folder.path().join("k.hipfb")).unwrap()
}

/// Returns the only bundle of a file, and its entries with their bytes in the order of its table.
fn read(bytes: &[u8]) -> (Bundle, Vec<(String, Vec<u8>)>) {
    let section = 0..bytes.len() as u64;
    let mut bundles = bundle::read(&bytes, section.clone()).unwrap();
    assert_eq!(bundles.len(), 1);
    let bundle = bundles.remove(0);
    let mut entries: Vec<_> = bundle.entries.iter().map(|entry| (entry.id.clone(), Vec::new())).collect();
    let visited = bundle.visit(&bytes, section, |entry, code| {
        entries.iter_mut().find(|(id, _)| *id == entry.id).unwrap().1 = code.to_vec();
        Ok::<(), Error>(())
    });
    visited.unwrap();
    (bundle, entries)
}

fn write(entries: &[(String, Vec<u8>)], form: BundleForm) -> Vec<u8> {
    let parts: Vec<_> = entries.iter().map(|(id, code)| Part { id, size: code.len() as u64, content: code }).collect();
    let mut out = Vec::new();
    bundle::write(&parts, form, &mut out).unwrap();
    out
}

#[test]
fn a_bundle_of_clang_comes_back_byte_by_byte() {
    let folder = tempfile::tempdir().unwrap();
    let plain = compile(&folder, &[]);
    let (bundle, entries) = read(&plain);
    assert_eq!(bundle.compression, None);
    assert_eq!(bundle.length, plain.len() as u64);
    assert_eq!(bundle.entries[0].id, HOST);
    let mut targets: Vec<_> = bundle.entries.iter().filter_map(|entry| entry.target()).collect();
    targets.sort_unstable();
    let mut expected = TARGETS;
    expected.sort_unstable();
    assert_eq!(targets, expected);
    assert!(entries[1..].iter().all(|(_, code)| code.starts_with(b"\x7fELF")));
    assert!(write(&entries, BundleForm::Plain) == plain);

    let compressed = compile(&folder, &["--offload-compress"]);
    let (bundle, same) = read(&compressed);
    let compression = bundle.compression.unwrap();
    assert_eq!((compression.version, compression.method), (2, Method::Zstd));
    assert_eq!(compression.uncompressed, plain.len() as u64);
    assert_eq!(bundle.length, compressed.len() as u64);
    assert!(same == entries);
    let ours = write(&entries, BundleForm::Compressed { version: 2, method: Method::Zstd, level: 3 });
    let header = |bytes: &[u8]| [&bytes[..8], &bytes[12..24]].concat();
    assert_eq!(header(&ours), header(&compressed), "all of the header but the size of the payload");
}

/// So many targets that the table fills more than a page.
const PROCESSORS: [&str; 25] = [
    "600", "601", "602", "700", "701", "702", "703", "704", "705", "801", "802", "803", "805", "810", "900", "902",
    "904", "906", "908", "909", "90a", "90c", "942", "1010", "1030",
];

/// The cases are sizes around the boundary, an empty entry in the middle and at the end, ids of
/// every kind, and a long table.
#[test]
fn the_layout_is_that_of_the_offload_bundler() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = [0_usize, 1, 4095, 4096, 4097, 0, 12_288];
    for count in [1, 6, 7, 76] {
        let id = |index: usize| {
            let kind = ["hip", "hipv4", "openmp"][index % 3];
            let device = format!("{kind}-amdgcn-amd-amdhsa--gfx{}", PROCESSORS[index % PROCESSORS.len()]);
            if index == 0 { HOST.to_owned() } else { device }
        };
        let entries: Vec<_> =
            (0..count).map(|index| (id(index), vec![index as u8 | 1; sizes[index % sizes.len()]])).collect();
        let mut arguments = vec!["-type=o".to_owned(), "-bundle-align=4096".to_owned(), "-output=theirs".to_owned()];
        // The host's entry is named without the dashes that are in the file.
        let names: Vec<_> = entries.iter().map(|(id, _)| id.trim_end_matches('-')).collect();
        arguments.push(format!("-targets={}", names.join(",")));
        for (index, (_, code)) in entries.iter().enumerate() {
            fs_err::write(folder.path().join(format!("in{index}")), code).unwrap();
            arguments.push(format!("-input=in{index}"));
        }
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        run(folder.path(), "clang-offload-bundler-19", &arguments);
        let theirs = fs_err::read(folder.path().join("theirs")).unwrap();
        assert!(write(&entries, BundleForm::Plain) == theirs, "{count} entries");
        assert!(read(&theirs).1 == entries);
    }
}

#[test]
fn the_offload_bundler_lists_and_unbundles_what_is_written_here() {
    let folder = tempfile::tempdir().unwrap();
    let (_, entries) = read(&compile(&folder, &[]));
    // This version of clang does not know version 3 yet.
    for form in [
        BundleForm::Plain,
        BundleForm::Compressed { version: 1, method: Method::Zstd, level: 3 },
        BundleForm::Compressed { version: 1, method: Method::Zlib, level: 6 },
        BundleForm::Compressed { version: 2, method: Method::Zstd, level: 19 },
        BundleForm::Compressed { version: 2, method: Method::Zlib, level: 9 },
    ] {
        fs_err::write(folder.path().join("ours"), write(&entries, form)).unwrap();
        let bundler = |arguments: &[&str]| {
            let arguments = [&["-type=o", "-input=ours"], arguments].concat();
            run(folder.path(), "clang-offload-bundler-19", &arguments)
        };
        let listed = bundler(&["-list"]);
        let mut listed: Vec<_> = listed.lines().collect();
        listed.sort_unstable();
        let mut ids: Vec<_> = entries.iter().map(|(id, _)| id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(listed, ids, "{form:?}");
        for (id, code) in &entries[1..] {
            bundler(&["-unbundle", &format!("-targets={id}"), "-output=code"]);
            assert!(fs_err::read(folder.path().join("code")).unwrap() == *code, "{form:?} {id}");
        }
    }
}

/// Name, index, target, code object.
type Kernel = (String, u32, String, Vec<u8>);

fn kernels() -> Vec<Kernel> {
    let code = |seed: usize| (0..2000 + 1000 * seed).map(|at| (at * seed / 9) as u8).collect();
    let name = |index: usize| format!("lib/librocblas_{}.so.4", "é".repeat(40 * (index % 2)));
    let target = |index: usize| ["gfx90a:xnack+", "gfx90a:xnack-"][index % 2].to_owned();
    (0..40).map(|index| (name(index / 2), (index / 4) as u32, target(index), code(index))).collect()
}

#[test]
fn python_reads_the_archives_written_here() {
    let folder = tempfile::tempdir().unwrap();
    let targets = ["gfx90a:xnack+", "gfx90a:xnack-"].map(str::to_owned);
    for scheme in [Scheme::None, Scheme::ZstdPerKernel] {
        let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()), "blas_lib", "gfx90a", &targets, scheme).unwrap();
        for (name, index, target, code) in kernels() {
            writer.add(&name, index, &target, &Blob::pack(&code, scheme, 3).unwrap()).unwrap();
        }
        fs_err::write(folder.path().join("a.kpack"), writer.finish().unwrap().into_inner()).unwrap();
        let read = python(folder.path(), &["read-archive", "a.kpack", "unpacked"]);
        let mut expected = vec![
            format!("format_version 1 group_name blas_lib gfx_arch_family gfx90a scheme {}", scheme.name()),
            "gfx_arches gfx90a:xnack+ gfx90a:xnack-".to_owned(),
        ];
        for (number, (name, index, target, _)) in sorted().iter().enumerate() {
            expected.push(format!("{number} {name}#{index} {target}"));
        }
        assert_eq!(read.lines().collect::<Vec<_>>(), expected);
        for (number, (_, _, _, code)) in sorted().iter().enumerate() {
            assert!(fs_err::read(folder.path().join(format!("unpacked/{number}"))).unwrap() == *code);
        }
    }
}

/// Returns the kernels in the order of the table, by their keys.
fn sorted() -> Vec<Kernel> {
    let mut kernels = kernels();
    kernels.sort_by(|left, right| (&left.0, left.1, &left.2).cmp(&(&right.0, right.1, &right.2)));
    kernels
}

#[test]
fn archives_and_markers_that_python_wrote_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for scheme in ["none", "zstd-per-kernel"] {
        python(folder.path(), &["write-archive", "a.kpack", scheme]);
        let bytes = fs_err::read(folder.path().join("a.kpack")).unwrap();
        let archive = KpackArchive::open(&bytes.as_slice(), bytes.len() as u64).unwrap();
        assert_eq!((archive.group.as_str(), archive.family.as_str()), ("test", "gfx900"));
        assert_eq!(archive.scheme.name(), scheme);
        let found: Vec<_> = archive.entries().map(|entry| (entry.key(), entry.target)).collect();
        assert_eq!(
            found.iter().map(|(key, target)| (key.as_str(), *target)).collect::<Vec<_>>(),
            [("bin/testapp#0", "gfx900"), ("lib/libtest.so#0", "gfx900"), ("lib/libtest.so#1", "gfx906")]
        );
        for located in archive.entries() {
            let code = archive.read(&bytes.as_slice(), &located).unwrap();
            let text = format!("code of {} for {}\n", located.key(), located.target);
            assert_eq!(code, text.repeat(1000).as_bytes());
        }
    }
    python(folder.path(), &["write-marker", "marker", "lib/a.so", "../.kpack/g_@GFXARCH@.kpack", "x"]);
    let marker = Marker::decode(&fs_err::read(folder.path().join("marker")).unwrap()).unwrap();
    assert_eq!(marker.kernel_name, "lib/a.so");
    assert_eq!(marker.search_paths, ["../.kpack/g_@GFXARCH@.kpack", "x"]);
    // This crate writes the same bytes.
    assert_eq!(marker.encode().unwrap(), fs_err::read(folder.path().join("marker")).unwrap());
}
