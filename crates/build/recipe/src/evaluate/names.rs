//! Input: a text of a recipe with `${…}`, and a cell. Output: the text with the values that the
//! cell decides. Names that only the place knows are left.

use crate::book::BookEntry;
use crate::cell::{ChosenBy, minor};
use crate::condition::Facts;
use crate::error::Error;
use crate::evaluated::Targets;
use crate::substitute::{Round, Substitution, substitute};
use rocwheel_progress::suggestion;

/// Names that are known when the job runs, with or without ROCm.
const LATER: [&str; 12] = [
    "source",
    "source.version",
    "source.commit",
    "source.revision",
    "work",
    "stage",
    "python",
    "jobs",
    "rocwheel",
    "tool.sccache",
    "estimate",
    "direction",
];
/// Names that are known when the job runs against ROCm.
const OF_ROCM: [&str; 9] = [
    "rocm.root",
    "rocm.bin",
    "rocm.cmake",
    "rocm.clang",
    "rocm.bitcode",
    "rocm.sdk-version",
    "rocm.lock",
    "rocm.lib",
    "rocm.asan",
];
/// Prefixes of names with an arbitrary rest.
const PREFIXES: [&str; 4] = ["installed.", "environment.", "variable.", "rocm.libraries."];
/// Names that the cell decides; for some of them ROCm decides if the cell has no value.
const DECIDED: [&str; 22] = [
    "name",
    "platform",
    "backend",
    "build-number",
    "label",
    "version",
    "version.local",
    "python.version",
    "python.compact",
    "rocm.version",
    "rocm.minor",
    "rocm.compact",
    "rocm.label",
    "torch.version",
    "torch.minor",
    "torch.requirement",
    "torch.index",
    "torch.triton",
    "targets",
    "targets.comma",
    "targets.space",
    "targets.offload-arch",
];

pub(super) struct Names<'a> {
    entry: &'a BookEntry,
    cell: &'a crate::cell::Cell,
    backend: &'a str,
    path: &'a str,
    sdk: bool,
    targets: Targets,
    version: Option<String>,
}

