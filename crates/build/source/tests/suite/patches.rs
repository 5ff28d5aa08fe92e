//! The user's commits, saved as patches and applied again.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use rocwheel_progress::Silent;
use rocwheel_source::patch_files::{self, Stage};
use rocwheel_source::patches::PatchSet;
use rocwheel_source::{CheckoutStatus, Request, TreeConversion};

use crate::world::{World, commit, git, plain_git, write};

fn set(world: &World) -> PatchSet {
    PatchSet { checkout: world.path("pytorch"), set: world.path("patches/pytorch/main"), own: "pytorch".into() }
}

fn request(world: &World) -> Request {
    let mut request = world.at("torch", "main");
    request.patches = Some(world.path("patches"));
    request
}

/// Two patches before the conversion, one after it, one in a submodule and one in its nested
/// submodule.
fn saved() -> World {
    let world = World::own();
    let tree = world.path("pytorch");
    let mut plain = request(&world);
    plain.conversion = TreeConversion::Skip;
    world.run(&plain).unwrap();
    write(&tree.join("torch/csrc/base.cpp"), "base\n");
    commit(&tree, "Add a base file\n\nWith a reason.");
    write(&tree.join("binary.bin"), [0_u8, 1, 2, 255, 0, 7]);
    commit(&tree, "Add bytes: ünïcödé / odd [name]");
    let inside = tree.join("third_party/fbgemm");
    write(&inside.join("src/a.cu"), "cudaMalloc\ncudaMine\n");
    commit(&inside, "Change a submodule");
    let nested = inside.join("external/the nested one");
    write(&nested.join("deep.cu"), "deeper\n");
    commit(&nested, "Change a submodule of a submodule");
    set(&world).save(&plain_git(), &Silent).unwrap();
    world.run(&request(&world)).unwrap();
    write(&tree.join("torch/csrc/m.cpp"), "hipFree\nmine\n");
    commit(&tree, "Change what was converted");
    set(&world).save(&plain_git(), &Silent).unwrap();
    world
}

#[test]
fn sets_have_therocks_layout_and_go_there_and_back() {
    let world = saved();
    let folder = world.path("patches/pytorch/main");
    let mut found: Vec<String> = Vec::new();
    for part in [
        "pytorch/base",
        "pytorch/hipified",
        "third_party/fbgemm/base",
        "third_party/fbgemm/external/the nested one/base",
    ] {
        for entry in fs_err::read_dir(folder.join(part)).unwrap() {
            found.push(format!("{part}/{}", entry.unwrap().file_name().to_string_lossy()));
        }
    }
    found.sort();
    assert_eq!(
        found,
        [
            "pytorch/base/0001-Add-a-base-file.patch",
            "pytorch/base/0002-Add-bytes-n-c-d-odd-name.patch",
            "pytorch/hipified/0001-Change-what-was-converted.patch",
            "third_party/fbgemm/base/0001-Change-a-submodule.patch",
            "third_party/fbgemm/external/the nested one/base/0001-Change-a-submodule-of-a-submodule.patch",
        ]
    );
    let tree = world.path("pytorch");
    let before = git(&tree, &["rev-parse", "HEAD^{tree}"]);
    let first = fs_err::read(folder.join("pytorch/base/0001-Add-a-base-file.patch")).unwrap();
    // A new checkout from the beginning.
    fs_err::remove_dir_all(&tree).unwrap();
    let outcome = world.run(&request(&world)).unwrap().remove(0);
    assert_eq!(outcome.patches, 5);
    assert_eq!(git(&tree, &["rev-parse", "HEAD^{tree}"]), before);
    assert_eq!(git(&tree, &["log", "--format=%s", "-4"]).lines().nth(1), Some("DO NOT SUBMIT: HIPIFY"));
    assert_eq!(git(&tree, &["log", "-1", "--format=%an %cn"]), "Owner rocwheel");
    assert_eq!(world.run(&request(&world)).unwrap()[0].status, CheckoutStatus::Unchanged);
    // Saved again, the patches have the same bytes.
    let groups = set(&world).save(&plain_git(), &Silent).unwrap();
    assert_eq!(groups.iter().map(|group| group.patches.len()).sum::<usize>(), 5);
    assert_eq!(fs_err::read(folder.join("pytorch/base/0001-Add-a-base-file.patch")).unwrap(), first);
    assert_eq!(patch_files::sets(&world.path("patches/pytorch")).unwrap(), ["main"]);
}

