//! `rocwheel source checkout`, killed (SIGKILL) while it fetches over the network, and at other
//! times.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::path::Path;
use std::process::Stdio;

use rocwheel_fixtures::git_server::{Behaviour, GitServer, Protocol};
use rocwheel_fixtures::{TestContext, git};

/// The processes that run below a folder, or name it.
fn processes(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let mut found = Vec::new();
    for entry in fs_err::read_dir("/proc").unwrap().flatten() {
        let place =
            fs_err::read_link(entry.path().join("cwd")).map(|path| path.display().to_string()).unwrap_or_default();
        let state = fs_err::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if place.starts_with(&folder) && !state.contains(") Z ") {
            found.push(state);
        }
    }
    found
}

/// Files that git keeps only while it works.
fn remains(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if entry.path().extension().is_some_and(|extension| extension == "lock")
                || name.starts_with("tmp_")
                || name.starts_with("run-")
            {
                found.push(entry.path().display().to_string());
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn a_run_that_is_killed_in_the_middle_of_a_fetch_twice_is_completed_by_the_third() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    let origins = context.path("origins");
    for name in ["sub", "vision"] {
        let path = origins.join(name);
        fs_err::create_dir_all(&path).unwrap();
        git(&path, &["init", "--quiet", "--initial-branch=nightly"]);
        // The content cannot be compressed.
        let mut state = 1_u32;
        let bytes = (0..1_000_000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        fs_err::write(path.join("large.bin"), bytes.collect::<Vec<u8>>()).unwrap();
        if name == "vision" {
            git(&path, &["submodule", "--quiet", "add", "../sub", "third_party/sub"]);
        }
        git(&path, &["add", "--all"]);
        git(&path, &["commit", "--quiet", "--message", name]);
    }
    for protocol in [Protocol::Git, Protocol::Http] {
        let server = GitServer::new(&origins, protocol);
        let root = format!("{protocol:?}");
        let address = server.address("vision");
        let arguments = ["source", "checkout", "torchvision", "--origin", &address, "--root", &root, "--depth", "1"];
        let tree = context.path(&root).join("pytorch_vision");
        for (count, repository) in [(1, "vision"), (2, "sub")] {
            server.behave(Behaviour::Stall { repository: repository.to_owned(), after: 300_000 });
            let mut command = context.command();
            let mut child = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            server.wait_for_stall(count);
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(!processes(&tree).is_empty(), "git is left alone, and waits for the server");
        }
        server.behave(Behaviour::Serve);
        let ran = context.run(arguments).exits(0);
        assert!(!ran.stderr.contains("interrupted run left"), "nobody could miss anything: {ran:?}");
        assert_eq!(processes(&tree), Vec::<String>::new());
        assert_eq!(remains(&tree), Vec::<String>::new());
        assert_eq!(git(&tree, &["rev-parse", "HEAD"]), git(&origins.join("vision"), &["rev-parse", "nightly"]));
        assert_eq!(git(&tree, &["status", "--porcelain"]), "");
        let sub = tree.join("third_party/sub");
        assert_eq!(fs_err::metadata(sub.join("large.bin")).unwrap().len(), 1_000_000);
        assert_eq!(git(&sub, &["status", "--porcelain"]), "");
        assert_eq!(git(&sub, &["tag"]), "THEROCK_UPSTREAM_DIFFBASE");
        context.run(arguments).prints("unchanged");
    }
}

const TABLES: &str = "import collections\nNAMES = collections.OrderedDict([\n    ('cudaMalloc', 'hipMalloc'),\n])\n\
                      CUDA_TO_HIP_MAPPINGS = [NAMES]\n";
const SETTINGS: &str = "includes = ['torch/*', 'aten/*']\nignores = []\ndef is_hip_clang():\n    return True\n";

#[test]
fn a_run_that_is_killed_at_any_time_is_completed_by_the_next() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    let (torch, sub) = (context.path("torch"), context.path("sub"));
    context.write("sub/src/a.cpp", "int a;\n");
    context.write("torch/tools/amd_build/build_amd.py", SETTINGS);
    context.write("torch/torch/utils/hipify/cuda_to_hip_mappings.py", TABLES);
    context.write("torch/torch/utils/hipify/version.py", "__version__ = '2.0.0'\n");
    for at in 0..150 {
        context.write(format!("torch/torch/csrc/{}/a{at}.h", at % 9), format!(" cudaMalloc({at});\n"));
        context.write(format!("torch/aten/{}/cuda/k{at}.cu", at % 9), format!(" cudaMalloc({at});\n"));
    }
    for path in [&sub, &torch] {
        git(path, &["init", "--quiet", "--initial-branch=nightly"]);
        if path == &torch {
            git(
                path,
                &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../sub", "third_party/sub"],
            );
        }
        git(path, &["add", "--all"]);
        git(path, &["commit", "--quiet", "--message", "first"]);
    }
    let arguments =
        |root: &str| ["source", "checkout", "torch", "--origin", "torch", "--root", root].map(str::to_owned);
    let begun = std::time::Instant::now();
    let ran = context.run(arguments("whole"));
    let whole = begun.elapsed();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // Converted sources have the date of the upstream commit, so equal sources are the same commit.
    let head = git(&context.path("whole/pytorch"), &["rev-parse", "HEAD"]);
    for part in 1..8_u32 {
        let root = format!("killed{part}");
        // The second time is earlier in the remaining work.
        for share in [part * 12, part * 7] {
            let mut command = context.command();
            let mut child = command.args(arguments(&root)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(whole * share / 100);
            let _ = child.kill();
            child.wait().unwrap();
        }
        let ran = context.run(arguments(&root));
        assert_eq!(ran.code, Some(0), "killed after {part} of 8: {ran:?}");
        let tree = context.path(&root).join("pytorch");
        assert_eq!(git(&tree, &["rev-parse", "HEAD"]), head, "killed after {part} of 8");
        assert_eq!(git(&tree, &["status", "--porcelain", "--ignored"]), "");
        assert_eq!(remains(&tree.join(".git")), Vec::<String>::new());
        assert_eq!(processes(&tree), Vec::<String>::new());
    }
}
