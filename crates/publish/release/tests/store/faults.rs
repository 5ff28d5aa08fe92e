//! Servers that are busy, refuse or lie.

use std::sync::Arc;

use rocwheel_progress::{Exit, Hint as _, Silent, with_causes};
use rocwheel_store::{BucketFault, Error, S3Store, Signing, Store, StoreLocking};

use crate::server::{Fault, Server};
use crate::{make_index, open, wheel};

fn fault(error: Error) -> BucketFault {
    match error {
        Error::Bucket { source, .. } => source,
        other => panic!("{}", with_causes(&other)),
    }
}

#[test]
fn an_index_is_made_through_busy_servers_and_broken_connections() {
    let server = Server::start();
    let store = open(&server, "s3://bucket/whl");
    let folder = server.folder.path().join("bucket/whl");
    fs_err::create_dir_all(&folder).unwrap();
    for (name, bytes) in [wheel("one", "1.0", 300_000), wheel("two", "2.0", 10)] {
        fs_err::write(folder.join(name), bytes).unwrap();
    }
    server.plan(&[
        ("list_objects_v2", Fault::Busy),
        ("get_object", Fault::Busy),
        ("get_object", Fault::Slow),
        ("get_object", Fault::Reset),
        ("put_object", Fault::Lost),
        ("put_object", Fault::Busy),
        ("head_object", Fault::Busy),
        ("put_object", Fault::Lost),
    ]);
    let built = make_index(&store).unwrap();
    assert_eq!(built.files_read, 2);
    assert!(server.script.lock().unwrap().faults.is_empty());
    assert!(store.read("simple/one/index.html").unwrap().is_some());
}

#[test]
fn a_server_that_ignores_conditions_is_refused() {
    let server = Server::start();
    server.script.lock().unwrap().ignores_conditions = true;
    let error = open(&server, "s3://bucket").lock().err().unwrap();
    assert!(error.hint().unwrap().contains("--store-lock external"));
    assert!(matches!(fault(error), BucketFault::NoConditions));
    let mut options = server.options("s3://bucket");
    options.locking = StoreLocking::External;
    drop(S3Store::open(&options, Arc::new(Silent)).unwrap().lock().unwrap());
    let left = open(&server, "s3://bucket").list(".rocwheel", &Silent).unwrap();
    let left: Vec<&str> = left.iter().map(|file| file.key.as_str()).collect();
    assert_eq!(left, [".rocwheel/probe"], "and no lock");
}

