//! A user's rows: new ones, ones that change ours, and copies of former tables.

use std::fmt::Debug;

use rocwheel_progress::Failure;
use rocwheel_tables::device_packages::DevicePackages;
use rocwheel_tables::{DlopenTable, Owners, Providers, RocmTables, TargetTable};

fn with(text: &str) -> RocmTables {
    try_with(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn try_with(text: &str) -> Result<RocmTables, Failure> {
    RocmTables::with(&[("mine.toml".to_owned(), text.to_owned())])
}

fn same(left: &impl Debug, right: &impl Debug) -> bool {
    format!("{left:?}") == format!("{right:?}")
}

#[test]
fn a_target_and_a_library_are_a_row_each() {
    let tables = with(
        "[[target]]\nname = \"gfx1300\"\nproduct = \"New\"\nfamilies = [\"dgpu-all\"]\npackage = \"gfx12\"\n\
         [[library]]\nsoname = \"librocnew.so\"\ndistribution = \"rocm-sdk-libraries\"\n\
         directory = \"_rocm_sdk_libraries/lib\"\nshortname = \"rocnew\"\nloads = [\"librccl.so.*\"]\n",
    );
    let targets = TargetTable::of(&tables);
    assert_eq!(targets.members("dgpu-all").last(), Some(&"gfx1300"));
    assert_eq!(targets.expand("gfx1300:xnack+").unwrap(), ["gfx1300:xnack+"]);
    assert_eq!(DevicePackages::of(&tables).chain("gfx1300"), ["gfx1300", "gfx12"]);
    let providers = Providers::of_tables(&tables);
    assert_eq!(providers.of("librocnew.so.1").unwrap().shortname.as_deref(), Some("rocnew"));
    let loads = DlopenTable::of_tables(&tables);
    assert!(loads.of("librocnew.so.1")[0].required);
    assert_eq!(tables.sources("library", "librocnew.so"), ["mine.toml"]);
}

#[test]
fn a_row_changes_only_what_it_names() {
    let tables = with("[[target]]\nname = \"gfx942\"\nproduct = \"Mine\"\n");
    let targets = TargetTable::of(&tables);
    let changed = targets.get("gfx942").unwrap();
    assert_eq!((changed.product.as_str(), changed.llvm), ("Mine", Some(17)));
    assert_eq!(changed.families, ["dcgpu-all", "gfx94X-all", "gfx94X-dcgpu"]);
    assert_eq!(tables.sources("target", "gfx942"), ["data/targets.toml", "mine.toml"]);
    let tables = with("[[library]]\nsoname = \"librccl.so\"\ndistribution = \"amd-rccl\"\n");
    let rccl = Providers::of_tables(&tables);
    let rccl = rccl.of("librccl.so.1").unwrap();
    assert_eq!(rccl.distribution.as_deref(), Some("amd-rccl"));
    assert_eq!(rccl.directory.as_deref(), Some("_rocm_sdk_libraries/lib"));
}

#[test]
fn what_cannot_be_a_row_is_named() {
    for (text, message) in [
        (
            "[[library]]\nsoname = \"liba.so\"\nsohname = 1\n",
            "could not understand the row `liba.so` of `library` in `mine.toml`",
        ),
        (
            "[[target]]\nname = \"gfx1300\"\nllvm = \"x\"\n",
            "could not understand the row `gfx1300` of `target` in `mine.toml`",
        ),
        ("[[target]]\nproduct = \"x\"\n", "a row of `target` in `mine.toml` has no `name`"),
        ("[[colour]]\nname = \"red\"\n", "`mine.toml` has `colour`, which is the name of no table"),
        ("library = 3\n", "`library` in `mine.toml` is not a list of rows"),
        ("[[target\n", "could not read the tables in `mine.toml`"),
        ("[[target]]\nname = \"a\"\n[[target]]\nname = \"a\"\n", "`mine.toml` has two rows `a` in `target`"),
        ("[[target]]\nname = \"a\"\npackage = \"b\"\n", "the row `a` of `target` has the package `b`, which is no row"),
        ("[[library]]\nsoname = \"a\"\nowner = \"b\"\n", "the row `a` of `library` has the owner `b`, which is no row"),
        (
            "[[database]]\nname = \"a\"\nrule = [{ path = \"(\" }]\n",
            "could not compile the expression `(` of the kernel databases",
        ),
        ("driver = [\"[\"]\n", "could not understand a name of a DLL in the tables"),
    ] {
        let error = try_with(text).unwrap_err();
        assert_eq!(error.to_string(), message, "{text}");
        assert_eq!(error.exit(), rocwheel_progress::Exit::Usage);
    }
    let error = try_with("[[colour]]\nname = \"red\"\n").unwrap_err();
    assert!(error.hint().unwrap().contains("`[[target]]`"));
}

/// The tables at commit 653a1a4, before every fact had a single row.
const FORMER: [(&str, &str); 10] = [
    ("targets.toml", include_str!("former/targets.toml")),
    ("generic-targets.toml", include_str!("former/generic-targets.toml")),
    ("amdgpu-machines.toml", include_str!("former/amdgpu-machines.toml")),
    ("package-families.toml", include_str!("former/package-families.toml")),
    ("providers.toml", include_str!("former/providers.toml")),
    ("dlopen.toml", include_str!("former/dlopen.toml")),
    ("library-owners.toml", include_str!("former/library-owners.toml")),
    ("windows-libraries.toml", include_str!("former/windows-libraries.toml")),
    ("kernel-databases.toml", include_str!("former/kernel-databases.toml")),
    ("artifact-licenses.toml", include_str!("former/artifact-licenses.toml")),
];

#[test]
fn former_tables_say_what_ours_say() {
    let ours = RocmTables::with(&[]).unwrap();
    for (name, text) in FORMER {
        let read =
            RocmTables::with(&[(name.to_owned(), text.to_owned())]).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(same(&TargetTable::of(&ours), &TargetTable::of(&read)), "{name}");
        assert!(same(&DevicePackages::of(&ours), &DevicePackages::of(&read)), "{name}");
        assert!(same(&Providers::of_tables(&ours), &Providers::of_tables(&read)), "{name}");
        assert!(same(&DlopenTable::of_tables(&ours), &DlopenTable::of_tables(&read)), "{name}");
        assert!(same(&ours.databases(), &read.databases()), "{name}");
        assert!(same(&ours.artifacts(), &read.artifacts()), "{name}");
        for (table, _) in rocwheel_tables::KEYS {
            let keys =
                |tables: &RocmTables| tables.rows(table).into_iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
            assert_eq!(keys(&ours), keys(&read), "{name} has rows of `{table}` that ours lack");
        }
        let (our_owners, owners) = (Owners::of_tables(&ours), Owners::of_tables(&read));
        for library in ["librocprofiler-x.so.1", "libmigraphx_c.so", "libtorch_cpu.so", "libcudnn.so.9", "libz.so.1"] {
            assert_eq!(our_owners.of(library).map(|owner| &owner.name), owners.of(library).map(|owner| &owner.name));
        }
    }
}

#[test]
fn a_change_in_a_former_table_is_a_change() {
    let text = "[[provider]]\nkind = \"rocm\"\ndistribution = \"rocm-sdk-core\"\ndirectory = \"_rocm_sdk_core/lib\"\n\
                libraries = [{ family = \"libmine.so\", shortname = \"mine\" }]\n";
    assert!(Providers::of_tables(&with(text)).of("libmine.so.2").is_some());
    let loads = with("[[loader]]\nlibrary = \"librccl.so.*\"\nrequired = [\"libmine.so.*\"]\n");
    assert!(
        DlopenTable::of_tables(&loads)
            .of("librccl.so.1")
            .iter()
            .any(|load| load.required && load.matches("libmine.so.2"))
    );
    let script = with("[[loader]]\nlibrary = \"mine.py\"\nrequired = [\"librccl.so.*\"]\n");
    assert!(DlopenTable::of_tables(&script).of("mine.py")[0].required);
    let generic = with("gfx13-generic = [\"gfx1300\"]\n");
    assert_eq!(DevicePackages::of(&generic).runs("gfx13-generic"), ["gfx1300"]);
    let owner = with("[owner]\ngfx1300-strict = \"gfx1300\"\n");
    assert_eq!(DevicePackages::of(&owner).key("gfx1300-strict"), "gfx1300");
}
