//! Wheels as other programs see them: Python's zipfile, pip, the zip crate.

use std::path::Path;
use std::process::Command;

use report::Silent;
use wheel::{Distribution, EntryPoints, Member, Metadata, Tag, WriteOptions, write_wheel};

fn example() -> Distribution {
    let mut entry_points = EntryPoints::default();
    entry_points.script("rocm-example", "example:main");
    Distribution {
        name: "Rocm.Example-gfx94X".to_owned(),
        version: "6.4.0".to_owned(),
        tags: vec![Tag::platform("manylinux_2_17_x86_64"), Tag::platform("manylinux2014_x86_64")],
        metadata: Metadata {
            summary: Some("An example".to_owned()),
            license_expression: Some("MIT".to_owned()),
            requires_python: Some(">=3.10".to_owned()),
            ..Metadata::default()
        },
        entry_points,
        licenses: vec![Member::new("LICENSE", b"do as you like\n".to_vec())],
        members: vec![
            Member::new("example/__init__.py", b"def main():\n    print('main')\n".to_vec()),
            Member::executable("_example/bin/tool", b"#!/bin/sh\necho tool\n".to_vec()),
            Member::new("_example/lib/a, \"b\".txt", vec![b'x'; 1000]),
        ],
    }
}

fn python(arguments: &[&str]) -> String {
    let output = Command::new("python3").args(arguments).output().expect("python3 is on PATH");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn install(wheel: &Path, target: &Path) {
    let (wheel, target) = (wheel.to_str().unwrap(), target.to_str().unwrap());
    python(&["-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target", target, wheel]);
}

#[test]
fn pip_installs_a_wheel() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_wheel(&example(), folder.path(), &WriteOptions::default(), &Silent).unwrap();
    assert_eq!(
        written.path.file_name().unwrap(),
        "rocm_example_gfx94x-6.4.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
    );
    let path = written.path.to_str().unwrap();
    assert!(python(&["-m", "zipfile", "-t", path]).contains("Done testing"));
    let target = folder.path().join("target");
    install(&written.path, &target);
    assert_eq!(fs_err::read(target.join("_example/lib/a, \"b\".txt")).unwrap(), vec![b'x'; 1000]);
    assert!(target.join("bin/rocm-example").is_file());
}
