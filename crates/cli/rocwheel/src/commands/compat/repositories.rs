//! `rocwheel compat pytorch_torch_repo` and similar: TheRock's scripts for the sources of
//! frameworks, done by `rocwheel source`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use rocwheel_console::failure::{Result, Usage};
use rocwheel_source::Table;

use super::given;
use super::translation::Translation;

/// The options that all these scripts share.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Check out the project, convert its CUDA sources and tag both commits
    Checkout(Box<CheckoutArguments>),
    /// Convert the CUDA sources of a checkout
    Hipify(TreeArguments),
    /// Write the commits on top of a checkout as patches
    SavePatches {
        #[command(flatten)]
        tree: TreeArguments,
        #[command(flatten)]
        patches: PatchArguments,
    },
}

#[derive(Debug, Args)]
struct TreeArguments {
    /// Folder of the checkout [default: that of the project, in the working directory]
    #[arg(long, value_name = "DIR")]
    checkout_dir: Option<PathBuf>,
    /// Folder with the folder of the checkout, as TheRock's README has it
    #[arg(long, value_name = "DIR", conflicts_with = "checkout_dir")]
    repo: Option<PathBuf>,
    /// Name of the checkout's folder in that of `--repo` [default: the project's]; without effect
    /// where `--checkout-dir` names the folder, as in the script
    #[arg(long, value_name = "NAME")]
    repo_name: Option<String>,
    /// Branch, tag or commit
    #[arg(long, value_name = "REF")]
    repo_hashtag: Option<String>,
    /// Repository to check out
    #[arg(long, value_name = "URL")]
    gitrepo_origin: Option<String>,
    /// torch's tree, which pins the others (not for torch) [default: pytorch, in the working
    /// directory]
    #[arg(long, value_name = "DIR")]
    torch_dir: Option<PathBuf>,
    /// Refuse a project that torch's related_commits does not name (torchaudio, torchvision, apex)
    #[arg(long, overrides_with = "no_require_related_commit")]
    require_related_commit: bool,
    /// Take the default where torch does not name one, as is the default
    #[arg(long)]
    no_require_related_commit: bool,
}

#[derive(Debug, Args)]
struct PatchArguments {
    /// Folder with the patch sets of the project, as older scripts have it: patches/PROJECT
    #[arg(long, value_name = "DIR")]
    patch_dir: Option<PathBuf>,
    /// Name of the patch set [default: the branch or tag]
    #[arg(long, value_name = "SET")]
    patchset: Option<String>,
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the script")]
struct CheckoutArguments {
    #[command(flatten)]
    tree: TreeArguments,
    #[command(flatten)]
    patches: PatchArguments,
    /// Fetch only this many commits of history
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// Check out submodules, as is the default
    #[arg(long, overrides_with = "no_submodules")]
    submodules: bool,
    /// Skip submodules
    #[arg(long)]
    no_submodules: bool,
    /// Convert CUDA sources, as is the default for all but apex
    #[arg(long, overrides_with = "no_hipify")]
    hipify: bool,
    /// Convert nothing
    #[arg(long)]
    no_hipify: bool,
    /// Commit what was converted, as is the default
    #[arg(long, overrides_with = "no_commit_hipify")]
    commit_hipify: bool,
    /// Leave what was converted uncommitted
    #[arg(long)]
    no_commit_hipify: bool,
    /// Apply the patches of `--patch-dir`
    #[arg(long, overrides_with = "no_patch")]
    patch: bool,
    /// Apply no patches, as is the default without `--patch-dir`
    #[arg(long)]
    no_patch: bool,
    /// triton: the release branch, not the commit that torch pins
    #[arg(long, overrides_with = "no_release")]
    release: bool,
    /// triton: the commit that torch pins, as is the default
    #[arg(long)]
    no_release: bool,
    /// Print the steps in order and do nothing
    #[arg(long)]
    dry_run: bool,
}

impl Arguments {
    /// The equivalent rocwheel command line, for a project of the table of sources.
    pub(super) fn translated(self, project: &str) -> Result<Translation> {
        match self.action {
            Action::Checkout(arguments) => arguments.translated(project),
            Action::Hipify(tree) => tree.hipify(project),
            Action::SavePatches { tree, patches } => {
                tree.check(project, "save-patches")?;
                let mut line = Translation::new("source patches save");
                line.word(tree.folder(project)?);
                let set = given(patches.patchset.clone()).or_else(|| given(tree.repo_hashtag.clone()));
                line.option("--patches", patches.folder(project)?);
                line.option("--set", set);
                tree.note_unused(&mut line);
                Ok(line)
            }
        }
    }
}

impl CheckoutArguments {
    fn translated(self, project: &str) -> Result<Translation> {
        self.tree.check(project, "checkout")?;
        if self.release && project != "triton" {
            return Err(not_of(project, "--release").into());
        }
        let mut line = Translation::new(&format!("source checkout {project}"));
        line.option("--directory", self.tree.given_folder(project)?);
        line.option("--ref", given(self.tree.repo_hashtag.clone()));
        line.option("--origin", given(self.tree.gitrepo_origin.clone()));
        line.option("--torch-directory", self.tree.torch_dir.clone());
        line.flag("--require-related-commit", self.tree.require_related_commit);
        line.flag("--triton-release", self.release);
        line.option("--depth", self.depth.map(|depth| depth.to_string()));
        line.flag("--no-submodules", self.no_submodules);
        line.flag("--no-hipify", self.no_hipify);
        line.flag("--no-commit-hipify", self.no_commit_hipify && !self.no_hipify);
        let patches = self.patches.folder(project)?.filter(|_| !self.no_patch);
        let is_without_patches = patches.is_none();
        line.option("--patchset", given(self.patches.patchset.clone()).filter(|_| !is_without_patches));
        line.option("--patches", patches);
        line.flag("--dry-run", self.dry_run);
        line.without_effect(
            "--patch",
            self.patch && is_without_patches,
            "patches are applied from the folder of `--patch-dir`",
        );
        line.without_effect("--hipify", self.hipify && project == "apex", "apex converts its sources when it is built");
        self.tree.note_unused(&mut line);
        Ok(line)
    }
}

impl TreeArguments {
    /// Refuses flags that the script for this project lacks.
    fn check(&self, project: &str, action: &str) -> Result<(), Usage> {
        if project == "torch" && self.torch_dir.is_some() {
            return Err(not_of(project, "--torch-dir"));
        }
        if ["torch", "triton"].contains(&project) && (self.require_related_commit || self.no_require_related_commit) {
            return Err(not_of(project, "--require-related-commit"));
        }
        if project == "triton" && action == "hipify" {
            let usage = Usage::new("the script for triton has no `hipify`: triton has no CUDA sources");
            return Err(usage.hint("remove it"));
        }
        Ok(())
    }

