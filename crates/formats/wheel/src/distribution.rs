//! Input: members and metadata of one distribution. Output: a `.whl` file (wheel 1.0, PEP 427) in a
//! folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rocwheel_archive::{WriteOptions, Written, ZipSource, ZipWriter, check_tree, file_mode};
use rocwheel_content::Content;
use rocwheel_progress::{Reporter, Silent, Unit};

use crate::names::{Tag, WheelName};
use crate::record::Record;
use crate::{Error, Metadata};

/// One file of an archive.
pub struct Member {
    /// Relative path inside the archive, with `/` between its parts.
    pub name: String,
    /// `true` for mode 0755, `false` for 0644.
    pub executable: bool,
    /// The contents of the file.
    pub content: Box<dyn Content>,
}

impl Member {
    /// A file with mode 0644.
    pub fn new(name: impl Into<String>, content: impl Content + 'static) -> Member {
        Member { name: name.into(), executable: false, content: Box::new(content) }
    }

    /// A file with mode 0755.
    pub fn executable(name: impl Into<String>, content: impl Content + 'static) -> Member {
        Member { name: name.into(), executable: true, content: Box::new(content) }
    }
}

/// The contents of one wheel.
pub struct WheelContents {
    /// Name as METADATA shows it; the file name uses the normalised form.
    pub name: String,
    /// Version in PEP 440's canonical form.
    pub version: String,
    /// Compatibility tags. They must be a full product of interpreters, ABIs and platforms.
    pub tags: Vec<Tag>,
    /// All other fields of METADATA.
    pub metadata: Metadata,
    /// The contents of entry_points.txt. If it is empty the file is not written.
    pub entry_points: EntryPoints,
    /// Licence texts; their names are relative to `dist-info/licenses/`.
    pub licenses: Vec<Member>,
    /// The files of the distribution, in any order; names relative to site-packages.
    pub members: Vec<Member>,
}

/// Entry points by group and name (the entry points specification of packaging.python.org).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryPoints {
    /// Group (`console_scripts`) → name → object reference (`package.module:function`).
    pub groups: BTreeMap<String, BTreeMap<String, String>>,
}

impl EntryPoints {
    /// Adds a console script.
    pub fn script(&mut self, name: impl Into<String>, reference: impl Into<String>) {
        self.groups.entry("console_scripts".to_owned()).or_default().insert(name.into(), reference.into());
    }

    /// The text of entry_points.txt. An error names the entry whose name or reference would break
    /// the file.
    pub fn text(&self) -> Result<String, Error> {
        let mut sections = Vec::new();
        for (group, entries) in self.groups.iter().filter(|(_, entries)| !entries.is_empty()) {
            check_line(group, group, &['[', ']'])?;
            let mut section = format!("[{group}]\n");
            for (name, reference) in entries {
                check_line(group, name, &['=', '['])?;
                check_line(group, reference, &[])?;
                section.push_str(&format!("{name} = {reference}\n"));
            }
            sections.push(section);
        }
        Ok(sections.join("\n"))
    }
}

fn check_line(group: &str, value: &str, forbidden: &[char]) -> Result<(), Error> {
    let reason = if value.is_empty() || value.trim() != value {
        "it is empty or begins or ends with white space"
    } else if value.chars().any(char::is_control) {
        "it contains a line break or another control character"
    } else if value.contains(forbidden) {
        "it contains a character that separates names from references"
    } else {
        return Ok(());
    };
    Err(Error::Metadata { field: format!("entry point of group {group}"), value: value.to_owned(), reason })
}

