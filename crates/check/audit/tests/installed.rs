//! Distributions that pip installed, compared with their wheels.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocwheel_audit::report::{AuditReport, LoadAnswer};
use rocwheel_audit::{ExtraCheck, Fix, Options, audit_facts};
use rocwheel_fixtures::{TestWheel, succeeds};
use rocwheel_loader::facts::SiteFacts;
use rocwheel_loader::site::{PackageFolder, PythonEnvironment, Role, Site};
use rocwheel_progress::{Hint, Silent};
use tempfile::TempDir;

/// The RECORD of an editable installation.
const RECORD: &str = "\
__editable__.project-1.0.pth,sha256=LaHkqHX37ZfDGJ2k-PfFofAp_KRrkyX48w8alCjAnfI,13
project-1.0.dist-info/RECORD,,
";

/// A virtual environment, and a folder in which to make wheels for it.
struct Environment {
    folder: TempDir,
    python: String,
}

impl Environment {
    fn new() -> Environment {
        let folder = tempfile::tempdir().unwrap();
        succeeds(Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(folder.path().join("venv")));
        let version =
            succeeds(Command::new("python3").args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]));
        Environment { folder, python: version.trim().to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn packages(&self) -> PathBuf {
        self.path(&format!("venv/lib/python{}/site-packages", self.python))
    }

    /// Compiles a library into the folder, for wheels and for others to link to.
    fn library(&self, name: &str, source: &str, arguments: &[&str]) -> Vec<u8> {
        rocwheel_fixtures::library(self.folder.path(), name, source, arguments)
    }

    fn wheel(&self, name: &str, requires: &[&str], files: Vec<(&str, Vec<u8>)>) -> PathBuf {
        let is_native = files.iter().any(|(path, _)| path.contains(".so"));
        let tag = if is_native { "py3-none-manylinux_2_34_x86_64" } else { "py3-none-any" };
        let scripts = format!("[console_scripts]\n{name}-tool = {name}:main\n");
        let wheel = TestWheel::new(format!("{name}-1.0-{tag}.whl")).requires(requires).files(files);
        wheel.file("INFO/entry_points.txt", scripts).write(self.folder.path())
    }

    fn install(&self, arguments: &[&Path]) {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--disable-pip-version-check", "--python"]).arg(self.path("venv/bin/python"));
        succeeds(pip.args(["install", "--no-index", "--no-deps", "--no-build-isolation", "--quiet"]).args(arguments));
    }

    fn place(&self) -> PythonEnvironment {
        let folder = PackageFolder::find(&self.path("venv")).unwrap().unwrap();
        let python = folder.python().unwrap();
        assert_eq!(python.to_string(), self.python);
        folder.place(python)
    }

    fn audit(&self, paths: &[(PathBuf, Role)]) -> AuditReport {
        let site = Site::open(paths, &self.place(), self.folder.path(), &Silent).unwrap();
        let mut facts = SiteFacts::read(&site, &Silent).unwrap();
        facts.find_loads(&site, None, &Silent).unwrap();
        let options = Options { extras: BTreeSet::from([ExtraCheck::Hashes]), ..Options::default() };
        audit_facts(&site, &facts, &options, &Silent).unwrap()
    }

    fn audit_installed(&self) -> AuditReport {
        self.audit(&[(self.packages(), Role::Audited)])
    }
}

/// Code, file and subject of every finding, sorted.
fn said(report: &AuditReport) -> Vec<String> {
    let line = |finding: &rocwheel_audit::finding::Finding| {
        format!("{} {} {}", finding.code, finding.file.as_deref().unwrap_or("-"), finding.subject)
    };
    let mut lines: Vec<String> = report.findings.iter().map(line).collect();
    lines.sort();
    lines
}

