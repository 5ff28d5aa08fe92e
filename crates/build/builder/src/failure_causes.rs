//! Input: the last lines of a failed step, and the known failures (`data/build-failures.toml`).
//! Output: the likely cause and a remedy.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use rocwheel_progress::Failure;
use serde::Deserialize;

use rocwheel_process::{FinishedProcess, ProcessEnd};
use rocwheel_recipe::toml_text::from_toml;

use crate::error;

const TABLE: &str = include_str!("../../../../data/build-failures.toml");

static CAUSES: LazyLock<Vec<Cause>> =
    LazyLock::new(|| parse(TABLE, "data/build-failures.toml").expect("a test reads it"));

const OF_ENGINES: &str = include_str!("../../../../data/engine-failures.toml");

static ENGINE_CAUSES: LazyLock<Vec<Cause>> =
    LazyLock::new(|| parse(OF_ENGINES, "data/engine-failures.toml").expect("a test reads it"));

/// Number of lines before the last known error that are searched. Parallel compilers mix their
/// output.
const REACH: usize = 400;

struct Cause {
    name: String,
    is_harmless: bool,
    patterns: Vec<Regex>,
    says: String,
    fix: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    cause: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    #[serde(default)]
    harmless: bool,
    patterns: Vec<String>,
    says: String,
    fix: String,
}

fn parse(text: &str, path: &str) -> Result<Vec<Cause>, Failure> {
    let file: File = from_toml(text, path)?;
    if file.schema != 1 {
        return Err(error::malformed(path, format!("its schema is {}, and this program knows 1", file.schema)));
    }
    let causes = file.cause.into_iter().map(|row| {
        let patterns = row.patterns.iter().map(|pattern| {
            Regex::new(pattern)
                .map_err(|error| error::malformed(path, format!("`{pattern}` is no regular expression: {error}")))
        });
        let patterns = patterns.collect::<Result<_, _>>()?;
        Ok(Cause { name: row.name, is_harmless: row.harmless, patterns, says: row.says, fix: row.fix })
    });
    causes.collect()
}

impl Cause {
    fn captures<'a>(&self, line: &'a str) -> Option<Captures<'a>> {
        self.patterns.iter().find_map(|pattern| pattern.captures(line))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Likely {
    pub(crate) name: &'static str,
    /// What is wrong and what helps, in a sentence.
    pub(crate) text: String,
}

impl Likely {
    pub(crate) fn sentence(self) -> String {
        format!("likely cause: {}", self.text)
    }
}

/// The first cause of the table that fits a line; of several such lines, the last counts. Lines
/// more than `REACH` lines before the last known error are ignored, because they did not end the
/// build. Harmless messages, which successful builds print too, count only if no known error is
/// found.
pub(crate) fn likely<'a>(lines: impl DoubleEndedIterator<Item = &'a str> + Clone) -> Option<Likely> {
    let certain = CAUSES.iter().filter(|cause| !cause.is_harmless);
    let from_last = lines.clone().rev().skip_while(|line| !certain.clone().any(|cause| cause.captures(line).is_some()));
    let near: Vec<&str> = from_last.take(REACH).collect();
    let found = fitting(certain, near.into_iter().rev());
    found.or_else(|| fitting(CAUSES.iter().filter(|cause| cause.is_harmless), lines))
}

/// The same for the output of a container engine.
pub(crate) fn of_engine<'a>(lines: impl DoubleEndedIterator<Item = &'a str> + Clone) -> Option<Likely> {
    fitting(ENGINE_CAUSES.iter(), lines)
}

#[allow(clippy::needless_pass_by_value, reason = "an iterator is cheap to clone and clearer to give")]
fn fitting<'a>(
    causes: impl Iterator<Item = &'static Cause>,
    lines: impl DoubleEndedIterator<Item = &'a str> + Clone,
) -> Option<Likely> {
    for cause in causes {
        for line in lines.clone().rev() {
            let Some(found) = cause.captures(line) else { continue };
            let mut says = String::new();
            match found.get(1) {
                Some(_) => found.expand(&cause.says, &mut says),
                // A pattern without a group captures nothing that could be inserted.
                None => says = cause.says.replace(" (`$1`)", "").replace(" ($1)", "").replace("`$1`", "of that name"),
            }
            return Some(Likely { name: &cause.name, text: format!("{says}: {}", cause.fix) });
        }
    }
    None
}

