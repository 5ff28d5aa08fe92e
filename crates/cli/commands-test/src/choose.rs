//! `rocwheel choose`: packages and a GPU in, the line that installs them out.

mod machine;
mod page;
mod text;

use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use rocwheel_choose::{
    ChoiceAnswer, ChoiceVerdict, Installer, Nights, PUBLIC_INDEX, Question, Resolvers, ask, glibc_of, known_systems,
    present, public_index, table,
};
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::index_site::site_and_address;
use rocwheel_console::output_file::{FileKind, OutputFile, OutputOption};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_console::store::BucketOptions;
use rocwheel_index::address_without_user;
use rocwheel_index::requirement::InstallTarget;
use rocwheel_progress::{Exit, Reporter};
use rocwheel_tables::TargetTable;
use rocwheel_tables::target::is_processor;
use rocwheel_wheel::{Platform, PythonVersion};
use url::Url;

use machine::LocalPython;

/// Choose packages for a GPU, and print the line that installs them
///
/// uv, or pip where there is no uv, resolves the packages for a Python and a system. Each one that
/// is divided by GPU is asked for its part for this one, and a version that has none, or code for
/// other GPUs alone, does not count: so the answer has the newest versions that are complete. Every
/// line is resolved again before it is printed.
///
/// The exit code is 1 if there is no such set, of a table if one is missing, and 3 if the set
/// exists but no code for the GPU was seen in it.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Packages as pip takes them: `torch`, `torch==2.9.*`, `rocm[libraries]` [default: torch, or
    /// rocm if the index has no torch]
    #[arg(value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Index with packages for ROCm: an address, or the folder of an index or a stream; of several,
    /// a package is taken from the first that has it
    #[arg(long, value_name = "URL|DIR", required = true)]
    index: Vec<String>,
    /// GPU: a target, the name of a card (`RX 7900 XTX`), or `auto` for those of this machine; may
    /// be repeated [default: auto]
    #[arg(long, value_name = "GPU")]
    gpu: Vec<String>,
    /// Version of Python, or a Python [default: `python3` on PATH]
    #[arg(long, value_name = "VERSION|FILE")]
    python: Option<String>,
    /// System: a distribution (`debian12`, `ubuntu24.04`), a glibc (`glibc2.28`), or `windows`
    /// [default: this one]
    #[arg(long, value_name = "SYSTEM")]
    system: Option<String>,
    /// Version of ROCm, or its beginning
    #[arg(long, value_name = "VERSION")]
    rocm: Option<String>,
    /// Version of torch, or its beginning
    #[arg(long, value_name = "VERSION")]
    torch: Option<String>,
    /// A requirement that counts for what is installed anyway; may be repeated
    #[arg(long, value_name = "REQUIREMENT")]
    constraint: Vec<String>,
    /// Take what the index lacks from the public one: yes, no, or the address of another one
    #[arg(long, value_name = "yes|no|URL", default_value = "yes")]
    public_index: String,
    /// Allow pre-releases
    #[arg(long)]
    pre: bool,
    /// Show for which GPUs and Pythons the packages are complete, and what the holes are: for
    /// owners of an index. Without --gpu and --python, those that the index has
    #[arg(long, conflicts_with = "installer")]
    table: bool,
    /// Look at so many newest versions of each package [default: down to the newest complete one]
    #[arg(long, value_name = "N", requires = "table", value_parser = clap::value_parser!(u16).range(1..))]
    nights: Option<u16>,
    /// Also write the table as Markdown
    #[arg(long, value_name = "FILE", requires = "table")]
    markdown: Option<OutputOption>,
    /// Also write the table as a page, for a place beside `chooser.html`
    #[arg(long, value_name = "FILE", requires = "table")]
    html: Option<OutputOption>,
    /// Print nothing but the text for this installer
    #[arg(long, value_name = "NAME", value_parser = installers())]
    installer: Option<Installer>,
}

fn installers() -> impl TypedValueParser<Value = Installer> {
    PossibleValuesParser::new(Installer::ALL.map(Installer::name)).map(|name| {
        let known = Installer::ALL.into_iter().find(|installer| installer.name() == name);
        known.expect("clap takes the names of installers alone")
    })
}

