//! Input: the bytes of a member. Output: its new text, or what in it still says the old version.

use std::io::{self, Read};

use rocwheel_content::WINDOW;
use rocwheel_progress::{Failure, Reporter};
use rocwheel_wheel::MemberPattern;
use serde::Serialize;
use similar::TextDiff;

use crate::member::{MemberPath, says_version};
use crate::targets::KeepList;
use crate::version_change::VersionChange;

/// Larger members are searched in windows and never changed; the size is in bytes.
pub(crate) const LARGEST_TEXT: u64 = 16 << 20;
/// Texts up to this size in bytes are compared line by line for people to read.
const LARGEST_SHOWN: usize = 1 << 20;
/// Characters of a line that messages show.
const SHOWN: usize = 120;

/// Patterns of paths. One without a slash is for file names in any folder.
#[derive(Debug, Default)]
pub(crate) struct Patterns(Vec<MemberPattern>);

impl Patterns {
    pub(crate) fn new(texts: &[String]) -> Result<Patterns, Failure> {
        Ok(Patterns(texts.iter().map(|text| MemberPattern::parse(text)).collect::<Result<_, _>>()?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(path))
    }
}

#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) change: VersionChange,
    pub(crate) keep: Option<KeepList>,
    pub(crate) also_in: Patterns,
    pub(crate) accept: Patterns,
    pub(crate) is_floating: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextChange {
    /// Path of the member. Members of a tar in a wheel follow its path and a colon.
    pub member: String,
    /// The lines that differ, in the form of `diff --unified`.
    pub diff: String,
}

#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) texts: Vec<TextChange>,
    pub(crate) renamed: Vec<(String, String)>,
    /// Texts and names that would still say the old version.
    pub(crate) leftovers: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl Findings {
    pub(crate) fn add(&mut self, other: Findings) {
        self.texts.extend(other.texts);
        self.renamed.extend(other.renamed);
        self.leftovers.extend(other.leftovers);
        self.notes.extend(other.notes);
    }
}

impl Rules {
    /// The new text of a member; `None` if it stays.
    pub(crate) fn new_text(
        &self,
        member: MemberPath<'_>,
        bytes: &[u8],
        findings: &mut Findings,
    ) -> Result<Option<String>, Failure> {
        let finder = self.change.finder();
        let is_trimmed = self.keep.as_ref().is_some_and(|_| KeepList::is_for(member.path));
        let is_old = finder.is_in(bytes);
        if !is_trimmed && !is_old {
            return Ok(None);
        }
        let Some(text) = as_text(bytes) else {
            if is_old {
                self.report_binary(member, finder.positions(bytes).count() as u64, findings);
            }
            return Ok(None);
        };
        let mut new = text.to_owned();
        if let Some(keep) = self.keep.as_ref().filter(|_| is_trimmed) {
            new = keep.apply(member, &new, &mut findings.notes)?;
        }
        if self.gets_version(member.path) {
            new = self.change.replaced(&new);
        }
        for (number, line) in new.lines().enumerate().filter(|(_, line)| finder.is_in(line.as_bytes())) {
            let line: String = line.trim().chars().take(SHOWN).collect();
            self.leave(member, &format!("line {}: {line}", number + 1), findings);
        }
        if new == text {
            return Ok(None);
        }
        findings.texts.push(TextChange { member: member.shown.to_owned(), diff: diff(text, &new) });
        Ok(Some(new))
    }

    /// `true` for a member that gets the new version, or loses targets, if it names them.
    pub(crate) fn may_change(&self, path: &str) -> bool {
        self.gets_version(path) || self.keep.is_some() && KeepList::is_for(path)
    }

    fn gets_version(&self, path: &str) -> bool {
        says_version(path) || self.also_in.matches(path)
    }

    /// The new name of a member, or text of a link; a name that keeps the old version is reported.
    pub(crate) fn new_name(&self, member: MemberPath<'_>, name: &str, findings: &mut Findings) -> String {
        let new = self.change.replaced(name);
        if self.change.finder().is_in(new.as_bytes()) {
            self.leave(member, &format!("name `{new}`"), findings);
        }
        new
    }

    /// Searches a member that is too large to be changed.
    pub(crate) fn search(
        &self,
        member: MemberPath<'_>,
        reader: impl Read,
        reporter: &dyn Reporter,
        findings: &mut Findings,
    ) -> io::Result<()> {
        let found = count(reader, self, reporter)?;
        if found.count > 0 && found.is_text {
            let text = format!("{} times, in a text of more than {} MiB", found.count, LARGEST_TEXT >> 20);
            self.leave(member, &text, findings);
        } else if found.count > 0 {
            self.report_binary(member, found.count, findings);
        }
        Ok(())
    }

