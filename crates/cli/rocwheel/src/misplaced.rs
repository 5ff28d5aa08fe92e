//! Input: clap's error about a command line. Output: advice for words from other tools and
//! documents that rocwheel names differently (`data/documents.toml`). It replaces clap's own tips,
//! which compare spelling.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, CommandFactory};
use rocwheel_console::failure::Usage;

use crate::arguments::Arguments;
use crate::commands::compat;
use crate::documents::{self, Word};

/// Explains a command or option that does not exist; `None` if the table lacks it. `typed` is the
/// command line, including the name of the program.
pub(crate) fn explain(error: &clap::Error, typed: &[String]) -> Option<Usage> {
    let context = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::MissingRequiredArgument => return missing(error, &command_of(typed)),
        _ => return None,
    };
    let Some(ContextValue::String(wrong)) = error.get(context) else { return None };
    let at = command_of(typed);
    let words = documents::words();
    if error.kind() == ErrorKind::InvalidSubcommand {
        return command(wrong, &at, words, typed);
    }
    if !wrong.starts_with('-') && at == "package" {
        let usage = Usage::new(format!("`rocwheel package` takes its input with an option, not as `{wrong}`"));
        return Some(usage.hint(format!("did you mean `--artifacts {wrong}`?")));
    }
    if at == "doctor" && rocwheel_wheel::WheelName::is_wheel(wrong) {
        let usage = Usage::new(format!("`rocwheel doctor` examines a machine, not `{wrong}`"));
        return Some(usage.hint(format!("did you mean `rocwheel audit {wrong}`? It checks whether wheels will load")));
    }
    option(name_of(wrong), &at, words, typed)
}

/// The words of the typed command: `source checkout`; empty for none.
fn command_of(typed: &[String]) -> String {
    let mut command: &Command = &Arguments::command();
    let mut names: Vec<&str> = Vec::new();
    for word in typed.iter().skip(1) {
        if let Some(found) = command.find_subcommand(word) {
            command = found;
            names.push(found.get_name());
        }
    }
    names.join(" ")
}

/// An option without its value.
fn name_of(word: &str) -> &str {
    word.split('=').next().unwrap_or(word)
}

fn find<'a>(words: &'a [Word], at: &str, typed: &str) -> Option<&'a Word> {
    words.iter().find(|word| word.at == at && word.typed.iter().any(|one| one == typed))
}

/// The row of a word at a command, or else one about scripts and programs, which people type
/// anywhere.
pub(crate) fn find_anywhere<'a>(words: &'a [Word], at: &str, typed: &str) -> Option<&'a Word> {
    [at, "compat", ""].into_iter().find_map(|at| find(words, at, typed))
}

