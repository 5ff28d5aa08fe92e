//! Input: a descriptor and a build tree. Output: the component that gets each file.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use rocwheel_progress::Reporter;
use rocwheel_tables::Predicate;

use super::parse::{Basedir, Rules};
use super::{Descriptor, Error};
use crate::contents::same;
use crate::entry::EntryKind;
use crate::fileset::Fileset;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claims {
    pub components: BTreeMap<String, ClaimedComponent>,
    /// Basedirs that do not exist and are not optional, without repetitions, sorted.
    pub missing: Vec<String>,
    /// Files that a second basedir holds with the same contents; they are used once.
    pub repeated: Vec<Repeated>,
}

/// The files of one component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimedComponent {
    /// The basedirs in the order of the descriptor. Those that do not exist are included, because
    /// the manifest lists them too.
    pub basedirs: Vec<Claimed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The basedir, relative to the root of the build tree.
    pub path: String,
    /// The files, by their path relative to the basedir.
    pub files: Fileset,
}

/// A file that two basedirs hold with the same contents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Repeated {
    /// Its path relative to both basedirs.
    pub path: String,
    /// The basedir whose file is used.
    pub taken: String,
    /// The other basedir.
    pub also: String,
}

/// Path of a file → the basedir it was taken from.
type Owners = HashMap<String, String>;

impl Descriptor {
    /// Gives every file below `root` to the first component that claims it. A component does not
    /// see the files that the components it extends have taken. Paths are compared without their
    /// basedir, because an installed tree has each path once.
    pub fn claim(&self, root: &Path, reporter: &dyn Reporter) -> Result<Claims, Error> {
        let mut claiming = Claiming { root, reporter, scanned: HashMap::new(), claims: Claims::default() };
        let mut owners: HashMap<&str, Owners> = HashMap::new();
        let mut waiting: Vec<&Rules> = self.components.iter().collect();
        while !waiting.is_empty() {
            let (ready, later): (Vec<&Rules>, Vec<&Rules>) =
                waiting.iter().partition(|rules| rules.extends.iter().all(|name| owners.contains_key(name.as_str())));
            if ready.is_empty() {
                let components = later.iter().map(|rules| rules.name.clone()).collect();
                return Err(Error::Circular { path: self.path.clone(), components });
            }
            for rules in ready {
                let mut taken = Owners::new();
                for name in &rules.extends {
                    taken.extend(owners[name.as_str()].clone());
                }
                let component = claiming.component(rules, &mut taken)?;
                claiming.claims.components.insert(rules.name.clone(), component);
                owners.insert(&rules.name, taken);
            }
            waiting = later;
        }
        let mut claims = claiming.claims;
        claims.missing.sort();
        claims.missing.dedup();
        claims.repeated.sort();
        claims.repeated.dedup();
        Ok(claims)
    }

    pub fn component<'c>(&self, claims: &'c Claims, name: &str) -> Result<&'c ClaimedComponent, Error> {
        claims.components.get(name).ok_or_else(|| Error::NoComponent {
            path: self.path.clone(),
            component: name.to_owned(),
            known: claims.components.keys().cloned().collect(),
        })
    }
}

struct Claiming<'a> {
    root: &'a Path,
    reporter: &'a dyn Reporter,
    /// Each stage directory is read once, however many components use it. `None`: it does not
    /// exist.
    scanned: HashMap<String, Option<Fileset>>,
    claims: Claims,
}

