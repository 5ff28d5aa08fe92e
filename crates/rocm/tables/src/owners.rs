//! Input: the name of a library. Output: the distributions that provide it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use crate::providers::{self, Providers};
use crate::rows::{LibraryProduct, OwnedLibraryRow};
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
    pub name: String,
    require: Option<String>,
    parts: Vec<Pattern>,
    cuda: bool,
    counts: Option<u32>,
    libraries: Vec<OwnedLibrary>,
    distributions: Vec<Pattern>,
    families: Vec<Pattern>,
    windows: Vec<Pattern>,
    kind: Option<LibraryProduct>,
}

/// Libraries of an owner, and the part of its requirement that brings them.
#[derive(Debug)]
struct OwnedLibrary {
    names: Vec<Pattern>,
    extra: Option<String>,
    releases: Option<BTreeMap<u32, Vec<u32>>>,
}

/// The part of an owner's requirement that brings a library.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequiredPart {
    pub extra: Option<String>,
    /// The major versions that have the library under its SONAME; `None` if all have.
    pub releases: Option<BTreeSet<u32>>,
}

impl OwnedLibrary {
    fn of(row: &OwnedLibraryRow) -> OwnedLibrary {
        OwnedLibrary {
            names: row.names.iter().map(|name| Pattern::new(&name.to_ascii_lowercase())).collect(),
            extra: row.extra.clone(),
            releases: row.releases.as_ref().map(|releases| {
                releases.iter().filter_map(|(number, minors)| Some((number.parse().ok()?, minors.clone()))).collect()
            }),
        }
    }
}

impl LibraryOwner {
    /// A library is given as a SONAME or the name of a DLL; `None` if the requirement is not known
    /// to bring it.
    pub fn part_with(&self, library: &str) -> Option<RequiredPart> {
        let is_dll = library.to_ascii_lowercase().ends_with(".dll");
        let library = soname_of(library);
        let number = number_in(&library);
        if self.libraries.is_empty() {
            let release = self.counts.zip(number).map(|(counts, number)| BTreeSet::from([number / counts]));
            return Some(RequiredPart { extra: None, releases: release });
        }
        let family = providers::family(&library).to_ascii_lowercase();
        let row = self.libraries.iter().find(|row| row.names.iter().any(|pattern| pattern.matches(&family)));
        let Some(row) = row else {
            // The table has the names of Linux. Only extras need to be known by name.
            let is_whole = is_dll && self.libraries.iter().all(|row| row.extra.is_none());
            return is_whole.then(RequiredPart::default);
        };
        let releases = match (&row.releases, number) {
            (_, None) => None,
            (None, Some(number)) => Some(BTreeSet::from([number])),
            (Some(releases), Some(number)) => {
                let majors = releases.get(&number)?;
                (!majors.is_empty()).then(|| majors.iter().copied().collect())
            }
        };
        Some(RequiredPart { extra: row.extra.clone(), releases })
    }

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

    /// `true` if its libraries are behind extras of the requirement.
    pub fn has_extras(&self) -> bool {
        self.libraries.iter().any(|row| row.extra.is_some())
    }

    /// `true` if the requirement requires the distribution with this canonical name.
    pub fn has_part(&self, distribution: &str) -> bool {
        self.parts.iter().any(|pattern| pattern.matches(distribution))
    }
}

/// The SONAME on Linux of a library that is given by the name of its DLL: `libcudart.so.12` for
/// `cudart64_12.dll`. Other names stay unchanged.
fn soname_of(library: &str) -> String {
    let lower = library.to_ascii_lowercase();
    let Some(stem) = lower.strip_suffix(".dll") else { return library.to_owned() };
    let (name, version) = stem.split_once('_').unwrap_or((stem, ""));
    let name = name.strip_suffix("64").unwrap_or(name);
    let number: String = version.chars().take_while(char::is_ascii_digit).collect();
    // `cudart64_110.dll` belongs to CUDA 11.0.
    let number = match number.parse::<u32>() {
        Ok(number) if number >= 100 => format!(".{}", number / 10),
        Ok(number) => format!(".{number}"),
        Err(_) => String::new(),
    };
    format!("lib{name}.so{number}")
}

/// The first number behind `.so.` in a SONAME.
fn number_in(soname: &str) -> Option<u32> {
    soname.split_once(".so.")?.1.split('.').next()?.parse().ok()
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
        let owners = tables.owners.iter().map(|row| {
            let mut families = patterns(&row.families);
            let rows =
                tables.libraries.iter().filter(|library| library.owner == row.name && library.distribution.is_none());
            families.extend(rows.map(|library| Pattern::new(&library.soname)));
            LibraryOwner {
                name: row.name.clone(),
                require: row.require.clone(),
                parts: patterns(&row.parts),
                cuda: row.cuda,
                counts: row.counts,
                libraries: row.library.iter().map(OwnedLibrary::of).collect(),
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

fn patterns(texts: &[String]) -> Vec<Pattern> {
    texts.iter().map(|text| Pattern::new(text)).collect()
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
    fn a_library_tells_the_extra_and_the_releases_that_bring_it() {
        let owners = Owners::embedded();
        for (library, extra, releases) in [
            ("libcublas.so.11", Some("cublas"), Some(&[11][..])),
            ("libcublasLt.so.12", Some("cublas"), Some(&[12])),
            ("libcudart.so.11.0", Some("cudart"), Some(&[11])),
            ("libcusparse.so.12", Some("cusparse"), Some(&[12, 13])),
            ("libcufft.so.10", Some("cufft"), Some(&[11])),
            ("libnvToolsExt.so.1", Some("nvtx"), Some(&[11, 12])),
            ("cudart64_110.dll", Some("cudart"), Some(&[11])),
            ("cublasLt64_12.dll", Some("cublas"), Some(&[12])),
            ("nvrtc64_120_0.dll", Some("nvrtc"), Some(&[12])),
            ("libcudnn.so.8", None, Some(&[8])),
            ("libarrow.so.1700", None, Some(&[17])),
            ("libtorch.so", None, None),
            ("libmkl_rt.so.2", None, None),
            ("mkl_rt.2.dll", None, None),
            ("libmpi.so.12", None, None),
        ] {
            let part = owners.of(library).and_then(|owner| owner.part_with(library));
            let releases = releases.map(|releases| releases.iter().copied().collect());
            assert_eq!(part, Some(RequiredPart { extra: extra.map(str::to_owned), releases }), "{library}");
        }
        // No version of the requirement is known to have these.
        for library in ["libcufft.so.9", "libnvperf_host.so", "libsycl.so.8", "libmkl_rt.so.1", "libmpi.so.40"] {
            assert_eq!(owners.of(library).and_then(|owner| owner.part_with(library)), None, "{library}");
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
