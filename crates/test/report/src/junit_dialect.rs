//! Input: the attributes of a test case, and of what is around it. Output: who wrote the file, and
//! the identity of the test there.

use std::path::Path;

use crate::junit_file::{OWN_NAME, own_id};

/// The programs whose files differ in what names a test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum JunitDialect {
    /// Written by `write_junit`.
    Own,
    Pytest,
    Gtest,
    Ctest,
    Nextest,
    Node,
    /// go2xunit, gotestsum and others that write the version of Go.
    Go,
    Catch2,
    Doctest,
    Boost,
    Mocha,
    Jest,
    Meson,
    #[default]
    Other,
}

/// What `tests` of a suite counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedTests {
    Cases,
    /// Cases and suites directly in the suite.
    Children,
    /// Cases, and skipped tests that only a number tells of.
    WithMissingSkips,
    /// Something else, so it is not compared with the cases.
    OtherThings,
}

/// The attributes of a test case that name it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CaseNames {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) file: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) result: Option<String>,
    /// Those of [`crate::vocabulary::case_words`]: `status`, `result` and others.
    pub(crate) words: Vec<String>,
}

/// Names of the elements around a test case.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileNames {
    /// Name of `testsuites`.
    pub(crate) root: String,
    /// Name of the innermost suite.
    pub(crate) suite: String,
    /// Names of all suites around the case, the outermost first.
    pub(crate) suites: Vec<String>,
    /// The suites have attributes of gtest or nextest.
    pub(crate) has_uuid: bool,
    /// The program that the file names beside its test cases.
    pub(crate) writer: Option<JunitDialect>,
}

impl JunitDialect {
    pub(crate) fn of(case: &CaseNames, file: &FileNames) -> JunitDialect {
        let status = case.status.as_deref().unwrap_or_default();
        // GoogleTest 1.8 and older write no `result`; their suites have the name of the class.
        let is_of_suite = !case.class.is_empty() && case.class == file.suite;
        if file.root == OWN_NAME {
            JunitDialect::Own
        } else if let Some(writer) = file.writer {
            writer
        } else if is_of_meson(case, file) {
            JunitDialect::Meson
        } else if matches!(status, "run" | "notrun") && (case.result.is_some() || is_of_suite) {
            JunitDialect::Gtest
        } else if case.class == case.name && matches!(status, "run" | "fail" | "notrun" | "disabled") {
            JunitDialect::Ctest
        } else if file.suite == "pytest" || file.root.starts_with("pytest") {
            JunitDialect::Pytest
        } else if file.has_uuid || file.root.starts_with("nextest") {
            JunitDialect::Nextest
        } else if case.class == "test" && file.root.is_empty() {
            JunitDialect::Node
        } else {
            JunitDialect::Other
        }
    }

    /// How the announced tests differ from the test cases. A program that is not named here
    /// announces its test cases.
    pub(crate) fn counted_tests(self) -> CountedTests {
        match self {
            // pytest counts subtests and clean-ups, and no reruns
            // (`Merger::join_reruns_of_pytest`); Catch2 and doctest count assertions, and Boost
            // only the tests that passed.
            JunitDialect::Pytest | JunitDialect::Catch2 | JunitDialect::Doctest | JunitDialect::Boost => {
                CountedTests::OtherThings
            }
            // Pending tests count, which have no test cases.
            JunitDialect::Mocha => CountedTests::WithMissingSkips,
            JunitDialect::Node => CountedTests::Children,
            _ => CountedTests::Cases,
        }
    }

    /// `true` if `skipped` counts the test cases with such a child.
    pub(crate) fn counts_skips(self) -> bool {
        // Node counts groups with a skip in them.
        self != JunitDialect::Node
    }

    /// The suite of a test. Programs of gtest have no names in their files, so `program` is taken,
    /// the name of the file.
    pub(crate) fn suite(self, file: &FileNames, program: &str) -> String {
        let (name, other) = match self {
            JunitDialect::Gtest | JunitDialect::Ctest => (program, "gtest"),
            JunitDialect::Own => (file.suite.as_str(), "junit"),
            JunitDialect::Pytest => ("", "pytest"),
            JunitDialect::Nextest => (file.root.as_str(), "nextest"),
            JunitDialect::Meson => ("", "meson"),
            _ => (file.root.as_str(), "junit"),
        };
        if name.is_empty() { other.to_owned() } else { name.to_owned() }
    }

    /// The identity of a test, as its own runner writes it.
    pub(crate) fn id(self, case: &CaseNames, file: &FileNames, path: &Path) -> String {
        let CaseNames { name, class, .. } = case;
        match self {
            JunitDialect::Own => own_id(class, name, &file.suite),
            // Every class is `test`; the suites are the groups. Node escapes quotes twice.
            JunitDialect::Node => {
                let words = file.suites.iter().chain([name]).map(String::as_str);
                words.collect::<Vec<_>>().join(" > ").replace("&quot;", "\"")
            }
            JunitDialect::Gtest if !class.is_empty() => format!("{class}.{name}"),
            JunitDialect::Gtest | JunitDialect::Ctest => name.clone(),
            // Its `testlog.json` has the same names.
            JunitDialect::Meson if !class.contains('.') => name.clone(),
            JunitDialect::Pytest => node_id(case, path),
            _ if case.file.as_deref().is_some_and(|file| Path::new(file).extension() == Some("py".as_ref())) => {
                node_id(case, path)
            }
            _ if class.is_empty() || class == name => name.clone(),
            _ => format!("{class}::{name}"),
        }
    }
}

