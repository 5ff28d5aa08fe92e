//! Reports that are not junit XML: which form a file has, and its tests.

use std::io::Read;
use std::path::Path;

use rocwheel_content::open_regular;

use super::{Merger, ReportOrigin};
use crate::discover::ReportSource;
use crate::foreign_report::ForeignReport;
use crate::json_forms::{self, JsonKind};
use crate::model::ReportForm;
use crate::tap;
use crate::xml_forms::{self, XmlKind};

/// Bytes of a file of JSON or TAP, which is read as a whole.
const LARGEST: u64 = 512 << 20;

impl Merger {
    /// Reads an XML file of any form; `false` if it is not a report.
    pub(super) fn read_xml(&mut self, file: fs_err::File, source: &ReportSource) -> bool {
        let path = source.path.as_path();
        let found = open_regular(path).and_then(xml_forms::kind);
        let read = match found {
            Ok(XmlKind::Junit | XmlKind::Damaged) => return self.read_junit(file, source),
            Ok(XmlKind::Foreign(root)) => xml_forms::read(&root, file),
            Ok(XmlKind::Unread(tool)) => Ok(Some(ForeignReport::unread(tool, "let it write junit XML"))),
            Ok(XmlKind::NoTests) => Ok(None),
            Ok(XmlKind::Unknown(root)) => {
                let reason = format!(
                    "has the root `{root}`, which is not known, so nobody knows whether it is a report of tests; name \
                     the reports without it"
                );
                Ok(Some(ForeignReport { lost: vec![reason], ..ForeignReport::default() }))
            }
            Err(error) => Err(error),
        };
        match read {
            Ok(Some(report)) => self.place_foreign(report, source, ReportForm::Xml),
            Ok(None) => return self.skip(source),
            Err(error) => {
                self.lost(Some(path), format!("`{}` cannot be read: {error}", path.display()));
                self.close_report(source, ReportOrigin::default(), false);
            }
        }
        true
    }

    /// Reads JSON or JSON Lines; `false` if it is not a report.
    pub(super) fn read_json(&mut self, file: fs_err::File, source: &ReportSource) -> std::io::Result<bool> {
        let path = source.path.as_path();
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes)?;
        match json_forms::read(&bytes) {
            JsonKind::Report(report) => {
                let form = if report.tool.is_empty() { ReportForm::Gtest } else { ReportForm::Json };
                if report.tool == "meson" {
                    self.meson_logs.insert(source.folder());
                }
                self.place_foreign(report, source, form);
            }
            JsonKind::Events => {
                self.run().form = ReportForm::Events;
                return self.read_events(open_regular(path)?, path);
            }
            JsonKind::NoTests => return Ok(self.skip(source)),
            JsonKind::Damaged(reason) => {
                let reason = format!("cannot be read, and may be a report: {reason}");
                self.place_foreign(
                    ForeignReport { lost: vec![reason], ..ForeignReport::default() },
                    source,
                    ReportForm::Json,
                );
            }
        }
        Ok(true)
    }

    pub(super) fn read_tap(&mut self, file: fs_err::File, source: &ReportSource) -> std::io::Result<bool> {
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes)?;
        let report = tap::read(&String::from_utf8_lossy(&bytes));
        self.place_foreign(report, source, ReportForm::Tap);
        Ok(true)
    }

    /// Skips a file that says nothing of tests, unless the user named it.
    fn skip(&mut self, source: &ReportSource) -> bool {
        let path = source.path.as_path();
        if source.is_named {
            self.lost(Some(path), format!("`{}` is no report of tests", path.display()));
            self.close_report(source, ReportOrigin::default(), false);
            return true;
        }
        self.problem(Some(path), format!("`{}` is no report of tests, and is skipped", path.display()), false);
        false
    }

    fn place_foreign(&mut self, report: ForeignReport, source: &ReportSource, form: ReportForm) {
        let path = source.path.as_path();
        let own = if report.tool.is_empty() { source.program.clone() } else { report.tool.to_owned() };
        let suite = self.options.suite.clone().or_else(|| self.shard_suite.clone()).unwrap_or_else(|| own.clone());
        self.own_suite = Some(own);
        let run = self.run_number();
        self.run().form = form;
        self.started(report.started);
        self.run().finished = report.finished.map(|time| time.to_string());
        let is_whole = report.lost.is_empty();
        for reason in report.lost {
            self.lost(Some(path), format!("`{}` {reason}", path.display()));
        }
        for test in report.tests {
            if let Some(index) = self.place(&suite, &test.id) {
                let mut attempts = test.earlier;
                attempts.push(test.attempt);
                self.add_all(index, run, attempts);
            }
        }
        if report.may_retry {
            self.join_reruns_of_go();
        }
        self.close_report(source, ReportOrigin::default(), is_whole);
    }

    /// Meson's XML does not say which tests ran too long, or passed although they should fail.
    pub(super) fn check_meson(&mut self) {
        for path in std::mem::take(&mut self.meson_reports) {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let folder = fs_err::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
            if !self.meson_logs.contains(&folder) {
                let message = format!(
                    "`{}` does not say which tests ran too long or passed unexpectedly; give Meson's `testlog.json` \
                     beside it",
                    path.display()
                );
                self.lost(Some(&path), message);
            }
        }
    }
}
