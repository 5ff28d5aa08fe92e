//! `write_artifacts_bucket_info` and `write_product_release_bucket_info`: the bucket of a kind of
//! build, and the role that may write into it.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Args;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_fetch::{ReleasePlace, RunPlace, StreamType};
use rocwheel_progress::Exit;
use serde_json::Value;

use super::fetch_artifacts::repository;
use super::given;

/// Names and values.
pub(super) type Outputs = Vec<(&'static str, String)>;

/// write_artifacts_bucket_info: the bucket for artifacts of a kind of build, and its role
///
/// The outputs of the step are `bucket`, `iam_role` and `aws_region`. A pull request from a fork
/// has no role.
#[derive(Debug, Args)]
pub(super) struct ArtifactsArguments {
    /// Kind of build: dev, dev-bkc, nightly, nightly-bkc, prerelease or release; empty: ci
    #[arg(long, value_name = "TYPE", default_value = "", hide_default_value = true)]
    release_type: String,
}

impl ArtifactsArguments {
    pub(super) fn outputs(self) -> Result<Outputs> {
        let kind = StreamType::parse(&given(Some(self.release_type)).unwrap_or_else(|| "ci".to_owned()))?;
        let repository = repository(None).unwrap_or_else(|| "ROCm/TheRock".to_owned());
        let event = environment::first_of(&["GITHUB_EVENT_PATH"]);
        let is_fork = event.map(|path| is_from_fork(Path::new(&path))).transpose()?.unwrap_or_default();
        let place = RunPlace::new(kind, &repository, is_fork)?;
        Ok(vec![
            ("bucket", place.bucket),
            ("iam_role", place.write_role.unwrap_or_default()),
            ("aws_region", RunPlace::region().to_owned()),
        ])
    }
}

/// write_product_release_bucket_info: the bucket from which a product's releases are served
///
/// The outputs of the step are `bucket`, `iam_role`, `aws_region` and `package_index_url`.
#[derive(Debug, Args)]
pub(super) struct ReleaseArguments {
    /// Kind of build: dev, dev-bkc, nightly, nightly-bkc or prerelease
    #[arg(long, value_name = "TYPE")]
    release_type: String,
    /// What is released
    #[arg(long, value_name = "NAME", value_parser = ReleasePlace::PRODUCTS)]
    product: String,
}

impl ReleaseArguments {
    pub(super) fn outputs(self) -> Result<Outputs> {
        let place = ReleasePlace::new(StreamType::parse(&self.release_type)?, &self.product)?;
        Ok(vec![
            ("bucket", place.bucket),
            ("iam_role", place.write_role),
            ("aws_region", RunPlace::region().to_owned()),
            ("package_index_url", place.index),
        ])
    }
}

/// Prints the outputs, and sets them.
pub(super) fn command(outputs: &Outputs, printer: &Printer) -> Result<Exit> {
    let pairs: Vec<(&str, &str)> = outputs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    printer.outputs(&pairs)?;
    match printer.format() {
        ResultFormat::Json => printer.json(&pairs.into_iter().collect::<BTreeMap<_, _>>())?,
        ResultFormat::Text => pairs.iter().try_for_each(|(name, value)| printer.line(format!("{name}={value}")))?,
    }
    Ok(Exit::Done)
}

/// `true` if the event that started the workflow is a pull request from another repository.
fn is_from_fork(event: &Path) -> Result<bool> {
    let event: Value = serde_json::from_str(&fs_err::read_to_string(event)?)
        .map_err(|error| Failure::message(format!("`{}` is no event: {error}", event.display())))?;
    let names = ["head", "base"].map(|side| event.pointer(&format!("/pull_request/{side}/repo/full_name")));
    Ok(match names.map(|name| name.and_then(Value::as_str)) {
        [Some(head), Some(base)] => head != base,
        // The repository of a branch that is gone is null.
        [None, Some(_)] => true,
        _ => false,
    })
}
