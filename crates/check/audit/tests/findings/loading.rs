//! Libraries, symbols and requirements.

use rocwheel_audit::finding::Finding;
use rocwheel_audit::report::LoadAnswer;
use rocwheel_audit::{Fix, Options};

use crate::fixture::{Bench, demo, pack, said};

const MODULE: &str = "demo/_m.cpython-312-x86_64-linux-gnu.so";
const NONE: [&str; 0] = [];

/// A library `libx.so.1` in the bench, for others to link to.
fn libx(bench: &Bench) -> Vec<u8> {
    bench.library("libx.so.1", "int x(void) { return 1; }", &["-Wl,-soname,libx.so.1"])
}

#[test]
fn rw001_a_library_that_nobody_has() {
    let bench = Bench::new();
    let libx = libx(&bench);
    let module = bench.module("", &["-l:libx.so.1", "-Wl,-rpath,$ORIGIN/../demo.libs"]);
    let lacking = demo().with(MODULE, &module);
    let report = bench.audit(std::slice::from_ref(&lacking), &Options::default());
    let finding = &report.findings[0];
    assert_eq!((finding.code.text(), finding.severity.name()), ("RW001", "error"));
    assert_eq!(finding.message, "needs `libx.so.1`, which no wheel of the set brings and no system promises");
    assert_eq!((finding.file.as_deref(), finding.subject.as_str()), (Some(MODULE), "libx.so.1"));
    assert!(finding.fix.as_ref().unwrap().command().starts_with("rocwheel repair "), "{finding:?}");
    assert_eq!(bench.found(&[lacking.clone().with("demo.libs/libx.so.1", &libx)]), NONE);
    // The file exists, but no search path leads to it.
    assert_eq!(bench.found(&[lacking.clone().with("demo/other/libx.so.1", &libx)]), ["RW001 warning"]);
    // A requirement that no table knows could bring it.
    let lacking = [lacking.requiring("something")];
    assert_eq!(bench.found(&lacking), ["RW001 warning"]);
    // The command asks first; nothing should change before the answer.
    let report = bench.audit(&lacking, &Options::default());
    let fix = report.findings[0].fix.as_ref().unwrap();
    assert!(fix.is_question() && fix.command().ends_with(".whl --with index"), "{fix:?}");
    let remedies = rocwheel_audit::Remedies::of(&report.findings);
    assert_eq!((remedies.fixed, report.to_decide.len(), remedies.commands().len()), (0, 1, 0));
}

/// As in PySide6: the program that loads a plug-in has loaded the library before.
#[test]
fn a_library_that_the_host_of_a_plug_in_has_loaded_is_a_note() {
    let bench = Bench::new();
    let libx = libx(&bench);
    let plugin = bench.library("libplugin.so", "int x(void); int y(void) { return x(); }", &["-l:libx.so.1"]);
    let alone = demo().with("demo/Qt/lib/libx.so.1", &libx).with("demo/Qt/plugins/imageformats/libplugin.so", &plugin);
    assert_eq!(bench.found(std::slice::from_ref(&alone)), ["RW001 warning"]);
    let module = bench.module("", &["-l:libx.so.1", "-Wl,-rpath,$ORIGIN/Qt/lib"]);
    let finding = bench.one(&[alone.with(MODULE, &module)], "RW001 note");
    assert!(finding.message.contains("the program that loads this plug-in may have loaded it before"), "{finding:?}");
}

#[test]
fn what_is_given_and_lacks_a_library_does_not_bring_it() {
    let bench = Bench::new();
    for name in ["libc10_hip.so", "librocblas.so.5"] {
        bench.library(name, "int x(void) { return 1; }", &[&format!("-Wl,-soname,{name}")]);
    }
    let torch = pack("torch-2.9", "cp312-cp312-manylinux_2_34_x86_64").with("torch/__init__.py", "").beside();
    let extension = demo()
        .with(MODULE, bench.module("", &["-l:libc10_hip.so"]))
        .with("demo/a.py", "import torch")
        .requiring("torch");
    let finding = bench.one(&[extension.clone(), torch], "RW001 error");
    assert_eq!(finding.message, "needs `libc10_hip.so` of PyTorch; `torch` is in the set and does not have it");
    assert_eq!(bench.found(&[extension]), ["RW025 note"]);
    // Another part of ROCm is present than the one that contains the library.
    let sdk = |name: &str| pack(name, "py3-none-manylinux_2_34_x86_64").with("rocm_sdk_x/__init__.py", "").beside();
    let rocblas = demo()
        .with(MODULE, bench.module("", &["-l:librocblas.so.5"]))
        .with("demo/a.py", "import rocm_sdk_x")
        .requiring("rocm-sdk-core");
    assert_eq!(bench.found(std::slice::from_ref(&rocblas)), ["RW025 note"]);
    assert_eq!(bench.found(&[rocblas.clone(), sdk("rocm_sdk_core-7.1")]), ["RW012 error"]);
    let both = rocblas.requiring("rocm-sdk-libraries");
    let report = bench.audit(&[both, sdk("rocm_sdk_core-7.1"), sdk("rocm_sdk_libraries-7.1")], &Options::default());
    let broken = report.findings.iter().find(|finding| finding.code.text() == "RW001");
    assert!(
        broken.is_some_and(|finding| finding
            .message
            .ends_with("`rocm-sdk-libraries` is in the set and does not have it")),
        "{report:?}"
    );
}

