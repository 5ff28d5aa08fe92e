//! The folders, devices, caches and variables of this machine that a container sees.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rocwheel_index::settings::ConfigurationFiles;
use rocwheel_progress::{Failure, Silent};
use rocwheel_system::{FileMetadata as _, FileOwner, current_user};
use rocwheel_wheel::Platform;

use super::{Engine, Kind, Root};
use crate::execute::{JobPlace, is_on};
use rocwheel_recipe::executor::Image;
use rocwheel_recipe::recipe::WorkOn;
use rocwheel_recipe::source_digest;
use rocwheel_recipe::surroundings::{FILES, NETWORK, of_cache};
use rocwheel_recipe::{Action, Provided};
use rocwheel_recipe::{BuildMode, CompilerCache};
use rocwheel_recipe::{Job, JobSource, Rocm};

/// Path of this program in a container.
pub(super) const PROGRAM: &str = "/rocwheel";
/// Path of uv in a container, if this machine has it.
pub(super) const UV: &str = "/rocwheel-uv";

/// A job's needs of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Files and folders that the job reads.
    read: BTreeSet<PathBuf>,
    /// Folders that the job writes to.
    write: BTreeSet<PathBuf>,
    /// `true` if the job may download something.
    downloads: bool,
    set: BTreeMap<String, String>,
    /// Names of the caller's variables. Their values may be secret, so engines take them from their
    /// own environment.
    named: BTreeSet<String>,
    /// Options of `run` for containers of the image.
    options: Vec<String>,
}

impl Needs {
    /// The same needs, with options for containers of the image.
    #[must_use]
    pub fn with_options(self, options: Vec<String>) -> Needs {
        Needs { options, ..self }
    }

    /// The needs of a job in a place. Creates the folders that the job writes to.
    pub fn of(job: &Job, place: &JobPlace) -> Result<Needs, Failure> {
        let mut needs = Needs::default();
        for folder in [&place.output, &place.work] {
            needs.writes(folder)?;
        }
        let is_built_there =
            job.recipe.source.work_on == WorkOn::Checkout || job.recipe.cell.mode == BuildMode::Develop;
        match &job.source {
            JobSource::Checkout { path, .. } if is_built_there => needs.writes(path)?,
            source => needs.reads(source.path()),
        }
        needs.repository(job.source.path(), &place.surroundings)?;
        job.with.iter().for_each(|input| needs.reads(&input.path));
        if let Rocm::FindLinks { links, .. } = &job.rocm {
            needs.reads(Path::new(links));
        }
        let surroundings = &place.surroundings;
        let lists = ["PIP_FIND_LINKS", "UV_FIND_LINKS"].iter().filter_map(|name| surroundings.get(*name));
        for entry in lists.flat_map(|list| list.split([' ', ','])) {
            needs.reads(Path::new(entry.trim_start_matches("file://")));
        }
        for name in FILES {
            if let Some(path) = surroundings.get(name).filter(|path| Path::new(path).exists()) {
                needs.reads(Path::new(path));
                needs.set.insert(name.into(), path.clone());
            }
        }
        for (name, path) in ["PIP_CONFIG_FILE", "UV_CONFIG_FILE"].into_iter().zip(installer_settings(surroundings)) {
            if let Some(path) = path.filter(|_| !needs.set.contains_key(name)) {
                needs.reads(&path);
                needs.set.insert(name.into(), path.to_string_lossy().into_owned());
            }
        }
        needs.downloads = downloads(job, surroundings);
        needs.compiler_cache(job.recipe.cell.compiler_cache, surroundings)?;
        Ok(needs)
    }

    /// `true` if a container with these needs can run a job with the needs `other`.
    pub(super) fn cover(&self, other: &Needs) -> bool {
        other.write.iter().all(|path| self.write.iter().any(|folder| lies_in(path, folder)))
            && other.read.iter().all(|path| self.write.iter().chain(&self.read).any(|folder| lies_in(path, folder)))
            && self.downloads == other.downloads
            && other.set.iter().all(|(name, value)| self.set.get(name) == Some(value))
            && other.named.is_subset(&self.named)
    }

    /// Paths that do not exist cannot be mounted and are skipped.
    fn reads(&mut self, path: &Path) {
        if path.is_absolute() && path.exists() {
            self.read.insert(path.to_owned());
        }
    }

