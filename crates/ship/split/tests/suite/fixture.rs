//! Input: the description of a library. Output: libraries and programs, and split sets of them, in
//! memory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use positioned_io::ReadAt as _;
use rocwheel_content::Content;
use rocwheel_elf::PatchedContent;
use rocwheel_fixtures::gpu::{Gpu, Link};
use rocwheel_kpack::bundle::Checksum;
use rocwheel_progress::Silent;
use rocwheel_split::verify::{Checks, Item, VerificationReport, View};
use rocwheel_split::{CandidateFile, Options, Packing, Plan, SplitParts, TargetNames, TargetSelection};

pub const ALL: &[&str] = &["gfx90a:xnack+", "gfx90a:xnack-", "gfx942", "gfx1100"];

/// Returns the compiler's folder, which is created once.
pub fn gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(Gpu::new)
}

/// Creates a unit of the fixtures' sources.
pub const fn unit<'a>(source: &'a str, targets: &'a [&'a str]) -> rocwheel_fixtures::gpu::TranslationUnit<'a> {
    rocwheel_fixtures::gpu::TranslationUnit { source, targets }
}

/// Compiles a library of units.
pub fn library(name: &str, units: &[rocwheel_fixtures::gpu::TranslationUnit<'_>], compile: &[&str]) -> Vec<u8> {
    built(&Link { name, units, compile, link: &["-shared"] })
}

pub fn built(link: &Link<'_>) -> Vec<u8> {
    static BUILT: OnceLock<std::sync::Mutex<BTreeMap<String, Arc<OnceLock<PathBuf>>>>> = OnceLock::new();
    let key = format!("{link:?}");
    let place = Arc::clone(BUILT.get_or_init(Default::default).lock().unwrap().entry(key).or_default());
    // Every fixture has a unique name in the folder and is built only once.
    fs_err::read(place.get_or_init(|| gpu().build(link))).unwrap()
}

/// Compiles one translation unit for all targets.
pub fn plain() -> Vec<u8> {
    library("plain.so", &[unit("first", ALL)], &[])
}

/// Compiles two units for the same targets.
pub fn twin() -> Vec<u8> {
    library("twin.so", &[unit("first", &["gfx942", "gfx1100"]), unit("second", &["gfx942", "gfx1100"])], &[])
}

/// Compiles two units for different targets (defect B3 of existing tools).
pub fn uneven() -> Vec<u8> {
    library("uneven.so", &[unit("first", &["gfx1100"]), unit("second", &["gfx942", "gfx1100"])], &[])
}

/// A set of files and its split.
pub struct Split {
    pub before: View,
    pub plan: Plan,
    /// The files after the split, by path.
    pub after: BTreeMap<String, Vec<u8>>,
}

pub struct Settings {
    pub selection: TargetSelection,
    pub names: TargetNames,
    pub packing: Packing,
}

impl Default for Settings {
    fn default() -> Self {
        Self { selection: TargetSelection::ALL, names: TargetNames::Base, packing: Packing::default() }
    }
}

/// Splits files that are installed at these paths.
pub fn split(files: &[(&str, Vec<u8>)], settings: &Settings) -> Split {
    let units: Vec<CandidateFile> = files
        .iter()
        .map(|(path, bytes)| CandidateFile::new(format!("stage/{path}"), Arc::new(bytes.clone()), path, ".kpack"))
        .collect();
    let (selection, names) = (settings.selection.clone(), settings.names);
    let options = Options { group: "test_lib".into(), selection, names, checksum: Checksum::Compare };
    let plan = rocwheel_split::plan(&units, &options, &Silent).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let place = |archive: &rocwheel_split::PlannedKpack| folder.path().join(&archive.name);
    let SplitParts { hosts, archives } =
        rocwheel_split::execute(&plan, &units, settings.packing, &place, &Silent).unwrap();
    let mut after: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.clone())).collect();
    for host in hosts {
        let path = host.key.strip_prefix("stage/").unwrap();
        let original: Arc<dyn Content> = Arc::new(after[path].clone());
        after.insert(path.to_owned(), bytes(&PatchedContent::new(original, host.patch)));
    }
    for archive in archives {
        after.insert(format!(".kpack/{}", archive.name), fs_err::read(archive.path).unwrap());
    }
    let before = view(files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.clone())));
    Split { before, plan, after }
}

pub fn view(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> View {
    let mut view = View::default();
    for (path, bytes) in files {
        view.insert(path, Item::File { content: Arc::new(bytes), executable: false });
    }
    view
}

pub fn bytes(content: &dyn Content) -> Vec<u8> {
    let mut bytes = vec![0; content.size() as usize];
    content.open().unwrap().read_exact_at(0, &mut bytes).unwrap();
    bytes
}

impl Split {
    pub fn report(&self, selection: &TargetSelection) -> VerificationReport {
        let checks = Checks { selection, ..Checks::default() };
        rocwheel_split::verify(&self.before, &view(self.after.clone()), &checks, &Silent).unwrap()
    }

    /// Returns the differences that the check finds, sorted.
    pub fn differences(&self) -> Vec<String> {
        self.report(&TargetSelection::ALL).differences.iter().map(ToString::to_string).collect()
    }

    pub fn archives(&self) -> Vec<&str> {
        self.after.keys().filter_map(|path| path.strip_prefix(".kpack/")).collect()
    }
}
