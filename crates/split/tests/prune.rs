//! Pruned libraries, bundles, archives, wheels and trees: made by clang 19, judged by clang's bundler, Python and a runtime that
//! says what it finds.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use artifact::TargetTable;
use kpack::bundle::{self, Form, Method, Part};
use kpack::{Archive, ArchiveWriter, Blob, FatBinary, Scheme};
use report::Silent;
use split::Error;
use split::prune::{Action, Compress, Destination, Empty, Keep, Options, Outcome, Run, prune};
use testing::gpu::{Gpu, Link, Unit};
use wheel::read::Wheel;
use wheel::{Distribution, EntryPoints, FileContent, Member, Metadata, Tag, WriteOptions, write_wheel};

const UNITS: &[Unit<'_>] = &[
    Unit { source: "first", targets: &["gfx90a:xnack+", "gfx90a:xnack-", "gfx942", "gfx1100"] },
    Unit { source: "second", targets: &["gfx90a:xnack+", "gfx942", "gfx1030"] },
];

/// A call with the usual options, to be changed.
struct Call {
    keep: &'static str,
    compress: Option<Compress>,
    empty: Empty,
    in_place: bool,
    run: Run,
}

impl Call {
    fn keep(keep: &'static str) -> Self {
        Self { keep, compress: None, empty: Empty::Refuse, in_place: false, run: Run::Execute }
    }

