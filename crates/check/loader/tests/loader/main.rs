//! Compares the simulated loader with glibc's own, which loads the same files in a child process.
//!
//! Debian packages: gcc, binutils, python3. A missing one fails.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;
mod python;
#[cfg(feature = "real")]
mod real;

use fixture::{Environment, Object, PACKAGES, library, listed, processor};
use rocwheel_loader::facts::SiteFacts;
use rocwheel_loader::simulation::{Loader, Scenario, SearchRule, Where};
use rocwheel_progress::Silent;

#[test]
fn a_diamond_with_a_cycle_is_loaded_breadth_first() {
    let mut environment = Environment::new();
    environment.wheel(
        "diamond",
        &[
            library("d/top.so", &["libleft.so.1", "libright.so.1", "libc.so.6"]).runpath("$ORIGIN/lib"),
            library("d/lib/libleft.so.1", &["libbottom.so.1"]).runpath("$ORIGIN"),
            library("d/lib/libright.so.1", &["libbottom.so.1", "libm.so.6", "top.so"]).runpath("${ORIGIN}"),
            library("d/lib/libbottom.so.1", &["libleft.so.1", "libbottom.so.1"]),
        ],
        &[],
    );
    let trace = environment.assert_as_listed("d/top.so", &Environment::scenario());
    let names: Vec<&str> = trace.loaded.iter().map(|loaded| loaded.name.as_str()).collect();
    assert_eq!(names[1..4], ["libleft.so.1", "libright.so.1", "libc.so.6"]);
    let bottom = trace.position(&format!("{PACKAGES}/d/lib/libbottom.so.1")).unwrap();
    assert_eq!(trace.loaded[bottom].by, SearchRule::RunPath { entry: "$ORIGIN".to_owned() });
    assert_eq!(trace.chain(bottom), [0, 1, bottom]);
    // libright needs the first one again, by its SONAME.
    assert_eq!(trace.loaded[2].needs[2], Some((0, SearchRule::AlreadyLoaded)));
}

#[test]
fn rpath_is_inherited_and_runpath_is_not() {
    let mut environment = Environment::new();
    environment.wheel(
        "inherit",
        &[
            // DT_RPATH applies to all indirect needs, at any depth.
            library("a/old.so", &["libone.so"]).rpath("$ORIGIN/deep"),
            library("a/deep/libone.so", &["libtwo.so"]),
            library("a/deep/libtwo.so", &["libthree.so"]),
            library("a/deep/libthree.so", &[]),
            // DT_RUNPATH does not.
            library("b/new.so", &["libone-b.so"]).runpath("$ORIGIN/deep"),
            library("b/deep/libone-b.so", &["libtwo-b.so"]),
            library("b/deep/libtwo-b.so", &[]),
            // A file with DT_RUNPATH ignores every DT_RPATH, but the files loaded for it do not.
            library("c/old.so", &["libmiddle.so"]).rpath("$ORIGIN/deep:$ORIGIN/other"),
            library("c/deep/libmiddle.so", &["libhidden.so", "libnext.so"]).runpath("$ORIGIN/own"),
            library("c/deep/own/libnext.so", &["libhidden2.so"]),
            library("c/deep/libhidden.so", &[]),
            library("c/other/libhidden2.so", &[]),
        ],
        &[],
    );
    let scenario = Environment::scenario();
    let old = environment.assert_as_listed("a/old.so", &scenario);
    assert_eq!(old.loaded[3].by, SearchRule::Rpath { owner: 0, entry: "$ORIGIN/deep".to_owned() });
    let new = environment.assert_as_listed("b/new.so", &scenario);
    assert_eq!(new.missing[0].name, "libtwo-b.so");
    assert_eq!(new.missing[0].needed_by, 1);
    let mixed = environment.assert_as_listed("c/old.so", &scenario);
    assert_eq!(mixed.missing.iter().map(|missing| &missing.name).collect::<Vec<_>>(), ["libhidden.so"]);
    assert_eq!(mixed.missing[0].searched, ["$ORIGIN/own"]);
    let hidden = mixed.position(&format!("{PACKAGES}/c/other/libhidden2.so")).unwrap();
    assert_eq!(mixed.loaded[hidden].by, SearchRule::Rpath { owner: 0, entry: "$ORIGIN/other".to_owned() });
}

#[test]
fn the_library_path_comes_between_rpath_and_runpath() {
    let mut environment = Environment::new();
    environment.wheel(
        "between",
        &[
            library("t/old.so", &["libx.so"]).rpath("$ORIGIN/own"),
            library("t/new.so", &["libx.so"]).runpath("$ORIGIN/own"),
            library("t/none.so", &["libx.so", "libabsent.so"]),
            library("t/own/libx.so", &[]),
            library("poison/libx.so", &[]),
        ],
        &[],
    );
    let mut scenario = Environment::scenario();
    scenario.library_path = vec!["/nowhere/at/all".to_owned(), format!("{PACKAGES}/t/../poison/")];
    let entry = scenario.library_path[1].clone();
    let rule = |path| environment.assert_as_listed(path, &scenario).loaded[1].by.clone();
    assert_eq!(rule("t/old.so"), SearchRule::Rpath { owner: 0, entry: "$ORIGIN/own".to_owned() });
    assert_eq!(rule("t/new.so"), SearchRule::LibraryPath { entry: entry.clone() });
    assert_eq!(rule("t/none.so"), SearchRule::LibraryPath { entry });
    assert_eq!(environment.trace("t/none.so", &scenario).missing[0].searched, scenario.library_path);
}

