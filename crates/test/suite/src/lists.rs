//! Input: lists of tests that are known to fail, and the ids that were collected. Output: which
//! tests do not run, which are expected to fail, and the rows that fit nothing.
//!
//! Rows name tests exactly. Today's lists are pytest expressions that fit every test whose name
//! contains a word (`test_print` deselects `test_print_options` in all files); here a pattern is
//! written as one, and what it fits is listed.

mod export;
mod import;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use globset::GlobBuilder;
use jiff::civil::Date;
use pep440_rs::{Version, VersionSpecifiers};
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_progress::{Context as _, Failure, counted};
use rocwheel_tables::TargetTable;
use serde::{Deserialize, Serialize};

pub use export::{ExportLoss, ExportRemark, ExportedLists, export_disabled, export_therock};
pub use import::therock_expression;
pub use table::{read_list, read_lists};

/// What PyTorch's loader takes as a platform. It drops other words, and a row without platforms
/// counts everywhere.
const PLATFORMS: [&str; 12] =
    ["mac", "macos", "win", "windows", "linux", "rocm", "xpu", "asan", "dynamo", "dynamo_wrapped", "inductor", "slow"];

/// The systems that a section may name.
const SYSTEMS: [&str; 2] = ["linux", "windows"];

/// The reason of rows whose list has none.
const OF_THEROCK: &str = "in TheRock's list";
const OF_PYTORCH: &str = "disabled in PyTorch's CI";

/// What a row asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListKind {
    /// The test does not run.
    Skip,
    /// It runs and fails; if it passes, that is reported.
    Xfail,
    /// It fails at times: it is tried again even without `--retries`.
    Flaky,
    /// It runs, and its failure does not count. If it passes, that is what it should.
    Quarantine,
}

/// How a row names tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum TestPattern {
    /// This id, or the end of one behind a `/`: the folder in which pytest starts changes ids.
    Id(String),
    /// Ids that match; `expect` is their number, if the list says it.
    Glob {
        /// `*` also matches `/` and `::`.
        glob: String,
        /// A different number is reported.
        expect: Option<usize>,
    },
    /// A method of TheRock's lists: `test_print` of the files that belong to `torch`.
    Method {
        /// `torch` for `test_torch.py` and for files in a folder `torch`.
        label: String,
        /// The name of the method, without parameters.
        name: String,
    },
    /// A test of PyTorch's list of disabled tests.
    Disabled {
        /// `TestTorch`.
        class: String,
        /// The method with or without device and type at its end.
        name: String,
    },
    /// A word of JAX's lists, in ids of any case, unless one of the others is in them too.
    Keyword {
        deny: String,
        /// Words that excuse it.
        unless: Vec<String>,
    },
}

/// One known failure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListRow {
    pub pattern: TestPattern,
    /// What is done with them.
    pub kind: ListKind,
    /// One sentence.
    pub reason: String,
    /// Where the failure is discussed.
    pub link: Option<String>,
    /// Who looks after it.
    pub owner: Option<String>,
    /// The last day on which the row counts.
    pub expires: Option<Date>,
    /// Targets or families, exactly as `data/targets.toml` has them; all if empty.
    pub targets: Vec<String>,
    /// Versions of what is tested; all if `None`.
    pub versions: Option<VersionSpecifiers>,
    /// `linux`, `windows`, `rocm`, `cuda`; all if empty.
    pub platforms: Vec<String>,
    /// File and line, or the file and the key.
    pub place: String,
}

/// Where tests run.
#[derive(Debug, Clone)]
pub struct ListSetting {
    /// GPU targets under test.
    pub targets: Vec<String>,
    /// Version of what is tested.
    pub version: Option<Version>,
    /// Words that rows may have as platforms.
    pub platforms: Vec<String>,
    pub today: Date,
}

/// What the lists say of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTest {
    /// The strongest of its rows: skip before xfail before flaky before quarantine.
    pub kind: ListKind,
    /// The reason of that row with its link.
    pub reason: String,
}

/// The rows of one list.
#[derive(Debug, Default)]
pub struct ListFile {
    /// In the order of the file.
    pub rows: Vec<ListRow>,
    /// Name of each file → its SHA-256 in hexadecimal. A file that is missing with permission has
    /// the text `missing`.
    pub digests: BTreeMap<String, String>,
}

fn wrong_list(path: &Path, reason: &str) -> Failure {
    Failure::message(format!("the list `{}` is wrong: {reason}", path.display()))
        .with_hint("docs/testing.md has the form of a list")
}