/// The command that takes names, and whether a name is one of its own.
type NameCommand = (&'static str, fn(&str) -> bool);

/// Commands whose arguments are names, at which people type those of scripts and targets.
const NAME_COMMANDS: [NameCommand; 3] = [
    ("build", is_recipe),
    ("source checkout", is_project),
    // A test may have any name that is no script's.
    ("test suite", |name| Path::new(name).exists() || !is_script(name)),
];

fn is_recipe(name: &str) -> bool {
    ["all", "install-rocm"].contains(&name)
        || rocwheel_recipe::Book::built_in().is_ok_and(|book| book.named(name, &[]).is_ok())
}

fn is_project(name: &str) -> bool {
    rocwheel_source::Table::built_in().projects.iter().any(|project| project.name == name)
}

/// `true` for the name of a script, with its folder or without, and for PyTorch's smoke tests.
fn is_script(name: &str) -> bool {
    let (_, ending) = name.rsplit_once('.').unwrap_or_default();
    ["py", "sh", "yml"].contains(&ending) || compat::has_script(name) || name.starts_with("smoke")
}

/// Explains a word of other documents where a command expects one of its names: `rocwheel build
/// pytorch`. `None` if every name may be one.
pub(crate) fn explain_names(matches: &ArgMatches) -> Option<Usage> {
    let (mut command, mut matches, mut path) = (&Arguments::command(), matches, Vec::new());
    while let Some((name, inner)) = matches.subcommand() {
        (command, matches) = (command.find_subcommand(name)?, inner);
        path.push(name);
    }
    let at = path.join(" ");
    let (_, is_own) = NAME_COMMANDS.iter().find(|(command, _)| *command == at)?;
    // A folder of recipes may have any names.
    if matches.try_contains_id("recipes").unwrap_or_default() {
        return None;
    }
    let positionals = command.get_positionals().filter_map(|one| matches.try_get_raw(one.get_id().as_str()).ok()?);
    let names = positionals.flatten().filter_map(|name| name.to_str());
    let words = documents::words();
    names
        .filter(|name| !is_own(name) && (is_script(name) || find_anywhere(words, &at, name).is_some()))
        .find_map(|name| self::command(name, &at, words, &[]))
}

/// Words for a wheel, and our command for it.
const WHEEL_WORDS: [(&[&str], &str, &str); 2] = [
    (&["check", "verify", "validate"], "audit", "It checks whether wheels will load"),
    (&["show", "list", "ls"], "kernels", "It shows the GPU code of wheels"),
];

/// Words that other tools have for commands which take wheels: `rocwheel check X.whl`.
fn of_wheels(wrong: &str, typed: &[String]) -> Option<Usage> {
    if !typed.iter().any(rocwheel_wheel::WheelName::is_wheel) {
        return None;
    }
    let (_, meant, why) = WHEEL_WORDS.iter().find(|(words, ..)| words.contains(&wrong))?;
    Some(
        Usage::new(format!("there is no command `{wrong}` here"))
            .hint(format!("did you mean `rocwheel {meant}`? {why}")),
    )
}

/// The commands of this name below other commands: `hipify` is `rocwheel source hipify`.
fn nested(wrong: &str, at: &str) -> Option<Usage> {
    fn search(command: &Command, path: &str, wrong: &str, found: &mut Vec<String>) {
        // The scripts of `compat` have words of their own, which would lead away from ours.
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "compat") {
            let path = format!("{path} {}", inner.get_name());
            search(inner, &path, wrong, found);
            if inner.get_name() == wrong {
                found.push(format!("`{path}`"));
            }
        }
    }
    let mut found = Vec::new();
    search(&Arguments::command(), "rocwheel", wrong, &mut found);
    if at == "compat" || found.is_empty() {
        return None;
    }
    let hint = format!("did you mean {}?", found.join(" or "));
    Some(Usage::new(format!("there is no command `{wrong}` here")).hint(hint))
}

/// clap names the one option that is required; `edit` has a second way.
fn missing(error: &clap::Error, at: &str) -> Option<Usage> {
    let Some(ContextValue::Strings(names)) = error.get(ContextKind::InvalidArg) else { return None };
    if at != "edit" || names.len() != 1 || !names[0].starts_with("--output") {
        return None;
    }
    let usage = Usage::new("`rocwheel edit` does not know where to write");
    Some(usage.hint("add `--output DIR` for edited copies, or `--in-place`; `--dry-run` writes nothing"))
}

fn command(wrong: &str, at: &str, words: &[Word], typed: &[String]) -> Option<Usage> {
    // Documents write scripts with their folders: `./build_rocm.sh`.
    let without_ending = wrong.strip_suffix(".py").or(wrong.strip_suffix(".sh"));
    let script = without_ending.map_or(wrong, |path| path.rsplit(['/', '\\']).next().unwrap_or(path));
    let wrong = if without_ending.is_some() { wrong.rsplit(['/', '\\']).next().unwrap_or(wrong) } else { wrong };
    if compat::has_script(script) && at != "compat" {
        let usage = Usage::new(format!("there is no command `{wrong}` here"));
        let hint = format!("did you mean `rocwheel compat {script}`? It takes the options of that script");
        return Some(usage.hint(hint));
    }
    if let Some(usage) = of_wheels(wrong, typed).filter(|_| at.is_empty()) {
        return Some(usage);
    }
    let Some(word) = find_anywhere(words, at, wrong) else {
        if !documents::plumbing().iter().any(|name| name == script) {
            return nested(wrong, at);
        }
        let usage = Usage::new(format!("`rocwheel compat` does not cover the script `{wrong}`"));
        return Some(usage.hint("it makes and moves no packages: continue with today's script"));
    };
    let usage = match at {
        "compat" => format!("`rocwheel compat` does not cover the script `{wrong}`"),
        "build" => format!("there is no recipe `{wrong}`"),
        "source checkout" => format!("there is no project `{wrong}`"),
        _ => format!("there is no command `{wrong}` here"),
    };
    Some(Usage::new(usage).hint(advice(word)))
}

