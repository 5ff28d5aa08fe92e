//! Input: the tables. Output: the libraries that a library or script loads at run time without a
//! NEEDED entry.

use std::sync::LazyLock;

use crate::RocmTables;
use crate::pattern::Pattern;

/// The libraries that are loaded by name at run time, by their loaders.
#[derive(Debug)]
pub struct DlopenTable {
    loaders: Vec<(Pattern, Vec<Load>)>,
}

/// One library, or a group of them, that is loaded at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// The SONAME; `*` matches any text: `libamd_comgr.so.*`.
    pub pattern: String,
    /// `true` if the loader does not work without it; `false` if the loader uses it when it exists.
    pub required: bool,
    compiled: Pattern,
}

impl Load {
    fn new(pattern: String, required: bool) -> Self {
        Self { compiled: Pattern::new(&pattern), pattern, required }
    }

    /// `true` if a library with this SONAME is loaded.
    pub fn matches(&self, soname: &str) -> bool {
        self.compiled.matches(soname)
    }
}

impl DlopenTable {
    /// The loads in [`RocmTables::in_use`].
    pub fn embedded() -> &'static Self {
        static EMBEDDED: LazyLock<DlopenTable> = LazyLock::new(|| DlopenTable::of_tables(RocmTables::in_use()));
        &EMBEDDED
    }

    /// The loads in these tables.
    pub fn of_tables(tables: &RocmTables) -> Self {
        let libraries =
            tables.libraries.iter().map(|row| (Pattern::new(&row.versioned()), loads(&row.loads, &row.may_load)));
        let others = tables.loaders.iter().map(|row| (Pattern::new(&row.library), loads(&row.loads, &row.may_load)));
        Self { loaders: libraries.filter(|(_, loads)| !loads.is_empty()).chain(others).collect() }
    }

    /// The loads of the library with this SONAME, or of the script with this file name. Empty if
    /// the tables list none.
    pub fn of(&self, name: &str) -> &[Load] {
        self.loaders.iter().find(|(pattern, _)| pattern.matches(name)).map_or(&[], |(_, loads)| loads)
    }
}

fn loads(required: &[String], optional: &[String]) -> Vec<Load> {
    let required = required.iter().map(|pattern| Load::new(pattern.clone(), true));
    required.chain(optional.iter().map(|pattern| Load::new(pattern.clone(), false))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_scripts_have_their_loads() {
        let table = DlopenTable::embedded();
        let required = |name: &str| -> Vec<&str> {
            table.of(name).iter().filter(|load| load.required).map(|load| load.pattern.as_str()).collect()
        };
        assert_eq!(required("libamdhip64.so.5"), ["libamd_comgr.so.*"]);
        assert_eq!(required("rsmiBindings.py"), ["librocm_smi64.so.*"]);
        assert!(required("libhsa-runtime64.so.1").is_empty());
        assert!(table.of("libhsa-runtime64.so.1").iter().any(|load| load.matches("libhsa-amd-aqlprofile64.so.1")));
        assert!(table.of("libz.so.1").is_empty());
    }
}
