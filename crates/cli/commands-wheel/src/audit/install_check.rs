//! `--install-check`: whether pip and uv bring the wheels, for each GPU, Python and system that
//! they promise.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rocwheel_audit::InstallFault;
use rocwheel_audit::finding::Code;
use rocwheel_audit::report::{AuditReport, LoadAnswer};
use rocwheel_choose::{
    ChoiceVerdict, InstallCheck, InstallReport, InstallSentence, Resolvers, check_installation, public_index,
};
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::index_site::site_and_address;
use rocwheel_console::message;
use rocwheel_console::printer::Printer;
use rocwheel_console::store::BucketOptions;
use rocwheel_progress::Reporter;
use rocwheel_wheel::{PythonVersion, canonical_name};

/// Where installers look.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Installation")]
pub(super) struct InstallArguments {
    /// Also let pip and uv resolve the wheels, for each GPU, Python and system that they promise,
    /// from this index with the public one beside it; may be repeated. The wheels need not be in it
    #[arg(long, value_name = "URL|DIR", conflicts_with_all = ["why", "explain", "fix", "offline"])]
    install_check: Vec<String>,
    /// The public index beside it: yes (PyPI), no, or the address of another one
    #[arg(long, value_name = "yes|no|URL", default_value = "yes", requires = "install_check")]
    public_index: String,
}

impl InstallArguments {
    /// Asks pip and uv for the files; `None` without `--install-check`.
    pub(super) fn check(
        &self,
        files: &[PathBuf],
        python: Option<PythonVersion>,
        glibc: Option<(u16, u16)>,
        scratch: &Path,
        printer: &Printer,
    ) -> Result<Option<InstallReport>> {
        if self.install_check.is_empty() {
            return Ok(None);
        }
        if let Some(folder) = files.iter().find(|path| path.is_dir()) {
            let shown = folder.display();
            return Err(Usage::new(format!("`{shown}` is installed already, and `--install-check` is about wheels"))
                .hint("name the wheels, or the folder that has them")
                .into());
        }
        if let Some(python) = python.filter(|python| python.free_threaded) {
            return Err(Usage::new(format!("`--install-check` is not about Python {python}"))
                .hint("uv and pip are asked for the builds with the global lock: `--python 3.13`")
                .into());
        }
        let public = public_index(&self.public_index);
        let (mut sites, mut addresses) = (Vec::new(), Vec::new());
        for text in self.install_check.iter().chain(&public) {
            let (site, address) = site_and_address(text, &BucketOptions::of_environment(), printer)?;
            sites.push(site);
            addresses.push(address);
        }
        let folder = scratch.join("install-check");
        fs_err::create_dir(&folder)?;
        let has_public = public.is_some();
        let hashes = BTreeMap::new();
        let check =
            InstallCheck { files, hashes, sites, addresses, has_public, names: None, python, glibc, scratch: &folder };
        let resolvers = Resolvers::find(Vec::new(), environment::program);
        let progress: Arc<dyn Reporter> = printer.progress();
        Ok(Some(check_installation(check, &resolvers, &progress)?))
    }
}

/// The findings of a report.
pub(super) fn faults(report: &InstallReport) -> Vec<InstallFault> {
    let mut faults = Vec::new();
    for InstallSentence { cell, text: message } in report.sentences() {
        if cell.answer == ChoiceVerdict::No {
            let (wheel, subject) = (cell.file.clone(), cell.package.clone());
            faults.push(InstallFault { code: Code::NotBrought, wheel, subject, message });
        }
    }
    for (name, wheel, message) in report.warnings() {
        let wheel = wheel.to_owned();
        faults.push(InstallFault { code: Code::PublicName, wheel, subject: name.to_owned(), message });
    }
    faults
}

/// Adds the loader's verdict to the cells whose packages the audit has looked at, if it has looked
/// for what they require.
pub(super) fn add_loads(install: &mut InstallReport, audited: &AuditReport) {
    let mut alone = audited.clone();
    alone.findings.retain(|finding| !matches!(finding.code, Code::NotBrought | Code::PublicName));
    let loads = match alone.verdict().answer {
        LoadAnswer::Loads => Some(true),
        LoadAnswer::Fails => Some(false),
        LoadAnswer::Unknown => return,
    };
    let known: BTreeSet<(String, &str)> =
        audited.wheels.iter().map(|wheel| (canonical_name(&wheel.name), wheel.version.as_str())).collect();
    for cell in install.cells.iter_mut().filter(|cell| cell.python == audited.environment.python) {
        let mut brought = cell.brings.iter().map(|one| (one.name.clone(), one.version.as_str()));
        if cell.system != "Windows" && brought.all(|one| known.contains(&one)) {
            cell.loads = loads;
        }
    }
}

/// Prints the sentence of each cell, and what they do not say.
pub(super) fn print(install: &InstallReport, printer: &Printer) -> Result<()> {
    printer.line("")?;
    for InstallSentence { cell, text } in install.sentences() {
        let word = match cell.answer {
            ChoiceVerdict::Yes => "yes",
            ChoiceVerdict::No => "no",
            ChoiceVerdict::CannotTell => "cannot tell",
        };
        printer.line(format!("{word}: {}", message::one_line(&text)))?;
        if let Some(text) = &cell.to_decide {
            printer.line(format!("  {}", message::one_line(text)))?;
        }
    }
    if install.cells.iter().any(|cell| cell.answer == ChoiceVerdict::Yes && cell.loads.is_none()) {
        printer.line("whether it loads is decided by `--with`, which has all these packages, and `--python`")?;
    }
    for text in &install.left_out {
        printer.line(format!("left out: {}", message::one_line(text)))?;
    }
    Ok(())
}