/// pip does not remove what others require, and `--no-deps` does not install it.
#[test]
fn a_requirement_that_the_environment_lacks_is_an_error_if_a_file_needs_it() {
    let environment = Environment::new();
    environment.library("libtorch.so", "int torch(void) { return 1; }", &["-Wl,-soname,libtorch.so"]);
    let user = environment.library("user.so", "int user;", &["-Wl,--no-as-needed", "-l:libtorch.so"]);
    let files = vec![("user/__init__.py", Vec::new()), ("user/user.so", user)];
    environment.install(&[&environment.wheel("user", &["torch"], files)]);
    let report = environment.audit_installed();
    let finding = report.findings.iter().find(|finding| finding.code.text() == "RW031").unwrap();
    assert_eq!(
        finding.message,
        "needs `libtorch.so` of PyTorch, which `torch` should bring and which is not installed"
    );
    assert!(finding.fix.as_ref().unwrap().command().ends_with(" install torch"), "{finding:?}");
    assert_eq!((finding.severity.name(), report.verdict().answer), ("error", LoadAnswer::Fails));
}

#[test]
fn the_loader_answers_for_what_is_installed_as_for_its_wheels() {
    let environment = Environment::new();
    let one = environment.library("libone.so.1", "int one(void) { return 1; }", &["-Wl,-soname,libone.so.1"]);
    let user = environment.library(
        "user.so",
        "extern int one(void); int two(void) { return one(); }",
        &["-l:libone.so.1", "-Wl,-rpath,$ORIGIN/../base/lib:/home/builder/lib"],
    );
    environment.library("libgone.so.1", "int gone(void) { return 1; }", &["-Wl,-soname,libgone.so.1"]);
    let lost = environment.library("lost.so", "int lost;", &["-l:libgone.so.1"]);
    let base = environment.wheel(
        "base",
        &[],
        vec![("base/__init__.py", b"def main(): pass\n".to_vec()), ("base/lib/libone.so.1", one)],
    );
    let user = environment.wheel(
        "user",
        &["base==1.0"],
        vec![("user/__init__.py", b"import base\n".to_vec()), ("user/user.so", user), ("user/lost.so", lost)],
    );
    let wheels = [(base.clone(), Role::Audited), (user.clone(), Role::Audited)];
    let of_wheels = environment.audit(&wheels);
    assert_eq!(
        said(&of_wheels),
        ["RW001 user/lost.so libgone.so.1", "RW003 user/user.so /home/builder/lib"],
        "{:?}",
        of_wheels.findings
    );
    environment.install(&[&base, &user]);
    let installed = environment.audit_installed();
    assert_eq!(said(&installed), said(&of_wheels), "{:?}", installed.findings);
    let names: Vec<(&str, &str, &str)> =
        installed.wheels.iter().map(|wheel| (wheel.file.as_str(), wheel.form, wheel.role)).collect();
    assert_eq!(names, [("base-1.0.dist-info", "installed", "audited"), ("user-1.0.dist-info", "installed", "audited")]);
    assert_eq!(installed.findings[0].wheel.as_deref(), Some("user-1.0.dist-info"));
    assert!(installed.notes.is_empty(), "{:?}", installed.notes);
    // A wheel beside installed distributions replaces the installed distribution of its name.
    let beside = environment.audit(&[(environment.packages(), Role::Beside), (user.clone(), Role::Audited)]);
    assert_eq!(said(&beside), said(&of_wheels));
    // The path of the environment itself works too.
    assert_eq!(said(&environment.audit(&[(environment.path("venv"), Role::Audited)])), said(&installed));
}

