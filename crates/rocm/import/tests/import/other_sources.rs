//! Installed prefixes, private and shared, and tarballs.

use std::fmt::Write as _;
use std::path::Path;

use rocwheel_artifact::Catalog;
use rocwheel_import::ImportSource;
use rocwheel_progress::Silent;

use super::fixture::{Packing, Tar, deb, import, library, listing, options};

fn put(root: &Path, path: &str, content: &[u8]) {
    let target = root.join(path);
    fs_err::create_dir_all(target.parent().unwrap()).unwrap();
    fs_err::write(target, content).unwrap();
}

/// Name, version, dependencies and files of a package.
type Installed<'a> = (&'a str, &'a str, &'a str, Vec<(&'a str, Vec<u8>)>);

/// Creates a root as debootstrap does: files, and dpkg's database.
fn system(root: &Path) {
    let build = root.join("build");
    fs_err::create_dir_all(&build).unwrap();
    let numa = library(&build, "libnuma.so.1", "int numa(void) { return 1; }", &[]);
    let comgr = library(&build, "libamd_comgr.so.2", "int comgr(void) { return 1; }", &[]);
    let hip = library(&build, "libamdhip64.so.5", "int numa(void); int hip(void) { return numa(); }", &[&numa]);
    let packages: [Installed<'_>; 5] = [
        ("libamdhip64-5", "5.2.3-8", "libamd-comgr2, libnuma1, perl", {
            vec![
                ("usr/lib/x86_64-linux-gnu/libamdhip64.so.5", fs_err::read(&hip).unwrap()),
                ("usr/share/doc/libamdhip64-5/copyright", b"MIT".to_vec()),
            ]
        }),
        ("libamd-comgr2", "5.2.3-2", "", {
            vec![("usr/lib/x86_64-linux-gnu/libamd_comgr.so.2", fs_err::read(&comgr).unwrap())]
        }),
        ("libnuma1", "2.0.16-1", "", {
            vec![
                ("usr/lib/x86_64-linux-gnu/libnuma.so.1", fs_err::read(&numa).unwrap()),
                ("usr/share/doc/libnuma1/copyright", b"LGPL".to_vec()),
            ]
        }),
        ("perl", "5.36.0-7", "", vec![("usr/bin/perl", b"#!perl".to_vec())]),
        ("cowsay", "3.03", "", vec![("usr/games/cowsay", b"#!perl".to_vec())]),
    ];
    let mut status = String::new();
    for (name, version, depends, files) in packages {
        write!(
            status,
            "Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\nDepends: {depends}\n\n"
        )
        .unwrap();
        let mut list = "/.\n/usr\n/usr/lib\n".to_owned();
        for (path, content) in files {
            put(root, path, &content);
            writeln!(list, "/{path}").unwrap();
        }
        if name == "libamdhip64-5" {
            list.push_str("/usr/share/doc/libamdhip64-5/changelog.gz\n");
        }
        put(root, &format!("var/lib/dpkg/info/{name}:amd64.list"), list.as_bytes());
    }
    put(root, "var/lib/dpkg/status", status.as_bytes());
}

#[test]
fn a_shared_prefix_gives_its_rocm_packages_and_what_they_need() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    system(&root);
    let before = listing(&root);
    let output = directory.path().join("out");
    let report = import(&ImportSource::Prefix(root.join("usr")), &options(&output)).unwrap();
    assert_eq!(report.version, "5.2.3");
    let names: Vec<&str> = report.sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names, ["libamd-comgr2", "libamdhip64-5", "libnuma1"]);
    let library = &report.system_libraries[0];
    assert_eq!((library.soname.as_str(), library.version.as_str()), ("librocm_sysdeps_numa.so.1", "2.0.16-1"));
    assert_eq!(library.copyright.as_deref(), Some("share/doc/libnuma1/copyright"));
    let listed: Vec<(&str, &str)> =
        report.skipped.iter().map(|skipped| (skipped.source.as_str(), skipped.reason.as_str())).collect();
    assert_eq!(
        listed,
        [
            ("libamdhip64-5", "dpkg lists it, but it is not installed"),
            ("perl", "dependency of `libamdhip64-5`: nothing of it is needed to load the set"),
        ]
    );
    assert_eq!(listing(&root), before, "the input was changed");
    assert!(Catalog::open(&output, &directory.path().join("scratch"), &Silent).unwrap().artifacts.len() >= 5);
}

