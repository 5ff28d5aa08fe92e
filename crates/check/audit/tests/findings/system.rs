//! Tags, interpreters, machines and GPUs.

use rocwheel_audit::{ExtraCheck, Fix, Options};
use rocwheel_kpack::Marker;

use crate::fixture::{Bench, Pack, demo, pack, said};

const MODULE: &str = "demo/_m.cpython-312-x86_64-linux-gnu.so";
const OF_MUSL: &str = "demo/_m.cpython-312-x86_64-linux-musl.so";
const NONE: [&str; 0] = [];

fn with_tag(tag: &str, module: &[u8]) -> Pack {
    pack("demo-1.0", tag).with(MODULE, module)
}

#[test]
fn rw007_a_newer_glibc_than_promised() {
    let bench = Bench::new();
    // Assembler names the version, whichever glibc this machine has.
    let uses = |symbol: &str| {
        let source = format!("__asm__(\".symver {symbol}\");\nextern int f(void); int use(void) {{ return f(); }}");
        bench.module(&source, &["-lc"])
    };
    let old = uses("f,getpid@GLIBC_2.2.5");
    let new =
        bench.module("extern void *dlsym(void *, const char *); void *use(void) { return dlsym(0, \"x\"); }", &[]);
    let report = bench.audit(&[with_tag("cp312-cp312-manylinux_2_28_x86_64", &new)], &Options::default());
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!(finding.message, "the tag `manylinux_2_28_x86_64` promises glibc 2.28, and the files need `GLIBC_2.34`");
    assert!(finding.fix.as_ref().unwrap().command().ends_with("--platform-tag manylinux_2_34_x86_64"), "{finding:?}");
    assert_eq!(report.wheels[0].floor.as_ref().unwrap().newest["GLIBC"], "2.34");
    assert_eq!(bench.found(&[with_tag("cp312-cp312-manylinux_2_34_x86_64", &new)]), NONE);
    // The lower of two tags is the promise; two names of one promise count once.
    let two = with_tag("cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64", &new);
    assert_eq!(bench.found(&[two]), ["RW007 error"]);
    assert_eq!(bench.found(&[with_tag("cp312-cp312-manylinux1_x86_64", &old)]), NONE);
    let options = Options { glibc: Some("2.28".to_owned().try_into().unwrap()), ..Options::default() };
    let asked = bench.audit(&[with_tag("cp312-cp312-manylinux_2_34_x86_64", &new)], &options);
    assert_eq!(asked.findings[0].message, "it is to work with glibc 2.28, and the files need `GLIBC_2.34`");
    assert_eq!(said(&bench.audit(&[with_tag("cp312-cp312-manylinux_2_34_x86_64", &old)], &options)), NONE);
}

#[test]
fn rw008_a_newer_cpu_than_promised() {
    let bench = Bench::new();
    // The note that `-z x86-64-v3` of newer linkers writes: a property of the file, 4 bytes padded
    // to 8.
    let marked = |bits: u32| {
        let note = format!(
            "__asm__(\".pushsection .note.gnu.property,\\\"a\\\"\\n.p2align 3\\n.long 4,16,5\\n.asciz \\\"GNU\\\"\\n\\
             .long 0xc0008002,4,{bits},0\\n.popsection\");"
        );
        bench.module(&note, &[])
    };
    let (v3, v2, plain) = (marked(0b111), marked(0b11), marked(0b1));
    let report = bench.audit(&[demo().with(MODULE, &v3)], &Options::default());
    assert_eq!((said(&report), report.wheels[0].cpu), (vec!["RW008 error".to_owned()], Some("x86-64-v3")));
    assert_eq!(bench.found(&[demo().with(MODULE, &v2)]), ["RW008 warning"]);
    assert_eq!(bench.found(&[demo().with(MODULE, &plain)]), NONE);
    assert_eq!(bench.found(&[demo().with("demo/glibc-hwcaps/x86-64-v3/libfast.so", &v3)]), NONE);
}

