//! Input: a folder of a bucket. Output: its files and when they were written, for pages that people
//! sort by time.

use std::time::SystemTime;

use futures_util::StreamExt as _;
use object_store::ObjectStore as _;
use rocwheel_report::Reporter;

use super::{S3Store, client};
use crate::Error;

impl S3Store {
    /// The files directly in a folder (empty: the top), with their names and times, sorted by name.
    ///
    /// # Errors
    /// A store that cannot be listed; an interruption.
    pub fn list_with_times(&self, folder: &str, reporter: &dyn Reporter) -> Result<Vec<(String, SystemTime)>, Error> {
        let top = self.path(folder)?;
        let failed = |stop: client::Stop| stop.error(format!("list `{}`", self.shown(folder)));
        let mut pages = self.client.store.list(Some(&top));
        let mut files = Vec::new();
        loop {
            reporter.check()?;
            let next = async { pages.next().await.transpose().map_err(Into::into) };
            let Some(object) = self.client.wait(next).map_err(failed)? else { break };
            let Some(mut parts) = object.location.prefix_match(&top) else { continue };
            if let (Some(name), None) = (parts.next(), parts.next()) {
                files.push((name.as_ref().to_owned(), object.last_modified.into()));
            }
        }
        files.sort_unstable();
        Ok(files)
    }
}
