//! Streams on a folder and on a bucket: what is written under conditions, and two publishers.

use std::path::Path;
use std::time::Duration;

use rocwheel_attest::SigningKey;
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_progress::{Hint as _, Silent};
use rocwheel_release::{Error, PublishOptions, publish, read_set};
use rocwheel_store::{Error as StoreError, FileTransfer, NewFile, Store};
use rocwheel_stream::{
    Error as StreamError, Stream, StreamChange, StreamFault, UnsignedChange, VerifyOptions, refuse_stream,
    verify_stream,
};

use crate::server::Server;
use crate::{on_both, open, wheel};

const ADDRESS: &str = "s3://bucket/whl/nightly";

fn now() -> jiff::Timestamp {
    "2026-11-20T01:02:03Z".parse().unwrap()
}

fn change(keys: &[SigningKey]) -> StreamChange<'_> {
    let (unsigned, patience) = (UnsignedChange::Refuse, Duration::from_mins(1));
    StreamChange { stream: "nightly", now: now(), keys, unsigned, patience, chooser: None, write: true }
}

/// A folder with wheels that require nothing.
fn dist(names: &[&str], version: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let (file, bytes) = wheel(name, version, 64);
        fs_err::write(folder.path().join(file), bytes).unwrap();
    }
    folder
}

fn publish_dist(store: &dyn Store, folder: &Path, set: &str) -> Result<usize, Error> {
    let local = read_set(folder, &Silent)?;
    let options = PublishOptions { set: Some(set.to_owned()), ..PublishOptions::default() };
    publish(store, &local, &options, &change(&[]), &Silent).map(|published| published.uploaded)
}

fn assert_whole(store: &dyn Store, files: usize) {
    let options = VerifyOptions { keys: Vec::new(), now: now(), read_files: true };
    let verified = verify_stream(store, &options, &Silent).unwrap();
    assert_eq!((verified.files, &verified.problems[..]), (files, &[][..]));
}

#[test]
fn a_small_file_changes_only_from_what_was_read() {
    on_both(|store, _| {
        let swap = |before: Option<&[u8]>, after: &[u8]| store.compare_and_swap("a/head", before, after).unwrap();
        assert!(!swap(Some(b"one"), b"two"), "there is none");
        assert!(swap(None, b"one"));
        assert!(!swap(None, b"two") && !swap(Some(b"two"), b"three"));
        assert!(swap(Some(b"one"), b"two"));
        assert_eq!(store.read("a/head").unwrap().unwrap(), b"two");
    });
}

#[test]
fn a_name_has_one_content() {
    on_both(|store, _| {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs_err::write(&path, bytes).unwrap();
            NewFile {
                path,
                key: format!("p/{name}"),
                size: bytes.len() as u64,
                sha256: sha256(bytes),
                transfer: FileTransfer::Copy,
            }
        };
        let all = [file("one.whl", b"one"), file("two.whl", b"two")];
        assert_eq!(store.put_files(&all[..1], &Silent).unwrap(), 1);
        assert_eq!(store.put_files(&all, &Silent).unwrap(), 1, "the first one is there");
        let other = file("one.whl", b"uno");
        let refused = store.put_files(&[other], &Silent).unwrap_err();
        assert!(matches!(&refused, StoreError::OtherBytes { problems } if problems.len() == 1), "{refused}");
        let changed = NewFile { sha256: sha256(b"else"), ..file("three.whl", b"three") };
        assert!(store.put_files(&[changed], &Silent).is_err(), "it is not what was examined");
        assert_eq!(store.read("p/one.whl").unwrap().unwrap(), b"one");
        assert_eq!(store.read("p/three.whl").unwrap(), None);
    });
}

