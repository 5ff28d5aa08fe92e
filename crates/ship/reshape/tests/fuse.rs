//! Libraries that were split or built for one GPU each, put together.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "the tests of splitting use the rest")]
#[path = "../../split/tests/suite/fixture.rs"]
mod fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use positioned_io::ReadAt as _;
use rocwheel_fixtures::gpu::Link;
use rocwheel_kpack::bundle::{BundleForm, Method};
use rocwheel_kpack::fatbin::{FatBinary, Magic, NewWrapper, Points, Replacement};
use rocwheel_kpack::marker::Marker;
use rocwheel_kpack::{ArchiveWriter, Blob, Scheme};
use rocwheel_progress::{Failure, Silent};
use rocwheel_reshape::fuse::{self, Build, Fused, Plan};
use rocwheel_split::verify::{Item, View};

use fixture::{Settings, Split, built, unit, view};

/// For each wrapper the code that it reaches, by entry.
type Codes = Vec<BTreeMap<String, Vec<u8>>>;

fn codes(bytes: &Vec<u8>) -> Codes {
    let fat = FatBinary::read(bytes, bytes.len() as u64).unwrap().unwrap();
    let bundle = |number: usize| {
        let mut codes = BTreeMap::new();
        fat.bundles[number]
            .visit(bytes, fat.section.clone(), |entry, code| {
                codes.insert(entry.id.clone(), code.to_vec());
                Ok::<(), rocwheel_kpack::Error>(())
            })
            .unwrap();
        codes
    };
    let reached = fat.wrappers.iter().map(|wrapper| match wrapper.points {
        Points::Bundle(number) if wrapper.magic == Magic::Fat => bundle(number),
        _ => panic!("{wrapper:?}"),
    });
    reached.collect()
}