/// Explains all words of the command line that the table has.
fn option(wrong: &str, at: &str, words: &[Word], typed: &[String]) -> Option<Usage> {
    let usage = Usage::new(format!("`{}` has no `{wrong}`", format!("rocwheel {at}").trim_end()));
    let Some(first) = find_anywhere(words, at, wrong) else {
        // For its scripts, `compat` says what the flag does in the script that has it.
        let hint = elsewhere(wrong, words).filter(|_| !at.starts_with("compat "));
        return hint.map(|hint| usage.hint(hint));
    };
    let mut hint = advice(first);
    let mut explained = vec![wrong];
    for word in typed.iter().take_while(|word| *word != "--").map(|word| name_of(word)) {
        if explained.contains(&word) || !word.starts_with("--") {
            continue;
        }
        explained.push(word);
        match find(words, at, word) {
            Some(Word { meant: Some(meant), .. }) => hint.push_str(&format!("; `{word}` is `{meant}`")),
            Some(Word { why, .. }) => hint.push_str(&format!("; `{word}`: {why}")),
            None => {}
        }
    }
    Some(usage.hint(hint))
}

/// Where an option of the documents belongs: another command of ours, or scripts.
fn elsewhere(wrong: &str, words: &[Word]) -> Option<String> {
    let of_commands = words.iter().filter(|word| word.typed.iter().any(|one| one == wrong));
    let mut places: Vec<String> = of_commands
        .map(|word| match &word.meant {
            Some(meant) => format!("at `rocwheel {}` it is `{meant}`", word.at),
            None => format!("at `rocwheel {}`: {}", word.at, word.why),
        })
        .collect();
    let command = Arguments::command();
    let scripts = command.find_subcommand("compat").into_iter().flat_map(Command::get_subcommands);
    let having = scripts.filter(|script| has_option(script, wrong)).map(|script| format!("`{}`", script.get_name()));
    let having: Vec<String> = having.collect();
    if !having.is_empty() {
        let (first, more) = having.split_at(having.len().min(3));
        let others = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
        places.push(format!("scripts of `rocwheel compat` that have it: {}{others}", first.join(", ")));
    }
    (!places.is_empty()).then(|| places.join("; "))
}

/// `true` if a command or one of its own commands has the option.
fn has_option(command: &Command, option: &str) -> bool {
    command
        .get_arguments()
        .any(|argument| argument.get_long().is_some_and(|long| option.strip_prefix("--") == Some(long)))
        || command.get_subcommands().any(|inner| has_option(inner, option))
}