    fn writes(&mut self, folder: &Path) -> Result<(), Failure> {
        fs_err::create_dir_all(folder)?;
        self.write.insert(folder.to_owned());
        Ok(())
    }

    /// Adds the repository of a worktree or a submodule, which its `.git` file names.
    fn repository(&mut self, tree: &Path, surroundings: &BTreeMap<String, String>) -> Result<(), Failure> {
        if !tree.join(".git").is_file() {
            return Ok(());
        }
        if let Some(answer) = source_digest::git(tree, &["rev-parse", "--git-common-dir"], surroundings, &Silent)? {
            self.reads(&tree.join(answer.trim()));
        }
        Ok(())
    }

    fn compiler_cache(&mut self, cache: CompilerCache, surroundings: &BTreeMap<String, String>) -> Result<(), Failure> {
        let (name, folder) = match cache {
            CompilerCache::None => return Ok(()),
            CompilerCache::Ccache => ("CCACHE_DIR", "ccache"),
            CompilerCache::Sccache | CompilerCache::SccacheNoWrap => ("SCCACHE_DIR", "sccache"),
        };
        let named = surroundings.get(name).filter(|path| !path.is_empty()).map(std::path::absolute).transpose()?;
        // ccache used a folder in the home before the cache folders of XDG, and still does if that
        // folder exists.
        let old =
            home(surroundings).map(|home| home.join(".ccache")).filter(|path| folder == "ccache" && path.is_dir());
        let Some(path) = named.or(old).or_else(|| Some(user_cache(surroundings)?.join(folder))) else { return Ok(()) };
        self.writes(&path)?;
        self.set.insert(name.into(), path.to_string_lossy().into_owned());
        // Compilers of two images may have the same path, time and size.
        self.set.insert("CCACHE_COMPILERCHECK".into(), "content".into());
        for (name, value) in surroundings {
            if self.set.contains_key(name) || !of_cache(cache).iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            // A file with settings or credentials.
            if Path::new(value).is_file() {
                self.reads(Path::new(value));
            }
            self.named.insert(name.clone());
        }
        Ok(())
    }
}

impl Engine {
    /// The options of `run` for a job's needs. `scratch` is a folder of ours for this container.
    pub(super) fn run_options(&self, needs: &Needs, image: &Image, scratch: &Path) -> Result<Vec<String>, Failure> {
        let mut words: Vec<String> = Vec::new();
        let mut option = |name: &str, value: &str| words.extend([name.to_owned(), value.to_owned()]);
        match (&self.request.network, needs.downloads) {
            (Some(network), _) => option("--network", network),
            (None, false) => option("--network", "none"),
            (None, true) => {}
        }
        match (self.root, current_user()) {
            // Root in the container is the user who started the engine, even if that user has no
            // range of subordinate user numbers.
            (Root::Caller, _) => option("--user", "0:0"),
            (Root::Real, Some(FileOwner { user, group })) => option("--user", &format!("{user}:{group}")),
            // Docker for Windows gives the mounted folders to whatever user the container has.
            (Root::Real, None) => {}
        }
        let (devices, groups) = gpu_devices(Path::new("/"));
        for device in &devices {
            option("--device", device);
        }
        if self.kind == Kind::Podman && self.root == Root::Caller && !groups.is_empty() {
            option("--group-add", "keep-groups");
        } else {
            for group in &groups {
                option("--group-add", &group.to_string());
            }
        }
        if super::is_labelled() {
            option("--security-opt", "label=disable");
        }
        let mut mounts: BTreeMap<PathBuf, (PathBuf, bool)> = BTreeMap::new();
        for path in &needs.read {
            mounts.insert(path.clone(), (path.clone(), false));
        }
        for path in needs.write.iter().map(PathBuf::as_path).chain([scratch]) {
            mounts.insert(path.to_owned(), (path.to_owned(), true));
        }
        mounts.insert(PathBuf::from(PROGRAM), (self.request.program.clone(), false));
        let mut set = needs.set.clone();
        let uv = self.request.surroundings.get("PATH").and_then(|path| rocwheel_system::find_program("uv", path));
        if let Some(uv) = uv {
            mounts.insert(PathBuf::from(UV).join("uv"), (uv, false));
            // Caches and environments are on different mounts, so attempts to link between them
            // would fail.
            set.insert("UV_LINK_MODE".into(), "copy".into());
        }
        let home = scratch.join("home");
        fs_err::create_dir_all(&home)?;
        for (name, value) in [("HOME", home.to_string_lossy().as_ref()), ("USER", "rocwheel"), ("LOGNAME", "rocwheel")]
        {
            set.insert(name.into(), value.to_owned());
        }
        if let Some(cache) = &self.request.cache {
            // Wheels that pip builds and caches are for the system they were built on, so each
            // image has its own cache.
            let folder =
                cache.join(image.identity().trim_start_matches("sha256:").chars().take(16).collect::<String>());
            for (name, what) in [("PIP_CACHE_DIR", "pip"), ("UV_CACHE_DIR", "uv")] {
                let path = folder.join(what);
                fs_err::create_dir_all(&path)?;
                set.insert(name.into(), path.to_string_lossy().into_owned());
                mounts.insert(path.clone(), (path, true));
            }
        }
        for (target, (from, is_written)) in &mounts {
            // A path below a writable mount is already visible, and so is a path to read below a
            // read-only one.
            let above = target.ancestors().skip(1).find_map(|folder| Some((folder, mounts.get(folder)?.1)));
            if from == target && above.is_some_and(|(folder, above)| (above || !is_written) && lies_in(target, folder))
            {
                continue;
            }
            let (from, target) = (mountable(from)?, mountable(target)?);
            let end = if *is_written { "" } else { ",readonly" };
            option("--mount", &format!("type=bind,source={from},target={target}{end}"));
        }
        for (name, value) in &set {
            option("--env", &format!("{name}={value}"));
        }
        for name in NETWORK.iter().filter(|name| self.request.surroundings.contains_key(**name)) {
            option("--env", name);
        }
        for name in needs.named.iter().filter(|name| self.request.surroundings.contains_key(*name)) {
            option("--env", name);
        }
        // The user's options come last, because the last one wins.
        words.extend(needs.options.iter().chain(&self.request.options).cloned());
        Ok(words)
    }
}

