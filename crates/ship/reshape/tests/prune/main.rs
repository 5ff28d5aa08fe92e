//! Pruned libraries, bundles, archives, wheels and trees. clang 19 makes them; clang's bundler,
//! Python and a runtime that prints what it finds judge them.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocwheel_archive::WriteOptions;
use rocwheel_fixtures::gpu::{Gpu, Link, TranslationUnit};
use rocwheel_fixtures::{TestWheel, paths_below};
use rocwheel_kpack::bundle::{self, BundleForm, Method, Part};
use rocwheel_kpack::{ArchiveWriter, Blob, FatBinary, KpackArchive, Scheme};
use rocwheel_output::{Destination, Mode};
use rocwheel_progress::{Failure, Silent};
use rocwheel_reshape::prune::{Compress, Empty, Keep, Options, PruneAction, PruneReport, prune};
use rocwheel_system::symlink;
use rocwheel_tables::TargetTable;
use rocwheel_wheel::read::Wheel;

mod trees;

const UNITS: &[TranslationUnit<'_>] = &[
    TranslationUnit { source: "first", targets: &["gfx90a:xnack+", "gfx90a:xnack-", "gfx942", "gfx1100"] },
    TranslationUnit { source: "second", targets: &["gfx90a:xnack+", "gfx942", "gfx1030"] },
];

/// A call with the usual options, which tests change.
struct Call {
    keep: &'static str,
    compress: Option<Compress>,
    empty: Empty,
    in_place: bool,
    run: Mode,
}

impl Call {
    fn keep(keep: &'static str) -> Self {
        Self { keep, compress: None, empty: Empty::Refuse, in_place: false, run: Mode::Execute }
    }

    fn run(&self, path: &Path, output: &Path) -> Result<PruneReport, Failure> {
        let scratch = tempfile::tempdir().expect("folder");
        let options = Options {
            keep: Keep::parse(self.keep, &TargetTable::embedded())?,
            compress: self.compress,
            level: 3,
            empty: self.empty,
            destination: if self.in_place { Destination::InPlace } else { Destination::Folder(output.to_owned()) },
            mode: self.run,
            scratch: scratch.path(),
            write: WriteOptions::default(),
        };
        let outcome = prune(&[path.to_owned()], &options, &Silent);
        assert_eq!(fs_err::read_dir(scratch.path()).expect("list").count(), 0, "temporary files stay behind");
        outcome
    }
}

fn build(gpu: &Gpu, compile: &[&str], link: &[&str]) -> PathBuf {
    gpu.build(&Link { name: "libfat.so", units: UNITS, compile, link })
}

fn read(path: &Path) -> (Vec<u8>, FatBinary) {
    let bytes = fs_err::read(path).expect("read");
    let fat = FatBinary::read(&bytes, bytes.len() as u64).expect("fat binary").expect("GPU code");
    (bytes, fat)
}

type Code = Vec<Vec<(String, Vec<u8>)>>;

/// Returns targets and bytes of the code objects of each bundle.
fn code(path: &Path) -> Code {
    let (bytes, fat) = read(path);
    let objects = |bundle: &rocwheel_kpack::Bundle| {
        let mut objects = Vec::new();
        let visit = bundle.visit(&bytes, fat.section.clone(), |entry, code| {
            objects.push((entry.target().unwrap_or("host").to_owned(), code.to_vec()));
            Ok::<(), rocwheel_kpack::Error>(())
        });
        visit.expect("bundle");
        objects
    };
    fat.bundles.iter().map(objects).collect()
}

/// Returns the result of [`code`] without the targets that are not kept.
fn expected(path: &Path, targets: &[&str]) -> Code {
    let mut code = code(path);
    for bundle in &mut code {
        bundle.retain(|(target, _)| targets.contains(&target.as_str()));
    }
    code
}

fn lines(said: &str) -> Vec<&str> {
    said.lines().map(|line| line.split(" reaches ").next().unwrap_or(line)).collect()
}

