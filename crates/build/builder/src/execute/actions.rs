//! Runs the actions of steps.

use std::path::{Path, PathBuf};
use std::time::Duration;

use globset::GlobBuilder;
use rocwheel_progress::{Exit, Failure};
use walkdir::WalkDir;

use crate::error;
use crate::execute::context::{Call, Context, compiled};
use crate::execute::folder::Log;
use rocwheel_process::ProcessEnd;
use rocwheel_recipe::recipe::{CopyAction, Pick, Replace, Text};
use rocwheel_recipe::script;
use rocwheel_recipe::source_digest;
use rocwheel_recipe::{Action, JobStep, More};

impl Context<'_> {
    /// Runs a step. Returns how its program ended if it was stopped.
    pub(super) fn step(&self, step: &JobStep, log: &mut Log) -> Result<Option<ProcessEnd>, Failure> {
        for provided in &step.provided {
            if !self.holds(provided)? {
                log.say("(skipped: its condition does not hold)")?;
                return Ok(None);
            }
        }
        match self.act(step, log) {
            Err(error) if error.exit() == Exit::Interrupted => Err(error),
            Err(error) if step.may_fail => {
                log.say(&format!("(it may fail: {})", rocwheel_progress::with_causes(&error)))?;
                Ok(None)
            }
            answer => answer,
        }
    }

    fn act(&self, step: &JobStep, log: &mut Log) -> Result<Option<ProcessEnd>, Failure> {
        match &step.action {
            Action::Run { command, more, expect } => {
                return self.run_step(step, (command, more), expect.as_deref(), log);
            }
            Action::Install { requirements, index } => {
                let index = index.as_deref().map(|index| self.text(index)).transpose()?;
                let timeout = Duration::from_secs(step.timeout);
                return self.install(&step.name, &self.texts(requirements)?, index.as_deref(), timeout, log);
            }
            Action::Uninstall(names) => return self.uninstall(&step.name, &self.texts(names)?, log),
            Action::Write(file) => self.write(file, log)?,
            Action::Append(file) => self.append(file, log)?,
            Action::Copy(copy) => self.copy(&step.name, copy, log)?,
            Action::Remove(paths) => self.remove(&step.name, &self.texts(paths)?, log)?,
            Action::Replace(replace) => self.replace(&step.name, replace, log)?,
            Action::Script(path) => {
                let text = script::published(&self.job.recipe, |name| self.fact(name).ok());
                let path = self.text(path)?;
                log.say(&format!("(writing the steps to {path})"))?;
                put(Path::new(&path), text.as_bytes())?;
            }
        }
        Ok(None)
    }

    fn run_step(
        &self,
        step: &JobStep,
        (command, more): (&[String], &[More]),
        expect: Option<&str>,
        log: &mut Log,
    ) -> Result<Option<ProcessEnd>, Failure> {
        let timeout = Duration::from_secs(step.timeout);
        let finished = loop {
            let mut environment = self.environment()?;
            for (name, value) in &step.set {
                environment.insert(name.clone(), self.text(value)?);
            }
            let mut words = self.texts(command)?;
            for more in more {
                if more.provided.as_ref().map_or(Ok(true), |provided| self.holds(provided))? {
                    words.extend(self.texts(&more.arguments)?);
                }
            }
            let directory = PathBuf::from(self.text(&step.directory)?);
            let call = Call { stage: &step.name, words, directory: &directory, environment: &environment, timeout };
            let finished = self.attempt(call, log)?;
            if !self.lets_fewer_run(&step.name, &finished, log)? {
                break finished;
            }
        };
        self.accept(&step.name, timeout, &finished, log)?;
        if finished.ended == ProcessEnd::Deadline {
            return Ok(Some(ProcessEnd::Deadline));
        }
        self.insist(&step.name, expect, &finished, log)?;
        Ok(None)
    }

    /// Leaves a file with the same content unchanged: a newer one would be compiled again.
    fn write(&self, file: &Text, log: &mut Log) -> Result<(), Failure> {
        let path = PathBuf::from(self.text(&file.path)?);
        let text = self.text(&file.text)?;
        if fs_err::read(&path).is_ok_and(|there| there == text.as_bytes()) {
            return log.say(&format!("({} is up to date)", path.display()));
        }
        log.say(&format!("(writing {})\n{text}", path.display()))?;
        put(&path, text.as_bytes())
    }

    /// Appends the text only if it is missing, so a step that was stopped can run again.
    fn append(&self, file: &Text, log: &mut Log) -> Result<(), Failure> {
        let path = PathBuf::from(self.text(&file.path)?);
        let text = self.text(&file.text)?;
        let mut whole = fs_err::read_to_string(&path)?;
        if !whole.contains(&text) {
            log.say(&format!("(at the end of {})\n{text}", path.display()))?;
            whole.push_str(&text);
            put(&path, whole.as_bytes())?;
        }
        Ok(())
    }

    fn copy(&self, stage: &str, copy: &CopyAction, log: &mut Log) -> Result<(), Failure> {
        let (from, to) = (self.text(&copy.from)?, PathBuf::from(self.text(&copy.to)?));
        log.say(&format!("(copying {from} to {})", to.display()))?;
        if copy.pick == Pick::Folder {
            if !Path::new(&from).is_dir() {
                return Err(self.broken(stage, format!("there is no folder `{from}`"), log));
            }
            fs_err::create_dir_all(&to)?;
            return Ok(source_digest::copy(Path::new(&from), &to, self.reporter)?);
        }
        let found = matching(&from)?;
        let file = match (&found[..], copy.pick) {
            ([], _) => return Err(self.broken(stage, format!("no file fits `{from}`"), log)),
            ([file], _) | ([file, ..], Pick::First) => file,
            _ => return Err(self.broken(stage, format!("{} files fit `{from}`", found.len()), log)),
        };
        let place = if copy.as_file { to } else { to.join(file.file_name().unwrap_or_default()) };
        if let Some(parent) = place.parent() {
            fs_err::create_dir_all(parent)?;
        }
        fs_err::copy(file, place)?;
        Ok(())
    }

    /// Removes paths, but only inside the sources and the job's own folder.
    fn remove(&self, stage: &str, paths: &[String], log: &mut Log) -> Result<(), Failure> {
        for path in paths {
            let path = PathBuf::from(path);
            let is_plain = !path.components().any(|part| matches!(part, std::path::Component::ParentDir));
            let inside = [self.source(), self.folder.clone()];
            if !is_plain || !inside.iter().any(|folder| path.starts_with(folder) && path != *folder) {
                let reason =
                    format!("`{}` is neither in the sources nor in the job's folder, and stays", path.display());
                return Err(self.broken(stage, reason, log));
            }
            log.say(&format!("(removing {})", path.display()))?;
            match path.symlink_metadata() {
                Err(_) => {}
                Ok(metadata) if metadata.is_dir() => fs_err::remove_dir_all(&path)?,
                Ok(_) => fs_err::remove_file(&path)?,
            }
        }
        Ok(())
    }

    fn replace(&self, stage: &str, replace: &Replace, log: &mut Log) -> Result<(), Failure> {
        let path = PathBuf::from(self.text(&replace.path)?);
        let with = self.text(&replace.with)?;
        let pattern = compiled(&replace.pattern)?;
        let text = fs_err::read_to_string(&path)?;
        let count = pattern.find_iter(&text).count();
        // If the step was stopped and runs again, nothing may be left to replace.
        if count == 0 && text.contains(&with) {
            return log.say(&format!("({} has it already)", path.display()));
        }
        if count == 0 {
            let reason = format!("`{}` has nothing that fits `{}`", path.display(), replace.pattern);
            return Err(self.broken(stage, reason, log));
        }
        log.say(&format!("(replacing {count} times in {})", path.display()))?;
        put(&path, pattern.replace_all(&text, with.as_str()).as_bytes())
    }
}

/// Files that fit a pattern, sorted. A path without pattern characters is itself.
pub(super) fn matching(pattern: &str) -> Result<Vec<PathBuf>, Failure> {
    let Some(sign) = pattern.find(['*', '?', '[', '{']) else {
        return Ok(Some(PathBuf::from(pattern)).filter(|path| path.is_file()).into_iter().collect());
    };
    let root = pattern[..sign].rfind('/').map_or(".", |end| &pattern[..end.max(1)]);
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    let glob = glob.map_err(|error| error::malformed("job", format!("`{pattern}` is no pattern: {error}")))?;
    let glob = glob.compile_matcher();
    let mut found = Vec::new();
    for entry in WalkDir::new(root).sort_by_file_name() {
        // Folders that cannot be entered have no files of ours.
        let Ok(entry) = entry else { continue };
        if entry.file_type().is_file() && glob.is_match(entry.path()) {
            found.push(entry.into_path());
        }
    }
    Ok(found)
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(parent) = path.parent() {
        fs_err::create_dir_all(parent)?;
    }
    Ok(fs_err::write(path, bytes)?)
}
