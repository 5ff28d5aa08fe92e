//! Failures, their messages, and the state that they leave.

use rocwheel_progress::{Exit, Silent};
use rocwheel_source::{Convert, Request, TreeConversion};

use crate::world::{TRITON_FILE, World, commit, git, plain_git, write};

fn dirty(world: &World, request: &Request) -> Vec<String> {
    let error = world.run(request).unwrap_err();
    assert!(error.to_string().contains("has work in it that a checkout would lose"), "{error}");
    error.rows().to_vec()
}

#[test]
fn work_in_the_tree_is_never_overwritten() {
    let world = World::new();
    let mut request = world.at("torch", "nightly");
    world.run(&request).unwrap();
    let tree = world.path("pytorch");
    let inside = tree.join("third_party/fbgemm");
    write(&tree.join("torch/csrc/m.cpp"), "mine\n");
    write(&tree.join("notes.txt"), "mine\n");
    write(&inside.join("src/a.cu"), "mine\n");
    request.projects[0].reference = Some("release/2.9".into());
    let before = git(&tree, &["rev-parse", "HEAD"]);
    let found = dirty(&world, &request);
    assert_eq!(found, [" M torch/csrc/m.cpp", "?? notes.txt", " M third_party/fbgemm/src/a.cu"]);
    assert_eq!(git(&tree, &["rev-parse", "HEAD"]), before);
    assert_eq!(fs_err::read_to_string(inside.join("src/a.cu")).unwrap(), "mine\n");
    // A commit is not saved as long as no branch leads to it.
    commit(&tree, "my work");
    commit(&inside, "my other work");
    let found = dirty(&world, &request);
    assert!(
        found.len() == 2 && found[0].ends_with(" my work") && found[1].starts_with("third_party/fbgemm: commit "),
        "{found:?}"
    );
    git(&tree, &["branch", "mine"]);
    git(&inside, &["branch", "mine"]);
    world.run(&request).unwrap();
    assert_eq!(git(&tree, &["log", "-1", "--format=%s", "mine"]), "my work");
}

/// The message has the first twenty rows; the error has all of them.
#[test]
fn every_commit_that_would_be_lost_is_named() {
    let world = World::new();
    let mut request = world.at("torch", "nightly");
    world.run(&request).unwrap();
    let tree = world.path("pytorch");
    for number in 0..25 {
        write(&tree.join("notes.txt"), number.to_string());
        commit(&tree, &format!("work {number}"));
    }
    request.projects[0].reference = Some("release/2.9".into());
    let error = world.run(&request).unwrap_err();
    assert!(error.to_string().ends_with("    and 5 more"), "{error}");
    let rows = error.rows();
    assert!(rows.len() == 25 && rows[24].ends_with(" work 0"), "{rows:?}");
}

#[test]
fn a_change_on_top_of_what_a_run_left_is_work_too() {
    let world = World::new();
    let mut request = world.at("torch", "nightly");
    request.conversion = TreeConversion::Keep;
    world.run(&request).unwrap();
    write(&world.path("pytorch/torch/csrc/hip/new.hip"), "mine\n");
    let found = dirty(&world, &request);
    assert!(found.contains(&"?? torch/csrc/hip/new.hip".to_owned()), "{found:?}");
}

#[test]
fn what_does_not_exist_is_named_and_leaves_nothing() {
    let world = World::new();
    let error = world.run(&world.at("torch", "release/2.90")).unwrap_err();
    assert!(error.to_string().contains("has no branch, tag or commit `release/2.90`"), "{error}");
    assert!(error.hint().unwrap().contains("`release/2.9`"), "{:?}", error.hint());
    assert!(!world.path("pytorch").exists());
    let missing = world.run(&world.at("torch", &"ab".repeat(20))).unwrap_err();
    assert!(missing.to_string().contains("has no branch, tag or commit"), "{missing}");
    let short = world.run(&world.at("torch", "abcdef12")).unwrap_err();
    assert!(short.hint().unwrap().contains("all 40 digits"), "{:?}", short.hint());
    let mut request = world.at("torch", "nightly");
    request.projects[0].origin = Some("/nowhere/at all.git".into());
    let gone = world.run(&request).unwrap_err();
    assert!(gone.to_string().contains("could not fetch `nightly` of /nowhere/at all.git"), "{gone}");
    assert!(gone.hint().unwrap().contains("--origin"), "{:?}", gone.hint());
    assert!(!world.path("pytorch").exists());
    // An existing checkout stays unchanged.
    world.run(&world.at("torch", "nightly")).unwrap();
    let head = git(&world.path("pytorch"), &["rev-parse", "HEAD"]);
    assert!(world.run(&request).is_err());
    assert_eq!(git(&world.path("pytorch"), &["rev-parse", "HEAD"]), head);
    assert_eq!(git(&world.path("pytorch"), &["status", "--porcelain"]), "");
}

