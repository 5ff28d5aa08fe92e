//! Paths inside wheels, archives, artifacts and environments: relative, as text, with `/` on every
//! system. On Windows [`std::path::Path`] would parse `\` and drive letters in them, and it cannot
//! represent a name that is not UTF-8 as text.

/// Removes `.` and empty parts, and resolves `..` except at the start of the path.
pub fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." && parts.last().is_some_and(|last| *last != "..") {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// Like [`normal`]; `None` for a path that leaves the folder in which it starts.
pub fn normal_inside(path: &str) -> Option<String> {
    let path = normal(path);
    (path != ".." && !path.starts_with("../")).then_some(path)
}

/// The path that a symbolic link refers to: `target` is the text of the link at `link`. `None` if
/// it is absolute or leaves the top folder.
pub fn link_target(link: &str, target: &str) -> Option<String> {
    if target.starts_with('/') { None } else { normal_inside(&format!("{}/{target}", parent(link))) }
}

/// The folder of a path; the empty string for a path in the top folder.
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The last part of a path.
pub fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The path of `name` in `folder`; the empty string is the top folder.
pub fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The relative path from one folder to another, such as `../x`; the empty string if they are the
/// same. Both must be normal and relative to the same folder.
pub fn relative(from: &str, to: &str) -> String {
    let [from, to] = [from, to].map(|path| path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>());
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("..", from.len() - common);
    up.chain(to.into_iter().skip(common)).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[cfg_attr(windows, ignore = "compares with Python, which Wine has not")]
    #[test]
    fn paths_are_made_normal_as_python_does_it() {
        let paths = ["a/./b//c", "a/../../b", "../a/..", "a/b/../c", "./a", "a/..", "../../x/", "a/b/../../c"];
        let script = "import posixpath, sys; print('\\n'.join(posixpath.normpath(path) for path in sys.argv[1:]))";
        let output = Command::new("python3").args(["-c", script]).args(paths).output().unwrap();
        for (path, expected) in paths.into_iter().zip(String::from_utf8(output.stdout).unwrap().lines()) {
            let expected = if expected == "." { "" } else { expected };
            assert_eq!(normal(path), expected, "{path}");
            let inside = (!expected.starts_with("..")).then_some(expected);
            assert_eq!(normal_inside(path).as_deref(), inside, "{path}");
        }
    }

    #[test]
    fn links_lead_into_the_top_folder_or_nowhere() {
        assert_eq!(link_target("lib/a.so", "a.so.1").as_deref(), Some("lib/a.so.1"));
        assert_eq!(link_target("lib/x/a.so", "../../bin/./b").as_deref(), Some("bin/b"));
        assert_eq!(link_target("a", "b").as_deref(), Some("b"));
        assert_eq!(link_target("lib/a.so", "../../x"), None);
        assert_eq!(link_target("lib/a.so", "/usr/lib/a.so"), None);
    }

    #[test]
    fn ways_between_folders_lead_there() {
        for (from, to) in [("a/b", "a/c/d"), ("", "x"), ("a", ""), ("a/b", "a/b"), ("a", "ab")] {
            assert_eq!(normal(&join(from, &relative(from, to))), to, "{from} {to}");
        }
        assert_eq!(relative("a/b", "a/c/d"), "../c/d");
        assert_eq!((parent("a/b/c"), parent("c"), file_name("a/b/c"), file_name("c")), ("a/b", "", "c", "c"));
    }
}