/// Meson names its file `testlog.junit.xml`. Elsewhere it is known by a test `PROJECT / NAME` or
/// `PROJECT:SUITE / NAME` in a suite `PROJECT`, or by the suite `PROJECT.PROJECT / NAME` of a
/// program with tests in it.
fn is_of_meson(case: &CaseNames, file: &FileNames) -> bool {
    let (name, project) =
        case.class.split_once('.').map_or((&*case.name, &*case.class), |(project, test)| (test, project));
    let rest = name.strip_prefix(project).filter(|_| !project.is_empty() && case.class == file.suite);
    rest.is_some_and(|rest| rest.starts_with(" / ") || (rest.starts_with(':') && rest.contains(" / ")))
}

/// The program whose file has such a name.
pub(crate) fn writer_of(path: &Path) -> Option<JunitDialect> {
    let name = path.file_name()?.to_str()?;
    (name.starts_with("testlog") && name.ends_with(".junit.xml")).then_some(JunitDialect::Meson)
}

/// pytest's node id. A file of xunit2 has the module and the classes with dots between them; the
/// module ends with the last component that does not begin with a capital letter.
fn node_id(case: &CaseNames, path: &Path) -> String {
    let parts: Vec<&str> = case.class.split('.').filter(|part| !part.is_empty()).collect();
    let classes = parts.iter().rev().take_while(|part| part.starts_with(char::is_uppercase)).count();
    let (module, classes) = parts.split_at(parts.len() - classes);
    let file = match (&case.file, dotted_folder(path)) {
        (Some(file), _) => Some(file.replace('\\', "/")),
        (None, Some(dotted)) => Some(format!("{}.py", dotted.replace('.', "/"))),
        (None, None) if module.is_empty() => None,
        (None, None) => Some(format!("{}.py", module.join("/"))),
    };
    let words = file.as_deref().into_iter().chain(classes.iter().copied()).chain([case.name.as_str()]);
    words.collect::<Vec<_>>().join("::")
}

/// PyTorch's runner writes the reports of `a/test_b.py` into `python-pytest/a.test_b/`.
pub(crate) fn dotted_folder(path: &Path) -> Option<String> {
    let words: Vec<_> = path.iter().map(|word| word.to_string_lossy()).collect();
    let at = words.iter().position(|word| word == "python-pytest" || word == "python-unittest")?;
    (at + 2 < words.len()).then(|| words[at + 1].to_string())
}

/// Seconds as reports write them: with commas, a unit, or nonsense.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    let plain: String = text.trim().trim_end_matches('s').chars().filter(|letter| *letter != ',').collect();
    plain.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(class: &str, name: &str, file: Option<&str>) -> CaseNames {
        CaseNames {
            name: name.to_owned(),
            class: class.to_owned(),
            file: file.map(str::to_owned),
            ..CaseNames::default()
        }
    }

    #[test]
    fn identities_are_those_of_the_runners() {
        let id = |dialect: JunitDialect, case: &CaseNames, path: &str| {
            dialect.id(case, &FileNames::default(), Path::new(path))
        };
        let pytest = JunitDialect::Pytest;
        assert_eq!(
            id(pytest, &case("tests.test_a.TestX", "test_y[1]", None), "r.xml"),
            "tests/test_a.py::TestX::test_y[1]"
        );
        assert_eq!(id(pytest, &case("test_a", "test_y", Some("t/test_a.py")), "r.xml"), "t/test_a.py::test_y");
        let torch = "test-reports/python-pytest/distributed.test_c10d/distributed.test_c10d-0a.xml";
        assert_eq!(id(pytest, &case("TestC10d", "test_y", None), torch), "distributed/test_c10d.py::TestC10d::test_y");
        assert_eq!(id(JunitDialect::Gtest, &case("Suite/0", "Case", None), "x.xml"), "Suite/0.Case");
        assert_eq!(id(JunitDialect::Other, &case("com.example.A", "works", None), "x.xml"), "com.example.A::works");
        assert_eq!(id(JunitDialect::Ctest, &case("all", "all", None), "x.xml"), "all");
    }

    #[test]
    fn the_status_of_a_case_tells_gtest_ctest_and_catch2_apart() {
        let of = |class: &str, name: &str, suite: &str, result: Option<&str>| {
            let case = CaseNames {
                status: Some("run".to_owned()),
                result: result.map(str::to_owned),
                ..case(class, name, None)
            };
            JunitDialect::of(&case, &FileNames { suite: suite.to_owned(), ..FileNames::default() })
        };
        assert_eq!(of("Math", "Adds", "Math", Some("completed")), JunitDialect::Gtest);
        assert_eq!(of("Math", "Adds", "Math", None), JunitDialect::Gtest, "GoogleTest 1.8");
        assert_eq!(of("Math", "Math", "Math", None), JunitDialect::Gtest, "a test named as its class");
        assert_eq!(of("a", "a", "Linux-c++", None), JunitDialect::Ctest);
        assert_eq!(of("prog.global", "adds", "prog", None), JunitDialect::Other, "Catch2");
    }

    #[test]
    fn times_are_numbers_or_nothing() {
        assert_eq!(seconds("1,234.5"), Some(1234.5));
        assert_eq!(seconds("0.25s"), Some(0.25));
        for wrong in ["", "NaN", "-1", "inf", "1e400", "x"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
