//! Input: the command line of a suite, and its environment. Output: what leaves tests of the suite
//! out.
//!
//! An option that is not known to leave everything in counts as a selection: plugins have such
//! options, and so have programs (`--yaml` of rocBLAS' clients). Folders, files and programs are
//! what the suite is, and no selection.

use std::collections::BTreeSet;

use rocwheel_suite::PYTORCH_FILES;

use super::{Arguments, TestKind};

/// Modules that TheRock's script never runs, since they hang outside of tests.
pub const HANGING: [&str; 6] = [
    "nn/test_convolution",
    "inductor/test_max_autotune",
    "inductor/test_torchinductor_opinfo_properties",
    "inductor/test_compiled_autograd",
    "dynamo/test_dynamic_shapes",
    "functorch/test_control_flow",
];

/// Options of pytest that leave all tests in: flags, and options with a value.
const PYTEST_FLAGS: [&str; 17] = [
    "-q",
    "--quiet",
    "-s",
    "-l",
    "--showlocals",
    "-x",
    "--exitfirst",
    "--verbose",
    "--no-header",
    "--no-summary",
    "--strict-markers",
    "--strict-config",
    "--strict",
    "--full-trace",
    "--disable-warnings",
    "--runxfail",
    "-v",
];
const PYTEST_VALUES: [&str; 20] = [
    "--tb",
    "--color",
    "--code-highlight",
    "--durations",
    "--durations-min",
    "--capture",
    "--show-capture",
    "--maxfail",
    "-W",
    "--pythonwarnings",
    "--log-level",
    "--log-cli-level",
    "--log-file",
    "--log-file-level",
    "--junit-xml",
    "--junitxml",
    "--basetemp",
    "--import-mode",
    "--verbosity",
    "-r",
];
/// Options of ctest that leave all tests in.
const CTEST_FLAGS: [&str; 6] = ["-V", "-VV", "--verbose", "--extra-verbose", "--output-on-failure", "--progress"];
const CTEST_VALUES: [&str; 7] =
    ["--timeout", "-j", "--parallel", "-C", "--build-config", "--resource-spec-file", "--test-output-size-passed"];
/// Options of run_test.py that TheRock's script sets.
const RUN_TEST_FLAGS: [&str; 6] = [
    "--exclude-jit-executor",
    "--exclude-distributed-tests",
    "--exclude-quantization-tests",
    "--distributed-tests",
    "--keep-going",
    "--verbose",
];
/// Options of programs of GoogleTest that leave tests out.
const GTEST_CHOICES: [&str; 2] = ["--gtest_filter", "--gtest_list_tests"];

/// The words that choose among the tests of the suite. `variable` reads the environment.
pub(super) fn selection(
    arguments: &Arguments,
    kind: TestKind,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    if arguments.pytorch_dir.is_some() {
        let named: BTreeSet<&str> = arguments.tests.iter().map(|name| name.trim_end_matches(".py")).collect();
        if !named.is_empty() && named != PYTORCH_FILES.into() {
            words.extend(arguments.tests.iter().cloned());
        }
    } else if kind == TestKind::Pytest {
        words.extend(arguments.tests.iter().filter(|test| test.contains("::")).cloned());
    }
    if let Some(expression) = &arguments.expression {
        words.extend(["-k".to_owned(), expression.clone()]);
    }
    if arguments.only_skipped {
        words.push("--only-skipped".to_owned());
    }
    words.extend(choosing_options(kind, &arguments.options));
    let variables: &[&str] = match kind {
        TestKind::Pytest | TestKind::RunTest => &["PYTEST_ADDOPTS"],
        TestKind::Gtest => &["GTEST_FILTER"],
        TestKind::Ctest | TestKind::Script => &[],
    };
    for name in variables {
        let Some(value) = variable(name).filter(|value| !value.trim().is_empty()) else { continue };
        let options: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        if kind == TestKind::Gtest || !choosing_options(TestKind::Pytest, &options).is_empty() {
            words.push(format!("{name}={value}"));
        }
    }
    words
}

