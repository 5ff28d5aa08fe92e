//! Reads arbitrary text as METADATA and RECORD and changes it: what is not touched stays byte for
//! byte, what is written is read back. See elf_edit.rs for how to run it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocwheel_edit::ExtraEdit;
use rocwheel_wheel::requirement::WrittenRequirement;
use rocwheel_wheel::{Headers, parse_rows};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut headers = Headers::parse(text);
    assert_eq!(headers.to_string(), text);
    let body = headers.body().to_owned();
    let before: Vec<(String, String)> = headers.iter().map(|(name, value)| (name.to_owned(), value)).collect();
    headers.push("X-Fuzz-New", "value").expect("the value fits on a line");
    assert_eq!(headers.all("x-fuzz-new").last().map(String::as_str), Some("value"));
    let again = Headers::parse(&headers.to_string());
    assert_eq!(again.all("X-Fuzz-New"), headers.all("X-Fuzz-New"));
    assert!(again.body() == body || body.is_empty());
    if !before.iter().any(|(name, _)| name.eq_ignore_ascii_case("X-Fuzz-New")) {
        assert_eq!(headers.remove("X-Fuzz-New", |_| true), 1);
        let after: Vec<(String, String)> = headers.iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(after, before);
    }
    headers.set("Version", "2.0").expect("the value fits on a line");
    assert_eq!(headers.all("version"), ["2.0"]);
    let _ = headers.replace("Requires-Dist", |text| Some(format!("{text}x")));
    let _ = parse_rows(text);
    if let Ok(requirement) = WrittenRequirement::parse(text) {
        assert_eq!(WrittenRequirement::parse(requirement.text()).expect("it was read once"), requirement);
        assert!(!requirement.name().is_empty());
        if let Ok(ExtraEdit::Add { requirement: Some(same), .. }) = ExtraEdit::add(&format!("x:{text}")) {
            assert_eq!(same, requirement);
        }
    }
});
