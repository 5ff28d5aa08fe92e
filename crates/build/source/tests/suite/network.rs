//! Checkouts over the network: `git://`, `http://`, and a server that knows only the oldest
//! protocol; connections that break, and servers that do not have the requested reference.

use std::path::Path;

use rocwheel_fixtures::git_server::{Behaviour, GitServer, Protocol};
use rocwheel_progress::Exit;
use rocwheel_source::{CheckoutStatus, Request, UPSTREAM};
use tempfile::TempDir;

use crate::world::{World, commit, git, write};

/// Bytes of a file that cannot be compressed.
const LARGE: u32 = 400_000;

/// Repositories with a history. Their submodules are named relative to the repository's own
/// address, as in large projects with all repositories on one host.
fn origins() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let large = |seed: u32| {
        let mut state = seed;
        let bytes = (0..LARGE).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        bytes.collect::<Vec<u8>>()
    };
    for (name, submodule) in [("inner", None), ("middle", Some("inner")), ("super", Some("middle"))] {
        let path = folder.path().join(name);
        fs_err::create_dir(&path).unwrap();
        git(&path, &["init", "--quiet", "--initial-branch=main"]);
        for step in ["first", "second", "third"] {
            write(&path.join("version.txt"), format!("{name} {step}\n"));
            commit(&path, step);
        }
        write(&path.join("large.bin"), large(name.len() as u32));
        if let Some(submodule) = submodule {
            git(&path, &["submodule", "--quiet", "add", &format!("../{submodule}"), &format!("external/{submodule}")]);
        }
        commit(&path, "all of it");
        git(&path, &["branch", "release/2.9"]);
        git(&path, &["tag", "v2.9.0"]);
    }
    folder
}

fn request(world: &World, server: &GitServer, reference: &str) -> Request {
    let mut request = world.at("torch", reference);
    request.projects[0].origin = Some(server.address("super"));
    request
}

/// Checks that none of git's temporary files is left.
fn assert_clean(tree: &Path) {
    for folder in [tree.to_owned(), tree.join("external/middle"), tree.join("external/middle/external/inner")] {
        assert_eq!(git(&folder, &["status", "--porcelain"]), "", "{}", folder.display());
        assert_eq!(git(&folder, &["rev-parse", "HEAD"]), git(&folder, &["rev-parse", UPSTREAM]));
        git(&folder, &["fsck", "--no-dangling"]);
    }
}

#[test]
fn every_protocol_gives_the_same_tree_as_deep_as_asked_for() {
    let (world, origins) = (World::new(), origins());
    let tip = git(&origins.path().join("super"), &["rev-parse", "release/2.9"]);
    let earlier = git(&origins.path().join("super"), &["rev-parse", "main~2"]);
    for protocol in [Protocol::Git, Protocol::Http, Protocol::OldHttp] {
        let server = GitServer::new(origins.path(), protocol);
        let place = world.path(&format!("{protocol:?}"));
        let mut shallow = request(&world, &server, "release/2.9");
        (shallow.depth, shallow.jobs) = (Some(1), Some(4));
        shallow.projects[0].directory = Some(place.clone());
        let outcome = world.run(&shallow).unwrap().remove(0);
        assert_eq!(
            (&outcome.commit, outcome.submodules, outcome.status),
            (&tip, 2, CheckoutStatus::New),
            "{protocol:?}"
        );
        assert_clean(&place);
        for folder in [place.clone(), place.join("external/middle")] {
            assert_eq!(git(&folder, &["rev-list", "--count", "HEAD"]), "1", "{protocol:?}");
        }
        server.served();
        assert_eq!(world.run(&shallow).unwrap()[0].status, CheckoutStatus::Unchanged);
        assert!(server.served().iter().all(|served| served.bytes < 10_000), "the names alone were asked for");
        // The whole history, and a commit to which no name leads.
        let mut whole = request(&world, &server, &earlier);
        whole.projects[0].directory = Some(place.clone());
        let outcome = world.run(&whole).unwrap().remove(0);
        assert_eq!((&outcome.commit, outcome.submodules, outcome.status), (&earlier, 0, CheckoutStatus::Changed));
        assert!(!place.join("external/middle").exists(), "{protocol:?}");
    }
}

