//! The attributes of an XML element, and its texts.

use quick_xml::events::BytesStart;

/// The attributes of an element, in their order.
pub(crate) struct XmlAttributes {
    found: Vec<(String, String)>,
    /// Names that it has twice; the first value counts.
    pub(crate) repeated: Vec<String>,
}

impl XmlAttributes {
    /// Reads the attributes; the error is a sentence.
    pub(crate) fn read(start: &BytesStart<'_>) -> Result<XmlAttributes, String> {
        let mut attributes = XmlAttributes { found: Vec::new(), repeated: Vec::new() };
        for attribute in start.attributes().with_checks(false) {
            let attribute = attribute.map_err(|error| format!("an element is damaged: {error}"))?;
            let name = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
            if attributes.find(&name).is_some() {
                attributes.repeated.push(name);
                continue;
            }
            attributes.found.push((name, unescaped(&String::from_utf8_lossy(&attribute.value))));
        }
        Ok(attributes)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&str> {
        self.found.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn get(&self, name: &str) -> String {
        self.find(name).unwrap_or_default().to_owned()
    }

    /// The value of an attribute that is not empty.
    pub(crate) fn filled(&self, name: &str) -> Option<String> {
        self.find(name).filter(|text| !text.is_empty()).map(str::to_owned)
    }
}

/// A text without references to characters; other entities stay as they were written.
pub(crate) fn unescaped(text: &str) -> String {
    if let Ok(plain) = quick_xml::escape::unescape(text) {
        return plain.into_owned();
    }
    // One unknown entity does not make the others unreadable.
    text.split_inclusive(';')
        .map(|part| quick_xml::escape::unescape(part).map_or_else(|_| part.to_owned(), std::borrow::Cow::into_owned))
        .collect()
}