#[test]
fn a_private_prefix_is_taken_as_a_whole() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    system(&root);
    let prefix = root.join("opt/rocm-6.2.0");
    let hip = fs_err::read(root.join("build/libamdhip64.so.5")).unwrap();
    let comgr = fs_err::read(root.join("build/libamd_comgr.so.2")).unwrap();
    put(&prefix, "lib/libamdhip64.so.5", &hip);
    put(&prefix, "lib/libamd_comgr.so.2", &comgr);
    put(&prefix, ".info/version", b"6.2.0-66\n");
    put(&prefix, "share/novel/thing", b"?");
    put(&prefix, "lib/rocblas/library/K_gfx942.co", b"k");
    rocwheel_system::symlink("libamdhip64.so.5", prefix.join("lib/libamdhip64.so")).unwrap();
    let before = listing(&root);
    let report = import(&ImportSource::Prefix(prefix), &options(&directory.path().join("out"))).unwrap();
    assert_eq!(report.version, "6.2.0");
    assert_eq!(report.unknown, ["share/novel/thing"]);
    assert_eq!(report.targets, ["gfx942"]);
    // libnuma is not in the prefix: it comes from the system around it, with its package's name and
    // licence.
    assert_eq!(report.system_libraries[0].package, "libnuma1");
    assert_eq!(report.skipped, []);
    assert_eq!(listing(&root), before, "the input was changed");
}

#[test]
fn copies_of_a_library_are_links_again() {
    let directory = tempfile::tempdir().unwrap();
    let build = directory.path();
    let hip = library(build, "libamdhip64.so.5", "int hip(void) { return 1; }", &[]);
    let hip = fs_err::read(hip).unwrap();
    let comgr = fs_err::read(library(build, "libamd_comgr.so.2", "int comgr(void) { return 1; }", &[])).unwrap();
    let trees = ["links", "copies", "hard links"].map(|name| build.join(name).join("rocm-6.2.0"));
    for tree in &trees {
        put(tree, "lib/libamdhip64.so.5.2", &hip);
        put(tree, "lib/libamd_comgr.so.2", &comgr);
        put(tree, ".info/version", b"6.2.0-66\n");
    }
    for (name, target) in [("libamdhip64.so.5", "libamdhip64.so.5.2"), ("libamdhip64.so", "libamdhip64.so.5")] {
        rocwheel_system::symlink(target, trees[0].join("lib").join(name)).unwrap();
        put(&trees[1], &format!("lib/{name}"), &hip);
        fs_err::hard_link(trees[2].join("lib").join(target), trees[2].join("lib").join(name)).unwrap();
    }
    let outputs = ["a", "b", "c"].map(|name| build.join("out").join(name));
    let reports =
        [0, 1, 2].map(|index| import(&ImportSource::Prefix(trees[index].clone()), &options(&outputs[index])).unwrap());
    assert!(reports[0].copies.is_empty());
    for index in [1, 2] {
        assert_eq!(reports[index].copies, ["lib/libamdhip64.so", "lib/libamdhip64.so.5"]);
        assert_eq!(reports[index].artifacts, reports[0].artifacts);
        let lib = "core-hip_lib_generic/core-hip/stage/lib";
        let target = fs_err::read_link(outputs[index].join(lib).join("libamdhip64.so.5")).unwrap();
        assert_eq!(target, Path::new("libamdhip64.so.5.2"));
    }
    // Another build of the library with the same name is no copy.
    let other = fs_err::read(library(build, "libamdhip64.so.5", "int other;", &[])).unwrap();
    put(&trees[1], "lib/libamdhip64.so.5", &other);
    let error = import(&ImportSource::Prefix(trees[1].clone()), &options(&outputs[1])).unwrap_err();
    assert!(error.to_string().starts_with("two libraries are called `libamdhip64.so.5`"), "{error}");
}

#[test]
fn an_alternative_comes_from_the_system_around_a_prefix() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    system(&root);
    let old = "usr/lib/x86_64-linux-gnu/libnuma.so.1";
    let new = "usr/lib/x86_64-linux-gnu/numa-fast/libnuma.so.1";
    put(&root, new, &fs_err::read(root.join(old)).unwrap());
    fs_err::remove_file(root.join(old)).unwrap();
    put(&root, "var/lib/dpkg/info/libnuma1:amd64.list", format!("/{new}\n").as_bytes());
    let report = import(&ImportSource::Prefix(root.join("usr")), &options(&directory.path().join("out"))).unwrap();
    assert_eq!(report.system_libraries[0].package, "libnuma1");
}

