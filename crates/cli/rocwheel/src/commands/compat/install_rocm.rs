//! `rocwheel compat install_rocm_from_artifacts`: today's flags for `rocwheel artifact fetch
//! --flatten`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use rocwheel_commands_wheel::artifact_fetch::SystemArgument;
use rocwheel_console::failure::{Result, Usage};

use super::fetch_artifacts::{Run, begin, one_of};
use super::given;
use super::translation::Translation;

/// What every installation has, as in the script: names and components of artifacts.
const BASE: [&str; 18] = [
    "core-hipinfo_run",
    "core-runtime_run",
    "core-runtime_lib",
    "rocjitsu-hotswap_lib",
    "sysdeps_lib",
    "base_run",
    "base_lib",
    "amd-llvm_run",
    "amd-llvm_lib",
    "core-amdsmi_run",
    "core-amdsmi_lib",
    "core-hip_lib",
    "core-hip_dev",
    "core-kpack_lib",
    "core-ocl_lib",
    "core-ocl_dev",
    "rocprofiler-sdk_lib",
    "host-suite-sparse_lib",
];

/// A flag that selects artifacts.
struct Selection {
    flag: &'static str,
    /// The flag that undoes it.
    no: &'static str,
    /// Artifacts whose component `lib` is fetched, and with `--tests` their component `test`.
    artifacts: &'static [&'static str],
    /// Names and components that are fetched besides.
    besides: &'static [&'static str],
}

macro_rules! selections {
    ($($flag:literal: $artifacts:tt $besides:tt,)*) => {
        [$(Selection { flag: $flag, no: concat!("no-", $flag), artifacts: &$artifacts, besides: &$besides },)*]
    };
}

/// The artifacts that the flags of the script select, as in TheRock at the commit of
/// `scripts/fetch-therock`.
const SELECTIONS: [Selection; 33] = selections! {
    "aqlprofile": ["aqlprofile"] [],
    "blas": ["blas"] [],
    "debug-tools": ["amd-dbgapi", "rocgdb", "rocr-debug-agent", "rocr-debug-agent-tests", "gmp", "mpfr", "expat",
        "ncurses"] ["rocgdb_run", "amd-llvm_dev"],
    "fft": ["fft", "fftw3"] [],
    "hipdnn": ["hipdnn"] [],
    "hipdnn-integration-tests": ["hipdnn-integration-tests"] ["hipdnn-integration-tests_run", "rand_lib"],
    "hipdnn-samples": ["hipdnn-samples"] [],
    "hipfile": ["hipfile", "sysdeps-util-linux"] [],
    "miopen": ["miopen"] ["miopen_run", "rand_dev"],
    "miopenprovider": ["miopenprovider"] [],
    "hipkernelprovider": ["hipkernelprovider"] [],
    "hiptensor": ["hiptensor"] [],
    "rocdecode": ["sysdeps-amd-mesa", "rocdecode"] ["rocdecode_dev", "rocdecode_test", "base_dev", "amd-llvm_dev"],
    "rocjpeg": ["sysdeps-amd-mesa", "rocjpeg"] ["rocjpeg_dev", "rocjpeg_test", "base_dev", "amd-llvm_dev"],
    "rocjitsu": ["rocjitsu"] ["rocjitsu_run"],
    "mirage": ["mirage"] ["mirage_run"],
    "hipblasltprovider": ["hipblasltprovider"] [],
    "prim": ["prim"] [],
    "rand": ["rand"] [],
    "rccl": ["rccl"] [],
    "rocshmem": ["rocshmem", "openmpi"] ["rocshmem_run", "openmpi_run"],
    "mpi": ["openmpi"] ["openmpi_run", "openmpi_dev"],
    "rocprofiler-compute": ["rocprofiler-compute"] ["rocprofiler-compute_run"],
    "rocprofiler-sdk": ["rocprofiler-sdk", "aqlprofile"] ["rocprofiler-sdk_run"],
    "rocprofiler-systems": ["rocprofiler-systems"] ["rocprofiler-systems_run", "rocprofiler-sdk_dev"],
    "rocprofiler-systems-examples": [] ["rocprofiler-systems-examples_test"],
    "rocrtst": ["rocrtst", "sysdeps-hwloc", "sysdeps-libpciaccess"] [],
    "rocalution": ["rocalution"] ["rocalution_dev"],
    "kfdtest": ["kfdtest"] ["amd-llvm_dev", "amd-llvm_lib"],
    "rocwmma": ["rocwmma"] ["rocwmma_dev"],
    "rpp": ["rpp"] ["rpp_dev", "base_dev", "amd-llvm_dev"],
    "libhipcxx": ["libhipcxx"] ["amd-llvm_dev", "amd-llvm_lib", "base_dev_generic"],
    "hipthreads": ["hipthreads", "libhipcxx"] ["hipthreads_dev", "core-hip_run", "libhipcxx_dev", "amd-llvm_dev",
        "amd-llvm_lib", "base_dev_generic"],
};

