//! Wheels for Windows: DLLs that are not found, and modules for another Python.

use rocwheel_audit::report::AuditReport;
use rocwheel_audit::{Fix, Options};

use crate::fixture::{Bench, Pack, demo, pack, said};

const NONE: [&str; 0] = [];
const HOOK: &str = "import os\nos.add_dll_directory(os.path.join(os.path.dirname(__file__), '..', 'demo.libs'))\n";

/// A wheel for Windows and CPython 3.12.
fn windows() -> Pack {
    pack("demo-1.0", "cp312-cp312-win_amd64")
}

fn audit(bench: &Bench, packs: &[Pack]) -> AuditReport {
    bench.audit(packs, &Options::default())
}

#[test]
fn rw029_dlls_that_windows_does_not_find() {
    let bench = Bench::new();
    let module = bench.dll(&["KERNEL32.dll", "python312.dll", "VCRUNTIME140.dll", "Other.DLL", "nvcuda.dll"]);
    let wheel = || windows().with("demo/_m.cp312-win_amd64.pyd", &module);
    let report = audit(&bench, &[wheel()]);
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((finding.code.text(), finding.severity.name()), ("RW029", "error"));
    assert_eq!((finding.subject.as_str(), finding.file.as_deref()), ("Other.DLL", Some("demo/_m.cp312-win_amd64.pyd")));
    assert_eq!(finding.message, "needs `Other.DLL`, which neither Windows nor a wheel of the set brings");
    assert!(report.notes.is_empty(), "{:?}", report.notes);
    assert_eq!(report.wheels[0].objects, 1);
    // A DLL beside the module is found in any case. The DLLs that it needs in turn are checked too.
    let other = bench.dll(&["KERNEL32.dll"]);
    assert_eq!(bench.found(&[wheel().with("demo/other.dll", &other)]), NONE);
    let deep = bench.dll(&["deeper.dll"]);
    let report = audit(&bench, &[wheel().with("demo/other.dll", &deep)]);
    assert_eq!((said(&report), report.findings[0].subject.as_str()), (vec!["RW029 error".to_owned()], "deeper.dll"));
    // In another folder it is found if code adds that folder.
    let elsewhere = || wheel().with("demo.libs/other.dll", &other);
    let report = audit(&bench, &[elsewhere()]);
    assert_eq!(said(&report), ["RW029 warning"]);
    assert!(report.findings[0].message.contains("no code registers that folder with Windows"), "{report:?}");
    assert_eq!(bench.found(&[elsewhere().with("demo/__init__.py", HOOK)]), NONE);
    // The same holds for indirect imports. A plug-in is loaded into a process that has the library.
    let between = wheel().with("demo/other.dll", bench.dll(&["last.dll"])).with("demo.libs/last.dll", &other);
    assert_eq!(bench.found(&[between]), ["RW029 warning"]);
    let plugin = windows().with("demo/plugins/p.dll", bench.dll(&["host.dll"])).with("demo/bin/host.dll", &other);
    assert_eq!(bench.found(&[plugin]), NONE);
    assert_eq!(bench.found(&[wheel().with("demo/__init__.py", HOOK)]), ["RW029 error"], "there is nothing to name");
    assert_eq!(bench.found(&[wheel().requiring("other-libs")]), ["RW029 warning"], "that may have it");
}

#[test]
fn rw029_runtimes() {
    let bench = Bench::new();
    let report = audit(&bench, &[windows().with("demo/a.dll", bench.dll(&["MSVCP140.dll", "VCOMP140.DLL"]))]);
    assert_eq!(said(&report), ["RW029 note"]);
    assert_eq!(report.findings[0].subject, "MSVCP140.dll, VCOMP140.DLL");
    let debug = bench.dll(&["MSVCP140D.dll", "ucrtbased.dll"]);
    assert_eq!(bench.found(&[windows().with("demo/a.dll", debug)]), ["RW029 error"]);
    let bundled = windows().with("demo/a.dll", bench.dll(&["msvcp140.dll"])).with("demo/MSVCP140.dll", bench.dll(&[]));
    assert_eq!(bench.found(&[bundled]), NONE);
}

