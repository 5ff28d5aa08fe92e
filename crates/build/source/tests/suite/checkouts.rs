//! The result of a checkout, and the effect of a second one.

use rocwheel_source::{
    CheckoutStatus, HIPIFY, Movement, Reference, Related, Submodules, TreeConversion, TritonPin, UPSTREAM,
};

use crate::world::{World, commit, git, write};

#[test]
fn the_tree_has_therocks_shape() {
    let world = World::new();
    let outcomes = world.run(&world.at("torch", "release/2.9")).unwrap();
    let tree = world.path("pytorch");
    let upstream = git(&world.origin("torch"), &["rev-parse", "release/2.9"]);
    assert_eq!(
        (outcomes[0].commit.as_str(), outcomes[0].status, outcomes[0].submodules),
        (&*upstream, CheckoutStatus::New, 2)
    );
    assert_eq!(git(&tree, &["rev-parse", UPSTREAM]), upstream);
    assert_eq!(git(&tree, &["rev-parse", "HEAD^"]), upstream);
    assert_eq!(git(&tree, &["rev-parse", "HEAD"]), git(&tree, &["rev-parse", HIPIFY]));
    assert_eq!(git(&tree, &["log", "-1", "--format=%s"]), "DO NOT SUBMIT: HIPIFY");
    assert_eq!(git(&tree, &["show", "--name-only", "--format=", "HEAD"]), "torch/csrc/hip/new.hip\ntorch/csrc/m.cpp");
    let sub = tree.join("third_party/fbgemm");
    assert_eq!(git(&sub, &["rev-parse", "HEAD^"]), git(&sub, &["rev-parse", UPSTREAM]));
    assert_eq!(git(&sub, &["rev-parse", HIPIFY]), git(&sub, &["rev-parse", "HEAD"]));
    let nested = sub.join("external/the nested one");
    assert_eq!(git(&nested, &["tag"]), UPSTREAM, "nothing was converted there");
    assert!(git(&tree, &["ls-files", "-v"]).contains("S third_party/fbgemm"));
    assert_eq!(git(&tree, &["config", "submodule.third_party/fbgemm.ignore"]), "all");
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
}

#[test]
fn the_same_commits_come_of_the_same_sources_anywhere() {
    let (world, mut heads) = (World::new(), Vec::new());
    for place in ["one", "another place"] {
        let mut request = world.at("torch", "nightly");
        request.projects[0].directory = Some(world.path(place));
        heads.push(world.run(&request).unwrap()[0].head.clone());
    }
    assert_eq!(heads[0], heads[1]);
}

#[test]
fn a_second_run_touches_nothing_and_another_commit_moves_everything() {
    let world = World::own();
    let (old, new) = (world.at("torch", "nightly"), world.at("torch", "release/2.9"));
    let first = world.run(&old).unwrap().remove(0);
    let file = world.path("pytorch/torch/csrc/m.cpp");
    let time = fs_err::metadata(&file).unwrap().modified().unwrap();
    let second = world.run(&old).unwrap().remove(0);
    assert_eq!((second.status, &second.head, &second.hipify), (CheckoutStatus::Unchanged, &first.head, &first.hipify));
    assert_eq!(fs_err::metadata(&file).unwrap().modified().unwrap(), time);
    let third = world.run(&new).unwrap().remove(0);
    assert_eq!(third.status, CheckoutStatus::Changed);
    assert_ne!(third.commit, first.commit);
    let tree = world.path("pytorch");
    assert_eq!(git(&tree, &["rev-parse", UPSTREAM]), third.commit, "the tag moved");
    assert_eq!(git(&tree, &["rev-parse", &format!("{HIPIFY}^")]), third.commit);
    // The checkout follows a branch that has moved.
    git(&world.origin("torch"), &["switch", "--quiet", "release/2.9"]);
    let moved = commit(&world.origin("torch"), "more");
    assert_eq!(world.run(&new).unwrap()[0].commit, moved);
}

