//! Input: a request and the table of sources. Output: the ordered steps of each checkout, before
//! anything is done.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Failure, shell_word};
use serde::Serialize;

use crate::error;
use crate::git::without_secret;
use crate::manifest::ManifestProject;
use crate::patch_files::{self, PINNED_SET, PatchGroup, Stage};
use crate::pins::{self, Torch};
use crate::repository::{HIPIFY, UPSTREAM};
use crate::request::{
    Movement, Related, Request, SourceArchive, Submodules, TreeConversion, TritonPin, WantedCheckout,
};
use crate::table::{Line, LocalChange, Project, Table};

/// Message of the commit of converted sources, the same as in TheRock's scripts.
pub(crate) const HIPIFY_MESSAGE: &str = "DO NOT SUBMIT: HIPIFY";

/// File that triton's build reads.
pub(crate) const BUILD_ENVIRONMENT: &str = "build_env.json";

#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// The checkouts in order: torch comes first, because it may pin others.
    pub checkouts: Vec<Checkout>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Checkout {
    pub project: String,
    /// Path of the tree; absolute.
    pub directory: PathBuf,
    pub reference: Reference,
    pub movement: Movement,
    pub steps: Vec<CheckoutStep>,
    /// A warning for a project that has patch sets of which none is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
pub enum Reference {
    /// A branch, tag or commit of a repository.
    Named {
        origin: String,
        name: String,
        /// `true` if torch's tree pins it.
        pinned: bool,
        /// The branch or tag of a commit, from a manifest.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
    },
    /// An entry of torch's `related_commits`, which is read once torch is checked out.
    Related {
        file: PathBuf,
        system: String,
        project: String,
        /// The address that the user asked for.
        origin: Option<String>,
        /// Address and name if the file does not have the project; `None`: that is an error.
        otherwise: Option<(String, String)>,
    },
    /// A pin of triton in torch's tree, which is read once torch is checked out.
    Triton {
        file: PathBuf,
        origin: String,
        /// `true` if the file has a version, which stands for its release branch.
        release: bool,
    },
    Archive(SourceArchive),
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case", tag = "step")]
pub enum CheckoutStep {
    /// Looks for work that would be lost.
    Protect,
    /// Gets the commit: fetches it, or makes it from an archive.
    Obtain {
        /// `None`: the whole history.
        depth: Option<u32>,
        jobs: Option<u16>,
    },
    /// Checks the commit out and tags it.
    Checkout,
    /// Checks submodules out, tags them, and makes git ignore their changes.
    Submodules {
        /// `None`: the whole history.
        depth: Option<u32>,
        jobs: Option<u16>,
    },
    Patch(PatchGroup),
    BuildEnvironment {
        /// The content by name.
        values: BTreeMap<String, String>,
        /// Other content if torch's tree pins this commit, which is known once torch is checked
        /// out.
        #[serde(skip_serializing_if = "Option::is_none")]
        if_pinned: Option<IfPinned>,
    },
    /// Converts CUDA sources if the tree has the converter's settings.
    Hipify,
    /// Commits converted or written files, in submodules too, and tags the commit.
    Commit,
}

#[derive(Debug, Clone, Serialize)]
pub struct IfPinned {
    /// Path of the pin file in torch's tree.
    pub file: PathBuf,
    /// The commit that the file may pin.
    pub commit: String,
    /// The content by name.
    pub values: BTreeMap<String, String>,
}

impl CheckoutStep {
    /// The step with torch's pins resolved from the files on the disk.
    pub(crate) fn resolved(&self) -> CheckoutStep {
        match self {
            CheckoutStep::BuildEnvironment { values, if_pinned: Some(pin) } => {
                let is_pinned = pins::commit(&pin.file).is_ok_and(|commit| commit == pin.commit);
                let values = if is_pinned { &pin.values } else { values };
                CheckoutStep::BuildEnvironment { values: values.clone(), if_pinned: None }
            }
            other => other.clone(),
        }
    }
}

impl Plan {
    /// Reads torch's pins and patch sets if they exist already; writes nothing.
    pub fn new(request: &Request, table: &Table) -> Result<Plan, Failure> {
        let line = request.line.as_deref().map(|name| table.line(name)).transpose()?;
        let planner = Planner { request, table, line: line.as_deref(), torch: torch_directory(request, table)? };
        let mut chosen: Vec<(usize, &WantedCheckout)> = Vec::new();
        for wanted in &request.projects {
            let project = table.project(&wanted.project)?;
            let at = table.projects.iter().position(|other| other.name == project.name).unwrap_or_default();
            if chosen.iter().any(|(other, _)| *other == at) {
                return Err(error::request(format!("{} is asked for twice", project.name)));
            }
            chosen.push((at, wanted));
        }
        chosen.sort_by_key(|(at, _)| *at);
        if chosen.is_empty() {
            return Err(error::request("no project is asked for"));
        }
        let with_torch = chosen.iter().any(|(at, _)| table.projects[*at].name == "torch");
        let checkouts = chosen.iter().map(|(at, wanted)| planner.checkout(&table.projects[*at], wanted, with_torch));
        let checkouts = checkouts.collect::<Result<Vec<_>, Failure>>()?;
        for (at, checkout) in checkouts.iter().enumerate() {
            let same = checkouts[..at].iter().find(|other| other.directory == checkout.directory);
            if let Some(other) = same {
                let place = checkout.directory.display();
                return Err(error::request(format!(
                    "{} and {} would both go to `{place}`",
                    other.project, checkout.project
                )));
            }
        }
        Ok(Plan { checkouts })
    }
}

/// Path of torch's tree, existing or not.
fn torch_directory(request: &Request, table: &Table) -> Result<PathBuf, Failure> {
    let torch = table.project("torch")?;
    let wanted =
        request.projects.iter().find(|wanted| table.project(&wanted.project).is_ok_and(|it| it.name == torch.name));
    let given = wanted.and_then(|wanted| wanted.directory.clone()).or_else(|| request.torch.clone());
    Ok(given.unwrap_or_else(|| request.root.join(&torch.directory)))
}

#[derive(Default)]
struct Patches {
    /// Patches on top of the upstream commit.
    base: Vec<PatchGroup>,
    hipified: Vec<PatchGroup>,
    /// The reason why none of the project's sets is used.
    warning: Option<String>,
}

struct Planner<'a> {
    request: &'a Request,
    table: &'a Table,
    line: Option<&'a Line>,
    torch: PathBuf,
}

impl Planner<'_> {
    fn checkout(&self, project: &Project, wanted: &WantedCheckout, with_torch: bool) -> Result<Checkout, Failure> {
        let request = self.request;
        let directory = wanted.directory.clone().unwrap_or_else(|| request.root.join(&project.directory));
        let reference = self.reference(project, wanted)?;
        // torch may be checked out first; then its pins are read afterwards.
        let reference = if with_torch && project.name != "torch" { reference } else { reference.resolved()? };
        if let (Movement::Locked, Reference::Named { name, .. }) = (request.movement, &reference)
            && !pins::is_commit(name)
        {
            return Err(error::may_move(&project.name, name));
        }
        let jobs = request.jobs.or(project.jobs);
        let is_converted = request.conversion != TreeConversion::Skip && !wanted.only_pins;
        let changes = if is_converted { project.local_change } else { LocalChange::None };
        let Patches { base, hipified, warning } = self.patches(project, &reference)?;
        let depth = if wanted.only_pins { Some(1) } else { request.depth };
        let mut steps = vec![CheckoutStep::Protect, CheckoutStep::Obtain { depth, jobs }, CheckoutStep::Checkout];
        if !wanted.only_pins && wanted.submodules.unwrap_or(request.submodules) == Submodules::Take {
            steps.push(CheckoutStep::Submodules { depth: request.depth, jobs });
        }
        steps.extend(base.into_iter().map(CheckoutStep::Patch));
        match changes {
            LocalChange::None => {}
            LocalChange::Hipify => steps.push(CheckoutStep::Hipify),
            LocalChange::BuildEnvironment => {
                steps.push(self.build_environment(wanted, &reference)?);
            }
        }
        if changes != LocalChange::None && request.conversion == TreeConversion::Commit {
            steps.push(CheckoutStep::Commit);
        }
        if request.conversion == TreeConversion::Keep && changes != LocalChange::None && !hipified.is_empty() {
            return Err(error::request(format!(
                "the patch set of {} has patches for converted sources, which are not committed",
                project.name
            ))
            .with_hint("patches apply to commits only: remove `--no-commit-hipify`"));
        }
        if is_converted {
            steps.extend(hipified.into_iter().map(CheckoutStep::Patch));
        }
        Ok(Checkout { project: project.name.clone(), directory, reference, movement: request.movement, steps, warning })
    }

    /// The user's reference has priority, then torch's pin, then the project's default.
    fn reference(&self, project: &Project, wanted: &WantedCheckout) -> Result<Reference, Failure> {
        if let Some(archive) = &wanted.archive {
            if wanted.reference.is_some() || wanted.origin.is_some() {
                return Err(error::request(format!(
                    "{} is to come from an archive and from a repository",
                    project.name
                )));
            }
            return Ok(Reference::Archive(archive.clone()));
        }
        if let Some(ManifestProject { repo, commit, branch, .. }) = &wanted.manifest {
            check_origin(repo, project)?;
            let (origin, name, branch) = (repo.clone(), commit.clone(), branch.clone());
            return Ok(Reference::Named { origin, name, pinned: false, branch });
        }
        let of_line = self.line.filter(|_| project.name == "torch");
        let origin = wanted.origin.as_deref();
        let address = project.origin(origin.or(of_line.map(|line| line.torch_origin.as_str())));
        check_origin(&address, project)?;
        let name = wanted.reference.as_deref().or(of_line.map(|line| line.torch_ref.as_str()));
        if let Some(name) = name {
            check(name, &format!("the ref of {}", project.name), is_reference)?;
            return Ok(Reference::Named { origin: address, name: name.to_owned(), pinned: false, branch: None });
        }
        let torch = Torch { directory: self.torch.clone() };
        if project.pinned_by_torch {
            let release = self.request.triton == TritonPin::Release;
            let file = if release { &self.table.pins.triton_version } else { &self.table.pins.triton_commit };
            return Ok(Reference::Triton { file: torch.file(file), origin: address, release });
        }
        let default = project.reference.clone().map(|name| (address.clone(), name));
        let required = self.request.related == Related::Required || self.line.is_some_and(|line| line.related);
        if let Some(related) = &project.related {
            return Ok(Reference::Related {
                file: torch.file(&self.table.pins.related_commits),
                system: self.table.pins.related_system.clone(),
                project: related.clone(),
                origin: origin.map(|_| address),
                otherwise: default.filter(|_| !required),
            });
        }
        let (origin, name) = default.ok_or_else(|| {
            error::request(format!("the commit of {} is not given", project.name))
                .with_hint(format!("name it with `--ref {}=REF`", project.name))
        })?;
        Ok(Reference::Named { origin, name, pinned: false, branch: None })
    }

    fn patches(&self, project: &Project, reference: &Reference) -> Result<Patches, Failure> {
        let Some(folder) = &self.request.patches else { return Ok(Patches::default()) };
        let name = self.request.patchset.clone().unwrap_or_else(|| reference.patchset());
        let folder = folder.join(&project.directory);
        let set = folder.join(&name);
        if !set.is_dir() {
            let known = patch_files::sets(&folder)?;
            if self.request.patchset.is_some() {
                return Err(error::no_patch_set(&set, &known));
            }
            let warning = format!(
                "no patches are applied to {}: there is no set `{name}` in `{}`, only {}; `--patchset` names another",
                project.name,
                folder.display(),
                known.join(", ")
            );
            return Ok(Patches { warning: (!known.is_empty()).then_some(warning), ..Patches::default() });
        }
        let groups = patch_files::read(&set, &project.directory)?;
        let (base, hipified) = groups.into_iter().partition(|group| group.stage == Stage::Base);
        Ok(Patches { base, hipified, warning: None })
    }

    fn build_environment(&self, wanted: &WantedCheckout, reference: &Reference) -> Result<CheckoutStep, Failure> {
        let name = self.request.triton_rules.as_deref().or(self.line.map(|line| line.triton_rules.as_str()));
        let rules = match name {
            None => self.table.triton_rules.first(),
            Some(name) => Some(self.table.rules(name).ok_or_else(|| {
                let known: Vec<&str> = self.table.triton_rules.iter().map(|rules| rules.name.as_str()).collect();
                error::request(format!("there are no triton rules `{name}`"))
                    .with_hint(format!("the rules are {}", known.join(", ")))
            })?),
        };
        let Some(rules) = rules else {
            return Ok(CheckoutStep::BuildEnvironment { values: BTreeMap::new(), if_pinned: None });
        };
        let is_pinned = match reference {
            Reference::Triton { release, .. } => !release,
            Reference::Named { pinned, name, .. } => *pinned && pins::is_commit(name),
            _ => false,
        };
        // A manifest does not record that torch pinned a commit. It names no branch in that case,
        // and torch's tree still has the pin.
        let if_pinned = wanted.manifest.as_ref().filter(|entry| entry.branch.is_none()).map(|entry| IfPinned {
            file: self.torch.join(&self.table.pins.triton_commit),
            commit: entry.commit.to_ascii_lowercase(),
            values: rules.pinned.clone(),
        });
        let values = if is_pinned { rules.pinned.clone() } else { rules.other.clone() };
        Ok(CheckoutStep::BuildEnvironment { values, if_pinned })
    }
}