#[test]
fn contradictions_are_refused_before_anything_is_done() {
    let world = World::new();
    let reason = |request: &Request| world.plan(request).unwrap_err();
    let twice = reason(&world.request(&["torch", "pytorch"]));
    assert!(twice.to_string().contains("torch is asked for twice") && twice.exit() == Exit::Usage, "{twice}");
    assert!(reason(&world.request(&[])).to_string().contains("no project"));
    let unknown = reason(&world.request(&["tensorflow"]));
    assert!(unknown.hint().unwrap().contains("torchaudio"), "{unknown}");
    for bad in ["--upload-pack=touch x", "a b", "main:main", ""] {
        assert!(reason(&world.at("torch", bad)).to_string().contains("cannot be the ref of torch"), "{bad}");
    }
    let mut request = world.request(&["torch", "torchaudio"]);
    request.projects[1].directory = Some(world.path("pytorch"));
    assert!(reason(&request).to_string().contains("would both go to"));
    let mut request = world.request(&["torch"]);
    request.line = Some("1.0".into());
    assert!(reason(&request).hint().unwrap().contains("nightly, 2.15"));
}

#[test]
fn pins_that_cannot_be_read_stop_before_the_project() {
    let world = World::new();
    world.run(&world.at("torch", "release/2.9")).unwrap();
    let pins = world.path("pytorch/related_commits");
    let good = fs_err::read_to_string(&pins).unwrap();
    write(&pins, format!("nonsense\n{good}"));
    let error = world.run(&world.request(&["torchvision"])).unwrap_err();
    assert!(error.to_string().contains("line 1: `nonsense` has 1 fields"), "{error}");
    assert!(error.hint().unwrap().contains("--ref"));
    write(&world.path("pytorch").join(TRITON_FILE), "");
    let error = world.run(&world.request(&["triton"])).unwrap_err().to_string();
    assert!(error.contains("triton.txt`: it is empty"), "{error}");
    fs_err::remove_file(world.path("pytorch").join(TRITON_FILE)).unwrap();
    let error = world.run(&world.request(&["triton"])).unwrap_err();
    let hint = error.hint().unwrap();
    assert!(hint.contains("pytorch` has no such file: it is older") && hint.contains("--ref"), "{error}: {hint}");
    let mut request = world.request(&["triton"]);
    request.torch = Some(world.path("nowhere"));
    let error = world.run(&request).unwrap_err();
    assert!(
        error.to_string().contains("there is no pin file") && error.hint().unwrap().contains("--torch-directory"),
        "{error}"
    );
    assert!(!world.path("triton").exists() && !world.path("pytorch_vision").exists());
}

#[test]
fn a_folder_with_something_else_in_it_is_left_alone() {
    let world = World::new();
    write(&world.path("pytorch/thesis.txt"), "mine");
    let error = world.run(&world.at("torch", "nightly")).unwrap_err().to_string();
    assert!(error.contains("is not a git repository"), "{error}");
    assert_eq!(fs_err::read_dir(world.path("pytorch")).unwrap().count(), 1);
    write(&world.path("file"), "mine");
    let mut request = world.at("torch", "nightly");
    request.projects[0].directory = Some(world.path("file"));
    let error = world.run(&request).unwrap_err();
    assert!(error.to_string().contains("is not a git repository"), "{error}");
    // A checkout inside another repository does not belong to that repository.
    git(&world.path(""), &["init", "--quiet"]);
    request.projects[0].directory = Some(world.path("inside/it"));
    world.run(&request).unwrap();
    assert!(world.path("inside/it/.git").is_dir());
}

