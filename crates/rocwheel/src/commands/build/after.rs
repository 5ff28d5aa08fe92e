//! What follows a build, as options say it.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use rocwheel_recipe::{Evaluated, Repair, Switch};

use crate::failure::Usage;

/// Options about what follows a build.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "The result")]
pub(crate) struct After {
    /// Make the wheel load on other machines, with a mode of `rocwheel repair` [default: the recipe
    /// decides, else none]
    #[arg(long, value_name = "WAY", value_parser = PossibleValuesParser::new(Repair::NAMES).try_map(|name| name.parse::<Repair>()))]
    repair: Option<Repair>,
    /// Put the code for each GPU target into a separate wheel, as `rocwheel split` does [default:
    /// the recipe decides, else off: one wheel has all of it]
    #[arg(long, value_name = "on|off", value_parser = PossibleValuesParser::new(Switch::NAMES).try_map(|name| name.parse::<Switch>()))]
    split: Option<Switch>,
}

impl After {
    /// Lays the options over what a recipe says.
    pub(super) fn lay(self, recipe: &mut Evaluated) -> Result<(), Usage> {
        let (name, output) = (&recipe.recipe, &mut recipe.output);
        if output.tarball.is_some() && (self.repair.is_some() || self.split.is_some()) {
            let usage = Usage::new(format!("`--repair` and `--split` are for wheels, and {name} makes a tarball"));
            return Err(usage.hint("leave them out"));
        }
        if self.repair == Some(Repair::Rocm) && !recipe.sdk {
            let backend = recipe.cell.backend.as_deref().unwrap_or_default();
            let reason =
                format!("`--repair rocm` finds ROCm beside the wheel, and {name} ({backend}) is built without ROCm");
            return Err(Usage::new(reason).hint("`--repair graft` brings other libraries into the wheel"));
        }
        output.repair = self.repair.or(output.repair);
        output.split = self.split.or(output.split);
        Ok(())
    }
}