impl Claiming<'_> {
    fn component(&mut self, rules: &Rules, taken: &mut Owners) -> Result<ClaimedComponent, Error> {
        let mut component = ClaimedComponent::default();
        for basedir in &rules.basedirs {
            if !self.scanned.contains_key(&basedir.path) {
                let read = self.read(basedir)?;
                self.scanned.insert(basedir.path.clone(), read);
            }
            let mut files = Fileset::default();
            match &self.scanned[&basedir.path] {
                None if basedir.optional => {}
                None => self.claims.missing.push(basedir.path.clone()),
                Some(there) => {
                    for (path, found) in &there.entries {
                        if !basedir.predicate.matches(path) {
                            continue;
                        }
                        match taken.get(path) {
                            None => {
                                taken.insert(path.clone(), basedir.path.clone());
                                files.entries.insert(path.clone(), found.clone());
                            }
                            Some(owner) if *owner == basedir.path || found.kind == EntryKind::Directory => {}
                            Some(owner) => {
                                let repeated = self.compare(path, owner, &basedir.path)?;
                                self.claims.repeated.push(repeated);
                            }
                        }
                    }
                }
            }
            component.basedirs.push(Claimed { path: basedir.path.clone(), files });
        }
        Ok(component)
    }

    fn read(&self, basedir: &Basedir) -> Result<Option<Fileset>, Error> {
        let directory = self.root.join(&basedir.path);
        if matches!(directory.try_exists(), Ok(false)) {
            return Ok(None);
        }
        Ok(Some(Fileset::scan(&[directory], &Predicate::default(), self.reporter)?))
    }

    /// Checks that a path in two basedirs has the same contents in both: the second copy is
    /// dropped.
    fn compare(&self, path: &str, taken: &str, also: &str) -> Result<Repeated, Error> {
        let [first, second] = [taken, also].map(|basedir| self.root.join(basedir).join(path));
        if same(&first, &second, self.reporter)? {
            return Ok(Repeated { path: path.to_owned(), taken: taken.to_owned(), also: also.to_owned() });
        }
        Err(Error::Conflict { path: path.to_owned(), first: taken.to_owned(), second: also.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use rocwheel_progress::Silent;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        folder
    }

    fn claims(folder: &tempfile::TempDir, text: &str) -> Result<Claims, Error> {
        Descriptor::parse(text, Path::new("artifact.toml"), "blas")?.claim(folder.path(), &Silent)
    }

    fn names(claims: &Claims, component: &str) -> Vec<String> {
        let basedirs = claims.components[component].basedirs.iter();
        basedirs
            .flat_map(|basedir| {
                let files = basedir.files.entries.iter().filter(|(_, found)| found.kind != EntryKind::Directory);
                files.map(|(path, _)| format!("{}:{path}", basedir.path)).collect::<Vec<_>>()
            })
            .collect()
    }

    #[test]
    fn every_file_goes_to_the_first_component_that_wants_it() {
        let folder = tree(&[
            ("a/lib/libx.so.1", ""),
            ("a/lib/cmake/x.cmake", ""),
            ("a/bin/x", ""),
            ("a/share/doc/x/LICENSE", ""),
            ("b/lib/liby.a", ""),
            ("b/left", ""),
        ]);
        let claims = claims(
            &folder,
            "[components.lib.\"a\"]\n[components.run.\"a\"]\ninclude = [\"bin/**\"]\n[components.dev.\"a\"]\n\
             [components.dev.\"b\"]\n[components.doc.\"a\"]\n[components.test.\"a\"]\n[components.test.\"b\"]\n\
             [components.test.\"none\"]\noptional = true\n[components.test.\"gone\"]\n",
        )
        .unwrap();
        assert_eq!(names(&claims, "lib"), ["a:lib/libx.so.1"]);
        assert_eq!(names(&claims, "run"), ["a:bin/x"]);
        assert_eq!(names(&claims, "dev"), ["a:lib/cmake/x.cmake", "b:lib/liby.a"]);
        assert_eq!(names(&claims, "doc"), ["a:share/doc/x/LICENSE"]);
        assert_eq!(names(&claims, "test"), ["b:left"]);
        assert!(names(&claims, "dbg").is_empty());
        let listed: Vec<&str> =
            claims.components["test"].basedirs.iter().map(|basedir| basedir.path.as_str()).collect();
        assert_eq!((listed, &claims.missing[..]), (vec!["a", "b", "none", "gone"], &["gone".to_owned()][..]));
    }

    #[test]
    fn a_second_file_of_one_path_is_never_lost_silently() {
        let folder = tree(&[("a/lib/dup.so", "same"), ("b/lib/dup.so", "same"), ("a/lib/z.so", "A"), ("b/x.so", "")]);
        let text = "[components.lib.\"a\"]\n[components.lib.\"b\"]\n";
        let claimed = claims(&folder, text).unwrap();
        assert_eq!(names(&claimed, "lib"), ["a:lib/dup.so", "a:lib/z.so", "b:x.so"]);
        assert_eq!(claimed.repeated.len(), 1);
        fs_err::write(folder.path().join("b/lib/z.so"), "B").unwrap();
        let error = claims(&folder, text).unwrap_err();
        assert_eq!(error.to_string(), "`lib/z.so` is in the basedirs `a` and `b` with different contents");
    }

    #[test]
    fn circles_and_missing_components_are_named() {
        let folder = tree(&[]);
        let error = claims(&folder, "[components.lib]\nextends = \"odd\"\n[components.odd]\nextends = [\"lib\"]\n");
        assert!(error.unwrap_err().to_string().ends_with("that does not exist: lib, odd, run, dbg, dev, doc, test"));
        let descriptor = Descriptor::parse("", Path::new("artifact.toml"), "blas").unwrap();
        let claims = descriptor.claim(folder.path(), &Silent).unwrap();
        let error = descriptor.component(&claims, "libs").unwrap_err();
        assert_eq!(error.to_string(), "the descriptor `artifact.toml` has no component `libs`");
    }
}