#[cfg(unix)]
#[test]
fn a_name_that_no_file_may_have_is_an_error_unless_it_is_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    system(&root);
    let prefix = root.join("opt/rocm-6.2.0");
    for name in ["libamdhip64.so.5", "libamd_comgr.so.2"] {
        put(&prefix, &format!("lib/{name}"), &fs_err::read(root.join("build").join(name)).unwrap());
    }
    put(&prefix, ".info/version", b"6.2.0-66\n");
    put(&prefix, "share/lintian/a\\b", b"x");
    let attempt = || import(&ImportSource::Prefix(prefix.clone()), &options(&directory.path().join("out")));
    attempt().unwrap();
    put(&prefix, "share/a\\b", b"x");
    let error = attempt().unwrap_err();
    assert!(error.to_string().starts_with("refused to unpack `share/a\\b`"), "{error}");
    assert!(error.hint().unwrap().contains("rename or remove the file"), "{error}");
}

#[test]
fn prefixes_without_rocm_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let attempt = |path: &str| {
        fs_err::create_dir_all(directory.path().join(path)).unwrap();
        import(&ImportSource::Prefix(directory.path().join(path)), &options(&directory.path().join("out"))).unwrap_err()
    };
    let error = attempt("opt/other");
    assert!(error.to_string().contains("does not look like a ROCm"), "{error}");
    assert!(error.hint().unwrap().contains("/opt/rocm"));
    let root = import(&ImportSource::Prefix("/".into()), &options(&directory.path().join("out"))).unwrap_err();
    assert!(root.to_string().starts_with("`/` does not look like a ROCm"), "it is not walked: {root}");
    fs_err::create_dir_all(directory.path().join("opt/empty/share/therock")).unwrap();
    assert!(attempt("opt/empty").to_string().starts_with("there is nothing to import in `"));
    let error = attempt("usr");
    assert!(error.to_string().contains("/var/lib/dpkg/status` to tell which files are ROCm's"), "{error}");
    assert!(error.hint().unwrap().contains("--deb"));
}

#[test]
fn a_tarball_goes_back_into_its_artifacts() {
    let directory = tempfile::tempdir().unwrap();
    let build = directory.path().join("build");
    fs_err::create_dir(&build).unwrap();
    let comgr = library(&build, "libamd_comgr.so.3", "int comgr;", &[]);
    let hip = library(&build, "libamdhip64.so.7", "int hip;", &[]);
    let manifest =
        "{\n  \"the_rock_commit\": \"abc\",\n  \"rocm_package_version\": \"7.1.0\",\n  \"submodules\": []\n}\n";
    let tar = || {
        Tar::default()
            .file("./lib/libamdhip64.so.7", &fs_err::read(&hip).unwrap())
            .file("./lib/libamd_comgr.so.3", &fs_err::read(&comgr).unwrap())
            .file("./.kpack/blas_lib_gfx1100.kpack", b"kernels")
            .file("./lib/hipblaslt/library/gfx942/x.dat", b"kernels")
            .file("./share/therock/therock_manifest.json", manifest.as_bytes())
            .file("./share/therock/dist_info.json", b"{\"dist_amdgpu_targets\": \"gfx942;gfx1100\"}")
            .link("./bin/amdclang", "../lib/llvm/bin/clang")
            .file("./lib/llvm/bin/clang", b"#!sh")
            .finish()
    };
    for (name, packing) in [("therock-dist-linux-multi.tar.gz", Packing::Gz), ("x.tar.xz", Packing::Xz)] {
        let path = directory.path().join(name);
        fs_err::write(&path, packing.pack(&tar())).unwrap();
        let output = directory.path().join(format!("out-{name}"));
        let report = import(&ImportSource::Tarball(path), &options(&output)).unwrap();
        assert_eq!((report.version.as_str(), report.unknown.len()), ("7.1.0", 0));
        let names: Vec<&str> = report.artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "amd-llvm_lib_generic",
                "amd-llvm_run_generic",
                "base_lib_generic",
                "blas_lib_gfx1100",
                "blas_lib_gfx942",
                "core-hip_lib_generic"
            ]
        );
        let kept = output.join("base_lib_generic/base/aux-overlay/stage/share/therock/therock_manifest.json");
        assert_eq!(fs_err::read_to_string(kept).unwrap(), manifest);
    }
}

