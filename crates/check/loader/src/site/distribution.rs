//! Input: a wheel, or the folder into which an installer unpacked one. Output: a [`Distribution`]
//! with metadata and access to the files, for both.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use positioned_io::ReadAt;
use rocwheel_archive::{Listed, MemberKind, Sparse};
use rocwheel_progress::Reporter;
use rocwheel_wheel::read::{Known, Wheel, WheelProblem};
use rocwheel_wheel::{Headers, RecordRow, Tag};

use super::Role;
use super::installed::Installed;
use crate::Error;

/// A distribution of the environment.
pub struct Distribution {
    /// The path of the wheel, or of the `.dist-info` folder of an installed one, for findings. It
    /// may be a path at which the file will be written later.
    pub path: PathBuf,
    /// Canonical name (PEP 503): from the file name of a wheel, from METADATA of an installed one.
    pub name: String,
    /// The headers of METADATA.
    pub metadata: Headers,
    /// The headers of the file WHEEL; empty if an installer left none.
    pub wheel_file: Headers,
    /// The reason why it is in the environment.
    pub role: Role,
    /// The form of its files.
    pub form: DistributionForm,
}

/// The form of a distribution's files.
pub enum DistributionForm {
    /// Members of a wheel.
    Wheel(Arc<Wheel>),
    /// Files of a folder.
    Installed(Installed),
}

/// Random access to a few ranges of a file.
pub enum FilePlaces {
    /// A member of a wheel.
    Member(Box<Sparse>),
    /// A file of this machine.
    File(rocwheel_content::Reader),
}

impl FilePlaces {
    pub fn reader(&self) -> &dyn ReadAt {
        match self {
            FilePlaces::Member(sparse) => &**sparse,
            FilePlaces::File(reader) => &**reader,
        }
    }

    /// Announces the ranges that will be read. This saves time for members of wheels.
    pub fn want(&self, ranges: &[std::ops::Range<u64>]) {
        if let FilePlaces::Member(sparse) = self {
            sparse.want(ranges);
        }
    }
}

impl Distribution {
    /// Opens a wheel.
    pub(super) fn open(path: &Path, role: Role) -> Result<Distribution, Error> {
        let wheel = Wheel::open(path)?;
        // Old wheels have METADATA in other encodings. A wrongly displayed character is not a
        // reason to refuse them.
        let [metadata, wheel_file] = ["METADATA", "WHEEL"].map(|file| {
            let bytes = wheel.bytes(&format!("{}/{file}", wheel.info()))?;
            Ok::<_, Error>(Headers::parse(&String::from_utf8_lossy(&bytes)))
        });
        Ok(Distribution {
            path: path.to_owned(),
            name: rocwheel_wheel::canonical_name(&wheel.name.distribution),
            metadata: metadata?,
            wheel_file: wheel_file?,
            role,
            form: DistributionForm::Wheel(Arc::new(wheel)),
        })
    }

    /// The name for messages: that of the file, or of the `.dist-info` folder.
    pub fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The wheel; `None` for an installed distribution.
    pub fn wheel(&self) -> Option<&Arc<Wheel>> {
        match &self.form {
            DistributionForm::Wheel(wheel) => Some(wheel),
            DistributionForm::Installed(_) => None,
        }
    }

    /// The installed files; `None` for a wheel.
    pub fn installed(&self) -> Option<&Installed> {
        match &self.form {
            DistributionForm::Wheel(_) => None,
            DistributionForm::Installed(installed) => Some(installed),
        }
    }

    /// The version in METADATA, else the one in the name.
    pub fn version(&self) -> String {
        self.metadata.get("Version").unwrap_or_else(|| match &self.form {
            DistributionForm::Wheel(wheel) => wheel.name.version.clone(),
            DistributionForm::Installed(_) => String::new(),
        })
    }

    /// The name of the `.dist-info` folder, without a slash; empty if there is none.
    pub fn info(&self) -> &str {
        match &self.form {
            DistributionForm::Wheel(wheel) => wheel.info(),
            DistributionForm::Installed(installed) => installed.info(),
        }
    }

    /// The tags: those in the name of a wheel, or those in the file WHEEL of an installed
    /// distribution. Empty if neither exists.
    pub fn tags(&self) -> BTreeSet<Tag> {
        match &self.form {
            DistributionForm::Wheel(wheel) => wheel.name.tags(),
            DistributionForm::Installed(_) => self.tags_inside(),
        }
    }

    /// The tags of the file WHEEL.
    pub fn tags_inside(&self) -> BTreeSet<Tag> {
        self.wheel_file.all("Tag").iter().flat_map(|tag| expanded(tag)).collect()
    }

    /// The platforms of the tags, without duplicates.
    pub fn platforms(&self) -> Vec<String> {
        match &self.form {
            DistributionForm::Wheel(wheel) => wheel.name.platforms.clone(),
            DistributionForm::Installed(_) => self.parts(|tag| &tag.platform),
        }
    }

    /// The Pythons of the tags, without duplicates.
    pub fn pythons(&self) -> Vec<String> {
        match &self.form {
            DistributionForm::Wheel(wheel) => wheel.name.pythons.clone(),
            DistributionForm::Installed(_) => self.parts(|tag| &tag.python),
        }
    }

