//! The results of evaluating recipes and the table of frameworks, before anything is built.

use std::path::Path;

use insta::assert_snapshot;
use rocwheel_fixtures::TestContext;

use super::{RECIPE, context};

/// A well-formed version that no table has is a warning and a plan, in every command alike.
#[test]
fn versions_of_tomorrow_are_planned() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    let torch = ["--gpu-targets", "gfx942", "--dry-run"];
    for (arguments, warning, plan) in [
        (&["matrix", "torch", "--torch", "2.16"][..], "no table knows torch 2.16", "torch 2.16"),
        (&["matrix", "flash-attn", "--rocm", "11.0"], "no table knows ROCm 11.0", "11.0"),
        (&["matrix", "flash-attn", "--torch", "2.14.1", "--rocm", "11.0"], "no table knows ROCm 11.0", "2.14.1"),
        (&["source", "checkout", "torch", "--line", "2.16", "--dry-run"], "the line 2.16", "release/2.16 of"),
        (
            &[&["build", "torch", "--line", "2.16", "--rocm", "11.0"][..], &torch].concat(),
            "the line 2.16",
            "release/2.16 of",
        ),
        (&["build", "magma-rocm110", "--dry-run"], "no table knows ROCm 11.0", "rocm11.0"),
    ] {
        let ran = context.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        let warned = ran.stderr.lines().filter(|line| line.starts_with("warning: ") && line.contains(warning));
        assert_eq!(warned.count(), 1, "{arguments:?}: {ran:?}");
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(plan), "{arguments:?}: {ran:?}");
        assert!(!ran.stdout.contains("0 can be built"), "{arguments:?}: {ran:?}");
    }
    // A build without ROCm would stop, which its plan says.
    let without = [&["build", "torch", "--rocm-sdk", "prefix=nowhere"][..], &torch].concat();
    context.run(without).ends(0, "warning: the build would stop: `[TEMP]/nowhere` is not an installed ROCm");
    // The tag of a release is no guess.
    context
        .run([&["build", "torch", "--source", "2.16.0", "--rocm", "7.2"][..], &torch].concat())
        .ends(0, "v2.16.0 of");
}

/// A tree without the file that a fact is read from is an error, not a tree without GPU targets.
#[test]
fn a_tree_says_its_gpu_targets_or_why_not() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    context.write("fa/flash_attn/__init__.py", "__version__ = \"2.8.4\"\n");
    let build = |targets: &str| {
        let options = ["--python", "3.12", "--torch", "2.14.0", "--rocm", "7.2", "--output", "dist", "--dry-run"];
        context.run([&["build", "flash-attn", "--source", "fa", "--gpu-targets", targets], &options[..]].concat())
    };
    let ran = build("gfx942");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("there is no `fa/setup.py`, which says what GPU targets flash-attn has"), "{ran:?}");
    context.write("fa/setup.py", "archs = [\"gfx942\"]\n");
    let ran = build("gfx942");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("`fa/setup.py` names no GPU targets: those of the recipe are taken"), "{ran:?}");
    let list = "allowed_archs = [\"native\", \"gfx1100\"]\n";
    context.write("fa/setup.py", list);
    assert_eq!(build("gfx942").code, Some(2));
    let ran = build("gfx1100");
    assert!(ran.code == Some(0) && !ran.stderr.contains("warning: `fa"), "{ran:?}");
    // The same list twice is one; two lists contradict each other.
    context.write("fa/setup.py", format!("{list}{list}"));
    assert_eq!(build("gfx1100").code, Some(0));
    context.write("fa/setup.py", format!("{list}\nallowed_archs = ['gfx942']\n"));
    build("gfx1100").ends(2, "`fa/setup.py` lists its GPU targets in line 1 and in line 3, and they differ");
}