/// The row of the table for too little memory.
const OUT_OF_MEMORY: &str = "out-of-memory";

/// `true` if a program that failed did so for lack of memory.
pub(crate) fn is_of_memory(finished: &FinishedProcess) -> bool {
    likely(finished.lines()).map_or(finished.ended == KILLED, |cause| cause.name == OUT_OF_MEMORY)
}

/// How a program ends that the system kills when there is no memory left.
pub(crate) const KILLED: ProcessEnd = ProcessEnd::Signal(9);

/// The likely cause if another process killed the program: too little memory.
pub(crate) fn killed() -> Likely {
    let cause = CAUSES.iter().find(|cause| cause.name == OUT_OF_MEMORY);
    cause.map_or(Likely { name: "killed", text: "it was killed".into() }, |cause| Likely {
        name: &cause.name,
        text: format!("probably {}: {}", cause.says, cause.fix),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_wins_over_what_builds_also_say_when_they_go_on() {
        let name = |lines: &[&str]| likely(lines.iter().copied()).map(|likely| likely.name);
        let error = "src/a.cpp:61:14: error: use of undeclared identifier 'X'";
        let harmless = ["sh: 1: ps: not found", "ModuleNotFoundError: No module named 'x'", "dns error"];
        for line in harmless {
            assert_eq!(name(&[line, error, "make: *** [all] Error 2"]), Some("undeclared"), "{line}");
            assert_eq!(name(&[error, line]), Some("undeclared"), "{line}");
            assert!(name(&[line, "exit"]).is_some_and(|name| name != "undeclared"), "{line}");
        }
        // Without an answer of the index, pip says in the end that there is no such package.
        let not_found = "ERROR: No matching distribution found for setuptools";
        let refused =
            "WARNING: Retrying after connection broken by 'SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'): /simple/";
        let failed = "Could not fetch URL https://pypi.org/simple/setuptools/: Max retries exceeded with url";
        assert_eq!(name(&[refused, failed, not_found]), Some("certificate"));
        assert_eq!(name(&[failed, not_found]), Some("network"));
        // A failed configure check, long before the build stopped.
        let mut lines = vec!["conftest.c:1:10: fatal error: foo.h: No such file or directory"];
        assert_eq!(name(&[lines[0], error]), Some("missing-header"), "they may belong together");
        lines.extend(["[1/1440] compiling"; REACH]);
        lines.push(error);
        assert_eq!(name(&lines), Some("undeclared"));
        lines.push("c++: fatal error: Killed signal terminated program cc1plus");
        assert_eq!(name(&lines), Some("out-of-memory"));
    }

    #[test]
    fn what_engines_say_is_known() {
        for (line, name) in [
            ("Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?", "no-daemon"),
            (
                "permission denied while trying to connect to the docker API at unix:///var/run/docker.sock",
                "not-allowed",
            ),
            ("Error: runc: error setting rlimit type 7: operation not permitted: OCI permission denied", "limits"),
            ("Error: crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied", "limits"),
            ("docker: failed to create: exec: \"sh\": executable file not found in $PATH", "no-shell"),
            ("Error: default OCI runtime \"crun\" not found: invalid argument", "no-runtime"),
            ("dial tcp: lookup registry-1.docker.io on 1.1.1.1:53: no such host", "network"),
        ] {
            assert_eq!(of_engine([line].into_iter()).unwrap_or_else(|| panic!("{line}")).name, name, "{line}");
        }
    }

    #[test]
    fn causes_are_found_in_what_real_tools_say() {
        for (line, name, word) in [
            ("c++: fatal error: Killed signal terminated program cc1plus", "out-of-memory", "--jobs"),
            ("/bin/sh: 1: g++: Argument list too long", "argument-list-too-long", "ulimit -s"),
            ("OSError: [Errno 7] Argument list too long: '/usr/bin/c++'", "argument-list-too-long", "ulimit -s"),
            (
                "x.cpp:1:10: fatal error: hip/hip_runtime.h: No such file or directory",
                "missing-header",
                "`hip/hip_runtime.h`",
            ),
            ("x.hip:1:10: fatal error: 'rocrand/rocrand.h' file not found", "missing-header", "`rocrand/rocrand.h`"),
            ("src/x.c:2:10: fatal error: Python.h: No such file or directory", "python-header", "python3-dev"),
            ("ModuleNotFoundError: No module named 'psutil'", "missing-module", "`psutil`"),
            ("/usr/bin/ld: cannot find -lMIOpen: No such file or directory", "missing-library", "`MIOpen`"),
            ("AttributeError: 'NoneType' object has no attribute 'split'", "torch-rocm-mismatch", "--torch"),
            (
                "AssertionError: One of GPU archs of ['gfx1030'] is invalid or not supported by Flash-Attention",
                "gpu-targets",
                "(['gfx1030'])",
            ),
            ("error: unknown target CPU 'gfx9999'", "gpu-targets", "(gfx9999)"),
            ("ERROR: No matching distribution found for torch==99", "no-such-package", "`torch==99`"),
            ("cc1plus: out of memory allocating 65536 bytes", "out-of-memory", "--jobs"),
            ("tar: write error: No space left on device", "disk-full", "free some space"),
            ("ccache: error: execve of clang-cl failed: Invalid argument", "ccache-aotriton", "--compiler-cache"),
            ("sh: 1: hipcc: not found", "missing-program", "`hipcc`"),
            ("FileNotFoundError: [Errno 2] No such file or directory: 'hipcc'", "missing-program", "`hipcc`"),
            ("fatal: Could not resolve host: github.com", "network", "run it again"),
            (
                "src/shpotrf_gpu.cpp:61:14: error: use of undeclared identifier 'HIPBLAS_COMPUTE_32F'",
                "undeclared",
                "`HIPBLAS_COMPUTE_32F`",
            ),
            ("a.cpp:3:5: error: ‘x’ was not declared in this scope; did you mean ‘y’?", "undeclared", "`x`"),
            ("a.o: in function `main': undefined reference to `hipMalloc'", "undefined-symbol", "`hipMalloc`"),
            ("ld.lld: error: undefined symbol: hipFree", "undefined-symbol", "`hipFree`"),
            ("a.cpp:7:1: error: expected ';' after class", "compiler-error", "`a.cpp:7:1`"),
            ("sh: 1: /opt/_rocm_sdk_devel/lib/llvm-21/bin/clang++: not found", "no-compiler-of-rocm", "HIP_CLANG_PATH"),
            (
                "Could not find any of CMakeLists.txt, setup.py in /s/third_party/fmt",
                "missing-submodule",
                "third_party/fmt",
            ),
            ("  ******* rocm_version.h could not be found *******", "no-rocm-core", "rocm-core"),
            (
                "  Could not find a package configuration file provided by \"rccl\" with any of",
                "cmake-package",
                "`rccl`",
            ),
            ("  The imported target \"roc::x\" references the file", "missing-of-package", "`roc::x`"),
            ("  Cannot find source file:", "missing-source-file", "ignores"),
            ("--   USE_ROCM              : OFF", "torch-without-rocm", "FindHIP.cmake"),
            ("CMake Error at cmake/libprotobuf.cmake:115 (add_library):", "cmake-error", "libprotobuf.cmake:115"),
            (
                "/usr/include/hip/amd_detail/amd_warp_functions.h:114:52: note: declared here",
                "warp-size",
                "not in HIP 7: take",
            ),
            ("c10/macros/Macros.h:315:23: note: expanded from macro 'C10_WARP_SIZE'", "warp-size", "`C10_WARP_SIZE`"),
            ("  Compatibility with CMake < 3.5 has been removed from CMake.", "cmake-4", "POLICY_VERSION_MINIMUM"),
            (
                "clang++: error: cannot find ROCm device library; provide its path via '--rocm-path'",
                "device-libraries",
                "HIP_DEVICE_LIB_PATH",
            ),
        ] {
            let likely =
                likely(["noise", line, "ninja: build stopped"].into_iter()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(likely.name, name, "{line}");
            assert!(likely.text.contains(word), "{line}: {}", likely.text);
            assert!(!likely.text.contains("$1"), "{}", likely.text);
        }
        assert_eq!(likely(["error: expected ';'"].into_iter()), None);
        let gpu_file =
            ["a.hip:7:1: error: expected ';'", "CMake Error at torch_hip_generated_a.hip.o.cmake:200 (message):"];
        assert_eq!(likely(gpu_file.into_iter()).unwrap().name, "compiler-error");
        assert!(killed().text.contains("memory ran out"));
    }
}
