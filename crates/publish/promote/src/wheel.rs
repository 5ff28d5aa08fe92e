//! Input: a wheel of a set. Output: what changes in its members.

use std::collections::BTreeMap;
use std::path::Path;

use pep440_rs::Version;
use rayon::prelude::*;
use rocwheel_archive::{Listed, MemberKind, SearchedMembers};
use rocwheel_archive::{WriteOptions, Written};
use rocwheel_content::Content;
use rocwheel_content::archive_path::file_name;
use rocwheel_progress::{Failure, Reporter};
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{Existing, Headers, MemberOrder, Rewrite, canonical_name, rewrite_and_hash, same_version};

use crate::archive::{PlanError, TarPatch, plan_tar};
use crate::member::MemberPath;
use crate::planner::Planner;
use crate::rules::{Findings, LARGEST_TEXT};

#[derive(Debug, Default)]
pub(crate) struct WheelSteps {
    version: String,
    metadata: Option<String>,
    texts: BTreeMap<String, String>,
    tars: BTreeMap<String, TarPatch>,
    rename: BTreeMap<String, String>,
}

/// A wheel that was looked through.
pub(crate) struct PlannedMembers {
    pub(crate) steps: WheelSteps,
    pub(crate) findings: Findings,
    /// Its METADATA with the changes.
    pub(crate) metadata: String,
    /// SHA-256 of the wheel for which members were skipped.
    pub(crate) recorded: Option<String>,
}

/// What becomes of one member.
#[derive(Default)]
struct Look {
    text: Option<String>,
    tar: Option<TarPatch>,
    rename: Option<String>,
    findings: Findings,
}

/// Reads all members of a wheel that gets the version `new`, apart from those that do not say the
/// old one according to the packer's record, if this machine has it. `Err(Ok(reason))` is the
/// reason why it cannot get it.
pub(crate) fn plan_wheel(
    path: &Path,
    new: &Version,
    planner: &Planner<'_>,
) -> Result<PlannedMembers, Result<String, Failure>> {
    let wheel = Wheel::open(path).map_err(wheel_error)?;
    let metadata = wheel.metadata().map_err(wheel_error)?;
    let said = Headers::parse(&metadata).get("Version").unwrap_or_default();
    if !same_version(&said, &wheel.name.version) {
        return Err(Ok(format!("its METADATA says version `{said}`")));
    }
    // A problem of RECORD is found before anything is written.
    wheel.record().map_err(wheel_error)?;
    let searched = wheel.searched(planner.records);
    let searched = searched.filter(|searched| searched.text == planner.rules.change.sign());
    let names = [format!("{}/METADATA", wheel.info()), format!("{}/RECORD", wheel.info())];
    let looks: Vec<(&str, Look)> = wheel
        .members()
        .par_iter()
        .filter(|listed| listed.kind != MemberKind::Directory && !listed.name.starts_with(&names[1]))
        .map(|listed| {
            planner.reporter.check()?;
            let look = look_at(&wheel, listed, searched.as_ref(), planner)?;
            planner.reporter.advance(listed.compressed);
            Ok((listed.name.as_str(), look))
        })
        .collect::<Result<_, Failure>>()
        .map_err(Err)?;
    let mut planned = PlannedMembers {
        steps: WheelSteps { version: new.to_string(), ..WheelSteps::default() },
        findings: Findings::default(),
        metadata,
        recorded: searched.map(|searched| searched.sha256),
    };
    for (name, look) in looks {
        planned.findings.add(look.findings);
        if let Some(new) = look.rename {
            planned.findings.renamed.push((name.to_owned(), new.clone()));
            planned.steps.rename.insert(name.to_owned(), new);
        }
        if let Some(tar) = look.tar {
            planned.steps.tars.insert(name.to_owned(), tar);
        }
        if let Some(text) = look.text {
            if name == names[0] {
                planned.metadata.clone_from(&text);
                planned.steps.metadata = Some(text);
            } else {
                planned.steps.texts.insert(name.to_owned(), text);
            }
        }
    }
    let set = planner.rules.change.new_version();
    if planner.rules.is_floating && !new.local().is_empty() && new.clone().with_post(None) != *set {
        float_pins(&mut planned, set).map_err(wheel_error)?;
    }
    let says = Headers::parse(&planned.metadata).get("Version").unwrap_or_default();
    if !same_version(&says, &new.to_string()) {
        return Err(Ok(format!("its METADATA would say version `{says}` and not {new}")));
    }
    Ok(planned)
}

fn wheel_error(error: rocwheel_wheel::Error) -> Result<String, Failure> {
    Err(error.into())
}

