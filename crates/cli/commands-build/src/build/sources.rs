//! The options of `rocwheel build` about sources.

use std::path::PathBuf;

use clap::Args;
use rocwheel_builder::source_choice::{SourceChoice, SourceMemory};
use rocwheel_console::environment;
use rocwheel_console::failure::Result;
use rocwheel_hipify::{Defects, Launches};
use rocwheel_progress::Reporter;
use rocwheel_source::{Hipify, KnownArchive};

use crate::source::download;

/// Where sources are.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sources")]
pub(crate) struct SourceArguments {
    /// Sources of a recipe: a checkout, a folder, an archive, or the version of a release [default:
    /// its folder below the source root, which is checked out if missing]
    #[arg(long, value_name = "[RECIPE=]PATH|VERSION")]
    source: Vec<String>,
    /// Versions of the framework, separated by commas: releases, or a version line of torch
    /// [default: with --matrix, those of the table]
    #[arg(long = "framework-version", value_name = "VERSIONS", value_delimiter = ',', conflicts_with_all = ["source", "line", "reference"])]
    versions: Vec<String>,
    /// Folder of the trees, existing or to be checked out [default: the working directory for
    /// existing trees, else `sources` in the work folder]
    #[arg(long, value_name = "DIR")]
    source_root: Option<PathBuf>,
    /// Version line of what is checked out: nightly or 2.7 to 2.15 [default: that of --torch, else
    /// nightly]
    #[arg(long, value_name = "LINE")]
    line: Option<String>,
    /// Another branch, tag or commit to check out
    #[arg(long = "ref", value_name = "[PROJECT=]REF")]
    reference: Vec<String>,
    /// Another repository to check out: upstream, rocm, an address or a path
    #[arg(long, value_name = "[PROJECT=]ORIGIN")]
    origin: Vec<String>,
    /// Another table of projects, origins and lines, in the form that
    /// `rocwheel matrix --print-table sources` prints
    #[arg(long, value_name = "FILE")]
    source_table: Option<PathBuf>,
    /// Check nothing out: missing sources are an error
    #[arg(long, conflicts_with_all = ["line", "reference", "origin"])]
    no_checkout: bool,
}

impl SourceArguments {
    /// Converts the options to the type of the library, and adds facts about this machine.
    pub(super) fn choice(self) -> Result<SourceChoice> {
        let compiler = if environment::hip_compiler_is_clang() { Launches::Keep } else { Launches::Convert };
        Ok(SourceChoice {
            source: self.source,
            versions: self.versions,
            root: self.source_root,
            line: self.line,
            reference: self.reference,
            origin: self.origin,
            table: self.source_table,
            projects: Vec::new(),
            no_checkout: self.no_checkout,
            directory: environment::directory()?,
            convert: Hipify { compiler, defects: Defects::Refuse },
            download,
            memory: SourceMemory::default(),
        })
    }
}

/// The path of a release archive in the cache, downloaded if it is not there.
fn download(known: &KnownArchive, reporter: &dyn Reporter) -> Result<PathBuf> {
    let cache = environment::cache().ok_or_else(|| {
        let hint = Some("set `ROCWHEEL_CACHE`".to_owned());
        rocwheel_recipe::Error::Request { reason: "there is no folder for downloads".into(), hint }
    })?;
    download::archive(&known.url, &known.sha256, &cache, reporter)
}
