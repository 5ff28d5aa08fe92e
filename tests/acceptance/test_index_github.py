"""`rocwheel index build --from-github`: a server on the loopback plays GitHub with real wheels, and
pip and uv install from the pages."""

import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pypi_simple
import pytest
from serving import Answers, served
from small_wheels import write_sdist, write_wheel

from command import TOOLS, UV, Rocwheel, run

NOW = "2026-11-20T01:02:03Z"
CREATED = "2026-05-06T07:08:09Z"
TOKEN = "ghp_secret-of-this-test"


class GitHub:
    """Releases with their files, the answers of the API, and the server of the files."""

    def __init__(self) -> None:
        self.releases: list[dict] = []
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.refuse: tuple[int, dict] | None = None
        self.needs_token = False
        self.address = ""

    def release(self, tag: str, *files: Path, **changes: object) -> dict:
        number = len(self.releases)
        release = {
            "id": number,
            "tag_name": tag,
            "draft": False,
            "prerelease": False,
            "assets_url": f"{self.address}/repos/amd/wheels/releases/{number}/assets",
            "assets": [self.asset(tag, path) for path in files],
            **changes,
        }
        self.releases.insert(0, release)
        return release

    def asset(self, tag: str, path: Path, **changes: object) -> dict:
        content = path.read_bytes()
        where = f"/amd/wheels/releases/download/{tag}/{quote(path.name)}"
        self.files[unquote(where)] = content
        self.files[f"/api-file{unquote(where)}"] = content
        return {
            "name": path.name,
            "size": len(content),
            "state": "uploaded",
            "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
            "created_at": CREATED,
            "updated_at": CREATED,
            "browser_download_url": self.address + where,
            "url": f"{self.address}/api-file{where}",
            **changes,
        }

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, object]:
        parts = urlsplit(path)
        if parts.path == "/rate_limit":
            return 200, {"resources": {"core": {"limit": 60, "remaining": 0, "reset": 1_800_000_000}}}
        if self.refuse:
            return self.refuse
        if self.needs_token and headers.get("authorization") != f"Bearer {TOKEN}":
            return 404, {"message": "Not Found"}
        query = parse_qs(parts.query)
        page, rows = int(query["page"][0]), int(query["per_page"][0])
        if parts.path == "/repos/amd/wheels/releases":
            # GitHub's list has some of the files of each release.
            all_rows: list = [{**release, "assets": release["assets"][:30]} for release in self.releases]
        elif found := re.fullmatch(r"/repos/amd/wheels/releases/(\d+)/assets", parts.path):
            (release,) = (one for one in self.releases if one["id"] == int(found[1]))
            all_rows = release["assets"]
        else:
            return 404, {"message": "Not Found"}
        return 200, all_rows[(page - 1) * rows : page * rows]


class Handler(Answers):
    github: GitHub

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.github.requests.append((self.path, headers))
        content = self.github.files.get(unquote(self.path))
        if content is None:
            status, document = self.github.answer(self.path, headers)
            self.reply(json.dumps(document).encode(), status, "application/json")
            return
        if asked := re.fullmatch(r"bytes=(\d+)-(\d+)", headers.get("range", "")):
            content = content[int(asked[1]) : int(asked[2]) + 1]
            self.reply(content, 206, "application/octet-stream")
        else:
            self.reply(content, kind="application/octet-stream")

    do_HEAD = do_GET


@pytest.fixture
def github() -> Iterator[GitHub]:
    started = GitHub()
    with served(Path(), type("Handler", (Handler,), {"github": started})) as started.address:
        yield started


def build(rocwheel: Rocwheel, github: GitHub, pages: Path, *arguments: object, expect: int = 0, **variables: str):
    environment = {"GITHUB_API_URL": github.address, "GITHUB_TOKEN": "", "GH_TOKEN": "", **variables}
    command = ("--json", "index", "build", pages, "--from-github", "amd/wheels", "--now", NOW)
    result = rocwheel.run(*command, *arguments, expect=expect, environment=environment)
    said = result.stdout + result.stderr
    assert TOKEN not in said and TOKEN not in "".join(
        path.read_text(errors="replace") for path in pages.rglob("*") if path.is_file()
    )
    return json.loads(result.stdout) if expect == 0 else said


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    write_wheel(folder, "rocm-core", "7.2.0")
    write_wheel(folder, "torch", "2.9.1+rocm7.2", "rocm-core==7.2.0")
    return folder


