//! The values that shells complete beyond those of the command line's own definition: recipes,
//! codes of findings, projects and GPU targets. Other values are accepted as well, so they are not
//! part of that definition.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Command};
use rocwheel_audit::finding::Code;
use rocwheel_commands_build::source::projects;
use rocwheel_console::failure::Result;
use rocwheel_recipe::Book;
use rocwheel_tables::TargetTable;

/// Options that take GPU targets and families.
const OF_TARGETS: [&str; 9] = [
    "targets",
    "keep",
    "keep-targets",
    "gpu-targets",
    "target",
    "expect",
    "amdgpu-family",
    "linux-amdgpu-families",
    "windows-amdgpu-families",
];

/// The known values by kind.
struct KnownValues {
    recipes: Vec<PossibleValue>,
    codes: Vec<PossibleValue>,
    projects: Vec<PossibleValue>,
    targets: Vec<PossibleValue>,
}

/// The command line with these values as the possible ones of its arguments.
///
/// # Errors
/// None but for a defect: the tables are built in.
pub(super) fn with_values(program: Command) -> Result<Command> {
    let book = Book::built_in()?;
    let recipes = book.entries().map(|entry| described(&entry.recipe.name, &entry.recipe.summary));
    let codes = Code::ALL.iter().map(|code| described(code.text(), &code.explanation().title));
    let sources = projects::table(None)?;
    let targets = TargetTable::embedded();
    let products = targets.targets().iter().map(|target| described(&target.name, target.product.as_str()));
    let families = targets.family_names().into_iter().map(named);
    let known = KnownValues {
        recipes: recipes.collect(),
        codes: codes.collect(),
        projects: sources.projects.iter().map(|project| named(&project.name)).collect(),
        targets: products.chain(families).collect(),
    };
    Ok(known.add_to(program))
}

/// A value without a description. clap keeps names for ever, so this one is leaked.
fn named(name: &str) -> PossibleValue {
    let name: &'static str = name.to_owned().leak();
    PossibleValue::new(name)
}

fn described(name: &str, about: &str) -> PossibleValue {
    let value = named(name);
    if about.is_empty() { value } else { value.help(about.replace('`', "")) }
}

impl KnownValues {
    fn add_to(&self, command: Command) -> Command {
        let name = command.get_name().to_owned();
        let command = command.mut_args(|argument| match self.values_of(&name, &argument) {
            Some(values) => argument.value_parser(PossibleValuesParser::new(values)),
            None => argument,
        });
        command.mut_subcommands(|inner| self.add_to(inner))
    }

    /// The values of an argument; `None` if they are not of these kinds.
    fn values_of(&self, command: &str, argument: &Arg) -> Option<Vec<PossibleValue>> {
        let value_name = argument.get_value_names()?.first()?.as_str();
        let is_of_targets = argument.get_long().is_some_and(|long| OF_TARGETS.contains(&long));
        Some(match value_name {
            "RECIPE" if command == "build" => {
                let more = ["all", "install-rocm"].map(PossibleValue::new);
                self.recipes.iter().cloned().chain(more).collect()
            }
            "RECIPE" => self.recipes.clone(),
            "CODE" => self.codes.iter().cloned().chain([PossibleValue::new("all")]).collect(),
            "CODES" => self.codes.clone(),
            "PROJECT" => self.projects.clone(),
            _ if is_of_targets => self.targets.clone(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn every_kind_has_values_somewhere() {
        let mut program = with_values(Arguments::command()).unwrap();
        program.build();
        let values = |path: &[&str], id: &str| -> Vec<String> {
            let command = path.iter().fold(&program, |command, name| command.find_subcommand(name).unwrap());
            let argument = command.get_arguments().find(|argument| argument.get_id() == id).unwrap();
            argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
        };
        for (path, id, value) in [
            (&["build"][..], "names", "flash-attn"),
            (&["build"], "names", "all"),
            (&["recipe", "show"], "recipe", "torch"),
            (&["matrix"], "recipes", "torch"),
            (&["audit"], "explain", "RW012"),
            (&["audit"], "ignore", "RW007"),
            (&["release", "publish"], "ignore", "RW007"),
            (&["source", "checkout"], "projects", "torchvision"),
            (&["prune"], "keep", "gfx942"),
            (&["package"], "targets", "gfx94X-dcgpu"),
        ] {
            assert!(values(path, id).iter().any(|known| known == value), "{path:?} {id}: {:?}", values(path, id));
        }
    }
}
