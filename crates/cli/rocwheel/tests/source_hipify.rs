//! `rocwheel source hipify`: output, written files, and messages about bad input.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use insta::assert_snapshot;
use rocwheel_fixtures::TestContext;
use rocwheel_system::symlink;

const VERSION: &str = "__version__ = '2.0.0'\n";
const TABLES: &str = "import collections\nNAMES = collections.OrderedDict([\n    ('cudaMalloc', 'hipMalloc'),\n    \
                      ('cuda_runtime.h', 'hip/hip_runtime.h'),\n    ('cudaStream_t', 'hipStream_t'),\n])\n\
                      MATH_TRANSPILATIONS = collections.OrderedDict([('std::exp', ('::exp'))])\nCUDA_TO_HIP_MAPPINGS = [NAMES]\n";
const KERNEL: &str = "#include \"k.h\"\n__global__ void k(int *p) { *p = std::exp(1); }\nvoid f() {\n  k<<<1, 2>>>(p);\n  cudaNew(p);\n}\n";

/// A context with tables in `torch` and an extension in `tree`.
fn context() -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    write(&context, "torch/cuda_to_hip_mappings.py", TABLES);
    write(&context, "torch/version.py", VERSION);
    write(&context, "tree/csrc/cuda/k.cu", KERNEL);
    write(&context, "tree/csrc/cuda/k.h", "#include <cuda_runtime.h>\ncudaStream_t s;\n");
    write(&context, "tree/csrc/plain.cpp", "int x;\n");
    context
}

fn write(context: &TestContext, path: &str, text: impl AsRef<[u8]>) {
    let path = context.path(path);
    fs_err::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder of the test");
    fs_err::write(path, text).expect("a file of the test");
}

fn read(context: &TestContext, path: &str) -> String {
    fs_err::read_to_string(context.path(path)).expect("a file of the test")
}

const HIPIFY: [&str; 4] = ["source", "hipify", "--tables", "torch"];

fn run(context: &TestContext, arguments: &[&str]) -> rocwheel_fixtures::Ran {
    context.run([&HIPIFY[..], arguments].concat())
}

