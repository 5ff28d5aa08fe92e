//! The record of a cell: every attempt, written from its start on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::job::BuiltFile;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Record {
    pub schema: u32,
    pub attempts: Vec<Attempt>,
}

/// One attempt to build a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Attempt {
    /// Start time in seconds since 1970.
    pub began: u64,
    /// Name of the machine, or of the node of a cluster.
    pub host: String,
    /// The scheduler's number of the task: `123_4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The last stage that began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Path of that stage's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
    /// The end; `None`: the attempt runs, or was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct End {
    pub status: Ended,
    /// Duration in seconds.
    pub seconds: f64,
    /// Output files, relative to the cell's folder of outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<BuiltFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The likely cause and a remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The last output lines of the failed step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tail: Vec<String>,
    /// The exit code of this attempt alone.
    pub exit: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The cell was built.
    Built,
    /// An earlier run had built the cell.
    Unchanged,
    /// Everything that was asked for is done (`--only`, `--develop`).
    Partly,
    Failed,
    /// The time limit was reached; another attempt continues.
    Stopped,
    /// The user or the scheduler stopped it; another attempt continues.
    Interrupted,
    /// A cell that it waits for was not built.
    LeftOut,
}

impl Ended {
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

    pub fn is_there(self) -> bool {
        matches!(self, Ended::Built | Ended::Unchanged)
    }
}
