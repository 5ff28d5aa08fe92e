//! Input: a CMake or pkg-config file with its old and new path. Output: its text for the new path.
//!
//! Flattening `lib/<architecture>` removes one level between a file and the prefix, moves libraries
//! and makes absolute paths wrong. The rules undo exactly that:
//!
//! 1. `${…DIR…}/../../../..` and runs of `get_filename_component(X "${X}" PATH)` that climb from
//!    the file's old path to its prefix climb from its new path to the new prefix; other lengths
//!    are left alone;
//! 2. the block that returns to the original prefix (`_realOrig`) is removed, and an absolute
//!    `_IMPORT_PREFIX` becomes relative to the file;
//! 3. `lib/<architecture>/…` is replaced by its path after flattening;
//! 4. the table's own replacements, which are particular to one file, are made;
//! 5. pkg-config: `prefix` is relative to the file, and the other directories are relative to
//!    `prefix`.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::table::Table;

/// `true` if the file at `path` (flattened) is a CMake or pkg-config file, which these rules are
/// for.
pub(crate) fn is_candidate(path: &str) -> bool {
    match path.rsplit('.').next() {
        Some("cmake") => path.contains("/cmake/"),
        _ => is_pkg_config(path),
    }
}

fn is_pkg_config(path: &str) -> bool {
    path.rsplit('.').next() == Some("pc") && path.contains("/pkgconfig/")
}

/// `input` is the old path of the file, `path` that in the flattened tree.
pub(crate) fn rewrite(table: &Table, input: &str, path: &str, text: &str) -> String {
    let prefix = old_prefix(table, input, path);
    let of_prefix = if prefix.is_empty() { 0 } else { prefix.matches('/').count() + 1 };
    let (old, new) = (input.matches('/').count() - of_prefix, path.matches('/').count());
    if is_pkg_config(path) {
        return pkg_config(table, prefix, new, text);
    }
    let here = format!("${{CMAKE_CURRENT_LIST_DIR}}{}", "/..".repeat(new));
    let text = drop_original_prefix(text);
    let text = climbs(&text, old, new);
    let text = components(&text, old, new);
    let text = absolute_prefix(table, prefix, &here, &text);
    let mut text = architecture(table, prefix, &text);
    for replacement in table.replacements(path) {
        text = text.replace(&replacement.from, &replacement.to.replace("{prefix}", &here));
    }
    text
}

/// The prefix that the file was installed for: `usr`, `opt/rocm-6.2.0` or an empty text.
fn old_prefix<'a>(table: &Table, input: &'a str, path: &str) -> &'a str {
    let mut prefix = input;
    while let Some((parent, _)) = prefix.rsplit_once('/') {
        prefix = parent;
        if table.flatten(prefix).is_empty() && !path.is_empty() {
            return prefix;
        }
    }
    if table.flatten(prefix).is_empty() { prefix } else { "" }
}

/// Rule 1, first half. A variable that holds a file's own path needs one level more, and such
/// climbs were written for an unflattened tree, so they are left alone.
fn climbs(text: &str, old: usize, new: usize) -> String {
    static CLIMB: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\$\{(\w+)\}((?:/\.\.)+)").expect("a constant expression"));
    CLIMB
        .replace_all(text, |found: &Captures<'_>| {
            let is_file = found[1].ends_with("FILE") || found[1].ends_with("FILE_PATH");
            let ups = if found[2].len() == 3 * old && !is_file { new } else { found[2].len() / 3 };
            format!("${{{}}}{}", &found[1], "/..".repeat(ups))
        })
        .into_owned()
}

/// Rule 1, second half: a line that takes the file's directory, then one line for each level.
fn components(text: &str, old: usize, new: usize) -> String {
    static STEP: LazyLock<Regex> = LazyLock::new(|| {
        let expression = r#"^\s*get_filename_component\((\w+)\s+"\$\{(\w+)\}"\s+(?:PATH|DIRECTORY)\)\s*$"#;
        Regex::new(expression).expect("a constant expression")
    });
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // For each line, the variable that it replaces by the folder above.
    let variables = lines.iter().map(|line| {
        let found = STEP.captures(line).filter(|found| found[1] == found[2])?;
        Some(found[1].to_owned())
    });
    let variables: Vec<Option<String>> = variables.collect();
    let mut result = String::with_capacity(text.len());
    let mut index = 0;
    while index < lines.len() {
        if variables[index].is_none() {
            result.push_str(lines[index]);
            index += 1;
            continue;
        }
        let run = variables[index..].iter().take_while(|variable| **variable == variables[index]).count();
        let keep = if run == old { new.min(run) } else { run };
        result.extend(lines[index..index + keep].iter().copied());
        index += run;
    }
    result
}

