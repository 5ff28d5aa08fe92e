//! What packages say of themselves: errors come before anything is unpacked, and name packages that
//! exist. Packages have the shapes of Debian's ROCm 7.2.4 and of the mixture in Debian unstable.

use std::path::{Path, PathBuf};

use rocwheel_import::{ImportOptions, ImportReport, ImportSource};
use rocwheel_progress::Failure;

use super::fixture::{self, Deb, Packing, Tar, import, library, listing, options};

/// A folder of packages in the making.
struct Packages {
    directory: tempfile::TempDir,
    debs: Vec<PathBuf>,
}

impl Packages {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs_err::create_dir(directory.path().join("build")).unwrap();
        Self { directory, debs: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Adds a package with one library, which needs others.
    fn library(&mut self, name: &str, depends: &str, soname: &str, needs: &[&Path]) -> PathBuf {
        let path = library(&self.path("build"), soname, "int unused;", needs);
        let (stem, version) = soname.split_once(".so.").unwrap();
        let shlibs = format!("{stem} {version} {name} (>= 1)\n");
        let tar = Tar::default().file(&at(soname), &fs_err::read(&path).unwrap());
        let deb = Deb { name, version: "7.2.4-1", depends, lists: vec![("shlibs", shlibs)] };
        self.debs.push(deb.write(self.directory.path(), tar, Packing::Zst));
        path
    }

    /// Adds a package with these files and their digests.
    fn files(&mut self, name: &str, files: &[(&str, &str)]) {
        let digest = |(path, text): &(&str, &str)| format!("{:032x}  {path}\n", text.len());
        let tar =
            files.iter().fold(Tar::default(), |tar, (path, text)| tar.file(&format!("./{path}"), text.as_bytes()));
        let lists = vec![("md5sums", files.iter().map(digest).collect())];
        let deb = Deb { name, version: "7.2.4-1", depends: "", lists };
        self.debs.push(deb.write(self.directory.path(), tar, Packing::Gz));
    }

    fn import_with(&self, change: impl Fn(&mut ImportOptions)) -> Result<ImportReport, Failure> {
        let mut options = options(&self.path("out"));
        change(&mut options);
        import(&ImportSource::Debs(self.debs.clone()), &options)
    }

    fn import(&self) -> Result<ImportReport, Failure> {
        self.import_with(|_| ())
    }
}

fn at(name: &str) -> String {
    format!("./usr/lib/x86_64-linux-gnu/{name}")
}

/// A library that is in no package.
fn absent(packages: &Packages, soname: &str) -> PathBuf {
    library(&packages.path("build"), soname, "int unused;", &[])
}

#[test]
fn all_missing_packages_are_named_before_anything_is_unpacked() {
    let mut packages = Packages::new();
    let llvm = absent(&packages, "libLLVM.so.22.1");
    let zstd = absent(&packages, "libzstd.so.1");
    let elf = absent(&packages, "libelf.so.1");
    let atomic = absent(&packages, "libboost_atomic.so.1.90.0");
    let comgr = "libc6 (>= 2.38), libllvm22 (>= 1:22.1.0), libzstd1 (>= 1.5.5), libclang-common-22-dev";
    packages.library("libamd-comgr3", comgr, "libamd_comgr.so.3", &[&llvm, &zstd]);
    let hip = packages.library("libamdhip64-7", "libamd-comgr3, libelf1t64 | libelf1", "libamdhip64.so.7", &[&elf]);
    packages.library("libmiopen1", "libamdhip64-7, libboost-atomic1.90.0", "libMIOpen.so.1", &[&hip, &atomic]);
    // The data of the package is damaged, so unpacking it would fail.
    let broken = packages.path("librocsolver0_7.2.4-1.deb");
    let tar = Tar::default().file(&at("librocsolver.so.0"), &vec![7; 90_000]);
    let deb = Deb { name: "librocsolver0", version: "7.2.4-1", depends: "libamdhip64-7", lists: Vec::new() };
    let bytes = fs_err::read(deb.write(packages.directory.path(), tar, Packing::None)).unwrap();
    fs_err::write(&broken, &bytes[..bytes.len() - 4096]).unwrap();
    packages.debs.push(broken);

    let error = packages.import().unwrap_err();
    assert_eq!(
        error.to_string(),
        "4 libraries are missing:\n  \
         `libLLVM.so.22.1`, needed by `lib/libamd_comgr.so.3` (in package `libllvm22`)\n  \
         `libboost_atomic.so.1.90.0`, needed by `lib/libMIOpen.so.1` (in package `libboost-atomic1.90.0`)\n  \
         `libelf.so.1`, needed by `lib/libamdhip64.so.7` (in package `libelf1t64`)\n  \
         `libzstd.so.1`, needed by `lib/libamd_comgr.so.3` (in package `libzstd1`)"
    );
    let hint = error.hint().unwrap();
    let command = "apt-get download libboost-atomic1.90.0 libbsd0 libedit2 libelf1t64 libffi8 libllvm22 libmd0 \
                   libtinfo6 libxml2-16 libz3-4 libzstd1 zlib1g`";
    assert!(hint.starts_with(&format!("fetch them and what they need with `{command}")), "{hint}");
    assert!(!packages.path("out").exists());
    let rest = fs_err::read_dir(packages.directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(rest.into_iter().all(|name| !name.to_string_lossy().starts_with('.')), "a folder is left");

    let error = packages.import_with(|options| options.allow_unresolved = vec!["*".into()]).unwrap_err();
    assert_eq!(error.hint().unwrap(), "download the file again; it is incomplete or no such archive", "{error}");
}

#[test]
fn a_dependency_that_no_file_needs_is_not_missing() {
    let mut packages = Packages::new();
    let depends = "libdrm-common, python3, libzstd1 (>= 1.5.5), libhip-provided";
    packages.library("libamdhip64-7", depends, "libamdhip64.so.7", &[]);
    packages.library("libamd-comgr3", "", "libamd_comgr.so.3", &[]);
    assert!(packages.import().unwrap().unresolved.is_empty());
}

#[test]
fn a_library_loaded_by_name_is_missing_too() {
    let mut packages = Packages::new();
    packages.library("libamdhip64-7", "libamd-comgr3 (>= 7.2.0~)", "libamdhip64.so.7", &[]);
    let error = packages.import().unwrap_err().to_string();
    assert!(error.contains("`libamd_comgr.so.*`"), "{error}");
    let cause = "loaded at run time by `lib/libamdhip64.so.7` (in package `libamd-comgr3`)";
    assert!(error.contains(cause), "{error}");
}

#[test]
fn a_library_of_another_rocm_is_explained() {
    let mut packages = Packages::new();
    packages.library("libamd-comgr3", "", "libamd_comgr.so.3", &[]);
    packages.library("libamdhip64-6", "libamd-comgr3", "libamdhip64.so.6", &[]);
    let old = absent(&packages, "libamdhip64.so.5");
    packages.library("librccl1", "libamdhip64-5 (>= 5.7)", "librccl.so.1", &[&old]);
    let error = packages.import().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`libamdhip64.so.5` is missing, needed by `lib/librccl.so.1` of `librccl1`: it is built for another ROCm, \
         this set has `libamdhip64.so.6`"
    );
    assert_eq!(
        error.hint().unwrap(),
        "leave out `librccl1`, which is built for another ROCm; or accept it with `--allow-unresolved libamdhip64.so.5`"
    );
    // Adding the other runtime does not help either.
    packages.library("libamdhip64-5", "libamd-comgr3", "libamdhip64.so.5", &[]);
    let error = packages.import().unwrap_err();
    assert!(error.to_string().starts_with("the set has two HIP runtimes"), "{error}");
}

#[test]
fn two_runtimes_are_refused_with_what_needs_the_older_one() {
    let mut packages = Packages::new();
    for (name, version) in [("libamdhip64-6", "6.4.3-5"), ("libamdhip64-5", "5.7.1-9")] {
        let deb = Deb { name, version, depends: "", lists: Vec::new() };
        packages.debs.push(deb.write(packages.directory.path(), Tar::default(), Packing::None));
    }
    packages.library("librccl1", "libamdhip64-5 (>= 5.7)", "librccl.so.1", &[]);
    let error = packages.import().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the set has two HIP runtimes, `libamdhip64-5` and `libamdhip64-6`, and a process can use only one; \
         `librccl1` needs the older one"
    );
    let hint = error.hint().unwrap();
    assert_eq!(hint, "leave out `libamdhip64-5`, `librccl1`, or give packages of one release of ROCm");
}

