//! `rocwheel compat --check` on workflows and scripts.

use super::*;

const WORKFLOW: &str = r#"
jobs:
  build:
    steps:
      - uses: actions/checkout@v5
      - run: |
          # build_prod_wheels.py is called below
          echo "build_python_packages.py comes next"
          if [ -n "${{ inputs.families }}" ]; then
            python ./build_tools/artifact_manager.py fetch \
              --stage=all --run-id ${{ inputs.run }} \
              --download-concurrency "${{ inputs.connections }}" --output-dir=out
          fi
          version=$(python build_tools/compute_rocm_package_version.py --release-type ${{ inputs.type }})
          sudo docker run image bash -c '
            python -u build_tools/fetch_artifacts.py --run-id 5 --extract-concurrency 3
          '
      - run: python build_tools/artifact_manager.py fetch --output-dir=o --bootstrap
      - run: python build_tools/build_python_packages.py --artifact-dir=a --dest-dir=b --colour
      - run: python build_tools/artifact_manager.py push --stage x --build-dir o --compress-concurrency many
      - run: python build_tools/upload_python_packages.py --input-packages-dir p --run-id 5 ${{ inputs.all && '--multiarch' || '' }}
      - run: python build_tools/build_python_packages.py --artifact-dir=a --dest-dir=b $MORE
      - run: run_in_image build_tools/build_python_packages.py --artifact-dir=a
      - run: python external-builds/pytorch/run_pytorch_tests_full.py --test-config inductor
      - run: make magma-rocm${{ matrix.rocm }}
      - run: python manage.py migrate
      - run: python external-builds/uccl/build_prod_wheels.py build --output-dir o
      - run: python build_tools/health_status.py
      - shell: cmd
        run: |
          REM build_prod_wheels.py
          python external-builds\pytorch\build_prod_wheels.py ^
            install-rocm --find-links %LINKS%
      - run: python build_tools/packaging/python/manage_structured.py --auto-detect-prefixes --starting-from v2/
      - run: python external-builds/pytorch/pytorch_apex_repo.py checkout --hipify
      - run: python external-builds/pytorch/pytorch_torch_repo.py checkout --hipify
      - run: python build_tools/artifact_manager.py copy --source-run-id ${{ inputs.run }} --stage="${{ inputs.stages }}" --dry-run
"#;

