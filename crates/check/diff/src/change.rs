//! A difference between two packages.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A difference that a user of the package could notice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Change {
    pub kind: ChangeKind,
    /// The part of the file or package: a library's name, a requirement, a field. Empty if it is
    /// the file itself.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subject: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// Number of names in `subject`, which are separated by `, `.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The reason why it is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

impl Change {
    /// Creates a difference of the file or package itself.
    pub(crate) fn new(kind: ChangeKind) -> Change {
        Change { kind, subject: String::new(), old: None, new: None, count: None, accepted: None }
    }

    pub(crate) fn of(kind: ChangeKind, subject: impl Into<String>) -> Change {
        Change { subject: subject.into(), ..Change::new(kind) }
    }

    pub(crate) fn values(mut self, old: impl Into<String>, new: impl Into<String>) -> Change {
        (self.old, self.new) = (Some(old.into()), Some(new.into()));
        self
    }

    /// Creates the change of one value, if it differs.
    pub(crate) fn of_value(kind: ChangeKind, old: Option<&str>, new: Option<&str>) -> Option<Change> {
        (old != new).then(|| Change { old: old.map(str::to_owned), new: new.map(str::to_owned), ..Change::new(kind) })
    }

    /// Creates a change for each value that is only in one of two sets.
    pub(crate) fn of_sets<'a, T: Ord + fmt::Display + 'a>(
        (lost, gained): (ChangeKind, ChangeKind),
        old: impl IntoIterator<Item = &'a T>,
        new: impl IntoIterator<Item = &'a T>,
    ) -> Vec<Change> {
        use std::collections::BTreeSet;
        let (old, new): (BTreeSet<&T>, BTreeSet<&T>) = (old.into_iter().collect(), new.into_iter().collect());
        let lost = old.difference(&new).map(|value| Change::of(lost, value.to_string()));
        let gained = new.difference(&old).map(|value| Change::of(gained, value.to_string()));
        lost.chain(gained).collect()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.subject.is_empty() {
            parts.push(self.subject.clone());
        }
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => parts.push(format!("{old} → {new}")),
            (Some(old), None) => parts.push(format!("{old} → nothing")),
            (None, Some(new)) => parts.push(format!("nothing → {new}")),
            (None, None) => {}
        }
        formatter.write_str(&parts.join(": "))
    }
}

impl ChangeKind {
    /// `true` for a package's version, and for texts that name it.
    pub fn is_version(self) -> bool {
        matches!(self, Self::Version | Self::VersionText)
    }

    /// `true` if the subject is a name that the next build has as well. Other subjects are numbers
    /// of lines, or lists of symbols.
    pub(crate) fn has_lasting_subject(self) -> bool {
        !matches!(
            self,
            Self::Content | Self::Code | Self::LostSymbol | Self::NewSymbol | Self::Unreadable | Self::Record
        )
    }
}

