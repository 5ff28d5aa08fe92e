//! Input: the files of a source distribution. Output: `name-version.tar.gz` (PEP 517, PEP 625, PEP
//! 643), with the same bytes on every machine.

use std::io::{self, Write as _};
use std::path::Path;

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use rocwheel_content::Content;
use rocwheel_progress::{Reporter, Unit};

use crate::distribution::check_tree;
use crate::output::Output;
use crate::tar::TarBuilder;
use crate::{Error, Level, Member, Metadata, WriteOptions, Written, names};

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
    let written = write_archive(&path, &stem, &files, options, reporter);
    written?.finish(files.len() as u64, raw)
}

type Files<'a> = [(&'a str, bool, &'a dyn Content)];

fn write_archive(
    path: &Path,
    stem: &str,
    files: &Files<'_>,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<Output, Error> {
    let mut encoder = encoder(Output::create(path, options.digest)?, options.level);
    let mut buffer = vec![0; WINDOW];
    let builder = TarBuilder::new(options.epoch);
    for (name, executable, content) in files {
        reporter.check()?;
        let member = format!("{stem}/{name}");
        let write = |source| Error::Write { path: path.to_owned(), member: Some((*name).to_owned()), source };
        encoder.write_all(&builder.file_header(&member, *executable, content.size())).map_err(write)?;
        copy(*content, name, &mut buffer, |bytes| {
            reporter.advance(bytes.len() as u64);
            encoder.write_all(bytes).map_err(write)
        })?;
        encoder.write_all(crate::tar::padding(content.size())).map_err(write)?;
    }
    let write = |source| Error::Write { path: path.to_owned(), member: None, source };
    encoder.write_all(&crate::tar::END).map_err(write)?;
    encoder.finish().map_err(write)
}

/// A compressor that writes to `output`. Its header does not depend on the machine or the date.
pub(crate) fn encoder(output: Output, level: Level) -> GzEncoder<Output> {
    let level = match level {
        Level::None => Compression::none(),
        Level::Fast => Compression::fast(),
        Level::Default | Level::Small => Compression::new(6),
        Level::Best => Compression::best(),
    };
    GzBuilder::new().mtime(0).operating_system(255).write(output, level)
}

/// Passes the bytes of `content` to `sink` in windows.
fn copy(
    content: &dyn Content,
    member: &str,
    buffer: &mut [u8],
    mut sink: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let fail = |source: io::Error| crate::archive::read_error(member, content, source);
    let reader = content.open().map_err(fail)?;
    let mut position = 0;
    while position < content.size() {
        let length = (content.size() - position).min(buffer.len() as u64) as usize;
        reader.read_exact_at(position, &mut buffer[..length]).map_err(fail)?;
        sink(&buffer[..length])?;
        position += length as u64;
    }
    Ok(())
}
