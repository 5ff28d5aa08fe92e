//! The source of each fact about a file on the pages of an index: the other index, its server, or
//! the file itself.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_index::companion::METADATA;
use rocwheel_progress::{Failure, Reporter};
use rocwheel_store::Store;
use rocwheel_wheel::WheelName;
use serde::Serialize;

use crate::lock::LockedFile;
use crate::transfer::FetchedFile;

/// The source of a fact about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FactSource {
    /// The other index, and the file was not asked.
    Believed,
    /// The other index, and the file has the same.
    Compared,
    /// The file; the other index does not say it.
    Computed,
    /// The server, beside the file; the other index does not say it.
    Found,
    /// The header Last-Modified of the server; the other index does not say it.
    LastModified,
    /// An earlier run, whose word stays.
    EarlierRun,
    /// This run.
    Run,
    /// Nobody, and pages do not say it.
    Missing,
}

impl FactSource {
    fn words(self) -> &'static str {
        match self {
            Self::Believed => "of the index, believed",
            Self::Compared => "of the index, compared with the file",
            Self::Computed => "computed from the file",
            Self::Found => "found beside the wheel, though the index does not say so",
            Self::LastModified => "of the server (Last-Modified)",
            Self::EarlierRun => "of an earlier run",
            Self::Run => "of the run, as nobody else has one",
            Self::Missing => "not beside the wheel",
        }
    }
}

/// The sources of the facts about one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FileOrigins {
    pub sha256: FactSource,
    /// METADATA beside the wheel; `None` for other files.
    pub metadata: Option<FactSource>,
    pub uploaded: FactSource,
}

/// Counts the sources of each kind of fact, in one line for each.
pub fn origin_lines(origins: &BTreeMap<String, FileOrigins>) -> Vec<String> {
    let facts = [
        ("SHA-256", origins.values().map(|origins| origins.sha256).collect()),
        ("METADATA", origins.values().filter_map(|origins| origins.metadata).collect()),
        ("upload time", origins.values().map(|origins| origins.uploaded).collect()),
    ];
    facts.into_iter().filter(|(_, sources): &(_, Vec<_>)| !sources.is_empty()).map(counted_sources).collect()
}

/// `SHA-256: 2 computed from the file; …`
fn counted_sources((fact, sources): (&str, Vec<FactSource>)) -> String {
    let mut counts: BTreeMap<FactSource, usize> = BTreeMap::new();
    for source in sources {
        *counts.entry(source).or_default() += 1;
    }
    let parts: Vec<String> = counts.iter().map(|(source, count)| format!("{count} {}", source.words())).collect();
    format!("{fact}: {}", parts.join("; "))
}

/// When the files of a mirror were published: as their index says, or else the server.
pub(crate) fn upload_times(
    files: &BTreeMap<String, LockedFile>,
    fetched: &BTreeMap<String, FetchedFile>,
) -> BTreeMap<String, Timestamp> {
    let times = files.iter().filter_map(|(name, file)| {
        let modified = fetched.get(name).and_then(|file| file.modified);
        Some((name.clone(), file.told.uploaded.or(modified)?))
    });
    times.collect()
}

/// The sources of the facts about the files of a mirror. A file that was fetched, now or earlier,
/// was compared with the hash of its index; METADATA in `store` is that in the wheel.
pub(crate) fn of_mirror(
    files: &BTreeMap<String, LockedFile>,
    fetched: &BTreeMap<String, FetchedFile>,
    store: &dyn Store,
    reporter: &dyn Reporter,
) -> Result<BTreeMap<String, FileOrigins>, Failure> {
    let mut origins = BTreeMap::new();
    for (name, file) in files {
        let metadata = match &file.told.metadata {
            _ if !WheelName::is_wheel(name) => None,
            None => Some(FactSource::Computed),
            Some(told) => {
                let own = store.read(&format!("{name}{METADATA}"))?.unwrap_or_default();
                let is_same = hexadecimal(&sha256(&own)) == *told;
                if !is_same {
                    reporter.warn(&format!(
                        "`{name}`: METADATA beside it at its index is not that in the wheel, which the mirror has"
                    ));
                }
                Some(if is_same { FactSource::Compared } else { FactSource::Computed })
            }
        };
        let sha256 = if file.told.sha256 { FactSource::Compared } else { FactSource::Computed };
        let uploaded = match fetched.get(name) {
            _ if file.told.uploaded.is_some() => FactSource::Believed,
            None => FactSource::EarlierRun,
            Some(file) if file.modified.is_some() => FactSource::LastModified,
            Some(_) => FactSource::Run,
        };
        origins.insert(name.clone(), FileOrigins { sha256, metadata, uploaded });
    }
    Ok(origins)
}
