//! Input: names of projects, or a manifest. Output: their sources, checked out, converted, patched
//! and tagged.
//!
//! [`check_out`] does all of it. A request and the table of sources make a [`Plan`], which is
//! serialisable and touches nothing. [`Plan::execute`] runs it with git's command line.
//! [`manifest`] describes checkouts, [`patches`] turns the user's commits into files and back.

mod archive;
mod checkout;
mod error;
mod folder_lock;
mod git;
mod git_failure;
mod hipified;
pub mod manifest;
pub mod patch_files;
pub mod patches;
mod per_project;
mod pins;
mod plan;
mod repository;
mod request;
mod running_git;
mod state;
mod table;

use rocwheel_progress::{Failure, Reporter};

pub use archive::{Unpacked, sha256, unpack};
pub use checkout::{CheckoutReport, CheckoutStatus, Convert};
pub use error::checksum;
pub use git::{Git, without_secret};
pub use git_failure::GitFailure;
pub use hipified::Hipify;
pub use per_project::{PerProject, absolute, local_origin};
pub use pins::is_commit;
pub use plan::{Checkout, CheckoutStep, Plan, Reference};
pub use repository::{HIPIFY, UPSTREAM};
pub use request::{Movement, Related, Request, SourceArchive, Submodules, TreeConversion, TritonPin, WantedCheckout};
pub use state::{Obtained, obtained};
pub use table::{KnownArchive, Line, LocalChange, PinFiles, Project, Table, TritonRules};

/// Checks projects out: makes a plan from the request and executes it, as `rocwheel source
/// checkout` does.
/// If one fails, the checkouts before it are complete; a second call continues where the first
/// stopped.
pub fn check_out(
    request: &Request,
    table: &Table,
    git: &Git,
    convert: &dyn Convert,
    reporter: &dyn Reporter,
) -> Result<Vec<CheckoutReport>, Failure> {
    Plan::new(request, table)?.execute(git, convert, reporter, &mut |_| {})
}
