//! Native packages that are published with a set.

use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::Printer;
use rocwheel_console::store::StorePlace;
use rocwheel_output::Mode;
use rocwheel_release::{NativeCopy, NativeOptions, NativeSignature, NativeSigner, publish_native};

use crate::release::stream::ChangeSettings;

/// The folder of the store that has repositories of native packages.
const FOLDER: &str = "native";

/// Options about native packages.
#[derive(Debug, Clone, Args)]
pub(super) struct NativeArguments {
    /// Folder with repositories of Debian or RPM packages: the packages go unchanged to
    /// `native/STREAM` of the store, and the lists are merged with those there
    #[arg(long, value_name = "DIR", requires = "from")]
    native: Option<PathBuf>,
    /// Key of gpg that signs the merged lists, as `gpg --local-user` takes it
    #[arg(long, value_name = "KEY", requires = "native")]
    native_key: Option<String>,
}

/// The same, checked.
#[derive(Debug)]
pub(super) struct NativeSettings {
    folder: PathBuf,
    place: StorePlace,
    /// The program `gpg` and the key.
    signer: Option<(PathBuf, String)>,
}

impl NativeArguments {
    /// `None` without native packages.
    pub(super) fn settings(self, store: StorePlace, stream: &str) -> Result<Option<NativeSettings>> {
        let Some(folder) = self.native else { return Ok(None) };
        let signer = match self.native_key {
            Some(key) => {
                let gpg = environment::program("gpg");
                let gpg = gpg.ok_or_else(|| Usage::new("there is no gpg to sign with").hint("`apt install gpg`"))?;
                Some((gpg, key))
            }
            None => None,
        };
        Ok(Some(NativeSettings { folder, place: store.below(FOLDER).below(stream), signer }))
    }
}

/// Publishes the packages, or looks what there is for a dry run.
pub(super) fn publish(
    settings: &NativeSettings,
    change: &ChangeSettings,
    scratch: &Path,
    printer: &Printer,
) -> Result<NativeCopy> {
    let write = change.mode == Mode::Execute;
    let signer = settings.signer.as_ref().map(|(program, key)| move |text: &[u8]| sign(program, key, text));
    let options = NativeOptions {
        patience: change.patience,
        now: change.now(),
        signer: signer.as_ref().map(|signer| signer as NativeSigner<'_>),
        write,
    };
    let made = match &settings.place {
        StorePlace::Folder(path) if write => make_folders(path)?,
        _ => Vec::new(),
    };
    let store = settings.place.open_or_empty(scratch, printer)?;
    let published = publish_native(&settings.folder, &*store, &options, printer.reporter());
    if published.is_err() {
        // A folder with files in it stays.
        for folder in &made {
            drop(fs_err::remove_dir(folder));
        }
    }
    Ok(published?)
}

/// Creates a folder and those above it. Returns the new ones, the deepest first.
fn make_folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let new = path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    let new = new.map(Path::to_owned).collect();
    fs_err::create_dir_all(path)?;
    Ok(new)
}

fn sign(program: &Path, key: &str, text: &[u8]) -> io::Result<NativeSignature> {
    let around = run_gpg(program, key, &["--clearsign"], text)?;
    Ok(NativeSignature { around, beside: run_gpg(program, key, &["--armor", "--detach-sign"], text)? })
}

fn run_gpg(program: &Path, key: &str, arguments: &[&str], text: &[u8]) -> io::Result<Vec<u8>> {
    let mut input = tempfile::tempfile()?;
    input.write_all(text)?;
    input.rewind()?;
    let mut command = Command::new(program);
    command.args(["--batch", "--no-tty", "--quiet", "--digest-algo", "SHA512", "--local-user", key]).args(arguments);
    let done = command.stdin(Stdio::from(input)).output()?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(io::Error::other(format!("gpg failed ({}): {}", done.status, said.trim())))
}

/// Says what was published, or would be.
pub(super) fn show(native: Option<&NativeCopy>, mode: Mode, printer: &Printer) {
    let Some(native) = native else { return };
    let files = message::count(native.files.len() as u64, "native package", "native packages");
    let (size, lists) = (message::bytes(native.bytes), message::count(native.lists.len() as u64, "list", "lists"));
    printer.note(match mode {
        Mode::DryRun => format!("{files} ({size}) would be published, {lists} would change"),
        Mode::Execute => format!("{files} ({size}), {} new, {lists} changed", native.copied),
    });
}
