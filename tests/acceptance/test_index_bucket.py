"""Wheels and tarballs in a bucket: `index build s3://…` and `release upload` against moto's server,
a second implementation of S3 beside the one of the Rust tests."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError

import pytest
from buckets import SECRET, Bucket, refusing

from command import Rocwheel, run
from linked_wheels import write_wheel
from small_index import write_wheel as write_needy_wheel


def some_wheel(folder: Path, name: str, version: str) -> Path:
    return write_wheel(folder, {f"{name}/__init__.py": b""}, "any", name, version, "py3-none")


def upload(rocwheel: Rocwheel, bucket: Bucket, *words: object, **more: object):
    return run(rocwheel.binary, "release", "upload", *words, environment=bucket.environment, **more)


def test_a_tarball_goes_where_the_magma_page_sends_it(rocwheel: Rocwheel, bucket: Bucket, tmp_path: Path) -> None:
    tarball = tmp_path / "output/linux-64/magma-rocm63-abc-1.tar.bz2"
    tarball.parent.mkdir(parents=True)
    tarball.write_bytes(os.urandom(20 << 20))
    words = (tarball, "--to", "s3://wheels/magma")
    assert "would be uploaded" in upload(rocwheel, bucket, *words, "--dry-run").stderr
    with pytest.raises(HTTPError):
        bucket.ask("GET", f"/magma/{tarball.name}")
    outputs = tmp_path / "github"
    both = {**bucket.environment, "GITHUB_OUTPUT": str(outputs)}
    run(rocwheel.binary, "release", "upload", *words, environment=both)
    said = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    assert json.loads(said["files"]) == {tarball.name: f"s3://wheels/magma/{tarball.name}"}
    body, headers = bucket.ask("GET", f"/magma/{tarball.name}")
    assert body == tarball.read_bytes()
    assert headers["content-type"] == "application/x-bzip2"
    assert headers["cache-control"] == "public, max-age=31536000, immutable"
    assert headers["x-amz-meta-checksum-sha256"] == hashlib.sha256(body).hexdigest()
    again = json.loads(upload(rocwheel, bucket, *words, "--json").stdout)
    assert [file["state"] for file in again["files"]] == ["unchanged"]
    tarball.write_bytes(b"other bytes")
    refused = upload(rocwheel, bucket, *words, expect=1)
    assert "the store has other contents of 1 file" in refused.stderr and "`--clobber` replaces" in refused.stderr
    # The same with the folder, as `aws s3 cp --recursive --include` does it.
    upload(rocwheel, bucket, tmp_path / "output", "--include", "*.bz2", "--to", "s3://wheels/all")
    assert bucket.ask("GET", f"/all/linux-64/{tarball.name}")[0] == b"other bytes"


def test_a_bucket_becomes_an_index(rocwheel: Rocwheel, bucket: Bucket, tmp_path: Path) -> None:
    ours = some_wheel(tmp_path, "ours", "1.0")
    theirs = some_wheel(tmp_path, "theirs", "2.0")
    upload(rocwheel, bucket, ours, "--to", "s3://wheels/whl")
    bucket.ask("PUT", f"/whl/{theirs.name}", theirs.read_bytes())
    words = (rocwheel.binary, "index", "build", "s3://wheels/whl")
    first = run(*words, environment=bucket.environment)
    assert f"1 of 2 files had no SHA-256 in the store, so {theirs.stat().st_size} bytes" in first.stderr
    page, headers = bucket.ask("GET", "/whl/simple/theirs/index.v1_json")
    assert headers["content-type"] == "application/vnd.pypi.simple.v1+json"
    assert headers["cache-control"] == "no-cache"
    (file,) = json.loads(page)["files"]
    assert file["hashes"]["sha256"] == hashlib.sha256(theirs.read_bytes()).hexdigest()
    run(*words, environment=bucket.environment).says("0 files read (0 B), 0 pages written")


def test_a_bucket_has_a_stream_and_two_publishers_at_once(rocwheel: Rocwheel, bucket: Bucket, tmp_path: Path) -> None:
    def words(dist: Path, *more: object) -> list[str]:
        everything = ("release", "publish", dist, "--to", "s3://wheels/whl", "--stream", "nightly", *more)
        return [os.fspath(rocwheel.binary), *map(str, everything)]

    write_needy_wheel(tmp_path / "rocm", "rocm", "7.2.0")
    run(*words(tmp_path / "rocm"), environment=bucket.environment)
    both = []
    for name in ("torch", "jax"):
        write_needy_wheel(tmp_path / name, name, "1.0", "Requires-Dist: rocm==7.2.0")
        both.append(
            subprocess.Popen(
                words(tmp_path / name, "--scratch", tmp_path),
                env={**os.environ, **bucket.environment},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    ends = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert all("downloading `rocm-7.2.0-py3-none-any.whl`" in said for said in ends), "for the audit"
    said = run(rocwheel.binary, "release", "verify", "s3://wheels/whl/nightly", environment=bucket.environment)
    assert "snapshot 3 of `nightly`: 3 files" in said.stderr and "0 problems" in said.stderr
    page, headers = bucket.ask("GET", "/whl/nightly/torch/index.v1_json")
    assert headers["content-type"] == "application/vnd.pypi.simple.v1+json"
    assert json.loads(page)["meta"]["_generation"] in (2, 3)
    _, headers = bucket.ask("GET", "/whl/nightly/.release/head.json")
    assert headers["cache-control"] == "no-store"
    run(*words(tmp_path / "jax"), environment=bucket.environment).says("is published already")


def test_odd_keys_hide_nothing(rocwheel: Rocwheel, bucket: Bucket, tmp_path: Path) -> None:
    """Keys that are no paths are passed over; spaces, `+` and other letters are names."""
    wheel = some_wheel(tmp_path, "ours", "1.0+rocm7.2")
    upload(rocwheel, bucket, wheel, "--to", "s3://wheels/whl")
    for key in ("/whl//odd.whl", "/whl/.%2F./dots.whl", "/whl/folder/"):
        bucket.ask("PUT", key, b"")
    notes = tmp_path / "notes"
    notes.mkdir()
    names = ["a b.txt", "c+d.txt", "ü&<e>.txt", "50%.txt"]
    for name in names:
        (notes / name).write_text(name)
    upload(rocwheel, bucket, notes, "--to", "s3://wheels/whl")
    again = json.loads(upload(rocwheel, bucket, notes, "--to", "s3://wheels/whl", "--json").stdout)
    assert [(file["key"], file["state"]) for file in again["files"]] == [(name, "unchanged") for name in sorted(names)]
    run(rocwheel.binary, "index", "build", "s3://wheels/whl", environment=bucket.environment).says("is no path")
    page = bucket.ask("GET", "/whl/simple/ours/index.html")[0].decode()
    assert "ours-1.0%2Brocm7.2-py3-none-any.whl" in page


def test_what_is_wrong_is_reported_without_the_secret(rocwheel: Rocwheel, bucket: Bucket) -> None:
    nowhere = run(rocwheel.binary, "-vv", "index", "build", "s3://nowhere", expect=1, environment=bucket.environment)
    assert "there is no such bucket" in nowhere.stderr
    unset = {**bucket.environment, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    lacking = run(rocwheel.binary, "index", "build", "s3://wheels", expect=2, environment=unset)
    assert "aws configure export-credentials --format env" in lacking.stderr
    down = {**bucket.environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    away = run(rocwheel.binary, "index", "build", "s3://wheels", expect=4, environment=down)
    assert "the server does not answer" in away.stderr
    for said in (nowhere, lacking, away):
        assert SECRET not in said.stdout + said.stderr


def test_a_dry_run_needs_no_credentials_and_no_server(rocwheel: Rocwheel, tmp_path: Path) -> None:
    wheel = some_wheel(tmp_path, "demo", "1.0")
    nobody = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_ENDPOINT_URL": ""}
    nowhere = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    words = ("release", "upload", wheel, "--to", "s3://b/p")
    for environment, reason, code in ((nobody, "no credentials", 2), (nowhere, "does not answer", 4)):
        said = rocwheel.run(*words, "--dry-run", environment=environment)
        assert "not compared" in said.stdout and "`s3://b/p` was not asked" in said.stderr, said
        assert reason in said.stderr and "would be uploaded" in said.stderr, said
        rocwheel.run(*words, environment=environment, expect=code)


def test_a_dry_run_notices_that_there_is_no_bucket(rocwheel: Rocwheel, bucket: Bucket, tmp_path: Path) -> None:
    wheel = some_wheel(tmp_path, "demo", "1.0")
    words = (wheel, "--to", "s3://nowhere/x", "--dry-run")
    said = upload(rocwheel, bucket, *words, expect=1)
    assert "cannot upload to `s3://nowhere/x`" in said.stderr and "there is no such bucket" in said.stderr
    assert "would be uploaded" in upload(rocwheel, bucket, wheel, "--to", "s3://wheels/x", "--dry-run").stderr


def test_a_refusal_of_a_bucket_is_not_temporary(rocwheel: Rocwheel, bucket: Bucket, tmp_path: Path) -> None:
    write_needy_wheel(tmp_path / "dist", "alpha", "1.0")
    words = ("release", "publish", tmp_path / "dist", "--to", "s3://wheels/whl", "--stream", "nightly")
    run(rocwheel.binary, *words, environment=bucket.environment)
    output = tmp_path / "out"
    words = ("release", "get", "alpha==1.0", "--index", "s3://wheels/whl/nightly", "--output", output)
    with refusing(bucket.endpoint) as server:
        environment = {**bucket.environment, "AWS_ENDPOINT_URL": server.address}
        for code, advice in (("AccessDenied", "s3:GetObject"), ("ExpiredToken", "renew them")):
            for ending in (".whl", "/index.v1_json"):
                server.refusals, server.refused = {ending: (403, code)}, 0
                run(rocwheel.binary, *words, expect=1, environment=environment).says(code, advice)
                assert server.refused == 1, "it is not tried again"
        server.refusals = {}
        run(rocwheel.binary, *words, environment=environment)
    assert (output / "alpha-1.0-py3-none-any.whl").exists()


def test_ctrl_c_leaves_no_parts(rocwheel: Rocwheel, bucket: Bucket, tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(1 << 20) * 256)
    words = ("release", "upload", large, "--to", "s3://wheels")
    begun = {"when": lambda: b"<Upload>" in bucket.ask("GET", "?uploads")[0]}
    rocwheel.interrupted(*words, **begun, env={**os.environ, **bucket.environment})
    assert b"<Upload>" not in bucket.ask("GET", "?uploads")[0]
    with pytest.raises(HTTPError):
        bucket.ask("HEAD", "/large.bin")


def test_a_mirror_in_a_bucket(rocwheel: Rocwheel, bucket: Bucket, tmp_path: Path) -> None:
    """The same files and pages as in a folder; pip's own listing of the bucket is not needed."""
    index, store = tmp_path / "index", "s3://wheels/mirror"
    write_needy_wheel(index, "rocm", "7.1.0", "Requires-Dist: rocm-sdk-core==7.1.0")
    write_needy_wheel(index, "rocm_sdk_core", "7.1.0")
    rocwheel.run("index", "build", index)
    uv = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**bucket.environment, "PATH": uv}
    words = ("release", "mirror", index, "--package", "rocm", "--json")

    def mirror(to: object, *more: object, expect: int = 0) -> dict:
        return json.loads(rocwheel.run(*words, "--to", to, *more, environment=environment, expect=expect).stdout)

    made = mirror(store)["report"]
    assert sorted(made["fetched"]) == [
        "rocm-7.1.0-py3-none-any.whl", "rocm_sdk_core-7.1.0-py3-none-any.whl",
    ]  # fmt: skip
    mirror(tmp_path / "folder")
    for name in ("simple/rocm/index.v1_json", "simple/index.html", "rocm-7.1.0-py3-none-any.whl.metadata"):
        body, _ = bucket.ask("GET", f"/mirror/{name}")
        ours, theirs = body, (tmp_path / "folder" / name).read_bytes()
        if name.endswith("json"):
            ours, theirs = ([file["hashes"] for file in json.loads(text)["files"]] for text in (ours, theirs))
        assert ours == theirs, name
    verify = ("release", "mirror", "--verify", store)
    assert "as it was made" in rocwheel.run(*verify, environment=environment).stdout
    again = mirror(store)["report"]
    assert again["fetched"] == [] and again["kept"] == 2
    # A newer version replaces the older one; what nothing needs goes.
    for name, more in (("rocm_sdk_core", ()), ("rocm", ("Requires-Dist: rocm-sdk-core==7.2.0",))):
        write_needy_wheel(index, name, "7.2.0", *more)
    rocwheel.run("index", "build", index)
    renewed = mirror(store)["report"]
    assert len(renewed["fetched"]) == len(renewed["removed"]) == 2
    with pytest.raises(HTTPError):
        bucket.ask("GET", "/mirror/rocm-7.1.0-py3-none-any.whl")
    rocwheel.run(*verify, environment=environment)
    bucket.ask("PUT", "/mirror/rocm-7.2.0-py3-none-any.whl", b"other bytes")
    bucket.ask("PUT", "/mirror/stray.txt", b"not listed")
    damaged = rocwheel.run(*verify, environment=environment, expect=1)
    assert "`rocm-7.2.0-py3-none-any.whl` has other bytes" in damaged.stderr and "`stray.txt`" in damaged.stderr
    # Bytes that nobody here uploaded are not replaced.
    rocwheel.run(*words, "--to", store, environment=environment, expect=1)
    assert bucket.ask("GET", "/mirror/rocm-7.2.0-py3-none-any.whl")[0] == b"other bytes"
