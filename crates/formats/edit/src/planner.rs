//! Input: wheels and source distributions, and an edit. Output: a [`Plan`] for each of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_progress::Reporter;
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{Headers, canonical_name, check_name};

use crate::error::Error;
use crate::identity::{Identity, Siblings};
use crate::plan::Plan;
use crate::request::Request;
use crate::sdist_file::SdistFile;
use crate::wheel_edit::{Pins, WheelEdit};
use crate::{sdist, wheel};

/// A file that will be edited.
enum Opened {
    Wheel(Arc<Wheel>, Headers),
    Sdist(Box<SdistFile>, Headers),
}

impl Opened {
    fn open(path: &Path, edit: &WheelEdit, reporter: &dyn Reporter) -> Result<Opened, Error> {
        if !path.to_string_lossy().ends_with(".tar.gz") {
            let wheel = Wheel::open(path)?;
            let headers = Headers::parse(&wheel.metadata()?);
            return Ok(Opened::Wheel(Arc::new(wheel), headers));
        }
        let sdist = SdistFile::read(path, &edit.also_in, reporter)?;
        let headers = Headers::parse(&sdist.text("PKG-INFO")?);
        Ok(Opened::Sdist(Box::new(sdist), headers))
    }

    fn headers(&self) -> &Headers {
        match self {
            Opened::Wheel(_, headers) | Opened::Sdist(_, headers) => headers,
        }
    }
}

/// Plans the edit of each file: reads the files and writes nothing. Libraries whose search path
/// changes are temporarily unpacked into the folder `scratch`.
///
/// Fails with the errors of [`Wheel::open`], and if one of the files cannot be edited that way.
pub fn plan(paths: &[PathBuf], edit: &WheelEdit, scratch: &Path, reporter: &dyn Reporter) -> Result<Vec<Plan>, Error> {
    if let Some(name) = &edit.name {
        check_name(name)?;
    }
    let mut opened = Vec::with_capacity(paths.len());
    for path in paths {
        let file = Opened::open(path, edit, reporter)?;
        let identity = Identity::new(file.headers(), edit)?;
        opened.push((file, identity));
    }
    let siblings = match edit.pins {
        Pins::Keep => Siblings::Keep,
        Pins::Follow => {
            let versions = opened.iter().map(|(_, identity)| {
                (canonical_name(&identity.name), (identity.version.clone(), identity.new_version.clone()))
            });
            Siblings::Follow(versions.collect())
        }
    };
    let request = Request { edit, siblings, scratch, reporter };
    let mut plans = Vec::with_capacity(paths.len());
    for (file, identity) in opened {
        plans.push(match file {
            Opened::Wheel(wheel, headers) => wheel::plan(&wheel, &headers, &identity, &request)?,
            Opened::Sdist(sdist, headers) => sdist::plan(&sdist, &headers, &identity, &request)?,
        });
    }
    Ok(plans)
}