#[test]
fn rw009_tags_and_names_that_are_not_true() {
    let bench = Bench::new();
    let module = bench.module("", &[]);
    let tag = "cp312-cp312-manylinux_2_34_x86_64";
    let mut other = demo().with(MODULE, &module);
    other.wheel_tags = vec!["cp312-cp312-linux_x86_64".to_owned()];
    assert_eq!(bench.found(&[other]), ["RW009 warning"]);
    // A set of tags in one line is equal to one line for each tag.
    let mut set = pack("demo-1.0", "cp312-cp312-manylinux_2_34_x86_64.manylinux_2_35_x86_64").with(MODULE, &module);
    set.wheel_tags = vec![format!("{tag}.manylinux_2_35_x86_64")];
    assert_eq!(bench.found(std::slice::from_ref(&set)), NONE);
    set.wheel_tags = vec!["cp312-cp312-manylinux_2_35_x86_64".to_owned(), tag.to_owned()];
    assert_eq!(bench.found(&[set]), NONE);
    assert_eq!(bench.found(&[with_tag("cp312-cp312-linux_x86_64", &module)]), ["RW009 warning"]);
    let mut renamed = demo();
    renamed.said = Some(("another".to_owned(), "1.0".to_owned()));
    assert_eq!(bench.found(std::slice::from_ref(&renamed)), ["RW009 error"]);
    renamed.said = Some(("Demo".to_owned(), "1.0.0".to_owned()));
    assert_eq!(bench.found(&[renamed]), NONE, "one name and version, written in another way");
    // Compiled files under a tag for any platform are an error, unless they are for several
    // platforms.
    let any = pack("demo-1.0", "py3-none-any").with("demo/libx.so", &module);
    assert_eq!(bench.found(std::slice::from_ref(&any)), ["RW009 error"]);
    assert_eq!(bench.found(&[any.with("demo/x.dylib", b"\xcf\xfa\xed\xfe")]), NONE);
    assert_eq!(bench.found(&[pack("demo-1.0", "py3-none-any").with("demo/__init__.py", "")]), NONE);
}

#[test]
fn rw010_modules_for_another_python() {
    let bench = Bench::new();
    let module = bench.module("", &[]);
    let old = "demo/_m.cpython-310-x86_64-linux-gnu.so";
    assert_eq!(bench.found(&[demo().with(old, &module)]), ["RW010 error"]);
    assert_eq!(bench.found(&[demo().with(old, &module).with(MODULE, &module)]), NONE);
    // Newer Pythons would take it, too, with another tag.
    assert_eq!(bench.found(&[demo().with("demo/_m.abi3.so", &module).with("demo/_n.so", &module)]), ["RW010 note"]);
    let stable = |name: &str| pack("demo-1.0", "cp39-abi3-manylinux_2_34_x86_64").with(name, &module);
    assert_eq!(bench.found(&[stable(old)]), ["RW010 error"]);
    assert_eq!(bench.found(&[stable("demo/_m.abi3.so")]), NONE);
    let threaded = pack("demo-1.0", "cp313-cp313t-manylinux_2_34_x86_64");
    assert_eq!(
        bench.found(&[threaded.clone().with("demo/_m.cpython-313-x86_64-linux-gnu.so", &module)]),
        ["RW010 error"]
    );
    assert_eq!(bench.found(&[threaded.with("demo/_m.cpython-313t-x86_64-linux-gnu.so", &module)]), NONE);
    // A Python that the user named.
    let options = Options { extras: [ExtraCheck::Python].into(), ..Options::default() };
    let wheel = pack("demo-1.0", "cp311-cp311-manylinux_2_34_x86_64");
    assert_eq!(said(&bench.audit(&[wheel], &options)), ["RW010 error"]);
    let mut wheel = demo();
    wheel.metadata.push("Requires-Python: >=3.13".to_owned());
    assert_eq!(said(&bench.audit(std::slice::from_ref(&wheel), &options)), ["RW010 error"]);
    wheel.metadata = vec!["Requires-Python: >=3.10, <3.14".to_owned()];
    assert_eq!(said(&bench.audit(&[wheel], &options)), NONE);
}

