//! Archives that were made to do harm, and archives that were damaged in transit.

use std::path::Path;

use rocwheel_artifact::archive::{self, Compression};
use rocwheel_artifact::{Catalog, Error};
use rocwheel_fixtures::names;
use rocwheel_progress::{Hint as _, Silent};

use crate::fixture::{Raw, manifest, noise, raw, raw_tar, xz, zstd};

/// Unpacks an archive of these members in a separate directory and checks that nothing but the
/// artifact appears.
fn unpack(members: &[Raw]) -> Result<(), Error> {
    unpack_bytes(&zstd(&raw_tar(members)), Compression::Zstd)
}

fn unpack_bytes(bytes: &[u8], compression: Compression) -> Result<(), Error> {
    let temporary = tempfile::tempdir().unwrap();
    let inner = temporary.path().join("in/ner");
    fs_err::create_dir_all(&inner).unwrap();
    let archive = temporary.path().join("in").join(format!("a_lib_generic{}", compression.suffix()));
    fs_err::write(&archive, bytes).unwrap();
    fs_err::write(temporary.path().join("in/precious"), "precious").unwrap();
    let result = archive::unpack(&archive, &inner.join("out"), &Silent);
    let listed = rocwheel_artifact::list::list(&temporary.path().join("in"), &Silent).unwrap();
    assert_eq!(listed.artifacts[0].problem.is_some(), result.is_err(), "listing reads with the same eyes");
    assert_eq!(names(temporary.path()), ["in"]);
    assert_eq!(names(&temporary.path().join("in")).len(), 3);
    assert_eq!(fs_err::read(temporary.path().join("in/precious")).unwrap(), b"precious");
    assert_eq!(names(&inner).len(), usize::from(result.is_ok()), "a failure leaves nothing behind");
    if let Err(error) = &result {
        assert!(
            error.to_string().contains(&format!("{}`", archive.display())),
            "the message names the archive: {error}"
        );
    }
    result
}

fn refused(members: &[Raw], member: &str, reason: &str) {
    let error = unpack(members).unwrap_err().to_string();
    let is_named = error.starts_with(&format!("refused to unpack `{member}` of the archive"));
    assert!(is_named && error.ends_with(&format!("`: {reason}")), "{error}");
}

fn file(name: &str) -> Raw {
    raw(name, b'0', "", b"content")
}

#[test]
fn names_out_of_the_tree() {
    let first = manifest(&["stage"]);
    refused(&[first.clone(), file("stage/../../x")], "stage/../../x", "its name holds `..`");
    refused(&[first.clone(), file("../precious")], "../precious", "its name holds `..`");
    refused(&[first.clone(), file("/etc/x")], "/etc/x", "its name is absolute");
    refused(&[first.clone(), file("stage//x")], "stage//x", "its name is not a plain relative path");
    refused(&[first.clone(), file("./stage/x")], "./stage/x", "its name is not a plain relative path");
    refused(&[first.clone(), file("stage/")], "stage/", "its name is not a plain relative path");
    refused(&[first.clone(), raw("../x/", b'5', "", b"")], "../x/", "its name holds `..`");
    let outside = "artifact_manifest.txt lists no basedir that holds it";
    refused(&[first.clone(), file("other/x")], "other/x", outside);
    refused(&[first, file("stage")], "stage", outside);
    let error = unpack(&[manifest(&["../x"]), file("../x/y")]).unwrap_err().to_string();
    assert!(error.ends_with("lists `../x`, which is not a plain relative path"), "{error}");
}

#[test]
fn writing_through_links() {
    let first = manifest(&["stage"]);
    let up = raw("stage/up", b'2', "../../..", b"");
    refused(&[first.clone(), up, file("stage/up/precious")], "stage/up/precious", "`stage/up` is a symbolic link");
    let inner = raw("stage/inner", b'2', "sub", b"");
    refused(
        &[first.clone(), raw("stage/sub/", b'5', "", b""), inner.clone(), file("stage/inner/x")],
        "stage/inner/x",
        "`stage/inner` is a symbolic link",
    );
    refused(
        &[first.clone(), inner, raw("stage/inner/", b'5', "", b"")],
        "stage/inner/",
        "there is an earlier member of that name",
    );
    let precious = raw("stage/x", b'2', "../../../precious", b"");
    refused(&[first.clone(), precious, file("stage/x")], "stage/x", "there is an earlier member of that name");
    refused(&[first.clone(), file("stage/f"), file("stage/f/x")], "stage/f/x", "`stage/f` is a file");
    refused(
        &[first, raw("stage", b'2', "..", b""), file("stage/precious")],
        "stage",
        "artifact_manifest.txt lists no basedir that holds it",
    );
}

