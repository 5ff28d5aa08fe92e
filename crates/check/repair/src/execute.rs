//! Input: a [`PreparedRepair`] plan and a folder. Output: the repaired wheel, complete or not at
//! all.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use rocwheel_content::{Content, FileContent, Reader};
use rocwheel_elf::{NeededEdit, Patch, Patched, SearchPath, SearchPathTag, StackFlag};
use rocwheel_output::{Staged, StagedFile, StagingFolder};
use rocwheel_progress::{Failure, Reporter, write_error};
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{Member, Rewrite, WheelName};
use serde::Serialize;

use crate::plan::{Plan, PlannedEdit};
use crate::{Error, PreparedRepair, Request, budget, error, strip};

#[derive(Debug, Clone, Serialize)]
pub struct RepairedWheel {
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// `true` if it is a copy of the input, because there was nothing to repair.
    pub unchanged: bool,
    /// Members that keep their symbols because `strip` would break them.
    pub unstripped: Vec<String>,
}

/// A member with its new bytes.
struct Replaced {
    member: String,
    content: Box<dyn Content>,
    /// `true` if `strip` would have broken it, so it keeps its symbols.
    is_unstripped: bool,
}

/// A binary to which a patch is applied when it is read.
struct Edited {
    original: Arc<dyn Content>,
    patch: Patch,
}

impl Content for Edited {
    fn size(&self) -> u64 {
        self.patch.size
    }

    fn open(&self) -> io::Result<Reader> {
        Ok(Box::new(Patched::new(self.original.open()?, self.patch.clone())))
    }

    fn origin(&self) -> Option<&Path> {
        self.original.origin()
    }
}

impl PreparedRepair {
    /// Executes the plan: writes the wheel to the folder `output`, which is created if it is
    /// missing. The wheel gets its name when it is complete and not larger than allowed. The input
    /// does not change.
    pub fn execute(&self, output: &Path, request: &Request, reporter: &dyn Reporter) -> Result<RepairedWheel, Error> {
        Ok(self.write(output, request, reporter)?.commit()?)
    }

    /// Like [`PreparedRepair::execute`] without the last step, so the wheel can be checked before
    /// it is moved.
    pub fn write(
        &self,
        output: &Path,
        request: &Request,
        reporter: &dyn Reporter,
    ) -> Result<Staged<RepairedWheel>, Error> {
        let target = output.join(&self.plan.output);
        if is_same(&self.plan.input, &target) {
            return Err(rocwheel_wheel::Error::SameFile { path: target }.into());
        }
        let staging = StagingFolder::for_results(output, ".rocwheel-")
            .map_err(write_error(output))
            .map_err(Error::file("make a temporary folder in", output))?;
        let staged = staging.path().join(&self.plan.output);
        let mut unstripped = Vec::new();
        if self.plan.is_empty() {
            fs_err::copy(&self.plan.input, &staged)
                .map_err(write_error(&target))
                .map_err(Error::file("write", &target))?;
        } else {
            let rewrite;
            (rewrite, unstripped) = self.rewrite(request)?;
            rocwheel_wheel::rewrite(&self.wheel, &rewrite, staging.path(), &request.write, reporter)?;
        }
        let size = fs_err::metadata(&staged).map_err(Error::file("read", &staged))?.len();
        if let Some(budget) = request.budget.filter(|budget| size > *budget) {
            let largest = budget::largest(&Wheel::open(&staged)?, &self.plan);
            let (name, more) = (&self.plan.output, size - budget);
            let mut text = format!("`{name}` would have {size} bytes, {more} more than the budget of {budget}:");
            text.extend(largest.iter().map(|line| format!("\n  {line}")));
            return Err(Failure::message(text)
                .with_hint(
                    "exclude libraries with `--exclude` or `--mode rocm`, remove symbols with `--strip`, or raise \
                     `--size-budget`",
                )
                .into());
        }
        let outcome = RepairedWheel { path: target.clone(), size, unchanged: self.plan.is_empty(), unstripped };
        Ok(Staged::new(staging, outcome).with_file(StagedFile { staged, place: target }))
    }

