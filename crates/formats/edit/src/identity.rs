//! The name and version of the files that are edited, before and after.

use std::collections::BTreeMap;

use rocwheel_wheel::{Error, Headers, same_version};

use crate::wheel_edit::WheelEdit;

/// The name and version of a distribution, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) new_name: String,
    pub(crate) new_version: String,
}

impl Identity {
    pub(crate) fn new(headers: &Headers, edit: &WheelEdit) -> Result<Identity, Error> {
        let name = headers.get("Name").unwrap_or_default();
        let version = headers.get("Version").unwrap_or_default();
        let new_version = match &edit.version {
            Some(change) => change.apply(&version)?,
            None => version.clone(),
        };
        let new_name = edit.name.clone().unwrap_or_else(|| name.clone());
        Ok(Identity { name, version, new_name, new_version })
    }
}

/// The old and the new version of each edited distribution, by canonical name.
pub(crate) enum Siblings {
    Keep,
    Follow(BTreeMap<String, (String, String)>),
}

impl Siblings {
    /// The new version for a requirement `name == version`; `None` if it does not change.
    pub(crate) fn successor(&self, identity: &Identity, name: &str, version: &str) -> Option<String> {
        let Siblings::Follow(edited) = self else { return None };
        if let Some((old, new)) = edited.get(name) {
            return same_version(old, version).then(|| new.clone());
        }
        (same_version(&identity.version, version) && identity.version != identity.new_version)
            .then(|| identity.new_version.clone())
    }
}
