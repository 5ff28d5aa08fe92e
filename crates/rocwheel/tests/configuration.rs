//! `rocwheel.toml`: the options that it adds, the settings that override it, and its errors.

use insta::assert_snapshot;
use rocwheel_testing::{Ran, TestContext};

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
    let ran = context.ran(&output.unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("sets --no-progress, --output, --components\n"), "{ran:?}");
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
    let ran = context.run(["artifact", "list", "artifacts", "--config", "other.toml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = context.run(["artifact", "list", "artifacts", "--config", "third.toml"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("third.toml"), "{ran:?}");
}

#[test]
fn behind_two_dashes_there_are_no_options() {
    let context = context();
    context.write("rocwheel.toml", "quiet = true\n");
    let ran = context.run(["artifact", "list", "--", "artifacts"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn json_documents_name_the_file() {
    let context = context();
    let text = "[package]\nartifacts = \"artifacts\"\noutput = \"out\"\n";
    context.write("rocwheel.toml", text);
    let ran = context.run(["package", "--dry-run", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let configuration = &document["configuration"];
    assert_eq!(configuration["options"], serde_json::json!(["--artifacts", "--output"]), "{ran:?}");
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
        let ran = context.run(["artifact", "list", "artifacts"]);
        assert_eq!(ran.code, Some(2), "{name}: {ran:?}");
        assert_snapshot!(name, ran.snapshot());
    }
    let ran = context.run(["artifact", "list", "artifacts", "--json"]);
    assert!(ran.stdout.contains("\"error\""), "{ran:?}");
    // A wrong file does not disturb commands that do not use it.
    for arguments in [&["--help"][..], &["--version"], &["compat"], &["completions", "bash"], &["config", "schema"]] {
        assert_eq!(context.run(arguments).code, Some(0), "{arguments:?}");
    }
}

#[test]
fn a_value_of_another_command_is_checked_by_config_show() {
    let context = context();
    context.write("rocwheel.toml", "[package]\nshape = \"round\"\n");
    assert_eq!(context.run(["artifact", "list", "artifacts"]).code, Some(0));
    let ran = context.run(["config", "show"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_snapshot!("show_wrong_value", ran.snapshot());
}

#[test]
fn a_line_that_is_wrong_with_the_file_says_that_the_file_took_part() {
    let context = context();
    context.write("rocwheel.toml", "[package]\nscratch = \"s\"\n");
    let ran = context.run(["package", "--artifacts", "artifacts", "--output", "o"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("adds --scratch; `--no-config` leaves it out"), "{ran:?}");
}

#[test]
fn show_says_what_is_set_and_where() {
    let context = context();
    context.write("rocwheel.toml", "jobs = 2\n\n[package]\nshape = \"fat\"\nonly = ['core', 'meta']\n");
    assert_snapshot!("show", context.run(["config", "show"]).snapshot());
    assert_snapshot!("show_origin", context.run(["config", "show", "--origin"]).snapshot());
    assert_snapshot!("show_command", context.run(["config", "show", "artifact", "list", "--origin"]).snapshot());
    assert_snapshot!("show_no_command", context.run(["config", "show", "pakage"]).snapshot());
    let ran = context.run(["config", "show", "package", "--origin", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let shape = document["settings"].as_array().unwrap().iter().find(|row| row["key"] == "package.shape").unwrap();
    assert_eq!(shape["origin"], serde_json::json!({"kind": "file", "line": 4}));
    assert_snapshot!("show_nothing", context.run(["config", "show", "--no-config"]).snapshot());
}

#[test]
fn show_prints_no_password() {
    let context = context();
    context.write("rocwheel.toml", "[artifact.fetch]\nfrom = \"https://me:hidden@example.invalid/runs\"\n");
    for ran in [context.run(["config", "show"]), context.run(["config", "show", "--json"])] {
        assert!(ran.stdout.contains("https://example.invalid/runs") && !ran.stdout.contains("hidden"), "{ran:?}");
    }
}

#[test]
fn the_schema_has_every_command_and_option() {
    let context = context();
    let schema: serde_json::Value = serde_json::from_str(&context.run(["config", "schema"]).stdout).unwrap();
    let package = &schema["properties"]["package"]["properties"];
    assert_eq!(package["shape"]["enum"], serde_json::json!(["split", "per-family", "fat"]));
    assert_eq!(package["strict"]["type"], "boolean");
    assert_eq!(schema["properties"]["jobs"]["type"], serde_json::json!(["string", "number"]));
    assert!(schema["properties"]["source"]["properties"]["checkout"]["properties"].is_object());
    assert!(schema["properties"].get("compat").is_none() && schema["properties"].get("json").is_none());
    assert_eq!(schema["additionalProperties"], false);
}
