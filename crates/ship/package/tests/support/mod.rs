//! Artifacts in TheRock's layout, created in a temporary folder.

#![allow(dead_code, clippy::unwrap_used)] // Each test file uses its own part.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocwheel_artifact::Catalog;
pub use rocwheel_fixtures::names;
use rocwheel_fixtures::{succeeds, windows_file};
use rocwheel_package::{OutputFolder, PackagingReport, Plan, Request};
use rocwheel_progress::{Failure, Silent};
use rocwheel_system::symlink;
use rocwheel_wheel::Platform;

/// A folder of artifacts and a folder for packages.
pub struct Build {
    folder: tempfile::TempDir,
}

impl Build {
    /// Creates a build with only the two files of `base_lib_generic` that packaging reads.
    pub fn new(flags: &str, targets: &str) -> Build {
        let build = Build { folder: tempfile::tempdir().unwrap() };
        let manifest = format!(
            r#"{{"the_rock_commit": "abc", "rocm_package_version": "10.1.0a20260822", "rocm_version": "10.1.0", "submodules": [], "flags": {flags}}}"#
        );
        build.file("base_lib_generic", "share/therock/therock_manifest.json", &manifest);
        build.file(
            "base_lib_generic",
            "share/therock/dist_info.json",
            &format!("{{\"dist_amdgpu_targets\": \"{targets}\"}}"),
        );
        build
    }

    /// Creates a build with `KPACK_SPLIT_ARTIFACTS`.
    pub fn split() -> Build {
        Build::new(r#"{"KPACK_SPLIT_ARTIFACTS": true}"#, "gfx942;gfx1100")
    }

    pub fn artifacts(&self) -> PathBuf {
        self.folder.path().join("artifacts")
    }

    pub fn output(&self) -> PathBuf {
        self.folder.path().join("output")
    }

    pub fn dist(&self) -> PathBuf {
        self.output().join("dist")
    }

    /// Returns the path on disk of `path` in an artifact, which is created if needed.
    pub fn place(&self, artifact: &str, path: &str) -> PathBuf {
        let basedir = match artifact.split('_').next().unwrap() {
            "base" => "base/aux-overlay/stage".to_owned(),
            name => format!("{name}/stage"),
        };
        let root = self.artifacts().join(artifact);
        let place = root.join(&basedir).join(path);
        fs_err::create_dir_all(place.parent().unwrap()).unwrap();
        fs_err::write(root.join("artifact_manifest.txt"), format!("{basedir}\n")).unwrap();
        place
    }

    pub fn file(&self, artifact: &str, path: &str, text: &str) {
        fs_err::write(self.place(artifact, path), text).unwrap();
    }

    pub fn script(&self, artifact: &str, path: &str, text: &str) {
        let place = self.place(artifact, path);
        fs_err::write(&place, text).unwrap();
        fs_err::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn link(&self, artifact: &str, path: &str, target: &str) {
        symlink(target, self.place(artifact, path)).unwrap();
    }

    pub fn directory(&self, artifact: &str, path: &str) {
        fs_err::create_dir_all(self.place(artifact, path)).unwrap();
    }

    /// Compiles a shared library with one function named after its path. `flags` go to the linker
    /// driver, for example paths of other libraries.
    pub fn library(&self, artifact: &str, path: &str, soname: Option<&str>, flags: &[&str]) -> PathBuf {
        let place = self.place(artifact, path);
        let source = place.with_extension("c");
        let function: String =
            path.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }).collect();
        fs_err::write(&source, format!("int f_{function}(void) {{ return 42; }}\n")).unwrap();
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-Wl,--no-as-needed", "-o"]).arg(&place).arg(&source).args(flags);
        if let Some(soname) = soname {
            command.arg(format!("-Wl,-soname,{soname}"));
        }
        succeeds(&mut command);
        fs_err::remove_file(source).unwrap();
        place
    }

