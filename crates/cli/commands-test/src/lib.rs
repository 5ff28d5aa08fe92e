//! The commands that test what was built, and the machine: arguments → settings → `command` →
//! exit code. One file is one command.

pub mod choose;
pub mod doctor;
pub mod test;

use rocwheel_console::environment;
use rocwheel_doctor::{MachineTree, PackageChoice, Patient, SessionVariables};

/// This machine, to ask for its GPUs alone.
fn this_machine() -> Patient {
    Patient {
        tree: MachineTree::live(),
        variables: SessionVariables::of(environment::text_variables()),
        user: None,
        packages: PackageChoice::NotAsked,
        index: None,
        directory: None,
        needs_gpu: false,
        scratch: environment::scratch(),
    }
}
