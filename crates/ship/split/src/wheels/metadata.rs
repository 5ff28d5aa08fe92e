//! Input: the names of a host wheel and its device wheels. Output: the lines of METADATA that
//! connect them (kpack specification 6), and the METADATA and WHEEL of device wheels.

use std::collections::BTreeSet;
use std::str::FromStr as _;

use pep440_rs::VersionSpecifiers;
use rocwheel_progress::{Exit, Failure};
use rocwheel_tables::device_packages::{self, DevicePackages, PackageLevel};
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{Description, Headers, Metadata, WheelName, raise_metadata_version};
use serde::Serialize;

/// The placeholder for the target in a requirement of device wheels.
pub const TARGET_PLACEHOLDER: &str = "@GFXARCH@";

/// An extra of the host wheel and the distributions it requires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceExtra {
    /// `device-gfx942`, or `device-all`.
    pub name: String,
    /// The target of the extra; `None` for `device-all`.
    pub target: Option<String>,
    /// Required distributions: the one for the target itself first, then those for more targets.
    pub distributions: Vec<String>,
}

/// Returns the extras of a host wheel for the packages `keys`: one for each target, one for each
/// generic target and each target that can run its code, and `device-all`. Families have no extras:
/// the extras of their targets require their packages too.
pub(super) fn extras(prefix: &str, keys: &BTreeSet<String>, wanted: &dyn Fn(&str) -> bool) -> Vec<DeviceExtra> {
    let families = DevicePackages::embedded();
    let mut targets: BTreeSet<&str> = BTreeSet::new();
    for key in keys {
        match families.level(key) {
            PackageLevel::Target => drop(targets.insert(key)),
            PackageLevel::Generic => {
                targets.insert(key);
                targets.extend(families.runs(key).iter().map(String::as_str).filter(|target| wanted(target)));
            }
            PackageLevel::SubFamily | PackageLevel::Family => {}
        }
    }
    let mut targets: Vec<&str> = targets.into_iter().collect();
    targets.sort_by(|left, right| families.compare(left, right));
    let mut extras: Vec<DeviceExtra> = targets
        .into_iter()
        .map(|target| DeviceExtra {
            name: device_packages::extra(target),
            target: Some(target.to_owned()),
            distributions: distributions(prefix, families.chain(target).iter().filter(|key| keys.contains(*key))),
        })
        .collect();
    let mut all: Vec<&String> = keys.iter().collect();
    all.sort_by(|left, right| families.compare(left, right));
    let distributions = distributions(prefix, all.into_iter());
    extras.push(DeviceExtra { name: "device-all".to_owned(), target: None, distributions });
    extras
}

fn distributions<'a>(prefix: &str, keys: impl Iterator<Item = &'a String>) -> Vec<String> {
    keys.map(|key| device_packages::distribution(prefix, key)).collect()
}

/// The conditions under which the host wheel requires device wheels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Markers {
    Extras,
    /// By extras and by `variant_properties` (PEP 825, a draft): an installer that knows the GPU
    /// selects device wheels without an extra.
    Variant,
}

/// Returns the headers to add to METADATA of the host wheel: name and value.
pub(super) fn host_lines(
    extras: &[DeviceExtra],
    version: &str,
    requires: &[String],
    markers: Markers,
) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&'static str, String)> =
        requires.iter().map(|requirement| ("Requires-Dist", requirement.clone())).collect();
    for extra in extras {
        lines.push(("Provides-Extra", extra.name.clone()));
        for distribution in &extra.distributions {
            lines.push(("Requires-Dist", format!("{distribution} == {version}; extra == \"{}\"", extra.name)));
        }
        let Some(value) = extra.target.as_deref().filter(|_| markers == Markers::Variant) else { continue };
        if super::variant::is_value(value) {
            for distribution in &extra.distributions {
                let marker = format!("\"{}\" in variant_properties", super::variant::property(value));
                lines.push(("Requires-Dist", format!("{distribution} == {version}; {marker}")));
            }
        }
    }
    lines
}