fn build(name: &str, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Build {
    Build { name: name.to_owned(), view: view(files) }
}

fn fused(builds: &[Build], form: BundleForm) -> Result<(Plan, BTreeMap<String, Vec<u8>>), Failure> {
    let plan = fuse::plan(builds, &Silent)?;
    let folder = tempfile::tempdir().unwrap();
    let Fused { view, .. } = fuse::fuse(&plan, builds, form, folder.path(), &Silent)?;
    let files = view.items().filter_map(|(path, item)| match item {
        Item::File { content, .. } => Some((path.to_owned(), fixture::bytes(content.as_ref()))),
        Item::Link { .. } => None,
    });
    let files = files.collect();
    Ok((plan, files))
}

fn text(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", text(source)))
}

fn said(result: Result<(Plan, BTreeMap<String, Vec<u8>>), Failure>) -> String {
    text(&result.map(|_| ()).unwrap_err())
}

fn split(files: &[(&str, Vec<u8>)]) -> Split {
    fixture::split(files, &Settings::default())
}

/// Loads the library, or runs the program, and returns the output.
fn load(bytes: &[u8], name: &str, is_library: bool) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = fixture::gpu().path(name);
    fs_err::write(&path, bytes).unwrap();
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    fixture::gpu().load(&path, is_library).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The file after tools that change files in place.
fn edit(bytes: &[u8], name: &str, tools: &[&[&str]]) -> Vec<u8> {
    let path = fixture::gpu().path(name);
    fs_err::write(&path, bytes).unwrap();
    for tool in tools {
        fixture::gpu().run(tool[0], &[&tool[1..], &[name]].concat());
    }
    fs_err::read(path).unwrap()
}

const COMPRESSED: [BundleForm; 3] = [
    BundleForm::Compressed { version: 2, method: Method::Zstd, level: 3 },
    BundleForm::Compressed { version: 3, method: Method::Zstd, level: 1 },
    BundleForm::Compressed { version: 3, method: Method::Zlib, level: 6 },
];

/// Splits a library, puts it together in every form, and compares code and behaviour.
fn round_trip(name: &str, library: Vec<u8>, is_library: bool) {
    let before = codes(&library);
    let mut said = load(&library, &format!("before-{name}"), is_library);
    let split = split(&[("lib/x.so", library)]);
    for (number, form) in [BundleForm::Plain].into_iter().chain(COMPRESSED).enumerate() {
        let (plan, files) = fused(&[build("it", split.after.clone())], form).unwrap();
        assert_eq!(plan.notes, Vec::<String>::new(), "{name}");
        assert_eq!(files.keys().collect::<Vec<_>>(), ["lib/x.so"], "{name}: no archive is left");
        assert_eq!(codes(&files["lib/x.so"]), before, "{name} {form:?}");
        let mut now = load(&files["lib/x.so"], &format!("after-{number}-{name}"), is_library);
        if number > 0 {
            // A compressed bundle starts otherwise.
            for said in [&mut now, &mut said] {
                *said = said.lines().map(|line| line.split(" reaches ").next().unwrap()).collect::<Vec<_>>().join("\n");
            }
        }
        assert_eq!(now, said, "{name} {form:?}");
    }
}

#[test]
fn one_unit() {
    round_trip("plain", fixture::plain(), true);
}

#[test]
fn units_with_different_targets() {
    round_trip("uneven", fixture::uneven(), true);
}

fn two(name: &str, compile: &[&str], link: &[&str]) -> Vec<u8> {
    let units = [unit("first", &["gfx942", "gfx1100"]), unit("second", &["gfx942", "gfx1100"])];
    built(&Link { name, units: &units, compile, link })
}

#[test]
fn wrappers_that_share_a_bundle() {
    round_trip("rdc", two("fuse-rdc.so", &["-fgpu-rdc"], &["-shared"]), true);
}

#[test]
fn packed_relocations() {
    let link = ["-shared", "-fuse-ld=lld-19", "-Wl,-z,pack-relative-relocs"];
    round_trip("relr", two("fuse-relr.so", &[], &link), true);
}

#[test]
fn programs() {
    round_trip("fixed", two("fuse-fixed", &[], &["-no-pie"]), false);
    round_trip("pie", two("fuse-pie", &[], &["-fuse-ld=lld-19", "-pie"]), false);
}

#[test]
fn compressed_code_comes_back_plain_or_compressed() {
    // More code than the compressed section had room for: it gets a segment of its own.
    let library = two("fuse-ccob.so", &["--offload-compress"], &["-shared"]);
    let before = codes(&library);
    let split = split(&[("x.so", library)]);
    for form in [BundleForm::Plain].into_iter().chain(COMPRESSED) {
        let (_, files) = fused(&[build("it", split.after.clone())], form).unwrap();
        assert_eq!(codes(&files["x.so"]), before);
        load(&files["x.so"], "fuse-ccob-after.so", true);
    }
}

/// Symbols that say where the section is, for debuggers and for the loader: GNU ld before 2.35
/// writes the first for every section.
#[test]
fn symbols_of_a_section_that_gets_a_new_place() {
    let path = fixture::gpu().path("fuse-symbols.so");
    fs_err::write(&path, two("fuse-symbols-ccob.so", &["--offload-compress"], &["-shared"])).unwrap();
    let add = ["--add-symbol", "at_start=.hip_fatbin:0,local", "--add-symbol", "inside=.hip_fatbin:64,local"];
    fixture::gpu().run("objcopy", &[&add[..], &["fuse-symbols.so"]].concat());
    let library = fs_err::read(&path).unwrap();
    let before = codes(&library);
    let split = split(&[("x.so", library.clone())]);
    assert_eq!(split.differences(), Vec::<String>::new());
    let (_, files) = fused(&[build("it", split.after.clone())], BundleForm::Plain).unwrap();
    let fat = |bytes: &Vec<u8>| FatBinary::read(bytes, bytes.len() as u64).unwrap().unwrap();
    let (was, is) = (fat(&library).address, fat(&files["x.so"]).address);
    assert_ne!(was, is, "the section should have got a new place");
    assert_eq!(codes(&files["x.so"]), before);
    fs_err::write(&path, &files["x.so"]).unwrap();
    let symbols = fixture::gpu().run("readelf", &["--symbols", "--wide", "fuse-symbols.so"]);
    for (name, address) in [("at_start", is), ("inside", is + 64)] {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}"))).expect(name);
        assert!(line.contains(&format!("{address:016x}")), "{line}");
    }
    load(&files["x.so"], "fuse-symbols-after.so", true);
}