#[test]
fn names_sonames_and_paths_of_what_is_loaded_are_taken() {
    let mut environment = Environment::new();
    let from_root = format!("{}/{PACKAGES}/n/lib/libabsolute.so", environment.prefix().display());
    environment.wheel(
        "names",
        &[
            // Two files with the same SONAME: the first one is used for both.
            library("n/top.so", &["libfirst.so", "libuser.so"]).runpath("$ORIGIN/lib"),
            library("n/lib/libfirst.so", &[]).soname("libshared.so.1"),
            library("n/lib/libuser.so", &["libshared.so.1"]).runpath("$ORIGIN/../other"),
            library("n/other/libshared.so.1", &[]),
            // A file without SONAME is known by the name by which it was requested.
            library("n/plain.so", &["libbare.so", "libuser2.so"]).runpath("$ORIGIN/lib"),
            library("n/lib/libbare.so", &[]).soname(""),
            library("n/lib/libuser2.so", &["libbare.so"]).runpath("$ORIGIN/../other"),
            library("n/other/libbare.so", &[]),
            // Names with a slash are paths.
            library("n/slash.so", &["$ORIGIN/lib/libslash.so", "libslash.so", from_root.as_str(), "lib/libslash.so"])
                .runpath("$ORIGIN/lib"),
            library("n/lib/libslash.so", &[]).soname(""),
            library("n/lib/libabsolute.so", &[]),
        ],
        &[],
    );
    let scenario = Environment::scenario();
    let top = environment.assert_as_listed("n/top.so", &scenario);
    assert_eq!(top.loaded[2].needs, [Some((1, SearchRule::AlreadyLoaded))]);
    environment.assert_as_listed("n/plain.so", &scenario);
    let slash = environment.trace("n/slash.so", &scenario);
    assert_eq!(slash.loaded[0].needs[0], Some((1, SearchRule::Path)));
    // The second request finds it under another name, as the same file.
    assert_eq!(slash.loaded[0].needs[1], Some((1, SearchRule::AlreadyLoaded)));
    assert_eq!(slash.missing[0].name, "lib/libslash.so");
    let theirs = listed(&environment.prefix().join(PACKAGES).join("n/slash.so"), "").unwrap();
    let files =
        |listing: &[(String, std::path::PathBuf)]| -> Vec<_> { listing.iter().map(|(_, file)| file.clone()).collect() };
    let ours = environment.shown(&slash);
    assert_eq!((files(&ours.loaded), &ours.missing), (files(&theirs.loaded), &theirs.missing));
}

#[test]
fn folders_for_better_processors_come_first() {
    let mut environment = Environment::new();
    environment.wheel(
        "levels",
        &[
            library("h/top.so", &["libfast.so", "libonly.so", "libplain.so"])
                .runpath("$ORIGIN/empty:$ORIGIN/lib:$ORIGIN/late"),
            library("h/lib/libfast.so", &[]),
            library("h/lib/glibc-hwcaps/x86-64-v2/libfast.so", &[]),
            library("h/lib/glibc-hwcaps/x86-64-v3/libfast.so", &[]),
            library("h/lib/glibc-hwcaps/x86-64-v4/libfast.so", &[]),
            library("h/lib/glibc-hwcaps/x86-64-v2/libonly.so", &[]),
            library("h/lib/libplain.so", &[]),
            library("h/late/glibc-hwcaps/x86-64-v2/libplain.so", &[]),
            library("h/empty/unrelated.so", &[]),
        ],
        &[],
    );
    let scenario = Environment::scenario();
    assert!(processor() >= 2, "this machine has no x86-64-v2");
    environment.assert_as_listed("h/top.so", &scenario);
    let plain = environment.trace("h/top.so", &Scenario { processor: 1, ..scenario });
    assert_eq!(plain.loaded[1].place, Where::Site(format!("{PACKAGES}/h/lib/libfast.so")));
    assert_eq!(plain.missing[0].name, "libonly.so");
}

#[test]
fn a_program_is_a_process_of_its_own() {
    let mut environment = Environment::new();
    let program = Object {
        path: "p/bin/tool",
        needed: &["libtool.so", "libc.so.6"],
        rpath: Some("$ORIGIN/../lib"),
        is_program: true,
        ..Object::default()
    };
    environment.wheel(
        "program",
        &[program, library("p/lib/libtool.so", &["libdeep.so"]), library("p/lib/libdeep.so", &["libgone.so.4"])],
        &[],
    );
    let trace = environment.assert_as_listed("p/bin/tool", &Environment::scenario());
    assert_eq!(trace.missing[0].name, "libgone.so.4");
}

