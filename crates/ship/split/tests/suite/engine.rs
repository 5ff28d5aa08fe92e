//! Splits of libraries of every form.

use rocwheel_fixtures::gpu::Link;
use rocwheel_kpack::archive::{KpackArchive, Scheme};
use rocwheel_kpack::bundle::Checksum;
use rocwheel_kpack::fatbin::{FatBinary, Magic};
use rocwheel_progress::{Failure, Silent};
use rocwheel_split::{CandidateFile, Options, Packing, TargetNames, TargetSelection, UnchangedReason};
use std::sync::Arc;

use crate::fixture::{self, ALL, Settings, library, split, unit};

fn check(files: &[(&str, Vec<u8>)]) -> fixture::Split {
    let split = split(files, &Settings::default());
    assert_eq!(split.differences(), Vec::<String>::new());
    split
}

fn fat(bytes: &[u8]) -> FatBinary {
    FatBinary::read(&bytes.to_vec(), bytes.len() as u64).unwrap().unwrap()
}

#[test]
fn code_goes_into_one_archive_for_each_base_target() {
    let split = check(&[("lib/plain.so", fixture::plain())]);
    assert_eq!(split.archives(), ["test_lib_gfx1100.kpack", "test_lib_gfx90a.kpack", "test_lib_gfx942.kpack"]);
    let bytes = &split.after[".kpack/test_lib_gfx90a.kpack"];
    let archive = KpackArchive::open(bytes, bytes.len() as u64).unwrap();
    assert_eq!(archive.targets, ["gfx90a:xnack+", "gfx90a:xnack-"]);
    let after = fat(&split.after["lib/plain.so"]);
    assert!(after.bundles.is_empty());
    assert_eq!(after.markers[0].0.kernel_name, "stage/lib/plain.so");
    assert_eq!(after.markers[0].0.search_paths, ["../.kpack/test_lib_@GFXARCH@.kpack"]);
    let (before, after) = (fixture::plain().len(), split.after["lib/plain.so"].len());
    assert!(after + 3 * 4096 < before, "{after} of {before} bytes");
}

#[test]
fn an_index_is_the_number_of_the_bundle_that_the_wrapper_reached() {
    let split = check(&[("lib/uneven.so", fixture::uneven())]);
    let after = fat(&split.after["lib/uneven.so"]);
    let wrappers: Vec<_> = after.wrappers.iter().map(|wrapper| (wrapper.magic, wrapper.index)).collect();
    assert_eq!(wrappers, [(Magic::Kpacked, 0), (Magic::Kpacked, 1)]);
    assert_eq!(
        split.archives(),
        ["test_lib_gfx1100.kpack", "test_lib_set2_gfx1100.kpack", "test_lib_set2_gfx942.kpack"],
        "units with different targets share no archive"
    );
    let names: Vec<&str> = after.markers.iter().map(|(marker, _)| marker.kernel_name.as_str()).collect();
    assert_eq!(names, ["stage/lib/uneven.so"; 2], "a marker for each set");
}

#[test]
fn wrappers_of_one_bundle_share_its_index() {
    let targets = &["gfx1100", "gfx942"];
    let rdc = library("rdc.so", &[unit("first", targets), unit("second", targets)], &["-fgpu-rdc"]);
    assert_eq!((fat(&rdc).wrappers.len(), fat(&rdc).bundles.len()), (2, 1), "the fixture");
    let split = check(&[("lib/rdc.so", rdc)]);
    let after = fat(&split.after["lib/rdc.so"]);
    assert!(after.wrappers.iter().all(|wrapper| wrapper.index == 0));
    assert_eq!(split.report(&TargetSelection::ALL).code().0, 2);
}