    /// The folder of the checkout, as the options name it.
    fn given_folder(&self, project: &str) -> Result<Option<PathBuf>> {
        let Some(repo) = &self.repo else { return Ok(self.checkout_dir.clone()) };
        let name = given(self.repo_name.clone()).map_or_else(|| project_folder(project), |name| Ok(name.into()))?;
        Ok(Some(repo.join(name)))
    }

    /// The folder of the checkout.
    fn folder(&self, project: &str) -> Result<PathBuf> {
        self.given_folder(project)?.map_or_else(|| project_folder(project), Ok)
    }

    /// Converts the sources. The script runs PyTorch's own `build_amd.py`, and does nothing in a
    /// tree without it.
    fn hipify(self, project: &str) -> Result<Translation> {
        self.check(project, "hipify")?;
        let folder = self.folder(project)?;
        let is_there = folder.is_dir();
        if is_there && !folder.join(rocwheel_hipify::build_amd::FILE).is_file() {
            let mut line = Translation::default();
            line.note(format!(
                "nothing is converted: `{}` has no {}",
                folder.display(),
                rocwheel_hipify::build_amd::FILE
            ));
            return Ok(line);
        }
        let mut line = Translation::new("source hipify");
        line.word(folder);
        for (option, is_set) in [
            ("--repo-hashtag", self.repo_hashtag.is_some()),
            ("--gitrepo-origin", self.gitrepo_origin.is_some()),
            ("--torch-dir", self.torch_dir.is_some()),
            ("--require-related-commit", self.require_related_commit),
        ] {
            line.without_effect(option, is_set, "nothing is checked out");
        }
        self.note_unused(&mut line);
        Ok(line)
    }

    fn note_unused(&self, line: &mut Translation) {
        line.without_effect(
            "--repo-name",
            self.repo.is_none() && given(self.repo_name.clone()).is_some(),
            "`--checkout-dir` names the folder, as in the script",
        );
    }
}

impl PatchArguments {
    /// The value of `--patches`. Our folder of patches has one folder per project, and the script's
    /// flag names that one.
    fn folder(&self, project: &str) -> Result<Option<PathBuf>> {
        let Some(folder) = &self.patch_dir else { return Ok(None) };
        let name = Table::built_in().project(project)?.directory.clone();
        if folder.file_name().is_none_or(|last| *last != *name) {
            let usage =
                Usage::new(format!("the folder of `--patch-dir` is not called `{name}`: `{}`", folder.display()));
            return Err(usage
                .hint(format!("patches of {project} are in PATCHES/{name}/SET: name PATCHES/{name}"))
                .into());
        }
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Some(parent.to_owned()))
    }
}

/// The name of a project's folder where nothing names another.
fn project_folder(project: &str) -> Result<PathBuf> {
    Ok(Table::built_in().project(project)?.directory.clone().into())
}

fn not_of(project: &str, option: &str) -> Usage {
    Usage::new(format!("the script for {project} has no `{option}`")).hint("remove it")
}
