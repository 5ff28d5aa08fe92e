//! Wheels made by hand, member by member, so that they can be wrong, and libraries made by gcc.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use rocwheel_audit::finding::{Finding, Severity};
use rocwheel_audit::report::AuditReport;
use rocwheel_audit::why::Why;
use rocwheel_audit::{Options, audit_facts};
use rocwheel_fixtures::{tool, windows_file};
use rocwheel_loader::facts::SiteFacts;
use rocwheel_loader::site::{PythonEnvironment, RefusedWheel, Role, Site};
use rocwheel_progress::Silent;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;

/// The folder in which one test makes its wheels and libraries.
pub struct Bench {
    folder: TempDir,
}

/// A wheel to make.
#[derive(Clone)]
pub struct Pack {
    /// The file name before the tag: `demo-1.0`.
    pub stem: String,
    /// Tag of the file name.
    pub tag: String,
    /// Tags of WHEEL; empty for that of the file name.
    pub wheel_tags: Vec<String>,
    /// Lines of METADATA besides name and version.
    pub metadata: Vec<String>,
    /// Name and version in METADATA; `None` for those of the file name.
    pub said: Option<(String, String)>,
    /// Encodes METADATA.
    pub encoding: fn(String) -> Vec<u8>,
    /// Members besides the .dist-info folder.
    pub files: Vec<(String, Vec<u8>)>,
    /// The line of WHEEL with the version of the format.
    pub wheel_version: &'static str,
    /// The bytes in front of the archive and behind it.
    pub around: (&'static str, &'static str),
    /// The mode of the members in the folder of scripts, and of programs.
    pub mode: u32,
    /// Changes the text of RECORD.
    pub record: fn(String) -> String,
    pub role: Role,
}

/// A wheel `demo` for CPython 3.12 on manylinux_2_34.
pub fn demo() -> Pack {
    pack("demo-1.0", "cp312-cp312-manylinux_2_34_x86_64")
}

/// An empty wheel with this name and tag.
pub fn pack(stem: &str, tag: &str) -> Pack {
    Pack {
        stem: stem.to_owned(),
        tag: tag.to_owned(),
        wheel_tags: Vec::new(),
        metadata: Vec::new(),
        said: None,
        encoding: String::into_bytes,
        files: Vec::new(),
        wheel_version: "Wheel-Version: 1.0\n",
        around: ("", ""),
        mode: 0o755,
        record: |text| text,
        role: Role::Audited,
    }
}

impl Pack {
    pub fn with(mut self, name: &str, bytes: impl AsRef<[u8]>) -> Pack {
        self.files.push((name.to_owned(), bytes.as_ref().to_vec()));
        self
    }

    pub fn requiring(mut self, requirement: &str) -> Pack {
        self.metadata.push(format!("Requires-Dist: {requirement}"));
        self
    }

    pub fn providing(mut self, extra: &str) -> Pack {
        self.metadata.push(format!("Provides-Extra: {extra}"));
        self
    }

    /// Makes the wheel one that is only present for the others.
    pub fn beside(mut self) -> Pack {
        self.role = Role::Beside;
        self
    }

    pub fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join(format!("{}-{}.whl", self.stem, self.tag));
        let (name, version) = self.stem.split_once('-').unwrap();
        let (name, version) = self.said.clone().unwrap_or_else(|| (name.replace('_', "-"), version.to_owned()));
        let mut metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        for line in &self.metadata {
            metadata.push_str(&format!("{line}\n"));
        }
        let tags = if self.wheel_tags.is_empty() { vec![self.tag.clone()] } else { self.wheel_tags.clone() };
        let tags: String = tags.iter().map(|tag| format!("Tag: {tag}\n")).collect();
        let wheel = format!("{}Generator: test\nRoot-Is-Purelib: false\n{tags}", self.wheel_version);
        let info = format!("{}.dist-info", self.stem);
        let mut members = self.files.clone();
        members.push((format!("{info}/METADATA"), (self.encoding)(metadata)));
        members.push((format!("{info}/WHEEL"), wheel.into_bytes()));
        let mut record = String::new();
        for (name, bytes) in &members {
            let digest = rocwheel_content::sha256(bytes);
            record.push_str(&format!("{name},{},{}\n", rocwheel_wheel::hash_column(&digest), bytes.len()));
        }
        record.push_str(&format!("{info}/RECORD,,\n"));
        members.push((format!("{info}/RECORD"), (self.record)(record).into_bytes()));
        let mut archive = zip::ZipWriter::new(fs_err::File::create(&path).unwrap());
        for (name, bytes) in members {
            let mode = if name.contains(".data/scripts/") || name.contains("/bin/") { self.mode } else { 0o644 };
            archive.start_file(name, SimpleFileOptions::default().unix_permissions(mode)).unwrap();
            archive.write_all(&bytes).unwrap();
        }
        archive.finish().unwrap();
        let (ahead, behind) = self.around;
        if !(ahead.is_empty() && behind.is_empty()) {
            let archive = fs_err::read(&path).unwrap();
            fs_err::write(&path, [ahead.as_bytes(), &archive, behind.as_bytes()].concat()).unwrap();
        }
        path
    }
}

