//! Input: the text of a METADATA or WHEEL file, and changes. Output: the text with only these
//! changes. Line ends, folded lines, spaces, order, invalid lines and the body after the headers
//! stay unchanged.
//!
//! Lines are parsed like in Python's `email` package, which installers use for these files (core
//! metadata specification; PEP 427 for WHEEL).

use std::fmt;

use crate::Error;
use crate::field_value::check_value;

/// The headers of a METADATA or WHEEL file, for reading and editing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    fields: Vec<Field>,
    /// The text after the headers, from the line that ends them.
    rest: String,
    /// The line end: `
    /// ` or `\r
    /// `.
    end: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: String,
    /// All lines of the field with their line ends.
    text: String,
}

impl Field {
    /// The value, trimmed and with folded lines joined.
    fn value(&self) -> String {
        let value = &self.text[self.name.len() + 1..];
        let lines: Vec<&str> = value.lines().collect();
        let mut joined = lines.join("\n");
        if lines.len() > 1 {
            joined = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
        }
        joined.trim().to_owned()
    }
}

impl Headers {
    /// Parses the text. This never fails: the headers end at the first line that is not a header.
    pub fn parse(text: &str) -> Headers {
        let mut fields: Vec<Field> = Vec::new();
        let mut position = 0;
        for line in text.split_inclusive('\n') {
            if line.starts_with([' ', '\t']) {
                // Python skips a continuation line at the beginning. No field can hold it here, so
                // the headers end.
                let Some(field) = fields.last_mut() else { break };
                field.text.push_str(line);
            } else if let Some(name) = field_name(line) {
                fields.push(Field { name: name.to_owned(), text: line.to_owned() });
            } else {
                break;
            }
            position += line.len();
        }
        let end = if text.lines().next().is_some() && text.split_inclusive('\n').next().is_some_and(is_crlf) {
            "\r\n"
        } else {
            "\n"
        };
        Headers { fields, rest: text[position..].to_owned(), end }
    }

    /// The values of all headers with this name, in order. The name is compared without regard to
    /// case; folded lines are joined.
    pub fn all(&self, name: &str) -> Vec<String> {
        self.named(name).map(Field::value).collect()
    }