/// PyTorch's list is that of its own wheels: the default of a ROCm that names no targets, and no
/// limit.
#[test]
fn the_targets_of_pytorchs_wheels_are_a_default_and_a_warning() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    context.write("rocm/.info/version", "7.2.1\n");
    context.write("pytorch/version.txt", "2.12.0a0\n");
    let prefix = ["--rocm-sdk", "prefix=rocm"];
    let build = |more: &[&str]| context.run([&["build", "torch", "--source", "pytorch", "--dry-run"], more].concat());
    build(&prefix).ends(0, "").prints("# GPU targets: those that ROCm says");
    let list = "pytorch/.ci/docker/manywheel/build.sh";
    let common = "  PYTORCH_ROCM_ARCH=\"gfx942;gfx950\"\n  B=\"--build-arg PYTORCH_ROCM_ARCH=${PYTORCH_ROCM_ARCH}\"\n";
    context.write(list, format!("{common}  PYTORCH_ROCM_ARCH=\"gfx906;${{PYTORCH_ROCM_ARCH}}\"\n"));
    let ran = build(&prefix).prints("# GPU targets: gfx906, gfx942, gfx950 (of the project's wheels)");
    assert!(!ran.stderr.contains("own wheels"), "{ran:?}");
    build(&[&prefix[..], &["--rocm", "6.2"]].concat()).prints("# GPU targets: gfx906, gfx942 (of the project's");
    build(&["--rocm-sdk", "index=https://rocm.example/v2"]).prints("# GPU targets: those that ROCm says");
    build(&[&prefix[..], &["--gpu-targets", "gfx1152,gfx942:xnack+"]].concat())
        .ends(0, format!("the project's own wheels of torch are not for gfx1152: see `{list}`"))
        .prints("# GPU targets: gfx1152, gfx942:xnack+ (as asked for)");
    context.write(list, "PYTORCH_ROCM_ARCH=$LIST\n");
    build(&prefix).ends(0, "names no GPU targets: none is compared").prints("# GPU targets: those that ROCm says");
}

/// The version of a tree and a variable that says another one.
#[test]
fn a_variable_must_not_contradict_the_version_of_the_tree() {
    for (said, reason) in [
        ("2.12.0.dev20260101+mine", None),
        ("2.11.0", Some("`PYTORCH_BUILD_VERSION` says version 2.11.0, and `pytorch/version.txt` says 2.12.0a0")),
        ("nightly", Some("says version nightly, and `pytorch/version.txt`")),
    ] {
        let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel")).with_variable("PYTORCH_BUILD_VERSION", said);
        context.write("pytorch/version.txt", "2.12.0a0\n");
        let command = ["build", "torch", "--source", "pytorch", "--gpu-targets", "gfx942", "--dry-run"];
        context.run(command).ends(if reason.is_some() { 2 } else { 0 }, reason.unwrap_or(""));
    }
}

#[test]
fn variables_that_people_use_are_honoured() {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"))
        .with_variable("PYTORCH_ROCM_ARCH", "gfx90a gfx942")
        .with_variable("DESIRED_ROCM", "rocm6.4")
        .with_variable("BUILD_TRITON_BACKEND", "true");
    let document = context.types("build flash-attn --torch 2.9 --dry-run --json").json();
    let recipes = document["recipes"].as_array().unwrap();
    let backends: Vec<&str> = recipes.iter().map(|recipe| recipe["cell"]["backend"].as_str().unwrap()).collect();
    assert_eq!(backends, ["ck", "triton"]);
    assert_eq!(recipes[0]["targets"]["names"], serde_json::json!(["gfx90a", "gfx942"]));
    assert_eq!(recipes[0]["cell"]["rocm"], "6.4");
    // Options override the recipe.
    context
        .types("build flash-attn --torch 2.9 --gpu-targets gfx950 --backend ck --dry-run")
        .prints("# GPU targets: gfx950 (as asked for)");
    let document = context.types("build all --dry-run --json").json();
    let names: Vec<&str> =
        document["recipes"].as_array().unwrap().iter().map(|recipe| recipe["recipe"].as_str().unwrap()).collect();
    assert_eq!(names, ["triton", "torch", "torchaudio", "torchvision"]);
}

