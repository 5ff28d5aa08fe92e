//! A runtime that follows the rules of the real one to the letter (kpack specification 1.1, 4.1 and
//! 4.2) and shares no code with the checks. Every kind of GPU looks up the code of every wrapper,
//! before the split and after.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_kpack::archive::KpackArchive;
use rocwheel_kpack::fatbin::{FatBinary, Points};

use crate::fixture::{self, ALL, Settings, library, split, unit};

/// Processor, its generic target, and the flags for the settings sramecc and xnack.
const GPUS: &[(&str, Option<&str>, bool, bool)] = &[
    ("gfx803", None, false, false),
    ("gfx900", Some("gfx9-generic"), false, true),
    ("gfx906", Some("gfx9-generic"), true, true),
    ("gfx908", None, true, true),
    ("gfx90a", None, true, true),
    ("gfx942", Some("gfx9-4-generic"), true, true),
    ("gfx950", Some("gfx9-4-generic"), true, true),
    ("gfx1030", Some("gfx10-3-generic"), false, false),
    ("gfx1100", Some("gfx11-generic"), false, false),
    ("gfx1101", Some("gfx11-generic"), false, false),
    ("gfx1151", Some("gfx11-generic"), false, false),
    ("gfx1201", Some("gfx12-generic"), false, false),
];

/// Returns the names of all GPUs: each processor with each setting that it has.
fn names() -> Vec<(String, Option<String>)> {
    let mut names = Vec::new();
    for (processor, generic, sramecc, xnack) in GPUS {
        let settings = |has: bool, name: &str| {
            if has { vec![format!(":{name}+"), format!(":{name}-")] } else { vec![String::new()] }
        };
        for sramecc in settings(*sramecc, "sramecc") {
            for xnack in settings(*xnack, "xnack") {
                let generic = generic.map(|generic| format!("{generic}{sramecc}{xnack}"));
                names.push((format!("{processor}{sramecc}{xnack}"), generic));
            }
        }
    }
    names
}

