//! The check of `[install-check]` in `stream.toml`. Input: a set that is about to be published.
//! Output: what pip and uv would bring of it from the stream with it in, or an error.

use std::path::Path;
use std::sync::Arc;

use rocwheel_choose::{ChoiceVerdict, InstallCheck, InstallReport, Resolvers, check_installation, public_index};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::index_site::site_and_address;
use rocwheel_console::message;
use rocwheel_console::printer::Printer;
use rocwheel_console::store::{BucketOptions, StorePlace};
use rocwheel_progress::Reporter;
use rocwheel_release::LocalSet;
use rocwheel_stream::{Stream, UntestedRule};
use url::Url;

use super::public_names::{self, AskedNames};

/// A set, and the stream that it goes into.
pub(in crate::release) struct InstallGate<'a> {
    pub(in crate::release) stream: &'a Stream<'a>,
    pub(in crate::release) place: &'a StorePlace,
    /// The public address of the stream, if the command line has it.
    pub(in crate::release) address: Option<&'a Url>,
    pub(in crate::release) local: &'a LocalSet,
    pub(in crate::release) set: &'a str,
    /// The answer of the public index about these names, if it was asked for and reported already.
    pub(in crate::release) asked: Option<&'a AskedNames>,
    pub(in crate::release) scratch: &'a Path,
}

impl InstallGate<'_> {
    /// Asks pip and uv for the set. `None` without a rule, and where neither could be asked and the
    /// rule only records.
    ///
    /// # Errors
    /// The rule is `blocked`, and an installer does not bring the set or could not be asked.
    pub(in crate::release) fn decide(&self, printer: &Printer) -> Result<Option<InstallReport>> {
        let Some(rule) = &self.stream.settings.install_check else { return Ok(None) };
        let report = match self.ask(&rule.public_index, printer) {
            Ok(report) => report,
            Err(failure) if rule.unresolved == UntestedRule::Blocked => {
                return Err(failure.context("nothing was published: the rules of the stream demand `[install-check]`"));
            }
            Err(failure) => {
                printer.reporter().check()?;
                let causes: Vec<String> = failure.chain().map(ToString::to_string).collect();
                printer.warn(format!("whether installers bring the set was not looked at: {}", causes.join(": ")));
                return Ok(None);
            }
        };
        let open = report.sentences().into_iter().filter(|one| one.cell.answer != ChoiceVerdict::Yes);
        let mut problems: Vec<String> = open.map(|one| one.text).collect();
        if report.cells.is_empty() {
            problems.push("no package of the set is for a Python and a system that can be asked about".to_owned());
        }
        if problems.is_empty() {
            let cells = message::count(report.cells.len() as u64, "combination", "combinations");
            printer.note(format!("pip or uv brings the set on {cells} of GPU, Python and system"));
            for text in &report.left_out {
                printer.detail(format!("left out: {text}"));
            }
        } else if rule.unresolved == UntestedRule::Blocked {
            let rows: String = problems.iter().map(|row| format!("\n  {}", message::one_line(row))).collect();
            let message = format!("nothing was published: installers do not bring `{}`{rows}", self.set);
            return Err(Failure::message(message).with_rows(problems).with_hint(
                "publish what is missing first, and register names that others have or could have; `unresolved = \
                 \"recorded\"` in `[install-check]` of stream.toml lets it out with a warning",
            ));
        } else {
            for text in &problems {
                printer.warn(message::one_line(text));
            }
        }
        Ok(Some(report))
    }

    fn ask(&self, public: &str, printer: &Printer) -> Result<InstallReport> {
        let public = public_index(public);
        let own = match (self.place, self.address.or(self.stream.settings.address.as_ref())) {
            _ if self.stream.manifest.number == 0 => None,
            (StorePlace::Folder(path), _) => Some(path.to_string_lossy().into_owned()),
            (StorePlace::Bucket(_), Some(address)) => Some(address.to_string()),
            (StorePlace::Bucket(_), None) => {
                let hint = "`address` of stream.toml, or `--verify-url`, is the public address of the stream";
                return Err(Usage::new("installers cannot read a bucket").hint(hint).into());
            }
        };
        let (mut sites, mut addresses) = (Vec::new(), Vec::new());
        for text in own.iter().chain(&public) {
            let (site, address) = site_and_address(text, &BucketOptions::of_environment(), printer)?;
            sites.push(site);
            addresses.push(address);
        }
        let public_root = sites.last().filter(|_| public.is_some()).map(|site| &site.root);
        let names = self.asked.filter(|asked| Some(&asked.root) == public_root).map(|asked| asked.names.clone());
        let are_told = names.is_some();
        let files: Vec<_> = self.local.paths().map(|(_, path)| path.to_owned()).collect();
        let folder = self.scratch.join("install-check");
        fs_err::create_dir(&folder)?;
        let check = InstallCheck {
            files: &files,
            hashes: self.local.hashes(),
            sites,
            addresses,
            has_public: public.is_some(),
            names,
            python: None,
            glibc: None,
            scratch: &folder,
        };
        let progress: Arc<dyn Reporter> = printer.progress();
        let report = check_installation(check, &Resolvers::find(Vec::new(), environment::program), &progress)?;
        if !are_told {
            public_names::tell(&report.names, "the public index", printer);
        }
        Ok(report)
    }
}
