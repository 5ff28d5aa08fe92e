//! Input: the libraries of the tables, and the text of `rocm_sdk/_dist_info.py`. Output: the text
//! with a list of libraries that is generated from the tables.

use crate::RocmTables;
use crate::rows::LibraryRow;

const BEGIN: &str = "    for library in (\n";
const END: &str = "    )\n}\n";
/// The folder of a wheel's libraries that an entry may omit.
const USUAL_FOLDER: &str = "lib";
/// Folders for which the Python file has constants.
const NAMED_FOLDERS: [(&str, &str); 2] = [("lib/rocm_sysdeps/lib", "_SYSDEPS"), ("lib/host-math/lib", "_HOST_MATH")];

/// The text of `_dist_info.py` with the libraries of the tables that have a short name. A text
/// without such a list, such as TheRock's own, stays unchanged.
pub fn with_libraries(text: &str, tables: &RocmTables) -> String {
    let list = text.find(BEGIN).map(|start| start + BEGIN.len());
    let end = list.and_then(|start| Some(start + text[start..].find(END)?));
    let (Some(start), Some(end)) = (list, end) else { return text.to_owned() };
    if !text[start..end].trim_start().starts_with("LibraryEntry(") {
        return text.to_owned();
    }
    format!("{}{}{}", &text[..start], entries(tables), &text[end..])
}

fn entries(tables: &RocmTables) -> String {
    let mut rows: Vec<(&LibraryRow, &str)> =
        tables.libraries.iter().filter_map(|row| Some((row, row.shortname.as_deref()?))).collect();
    rows.sort_by_key(|(_, name)| tables.shortnames.iter().position(|listed| listed == name).unwrap_or(usize::MAX));
    rows.into_iter().map(|(row, shortname)| entry(row, shortname)).collect()
}

fn entry(row: &LibraryRow, shortname: &str) -> String {
    let distribution = row.distribution.as_deref().unwrap_or_default();
    let package = distribution.strip_prefix("rocm-sdk-").unwrap_or(distribution);
    let file = row.file.clone().unwrap_or_else(|| format!("{}*", row.soname));
    let mut arguments = vec![quoted(shortname), quoted(package), quoted(&file)];
    arguments.extend(row.dll.as_deref().map(quoted));
    let folder = row.directory.as_deref().and_then(|path| path.split_once('/')).map_or(USUAL_FOLDER, |(_, path)| path);
    if folder != USUAL_FOLDER {
        let named = NAMED_FOLDERS.iter().find(|(path, _)| *path == folder);
        arguments
            .push(format!("posix_relpath={}", named.map_or_else(|| quoted(folder), |(_, name)| (*name).to_owned())));
    }
    if row.optional {
        arguments.push("optional=True".to_owned());
    }
    let note = row.dll_note.as_deref().map(|note| format!("        # {note}\n")).unwrap_or_default();
    format!("{note}        LibraryEntry({}),\n", arguments.join(", "))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_python_list_is_made_from_the_rows() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../python/rocm/src/rocm_sdk/_dist_info.py");
        let python = include_str!("../../../../python/rocm/src/rocm_sdk/_dist_info.py");
        let made = with_libraries(python, RocmTables::in_use());
        if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") && made != python {
            #[expect(clippy::disallowed_methods, reason = "a test that writes what it compares")]
            std::fs::write(path, &made).unwrap();
            return;
        }
        assert!(made == python, "INSTA_UPDATE=always writes {path} anew");
    }

    #[test]
    fn a_row_of_a_user_is_in_the_list() {
        let rows = "[[library]]\nsoname = \"libnew.so\"\ndistribution = \"rocm-sdk-libraries\"\n\
                    directory = \"_rocm_sdk_libraries/lib/new\"\nshortname = \"new\"\noptional = true\n";
        let tables = RocmTables::with(&[("mine.toml".into(), rows.into())]).unwrap();
        let made = with_libraries(include_str!("../../../../python/rocm/src/rocm_sdk/_dist_info.py"), &tables);
        let entry =
            "LibraryEntry(\"new\", \"libraries\", \"libnew.so*\", posix_relpath=\"lib/new\", optional=True),\n    )";
        assert!(made.contains(entry), "{made}");
        assert_eq!(with_libraries("for library in (\n    )\n}\n", &tables), "for library in (\n    )\n}\n");
    }
}
