//! Input: a release type, a repository and a run. Output: the bucket and folder in which TheRock's
//! workflows leave the outputs of the run.

use std::fmt;

use rocwheel_progress::Failure;
use rocwheel_store::S3Address;

use crate::error::wrong_place;

/// The repository of the builds that everything else is compared with.
const THEROCK: &str = "ROCm/TheRock";
/// Bucket of runs of forks and other repositories. Its folders begin with the repository.
const EXTERNAL: &str = "therock-ci-artifacts-external";
/// The region of all buckets.
const REGION: &str = "us-east-2";
/// The account of the roles that write into the buckets of runs (`s3_buckets.py` of TheRock).
const RUNS_ACCOUNT: &str = "692859939525";
/// The account of the roles that write into the buckets from which AMD serves releases.
const RELEASES_ACCOUNT: &str = "324352301041";

fn role_name(account: &str, role: &str) -> String {
    format!("arn:aws:iam::{account}:role/{role}")
}

/// The kind of release that a run builds. It decides the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamType {
    /// Each commit and pull request.
    Ci,
    /// Builds that a developer asks for.
    Dev,
    /// Those with a base date; they share the bucket of `dev`.
    DevBkc,
    /// Every night.
    Nightly,
    /// Those with a base date; they share the bucket of `nightly`.
    NightlyBkc,
    /// Release candidates.
    Prerelease,
    /// Finished releases.
    Release,
}

impl StreamType {
    pub const ALL: [(&'static str, StreamType); 7] = [
        ("ci", StreamType::Ci),
        ("dev", StreamType::Dev),
        ("dev-bkc", StreamType::DevBkc),
        ("nightly", StreamType::Nightly),
        ("nightly-bkc", StreamType::NightlyBkc),
        ("prerelease", StreamType::Prerelease),
        ("release", StreamType::Release),
    ];

    pub fn parse(name: &str) -> Result<StreamType, Failure> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        found.ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|(known, _)| *known).collect();
            wrong_place(format!("`{name}` is no release type: there are {}", known.join(", ")))
        })
    }

    /// The type of the releases that have versions of this form: `7.12.0`, `7.12.0rc1`,
    /// `7.12.0a20260519`, `7.12.0.dev0+0123abc`.
    pub fn of_version(version: &str) -> StreamType {
        let public = version.split('+').next().unwrap_or_default();
        match public {
            _ if public.contains(".dev") => StreamType::Dev,
            _ if public.contains("rc") => StreamType::Prerelease,
            _ if public.contains('a') => StreamType::Nightly,
            _ => StreamType::Release,
        }
    }

    /// The middle of the names of buckets.
    fn word(self) -> &'static str {
        match self {
            Self::Ci => "ci",
            Self::Dev | Self::DevBkc => "dev",
            Self::Nightly | Self::NightlyBkc => "nightly",
            Self::Prerelease => "prerelease",
            Self::Release => "release",
        }
    }

    /// The word for the type in the addresses from which AMD serves releases.
    fn served(self) -> Option<&'static str> {
        match self {
            Self::Dev => Some("dev"),
            Self::Nightly => Some("nightly"),
            Self::DevBkc | Self::NightlyBkc => Some("bkc"),
            Self::Prerelease => Some("rc"),
            Self::Ci | Self::Release => None,
        }
    }

    /// The bucket with the tarballs of releases; `ci` has none.
    pub fn tarball_bucket(self) -> Result<String, Failure> {
        match self {
            Self::Ci => Err(wrong_place("runs of the type `ci` have no release tarballs".to_owned())),
            _ => Ok(format!("therock-{}-tarball", self.word())),
        }
    }
}

/// The operating system that a run builds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildSystem {
    Linux,
    Windows,
}

impl fmt::Display for BuildSystem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Linux => "linux",
            Self::Windows => "windows",
        })
    }
}

/// Where the outputs of runs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPlace {
    pub bucket: String,
    /// `OWNER-NAME/` in the bucket of foreign code, otherwise empty.
    prefix: String,
    /// The role of AWS that may write into the bucket; `None` for forks and for finished releases,
    /// which no job uploads.
    pub write_role: Option<String>,
}

impl RunPlace {
    /// The place of the runs of a repository (`OWNER/NAME`). `is_fork` says that the code of the
    /// run comes from a fork of it.
    pub fn new(kind: StreamType, repository: &str, is_fork: bool) -> Result<RunPlace, Failure> {
        let parts = repository.split_once('/').filter(|(owner, name)| {
            [owner, name].into_iter().all(|word| {
                !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
            })
        });
        let Some((owner, name)) = parts else {
            return Err(wrong_place(format!("`{repository}` is no repository: it looks like `ROCm/TheRock`")));
        };
        let bucket = match kind {
            StreamType::Ci if is_fork || repository != THEROCK => EXTERNAL.to_owned(),
            kind => format!("therock-{}-artifacts", kind.word()),
        };
        let prefix = if bucket == EXTERNAL { format!("{owner}-{name}/") } else { String::new() };
        let role = match kind {
            StreamType::Release => None,
            _ if is_fork => None,
            _ if bucket == EXTERNAL => Some("therock-ci-external".to_owned()),
            kind => Some(format!("therock-{}", kind.word())),
        };
        Ok(RunPlace { bucket, prefix, write_role: role.map(|role| role_name(RUNS_ACCOUNT, &role)) })
    }

    pub fn folder(&self, run: &str, system: BuildSystem) -> Result<String, Failure> {
        Ok(format!("{}{}", self.prefix, folder_of_run(run, system)?))
    }

