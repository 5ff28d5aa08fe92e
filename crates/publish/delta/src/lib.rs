//! Input: the name of a wheel, an index that has it, and folders with other wheels of its project.
//! Output: the wheel, of which only those bytes were downloaded that no other wheel has.
//!
//! `WHEEL.delta` beside a wheel ([`DeltaDescription`]) lists its pieces by their hashes. It is made
//! from the wheel alone: any other wheel that has some of the pieces helps, whatever its version,
//! and the publisher need not have one. It is not trusted: the result is compared with the hash on
//! the page of the index, and after any failure the whole wheel is downloaded.

mod choose;
mod chosen_wheel;
mod cut;
mod description;
mod download;
mod error;
mod get;
mod index_site;
mod own_wheels;
mod rebuild;
mod refused_extras;
mod request;
mod transfer;
mod wheel_download;

pub use description::{DeltaDescription, describe};
pub use error::Error;
pub use get::{GetMethod, GetPlan, GotWheel, get, plan_get};
pub use index_site::{IndexSite, ProjectAnswer};
pub use request::GetRequest;
pub use transfer::RemoteFile;
