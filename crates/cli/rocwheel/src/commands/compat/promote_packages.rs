//! `rocwheel compat promote_packages`: TheRock's flags, done by `rocwheel release promote`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::civil::Date;
use pep440_rs::{PrereleaseKind, Version};
use rocwheel_console::failure::{Result, Usage};
use rocwheel_promote::{PromotionRequest, find_set_version};

use super::translation::Translation;

/// promote_packages: gives release candidates the version of the release
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the script")]
pub(super) struct Arguments {
    /// Folder with the packages; the promoted ones are written beside them
    #[arg(long, value_name = "DIR")]
    input_dir: PathBuf,
    /// Promote only files whose names match
    #[arg(long, value_name = "PATTERN", default_value = "*")]
    match_files: String,
    /// Remove the old files when all new ones are written
    #[arg(long, overrides_with = "no_delete_old_on_success")]
    delete_old_on_success: bool,
    /// Keep the old files, as is the default
    #[arg(long)]
    no_delete_old_on_success: bool,
    /// The kind of version that the set has [default: rc]
    #[arg(long, value_name = "TYPE")]
    src_version_type: Option<VersionType>,
    /// `release`, `rcN` or `aYYYYMMDD` [default: release]
    #[arg(long, value_name = "FORM")]
    dest_version: Option<String>,
    /// Keep only these GPU targets
    #[arg(long, value_name = "TARGETS")]
    multi_arch_targets: Option<String>,
    /// Only leave targets out
    #[arg(long, overrides_with = "no_skip_version_promotion")]
    skip_version_promotion: bool,
    /// Change the version, as is the default
    #[arg(long)]
    no_skip_version_promotion: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VersionType {
    Rc,
    A,
}

/// It has a version of its own; the script passes over it.
const BOOTSTRAP: &str = "rocm_bootstrap*";

impl Arguments {
    /// The command line of `rocwheel release promote`.
    pub(super) fn translated(self) -> Result<Translation> {
        let targets = self.multi_arch_targets.filter(|targets| !targets.trim().is_empty());
        let mut translation = Translation::new("release promote");
        translation.word(&self.input_dir);
        translation.option("--output", Some(&self.input_dir));
        if self.match_files != "*" {
            translation.option("--include", Some(&self.match_files));
        }
        translation.option("--ignore", Some(BOOTSTRAP));
        if self.skip_version_promotion {
            if targets.is_none() {
                return Err(Usage::new("`--skip-version-promotion` needs `--multi-arch-targets`").into());
            }
            let others = [
                ("--dest-version", self.dest_version.is_some()),
                ("--src-version-type", self.src_version_type.is_some()),
                ("--delete-old-on-success", self.delete_old_on_success),
            ];
            if let Some((flag, _)) = others.iter().find(|(_, is_given)| *is_given) {
                return Err(Usage::new(format!("`--skip-version-promotion` and `{flag}` exclude each other")).into());
            }
            // Packages that only lose targets keep their names.
            translation.flag("--force", true);
        } else {
            let include = if self.match_files == "*" { Vec::new() } else { vec![self.match_files.clone()] };
            let ignore = [BOOTSTRAP.to_owned()];
            let request =
                PromotionRequest { include: &include, ignore: &ignore, ..PromotionRequest::new(&self.input_dir) };
            let old = find_set_version(&request)?;
            check_type(&old, self.src_version_type.unwrap_or(VersionType::Rc))?;
            let form = self.dest_version.as_deref().unwrap_or("release");
            translation.option("--version", Some(new_version(&old, form)?.to_string()));
        }
        translation.option("--keep-targets", targets);
        translation.flag("--remove-old", self.delete_old_on_success);
        Ok(translation)
    }
}

fn check_type(old: &Version, wanted: VersionType) -> Result<(), Usage> {
    let kind = old.pre().map(|pre| pre.kind);
    let (is_it, name) = match wanted {
        VersionType::Rc => (kind == Some(PrereleaseKind::Rc), "rc"),
        VersionType::A => (kind == Some(PrereleaseKind::Alpha) || old.is_dev(), "a"),
    };
    if is_it {
        return Ok(());
    }
    Err(Usage::new(format!("the packages have version {old}, and `--src-version-type` is {name}"))
        .hint("name the type that they have: `--src-version-type a` or `rc`"))
}

/// The version in the form that the script's flag names.
fn new_version(old: &Version, form: &str) -> Result<Version, Usage> {
    let is_form = form == "release"
        || form.strip_prefix("rc").is_some_and(|number| number.parse::<u32>().is_ok())
        || form.strip_prefix('a').is_some_and(|date| date.len() == 8 && Date::strptime("%Y%m%d", date).is_ok());
    let suffix = if form == "release" { "" } else { form };
    let version = format!("{}{suffix}", old.only_release()).parse().ok().filter(|_| is_form);
    version.ok_or_else(|| {
        Usage::new(format!("`--dest-version {form}` is no form of a version"))
            .hint("the forms are `release`, `rcN`, and `aYYYYMMDD` with a date")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_versions() {
        let old = "7.13.0a20260430".parse().unwrap();
        for (form, version) in [("release", "7.13.0"), ("rc2", "7.13.0rc2"), ("a20260501", "7.13.0a20260501")] {
            assert_eq!(new_version(&old, form).unwrap().to_string(), version);
        }
        for wrong in ["", "rc", "a2026", "a20260230", "b1", "7.13.0"] {
            assert!(new_version(&old, wrong).is_err(), "{wrong}");
        }
        assert!(check_type(&old, VersionType::A).is_ok() && check_type(&old, VersionType::Rc).is_err());
    }
}
