//! Artifacts that are split and written.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rocwheel_artifact::{Catalog, Manifest};
use rocwheel_fixtures::Impatient;
use rocwheel_progress::{Failure, Silent};
use rocwheel_split::tree::{self, DatabaseChoice, MAKER, OldRuntime, Request, SplitArtifactsReport, TreePlan};
use rocwheel_split::verify::Verification;
use rocwheel_split::{Packing, TargetNames, TargetSelection};
use rocwheel_system::symlink;
use tempfile::TempDir;

use crate::fixture;

const MANIFEST: &str = "base/aux-overlay/stage/share/therock/therock_manifest.json";

struct Tree {
    folder: TempDir,
}

impl Tree {
    fn new() -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap() };
        let text = "{\n  \"the_rock_commit\": null,\n  \"rocm_package_version\": \"7.1.0\",\n  \"zeta\": 1\n}\n";
        tree.file("base_lib_generic", "base/aux-overlay/stage", "share/therock/therock_manifest.json", text.as_bytes());
        tree
    }

    /// Creates libraries, their links and headers, and kernel databases of three kinds, in two
    /// basedirs.
    fn full() -> Self {
        let tree = Self::new();
        let (blas, sparse) = ("math/rocBLAS/stage", "math/rocSPARSE/stage");
        let name = "blas_lib_gfx9X-all";
        tree.file(name, sparse, "lib/librocsparse.so.1.0", &fixture::plain());
        tree.link(name, sparse, "lib/librocsparse.so.1", "librocsparse.so.1.0");
        tree.file(name, blas, "lib/librocblas.so.5", &fixture::twin());
        tree.file(name, blas, "lib/rocblas/library/K_gfx942.co", b"942");
        tree.file(name, blas, "lib/rocblas/library/K_gfx90a-xnack+.co", b"90a+");
        tree.file(name, blas, "lib/rocblas/library/K_fallback.dat", b"all");
        tree.file(name, blas, "lib/hipblaslt/library/gfx1100/extop.co", b"1100");
        tree.file(name, blas, "share/doc/readme", b"text");
        tree.file("core-hip_dev_generic", "core/stage", "include/hip.h", b"// hip");
        fs_err::set_permissions(
            tree.input(name).join(blas).join("share/doc/readme"),
            std::fs::Permissions::from_mode(0o640),
        )
        .unwrap();
        fs_err::create_dir(tree.input(name).join(blas).join("lib/empty")).unwrap();
        tree
    }

    fn inputs(&self) -> PathBuf {
        self.folder.path().join("in")
    }

    fn input(&self, name: &str) -> PathBuf {
        self.inputs().join(name)
    }

    fn output(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn file(&self, artifact: &str, basedir: &str, path: &str, bytes: &[u8]) -> PathBuf {
        let root = self.input(artifact);
        let place = root.join(basedir).join(path);
        fs_err::create_dir_all(place.parent().unwrap()).unwrap();
        fs_err::write(&place, bytes).unwrap();
        self.basedir(artifact, basedir);
        place
    }

    fn link(&self, artifact: &str, basedir: &str, path: &str, target: &str) {
        symlink(target, self.input(artifact).join(basedir).join(path)).unwrap();
        self.basedir(artifact, basedir);
    }

    fn basedir(&self, artifact: &str, basedir: &str) {
        let manifest = self.input(artifact).join("artifact_manifest.txt");
        let mut lines = fs_err::read_to_string(&manifest).unwrap_or_default();
        if !lines.lines().any(|line| line == basedir) {
            lines.push_str(basedir);
            lines.push('\n');
        }
        fs_err::write(manifest, lines).unwrap();
    }

    fn catalog(&self) -> Catalog {
        Catalog::open(&self.inputs(), &self.folder.path().join("scratch"), &Silent).unwrap()
    }

    fn split(&self, request: &Request) -> Result<(TreePlan, SplitArtifactsReport), Failure> {
        let catalog = self.catalog();
        let plan = tree::plan(&catalog, request, &Silent)?;
        let outcome = tree::execute(&plan, &catalog, request, &self.output(), &Silent)?;
        Ok((plan, outcome))
    }

    /// Returns every path of the output, sorted; directories end with `/`.
    fn listing(&self) -> Vec<String> {
        let mut found = Vec::new();
        list(&self.output(), "", &mut found);
        found.sort();
        found
    }
}