/// Rule 2, first half: removes the block about the original prefix.
fn drop_original_prefix(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut dropping = false;
    for line in text.split_inclusive('\n') {
        if line.starts_with("# Use original install prefix when loaded through") {
            dropping = text.contains("unset(_realCurr)");
        }
        if !dropping {
            result.push_str(line);
        }
        if line.trim() == "unset(_realCurr)" {
            dropping = false;
        }
    }
    result
}

/// Rule 2, second half: makes prefix variables relative, such as `set(X "/usr")` and
/// `set(X "/usr/lib/llvm-17/lib/clang/17")`.
fn absolute_prefix(table: &Table, prefix: &str, here: &str, text: &str) -> String {
    static SET: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"set\((\w*PREFIX\w*)\s+"/([^"$]+)"\)"#).expect("a constant expression"));
    if prefix.is_empty() {
        return text.to_owned();
    }
    SET.replace_all(text, |found: &Captures<'_>| {
        let inside = found[2] == *prefix || found[2].starts_with(&format!("{prefix}/"));
        if !inside {
            return found[0].to_owned();
        }
        let flat = table.flatten(&found[2]);
        let below = if flat.is_empty() { String::new() } else { format!("/{flat}") };
        format!("get_filename_component({} \"{here}{below}\" ABSOLUTE)", &found[1])
    })
    .into_owned()
}

/// Rule 3: flattens paths with an architecture directory.
fn architecture(table: &Table, prefix: &str, text: &str) -> String {
    static LIBRARY: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\blib/[a-z0-9_]+-linux-gnu(?:/[A-Za-z0-9_.+/-]*)?").expect("a constant expression")
    });
    let prefix = if prefix.is_empty() { "usr" } else { prefix };
    LIBRARY
        .replace_all(text, |found: &Captures<'_>| {
            let slash = if found[0].ends_with('/') { "/" } else { "" };
            format!("{}{slash}", table.flatten(&format!("{prefix}/{}", &found[0])))
        })
        .into_owned()
}

