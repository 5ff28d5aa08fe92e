//! Input: environment variables and configuration files, as pip and uv read them. Output: the
//! package indexes and folders of wheels in which pip and uv would search.
//!
//! uv's variables come first, then pip's, then uv's files, then pip's; the default is PyPI.
//! Additional indexes come before the main one, as in uv: a project on both is taken from the
//! additional one.

mod files;
mod uv;

use std::path::PathBuf;

use configparser::ini::Ini;
use rocwheel_progress::Failure;
use url::Url;

use crate::tool::Tool;
use crate::{address_without_user, scheme_of, text_without_users};
pub use files::ConfigurationFiles;

/// The address of PyPI's index.
const DEFAULT: &str = "https://pypi.org/simple/";

/// The settings of pip and uv.
pub struct Told<'a> {
    /// Reads an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Paths and texts of pip's configuration files; a later file overrides an earlier one.
    pub files: Vec<(PathBuf, String)>,
    /// Paths and texts of uv's files, `uv.toml` and `pyproject.toml`, in the same order.
    pub uv_files: Vec<(PathBuf, String)>,
}

/// The places in which to search for packages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// Addresses of indexes and paths of folders of wheels, in the order of the search. The address
    /// of an index in a folder begins with `file://`.
    pub all: Vec<String>,
    /// `true` if no index may be asked.
    pub offline: bool,
    /// The source of these settings, for a message.
    pub said_by: String,
}

/// The settings of one tool; `None` for each that is not set.
#[derive(Default)]
struct Answer {
    main: Option<String>,
    more: Vec<String>,
    folders: Vec<String>,
    /// `true` if a flat index is the default one, in place of PyPI.
    has_flat_default: bool,
    no_index: Option<bool>,
    names: Vec<String>,
}

impl Answer {
    fn into_places(self) -> Places {
        // Pages with links are not indexes; their files are not searched.
        let folders = self.folders.into_iter().filter(|place| !place.contains("://") || place.starts_with("file://"));
        let folders = folders.map(|place| place.strip_prefix("file://").map(str::to_owned).unwrap_or(place));
        let mut all: Vec<String> = folders.collect();
        if self.no_index != Some(true) {
            all.extend(self.more.iter().map(|place| index_address(place)));
            match self.main {
                Some(place) => all.push(index_address(&place)),
                None if self.has_flat_default => {}
                None => all.push(DEFAULT.to_owned()),
            }
        }
        let said_by = if self.names.is_empty() { "nothing says otherwise".to_owned() } else { self.names.join(", ") };
        Places { all, offline: false, said_by }
    }
}

impl Told<'_> {
    /// Determines the places to search.
    ///
    /// # Errors
    /// A file is not a configuration file of pip or uv.
    pub fn places(&self) -> Result<Places, Failure> {
        let uv = self.answer(
            &["UV_DEFAULT_INDEX", "UV_INDEX_URL"],
            &["UV_INDEX", "UV_EXTRA_INDEX_URL"],
            ("UV_FIND_LINKS", "UV_NO_INDEX"),
        );
        let pip = self.answer(&["PIP_INDEX_URL"], &["PIP_EXTRA_INDEX_URL"], ("PIP_FIND_LINKS", "PIP_NO_INDEX"));
        // pip's variables override uv's configuration files.
        let is_pips = uv.names.is_empty() && (pip.main.is_some() || !pip.more.is_empty() || pip.no_index == Some(true));
        let (uv, said_offline) = if is_pips { (uv, false) } else { uv::with_files(uv, &self.uv_files)? };
        let answer = if uv.names.is_empty() { self.with_files(pip)? } else { uv };
        let offline = (self.variable)("UV_OFFLINE").map_or(said_offline, |value| is_true(&value));
        let mut places = answer.into_places();
        places.offline = offline;
        Ok(places)
    }

    fn answer(&self, main: &[&str], more: &[&str], (folders, no_index): (&str, &str)) -> Answer {
        let mut names = Vec::new();
        let mut value = |name: &str| {
            let value = (self.variable)(name).filter(|value| !value.trim().is_empty())?;
            names.push(name.to_owned());
            Some(value)
        };
        Answer {
            main: main.iter().find_map(|name| value(name)).map(|text| unnamed(&text)),
            more: more.iter().filter_map(|name| value(name)).flat_map(|text| words(&text)).collect(),
            // uv separates these with commas.
            has_flat_default: false,
            folders: value(folders).map(|text| words(&text.replace(',', " "))).unwrap_or_default(),
            no_index: value(no_index).map(|value| is_true(&value)),
            names,
        }
    }

    /// Adds settings from files where the variables set none.
    fn with_files(&self, mut answer: Answer) -> Result<Answer, Failure> {
        let mut settings: Vec<(Ini, &PathBuf)> = Vec::new();
        for (path, text) in self.files.iter().rev() {
            let mut file = Ini::new_cs();
            file.set_multiline(true);
            let read = file.read(text.clone());
            read.map_err(|reason| Tool::Pip.unreadable(path, &reason))?;
            settings.push((file, path));
        }
        let mut names = std::mem::take(&mut answer.names);
        let mut take = |key: &str| {
            // `[install]` overrides `[global]`, in whichever file they are.
            let (value, path) = ["install", "global"]
                .into_iter()
                .find_map(|section| settings.iter().find_map(|(file, path)| Some((file.get(section, key)?, *path))))
                .filter(|(value, _)| !value.trim().is_empty())?;
            let name = path.display().to_string();
            if !names.contains(&name) {
                names.push(name);
            }
            Some(value)
        };
        if answer.main.is_none() {
            answer.main = take("index-url").map(|text| text.trim().to_owned());
        }
        if answer.more.is_empty() {
            answer.more = take("extra-index-url").map(|text| words(&text)).unwrap_or_default();
        }
        if answer.folders.is_empty() {
            answer.folders = take("find-links").map(|text| words(&text)).unwrap_or_default();
        }
        if answer.no_index.is_none() {
            answer.no_index = take("no-index").map(|value| is_true(&value));
        }
        answer.names = names;
        Ok(answer)
    }
}

