//! The options of `rocwheel index build` for one index over those of several products.

use clap::Args;
use rocwheel_console::failure::Result;
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_pages::{AggregateOptions, BuildOptions, Hosting, aggregate};
use rocwheel_progress::Exit;
use rocwheel_store::{PageChange, Store};
use rocwheel_stream::CHOOSER;

/// Options for an index over several.
#[derive(Debug, Args)]
#[command(next_help_heading = "An index over several")]
pub(super) struct AggregateArguments {
    /// Make one index over the structured indexes in these folders, such as `core/whl-next
    /// pytorch/whl-next`; they are beside the folder of `--public-base`
    #[arg(
        long,
        value_name = "FOLDER",
        num_args = 1..,
        value_parser = path,
        conflicts_with_all = ["layout", "filter", "project", "view", "json_root", "status", "from_github"]
    )]
    aggregate: Vec<String>,
    /// Where that index is, below DIR and in the addresses of the table of routes
    #[arg(long, value_name = "PATH", default_value = "/rocm/whl-next", value_parser = base, requires = "aggregate")]
    public_base: String,
    /// Name of the stream in the table of routes
    #[arg(long, value_name = "NAME", default_value = "nightly", value_parser = name, requires = "aggregate")]
    stream: String,
    /// Write no pages of projects: the server follows the table of routes
    #[arg(long, requires = "aggregate")]
    routes_only: bool,
}

/// Parses a path whose parts need no escapes in an address.
fn path(text: &str) -> Result<String, String> {
    let is_path = text.split('/').all(|part| {
        let is_allowed = part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'));
        is_allowed && part.starts_with(|first: char| first.is_ascii_alphanumeric())
    });
    if is_path {
        return Ok(text.to_owned());
    }
    Err("write it as `core/whl-next`, of lower-case letters, digits and `._-`".into())
}

fn base(text: &str) -> Result<String, String> {
    let below = text.strip_prefix('/').ok_or("it begins with `/`")?;
    path(below).map(|path| format!("/{path}"))
}

fn name(text: &str) -> Result<String, String> {
    if text.contains('/') { Err("a name has no `/`".into()) } else { path(text) }
}

impl AggregateArguments {
    /// The index that was asked for, if any.
    pub(super) fn options(self, options: &BuildOptions) -> Option<AggregateOptions> {
        (!self.aggregate.is_empty()).then_some(AggregateOptions {
            public_base: self.public_base,
            owners: self.aggregate,
            stream: self.stream,
            hosting: if self.routes_only { Hosting::Routes } else { Hosting::Files },
            chooser: options.chooser.clone(),
            kept_chooser: CHOOSER,
            replace_pages: options.replace_pages,
            write: options.write,
        })
    }
}

/// Builds the index, or prints what would change.
pub(super) fn command(store: &dyn Store, options: &AggregateOptions, printer: &Printer) -> Result<Exit> {
    let made = aggregate(store, options, printer.reporter())?;
    if printer.format() == ResultFormat::Json {
        printer.json(&made)?;
        return Ok(Exit::Done);
    }
    for page in &made.pages {
        let word = if page.change == PageChange::Removed { "removed" } else { "written" };
        printer.detail(format!("{word}: {}", page.page));
    }
    let projects = message::count(made.projects as u64, "project", "projects");
    let pages = message::count(made.pages.len() as u64, "page", "pages");
    let would = if options.write { "changed" } else { "would change" };
    printer.note(format!("{}: {projects}, {pages} {would}", made.folder));
    Ok(Exit::Done)
}