fn look_at(
    wheel: &Wheel,
    listed: &Listed,
    searched: Option<&SearchedMembers>,
    planner: &Planner<'_>,
) -> Result<Look, Failure> {
    let &Planner { rules, ref memory, reporter, .. } = planner;
    let mut look = Look::default();
    let name = &listed.name;
    let path = MemberPath { path: name, shown: name };
    let stem = wheel.info().trim_end_matches(".dist-info");
    let data = format!("{stem}.data/");
    if let Some(rest) = name.strip_prefix(&format!("{}/", wheel.info())) {
        // The folder follows the file name by itself; in it no name has a version.
        rules.new_name(path, rest, &mut look.findings);
    } else if let Some(rest) = name.strip_prefix(&data) {
        let new = rules.new_name(path, rest, &mut look.findings);
        if new != rest {
            look.rename = Some(format!("{}{new}", rules.change.replaced(&data)));
        }
    } else {
        let new = rules.new_name(path, name, &mut look.findings);
        look.rename = (new != *name).then_some(new);
    }
    if listed.kind == MemberKind::Symlink {
        return Ok(look);
    }
    if file_name(name) == "_devel.tar" {
        let prefix = format!("{name}: ");
        let tar = plan_tar(wheel.stream(name)?, rules, &prefix, reporter, &mut look.findings);
        let tar = tar.map_err(|error| error.at(wheel.path(), reporter))?;
        look.tar = Some(tar).filter(|tar| !tar.is_empty());
    } else if file_name(name).starts_with("_devel.tar.") {
        rules.leave(path, "it is compressed and cannot be searched", &mut look.findings);
    } else if searched.is_some_and(|searched| !searched.members.contains(name)) && !rules.may_change(name) {
        // The packer searched it, and a record that lies cannot keep a text that has to change.
        return Ok(look);
    } else if listed.size <= LARGEST_TEXT {
        let findings = &mut look.findings;
        look.text = wheel.with_bytes(name, memory, |bytes| rules.new_text(path, bytes, findings))??;
    } else {
        let searched = rules.search(path, wheel.stream(name)?, reporter, &mut look.findings);
        searched.map_err(|error| PlanError::from(error).at(wheel.path(), reporter))?;
    }
    Ok(look)
}

/// Lets a framework take every patch of its ROCm: `==7.12.0` of ROCm's packages becomes `==7.12.*`,
/// and so does the version that it insists on when it is imported.
fn float_pins(planned: &mut PlannedMembers, rocm: &Version) -> Result<(), rocwheel_wheel::Error> {
    let minor = rocm.release().iter().take(2).map(ToString::to_string).collect::<Vec<_>>().join(".");
    let pin = format!("=={rocm}");
    let mut headers = Headers::parse(&planned.metadata);
    let said = std::cell::RefCell::new(Vec::new());
    headers.replace("Requires-Dist", |requirement| {
        let end = requirement.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter));
        let name = canonical_name(&requirement[..end.unwrap_or(requirement.len())]);
        let is_rocm = name == "rocm" || name == "rocm-profiler" || name.starts_with("rocm-sdk-");
        let at = requirement.find(&pin).filter(|_| is_rocm)?;
        let (before, after) = (&requirement[..at], &requirement[at + pin.len()..]);
        let is_whole = !after.starts_with(|letter: char| letter.is_ascii_alphanumeric() || ".+!".contains(letter));
        let new = is_whole.then(|| format!("{before}=={minor}.*{after}"))?;
        said.borrow_mut().push(format!("`{requirement}` becomes `{new}`"));
        Some(new)
    })?;
    planned.findings.notes.extend(said.into_inner());
    planned.metadata = headers.to_string();
    planned.steps.metadata = Some(planned.metadata.clone());
    for (name, text) in &mut planned.steps.texts {
        if file_name(name) == "_rocm_init.py" {
            *text = text.replace(&format!("'{rocm}'"), &format!("'{minor}.*'"));
        }
    }
    Ok(())
}

/// Writes the changed wheel into the folder `output`. Members that stay keep their packed bytes.
/// `scratch` is a folder for a tar that another tool packed and that changes. The answer has also
/// the SHA-256 of the input.
pub(crate) fn write_wheel(
    path: &Path,
    steps: &WheelSteps,
    (output, scratch): (&Path, &Path),
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<(Written, String), Failure> {
    let wheel = Wheel::open(path)?;
    let mut replace: BTreeMap<String, Box<dyn Content>> = BTreeMap::new();
    for (member, text) in &steps.texts {
        replace.insert(member.clone(), Box::new(text.clone().into_bytes()));
    }
    for (member, patch) in &steps.tars {
        let source = wheel.sparse(member, scratch)?;
        replace.insert(member.clone(), Box::new(patch.clone().content(source)));
    }
    let mut name = wheel.name.clone();
    if !same_version(&name.version, &steps.version) {
        name.version.clone_from(&steps.version);
    }
    let change = Rewrite {
        replace,
        rename: steps.rename.clone(),
        metadata: steps.metadata.clone(),
        name: (name != wheel.name).then_some(name),
        existing: Existing::Refuse,
        // Then the result has the bytes that `package` would have written.
        order: if is_ours(&wheel)? { MemberOrder::Sorted } else { MemberOrder::Kept },
        ..Rewrite::default()
    };
    Ok(rewrite_and_hash(&wheel, &change, output, options, reporter)?)
}

/// `true` for a wheel that this program wrote.
fn is_ours(wheel: &Wheel) -> Result<bool, Failure> {
    let generator = Headers::parse(&wheel.wheel()?).get("Generator").unwrap_or_default();
    Ok(generator.starts_with("rocwheel"))
}

impl WheelSteps {
    /// `true` if the wheel is copied byte for byte.
    pub(crate) fn is_empty(&self) -> bool {
        self.metadata.is_none() && self.texts.is_empty() && self.tars.is_empty() && self.rename.is_empty()
    }
}