/// The options that may leave tests out, with their values.
fn choosing_options(kind: TestKind, options: &[String]) -> Vec<String> {
    let (flags, values): (&[&str], &[&str]) = match kind {
        TestKind::Pytest => (&PYTEST_FLAGS, &PYTEST_VALUES),
        TestKind::Ctest => (&CTEST_FLAGS, &CTEST_VALUES),
        TestKind::RunTest => (&RUN_TEST_FLAGS, &[]),
        TestKind::Gtest => (&[], &["--device"]),
        TestKind::Script => (&[], &[]),
    };
    let mut found = Vec::new();
    let mut rest = options.iter().map(String::as_str).peekable();
    while let Some(option) = rest.next() {
        let name = option.split('=').next().unwrap_or(option);
        let is_gtest = kind == TestKind::Gtest && name.starts_with("--gtest_");
        if flags.contains(&option) || (is_gtest && !GTEST_CHOICES.contains(&name)) || is_short(kind, option) {
            continue;
        }
        if values.contains(&name) || (kind == TestKind::Pytest && name == "-p") {
            let value = if name == option { rest.next_if(|word| !word.starts_with('-')) } else { None };
            // Plugins may choose tests; without a plugin they cannot.
            if name == "-p" && !value.is_some_and(|plugin| plugin.starts_with("no:")) {
                found.push(option.to_owned());
                found.extend(value.map(str::to_owned));
            }
            continue;
        }
        if kind == TestKind::RunTest && name == "--exclude" {
            let mut excluded = Vec::new();
            while let Some(module) = rest.next_if(|word| !word.starts_with('-')) {
                excluded.push(module);
            }
            if excluded.iter().any(|module| !HANGING.contains(module)) {
                found.push(option.to_owned());
                found.extend(excluded.into_iter().map(str::to_owned));
            }
            continue;
        }
        found.push(option.to_owned());
    }
    found
}

/// `-vv`, `-rA` and `-Werror`: short options with their values behind them.
fn is_short(kind: TestKind, option: &str) -> bool {
    kind == TestKind::Pytest
        && option.starts_with('-')
        && !option.starts_with("--")
        && (['v', 'q'].iter().any(|letter| option.len() > 1 && option[1..].chars().all(|other| other == *letter))
            || option.starts_with("-pno:")
            || (option.len() > 2 && (option.starts_with("-r") || option.starts_with("-W"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(kind: TestKind, options: &str) -> String {
        let options: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
        choosing_options(kind, &options).join(" ")
    }

    #[test]
    fn options_that_leave_all_tests_in_are_no_selection() {
        let pytest = |options: &str| chosen(TestKind::Pytest, options);
        assert_eq!(pytest("-vv -q --tb=short --tb long -rA -W error -p no:randomly -x --maxfail 3"), "");
        assert_eq!(pytest("-m gpu -v"), "-m gpu");
        assert_eq!(pytest("--deselect a.py::b"), "--deselect a.py::b");
        assert_eq!(pytest("-p mine --lf"), "-p mine --lf");
        assert_eq!(chosen(TestKind::Gtest, "--gtest_filter=A* --gtest_color=no --device 0"), "--gtest_filter=A*");
        assert_eq!(chosen(TestKind::Gtest, "--yaml smoke.yaml"), "--yaml smoke.yaml");
        assert_eq!(chosen(TestKind::Ctest, "-L gpu --output-on-failure --timeout 9"), "-L gpu");
    }

    #[test]
    fn what_therocks_script_sets_is_the_suite() {
        let always = "--exclude-jit-executor --exclude-distributed-tests --exclude nn/test_convolution";
        assert_eq!(chosen(TestKind::RunTest, always), "");
        assert_eq!(chosen(TestKind::RunTest, "--exclude test_nn --verbose"), "--exclude test_nn");
        assert_eq!(chosen(TestKind::RunTest, "--inductor"), "--inductor");
    }
}
