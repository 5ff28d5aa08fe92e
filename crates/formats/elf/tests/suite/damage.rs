//! Files that are cut or changed anywhere give an error or a right answer, never a panic and never
//! a wrong success.

use std::sync::LazyLock;

use proptest::prelude::*;
use rocwheel_elf::{DynamicSymbols, Edit, EditOutcome, Elf, NeededEdit, Patched, SearchPath};

use crate::fixtures::{Workshop, forget_sections};

static ORIGINALS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let workshop = Workshop::new();
    let kinds: [&[&str]; 4] = [
        &["-shared", "-fPIC", "-Wl,-rpath,/old"],
        &["-pie", "-fPIE"],
        &["-shared", "-fPIC", "-fuse-ld=lld", "-Wl,--hash-style=both"],
        &["-no-pie", "-fuse-ld=gold", "-s"],
    ];
    let mut originals = Vec::new();
    for (number, arguments) in kinds.iter().enumerate() {
        let file = workshop.build(&format!("original{number}"), arguments);
        originals.push(fs_err::read(&file).unwrap());
        forget_sections(&file);
        originals.push(fs_err::read(&file).unwrap());
    }
    originals
});

/// Generates wrong numbers for headers.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(i64::MAX as u64),
        Just(u64::from(u32::MAX)),
        Just(1 << 47),
        0..0x5000_u64,
        any::<u64>()
    ]
}

/// Generates positions that matter, as an offset from a part in a thousand: the headers in front,
/// any position, and the section headers at the end.
fn place() -> impl Strategy<Value = (usize, usize)> {
    prop_oneof![
        3 => (0..0x400_usize).prop_map(|offset| (offset, 0)),
        2 => (0..1000_usize).prop_map(|part| (0, part)),
        2 => (0..0x800_usize).prop_map(|offset| (offset, 1000)),
    ]
}

fn try_everything(bytes: &Vec<u8>) -> Result<(), TestCaseError> {
    let _ = Elf::read(bytes);
    let _ = DynamicSymbols::read(bytes);
    let edit = Edit {
        search_path: Some(SearchPath::Set(vec!["$ORIGIN/somewhere/else".to_owned()])),
        soname: Some("libdamaged.so.1".to_owned()),
        needed: vec![
            NeededEdit::Replace { from: "libfirst.so".to_owned(), to: "libanother.so.1".to_owned() },
            NeededEdit::Remove("libc.so.6".to_owned()),
        ],
        ..Edit::default()
    };
    let Ok(patch) = edit.plan(bytes) else { return Ok(()) };
    if patch.outcome != EditOutcome::Changed {
        prop_assert!(patch.is_empty());
        return Ok(());
    }
    let after = Elf::read(&Patched::new(bytes, patch)).unwrap().unwrap();
    prop_assert_eq!(after.rpath.as_deref(), Some("$ORIGIN/somewhere/else"));
    prop_assert_eq!(after.soname.as_deref(), Some("libdamaged.so.1"));
    prop_assert!(!after.needed.iter().any(|name| name == "libfirst.so" || name == "libc.so.6"));
    let before = Elf::read(bytes).unwrap().unwrap();
    let versioned = |elf: &Elf| elf.version_needs.iter().any(|need| need.library == "libfirst.so");
    let needed = before.needed.iter().any(|name| name == "libfirst.so");
    prop_assert_eq!(versioned(&after), versioned(&before) && !needed);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cut(which in 0..8_usize, part in 0..1_000_000_usize) {
        let mut bytes = ORIGINALS[which].clone();
        bytes.truncate(bytes.len() * part / 1_000_000);
        try_everything(&bytes)?;
    }

    #[test]
    fn changed(which in 0..8_usize, changes in prop::collection::vec((place(), number(), 1..=8_usize), 1..4)) {
        let mut bytes = ORIGINALS[which].clone();
        for ((offset, part), number, width) in changes {
            let last = bytes.len() - 8;
            let base = last * part / 1000;
            let start = if part == 1000 { base.saturating_sub(offset) } else { (base + offset).min(last) };
            bytes[start..start + width].copy_from_slice(&number.to_le_bytes()[..width]);
        }
        try_everything(&bytes)?;
    }
}
