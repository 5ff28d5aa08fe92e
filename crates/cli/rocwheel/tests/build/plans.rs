//! Plans with several cells.

use std::path::Path;

use insta::assert_snapshot;
use rocwheel_fixtures::{Ran, TestContext};
use serde_json::Value;

use super::{MAKE, RECIPE, WHEEL, build, context, python};

#[test]
fn pythons_are_cells_and_one_that_is_not_there_does_not_stop_the_others() {
    let context = context("good");
    // The wheel is for one Python.
    let recipe = RECIPE.replace("any-python = [\"plain\", \"rocm\"]", "");
    context.write("recipes/tiny.toml", recipe);
    let make = MAKE.replace("py3-none-any", "cp{sys.version_info[0]}{sys.version_info[1]}-none-any");
    context.write("source/make.py", make.replace("\"Wheel-Version", "f\"Wheel-Version"));
    let own = python();
    let ran = build(&context, &["--python", &format!("3.99,{own}")]).ends(1, "there is no Python 3.99");
    let name = WHEEL.replace("py3", &format!("cp{}", own.replace('.', "")));
    assert!(context.path("out").join(name).exists(), "{ran:?}");
    let status = context.types("build status out --json");
    let document = status.json();
    let states: Vec<&str> =
        document["cells"].as_array().unwrap().iter().filter_map(|cell| cell["state"].as_str()).collect();
    assert_eq!((status.code, states), (Some(1), vec!["failed", "built"]), "{status:?}");
}

#[test]
fn names_that_say_a_rocm_are_cells() {
    let context = context("good");
    // A dry run needs neither sources nor ROCm.
    let base = ["--source", "nowhere", "--rocm-sdk", "prefix=rocm-{rocm}", "--gpu-targets", "gfx942", "--dry-run"];
    context
        .run(["build", "magma-rocm64", "magma-rocm63", "magma-rocm64"].iter().chain(&base))
        .exits(0)
        .prints("rocm6.3")
        .prints("rocm6.4")
        .says("would build 2 of 2 cells");
    assert!(!context.path(".rocwheel").exists());
}

/// Builds for two versions of ROCm: cells that differ in their versions.
fn build_two(context: &TestContext, more: &[&str]) -> Ran {
    let line = "build tiny --recipes recipes --source source --rocm 7.1,7.2 --output out --no-uv";
    context.run(line.split(' ').chain(more.iter().copied()))
}

#[test]
fn several_values_are_cells_of_a_plan() {
    let context = context("good");
    let ran = build_two(&context, &["--dry-run"]);
    assert_snapshot!("plan_dry_run", ran.snapshot());
    assert!(!context.path("out").exists(), "a plan that is only shown writes nothing");
    build_two(&context, &[]).exits(0);
    let older = context.path("out/tiny-1.0+rocm7.1-py3-none-any.whl");
    assert!(older.is_file() && context.path("out").join(WHEEL).is_file());
    // Existing wheels are recognised by name alone, here without records of earlier runs.
    fs_err::remove_dir_all(context.path("out/.rocwheel")).unwrap();
    fs_err::remove_file(older).unwrap();
    let document = build_two(&context, &["--missing-only", "--dry-run", "--json"]).json();
    let left_out: Vec<&Value> = document["cells"].as_array().unwrap().iter().map(|cell| &cell["left-out"]).collect();
    assert_eq!(left_out, [&Value::Null, &serde_json::json!({ "exists": [WHEEL] })]);
    let ran = build_two(&context, &["--missing-only", "--json"]);
    let document = ran.json();
    let states: Vec<&Value> = document["cells"].as_array().unwrap().iter().map(|cell| &cell["state"]).collect();
    assert_eq!((ran.code, states), (Some(0), vec![&Value::from("built"), &Value::from("exists")]));
    let status = context.types("--color never build status out").exits(0).prints("tiny-1.0-plain-rocm7.1");
    // The flag of version 0.1 does the same and names its successor.
    let flag = context.types("build --status out");
    assert_eq!((flag.code, &flag.stdout), (status.code, &status.stdout));
    assert!(flag.stderr.contains("write `rocwheel build status DIR`") && !status.stderr.contains("write"), "{flag:?}");
    assert!(context.types("build logs out --cell tiny-1.0-plain-rocm7.1").stdout.contains("built"));
    context.types("audit build status").says("`build`");
    // One cell alone, by its title.
    let plan = document["plan"].as_str().unwrap().replace("[TEMP]", &context.directory().to_string_lossy());
    context.run(["build", "plan", &plan, "--cell", "tiny-1.0-plain-rocm7.1", "--no-uv"]).exits(0);
    context.run(["build", "plan", &plan, "--cell", "tiny-1.0-plain-rocm7.3"]).ends(2, "did you mean");
}

#[test]
fn a_plan_shows_first_what_is_built() {
    let context = context("good");
    let run = |more: &[&str]| {
        let base = ["build", "flash-attn", "--backend", "ck", "--python", "3.10,3.14", "--rocm", "6.2", "--matrix"];
        context.run(base.iter().chain(&["--framework-version", "2.8.3", "--dry-run"]).chain(more))
    };
    let ran = run(&[]);
    assert!(ran.stdout.lines().skip(1).all(|line| line.contains("  build  ")), "{ran:?}");
    assert!(ran.stderr.contains("would build 3 of 22 cells; 19 excluded (`--excluded` lists them)"), "{ran:?}");
    let all = run(&["--excluded"]).stdout;
    assert!(all.starts_with("Cell") && all.lines().count() == 23, "{all}");
    assert!(all.lines().nth(4).unwrap().contains("excluded: torch 2."), "{all}");
}