def test_pip_and_uv_install_from_releases(rocwheel: Rocwheel, github: GitHub, wheels: Path, tmp_path: Path) -> None:
    # A large member of random bytes: no wheel is downloaded for its METADATA.
    torch = wheels / "torch-2.9.1+rocm7.2-py3-none-any.whl"
    with zipfile.ZipFile(torch, "a") as archive:
        archive.writestr("torch_weights.bin", os.urandom(3_000_000))
    github.release("v1", *sorted(wheels.iterdir()))
    (wheels / "SHA256SUMS").write_text("x")
    github.release("v2", wheels / "SHA256SUMS")
    pages = tmp_path / "pages"
    built = build(rocwheel, github, pages)
    assert (built["files_read"], built["indexes"][0]["projects"]) == (2, 2)
    assert built["bytes_read"] < 2000
    index = (pages / "simple").as_uri() + "/"
    run(TOOLS / "pip", "install", "--no-cache-dir", "--index-url", index, "--target", tmp_path / "pip", "torch")
    (lock, wanted) = (tmp_path / "lock.txt", tmp_path / "wanted.in")
    wanted.write_text("torch\n")
    uv = (UV, "pip")
    options = ("--no-config", "--no-cache", "--default-index", index)
    run(*uv, "compile", "--quiet", *options, "--generate-hashes", wanted, "--output-file", lock)
    run(*uv, "install", *options, "--require-hashes", "--target", tmp_path / "uv", "--requirement", lock)
    assert (tmp_path / "pip/torch.py").is_file() and (tmp_path / "uv/rocm_core.py").is_file()
    page = (pages / "simple/torch/index.html").read_text()
    parsed = pypi_simple.ProjectPage.from_html("torch", page, "https://example.invalid/").packages
    (package,) = parsed
    assert package.url.split("#")[0] == (
        f"{github.address}/amd/wheels/releases/download/v1/torch-2.9.1%2Brocm7.2-py3-none-any.whl"
    )
    assert package.digests == {"sha256": hashlib.sha256(torch.read_bytes()).hexdigest()}
    # There is no METADATA beside the wheel, and nothing promises it. The time is GitHub's.
    assert not package.has_metadata and f'data-upload-time="{CREATED}"' in page
    assert not any("authorization" in headers for _, headers in github.requests)

    # The second run reads no file.
    github.requests.clear()
    again = build(rocwheel, github, pages)
    assert (again["files_read"], again["pages"]) == (0, [])
    assert all("/download/" not in path for path, _ in github.requests)


def test_metadata_in_the_release_is_used(rocwheel: Rocwheel, github: GitHub, wheels: Path, tmp_path: Path) -> None:
    for wheel in sorted(wheels.glob("*.whl")):
        shutil.copy(wheel, tmp_path / wheel.name)
    rocwheel.run("index", "build", wheels, "--now", NOW)
    (lie,) = wheels.glob("rocm_core-*.metadata")
    lie.write_text(lie.read_text() + "Requires-Dist: evil\n")
    github.release("v1", *sorted(path for path in wheels.iterdir() if path.suffix in (".whl", ".metadata")))
    pages = tmp_path / "pages"
    build(rocwheel, github, pages)
    assert "data-core-metadata" in (pages / "simple/torch/index.html").read_text()
    # METADATA that differs from the wheel's would stop pip.
    assert "data-core-metadata" not in (pages / "simple/rocm-core/index.html").read_text()
    index = (pages / "simple").as_uri() + "/"
    github.requests.clear()
    command = (TOOLS / "pip", "install", "--no-cache-dir", "--dry-run", "--no-deps", "--index-url", index)
    run(*command, "--target", tmp_path / "x", "torch")
    assert any(path.endswith(".metadata") for path, _ in github.requests)


