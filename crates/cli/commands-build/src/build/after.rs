//! The options of `rocwheel build` for the steps after a build.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use rocwheel_builder::job_maker::ResultChoice;
use rocwheel_recipe::{Repair, Switch};

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
    /// Converts the options to the type of the library.
    pub(super) fn choice(self) -> ResultChoice {
        ResultChoice { repair: self.repair, split: self.split }
    }
}