/// Prunes a library to two targets. It must load as before, also after `strip`, and its code must
/// be unchanged.
fn check_library(gpu: &Gpu, file: &Path, is_library: bool) {
    let before = fs_err::read(file).expect("read");
    let said = gpu.load(file, is_library).expect("loads as built");
    let output = gpu.path("pruned");
    let outcome = Call::keep("gfx942,gfx90a").run(file, &output).expect("prune");
    let name = file.file_name().expect("name");
    let result = output.join(name);
    let wanted = ["gfx90a:xnack+", "gfx90a:xnack-", "gfx942"];
    assert!(code(&result) == expected(file, &wanted));
    let entry = &outcome.inputs[0].files[0];
    assert_eq!(entry.action, PruneAction::Changed);
    assert_eq!(entry.kept, wanted);
    assert_eq!(entry.dropped, ["gfx1030", "gfx1100"]);
    let size = fs_err::metadata(&result).expect("result").len();
    assert_eq!((outcome.before, outcome.after), (before.len() as u64, size));
    assert!(outcome.after < outcome.before || before.len() < 50_000, "{} {}", outcome.before, outcome.after);
    let verified: usize = expected(file, &wanted).iter().map(Vec::len).sum();
    assert_eq!(outcome.inputs[0].verified, verified as u64);
    assert!(outcome.missing.is_empty());
    assert!(fs_err::read(file).expect("read") == before, "the input is untouched");
    let loaded = gpu.load(&result, is_library).expect("the result loads");
    assert_eq!(lines(&loaded), lines(&said));
    assert!(!loaded.contains("nothing"), "{loaded}");
    // Pruning again changes nothing.
    let again = gpu.path("again");
    let outcome = Call::keep("gfx942,gfx90a").run(&result, &again).expect("prune");
    assert_eq!(outcome.inputs[0].files[0].action, PruneAction::Kept);
    assert!(fs_err::read(again.join(name)).expect("copy") == fs_err::read(&result).expect("result"));
    gpu.run("strip", &[result.to_str().expect("UTF-8")]);
    assert_eq!(lines(&gpu.load(&result, is_library).expect("loads after strip")), lines(&said));
    fs_err::remove_dir_all(output).expect("remove");
    fs_err::remove_dir_all(again).expect("remove");
}

#[test]
fn every_kind_of_link_is_pruned_and_loads() {
    let gpu = Gpu::new();
    for (compile, link) in [
        (&[][..], &["-shared"][..]),
        (&["--offload-compress"], &["-shared"]),
        (&[], &["-shared", "-fuse-ld=lld-19"]),
        (&[], &["-shared", "-fuse-ld=lld-19", "-Wl,-z,pack-relative-relocs"]),
    ] {
        check_library(&gpu, &build(&gpu, compile, link), true);
    }
    check_library(&gpu, &gpu.build(&Link { name: "program", units: UNITS, compile: &[], link: &["-no-pie"] }), false);
}

#[test]
fn windows_libraries_are_pruned() {
    let gpu = Gpu::new();
    for compile in [&[][..], &["--offload-compress"]] {
        let file = gpu.build_windows("fat.dll", &["gfx942", "gfx1100", "gfx1101"], compile);
        let output = gpu.path(format!("out{}", compile.len()));
        Call::keep("gfx1100").run(&file, &output).expect("prune");
        assert!(code(&output.join("fat.dll")) == expected(&file, &["gfx1100"]));
        gpu.run("llvm-readobj-19", &["--file-headers", "--sections", output.join("fat.dll").to_str().expect("UTF-8")]);
        let (before, after) = (read(&file).1, read(&output.join("fat.dll")).1);
        let points = |fat: &FatBinary| fat.wrappers.iter().map(|wrapper| wrapper.points).collect::<Vec<_>>();
        assert_eq!(points(&after), points(&before));
    }
}

#[test]
fn code_that_several_wrappers_share_is_pruned_once() {
    let gpu = Gpu::new();
    let units: Vec<TranslationUnit<'_>> =
        UNITS.iter().map(|unit| TranslationUnit { targets: &["gfx942", "gfx1100"], ..*unit }).collect();
    let link = Link { name: "librdc.so", units: &units, compile: &["-fgpu-rdc"], link: &["-shared"] };
    let file = gpu.build(&link);
    Call::keep("gfx1100").run(&file, &gpu.path("out")).expect("prune");
    let (_, fat) = read(&gpu.path("out/librdc.so"));
    assert_eq!((fat.bundles.len(), fat.wrappers.len()), (1, 2));
    assert!(code(&gpu.path("out/librdc.so")) == expected(&file, &["gfx1100"]));
    gpu.load(&gpu.path("out/librdc.so"), true).expect("loads");
}

