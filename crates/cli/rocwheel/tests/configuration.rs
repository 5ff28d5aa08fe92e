//! `rocwheel.toml` and `[tool.rocwheel]`: the options that they add, the settings that override
//! them, and their errors.

use insta::assert_snapshot;
use rocwheel_fixtures::{Ran, TestContext};

fn context() -> TestContext {
    let context = TestContext::new(env!("CARGO_BIN_EXE_rocwheel"));
    context.artifact(
        "artifacts",
        "base_lib_generic",
        &[("base/a/stage/lib/libx.so.1", b"x"), ("base/a/stage/b", b"y")],
    );
    context
}

/// The settings that a command receives, as printed with `-vv`.
fn settings(context: &TestContext, arguments: &[&str]) -> Ran {
    context.run(["-vv"].iter().chain(arguments))
}

#[test]
fn a_file_adds_options_and_paths_start_from_it() {
    let context = context();
    context.write(
        "rocwheel.toml",
        "no-progress = true\n\n[artifact.flatten]\noutput = \"flat\"\ncomponents = [\"lib\"]\n",
    );
    fs_err::create_dir(context.path("inner")).unwrap();
    let output =
        context.command().current_dir(context.path("inner")).args(["artifact", "flatten", "../artifacts"]).output();
    context.ran(&output.unwrap()).ends(0, "sets --no-progress, --output, --components\n");
    assert!(context.path("flat").is_dir(), "the path starts from the folder of the file");
}

#[test]
fn the_command_line_comes_first_and_takes_out_what_it_excludes() {
    let context = context();
    context.write(
        "rocwheel.toml",
        "[package]\nartifacts = \"artifacts\"\ntargets = \"gfx942\"\nonly = [\"core\", \"meta\"]\noutput = \"o\"\n",
    );
    let ran = settings(&context, &["package", "--linux-amdgpu-families", "gfx1100", "--only", "devel", "--dry-run"]);
    assert!(ran.stderr.contains("sets --artifacts, --output\n"), "{ran:?}");
    assert!(ran.stderr.contains("\"gfx1100\"") && !ran.stderr.contains("gfx942"), "{ran:?}");
    let ran = settings(&context, &["package", "--dry-run"]);
    assert!(ran.stderr.contains("sets --artifacts, --targets, --only, --output\n"), "{ran:?}");
    assert!(ran.stderr.contains("\"gfx942\""), "{ran:?}");
    let ran = settings(&context, &["--no-config", "package", "--artifacts", "artifacts", "--output", "o", "--dry-run"]);
    assert!(!ran.stderr.contains("gfx942") && !ran.stderr.contains("rocwheel.toml"), "{ran:?}");
}

#[test]
fn another_file_can_be_named() {
    let context = context();
    context.write("rocwheel.toml", "[artifact.list]\nnonsense = 1\n");
    context.write("other.toml", "quiet = true\n");
    context.types("artifact list artifacts --config other.toml").exits(0);
    context.types("artifact list artifacts --config third.toml").ends(2, "third.toml");
}

#[test]
fn a_python_project_has_a_table_for_the_folders_below_it() {
    let context = context();
    let project = "[project]\nname = \"demo\"\n\n[tool.ruff]\nline-length = 100\n";
    context.write("pyproject.toml", format!("{project}\n[tool.rocwheel.artifact.flatten]\noutput = \"flat\"\n"));
    // A nested project without `[tool.rocwheel]`, and one whose file is not TOML.
    context.write("inner/pyproject.toml", project);
    context.write("inner/deeper/pyproject.toml", "[project\n");
    let run = |folder: &str, artifacts: &str| {
        let mut command = context.command();
        command.current_dir(context.path(folder)).args(["artifact", "flatten", artifacts, "--force"]);
        context.ran(&command.output().unwrap())
    };
    for (folder, artifacts) in [("", "artifacts"), ("inner", "../artifacts"), ("inner/deeper", "../../artifacts")] {
        let ran = run(folder, artifacts);
        assert!(ran.code == Some(0) && ran.stderr.contains("pyproject.toml` (SHA-256"), "{folder}: {ran:?}");
        assert!(context.path("flat").is_dir(), "the path starts from the folder of the file");
    }
    // In one folder our own file comes first.
    context.write("rocwheel.toml", "[artifact.flatten]\noutput = \"other\"\n");
    let ran = run("inner", "../artifacts");
    assert!(ran.stderr.contains("rocwheel.toml` (SHA-256") && context.path("other").is_dir(), "{ran:?}");
    assert!(ran.stderr.contains("warning: `[tool.rocwheel]` of `"), "{ran:?}");
    // The other file can still be named.
    fs_err::remove_dir_all(context.path("flat")).unwrap();
    let ran = context.types("artifact flatten artifacts --config pyproject.toml");
    assert!(ran.code == Some(0) && context.path("flat").is_dir(), "{ran:?}");
    context.types("artifact list artifacts --config inner/pyproject.toml").ends(2, "has no table `[tool.rocwheel]`");
}

