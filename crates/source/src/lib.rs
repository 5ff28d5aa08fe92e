//! Input: names of projects, or a manifest. Output: their sources, checked out, converted, patched and tagged.
//!
//! A request and the table of sources make a [`Plan`], which is serialisable and touches nothing; [`Plan::execute`] walks it, with git
//! on the command line. [`manifest`] describes what is checked out, [`patches`] turns commits of one's own into files and back.

mod archive;
mod checkout;
mod error;
mod git;
pub mod manifest;
pub mod patches;
mod pins;
mod plan;
mod repository;
mod request;
mod state;
mod table;

pub use archive::sha256;
pub use checkout::{Convert, Outcome, Status};
pub use error::Error;
pub use git::{Failure, Git};
pub use plan::{Checkout, Plan, Reference, Step};
pub use repository::{HIPIFY, UPSTREAM};
pub use request::{Archive, Conversion, Movement, Related, Request, Submodules, TritonPin, Wanted};
pub use table::{KnownArchive, Line, LocalChange, PinFiles, Project, Table, TritonRules};