impl ListFile {
    /// Reads a file and notes its digest.
    fn read_file(&mut self, path: &Path, pin: Option<&str>) -> Result<Vec<u8>, Failure> {
        let bytes = fs_err::read(path).with_context(|| format!("cannot read the list `{}`", path.display()))?;
        let found = hexadecimal(&sha256(&bytes));
        if pin.is_some_and(|pin| !pin.eq_ignore_ascii_case(&found)) {
            let text = format!("the list `{}` is not the pinned one: its SHA-256 is {found}", path.display());
            return Err(
                Failure::message(text).with_hint("take the pinned file, or change the digest behind `#sha256=`")
            );
        }
        self.digests.insert(path.file_name().unwrap_or_default().to_string_lossy().into_owned(), found);
        Ok(bytes)
    }
}

#[derive(Debug, Default)]
pub struct ListVerdict {
    /// By id.
    pub tests: BTreeMap<String, ListedTest>,
    /// Rows that fit no collected test, rows that are expired, globs that fit another number.
    pub remarks: Vec<ListRemark>,
}

impl ListVerdict {
    fn remark(&mut self, kind: RemarkKind, message: String) {
        self.remarks.push(ListRemark { kind, message });
    }

    /// The tests in quarantine.
    pub(crate) fn quarantined(&self) -> impl Iterator<Item = String> + '_ {
        self.tests.iter().filter(|(_, test)| test.kind == ListKind::Quarantine).map(|(id, _)| id.clone())
    }
}

/// Something to change in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListRemark {
    pub kind: RemarkKind,
    /// Place of the row, and what is wrong.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RemarkKind {
    /// No collected test fits.
    Stale,
    /// Its day has passed: the row does not count any more.
    Expired,
    /// Another number of tests fits than the row expects, or several where it names one.
    Count,
}

impl ListRow {
    /// `true` if the row is meant for this place and time, apart from its expiry.
    fn applies(&self, setting: &ListSetting) -> bool {
        let platform_fits =
            self.platforms.is_empty() || self.platforms.iter().any(|one| setting.platforms.contains(one));
        let version_fits = match (&self.versions, &setting.version) {
            (None, _) => true,
            // A nightly build of 2.12 is one of 2.12.
            (Some(wanted), Some(version)) => rocwheel_wheel::accepts(wanted, &version.only_release()),
            (Some(_), None) => false,
        };
        let target_fits = self.targets.is_empty()
            || self.targets.iter().any(|name| members(name).iter().any(|one| setting.targets.contains(one)));
        platform_fits && version_fits && target_fits
    }
}

/// `2.12` means all of 2.12; other texts are version specifiers (PEP 440).
fn specifiers(text: &str) -> Result<VersionSpecifiers, String> {
    let is_plain = text.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let text = if is_plain { format!("=={text}.*") } else { text.to_owned() };
    text.parse().map_err(|_| format!("`{text}` is neither a version nor a specifier such as `>=2.12`"))
}

/// The targets of a name: itself, the members of a family, or those of JAX's short form `gfx94`.
fn members(name: &str) -> BTreeSet<String> {
    let table = TargetTable::embedded();
    let mut targets: BTreeSet<String> = table.members(name).into_iter().map(str::to_owned).collect();
    if targets.is_empty() && !table.is_known(name) && name.starts_with("gfx") {
        let fits = table.targets().iter().map(|target| target.name.as_str()).filter(|target| target.starts_with(name));
        targets.extend(fits.map(str::to_owned));
    }
    targets.insert(name.to_owned());
    targets
}

/// The method of an id without class and parameters, its class, and the path of its file.
fn parts(id: &str) -> (&str, Option<&str>, &str) {
    let plain = id.split_once('[').map_or(id, |(plain, _)| plain);
    let mut words = plain.split("::");
    let path = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    let method = words.last().copied().unwrap_or(path);
    (method, words.len().checked_sub(2).map(|index| words[index]), path)
}

impl TestPattern {
    fn matcher(&self) -> Box<dyn Fn(&str) -> bool + '_> {
        match self {
            Self::Id(wanted) => Box::new(move |id| {
                id.strip_suffix(wanted.as_str()).is_some_and(|front| front.is_empty() || front.ends_with('/'))
            }),
            Self::Glob { glob, .. } => match GlobBuilder::new(&escaped_brackets(glob)).build() {
                Ok(glob) => {
                    let matcher = glob.compile_matcher();
                    Box::new(move |id| matcher.is_match(id))
                }
                Err(_) => Box::new(|_| false),
            },
            Self::Method { label, name } => Box::new(move |id| {
                let (method, _, path) = parts(id);
                method == name && belongs(path, label)
            }),
            Self::Disabled { class, name } => Box::new(move |id| {
                let (method, of, _) = parts(id);
                let rest = method.strip_prefix(name.as_str());
                of == Some(class) && rest.is_some_and(|rest| rest.is_empty() || is_variant(rest))
            }),
            Self::Keyword { deny, unless } => Box::new(move |id| {
                let id = id.to_lowercase();
                id.contains(deny.as_str()) && !unless.iter().any(|word| id.contains(word.as_str()))
            }),
        }
    }

    /// For messages and tables.
    pub fn words(&self) -> String {
        match self {
            Self::Id(id) => format!("`{id}`"),
            Self::Glob { glob, .. } => format!("`{glob}`"),
            Self::Method { label, name } => format!("`{name}` of `{label}`"),
            Self::Disabled { class, name } => format!("`{name}` of class `{class}`"),
            Self::Keyword { deny, .. } => format!("the word `{deny}`"),
        }
    }
}

