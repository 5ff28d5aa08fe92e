//! Trees and wheels: files for other targets are removed, and files that refer to them are
//! corrected.

use super::*;

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
    write("share/kernels.co", &bundle_of(&["gfx942", "gfx1030"], BundleForm::Plain));
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

fn size(root: &Path) -> u64 {
    let files = paths_below(root).into_iter().map(|path| root.join(path));
    let files = files.filter(|path| path.is_file() && !path.is_symlink());
    files.map(|path| fs_err::metadata(path).expect("file").len()).sum()
}

#[test]
fn trees_lose_what_is_for_other_targets() {
    let gpu = Gpu::new();
    let (root, result) = (gpu.path("tree"), gpu.path("out/tree"));
    tree(&gpu, &root);
    let before = paths_below(&root);
    let dry = Call { run: Mode::DryRun, ..Call::keep("gfx942") }.run(&root, &gpu.path("out")).expect("dry run");
    assert!(!gpu.path("out").exists() && paths_below(&root) == before);
    let outcome = Call::keep("gfx942").run(&root, &gpu.path("out")).expect("prune");
    assert_eq!(paths_below(&root), before);
    let kept: Vec<String> = before.iter().filter(|path| !GONE.contains(&path.as_str())).cloned().collect();
    assert_eq!(paths_below(&result), kept);
    assert!(code(&result.join("lib/libfat.so")) == expected(&root.join("lib/libfat.so"), &["gfx942"]));
    let mode = |path: PathBuf| fs_err::metadata(path).expect("file").permissions().mode();
    assert_eq!(mode(result.join("lib/libfat.so")), mode(root.join("lib/libfat.so")));
    assert_eq!((outcome.before, outcome.after), (size(&root), size(&result)));
    assert_eq!((dry.before, dry.after, dry.estimated), (outcome.before, outcome.after, false));
    assert_eq!(outcome.inputs[0].verified, 3);

    // Pruning in place gives the same tree.
    let in_place = Call { in_place: true, ..Call::keep("gfx942") }.run(&root, Path::new("")).expect("prune");
    assert_eq!(paths_below(&root), kept);
    assert_eq!(in_place.after, outcome.after);
    for path in kept.iter().filter(|path| root.join(path).is_file()) {
        assert!(fs_err::read(root.join(path)).expect("read") == fs_err::read(result.join(path)).expect("read"));
    }
    let names = fs_err::read_dir(gpu.path("")).expect("list").map(|entry| entry.expect("entry").file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().starts_with(".rocwheel")).count(), 0);
}

fn make_wheel(gpu: &Gpu, folder: &Path) -> PathBuf {
    let library = fs_err::read(build(gpu, &["--offload-compress"], &["-shared"])).expect("library");
    TestWheel::new("fat-1.0-py3-none-manylinux_2_28_x86_64.manylinux_2_31_x86_64.whl")
        .program("fat.libs/libfat-1a2b.so", library)
        .file("fat/__init__.py", "")
        .file("fat/rocblas/library/K_gfx1100.co", "1100")
        .file("fat/rocblas/library/K_gfx942.co", "942")
        .write(folder)
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
    assert!(error.to_string().contains("would have no GPU code left"), "{error}");
    let before = fs_err::read(&file).expect("read");
    Call { in_place: true, ..Call::keep("gfx942") }.run(&file, Path::new("")).expect("in place");
    let after = fs_err::read(&file).expect("read");
    assert!(after != before && results.contains(&after));
}