    /// The value of the first header with this name.
    pub fn get(&self, name: &str) -> Option<String> {
        self.named(name).next().map(Field::value)
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Field> {
        self.fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name))
    }

    /// Names and values of all headers, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, String)> {
        self.fields.iter().map(|field| (field.name.as_str(), field.value()))
    }

    /// The text after the headers: the description in METADATA.
    pub fn body(&self) -> &str {
        self.rest.strip_prefix("\r\n").or_else(|| self.rest.strip_prefix('\n')).unwrap_or(&self.rest)
    }

    /// `true` if a header with this name has several lines.
    pub fn is_folded(&self, name: &str) -> bool {
        self.named(name).any(|field| field.text.trim_end().lines().count() > 1)
    }

    /// The line that ends the headers although it is not empty: readers take it and the lines
    /// behind it for the text after the headers.
    pub fn broken_line(&self) -> Option<&str> {
        self.rest.lines().next().map(str::trim_end).filter(|line| !line.is_empty())
    }

    /// Sets the value of a header. The first header with the name is changed in place and others
    /// with the name are removed; without any, it is added at the end. Fails if the value does not
    /// fit on a line.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let Some(first) = self.fields.iter().position(|field| field.name.eq_ignore_ascii_case(name)) else {
            return self.push(name, value);
        };
        let mut index = 0;
        self.fields.retain(|field| {
            index += 1;
            index - 1 <= first || !field.name.eq_ignore_ascii_case(name)
        });
        if self.fields[first].value() != value {
            let spelled = self.fields[first].name.clone();
            self.fields[first] = self.field(&spelled, value)?;
        }
        Ok(())
    }

    /// Adds a header after the last one with its name, or else at the end of the headers. Fails if
    /// the value does not fit on a line.
    pub fn push(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let field = self.field(name, value)?;
        let last = self.fields.iter().rposition(|field| field.name.eq_ignore_ascii_case(name));
        self.insert(last.map_or(self.fields.len(), |last| last + 1), field);
        Ok(())
    }

    /// Adds headers together and in this order at the end of the headers, as is usual for extras
    /// and their requirements. Fails if a value does not fit on a line.
    pub fn extend<'a>(&mut self, fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<(), Error> {
        for (name, value) in fields {
            let field = self.field(name, value)?;
            self.insert(self.fields.len(), field);
        }
        Ok(())
    }

    /// Removes the headers with this name whose value meets the condition, and returns their
    /// number.
    pub fn remove(&mut self, name: &str, condition: impl Fn(&str) -> bool) -> usize {
        let before = self.fields.len();
        self.fields.retain(|field| !field.name.eq_ignore_ascii_case(name) || !condition(&field.value()));
        before - self.fields.len()
    }

    /// Replaces the values of the headers with this name by the result of `new`; a header for which
    /// it returns `None` stays unchanged. Returns the number of changes. Fails if a value does not
    /// fit on a line.
    pub fn replace(&mut self, name: &str, new: impl Fn(&str) -> Option<String>) -> Result<usize, Error> {
        let mut count = 0;
        for index in 0..self.fields.len() {
            let field = &self.fields[index];
            if !field.name.eq_ignore_ascii_case(name) {
                continue;
            }
            let old = field.value();
            if let Some(value) = new(&old).filter(|value| *value != old) {
                let spelled = field.name.clone();
                self.fields[index] = self.field(&spelled, &value)?;
                count += 1;
            }
        }
        Ok(count)
    }

    fn field(&self, name: &str, value: &str) -> Result<Field, Error> {
        let line = format!("{name}: {value}{}", self.end);
        check_value(name, value)?;
        if field_name(&line) != Some(name) {
            let reason = "the name is none that a header can have";
            return Err(Error::Metadata { field: name.to_owned(), value: value.to_owned(), reason });
        }
        Ok(Field { name: name.to_owned(), text: line })
    }

    fn insert(&mut self, index: usize, field: Field) {
        let end = self.end;
        if let Some(previous) = index.checked_sub(1).map(|index| &mut self.fields[index])
            && !previous.text.ends_with('\n')
        {
            previous.text.push_str(end);
        }
        self.fields.insert(index, field);
    }
}

impl fmt::Display for Headers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields.iter().try_for_each(|field| formatter.write_str(&field.text))?;
        // A text that begins with a continuation line has no headers. If a header is added, an
        // empty line keeps that line from continuing it.
        if !self.fields.is_empty() && self.rest.starts_with([' ', '\t']) {
            formatter.write_str(self.end)?;
        }
        formatter.write_str(&self.rest)
    }
}

fn is_crlf(line: &str) -> bool {
    line.ends_with("\r\n")
}