#[test]
fn wrong_plans_are_errors_before_anything_is_built() {
    let context = context("good");
    context.write("rocm-7.1/.info/version", "7.1.1\n");
    context.write("rocm-7.1/bin/hipcc", "");
    let prefix = ["--backend", "rocm", "--gpu-targets", "gfx942", "--rocm-sdk"];
    let sdk = |place: &'static str| [&prefix[..], &[place]].concat();
    for (more, words) in [
        (&["--backend", "plain,plian"][..], "none of the recipes has a backend `plian`"),
        (&["--matrix"], "the table of frameworks does not know tiny"),
        (&["--cell", "0.0"], "`--cell` chooses of a plan"),
        (&sdk("prefix=rocm-7.1"), "is ROCm 7.1.1, and 7.2 is to be built against"),
        (&sdk("prefix=rocm-{torch}"), "`{torch}` in `prefix=rocm-{torch}` needs `--torch`"),
        (&sdk("prefix=rocm-{rocm}"), "rocm-7.2` is not an installed ROCm"),
        (&["--job", "x.toml", "--executor", "slurm"], "cannot be used with"),
    ] {
        let ran = build_two(&context, more);
        assert!(ran.code == Some(2) && ran.stderr.contains(words), "{more:?}: {ran:?}");
    }
    for (arguments, words) in [
        (&["build", "status", "source"][..], "there is no plan in `source`"),
        (&["build", "logs", "nowhere"], "there is no folder `nowhere`"),
        (&["build", "tiny", "status"], "`status` is a command about plans, not a recipe"),
        (&["build", "plan", "source", "--excluded"], "--dry-run"),
        (
            &["build", "--job", "x.toml", "--output", "out", "--executor", "slurm"],
            "`--job` runs one job on this machine",
        ),
    ] {
        context.run(arguments).ends(2, words);
    }
    // PATH contains no program of Slurm.
    let path = context.path("bin");
    fs_err::create_dir(&path).unwrap();
    let python = rocwheel_system::find_program("python3", &std::env::var("PATH").unwrap()).unwrap();
    rocwheel_system::symlink(python, path.join("python3")).unwrap();
    let context = context.with_variable("PATH", path.to_string_lossy());
    build_two(&context, &["--executor", "slurm"])
        .ends(1, "scontrol says: it is not on this machine")
        .says("hint: run this where jobs are submitted");
}

#[test]
fn a_matrix_builds_the_releases_of_the_table() {
    let context = context("good");
    let run = |more: &[&str]| {
        let base = ["build", "flash-attn", "--rocm", "6.2", "--torch", "2.5.1", "--python", "3.11", "--matrix"];
        context.run(base.iter().chain(&["--dry-run"]).chain(more))
    };
    let titles = |ran: &Ran| -> Vec<String> {
        ran.stdout.lines().skip(1).filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
    };
    let ran = run(&["--backend", "ck"]);
    let of = |version: &str| format!("flash-attn-{version}-ck-rocm6.2-torch2.5.1-py3.11");
    assert_eq!(titles(&ran), ["2.6.3", "2.7.4", "2.8.3"].map(of), "{ran:?}");
    // The other versions are known source distributions.
    assert!(ran.stderr.contains("flash-attention: v2.7.4 of") && !ran.stderr.contains("v2.6.3 of"), "{ran:?}");
    assert_eq!(titles(&run(&["--backend", "ck", "--framework-version", "2.7.4,2.8.3"])), ["2.7.4", "2.8.3"].map(of));
    assert_eq!(titles(&run(&["--backend", "ck", "--source", "2.8.3"])), ["2.8.3"].map(of));
    // Existing wheels count in both spellings, and with the tag of one Python.
    for name in ["rocm62torch2.5-cp311-cp311-linux_x86_64", "rocm62torch2.5triton-cp311-cp311-linux_x86_64"] {
        context.write(Path::new("wheels").join(format!("flash_attn-2.8.3+{name}.whl")), "");
    }
    run(&["--framework-version", "2.8.3", "--missing-only", "--output", "wheels", "--excluded"])
        .says("would build 0 of 2 cells");
    let matrix = ["matrix", "flash-attn", "--framework-version", "2.8.3", "--rocm", "6.2", "--torch", "2.5.1"];
    context
        .run(matrix.iter().chain(&["--python", "3.11", "--wheels", "wheels"]))
        .says("2 cells: 2 exist")
        .prints("2.5.1  6.2   ✓");
    context.run(matrix.iter().chain(&["--python", "3.11", "--format", "github"])).prints(r#""torch":"2.5.1""#);
}

/// torch and its companions are planned by the versions of torch that the table has for a ROCm.
#[test]
fn a_matrix_of_torch_is_by_its_versions() {
    let context = context("good");
    let titles = |recipe: &str| -> Vec<String> {
        let base = ["build", recipe, "--matrix", "--rocm", "7.1", "--python", "3.12"];
        let ran = context.run(base.iter().chain(&["--gpu-targets", "gfx942", "--dry-run"])).exits(0);
        // Sources of every version that is built, and of no other.
        assert!(
            ["2.10", "2.13"].iter().all(|line| ran.stderr.contains(&format!("torch: release/{line} of"))),
            "{ran:?}"
        );
        assert!(!ran.stderr.contains("release/2.9 of"), "{ran:?}");
        ran.stdout.lines().skip(1).filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
    };
    for recipe in ["torch", "torchvision"] {
        let expected: Vec<String> =
            ["2.10", "2.11", "2.12", "2.13"].map(|torch| format!("{recipe}-rocm7.1-torch{torch}-py3.12")).into();
        assert_eq!(titles(recipe), expected);
    }
}
