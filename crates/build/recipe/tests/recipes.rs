//! The evaluated form of every built-in recipe, on Linux and on Windows.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

use std::collections::BTreeMap;

use insta::assert_snapshot;
use rocwheel_progress::Hint as _;
use rocwheel_recipe::{
    Book, BuildPurpose, Cell, ChosenBy, CompilerCache, Error, Evaluated, Platform, Switch, evaluate, script,
};

/// A cell in which nothing depends on the machine.
fn cell(platform: Platform, backend: Option<&str>) -> Cell {
    Cell {
        python: Some("3.12".parse().unwrap()),
        rocm: Some("7.2.1".into()),
        backend: backend.map(str::to_owned),
        targets: vec!["gfx942".into(), "gfx1100".into()],
        chosen_by: ChosenBy::User,
        ..Cell::new(platform)
    }
}

/// The same cell with a torch to build against.
fn with_torch() -> Cell {
    let (torch, torch_index) = (Some("2.5.1".into()), Some("index".into()));
    Cell { torch, torch_index, ..cell(Platform::Linux, None) }
}

fn evaluated(recipe: &str, cell: &Cell) -> Result<Evaluated, Error> {
    let book = Book::built_in().unwrap();
    evaluate(book.get(recipe).unwrap(), &book, cell)
}

fn text(recipe: &str, cell: &Cell) -> String {
    script::text(&evaluated(recipe, cell).unwrap())
}

fn after(names: &[&str], cell: Cell) -> Cell {
    Cell { with: names.iter().map(|&name| name.to_owned()).collect(), ..cell }
}

#[test]
fn frameworks_on_linux() {
    let linux = || cell(Platform::Linux, None);
    assert_snapshot!("triton_linux", text("triton", &linux()));
    assert_snapshot!("torch_linux", text("torch", &after(&["triton"], linux())));
    assert_snapshot!("torchvision_linux", text("torchvision", &after(&["triton", "torch"], linux())));
    assert_snapshot!("torchaudio_linux", text("torchaudio", &after(&["triton", "torch"], linux())));
    assert_snapshot!("apex_linux", text("apex", &after(&["triton", "torch"], linux())));
}

#[test]
fn frameworks_on_windows() {
    let windows = || cell(Platform::Windows, None);
    assert_snapshot!("triton_windows", text("triton", &windows()));
    assert_snapshot!("torch_windows", text("torch", &windows()));
    assert_snapshot!("torchvision_windows", text("torchvision", &after(&["torch"], windows())));
    assert_snapshot!("torchaudio_windows", text("torchaudio", &after(&["torch"], windows())));
    for recipe in ["apex", "flash-attn", "magma"] {
        let error = evaluated(recipe, &windows()).unwrap_err();
        assert_eq!(error.to_string(), format!("{recipe} cannot be built for windows"));
    }
}

#[test]
fn flash_attention_for_both_backends() {
    let of = |backend| Cell {
        torch: Some("2.9.1".into()),
        torch_index: Some("https://example.org/rocm7.2".into()),
        version: Some("2.8.3".into()),
        targets: Vec::new(),
        chosen_by: ChosenBy::Recipe,
        ..cell(Platform::Linux, Some(backend))
    };
    assert_snapshot!("flash_attn_ck", text("flash-attn", &of("ck")));
    assert_snapshot!("flash_attn_triton", text("flash-attn", &of("triton")));
    let new = Cell { torch: Some("2.14".into()), ..of("ck") };
    assert!(text("flash-attn", &new).contains("-std=c++20"));
    let cached = Cell { compiler_cache: CompilerCache::Ccache, ..of("ck") };
    assert!(text("flash-attn", &cached).contains("export PYTORCH_NVCC=\"ccache ${ROCM_BIN}/hipcc\""));
    // Targets that a release does not know yet are refused before it compiles for an hour.
    let old = |target: &str| Cell { version: Some("2.7.4.post1".into()), targets: vec![target.to_owned()], ..of("ck") };
    let error = evaluated("flash-attn", &old("gfx950")).unwrap_err();
    assert!(error.to_string().contains("gfx950"), "{error}");
    assert!(text("flash-attn", &old("gfx940")).contains("GPU_ARCHS=gfx940"));
    let newer = Cell { targets: vec!["gfx950".into()], ..of("ck") };
    assert!(text("flash-attn", &newer).contains("GPU_ARCHS=gfx950"));
}

#[test]
fn magma_for_a_rocm_that_its_name_says() {
    let cell = Cell {
        rocm: Some("6.3".into()),
        targets: Vec::new(),
        chosen_by: ChosenBy::Recipe,
        ..cell(Platform::Linux, None)
    };
    assert_snapshot!("magma_linux", text("magma", &cell));
    // Without known GPU targets too: these features do not depend on them.
    let open = Cell {
        features: BTreeMap::from([("openblas".to_owned(), Switch::On), ("unoptimized".to_owned(), Switch::On)]),
        chosen_by: ChosenBy::Rocm,
        ..cell
    };
    let script = text("magma", &open);
    assert!(script.contains("make.inc.hip-gcc-openblas"), "{script}");
    assert!(!script.contains("MKL") && script.contains("-O0"), "{script}");
}