/// Every file below a folder, with its contents.
fn tree(context: &TestContext, folder: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![context.path(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).expect("a folder of the test") {
            let path = entry.expect("an entry of the test").path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                found.push((path.display().to_string(), fs_err::read(&path).unwrap_or_default()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn an_extension_is_converted_in_place() {
    let context = context();
    assert_snapshot!("hipify", run(&context, &["tree"]).snapshot());
    assert_snapshot!("hipify_kernel", read(&context, "tree/csrc/hip/k.hip"));
    assert!(!context.path("tree/csrc/plain_hip.cpp").exists());
    assert_eq!(read(&context, "tree/csrc/cuda/k.cu"), KERNEL);
    assert_snapshot!("hipify_again", run(&context, &["tree", "--check"]).snapshot());
}

#[test]
fn plans_write_nothing() {
    let context = context();
    let before = tree(&context, ".");
    run(&context, &["tree", "--check"]).exits(1);
    assert_snapshot!("hipify_dry_run", run(&context, &["tree", "--dry-run"]).snapshot());
    assert_snapshot!("hipify_diff", run(&context, &["tree", "--diff"]).snapshot());
    assert_snapshot!("hipify_unmapped", run(&context, &["tree", "--dry-run", "--unmapped"]).snapshot());
    assert_snapshot!("hipify_json", run(&context, &["tree", "--json", "--check"]).snapshot());
    assert_eq!(tree(&context, "."), before);
}

#[test]
fn another_folder_gets_the_whole_tree() {
    let context = context();
    write(&context, "tree/README", "read me\n");
    let before = tree(&context, "tree");
    assert_eq!(run(&context, &["tree", "--output", "out/new"]).code, Some(0));
    assert_eq!(tree(&context, "tree"), before);
    assert_eq!(read(&context, "out/new/README"), "read me\n");
    assert!(read(&context, "out/new/csrc/hip/k.hip").contains("hipLaunchKernelGGL(( k), dim3(1), dim3(2), 0, 0, p);"));
    assert_snapshot!("hipify_output_exists", run(&context, &["tree", "--output", "out/new"]).snapshot());
    assert_eq!(run(&context, &["tree", "--output", "tree/inside"]).code, Some(2));
    assert_eq!(tree(&context, "out").len(), before.len() + 2);
}

#[test]
fn threads_and_repetition_do_not_matter() {
    let context = context();
    for number in 0..40 {
        write(&context, &format!("tree/a/h{number}.h"), format!("#include \"h{}.h\"\n cudaStream_t s;\n", number + 1));
    }
    for (jobs, output) in [("1", "one"), ("7", "seven")] {
        assert_eq!(run(&context, &["tree", "--jobs", jobs, "--output", output]).code, Some(0));
    }
    let plain = |name: &str| -> Vec<_> {
        tree(&context, name).into_iter().map(|(path, bytes)| (path.replacen(name, "", 1), bytes)).collect()
    };
    assert_eq!(plain("one").len(), plain("seven").len());
    assert!(plain("one").iter().zip(&plain("seven")).all(|(one, seven)| one.1 == seven.1));
}

#[test]
fn what_is_missing_is_named() {
    let context = context();
    assert_snapshot!("hipify_no_tree", context.run(["source", "hipify", "nowhere"]).snapshot());
    assert_snapshot!("hipify_no_tables", context.run(["source", "hipify", "tree"]).snapshot());
    assert_snapshot!("hipify_no_source", run(&context, &["tree", "--source", "csrc/none.cu"]).snapshot());
    assert_snapshot!("hipify_no_settings", run(&context, &["tree", "--mode", "pytorch"]).snapshot());
    assert_snapshot!("hipify_wrong_option", run(&context, &["tree", "--out-of-place-only"]).snapshot());
    write(&context, "torch/cuda_to_hip_mappings.py", "import x\nTABLE = [\n  compute(),\n]\n");
    assert_snapshot!("hipify_no_literals", run(&context, &["tree"]).snapshot());
    write(&context, "torch/version.py", "__version__ = '3.1.0'\n");
    write(&context, "torch/cuda_to_hip_mappings.py", TABLES);
    assert_snapshot!("hipify_version", run(&context, &["tree"]).snapshot());
}

#[test]
fn bad_sources_are_named_and_nothing_is_converted() {
    let context = context();
    write(&context, "tree/bad/text.h", b"int a;\n// \xe9\n");
    write(&context, "tree/bad/open.cu", "void f() {\n  k<<<1, 2;\n}\n");
    write(&context, "tree/bad/one.cu", "void f() {\n\n  k<<<1>>>(x);\n}\n");
    write(&context, "tree/bad/lost.cu", "auto s = \"a\\\\\";\nvoid f() { k<<<1, 2>>>(x); }\n");
    write(&context, "tree/bad/open_template.cu", "void f() { > <<<1, 2>>>(x); }\n");
    let before = tree(&context, "tree");
    assert_snapshot!("hipify_defects", run(&context, &["tree"]).snapshot());
    assert_eq!(tree(&context, "tree"), before);
    assert_snapshot!("hipify_fixed", run(&context, &["tree", "--fix-defects"]).snapshot());
    assert!(read(&context, "tree/bad/lost.hip").contains("hipLaunchKernelGGL(( k), dim3(1), dim3(2), 0, 0, x)"));
    // A file without anything to convert keeps its bytes, and is used unchanged.
    assert!(!context.path("tree/bad/open.hip").exists() && !context.path("tree/bad/text_hip.h").exists());
    assert_eq!(run(&context, &["tree", "--fix-defects", "--check"]).code, Some(0));
}

#[test]
fn line_ends_and_byte_order_marks_are_as_in_the_original() {
    let context = context();
    write(&context, "tree/crlf.h", "// a\r\n cudaStream_t s;\r\n");
    write(&context, "tree/plain_crlf.h", "int a;\r\n");
    write(&context, "tree/bom.h", "\u{feff}cudaStream_t s;\r int x;");
    assert_eq!(run(&context, &["tree"]).code, Some(0));
    let breadcrumb = "// !!! This is a file automatically generated by hipify!!!\n";
    assert_eq!(read(&context, "tree/crlf_hip.h"), format!("{breadcrumb}// a\n hipStream_t s;\n"));
    assert_eq!(read(&context, "tree/bom_hip.h"), format!("{breadcrumb}\u{feff}hipStream_t s;\n int x;"));
    assert!(!context.path("tree/plain_crlf_hip.h").exists());
    assert_eq!(read(&context, "tree/plain_crlf.h"), "int a;\r\n");
}

#[test]
fn links_are_read_and_never_lead_outside() {
    let context = context();
    write(&context, "outside/o.h", " cudaStream_t s;\n");
    symlink("../outside/o.h", context.path("tree/linked.h")).expect("a link of the test");
    symlink("..", context.path("tree/csrc/loop")).expect("a link of the test");
    run(&context, &["tree"]).exits(0);
    assert!(read(&context, "tree/linked_hip.h").ends_with(" hipStream_t s;\n"));
    symlink("nothing", context.path("tree/dangling.h")).expect("a link of the test");
    assert_snapshot!("hipify_dangling", run(&context, &["tree"]).snapshot());
    fs_err::remove_file(context.path("tree/dangling.h")).expect("a link of the test");
    // The result would be written through a link that leaves the tree.
    fs_err::create_dir(context.path("tree/cuda")).expect("a folder of the test");
    write(&context, "tree/cuda/x.h", " cudaStream_t s;\n");
    symlink("../outside", context.path("tree/hip")).expect("a link of the test");
    assert_snapshot!("hipify_outside", run(&context, &["tree"]).snapshot());
    assert_eq!(tree(&context, "outside").len(), 1);
    fs_err::remove_file(context.path("tree/hip")).expect("a link of the test");
    symlink("self", context.path("tree/self")).expect("a link of the test");
    run(&context, &["tree"]).exits(0);
}

#[test]
fn modes_stay_and_odd_files_are_refused() {
    let context = context();
    write(
        &context,
        "torch_tree/tools/amd_build/build_amd.py",
        "includes = ['torch/*']\nignores = []\ndef is_hip_clang():\n    return True\n",
    );
    write(&context, "torch_tree/torch/a.h", " cudaStream_t s;\n");
    let path = context.path("torch_tree/torch/a.h");
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).expect("a mode of the test");
    assert_eq!(run(&context, &["torch_tree"]).code, Some(0));
    assert_eq!(read(&context, "torch_tree/torch/a.h"), " hipStream_t s;\n");
    assert_eq!(fs_err::metadata(&path).expect("a file of the test").permissions().mode() & 0o777, 0o750);
    assert_eq!(run(&context, &["torch_tree", "--include", "*"]).code, Some(2));
    let made = std::process::Command::new("mkfifo").arg(context.path("tree/pipe.h")).status();
    assert!(made.expect("mkfifo is on every Debian machine").success());
    assert_snapshot!("hipify_pipe", run(&context, &["tree"]).snapshot());
}

#[test]
fn results_that_depend_on_the_order_are_refused() {
    let context = context();
    write(&context, "tree/cuda/a.h", " cudaStream_t s;\n");
    write(&context, "tree/hip/a.h", "int own;\n");
    assert_snapshot!("hipify_overwrites", run(&context, &["tree"]).snapshot());
    assert_eq!(read(&context, "tree/hip/a.h"), "int own;\n");
    assert_eq!(run(&context, &["tree", "--ignore", "hip/*"]).code, Some(0));
    assert!(read(&context, "tree/hip/a.h").contains("hipStream_t"));
    write(&context, "tree/csrc/a.cu", " cudaMalloc();\n");
    write(&context, "tree/csrc/a.hip", "int own;\n");
    write(&context, "tree/x/cuda/b.h", " cudaStream_t s;\n");
    write(&context, "tree/x/CUDAcuda/b.h", " cudaStream_t s;\n");
    assert_eq!(run(&context, &["tree", "--ignore", "hip/*"]).code, Some(0));
}

/// PyTorch's setting with the second algorithm: some files change in place, and the results of
/// others go into separate folders.
fn pytorch(context: &TestContext, tree: &str, files: usize) {
    let settings = "includes = ['torch/*', 'aten/*']\nignores = []\ndef is_hip_clang():\n    return True\n";
    write(context, &format!("{tree}/tools/amd_build/build_amd.py"), settings);
    for at in 0..files {
        write(context, &format!("{tree}/torch/{}/a{at}.h", at % 7), format!(" cudaStream_t s{at};\n"));
        write(context, &format!("{tree}/aten/{}/cuda/k{at}.cu", at % 5), format!(" cudaMalloc({at});\n"));
    }
}

/// The files of a folder, with the paths relative to it.
fn relative(context: &TestContext, folder: &str) -> Vec<(String, Vec<u8>)> {
    let begin = context.path(folder).display().to_string();
    tree(context, folder).into_iter().map(|(path, bytes)| (path.replace(&begin, ""), bytes)).collect()
}

#[test]
fn a_run_that_is_killed_at_any_time_is_taken_back_by_the_next() {
    let context = context();
    pytorch(&context, "fresh", 120);
    let before = relative(&context, "fresh");
    let begun = std::time::Instant::now();
    assert_eq!(run(&context, &["fresh"]).code, Some(0));
    let whole = begun.elapsed();
    let after = relative(&context, "fresh");
    assert_ne!(before, after);
    // Which step is hit depends on chance; a test of the library covers every step.
    for at in 0..12_u32 {
        let name = format!("tree{at}");
        pytorch(&context, &name, 120);
        let mut command = context.command();
        command.args(HIPIFY).arg(&name).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program can be started");
        // The writing is at the end of a run.
        std::thread::sleep(whole * (26 + 6 * at) / 100);
        // This has no effect if the child has already ended.
        let _ = child.kill();
        child.wait().expect("a child of the test");
        let left = context.path(format!("{name}/.rocwheel-hipify")).exists();
        let check = run(&context, &[&name, "--check"]);
        assert_eq!(left, check.stderr.contains("was killed before it was complete"), "{check:?}");
        let next = run(&context, &[&name]).exits(0);
        assert_eq!(left, next.stderr.contains("was killed"), "{next:?}");
        assert_eq!(relative(&context, &name), after, "killed after {at}");
        fs_err::remove_dir_all(context.path(&name)).expect("a folder of the test");
    }
}

#[test]
fn a_half_converted_tree_is_refused_and_can_be_taken_back() {
    let context = context();
    let nothing = run(&context, &["tree", "--recover"]);
    assert_eq!(nothing.stdout, "`tree` is as it should be: no conversion was killed there\n");
    // The state after a run that was killed after its first rename.
    let journal = "{\"begun\":{\"schema\":1,\"folders\":[\"csrc/hip\"],\"entries\":[{\"path\":\"csrc/hip/k.hip\",\"replaced\":false}]}}\n";
    write(&context, "tree/.rocwheel-hipify", journal);
    write(&context, "tree/csrc/hip/.rocwheel-hipify-0.new", "half");
    for options in [&["--check"][..], &["--diff"], &["--dry-run"], &["--output", "out"], &["--json", "--check"]] {
        let refused = run(&context, &[&["tree"], options].concat()).exits(1);
        let all = format!("{}{}", refused.stdout, refused.stderr);
        assert!(all.contains("was killed before it was complete") && all.contains("--recover"), "{refused:?}");
    }
    assert_snapshot!("hipify_recover", run(&context, &["tree", "--recover"]).snapshot());
    assert!(!context.path("tree/csrc/hip").exists() && !context.path("tree/.rocwheel-hipify").exists());
    write(&context, "tree/.rocwheel-hipify", journal);
    assert_snapshot!("hipify_recover_json", run(&context, &["tree", "--recover", "--json"]).snapshot());
    assert_eq!(run(&context, &["tree", "--recover", "--check"]).code, Some(2));
    write(&context, "tree/.rocwheel-hipify", "nonsense\n");
    assert_snapshot!("hipify_damaged_journal", run(&context, &["tree"]).snapshot());
}

#[test]
fn a_folder_for_includes_that_is_not_there_is_said_and_no_error() {
    let context = context();
    let arguments = ["tree", "--source", "csrc/cuda/k.cu", "--include-dir", "csrc/cuda", "--include-dir", "csrc/none"];
    let ran = run(&context, &arguments).ends(0, "warning: there is no folder `csrc/none`");
    assert!(context.path("tree/csrc/hip/k.hip").exists(), "{ran:?}");
}
