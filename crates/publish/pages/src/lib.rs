//! Input: finished wheels and source distributions in a store. Output: a package index over them,
//! which pip, uv and browsers read, and an answer to whether an index can be trusted.
//!
//! [`build()`] lists a [`Store`](rocwheel_store::Store), reads what is new in it, and writes the
//! pages that changed. The pages themselves are made in [`rocwheel_index::pages`], from facts
//! alone. [`aggregate()`] joins the indexes of several products, and [`check()`] reads an index as
//! an installer does and reports what is wrong with it. Nothing here knows who publishes: what a
//! page may say of files is in this crate, and which files may be published is decided elsewhere.

mod aggregate;
mod attestations;
mod build;
mod catalog;
mod check;
pub mod chooser;
mod error;
pub mod facts;
mod file_rules;
mod layout;
pub mod page_file;
mod record;
mod seal;
pub mod status;
pub mod views;

pub use aggregate::{AggregateOptions, Aggregated, Hosting, aggregate};
pub use attestations::check_attestations;
pub use build::{BuildOptions, Built, BuiltIndex, build};
pub use check::{CheckOptions, CheckedIndex, FaultLevel, IndexFault, check};
pub use chooser::{ChangedVersion, ChooserOptions, GpuChoice, IndexChanges, plain_page};
pub use error::Error;
pub use layout::Layout;
pub use page_file::PageFile;
pub use rocwheel_index::pages::escaped_html;
pub use status::StatusTable;
pub use views::IndexView;