fn advice(word: &Word) -> String {
    match &word.meant {
        Some(meant) => format!("did you mean `{meant}`? {}", word.why),
        None => word.why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a command line and its explanation.
    fn explained(line: &[&str]) -> Option<String> {
        let typed: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        let usage = match Arguments::command().try_get_matches_from(&typed) {
            Ok(matches) => explain_names(&matches),
            Err(error) => explain(&error, &typed),
        };
        usage.map(|usage| format!("{usage} | {}", rocwheel_progress::Hint::hint(&usage).unwrap_or_default()))
    }

    #[test]
    fn every_row_is_reached_by_what_is_typed() {
        for word in documents::words() {
            for typed in &word.typed {
                let line = format!("rocwheel {} {typed}", word.at);
                let said = explained(&line.split_whitespace().collect::<Vec<_>>());
                let said = said.unwrap_or_else(|| panic!("{line} leads nowhere"));
                let expected = word.meant.as_ref().map_or(word.why.clone(), |meant| format!("did you mean `{meant}`?"));
                assert!(said.contains(typed) && said.contains(&expected), "{line}: {said}");
            }
        }
    }

    #[test]
    fn what_is_suggested_exists() {
        for word in documents::words() {
            let Some(meant) = &word.meant else { continue };
            let full = meant.strip_prefix("rocwheel ").map_or_else(|| format!("{} {meant}", word.at), str::to_owned);
            let mut command = Arguments::command();
            command.build();
            let mut command = &command;
            for name in full.split(' ') {
                command = command.find_subcommand(name).unwrap_or(command);
                let Some(option) = name.strip_prefix("--") else { continue };
                let long = option.split('=').next();
                assert!(command.get_arguments().any(|argument| argument.get_long() == long), "{full}");
            }
            assert!(!command.get_name().eq("rocwheel"), "{full}");
        }
    }

    #[test]
    fn the_words_of_a_row_are_not_ours() {
        let mut seen = std::collections::BTreeSet::new();
        for word in documents::words() {
            let why =
                if word.meant.is_some() { word.why.starts_with(|first: char| !first.is_lowercase()) } else { true };
            assert!(
                why && !word.why.ends_with('.'),
                "{}: the reason follows a question mark, without a full stop",
                word.why
            );
            for typed in &word.typed {
                assert!(seen.insert((word.at.clone(), typed.clone())), "{} {typed} is there twice", word.at);
            }
        }
    }

    #[test]
    fn words_for_wheels_and_for_nested_commands() {
        let hint = |line: &[&str]| explained(line).unwrap_or_default();
        assert!(hint(&["rocwheel", "check", "X.whl"]).contains("did you mean `rocwheel audit`?"));
        assert!(hint(&["rocwheel", "check", "artifacts"]).contains("did you mean `rocwheel artifact verify`?"));
        assert!(hint(&["rocwheel", "show", "X.whl"]).contains("did you mean `rocwheel kernels`?"));
        assert!(hint(&["rocwheel", "doctor", "X.whl"]).contains("did you mean `rocwheel audit X.whl`?"));
        assert!(hint(&["rocwheel", "yank", "1.0"]).contains("did you mean `rocwheel release yank`?"));
        assert!(hint(&["rocwheel", "edit", "X.whl", "--version", "3"]).contains("or `--in-place`"));
        // Another missing argument is clap's to explain.
        assert_eq!(explained(&["rocwheel", "edit"]), None);
        assert_eq!(explained(&["rocwheel", "prune", "X.whl"]), None);
    }

    /// What the mission's five documents have in their command lines: scripts, targets, programs.
    const NAMES: &str = "make magma-rocm63 magma-cuda126 clean magma docker podman aws cmake therock-dist \
        therock-archives Makefile build_magma.sh package_files package_files/build.sh build_rocm.sh create_matrix.py _build_rocm.yml build.yml \
        checkout_and_build_all.sh checkout_pytorch_all.sh env_init.sh sanity_check_wheel.py build_pytorch_windows.sh \
        windows_patch_fat_wheel.py pytorch_torch_repo.py pytorch_audio_repo.py pytorch_vision_repo.py \
        pytorch_triton_repo.py save-patches hipify build_prod_wheels.py install-rocm setup.py pytest smoketests \
        smoke-tests run_pytorch_smoke_tests.py run_pytorch_tests.py run_test.py pytorch/test/run_test.py \
        ./build_tools/fetch_artifacts.py build_tools/github_actions/upload_python_packages.py \
        ./build_tools/build_python_packages.py build_tools/compute_rocm_package_version.py artifact_manager.py \
        ./third-party/indexer/indexer.py amdgpu_family_matrix.py build_portable_linux_pytorch_wheels.yml \
        build_windows_pytorch_wheels.yml post_stage_upload.py build_tools/configure_stage.py upload_tarballs.py \
        build_tarballs.py download_python_packages.py generate_package_indexes.py no_rocm_image_ubuntu24_04.Dockerfile rocm-sdk auditwheel patchelf pip \
        pytorch audio vision checkout";
    const OPTIONS: &str = "--amdgpu-families --amdgpu-family --amdgpu-targets --artifact-dir --artifact-group --bin \
        --build --cap-add --checkout-dir --cmake --cmake-prefix-path --continue-on-collection-errors --dest-dir --device \
        --enable-pytorch-flash-attention-windows --filter --find-links --gitrepo-origin --group-add --import-mode \
        --include --index-url --install-rocm --ipc --log-cli-level --oneline --output-dir --platform --pre \
        --pytorch-audio-dir --pytorch-dir --pytorch-vision-dir --repo --repo-hashtag --repo-name \
        --require-related-commit --root --run-id --security-opt --stage --target --flash-attn-version --python-version \
        --torch-version --rocm-version --is-upload --build-triton-backend";

    #[test]
    fn every_word_of_the_documents_is_answered_wherever_it_is_typed() {
        let mut silent = Vec::new();
        for at in ["", "compat", "build", "source checkout", "test suite"] {
            for word in NAMES.split_whitespace().chain(OPTIONS.split_whitespace()) {
                let line = format!("rocwheel {at} {word}");
                let typed: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
                let typed = compat::without_folder(typed.iter().map(Into::into).collect());
                let typed: Vec<String> = typed.into_iter().filter_map(|word| word.into_string().ok()).collect();
                let is_answered = match Arguments::command().try_get_matches_from(&typed) {
                    Ok(matches) => explain_names(&matches).is_some() || is_taken(at, word),
                    Err(error) => match error.kind() {
                        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => explain(&error, &typed).is_some(),
                        // It is known, and lacks a value or another argument.
                        _ => true,
                    },
                };
                if !is_answered {
                    silent.push(line);
                }
            }
        }
        assert!(silent.is_empty(), "{silent:#?}");
    }

    /// `true` for what the command itself takes.
    fn is_taken(at: &str, word: &str) -> bool {
        let name = NAME_COMMANDS.iter().find(|(command, _)| *command == at);
        word.starts_with("--") || at.is_empty() || at == "compat" || name.is_some_and(|(_, is_own)| is_own(word))
    }

    #[test]
    fn names_of_other_documents_where_ours_are_expected() {
        for (line, expected) in [
            ("rocwheel build pytorch", "`rocwheel build torch`"),
            ("rocwheel build magma-cuda126", "PyTorch's own Makefile"),
            ("rocwheel build build_magma.sh", "`rocwheel build magma-rocm63`"),
            ("rocwheel source checkout audio", "`rocwheel source checkout torchaudio`"),
            ("rocwheel source checkout pytorch_audio_repo.py", "`rocwheel compat pytorch_audio_repo`"),
            ("rocwheel test suite pytorch/test/run_test.py", "--as run-test"),
        ] {
            let matches = Arguments::command().try_get_matches_from(line.split(' ')).unwrap();
            let usage = explain_names(&matches).unwrap_or_else(|| panic!("{line}"));
            let hint = rocwheel_progress::Hint::hint(&usage).unwrap();
            assert!(hint.contains(expected), "{line}: {hint}");
        }
        for line in
            ["rocwheel build magma-rocm63 torch", "rocwheel build clean --recipes mine", "rocwheel test suite make"]
        {
            let matches = Arguments::command().try_get_matches_from(line.split(' ')).unwrap();
            assert!(explain_names(&matches).is_none(), "{line}");
        }
    }

    #[test]
    fn several_words_of_one_line_are_explained_together() {
        let said = explained(&["rocwheel", "build", "all", "--install-rocm", "--index-url", "U", "--output-dir=D"]);
        assert_eq!(
            said.unwrap(),
            "`rocwheel build` has no `--install-rocm` | did you mean `--rocm-sdk index=URL`? ROCm's packages are \
             installed for each job; into your own environment with `--into VENV`; `--index-url` is `--rocm-sdk \
             index=URL`; `--output-dir` is `--output`"
        );
        assert_eq!(explained(&["rocwheel", "build", "all", "--nonsense"]), None);
        assert_eq!(explained(&["rocwheel", "nonsense"]), None);
    }
}
