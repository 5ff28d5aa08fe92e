//! The options of `rocwheel build` that choose recipes, versions and GPU targets.
//! `rocwheel recipe show` has them too.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use rocwheel_console::environment;
use rocwheel_console::failure::Result;
use rocwheel_recipe::matrix::FrameworkTable;
use rocwheel_recipe::request::{Axes, BuildRequest, check_compact_label, parse_targets, values};
use rocwheel_recipe::{
    Book, BuildMode, BuildPurpose, Cell, ChosenBy, CompilerCache, LabelStyle, Platform, PythonVersion, Switch,
    VersionLock,
};

use super::machine;

/// Options about what is built.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What is built")]
pub(crate) struct CellArguments {
    /// Pythons of the wheels, separated by commas, for example 3.12 or 3.13t [default: the
    /// `python3` of this machine]
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    python: Vec<PythonVersion>,
    /// Versions of ROCm, separated by commas, for example 7.2 [default: DESIRED_ROCM, else that of
    /// the installed ROCm]
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    rocm: Vec<String>,
    /// Versions of torch to build against, separated by commas, for example 2.9.1
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    torch: Vec<String>,
    /// Index with that torch [default: PyTorch's for the version of ROCm]
    #[arg(long, value_name = "URL")]
    torch_index: Option<String>,
    /// Variants, separated by commas, such as ck or triton for flash-attn and cpu for torchvision
    /// [default: the recipe's first]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    backend: Vec<String>,
    /// GPU targets and families, separated by `;` or `,`; repeat it for a second set, which is
    /// built separately [default: PYTORCH_ROCM_ARCH or GPU_ARCHS, else what this machine has, else
    /// the recipe's]
    #[arg(long, value_name = "LIST")]
    gpu_targets: Vec<String>,
    /// What the build is for: ci, dev, dev-bkc, nightly, nightly-bkc, prerelease; versions of dev
    /// builds name the commit
    #[arg(long, value_name = "TYPE", default_value = "nightly")]
    release_type: BuildPurpose,
    /// Local part of the version [default: from the installed ROCm]
    #[arg(long, value_name = "TEXT")]
    version_suffix: Option<String>,
    /// How the name of the wheel spells ROCm if the recipe sets the local part: dotted
    /// (rocm6.2torch2.5) or compact (rocm62torch2.5); both count as the same wheel
    #[arg(long, value_name = "STYLE", default_value = "dotted", conflicts_with = "version_suffix")]
    label_style: LabelStyle,
    /// Versions of ROCm's packages that the result takes: exact (the one it is built against) or
    /// minor (all of the same first two numbers, such as 7.10.*)
    #[arg(long, value_name = "LOCK", default_value = "exact")]
    rocm_lock: VersionLock,
    /// Number of the build
    #[arg(long, value_name = "N", default_value_t = 1)]
    build_number: u32,
    /// Compiler cache: none, ccache, sccache, sccache-no-wrap
    #[arg(long, value_name = "NAME", default_value = "none")]
    compiler_cache: CompilerCache,
    /// Switch a feature of the recipe, such as flash-attention of torch
    #[arg(long, value_name = "NAME=on|off", value_parser = feature)]
    feature: Vec<(String, Switch)>,
    /// Remove what earlier builds left in the tree first
    #[arg(long)]
    clean: bool,
    /// Install the sources in place into an environment instead of making a wheel
    #[arg(long)]
    develop: bool,
    /// Let the build see the packages of the interpreter
    #[arg(long)]
    system_packages: bool,
    /// Folder with your recipes; one of the same name replaces ours
    #[arg(long, value_name = "DIR")]
    recipes: Option<PathBuf>,
    /// Rows for the table of versions, in the form that `rocwheel matrix --print-table` prints; a
    /// file with `[torch-index]` replaces the table
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

fn feature(text: &str) -> Result<(String, Switch), String> {
    let (name, switch) = text.split_once('=').ok_or("write it as `flash-attention=on`")?;
    let switch = match switch {
        "on" => Switch::On,
        "off" => Switch::Off,
        _ => return Err("a feature is `on` or `off`".into()),
    };
    Ok((name.to_owned(), switch))
}

impl CellArguments {
    /// Reads the options, and the environment variables with the same meaning. `platform` is the
    /// platform to build on; `None` is this one.
    pub(crate) fn request(self, platform: Option<Platform>) -> Result<BuildRequest> {
        let mut book = Book::built_in()?;
        if let Some(folder) = &self.recipes {
            book.add_folder(folder)?;
        }
        let table = match &self.table {
            Some(path) => FrameworkTable::parse(&fs_err::read_to_string(path)?, &path.to_string_lossy())?,
            None => FrameworkTable::built_in()?,
        }
        .with_recipes(&book)?;
        let here = Platform::native();
        let platform = platform.unwrap_or(here);
        let mut lists = self.gpu_targets;
        if lists.is_empty() {
            lists.extend(environment::first_of(&["PYTORCH_ROCM_ARCH", "GPU_ARCHS"]));
        }
        let (sets, chosen_by) = match &lists[..] {
            [] if platform == here => (vec![machine::gpu_targets(std::path::Path::new("/"))], ChosenBy::Machine),
            [] => (vec![Vec::new()], ChosenBy::Recipe),
            lists => (lists.iter().map(|list| parse_targets(list)).collect::<Result<_, _>>()?, ChosenBy::User),
        };
        let asked = self.rocm.clone();
        let named = environment::first_of(&["DESIRED_ROCM"]).filter(|_| asked.is_empty());
        let rocm = named.map(|rocm| rocm.trim_start_matches("rocm").to_owned()).into_iter().chain(self.rocm);
        let axes = Axes {
            rocm: values(rocm),
            torch: values(self.torch),
            python: values(self.python),
            backends: values(self.backend),
            targets: values(sets).into_iter().flatten().collect(),
        };
        let targets = axes.targets[0].clone();
        let cell = Cell {
            python: axes.python[0],
            rocm: axes.rocm[0].clone(),
            torch: axes.torch[0].clone(),
            backend: axes.backends[0].clone(),
            chosen_by: if targets.is_empty() { ChosenBy::Recipe } else { chosen_by },
            targets,
            release: self.release_type,
            rocm_lock: self.rocm_lock,
            compiler_cache: self.compiler_cache,
            mode: if self.develop { BuildMode::Develop } else { BuildMode::Wheel },
            clean: self.clean.into(),
            features: self.feature.into_iter().collect::<BTreeMap<_, _>>(),
            label_style: self.label_style,
            label: self.version_suffix.map(|suffix| suffix.trim_start_matches('+').to_owned()),
            build_number: self.build_number,
            system_packages: self.system_packages.into(),
            ..Cell::new(platform)
        };
        if self.label_style == LabelStyle::Compact {
            axes.rocm.iter().flatten().try_for_each(|rocm| check_compact_label(rocm, &table))?;
        }
        let with_triton_backend = environment::first_of(&["BUILD_TRITON_BACKEND"])
            .is_some_and(|text| ["1", "true", "TRUE", "True", "on", "ON"].contains(&text.as_str()));
        let torch_index = self.torch_index;
        Ok(BuildRequest { book, table, cell, axes, torch_index, rocm: asked, with_triton_backend })
    }
}