    fn run(&self, path: &Path, output: &Path) -> Result<Outcome, Error> {
        let scratch = tempfile::tempdir().expect("folder");
        let options = Options {
            keep: Keep::parse(self.keep, &TargetTable::embedded())?,
            compress: self.compress,
            level: 3,
            empty: self.empty,
            destination: if self.in_place { Destination::InPlace } else { Destination::Folder(output.to_owned()) },
            run: self.run,
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

/// Targets and bytes of the code objects of each bundle.
fn code(path: &Path) -> Code {
    let (bytes, fat) = read(path);
    let objects = |bundle: &kpack::Bundle| {
        let mut objects = Vec::new();
        let visit = bundle.visit(&bytes, fat.section.clone(), |entry, code| {
            objects.push((entry.target().unwrap_or("host").to_owned(), code.to_vec()));
            Ok::<(), kpack::Error>(())
        });
        visit.expect("bundle");
        objects
    };
    fat.bundles.iter().map(objects).collect()
}

/// What [`code`] gives, less what is not wanted.
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

/// Prunes a library to two targets; it loads as before, also after `strip`, and its code is what it was.
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
    assert_eq!(entry.action, Action::Changed);
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
    // Pruned again nothing changes.
    let again = gpu.path("again");
    let outcome = Call::keep("gfx942,gfx90a").run(&result, &again).expect("prune");
    assert_eq!(outcome.inputs[0].files[0].action, Action::Kept);
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
    let units: Vec<Unit<'_>> = UNITS.iter().map(|unit| Unit { targets: &["gfx942", "gfx1100"], ..*unit }).collect();
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
        // What is compressed keeps its version, whatever is asked for now.
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
    assert_eq!(fs_err::read_dir(&output).expect("list").count(), 0, "nothing is left behind");
    let outcome = Call { empty: Empty::Allow, ..Call::keep("gfx1100") }.run(&file, &output).expect("allowed");
    assert!(code(&output.join("libfat.so")) == expected(&file, &["gfx1100"]));
    assert!(outcome.missing.is_empty());
    let error = Call::keep("gfx942").run(&file, &output).expect_err("the output exists");
    assert!(matches!(error, Error::Exists { .. }), "{error}");
}

#[test]
fn targets_that_are_nowhere_are_named() {
    let gpu = Gpu::new();
    let file = build(&gpu, &[], &["-shared"]);
    let keep = "gfx942;gfx1201,gfx90a:xnack-,gfx94X-dcgpu,gfx803";
    let outcome = Call::keep(keep).run(&file, &gpu.path("out")).expect("prune");
    assert_eq!(outcome.missing, ["gfx1201", "gfx803"]);
    // A full name keeps only that variant.
    assert!(code(&gpu.path("out/libfat.so")) == expected(&file, &["gfx942", "gfx90a:xnack-"]));
}

/// A bundle of made-up code objects.
fn bundle_of(targets: &[&str], form: Form) -> Vec<u8> {
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
    let compressed = Form::Compressed { version: 2, method: Method::Zstd, level: 3 };
    for (name, form) in [("plain.co", Form::Plain), ("compressed.co", compressed)] {
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
    assert_eq!((outcome.inputs[0].verified, outcome.inputs[0].files[0].action), (3, Action::Changed));
    let bytes = fs_err::read(folder.path().join("out/group_gfx90a.kpack")).expect("read");
    let result = Archive::open(&bytes, bytes.len() as u64).expect("archive");
    assert_eq!((result.group.as_str(), result.targets.join(" ").as_str()), ("group", "gfx90a:xnack+"));
    let found = result.find("lib/x.so", 2, "gfx90a:xnack+").expect("found");
    assert_eq!(result.read(&bytes, &found).expect("read"), "gfx90a:xnack+ 2 ".repeat(500).into_bytes());
    let error = Call::keep("gfx942").run(&file, &folder.path().join("out2")).expect_err("nothing is left");
    assert!(matches!(error, Error::Empty { .. }), "{error}");
}

/// A tree with a library, databases, archives, links, and artifacts for one target.
fn tree(gpu: &Gpu, root: &Path) {
    let write = |path: &str, bytes: &[u8]| {
        let path = root.join(path);
        fs_err::create_dir_all(path.parent().expect("parent")).expect("folder");
        fs_err::write(path, bytes).expect("write");
    };
    write("lib/libfat.so", &fs_err::read(build(gpu, &[], &["-shared"])).expect("read"));
    write("lib/rocblas/library/TensileLibrary_gfx942.co", b"942");
    write("lib/rocblas/library/TensileLibrary_gfx1100.co", b"1100");
    write("lib/rocblas/library/TensileLibrary.dat", b"all");
    write("lib/hipblaslt/library/gfx1100/extop.co", b"1100");
    write("share/miopen/db/gfx942130.db.txt", b"942");
    write("share/miopen/db/gfx1030_36.db.txt", b"1030");
    write("share/kernels.co", &bundle_of(&["gfx942", "gfx1030"], Form::Plain));
    write("include/x.h", b"// gfx1100\n");
    write("blas_lib_gfx1100/artifact_manifest.txt", b"stage\n");
    write("blas_lib_gfx1100/stage/x", b"x");
    write("blas_lib_gfx94X-dcgpu/artifact_manifest.txt", b"stage\n");
    fs_err::create_dir_all(root.join("empty")).expect("folder");
    fs_err::create_dir_all(root.join(".kpack")).expect("folder");
    archive(&root.join(".kpack/x_gfx1100.kpack"), &["gfx1100"]);
    symlink("libfat.so", root.join("lib/libfat.so.1")).expect("link");
    symlink("../rocblas/library/TensileLibrary_gfx1100.co", root.join("lib/hipblaslt/link.co")).expect("link");
    let mode = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(root.join("lib/libfat.so"), mode).expect("mode");
}

const GONE: [&str; 13] = [
    ".kpack",
    ".kpack/x_gfx1100.kpack",
    "blas_lib_gfx1100",
    "blas_lib_gfx1100/artifact_manifest.txt",
    "blas_lib_gfx1100/stage",
    "blas_lib_gfx1100/stage/x",
    "lib/hipblaslt",
    "lib/hipblaslt/library",
    "lib/hipblaslt/library/gfx1100",
    "lib/hipblaslt/library/gfx1100/extop.co",
    "lib/hipblaslt/link.co",
    "lib/rocblas/library/TensileLibrary_gfx1100.co",
    "share/miopen/db/gfx1030_36.db.txt",
];

fn paths(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).expect("list") {
            let path = entry.expect("entry").path();
            found.push(path.strip_prefix(root).expect("inside").to_str().expect("UTF-8").to_owned());
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

fn size(root: &Path) -> u64 {
    let files = paths(root).into_iter().map(|path| root.join(path));
    let files = files.filter(|path| path.is_file() && !path.is_symlink());
    files.map(|path| fs_err::metadata(path).expect("file").len()).sum()
}

#[test]
fn trees_lose_what_is_for_other_targets() {
    let gpu = Gpu::new();
    let (root, result) = (gpu.path("tree"), gpu.path("out/tree"));
    tree(&gpu, &root);
    let before = paths(&root);
    let dry = Call { run: Run::DryRun, ..Call::keep("gfx942") }.run(&root, &gpu.path("out")).expect("dry run");
    assert!(!gpu.path("out").exists() && paths(&root) == before);
    let outcome = Call::keep("gfx942").run(&root, &gpu.path("out")).expect("prune");
    assert_eq!(paths(&root), before);
    let kept: Vec<String> = before.iter().filter(|path| !GONE.contains(&path.as_str())).cloned().collect();
    assert_eq!(paths(&result), kept);
    assert!(code(&result.join("lib/libfat.so")) == expected(&root.join("lib/libfat.so"), &["gfx942"]));
    let mode = |path: PathBuf| fs_err::metadata(path).expect("file").permissions().mode();
    assert_eq!(mode(result.join("lib/libfat.so")), mode(root.join("lib/libfat.so")));
    assert_eq!((outcome.before, outcome.after), (size(&root), size(&result)));
    assert_eq!((dry.before, dry.after, dry.estimated), (outcome.before, outcome.after, false));
    assert_eq!(outcome.inputs[0].verified, 3);

    // In its place it becomes the same tree.
    let in_place = Call { in_place: true, ..Call::keep("gfx942") }.run(&root, Path::new("")).expect("prune");
    assert_eq!(paths(&root), kept);
    assert_eq!(in_place.after, outcome.after);
    for path in kept.iter().filter(|path| root.join(path).is_file()) {
        assert!(fs_err::read(root.join(path)).expect("read") == fs_err::read(result.join(path)).expect("read"));
    }
    let names = fs_err::read_dir(gpu.path("")).expect("list").map(|entry| entry.expect("entry").file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().starts_with(".rocwheel")).count(), 0);
}

fn make_wheel(gpu: &Gpu, folder: &Path) -> PathBuf {
    let library = FileContent::new(build(gpu, &["--offload-compress"], &["-shared"])).expect("library");
    let distribution = Distribution {
        name: "fat".to_owned(),
        version: "1.0".to_owned(),
        tags: vec![Tag::platform("manylinux_2_28_x86_64"), Tag::platform("manylinux_2_31_x86_64")],
        metadata: Metadata::default(),
        entry_points: EntryPoints::default(),
        licenses: Vec::new(),
        members: vec![
            Member::executable("fat.libs/libfat-1a2b.so", library),
            Member::new("fat/__init__.py", Vec::new()),
            Member::new("fat/rocblas/library/K_gfx1100.co", b"1100".to_vec()),
            Member::new("fat/rocblas/library/K_gfx942.co", b"942".to_vec()),
        ],
    };
    write_wheel(&distribution, folder, &WriteOptions::default(), &Silent).expect("wheel").path
}

#[test]
fn wheels_stay_wheels() {
    let gpu = Gpu::new();
    let file = make_wheel(&gpu, &gpu.path(""));
    let mut results = BTreeSet::new();
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
        let output = gpu.path(format!("out{threads}"));
        let outcome = pool.install(|| Call::keep("gfx942").run(&file, &output)).expect("prune");
        let result = output.join(file.file_name().expect("name"));
        let pruned = Wheel::open(&result).expect("open");
        assert_eq!(pruned.verify().expect("verify"), []);
        assert_eq!(outcome.inputs[0].verified, 2);
        assert!(pruned.member("fat/rocblas/library/K_gfx1100.co").is_none());
        assert!(pruned.member("fat.libs/libfat-1a2b.so").expect("member").executable);
        assert_eq!(outcome.after, fs_err::metadata(&result).expect("result").len());
        let unpacked = gpu.path("unpacked.so");
        fs_err::write(&unpacked, pruned.bytes("fat.libs/libfat-1a2b.so").expect("bytes")).expect("write");
        assert!(code(&unpacked) == expected(&gpu.path("libfat.so"), &["gfx942"]));
        gpu.load(&unpacked, true).expect("loads");
        results.insert(fs_err::read(result).expect("read"));
    }
    assert_eq!(results.len(), 1, "threads change nothing");
    let error = Call::keep("gfx906").run(&file, &gpu.path("none")).expect_err("nothing is left");
    assert!(matches!(error, Error::Empty { .. }), "{error}");
    let before = fs_err::read(&file).expect("read");
    Call { in_place: true, ..Call::keep("gfx942") }.run(&file, Path::new("")).expect("in place");
    let after = fs_err::read(&file).expect("read");
    assert!(after != before && results.contains(&after));
}

/// A dry run knows sizes of plain code exactly and those of compressed code nearly, and makes nothing.
#[test]
fn dry_runs_tell_sizes_without_the_work() {
    let gpu = Gpu::new();
    let dry = |path: &Path, call: Call| {
        let before = fs_err::read(path).expect("read");
        let outcome = Call { run: Run::DryRun, ..call }.run(path, &gpu.path("dry")).expect("dry run");
        assert!(!gpu.path("dry").exists() && fs_err::read(path).expect("read") == before);
        outcome
    };
    let real = |path: &Path, call: Call, output: &str| call.run(path, &gpu.path(output)).expect("prune");
    let near = |expected: u64, actual: u64| {
        assert!(expected.abs_diff(actual) * 4 <= actual, "{expected} was expected, {actual} it is");
    };
    let plain = build(&gpu, &[], &["-shared"]);
    let (expected, actual) = (dry(&plain, Call::keep("gfx942")), real(&plain, Call::keep("gfx942"), "plain"));
    assert_eq!((expected.after, expected.estimated), (actual.after, false));
    let shown = |outcome: &Outcome| -> Vec<(Action, Vec<String>, Vec<String>)> {
        let files = outcome.inputs.iter().flat_map(|input| &input.files);
        files.map(|file| (file.action, file.kept.clone(), file.dropped.clone())).collect()
    };
    assert_eq!(shown(&expected), shown(&actual));
    let compress = || Call { compress: Some(Compress::V3), ..Call::keep("gfx942") };
    let (expected, actual) = (dry(&plain, compress()), real(&plain, compress(), "compressed"));
    assert!(expected.estimated && !actual.estimated);
    near(expected.after, actual.after);
    let dll = gpu.build_windows("dry.dll", &["gfx942", "gfx1100"], &[]);
    let (expected, actual) = (dry(&dll, Call::keep("gfx942")), real(&dll, Call::keep("gfx942"), "dll"));
    assert_eq!((expected.after, expected.estimated), (actual.after, false));
    let variants = gpu.path("variants.kpack");
    archive(&variants, &["gfx90a:xnack+", "gfx90a:xnack-"]);
    let (expected, actual) =
        (dry(&variants, Call::keep("gfx90a:xnack+")), real(&variants, Call::keep("gfx90a:xnack+"), "archive"));
    assert_eq!((expected.after, expected.estimated), (actual.after, false));
    let wheel = make_wheel(&gpu, &gpu.path(""));
    let (expected, actual) = (dry(&wheel, Call::keep("gfx942")), real(&wheel, Call::keep("gfx942"), "wheel"));
    assert!(expected.estimated && shown(&expected) == shown(&actual));
    near(expected.after, actual.after);
    let error =
        Call { run: Run::DryRun, ..Call::keep("gfx906") }.run(&wheel, &gpu.path("dry")).expect_err("nothing is left");
    assert!(matches!(error, Error::Empty { .. }), "{error}");
}

/// What `pip install` made of a wheel, with a script and a file that was compiled later.
#[test]
fn records_of_what_is_installed_stay_true() {
    let gpu = Gpu::new();
    let environment = gpu.path("environment");
    let site = environment.join("lib/python3.12/site-packages");
    let wheel = Wheel::open(&make_wheel(&gpu, &gpu.path(""))).expect("open");
    for member in wheel.members() {
        let path = site.join(&member.name);
        fs_err::create_dir_all(path.parent().expect("parent")).expect("folder");
        fs_err::write(path, wheel.bytes(&member.name).expect("bytes")).expect("write");
    }
    let record = site.join("fat-1.0.dist-info/RECORD");
    let mut text = fs_err::read_to_string(&record).expect("RECORD");
    text.push_str(
        "../../../bin/fat,sha256=x,1\r\n../../../share/rocblas/library/K_gfx1100.co,,\nfat/__pycache__/a.pyc,,\n",
    );
    fs_err::write(&record, &text).expect("write");
    let other = site.join("other-1.0.dist-info/RECORD");
    fs_err::create_dir_all(other.parent().expect("parent")).expect("folder");
    fs_err::write(&other, "other-1.0.dist-info/RECORD,,\n").expect("write");
    let outside = environment.join("share/rocblas/library/K_gfx1100.co");
    fs_err::create_dir_all(outside.parent().expect("parent")).expect("folder");
    fs_err::write(&outside, "1100").expect("write");

    let dry = Call { run: Run::DryRun, ..Call::keep("gfx942") }.run(&environment, Path::new("")).expect("dry run");
    assert_eq!(fs_err::read_to_string(&record).expect("RECORD"), text);
    let outcome = Call::keep("gfx942").run(&environment, &gpu.path("out")).expect("prune");
    assert_eq!(fs_err::read_to_string(&record).expect("RECORD"), text, "the input is untouched");
    Call { in_place: true, ..Call::keep("gfx942") }.run(&environment, Path::new("")).expect("prune");
    for root in [gpu.path("out/environment"), environment] {
        let site = root.join("lib/python3.12/site-packages");
        let pruned = fs_err::read_to_string(site.join("fat-1.0.dist-info/RECORD")).expect("RECORD");
        let kept: Vec<&str> = text.lines().filter(|line| !line.contains("gfx1100") && !line.contains(".so,")).collect();
        let same: Vec<&str> = pruned.lines().filter(|line| !line.contains(".so,")).collect();
        assert_eq!(same, kept);
        assert!(pruned.contains("bin/fat,sha256=x,1\r\n"));
        let row =
            wheel::parse_rows(&pruned).expect("rows").into_iter().find(|row| row.path.contains("libfat")).expect("row");
        let library = fs_err::read(site.join(&row.path)).expect("library");
        assert_eq!(row.size, Some(library.len() as u64));
        assert_eq!(row.hash, wheel::hash_column(&wheel::digest(&library[..]).expect("digest")));
        assert_eq!(outcome.after, size(&root));
    }
    let mended: Vec<&str> = outcome.inputs[0].files.iter().filter_map(|file| file.note.as_deref()).collect();
    assert_eq!(mended, ["3 rows are different"]);
    let sizes = |outcome: &Outcome| {
        outcome.inputs[0].files.iter().find(|file| file.note.is_some()).map(|file| file.path.clone())
    };
    assert_eq!(sizes(&dry), sizes(&outcome));
}

/// A host wheel and its device wheels, as `rocwheel split` makes them, in one folder.
#[test]
fn extras_of_host_wheels_follow() {
    let folder = tempfile::tempdir().expect("folder");
    let root = folder.path().join("dist");
    fs_err::create_dir_all(&root).expect("folder");
    let write = |name: &str, metadata: Metadata, members: Vec<Member>| {
        let distribution = Distribution {
            name: name.to_owned(),
            version: "1.0".to_owned(),
            tags: vec![Tag::platform("manylinux_2_28_x86_64")],
            metadata,
            entry_points: EntryPoints::default(),
            licenses: Vec::new(),
            members,
        };
        write_wheel(&distribution, &root, &WriteOptions::default(), &Silent).expect("wheel").path
    };
    let extra = |name: &str, needs: &[&str]| {
        let needs = needs.iter().map(|need| format!("fat-device-{need}==1.0; extra == 'device-{name}'"));
        (format!("device-{name}"), needs.collect::<Vec<_>>())
    };
    let extras = [
        extra("gfx942", &["gfx942"]),
        extra("gfx1100", &["gfx1100", "gfx11"]),
        extra("all", &["gfx942", "gfx1100", "gfx11"]),
    ];
    let metadata = Metadata {
        provides_extra: extras.iter().map(|(name, _)| name.clone()).collect(),
        requires_dist: extras.iter().flat_map(|(_, needs)| needs.clone()).collect(),
        ..Metadata::default()
    };
    let host = write("fat", metadata, vec![Member::new("fat/__init__.py", Vec::new())]);
    for target in ["gfx942", "gfx1100"] {
        let path = folder.path().join(format!("fat_{target}.kpack"));
        archive(&path, &[target]);
        let content = FileContent::new(path).expect("archive");
        let member = Member::new(format!("fat/.kpack/fat_{target}.kpack"), content);
        write(&format!("fat-device-{target}"), Metadata::default(), vec![member]);
    }
    let output = folder.path().join("out");
    let variant = "fat-1.0-py3-none-manylinux_2_28_x86_64-amd.whl";
    fs_err::copy(&host, root.join(variant)).expect("copy");
    let outcome = Call::keep("gfx942").run(&root, &output).expect("prune");
    let mut names = paths(&output.join("dist"));
    let left = names.iter().position(|name| name == variant).expect("the variant stays");
    names.remove(left);
    let wanted =
        ["fat-1.0-py3-none-manylinux_2_28_x86_64.whl", "fat_device_gfx942-1.0-py3-none-manylinux_2_28_x86_64.whl"];
    assert_eq!(names, wanted);
    let gone = outcome.inputs[0].files.iter().find(|file| file.action == Action::Dropped).expect("dropped");
    assert_eq!(gone.note.as_deref(), Some("a wheel for other targets"));
    let pruned = Wheel::open(&output.join("dist").join(wanted[0])).expect("open");
    assert_eq!(pruned.verify().expect("verify"), []);
    let headers = wheel::Headers::parse(&pruned.metadata().expect("METADATA"));
    assert_eq!(headers.all("Provides-Extra"), ["device-gfx942", "device-all"]);
    let needs = headers.all("Requires-Dist");
    assert_eq!(needs.len(), 2);
    assert!(needs.iter().all(|need| need.starts_with("fat-device-gfx942")), "{needs:?}");
    // Alone: the same, and a target that it has no extra for is an error.
    let alone = folder.path().join("alone");
    let outcome = Call::keep("gfx942").run(&host, &alone).expect("prune");
    assert!(outcome.missing.is_empty());
    assert!(
        fs_err::read(alone.join(wanted[0])).expect("read")
            == fs_err::read(output.join("dist").join(wanted[0])).expect("read")
    );
    let error = Call::keep("gfx906").run(&host, &folder.path().join("none")).expect_err("nothing is left");
    assert!(matches!(error, Error::Empty { .. }), "{error}");
    // A device wheel alone is not made empty.
    let device = root.join("fat_device_gfx1100-1.0-py3-none-manylinux_2_28_x86_64.whl");
    assert!(matches!(Call::keep("gfx942").run(&device, &folder.path().join("none")), Err(Error::Empty { .. })));
}

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
    fs_err::write(path("cut.co"), &bundle_of(&["gfx942"], Form::Plain)[..5000]).expect("write");
    fs_err::write(path("x.kpack"), "KPAKnonsense").expect("write");
    fs_err::write(path("bad-1.0-py3-none-any.whl"), "PK").expect("write");
    fs_err::create_dir(path("folder")).expect("folder");
    let output = path("out");
    fails("text", &output, "it is no fat binary, offload bundle, kpack archive, wheel or directory");
    fails("empty", &output, "/empty` has no GPU code");
    fails("cut.co", &output, "/cut.co`: malformed offload bundle");
    fails("x.kpack", &output, "/x.kpack`: not a kpack archive");
    fails("bad-1.0-py3-none-any.whl", &output, "cannot read wheel");
    fails("none", &output, "/none`");
    fails("folder", &path("folder/out"), "lies in the input");
    assert_eq!(fs_err::read_dir(&output).map_or(0, Iterator::count), 0);
    let options = Options {
        keep: Keep::parse("gfx942", &TargetTable::embedded()).expect("keep"),
        compress: None,
        level: 3,
        empty: Empty::Refuse,
        destination: Destination::Folder(path("out")),
        run: Run::Execute,
        scratch: folder.path(),
        write: WriteOptions::default(),
    };
    let error = prune(&[path("text"), path("folder/../text")], &options, &Silent).expect_err("the same name");
    assert!(matches!(error, Error::SameName { .. }), "{error}");
}
