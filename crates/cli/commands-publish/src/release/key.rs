//! `rocwheel release key`: keys that sign snapshots.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use rocwheel_attest::SigningKey;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_progress::{Context as _, Exit};

/// The documentation of the commands is at their arguments.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    New(Arguments),
}

/// Make a key that signs snapshots
///
/// Writes the private key to FILE, which only you can read, and the public key to FILE.pub. Users
/// verify snapshots with the public key.
#[derive(Debug, Args)]
pub struct Arguments {
    /// File for the private key; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The two files.
#[derive(Debug)]
pub(crate) struct Settings {
    private: PathBuf,
    public: PathBuf,
}

impl TryFrom<Arguments> for Settings {
    type Error = Usage;

    fn try_from(arguments: Arguments) -> Result<Self, Usage> {
        let mut public = arguments.file.clone().into_os_string();
        public.push(".pub");
        Ok(Self { private: arguments.file, public: public.into() })
    }
}

/// Makes the key.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let Settings { private, public } = settings;
    if public.exists() {
        return Err(Usage::new(format!("`{}` exists already", public.display())).into());
    }
    let (key, text) = SigningKey::generate()?;
    let mut options = fs_err::OpenOptions::new();
    options.write(true).create_new(true);
    let file = rocwheel_system::create_mode(&mut options, 0o600).open(private);
    let written = file.and_then(|mut file| {
        // Before it has content: not every system closes a new file to others at once.
        rocwheel_system::set_open_mode(file.file(), 0o600)?;
        file.write_all(text.as_bytes())
    });
    written.context("cannot write a new key")?;
    fs_err::write(public, key.public().text())?;
    let id = key.public().id();
    if printer.format() == ResultFormat::Json {
        printer.json(&serde_json::json!({ "private": private, "public": public, "keyid": id }))?;
    } else {
        printer.line(public.to_string_lossy())?;
        printer.note(format!(
            "key {id}: keep `{}` secret, and give `{}` to users",
            private.display(),
            public.display()
        ));
    }
    Ok(Exit::Done)
}
