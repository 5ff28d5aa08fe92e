//! Input: an address, or a folder. Output: the index that is there, with the client that reads it.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use rocwheel_delta::IndexSite;
use rocwheel_index::{Source, scheme_of, text_without_users};
use rocwheel_store::{FolderSite, StoreSite};
use url::Url;

use crate::environment;
use crate::failure::{Failure, Result, Usage};
use crate::printer::Printer;
use crate::store::BucketOptions;

/// The index at an address or in a folder.
pub fn site(text: &OsStr, bucket: &BucketOptions, printer: &Printer) -> Result<IndexSite> {
    let Some((address, scheme)) = text.to_str().and_then(|text| Some((text, scheme_of(text)?))) else {
        return Ok(IndexSite { root: folder_address(Path::new(text))?, fetch: Arc::new(FolderSite) });
    };
    let shown = text_without_users(address);
    let folder = format!("{}/", address.trim_end_matches('/'));
    let parsed = Url::parse(&folder).map_err(|error| Usage::new(format!("`{shown}` is no address: {error}")));
    match scheme.as_str() {
        "http" | "https" => {
            let Source::Index(root) = Source::parse(address)? else {
                return Err(Usage::new(format!("`{shown}` is no index")).into());
            };
            let http = environment::http(root.scheme())?;
            let root = http.remember(&root);
            Ok(IndexSite { root, fetch: Arc::new(http) })
        }
        "file" => Ok(IndexSite { root: parsed?, fetch: Arc::new(FolderSite) }),
        "s3" => {
            let store = bucket.place(text.to_owned())?.open(printer)?;
            let root = parsed?;
            Ok(IndexSite { root: root.clone(), fetch: Arc::new(StoreSite::new(store, root)) })
        }
        _ => Err(Usage::new(format!("`{shown}` cannot be read as an index"))
            .hint("give a folder, or an address that begins with http://, https://, file:// or s3://")
            .into()),
    }
}

/// An index, and its address as installers take it: they read users of addresses themselves.
pub fn site_and_address(text: &str, bucket: &BucketOptions, printer: &Printer) -> Result<(IndexSite, String)> {
    let site = site(OsStr::new(text), bucket, printer)?;
    let address = if text.contains("://") { text.to_owned() } else { site.root.to_string() };
    Ok((site, address))
}

/// The address of the index in a folder: of a flat layout, the one in its `simple/`.
fn folder_address(folder: &Path) -> Result<Url> {
    let mut folders = [folder.join("simple"), folder.to_owned()].into_iter();
    let path = folders.find(|path| ["index.html", "index.v1_json"].iter().any(|name| path.join(name).is_file()));
    let Some(path) = path else {
        let hint = rocwheel_index::address_hint(folder)
            .unwrap_or_else(|| "`rocwheel index build` makes one of a folder with wheels".to_owned());
        return Err(Usage::new(format!("`{}` has no index", folder.display())).hint(hint).into());
    };
    let path = rocwheel_system::canonicalize(path)?;
    Url::from_directory_path(&path).map_err(|()| Failure::message(format!("`{}` has no address", path.display())))
}
