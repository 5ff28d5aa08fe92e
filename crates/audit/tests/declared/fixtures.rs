//! Wheels made by code.

use std::path::{Path, PathBuf};

use report::Silent;
use wheel::{Distribution, EntryPoints, Level, Member, Metadata, Tag, WriteOptions, write_wheel};

/// A wheel of a pure distribution, with these requirements and files.
pub(crate) fn pure(folder: &Path, stem: &str, requires: &[&str], files: &[(&str, &str)]) -> PathBuf {
    tagged(folder, stem, requires, files, "py3-none-any")
}

pub(crate) fn tagged(folder: &Path, stem: &str, requires: &[&str], files: &[(&str, &str)], tag: &str) -> PathBuf {
    let (name, version) = stem.rsplit_once('-').unwrap();
    let extras =
        requires.iter().filter_map(|text| Some(text.split_once("extra == '")?.1.split('\'').next()?.to_owned()));
    let tag: Tag = tag.parse().unwrap();
    let distribution = Distribution {
        name: name.to_owned(),
        version: version.to_owned(),
        tags: vec![tag],
        metadata: Metadata {
            requires_dist: requires.iter().map(|text| (*text).to_owned()).collect(),
            provides_extra: extras.collect(),
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