    pub fn address(&self, run: &str, system: BuildSystem) -> Result<S3Address, Failure> {
        Ok(S3Address { bucket: self.bucket.clone(), prefix: self.folder(run, system)? })
    }

    /// The bucket and the folder with the folders of all runs.
    pub fn store(&self) -> S3Address {
        S3Address { bucket: self.bucket.clone(), prefix: self.prefix.trim_end_matches('/').to_owned() }
    }

    pub fn region() -> &'static str {
        REGION
    }
}

/// Where AMD serves the releases of a product from (TheRock's RFC 12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleasePlace {
    pub bucket: String,
    /// The role of AWS that may write into it.
    pub write_role: String,
    /// The index of all packages, for pip.
    pub index: String,
}

impl ReleasePlace {
    /// The names of the products that AMD releases: ROCm itself is `core`.
    pub const PRODUCTS: [&'static str; 3] = ["core", "pytorch", "jax"];

    /// Fails for an unknown product, and for the types `ci` and `release`, which are not published
    /// this way.
    pub fn new(kind: StreamType, product: &str) -> Result<ReleasePlace, Failure> {
        if !Self::PRODUCTS.contains(&product) {
            let known = Self::PRODUCTS.join(", ");
            return Err(wrong_place(format!("`{product}` is no product: there are {known}")));
        }
        let Some(stream) = kind.served() else {
            return Err(wrong_place(format!("runs of the type `{}` are not published by machine", kind.word())));
        };
        Ok(ReleasePlace {
            bucket: format!("therock-repo-amd-{stream}-{product}"),
            write_role: role_name(RELEASES_ACCOUNT, &format!("therock-repo-{stream}-{product}")),
            index: format!("https://{stream}.repo.amd.com/rocm/whl-next/"),
        })
    }
}

/// `{run}-{platform}`, the folder of a run in any store.
pub fn folder_of_run(run: &str, system: BuildSystem) -> Result<String, Failure> {
    let is_word = !run.is_empty()
        && !run.starts_with('.')
        && run.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    if is_word {
        Ok(format!("{run}-{system}"))
    } else {
        Err(wrong_place(format!("`{run}` is no run: it is the number in the address of the run on GitHub")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_therock() {
        let address = |kind: &str, repository: &str, fork: bool| {
            let place = RunPlace::new(StreamType::parse(kind).unwrap(), repository, fork).unwrap();
            place.address("123", BuildSystem::Linux).unwrap().to_string()
        };
        assert_eq!(address("ci", "ROCm/TheRock", false), "s3://therock-ci-artifacts/123-linux");
        assert_eq!(address("ci", "ROCm/TheRock", true), "s3://therock-ci-artifacts-external/ROCm-TheRock/123-linux");
        assert_eq!(address("ci", "me/x", false), "s3://therock-ci-artifacts-external/me-x/123-linux");
        assert_eq!(address("nightly", "ROCm/rockrel", false), "s3://therock-nightly-artifacts/123-linux");
        assert_eq!(address("dev-bkc", "ROCm/rockrel", true), "s3://therock-dev-artifacts/123-linux");
        assert!(StreamType::parse("night").unwrap_err().to_string().contains("nightly-bkc"));
        assert!(RunPlace::new(StreamType::Ci, "TheRock", false).is_err());
        assert!(folder_of_run("../1", BuildSystem::Linux).is_err() && folder_of_run("", BuildSystem::Windows).is_err());
    }

    #[test]
    fn roles_are_those_of_therock() {
        let role = |kind, repository: &str, fork| RunPlace::new(kind, repository, fork).unwrap().write_role;
        let named = |name: &str| Some(format!("arn:aws:iam::692859939525:role/{name}"));
        assert_eq!(role(StreamType::Ci, "ROCm/TheRock", false), named("therock-ci"));
        assert_eq!(role(StreamType::Ci, "me/x", false), named("therock-ci-external"));
        assert_eq!(role(StreamType::NightlyBkc, "ROCm/rockrel", false), named("therock-nightly"));
        assert_eq!(role(StreamType::Ci, "ROCm/TheRock", true), None);
        assert_eq!(role(StreamType::Release, "ROCm/rockrel", false), None);
        let place = ReleasePlace::new(StreamType::NightlyBkc, "pytorch").unwrap();
        assert_eq!(place.bucket, "therock-repo-amd-bkc-pytorch");
        assert_eq!(place.write_role, "arn:aws:iam::324352301041:role/therock-repo-bkc-pytorch");
        assert_eq!(place.index, "https://bkc.repo.amd.com/rocm/whl-next/");
        assert!(ReleasePlace::new(StreamType::Release, "core").is_err());
        assert!(ReleasePlace::new(StreamType::Nightly, "tensorflow").unwrap_err().to_string().contains("jax"));
    }

    #[test]
    fn the_form_of_a_version_tells_its_stream() {
        let cases = [
            ("7.12.0", StreamType::Release),
            ("7.12.0rc1", StreamType::Prerelease),
            ("7.12.0a20260519", StreamType::Nightly),
            ("7.12.0a20260811+bkc.20260814", StreamType::Nightly),
            ("7.12.0.dev0+abc", StreamType::Dev),
        ];
        for (version, kind) in cases {
            assert_eq!(StreamType::of_version(version), kind, "{version}");
        }
        assert_eq!(StreamType::Nightly.tarball_bucket().unwrap(), "therock-nightly-tarball");
        assert!(StreamType::Ci.tarball_bucket().is_err());
    }
}