/// A conversion that starts the same checkout while it is being made.
struct Twice<'a>(&'a World);

impl Convert for Twice<'_> {
    fn convert(
        &self,
        _: &std::path::Path,
        _: &dyn rocwheel_progress::Reporter,
    ) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
        let error = self.0.run(&self.0.at("torch", "nightly")).unwrap_err();
        assert_eq!(error.exit(), Exit::TryAgain);
        Err(error.into())
    }

    fn settings(&self) -> String {
        String::new()
    }
}

#[test]
fn two_runs_do_not_work_in_one_folder_and_a_failed_conversion_is_made_again() {
    let world = World::new();
    let request = world.at("torch", "nightly");
    let error = world.plan(&request).unwrap().execute(&plain_git(), &Twice(&world), &Silent, &mut |_| {}).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        error.to_string().contains("could not convert") && cause.contains("another run works in"),
        "{error}: {cause}"
    );
    let outcome = world.run(&request).unwrap().remove(0);
    assert!(outcome.hipify.is_some() && outcome.kept.is_empty(), "{outcome:?}");
}

#[test]
fn the_surroundings_change_nothing() {
    let world = World::new();
    let head = world.run(&world.at("torch", "nightly")).unwrap()[0].head.clone();
    let home = world.path("home");
    write(
        &home.join(".gitconfig"),
        "[core]\nautocrlf = true\nhooksPath = /nowhere\n[commit]\ngpgSign = true\n[user]\nname = Me\n[init]\ndefaultBranch = x\n[fetch]\nprune = true\n",
    );
    write(&home.join(".config/git/ignore"), "*.hip\n");
    let variables = [
        ("PATH", std::env::var("PATH").unwrap()),
        ("HOME", home.display().to_string()),
        ("GIT_DIR", "/nowhere".to_owned()),
        ("GIT_WORK_TREE", "/nowhere".to_owned()),
        ("GIT_AUTHOR_NAME", "Me".to_owned()),
        ("GIT_TRACE", "1".to_owned()),
        ("LANG", "de_DE.UTF-8".to_owned()),
    ];
    let git = rocwheel_source::Git::new(variables.map(|(name, value)| (name.into(), value.into()))).unwrap();
    let mut request = world.at("torch", "nightly");
    request.projects[0].directory = Some(world.path("again"));
    let outcome =
        world.plan(&request).unwrap().execute(&git, &crate::world::Marks, &Silent, &mut |_| {}).unwrap().remove(0);
    assert_eq!(outcome.head, head);
    // The user's settings decide how repositories are reached.
    let mirror = format!("[url \"{}\"]\ninsteadOf = https://example.invalid/torch\n", world.origin("torch").display());
    write(&home.join(".gitconfig"), mirror);
    let git = rocwheel_source::Git::new(variables_of(&home)).unwrap();
    request.projects[0].origin = Some("https://example.invalid/torch".into());
    request.projects[0].directory = Some(world.path("mirrored"));
    request.submodules = rocwheel_source::Submodules::Leave;
    world.plan(&request).unwrap().execute(&git, &crate::world::Marks, &Silent, &mut |_| {}).unwrap();
    let error = rocwheel_source::Git::new([])
        .and_then(|git| rocwheel_source::manifest::describe(&nothing(), &world.table, &git, &Silent));
    assert!(error.is_err() || error.unwrap().entries.is_empty());
}

fn nothing() -> rocwheel_source::manifest::ManifestSources {
    rocwheel_source::manifest::ManifestSources { checkouts: Vec::new(), suffix: String::new(), therock: None }
}

fn variables_of(home: &std::path::Path) -> [(std::ffi::OsString, std::ffi::OsString); 2] {
    [("PATH".into(), std::env::var_os("PATH").unwrap()), ("HOME".into(), home.into())]
}
