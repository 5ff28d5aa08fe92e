//! Artifact directories and archives made by code.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use rocwheel_report::{Reporter, Silent, Unit};

/// An artifact directory.
pub(crate) struct Artifact {
    pub(crate) root: PathBuf,
}

impl Artifact {
    /// Makes `parent/name` with that manifest.
    pub(crate) fn new(parent: &Path, name: &str, basedirs: &[&str]) -> Self {
        let root = parent.join(name);
        fs_err::create_dir_all(&root).unwrap();
        fs_err::write(root.join("artifact_manifest.txt"), format!("{}\n", basedirs.join("\n"))).unwrap();
        Self { root }
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        let path = self.root.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    pub(crate) fn file(self, path: &str, bytes: impl AsRef<[u8]>) -> Self {
        fs_err::write(self.path(path), bytes).unwrap();
        self
    }

    pub(crate) fn executable(self, path: &str, bytes: impl AsRef<[u8]>) -> Self {
        let made = self.file(path, bytes);
        fs_err::set_permissions(made.path(path), std::fs::Permissions::from_mode(0o755)).unwrap();
        made
    }

    pub(crate) fn link(self, path: &str, target: &str) -> Self {
        rocwheel_system::symlink(target, self.path(path)).unwrap();
        self
    }

    pub(crate) fn hard_link(self, first: &str, path: &str) -> Self {
        fs_err::hard_link(self.root.join(first), self.path(path)).unwrap();
        self
    }

    pub(crate) fn directory(self, path: &str) -> Self {
        fs_err::create_dir_all(self.root.join(path)).unwrap();
        self
    }
}

/// An artifact with everything an artifact can have, its files made in the given order.
pub(crate) fn rich(parent: &Path, reverse: bool) -> Artifact {
    let long = format!("core/stage/share/{}/{}/end.txt", "d".repeat(90), "e".repeat(120));
    let mut files: Vec<(String, Vec<u8>)> = (0..40)
        .map(|index| (format!("core/stage/lib/part{index:02}.txt"), format!("{index}\n").repeat(50).into_bytes()))
        .collect();
    files.push(("core/stage/lib/libbig.so.1".into(), noise(3 << 20)));
    files.push(("core/stage/empty".into(), Vec::new()));
    files.push((long, b"long".to_vec()));
    files.push(("other/stage/include/naïve.h".into(), b"// unicode\n".to_vec()));
    if reverse {
        files.reverse();
    }
    let mut artifact = Artifact::new(parent, "core_lib_generic", &["core/stage", "missing/stage", "other/stage"]);
    for (path, bytes) in files {
        artifact = artifact.file(&path, bytes);
    }
    let long_target = format!("share/{}/{}/end.txt", "d".repeat(90), "e".repeat(120));
    artifact
        .executable("core/stage/bin/tool", "#!/bin/sh\n")
        .link("core/stage/lib/libbig.so", "libbig.so.1")
        .link("core/stage/strange", ".//lib/./libbig.so")
        .link("core/stage/long", &long_target)
        .hard_link("core/stage/bin/tool", "core/stage/bin/another")
        .hard_link("core/stage/bin/tool", "core/stage/sbin/tool")
        .directory("core/stage/nothing")
}

/// Bytes that hardly compress, the same each time.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    })
    .take(length)
    .collect()
}

/// One member of an archive, with whatever bytes in its header.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) name: String,
    pub(crate) kind: u8,
    pub(crate) link: String,
    pub(crate) content: Vec<u8>,
}

pub(crate) fn raw(name: &str, kind: u8, link: &str, content: &[u8]) -> Raw {
    Raw { name: name.into(), kind, link: link.into(), content: content.to_vec() }
}

pub(crate) fn manifest(basedirs: &[&str]) -> Raw {
    raw("artifact_manifest.txt", b'0', "", format!("{}\n", basedirs.join("\n")).as_bytes())
}

/// A tar archive of members that no honest writer would produce.
pub(crate) fn raw_tar(members: &[Raw]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for member in members {
        let mut header = tar::Header::new_gnu();
        let fields = header.as_old_mut();
        fields.name[..member.name.len()].copy_from_slice(member.name.as_bytes());
        fields.linkname[..member.link.len()].copy_from_slice(member.link.as_bytes());
        fields.linkflag = [member.kind];
        header.set_mode(0o644);
        header.set_size(member.content.len() as u64);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&member.content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.extend_from_slice(&[0; 1024]);
    bytes
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 6);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Every path below `root` with what is there: mode and bytes, or the text of a link.
pub(crate) fn snapshot(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in walkdir::WalkDir::new(root).min_depth(1) {
        let entry = entry.unwrap();
        let path = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
        let text = if entry.path_is_symlink() {
            format!("-> {}", fs_err::read_link(entry.path()).unwrap().display())
        } else if entry.file_type().is_dir() {
            format!("{mode:o} directory")
        } else {
            let bytes = fs_err::read(entry.path()).unwrap();
            format!(
                "{mode:o} {} {:08x}",
                bytes.len(),
                bytes.iter().fold(17_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(*byte))
            )
        };
        found.insert(path, text);
    }
    found
}

/// The names in a directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs_err::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Interrupts at the n-th question.
pub(crate) struct Impatient(AtomicI64);

impl Impatient {
    pub(crate) fn after(questions: i64) -> Self {
        Self(AtomicI64::new(questions))
    }
}

impl Reporter for Impatient {
    fn begin(&self, stage: &str, total: Option<u64>, unit: Unit) {
        Silent.begin(stage, total, unit);
    }
    fn advance(&self, _amount: u64) {}
    fn end(&self) {}
    fn warn(&self, _message: &str) {}
    fn interrupted(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) <= 0
    }
}

/// Collects warnings, and checks that stages neither overlap nor stay open.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) warnings: Mutex<Vec<String>>,
    pub(crate) stages: Mutex<Vec<String>>,
    open: Mutex<bool>,
}

impl Reporter for Recorder {
    fn begin(&self, stage: &str, _total: Option<u64>, _unit: Unit) {
        assert!(!std::mem::replace(&mut *self.open.lock().unwrap(), true), "{stage} begins inside another stage");
        self.stages.lock().unwrap().push(stage.to_owned());
    }
    fn advance(&self, _amount: u64) {
        assert!(*self.open.lock().unwrap(), "progress outside a stage");
    }
    fn end(&self) {
        assert!(std::mem::replace(&mut *self.open.lock().unwrap(), false), "a stage ends that did not begin");
    }
    fn warn(&self, message: &str) {
        self.warnings.lock().unwrap().push(message.to_owned());
    }
    fn interrupted(&self) -> bool {
        false
    }
}