#[test]
fn compressed_bundles_stay_of_their_version_and_others_become_compressed_when_asked() {
    let gpu = Gpu::new();
    let plain = build(&gpu, &[], &["-shared"]);
    for (version, form, other) in [(2, Compress::V2, Compress::V3), (3, Compress::V3, Compress::V2)] {
        let output = gpu.path(format!("v{version}"));
        let call = Call { compress: Some(form), ..Call::keep("gfx942") };
        let outcome = call.run(&plain, &output).expect("prune");
        let result = output.join("libfat.so");
        let (_, fat) = read(&result);
        assert!(fat.bundles.iter().all(|bundle| bundle.compression.is_some_and(|header| header.version == version)));
        assert!(code(&result) == expected(&plain, &["gfx942"]));
        assert_eq!(outcome.inputs[0].files[0].dropped, ["gfx90a:xnack+", "gfx90a:xnack-", "gfx1030", "gfx1100"]);
        gpu.load(&result, true).expect("loads");
        // A compressed bundle keeps its version, whatever version is requested.
        let call = Call { compress: Some(other), ..Call::keep("gfx942") };
        let again = gpu.path(format!("again{version}"));
        call.run(&result, &again).expect("prune");
        assert!(fs_err::read(again.join("libfat.so")).expect("read") == fs_err::read(&result).expect("read"));
    }
}

#[test]
fn a_bundle_without_any_wanted_code_is_refused_unless_allowed() {
    let gpu = Gpu::new();
    let file = build(&gpu, &[], &["-shared"]);
    let output = gpu.path("out");
    let text = Call::keep("gfx1100").run(&file, &output).expect_err("bundle 1 has no gfx1100").to_string();
    let words = "would have no GPU code left in bundle 1: it has code for gfx90a:xnack+, gfx942, gfx1030";
    assert!(text.ends_with(words), "{text}");
    let text = Call::keep("gfx906").run(&file, &output).expect_err("nothing is left").to_string();
    assert!(text.contains("no GPU code left: it has code for gfx90a:xnack+, gfx90a:xnack-, gfx942"), "{text}");
    assert!(!output.exists(), "nothing is left behind");
    let outcome = Call { empty: Empty::Allow, ..Call::keep("gfx1100") }.run(&file, &output).expect("allowed");
    assert!(code(&output.join("libfat.so")) == expected(&file, &["gfx1100"]));
    assert!(outcome.missing.is_empty());
    let error = Call::keep("gfx942").run(&file, &output).expect_err("the output exists");
    assert!(error.to_string().ends_with("` exists"), "{error}");
}

#[test]
fn targets_that_are_nowhere_are_named() {
    let gpu = Gpu::new();
    let file = build(&gpu, &[], &["-shared"]);
    let keep = "gfx942;gfx1201,gfx90a:xnack-,gfx94X-dcgpu,gfx803";
    let outcome = Call::keep(keep).run(&file, &gpu.path("out")).expect("prune");
    assert_eq!(outcome.missing, ["gfx1201", "gfx803"]);
    // A name with features keeps only that variant.
    assert!(code(&gpu.path("out/libfat.so")) == expected(&file, &["gfx942", "gfx90a:xnack-"]));
}

/// Creates a bundle of invented code objects.
fn bundle_of(targets: &[&str], form: BundleForm) -> Vec<u8> {
    let object = |target: &&str| (format!("hipv4-amdgcn-amd-amdhsa--{target}"), target.as_bytes().repeat(1000));
    let objects: Vec<(String, Vec<u8>)> = targets.iter().map(object).collect();
    let nothing: Vec<u8> = Vec::new();
    let mut parts = vec![Part { id: "host-x86_64-unknown-linux-gnu-", size: 0, content: &nothing }];
    parts.extend(objects.iter().map(|(id, code)| Part { id, size: code.len() as u64, content: code }));
    let mut bytes = Vec::new();
    bundle::write(&parts, form, &mut bytes).expect("bundle");
    bytes
}

#[test]
fn clang_reads_pruned_bundle_files() {
    let folder = tempfile::tempdir().expect("folder");
    let targets = ["gfx90a", "gfx942", "gfx9-4-generic", "gfx1100"];
    let compressed = BundleForm::Compressed { version: 2, method: Method::Zstd, level: 3 };
    for (name, form) in [("plain.co", BundleForm::Plain), ("compressed.co", compressed)] {
        let file = folder.path().join(name);
        fs_err::write(&file, bundle_of(&targets, form)).expect("write");
        let output = folder.path().join("out");
        Call::keep("gfx942").run(&file, &output).expect("prune");
        let mut list = Command::new("clang-offload-bundler-19");
        list.args(["-list", "-type=o"]).arg(format!("-input={}", output.join(name).display()));
        let said = list.output().expect("clang-offload-bundler-19 is installed");
        let listed = String::from_utf8_lossy(&said.stdout).into_owned();
        let ids: BTreeSet<&str> = listed.lines().collect();
        let wanted = [
            "host-x86_64-unknown-linux-gnu-",
            "hipv4-amdgcn-amd-amdhsa--gfx942",
            "hipv4-amdgcn-amd-amdhsa--gfx9-4-generic",
        ];
        assert_eq!(ids, BTreeSet::from(wanted), "{}", String::from_utf8_lossy(&said.stderr));
    }
}

