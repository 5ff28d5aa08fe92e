//! Sources from an archive: after unpacking, everything is the same as with a repository.

use rocwheel_progress::Silent;
use rocwheel_source::{CheckoutStatus, HIPIFY, SourceArchive, UPSTREAM};

use crate::world::{World, git, write};

/// An archive of torch's tree at a tag, like one of a release.
fn archive(world: &World, tag: &str) -> std::path::PathBuf {
    let path = world.path("files").join(format!("torch-{}.tar.gz", tag.replace('/', "-")));
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    let output = format!("--output={}", path.display());
    git(&world.origin("torch"), &["archive", "--prefix=torch-x/", "--format=tar.gz", &output, tag]);
    path
}

fn request(world: &World, path: &std::path::Path, sha256: Option<String>) -> rocwheel_source::Request {
    let mut request = world.request(&["torch"]);
    request.projects[0].archive = Some(SourceArchive { path: path.to_owned(), sha256 });
    request
}

#[test]
fn an_archive_is_the_upstream_commit() {
    let world = World::new();
    let path = archive(&world, "v2.9.0");
    let digest = rocwheel_source::sha256(&path, &Silent).unwrap();
    let outcome = world.run(&request(&world, &path, Some(digest.clone()))).unwrap().remove(0);
    let tree = world.path("pytorch");
    assert_eq!(git(&tree, &["log", "--format=%s", HIPIFY]), "DO NOT SUBMIT: HIPIFY\nSources of torch-v2.9.0.tar.gz");
    assert_eq!(git(&tree, &["rev-parse", UPSTREAM]), outcome.commit);
    assert!(git(&tree, &["log", "-1", "--format=%B", UPSTREAM]).contains(&digest));
    let files = |tree: &std::path::Path, commit: &str| git(tree, &["ls-tree", "-r", commit]);
    let original: Vec<String> = files(&world.origin("torch"), "v2.9.0")
        .lines()
        .filter(|line| !line.starts_with("160000"))
        .map(Into::into)
        .collect();
    assert_eq!(files(&tree, UPSTREAM).lines().collect::<Vec<_>>(), original);
    assert_eq!(world.run(&request(&world, &path, None)).unwrap()[0].status, CheckoutStatus::Unchanged);
    // The same archive makes the same commit in another folder, and another archive moves the tree.
    let mut elsewhere = request(&world, &path, None);
    elsewhere.projects[0].directory = Some(world.path("elsewhere"));
    assert_eq!(world.run(&elsewhere).unwrap()[0].commit, outcome.commit);
    let other = archive(&world, "release/2.9");
    let moved = world.run(&request(&world, &other, None)).unwrap().remove(0);
    assert_eq!(moved.status, CheckoutStatus::Changed);
    assert!(tree.join("related_commits").exists());
    write(&tree.join("notes"), "mine");
    assert!(!world.run(&request(&world, &path, None)).unwrap_err().rows().is_empty());
}

#[test]
fn an_archive_that_is_wrong_leaves_nothing() {
    let world = World::new();
    let path = archive(&world, "v2.9.0");
    let error = world.run(&request(&world, &path, Some("0".repeat(64)))).unwrap_err();
    assert!(error.to_string().contains("has SHA-256"), "{error}");
    let bytes = fs_err::read(&path).unwrap();
    fs_err::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = world.run(&request(&world, &path, None)).unwrap_err();
    assert!(error.to_string().contains("could not take the source archive"), "{error}");
    assert!(world.run(&request(&world, &world.path("nowhere.tar"), None)).is_err());
    assert!(!world.path("pytorch").exists());
    let mut both = request(&world, &path, None);
    both.projects[0].reference = Some("main".into());
    assert!(world.plan(&both).unwrap_err().to_string().contains("an archive and from a repository"));
}