macro_rules! kinds {
    ($($(#[doc = $text:literal])+ $kind:ident = $name:literal,)*) => {
        /// The kind of a difference.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum ChangeKind {
            $($(#[doc = $text])+ #[serde(rename = $name)] $kind,)*
        }

        impl ChangeKind {
            /// All kinds, in the order of the reports.
            pub const ALL: &[ChangeKind] = &[$(ChangeKind::$kind,)*];

            /// Returns the name in deviations, in `--fail-on` and in JSON.
            pub fn name(self) -> &'static str {
                match self { $(ChangeKind::$kind => $name,)* }
            }

            /// Returns the meaning in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(ChangeKind::$kind => concat!($($text),+).trim_ascii_start(),)* }
            }
        }
    };
}

kinds! {
    /// A package is only in OLD.
    LostPackage = "lost-package",
    /// A package is only in NEW.
    NewPackage = "new-package",
    /// The download, or the folder, grew by more than `--fail-on growth=…` allows.
    Growth = "growth",
    /// The distribution has another name.
    Name = "name",
    /// The version is another one.
    Version = "version",
    /// A text, a field or a requirement names another version of a package of NEW, and is the same
    /// otherwise.
    VersionText = "version-text",
    /// The build tag of the wheel is another one.
    Build = "build",
    /// A tag of the wheel is gone: some installers do not take it any more.
    LostTag = "lost-tag",
    /// A tag of the wheel is new.
    NewTag = "new-tag",
    /// The oldest glibc that the symbols of all files allow is another one.
    GlibcFloor = "glibc-floor",
    /// `Requires-Python` is another one.
    PythonRequires = "python-requires",
    /// A requirement is gone.
    LostRequirement = "lost-requirement",
    /// A requirement is new.
    NewRequirement = "new-requirement",
    /// A requirement asks for another version, or for another address.
    Requirement = "requirement",
    /// An extra is gone.
    LostExtra = "lost-extra",
    /// An extra is new.
    NewExtra = "new-extra",
    /// An entry point is gone.
    LostEntryPoint = "lost-entry-point",
    /// An entry point is new.
    NewEntryPoint = "new-entry-point",
    /// An entry point calls something else.
    EntryPoint = "entry-point",
    /// Another field of METADATA or WHEEL, or the description, is another one.
    Metadata = "metadata",
    /// RECORD says something about its own files that it did not say before and that is not so.
    Record = "record",
    /// A file is only in OLD.
    LostFile = "lost-file",
    /// A file is only in NEW.
    NewFile = "new-file",
    /// A file has another path and the same bytes.
    MovedFile = "moved-file",
    /// A file has another name for the same thing, as a library with its version in the name has.
    RenamedFile = "renamed-file",
    /// A file became a link, or a link a file.
    FileType = "file-type",
    /// A link leads elsewhere.
    Link = "link",
    /// A file may be executed, or may not any more.
    Mode = "mode",
    /// The bytes of a file that is data or text are others.
    Content = "content",
    /// A file cannot be read as what it is by its first bytes on one side.
    Unreadable = "unreadable",
    /// A program or library is for another machine, or something else than it was.
    Machine = "machine",
    /// The name that others are linked to (`DT_SONAME`) is another one.
    Soname = "soname",
    /// A library is not needed any more (`DT_NEEDED`).
    LostNeeded = "lost-needed",
    /// A library is needed that was not before (`DT_NEEDED`).
    NewNeeded = "new-needed",
    /// The same libraries are needed in another order, which decides whose symbol is taken.
    NeededOrder = "needed-order",
    /// `DT_RPATH` or `DT_RUNPATH` is another one.
    SearchPath = "search-path",
    /// The dynamic loader that a program asks for is another one.
    Interpreter = "interpreter",
    /// A symbol version of another library is not needed any more.
    LostVersionNeed = "lost-version-need",
    /// A symbol version of another library is needed that was not before.
    NewVersionNeed = "new-version-need",
    /// A symbol that other files could use is gone.
    LostSymbol = "lost-symbol",
    /// There is a symbol that other files can use.
    NewSymbol = "new-symbol",
    /// The stack of the process becomes executable, or does not any more.
    ExecutableStack = "executable-stack",
    /// The processor that the file asks for is another one (x86-64-v2, v3, v4).
    CpuLevel = "cpu-level",
    /// The code or the data of a program or library is another one.
    Code = "code",
    /// GPU code for a target is gone.
    LostTarget = "lost-target",
    /// There is GPU code for another target.
    NewTarget = "new-target",
    /// GPU code for the same target is another one.
    GpuCode = "gpu-code",
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_meanings_are_whole() {
        for kind in ChangeKind::ALL {
            assert!(kind.meaning().ends_with('.') && !kind.meaning().starts_with(' '), "{kind}");
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }

    #[test]
    fn a_change_is_one_line() {
        let change = Change::of(ChangeKind::SearchPath, "RUNPATH").values("/opt/rocm/lib", "$ORIGIN");
        assert_eq!(change.to_string(), "RUNPATH: /opt/rocm/lib → $ORIGIN");
        assert_eq!(
            Change::of_value(ChangeKind::Soname, None, Some("liba.so.1")).unwrap().to_string(),
            "nothing → liba.so.1"
        );
        assert_eq!(Change::of_value(ChangeKind::Soname, Some("a"), Some("a")), None);
    }
}
