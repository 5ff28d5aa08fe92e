"""Signed streams: snapshots that OpenSSL verifies, changes that are not signed, and keys that
follow each other."""

import hashlib
import json
import os
import shutil
from pathlib import Path

from envelopes import opened
from test_release_publish import NOW, change, publish, rocm

from command import Result, Rocwheel, run
from small_index import write_wheel
from trees import differences, snapshot


def test_snapshots_are_signed_and_verified(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    ours = tmp_path / "ours"
    rocwheel.run("release", "key", "new", ours)
    assert ours.stat().st_mode & 0o777 == 0o600
    assert "exists already" in rocwheel.run("release", "key", "new", ours, expect=2).stderr
    theirs = tmp_path / "theirs.pem"
    run("openssl", "genpkey", "-algorithm", "ed25519", "-out", theirs)
    run("openssl", "pkey", "-in", theirs, "-pubout", "-out", tmp_path / "theirs.pub")
    run("openssl", "pkey", "-in", ours, "-noout")
    dist = rocm(tmp_path / "dist", "7.1.0")
    publish(rocwheel, dist, store, "--signing-key", ours, "--signing-key", theirs, "--now", NOW)
    envelope = json.loads((stream / ".release/snapshots/1.json").read_text())
    manifest = opened(envelope, tmp_path / "ours.pub", tmp_path / "theirs.pub")
    for key, file in manifest["files"].items():
        content = (stream / key).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["size"], file["sha256"])

    secret = {"ROCWHEEL_SIGNING_KEY": theirs.read_text()}
    publish(rocwheel, rocm(tmp_path / "next", "7.2.0"), store, "--now", NOW, environment=secret)
    no_text = {"ROCWHEEL_SIGNING_KEY": os.fsdecode(b"\xff")}
    said = publish(rocwheel, tmp_path / "next", store, "--now", NOW, environment=no_text, expect=2)
    assert "ROCWHEEL_SIGNING_KEY is no text, and so no key in PEM" in said.stderr
    copy = tmp_path / "copy"
    shutil.copytree(stream, copy)

    def verify(folder: Path, *words: object, expect: int = 0) -> Result:
        return rocwheel.run("release", "verify", folder, *words, expect=expect)

    assert "snapshot 2 of `nightly`: 8 files" in verify(copy, "--key", tmp_path / "theirs.pub").stderr
    verify(store, "--stream", "nightly", "--key", tmp_path / "theirs.pub", "--quick")
    verify(copy, "--key", tmp_path / "ours.pub", expect=1).prints("none of its signatures is of a key that was given")
    verify(copy, "--key", tmp_path / "ours.pub", "--key", tmp_path / "theirs.pub")

    def altered(name: str, text: str, expected: str) -> None:
        path = copy / name
        good = path.read_bytes()
        path.write_bytes(good.replace(text.encode(), b"#" * len(text), 1))
        assert path.read_bytes() != good
        said = verify(copy, "--key", tmp_path / "theirs.pub", expect=1)
        assert expected in said.stdout + said.stderr, said
        path.write_bytes(good)

    wheel = "rocm/rocm-7.2.0-py3-none-any.whl"
    altered(wheel, "version = ", f"`{wheel}` has other bytes")
    altered(f"{wheel}.metadata", "Name", "metadata` has other bytes")
    altered("rocm/index.html", "rocm-7.1.0", "`rocm/index.html` does not list what the snapshot does")
    altered("rocm/index.v1_json", '"sha256":"', "`rocm/index.v1_json` does not list")
    altered("index.html", "rocm-sdk-core/", "`index.html` does not list the projects")
    altered(".release/sets/rocm-7.2.0.json", "entry", "is not the description of the set")
    altered(".release/snapshots/1.json", "sig", "is not the snapshot before 2")
    altered(".release/snapshots/2.json", "payload", "is not what the stream's snapshot says")
    assert "2 files" not in verify(copy, "--key", tmp_path / "theirs.pub").stdout
    (copy / wheel).unlink()
    assert f"`{wheel}` is missing" in verify(copy, expect=1).stdout


