//! Options of every command, and values that several commands parse.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{ArgAction, Args, ValueEnum};

use rocwheel_progress::Context as _;
use rocwheel_tables::RocmTables;
use rocwheel_wheel::PythonVersion;

use crate::configuration::Choice;
use crate::failure::{Failure, Result};

pub const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Options that choose combinations of versions.
#[derive(Debug, Args)]
pub struct CellAxes {
    /// Versions of the frameworks, separated by commas
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    pub framework_version: Vec<String>,
    /// Backends, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub backend: Vec<String>,
    /// Versions of ROCm, separated by commas
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    pub rocm: Vec<String>,
    /// Versions of torch, separated by commas
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    pub torch: Vec<String>,
    /// Pythons, separated by commas; 3.13t is the free-threaded one
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    pub python: Vec<PythonVersion>,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct GlobalArguments {
    /// Print the result as JSON on stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more: once for the time of each stage, twice also for the settings
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// Number of threads, and of compilers that `build` runs at once [default: the cores this
    /// process may use]
    #[arg(short, long, global = true, value_name = "N", value_parser = threads, env = "ROCWHEEL_JOBS")]
    #[arg(hide_env_values = true)]
    pub jobs: Option<u16>,
    /// Print no progress
    #[arg(long, global = true)]
    pub no_progress: bool,
    /// File with options [default: the nearest `rocwheel.toml`, or `pyproject.toml` with
    /// `[tool.rocwheel]`, from the working directory upwards]
    #[arg(long, global = true, value_name = "FILE", env = "ROCWHEEL_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// Use no file with options, not even that of --config
    #[arg(long, global = true)]
    no_config: bool,
    /// Rows that add to what is known of GPU targets and libraries, or change it (`rocwheel data`)
    #[arg(long, global = true, value_name = "FILE")]
    pub data_file: Vec<PathBuf>,
}

impl GlobalArguments {
    /// The configuration file that `--config` and `--no-config` select.
    pub fn configuration(&self) -> Choice {
        match (&self.config, self.no_config) {
            (_, true) => Choice::Nothing,
            (Some(path), false) => Choice::File(path.clone()),
            (None, false) => Choice::Search,
        }
    }

    /// Sets up the tables and the thread pool, which exist once per process.
    pub fn prepare(&self) -> Result<()> {
        let mut files = Vec::new();
        for path in &self.data_file {
            files.push((path.display().to_string(), fs_err::read_to_string(path)?));
        }
        // Without them our own tables are read when a command needs them.
        if !files.is_empty() {
            RocmTables::use_with(&files)?;
        }
        // available_parallelism respects affinity and cgroup quotas; rayon's own default does not
        // respect quotas everywhere.
        let threads = match self.jobs {
            Some(jobs) => jobs.into(),
            None => std::thread::available_parallelism().map_or(1, Into::into),
        };
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("worker {index}"))
            .build_global()
            .map_err(Failure::other)
            .with_context(|| format!("cannot start {threads} threads"))
    }
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Parses a number of threads. The limit, 1024, is above the cores of any machine; more threads
/// would only cost time to start.
fn threads(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| "a number of threads from 1 to 1024 is expected".to_owned())
}

/// Parses a size: bytes, or a number with a unit of 1000 (MB) or 1024 (MiB).
pub fn size(text: &str) -> Result<u64, String> {
    let size = text.parse::<ByteSize>();
    size.map(|size| size.as_u64()).map_err(|_| format!("`{text}` is no size: write it as 500MB or 1.5GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("100", 100),
            ("500MB", 500_000_000),
            ("1.5GiB", 1_610_612_736),
            ("2 kB", 2000),
            ("1GB", 1_000_000_000),
            ("2t", 2_000_000_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "MB", "5 parsecs", "1.2.3MB", "-1"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