/// What packagers do to a library between its split and its fuse. Where a tool breaks the whole
/// library as well, it need not load.
#[test]
fn after_other_tools_had_the_host_part() {
    let library = two("fuse-tools.so", &[], &["-shared"]);
    let before = codes(&library);
    let split = split(&[("x.so", library.clone())]);
    let loads = |bytes: &[u8], name: &str| {
        let path = fixture::gpu().path(name);
        fs_err::write(&path, bytes).unwrap();
        fixture::gpu().load(&path, true)
    };
    let strip: &[&str] = &["strip"];
    let path: &[&str] =
        &["patchelf", "--set-rpath", "$ORIGIN/a/rather/long/path:$ORIGIN/another/one/that/does/not/fit"];
    let name: &[&str] = &["patchelf", "--set-soname", "libanother-name-of-some-length.so.1"];
    let mut loaded = 0;
    for tools in [&[strip][..], &[path], &[strip, path], &[path, name], &[path, strip], &[&["llvm-strip-19"], path]] {
        let whole = edit(&library, "fuse-tools-whole.so", tools);
        let mut after = split.after.clone();
        after.insert("x.so".to_owned(), edit(&split.after["x.so"], "fuse-tools-host.so", tools));
        let (_, files) = fused(&[build("it", after)], BundleForm::Plain)
            .unwrap_or_else(|error| panic!("{tools:?}: {}", text(&error)));
        assert_eq!(codes(&files["x.so"]), before, "{tools:?}");
        if let Ok(said) = loads(&whole, "fuse-tools-whole.so") {
            loaded += 1;
            assert_eq!(loads(&files["x.so"], "fuse-tools-fused.so").as_ref(), Ok(&said), "{tools:?}");
        }
    }
    assert!(loaded >= 4, "{loaded} of the libraries still loaded");
}

/// patchelf and auditwheel leave no room behind the program header table, so it goes between two
/// sections.
#[test]
fn a_program_header_table_without_room_is_moved() {
    let units = [unit("first", &["gfx1100"]), unit("second", &["gfx1100", "gfx942"])];
    let library = fixture::library("fuse-table.so", &units, &["-g0"]);
    let path = "$ORIGIN/../very/long/path/so/that/it/grows/and/has/to/move:$ORIGIN/b";
    // One by one: patchelf 0.14 mixes names up when it changes several at once.
    let tools: [&[&str]; 3] = [
        &["patchelf", "--add-needed", "libm.so.6"],
        &["patchelf", "--set-soname", "libx.so.77"],
        &["patchelf", "--set-rpath", path],
    ];
    let edited = edit(&library, "fuse-table-edited.so", &tools);
    let split = split(&[("lib/x.so", edited.clone())]);
    assert_eq!(split.differences(), Vec::<String>::new());
    let (_, files) = fused(&[build("it", split.after)], BundleForm::Plain).unwrap();
    assert_ne!(files["lib/x.so"][32..40], edited[32..40], "the table lies where it lay");
    assert_eq!(codes(&files["lib/x.so"]), codes(&edited));
    assert_eq!(load(&files["lib/x.so"], "fuse-table-fused.so", true), load(&edited, "fuse-table-edited.so", true));
}

/// patchelf 0.19 puts the section header table into its segment, so it is in memory.
#[test]
fn section_headers_in_memory() {
    let path: &[&str] = &["patchelf", "--set-rpath", "$ORIGIN/a/path:$ORIGIN/another/one/that/does/not/fit"];
    let mut library = edit(&two("fuse-mapped.so", &[], &["-shared"]), "fuse-mapped-edited.so", &[path]);
    map_section_headers(&mut library);
    let said = load(&library, "fuse-mapped-before.so", true);
    let mut split = split(&[("lib/x.so", library.clone())]);
    assert_eq!(split.differences(), Vec::<String>::new());
    load(&split.after["lib/x.so"], "fuse-mapped-host.so", true);
    let (_, files) = fused(&[build("it", split.after.clone())], BundleForm::Plain).unwrap();
    assert_eq!(codes(&files["lib/x.so"]), codes(&library));
    assert_eq!(load(&files["lib/x.so"], "fuse-mapped-fused.so", true), said);
    // Memory in front of the table is compared as before.
    let host = split.after.get_mut("lib/x.so").unwrap();
    let table = u64::from_le_bytes(host[40..48].try_into().unwrap()) as usize;
    host[table - 9] ^= 1;
    assert!(!split.differences().is_empty(), "the check saw nothing");
}