fn check_origin(address: &str, project: &Project) -> Result<(), Failure> {
    check(address, &format!("the origin of {}", project.name), |text| !text.starts_with('-') && !text.contains('\0'))
}

fn check(text: &str, what: &str, is_good: impl Fn(&str) -> bool) -> Result<(), Failure> {
    if is_good(text) { Ok(()) } else { Err(error::request(format!("`{text}` cannot be {what}"))) }
}

fn git_command(arguments: &[String]) -> String {
    format!("git {}", arguments.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" "))
}

/// `true` if git accepts a branch, tag or commit of that name (git-check-ref-format), and no
/// command takes it for something else.
fn is_reference(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(['-', '+', '/', '.'])
        && !name.ends_with(['/', '.'])
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains(|character: char| character.is_control() || " ~^:?*[\\".contains(character))
}

impl Reference {
    /// The reference with pins resolved from the files on the disk.
    pub(crate) fn resolved(&self) -> Result<Reference, Failure> {
        Ok(match self {
            Reference::Named { .. } | Reference::Archive(_) => self.clone(),
            Reference::Related { file, system, project, origin, otherwise } => {
                let found = match file.try_exists() {
                    Ok(false) if otherwise.is_some() => None,
                    _ => pins::related(&pins::read(file)?, file, system, project)?,
                };
                match (found, otherwise) {
                    (Some(found), _) => Reference::Named {
                        origin: origin.clone().unwrap_or(found.origin),
                        name: found.commit,
                        pinned: true,
                        branch: None,
                    },
                    (None, Some((address, name))) => {
                        Reference::Named { origin: address.clone(), name: name.clone(), pinned: false, branch: None }
                    }
                    (None, None) => {
                        return Err(error::without_pin(format!("`{}` does not mention `{project}`", file.display())));
                    }
                }
            }
            Reference::Triton { file, origin, release: true } => {
                let name = pins::release_branch(&pins::version(file)?, file)?;
                Reference::Named { origin: origin.clone(), name, pinned: true, branch: None }
            }
            Reference::Triton { file, origin, release: false } => {
                Reference::Named { origin: origin.clone(), name: pins::commit(file)?, pinned: true, branch: None }
            }
        })
    }

