use super::*;
use crate::Book;
use crate::cell::Switch;
use crate::evaluate::evaluate;
use crate::matrix::{CellStatus, Matrix, MatrixQuery, MatrixRow, make};

fn matrix(recipe: &str, platform: Platform, wheels: &[&str]) -> Matrix {
    let wanted = MatrixQuery { recipes: vec![recipe.into()], platforms: vec![platform], ..MatrixQuery::default() };
    let wheels: Vec<String> = wheels.iter().map(|name| (*name).to_owned()).collect();
    make(&FrameworkTable::built_in().unwrap(), &Book::built_in().unwrap(), &wanted, &wheels).unwrap()
}

#[test]
fn what_follows_torch_is_for_the_rocm_and_the_python_of_that_torch() {
    let wheels = ["torchvision-0.25.3+rocm7.1-cp312-cp312-manylinux_2_28_x86_64.whl"];
    let there = matrix("torchvision", Platform::Linux, &wheels);
    let cells: Vec<_> = there.rows.iter().filter(|row| row.status == CellStatus::Exists).collect();
    assert_eq!((cells.len(), cells[0].point.torch.as_deref()), (1, Some("2.10")), "a later patch release counts");
    for (version, rocm, python, reason) in [
        ("0.24.1", "7.1", "3.12", Some("torch 2.9 is not for ROCm 7.1, but for 6.3, 6.4, 7.2")),
        ("0.22.1", "6.3", "3.14", Some("torch 2.7 is for Python 3.9 to 3.13")),
        ("0.22.1", "6.3", "3.12", None),
    ] {
        let mut rows = there.rows.iter().filter(|row| row.point.version == version && row.point.rocm == rocm);
        let row = rows.find(|row| row.point.python.is_some_and(|known| known.to_string() == python)).unwrap();
        assert_eq!(row.reason.as_deref(), reason);
    }
    // One triton serves two versions of torch, and is in the matrix for both.
    let triton = matrix("triton", Platform::Linux, &["triton-3.6.0+rocm7.1-cp312-cp312-linux_x86_64.whl"]);
    let torches = triton.rows.iter().filter(|row| row.status == CellStatus::Exists);
    let torches: Vec<_> = torches.filter_map(|row| row.point.torch.as_deref()).collect();
    assert_eq!(torches, ["2.10", "2.11"]);
}

#[test]
fn windows_is_an_axis_of_its_own() {
    let wheels = ["torch-2.9.1+rocm7.2-cp312-cp312-win_amd64.whl", "torch-2.10.0+rocm7.1-cp312-cp312-linux_x86_64.whl"];
    let windows = matrix("torch", Platform::Windows, &wheels);
    let there: Vec<_> = windows.rows.iter().filter(|row| row.status == CellStatus::Exists).collect();
    assert_eq!((there.len(), there[0].point.version.as_str()), (1, "2.9"));
    let old = windows.rows.iter().filter(|row| ["2.7", "2.8"].contains(&row.point.version.as_str()));
    assert!(old.clone().count() > 0 && old.clone().all(|row| row.status == CellStatus::Excluded));
    assert!(matrix("flash-attn", Platform::Windows, &[]).rows.is_empty());
    let (table, book) = (FrameworkTable::built_in().unwrap(), Book::built_in().unwrap());
    let reason = Some("torch can be built for Windows from 2.9 on");
    for (recipe, platform, reason) in [
        ("torch", Platform::Windows, reason),
        ("torchvision", Platform::Windows, reason),
        ("torch", Platform::Linux, None),
    ] {
        let cell = Cell {
            torch: Some("2.7.1".into()),
            with: ["torch".to_owned()].into(),
            targets: vec!["gfx1100".into()],
            ..Cell::new(platform)
        };
        let evaluated = evaluate(book.get(recipe).unwrap(), &book, &cell).unwrap();
        let why = table.why_not(&evaluated, ChosenBy::User).unwrap();
        assert_eq!(why.as_ref().map(WhyNot::reason), reason, "{recipe}");
    }
}

#[test]
fn a_torch_that_is_installed_already_need_not_be_in_an_index() {
    let (table, book) = (FrameworkTable::built_in().unwrap(), Book::built_in().unwrap());
    for (system_packages, backend, reason) in [
        (Switch::Off, "ck", Some("torch 2.9 is not for ROCm 7.1, but for 6.3, 6.4")),
        (Switch::Off, "triton", None),
        (Switch::On, "ck", None),
    ] {
        let cell = Cell {
            torch: Some("2.9.1".into()),
            rocm: Some("7.1.1".into()),
            version: Some("2.8.3".into()),
            backend: Some(backend.into()),
            torch_index: Some(table.torch_index(Some("2.9.1"), "7.1.1")),
            system_packages,
            ..Cell::new(Platform::Linux)
        };
        let evaluated = evaluate(book.get("flash-attn").unwrap(), &book, &cell).unwrap();
        let why = table.why_not(&evaluated, ChosenBy::User).unwrap();
        assert_eq!(why.as_ref().map(WhyNot::reason), reason, "{backend}");
    }
}