/// `true` if a path is below a folder after links are resolved. A link that leads out of the folder
/// is broken in a container that sees only the folder.
fn lies_in(path: &Path, folder: &Path) -> bool {
    path.starts_with(folder)
        && match (rocwheel_system::canonicalize(path), rocwheel_system::canonicalize(folder)) {
            (Ok(path), Ok(folder)) => path.starts_with(folder),
            _ => true,
        }
}

/// Checks that a path can be an engine's mount, which is a line of fields separated by commas.
pub(super) fn mountable(path: &Path) -> Result<&str, Failure> {
    path.to_str().filter(|text| !text.contains([',', '"', '\n'])).ok_or_else(|| {
        Failure::message(format!(
            "`{}` cannot be given to a container: its name has a comma, a quote or a line's end",
            path.display()
        ))
        .with_hint("use a folder with a plain name")
    })
}

/// `true` if a job may download something: packages from an index, unless pip and uv are configured
/// to use none.
fn downloads(job: &Job, surroundings: &BTreeMap<String, String>) -> bool {
    if ["PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE"].iter().any(|name| is_on(name, surroundings)) {
        return false;
    }
    let of_rocm = match &job.rocm {
        Rocm::None | Rocm::Prefix { .. } => false,
        Rocm::Index { .. } => true,
        // The requirements of the packages may come from elsewhere.
        Rocm::FindLinks { links, .. } => !Path::new(links).exists(),
    };
    of_rocm
        || !job.with.is_empty()
        || job.recipe.steps.iter().any(|step| matches!(step.action, Action::Install { .. }))
        || job.recipe.checks.iter().any(|check| check.requirements)
}

/// Names of the caller's variables that a job uses.
pub(super) fn variables(job: &Job) -> BTreeSet<String> {
    let recipe = &job.recipe;
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut provided: Vec<&Provided> = recipe.environment.iter().flat_map(|block| &block.provided).collect();
    for step in recipe.steps.iter().chain(&recipe.finish) {
        provided.extend(&step.provided);
        if let Action::Run { more, .. } = &step.action {
            provided.extend(more.iter().filter_map(|more| more.provided.as_ref()));
        }
    }
    names.extend(provided.into_iter().filter_map(|provided| match provided {
        Provided::Variable(name) => Some(name.clone()),
        _ => None,
    }));
    let text = serde_json::to_string(recipe).unwrap_or_default();
    let mentioned = text.split("${environment.").skip(1);
    names.extend(mentioned.filter_map(|rest| rest.split_once('}')).map(|(name, _)| name.to_owned()));
    names
}