    /// Reports a place that keeps the old version; it is an error unless the user accepts it.
    pub(crate) fn leave(&self, member: MemberPath<'_>, place: &str, findings: &mut Findings) {
        let text = format!("`{}`: {place}", member.shown);
        if self.accept.matches(member.path) {
            findings.notes.push(format!("accepted: {text}"));
        } else {
            findings.leftovers.push(text);
        }
    }

    fn report_binary(&self, member: MemberPath<'_>, count: u64, findings: &mut Findings) {
        let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
        let version = self.change.old();
        findings.notes.push(format!("`{}` is no text and says {version} {times}, which stays", member.shown));
    }
}

/// The text of a member; `None` for other data.
fn as_text(bytes: &[u8]) -> Option<&str> {
    if memchr::memchr(0, bytes).is_some() { None } else { std::str::from_utf8(bytes).ok() }
}

fn diff(old: &str, new: &str) -> String {
    if old.len().max(new.len()) > LARGEST_SHOWN {
        return "(too large to be shown)\n".to_owned();
    }
    TextDiff::from_lines(old, new).unified_diff().context_radius(0).to_string()
}

struct Found {
    count: u64,
    is_text: bool,
}

/// Counts the old version in a stream.
fn count(mut reader: impl Read, rules: &Rules, reporter: &dyn Reporter) -> io::Result<Found> {
    let finder = rules.change.finder();
    let keep = finder.overlap();
    let mut window = vec![0; WINDOW + keep];
    let (mut filled, mut begin, mut unseen) = (0_usize, 0_u64, 0_u64);
    let mut found = Found { count: 0, is_text: true };
    loop {
        if reporter.interrupted() {
            return Err(io::Error::other("interrupted"));
        }
        let read = match reader.read(&mut window[filled..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        filled += read;
        let is_end = read == 0;
        if filled < window.len() && !is_end {
            continue;
        }
        found.is_text &= memchr::memchr(0, &window[..filled]).is_none();
        for at in finder.positions(&window[..filled]) {
            let position = begin + at as u64;
            // One at the very end is looked at again with the byte behind it.
            if position >= unseen && (is_end || at + keep <= filled) {
                found.count += 1;
                unseen = position + 1;
            }
        }
        if is_end {
            return Ok(found);
        }
        let moved = filled - keep;
        window.copy_within(moved..filled, 0);
        begin += moved as u64;
        filled = keep;
    }
}

#[cfg(test)]
mod tests {
    use rocwheel_progress::Silent;

    use super::*;

    fn rules() -> Rules {
        let change = VersionChange::new(&"7.12.0rc1".parse().unwrap(), &"7.12.0".parse().unwrap()).unwrap();
        Rules {
            change,
            keep: None,
            also_in: Patterns::default(),
            accept: Patterns::new(&["*.md".to_owned()]).unwrap(),
            is_floating: false,
        }
    }

    /// Gives few bytes at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(7777).min(self.0.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn each_occurrence_in_a_stream_counts_once() {
        let rules = rules();
        for shift in 0..30 {
            let mut bytes = vec![b'x'; 3 * WINDOW];
            for at in [0, WINDOW - shift, WINDOW + 20 - shift, 2 * WINDOW - shift, 3 * WINDOW - 9] {
                bytes[at..at + 9].copy_from_slice(b"7.12.0rc1");
            }
            // Those are other versions.
            bytes[WINDOW + 60 - shift..][..10].copy_from_slice(b"7.12.0rc10");
            bytes[WINDOW + 90 - shift..][..11].copy_from_slice(b"1.7.12.0rc1");
            assert_eq!(count(Slow(&bytes), &rules, &Silent).unwrap().count, 5, "{shift}");
        }
    }

    #[test]
    fn texts_change_and_the_rest_is_reported() {
        let rules = rules();
        let look = |path: &str, bytes: &[u8]| {
            let mut findings = Findings::default();
            let new = rules.new_text(MemberPath { path, shown: path }, bytes, &mut findings).unwrap();
            (new, findings)
        };
        let (new, findings) = look("a/version.py", b"x\nv = '7.12.0rc1'\n");
        assert_eq!(new.unwrap(), "x\nv = '7.12.0'\n");
        assert!(findings.leftovers.is_empty() && findings.texts[0].diff.contains("-v = '7.12.0rc1'\n+v = '7.12.0'\n"));
        let (new, findings) = look("a/notes.txt", b"x\nin 7.12.0rc1\n");
        assert_eq!((new, findings.leftovers.join("")), (None, "`a/notes.txt`: line 2: in 7.12.0rc1".to_owned()));
        let (new, findings) = look("a/notes.md", b"in 7.12.0rc1");
        assert!(new.is_none() && findings.leftovers.is_empty() && findings.notes[0].starts_with("accepted"));
        let (new, findings) = look("a/lib.so", b"\x007.12.0rc1 7.12.0rc1");
        assert!(new.is_none() && findings.leftovers.is_empty() && findings.notes[0].contains("2 times"));
        assert!(look("a/version.py", b"7.12.0rc10").1.leftovers.is_empty());
    }
}