/// As with apt's answer to what hipcc needs in turn: clang, and binutils for that.
#[test]
fn what_only_a_program_of_the_system_needs_is_not_missing() {
    let mut packages = Packages::new();
    packages.library("libamdhip64-7", "libother1", "libamdhip64.so.7", &[]);
    let absent = absent(&packages, "libzstd.so.1");
    let program = library(&packages.path("build"), "libprogram.so.1", "int unused;", &[&absent]);
    for (path, is_whole) in [("./usr/bin/other", true), ("./usr/lib/x86_64-linux-gnu/libother.so.1", false)] {
        let tar = Tar::default().file(path, &fs_err::read(&program).unwrap());
        let deb = Deb { name: "libother1", version: "1", depends: "libzstd1", lists: vec![] };
        packages.debs.truncate(1);
        packages.debs.push(deb.write(packages.directory.path(), tar, Packing::Zst));
        // The HIP runtime loads libraries that this set lacks as well.
        let error = packages.import().unwrap_err().to_string();
        assert!(error.contains(" missing"), "{path}: {error}");
        assert_eq!(!error.contains("`libzstd.so.1`"), is_whole, "{path}: {error}");
    }
}

#[test]
fn a_file_in_two_packages_is_taken_once_and_a_different_one_is_refused() {
    let header = ("usr/include/origami/gemm.hpp", "// gemm\n");
    let mut first = None;
    for _ in 0..4 {
        let mut packages = Packages::new();
        packages.library("libamdhip64-7", "", "libamdhip64.so.7", &[]);
        packages.files("libhipsparselt-dev", &[header, ("usr/lib/x86_64-linux-gnu/liborigami.a", "!<arch>\n")]);
        packages.files("libhipblaslt-dev", &[header, ("usr/include/hipblaslt/hipblaslt.h", "// lt\n")]);
        let report = packages.import_with(|options| options.allow_unresolved = vec!["*".into()]).unwrap();
        let skipped: Vec<(&str, &str, &str)> = report
            .skipped
            .iter()
            .map(|skipped| (skipped.source.as_str(), skipped.path.as_str(), skipped.reason.as_str()))
            .collect();
        let reason = "the same as `usr/include/origami/gemm.hpp` of `libhipblaslt-dev`";
        assert_eq!(skipped, [("libhipsparselt-dev", header.0, reason)]);
        let written: u64 = report.artifacts.iter().map(|artifact| artifact.files + artifact.links).sum();
        assert_eq!(written - 2 + skipped.len() as u64, report.input_entries);
        let files = listing(&packages.path("out"));
        assert_eq!(files.iter().filter(|(path, _)| path.ends_with("origami/gemm.hpp")).count(), 1);
        assert!(files.iter().all(|(path, _)| !path.contains(".duplicates")));
        assert_eq!(*first.get_or_insert(files.clone()), files, "which thread was faster is seen");
    }
    let archive = "usr/lib/x86_64-linux-gnu/liborigami.a";
    for mine in [("libhipblaslt1", "of hipblaslt\n"), ("libhipblaslt1", "of hipblas_lt\n")] {
        let mut packages = Packages::new();
        packages.library("libamdhip64-7", "", "libamdhip64.so.7", &[]);
        packages.files("libhipsparselt-dev", &[(archive, "of sparselt!\n")]);
        packages.files(mine.0, &[(archive, mine.1)]);
        let report = packages.import_with(|options| options.allow_unresolved = vec!["*".into()]).unwrap();
        let [displaced] = &report.displaced[..] else { panic!("{:?}", report.displaced) };
        assert_eq!((displaced.source.as_str(), displaced.path.as_str()), ("libhipsparselt-dev", archive));
        assert_eq!(displaced.reason, format!("different from `{archive}` of `libhipblaslt1`, which is taken"));
        assert!(report.skipped.contains(displaced));
        let files = listing(&packages.path("out"));
        let (path, _) = files.iter().find(|(path, _)| path.ends_with("lib/liborigami.a")).unwrap();
        assert_eq!(fs_err::read_to_string(packages.path("out").join(path)).unwrap(), mine.1);
    }
    let mut packages = Packages::new();
    packages.library("libamdhip64-7", "", "libamdhip64.so.7", &[]);
    packages.files("libhipsparselt-dev", &[("usr/include/origami/gemm.hpp", "// another gemm\n")]);
    packages.files("libhipblaslt-dev", &[header]);
    // Its data would not unpack: the digests are enough.
    let damaged = packages.debs.last().unwrap();
    let bytes = fs_err::read(damaged).unwrap();
    fs_err::write(damaged, &bytes[..bytes.len() - 40]).unwrap();
    let error = packages.import().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`include/origami/gemm.hpp` is provided twice, by `usr/include/origami/gemm.hpp` of `libhipblaslt-dev` and by \
         `usr/include/origami/gemm.hpp` of `libhipsparselt-dev`"
    );
}