    fn patchset(&self) -> String {
        match self {
            Reference::Named { branch: Some(name), .. } => name.clone(),
            Reference::Named { name, .. } if !pins::is_commit(name) => name.clone(),
            Reference::Archive(archive) => {
                patch_files::set_of_archive(&archive.path.file_name().unwrap_or_default().to_string_lossy())
            }
            _ => PINNED_SET.to_owned(),
        }
    }

    pub fn describe(&self) -> String {
        match self {
            Reference::Named { origin, name, .. } => format!("{name} of {}", without_secret(origin)),
            Reference::Related { file, project, .. } => format!("{project} in {}", file.display()),
            Reference::Triton { file, .. } => format!("the pin in {}", file.display()),
            Reference::Archive(archive) => archive.path.display().to_string(),
        }
    }
}

/// Arguments of `git fetch`.
pub(crate) fn fetch(depth: Option<u32>, jobs: Option<u16>, reference: &str) -> Vec<String> {
    let mut arguments = vec!["fetch".to_owned()];
    arguments.extend(limits(depth, jobs));
    arguments.extend(["--no-recurse-submodules", "origin", reference].map(str::to_owned));
    arguments
}

/// Arguments of `git submodule update`.
pub(crate) fn update(depth: Option<u32>, jobs: Option<u16>) -> Vec<String> {
    let mut arguments = ["submodule", "update", "--init", "--recursive"].map(str::to_owned).to_vec();
    arguments.extend(limits(depth, jobs));
    arguments
}

