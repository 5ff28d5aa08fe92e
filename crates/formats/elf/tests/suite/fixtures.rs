//! Programs and libraries built in a temporary folder, and the tools that check them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Source of a library or program that only returns 42 if the loader has done everything for it:
/// constructors, thread-local variables, indirect functions, relative relocations, zeroed memory,
/// heap, and a versioned symbol.
const ANSWER: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
extern int first(void);
static int constructed;
__attribute__((constructor)) static void construct(void) { constructed = 10; }
__thread int thread_local_value = 5;
#ifndef WITHOUT_IFUNC
static int one(void) { return 1; }
static void *choose(void) { return (void *)one; }
int chosen(void) __attribute__((ifunc("choose")));
#else
int chosen(void) { return 1; }
#endif
const char *texts[] = {"a", "bb", "ccc", "dddd"};
int zeros[100000];
static int heap(void) {
    int sum = 0;
    void *blocks[40];
    for (int i = 0; i < 40; i++) { blocks[i] = malloc(60000); memset(blocks[i], i, 60000); }
    for (int i = 0; i < 40; i++) { sum += ((char *)blocks[i])[59999] == i; free(blocks[i]); }
    return sum == 40;
}
int answer(void) {
    int sum = constructed + thread_local_value + chosen();
    for (int i = 0; i < 4; i++) sum += strlen(texts[i]);
    for (int i = 0; i < 100000; i++) sum += zeros[i];
    zeros[99999] = 0;
    return sum + heap() + first();
}
int main(void) { printf("%d\n", answer()); return answer() == 42 ? 0 : 1; }
"#;

const ANSWER_CPP: &str = r#"
#include <stdexcept>
#include <string>
#include <vector>
extern "C" int first(void);
struct Fault : std::runtime_error { using std::runtime_error::runtime_error; };
static std::vector<std::string> constructed{"x", "yy"};
static int fail(int depth) { if (depth == 0) throw Fault("deep"); return fail(depth - 1) + 1; }
extern "C" int answer(void) {
    try { return fail(9); } catch (const Fault &fault) {
        return first() + int(constructed[1].size()) + (std::string(fault.what()) == "deep" ? 25 : 0);
    }
}
"#;

const RUNNER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **arguments) {
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) { fprintf(stderr, "%s\n", dlerror()); return 1; }
    int (*answer)(void) = (int (*)(void))dlsym(library, "answer");
    if (!answer) { fprintf(stderr, "%s\n", dlerror()); return 1; }
    printf("%d\n", answer());
    return answer() == 42 ? 0 : 1;
}
"#;

/// A folder with the runner, the libraries that every fixture needs (`original/`), and the same
/// libraries under the names that the edit gives them (`deps/`).
pub(crate) struct Workshop {
    folder: TempDir,
}

/// The way a fixture is tested.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Try {
    /// The runner loads it and calls `answer`.
    Library,
    /// It is started.
    Program,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        let workshop = Self { folder: TempDir::new().unwrap() };
        for folder in ["original", "deps"] {
            fs_err::create_dir(workshop.path(folder)).unwrap();
        }
        workshop.write("answer.c", ANSWER);
        workshop.write("answer.cpp", ANSWER_CPP);
        workshop.write("runner.c", RUNNER);
        workshop.write("first.c", "int first(void) { return 15; }\n");
        workshop.write("other.c", "int other(void) { return 1; }\n");
        workshop.write("first.map", "FIRST_1.0 { global: first; local: *; };\n");
        workshop.tool("gcc", &["-o", "runner", "runner.c", "-ldl"]);
        for (place, name) in [("original", "libfirst.so"), ("deps", "librenamed.so.1")] {
            let (output, soname) = (format!("{place}/{name}"), format!("-Wl,-soname,{name}"));
            let map = "-Wl,--version-script,first.map";
            workshop.tool("gcc", &["-shared", "-fPIC", "-o", &output, "first.c", &soname, map]);
        }
        for name in ["original/libsecond.so", "deps/libsecond.so", "deps/libadded.so"] {
            let soname = format!("-Wl,-soname,{}", name.rsplit('/').next().unwrap());
            workshop.tool("gcc", &["-shared", "-fPIC", "-o", name, "other.c", &soname]);
        }
        workshop
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        fs_err::write(self.path(name), content).unwrap();
    }

    /// Runs a tool in the folder. The test fails if the tool fails or is missing.
    pub(crate) fn tool(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).current_dir(self.folder.path()).env("LC_ALL", "C").output();
        let output = output.unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"));
        assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Compiles and links a fixture against `libfirst.so` (versioned) and `libsecond.so`.
    pub(crate) fn build(&self, name: &str, arguments: &[&str]) -> PathBuf {
        let source = if arguments.contains(&"C++") { "answer.cpp" } else { "answer.c" };
        let compiler = if arguments.contains(&"C++") { "g++" } else { "gcc" };
        let mut all = vec!["-o", name, source];
        all.extend(arguments.iter().filter(|argument| **argument != "C++"));
        if !arguments.iter().any(|argument| argument.starts_with("-static")) {
            all.extend(["-Loriginal", "-Wl,--no-as-needed", "-lfirst", "-lsecond"]);
        }
        self.tool(compiler, &all);
        self.path(name)
    }

    /// Loads the file in a child process and checks its answer. `search` is the LD_LIBRARY_PATH.
    pub(crate) fn answer(&self, file: &Path, how: Try, search: Option<&str>) -> Result<(), String> {
        let mut command = match how {
            Try::Program => {
                rocwheel_fixtures::make_program(file);
                Command::new(file)
            }
            Try::Library => Command::new(self.path("runner")),
        };
        if how == Try::Library {
            command.arg(file);
        }
        command.env_remove("LD_LIBRARY_PATH");
        if let Some(search) = search {
            command.env("LD_LIBRARY_PATH", self.path(search));
        }
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() && output.stdout == b"42\n" { Ok(()) } else { Err(text(&output)) }
    }
}

fn text(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{out}{err}", output.status)
}

/// Removes the section headers, as `strip --strip-section-headers` of newer binutils does.
pub(crate) fn forget_sections(file: &Path) {
    let mut bytes = fs_err::read(file).unwrap();
    bytes[0x28..0x30].fill(0);
    bytes[0x3a..0x40].fill(0);
    fs_err::write(file, bytes).unwrap();
}

/// Returns the output of `readelf` for a file, and its warnings.
pub(crate) fn readelf(file: &Path) -> (String, String) {
    let output =
        Command::new("readelf").args(["-l", "-S", "-d", "-V", "-n", "-W"]).arg(file).env("LC_ALL", "C").output();
    let output = output.expect("readelf is needed for this test");
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}