fn list(directory: &Path, prefix: &str, found: &mut Vec<String>) {
    for entry in fs_err::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            let before = found.len();
            list(&entry.path(), &format!("{path}/"), found);
            if found.len() == before {
                found.push(format!("{path}/"));
            }
        } else {
            found.push(path);
        }
    }
}

fn request() -> Request {
    Request {
        selection: TargetSelection::ALL,
        databases: DatabaseChoice::All,
        names: TargetNames::Base,
        packing: Packing::default(),
        unsupported: OldRuntime::Refuse,
        verification: Verification::Full,
        maker: MAKER,
    }
}

#[test]
fn artifacts_become_a_generic_one_and_one_for_each_target() {
    let tree = Tree::full();
    let (plan, outcome) = tree.split(&request()).unwrap();
    assert!(outcome.is_good(), "{:?}", outcome.verification);
    assert_eq!(
        tree.listing().join(" "),
        ".rocwheel-split base_lib_generic/artifact_manifest.txt \
        base_lib_generic/base/aux-overlay/stage/share/therock/therock_manifest.json \
        blas_lib_generic/artifact_manifest.txt blas_lib_generic/math/rocBLAS/stage/lib/empty/ \
        blas_lib_generic/math/rocBLAS/stage/lib/hipblaslt/library/gfx1100/ \
        blas_lib_generic/math/rocBLAS/stage/lib/librocblas.so.5 \
        blas_lib_generic/math/rocBLAS/stage/lib/rocblas/library/K_fallback.dat \
        blas_lib_generic/math/rocBLAS/stage/share/doc/readme \
        blas_lib_generic/math/rocSPARSE/stage/lib/librocsparse.so.1 \
        blas_lib_generic/math/rocSPARSE/stage/lib/librocsparse.so.1.0 \
        blas_lib_gfx1100/artifact_manifest.txt \
        blas_lib_gfx1100/math/rocBLAS/stage/.kpack/blas_lib_gfx1100.kpack \
        blas_lib_gfx1100/math/rocBLAS/stage/.kpack/blas_lib_set2_gfx1100.kpack \
        blas_lib_gfx1100/math/rocBLAS/stage/lib/hipblaslt/library/gfx1100/extop.co \
        blas_lib_gfx90a/artifact_manifest.txt \
        blas_lib_gfx90a/math/rocBLAS/stage/.kpack/blas_lib_set2_gfx90a.kpack \
        blas_lib_gfx90a/math/rocBLAS/stage/lib/rocblas/library/K_gfx90a-xnack+.co \
        blas_lib_gfx942/artifact_manifest.txt \
        blas_lib_gfx942/math/rocBLAS/stage/.kpack/blas_lib_gfx942.kpack \
        blas_lib_gfx942/math/rocBLAS/stage/.kpack/blas_lib_set2_gfx942.kpack \
        blas_lib_gfx942/math/rocBLAS/stage/lib/rocblas/library/K_gfx942.co \
        core-hip_dev_generic/artifact_manifest.txt core-hip_dev_generic/core/stage/include/hip.h"
    );
    let read = |path: &str| fs_err::read_to_string(tree.output().join(path)).unwrap();
    assert_eq!(read("blas_lib_generic/artifact_manifest.txt"), "math/rocSPARSE/stage\nmath/rocBLAS/stage\n");
    assert_eq!(read("blas_lib_gfx942/artifact_manifest.txt"), "math/rocBLAS/stage\n");
    let manifest = Manifest::read(&tree.output().join("base_lib_generic").join(MANIFEST)).unwrap();
    assert!(manifest.is_split() && manifest.other.contains_key("zeta"));
    let generic = tree.output().join("blas_lib_generic");
    let readme = fs_err::metadata(generic.join("math/rocBLAS/stage/share/doc/readme")).unwrap();
    assert_eq!(readme.permissions().mode() & 0o777, 0o640);
    let link = generic.join("math/rocSPARSE/stage/lib/librocsparse.so.1");
    assert_eq!(fs_err::read_link(link).unwrap(), Path::new("librocsparse.so.1.0"));
    // The written tree opens as artifacts, and splitting it again changes nothing.
    let written = Catalog::open(&tree.output(), tree.folder.path(), &Silent).unwrap();
    let mut families: Vec<&str> =
        written.artifacts.iter().map(|artifact| artifact.name.target_family.as_str()).collect();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families, ["generic", "gfx1100", "gfx90a", "gfx942"]);
    let again = tree::plan(&written, &request(), &Silent).unwrap();
    assert!(again.groups.iter().all(|group| group.sources.is_empty()), "{again:?}");
    assert_eq!(plan.groups.len(), 1);
    assert_eq!(plan.groups[0].plan.code().0, 4 + 4);
}