/// Brackets are parameters of a test and not a set of letters.
fn escaped_brackets(glob: &str) -> String {
    glob.replace('[', "\u{1}").replace(']', "[]]").replace('\u{1}', "[[]").replace('{', "[{]").replace('}', "[}]")
}

/// `torch` is `test_torch.py`; `dynamo` is also every file in a folder of that name.
fn belongs(path: &str, label: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let stem = file.strip_suffix(".py").unwrap_or(file);
    stem.strip_prefix("test_").unwrap_or(stem) == label || path.split('/').any(|folder| folder == label)
}

/// What PyTorch appends to the methods of device tests: `_cuda`, `_cpu_float32`.
fn is_variant(rest: &str) -> bool {
    ["_cuda", "_cpu", "_xpu", "_mps", "_meta", "_privateuse1"]
        .iter()
        .any(|device| rest.strip_prefix(device).is_some_and(|rest| rest.is_empty() || rest.starts_with('_')))
}

/// Compares rows with the collected ids.
pub fn judge(rows: &[ListRow], collected: &[String], setting: &ListSetting) -> ListVerdict {
    let mut verdict = ListVerdict::default();
    // Most rows name one method: comparing each with 100,000 ids would be slow.
    let mut by_method: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for id in collected {
        by_method.entry(parts(id).0).or_default().push(id);
    }
    for row in rows.iter().filter(|row| row.applies(setting)) {
        if row.expires.is_some_and(|last| last < setting.today) {
            let day = row.expires.map(|day| day.to_string()).unwrap_or_default();
            verdict.remark(RemarkKind::Expired, format!("{}: {} expired on {day}", row.place, row.pattern.words()));
            continue;
        }
        let matches = row.pattern.matcher();
        let found: Vec<&String> = match &row.pattern {
            TestPattern::Method { name, .. } => {
                by_method.get(name.as_str()).into_iter().flatten().copied().filter(|id| matches(id)).collect()
            }
            _ => collected.iter().filter(|id| matches(id)).collect(),
        };
        if found.is_empty() {
            let near = near_names(&row.pattern, &by_method);
            verdict.remark(RemarkKind::Stale, format!("{}: {} fits no test{near}", row.place, row.pattern.words()));
            continue;
        }
        let expected = match &row.pattern {
            TestPattern::Id(_) | TestPattern::Method { .. } => Some(1),
            TestPattern::Glob { expect, .. } => *expect,
            TestPattern::Disabled { .. } | TestPattern::Keyword { .. } => None,
        };
        if expected.is_some_and(|count| count != found.len()) {
            let names: Vec<String> = found.iter().take(5).map(|id| format!("`{id}`")).collect();
            let more = if found.len() > 5 { ", …" } else { "" };
            let text = format!(
                "{} fits {}: {}{more}",
                row.pattern.words(),
                counted(found.len() as u64, "test"),
                names.join(", ")
            );
            verdict.remark(RemarkKind::Count, format!("{}: {text}", row.place));
        }
        let reason = row.link.as_ref().map_or_else(|| row.reason.clone(), |link| format!("{} ({link})", row.reason));
        for id in found {
            let listed = ListedTest { kind: row.kind, reason: reason.clone() };
            let entry = verdict.tests.entry(id.clone()).or_insert_with(|| listed.clone());
            if row.kind < entry.kind {
                *entry = listed;
            }
        }
    }
    verdict
}

/// Tests that a pytest expression with this name would have fitted.
fn near_names(pattern: &TestPattern, by_method: &BTreeMap<&str, Vec<&String>>) -> String {
    let TestPattern::Method { name, .. } = pattern else { return String::new() };
    let near: Vec<&str> = by_method.keys().copied().filter(|method| method.contains(name.as_str())).take(3).collect();
    if near.is_empty() { String::new() } else { format!("; its name is in `{}`", near.join("`, `")) }
}
