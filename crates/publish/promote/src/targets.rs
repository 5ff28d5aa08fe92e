//! Input: the targets that a set keeps. Output: the same texts without the other targets: extras,
//! requirements, and the lists of `_dist_info.py` (release spec 6.5, rocm-python-packages spec
//! 3.3).

use std::cell::RefCell;

use rocwheel_content::archive_path::file_name;
use rocwheel_progress::Failure;
use rocwheel_wheel::requirement::{Belongs, belongs};
use rocwheel_wheel::{Headers, canonical_name};

use crate::error;
use crate::member::MemberPath;

/// Distributions and extras of one target are called so, with `-TARGET` behind.
const OF_TARGETS: [&str; 3] = ["device", "hpc", "libraries"];
/// Lists of targets in `_dist_info.py`; each line adds one.
const LISTS: [&str; 3] = ["AVAILABLE", "LINUX", "WINDOWS"];
const DEFAULT: &str = "DEFAULT_TARGET_FAMILY = ";

/// The targets that stay, in the user's order and as distributions are named after them.
#[derive(Debug, Clone)]
pub(crate) struct KeepList {
    keep: Vec<String>,
}

impl KeepList {
    pub(crate) fn new(targets: &[String]) -> Result<KeepList, Failure> {
        let keep: Vec<String> = targets.iter().map(|target| canonical_name(target.trim())).collect();
        let reason = match keep.iter().find(|target| !is_target(target)) {
            Some(wrong) => format!("`{wrong}` is no target, such as `gfx942`"),
            None if keep.is_empty() => "no target is named".to_owned(),
            None => return Ok(KeepList { keep }),
        };
        Err(error::targets(targets, &reason))
    }

    pub(crate) fn targets(&self) -> &[String] {
        &self.keep
    }

    pub(crate) fn has(&self, target: &str) -> bool {
        let base = target.split(':').next().unwrap_or_default();
        self.keep.contains(&canonical_name(base))
    }

    /// `true` for a member that lists targets.
    pub(crate) fn is_for(path: &str) -> bool {
        matches!(file_name(path), "PKG-INFO" | "requires.txt" | "_dist_info.py" | "dist_info.json")
            || path.strip_suffix("/METADATA").is_some_and(|folder| folder.ends_with(".dist-info"))
    }

    pub(crate) fn apply(&self, member: MemberPath<'_>, text: &str, notes: &mut Vec<String>) -> Result<String, Failure> {
        if file_name(member.path) == "dist_info.json" {
            return Ok(self.dist_targets(text));
        }
        let targets = match file_name(member.path) {
            "_dist_info.py" => listed_targets(text),
            "requires.txt" => sections(text).filter_map(|(extra, _)| target_of(extra).map(str::to_owned)).collect(),
            _ => Headers::parse(text)
                .all("Provides-Extra")
                .iter()
                .filter_map(|e| target_of(e).map(canonical_name))
                .collect(),
        };
        if targets.is_empty() {
            return Ok(text.to_owned());
        }
        let Some(default) = self.preferred(&targets) else {
            let reason = format!("`{}` has none of them: {}", member.shown, targets.join(", "));
            return Err(error::targets(&self.keep, &reason));
        };
        match file_name(member.path) {
            "_dist_info.py" => Ok(self.dist_info(text, &default)),
            "requires.txt" => Ok(self.requires_txt(text, &default)),
            _ => self.metadata(text, &default, notes),
        }
    }

    /// The first kept target that the file has, in the user's order; a target before a family.
    fn preferred(&self, available: &[String]) -> Option<String> {
        let kept = self.keep.iter().filter_map(|wanted| {
            available.iter().find(|target| canonical_name(target.split(':').next().unwrap_or_default()) == *wanted)
        });
        let kept: Vec<&String> = kept.collect();
        kept.iter().find(|target| is_exact(target)).or(kept.first()).map(|target| (*target).clone())
    }