#[derive(Debug)]
pub struct Settings {
    packages: Vec<String>,
    indexes: Vec<String>,
    public: Option<String>,
    gpus: Vec<String>,
    /// `true` for a system like this one.
    is_here: bool,
    target: InstallTarget,
    resolvers: Resolvers,
    constraints: Vec<String>,
    rocm: Option<String>,
    pre_releases: bool,
    installer: Option<Installer>,
    /// The Pythons and versions of a table; `None` for an answer.
    table: Option<(Vec<PythonVersion>, Nights)>,
    markdown: Option<OutputFile>,
    html: Option<OutputFile>,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let is_any = arguments.python.is_none();
        let local = LocalPython::find(arguments.python.as_deref())?;
        let (python, own_glibc) = (local.version, local.glibc);
        let (platform, glibc) = match arguments.system.as_deref() {
            None => (Platform::native(), own_glibc),
            Some("windows") => (Platform::Windows, None),
            Some("linux") => (Platform::Linux, Some((2, 28))),
            Some(text) => (Platform::Linux, Some(glibc_of(text).ok_or_else(|| unknown_system(text))?)),
        };
        if platform == Platform::Linux && glibc.is_none() {
            return Err(Usage::new("which glibc this system has is not known")
                .hint("name the system: `--system debian12`, `--system glibc2.36`")
                .into());
        }
        let torch = arguments.torch.map(|version| format!("torch=={version}.*"));
        Ok(Self {
            packages: arguments.packages,
            indexes: arguments.index,
            public: public_index(&arguments.public_index),
            gpus: match &arguments.gpu[..] {
                [] if !arguments.table => gpus(&["auto".to_owned()])?,
                names => gpus(names)?,
            },
            table: arguments.table.then(|| {
                let nights = arguments.nights.map_or(Nights::ToComplete, |most| Nights::Newest(most.into()));
                (if is_any { Vec::new() } else { vec![python] }, nights)
            }),
            markdown: arguments.markdown.map(|file| file.check("--markdown", FileKind::Page, &[])).transpose()?,
            html: arguments.html.map(|file| file.check("--html", FileKind::WebPage, &[])).transpose()?,
            is_here: platform == Platform::native() && glibc == own_glibc,
            target: InstallTarget { python, platform, glibc },
            resolvers: local.resolvers,
            constraints: arguments.constraint.into_iter().chain(torch).collect(),
            rocm: arguments.rocm,
            pre_releases: arguments.pre,
            installer: arguments.installer,
        })
    }
}

fn unknown_system(text: &str) -> Usage {
    Usage::new(format!("the system `{text}` is not known")).hint(format!(
        "write its glibc, as in `--system glibc2.36`, or one of: windows, {}",
        known_systems().join(", ")
    ))
}

/// The targets of GPUs that are named, each once.
fn gpus(names: &[String]) -> Result<Vec<String>> {
    let table = TargetTable::embedded();
    let mut found: Vec<String> = Vec::new();
    for name in names {
        let targets = match name.as_str() {
            "auto" => machine::gpus()?,
            name if is_processor(name) && table.is_known(name) => vec![name.to_owned()],
            name => match &table.of_card(name)[..] {
                [one] => vec![(*one).to_owned()],
                [] => {
                    return Err(Usage::new(format!("no GPU `{name}` is known"))
                        .hint(
                            "`rocwheel data list targets` has the known ones; `rocwheel doctor` on the machine with the \
                             GPU prints its target, such as gfx1100",
                        )
                        .into());
                }
                several => {
                    let shown: Vec<String> = several.iter().map(|target| described(&table, target)).collect();
                    return Err(Usage::new(format!("`{name}` fits several GPUs: {}", shown.join(", ")))
                        .hint("write the whole name of the card, or its target")
                        .into());
                }
            },
        };
        found.extend(targets.into_iter().filter(|target| !found.contains(target)).collect::<Vec<_>>());
    }
    Ok(found)
}

