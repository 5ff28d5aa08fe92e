//! What is checked out, written down, and checked out again from that.

use report::Silent;
use source::manifest::{self, Entry, Manifest, Sources};
use source::{Error, Status};

use crate::world::{World, git, plain_git, write};

fn sources(world: &World, projects: &[(&str, &str)]) -> Sources {
    Sources {
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
    sources.therock = Some(Entry {
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
    let read = Manifest::read(&path).unwrap();
    assert_eq!(read, made);
    // The same commits elsewhere, of the manifest alone.
    let mut request = world.request(&[]);
    request.root = world.path("elsewhere");
    for (project, _) in checkouts {
        let entry = read.entry(world.table.project(project).unwrap()).unwrap();
        request.projects.push(source::Wanted {
            project: project.into(),
            origin: Some(entry.repo.clone()),
            reference: Some(entry.commit.clone()),
            ..source::Wanted::default()
        });
    }
    let after = world.run(&request).unwrap();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&before.project, &before.commit, after.status), (&after.project, &after.commit, Status::New));
    }
    assert_eq!(fs_err::read_to_string(world.path("elsewhere/triton/build_env.json")).unwrap(), "{}");
}

#[test]
fn what_is_not_there_cannot_be_described() {
    let world = World::new();
    let describe =
        |projects: &[(&str, &str)]| manifest::describe(&sources(&world, projects), &world.table, &plain_git(), &Silent);
    assert!(matches!(describe(&[("torch", "pytorch")]), Err(Error::NoCheckout { .. })));
    assert!(describe(&[("magma", "magma")]).unwrap_err().to_string().contains("do not have magma"));
    fs_err::create_dir_all(world.path("")).unwrap();
    git(&world.path(""), &["clone", "--quiet", &world.origin("audio").display().to_string(), "pytorch_audio"]);
    assert!(matches!(describe(&[("torchaudio", "pytorch_audio")]), Err(Error::NoTag { .. })));
    assert!(Manifest::read(&world.path("nowhere.json")).is_err());
}