#[test]
fn entries_with_the_names_of_rocm_4_0() {
    let mut library = fixture::twin();
    name_entries_as_rocm_4_0(&mut library);
    let split = split(&[("lib/x.so", library.clone())]);
    assert_eq!(split.differences(), Vec::<String>::new());
    assert_eq!(split.archives(), ["test_lib_gfx1100.kpack", "test_lib_gfx942.kpack"]);
    let (_, files) = fused(&[build("it", split.after)], BundleForm::Plain).unwrap();
    let code = |library: &Vec<u8>| codes(library).into_iter().map(BTreeMap::into_values).map(Vec::from_iter);
    assert!(code(&files["lib/x.so"]).eq(code(&library)));
    let builds = ["gfx942", "gfx1100"].map(|target| {
        let name = format!("fuse-rocm-4-0-{target}.so");
        let units = [unit("first", std::slice::from_ref(&target))];
        let mut library = built(&Link { name: &name, units: &units, compile: &[], link: &["-shared"] });
        name_entries_as_rocm_4_0(&mut library);
        build(target, [("lib/x.so".to_owned(), library)])
    });
    let (plan, files) = fused(&builds, BundleForm::Plain).unwrap();
    assert_eq!(plan.targets, ["gfx942", "gfx1100"]);
    let ids: Vec<String> = codes(&files["lib/x.so"]).swap_remove(0).into_keys().collect();
    assert_eq!(ids.iter().filter(|id| id.starts_with("hip-amdgcn-amd-amdhsa-gfx")).count(), 2, "{ids:?}");
}

#[test]
fn a_windows_library() {
    let path = fixture::gpu().build_windows("fuse.dll", &["gfx942", "gfx1100"], &[]);
    let library = fs_err::read(path).unwrap();
    let before = codes(&library);
    let split = split(&[("bin/x.dll", library)]);
    let (_, files) = fused(&[build("it", split.after)], BundleForm::Plain).unwrap();
    assert_eq!(codes(&files["bin/x.dll"]), before);
}

/// The same sources for one target each: inside, in archives, and mixed.
#[test]
fn builds_for_one_gpu_each_become_one() {
    let one = |target: &'static str| {
        let units = [unit("first", std::slice::from_ref(&target)), unit("second", std::slice::from_ref(&target))];
        let name = format!("one-{target}.so");
        built(&Link { name: &name, units: &units, compile: &[], link: &["-shared"] })
    };
    let libraries = [one("gfx942"), one("gfx1100"), one("gfx90a:xnack+")];
    let mut expected = vec![BTreeMap::new(), BTreeMap::new()];
    for library in &libraries {
        for (wrapper, found) in codes(library).into_iter().enumerate() {
            expected[wrapper].extend(found);
        }
    }
    let whole = |number: usize| build(&format!("build {number}"), [("lib/x.so".to_owned(), libraries[number].clone())]);
    let apart =
        |number: usize| build(&format!("build {number}"), split(&[("lib/x.so", libraries[number].clone())]).after);
    for builds in [
        [whole(0), whole(1), whole(2)],
        [apart(0), apart(1), apart(2)],
        [whole(0), apart(1), whole(2)],
        [apart(2), whole(1), apart(0)],
    ] {
        for form in [BundleForm::Plain, COMPRESSED[1]] {
            let (plan, files) = fused(&builds, form).unwrap();
            assert_eq!(plan.targets, ["gfx90a:xnack+", "gfx942", "gfx1100"]);
            assert_eq!(files.keys().collect::<Vec<_>>(), ["lib/x.so"]);
            assert_eq!(codes(&files["lib/x.so"]), expected);
            let said = load(&files["lib/x.so"], "fuse-one-each.so", true);
            assert!(said.contains("answer 42"), "{said}");
        }
    }
    let compressed = |number: usize| {
        let (_, files) = fused(&[apart(number)], COMPRESSED[1]).unwrap();
        build(&format!("compressed {number}"), files)
    };
    let (_, files) = fused(&[compressed(0), compressed(1), whole(2)], BundleForm::Plain).unwrap();
    assert_eq!(codes(&files["lib/x.so"]), expected);
}

