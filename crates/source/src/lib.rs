//! Input: names of projects, or a manifest. Output: their sources, checked out, converted, patched
//! and tagged.
//!
//! [`check_out`] does all of it. A request and the table of sources make a [`Plan`], which is
//! serialisable and touches nothing; [`Plan::execute`] walks it, with git on the command line.
//! [`manifest`] describes what is checked out, [`patches`] turns commits of one's own into files
//! and back.

mod archive;
mod checkout;
mod error;
mod git;
mod hipified;
pub mod manifest;
pub mod patches;
mod per_project;
mod pins;
mod plan;
mod repository;
mod request;
mod state;
mod table;

use rocwheel_report::Reporter;

pub use archive::{Unpacked, sha256, unpack};
pub use checkout::{CheckoutStatus, Convert, Outcome};
pub use error::Error;
pub use git::{Git, GitFailure, without_secret};
pub use hipified::Hipify;
pub use per_project::{PerProject, absolute, local_origin};
pub use pins::is_commit;
pub use plan::{Checkout, Plan, Reference, Step};
pub use repository::{HIPIFY, UPSTREAM};
pub use request::{Archive, Movement, Related, Request, Submodules, TreeConversion, TritonPin, WantedCheckout};
pub use state::{Obtained, obtained};
pub use table::{KnownArchive, Line, LocalChange, PinFiles, Project, Table, TritonRules};

/// Checks projects out: plans what the request means and walks the plan, as
/// `rocwheel source checkout` does.
///
/// # Errors
/// See [`Error`]. The checkouts before the one that failed are complete, and a second call goes on
/// where the first one stopped.
pub fn check_out(
    request: &Request,
    table: &Table,
    git: &Git,
    convert: &dyn Convert,
    reporter: &dyn Reporter,
) -> Result<Vec<Outcome>, Error> {
    Plan::new(request, table)?.execute(git, convert, reporter, &mut |_| {})
}
