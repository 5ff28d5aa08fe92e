//! The same code objects in every kind of file, and the findings for broken or inconsistent files.

#![allow(clippy::unwrap_used, reason = "a test file")]

use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use rocwheel_archive::FileDigest;
use rocwheel_fixtures::Impatient;
use rocwheel_fixtures::gpu::{Gpu, Link, TranslationUnit as Source};
use rocwheel_kpack::bundle::{self, BundleForm, Method, Part};
use rocwheel_kpack::{ArchiveWriter, Blob, Error, FatBinary, Scheme};
use rocwheel_progress::Silent;
use rocwheel_survey::{self as survey, Checksum, CodeFormat, FileFormat, Kernels, Options, Subject, Surveyed, Weight};

const TARGETS: [&str; 3] = ["gfx90a:xnack+", "gfx942", "gfx1100"];

/// A folder with a library, and its code objects.
struct Workshop {
    gpu: Gpu,
    library: PathBuf,
    code: Vec<(String, Vec<u8>)>,
}

static WORKSHOP: LazyLock<Workshop> = LazyLock::new(|| {
    let gpu = Gpu::new();
    let library = gpu.build(&library("library.so", &[("first", &TARGETS)], &[]));
    let file = fs_err::File::open(&library).unwrap();
    let fat = FatBinary::read(file.file(), file.metadata().unwrap().len()).unwrap().unwrap();
    let mut code = Vec::new();
    let keep = |entry: &bundle::BundleEntry, bytes: &[u8]| -> Result<(), Error> {
        code.push((entry.target().unwrap().to_owned(), bytes.to_vec()));
        Ok(())
    };
    fat.bundles[0].visit(file.file(), fat.section.clone(), keep).unwrap();
    code.sort();
    Workshop { gpu, library, code }
});

