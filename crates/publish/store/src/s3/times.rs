//! Input: a folder of a bucket. Output: its files and when they were written, for pages that people
//! sort by time.

use std::time::SystemTime;

use rocwheel_progress::Reporter;

use super::S3Store;
use crate::error::Error;

impl S3Store {
    /// The files directly in a folder (empty: the top), with their names and times, sorted by name.
    pub fn list_with_times(&self, folder: &str, reporter: &dyn Reporter) -> Result<Vec<(String, SystemTime)>, Error> {
        let objects = self.objects(folder, reporter)?.into_iter();
        let mut files: Vec<(String, SystemTime)> =
            objects.filter(|object| !object.key.contains('/')).map(|object| (object.key, object.modified)).collect();
        files.sort_unstable();
        Ok(files)
    }
}
