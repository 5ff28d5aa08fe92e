//! Input: a wheel. Output: the same without the code for other targets, in the staging folder,
//! checked against the original.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rocwheel_archive::MemberKind;
use rocwheel_content::{Content, FileContent};
use rocwheel_wheel::Rewrite;
use rocwheel_wheel::read::Wheel;

use rocwheel_progress::Failure;

use super::code::Fate;
use super::content::{Kind, looks_like, member_content};
use super::error::{not_pruned, nothing_left};
use super::outcome::sorted;
use super::pruner::Pruner;
use super::{Empty, PruneAction, Pruned, PrunedFile, check, device_extras};
use rocwheel_split::error::contradiction_error;
use rocwheel_split::verify::contradiction;

/// Bytes that a member takes besides its content: its two headers, each without the name.
const HEADERS: u64 = 30 + 46;

pub(super) struct WheelFile<'a> {
    pruner: &'a Pruner<'a>,
    path: &'a Path,
    wheel: Arc<Wheel>,
    change: Rewrite,
    originals: BTreeMap<String, Arc<dyn Content>>,
    pruned: Pruned,
}

impl<'a> WheelFile<'a> {
    /// Reads the wheel and decides about its members. Only temporary files are written.
    pub(super) fn read(pruner: &'a Pruner<'a>, path: &'a Path) -> Result<Self, Failure> {
        let wheel = Arc::new(Wheel::open(path)?);
        let scratch = pruner.options.scratch;
        let before = fs_err::metadata(path)?.len();
        let pruned = Pruned { before, after: before, ..Pruned::default() };
        let (change, originals) = (Rewrite::default(), BTreeMap::new());
        let mut file = Self { pruner, path, wheel: Arc::clone(&wheel), change, originals, pruned };
        for member in wheel.members().iter().filter(|member| member.kind != MemberKind::Directory) {
            let is_database = pruner.database_target(&member.name).is_some();
            if member.kind != MemberKind::File
                || !is_database && looks_like(&wheel.start(&member.name, 64)?) == Kind::Other
            {
                file.pruned.others += 1;
                continue;
            }
            let content = member_content(&wheel, &member.name, member.size, scratch)?;
            let verdict = pruner.judge(&member.name, &content)?;
            if verdict.kind == Kind::Other {
                file.pruned.others += 1;
                continue;
            }
            file.pruned.files.push(verdict.listed(&member.name, member.size));
            match verdict.fate {
                Fate::Stays => {}
                Fate::Goes => {
                    file.pruned.after -= member.compressed + HEADERS + 2 * member.name.len() as u64;
                    file.change.drop.insert(member.name.clone());
                }
                Fate::WouldChange(forecast) => {
                    let packed = if member.is_stored() {
                        forecast.size
                    } else {
                        forecast.packed(member.size, member.compressed)
                    };
                    file.pruned.after = (file.pruned.after - member.compressed).saturating_add(packed);
                    file.pruned.estimated |= forecast.is_estimate || !member.is_stored();
                }
                Fate::Changes(new) => {
                    file.originals.insert(member.name.clone(), content);
                    file.change.replace.insert(member.name.clone(), Box::new(new));
                }
            }
        }
        file.extras()?;
        // RECORD loses rows and is compressed to another size.
        file.pruned.estimated |= pruner.is_dry() && file.changes();
        Ok(file)
    }