def test_pages_of_releases_and_of_files(rocwheel: Rocwheel, github: GitHub, tmp_path: Path) -> None:
    """GitHub answers with a hundred rows at most."""
    for number in range(105):
        github.release(f"v{number}", write_wheel(tmp_path / "a", f"one-{number}", "1"))
    many = [write_wheel(tmp_path / "b", f"many-{number}", "1") for number in range(205)]
    github.release("many", *many)
    built = build(rocwheel, github, tmp_path / "pages")
    assert built["indexes"][0]["files"] == 310
    asked = [parse_qs(urlsplit(path).query)["page"][0] for path, _ in github.requests if "/releases?" in path]
    assert asked == ["1", "2"]


def test_drafts_and_prereleases_are_choices(rocwheel: Rocwheel, github: GitHub, tmp_path: Path) -> None:
    for name, changes in (("final", {}), ("pre", {"prerelease": True}), ("draft", {"draft": True})):
        github.release(name, write_wheel(tmp_path, name, "1"), **changes)
    unfinished = github.asset("final", write_wheel(tmp_path, "unfinished", "1"), state="starter")
    github.releases[-1]["assets"].append(unfinished)

    def projects(*arguments: str, **variables: str) -> set[str]:
        build(rocwheel, github, tmp_path / "pages", *arguments, **variables)
        return {path.parent.name for path in (tmp_path / "pages/simple").glob("*/index.html")}

    assert projects() == {"final"}
    assert projects("--prereleases") == {"final", "pre"}
    github.requests.clear()
    assert projects("--drafts", GH_TOKEN=TOKEN) == {"final", "draft"}
    assert all(headers["authorization"] == f"Bearer {TOKEN}" for _, headers in github.requests)


def test_refusals_are_said(rocwheel: Rocwheel, github: GitHub, wheels: Path, tmp_path: Path) -> None:
    github.release("v1", *sorted(wheels.iterdir()))
    pages = tmp_path / "pages"
    github.refuse = (403, {"message": "API rate limit exceeded for 192.0.2.1."})
    said = build(rocwheel, github, pages, expect=1)
    assert "limit of requests is reached until 2027-01-15T08:00:00Z" in said and "set GITHUB_TOKEN" in said
    github.refuse = (401, {"message": "Bad credentials"})
    assert "refuses the token" in build(rocwheel, github, pages, expect=1, GITHUB_TOKEN=TOKEN)
    github.refuse = (502, {"message": "\x1b[31mbad"})
    said = build(rocwheel, github, pages, expect=1)
    assert "GitHub answers 502" in said and "\x1b[31m" not in said
    github.refuse, github.needs_token = None, True
    assert "no such public repository" in build(rocwheel, github, pages, expect=1)
    build(rocwheel, github, pages, GITHUB_TOKEN=TOKEN)
    plain = build(rocwheel, github, pages, expect=2, GITHUB_TOKEN=TOKEN, GITHUB_API_URL="http://example.invalid/")
    assert "https addresses only" in plain
    rocwheel.run("index", "build", "s3://bucket/x", "--from-github", "a/b", expect=2).says("the pages go into a folder")


def test_two_files_of_one_name_are_refused(rocwheel: Rocwheel, github: GitHub, wheels: Path, tmp_path: Path) -> None:
    wheel = wheels / "rocm_core-7.2.0-py3-none-any.whl"
    github.release("v1", wheel)
    github.release("copy", wheel)
    assert build(rocwheel, github, tmp_path / "pages")["indexes"][0]["files"] == 1
    write_wheel(wheels, "rocm-core", "7.2.0", "other")
    github.release("v2", wheel)
    said = build(rocwheel, github, tmp_path / "other", expect=1)
    assert "releases `v2` and `copy` have different files" in said
    assert not (tmp_path / "other/simple").exists()


def test_a_file_without_digest_and_a_source_distribution(rocwheel: Rocwheel, github: GitHub, tmp_path: Path) -> None:
    wheel, sdist = write_wheel(tmp_path, "old", "1"), write_sdist(tmp_path, "source", "2")
    github.release("v1", sdist)
    github.releases[0]["assets"].append(github.asset("v1", wheel, digest=None))
    build(rocwheel, github, tmp_path / "pages")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert f"#sha256={digest}" in (tmp_path / "pages/simple/old/index.html").read_text()
    assert "source-2.tar.gz#sha256=" in (tmp_path / "pages/simple/source/index.html").read_text()