fn library<'a>(name: &'a str, units: &[(&'a str, &'a [&'a str])], compile: &'a [&'a str]) -> Link<'a> {
    let units: Vec<Source<'a>> = units.iter().map(|(source, targets)| Source { source, targets }).collect();
    Link { name, units: units.leak(), compile, link: &["-shared"] }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn look(paths: &[&Path]) -> Vec<Surveyed> {
    look_for(paths, None)
}

fn look_for(paths: &[&Path], targets: Option<&[&str]>) -> Vec<Surveyed> {
    let scratch = folder();
    let options = Options {
        scratch: scratch.path().to_owned(),
        targets: targets.map(|targets| targets.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>()),
        kernels: Kernels::Listed,
        digest: FileDigest::Sha256,
        checksum: Checksum::Compare,
    };
    let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).to_owned()).collect();
    let mut files = Vec::new();
    let collect = |file| -> Result<(), Error> {
        files.push(file);
        Ok(())
    };
    survey::survey(&paths, &options, &Silent, collect).unwrap();
    assert_eq!(fs_err::read_dir(scratch.path()).unwrap().count(), 0, "something is left in the scratch folder");
    files
}

fn only(files: Vec<Surveyed>) -> Surveyed {
    let mut files: Vec<Surveyed> = files.into_iter().filter(Surveyed::is_of_interest).collect();
    assert_eq!(files.len(), 1, "{files:#?}");
    files.remove(0)
}

fn faults(file: &Surveyed) -> Vec<(Subject, &str)> {
    let faults = file.findings.iter().filter(|finding| finding.weight == Weight::Fault);
    faults.map(|finding| (finding.subject, finding.message.as_str())).collect()
}

/// Asserts that the file has the library's three code objects and no findings.
fn assert_whole(file: &Surveyed) {
    assert_eq!(file.findings, [], "{file:#?}");
    let mut found: Vec<_> = file
        .code_objects
        .iter()
        .map(|found| {
            assert_eq!(found.own_target.as_ref().unwrap().to_string(), found.target);
            let names: Vec<&str> = found.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            assert_eq!((found.kernel_count, names), (Some(1), vec!["_Z5scalePff"]));
            assert!(found.kernels[0].vgpr.is_some());
            assert_eq!(found.code, CodeFormat::Elf);
            (found.target.clone(), found.size)
        })
        .collect();
    found.sort();
    let expected: Vec<_> = WORKSHOP.code.iter().map(|(target, bytes)| (target.clone(), bytes.len() as u64)).collect();
    assert_eq!(found, expected, "{}", file.location);
}

fn write_bundle(path: &Path, form: BundleForm, parts: &[(&str, &[u8])]) {
    let contents: Vec<Vec<u8>> = parts.iter().map(|(_, bytes)| bytes.to_vec()).collect();
    let ids: Vec<String> = parts.iter().map(|(target, _)| format!("hipv4-amdgcn-amd-amdhsa--{target}")).collect();
    let parts: Vec<Part<'_>> =
        ids.iter().zip(&contents).map(|(id, content)| Part { id, size: content.len() as u64, content }).collect();
    let mut out = Vec::new();
    bundle::write(&parts, form, &mut out).unwrap();
    fs_err::write(path, out).unwrap();
}

fn own_parts() -> Vec<(&'static str, &'static [u8])> {
    WORKSHOP.code.iter().map(|(target, bytes)| (target.as_str(), bytes.as_slice())).collect()
}

fn write_archive(path: &Path, scheme: Scheme, listed: &[&str], entries: &[(&str, &[u8])]) {
    let listed: Vec<String> = listed.iter().map(|target| (*target).to_owned()).collect();
    let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()), "group", "family", &listed, scheme).unwrap();
    for (target, bytes) in entries {
        writer.add("lib/library.so", 0, target, &Blob::pack(bytes, scheme, 3).unwrap()).unwrap();
    }
    fs_err::write(path, writer.finish().unwrap().into_inner()).unwrap();
}

fn python(script: &str, arguments: &[&Path]) {
    let output = Command::new("python3").arg("-c").arg(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The entries have the names that rocm-kpack's `pack_tree` gives them.
#[test]
fn entries_without_an_index_are_listed_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tree.kpack");
    let (target, code) = &WORKSHOP.code[0];
    let targets = [target.clone()];
    let mut writer =
        ArchiveWriter::new(Cursor::new(Vec::new()), "group", "family", &targets, Scheme::ZstdPerKernel).unwrap();
    for (name, index) in [("lib/a.so", Some(0)), ("lib/b.so", None), ("lib/c.so", None)] {
        writer.add(name, index, target, &Blob::pack(code, Scheme::ZstdPerKernel, 3).unwrap()).unwrap();
    }
    fs_err::write(&path, writer.finish().unwrap().into_inner()).unwrap();
    let file = only(look(&[&path]));
    let entries: Vec<_> = file.code_objects.iter().filter_map(|found| found.entry.as_deref()).collect();
    assert_eq!(entries, ["lib/a.so#0", "lib/b.so", "lib/c.so"]);
    let [finding] = &file.findings[..] else { panic!("{:?}", file.findings) };
    assert_eq!((finding.subject, finding.weight), (Subject::Wrapper, Weight::Fault));
    let expected = format!("no wrapper asks for `lib/b.so` for `{target}` and 1 more: no index follows the name");
    assert_eq!(finding.message, expected);
}

#[test]
fn a_library_has_a_wrapper_and_a_bundle() {
    let file = only(look(&[&WORKSHOP.library]));
    assert_whole(&file);
    assert_eq!((file.kind, file.wrappers, file.bundles.len()), (FileFormat::Elf, 1, 1));
    assert_eq!(file.bundles[0].wrappers, [0]);
    assert_eq!(file.size, fs_err::metadata(&WORKSHOP.library).unwrap().len());
    assert!(file.code_objects.iter().all(|found| found.bundle == Some(0) && found.stored == found.size));
}

#[test]
fn a_compressed_library_shares_its_bytes_out() {
    let gpu = &WORKSHOP.gpu;
    let path = gpu.build(&library("compressed.so", &[("first", &TARGETS)], &["--offload-compress"]));
    let file = only(look(&[&path]));
    assert_whole(&file);
    let compression = file.bundles[0].compression.unwrap();
    assert_eq!((compression.version, compression.method), (2, Method::Zstd));
    assert_eq!(file.code_objects.iter().map(|found| found.stored).sum::<u64>(), file.bundles[0].length);

    // The last 8 of the header's 24 bytes are the checksum.
    let mut bytes = fs_err::read(&path).unwrap();
    let bundle = bytes.windows(4).position(|window| window == b"CCOB").unwrap();
    bytes[bundle + 16] ^= 1;
    fs_err::write(&path, bytes).unwrap();
    let checked = only(look(&[&path]));
    assert!(checked.findings.iter().any(|finding| finding.message.contains("checksum")), "{:?}", checked.findings);
    let options = Options {
        scratch: std::env::temp_dir(),
        targets: None,
        kernels: Kernels::Listed,
        digest: FileDigest::Sha256,
        checksum: Checksum::Skip,
    };
    let each = |unchecked: Surveyed| -> Result<(), Error> {
        assert_eq!((unchecked.findings, unchecked.code_objects), (Vec::new(), file.code_objects.clone()));
        Ok(())
    };
    survey::survey(&[path], &options, &Silent, each).unwrap();
}

#[test]
fn code_linked_for_the_device_has_more_wrappers_than_bundles() {
    let gpu = &WORKSHOP.gpu;
    let units: [(&str, &[&str]); 2] = [("first", &["gfx90a", "gfx1100"]), ("second", &["gfx90a", "gfx1100"])];
    let path = gpu.build(&library("rdc.so", &units, &["-fgpu-rdc"]));
    let file = only(look(&[&path]));
    assert_eq!(file.findings, []);
    assert_eq!((file.wrappers, file.bundles.len()), (2, 1));
    assert_eq!(file.bundles[0].wrappers, [0, 1]);
    assert!(file.code_objects.iter().all(|found| found.kernel_count == Some(2)));
}

#[test]
fn units_with_other_targets_have_bundles_of_their_own() {
    let gpu = &WORKSHOP.gpu;
    let units: [(&str, &[&str]); 2] = [("first", &["gfx1100"]), ("second", &["gfx1100", "gfx942"])];
    let path = gpu.build(&library("units.so", &units, &[]));
    let file = only(look(&[&path]));
    assert_eq!(file.findings, []);
    let bundles: Vec<_> = file.bundles.iter().map(|bundle| bundle.wrappers.clone()).collect();
    assert_eq!(bundles, [[0], [1]]);
    let found: Vec<_> = file.code_objects.iter().map(|found| (found.bundle, found.target.as_str())).collect();
    assert_eq!(found, [(Some(0), "gfx1100"), (Some(1), "gfx1100"), (Some(1), "gfx942")]);
}

#[test]
fn every_file_format_is_known_by_its_bytes() {
    let folder = folder();
    // The name does not reveal the type.
    let path = folder.path().join("file");
    for (target, bytes) in &WORKSHOP.code {
        fs_err::write(&path, bytes).unwrap();
        let file = only(look(&[&path]));
        assert_eq!(
            (file.kind, file.code_objects.len(), file.findings.as_slice()),
            (FileFormat::CodeObject, 1, &[][..])
        );
        assert_eq!(file.code_objects[0].target, *target);
    }
    let mut forms = vec![BundleForm::Plain];
    for version in [1, 2, 3] {
        forms.push(BundleForm::Compressed { version, method: Method::Zlib, level: 6 });
        forms.push(BundleForm::Compressed { version, method: Method::Zstd, level: 3 });
    }
    for form in forms {
        write_bundle(&path, form, &own_parts());
        let file = only(look(&[&path]));
        assert_whole(&file);
        assert_eq!(file.kind, FileFormat::Bundle, "{form:?}");
    }
    for scheme in [Scheme::None, Scheme::ZstdPerKernel] {
        write_archive(&path, scheme, &TARGETS, &own_parts());
        let file = only(look(&[&path]));
        assert_whole(&file);
        assert_eq!(file.kind, FileFormat::Kpack);
        let entry = file.code_objects[0].entry.as_deref();
        assert_eq!(entry, Some("lib/library.so#0"));
        assert_eq!(file.code_objects.iter().all(|found| found.stored == found.size), scheme == Scheme::None);
    }
}

#[test]
fn archives_are_read_in_place() {
    let folder = folder();
    let inner = folder.path().join("in");
    fs_err::create_dir(&inner).unwrap();
    fs_err::copy(&WORKSHOP.library, inner.join("library.so")).unwrap();
    fs_err::write(inner.join("readme.txt"), "nothing").unwrap();
    let path = folder.path().join("archive");
    for method in ["ZIP_STORED", "ZIP_DEFLATED"] {
        let script = format!(
            "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w', zipfile.{method}) as z:\n \
             z.write(sys.argv[2] + '/readme.txt', 'a/readme.txt')\n z.write(sys.argv[2] + '/library.so', 'a/library.so')\n"
        );
        python(&script, &[&path, &inner]);
        let files = look(&[&path]);
        assert_eq!(files.len(), 2);
        let file = only(files);
        assert_whole(&file);
        assert_eq!(file.location.to_string(), format!("{}:a/library.so", path.display()));
        assert_eq!(file.packed == Some(file.size), method == "ZIP_STORED");
    }
    for compression in ["--no-auto-compress", "--gzip", "--xz", "--zstd"] {
        let output =
            Command::new("tar").arg("-C").arg(&inner).args([compression, "-cf"]).arg(&path).arg(".").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let files = look(&[&path]);
        assert_eq!(files.len(), 2, "{compression}");
        let file = only(files);
        assert_whole(&file);
        assert_eq!(file.location.member.as_deref(), Some("./library.so"));
    }
    // A sparse file is read in GNU's format, and is an error in that of PAX.
    let holes = fs_err::File::options().write(true).open(inner.join("library.so")).unwrap();
    holes.file().set_len(holes.metadata().unwrap().len() + (1 << 20)).unwrap();
    let sparse = folder.path().join("sparse");
    for format in ["gnu", "posix"] {
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(&inner).args(["--sparse", "--format", format, "-cf"]).arg(&sparse).arg("library.so");
        assert!(tar.status().unwrap().success());
        let file = only(look(&[&sparse]));
        assert_eq!(file.location.member.as_deref(), Some("library.so"));
        if format == "gnu" {
            assert_whole(&file);
        } else {
            let [(subject, message)] = faults(&file)[..] else { panic!("{file:#?}") };
            assert!(subject == Subject::Unreadable && message.contains("sparse file in the PAX format"), "{message}");
        }
    }
    // A tar archive in a ZIP file is searched, a ZIP file in a ZIP file is not.
    let outer = folder.path().join("outer");
    let script = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as z:\n z.write(sys.argv[2], 'x.tar')\n";
    python(script, &[&outer, &path]);
    let file = only(look(&[&outer]));
    assert_whole(&file);
    assert_eq!(file.location.member.as_deref(), Some("x.tar:./library.so"));
    python(script, &[&path, &outer]);
    let file = only(look(&[&path]));
    assert_eq!((file.findings[0].subject, file.findings[0].weight), (Subject::Skipped, Weight::Note));
}

#[test]
fn a_compressed_file_that_is_no_archive_has_no_code() {
    let folder = folder();
    let path = folder.path().join("text.gz");
    python("import gzip, sys\ngzip.open(sys.argv[1], 'wb').write(b'some text' * 1000)\n", &[&path]);
    let files = look(&[&path]);
    assert_eq!(files.len(), 1);
    assert!(!files[0].is_of_interest(), "{files:?}");
}

#[test]
fn folders_are_walked_in_order_without_following_links() {
    let folder = folder();
    for name in ["b/library.so", "a/library.so", "c.so"] {
        let path = folder.path().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::copy(&WORKSHOP.library, path).unwrap();
    }
    rocwheel_system::symlink("c.so", folder.path().join("d.so")).unwrap();
    rocwheel_system::symlink("..", folder.path().join("a/up")).unwrap();
    rocwheel_system::symlink("nowhere", folder.path().join("dangling")).unwrap();
    let files = look(&[folder.path()]);
    let names: Vec<_> = files.iter().map(|file| file.location.path.strip_prefix(folder.path()).unwrap()).collect();
    assert_eq!(names, [Path::new("a/library.so"), Path::new("b/library.so"), Path::new("c.so")]);
    files.iter().for_each(assert_whole);
    // A link that the user names is followed.
    assert_whole(&only(look(&[&folder.path().join("d.so")])));
}

#[test]
fn links_to_files_of_other_folders_are_followed_once() {
    let (folder, other) = (folder(), folder());
    fs_err::copy(&WORKSHOP.library, other.path().join("real.so")).unwrap();
    for name in ["a.so", "b.so"] {
        rocwheel_system::symlink(other.path().join("real.so"), folder.path().join(name)).unwrap();
    }
    rocwheel_system::symlink(other.path(), folder.path().join("folder")).unwrap();
    let file = only(look(&[folder.path()]));
    assert_eq!(file.location.path, folder.path().join("a.so"));
    assert_whole(&file);
    // Where the other folder is surveyed too, the file is there.
    let file = only(look(&[folder.path(), other.path()]));
    assert_eq!(file.location.path, other.path().join("real.so"));
}

#[test]
fn the_number_of_threads_makes_no_difference() {
    let folder = folder();
    for number in 0..20 {
        let path = folder.path().join(format!("{number}.bundle"));
        let form = BundleForm::Compressed { version: 3, method: Method::Zstd, level: 1 };
        write_bundle(&path, if number % 2 == 0 { form } else { BundleForm::Plain }, &own_parts());
    }
    write_archive(&folder.path().join("x"), Scheme::ZstdPerKernel, &TARGETS, &own_parts());
    let with_threads = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| look(&[folder.path()]))
    };
    let one = with_threads(1);
    assert_eq!(one.len(), 21);
    assert_eq!(one, with_threads(7));
}

