//! Packages to a host that takes uploads, by `uv publish` or `twine upload`.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use comfy_table::CellAlignment::{Left, Right};
use rocwheel_release::{LocalSet, read_set};
use rocwheel_report::{Context as _, Exit, Hint};
use url::Url;

use super::{Arguments, Uploader};
use crate::environment;
use crate::failure::{Failure, Result, Usage};
use crate::printer::{self, Column, Format, Printer};

const COLUMNS: [Column; 2] = [("Project", Left), ("Files", Right)];

/// An address and the credentials that were in it, which are in no message.
pub(super) struct HostAddress {
    address: Url,
    user: Option<String>,
    password: Option<String>,
}

impl std::fmt::Debug for HostAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.address.as_str())
    }
}

impl HostAddress {
    fn parse(text: &str, option: &str) -> Result<HostAddress, Usage> {
        // The text may have a password, so no message has it.
        let wrong = || Usage::new(format!("`{option}` is not an address that begins with `https://` or `http://`"));
        let mut address = Url::parse(text).map_err(|_| wrong())?;
        if !matches!(address.scheme(), "http" | "https") {
            return Err(wrong());
        }
        let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = Some(decoded(address.username())).filter(|user| !user.is_empty());
        let password = address.password().map(decoded);
        address.set_username("").and_then(|()| address.set_password(None)).map_err(|()| wrong())?;
        Ok(HostAddress { address, user, password })
    }
}

/// What an upload to a host works with.
#[derive(Debug)]
pub(crate) struct HostSettings {
    dist: PathBuf,
    to: HostAddress,
    check: Option<HostAddress>,
    uploader: Uploader,
    program: PathBuf,
    skip_existing: bool,
    dry_run: bool,
}

impl TryFrom<Arguments> for HostSettings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let [dist] = &arguments.files[..] else {
            return Err(Usage::new("`--repository-url` takes one folder with packages").into());
        };
        if !dist.is_dir() {
            return Err(Usage::new(format!("`{}` is not a folder", dist.display())).into());
        }
        let wanted = arguments.with.map_or_else(|| vec![Uploader::Uv, Uploader::Twine], |one| vec![one]);
        let found = wanted.iter().find_map(|one| Some((*one, environment::program(one.name())?)));
        let Some((uploader, program)) = found else {
            let names: Vec<&str> = wanted.iter().map(|one| one.name()).collect();
            let usage = Usage::new(format!("there is no {} to upload with", names.join(" and no ")));
            return Err(usage.hint(format!("`pip install {}`", names[0])).into());
        };
        if arguments.check_url.is_some() && uploader == Uploader::Twine {
            return Err(Usage::new("`--check-url` needs uv").hint("twine knows `--skip-existing`").into());
        }
        if arguments.skip_existing && uploader == Uploader::Uv {
            return Err(Usage::new("`--skip-existing` needs twine").hint("uv knows `--check-url`").into());
        }
        let parse = |text: Option<&String>, option| text.map(|text| HostAddress::parse(text, option)).transpose();
        Ok(Self {
            dist: dist.clone(),
            to: HostAddress::parse(&arguments.repository_url.unwrap_or_default(), "--repository-url")?,
            check: parse(arguments.check_url.as_ref(), "--check-url")?,
            uploader,
            program,
            skip_existing: arguments.skip_existing,
            dry_run: arguments.dry_run,
        })
    }
}

impl Uploader {
    fn name(self) -> &'static str {
        match self {
            Self::Uv => "uv",
            Self::Twine => "twine",
        }
    }
}

/// The host did not take a package.
#[derive(Debug, thiserror::Error)]
#[error("{address} did not take `{project}`, after {}:\n{said}", printer::count(*done as u64, "project", "projects"))]
struct NotTaken {
    address: String,
    project: String,
    done: usize,
    said: String,
}

impl Hint for NotTaken {
    fn hint(&self) -> Option<String> {
        Some(
            "packages that were uploaded before stay; the same command with `--skip-existing` (twine) or `--check-url` (uv) goes on"
                .to_owned(),
        )
    }

    fn exit(&self) -> Exit {
        Exit::Failed
    }
}

/// Uploads, or prints in which order.
pub(super) fn command(settings: &HostSettings, printer: &Printer) -> Result<Exit> {
    let local: LocalSet = read_set(&settings.dist, printer.reporter())?;
    for archive in &local.ignored {
        printer.note(format!("`{archive}` is no Python package and is not uploaded"));
    }
    let order = local.in_order();
    if !settings.dry_run {
        for (done, (project, files)) in order.iter().enumerate() {
            printer.reporter().check()?;
            let mut command = settings.command();
            let output = command.args(files).stdin(Stdio::null()).output();
            let output = output.with_context(|| format!("cannot start `{}`", settings.uploader.name()))?;
            let said = settings.masked(&[&output.stdout[..], &output.stderr[..]].concat());
            printer.detail(said.trim_end());
            if !output.status.success() {
                let (address, project) = (settings.to.address.to_string(), (*project).to_owned());
                return Err(NotTaken { address, project, done, said: said.trim().to_owned() }.into());
            }
        }
    }
    let files: usize = order.iter().map(|(_, files)| files.len()).sum();
    if printer.format() == Format::Json {
        let projects: Vec<serde_json::Value> =
            order.iter().map(|(project, files)| serde_json::json!({ "project": project, "files": files })).collect();
        let (to, uploaded) = (settings.to.address.as_str(), !settings.dry_run);
        printer.json(&serde_json::json!({ "host": to, "uploaded": uploaded, "projects": projects }))?;
        return Ok(Exit::Done);
    }
    let row = |(project, files): &(&str, Vec<&std::path::Path>)| vec![(*project).to_owned(), files.len().to_string()];
    printer.table(&COLUMNS, order.iter().map(row))?;
    let verb = if settings.dry_run { "would be uploaded" } else { "uploaded" };
    let files = printer::count(files as u64, "file", "files");
    printer.note(format!("{files} {verb} to {} by {}", settings.to.address, settings.uploader.name()));
    Ok(Exit::Done)
}

impl HostSettings {
    /// The program without the files. Credentials are in its environment, where other users of the
    /// machine cannot read them.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let (user, password) = match self.uploader {
            Uploader::Uv => {
                command.args(["publish", "--no-progress", "--publish-url", self.to.address.as_str()]);
                if let Some(check) = &self.check {
                    command.args(["--check-url", check.address.as_str()]);
                }
                ("UV_PUBLISH_USERNAME", "UV_PUBLISH_PASSWORD")
            }
            Uploader::Twine => {
                command.args(["upload", "--non-interactive", "--disable-progress-bar"]);
                command.args(["--repository-url", self.to.address.as_str()]);
                if self.skip_existing {
                    command.arg("--skip-existing");
                }
                ("TWINE_USERNAME", "TWINE_PASSWORD")
            }
        };
        for (name, value) in [(user, &self.to.user), (password, &self.to.password)] {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        command
    }

    /// What the program said, without passwords.
    fn masked(&self, said: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(said).into_owned();
        for secret in environment::upload_secrets().iter().chain(&self.to.password).filter(|text| !text.is_empty()) {
            text = text.replace(secret.as_str(), "****");
        }
        text
    }
}
