//! Input: members in the order of the archive, as bytes. Output: a `.tar.gz` file with the same
//! bytes on every machine.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};

use crate::Error;
use crate::level::Level;
use crate::options::WriteOptions;
use crate::output::Output;
use crate::tar::{END, TarBuilder, padding};
use crate::written::Written;

pub struct TarGzWriter {
    path: PathBuf,
    encoder: GzEncoder<Output>,
    headers: TarBuilder,
    files: u64,
    raw: u64,
}

impl TarGzWriter {
    /// Begins the file `path` in a folder that must exist. It gets its name when it is complete.
    pub fn create(path: &Path, options: &WriteOptions) -> Result<TarGzWriter, Error> {
        let encoder = encoder(Output::create(path, options.digest)?, options.level);
        Ok(TarGzWriter { path: path.to_owned(), encoder, headers: TarBuilder::new(options.epoch), files: 0, raw: 0 })
    }

    /// Adds a directory; `name` has no slash at its end.
    pub fn directory(&mut self, name: &str) -> Result<(), Error> {
        self.write(name, &self.headers.directory_header(name))
    }

    /// Adds a symbolic link with the text `target`.
    pub fn symlink(&mut self, name: &str, target: &str) -> Result<(), Error> {
        self.write(name, &self.headers.symlink_header(name, target))
    }

    /// Adds a hard link to `target`, the name of an earlier member.
    pub fn hard_link(&mut self, name: &str, target: &str) -> Result<(), Error> {
        self.write(name, &self.headers.hard_link_header(name, target))
    }

    /// Adds a file of `size` bytes, with mode 0755 if it is `executable`, else 0644. `content` must
    /// pass as many bytes to the function that it gets.
    pub fn file<E: From<Error>>(
        &mut self,
        name: &str,
        executable: bool,
        size: u64,
        content: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.write(name, &self.headers.file_header(name, executable, size))?;
        content(&mut |bytes| self.write(name, bytes))?;
        self.files += 1;
        self.raw += size;
        Ok(self.write(name, padding(size))?)
    }

    fn write(&mut self, member: &str, bytes: &[u8]) -> Result<(), Error> {
        self.encoder.write_all(bytes).map_err(Error::write(&self.path, Some(member)))
    }

    /// Ends the archive and gives it its name.
    pub fn finish(mut self) -> Result<Written, Error> {
        let ended = self.encoder.write_all(&END).and_then(|()| self.encoder.finish());
        let output = ended.map_err(Error::write(&self.path, None))?;
        output.finish(self.files, self.raw)
    }
}

/// A compressor that writes to `output`. Its header does not depend on the machine or the date.
fn encoder(output: Output, level: Level) -> GzEncoder<Output> {
    let level = match level {
        Level::None => Compression::none(),
        Level::Fast => Compression::fast(),
        Level::Default | Level::Small => Compression::new(6),
        Level::Best => Compression::best(),
    };
    GzBuilder::new().mtime(0).operating_system(255).write(output, level)
}
