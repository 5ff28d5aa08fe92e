//! Input: `requires.txt` of an `.egg-info` folder, and an edit. Output: the edited text. The format
//! is that of setuptools: one requirement per line; those of an extra or a marker are below
//! `[extra:marker]`.

use rocwheel_wheel::canonical_name;
use rocwheel_wheel::requirement::{WrittenRequirement, followed, is_on, renamed};

use crate::identity::{Identity, Siblings};
use crate::requirement_edit::{ExtraEdit, RequirementEdit};
use crate::wheel_edit::WheelEdit;

/// The lines below one heading.
struct Section {
    /// The text between the brackets; `None` for the lines before the first heading.
    heading: Option<String>,
    lines: Vec<String>,
}

impl Section {
    /// The extra and the marker.
    fn parts(&self) -> (&str, &str) {
        self.heading.as_deref().map_or(("", ""), |heading| heading.split_once(':').unwrap_or((heading, "")))
    }

    fn is_of(&self, extra: &str) -> bool {
        self.heading.is_some() && canonical_name(self.parts().0) == extra
    }
}

fn read(text: &str) -> Vec<Section> {
    let mut sections = vec![Section { heading: None, lines: Vec::new() }];
    for line in text.lines() {
        let heading = line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match (heading, sections.last_mut()) {
            (Some(heading), _) => sections.push(Section { heading: Some(heading.to_owned()), lines: Vec::new() }),
            (None, Some(section)) if !line.trim().is_empty() => section.lines.push(line.to_owned()),
            _ => {}
        }
    }
    sections
}

/// Writes the sections like setuptools.
fn text(sections: &[Section]) -> String {
    let mut out = String::new();
    for section in sections {
        if let Some(heading) = &section.heading {
            out.push_str(&format!("\n[{heading}]\n"));
        }
        for line in &section.lines {
            out.push_str(&format!("{line}\n"));
        }
    }
    out
}

/// The section of an extra and a marker. It is appended if it does not exist.
fn section<'a>(sections: &'a mut Vec<Section>, extra: &str, marker: &str) -> &'a mut Section {
    let found = sections.iter().position(|section| {
        let (own, condition) = section.parts();
        canonical_name(own) == extra && condition == marker
    });
    let index = found.unwrap_or_else(|| {
        let heading = if marker.is_empty() { extra.to_owned() } else { format!("{extra}:{marker}") };
        sections.push(Section { heading: Some(heading), lines: Vec::new() });
        sections.len() - 1
    });
    &mut sections[index]
}

/// The edited text; the given one if nothing changes.
pub(crate) fn apply(before: &str, edit: &WheelEdit, identity: &Identity, siblings: &Siblings) -> String {
    let mut sections = read(before);
    let normal = text(&sections);
    for line in sections.iter_mut().flat_map(|section| &mut section.lines) {
        if identity.name != identity.new_name
            && let Some(new) = renamed(line, &identity.name, &identity.new_name)
        {
            *line = new;
        }
        if let Some(new) = followed(line, |name, version| siblings.successor(identity, name, version)) {
            *line = new;
        }
    }
    for requirement in &edit.requirements {
        match requirement {
            RequirementEdit::Add(new) => add(&mut sections, "", new),
            RequirementEdit::Remove(name) => remove(&mut sections, &canonical_name(name)),
            RequirementEdit::Replace(new) => {
                let name = new.name();
                if !sections.iter().flat_map(|section| &section.lines).any(|line| is_on(line, &name)) {
                    continue;
                }
                if new.marker().is_some() {
                    remove(&mut sections, &name);
                    add(&mut sections, "", new);
                } else {
                    let lines = sections.iter_mut().flat_map(|section| &mut section.lines);
                    lines.filter(|line| is_on(line, &name)).for_each(|line| *line = new.in_place_of(line));
                }
            }
        }
    }
    for extra in &edit.extras {
        match extra {
            ExtraEdit::Add { name, requirement: Some(requirement) } => add(&mut sections, name, requirement),
            ExtraEdit::Add { name, requirement: None } => drop(section(&mut sections, name, "")),
            ExtraEdit::Remove(name) => sections.retain(|section| !section.is_of(name)),
        }
    }
    let after = text(&sections);
    if after == normal { before.to_owned() } else { after }
}

fn add(sections: &mut Vec<Section>, extra: &str, new: &WrittenRequirement) {
    let section = section(sections, extra, new.marker().unwrap_or_default());
    let head = WrittenRequirement::parse(new.head()).ok();
    if !section.lines.iter().any(|line| head.as_ref().is_some_and(|head| head.is(line))) {
        section.lines.push(new.head().to_owned());
    }
}

fn remove(sections: &mut Vec<Section>, name: &str) {
    for section in sections.iter_mut() {
        section.lines.retain(|line| !is_on(line, name));
    }
    // A section that has only a marker and no lines has no effect; an extra may be empty.
    sections.retain(|section| section.heading.is_none() || !section.lines.is_empty() || !section.parts().0.is_empty());
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const TEXT: &str = "rocm-sdk-core==7.0\nnumpy\n\n[:os_name == \"posix\"]\nrocm-sdk-devel==7.0\n\n[libraries]\n\
        rocm-sdk-libraries==7.0\n";

    fn identity() -> Identity {
        Identity { name: "rocm".into(), version: "7.0".into(), new_name: "rocm".into(), new_version: "7.1".into() }
    }

    fn edit(requirements: Vec<RequirementEdit>, extras: Vec<ExtraEdit>) -> String {
        let edit = WheelEdit { requirements, extras, ..WheelEdit::default() };
        apply(TEXT, &edit, &identity(), &Siblings::Keep)
    }

    #[test]
    fn sections_are_kept() {
        assert_eq!(edit(Vec::new(), Vec::new()), TEXT);
        let follow = Siblings::Follow(BTreeMap::new());
        assert_eq!(apply(TEXT, &WheelEdit::default(), &identity(), &follow), TEXT.replace("7.0", "7.1"));
        let new = |text: &str| WrittenRequirement::parse(text).unwrap();
        let added = edit(vec![RequirementEdit::Add(new("scipy>=1")), RequirementEdit::Add(new("numpy"))], Vec::new());
        assert_eq!(added, TEXT.replace("numpy\n", "numpy\nscipy>=1\n"));
        let marked = edit(vec![RequirementEdit::Add(new("x; os_name == 'nt'"))], Vec::new());
        assert_eq!(marked, format!("{TEXT}\n[:os_name == 'nt']\nx\n"));
        let removed = edit(vec![RequirementEdit::Remove("ROCM_sdk.devel".into())], Vec::new());
        assert_eq!(removed, TEXT.replace("[:os_name == \"posix\"]\nrocm-sdk-devel==7.0\n\n", ""));
        let replaced = edit(vec![RequirementEdit::Replace(new("rocm-sdk-libraries>=8"))], Vec::new());
        assert_eq!(replaced, TEXT.replace("rocm-sdk-libraries==7.0", "rocm-sdk-libraries>=8"));
        let more = edit(Vec::new(), vec![ExtraEdit::add("libraries:y").unwrap(), ExtraEdit::add("new").unwrap()]);
        assert_eq!(more, format!("{TEXT}y\n\n[new]\n"));
        let less = edit(Vec::new(), vec![ExtraEdit::remove("Libraries").unwrap()]);
        assert_eq!(less, TEXT.replace("\n[libraries]\nrocm-sdk-libraries==7.0\n", ""));
    }
}