#[test]
fn what_is_saved_may_be_left_behind_and_what_went_is_removed() {
    let world = saved();
    let tree = world.path("pytorch");
    write(&world.path("patches/pytorch/main/README"), "notes");
    let mut plain = world.at("torch", "main");
    plain.conversion = TreeConversion::Skip;
    world.run(&plain).unwrap();
    assert_eq!(git(&tree, &["rev-parse", "HEAD"]), git(&world.origin("torch"), &["rev-parse", "main"]));
    assert!(set(&world).save(&plain_git(), &Silent).unwrap().is_empty());
    assert!(world.path("patches/pytorch/main/README").exists());
    assert!(!world.path("patches/pytorch/main/pytorch/base").exists());
    assert!(
        world.path("patches/pytorch/main/pytorch/hipified").exists(),
        "nothing is known of them in a tree that is not converted"
    );
}

#[test]
fn a_patch_that_does_not_apply_is_named_with_its_file() {
    let world = saved();
    let torch = world.origin("torch");
    git(&torch, &["switch", "--quiet", "main"]);
    write(&torch.join("torch/csrc/base.cpp"), "something else\n");
    commit(&torch, "in the way");
    let error = world.run(&request(&world)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("pytorch/base/0001-Add-a-base-file.patch` does not apply to"), "{text}");
    assert!(text.ends_with(", because of `torch/csrc/base.cpp`"), "{text}");
    assert!(error.hint().unwrap().contains("git am --continue"));
    // The user's work is never discarded: the user has to continue.
    let again = world.run(&request(&world)).unwrap_err().to_string();
    assert!(again.contains("`git am` is not finished"), "{again}");
    let tree = world.path("pytorch");
    write(&tree.join("torch/csrc/base.cpp"), "both\n");
    git(&tree, &["add", "torch/csrc/base.cpp"]);
    git(&tree, &["am", "--continue"]);
    let found = world.run(&request(&world)).unwrap_err().to_string();
    assert!(found.contains("commit ") && found.contains("Add a base file"), "{found}");
    set(&world).save(&plain_git(), &Silent).unwrap();
    let base =
        fs_err::read_to_string(world.path("patches/pytorch/main/pytorch/base/0001-Add-a-base-file.patch")).unwrap();
    assert!(base.contains("-something else") && base.contains("+both"), "{base}");
    // The patches that had not been reached still exist.
    assert_eq!(world.run(&request(&world)).unwrap()[0].patches, 5);
}

#[test]
fn sets_that_do_not_fit_are_refused() {
    let world = saved();
    let mut other = request(&world);
    other.patchset = Some("mian".into());
    let error = world.run(&other).unwrap_err();
    assert!(error.hint().unwrap().contains("the patch sets there are main"), "{error}");
    other.patchset = None;
    // A default set that does not exist is not an error; the unused sets are reported.
    other.projects[0].reference = Some("nightly".into());
    let warning = world.plan(&other).unwrap().checkouts[0].warning.clone().unwrap();
    assert!(warning.contains("there is no set `nightly`") && warning.contains("only main"), "{warning}");
    other.projects[0].reference = Some("main".into());
    other.conversion = TreeConversion::Keep;
    assert!(world.run(&other).unwrap_err().to_string().contains("which are not committed"));
    let patches = world.path("patches/pytorch/main");
    let from = patches.join("third_party/fbgemm/base/0001-Change-a-submodule.patch");
    write(&patches.join("third_party/gone/base/0001-x.patch"), fs_err::read(from).unwrap());
    let error = world.run(&request(&world)).unwrap_err();
    assert!(error.to_string().contains("holds patches for `third_party/gone`"), "{error}");
}