#[test]
fn the_same_bytes_again_and_inputs_as_they_were() {
    let tree = Tree::full();
    let contents = |root: PathBuf| {
        let mut paths = Vec::new();
        list(&root, "", &mut paths);
        paths.sort();
        let read =
            |path: &String| if path.ends_with('/') { Vec::new() } else { fs_err::read(root.join(path)).unwrap() };
        paths.iter().map(|path| (path.clone(), read(path))).collect::<Vec<_>>()
    };
    let before = contents(tree.inputs());
    tree.split(&request()).unwrap();
    let first = contents(tree.output());
    // A second run replaces the output of the first.
    tree.split(&request()).unwrap();
    assert!(first == contents(tree.output()));
    assert!(before == contents(tree.inputs()));
    let beside: Vec<_> =
        fs_err::read_dir(tree.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside.len(), 2, "only `in` and `out`: {beside:?}");
}

#[test]
fn a_selection_drops_code_and_databases_of_other_targets() {
    let tree = Tree::full();
    let selection = TargetSelection::only(vec!["gfx942".into()]);
    let (plan, outcome) = tree.split(&Request { selection, ..request() }).unwrap();
    assert!(outcome.is_good(), "{:?}", outcome.verification);
    let listing = tree.listing();
    assert!(
        !listing.iter().any(|path| path.contains("1100.") || path.contains("extop") || path.contains("90a")),
        "{listing:?}"
    );
    assert!(listing.iter().any(|path| path.ends_with("K_gfx942.co")));
    assert_eq!(plan.dropped.len(), 2);
    let selection = TargetSelection::only(vec!["gfx1201".into()]);
    let error = tree.split(&Request { selection, ..request() }).unwrap_err();
    assert!(
        error.to_string().starts_with("there is no GPU code for gfx1201: the input has code for gfx90a"),
        "{error}"
    );
}

#[test]
fn databases_are_left_together_when_asked_for() {
    let tree = Tree::full();
    let databases = DatabaseChoice::only(["hipblaslt".to_owned()]).unwrap();
    tree.split(&Request { databases, ..request() }).unwrap();
    let listing = tree.listing();
    assert!(listing.contains(&"blas_lib_generic/math/rocBLAS/stage/lib/rocblas/library/K_gfx942.co".to_owned()));
    assert!(listing.contains(&"blas_lib_gfx1100/math/rocBLAS/stage/lib/hipblaslt/library/gfx1100/extop.co".to_owned()));
    let error = DatabaseChoice::only(["rocblass".to_owned()]).unwrap_err();
    assert_eq!(error.to_string(), "there is no kernel database `rocblass`");
    assert!(error.hint().unwrap().contains("rocblas"));
}

