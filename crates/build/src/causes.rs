//! Input: the last lines of a step that failed (`data/build-failures.toml` knows some). Output: the likely cause, and what helps.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

use crate::error::Error;
use crate::recipe::from_toml;

const TABLE: &str = include_str!("../../../data/build-failures.toml");

static CAUSES: LazyLock<Vec<Cause>> =
    LazyLock::new(|| parse(TABLE, "data/build-failures.toml").expect("a test reads it"));

const OF_ENGINES: &str = include_str!("../../../data/engine-failures.toml");

static ENGINE_CAUSES: LazyLock<Vec<Cause>> =
    LazyLock::new(|| parse(OF_ENGINES, "data/engine-failures.toml").expect("a test reads it"));

struct Cause {
    name: String,
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
    patterns: Vec<String>,
    says: String,
    fix: String,
}

fn parse(text: &str, path: &str) -> Result<Vec<Cause>, Error> {
    let file: File = from_toml(text, path)?;
    if file.schema != 1 {
        return Err(Error::malformed(path, format!("its schema is {}, and this program knows 1", file.schema)));
    }
    let compile = |pattern: &String| {
        Regex::new(pattern)
            .map_err(|error| Error::malformed(path, format!("`{pattern}` is no regular expression: {error}")))
    };
    let causes = file.cause.into_iter().map(|row| {
        let patterns = row.patterns.iter().map(compile).collect::<Result<_, _>>()?;
        Ok(Cause { name: row.name, patterns, says: row.says, fix: row.fix })
    });
    causes.collect()
}

/// A likely cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Likely {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// What is wrong and what helps.
    pub(crate) text: String,
}

/// The cause that fits one of the lines, the last lines first.
pub(crate) fn likely<'a>(lines: impl DoubleEndedIterator<Item = &'a str> + Clone) -> Option<Likely> {
    fitting(&CAUSES, lines)
}

/// The same for what an engine of containers says.
pub(crate) fn of_engine<'a>(lines: impl DoubleEndedIterator<Item = &'a str> + Clone) -> Option<Likely> {
    fitting(&ENGINE_CAUSES, lines)
}

#[allow(clippy::needless_pass_by_value, reason = "an iterator is cheap to clone and clearer to give")]
fn fitting<'a>(causes: &'static [Cause], lines: impl DoubleEndedIterator<Item = &'a str> + Clone) -> Option<Likely> {
    for cause in causes {
        for line in lines.clone().rev() {
            let Some(found) = cause.patterns.iter().find_map(|pattern| pattern.captures(line)) else { continue };
            let mut says = String::new();
            match found.get(1) {
                Some(_) => found.expand(&cause.says, &mut says),
                // A pattern without a group has nothing to put in.
                None => says = cause.says.replace(" (`$1`)", "").replace(" ($1)", "").replace("`$1`", "of that name"),
            }
            return Some(Likely { name: &cause.name, text: format!("{says}: {}", cause.fix) });
        }
    }
    None
}

/// What it means that a program was killed by somebody else.
pub(crate) fn killed() -> Likely {
    let cause = CAUSES.iter().find(|cause| cause.name == "out-of-memory");
    cause.map_or(Likely { name: "killed", text: "it was killed".into() }, |cause| Likely {
        name: &cause.name,
        text: format!("probably {}: {}", cause.says, cause.fix),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("sh: 1: hipcc: not found", "missing-program", "`hipcc`"),
            ("FileNotFoundError: [Errno 2] No such file or directory: 'hipcc'", "missing-program", "`hipcc`"),
            ("fatal: Could not resolve host: github.com", "network", "run it again"),
        ] {
            let likely =
                likely(["noise", line, "ninja: build stopped"].into_iter()).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(likely.name, name, "{line}");
            assert!(likely.text.contains(word), "{line}: {}", likely.text);
            assert!(!likely.text.contains("$1"), "{}", likely.text);
        }
        assert_eq!(likely(["error: expected ';'"].into_iter()), None);
        assert!(killed().text.contains("memory ran out"));
    }
}
