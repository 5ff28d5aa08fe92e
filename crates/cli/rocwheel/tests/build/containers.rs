//! The recipes that are built in containers, and the messages about them before any container
//! starts.

use rocwheel_fixtures::TestContext;
use serde_json::{Value, json};

fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_rocwheel"))
}

/// The containers of a dry run.
fn planned(context: &TestContext, arguments: &[&str]) -> Vec<Value> {
    let document = context.run(["build"].iter().chain(arguments).chain(&["--dry-run", "--json"])).exits(0).json();
    document["recipes"].as_array().unwrap().iter().map(|recipe| recipe["container"].clone()).collect()
}

#[test]
fn magma_is_built_in_its_image() {
    let context = self::context();
    let image = "pytorch/almalinux-builder:rocm6.3";
    let podman = json!({ "engine": "podman", "image": image, "pull": "missing" });
    let with_podman = self::context().with_variable("DOCKER_CMD", "podman");
    assert_eq!(planned(&with_podman, &["magma-rocm63"]), [podman]);
    let never = json!({ "engine": "docker", "image": image, "pull": "never" });
    assert_eq!(planned(&context, &["magma-rocm63", "--executor", "docker", "--pull", "never"]), [never]);
    // An image that the user names may be in no registry.
    let own = json!({ "engine": "podman", "image": "mine:1", "pull": "never" });
    assert_eq!(planned(&with_podman, &["magma-rocm63", "--image", "mine:1"]), [own]);
    assert_eq!(planned(&with_podman, &["magma-rocm63", "--executor", "here"]), [Value::Null]);

    with_podman
        .types("build magma-rocm63 --dry-run")
        .says(format!("in a container of `podman`: image {image}"))
        .prints("gcc-gfortran python3 (dnf) or gfortran python3 python3-venv (apt)");
    with_podman.types("build magma-rocm63 magma-rocm64 --dry-run").says("rocm6.3").says("rocm6.4");
    with_podman.write("rocwheel.toml", "[build]\nexecutor = \"here\"\n");
    assert_eq!(planned(&with_podman, &["magma-rocm63"]), [Value::Null]);
}

const IMAGE: &str = "rocm/pytorch:rocm7.1.1_ubuntu24.04_py3.12_pytorch_release_2.9.1";

/// The images of flash-attention's document. PyTorch's index has no torch 2.9 for ROCm 7.1.
#[test]
fn a_tag_that_says_its_versions_chooses_them_and_its_torch() {
    let context = self::context();
    let flash = ["flash-attn", "--source", "2.8.3", "--executor", "docker", "--image"];
    let container = |image: &str| json!({ "engine": "docker", "image": image, "pull": "never", "torch": "2.9.1" });
    let versions = ["--python", "3.12", "--torch", "2.9.1", "--rocm", "7.1.1"];
    for (image, more) in
        [(IMAGE, &[][..]), (IMAGE, &versions), (IMAGE, &["--rocm", "7.1"]), ("rocm/pytorch", &versions)]
    {
        assert_eq!(planned(&context, &[&flash[..], &[image], more].concat()), [container(IMAGE)], "{image} {more:?}");
    }
    let ran = context.run(["build"].iter().chain(&flash).chain(&[IMAGE, "--dry-run"]));
    assert!(ran.stdout.contains("Python 3.12, ROCm 7.1.1") && ran.stdout.contains("rocm7.1torch2.9"), "{ran:?}");
    assert!(!ran.stdout.contains("step `torch`") && ran.stderr.contains("built with its torch 2.9.1"), "{ran:?}");
    for (option, value, what) in [
        ("--torch", "2.5.1", "has torch 2.9.1, and torch 2.5.1 is asked for"),
        ("--rocm", "6.2", "has ROCm 7.1.1, and ROCm 6.2 is asked for"),
        ("--python", "3.11", "has Python 3.12, and Python 3.11 is asked for"),
    ] {
        let ran = context.run(["build"].iter().chain(&flash).chain(&[IMAGE, option, value, "--dry-run"]));
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(what) && ran.stderr.contains(&format!("remove `{option} {value}`")), "{ran:?}");
    }
    // A torch of an index that was named is not the image's.
    let other = ["--torch", "2.5.1", "--torch-index", "https://index.example/whl"];
    let ran = context.run(["build"].iter().chain(&flash).chain(&[IMAGE]).chain(&other).chain(&["--dry-run"]));
    assert!(ran.code == Some(0) && ran.stdout.contains("step `torch`"), "{ran:?}");
    let ran = context.run(["build", "magma-rocm63", "--executor", "docker", "--image", IMAGE, "--dry-run"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("has ROCm 7.1.1, and ROCm 6.3 is asked for"), "{ran:?}");
}

