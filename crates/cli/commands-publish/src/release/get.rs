//! `rocwheel release get`: the name of a wheel in, the wheel out; what older wheels have is not
//! downloaded again.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_delta::{GetMethod, GetRequest, GotWheel, IndexSite, get, plan_get};
use rocwheel_index::{scheme_of, settings};
use rocwheel_progress::Exit;
use rocwheel_wheel::{Platform, PythonVersion};

use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::index_site::site;
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_console::store::BucketOptions;

/// Wheels that a row names.
const MOST_NAMES: usize = 2;
const COLUMNS: [Column; 4] = [("File", Left), ("Size", Right), ("Downloaded", Right), ("How", Left)];

/// Download wheels, without the bytes that you have
///
/// An index may have a description beside a wheel, which lists its pieces (`release publish
/// --delta` writes it). Pieces that other wheels of the project have, of any version, are copied
/// from these; the rest is downloaded, by requests for ranges. The result is compared with the hash
/// on the page of the index. Without a description, or from a server that sends files as a whole
/// only, the whole wheel is downloaded.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Projects, with a version or without (`rocm-sdk-core==7.2.0`), or names of wheels
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Folder with wheels that you have, or one of them; pip's cache is such a folder; may be
    /// repeated [always searched: the output directory]
    #[arg(long, value_name = "DIR")]
    have: Vec<PathBuf>,
    /// Index to download from: an address, a folder with pages, or s3://BUCKET/PREFIX; may be
    /// repeated, the first one that has the project counts [default: the indexes of pip and uv]
    #[arg(long, value_name = "URL|DIR|STORE")]
    index: Vec<OsString>,
    /// Folder for the wheels
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Python that the wheels are for, such as 3.12 [default: any, if a version has one wheel]
    #[arg(long, value_name = "VERSION")]
    python: Option<PythonVersion>,
    /// System that the wheels are for: linux or windows [default: this system]
    #[arg(long, value_name = "SYSTEM")]
    platform: Option<Platform>,
    #[command(flatten)]
    bucket: BucketOptions,
}

#[derive(Debug)]
pub(crate) struct Settings {
    names: Vec<String>,
    have: Vec<PathBuf>,
    indexes: Vec<OsString>,
    pub output: PathBuf,
    python: Option<PythonVersion>,
    platform: Platform,
    bucket: BucketOptions,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        Ok(Self {
            names: arguments.names,
            have: arguments.have,
            indexes: arguments.index,
            output: arguments.output,
            python: arguments.python,
            platform: arguments.platform.unwrap_or_else(Platform::native),
            bucket: arguments.bucket,
        })
    }
}

/// Downloads the wheels, one after the other, once all of them are chosen.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let sites = sites(settings, printer)?;
    let mut have = settings.have.clone();
    if settings.output.is_dir() {
        have.push(settings.output.clone());
    }
    let mut plans = Vec::new();
    for name in &settings.names {
        let request = GetRequest {
            name,
            sites: &sites,
            have: &have,
            output: &settings.output,
            python: settings.python,
            platform: settings.platform,
        };
        plans.push(plan_get(request, printer.reporter())?);
    }
    let mut all = Vec::new();
    for plan in &plans {
        let got = get(plan, printer.reporter())?;
        if let Some(reason) = &got.reason {
            printer.note(format!("`{}` was downloaded as a whole: {reason}", file_name(&got)));
        }
        all.push(got);
    }
    show(&all, printer)?;
    Ok(Exit::Done)
}

/// The indexes that are asked.
fn sites(settings: &Settings, printer: &Printer) -> Result<Vec<IndexSite>> {
    let mut texts = settings.indexes.clone();
    if texts.is_empty() {
        let places = environment::indexes()?;
        if places.offline {
            return Err(Usage::new("the settings of pip and uv forbid the network")
                .hint("name an index with `--index`, such as a folder")
                .into());
        }
        let shown: Vec<String> = places.all.iter().map(|place| settings::shown(place)).collect();
        printer.note(format!("looking in {} ({})", shown.join(", "), places.said_by));
        // Folders of wheels are no indexes: nothing has the hashes of their files.
        texts.extend(places.all.into_iter().filter(|place| scheme_of(place).is_some()).map(OsString::from));
        if texts.is_empty() {
            return Err(Usage::new("the settings of pip and uv name no index")
                .hint("name one with `--index`; nothing has the hashes of the files in a folder of wheels")
                .into());
        }
    }
    texts.iter().map(|text| site(text, &settings.bucket, printer)).collect()
}

fn file_name(got: &GotWheel) -> String {
    got.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn show(all: &[GotWheel], printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        return printer.json(&serde_json::json!({ "wheels": all }));
    }
    let rows = all.iter().map(|got| {
        let how = match got.method {
            GetMethod::Existing => "is there already".to_owned(),
            GetMethod::Whole => "as a whole".to_owned(),
            GetMethod::Delta => {
                let names = got.from.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy());
                let names = rocwheel_progress::few_in_backticks(names, MOST_NAMES);
                format!("{} from {names}", message::bytes(got.reused))
            }
        };
        vec![file_name(got), message::bytes(got.size), message::bytes(got.transferred), how]
    });
    printer.table(&COLUMNS, rows)?;
    let (size, transferred) = all
        .iter()
        .filter(|got| got.method != GetMethod::Existing)
        .fold((0, 0), |(size, transferred), got| (size + got.size, transferred + got.transferred));
    if size > 0 {
        let (shown, whole) = (message::bytes(transferred), message::bytes(size));
        let tenths = u128::from(transferred) * 1000 / u128::from(size);
        let percent = format!("{}.{} %", tenths / 10, tenths % 10);
        printer.note(format!("{shown} of {whole} downloaded ({percent}), all hashes as the index says"));
    }
    Ok(())
}
