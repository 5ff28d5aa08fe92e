//! Each of the seven projects, and the source of its commit if the user names none.

use rocwheel_source::{CheckoutStatus, HIPIFY, Reference, UPSTREAM};

use crate::world::{World, commit, git, write};

fn repository(world: &World, name: &str, branches: &[&str]) -> String {
    let path = world.origin(name);
    fs_err::create_dir_all(&path).unwrap();
    git(&path, &["init", "--quiet", "--initial-branch=first"]);
    write(&path.join("version.txt"), "1.0\n");
    let made = commit(&path, name);
    for branch in branches {
        git(&path, &["branch", branch]);
    }
    made
}

/// A world whose table has its own repositories for projects that torch's tree does not pin.
fn world(projects: &[(&str, &str)]) -> World {
    let mut world = World::own();
    for (project, name) in projects {
        let address = world.origin(name).display().to_string();
        let project = world.table.projects.iter_mut().find(|known| known.name == *project).unwrap();
        project.origins.values_mut().for_each(|origin| origin.clone_from(&address));
    }
    world
}

#[test]
fn magma_is_the_commit_that_pytorch_builds_it_of() {
    let mut world = world(&[("magma", "magma")]);
    // The shape of the real repository: generated sources and make files for each backend, no
    // submodules, and a pinned commit that is not the tip of a branch.
    let path = world.origin("magma");
    fs_err::create_dir_all(&path).unwrap();
    git(&path, &["init", "--quiet", "--initial-branch=master"]);
    for (file, text) in [
        ("COPYRIGHT", "-- Innovative Computing Laboratory\n"),
        ("make.inc-examples/make.inc.hip-gcc-mkl", "BACKEND = hip\nFORT = true\n"),
        ("make.gen.hipMAGMA", "all:\n\ttools/hipify\n"),
        ("magmablas/zgemm.cu", "#include <cuda_runtime.h>\n__global__ void z() {}\n"),
        ("tools/codegen.py", "#!/usr/bin/env python3\n"),
    ] {
        write(&path.join(file), text);
    }
    let pinned = commit(&path, "what PyTorch builds");
    write(&path.join("magmablas/later.cu"), "\n");
    commit(&path, "later");
    let magma = world.table.projects.iter_mut().find(|project| project.name == "magma").unwrap();
    let known = magma.reference.replace(pinned.clone()).unwrap();
    assert_eq!(known, "a68b9257ac435afa1ebdfb8f50d67668950aef61", "of .ci/magma-rocm/build_magma.sh");
    let outcome = world.run(&world.request(&["magma"])).unwrap().remove(0);
    assert_eq!((&outcome.commit, &outcome.head, &outcome.hipify), (&pinned, &pinned, &None));
    let tree = world.path("magma");
    assert_eq!(git(&tree, &["rev-parse", UPSTREAM]), pinned);
    // MAGMA converts its sources itself, with its own script, when it is built.
    assert!(fs_err::read_to_string(tree.join("magmablas/zgemm.cu")).unwrap().contains("cuda_runtime.h"));
    assert!(!tree.join("magmablas/later.cu").exists());
    // Build outputs may stay in the tree; the user's changes must not be lost.
    write(&tree.join("make.inc"), "BACKEND = hip\n");
    let mut later = world.request(&["magma"]);
    later.projects[0].reference = Some("master".into());
    assert_eq!(world.run(&later).unwrap_err().rows(), ["?? make.inc"]);
    assert_eq!(git(&tree, &["rev-parse", "HEAD"]), pinned);
    fs_err::remove_file(tree.join("make.inc")).unwrap();
    assert_eq!(world.run(&later).unwrap()[0].status, CheckoutStatus::Changed);
    // A manifest has no entry for it, and a version line has none either.
    let mut line = world.request(&["magma"]);
    line.line = Some("2.9".into());
    assert!(
        matches!(&world.plan(&line).unwrap().checkouts[0].reference, Reference::Named { name, .. } if *name == pinned)
    );
}

#[test]
fn apex_follows_related_commits_and_else_rocms_master() {
    let world = world(&[("apex", "apex")]);
    let master = repository(&world, "apex", &["master"]);
    world.run(&world.at("torch", "release/2.9")).unwrap();
    // torch does not pin it yet.
    let outcome = world.run(&world.request(&["apex"])).unwrap().remove(0);
    assert_eq!((&outcome.commit, &*outcome.reference, &outcome.hipify), (&master, "master", &None));
    write(&world.origin("apex").join("later"), "");
    let later = commit(&world.origin("apex"), "on no branch that anybody asks for");
    let pins = world.path("pytorch/related_commits");
    let line = format!("ubuntu|pytorch|apex|release/1.9.0|{later}|{}\n", world.origin("apex").display());
    let text = fs_err::read_to_string(&pins).unwrap();
    write(&pins, format!("{text}centos|pytorch|apex|x|{master}|/nowhere\n{line}"));
    let outcome = world.run(&world.request(&["apex"])).unwrap().remove(0);
    assert_eq!((&outcome.commit, &*outcome.reference, outcome.status), (&later, &*later, CheckoutStatus::Changed));
}

#[test]
fn flash_attention_is_pinned_by_nobody() {
    let world = world(&[("flash-attention", "flash")]);
    let main = repository(&world, "flash", &["main"]);
    world.run(&world.at("torch", "release/2.9")).unwrap();
    let mut request = world.request(&["flash-attention", "torch"]);
    request.projects[1].reference = Some("release/2.9".into());
    request.line = Some("2.9".into());
    let outcome = world.run(&request).unwrap().remove(1);
    assert_eq!((&*outcome.project, &outcome.commit, &outcome.hipify), ("flash-attention", &main, &None));
    assert_eq!(git(&world.path("flash-attention"), &["tag", "--list", "THEROCK_*"]), UPSTREAM);
}

#[test]
fn audio_and_vision_take_nightlies_where_torch_says_nothing() {
    let world = World::new();
    for (project, folder, origin) in
        [("torchaudio", "pytorch_audio", "audio"), ("torchvision", "pytorch_vision", "vision")]
    {
        let outcome = world.run(&world.request(&[project])).unwrap().remove(0);
        assert_eq!(outcome.commit, git(&world.origin(origin), &["rev-parse", "nightly"]), "{project}");
        assert_eq!(outcome.reference, "nightly");
        assert_eq!(git(&world.path(folder), &["tag", "--list", HIPIFY]), "", "it converts itself in setup.py");
    }
    // On a release line the commit is never guessed.
    let mut request = world.request(&["torchaudio"]);
    request.line = Some("2.9".into());
    let error = world.run(&request).unwrap_err();
    assert!(error.to_string().contains("there is no pin file"), "{error}");
}

#[test]
fn the_stable_line_is_the_newest_release() {
    let table = World::new().table;
    assert_eq!(table.line("stable").unwrap().name, "2.15");
    assert_eq!(table.line("nightly").unwrap().name, "nightly");
    assert!(table.line("stabel").is_err());
}

#[test]
fn every_line_names_triton_alike() {
    let world = World::new();
    for line in &world.table.lines {
        let rules = world.table.rules(&line.triton_rules).unwrap();
        let names: Vec<&String> = rules.pinned.keys().chain(rules.other.keys()).collect();
        assert_eq!(names, ["TRITON_WHEEL_VERSION_SUFFIX"], "{}", line.name);
    }
}