#[test]
fn builds_of_different_things_stay_apart() {
    let first = ("lib/x.so".to_owned(), fixture::plain());
    let other = ("lib/x.so".to_owned(), two("fuse-other.so", &[], &["-shared"]));
    let error = fused(&[build("A", [first.clone()]), build("B", [other])], BundleForm::Plain);
    assert_eq!(
        said(error),
        "1 of the builds' files are not the same, first `lib/x.so`: 2 translation units register GPU code in B, 1 in A"
    );
    let more = built(&Link {
        name: "fuse-more.so",
        units: &[unit("first", &["gfx906"])],
        compile: &["-DMORE"],
        link: &["-shared", "-Wl,-soname,other.so"],
    });
    let error = fused(&[build("A", [first.clone()]), build("B", [("lib/x.so".to_owned(), more)])], BundleForm::Plain);
    assert!(said(error).contains("the SONAME differs in A and in B"));
    let files = |text: &str| [first.clone(), ("share/x.txt".to_owned(), text.as_bytes().to_vec())];
    let error = fused(&[build("A", files("one")), build("B", files("two"))], BundleForm::Plain).unwrap_err_or_panic();
    assert!(text(&error).contains("`share/x.txt`: differs at byte 0 between A and B"), "{}", text(&error));
    assert!(error.hint().unwrap().contains("builds of the same sources"));
    let plain = ("lib/x.so".to_owned(), b"no library".to_vec());
    let error = fused(&[build("A", [first]), build("B", [plain])], BundleForm::Plain);
    assert!(said(error).contains("has GPU code in one build and none in another"));
}

trait Failed {
    fn unwrap_err_or_panic(self) -> Failure;
}

impl<T> Failed for Result<T, Failure> {
    fn unwrap_err_or_panic(self) -> Failure {
        match self {
            Ok(_) => panic!("it should have failed"),
            Err(error) => error,
        }
    }
}

#[test]
fn two_builds_with_different_code_for_one_gpu() {
    let split_one =
        |targets| split(&[("x.so", fixture::library("fuse-code.so", &[unit("first", targets)], &[]))]).after;
    let one = split_one(&["gfx942"]);
    let mut other = one.clone();
    // The same host, and a code object that was compiled otherwise.
    let archive = other.keys().find(|path| rocwheel_split::group::is_archive(path)).unwrap().clone();
    let host = other["x.so"].clone();
    let fat = FatBinary::read(&host, host.len() as u64).unwrap().unwrap();
    let marker = fat.markers[0].0.clone();
    let bytes = other[&archive].clone();
    let known = rocwheel_kpack::archive::KpackArchive::open(&bytes, bytes.len() as u64).unwrap();
    let located = known.find(&marker.kernel_name, 0, "gfx942").unwrap();
    let mut code = known.read(&bytes, &located).unwrap();
    *code.last_mut().unwrap() ^= 1;
    let out = std::io::Cursor::new(Vec::new());
    let scheme = rocwheel_kpack::archive::Scheme::None;
    let mut writer =
        rocwheel_kpack::archive::ArchiveWriter::new(out, &known.group, &known.family, &known.targets, scheme).unwrap();
    let blob = rocwheel_kpack::archive::Blob::pack(&code, scheme, 0).unwrap();
    writer.add(&marker.kernel_name, 0, "gfx942", &blob).unwrap();
    other.insert(archive, writer.finish().unwrap().into_inner());
    let error = said(fused(&[build("A", one), build("B", other)], BundleForm::Plain));
    assert!(error.contains("A and B have different code for `hipv4-amdgcn-amd-amdhsa--gfx942`"), "{error}");
}

#[test]
fn missing_archives_are_named() {
    let mut after = split(&[("lib/x.so", fixture::plain())]).after;
    let whole = codes(&fixture::plain());
    after.remove(".kpack/test_lib_gfx942.kpack").unwrap();
    // The rest can still be put together; what is missing is missing.
    let (plan, files) = fused(&[build("it", after.clone())], BundleForm::Plain).unwrap();
    assert!(!plan.targets.contains(&"gfx942".to_owned()));
    assert_eq!(codes(&files["lib/x.so"])[0].len(), whole[0].len() - 1);
    after.retain(|path, _| !rocwheel_split::group::is_archive(path));
    let error = said(fused(&[build("it", after)], BundleForm::Plain));
    assert_eq!(
        error,
        "cannot put the GPU code of `lib/x.so` together: no archive has it; its markers say \
         `../.kpack/test_lib_@GFXARCH@.kpack`"
    );
}