#[test]
fn a_cut_tarball_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("therock-dist-linux-gfx1100-7.1.0.tar.gz");
    let whole = Packing::Gz.pack(&Tar::default().file("./lib/libamdhip64.so.7", &vec![7; 50_000]).finish());
    fs_err::write(&path, &whole[..whole.len() - 40]).unwrap();
    let error = import(&ImportSource::Tarball(path), &options(&directory.path().join("out"))).unwrap_err();
    assert!(error.hint().unwrap().starts_with("download the file again"), "{error:?}");
    assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 1);
}

/// The tree of AMD's packages: its own compiler, `.info/version`, no directory of an architecture,
/// and the links of a real /opt/rocm.
fn release(build: &Path) -> Vec<(&'static str, Result<Vec<u8>, &'static str>)> {
    let comgr = library(build, "libamd_comgr.so.3", "int comgr;", &[]);
    let hip = library(build, "libamdhip64.so.7", "int hip;", &[]);
    let blas = library(build, "librocblas.so.5", "int blas;", &[&hip]);
    let read = |path: &Path| Ok(fs_err::read(path).unwrap());
    vec![
        (".info/version", Ok(b"7.2.4-93\n".to_vec())),
        ("lib/libamdhip64.so.7.2.70204", read(&hip)),
        ("lib/libamdhip64.so.7", Err("libamdhip64.so.7.2.70204")),
        ("lib/libamdhip64.so", Err("libamdhip64.so.7")),
        ("lib/libamd_comgr.so.3", read(&comgr)),
        ("lib/librocblas.so.5", read(&blas)),
        ("lib/rocblas/library/Kernels.so-000-gfx942.hsaco", Ok(b"kernels".to_vec())),
        ("lib/llvm/bin/clang", Ok(b"#!sh".to_vec())),
        ("lib/llvm/amdgcn/bitcode/ocml.bc", Ok(b"BC".to_vec())),
        ("bin/amdclang", Err("../lib/llvm/bin/clang")),
        ("bin/hipcc", Ok(b"#!sh".to_vec())),
        ("llvm", Err("lib/llvm")),
        ("amdgcn", Err("lib/llvm/amdgcn")),
        ("include/hip/hip_runtime.h", Ok(b"// hip".to_vec())),
        ("include/rocblas/rocblas.h", Ok(b"// blas".to_vec())),
        ("share/miopen/db/gfx803_36.HIP.fdb.txt", Ok(b"db".to_vec())),
    ]
}

const RELEASED: &str = "amd-llvm_lib_generic amd-llvm_run_generic base_lib_generic base_run_generic \
                        blas_dev_generic blas_lib_generic blas_lib_gfx942 core-hip_dev_generic \
                        core-hip_lib_generic miopen_lib_gfx803";

