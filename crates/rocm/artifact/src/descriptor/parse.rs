//! Input: the text of a descriptor. Output: its components in the order of the text, with their
//! patterns.

use std::path::Path;

use rocwheel_tables::{Pattern, Predicate};
use toml::de::{DeTable, DeValue};

use super::Error;
use crate::component::Component;
use crate::input::read_small;

const TOP: &[&str] = &["components", "options"];
const OPTIONS: &[&str] = &["unmatched_include", "unmatched_exclude"];
const COMPONENT: &[&str] = &["extends", "and tables that are called like a basedir"];
const BASEDIR: &[&str] = &["default_patterns", "include", "exclude", "force_include", "optional"];
/// The value of Python's `platform.system()` on this system, in lower case.
const PLATFORM: &str = "linux";

/// An artifact as its descriptor describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    pub(super) path: std::path::PathBuf,
    /// The components in the order of the text, then those of the six that it does not mention.
    pub(super) components: Vec<Rules>,
    pub options: Options,
}

/// Patterns of files that may be in no component. They are read and kept, but have no effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    pub unmatched_include: Vec<String>,
    pub unmatched_exclude: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) name: String,
    pub(super) extends: Vec<String>,
    pub(super) basedirs: Vec<Basedir>,
}

/// A directory that a component takes files from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Basedir {
    pub(super) path: String,
    pub(super) predicate: Predicate,
    pub(super) optional: bool,
}

impl Descriptor {
    /// `artifact` is the name of the artifact.
    pub fn read(path: &Path, artifact: &str) -> Result<Self, Error> {
        let bytes = read_small(path).map_err(crate::Error::from)?;
        let text = String::from_utf8_lossy(&bytes);
        Self::parse(&text, path, artifact)
    }

    /// Like [`Descriptor::read`] for a text; `path` is only used in errors.
    pub fn parse(text: &str, path: &Path, artifact: &str) -> Result<Self, Error> {
        let table = DeTable::parse(text)
            .map_err(|source| Error::Malformed { path: path.to_owned(), source: Box::new(source) })?;
        let reading = Reading { path, artifact };
        let mut descriptor = Self { path: path.to_owned(), components: Vec::new(), options: Options::default() };
        for (key, value) in in_order(table.get_ref()) {
            match key {
                "components" => {
                    for (name, value) in in_order(reading.table(value, key, "the top level")?) {
                        descriptor.components.push(reading.component(name, value)?);
                    }
                }
                "options" => descriptor.options = reading.options(reading.table(value, key, "the top level")?)?,
                _ => return Err(reading.illegal(key, "the top level", TOP)),
            }
        }
        for component in Component::CHAIN {
            if !descriptor.components.iter().any(|rules| rules.name == component.name()) {
                let (name, extends) = (component.name().to_owned(), extends_by_default(component.name()));
                descriptor.components.push(Rules { name, extends, basedirs: Vec::new() });
            }
        }
        Ok(descriptor)
    }
}

fn extends_by_default(name: &str) -> Vec<String> {
    let before = Component::parse(name).and_then(Component::extends);
    before.map(|component| component.name().to_owned()).into_iter().collect()
}

/// In the order of the text: manifests list basedirs in it, and the first basedir with a file gets
/// it.
fn in_order<'a>(table: &'a DeTable<'a>) -> Vec<(&'a str, &'a DeValue<'a>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries.into_iter().map(|(key, value)| (key.get_ref().as_ref(), value.get_ref())).collect()
}

struct Reading<'a> {
    path: &'a Path,
    artifact: &'a str,
}

