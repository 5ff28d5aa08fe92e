//! Input: METADATA of a host wheel, whose extras require device wheels (kpack specification 6).
//! Output: METADATA that requires only the remaining device wheels.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_tables::TargetTable;
use rocwheel_wheel::requirement::{Belongs, WrittenRequirement, belongs};
use rocwheel_wheel::{Headers, canonical_name};

use super::Keep;

/// Prefix of the names of extras for a target.
const PREFIX: &str = "device-";
/// The extra that requires all device wheels.
const ALL: &str = "device-all";

/// The pruned extras of a wheel.
pub(super) struct Extras {
    /// The new METADATA; `None` if it stays unchanged.
    pub(super) metadata: Option<String>,
    /// Targets of extras that are kept.
    pub(super) kept: Vec<String>,
    /// Targets of extras that are removed.
    pub(super) dropped: Vec<String>,
}

/// Removes the extras of targets that are not kept, with their requirements.
///
/// A device wheel is kept if the extra of a kept target requires it. An extra of another target is
/// kept as well if all its device wheels are: for example the extra of `gfx950`, if only generic
/// code serves it and that code is kept for `gfx942`.
pub(super) fn prune(metadata: &str, keep: &Keep, table: &TargetTable) -> Extras {
    let mut headers = Headers::parse(metadata);
    let requirements = headers.all("Requires-Dist");
    let names = headers.all("Provides-Extra").into_iter().map(|extra| canonical_name(&extra));
    let extras = names.filter(|extra| target(extra).is_some()).map(|extra| {
        let own = requirements.iter().filter(|text| belongs(text, &extra) == Belongs::Alone);
        let required = own.filter_map(|text| distribution(text)).collect();
        (extra, required)
    });
    let extras: BTreeMap<String, BTreeSet<String>> = extras.collect();
    let taken = extras.keys().filter(|extra| {
        target(extra)
            .is_some_and(|name| keep.takes_family(name, table) || keep.takes_family(&name.replace('-', "_"), table))
    });
    let taken: BTreeSet<&String> = taken.collect();
    let left: BTreeSet<&String> = taken.iter().flat_map(|extra| &extras[*extra]).collect();
    let (kept, dropped): (Vec<&String>, Vec<&String>) = extras.keys().partition(|extra| {
        let required = &extras[*extra];
        taken.contains(extra) || (!required.is_empty() && required.iter().all(|name| left.contains(name)))
    });
    let [kept_targets, dropped_targets] = [&kept, &dropped]
        .map(|extras| extras.iter().filter_map(|extra| Some(target(extra)?.to_owned())).collect::<Vec<String>>());
    if dropped.is_empty() {
        return Extras { metadata: None, kept: kept_targets, dropped: dropped_targets };
    }
    let gone: BTreeSet<&String> = extras.values().flatten().filter(|name| !left.contains(name)).collect();
    headers.remove("Provides-Extra", |extra| dropped.contains(&&canonical_name(extra)));
    headers.remove("Requires-Dist", |text| {
        let is_gone = distribution(text).is_some_and(|name| gone.contains(&name));
        let of_extra = dropped.iter().any(|extra| belongs(text, extra) == Belongs::Alone);
        // A wheel variant has markers with the properties of the machine.
        let of_variant = dropped_targets.iter().any(|target| text.contains(&format!(" :: {target}\" in variant_")));
        is_gone || of_extra || of_variant
    });
    if kept.is_empty() {
        headers.remove("Provides-Extra", |extra| canonical_name(extra) == ALL);
    }
    Extras { metadata: Some(headers.to_string()), kept: kept_targets, dropped: dropped_targets }
}

fn target(extra: &str) -> Option<&str> {
    extra.strip_prefix(PREFIX).filter(|name| name.starts_with("gfx"))
}

fn distribution(requirement: &str) -> Option<String> {
    WrittenRequirement::parse(requirement).ok().map(|requirement| requirement.name())
}