#[test]
fn a_release_of_amd_is_the_same_as_tree_tarball_and_packages() {
    let directory = tempfile::tempdir().unwrap();
    let build = directory.path().join("build");
    fs_err::create_dir(&build).unwrap();
    let files = release(&build);
    let tree = directory.path().join("opt/rocm-7.2.4");
    for (path, content) in &files {
        match content {
            Ok(bytes) => put(&tree, path, bytes),
            Err(target) => {
                fs_err::create_dir_all(tree.join(path).parent().unwrap()).unwrap();
                rocwheel_system::symlink(target, tree.join(path)).unwrap();
            }
        }
    }
    let mut outputs = Vec::new();
    let mut check = |source: ImportSource, name: &str| {
        let output = directory.path().join(name);
        let report = import(&source, &options(&output)).unwrap();
        let names: Vec<&str> = report.artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
        assert_eq!((report.version.as_str(), names.join(" ").as_str()), ("7.2.4", RELEASED), "{name}");
        assert_eq!((report.targets.join(" "), report.unknown.len()), ("gfx803 gfx942".into(), 0), "{name}");
        let mut listed = listing(&output);
        listed.retain(|(path, _)| !path.ends_with("therock_manifest.json"));
        outputs.push((name.to_owned(), listed));
    };
    check(ImportSource::Prefix(tree), "tree");
    for (name, top) in [("rocm.tar.gz", "./opt/rocm-7.2.4/"), ("in-opt.tgz", "rocm-7.2.4/"), ("flat.tar.gz", "./")] {
        let mut tar = Tar::default();
        for (path, content) in &files {
            tar = match content {
                Ok(bytes) => tar.file(&format!("{top}{path}"), bytes),
                Err(target) => tar.link(&format!("{top}{path}"), target),
            };
        }
        fs_err::write(directory.path().join(name), Packing::Gz.pack(&tar.finish())).unwrap();
        check(ImportSource::Tarball(directory.path().join(name)), &format!("out-{name}"));
    }
    let of = |path: &str| match path {
        ".info/version" => "rocm-core7.2.4",
        path if ["llvm", "clang", "comgr"].iter().any(|part| path.contains(part)) || path == "amdgcn" => {
            "rocm-llvm7.2.4"
        }
        "bin/hipcc" => "hipcc7.2.4",
        "include/rocblas/rocblas.h" => "rocblas-dev7.2.4",
        path if path.contains("rocblas") => "rocblas7.2.4",
        path if path.contains("miopen") => "miopen-hip7.2.4",
        path if path.starts_with("include") || path.ends_with("64.so") => "hip-dev7.2.4",
        _ => "hip-runtime-amd7.2.4",
    };
    let mut packages: std::collections::BTreeMap<&str, Tar> = std::collections::BTreeMap::new();
    for (path, content) in &files {
        let at = format!("./opt/rocm-7.2.4/{path}");
        let tar = packages.remove(of(path)).unwrap_or_default();
        let tar = match content {
            Ok(bytes) => tar.file(&at, bytes),
            Err(target) => tar.link(&at, target),
        };
        packages.insert(of(path), tar);
    }
    assert_eq!(packages.len(), 8);
    let folder = directory.path().join("debs");
    fs_err::create_dir(&folder).unwrap();
    let debs =
        packages.into_iter().map(|(name, tar)| deb(&folder, name, "7.2.4.70204-93~24.04", tar, Packing::Xz)).collect();
    check(ImportSource::Debs(debs), "out-debs");
    for (name, listed) in &outputs[1..] {
        assert_eq!(listed, &outputs[0].1, "{name}");
    }
}

#[test]
fn two_releases_of_amd_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let package = |release: &str| {
        let tar = Tar::default().file(&format!("./opt/rocm-{release}/lib/libamdhip64.txt"), release.as_bytes());
        deb(directory.path(), &format!("hip-runtime-amd{release}"), release, tar, Packing::None)
    };
    let debs = vec![package("7.2.4"), package("6.4.3")];
    let error = import(&ImportSource::Debs(debs), &options(&directory.path().join("out"))).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("the set has two HIP runtimes, `hip-runtime-amd6.4.3` and `hip-runtime-amd7.2.4`"),
        "{text}"
    );
}

/// The folder of unpacked RPM packages has no database of dpkg: libraries of the system lie where
/// docs/package.md says.
#[test]
fn unpacked_rpm_packages_take_libraries_of_the_system_from_their_own_folder() {
    let directory = tempfile::tempdir().unwrap();
    let build = directory.path().join("build");
    fs_err::create_dir(&build).unwrap();
    // No package of the machine that tests has a library of this name.
    let other = library(&build, "librpmonly.so.1", "int other;", &[]);
    let comgr = library(&build, "libamd_comgr.so.3", "int comgr;", &[]);
    let hip = library(&build, "libamdhip64.so.7", "int hip;", &[&other]);
    let tree = directory.path().join("root/opt/rocm-7.2.4");
    put(&tree, "lib64/libamdhip64.so.7", &fs_err::read(&hip).unwrap());
    put(&tree, "lib/libamd_comgr.so.3", &fs_err::read(&comgr).unwrap());
    put(&tree, ".info/version", b"7.2.4-93\n");
    let output = directory.path().join("out");
    let error = import(&ImportSource::Prefix(tree.clone()), &options(&output)).unwrap_err();
    assert!(error.to_string().contains("`librpmonly.so.1` is missing"), "{error}");
    put(&tree, "lib/rocm_sysdeps/lib/librpmonly.so.1", &fs_err::read(&other).unwrap());
    let report = import(&ImportSource::Prefix(tree), &options(&output)).unwrap();
    assert_eq!((report.version.as_str(), report.unresolved.len()), ("7.2.4", 0));
    let sysdeps = listing(&output.join("sysdeps_lib_generic"));
    assert!(sysdeps.iter().any(|(path, _)| path.ends_with("lib/rocm_sysdeps/lib/librpmonly.so.1")), "{sysdeps:?}");
}