#[test]
fn rw012_and_rw025_dlls_of_known_distributions() {
    let bench = Bench::new();
    let module = bench.dll(&["amdhip64_7.dll", "rocblas.dll"]);
    let wheel = || windows().with("demo/_m.pyd", &module);
    let finding = bench.one(&[wheel()], "RW012 error");
    assert_eq!(finding.subject, "amdhip64_7.dll, rocblas.dll");
    assert!(finding.fix.as_ref().unwrap().command().ends_with("--requires 'rocm[libraries]>=7,<11'"), "{finding:?}");
    assert_eq!(bench.found(&[wheel().requiring("rocm[libraries]==7.1")]), ["RW025 note"]);
    // Markers are evaluated for Windows.
    assert_eq!(bench.found(&[wheel().requiring("rocm; sys_platform == 'linux'")]), ["RW012 error"]);
    assert_eq!(bench.found(&[wheel().requiring("rocm; sys_platform == 'win32'")]), ["RW025 note"]);
    // The same in a set with a wheel for Linux.
    let both = [wheel().requiring("rocm; sys_platform == 'win32'"), pack("linux-1", "py3-none-manylinux_2_34_x86_64")];
    assert_eq!(bench.found(&both), ["RW025 note"]);
    // PyTorch brings the ROCm that it was built with.
    let torch = bench.dll(&["c10.dll", "torch_cpu.dll", "amdhip64_7.dll"]);
    let report = audit(&bench, &[windows().with("demo/_m.pyd", torch)]);
    let fixes: Vec<&str> =
        report.findings.iter().filter_map(|finding| finding.fix.as_ref().map(Fix::command)).collect();
    assert_eq!(fixes.len(), 2, "{report:?}");
    assert!(fixes.iter().all(|fix| fix.ends_with("--requires torch")), "{fixes:?}");
    // A wheel of the product itself has to contain it.
    let own =
        pack("PyQt5_Qt5-5.15", "py3-none-win_amd64").with("PyQt5/Qt5/bin/Qt5Quick.dll", bench.dll(&["Qt5Gone.dll"]));
    let report = audit(&bench, &[own]);
    assert_eq!((said(&report), &report.findings[0].fix), (vec!["RW029 error".to_owned()], &None));
    let cuda = windows().with("demo/_m.pyd", bench.dll(&["cudart64_110.dll", "cudnn64_8.dll"]));
    let report = audit(&bench, &[cuda]);
    assert!(report.findings.iter().any(|finding| {
        finding.fix.as_ref().is_some_and(|fix| fix.command().ends_with("--requires 'nvidia-cudnn-cu11==8.*'"))
    }));
}

#[test]
fn dlls_of_other_wheels_of_the_set() {
    let bench = Bench::new();
    let module = bench.dll(&["amdhip64_7.dll"]);
    let core = || {
        let library = bench.dll(&["KERNEL32.dll"]);
        pack("rocm_sdk_core-7.1", "py3-none-win_amd64").with("_rocm_sdk_core/bin/amdhip64_7.dll", library)
    };
    let wheel = || windows().with("demo/_m.pyd", &module);
    let finding = bench.one(&[wheel(), core().beside()], "RW012 error");
    assert!(finding.fix.as_ref().unwrap().command().ends_with("--requires 'rocm[libraries]>=7,<11'"), "{finding:?}");
    let wheel = || wheel().requiring("rocm-sdk-core==7.1");
    assert_eq!(bench.found(&[wheel(), core().beside()]), ["RW029 warning"]);
    let hook = "def initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process(preload_shortnames=[])\n";
    let hooked = wheel().with("demo/_rocm_init.py", hook);
    assert_eq!(bench.found(&[hooked, core().beside()]), NONE);
    // ROCm's own packages are made for each other, and the code that adds their folders is in a
    // source distribution.
    let libraries = pack("rocm_sdk_libraries-7.1", "py3-none-win_amd64")
        .with("_rocm_sdk_libraries/bin/rocblas.dll", &module)
        .requiring("rocm-sdk-core==7.1");
    assert_eq!(bench.found(&[libraries, core()]), NONE, "and the requirement is needed");
}

