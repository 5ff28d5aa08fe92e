//! A job: the complete description of one build, in a file that runs here, in a container or on
//! another machine.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use rocwheel_progress::Reporter;
use serde::{Deserialize, Serialize};

use crate::cell::PythonVersion;
use crate::error::Error;
use crate::evaluated::Evaluated;
use crate::executor::Image;
use crate::recipe::SCHEMA;
use crate::shared_files;
use crate::source_digest;
use crate::toml_text::from_toml;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Job {
    pub schema: u32,
    /// Location and identity of the sources.
    pub source: JobSource,
    pub rocm: Rocm,
    /// Wheels that are installed before the build.
    pub with: Vec<InputWheel>,
    /// The Python that runs the build; `None`: any that is found.
    #[serde(with = "crate::cell::optional_text", default)]
    pub python: Option<PythonVersion>,
    /// Pythons that a wheel for any Python is tested with, in addition to the one that built it.
    #[serde(with = "pythons")]
    pub try_on: Vec<PythonVersion>,
    /// Time stamp of written files, in seconds since 1970.
    pub epoch: u64,
    /// The image that the job runs in; `None`: no container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// The evaluated recipe. The field comes last, because in TOML it is a table of tables.
    pub recipe: Evaluated,
}

/// Location and identity of sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum JobSource {
    /// A git checkout.
    Checkout {
        /// Absolute path.
        path: PathBuf,
        /// Digest of its commit and the changes in it.
        digest: String,
        /// Its commit, for images, which have no git to ask.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
    },
    /// A folder that is no checkout; the job copies it.
    Folder {
        /// Absolute path.
        path: PathBuf,
        /// Digest of all its files.
        digest: String,
    },
    /// An sdist or tarball; the job unpacks it.
    Archive {
        /// Absolute path.
        path: PathBuf,
        /// Lower-case hexadecimal SHA-256.
        sha256: String,
    },
}

/// Location of ROCm.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Rocm {
    /// The job needs no ROCm.
    None,
    /// Python packages from an index.
    Index {
        /// Address of the index; `None`: the default index of the installer.
        url: Option<String>,
        /// The packages to install.
        packages: RocmPackages,
    },
    /// Python packages from a page or folder with links.
    FindLinks {
        /// Address, or absolute path of a folder.
        links: String,
        /// The packages to install.
        packages: RocmPackages,
    },
    /// An installed ROCm.
    Prefix {
        /// Absolute path.
        path: PathBuf,
        /// The version that it reports.
        version: String,
    },
}

/// Addresses may contain secrets, which are not shown.
impl fmt::Debug for Rocm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rocm::None => formatter.write_str("None"),
            Rocm::Index { url, packages } => {
                let url = url.as_deref().map(rocwheel_source::without_secret);
                formatter.debug_struct("Index").field("url", &url).field("packages", packages).finish()
            }
            Rocm::FindLinks { links, packages } => {
                let links = rocwheel_source::without_secret(links);
                formatter.debug_struct("FindLinks").field("links", &links).field("packages", packages).finish()
            }
            Rocm::Prefix { path, version } => {
                formatter.debug_struct("Prefix").field("path", path).field("version", version).finish()
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RocmPackages {
    /// Version specifier with its operator (`>1.0`, `==7.10.0`).
    pub specifier: String,
    /// Extras besides `libraries` and `devel`.
    pub extras: Vec<String>,
    /// `true` if pre-releases are accepted.
    pub pre: bool,
}

impl RocmPackages {
    pub fn requirement(&self) -> String {
        let extras = ["libraries", "devel"].into_iter().chain(self.extras.iter().map(String::as_str));
        format!("rocm[{}]{}", extras.collect::<Vec<_>>().join(","), self.specifier)
    }
}

/// A wheel that is installed before the build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputWheel {
    /// Absolute path.
    pub path: PathBuf,
    /// Lower-case hexadecimal SHA-256.
    pub sha256: String,
}

/// An output file of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuiltFile {
    /// Path relative to the folder of outputs.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Lower-case hexadecimal SHA-256.
    pub sha256: String,
}

impl JobSource {
    /// Inspects the sources at a path. `surroundings` is the environment for git.
    pub fn at(
        path: &Path,
        surroundings: &BTreeMap<String, String>,
        reporter: &dyn Reporter,
    ) -> Result<JobSource, Error> {
        let path = std::path::absolute(path)?;
        if path.is_file() {
            let sha256 = rocwheel_source::sha256(&path, reporter)?;
            return Ok(JobSource::Archive { path, sha256 });
        }
        if !path.is_dir() {
            return Err(Error::Source {
                reason: format!("there are no sources at `{}`", path.display()),
                hint: Some(
                    "`rocwheel source checkout` makes a checkout; `--source` takes its folder, or an archive".into(),
                ),
            });
        }
        if let Some(digest) = source_digest::of_checkout(&path, surroundings, reporter)? {
            let revision = source_digest::git(&path, &["rev-parse", "HEAD"], surroundings, reporter)?;
            let revision = revision.map(|answer| answer.trim().to_owned());
            return Ok(JobSource::Checkout { path, digest, revision });
        }
        let digest = source_digest::of_folder(&path, reporter)?;
        if source_digest::files(&path)?.is_empty() {
            let hint = Some("`rocwheel source checkout` fills it".into());
            return Err(Error::Source { reason: format!("`{}` holds no sources", path.display()), hint });
        }
        Ok(JobSource::Folder { path, digest })
    }

