//! Finds the result of a build, checks and audits it, and moves it into the folder of outputs.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use rocwheel_audit::written::{self, WheelSet};
use rocwheel_output::{Staged, StagedFile, StagingFolder};
use rocwheel_progress::{Failure, counted};
use rocwheel_wheel::WheelName;
use rocwheel_wheel::read::Wheel;

use crate::error;
use crate::execute::actions::matching;
use crate::execute::context::Context;
use crate::execute::folder::{Folder, is_ours};
use crate::execute::{ExistingOutput, LastLook, Listener, tarball};
use rocwheel_recipe::Pythons;
use rocwheel_recipe::recipe::Tarball;
use rocwheel_recipe::{BuiltFile, Rocm};

impl Context<'_> {
    /// Copies the result into the job's own folder if it is the expected one.
    pub(super) fn collect(&self, folder: &mut Folder) -> Result<(), Failure> {
        let made = self.fresh_made()?;
        let output = &self.job.recipe.output;
        let relative = match (&output.wheel, &output.tarball) {
            (Some(pattern), _) => self.wheel(pattern, &made)?,
            (None, Some(tarball)) => self.tarball(tarball, &made)?,
            (None, None) => return Err(error::malformed("job", "it has no output")),
        };
        let path = made.join(&relative);
        let size = path.metadata()?.len();
        if size < output.smallest {
            let reason =
                format!("`{}` has {size} bytes, and at least {} were expected", relative.display(), output.smallest);
            return Err(
                self.wrong(reason, Some("the file is too small to be complete: look at the log of the step `wheel`"))
            );
        }
        folder.set_outputs(vec![BuiltFile {
            path: relative,
            size,
            sha256: rocwheel_source::sha256(&path, &rocwheel_progress::Silent)?,
        }])
    }

    fn wrong(&self, reason: impl Display, hint: Option<&str>) -> Failure {
        error::with_optional_hint(format!("{} made the wrong thing: {reason}", self.job.title()), hint)
    }

    fn wheel(&self, pattern: &str, made: &Path) -> Result<PathBuf, Failure> {
        let found = matching(&format!("{}/{pattern}", self.source().to_string_lossy()))?;
        let file = match &found[..] {
            [file] => file,
            [] => {
                let hint = "the step that makes it ended well and made nothing of that name: its log says what it did";
                return Err(self.wrong(format!("no file fits `{pattern}`"), Some(hint)));
            }
            many => {
                let names: Vec<_> = many.iter().filter_map(|path| path.file_name()?.to_str()).collect();
                let hint = "a `remove` step of the recipe has to clear what earlier builds left";
                return Err(
                    self.wrong(format!("{} files fit `{pattern}`: {}", many.len(), names.join(", ")), Some(hint))
                );
            }
        };
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parsed: WheelName = name.parse()?;
        self.check_name(&parsed)?;
        let wheel = Wheel::open(file)?;
        if !wheel.name_agrees() {
            return Err(self.wrong(format!("METADATA and WHEEL of `{name}` contradict its name"), None));
        }
        let problems = wheel.verify()?;
        if !problems.is_empty() {
            return Err(self.wrong(format!("RECORD of `{name}` is not true in {} places", problems.len()), None));
        }
        fs_err::copy(file, made.join(&name))?;
        Ok(PathBuf::from(name))
    }

    fn check_name(&self, name: &WheelName) -> Result<(), Failure> {
        let recipe = &self.job.recipe;
        let names = recipe.distribution.iter().chain(&recipe.output.other_names);
        let canonical = rocwheel_wheel::canonical_name(&name.distribution);
        if !names.clone().any(|known| rocwheel_wheel::canonical_name(known) == canonical) {
            let names: Vec<&str> = names.map(String::as_str).collect();
            return Err(self.wrong(format!("`{name}` is not a wheel of {}", names.join(" or ")), None));
        }
        if let Some(version) = &recipe.version {
            let wanted = self.text(version)?;
            if !rocwheel_wheel::same_version(&wanted, &name.version) {
                let hint =
                    "the framework did not take the version from its environment: `rocwheel recipe show` prints it";
                return Err(self.wrong(format!("`{name}` has version {}, not {wanted}", name.version), Some(hint)));
            }
        }
        match recipe.python {
            Pythons::Any if name.pythons.iter().any(|python| python.starts_with("cp")) => {
                Err(self.wrong(format!("`{name}` is for one Python, and the recipe says any"), None))
            }
            Pythons::Each => {
                let Some(python) = recipe.cell.python else { return Ok(()) };
                let tag = format!("cp{}{}", python.major, python.minor);
                let abi = format!("{tag}{}", if python.free_threaded { "t" } else { "" });
                let fits = name.pythons.contains(&tag) && name.abis.contains(&abi);
                // Wheels for the stable ABI and wheels without compiled code fit too.
                let fits = fits || name.abis.iter().any(|abi| abi == "abi3" || abi == "none");
                if fits { Ok(()) } else { Err(self.wrong(format!("`{name}` is not for Python {python}"), None)) }
            }
            Pythons::Any => Ok(()),
        }
    }

    fn tarball(&self, tarball: &Tarball, made: &Path) -> Result<PathBuf, Failure> {
        let (from, relative) = (PathBuf::from(self.text(&tarball.from)?), PathBuf::from(self.text(&tarball.path)?));
        let is_inside =
            relative.is_relative() && relative.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_inside {
            return Err(self.wrong(format!("`{}` would be outside the outputs", relative.display()), None));
        }
        if let Some(missing) = tarball.holds.iter().find(|file| !from.join(file).is_file()) {
            return Err(self.wrong(format!("`{missing}` was not made"), None));
        }
        tarball::write(&from, &tarball.members, &made.join(&relative), self.job.epoch)?;
        Ok(relative)
    }

    /// Audits the result and moves it into the folder of outputs.
    pub(super) fn publish(&self, folder: &mut Folder, listener: &dyn Listener) -> Result<(), Failure> {
        let outputs = folder.outputs().to_vec();
        if self.job.recipe.output.wheel.is_some() && self.place.last_look == LastLook::Audit {
            self.audit(&outputs, listener)?;
        }
        let mut new = Vec::new();
        for made in &outputs {
            let place = self.place.output.join(&made.path);
            let there =
                place.is_file().then(|| rocwheel_source::sha256(&place, &rocwheel_progress::Silent)).transpose()?;
            // A run that was killed before it could record this moved the file there.
            if there.as_ref() == Some(&made.sha256) {
                continue;
            }
            if let (Some(there), ExistingOutput::Refuse) = (&there, self.place.existing)
                && !is_ours(&self.place.work, &made.path, there)
            {
                let reason = format!("`{}` exists, has other contents and is no earlier result", place.display());
                return Err(self.wrong(reason, Some("`--overwrite` replaces it")));
            }
            new.push(made);
        }
        // The files are first copied beside their destinations, because the job's folder may be on
        // another file system.
        let staging = StagingFolder::for_results(&self.place.output, ".rocwheel-")?;
        let beside = staging.path().to_owned();
        let mut staged = Staged::new(staging, ());
        for made in new {
            let file = StagedFile { staged: beside.join(&made.path), place: self.place.output.join(&made.path) };
            fs_err::create_dir_all(file.staged.parent().unwrap_or(&beside))?;
            fs_err::copy(self.folder.join("made").join(&made.path), &file.staged)?;
            staged = staged.with_file(file);
        }
        staged.commit()?;
        folder.set_published()
    }

    /// Names of the libraries of an installed ROCm. A wheel that is built against it finds them
    /// there, and no other wheel brings them.
    fn libraries_of_prefix(&self) -> Result<BTreeSet<String>, Failure> {
        let Rocm::Prefix { path, .. } = &self.job.rocm else { return Ok(BTreeSet::new()) };
        let mut names = BTreeSet::new();
        for folder in ["lib", "lib/rocm_sysdeps/lib", "lib/host-math/lib"].map(|folder| path.join(folder)) {
            if folder.is_dir() {
                for entry in fs_err::read_dir(&folder)? {
                    names.extend(entry?.file_name().into_string().ok().filter(|name| name.contains(".so")));
                }
            }
        }
        Ok(names)
    }

    fn audit(&self, outputs: &[BuiltFile], listener: &dyn Listener) -> Result<(), Failure> {
        let wheels = outputs.iter().filter(|made| WheelName::is_wheel(&made.path)).map(|made| StagedFile {
            staged: self.folder.join("made").join(&made.path),
            place: self.place.output.join(&made.path),
        });
        let beside = self.beside();
        let set =
            WheelSet { wheels: wheels.collect(), beside, left_out: self.libraries_of_prefix()?, ..WheelSet::default() };
        let scratch = tempfile::tempdir_in(&self.folder)?;
        let verdict = written::judge(&set, scratch.path(), self.reporter)?;
        if let Some(first) = verdict.new_errors.first() {
            let wheel = set.wheels.first().map(|wheel| wheel.staged.to_string_lossy().into_owned());
            let (wheel, errors) = (wheel.unwrap_or_default(), counted(verdict.new_errors.len() as u64, "error"));
            let (code, message) = (first.code.text(), &first.message);
            return Err(Failure::message(format!("the audit finds {errors} in `{wheel}`: {code} {message}"))
                .with_hint(format!("`rocwheel audit {wheel}` shows all; `--no-audit` accepts the wheel")));
        }
        listener.remarks(&self.job.title(), verdict.remarks.len());
        Ok(())
    }
}
