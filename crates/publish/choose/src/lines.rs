//! Input: a set. Output: what to type or to write into a file so that exactly this set is
//! installed, each resolved again.
//!
//! Of several indexes pip takes the highest version, and of equal ones the highest build tag, so no
//! line gives pip two of them without hashes. uv takes a name from the first index that has it.

use std::path::Path;

use rayon::prelude::*;
use rocwheel_index::requirement::InstallTarget;
use rocwheel_progress::{Failure, shell_word};
use rocwheel_wheel::{Platform, WheelName};
use serde::Serialize;

use crate::lock::{LockedPackage, parse_lock};
use crate::question::Question;
use crate::resolver::{Outcome, Pip, Query, Resolvers, Uv, run, said, uv_platform};
use crate::set::{ChosenPackage, PackageOrigin, Set, pinned};

const PIP: &str = "pip install";

/// What a line is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Installer {
    Pip,
    Uv,
    UvProject,
    Requirements,
    Pylock,
    Dockerfile,
}

impl Installer {
    pub const ALL: [Installer; 6] =
        [Self::Pip, Self::Uv, Self::UvProject, Self::Requirements, Self::Pylock, Self::Dockerfile];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Uv => "uv",
            Self::UvProject => "uv-project",
            Self::Requirements => "requirements",
            Self::Pylock => "pylock",
            Self::Dockerfile => "dockerfile",
        }
    }

    /// Why no other index can win a name of the set.
    fn guard(self) -> &'static str {
        match self {
            Self::Pip | Self::Dockerfile => "each command asks one index alone, for exact versions",
            Self::Uv => "uv takes a name from the first index that has it, and this one is asked first",
            Self::UvProject => "the index is explicit: the packages that are named for it come from it alone",
            Self::Requirements => "exact versions with hashes: another file of the name is refused",
            Self::Pylock => "the addresses and hashes of all files: no index is asked",
        }
    }
}

/// A line or a file.
#[derive(Debug, Clone, Serialize)]
pub struct InstallLine {
    pub installer: Installer,
    /// What to copy; `None` if there is none, for the reason `problem`.
    pub text: Option<String>,
    /// The commands of the text, each as the words after `install`; none of a file, and of no text.
    #[serde(skip)]
    pub installations: Vec<Vec<String>>,
    /// The name of the file that the text belongs in, and the command that uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    pub guard: &'static str,
    /// What resolved it again, to the same packages.
    pub checked_by: Option<String>,
    /// Why there is no text, or why it was not checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A text with the result of its check.
struct Draft {
    text: String,
    installations: Vec<Vec<String>>,
    then: Option<String>,
    checked: Result<String, String>,
}

struct Maker<'a> {
    question: &'a Question<'a>,
    set: &'a Set,
    resolvers: &'a Resolvers,
    python: String,
}

/// Makes lines. One that does not resolve to the set has no text.
pub(crate) fn make_lines(
    question: &Question<'_>,
    set: &Set,
    installers: &[Installer],
    resolvers: &Resolvers,
) -> Result<Vec<InstallLine>, Failure> {
    let python = format!("{}.{}", question.target.python.major, question.target.python.minor);
    let maker = Maker { question, set, resolvers, python };
    // Each is one or two runs of a resolver, which mostly wait.
    let (last, first) = (Installer::Dockerfile, Installer::Pip);
    let is_last = installers.contains(&last);
    let needed =
        Installer::ALL.into_iter().filter(|one| installers.contains(one) && *one != last || is_last && *one == first);
    let needed: Vec<Installer> = needed.collect();
    let mut lines = needed.par_iter().map(|installer| maker.line(*installer)).collect::<Result<Vec<_>, _>>()?;
    if is_last {
        lines.push(maker.dockerfile(&lines[0]));
    }
    lines.retain(|line| installers.contains(&line.installer));
    Ok(lines)
}

