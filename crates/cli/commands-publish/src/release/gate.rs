//! Options of the commands that put a set into a stream with a gate, and the decision.

use std::path::PathBuf;

use clap::Args;
use comfy_table::CellAlignment::Left;
use rocwheel_attest::{PublicKey, STATEMENT_PAYLOAD, SignedEnvelope};
use rocwheel_commands_wheel::reuse::public_key;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::output_file::{FileKind, OutputFile, OutputOption};
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_progress::{Exit, Hint, nearest};
use rocwheel_release::gate::{
    GateDecision, GateEvidence, GateState, LastRelease, SetVerdicts, decide, decision_statement,
};
use rocwheel_stream::{GatePolicy, ReleaseSet, Stream};
use rocwheel_tables::TargetTable;

use super::stream::ChangeSettings;

const COLUMNS: [Column; 5] = [("Suite", Left), ("Target", Left), ("State", Left), ("", Left), ("Reason", Left)];

/// The verdicts of tests.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Gate")]
pub(super) struct GateArguments {
    /// Folder with signed verdicts of test suites, for a stream whose rules require some; may be
    /// repeated
    #[arg(long, value_name = "DIR")]
    verdicts: Vec<PathBuf>,
    /// Public key that signs verdicts, in PEM, besides those of the stream's rules; may be repeated
    #[arg(long, value_name = "FILE")]
    verdict_key: Vec<PathBuf>,
    /// TOML file with more rows of `bypass_tests_for_releases`; may be repeated
    #[arg(long, value_name = "FILE")]
    bypass: Vec<PathBuf>,
    /// File for the decision, as a signed statement, whatever it is
    #[arg(long, value_name = "FILE")]
    decision: Option<OutputOption>,
}

/// The same, read.
#[derive(Debug)]
pub(super) struct GateSettings {
    verdicts: Vec<PathBuf>,
    keys: Vec<PublicKey>,
    bypasses: Vec<(String, String)>,
    decision: Option<OutputFile>,
}

impl TryFrom<GateArguments> for GateSettings {
    type Error = Failure;

    fn try_from(arguments: GateArguments) -> Result<Self> {
        let bypasses = arguments.bypass.iter();
        let bypasses = bypasses.map(|path| Ok((path.to_string_lossy().into_owned(), fs_err::read_to_string(path)?)));
        Ok(Self {
            verdicts: arguments.verdicts,
            keys: arguments.verdict_key.iter().map(|path| public_key(path)).collect::<Result<_>>()?,
            bypasses: bypasses.collect::<Result<_>>()?,
            decision: arguments
                .decision
                .map(|option| option.check("--decision", FileKind::Decision, &[]))
                .transpose()?,
        })
    }
}

/// The decision of a stream's gate.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) decision: GateDecision,
    /// The decision and the verdicts that it is made of, as signed envelopes.
    pub(super) statements: Vec<Vec<u8>>,
}

/// The set may not go into the stream.
#[derive(Debug, thiserror::Error)]
#[error("nothing was published: the gate does not let `{set}` out{}", problems.iter().map(|row| format!("\n  {row}")).collect::<String>())]
struct GateRefused {
    set: String,
    problems: Vec<String>,
    hint: String,
}

impl Hint for GateRefused {
    fn hint(&self) -> Option<String> {
        Some(self.hint.clone())
    }

    fn rows(&self) -> Vec<String> {
        self.problems.clone()
    }

    fn exit(&self) -> Exit {
        Exit::Failed
    }
}

impl GateSettings {
    /// Decides about a set, and writes the decision where the user wants it. `None` for a stream
    /// without a gate.
    pub(super) fn decide(
        &self,
        stream: &Stream<'_>,
        set: &ReleaseSet,
        change: &ChangeSettings,
    ) -> Result<Option<Gate>> {
        let mut policy = stream.settings.gate.clone();
        for (name, text) in &self.bypasses {
            policy.add_bypasses(text, name)?;
        }
        if !policy.is_closed() {
            return Ok(None);
        }
        check_targets(&policy, set)?;
        check_suites(&policy)?;
        let mut keys = policy.public_keys()?;
        keys.extend(self.keys.iter().cloned());
        if keys.is_empty() && !self.verdicts.is_empty() {
            let usage = Usage::new("the verdicts cannot be verified: there is no key");
            return Err(usage
                .hint("`keys` of `[gate]` in stream.toml has public keys, `--verdict-key` names one")
                .into());
        }
        let verdicts = SetVerdicts::read(&self.verdicts, &keys)?;
        let last = LastRelease::read(stream, set)?;
        let evidence = GateEvidence { verdicts: &verdicts, last: last.as_ref(), now: change.time_of_decision() };
        let decision = decide(&policy, set, evidence);
        let text = decision_statement(&decision, &policy, set, &verdicts, &stream.manifest.stream);
        let sealed = SignedEnvelope::seal(STATEMENT_PAYLOAD, text.as_bytes(), change.keys()).bytes();
        if let Some(file) = &self.decision {
            file.write(&String::from_utf8_lossy(&sealed))?;
        }
        let mut statements: Vec<Vec<u8>> = verdicts
            .verdicts
            .iter()
            .filter(|verdict| decision.is_made_of(verdict))
            .map(|verdict| verdict.envelope.clone())
            .collect();
        statements.push(sealed);
        Ok(Some(Gate { decision, statements }))
    }
}