fn archive(path: &Path, targets: &[&str]) {
    let targets: Vec<String> = targets.iter().map(|target| (*target).to_owned()).collect();
    let file = fs_err::File::create(path).expect("create");
    let mut writer = ArchiveWriter::new(file, "group", "gfx90a", &targets, Scheme::ZstdPerKernel).expect("archive");
    for target in &targets {
        for index in 0..3 {
            let code = format!("{target} {index} ").repeat(500).into_bytes();
            let blob = Blob::pack(&code, Scheme::ZstdPerKernel, 3).expect("pack");
            writer.add("lib/x.so", index, target, &blob).expect("add");
        }
    }
    writer.finish().expect("finish");
}

#[test]
fn archives_keep_the_wanted_targets() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("group_gfx90a.kpack");
    archive(&file, &["gfx90a:xnack+", "gfx90a:xnack-"]);
    let outcome = Call::keep("gfx90a:xnack+").run(&file, &folder.path().join("out")).expect("prune");
    assert_eq!((outcome.inputs[0].verified, outcome.inputs[0].files[0].action), (3, PruneAction::Changed));
    let bytes = fs_err::read(folder.path().join("out/group_gfx90a.kpack")).expect("read");
    let result = KpackArchive::open(&bytes, bytes.len() as u64).expect("archive");
    assert_eq!((result.group.as_str(), result.targets.join(" ").as_str()), ("group", "gfx90a:xnack+"));
    let found = result.find("lib/x.so", 2, "gfx90a:xnack+").expect("found");
    assert_eq!(result.read(&bytes, &found).expect("read"), "gfx90a:xnack+ 2 ".repeat(500).into_bytes());
    let error = Call::keep("gfx942").run(&file, &folder.path().join("out2")).expect_err("nothing is left");
    assert!(error.to_string().contains("would have no GPU code left"), "{error}");
}

/// Creates a tree with a library, databases, archives, links, and artifacts for one target.
#[test]
fn what_cannot_be_pruned_is_named() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name);
    let fails = |name: &str, output: &Path, words: &str| {
        let error = Call::keep("gfx942").run(&path(name), output).expect_err(words);
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        let text = format!("{error}{}", source.unwrap_or_default());
        assert!(text.contains(words), "`{text}` should say {words}");
    };
    fs_err::write(path("text"), "text").expect("write");
    fs_err::write(path("empty"), "").expect("write");
    fs_err::write(path("cut.co"), &bundle_of(&["gfx942"], BundleForm::Plain)[..5000]).expect("write");
    fs_err::write(path("x.kpack"), "KPAKnonsense").expect("write");
    fs_err::write(path("bad-1.0-py3-none-any.whl"), "PK").expect("write");
    fs_err::create_dir(path("folder")).expect("folder");
    let output = path("out");
    fails("text", &output, "it is no fat binary, offload bundle, kpack archive, wheel or directory");
    fails("empty", &output, "/empty` has no GPU code");
    fails("cut.co", &output, "/cut.co`: malformed offload bundle");
    fails("x.kpack", &output, "/x.kpack`: not a kpack archive");
    fails("bad-1.0-py3-none-any.whl", &output, "it is not a ZIP archive");
    fails("none", &output, "/none`");
    fails("folder", &path("folder/out"), "is in the input");
    assert_eq!(fs_err::read_dir(&output).map_or(0, Iterator::count), 0);
    let options = Options {
        keep: Keep::parse("gfx942", &TargetTable::embedded()).expect("keep"),
        compress: None,
        level: 3,
        empty: Empty::Refuse,
        destination: Destination::Folder(path("out")),
        mode: Mode::Execute,
        scratch: folder.path(),
        write: WriteOptions::default(),
    };
    let error = prune(&[path("text"), path("folder/../text")], &options, &Silent).expect_err("the same name");
    assert_eq!(error.to_string(), "two inputs are called `text`");
}
