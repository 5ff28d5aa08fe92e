//! Input: the name of a distribution. Output: its glibc.

use serde::Deserialize;

#[derive(Deserialize)]
struct Systems {
    system: Vec<System>,
}

#[derive(Deserialize)]
struct System {
    names: Vec<String>,
    glibc: String,
}

/// The version of glibc of a distribution (`Debian 12`, `ubuntu24.04`), or in the text itself
/// (`glibc2.35`, `manylinux_2_28`).
pub fn glibc_of(text: &str) -> Option<(u16, u16)> {
    let systems: Systems = toml::from_str(include_str!("../../../../data/systems.toml")).expect("a test parses it");
    let wanted = squeezed(text);
    let known = systems.system.iter().find(|system| system.names.iter().any(|name| squeezed(name) == wanted));
    let version = if let Some(system) = known {
        system.glibc.clone()
    } else {
        let lower = text.to_lowercase().replace('_', ".");
        let rest = ["glibc", "manylinux"].iter().find_map(|word| lower.strip_prefix(word))?;
        rest.trim_start_matches(['.', '-', ' ']).to_owned()
    };
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn squeezed(text: &str) -> String {
    text.to_lowercase().replace([' ', '-', '_'], "")
}

/// The names that [`glibc_of`] knows.
pub fn known_systems() -> Vec<String> {
    let systems: Systems = toml::from_str(include_str!("../../../../data/systems.toml")).expect("a test parses it");
    systems.system.into_iter().flat_map(|system| system.names).collect()
}

#[test]
fn systems_are_found_as_people_write_them() {
    for (text, glibc) in [
        ("debian12", Some((2, 36))),
        ("Ubuntu 24.04", Some((2, 39))),
        ("opensuse-leap15", Some((2, 31))),
        ("openSUSE Leap 15.6", Some((2, 38))),
        ("glibc2.35", Some((2, 35))),
        ("manylinux_2_28", Some((2, 28))),
        ("debian99", None),
        ("glibc", None),
    ] {
        assert_eq!(glibc_of(text), glibc, "{text}");
    }
    assert!(known_systems().len() > 10);
}
