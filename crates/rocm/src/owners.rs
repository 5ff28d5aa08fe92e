//! Input: the name of a library. Output: the distributions that provide it.

use std::path::Path;
use std::sync::LazyLock;

use crate::providers::{self, LibraryProduct, Providers};
use crate::rows::LibraryRow;
use crate::{Pattern, RocmTables, windows};

/// The products that provide well-known libraries.
#[derive(Debug)]
pub struct Owners {
    owners: Vec<LibraryOwner>,
    plain: Vec<String>,
}

/// A product whose libraries others link to.
#[derive(Debug)]
pub struct LibraryOwner {
    /// The common name of the product.
    pub name: String,
    require: Option<String>,
    parts: Vec<Pattern>,
    cuda: bool,
    distributions: Vec<Pattern>,
    families: Vec<Pattern>,
    windows: Vec<Pattern>,
    kind: Option<LibraryProduct>,
}

impl LibraryOwner {
    /// `true` if the distribution with this canonical name provides the libraries.
    pub fn is_brought_by(&self, distribution: &str) -> bool {
        self.distributions.iter().any(|pattern| pattern.matches(distribution))
    }

    /// `true` for the parts of ROCm itself.
    pub fn is_rocm(&self) -> bool {
        self.kind == Some(LibraryProduct::Rocm)
    }

    /// `true` for PyTorch.
    pub fn is_torch(&self) -> bool {
        self.kind == Some(LibraryProduct::Torch)
    }

    /// `true` for CUDA, and for NVIDIA's libraries for it.
    pub fn is_cuda(&self) -> bool {
        self.cuda
    }

    /// The requirement that installs it, for this major version of CUDA; `None` if no distribution
    /// fits in general.
    pub fn requirement(&self, cuda: u32) -> Option<String> {
        Some(self.require.as_ref()?.replace("{cuda}", &cuda.to_string()))
    }

    /// `true` if the requirement requires the distribution with this canonical name.
    pub fn has_part(&self, distribution: &str) -> bool {
        self.parts.iter().any(|pattern| pattern.matches(distribution))
    }
}

impl Owners {
    /// The owners of [`RocmTables::in_use`].
    pub fn embedded() -> &'static Owners {
        static EMBEDDED: LazyLock<Owners> = LazyLock::new(|| Owners::of_tables(RocmTables::in_use()));
        &EMBEDDED
    }

    /// The owners of these tables, each with the SONAMEs of its rows of libraries that name no
    /// distribution.
    pub fn of_tables(tables: &RocmTables) -> Owners {
        let patterns = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect();
        let owners = tables.owners.iter().map(|row| {
            let mut families: Vec<Pattern> = patterns(&row.families);
            let unclaimed = |library: &&LibraryRow| library.owner == row.name && library.distribution.is_none();
            families.extend(tables.libraries.iter().filter(unclaimed).map(|library| Pattern::new(&library.soname)));
            LibraryOwner {
                name: row.name.clone(),
                require: row.require.clone(),
                parts: patterns(&row.parts),
                cuda: row.cuda,
                distributions: patterns(&row.distributions),
                families,
                windows: patterns(&row.windows),
                kind: row.kind,
            }
        });
        Owners { owners: owners.collect(), plain: tables.plain.clone() }
    }

    /// The product that provides the library with this SONAME, or the DLL with this name.
    pub fn of(&self, library: &str) -> Option<&LibraryOwner> {
        let lower = library.to_ascii_lowercase();
        if Path::new(&lower).extension().is_some_and(|extension| extension == "dll") {
            let is_rocm = windows::provider(&lower) == Some(windows::DllProvider::Rocm);
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

    /// `true` if the distribution with this canonical name is known to provide no libraries that
    /// others link to.
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
        let required = |library: &str, cuda| owners.of(library).and_then(|owner| owner.requirement(cuda));
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
    fn names_in_the_table_are_canonical() {
        for plain in &Owners::embedded().plain {
            let is_canonical = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            assert!(plain.bytes().all(is_canonical) && !plain.contains("--"), "{plain}");
        }
    }
}
