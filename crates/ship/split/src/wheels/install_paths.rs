//! Input: the members of a wheel. Output: their installation paths, and the folder in which the
//! runtime looks for the archives of the wheel's GPU code.

use std::collections::{BTreeMap, BTreeSet};

/// The folder that an installer puts a member in (wheel specification, "The .data directory").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scheme {
    /// The folder `site-packages`.
    Site,
    /// The prefix of the environment.
    Data,
    /// Scripts and headers: no fixed relative path leads from their folders to the others.
    Elsewhere,
}

/// An installation folder and a path in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) scheme: Scheme,
    pub(super) path: String,
}

/// The names of the `.data` and `.dist-info` folders of a wheel, without slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Folders {
    pub(super) info: String,
    pub(super) data: String,
}

impl Folders {
    /// Derives the folders of a wheel from the name of its `.dist-info` folder.
    pub(super) fn new(info: &str) -> Folders {
        let stem = info.strip_suffix(".dist-info").unwrap_or(info);
        Folders { info: info.to_owned(), data: format!("{stem}.data") }
    }

    /// `true` if a member is in `.dist-info`, so that it describes the wheel.
    pub(super) fn is_info(&self, member: &str) -> bool {
        member.strip_prefix(&self.info).is_some_and(|rest| rest.starts_with('/'))
    }

    pub(super) fn place(&self, member: &str) -> Place {
        let rest = member.strip_prefix(&self.data).and_then(|rest| rest.strip_prefix('/'));
        let Some((scheme, path)) = rest.and_then(|rest| rest.split_once('/')) else {
            return Place { scheme: Scheme::Site, path: member.to_owned() };
        };
        let scheme = match scheme {
            "platlib" | "purelib" => Scheme::Site,
            "data" => Scheme::Data,
            _ => Scheme::Elsewhere,
        };
        Place { scheme, path: path.to_owned() }
    }

    /// Returns the name of a member in a wheel with the folders `other`: the name of `.data`
    /// contains the wheel's name.
    pub(super) fn renamed(&self, other: &Folders, member: &str) -> String {
        match member.strip_prefix(&self.data).filter(|rest| rest.starts_with('/')) {
            Some(rest) => format!("{}{rest}", other.data),
            None => member.to_owned(),
        }
    }

    /// Returns the name of the member that is installed at a path in site-packages or below the
    /// prefix.
    pub(super) fn member(&self, scheme: Scheme, path: &str) -> String {
        match scheme {
            Scheme::Data => format!("{}/data/{path}", self.data),
            Scheme::Site | Scheme::Elsewhere => path.to_owned(),
        }
    }
}

/// Returns the folder, relative to site-packages, that gets the folder of archives and the modules
/// of device wheels: the package that holds most of the GPU code. If the code is beside packages
/// (`name.libs`, modules at the top level), it is the largest package; if the wheel has no package,
/// it is `otherwise`.
///
/// `code` and `files` are paths in site-packages with their sizes in bytes.
pub(super) fn home<'a>(
    code: impl Iterator<Item = (&'a str, u64)>,
    files: impl Iterator<Item = (&'a str, u64)>,
    otherwise: &str,
) -> String {
    let files: Vec<(&str, u64)> = files.collect();
    let packages: BTreeSet<&str> = files.iter().filter_map(|(path, _)| path.strip_suffix("/__init__.py")).collect();
    let largest = largest_package(code, &packages).or_else(|| largest_package(files.iter().copied(), &packages));
    largest.unwrap_or(otherwise).to_owned()
}

fn largest_package<'a>(files: impl Iterator<Item = (&'a str, u64)>, packages: &BTreeSet<&str>) -> Option<&'a str> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (path, size) in files {
        if let Some(package) = package_of(path, packages) {
            *sums.entry(package).or_default() += size;
        }
    }
    // Among packages of equal size, the first by name wins.
    sums.into_iter().rev().max_by_key(|(_, size)| *size).map(|(package, _)| package)
}

/// Returns the outermost package that `path` is in. Folders above it (`jax_plugins/`) belong to
/// several distributions.
fn package_of<'a>(path: &'a str, packages: &BTreeSet<&str>) -> Option<&'a str> {
    path.match_indices('/').map(|(end, _)| &path[..end]).find(|folder| packages.contains(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_installed_where_the_specification_says() {
        let folders = Folders::new("x-1.0.dist-info");
        let place = |scheme, path: &str| Place { scheme, path: path.to_owned() };
        assert_eq!(folders.place("x/a.so"), place(Scheme::Site, "x/a.so"));
        assert_eq!(folders.place("x-1.0.data/platlib/x/a.so"), place(Scheme::Site, "x/a.so"));
        assert_eq!(folders.place("x-1.0.data/purelib/a.so"), place(Scheme::Site, "a.so"));
        assert_eq!(folders.place("x-1.0.data/data/lib/a.so"), place(Scheme::Data, "lib/a.so"));
        assert_eq!(folders.place("x-1.0.data/scripts/a"), place(Scheme::Elsewhere, "a"));
        assert_eq!(folders.place("x-1.0.data2/data/a"), place(Scheme::Site, "x-1.0.data2/data/a"));
        assert_eq!(folders.member(Scheme::Data, "lib/a.so"), "x-1.0.data/data/lib/a.so");
        let other = Folders::new("y-2.dist-info");
        assert_eq!(folders.renamed(&other, "x-1.0.data/platlib/a.so"), "y-2.data/platlib/a.so");
        assert_eq!(folders.renamed(&other, "x-1.0.data2/a.so"), "x-1.0.data2/a.so");
        assert!(folders.is_info("x-1.0.dist-info/WHEEL") && !folders.is_info("x-1.0.dist-info2/WHEEL"));
    }

    #[test]
    fn archives_go_to_the_package_of_the_code() {
        let choose = |code: &[(&'static str, u64)], files: &[(&'static str, u64)]| {
            let all: Vec<(&str, u64)> = code.iter().chain(files).copied().collect();
            home(code.iter().copied(), all.into_iter(), "x_device")
        };
        let torch = [("torch/__init__.py", 1), ("torch/lib/a.so", 9), ("functorch/__init__.py", 1)];
        assert_eq!(choose(&[("torch/lib/libtorch_hip.so", 100)], &torch), "torch");
        // The package with most of the code wins, not the one with most files.
        assert_eq!(choose(&[("functorch/x.so", 100), ("torch/y.so", 9)], &torch), "functorch");
        // auditwheel's folder is not a package.
        assert_eq!(choose(&[("torch.libs/libggml.so", 100)], &torch), "torch");
        // `jax_plugins` has no `__init__.py`: it is shared.
        let jax = [("jax_plugins/xla_rocm7/__init__.py", 1)];
        assert_eq!(choose(&[("jax_plugins/xla_rocm7/plugin.so", 100)], &jax), "jax_plugins/xla_rocm7");
        assert_eq!(choose(&[("_ext.so", 100)], &[]), "x_device");
        assert_eq!(choose(&[("_ext.so", 100)], &torch), "torch");
        // Of two packages of equal size the first name wins.
        let two = [("b/__init__.py", 1), ("a/__init__.py", 1)];
        assert_eq!(choose(&[("b/x.so", 5), ("a/x.so", 5)], &two), "a");
    }
}
