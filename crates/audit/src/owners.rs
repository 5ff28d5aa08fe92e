//! Input: `data/library-owners.toml` and the name of a library. Output: which distributions bring it.

use std::sync::LazyLock;

use artifact::Pattern;
use serde::Deserialize;

const TABLE: &str = include_str!("../../../data/library-owners.toml");

/// Who brings well-known libraries.
#[derive(Debug)]
pub(crate) struct Owners {
    owners: Vec<Owner>,
    plain: Vec<String>,
}

/// A product whose libraries others link to.
#[derive(Debug)]
pub(crate) struct Owner {
    /// What people call it.
    pub(crate) name: String,
    /// The requirement that brings it.
    pub(crate) require: String,
    distributions: Vec<Pattern>,
    families: Vec<Pattern>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    owner: Vec<Row>,
    plain: Plain,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    require: String,
    distributions: Vec<String>,
    families: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    distributions: Vec<String>,
}

impl Owner {
    /// Whether the distribution of this canonical name brings the libraries.
    pub(crate) fn is_brought_by(&self, distribution: &str) -> bool {
        self.distributions.iter().any(|pattern| pattern.matches(distribution))
    }

    /// Whether it is ROCm.
    pub(crate) fn is_rocm(&self) -> bool {
        self.name == "ROCm"
    }

    /// Whether it is PyTorch.
    pub(crate) fn is_torch(&self) -> bool {
        self.name == "PyTorch"
    }

    /// Whether it is CUDA.
    pub(crate) fn is_cuda(&self) -> bool {
        self.name == "CUDA"
    }
}

/// The name of a library up to and with `.so`.
fn family(library: &str) -> &str {
    library.find(".so.").map_or(library, |end| &library[..end + ".so".len()])
}

impl Owners {
    /// The table this program ships with.
    pub(crate) fn embedded() -> &'static Owners {
        static EMBEDDED: LazyLock<Owners> =
            LazyLock::new(|| Owners::parse(TABLE).expect("the embedded table is tested"));
        &EMBEDDED
    }

    fn parse(text: &str) -> Result<Owners, toml::de::Error> {
        let table: Table = toml::from_str(text)?;
        let patterns = |texts: Vec<String>| texts.iter().map(|text| Pattern::new(text)).collect();
        let owners = table.owner.into_iter().map(|row| Owner {
            name: row.name,
            require: row.require,
            distributions: patterns(row.distributions),
            families: patterns(row.families),
        });
        Ok(Owners { owners: owners.collect(), plain: table.plain.distributions })
    }

    /// Who brings the library of this SONAME.
    pub(crate) fn of(&self, library: &str) -> Option<&Owner> {
        let family = family(library);
        self.owners.iter().find(|owner| owner.families.iter().any(|pattern| pattern.matches(family)))
    }

    /// Whether the distribution of this canonical name is known to bring no libraries that others link to.
    pub(crate) fn is_plain(&self, distribution: &str) -> bool {
        self.plain.iter().any(|plain| plain == distribution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_libraries_have_owners() {
        let owners = Owners::embedded();
        let name = |library: &str| owners.of(library).map(|owner| owner.name.as_str());
        assert_eq!(name("libtorch_cpu.so"), Some("PyTorch"));
        assert_eq!(name("libamdhip64.so.7"), Some("ROCm"));
        assert_eq!(name("librocm_sysdeps_z.so.1"), Some("ROCm"));
        assert_eq!(name("libcudart.so.12"), Some("CUDA"));
        for foreign in ["libgomp.so.1", "libz.so.1", "libtorchish.so.1", "libamdhip64-1f7b8bcc.so.7", "libfoo.so"] {
            assert_eq!(name(foreign), None, "{foreign}");
        }
        let rocm = owners.of("libamdhip64.so.7").unwrap();
        assert!(rocm.is_brought_by("rocm-sdk-core") && rocm.is_brought_by("torch") && !rocm.is_brought_by("numpy"));
        assert!(owners.is_plain("numpy") && !owners.is_plain("torch"));
    }

    #[test]
    fn names_in_the_table_are_canonical() {
        for plain in &Owners::embedded().plain {
            assert_eq!(*plain, wheel::canonical_name(plain));
        }
    }
}
