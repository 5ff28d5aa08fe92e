//! Input: the fixes of all findings. Output: the fewest commands with the same effect, in an order
//! in which they can be typed.
//!
//! All edits of a wheel are options of one command, because an edit may rename the file. A repair
//! writes another file and sets tags, search paths and RECORD itself, so the edits come before it.

use std::path::PathBuf;

use crate::finding::Finding;
use crate::fix::{Fix, Repair, Step, typed, words};

/// The fixes of all findings together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remedies {
    /// The fixes of each wheel, in the order in which the findings name them.
    pub wheels: Vec<WheelRemedy>,
    /// Commands that change the environment.
    pub installs: Vec<String>,
    /// Number of findings that `wheels` and `installs` fix.
    pub fixed: usize,
}

/// The edits and the repair of one wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WheelRemedy {
    pub path: PathBuf,
    options: Vec<Vec<String>>,
    record: bool,
    repair: Option<Repair>,
}

impl Remedies {
    pub fn of<'f>(findings: impl IntoIterator<Item = &'f Finding>) -> Remedies {
        let mut remedies = Remedies::default();
        for fix in findings.into_iter().filter_map(|finding| finding.fix.as_ref()) {
            match &fix.step {
                Step::Ask => continue,
                Step::Install => add(&mut remedies.installs, fix.command.clone()),
                _ => remedies.wheel(fix),
            }
            remedies.fixed += 1;
        }
        remedies
    }

    fn wheel(&mut self, fix: &Fix) {
        let known = self.wheels.iter().position(|wheel| wheel.path == fix.path);
        let index = known.unwrap_or_else(|| {
            let path = fix.path.clone();
            let new = WheelRemedy { path, options: Vec::new(), record: false, repair: None };
            self.wheels.push(new);
            self.wheels.len() - 1
        });
        let wheel = &mut self.wheels[index];
        match &fix.step {
            Step::Edit(options) => options.iter().for_each(|option| wheel.option(option)),
            Step::Record => wheel.record = true,
            Step::Repair(repair) => {
                let mut known = wheel.repair.take().unwrap_or_default();
                repair.excluded.iter().for_each(|library| add(&mut known.excluded, library.clone()));
                // Preloading compares with one exact version; search paths accept a range.
                let rocm = if repair.way > known.way { repair.rocm.clone() } else { known.rocm };
                wheel.repair = Some(Repair { way: known.way.max(repair.way), rocm, excluded: known.excluded });
            }
            Step::Install | Step::Ask => {}
        }
    }

    /// The commands that fix findings, in the order in which to type them.
    pub fn commands(&self) -> Vec<String> {
        self.wheels.iter().flat_map(WheelRemedy::commands).chain(self.installs.iter().cloned()).collect()
    }
}

impl WheelRemedy {
    fn option(&mut self, option: &[String]) {
        const TAG: &str = "--platform-tag";
        let other = self.options.iter_mut().find(|other| other[0] == TAG && option[0] == TAG);
        match other {
            // One tag has to be true for all files.
            Some(other) => {
                if newest(&option[1]) > newest(&other[1]) {
                    other[1].clone_from(&option[1]);
                }
            }
            None => add(&mut self.options, option.to_vec()),
        }
    }

    /// Arguments of `rocwheel edit` after the path, without those that say where to write; `None`
    /// if there is nothing to edit.
    pub fn edit(&self) -> Option<Vec<String>> {
        const BY_REPAIR: [&str; 4] = ["--platform-tag", "--rpath", "--remove-rpath", "--drop-absolute-rpath"];
        let mut options = self.options.clone();
        options.retain(|option| self.repair.is_none() || !BY_REPAIR.contains(&option[0].as_str()));
        if !options.is_empty() {
            return Some(words(&options).map(str::to_owned).collect());
        }
        (self.record && self.repair.is_none()).then(|| vec!["--record".to_owned()])
    }

    /// Arguments of `rocwheel repair` after the path; `None` if there is nothing to repair.
    pub fn repair(&self) -> Option<Vec<String>> {
        Some(self.repair.as_ref()?.words())
    }

    /// The commands of this wheel, quoted for a shell.
    pub fn commands(&self) -> Vec<String> {
        fn texts(words: &[String]) -> impl Iterator<Item = &str> {
            words.iter().map(String::as_str)
        }
        let edit = self.edit();
        let edit = edit.map(|words| typed("edit", &self.path, ["--in-place"].into_iter().chain(texts(&words))));
        let repair = self.repair().map(|words| typed("repair", &self.path, texts(&words)));
        edit.into_iter().chain(repair).collect()
    }
}

fn add<T: PartialEq>(list: &mut Vec<T>, new: T) {
    if !list.contains(&new) {
        list.push(new);
    }
}

/// The newest glibc that manylinux tags promise, as major and minor; zeros for other tags.
fn newest(tags: &str) -> (u32, u32) {
    tags.split('.').filter_map(promised_glibc).max().unwrap_or_default()
}

fn promised_glibc(tag: &str) -> Option<(u32, u32)> {
    let mut parts = tag.strip_prefix("manylinux_")?.split('_');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy(options: &[&[&str]], repair: Option<Repair>) -> WheelRemedy {
        let mut remedy = WheelRemedy { path: "a-1-py3-none-any.whl".into(), options: Vec::new(), record: true, repair };
        for option in options {
            remedy.option(&option.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        }
        remedy
    }

    #[test]
    fn edits_become_one_command_with_one_tag() {
        let options: &[&[&str]] = &[
            &["--platform-tag", "any"],
            &["--requires", "torch"],
            &["--platform-tag", "manylinux_2_35_x86_64"],
            &["--platform-tag", "manylinux_2_17_x86_64.manylinux_2_34_x86_64"],
            &["--requires", "torch"],
        ];
        let expected =
            "rocwheel edit a-1-py3-none-any.whl --in-place --platform-tag manylinux_2_35_x86_64 --requires torch";
        assert_eq!(remedy(options, None).commands(), [expected]);
        assert_eq!(remedy(&[], None).commands(), ["rocwheel edit a-1-py3-none-any.whl --in-place --record"]);
    }

    #[test]
    fn repairs_of_one_wheel_leave_out_what_each_leaves_out() {
        let mut remedies = Remedies::default();
        for libraries in [&["liba.so"][..], &["libb.so", "liba.so"], &[]] {
            let excluded = libraries.iter().map(|&name| name.to_owned()).collect();
            let step = Step::Repair(Repair { excluded, ..Repair::default() });
            remedies.wheel(&Fix { path: "a-1-py3-none-any.whl".into(), step, command: String::new() });
        }
        let expected = "rocwheel repair a-1-py3-none-any.whl --exclude liba.so --exclude libb.so";
        assert_eq!(remedies.commands(), [expected]);
    }

    #[test]
    fn a_repair_comes_last_and_sets_tags_and_search_paths() {
        let options: &[&[&str]] =
            &[&["--platform-tag", "manylinux_2_35_x86_64"], &["--drop", "tests/**"], &["--drop-absolute-rpath"]];
        let commands = remedy(options, Some(Repair::default())).commands();
        let edit = "rocwheel edit a-1-py3-none-any.whl --in-place --drop 'tests/**'";
        assert_eq!(commands, [edit, "rocwheel repair a-1-py3-none-any.whl"]);
    }
}