impl Bench {
    pub fn new() -> Bench {
        Bench { folder: tempfile::tempdir().unwrap() }
    }

    /// Compiles C with gcc into a library, with these arguments. The library stays in the folder,
    /// so that others can link to it with `-l:NAME`.
    pub fn library(&self, name: &str, source: &str, arguments: &[&str]) -> Vec<u8> {
        rocwheel_fixtures::library(self.folder.path(), name, source, &[&["-O1"], arguments].concat())
    }

    pub fn program(&self, source: &str, arguments: &[&str]) -> Vec<u8> {
        self.write("program.c", source);
        tool(self.folder.path(), "gcc", ["-w", "-o", "program", "program.c"].iter().chain(arguments));
        fs_err::read(self.folder.path().join("program")).unwrap()
    }

    /// Writes a file for the loader of this machine, and returns its path.
    pub fn place(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs_err::write(&path, bytes).unwrap();
        path
    }

    /// Compiles an extension module `_m` with additional source.
    pub fn module(&self, source: &str, arguments: &[&str]) -> Vec<u8> {
        self.library("_m.so", &format!("{source}\nvoid *PyInit__m(void) {{ return 0; }}"), arguments)
    }

    /// Makes a DLL that imports these, with clang and LLVM's linker.
    pub fn dll(&self, needs: &[&str]) -> Vec<u8> {
        windows_file(self.folder.path(), needs, &["/dll", "/noentry", "/export:f"])
    }

    pub fn write(&self, name: &str, text: &str) {
        fs_err::write(self.folder.path().join(name), text).unwrap();
    }

    pub fn audit(&self, packs: &[Pack], options: &Options) -> AuditReport {
        self.open(packs, |site, facts| audit_facts(site, facts, options, &Silent).unwrap())
    }

    /// Audits wheels beside others that installers refuse.
    pub fn audit_refused(&self, wheels: &[PathBuf], refused: Vec<RefusedWheel>) -> AuditReport {
        let place = PythonEnvironment::new("3.12".parse().unwrap(), "/p");
        let wheels: Vec<(PathBuf, Role)> = wheels.iter().map(|path| (path.clone(), Role::Audited)).collect();
        let site = if wheels.is_empty() {
            Site::of_refused(refused, &place)
        } else {
            let mut site = Site::open(&wheels, &place, self.folder.path(), &Silent).unwrap();
            site.refused = refused;
            site
        };
        audit_facts(&site, &SiteFacts::default(), &Options::default(), &Silent).unwrap()
    }

    /// The files that pull a library in.
    pub fn why(&self, packs: &[Pack], library: &str) -> Option<Why> {
        self.open(packs, |site, facts| rocwheel_audit::why::why(site, facts, library))
    }

    fn open<T>(&self, packs: &[Pack], ask: impl FnOnce(&Site, &SiteFacts) -> T) -> T {
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap();
        let wheels: Vec<(PathBuf, Role)> = packs.iter().map(|pack| (pack.write(folder.path()), pack.role)).collect();
        let place = PythonEnvironment::new("3.12".parse().unwrap(), "/p");
        let site = Site::open(&wheels, &place, folder.path(), &Silent).unwrap();
        let facts = SiteFacts::read(&site, &Silent).unwrap();
        ask(&site, &facts)
    }

    /// The only finding, whose code and severity are these.
    #[track_caller]
    pub fn one(&self, packs: &[Pack], expected: &str) -> Finding {
        let report = self.audit(packs, &Options::default());
        let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
        assert!(said(&report)[0].starts_with(expected), "{finding:?}");
        finding.clone()
    }

    /// Codes and severities of the findings, sorted.
    pub fn found(&self, packs: &[Pack]) -> Vec<String> {
        said(&self.audit(packs, &Options::default()))
    }
}

/// Codes and severities of a report, such as `RW001 error`, sorted.
pub fn said(report: &AuditReport) -> Vec<String> {
    let name = |severity: Severity| severity.name();
    let mut said: Vec<String> =
        report.findings.iter().map(|finding| format!("{} {}", finding.code, name(finding.severity))).collect();
    said.sort();
    said
}