#[test]
fn a_stream_is_published_and_verified() {
    on_both(|store, _| {
        let folder = dist(&["rocm", "torch"], "7.2.0");
        assert_eq!(publish_dist(store, folder.path(), "first").unwrap(), 2);
        assert_eq!(publish_dist(store, folder.path(), "first").unwrap(), 0);
        assert_eq!(Stream::existing(store, "nightly").unwrap().manifest.number, 1);
        let next = dist(&["rocm", "torch"], "7.3.0");
        publish_dist(store, next.path(), "second").unwrap();
        assert_whole(store, 4);
        let refused = refuse_stream(store).unwrap_err();
        assert!(matches!(refused, StreamError::Stream(StreamFault::IsStream { .. })), "{refused}");
    });
}

/// Each publisher has a store of its own, as two machines have.
#[test]
fn two_publishers_on_a_bucket_lose_nothing() {
    let server = Server::start();
    let sets = ["one", "two", "three"].map(|name| (name, dist(&[name, "tool"], "1.0")));
    // The same tool is in all three sets, under one name.
    let (name, bytes) = wheel("tool", "1.0", 64);
    for (_, folder) in &sets {
        fs_err::write(folder.path().join(&name), &bytes).unwrap();
    }
    std::thread::scope(|scope| {
        for (name, folder) in &sets {
            let server = &server;
            scope.spawn(move || publish_dist(&open(server, ADDRESS), folder.path(), name).unwrap());
        }
    });
    let store = open(&server, ADDRESS);
    let stream = Stream::existing(&store, "nightly").unwrap();
    assert_eq!((stream.manifest.number, stream.manifest.sets.len()), (3, 3));
    assert_whole(&store, 4);
}

/// A server that fails in the middle of the pages leaves a publication that the next one finishes.
#[test]
fn a_publication_that_broke_off_is_finished_by_the_next_one() {
    let server = Server::start();
    let store = open(&server, ADDRESS);
    publish_dist(&store, dist(&["rocm"], "7.1.0").path(), "first").unwrap();
    let begun = dist(&["rocm", "torch"], "7.2.0");
    let mut failed = 0;
    for puts in 0.. {
        server.allow_puts(Some(puts));
        let done = publish_dist(&store, begun.path(), "second");
        server.allow_puts(None);
        let seen = Stream::existing(&store, "nightly").unwrap().manifest;
        assert_eq!(seen.number, 1 + u64::from(done.is_ok()), "the head is last");
        if done.is_ok() {
            break;
        }
        failed += 1;
    }
    assert!(failed >= 5, "only {failed} requests were refused");
    assert_whole(&store, 3);
}

#[test]
fn a_set_that_got_more_files_is_published_already() {
    on_both(|store, _| {
        let (rocm, torch) = (dist(&["rocm", "tool"], "7"), dist(&["torch"], "2"));
        publish_dist(store, rocm.path(), "rocm-7").unwrap();
        let local = read_set(torch.path(), &Silent).unwrap();
        let options = PublishOptions { join: Some("rocm-7".to_owned()), ..PublishOptions::default() };
        publish(store, &local, &options, &change(&[]), &Silent).unwrap();
        assert_eq!(publish_dist(store, rocm.path(), "rocm-7").unwrap(), 0);
        let stream = Stream::read(store, "nightly").unwrap();
        assert_eq!((stream.manifest.number, stream.set("rocm-7").unwrap().files.len()), (2, 3));
        drop(stream);
        let more = dist(&["rocm", "tool", "more"], "7");
        let refused = publish_dist(store, more.path(), "rocm-7").unwrap_err();
        assert!(refused.to_string().contains("a set of this name with other files"), "{refused}");
        assert_whole(store, 3);
    });
}

