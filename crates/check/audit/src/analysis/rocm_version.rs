//! Input: a wheel that needs ROCm. Output: the ROCm version that it was built for, as a value of
//! `--rocm-version`.

use std::collections::BTreeSet;

use rocwheel_loader::site::Distribution;
use rocwheel_tables::providers::FIRST_ON_INDEXES;

use super::Context;

/// The version, as exactly as the wheel gives it; `None` if METADATA already requires ROCm or
/// nothing gives a version.
///
/// The sources, in this order, are the ROCm of the set, the local version (`+rocm7.2.4`), search
/// paths (`/opt/rocm-7.2.4/lib`), the name (`rocm-5-0`, `rocm60`) and the SONAME of HIP
/// (`libamdhip64.so.7`), which gives only `7.*`.
pub(crate) fn rocm(context: &Context<'_>, wheel: usize) -> Option<String> {
    let distribution = &context.site.distributions[wheel];
    if requires_rocm(context, wheel) {
        return None;
    }
    sdk(context)
        .map(Distribution::version)
        .or_else(|| digits_behind(distribution.version().split_once('+')?.1, "rocm"))
        .or_else(|| of_search_paths(context, wheel))
        .or_else(|| of_name(&distribution.name))
        .or_else(|| of_hip(context, wheel))
}

/// The ROCm of the set.
fn sdk<'a>(context: &Context<'a>) -> Option<&'a Distribution> {
    context.site.distributions.iter().find(|other| ["rocm", "rocm-sdk-core"].contains(&other.name.as_str()))
}

/// `true` if the set or an index may have packages of this ROCm version.
pub(crate) fn may_have_packages(context: &Context<'_>, version: &str) -> bool {
    let major = version.split('.').next().and_then(|major| major.parse::<u64>().ok());
    sdk(context).is_some() || major.is_none_or(|major| major >= FIRST_ON_INDEXES)
}

/// `true` if a distribution is ROCm itself, whose versions are releases of ROCm.
pub(crate) fn is_rocm(name: &str) -> bool {
    name == "rocm" || name.starts_with("rocm-sdk-")
}

fn requires_rocm(context: &Context<'_>, wheel: usize) -> bool {
    context.declared.wheels[wheel].all.iter().any(|requirement| is_rocm(&requirement.name))
}

/// Reads `7.2.4` from `x.rocm7.2.4`, and `7.2.*` from `rocm7.2`, which fits any patch release.
fn digits_behind(text: &str, word: &str) -> Option<String> {
    let rest = &text[text.find(word)? + word.len()..];
    let rest = rest.trim_start_matches('-');
    let end = rest.find(|next: char| !next.is_ascii_digit() && next != '.').unwrap_or(rest.len());
    let parts: Vec<&str> = rest[..end].split('.').filter(|part| !part.is_empty()).collect();
    match parts[..] {
        [number] if number.len() > 1 => of_figures(number),
        [major] => Some(format!("{major}.*")),
        [major, minor] => Some(format!("{major}.{minor}.*")),
        [major, minor, patch, ..] => Some(format!("{major}.{minor}.{patch}")),
        [] => None,
    }
}

/// Reads `60` as 6.0, `624` as 6.2.4, `10` as 10 and `101` as 10.1; `None` if that is a guess.
///
/// No wheel was built for ROCm 1, so a version that begins with 1 has a major version of two
/// figures. One that begins with 2 or 3 may be an old release or one to come.
fn of_figures(number: &str) -> Option<String> {
    let figures: Vec<char> = number.chars().collect();
    match figures[..] {
        ['1', second, minor] => Some(format!("1{second}.{minor}.*")),
        // Four figures are 10.1.0 or 10.10.
        ['1', second] | ['1', second, _, _] => Some(format!("1{second}.*")),
        ['2' | '3', ..] => None,
        [major, minor] => Some(format!("{major}.{minor}.*")),
        [major, minor, patch] => Some(format!("{major}.{minor}.{patch}")),
        _ => None,
    }
}

