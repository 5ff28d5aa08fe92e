//! What the user expects of reports.

/// Expectations that decide whether reports are complete and have passed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// Name of the suite of reports that do not say it.
    pub suite: Option<String>,
    /// Number of shards that there have to be, for reports that do not say it.
    pub shards: Option<u32>,
    /// Tests that were not run do not make the report incomplete.
    pub allow_not_run: bool,
    /// A test that failed first and passed at last counts as failed.
    pub fail_on_flaky: bool,
    /// Reports of other tools in one folder, whose names differ in a number alone, are tries.
    pub retries_in_folder: bool,
}