#[test]
fn archives_that_hold_more_stay() {
    let files = [("lib/a.so", fixture::plain()), ("lib/b.so", fixture::twin())];
    let mut after = split(&files).after;
    after.remove("lib/b.so").unwrap();
    let (plan, fused) = fused(&[build("it", after)], BundleForm::Plain).unwrap();
    let left: BTreeSet<&String> = fused.keys().filter(|path| rocwheel_split::group::is_archive(path)).collect();
    assert!(!left.is_empty());
    assert_eq!(left.into_iter().collect::<Vec<_>>(), plan.kept.iter().collect::<Vec<_>>());
}

#[test]
fn damaged_archives_are_not_put_back() {
    let mut after = split(&[("x.so", fixture::plain())]).after;
    let path = after.keys().find(|path| path.ends_with("gfx942.kpack")).unwrap().clone();
    let archive = after.get_mut(&path).unwrap();
    archive[68..400].fill(0xff);
    assert!(fused(&[build("it", after.clone())], BundleForm::Plain).is_err());
    after.get_mut(&path).unwrap().truncate(100);
    assert!(fused(&[build("it", after)], BundleForm::Plain).is_err());
}

/// The host part as existing tools leave it: one marker, and wrappers that are numbered by their
/// place.
fn numbered(host: &Vec<u8>, marker: &Marker) -> Vec<u8> {
    let fat = FatBinary::read(host, host.len() as u64).unwrap().unwrap();
    let content = marker.encode().unwrap();
    let wrappers = (0..fat.wrappers.len() as u64).map(|index| NewWrapper { magic: Magic::Kpacked, pointer: 0, index });
    let with =
        Replacement { size: content.len() as u64, content: Arc::new(content.clone()), wrappers: wrappers.collect() };
    let patched = rocwheel_elf::Patched::new(host, fat.replace(host, with).unwrap());
    let mut bytes = vec![0; patched.size() as usize];
    patched.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// A library split with defect B3 of existing tools: code is numbered for each target by itself.
fn numbered_by_target(library: &Vec<u8>) -> BTreeMap<String, Vec<u8>> {
    let search_paths = vec![".kpack/x_@GFXARCH@.kpack".to_owned()];
    let host = numbered(library, &Marker { kernel_name: "x.so".to_owned(), search_paths });
    let mut files = BTreeMap::from([("x.so".to_owned(), host)]);
    let mut targets: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for (id, code) in codes(library).into_iter().flatten().filter(|(_, code)| !code.is_empty()) {
        targets.entry(id.rsplit_once("--").unwrap().1.to_owned()).or_default().push(code);
    }
    for (target, codes) in targets {
        let out = std::io::Cursor::new(Vec::new());
        let mut writer = ArchiveWriter::new(out, "x", &target, std::slice::from_ref(&target), Scheme::None).unwrap();
        for (index, code) in codes.iter().enumerate() {
            writer.add("x.so", index as u32, &target, &Blob::pack(code, Scheme::None, 3).unwrap()).unwrap();
        }
        files.insert(format!(".kpack/x_{target}.kpack"), writer.finish().unwrap().into_inner());
    }
    files
}

#[test]
fn code_that_existing_tools_numbered_wrongly_is_not_put_back() {
    let units = [unit("first", &["gfx1100"]), unit("second", &["gfx1100", "gfx942"]), unit("third", &["gfx90a"])];
    let three = numbered_by_target(&fixture::library("fuse-three.so", &units, &[]));
    let error = fused(&[build("it", three)], BundleForm::Plain).unwrap_err();
    assert!(error.to_string().contains("would have a bundle without code"), "{error}");
    assert!(error.to_string().contains("has code of index 2, which wrapper 2 needs"), "{error}");
    // No other index than 0, as relocatable device code has it, but of two units.
    let units = [unit("first", &["gfx1100"]), unit("second", &["gfx942"])];
    let two = numbered_by_target(&fixture::library("fuse-two.so", &units, &[]));
    let error = fused(&[build("it", two)], BundleForm::Plain).unwrap_err();
    assert!(error.to_string().contains("have no kernel in common"), "{error}");
}

/// Existing tools number wrappers: of two wrappers for one bundle the second asks for an index that
/// no archive has.
#[test]
fn wrappers_numbered_by_existing_tools() {
    let library = two("fuse-rdc-other.so", &["-fgpu-rdc"], &["-shared"]);
    let before = codes(&library);
    let mut after = split(&[("x.so", library.clone())]).after;
    let host = after["x.so"].clone();
    let fat = FatBinary::read(&host, host.len() as u64).unwrap().unwrap();
    assert_eq!(fat.wrappers.len(), 2);
    after.insert("x.so".to_owned(), numbered(&host, &fat.markers[0].0));
    let (plan, files) = fused(&[build("it", after)], BundleForm::Plain).unwrap();
    assert_eq!(plan.notes.len(), 1);
    assert!(plan.notes[0].contains("no archive has code of index 1"), "{:?}", plan.notes);
    assert_eq!(codes(&files["x.so"]), before);
    load(&files["x.so"], "fuse-numbered.so", true);
}

#[test]
fn the_bytes_do_not_depend_on_the_threads() {
    let after = split(&[("lib/a.so", fixture::plain()), ("lib/b.so", fixture::twin())]).after;
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fused(&[build("it", after.clone())], COMPRESSED[1]).unwrap().1)
    };
    let first = run(1);
    assert_eq!(first, run(4));
    assert_eq!(first, run(1));
}

