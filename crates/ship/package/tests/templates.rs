//! `--python-templates`: packages with the Python code of templates in TheRock's layout; the
//! templates are written here.

#![allow(clippy::unwrap_used)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use rocwheel_package::{Request, SelectorForm};
use support::{Build, members, text};

/// The interface of appendix B.2 of the specification in its smallest form; the functions have the
/// arguments of the current templates.
const DIST_INFO: &str = r#"
ALL_PACKAGES = {}


class PackageEntry:
    def __init__(self, logical_name, dist_package_template, required=False):
        self.dist_package_template = dist_package_template
        self.required = required
        ALL_PACKAGES[logical_name] = self

    @property
    def is_target_specific(self):
        return "{target_family}" in self.dist_package_template

    def get_dist_package_require(self, target_family=None):
        if self.is_target_specific and target_family is None:
            raise ValueError("a family is needed")
        return self.dist_package_template.format(target_family=target_family) + "==" + __version__


PackageEntry("meta", "rocm", required=True)
PackageEntry("core", "rocm-sdk-core", required=True)
PackageEntry("libraries", "rocm-sdk-libraries-{target_family}")
PackageEntry("device", "rocm-sdk-device-{target_family}")
PackageEntry("devel", "rocm-sdk-devel")
PackageEntry("profiler", "rocm-profiler")

PY_PACKAGE_SUFFIX_NONCE: str = "_UNSET"
DEFAULT_TARGET_FAMILY: str = "UNSET"
AVAILABLE_TARGET_FAMILIES: list = []
LINUX_TARGET_FAMILIES: list = []
WINDOWS_TARGET_FAMILIES: list = []


def determine_target_family():
    if DEFAULT_TARGET_FAMILY not in AVAILABLE_TARGET_FAMILIES:
        raise ValueError("not available")
    return DEFAULT_TARGET_FAMILY


def build_per_target_extras():
    extras = {}
    for name, package in ALL_PACKAGES.items():
        if package.is_target_specific and not package.required and len(AVAILABLE_TARGET_FAMILIES) > 1:
            requires = {family: package.get_dist_package_require(family) for family in sorted(AVAILABLE_TARGET_FAMILIES)}
            extras.update({f"{name}-{family}": [require] for family, require in requires.items()})
            extras[f"{name}-all"] = list(requires.values())
    return extras


def build_install_requires(target_family):
    return [entry.get_dist_package_require() for name, entry in ALL_PACKAGES.items() if entry.required and name != "meta"]
"#;

fn templates(folder: &Path) -> PathBuf {
    let root = folder.join("templates");
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    };
    write("rocm/setup.py", "raise SystemExit('it is never run')\n");
    write("rocm/README.md", "# Theirs\n");
    write("rocm/src/rocm_sdk/__init__.py", "THEIRS = True\r\n");
    write("rocm/src/rocm_sdk/__main__.py", "def main():\n    print('theirs')\n");
    write("rocm/src/rocm_sdk/_dist_info.py", DIST_INFO);
    write("rocm/src/rocm_sdk/tests/core_test.py", "pass\n");
    write("rocm/src/rocm_sdk/__pycache__/x.pyc", "not text");
    write("rocm-sdk-core/src/rocm_sdk_core/__init__.py", "");
    let cli = "\"\"\"\ndef hipcc(): in a text only\n\"\"\"\nfrom ._dist_info import ALL_PACKAGES\n\n\ndef hipconfig():\n    pass\n\n\ndef rocm_info():\n    pass\n";
    write("rocm-sdk-core/src/rocm_sdk_core/_cli.py", cli);
    write("rocm-sdk-core/src/rocm_sdk_core/more/deep.py", "DEEP = 1\n");
    write("rocm-sdk-libraries/src/rocm_sdk_libraries/__init__.py", "");
    write("rocm-sdk-devel/src/rocm_sdk_devel/__init__.py", "");
    root
}

fn build() -> Build {
    let build = Build::split();
    build.library("amd-llvm_lib_generic", "lib/libamd_comgr.so.3", Some("libamd_comgr.so.3"), &[]);
    for tool in ["hipcc", "hipconfig", "rocminfo"] {
        build.script("core-hip_run_generic", &format!("bin/{tool}"), "#!/bin/sh\n");
    }
    build.library("rand_lib_generic", "lib/librocrand.so.1", Some("librocrand.so.1"), &[]);
    for target in ["gfx942", "gfx1100"] {
        build.file(&format!("blas_lib_{target}"), &format!("lib/rocblas/library/K_{target}.co"), target);
    }
    build
}

fn wheel(build: &Build, prefix: &str) -> PathBuf {
    build.dist().join(build.dist_names().into_iter().find(|name| name.starts_with(prefix)).unwrap())
}

