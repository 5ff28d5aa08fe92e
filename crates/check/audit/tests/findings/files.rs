//! The files of wheels, the paths they are installed to, and RECORD.

use rocwheel_audit::finding::Code;
use rocwheel_audit::{ExtraCheck, Options};

use crate::fixture::{Bench, Pack, demo, pack, said};

const NONE: [&str; 0] = [];

#[test]
fn rw014_packages_that_are_not_meant_for_others() {
    let bench = Bench::new();
    let wheel = || pack("demo-1.0", "py3-none-any").with("demo/__init__.py", "");
    let finding = bench.one(&[wheel().with("tests/__init__.py", "")], "");
    assert_eq!((finding.code.text(), finding.subject.as_str()), ("RW014", "tests"));
    assert!(finding.fix.as_ref().unwrap().command().ends_with("--drop 'tests/**'"), "{finding:?}");
    assert_eq!(bench.found(&[wheel().with("benchmarks/run.py", "").with("conftest.py", "")]).len(), 2);
    assert_eq!(bench.found(&[wheel().with("demo/tests/__init__.py", "")]), NONE);
    assert_eq!(bench.found(&[wheel().with("other/__init__.py", "").with("demo.pth", "")]), NONE);
    assert_eq!(bench.found(&[pack("tests-1.0", "py3-none-any").with("tests/__init__.py", "")]), NONE);
    assert_eq!(
        bench.found(&[pack("demo-1.0", "py3-none-any").with("tests/__init__.py", "")]),
        NONE,
        "it is all there is"
    );
}

#[test]
fn rw014_packages_that_the_wheel_itself_uses_stay() {
    let bench = Bench::new();
    let wheel = |user: &str, text: &str| {
        let wheel = pack("demo-1.0", "py3-none-any").with("demo/__init__.py", "");
        wheel.with("scripts/__init__.py", "").with("scripts/run.py", "import tools.x\n").with(user, text)
    };
    let stray = |wheel: Pack| -> Vec<(String, bool)> {
        let report = bench.audit(&[wheel], &Options::default());
        report.findings.into_iter().map(|finding| (finding.message, finding.fix.is_some())).collect()
    };
    let message = |rest: &str| {
        format!("installs `scripts` at the top level, importable by everyone, beside its own package{rest}")
    };
    for text in [
        "def f():\n    from scripts.run import main\n",
        "import os, scripts\n",
        "try: import scripts.run as run\nexcept ImportError: run = None\n",
        "importlib.import_module('scripts.run')\n",
        "__import__('scripts')\n",
    ] {
        let expected = (message("; its own `demo/a.py` imports it"), false);
        assert_eq!(stray(wheel("demo/a.py", text)), [expected], "{text}");
    }
    for text in [
        "COMMANDS = {'run': ('scripts.run', 'Runs')}\n",
        "load(f'scripts.{name}')\n",
        "subprocess.run([sys.executable, '-m', 'scripts'])\n",
        "os.system('python -m scripts.run --all')\n",
    ] {
        let expected = (message("; its own `demo/a.py` names it"), false);
        assert_eq!(stray(wheel("demo/a.py", text)), [expected], "{text}");
    }
    for (file, text, verb) in [
        ("demo.pth", "import scripts\n", "imports"),
        ("demo-1.0.data/scripts/demo", "#!python\nimport scripts\n", "imports"),
        ("demo-1.0.dist-info/entry_points.txt", "[console_scripts]\ndemo = scripts.run:main\n", "names"),
    ] {
        let [(message, is_fixed)] = &stray(wheel(file, text))[..] else { panic!("{file}") };
        assert!(message.ends_with(&format!("` {verb} it")) && !is_fixed, "{message}");
    }
    for text in [
        "from .scripts import run\n",
        "import demo.scripts, scripts_of_others\n",
        "# import scripts\nHELP = 'see scripts/run.py, or the scripts'\n",
        "NAME = 'scripts.unknown'\nlog('scripts.run failed')\n",
        "os.system('python -m scripts_of_others')\n",
    ] {
        assert_eq!(stray(wheel("demo/a.py", text)), [(message(""), true)], "{text}");
    }
    assert_eq!(stray(wheel("demo/data.txt", "import scripts\n")), [(message(""), true)]);
    // A package that stays keeps the packages that it imports. A stray package keeps none.
    let tools = |wheel: Pack| stray(wheel.with("tools/x.py", "")).into_iter().map(|(_, is_fixed)| is_fixed);
    assert_eq!(tools(wheel("demo/a.py", "import scripts\n")).collect::<Vec<_>>(), [false, false]);
    assert_eq!(tools(wheel("demo/a.py", "")).collect::<Vec<_>>(), [true, true]);
}

