//! Input: wheels that shall work together. Output: what an environment with all of them would be like, without making it:
//! which file lies where ([`site`]), what the ELF and PE files in it say ([`facts`]) and what the dynamic loader would find for
//! each of them ([`loader`]).
//!
//! Nothing is installed and nothing is run.

mod error;
pub mod facts;
pub mod loader;
pub mod preload;
pub mod providers;
pub mod repair;
pub mod site;

pub use error::Error;