#[test]
fn a_connection_that_breaks_is_taken_up_where_it_broke() {
    let (world, origins) = (World::new(), origins());
    for protocol in [Protocol::Git, Protocol::Http] {
        let server = GitServer::new(origins.path(), protocol);
        let place = world.path(&format!("{protocol:?}"));
        let mut request = request(&world, &server, "main");
        request.projects[0].directory = Some(place.clone());
        let broken = |repository: &str| {
            server.behave(Behaviour::Cut { repository: repository.to_owned(), after: 100_000 });
            let error = world.run(&request).unwrap_err();
            assert_eq!(error.exit(), Exit::TryAgain, "{error}: {:?}", std::error::Error::source(&error));
            assert!(error.hint().unwrap().contains("it continues where it stopped"), "{:?}", error.hint());
        };
        broken("super");
        assert!(!place.exists(), "nothing arrived");
        broken("middle");
        broken("inner");
        server.behave(Behaviour::Serve);
        server.served();
        let outcome = world.run(&request).unwrap().remove(0);
        assert_eq!(outcome.submodules, 2);
        assert!(outcome.kept.is_empty(), "nothing was there that anybody could miss: {:?}", outcome.kept);
        assert_clean(&place);
        let again = server.served();
        let bytes = |name: &str| {
            again.iter().filter(|served| served.repository == name).map(|served| served.bytes).sum::<usize>()
        };
        assert!(bytes("super") < 10_000 && bytes("middle") < 10_000, "these had arrived: {again:?}");
        assert!(bytes("inner") > LARGE as usize, "{again:?}");
    }
}

#[test]
fn a_tag_that_was_moved_is_followed() {
    let (world, origins) = (World::new(), origins());
    let server = GitServer::new(origins.path(), Protocol::Http);
    let request = request(&world, &server, "v2.9.0");
    let first = world.run(&request).unwrap().remove(0);
    let origin = origins.path().join("super");
    write(&origin.join("version.txt"), "corrected\n");
    let moved = commit(&origin, "correction");
    git(&origin, &["tag", "--force", "v2.9.0"]);
    let second = world.run(&request).unwrap().remove(0);
    assert_eq!((&second.commit, second.status), (&moved, CheckoutStatus::Changed));
    assert_ne!(first.commit, second.commit);
    assert_clean(&world.path("pytorch"));
}

#[test]
fn what_a_server_does_not_have_is_named() {
    let (world, origins) = (World::new(), origins());
    let explained = |request: &Request, exit: Exit, hint: &str| {
        let error = world.run(request).unwrap_err();
        let said = error.hint().unwrap_or_default();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        assert!(said.contains(hint), "{said}: {error}: {cause:?}");
        assert_eq!(error.exit(), exit, "{error}");
        assert!(!world.path("pytorch").exists());
    };
    for protocol in [Protocol::Git, Protocol::Http, Protocol::OldHttp] {
        let server = GitServer::new(origins.path(), protocol);
        explained(&request(&world, &server, "release/2.90"), Exit::Failed, "did you mean `release/2.9`");
        explained(&request(&world, &server, &"ab".repeat(20)), Exit::Failed, "`git ls-remote`");
        let mut gone = request(&world, &server, "main");
        gone.projects[0].origin = Some(server.address("gone"));
        explained(&gone, Exit::Failed, "the origin is gone or never was");
        if protocol == Protocol::Http {
            server.behave(Behaviour::AskWhereNothingIs);
            explained(&gone, Exit::Failed, "is gone looks the same");
        }
        // For a server that does not answer, the only advice is to try again.
        let request = request(&world, &server, "main");
        drop(server);
        explained(&request, Exit::TryAgain, "the network failed");
    }
    // The address of a missing submodule is not the origin's.
    let server = GitServer::new(origins.path(), Protocol::Http);
    fs_err::remove_dir_all(origins.path().join("inner")).unwrap();
    let error = world.run(&request(&world, &server, "main")).unwrap_err();
    assert!(error.hint().unwrap().contains(".gitmodules"), "{error}");
}
