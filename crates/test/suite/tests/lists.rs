//! Lists of known failures: rows, today's lists, and what is said of rows that fit nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use rocwheel_suite::lists::{
    ExportLoss, ExportedLists, ListKind, ListRow, ListSetting, RemarkKind, export_disabled, export_therock, judge,
    read_list, therock_expression,
};

fn setting() -> ListSetting {
    ListSetting {
        targets: vec!["gfx942".into()],
        version: Some("2.12.0+rocm7.1".parse().unwrap()),
        platforms: vec!["linux".into(), "rocm".into()],
        today: "2026-11-23".parse().unwrap(),
    }
}

fn ids(names: &str) -> Vec<String> {
    names.split_whitespace().map(str::to_owned).collect()
}

fn written(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs_err::write(&path, text).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

#[test]
fn rows_name_tests_exactly_and_say_what_fits_nothing() {
    let (_folder, path) = written(
        "skips.toml",
        r#"test = [
{ id = "test_torch.py::TestTorch::test_print", kind = "skip", reason = "prints another number", link = "https://example.org/1" },
{ glob = "*test_nn.py::*[float*]", expect = 2, kind = "xfail", owner = "a", expires = 2027-01-01, reason = "rounding" },
{ id = "test_gone.py::test_a", kind = "skip", reason = "gone" },
{ id = "test_nn.py::test_old", kind = "quarantine", owner = "a", expires = 2026-11-22, reason = "old" },
{ id = "test_nn.py::test_other_gpu", kind = "skip", reason = "another GPU", targets = ["gfx1100"] },
{ id = "test_nn.py::test_family", kind = "skip", reason = "family", targets = ["gfx94X-dcgpu"], versions = "2.12" },
{ id = "test_nn.py::test_version", kind = "skip", reason = "version", versions = ">=2.13" },
]
"#,
    );
    let rows = read_list(&path, None, false).unwrap().rows;
    let collected = ids("test/test_torch.py::TestTorch::test_print test/test_torch.py::TestTorch::test_print_options \
         test/test_nn.py::test_a[float32] test/test_nn.py::test_a[int8] test/test_nn.py::test_old \
         test/test_nn.py::test_other_gpu test/test_nn.py::test_family test/test_nn.py::test_version");
    let verdict = judge(&rows, &collected, &setting());
    let tests: Vec<(&str, ListKind)> = verdict.tests.iter().map(|(id, test)| (id.as_str(), test.kind)).collect();
    assert_eq!(
        tests,
        [
            ("test/test_nn.py::test_a[float32]", ListKind::Xfail),
            ("test/test_nn.py::test_family", ListKind::Skip),
            ("test/test_torch.py::TestTorch::test_print", ListKind::Skip),
        ]
    );
    assert!(verdict.tests["test/test_torch.py::TestTorch::test_print"].reason.ends_with("(https://example.org/1)"));
    let kinds: Vec<RemarkKind> = verdict.remarks.iter().map(|remark| remark.kind).collect();
    assert_eq!(kinds, [RemarkKind::Count, RemarkKind::Stale, RemarkKind::Expired]);
}

#[test]
fn a_row_without_its_fields_is_refused() {
    for (row, word) in [
        ("glob = \"*\"\nkind = \"skip\"\nreason = \"r\"", "expect"),
        ("id = \"a\"\nkind = \"xfail\"\nreason = \"r\"", "expires"),
        ("id = \"a\"\nkind = \"skip\"\nreason = \" \"", "reason"),
        ("kind = \"skip\"\nreason = \"r\"", "either `id`"),
        ("id = \"a\"\nkind = \"skip\"\nreason = \"r\"\nversions = \"new\"", "`new`"),
        ("id = \"a\"\nkind = \"skip\"\nreason = \"r\"\ntarget = \"x\"", "target"),
        ("id = \"a\"\nkind = \"skip\"\nreason = \"r\"\ntargets = [\"gfx94l\"]", "`gfx94l` is neither"),
        ("id = \"a\"\nkind = \"skip\"\nreason = \"r\"\nplatforms = [\"lunux\"]", "`lunux` is no platform"),
    ] {
        let (_folder, path) = written("a.toml", &format!("[[test]]\n{row}\n"));
        let error = read_list(&path, None, false).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("a.toml"), "{error}");
    }
}

#[test]
fn a_list_can_be_pinned() {
    let (_folder, path) = written("d.json", "{}");
    let digest = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    assert_eq!(read_list(&format!("{path}#sha256={digest}"), None, false).unwrap().digests["d.json"], digest);
    let wrong = format!("{path}#sha256={}", "0".repeat(64));
    assert!(read_list(&wrong, None, false).unwrap_err().to_string().contains("is not the pinned one"));
}

