//! Options of the commands that read or change a stream.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use rocwheel_attest::SigningKey;
use rocwheel_pages::ChooserOptions;
use rocwheel_stream::{StreamChange, UnsignedChange, check_stream_name};

use crate::index::build::chooser;
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_console::store::{BucketOptions, StorePlace};
use rocwheel_output::Mode;

/// Where a stream is.
#[derive(Debug, Clone, Args)]
pub(super) struct StreamArguments {
    /// Folder, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|STORE")]
    store: OsString,
    /// Name of the stream, which is a folder of the store, such as `nightly`
    #[arg(long, value_name = "NAME")]
    stream: String,
    #[command(flatten)]
    bucket: BucketOptions,
}

/// Where a stream is, and its name.
#[derive(Debug)]
pub(super) struct StreamPlace {
    pub(super) name: String,
    pub(super) place: StorePlace,
}

impl TryFrom<StreamArguments> for StreamPlace {
    type Error = Usage;

    fn try_from(arguments: StreamArguments) -> Result<Self, Usage> {
        StreamPlace::new(arguments.store, arguments.stream, &arguments.bucket)
    }
}

impl StreamPlace {
    pub(super) fn new(store: OsString, name: String, bucket: &BucketOptions) -> Result<StreamPlace, Usage> {
        check_stream_name(&name).map_err(|fault| Usage::of(&fault))?;
        Ok(StreamPlace { place: bucket.place(store)?.below(&name), name })
    }
}

/// How a change of a stream is signed and dated.
#[derive(Debug, Clone, Args)]
pub(super) struct SigningArguments {
    /// Private key that signs the snapshot, in PEM; may be repeated [default:
    /// ROCWHEEL_SIGNING_KEY, which has the key itself]
    #[arg(long, value_name = "FILE")]
    signing_key: Vec<PathBuf>,
    /// Time of the change, such as `2026-11-20T01:02:03Z` [default: SOURCE_DATE_EPOCH, else the
    /// present]
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// Seconds to wait while another run changes the stream
    #[arg(long, value_name = "SECONDS", default_value = "600")]
    wait: u64,
}

/// What a change of a stream accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AllowedChange {
    /// A change without a key of a stream that was signed until now
    Unsigned,
}

/// What a change of a stream accepts, for commands that accept nothing else.
#[derive(Debug, Clone, Args)]
pub(super) struct AllowArguments {
    /// Accept what is refused otherwise
    #[arg(long, value_name = "KIND", num_args = 1..)]
    allow: Vec<AllowedChange>,
}

impl AllowArguments {
    pub(super) fn unsigned(&self) -> UnsignedChange {
        if self.allow.contains(&AllowedChange::Unsigned) { UnsignedChange::Accept } else { UnsignedChange::Refuse }
    }
}

/// How a stream is changed.
#[derive(Debug, Clone, Args)]
pub(super) struct ChangeArguments {
    #[command(flatten)]
    signing: SigningArguments,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// The same, with the keys.
#[derive(Debug)]
pub(super) struct ChangeSettings {
    keys: Vec<SigningKey>,
    unsigned: UnsignedChange,
    now: Timestamp,
    decided: Timestamp,
    pub(super) patience: Duration,
    chooser: ChooserOptions,
    pub(super) mode: Mode,
}

impl ChangeArguments {
    pub(super) fn settings(&self, unsigned: UnsignedChange) -> Result<ChangeSettings> {
        ChangeSettings::new(&self.signing, unsigned, Mode::new(self.dry_run))
    }
}

impl ChangeSettings {
    pub(super) fn new(arguments: &SigningArguments, unsigned: UnsignedChange, mode: Mode) -> Result<ChangeSettings> {
        let mut keys = Vec::new();
        for path in &arguments.signing_key {
            keys.push(SigningKey::parse(&fs_err::read_to_string(path)?, &path.to_string_lossy())?);
        }
        if let Some(text) = environment::signing_key()?.filter(|_| keys.is_empty()) {
            keys.push(SigningKey::parse(&text, "ROCWHEEL_SIGNING_KEY")?);
        }
        Ok(Self {
            keys,
            unsigned,
            now: arguments.now.map_or_else(environment::present, Ok)?,
            decided: arguments.now.unwrap_or_else(environment::clock),
            patience: Duration::from_secs(arguments.wait),
            chooser: chooser(),
            mode,
        })
    }

    /// The keys that sign.
    pub(super) fn keys(&self) -> &[SigningKey] {
        &self.keys
    }

    /// The time of the change.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// The time with which a gate compares dates. `SOURCE_DATE_EPOCH` is for what is written: it
    /// must not revive a bypass that has expired.
    pub(super) fn time_of_decision(&self) -> Timestamp {
        self.decided
    }

    pub(super) fn change<'a>(&'a self, stream: &'a str) -> StreamChange<'a> {
        let write = self.mode == Mode::Execute;
        StreamChange {
            stream,
            now: self.now,
            keys: &self.keys,
            unsigned: self.unsigned,
            patience: self.patience,
            chooser: Some(&self.chooser),
            write,
        }
    }

    pub(super) fn is_signed(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Warns that the snapshot has no signature, unless nothing is written.
    pub(super) fn warn_unsigned(&self, printer: &Printer) {
        if self.mode == Mode::Execute && !self.is_signed() {
            printer.warn(
                "the snapshot is not signed: `--signing-key` names a key, `rocwheel release key new FILE` makes one",
            );
        }
    }
}
