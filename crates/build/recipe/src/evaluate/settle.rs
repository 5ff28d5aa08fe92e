//! Decides backend, GPU targets and features, in this order. Everything else follows from them.

use std::collections::BTreeMap;

use globset::Glob;
use rocwheel_progress::suggestion;
use rocwheel_tables::{TargetTable, target::base_target};

use crate::cell::{Cell, ChosenBy, SdkKind, Switch};
use crate::condition::Facts;
use crate::error::Error;
use crate::evaluated::Targets;
use crate::recipe::Recipe;

/// The requested backend, or the recipe's first. Also checks that the recipe supports the platform.
pub(super) fn backend(recipe: &Recipe, cell: &Cell) -> Result<String, Error> {
    if !recipe.platforms.contains(&cell.platform) {
        return Err(Error::request(format!("{} cannot be built for {}", recipe.name, cell.platform.name())));
    }
    match &cell.backend {
        None => Ok(recipe.backends[0].clone()),
        Some(name) if recipe.backends.contains(name) => Ok(name.clone()),
        Some(name) => Err(Error::Unknown {
            what: "backend",
            name: name.clone(),
            place: format!(" of {}", recipe.name),
            hint: suggestion(name, recipe.backends.iter().map(String::as_str)),
        }),
    }
}

/// The GPU targets: the user's, otherwise the machine's, the recipe's or ROCm's.
pub(super) fn targets(recipe: &Recipe, facts: &Facts<'_>, sdk: bool) -> Result<Targets, Error> {
    let mut rule = None;
    for candidate in &recipe.targets {
        if facts.hold(&candidate.when)? && rule.is_none() {
            rule = Some(candidate);
        }
    }
    if rule.map_or(!sdk, |rule| rule.none) {
        return Ok(Targets { names: Vec::new(), chosen_by: ChosenBy::Nobody });
    }
    let cell = facts.cell;
    let mut known = rule.map(|rule| rule.known.clone()).unwrap_or_default();
    // The list in the source tree belongs to its version; a row of the recipe may be older.
    if !known.is_empty() && !cell.source_targets.is_empty() {
        known.clone_from(&cell.source_targets);
    }
    if matches!(cell.chosen_by, ChosenBy::Image | ChosenBy::Sdk) {
        // A framework may support fewer targets than its image or its ROCm.
        let names: Vec<String> = cell.targets.iter().filter(|target| is_known(target, &known)).cloned().collect();
        if !names.is_empty() {
            return Ok(Targets { names, chosen_by: cell.chosen_by });
        }
    }
    if cell.targets.is_empty() || cell.chosen_by == ChosenBy::Image {
        let mut default = rule.map(|rule| rule.default.clone()).unwrap_or_default();
        let mut chosen_by = ChosenBy::Recipe;
        if default.is_empty() {
            // The packages of ROCm name their targets when they are installed; an installed ROCm
            // that names none beforehand never does.
            let is_advised = recipe.targets_file.as_ref().is_some_and(|file| file.advisory);
            if !is_advised || cell.source_targets.is_empty() || cell.sdk != SdkKind::Prefix {
                return Ok(Targets { names: default, chosen_by: ChosenBy::Rocm });
            }
            (default, chosen_by) = (cell.source_targets.clone(), ChosenBy::Sources);
        }
        let default: Vec<String> = default.into_iter().filter(|target| is_known(target, &known)).collect();
        let names = compiled(&default, cell.llvm);
        if names.is_empty() {
            let rocm = cell.rocm.as_deref().unwrap_or("that is there");
            let reason =
                format!("the compiler of ROCm {rocm} knows no GPU target of {}: {}", recipe.name, default.join(", "));
            return Err(Error::request_with(reason, "name others with `--gpu-targets`"));
        }
        return Ok(Targets { names, chosen_by });
    }
    let wrong: Vec<String> = cell.targets.iter().filter(|target| !is_known(target, &known)).cloned().collect();
    if wrong.is_empty() {
        return Ok(Targets { names: cell.targets.clone(), chosen_by: cell.chosen_by });
    }
    let version = cell.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let reason = match cell.chosen_by {
        ChosenBy::Machine => ", which this machine has",
        ChosenBy::Sdk => ", which the ROCm is for",
        _ => "",
    };
    let targets = format!("{}{reason}", wrong.join(", "));
    let more = rule.and_then(|rule| rule.hint.clone());
    Err(Error::Targets { recipe: format!("{}{version}", recipe.name), targets, known, more })
}

