//! Input: the package index that a job takes ROCm from. Output: which distributions it has, so that
//! they are installed from there alone.

use rocwheel_index::{Fetch, Source, address_without_user, bad_status, not_fetched, page};
use rocwheel_progress::Failure;
use rocwheel_recipe::Rocm;
use url::Url;

pub(super) struct RocmIndex<'a> {
    root: Url,
    fetch: &'a dyn Fetch,
}

impl RocmIndex<'_> {
    /// `None` if the ROCm has no separate index.
    pub(super) fn of<'a>(rocm: &Rocm, fetch: &'a dyn Fetch) -> Result<Option<RocmIndex<'a>>, Failure> {
        let Rocm::Index { url: Some(url), .. } = rocm else { return Ok(None) };
        Ok(match Source::parse(url)? {
            Source::Index(root) => Some(RocmIndex { root, fetch }),
            Source::Folder(_) => None,
        })
    }

    /// `true` if it has a distribution; `name` is canonical.
    ///
    /// # Errors
    /// The index does not answer. Then another index could have a distribution of that name too.
    pub(super) fn has(&self, name: &str) -> Result<bool, Failure> {
        let mut address = self.root.clone();
        address.set_path(&format!("{}{name}/", self.root.path()));
        let shown = address_without_user(&address).to_string();
        match self.fetch.get(&address, page::ACCEPT) {
            Ok(answer) if answer.status == 200 => Ok(true),
            // Storage services answer 403 for missing files if the client may not list them.
            Ok(answer) if matches!(answer.status, 403 | 404 | 410) => Ok(false),
            Ok(answer) => Err(bad_status(&shown, answer.status)),
            Err(error) => Err(not_fetched("read", &shown, error)),
        }
    }
}
