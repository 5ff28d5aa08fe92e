//! Preload lists of frameworks, resolved with the table of libraries in our own packages.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rocwheel_fixtures::TestWheel;
use rocwheel_imports::preload::{Preloads, Resolved};
use rocwheel_loader::site::{PythonEnvironment, Role, Site};
use rocwheel_progress::Silent;

const TABLE: &str = include_str!("../../../../python/rocm/src/rocm_sdk/_dist_info.py");

fn site(folder: &std::path::Path, wheels: &[(&str, &[(&str, &str)])]) -> Site {
    let mut paths = Vec::new();
    for (name, files) in wheels {
        let wheel = TestWheel::new(format!("{}-1-py3-none-any.whl", name.replace('-', "_")));
        paths.push((wheel.files(files.iter().copied()).write(folder), Role::Audited));
    }
    let place = PythonEnvironment::new("3.12".parse().unwrap(), "/p");
    Site::open(&paths, &place, folder, &Silent).unwrap()
}

#[test]
fn a_generated_list_is_resolved_with_the_table_of_the_set() {
    let folder = tempfile::tempdir().unwrap();
    // The form that builds of frameworks write.
    let list = "\ndef initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process(\n        \
        preload_shortnames=['amd_comgr', 'amdhip64', 'hipblas', 'rocm_sysdeps_liblzma', 'rocdxg', 'nonsense'],\n        \
        check_version='7.0.*')\n";
    let other = "import rocm_sdk\nNAMES = ['hiprtc']\nrocm_sdk.initialize_process(preload_shortnames=NAMES)\n\
        rocm_sdk.initialize_process(preload_shortnames=made(), check_version=VERSION)\n\
        import ctypes\nctypes.CDLL('libhsa-runtime64.so.1', mode=ctypes.RTLD_GLOBAL)\nctypes.CDLL(path)\n";
    let site = site(
        folder.path(),
        &[
            ("torch", &[("torch/_rocm_init.py", list), ("torch/__init__.py", "from . import _rocm_init\n")]),
            ("other", &[("other/__init__.py", other), ("other/deep/__init__.py", other)]),
            (
                "rocm-sdk-core",
                &[
                    ("rocm_sdk_core/_dist_info.py", TABLE),
                    ("_rocm_sdk_core/lib/libamdhip64.so.7.1", ""),
                    ("_rocm_sdk_core/lib/libamdhip64.so.7", ""),
                    ("_rocm_sdk_core/lib/libamd_comgr.so.3", ""),
                    ("_rocm_sdk_core/lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5", ""),
                    ("_rocm_sdk_core_more/lib/libhiprtc.so.7", ""),
                ],
            ),
        ],
    );
    let preloads = Preloads::read(&site);
    assert!(preloads.table.len() >= 30, "{}", preloads.table.len());
    assert!(preloads.table["rocdxg"].optional && !preloads.table["amdhip64"].optional);
    let [other, torch] = &preloads.lists[..] else { panic!("{:?}", preloads.lists) };
    let packages = "lib/python3.12/site-packages/";
    assert_eq!((torch.file.as_str(), torch.line), ("lib/python3.12/site-packages/torch/_rocm_init.py", 4));
    assert_eq!(torch.version.as_deref(), Some("7.0.*"));
    let expected = [
        "_rocm_sdk_core/lib/libamd_comgr.so.3",
        "_rocm_sdk_core/lib/libamdhip64.so.7",
        "_rocm_sdk_core/lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5",
    ];
    assert_eq!(torch.files(), expected.map(|path| format!("{packages}{path}")));
    let pattern = "_rocm_sdk_libraries/lib/libhipblas.so*".to_owned();
    assert_eq!(torch.libraries[2].found, Resolved::Absent { pattern, optional: false });
    assert!(matches!(torch.libraries[4].found, Resolved::Absent { optional: true, .. }));
    assert_eq!(torch.libraries[5].found, Resolved::Unknown);
    assert_eq!(other.files(), [format!("{packages}_rocm_sdk_core_more/lib/libhiprtc.so.7")]);
    let unclear: Vec<(usize, &str)> = preloads.unclear.iter().map(|unclear| (unclear.line, unclear.what)).collect();
    assert_eq!(unclear, [(4, "the preload list is not literal")]);
    let ctypes: Vec<_> = preloads.ctypes.iter().map(|load| (load.line, load.name.as_deref())).collect();
    assert_eq!(ctypes, [(6, Some("libhsa-runtime64.so.1")), (7, None)]);
}

#[test]
fn without_a_table_nothing_is_guessed() {
    let folder = tempfile::tempdir().unwrap();
    let list = "rocm_sdk.initialize_process(preload_shortnames=('amdhip64',))\n";
    let site = site(folder.path(), &[("x", &[("x/_rocm_init.py", list), ("_rocm_sdk_core/lib/libamdhip64.so.7", "")])]);
    let preloads = Preloads::read(&site);
    assert_eq!(preloads.lists[0].libraries[0].found, Resolved::NoTable);
    assert_eq!(preloads.lists[0].version, None);
    // A table whose rows are computed.
    let folder = tempfile::tempdir().unwrap();
    let table = "T = [LibraryEntry(name, 'core', 'lib' + name) for name in names]\n";
    let site = self::site(folder.path(), &[("x", &[("x/_rocm_init.py", list), ("x/_dist_info.py", table)])]);
    let preloads = Preloads::read(&site);
    assert_eq!(preloads.unclear[0].what, "a row of the table of libraries is not literal");
}