#[test]
fn rw010_symbols_outside_of_the_stable_abi() {
    let bench = Bench::new();
    let needs =
        |function: &str| bench.module(&format!("int {function}(void); int f(void) {{ return {function}(); }}"), &[]);
    let stable = |module: &[u8]| pack("demo-1.0", "cp39-abi3-manylinux_2_34_x86_64").with("demo/_m.abi3.so", module);
    assert_eq!(bench.found(&[stable(&needs("PyList_New"))]), NONE);
    for (function, words) in [
        ("_PyGen_Send", "needs `_PyGen_Send`, which is outside of the stable ABI"),
        ("PyModule_Add", "which is in the stable ABI since Python 3.13; the tag promises 3.9"),
    ] {
        let finding = bench.one(&[stable(&needs(function))], "RW010 warning");
        assert!(finding.message.contains(words), "{finding:?}");
    }
    // A library of the wheel may define the symbol.
    let own = bench.library("libown7.so", "int _PyGen_Send(void) { return 1; }", &["-Wl,-soname,libown7.so"]);
    let module = bench.module(
        "int _PyGen_Send(void); int f(void) { return _PyGen_Send(); }",
        &["-l:libown7.so", "-Wl,-rpath,$ORIGIN"],
    );
    assert_eq!(bench.found(&[stable(&module).with("demo/libown7.so", &own)]), NONE);
    // A module for one Python may use all symbols of that Python.
    assert_eq!(bench.found(&[demo().with(MODULE, needs("_PyGen_Send"))]), NONE);
}

#[test]
fn rw011_builds_that_are_not_for_rocm() {
    let bench = Bench::new();
    bench.library("libcudart.so.12", "", &["-Wl,-soname,libcudart.so.12"]);
    bench.library("libamdhip64.so.7", "", &["-Wl,-soname,libamdhip64.so.7"]);
    let (cuda, hip) = (bench.module("", &["-l:libcudart.so.12"]), bench.module("", &["-l:libamdhip64.so.7"]));
    let plain = bench.module("", &[]);
    let tag = "cp312-cp312-manylinux_2_34_x86_64";
    let build = |stem: &str, module: &[u8]| pack(stem, tag).with(MODULE, module).requiring("torch");
    assert_eq!(bench.found(&[build("demo-1.0+rocm7.0", &cuda)]), ["RW011 error", "RW025 note"]);
    assert_eq!(bench.found(&[build("demo_rocm-1.0", &plain)]), ["RW011 warning"]);
    assert_eq!(bench.found(&[build("demo_rocm7_plugin-1.0", &hip)]), ["RW025 note"]);
    assert_eq!(bench.found(&[build("demo-1.0+cu128", &cuda)]), ["RW025 note"]);
    // The wheel loads HIP by name, has GPU code, or has no compiled files. ROCm itself is not a
    // build for ROCm.
    let by_name = bench.module("const char *name = \"libamdhip64.so.7\";", &[]);
    assert_eq!(bench.found(&[build("demo_rocm-1.0", &by_name)]), NONE);
    assert_eq!(bench.found(&[build("demo_rocm-1.0", &plain).with("demo/kernels.hsaco", "x")]), NONE);
    assert_eq!(bench.found(&[build("demo_rocm-1.0", &plain).with("demo/load.py", "CDLL('libamdhip64.so')")]), NONE);
    assert_eq!(bench.found(&[pack("demo_rocm-1.0", "py3-none-any").with("demo/__init__.py", "")]), NONE);
    assert_eq!(bench.found(&[build("rocm_bootstrap-1.0", &plain)]), NONE);
}

/// A module with one wrapper that refers to `bytes` in the section of GPU code.
fn with_wrapper(bench: &Bench, magic: u32, bytes: &[u8]) -> Vec<u8> {
    let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
    bench.module(
        &format!(
            "static const unsigned char code[4096] __attribute__((section(\".hip_fatbin\"), aligned(4096))) = {{ {} }};\n\
             struct wrapper {{ unsigned magic, version; const void *code; unsigned long index; }};\n\
             __attribute__((used, section(\".hipFatBinSegment\"))) struct wrapper wrapper = {{ {magic}u, 1, code, 0 }};",
            list.join(",")
        ),
        &[],
    )
}

