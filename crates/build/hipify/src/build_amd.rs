//! Input: `tools/amd_build/build_amd.py` of a PyTorch tree. Output: its settings, read as literals.

use std::path::Path;

use rocwheel_progress::Failure;
use rocwheel_python_literals::{Parser, Token, TokenKind, Value, checked_tokens};
use serde::Serialize;

use crate::Launches;
use crate::error::not_literal;

pub const FILE: &str = "tools/amd_build/build_amd.py";

/// The files that PyTorch converts, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BuildAmd {
    /// Patterns of files to convert, relative to the tree.
    pub includes: Vec<String>,
    pub ignores: Vec<String>,
    /// Files with other endings that are converted as well.
    pub extra_files: Vec<String>,
    /// Replacements in some files, which come before the conversion.
    pub edits: Vec<Edits>,
    /// The treatment of kernel launches; `None` if the ROCm on the machine decides (`lib/.hipInfo`
    /// of `HIP_PATH`).
    pub launches: Option<Launches>,
    /// A header whose HIP form is then copied to another name.
    pub copy: Option<CopiedResult>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edits {
    /// Paths of the files; missing ones are ignored.
    pub files: Vec<String>,
    /// Texts and their replacements, in order.
    pub replacements: Vec<(String, String)>,
}

/// A file that is converted, and a copy of its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopiedResult {
    pub source: String,
    pub from: String,
    pub to: String,
}

/// Reads the settings of a tree; `None` for a tree without them.
pub fn read(tree: &Path) -> Result<Option<BuildAmd>, Failure> {
    let path = tree.join(FILE);
    if !path.is_file() {
        return Ok(None);
    }
    parse(&fs_err::read_to_string(&path)?, &path.display().to_string()).map(Some)
}

fn no_list(path: &str, name: &str) -> Failure {
    Failure::message(format!("`{path}` has no list `{name}`"))
        .with_hint("`--mode extension` converts a tree without PyTorch's settings")
}

pub fn parse(text: &str, path: &str) -> Result<BuildAmd, Failure> {
    let tokens = checked_tokens(text).map_err(|unreadable| not_literal(unreadable, path))?;
    let script = Script { tokens: &tokens, path };
    let includes = script.list("includes")?.ok_or_else(|| no_list(path, "includes"))?;
    let ignores = script.list("ignores")?.ok_or_else(|| no_list(path, "ignores"))?;
    let copy = text.contains("tuning_cache_hip.cuh").then(|| CopiedResult {
        source: "third_party/mslk/include/mslk/utils/tuning_cache.cuh".to_owned(),
        from: "third_party/mslk/include/mslk/utils/hip/tuning_cache.cuh".to_owned(),
        to: "third_party/mslk/include/mslk/utils/tuning_cache_hip.cuh".to_owned(),
    });
    Ok(BuildAmd {
        includes,
        ignores,
        extra_files: script.list("extra_files")?.unwrap_or_default(),
        edits: script.edits()?,
        launches: script.launches(),
        copy,
    })
}

struct Script<'a> {
    tokens: &'a [Token<'a>],
    path: &'a str,
}

