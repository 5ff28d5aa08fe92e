//! package

pub mod stub;
pub mod version;