fn limits(depth: Option<u32>, jobs: Option<u16>) -> Vec<String> {
    let mut arguments = Vec::new();
    arguments.extend(depth.into_iter().flat_map(|depth| ["--depth".to_owned(), depth.to_string()]));
    arguments.extend(jobs.into_iter().flat_map(|jobs| ["--jobs".to_owned(), jobs.to_string()]));
    arguments
}

impl Checkout {
    /// The steps as shell commands, in order.
    pub fn commands(&self) -> Vec<String> {
        self.steps.iter().flat_map(|step| self.typed(step)).collect()
    }

    fn typed(&self, step: &CheckoutStep) -> Vec<String> {
        let text = str::to_owned;
        match step {
            CheckoutStep::Protect => {
                vec![text("git status --porcelain  # nothing that would be lost, in submodules too")]
            }
            CheckoutStep::Obtain { depth, jobs } => match &self.reference {
                Reference::Archive(archive) => {
                    let checked = if archive.sha256.is_some() { ", its SHA-256 checked" } else { "" };
                    vec![
                        text("git init --initial-branch=main  # unless it exists"),
                        format!("git commit-tree  # of the files of {}{checked}", archive.path.display()),
                    ]
                }
                reference => {
                    let (origin, name) = match reference {
                        Reference::Named { origin, name, .. } => (without_secret(origin), name.clone()),
                        Reference::Triton { origin, .. } => {
                            (without_secret(origin), format!("# {}", reference.describe()))
                        }
                        Reference::Related { origin, .. } => {
                            let origin = origin.as_deref().map_or_else(|| text("# the origin there"), without_secret);
                            (origin, format!("# {}", reference.describe()))
                        }
                        Reference::Archive(_) => unreachable!("it has an arm of its own"),
                    };
                    let mut fetch = fetch(*depth, *jobs, "");
                    fetch.pop();
                    let name = if name.starts_with("# ") { name } else { shell_word(&name) };
                    let origin = if origin.starts_with("# ") { origin } else { shell_word(&origin) };
                    vec![
                        text("git init --initial-branch=main  # unless it exists"),
                        format!("git remote add origin {origin}"),
                        format!("{} {name}", git_command(&fetch)),
                    ]
                }
            },
            CheckoutStep::Checkout => {
                vec![text("git checkout --detach FETCH_HEAD"), format!("git tag --force --no-sign {UPSTREAM}")]
            }
            CheckoutStep::Submodules { depth, jobs } => vec![
                text("git submodule sync --recursive"),
                git_command(&update(*depth, *jobs)),
                format!("git submodule foreach --recursive 'git tag --force --no-sign {UPSTREAM}'"),
                text("git config submodule.NAME.ignore all  # for each"),
                text("git update-index --skip-worktree PATH  # for each"),
            ],
            CheckoutStep::Patch(group) => {
                let repository = if group.repository.is_empty() {
                    String::new()
                } else {
                    format!(" -C {}", shell_word(&group.repository))
                };
                let files: Vec<String> =
                    group.files.iter().map(|file| shell_word(&file.display().to_string())).collect();
                vec![format!(
                    "git{repository} am {} {}",
                    patch_files::am_options(&group.files).join(" "),
                    files.join(" ")
                )]
            }
            CheckoutStep::BuildEnvironment { values, if_pinned } => {
                let pinned = if_pinned.as_ref().map(|pin| {
                    format!("  # {} where {} says {}", serde_json::json!(pin.values), pin.file.display(), pin.commit)
                });
                let pinned = pinned.unwrap_or_default();
                vec![format!("write {BUILD_ENVIRONMENT}: {}{pinned}", serde_json::json!(values))]
            }
            CheckoutStep::Hipify => vec![text("rocwheel source hipify .  # when it has tools/amd_build/build_amd.py")],
            CheckoutStep::Commit => vec![
                text("git add --all  # here and in submodules, where something has changed"),
                format!("git commit --no-verify --no-gpg-sign --message {}", shell_word(HIPIFY_MESSAGE)),
                format!("git tag --force --no-sign {HIPIFY}"),
            ],
        }
    }
}

/// `true` if an address is a path on this machine.
pub(crate) fn is_local(origin: &str) -> bool {
    origin.starts_with("file:") || Path::new(origin).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_git_would_take_for_something_else_are_refused() {
        for good in ["main", "release/2.9", "v2.8.3", "0123abc", "user/x-1_2"] {
            assert!(is_reference(good), "{good}");
        }
        for bad in ["", "-f", "--upload-pack=x", "+main", "a:b", "a..b", "a b", "a^", "HEAD@{1}", "/a", "a/", "a\nb"] {
            assert!(!is_reference(bad), "{bad}");
        }
    }
}