    pub fn path(&self) -> &Path {
        match self {
            JobSource::Checkout { path, .. } | JobSource::Folder { path, .. } | JobSource::Archive { path, .. } => path,
        }
    }

    /// Identity of the sources, independent of their path: kind and digest.
    fn identity(&self) -> (&'static str, &str) {
        match self {
            JobSource::Checkout { digest, .. } => ("checkout", digest),
            JobSource::Folder { digest, .. } => ("folder", digest),
            JobSource::Archive { sha256, .. } => ("archive", sha256),
        }
    }

    /// Checks that the sources are those that the job was made for.
    pub fn verify(&self, surroundings: &BTreeMap<String, String>, reporter: &dyn Reporter) -> Result<(), Error> {
        // Without git nothing can be compared. Images have no git; the job was made where there is
        // one.
        if matches!(self, JobSource::Checkout { .. })
            && source_digest::of_checkout(self.path(), surroundings, reporter)?.is_none()
        {
            return Ok(());
        }
        let found = JobSource::at(self.path(), surroundings, reporter)?;
        if found.identity() == self.identity() {
            return Ok(());
        }
        Err(Error::Source {
            reason: format!("the sources in `{}` are not those that the job was made for", self.path().display()),
            hint: Some("make the job again".into()),
        })
    }
}

impl InputWheel {
    /// Hashes a wheel.
    pub fn at(path: &Path, reporter: &dyn Reporter) -> Result<InputWheel, Error> {
        let path = std::path::absolute(path)?;
        let sha256 = rocwheel_source::sha256(&path, reporter)?;
        Ok(InputWheel { path, sha256 })
    }
}

impl Job {
    /// Identifies the job: 16 hexadecimal digits of a digest over everything that decides the
    /// result. Paths, user names and passwords are not part of it.
    pub fn key(&self) -> String {
        let rocm = match &self.rocm {
            Rocm::None => serde_json::json!({}),
            Rocm::Index { url, packages } => serde_json::json!({"index": url, "packages": packages}),
            Rocm::FindLinks { links, packages } => serde_json::json!({"links": links, "packages": packages}),
            Rocm::Prefix { version, .. } => serde_json::json!({"prefix": version}),
        };
        let with: Vec<&str> = self.with.iter().map(|input| input.sha256.as_str()).collect();
        let try_on: Vec<String> = self.try_on.iter().map(ToString::to_string).collect();
        let mut identity = serde_json::json!({
            "schema": self.schema,
            "source": self.source.identity(),
            "rocm": rocm,
            "with": with,
            "python": self.python.map(|python| python.to_string()),
            "try-on": try_on,
            "epoch": self.epoch,
            "recipe": self.recipe,
        });
        if let Some(image) = &self.image {
            identity["image"] = image.identity().into();
        }
        without_secrets(&mut identity);
        blake3::hash(identity.to_string().as_bytes()).to_hex()[..16].to_owned()
    }

    pub fn title(&self) -> String {
        self.recipe.title()
    }

    /// Reads a job file in TOML or JSON.
    pub fn read(path: &Path) -> Result<Job, Error> {
        let text = fs_err::read_to_string(path)?;
        let shown = path.to_string_lossy();
        let job: Job = if text.trim_start().starts_with('{') {
            serde_json::from_str(&text).map_err(|error| Error::Malformed {
                path: shown.clone().into_owned(),
                line: Some(error.line()),
                reason: error.to_string(),
                hint: None,
            })?
        } else {
            from_toml(&text, &shown)?
        };
        if job.schema != SCHEMA {
            let reason = format!("its schema is {}, and this program knows {SCHEMA}", job.schema);
            return Err(Error::malformed(&shown, reason));
        }
        Ok(job)
    }

    /// The job as TOML.
    ///
    /// # Errors
    /// serde may return one; none is known.
    pub fn toml(&self) -> Result<String, Error> {
        toml::to_string_pretty(self).map_err(Error::unwritable("job"))
    }

    /// The job as JSON.
    ///
    /// # Errors
    /// The same as [`Job::toml`].
    pub fn json(&self) -> Result<String, Error> {
        let text = serde_json::to_string_pretty(self).map_err(Error::unwritable("job"))?;
        Ok(text + "\n")
    }

    /// Writes the job to a file: as JSON if the name ends in `.json`, otherwise as TOML. Only the
    /// owner can read it if an address in it has a password. A path that is not a regular file,
    /// such as a pipe, is written to directly.
    /// If the write fails, an existing file stays unchanged.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        let text = if is_json { self.json()? } else { self.toml()? };
        match path.metadata() {
            Ok(there) if !there.is_file() => Ok(fs_err::write(path, text)?),
            _ => shared_files::replace(path, text.as_bytes()),
        }
    }
}

/// Removes user names and passwords from all addresses.
fn without_secrets(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => *text = rocwheel_source::without_secret(text),
        serde_json::Value::Array(values) => values.iter_mut().for_each(without_secrets),
        serde_json::Value::Object(values) => values.values_mut().for_each(without_secrets),
        _ => {}
    }
}

/// Serializes Python versions as strings.
mod pythons {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::cell::PythonVersion;

    pub(super) fn serialize<S: Serializer>(versions: &[PythonVersion], serializer: S) -> Result<S::Ok, S::Error> {
        versions.iter().map(ToString::to_string).collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PythonVersion>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
    }
}
