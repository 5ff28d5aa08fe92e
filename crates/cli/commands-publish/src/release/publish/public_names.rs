//! Input: the names of a set on an index that others can publish to. Output: what users who name
//! both indexes would get from it.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use rocwheel_choose::{NameState, PublicName, find_public_names};
use rocwheel_content::archive_path::{file_name, parent};
use rocwheel_progress::few_in_backticks;
use rocwheel_stream::ReleaseSet;

use rocwheel_console::failure::Result;
use rocwheel_console::index_site::site;
use rocwheel_console::message;
use rocwheel_console::printer::Printer;
use rocwheel_console::store::BucketOptions;
use url::Url;

/// Names and files that a message lists.
const MOST: usize = 8;

/// The answer of an index that was asked for the names of a set.
pub(in crate::release) struct AskedNames {
    /// The address of the index.
    pub(in crate::release) root: Url,
    pub(in crate::release) names: Vec<PublicName>,
}

/// Asks the index at `place` for the names of a set, and reports those that are not safe.
pub(super) fn guard(set: &ReleaseSet, place: &OsStr, bucket: &BucketOptions, printer: &Printer) -> Result<AskedNames> {
    let site = site(place, bucket, printer)?;
    let shown = rocwheel_index::address_without_user(&site.root);
    let mut files: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    for key in set.files.keys() {
        let version = set.versions.get(parent(key)).cloned().unwrap_or_default();
        files.entry(parent(key).to_owned()).or_insert((version, Vec::new())).1.push(file_name(key).to_owned());
    }
    let names = find_public_names(&files, &site, printer.reporter())?;
    tell(&names, shown.as_str(), printer);
    Ok(AskedNames { root: site.root, names })
}

/// Reports the names that are not safe on an index.
pub(super) fn tell(names: &[PublicName], shown: &str, printer: &Printer) {
    let mut free = Vec::new();
    let mut is_higher = Vec::new();
    for PublicName { name, version, state } in names {
        match state {
            NameState::Free => free.push(name.as_str()),
            NameState::Registered { against_pins, higher } => {
                if !higher.is_empty() {
                    is_higher.push(name.as_str());
                }
                if !against_pins.is_empty() {
                    let files = few_in_backticks(against_pins, MOST);
                    printer.warn(format!(
                        "for `{name}=={version}`, an installer with both indexes may take {files} of {shown}"
                    ));
                }
            }
            NameState::Unknown { reason } => {
                printer.warn(format!("whether {shown} has `{name}` is unknown: {reason}"));
            }
        }
    }
    if !is_higher.is_empty() {
        let names = few_in_backticks(&is_higher, MOST);
        printer.warn(format!("{shown} has higher versions of {names}, which win where no version is pinned"));
    }
    if !free.is_empty() {
        let (count, names) = (message::count(free.len() as u64, "name is", "names are"), few_in_backticks(&free, MOST));
        printer.warn(format!("{count} free on {shown}, so anybody can register them: {names}"));
    }
    if names.iter().any(|name| !matches!(name.state, NameState::Unknown { .. })) {
        printer.note("users are safe who install the set from its index alone, as the lines of `chooser.html` do");
    }
}