#[test]
fn what_changed_after_the_installation_is_found() {
    let environment = Environment::new();
    let files =
        vec![("pack/__init__.py", b"".to_vec()), ("pack/a.py", b"a = 1\n".to_vec()), ("pack/b.py", b"b\n".to_vec())];
    environment.install(&[&environment.wheel("pack", &[], files)]);
    let packages = environment.packages();
    assert_eq!(said(&environment.audit_installed()), Vec::<String>::new());
    fs_err::write(packages.join("pack/a.py"), "a = 2\n").unwrap();
    fs_err::remove_file(packages.join("pack/b.py")).unwrap();
    fs_err::remove_dir_all(packages.join("pack/__pycache__")).unwrap();
    let report = environment.audit_installed();
    assert_eq!(said(&report), ["RW016 pack/a.py hash", "RW016 pack/b.py missing"], "{:?}", report.findings);
    let fix = report.findings[0].fix.as_ref().map(Fix::command).unwrap();
    assert!(
        fix.starts_with("pip --python ") && fix.ends_with(" install --force-reinstall --no-deps pack==1.0"),
        "{fix}"
    );
    // Programs are files of the environment.
    fs_err::remove_file(environment.path("venv/bin/pack-tool")).unwrap();
    assert!(said(&environment.audit_installed()).contains(&"RW016 ../../../bin/pack-tool missing".to_owned()));
    fs_err::write(packages.join("pack-1.0.dist-info/RECORD"), "pack/a.py,sha256=x\n").unwrap();
    assert_eq!(said(&environment.audit_installed()), ["RW016 - RECORD"]);
}

/// The wheel of numpy has a row for bytecode, and pip adds one for the same file.
#[test]
fn only_files_that_stay_are_listed_twice() {
    let environment = Environment::new();
    environment.install(&[&environment.wheel("pack", &[], vec![("pack/__init__.py", b"".to_vec())])]);
    let record = environment.packages().join("pack-1.0.dist-info/RECORD");
    let rows = fs_err::read_to_string(&record).unwrap();
    let bytecode = "pack/__pycache__/tool.cpython-311.pyc";
    fs_err::write(&record, format!("{bytecode},sha256=x,1\n{rows}{bytecode},,\n")).unwrap();
    assert_eq!(said(&environment.audit_installed()), Vec::<String>::new());
    let module = rows.lines().find(|row| row.starts_with("pack/__init__.py,")).unwrap();
    fs_err::write(&record, format!("{rows}{module}\n")).unwrap();
    assert_eq!(said(&environment.audit_installed()), ["RW016 pack/__init__.py repeated"]);
}

/// The state after `rocm-sdk init`: rows without hashes, names of temporary files, no tar file.
#[test]
fn an_expanded_devel_tree_is_as_it_should_be() {
    let environment = Environment::new();
    let brought = vec![("rocm_sdk_devel/__init__.py", b"".to_vec()), ("rocm_sdk_devel/_devel.tar", b"tar".to_vec())];
    environment.install(&[
        &environment.wheel("rocm_sdk_devel", &[], brought),
        &environment.wheel("rocm_sdk_device_gfx942", &[], vec![("device/__init__.py", b"".to_vec())]),
    ]);
    let packages = environment.packages();
    let write = |name: &str, text: &str| {
        fs_err::create_dir_all(packages.join(name).parent().unwrap()).unwrap();
        fs_err::write(packages.join(name), text).unwrap();
    };
    let record = |info: &str, rows: &[&str]| {
        let path = packages.join(info).join("RECORD");
        let rows: String = rows.iter().map(|row| format!("_rocm_sdk_devel/{row},,\n")).collect();
        fs_err::write(&path, fs_err::read_to_string(&path).unwrap() + &rows).unwrap();
    };
    let rows = ["__init__.py", ".expanded.json", ".expanded.json.tmp", "lib/.new_link.tmp", "lib/x.so", "lib/later.so"];
    record("rocm_sdk_devel-1.0.dist-info", &rows);
    record("rocm_sdk_devel-1.0.dist-info", &["lib/k.co"]);
    record("rocm_sdk_device_gfx942-1.0.dist-info", &["lib/k.co"]);
    for name in ["__init__.py", "lib/x.so", "lib/k.co"] {
        write(&format!("_rocm_sdk_devel/{name}"), "/* text */ INPUT(x)");
    }
    let list = r#"{"schema": 1, "links": {"lib/later.so": ["../y", "waiting"], "lib/x.so": ["../z", "hardlink"]}, "devices": {"lib/k.co": "hardlink"}}"#;
    write("_rocm_sdk_devel/.expanded.json", list);
    let of_record = |report: &AuditReport| -> Vec<String> {
        let codes = ["RW015", "RW016", "RW017"];
        said(report).into_iter().filter(|line| codes.iter().any(|code| line.starts_with(code))).collect()
    };
    assert_eq!(of_record(&environment.audit_installed()), Vec::<String>::new());
    fs_err::remove_file(packages.join("rocm_sdk_devel/_devel.tar")).unwrap();
    assert_eq!(of_record(&environment.audit_installed()), Vec::<String>::new());
    // The device package was uninstalled together with its link.
    fs_err::remove_file(packages.join("_rocm_sdk_devel/lib/k.co")).unwrap();
    assert_eq!(of_record(&environment.audit_installed()), Vec::<String>::new());
    // A file that is really missing is found; the fix is the program that completes the tree.
    write("../../../bin/rocm-sdk", "");
    fs_err::remove_file(packages.join("_rocm_sdk_devel/lib/x.so")).unwrap();
    let report = environment.audit_installed();
    assert_eq!(of_record(&report), ["RW016 _rocm_sdk_devel/lib/x.so missing"], "{:?}", report.findings);
    let finding = report.findings.iter().find(|finding| finding.subject == "missing").unwrap();
    assert!(finding.fix.as_ref().map(Fix::command).unwrap().ends_with("bin/rocm-sdk init --repair"), "{finding:?}");
}