#[test]
fn compressed_bundles_and_every_kind_of_link() {
    let compressed = library("compressed.so", &[unit("first", ALL), unit("second", ALL)], &["--offload-compress"]);
    assert!(fat(&compressed).bundles.iter().all(|bundle| bundle.compression.is_some()), "the fixture");
    let units = [unit("first", &["gfx942"]), unit("second", &["gfx942"])];
    let relr = Link {
        name: "relr.so",
        units: &units,
        compile: &[],
        link: &["-shared", "-fuse-ld=lld-19", "-Wl,-z,pack-relative-relocs"],
    };
    let fixed = Link { name: "fixed", units: &units, compile: &[], link: &["-no-pie"] };
    let pie = Link { name: "pie", units: &units, compile: &[], link: &["-pie"] };
    let files = [
        ("lib/compressed.so", compressed),
        ("lib/relr.so", fixture::built(&relr)),
        ("bin/fixed", fixture::built(&fixed)),
        ("bin/pie", fixture::built(&pie)),
        ("lib/stripped.so", stripped()),
    ];
    let split = check(&files);
    let report = split.report(&TargetSelection::ALL);
    assert_eq!(report.binaries.len(), 5);
    assert_eq!(report.code().0, 8 + 2 + 2 + 2 + 4);
}

#[test]
fn windows_libraries() {
    for (name, compile) in [("plain.dll", &[][..]), ("compressed.dll", &["--offload-compress"])] {
        let path = fixture::gpu().build_windows(name, &["gfx1100", "gfx1201"], compile);
        let bytes = fs_err::read(path).unwrap();
        let mut split = check(&[("bin/library.dll", bytes)]);
        let after = fat(&split.after["bin/library.dll"]);
        assert_eq!(after.format, rocwheel_kpack::Format::Pe);
        assert!(after.bundles.is_empty() && after.wrappers.iter().all(|wrapper| wrapper.magic == Magic::Kpacked));
        assert_eq!(split.report(&TargetSelection::ALL).code().0, 4);
        let host = split.after.get_mut("bin/library.dll").unwrap();
        let section = rocwheel_elf::Pe::read(host).unwrap().unwrap();
        let text = section.sections.iter().find(|section| section.name == ".text").unwrap().file.start as usize;
        host[text + 5] ^= 1;
        assert_eq!(split.differences(), ["`bin/library.dll`: its section `.text` differs at byte 5"]);
    }
}

#[test]
fn libraries_that_other_tools_have_edited_or_linked() {
    let units = [unit("first", ALL), unit("second", ALL)];
    let linked = |name: &str, link: &[&str]| {
        fixture::built(&Link { name, units: &units, compile: &[], link: &[&["-shared"], link].concat() })
    };
    let gpu = fixture::gpu();
    fs_err::write(gpu.path("edited.so"), linked("before-edit.so", &[])).unwrap();
    let long = "/a/path/that/takes/more/room/than/the/file/has".repeat(8);
    gpu.run("patchelf", &["--force-rpath", "--set-rpath", &long, "edited.so"]);
    let files = [
        ("lib/edited.so", fs_err::read(gpu.path("edited.so")).unwrap()),
        ("lib/lld.so", linked("lld.so", &["-fuse-ld=lld-19"])),
        ("lib/gold.so", linked("gold.so", &["-fuse-ld=gold"])),
        ("lib/together.so", linked("together.so", &["-Wl,-z,noseparate-code"])),
        ("lib/large.so", linked("large.so", &["-fuse-ld=lld-19", "-Wl,-z,max-page-size=0x10000"])),
        ("lib/now.so", linked("now.so", &["-Wl,-z,now,-z,relro", "-Wl,--hash-style=both"])),
    ];
    let split = check(&files);
    assert_eq!(split.report(&TargetSelection::ALL).code().0, 6 * 8);
    for (path, bytes) in &files {
        let after = &split.after[*path];
        assert!(after.len() < bytes.len(), "{path}");
        let name = path.replace('/', "-");
        fs_err::write(gpu.path(&name), after).unwrap();
        gpu.load(&gpu.path(&name), true).unwrap();
    }
}

fn stripped() -> Vec<u8> {
    let path = fixture::gpu().path("stripped.so");
    fs_err::write(&path, fixture::plain()).unwrap();
    fixture::gpu().run("strip", &["stripped.so"]);
    fs_err::read(path).unwrap()
}