#[test]
fn what_is_in_the_way_is_skipped_or_ends_it() {
    let mut environment = Environment::new();
    let gpu_code = {
        let mut bytes = vec![0; 64];
        bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\xe0\0");
        bytes[20] = 1;
        bytes
    };
    environment.wheel(
        "way",
        &[
            library("w/skips.so", &["libx.so"]).runpath("$ORIGIN/gpu:$ORIGIN/good"),
            library("w/stops.so", &["libx.so"]).runpath("$ORIGIN/text:$ORIGIN/good"),
            library("w/good/libx.so", &[]),
            library("w/through.so", &["libx.so"]).runpath("$ORIGIN/absent/../good"),
            library("w/dots.so", &["libx.so"]).runpath("$ORIGIN/./gpu/..//good/:relative:"),
        ],
        &[
            ("w/gpu/libx.so", &gpu_code),
            ("w/text/libx.so", &b"INPUT(-lgood) /* a script for linkers, of 64 bytes and more */ .......\n"[..]),
        ],
    );
    let scenario = Environment::scenario();
    let skips = environment.assert_as_listed("w/skips.so", &scenario);
    assert_eq!(skips.loaded[1].place, Where::Site(format!("{PACKAGES}/w/good/libx.so")));
    let missing = environment.assert_as_listed("w/through.so", &scenario).missing;
    assert_eq!(missing[0].searched[0], "$ORIGIN/absent/../good");
    environment.assert_as_listed("w/dots.so", &scenario);
    let stops = environment.trace("w/stops.so", &scenario);
    let said = listed(&environment.prefix().join(PACKAGES).join("w/stops.so"), "").unwrap_err();
    assert!(said.contains("w/text/libx.so: invalid ELF header"), "{said}");
    let (path, why) = stops.missing[0].refused.clone().unwrap();
    assert_eq!((path.as_str(), why.as_str()), ("lib/python3.11/site-packages/w/text/libx.so", "it is not an ELF file"));
}

#[test]
fn without_default_directories_the_system_is_not_asked() {
    let mut environment = Environment::new();
    environment.wheel(
        "alone",
        &[
            Object { flags: &["-Wl,-z,nodefaultlib"], ..library("q/alone.so", &["libm.so.6"]) },
            Object {
                flags: &["-Wl,-z,nodefaultlib"],
                ..library("q/later.so", &["libopen.so", "libm.so.6"]).runpath("$ORIGIN")
            },
            library("q/libopen.so", &["libc.so.6"]),
        ],
        &[],
    );
    let scenario = Environment::scenario();
    assert_eq!(environment.assert_as_listed("q/alone.so", &scenario).missing.len(), 1);
    environment.assert_as_listed("q/later.so", &scenario);
    // A Python already has it.
    assert!(environment.trace("q/alone.so", &Scenario::python(None)).missing.is_empty());
}

#[test]
fn needs_and_search_paths_without_end_are_answered() {
    let mut environment = Environment::new();
    let names: Vec<String> = (0..2000).map(|index| format!("libabsent{index}.so.1")).collect();
    // One stub with a long name costs as much as any other; the names are made by editing it.
    environment.wheel(
        "endless",
        &[library("e/top.so", &["libseed.so"]), library("e/libdeep.so", &["libdeep.so"])],
        &[],
    );
    let source = environment.path("made").join("endless/e/top.so");
    let search: Vec<String> = (0..40_000).map(|index| format!("$ORIGIN/../e/x{index}/..")).collect();
    let edit = rocwheel_elf::Edit {
        search_path: Some(rocwheel_elf::SearchPath::Set(search)),
        needed: names
            .iter()
            .cloned()
            .map(rocwheel_elf::NeededEdit::Add)
            .chain([rocwheel_elf::NeededEdit::Add("a\nb.so".to_owned())])
            .collect(),
        ..rocwheel_elf::Edit::default()
    };
    rocwheel_elf::edit_file(&source, &edit).unwrap();
    let bytes = fs_err::read(&source).unwrap();
    let mut hostile = Environment::new();
    hostile.wheel("endless", &[library("e/libdeep.so", &["libdeep.so"])], &[("e/top.so", &bytes)]);
    let site = hostile.site();
    let facts = SiteFacts::read(&site, &Silent).unwrap();
    let scenario = Scenario::python(None);
    let trace = Loader::new(&site, &facts, &scenario).load(&[format!("{PACKAGES}/e/top.so")]);
    assert_eq!(trace.missing.len(), names.len() + 2);
    assert!(trace.missing.iter().all(|missing| missing.searched.len() == 64));
    assert!(trace.missing.iter().any(|missing| missing.name == "a\nb.so"));
}
