//! Files into a bucket.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rocwheel_progress::{Exit, Hint as _, Reporter, Silent, Unit};
use rocwheel_store::{Error, S3Store, Store as _, UploadOptions, UploadState, collect_uploads, plan_uploads, upload};

use crate::server::{Fault, Script, Server};
use crate::{open, wheel};

pub(crate) fn upload_all(store: &S3Store, paths: &[&Path]) -> Vec<UploadState> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).to_owned()).collect();
    let files = collect_uploads(&paths, &[]).unwrap();
    let uploads = plan_uploads(store, &files, UploadOptions::Keep, &Silent).unwrap();
    upload(store, &uploads, &Silent).unwrap();
    uploads.iter().map(|upload| upload.state).collect()
}

/// A file of this many bytes.
fn file(folder: &Path, name: &str, size: usize) -> PathBuf {
    let (_, bytes) = wheel("ballast", "1", size);
    let path = folder.join(name);
    fs_err::write(&path, bytes).unwrap();
    path
}

#[test]
fn files_go_up_once_with_their_hashes() {
    let (server, local) = (Server::start(), tempfile::tempdir().unwrap());
    let store = open(&server, "s3://bucket/linux-64");
    let small = file(local.path(), "magma-rocm63-abc-1.tar.bz2", 1000);
    let large = file(local.path(), "magma-rocm64-abc-1.tar.bz2", 20 << 20);
    let all = [small.as_path(), large.as_path()];
    assert_eq!(upload_all(&store, &all), [UploadState::New; 2]);
    assert_eq!(upload_all(&store, &all), [UploadState::Unchanged; 2]);
    for path in all {
        let name = path.file_name().unwrap().to_str().unwrap();
        let bytes = fs_err::read(path).unwrap();
        assert!(store.read(name).unwrap().unwrap() == bytes, "{name}");
        let stored = store.list("", &Silent).unwrap().into_iter().find(|file| file.key == name).unwrap();
        assert_eq!(store.sha256(&stored).unwrap(), Some(rocwheel_content::sha256(&bytes)), "{name}");
    }
    assert!(server.left_parts().is_empty(), "{:?}", server.left_parts());
    let log = server.take_log();
    assert_eq!(log.iter().filter(|line| line.starts_with("upload_part ")).count(), 3, "{log:?}");
}

#[test]
fn another_file_of_the_same_name_is_refused() {
    let (server, local) = (Server::start(), tempfile::tempdir().unwrap());
    let store = open(&server, "s3://bucket/x");
    let names = ["a-1-py3-none-any.whl", "notes.txt"];
    for (name, size) in names.iter().zip([10, 20]) {
        upload_all(&store, &[&file(local.path(), name, size)]);
        file(local.path(), name, size + 1);
    }
    let files = collect_uploads(&[local.path().to_owned()], &[]).unwrap();
    let refused = plan_uploads(&store, &files, UploadOptions::Keep, &Silent).unwrap_err();
    let Error::OtherBytes { problems } = &refused else { panic!("{refused}") };
    assert_eq!(problems, &["`s3://bucket/x/a-1-py3-none-any.whl`", "`s3://bucket/x/notes.txt`"]);
    let Err(Error::OtherBytes { problems }) = plan_uploads(&store, &files, UploadOptions::Replace, &Silent) else {
        panic!("a wheel is never replaced")
    };
    assert_eq!(problems.len(), 1);
    let notes: Vec<_> = files.into_iter().filter(|(_, key)| key == "notes.txt").collect();
    let plan = plan_uploads(&store, &notes, UploadOptions::Replace, &Silent).unwrap();
    assert_eq!(plan[0].state, UploadState::Replaced);
    upload(&store, &plan, &Silent).unwrap();
    assert_eq!(store.read("notes.txt").unwrap().unwrap(), fs_err::read(local.path().join("notes.txt")).unwrap());
}

#[test]
fn a_file_that_another_publisher_wrote_meanwhile_stays() {
    let (server, local) = (Server::start(), tempfile::tempdir().unwrap());
    let store = open(&server, "s3://bucket");
    for size in [100, 9 << 20] {
        let path = file(local.path(), &format!("file-{size}.bin"), size);
        let files = collect_uploads(&[path], &[]).unwrap();
        let plan = plan_uploads(&store, &files, UploadOptions::Keep, &Silent).unwrap();
        store.write(&plan[0].key, b"of another publisher").unwrap();
        let error = upload(&store, &plan, &Silent).unwrap_err();
        assert!(matches!(error, Error::OtherBytes { .. }), "{error}");
        assert_eq!(store.read(&plan[0].key).unwrap().unwrap(), b"of another publisher");
    }
    assert!(server.left_parts().is_empty(), "{:?}", server.left_parts());
}

#[test]
fn uploads_survive_busy_servers_lost_answers_and_conflicts() {
    let (server, local) = (Server::start(), tempfile::tempdir().unwrap());
    let store = open(&server, "s3://bucket");
    let cases: [&[(&str, Fault)]; 6] = [
        &[("put_object", Fault::Busy), ("head_object", Fault::Busy)],
        &[("put_object", Fault::Lost)],
        &[("put_object", Fault::Conflict)],
        &[("upload_part", Fault::Busy), ("upload_part", Fault::Lost), ("create_multipart_upload", Fault::Busy)],
        &[("complete_multipart_upload", Fault::Lost)],
        &[("complete_multipart_upload", Fault::Conflict), ("complete_multipart_upload", Fault::Busy)],
    ];
    for (index, faults) in cases.into_iter().enumerate() {
        let small = file(local.path(), &format!("small-{index}"), 100 + index);
        let large = file(local.path(), &format!("large-{index}"), (9 << 20) + index);
        server.plan(faults);
        upload_all(&store, &[&small, &large]);
        for path in [small, large] {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(store.read(name).unwrap().unwrap() == fs_err::read(&path).unwrap(), "{name}: {faults:?}");
        }
    }
}