    /// Removes the extras that require device wheels of other targets.
    fn extras(&mut self) -> Result<(), Failure> {
        let extras = device_extras::prune(&self.wheel.metadata()?, &self.pruner.options.keep, self.pruner.table);
        if extras.kept.is_empty() && extras.dropped.is_empty() {
            return Ok(());
        }
        let name = format!("{}/METADATA", self.wheel.info());
        let before = self.wheel.member(&name).map_or(0, |member| member.size);
        let after = extras.metadata.as_ref().map_or(before, |text| text.len() as u64);
        self.pruned.others -= 1;
        self.pruned.files.push(PrunedFile {
            path: name,
            action: if extras.metadata.is_some() { PruneAction::Changed } else { PruneAction::Kept },
            before,
            after,
            estimated: false,
            kept: sorted(extras.kept),
            dropped: sorted(extras.dropped.clone()),
            note: None,
        });
        self.change.metadata = extras.metadata;
        let name = format!("{}/variant.json", self.wheel.info());
        if self.wheel.member(&name).is_some() {
            let before = self.wheel.bytes(&name)?;
            let text = device_extras::variant(&String::from_utf8_lossy(&before), &extras.dropped);
            if let Some(text) = text {
                self.change.replace.insert(name, Box::new(text.into_bytes()));
            }
        }
        Ok(())
    }

    /// `true` if the result differs from the input. In a dry run the new members are not known.
    fn changes(&self) -> bool {
        self.pruned.files.iter().any(|file| file.action != PruneAction::Kept)
    }

    /// `true` if all its files with GPU code are for other targets, as in a device wheel.
    pub(super) fn is_for_others(&self) -> bool {
        !self.pruned.files.is_empty() && self.pruned.files.iter().all(|file| file.action == PruneAction::Dropped)
    }

    /// Returns the record of the wheel as a file that is removed from a directory.
    pub(super) fn dropped(&self, path: &str) -> PrunedFile {
        let note = Some("a wheel for other targets".to_owned());
        PrunedFile { action: PruneAction::Dropped, after: 0, estimated: false, note, ..self.pruned.as_file(path) }
    }

    /// Fails if the wheel had code and none would be left, unless that is allowed.
    pub(super) fn check_empty(&self) -> Result<(), Failure> {
        let files = &self.pruned.files;
        let is_empty =
            files.iter().all(|file| file.kept.is_empty()) && files.iter().any(|file| !file.dropped.is_empty());
        if self.pruner.options.empty == Empty::Allow || !is_empty {
            return Ok(());
        }
        let found = sorted(files.iter().flat_map(|file| file.dropped.iter().cloned())).join(", ");
        Err(nothing_left(&self.path.to_string_lossy(), None, &found))
    }

    /// Writes the wheel to `result`, which is `None` in a dry run, and checks it. An unchanged
    /// wheel is not written if it is pruned in place.
    pub(super) fn write(self, result: Option<&Path>, in_place: bool) -> Result<Pruned, Failure> {
        let Self { pruner, path, wheel, change, originals, mut pruned } = self;
        let Some(result) = result else { return Ok(pruned) };
        if change.drop.is_empty() && change.replace.is_empty() && change.metadata.is_none() {
            if !in_place {
                let members = wheel.members().iter().filter(|member| member.kind != MemberKind::Directory);
                wheel.check_members(members.map(|member| member.name.as_str()), pruner.reporter)?;
                fs_err::copy(path, result)?;
                let differences = check::same(&FileContent::new(path)?, &FileContent::new(result)?)?;
                if !differences.is_empty() {
                    return Err(not_pruned(path, &differences));
                }
            }
            return Ok(pruned);
        }
        let folder = tempfile::tempdir_in(result.parent().unwrap_or(result))?;
        let written = rocwheel_wheel::rewrite(&wheel, &change, folder.path(), &pruner.options.write, pruner.reporter)?;
        pruned.after = written.compressed;
        let was = check::WheelBefore { wheel: &wheel, change: &change, originals: &originals };
        let (verified, differences) = check::wheel(&pruner.options.keep, &was, &written.path, pruner.options.scratch)?;
        if !differences.is_empty() {
            let damaged = originals.iter().find_map(|(name, content)| Some((name, contradiction(&**content)?)));
            return Err(match damaged {
                Some((name, why)) => contradiction_error(name, &why),
                None => not_pruned(path, &differences),
            });
        }
        pruned.verified = verified;
        fs_err::set_permissions(&written.path, fs_err::metadata(path)?.permissions())?;
        rocwheel_system::rename(&written.path, result)?;
        Ok(pruned)
    }
}