#[test]
fn a_set_is_applied_to_a_checkout_that_is_there() {
    let world = saved();
    let tree = world.path("pytorch");
    let mut plain = world.at("torch", "main");
    plain.conversion = TreeConversion::Skip;
    world.run(&plain).unwrap();
    write(&tree.join("torch/csrc/m.cpp"), "mine\n");
    let error = set(&world).apply(None, &plain_git(), &Silent).unwrap_err();
    assert_eq!(error.rows(), [" M torch/csrc/m.cpp"], "{error}");
    git(&tree, &["checkout", "--quiet", "torch/csrc/m.cpp"]);
    let applied = set(&world).apply(Some(Stage::Base), &plain_git(), &Silent).unwrap();
    let repositories: Vec<&str> = applied.iter().map(|group| group.repository.as_str()).collect();
    assert_eq!(repositories, ["", "third_party/fbgemm", "third_party/fbgemm/external/the nested one"]);
    assert_eq!(git(&tree, &["log", "-1", "--format=%s"]), "Add bytes: ünïcödé / odd [name]");
    // A second time there is nothing to do, and no commit is made twice.
    let head = git(&tree, &["rev-parse", "HEAD"]);
    let again = set(&world).apply(Some(Stage::Base), &plain_git(), &Silent).unwrap();
    assert!(again.iter().all(|group| group.patches.is_empty()), "{again:?}");
    assert_eq!(again.iter().map(|group| group.present.len()).sum::<usize>(), 4);
    assert_eq!(git(&tree, &["rev-parse", "HEAD"]), head);
    // Only a patch that is missing is applied again.
    git(&tree, &["reset", "--quiet", "--hard", "HEAD^"]);
    let rest = set(&world).apply(Some(Stage::Base), &plain_git(), &Silent).unwrap();
    assert_eq!((rest[0].patches.len(), rest[0].present.len()), (1, 1));
    assert_eq!(git(&tree, &["rev-parse", "HEAD^{tree}"]), git(&tree, &["rev-parse", &format!("{head}^{{tree}}")]));
    let mut nowhere = set(&world);
    nowhere.set = world.path("patches/pytorch/none");
    assert!(nowhere.apply(None, &plain_git(), &Silent).is_err());
    nowhere.checkout = world.path("nothing");
    let error = nowhere.save(&plain_git(), &Silent).unwrap_err();
    assert!(error.to_string().contains("is not a git repository"), "{error}");
}

/// Checks a change out again from its saved patches. `base` is committed to the origin, `change` is
/// the user's. Returns the trees of the two checkouts.
fn there_and_back(base: &dyn Fn(&Path), change: &dyn Fn(&Path)) -> [String; 2] {
    let world = World::own();
    base(&world.origin("audio"));
    commit(&world.origin("audio"), "base");
    let mut request = world.at("torchaudio", "main");
    request.patches = Some(world.path("patches"));
    world.run(&request).unwrap();
    let tree = world.path("pytorch_audio");
    change(&tree);
    commit(&tree, "change");
    let set =
        PatchSet { checkout: tree, set: world.path("patches/pytorch_audio/main"), own: "pytorch_audio".to_owned() };
    set.save(&plain_git(), &Silent).unwrap();
    request.projects[0].directory = Some(world.path("again"));
    assert_eq!(world.run(&request).unwrap()[0].patches, 1);
    [set.checkout, world.path("again")].map(|place| git(&place, &["rev-parse", "HEAD^{tree}"]))
}

type Change<'a> = &'a dyn Fn(&Path);