/// The name of the header that begins on this line: printable ASCII without spaces, up to a colon.
fn field_name(line: &str) -> Option<&str> {
    let (name, _) = line.split_once(':')?;
    name.bytes().all(|byte| (0x21..=0x7e).contains(&byte)).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const CRLF: &str = "Metadata-Version:  2.1\r\nName: a\r\nSummary: one\r\n  two\r\n\tthree  \r\n\
                        requires-dist: x\r\nClassifier: c\r\n\r\n# Body\r\nName: not a header\r\n";

    #[test]
    fn an_edit_changes_its_lines_only() {
        let mut headers = Headers::parse(CRLF);
        assert_eq!(headers.get("metadata-version").as_deref(), Some("2.1"));
        assert_eq!(headers.get("Summary").as_deref(), Some("one two three"));
        assert_eq!(headers.all("Name"), ["a"]);
        assert_eq!(headers.body(), "# Body\r\nName: not a header\r\n");
        // The value is the same, so its two spaces stay.
        headers.set("Metadata-Version", "2.1").unwrap();
        assert_eq!(headers.to_string(), CRLF);
        headers.push("Requires-Dist", "y>=1").unwrap();
        headers.extend([("Provides-Extra", "e"), ("Requires-Dist", "z; extra == \"e\"")]).unwrap();
        headers.set("NAME", "b").unwrap();
        assert_eq!(headers.replace("Summary", |_| Some("short".to_owned())).unwrap(), 1);
        assert_eq!(headers.remove("Classifier", |value| value == "c"), 1);
        let expected = "Metadata-Version:  2.1\r\nName: b\r\nSummary: short\r\nrequires-dist: x\r\n\
            Requires-Dist: y>=1\r\nProvides-Extra: e\r\nRequires-Dist: z; extra == \"e\"\r\n\r\n# Body\r\n\
            Name: not a header\r\n";
        assert_eq!(headers.to_string(), expected);
    }

    #[test]
    fn headers_without_an_end_get_one_when_something_follows() {
        let mut headers = Headers::parse("Tag: a\nTag: b");
        headers.push("Tag", "c").unwrap();
        assert_eq!(headers.to_string(), "Tag: a\nTag: b\nTag: c\n");
        headers.set("Tag", "d").unwrap();
        assert_eq!(headers.to_string(), "Tag: d\n");
        let mut empty = Headers::parse("");
        empty.push("Tag", "c").unwrap();
        assert_eq!(empty.to_string(), "Tag: c\n");
    }

    #[test]
    fn values_that_would_become_other_headers_are_errors() {
        let mut headers = Headers::parse("Name: a\n");
        for (name, value) in [("Name", "a\nEvil: b"), ("Name", "a\r"), ("Na me", "a"), ("N:", "a"), ("Name", "")] {
            assert!(headers.set(name, value).is_err(), "{name:?}: {value:?}");
            assert!(headers.push(name, value).is_err(), "{name:?}: {value:?}");
        }
        assert_eq!(headers.to_string(), "Name: a\n");
    }

    #[cfg_attr(windows, ignore = "compares with Python, which Wine has not")]
    #[test]
    fn python_reads_the_same_values() {
        let texts = [
            CRLF.to_owned(),
            "A: 1\nno header\nB: 2\n".to_owned(),
            "A:1\n :x\nB :2\nC: 3\n".to_owned(),
            "A: 1\n \n\t\nB: 2\n\nbody\n".to_owned(),
            "A:\nB: \n c\n".to_owned(),
            "\nA: 1\n".to_owned(),
            "A: ä\nB: x: y\n".to_owned(),
        ];
        let script = "import sys, email.parser, json; m = email.parser.Parser().parsestr(sys.argv[1]); \
            print(json.dumps([[k, ' '.join(l.strip() for l in str(v).splitlines()).strip()] for k, v in m._headers]))";
        for text in texts {
            let output = Command::new("python3").args(["-X", "utf8", "-c", script, &text]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let by_python = String::from_utf8(output.stdout).unwrap();
            let headers = Headers::parse(&text);
            let ours: Vec<String> = headers
                .iter()
                .map(|(name, value)| format!("[\"{name}\", \"{}\"]", value.replace('ä', "\\u00e4")))
                .collect();
            assert_eq!(format!("[{}]\n", ours.join(", ")), by_python, "{text:?}");
        }
    }

    #[test]
    fn a_first_header_is_not_continued_by_what_was_there() {
        let mut headers = Headers::parse(" a\r\nb");
        headers.push("Name", "c").unwrap();
        assert_eq!(headers.to_string(), "Name: c\r\n\r\n a\r\nb");
        assert_eq!(Headers::parse(&headers.to_string()).body(), headers.body());
    }

    proptest! {
        #[test]
        fn nothing_is_changed_without_an_edit(text in "([A-Za-z-]{0,5}[: ]?[a-z \\tä]{0,8}(\r\n|\n|\r)){0,12}") {
            prop_assert_eq!(Headers::parse(&text).to_string(), text);
        }

        #[test]
        fn what_was_pushed_is_read_back(text in " ?([A-Za-z-]{1,5}: [a-z ]{0,8}(\r\n|\n)){0,6}", value in "[a-z]{1,9}") {
            let mut headers = Headers::parse(&text);
            headers.push("New-Field", &value).unwrap();
            prop_assert_eq!(Headers::parse(&headers.to_string()).all("New-Field"), [value]);
            prop_assert_eq!(headers.remove("New-Field", |_| true), 1);
            prop_assert_eq!(headers.to_string(), text);
        }
    }
}