#[test]
fn a_lock_that_ended_is_taken_over_and_its_holder_writes_no_more() {
    let server = Server::start();
    let store = open(&server, "s3://bucket");
    let path = server.folder.path().join("bucket/.rocwheel/index.lock");
    let record = r#"{"owner":"a killed run","run":"x","held":true,"life":LIFE,"renewals":1}"#;
    store.write(".rocwheel/index.lock", record.replace("LIFE", "3600").as_bytes()).unwrap();
    let error = store.lock().err().unwrap();
    assert!(error.to_string().ends_with("a killed run") && error.exit() == Exit::TryAgain, "{error}");
    let Error::Leased { seconds, .. } = error else { panic!("{error}") };
    assert!((3500..=3600).contains(&seconds), "the lock's own life: {seconds}");
    store.write(".rocwheel/index.lock", record.replace("LIFE", "0").as_bytes()).unwrap();
    let held = store.lock().unwrap();
    assert!(fs_err::read_to_string(&path).unwrap().contains("the test"));
    drop(held);
    assert!(fs_err::read_to_string(&path).unwrap().contains(r#""held":false"#));
}

#[test]
fn a_lock_that_rocwheel_did_not_write_is_for_the_user_to_delete() {
    let server = Server::start();
    let store = open(&server, "s3://bucket");
    let negative = r#"{"owner":"a run","run":"x","held":true,"life":-5,"renewals":1}"#;
    for bytes in ["", "hello", negative] {
        store.write(".rocwheel/index.lock", bytes.as_bytes()).unwrap();
        let error = store.lock().err().unwrap();
        assert!(error.exit() == Exit::Failed && error.hint().unwrap().starts_with("delete this object"), "{error}");
        assert!(matches!(fault(error), BucketFault::ForeignLock(key) if key == ".rocwheel/index.lock"));
    }
    store.remove(".rocwheel/index.lock").unwrap();
    drop(store.lock().unwrap());
}

#[test]
fn a_busy_server_is_no_other_publisher() {
    let server = Server::start();
    let store = open(&server, "s3://bucket");
    assert!(store.compare_and_swap("head", None, b"one").unwrap());
    server.take_log();
    server.plan(&[("put_object", Fault::Busy); 6]);
    let error = store.compare_and_swap("head", Some(b"one"), b"two").unwrap_err();
    assert!(error.exit() == Exit::TryAgain, "{error}");
    assert!(matches!(fault(error), BucketFault::Busy(code) if code == "SlowDown"));
    assert_eq!(server.take_log().iter().filter(|line| line.starts_with("put_object")).count(), 6);
    // The last answer is lost, and the others come before anything is done.
    server.plan(&[&[("put_object", Fault::Busy); 5][..], &[("put_object", Fault::Lost)]].concat());
    assert!(store.compare_and_swap("head", Some(b"one"), b"two").unwrap());
    server.plan(&[("put_object", Fault::Conflict)]);
    assert!(!store.compare_and_swap("new", None, b"one").unwrap(), "another request is under way");
    server.plan(&[("put_object", Fault::Gone)]);
    assert!(!store.compare_and_swap("head", Some(b"two"), b"three").unwrap(), "another publisher deleted it");
}

#[test]
fn of_many_publishers_one_has_the_lock() {
    let server = Server::start();
    let stores: Vec<S3Store> = (0..6).map(|_| open(&server, "s3://bucket")).collect();
    let locks: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = stores.iter().map(|store| scope.spawn(|| store.lock())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(locks.iter().filter(|lock| lock.is_ok()).count(), 1);
}

#[test]
fn a_conflict_while_the_lock_is_taken_is_tried_again() {
    let server = Server::start();
    server.plan(&[("put_object", Fault::Conflict), ("put_object", Fault::Lost), ("put_object", Fault::Lost)]);
    drop(open(&server, "s3://bucket").lock().unwrap());
    // Three writes of the probe, and the first one of the lock, which is deleted before the second.
    server.plan(&[&[("put_object", Fault::Late); 4][..], &[("put_object", Fault::Gone)]].concat());
    drop(open(&server, "s3://bucket").lock().unwrap());
    assert!(server.script.lock().unwrap().faults.is_empty());
}

#[test]
fn what_a_server_refuses_has_a_reason_and_shows_no_secret() {
    let server = Server::start();
    let list = |options: &rocwheel_store::S3Options| -> Error {
        let store = S3Store::open(options, Arc::new(Silent));
        store.and_then(|store| store.list("", &Silent)).unwrap_err()
    };
    let missing = list(&server.options("s3://nowhere/x"));
    assert_eq!(missing.to_string(), "cannot list `s3://nowhere/x`");
    assert!(matches!(fault(missing), BucketFault::NoBucket));

    let mut wrong = server.options("s3://bucket");
    wrong.variables[1].1 = "hunter2".to_owned();
    let error = list(&wrong);
    let text = format!("{} {:?} {wrong:?} {}", with_causes(&error), error, error.hint().unwrap());
    assert!(!text.contains("hunter2") && !text.contains("AKIATEST"), "{text}");
    assert!(matches!(fault(error), BucketFault::Credentials(code) if code == "SignatureDoesNotMatch"));

    let mut none = server.options("s3://bucket");
    none.variables.clear();
    let error = list(&none);
    assert!(error.hint().unwrap().contains("aws configure export-credentials --format env"));
    assert!(matches!(fault(error), BucketFault::NoCredentials));

    none.signing = Signing::Anonymous;
    assert!(matches!(fault(list(&none)), BucketFault::Denied(_)));

    server.plan(&[("put_object", Fault::Denied)]);
    let error = open(&server, "s3://bucket").write("x", b"x").unwrap_err();
    assert!(matches!(fault(error), BucketFault::Denied(code) if code == "AccessDenied"));

    let mut down = server.options("s3://bucket");
    // Nothing listens on the port of the discard service.
    down.endpoint = Some("http://127.0.0.1:9".to_owned());
    let error = list(&down);
    assert!(error.exit() == Exit::TryAgain, "{}", with_causes(&error));
}

#[test]
fn a_public_bucket_is_read_without_credentials() {
    let server = Server::with_keys(false);
    fs_err::write(server.folder.path().join("bucket/notes.txt"), "notes").unwrap();
    let mut options = server.options("s3://bucket");
    options.variables.clear();
    options.signing = Signing::Anonymous;
    let store = S3Store::open(&options, Arc::new(Silent)).unwrap();
    let file = store.list("", &Silent).unwrap().remove(0);
    assert_eq!(store.sha256(&file).unwrap(), None);
    assert_eq!(store.read("notes.txt").unwrap().unwrap(), b"notes");
}