impl Script<'_> {
    fn name(&self, at: usize) -> Option<&str> {
        match self.tokens.get(at)?.kind {
            TokenKind::Name(name) => Some(name),
            _ => None,
        }
    }

    fn is(&self, at: usize, operator: char) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == TokenKind::Operator(operator))
    }

    fn text(&self, at: usize) -> Option<String> {
        match &self.tokens.get(at)?.kind {
            TokenKind::Text(literal) => literal.value().ok().flatten(),
            _ => None,
        }
    }

    /// The first list of texts that is assigned to `name`.
    fn list(&self, name: &str) -> Result<Option<Vec<String>>, Failure> {
        for at in 0..self.tokens.len() {
            // Not a list comprehension: it begins with a name.
            let literal = self.text(at + 3).is_some() || self.is(at + 3, ']');
            if self.name(at) == Some(name) && self.is(at + 1, '=') && self.is(at + 2, '[') && literal {
                let value = Parser::new(&self.tokens[at + 2..])
                    .value()
                    .map_err(|unreadable| not_literal(unreadable, self.path))?;
                let texts = value.sequence().unwrap_or_default().iter().map(Value::text);
                return Ok(texts.map(|text| text.map(str::to_owned)).collect());
            }
        }
        Ok(None)
    }

    /// Every `for … in LIST:` that contains `[function(line) for line in …]`.
    fn edits(&self) -> Result<Vec<Edits>, Failure> {
        let mut edits = Vec::new();
        for at in 0..self.tokens.len() {
            let is_loop =
                self.name(at) == Some("for") && self.tokens[at].column == 0 && self.name(at + 2) == Some("in");
            let Some(list) = is_loop.then(|| self.name(at + 3)).flatten() else { continue };
            let body = at + 4..self.block_end(at + 4);
            let mut functions =
                body.filter(|&at| self.is(at, '[') && self.is(at + 2, '(')).filter_map(|at| self.name(at + 1));
            let replacements = functions.find_map(|function| self.replacements(function));
            if let (Some(replacements), Some(files)) = (replacements, self.list(list)?) {
                edits.push(Edits { files, replacements });
            }
        }
        Ok(edits)
    }

    /// The arguments of each `.replace("…", "…")` in a function.
    fn replacements(&self, function: &str) -> Option<Vec<(String, String)>> {
        let begin = self.definition(function)?;
        let mut replacements = Vec::new();
        for at in begin..self.block_end(begin) {
            if self.is(at, '.') && self.name(at + 1) == Some("replace") && self.is(at + 2, '(') && self.is(at + 4, ',')
            {
                replacements.push((self.text(at + 3)?, self.text(at + 5)?));
            }
        }
        (!replacements.is_empty()).then_some(replacements)
    }

    /// The result of `is_hip_clang`; `None` if it depends on the machine.
    fn launches(&self) -> Option<Launches> {
        let Some(begin) = self.definition("is_hip_clang") else { return Some(Launches::Convert) };
        let body = begin..self.block_end(begin);
        let asks = body.clone().any(|at| self.name(at) == Some("open"));
        let mut answers = body.filter(|&at| self.name(at) == Some("return")).map(|at| self.name(at + 1));
        match answers.next().flatten() {
            Some("True") if !asks => Some(Launches::Keep),
            Some("False") if !asks => Some(Launches::Convert),
            _ => None,
        }
    }

    fn definition(&self, function: &str) -> Option<usize> {
        (0..self.tokens.len())
            .find(|&at| self.name(at) == Some("def") && self.name(at + 1) == Some(function))
            .map(|at| at + 2)
    }

    /// Index of the next statement in the first column.
    fn block_end(&self, begin: usize) -> usize {
        let rest = self.tokens.iter().enumerate().skip(begin);
        let mut rest = rest.filter(|(_, token)| token.column == 0 && token.kind != TokenKind::LineEnd);
        rest.find(|(_, token)| matches!(token.kind, TokenKind::Name(_))).map_or(self.tokens.len(), |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = r#"
import os
includes = [
    "a/*",  # all
    "torch/*",
]
includes = [os.path.join(proj_dir, include) for include in includes]
ignores = ["*/hip/*"]
def is_hip_clang() -> bool:
    try:
        with open(hip_path) as f:
            return "x" in f.read()
    except OSError:
        return False
files = ["one", "two"]
def mend(line: str) -> str:
    line = line.replace("A", "B")
    line = line.replace(
        "C", "D"
    )
    return line
for file in files:
    newlines = [mend(line) for line in lines]
hipify_python.hipify(extra_files=["x.py"], hip_clang_launch=is_hip_clang())
"#;

    #[test]
    fn settings_are_read() {
        let settings = parse(SCRIPT, "b").unwrap();
        assert_eq!(settings.includes, ["a/*", "torch/*"]);
        assert_eq!(settings.ignores, ["*/hip/*"]);
        assert_eq!(settings.extra_files, ["x.py"]);
        assert_eq!(settings.launches, None);
        assert_eq!(settings.copy, None);
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        let replacements = vec![pair("A", "B"), pair("C", "D")];
        assert_eq!(settings.edits, [Edits { files: vec!["one".to_owned(), "two".to_owned()], replacements }]);
    }

    #[test]
    fn an_answer_that_is_always_the_same_is_known() {
        let script = "includes = ['a']\nignores = []\ndef is_hip_clang() -> bool:\n    return True\nx = 1\n";
        assert_eq!(parse(script, "b").unwrap().launches, Some(Launches::Keep));
        assert_eq!(parse("includes = ['a']\nignores = []\n", "b").unwrap().launches, Some(Launches::Convert));
    }

    #[test]
    fn lists_that_are_missing_are_named() {
        assert_eq!(parse("includes = ['a']\n", "b").unwrap_err().to_string(), "`b` has no list `ignores`");
        assert_eq!(parse("includes = [\n'a' 1]\n", "b").unwrap_err().to_string(), "`b`, line 2: `,` is missing");
    }
}