#[test]
fn wheels_that_are_not_required_say_nothing_of_known_dlls() {
    let bench = Bench::new();
    let plain = || bench.dll(&["KERNEL32.dll"]);
    let other = |name: &str| pack("other-1", "py3-none-win_amd64").with(&format!("other/lib/{name}"), plain()).beside();
    let asking = |library: &str| windows().with("demo/_m.pyd", bench.dll(&[library]));
    // A copy of the runtime in an unrelated wheel is no reason to require that wheel.
    assert_eq!(bench.found(&[asking("MSVCP140.dll"), other("msvcp140.dll")]), ["RW029 note"]);
    // Nor is the CUDA that an unrelated package contains.
    let report = audit(&bench, &[asking("cudart64_12.dll"), other("cudart64_12.dll")]);
    assert_eq!(said(&report), ["RW012 error"]);
    assert!(
        report.findings[0].fix.as_ref().unwrap().command().ends_with("--requires 'cuda-toolkit[cudart]==12.*'"),
        "{report:?}"
    );
    // For a library that no other wheel has, it is a reason.
    let report = audit(&bench, &[asking("special.dll"), other("special.dll")]);
    assert_eq!(said(&report), ["RW012 error"]);
    assert!(report.findings[0].fix.as_ref().unwrap().command().ends_with("--requires other"), "{report:?}");
    assert_eq!(bench.found(&[asking("special.dll").requiring("lost"), other("special.dll")]), ["RW012 warning"]);
    // A runtime in another folder may also come from the machine.
    let bundled = asking("MSVCP140.dll").with("demo.libs/msvcp140.dll", plain());
    assert_eq!(bench.found(&[bundled]), ["RW029 note"]);
}

#[test]
fn libraries_are_loaded_by_who_is_concerned() {
    let bench = Bench::new();
    let other = || pack("other-1", "py3-none-win_amd64").with("other/lib/x.dll", bench.dll(&["KERNEL32.dll"])).beside();
    let third = |code: &str| pack("third-1", "py3-none-any").with("third.py", code).beside();
    let wheel = || {
        windows()
            .with("demo/_m.pyd", bench.dll(&["x.dll"]))
            .with("demo/a.py", "import other, third")
            .requiring("other")
            .requiring("third")
    };
    let loads = "import ctypes\nctypes.CDLL('y.dll')\n";
    assert_eq!(bench.found(&[wheel(), other(), third(loads)]), ["RW029 warning"], "of its own");
    assert_eq!(bench.found(&[wheel(), other().with("other/__init__.py", loads), third("")]), NONE);
    assert_eq!(bench.found(&[wheel().with("demo/b.py", loads), other(), third("")]), NONE);
    assert_eq!(bench.found(&[wheel(), other(), third("import os\nos.add_dll_directory('x')\n")]), NONE);
}

#[test]
fn what_nobody_knows_is_an_error_where_python_loads_it() {
    let bench = Bench::new();
    let lost = bench.dll(&["lost.dll"]);
    assert_eq!(bench.found(&[windows().with("demo/_m.pyd", &lost)]), ["RW029 error"]);
    assert_eq!(bench.found(&[windows().with("demo/plugin.dll", &lost)]), ["RW029 warning"]);
    assert_eq!(bench.found(&[windows().with("demo/tool.exe", &lost)]), ["RW029 warning"]);
    let drivers = ["nvml.dll", "nvcuvid.dll", "nvEncodeAPI64.dll", "nvapi64.dll", "ze_loader.dll"];
    assert_eq!(bench.found(&[windows().with("demo/_m.pyd", bench.dll(&drivers))]), NONE);
    // Names are compared without case, and a file with two dots is not a module.
    assert_eq!(bench.found(&[windows().with("cv2/cv2.cv2.pyd", bench.dll(&["python312.dll"]))]), NONE);
}

#[test]
fn what_is_given_and_lacks_a_dll_does_not_bring_it() {
    let bench = Bench::new();
    let module = bench.dll(&["c10.dll", "c10_hip.dll"]);
    let torch = || pack("torch-2.9", "cp312-cp312-win_amd64").with("torch/lib/c10.dll", bench.dll(&[])).beside();
    let wheel = windows().with("demo/_m.pyd", &module).with("demo/a.py", HOOK).requiring("torch");
    let report = audit(&bench, &[wheel.clone(), torch()]);
    assert_eq!(said(&report), ["RW029 error"]);
    assert_eq!(
        report.findings[0].message,
        "needs `c10_hip.dll` of PyTorch; `torch` is in the set and does not have it"
    );
    assert_eq!(bench.found(&[wheel]), ["RW025 note"]);
}

