//! The verdict of a report, in each form that it takes.

use rocwheel_audit::Options;
use rocwheel_audit::report::{AuditReport, LoadAnswer};

use crate::fixture::{Bench, demo, pack};

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
            "cannot tell whether demo 1.0 loads: it depends on packages that were not given".to_owned()
        )
    );
    // Without an error, a library that may be missing is no promise.
    let elsewhere = lacking.with("demo/other/libx.so.1", bench.library("liby.so.1", "", &["-Wl,-soname,libx.so.1"]));
    assert_eq!(judge(&[elsewhere]).0, LoadAnswer::Unknown);
    // RECORD concerns installation, not loading.
    let mut wrong = demo().with(MODULE, &plain);
    wrong.record = |text| text + "demo/gone.py,,\n";
    assert_eq!(judge(&[wrong]), (LoadAnswer::Fails, "demo 1.0 does not install as it should".to_owned()));
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