/// The existing device nodes of GPUs below `root`, and the numbers of the groups that may use
/// them.
pub fn gpu_devices(root: &Path) -> (Vec<String>, BTreeSet<u32>) {
    let mut groups = BTreeSet::new();
    let devices = ["/dev/kfd", "/dev/dri"].into_iter().filter(|device| {
        let path = root.join(device.trim_start_matches('/'));
        let nodes =
            fs_err::read_dir(&path).map(|entries| entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>());
        let nodes = nodes.unwrap_or_default();
        groups.extend(nodes.iter().chain([&path]).filter(|node| !node.is_dir()).filter_map(|node| group_of(node)));
        path.exists()
    });
    let devices = devices.map(str::to_owned).collect();
    // Group 0 is root's: root has it anyway, and other users must not get it.
    groups.remove(&0);
    (devices, groups)
}

fn group_of(path: &Path) -> Option<u32> {
    Some(path.metadata().ok()?.owner()?.group)
}

fn home(surroundings: &BTreeMap<String, String>) -> Option<PathBuf> {
    surroundings.get("HOME").map(PathBuf::from).filter(|path| path.is_absolute())
}

fn user_cache(surroundings: &BTreeMap<String, String>) -> Option<PathBuf> {
    let named = surroundings.get("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| Some(home(surroundings)?.join(".cache")))
}

/// The configuration files of pip and uv that exist for the user or the machine; the one with the
/// highest priority for each. Files of a virtual environment or a project do not apply in a
/// container.
fn installer_settings(surroundings: &BTreeMap<String, String>) -> [Option<PathBuf>; 2] {
    let files = ConfigurationFiles {
        variable: &|name: &str| surroundings.get(name).map(OsString::from),
        home: home(surroundings),
        platform: Platform::native(),
    };
    [files.of_pip_user(), files.of_uv_user()].map(|all| all.into_iter().rev().find(|path| path.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Request;
    use rocwheel_recipe::executor::Pull;
    use rocwheel_recipe::surroundings::Surroundings;

    #[test]
    fn devices_are_given_only_where_they_are() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(gpu_devices(root.path()), (Vec::new(), BTreeSet::new()));
        fs_err::create_dir_all(root.path().join("dev/dri")).unwrap();
        fs_err::write(root.path().join("dev/dri/renderD128"), "").unwrap();
        let (found, groups) = gpu_devices(root.path());
        assert_eq!(found, ["/dev/dri"]);
        let own = group_of(&root.path().join("dev/dri/renderD128")).filter(|group| *group != 0);
        assert_eq!(groups, own.into_iter().collect());
        fs_err::write(root.path().join("dev/kfd"), "").unwrap();
        assert_eq!(gpu_devices(root.path()).0, ["/dev/kfd", "/dev/dri"]);
    }

    #[test]
    fn a_container_serves_what_it_was_started_for() {
        let needs = |read: &[&str], write: &[&str], downloads| Needs {
            read: read.iter().map(PathBuf::from).collect(),
            write: write.iter().map(PathBuf::from).collect(),
            downloads,
            ..Needs::default()
        };
        let has = needs(&["/sources"], &["/out"], false);
        assert!(has.cover(&needs(&["/sources/torch", "/out/x"], &["/out/.rocwheel"], false)));
        assert!(!has.cover(&needs(&["/other"], &[], false)));
        assert!(!has.cover(&needs(&[], &["/sources"], false)));
        assert!(!has.cover(&needs(&[], &[], true)));
    }

    fn surroundings(variables: &[(&str, &str)]) -> Surroundings {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn options(needs: &Needs, surroundings: Surroundings, scratch: &Path) -> Vec<String> {
        let request = Request {
            command: "docker".into(),
            options: Vec::new(),
            network: None,
            pull: Pull::Never,
            program: "/program".into(),
            cache: None,
            surroundings,
        };
        let engine = Engine { words: vec!["docker".into()], kind: Kind::Docker, root: Root::Real, request };
        engine.run_options(needs, &Image::named("image"), scratch).unwrap()
    }

    #[test]
    fn secrets_of_compiler_caches_are_on_no_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, settings) = (folder.path().join("cache"), folder.path().join("aws"));
        fs_err::write(&settings, "").unwrap();
        let caller = surroundings(&[
            ("AWS_SECRET_ACCESS_KEY", "hidden"),
            ("AWS_CONFIG_FILE", settings.to_str().unwrap()),
            ("CCACHE_REMOTE_STORAGE", "https://user:hidden@host"),
            ("SCCACHE_DIR", cache.to_str().unwrap()),
            ("SCCACHE_REDIS_PASSWORD", "hidden"),
        ]);
        let mut needs = Needs::default();
        needs.compiler_cache(CompilerCache::Sccache, &caller).unwrap();
        assert!(needs.read.contains(&settings));
        let words = options(&needs, caller, folder.path()).join(" ");
        assert!(!words.contains("hidden"), "{words}");
        for wanted in ["--env AWS_SECRET_ACCESS_KEY ", "--env SCCACHE_REDIS_PASSWORD", "--env SCCACHE_DIR="] {
            assert!(words.contains(wanted), "{words}");
        }
        assert!(!words.contains("CCACHE_REMOTE_STORAGE"), "{words}");
    }

    #[test]
    fn what_a_link_leads_to_is_mounted_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["trees/near", "far/tree", "scratch"] {
            fs_err::create_dir_all(path(name)).unwrap();
        }
        rocwheel_system::symlink(path("far/tree"), path("trees/link")).unwrap();
        let mut needs = Needs::default();
        for name in ["trees", "trees/near", "trees/link"] {
            needs.reads(&path(name));
        }
        let words = options(&needs, Surroundings::default(), &path("scratch"));
        let is_mounted = |name: &str| {
            let target = format!(",target={},readonly", path(name).display());
            words.iter().any(|word| word.ends_with(&target))
        };
        assert!(is_mounted("trees") && is_mounted("trees/link") && !is_mounted("trees/near"), "{words:?}");
        let has = Needs { read: [path("trees")].into(), ..Needs::default() };
        assert!(has.cover(&Needs { read: [path("trees/near")].into(), ..Needs::default() }));
        assert!(!has.cover(&Needs { read: [path("trees/link")].into(), ..Needs::default() }));
    }

    #[test]
    fn the_repository_of_a_worktree_and_settings_of_uv_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (main, tree) = (folder.path().join("main"), folder.path().join("tree"));
        fs_err::create_dir_all(&main).unwrap();
        let home = folder.path().to_string_lossy().into_owned();
        let path = std::env::var("PATH").expect("the tests have a PATH");
        let caller = surroundings(&[("PATH", &path), ("HOME", &home)]);
        let git = |words: &[&str]| source_digest::git(&main, words, &caller, &Silent).unwrap().expect("git is there");
        git(&["init", "--quiet"]);
        let commit = "-c user.name=n -c user.email=e@example.org commit --quiet --allow-empty -m one";
        git(&commit.split(' ').collect::<Vec<_>>());
        git(&["worktree", "add", "--quiet", tree.to_str().unwrap()]);
        let mut needs = Needs::default();
        needs.repository(&main, &caller).unwrap();
        assert_eq!(needs, Needs::default());
        needs.repository(&tree, &caller).unwrap();
        let seen: Vec<PathBuf> = needs.read.iter().map(|path| rocwheel_system::canonicalize(path).unwrap()).collect();
        assert_eq!(seen, [rocwheel_system::canonicalize(main.join(".git")).unwrap()]);
        let settings = folder.path().join(".config/uv/uv.toml");
        fs_err::create_dir_all(settings.parent().unwrap()).unwrap();
        fs_err::write(&settings, "").unwrap();
        assert_eq!(installer_settings(&caller)[1], Some(settings));
        assert_eq!(installer_settings(&surroundings(&[("HOME", &home), ("UV_NO_CONFIG", "1")]))[1], None);
    }

    #[test]
    fn names_that_would_become_other_options_are_refused() {
        assert!(mountable(Path::new("/a b:c")).is_ok());
        for wrong in ["/a,readonly", "/a\"b", "/a\nb"] {
            assert!(mountable(Path::new(wrong)).is_err(), "{wrong}");
        }
    }
}