#[test]
fn rw011_builds_for_windows_that_are_none_of_rocm() {
    let bench = Bench::new();
    let build = |needs: &[&str]| {
        let torch = if needs.is_empty() { "KERNEL32.dll" } else { needs[0] };
        pack("demo-1.0+rocm7.1", "cp312-cp312-win_amd64").with("demo/_m.pyd", bench.dll(&[torch]))
    };
    let codes = |pack: Pack| -> Vec<String> {
        bench.found(&[pack]).into_iter().filter(|said| said.contains("RW011")).collect()
    };
    assert_eq!(codes(build(&["cudart64_12.dll"])), ["RW011 error"]);
    // GPU code for NVIDIA shows a static link to its runtime.
    let mut linked = bench.dll(&["KERNEL32.dll"]);
    let name = linked.windows(8).position(|bytes| bytes == b".rdata\0\0").unwrap();
    linked[name..name + 8].copy_from_slice(b".nv_fatb");
    let linked = pack("demo-1.0+rocm7.1", "cp312-cp312-win_amd64").with("demo/_m.pyd", linked);
    assert_eq!(codes(linked), ["RW011 error"]);
    assert_eq!(codes(build(&[])), ["RW011 warning"]);
    assert_eq!(codes(build(&["amdhip64_7.dll"])), NONE);
    assert_eq!(codes(build(&["amdhip64_7-0123456789abcdef.dll"])), NONE, "as delvewheel names them");
    assert_eq!(codes(build(&["torch_hip.dll"])), NONE);
    assert_eq!(codes(build(&[]).with("demo/kernels.hsaco", "x")), NONE);
}

#[test]
fn modules_for_windows_are_not_for_any_platform() {
    let bench = Bench::new();
    let any = || pack("demo-1.0", "py3-none-any");
    let module = bench.dll(&["python3.dll"]);
    let finding = bench.one(&[any().with("demo/_m.pyd", &module)], "");
    assert!(finding.message.contains("holds compiled files for one"), "{finding:?}");
    assert!(finding.fix.as_ref().unwrap().command().contains("win_amd64"), "{finding:?}");
    assert_eq!(bench.found(&[any().with("demo/_m.pyd", &module).with("demo/_m.dylib", "x")]), NONE);
    let linux = bench.module("", &[]);
    assert_eq!(bench.found(&[any().with("demo/_m.pyd", &module).with("demo/_m.so", linux)]), NONE);
}

#[test]
fn why_knows_dlls() {
    let bench = Bench::new();
    let module = bench.dll(&["Other.DLL", "MSVCP140.dll"]);
    let wheel = windows().with("demo/_m.pyd", &module).with("demo/other.dll", bench.dll(&["deeper.dll"]));
    let why = bench.why(std::slice::from_ref(&wheel), "msvcp140.dll").unwrap();
    assert_eq!((why.trees[0].name.as_str(), why.trees[0].needed_by[0].name.as_str()), ("MSVCP140.dll", "_m.pyd"));
    let why = bench.why(std::slice::from_ref(&wheel), "Deeper.dll").unwrap();
    let other = &why.trees[0].needed_by[0];
    assert_eq!(
        (other.path.as_deref(), other.needed_by[0].path.as_deref()),
        (Some("demo/other.dll"), Some("demo/_m.pyd"))
    );
    let why = bench.why(std::slice::from_ref(&wheel), "OTHER.dll").unwrap();
    assert!(why.trees[0].size > 0 && why.trees[0].needed_by.len() == 1, "{why:?}");
    assert!(bench.why(&[wheel], "nothing.dll").is_none());
}

#[test]
fn a_set_for_two_systems_is_two_sets() {
    let bench = Bench::new();
    let library = bench.dll(&["KERNEL32.dll"]);
    let module = bench.dll(&["x.dll"]);
    let wheel = |requirement: &str| {
        windows().with("demo/_m.pyd", &module).with("demo/a.py", "import dep, between").requiring(requirement)
    };
    // The `dep` of the set is for Linux, so the files of the one for Windows are unknown.
    let dep = || pack("dep-2.0", "cp312-cp312-manylinux_2_34_x86_64").with("dep/__init__.py", "").beside();
    assert_eq!(bench.found(&[wheel("dep"), dep()]), ["RW029 warning"]);
    assert_eq!(bench.found(&[wheel("dep<2"), dep()]), ["RW029 warning"], "nor its version");
    // A package for any system is in between, and its markers are evaluated for Windows.
    let between = pack("between-1", "py3-none-any")
        .with("between.py", "import other")
        .requiring("other; sys_platform == 'win32'")
        .beside();
    let other =
        pack("other-1", "py3-none-win_amd64").with("other/x.dll", &library).with("other/__init__.py", HOOK).beside();
    assert_eq!(bench.found(&[wheel("between"), between, other, dep()]), NONE);
}