/// `true` if a list names a target, or is empty. Suffixes such as `:xnack+` name another target of
/// the same GPU.
fn is_known(target: &str, known: &[String]) -> bool {
    known.is_empty() || known.iter().any(|name| name == base_target(target))
}

/// The targets that clang of an LLVM release compiles for; all targets if the release is unknown.
fn compiled(targets: &[String], llvm: Option<u32>) -> Vec<String> {
    let table = TargetTable::embedded();
    let known = targets.iter().filter(|target| llvm.is_none() || table.get(target).and_then(|row| row.llvm) <= llvm);
    known.cloned().collect()
}

/// A target that the recipe supports: the first that a rule names, otherwise `gfx942`.
pub(super) fn any_targets(recipe: &Recipe) -> Vec<String> {
    recipe
        .targets
        .iter()
        .find_map(|rule| rule.known.first())
        .map_or_else(|| vec!["gfx942".into()], |name| vec![name.clone()])
}

/// The features: as requested, otherwise on if one of their GPU targets is built. A feature whose
/// needed recipe is not built before is off.
pub(super) fn features(recipe: &Recipe, cell: &Cell, targets: &Targets) -> Result<BTreeMap<String, Switch>, Error> {
    if let Some(name) = cell.features.keys().find(|name| !recipe.features.iter().any(|feature| feature.name == **name))
    {
        return Err(Error::Unknown {
            what: "feature",
            name: name.clone(),
            place: format!(" of {}", recipe.name),
            hint: suggestion(name, recipe.features.iter().map(|feature| feature.name.as_str())),
        });
    }
    let mut decided = BTreeMap::new();
    for feature in &recipe.features {
        let switch = match (cell.features.get(&feature.name), feature.lacks(cell)) {
            (Some(Switch::On), Some(needed)) => {
                return Err(Error::request_with(
                    format!("the feature `{}` of {} needs {needed}", feature.name, recipe.name),
                    format!("build both: `rocwheel build {needed} {}`", recipe.name),
                ));
            }
            (Some(switch), _) => *switch,
            (None, Some(_)) => Switch::Off,
            (None, None) if feature.targets.is_empty() => Switch::Off,
            (None, None) if feature.targets == ["*"] => Switch::On,
            (None, None) if targets.chosen_by == ChosenBy::Rocm => {
                return Err(Error::request_with(
                    format!(
                        "whether {} gets `{}` depends on the GPU targets, which are not known",
                        recipe.name, feature.name
                    ),
                    format!(
                        "name them with `--gpu-targets`, or say `--feature {}=off`; the GPU of this machine and a \
                         ROCm of one family, such as `--rocm-sdk index=…/gfx110X-all`, say them too",
                        feature.name
                    ),
                ));
            }
            (None, None) => {
                let mut on = false;
                for pattern in &feature.targets {
                    let glob = Glob::new(pattern).map_err(|error| {
                        Error::malformed(&recipe.name, format!("`{pattern}` is no pattern: {error}"))
                    })?;
                    on |= targets.names.iter().any(|name| glob.compile_matcher().is_match(name));
                }
                Switch::from(on)
            }
        };
        decided.insert(feature.name.clone(), switch);
    }
    Ok(decided)
}

pub(super) fn cell(recipe: &Recipe, cell: &Cell, backend: &str, targets: &Targets) -> Result<Cell, Error> {
    let mut cell = cell.clone();
    cell.backend = Some(backend.to_owned());
    cell.targets.clone_from(&targets.names);
    cell.chosen_by = targets.chosen_by;
    if recipe.without_sdk.iter().any(|without| without == backend) {
        cell.sdk = SdkKind::None;
    }
    if recipe.any_python.iter().any(|any| any == backend) {
        cell.python = None;
    }
    if let Some(label) = cell.label.as_deref()
        && label
            .split(['.', '-', '_'])
            .any(|part| part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    {
        let hint = "letters and digits, separated by `.`, make one (PEP 440)";
        return Err(Error::request_with(format!("`{label}` cannot be the local part of a version"), hint));
    }
    for (what, value) in [("ROCm", &cell.rocm), ("torch", &cell.torch)] {
        if let Some(value) = value
            && value.parse::<pep440_rs::Version>().is_err()
        {
            return Err(Error::request(format!("`{value}` is not a version of {what}")));
        }
    }
    Ok(cell)
}