#[test]
fn rw021_split_code_without_a_runtime_that_reads_it() {
    let bench = Bench::new();
    let marker = Marker {
        kernel_name: "demo/_m.so".to_owned(),
        search_paths: vec!["../.kpack/demo_lib_@GFXARCH@.kpack".to_owned()],
    };
    let module = with_wrapper(&bench, 0x4b50_4948, &marker.encode().unwrap());
    let hip = bench.library("libamdhip64.so.7", "", &["-Wl,-soname,libamdhip64.so.7"]);
    let comgr = bench.library("libamd_comgr.so.3", "", &["-Wl,-soname,libamd_comgr.so.3"]);
    let reads = bench.library("librocm_kpack.so.0", "", &["-Wl,-soname,librocm_kpack.so.0"]);
    let runtime = pack("rocm_sdk_core-7.0", "py3-none-manylinux_2_34_x86_64")
        .with("_rocm_sdk_core/lib/libamdhip64.so.7", &hip)
        .with("_rocm_sdk_core/lib/libamd_comgr.so.3", &comgr)
        .beside();
    let wheel = demo().with(MODULE, &module);
    let device = pack("demo_device-1.0", "py3-none-manylinux_2_34_x86_64").with(".kpack/demo_lib_gfx942.kpack", "x");
    assert_eq!(bench.found(std::slice::from_ref(&wheel)), ["RW021 note"], "no archive is in the set");
    assert_eq!(bench.found(&[wheel.clone(), device.clone()]), NONE);
    assert_eq!(bench.found(&[wheel.clone(), device.clone(), runtime.clone()]), ["RW021 error"]);
    let name = "libamdhip64-f1043337.so.7.2.70204";
    let grafted = bench.library(name, "", &[&format!("-Wl,-soname,{name}")]);
    let grafting = wheel.clone().with(&format!("demo.libs/{name}"), &grafted);
    assert!(bench.found(&[grafting, device.clone()]).contains(&"RW021 error".to_owned()), "auditwheel's copy");
    let newer = runtime.with("_rocm_sdk_core/lib/librocm_kpack.so.0", &reads);
    assert_eq!(bench.found(&[wheel, device, newer]), NONE);
}

#[test]
fn rw024_gpu_code_that_is_none() {
    let bench = Bench::new();
    let options = Options { extras: [ExtraCheck::GpuCode].into(), ..Options::default() };
    let broken = demo().with(MODULE, with_wrapper(&bench, 0x4849_5046, b"not a bundle"));
    assert_eq!(said(&bench.audit(std::slice::from_ref(&broken), &options)), ["RW024 error"]);
    assert_eq!(bench.found(&[broken]), NONE, "only when it is asked for");
    assert_eq!(said(&bench.audit(&[demo().with(MODULE, bench.module("", &[]))], &options)), NONE);
}

#[test]
fn rw026_files_for_another_machine() {
    const MACHINE: usize = 18;
    let bench = Bench::new();
    let mut module = bench.module("", &[]);
    assert_eq!(bench.found(&[demo().with(MODULE, &module)]), NONE);
    module[MACHINE] = 183;
    assert_eq!(bench.found(&[demo().with(MODULE, &module)]), ["RW026 error"]);
    assert_eq!(bench.found(&[demo().with("demo/data/example.bin", &module)]), NONE, "data of the package");
    let arm = pack("demo-1.0", "cp312-cp312-manylinux_2_34_aarch64")
        .with("demo/_m.cpython-312-aarch64-linux-gnu.so", &module);
    let report = bench.audit(&[arm], &Options::default());
    assert_eq!(said(&report), NONE);
    assert!(report.notes[0].contains("are for aarch64"), "{:?}", report.notes);
    // A library that the loader skips.
    let mut library = bench.library("libx.so.1", "", &["-Wl,-soname,libx.so.1"]);
    let linked = bench.module("", &["-l:libx.so.1", "-Wl,-rpath,$ORIGIN"]);
    library[MACHINE] = 183;
    assert_eq!(bench.found(&[demo().with(MODULE, &linked).with("demo/libx.so.1", &library)]), ["RW026 error"]);
}