#[test]
fn rw010_modules_for_another_python_on_windows() {
    let bench = Bench::new();
    let with = |library: &str| bench.dll(&["KERNEL32.dll", library]);
    let (twelve, eleven, stable) = (with("python312.dll"), with("python311.dll"), with("python3.dll"));
    let found = |pack: Pack| audit(&bench, &[pack]);
    let tagged = |tag: &str| pack("demo-1.0", tag);
    for fine in [
        windows().with("demo/_m.cp312-win_amd64.pyd", &twelve),
        windows().with("demo/_m.pyd", &twelve),
        windows().with("demo/_m.pyd", &stable),
        windows().with("demo/_m.cp311-win_amd64.pyd", &eleven).with("demo/_m.cp312-win_amd64.pyd", &twelve),
        tagged("cp39-abi3-win_amd64").with("demo/_m.pyd", &stable),
        tagged("py3-none-win_amd64").with("demo/_m.pyd", &stable),
        tagged("py3-none-win_amd64").with("demo/_m.pyd", &twelve).with("demo/python312.dll", bench.dll(&[])),
        tagged("cp313-cp313t-win_amd64").with("demo/_m.pyd", with("python313t.dll")),
        tagged("cp37-cp37m-win_amd64").with("demo/_m.cp37-win_amd64.pyd", with("python37.dll")),
        tagged("pp310-pypy310_pp73-win_amd64").with("demo/_m.pypy310-pp73-win_amd64.pyd", with("libpypy3.10-c.dll")),
        windows().with("demo/helper.dll", &eleven),
    ] {
        assert_eq!(said(&found(fine.clone())), NONE, "{:?}", fine.files[0].0);
    }
    for (wrong, subject) in [
        (windows().with("demo/_m.cp311-win_amd64.pyd", &eleven), "cp311"),
        (windows().with("demo/_m.pyd", &eleven), "cp311"),
        (
            windows().with("demo/_m.cp312-win_amd64.pyd", &eleven),
            "cp312 by its name and for cp311 by what it is linked to",
        ),
        (tagged("cp39-abi3-win_amd64").with("demo/_m.pyd", &twelve), "cp312"),
        (windows().with("demo/_m.pyd", with("python313t.dll")), "cp313t"),
    ] {
        let report = found(wrong);
        let [finding] = &report.findings[..] else { panic!("{subject}: {:?}", report.findings) };
        assert_eq!((finding.code.text(), finding.subject.as_str()), ("RW010", subject));
    }
    let debug = found(windows().with("demo/_m.pyd", with("python312_d.dll")));
    let codes: Vec<&str> = debug.findings.iter().map(|finding| finding.code.text()).collect();
    assert_eq!(codes, ["RW010", "RW029"], "{debug:?}");
    assert_eq!(
        debug.findings[0].message,
        "is for a debug build of Python 3.12 only, and the tag of the wheel is `cp312-cp312`"
    );
}

#[test]
fn files_for_windows_that_are_not_judged_or_cannot_be() {
    let bench = Bench::new();
    let lost = bench.dll(&["lost.dll"]);
    // A wheel for any platform has files for all of them; a wheel for Linux may have files for
    // others.
    let any = pack("demo-1.0", "py3-none-any").with("demo/a.dll", &lost);
    let report = audit(&bench, &[any]);
    assert_eq!(said(&report), ["RW009 warning"], "what it imports is not judged");
    assert!(report.notes[0].contains("`demo-1.0-py3-none-any.whl` are for Windows"), "{:?}", report.notes);
    assert_eq!(bench.found(&[demo().with("demo/a.exe", &lost)]), NONE);
    // A file for another machine.
    let mut other = lost.clone();
    let header = u32::from_le_bytes(other[0x3c..0x40].try_into().unwrap()) as usize;
    other[header + 4..header + 6].copy_from_slice(&0xaa64u16.to_le_bytes());
    assert_eq!(bench.found(&[windows().with("demo/_m.pyd", &other)]), ["RW026 error"]);
    assert_eq!(bench.found(&[windows().with("demo/tool.exe", &other)]), NONE);
    // An import table with a wrong address, which is the second entry of the directories.
    let mut broken = lost;
    let at = header + 24 + 112 + 8;
    broken[at..at + 4].copy_from_slice(&0x7fff_0000u32.to_le_bytes());
    let finding = bench.one(&[windows().with("demo/_m.pyd", &broken)], "");
    assert_eq!(finding.code.text(), "RW023");
    assert!(finding.message.contains("the DLLs that it asks for cannot be read"), "{finding:?}");
}