/// A dry run knows the sizes of plain code exactly and those of compressed code approximately, and
/// writes nothing.
#[test]
fn dry_runs_tell_sizes_without_the_work() {
    let gpu = Gpu::new();
    let dry = |path: &Path, call: Call| {
        let before = fs_err::read(path).expect("read");
        let outcome = Call { run: Mode::DryRun, ..call }.run(path, &gpu.path("dry")).expect("dry run");
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
    let shown = |outcome: &PruneReport| -> Vec<(PruneAction, Vec<String>, Vec<String>)> {
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
        Call { run: Mode::DryRun, ..Call::keep("gfx906") }.run(&wheel, &gpu.path("dry")).expect_err("nothing is left");
    assert!(error.to_string().contains("would have no GPU code left"), "{error}");
}

/// A tree that `pip install` made from a wheel, with a script and a file that was compiled later.
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

    let dry = Call { run: Mode::DryRun, ..Call::keep("gfx942") }.run(&environment, Path::new("")).expect("dry run");
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
        let row = rocwheel_wheel::parse_rows(&pruned)
            .expect("rows")
            .into_iter()
            .find(|row| row.path.contains("libfat"))
            .expect("row");
        let library = fs_err::read(site.join(&row.path)).expect("library");
        assert_eq!(row.size, Some(library.len() as u64));
        assert_eq!(row.hash, rocwheel_wheel::hash_column(&rocwheel_content::sha256_of(&library[..]).expect("digest")));
        assert_eq!(outcome.after, size(&root));
    }
    let mended: Vec<&str> = outcome.inputs[0].files.iter().filter_map(|file| file.note.as_deref()).collect();
    assert_eq!(mended, ["3 rows are different"]);
    let sizes = |outcome: &PruneReport| {
        outcome.inputs[0].files.iter().find(|file| file.note.is_some()).map(|file| file.path.clone())
    };
    assert_eq!(sizes(&dry), sizes(&outcome));
}

/// A host wheel and its device wheels in one folder, as `rocwheel split` writes them.
#[test]
fn extras_of_host_wheels_follow() {
    let folder = tempfile::tempdir().expect("folder");
    let root = folder.path().join("dist");
    fs_err::create_dir_all(&root).expect("folder");
    let extra = |name: &str, needs: &[&str]| {
        let needs = needs.iter().map(|need| format!("fat-device-{need}==1.0; extra == 'device-{name}'"));
        (format!("device-{name}"), needs.collect::<Vec<_>>())
    };
    let extras = [
        extra("gfx942", &["gfx942"]),
        extra("gfx1100", &["gfx1100", "gfx11"]),
        extra("all", &["gfx942", "gfx1100", "gfx11"]),
    ];
    let name = |stem: &str| format!("{stem}-1.0-py3-none-manylinux_2_28_x86_64.whl");
    let mut host = TestWheel::new(name("fat")).file("fat/__init__.py", "");
    for (extra, needs) in &extras {
        host = host.header(format!("Provides-Extra: {extra}")).requires(needs);
    }
    let host = host.write(&root);
    for target in ["gfx942", "gfx1100"] {
        let path = folder.path().join(format!("fat_{target}.kpack"));
        archive(&path, &[target]);
        let wheel = TestWheel::new(name(&format!("fat_device_{target}")));
        wheel.file(format!("fat/.kpack/fat_{target}.kpack"), fs_err::read(path).expect("archive")).write(&root);
    }
    let output = folder.path().join("out");
    let variant = "fat-1.0-py3-none-manylinux_2_28_x86_64-amd.whl";
    fs_err::copy(&host, root.join(variant)).expect("copy");
    let outcome = Call::keep("gfx942").run(&root, &output).expect("prune");
    let mut names = paths_below(&output.join("dist"));
    let left = names.iter().position(|name| name == variant).expect("the variant stays");
    names.remove(left);
    let wanted =
        ["fat-1.0-py3-none-manylinux_2_28_x86_64.whl", "fat_device_gfx942-1.0-py3-none-manylinux_2_28_x86_64.whl"];
    assert_eq!(names, wanted);
    let gone = outcome.inputs[0].files.iter().find(|file| file.action == PruneAction::Dropped).expect("dropped");
    assert_eq!(gone.note.as_deref(), Some("a wheel for other targets"));
    let pruned = Wheel::open(&output.join("dist").join(wanted[0])).expect("open");
    assert_eq!(pruned.verify().expect("verify"), []);
    let headers = rocwheel_wheel::Headers::parse(&pruned.metadata().expect("METADATA"));
    assert_eq!(headers.all("Provides-Extra"), ["device-gfx942", "device-all"]);
    let needs = headers.all("Requires-Dist");
    assert_eq!(needs.len(), 2);
    assert!(needs.iter().all(|need| need.starts_with("fat-device-gfx942")), "{needs:?}");
    // Pruning the host wheel alone gives the same; a target without an extra is an error.
    let alone = folder.path().join("alone");
    let outcome = Call::keep("gfx942").run(&host, &alone).expect("prune");
    assert!(outcome.missing.is_empty());
    assert!(
        fs_err::read(alone.join(wanted[0])).expect("read")
            == fs_err::read(output.join("dist").join(wanted[0])).expect("read")
    );
    let error = Call::keep("gfx906").run(&host, &folder.path().join("none")).expect_err("nothing is left");
    assert!(error.to_string().contains("would have no GPU code left"), "{error}");
    // A device wheel alone is not emptied.
    let device = root.join("fat_device_gfx1100-1.0-py3-none-manylinux_2_28_x86_64.whl");
    let error = Call::keep("gfx942").run(&device, &folder.path().join("none")).expect_err("nothing is left");
    assert!(error.to_string().contains("would have no GPU code left"), "{error}");
}