#[test]
fn the_same_file_in_another_place_of_the_table_stays_with_the_first_package() {
    // `hipcub` belongs to `prim`, `rocrand` to `rand`: the file goes to the artifact of the first
    // package by name, whichever was unpacked first.
    let file = ("usr/include/shared/x.h", "// x\n");
    for names in [["libhipcub-dev", "librocrand-dev"], ["librocrand-dev", "libhipcub-dev"]] {
        let mut packages = Packages::new();
        packages.library("libamdhip64-7", "", "libamdhip64.so.7", &[]);
        for name in names {
            packages.files(name, &[file]);
        }
        packages.import_with(|options| options.allow_unresolved = vec!["*".into()]).unwrap();
        let files = listing(&packages.path("out"));
        let found: Vec<&str> =
            files.iter().map(|(path, _)| path.as_str()).filter(|path| path.ends_with("shared/x.h")).collect();
        assert_eq!(found, ["prim_dev_generic/prim/stage/include/shared/x.h"]);
    }
}

#[test]
fn a_link_to_its_own_folder_stays() {
    let mut packages = Packages::new();
    packages.library("libamdhip64-7", "", "libamdhip64.so.7", &[]);
    let tar = || {
        let tar = Tar::default().file("./usr/include/hsa/hsa.h", b"// hsa\n").link("./usr/include/hsa/hsa", ".");
        tar.link("./usr/include/hsa/up", "../hsa").link("./usr/include/hsa/top", "..")
    };
    for name in ["libhsa-runtime-dev", "hsa-rocr-dev"] {
        let deb = Deb { name, version: "7.2.4-1", depends: "", lists: Vec::new() };
        packages.debs.push(deb.write(packages.directory.path(), tar(), Packing::Xz));
    }
    let report = packages.import_with(|options| options.allow_unresolved = vec!["*".into()]).unwrap();
    let files = listing(&packages.path("out"));
    let link = |name: &str| files.iter().find(|(path, _)| path.ends_with(name)).map(|(_, target)| target.as_str());
    assert_eq!(
        (link("include/hsa/hsa"), link("include/hsa/up"), link("include/hsa/top")),
        (Some("."), Some("."), Some(".."))
    );
    assert_eq!(report.skipped.len(), 4, "{:?}", report.skipped);
    let flat = packages.path("flat");
    fixture::flatten(&packages.path("out"), &flat);
    assert!(flat.join("include/hsa/hsa/hsa/hsa/hsa.h").is_file());
}