#[test]
fn host_files_still_load_after_strip() {
    let split = check(&[("lib/twin.so", fixture::twin())]);
    let gpu = fixture::gpu();
    let said = |name: &str, bytes: &[u8]| {
        fs_err::write(gpu.path(name), bytes).unwrap();
        gpu.run("strip", &[name]);
        gpu.load(&gpu.path(name), true).unwrap()
    };
    let after = said("twin-after.so", &split.after["lib/twin.so"]);
    for index in [0, 1] {
        assert!(
            after.contains(&format!("register kpacked version 1 index {index} reaches ..kpack_search_paths")),
            "{after}"
        );
    }
}

#[test]
fn equal_names_in_different_directories_stay_apart() {
    let split = check(&[("lib/a/x.so", fixture::plain()), ("lib/b/x.so", fixture::twin())]);
    let report = split.report(&TargetSelection::ALL);
    assert_eq!(report.code().0, 4 + 4);
    let error = plan(&[("stage/x.so", fixture::plain()), ("stage/x.so", fixture::twin())]).unwrap_err();
    assert_eq!(error.to_string(), "`stage/x.so` is given twice");
}

fn plan(files: &[(&str, Vec<u8>)]) -> Result<rocwheel_split::Plan, Failure> {
    let units: Vec<CandidateFile> =
        files.iter().map(|(key, bytes)| CandidateFile::new(*key, Arc::new(bytes.clone()), "x.so", ".kpack")).collect();
    let options = Options {
        group: "x".into(),
        selection: TargetSelection::ALL,
        names: TargetNames::Base,
        checksum: Checksum::Compare,
    };
    rocwheel_split::plan(&units, &options, &Silent)
}

#[test]
fn code_that_nothing_registers_is_left_alone() {
    let gpu = fixture::gpu();
    fs_err::write(gpu.path("alone.so"), fixture::plain()).unwrap();
    gpu.run("objcopy", &["--rename-section", ".hipFatBinSegment=.other", "alone.so", "unregistered.so"]);
    let bytes = fs_err::read(gpu.path("unregistered.so")).unwrap();
    let split = check(&[("lib/unregistered.so", bytes.clone()), ("lib/plain.so", fixture::plain())]);
    assert_eq!(split.plan.left_alone.len(), 1);
    assert_eq!(split.plan.left_alone[0].reason, UnchangedReason::NoWrappers);
    assert_eq!(split.after["lib/unregistered.so"], bytes);
    let report = split.report(&TargetSelection::ALL);
    assert_eq!(report.binaries[1].left_alone, Some(UnchangedReason::NoWrappers));
}

#[test]
fn what_is_split_already_stays_as_it_is() {
    let once = check(&[("lib/plain.so", fixture::plain())]);
    let again = plan(&[("stage/lib/plain.so", once.after["lib/plain.so"].clone())]).unwrap();
    assert!(again.binaries.is_empty() && again.archives.is_empty());
    assert_eq!(again.left_alone[0].reason, UnchangedReason::AlreadySplit);
}

#[test]
fn a_selection_drops_the_rest_and_leaves_the_host_part_the_same() {
    let files = [("lib/uneven.so", fixture::uneven()), ("lib/plain.so", fixture::plain())];
    let all = split(&files, &Settings::default());
    let selection = TargetSelection::only(vec!["gfx942".into()]);
    let some = split(&files, &Settings { selection: selection.clone(), ..Settings::default() });
    assert_eq!(some.archives(), ["test_lib_set2_gfx942.kpack", "test_lib_set3_gfx942.kpack"]);
    assert_eq!(some.after["lib/uneven.so"], all.after["lib/uneven.so"]);
    let report = some.report(&selection);
    assert!(report.is_clean(), "{:?}", report.differences);
    assert_eq!(report.code().0, 2);
    assert!(!some.report(&TargetSelection::ALL).is_clean(), "for all targets, something is missing");
    assert!(!all.report(&selection).is_clean(), "for one target, there is too much");

    let units = [CandidateFile::new("x.so", Arc::new(fixture::plain()), "x.so", ".kpack")];
    let selection = TargetSelection::only(vec!["gfx1201".into()]);
    let options = Options { group: "x".into(), selection, names: TargetNames::Base, checksum: Checksum::Compare };
    let error = rocwheel_split::plan(&units, &options, &Silent).unwrap_err();
    let text = "there is no GPU code for gfx1201: the input has code for gfx90a:xnack+, gfx90a:xnack-, gfx942, gfx1100";
    assert_eq!(error.to_string(), text);
}

