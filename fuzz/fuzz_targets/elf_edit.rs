//! Reads and edits arbitrary bytes as ELF: never a panic, never a wrong success. On stable Rust,
//! from this folder:
//!
//! ```sh
//! mkdir -p corpus/elf_edit && cp /usr/lib/x86_64-linux-gnu/libdl.so.2 corpus/elf_edit/
//! RUSTFLAGS='-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
//!   -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
//!   -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing' \
//!   cargo run --release --bin elf_edit --target x86_64-unknown-linux-gnu -- corpus/elf_edit -max_total_time=60
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;
use positioned_io::ReadAt;
use rocwheel_elf::{Edit, EditOutcome, Elf, NeededEdit, Patched, SearchPath};

fuzz_target!(|bytes: &[u8]| {
    let _ = Elf::read(&bytes);
    let _ = rocwheel_elf::is_pe(&bytes);
    let edit = Edit {
        search_path: Some(SearchPath::Add(vec!["$ORIGIN/somewhere/else".to_owned()])),
        soname: Some("libfuzzed.so.1".to_owned()),
        needed: vec![
            NeededEdit::Replace { from: "libc.so.6".to_owned(), to: "libother.so.1".to_owned() },
            NeededEdit::Add("libadded.so".to_owned()),
        ],
        ..Edit::default()
    };
    let Ok(patch) = edit.plan(&bytes) else { return };
    if patch.outcome != EditOutcome::Changed {
        assert!(patch.is_empty());
        return;
    }
    let view = Patched::new(bytes, patch.clone());
    let after = Elf::read(&view).expect("an edited file can be read").expect("an edited file is ELF");
    assert_eq!(after.soname.as_deref(), Some("libfuzzed.so.1"));
    assert!(after.rpath.is_some_and(|path| path.ends_with("$ORIGIN/somewhere/else")));
    assert!(after.needed.iter().any(|name| name == "libadded.so"));
    assert!(!after.needed.iter().any(|name| name == "libc.so.6"));
    if patch.size < 1 << 20 {
        let mut viewed = vec![0; patch.size as usize];
        view.read_exact_at(0, &mut viewed).expect("the view has the size it says");
        let mut applied = bytes.to_vec();
        patch.apply(&mut applied).expect("memory can be written");
        assert!(applied == viewed);
    }
});