/// install_rocm_from_artifacts: an installed ROCm of a CI run or a release
///
/// What cannot be found is an error here. The output is replaced as a whole when the new tree is
/// complete; the script removes it first.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(group = ArgGroup::new("place").required(true).args(["run_id", "release", "latest_release", "input_dir"]))]
#[command(
    after_help = "Flags such as `--blas`, `--fft`, `--miopen`, `--rccl` and `--no-blas` select artifacts as in the script."
)]
pub(super) struct Arguments {
    /// Directory of the tree
    #[arg(long, value_name = "DIR", default_value = "therock-build")]
    output_dir: PathBuf,
    /// GPU family or bundle of the artifacts
    #[arg(long, visible_alias = "amdgpu-family", value_name = "NAME")]
    artifact_group: String,
    /// Number of the run
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// Version of a release
    #[arg(long, value_name = "VERSION")]
    release: Option<String>,
    /// Not here: name the version
    #[arg(long)]
    latest_release: bool,
    /// Not here: the directory is one already
    #[arg(long, value_name = "DIR")]
    input_dir: Option<PathBuf>,
    /// Print what would be fetched
    #[arg(long)]
    dry_run: bool,
    /// GPU targets, separated by commas [default: those of the family]
    #[arg(long, value_name = "LIST")]
    amdgpu_targets: Option<String>,
    /// Repository of the run
    #[arg(long, value_name = "OWNER/NAME")]
    run_github_repo: Option<String>,
    /// Also the tests of what is selected
    #[arg(long, overrides_with = "no_tests")]
    tests: bool,
    /// No tests, as is the default
    #[arg(long)]
    no_tests: bool,
    /// Only compiler and runtime
    #[arg(long)]
    base_only: bool,
    /// `--blas`, `--no-blas` and so on
    #[command(flatten)]
    selected: Selected,
}

/// The flags of [`SELECTIONS`], each with its `--no-` form.
#[derive(Debug)]
pub(super) struct Selected(Vec<&'static str>);

fn flags() -> impl Iterator<Item = &'static Selection> {
    SELECTIONS.iter()
}

impl clap::FromArgMatches for Selected {
    fn from_arg_matches(matches: &clap::ArgMatches) -> std::result::Result<Self, clap::Error> {
        Ok(Self(flags().map(|selection| selection.flag).filter(|flag| matches.get_flag(flag)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Selected {
    fn augment_args(command: clap::Command) -> clap::Command {
        flags().fold(command, |command, selection| {
            let names = if selection.artifacts.is_empty() { selection.besides } else { selection.artifacts };
            let yes = flag(selection.flag, format!("Fetch {}", names.join(", ")));
            let not = flag(selection.no, format!("Undo --{}", selection.flag)).hide(true);
            command.arg(yes.overrides_with(selection.no)).arg(not.overrides_with(selection.flag))
        })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

fn flag(name: &'static str, help: String) -> clap::Arg {
    clap::Arg::new(name).long(name).help(help).action(clap::ArgAction::SetTrue)
}

impl Arguments {
    pub(super) fn translated(self) -> Result<Translation> {
        if self.latest_release {
            return Err(Usage::new(
                "`--latest-release` has no counterpart: which release is meant would change every day",
            )
            .hint("name the version with `--release VERSION`, or use `rocwheel artifact fetch --latest-good`")
            .into());
        }
        if let Some(folder) = &self.input_dir {
            return Err(Usage::new(format!("`{}` is an installed ROCm already", folder.display()))
                .hint("use it where it is, or copy it with `cp -a`")
                .into());
        }
        if let Some(version) = &self.release {
            let mut translation = Translation::new("artifact fetch");
            translation.option("--release", Some(version));
            translation.option("--targets", Some(self.artifact_group));
            translation.option("--output", Some(self.output_dir));
            translation.flag("--dry-run", self.dry_run);
            translation
                .note("the release is imported as artifacts: `rocwheel artifact flatten` makes one tree of them");
            return Ok(translation);
        }
        let run = Run {
            id: self.run_id.unwrap_or_default(),
            platform: SystemArgument::Linux,
            repository: self.run_github_repo,
            staging: None,
            transport: None,
        };
        let mut translation = begin(run);
        let group = self.artifact_group;
        let targets = given(self.amdgpu_targets).map_or_else(|| group.clone(), |targets| format!("{group},{targets}"));
        translation.option("--targets", Some(targets));
        let selected: Vec<_> = flags().filter(|selection| self.selected.0.contains(&selection.flag)).collect();
        if self.base_only || !selected.is_empty() {
            let base: Vec<String> = BASE.iter().map(|word| (*word).to_owned()).collect();
            translation.option("--include", Some(one_of(&base)));
        }
        if !self.base_only {
            for selection in selected {
                let components = if self.tests { "(lib|test)" } else { "lib" };
                let of_artifacts = selection.artifacts.iter().map(|artifact| format!("{artifact}_{components}"));
                let words: Vec<String> =
                    of_artifacts.chain(selection.besides.iter().map(|word| (*word).to_owned())).collect();
                translation.option("--include", Some(one_of(&words)));
            }
        }
        translation.option("--output", Some(self.output_dir));
        translation.word("--flatten");
        translation.word("--force");
        translation.word("--no-cache");
        translation.flag("--dry-run", self.dry_run);
        Ok(translation)
    }
}