/// The address of an index that a setting names by its address or its path.
fn index_address(place: &str) -> String {
    if scheme_of(place).is_some() {
        return place.to_owned();
    }
    let address = std::path::absolute(place).ok().and_then(|path| Url::from_directory_path(path).ok());
    address.map_or_else(|| place.to_owned(), String::from)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(unnamed).collect()
}

/// Removes the name that uv allows before an index: `internal=https://…`, `local=/srv/simple`.
fn unnamed(text: &str) -> String {
    let text = text.trim();
    match text.split_once('=') {
        Some((name, place))
            if !name.contains([':', '/']) && (place.contains("://") || place.starts_with(['/', '.'])) =>
        {
            place.to_owned()
        }
        _ => text.to_owned(),
    }
}

/// `true` for the values with which pip and uv switch an option on.
fn is_true(value: &str) -> bool {
    ["1", "true", "yes", "on", "y", "t"].contains(&value.trim().to_ascii_lowercase().as_str())
}

/// An address for messages, without the name and password that it may contain.
pub fn shown(place: &str) -> String {
    match Url::parse(place) {
        Ok(address) => address_without_user(&address).to_string(),
        // A wrong address may have a password too.
        Err(_) => text_without_users(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)], files: &[&str]) -> Places {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let files = files.iter().enumerate();
        let files = files.map(|(index, text)| (PathBuf::from(format!("{index}.conf")), (*text).to_owned())).collect();
        Told { variable: &variable, files, uv_files: Vec::new() }.places().unwrap()
    }

    fn uv_places(variables: &[(&str, &str)], files: &[(&str, &str)], pip: &str) -> Result<Places, Failure> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let uv_files = files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        let files = vec![(PathBuf::from("pip.conf"), pip.to_owned())];
        Told { variable: &variable, files, uv_files }.places()
    }

    #[test]
    fn files_of_uv_come_before_those_of_pip() {
        let user = "index-url = 'https://user/simple'\nfind-links = ['/wheels', 'https://page/']\n";
        let project = "[project]\nname = 'x'\n[tool.uv]\nmanaged = true\n\
                       [[tool.uv.index]]\nname = 'rocm'\nurl = 'https://rocm/x'\n\
                       [[tool.uv.index]]\nname = 'hidden'\nurl = 'https://hidden'\nexplicit = true\n";
        let pip = "[global]\nindex-url = https://pip/simple\n";
        let files = [("uv.toml", user), ("pyproject.toml", project)];
        let found = uv_places(&[], &files, pip).unwrap();
        assert_eq!(found.all, ["/wheels", "https://rocm/x", "https://user/simple"]);
        assert_eq!((found.said_by.as_str(), found.offline), ("pyproject.toml, uv.toml", false));
        // A variable of uv adds to the files, one of pip overrides them.
        let found = uv_places(&[("UV_INDEX", "https://more")], &files, pip).unwrap();
        assert_eq!(found.all, ["/wheels", "https://more", "https://rocm/x", "https://user/simple"]);
        let found = uv_places(&[("PIP_EXTRA_INDEX_URL", "https://more")], &files, pip).unwrap();
        assert_eq!(found.all, ["https://more", "https://pip/simple"]);
        // Files without indexes, or with nothing.
        let found = uv_places(&[], &[("uv.toml", "offline = true\npython-preference = 'system'\n")], pip).unwrap();
        assert_eq!((found.all, found.offline), (vec!["https://pip/simple".to_owned()], true));
        let default = "[[index]]\nurl = 'https://only'\ndefault = true\n[pip]\nextra-index-url = ['https://extra']\n";
        assert_eq!(uv_places(&[], &[("uv.toml", default)], pip).unwrap().all, ["https://extra", "https://only"]);
        let none = "no-index = true\nfind-links = ['/wheels']\n";
        assert_eq!(uv_places(&[], &[("uv.toml", none)], pip).unwrap().all, ["/wheels"]);
        // The strongest file sets a switch.
        let user = ("user/uv.toml", none);
        let with_project = |project: &'static str| uv_places(&[], &[user, ("x/uv.toml", project)], pip).unwrap().all;
        assert_eq!(with_project("no-index = false\n"), ["/wheels", DEFAULT]);
        assert_eq!(with_project("offline = true\n"), ["/wheels"]);
        // Relative paths start at the folder of their file, for every key.
        let relative = "find-links = ['./wheels', '../more']\nindex-url = 'simple'\n[[index]]\nurl = './local'\n";
        let found = uv_places(&[], &[("/home/me/x/uv.toml", relative)], pip).unwrap().all;
        let found: Vec<String> = found.iter().map(|place| place.replace('\\', "/")).collect();
        assert_eq!(found[..2], ["/home/me/x/./wheels", "/home/me/x/../more"]);
        // Indexes are addresses. On Windows they have a drive.
        for (index, end) in [(2, "/home/me/x/local/"), (3, "/home/me/x/simple/")] {
            assert!(found[index].starts_with("file:///") && found[index].ends_with(end), "{}", found[index]);
        }
        let flat = "[[index]]\nname = 'a'\nurl = 'https://page/'\nformat = 'flat'\n\
                    [[index]]\nname = 'b'\nurl = '/wheels'\nformat = 'flat'\ndefault = true\n";
        assert_eq!(uv_places(&[], &[("uv.toml", flat)], pip).unwrap().all, ["/wheels"]);
        for wrong in ["index-url = 1\n", "[[index]]\nname = 'x'\n", "x\n"] {
            let error = uv_places(&[], &[("uv.toml", wrong)], pip).unwrap_err().to_string();
            assert!(
                error.starts_with("`uv.toml`, which uv reads too, is not one of its configuration files: "),
                "{error}"
            );
        }
    }

    #[test]
    fn without_a_word_it_is_pypi() {
        let found = places(&[("PIP_INDEX_URL", " ")], &["[list]\nformat = columns\n"]);
        assert_eq!((found.all, found.offline), (vec![DEFAULT.to_owned()], false));
    }

    #[test]
    fn uv_comes_before_pip_and_variables_before_files() {
        let file =
            "[global]\nindex-url = https://file/simple\nextra-index-url =\n    https://one/x\n    https://two/x\n";
        let found = places(&[], &[file]);
        assert_eq!(found.all, ["https://one/x", "https://two/x", "https://file/simple"]);
        assert_eq!(found.said_by, "0.conf");
        let pip = [("PIP_INDEX_URL", "https://pip/simple"), ("PIP_FIND_LINKS", "/wheels")];
        assert_eq!(places(&pip, &[file]).all, ["/wheels", "https://one/x", "https://two/x", "https://pip/simple"]);
        let uv = [pip[0], ("UV_INDEX", "rocm=https://rocm/x https://other/x"), ("UV_OFFLINE", "1")];
        let found = places(&uv, &[file]);
        assert_eq!(found.all, ["https://rocm/x", "https://other/x", DEFAULT]);
        assert!(found.offline && found.said_by == "UV_INDEX");
        assert_eq!(places(&[("UV_DEFAULT_INDEX", "https://a/?x=https://b")], &[]).all, ["https://a/?x=https://b"]);
    }

    #[test]
    fn indexes_in_folders_are_addresses_and_folders_of_wheels_are_paths() {
        let one = |name: &str, value: &str| places(&[(name, value), ("PIP_FIND_LINKS", "/wheels")], &[]).all;
        for text in ["/srv/simple", "local=/srv/simple", "/srv/simple/"] {
            let found = one("UV_INDEX", text);
            assert!(found[0].starts_with("file:///") && found[0].ends_with("/srv/simple/"), "{found:?}");
            assert_eq!(found[1..], [DEFAULT]);
        }
        let found = one("PIP_INDEX_URL", "srv/simple");
        assert_eq!(found[0], "/wheels");
        assert!(found[1].starts_with("file:///") && found[1].ends_with("/srv/simple/"), "{found:?}");
        assert_eq!(one("PIP_INDEX_URL", "file:///srv/simple/")[1], "file:///srv/simple/");
    }

    #[test]
    fn later_files_and_the_section_install_win() {
        let first = "[global]\nindex-url = https://first\n[install]\nfind-links = /one /two\n";
        let second = "[global]\nindex-url: https://second/?a=%20b\nno-index = true\n";
        let found = places(&[], &[first, second]);
        assert_eq!(found.all, ["/one", "/two"]);
        let second = "[global]\nindex-url: https://second/?a=%20b\n";
        assert_eq!(places(&[], &[first, second]).all, ["/one", "/two", "https://second/?a=%20b"]);
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(shown("https://me:secret@host/simple/"), "https://host/simple/");
        assert_eq!(shown("/wheels"), "/wheels");
    }
}
