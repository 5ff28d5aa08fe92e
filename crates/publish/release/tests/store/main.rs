//! The same checks on a folder and on a bucket, and what only a bucket can do wrong.

#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

mod credentials;
mod faults;
mod server;
mod streams;
mod uploads;

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rocwheel_pages::{BuildOptions, Built, Error, build};
use rocwheel_progress::{Reporter, Silent};
use rocwheel_store::{Error as StoreError, FolderStore, S3Store, Store, StoredBytes};
use server::Server;
use zip::write::{SimpleFileOptions, ZipWriter};

/// A wheel of `name` with this METADATA and `ballast` more bytes.
pub(crate) fn wheel(name: &str, version: &str, ballast: usize) -> (String, Vec<u8>) {
    let stem = format!("{name}-{version}");
    let metadata =
        format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: >=3.10\n\nA package.\n");
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let mut add = |member: &str, bytes: &[u8]| {
        let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        zip.start_file(member, options).unwrap();
        zip.write_all(bytes).unwrap();
    };
    // Not all zeros: a part is told from another one.
    let ballast: Vec<u8> = (0..ballast).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    add(&format!("{name}/__init__.py"), &ballast);
    add(&format!("{stem}.dist-info/METADATA"), metadata.as_bytes());
    add(&format!("{stem}.dist-info/WHEEL"), b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n");
    add(&format!("{stem}.dist-info/RECORD"), b"");
    (format!("{stem}-py3-none-any.whl"), zip.finish().unwrap().into_inner())
}

pub(crate) fn options() -> BuildOptions {
    BuildOptions { now: "2026-11-20T01:02:03Z".parse::<Timestamp>().unwrap(), write: true, ..BuildOptions::default() }
}

pub(crate) fn make_index(store: &dyn Store) -> Result<Built, Error> {
    build(store, &options(), &Silent)
}

pub(crate) fn open(server: &Server, address: &str) -> S3Store {
    S3Store::open(&server.options(address), Arc::new(Silent) as Arc<dyn Reporter>).unwrap()
}

/// Writes a file that did not change for an hour: a young one is read again.
fn write_old(path: &Path, bytes: &[u8]) {
    fs_err::write(path, bytes).unwrap();
    let file = fs_err::OpenOptions::new().write(true).open(path).unwrap();
    file.file().set_modified(std::time::SystemTime::now() - std::time::Duration::from_hours(1)).unwrap();
}

/// Runs a check on an empty folder and on an empty prefix of a bucket, with the folder that the
/// files are in.
fn on_both(check: impl Fn(&dyn Store, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    check(&FolderStore::open(folder.path()).unwrap(), folder.path());
    let server = Server::start();
    let files = server.folder.path().join("bucket/whl/nightly");
    check(&open(&server, "s3://bucket/whl/nightly"), &files);
}

#[test]
fn files_are_written_listed_read_and_removed() {
    on_both(|store, _| {
        assert!(store.list("", &Silent).unwrap().is_empty());
        assert_eq!(store.read("simple/index.html").unwrap(), None);
        for key in ["simple/index.html", "simple/torch/index.html", "torch-2.9.0+rocm7.2-x.whl", ".rocwheel/index/x"] {
            store.write(key, key.as_bytes()).unwrap();
        }
        let keys = |folder: &str| -> Vec<String> {
            store.list(folder, &Silent).unwrap().into_iter().map(|file| file.key).collect()
        };
        assert_eq!(keys(""), ["simple/index.html", "simple/torch/index.html", "torch-2.9.0+rocm7.2-x.whl"]);
        assert_eq!(keys("simple/torch"), ["simple/torch/index.html"]);
        assert_eq!(keys(".rocwheel/index"), [".rocwheel/index/x"]);
        assert!(keys("simp").is_empty(), "a prefix is a folder");
        assert_eq!(store.read("torch-2.9.0+rocm7.2-x.whl").unwrap().unwrap(), b"torch-2.9.0+rocm7.2-x.whl");
        let before = store.list("simple/torch", &Silent).unwrap().remove(0);
        store.write("simple/torch/index.html", b"another page").unwrap();
        let after = store.list("simple/torch", &Silent).unwrap().remove(0);
        assert_eq!(after.size, 12);
        assert_ne!(before.stamp, after.stamp);
        store.remove("simple/torch/index.html").unwrap();
        store.remove("simple/torch/index.html").unwrap();
        assert!(keys("simple/torch").is_empty());
    });
}

#[test]
fn one_publisher_at_a_time() {
    on_both(|store, _| {
        let held = store.lock().unwrap();
        assert!(store.list("", &Silent).unwrap().is_empty(), "the lock is no file of the index");
        let second = store.lock().err().unwrap();
        assert!(matches!(second, StoreError::Locked { .. } | StoreError::Leased { .. }), "{second}");
        drop(held);
        drop(store.lock().unwrap());
    });
}

#[test]
fn an_index_has_the_same_pages_and_a_second_run_changes_none() {
    let mut pages: Vec<Vec<Vec<u8>>> = Vec::new();
    let pages_of = std::sync::Mutex::new(&mut pages);
    on_both(|store, files| {
        fs_err::create_dir_all(files).unwrap();
        for (name, bytes) in [wheel("one", "1.0", 100), wheel("two", "2.0", 3000), wheel("two", "2.1", 3001)] {
            write_old(&files.join(name), &bytes);
        }
        let built = make_index(store).unwrap();
        assert_eq!((built.layout, built.files_read, built.indexes[0].projects), ("flat", 3, 2));
        let again = make_index(store).unwrap();
        assert_eq!((again.files_read, again.pages.len()), (0, 0), "{again:?}");
        let (name, bytes) = wheel("two", "2.2", 10);
        write_old(&files.join(name), &bytes);
        let more = make_index(store).unwrap();
        assert_eq!(more.files_read, 1);
        assert!(more.pages.iter().all(|page| !page.page.contains("simple/one/")), "{more:?}");
        let keys = ["simple/index.html", "simple/two/index.v1_json", "index.html", "one-1.0-py3-none-any.whl.metadata"];
        pages_of.lock().unwrap().push(keys.map(|key| store.read(key).unwrap().unwrap()).to_vec());
    });
    assert_eq!(pages[0], pages[1], "a folder and a bucket have the same pages");
}

#[test]
fn a_large_wheel_with_a_known_hash_is_not_downloaded() {
    let server = Server::start();
    let store = open(&server, "s3://bucket/whl");
    let local = tempfile::tempdir().unwrap();
    let (name, bytes) = wheel("large", "1.0", 3 << 20);
    fs_err::write(local.path().join(&name), &bytes).unwrap();
    uploads::upload_all(&store, &[&local.path().join(&name)]);
    server.take_log();
    make_index(&store).unwrap();
    let log = server.take_log();
    let ranges: Vec<&String> = log.iter().filter(|line| line.starts_with(&format!("get_object whl/{name} "))).collect();
    assert!(!ranges.is_empty() && ranges.iter().all(|line| line.contains("bytes=")), "{ranges:?}");
    let fetched: u64 = ranges
        .iter()
        .map(|line| {
            let (first, last) = line.rsplit_once("bytes=").unwrap().1.split_once('-').unwrap();
            last.parse::<u64>().unwrap() - first.parse::<u64>().unwrap() + 1
        })
        .sum();
    assert!(fetched < 1 << 20, "{fetched} bytes of {}: {ranges:?}", bytes.len());
}

#[test]
fn random_access_to_an_object_gives_its_bytes() {
    let server = Server::start();
    let store = open(&server, "s3://bucket/");
    let (name, bytes) = wheel("one", "1.0", 2 << 20);
    fs_err::write(server.folder.path().join("bucket").join(&name), &bytes).unwrap();
    let file = store.list("", &Silent).unwrap().remove(0);
    let StoredBytes::Remote(content) = store.bytes(&file).unwrap() else { panic!("a bucket is remote") };
    let reader = content.open().unwrap();
    for (at, length) in [(bytes.len() - 30, 30), (0, 10), (5, 100_000), (1_000_000, 4), (0, bytes.len())] {
        let mut part = vec![0; length];
        reader.read_exact_at(at as u64, &mut part).unwrap();
        assert!(part == bytes[at..at + length], "{at} {length}");
    }
    assert_eq!(rocwheel_content::sha256_at(&*reader, file.size).unwrap(), rocwheel_content::sha256(&bytes));
    fs_err::write(server.folder.path().join("bucket").join(&name), b"another file").unwrap();
    let reader = content.open().unwrap();
    assert!(reader.read_exact_at(0, &mut [0; 10]).is_err(), "it changed");
}