/// Each package of Qt 5 has its own, and the parts of PySide6 require each other.
#[test]
fn rw012_only_a_requirement_that_is_right_is_proposed() {
    let bench = Bench::new();
    for (stem, library, proposed) in [
        ("demo-1.0", "libQt5Core.so.5", None),
        ("demo-1.0", "libQt6Core.so.6", Some("--requires 'PySide6==6.*'")),
        ("demo-1.0", "libQt6Charts.so.6", Some("--requires 'PySide6==6.*'")),
        ("PySide6_Addons-6.8.0", "libQt6Core.so.6", None),
    ] {
        bench.library(library, "int q(void) { return 1; }", &[&format!("-Wl,-soname,{library}")]);
        let module = bench.module("", &[&format!("-l:{library}")]);
        let wheel = pack(stem, "cp312-cp312-manylinux_2_34_x86_64").with(MODULE, &module);
        let report = bench.audit(&[wheel], &Options::default());
        let finding = report.findings.iter().find(|finding| finding.subject == library).unwrap();
        let command = finding.fix.as_ref().map(|fix| fix.command().to_owned());
        assert_eq!(command.is_some(), proposed.is_some(), "{stem} {library}: {command:?}");
        assert!(proposed.is_none_or(|proposed| command.unwrap().ends_with(proposed)));
    }
}