#[test]
fn a_runtime_that_cannot_read_archives_is_refused() {
    let tree = Tree::full();
    tree.file("core-hip_lib_generic", "core/stage", "lib/libamdhip64.so.5", b"x");
    let error = tree.split(&request()).unwrap_err();
    let refused = "lib/libamdhip64.so.5` cannot read .kpack archives: there is no librocm_kpack in the set";
    assert!(error.to_string().ends_with(refused), "{error}");
    assert!(error.hint().unwrap().contains("--force"));
    assert!(!tree.output().exists());
    let runtime = "lib/libamdhip64-f1043337.so.7.2.70204";
    let grafting = Tree::full();
    grafting.file("core-hip_lib_generic", "core/stage", runtime, b"x");
    let error = grafting.split(&request()).unwrap_err();
    assert!(error.to_string().contains(&format!("{runtime}` cannot read .kpack archives")), "{error}");
    tree.split(&Request { unsupported: OldRuntime::Allow, ..request() }).unwrap();
    tree.file("core-kpack_lib_generic", "core/stage", "lib/librocm_kpack.so.1", b"x");
    tree.split(&request()).unwrap();
}

#[test]
fn hard_links_are_kept_unless_code_leaves_the_file() {
    let tree = Tree::new();
    let name = "rand_lib_generic";
    let library = tree.file(name, "stage", "lib/liba.so", &fixture::plain());
    fs_err::hard_link(&library, library.with_file_name("libb.so")).unwrap();
    let text = tree.file(name, "stage", "share/a", b"text");
    fs_err::hard_link(&text, text.with_file_name("b")).unwrap();
    let (_, outcome) = tree.split(&request()).unwrap();
    assert_eq!(outcome.verification.unwrap().code().0, 8);
    let inode = |path: &str| fs_err::metadata(tree.output().join(name).join("stage").join(path)).unwrap().ino();
    assert_ne!(inode("lib/liba.so"), inode("lib/libb.so"), "each has a marker of its own");
    assert_eq!(inode("share/a"), inode("share/b"));
    assert_ne!(inode("share/a"), fs_err::metadata(&text).unwrap().ino(), "inputs are not linked to");
}

#[test]
fn compressed_code_that_grows_is_said() {
    let tree = Tree::new();
    let targets = &["gfx900", "gfx906", "gfx908", "gfx942", "gfx1030", "gfx1100"];
    let library = fixture::library("grows.so", &[fixture::unit("first", targets)], &["--offload-compress"]);
    tree.file("rand_lib_generic", "stage", "lib/liba.so", &library);
    let (_, outcome) = tree.split(&request()).unwrap();
    assert_eq!(outcome.grown.len(), 1);
    assert_eq!(outcome.grown[0].group, "rand_lib");
    assert_eq!((outcome.grown[0].before, outcome.grown[0].after), (outcome.section_bytes, outcome.archive_bytes));
    assert!(outcome.archive_bytes > outcome.section_bytes);
}

#[test]
fn two_families_of_one_artifact_are_refused() {
    let tree = Tree::new();
    for family in ["gfx94X-dcgpu", "gfx110X-all"] {
        tree.file(&format!("rand_lib_{family}"), "stage", "lib/liba.so", &fixture::plain());
    }
    let error = tree.split(&request()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`stage/lib/liba.so` of the artifact `rand_lib_generic` would come from `rand_lib_gfx110X-all` and from \
         `rand_lib_gfx94X-dcgpu`"
    );
    assert!(!tree.output().exists());
}

#[test]
fn outputs_of_others_and_in_inputs_are_refused() {
    let tree = Tree::full();
    fs_err::create_dir(tree.output()).unwrap();
    fs_err::write(tree.output().join("mine"), "x").unwrap();
    let error = tree.split(&request()).unwrap_err();
    assert!(error.to_string().ends_with("is not empty and was not made by `rocwheel split`"), "{error}");
    let catalog = tree.catalog();
    let plan = tree::plan(&catalog, &request(), &Silent).unwrap();
    let inside = tree.input("blas_lib_gfx9X-all").join("out");
    let error = tree::execute(&plan, &catalog, &request(), &inside, &Silent).unwrap_err();
    assert!(error.to_string().contains("are inside one another"), "{error}");
    assert!(!inside.exists());
    // An output of ours that holds an input would be removed with the input.
    fs_err::write(tree.inputs().join(".rocwheel-split"), "").unwrap();
    let error = tree::execute(&plan, &catalog, &request(), &tree.inputs(), &Silent).unwrap_err();
    assert!(error.to_string().contains("are inside one another"), "{error}");
}

