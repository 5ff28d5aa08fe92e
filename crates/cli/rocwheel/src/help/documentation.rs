//! The command lines in the code blocks of the documentation, which clap has to accept as a whole:
//! options, values, and what requires or excludes what.

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use regex::Regex;

use super::program;
use crate::arguments::Arguments;

/// The pages with command lines of rocwheel.
fn pages() -> Vec<(String, String)> {
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let folder = fs_err::read_dir(format!("{repository}/docs")).unwrap().map(|entry| entry.unwrap().path());
    let others = ["README.md", "CONTRIBUTING.md", "examples/hip-extension/README.md"];
    let others = others.map(|name| format!("{repository}/{name}").into());
    let pages =
        folder.chain(others).filter(|path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "md"));
    // The blocks of the benchmarks are tables, whose rows begin with the names of commands.
    let paths = pages.filter(|path| !path.ends_with("benchmarks.md"));
    paths.map(|path| (path.display().to_string(), fs_err::read_to_string(path).unwrap())).collect()
}

/// The words of the command lines in the code blocks of a page, up to a pipe or a redirection.
/// Lines with `…` are abridged.
fn command_lines(page: &str) -> Vec<Vec<String>> {
    let block = Regex::new(r"(?ms)^```\w*\n(.*?)^```").unwrap();
    let line = Regex::new(r"^(?:[-+$] *)?(?:[A-Z_]+=\S+ )*(rocwheel .*)").unwrap();
    let mut lines = Vec::new();
    for block in block.captures_iter(page) {
        for text in block[1].replace("\\\n", " ").lines() {
            let Some(found) = line.captures(text) else { continue };
            let words = shlex::split(&found[1]).unwrap_or_else(|| panic!("{text} is not a line of a shell"));
            let ends = ["|", ">", ">>", "&&", "||", ";", "2>"];
            let words: Vec<String> = words.into_iter().take_while(|word| !ends.contains(&word.as_str())).collect();
            if !words.iter().any(|word| word.contains('…')) {
                lines.push(words);
            }
        }
    }
    lines
}

#[test]
fn every_command_line_of_the_documentation_is_accepted() {
    let program = program(Arguments::command());
    let (mut refused, mut seen) = (Vec::new(), 0);
    for (path, page) in pages() {
        for words in command_lines(&page) {
            seen += 1;
            let Err(error) = program.clone().try_get_matches_from(&words) else { continue };
            if !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
                let said = error.to_string();
                refused.push(format!("{path}: {}\n  {}", words.join(" "), said.lines().next().unwrap_or_default()));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(seen > 180, "the pages have more command lines than {seen}");
}
