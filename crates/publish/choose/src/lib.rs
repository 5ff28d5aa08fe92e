//! Input: packages, indexes, a Python, a system and GPUs. Output: the set of packages that an
//! installer would bring, if each has its part for these GPUs, and lines that install exactly it.
//!
//! uv or pip resolve, never this crate: it puts the question, reads the METADATA and the GPU code
//! of what they choose, and asks again without the versions that lack something. Each line that it
//! makes is resolved once more before it counts as checked.

mod answer;
mod ask;
mod evidence;
mod install_check;
mod lines;
mod lock;
mod near;
mod overlay;
mod promises;
mod public_names;
mod question;
mod resolver;
mod search;
mod set;
mod system;
mod table;

pub use answer::{ChoiceAnswer, ChoiceVerdict, Nearest};
pub use ask::{ask, present};
pub use install_check::{InstallCell, InstallCheck, InstallReport, InstallSentence, check_installation};
pub use lines::{InstallLine, Installer};
pub use lock::{LockedPackage, LockedPackageFile, parse_lock};
pub use public_names::{NameState, PublicName, find_public_names};
pub use question::{Question, with_extras};
pub use resolver::{Outcome, Pip, Query, Resolvers, Uv, of_python};
pub use set::{ChosenPackage, NotTaken, PackageOrigin};
pub use system::{glibc_of, known_systems};
pub use table::{ChoiceCell, ChoiceNight, Nights, table};

/// What `pip` and `uv` use when nobody names an index.
pub const PUBLIC_INDEX: &str = "https://pypi.org/simple";

/// The address that `yes`, `no` or the address of another one means.
pub fn public_index(text: &str) -> Option<String> {
    match text {
        "yes" => Some(PUBLIC_INDEX.to_owned()),
        "no" => None,
        other => Some(other.to_owned()),
    }
}
