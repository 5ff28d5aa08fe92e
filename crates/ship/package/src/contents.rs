//! Input: `data/tools.toml` and the planned files. Output: `_contents.json`, which lists the
//! libraries and tools of a wheel for `rocm-sdk test` and the tool launchers.

use std::collections::BTreeMap;

use rocwheel_progress::Failure;
use rocwheel_tables::Pattern;
use rocwheel_wheel::Platform;
use serde::{Deserialize, Serialize};

use crate::Logical;
use crate::error::table_error;
use crate::inspect::Natures;
use crate::populate::Population;

const EMBEDDED: &str = include_str!("../../../../data/tools.toml");

/// A command that proves that a tool works.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    pub arguments: Vec<String>,
    /// Text that the output must contain.
    pub expect: String,
    /// Exit codes that count as success.
    #[serde(default = "success")]
    pub exit_codes: Vec<i32>,
    /// `true` if the tool only works on a machine with a GPU.
    #[serde(default)]
    pub needs_gpu: bool,
    /// Other programs that the tool starts.
    #[serde(default)]
    pub needs: Vec<String>,
    /// What the tool prints if it asks for the GPU driver first and does not find it; empty if it
    /// works without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub no_driver: String,
}

fn success() -> Vec<i32> {
    vec![0]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolRow {
    name: String,
    package: Logical,
    path: String,
    #[serde(default)]
    devel: bool,
    #[serde(default)]
    compiler: bool,
    /// Other names that the function has in foreign templates.
    #[serde(default)]
    also_called: Vec<String>,
    #[serde(default)]
    requires: Vec<String>,
    /// The only system that has the tool; `None` for both.
    #[serde(default)]
    system: Option<Platform>,
    probe: Probe,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoLoadRow {
    globs: Vec<String>,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tool: Vec<ToolRow>,
    no_load: Vec<NoLoadRow>,
}

/// The table of tools, and of libraries that cannot be loaded by themselves.
#[derive(Debug)]
pub struct Tools {
    rows: Vec<ToolRow>,
    no_load: Vec<(Pattern, String)>,
}

#[derive(Debug, Clone, Serialize)]
pub struct PackagedTool {
    pub name: String,
    /// Path in the platform package.
    pub path: String,
    /// Attribute of `<pure package>._cli` that the console script calls.
    pub function: String,
    /// `true` if the copy in the expanded development tree is preferred.
    pub devel: bool,
    /// `true` if the tool starts a clang of its own version.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compiler: bool,
    /// The command that proves that the tool works.
    pub probe: Probe,
    /// Other names that the function may have in foreign templates.
    #[serde(skip)]
    pub(crate) also_called: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Library {
    path: String,
    load: bool,
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct Contents<'a> {
    schema: u32,
    distribution: &'a str,
    version: &'a str,
    platform_package: &'a str,
    libraries: Vec<Library>,
    tools: &'a [PackagedTool],
}

impl Tools {
    pub fn embedded() -> Result<Tools, Failure> {
        let file: File = toml::from_str(EMBEDDED).map_err(table_error)?;
        let no_load = file
            .no_load
            .into_iter()
            .flat_map(|row| row.globs.into_iter().map(move |glob| (Pattern::new(&glob), row.reason.clone())))
            .collect();
        Ok(Tools { rows: file.tool, no_load })
    }

    /// Returns the tools of a distribution that has all files they need. On Windows, the file name
    /// of a program ends in `.exe` or `.bat`.
    pub fn of(&self, population: &Population, system: Platform) -> Vec<PackagedTool> {
        let endings: &[&str] = match system {
            Platform::Linux => &[""],
            Platform::Windows => &[".exe", ".bat"],
        };
        let rows = self.rows.iter().filter(|row| row.package == population.logical);
        let rows = rows.filter(|row| row.system.is_none_or(|only| only == system)).filter(|row| {
            let mut patterns = row.requires.iter().map(|glob| Pattern::new(glob));
            patterns.all(|pattern| population.files.keys().any(|path| pattern.matches(path)))
        });
        let tools = rows.filter_map(|row| {
            let mut paths = endings.iter().map(|ending| format!("{}{ending}", row.path));
            Some(PackagedTool {
                name: row.name.clone(),
                path: paths.find(|path| population.files.contains_key(path))?,
                function: row.name.replace('-', "_").replace('+', "p"),
                devel: row.devel,
                compiler: row.compiler,
                probe: row.probe.clone(),
                also_called: row.also_called.clone(),
            })
        });
        tools.collect()
    }

    fn library(&self, path: &str) -> Library {
        let reason = self.no_load.iter().find(|(pattern, _)| pattern.matches(path)).map(|(_, reason)| reason.clone());
        Library { path: path.to_owned(), load: reason.is_none(), reason }
    }

    /// Returns the text of `_contents.json`.
    pub fn contents(
        &self,
        population: &Population,
        natures: &Natures,
        distribution: (&str, &str),
        tools: &[PackagedTool],
    ) -> String {
        pretty(&Contents {
            schema: 1,
            distribution: distribution.0,
            version: distribution.1,
            platform_package: &population.platform_package,
            libraries: population.libraries(natures).map(|path| self.library(path)).collect(),
            tools,
        })
    }
}

/// Returns the entry points of the tools: script name → `module:function`.
pub fn console_scripts(pure_package: &str, tools: &[PackagedTool]) -> BTreeMap<String, String> {
    tools.iter().map(|tool| (tool.name.clone(), format!("{pure_package}._cli:{}", tool.function))).collect()
}

/// Formats JSON with an indentation of two spaces and no final newline, as TheRock's scripts do.
pub fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::populate::PlannedFile;

    #[test]
    fn tools_appear_only_when_their_files_are_there() {
        let tools = Tools::embedded().unwrap();
        let mut population = Population::new(Logical::Core, None, "_rocm_sdk_core".into());
        population.files.insert("bin/rocm-smi".into(), PlannedFile::text(""));
        population.files.insert("bin/hipcc".into(), PlannedFile::text(""));
        let names = |population: &Population| {
            tools.of(population, Platform::Linux).into_iter().map(|tool| tool.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&population), ["hipcc"], "rocm-smi loads librocm_smi64, which is not there");
        population.files.insert("lib/librocm_smi64.so.1".into(), PlannedFile::text(""));
        assert_eq!(names(&population), ["hipcc", "rocm-smi"]);
    }

    #[test]
    fn programs_for_windows_are_found_by_their_endings() {
        let tools = Tools::embedded().unwrap();
        let mut population = Population::new(Logical::Core, None, "_rocm_sdk_core".into());
        for path in
            ["bin/hipcc.exe", "bin/hipconfig.bat", "bin/hipInfo.exe", "bin/rocminfo", "lib/llvm/bin/amdclang++.exe"]
        {
            population.files.insert(path.into(), PlannedFile::text(""));
        }
        let found = tools.of(&population, Platform::Windows);
        let paths: Vec<(&str, &str)> = found.iter().map(|tool| (tool.name.as_str(), tool.path.as_str())).collect();
        assert_eq!(
            paths,
            [
                ("amdclang++", "lib/llvm/bin/amdclang++.exe"),
                ("hipcc", "bin/hipcc.exe"),
                ("hipconfig", "bin/hipconfig.bat"),
                ("hipInfo", "bin/hipInfo.exe"),
            ]
        );
        let on_linux = tools.of(&population, Platform::Linux);
        assert_eq!(on_linux.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["rocminfo"]);
    }

    #[test]
    fn every_tool_has_its_own_python_name() {
        let tools = Tools::embedded().unwrap();
        let mut functions: Vec<String> =
            tools.rows.iter().map(|row| row.name.replace('-', "_").replace('+', "p")).collect();
        functions.sort();
        let all = functions.len();
        functions.dedup();
        assert_eq!(functions.len(), all);
    }

    #[test]
    fn a_library_that_is_not_loaded_says_why() {
        let tools = Tools::embedded().unwrap();
        assert!(tools.library("lib/libamdhip64.so.7").load);
        let row = tools.library("lib/llvm/lib/clang/20/lib/linux/libclang_rt.asan.so");
        assert!(!row.load && row.reason.unwrap().contains("sanitizer"));
    }
}
