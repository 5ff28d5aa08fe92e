//! Input: a file before pruning, and the written file. Output: sentences about differences that
//! should not exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use positioned_io::ReadAt;
use rayon::prelude::*;
use rocwheel_archive::MemberKind;
use rocwheel_content::{Content, Reader};
use rocwheel_kpack::bundle::{self, Bundle};
use rocwheel_kpack::{FatBinary, KpackArchive, Points};
use rocwheel_progress::{Failure, with_causes};
use rocwheel_wheel::Rewrite;
use rocwheel_wheel::read::{Wheel, WheelProblem};

use super::Keep;
use super::content::{Kind, looks_like, member_content};
use rocwheel_split::error::read_error;

/// Bytes compared at a time.
const WINDOW: usize = 1 << 20;

/// Number of code objects that were compared, and the differences.
type Found = (u64, Vec<String>);

pub(super) fn same(before: &dyn Content, after: &dyn Content) -> Result<Vec<String>, Failure> {
    if before.size() != after.size() {
        return Ok(vec![format!("{} bytes became {}", before.size(), after.size())]);
    }
    let (old, new) = (before.open().map_err(read_error("a copy"))?, after.open().map_err(read_error("a copy"))?);
    let mut buffers = [vec![0; WINDOW], vec![0; WINDOW]];
    let mut position = 0;
    while position < before.size() {
        let length = (before.size() - position).min(WINDOW as u64) as usize;
        old.read_exact_at(position, &mut buffers[0][..length]).map_err(read_error("a copy"))?;
        new.read_exact_at(position, &mut buffers[1][..length]).map_err(read_error("a copy"))?;
        if buffers[0][..length] != buffers[1][..length] {
            return Ok(vec![format!("its bytes from {position} on differ")]);
        }
        position += length as u64;
    }
    Ok(Vec::new())
}

/// Compares a pruned file with GPU code with the original.
pub(super) fn code(keep: &Keep, before: &Arc<dyn Content>, after: &Arc<dyn Content>) -> Result<Found, Failure> {
    let (old, new) = (before.open().map_err(read_error("a result"))?, after.open().map_err(read_error("a result"))?);
    let mut start = [0; 64];
    let length = start.len().min(before.size() as usize);
    old.read_exact_at(0, &mut start[..length]).map_err(read_error("a result"))?;
    let compared = match looks_like(&start[..length]) {
        Kind::Bundle => bundle_file(keep, (&old, before.size()), (&new, after.size())),
        Kind::Archive => archive(keep, (&old, before.size()), (&new, after.size())),
        _ => fat_binary(keep, before, after),
    };
    Ok(compared.unwrap_or_else(|error| (0, vec![error])))
}

type Side<'a> = (&'a Reader, u64);

fn bundle_file(keep: &Keep, before: Side<'_>, after: Side<'_>) -> Result<Found, String> {
    let [old, new] =
        [before, after].map(|(reader, size)| bundle::read(reader, 0..size).map_err(|error| with_causes(&error)));
    bundles(keep, &(before.0, 0..before.1, &old?), &(after.0, 0..after.1, &new?))
}

type Section<'a> = (&'a Reader, std::ops::Range<u64>, &'a [Bundle]);

/// Compares bundles one by one: each must have its original entries except those that were removed,
/// with the same bytes.
fn bundles(keep: &Keep, before: &Section<'_>, after: &Section<'_>) -> Result<Found, String> {
    if before.2.len() != after.2.len() {
        return Err(format!("{} bundles became {}", before.2.len(), after.2.len()));
    }
    let pairs: Vec<(&Bundle, &Bundle)> = before.2.iter().zip(after.2).collect();
    let compared = pairs.par_iter().enumerate().map(|(number, (old, new))| -> Result<Found, String> {
        let wanted = old.entries.iter().filter(|entry| entry.target().is_none_or(|target| keep.takes(target)));
        let present = new.entries.iter().map(|entry| (&entry.id, entry.size));
        if !wanted.map(|entry| (&entry.id, entry.size)).eq(present) {
            return Err(format!("bundle {number} does not have the entries that it should have"));
        }
        if new.compression.map(|header| header.version) != old.compression.map(|header| header.version)
            && old.compression.is_some()
        {
            return Err(format!("bundle {number} is compressed in another way"));
        }
        let was = hashes(old, before.0, before.1.clone(), keep)?;
        let is = hashes(new, after.0, after.1.clone(), keep)?;
        let differing = was.iter().filter(|(id, hash)| is.get(*id) != Some(hash));
        let differing = differing.map(|(id, _)| format!("the code object `{id}` of bundle {number} differs"));
        Ok((was.len() as u64, differing.collect()))
    });
    let compared: Vec<Found> = compared.collect::<Result<_, _>>()?;
    let count = compared.iter().map(|(count, _)| count).sum();
    Ok((count, compared.into_iter().flat_map(|(_, differences)| differences).collect()))
}