    fn metadata(&self, text: &str, default: &str, notes: &mut Vec<String>) -> Result<String, Failure> {
        let mut headers = Headers::parse(text);
        headers.remove("Provides-Extra", |extra| target_of(extra).is_some_and(|target| !self.has(target)));
        let said = RefCell::new(notes);
        headers.replace("Requires-Dist", |requirement| {
            let new = self.pointed_to(requirement, default, |extra| belongs(requirement, extra) == Belongs::Alone)?;
            said.borrow_mut().push(format!("`{requirement}` becomes `{new}`"));
            Some(new)
        })?;
        let extras: Vec<String> = Headers::parse(text).all("Provides-Extra");
        let dropped: Vec<String> = extras
            .iter()
            .filter(|extra| target_of(extra).is_some_and(|target| !self.has(target)))
            .map(|extra| canonical_name(extra))
            .collect();
        headers.remove("Requires-Dist", |requirement| {
            self.is_on_dropped(requirement) || dropped.iter().any(|extra| belongs(requirement, extra) == Belongs::Alone)
        });
        Ok(headers.to_string())
    }

    /// `true` for a requirement on a distribution of another target.
    fn is_on_dropped(&self, requirement: &str) -> bool {
        target_of(name_of(requirement)).is_some_and(|target| !self.has(target))
    }

    /// A requirement of the extra without a target on the new default, if its target goes.
    fn pointed_to(&self, requirement: &str, default: &str, is_of: impl Fn(&str) -> bool) -> Option<String> {
        let name = name_of(requirement);
        let target = target_of(name).filter(|target| !self.has(target))?;
        let plain = OF_TARGETS.iter().find(|extra| is_of(extra) && name.contains(&format!("{extra}-")));
        plain.map(|_| {
            let at = name.len() - target.len();
            let begin = requirement.len() - requirement.trim_start().len();
            format!("{}{default}{}", &requirement[..begin + at], &requirement[begin + name.len()..])
        })
    }

    fn requires_txt(&self, text: &str, default: &str) -> String {
        let mut result = String::new();
        let mut extra = String::new();
        let mut heading: Option<&str> = None;
        let mut is_dropped = false;
        for line in text.lines() {
            if let Some(new) = heading_of(line) {
                extra = canonical_name(new.split(':').next().unwrap_or_default());
                is_dropped = target_of(&extra).is_some_and(|target| !self.has(target));
                // An extra may be empty, and a marker needs at least one line.
                heading = Some(line);
                if !new.contains(':') && !is_dropped {
                    result.push_str(&format!("\n{line}\n"));
                    heading = None;
                }
                continue;
            }
            if line.trim().is_empty() || is_dropped {
                continue;
            }
            let new = self.pointed_to(line, default, |name| name == extra);
            if new.is_none() && self.is_on_dropped(line) {
                continue;
            }
            if let Some(heading) = heading.take() {
                result.push_str(&format!("\n{heading}\n"));
            }
            result.push_str(&format!("{}\n", new.as_deref().unwrap_or(line)));
        }
        result
    }

    /// The list that `rocm-sdk targets` prints, without the other targets. A list of something else
    /// stays.
    fn dist_targets(&self, text: &str) -> String {
        let document: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let Some(all) = document["dist_amdgpu_targets"].as_str() else { return text.to_owned() };
        let kept: Vec<&str> = all.split(';').filter(|target| self.has(target)).collect();
        if kept.is_empty() {
            return text.to_owned();
        }
        text.replace(&format!("\"{all}\""), &format!("\"{}\"", kept.join(";")))
    }

    fn dist_info(&self, text: &str, default: &str) -> String {
        let mut result = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            if listed_target(line).is_some_and(|target| !self.has(target)) {
                continue;
            }
            let said = line.strip_prefix(DEFAULT).and_then(quoted);
            if said.is_some_and(|target| !self.has(target)) {
                result.push_str(&format!("{DEFAULT}'{default}'{}", &line[line.trim_end().len()..]));
            } else {
                result.push_str(line);
            }
        }
        result
    }
}