#[test]
fn verbatim_names_are_those_of_existing_tools() {
    let settings = Settings { names: TargetNames::Verbatim, ..Settings::default() };
    let split = split(&[("lib/plain.so", fixture::plain())], &settings);
    assert_eq!(split.differences(), Vec::<String>::new());
    assert_eq!(
        split.archives(),
        [
            "test_lib_gfx1100.kpack",
            "test_lib_gfx90a:xnack+.kpack",
            "test_lib_gfx90a:xnack-.kpack",
            "test_lib_gfx942.kpack"
        ]
    );
}

#[test]
fn the_same_bytes_for_any_number_of_threads_and_without_compression() {
    let compressed = library("threads.so", &[unit("first", ALL), unit("second", ALL)], &["--offload-compress"]);
    let files = [("lib/plain.so", fixture::plain()), ("lib/z.so", compressed), ("lib/uneven.so", fixture::uneven())];
    for packing in [Packing::default(), Packing { scheme: Scheme::None, ..Packing::default() }] {
        let with = |threads: usize, packing: Packing| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| split(&files, &Settings { packing, ..Settings::default() }))
        };
        let (one, many) = (with(1, packing), with(8, packing));
        assert!(one.after == many.after, "{packing:?}");
        // Code objects that wait in a file instead of memory: all of them, and some.
        for memory in [0, 100_000] {
            assert!(with(4, Packing { memory, ..packing }).after == many.after, "{packing:?}, {memory} bytes");
        }
        assert_eq!(many.differences(), Vec::<String>::new());
    }
}

#[test]
fn a_damaged_bundle_is_named_and_nothing_is_made_of_it() {
    let mut bytes = fixture::plain();
    let found = fat(&bytes);
    let at = (found.section.start + found.bundles[0].offset) as usize;
    bytes[at + 24..at + 32].copy_from_slice(&u64::MAX.to_le_bytes());
    let error = plan(&[("stage/lib/broken.so", bytes)]).unwrap_err();
    assert_eq!(error.to_string(), "could not read the GPU code of `stage/lib/broken.so`");
}

#[test]
fn targets_that_are_paths_or_there_twice_are_refused() {
    let renamed = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let mut bytes = fixture::plain();
        let place = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
        plan(&[("stage/x.so", bytes)]).unwrap_err().to_string()
    };
    assert_eq!(
        renamed("--gfx1100", "--../../x"),
        "`stage/x.so` has code for a target called `../../x`, which cannot be part of a file name"
    );
    assert_eq!(
        renamed("--gfx90a:xnack-", "--gfx90a:xnack+"),
        "bundle 0 of `stage/x.so` has two code objects for `gfx90a:xnack+`"
    );
    let unnamed = renamed("amdhsa--gfx1100", "amdhsa-_gfx1100");
    assert!(unnamed.contains("names no GPU target"), "{unnamed}");
}

#[test]
fn names_that_no_gpu_has_are_kept_and_said() {
    let mut bytes = fixture::plain();
    let (from, to) = (b"--gfx90a:xnack+", b"--gfx90a:xnakk+");
    let place = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes[place..place + to.len()].copy_from_slice(to);
    let mut split = check(&[("lib/plain.so", bytes)]);
    let report = split.report(&TargetSelection::ALL);
    assert_eq!(report.code().0, 4);
    let said = "`lib/plain.so`, wrapper 0, gfx90a:xnakk+: no GPU asks for code under this name";
    assert!(report.notes.iter().any(|note| note.to_string() == said), "{:?}", report.notes);
    split.after.remove(".kpack/test_lib_gfx90a.kpack");
    let said = "`lib/plain.so`, wrapper 0, gfx90a:xnakk+: it is in no archive that the marker leads to";
    assert!(split.differences().iter().any(|difference| difference == said));
}

