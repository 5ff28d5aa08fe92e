//! Small packages, made here: ELF files by the C compiler, archives by the crates.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rocwheel_artifact::import::{self, ImportOptions, ImportReport, ImportSource, Sonames};
use rocwheel_report::Silent;

/// How the members of a package are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    None,
    Gz,
    Xz,
    Zst,
    Bz2,
}

impl Packing {
    pub const ALL: [Self; 5] = [Self::None, Self::Gz, Self::Xz, Self::Zst, Self::Bz2];

    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gz => ".gz",
            Self::Xz => ".xz",
            Self::Zst => ".zst",
            Self::Bz2 => ".bz2",
        }
    }

    pub fn pack(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::None => bytes.to_vec(),
            Self::Gz => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            Self::Xz => liblzma::encode_all(bytes, 0).unwrap(),
            Self::Zst => zstd::bulk::compress(bytes, 1).unwrap(),
            Self::Bz2 => {
                let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
        }
    }
}

/// A tar archive in the making. Names are written as they are, however hostile.
#[derive(Default)]
pub struct Tar(Vec<u8>);

impl Tar {
    fn header(&mut self, kind: tar::EntryType, name: &str, size: usize, link: &str) {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        let field = &mut header.as_gnu_mut().unwrap().name;
        field[..name.len()].copy_from_slice(name.as_bytes());
        header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_size(size as u64);
        header.set_mode(0o644);
        header.set_cksum();
        self.0.extend(header.as_bytes());
    }

    pub fn file(mut self, name: &str, content: &[u8]) -> Self {
        self.header(tar::EntryType::Regular, name, content.len(), "");
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub fn link(mut self, name: &str, target: &str) -> Self {
        self.header(tar::EntryType::Symlink, name, 0, target);
        self
    }

    pub fn special(mut self, kind: tar::EntryType, name: &str, target: &str) -> Self {
        self.header(kind, name, 0, target);
        self
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// Writes the package `NAME_VERSION.deb` with these files.
pub fn deb(directory: &Path, name: &str, version: &str, data: Tar, packing: Packing) -> PathBuf {
    let control = format!("Package: {name}\nVersion: {version}\nSource: {name}-source\nArchitecture: amd64\n");
    let control = Tar::default().file("./control", control.as_bytes()).finish();
    let path = directory.join(format!("{name}_{version}.deb"));
    let members = [
        ("debian-binary".to_owned(), b"2.0\n".to_vec()),
        (format!("control.tar{}", packing.suffix()), packing.pack(&control)),
        (format!("data.tar{}", packing.suffix()), packing.pack(&data.finish())),
    ];
    let mut builder = ar::Builder::new(Vec::new());
    for (name, content) in &members {
        let header = ar::Header::new(name.clone().into_bytes(), content.len() as u64);
        builder.append(&header, content.as_slice()).unwrap();
    }
    fs_err::write(&path, builder.into_inner().unwrap()).unwrap();
    path
}

/// A shared library compiled by `gcc` from `source`, linked with the libraries of `needs`.
pub fn library(directory: &Path, soname: &str, source: &str, needs: &[&Path]) -> PathBuf {
    let path = directory.join(soname);
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-xc", "-", "-xnone", "-o"]).arg(&path);
    compiler.arg(format!("-Wl,-soname,{soname}")).arg("-Wl,--no-as-needed").args(needs);
    let mut child = compiler.stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "gcc failed for {soname}");
    path
}

pub fn options(output: &Path) -> ImportOptions {
    ImportOptions { output: output.to_owned(), allow_unresolved: Vec::new(), sonames: Sonames::Rename, version: None }
}

pub fn import(source: &ImportSource, options: &ImportOptions) -> Result<ImportReport, import::Error> {
    import::execute(&import::plan(source, options, &Silent)?, &Silent)
}

/// The union of all artifacts below `artifacts`, as `artifact flatten` makes it.
pub fn flatten(artifacts: &Path, target: &Path) {
    for entry in fs_err::read_dir(artifacts).unwrap() {
        let artifact = entry.unwrap().path();
        let Ok(manifest) = fs_err::read_to_string(artifact.join("artifact_manifest.txt")) else { continue };
        for basedir in manifest.lines().filter(|line| !line.is_empty()) {
            copy_tree(&artifact.join(basedir), target);
        }
    }
}

fn copy_tree(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from).sort_by_file_name() {
        let entry = entry.unwrap();
        let target = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            fs_err::create_dir_all(&target).unwrap();
        } else if entry.file_type().is_symlink() {
            rocwheel_system::symlink(fs_err::read_link(entry.path()).unwrap(), &target).unwrap();
        } else {
            fs_err::hard_link(entry.path(), &target).unwrap();
        }
    }
}

/// Every file and link below a directory with its content, for comparing trees.
pub fn listing(root: &Path) -> Vec<(String, String)> {
    let mut listing = Vec::new();
    for entry in walkdir::WalkDir::new(root).min_depth(1).sort_by_file_name() {
        let entry = entry.unwrap();
        let path = entry.path().strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let content = if entry.file_type().is_symlink() {
            fs_err::read_link(entry.path()).unwrap().to_string_lossy().into_owned()
        } else if entry.file_type().is_file() {
            format!("{:x?}", fs_err::read(entry.path()).unwrap())
        } else {
            continue;
        };
        listing.push((path, content));
    }
    listing
}

/// A program that loads the library it is given and prints the paths of all loaded objects.
pub fn loader(directory: &Path) -> PathBuf {
    let source = r"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
static int show(struct dl_phdr_info *info, size_t size, void *data) { puts(info->dlpi_name); return 0; }
int main(int count, char **arguments) {
    if (!dlopen(arguments[1], RTLD_NOW)) { fputs(dlerror(), stderr); return 1; }
    dl_iterate_phdr(show, 0);
    return 0;
}
";
    let path = directory.join("loader");
    let mut child =
        Command::new("gcc").args(["-xc", "-", "-o"]).arg(&path).stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    path
}

/// Loads `library` in a child without environment; the objects outside of `root` that are not the C
/// library's family.
pub fn outside(loader: &Path, library: &Path, root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new(loader).arg(library).env_clear().output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let root = fs_err::canonicalize(root).unwrap();
    let allowed = [
        "linux-vdso",
        "libc.so",
        "libm.so",
        "libdl.so",
        "libpthread.so",
        "librt.so",
        "libgcc_s.so",
        "libstdc++.so",
        "ld-linux",
    ];
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let objects = text.lines().filter(|line| !line.is_empty()).filter(|line| {
        let name = line.rsplit('/').next().unwrap_or_default();
        let inside = fs_err::canonicalize(line).is_ok_and(|path| path.starts_with(&root));
        !inside && !allowed.iter().any(|prefix| name.starts_with(prefix))
    });
    Ok(objects.map(str::to_owned).collect())
}