/// Returns the names to try: `p:a:b` → `p:a:b`, `p:a`, `p:b`, `p`.
fn compatible(name: &str) -> Vec<String> {
    let parts: Vec<&str> = name.split(':').collect();
    match parts.as_slice() {
        [processor, first, second] => vec![
            name.to_owned(),
            format!("{processor}:{first}"),
            format!("{processor}:{second}"),
            (*processor).to_owned(),
        ],
        [processor, _] => vec![name.to_owned(), (*processor).to_owned()],
        _ => vec![name.to_owned()],
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Code(Vec<u8>),
    /// Errors 13 and 14: this GPU is skipped.
    Skipped,
    /// Error 5: the runtime gives up on all GPUs.
    Poisoned,
}

/// Follows `kpack_get_code_object`: search paths from the binary's directory, archives in order,
/// then targets in order.
fn load(files: &BTreeMap<String, Vec<u8>>, binary: &str, wrapper: usize, gpu: &(String, Option<String>)) -> Answer {
    let bytes = &files[binary];
    let fat = FatBinary::read(bytes, bytes.len() as u64).unwrap().unwrap();
    let wrapper = fat.wrappers[wrapper];
    let Points::Marker(marker) = wrapper.points else { panic!("error 12: no marker") };
    let marker = &fat.markers[marker].0;
    let architectures: Vec<&String> = std::iter::once(&gpu.0).chain(&gpu.1).collect();
    let mut archives = Vec::new();
    for search in &marker.search_paths {
        let mut place: Vec<&str> = binary.split('/').collect();
        place.pop();
        for part in search.split('/') {
            match part {
                ".." => assert!(place.pop().is_some(), "{search} leaves the tree"),
                name => place.push(name),
            }
        }
        let path = place.join("/");
        for target in architectures.iter().flat_map(|architecture| compatible(architecture)) {
            archives.extend(files.get(&path.replacen("@GFXARCH@", &target, 1)));
        }
    }
    if archives.is_empty() {
        return Answer::Skipped;
    }
    for architecture in architectures {
        for target in compatible(architecture) {
            for bytes in &archives {
                let archive = KpackArchive::open(bytes, bytes.len() as u64).unwrap();
                if archive.targets.contains(&target) {
                    return match archive.find(&marker.kernel_name, wrapper.index as u32, &target) {
                        Some(found) => Answer::Code(archive.read(bytes, &found).unwrap()),
                        None => Answer::Poisoned,
                    };
                }
            }
        }
    }
    Answer::Skipped
}

/// Returns what a runtime finds in the bundle of a wrapper: the most specific code object that
/// fits.
fn fat(bytes: &[u8], wrapper: usize, gpu: &(String, Option<String>)) -> Option<Vec<u8>> {
    let bytes = bytes.to_vec();
    let fat = FatBinary::read(&bytes, bytes.len() as u64).unwrap().unwrap();
    let Points::Bundle(bundle) = fat.wrappers[wrapper].points else { panic!("no bundle") };
    let mut codes = BTreeMap::new();
    let collect = |entry: &rocwheel_kpack::BundleEntry, code: &[u8]| -> Result<(), rocwheel_kpack::Error> {
        if let Some(target) = entry.target() {
            codes.insert(target.to_owned(), code.to_vec());
        }
        Ok(())
    };
    fat.bundles[bundle].visit(&bytes, fat.section.clone(), collect).unwrap();
    let order = compatible(&gpu.0).into_iter().chain(gpu.1.iter().flat_map(|generic| compatible(generic)));
    order.into_iter().find_map(|target| codes.remove(&target))
}

/// Checks that every GPU finds the same code behind every wrapper as before. Returns the GPUs that
/// found any.
fn ask_all(files: &[(&str, Vec<u8>)]) -> BTreeSet<String> {
    let split = split(files, &Settings::default());
    assert_eq!(split.differences(), Vec::<String>::new());
    let mut served = BTreeSet::new();
    for (path, bytes) in files {
        let wrappers = FatBinary::read(bytes, bytes.len() as u64).unwrap().unwrap().wrappers.len();
        for wrapper in 0..wrappers {
            for gpu in names() {
                let expected = fat(bytes, wrapper, &gpu).map_or(Answer::Skipped, Answer::Code);
                let found = load(&split.after, path, wrapper, &gpu);
                assert!(found == expected, "{path}, wrapper {wrapper}, {}", gpu.0);
                if found != Answer::Skipped {
                    served.insert(gpu.0);
                }
            }
        }
    }
    served
}

#[test]
fn every_gpu_finds_what_it_found() {
    let served = ask_all(&[("lib/plain.so", fixture::plain()), ("lib/twin.so", fixture::twin())]);
    assert_eq!(served.len(), 4 + 4 + 1, "{served:?}");
}

#[test]
fn units_with_different_targets() {
    let served = ask_all(&[("lib/uneven.so", fixture::uneven())]);
    assert!(served.contains("gfx1100") && served.contains("gfx942:sramecc+:xnack-"), "{served:?}");
}

#[test]
fn plain_and_xnack_builds_side_by_side() {
    // Defect B25: the archive of the xnack builds must not hide the plain one's code.
    let plain = library("plain90a.so", &[unit("first", &["gfx90a", "gfx1100"])], &[]);
    let other = library("other90a.so", &[unit("second", &["gfx90a", "gfx1030"])], &[]);
    let served = ask_all(&[("lib/plain.so", plain), ("lib/xnack.so", fixture::plain()), ("bin/other.so", other)]);
    assert_eq!(served.iter().filter(|name| name.starts_with("gfx90a")).count(), 4, "{served:?}");
}

#[test]
fn generic_targets_serve_their_processors() {
    let version = &["-mcode-object-version=6"];
    let generic = library("generic.so", &[unit("first", &["gfx11-generic", "gfx1100", "gfx10-3-generic"])], version);
    let served = ask_all(&[("lib/generic.so", generic), ("lib/plain.so", fixture::plain())]);
    for name in ["gfx1100", "gfx1101", "gfx1151", "gfx1030"] {
        assert!(served.contains(name), "{served:?}");
    }
    assert!(!served.contains("gfx1201"), "{served:?}");
}

#[test]
fn compressed_and_linked_together() {
    let compressed = library("asked.so", &[unit("first", ALL), unit("second", &["gfx942"])], &["--offload-compress"]);
    let together = library("together.so", &[unit("first", &["gfx942"]), unit("second", &["gfx942"])], &["-fgpu-rdc"]);
    let served = ask_all(&[("lib/compressed.so", compressed), ("lib/together.so", together)]);
    assert_eq!(served.len(), 4 + 4 + 1, "{served:?}");
}
