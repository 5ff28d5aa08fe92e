//! Input: a wheel, or the folder that an installer unpacked one into. Output: a [`Distribution`]:
//! what both say of themselves, and the bytes of their files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use positioned_io::ReadAt;
use rocwheel_wheel::read::{Kind, Problem, Sparse, Wheel};
use rocwheel_wheel::{Headers, Tag};

use super::Role;
use super::installed::Installed;
use crate::Error;

/// A distribution of the environment.
pub struct Distribution {
    /// The wheel, or the `.dist-info` folder of one that is installed, as it is called in findings:
    /// where it is, or where it will be.
    pub path: PathBuf,
    /// Canonical name (PEP 503): from the file name of a wheel, from METADATA of an installed one.
    pub name: String,
    /// METADATA.
    pub metadata: Headers,
    /// The file WHEEL; empty where an installer left none.
    pub wheel_file: Headers,
    /// Why it is here.
    pub role: Role,
    /// What its files are.
    pub form: Form,
}

/// What the files of a distribution are.
pub enum Form {
    /// Members of a wheel.
    Wheel(Arc<Wheel>),
    /// Files of a folder.
    Installed(Installed),
}

/// Random access to a few places of a file.
pub enum Places {
    /// Of a member of a wheel.
    Member(Box<Sparse>),
    /// Of a file of this machine.
    File(rocwheel_content::Reader),
}

impl Places {
    pub fn reader(&self) -> &dyn ReadAt {
        match self {
            Places::Member(sparse) => &**sparse,
            Places::File(reader) => &**reader,
        }
    }

    /// Says which places will be wanted, where that saves something.
    pub fn want(&self, ranges: &[std::ops::Range<u64>]) {
        if let Places::Member(sparse) = self {
            sparse.want(ranges);
        }
    }
}

impl Distribution {
    /// Opens a wheel.
    pub(super) fn open(path: &Path, role: Role) -> Result<Distribution, Error> {
        let wheel = Wheel::open(path)?;
        // Old wheels have METADATA in other encodings; a character that is shown wrongly is no
        // reason not to look at them.
        let text = |file: &str| -> Result<Headers, Error> {
            let bytes = wheel.bytes(&format!("{}/{file}", wheel.info()))?;
            Ok(Headers::parse(&String::from_utf8_lossy(&bytes)))
        };
        Ok(Distribution {
            path: path.to_owned(),
            name: rocwheel_wheel::canonical_name(&wheel.name.distribution),
            metadata: text("METADATA")?,
            wheel_file: text("WHEEL")?,
            role,
            form: Form::Wheel(Arc::new(wheel)),
        })
    }

    /// What people call it: the name of the file, or of the `.dist-info` folder.
    pub fn file_name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The wheel; `None` when it is installed.
    pub fn wheel(&self) -> Option<&Arc<Wheel>> {
        match &self.form {
            Form::Wheel(wheel) => Some(wheel),
            Form::Installed(_) => None,
        }
    }

    /// What is installed; `None` for a wheel.
    pub fn installed(&self) -> Option<&Installed> {
        match &self.form {
            Form::Wheel(_) => None,
            Form::Installed(installed) => Some(installed),
        }
    }

    /// The version, as METADATA has it, else as the name has it.
    pub fn version(&self) -> String {
        self.metadata.get("Version").unwrap_or_else(|| match &self.form {
            Form::Wheel(wheel) => wheel.name.version.clone(),
            Form::Installed(_) => String::new(),
        })
    }

    /// The name of the `.dist-info` folder, without a slash; empty where there is none.
    pub fn info(&self) -> &str {
        match &self.form {
            Form::Wheel(wheel) => wheel.info(),
            Form::Installed(installed) => installed.info(),
        }
    }

    /// The tags: those of a wheel's name, and for what is installed those of the file WHEEL. Empty
    /// where nothing says them.
    pub fn tags(&self) -> BTreeSet<Tag> {
        match &self.form {
            Form::Wheel(wheel) => wheel.name.tags(),
            Form::Installed(_) => self.tags_inside(),
        }
    }

    /// The tags of the file WHEEL.
    pub fn tags_inside(&self) -> BTreeSet<Tag> {
        self.wheel_file.all("Tag").iter().flat_map(|tag| expanded(tag)).collect()
    }

    /// The platforms of the tags, each once.
    pub fn platforms(&self) -> Vec<String> {
        match &self.form {
            Form::Wheel(wheel) => wheel.name.platforms.clone(),
            Form::Installed(_) => self.parts(|tag| &tag.platform),
        }
    }