/// The version of `/opt/rocm-VERSION` in search paths; `None` if they name several.
fn of_search_paths(context: &Context<'_>, wheel: usize) -> Option<String> {
    let paths = context.native(wheel).filter_map(|(_, object)| object.elf.search_path());
    let entries = paths.flat_map(|path| path.split(':'));
    let folders = entries.filter_map(|entry| entry.split('/').find(|folder| folder.starts_with("rocm-")));
    let versions: BTreeSet<String> = folders.filter_map(|folder| digits_behind(folder, "rocm-")).collect();
    if versions.len() == 1 { versions.into_iter().next() } else { None }
}

/// The version in a name such as `cupy-rocm-5-0`, `jax-rocm60-plugin` or `jax-rocm10-plugin`.
fn of_name(name: &str) -> Option<String> {
    let rest = &name[name.find("rocm")? + "rocm".len()..];
    let parts = rest.trim_start_matches('-').split('-');
    let numbers = parts.take_while(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let numbers: Vec<&str> = numbers.collect();
    match numbers[..] {
        [one] if one.len() > 1 => of_figures(one),
        [] => None,
        _ => digits_behind(&format!("rocm{}", numbers.join(".")), "rocm"),
    }
}

/// The major version in HIP's SONAME.
fn of_hip(context: &Context<'_>, wheel: usize) -> Option<String> {
    let needed = context.native(wheel).flat_map(|(_, object)| &object.elf.needed);
    let majors: BTreeSet<&str> = needed.filter_map(|name| name.strip_prefix("libamdhip64.so.")).collect();
    let [major] = Vec::from_iter(majors)[..] else { return None };
    major.bytes().all(|byte| byte.is_ascii_digit()).then(|| format!("{major}.*"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_say_it() {
        assert_eq!(of_name("cupy-rocm-5-0").as_deref(), Some("5.0.*"));
        assert_eq!(of_name("jax-rocm60-plugin").as_deref(), Some("6.0.*"));
        assert_eq!(of_name("jax-rocm7-plugin").as_deref(), Some("7.*"));
        assert_eq!(of_name("jax-rocm711-plugin").as_deref(), Some("7.1.1"));
        assert_eq!(of_name("cupy-rocm-4-0").as_deref(), Some("4.0.*"));
        assert_eq!(of_name("gafime-rocm"), None);
        assert_eq!(digits_behind("rocm7.2.4", "rocm").as_deref(), Some("7.2.4"));
        assert_eq!(digits_behind("cpu.rocm7.2", "rocm").as_deref(), Some("7.2.*"));
        assert_eq!(digits_behind("rocm624", "rocm").as_deref(), Some("6.2.4"));
        assert_eq!(digits_behind("rocm42", "rocm").as_deref(), Some("4.2.*"));
        assert_eq!(digits_behind("rocm", "rocm"), None);
        assert_eq!(digits_behind("rocm-6.3", "rocm-").as_deref(), Some("6.3.*"));
    }

    #[test]
    fn a_major_version_may_have_two_figures() {
        for (name, version) in [
            ("jax-rocm10-plugin", Some("10.*")),
            ("jax-rocm10-pjrt", Some("10.*")),
            ("jax-rocm11-plugin", Some("11.*")),
            ("jax-rocm101-plugin", Some("10.1.*")),
            ("jax-rocm-10-1-plugin", Some("10.1.*")),
            // 10.1.0 or 10.10.
            ("jax-rocm1010-plugin", Some("10.*")),
            // 2.0 or 20.
            ("jax-rocm20-plugin", None),
            ("jax-rocm310-plugin", None),
            ("jax-rocm20260811-plugin", None),
        ] {
            assert_eq!(of_name(name).as_deref(), version, "{name}");
        }
        assert_eq!(digits_behind("rocm10.1.0a20260811", "rocm").as_deref(), Some("10.1.0"));
        assert_eq!(digits_behind("rocm-10", "rocm-").as_deref(), Some("10.*"));
    }
}
