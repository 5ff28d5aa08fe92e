//! Input: programs whose exit code is the outcome. Output: one test for each.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Failure, Reporter};
use rocwheel_report::ProgramEnd;
use rocwheel_report::outcome::TestOutcome;

use crate::driver::{Collection, StreamEvent, TestDriver, TestStream, without_choices};
use crate::supervisor::ProgramLine;

#[derive(Debug)]
pub struct ScriptDriver {
    /// Id and program of each.
    pub scripts: Vec<(String, PathBuf)>,
    pub options: Vec<String>,
    /// Working directory and environment; the words are not used.
    pub base: ProgramLine,
}

impl TestDriver for ScriptDriver {
    fn collect(&self, _scratch: &Path, _reporter: &dyn Reporter) -> Result<Collection, Failure> {
        let ids = self.scripts.iter().map(|(id, _)| id.clone()).collect();
        Ok(Collection { ids, ..Collection::default() })
    }

    fn start(&self, ids: &[String], _scratch: &Path) -> io::Result<(ProgramLine, Box<dyn TestStream>)> {
        let id = ids.first().cloned().unwrap_or_default();
        let (_, path) = self.scripts.iter().find(|(name, _)| *name == id).ok_or(io::ErrorKind::NotFound)?;
        let words = [path.as_os_str().to_owned()].into_iter().chain(self.options.iter().map(Into::into)).collect();
        let line = without_choices(ProgramLine { words, ..self.base.clone() });
        Ok((line, Box::new(WholeProcess { id: Some(id) })))
    }

    fn is_single(&self) -> bool {
        true
    }
}

/// A process that is one test.
#[derive(Debug)]
pub(crate) struct WholeProcess {
    /// The test, until it has been reported as started.
    pub(crate) id: Option<String>,
}

impl TestStream for WholeProcess {
    fn read(&mut self, _output: &[u8]) -> io::Result<Vec<StreamEvent>> {
        Ok(self.id.take().map(StreamEvent::Started).into_iter().collect())
    }

    fn judge(&self, end: ProgramEnd) -> Option<(TestOutcome, Option<String>)> {
        Some(match end {
            ProgramEnd::Code(0) => (TestOutcome::Passed, None),
            ProgramEnd::Code(_) => (TestOutcome::Failed, Some(format!("it {}", end.words()))),
            ProgramEnd::Signal(_) => (TestOutcome::Crashed, Some(format!("it {}", end.words()))),
        })
    }
}
