//! Input: the path of a file in a flattened tree. Output: the kernel database that the file belongs
//! to, and its GPU target.
//!
//! The rules are data (`data/libraries.toml`): add a line there for a new library or target.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use rocwheel_progress::{Exit, Failure};

use crate::rows::{DatabaseRow, RuleRow, Within};

/// `gfx`, digits, letters, then optionally `-strict` or (of a generic target) a number and
/// `-generic`, and optionally `-xnack+` or `-xnack-`.
const TARGET: &str = r"gfx[0-9]+(?:(?:-[0-9]+)?-generic|[a-z]*(?:-strict)?)(?:-xnack[-+])?";

#[derive(Debug)]
pub struct Databases {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseMember<'a> {
    /// The library's name, for example `rocblas`.
    pub database: &'a str,
    /// The target with its features (`gfx90a:xnack+`); `None` when the file serves all targets.
    pub target: Option<String>,
}

impl DatabaseMember<'_> {
    /// The target without its features: `gfx90a`.
    pub fn base_target(&self) -> Option<&str> {
        self.target.as_deref().map(|target| target.split(':').next().unwrap_or(target))
    }
}

#[derive(Debug)]
struct Rule {
    database: String,
    path: Regex,
    target: Option<Regex>,
    within: Within,
    fixed: Option<String>,
    rename: BTreeMap<String, String>,
}

/// The rules for Tensile's file names, with `{name}` for the library: the target is in the name of
/// a directory, or in the name of the file.
fn tensile(name: &str) -> [RuleRow; 2] {
    let directory = r"(?:^|/){name}/(?:[^/]+/)?library/(?:[^/]*/)*?{target}/";
    let file = r"(?:^|/){name}/(?:[^/]+/)?library/.*\.(?:co|hsaco|dat)$";
    let rows = [(directory, "^({target})$", Within::Directory), (file, "({target})", Within::Name)];
    rows.map(|(path, target, within)| {
        let (path, target) = (path.replace("{name}", name), Some(target.to_owned()));
        RuleRow { path, target, within, fixed: None, rename: BTreeMap::new() }
    })
}

impl Databases {
    pub(crate) fn new(rows: &[DatabaseRow]) -> Result<Self, Failure> {
        let mut rules = Vec::new();
        for row in rows {
            let of_tensile = row.tensile.then(|| tensile(&row.name)).into_iter().flatten();
            for rule in of_tensile.chain(row.rule.iter().cloned()) {
                rules.push(Rule {
                    database: row.name.clone(),
                    path: expression(&rule.path)?,
                    target: rule.target.as_deref().map(expression).transpose()?,
                    within: rule.within,
                    fixed: rule.fixed,
                    rename: rule.rename,
                });
            }
        }
        Ok(Self { rules })
    }

    /// The names of the libraries that have rules, sorted.
    pub fn names(&self) -> BTreeSet<&str> {
        self.rules.iter().map(|rule| rule.database.as_str()).collect()
    }

    /// The kernel database and the target of the file at `path` (relative, with `/`); `None` for a
    /// file that belongs to no database.
    pub fn classify(&self, path: &str) -> Option<DatabaseMember<'_>> {
        // Many rules match directories, and a path that is only a directory is not a member.
        if path.ends_with('/') {
            return None;
        }
        let rule = self.rules.iter().find(|rule| rule.path.is_match(path))?;
        Some(DatabaseMember { database: &rule.database, target: rule.target_of(path) })
    }
}

impl Rule {
    fn target_of(&self, path: &str) -> Option<String> {
        if let Some(fixed) = &self.fixed {
            return Some(fixed.clone());
        }
        let expression = self.target.as_ref()?;
        let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
        let searched = if self.within == Within::Name { name } else { directories };
        let found = searched.split('/').find_map(|part| expression.captures(part)?.get(1))?.as_str();
        Some(self.rename.get(found).cloned().unwrap_or_else(|| features(found)))
    }
}

/// `gfx90a-xnack+` → `gfx90a:xnack+`, `gfx90a_strict_xnackp_sramecc_` →
/// `gfx90a-strict:xnack+:sramecc-`.
fn features(token: &str) -> String {
    let mut target = token.replacen("_strict", "-strict", 1);
    for feature in ["xnack", "sramecc"] {
        for (sign, written) in [("+", ["-{}+", "_{}p"]), ("-", ["-{}-", "_{}_"])] {
            for form in written {
                target = target.replacen(&form.replace("{}", feature), &format!(":{feature}{sign}"), 1);
            }
        }
    }
    target
}