/// The lines that are only in `new`, and those that are only in `old`.
fn difference(old: &str, new: &str) -> String {
    let lines = |text: &str, other: &str, sign: &str| -> String {
        text.lines()
            .filter(|line| !other.lines().any(|other| other == *line))
            .map(|line| format!("{sign}{line}\n"))
            .collect()
    };
    lines(old, new, "-") + &lines(new, old, "+")
}

#[test]
fn the_cpu_backend_differs_in_few_lines() {
    let mut all = String::new();
    for recipe in ["torchvision", "torchaudio"] {
        // ROCm's layer, which every GPU recipe has, is left out of the comparison.
        let of = |backend| after(&["torch"], cell(Platform::Linux, Some(backend)));
        let recipes = [evaluated(recipe, &of("rocm")).unwrap(), evaluated(recipe, &of("cpu")).unwrap()];
        assert!(recipes[0].sdk && !recipes[1].sdk);
        let [rocm, cpu] = recipes.map(|mut recipe| {
            recipe.environment.retain(|block| {
                !block.set.values().chain(block.prepend.values()).any(|value| value.contains("rocm."))
                    && !block.set.contains_key("CXXFLAGS")
            });
            script::text(&recipe)
        });
        all.push_str(&difference(&rocm, &cpu));
    }
    assert_snapshot!("cpu_backend", all);
}

fn switches(names: &[&str], switch: Switch) -> BTreeMap<String, Switch> {
    names.iter().map(|name| ((*name).to_owned(), switch)).collect()
}

#[test]
fn options_change_what_they_say_and_nothing_else() {
    let plain = text("torch", &cell(Platform::Linux, None));
    let of = |cell: Cell| difference(&plain, &text("torch", &cell));
    let linux = || cell(Platform::Linux, None);
    let mut all = String::new();
    for (what, cell) in [
        ("ccache", Cell { compiler_cache: CompilerCache::Ccache, ..linux() }),
        ("sccache", Cell { compiler_cache: CompilerCache::Sccache, ..linux() }),
        ("sccache-no-wrap", Cell { compiler_cache: CompilerCache::SccacheNoWrap, ..linux() }),
        ("dev", Cell { release: BuildPurpose::Dev, ..linux() }),
        ("suffix", Cell { label: Some("rocm7.2.1".into()), ..linux() }),
        ("clean", Cell { clean: Switch::On, ..linux() }),
        ("develop", Cell { mode: rocwheel_recipe::BuildMode::Develop, ..linux() }),
        ("after triton", after(&["triton"], linux())),
        ("an installed ROCm", Cell { sdk: rocwheel_recipe::SdkKind::Prefix, ..linux() }),
        ("without parts", Cell { features: switches(&["fbgemm", "qnnpack"], Switch::Off), ..linux() }),
        ("unoptimized", Cell { features: switches(&["unoptimized"], Switch::On), ..linux() }),
        ("asan", Cell { features: switches(&["asan"], Switch::On), ..linux() }),
        ("2.7", Cell { version: Some("2.7.1".into()), ..linux() }),
    ] {
        all.push_str(&format!("== {what}\n{}", of(cell)));
    }
    assert_snapshot!("torch_options", all);
}

#[test]
fn every_combination_of_every_recipe_is_right() {
    let book = Book::built_in().unwrap();
    let mut cells = 0;
    for entry in book.entries() {
        cells += rocwheel_recipe::check(entry, &book).unwrap_or_else(|error| panic!("{}: {error}", entry.path));
    }
    assert!(cells > 1000, "{cells}");
}

#[test]
fn what_nobody_said_is_asked_for() {
    let linux = || cell(Platform::Linux, None);
    let cases = [
        (
            "flash-attn",
            Cell { version: Some("2.8.3".into()), ..linux() },
            "cannot be built for gfx1100",
            "it can be built for gfx90a",
        ),
        (
            "flash-attn",
            Cell { version: Some("2.7.4".into()), ..linux() },
            "cannot be built for gfx1100",
            "gfx1030 and gfx1100: `--backend triton`",
        ),
        ("flash-attn", Cell { targets: Vec::new(), ..linux() }, "which torch it is for", "--torch 2.9.1"),
        (
            "flash-attn",
            Cell { backend: Some("triton".into()), rocm: None, torch: Some("2.9".into()), ..linux() },
            "needs to know the version of ROCm",
            "--rocm",
        ),
        ("flash-attn", Cell { backend: Some("tritn".into()), ..linux() }, "no backend `tritn`", "`triton`"),
        (
            "torch",
            Cell { features: [("flash-atention".to_owned(), Switch::On)].into(), ..linux() },
            "no feature",
            "`flash-attention`",
        ),
        (
            "torch",
            Cell { features: [("flash-attention".to_owned(), Switch::On)].into(), ..linux() },
            "needs triton",
            "triton torch",
        ),
        ("torch", Cell { label: Some("a+b".into()), ..linux() }, "cannot be the local part", "PEP 440"),
        ("torch", Cell { rocm: Some("seven".into()), ..linux() }, "`seven` is not a version of ROCm", ""),
        ("torchvision", linux(), "torchvision needs torch", "rocwheel build torch torchvision"),
    ];
    for (recipe, cell, words, hint) in cases {
        let error = evaluated(recipe, &cell).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.hint().unwrap_or_default().contains(hint), "{:?}", error.hint());
        assert_eq!(error.exit(), rocwheel_progress::Exit::Usage, "{error}");
    }
    let machine = Cell { chosen_by: ChosenBy::Machine, targets: vec!["gfx1030".into()], ..linux() };
    let error = evaluated("flash-attn", &machine).unwrap_err();
    assert_eq!(error.to_string(), "flash-attn cannot be built for gfx1030, which this machine has");
}

