//! `rocwheel source hipify`: output, written files, and messages about bad input.

use std::os::unix::fs::PermissionsExt;

use insta::assert_snapshot;
use rocwheel_fixtures::{TestContext, contents_below};
use rocwheel_system::symlink;

const VERSION: &str = "__version__ = '2.0.0'\n";
const TABLES: &str = "import collections\nNAMES = collections.OrderedDict([\n    ('cudaMalloc', 'hipMalloc'),\n    \
                      ('cuda_runtime.h', 'hip/hip_runtime.h'),\n    ('cudaStream_t', 'hipStream_t'),\n])\n\
                      MATH_TRANSPILATIONS = collections.OrderedDict([('std::exp', ('::exp'))])\nCUDA_TO_HIP_MAPPINGS = [NAMES]\n";
const KERNEL: &str = "#include \"k.h\"\n__global__ void k(int *p) { *p = std::exp(1); }\nvoid f() {\n  k<<<1, 2>>>(p);\n  cudaNew(p);\n}\n";

/// A context with tables in `torch` and an extension in `tree`.
fn context() -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    context.write("torch/cuda_to_hip_mappings.py", TABLES);
    context.write("torch/version.py", VERSION);
    context.write("tree/csrc/cuda/k.cu", KERNEL);
    context.write("tree/csrc/cuda/k.h", "#include <cuda_runtime.h>\ncudaStream_t s;\n");
    context.write("tree/csrc/plain.cpp", "int x;\n");
    context
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
    contents_below(&context.path(folder))
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
    context.write("tree/README", "read me\n");
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
        context.write(format!("tree/a/h{number}.h"), format!("#include \"h{}.h\"\n cudaStream_t s;\n", number + 1));
    }
    for (jobs, output) in [("1", "one"), ("7", "seven")] {
        assert_eq!(run(&context, &["tree", "--jobs", jobs, "--output", output]).code, Some(0));
    }
    assert_eq!(tree(&context, "one"), tree(&context, "seven"));
}

#[test]
fn what_is_missing_is_named() {
    let context = context();
    assert_snapshot!("hipify_no_tree", context.types("source hipify nowhere").snapshot());
    assert_snapshot!("hipify_no_tables", context.types("source hipify tree").snapshot());
    assert_snapshot!("hipify_no_source", run(&context, &["tree", "--source", "csrc/none.cu"]).snapshot());
    assert_snapshot!("hipify_no_settings", run(&context, &["tree", "--mode", "pytorch"]).snapshot());
    assert_snapshot!("hipify_wrong_option", run(&context, &["tree", "--out-of-place-only"]).snapshot());
    context.write("torch/cuda_to_hip_mappings.py", "import x\nTABLE = [\n  compute(),\n]\n");
    assert_snapshot!("hipify_no_literals", run(&context, &["tree"]).snapshot());
    context.write("torch/version.py", "__version__ = '3.1.0'\n");
    context.write("torch/cuda_to_hip_mappings.py", TABLES);
    assert_snapshot!("hipify_version", run(&context, &["tree"]).snapshot());
}

