//! For any source the conversion ends, `Defects::Fix` has a result, and a converted text is not
//! converted again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use rocwheel_hipify::transform::{Conversion, decode};
use rocwheel_hipify::tree::{self, FileSelection, LeftoverSearch, Request};
use rocwheel_hipify::{Defects, Launches, Setting, Tables};
use rocwheel_output::Destination;
use rocwheel_progress::Silent;

fn tables() -> [Tables; 2] {
    [include_str!("golden/v1/cuda_to_hip_mappings.py"), include_str!("golden/v2/cuda_to_hip_mappings.py")]
        .map(|text| Tables::parse(text, None, "tables").unwrap())
}

/// Texts from the pieces that the conversion looks for, in any order.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "<<<",
            ">>>",
            "<",
            ">",
            "(",
            ")",
            ",",
            " k",
            "k<T>",
            "\n",
            "\r\n",
            "\"",
            "\\",
            "\\\"",
            "'",
            "//",
            "/*",
            "*/",
            "R\"(",
            "é",
            "²",
            "cudaStream_t",
            " cudaStream_t ",
            "hip/driver_types.h",
            "driver_types.h ",
            "#include \"a.h\"",
            "#include \"b.h\"",
            "#include <cuda/c.h>",
            "#include <ATen/cuda/",
            "__global__",
            "std::exp(",
            "detail::  \\\n  ",
            "0",
            " g, b",
            "\u{feff}",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..3),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn request(tree: &std::path::Path, setting: Setting, defects: Defects) -> Request {
    Request {
        tree: tree.to_owned(),
        setting,
        launches: Launches::Convert,
        defects,
        selection: FileSelection {
            includes: vec!["*".to_owned()],
            header_folders: vec![".".to_owned()],
            ..FileSelection::default()
        },
        edits: Vec::new(),
        copy: None,
        survey: LeftoverSearch::Unmapped,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_text_has_a_result_or_a_line(bytes in text(), v2: bool, extension: bool) {
        let tables = tables();
        let tables = &tables[usize::from(v2)];
        let setting = if extension { Setting::Extension } else { Setting::Pytorch };
        for defects in [Defects::Refuse, Defects::Fix] {
            let Ok(decoded) = decode(&bytes, defects) else {
                prop_assert!(std::str::from_utf8(&bytes).is_err());
                continue;
            };
            for path in ["torch/a.cu", "c10/cuda/a.cpp", "aten/linalg.cuh", "CMakeLists.txt"] {
                let conversion = Conversion { tables, setting, launches: Launches::Convert, defects };
                let worded = conversion.words(path, &decoded.text);
                let text = conversion.includes(worded.text, &mut |_, name| Some(format!("{name}x")));
                match conversion.finish(path, text) {
                    Ok(finished) => prop_assert!(!decoded.encode(finished.text.into_owned()).contains(&b'\r')),
                    Err(trouble) => {
                        prop_assert_eq!(defects, Defects::Refuse);
                        prop_assert!(trouble.line <= decoded.text.matches('\n').count() + 1);
                    }
                }
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_survive(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(decoded) = decode(&bytes, Defects::Fix) {
            let encoded = decoded.encode(decoded.text.to_string());
            let expected = bytes.iter().enumerate().filter(|&(at, &byte)| byte != b'\r' || bytes.get(at + 1) != Some(&b'\n'));
            let expected: Vec<u8> = expected.map(|(_, &byte)| if byte == b'\r' { b'\n' } else { byte }).collect();
            prop_assert_eq!(encoded, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_converted_extension_is_not_converted_again(files in prop::collection::vec(text(), 4), v2: bool, fix: bool) {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in ["a.h", "b.h", "cuda/c.h", "d.cu"].iter().zip(&files) {
            let path = folder.path().join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, bytes).unwrap();
        }
        let defects = if fix { Defects::Fix } else { Defects::Refuse };
        let request = request(folder.path(), Setting::Extension, defects);
        let tables = tables();
        let tables = &tables[usize::from(v2)];
        match tree::plan(&request, tables, &Silent) {
            Ok(plan) => {
                plan.execute(&Destination::InPlace, &Silent).unwrap();
                let again = tree::plan(&request, tables, &Silent).unwrap();
                prop_assert!(again.is_empty(), "{:?}", again.files);
            }
            Err(error) => prop_assert!(!fix, "{error}"),
        }
    }
}