#[test]
fn a_truncated_upload_is_an_error() {
    let (server, local) = (Server::start(), tempfile::tempdir().unwrap());
    let store = open(&server, "s3://bucket");
    let files = collect_uploads(&[file(local.path(), "notes.txt", 1000)], &[]).unwrap();
    let plan = plan_uploads(&store, &files, UploadOptions::Keep, &Silent).unwrap();
    server.plan(&[("put_object", Fault::Truncated)]);
    let error = upload(&store, &plan, &Silent).unwrap_err();
    assert!(matches!(error, Error::Bucket { .. }), "{error}");
}

/// Stops the work after so many bytes, as Ctrl-C does.
struct StopAfter(u64, AtomicU64);

impl Reporter for StopAfter {
    fn begin(&self, stage: &str, _: Option<u64>, _: Unit) {
        if stage == "Uploading" {
            self.1.store(0, Ordering::Relaxed);
        }
    }
    fn advance(&self, amount: u64) {
        self.1.fetch_add(amount, Ordering::Relaxed);
    }
    fn end(&self) {}
    fn warn(&self, message: &str) {
        panic!("{message}");
    }
    fn interrupted(&self) -> bool {
        self.1.load(Ordering::Relaxed) >= self.0
    }
}

#[test]
fn an_interrupted_upload_leaves_no_parts() {
    let (server, local) = (Server::start(), tempfile::tempdir().unwrap());
    let files = collect_uploads(&[file(local.path(), "large.bin", 40 << 20)], &[]).unwrap();
    let plan = plan_uploads(&open(&server, "s3://bucket"), &files, UploadOptions::Keep, &Silent).unwrap();
    let stop = Arc::new(StopAfter(10 << 20, AtomicU64::new(0)));
    let store = S3Store::open(&server.options("s3://bucket"), Arc::clone(&stop) as Arc<dyn Reporter>).unwrap();
    let error = upload(&store, &plan, &*stop).unwrap_err();
    assert!(error.exit() == Exit::Interrupted, "{error}");
    assert!(server.take_log().iter().any(|line| line.starts_with("abort_multipart_upload")));
    assert!(server.left_parts().is_empty(), "{:?}", server.left_parts());
    assert!(open(&server, "s3://bucket").list("", &Silent).unwrap().is_empty());
}

/// Stops the work when the server has been asked to begin an upload.
struct StopAtBegin(Arc<Mutex<Script>>);

impl Reporter for StopAtBegin {
    fn begin(&self, _: &str, _: Option<u64>, _: Unit) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
    fn warn(&self, message: &str) {
        panic!("{message}");
    }
    fn interrupted(&self) -> bool {
        self.0.lock().unwrap().log.iter().any(|line| line.starts_with("create_multipart_upload"))
    }
}

#[test]
fn an_upload_that_is_interrupted_while_it_begins_leaves_nothing() {
    let (server, local) = (Server::start(), tempfile::tempdir().unwrap());
    let files = collect_uploads(&[file(local.path(), "large.bin", 9 << 20)], &[]).unwrap();
    let plan = plan_uploads(&open(&server, "s3://bucket"), &files, UploadOptions::Keep, &Silent).unwrap();
    let stop = Arc::new(StopAtBegin(Arc::clone(&server.script)));
    let store = S3Store::open(&server.options("s3://bucket"), Arc::clone(&stop) as Arc<dyn Reporter>).unwrap();
    server.plan(&[("create_multipart_upload", Fault::Late)]);
    let error = upload(&store, &plan, &*stop).unwrap_err();
    assert!(error.exit() == Exit::Interrupted, "{error}");
    assert!(server.take_log().iter().any(|line| line.starts_with("abort_multipart_upload")));
    assert!(server.left_parts().is_empty(), "{:?}", server.left_parts());
}

#[test]
fn folders_and_patterns_choose_files() {
    let local = tempfile::tempdir().unwrap();
    for name in ["linux-64/magma-rocm63.tar.bz2", "linux-64/build.log", ".hidden/x"] {
        fs_err::create_dir_all(local.path().join(name).parent().unwrap()).unwrap();
        fs_err::write(local.path().join(name), name).unwrap();
    }
    let keys = |paths: &[PathBuf], patterns: &[&str]| -> Result<Vec<String>, String> {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        let files = collect_uploads(paths, &patterns).map_err(|error| error.to_string())?;
        Ok(files.into_iter().map(|(_, key)| key).collect())
    };
    let top = local.path().to_owned();
    let tarball = top.join("linux-64/magma-rocm63.tar.bz2");
    assert_eq!(keys(std::slice::from_ref(&top), &["*.bz2"]).unwrap(), ["linux-64/magma-rocm63.tar.bz2"]);
    assert_eq!(keys(std::slice::from_ref(&top), &[]).unwrap().len(), 2);
    assert_eq!(keys(std::slice::from_ref(&tarball), &[]).unwrap(), ["magma-rocm63.tar.bz2"]);
    assert!(keys(&[tarball], &["*.whl"]).unwrap_err().contains("no file is called like `*.whl`"));
    assert!(keys(&[top.join("none")], &[]).unwrap_err().contains("none"));
}
