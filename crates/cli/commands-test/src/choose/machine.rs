//! What this machine has: its GPUs, a Python, uv and pip.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rocwheel_choose::{Resolvers, Uv, of_python};
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_doctor::diagnose;
use rocwheel_progress::Silent;
use rocwheel_wheel::PythonVersion;

use super::version;

/// Prints version and glibc of a Python.
const TELL: &str = "import sys, platform; print('%d.%d' % sys.version_info[:2]); print(platform.libc_ver()[1])";

/// The Python that packages are chosen for, and the programs that resolve for it.
pub(super) struct LocalPython {
    pub(super) version: PythonVersion,
    /// The glibc of this machine; `None` if no Python tells it.
    pub(super) glibc: Option<(u16, u16)>,
    pub(super) resolvers: Resolvers,
}

impl LocalPython {
    /// The Python of a version or path; without one, `python3` on PATH.
    pub(super) fn find(wanted: Option<&str>) -> Result<LocalPython> {
        let uv = environment::program("uv").map(Uv);
        let on_path = ["python3", "python"].iter().find_map(|name| environment::program(name));
        let default = on_path.as_deref().and_then(|program| told(program).map(|told| (program.to_owned(), told)));
        let glibc = default.as_ref().and_then(|(_, (_, glibc))| *glibc);
        let (version, python) = match wanted {
            None => {
                let (program, (version, _)) = default.clone().ok_or_else(|| {
                    Usage::new("there is no `python3` on PATH").hint("say for which Python: `--python 3.12`")
                })?;
                (version, Some(program))
            }
            Some(path) if path.contains('/') => {
                let (version, _) =
                    told(Path::new(path)).ok_or_else(|| Usage::new(format!("`{path}` is no Python that starts")))?;
                (version, Some(PathBuf::from(path)))
            }
            Some(text) => {
                let version = version(text)?;
                let own = default.as_ref().filter(|(_, (own, _))| *own == version).map(|(program, _)| program.clone());
                let own = own.or_else(|| {
                    environment::program(&format!("python{text}")).filter(|program| told(program).is_some())
                });
                (version, own.or_else(|| found_by_uv(uv.as_ref()?, text)))
            }
        };
        let pips = [python.as_deref(), on_path.as_deref()].into_iter().flatten().map(of_python).collect();
        let resolvers = Resolvers { python, ..Resolvers::find(pips, environment::program) };
        Ok(LocalPython { version, glibc, resolvers })
    }
}

/// Version and glibc, as a Python tells them.
fn told(program: &Path) -> Option<(PythonVersion, Option<(u16, u16)>)> {
    let output = Command::new(program).args(["-I", "-c", TELL]).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let mut lines = text.lines();
    let version = version(lines.next()?).ok()?;
    let glibc = lines.next().and_then(|glibc| glibc.split_once('.'));
    Some((version, glibc.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))))
}

/// A Python that uv has installed.
fn found_by_uv(uv: &Uv, text: &str) -> Option<PathBuf> {
    let mut command = Command::new(&uv.0);
    command.args(["python", "find", text, "--no-python-downloads", "--no-project", "--quiet"]);
    let output = command.stdin(Stdio::null()).output().ok()?;
    let path = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(PathBuf::from(path.trim())).filter(|path| told(path).is_some())
}

/// The targets of this machine's GPUs.
pub(super) fn gpus() -> Result<Vec<String>> {
    let diagnosis = diagnose(&crate::this_machine(), &Silent)?;
    let mut targets: Vec<String> = diagnosis.gpus.iter().filter_map(|gpu| gpu.target.clone()).collect();
    targets.dedup();
    if targets.is_empty() {
        return Err(Usage::new("this machine shows no AMD GPU, so there is nothing to choose for")
            .hint("name the GPU: `--gpu \"RX 7900 XTX\"`, `--gpu gfx1100`; `rocwheel doctor` tells why none is shown")
            .into());
    }
    Ok(targets)
}
