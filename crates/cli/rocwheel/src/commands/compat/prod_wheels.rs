//! `rocwheel compat build_prod_wheels`: TheRock's script that builds PyTorch and its companions,
//! done by `rocwheel build`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};

use super::given;
use super::translation::Translation;

/// build_prod_wheels: wheels of torch, torchaudio, torchvision, triton and apex
///
/// Like the script, these work in the active Python environment, if there is one.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    rocm: RocmArguments,
    /// Print what would be done and do nothing
    #[arg(long, global = true)]
    dry_run: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Install the packages of ROCm into the active environment
    InstallRocm,
    /// Build the wheels of the existing trees
    Build(Box<BuildArguments>),
}

/// Where the packages of ROCm come from; also in front of the command, as a document of the script
/// has it.
#[derive(Debug, Args)]
struct RocmArguments {
    /// Index with the packages of ROCm
    #[arg(long, value_name = "URL", global = true)]
    index_url: Option<String>,
    /// Page or folder with the packages of ROCm
    #[arg(long, value_name = "PLACE", global = true)]
    find_links: Option<String>,
    /// Without effect: set the variable PIP_CACHE_DIR
    #[arg(long, value_name = "DIR", global = true)]
    pip_cache_dir: Option<PathBuf>,
    /// Which packages: a specifier with its operator
    #[arg(long, value_name = "SPECIFIER", default_value = ">1.0", global = true)]
    rocm_sdk_version: String,
    /// Take pre-releases too, as is the default
    #[arg(long, overrides_with = "no_pre", global = true)]
    pre: bool,
    /// Take no pre-releases
    #[arg(long, global = true)]
    no_pre: bool,
    /// More extras of the package rocm
    #[arg(long, value_name = "NAMES", global = true)]
    rocm_extras: Option<String>,
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the script")]
struct BuildArguments {
    /// Install the packages of ROCm first
    #[arg(long, overrides_with = "no_install_rocm")]
    install_rocm: bool,
    /// Take those that are installed in the active environment, as is the default
    #[arg(long)]
    no_install_rocm: bool,
    /// Folder for the wheels
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// Call compilers through ccache
    #[arg(long, conflicts_with = "use_sccache")]
    use_ccache: bool,
    /// Call compilers through sccache
    #[arg(long)]
    use_sccache: bool,
    /// With --use-sccache: only the host's compilers
    #[arg(long)]
    sccache_no_wrap: bool,
    /// Folder below which the trees are
    #[arg(long, value_name = "DIR", default_value = ".")]
    root_checkout_dir: PathBuf,
    /// Tree of torch
    #[arg(long, value_name = "DIR")]
    pytorch_dir: Option<PathBuf>,
    /// Tree of torchaudio
    #[arg(long, value_name = "DIR")]
    pytorch_audio_dir: Option<PathBuf>,
    /// Tree of torchvision
    #[arg(long, value_name = "DIR")]
    pytorch_vision_dir: Option<PathBuf>,
    /// Tree of triton
    #[arg(long, value_name = "DIR")]
    triton_dir: Option<PathBuf>,
    /// Tree of apex
    #[arg(long, value_name = "DIR")]
    apex_dir: Option<PathBuf>,
    /// GPU targets [default: PYTORCH_ROCM_ARCH, else those of ROCm]
    #[arg(long, value_name = "LIST")]
    pytorch_rocm_arch: Option<String>,
    /// Build torch alone, with the address sanitizer, against packages of ROCm that have it
    #[arg(long, conflicts_with_all = ["build_triton", "build_pytorch_audio", "build_pytorch_vision", "build_apex"])]
    asan: bool,
    /// Number of the build
    #[arg(long, value_name = "N")]
    pytorch_build_number: Option<String>,
    /// Build triton [default: where its tree is there; the same for the others]
    #[arg(long, overrides_with = "no_build_triton")]
    build_triton: bool,
    /// Do not build triton
    #[arg(long)]
    no_build_triton: bool,
    /// Build torchaudio
    #[arg(long, overrides_with = "no_build_pytorch_audio")]
    build_pytorch_audio: bool,
    /// Do not build torchaudio
    #[arg(long)]
    no_build_pytorch_audio: bool,
    /// Build torchvision
    #[arg(long, overrides_with = "no_build_pytorch_vision")]
    build_pytorch_vision: bool,
    /// Do not build torchvision
    #[arg(long)]
    no_build_pytorch_vision: bool,
    /// Build apex
    #[arg(long, overrides_with = "no_build_apex")]
    build_apex: bool,
    /// Do not build apex
    #[arg(long)]
    no_build_apex: bool,
    /// Build torch's flash attention [default: where the GPU targets have it]
    #[arg(long, alias = "enable-pytorch-flash-attention-linux", overrides_with = "no_enable_pytorch_flash_attention")]
    enable_pytorch_flash_attention: bool,
    /// Leave it out
    #[arg(long, alias = "no-enable-pytorch-flash-attention-linux")]
    no_enable_pytorch_flash_attention: bool,
    /// Without effect: this is not Windows
    #[arg(long)]
    enable_pytorch_flash_attention_windows: bool,
    /// Without effect: this is not Windows
    #[arg(long)]
    no_enable_pytorch_flash_attention_windows: bool,
    /// Local part of the version
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    version_suffix: Option<String>,
    /// ci, dev, dev-bkc, nightly, nightly-bkc or prerelease
    #[arg(long, value_name = "TYPE")]
    release_type: Option<String>,
    /// Remove what earlier builds left first
    #[arg(long, overrides_with = "no_clean")]
    clean: bool,
    /// Keep what earlier builds left, as is the default
    #[arg(long)]
    no_clean: bool,
    /// More options, of `rocwheel build`
    #[arg(last = true, value_name = "OPTION")]
    more: Vec<String>,
}

impl Arguments {
    /// The equivalent rocwheel command line.
    pub(super) fn translated(self) -> Result<Translation> {
        let active = environment::first_of(&["VIRTUAL_ENV", "CONDA_PREFIX"]).map(PathBuf::from);
        let mut line = match self.action {
            Action::InstallRocm => {
                let Some(active) = active else {
                    let usage =
                        Usage::new("`install-rocm` installs into the active Python environment, and none is active");
                    let hint = "activate one: `source .venv/bin/activate`; for a Python of a container \
                                use `rocwheel build install-rocm --into PREFIX`";
                    return Err(usage.hint(hint).into());
                };
                let mut line = Translation::new("build install-rocm");
                line.option("--into", Some(active));
                line.option("--rocm-sdk", Some(self.rocm.place()?.unwrap_or("index".into())));
                line.option("--rocm-sdk-version", Some(&self.rocm.rocm_sdk_version).filter(|text| !is_default(text)));
                line
            }
            Action::Build(arguments) => arguments.translated(&self.rocm, active.as_deref())?,
        };
        self.rocm.add(&mut line);
        line.flag("--dry-run", self.dry_run);
        Ok(line)
    }
}

/// The target whose GPUs can run code with the sanitizer.
const ASAN_TARGET: &str = "gfx942:xnack+";

/// `true` for the script's default, which is also the default of `rocwheel build`.
fn is_default(specifier: &str) -> bool {
    specifier == ">1.0"
}

impl RocmArguments {
    /// The source of ROCm's packages, as a value of `--rocm-sdk`.
    fn place(&self) -> Result<Option<String>, Usage> {
        match (given(self.index_url.clone()), given(self.find_links.clone())) {
            (Some(_), Some(_)) => {
                let usage =
                    Usage::new("`--index-url` and `--find-links` are both named, and ROCm comes from one place");
                Err(usage.hint("name one; pip's own variables (`PIP_FIND_LINKS`) add the other"))
            }
            (Some(url), None) => Ok(Some(format!("index={url}"))),
            (None, Some(place)) => Ok(Some(format!("find-links={place}"))),
            (None, None) => Ok(None),
        }
    }

