//! The values of `${…}` that only the place knows. Each is determined on first use and kept.

use std::path::Path;
use std::time::Duration;

use regex::RegexBuilder;
use rocwheel_progress::Failure;

use crate::error;
use crate::execute::context::Context;
use rocwheel_process::{ProcessEnd, Program};
use rocwheel_recipe::join_targets;
use rocwheel_recipe::source_digest;
use rocwheel_recipe::substitute::{Round, Substitution, substitute};
use rocwheel_recipe::{JobSource, Rocm};
use rocwheel_recipe::{VersionLock, minor};

/// Time limit for an answer. The first question about a large ROCm reads it from the disk.
const PATIENCE: Duration = Duration::from_mins(5);

/// Prints the folder of the shared runtime of the address sanitizer, which the compiler of a ROCm
/// names.
const ASAN_RUNTIME: &str = "\
import pathlib, subprocess, sys
clang, name = pathlib.Path(sys.argv[1], 'lib/llvm/bin/clang++'), 'libclang_rt.asan-x86_64.so'
try:
    said = subprocess.run([clang, f'-print-file-name={name}'], capture_output=True, text=True, check=True).stdout
except (OSError, subprocess.CalledProcessError) as error:
    sys.exit(f'`{clang}` does not run: {error}')
runtime = pathlib.Path(said.strip())
if not runtime.is_absolute() or not runtime.is_file():
    sys.exit(f'`{clang}` has no `{name}`')
print(runtime.parent)
";

