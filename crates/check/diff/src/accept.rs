//! Deviations that a user has examined and accepted, with the reason.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use rocwheel_progress::{Exit, Failure};
use serde::{Deserialize, Serialize};

use crate::change::ChangeKind;
use crate::report::ComparisonReport;

/// Version of the file's structure.
const SCHEMA: u32 = 1;

/// The contents of a file of deviations.
#[derive(Debug)]
pub struct Deviations {
    path: PathBuf,
    rows: Vec<Matcher>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    pub change: ChangeKind,
    /// The packages, as a glob. Empty: the files that are in no package.
    #[serde(default = "any")]
    pub package: String,
    /// The files, as a glob over the path in NEW, or in OLD for files that are lost. Empty: changes
    /// of the package itself.
    #[serde(default = "any")]
    pub path: String,
    /// The library, requirement or field, as a glob.
    #[serde(default = "any", skip_serializing_if = "is_any")]
    pub subject: String,
    pub reason: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    schema: u32,
    #[serde(default)]
    deviation: Vec<Deviation>,
}

#[derive(Debug)]
struct Matcher {
    deviation: Deviation,
    package: GlobMatcher,
    path: GlobMatcher,
    subject: GlobMatcher,
}

/// A deviation with the number of changes that it accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Accepted {
    pub deviation: Deviation,
    /// Number of changes that it accepted. Zero: the change does not occur any more.
    pub count: u64,
}

fn any() -> String {
    "**".to_owned()
}

fn is_any(glob: &str) -> bool {
    glob == "**"
}

impl Deviations {
    /// Reads a file of deviations.
    ///
    /// # Errors
    /// The first defect of the file, with the number of the deviation.
    pub fn read(path: &Path) -> Result<Deviations, Failure> {
        let text = fs_err::read_to_string(path)?;
        let document: Document = toml::from_str(&text).map_err(|error| {
            let attempt = format!("could not understand the deviations in `{}`", path.display());
            malformed(Failure::other(error).context(attempt))
        })?;
        if document.schema != SCHEMA {
            let reason = format!("is of schema {}, known is {SCHEMA}", document.schema);
            return Err(wrong_deviation(path, 0, &reason));
        }
        let rows = document.deviation.into_iter().zip(1..).map(|(deviation, number)| {
            Matcher::new(deviation).map_err(|reason| wrong_deviation(path, number, &reason))
        });
        Ok(Deviations { path: path.to_owned(), rows: rows.collect::<Result<_, Failure>>()? })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts every change of the report that a deviation matches; the first one that matches
    /// counts. Returns the number of changes that each accepted.
    pub fn accept(&self, report: &mut ComparisonReport) -> Vec<Accepted> {
        let mut counts = vec![0; self.rows.len()];
        report.for_each_change(|package, path, change| {
            let found = self.rows.iter().position(|row| {
                row.deviation.change == change.kind
                    && row.package.is_match(package)
                    && row.path.is_match(path)
                    && row.subject.is_match(&change.subject)
            });
            if let Some(index) = found {
                counts[index] += 1;
                change.accepted = Some(self.rows[index].deviation.reason.clone());
            }
        });
        let rows = self.rows.iter().zip(counts);
        rows.map(|(row, count)| Accepted { deviation: row.deviation.clone(), count }).collect()
    }
}

/// `number` is that of the deviation, from 1 on; 0 for the file as a whole.
fn wrong_deviation(path: &Path, number: usize, reason: &str) -> Failure {
    malformed(Failure::message(format!("deviation {number} in `{}` {reason}", path.display())))
}

fn malformed(failure: Failure) -> Failure {
    let form = "`rocwheel diff OLD NEW --write-deviations FILE` writes a file in the right form, without the reasons";
    failure.with_hint(form).with_exit(Exit::Usage)
}

impl Matcher {
    /// Compiles the globs of a deviation. The error is a phrase for [`wrong_deviation`].
    fn new(deviation: Deviation) -> Result<Matcher, String> {
        if deviation.reason.trim().is_empty() {
            return Err("has no reason".to_owned());
        }
        let [package, path, subject] = [&deviation.package, &deviation.path, &deviation.subject].map(|text| {
            // `*` does not match the separator of folders, `**` does.
            let glob = GlobBuilder::new(text).literal_separator(true).build();
            glob.map(|glob| glob.compile_matcher()).map_err(|error| format!("has a wrong glob: {error}"))
        });
        Ok(Matcher { package: package?, path: path?, subject: subject?, deviation })
    }
}

/// Returns a glob for a text that may contain the version of the package: `pkg-1.0.dist-info` and
/// `pkg==1.0` have another version in the next build.
fn lasting(text: &str, versions: &[&str]) -> String {
    let mut versions = versions.to_vec();
    // Longer versions come first: a version that another one begins with would leave the rest of
    // the longer one.
    versions.sort_by_key(|version| std::cmp::Reverse(version.len()));
    let Some(version) = versions.into_iter().find(|version| text.contains(version)) else {
        return globset::escape(text);
    };
    text.split(version).map(globset::escape).collect::<Vec<_>>().join("*")
}

/// Returns the text of a file of deviations for all changes of the report that are not accepted,
/// with a row for each kind of change in a file. The file is refused until the user has written the
/// reasons.
pub(crate) fn write(report: &ComparisonReport) -> String {
    let mut rows: Vec<Deviation> = Vec::new();
    for (package, file, change) in report.changes().filter(|(_, _, change)| change.accepted.is_none()) {
        let versions: Vec<&str> =
            [&package.old, &package.new].into_iter().flatten().filter_map(|side| side.version.as_deref()).collect();
        let is_named = !change.subject.is_empty() && change.kind.has_lasting_subject();
        let row = Deviation {
            change: change.kind,
            package: globset::escape(&package.name),
            path: file.map(|file| lasting(&file.path, &versions)).unwrap_or_default(),
            subject: if is_named { lasting(&change.subject, &versions) } else { any() },
            reason: String::new(),
        };
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let document = Document { schema: SCHEMA, deviation: rows };
    let text = toml::to_string(&document).unwrap_or_default();
    format!("# What `rocwheel diff` may find. Globs: `*` stays inside of a folder, `**` does not.\n{text}")
}
