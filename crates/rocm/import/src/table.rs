//! Input: `data/import.toml`, and the artifacts of the tables. Output: the artifact and path of a
//! file of the input.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::LazyLock;

use regex::Regex;
use rocwheel_artifact::Component;
use rocwheel_artifact::name::{ArtifactName, GENERIC};
use rocwheel_progress::Failure;
use rocwheel_tables::{Databases, Pattern, RocmTables};
use serde::Deserialize;

const NAME: &str = "import.toml";
const TABLE: &str = include_str!("../../../../data/import.toml");
/// The artifact of files that no rule claims.
pub(crate) const FALLBACK: &str = "base";
pub(crate) const SYSDEPS: &str = "sysdeps";

pub(crate) struct Table {
    paths: Vec<(Regex, String)>,
    skips: Vec<(Vec<Pattern>, String)>,
    basedirs: BTreeMap<String, String>,
    artifacts: Vec<ArtifactRule>,
    components: Vec<(Component, Vec<Pattern>)>,
    replacements: Vec<Replacement>,
    /// Files that several packages have with different bytes, and the packages they are taken from.
    owners: Vec<(Vec<Pattern>, Vec<Pattern>)>,
}

/// The packages and files that make up an artifact.
pub(crate) struct ArtifactRule {
    pub(crate) name: String,
    packages: Vec<Pattern>,
    files: Vec<Pattern>,
    lib: Vec<Pattern>,
    run: Vec<Pattern>,
}