    /// The ABIs of the tags, without duplicates.
    pub fn abis(&self) -> Vec<String> {
        match &self.form {
            DistributionForm::Wheel(wheel) => wheel.name.abis.clone(),
            DistributionForm::Installed(_) => self.parts(|tag| &tag.abi),
        }
    }

    fn parts(&self, part: impl Fn(&Tag) -> &String) -> Vec<String> {
        let parts: BTreeSet<String> = self.tags().iter().map(|tag| part(tag).clone()).collect();
        parts.into_iter().collect()
    }

    /// `true` if all its files are known. Those of an editable installation are not, nor those
    /// without RECORD.
    pub fn is_complete(&self) -> bool {
        self.installed().is_none_or(Installed::is_complete)
    }

    /// `true` if these are the files of an environment that belong to no distribution.
    pub fn is_rest(&self) -> bool {
        self.installed().is_some_and(Installed::is_rest)
    }

    /// The number of its files, and their total size in bytes.
    pub fn totals(&self) -> (u64, u64) {
        let sizes: Vec<u64> = match &self.form {
            DistributionForm::Wheel(wheel) => {
                let files = wheel.members().iter().filter(|member| member.kind != MemberKind::Directory);
                files.map(|member| member.size).collect()
            }
            DistributionForm::Installed(installed) => installed.files.values().map(|file| file.size).collect(),
        };
        (sizes.len() as u64, sizes.into_iter().sum())
    }

    /// Size in bytes of the wheel, or of all files of an installed distribution.
    pub fn size(&self) -> u64 {
        match &self.form {
            DistributionForm::Wheel(wheel) => fs_err::metadata(wheel.path()).map_or(0, |metadata| metadata.len()),
            DistributionForm::Installed(_) => self.totals().1,
        }
    }

    /// The first bytes of a file, at most `length`.
    pub fn start(&self, member: &str, length: usize) -> Result<Vec<u8>, Error> {
        match &self.form {
            DistributionForm::Wheel(wheel) => Ok(wheel.start(member, length)?),
            DistributionForm::Installed(installed) => installed.start(member, length),
        }
    }

    /// Random access to a file; `scratch` is a folder for unpacked members.
    pub fn reader(&self, member: &str, scratch: &Path) -> Result<rocwheel_content::Reader, Error> {
        match &self.form {
            DistributionForm::Wheel(wheel) => Ok(wheel.reader(member, scratch)?),
            DistributionForm::Installed(installed) => installed.reader(member),
        }
    }

    /// Random access to a few ranges of a file. Only as much as necessary is unpacked.
    pub fn places(&self, member: &str, scratch: &Path) -> Result<FilePlaces, Error> {
        match &self.form {
            DistributionForm::Wheel(wheel) => Ok(FilePlaces::Member(Box::new(wheel.sparse(member, scratch)?))),
            DistributionForm::Installed(installed) => Ok(FilePlaces::File(installed.reader(member)?)),
        }
    }

    /// All bytes of a file of at most 64 MiB.
    pub fn bytes(&self, member: &str) -> Result<Vec<u8>, Error> {
        match &self.form {
            DistributionForm::Wheel(wheel) => Ok(wheel.bytes(member)?),
            DistributionForm::Installed(installed) => installed.bytes(member),
        }
    }

    /// Size and CRC-32 of a file. An installed file is read for this.
    pub fn checksum(&self, member: &str) -> Option<(u64, u32)> {
        match &self.form {
            DistributionForm::Wheel(wheel) => wheel.member(member).map(|member| (member.size, member.crc32())),
            DistributionForm::Installed(installed) => installed.checksum(member),
        }
    }

    /// The contradictions between RECORD and the files; `None` if there is no RECORD. With `hashes`
    /// the bytes are compared too. Progress is in bytes of the files.
    pub fn problems(&self, hashes: bool, reporter: &dyn Reporter) -> Option<Result<Vec<WheelProblem>, Error>> {
        match &self.form {
            DistributionForm::Wheel(wheel) => {
                wheel.member(&format!("{}/RECORD", wheel.info()))?;
                let problems = wheel.verify_with(&|member: &Listed, _: &RecordRow| {
                    reporter.advance(member.size);
                    if hashes { Known::Nothing } else { Known::Copy }
                });
                Some(problems.map_err(Error::from))
            }
            DistributionForm::Installed(installed) => installed.problems(hashes, reporter),
        }
    }

    /// `true` if RECORD has any text in the hash column of one of these files, possibly in a form
    /// that installers do not accept.
    pub fn has_hash_text(&self, members: &[String]) -> Result<bool, Error> {
        let rows = match &self.form {
            DistributionForm::Wheel(wheel) => wheel.record()?,
            DistributionForm::Installed(installed) => installed.rows().to_vec(),
        };
        Ok(members.iter().any(|name| rows.iter().any(|row| row.path == *name && !row.hash.is_empty())))
    }
}

/// Expands a tag of the file WHEEL, which may be a compressed set: `py2.py3-none-any`.
fn expanded(text: &str) -> Vec<Tag> {
    let parts: Vec<Vec<&str>> = text.trim().split('-').map(|part| part.split('.').collect()).collect();
    let [pythons, abis, platforms] = &parts[..] else { return Vec::new() };
    let mut tags = Vec::new();
    for python in pythons {
        for abi in abis {
            for platform in platforms {
                tags.extend(format!("{python}-{abi}-{platform}").parse::<Tag>());
            }
        }
    }
    tags
}
