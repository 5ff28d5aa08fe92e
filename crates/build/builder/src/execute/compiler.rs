//! Input: the GPU targets of a job and the compiler of its ROCm. Output: an error for targets that
//! the compiler does not know, before hours are spent.

use std::collections::BTreeSet;
use std::env::consts::EXE_SUFFIX;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocwheel_progress::{Exit, Failure};
use rocwheel_tables::target::base_target;

use crate::error;
use crate::execute::context::{Call, Context};
use crate::execute::folder::Log;
use rocwheel_process::ProcessEnd;

/// Folders below ROCm's root that may have clang.
const FOLDERS: [&str; 2] = ["lib/llvm/bin", "llvm/bin"];
const PATIENCE: Duration = Duration::from_mins(5);

impl Context<'_> {
    /// Asks the compiler for its targets. A ROCm without clang is not checked.
    pub(super) fn check_compiler(&self, log: &mut Log) -> Result<Option<ProcessEnd>, Failure> {
        let root = PathBuf::from(self.fact("rocm.root")?);
        let program = format!("clang{EXE_SUFFIX}");
        // hipcc takes the one of the variable before its own; under Windows the recipes set it.
        let named = self.place.surroundings.get("HIP_CLANG_PATH").filter(|path| !cfg!(windows) && !path.is_empty());
        let folders = named.map_or_else(|| FOLDERS.map(|folder| root.join(folder)).to_vec(), |path| vec![path.into()]);
        let mut clang = folders.iter().map(|folder| folder.join(&program)).find(|path| path.is_file());
        if clang.is_none() && named.is_none() {
            // Debian's hipcc calls the distribution's clang, and only hipconfig knows its folder.
            clang = match self.fact("rocm.clang") {
                Ok(folder) => Some(Path::new(&folder).join(&program)).filter(|path| path.is_file()),
                Err(error) if error.exit() == Exit::Interrupted => return Err(error),
                // Otherwise the run that continues would not check it.
                Err(_) if self.is_late() => return Ok(Some(ProcessEnd::Deadline)),
                Err(_) => None,
            };
        }
        let Some(clang) = clang else {
            let searched = folders.iter().map(|folder| format!("`{}`", folder.display())).collect::<Vec<_>>();
            return log.say(&format!("(not checked: no {program} in {})", searched.join(" or "))).map(|()| None);
        };
        let clang = clang.to_string_lossy().into_owned();
        // Without `-nogpulib`, clang looks for device libraries before it answers, and fails if
        // there are none.
        let options = ["--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus"];
        let words = std::iter::once(clang.as_str()).chain(options).map(str::to_owned).collect();
        let environment = self.base_environment();
        let call =
            Call { stage: "compiler", words, directory: &self.folder, environment: &environment, timeout: PATIENCE };
        let finished = self.attempt(call, log)?;
        if finished.ended == ProcessEnd::Deadline {
            return Ok(Some(ProcessEnd::Deadline));
        }
        let known: BTreeSet<&str> =
            finished.lines().flat_map(str::split_whitespace).filter(|word| word.starts_with("gfx")).collect();
        if known.is_empty() {
            return log.say("(not checked: it lists no targets)").map(|()| None);
        }
        // The list has GPUs only. `amdgcnspirv` is not a GPU, but code for all of them.
        let targets = self.job.recipe.targets.names.iter().map(String::as_str);
        let (fine, unknown): (Vec<&str>, Vec<&str>) =
            targets.partition(|target| !target.starts_with("gfx") || known.contains(base_target(target)));
        if unknown.is_empty() {
            return Ok(None);
        }
        let hint = if fine.is_empty() {
            format!("it knows {}", known.into_iter().collect::<Vec<_>>().join(", "))
        } else {
            format!("build for the others: `--gpu-targets {}`", fine.join(","))
        };
        let reason = format!("the compiler `{clang}` does not know {}", unknown.join(","));
        Err(error::preflight(&self.job.title(), &reason, hint))
    }
}