#[test]
fn what_nobody_has_recorded_is_there_and_not_judged() {
    let environment = Environment::new();
    let one = environment.library("libone.so.1", "int one(void) { return 1; }", &["-Wl,-soname,libone.so.1"]);
    let user = environment.library("user.so", "int two;", &["-l:libone.so.1", "-Wl,-rpath,$ORIGIN/../loose"]);
    environment.install(&[&environment.wheel(
        "user",
        &[],
        vec![("user/__init__.py", b"".to_vec()), ("user/user.so", user)],
    )]);
    assert_eq!(said(&environment.audit_installed()), ["RW001 user/user.so libone.so.1"]);
    let packages = environment.packages();
    // Copied there by hand.
    fs_err::create_dir(packages.join("loose")).unwrap();
    fs_err::write(packages.join("loose/libone.so.1"), &one).unwrap();
    let report = environment.audit_installed();
    assert_eq!((said(&report), report.wheels.len()), (Vec::new(), 1), "{:?}", report.findings);
    // Distributions without RECORD: from older tools, and from a pip that failed.
    fs_err::create_dir(packages.join("loose-2.0.dist-info")).unwrap();
    fs_err::write(packages.join("loose-2.0.dist-info/METADATA"), "Metadata-Version: 2.1\nName: loose\nVersion: 2.0\n")
        .unwrap();
    fs_err::create_dir_all(packages.join("~ld-1.0.dist-info")).unwrap();
    fs_err::write(packages.join("~ld-1.0.dist-info/METADATA"), "Name: old\nVersion: 1.0\n").unwrap();
    fs_err::create_dir_all(packages.join("empty-1.0.dist-info")).unwrap();
    fs_err::create_dir_all(packages.join("user-0.9.dist-info")).unwrap();
    fs_err::write(packages.join("user-0.9.dist-info/METADATA"), "Name: user\nVersion: 0.9\n").unwrap();
    let report = environment.audit_installed();
    assert_eq!(said(&report), Vec::<String>::new(), "{:?}", report.findings);
    let loose = report.wheels.iter().find(|wheel| wheel.name == "loose").unwrap();
    assert_eq!((loose.files, loose.objects), (1, 1));
    let notes = report.notes.join("\n");
    for said in [
        "`empty-1.0.dist-info` has no METADATA and was passed over",
        "`~ld-1.0.dist-info` is of no distribution and was passed over",
        "`user` is installed twice, as `user-0.9.dist-info` and `user-1.0.dist-info`: the newer one was used",
        "`loose-2.0.dist-info` has no RECORD: its files were told by their names",
    ] {
        assert!(notes.contains(said), "{said}\n{notes}");
    }
}

