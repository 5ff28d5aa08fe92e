//! `rocwheel rocm-version` as release pipelines call it.

use insta::assert_snapshot;
use rocwheel_fixtures::{TestContext, git};

const COMMIT: &str = "89553ce3746eda74ade42557470d25e37c91b6f0";

fn context() -> TestContext {
    TestContext::new(env!("CARGO_BIN_EXE_rocwheel"))
}

#[test]
fn the_base_version_comes_from_version_json() {
    let context = context();
    let arguments = ["rocm-version", "--release-type", "nightly-bkc", "--date", "20260814"];
    assert_snapshot!("version_without_file", context.run(arguments).snapshot());
    context.write("version.json", r#"{"rocm-version": "10.1.0", "release-metadata": {"base-date": "20260811"}}"#);
    assert_snapshot!("version_nightly_bkc", context.run(arguments).snapshot());
    assert_snapshot!("version_rerun", context.run(arguments.iter().chain(&["--rerun", "2"])).snapshot());

    context.write("other/version.json", r#"{"rocm-version": "7.1.0"}"#);
    let other = ["rocm-version", "--version-json", "other/version.json", "--release-type", "release"];
    assert_eq!(context.run(other).stdout, "wheel  7.1.0\ndeb    7.1.0\nrpm    7.1.0\n");
    context.write("other/version.json", r#"{"rocm-version": 7}"#);
    assert_snapshot!("version_broken_file", context.run(other).snapshot());
    context.types("rocm-version --version-json nowhere.json --release-type release").ends(1, "nowhere.json");
}

#[test]
fn json_and_the_outputs_of_a_github_step() {
    let context = context();
    let outputs = context.write("outputs", "earlier=1\n");
    let context = context.with_variable("GITHUB_OUTPUT", outputs.display().to_string());
    let ran = context
        .types("rocm-version --json --release-type prerelease --prerelease-version 3 --override-base-version 7.1.0");
    assert_snapshot!("version_json", ran.snapshot());
    assert_eq!(
        fs_err::read_to_string(outputs).unwrap(),
        "earlier=1\nrocm_package_version=7.1.0rc3\nrocm_deb_package_version=7.1.0~pre3\nrocm_rpm_package_version=7.1.0~rc3\n"
    );
}

#[test]
fn the_commit_comes_from_the_flag_then_github_then_git() {
    let context = context();
    let arguments = ["rocm-version", "--override-base-version", "7.1.0", "--date", "20260814", "--release-type", "dev"];
    context.run(arguments).ends(2, "needs the git commit");

    git(context.directory(), &["init", "-q"]);
    git(context.directory(), &["commit", "-q", "--allow-empty", "-m", "x"]);
    let head = git(context.directory(), &["rev-parse", "HEAD"]);
    assert!(context.run(arguments).stdout.starts_with(&format!("wheel  7.1.0.dev0+{head}\n")));

    let context = context.with_variable("GITHUB_SHA", COMMIT);
    let expected = format!("wheel  7.1.0.dev0+{COMMIT}\ndeb    7.1.0~dev20260814\nrpm    7.1.0~20260814g89553ce3\n");
    assert_eq!(context.run(arguments).stdout, expected);
    let flag = context.run(arguments.iter().chain(&["--override-git-sha", "abcdef0"]));
    assert!(flag.stdout.starts_with("wheel  7.1.0.dev0+abcdef0\n"), "{flag:?}");
}

#[test]
fn exactly_one_form_is_asked_for() {
    let context = context();
    assert_snapshot!("version_no_form", context.types("rocm-version").snapshot());
    let both = ["rocm-version", "--release-type", "release", "--custom-version-suffix", "a1"];
    assert_snapshot!("version_two_forms", context.run(both).snapshot());
    let suffix = ["rocm-version", "--override-base-version", "7.1.0", "--custom-version-suffix"];
    assert!(context.run(suffix.iter().chain(&["+mine.2"])).stdout.starts_with("wheel  7.1.0+mine.2\n"));
    assert_snapshot!("version_bad_suffix", context.run(suffix.iter().chain(&["-Mine"])).snapshot());
}

#[test]
fn today_is_a_day() {
    let arguments = ["rocm-version", "--override-base-version", "7.1.0", "--release-type", "nightly"];
    let stdout = context().run(arguments).stdout;
    let wheel = stdout.lines().next().unwrap().strip_prefix("wheel  7.1.0a").unwrap();
    assert_eq!(wheel.len(), 8, "{stdout}");
    assert!(wheel.parse::<u32>().unwrap() > 20_260_000, "{stdout}");
    let ran = context().run(arguments.iter().chain(&["--date", "20260230"]));
    assert_snapshot!("version_bad_date", ran.snapshot());
}

#[test]
fn two_versions_are_compared() {
    let context = context();
    let trap = ["rocm-version", "--compare", "2.12.0+rocm10.0", "2.12.0+rocm7.0"];
    assert_snapshot!("compare_trap", context.run(trap).snapshot());
    assert_snapshot!("compare_trap_json", context.run(trap.iter().chain(&["--json"])).snapshot());
    assert_eq!(context.run(trap.iter().chain(&["-q"])).stdout, "2.12.0+rocm7.0\n");
    assert_eq!(context.types("rocm-version --compare 7.1 7.1.0").stdout, "equal\n");
    assert_eq!(context.types("rocm-version --compare 7.1~x 7").code, Some(2));
    assert_eq!(context.types("rocm-version --compare 1 2 --release-type ci").code, Some(2));
}