    /// The changes of the wheel, and the members that keep their symbols because `strip` would
    /// break them.
    fn rewrite(&self, request: &Request) -> Result<(Rewrite, Vec<String>), Error> {
        let plan = &self.plan;
        let name: WheelName = plan.output.parse()?;
        let mut rewrite = Rewrite {
            metadata: self.metadata.clone(),
            wheel: plan.tags.wheel.clone(),
            name: Some(name),
            ..Rewrite::default()
        };
        let edited = self.edited(plan, request)?;
        for text in &plan.texts {
            let content = Box::new(text.bytes.clone());
            if text.replaces {
                rewrite.replace.insert(text.member.clone(), content);
            } else {
                rewrite.add.push(Member { name: text.member.clone(), executable: text.executable, content });
            }
        }
        let moved: BTreeMap<&str, &str> =
            plan.edits.iter().filter_map(|edit| Some((edit.member.as_str(), edit.moved_to.as_deref()?))).collect();
        let mut tree: BTreeMap<&str, bool> = BTreeMap::new();
        for file in plan.tree.iter().flat_map(|tree| &tree.files) {
            tree.insert(&file.member, file.executable);
        }
        let grafts: BTreeMap<&str, bool> =
            plan.grafted.iter().map(|graft| (graft.member.as_str(), graft.executable)).collect();
        let mut unstripped = Vec::new();
        for Replaced { member, content, is_unstripped } in edited {
            if is_unstripped {
                unstripped.push(member.clone());
            }
            if let Some(executable) = tree.remove(member.as_str()).or_else(|| grafts.get(member.as_str()).copied()) {
                rewrite.add.push(Member { name: member, executable, content });
            } else if let Some(place) = moved.get(member.as_str()) {
                rewrite.add.push(Member { name: (*place).to_owned(), executable: true, content });
            } else {
                rewrite.replace.insert(member, content);
            }
        }
        // The other files of the tree are added unchanged.
        for file in plan.tree.iter().flat_map(|tree| &tree.files).filter(|file| tree.contains_key(file.member.as_str()))
        {
            let content = FileContent { path: file.source.clone(), size: file.size };
            rewrite.add.push(Member {
                name: file.member.clone(),
                executable: file.executable,
                content: Box::new(content),
            });
        }
        Ok((rewrite, unstripped))
    }

    /// Every binary that changes, with its member.
    fn edited(&self, plan: &Plan, request: &Request) -> Result<Vec<Replaced>, Error> {
        let binaries: BTreeMap<&str, &Arc<dyn Content>> =
            self.inventory.binaries.iter().map(|binary| (binary.member.as_str(), &binary.content)).collect();
        let of_wheel = plan
            .edits
            .iter()
            .filter_map(|edit| Some((&edit.member, Arc::clone(binaries.get(edit.member.as_str())?), &edit.edit)));
        let mut jobs: Vec<(&String, Arc<dyn Content>, &PlannedEdit)> = of_wheel.collect();
        for graft in &plan.grafted {
            let content = FileContent { path: graft.source.clone(), size: graft.size };
            jobs.push((&graft.member, Arc::new(content), &graft.edit));
        }
        jobs.into_par_iter().map(|(member, content, edit)| self.edit(member, content, edit, request)).collect()
    }

    fn edit(
        &self,
        member: &str,
        content: Arc<dyn Content>,
        edit: &PlannedEdit,
        request: &Request,
    ) -> Result<Replaced, Error> {
        let stripped = match (&request.strip, edit.strip) {
            (Some(program), true) => Some(strip::strip(&*content, member, program, &request.scratch)?),
            _ => None,
        };
        let is_unstripped = matches!(stripped, Some(None));
        let original: Arc<dyn Content> = match stripped.flatten() {
            Some(stripped) => Arc::new(stripped),
            None => content,
        };
        let reader = original.open().map_err(Error::file("read", self.wheel.path()))?;
        let patch = in_elf_terms(edit).plan(&reader).map_err(error::binary(self.wheel.path(), member))?;
        Ok(Replaced { member: member.to_owned(), content: Box::new(Edited { original, patch }), is_unstripped })
    }
}

fn in_elf_terms(edit: &PlannedEdit) -> rocwheel_elf::Edit {
    let replaced = edit.needed.iter().map(|(from, to)| NeededEdit::Replace { from: from.clone(), to: to.clone() });
    let removed = edit.removed.iter().map(|name| NeededEdit::Remove(name.clone()));
    rocwheel_elf::Edit {
        search_path: edit.search_path.clone().map(SearchPath::Set),
        search_path_tag: SearchPathTag::Rpath,
        soname: edit.soname.clone(),
        needed: replaced.chain(removed).collect(),
        stack: if edit.stack { StackFlag::Clear } else { StackFlag::Keep },
    }
}

fn is_same(input: &Path, output: &Path) -> bool {
    match (rocwheel_system::canonicalize(input), rocwheel_system::canonicalize(output)) {
        (Ok(input), Ok(output)) => input == output,
        _ => false,
    }
}
