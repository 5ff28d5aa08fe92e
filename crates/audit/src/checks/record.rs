//! Input: the members of a wheel and its RECORD. Output: what does not match (RW016), hashes that
//! are none (RW017), and files that are not what they claim to be (RW023).

use rocwheel_wheel::read::Problem;

use super::{Context, Extra, Scope, file_name};
use crate::Error;
use crate::finding::{Code, Finding};
use crate::fix;
use rocwheel_loader::site::{Distribution, is_in_tree};

/// How a pointer of Git LFS begins, which stands for a file that was not fetched.
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/v1";

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, installed) in context.audited() {
        context.reporter.check()?;
        record(context, installed, findings)?;
        if context.options.scope == Scope::Files {
            unreadable(context, wheel, findings);
        }
    }
    Ok(())
}

fn record(context: &Context<'_>, installed: &Distribution, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let finding = |code, subject: &str, message: String| Finding::new(code, subject, message).of(installed.file_name());
    let Some(problems) = installed.problems(context.options.extras.contains(&Extra::Hashes)) else {
        // Installers may leave none, and then it is said what that means for the other questions.
        if installed.wheel().is_some() {
            let message = format!("there is no `{}/RECORD`", installed.info());
            findings.push(finding(Code::Record, "RECORD", message));
        }
        return Ok(());
    };
    let problems = match problems {
        Err(
            error @ (rocwheel_loader::Error::Wheel(rocwheel_wheel::Error::Malformed { .. })
            | rocwheel_loader::Error::Record { .. }),
        ) => {
            findings.push(finding(Code::Record, "RECORD", error.to_string()));
            return Ok(());
        }
        other => other?,
    };
    let missing = match installed.wheel() {
        Some(_) => "RECORD lists files that are not in the wheel",
        None => "RECORD lists files that no longer exist",
    };
    let mut unhashed = Vec::new();
    // What is true of many files is one finding.
    let mut groups: std::collections::BTreeMap<(&str, &str), Vec<String>> = std::collections::BTreeMap::new();
    for problem in problems {
        let (kind, name) = match problem {
            // The tags' module says it.
            Problem::FileName(_) => continue,
            Problem::NoHash(name) => {
                unhashed.push(name);
                continue;
            }
            Problem::Missing(name) => (("missing", missing), name),
            Problem::Unrecorded(name) => (("unrecorded", "RECORD does not list all files of the wheel"), name),
            Problem::Repeated(name) => (("repeated", "RECORD lists files more than once"), name),
            Problem::Hash(name) => (("hash", "the bytes are not those whose hash RECORD has"), name),
            Problem::Size(name) => (("size", "the size is not the one that RECORD has"), name),
            Problem::Unreadable(name) => (("damaged", "the bytes cannot be unpacked"), name),
        };
        groups.entry(kind).or_default().push(name);
    }
    for ((subject, message), names) in groups {
        let is_of_tree = subject == "missing" && names.iter().all(|name| is_in_tree(name));
        let mut finding = finding(Code::Record, subject, message.to_owned()).in_files(names);
        // Other bytes than those that were recorded are nothing to write down: somebody changed
        // them. An installer puts them back.
        if installed.wheel().is_none() || ["missing", "unrecorded", "repeated"].contains(&subject) {
            let of_tree = if is_of_tree { fix::devel_tree(installed) } else { None };
            finding = finding.fixed_by(of_tree.or_else(|| fix::record(installed)));
        }
        findings.push(finding);
    }
    if !unhashed.is_empty() {
        let is_written = installed.has_hash_text(&unhashed)?;
        let what = if is_written { "no hash that installers take" } else { "no hash" };
        let (all, _) = installed.totals();
        let message = format!("RECORD has {what} for {} of {all} files", unhashed.len());
        let finding = finding(Code::RecordHash, "RECORD", message).in_files(unhashed);
        findings.push(finding.fixed_by(fix::record(installed)));
    }
    Ok(())
}

fn unreadable(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    for path in context.paths(wheel) {
        if let Some(unreadable) = context.facts.unreadable.get(*path) {
            let (format, reason) = (unreadable.format, &unreadable.reason);
            let message = format!("begins as a file of the format {format} and cannot be read as one: {reason}");
            findings.push(context.finding((Code::Unreadable, wheel), unreadable.format, message, [*path]));
        } else if is_library_name(path) && !context.facts.objects.contains_key(*path) {
            let Some(why) = wrong_start(context, path) else { continue };
            let message = format!("is named as a library, and {why}");
            findings.push(context.finding((Code::Unreadable, wheel), file_name(path), message, [*path]));
        }
    }
}

fn is_library_name(path: &str) -> bool {
    let name = file_name(path);
    let is_versioned = |rest: &str| rest.split('.').all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    name.ends_with(".so")
        || name.starts_with("lib") && name.split_once(".so.").is_some_and(|(_, rest)| is_versioned(rest))
}

/// What a file that is no ELF file is instead, when that cannot be what its name promises.
fn wrong_start(context: &Context<'_>, path: &str) -> Option<&'static str> {
    let placed = context.site.files.get(path)?;
    let installed = &context.site.distributions[placed.wheel];
    if placed.size == 0 {
        return Some("it is empty");
    }
    let start = installed.start(&placed.member, 256).ok()?;
    if start.starts_with(LFS) {
        return Some("it is a pointer of Git LFS in place of the content");
    }
    // Mach-O files have the name too; text is for linkers, or the name of another file where links
    // were not kept.
    let is_mach = matches!(start.get(..4), Some(b"\xcf\xfa\xed\xfe" | b"\xce\xfa\xed\xfe" | b"\xca\xfe\xba\xbe"));
    let is_text =
        !start.contains(&0) && std::str::from_utf8(&start).map_or_else(|error| error.error_len().is_none(), |_| true);
    if is_mach || start.starts_with(b"MZ") || start.starts_with(b"!<arch>") {
        return None;
    }
    if !is_text {
        return Some("it is no program or library of any system");
    }
    let text = String::from_utf8_lossy(&start);
    let is_script =
        ["INPUT", "GROUP", "OUTPUT_FORMAT", "/*", "SEARCH_DIR"].iter().any(|word| text.trim_start().starts_with(word));
    let is_link = !text.trim().contains(char::is_whitespace) && text.contains(".so");
    if is_script {
        None
    } else if is_link {
        Some("it contains the name of another file: a link that was packed as text")
    } else {
        Some("it is text")
    }
}