fn expression(text: &str) -> Result<Regex, Failure> {
    Regex::new(&text.replace("{target}", TARGET)).map_err(|error| {
        let attempt = format!("could not compile the expression `{text}` of the kernel databases");
        Failure::other(error).context(attempt).with_exit(Exit::Usage)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Path, database and target.
    const CASES: &[(&str, &str, Option<&str>)] = &[
        ("lib/rocblas/library/TensileLibrary_gfx90a.co", "rocblas", Some("gfx90a")),
        ("lib/rocblas/library/Kernels.so-000-gfx90a-xnack+.hsaco", "rocblas", Some("gfx90a:xnack+")),
        ("lib/rocblas/library/Kernels.so-000-gfx90a-xnack-.hsaco", "rocblas", Some("gfx90a:xnack-")),
        ("lib/rocblas/2.47.0/library/TensileLibrary_gfx1100.co", "rocblas", Some("gfx1100")),
        ("lib/rocblas/2.47.0/library/TensileLibrary.dat", "rocblas", None),
        ("lib/rocblas/library/TensileLibrary_Type_HH_fallback.dat", "rocblas", None),
        ("lib/hipblaslt/library/gfx942/extop.yaml", "hipblaslt", Some("gfx942")),
        ("lib/hipsparselt/library/Kernels_gfx950.hsaco", "hipsparselt", Some("gfx950")),
        ("torch/lib/aotriton.images/amd-gfx11xx/flash/x.aks2", "aotriton", Some("gfx11")),
        ("torch/lib/aotriton.images/amd-gfx120x/flash/x.aks2", "aotriton", Some("gfx12_0")),
        ("torch/lib/aotriton.images/amd-gfx942/flash/x.aks2", "aotriton", Some("gfx942")),
        ("share/miopen/db/gfx90878.kdb", "miopen", Some("gfx908")),
        ("share/miopen/db/gfx942130.db.txt", "miopen", Some("gfx942")),
        ("share/miopen/db/gfx90a6e.HIP.fdb.txt", "miopen", Some("gfx90a")),
        ("share/miopen/db/gfx942e4.HIP.fdb.txt", "miopen", Some("gfx942")),
        ("share/miopen/db/gfx1030_36.db.txt", "miopen", Some("gfx1030")),
        ("share/miopen/db/gfx908_metadata.tn.model", "miopen", Some("gfx908")),
        ("share/miopen/db/gfx103128.kdb", "miopen", Some("gfx1031")),
        ("share/miopen/db/gfx1036_2.db.txt", "miopen", Some("gfx1036")),
        ("share/miopen/db/gfx1103_12.HIP.fdb.txt", "miopen", Some("gfx1103")),
        ("share/miopen/db/gfx1153.kdb", "miopen", Some("gfx1153")),
        ("share/miopen/db/gfx1251-strict.kdb", "miopen", Some("gfx1251-strict")),
        ("share/miopen/db/gfx90c_8.db.txt", "miopen", Some("gfx90c")),
        ("share/miopen/db/gfx803_36.db.txt", "miopen", Some("gfx803")),
        ("share/miopen/db/gfx1030_36.HIP.fdb.txt", "miopen", Some("gfx1030")),
        ("share/miopen/db/gfx942e4.HIP.fdb.txt", "miopen", Some("gfx942")),
        ("lib/rocblas/5/library/Kernels.so-000-gfx9-4-generic.hsaco", "rocblas", Some("gfx9-4-generic")),
        ("lib/rocblas/5/library/TensileLibrary_Type_gfx11-generic.co", "rocblas", Some("gfx11-generic")),
        ("lib/libMIOpenCKGroupedConv_gfx950.so", "miopen", Some("gfx950")),
        ("lib/libdevice_conv_operations_gfx90a_xnackp_sramecc_.a", "composablekernel", Some("gfx90a:xnack+:sramecc-")),
        ("lib/libdevice_conv_operations_gfx1250_strict.a", "composablekernel", Some("gfx1250-strict")),
        ("lib/x/engines/arch_content/a/gfx942/b/k.hsaco", "hipkernelprovider", Some("gfx942")),
    ];

    #[test]
    fn files_find_their_database_and_target() {
        for (path, database, target) in CASES {
            let member = Databases::embedded().classify(path).unwrap_or_else(|| panic!("{path} is in no database"));
            assert_eq!((member.database, member.target.as_deref()), (*database, *target), "{path}");
        }
        let hotswap = format!("share/rocjitsu/translations/gfx1250-b0-a0/v1/{}.obj", "0a".repeat(32));
        assert_eq!(Databases::embedded().classify(&hotswap).unwrap().target.as_deref(), Some("gfx1250"));
    }

    #[test]
    fn other_files_belong_to_none() {
        for path in [
            "lib/librocblas.so.4",
            "lib/rocblas/library/",
            "lib/rocblas/library/readme.txt",
            "include/rocblas/rocblas.h",
            "share/miopen/perf/gfx908.kdb",
            "share/rocjitsu/translations/gfx1250-b0-a0/v1/short.obj",
            "lib/libdevice_conv_operations.a",
            "",
        ] {
            assert_eq!(Databases::embedded().classify(path), None, "{path}");
        }
    }

    #[test]
    fn the_base_target_has_no_features() {
        let member = Databases::embedded().classify("rocblas/library/k-gfx90a-xnack+.hsaco").unwrap();
        assert_eq!(member.base_target(), Some("gfx90a"));
    }
}