def test_a_signed_stream_takes_no_unsigned_change(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """A job that lost its secret must not turn signatures off for everybody who verifies them."""
    store, stream, key = tmp_path / "store", tmp_path / "store/nightly", tmp_path / "key"
    rocwheel.run("release", "key", "new", key)
    signed = ("--signing-key", key)
    for version in ("1.0", "2.0", "3.0"):
        write_wheel(tmp_path / version, "demo", version)
    said = publish(rocwheel, tmp_path / "1.0", store).stderr
    assert "the snapshot is not signed: `--signing-key` names" in said, "nobody signed it before"
    publish(rocwheel, tmp_path / "2.0", store, *signed)
    before = snapshot(store)
    changes = [("yank", "demo==1.0", "--reason", "bad"), ("rollback", "--to", 1), ("prune",)]
    unsigned = [change(rocwheel, *words[:1], store, *words[1:], expect=1) for words in changes]
    unsigned.append(publish(rocwheel, tmp_path / "3.0", store, expect=1))
    # A renamed secret is an empty variable.
    unsigned.append(publish(rocwheel, tmp_path / "3.0", store, expect=1, environment={"ROCWHEEL_SIGNING_KEY": ""}))
    for said in unsigned:
        assert "snapshot 2 of the stream is signed, and this change is not" in said.stderr
        assert "ROCWHEEL_SIGNING_KEY" in said.stderr and "`--allow unsigned`" in said.stderr
    assert differences(before, snapshot(store)) == []
    for words in changes:
        change(rocwheel, *words[:1], store, *words[1:], "--dry-run")
    publish(rocwheel, tmp_path / "3.0", store, "--dry-run")
    assert differences(before, snapshot(store)) == []
    change(rocwheel, "yank", store, "demo==1.0", "--reason", "bad", *signed)
    rocwheel.run("release", "verify", stream, "--key", f"{key}.pub")


def test_a_publication_without_its_key_is_signed_when_it_is_repeated(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    old, new = tmp_path / "old", tmp_path / "new"
    for key in (old, new):
        rocwheel.run("release", "key", "new", key)

    def verified(key: Path, expect: int = 0) -> Result:
        return rocwheel.run("release", "verify", stream, "--key", f"{key}.pub", expect=expect)

    write_wheel(tmp_path / "dist", "demo", "1.0")
    write_wheel(tmp_path / "next", "demo", "2.0")
    publish(rocwheel, tmp_path / "dist", store, "--signing-key", old)
    publish(rocwheel, tmp_path / "next", store, "--allow", "unsigned").says("the snapshot is not signed")
    assert "snapshot 2 cannot be trusted: it has no signature" in verified(old, expect=1).stdout
    pages = {path: text for path, text in snapshot(stream).items() if path.endswith("index.html")}
    said = publish(rocwheel, tmp_path / "next", store, "--signing-key", old)
    assert "`demo-2.0` is published already; snapshot 3 signs it" in said.stderr
    verified(old)
    assert {path: snapshot(stream)[path] for path in pages} == pages, "no page changed"
    before = snapshot(store)
    publish(rocwheel, tmp_path / "next", store, "--signing-key", old)
    assert differences(before, snapshot(store)) == [], "it is signed"
    # A second key signs as well, and one that replaces the first is pointed out.
    said = publish(rocwheel, tmp_path / "next", store, "--signing-key", old, "--signing-key", new, "--json")
    assert json.loads(said.stdout)["signed"] == 4 and "no key that signed" not in said.stderr
    verified(old)
    verified(new)
    write_wheel(tmp_path / "last", "demo", "3.0")
    third = tmp_path / "third"
    rocwheel.run("release", "key", "new", third)
    said = publish(rocwheel, tmp_path / "last", store, "--signing-key", third)
    assert "no key that signed snapshot 4 signs this change" in said.stderr
