//! Input: the text of entry_points.txt (entry points specification of packaging.python.org).
//! Output: its entry points, and the faults for which installers refuse a wheel.
//!
//! pip reads the file with Python's `importlib.metadata` and the references of programs with
//! distlib; uv reads it as an INI file that repeats nothing. A file is right if both take it: the
//! test of the faults has what pip 26.3 and uv 0.13 said.

use std::collections::BTreeSet;

/// The groups for whose entries installers write programs.
const PROGRAMS: [&str; 2] = ["console_scripts", "gui_scripts"];

/// An entry point: a name for an object of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPoint {
    /// The group: `console_scripts`.
    pub group: String,
    /// The name, for a program that of its file.
    pub name: String,
    /// The object reference: `rocm_sdk.__main__:main`.
    pub reference: String,
}

/// Something for which an installer refuses a wheel, or does not read the file as it is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPointFault {
    /// The line, trimmed.
    pub line: String,
    /// The reason, as a clause without a subject.
    pub reason: &'static str,
}

/// The contents of an entry_points.txt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryPointFile {
    /// The entry points in the order of the file, also those with faults.
    pub entries: Vec<EntryPoint>,
    /// The faults in the order of the file.
    pub faults: Vec<EntryPointFault>,
}

impl EntryPointFile {
    /// Reads the text. This never fails: an unreadable line is a fault.
    pub fn parse(text: &str) -> EntryPointFile {
        let mut file = EntryPointFile::default();
        let mut group: Option<String> = None;
        let mut names = BTreeSet::new();
        let mut groups = BTreeSet::new();
        for line in text.lines() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                if !groups.insert(name.trim().to_owned()) {
                    file.refuse(trimmed, "is a group that the file has already, and uv refuses it");
                }
                group = Some(name.trim().to_owned());
                continue;
            }
            let Some(group) = &group else {
                file.refuse(trimmed, "is in front of the first group, and uv refuses it");
                continue;
            };
            let Some((name, reference)) = trimmed.split_once('=') else {
                file.refuse(trimmed, "has no `=` between name and reference, and pip and uv refuse it");
                continue;
            };
            let (name, reference) = (name.trim(), reference.trim());
            if !names.insert((group.clone(), name.to_owned())) {
                file.refuse(trimmed, "is a name that the group has already, and uv refuses it");
            }
            let entry = EntryPoint { group: group.clone(), name: name.to_owned(), reference: reference.to_owned() };
            if let Some(reason) = entry.fault() {
                file.refuse(trimmed, reason);
            }
            file.entries.push(entry);
        }
        file
    }

    fn refuse(&mut self, line: &str, reason: &'static str) {
        self.faults.push(EntryPointFault { line: line.to_owned(), reason });
    }
}

impl EntryPoint {
    /// `true` if installers write a program for it.
    pub fn is_program(&self) -> bool {
        PROGRAMS.contains(&self.group.as_str())
    }

    /// The module of the reference, without object and extras.
    pub fn module(&self) -> &str {
        self.reference.split([':', '[', ' ']).next().unwrap_or_default()
    }

    /// The reference without extras, which are from the time when programs had their own
    /// requirements.
    pub fn target(&self) -> &str {
        self.reference.split('[').next().unwrap_or_default().trim()
    }

    fn fault(&self) -> Option<&'static str> {
        if self.name.is_empty() {
            return Some("has no name, and uv refuses it");
        }
        if !self.is_program() {
            return None;
        }
        if leaves_folder(&self.name) {
            return Some("is a program outside of the folder for programs, and pip and uv refuse it");
        }
        if self.name.starts_with('[') {
            return Some("has a name that begins with `[`, and pip refuses it");
        }
        if is_reference(&self.reference) {
            return None;
        }
        Some(if self.reference.contains(':') {
            "is no reference `module:function`, and installers refuse it"
        } else {
            "names no function behind its module (`module:function`), and pip and uv refuse it"
        })
    }
}