#[test]
fn disabled_tests_of_pytorch_are_those_of_their_class_alone() {
    let (_folder, path) = written(
        "disabled.json",
        r#"{"test_a (__main__.TestX)": ["https://i/1", ["rocm"]],
            "test_b (__main__.TestX)": ["7", "https://i/7", []],
            "test_c (__main__.TestX)": ["https://i/2", ["mac"]],
            "test_d (__main__.TestX)": 61.5}"#,
    );
    let rows = read_list(&path, None, false).unwrap().rows;
    let collected =
        ids("test_x.py::TestX::test_a test_x.py::TestX::test_a_cuda_float32 test_x.py::TestX::test_a_long \
         test_x.py::TestXLonger::test_a test_x.py::TestX::test_b test_x.py::TestX::test_c \
         test_x.py::TestX::test_d");
    let verdict = judge(&rows, &collected, &setting());
    let names: Vec<&str> = verdict.tests.keys().map(|id| id.rsplit("::").next().unwrap()).collect();
    assert_eq!(names, ["test_a", "test_a_cuda_float32", "test_b", "test_d"]);
    assert!(verdict.tests["test_x.py::TestX::test_b"].reason.contains("https://i/7"));
    let (_folder, path) = written("wrong.json", r#"{"test_a": []}"#);
    assert!(read_list(&path, None, false).unwrap_err().to_string().contains("test_a"));
}

/// A folder in the form of TheRock's, with lists and sets.
fn therock() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs_err::write(folder.path().join(name), text).unwrap();
    write(
        "generic.py",
        "# a comment\nskip_tests = {\n    \"gfx950\": {\"cuda\": {\"test_bf16\", \"test_fp16\"}},\n    \"common\": {\n        \
         \"torch\": [\n            # why\n            \"test_print\",\n        ],\n    },\n    \"windows\": {\"nn\": \
         [\"test_w\"]},\n}\n",
    );
    write("pytorch_2.12.py", "skip_tests = {\"common\": {\"nn\": [\"test_new\"], \"dynamo\": [\"test_logs\"]}}\n");
    write("create_skip_tests.py", "import argparse\n\ndef main():\n    pass\n");
    folder
}

#[test]
fn lists_of_therock_are_read_without_python() {
    let folder = therock();
    let path = folder.path().display().to_string();
    let list = read_list(&path, Some("2.12"), false).unwrap();
    assert_eq!(list.digests.keys().collect::<Vec<_>>(), ["generic.py", "pytorch_2.12.py"]);
    let collected = ids("test/test_torch.py::TestTorch::test_print test/test_nn.py::TestNN::test_print \
         test/test_torch.py::TestTorch::test_print_all test/test_nn.py::TestNN::test_new \
         test/dynamo/test_misc.py::Misc::test_logs_out test/test_cuda.py::TestCuda::test_bf16 \
         test/test_nn.py::TestNN::test_w");
    let verdict = judge(&list.rows, &collected, &setting());
    let names: Vec<&str> = verdict.tests.keys().map(String::as_str).collect();
    assert_eq!(names, ["test/test_nn.py::TestNN::test_new", "test/test_torch.py::TestTorch::test_print"]);
    assert_eq!(verdict.remarks.len(), 1);
    assert!(verdict.remarks[0].message.contains("test_logs_out"), "{}", verdict.remarks[0].message);
    let mut other = setting();
    other.targets = vec!["gfx950".into()];
    assert!(judge(&list.rows, &collected, &other).tests.contains_key("test/test_cuda.py::TestCuda::test_bf16"));
    assert!(read_list(&path, Some("2.14"), false).unwrap_err().to_string().contains("has no list for version 2.14"));
    let fallback = read_list(&path, Some("2.14"), true).unwrap();
    assert_eq!(fallback.digests["pytorch_2.14.py"], "missing");
}

#[test]
fn the_expression_is_that_of_the_script() {
    let folder = therock();
    let expression =
        |names: &str, version, includes| therock_expression(folder.path(), &ids(names), version, includes).unwrap();
    assert_eq!(expression("common", None, false).unwrap(), "not test_print");
    assert_eq!(
        expression("common gfx950-dcgpu", Some("2.12"), true).unwrap(),
        "test_bf16 or test_fp16 or test_logs or test_new or test_print"
    );
    assert_eq!(expression("other", None, false), None);
}

#[test]
fn words_of_jax_have_exceptions() {
    let text = "skip_tests = {\"gfx94\": {\"keywords\": [{\"deny\": \"conv\", \"unless\": [\"convert\"]}]}}\n";
    let (_folder, path) = written("jax_0.10.1.py", text);
    let rows = read_list(&path, None, false).unwrap().rows;
    let mut setting = setting();
    setting.version = Some("0.10.1".parse().unwrap());
    let collected = ids("t.py::A::testConv2d t.py::A::test_convert t.py::A::test_other");
    let verdict = judge(&rows, &collected, &setting);
    assert_eq!(verdict.tests.keys().collect::<Vec<_>>(), ["t.py::A::testConv2d"]);
    setting.targets = vec!["gfx1100".into()];
    assert!(judge(&rows, &collected, &setting).tests.is_empty());
}

