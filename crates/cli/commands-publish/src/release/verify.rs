//! `rocwheel release verify`: compares a stream or a copy of it with its signed snapshot.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use rocwheel_progress::Exit;
use rocwheel_stream::{VerifyOptions, check_stream_name, verify_stream};

use rocwheel_commands_wheel::reuse::public_key;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_console::store::{BucketOptions, StorePlace};

/// Verify a stream, or a copy of one
///
/// Compares every file, METADATA and page with the last snapshot, finds pages that it does not
/// have, and verifies its signature and that each snapshot names the one before. Asks nothing but
/// the store. The page for people (chooser.html) is not verified.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of a copy, or s3://BUCKET/PREFIX
    #[arg(value_name = "DIR|STORE")]
    store: OsString,
    /// Name of the stream [default: the store is the stream]
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
    /// Public key of which a signature is required, in PEM; one of several is enough
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// Compare only sizes and the hashes that the store keeps, and read no file
    #[arg(long)]
    quick: bool,
    /// Time with which the expiry of the snapshot is compared [default: the present]
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    #[command(flatten)]
    bucket: BucketOptions,
}

#[derive(Debug)]
pub(crate) struct Settings {
    place: StorePlace,
    options: VerifyOptions,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let mut place = arguments.bucket.place(arguments.store)?;
        if let Some(name) = &arguments.stream {
            check_stream_name(name).map_err(|fault| Usage::of(&fault))?;
            place = place.below(name);
        }
        let keys = arguments.key.iter().map(|path| public_key(path)).collect::<Result<_>>()?;
        let now = arguments.now.map_or_else(environment::present, Ok)?;
        Ok(Self { place, options: VerifyOptions { keys, now, read_files: !arguments.quick } })
    }
}

/// Prints what is wrong.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let store = settings.place.open(printer)?;
    let verified = verify_stream(&*store, &settings.options, printer.reporter())?;
    if printer.format() == ResultFormat::Json {
        printer.json(&verified)?;
    } else {
        for problem in &verified.problems {
            printer.line(problem)?;
        }
        for page in &verified.unverified {
            printer.note(format!("`{page}` was not verified: the snapshot says nothing of this page for people"));
        }
        let files = message::count(verified.files as u64, "file", "files");
        let signed = match &verified.signers[..] {
            _ if settings.options.keys.is_empty() => {
                "signatures were not verified: `--key` names a public key".to_owned()
            }
            [] => "not signed by a key that was given".to_owned(),
            signers => format!("signed by {}", signers.join(", ")),
        };
        printer.note(format!(
            "snapshot {} of `{}`: {files} ({}), {}; {signed}",
            verified.number,
            verified.stream,
            message::bytes(verified.bytes),
            message::count(verified.problems.len() as u64, "problem", "problems"),
        ));
    }
    Ok(if verified.problems.is_empty() { Exit::Done } else { Exit::Failed })
}