#[test]
fn rw027_stacks_on_which_code_runs() {
    let bench = Bench::new();
    let module = bench.module("", &["-Wl,-z,execstack"]);
    assert_eq!(bench.found(&[demo().with(MODULE, &module)]), ["RW027 error"]);
    let module = bench.module("", &["-Wl,-z,noexecstack"]);
    assert_eq!(bench.found(&[demo().with(MODULE, &module)]), NONE);
}

#[test]
fn rw009_metadata_in_another_encoding() {
    let bench = Bench::new();
    let in_utf_8 = Pack { metadata: vec!["Author: J\u{f6}rg".to_owned()], ..demo() };
    assert_eq!(bench.found(std::slice::from_ref(&in_utf_8)), NONE);
    let in_latin_1 = |text: String| -> Vec<u8> { text.chars().map(|letter| u8::try_from(letter).unwrap()).collect() };
    let report = bench.audit(&[Pack { encoding: in_latin_1, ..in_utf_8 }], &Options::default());
    assert_eq!(said(&report), ["RW009 error"]);
    assert_eq!(report.findings[0].subject, "METADATA");
}

#[test]
fn rw009_tags_that_no_installer_knows() {
    let bench = Bench::new();
    for (tag, subject, meant) in [
        ("py3-none-manylinux_2_28", "manylinux_2_28", Some("manylinux_2_28_x86_64")),
        ("py3-none-linux", "linux", Some("linux_x86_64")),
        ("py3-none-linux_x86_64.manylinux2014", "manylinux2014", Some("linux_x86_64.manylinux2014_x86_64")),
        ("cp312-foo-linux_x86_64", "foo", None),
    ] {
        let report = bench.audit(&[pack("demo-1.0", tag)], &Options::default());
        let found = report.findings.iter().find(|finding| finding.subject == subject);
        let finding = found.unwrap_or_else(|| panic!("{tag}: {:?}", report.findings));
        assert_eq!((finding.code.text(), finding.severity.name()), ("RW009", "error"));
        assert!(finding.message.starts_with("no installer knows the "), "{finding:?}");
        let fix = meant.map(|meant| format!("--platform-tag {meant}"));
        assert_eq!(
            finding.fix.as_ref().map(|fix| fix
                .command()
                .split_at(fix.command().find("--platform-tag").unwrap())
                .1
                .to_owned()),
            fix
        );
    }
    assert_eq!(bench.found(&[pack("demo-1.0", "12.3-abi3-any")]), ["RW009 error", "RW009 error"]);
}

#[test]
fn rw009_a_version_of_the_format_that_pip_refuses() {
    let bench = Bench::new();
    for (line, refused) in [
        ("Wheel-Version: 1.0\n", false),
        ("Wheel-Version: 1.9\n", false),
        ("Wheel-Version: 2.0\n", true),
        ("Wheel-Version: one\n", true),
        ("", true),
    ] {
        let wheel = Pack { wheel_version: line, ..pack("demo-1.0", "py3-none-any") };
        let expected: &[&str] = if refused { &["RW009 error"] } else { &[] };
        assert_eq!(bench.found(&[wheel]), expected, "{line}");
    }
}

#[test]
fn rw030_requirements_that_contradict_each_other() {
    let bench = Bench::new();
    let found = |requirements: &[&str]| {
        let wheel = pack("demo-1.0", "py3-none-any");
        bench.found(&[requirements.iter().fold(wheel, |wheel, requirement| wheel.requiring(requirement))])
    };
    for together in [
        ["rocm>=6", "rocm<8"],
        ["rocm==6.*", "rocm==7.*; sys_platform == 'win32'"],
        ["torch==2.9", "torch==2.9+rocm7.2"],
        ["torch==2.9+rocm7.2", "torch>2.8"],
        ["torch>=2.9", "torch @ file:///x/torch-1.0-py3-none-any.whl"],
        ["numpy==2.0rc1", "numpy<=2.0"],
    ] {
        assert!(!found(&together).contains(&"RW030 error".to_owned()), "{together:?}");
    }
    for contrary in [["rocm==6.*", "rocm==7.*"], ["Rocm[libraries]<7", "rocm>=7"], ["numpy>2,<1", "scipy"]] {
        assert_eq!(found(&contrary), ["RW030 error"], "{contrary:?}");
    }
}