#[test]
fn only_the_wanted_targets_are_listed() {
    let listed = |targets: &[&str]| -> Vec<String> {
        let files = look_for(&[&WORKSHOP.library], Some(targets));
        files[0].code_objects.iter().map(|found| found.target.clone()).collect()
    };
    assert_eq!(listed(&["gfx90a"]), ["gfx90a:xnack+"]);
    assert_eq!(listed(&["gfx90a:xnack+", "gfx1100"]), ["gfx1100", "gfx90a:xnack+"]);
    assert!(listed(&["gfx90a:xnack-", "gfx803"]).is_empty());
}

#[test]
fn a_bundle_that_lies_about_a_target_is_found_out() {
    let folder = folder();
    let path = folder.path().join("lie");
    let code = |target: &str| WORKSHOP.code.iter().find(|(name, _)| name == target).unwrap().1.as_slice();
    for form in [BundleForm::Plain, BundleForm::Compressed { version: 2, method: Method::Zstd, level: 1 }] {
        write_bundle(&path, form, &[("gfx942", code("gfx1100")), ("gfx1100", code("gfx1100"))]);
        let file = only(look(&[&path]));
        let message = "the code for `gfx942` in bundle 0 is code for `gfx1100` by its own ELF flags";
        assert_eq!(faults(&file), [(Subject::Target, message)]);
        assert_eq!(file.code_objects.len(), 2);
    }
    for (declared, own, fault) in [
        ("gfx90a", "gfx90a:xnack+", true),
        ("gfx90a:xnack-", "gfx90a:xnack+", true),
        ("gfx90a:sramecc+:xnack+", "gfx90a:xnack+", true),
        ("gfx942:xnack+", "gfx942", true),
        ("gfx942:nonsense+", "gfx942", true),
        // `e_flags` has no flag for it.
        ("gfx1100-strict", "gfx1100", false),
    ] {
        write_bundle(&path, BundleForm::Plain, &[(declared, code(own))]);
        let file = only(look(&[&path]));
        assert_eq!(!faults(&file).is_empty(), fault, "{declared} {own}: {file:?}");
    }
    let entries = [("gfx942", code("gfx1100")), ("gfx1100", code("gfx1100"))];
    write_archive(&path, Scheme::None, &["gfx942", "gfx1100"], &entries);
    // A target in the list gets another name of the same length.
    let mut bytes = fs_err::read(&path).unwrap();
    let find = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).position(|window| window == text).unwrap();
    let list = find(&bytes, b"gfx_arches");
    let at = list + find(&bytes[list..], b"gfx1100");
    bytes[at..at + 7].copy_from_slice(b"gfx1101");
    fs_err::write(&path, bytes).unwrap();
    let file = only(look(&[&path]));
    let messages = [
        "the code for `gfx942` of `lib/library.so#0` is code for `gfx1100` by its own ELF flags",
        "the code for `gfx1100` of `lib/library.so#0` is never looked for: the archive does not list that target",
    ];
    assert_eq!(faults(&file), messages.map(|message| (Subject::Target, message)));
}

