//! Input: a chosen wheel, and wheels of this machine. Output: the wheel in a file, made of their
//! pieces or downloaded as a whole.

use std::path::Path;

use rocwheel_content::{HashAlgorithm, Hasher, hexadecimal};
use rocwheel_index::companion::DELTA;
use rocwheel_progress::{Exit, Reporter, Unit, Watched};
use rocwheel_store::Error as StoreError;

use crate::description::DeltaDescription;
use crate::error::Error;
use crate::index_site::shown;
use crate::rebuild::{Rebuilt, rebuild};
use crate::wheel_download::Download;

/// Limit in bytes for a description: that of a wheel of 200 GB has less.
const LIMIT: u64 = 64 << 20;

/// The hash of a file in hexadecimal.
pub(crate) fn hash_of(path: &Path, algorithm: HashAlgorithm, reporter: &dyn Reporter) -> Result<String, Error> {
    let file = fs_err::File::open(path).map_err(StoreError::read(path))?;
    let size = file.metadata().map_err(StoreError::read(path))?.len();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let _stage = reporter.stage(&format!("Verifying {name}"), Some(size), Unit::Bytes);
    let mut hasher = Hasher::new(algorithm);
    let read = hasher.read(Watched::new(file, reporter));
    reporter.check()?;
    read.map_err(StoreError::read(path))?;
    Ok(hexadecimal(&hasher.finish()))
}

impl Download<'_> {
    /// Downloads the wheel. The inner error is why all of it was downloaded.
    pub(crate) fn run(&self) -> Result<Result<Rebuilt, String>, Error> {
        let reason = match self.described()? {
            Ok(description) => match rebuild(self, &description)? {
                Ok(rebuilt) if hash_of(self.staged, self.hash.algorithm, self.reporter)? == self.hash.hexadecimal => {
                    return Ok(Ok(rebuilt));
                }
                Ok(_) => "the pieces do not make it: the description is wrong, or a file changed meanwhile".to_owned(),
                Err(reason) => reason,
            },
            Err(reason) => reason,
        };
        self.whole()?;
        Ok(Err(reason))
    }

    /// The description of the wheel; the inner error is why it cannot be used.
    fn described(&self) -> Result<Result<DeltaDescription, String>, Error> {
        let mut address = self.chosen.link.address.clone();
        address.set_path(&format!("{}{DELTA}", self.chosen.link.address.path()));
        let link = &self.chosen.link;
        let bytes = match self.remote(&address).small(LIMIT)? {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Err(format!("there is no `{}{DELTA}`", link.file_name))),
            Err(fault) => return Ok(Err(format!("its description cannot be read: {fault}"))),
        };
        let sha256 = (self.hash.algorithm == HashAlgorithm::Sha256).then_some(self.hash.hexadecimal.as_str());
        let checked = DeltaDescription::parse(&bytes)
            .and_then(|description| description.check(link.size, sha256).map(|()| description));
        let description = match checked {
            Ok(description) => description,
            Err(reason) => return Ok(Err(format!("its description {reason}"))),
        };
        if link.size.is_none() {
            // The hash is compared at the end, when a lie would have filled the disk.
            let Some(size) = self.remote(&link.address).size()? else {
                return Ok(Err("neither the page nor the server says how many bytes it has".to_owned()));
            };
            if let Err(reason) = description.check(Some(size), None) {
                return Ok(Err(format!("its description {reason}")));
            }
        }
        Ok(Ok(description))
    }

    /// Downloads all of the wheel.
    fn whole(&self) -> Result<(), Error> {
        let file = fs_err::File::create(self.staged).map_err(StoreError::write(self.staged))?;
        let link = &self.chosen.link;
        let _stage = self.reporter.stage(&format!("Downloading {}", link.file_name), link.size, Unit::Bytes);
        let algorithm = self.hash.algorithm;
        let hashing = (|| Hasher::new(algorithm), |hasher: &mut Hasher, block: &[u8]| hasher.update(block));
        let (hasher, length) = self.remote(&link.address).whole(link.size, &file, hashing)?;
        let (found, address) = (hexadecimal(&hasher.finish()), shown(&link.address));
        let (name, wanted) = (algorithm.name(), &self.hash.hexadecimal);
        let reason = match link.size {
            _ if found != *wanted => format!("the {name} of `{address}` is {found}, and the page says {wanted}"),
            Some(size) if size != length => {
                format!("the index is wrong: `{address}` has the {name} of the page and {length} bytes, not {size}")
            }
            _ => return Ok(()),
        };
        Err(Error::Get {
            attempted: format!("get `{}`", link.file_name),
            reason,
            hint: "try again in case the index was being changed; if it stays, `rocwheel index check --files` names the files"
                .to_owned(),
            exit: Exit::Failed,
        })
    }
}