#[test]
fn rw015_files_of_two_wheels() {
    let bench = Bench::new();
    let wheel = |stem: &str, text: &str| pack(stem, "py3-none-any").with("space/one.py", text);
    assert_eq!(bench.found(&[wheel("a-1", "1"), wheel("b-1", "2")]), ["RW015 error"]);
    assert_eq!(bench.found(&[wheel("a-1", "1"), wheel("b-1", "1")]), ["RW015 warning"]);
    let namespace = |stem: &str| pack(stem, "py3-none-any").with("space/__init__.py", "__path__ = []\n");
    assert_eq!(bench.found(&[namespace("a-1"), namespace("b-1")]), ["RW015 note"]);
    assert_eq!(bench.found(&[wheel("a-1", "1"), pack("b-1", "py3-none-any").with("space/two.py", "")]), NONE);
}

#[test]
fn rw016_and_rw017_records_that_do_not_match() {
    let bench = Bench::new();
    let deep = Options { extras: [ExtraCheck::Hashes].into(), ..Options::default() };
    let record = |change: fn(String) -> String| {
        let mut wheel = pack("demo-1.0", "py3-none-any").with("demo/__init__.py", "x = 1\n");
        wheel.record = change;
        wheel
    };
    let found = |change: fn(String) -> String| said(&bench.audit(&[record(change)], &deep));
    assert_eq!(found(|text| text), NONE);
    assert_eq!(found(|text| format!("demo/gone.py,,\n{text}")), ["RW016 error"]);
    assert_eq!(found(|text| text.lines().skip(1).map(|line| format!("{line}\n")).collect()), ["RW016 error"]);
    assert_eq!(found(|text| text.replacen(",6\n", ",7\n", 1)), ["RW016 error"]);
    assert_eq!(found(|_| "one,two\n".to_owned()), ["RW016 error"]);
    let wrong: fn(String) -> String = |text| {
        let (row, rest) = text.split_once('\n').unwrap();
        let (name, _) = row.split_once(',').unwrap();
        format!("{name},sha256=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA,6\n{rest}")
    };
    assert_eq!(found(wrong), ["RW016 error"]);
    assert_eq!(said(&bench.audit(&[record(wrong)], &Options::default())), NONE, "nothing is unpacked");
    // A file whose hash and size both differ is one finding.
    let other: fn(String) -> String = |text| {
        let (row, rest) = text.split_once('\n').unwrap();
        let (name, _) = row.split_once(',').unwrap();
        format!("{name},sha256=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA,7\n{rest}")
    };
    let report = bench.audit(&[record(other)], &deep);
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((finding.code, finding.subject.as_str()), (Code::Record, "hash"));
    let report = bench.audit(&[record(other)], &Options::default());
    assert_eq!(report.findings[0].subject, "size", "without the hashes");
    // No row has RECORD's own hash, and signatures have none.
    let bare: fn(String) -> String =
        |text| text.lines().map(|line| format!("{},,\n", line.split(',').next().unwrap())).collect();
    let finding = bench.one(&[record(bare)], "RW017 warning");
    assert_eq!(finding.message, "RECORD has no hash for 3 of 4 files");
    assert_eq!(found(|text| text.replace("sha256=", "md5=")), ["RW017 warning"]);
}

#[test]
fn rw018_paths_that_are_too_long() {
    let bench = Bench::new();
    let long = format!("demo/{}/{}.py", "a".repeat(100), "b".repeat(90));
    let finding = bench.one(&[pack("demo-1.0", "py3-none-any").with(&long, "")], "");
    let below = format!("Lib/site-packages/{long}").len();
    assert_eq!((finding.code.text(), finding.subject.clone()), ("RW018", (259 - below - 1).to_string()));
    assert!(finding.message.contains(&format!("is {below} characters long")), "{finding:?}");
    let linux = || demo().with(&long, "");
    assert_eq!(bench.found(&[linux()]), NONE);
    let options = Options { extras: [ExtraCheck::WindowsPaths].into(), ..Options::default() };
    assert_eq!(said(&bench.audit(&[linux()], &options)), ["RW018 warning"]);
    assert_eq!(
        bench.found(&[pack("demo-1.0", "py3-none-any").with("demo/a.py", "").with("demo/A.py", "")]),
        ["RW018 warning"]
    );
    assert_eq!(bench.found(&[demo().with("demo/a.py", "").with("demo/A.py", "")]), NONE);
    assert_eq!(bench.found(&[demo().with(&"n".repeat(256), "")]), ["RW018 error"]);
}

