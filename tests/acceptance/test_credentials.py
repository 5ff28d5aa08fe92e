"""Private indexes: a user in the address or in a netrc file is sent to its server, and is in
nothing that is printed or written."""

import base64
import json
import os
import sys
from pathlib import Path

import pytest
from serving import Answers, served
from test_release_publish import publish

from command import UV, Result, Rocwheel, run
from small_index import write_wheel

# An `@`, so that it is another text in an address.
USER, PASSWORD = "robot", "se@cret-word"
QUOTED = "se%40cret-word"
EXPECTED = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
SECRETS = (PASSWORD, QUOTED, EXPECTED.removeprefix("Basic "), "cret-word")


class Private(Answers):
    """Asks for a user, also after its own redirections."""

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != EXPECTED:
            self.reply(b"", 401, WWW_Authenticate='Basic realm="private"')
        elif self.path.startswith("/moved/"):
            self.reply(b"", 302, Location=self.path.removeprefix("/moved"))
        else:
            super().do_GET()

    do_HEAD = do_GET


def with_user(address: str) -> str:
    return address.replace("://", f"://{USER}:{QUOTED}@")


@pytest.fixture
def netrc(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "netrc"
    path.write_text(f"machine 127.0.0.1\n  login {USER}\n  password {PASSWORD}\n")
    return {"NETRC": str(path)}


@pytest.fixture
def index(rocwheel: Rocwheel, tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    write_wheel(folder, "rocm", "7.1.0", "Requires-Dist: rocm-sdk-core==7.1.0")
    write_wheel(folder, "rocm_sdk_core", "7.1.0")
    rocwheel.run("index", "build", folder)
    return folder


def assert_secret(results: list[Result], *folders: Path) -> None:
    """No output and no file has any form of the password."""
    texts = {f"output {at}": result.stdout + result.stderr for at, result in enumerate(results)}
    for folder in folders:
        assert folder.exists()
        for path in folder.rglob("*"):
            if path.is_file():
                texts[str(path)] = path.read_bytes().decode("latin-1")
    found = [(place, secret) for place, text in texts.items() for secret in SECRETS if secret in text]
    assert found == []


def test_an_index_is_checked(rocwheel: Rocwheel, index: Path, netrc: dict[str, str]) -> None:
    with served(index, Private) as root:
        address = f"{root}/simple/"
        refused = rocwheel.run("index", "check", address, expect=1)
        assert "401" in refused.stdout + refused.stderr
        asked = [
            rocwheel.run("-v", "index", "check", with_user(address), "--files"),
            rocwheel.run("index", "check", with_user(address), "--json"),
            rocwheel.run("index", "check", address, environment=netrc),
            rocwheel.run("index", "check", with_user(f"{root}/moved/simple/")),
            rocwheel.run("index", "check", with_user(f"{root}/missing/"), expect=1),
        ]
        report = json.loads(asked[1].stdout)
        assert report["indexes"][0]["address"] == address and report["indexes"][0]["files"] == 2
        assert_secret(asked)


def test_an_index_is_mirrored(rocwheel: Rocwheel, index: Path, netrc: dict[str, str], tmp_path: Path) -> None:
    path = {"PATH": f"{UV.parent}:/usr/bin:/bin"}
    with served(index, Private) as root:
        words = ["release", "mirror", with_user(f"{root}/simple/"), "--package", "rocm"]
        for folder, more in (("one", {}), ("two", netrc)):
            if more:
                words[2] = f"{root}/simple/"
            to = ["--to", tmp_path / folder]
            said = [
                run(rocwheel.binary, "-v", *words, *to, "--dry-run", environment={**path, **more}),
                run(rocwheel.binary, *words, *to, "--dry-run", "--json", environment={**path, **more}),
                run(rocwheel.binary, "-v", *words, *to, environment={**path, **more}),
            ]
            assert len(list((tmp_path / folder).glob("*.whl"))) == 2
            assert_secret(said, tmp_path / folder)
        words[2] = with_user(f"{root}/simple/")
        words[-1] = "missing"
        assert_secret([run(rocwheel.binary, *words, *to, expect=1, environment=path)])


@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_a_stream_is_verified_from_outside(rocwheel: Rocwheel, tmp_path: Path, installer: str) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / installer).symlink_to(Path(sys.executable).parent / installer)
    if installer == "pip":
        (programs / "pip").unlink()
        (programs / "pip").write_text(f'#!/bin/sh\nexec {sys.executable} -m pip "$@"\n')
        (programs / "pip").chmod(0o755)
    environment = {"PATH": f"{programs}:/usr/bin:/bin"}
    store = tmp_path / "store"
    store.mkdir()
    wheel = write_wheel(tmp_path / "dist", "demo", "1.0")
    with served(store, Private) as root:
        address = f"{root}/nightly/"
        seen = publish(rocwheel, wheel.parent, store, "--verify-url", with_user(address), environment=environment)
        assert f"{installer} finds the set at {address}" in seen.stderr
        wrong = with_user(f"{root}/elsewhere/")
        words = ("--verify-url", wrong, "--wait", "0")
        missing = publish(rocwheel, wheel.parent, store, *words, environment=environment, expect=1)
        assert f"{root}/elsewhere/" in missing.stderr
        words = ("1", "2", "--url", with_user(address), "--store", store, "--stream", "nightly", "--", "true")
        refused = rocwheel.run("release", "bisect", *words, expect=2).says("netrc")
        assert_secret([seen, missing, refused], store)


def test_an_audit_finds_what_a_wheel_requires(
    rocwheel: Rocwheel, index: Path, netrc: dict[str, str], tmp_path: Path
) -> None:
    wheel = write_wheel(tmp_path / "dist", "app", "1.0", "Requires-Dist: rocm==7.1.0")
    with served(index, Private) as root:
        address = f"{root}/simple/"
        for more, place in (({}, with_user(address)), (netrc, address)):
            cache = tmp_path / ("from-netrc" if more else "from-address") / "cache"
            cache.mkdir(parents=True)
            environment = {**more, "ROCWHEEL_CACHE": str(cache)}
            said = rocwheel.run("-v", "audit", wheel, "--with", place, environment=environment)
            assert "was not found" not in said.stderr
            assert sorted(path.name for path in cache.rglob("*.whl")) == sorted(
                path.name for path in index.glob("*.whl")
            )
            assert_secret([said], cache)


def test_a_netrc_file_that_is_none(rocwheel: Rocwheel, index: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").write_text(f"password {PASSWORD}\n")
    with served(index) as root:
        said = rocwheel.run(
            "index", "check", f"{root}/simple/", environment={"NETRC": str(tmp_path / "broken")}, expect=2
        )
    assert "is no netrc file" in said.stderr and "NETRC" in said.stderr
    assert_secret([said])
    with served(index) as root:
        missing = {"NETRC": os.devnull}
        rocwheel.run("index", "check", f"{root}/simple/", environment=missing)


ADDRESSES = (
    "http://joe:S3cretPw@[bad/", "HTTPS://joe:S3cretPw@host:99999/simple", "ftp://joe:S3cretPw@host/simple",
    "file://joe:S3cretPw@localhost/simple", "s3://joe:S3cretPw@bucket/simple", "s3://joe:S3/cretPw@bucket",
)  # fmt: skip
ASKING = {
    "get": "release get demo --output out --index",
    "package": "package --output out --reuse",
    "kernels": "kernels",
}


@pytest.mark.parametrize("command", ASKING)
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_wrong_address_shows_no_password(rocwheel: Rocwheel, artifacts: Path, address: str, command: str) -> None:
    words = ASKING[command].split()
    more = ("--artifacts", artifacts) if command == "package" else ()
    said = rocwheel.run(*words, address, *more, cwd=artifacts.parent, expect=2).stderr
    assert f"`{address.partition(':')[0]}://" in said
    assert "S3" not in said and "cretPw" not in said and "joe" not in said
    assert not (artifacts.parent / "out").exists()
