//! Input: the files of a source distribution. Output: `name-version.tar.gz` (PEP 517, PEP 625, PEP
//! 643), with the same bytes on every machine.

use std::path::Path;

use rocwheel_archive::{TarGzWriter, WriteOptions, Written, check_tree};
use rocwheel_content::Content;
use rocwheel_progress::{Reporter, Unit};

use crate::{Error, Member, Metadata, names};

/// The contents of one source distribution.
pub struct Sdist {
    /// Name as PKG-INFO shows it; the file name uses the normalised form.
    pub name: String,
    /// Version in PEP 440's canonical form.
    pub version: String,
    /// All other fields of PKG-INFO.
    pub metadata: Metadata,
    /// Paths of licence texts among the members, for License-File.
    pub license_files: Vec<String>,
    /// The files. Names are relative to the folder `name-version`; PKG-INFO is added.
    pub members: Vec<Member>,
}

/// Number of bytes that are read at once.
const WINDOW: usize = 1 << 20;

/// Writes the source distribution into the folder `output`, which must exist.
pub fn write_sdist(
    sdist: &Sdist,
    output: &Path,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<Written, Error> {
    let information = sdist.metadata.text(&sdist.name, &sdist.version, &sdist.license_files)?.into_bytes();
    let stem = format!("{}-{}", names::file_name_part(&sdist.name), sdist.version);
    let mut files: Vec<(&str, bool, &dyn Content)> = vec![("PKG-INFO", false, &information)];
    files.extend(sdist.members.iter().map(|member| (member.name.as_str(), member.executable, &*member.content)));
    files.sort_by_key(|(name, _, _)| *name);
    check_tree(files.iter().map(|(name, _, _)| *name))?;

    let path = output.join(format!("{stem}.tar.gz"));
    let raw = files.iter().map(|(_, _, content)| content.size()).sum();
    let _stage = reporter.stage(&format!("writing {stem}.tar.gz"), Some(raw), Unit::Bytes);
    let mut archive = TarGzWriter::create(&path, options)?;
    let mut buffer = vec![0; WINDOW];
    for (name, executable, content) in files {
        reporter.check()?;
        archive.file(&format!("{stem}/{name}"), executable, content.size(), |sink| {
            copy(content, name, &mut buffer, |bytes| {
                reporter.advance(bytes.len() as u64);
                sink(bytes)
            })
        })?;
    }
    Ok(archive.finish()?)
}

/// Passes the bytes of `content` to `sink` in windows.
fn copy(
    content: &dyn Content,
    member: &str,
    buffer: &mut [u8],
    mut sink: impl FnMut(&[u8]) -> Result<(), rocwheel_archive::Error>,
) -> Result<(), rocwheel_archive::Error> {
    let reader = content.open().map_err(rocwheel_archive::read_error(member, content))?;
    let mut position = 0;
    while position < content.size() {
        let length = (content.size() - position).min(buffer.len() as u64) as usize;
        reader.read_exact_at(position, &mut buffer[..length]).map_err(rocwheel_archive::read_error(member, content))?;
        sink(&buffer[..length])?;
        position += length as u64;
    }
    Ok(())
}