    /// Adds the options that both commands of the script have.
    fn add(&self, line: &mut Translation) {
        line.option("--rocm-extras", given(self.rocm_extras.clone()));
        line.flag("--no-pre", self.no_pre);
        let why = "set the variable `PIP_CACHE_DIR`, or `UV_CACHE_DIR` where uv installs";
        line.without_effect("--pip-cache-dir", self.pip_cache_dir.is_some(), why);
    }
}

/// How the user decided about a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Yes,
    No,
    /// Build it if its tree exists.
    IfThere,
}

fn wish(yes: bool, no: bool) -> Wish {
    match (yes, no) {
        (true, _) => Wish::Yes,
        (false, true) => Wish::No,
        (false, false) => Wish::IfThere,
    }
}

impl BuildArguments {
    fn translated(self, rocm: &RocmArguments, active: Option<&Path>) -> Result<Translation> {
        let mut trees = self.trees()?;
        if self.asan {
            trees.retain(|(recipe, _)| *recipe == "torch");
            if given(rocm.index_url.clone()).is_some() {
                let usage = Usage::new("`--asan` takes no `--index-url`: packages without the sanitizer may be there");
                return Err(usage.hint("name the folder with `--find-links`").into());
            }
        }
        if trees.is_empty() {
            let usage = Usage::new(format!("there are no sources to build in `{}`", self.root_checkout_dir.display()));
            return Err(usage.hint("`rocwheel compat pytorch_torch_repo checkout` makes a tree").into());
        }
        let mut line = Translation::new("build");
        for (recipe, _) in &trees {
            line.word(*recipe);
        }
        for (recipe, tree) in &trees {
            line.named("--source", recipe, tree);
        }
        self.add_rocm(&mut line, rocm, active)?;
        line.option("--output", Some(self.output_dir));
        line.option("--into", active);
        let is_unnamed = environment::first_of(&["PYTORCH_ROCM_ARCH"]).is_none();
        let of_asan = (self.asan && is_unnamed).then(|| ASAN_TARGET.to_owned());
        line.option("--gpu-targets", given(self.pytorch_rocm_arch).or(of_asan));
        line.option("--feature", self.asan.then_some("asan=on"));
        line.option("--build-number", given(self.pytorch_build_number));
        let cache = match (self.use_ccache, self.use_sccache, self.sccache_no_wrap) {
            (true, ..) => Some("ccache"),
            (_, true, true) => Some("sccache-no-wrap"),
            (_, true, false) => Some("sccache"),
            _ => None,
        };
        line.option("--compiler-cache", cache);
        let is_alone = self.sccache_no_wrap && !self.use_sccache;
        line.without_effect("--sccache-no-wrap", is_alone, "it is for `--use-sccache`");
        let flash_attention = (self.enable_pytorch_flash_attention, self.no_enable_pytorch_flash_attention);
        line.option(
            "--feature",
            match flash_attention {
                (true, _) => Some("flash-attention=on"),
                (false, true) => Some("flash-attention=off"),
                (false, false) => None,
            },
        );
        let of_windows = self.enable_pytorch_flash_attention_windows || self.no_enable_pytorch_flash_attention_windows;
        line.without_effect("--enable-pytorch-flash-attention-windows", of_windows, "this is not Windows");
        line.option("--version-suffix", given(self.version_suffix));
        line.option("--release-type", given(self.release_type));
        line.flag("--clean", self.clean);
        line.more(self.more);
        if active.is_none() {
            line.note(
                "no Python environment is active (VIRTUAL_ENV, CONDA_PREFIX): the wheels are not installed into one",
            );
        }
        Ok(line)
    }

