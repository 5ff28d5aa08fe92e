//! Reads arbitrary text as Python literals, as tables and as PyTorch's settings: a value or an
//! error with a line of the text. See elf_edit.rs for how to run it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocwheel_hipify::{Tables, build_amd};
use rocwheel_python_literals::Module;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(unreadable) = Module::read(text) {
        // A carriage return ends a line too.
        assert!((1..=text.matches(['\n', '\r']).count() + 1).contains(&unreadable.line));
    }
    let _ = Tables::parse(text, None, "tables");
    let _ = build_amd::parse(text, "settings");
});
