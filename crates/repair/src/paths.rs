//! Relative paths inside an environment, as text with `/`: what `$ORIGIN/../x` means, and how one
//! folder is reached from another.

/// Folders from site-packages up to the environment's prefix: `lib/python3.12/site-packages`.
const PREFIX: usize = 3;

/// The path without `.`, and without `..` except at its start.
pub(crate) fn normal(path: &str) -> String {
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

/// The folder of a file; empty at the top.
pub(crate) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The last part of a path.
pub(crate) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub(crate) fn join(folder: &str, path: &str) -> String {
    normal(&format!("{folder}/{path}"))
}

/// The way from one folder to another, both normal and below the same one: `../x`; empty when they
/// are the same.
pub(crate) fn relative(from: &str, to: &str) -> String {
    let parts = |path: &'_ str| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let (from, to) = (parts(from), parts(to));
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let up = std::iter::repeat_n("..".to_owned(), from.len() - common);
    up.chain(to[common..].iter().cloned()).collect::<Vec<_>>().join("/")
}

/// An entry of a search path that leads from one folder to another.
pub(crate) fn entry(from: &str, to: &str) -> String {
    let way = relative(from, to);
    if way.is_empty() { "$ORIGIN".to_owned() } else { format!("$ORIGIN/{way}") }
}

/// What an entry of a search path is relative to the file's folder; `None` when it does not begin
/// with `$ORIGIN`.
pub(crate) fn of_origin(entry: &str) -> Option<&str> {
    let rest = entry.strip_prefix("$ORIGIN").or_else(|| entry.strip_prefix("${ORIGIN}"))?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
}

/// Whether a normal path relative to site-packages leaves the environment.
pub(crate) fn leaves(path: &str) -> bool {
    path.split('/').take_while(|part| *part == "..").count() > PREFIX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_reached_from_each_other() {
        for (from, to, way) in [
            ("pkg", "pkg.libs", "$ORIGIN/../pkg.libs"),
            ("pkg/sub", "pkg/lib", "$ORIGIN/../lib"),
            ("", "pkg.libs", "$ORIGIN/pkg.libs"),
            ("pkg", "pkg", "$ORIGIN"),
            ("a/b/c", "_rocm_sdk_core/lib", "$ORIGIN/../../../_rocm_sdk_core/lib"),
        ] {
            assert_eq!(entry(from, to), way);
            assert_eq!(join(from, of_origin(way).unwrap()), to);
        }
    }

    #[test]
    fn only_entries_at_the_file_are_relative() {
        assert_eq!(of_origin("$ORIGIN"), Some(""));
        assert_eq!(of_origin("${ORIGIN}/../lib"), Some("../lib"));
        assert_eq!(of_origin("$ORIGINAL/lib"), None);
        assert_eq!(of_origin("/opt/rocm/lib"), None);
        assert_eq!(of_origin("lib"), None);
    }

    #[test]
    fn an_environment_ends_at_its_prefix() {
        assert!(!leaves(&join("pkg", "../../../../lib")));
        assert!(leaves(&join("pkg", "../../../../..")));
        assert!(!leaves("pkg/lib"));
        assert_eq!(normal("a/./b//../../../c"), "../c");
    }
}
