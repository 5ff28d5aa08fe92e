//! Input: the environment of a process, or a file with one. Output: its variables by name.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionVariables(BTreeMap<String, String>);

impl SessionVariables {
    /// The variables of an iterator, such as those of this process.
    pub fn of(variables: impl IntoIterator<Item = (String, String)>) -> SessionVariables {
        SessionVariables(variables.into_iter().collect())
    }

    /// Reads `NAME=VALUE` in lines, as `env` prints them, or with zero bytes between them, as
    /// `/proc/PID/environ` has them. Other lines are ignored; they belong to values of several
    /// lines.
    pub fn parse(text: &str) -> SessionVariables {
        let separator = if text.contains('\0') { '\0' } else { '\n' };
        let pairs = text.split(separator).filter_map(|line| line.split_once('='));
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|letter| letter == '_' || letter.is_alphanumeric());
        SessionVariables::of(
            pairs.filter(|(name, _)| is_name(name)).map(|(name, value)| (name.to_owned(), value.to_owned())),
        )
    }

    /// The value of a variable, which may be empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of a variable unless it is empty.
    pub fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// The variables whose names begin with `prefix`.
    pub fn beginning<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.0.iter().filter(move |(name, _)| name.starts_with(prefix));
        all.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The folders of a variable with a list of paths.
    pub fn folders(&self, name: &str) -> Vec<String> {
        let list = self.filled(name).unwrap_or_default();
        list.split(':')
            .filter(|folder| folder.starts_with('/'))
            .map(|folder| folder.trim_end_matches('/').to_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_zero_bytes_are_read() {
        let lines = SessionVariables::parse("A=1\nB=x=y\n  more\nC=\n");
        assert_eq!((lines.get("A"), lines.get("B"), lines.get("C")), (Some("1"), Some("x=y"), Some("")));
        assert_eq!(lines.filled("C"), None);
        assert_eq!(SessionVariables::parse("A=1\nB=2\0C=3\0").get("A"), Some("1\nB=2"));
    }
}