/// Rows without their places, which name other files.
fn contents(rows: &[ListRow]) -> Vec<ListRow> {
    let mut rows: Vec<ListRow> = rows.iter().map(|row| ListRow { place: String::new(), ..row.clone() }).collect();
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

fn losses(lists: &ExportedLists, loss: ExportLoss) -> Vec<&str> {
    lists.remarks.iter().filter(|remark| remark.loss == loss).map(|remark| remark.message.as_str()).collect()
}

fn written_folder(lists: &ExportedLists) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in &lists.files {
        fs_err::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn lists_of_others_are_the_same_after_a_round_trip() {
    let folder = therock();
    let rows = read_list(&folder.path().display().to_string(), Some("all"), false).unwrap().rows;
    let lists = export_therock(&rows, "pytorch");
    assert_eq!(lists.files.keys().collect::<Vec<_>>(), ["generic.py", "pytorch_2.12.py"]);
    assert_eq!(lists.remarks, []);
    let again = written_folder(&lists);
    let read = read_list(&again.path().display().to_string(), Some("all"), false).unwrap().rows;
    assert_eq!(contents(&read), contents(&rows));

    let text = r#"{"test_a (__main__.TestX)": ["https://i/1", ["rocm", "linux"]], "test_b (__main__.TestX)": ["", []],
        "test_c (__main__.Test\"X)": ["7", "https://i/7", []]}"#;
    let (_folder, path) = written("disabled.json", text);
    let rows = read_list(&path, None, false).unwrap().rows;
    let lists = export_disabled(&rows);
    assert_eq!(lists.remarks, []);
    let (_folder, path) = written("again.json", &lists.files[""]);
    assert_eq!(contents(&read_list(&path, None, false).unwrap().rows), contents(&rows));

    let text = "skip_tests = {\"gfx94\": {\"keywords\": [{\"deny\": \"conv\", \"unless\": [\"convert\"]}, {\"deny\": \"x\"}]}}";
    let (_folder, path) = written("jax_0.10.1.py", text);
    let rows = read_list(&path, None, false).unwrap().rows;
    let again = written_folder(&export_therock(&rows, "jax"));
    let path = again.path().join("jax_0.10.1.py").display().to_string();
    assert_eq!(contents(&read_list(&path, None, false).unwrap().rows), contents(&rows));
}

#[test]
fn what_another_form_cannot_say_is_reported() {
    let (_folder, path) = written(
        "own.toml",
        r#"test = [
{ id = "test_torch.py::TestTorch::test_print[cpu]", kind = "skip", reason = "prints \" and a line\nbreak", link = "https://example.org/1", owner = "numerics", expires = 2027-01-31, targets = ["gfx942"], versions = "2.12" },
{ id = "test_torch.py::test_alone", kind = "skip", reason = "r", platforms = ["cuda"] },
{ id = "test_torch.py::TestTorch::test_known", kind = "xfail", reason = "r", owner = "o", expires = 2027-01-31 },
{ glob = "*bfloat16*", expect = 3, kind = "skip", reason = "r", versions = ">=2.12,<2.14" },
]
"#,
    );
    let rows = read_list(&path, None, false).unwrap().rows;
    let json = export_disabled(&rows);
    let missing = losses(&json, ExportLoss::Missing);
    assert_eq!(missing.len(), 3, "{missing:?}");
    assert!(missing[0].starts_with("own.toml, row 2: `test_torch.py::test_alone` has no class"), "{missing:?}");
    assert!(missing[1].contains("is no skip"), "{missing:?}");
    assert_eq!(losses(&json, ExportLoss::Wider).len(), 2);
    assert!(losses(&json, ExportLoss::Fact)[0].contains("reason, owner, expires is lost"), "{json:?}");
    let document: serde_json::Value = serde_json::from_str(&json.files[""]).unwrap();
    assert_eq!(document, serde_json::json!({"test_print (__main__.TestTorch)": ["https://example.org/1", []]}));

    let python = export_therock(&rows, "pytorch");
    assert_eq!(losses(&python, ExportLoss::Missing).len(), 2);
    assert_eq!(losses(&python, ExportLoss::Wider).len(), 3, "{python:?}");
    let text = &python.files["pytorch_2.12.py"];
    assert!(text.contains("\"gfx942\": {\n        \"torch\": [\n"), "{text}");
    assert!(
        text.contains("# prints \" and a line\\nbreak; https://example.org/1; owner: numerics; expires: 2027-01-31"),
        "{text}"
    );
    assert!(python.files["generic.py"].contains("\"test_alone\","));
}

/// TheRock's own lists, if a checkout is at hand (`ROCWHEEL_THEROCK`, as in the real lane).
#[test]
fn the_lists_of_a_checkout_are_read() {
    let Some(checkout) = std::env::var_os("ROCWHEEL_THEROCK") else { return };
    let folder = Path::new(&checkout).join("external-builds/pytorch/skip_tests");
    let list = read_list(&folder.display().to_string(), Some("2.12"), false).unwrap();
    assert!(list.rows.len() > 200, "{}", list.rows.len());
    let all = read_list(&folder.display().to_string(), Some("all"), false).unwrap().rows;
    let lists = export_therock(&all, "pytorch");
    assert_eq!(lists.remarks, []);
    let again = written_folder(&lists);
    assert_eq!(
        contents(&read_list(&again.path().display().to_string(), Some("all"), false).unwrap().rows),
        contents(&all)
    );
}