#[test]
fn a_variable_that_names_an_engine_asks_for_containers() {
    let flash = ["flash-attn", "--backend", "triton", "--torch", "2.9", "--rocm", "7.2"];
    assert_eq!(planned(&context(), &flash), [Value::Null]);
    let podman = json!({ "engine": "podman", "image": "pytorch/manylinux2_28-builder:cpu", "pull": "missing" });
    assert_eq!(planned(&context().with_variable("DOCKER_CMD", "podman"), &flash), [podman]);
}

#[test]
fn without_an_engine_there_is_a_way() {
    context()
        .with_variable("PATH", "/nowhere")
        .types("build magma-rocm63")
        .ends(2, "neither `docker` nor `podman` is installed")
        .says("`--executor here` builds on this machine");
    context()
        .with_variable("DOCKER_CMD", "dcker")
        .types("build magma-rocm63")
        .ends(1, "the engine `dcker`, which is not installed");
}

/// A Docker or Podman that answers the questions about an image that no registry has.
const ENGINE: &str = "#!/bin/sh
[ \"$1\" = --version ] && { echo \"NAME version 4.3.1\"; exit 0; }
[ \"$1\" = info ] && { echo rootless=false; exit 0; }
[ \"$1\" = images ] && exit 0
echo \"$@\" >>asked
[ \"$1\" = pull ] && { echo \"manifest unknown\"; exit 1; }
echo \"No such image: $4\"; exit 1
";

#[cfg(unix)]
#[test]
fn an_image_that_is_not_here_is_fetched() {
    use std::os::unix::fs::PermissionsExt as _;
    for (engine, pulled) in [("docker", "pytorch/"), ("podman", "docker.io/pytorch/")] {
        let context = context();
        let program = context.write(engine, ENGINE.replace("NAME", engine).replace(">>asked", ">>$HOME/asked"));
        fs_err::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let context = context.with_variable("DOCKER_CMD", program.to_string_lossy());
        context.types("build magma-rocm63 --pull never").ends(1, "`--pull missing`");
        let asked = || fs_err::read_to_string(program.with_file_name("asked")).unwrap();
        assert!(!asked().contains("pull"), "{}", asked());
        context
            .types("build magma-rocm63")
            .says("could not fetch the image `pytorch/almalinux-builder:rocm6.3`")
            .says("the registry has no such image");
        assert!(asked().contains(&format!("pull {pulled}almalinux-builder:rocm6.3\n")), "{}", asked());
    }
}

#[test]
fn a_new_rocm_is_one_row() {
    let context = self::context();
    context.write("own.toml", "schema = 1\n[[rocm]]\nversion = \"7.15\"\n");
    context
        .types("build magma-rocm715 --table own.toml --executor docker --dry-run")
        .prints("linux-64/magma-rocm715-")
        .says("image pytorch/almalinux-builder:rocm7.15");
    context.types("build magma-rocm714 --executor docker --dry-run").ends(2, "no image for ROCm `7.14` and magma");
    context.types("matrix magma --excluded").prints("there is no image for ROCm `7.14` and magma");
    for rocm in ["magma-rocm61", "magma-rocm62"] {
        context
            .run(["build", rocm, "--executor", "docker", "--dry-run"])
            .says("image pytorch/manylinux2_28-builder:rocm6.");
    }
}
