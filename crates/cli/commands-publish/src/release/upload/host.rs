//! Packages to a host that takes uploads, by `uv publish` or `twine upload`.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_index::{Fetch, address_without_user, page};
use rocwheel_progress::{Context as _, Exit, Hint};
use rocwheel_release::{LocalSet, read_set};
use url::Url;

use super::{Arguments, Uploader};

/// Bytes of a page that are read: real ones have a few megabytes.
const LARGEST_PAGE: u64 = 256 << 20;
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
        let wrong = Usage::new(format!("`{option}` is not an address that begins with `https://` or `http://`"));
        let address = Url::parse(text).ok().filter(|address| matches!(address.scheme(), "http" | "https"));
        let address = address.ok_or(wrong)?;
        let credentials = [Some(address.username()).filter(|user| !user.is_empty()), address.password()];
        let [user, password] =
            credentials.map(|text| Some(percent_encoding::percent_decode_str(text?).decode_utf8_lossy().into_owned()));
        Ok(HostAddress { address: address_without_user(&address), user, password })
    }

    /// The value of the header Authorization (RFC 7617).
    fn authorization(&self) -> Option<String> {
        let (user, password) = (self.user.as_deref()?, self.password.as_deref().unwrap_or_default());
        Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
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
        Ok(Self {
            dist: dist.clone(),
            to: HostAddress::parse(&arguments.repository_url.unwrap_or_default(), "--repository-url")?,
            check: arguments.check_url.map(|text| HostAddress::parse(&text, "--check-url")).transpose()?,
            uploader,
            program,
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
#[error("{address} did not take `{project}`, after {}:\n{said}", message::count(*done as u64, "project", "projects"))]
struct NotTaken {
    address: String,
    project: String,
    done: usize,
    said: String,
}

impl Hint for NotTaken {
    fn hint(&self) -> Option<String> {
        Some(
            "packages that were uploaded before stay; with `--check-url` and the host's index, the same command goes on"
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
    let mut order = local.in_order();
    if let Some(check) = &settings.check {
        let existing = existing(check, &local, &order)?;
        for (_, files) in &mut order {
            files.retain(|path| !existing.contains(*path));
        }
        order.retain(|(_, files)| !files.is_empty());
        if !existing.is_empty() {
            let files = message::count(existing.len() as u64, "file", "files");
            printer.note(format!("{files} are at {} already", check.address));
        }
    }
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
    if printer.format() == ResultFormat::Json {
        let projects: Vec<serde_json::Value> =
            order.iter().map(|(project, files)| serde_json::json!({ "project": project, "files": files })).collect();
        let (to, uploaded) = (settings.to.address.as_str(), !settings.dry_run);
        printer.json(&serde_json::json!({ "host": to, "uploaded": uploaded, "projects": projects }))?;
        return Ok(Exit::Done);
    }
    let rows = order.iter().map(|(project, files)| vec![(*project).to_owned(), files.len().to_string()]);
    printer.table(&COLUMNS, rows)?;
    let verb = if settings.dry_run { "would be uploaded" } else { "uploaded" };
    let files = message::count(files as u64, "file", "files");
    printer.note(format!("{files} {verb} to {} by {}", settings.to.address, settings.uploader.name()));
    Ok(Exit::Done)
}

/// The files that an index lists with the same SHA-256.
fn existing(check: &HostAddress, local: &LocalSet, order: &[(&str, Vec<&Path>)]) -> Result<BTreeSet<PathBuf>> {
    let http = environment::http(check.address.scheme())?;
    let hashes = local.hashes();
    let base = format!("{}/", check.address.as_str().trim_end_matches('/'));
    let credentials = check.authorization();
    let mut headers = vec![("Accept", "text/html")];
    headers.extend(credentials.as_ref().map(|text| ("Authorization", text.as_str())));
    let (mut found, mut problems) = (BTreeSet::new(), Vec::new());
    for (project, files) in order {
        let address = Url::parse(&format!("{base}{project}/")).map_err(Failure::other)?;
        let answer = Fetch::get_with(&http, &address, &headers).map_err(|error| ask_error(&address, &error))?;
        if answer.status == 404 {
            continue;
        }
        if answer.status != 200 {
            return Err(ask_error(&address, &format_args!("the answer has status {}", answer.status)));
        }
        let mut body = Vec::new();
        answer.body.take(LARGEST_PAGE).read_to_end(&mut body)?;
        let links = page::parse(&answer.content_type, &body, &answer.address);
        let links = links.map_err(|reason| ask_error(&address, &reason))?;
        for path in files {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Some(link) = links.iter().find(|link| link.file_name == name) else { continue };
            let listed = link.hash.as_ref().map(|hash| hash.hexadecimal.clone());
            if listed.is_some() && listed.as_ref() == hashes.get(*path) {
                found.insert((*path).to_owned());
            } else {
                problems.push((*name).to_owned());
            }
        }
    }
    if problems.is_empty() {
        return Ok(found);
    }
    Err(rocwheel_store::Error::OtherBytes { problems }.into())
}

fn ask_error(address: &Url, reason: &dyn std::fmt::Display) -> Failure {
    Failure::message(format!("cannot ask {address}: {reason}"))
}

impl HostSettings {
    /// The program without the files. Credentials are in its environment, where other users of the
    /// machine cannot read them.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let (user, password) = match self.uploader {
            Uploader::Uv => {
                command.args(["publish", "--no-progress", "--publish-url", self.to.address.as_str()]);
                ("UV_PUBLISH_USERNAME", "UV_PUBLISH_PASSWORD")
            }
            Uploader::Twine => {
                command.args(["upload", "--non-interactive", "--disable-progress-bar"]);
                command.args(["--repository-url", self.to.address.as_str()]);
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

    /// The output of the program, without passwords.
    fn masked(&self, said: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(said).into_owned();
        for secret in environment::upload_secrets().iter().chain(&self.to.password).filter(|text| !text.is_empty()) {
            text = text.replace(secret.as_str(), "****");
        }
        text
    }
}