impl Reading<'_> {
    fn component(&self, name: &str, value: &DeValue<'_>) -> Result<Rules, Error> {
        let place = format!("components.{name}");
        let mut rules = Rules { name: name.to_owned(), extends: extends_by_default(name), basedirs: Vec::new() };
        for (key, value) in in_order(self.table(value, name, "components")?) {
            match value {
                DeValue::Table(table) => rules.basedirs.push(self.basedir(name, key, table)?),
                _ if key == "extends" => rules.extends = self.texts(value, key, &place)?,
                _ => return Err(self.illegal(key, &place, COMPONENT)),
            }
        }
        Ok(rules)
    }

    fn basedir(&self, component: &str, basedir: &str, table: &DeTable<'_>) -> Result<Basedir, Error> {
        let place = format!("components.{component}.\"{basedir}\"");
        if !crate::scan::is_plain_path(basedir) {
            return Err(self.wrong(basedir, &format!("components.{component}"), "a plain relative path"));
        }
        let (mut defaults, mut optional) = (true, false);
        let (mut includes, mut excludes, mut forced) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in in_order(table) {
            match key {
                "default_patterns" => defaults = self.boolean(value, key, &place)?,
                "include" => includes = self.texts(value, key, &place)?,
                "exclude" => excludes = self.texts(value, key, &place)?,
                "force_include" => forced = self.texts(value, key, &place)?,
                "optional" => {
                    optional = if let DeValue::Boolean(optional) = value {
                        *optional
                    } else {
                        let platforms = self.texts(value, key, &place)?;
                        platforms.iter().any(|platform| platform.eq_ignore_ascii_case(PLATFORM))
                    };
                }
                _ => return Err(self.illegal(key, &place, BASEDIR)),
            }
        }
        let known = Component::parse(component);
        if defaults && let Some(component) = known {
            includes.extend(component.default_includes().iter().map(|glob| (*glob).to_owned()));
        }
        forced.push(format!(".kpack/{}_{component}.kpm", self.artifact));
        forced.push(format!(".kpack/{}_{component}_*.kpack", self.artifact));
        let [includes, excludes, forced] =
            [includes, excludes, forced].map(|globs| globs.iter().map(|glob| Pattern::new(glob)).collect());
        let predicate = Predicate { includes, excludes, forced };
        Ok(Basedir { path: basedir.to_owned(), predicate, optional })
    }

    fn options(&self, table: &DeTable<'_>) -> Result<Options, Error> {
        let mut options = Options::default();
        for (key, value) in in_order(table) {
            match key {
                "unmatched_include" => options.unmatched_include = self.texts(value, key, "options")?,
                "unmatched_exclude" => options.unmatched_exclude = self.texts(value, key, "options")?,
                _ => return Err(self.illegal(key, "options", OPTIONS)),
            }
        }
        Ok(options)
    }

    fn table<'t>(&self, value: &'t DeValue<'t>, key: &str, place: &str) -> Result<&'t DeTable<'t>, Error> {
        match value {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.wrong(key, place, "a table")),
        }
    }

    fn boolean(&self, value: &DeValue<'_>, key: &str, place: &str) -> Result<bool, Error> {
        match value {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self.wrong(key, place, "true or false")),
        }
    }

    fn texts(&self, value: &DeValue<'_>, key: &str, place: &str) -> Result<Vec<String>, Error> {
        let values = match value {
            DeValue::Array(values) => values.iter().map(toml::Spanned::get_ref).collect(),
            value => vec![value],
        };
        let texts = values.into_iter().map(|value| match value {
            DeValue::String(text) => Ok(text.to_string()),
            _ => Err(self.wrong(key, place, "a text or a list of texts")),
        });
        texts.collect()
    }

    fn illegal(&self, key: &str, place: &str, known: &'static [&'static str]) -> Error {
        Error::Key { path: self.path.to_owned(), key: key.to_owned(), place: place.to_owned(), known }
    }

    fn wrong(&self, key: &str, place: &str, expected: &'static str) -> Error {
        Error::Value { path: self.path.to_owned(), key: key.to_owned(), place: place.to_owned(), expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Descriptor, String> {
        Descriptor::parse(text, Path::new("artifact.toml"), "blas").map_err(|error| error.to_string())
    }

    #[test]
    fn order_and_defaults() {
        let descriptor = parse(
            "[components.run.\"z/stage\"]\ninclude = \"bin/**\"\n[components.run.\"a/stage\"]\n\
             [components.lib.\"z/stage\"]\ninclude = [\"x/**\"]\ndefault_patterns = false\noptional = [\"Linux\"]\n\
             [components.odd]\nextends = \"lib\"\n",
        )
        .unwrap();
        let names: Vec<&str> = descriptor.components.iter().map(|rules| rules.name.as_str()).collect();
        assert_eq!(names, ["run", "lib", "odd", "dbg", "dev", "doc", "test"]);
        let [run, lib, odd, dbg, ..] = descriptor.components.as_slice() else { panic!("six components") };
        let basedirs: Vec<&str> = run.basedirs.iter().map(|basedir| basedir.path.as_str()).collect();
        assert_eq!((basedirs, &run.extends[..]), (vec!["z/stage", "a/stage"], &["lib".to_owned()][..]));
        assert!(lib.extends.is_empty() && lib.basedirs[0].optional);
        assert_eq!((odd.extends[0].as_str(), dbg.extends[0].as_str()), ("lib", "run"));
        let predicate = &lib.basedirs[0].predicate;
        assert!(predicate.matches("x/y") && !predicate.matches("lib/a.so"));
        assert!(predicate.matches(".kpack/blas_lib_gfx942.kpack") && !predicate.matches(".kpack/fft_lib_gfx942.kpack"));
    }

    #[test]
    fn what_means_nothing_is_named() {
        for (text, expected) in [
            ("[component.lib]", "illegal key: `component` in the top level"),
            ("[options]\nunmatched = 1", "illegal key: `unmatched` in options"),
            ("[components.lib]\nextend = \"run\"", "illegal key: `extend` in components.lib"),
            ("[components.lib.\"a\"]\nincludes = []", "illegal key: `includes` in components.lib.\"a\""),
            ("[components.lib.\"a\"]\ninclude = [1]", "it should be a text or a list of texts"),
            ("[components.lib.\"a\"]\ndefault_patterns = 1", "it should be true or false"),
            ("[components.lib.\"../a\"]", "wrong value for `../a` in components.lib"),
            ("components = 1", "it should be a table"),
            ("[components", "cannot understand the descriptor `artifact.toml`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