#[test]
fn mistakes_in_the_table_of_a_project_name_file_and_line() {
    let context = context();
    for (text, words) in [
        ("[tool.rocwheel.package]\nverson = \"1\"\n", "pyproject.toml`, line 2: there is no option `verson` of"),
        ("[tool.rocwheel.artifact.list]\njobs = 3\n", "it stands in `[tool.rocwheel]` itself"),
        ("[tool]\nrocwheel = 3\n", "pyproject.toml`, line 2: `tool.rocwheel` is a table and not this number"),
        ("[tool.rocwheel\n", "pyproject.toml` is no TOML file"),
    ] {
        context.write("pyproject.toml", text);
        let ran = context.types("artifact list artifacts");
        assert!(ran.code == Some(2) && ran.stderr.contains(words), "{text}: {ran:?}");
    }
}

#[test]
fn a_table_counts_for_the_commands_below_its_command() {
    let context = context();
    context.write("rocwheel.toml", "[build]\nno-uv = true\nkeep = true\n\n[build.plan]\nkeep = false\n");
    context.types("build plan nowhere").says("sets --no-uv, --keep\n");
    // The other commands about plans have none of these options.
    let ran = context.types("build status nowhere");
    assert!(!ran.stderr.contains("rocwheel.toml"), "{ran:?}");
    context.write("rocwheel.toml", "[build]\nplan = \"x\"\n");
    context.types("build status nowhere").ends(2, "there is no option `plan` of");
}

