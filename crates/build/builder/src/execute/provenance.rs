//! Writes a provenance statement beside every output file.

use std::collections::BTreeMap;
use std::path::Path;

use rocwheel_progress::Failure;
use serde_json::json;

use crate::execute::context::Context;
use crate::execute::folder::Folder;
use rocwheel_recipe::provenance::{
    BUILD_TYPE, BUILDER, BuildDefinition, Builder, ProvenancePredicate, Resource, RunDetails, SUFFIX, statement,
    statement_path,
};
use rocwheel_recipe::source_digest;
use rocwheel_recipe::{BuiltFile, JobSource, Rocm};

impl Context<'_> {
    pub(super) fn provenance(&self, folder: &mut Folder) -> Result<(), Failure> {
        let outputs = folder.outputs().iter().filter(|made| !made.path.to_string_lossy().ends_with(SUFFIX));
        let mut outputs: Vec<BuiltFile> = outputs.cloned().collect();
        let dependencies = self.dependencies()?;
        let files = outputs.iter().map(|made| {
            let name = made.path.file_name().unwrap_or_default().to_string_lossy();
            Resource::file(name, &made.sha256)
        });
        let files: Vec<Resource> = files.collect();
        let mut statements = Vec::new();
        for (at, made) in outputs.iter().enumerate() {
            let others = files.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, file)| file.clone());
            let predicate = self.predicate(others.collect(), dependencies.clone())?;
            let path = statement_path(&made.path);
            let place = self.folder.join("made").join(&path);
            let name = made.path.file_name().unwrap_or_default().to_string_lossy();
            fs_err::write(&place, statement(&name, &made.sha256, &predicate)?)?;
            let (size, sha256) =
                (place.metadata()?.len(), rocwheel_source::sha256(&place, &rocwheel_progress::Silent)?);
            statements.push(BuiltFile { path, size, sha256 });
        }
        outputs.extend(statements);
        folder.set_outputs(outputs)
    }

    fn predicate(
        &self,
        byproducts: Vec<Resource>,
        resolved_dependencies: Vec<Resource>,
    ) -> Result<ProvenancePredicate, Failure> {
        let recipe = &self.job.recipe;
        let mut cell = recipe.cell.clone();
        cell.torch_index = cell.torch_index.as_deref().map(rocwheel_source::without_secret);
        let mut external = BTreeMap::from([
            ("recipe".to_owned(), json!(recipe.recipe)),
            ("cell".to_owned(), serde_json::to_value(&cell).map_err(rocwheel_recipe::Error::unwritable("job"))?),
        ]);
        external.extend(recipe.output.repair.map(|way| ("repair".to_owned(), json!(way))));
        external.extend(recipe.output.split.map(|split| ("split".to_owned(), json!(split))));
        let evaluated = serde_json::to_value(recipe).map_err(rocwheel_recipe::Error::unwritable("job"))?.to_string();
        let internal = BTreeMap::from([
            ("job".to_owned(), json!(self.job.key())),
            ("recipe".to_owned(), json!(blake3::hash(evaluated.as_bytes()).to_hex().to_string())),
            ("epoch".to_owned(), json!(self.job.epoch)),
        ]);
        Ok(ProvenancePredicate {
            build_definition: BuildDefinition {
                build_type: BUILD_TYPE.to_owned(),
                external_parameters: external,
                internal_parameters: internal,
                resolved_dependencies,
            },
            run_details: RunDetails {
                builder: Builder {
                    id: BUILDER.to_owned(),
                    version: BTreeMap::from([("rocwheel".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
                },
                metadata: BTreeMap::from([("invocationId".to_owned(), json!(self.job.key()))]),
                byproducts,
            },
        })
    }

    /// Sources, ROCm, wheels and packages of the build.
    fn dependencies(&self) -> Result<Vec<Resource>, Failure> {
        let mut all = vec![self.source_resource()?];
        all.extend(self.rocm_resource());
        all.extend(self.job.image.as_ref().map(|image| {
            let resource = Resource::at("image", format!("docker://{}", image.name));
            match image.digest.as_deref().and_then(|digest| digest.split_once(':')) {
                Some((algorithm, value)) => resource.with_digest(algorithm, value),
                None => resource,
            }
        }));
        for input in &self.job.with {
            let name = input.path.file_name().unwrap_or_default().to_string_lossy();
            all.push(Resource::file(name, &input.sha256));
        }
        let installed = self.installed()?;
        all.push(Resource::at("python", format!("pkg:generic/python@{}", installed.python)));
        for (name, version) in installed.packages {
            let uri = format!("pkg:pypi/{}@{}", rocwheel_wheel::canonical_name(&name), version.replace('+', "%2B"));
            all.push(Resource::at(rocwheel_wheel::canonical_name(&name), uri));
        }
        all.dedup();
        Ok(all)
    }

    fn source_resource(&self) -> Result<Resource, Failure> {
        let project = self.job.recipe.source.project.as_str();
        Ok(match &self.job.source {
            JobSource::Checkout { path, digest, .. } => self.checkout(project, path, digest)?,
            JobSource::Folder { digest, .. } => {
                Resource { name: Some(project.into()), ..Resource::default() }.with_digest("rocwheelTree", digest)
            }
            JobSource::Archive { path, sha256 } => {
                Resource::file(path.file_name().unwrap_or_default().to_string_lossy(), sha256)
            }
        })
    }

    fn git(&self, path: &Path, question: &[&str]) -> Result<Option<String>, Failure> {
        match source_digest::git(path, question, &self.place.surroundings, self.reporter) {
            Ok(answer) => Ok(answer.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())),
            // git fails with this error if the tag or the setting does not exist.
            Err(rocwheel_recipe::Error::Source { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The upstream commit, its remote address if it has one, and the digest of the checkout.
    fn checkout(&self, project: &str, path: &Path, digest: &str) -> Result<Resource, Failure> {
        let tag = format!("refs/tags/{}^{{commit}}", rocwheel_source::UPSTREAM);
        let commit = match self.git(path, &["rev-parse", "--quiet", "--verify", &tag])? {
            Some(commit) => Some(commit),
            None => self.git(path, &["rev-parse", "HEAD"])?,
        };
        let origin = self.git(path, &["config", "remote.origin.url"])?.filter(|origin| is_address(origin));
        let origin = origin.map(|origin| rocwheel_source::without_secret(&origin));
        let uri = origin.map(|origin| match &commit {
            Some(commit) => format!("git+{origin}@{commit}"),
            None => format!("git+{origin}"),
        });
        let resource = Resource { name: Some(project.to_owned()), uri, ..Resource::default() };
        let resource = resource.with_digest("rocwheelTree", digest);
        Ok(match commit {
            Some(commit) => resource.with_digest("gitCommit", commit),
            None => resource,
        })
    }

    fn rocm_resource(&self) -> Option<Resource> {
        match &self.job.rocm {
            Rocm::None => None,
            Rocm::Prefix { version, .. } => Some(Resource::at("rocm", format!("pkg:generic/rocm@{version}"))),
            // The packages themselves are listed with those of the build's Python. This adds their
            // source.
            Rocm::Index { url, .. } => {
                url.as_deref().map(|url| Resource::at("rocm-index", rocwheel_source::without_secret(url)))
            }
            Rocm::FindLinks { links, .. } => {
                is_address(links).then(|| Resource::at("rocm-links", rocwheel_source::without_secret(links)))
            }
        }
    }
}

/// `true` if a text is an address, not a path on this machine.
fn is_address(text: &str) -> bool {
    (text.contains("://") && !text.starts_with("file:"))
        || (text.contains('@') && text.contains(':') && !text.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_this_machine_are_no_addresses() {
        for address in ["https://example.org/x.git", "ssh://git@example.org/x", "git@example.org:x/y.git"] {
            assert!(is_address(address), "{address}");
        }
        for place in ["/home/x/y", "file:///home/x", "../x", "C:\\x"] {
            assert!(!is_address(place), "{place}");
        }
    }
}