    pub fn program(&self, artifact: &str, path: &str, body: &str, flags: &[&str]) {
        let place = self.place(artifact, path);
        let source = place.with_extension("c");
        fs_err::write(&source, format!("#include <stdio.h>\nint main(int argc, char **argv) {{ {body} }}\n")).unwrap();
        succeeds(Command::new("cc").arg("-o").arg(&place).arg(&source).args(flags));
        fs_err::remove_file(source).unwrap();
    }

    /// Compiles a library for Windows with one function, which imports a function from each library
    /// in `needed`.
    pub fn dll(&self, artifact: &str, path: &str, needed: &[&str]) -> PathBuf {
        self.pe(artifact, path, needed, &["/dll", "/noentry", "/export:f"])
    }

    pub fn exe(&self, artifact: &str, path: &str, needed: &[&str]) -> PathBuf {
        self.pe(artifact, path, needed, &["/entry:f", "/subsystem:console"])
    }

    /// Compiles a file for Windows with clang and lld, with these linker options. It needs no
    /// header or library of Windows.
    pub fn pe(&self, artifact: &str, path: &str, needed: &[&str], options: &[&str]) -> PathBuf {
        let place = self.place(artifact, path);
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(&place, windows_file(folder.path(), needed, options)).unwrap();
        place
    }

    /// Returns the request for both systems, with the artifacts of `windows`.
    pub fn request_with(&self, windows: &Build) -> Request {
        Request { system: Some(Platform::Linux), windows_artifacts: Some(windows.artifacts()), ..self.request() }
    }

    pub fn request(&self) -> Request {
        Request { level: rocwheel_archive::Level::Fast, ..Request::new(self.artifacts(), self.output()) }
    }

    pub fn plan(&self, request: &Request) -> Result<Plan, Failure> {
        let scratch = self.folder.path().join("scratch");
        let catalog = Catalog::open(&request.artifacts, &scratch, &Silent)?;
        let Some(windows) = &request.windows_artifacts else {
            return rocwheel_package::plan(request, &catalog, &Silent);
        };
        let windows = Catalog::open(windows, &scratch, &Silent)?;
        rocwheel_package::plan_both(request, [&catalog, &windows], &Silent)
    }

    pub fn package(&self, request: &Request) -> Result<(Plan, PackagingReport), Failure> {
        let plan = self.plan(request)?;
        let mut folder = OutputFolder::open(&request.output)?;
        let outcome = rocwheel_package::execute(&plan, request, &mut folder, &Silent)?;
        Ok((plan, outcome))
    }

    /// Returns the names of the files in `dist/`, sorted.
    pub fn dist_names(&self) -> Vec<String> {
        names(&self.dist())
    }
}

/// Returns the members of a wheel with their contents.
pub fn members(wheel: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut archive = zip::ZipArchive::new(fs_err::File::open(wheel).unwrap()).unwrap();
    (0..archive.len())
        .map(|index| {
            let mut member = archive.by_index(index).unwrap();
            let mut bytes = Vec::new();
            member.read_to_end(&mut bytes).unwrap();
            (member.name().unwrap().into_owned(), bytes)
        })
        .collect()
}

pub fn text(wheel: &Path, member: &str) -> String {
    let members = members(wheel);
    let found = members.iter().find(|(name, _)| name.ends_with(member));
    let (_, bytes) = found.unwrap_or_else(|| panic!("{member} is not in {:?}", members.keys().collect::<Vec<_>>()));
    String::from_utf8(bytes.clone()).unwrap()
}

/// Returns the members of a tar: name → `directory`, `file` or `-> target`.
pub fn tar_members(bytes: &[u8]) -> Vec<(String, String)> {
    let mut archive = tar::Archive::new(bytes);
    archive
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.path().unwrap().to_str().unwrap().trim_end_matches('/').to_owned();
            let kind = match entry.header().entry_type() {
                tar::EntryType::Directory => "directory".to_owned(),
                tar::EntryType::Symlink => {
                    format!("-> {}", entry.link_name().unwrap().unwrap().to_str().unwrap())
                }
                _ => "file".to_owned(),
            };
            (name, kind)
        })
        .collect()
}
