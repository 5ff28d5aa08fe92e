//! Input: `data/dlopen.toml`. Output: what a library or script loads at run time, which no NEEDED
//! entry shows.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::pattern::Pattern;

const TABLE: &str = include_str!("../../../data/dlopen.toml");

/// Who loads what at run time.
#[derive(Debug)]
pub struct DlopenTable {
    loaders: Vec<(Pattern, Vec<Load>)>,
}

/// One library, or a group of them, that is loaded at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// The SONAME, with `*` for anything: `libamd_comgr.so.*`.
    pub pattern: String,
    /// Whether the loader does not work without it. Otherwise it is used when it is there.
    pub required: bool,
    compiled: Pattern,
}

impl Load {
    fn new(pattern: String, required: bool) -> Self {
        Self { compiled: Pattern::new(&pattern), pattern, required }
    }

    /// Whether a SONAME is one of those that are loaded.
    pub fn matches(&self, soname: &str) -> bool {
        self.compiled.matches(soname)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableText {
    loader: Vec<LoaderText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoaderText {
    library: String,
    #[serde(default)]
    required: Vec<String>,
    #[serde(default)]
    optional: Vec<String>,
}

impl DlopenTable {
    /// The table this program ships with.
    pub fn embedded() -> &'static Self {
        static EMBEDDED: LazyLock<DlopenTable> =
            LazyLock::new(|| DlopenTable::parse(TABLE).expect("the embedded table is tested"));
        &EMBEDDED
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let table: TableText = toml::from_str(text)?;
        let loaders = table.loader.into_iter().map(|loader| {
            let required = loader.required.into_iter().map(|pattern| Load::new(pattern, true));
            let optional = loader.optional.into_iter().map(|pattern| Load::new(pattern, false));
            (Pattern::new(&loader.library), required.chain(optional).collect())
        });
        Ok(Self { loaders: loaders.collect() })
    }

    /// What the library with this SONAME, or the script with this file name, loads. Empty when the
    /// table has nothing.
    pub fn of(&self, name: &str) -> &[Load] {
        self.loaders.iter().find(|(pattern, _)| pattern.matches(name)).map_or(&[], |(_, loads)| loads)
    }
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
