//! Input: a part of a compatibility tag. Output: `true` if an installer could know it (PEP 425,
//! 600, 656, 730, 738 and 783, and the tags that `packaging.tags` makes on other systems), or else
//! the tag that was probably meant.

use crate::Error;
use crate::tag_part::TagPart;

/// Names of interpreters in tags. Interpreters without a two-letter abbreviation use their full
/// name.
const PYTHONS: [&str; 7] = ["py", "cp", "pp", "ip", "jy", "graalpy", "pyston"];
/// Prefixes of the ABIs of interpreters other than CPython.
const OTHER_ABIS: [&str; 4] = ["pypy", "graalpy", "pyston", "jython"];
/// Systems for which Python makes a tag from the name of the system, its release and the machine.
const OTHER_SYSTEMS: [&str; 11] =
    ["freebsd", "openbsd", "netbsd", "dragonfly", "sunos", "solaris", "aix", "cygwin", "mingw", "msys", "haiku"];
const WINDOWS: [&str; 5] = ["win32", "win_amd64", "win_arm64", "win_arm32", "win_ia64"];
const MACS: [&str; 11] =
    ["x86_64", "arm64", "universal2", "universal", "intel", "fat", "fat3", "fat64", "i386", "ppc", "ppc64"];
/// Common names of machines, and Linux's names for them.
const MACHINES: [(&str, &str); 7] = [
    ("amd64", "x86_64"),
    ("x64", "x86_64"),
    ("x86-64", "x86_64"),
    ("arm64", "aarch64"),
    ("i386", "i686"),
    ("i586", "i686"),
    ("x86", "i686"),
];

/// Platforms that misspelled ones are compared with.
const COMMON: [&str; 8] = [
    "any",
    "linux_x86_64",
    "manylinux2014_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux_2_28_x86_64",
    "musllinux_1_2_x86_64",
    "macosx_11_0_arm64",
    "win_amd64",
];

impl TagPart {
    /// Checks the tags in a file name, where dots separate several.
    ///
    /// # Errors
    /// [`Error::UnknownTag`] for the first one that no installer could accept.
    pub fn check(self, text: &str) -> Result<(), Error> {
        let Some(part) = text.split('.').find(|part| !self.is_known(part)) else { return Ok(()) };
        // A text such as `3.12` was meant as one tag, although it contains a dot.
        let (text, meant) = match self.nearest(text) {
            Some(meant) => (text, Some(meant)),
            None => (part, self.nearest(part)),
        };
        Err(Error::UnknownTag { part: self, text: text.to_owned(), meant })
    }

    /// `true` if an installer on some machine could accept it.
    pub fn is_known(self, text: &str) -> bool {
        match self {
            TagPart::Python => is_python(text),
            TagPart::Abi => is_abi(text),
            TagPart::Platform => is_platform(text),
        }
    }

    /// The tag that was probably meant. The text may look like a version: `3.12`, `manylinux_2_28`.
    pub fn nearest(self, text: &str) -> Option<String> {
        let lower = text.to_lowercase().replace(['.', '-'], "_");
        let found = match self {
            TagPart::Python => python_meant(&lower),
            TagPart::Abi => python_meant(&lower).filter(|python| python.starts_with("cp")),
            TagPart::Platform => platform_meant(&lower),
        };
        found.filter(|meant| self.is_known(meant))
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_python(text: &str) -> bool {
    let start = text.trim_end_matches(|character: char| character.is_ascii_digit() || character == '_');
    let version = &text[start.len()..];
    match start {
        "py" => version.starts_with(['2', '3']) && is_number(version),
        // No installer accepts all versions of CPython with one tag.
        "cp" | "pp" => version.len() >= 2 && version.starts_with(['2', '3']) && is_number(version),
        _ => PYTHONS.contains(&start) && !version.is_empty(),
    }
}

fn is_abi(text: &str) -> bool {
    matches!(text, "none" | "abi3" | "abi3t")
        || text.strip_prefix("cp").is_some_and(is_cpython_abi)
        || OTHER_ABIS.iter().any(|start| text.strip_prefix(start).is_some_and(|rest| !rest.is_empty()))
}

fn is_cpython_abi(rest: &str) -> bool {
    let flags = rest.trim_start_matches(|character: char| character.is_ascii_digit());
    let version = &rest[..rest.len() - flags.len()];
    version.len() >= 2 && version.starts_with(['2', '3']) && flags.chars().all(|flag| "dmut".contains(flag))
}

/// The machine behind `start` and `count` numbers: `x86_64` of `manylinux_2_28_x86_64`.
fn machine_behind<'t>(text: &'t str, start: &str, count: usize) -> Option<&'t str> {
    let mut rest = text.strip_prefix(start)?;
    for _ in 0..count {
        let (number, behind) = rest.split_once('_')?;
        is_number(number).then_some(())?;
        rest = behind;
    }
    Some(rest)
}

fn is_linux_machine(machine: &str) -> bool {
    machine.starts_with(|first: char| first.is_ascii_lowercase())
        && !MACHINES.iter().any(|(wrong, _)| *wrong == machine)
}

