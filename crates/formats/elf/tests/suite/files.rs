//! Edits of files in folders, and the effects of single edits.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use positioned_io::ReadAt;
use rocwheel_elf::{Edit, EditOutcome, Elf, Error, NeededEdit, Patched, SearchPath, SearchPathTag, edit_file};

use crate::editing::read;
use crate::fixtures::{Try, Workshop, readelf};

fn set(entries: &[&str]) -> Edit {
    let entries = entries.iter().map(|&entry| entry.to_owned()).collect();
    Edit { search_path: Some(SearchPath::Set(entries)), ..Edit::default() }
}

fn add(entries: &[&str]) -> Edit {
    let entries = entries.iter().map(|&entry| entry.to_owned()).collect();
    Edit { search_path: Some(SearchPath::Add(entries)), ..Edit::default() }
}

fn paths(file: &Path) -> (Option<String>, Option<String>) {
    let found = read(file);
    (found.rpath, found.runpath)
}

#[test]
fn an_edit_leaves_links_modes_and_neighbours_alone() {
    let workshop = Workshop::new();
    let file = workshop.build("real.so", &["-shared", "-fPIC"]);
    let original = fs_err::read(&file).unwrap();
    fs_err::set_permissions(&file, std::fs::Permissions::from_mode(0o751)).unwrap();
    fs_err::hard_link(&file, workshop.path("hard.so")).unwrap();
    rocwheel_system::symlink("real.so", workshop.path("soft.so")).unwrap();
    let entries = || fs_err::read_dir(workshop.path("")).unwrap().count();
    let before = entries();
    assert_eq!(edit_file(&workshop.path("soft.so"), &set(&["/x"])).unwrap(), EditOutcome::Changed);
    assert_eq!(paths(&file).0.as_deref(), Some("/x"));
    assert!(fs_err::symlink_metadata(workshop.path("soft.so")).unwrap().is_symlink());
    assert_eq!(fs_err::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o751);
    assert_eq!(fs_err::read(workshop.path("hard.so")).unwrap(), original);
    assert_eq!(entries(), before);

    let broken = workshop.path("broken.so");
    fs_err::write(&broken, &original[..original.len() / 2]).unwrap();
    let error = edit_file(&broken, &set(&["/x"])).unwrap_err();
    assert_eq!(error.to_string(), format!("could not edit `{}`", broken.display()));
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.starts_with("the file is cut short: its section header table"), "{cause}");
    assert_eq!(fs_err::read(&broken).unwrap(), original[..original.len() / 2]);
    let error = edit_file(&workshop.path("missing.so"), &set(&["/x"])).unwrap_err();
    assert!(error.to_string().starts_with("could not read `"));
    assert_eq!(entries(), before + 1);
}

#[test]
fn the_view_the_copy_and_the_edit_in_place_are_equal() {
    let workshop = Workshop::new();
    for linker in ["bfd", "gold", "lld"] {
        let file = workshop.build("equal.so", &["-shared", "-fPIC", "-g", &format!("-fuse-ld={linker}")]);
        let original = fs_err::read(&file).unwrap();
        let edit = Edit { soname: Some("libequal.so.1".to_owned()), ..set(&["$ORIGIN/a", "$ORIGIN/b"]) };
        let patch = edit.plan(&original).unwrap();
        let view = Patched::new(original.as_slice(), patch.clone());
        let mut through_view = vec![0; view.size() as usize];
        view.read_exact_at(0, &mut through_view).unwrap();
        // Odd positions and lengths cross the borders of the extents.
        for start in (0..view.size()).step_by(977) {
            let mut window = vec![0; 1409.min((view.size() - start) as usize)];
            view.read_exact_at(start, &mut window).unwrap();
            assert_eq!(window, through_view[start as usize..start as usize + window.len()]);
        }
        assert_eq!(view.read_at(view.size(), &mut [0]).unwrap(), 0);
        let mut in_place = original.clone();
        patch.apply(&mut in_place).unwrap();
        assert!(in_place == through_view, "{linker}: in place");
        edit_file(&file, &edit).unwrap();
        assert!(fs_err::read(&file).unwrap() == through_view, "{linker}: through a copy");
    }
}

#[test]
fn search_paths() {
    let workshop = Workshop::new();
    let file = workshop.build("path.so", &["-shared", "-fPIC", "-Wl,-rpath,/a:/b:/a", "-Wl,--enable-new-dtags"]);
    let size = || fs_err::metadata(&file).unwrap().len();
    let before = size();
    let converted = Edit { search_path: Some(SearchPath::Add(Vec::new())), ..Edit::default() };
    let text = |text: &str| Some(text.to_owned());

    edit_file(&file, &add(&["/c:/b", "", "/c"])).unwrap();
    assert_eq!(paths(&file), (text("/a:/b:/c"), None));
    let runpath = Edit { search_path_tag: SearchPathTag::Runpath, ..converted.clone() };
    let grown = size();
    edit_file(&file, &runpath).unwrap();
    assert_eq!(paths(&file), (None, text("/a:/b:/c")));
    edit_file(&file, &converted).unwrap();
    assert_eq!(paths(&file), (text("/a:/b:/c"), None));
    assert_eq!(size(), grown, "a conversion adds nothing");
    assert_eq!(edit_file(&file, &converted).unwrap(), EditOutcome::Unchanged);
    edit_file(&file, &set(&[])).unwrap();
    assert_eq!(paths(&file), (None, None));
    assert_eq!(edit_file(&file, &converted).unwrap(), EditOutcome::Unchanged);
    assert!(before < grown && size() == grown);

    let file = workshop.build("convert.so", &["-shared", "-fPIC", "-Wl,-rpath,/a", "-Wl,--enable-new-dtags"]);
    let before = fs_err::metadata(&file).unwrap().len();
    edit_file(&file, &converted).unwrap();
    assert_eq!(paths(&file), (text("/a"), None));
    assert_eq!(fs_err::metadata(&file).unwrap().len(), before);
}

