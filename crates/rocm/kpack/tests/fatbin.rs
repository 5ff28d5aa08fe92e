//! Fat binaries made by clang, whose code is removed and put back. A substitute for the HIP
//! runtime, loaded with each of them, prints what every registration leads to.

#![allow(clippy::unwrap_used, reason = "a test file")]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use positioned_io::ReadAt;
use rocwheel_fixtures::gpu::{Gpu, Link, TranslationUnit};
use rocwheel_kpack::marker::Marker;
use rocwheel_kpack::{FatBinary, Magic, NewWrapper, Points, Replacement};

const MI: &[&str] = &["gfx942", "gfx90a:xnack+", "gfx90a:xnack-"];
const RADEON: &[&str] = &["gfx1100", "gfx942"];
const ONE: TranslationUnit<'_> = TranslationUnit { source: "first", targets: MI };
const TWO: TranslationUnit<'_> = TranslationUnit { source: "second", targets: RADEON };
const LIBRARY: Link<'_> = Link { name: "libfat.so", units: &[ONE, TWO], compile: &[], link: &["-shared"] };

fn read(path: &Path) -> Option<FatBinary> {
    let file = fs_err::File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    FatBinary::read(file.file(), size).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn size(path: &Path) -> u64 {
    fs_err::metadata(path).unwrap().len()
}

fn marker(bundle: usize) -> Marker {
    Marker { kernel_name: format!("unit{bundle}"), search_paths: vec!["k".to_owned()] }
}

/// Creates a page with a marker for every bundle.
fn page(bundles: usize) -> (Vec<u8>, Vec<u64>) {
    let (mut bytes, mut places) = (Vec::new(), Vec::new());
    for bundle in 0..bundles {
        places.push(bytes.len() as u64);
        bytes.extend(marker(bundle).encode().unwrap());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    (bytes, places)
}

fn write<R: ReadAt>(patched: &rocwheel_elf::Patched<R>, to: &Path) {
    let mut bytes = vec![0; usize::try_from(patched.size()).unwrap()];
    patched.read_exact_at(0, &mut bytes).unwrap();
    fs_err::write(to, bytes).unwrap();
    fs_err::set_permissions(to, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn replaced(path: &Path, content: Vec<u8>, wrappers: Vec<NewWrapper>, name: &str) -> PathBuf {
    let file = fs_err::File::open(path).unwrap();
    let fat = read(path).unwrap();
    let with = Replacement { size: content.len() as u64, content: Arc::new(content), wrappers };
    let patch = fat.replace(file.file(), with).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let to = path.with_file_name(name);
    write(&rocwheel_elf::Patched::new(file.file(), patch), &to);
    to
}

/// Removes the code from a file: every wrapper points at the marker for the bundle that it pointed
/// at.
fn split(path: &Path, name: &str) -> PathBuf {
    let fat = read(path).unwrap();
    let (content, places) = page(fat.bundles.len());
    let wrappers = fat.wrappers.iter().map(|wrapper| {
        let Points::Bundle(bundle) = wrapper.points else { panic!("{wrapper:?}") };
        NewWrapper { magic: Magic::Kpacked, pointer: places[bundle], index: bundle as u64 }
    });
    let wrappers = wrappers.collect();
    replaced(path, content, wrappers, name)
}

/// Puts the original's code back into a file that was split.
fn fused(path: &Path, original: &Path, name: &str) -> PathBuf {
    let before = read(original).unwrap();
    let bytes = fs_err::read(original).unwrap();
    let content = bytes[before.section.start as usize..before.section.end as usize].to_vec();
    let wrappers = before.wrappers.iter().map(|wrapper| {
        let Points::Bundle(bundle) = wrapper.points else { panic!("{wrapper:?}") };
        NewWrapper { magic: Magic::Fat, pointer: before.bundles[bundle].offset, index: 0 }
    });
    let wrappers = wrappers.collect();
    replaced(path, content, wrappers, name)
}

fn readelf_is_content(path: &Path) {
    for tool in ["readelf", "llvm-readelf-19"] {
        let output = Command::new(tool).args(["-l", "-S", "-d", "-W", "-s"]).arg(path).env("LC_ALL", "C").output();
        let output = output.unwrap_or_else(|error| panic!("`{tool}` is needed for this test: {error}"));
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && complained.is_empty(), "{}: {complained}", path.display());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.to_lowercase().contains("warning"), "{}: {said}", path.display());
    }
}

/// Loads the file, and checks that every registration leads to what the file contains.
fn loads(gpu: &Gpu, path: &Path, is_library: bool, magic: Magic, what: &str) -> String {
    let fat = read(path).unwrap();
    let said = gpu.load(path, is_library).unwrap_or_else(|error| panic!("{what}: {error}"));
    let registered: Vec<&str> = said.lines().filter(|line| line.starts_with("register ")).collect();
    assert!(!registered.is_empty(), "{what}: {said}");
    let expected: BTreeSet<String> = fat
        .wrappers
        .iter()
        .map(|wrapper| match wrapper.points {
            Points::Bundle(_) if magic == Magic::Fat => "register fat version 1 index 0".to_owned(),
            Points::Marker(number) if magic == Magic::Kpacked => {
                let bundle = fat.markers[number].0.kernel_name.clone();
                assert_eq!(bundle, format!("unit{}", wrapper.index), "{what}");
                format!("register kpacked version 1 index {}", wrapper.index)
            }
            _ => panic!("{what}: {wrapper:?}"),
        })
        .collect();
    for line in registered {
        let (head, reached) = line.split_once(" reaches ").unwrap();
        assert!(expected.contains(head), "{what}: {line}");
        if magic == Magic::Fat {
            assert!(reached.starts_with("__CLANG_OFFLOAD_BUNDLE__") || reached.starts_with("CCOB"), "{what}: {line}");
        } else {
            let index = head.rsplit(' ').next().unwrap();
            assert!(reached.contains(&format!("unit{index}")), "{what}: {line}");
        }
    }
    said
}

/// Returns the bytes of the bundles.
fn codes(path: &Path) -> Vec<Vec<u8>> {
    let fat = read(path).unwrap();
    let bytes = fs_err::read(path).unwrap();
    let bundle = |bundle: &rocwheel_kpack::Bundle| {
        let start = (fat.section.start + bundle.offset) as usize;
        bytes[start..start + bundle.length as usize].to_vec()
    };
    fat.bundles.iter().map(bundle).collect()
}

/// Returns the printed registrations without their targets.
fn order(said: &str) -> Vec<String> {
    said.lines()
        .map(|line| if line.starts_with("register") { "register".to_owned() } else { line.to_owned() })
        .collect()
}

/// `true` if the file with its code inside still works after a tool has changed it.
fn survives(gpu: &Gpu, file: &Path, is_library: bool, tool: &str, arguments: &[&str]) -> bool {
    let copy = gpu.path("control");
    fs_err::copy(file, &copy).unwrap();
    let mut arguments = arguments.to_vec();
    arguments.pop();
    let text = copy.to_str().unwrap().to_owned();
    arguments.push(&text);
    gpu.run(tool, &arguments);
    gpu.load(&copy, is_library).is_ok()
}

/// Makes all changes to a file: removes the code, strips and edits, puts the code back.
fn check(gpu: &Gpu, file: &Path, is_library: bool, bundles: usize, lost: &[&str]) {
    let original = loads(gpu, file, is_library, Magic::Fat, "as built");
    let before = read(file).unwrap();
    assert_eq!(before.bundles.len(), bundles);
    let taken = split(file, "split");
    readelf_is_content(&taken);
    let after = read(&taken).unwrap();
    assert_eq!(after.wrappers.len(), before.wrappers.len());
    assert_eq!(after.markers.len(), bundles);
    assert_eq!(after.address, before.address);
    let code = before.section.end - before.section.start;
    assert!(size(&taken) <= size(file) - code.saturating_sub(3 * 4096), "{} {} {code}", size(&taken), size(file));
    let said = loads(gpu, &taken, is_library, Magic::Kpacked, "split");
    assert_eq!(order(&said), order(&original));
    let edit = rocwheel_elf::Edit {
        search_path: Some(rocwheel_elf::SearchPath::Add(vec!["$ORIGIN/../somewhere/lib".to_owned()])),
        ..rocwheel_elf::Edit::default()
    };
    let tools: [(&str, &[&str]); 5] = [
        ("strip", &["-g"]),
        ("strip", &[]),
        ("llvm-strip-19", &[]),
        ("patchelf", &["--set-rpath", "$ORIGIN/a/rather/long/path/that/does/not/fit/anywhere:$ORIGIN/another"]),
        ("objcopy", &["--remove-section=.comment"]),
    ];
    for (number, (tool, arguments)) in tools.into_iter().enumerate() {
        let copy = gpu.path(format!("split-{number}"));
        fs_err::copy(&taken, &copy).unwrap();
        let what = format!("split, then {tool} {arguments:?}");
        let mut arguments = arguments.to_vec();
        let text = copy.to_str().unwrap().to_owned();
        arguments.push(&text);
        gpu.run(tool, &arguments);
        if gpu.load(&copy, is_library).is_err() && !survives(gpu, file, is_library, tool, &arguments) {
            assert!(lost.contains(&tool), "the original does not load either after {tool}");
            continue;
        }
        loads(gpu, &copy, is_library, Magic::Kpacked, &what);
        let stripped = size(&copy);
        rocwheel_elf::edit_file(&copy, &edit).unwrap();
        loads(gpu, &copy, is_library, Magic::Kpacked, &format!("{what}, then an edit"));
        // patchelf rewrites programs so that nothing behind their header table can move any more.
        let moves_table = tool == "patchelf" && !is_library;
        assert!(moves_table || size(&copy) < stripped + 2 * 4096, "{what}: {stripped} grew to {}", size(&copy));
        let back = fused(&copy, file, &format!("fused-{number}"));
        let said = loads(gpu, &back, is_library, Magic::Fat, &format!("{what}, then an edit, then put back"));
        assert_eq!(order(&said), order(&original));
        assert_eq!(codes(&back), codes(file), "{what}");
        if tool == "patchelf" || !lost.is_empty() {
            // A file that patchelf 0.14 has edited does not survive GNU strip, with or without our
            // edit.
            continue;
        }
        gpu.run("strip", &[back.to_str().unwrap()]);
        loads(gpu, &back, is_library, Magic::Fat, &format!("{what}, then an edit, then put back, then strip"));
        assert_eq!(codes(&back), codes(file), "{what}");
    }
    let copy = gpu.path("edited");
    fs_err::copy(&taken, &copy).unwrap();
    rocwheel_elf::edit_file(&copy, &edit).unwrap();
    assert!(size(&copy) < size(&taken) + 2 * 4096, "{} grew to {}", size(&taken), size(&copy));
    readelf_is_content(&copy);
    loads(gpu, &copy, is_library, Magic::Kpacked, "split, then an edit");
    let back = fused(&taken, file, "fused");
    readelf_is_content(&back);
    let said = loads(gpu, &back, is_library, Magic::Fat, "put back");
    assert_eq!(order(&said), order(&original));
    assert_eq!(codes(&back), codes(file));
    assert!(size(&back) <= size(file) + 3 * 4096, "{} grew to {}", size(file), size(&back));
    let again = split(&back, "again");
    loads(gpu, &again, is_library, Magic::Kpacked, "put back, then split again");
    assert!(size(&again) <= size(&taken) + 3 * 4096, "{} grew to {}", size(&taken), size(&again));
}

fn case(compile: &[&str], link: &[&str], bundles: usize) {
    let gpu = Gpu::new();
    let is_library = link.contains(&"-shared");
    let file = gpu.build(&Link { compile, link, ..LIBRARY });
    check(&gpu, &file, is_library, bundles, &[]);
}

macro_rules! cases {
    ($($name:ident: $compile:expr, $link:expr, $bundles:expr;)*) => {
        $(#[test]
        fn $name() {
            case(&$compile, &$link, $bundles);
        })*
    };
}

cases! {
    two_units_with_different_targets: [], ["-shared"], 2;
    compressed_bundles: ["--offload-compress"], ["-shared"], 2;
    several_wrappers_for_one_bundle: ["-fgpu-rdc"], ["-shared"], 1;
    a_program_at_a_fixed_address: [], ["-no-pie"], 2;
    a_position_independent_program: [], ["-pie"], 2;
    a_program_by_lld: [], ["-fuse-ld=lld-19", "-pie"], 2;
    a_program_at_a_fixed_address_by_lld: [], ["-fuse-ld=lld-19", "-no-pie"], 2;
    packed_relocations: [], ["-fuse-ld=lld-19", "-shared", "-Wl,-z,pack-relative-relocs"], 2;
    packed_relocations_by_bfd: [], ["-shared", "-Wl,-z,pack-relative-relocs"], 2;
    lld: [], ["-fuse-ld=lld-19", "-shared"], 2;
    lld_with_separate_code: [], ["-fuse-ld=lld-19", "-shared", "-Wl,-z,separate-code"], 2;
    gold: [], ["-fuse-ld=gold", "-shared"], 2;
    code_and_data_in_one_segment: [], ["-shared", "-Wl,-z,noseparate-code"], 2;
    large_pages: [], ["-shared", "-Wl,-z,max-page-size=0x200000"], 2;
    large_pages_by_lld: [], ["-fuse-ld=lld-19", "-shared", "-Wl,-z,max-page-size=0x10000"], 2;
}

#[test]
fn a_stripped_library() {
    let gpu = Gpu::new();
    let file = gpu.build(&LIBRARY);
    gpu.run("strip", &["libfat.so"]);
    check(&gpu, &file, true, 2, &[]);
}

#[test]
fn a_library_that_patchelf_has_edited() {
    let gpu = Gpu::new();
    let file = gpu.build(&LIBRARY);
    for path in ["/a/path/that/takes/room", "/another/path/that/takes/even/more/room/than/the/first/one/took"] {
        gpu.run("patchelf", &["--force-rpath", "--set-rpath", path, "libfat.so"]);
        gpu.run("patchelf", &["--add-needed", "libm.so.6", "libfat.so"]);
    }
    check(&gpu, &file, true, 2, &["strip", "objcopy"]);
}

#[test]
fn a_library_that_was_edited_before() {
    let gpu = Gpu::new();
    let file = gpu.build(&LIBRARY);
    let path = rocwheel_elf::SearchPath::Set(vec!["$ORIGIN/of/the/first/edit".to_owned()]);
    rocwheel_elf::edit_file(&file, &rocwheel_elf::Edit { search_path: Some(path), ..rocwheel_elf::Edit::default() })
        .unwrap();
    check(&gpu, &file, true, 2, &[]);
}

#[test]
fn without_section_headers_there_is_nothing_to_find() {
    let gpu = Gpu::new();
    let file = gpu.build(&LIBRARY);
    gpu.run("llvm-strip-19", &["--strip-sections", "libfat.so"]);
    assert_eq!(read(&file), None);
}

/// Returns the bytes of every section except the device code, which the edit must not change.
fn others(path: &Path) -> Vec<(String, Vec<u8>)> {
    let bytes = fs_err::read(path).unwrap();
    let pe = rocwheel_elf::Pe::read(&bytes).unwrap().unwrap();
    let others = pe.sections.iter().filter(|section| ![".hip_fat", ".hipFatB"].contains(&section.name.as_str()));
    others.map(|one| (one.name.clone(), bytes[one.file.start as usize..one.file.end as usize].to_vec())).collect()
}

#[test]
fn a_windows_library() {
    let gpu = Gpu::new();
    for compile in [&[][..], &["--offload-compress"]] {
        let file = gpu.build_windows("fat.dll", RADEON, compile);
        let fat = read(&file).unwrap();
        assert_eq!((fat.format, fat.bundles.len()), (rocwheel_kpack::Format::Pe, 2));
        assert_eq!(fat.bundles[0].entries.len(), 3, "{:?}", fat.bundles);
        let points: Vec<Points> = fat.wrappers.iter().map(|wrapper| wrapper.points).collect();
        assert_eq!(points, [Points::Bundle(0), Points::Bundle(1)]);
        let taken = split(&file, "taken.dll");
        let after = read(&taken).unwrap();
        assert!(after.bundles.is_empty());
        for (wrapper, index) in after.wrappers.iter().zip(0..) {
            let Points::Marker(marker) = wrapper.points else { panic!("{wrapper:?}") };
            assert_eq!(after.markers[marker].0, crate::marker(index as usize));
            assert_eq!((wrapper.magic, wrapper.index), (Magic::Kpacked, index));
        }
        let code = fat.section.end - fat.section.start;
        assert!(size(&taken) <= size(&file) - code + 1024, "{} {} {code}", size(&taken), size(&file));
        assert_eq!(others(&taken), others(&file));
        let listed = |path: &Path| {
            let path = path.to_str().unwrap();
            let what = ["--coff-basereloc", "--coff-imports", "--coff-exports", "--coff-debug-directory"];
            let said = gpu.run("llvm-readobj-19", &[&what[..], &[path]].concat());
            said.lines().filter(|line| !line.starts_with("File:")).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(listed(&taken), listed(&file));
        for wrapper in &after.wrappers {
            assert!(listed(&taken).contains(&format!("0x{:X}", wrapper.address + 8)), "{}", listed(&taken));
        }
        let back = fused(&taken, &file, "back.dll");
        assert_eq!(read(&back).unwrap(), fat);
        assert_eq!(codes(&back), codes(&file));
        assert_eq!((size(&back), others(&back)), (size(&file), others(&file)));
    }
}