#[test]
fn rw023_files_that_are_not_what_they_are_called() {
    let bench = Bench::new();
    let library = bench.library("libx.so", "", &[]);
    let found = |name: &str, bytes: &[u8]| bench.found(&[demo().with(name, bytes)]);
    assert_eq!(found("demo/libx.so", &library), NONE);
    assert_eq!(found("demo/libx.so", &library[..library.len() / 2]), ["RW023 error"]);
    assert_eq!(found("demo/libx.so", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), ["RW023 error"]);
    assert_eq!(found("demo/libx.so.1", b""), ["RW023 error"]);
    assert_eq!(found("demo/libx.so", b"libx.so.1\n"), ["RW023 error"]);
    assert_eq!(found("demo/libx.so", b"/* GNU ld script */\nINPUT(libx.so.1)\n"), NONE);
    assert_eq!(found("demo/libx.so", b"\xcf\xfa\xed\xfe\0\0"), NONE, "a library for macOS");
    assert_eq!(found("demo/x.so.txt", b"text"), NONE);
    // Python reads none of what linkers read in place of a library.
    let mut object = library.clone();
    object[16] = 1;
    let mut core = library.clone();
    core[16] = 4;
    for bytes in [&object[..], &core, b"INPUT(libx.so.1)\n", b"!<arch>\n", b"MZ", &bench.dll(&[])] {
        let module = found("demo/_m.cpython-312-x86_64-linux-gnu.so", bytes);
        assert_eq!(module, ["RW023 error"], "{:?}", &bytes[..2]);
    }
    assert_eq!(found("demo/.debug/x.so", &object), NONE);
    for bytes in [&b"import os\n"[..], b"", b"!<arch>\n", &object] {
        let wheel = pack("demo-1.0", "cp312-cp312-win_amd64").with("demo/__init__.py", "");
        assert_eq!(bench.found(&[wheel.with("demo/_m.cp312-win_amd64.pyd", bytes)]), ["RW023 error"]);
    }
}

#[test]
fn findings_can_be_ignored_and_are_counted() {
    let bench = Bench::new();
    let wheel = pack("demo-1.0", "py3-none-any").with("demo/__init__.py", "").with("tests/__init__.py", "");
    let options = Options { ignore: [Code::StrayPackage].into(), ..Options::default() };
    let report = bench.audit(&[wheel], &options);
    assert_eq!((said(&report), report.ignored["RW014"]), (Vec::new(), 1));
}

/// Device packages as `rocwheel package` and upstream's script make them.
#[test]
fn rw036_code_for_a_generic_target_that_no_target_brings() {
    let bench = Bench::new();
    let device = |target: &str, libraries: &[&str]| {
        let stem = format!("rocm_sdk_device_{}-7.0", target.replace('-', "_"));
        libraries.iter().fold(pack(&stem, "py3-none-any"), |wheel, library| {
            wheel.with(&format!("_rocm_sdk_libraries/.kpack/{library}_{target}.kpack"), "")
        })
    };
    let generic = || device("gfx12-generic", &["rand"]);
    let libraries = |extra: &str| {
        let required = format!("rocm-sdk-device-gfx12-generic==7.0; extra == '{extra}'");
        pack("rocm_sdk_libraries-7.0", "py3-none-any").providing(extra).requiring(&required)
    };
    let finding = bench.one(&[device("gfx1201", &["blas"]), generic()], "");
    assert_eq!((finding.code.text(), finding.subject.as_str()), ("RW036", "rocm-sdk-device-gfx12-generic"));
    let fix = finding.fix.as_ref().unwrap().command();
    assert!(fix.contains("gfx1201-7.0") && fix.ends_with("--requires rocm-sdk-device-gfx12-generic==7.0"), "{fix}");
    for (what, packs) in [
        ("no target that runs it", vec![generic()]),
        ("a target of another generation", vec![device("gfx1100", &["blas"]), generic()]),
        ("the target has its own code", vec![device("gfx1201", &["blas", "rand"]), generic()]),
        (
            "the target's package requires it",
            vec![device("gfx1201", &["blas"]).requiring("rocm-sdk-device-gfx12-generic==7.0"), generic()],
        ),
        ("an extra for the target requires it", vec![device("gfx1201", &[]), generic(), libraries("device-gfx1201")]),
    ] {
        assert_eq!(bench.found(&packs), NONE, "{what}");
    }
    let others = [device("gfx1201", &[]), generic(), libraries("device-gfx1200")];
    assert_eq!(bench.found(&others), ["RW036 warning"], "the extra is for another target");
}