/// `true` for a reference that pip and uv take: names with dots, `:`, names with dots, and extras.
fn is_reference(text: &str) -> bool {
    let (reference, extras) = match text.split_once('[') {
        Some((reference, extras)) => (reference.trim_end(), Some(extras)),
        None => (text, None),
    };
    let are_extras = extras.is_none_or(|extras| {
        let names = extras.strip_suffix(']');
        names.is_some_and(|names| names.split(',').all(|name| is_made_of(name.trim(), ".-")))
    });
    let Some((module, object)) = reference.split_once(':') else { return false };
    let is_module = module.split('.').all(|part| is_made_of(part, ""));
    are_extras && is_module && is_made_of(object, ".-") && !object.starts_with(['.', '-'])
}

/// `true` for a text of letters, digits, `_` and these signs, which is not empty.
fn is_made_of(text: &str, signs: &str) -> bool {
    !text.is_empty() && text.chars().all(|sign| sign.is_alphanumeric() || sign == '_' || signs.contains(sign))
}

fn leaves_folder(name: &str) -> bool {
    name.starts_with('/') || name.split(['/', '\\']).any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pip 26.3 and uv 0.13.9 were asked to install a wheel with each of these.
    #[test]
    fn a_file_is_faulty_if_pip_or_uv_refuses_the_wheel() {
        for (line, pip, uv) in [
            ("xx = x:main", true, true),
            ("xx=x.cli:main", true, true),
            ("xx = x:main [extra]", true, true),
            ("xx = x:main[a,b]", true, true),
            ("xx = x:Main.run", true, true),
            ("x y = x:main", true, true),
            ("xx = x:main-z", true, true),
            ("xx = é:main", true, true),
            ("é = x:main", true, true),
            ("xx+y = x:main", true, true),
            ("xx.py = x:main", true, true),
            ("xx = x", false, false),
            ("xx = x:", false, false),
            ("xx = :main", false, false),
            ("xx = x:a:b", false, false),
            ("xx", false, false),
            ("= x:main", true, false),
            ("../evil = x:main", false, false),
            ("xx = x:main()", true, false),
            ("xx = x-y:main", false, true),
            ("xx = x: main", false, true),
            ("xx = x :main", false, true),
            ("xx = x:main # c", true, false),
            ("xx: x:main", false, false),
            ("xx = x..y:main", false, true),
            ("xx = x:main []", false, false),
            ("xx = x/cli:main", false, false),
            ("xx = x:main\nxx = x:other", true, false),
            ("[xx] = x:main", false, true),
            ("xx = x:main, y", true, false),
            ("xx = x.:main", false, true),
            ("xx =\n  x:main", false, false),
            ("xx = ", false, false),
            ("[console_scripts]\nb = x:main", true, false),
            ("[torch.backends]\nxx = x y z", true, true),
        ] {
            let file = EntryPointFile::parse(&format!("[console_scripts]\n{line}\n"));
            assert_eq!(file.faults.is_empty(), pip && uv, "{line}: {file:?}");
        }
        for text in ["xx = x:main\n", "garbage\n[console_scripts]\nxx = x:main\n", "\u{feff}[console_scripts]\n"] {
            assert_eq!(EntryPointFile::parse(text).faults.len(), 1, "{text}");
        }
    }

    #[test]
    fn entry_points_are_found_between_other_things() {
        let text = "# made by hand\n[console_scripts]\nrocm-sdk = rocm_sdk.__main__:main\n a=b:c [extra]\n;x = y:z\n\
                    [torch.backends]\nrocm = t.b\n";
        let file = EntryPointFile::parse(text);
        let shown: Vec<String> = file
            .entries
            .iter()
            .map(|entry| format!("{} {}={} {}", entry.group, entry.name, entry.target(), entry.module()))
            .collect();
        assert_eq!(
            shown,
            [
                "console_scripts rocm-sdk=rocm_sdk.__main__:main rocm_sdk.__main__",
                "console_scripts a=b:c b",
                "torch.backends rocm=t.b t.b"
            ]
        );
        assert_eq!(file.faults, []);
    }
}