/// A wheel with separate code objects, and a library with some in its constants.
#[test]
fn separate_code_objects_go_if_their_path_names_their_target() {
    let gpu = Gpu::new();
    let code = code(&build(&gpu, &[], &["-shared"]));
    let object = |target: &str| code[0].iter().find(|(found, _)| found == target).expect("compiled").1.clone();
    fs_err::write(gpu.path("x.co"), object("gfx1100")).expect("write");
    fs_err::write(gpu.path("x.s"), format!(".section .rodata\n.incbin \"{}\"\n", gpu.path("x.co").display()))
        .expect("write");
    let library = gpu.path("libdata.so");
    gpu.run(
        "clang-19",
        &["-shared", "-nostdlib", "-o", library.to_str().expect("UTF-8"), gpu.path("x.s").to_str().expect("UTF-8")],
    );
    let files = [
        ("x/hsa/gfx942/a.co", object("gfx942")),
        ("x/hsa/gfx1100/a.co", object("gfx1100")),
        ("x/b_gfx90a-xnack+.hsaco", object("gfx90a:xnack+")),
        ("x/hsa/gfx1100/a.csv", b"gfx1100".to_vec()),
        ("x/hsa/gfx942/wrong.co", object("gfx1100")),
        ("x/aot/k.hsaco", object("gfx1100")),
        ("x/libdata.so", fs_err::read(library).expect("read")),
    ];
    let root = gpu.path("tree");
    for (path, bytes) in &files {
        fs_err::create_dir_all(root.join(path).parent().expect("parent")).expect("folder");
        fs_err::write(root.join(path), bytes).expect("write");
    }
    let outcome = Call::keep("gfx942").run(&root, &gpu.path("out")).expect("prune");
    let result = |path: &str| outcome.inputs[0].files.iter().find(|file| file.path == path).expect("listed");
    for path in ["x/hsa/gfx1100/a.co", "x/b_gfx90a-xnack+.hsaco"] {
        assert_eq!(result(path).action, PruneAction::Dropped, "{path}");
        assert!(!gpu.path("out/tree").join(path).exists());
    }
    for path in ["x/hsa/gfx942/a.co", "x/hsa/gfx942/wrong.co", "x/aot/k.hsaco", "x/libdata.so"] {
        assert_eq!(result(path).action, PruneAction::Kept, "{path}");
        assert!(gpu.path("out/tree").join(path).exists());
    }
    assert!(gpu.path("out/tree/x/hsa/gfx1100/a.csv").exists());
    assert_eq!(result("x/hsa/gfx942/a.co").note, None);
    let note = "not changed: its path does not name its target, so it may be opened on any GPU";
    assert_eq!(result("x/aot/k.hsaco").note.as_deref(), Some(note));
    assert_eq!(result("x/hsa/gfx942/wrong.co").note.as_deref(), Some(note));
    let note = "the code objects in its data stay, because only the program knows where they are";
    assert_eq!(
        (result("x/libdata.so").note.as_deref(), &*result("x/libdata.so").kept),
        (Some(note), &["gfx1100".to_owned()][..])
    );
    // A single file for another target is refused, also if it is cut behind its header.
    let mut first = object("gfx1100");
    first.truncate(100);
    fs_err::write(gpu.path("cut.co"), first).expect("write");
    let error = Call::keep("gfx942").run(&gpu.path("cut.co"), &gpu.path("cut")).expect_err("other code");
    assert!(error.to_string().contains("would have no GPU code left"), "{error}");
}
