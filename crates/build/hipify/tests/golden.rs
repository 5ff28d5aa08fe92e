//! The original's results for small inputs, by its two algorithms. `golden/v1` was made with torch
//! 2.6.0 and `golden/v2` with 2.15.0, by running `torch.utils.hipify`; the tables beside them
//! contain the names that occur.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocwheel_hipify::transform::{self, Conversion, path};
use rocwheel_hipify::tree::{self, FileSelection, LeftoverSearch, Request, Status};
use rocwheel_hipify::{ConversionProblem, Defects, Launches, Setting, Tables};
use rocwheel_output::Destination;
use rocwheel_progress::Silent;
use serde_json::Value;

struct Golden {
    vectors: Value,
    tables: Tables,
}

fn golden() -> [Golden; 2] {
    ["v1", "v2"].map(|version| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(version);
        let text = fs_err::read_to_string(folder.join("vectors.json")).unwrap();
        // If the real tables are available, they must give the same results.
        let tables = std::env::var_os(format!("ROCWHEEL_HIPIFY_TABLES_{}", version.to_uppercase()));
        let tables = tables.map_or(folder, PathBuf::from);
        Golden {
            vectors: serde_json::from_str(&text).unwrap(),
            tables: Tables::read(&rocwheel_hipify::tables::find(&tables).unwrap()).unwrap(),
        }
    })
}

impl Golden {
    fn cases(&self, name: &str) -> Vec<Vec<Value>> {
        let cases = self.vectors[name].as_array().unwrap_or_else(|| panic!("{name}"));
        assert!(!cases.is_empty());
        cases.iter().map(|case| case.as_array().unwrap().clone()).collect()
    }

    fn conversion(&self, setting: Setting, launches: Launches) -> Conversion<'_> {
        Conversion { tables: &self.tables, setting, launches, defects: Defects::Refuse }
    }
}

fn ok(expected: &Value) -> Option<&str> {
    expected["ok"].as_str()
}

#[test]
fn launches() {
    for golden in golden() {
        for case in golden.cases("processKernelLaunches") {
            let input = case[0].as_str().unwrap();
            let conversion = golden.conversion(Setting::Extension, Launches::Convert);
            match (conversion.finish("a.txt", input.into()), ok(&case[1])) {
                (Ok(finished), Some(expected)) => {
                    // The header, which is added later, is not part of the vector.
                    let text = finished.text.strip_prefix("#include \"hip/hip_runtime.h\"\n").unwrap_or(&finished.text);
                    assert_eq!(text, expected, "{input}");
                }
                (Err(trouble), None) => assert_ne!(trouble.problem, ConversionProblem::LostLaunch, "{input}"),
                (Err(trouble), Some(expected)) => panic!("{input}: {trouble:?}, not {expected}"),
                (Ok(finished), None) => panic!("{input}: {finished:?}"),
            }
        }
    }
}

#[test]
fn dimensions_and_arguments() {
    for golden in golden() {
        for case in golden.cases("add_dim3") {
            let input = case[0].as_str().unwrap();
            assert_eq!(transform::add_dim3(input, &format!("k{input}(")).as_deref(), ok(&case[1]), "{input}");
        }
        for case in golden.cases("extract_arguments") {
            let expected: Vec<(usize, usize)> = case[1]["ok"]
                .as_array()
                .unwrap()
                .iter()
                .map(|range| (range["start"].as_u64().unwrap() as usize, range["end"].as_u64().unwrap() as usize))
                .collect();
            assert_eq!(transform::extract_arguments(case[0].as_str().unwrap()), expected);
        }
    }
}

#[test]
fn headers_and_mathematics() {
    for golden in golden() {
        for (name, path) in [("hip_header_magic", "a.txt"), ("replace_math_functions", "a.cu")] {
            for case in golden.cases(name) {
                let conversion = golden.conversion(Setting::Pytorch, Launches::Keep);
                let finished = conversion.finish(path, case[0].as_str().unwrap().into()).unwrap();
                assert_eq!(Some(&*finished.text), ok(&case[1]));
            }
        }
    }
}

#[test]
fn paths() {
    for golden in golden() {
        for case in golden.cases("get_hip_file_path") {
            let setting = if case[1].as_bool().unwrap() { Setting::Extension } else { Setting::Pytorch };
            assert_eq!(Some(path::hip_path(case[0].as_str().unwrap(), setting).as_str()), ok(&case[2]), "{case:?}");
        }
    }
}