    /// The recipes to build, in the script's order, with their trees.
    fn trees(&self) -> Result<Vec<(&'static str, PathBuf)>, Usage> {
        let torch = wish(self.pytorch_dir.is_some(), false);
        let triton = wish(self.build_triton, self.no_build_triton);
        let audio = wish(self.build_pytorch_audio, self.no_build_pytorch_audio);
        let vision = wish(self.build_pytorch_vision, self.no_build_pytorch_vision);
        let apex = wish(self.build_apex, self.no_build_apex);
        let mut trees = Vec::new();
        for (recipe, name, option, wish, named) in [
            ("triton", "triton", "--triton-dir", triton, &self.triton_dir),
            ("torch", "pytorch", "--pytorch-dir", torch, &self.pytorch_dir),
            ("torchaudio", "pytorch_audio", "--pytorch-audio-dir", audio, &self.pytorch_audio_dir),
            ("torchvision", "pytorch_vision", "--pytorch-vision-dir", vision, &self.pytorch_vision_dir),
            ("apex", "apex", "--apex-dir", apex, &self.apex_dir),
        ] {
            let tree = named.clone().unwrap_or_else(|| self.root_checkout_dir.join(name));
            let is_wanted = wish == Wish::Yes || named.is_some();
            match wish {
                Wish::No => {}
                _ if tree.is_dir() => trees.push((recipe, tree)),
                _ if is_wanted => {
                    let usage = Usage::new(format!("there are no sources of {recipe} at `{}`", tree.display()));
                    return Err(usage.hint(format!("`{option}` names their folder")));
                }
                _ => {}
            }
        }
        Ok(trees)
    }

    /// Adds the ROCm options. The script uses the packages of the active environment, but a job
    /// here installs its own.
    fn add_rocm(&self, line: &mut Translation, rocm: &RocmArguments, active: Option<&Path>) -> Result<()> {
        let Some(place) = rocm.place()? else {
            if self.install_rocm {
                line.option("--rocm-sdk", Some("index"));
                line.option("--rocm-sdk-version", Some(&rocm.rocm_sdk_version).filter(|text| !is_default(text)));
                return Ok(());
            }
            let usage = Usage::new("the place of ROCm's packages is not given");
            let hint = "name it: `--index-url URL` or `--find-links PLACE`; each job installs them into an environment \
                        of its own. For an installed ROCm, use `rocwheel build … --rocm-sdk prefix=DIR`";
            return Err(usage.hint(hint).into());
        };
        line.option("--rocm-sdk", Some(place));
        let installed = active.filter(|_| !self.install_rocm).and_then(environment::installed_rocm);
        if let Some(version) = &installed {
            line.note(format!("the active environment has ROCm {version}: the jobs install the same"));
        }
        let version = installed.map(|version| format!("=={version}")).unwrap_or(rocm.rocm_sdk_version.clone());
        line.option("--rocm-sdk-version", Some(version).filter(|text| !is_default(text)));
        Ok(())
    }
}