#[test]
fn the_list_of_a_recipe_is_cut_to_what_the_compiler_knows() {
    let linux = |recipe: &str, rocm: &str| {
        let llvm = rocwheel_recipe::matrix::FrameworkTable::built_in().unwrap().llvm(rocm);
        let cell =
            Cell { chosen_by: ChosenBy::Recipe, targets: Vec::new(), rocm: Some(rocm.into()), llvm, ..with_torch() };
        evaluated(recipe, &cell).unwrap().targets.names.join(" ")
    };
    // The examples in flash-attn's and MAGMA's own documents: clang 18 does not know gfx950.
    assert_eq!(linux("flash-attn", "6.2"), "gfx90a gfx942");
    assert_eq!(linux("flash-attn", "7.0"), "gfx90a gfx942 gfx950");
    let magma = "gfx900 gfx906 gfx908 gfx90a gfx942 gfx1030 gfx1100 gfx1101 gfx1102";
    assert_eq!(linux("magma", "6.1"), format!("{magma} gfx1103 gfx1150 gfx1151"));
    assert_eq!(linux("magma", "6.3"), format!("{magma} gfx1103 gfx1150 gfx1151 gfx1200 gfx1201"));
    // A ROCm that the table does not know has all targets.
    assert!(linux("magma", "9.9").contains("gfx950"));
    // Targets that the user names are left to the compiler.
    let named = Cell { llvm: Some(18), targets: vec!["gfx950".into()], ..with_torch() };
    assert_eq!(evaluated("flash-attn", &named).unwrap().targets.names, ["gfx950"]);
}

#[test]
fn an_image_says_which_targets_are_built() {
    let of_image = |recipe: &str, targets: &[&str]| {
        let targets = targets.iter().map(|&name| name.to_owned()).collect();
        let cell = Cell { chosen_by: ChosenBy::Image, targets, ..with_torch() };
        let targets = evaluated(recipe, &cell).unwrap().targets;
        (targets.names.join(" "), targets.chosen_by)
    };
    assert_eq!(of_image("magma", &["gfx906", "gfx1103"]), ("gfx906 gfx1103".into(), ChosenBy::Image));
    assert_eq!(of_image("flash-attn", &["gfx906", "gfx90a"]), ("gfx90a".into(), ChosenBy::Image));
    assert_eq!(of_image("flash-attn", &["gfx906"]), ("gfx90a gfx942 gfx950".into(), ChosenBy::Recipe));
}

#[test]
fn wrong_recipes_are_refused_with_the_nearest_name() {
    let mut book = Book::built_in().unwrap();
    let small = book.get("apex").unwrap().text.replace("name = \"apex\"", "name = \"mine\"");
    let mut wrong = |from: &str, to: &str| {
        assert!(small.contains(from), "{from}");
        let name = book.add("mine.toml".into(), small.replacen(from, to, 1));
        name.and_then(|name| {
            let entry = book.get(&name)?.clone();
            rocwheel_recipe::check(&entry, &book)
        })
        .unwrap_err()
    };
    for (from, to, words, hint) in [
        ("${version}", "${verson}", "there is no `${verson}`", "did you mean `version`?"),
        ("${version}", "${version", "has no `}`", ""),
        (
            "layers = [\"compilers\"",
            "layers = [\"compiler\"",
            "there is no layer `compiler`",
            "did you mean `compilers`?",
        ),
        ("after = [\"torch\"]", "after = [\"trch\"]", "there is no recipe `trch`", "did you mean `torch`?"),
        ("when = { clean = \"on\" }", "when = { claen = \"on\" }", "no condition `claen`", "did you mean `clean`?"),
        ("when = { clean = \"on\" }", "when = { clean = \"yes\" }", "cannot be `yes`", "`on`, `off`"),
        ("when = { clean = \"on\" }", "when = { clean = \"off\" }", "two steps `clean` apply at once", ""),
        ("${label}", "${version}", "where the version is not known", ""),
        (
            "backends = [\"rocm\"]",
            "backends = [\"rocm\"]\nwithout-sdk = [\"rocm\"]\nneeds-x = 1",
            "unknown field `needs-x`",
            "`needs`",
        ),
    ] {
        let error = wrong(from, to);
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.hint().unwrap_or_default().contains(hint), "{error}: {:?}", error.hint());
    }
}