#[test]
fn recipes_are_listed_shown_checked_and_begun() {
    let context = context("good");
    assert_snapshot!("recipe_list", context.types("recipe list").snapshot());
    let ran = context.types("recipe new my-extension");
    assert_eq!((ran.code, ran.stdout.trim()), (Some(0), "recipes/my-extension.toml"), "{ran:?}");
    let ran = context.types("recipe check recipes/my-extension.toml recipes/tiny.toml torch");
    assert_snapshot!("recipe_check", ran.snapshot());
    let ran = context.types("recipe check recipes");
    assert_eq!(
        ran.stdout.lines().map(|line| line.split(':').next().unwrap()).collect::<Vec<_>>(),
        ["my-extension", "tiny"]
    );
    context.types("recipe check source").ends(2, "`source` has no recipes");
    // A recipe of ours is replaced by one of the same name, and that is reported.
    context.types("recipe new torch --output own").says("it takes the place of our recipe torch");
    context.types("recipe show flash-attn").says("for example `--torch 2.9 --rocm 6.4`");
    context.types("recipe new my-extension").ends(2, "exists already");
    assert_eq!(context.types("recipe new ../x").code, Some(2));
    // `build` would take these names for something else.
    for name in ["all", "install-rocm", "magma-rocm63", "plan"] {
        let ran = context.run(["recipe", "new", name, "--output", "none"]);
        assert!(ran.code != Some(0) && ran.stderr.contains("a recipe cannot be called `"), "{name}: {ran:?}");
        assert!(!context.path("none").exists(), "{name}");
    }
    let ran = context.types("recipe show tiny --recipes recipes --rocm 7.2");
    assert_snapshot!("recipe_show", ran.snapshot());
    context.write("bad/bad.toml", RECIPE.replace("timeout", "timeuot"));
    let ran = context.types("recipe check bad/bad.toml");
    assert_snapshot!("recipe_bad", ran.snapshot());
    let ran = context.types("recipe show torch --source");
    assert!(ran.stdout.starts_with("# PyTorch") && ran.stdout.contains("[[step]]"), "{ran:?}");
}

#[test]
fn the_matrix_knows_what_is_there() {
    let context = context("good");
    for name in "flash_attn-2.8.3+rocm7.2torch2.14triton-py3-none-any.whl \
        flash_attn-2.8.3+rocm72torch2.13-cp312-cp312-linux_x86_64.whl \
        flash_attn-2.8.3+rocm714torch2.14-cp312-cp312-linux_x86_64.whl \
        flash_attn-2.8.3+cu130torch2.14-cp312-cp312-linux_x86_64.whl numpy-2.0-py3-none-any.whl"
        .split(' ')
    {
        context.write(Path::new("wheels").join(name), "");
    }
    let base = ["matrix", "flash-attn", "--framework-version", "2.8.3", "--rocm", "7.2,7.14", "--python", "3.12"];
    let run = |more: &[&str]| context.run(base.iter().chain(more));
    assert_snapshot!("matrix", run(&["--wheels", "wheels"]).snapshot());
    assert_snapshot!("matrix_table", run(&["--wheels", "wheels", "--format", "table"]).snapshot());
    // Without `--wheels`, nothing counts as missing.
    let ran = run(&["--backend", "ck"]);
    assert!(ran.stdout.contains("2.14   7.14  •") && !ran.stderr.contains("missing"), "{ran:?}");
    assert!(!run(&["--format", "table"]).stdout.contains("Status"));
    for (table, option) in [("frameworks", "matrix"), ("sources", "source"), ("images", "build")] {
        let ran = context.run(["matrix", "--print-table", table]);
        assert!(ran.code == Some(0) && ran.stdout.contains("\nschema = 1\n"), "{option}: {ran:?}");
    }
    context.write("mine.toml", context.types("matrix --print-table").stdout);
    assert_eq!(context.types("matrix --table mine.toml").stdout, context.types("matrix").stdout);
    assert_snapshot!("matrix_missing", run(&["--wheels", "wheels", "--missing-only", "--format", "github"]).snapshot());
    let document = run(&["--excluded", "--json"]).json();
    assert!(
        document["rows"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["reason"] == "torch 2.5 is not for ROCm 7.2, but for 6.1, 6.2")
    );
    for (arguments, words) in [
        (&["matrix", "flash-atn"][..], "hint: did you mean `flash-attn`?"),
        (&["matrix", "magma-rocm63"], "hint: write `rocwheel matrix magma --rocm 6.3`"),
        (&["matrix", "--rocm", "7.x"], "there is no version of ROCm `7.x` in the table"),
        (&["matrix", "torch", "--torch", "2.1x"], "there is no version of torch `2.1x` in the table"),
        (&["source", "checkout", "torch", "--line", "2.1x"], "there is no version line `2.1x`"),
        (&["source", "checkout", "torch", "--line", "2.3"], "there is no version line `2.3`"),
        (&["build", "magma-rocm9"], "there is no version of ROCm `9`"),
        (&["build", "torch", "--source", "2.x"], "the release 2.x of torch is not known"),
    ] {
        context.run(arguments).ends(2, words);
    }
    assert_eq!(context.types("matrix --wheels nowhere").code, Some(1));
}