/// Returns METADATA of the host wheel: the input's with the lines added at the end of its headers.
pub(super) fn host_text(input: &Headers, lines: &[(&'static str, String)]) -> Result<String, Failure> {
    let mut headers = input.clone();
    raise_metadata_version(&mut headers, lines.iter().map(|(name, _)| *name))?;
    headers.extend(lines.iter().map(|(name, value)| (*name, value.as_str())))?;
    Ok(headers.to_string())
}

/// The fields in METADATA of a device wheel that do not come from the host's.
pub(super) struct Device<'a> {
    pub(super) distribution: &'a str,
    pub(super) version: &'a str,
    pub(super) summary: String,
    pub(super) description: String,
    pub(super) requires: &'a [String],
    /// Names of licence files below `dist-info/licenses/`.
    pub(super) licenses: &'a [String],
}

/// Returns METADATA of a device wheel. Licence, Python versions and addresses are the host's,
/// because the code comes from there.
pub(super) fn device_text(host: &Headers, device: &Device<'_>) -> Result<String, Failure> {
    let expression = host.get("License-Expression");
    let mut classifiers = host.all("Classifier");
    classifiers.retain(|value| expression.is_none() && value.starts_with("License ::"));
    let metadata = Metadata {
        summary: Some(device.summary.clone()),
        license_expression: expression.clone(),
        classifiers,
        project_urls: host
            .all("Project-URL")
            .iter()
            .filter_map(|value| value.split_once(','))
            .map(|(label, address)| (label.trim().to_owned(), address.trim().to_owned()))
            .filter(|(label, address)| !label.is_empty() && !address.is_empty() && label.chars().count() <= 32)
            .collect(),
        requires_python: host.get("Requires-Python").filter(|value| !value.is_empty()),
        requires_dist: device.requires.to_vec(),
        description: Some(Description { content_type: "text/plain".to_owned(), text: device.description.clone() }),
        ..Metadata::default()
    };
    Ok(metadata.text(device.distribution, device.version, device.licenses)?)
}

/// Returns WHEEL of a device wheel: the tags of the file name, and never pure, so that it is
/// installed beside the host's libraries.
pub(super) fn wheel_text(name: &WheelName) -> String {
    let mut text =
        format!("Wheel-Version: 1.0\nGenerator: rocwheel {}\nRoot-Is-Purelib: false\n", env!("CARGO_PKG_VERSION"));
    for tag in name.tags() {
        text.push_str(&format!("Tag: {tag}\n"));
    }
    if let Some(build) = &name.build {
        text.push_str(&format!("Build: {build}\n"));
    }
    text
}

/// Returns the requirements of a device wheel that come from templates. A template with the
/// placeholder applies to packages of one target only: other projects have no packages for a
/// family.
pub(super) fn from_templates(templates: &[String], key: &str) -> Vec<String> {
    let one = DevicePackages::embedded().level(key) == PackageLevel::Target;
    let target = device_packages::distribution("", key);
    let target = target.trim_start_matches('-');
    let templates = templates.iter().filter(|template| one || !template.contains(TARGET_PLACEHOLDER));
    templates.map(|template| template.replace(TARGET_PLACEHOLDER, target)).collect()
}

/// Returns the name and the canonical version of a wheel.
pub(super) fn identity(wheel: &Wheel, headers: &Headers) -> Result<(String, String), Failure> {
    let [name, version] = ["Name", "Version"].map(|field| {
        let value = headers.get(field).filter(|value| !value.is_empty());
        value.ok_or_else(|| malformed(wheel, format!("its METADATA has no {field}")))
    });
    let (name, version) = (name?, version?);
    rocwheel_wheel::check_name(&name)?;
    let parsed = pep440_rs::Version::from_str(&version);
    let canonical =
        parsed.map_err(|_| malformed(wheel, format!("its METADATA has the version `{version}`, which is none")))?;
    Ok((name, canonical.to_string()))
}

fn malformed(wheel: &Wheel, reason: String) -> rocwheel_wheel::Error {
    rocwheel_archive::Error::Malformed { path: wheel.path().to_owned(), reason }.into()
}

/// Checks that installers can parse a requirement (PEP 508): a name, extras, versions or an
/// address, a marker.
pub(super) fn check_requirement(template: &str) -> Result<(), Failure> {
    let text = template.replace(TARGET_PLACEHOLDER, "gfx942");
    requirement_fault(&text).map_or(Ok(()), |reason| {
        let text = format!("`{template}` is not a requirement: {reason}");
        Err(Failure::message(text).with_exit(Exit::Usage))
    })
}

fn requirement_fault(text: &str) -> Option<String> {
    let (head, marker) = text.split_once(';').map_or((text, None), |(head, marker)| (head, Some(marker)));
    if marker.is_some_and(|marker| marker.trim().is_empty()) {
        return Some("its marker is empty".to_owned());
    }
    let head = head.trim();
    let end = head.find(|character: char| !character.is_ascii_alphanumeric() && !"-_.".contains(character));
    let end = end.unwrap_or(head.len());
    let (name, rest) = head.split_at(end);
    if rocwheel_wheel::check_name(name).is_err() {
        return Some(format!("`{name}` is not a distribution name"));
    }
    let mut rest = rest.trim();
    if let Some(inside) = rest.strip_prefix('[') {
        let Some((extras, after)) = inside.split_once(']') else { return Some("a bracket is not closed".to_owned()) };
        let mut extras = extras.split(',').map(str::trim).filter(|extra| !extra.is_empty());
        if let Some(extra) = extras.find(|extra| rocwheel_wheel::check_name(extra).is_err()) {
            return Some(format!("`{extra}` is not an extra"));
        }
        rest = after.trim();
    }
    if let Some(address) = rest.strip_prefix('@') {
        return address.trim().is_empty().then(|| "its address is empty".to_owned());
    }
    let versions = rest.strip_prefix('(').and_then(|inside| inside.strip_suffix(')')).unwrap_or(rest);
    let error = VersionSpecifiers::from_str(versions).err()?;
    Some(error.to_string().lines().next().unwrap_or("").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&str]) -> BTreeSet<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn a_target_asks_for_its_families_and_families_for_nothing() {
        let keys = keys(&["gfx942", "gfx1201", "gfx1100", "gfx12_0", "gfx11", "gfx1151"]);
        let extras = extras("amd-torch-device", &keys, &|_| true);
        let shown: Vec<String> =
            extras.iter().map(|extra| format!("{}: {}", extra.name, extra.distributions.join(" "))).collect();
        assert_eq!(
            shown,
            [
                "device-gfx942: amd-torch-device-gfx942",
                "device-gfx1100: amd-torch-device-gfx1100 amd-torch-device-gfx11",
                "device-gfx1151: amd-torch-device-gfx1151 amd-torch-device-gfx11",
                "device-gfx1201: amd-torch-device-gfx1201 amd-torch-device-gfx12-0",
                "device-all: amd-torch-device-gfx942 amd-torch-device-gfx1100 amd-torch-device-gfx1151 \
                 amd-torch-device-gfx1201 amd-torch-device-gfx12-0 amd-torch-device-gfx11",
            ]
        );
    }

    #[test]
    fn generic_code_is_for_every_target_that_runs_it() {
        let all = extras("x", &keys(&["gfx942", "gfx9-4-generic"]), &|_| true);
        let shown: Vec<String> =
            all.iter().map(|extra| format!("{}: {}", extra.name, extra.distributions.join(" "))).collect();
        assert_eq!(
            shown,
            [
                "device-gfx942: x-gfx942 x-gfx9-4-generic",
                "device-gfx950: x-gfx9-4-generic",
                "device-gfx9-4-generic: x-gfx9-4-generic",
                "device-all: x-gfx942 x-gfx9-4-generic",
            ]
        );
        let some = extras("x", &keys(&["gfx942", "gfx9-4-generic"]), &|target| target == "gfx942");
        assert!(!some.iter().any(|extra| extra.name == "device-gfx950"));
    }

    #[test]
    fn host_metadata_changes_at_the_end_of_its_headers_only() {
        let input = Headers::parse("Metadata-Version:  2.0\r\nName: x\r\nRequires-Dist: numpy\r\n\r\nText\r\n");
        let extras = extras("x-device", &keys(&["gfx942"]), &|_| true);
        let lines = host_lines(&extras, "1.0+rocm7", &["rocm-bootstrap".to_owned()], Markers::Extras);
        let text = host_text(&input, &lines).unwrap();
        assert_eq!(
            text,
            "Metadata-Version: 2.1\r\nName: x\r\nRequires-Dist: numpy\r\nRequires-Dist: rocm-bootstrap\r\n\
             Provides-Extra: device-gfx942\r\n\
             Requires-Dist: x-device-gfx942 == 1.0+rocm7; extra == \"device-gfx942\"\r\n\
             Provides-Extra: device-all\r\n\
             Requires-Dist: x-device-gfx942 == 1.0+rocm7; extra == \"device-all\"\r\n\r\nText\r\n"
        );
        let variant = host_lines(&extras, "1.0", &[], Markers::Variant);
        assert!(variant.contains(&(
            "Requires-Dist",
            "x-device-gfx942 == 1.0; \"amd :: gfx_arch :: gfx942\" in variant_properties".to_owned()
        )));
    }

    #[test]
    fn templates_with_a_target_are_for_targets() {
        let templates = ["rocm-sdk-device-@GFXARCH@ == 7.1".to_owned(), "numpy".to_owned()];
        assert_eq!(from_templates(&templates, "gfx942"), ["rocm-sdk-device-gfx942 == 7.1", "numpy"]);
        assert_eq!(from_templates(&templates, "gfx12_0"), ["numpy"]);
        assert_eq!(from_templates(&templates, "gfx9-4-generic"), ["numpy"]);
    }

    #[test]
    fn requirements_are_checked_before_they_are_written() {
        for good in [
            "numpy",
            "rocm-sdk-device-@GFXARCH@ == 7.1",
            "a>=1,<2",
            "a[b,c] (>=1.0) ; python_version >= '3.10'",
            "a @ https://example.org/a.whl",
            "a==1.0+local.1",
        ] {
            check_requirement(good).unwrap_or_else(|error| panic!("{good}: {error}"));
        }
        for bad in ["", "== 1", "a b", "a ==", "a == 1 ;", "a[b", "-a", "a @ ", "a => 1", "@GFXARCH@-"] {
            assert!(check_requirement(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn device_metadata_takes_over_what_is_about_the_code() {
        let host = Headers::parse(
            "Name: x\nLicense-Expression: MIT\nClassifier: License :: OSI\nRequires-Python: >=3.10\n\
             Project-URL: Homepage, https://example.org\nRequires-Dist: numpy\n\n",
        );
        let requires = ["x == 1.0".to_owned()];
        let device = Device {
            distribution: "x-device-gfx942",
            version: "1.0",
            summary: "AMD device kernels (gfx942) for x".to_owned(),
            description: "Text.".to_owned(),
            requires: &requires,
            licenses: &["LICENSE".to_owned()],
        };
        assert_eq!(
            device_text(&host, &device).unwrap(),
            "Metadata-Version: 2.4\nName: x-device-gfx942\nVersion: 1.0\nSummary: AMD device kernels (gfx942) for x\n\
             License-Expression: MIT\nLicense-File: LICENSE\nProject-URL: Homepage, https://example.org\n\
             Requires-Python: >=3.10\nRequires-Dist: x == 1.0\nDescription-Content-Type: text/plain\n\nText.\n"
        );
        let name: WheelName = "x-1.0-2-cp312-abi3-manylinux_2_31_x86_64.manylinux_2_35_x86_64.whl".parse().unwrap();
        assert!(wheel_text(&name).ends_with(
            "Root-Is-Purelib: false\nTag: cp312-abi3-manylinux_2_31_x86_64\nTag: cp312-abi3-manylinux_2_35_x86_64\n\
             Build: 2\n"
        ));
    }
}
