//! Input: the public address of a stream and a set. Output: whether an installer finds every wheel
//! of the set there, with the hash that it was published with.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_content::archive_path::parent;
use rocwheel_index::Credentials;
use rocwheel_progress::{Context as _, Exit, Hint};
use rocwheel_stream::ReleaseSet;
use rocwheel_wheel::WheelName;
use url::Url;

/// Seconds between two tries: caches of servers remember for a while that a page was missing.
const PAUSE: Duration = Duration::from_secs(5);

/// The variables by which uv searches other indexes.
const UV_INDEXES: [&str; 5] = ["UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_NO_INDEX"];
/// With this as its file of settings, pip reads none.
const NO_FILE: &str = if cfg!(windows) { "nul" } else { "/dev/null" };

/// An installer does not see what was published.
#[derive(Debug, thiserror::Error)]
#[error("the set is published, but `{program}` does not find all of it at `{address}`:\n{said}")]
struct NotSeen {
    program: &'static str,
    address: String,
    said: String,
}

impl Hint for NotSeen {
    fn hint(&self) -> Option<String> {
        Some("a cache before the store may have old pages; `rocwheel index check URL` looks at the address".to_owned())
    }

    fn exit(&self) -> Exit {
        Exit::Failed
    }
}

/// Lets uv, or pip where there is no uv, choose every wheel of the set, with hashes required.
/// Nothing is installed. Tried again until `patience` is over.
pub(in crate::release) fn resolve(
    address: &Url,
    set: &ReleaseSet,
    patience: Duration,
    scratch: &Path,
    printer: &Printer,
) -> Result<()> {
    let (name, program) = ["uv", "pip"]
        .into_iter()
        .find_map(|name| Some((name, environment::program(name)?)))
        .ok_or_else(|| Usage::new("`--verify-url` needs uv or pip").hint("`pip install uv`"))?;
    let end = Instant::now() + patience;
    let mut credentials = Credentials::default();
    let shown = credentials.take(address);
    for (python, requirements) in by_python(set) {
        let file = scratch.join("verified.txt");
        fs_err::write(&file, requirements)?;
        loop {
            let mut command = Command::new(&program);
            // Other users can read the arguments of a process, but not its environment.
            for (variable, _) in environment::text_variables() {
                if variable.starts_with("PIP_") || UV_INDEXES.contains(&variable.as_str()) {
                    command.env_remove(variable);
                }
            }
            if name == "uv" {
                command.env("UV_DEFAULT_INDEX", address.as_str());
                command.args(["pip", "install", "--no-config", "--no-cache", "--quiet"]);
            } else {
                command.env("PIP_INDEX_URL", address.as_str()).env("PIP_CONFIG_FILE", NO_FILE);
                command.args(["install", "--no-cache-dir", "--quiet", "--ignore-installed"]);
                command.args(["--disable-pip-version-check", "--only-binary=:all:"]);
            }
            command.args(["--dry-run", "--no-deps", "--require-hashes"]);
            if let Some(python) = &python {
                command.args(["--python-version", python]);
            }
            command.arg("--target").arg(scratch.join("installed")).arg("--requirement").arg(&file);
            let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{name}`"))?;
            if output.status.success() {
                break;
            }
            printer.reporter().check()?;
            if Instant::now() >= end {
                let said = credentials.mask(&String::from_utf8_lossy(&output.stderr)).trim().to_owned();
                return Err(NotSeen { program: name, address: shown.to_string(), said }.into());
            }
            std::thread::sleep(PAUSE.min(end.saturating_duration_since(Instant::now())));
        }
    }
    printer.note(format!("{name} finds the set at {shown}, with its hashes"));
    Ok(())
}

/// The requirements of each Python that the set has compiled wheels for; `None` is any Python.
/// Wheels for Windows are not chosen on Linux, so only those of this system are asked for.
fn by_python(set: &ReleaseSet) -> BTreeMap<Option<String>, String> {
    let mut found: BTreeMap<Option<String>, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    let prefix = if cfg!(windows) { "win" } else { "linux" };
    for (key, file) in &set.files {
        let Ok(wheel) = rocwheel_content::archive_path::file_name(key).parse::<WheelName>() else { continue };
        let fits = wheel.platforms.iter().any(|tag| tag == "any" || tag.contains(prefix));
        if !fits || wheel.abis.iter().any(|abi| abi.ends_with('t')) {
            continue;
        }
        let python = wheel.pythons.iter().find_map(|tag| Some(format!("3.{}", tag.strip_prefix("cp3")?)));
        found.entry(python).or_default().entry(parent(key)).or_default().push(&file.sha256);
    }
    let requirements = found.into_iter().map(|(python, projects)| {
        let lines = projects.into_iter().map(|(project, hashes)| {
            let version = set.versions.get(project).map_or("", String::as_str);
            let hashes: String = hashes.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
            format!("{project}=={version}{hashes}\n")
        });
        (python, lines.collect())
    });
    requirements.collect()
}