#[test]
fn bad_sources_are_named_and_nothing_is_converted() {
    let context = context();
    context.write("tree/bad/text.h", b"int a;\n// \xe9\n");
    context.write("tree/bad/open.cu", "void f() {\n  k<<<1, 2;\n}\n");
    context.write("tree/bad/one.cu", "void f() {\n\n  k<<<1>>>(x);\n}\n");
    context.write("tree/bad/lost.cu", "auto s = \"a\\\\\";\nvoid f() { k<<<1, 2>>>(x); }\n");
    context.write("tree/bad/open_template.cu", "void f() { > <<<1, 2>>>(x); }\n");
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
    context.write("tree/crlf.h", "// a\r\n cudaStream_t s;\r\n");
    context.write("tree/plain_crlf.h", "int a;\r\n");
    context.write("tree/bom.h", "\u{feff}cudaStream_t s;\r int x;");
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
    context.write("outside/o.h", " cudaStream_t s;\n");
    symlink("../outside/o.h", context.path("tree/linked.h")).expect("a link of the test");
    symlink("..", context.path("tree/csrc/loop")).expect("a link of the test");
    run(&context, &["tree"]).exits(0);
    assert!(read(&context, "tree/linked_hip.h").ends_with(" hipStream_t s;\n"));
    symlink("nothing", context.path("tree/dangling.h")).expect("a link of the test");
    assert_snapshot!("hipify_dangling", run(&context, &["tree"]).snapshot());
    fs_err::remove_file(context.path("tree/dangling.h")).expect("a link of the test");
    // The result would be written through a link that leaves the tree.
    fs_err::create_dir(context.path("tree/cuda")).expect("a folder of the test");
    context.write("tree/cuda/x.h", " cudaStream_t s;\n");
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
    context.write(
        "torch_tree/tools/amd_build/build_amd.py",
        "includes = ['torch/*']\nignores = []\ndef is_hip_clang():\n    return True\n",
    );
    context.write("torch_tree/torch/a.h", " cudaStream_t s;\n");
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
    context.write("tree/cuda/a.h", " cudaStream_t s;\n");
    context.write("tree/hip/a.h", "int own;\n");
    assert_snapshot!("hipify_overwrites", run(&context, &["tree"]).snapshot());
    assert_eq!(read(&context, "tree/hip/a.h"), "int own;\n");
    assert_eq!(run(&context, &["tree", "--ignore", "hip/*"]).code, Some(0));
    assert!(read(&context, "tree/hip/a.h").contains("hipStream_t"));
    context.write("tree/csrc/a.cu", " cudaMalloc();\n");
    context.write("tree/csrc/a.hip", "int own;\n");
    context.write("tree/x/cuda/b.h", " cudaStream_t s;\n");
    context.write("tree/x/CUDAcuda/b.h", " cudaStream_t s;\n");
    assert_eq!(run(&context, &["tree", "--ignore", "hip/*"]).code, Some(0));
}

#[test]
fn a_half_converted_tree_is_refused_and_can_be_taken_back() {
    let context = context();
    let nothing = run(&context, &["tree", "--recover"]);
    assert_eq!(nothing.stdout, "`tree` is as it should be: no conversion was killed there\n");
    // The state after a run that was killed after its first rename.
    let journal = "{\"begun\":{\"schema\":1,\"folders\":[\"csrc/hip\"],\"entries\":[{\"path\":\"csrc/hip/k.hip\",\"replaced\":false}]}}\n";
    context.write("tree/.rocwheel-hipify", journal);
    context.write("tree/csrc/hip/.rocwheel-hipify-0.new", "half");
    for options in [&["--check"][..], &["--diff"], &["--dry-run"], &["--output", "out"], &["--json", "--check"]] {
        let refused = run(&context, &[&["tree"], options].concat()).exits(1);
        let all = format!("{}{}", refused.stdout, refused.stderr);
        assert!(all.contains("was killed before it was complete") && all.contains("--recover"), "{refused:?}");
    }
    assert_snapshot!("hipify_recover", run(&context, &["tree", "--recover"]).snapshot());
    assert!(!context.path("tree/csrc/hip").exists() && !context.path("tree/.rocwheel-hipify").exists());
    context.write("tree/.rocwheel-hipify", journal);
    assert_snapshot!("hipify_recover_json", run(&context, &["tree", "--recover", "--json"]).snapshot());
    assert_eq!(run(&context, &["tree", "--recover", "--check"]).code, Some(2));
    context.write("tree/.rocwheel-hipify", "nonsense\n");
    assert_snapshot!("hipify_damaged_journal", run(&context, &["tree"]).snapshot());
}

#[test]
fn a_folder_for_includes_that_is_not_there_is_said_and_no_error() {
    let context = context();
    let arguments = ["tree", "--source", "csrc/cuda/k.cu", "--include-dir", "csrc/cuda", "--include-dir", "csrc/none"];
    let ran = run(&context, &arguments).ends(0, "warning: there is no folder `csrc/none`");
    assert!(context.path("tree/csrc/hip/k.hip").exists(), "{ran:?}");
}