#[test]
fn unknown_targets_are_kept_under_their_own_name() {
    let mut bytes = fixture::plain();
    for (from, to) in [("--gfx1100", "--gfx9999"), ("--gfx942", "--gfx803")] {
        let place = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
    }
    let split = check(&[("lib/plain.so", bytes)]);
    assert_eq!(split.archives(), ["test_lib_gfx803.kpack", "test_lib_gfx90a.kpack", "test_lib_gfx9999.kpack"]);
    let notes: Vec<String> = split.report(&TargetSelection::ALL).notes.iter().map(ToString::to_string).collect();
    assert_eq!(notes.len(), 2, "the code objects themselves say otherwise: {notes:?}");
    assert!(notes[0].contains("wrapper 0, gfx803: the code object says of itself that it is for gfx942"), "{notes:?}");
}

#[test]
fn a_large_code_object_is_packed_and_compared_as_a_stream() {
    // 33 MiB for each target, in a compressed bundle of 12 kB and in a plain one.
    let size = "-DLARGE=34603008";
    let targets: &[&str] = &["gfx942", "gfx1100"];
    let compressed = library("large.so", &[unit("third", targets)], &[size, "--offload-compress"]);
    let mut alone = split(&[("lib/large.so", compressed)], &Settings::default());
    assert_eq!(alone.differences(), Vec::<String>::new());
    let stored: usize =
        alone.after.iter().filter(|(path, _)| path.starts_with(".kpack/")).map(|(_, bytes)| bytes.len()).sum();
    assert!(stored < 100_000, "{stored} bytes in archives");
    let plain = library("large-plain.so", &[unit("third", targets)], &[size]);
    let stored = Packing { scheme: Scheme::None, ..Packing::default() };
    for packing in [Packing::default(), stored] {
        let split = split(&[("lib/large.so", plain.clone())], &Settings { packing, ..Settings::default() });
        assert_eq!(split.differences(), Vec::<String>::new(), "{packing:?}");
    }
    // A byte in the middle of an archive.
    let archive = alone.after.get_mut(".kpack/test_lib_gfx942.kpack").unwrap();
    let middle = archive.len() / 4;
    archive[middle] ^= 0x10;
    assert_eq!(alone.differences().len(), 1, "{:?}", alone.differences());
}

#[test]
fn the_archives_of_compressed_bundles_are_foreseen() {
    let many: &[&str] = &["gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1102"];
    let library = library("foreseen.so", &[unit("first", many), unit("second", many)], &["--offload-compress"]);
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("libforeseen.so"), folder.path().join("split"));
    fs_err::write(&input, library).unwrap();
    let request = rocwheel_split::files::Request {
        selection: TargetSelection::ALL,
        names: TargetNames::Base,
        packing: Packing::default(),
        verification: rocwheel_split::verify::Verification::Full,
    };
    let plan = rocwheel_split::files::plan(&[input], &request, &Silent).unwrap();
    let forecast = rocwheel_split::files::forecast(&plan, request.packing, &Silent).unwrap();
    let outcome = rocwheel_split::files::execute(&plan, &request, &output, &Silent).unwrap();
    assert_eq!(forecast.before, outcome.section_bytes);
    assert!(forecast.grows() && outcome.archive_bytes > outcome.section_bytes, "{forecast:?} {outcome:?}");
    // The tables of contents are not foreseen; here they are as large as the code.
    let most = outcome.archive_bytes;
    assert!((most / 3..most).contains(&forecast.after), "{forecast:?}, but {most} bytes");
    assert!(forecast.largest < forecast.after / 6 && forecast.largest > forecast.after / 10, "{forecast:?}");
}
