//! Input: `data/library-owners.toml` and the name of a library. Output: which distributions bring
//! it. Where ROCm's and PyTorch's libraries lie is in the table of [`crate::providers`], and their
//! names are there only.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::providers::{self, Kind, Providers};
use crate::{Pattern, windows};

const TABLE: &str = include_str!("../../../data/library-owners.toml");

/// Who brings well-known libraries.
#[derive(Debug)]
pub struct Owners {
    owners: Vec<Owner>,
    plain: Vec<String>,
}

/// A product whose libraries others link to.
#[derive(Debug)]
pub struct Owner {
    /// What people call it.
    pub name: String,
    require: String,
    cuda: bool,
    distributions: Vec<Pattern>,
    families: Vec<Pattern>,
    windows: Vec<Pattern>,
    kind: Option<Kind>,
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
    #[serde(default)]
    cuda: bool,
    distributions: Vec<String>,
    /// Whose families in the other table are this owner's as well.
    kind: Option<Kind>,
    families: Vec<String>,
    #[serde(default)]
    windows: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    distributions: Vec<String>,
}

impl Owner {
    /// Whether the distribution of this canonical name brings the libraries.
    pub fn is_brought_by(&self, distribution: &str) -> bool {
        self.distributions.iter().any(|pattern| pattern.matches(distribution))
    }

    /// Whether it is ROCm.
    pub fn is_rocm(&self) -> bool {
        self.kind == Some(Kind::Rocm)
    }

    /// Whether it is PyTorch.
    pub fn is_torch(&self) -> bool {
        self.kind == Some(Kind::Torch)
    }

    /// Whether it is CUDA, or one of NVIDIA's libraries for it.
    pub fn is_cuda(&self) -> bool {
        self.cuda
    }

    /// The requirement that brings it, for this major version of CUDA.
    pub fn requirement(&self, cuda: u32) -> String {
        self.require.replace("{cuda}", &cuda.to_string())
    }
}

impl Owners {
    /// The table this program ships with.
    pub fn embedded() -> &'static Owners {
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
            cuda: row.cuda,
            distributions: patterns(row.distributions),
            families: patterns(row.families),
            windows: patterns(row.windows),
            kind: row.kind,
        });
        Ok(Owners { owners: owners.collect(), plain: table.plain.distributions })
    }

    /// Who brings the library of this SONAME, or the DLL of this name.
    pub fn of(&self, library: &str) -> Option<&Owner> {
        let lower = library.to_ascii_lowercase();
        if lower.ends_with(".dll") {
            let is_rocm = windows::provider(&lower) == Some(windows::Provider::Rocm);
            let mut owners = self.owners.iter();
            return owners.find(|owner| {
                is_rocm && owner.is_rocm() || owner.windows.iter().any(|pattern| pattern.matches(&lower))
            });
        }
        let family = providers::family(library);
        let kind = Providers::embedded().of(library).map(|provider| provider.kind);
        self.owners.iter().find(|owner| {
            (kind.is_some() && owner.kind == kind) || owner.families.iter().any(|pattern| pattern.matches(family))
        })
    }

    /// Whether the distribution of this canonical name is known to bring no libraries that others
    /// link to.
    pub fn is_plain(&self, distribution: &str) -> bool {
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
        assert_eq!(name("libcudnn_ops.so.9"), Some("cuDNN"));
        assert_eq!(name("libcutensornet.so.2"), Some("cuQuantum"));
        assert_eq!(name("amdhip64_7.dll"), Some("ROCm"));
        assert_eq!(name("torch_cpu.dll"), Some("PyTorch"));
        assert_eq!(name("cudart64_12.dll"), Some("CUDA"));
        assert_eq!(name("cudnn_ops64_9.dll"), Some("cuDNN"));
        assert_eq!(name("libiomp5md.dll"), Some("oneAPI"));
        assert_eq!(name("Qt6Core.dll"), Some("Qt"));
        assert_eq!(name("zlib1.dll"), None);
        let required = |library: &str, cuda| owners.of(library).map(|owner| owner.requirement(cuda));
        assert_eq!(required("libnccl.so.2", 13).as_deref(), Some("nvidia-nccl-cu13"));
        assert_eq!(required("libcutensor.so.2", 12).as_deref(), Some("cutensor-cu12"));
        assert_eq!(required("libcublas.so.12", 12).as_deref(), Some("cuda-toolkit"));
        let cudnn = owners.of("libcudnn.so.9").unwrap();
        assert!(cudnn.is_cuda() && cudnn.is_brought_by("nvidia-cudnn-cu12"));
        assert!(!cudnn.is_brought_by("cuda-toolkit") && !cudnn.is_brought_by("nvidia-nccl-cu12"));
        for foreign in ["libgomp.so.1", "libz.so.1", "libtorchish.so.1", "libamdhip64-1f7b8bcc.so.7", "libfoo.so"] {
            assert_eq!(name(foreign), None, "{foreign}");
        }
        let rocm = owners.of("libamdhip64.so.7").unwrap();
        assert!(rocm.is_brought_by("rocm-sdk-core") && rocm.is_brought_by("torch") && !rocm.is_brought_by("numpy"));
        assert!(owners.is_plain("numpy") && !owners.is_plain("torch"));
    }

    #[test]
    fn nothing_is_in_both_tables() {
        for provider in Providers::embedded().all() {
            let owners = Owners::embedded().owners.iter();
            let said: Vec<&str> = owners
                .filter(|owner| owner.families.iter().any(|pattern| pattern.glob() == provider.family))
                .map(|owner| owner.name.as_str())
                .collect();
            assert!(said.is_empty(), "{} of {said:?}", provider.family);
        }
    }

    #[test]
    fn names_in_the_table_are_canonical() {
        for plain in &Owners::embedded().plain {
            let is_canonical = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            assert!(plain.bytes().all(is_canonical) && !plain.contains("--"), "{plain}");
        }
    }
}