/// `AMD RX 7900 XTX (gfx1100)`.
fn described(table: &TargetTable, target: &str) -> String {
    table.product(target).map_or_else(|| target.to_owned(), |product| format!("{product} ({target})"))
}

/// The answer for a machine that the doctor has looked at, with the line of one installer, and the
/// address of the index without a user.
pub(crate) fn choose_for(
    index: &str,
    packages: Vec<String>,
    (gpus, python, glibc): (&[String], &str, Option<(u16, u16)>),
    installer: Installer,
    printer: &Printer,
) -> Result<(ChoiceAnswer, String)> {
    let local = LocalPython::find(Some(python))?;
    let glibc = glibc.or(local.glibc).ok_or_else(|| Usage::new("which glibc the system has is not known"))?;
    let (sites, addresses): (Vec<_>, Vec<_>) = [index, PUBLIC_INDEX]
        .map(|text| site_and_address(text, &BucketOptions::of_environment(), printer))
        .into_iter()
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .unzip();
    let question = Question {
        packages,
        constraints: Vec::new(),
        rocm: None,
        sites: &sites,
        addresses: &addresses,
        has_public: true,
        gpus: gpus.to_vec(),
        target: InstallTarget { python: local.version, platform: Platform::Linux, glibc: Some(glibc) },
        pre_releases: false,
    };
    let progress: Arc<dyn Reporter> = printer.progress();
    Ok((ask(&question, &[installer], &local.resolvers, &progress)?, shown(&addresses[0])))
}

/// An address without its user.
fn shown(address: &str) -> String {
    Url::parse(address).map_or_else(|_| address.to_owned(), |url| address_without_user(&url).to_string())
}

/// Prints the set and its lines.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let mut sites = Vec::new();
    let mut addresses = Vec::new();
    for text in settings.indexes.iter().chain(&settings.public) {
        let (site, address) = site_and_address(text, &BucketOptions::of_environment(), printer)?;
        sites.push(site);
        addresses.push(address);
    }
    let question = Question {
        packages: settings.packages.clone(),
        constraints: settings.constraints.clone(),
        rocm: settings.rocm.clone(),
        sites: &sites,
        addresses: &addresses,
        has_public: settings.public.is_some(),
        gpus: settings.gpus.clone(),
        target: settings.target.clone(),
        pre_releases: settings.pre_releases,
    };
    let progress: Arc<dyn Reporter> = printer.progress();
    if let Some((pythons, nights)) = &settings.table {
        let cells = table(&question, (pythons, *nights), &settings.resolvers, &progress)?;
        if let Some(file) = &settings.markdown {
            file.write(&page::markdown(&cells))?;
        }
        if let Some(file) = &settings.html {
            file.write(&page::html(&cells))?;
        }
        text::print_table(&cells, printer)?;
        let is_complete = cells.iter().all(|cell| !cell.set.is_empty());
        return Ok(if is_complete { Exit::Done } else { Exit::Failed });
    }
    let wanted = settings.installer.map_or(Installer::ALL.to_vec(), |installer| vec![installer]);
    let mut answer = ask(&question, &wanted, &settings.resolvers, &progress)?;
    let python = settings.resolvers.python.as_deref().filter(|_| settings.is_here);
    answer.present = python.and_then(|python| present(python, &answer.members));
    let shown: Vec<String> = addresses.iter().map(|address| shown(address)).collect();
    let exit = match answer.verdict {
        ChoiceVerdict::Yes => Exit::Done,
        ChoiceVerdict::No => Exit::Failed,
        ChoiceVerdict::CannotTell => Exit::Partial,
    };
    let facts = text::Facts { question: &question, indexes: &shown };
    match (printer.format(), settings.installer) {
        (ResultFormat::Json, _) => printer.json(&facts.document(&answer)?)?,
        (ResultFormat::Text, Some(installer)) => return text::print_one(&answer, installer, exit, printer),
        (ResultFormat::Text, None) => text::print(&facts, &answer, printer)?,
    }
    Ok(exit)
}

/// The version in a text that a Python printed: `3.12`.
fn version(text: &str) -> Result<PythonVersion> {
    Ok(text.parse::<PythonVersion>()?)
}
