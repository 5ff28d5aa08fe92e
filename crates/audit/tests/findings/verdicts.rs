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