#[test]
fn rw012_a_requirement_that_no_installer_can_read() {
    let bench = Bench::new();
    let wheel = |requirement: &str| pack("demo-1.0", "py3-none-any").requiring(requirement);
    assert_eq!(bench.found(&[wheel("foo (>1 <")]), ["RW012 error"]);
    // The parser would need more stack than the process has.
    let nested = format!("a; {}python_version>\"3\"{}", "(".repeat(50_000), ")".repeat(50_000));
    let finding = bench.one(&[wheel(&nested)], "");
    assert!(finding.message.contains("parentheses are open at once") && finding.message.len() < 400, "{finding:?}");
}

#[test]
fn musllinux_is_judged_by_its_own_policy() {
    let bench = Bench::new();
    for name in ["libc.musl-x86_64.so.1", "libz.so.1", "libx.so.1"] {
        bench.library(name, "int x(void) { return 1; }", &["-nostdlib", &format!("-Wl,-soname,{name}")]);
    }
    let module = |needs: &[&str]| {
        let needs: Vec<String> = needs.iter().map(|name| format!("-l:{name}")).collect();
        let arguments: Vec<&str> = ["-nostdlib"].into_iter().chain(needs.iter().map(String::as_str)).collect();
        bench.module("", &arguments)
    };
    let tag = "cp312-cp312-musllinux_1_2_x86_64";
    let good = module(&["libc.musl-x86_64.so.1", "libz.so.1"]);
    assert_eq!(bench.found(&[pack("demo-1.0", tag).with(OF_MUSL, &good)]), NONE);
    // On a system with glibc, no library provides musl's.
    assert_eq!(bench.found(&[demo().with(MODULE, &good)]), ["RW001 error"]);
    let lacking = module(&["libc.musl-x86_64.so.1", "libx.so.1"]);
    let finding = bench.one(&[pack("demo-1.0", tag).with(OF_MUSL, &lacking)], "");
    assert_eq!(
        (finding.code.text(), finding.subject.as_str(), finding.fix.as_ref().map(Fix::command)),
        ("RW001", "libx.so.1", None)
    );
    assert!(finding.message.ends_with("no system of musllinux promises"), "{finding:?}");
    // musllinux does not promise glibc's library.
    let glibc = pack("demo-1.0", tag)
        .with(OF_MUSL, bench.module("#include <math.h>\ndouble f(double x) { return sin(x); }", &["-lm"]));
    assert!(bench.found(&[glibc]).contains(&"RW001 error".to_owned()));
}

#[test]
fn musl_inherits_search_paths_of_both_kinds_and_knows_no_sonames() {
    let bench = Bench::new();
    bench.library(
        "libc.musl-x86_64.so.1",
        "int c(void) { return 1; }",
        &["-nostdlib", "-Wl,-soname,libc.musl-x86_64.so.1"],
    );
    let deep = bench.library("libdeep.so", "int deep(void) { return 1; }", &["-nostdlib", "-Wl,-soname,libdeep.so"]);
    let near = bench.library(
        "libnear.so",
        "int deep(void); int near(void) { return deep(); }",
        &["-nostdlib", "-Wl,-soname,libnear.so", "-l:libdeep.so"],
    );
    let arguments = [
        "-nostdlib",
        "-l:libnear.so",
        "-l:libc.musl-x86_64.so.1",
        "-Wl,-rpath,$ORIGIN/lib",
        "-Wl,--enable-new-dtags",
        "-Wl,-rpath-link,.",
    ];
    let module = bench.module("int near(void); int f(void) { return near(); }", &arguments);
    let wheel = |tag: &str| {
        pack("demo-1.0", tag)
            .with(if tag.contains("musl") { OF_MUSL } else { MODULE }, &module)
            .with("demo/lib/libnear.so", &near)
            .with("demo/lib/libdeep.so", &deep)
    };
    assert_eq!(bench.found(&[wheel("cp312-cp312-musllinux_1_2_x86_64")]), NONE);
    assert!(
        !bench.found(&[wheel("cp312-cp312-manylinux_2_34_x86_64")]).is_empty(),
        "glibc does not inherit DT_RUNPATH"
    );
}