#[test]
fn the_python_is_theirs_and_scripts_are_those_that_work() {
    let build = build();
    let folder = tempfile::tempdir().unwrap();
    let root = templates(folder.path());
    let request =
        Request { templates: Some(root), selectors: vec![SelectorForm::Sdist, SelectorForm::Wheel], ..build.request() };
    build.package(&request).unwrap();
    let core = wheel(&build, "rocm_sdk_core");
    let names: Vec<String> = members(&core).into_keys().filter(|name| name.starts_with("rocm_sdk_core/")).collect();
    assert_eq!(
        names.join(" "),
        "rocm_sdk_core/__init__.py rocm_sdk_core/_cli.py rocm_sdk_core/_contents.json \
        rocm_sdk_core/_dist_info.py rocm_sdk_core/more/deep.py"
    );
    assert_eq!(
        text(&core, "entry_points.txt"),
        "[console_scripts]\nhipconfig = rocm_sdk_core._cli:hipconfig\nrocminfo = rocm_sdk_core._cli:rocm_info\n"
    );
    let information = text(&core, "rocm_sdk_core/_dist_info.py");
    assert!(information.starts_with(DIST_INFO) && information.contains("\n__version__ = '10.1.0a20260822'\n"));

    let archive = fs_err::read(build.dist().join("rocm-10.1.0a20260822.tar.gz")).unwrap();
    tar::Archive::new(flate2::read::GzDecoder::new(archive.as_slice())).unpack(folder.path()).unwrap();
    let tree = folder.path().join("rocm-10.1.0a20260822");
    let read = |name: &str| fs_err::read_to_string(tree.join(name)).unwrap();
    assert_eq!(read("src/rocm_sdk/__init__.py"), "THEIRS = True\n");
    assert!(tree.join("src/rocm_sdk/tests/core_test.py").is_file() && !tree.join("setup.py").exists());
    assert!(!tree.join("src/rocm_sdk/__pycache__").exists() && !tree.join("src/rocm_sdk/_tree.py").exists());
    let shipped = read("src/rocm.egg-info/requires.txt");
    // The backend computes the same from their functions.
    let output =
        Command::new("python3").args(["rocm_build.py", "--write-egg-info"]).current_dir(&tree).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sorted = |text: &str| {
        let mut sections: Vec<Vec<String>> = text
            .split("\n\n")
            .map(|section| {
                let mut lines: Vec<String> = section.lines().map(str::to_owned).collect();
                lines.sort();
                lines
            })
            .collect();
        sections.sort();
        sections
    };
    assert_eq!(sorted(&shipped), sorted(&read("src/rocm.egg-info/requires.txt")));
    let selector = build.output().join("dist-wheel/rocm-10.1.0a20260822-py3-none-any.whl");
    assert_eq!(text(&selector, "rocm_sdk/__init__.py"), "THEIRS = True\n");
}

#[test]
fn a_set_without_targets_has_no_family_to_ask_for() {
    let build = build();
    let folder = tempfile::tempdir().unwrap();
    let request = Request {
        templates: Some(templates(folder.path())),
        shape: Some(rocwheel_package::Shape::Fat),
        ..build.request()
    };
    build.package(&request).unwrap();
    let archive = fs_err::read(build.dist().join("rocm-10.1.0a20260822.tar.gz")).unwrap();
    tar::Archive::new(flate2::read::GzDecoder::new(archive.as_slice())).unpack(folder.path()).unwrap();
    let code = "import rocm_build, sys; print('answer', rocm_build.build_wheel(sys.argv[1]))";
    let output = Command::new("python3")
        .args(["-c", code])
        .arg(folder.path())
        .current_dir(folder.path().join("rocm-10.1.0a20260822"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = text(&folder.path().join("rocm-10.1.0a20260822-py3-none-any.whl"), "METADATA");
    assert!(
        metadata.contains("Requires-Dist: rocm-sdk-libraries==10.1.0a20260822; extra == \"libraries\"\n"),
        "{metadata}"
    );
    assert!(!metadata.contains("device"), "{metadata}");
}

#[test]
fn what_the_templates_lack_is_named() {
    let build = build();
    let refused = |change: &dyn Fn(&Path), expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let root = templates(folder.path());
        change(&root);
        let error = build.plan(&Request { templates: Some(root), ..build.request() }).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    };
    let remove = |path: &'static str| move |root: &Path| fs_err::remove_file(root.join(path)).unwrap();
    refused(&|root| fs_err::remove_dir_all(root.join("rocm")).unwrap(), "there is no folder `rocm/src/rocm_sdk`");
    refused(&|root| fs_err::remove_dir_all(root).unwrap(), "there is no folder `rocm/src/rocm_sdk`");
    refused(&remove("rocm/src/rocm_sdk/_dist_info.py"), "there is no `src/rocm_sdk/_dist_info.py`");
    refused(&remove("rocm-sdk-core/src/rocm_sdk_core/__init__.py"), "rocm-sdk-core: there is no `__init__.py`");
    refused(
        &|root| {
            let text = DIST_INFO.replace("def build_per_target_extras", "def other");
            fs_err::write(root.join("rocm/src/rocm_sdk/_dist_info.py"), text).unwrap();
        },
        "`src/rocm_sdk/_dist_info.py` does not define `build_per_target_extras`",
    );
    refused(
        &|root| fs_err::write(root.join("rocm/src/rocm_sdk/__main__.py"), "run = 1\n").unwrap(),
        "not define `main`",
    );
    refused(&|root| fs_err::write(root.join("rocm/src/rocm_sdk/data.bin"), [0xff, 0xfe]).unwrap(), "is not UTF-8");
    refused(
        &|root| rocwheel_system::symlink("/etc/passwd", root.join("rocm/src/rocm_sdk/link.py")).unwrap(),
        "is no regular file",
    );
    build.library("rocprofiler-systems_lib_generic", "lib/librocprof-sys.so.1", Some("librocprof-sys.so.1"), &[]);
    refused(&|_| {}, "they have nothing for the distribution `profiler`");
}