#[test]
fn a_view_is_left_as_it_is_without_code() {
    let builds = [build("it", [("x.txt".to_owned(), b"text".to_vec()), ("lib/x.so".to_owned(), fixture::plain())])];
    let (plan, files) = fused(&builds, BundleForm::Plain).unwrap();
    assert!(plan.binaries.is_empty());
    assert_eq!(files["lib/x.so"], fixture::plain());
    let mut empty = View::default();
    empty.insert("link", Item::Link { target: "x".to_owned() });
    let (_, files) = fused(&[Build { name: "links".to_owned(), view: empty }], BundleForm::Plain).unwrap();
    assert!(files.is_empty());
}

/// Moves the section header table of a library that patchelf 0.14 has edited into memory: to the
/// end of the last segment, which is the end of the file. patchelf 0.19 puts it at that segment's
/// start.
fn map_section_headers(bytes: &mut Vec<u8>) {
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let count = |bytes: &[u8], at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let (segments, sections) = (word(bytes, 32), word(bytes, 40));
    let loads =
        (0..count(bytes, 56)).map(|index| segments + index * 56).filter(|at| bytes[*at..*at + 4] == [1, 0, 0, 0]);
    let last = loads.max_by_key(|at| word(bytes, at + 8)).unwrap();
    let start = word(bytes, last + 8);
    if sections >= start {
        return; // This is patchelf 0.19.
    }
    assert_eq!(start + word(bytes, last + 32), bytes.len(), "patchelf's segment is the end of the file");
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let table = bytes.len() as u64;
    bytes.extend_from_within(sections..sections + count(bytes, 60) * 64);
    let size = bytes.len() as u64 - start as u64;
    for (at, value) in [(40, table), (last + 32, size), (last + 40, size)] {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

/// Renames the entries of all plain bundles as the compiler of ROCm 4.0 called them, with one dash
/// before the target: `hip-amdgcn-amd-amdhsa-gfx1010`.
fn name_entries_as_rocm_4_0(bytes: &mut [u8]) {
    let fat = rocwheel_kpack::FatBinary::read(&bytes.to_vec(), bytes.len() as u64).unwrap().unwrap();
    for bundle in &fat.bundles {
        let start = (fat.section.start + bundle.offset) as usize;
        let mut table = bytes[start..start + 32].to_vec();
        for entry in &bundle.entries {
            let id = entry.id.replace("hipv4-amdgcn-amd-amdhsa--", "hip-amdgcn-amd-amdhsa-");
            for number in [entry.offset, entry.size, id.len() as u64] {
                table.extend(number.to_le_bytes());
            }
            table.extend(id.bytes());
        }
        let longer = bundle.entries.iter().map(|entry| 24 + entry.id.len()).sum::<usize>() + 32;
        table.resize(longer, 0);
        bytes[start..start + longer].copy_from_slice(&table);
    }
}
