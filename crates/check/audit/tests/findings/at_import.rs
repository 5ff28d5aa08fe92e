//! Libraries that Python files load by path before a module needs them.

use rocwheel_audit::Options;

use crate::fixture::{Bench, Pack, demo, pack};

const MODULE: &str = "demo/_m.cpython-312-x86_64-linux-gnu.so";
const NONE: [&str; 0] = [];
const TAG: &str = "py3-none-manylinux_2_34_x86_64";
/// The loader file in RAPIDS' library packages.
const LOAD: &str = "import ctypes, os\n\
    def load_library():\n\
    \x20   import liby\n\
    \x20   liby.load_library()\n\
    \x20   soname = 'libx.so'\n\
    \x20   return ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'lib64', soname), ctypes.RTLD_LOCAL)\n";

/// A module that needs `libx.so`, which needs `liby.so`, each in its own distribution.
fn chain(bench: &Bench) -> [Pack; 3] {
    let liby = bench.library("liby.so", "int y(void) { return 1; }", &["-Wl,-soname,liby.so"]);
    let libx =
        bench.library("libx.so", "int y(void); int x(void) { return y(); }", &["-Wl,-soname,libx.so", "-l:liby.so"]);
    let module = bench.module("int x(void); int f(void) { return x(); }", &["-l:libx.so", "-Wl,-rpath-link,."]);
    let demo = demo().with(MODULE, &module).requiring("libx");
    let libx = pack("libx-1.0", TAG).with("libx/load.py", LOAD).with("libx/lib64/libx.so", &libx).requiring("liby");
    let liby = pack("liby-1.0", TAG)
        .with("liby/__init__.py", "from liby.load import load_library\n")
        .with("liby/load.py", LOAD.replace("libx.so", "liby.so").replace("liby.load", "pass; load"))
        .with("liby/lib64/liby.so", &liby);
    [demo, libx.with("libx/__init__.py", "from libx.load import load_library\n"), liby]
}

#[test]
fn what_a_requirement_loads_at_import_is_there() {
    let bench = Bench::new();
    let [demo, libx, liby] = chain(&bench);
    let init = "try:\n    import libx\nexcept ModuleNotFoundError:\n    pass\nelse:\n    libx.load_library()\n";
    let good = demo.clone().with("demo/__init__.py", init);
    assert_eq!(bench.found(&[good.clone(), libx.clone(), liby.clone()]), NONE);
    assert_eq!(bench.found(&[good, libx.clone().beside(), liby.clone().beside()]), NONE);
    // The file that loads the library exists, but no import of it is visible.
    let report = bench.audit(&[demo.with("demo/__init__.py", "# libx\n"), libx, liby], &Options::default());
    let finding = report.findings.iter().find(|finding| finding.subject.contains("libx.so")).unwrap();
    assert_eq!((finding.code.text(), finding.severity.name()), ("RW001", "warning"));
    assert!(finding.message.contains("`libx/load.py` loads it by its path, as far as can be read"), "{finding:?}");
    assert_eq!(finding.fix, None, "a graft would put a second libx.so into the process");
}

#[test]
fn a_name_without_a_folder_loads_nothing_of_the_set() {
    let bench = Bench::new();
    let [demo, libx, liby] = chain(&bench);
    let mut bare = libx;
    let load = bare.files.iter_mut().find(|(name, _)| name == "libx/load.py").unwrap();
    load.1 = b"import ctypes\nctypes.CDLL('libx.so')\n".to_vec();
    let demo = demo.with("demo/__init__.py", "import libx\n");
    assert!(bench.found(&[demo, bare, liby]).contains(&"RW001 error".to_owned()));
}

#[test]
fn a_requirement_that_was_not_given_may_have_the_library() {
    let bench = Bench::new();
    let [demo, _, _] = chain(&bench);
    let finding = bench.one(&[demo.requiring("other")], "");
    // No fix is proposed before the requirements are known.
    assert_eq!(finding.severity.name(), "warning");
    assert!(
        finding.fix.as_ref().is_some_and(|fix| fix.is_question() && fix.command().ends_with(" --with index")),
        "{finding:?}"
    );
    assert!(finding.message.ends_with("; `libx`, `other` were not given"), "{finding:?}");
}

#[test]
fn a_library_of_the_wheel_that_its_python_loads_first() {
    let bench = Bench::new();
    let core = bench.library("libdemo_core7.so", "int x(void) { return 1; }", &["-Wl,-soname,libdemo_core7.so"]);
    let ops = bench.library("libdemo_ops7.so", "int x(void); int f(void) { return x(); }", &["-l:libdemo_core7.so"]);
    let wheel = demo().with("demo/libdemo_core7.so", &core).with("demo/libdemo_ops7.so", &ops);
    assert_eq!(bench.found(std::slice::from_ref(&wheel)), ["RW001 warning"]);
    let load = "import torch\ndef load(version):\n    path = find(f'libdemo_core{version}')\n    torch.ops.load_library(path)\n";
    let found =
        bench.found(&[wheel.clone().with("demo/_load.py", load).with("demo/__init__.py", "from . import _load\n")]);
    assert_eq!(found, NONE);
    assert_eq!(bench.found(&[wheel.with("demo/_load.py", load)]), ["RW001 note"], "nothing is seen to import it");
}

#[test]
fn rw010_is_for_what_python_imports() {
    let bench = Bench::new();
    let with = |code: &[u8]| demo().with("demo/_m.cpython-310-x86_64-linux-gnu.so", code);
    assert_eq!(bench.found(&[with(&bench.module("", &[]))]), ["RW010 error"]);
    let library = bench.library("_m.so", "int registers_itself(void) { return 1; }", &[]);
    assert_eq!(bench.found(&[with(&library)]), NONE, "no PyInit__m: torch.ops.load_library takes it");
    // Python imports the file, which is not a module.
    let right = demo().with(MODULE, &library);
    assert_eq!(bench.found(&[right.clone().with("demo/__init__.py", "import torch")]), NONE);
    for import in ["from . import _m", "from ._m import f", "import demo._m", "from demo import a, _m"] {
        assert_eq!(bench.found(&[right.clone().with("demo/__init__.py", import)]), ["RW010 error"], "{import}");
    }
    let good = demo().with(MODULE, bench.module("", &[])).with("demo/__init__.py", "from . import _m");
    assert_eq!(bench.found(&[good]), NONE);
}