#[test]
fn an_interruption_leaves_nothing_behind_wherever_it_comes() {
    let tree = Tree::full();
    let catalog = tree.catalog();
    let names = |path: &Path| fs_err::read_dir(path).unwrap().count();
    let before = names(tree.folder.path());
    for patience in (0..600).step_by(7) {
        let reporter = Impatient::asked(patience);
        let run = tree::plan(&catalog, &request(), &reporter)
            .and_then(|plan| tree::execute(&plan, &catalog, &request(), &tree.output(), &reporter));
        match run {
            Ok(_) => {
                assert!(patience > 10, "it was not asked");
                return;
            }
            Err(error) => {
                assert_eq!(error.exit(), rocwheel_progress::Exit::Interrupted, "{error}");
                assert_eq!(names(tree.folder.path()), before, "after {patience}");
            }
        }
    }
    panic!("it never ends");
}

#[test]
fn a_result_with_differences_is_thrown_away() {
    // Two files have one path in the installed tree: the second cannot find its archives there.
    let tree = Tree::new();
    tree.file("rand_lib_generic", "a/stage", "lib/x.so", &fixture::plain());
    tree.file("rand_lib_generic", "b/stage", "lib/x.so", &fixture::twin());
    let (_, outcome) = tree.split(&request()).unwrap();
    assert!(!outcome.is_good());
    assert!(!tree.output().exists());
}

#[test]
fn directories_and_files_are_compared_as_well() {
    let tree = Tree::full();
    tree.split(&request()).unwrap();
    let flat = |parent: &Path, name: &str| {
        let to = tree.folder.path().join(name);
        let mut paths: Vec<PathBuf> = fs_err::read_dir(parent).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.is_dir() && path.file_name().unwrap().to_string_lossy().starts_with("blas_"));
        rocwheel_artifact::flatten::flatten(
            &paths,
            &to,
            rocwheel_artifact::flatten::Replaceable::OnlyOurs,
            rocwheel_output::Mode::Execute,
            &Silent,
        )
        .unwrap();
        for path in fs_err::read_dir(&to).unwrap() {
            let path = path.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with(".rocwheel") {
                fs_err::remove_file(path).unwrap();
            }
        }
        to
    };
    let (before, after) = (flat(&tree.inputs(), "before"), flat(&tree.output(), "after"));
    let views = (tree::view_of_directory(&before).unwrap(), tree::view_of_directory(&after).unwrap());
    let report =
        rocwheel_split::verify(&views.0, &views.1, &rocwheel_split::verify::Checks::default(), &Silent).unwrap();
    assert!(report.is_clean(), "{:?}", report.differences);
    assert_eq!(report.code().0, 8);

    let shared =
        rocwheel_split::verify::Checks { archives: rocwheel_split::verify::Holdings::Shared, ..Default::default() };
    for file in ["lib/librocblas.so.5", "lib/librocsparse.so.1.0"] {
        let (before, after) = tree::views_of_files(&before.join(file), &after.join(file)).unwrap();
        let report = rocwheel_split::verify(&before, &after, &shared, &Silent).unwrap();
        assert!(report.is_clean(), "{:?}", report.differences);
        assert_eq!(report.code().0, 4);
    }
    let (before, after) =
        tree::views_of_files(&before.join("lib/librocblas.so.5"), &after.join("lib/librocsparse.so.1.0")).unwrap();
    assert!(!rocwheel_split::verify(&before, &after, &shared, &Silent).unwrap().is_clean());
}
