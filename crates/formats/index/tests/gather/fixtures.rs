//! Wheels made by code.

use std::path::{Path, PathBuf};

use rocwheel_archive::{Level, WriteOptions};
use rocwheel_progress::Silent;
use rocwheel_wheel::{EntryPoints, Member, Metadata, Sdist, Tag, WheelContents, write_sdist, write_wheel};

/// Writes a source distribution with these requirements.
pub(crate) fn source(folder: &Path, stem: &str, requires: &[&str]) -> PathBuf {
    let (name, version) = stem.rsplit_once('-').unwrap();
    let metadata = Metadata {
        requires_dist: requires.iter().map(|text| (*text).to_owned()).collect(),
        provides_extra: extras(requires),
        ..Metadata::default()
    };
    let (name, version) = (name.to_owned(), version.to_owned());
    let sdist = Sdist { name, version, metadata, license_files: Vec::new(), members: Vec::new() };
    fs_err::create_dir_all(folder).unwrap();
    write_sdist(&sdist, folder, &WriteOptions::default(), &Silent).unwrap().path
}

/// The extras in the markers of requirements.
fn extras(requires: &[&str]) -> Vec<String> {
    let name = |text: &&str| Some(text.split_once("extra == '")?.1.split('\'').next()?.to_owned());
    requires.iter().filter_map(name).collect()
}

/// Writes a wheel of a pure distribution, with these requirements and files.
pub(crate) fn pure(folder: &Path, stem: &str, requires: &[&str], files: &[(&str, &str)]) -> PathBuf {
    tagged(folder, stem, requires, files, "py3-none-any")
}

pub(crate) fn tagged(folder: &Path, stem: &str, requires: &[&str], files: &[(&str, &str)], tag: &str) -> PathBuf {
    let (name, version) = stem.rsplit_once('-').unwrap();
    let tag: Tag = tag.parse().unwrap();
    let distribution = WheelContents {
        name: name.to_owned(),
        version: version.to_owned(),
        tags: vec![tag],
        metadata: Metadata {
            requires_dist: requires.iter().map(|text| (*text).to_owned()).collect(),
            provides_extra: extras(requires),
            ..Metadata::default()
        },
        entry_points: EntryPoints::default(),
        licenses: Vec::new(),
        members: files.iter().map(|(name, text)| Member::new(*name, text.as_bytes().to_vec())).collect(),
    };
    fs_err::create_dir_all(folder).unwrap();
    let options = WriteOptions { level: Level::Fast, ..WriteOptions::default() };
    write_wheel(&distribution, folder, &options, &Silent).unwrap().path
}