#[test]
fn links_out_of_the_tree() {
    let first = manifest(&["stage", "b/stage"]);
    for target in ["/etc/passwd", "../x", "../../precious", "sub/../../x"] {
        let error = unpack(&[first.clone(), raw("stage/link", b'2', target, b"")]).unwrap_err();
        assert!(error.to_string().starts_with("the link `stage/link` in "), "{error}");
    }
    // A link from one basedir into another leaves its own: once flattened, it would lead elsewhere.
    let across = raw("b/stage/link", b'2', "../../stage/x", b"");
    let error = unpack(&[first.clone(), file("stage/x"), across]).unwrap_err().to_string();
    assert!(error.ends_with("out of the tree"), "{error}");
    let chain = [first.clone(), raw("stage/a", b'2', "d/..", b""), raw("stage/b", b'2', "a/../x", b"")];
    let error = unpack(&chain).unwrap_err().to_string();
    assert!(error.ends_with("out of the tree"), "{error}");
    refused(&[first.clone(), raw("stage/link", b'2', "", b"")], "stage/link", "it is a link to nothing");
    unpack(&[first, raw("stage/lib/link", b'2', "../bin/x", b"")]).unwrap();
}

#[test]
fn hard_links_to_anything_else() {
    let first = manifest(&["stage"]);
    for target in
        ["/etc/passwd", "../precious", "../../in/precious", "stage/later", "stage/link", "stage/d", "stage/./x"]
    {
        let members = [
            first.clone(),
            file("stage/x"),
            raw("stage/link", b'2', "x", b""),
            raw("stage/d/", b'5', "", b""),
            raw("stage/hard", b'1', target, b""),
            file("stage/later"),
        ];
        let reason = format!("it is a hard link to `{target}`, which is no earlier file of the archive");
        refused(&members, "stage/hard", &reason);
    }
    unpack(&[first, file("stage/x"), raw("stage/hard", b'1', "stage/x", b"")]).unwrap();
}

#[test]
fn devices_and_unknown_members() {
    let first = manifest(&["stage"]);
    for (kind, what) in [
        (b'3', "a character device"),
        (b'4', "a block device"),
        (b'6', "a named pipe"),
        (b'Z', "a member of the unknown type 'Z'"),
    ] {
        refused(&[first.clone(), raw("stage/x", kind, "", b"")], "stage/x", &format!("it is {what}"));
    }
}

#[test]
fn sparse_files_in_the_pax_format_are_refused() {
    let version_1 = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n27 GNU.sparse.name=stage/x\n";
    for records in [version_1, "27 GNU.sparse.name=stage/x\n", "21 GNU.sparse.size=9\n"] {
        let pax = raw("././@PaxHeader", b'x', "", records.as_bytes());
        let name = if records.contains("name") { "stage/GNUSparseFile.0/x" } else { "stage/x" };
        let error = unpack(&[manifest(&["stage"]), pax, file(name)]).unwrap_err();
        assert!(error.to_string().starts_with("`stage/x` of the archive"), "{records}: {error}");
        assert_eq!(error.hint().unwrap(), "pack it without `--sparse` (bsdtar: `--no-read-sparse`)");
    }
}

#[test]
fn the_manifest_comes_first_and_once() {
    let first = manifest(&["stage"]);
    let link = raw("artifact_manifest.txt", b'2', "/etc/passwd", b"");
    let dotted = raw("./artifact_manifest.txt", b'0', "", b"stage\n");
    for members in [vec![file("stage/x"), first.clone()], vec![dotted], vec![link]] {
        let error = unpack(&members).unwrap_err().to_string();
        assert!(error.contains("does not begin with artifact_manifest.txt but with"), "{error}");
    }
    assert!(matches!(unpack(&[]), Err(Error::DamagedArchive { .. })));
    refused(
        &[first.clone(), file("stage/x"), first],
        "artifact_manifest.txt",
        "the archive holds several artifacts, of which readers see only the first",
    );
}

