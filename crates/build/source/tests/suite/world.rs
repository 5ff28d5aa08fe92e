//! Realistic origins: a superproject with nested submodules, branches, tags, pins and a large file.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

pub use rocwheel_fixtures::git;
use rocwheel_progress::{Failure, Reporter, Silent};
use rocwheel_source::{CheckoutReport, Convert, Git, Plan, Request, Table, WantedCheckout};
use tempfile::TempDir;

const TABLE: &str = include_str!("../../../../../data/sources.toml");

/// A folder with origins and space for checkouts.
pub struct World {
    folder: TempDir,
    /// Folder of its origins: its own, or one that all tests share.
    origins: PathBuf,
    pub table: Table,
}

pub fn write(path: &Path, content: impl AsRef<[u8]>) {
    rocwheel_fixtures::write(path, content);
}

pub fn commit(directory: &Path, message: &str) -> String {
    git(directory, &["add", "--all"]);
    git(directory, &["commit", "--quiet", "--allow-empty", "--message", message]);
    git(directory, &["rev-parse", "HEAD"])
}

fn make(root: &Path) {
    let make = |name: &str| {
        let path = root.join(name);
        fs_err::create_dir_all(&path).unwrap();
        git(&path, &["init", "--quiet", "--initial-branch=main"]);
        path
    };
    let nested = make("nested");
    write(&nested.join("deep.cu"), "cudaDeep\n");
    commit(&nested, "nested");
    let sub = make("fbgemm");
    write(&sub.join("src/a.cu"), "cudaMalloc\n");
    git(&sub, &["submodule", "--quiet", "add", &nested.display().to_string(), "external/the nested one"]);
    commit(&sub, "sub");
    for name in ["audio", "vision", "triton"] {
        let path = make(name);
        write(&path.join("version.txt"), "0.1.0a0\n");
        commit(&path, "first");
        git(&path, &["branch", "nightly"]);
        git(&path, &["branch", "release/3.4.x"]);
        write(&path.join("later"), "x");
        commit(&path, "second");
    }
    // audio has an empty file there in reality too.
    write(&root.join("audio/.gitmodules"), "");
    commit(&root.join("audio"), "an empty .gitmodules");
    let torch = make("torch");
    write(&torch.join("version.txt"), "2.9.0a0\n");
    write(&torch.join(".gitignore"), "build/\n");
    write(&torch.join("torch/csrc/m.cpp"), "cudaFree\n");
    write(&torch.join("tools/amd_build/build_amd.py"), "# converts\n");
    write(
        &torch.join("big.bin"),
        (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>(),
    );
    let second = |name: &str| git(&root.join(name), &["rev-parse", "main"]);
    write(&torch.join(TRITON_FILE), format!("{}\n", second("triton")));
    write(&torch.join(".ci/docker/triton_version.txt"), "3.4.0\n");
    git(&torch, &["submodule", "--quiet", "add", &sub.display().to_string(), "third_party/fbgemm"]);
    commit(&torch, "first");
    git(&torch, &["branch", "nightly"]);
    git(&torch, &["tag", "v2.9.0"]);
    let line = |project: &str, commit: &str, origin: &str| {
        format!("ubuntu|pytorch|{project}|main|{commit}|{}\n", root.join(origin).display())
    };
    let first_vision = git(&root.join("vision"), &["rev-parse", "nightly"]);
    let related = line("torchvision", &first_vision, "vision") + &line("torchaudio", &second("audio"), "audio");
    write(&torch.join("related_commits"), related);
    commit(&torch, "pins");
    git(&torch, &["branch", "release/2.9"]);
}

fn table(origins: &Path) -> Table {
    let addresses = [
        ("https://github.com/pytorch/audio.git", "audio"),
        ("https://github.com/pytorch/vision.git", "vision"),
        ("https://github.com/ROCm/triton.git", "triton"),
        ("https://github.com/pytorch/pytorch.git", "torch"),
        ("https://github.com/ROCm/pytorch.git", "torch"),
    ];
    let replace =
        |text: String, (url, name): &(&str, &str)| text.replace(url, &origins.join(name).display().to_string());
    Table::parse(&addresses.iter().fold(TABLE.to_owned(), replace), "test.toml").unwrap()
}

/// Path of TheRock's pin of triton.
pub const TRITON_FILE: &str = ".ci/docker/ci_commit_pins/triton.txt";

impl World {
    /// A folder for checkouts, with origins that no test changes.
    pub fn new() -> World {
        static SHARED: OnceLock<PathBuf> = OnceLock::new();
        let shared = SHARED.get_or_init(|| {
            // The tests have no common end, so the next run removes the origins of the last one.
            let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shared origins");
            let _ = fs_err::remove_dir_all(&place);
            fs_err::create_dir_all(place.parent().unwrap()).unwrap();
            make(&place);
            place
        });
        let folder = tempfile::Builder::new().prefix("a world ").tempdir().unwrap();
        World { table: table(shared), folder, origins: shared.clone() }
    }

    /// The same with its own origins.
    pub fn own() -> World {
        let folder = tempfile::Builder::new().prefix("a world ").tempdir().unwrap();
        let origins = folder.path().join("origins");
        make(&origins);
        World { table: table(&origins), folder, origins }
    }

    pub fn origin(&self, name: &str) -> PathBuf {
        self.origins.join(name)
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.folder.path().join("work").join(relative)
    }

    pub fn request(&self, projects: &[&str]) -> Request {
        let root = self.folder.path().join("work");
        Request::new(&root, projects.iter().map(|project| WantedCheckout::of(project)).collect())
    }

    pub fn at(&self, project: &str, reference: &str) -> Request {
        let mut request = self.request(&[project]);
        request.projects[0].reference = Some(reference.to_owned());
        request
    }

    pub fn plan(&self, request: &Request) -> Result<Plan, Failure> {
        Plan::new(request, &self.table)
    }

    pub fn run(&self, request: &Request) -> Result<Vec<CheckoutReport>, Failure> {
        self.run_with(request, &Silent)
    }

    pub fn run_with(&self, request: &Request, reporter: &dyn Reporter) -> Result<Vec<CheckoutReport>, Failure> {
        self.plan(request)?.execute(&plain_git(), &Marks, reporter, &mut |_| {})
    }
}

/// git with nothing of the machine but the search path.
pub fn plain_git() -> Git {
    let variables = std::env::vars_os().filter(|(name, _)| name == "PATH");
    Git::new(variables).unwrap()
}

/// A stand-in for the conversion: it changes a file, makes a new one, and changes one in a
/// submodule.
pub struct Marks;

impl Convert for Marks {
    fn convert(&self, tree: &Path, _: &dyn Reporter) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
        let source = tree.join("torch/csrc/m.cpp");
        let text = fs_err::read_to_string(&source)?;
        fs_err::write(&source, text.replace("cuda", "hip"))?;
        write(&tree.join("torch/csrc/hip/new.hip"), "hip\n");
        let inner = tree.join("third_party/fbgemm/src/a.cu");
        if inner.exists() {
            fs_err::write(&inner, fs_err::read_to_string(&inner)?.replace("cuda", "hip"))?;
        }
        Ok(3)
    }

    fn settings(&self) -> String {
        "marks".to_owned()
    }
}