/// A target that does not exist would be one without a runner, which some policies let through.
fn check_targets(policy: &GatePolicy, set: &ReleaseSet) -> Result<()> {
    let table = TargetTable::embedded();
    let promised: Vec<&str> = set.targets_promised.iter().map(String::as_str).collect();
    let unknown = policy.targets().find(|name| !table.is_known(name) && !promised.contains(name));
    let Some(name) = unknown else { return Ok(()) };
    let members = table.members(name);
    let known = table.targets().iter().map(|target| target.name.as_str());
    let hint = if let Some(meant) = nearest(name, promised.into_iter().chain(known)).filter(|_| members.is_empty()) {
        format!("did you mean `{meant}`?")
    } else if members.is_empty() {
        "correct it in `[gate]` of stream.toml or in the file of `--bypass`; `--data-file` adds targets".to_owned()
    } else {
        format!("it is a family; name its targets: {}", members.join(", "))
    };
    Err(Usage::new(format!("the gate of the stream names `{name}`, which is not a GPU target")).hint(hint).into())
}

/// A bypass for a suite that no rule requires would have no effect, and nobody would notice.
fn check_suites(policy: &GatePolicy) -> Result<()> {
    let Some(name) = policy.unknown_suite() else { return Ok(()) };
    let known = policy.required_suites();
    let hint = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!(
            "the rules require {}",
            known.iter().map(|suite| format!("`{suite}`")).collect::<Vec<_>>().join(", ")
        ),
    };
    Err(Usage::new(format!("a bypass names the suite `{name}`, which no rule of the stream requires"))
        .hint(hint)
        .into())
}

impl Gate {
    /// Errors for a set that may not go out. Bypasses, and failures that were run again, are
    /// printed.
    pub(super) fn refuse(&self, printer: &Printer) -> Result<()> {
        let problems = self.decision.objections();
        if problems.is_empty() {
            for bypass in &self.decision.bypasses {
                printer.warn(format!("bypass `{}` until {}: {}", bypass.name, bypass.expires, bypass.reason));
            }
            for row in self.decision.rows.iter().filter(|row| row.bypass.is_some() || row.absent.is_some()) {
                let name =
                    row.bypass.as_ref().map(|name| format!(", and bypass `{name}` lets it out")).unwrap_or_default();
                let reason = message::harmless(&row.reason);
                printer.warn(format!("{}: {}: {reason}{name}", row.name(), row.state.word()));
            }
            for text in self.decision.replaced_failures() {
                printer.warn(message::harmless(&text));
            }
            return Ok(());
        }
        for ignored in &self.decision.ignored {
            printer.warn(format!("`{}` does not count: {}", ignored.verdict, ignored.reason));
        }
        let hint = if self.decision.rows.iter().any(|row| row.blocks && row.state == GateState::Failed) {
            "a failed suite has to pass on these bytes; a bypass in stream.toml needs a name, a reason, \
             an expiry and `over-failure = true`"
        } else {
            "run the suites on these wheels and name the folder of their verdicts with `--verdicts`"
        };
        Err(GateRefused { set: self.decision.set.clone(), problems, hint: hint.to_owned() }.into())
    }

    /// Prints the decision for each suite and target.
    pub(super) fn explain(&self, printer: &Printer) -> Result<Exit> {
        let decision = &self.decision;
        let exit = if decision.is_open() { Exit::Done } else { Exit::Failed };
        if printer.format() == ResultFormat::Json {
            printer.json(&serde_json::json!({ "may_go_out": decision.is_open(), "decision": decision }))?;
            return Ok(exit);
        }
        let rows = decision.rows.iter().map(|row| {
            let target = row.target.clone().unwrap_or_else(|| "–".to_owned());
            let effect = match (&row.bypass, row.blocks) {
                (_, true) => "blocks",
                (Some(_), false) if row.is_over_failure() => "bypass over a failure",
                (Some(_), false) => "bypass",
                (None, false) if row.state == GateState::Passed => "",
                (None, false) => "recorded",
            };
            let bypass = row.bypass.as_ref().map(|name| format!("; bypass `{name}`")).unwrap_or_default();
            let reason = message::harmless(&row.reason).into_owned();
            vec![row.suite.clone(), target, row.state.word().to_owned(), effect.to_owned(), format!("{reason}{bypass}")]
        });
        printer.table(&COLUMNS, rows)?;
        for ignored in &decision.ignored {
            printer.note(format!("`{}` does not count: {}", ignored.verdict, ignored.reason));
        }
        for text in decision.replaced_failures() {
            printer.note(message::harmless(&text));
        }
        for bypass in &decision.bypasses {
            printer.note(format!("bypass `{}` until {}: {}", bypass.name, bypass.expires, bypass.reason));
        }
        for name in &decision.untested {
            let effect = if decision.untested_blocks { "blocks" } else { "is recorded" };
            printer.note(format!("`{name}` was installed by no passed suite, which {effect}"));
        }
        let verb = if decision.is_open() { "may" } else { "may not" };
        printer.note(format!("`{}` {verb} go out", decision.set));
        Ok(exit)
    }
}