#[test]
fn what_is_missing_or_damaged_of_a_published_set_is_written_again() {
    on_both(|store, _| {
        let folder = dist(&["rocm", "torch"], "7.2.0");
        let local = read_set(folder.path(), &Silent).unwrap();
        let statements = vec![b"{}".to_vec()];
        let statement = format!(".release/statements/{}.json", hexadecimal(&sha256(&statements[0])));
        let named = PublishOptions { set: Some("first".to_owned()), ..PublishOptions::default() };
        let stated = PublishOptions { statements, ..named.clone() };
        publish(store, &local, &stated, &change(&[]), &Silent).unwrap();
        publish_dist(store, dist(&["rocm"], "7.3.0").path(), "second").unwrap();
        let repaired = |options: &PublishOptions| -> Result<Vec<String>, Error> {
            let published = publish(store, &local, options, &change(&[]), &Silent)?;
            assert_eq!((published.pages.len(), published.uploaded), (0, 0));
            Ok(published.repaired)
        };
        assert!(repaired(&stated).unwrap().is_empty());

        let metadata = ["rocm", "torch"].map(|name| format!("{name}/{name}-7.2.0-py3-none-any.whl.metadata"));
        store.remove(&metadata[0]).unwrap();
        store.write(&metadata[1], b"Name: other\n").unwrap();
        store.remove("torch/index.html").unwrap();
        store.write("index.v1_json", b"{}").unwrap();
        store.remove(".release/sets/first.json").unwrap();
        store.write(&statement, b"other").unwrap();
        let pages = ["index.v1_html", "index.v1_json", "index.html"];
        let mut expected: Vec<String> = pages.iter().map(|page| format!("torch/{page}")).collect();
        expected.extend(pages.map(str::to_owned));
        expected.extend(metadata);
        expected.extend([".release/sets/first.json".to_owned(), statement.clone()]);
        expected.sort();
        let mut found = repaired(&stated).unwrap();
        found.sort();
        assert_eq!(found, expected);
        assert_whole(store, 3);

        // What this run has no bytes of is an error; everything else is repaired.
        store.remove(&statement).unwrap();
        store.remove("rocm/index.html").unwrap();
        let refused = repaired(&named).unwrap_err();
        assert_eq!(refused.rows(), [format!("`{statement}` is missing")]);
        assert!(store.read("rocm/index.html").unwrap().is_some());
        assert_eq!(repaired(&stated).unwrap(), [statement]);
        assert_whole(store, 3);
    });
}

#[test]
fn a_file_with_other_bytes_than_the_stream_lists_is_named() {
    on_both(|store, files| {
        let folder = dist(&["rocm"], "7.2.0");
        publish_dist(store, folder.path(), "first").unwrap();
        fs_err::write(files.join("rocm/rocm-7.2.0-py3-none-any.whl"), b"truncated").unwrap();
        let refused = publish_dist(store, folder.path(), "first").unwrap_err();
        let hint = refused.hint().unwrap();
        assert!(hint.contains("rocm/rocm-7.2.0-py3-none-any.whl` in the store") && !hint.contains("clobber"), "{hint}");
        store.remove("rocm/rocm-7.2.0-py3-none-any.whl").unwrap();
        assert_eq!(publish_dist(store, folder.path(), "first").unwrap(), 1);
        assert_whole(store, 1);
    });
}

#[test]
fn files_that_the_stream_has_join_another_set() {
    on_both(|store, _| {
        let (rocm, torch) = (dist(&["rocm"], "7"), dist(&["torch"], "2"));
        publish_dist(store, rocm.path(), "rocm-7").unwrap();
        publish_dist(store, torch.path(), "torch-2").unwrap();
        let local = read_set(torch.path(), &Silent).unwrap();
        let options = PublishOptions { join: Some("rocm-7".to_owned()), ..PublishOptions::default() };
        publish(store, &local, &options, &change(&[]), &Silent).unwrap();
        let stream = Stream::read(store, "nightly").unwrap();
        assert_eq!(stream.set("rocm-7").unwrap().files.len(), 2);
        let number = stream.manifest.number;
        drop(stream);
        publish(store, &local, &options, &change(&[]), &Silent).unwrap();
        assert_eq!(Stream::read(store, "nightly").unwrap().manifest.number, number, "nothing is new");
        assert_whole(store, 2);
    });
}