#[test]
fn names_that_cannot_be_stored() {
    let nothing: Vec<u8> = Vec::new();
    let soname = |name: &str| Edit { soname: Some(name.to_owned()), ..Edit::default() };
    for edit in [
        set(&["/a\0b"]),
        soname(""),
        soname("lib\0.so"),
        Edit { needed: vec![NeededEdit::Add(String::new())], ..Edit::default() },
    ] {
        assert!(matches!(edit.plan(&nothing), Err(Error::Text { .. })), "{edit:?}");
    }
}

#[test]
fn needed_libraries() {
    let workshop = Workshop::new();
    let file = workshop.build("needed.so", &["-shared", "-fPIC"]);
    let edit = |needed: Vec<NeededEdit>| edit_file(&file, &Edit { needed, ..Edit::default() }).unwrap();
    let needed = || read(&file).needed;
    let replace = |from: &str, to: &str| NeededEdit::Replace { from: from.to_owned(), to: to.to_owned() };
    assert_eq!(needed(), ["libfirst.so", "libsecond.so", "libc.so.6", "ld-linux-x86-64.so.2"]);
    assert_eq!(
        edit(vec![NeededEdit::Add("libc.so.6".to_owned()), NeededEdit::Remove("libnone.so".to_owned())]),
        EditOutcome::Unchanged
    );
    assert_eq!(
        edit(vec![replace("libnone.so", "libother.so"), replace("libc.so.6", "libc.so.6")]),
        EditOutcome::Unchanged
    );
    assert_eq!(
        edit(vec![replace("libfirst.so", "libx.so"), replace("libx.so", "libfirst.so")]),
        EditOutcome::Unchanged
    );
    assert_eq!(edit(vec![replace("libfirst.so", "libx.so"), replace("libx.so", "libsecond.so")]), EditOutcome::Changed);
    assert_eq!(needed(), ["libsecond.so", "libc.so.6", "ld-linux-x86-64.so.2"]);
    assert_eq!(read(&file).version_needs[0].library, "libsecond.so");
}

/// Removing a library removes its versions too, at any position in the chain; its symbols then come
/// from other libraries.
#[test]
fn removing_a_versioned_library() {
    let workshop = Workshop::new();
    let provider = ["-shared", "-fPIC", "-o", "deps/libprovider.so", "first.c", "-Wl,-soname,libprovider.so"];
    workshop.tool("gcc", &provider);
    workshop.write("lone.c", "int first(void); int answer(void) { return first() + 27; }\n");
    let edit = Edit {
        needed: vec![NeededEdit::Remove("libfirst.so".to_owned()), NeededEdit::Add("libprovider.so".to_owned())],
        ..set(&["$ORIGIN/deps"])
    };
    for linker in ["bfd", "gold", "lld"] {
        let with = format!("-fuse-ld={linker}");
        let whole = workshop.build("whole.so", &["-shared", "-fPIC", &with]);
        let lone = workshop.path("lone.so");
        workshop
            .tool("gcc", &["-shared", "-fPIC", "-nostdlib", "-o", "lone.so", "lone.c", "-Loriginal", "-lfirst", &with]);
        for (file, kept) in [(whole, 2), (lone, 0)] {
            edit_file(&file, &edit).unwrap();
            for round in ["edited", "stripped"] {
                let found = read(&file);
                assert_eq!(found.version_needs.len(), kept, "{linker} {}", file.display());
                assert!(found.version_needs.iter().all(|need| need.library != "libfirst.so"));
                assert_eq!(readelf(&file).1, "", "{linker} {} {round}", file.display());
                workshop.answer(&file, Try::Library, None).unwrap_or_else(|error| panic!("{linker} {round}: {error}"));
                workshop.tool("strip", &[file.to_str().unwrap()]);
            }
        }
    }
}

/// After a library was renamed, the loader asserts that the version table has the new name.
#[test]
fn replacing_renames_in_the_version_table_only_where_asked() {
    let workshop = Workshop::new();
    let file = workshop.build("versions.so", &["-shared", "-fPIC"]);
    let bytes = fs_err::read(&file).unwrap();
    let replace = NeededEdit::Replace { from: "libfirst.so".to_owned(), to: "libfirst.so.1".to_owned() };
    let patch = Edit { needed: vec![replace], ..Edit::default() }.plan(&bytes).unwrap();
    let found = Elf::read(&Patched::new(bytes.as_slice(), patch)).unwrap().unwrap();
    let libraries: Vec<_> = found.version_needs.iter().map(|need| need.library.as_str()).collect();
    assert_eq!(libraries, ["libfirst.so.1", "ld-linux-x86-64.so.2", "libc.so.6"]);
}
