//! Input: a binary. Output: the same without symbol table and debug sections, made by `strip` of binutils on a temporary
//! copy: the symbols that the loader needs stay.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::{NamedTempFile, TempPath};
use wheel::{Content, Reader};

use super::Error;

/// Bytes that are copied at once.
const WINDOW: usize = 1 << 20;

/// A stripped copy, which goes with its last owner.
pub(super) struct Stripped {
    path: TempPath,
    size: u64,
}

impl Content for Stripped {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Reader> {
        Ok(Box::new(fs_err::File::open(&*self.path)?.into_parts().0))
    }
}

/// Strips `content`, which `name` is the name of in messages, with the program `strip`.
pub(super) fn strip(content: &dyn Content, name: &str, program: &Path, scratch: &Path) -> Result<Stripped, Error> {
    let failed = |path: &Path| {
        let path = PathBuf::from(path);
        move |source| Error::File { action: "write", path, source }
    };
    let mut copy = NamedTempFile::new_in(scratch).map_err(failed(scratch))?;
    let mut read = || -> io::Result<()> {
        let reader = content.open()?;
        let mut window = vec![0; WINDOW.min(content.size() as usize)];
        let mut position = 0;
        while position < content.size() {
            let length = (content.size() - position).min(WINDOW as u64) as usize;
            reader.read_exact_at(position, &mut window[..length])?;
            io::Write::write_all(copy.as_file_mut(), &window[..length])?;
            position += length as u64;
        }
        Ok(())
    };
    read().map_err(failed(scratch))?;
    let output = Command::new(program)
        .arg("--strip-all")
        .arg("--preserve-dates")
        .arg(copy.path())
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Strip { file: name.to_owned(), message: source.to_string() })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).replace(&*copy.path().to_string_lossy(), name);
        return Err(Error::Strip { file: name.to_owned(), message: message.trim().to_owned() });
    }
    let path = copy.into_temp_path();
    let size = fs_err::metadata(&path).map_err(failed(&path))?.len();
    Ok(Stripped { path, size })
}