#[test]
fn the_index_is_that_of_the_torch() {
    let table = FrameworkTable::built_in().unwrap();
    for (torch, rocm, index) in [
        ("2.5.1", "6.2", "rocm6.2"),
        ("2.5.1", "6.2.4", "rocm6.2"),
        ("2.6.0", "6.1", "rocm6.1"),
        ("2.6.0", "6.2", "rocm6.2.4"),
        ("2.6", "6.2.0", "rocm6.2.4"),
        ("2.7.1", "6.2", "rocm6.2.4"),
        ("2.9.1", "6.4.2", "rocm6.4"),
        ("2.15.0", "10.0", "rocm10.0"),
        // The table may be older than either.
        ("2.99.0", "6.2.4", "rocm6.2"),
        ("2.6.0", "9.9", "rocm9.9"),
        ("2.7.0.dev20250101", "6.2", "nightly/rocm6.2"),
    ] {
        let expected = format!("https://download.pytorch.org/whl/{index}");
        assert_eq!(table.torch_index(Some(torch), rocm), expected, "torch {torch}, ROCm {rocm}");
    }
}

#[test]
fn each_torch_has_a_triton_and_flash_attention_may_not_go_with_it() {
    let table = FrameworkTable::built_in().unwrap();
    assert!(table.torch.iter().all(|torch| table.triton(&torch.version).is_some()));
    assert_eq!(table.triton("2.5.1").as_deref(), Some("3.1"));
    assert_eq!(table.triton("2.99"), None);
    for (version, torch, triton) in [
        ("2.8.3", "2.5.1", Some("3.1")),
        ("2.8.3", "2.15.0", Some("3.9")),
        ("2.8.3", "2.6.0", None),
        ("2.8.3", "2.14", None),
        ("2.7.4", "2.5.1", None),
        ("2.8.4", "2.15", None),
    ] {
        let cell = Cell {
            version: Some(version.into()),
            torch: Some(torch.into()),
            rocm: Some("7.14".into()),
            backend: Some("triton".into()),
            ..Cell::new(Platform::Linux)
        };
        let reason = triton.map(|triton| {
            format!("flash-attn 2.8 cannot be imported beside triton {triton}, which this torch requires")
        });
        assert_eq!(table.excludes("flash-attn", &cell).unwrap(), reason, "{version}, {torch}");
    }
}

#[test]
fn a_table_without_an_index_adds_rows() {
    let text = "schema = 1\n[[rocm]]\nversion = \"7.3\"\n[[rocm]]\nversion = \"6.1\"\nllvm = 99";
    let table = FrameworkTable::parse(text, "my.toml").unwrap();
    let versions = table.rocm_versions();
    assert_eq!(versions[versions.len() - 5..], ["7.2", "7.3", "7.14", "10.0", "10.1"]);
    assert_eq!((table.llvm("6.1"), table.llvm("6.2")), (Some(99), Some(18)));
    assert_eq!(table.torch_index(None, "7.3"), "https://download.pytorch.org/whl/rocm7.3");
    let whole = format!("{text}\n[torch-index]\nrelease = \"r\"\nnightly = \"n\"");
    assert_eq!(FrameworkTable::parse(&whole, "my.toml").unwrap().rocm_versions(), ["7.3", "6.1"]);
}

#[test]
fn free_threaded_pythons_are_an_axis() {
    let statuses = [("2.10", "3.13t"), ("2.10", "3.13"), ("2.13", "3.14t")]
        .map(|(version, python)| rows_of("torch", "rocm", version, python)[0].status);
    assert_eq!(statuses, [CellStatus::Exists, CellStatus::Missing, CellStatus::Missing]);
    let reason = rows_of("torch", "rocm", "2.13", "3.13t")[0].reason.clone();
    assert_eq!(reason.as_deref(), Some("torch 2.13 is not for Python 3.13t"));
    let rows = rows_of("flash-attn", "ck", "2.8.3", "3.14t");
    let row = rows.iter().find(|row| row.point.torch.as_deref() == Some("2.12")).unwrap();
    assert_eq!(row.reason.as_deref(), Some("PyTorch has no free-threaded wheels for ROCm"));
    let wrong = BUILT_IN.replace("\"free-threaded\"", "\"free-thraeded\"");
    assert!(FrameworkTable::parse(&wrong, "mine.toml").unwrap_err().to_string().contains("is no specifier"));
}

fn rows_of(recipe: &str, backend: &str, version: &str, python: &str) -> Vec<MatrixRow> {
    let wanted = MatrixQuery {
        recipes: vec![recipe.into()],
        backends: vec![backend.into()],
        versions: vec![version.into()],
        python: vec![python.parse().unwrap()],
        ..MatrixQuery::default()
    };
    let wheel = "torch-2.10.0+rocm7.1-cp313-cp313t-linux_x86_64.whl".to_owned();
    let table = FrameworkTable::built_in().unwrap();
    let matrix = make(&table, &Book::built_in().unwrap(), &wanted, &[wheel]).unwrap();
    matrix.rows.into_iter().filter(|row| row.point.rocm == "7.1").collect()
}