/// Returns the entries that are kept, with hashes of their bytes.
fn hashes(
    bundle: &Bundle,
    reader: &Reader,
    section: std::ops::Range<u64>,
    keep: &Keep,
) -> Result<BTreeMap<String, blake3::Hash>, String> {
    let mut hashes = BTreeMap::new();
    let visited = bundle.visit(reader, section, |entry, bytes| {
        if entry.target().is_none_or(|target| keep.takes(target)) {
            hashes.insert(entry.id.clone(), blake3::hash(bytes));
        }
        Ok::<(), rocwheel_kpack::Error>(())
    });
    visited.map_err(|error| with_causes(&error))?;
    Ok(hashes)
}

fn archive(keep: &Keep, before: Side<'_>, after: Side<'_>) -> Result<Found, String> {
    let [old, new] =
        [before, after].map(|(reader, size)| KpackArchive::open(reader, size).map_err(|error| with_causes(&error)));
    let (old, new) = (old?, new?);
    let mut differences = Vec::new();
    let targets: Vec<&String> = old.targets.iter().filter(|target| keep.takes(target)).collect();
    if targets != new.targets.iter().collect::<Vec<_>>() || (&old.group, &old.family) != (&new.group, &new.family) {
        differences.push("its group or its targets are not what they should be".to_owned());
    }
    let wanted: Vec<_> = old.entries().filter(|entry| keep.takes(entry.target)).collect();
    if wanted.len() != new.entries().len() {
        differences.push(format!("it should have {} code objects and has {}", wanted.len(), new.entries().len()));
    }
    for entry in &wanted {
        let name = format!("`{}` for {}", entry.key(), entry.target);
        let Some(found) = new.find(entry.name, entry.index, entry.target) else {
            differences.push(format!("{name} is missing"));
            continue;
        };
        let was = old.read(before.0, entry).map_err(|error| with_causes(&error))?;
        let is = new.read(after.0, &found).map_err(|error| with_causes(&error))?;
        if was != is {
            differences.push(format!("{name} differs"));
        }
    }
    Ok((wanted.len() as u64, differences))
}

fn fat_binary(keep: &Keep, before: &Arc<dyn Content>, after: &Arc<dyn Content>) -> Result<Found, String> {
    let [was, is] = [before, after].map(|content| -> Result<(Reader, FatBinary), String> {
        let reader = content.open().map_err(|error| error.to_string())?;
        let fat = FatBinary::read(&reader, content.size()).map_err(|error| with_causes(&error))?;
        Ok((reader, fat.ok_or("it has no section of GPU code")?))
    });
    let ((old, was), (new, is)) = (was?, is?);
    let (count, mut differences) =
        bundles(keep, &(&old, was.section.clone(), &was.bundles), &(&new, is.section.clone(), &is.bundles))?;
    if was.wrappers.len() != is.wrappers.len() {
        differences.push(format!("{} wrappers became {}", was.wrappers.len(), is.wrappers.len()));
    }
    for (number, (was, is)) in was.wrappers.iter().zip(&is.wrappers).enumerate() {
        let same = (was.address, was.magic, was.index) == (is.address, is.magic, is.index);
        if !same || was.points != is.points || !matches!(is.points, Points::Bundle(_)) {
            differences.push(format!("wrapper {number} does not reach the bundle that it reached"));
        }
    }
    differences.extend(rocwheel_split::verify::host_differences(&**before, &was, &**after, &is)?);
    Ok((count, differences))
}

/// A wheel and the changes that were requested.
pub(super) struct WheelBefore<'a> {
    pub(super) wheel: &'a Wheel,
    pub(super) change: &'a Rewrite,
    /// The original bytes of the members whose GPU code changed.
    pub(super) originals: &'a BTreeMap<String, Arc<dyn Content>>,
}

