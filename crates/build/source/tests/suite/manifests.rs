//! Manifests of checkouts, and checkouts from these manifests.

use rocwheel_progress::Silent;
use rocwheel_source::CheckoutStatus;
use rocwheel_source::manifest::{self, ManifestProject, ManifestSources, SourceManifest};
use rocwheel_source::patches::PatchSet;

use crate::world::{World, commit, git, plain_git, write};

fn sources(world: &World, projects: &[(&str, &str)]) -> ManifestSources {
    ManifestSources {
        checkouts: projects.iter().map(|(name, folder)| ((*name).to_owned(), world.path(folder))).collect(),
        suffix: manifest::suffix("7.14.0").unwrap(),
        therock: None,
    }
}

#[test]
fn a_manifest_brings_back_what_it_was_made_of() {
    let world = World::new();
    let mut request = world.request(&["torch", "torchaudio", "torchvision", "triton"]);
    request.line = Some("2.9".into());
    let before = world.run(&request).unwrap();
    let checkouts = [
        ("torch", "pytorch"),
        ("torchaudio", "pytorch_audio"),
        ("torchvision", "pytorch_vision"),
        ("triton", "triton"),
    ];
    let mut sources = sources(&world, &checkouts);
    let commit = "89553ce3746eda74ade42557470d25e37c91b6f0".to_owned();
    sources.therock = Some(ManifestProject {
        key: "therock".into(),
        repo: "https://x".into(),
        commit,
        branch: None,
        version: Some("7.14.0".into()),
    });
    let made = manifest::describe(&sources, &world.table, &plain_git(), &Silent).unwrap();
    let keys: Vec<&str> = made.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["pytorch", "pytorch_audio", "pytorch_vision", "triton", "therock"]);
    assert_eq!(made.entries[0].branch.as_deref(), Some("release/2.9"));
    assert_eq!(made.entries[1].branch, None, "a pin has no branch");
    let versions: Vec<&str> = made.entries.iter().map(|entry| entry.version.as_deref().unwrap()).collect();
    assert_eq!(
        versions,
        ["2.9.0a0+rocm7.14.0", "0.1.0a0+rocm7.14.0", "0.1.0a0+rocm7.14.0", "3.4.0+rocm7.14.0", "7.14.0"]
    );
    let path = world.path("manifest.json");
    write(&path, made.text());
    let read = SourceManifest::read(&path).unwrap();
    assert_eq!(read, made);
    // The same commits in another folder, from the manifest alone.
    let mut request = world.request(&[]);
    request.root = world.path("elsewhere");
    for (project, _) in checkouts {
        let entry = read.entry(world.table.project(project).unwrap()).unwrap();
        request.projects.push(rocwheel_source::WantedCheckout {
            project: project.into(),
            manifest: Some(entry.clone()),
            ..rocwheel_source::WantedCheckout::default()
        });
    }
    let after = world.run(&request).unwrap();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(
            (&before.project, &before.commit, after.status),
            (&after.project, &after.commit, CheckoutStatus::New)
        );
        // The commit on top is the same too: triton is still the one that torch pins.
        assert_eq!(before.head, after.head, "{}", before.project);
    }
    // A manifest of these trees is the same again.
    sources.checkouts.iter_mut().zip(checkouts).for_each(|((_, path), (_, folder))| {
        *path = world.path("elsewhere").join(folder);
    });
    assert_eq!(manifest::describe(&sources, &world.table, &plain_git(), &Silent).unwrap(), made);
}

#[test]
fn a_triton_that_was_not_pinned_is_none_in_the_manifest_either() {
    let world = World::new();
    world.run(&world.at("torch", "nightly")).unwrap();
    let before = world.run(&world.at("triton", "release/3.4.x")).unwrap().remove(0);
    let made = manifest::describe(&sources(&world, &[("triton", "triton")]), &world.table, &plain_git(), &Silent);
    let mut request = world.request(&["triton"]);
    request.projects[0].directory = Some(world.path("again"));
    request.projects[0].manifest = made.unwrap().entries.pop();
    assert_eq!(world.run(&request).unwrap()[0].head, before.head);
    assert_eq!(fs_err::read_to_string(world.path("again/build_env.json")).unwrap(), "{}");
}

#[test]
fn patches_of_a_branch_are_also_those_of_its_manifest() {
    let world = World::new();
    let mut request = world.at("torchaudio", "main");
    request.patches = Some(world.path("patches"));
    world.run(&request).unwrap();
    let tree = world.path("pytorch_audio");
    write(&tree.join("version.txt"), "9\n");
    commit(&tree, "mine");
    PatchSet::of(&tree, &world.path("patches"), None, &world.table).unwrap().save(&plain_git(), &Silent).unwrap();
    let checkouts = sources(&world, &[("torchaudio", "pytorch_audio")]);
    let entry = manifest::describe(&checkouts, &world.table, &plain_git(), &Silent).unwrap().entries.pop().unwrap();
    request.projects[0] = rocwheel_source::WantedCheckout {
        project: "torchaudio".into(),
        directory: Some(world.path("again")),
        manifest: Some(entry),
        ..rocwheel_source::WantedCheckout::default()
    };
    assert_eq!(world.run(&request).unwrap()[0].patches, 1);
    let set = PatchSet::of(&world.path("again"), &world.path("patches"), None, &world.table).unwrap();
    assert_eq!(set.set, world.path("patches/pytorch_audio/main"));
}

#[test]
fn what_is_not_there_cannot_be_described() {
    let world = World::new();
    let refused = |projects: &[(&str, &str)]| {
        let described = manifest::describe(&sources(&world, projects), &world.table, &plain_git(), &Silent);
        described.unwrap_err().to_string()
    };
    assert!(refused(&[("torch", "pytorch")]).starts_with("there is no checkout of torch"));
    assert!(refused(&[("magma", "magma")]).contains("do not have magma"));
    fs_err::create_dir_all(world.path("")).unwrap();
    git(&world.path(""), &["clone", "--quiet", &world.origin("audio").display().to_string(), "pytorch_audio"]);
    assert!(refused(&[("torchaudio", "pytorch_audio")]).contains("has no tag"));
    assert!(SourceManifest::read(&world.path("nowhere.json")).is_err());
}
