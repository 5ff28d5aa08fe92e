//! Where commands find and put published files: a folder or part of a bucket.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rocwheel_content::archive_path::join;
use rocwheel_index::text_without_users;
use rocwheel_store::{FolderStore, S3Address, S3Options, S3Store, Signing, Store, StoreLocking};

use crate::environment;
use crate::failure::{Result, Usage};
use crate::printer::Printer;

/// Options of all commands that work on a bucket.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Buckets")]
pub struct BucketOptions {
    /// Address of the S3 server, for servers other than AWS [default: AWS_ENDPOINT_URL]
    #[arg(long, value_name = "URL")]
    s3_endpoint: Option<String>,
    /// Send no credentials: for reading public buckets
    #[arg(long)]
    anonymous: bool,
    /// Who keeps two runs from writing at the same time
    #[arg(long, value_name = "KIND", default_value = "conditional")]
    store_lock: LockArgument,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LockArgument {
    /// An object in the bucket; the server has to heed conditions on writes
    Conditional,
    /// You, for example by a concurrency group of your CI: for servers without conditions
    External,
}

impl BucketOptions {
    /// The options of commands without options for buckets: variables have the address and the
    /// credentials.
    pub fn of_environment() -> BucketOptions {
        BucketOptions { s3_endpoint: None, anonymous: false, store_lock: LockArgument::Conditional }
    }

    /// The bucket of an address.
    pub fn bucket(&self, address: &str) -> Result<S3Options, Usage> {
        let address: S3Address = address
            .parse()
            .map_err(|reason| Usage::new(format!("`{}` is no store: {reason}", text_without_users(address))))?;
        Ok(S3Options {
            address,
            endpoint: self.s3_endpoint.clone(),
            signing: if self.anonymous { Signing::Anonymous } else { Signing::Credentials },
            locking: match self.store_lock {
                LockArgument::Conditional => StoreLocking::Conditional,
                LockArgument::External => StoreLocking::External,
            },
            variables: environment::aws_variables(),
            owner: environment::run_name(),
        })
    }

    /// The bucket of an argument that begins with `s3://`, or the folder of any other.
    pub fn place(&self, argument: OsString) -> Result<StorePlace, Usage> {
        Ok(match argument.to_str().filter(|text| S3Address::is_meant(text)) {
            Some(text) => StorePlace::Bucket(self.bucket(text)?),
            None => StorePlace::Folder(PathBuf::from(argument)),
        })
    }
}

/// A store that is not open yet.
#[derive(Debug, Clone)]
pub enum StorePlace {
    Folder(PathBuf),
    Bucket(S3Options),
}

impl StorePlace {
    /// The stream of a name in the store.
    #[must_use]
    pub fn below(self, stream: &str) -> StorePlace {
        match self {
            StorePlace::Folder(path) => StorePlace::Folder(path.join(stream)),
            StorePlace::Bucket(mut options) => {
                options.address.prefix = join(&options.address.prefix, stream);
                StorePlace::Bucket(options)
            }
        }
    }

    /// Opens the store, whose requests end with the command.
    pub fn open(&self, printer: &Printer) -> Result<Box<dyn Store>> {
        Ok(match self {
            StorePlace::Folder(path) => Box::new(FolderStore::open(path)?),
            StorePlace::Bucket(options) => Box::new(open_bucket(options, printer)?),
        })
    }

    /// Opens the store of a stream; an empty folder in `scratch` answers for one that does not
    /// exist yet.
    pub fn open_or_empty(&self, scratch: &Path, printer: &Printer) -> Result<Box<dyn Store>> {
        match self {
            StorePlace::Folder(path) if !path.exists() => {
                let empty = scratch.join("empty");
                fs_err::create_dir_all(&empty)?;
                Ok(Box::new(FolderStore::open(&empty)?))
            }
            place => place.open(printer),
        }
    }
}

/// Opens a bucket, whose requests end with the command.
pub fn open_bucket(options: &S3Options, printer: &Printer) -> Result<S3Store> {
    Ok(S3Store::open(options, printer.progress())?)
}
