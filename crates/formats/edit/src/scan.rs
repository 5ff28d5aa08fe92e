//! Input: the text of a member and the old version. Output: the lines that contain it. Members are
//! selected by name and size: those into which people write versions.

use crate::plan::Leftover;
use crate::version::occurrences;

/// Members larger than this many bytes are treated as data.
pub(crate) const LARGEST: u64 = 1 << 20;
/// The largest text in bytes that `--also-in` rewrites. It is held in memory.
pub(crate) const LARGEST_REWRITTEN: u64 = 16 << 20;

const EXTENSIONS: [&str; 14] =
    ["py", "pyi", "txt", "toml", "json", "cfg", "ini", "pc", "cmake", "in", "yaml", "yml", "md", "rst"];

/// `true` if a member may contain the version of its distribution.
pub(crate) fn is_candidate(path: &str, size: u64) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (_, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let says_so = name.to_ascii_lowercase().contains("version") || name == "PKG-INFO";
    size <= LARGEST && (says_so || EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)))
}

/// The lines of a text that contain the version; empty if the bytes are not text.
pub(crate) fn leftovers(member: &str, bytes: &[u8], version: &str) -> Vec<Leftover> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Vec::new() };
    let mut found: Vec<Leftover> = Vec::new();
    let mut line = 1;
    let mut position = 0;
    for at in occurrences(text, version) {
        line += text[position..at].bytes().filter(|byte| *byte == b'\n').count() as u64;
        position = at;
        if found.last().is_some_and(|last| last.line == line) {
            continue;
        }
        let begin = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let shown = text[begin..].lines().next().unwrap_or_default().trim();
        found.push(Leftover { member: member.to_owned(), line, text: shown.to_owned() });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted() {
        let found = leftovers("a.py", b"x\n__version__ = '7.0' # 7.0\n7.0.1\n\n  7.0\n", "7.0");
        let lines: Vec<(u64, &str)> = found.iter().map(|one| (one.line, one.text.as_str())).collect();
        assert_eq!(lines, [(2, "__version__ = '7.0' # 7.0"), (5, "7.0")]);
        assert_eq!(leftovers("a", b"\xff 7.0", "7.0"), []);
        assert!(is_candidate("a/_dist_info.py", 9) && is_candidate("b/rocm_version.h", 9));
        assert!(!is_candidate("a/b.h", 9) && !is_candidate("a.py", 2 << 20));
    }
}