#[test]
fn words() {
    let mut checked = 0;
    for golden in golden() {
        for (name, path) in
            [("pytorch_tokens", "torch/a.h"), ("caffe2_tokens", "c10/cuda/a.h"), ("special_tokens", "aten/sparse.h")]
        {
            if golden.vectors.get(name).is_none() {
                continue;
            }
            for case in golden.cases(name) {
                let input = case[0].as_str().unwrap();
                let conversion = golden.conversion(Setting::Pytorch, Launches::Keep);
                // The original replaces Caffe2's paths after its words; no vector contains one.
                assert_eq!(Some(&*conversion.words(path, input).text), ok(&case[1]), "{name} {input}");
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 19 + 24 + 19 + 19);
}

/// Converts Latin-1 text to bytes.
fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect()
}

fn strings(value: &Value) -> Vec<String> {
    let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
    values.iter().map(|value| value.as_str().unwrap().trim_start_matches("@/").to_owned()).collect()
}

#[test]
fn whole_trees() {
    let mut checked = 0;
    for golden in golden() {
        for (name, case) in golden.vectors["whole"].as_object().unwrap() {
            let tree = tempfile::tempdir().unwrap();
            for (path, text) in case["input"].as_object().unwrap() {
                let path = tree.path().join(path);
                fs_err::create_dir_all(path.parent().unwrap()).unwrap();
                fs_err::write(path, bytes(text.as_str().unwrap())).unwrap();
            }
            let options = &case["kwargs"];
            let request = Request {
                tree: tree.path().to_owned(),
                setting: if case["ext"].as_bool().unwrap() { Setting::Extension } else { Setting::Pytorch },
                launches: Launches::Convert,
                defects: Defects::Refuse,
                selection: FileSelection {
                    includes: strings(&options["includes"]),
                    ignores: strings(&options["ignores"]),
                    extra_files: strings(&options["extra_files"]),
                    header_folders: strings(&options["header_include_dirs"]),
                    extra_files_only: options["hipify_extra_files_only"].as_bool().unwrap_or_default(),
                    out_of_place_only: options["out_of_place_only"].as_bool().unwrap_or_default(),
                },
                edits: Vec::new(),
                copy: None,
                survey: LeftoverSearch::Nothing,
            };
            let plan = tree::plan(&request, &golden.tables, &Silent).unwrap();
            plan.execute(&Destination::InPlace, &Silent).unwrap();
            let expected = &case["output"]["ok"];
            let mut files = BTreeMap::new();
            for entry in walk(tree.path()) {
                let path =
                    rocwheel_system::slashed(entry.strip_prefix(tree.path()).unwrap()).to_str().unwrap().to_owned();
                files.insert(path, String::from_utf8(fs_err::read(entry).unwrap()).unwrap());
            }
            assert_eq!(serde_json::to_value(&files).unwrap(), expected["files"], "{name}");
            let mut results = BTreeMap::new();
            for file in &plan.files {
                let status = match file.status {
                    Status::New | Status::Changed => "[ok]",
                    Status::Current => "[skipped, already hipified]",
                    Status::Untouched => "[skipped, no changes]",
                    other => panic!("{other:?}"),
                };
                results.insert(&file.source, (file.output.as_ref().unwrap_or(&file.source), status));
            }
            assert_eq!(serde_json::to_value(&results).unwrap(), expected["results"], "{name}");
            checked += 1;
        }
    }
    assert_eq!(checked, 18);
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}

#[test]
fn a_trouble_is_an_error_of_the_whole_tree() {
    let [golden, _] = golden();
    let tree = tempfile::tempdir().unwrap();
    fs_err::write(tree.path().join("good.cpp"), " cudaStream_t s;\n").unwrap();
    fs_err::write(tree.path().join("one.cpp"), "\n\nk<<<a;\n").unwrap();
    fs_err::write(tree.path().join("two.cpp"), b"a\n\xff\n").unwrap();
    let request = Request {
        tree: tree.path().to_owned(),
        setting: Setting::Extension,
        launches: Launches::Convert,
        defects: Defects::Refuse,
        selection: FileSelection { includes: vec!["*".to_owned()], ..FileSelection::default() },
        edits: Vec::new(),
        copy: None,
        survey: LeftoverSearch::Nothing,
    };
    let error = tree::plan(&request, &golden.tables, &Silent).unwrap_err();
    assert!(error.rows().len() == 2, "{error:?}");
    assert_eq!(
        error.to_string(),
        "the original cannot convert 2 places:\n  `one.cpp`, line 3: `<<<` without `>>>`\n  `two.cpp`, line 2: a byte that is not UTF-8"
    );
    assert_eq!(walk(tree.path()).len(), 3);
    let request = Request { defects: Defects::Fix, ..request };
    let plan = tree::plan(&request, &golden.tables, &Silent).unwrap();
    assert_eq!((plan.counts.new, plan.files[1].left.len()), (1, 1));
    plan.execute(&Destination::InPlace, &Silent).unwrap();
    assert!(fs_err::read_to_string(tree.path().join("good_hip.cpp")).unwrap().ends_with(" hipStream_t s;\n"));
}
