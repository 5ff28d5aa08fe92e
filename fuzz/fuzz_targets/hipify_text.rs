//! Converts arbitrary bytes as sources of both algorithms and settings: it ends, and what mends
//! defects has a result for everything and changes nothing the second time. See elf_edit.rs for how
//! to run it.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use rocwheel_hipify::transform::{Conversion, decode};
use rocwheel_hipify::{Defects, Launches, Setting, Tables};

fn tables() -> &'static [Tables; 2] {
    static TABLES: OnceLock<[Tables; 2]> = OnceLock::new();
    TABLES.get_or_init(|| {
        [
            include_str!("../../crates/build/hipify/tests/golden/v1/cuda_to_hip_mappings.py"),
            include_str!("../../crates/build/hipify/tests/golden/v2/cuda_to_hip_mappings.py"),
        ]
        .map(|text| Tables::parse(text, None, "tables").expect("the tables are our own"))
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let setting = if choice & 1 == 0 { Setting::Pytorch } else { Setting::Extension };
    let path = ["torch/a.cu", "c10/cuda/b.cpp", "aten/sparse.cuh", "x/CMakeLists.txt"][usize::from(choice >> 2 & 3)];
    for defects in [Defects::Refuse, Defects::Fix] {
        let Ok(decoded) = decode(bytes, defects) else { continue };
        let tables = &tables()[usize::from(choice >> 1 & 1)];
        let conversion = Conversion { tables, setting, launches: Launches::Convert, defects };
        let worded = conversion.words(path, &decoded.text);
        let text = conversion.includes(worded.text, &mut |_, name| (name.len() % 2 == 0).then(|| name.to_owned()));
        match conversion.finish(path, text) {
            Ok(finished) => drop(decoded.encode(finished.text.into_owned())),
            Err(trouble) => {
                assert_eq!(defects, Defects::Refuse);
                assert!(trouble.line <= decoded.text.matches('\n').count() + 1);
            }
        }
    }
});
