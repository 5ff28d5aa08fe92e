"""`[install-check]` of a stream beside the test of `release publish`: what `release promote` does
with it, streams in a bucket, and that the public index is asked once."""

import shutil
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import unquote

import pytest
from buckets import Bucket
from serving import Answers, served
from test_chooser import write_wheel
from test_chooser_lines import STRANGER
from test_install_check import HERE
from test_release_between import NEW, promote, staged
from test_release_publish import publish, requires, rocm

from command import Result, Rocwheel, run
from trees import differences, snapshot

# Somebody registers a name of ROCm; pip takes the higher build tag of the same version.
SOMEBODYS = ("rocm-sdk-core", NEW, "1-py3-none-any")
WINS = "`rocm_sdk_core-7.12.0-1-py3-none-any.whl` of the public index"


@pytest.fixture
def public(rocwheel: Rocwheel, tmp_path: Path) -> Path:
    """An index that others can publish to."""
    folder = tmp_path / "public"
    write_wheel(folder, "filelock", "3.20", "py3-none-any")
    rocwheel.run("index", "build", folder)
    return folder


def demand(store: Path, stream: str, public: object, *more: str) -> None:
    folder = store / stream / ".release"
    folder.mkdir(parents=True, exist_ok=True)
    rule = "\n".join([f"public-index = '{public}'", *more])
    (folder / "stream.toml").write_text(f"outside = ['filelock']\n[install-check]\n{rule}\n")


def test_a_promoted_set_is_asked_of_installers(rocwheel: Rocwheel, public: Path, tmp_path: Path) -> None:
    store = staged(rocwheel, tmp_path)
    demand(store, "release", public)
    dry = promote(rocwheel, store, "--dry-run", environment=HERE).stderr
    assert "`[install-check]` of the stream was not asked" in dry
    write_wheel(public, *SOMEBODYS, STRANGER)
    rocwheel.run("index", "build", public)
    before = snapshot(store)
    refused = promote(rocwheel, store, expect=1, environment=HERE).stderr
    assert f"nothing was published: installers do not bring `rocm-{NEW}`" in refused and WINS in refused
    assert differences(before, snapshot(store)) == []
    # Without pip and uv a stream that demands the answer takes nothing.
    silent = promote(rocwheel, store, expect=2, environment={"PATH": str(tmp_path)}).stderr
    assert "the rules of the stream demand `[install-check]`" in silent and "neither uv nor pip" in silent
    assert differences(before, snapshot(store)) == []
    demand(store, "release", public, "unresolved = 'recorded'")
    shutil.copytree(store, tmp_path / "recorded")
    recorded = promote(rocwheel, tmp_path / "recorded", environment=HERE).stderr
    assert f"`rocm-{NEW}` published in `release` as number 1" in recorded and WINS in recorded
    # The stranger goes away, and the stream takes the set.
    (stranger,) = public.glob("rocm_sdk_core*.whl")
    stranger.unlink()
    rocwheel.run("index", "build", public)
    demand(store, "release", public)
    said = promote(rocwheel, store, environment=HERE).stderr
    assert "pip or uv brings the set on" in said and f"`rocm-{NEW}` published in `release` as number 1" in said


class Public(BaseHTTPRequestHandler):
    """What a server in front of a bucket does: a folder is its page."""

    bucket: Bucket

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path + "index.html" if self.path.endswith("/") else self.path
        try:
            body, _ = self.bucket.ask("GET", path)
        except HTTPError as error:
            self.send_error(error.code)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if path.endswith(".html") else "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.command == "GET" else b"")

    do_HEAD = do_GET


def keys_of(bucket: Bucket) -> set[str]:
    body, _ = bucket.ask("GET", "?list-type=2")
    return {part.split("</Key>")[0] for part in body.decode().split("<Key>")[1:]}


def test_a_stream_in_a_bucket_takes_what_installers_bring(
    rocwheel: Rocwheel, bucket: Bucket, public: Path, tmp_path: Path
) -> None:
    def release(dist: Path, *more: object, expect: int = 0) -> Result:
        words = ("release", "publish", dist, "--to", "s3://wheels/whl", "--stream", "nightly", *more)
        return run(rocwheel.binary, *words, environment={**bucket.environment, **HERE}, expect=expect)

    def rules(*rows: str) -> None:
        text = "\n".join([*rows, "outside = ['filelock']", "[install-check]", f"public-index = '{public}'"])
        bucket.ask("PUT", "/whl/nightly/.release/stream.toml", text.encode())

    rules()
    first = release(rocm(tmp_path / "rocm", NEW))
    assert "pip or uv brings the set on" in first.stderr
    torch = tmp_path / "torch"
    write_wheel(torch, "torch", f"2.9.1+rocm{NEW}", "py3-none-any", *requires(f"rocm=={NEW}", "filelock"))
    before = keys_of(bucket)
    # What is published already is needed for the answer, and no installer reads a bucket.
    blind = release(torch, "--set", "torch", expect=2).stderr
    assert "installers cannot read a bucket" in blind and "is the public address of the stream" in blind
    assert keys_of(bucket) == before
    with served(tmp_path, type("Handler", (Public,), {"bucket": bucket})) as address:
        rules(f"address = '{address}/whl/nightly/'")
        write_wheel(public, *SOMEBODYS, STRANGER)
        rocwheel.run("index", "build", public)
        refused = release(torch, "--set", "torch", expect=1).stderr
        assert "installers do not bring `torch`" in refused and WINS in refused
        assert keys_of(bucket) == before
        (stranger,) = public.glob("rocm_sdk_core*.whl")
        stranger.unlink()
        rocwheel.run("index", "build", public)
        assert "pip or uv brings the set on" in release(torch, "--set", "torch").stderr
    assert any(unquote(key).startswith("whl/nightly/torch/torch-2.9.1") for key in keys_of(bucket))


class Counting(Answers):
    """Counts who asks for which page of a project."""

    asked: list[str]

    def do_GET(self) -> None:
        if "rocwheel" in self.headers.get("User-Agent", ""):
            self.asked.append(self.path)
        super().do_GET()


def test_names_on_the_public_index_are_asked_for_once(rocwheel: Rocwheel, public: Path, tmp_path: Path) -> None:
    dist, store = rocm(tmp_path / "rocm", NEW), tmp_path / "store"
    handler = type("Handler", (Counting,), {"asked": []})
    with served(public, handler) as address:
        index = f"{address}/simple/"
        demand(store, "nightly", index)
        alone = publish(rocwheel, dist, store, "--dry-run", environment=HERE).stderr
        by_rule = sorted(handler.asked)
        handler.asked.clear()
        both = publish(rocwheel, dist, store, "--dry-run", "--public-index", index, environment=HERE).stderr
        assert sorted(handler.asked) == by_rule and "/simple/rocm-sdk-core/" in by_rule
        assert alone.count("free on") == both.count("free on") == 1
        # Another index is another question.
        demand(store, "nightly", public)
        other = publish(rocwheel, dist, store, "--dry-run", "--public-index", index, environment=HERE).stderr
        assert other.count("free on") == 2