/// `cuda-toolkit` has its libraries behind extras, and each of its releases has others.
#[test]
fn rw012_a_requirement_on_cuda_has_the_extras_and_the_release_of_its_libraries() {
    let bench = Bench::new();
    let wheel = |libraries: &[&str]| {
        for library in libraries {
            bench.library(library, "int q(void) { return 1; }", &[&format!("-Wl,-soname,{library}")]);
        }
        let links: Vec<String> = libraries.iter().map(|library| format!("-l:{library}")).collect();
        demo().with(MODULE, bench.module("", &links.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    for (libraries, proposed) in [
        (&["libcublas.so.12", "libcublasLt.so.12", "libcudart.so.12"][..], Ok("cuda-toolkit[cublas,cudart]==12.*")),
        (&["libcudart.so.11.0"], Ok("cuda-toolkit[cudart]==11.*")),
        (&["libcusparse.so.12"], Ok("cuda-toolkit[cusparse]>=12,<14")),
        (&["libcusparse.so.12", "libcufft.so.12"], Ok("cuda-toolkit[cufft,cusparse]==13.*")),
        (&["libcublas.so.12", "libcudnn.so.9"], Ok("nvidia-cudnn-cu12==9.*")),
        (&["libcudnn.so.9"], Err("which major version of CUDA the wheel is for")),
        (
            &["libcublas.so.11", "libcublas.so.12"],
            Err(
                "its files need `libcublas.so.11` of CUDA 11 and `libcublas.so.12` of CUDA 12, and no requirement brings both",
            ),
        ),
        (&["libcufft.so.9"], Err("no version of `cuda-toolkit` is known to have `libcufft.so.9`")),
    ] {
        let report = bench.audit(&[wheel(libraries)], &Options::default());
        let finding = report.findings.last().unwrap();
        assert_eq!(finding.code.text(), "RW012", "{report:?}");
        let commands: Vec<&str> =
            report.findings.iter().filter_map(|finding| Some(finding.fix.as_ref()?.command())).collect();
        match proposed {
            Ok(proposed) => {
                let option = format!("--requires '{proposed}'");
                assert!(commands.iter().any(|command| command.ends_with(&option)), "{commands:?}");
                // What is proposed is then what brings the library.
                let report = bench.audit(&[wheel(libraries).requiring(proposed)], &Options::default());
                let of_it = |finding: &&Finding| proposed.starts_with(finding.depends_on.concat().as_str());
                let left = report.findings.iter().find(|finding| finding.code.text() == "RW025" && of_it(finding));
                assert!(left.is_some(), "{report:?}");
            }
            Err(decision) => assert_eq!((commands, finding.decision.as_deref()), (vec![], Some(decision))),
        }
    }
}

/// The files of a requirement that was not given are known by the major version in their names.
#[test]
fn rw030_a_requirement_that_brings_another_cuda() {
    let bench = Bench::new();
    for library in ["libcublas.so.12", "libcudnn.so.9"] {
        bench.library(library, "int q(void) { return 1; }", &[&format!("-Wl,-soname,{library}")]);
    }
    let wheel = |library: &str| demo().with(MODULE, bench.module("", &[&format!("-l:{library}")]));
    for (library, requirement, message, fixed) in [
        ("libcublas.so.12", "cuda-toolkit[cublas]>=12", None, None),
        ("libcublas.so.12", "cuda-toolkit[all]<13", None, None),
        ("libcublas.so.12", "nvidia-cublas-cu12", None, None),
        ("libcudnn.so.9", "nvidia-cudnn-cu12>=9.1", None, None),
        ("libcublas.so.12", "torch", None, None),
        (
            "libcublas.so.12",
            "cuda-toolkit",
            Some(" of CUDA, and METADATA requires `cuda-toolkit` without the extra `cublas`, which brings it"),
            Some("--replace-requires 'cuda-toolkit[cublas]==12.*'"),
        ),
        (
            "libcublas.so.12",
            "cuda-toolkit[cublas]==13.*",
            Some(" of CUDA 12, and METADATA requires `cuda-toolkit[cublas]==13.*`"),
            Some("--replace-requires 'cuda-toolkit[cublas]==12.*'"),
        ),
        (
            "libcublas.so.12",
            "nvidia-cublas-cu11",
            Some(" of CUDA 12, and METADATA requires `nvidia-cublas-cu11`"),
            None,
        ),
        (
            "libcudnn.so.9",
            "nvidia-cudnn-cu12<9",
            Some(" of cuDNN 9, and METADATA requires `nvidia-cudnn-cu12<9`"),
            None,
        ),
    ] {
        let report = bench.audit(&[wheel(library).requiring(requirement)], &Options::default());
        let [finding] = &report.findings[..] else { panic!("{requirement}: {report:?}") };
        let expected = message.map_or_else(|| "RW025 note".to_owned(), |_| "RW030 error".to_owned());
        assert_eq!(said(&report), [expected], "{requirement}: {report:?}");
        if let Some(message) = message {
            assert_eq!(finding.message, format!("needs `{library}`{message}"));
            let command = finding.fix.as_ref().map(Fix::command);
            assert_eq!(command.is_some(), fixed.is_some(), "{finding:?}");
            assert!(fixed.is_none_or(|fixed| command.unwrap().ends_with(fixed)), "{finding:?}");
        }
    }
}

#[test]
fn rw030_a_requirement_on_another_release_of_rocm() {
    let bench = Bench::new();
    bench.library("libamdhip64.so.7", "int x(void) { return 1; }", &["-Wl,-soname,libamdhip64.so.7"]);
    let extension =
        demo().with(MODULE, bench.module("", &["-l:libamdhip64.so.7"])).with("demo/a.py", "import rocm_sdk");
    for (requirement, found) in [
        ("rocm", "RW025 note"),
        ("rocm[libraries]>=6.4", "RW025 note"),
        ("rocm~=7.1.0", "RW025 note"),
        ("torch<3", "RW025 note"),
        ("rocm==7.12.0.dev0", "RW025 note"),
        ("rocm==7.12.0a20251101", "RW025 note"),
        ("rocm[libraries]==7.10.0.dev0+abcd", "RW025 note"),
        ("rocm>=7.0rc1", "RW025 note"),
        ("rocm==7.99.*", "RW025 note"),
        ("rocm===7.12.0.dev0", "RW025 note"),
        ("rocm==8.0.0.dev0", "RW030 error"),
        ("rocm==6.4.0a20251101", "RW030 error"),
        ("rocm==6.*", "RW030 error"),
        ("rocm==10.*", "RW025 note"),
        ("rocm==10.1.0", "RW025 note"),
        ("rocm>=11", "RW030 error"),
        ("rocm<7", "RW030 error"),
    ] {
        assert_eq!(bench.found(&[extension.clone().requiring(requirement)]), [found], "{requirement}");
    }
    let finding = bench.one(&[extension.requiring("rocm[libraries] (<7)")], "");
    assert_eq!(finding.message, "needs `libamdhip64.so.7` of ROCm 7, and METADATA requires `rocm[libraries] (<7)`");
    let command = finding.fix.as_ref().unwrap().command();
    assert!(command.contains("--replace-requires 'rocm[libraries]==7.*'"), "{command}");
    // No index has packages of ROCm 6.
    bench.library("libamdhip64.so.6", "int x(void) { return 1; }", &["-Wl,-soname,libamdhip64.so.6"]);
    let older = demo().with(MODULE, bench.module("", &["-l:libamdhip64.so.6"])).with("demo/a.py", "import rocm_sdk");
    let report = bench.audit(&[older.clone().requiring("rocm>=7")], &Options::default());
    assert_eq!((report.findings[0].code.text(), &report.findings[0].fix), ("RW030", &None));
    let report = bench.audit(&[older], &Options::default());
    assert_eq!((report.findings[0].code.text(), &report.findings[0].fix), ("RW012", &None));
    let decision = report.findings[0].decision.as_deref().unwrap();
    assert!(decision.contains("it is for ROCm 6.*, of which no index has a release"), "{decision}");
}

#[test]
fn rw002_a_library_that_only_the_build_machine_has() {
    let bench = Bench::new();
    let libx = libx(&bench);
    let module = bench.module("", &["-l:libx.so.1", "-Wl,-rpath,/opt/x/lib:$ORIGIN"]);
    let wheel = demo().with(MODULE, &module);
    assert_eq!(bench.found(std::slice::from_ref(&wheel)), ["RW002 error", "RW003 warning"]);
    assert_eq!(bench.found(&[wheel.with("demo/libx.so.1", &libx)]), ["RW003 warning"]);
}

#[test]
fn rw003_search_paths_that_leave_the_environment() {
    let bench = Bench::new();
    for (path, good) in [
        ("$ORIGIN/../demo.libs:${ORIGIN}", true),
        ("/home/somebody/lib", false),
        ("$ORIGIN:", false),
        ("lib", false),
        ("$ORIGIN/../../../../../../x", false),
    ] {
        for tag in ["--enable-new-dtags", "--disable-new-dtags"] {
            let module = bench.module("", &[&format!("-Wl,-rpath,{path}"), &format!("-Wl,{tag}")]);
            let expected: &[&str] = if good { &[] } else { &["RW003 warning"] };
            assert_eq!(bench.found(&[demo().with(MODULE, &module)]), expected, "{path}");
        }
    }
    // Two files with one fault are one finding, and the command keeps the good entries.
    let module = bench.module("", &["-Wl,-rpath,/home/me/lib:$ORIGIN/lib"]);
    let wheel = demo().with(MODULE, &module).with("demo/_n.cpython-312-x86_64-linux-gnu.so", &module);
    let finding = bench.one(&[wheel], "");
    assert_eq!(finding.related, ["demo/_n.cpython-312-x86_64-linux-gnu.so"]);
    assert!(finding.fix.as_ref().unwrap().command().ends_with("--in-place --drop-absolute-rpath"), "{finding:?}");
}

#[test]
fn rw004_two_libraries_of_one_name() {
    let bench = Bench::new();
    let first = libx(&bench);
    let module = bench.module("", &["-l:libx.so.1", "-Wl,-rpath,$ORIGIN"]);
    let second = bench.library("libx.so.1", "int x(void) { return 2; }", &["-Wl,-soname,libx.so.1"]);
    let one =
        pack("one-1", "cp312-cp312-manylinux_2_34_x86_64").with("one/_m.so", &module).with("one/libx.so.1", &first);
    let other = |library: &[u8]| {
        pack("other-1", "cp312-cp312-manylinux_2_34_x86_64")
            .with("other/_m.so", &module)
            .with("other/libx.so.1", library)
    };
    let finding = bench.one(&[one.clone(), other(&second)], "RW004 warning");
    assert_eq!(finding.related, ["other/libx.so.1"]);
    assert_eq!(bench.found(&[one.clone(), other(&first)]), NONE, "the same content");
    // A name with a hash is a different name.
    let hashed = bench.library("libx-0a1b2c3d.so.1", "int x(void) { return 2; }", &["-Wl,-soname,libx-0a1b2c3d.so.1"]);
    let module = bench.module("", &["-l:libx-0a1b2c3d.so.1", "-Wl,-rpath,$ORIGIN"]);
    let grafted = pack("other-1", "cp312-cp312-manylinux_2_34_x86_64")
        .with("other/_m.so", &module)
        .with("other/libx-0a1b2c3d.so.1", &hashed);
    assert_eq!(bench.found(&[one, grafted]), NONE);
}

/// PyTorch 2.15 for CUDA has a `libgfortran.so.5` that lacks `libquadmath.so.0`, and no file of it
/// is linked to that.
#[test]
fn rw001_a_library_that_no_file_opens() {
    let bench = Bench::new();
    libx(&bench);
    let library =
        |name: &str| bench.library(name, "int y(void) { return 2; }", &["-Wl,--no-as-needed", "-l:libx.so.1"]);
    let module = bench.module("", &[]);
    let with = |name: &str| demo().with(MODULE, &module).with(&format!("demo.libs/{name}"), library(name));
    let report = bench.audit(&[with("libleft.so.5")], &Options::default());
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((finding.code.text(), finding.severity.name()), ("RW001", "warning"));
    assert!(finding.message.ends_with("; nothing of the set is seen to load the file"), "{}", finding.message);
    assert!(!finding.decides && report.verdict().answer == LoadAnswer::Loads, "{report:?}");
    // A plug-in that a program opens by a name that it makes.
    assert_eq!(bench.found(&[with("libplugin.so")]), ["RW001 warning"]);
    // One of which Python code computes the name, one that it names, and one that a file is linked
    // to.
    let computed = "import ctypes\ndef load(name):\n    return ctypes.CDLL(f'{FOLDER}/{name}')\n";
    assert_eq!(bench.found(&[with("libplugin.so").with("demo/__init__.py", computed)]), ["RW001 error"]);
    let named =
        "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), '..', 'demo.libs', 'libleft.so.5'))\n";
    assert_eq!(bench.found(&[with("libleft.so.5").with("demo/__init__.py", named)]), ["RW001 error"]);
    let linked = bench.module("", &["-Wl,--no-as-needed", "-l:libleft.so.5", "-Wl,-rpath,$ORIGIN/../demo.libs"]);
    let pack = demo().with(MODULE, &linked).with("demo.libs/libleft.so.5", library("libleft.so.5"));
    assert_eq!(bench.found(&[pack]), ["RW001 error"]);
}

#[test]
fn rw005_symbols_that_nobody_defines() {
    let bench = Bench::new();
    let uses = |what: &str, arguments: &[&str]| {
        bench.module(&format!("extern int {what}(void); int use(void) {{ return {what}(); }}"), arguments)
    };
    let wheel = |module: &[u8]| demo().with(MODULE, module);
    let open = uses("pool_open", &[]);
    let report = bench.audit(&[wheel(&open)], &Options::default());
    assert_eq!(report.findings[0].message, "uses `pool_open`, which nothing that it loads defines");
    assert_eq!(bench.found(&[wheel(&open)]), ["RW005 error"]);
    assert_eq!(bench.found(&[wheel(&open).requiring("something")]), ["RW005 warning"]);
    // The message names the first symbols, the finding all of them.
    let several = (0..5).map(|n| format!("extern int pool_{n}(void); int use_{n}(void) {{ return pool_{n}(); }}"));
    let finding = bench.one(&[wheel(&bench.module(&several.collect::<String>(), &[]))], "");
    assert!(finding.message.contains("`pool_0`, `pool_1`, `pool_2` and 2 more, which"), "{finding:?}");
    assert_eq!(finding.names, ["pool_0", "pool_1", "pool_2", "pool_3", "pool_4"]);
    assert_eq!(finding.related, NONE);
    let required = ["one", "two", "three", "four"];
    let wheel_of_many = required.iter().fold(wheel(&open), |wheel, name| wheel.requiring(name));
    let report = bench.audit(&[wheel_of_many], &Options::default());
    assert!(report.findings[0].message.ends_with("`four`, `one`, `three`, `two` were not given"), "{report:?}");
    // The interpreter, glibc without a link to it, a loaded library, and weak references all define
    // symbols.
    assert_eq!(bench.found(&[wheel(&uses("PyErr_Occurred", &[]))]), NONE);
    assert_eq!(bench.found(&[wheel(&uses("getpid", &["-nostdlib"]))]), NONE);
    let libx = libx(&bench);
    let linked = uses("x", &["-l:libx.so.1", "-Wl,-rpath,$ORIGIN"]);
    assert_eq!(bench.found(&[wheel(&linked).with("demo/libx.so.1", &libx)]), NONE);
    let weak = bench.module("extern int y(void) __attribute__((weak)); int use(void) { return y ? y() : 0; }", &[]);
    assert_eq!(bench.found(&[wheel(&weak)]), NONE);
    // libtorch.so of torch 2.11 is linked to libstdc++ through libtorch_cpu.so only, so what it
    // needs of libstdc++ has no versions.
    let cpp = bench.library("libcpp.so.1", "", &["-Wl,--no-as-needed,-soname,libcpp.so.1", "-l:libstdc++.so.6"]);
    let needs = |symbol: &str| uses(symbol, &["-Wl,--no-as-needed", "-l:libcpp.so.1", "-Wl,-rpath,$ORIGIN"]);
    let with_cpp = |symbol: &str| wheel(&needs(symbol)).with("demo/libcpp.so.1", &cpp);
    assert_eq!(bench.found(&[with_cpp("_ZNSt8ios_base4InitC1Ev")]), NONE);
    assert_eq!(bench.found(&[with_cpp("_ZN4pool4openEv")]), ["RW005 error"]);
    assert_eq!(bench.found(&[wheel(&uses("_ZNSt8ios_base4InitC1Ev", &[]))]), ["RW005 error"]);
    // A plugin gets its symbols from the program that loads it, whichever that is.
    let plugin = bench.library("plugin.so", "extern int host(void); int use(void) { return host(); }", &[]);
    assert_eq!(bench.found(&[demo().with("demo/libplugin.so", &plugin)]), NONE);
    assert_eq!(bench.found(&[demo().with("demo/plugin.so", &plugin)]), NONE, "no module without PyInit_plugin");
    // A system library without versions could define any symbol.
    let expat = bench.library("libexpat.so.1", "", &["-Wl,-soname,libexpat.so.1"]);
    assert!(!expat.is_empty());
    assert_eq!(bench.found(&[wheel(&uses("XML_Anything", &["-l:libexpat.so.1"]))]), NONE);
}

#[test]
fn rw006_versions_that_a_library_lacks() {
    let bench = Bench::new();
    bench.write("old.map", "V_1 { global: x; };");
    bench.write("new.map", "V_1 { global: y; };\nV_2 { global: x; } V_1;");
    let source = "int x(void) { return 1; } int y(void) { return 2; }";
    let soname = "-Wl,-soname,libx.so.1";
    let old = bench.library("libx.so.1", source, &[soname, "-Wl,--version-script,old.map"]);
    let plain = bench.library("libx.so.1", source, &[soname]);
    let new = bench.library("libx.so.1", source, &[soname, "-Wl,--version-script,new.map"]);
    let module =
        bench.module("extern int x(void); int use(void) { return x(); }", &["-l:libx.so.1", "-Wl,-rpath,$ORIGIN"]);
    let wheel = |library: &[u8]| demo().with(MODULE, &module).with("demo/libx.so.1", library);
    let found = bench.found(&[wheel(&old)]);
    assert!(found.contains(&"RW006 error".to_owned()), "{found:?}");
    assert_eq!(bench.found(&[wheel(&plain)]), ["RW006 warning"]);
    assert_eq!(bench.found(&[wheel(&new)]), NONE);
}

#[test]
fn rw012_and_rw025_requirements_that_bring_libraries() {
    let bench = Bench::new();
    bench.library("libtorch.so", "", &["-Wl,-soname,libtorch.so"]);
    bench.library("libamdhip64.so.7", "", &["-Wl,-soname,libamdhip64.so.7"]);
    let torch = demo().with(MODULE, bench.module("", &["-l:libtorch.so"]));
    let report = bench.audit(std::slice::from_ref(&torch), &Options::default());
    let finding = &report.findings[0];
    assert_eq!((finding.code.text(), finding.severity.name()), ("RW012", "error"));
    assert!(finding.fix.as_ref().unwrap().command().ends_with("--in-place --requires torch"), "{finding:?}");
    assert_eq!(bench.found(&[torch.clone().requiring("torch>=2.6")]), ["RW025 note"]);
    assert_eq!(bench.found(&[torch.clone().requiring("numpy")]), ["RW012 error"]);
    assert_eq!(bench.found(&[torch.clone().requiring("unknown")]), ["RW012 warning"]);
    assert_eq!(bench.found(&[torch.clone().providing("gpu").requiring("torch; extra == 'gpu'")]), ["RW012 warning"]);
    // The GPU code of this wheel itself, although the name looks like an extension of torch.
    let host =
        pack("torch_x-1.0", "cp312-cp312-manylinux_2_34_x86_64").with(MODULE, bench.module("", &["-l:libtorch.so"]));
    let device = "torch-x-device-gfx942 == 1.0; extra == 'device-gfx942'";
    assert_eq!(bench.found(&[host.providing("device-gfx942").requiring(device)]), ["RW012 error"]);
    let hip = demo().with(MODULE, bench.module("", &["-l:libamdhip64.so.7"]));
    assert_eq!(bench.found(std::slice::from_ref(&hip)), ["RW012 error"]);
    assert_eq!(bench.found(&[hip.requiring("torch")]), ["RW025 note"], "torch brings ROCm");
    bench.library("libcudart.so.12", "", &["-Wl,-soname,libcudart.so.12"]);
    let both = demo().with(MODULE, bench.module("", &["-l:libtorch.so", "-l:libcudart.so.12"]));
    let report = bench.audit(std::slice::from_ref(&both), &Options::default());
    assert_eq!(report.findings.len(), 2, "one for each owner");
    assert!(
        report.findings.iter().all(|finding| finding.fix.as_ref().unwrap().command().ends_with("--requires torch"))
    );
    // The set has the library. The finding depends on whether the wheel requires the other one, and
    // whether the import of the other one loads it.
    let library = bench.library("libtorch.so", "", &["-Wl,-soname,libtorch.so"]);
    // PyTorch itself gets no requirement on PyTorch, however its files need each other.
    let needs_both = ["-l:libtorch.so", "-l:libamdhip64.so.7", "-Wl,-rpath,$ORIGIN/lib"];
    let own = pack("torch-2.7.0+rocm7.2", "cp312-cp312-manylinux_2_34_x86_64").with("torch/lib/libtorch.so", &library);
    let own = own.with("torch/_C.cpython-312-x86_64-linux-gnu.so", bench.module("", &needs_both));
    let report = bench.audit(&[own], &Options::default());
    let commands: Vec<&str> =
        report.findings.iter().filter_map(|finding| Some(finding.fix.as_ref()?.command())).collect();
    assert!(report.findings.iter().any(|finding| finding.code.text() == "RW012"), "{report:?}");
    assert!(commands.iter().all(|command| !command.contains("--requires torch")), "{commands:?}");
    let loads = bench.module("", &["-l:libtorch.so", "-Wl,-rpath,$ORIGIN/lib"]);
    let other = pack("torch-2.6", "cp312-cp312-manylinux_2_34_x86_64").with("torch/lib/libtorch.so", &library).beside();
    let imported = other.clone().with("torch/_C.cpython-312-x86_64-linux-gnu.so", &loads);
    assert_eq!(bench.found(&[torch.clone(), imported.clone()]), ["RW012 error"]);
    assert_eq!(bench.found(&[torch.clone().requiring("torch"), imported]), NONE);
    assert_eq!(
        bench.found(&[torch.clone().requiring("torch"), other.clone()]),
        ["RW001 error"],
        "nothing loads it before"
    );
    let old = pack("demo-1.0", "py3-none-any").requiring("torch<2.6");
    assert_eq!(bench.found(&[old, other.clone()]), ["RW012 error", "RW013 note"], "another version");
    assert_eq!(
        bench.found(&[pack("demo-1.0", "py3-none-any").with("demo.py", "import torch").requiring("torch>=2.6"), other]),
        NONE
    );
}

#[test]
fn rw013_requirements_that_nothing_needs() {
    let bench = Bench::new();
    let other = pack("other_thing-1", "py3-none-any").with("thing/__init__.py", "").beside();
    let wheel = |text: &str| pack("demo-1.0", "py3-none-any").with("demo/__init__.py", text).requiring("other-thing");
    assert_eq!(bench.found(&[wheel("import os\n"), other.clone()]), ["RW013 note"]);
    assert_eq!(bench.found(&[wheel("import thing\n"), other.clone()]), NONE);
    assert_eq!(bench.found(&[wheel("NAME = 'thing.sub'\n"), other]), NONE);
    // Absent distributions are not judged, and a package that only groups requirements is needed
    // for those.
    assert_eq!(bench.found(&[wheel("import os\n")]), NONE);
    let group = pack("other_thing-1", "py3-none-any").requiring("numpy").beside();
    assert_eq!(bench.found(&[wheel("import os\n"), group]), NONE);
}

#[test]
fn rw019_preload_lists_that_have_drifted() {
    const TABLE: &str = include_str!("../../../../../python/rocm/src/rocm_sdk/_dist_info.py");
    let bench = Bench::new();
    let hip = bench.library("libamdhip64.so.7", "", &["-Wl,-soname,libamdhip64.so.7"]);
    let comgr = bench.library("libamd_comgr.so.3", "", &["-Wl,-soname,libamd_comgr.so.3"]);
    let smi = bench.library("librocm_smi64.so.1", "", &["-Wl,-soname,librocm_smi64.so.1"]);
    let module = bench.module("", &["-l:libamdhip64.so.7"]);
    let core = pack("rocm_sdk_core-7.0", "py3-none-manylinux_2_34_x86_64")
        .with("rocm_sdk_core/_dist_info.py", TABLE)
        .with("_rocm_sdk_core/lib/libamdhip64.so.7", &hip)
        .with("_rocm_sdk_core/lib/libamd_comgr.so.3", &comgr)
        .with("_rocm_sdk_core/lib/librocm_smi64.so.1", &smi)
        .beside();
    let wheel = |names: &str| {
        let list = format!("import rocm_sdk\nrocm_sdk.initialize_process(preload_shortnames=[{names}])\n");
        demo().with(MODULE, &module).with("demo/_rocm_init.py", list).requiring("rocm-sdk-core")
    };
    assert_eq!(bench.found(&[wheel("'amd_comgr', 'amdhip64'"), core.clone()]), NONE);
    assert_eq!(bench.found(&[wheel("'amdhip64', 'rocm_smi64'"), core.clone()]), ["RW019 note"]);
    assert_eq!(bench.found(&[wheel("'amdhip64', 'nonsense'"), core.clone()]), ["RW019 error"]);
    assert_eq!(bench.found(&[wheel("'amdhip64', 'hipblas'"), core.clone()]), ["RW019 warning"]);
    let report = bench.audit(&[wheel("'amd_comgr'"), core], &Options::default());
    let lacking = report.findings.iter().find(|finding| finding.subject == "libamdhip64.so.7").unwrap();
    assert_eq!((lacking.code.text(), lacking.severity.name()), ("RW019", "error"));
}

#[test]
fn rw022_libraries_that_are_loaded_by_name() {
    let bench = Bench::new();
    let hip = bench.library("libamdhip64.so.7", "", &["-Wl,-soname,libamdhip64.so.7"]);
    let comgr = bench.library("libamd_comgr.so.3", "", &["-Wl,-soname,libamd_comgr.so.3"]);
    let wheel = pack("hip-7.0", "py3-none-manylinux_2_34_x86_64").with("hip/lib/libamdhip64.so.7", &hip);
    assert_eq!(bench.found(std::slice::from_ref(&wheel)), ["RW022 error"]);
    assert_eq!(bench.found(&[wheel.with("hip/lib/libamd_comgr.so.3", &comgr)]), NONE);
}

#[test]
fn rw028_a_library_of_the_library_path_comes_before_runpath() {
    let bench = Bench::new();
    let libx = libx(&bench);
    let elsewhere = tempfile::tempdir().unwrap();
    fs_err::write(elsewhere.path().join("libx.so.1"), &libx).unwrap();
    let directories = vec![elsewhere.path().to_str().unwrap().to_owned()];
    let machine = rocwheel_loader::simulation::Root::read(std::path::Path::new("/")).unwrap();
    let options =
        Options { library_path: Some(rocwheel_audit::SetLibraryPath { machine, directories }), ..Options::default() };
    let wheel = |tags: &str| {
        let module = bench.module("", &["-l:libx.so.1", "-Wl,-rpath,$ORIGIN", tags]);
        demo().with(MODULE, &module).with("demo/libx.so.1", &libx)
    };
    let report = bench.audit(&[wheel("-Wl,--enable-new-dtags")], &options);
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((finding.code.text(), finding.severity.name()), ("RW028", "warning"));
    let from = elsewhere.path().join("libx.so.1");
    let expected =
        format!("with `LD_LIBRARY_PATH`, `libx.so.1` comes from `{}`, in place of `demo/libx.so.1`", from.display());
    assert_eq!((finding.message.as_str(), finding.file.as_deref()), (expected.as_str(), Some(MODULE)));
    assert_eq!(report.environment.library_path.len(), 1);
    // DT_RPATH comes first, and a library that the folder lacks is not affected.
    assert_eq!(bench.audit(&[wheel("-Wl,--disable-new-dtags")], &options).findings, []);
    fs_err::remove_file(&from).unwrap();
    assert_eq!(bench.audit(&[wheel("-Wl,--enable-new-dtags")], &options).findings, []);
}

#[test]
fn why_keeps_processes_apart() {
    let bench = Bench::new();
    let zlib = bench.library("libz.so.1", "int x(void) { return 1; }", &["-Wl,-soname,libz.so.1"]);
    let module = |path: &[&str]| bench.module("", &[&["-l:libz.so.1"], path].concat());
    let tag = "cp312-cp312-manylinux_2_34_x86_64";
    let own = pack("own-1", tag).with("own/_m.so", module(&["-Wl,-rpath,$ORIGIN"])).with("own/libz.so.1", &zlib);
    let other = pack("other-1", tag).with("other/_m.so", module(&[]));
    let why = bench.why(&[own, other], "libz").unwrap();
    let trees: Vec<(Option<&str>, Vec<Option<&str>>)> = why
        .trees
        .iter()
        .map(|tree| (tree.path.as_deref(), tree.needed_by.iter().map(|user| user.path.as_deref()).collect()))
        .collect();
    // The other wheel gets the system's library, unless `own` was imported first.
    assert_eq!(trees, [(Some("own/libz.so.1"), vec![Some("own/_m.so")]), (None, vec![Some("other/_m.so")])]);
}
