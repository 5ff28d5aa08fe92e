//! The wheel that a user means.

use rocwheel_index::page::PageLink;
use rocwheel_wheel::WheelName;

use crate::index_site::IndexSite;

/// A wheel of an index.
#[derive(Debug)]
pub(super) struct ChosenWheel<'a> {
    pub(super) site: &'a IndexSite,
    pub(super) link: PageLink,
    pub(super) name: WheelName,
}