#[test]
fn what_cannot_be_checked_is_a_note() {
    let folder = folder();
    let path = folder.path().join("new");
    let mut bytes = WORKSHOP.code[0].1.clone();
    bytes[48] = 0xfe;
    write_bundle(&path, BundleForm::Plain, &[("gfx1400", &bytes)]);
    let file = only(look(&[&path]));
    assert_eq!((file.findings[0].subject, file.findings[0].weight), (Subject::Target, Weight::Note));
    assert_eq!(file.findings[0].message, "the code for `gfx1400` in bundle 0 has the unknown machine number 0xfe");
}

#[test]
fn bitcode_is_code_and_nonsense_is_not() {
    let folder = folder();
    let path = folder.path().join("other");
    let parts: [(&str, &[u8]); 4] = [
        ("gfx90a", b"BC\xc0\xde and more"),
        ("amdgcnspirv", b"\x03\x02\x23\x07 and more"),
        ("gfx942", b"nonsense"),
        ("gfx1100", &WORKSHOP.code[0].1[..100]),
    ];
    write_bundle(&path, BundleForm::Plain, &parts);
    let file = only(look(&[&path]));
    let code: Vec<CodeFormat> = file.code_objects.iter().map(|found| found.code).collect();
    assert_eq!(code, [CodeFormat::Bitcode, CodeFormat::SpirV, CodeFormat::Unknown, CodeFormat::Unknown]);
    let expected = [
        (Subject::Code, "the code for `gfx942` in bundle 0 is no code object: it starts with `nons`"),
        (
            Subject::Unreadable,
            "the code for `gfx1100` in bundle 0: malformed AMDGPU code object: its program header table leaves the file",
        ),
    ];
    assert_eq!(faults(&file), expected);
}