#[test]
fn without_a_commit_the_tree_names_the_upstream_one_and_no_old_tag_stays() {
    let world = World::new();
    let mut request = world.at("torch", "nightly");
    world.run(&request).unwrap();
    request.conversion = TreeConversion::Keep;
    let outcome = world.run(&request).unwrap().remove(0);
    let tree = world.path("pytorch");
    assert_eq!((outcome.head.as_str(), outcome.hipify), (&*outcome.commit, None));
    assert_eq!(git(&tree, &["tag", "--list", "THEROCK_*"]), UPSTREAM);
    assert_eq!(git(&tree.join("third_party/fbgemm"), &["tag", "--list", "THEROCK_*"]), UPSTREAM);
    assert_eq!(git(&tree, &["status", "--porcelain"]), " M torch/csrc/m.cpp\n?? torch/csrc/hip/");
    // Uncommitted files of a run are its own, so the next run may overwrite them.
    assert_eq!(world.run(&request).unwrap()[0].status, CheckoutStatus::Unchanged);
    request.projects[0].reference = Some("release/2.9".into());
    assert_eq!(world.run(&request).unwrap()[0].status, CheckoutStatus::Changed);
    request.conversion = TreeConversion::Skip;
    assert_eq!(world.run(&request).unwrap()[0].status, CheckoutStatus::Changed);
    assert_eq!(git(&tree, &["status", "--porcelain"]), "");
}

#[test]
fn others_follow_torchs_pins() {
    let world = World::new();
    let mut request = world.request(&["triton", "torchvision", "torchaudio", "torch"]);
    request.line = Some("2.9".into());
    let outcomes = world.run(&request).unwrap();
    let projects: Vec<&str> = outcomes.iter().map(|outcome| outcome.project.as_str()).collect();
    assert_eq!(projects, ["torch", "torchaudio", "torchvision", "triton"]);
    let wanted = |name: &str, branch: &str| git(&world.origin(name), &["rev-parse", branch]);
    assert_eq!(outcomes[1].commit, wanted("audio", "main"), "the pin, not the branch of nightlies");
    assert_eq!(outcomes[2].commit, wanted("vision", "nightly"));
    assert_eq!(outcomes[3].commit, wanted("triton", "main"));
    let environment = fs_err::read_to_string(world.path("triton/build_env.json")).unwrap();
    assert_eq!(environment, "{\n  \"TRITON_WHEEL_VERSION_SUFFIX\": \"\"\n}");
    assert_eq!(
        git(&world.path("triton"), &["show", "--name-only", "--format=%s", HIPIFY]),
        "DO NOT SUBMIT: HIPIFY\n\nbuild_env.json"
    );
}

#[test]
fn an_option_comes_before_a_pin_and_a_pin_before_the_default() {
    let world = World::new();
    world.run(&world.at("torch", "release/2.9")).unwrap();
    let reference = |change: &dyn Fn(&mut rocwheel_source::Request)| {
        let mut request = world.request(&["torchvision"]);
        change(&mut request);
        world.plan(&request).unwrap().checkouts.remove(0).reference
    };
    let named = |reference| match reference {
        Reference::Named { origin, name, pinned, .. } => (origin, name, pinned),
        other => panic!("{other:?}"),
    };
    let pin = git(&world.origin("vision"), &["rev-parse", "nightly"]);
    let (origin, name, pinned) = named(reference(&|_| {}));
    assert_eq!((origin.as_str(), &name, pinned), (&*world.origin("vision").display().to_string(), &pin, true));
    assert_eq!(
        named(reference(&|request| request.projects[0].origin = Some("/mirror".into()))),
        ("/mirror".into(), pin, true)
    );
    assert_eq!(named(reference(&|request| request.projects[0].reference = Some("main".into()))).1, "main");
    assert_eq!(named(reference(&|request| request.torch = Some(world.path("nowhere")))).1, "nightly");
    // No pin file names apex here.
    let mut apex = world.request(&["apex"]);
    assert!(
        matches!(&world.plan(&apex).unwrap().checkouts[0].reference, Reference::Named { name, .. } if name == "master")
    );
    apex.related = Related::Required;
    let error = world.plan(&apex).unwrap_err().to_string();
    assert!(error.contains("does not mention `apex`"), "{error}");
}