fn is_platform(text: &str) -> bool {
    text == "any"
        || WINDOWS.contains(&text)
        || machine_behind(text, "linux_", 0).is_some_and(is_linux_machine)
        || ["manylinux1_", "manylinux2010_"]
            .iter()
            .any(|start| machine_behind(text, start, 0).is_some_and(|machine| ["x86_64", "i686"].contains(&machine)))
        || machine_behind(text, "manylinux2014_", 0).is_some_and(is_linux_machine)
        || machine_behind(text, "manylinux_", 2).is_some_and(is_linux_machine)
        || machine_behind(text, "musllinux_", 2).is_some_and(is_linux_machine)
        || machine_behind(text, "macosx_", 2).is_some_and(|machine| MACS.contains(&machine))
        || machine_behind(text, "ios_", 2)
            .is_some_and(|machine| machine.ends_with("_iphoneos") || machine.ends_with("_iphonesimulator"))
        || machine_behind(text, "android_", 1).is_some_and(|machine| !machine.is_empty())
        || machine_behind(text, "emscripten_", 3) == Some("wasm32")
        || machine_behind(text, "pyodide_", 2) == Some("wasm32")
        || OTHER_SYSTEMS.iter().any(|system| text.strip_prefix(system).is_some_and(|rest| rest.starts_with('_')))
}

/// `312`, `3_12`, `python3_12` and `cpython312` → `cp312`; `python3` → `py3`.
fn python_meant(text: &str) -> Option<String> {
    let start = text.trim_end_matches(|character: char| character.is_ascii_digit() || character == '_');
    let version = text[start.len()..].replace('_', "");
    let name = match (start, version.as_str()) {
        ("" | "python" | "py" | "cp" | "cpython", "2" | "3") => "py",
        ("" | "python" | "py" | "cp" | "cpython", _) => "cp",
        ("pypy" | "pp", _) => "pp",
        _ => return None,
    };
    is_number(&version).then(|| format!("{name}{version}"))
}

fn platform_meant(text: &str) -> Option<String> {
    match text {
        "windows" | "win" | "win64" | "win_x64" | "win_x86_64" | "windows_amd64" | "win_64" => {
            return Some("win_amd64".to_owned());
        }
        "win_32" | "win_x86" => return Some("win32".to_owned()),
        "linux" | "x86_64" => return Some("linux_x86_64".to_owned()),
        "none" | "all" | "noarch" => return Some("any".to_owned()),
        _ => {}
    }
    if is_platform(text) {
        return Some(text.to_owned());
    }
    for (wrong, right) in MACHINES {
        if let Some(start) = text.strip_suffix(&wrong.replace('-', "_"))
            && text.contains("linux")
        {
            let meant = format!("{start}{right}");
            if is_platform(&meant) {
                return Some(meant);
            }
        }
    }
    // Only the machine is missing.
    let text = text.trim_end_matches('_');
    let machine = if text.starts_with("macosx") { "arm64" } else { "x86_64" };
    let with_machine = format!("{text}_{machine}");
    if is_platform(&with_machine) {
        return Some(with_machine);
    }
    rocwheel_progress::nearest(text, COMMON).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_installers_look_for_is_known() {
        for (part, known) in [
            (TagPart::Python, "py2 py3 py312 cp27 cp312 pp310 graalpy240 ip27 jy27"),
            (TagPart::Abi, "none abi3 abi3t cp312 cp313t cp27mu cp37m cp312d pypy310_pp73 graalpy240_310_native"),
            (
                TagPart::Platform,
                "any win32 win_amd64 win_arm64 linux_x86_64 linux_armv6l manylinux1_i686 manylinux2010_x86_64 \
                 manylinux2014_aarch64 manylinux_2_28_x86_64 manylinux_2_39_riscv64 musllinux_1_2_s390x macosx_10_9_universal2 \
                 macosx_11_0_arm64 macosx_10_6_intel ios_13_0_arm64_iphoneos android_24_arm64_v8a emscripten_3_1_58_wasm32 \
                 pyodide_2024_0_wasm32 freebsd_13_2_release_amd64 mingw_x86_64_ucrt",
            ),
        ] {
            for text in known.split_whitespace() {
                assert!(part.is_known(text), "{text}");
            }
        }
    }

    #[test]
    fn what_was_meant_is_found() {
        for (part, text, meant) in [
            (TagPart::Python, "3.12", Some("cp312")),
            (TagPart::Python, "312", Some("cp312")),
            (TagPart::Python, "python3", Some("py3")),
            (TagPart::Python, "cp3", Some("py3")),
            (TagPart::Python, "foo", None),
            (TagPart::Abi, "foo", None),
            (TagPart::Abi, "3.12", Some("cp312")),
            (TagPart::Platform, "manylinux_2_28", Some("manylinux_2_28_x86_64")),
            (TagPart::Platform, "manylinux_2.28_x86_64", Some("manylinux_2_28_x86_64")),
            (TagPart::Platform, "manylinux2014", Some("manylinux2014_x86_64")),
            (TagPart::Platform, "manylinux_2_28_amd64", Some("manylinux_2_28_x86_64")),
            (TagPart::Platform, "linux_arm64", Some("linux_aarch64")),
            (TagPart::Platform, "linux", Some("linux_x86_64")),
            (TagPart::Platform, "musllinux_1_2", Some("musllinux_1_2_x86_64")),
            (TagPart::Platform, "macosx_11_0", Some("macosx_11_0_arm64")),
            (TagPart::Platform, "win64", Some("win_amd64")),
            (TagPart::Platform, "manylnux_2_28_x86_64", Some("manylinux_2_28_x86_64")),
            (TagPart::Platform, "nonsense", None),
        ] {
            assert!(!part.is_known(text), "{text}");
            assert_eq!(part.nearest(text).as_deref(), meant, "{text}");
        }
    }
}