/// A text that is replaced in some CMake files.
pub(crate) struct Replacement {
    pub(crate) files: Vec<Pattern>,
    pub(crate) from: String,
    pub(crate) to: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) artifact: ArtifactName,
    /// Path in the flattened tree.
    pub(crate) path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableText {
    path: Vec<PathText>,
    skip: Vec<SkipText>,
    component: BTreeMap<Component, Vec<String>>,
    cmake: Vec<CmakeText>,
    owner: Vec<OwnerText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnerText {
    files: Vec<String>,
    packages: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathText {
    from: String,
    to: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SkipText {
    patterns: Vec<String>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CmakeText {
    files: Vec<String>,
    from: String,
    to: String,
}

/// `rocblas-dev7.2.4` → `rocblas-dev`.
pub(crate) fn without_release(package: &str) -> &str {
    let stem = package.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let is_release = package[stem.len()..].split('.').filter(|number| !number.is_empty()).count() == 3;
    if is_release { stem } else { package }
}

fn compile(globs: &[String]) -> Vec<Pattern> {
    globs.iter().map(|glob| Pattern::new(glob)).collect()
}

fn any(patterns: &[Pattern], path: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(path))
}

fn malformed(reason: &dyn Display) -> Failure {
    Failure::message(format!("could not understand the table `{NAME}`: {reason}"))
}

impl Table {
    pub(crate) fn embedded() -> &'static Self {
        static EMBEDDED: LazyLock<Table> =
            LazyLock::new(|| Table::parse(TABLE, RocmTables::in_use()).expect("the embedded table is tested"));
        &EMBEDDED
    }

    /// Combines the rules with the artifacts of `tables`.
    pub(crate) fn of(tables: &RocmTables) -> Result<Self, Failure> {
        Self::parse(TABLE, tables)
    }

    fn parse(text: &str, tables: &RocmTables) -> Result<Self, Failure> {
        let table: TableText = toml::from_str(text).map_err(|error| malformed(&error))?;
        let paths = table.path.into_iter().map(|rule| {
            let expression = Regex::new(&rule.from);
            let expression = expression.map_err(|error| malformed(&error))?;
            Ok((expression, rule.to))
        });
        let artifacts = tables.artifacts().iter().map(|row| ArtifactRule {
            name: row.name.clone(),
            packages: compile(&row.packages),
            files: compile(&row.files),
            lib: compile(&row.lib),
            run: compile(&row.run),
        });
        let basedirs = tables.artifacts().iter().filter_map(|row| Some((row.name.clone(), row.basedir.clone()?)));
        let replacements = table.cmake.into_iter().map(|rule| Replacement {
            files: compile(&rule.files),
            from: rule.from,
            to: rule.to,
        });
        Ok(Self {
            paths: paths.collect::<Result<_, Failure>>()?,
            skips: table.skip.into_iter().map(|skip| (compile(&skip.patterns), skip.reason)).collect(),
            basedirs: basedirs.collect(),
            artifacts: artifacts.collect(),
            components: table.component.into_iter().map(|(component, globs)| (component, compile(&globs))).collect(),
            replacements: replacements.collect(),
            owners: table.owner.into_iter().map(|row| (compile(&row.files), compile(&row.packages))).collect(),
        })
    }

    /// `input` is a path in the input without leading `/` or `./`.
    pub(crate) fn flatten(&self, input: &str) -> String {
        for (from, to) in &self.paths {
            if let Some(captures) = from.captures(input) {
                let mut path = String::new();
                captures.expand(to, &mut path);
                return path.trim_matches('/').to_owned();
            }
        }
        input.to_owned()
    }

    /// The reason why the file at `path` (flattened) is never imported; `None` if it may be.
    pub(crate) fn skip(&self, path: &str) -> Option<&str> {
        self.skips.iter().find(|(patterns, _)| any(patterns, path)).map(|(_, reason)| reason.as_str())
    }

    /// `None` if the package is not ROCm's. AMD's packages for several releases side by side have
    /// the release at the end of their names.
    pub(crate) fn of_package(&self, package: &str) -> Option<&ArtifactRule> {
        let mut names = [package, without_release(package)].into_iter();
        names.find_map(|name| self.artifacts.iter().find(|artifact| any(&artifact.packages, name)))
    }

    /// The index of the package whose file at `path` (flattened) is taken if the bytes differ;
    /// `None` if no row names exactly one of them.
    pub(crate) fn owner_of(&self, path: &str, packages: [&str; 2]) -> Option<usize> {
        let (_, owners) = self.owners.iter().find(|(files, _)| any(files, path))?;
        match packages.map(|package| any(owners, package) || any(owners, without_release(package))) {
            [true, false] => Some(0),
            [false, true] => Some(1),
            _ => None,
        }
    }

    /// By the flattened path.
    pub(crate) fn of_file(&self, path: &str) -> Option<&ArtifactRule> {
        self.artifacts.iter().find(|artifact| any(&artifact.files, path))
    }

    pub(crate) fn artifact(&self, name: &str) -> Option<&ArtifactRule> {
        self.artifacts.iter().find(|artifact| artifact.name == name)
    }

    /// Relative to the artifact's directory.
    pub(crate) fn basedir(&self, artifact: &str) -> String {
        self.basedirs.get(artifact).cloned().unwrap_or_else(|| format!("{artifact}/stage"))
    }

    /// `path` is the flattened one.
    pub(crate) fn place(&self, rule: &ArtifactRule, path: String) -> Place {
        let database = Databases::embedded().classify(&path);
        let target = database.as_ref().and_then(|member| member.base_target());
        let artifact = ArtifactName {
            name: rule.name.clone(),
            component: self.component(rule, &path, database.is_some()).to_string(),
            target_family: target.unwrap_or(GENERIC).to_owned(),
        };
        Place { artifact, path }
    }

    /// Determines the component of a file. The table's components come first. Kernel databases are
    /// in the same component as the libraries that read them; then the artifact's own rule applies,
    /// then the default patterns in their order, then [`Component::Run`].
    fn component(&self, rule: &ArtifactRule, path: &str, database: bool) -> Component {
        if let Some((component, _)) = self.components.iter().find(|(_, patterns)| any(patterns, path)) {
            return *component;
        }
        if database || any(&rule.lib, path) {
            return Component::Lib;
        }
        if any(&rule.run, path) {
            return Component::Run;
        }
        let default = Component::CHAIN
            .into_iter()
            .find(|component| component.default_includes().iter().any(|glob| Pattern::new(glob).matches(path)));
        default.unwrap_or(Component::Run)
    }

    /// `path` is the flattened one.
    pub(crate) fn replacements<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a Replacement> {
        self.replacements.iter().filter(move |replacement| any(&replacement.files, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multi_arch_and_version_directories_are_flattened() {
        for (input, flat) in [
            ("usr/lib/x86_64-linux-gnu/libamdhip64.so.5", "lib/libamdhip64.so.5"),
            ("lib/x86_64-linux-gnu/libz.so.1", "lib/libz.so.1"),
            ("usr/lib/librocm_smi64.so.1", "lib/librocm_smi64.so.1"),
            ("usr/lib64/libx.so", "lib/libx.so"),
            ("usr/lib/x86_64-linux-gnu/amdgcn/bitcode/ocml.bc", "lib/llvm/amdgcn/bitcode/ocml.bc"),
            ("usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode/ocml.bc", "lib/llvm/amdgcn/bitcode/ocml.bc"),
            ("usr/lib/llvm-17/lib/clang/17", "lib/llvm"),
            ("usr/lib/llvm-17/lib/clang/17/include/stddef.h", "lib/llvm/lib/clang/17/include/stddef.h"),
            ("usr/lib/llvm-15/bin/clang", "lib/llvm/bin/clang"),
            ("usr/include/hip/hip_runtime.h", "include/hip/hip_runtime.h"),
            ("opt/rocm-6.2.0/lib/llvm/bin/clang", "lib/llvm/bin/clang"),
            ("opt/rocm/bin/hipcc", "bin/hipcc"),
            ("rocm-7.2.4/lib/llvm/bin/clang", "lib/llvm/bin/clang"),
            ("rocm-7.2.4/.info/version", ".info/version"),
            ("bin/rocminfo", "bin/rocminfo"),
            ("etc/x", "etc/x"),
        ] {
            assert_eq!(Table::embedded().flatten(input), flat, "{input}");
        }
    }

    #[test]
    fn packages_and_files_find_their_artifact() {
        let table = Table::embedded();
        for (artifact, packages) in [
            (Some("core-hip"), "libamdhip64-5 libhiprtc-builtins5 hip-utils"),
            (Some("amd-llvm"), "libamd-comgr2 hipcc rocm-device-libs-17"),
            (Some("core-runtime"), "libhsakmt1"),
            (Some("base"), "rocm-smi liboam7"),
            (Some("rand"), "librocrand1"),
            (Some("blas"), "librocsparse0 librocsolver0"),
            (Some("fft"), "libhipfft0"),
            (Some("miopen"), "libmiopen1"),
            (Some("magma"), "libmagma2-rocm"),
            (None, "libnuma1 libboost-atomic1.90.0 libllvm15 libstdc++6"),
        ] {
            for package in packages.split(' ') {
                assert_eq!(table.of_package(package).map(|rule| rule.name.as_str()), artifact, "{package}");
            }
        }
        for (path, artifact) in [
            ("lib/libhipblaslt.so.0", Some("blas")),
            ("lib/hipblaslt/library/x.dat", Some("blas")),
            ("lib/librocsolver.so.0", Some("blas")),
            ("include/rocrand/rocrand.h", Some("rand")),
            ("lib/llvm/bin/clang", Some("amd-llvm")),
            ("lib/rocm_sysdeps/lib/librocm_sysdeps_z.so.1", Some("sysdeps")),
            ("share/therock/therock_manifest.json", Some("base")),
            ("lib/libnobody.so.1", None),
        ] {
            assert_eq!(table.of_file(path).map(|rule| rule.name.as_str()), artifact, "{path}");
        }
    }

    /// Names of AMD's packages (repo of ROCm 6 and 7), without the release.
    #[test]
    fn packages_of_amd_find_their_artifact_with_and_without_release() {
        let table = Table::embedded();
        for (artifact, packages) in [
            ("base", "rocm-core rocm-smi-lib rocm-cmake rocprofiler-register half"),
            ("core-hip", "hip-runtime-amd hip-dev hip-doc hip-samples"),
            ("amd-llvm", "comgr rocm-llvm rocm-llvm-dev rocm-device-libs openmp-extras-runtime hipcc"),
            ("core-runtime", "hsa-rocr hsa-rocr-dev rocminfo hsa-amd-aqlprofile"),
            ("core-amdsmi", "amd-smi-lib"),
            ("blas", "rocblas rocblas-dev hipblas-common-dev hipblaslt hipsparselt rocsolver"),
            ("rand", "rocrand hiprand-dev"),
            ("fft", "rocfft"),
            ("rccl", "rccl rccl-dev"),
            ("miopen", "miopen-hip miopen-hip-gfx942kdb"),
            ("prim", "rocprim-dev rocthrust-dev hipcub-dev"),
            ("rocwmma", "rocwmma-dev"),
            ("composable-kernel", "composablekernel-dev"),
            ("rpp", "rpp"),
            ("migraphx", "migraphx"),
            ("hiptensor", "hiptensor"),
            ("rocalution", "rocalution"),
            ("hipify", "hipify-clang"),
            ("rocprofiler-sdk", "rocprofiler rocprofiler-dev rocprofiler-plugins rocprofiler-sdk roctracer"),
            ("amd-dbgapi", "rocm-dbgapi"),
            ("rocgdb", "rocm-gdb"),
            ("rocr-debug-agent", "rocm-debug-agent"),
            ("core-ocl", "rocm-opencl"),
            ("rocdecode", "rocdecode"),
            ("rocjpeg", "rocjpeg"),
        ] {
            for name in
                packages.split(' ').flat_map(|name| ["", "7.2.4", "6.4.3"].map(|release| format!("{name}{release}")))
            {
                assert_eq!(table.of_package(&name).map(|rule| rule.name.as_str()), Some(artifact), "{name}");
            }
        }
        for foreign in ["rocm", "rocm-hip-sdk7.2.4", "libdrm-amdgpu1", "amdgpu-core"] {
            assert!(table.of_package(foreign).is_none(), "{foreign}");
        }
    }

    #[test]
    fn a_file_that_differs_is_taken_from_its_owner() {
        let table = Table::embedded();
        for (path, packages, owner) in [
            ("lib/liborigami.a", ["libhipblaslt1", "libhipsparselt-dev"], Some(0)),
            ("lib/liborigami.a", ["libhipsparselt-dev", "libhipblaslt1"], Some(1)),
            ("lib/liborigami.a", ["hipsparselt-dev7.2.4", "hipblaslt-dev7.2.4"], Some(1)),
            ("lib/liborigami.a", ["libhipblaslt1", "libhipblaslt-dev"], None),
            ("lib/liborigami.a", ["librocsolver-dev", "libhipsparselt-dev"], None),
            ("include/origami/gemm.hpp", ["libhipblaslt-dev", "libhipsparselt-dev"], None),
        ] {
            assert_eq!(table.owner_of(path, packages), owner, "{path} {packages:?}");
        }
    }

    #[test]
    fn files_find_their_component_and_target() {
        let table = Table::embedded();
        for (artifact, path, name) in [
            ("core-hip", "lib/libamdhip64.so.5.2.21153", "core-hip_lib_generic"),
            ("core-hip", "include/hip/hip_runtime.h", "core-hip_dev_generic"),
            ("core-hip", "lib/cmake/hip/hip-config.cmake", "core-hip_dev_generic"),
            ("core-hip", "share/hip/version", "core-hip_run_generic"),
            ("core-hip", "share/doc/libamdhip64-5/copyright", "core-hip_doc_generic"),
            ("base", "share/man/man1/rocm-smi.1.gz", "base_doc_generic"),
            ("blas", "lib/rocblas/2.47.0/library/TensileLibrary_gfx90a.co", "blas_lib_gfx90a"),
            ("blas", "lib/rocblas/2.47.0/library/Kernels.so-000-gfx90a-xnack+.hsaco", "blas_lib_gfx90a"),
            ("blas", "lib/rocblas/2.47.0/library/TensileLibrary.dat", "blas_lib_generic"),
            ("fft", "lib/rocfft/1.0.27/rocfft_rtc_helper", "fft_lib_generic"),
            ("rand", "libexec/rocm/librocrand1-tests/test_a", "rand_test_generic"),
            ("amd-llvm", "lib/llvm/amdgcn/bitcode/ocml.bc", "amd-llvm_run_generic"),
        ] {
            let place = table.place(table.artifact(artifact).unwrap(), path.to_owned());
            assert_eq!(place.artifact.to_string(), name, "{path}");
        }
    }
}