#[test]
fn triton_follows_the_commit_or_the_release_and_its_rules() {
    let world = World::new();
    world.run(&world.at("torch", "nightly")).unwrap();
    let environment = |change: &dyn Fn(&mut rocwheel_source::Request)| {
        let mut request = world.request(&["triton"]);
        change(&mut request);
        world.run(&request).unwrap();
        let text = fs_err::read_to_string(world.path("triton/build_env.json")).unwrap();
        (git(&world.path("triton"), &["rev-parse", UPSTREAM]), text.replace(['\n', ' '], ""))
    };
    let at = |branch: &str| git(&world.origin("triton"), &["rev-parse", branch]);
    assert_eq!(environment(&|_| {}), (at("main"), r#"{"TRITON_WHEEL_VERSION_SUFFIX":""}"#.into()));
    assert_eq!(environment(&|request| request.triton = TritonPin::Release), (at("release/3.4.x"), "{}".into()));
    assert_eq!(
        environment(&|request| request.projects[0].reference = Some("nightly".into())),
        (at("nightly"), "{}".into())
    );
    let old = environment(&|request| request.triton_rules = Some("old".into())).1;
    assert_eq!(old, r#"{"TRITON_WHEEL_NAME":"pytorch-triton-rocm","TRITON_WHEEL_VERSION_SUFFIX":""}"#);
}

#[test]
fn depth_and_submodules_are_as_asked_for() {
    let world = World::new();
    let mut request = world.at("torch", "release/2.9");
    (request.depth, request.jobs) = (Some(1), Some(2));
    // A path is cloned whole whatever the depth; an address is not.
    request.projects[0].origin =
        Some(format!("file://{}", world.origin("torch").display().to_string().replace(' ', "%20")));
    world.run(&request).unwrap();
    let tree = world.path("pytorch");
    assert_eq!(git(&tree, &["rev-list", "--count", UPSTREAM]), "1");
    assert!(tree.join(".git/shallow").exists());
    assert_eq!(fs_err::metadata(tree.join("big.bin")).unwrap().len(), 3_000_000);
    let mut request = world.at("torch", "v2.9.0");
    request.submodules = Submodules::Leave;
    request.projects[0].directory = Some(world.path("bare"));
    let outcome = world.run(&request).unwrap().remove(0);
    assert_eq!(outcome.submodules, 0);
    assert!(fs_err::read_dir(world.path("bare/third_party/fbgemm")).unwrap().next().is_none());
    assert_eq!(outcome.commit, git(&world.origin("torch"), &["rev-parse", "v2.9.0^{commit}"]));
}

#[test]
fn submodules_that_move_or_go_are_followed() {
    let world = World::own();
    let (torch, sub) = (world.origin("torch"), world.origin("fbgemm"));
    let request = world.at("torch", "main");
    world.run(&request).unwrap();
    write(&sub.join("src/b.cu"), "cudaB\n");
    let moved = commit(&sub, "moved");
    git(&torch, &["switch", "--quiet", "main"]);
    git(&torch.join("third_party/fbgemm"), &["fetch", "--quiet", "origin"]);
    git(&torch.join("third_party/fbgemm"), &["checkout", "--quiet", &moved]);
    commit(&torch, "the submodule moves");
    world.run(&request).unwrap();
    let inside = world.path("pytorch/third_party/fbgemm");
    assert_eq!(git(&inside, &["rev-parse", UPSTREAM]), moved);
    git(&torch, &["rm", "--quiet", "third_party/fbgemm"]);
    commit(&torch, "the submodule goes");
    let outcome = world.run(&request).unwrap().remove(0);
    assert_eq!(outcome.submodules, 0);
    assert!(!inside.exists());
    assert_eq!(git(&world.path("pytorch"), &["status", "--porcelain"]), "");
    assert_eq!(world.run(&request).unwrap()[0].status, CheckoutStatus::Unchanged);
}

#[test]
fn locked_stays_where_it_is() {
    let world = World::own();
    let mut request = world.at("torch", "nightly");
    let first = world.run(&request).unwrap()[0].commit.clone();
    request.movement = Movement::Locked;
    assert!(world.plan(&request).unwrap_err().to_string().contains("`nightly` of torch may move"));
    request.projects[0].reference = Some(first);
    // A commit that the user has checked out since, here or in a submodule, is not moved back.
    let tree = world.path("pytorch");
    for place in [tree.clone(), tree.join("third_party/fbgemm")] {
        let before = git(&place, &["rev-parse", "HEAD"]);
        git(&place, &["switch", "--quiet", "--create", "other", UPSTREAM]);
        let other = commit(&place, "another commit");
        let error = world.run(&request).unwrap_err().to_string();
        assert!(error.contains(&format!("`{}` is at {other}, not at ", place.display())), "{error}");
        assert_eq!(git(&place, &["rev-parse", "HEAD"]), other);
        git(&place, &["checkout", "--quiet", &before]);
    }
    // A local commit needs no server.
    fs_err::rename(world.origin("torch"), world.origin("gone")).unwrap();
    assert_eq!(world.run(&request).unwrap()[0].status, CheckoutStatus::Unchanged);
    request.projects[0].reference = Some("0123456789abcdef0123456789abcdef01234567".into());
    let error = world.run(&request).unwrap_err().to_string();
    assert!(error.contains("not at 0123456789abcdef"), "{error}");
}