impl Maker<'_> {
    fn line(&self, installer: Installer) -> Result<InstallLine, Failure> {
        let draft = match installer {
            Installer::Pip | Installer::Dockerfile => self.pip(),
            Installer::Uv => self.uv()?,
            Installer::UvProject => self.project()?,
            Installer::Requirements => self.requirements()?,
            Installer::Pylock => self.pylock()?,
        };
        let file = match installer {
            Installer::Pip | Installer::Uv | Installer::Dockerfile => None,
            Installer::UvProject => Some("pyproject.toml"),
            Installer::Requirements => Some("requirements.txt"),
            Installer::Pylock => Some("pylock.toml"),
        };
        let none = InstallLine {
            installer,
            text: None,
            installations: Vec::new(),
            file,
            then: None,
            guard: installer.guard(),
            checked_by: None,
            problem: None,
        };
        Ok(match draft {
            Ok(Draft { text, installations, then, checked }) => {
                let problem = checked.as_ref().err().map(|reason| format!("not checked: {reason}"));
                InstallLine { text: Some(text), installations, then, checked_by: checked.ok(), problem, ..none }
            }
            Err(reason) => InstallLine { problem: Some(reason), ..none },
        })
    }

    /// The number of the index that a member is from.
    fn number(&self, member: &ChosenPackage) -> usize {
        match member.origin {
            PackageOrigin::Set(number) => number,
            PackageOrigin::Public => self.question.addresses.len() - 1,
        }
    }

    /// The members of each index, in the order of the indexes.
    fn groups(&self) -> Vec<(&str, Vec<&ChosenPackage>)> {
        self.question
            .addresses
            .iter()
            .enumerate()
            .map(|(at, address)| {
                (
                    address.as_str(),
                    self.set.members.iter().filter(|member| self.number(member) == at).collect::<Vec<_>>(),
                )
            })
            .filter(|(_, members)| !members.is_empty())
            .collect()
    }

    /// The difference between the set and what a line resolves to.
    fn difference(&self, found: &[LockedPackage]) -> Option<String> {
        for member in &self.set.members {
            let Some(other) = found.iter().find(|package| package.name == member.name) else {
                return Some(format!("it does not bring `{}`", member.pin()));
            };
            if other.version != member.version || other.files.iter().all(|file| file.name != member.file) {
                return Some(format!(
                    "it brings `{}=={}` where the set has `{}`",
                    other.name,
                    other.version,
                    member.pin()
                ));
            }
        }
        let extra = found.iter().find(|package| self.set.members.iter().all(|member| member.name != package.name))?;
        Some(format!("it brings `{}`, which is not in the set", extra.name))
    }

    /// The result of a check by the packages that it found.
    fn compared(&self, outcome: Outcome<Vec<LockedPackage>>, by: &str) -> Result<String, String> {
        match outcome {
            Outcome::Found(packages) => self.difference(&packages).map_or_else(|| Ok(by.to_owned()), Err),
            Outcome::Refused(reason) => Err(format!("{by} refuses it: {}", last_line(&reason))),
        }
    }

    /// The arguments of each command of pip.
    fn pip_commands(&self) -> Vec<Vec<String>> {
        let groups = self.groups();
        let pre = self.set.pre_releases.then(|| "--pre".to_owned());
        if let [(address, _)] = &groups[..] {
            return vec![from_index(address).into_iter().chain(pre).chain(pinned(self.set)).collect()];
        }
        let mut commands = Vec::new();
        for (address, members) in &groups {
            let mut words = vec!["--no-deps".to_owned()];
            words.extend(from_index(address).into_iter().chain(pre.clone()));
            words.extend(members.iter().map(|member| member.pin()));
            commands.push(words);
        }
        commands
    }

    fn pip(&self) -> Result<Draft, String> {
        let commands = self.pip_commands();
        let is_windows = self.question.target.platform == Platform::Windows;
        let joint = if is_windows { "\n" } else { " && " };
        let installations: Vec<Vec<String>> = commands.iter().map(|words| self.words(words)).collect();
        let text = spelled(PIP, &installations).join(joint);
        let Some(pip) = &self.resolvers.pip else {
            return Ok(Draft { text, installations, then: None, checked: Err("pip is not there".to_owned()) });
        };
        let mut found = Vec::new();
        for words in &commands {
            match pip.report(words, self.cross()).map_err(|failure| failure.to_string())? {
                Outcome::Found(packages) => found.extend(packages),
                Outcome::Refused(reason) => return Err(format!("pip refuses the line: {}", last_line(&reason))),
            }
        }
        let by = self.compared(Outcome::Found(found), "pip install --dry-run")?;
        Ok(Draft { text, installations, then: None, checked: Ok(by) })
    }

    /// The Python and system that pip resolves for; `None` for those of pip itself, which alone can
    /// build source distributions.
    fn cross(&self) -> Option<&InstallTarget> {
        let has_source = self.set.members.iter().any(|member| !WheelName::is_wheel(&member.file));
        (!has_source).then_some(&self.question.target)
    }

    /// Words as they are typed.
    fn words(&self, words: &[String]) -> Vec<String> {
        words.iter().map(|word| self.word(word)).collect()
    }

    /// A word of the shell of the system.
    fn word(&self, word: &str) -> String {
        if self.question.target.platform != Platform::Windows {
            return shell_word(word);
        }
        if word.chars().all(|letter| letter.is_ascii_alphanumeric() || "_@+=:,./-".contains(letter)) {
            return word.to_owned();
        }
        format!("\"{}\"", word.replace(['"', '`', '$'], ""))
    }

    /// The options that name the indexes for uv, without those that give nothing.
    fn uv_options(&self) -> (Vec<String>, Vec<String>) {
        let groups = self.groups();
        let Some(((last, _), first)) = groups.split_last() else { return Default::default() };
        // An index in UV_INDEX would come before the default one. An option takes its place.
        let named = if first.is_empty() { &groups[..] } else { first };
        let mut options: Vec<String> = Vec::new();
        for (address, _) in named {
            options.extend(["--index".to_owned(), (*address).to_owned()]);
        }
        options.extend(["--default-index".to_owned(), (*last).to_owned()]);
        options.extend(["--index-strategy", "first-index"].map(str::to_owned));
        if self.set.pre_releases {
            options.extend(["--prerelease", "allow"].map(str::to_owned));
        }
        (options, groups.iter().map(|(address, _)| (*address).to_owned()).collect())
    }

    fn query<'q>(&'q self, requirements: &'q [String], indexes: &'q [String], platform: &'q str) -> Query<'q> {
        Query {
            requirements,
            constraints: &[],
            indexes,
            python: &self.python,
            interpreter: self.resolvers.python.as_deref(),
            platform,
            pre_releases: self.set.pre_releases,
            wheels_only: false,
        }
    }

    fn uv(&self) -> Result<Result<Draft, String>, Failure> {
        let (options, indexes) = self.uv_options();
        let roots = pinned(self.set);
        let all: Vec<String> = self.set.members.iter().map(ChosenPackage::pin).collect();
        let platform = uv_platform(&self.question.target);
        let Some(uv) = &self.resolvers.uv else { return Ok(Err("uv is not there".to_owned())) };
        // A package that nothing pins could be a newer one without kernels for the GPU.
        let mut problem = String::new();
        for requirements in [roots.clone(), roots.into_iter().chain(all).collect()] {
            let words: Vec<String> = options.iter().chain(&requirements).cloned().collect();
            let installations = vec![self.words(&words)];
            let text = spelled("uv pip install", &installations).concat();
            match self.locked(uv, &self.query(&requirements, &indexes, &platform))? {
                Ok(by) => return Ok(Ok(Draft { text, installations, then: None, checked: Ok(by) })),
                Err(reason) => problem = reason,
            }
        }
        Ok(Err(problem))
    }

    fn locked(&self, uv: &Uv, query: &Query<'_>) -> Result<Result<String, String>, Failure> {
        Ok(match uv.lock(query)? {
            Outcome::Refused(reason) => Err(format!("uv refuses the line: {}", last_line(&reason))),
            Outcome::Found(text) => {
                self.compared(parse_lock(&text).map_or_else(Outcome::Refused, Outcome::Found), "uv pip compile")
            }
        })
    }

    fn project(&self) -> Result<Result<Draft, String>, Failure> {
        let platform = match self.question.target.platform {
            Platform::Linux => "sys_platform == 'linux' and platform_machine == 'x86_64'",
            Platform::Windows => "sys_platform == 'win32'",
        };
        let roots = pinned(self.set);
        let named: Vec<&str> = roots.iter().filter_map(|root| root.split(['[', '=']).next()).collect();
        let own: Vec<&ChosenPackage> =
            self.set.members.iter().filter(|member| member.origin != PackageOrigin::Public).collect();
        let rest = own.iter().filter(|member| !named.contains(&member.name.as_str()));
        let texts = roots.iter().cloned().chain(rest.map(|member| member.pin()));
        let mut text = format!(
            "[project]\nname = \"my-project\"\nversion = \"0.1.0\"\nrequires-python = \"=={}.*\"\ndependencies = [\n",
            self.python
        );
        texts.for_each(|one| text.push_str(&format!("    {},\n", toml::Value::from(one))));
        text.push_str(&format!("]\n\n[tool.uv]\nenvironments = [\"{platform}\"]\n"));
        if self.set.pre_releases {
            text.push_str("prerelease = \"allow\"\n");
        }
        for (number, address) in self.question.addresses.iter().enumerate() {
            let (name, way) = if number < self.question.own() {
                (index_name(number), "explicit = true")
            } else {
                ("public".to_owned(), "default = true")
            };
            let address = toml::Value::from(address.as_str());
            text.push_str(&format!("\n[[tool.uv.index]]\nname = \"{name}\"\nurl = {address}\n{way}\n"));
        }
        text.push_str("\n[tool.uv.sources]\n");
        for member in own {
            let PackageOrigin::Set(number) = member.origin else { continue };
            text.push_str(&format!("{} = {{ index = \"{}\" }}\n", member.name, index_name(number)));
        }
        let checked = self.check_project(&text)?;
        Ok(match checked {
            Ok(checked) => Ok(Draft::file(text, Some("uv sync".to_owned()), checked)),
            Err(reason) => Err(reason),
        })
    }

    /// The outer error is a refusal, the inner one the reason why nothing could be asked.
    fn check_project(&self, text: &str) -> Result<Result<Result<String, String>, String>, Failure> {
        let Some(uv) = &self.resolvers.uv else { return Ok(Err("uv is not there".to_owned())) };
        let Some(python) = &self.resolvers.python else { return Ok(Ok(Err(self.no_python()))) };
        let folder = tempfile::tempdir().map_err(Failure::other)?;
        fs_err::write(folder.path().join("pyproject.toml"), text).map_err(Failure::other)?;
        // `--no-config` would leave the settings of the project out.
        let mut command = uv.command_with_files();
        command.args(["export", "--quiet", "--format", "pylock.toml", "--no-header", "--no-annotate"]);
        command.args(["--no-emit-project", "--python"]).arg(python);
        let output = run(command.current_dir(folder.path()), None)?;
        if !output.status.success() {
            return Ok(Err(format!("uv refuses the project: {}", last_line(&said(&output.stderr)))));
        }
        let packages =
            parse_lock(&String::from_utf8_lossy(&output.stdout)).map_or_else(Outcome::Refused, Outcome::Found);
        Ok(self.compared(packages, "uv lock").map(Ok))
    }

    fn no_python(&self) -> String {
        format!("no Python {} is there, which uv needs for it", self.python)
    }

    /// The first member without a hash.
    fn hashless(&self) -> Option<String> {
        let member = self.set.members.iter().find(|member| member.sha256.is_empty())?;
        Some(format!("the index has no SHA-256 of `{}`", member.file))
    }

    fn requirements(&self) -> Result<Result<Draft, String>, Failure> {
        if let Some(reason) = self.hashless() {
            return Ok(Err(reason));
        }
        let groups = self.groups();
        let mut text = String::new();
        // uv asks extra indexes first.
        for (number, (address, _)) in groups.iter().rev().enumerate() {
            text.push_str(&format!("{} {address}\n", if number == 0 { "--index-url" } else { "--extra-index-url" }));
        }
        if self.set.pre_releases {
            text.push_str("--pre\n");
        }
        for member in &self.set.members {
            let hashes: Vec<String> =
                member.sha256.iter().map(|hash| format!(" \\\n    --hash=sha256:{hash}")).collect();
            text.push_str(&format!("{}{}\n", member.pin(), hashes.concat()));
        }
        let then = Some("pip install --require-hashes --no-deps -r requirements.txt".to_owned());
        let Some(pip) = &self.resolvers.pip else {
            return Ok(Ok(Draft::file(text, then, Err("pip is not there".to_owned()))));
        };
        let outcome = with_file("requirements.txt", &text, |path| {
            let words = ["--require-hashes", "--no-deps", "-r"].map(str::to_owned);
            let words: Vec<String> = words.into_iter().chain([path.to_string_lossy().into_owned()]).collect();
            Ok(Pip::report(pip, &words, self.cross()))
        })?;
        Ok(match outcome {
            Ok(outcome) => self.compared(outcome, "pip install --dry-run --require-hashes"),
            Err(failure) => Err(failure.to_string()),
        }
        .map(|by| Draft::file(text, then, Ok(by))))
    }

    fn pylock(&self) -> Result<Result<Draft, String>, Failure> {
        let Some(uv) = &self.resolvers.uv else { return Ok(Err("uv is not there, which writes it".to_owned())) };
        if let Some(reason) = self.hashless() {
            return Ok(Err(reason));
        }
        let roots = pinned(self.set);
        let all: Vec<String> = roots.into_iter().chain(self.set.members.iter().map(ChosenPackage::pin)).collect();
        let platform = uv_platform(&self.question.target);
        let text = match uv.lock(&self.query(&all, self.question.addresses, &platform))? {
            Outcome::Found(text) => text,
            Outcome::Refused(reason) => return Ok(Err(format!("uv refuses it: {}", last_line(&reason)))),
        };
        if let Err(reason) = self.compared(parse_lock(&text).map_or_else(Outcome::Refused, Outcome::Found), "uv") {
            return Ok(Err(reason));
        }
        let then = Some("uv pip install --preview-features pylock -r pylock.toml".to_owned());
        let Some(python) = &self.resolvers.python else {
            return Ok(Ok(Draft::file(text, then, Err(self.no_python()))));
        };
        let output = with_file("pylock.toml", &text, |path| {
            let mut command = uv.command();
            command.args(["pip", "install", "--dry-run", "--preview-features", "pylock", "-r"]).arg(path);
            command.args(["--python-platform", &platform, "--python"]).arg(python);
            command.arg("--target").arg(path.with_extension("none"));
            run(&mut command, None)
        })?;
        let words = said(&output.stderr);
        let count = format!("Would install {} package", self.set.members.len());
        if !output.status.success() || !words.contains(&count) {
            return Ok(Err(format!("uv does not install it: {}", last_line(&words))));
        }
        Ok(Ok(Draft::file(text, then, Ok("uv pip install --dry-run".to_owned()))))
    }

    /// The line of pip in a container.
    fn dockerfile(&self, pip: &InstallLine) -> InstallLine {
        let problem = if self.question.target.platform == Platform::Windows {
            Some("containers run Linux".to_owned())
        } else if self.groups().iter().any(|(address, _)| address.starts_with("file:")) {
            Some("a container does not see the folder of the index: serve it".to_owned())
        } else {
            None
        };
        let is_there = problem.is_none() && pip.text.is_some();
        let text = is_there.then(|| spelled("pip install --no-cache-dir", &pip.installations).join(" && "));
        InstallLine {
            installer: Installer::Dockerfile,
            installations: Vec::new(),
            checked_by: pip.checked_by.as_ref().filter(|_| text.is_some()).map(|by| format!("{by}, not in the image")),
            text: text.map(|text| format!("FROM python:{}-slim\nRUN {text}\n", self.python)),
            file: Some("Dockerfile"),
            then: Some("docker build .".to_owned()),
            problem: problem.or_else(|| pip.problem.clone()),
            ..*pip
        }
    }
}

impl Draft {
    /// A text that belongs in a file.
    fn file(text: String, then: Option<String>, checked: Result<String, String>) -> Draft {
        Draft { text, installations: Vec::new(), then, checked }
    }
}

/// The commands with these words after `start`.
fn spelled(start: &str, installations: &[Vec<String>]) -> Vec<String> {
    installations.iter().map(|words| format!("{start} {}", words.join(" "))).collect()
}

fn from_index(address: &str) -> [String; 2] {
    ["--index-url".to_owned(), address.to_owned()]
}

/// The name of an index in a project of uv.
fn index_name(number: usize) -> String {
    if number == 0 { "rocm".to_owned() } else { format!("rocm-{number}") }
}

/// Works with a file that is removed afterwards.
fn with_file<T>(name: &str, text: &str, work: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
    let folder = tempfile::tempdir().map_err(Failure::other)?;
    let path = folder.path().join(name);
    fs_err::write(&path, text).map_err(Failure::other)?;
    work(&path)
}

/// The last line of what a program said that is no hint.
fn last_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("hint:")).collect();
    lines.last().copied().unwrap_or_default().trim_start_matches("ERROR: ").trim_start_matches("cause: ").to_owned()
}