#[test]
fn behind_two_dashes_there_are_no_options() {
    let context = context();
    context.write("rocwheel.toml", "quiet = true\n");
    let ran = context.types("artifact list -- artifacts");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn json_documents_name_the_file() {
    let context = context();
    let text = "[package]\nartifacts = \"artifacts\"\noutput = \"out\"\n";
    context.write("rocwheel.toml", text);
    let document = context.types("package --dry-run --json").json();
    let configuration = &document["configuration"];
    assert_eq!(configuration["options"], serde_json::json!(["--artifacts", "--output"]), "{document}");
    assert!(configuration["path"].as_str().unwrap().ends_with("rocwheel.toml"));
    assert_eq!(configuration["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn mistakes_name_the_line_and_what_was_meant() {
    let context = context();
    let cases = [
        ("unknown_option", "[package]\n\nplatform_tag = \"x\"\n"),
        ("unknown_command", "[pakcage]\nversion = \"1\"\n"),
        ("unknown_global", "verbos = 1\n"),
        ("option_of_another_command", "[split]\nshape = \"fat\"\n"),
        ("global_in_a_table", "[artifact.list]\njobs = 3\n"),
        ("wrong_type", "[package]\nstrict = \"yes\"\n"),
        ("wrong_value", "color = \"purple\"\n"),
        ("not_in_a_file", "json = true\n"),
        ("no_toml", "[package\n"),
    ];
    for (name, text) in cases {
        context.write("rocwheel.toml", text);
        let ran = context.types("artifact list artifacts");
        assert_eq!(ran.code, Some(2), "{name}: {ran:?}");
        assert_snapshot!(name, ran.snapshot());
    }
    context.types("artifact list artifacts --json").prints("\"error\"");
    // A wrong file does not disturb commands that do not use it.
    for arguments in [&["--help"][..], &["--version"], &["compat"], &["completions", "bash"], &["config", "schema"]] {
        assert_eq!(context.run(arguments).code, Some(0), "{arguments:?}");
    }
}

#[test]
fn a_value_of_another_command_is_checked_by_config_show() {
    let context = context();
    context.write("rocwheel.toml", "[package]\nshape = \"round\"\n");
    assert_eq!(context.types("artifact list artifacts").code, Some(0));
    let ran = context.types("config show").exits(2);
    assert_snapshot!("show_wrong_value", ran.snapshot());
}

#[test]
fn an_empty_variable_is_unset_and_a_wrong_one_is_as_wrong_as_its_option() {
    const ARGUMENTS: [&str; 3] = ["artifact", "list", "artifacts"];
    for name in ["ROCWHEEL_JOBS", "ROCWHEEL_CONFIG", "ROCWHEEL_CACHE", "ROCWHEEL_SIGNING_KEY"] {
        let context = context().with_variable(name, "");
        context.write("rocwheel.toml", "no-progress = true\n");
        let ran = context.run(ARGUMENTS);
        assert!(ran.code == Some(0) && ran.stderr.contains("sets --no-progress"), "{name}: {ran:?}");
        let ran = context.types("config show");
        assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
        let ran = context.types("compat compute_rocm_package_version --release-type dev");
        assert!(!ran.stderr.contains("invalid value"), "{name}: {ran:?}");
    }
    for (name, option, value) in [
        ("ROCWHEEL_JOBS", "--jobs", "abc"),
        ("ROCWHEEL_JOBS", "--jobs", "0"),
        ("ROCWHEEL_CONFIG", "--config", "third.toml"),
    ] {
        let context = context();
        context.write("rocwheel.toml", "no-progress = true\n");
        let of_option = context.run(ARGUMENTS.iter().chain(&[option, value]));
        let of_variable = context.with_variable(name, value).run(ARGUMENTS);
        let first = |ran: &Ran| ran.stderr.lines().next().unwrap().to_owned();
        assert_eq!(of_variable.code, Some(2), "{name}: {of_variable:?}");
        assert_eq!(first(&of_variable), first(&of_option), "{name}");
        assert!(!of_variable.stderr.contains("rocwheel.toml`, line"), "{name}: {of_variable:?}");
    }
}

#[test]
fn a_line_that_is_wrong_with_the_file_says_that_the_file_took_part() {
    let context = context();
    context.write("rocwheel.toml", "[package]\nscratch = \"s\"\n");
    context.types("package --artifacts artifacts --output o").ends(2, "adds --scratch; `--no-config` leaves it out");
}

#[test]
fn show_says_what_is_set_and_where() {
    let context = context();
    context.write("rocwheel.toml", "jobs = 2\n\n[package]\nshape = \"fat\"\nonly = ['core', 'meta']\n");
    assert_snapshot!("show", context.types("config show").snapshot());
    assert_snapshot!("show_origin", context.types("config show --origin").snapshot());
    assert_snapshot!("show_command", context.types("config show artifact list --origin").snapshot());
    assert_snapshot!("show_no_command", context.types("config show pakage").snapshot());
    let document = context.types("config show package --origin --json").json();
    let shape = document["settings"].as_array().unwrap().iter().find(|row| row["key"] == "package.shape").unwrap();
    assert_eq!(shape["origin"], serde_json::json!({"kind": "file", "line": 4}));
    assert_snapshot!("show_nothing", context.types("config show --no-config").snapshot());
}

#[test]
fn show_prints_no_password() {
    let context = context();
    context.write("rocwheel.toml", "[artifact.fetch]\nfrom = \"https://me:hidden@example.invalid/runs\"\n");
    for ran in [context.types("config show"), context.types("config show --json")] {
        assert!(ran.stdout.contains("https://example.invalid/runs") && !ran.stdout.contains("hidden"), "{ran:?}");
    }
}

#[test]
fn the_files_of_schemas_are_what_the_commands_print() {
    let context = context();
    for (name, command) in [("rocwheel", "config"), ("recipe", "recipe")] {
        let path = format!("{}/../../../docs/schemas/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let printed = context.run([command, "schema"]).stdout;
        // That of recipes is written by hand, and part of the program.
        if name == "rocwheel" && std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
            fs_err::write(&path, &printed).unwrap();
        }
        assert!(fs_err::read_to_string(&path).unwrap() == printed, "{path} is old: INSTA_UPDATE=always writes it");
    }
}

#[test]
fn the_schema_has_every_command_and_option() {
    let context = context();
    let schema = context.types("config schema").json();
    let package = &schema["properties"]["package"]["properties"];
    assert_eq!(package["shape"]["enum"], serde_json::json!(["split", "per-family", "fat"]));
    assert_eq!(package["strict"]["type"], "boolean");
    assert_eq!(schema["properties"]["jobs"]["type"], serde_json::json!(["string", "integer"]));
    assert_eq!(schema["properties"]["jobs"]["pattern"], "^[0-9]+$");
    assert!(schema["properties"]["source"]["properties"]["checkout"]["properties"].is_object());
    assert!(schema["properties"].get("compat").is_none() && schema["properties"].get("json").is_none());
    assert_eq!(schema["additionalProperties"], false);
}