impl Context<'_> {
    /// A text of the job with all names replaced.
    pub(super) fn text(&self, text: &str) -> Result<String, Failure> {
        substitute(text, Round::Last, |name| self.fact(name).map(Substitution::Text)).map_err(|error| {
            error.unwrap_or_else(|| error::malformed("job", format!("a `${{` in `{text}` has no `}}`")))
        })
    }

    pub(super) fn texts(&self, texts: &[String]) -> Result<Vec<String>, Failure> {
        texts.iter().map(|text| self.text(text)).collect()
    }

    pub(super) fn fact(&self, name: &str) -> Result<String, Failure> {
        if let Some(known) = self.known.borrow().get(name) {
            return Ok(known.clone());
        }
        let found = self.find_out(name)?;
        self.known.borrow_mut().insert(name.to_owned(), found.clone());
        Ok(found)
    }

    fn find_out(&self, name: &str) -> Result<String, Failure> {
        if let Some(variable) = name.strip_prefix("environment.") {
            let value = self.place.surroundings.get(variable);
            return value.cloned().ok_or_else(|| no_variable(name, variable));
        }
        if let Some(variable) = name.strip_prefix("variable.") {
            return self.environment()?.get(variable).cloned().ok_or_else(|| no_variable(name, variable));
        }
        if let Some(names) = name.strip_prefix("rocm.libraries.") {
            return self.libraries_of_rocm(name, names);
        }
        if let Some(distribution) = name.strip_prefix("installed.") {
            let code = format!("import importlib.metadata as m; print(m.version({distribution:?}))");
            return self.ask_python(name, &["-c", &code]);
        }
        match name {
            "source" => Ok(with_slashes(&self.source())),
            "work" => Ok(with_slashes(&self.folder)),
            "stage" => Ok(with_slashes(&self.folder.join("stage"))),
            "estimate" => Ok(with_slashes(&self.folder.join("estimate"))),
            "python" => Ok(with_slashes(&self.python())),
            "python.version" => self.ask_python(name, &["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]),
            "python.compact" => Ok(self.fact("python.version")?.replace('.', "")),
            "rocwheel" => Ok(with_slashes(&self.place.program)),
            "jobs" => Ok(self.place.jobs.to_string()),
            "tool.sccache" => self.sccache(),
            "source.version" => self.source_version(),
            "source.commit" => Ok(self.source_revision(name)?.chars().take(8).collect()),
            "source.revision" => self.source_revision(name),
            "label" => self.label(),
            _ if name.starts_with("rocm.") => self.rocm(name),
            _ if name.starts_with("targets") => {
                let targets = self.ask_python(name, &["-m", "rocm_sdk", "targets"])?;
                let targets: Vec<String> =
                    targets.split([' ', ',', ';']).filter(|target| !target.is_empty()).map(str::to_owned).collect();
                if targets.is_empty() {
                    return Err(no_fact(name, "ROCm names no GPU targets", Some("name them with `--gpu-targets`")));
                }
                Ok(join_targets(name, &targets))
            }
            _ => Err(no_fact(name, "the job was made by another version of the program", None)),
        }
    }

    /// A Python list of those of the short names, separated by commas, for which ROCm's packages
    /// have a library.
    fn libraries_of_rocm(&self, name: &str, names: &str) -> Result<String, Failure> {
        let code = format!(
            "import rocm_sdk\n\
             def has(name):\n    \
                 try: return bool(rocm_sdk.find_libraries(name))\n    \
                 except (FileNotFoundError, ModuleNotFoundError): return False\n\
             print([name for name in {names:?}.split(',') if has(name)])"
        );
        self.ask_python(name, &["-c", &code])
    }

    fn rocm(&self, name: &str) -> Result<String, Failure> {
        if name == "rocm.label" {
            return Ok(self.job.recipe.cell.label_style.rocm(&self.fact("rocm.version")?));
        }
        if name == "rocm.asan" {
            return self.ask_python(name, &["-c", ASAN_RUNTIME, &self.fact("rocm.root")?]);
        }
        if name == "rocm.clang" {
            let program = Path::new(&self.fact("rocm.bin")?).join("hipconfig").to_string_lossy().into_owned();
            let folder = self.ask(vec![program.clone(), "--hipclangpath".to_owned()])?;
            return folder.map_err(|answer| no_fact(name, &format!("`{program}` says: {answer}"), None));
        }
        if name == "rocm.bitcode" {
            let program = Path::new(&self.fact("rocm.clang")?).join("clang").to_string_lossy().into_owned();
            let folder = self.ask(vec![program.clone(), "-print-resource-dir".to_owned()])?;
            let folder = folder.map_err(|answer| no_fact(name, &format!("`{program}` says: {answer}"), None))?;
            let bitcode = format!("{folder}/amdgcn/bitcode");
            if !Path::new(&bitcode).is_dir() {
                let hint = "Debian's package rocm-device-libs has them; HIP_DEVICE_LIB_PATH names another folder";
                self.reporter.warn(&format!("there are no device libraries in `{bitcode}`: {hint}"));
            }
            return Ok(bitcode);
        }
        if let Rocm::Prefix { path, version } = &self.job.rocm {
            return Ok(match name {
                "rocm.root" => with_slashes(path),
                "rocm.bin" => with_slashes(&path.join("bin")),
                "rocm.cmake" => with_slashes(&path.join("lib/cmake")),
                "rocm.lib" => with_slashes(&path.join("lib")),
                _ => of_version(name, version),
            });
        }
        match name {
            "rocm.root" | "rocm.bin" | "rocm.cmake" => {
                self.ask_python(name, &["-m", "rocm_sdk", "path", &name.replace("rocm.", "--")])
            }
            "rocm.lib" => Ok(format!("{}/lib", self.fact("rocm.root")?)),
            "rocm.sdk-version" => self.ask_python(name, &["-m", "rocm_sdk", "version"]),
            "rocm.lock" => {
                let version = self.fact("rocm.sdk-version")?;
                Ok(match self.job.recipe.cell.rocm_lock {
                    VersionLock::Exact => version,
                    VersionLock::Minor => format!("{}.*", minor(&version)),
                })
            }
            _ => Ok(of_version(name, &self.fact("rocm.sdk-version")?)),
        }
    }

    /// The local part of versions in TheRock's form: `rocm7.10.0`, `devrocm7.10.0.dev0-abc`.
    fn label(&self) -> Result<String, Failure> {
        let version = match &self.job.rocm {
            Rocm::Prefix { version, .. } => version.clone(),
            _ => self.fact("installed.rocm")?,
        };
        let begin = if version.contains("dev") { "devrocm" } else { "rocm" };
        // Normalized as pip does it, without a second `+`.
        let version = version.parse::<pep440_rs::Version>().map_or(version, |version| version.to_string());
        Ok(format!("{begin}{}", version.replace('+', "-")))
    }

    fn source_version(&self) -> Result<String, Failure> {
        let name = "source.version";
        let Some(file) = &self.job.recipe.source.version_file else {
            return Err(no_fact(name, "the recipe has no `version-file`", None));
        };
        let path = self.source().join(&file.path);
        version_in(&path, file.pattern.as_deref()).map_err(|reason| {
            let hint = "are these the sources of that project? `rocwheel source checkout` makes a checkout";
            no_fact(name, &reason, Some(hint))
        })
    }

    fn source_revision(&self, name: &str) -> Result<String, Failure> {
        match &self.job.source {
            JobSource::Checkout { revision: Some(revision), .. } => Ok(revision.clone()),
            JobSource::Checkout { path, .. } => {
                let answer = source_digest::git(path, &["rev-parse", "HEAD"], &self.place.surroundings, self.reporter)?;
                answer
                    .map(|answer| answer.trim().to_owned())
                    .ok_or_else(|| no_fact(name, "there is no git", Some("install git")))
            }
            JobSource::Archive { sha256, .. } => Ok(sha256.clone()),
            JobSource::Folder { digest, .. } => Ok(digest.clone()),
        }
    }

    fn sccache(&self) -> Result<String, Failure> {
        let surroundings = &self.place.surroundings;
        let mut places = vec![surroundings.get("PATH").cloned().unwrap_or_default()];
        places.extend(["/usr/local/bin".to_owned(), "/opt/cache/bin".to_owned()]);
        places.extend(surroundings.get("HOME").map(|home| format!("{home}/.cargo/bin")));
        let found = places.iter().find_map(|folders| rocwheel_system::find_program("sccache", folders));
        let found = found.map(|path| path.to_string_lossy().into_owned());
        found.ok_or_else(|| {
            no_fact("tool.sccache", "there is no sccache", Some("install sccache, or remove `--compiler-cache`"))
        })
    }

    /// The last line that a program prints; it is the error if the program fails.
    fn ask(&self, words: Vec<String>) -> Result<Result<String, String>, Failure> {
        let environment = self.base_environment();
        let program = Program {
            words,
            directory: &self.folder,
            environment: &environment,
            timeout: PATIENCE,
            deadline: self.place.deadline,
        };
        let finished = rocwheel_process::run(&program, None, self.reporter)?;
        let answer = finished.lines().next_back().unwrap_or("").to_owned();
        let is_answer = finished.ended == ProcessEnd::Code(0) && !answer.is_empty();
        Ok(if is_answer { Ok(answer) } else { Err(answer) })
    }

    /// The answer of the build's Python, one line.
    pub(super) fn ask_python(&self, name: &str, arguments: &[&str]) -> Result<String, Failure> {
        let words = std::iter::once(self.python().to_string_lossy().into_owned());
        let words = words.chain(arguments.iter().map(|&argument| argument.to_owned())).collect();
        let hint =
            "is ROCm's Python package installed? `--rocm-sdk` says from where, `--only install-rocm` does only that";
        let is_of_rocm = name.starts_with("rocm") || name.starts_with("targets") || name == "installed.rocm";
        self.ask(words)?.map_err(|answer| match name {
            "rocm.asan" => no_fact(name, &answer, Some("give a ROCm that was built with the address sanitizer")),
            _ => no_fact(name, &format!("`python {}` says: {answer}", arguments.join(" ")), is_of_rocm.then_some(hint)),
        })
    }
}

/// The version in a file: all of it, or what the first group of a pattern matches. The error is
/// the reason why there is none.
fn version_in(path: &Path, pattern: Option<&str>) -> Result<String, String> {
    let text = fs_err::read_to_string(path).map_err(|error| error.to_string())?;
    let Some(pattern) = pattern else {
        let version = Some(text.trim()).filter(|version| !version.is_empty());
        return version.map(str::to_owned).ok_or_else(|| format!("`{}` is empty", path.display()));
    };
    let pattern = RegexBuilder::new(pattern).multi_line(true).build().map_err(|error| error.to_string())?;
    let found = pattern.captures(&text).and_then(|found| found.get(1)).map(|found| found.as_str().to_owned());
    found.ok_or_else(|| format!("`{}` does not say it", path.display()))
}

fn with_slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

fn of_version(name: &str, version: &str) -> String {
    match name {
        "rocm.minor" => minor(version),
        "rocm.compact" => minor(version).replace('.', ""),
        // `rocm.version`, `rocm.sdk-version`
        _ => version.to_owned(),
    }
}

fn no_fact(name: &str, reason: &str, hint: Option<&str>) -> Failure {
    error::with_optional_hint(format!("`${{{name}}}` is not known: {reason}"), hint)
}

fn no_variable(name: &str, variable: &str) -> Failure {
    no_fact(name, &format!("the variable {variable} is not set"), Some("set it before the build"))
}