#[test]
fn sources_are_named_by_recipe_or_by_project() {
    let context = context("good");
    let base = ["build", "flash-attn", "--torch", "2.12", "--rocm", "7.2", "--dry-run"];
    let planned = |more: &[&str]| context.run(base.iter().chain(more)).stderr;
    for name in ["flash-attn", "flash-attention"] {
        let said = planned(&["--origin", &format!("{name}=/mirror"), "--ref", &format!("{name}=v2.8.2")]);
        assert!(said.contains("would check out flash-attention: v2.8.2 of /mirror in "), "{said}");
        let said = planned(&["--source", &format!("{name}=2.7.4")]);
        assert!(said.contains("would check out flash-attention: v2.7.4 of https://"), "{said}");
    }
    // A build that compiles nothing needs no submodules.
    let of = |backend: &str| planned(&["--source", "2.7.4", "--backend", backend]);
    assert!(of("triton").contains("flash-attention-v2.7.4-without-submodules\n"), "{}", of("triton"));
    assert!(of("ck").contains("flash-attention-v2.7.4\n"), "{}", of("ck"));
}

#[test]
fn labels_are_written_as_the_user_wants_them() {
    let context = context("good");
    let run = |more: &[&str]| {
        let base = ["build", "flash-attn", "--source", "2.8.3", "--torch", "2.6.0", "--rocm", "6.2", "--dry-run"];
        context.run(base.iter().chain(more)).stdout
    };
    for (more, label) in [
        (&[][..], "rocm6.2torch2.6"),
        (&["--label-style", "compact"], "rocm62torch2.6"),
        (&["--label-style", "compact", "--backend", "triton"], "rocm62torch2.6triton"),
        (&["--version-suffix", "+mine.1"], "mine.1"),
    ] {
        let said = run(more);
        assert!(said.contains(&format!("FLASH_ATTN_LOCAL_VERSION={label}\n")), "{label}: {said}");
        assert!(said.contains(&format!("# version: ${{SOURCE_VERSION}}+{label}\n")), "{label}: {said}");
    }
    // A torch that PyTorch's index lacks is fine if another index is named, or if none is
    // installed.
    let base = ["build", "flash-attn", "--torch", "2.5.1", "--rocm", "7.2", "--dry-run"];
    for more in [["--torch-index", "https://example.invalid"], ["--backend", "triton"]] {
        context.run(base.iter().chain(&more)).exits(0);
    }
}

/// One file is enough for a recipe: the list, the matrix, `all` and the checkout include it.
#[test]
fn a_recipe_from_outside_is_one_file() {
    let context = context("good");
    let origin = context.path("source").display().to_string();
    let recipe = RECIPE.replace("name = \"tiny\"", "name = \"outside\"\npart-of-all = true");
    let recipe = recipe.replace("source = \"tiny\"", "source = \"outside\"");
    let project = format!("[project]\nref = \"main\"\norigin = \"here\"\norigins = {{ here = \"{origin}\" }}\n");
    context.write("own/outside.toml", format!("{recipe}\n{project}\n[framework]\nversions = [\"1.0\"]\n"));
    assert_eq!(fs_err::read_dir(context.path("own")).unwrap().count(), 1);
    context.types("recipe list --recipes own").prints("outside").says("builds outside, torch");
    let document = context.types("matrix outside --recipe-folder own --format json").json();
    assert_eq!(document["rows"][0]["recipe"], "outside", "{document}");
    let document = context.types("build outside --recipes own --rocm 7.2 --dry-run --json").json();
    assert_eq!(document["checkouts"][0]["project"], "outside", "{document}");
    let all = ["build", "all", "--recipes", "own", "--rocm", "7.2", "--gpu-targets", "gfx942", "--dry-run", "--json"];
    context.run(all).prints("\"recipe\": \"outside\"");
}
