//! Input: a flag that a script lacks. Output: its meaning in the script of today's tools that has
//! it.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use rocwheel_console::failure::Usage;

/// Flags of today's scripts, with the script and the meaning there (rocm-python-packages spec 1.8,
/// 2.1, 4, 5.3, 6.5 to 6.9, 7.7 to 7.11).
const FLAGS: [(&str, &str, &str); 69] = [
    ("--artifact-dir", "build_python_packages", "the folder of artifacts"),
    ("--dest-dir", "build_python_packages", "the folder that packages are written to"),
    ("--build-packages", "build_python_packages", "writes packages rather than what they are made of"),
    ("--version-suffix", "build_python_packages", "is appended to the names of import packages"),
    ("--wheel-compression", "build_python_packages", "compresses wheels"),
    ("--devel-tarball-compression", "build_python_packages", "compresses the tar of the devel package"),
    ("--linux-amdgpu-families", "build_python_packages", "the GPU families for Linux"),
    ("--windows-amdgpu-families", "build_python_packages", "the GPU families for Windows"),
    ("--release-type", "compute_rocm_package_version", "the kind of release that versions are for"),
    ("--custom-version-suffix", "compute_rocm_package_version", "is appended to the base version"),
    ("--prerelease-version", "compute_rocm_package_version", "the number of the release candidate"),
    ("--override-base-version", "compute_rocm_package_version", "takes the place of that in version.json"),
    ("--override-git-sha", "compute_rocm_package_version", "the commit in versions of development"),
    ("--amdgpu-families", "expand_amdgpu_families", "the families whose targets are printed"),
    ("--output-mode", "expand_amdgpu_families", "targets or extras"),
    ("--descriptor", "fileset_tool", "the artifact.toml that says which files are whose"),
    ("--artifact-name", "fileset_tool", "the artifact that is made"),
    ("--compression-type", "fileset_tool", "xz or zstd"),
    ("--hash-file", "fileset_tool", "where an archive's digest is written"),
    ("--run-id", "fetch_artifacts", "the run whose artifacts are fetched"),
    ("--artifact-group", "fetch_artifacts", "the group of artifacts that is fetched or uploaded"),
    ("--amdgpu-targets", "fetch_artifacts", "the targets whose artifacts are fetched"),
    ("--run-github-repo", "fetch_artifacts", "the repository of the run"),
    ("--download-concurrency", "fetch_artifacts", "how many files are fetched at a time"),
    ("--extract-concurrency", "fetch_artifacts", "how many archives are unpacked at a time"),
    ("--no-extract", "fetch_artifacts", "leaves archives packed"),
    ("--extract", "fetch_artifacts", "unpacks archives"),
    ("--flatten", "fetch_artifacts", "lays artifacts over each other"),
    ("--delete-after-extract", "fetch_artifacts", "removes archives that are unpacked"),
    ("--topology", "artifact_manager", "the BUILD_TOPOLOGY.toml"),
    ("--stage", "artifact_manager", "the stage of the build whose artifacts are meant"),
    ("--bootstrap", "artifact_manager", "lays artifacts into a build tree"),
    ("--generic-only", "artifact_manager", "only artifacts that are the same for all GPUs"),
    ("--expand-family-to-targets", "artifact_manager", "adds the targets of the families"),
    ("--download-cache-dir", "artifact_manager", "where fetched archives are kept"),
    ("--exclude-components", "artifact_manager", "components that are not fetched"),
    ("--exclude-artifacts", "artifact_manager", "artifacts that are not fetched"),
    ("--local-staging-dir", "artifact_manager", "a directory instead of the store"),
    ("--source-run-id", "artifact_manager", "the run that artifacts are copied from"),
    ("--source-repository", "artifact_manager", "the repository that artifacts are copied from"),
    ("--build-dir", "artifact_manager", "the build whose artifacts are pushed"),
    ("--platform", "artifact_manager", "linux or windows"),
    ("--input-dir", "promote_packages", "the packages that are promoted"),
    ("--match-files", "promote_packages", "which files are promoted"),
    ("--delete-old-on-success", "promote_packages", "removes what was promoted"),
    ("--src-version-type", "promote_packages", "the kind of version that is promoted"),
    ("--dest-version", "promote_packages", "the version after the promotion"),
    ("--multi-arch-targets", "promote_packages", "the targets that are kept"),
    ("--skip-version-promotion", "promote_packages", "only leaves targets out"),
    ("--multiarch", "upload_python_packages", "the packages are for several families"),
    ("--bucket", "upload_python_packages", "the bucket that packages are uploaded to"),
    ("--kpack-split", "publish_rocm_to_release_buckets", "whether there are device packages"),
    ("--structured", "publish_rocm_to_release_buckets", "a directory for each package"),
    ("--python-index", "publish_rocm_to_release_buckets", "whl or whl-next"),
    ("--skip-native-packages", "publish_rocm_to_release_buckets", "leaves deb and rpm out"),
    ("--build-variant", "publish_rocm_to_release_buckets", "release or asan"),
    ("--execute", "upload_release_packages", "uploads instead of saying what would be"),
    ("--use-release-buckets", "upload_release_packages", "the buckets users install from"),
    ("--release", "install_rocm_from_artifacts", "the release that is installed"),
    ("--latest-release", "install_rocm_from_artifacts", "installs the newest release"),
    ("--base-only", "install_rocm_from_artifacts", "only compiler and runtime"),
    ("--amdgpu-family", "install_rocm_from_artifacts", "the family that is installed"),
    ("--device-query", "run_pytorch_tests", "which GPUs are candidates for the tests"),
    ("--gpu-policy", "run_pytorch_tests", "whether tests see one GPU or all"),
    ("--test-config", "run_pytorch_tests_full", "default, distributed or inductor"),
    ("--num-shards", "run_pytorch_tests_full", "the number of parts that the tests are divided into"),
    ("--include-tests", "create_skip_tests", "prints what runs only the skipped tests"),
    ("--rocm-sdk-version", "build_prod_wheels", "the ROCm packages that a framework is built with"),
    ("--index-url", "build_prod_wheels", "the index that packages are installed from"),
];