/// `true` for `gfx942`, `gfx90a`, `gfx94x-dcgpu`, `gfx9-4`.
fn is_target(text: &str) -> bool {
    text.strip_prefix("gfx").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// `true` for a target such as `gfx90a`, not for a family such as `gfx9`, `gfx9_4` or `gfx94X`.
fn is_exact(target: &str) -> bool {
    let digits = target.split(':').next().and_then(|base| base.strip_prefix("gfx")).unwrap_or_default();
    digits.len() >= 3 && digits.bytes().all(|sign| sign.is_ascii_digit() || (b'a'..=b'f').contains(&sign))
}

/// The target in the name of a distribution or extra: `gfx942` of `rocm-sdk-device-gfx942`.
pub fn target_of(name: &str) -> Option<&str> {
    let at = OF_TARGETS.iter().filter_map(|kind| {
        ["-", "_", "."]
            .iter()
            .filter_map(|sign| name.find(&format!("{kind}{sign}gfx")))
            .min()
            .map(|at| at + kind.len() + 1)
    });
    at.min().map(|at| &name[at..]).filter(|target| is_target(target))
}

/// The name that a requirement begins with.
fn name_of(requirement: &str) -> &str {
    let text = requirement.trim_start();
    let end = text.find(|sign: char| !sign.is_ascii_alphanumeric() && !matches!(sign, '-' | '_' | '.'));
    &text[..end.unwrap_or(text.len())]
}

fn heading_of(line: &str) -> Option<&str> {
    line.trim().strip_prefix('[')?.strip_suffix(']')
}

/// Extras and markers of the headings of `requires.txt`.
fn sections(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(heading_of).map(|heading| heading.split_once(':').unwrap_or((heading, "")))
}

fn listed_targets(text: &str) -> Vec<String> {
    let mut targets: Vec<String> = Vec::new();
    for target in text.lines().filter_map(listed_target) {
        if !targets.iter().any(|known| known == target) {
            targets.push(target.to_owned());
        }
    }
    targets
}

/// The target that a line adds to a list.
fn listed_target(line: &str) -> Option<&str> {
    let rest = LISTS.iter().find_map(|list| line.strip_prefix(list))?;
    quoted(rest.strip_prefix("_TARGET_FAMILIES.append(")?)
}

/// The text of a string literal of Python at the beginning of a text.
fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    text[1..].split_once(quote).map(|(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(path: &str, text: &str, keep: &[&str]) -> Result<String, Failure> {
        let keep: Vec<String> = keep.iter().map(|target| (*target).to_owned()).collect();
        KeepList::new(&keep)?.apply(MemberPath { path, shown: path }, text, &mut Vec::new())
    }

    const METADATA: &str = "Name: rocm\nRequires-Dist: rocm-sdk-core==1\nProvides-Extra: device\n\
        Requires-Dist: rocm-sdk-device-gfx1100==1; extra == \"device\"\nProvides-Extra: device-gfx1100\n\
        Requires-Dist: rocm-sdk-device-gfx1100==1; extra == \"device-gfx1100\"\nProvides-Extra: device-gfx942\n\
        Requires-Dist: rocm-sdk-device-gfx942==1; sys_platform == \"linux\" and extra == \"device-gfx942\"\n\
        Provides-Extra: device-all\nRequires-Dist: rocm-sdk-device-gfx1100==1; extra == \"device-all\"\n\
        Requires-Dist: rocm-sdk-device-gfx942==1; sys_platform == \"linux\" and extra == \"device-all\"\n";

    #[test]
    fn extras_and_requirements_of_other_targets_go() {
        let path = "rocm-1.dist-info/METADATA";
        assert_eq!(
            apply(path, METADATA, &["gfx942"]).unwrap(),
            "Name: rocm\nRequires-Dist: rocm-sdk-core==1\nProvides-Extra: device\n\
             Requires-Dist: rocm-sdk-device-gfx942==1; extra == \"device\"\nProvides-Extra: device-gfx942\n\
             Requires-Dist: rocm-sdk-device-gfx942==1; sys_platform == \"linux\" and extra == \"device-gfx942\"\n\
             Provides-Extra: device-all\n\
             Requires-Dist: rocm-sdk-device-gfx942==1; sys_platform == \"linux\" and extra == \"device-all\"\n"
        );
        assert_eq!(apply(path, METADATA, &["gfx942", "gfx1100"]).unwrap(), METADATA);
        assert_eq!(apply(path, "Name: x\n", &["gfx942"]).unwrap(), "Name: x\n");
        assert!(apply(path, METADATA, &["gfx11"]).unwrap_err().to_string().contains("none of them: gfx1100, gfx942"));
        assert!(apply(path, METADATA, &["942"]).is_err());
    }

    #[test]
    fn sections_of_other_targets_go() {
        let text = "rocm-sdk-core==1\n\n[device]\nrocm-sdk-device-gfx1100==1\n\n[device-all]\n\
            rocm-sdk-device-gfx1100==1\n\n[device-all:sys_platform == \"linux\"]\nrocm-sdk-device-gfx942==1\n\n\
            [device-gfx1100]\nrocm-sdk-device-gfx1100==1\n\n[device-gfx942:sys_platform == \"linux\"]\n\
            rocm-sdk-device-gfx942==1\n";
        assert_eq!(
            apply("rocm.egg-info/requires.txt", text, &["gfx942"]).unwrap(),
            "rocm-sdk-core==1\n\n[device]\nrocm-sdk-device-gfx942==1\n\n[device-all]\n\n\
             [device-all:sys_platform == \"linux\"]\nrocm-sdk-device-gfx942==1\n\n\
             [device-gfx942:sys_platform == \"linux\"]\nrocm-sdk-device-gfx942==1\n"
        );
        assert_eq!(
            apply("rocm.egg-info/requires.txt", text, &["gfx1100"]).unwrap(),
            "rocm-sdk-core==1\n\n[device]\nrocm-sdk-device-gfx1100==1\n\n[device-all]\n\
             rocm-sdk-device-gfx1100==1\n\n[device-gfx1100]\nrocm-sdk-device-gfx1100==1\n"
        );
    }

    #[test]
    fn lists_of_python_lose_the_other_targets() {
        let text = "x = 1\nDEFAULT_TARGET_FAMILY = 'gfx1100'\nAVAILABLE_TARGET_FAMILIES.append('gfx11')\n\
            AVAILABLE_TARGET_FAMILIES.append(\"gfx1100\")\nAVAILABLE_TARGET_FAMILIES.append('gfx90a')\n\
            LINUX_TARGET_FAMILIES.append('gfx90a:xnack+')\nWINDOWS_TARGET_FAMILIES.append('gfx1100')\n";
        assert_eq!(
            apply("rocm_sdk/_dist_info.py", text, &["gfx11", "gfx90a"]).unwrap(),
            "x = 1\nDEFAULT_TARGET_FAMILY = 'gfx90a'\nAVAILABLE_TARGET_FAMILIES.append('gfx11')\n\
             AVAILABLE_TARGET_FAMILIES.append('gfx90a')\nLINUX_TARGET_FAMILIES.append('gfx90a:xnack+')\n",
            "gfx90a is a target, gfx11 a family"
        );
    }

    #[test]
    fn the_list_of_the_build_loses_them_too() {
        let text = "{\"dist_amdgpu_targets\": \"gfx942;gfx90a:xnack+;gfx1100\"}";
        let path = "_rocm_sdk_core/share/therock/dist_info.json";
        let expected = "{\"dist_amdgpu_targets\": \"gfx90a:xnack+;gfx1100\"}";
        assert_eq!(apply(path, text, &["gfx1100", "gfx90a"]).unwrap(), expected);
        assert_eq!(apply(path, "{}", &["gfx1100"]).unwrap(), "{}");
    }

    #[test]
    fn names_have_targets() {
        assert_eq!(target_of("rocm-sdk-device-gfx942"), Some("gfx942"));
        assert_eq!(target_of("amd_torch_device_gfx9_4"), Some("gfx9_4"));
        assert_eq!(target_of("rocm-sdk-libraries-gfx94X-dcgpu"), Some("gfx94X-dcgpu"));
        assert_eq!(target_of("device-all"), None);
        assert_eq!(target_of("rocm-sdk-libraries"), None);
    }
}