/// Compares a pruned wheel with the original.
pub(super) fn wheel(keep: &Keep, was: &WheelBefore<'_>, written: &Path, scratch: &Path) -> Result<Found, Failure> {
    let WheelBefore { wheel: before, change, originals } = was;
    let after = Arc::new(Wheel::open(written)?);
    let mut problems = after.verify()?;
    if !problems.is_empty() {
        // Damage in the input is not a defect of the result.
        let copies = problems.iter().filter_map(|problem| match problem {
            WheelProblem::Unreadable(name) if before.member(name).is_some() => Some(name.clone()),
            _ => None,
        });
        let copies: Vec<String> = copies.collect();
        before.check_members(copies.iter().map(String::as_str), &rocwheel_progress::Silent)?;
        let known: BTreeSet<WheelProblem> = before.verify()?.into_iter().collect();
        problems.retain(|problem| !known.contains(problem) && !matches!(problem, WheelProblem::FileName(_)));
    }
    let mut differences: Vec<String> = problems.iter().map(WheelProblem::to_string).collect();
    let mut count = 0;
    let record = format!("{}/RECORD", before.info());
    let generated = [record.clone(), format!("{record}.jws"), format!("{record}.p7s")];
    let mut expected = 0;
    for member in before.members().iter().filter(|member| member.kind != MemberKind::Directory) {
        let name = &member.name;
        if change.drop.contains(name) || generated.contains(name) {
            continue;
        }
        expected += 1;
        let Some(found) = after.member(name) else {
            differences.push(format!("`{name}` is missing"));
            continue;
        };
        if (found.mode, found.kind) != (member.mode, member.kind) {
            differences.push(format!("`{name}` has another mode"));
        }
        if let Some(original) = originals.get(name) {
            let new = member_content(&after, name, found.size, scratch)?;
            let (compared, found) = code(keep, original, &new)?;
            count += compared;
            differences.extend(found.into_iter().map(|what| format!("`{name}`: {what}")));
        } else if *name == format!("{}/METADATA", before.info())
            && let Some(text) = &change.metadata
        {
            if after.metadata()? != *text {
                differences.push(format!("`{name}` is not what was to be written"));
            }
        } else if let Some(text) = change.replace.get(name) {
            let new = member_content(&after, name, found.size, scratch)?;
            differences.extend(same(&**text, &*new)?.into_iter().map(|what| format!("`{name}`: {what}")));
        } else if !after.is_copy(name, before, name)? {
            differences.push(format!("`{name}` was not to change and did"));
        }
    }
    let files = after.members().iter().filter(|member| member.kind != MemberKind::Directory).count();
    if files != expected + 1 {
        differences.push(format!("it has {files} members and should have {}", expected + 1));
    }
    Ok((count, differences))
}

#[cfg(test)]
mod tests {
    use rocwheel_kpack::bundle::{BundleForm, Part, write};
    use rocwheel_tables::TargetTable;

    use super::*;

    fn bundle(objects: &[(&str, &[u8])]) -> Arc<dyn Content> {
        let ids: Vec<String> = objects.iter().map(|(target, _)| format!("hipv4-amdgcn-amd-amdhsa--{target}")).collect();
        let bytes: Vec<Vec<u8>> = objects.iter().map(|(_, code)| code.to_vec()).collect();
        let parts: Vec<Part<'_>> =
            ids.iter().zip(&bytes).map(|(id, code)| Part { id, size: code.len() as u64, content: code }).collect();
        let mut out = Vec::new();
        write(&parts, BundleForm::Plain, &mut out).unwrap();
        Arc::new(out)
    }

    #[test]
    fn mutations_are_found() {
        let keep = Keep::parse("gfx942,gfx90a", &TargetTable::embedded()).unwrap();
        let before = bundle(&[("gfx90a", b"one"), ("gfx942", b"two"), ("gfx1100", b"three")]);
        let check = |objects: &[(&str, &[u8])]| code(&keep, &before, &bundle(objects)).unwrap();
        assert_eq!(check(&[("gfx90a", b"one"), ("gfx942", b"two")]), (2, Vec::new()));
        // One byte is flipped, two objects are swapped, one is lost, one is left.
        let cases: [&[(&str, &[u8])]; 4] = [
            &[("gfx90a", b"one"), ("gfx942", b"twO")],
            &[("gfx90a", b"two"), ("gfx942", b"one")],
            &[("gfx90a", b"one")],
            &[("gfx90a", b"one"), ("gfx942", b"two"), ("gfx1100", b"three")],
        ];
        for objects in cases {
            assert!(!check(objects).1.is_empty(), "{objects:?}");
        }
    }

    #[test]
    fn copies_are_compared_to_the_last_byte() {
        let bytes = vec![7_u8; WINDOW + 10];
        assert!(same(&bytes, &bytes).unwrap().is_empty());
        let mut other = bytes.clone();
        other[WINDOW + 9] = 8;
        assert_eq!(same(&bytes, &other).unwrap(), [format!("its bytes from {WINDOW} on differ")]);
        assert_eq!(
            same(&bytes, &bytes[1..].to_vec()).unwrap(),
            [format!("{} bytes became {}", WINDOW + 10, WINDOW + 9)]
        );
    }
}