impl<'a> Names<'a> {
    #[allow(clippy::unnecessary_wraps, reason = "one door for what can be wrong")]
    pub(super) fn new(
        entry: &'a BookEntry,
        facts: &Facts<'a>,
        sdk: bool,
        targets: &Targets,
    ) -> Result<Names<'a>, Error> {
        let (cell, backend, path) = (facts.cell, facts.backend, facts.path);
        Ok(Names { entry, cell, backend, path, sdk, targets: targets.clone(), version: None })
    }

    /// The same names, with the version of the result.
    pub(super) fn with_version(self, version: Option<&str>) -> Names<'a> {
        Names { version: version.map(str::to_owned), ..self }
    }

    /// A text with all known names replaced.
    pub(super) fn text(&self, text: &str) -> Result<String, Error> {
        substitute(text, Round::First, |name| self.value(name)).map_err(|error| {
            error.unwrap_or_else(|| Error::malformed(self.path, format!("a `${{` in `{text}` has no `}}`")))
        })
    }

    fn value(&self, name: &str) -> Result<Substitution, Error> {
        if LATER.contains(&name) || PREFIXES.iter().any(|prefix| name.len() > prefix.len() && name.starts_with(prefix))
        {
            return Ok(Substitution::Later);
        }
        if OF_ROCM.contains(&name) {
            return if self.sdk { Ok(Substitution::Later) } else { Err(self.without_rocm(name)) };
        }
        let cell = self.cell;
        let text = match name {
            "name" => self.entry.recipe.name.clone(),
            "platform" => cell.platform.name().to_owned(),
            "backend" => self.backend.to_owned(),
            "build-number" => cell.build_number.to_string(),
            "label" => return self.or_rocm(name, cell.label.clone(), "--version-suffix"),
            "version" | "version.local" => {
                let Some(version) = &self.version else {
                    let reason = format!("`${{{name}}}` is used where the version is not known");
                    return Err(Error::malformed(self.path, reason));
                };
                match name {
                    "version" => version.clone(),
                    _ => version.split_once('+').map_or_else(String::new, |(_, local)| local.to_owned()),
                }
            }
            "python.version" | "python.compact" => match (name, cell.python) {
                (_, None) => return Ok(Substitution::Later),
                ("python.version", Some(python)) => python.to_string(),
                (_, Some(python)) => python.to_string().replace('.', ""),
            },
            "rocm.version" => return self.or_rocm(name, cell.rocm.clone(), "--rocm"),
            "rocm.minor" => return self.or_rocm(name, cell.rocm.as_deref().map(minor), "--rocm"),
            "rocm.compact" => {
                return self.or_rocm(name, cell.rocm.as_deref().map(|rocm| minor(rocm).replace('.', "")), "--rocm");
            }
            "rocm.label" => {
                return self.or_rocm(name, cell.rocm.as_deref().map(|rocm| cell.label_style.rocm(rocm)), "--rocm");
            }
            _ if name.starts_with("torch.") => self.torch(name)?,
            _ if name.starts_with("targets") && DECIDED.contains(&name) => {
                if self.targets.chosen_by == ChosenBy::Rocm {
                    return Ok(Substitution::Later);
                }
                join_targets(name, &self.targets.names)
            }
            _ => return Err(self.unknown(name)),
        };
        Ok(Substitution::Text(text))
    }

    /// The cell's value. Without one, the name is left for ROCm to decide when the job runs.
    fn or_rocm(&self, name: &str, value: Option<String>, flag: &str) -> Result<Substitution, Error> {
        match value {
            Some(value) => Ok(Substitution::Text(value)),
            None if self.sdk => Ok(Substitution::Later),
            None => {
                let (recipe, backend) = (&self.entry.recipe.name, self.backend);
                let what =
                    if name.starts_with("rocm") { "the version of ROCm" } else { "the local part of its version" };
                Err(Error::request_with(
                    format!("{recipe} with the backend {backend} needs to know {what}"),
                    format!("give it with `{flag}`"),
                ))
            }
        }
    }

    fn torch(&self, name: &str) -> Result<String, Error> {
        let recipe = &self.entry.recipe.name;
        let torch = self.cell.torch.as_deref().ok_or_else(|| {
            let reason = format!("{recipe} needs to know which torch it is for");
            // The next error would be the missing ROCm, so the hint asks for both at once.
            let is_next = self.cell.rocm.is_none() && (self.cell.torch_index.is_none() || !self.sdk);
            let hint = if is_next {
                "give it with `--torch`, and for which ROCm with `--rocm`, for example `--torch 2.9 --rocm 6.4`"
            } else {
                "give it with `--torch`, for example `--torch 2.9.1`"
            };
            Error::request_with(reason, hint)
        });
        match name {
            "torch.version" => torch.map(str::to_owned),
            "torch.minor" => torch.map(minor),
            "torch.requirement" => {
                let torch = torch?;
                let is_exact = torch.split('.').count() > 2;
                Ok(format!("torch=={torch}{}", if is_exact { "" } else { ".*" }))
            }
            "torch.index" => self.cell.torch_index.clone().ok_or_else(|| {
                Error::request_with(
                    format!("{recipe} needs to know where torch for this ROCm is"),
                    "say `--rocm`, or name an index with `--torch-index`",
                )
            }),
            "torch.triton" => {
                let triton = self.cell.triton.as_ref();
                Ok(triton.map_or_else(|| "triton".to_owned(), |version| format!("triton=={version}.*")))
            }
            _ => Err(self.unknown(name)),
        }
    }

    fn without_rocm(&self, name: &str) -> Error {
        let reason = format!("`${{{name}}}` is used, and the backend `{}` is built without ROCm", self.backend);
        Error::malformed(self.path, reason)
    }

    fn unknown(&self, name: &str) -> Error {
        let known = LATER.into_iter().chain(OF_ROCM).chain(DECIDED);
        let hint = Some(suggestion(name, known));
        Error::Malformed { path: self.path.to_owned(), line: None, reason: format!("there is no `${{{name}}}`"), hint }
    }
}

/// GPU targets in the syntax of the programs that take them.
pub fn join_targets(name: &str, targets: &[String]) -> String {
    match name {
        "targets.comma" => targets.join(","),
        "targets.space" => targets.join(" "),
        "targets.offload-arch" => {
            targets.iter().map(|target| format!("--offload-arch={target}")).collect::<Vec<_>>().join(" ")
        }
        _ => targets.join(";"),
    }
}
