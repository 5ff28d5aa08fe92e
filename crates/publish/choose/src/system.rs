//! Input: the name of a distribution. Output: its glibc.

use serde::Deserialize;

#[derive(Deserialize)]
struct Systems {
    system: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    names: Vec<String>,
    glibc: String,
}

/// A system that packages are installed on.
#[derive(Debug, Clone)]
pub(crate) struct System {
    pub(crate) name: String,
    /// `None` for Windows.
    pub(crate) glibc: Option<(u16, u16)>,
}

impl System {
    pub(crate) fn windows() -> System {
        System { name: "Windows".to_owned(), glibc: None }
    }

    pub(crate) fn of_glibc(glibc: (u16, u16)) -> System {
        let own = systems().into_iter().find(|system| system.glibc == Some(glibc));
        own.unwrap_or_else(|| System { name: format!("glibc {}.{}", glibc.0, glibc.1), glibc: Some(glibc) })
    }
}

/// The known distributions, one for each glibc, the oldest first, and Windows.
pub(crate) fn systems() -> Vec<System> {
    let table: Systems = toml::from_str(include_str!("../../../../data/systems.toml")).expect("a test parses it");
    let named =
        |row: Row| System { glibc: version_of(&row.glibc), name: row.names.into_iter().next().unwrap_or_default() };
    let mut all: Vec<System> = table.system.into_iter().map(named).collect();
    all.sort_by_key(|system| system.glibc);
    all.dedup_by_key(|system| system.glibc);
    all.push(System::windows());
    all
}

fn version_of(text: &str) -> Option<(u16, u16)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
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
    version_of(&version)
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