/// Rule 5: makes the directories of a pkg-config file relative.
fn pkg_config(table: &Table, prefix: &str, depth: usize, text: &str) -> String {
    let absolute = format!("/{prefix}");
    let mut result = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let body = line.trim_end();
        if body.starts_with("prefix=") || body.starts_with("prefix =") {
            result.push_str(&format!("prefix=${{pcfiledir}}{}\n", "/..".repeat(depth)));
            continue;
        }
        let line = if prefix.is_empty() || body.starts_with('#') {
            line.to_owned()
        } else {
            line.replace(&format!("{absolute}/"), "${prefix}/")
        };
        result.push_str(&architecture(table, prefix, &line));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: &str = "usr/lib/x86_64-linux-gnu/cmake/hip/hip-config.cmake";
    const FLAT: &str = "lib/cmake/hip/hip-config.cmake";

    fn rewritten(text: &str) -> String {
        rewrite(Table::embedded(), INPUT, FLAT, text)
    }

    #[test]
    fn climbs_lose_one_level() {
        assert_eq!(
            rewritten("get_filename_component(P \"${CMAKE_CURRENT_LIST_DIR}/../../../../\" ABSOLUTE)"),
            "get_filename_component(P \"${CMAKE_CURRENT_LIST_DIR}/../../../\" ABSOLUTE)"
        );
        assert_eq!(
            rewritten("${_DIR}/../x ${CONFIG_FILE_PATH}/../../../../"),
            "${_DIR}/../x ${CONFIG_FILE_PATH}/../../../../"
        );
    }

    #[test]
    fn runs_of_components_lose_one_line() {
        let first = "get_filename_component(_P \"${CMAKE_CURRENT_LIST_FILE}\" PATH)\n";
        let step = "get_filename_component(_P \"${_P}\" PATH)\n";
        assert_eq!(rewritten(&format!("{first}{}x\n", step.repeat(4))), format!("{first}{}x\n", step.repeat(3)));
        // Debian 13's comgr climbs three levels from a directory that is four deep, which is right
        // once flattened.
        assert_eq!(rewritten(&format!("{first}{}", step.repeat(3))), format!("{first}{}", step.repeat(3)));
    }

    #[test]
    fn absolute_places_become_relative() {
        let block = "a\n# Use original install prefix when loaded through a \"/usr move\"\n\
                     get_filename_component(_realOrig \"/usr/lib/x86_64-linux-gnu/cmake/hip\" REALPATH)\n\
                     unset(_realOrig)\nunset(_realCurr)\nb\n";
        assert_eq!(rewritten(block), "a\nb\n");
        assert_eq!(
            rewritten("set(_IMPORT_PREFIX \"/usr\")"),
            "get_filename_component(_IMPORT_PREFIX \"${CMAKE_CURRENT_LIST_DIR}/../../..\" ABSOLUTE)"
        );
        assert_eq!(
            rewritten("set(AMD_DEVICE_LIBS_PREFIX \"/usr/lib/llvm-17/lib/clang/17\")"),
            "get_filename_component(AMD_DEVICE_LIBS_PREFIX \"${CMAKE_CURRENT_LIST_DIR}/../../../lib/llvm\" ABSOLUTE)"
        );
        assert_eq!(rewritten("set(OTHER_PREFIX \"/etc\")"), "set(OTHER_PREFIX \"/etc\")");
    }

    #[test]
    fn libraries_move() {
        assert_eq!(
            rewritten("\"${_IMPORT_PREFIX}/lib/x86_64-linux-gnu/libamdhip64.so.5.2.21153\""),
            "\"${_IMPORT_PREFIX}/lib/libamdhip64.so.5.2.21153\""
        );
        assert_eq!(
            rewritten("${P}/lib/x86_64-linux-gnu/amdgcn/bitcode/hip.bc\""),
            "${P}/lib/llvm/amdgcn/bitcode/hip.bc\""
        );
        assert_eq!(rewritten("\"${P}/lib/x86_64-linux-gnu\""), "\"${P}/lib\"");
    }

    #[test]
    fn the_table_replaces_what_is_particular() {
        assert_eq!(rewritten("set(ROCM_PATH /usr)"), "set(ROCM_PATH \"${CMAKE_CURRENT_LIST_DIR}/../../..\")");
    }

    #[test]
    fn an_installed_prefix_keeps_its_levels() {
        let text = "${CMAKE_CURRENT_LIST_DIR}/../../../\nset(_IMPORT_PREFIX \"/opt/rocm-6.2.0\")\n";
        let path = "opt/rocm-6.2.0/lib/cmake/hip/hip-config.cmake";
        assert_eq!(
            rewrite(Table::embedded(), path, FLAT, text),
            "${CMAKE_CURRENT_LIST_DIR}/../../../\n\
             get_filename_component(_IMPORT_PREFIX \"${CMAKE_CURRENT_LIST_DIR}/../../..\" ABSOLUTE)\n"
        );
        assert_eq!(rewrite(Table::embedded(), FLAT, FLAT, "${X_DIR}/../../..\n"), "${X_DIR}/../../..\n");
    }

    #[test]
    fn pkg_config_files_are_relocatable() {
        let text =
            "prefix=/usr\nlibdir=/usr/lib/x86_64-linux-gnu\nincludedir=${prefix}/include\nLibs: -L${libdir} -lx\n";
        let path = "usr/lib/x86_64-linux-gnu/pkgconfig/libhsakmt.pc";
        assert_eq!(
            rewrite(Table::embedded(), path, "lib/pkgconfig/libhsakmt.pc", text),
            "prefix=${pcfiledir}/../..\nlibdir=${prefix}/lib\nincludedir=${prefix}/include\nLibs: -L${libdir} -lx\n"
        );
    }
}
