//! Installed prefixes, private and shared, and tarballs.

use std::fmt::Write as _;
use std::path::Path;

use rocwheel_artifact::Catalog;
use rocwheel_artifact::import::{Error, ImportSource};
use rocwheel_report::{Hint as _, Silent};

use super::fixture::{Packing, Tar, import, library, listing, options};

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
fn prefixes_without_rocm_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let attempt = |path: &str| {
        fs_err::create_dir_all(directory.path().join(path)).unwrap();
        import(&ImportSource::Prefix(directory.path().join(path)), &options(&directory.path().join("out"))).unwrap_err()
    };
    let error = attempt("opt/other");
    assert!(matches!(error, Error::NoRocm { .. }), "{error}");
    assert!(error.hint().unwrap().contains("/opt/rocm"));
    let root = import(&ImportSource::Prefix("/".into()), &options(&directory.path().join("out"))).unwrap_err();
    assert!(matches!(root, Error::NoRocm { .. }), "it is not walked: {root}");
    fs_err::create_dir_all(directory.path().join("opt/empty/share/therock")).unwrap();
    assert!(matches!(attempt("opt/empty"), Error::Empty { .. }));
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
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 1);
}