#[test]
fn an_editable_installation_has_its_files_elsewhere() {
    let environment = Environment::new();
    environment.library("libproject.so", "int x;", &["-Wl,-soname,libproject.so"]);
    let user = environment.library("user.so", "int two;", &["-l:libproject.so"]);
    let user = environment.wheel(
        "user",
        &["project"],
        vec![("user/__init__.py", b"import project\n".to_vec()), ("user/user.so", user)],
    );
    environment.install(&[&user]);
    // The files that `pip install --editable` writes.
    let info = environment.packages().join("project-1.0.dist-info");
    fs_err::create_dir(&info).unwrap();
    fs_err::write(info.join("METADATA"), "Metadata-Version: 2.1\nName: project\nVersion: 1.0\nRequires-Dist: user\n")
        .unwrap();
    fs_err::write(info.join("direct_url.json"), r#"{"dir_info": {"editable": true}, "url": "file:///src/project"}"#)
        .unwrap();
    fs_err::write(environment.packages().join("__editable__.project-1.0.pth"), "/src/project\n").unwrap();
    fs_err::write(info.join("RECORD"), RECORD).unwrap();
    let report = environment.audit_installed();
    // The library may come from the project, so this is a warning. Nothing is reported about
    // requirements that the project does not use.
    let severities: Vec<String> =
        report.findings.iter().map(|found| format!("{} {}", found.code, found.severity.name())).collect();
    assert_eq!(severities, ["RW001 warning"], "{:?}", report.findings);
    let note =
        "`project` is an editable installation of `file:///src/project`: its files are there and were not checked";
    assert!(report.notes.iter().any(|said| said == note), "{:?}", report.notes);
}

#[test]
fn other_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("x.txt"), "x").unwrap();
    let place = PythonEnvironment::new("3.12".parse().unwrap(), "/p");
    let paths = [(folder.path().to_owned(), Role::Audited)];
    let error = Site::open(&paths, &place, folder.path(), &Silent).err().unwrap();
    assert!(
        error.to_string().ends_with("has neither wheels nor installed packages, which would have `.dist-info` folders"),
        "{error}"
    );
    assert!(error.hint().unwrap().contains("a folder that has wheels"));
}

#[test]
fn links_to_one_file_are_one_library() {
    let environment = Environment::new();
    let one = environment.library("libone.so.1", "int one(void) { return 1; }", &["-Wl,-soname,libone.so.1"]);
    let user = environment.library("user.so", "int two;", &["-l:libone.so.1", "-Wl,-rpath,$ORIGIN"]);
    let other = environment.library("other.so", "int two;", &["-l:libone.so.1", "-Wl,-rpath,$ORIGIN/lib"]);
    let files = vec![
        ("pack/__init__.py", b"".to_vec()),
        ("pack/user.so", user),
        ("pack/other.so", other),
        ("pack/libone.so.1", one.clone()),
        ("pack/lib/libone.so.1", one),
    ];
    environment.install(&[&environment.wheel("pack", &[], files)]);
    let packages = environment.packages();
    fs_err::remove_file(packages.join("pack/lib/libone.so.1")).unwrap();
    rocwheel_system::symlink("../libone.so.1", packages.join("pack/lib/libone.so.1")).unwrap();
    let place = environment.place();
    let site = Site::open(&[(packages, Role::Audited)], &place, environment.folder.path(), &Silent).unwrap();
    let facts = SiteFacts::read(&site, &Silent).unwrap();
    let scenario = rocwheel_loader::simulation::Scenario::python(None);
    let inside = |name: &str| format!("{}/pack/{name}", site.packages());
    let roots = [inside("user.so"), inside("other.so")];
    let trace = rocwheel_loader::simulation::load(&site, &facts, &roots, &scenario);
    let libraries = trace.loaded.iter().filter(|loaded| loaded.name == "libone.so.1").count();
    assert_eq!((libraries, trace.missing.len()), (1, 0), "{trace:?}");
}
