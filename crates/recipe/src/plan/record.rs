//! What is written down of a cell: every attempt, from its begin on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::execute::Made;

/// What is written down of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Record {
    /// Version of the form.
    pub schema: u32,
    /// Every start, in order.
    pub attempts: Vec<Attempt>,
}

/// One start of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Attempt {
    /// Seconds since 1970.
    pub began: u64,
    /// The machine, or the node of a cluster.
    pub host: String,
    /// The task of a scheduler: `123_4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The stage that began last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The log of that stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
    /// How it ended; `None`: it runs, or was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct End {
    /// In a word.
    pub status: Ended,
    /// How long it took.
    pub seconds: f64,
    /// What it made, relative to the folder of its outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<Made>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The likely cause, and what helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The last lines that the failed step said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tail: Vec<String>,
    /// The exit code that it deserves alone.
    pub exit: u8,
}

/// How an attempt ended, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Built.
    Built,
    /// It was built already.
    Unchanged,
    /// Done as far as it was asked for (`--only`, `--develop`).
    Partly,
    /// It failed.
    Failed,
    /// The time was over; another attempt goes on.
    Stopped,
    /// Somebody stopped it; another attempt goes on.
    Interrupted,
    /// Something that it waits for was not built.
    LeftOut,
}

impl Ended {
    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Ended::Built => "built",
            Ended::Unchanged => "unchanged",
            Ended::Partly => "partly",
            Ended::Failed => "failed",
            Ended::Stopped => "stopped",
            Ended::Interrupted => "interrupted",
            Ended::LeftOut => "left out",
        }
    }

    /// Whether the result is there.
    pub fn is_there(self) -> bool {
        matches!(self, Ended::Built | Ended::Unchanged)
    }
}