#[test]
fn tags_for_modules_of_windows_in_a_wheel_for_any_platform() {
    let bench = Bench::new();
    let module = bench.dll(&["KERNEL32.dll", "python313.dll"]);
    let any = || pack("demo-1.0", "py3-none-any").with("demo/_m.cp313-win_amd64.pyd", &module);
    let fix = |wheel: Pack| {
        let report = audit(&bench, &[wheel]);
        assert_eq!(said(&report), ["RW009 error"]);
        report.findings[0].fix.as_ref().map(|fix| fix.command().split("--in-place ").nth(1).unwrap().to_owned())
    };
    let tags = "--python-tag cp313 --abi-tag cp313 --platform-tag win_amd64";
    assert_eq!(fix(any()).as_deref(), Some(tags));
    let plain = bench.dll(&["KERNEL32.dll"]);
    let stable = pack("demo-1.0", "py3-none-any").with("demo/_m.pyd", &plain);
    assert_eq!(fix(stable).as_deref(), Some("--platform-tag win_amd64"));
    let of_extra = any().with("demo/hip.dll", bench.dll(&["amdhip64_7.dll"])).providing("gpu");
    let of_extra = of_extra.requiring("torch; extra == 'gpu'");
    assert_eq!(fix(of_extra).as_deref(), Some(tags), "with a warning");
    // No tag is right for modules of two Pythons, nor for one whose libraries are missing.
    assert_eq!(fix(any().with("demo/_n.cp312-win_amd64.pyd", &plain)), None);
    assert_eq!(fix(any().with("demo/_n.cp313-win_amd64.pyd", bench.dll(&["lost.dll"]))), None);
}

#[test]
fn rw009_libraries_of_windows_in_a_wheel_for_any_platform() {
    let bench = Bench::new();
    let library = bench.dll(&["KERNEL32.dll"]);
    let any = || pack("demo-1.0", "py3-none-any").with("demo/a.dll", &library);
    let load = "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'a.dll'))\n";
    let report = audit(&bench, &[any().with("demo/__init__.py", load)]);
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!((said(&report), finding.file.as_deref()), (vec!["RW009 error".to_owned()], Some("demo/a.dll")));
    assert!(finding.fix.as_ref().unwrap().command().ends_with("--platform-tag win_amd64"), "{finding:?}");
    // Perhaps the library is only for Windows, and the wheel works without it elsewhere.
    for code in ["", "import ctypes, os\nif os.name == 'nt': ctypes.CDLL('./a.dll')\n"] {
        let report = audit(&bench, &[any().with("demo/__init__.py", code)]);
        assert_eq!(said(&report), ["RW009 warning"], "{code}");
        assert_eq!(report.findings[0].fix, None, "{code}");
    }
    let linux = bench.library("a.so", "int x;", &[]);
    for (name, bytes) in [("demo/a.so", &linux[..]), ("demo/a.dylib", b"\xcf\xfa\xed\xfe")] {
        assert_eq!(bench.found(&[any().with("demo/__init__.py", load).with(name, bytes)]), NONE, "{name}");
    }
    // An assembly of .NET runs on every system: the table with number 14 is that of its runtime.
    let header = u32::from_le_bytes(library[0x3c..0x40].try_into().unwrap()) as usize;
    let mut managed = library.clone();
    managed[header + 24 + 112 + 14 * 8] = 1;
    let report = audit(&bench, &[pack("demo-1.0", "py3-none-any").with("demo/a.dll", &managed)]);
    assert_eq!((said(&report), &report.notes[..]), (Vec::new(), &[][..]));
}