#[test]
fn what_other_writers_do_is_accepted() {
    let first = manifest(&["a/stage", "gone"]);
    let pax = raw("././@PaxHeader", b'x', "", b"30 mtime=1321711775.9720594634\n");
    let members = [
        raw("pax_global_header", b'g', "", b"30 mtime=1321711775.9720594634\n"),
        first,
        raw("a/", b'5', "", b""),
        raw("a/stage/", b'5', "", b""),
        pax,
        file("a/stage/lib/x"),
        raw("a/stage/lib/", b'5', "", b""),
        raw("a/stage/old", 0, "", b"x"),
    ];
    unpack(&members).unwrap();
    let tar = raw_tar(&members);
    unpack_bytes(&xz(&tar), Compression::Xz).unwrap();
    // Readers accept several frames or streams, and the padding of GNU tar.
    let mut padded = tar.clone();
    padded.resize(padded.len().next_multiple_of(10240), 0);
    let (head, tail) = padded.split_at(1536);
    unpack_bytes(&[zstd(head), zstd(tail)].concat(), Compression::Zstd).unwrap();
    unpack_bytes(&[xz(head), xz(tail)].concat(), Compression::Xz).unwrap();
}

fn damaged(bytes: &[u8], compression: Compression, what: &str) {
    match unpack_bytes(bytes, compression) {
        Err(Error::DamagedArchive { .. }) => {}
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn truncated_anywhere() {
    let small = raw_tar(&[manifest(&["stage"]), file("stage/x"), raw("stage/y", b'0', "", &noise(200))]);
    let large =
        raw_tar(&[manifest(&["stage"]), file("stage/x"), raw("stage/y", b'0', "", &noise(300_000)), file("stage/z")]);
    for (compression, compress) in [(Compression::Zstd, zstd as fn(&[u8]) -> Vec<u8>), (Compression::Xz, xz)] {
        let bytes = compress(&small);
        for length in 0..bytes.len() {
            damaged(&bytes[..length], compression, &format!("{compression:?} cut at {length}"));
        }
        let bytes = compress(&large);
        for part in 0..16 {
            let length = bytes.len() * part / 16;
            damaged(&bytes[..length], compression, &format!("{compression:?} cut at {part}/16"));
        }
        unpack_bytes(&bytes, compression).unwrap();
        // The compressor's end is fine, but the tar archive inside is cut.
        for length in (0..small.len()).step_by(100).chain((0..small.len()).step_by(512)) {
            damaged(&compress(&small[..length]), compression, &format!("{compression:?} of {length} bytes"));
        }
        damaged(&compress(&small[..small.len() - 512]), compression, "one block of zeros");
        let mut more = small.clone();
        more.extend_from_slice(b"more");
        damaged(&compress(&more), compression, "data after the end");
    }
}

#[test]
fn changed_bits() {
    let tar = raw_tar(&[manifest(&["stage"]), raw("stage/y", b'0', "", &noise(5000))]);
    let mut bytes = zstd(&tar);
    *bytes.last_mut().unwrap() ^= 1;
    damaged(&bytes, Compression::Zstd, "the checksum of zstd");
    for (compression, good) in [(Compression::Zstd, zstd(&tar)), (Compression::Xz, xz(&tar))] {
        for at in (0..good.len()).step_by(29) {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            assert!(unpack_bytes(&bytes, compression).is_err(), "{compression:?} byte {at}");
        }
    }
}

#[test]
fn a_directory_of_hostile_archives_is_not_touched() {
    let temporary = tempfile::tempdir().unwrap();
    let (packed, scratch) = (temporary.path().join("packed"), temporary.path().join("scratch"));
    fs_err::create_dir(&packed).unwrap();
    let bytes = zstd(&raw_tar(&[manifest(&["stage"]), file("stage/../../x")]));
    fs_err::write(packed.join("a_lib_generic.tar.zst"), bytes).unwrap();
    let error = Catalog::open(&packed, &scratch, &Silent).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "refused to unpack `stage/../../x` of the archive `{}`: its name holds `..`",
            packed.join("a_lib_generic.tar.zst").display()
        )
    );
    assert_eq!(names(&scratch), [""; 0]);
    assert_eq!(names(&packed), ["a_lib_generic.tar.zst"]);
    let error = archive::unpack(Path::new("a_b_c.tar.gz"), &packed.join("out"), &Silent).unwrap_err();
    assert!(error.to_string().contains("its name ends in neither .tar.zst nor .tar.xz"), "{error}");
}