/// Removes targets from `variant.json`; `None` if it stays unchanged or has an unknown form.
pub(super) fn variant(text: &str, dropped: &[String]) -> Option<String> {
    fn remove(value: &mut serde_json::Value, dropped: &[String]) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        serde_json::Value::Array(values) if name == "gfx_arch" => {
                            values.retain(|value| {
                                value.as_str().is_none_or(|one| !dropped.iter().any(|gone| gone == one))
                            });
                        }
                        value => remove(value, dropped),
                    }
                }
            }
            serde_json::Value::Array(values) => values.iter_mut().for_each(|value| remove(value, dropped)),
            _ => {}
        }
    }
    let before: serde_json::Value = serde_json::from_str(text).ok()?;
    let mut after = before.clone();
    remove(&mut after, dropped);
    (after != before).then(|| format!("{after:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = "Metadata-Version: 2.1\r\nName: x\r\nRequires-Dist: numpy\r\nProvides-Extra: other\r\n\
        Requires-Dist: scipy; extra == 'other'\r\nProvides-Extra: device-gfx942\r\n\
        Requires-Dist: x-device-gfx942 == 1; extra == \"device-gfx942\"\r\n\
        Requires-Dist: x-device-gfx9-4-generic == 1; extra == \"device-gfx942\"\r\n\
        Requires-Dist: x-device-gfx942 == 1; \"amd :: gfx_arch :: gfx942\" in variant_properties\r\n\
        Provides-Extra: device-gfx950\r\n\
        Requires-Dist: x-device-gfx9-4-generic == 1; extra == \"device-gfx950\"\r\n\
        Provides-Extra: device-gfx1100\r\n\
        Requires-Dist: x-device-gfx1100 == 1; extra == \"device-gfx1100\"\r\n\
        Requires-Dist: x-device-gfx11 == 1; extra == \"device-gfx1100\"\r\n\
        Requires-Dist: x-device-gfx11 == 1; \"amd :: gfx_arch :: gfx1100\" in variant_properties\r\n\
        Provides-Extra: device-gfx1101\r\n\
        Requires-Dist: x-device-gfx1101 == 1; extra == \"device-gfx1101\"\r\n\
        Requires-Dist: x-device-gfx11 == 1; extra == \"device-gfx1101\"\r\n\
        Provides-Extra: device-all\r\n\
        Requires-Dist: x-device-gfx942 == 1; extra == \"device-all\"\r\n\
        Requires-Dist: x-device-gfx1100 == 1; extra == \"device-all\"\r\n\
        Requires-Dist: x-device-gfx1101 == 1; extra == \"device-all\"\r\n\
        Requires-Dist: x-device-gfx9-4-generic == 1; extra == \"device-all\"\r\n\
        Requires-Dist: x-device-gfx11 == 1; extra == \"device-all\"\r\n\r\nText\r\n";

    fn pruned(list: &str) -> Extras {
        let table = TargetTable::embedded();
        prune(METADATA, &Keep::parse(list, &table).unwrap(), &table)
    }

    fn lines(extras: &Extras) -> Vec<String> {
        let text = extras.metadata.clone().unwrap();
        assert!(text.ends_with("\r\n\r\nText\r\n"));
        let line = |line: &str| line.split_once(": ").map(|(_, value)| value.replace("x-device-", ""));
        text.lines().filter_map(line).skip(2).collect()
    }

    #[test]
    fn extras_of_what_is_left_stay() {
        let extras = pruned("gfx1101");
        assert_eq!(
            (extras.kept.join(" "), extras.dropped.join(" ")),
            ("gfx1101".into(), "gfx1100 gfx942 gfx950".into())
        );
        let expected = [
            "numpy",
            "other",
            "scipy; extra == 'other'",
            "device-gfx1101",
            "gfx1101 == 1; extra == \"device-gfx1101\"",
            "gfx11 == 1; extra == \"device-gfx1101\"",
            "device-all",
            "gfx1101 == 1; extra == \"device-all\"",
            "gfx11 == 1; extra == \"device-all\"",
        ];
        assert_eq!(lines(&extras), expected);
    }

    #[test]
    fn generic_code_that_stays_serves_other_targets_too() {
        let extras = pruned("gfx942:xnack+");
        assert_eq!(
            (extras.kept.join(" "), extras.dropped.join(" ")),
            ("gfx942 gfx950".into(), "gfx1100 gfx1101".into())
        );
        let lines = lines(&extras);
        assert!(lines.contains(&"device-gfx950".to_owned()) && !lines.iter().any(|line| line.contains("gfx11")));
        assert!(lines.contains(&"gfx942 == 1; \"amd :: gfx_arch :: gfx942\" in variant_properties".to_owned()));
    }

    #[test]
    fn nothing_changes_where_nothing_goes() {
        assert!(pruned("gfx942;gfx1100;gfx1101").metadata.is_none());
        let table = TargetTable::embedded();
        let keep = Keep::parse("gfx942", &table).unwrap();
        let other = prune("Name: x\nProvides-Extra: device-cuda\nProvides-Extra: gfx906\n\n", &keep, &table);
        assert!(other.metadata.is_none() && other.kept.is_empty() && other.dropped.is_empty());
    }

    #[test]
    fn variants_lose_the_same_targets() {
        let text = "{\"variants\": {\"amd\": {\"amd\": {\"gfx_arch\": [\"gfx942\", \"gfx1100\"]}}}, \"x\": [1]}";
        let expected = serde_json::json!({"variants": {"amd": {"amd": {"gfx_arch": ["gfx942"]}}}, "x": [1]});
        let pruned = variant(text, &["gfx1100".to_owned()]).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&pruned).unwrap(), expected);
        assert_eq!(variant(text, &["gfx906".to_owned()]), None);
        assert_eq!(variant("no JSON", &["gfx906".to_owned()]), None);
    }
}
