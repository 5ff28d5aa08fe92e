//! Tar archives and source distributions as Python's tarfile reads them.

use std::io::Write as _;
use std::process::Command;

use rocwheel_archive::WriteOptions;
use rocwheel_archive::tar::TarBuilder;
use rocwheel_content::{Content, FileContent};
use rocwheel_progress::Silent;
use rocwheel_wheel::{Member, Metadata, Sdist, write_sdist};

fn bytes(content: &dyn Content) -> Vec<u8> {
    let mut bytes = vec![0; content.size() as usize];
    content.open().expect("open").read_exact_at(0, &mut bytes).expect("read");
    bytes
}

fn listing(path: &std::path::Path) -> String {
    let script = "import sys, tarfile\nfor m in tarfile.open(sys.argv[1]):\n  \
        print(m.name, m.type.decode(), oct(m.mode), m.uid, m.uname, int(m.mtime), m.size, m.linkname)";
    let output = Command::new("python3").args(["-X", "utf8", "-c", script]).arg(path).output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn python_reads_every_kind_of_member() {
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("file");
    fs_err::write(&file, vec![b'x'; 700]).expect("write");
    // Too long for a name of 100 bytes; for prefix and name; and for neither, but with a character
    // that is not ASCII.
    let split = format!("{}/{}", "d".repeat(120), "n".repeat(60));
    let long = format!("{}/{}", "d".repeat(200), "n".repeat(150));
    let target = "../".repeat(60) + "t";
    let mut builder = TarBuilder::new(1_000_000_000);
    builder.directory("top");
    builder.file("top/file", true, FileContent::new(&file).expect("file"));
    builder.file("top/empty", false, Vec::new());
    builder.file("top/block", false, vec![b'b'; 512]);
    builder.symlink("top/link", "file");
    builder.hard_link("top/hard", "top/file");
    builder.file(&split, false, b"s".to_vec());
    builder.file(&long, false, b"l".to_vec());
    builder.directory("größe");
    builder.symlink("top/far", &target);
    let tar = builder.finish();
    let path = folder.path().join("x.tar");
    let all = bytes(&tar);
    assert_eq!(all.len() % 512, 0);
    fs_err::write(&path, &all).expect("write");
    let expected = format!(
        "top 5 0o755 0  1000000000 0 \ntop/file 0 0o755 0  1000000000 700 \ntop/empty 0 0o644 0  1000000000 0 \n\
         top/block 0 0o644 0  1000000000 512 \ntop/link 2 0o777 0  1000000000 0 file\n\
         top/hard 1 0o644 0  1000000000 0 top/file\n{split} 0 0o644 0  1000000000 1 \n{long} 0 0o644 0  1000000000 1 \n\
         größe 5 0o755 0  1000000000 0 \ntop/far 2 0o777 0  1000000000 0 {target}\n"
    );
    assert_eq!(listing(&path), expected);
}

#[test]
fn windows_of_a_tar_are_its_bytes() {
    let mut builder = TarBuilder::new(0);
    for index in 0..30_u8 {
        builder.file(&format!("f{index}"), false, vec![index; usize::from(index) * 37]);
    }
    let tar = builder.finish();
    let all = bytes(&tar);
    let reader = tar.open().expect("open");
    for start in (0..all.len()).step_by(333) {
        let mut window = vec![0; 1000.min(all.len() - start)];
        reader.read_exact_at(start as u64, &mut window).expect("read");
        assert_eq!(window, all[start..start + window.len()]);
    }
    assert_eq!(reader.read_at(all.len() as u64, &mut [0; 8]).expect("read"), 0);
}

fn sdist() -> Sdist {
    Sdist {
        name: "Rocm".to_owned(),
        version: "6.4.0".to_owned(),
        metadata: Metadata { dynamic: vec!["Requires-Dist".to_owned()], ..Metadata::default() },
        license_files: vec!["LICENSE".to_owned()],
        members: vec![
            Member::new("src/rocm_sdk/__init__.py", b"".to_vec()),
            Member::new("LICENSE", b"free\n".to_vec()),
            Member::executable("build.sh", b"#!/bin/sh\n".to_vec()),
        ],
    }
}

#[test]
fn an_sdist_is_sorted_and_the_same_every_time() {
    let (one, other) = (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder"));
    let options = WriteOptions { epoch: 1_700_000_000, ..WriteOptions::default() };
    let written = write_sdist(&sdist(), one.path(), &options, &Silent).expect("write");
    let mut reversed = sdist();
    reversed.members.reverse();
    let again = write_sdist(&reversed, other.path(), &options, &Silent).expect("write");
    assert_eq!(written.sha256, again.sha256);
    assert_eq!(written.path.file_name().expect("name"), "rocm-6.4.0.tar.gz");
    let text = listing(&written.path);
    let names: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(
        names,
        ["rocm-6.4.0/LICENSE", "rocm-6.4.0/PKG-INFO", "rocm-6.4.0/build.sh", "rocm-6.4.0/src/rocm_sdk/__init__.py"]
    );
    assert!(text.contains("rocm-6.4.0/build.sh 0 0o755 0  1700000000 10"));
    let gzip = fs_err::read(&written.path).expect("read");
    assert_eq!(gzip[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, gzip[8], 255]);
    assert_eq!(gzip.len() as u64, written.compressed);
}

#[test]
fn a_growing_file_spoils_an_sdist_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let input = folder.path().join("input");
    fs_err::write(&input, b"1234").expect("write");
    let mut sdist = sdist();
    sdist.members.push(Member::new("input", FileContent::new(&input).expect("file")));
    fs_err::OpenOptions::new().append(true).open(&input).expect("open").write_all(b"5").expect("write");
    let output = folder.path().join("output");
    fs_err::create_dir(&output).expect("folder");
    let error = write_sdist(&sdist, &output, &WriteOptions::default(), &Silent).expect_err("it grew");
    assert!(error.to_string().contains("`input`"), "{error}");
    assert_eq!(fs_err::read_dir(&output).expect("list").count(), 0);
}

#[test]
fn a_changed_part_of_a_tar_is_named() {
    let folder = tempfile::tempdir().expect("folder");
    let input = folder.path().join("input");
    fs_err::write(&input, b"1234").expect("write");
    let mut builder = TarBuilder::new(0);
    builder.file("a", false, b"a".to_vec());
    builder.file("b", false, FileContent::new(&input).expect("file"));
    let tar = builder.finish();
    fs_err::write(&input, b"12345").expect("write");
    let mut whole = vec![0; tar.size() as usize];
    let error = tar.open().expect("open").read_exact_at(0, &mut whole).expect_err("it grew");
    assert!(error.to_string().contains("/input` has 5 bytes now"), "{error}");
}