    /// The Pythons of the tags, each once.
    pub fn pythons(&self) -> Vec<String> {
        match &self.form {
            Form::Wheel(wheel) => wheel.name.pythons.clone(),
            Form::Installed(_) => self.parts(|tag| &tag.python),
        }
    }

    /// The ABIs of the tags, each once.
    pub fn abis(&self) -> Vec<String> {
        match &self.form {
            Form::Wheel(wheel) => wheel.name.abis.clone(),
            Form::Installed(_) => self.parts(|tag| &tag.abi),
        }
    }

    fn parts(&self, part: impl Fn(&Tag) -> &String) -> Vec<String> {
        let parts: BTreeSet<String> = self.tags().iter().map(|tag| part(tag).clone()).collect();
        parts.into_iter().collect()
    }

    /// Whether all its files are known: not those of an editable installation, and not without
    /// RECORD.
    pub fn is_complete(&self) -> bool {
        self.installed().is_none_or(Installed::is_complete)
    }

    /// Whether these are the files of an environment that no distribution has.
    pub fn is_rest(&self) -> bool {
        self.installed().is_some_and(Installed::is_rest)
    }

    /// How many files it has, and their bytes.
    pub fn totals(&self) -> (u64, u64) {
        let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold((0, 0), |sum, size| (sum.0 + 1, sum.1 + size));
        match &self.form {
            Form::Wheel(wheel) => {
                let files = wheel.members().iter().filter(|member| member.kind != Kind::Directory);
                sum(&mut files.map(|member| member.size))
            }
            Form::Installed(installed) => sum(&mut installed.files.values().map(|file| file.size)),
        }
    }

    /// Bytes of the wheel; for what is installed those of its files.
    pub fn size(&self) -> u64 {
        match &self.form {
            Form::Wheel(wheel) => fs_err::metadata(wheel.path()).map_or(0, |metadata| metadata.len()),
            Form::Installed(_) => self.totals().1,
        }
    }

    /// The first bytes of a file.
    pub fn start(&self, member: &str, length: usize) -> Result<Vec<u8>, Error> {
        match &self.form {
            Form::Wheel(wheel) => Ok(wheel.start(member, length)?),
            Form::Installed(installed) => installed.start(member, length),
        }
    }

    /// Random access to a file; `scratch` is for what must be unpacked.
    pub fn reader(&self, member: &str, scratch: &Path) -> Result<rocwheel_content::Reader, Error> {
        match &self.form {
            Form::Wheel(wheel) => Ok(wheel.reader(member, scratch)?),
            Form::Installed(installed) => installed.reader(member),
        }
    }

    /// Random access to a few places of a file, for which no more is unpacked than has to be.
    pub fn places(&self, member: &str, scratch: &Path) -> Result<Places, Error> {
        match &self.form {
            Form::Wheel(wheel) => Ok(Places::Member(Box::new(wheel.sparse(member, scratch)?))),
            Form::Installed(installed) => Ok(Places::File(installed.reader(member)?)),
        }
    }

    /// All bytes of a file of at most 64 MiB.
    pub fn bytes(&self, member: &str) -> Result<Vec<u8>, Error> {
        match &self.form {
            Form::Wheel(wheel) => Ok(wheel.bytes(member)?),
            Form::Installed(installed) => installed.bytes(member),
        }
    }

    /// Size and CRC-32 of a file. Reads it when it is installed.
    pub fn checksum(&self, member: &str) -> Option<(u64, u32)> {
        match &self.form {
            Form::Wheel(wheel) => wheel.member(member).map(|member| (member.size, member.crc32())),
            Form::Installed(installed) => installed.checksum(member),
        }
    }

    /// What RECORD says that is not so; `None` when there is no RECORD. `hashes`: whether the bytes
    /// are compared too.
    pub fn problems(&self, hashes: bool) -> Option<Result<Vec<Problem>, Error>> {
        match &self.form {
            Form::Wheel(wheel) => {
                wheel.member(&format!("{}/RECORD", wheel.info()))?;
                let problems = if hashes { wheel.verify() } else { wheel.verify_rows() };
                Some(problems.map_err(Error::from))
            }
            Form::Installed(installed) => installed.problems(hashes),
        }
    }

    /// Whether RECORD has something in its column for the hash of a file, if only in a form that
    /// installers do not take.
    pub fn has_hash_text(&self, members: &[String]) -> Result<bool, Error> {
        let rows = match &self.form {
            Form::Wheel(wheel) => wheel.record()?,
            Form::Installed(installed) => installed.rows().to_vec(),
        };
        Ok(members.iter().any(|name| rows.iter().any(|row| row.path == *name && !row.hash.is_empty())))
    }
}

/// A tag of the file WHEEL, which may be a set in itself: `py2.py3-none-any`.
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
