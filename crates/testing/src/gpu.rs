//! Input: names of GPU targets and linker options. Output: real HIP libraries and programs, made by
//! clang 19 without ROCm or a GPU, and a runtime for them that prints the code each registration
//! refers to.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The compiler, from Debian's package `clang-19`.
pub const CLANG: &str = "clang++-19";

/// A folder with the sources, the runtime and the results.
pub struct Gpu {
    folder: TempDir,
}

/// A translation unit and the targets it is compiled for.
#[derive(Debug, Clone, Copy)]
pub struct TranslationUnit<'a> {
    /// `first`, `second` or `third`: the name of a source in `crates/testing/gpu`.
    pub source: &'a str,
    /// Targets, such as `gfx90a:xnack+`.
    pub targets: &'a [&'a str],
}

/// Options for compiling and linking a fixture.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// File name of the result.
    pub name: &'a str,
    /// The units with device code.
    pub units: &'a [TranslationUnit<'a>],
    /// Additional compiler options, such as `--offload-compress` or `-fgpu-rdc`.
    pub compile: &'a [&'a str],
    /// Additional linker options, such as `-fuse-ld=lld-19`. With `-shared` the result is a
    /// library, otherwise a program.
    pub link: &'a [&'a str],
}

const SOURCES: [(&str, &str); 10] = [
    ("hip/hip_runtime.h", include_str!("../gpu/hip/hip_runtime.h")),
    ("runtime.c", include_str!("../gpu/runtime.c")),
    ("first.hip", include_str!("../gpu/first.hip")),
    ("second.hip", include_str!("../gpu/second.hip")),
    ("third.hip", include_str!("../gpu/third.hip")),
    ("windows.c", include_str!("../gpu/windows.c")),
    ("amdhip64.def", include_str!("../gpu/amdhip64.def")),
    ("alone.cpp", include_str!("../gpu/alone.cpp")),
    ("load.c", include_str!("../gpu/load.c")),
    ("main.cpp", include_str!("../gpu/main.cpp")),
];

impl Gpu {
    /// A new folder with the runtime, `libamdhip64.so.7`, and the program that loads libraries.
    ///
    /// # Panics
    /// If a tool is missing; the message names it.
    pub fn new() -> Self {
        let gpu =
            Self { folder: tempfile::tempdir().expect("the system's directory for temporary files takes one more") };
        fs_err::create_dir(gpu.path("hip")).expect("the folder is new");
        for (name, text) in SOURCES {
            fs_err::write(gpu.path(name), text).expect("the folder can be written");
        }
        gpu.run("gcc", &["-shared", "-fPIC", "-Wl,-soname,libamdhip64.so.7", "-o", "libamdhip64.so.7", "runtime.c"]);
        gpu.run("gcc", &["-o", "load", "load.c", "-ldl"]);
        gpu
    }

    /// A path in the folder.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles and links. Returns the path of the result.
    ///
    /// # Panics
    /// If the compiler fails; the message contains its output.
    pub fn build(&self, link: &Link<'_>) -> PathBuf {
        let is_library = link.link.contains(&"-shared");
        let is_separate = link.compile.contains(&"-fgpu-rdc");
        let mut objects = Vec::new();
        let mut all_targets: Vec<String> = Vec::new();
        for unit in link.units {
            let object = format!("{}-{}.o", link.name, unit.source);
            let source = format!("{}.hip", unit.source);
            let targets: Vec<String> = unit.targets.iter().map(|target| format!("--offload-arch={target}")).collect();
            let mut arguments = vec!["-x", "hip", "-nogpulib", "-nogpuinc", "-I", ".", "-O1", "-fPIC", "-g", "-c"];
            arguments.extend(link.compile);
            arguments.extend(targets.iter().map(String::as_str));
            arguments.extend([source.as_str(), "-o", object.as_str()]);
            self.run(CLANG, &arguments);
            objects.push(object);
            all_targets.extend(targets);
        }
        if link.units.iter().all(|unit| unit.source != "second") {
            objects.push("alone.cpp".to_owned());
        }
        if !is_library {
            objects.push("main.cpp".to_owned());
        }
        all_targets.sort();
        all_targets.dedup();
        let mut arguments: Vec<&str> = link.link.to_vec();
        if is_separate {
            arguments.extend(["-fgpu-rdc", "--hip-link", "-no-hip-rt"]);
            arguments.extend(all_targets.iter().map(String::as_str));
        }
        if is_library {
            arguments.push("-fPIC");
        }
        arguments.extend(objects.iter().map(String::as_str));
        arguments.extend(["libamdhip64.so.7", "-o", link.name]);
        self.run(CLANG, &arguments);
        self.path(link.name)
    }

    /// Compiles `second` and `third` for Windows. Returns the path of the library, which cannot be
    /// loaded on this system.
    ///
    /// # Panics
    /// If the compiler fails; the message contains its output.
    pub fn build_windows(&self, name: &str, targets: &[&str], compile: &[&str]) -> PathBuf {
        self.run("llvm-dlltool-19", &["-m", "i386:x86-64", "-d", "amdhip64.def", "-l", "amdhip64.lib"]);
        let windows = "--target=x86_64-pc-windows-msvc";
        self.run(CLANG, &[windows, "-x", "c", "-c", "windows.c", "-o", "windows.o"]);
        let targets: Vec<String> = targets.iter().map(|target| format!("--offload-arch={target}")).collect();
        for unit in ["second", "third"] {
            let mut arguments = vec![windows, "-x", "hip", "-nogpulib", "-nogpuinc", "-I", ".", "-O1", "-c"];
            arguments.extend(compile);
            arguments.extend(targets.iter().map(String::as_str));
            let (source, object) = (format!("{unit}.hip"), format!("{unit}.obj"));
            arguments.extend([source.as_str(), "-o", object.as_str()]);
            self.run(CLANG, &arguments);
        }
        let out = format!("/out:{name}");
        let objects = ["second.obj", "third.obj", "windows.o", "amdhip64.lib"];
        let exports = ["/export:second_answer", "/export:third_answer"];
        let mut arguments = vec!["/dll", "/noentry", "/nodefaultlib", "/debug", out.as_str()];
        arguments.extend(objects.iter().chain(&exports));
        self.run("lld-link-19", &arguments);
        self.path(name)
    }

    /// Loads a library or runs a program, and calls its function. Returns the output.
    ///
    /// # Errors
    /// The output, if the file does not load or returns a wrong result.
    pub fn load(&self, file: &Path, is_library: bool) -> Result<String, String> {
        let mut command = if is_library {
            let mut command = Command::new(self.path("load"));
            command.arg(file);
            command
        } else {
            crate::make_program(file);
            Command::new(file)
        };
        command.env("LD_LIBRARY_PATH", self.folder.path());
        let output = command.output().map_err(|error| format!("{}: {error}", file.display()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, complained) = (text(&output.stdout), text(&output.stderr));
        if output.status.success() { Ok(said) } else { Err(format!("{}\n{said}{complained}", output.status)) }
    }

    /// Runs a tool in the folder and returns its output.
    ///
    /// # Panics
    /// If it is missing or fails.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).env("LC_ALL", "C").current_dir(self.folder.path()).output();
        let output = output.unwrap_or_else(|error| panic!("`{program}` is needed for this test: {error}"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (said, complained) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{program} {arguments:?}: {said}{complained}");
        said + &complained
    }
}

impl Default for Gpu {
    fn default() -> Self {
        Self::new()
    }
}
