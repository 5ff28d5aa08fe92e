//! Relative paths inside an environment, as text with `/`: the meaning of `$ORIGIN/../x`, and the
//! path from one folder to another.

pub(crate) use rocwheel_content::archive_path::{file_name as name, normal, parent as folder, relative};

/// Number of folders from the environment's prefix down to site-packages:
/// `lib/python3.12/site-packages`.
const PREFIX: usize = 3;

/// Resolves `path`, which is relative to `folder`. The folder and the result are relative to
/// site-packages.
pub(crate) fn join(folder: &str, path: &str) -> String {
    normal(&format!("{folder}/{path}"))
}

/// The entry of a search path in the folder `from` for the folder `to`.
pub(crate) fn entry(from: &str, to: &str) -> String {
    let way = relative(from, to);
    if way.is_empty() { "$ORIGIN".to_owned() } else { format!("$ORIGIN/{way}") }
}

/// The part of an entry of a search path after `$ORIGIN`; `None` if it does not begin with that.
pub(crate) fn of_origin(entry: &str) -> Option<&str> {
    let rest = entry.strip_prefix("$ORIGIN").or_else(|| entry.strip_prefix("${ORIGIN}"))?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
}

/// `true` if a normal path relative to site-packages leaves the environment.
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