/// Writes the wheel into the folder `output`, which must exist. [`WheelName::new`] determines its
/// name.
///
/// The file gets its name when it is complete; an error or interruption leaves nothing behind.
/// Equal input gives equal bytes, regardless of the number of threads and the order of members.
pub fn write_wheel(
    distribution: &WheelContents,
    output: &Path,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<Written, Error> {
    let name = WheelName::new(&distribution.name, &distribution.version, &distribution.tags)?;
    let generated = generated_members(distribution, &name)?;
    let info = format!("{}.dist-info/", name.stem());
    let record_name = format!("{info}RECORD");
    let licenses: Vec<(String, &Member)> =
        distribution.licenses.iter().map(|member| (format!("{info}licenses/{}", member.name), member)).collect();
    let mut sources: Vec<ZipSource<'_>> = Vec::new();
    for member in distribution.members.iter().chain(&generated) {
        sources.push(ZipSource { name: &member.name, mode: file_mode(member.executable), content: &*member.content });
    }
    for (path, member) in &licenses {
        sources.push(ZipSource { name: path, mode: file_mode(false), content: &*member.content });
    }
    sources.sort_by_key(|source| (source.name.starts_with(&info), source.name.as_bytes()));
    check_tree(sources.iter().map(|source| source.name).chain([record_name.as_str()]))?;

    let path = output.join(name.to_string());
    let raw = sources.iter().map(|source| source.content.size()).sum();
    let _stage = reporter.stage(&format!("writing {name}"), Some(raw), Unit::Bytes);
    write_archive(&path, &sources, &record_name, options, reporter)
}

fn write_archive(
    path: &Path,
    sources: &[ZipSource<'_>],
    record_name: &str,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<Written, Error> {
    let mut archive = ZipWriter::create(path, options.clone())?;
    let entries = archive.add(sources, reporter)?;
    let mut record = Record::default();
    for (source, entry) in sources.iter().zip(&entries) {
        record.push(source.name, &entry.sha256, entry.size);
    }
    let record = record.text(record_name);
    // The bytes of RECORD are not part of the announced progress.
    archive.add(&[ZipSource { name: record_name, mode: file_mode(false), content: &record.into_bytes() }], &Silent)?;
    Ok(archive.finish(reporter)?.0)
}

/// The generated files: METADATA, WHEEL, entry_points.txt and top_level.txt.
fn generated_members(distribution: &WheelContents, name: &WheelName) -> Result<Vec<Member>, Error> {
    let info = format!("{}.dist-info", name.stem());
    let mut license_files: Vec<String> = distribution.licenses.iter().map(|member| member.name.clone()).collect();
    license_files.sort();
    let metadata = distribution.metadata.text(&distribution.name, &distribution.version, &license_files)?;
    let mut wheel =
        format!("Wheel-Version: 1.0\nGenerator: rocwheel {}\nRoot-Is-Purelib: false\n", env!("CARGO_PKG_VERSION"));
    for tag in name.tags() {
        wheel.push_str(&format!("Tag: {tag}\n"));
    }
    let mut members = vec![
        Member::new(format!("{info}/METADATA"), metadata.into_bytes()),
        Member::new(format!("{info}/WHEEL"), wheel.into_bytes()),
    ];
    let entry_points = distribution.entry_points.text()?;
    if !entry_points.is_empty() {
        members.push(Member::new(format!("{info}/entry_points.txt"), entry_points.into_bytes()));
    }
    let top_level = top_level(distribution.members.iter().map(|member| member.name.as_str()));
    if !top_level.is_empty() {
        members.push(Member::new(format!("{info}/top_level.txt"), top_level.into_bytes()));
    }
    Ok(members)
}

/// The text of top_level.txt: one line for each package and module that `members` add to
/// site-packages.
pub fn top_level<'a>(members: impl IntoIterator<Item = &'a str>) -> String {
    let mut tops = BTreeSet::new();
    for name in members {
        let top = match name.split_once('/') {
            Some((folder, _)) => folder,
            None => name.strip_suffix(".py").unwrap_or(""),
        };
        let is_identifier = !top.starts_with(|first: char| first.is_ascii_digit())
            && top.chars().all(|character| character.is_alphanumeric() || character == '_');
        if is_identifier && !top.is_empty() {
            tops.insert(top);
        }
    }
    tops.into_iter().map(|top| format!("{top}\n")).collect()
}