/// Explains a script that is not covered, or a flag of another script.
pub(crate) fn explain(error: &clap::Error, mut arguments: impl Iterator<Item = String>) -> Option<Usage> {
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand)
    {
        let script = typed.strip_suffix(".py").unwrap_or(typed);
        let is_known = FLAGS.iter().any(|(_, name, _)| *name == script);
        return (is_known && arguments.any(|argument| argument == "compat")).then(|| {
            Usage::new(format!("`rocwheel compat` does not cover the script `{script}`"))
                .hint("continue with today's script; `rocwheel compat` lists those that it covers")
        });
    }
    if error.kind() != ErrorKind::UnknownArgument || !arguments.any(|argument| argument == "compat") {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = typed.split('=').next().unwrap_or_default();
    let (_, script, meaning) =
        FLAGS.iter().find(|(name, ..)| *name == flag || positive(flag).as_deref() == Some(*name))?;
    let usage = Usage::new(format!("this script has no `{flag}`, neither today nor here"));
    Some(usage.hint(format!("`{flag}` is of `{script}`: {meaning}; remove it")))
}

/// Turns `--no-x` into `--x`.
fn positive(flag: &str) -> Option<String> {
    flag.strip_prefix("--no-").map(|name| format!("--{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(arguments: &[&str]) -> Option<String> {
        use clap::CommandFactory;
        let error = crate::arguments::Arguments::command().try_get_matches_from(arguments).unwrap_err();
        explain(&error, arguments.iter().map(|argument| (*argument).to_owned()))
            .map(|usage| format!("{usage} | {}", rocwheel_progress::Hint::hint(&usage).unwrap_or_default()))
    }

    #[test]
    fn flags_of_other_scripts_are_named_with_their_meaning() {
        let script = ["rocwheel", "compat", "expand_amdgpu_families", "--amdgpu-families", "x"];
        let with = |flag: &'static str| explained(&[&script[..], &[flag]].concat());
        assert_eq!(
            with("--run-id=5").unwrap(),
            "this script has no `--run-id`, neither today nor here | `--run-id` is of `fetch_artifacts`: the run whose \
             artifacts are fetched; remove it"
        );
        assert!(with("--no-delete-after-extract").unwrap().contains("removes archives"));
        assert!(with("--dest-dir").unwrap().contains("`--dest-dir` is of `build_python_packages`"));
        assert_eq!(with("--nonsense"), None);
        assert_eq!(explained(&["rocwheel", "package", "--run-id", "5"]), None);
    }

    #[test]
    fn each_flag_is_there_once() {
        let mut names: Vec<&str> = FLAGS.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FLAGS.len());
    }
}