#[test]
fn a_saved_patch_makes_the_same_tree() {
    let nothing: Change<'_> = &|_| {};
    let windows: Change<'_> = &|tree| write(&tree.join("win.txt"), "line1\r\nline2\r\nline3\r\n");
    let with_attributes: Change<'_> = &|tree| {
        write(&tree.join(".gitattributes"), "*.bat text eol=crlf\n*.txt text=auto\n");
        write(&tree.join("run.bat"), "a\r\nb\r\n");
    };
    let named: Change<'_> = &|tree| write(&tree.join("old.txt"), "1\n2\n3\n4\n5\n6\n7\n8\n");
    let cases: [(&str, Change<'_>, Change<'_>); 9] = [
        ("CRLF changed", windows, &|tree| write(&tree.join("win.txt"), "line1\r\nLINE2\r\nline3\r\n")),
        ("CRLF to LF", windows, &|tree| write(&tree.join("win.txt"), "line1\nline2\nline3\n")),
        ("CRLF added", nothing, &|tree| write(&tree.join("new.txt"), "a\r\nb\nc\rd\r\n\r\n")),
        ("no line end", windows, &|tree| write(&tree.join("win.txt"), "line1\r\nline2\r\nline3\r")),
        ("attributes", with_attributes, &|tree| write(&tree.join("run.bat"), "a\r\nB\r\n")),
        ("binary", nothing, &|tree| write(&tree.join("b.bin"), [0, b'\r', b'\n', 255, b'\r', b'\n'])),
        ("renamed", named, &|tree| {
            fs_err::rename(tree.join("old.txt"), tree.join("new.txt")).unwrap();
            write(&tree.join("new.txt"), "1\n2\n3\n4\n5\n6\n7\nEIGHT\n");
        }),
        ("executable", named, &|tree| {
            fs_err::set_permissions(tree.join("old.txt"), std::fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("non-ASCII", nothing, &|tree| write(&tree.join("größe/文 件.txt"), b"caf\xe9 \xff\r\n")),
    ];
    for (name, base, change) in cases {
        let [before, after] = there_and_back(base, change);
        assert_eq!(before, after, "{name}");
    }
}

#[test]
fn merges_are_refused_and_commits_without_changes_are_left_out() {
    let world = World::new();
    world.run(&world.at("torchaudio", "main")).unwrap();
    let tree = world.path("pytorch_audio");
    git(&tree, &["switch", "--quiet", "--create", "side"]);
    write(&tree.join("side.txt"), "side\n");
    commit(&tree, "side");
    git(&tree, &["switch", "--quiet", "--detach", "HEAD^"]);
    git(&tree, &["merge", "--quiet", "--no-ff", "--no-commit", "side"]);
    write(&tree.join("only in the merge.txt"), "mine\n");
    commit(&tree, "merge");
    let set =
        PatchSet { checkout: tree.clone(), set: world.path("patches/pytorch_audio/main"), own: "pytorch_audio".into() };
    let error = set.save(&plain_git(), &Silent).unwrap_err();
    assert!(error.to_string().contains(" merge`, which no patch can hold"), "{error}");
    let hint = error.hint().unwrap();
    let command = hint.split('`').nth(1).unwrap();
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    commit(&tree, "both");
    commit(&tree, "nothing");
    assert_eq!(set.save(&plain_git(), &Silent).unwrap()[0].patches, ["0001-both.patch"]);
    let mut request = world.at("torchaudio", "main");
    request.patches = Some(world.path("patches"));
    request.projects[0].directory = Some(world.path("again"));
    world.run(&request).unwrap();
    assert!(world.path("again/only in the merge.txt").exists());
}

#[test]
fn a_patch_whose_own_lines_end_in_crlf_is_a_mail_that_was_converted() {
    let world = World::new();
    let mut request = world.at("torchaudio", "main");
    world.run(&request).unwrap();
    let tree = world.path("pytorch_audio");
    write(&tree.join("version.txt"), "9\n");
    commit(&tree, "change");
    let set =
        PatchSet { checkout: tree, set: world.path("patches/pytorch_audio/main"), own: "pytorch_audio".to_owned() };
    let groups = set.save(&plain_git(), &Silent).unwrap();
    let patch = groups[0].folder.join(&groups[0].patches[0]);
    write(&patch, fs_err::read_to_string(&patch).unwrap().replace('\n', "\r\n"));
    request.patches = Some(world.path("patches"));
    request.projects[0].directory = Some(world.path("again"));
    world.run(&request).unwrap();
    assert_eq!(fs_err::read(world.path("again/version.txt")).unwrap(), b"9\n");
}
