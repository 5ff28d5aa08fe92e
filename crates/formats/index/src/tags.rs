//! Input: a target and the tags of a wheel. Output: the rank of the wheel among those that an
//! installer accepts.
//!
//! The tags and their order are those of CPython in the platform compatibility tags specification
//! (PEP 425, 600), as `packaging.tags` lists them: the exact ABI first, then `abi3` and none, then
//! older Pythons; newer platforms first.

use rocwheel_wheel::{Platform, Tag, WheelName};

use crate::requirement::InstallTarget;

/// The minor version of the oldest glibc that a manylinux tag names (PEP 600).
const OLDEST: u16 = 5;
/// Rank of `linux_x86_64`, after every other known platform.
const LAST_PLATFORM: u32 = 1 << 16;
/// Rank of `any`, after all platforms of this system.
const ANY: u32 = 1 << 20;

/// The rank of a wheel; the smallest is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagRank(u32, u32);

/// The best rank of the tags of a wheel; `None` if an installer refuses it.
pub fn rank(target: &InstallTarget, name: &WheelName) -> Option<TagRank> {
    name.tags().iter().filter_map(|tag| rank_of(target, tag)).min()
}

fn rank_of(target: &InstallTarget, tag: &Tag) -> Option<TagRank> {
    let platform = platform(target, &tag.platform)?;
    let python = &target.python;
    let interpreter = format!("cp{}{}", python.major, python.minor);
    let own_abi = if python.free_threaded { format!("{interpreter}t") } else { interpreter.clone() };
    let is_any = platform == ANY;
    let order = match tag.abi.as_str() {
        abi if !is_any && abi == own_abi && tag.python == interpreter => 0,
        "abi3" if !is_any && !python.free_threaded => {
            // The stable ABI exists since 3.2.
            let minor = minor(tag, "cp", python.major).filter(|minor| (2..=python.minor).contains(minor))?;
            match python.minor - minor {
                0 => 1,
                older => 2 + u32::from(older),
            }
        }
        "none" if tag.python == interpreter => 2,
        "none" if tag.python == format!("py{}", python.major) => 1001,
        "none" => {
            let minor = minor(tag, "py", python.major).filter(|minor| *minor <= python.minor)?;
            match python.minor - minor {
                0 => 1000,
                older => 1001 + u32::from(older),
            }
        }
        _ => return None,
    };
    Some(if is_any { TagRank(ANY + order, 0) } else { TagRank(order, platform) })
}

/// The 12 of `cp312`, for `cp` and 3.
fn minor(tag: &Tag, interpreter: &str, major: u16) -> Option<u16> {
    tag.python.strip_prefix(interpreter)?.strip_prefix(&major.to_string())?.parse().ok()
}

fn platform(target: &InstallTarget, tag: &str) -> Option<u32> {
    match (target.platform, tag) {
        (_, "any") => Some(ANY),
        (Platform::Windows, "win_amd64") => Some(0),
        (Platform::Linux, "linux_x86_64") => Some(LAST_PLATFORM),
        (Platform::Linux, tag) => {
            let wanted = match tag.strip_suffix("_x86_64")? {
                "manylinux1" => (2, 5),
                "manylinux2010" => (2, 12),
                "manylinux2014" => (2, 17),
                other => {
                    let (major, minor) = other.strip_prefix("manylinux_")?.split_once('_')?;
                    (major.parse().ok()?, minor.parse().ok()?)
                }
            };
            let fits = wanted >= (2, OLDEST) && target.glibc.is_none_or(|glibc| wanted <= glibc);
            fits.then(|| LAST_PLATFORM - 1 - u32::from(wanted.1))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINUX: (Platform, Option<(u16, u16)>) = (Platform::Linux, Some((2, 28)));

    fn order(python: &str, (platform, glibc): (Platform, Option<(u16, u16)>), tags: &str) -> Vec<Option<TagRank>> {
        let target = InstallTarget { python: python.parse().unwrap(), platform, glibc };
        tags.split(' ').map(|tag| rank(&target, &format!("a-1-{tag}.whl").parse().unwrap())).collect()
    }

    #[test]
    fn tags_are_taken_in_the_order_of_installers() {
        let tags = "cp312-cp312-manylinux_2_28_x86_64 \
                    cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64 cp312-cp312-linux_x86_64 \
                    cp312-abi3-manylinux2014_x86_64 cp312-none-manylinux1_x86_64 \
                    cp311-abi3-manylinux_2_28_x86_64 cp38-abi3-manylinux_2_5_x86_64 \
                    py312-none-linux_x86_64 py3-none-manylinux_2_28_x86_64 \
                    py30-none-manylinux_2_28_x86_64 cp312-none-any py2.py3-none-any";
        let found = order("3.12", LINUX, tags);
        assert!(found.iter().all(Option::is_some), "{found:?}");
        assert!(found.is_sorted() && found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
    }

    #[test]
    fn what_cannot_be_installed_has_no_rank() {
        let tags = "cp311-cp311-manylinux_2_28_x86_64 cp313-abi3-manylinux1_x86_64 \
                    cp312-cp312-manylinux_2_29_x86_64 cp312-cp312-musllinux_1_2_x86_64 \
                    cp312-cp312-win_amd64 cp312-cp312-macosx_11_0_arm64 \
                    cp312-cp312-manylinux_2_28_aarch64 py2-none-any py313-none-any \
                    pp310-pypy310_pp73-manylinux1_x86_64 cp312-cp312t-manylinux1_x86_64 cp312-cp312-any";
        assert_eq!(order("3.12", LINUX, tags), vec![None; 12]);
        let windows = order("3.12", (Platform::Windows, None), "cp312-cp312-win_amd64 py3-none-any py3-none-win32");
        assert_eq!(windows.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
        let free = "cp313-cp313t-manylinux_2_40_x86_64 cp313-abi3-linux_x86_64 cp313-cp313-linux_x86_64";
        let free = order("3.13t", (Platform::Linux, None), free);
        assert_eq!(free.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false]);
    }
}