#[test]
fn each_command_has_its_line_and_its_verdict() {
    let context = context();
    let path = context.write("ci.yml", WORKFLOW);
    let ran = compat(&context, &["--check", path.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let found: Vec<(u64, &str, &str, String)> = report["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap();
            (row["line"].as_u64().unwrap(), text("command"), text("verdict"), row["reasons"].to_string())
        })
        .collect();
    let expected = [
        (10, "artifact_manager fetch", "taken", "[]"),
        (14, "compute_rocm_package_version", "taken", "[]"),
        (16, "fetch_artifacts", "differs", "`--extract-concurrency`: without effect"),
        (18, "artifact_manager fetch", "not-taken", "`--bootstrap`: not here"),
        (19, "build_python_packages", "not-taken", "`--colour`"),
        (20, "artifact_manager push", "not-taken", "`many`"),
        (21, "upload_python_packages", "not-taken", "`--artifact-group` is missing"),
        (22, "build_python_packages", "unknown", "`$MORE`"),
        (23, "run_in_image build_tools/build_python_packages.py --artifact-dir=a", "unknown", "could not be read"),
        (24, "run_pytorch_tests_full", "not-taken", "`--test-config inductor` is two runs"),
        (25, "make", "other-command", "`rocwheel build magma-rocm${{ matrix.rocm }}`"),
        (26, "manage", "unknown", "many projects"),
        (27, "build_prod_wheels", "not-taken", "`uccl`"),
        (28, "health_status", "stays", "makes and moves no packages"),
        (32, "build_prod_wheels install-rocm", "taken", "[]"),
        (34, "manage_structured", "not-taken", "`--auto-detect-prefixes`: not here: name each folder"),
        (35, "pytorch_apex_repo checkout", "differs", "`--hipify` has no effect: apex converts"),
        (36, "pytorch_torch_repo checkout", "taken", "[]"),
        (37, "artifact_manager copy", "taken", "[]"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((line, command, verdict, reasons), expected) in found.iter().zip(expected) {
        assert_eq!((*line, *command, *verdict), (expected.0, expected.1, expected.2), "{reasons}");
        assert!(reasons.contains(expected.3), "{line}: {reasons}");
    }
    assert_eq!(report["summary"]["taken"], 5);
    assert_eq!(report["other_commands"], 4);
}

/// Each way in which a script is called, and what only looks like one.
#[test]
fn commands_are_found_as_the_shell_finds_them() {
    let fetch = "fetch_artifacts.py --run-id 5";
    let push = "python build_tools/artifact_manager.py push --stage x --build-dir o --compress-concurrency";
    let archive = "python build_tools/fileset_tool.py artifact-archive a -o a.tar.xz --hash-algorithm";
    let packages = "python build_tools/build_python_packages.py --artifact-dir=a --dest-dir=b";
    for (file, text, expected) in [
        ("a.sh", "bash ./build_rocm.sh 2.8.3 3.12 2.12.0 7.2", "1 build_rocm taken"),
        ("a.sh", "python build_tools/brand_new.py", "1 brand_new not-taken"),
        (
            "a.sh",
            "python build_tools/packaging/publish_rocm_to_release_buckets.py",
            "1 publish_rocm_to_release_buckets other-command",
        ),
        ("a.sh", "python -m build_tools.fetch_artifacts --run-id 5", "1 fetch_artifacts taken"),
        ("a.sh", &format!("$PYTHON build_tools/{fetch}"), "1 fetch_artifacts taken"),
        ("a.sh", "python run_pytorch_tests.py -k $WHICH", "1 run_pytorch_tests taken"),
        ("a.sh", &format!("{archive} $HASH"), "1 fileset_tool artifact-archive taken"),
        ("a.sh", &format!("{archive} md5"), "1 fileset_tool artifact-archive not-taken"),
        ("a.sh", &format!("{packages} --colour $MORE"), "1 build_python_packages not-taken"),
        ("a.sh", &format!("{packages} \"${{more[@]}}\""), "1 build_python_packages unknown"),
        ("a.sh", &format!("{push} '$MANY'"), "1 artifact_manager push not-taken"),
        ("a.sh", &format!("{push} $MANY"), "1 artifact_manager push differs"),
        ("a.sh", &format!("bash -e build_tools/other.sh 'python {fetch}'"), "1 other not-taken"),
        ("a.sh", &format!("bash -ec 'true\npython {fetch}'"), "2 fetch_artifacts taken"),
        ("a.sh", &format!("if true; then false; else\n python {fetch}; fi"), "2 fetch_artifacts taken"),
        ("a.sh", &format!("fi then <\npython \\\n {fetch}"), "2 fetch_artifacts taken"),
        ("a.sh", &format!("true # python {fetch}\npython {fetch}"), "2 fetch_artifacts taken"),
        (
            "a.sh",
            &format!("in_image build_tools/{fetch}\npython {fetch}"),
            "1 in_image build_tools/fetch_artifacts.py --run-id 5 unknown, 2 fetch_artifacts taken",
        ),
        ("a.ps1", "python build_tools\\fetch_artifacts.py `\n  --run-id 5", "1 fetch_artifacts taken"),
    ] {
        let context = context();
        context.write(file, text);
        let report = compat(&context, &["--check", file, "--json"]).json();
        let rows = report["commands"].as_array().unwrap_or_else(|| panic!("{text}: {report}")).iter();
        let rows = rows.map(|row| {
            [&row["line"].to_string(), row["command"].as_str().unwrap(), row["verdict"].as_str().unwrap()].join(" ")
        });
        assert_eq!(rows.collect::<Vec<_>>().join(", "), expected, "{text}");
    }
}

#[test]
fn scripts_of_shells_and_of_gitlab_are_read() {
    let context = context();
    context.write("ci/all.yml", "build:\n  script:\n    - python build_tools/fetch_artifacts.py --run-id 5\n");
    context.write("ci/all.sh", "set -e\n\npython build_tools/fetch_artifacts.py \\\n  --run-id \"$RUN\"\n");
    context.write("ci/readme.md", "python build_tools/nothing.py\n");
    let folder = context.path("ci");
    let ran = good(&context, &["--check", folder.to_str().unwrap()]);
    let expected = "rocwheel takes the commands: 2 commands of ROCm's scripts, 2 taken\n";
    assert!(ran.stdout.starts_with(expected), "{ran:?}");
    assert!(ran.stdout.contains("all.sh:3: fetch_artifacts: taken\n"), "{ran:?}");
    assert!(ran.stdout.contains("all.yml:3: fetch_artifacts: taken\n"), "{ran:?}");
}

#[test]
fn input_that_shows_nothing_is_no_success() {
    let context = context();
    let page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\n<body class=\"x\">: a</body></html>\n";
    for (name, text, expected) in [
        ("page.yml", page, "`page.yml`"),
        ("list.yml", "- one\n- two\n", "is no workflow"),
        ("broken.yml", "a: [1\nb: }", "is neither a workflow in YAML nor a script"),
        ("empty.yml", "", "is no workflow"),
        ("others.yml", "jobs: {a: {steps: [{run: make}]}}\n", "no command in"),
        ("uses.yml", "jobs: {a: {uses: ./other.yml}}\n", "no command in"),
        ("plumbing.yml", "run: python build_tools/health_status.py\n", "no command in"),
        ("script.sh", "if then fi <html>\n", "no command in"),
        ("notes/readme.md", "x", "has no workflow"),
    ] {
        context.write(name, text);
        let argument = if name.starts_with("notes/") { "notes" } else { name };
        let ran = compat(&context, &["--check", argument]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{name}: {ran:?}");
        assert!(ran.stderr.contains(expected.trim_matches('`')), "{name}: {ran:?}");
        assert!(!ran.stderr.contains("defect"), "{name}: {ran:?}");
    }
    for (arguments, code) in [(&["--check"][..], 2), (&["--check", "missing.yml"][..], 1)] {
        assert_eq!(compat(&context, arguments).code, Some(code), "{arguments:?}");
    }
}

/// The check reads the help, which also says it where no translation is made.
#[test]
fn options_without_effect_say_so_in_the_help() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/compat");
    // These have none beside others, or for one project; the translation says when.
    let others = ["--patch", "--hipify", "--repo-name", "--sccache-no-wrap"];
    let pattern = regex::Regex::new(r#"(?:without_effect\(|then_some\()\s*"(--[a-z0-9-]+)""#).unwrap();
    let mut count = 0;
    for entry in fs_err::read_dir(source).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let text = fs_err::read_to_string(&entry).unwrap();
        for option in pattern.captures_iter(&text).map(|found| found[1].to_owned()) {
            let field = option.trim_start_matches('-').replace('-', "_");
            let at = text.find(&format!("    {field}: ")).unwrap_or_else(|| panic!("{option}: {entry:?}"));
            let help = text[..at].rsplit("\n\n").next().unwrap().rsplit(",\n").next().unwrap();
            let is_said = ["/// Without effect", "/// Has no effect"].iter().any(|said| help.contains(said));
            assert!(is_said || others.contains(&option.as_str()), "{option}: {help}");
            count += 1;
        }
    }
    assert!(count > 12, "{count}");
}