#[test]
fn broken_files_do_not_stop_the_survey() {
    let folder = folder();
    let whole = fs_err::read(&WORKSHOP.library).unwrap();
    let zip = folder.path().join("4.zip");
    python(
        "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:\n z.write(sys.argv[2], 'x')\n",
        &[&zip, &WORKSHOP.library],
    );
    let mut damaged = fs_err::read(&zip).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0x55);
    for (name, bytes) in [
        ("1.so", &whole[..whole.len() / 2]),
        ("2.kpack", b"KPAK and nothing else"),
        ("3.zip", b"PK\x03\x04 and nothing else"),
        ("4.zip", &damaged),
        ("5.bundle", b"CCOB\x09\x00\x01\x00 and nothing else"),
        ("6.bundle", b"__CLANG_OFFLOAD_BUNDLE__\xff\xff\xff\xff\xff\xff\xff\xff"),
        ("7.exe", b"MZ"),
        ("8.empty", b""),
        ("9.so", &whole),
    ] {
        fs_err::write(folder.path().join(name), bytes).unwrap();
    }
    let files = look(&[folder.path(), Path::new("/nowhere/at/all"), &WORKSHOP.library]);
    let said: Vec<_> = files
        .iter()
        .map(|file| {
            let name = file.location.path.file_name().unwrap().to_str().unwrap();
            (name, file.code_objects.len(), faults(file).len())
        })
        .collect();
    let expected = [
        ("1.so", 0, 1),
        ("2.kpack", 0, 1),
        ("3.zip", 0, 1),
        ("4.zip", 0, 1),
        ("5.bundle", 0, 1),
        ("6.bundle", 0, 1),
        ("7.exe", 0, 0),
        ("8.empty", 0, 0),
        ("9.so", 3, 0),
        ("all", 0, 1),
        ("library.so", 3, 0),
    ];
    assert_eq!(said, expected, "{files:#?}");
    assert_eq!(faults(&files[9])[0].1, "it cannot be read: No such file or directory (os error 2)");
}

#[test]
fn an_interrupted_survey_ends() {
    let options = Options {
        scratch: std::env::temp_dir(),
        targets: None,
        kernels: Kernels::Counted,
        digest: FileDigest::Skip,
        checksum: Checksum::Compare,
    };
    let result =
        survey::survey(
            std::slice::from_ref(&WORKSHOP.library),
            &options,
            &Impatient::asked(0),
            |_| Ok::<(), Error>(()),
        );
    assert!(matches!(result, Err(Error::Interrupted(_))));
}
