//! What follows a build, as options say it.

use build::recipe::Output;
use build::{Repair, Switch};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};

use crate::failure::Usage;

/// Options about what follows a build.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct After {
    /// Make the wheel load on other machines, as the modes of `rocwheel repair` do [default: as the recipe says, else
    /// none]
    #[arg(long, value_name = "WAY", value_parser = PossibleValuesParser::new(Repair::NAMES).try_map(|name| name.parse::<Repair>()))]
    repair: Option<Repair>,
    /// Put the code for each GPU target into a wheel of its own, as `rocwheel split` does [default: as the recipe says, else
    /// off, and one wheel has all of it]
    #[arg(long, value_name = "on|off", value_parser = PossibleValuesParser::new(Switch::NAMES).try_map(|name| name.parse::<Switch>()))]
    split: Option<Switch>,
}

impl After {
    /// Lays the options over what a recipe says.
    pub(super) fn lay(self, recipe: &str, output: &mut Output) -> Result<(), Usage> {
        if output.tarball.is_some() && (self.repair.is_some() || self.split.is_some()) {
            let usage = Usage::new(format!("`--repair` and `--split` are for wheels, and {recipe} makes a tarball"));
            return Err(usage.hint("leave them out"));
        }
        output.repair = self.repair.or(output.repair);
        output.split = self.split.or(output.split);
        Ok(())
    }
}
