//! A change of a field of METADATA that a user can ask for.

use rocwheel_wheel::{Error, Headers, check_value};

use crate::error::unusable;

/// The fields of core metadata 2.5 that can be set by name. The others have their own options.
const FIELDS: [&str; 27] = [
    "Author",
    "Author-email",
    "Classifier",
    "Description-Content-Type",
    "Download-URL",
    "Dynamic",
    "Home-page",
    "Import-Name",
    "Import-Namespace",
    "Keywords",
    "License",
    "License-Expression",
    "License-File",
    "Maintainer",
    "Maintainer-email",
    "Metadata-Version",
    "Obsoletes",
    "Obsoletes-Dist",
    "Platform",
    "Project-URL",
    "Provides",
    "Provides-Dist",
    "Requires",
    "Requires-External",
    "Requires-Python",
    "Summary",
    "Supported-Platform",
];
/// Fields with their own options, and the text that names the option.
const ELSEWHERE: [(&str, &str); 4] = [
    ("Name", "`--rename` changes the name"),
    ("Version", "`--version` changes the version"),
    ("Requires-Dist", "`--requires` and its sisters change the requirements"),
    ("Provides-Extra", "`--add-extra` and `--remove-extra` change the extras"),
];

/// A change of another field of METADATA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldEdit {
    name: &'static str,
    value: FieldValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum FieldValue {
    Set(String),
    Add(String),
    Remove,
}

impl FieldEdit {
    /// Parses `FIELD=VALUE`, `FIELD+=VALUE` (adds a value to a field that may occur several times)
    /// or `FIELD=` (removes the field). Fails for an unknown field and for one with its own option.
    pub fn parse(text: &str) -> Result<FieldEdit, Error> {
        let parts = text.split_once('=');
        let (name, value) = parts.ok_or_else(|| unusable("change of a field", text, "FIELD=VALUE is expected"))?;
        let (name, adds) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
        if let Some((_, hint)) = ELSEWHERE.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)) {
            return Err(unusable("change of a field", text, *hint));
        }
        let known = FIELDS.into_iter().find(|field| field.eq_ignore_ascii_case(name));
        let name = known
            .ok_or_else(|| unusable("change of a field", text, format!("`{name}` is no field of core metadata")))?;
        let value = match (value, adds) {
            ("", false) => FieldValue::Remove,
            (value, false) => FieldValue::Set(value.to_owned()),
            (value, true) => FieldValue::Add(value.to_owned()),
        };
        if let FieldValue::Set(value) | FieldValue::Add(value) = &value {
            // A value that would break the file is refused before any file is opened.
            check_value(name, value)?;
        }
        Ok(FieldEdit { name, value })
    }

    /// `true` if it sets the version of core metadata itself.
    pub(crate) fn sets_metadata_version(&self) -> bool {
        self.name == "Metadata-Version"
    }

    pub(crate) fn apply(&self, headers: &mut Headers) -> Result<(), Error> {
        match &self.value {
            FieldValue::Set(value) => headers.set(self.name, value),
            FieldValue::Add(value) if headers.all(self.name).contains(value) => Ok(()),
            FieldValue::Add(value) => headers.push(self.name, value),
            FieldValue::Remove => {
                headers.remove(self.name, |_| true);
                Ok(())
            }
        }
    }
}
