"""`rocwheel release github` with the real `gh`, against a server on this machine that answers as
GitHub does."""

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit
from urllib.request import urlopen

import pytest
from serving import Answers, running, served
from workflows import run_step

from command import Rocwheel, run
from linked_wheels import write_wheel


class GitHub(ThreadingHTTPServer):
    """One repository with its releases. gh reaches it as a proxy: for the host github.localhost it
    speaks plain HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Api)
        self.releases: list[dict] = []
        self.written: list[str] = []
        self.contents: dict[int, bytes] = {}

    def release(self, tag: str, **more: object) -> dict:
        number = len(self.releases) + 1
        base = f"github.localhost/repos/owner/name/releases/{number}"
        self.releases.append(
            {
                **{"id": number, "tag_name": tag, "name": tag, "body": "", "draft": False, "prerelease": False},
                **{"url": f"http://api.{base}", "upload_url": f"http://uploads.{base}/assets{{?name,label}}"},
                **{"html_url": f"http://{base}", "assets": [], "author": {"login": "owner"}, **more},
            }
        )
        return self.releases[-1]


class Api(Answers):
    protocol_version = "HTTP/1.1"
    server: GitHub

    def answer(self, document: object, code: int = 200) -> None:
        self.reply(json.dumps(document).encode(), code, "application/json; charset=utf-8")

    def answer_with(self, content: bytes) -> None:
        self.reply(content, kind="application/octet-stream")

    def handle_request(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        if "chunked" in (self.headers.get("Transfer-Encoding") or ""):
            length = 0
        body = self.rfile.read(length)
        releases = self.server.releases
        if self.command != "GET" and not url.path.endswith("/graphql"):
            self.server.written.append(f"{self.command} {url.path}")
        if self.headers.get("Authorization") != "token secret":
            return self.answer({"message": "Bad credentials"}, 401)
        if url.path.endswith("/graphql"):
            return self.answer({"data": {"repository": {"release": None}}})
        if found := re.fullmatch("/repos/owner/name/releases/tags/(.+)", url.path):
            for release in releases:
                if release["tag_name"] == found[1]:
                    return self.answer(release)
            return self.answer({"message": "Not Found"}, 404)
        if url.path == "/repos/owner/name/releases":
            if self.command == "GET":
                return self.answer(releases)
            given = json.loads(body)
            more = {key: given.get(key) for key in ("name", "body", "draft", "prerelease")}
            return self.answer(self.server.release(given["tag_name"], **more), 201)
        if found := re.fullmatch(r"/repos/owner/name/releases/(\d+)/assets", url.path):
            release = releases[int(found[1]) - 1]
            (name,) = parse_qs(url.query)["name"]
            number = 100 + len(self.server.contents)
            self.server.contents[number] = body
            asset = {
                "id": number,
                "name": name,
                "size": len(body),
                "state": "uploaded",
                "content_type": "application/zip",
            }
            asset["url"] = f"http://api.github.localhost/repos/owner/name/releases/assets/{number}"
            release["assets"].append(asset)
            return self.answer(asset, 201)
        if found := re.fullmatch(r"/repos/owner/name/releases/assets/(\d+)", url.path):
            if self.command == "GET":
                return self.answer_with(self.server.contents[int(found[1])])
            for release in releases:
                release["assets"] = [asset for asset in release["assets"] if asset["id"] != int(found[1])]
            self.send_response(204)
            self.end_headers()
            return None
        if found := re.fullmatch(r"/repos/owner/name/releases/(\d+)", url.path):
            releases[int(found[1]) - 1].update(json.loads(body))
            return self.answer(releases[int(found[1]) - 1])
        return self.answer({"message": "Not Found"}, 404)

    do_GET = do_POST = do_PATCH = do_DELETE = handle_request  # noqa: N815


@pytest.fixture
def github() -> Iterator[GitHub]:
    server = GitHub()
    with running(server):
        yield server


def test_pages_grow_and_are_the_same_again(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Names alone say what wheels are; a page that has grown keeps what is elsewhere now."""
    version, python = "2.8.3+rocm7.2torch2.14", "cp312-cp312"
    first = write_wheel(
        tmp_path / "one", {"flash_attn/__init__.py": b""}, name="flash_attn", version=version, python=python
    )
    (tmp_path / "README.md").write_text("# Mine\n<!-- rocwheel coverage: begin -->\n<!-- rocwheel coverage: end -->\n")
    pages = ("--output", tmp_path, "--readme", tmp_path / "README.md", "--history", tmp_path / "history.md")

    def write(folder: str, tag: str, *more: object, expect: int = 0):
        options = ("--wheels", tmp_path / folder, "--tag", tag, "--repo", "owner/name")
        return rocwheel.run("release", "pages", *options, *pages, *more, expect=expect)

    assert "new" in write("one", "v1", "--dry-run").stdout and not (tmp_path / "packages.md").exists()
    write("one", "v1")
    write_wheel(
        tmp_path / "two", {"flash_attn/__init__.py": b""}, name="flash_attn", version=version, python="cp313-cp313"
    )
    write("two", "v2")
    texts = {path.name: path.read_text() for path in tmp_path.glob("*.*")}
    again = json.loads(write("two", "v2", "--json").stdout)
    assert {page["status"] for page in again["pages"]} == {"unchanged"} and again["coverage"]["exists"] == 2
    assert {path.name: path.read_text() for path in tmp_path.glob("*.*")} == texts
    assert (
        f"[v1](https://github.com/owner/name/releases/download/v1/{first.name.replace('+', '%2B')})"
        in texts["packages.md"]
    )
    assert "| flash-attn | 2.8.3 | ck | 2 |" in texts["README.md"] and texts["README.md"].startswith("# Mine\n")
    assert texts["history.md"].index("### v2") < texts["history.md"].index("### v1")
    # Coverage and history in one file: both are there.
    both = tmp_path / "both.md"
    both.write_text("# Mine\n<!-- rocwheel coverage: begin -->\n<!-- rocwheel coverage: end -->\n")
    options = ("--wheels", tmp_path / "two", "--tag", "v2", "--repo", "owner/name", "--output", tmp_path / "both")
    rocwheel.run("release", "pages", *options, "--readme", both, "--history", tmp_path / "." / "both.md")
    assert "| flash-attn | 2.8.3 |" in both.read_text() and "### v2" in both.read_text()
    # The same name with another content, a page without marks, and a row that somebody has broken.
    write_wheel(
        tmp_path / "two", {"flash_attn/__init__.py": b"x"}, name="flash_attn", version=version, python="cp313-cp313"
    )
    assert "released with another content" in write("two", "v3", expect=2).stderr
    (tmp_path / "README.md").write_text("# Mine\n")
    assert "add a line `<!-- rocwheel coverage: begin -->`" in write("one", "v1", expect=1).stderr
    (tmp_path / "packages.md").write_text(texts["packages.md"].replace("| 3.12 | ", "| "))
    assert "is no row of the table of packages" in write("one", "v1", expect=1).stderr
    assert "nowhere" in write("nowhere", "v1", expect=1).stderr


def test_one_can_install_from_the_notes(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """pip is given the command of the notes as it is, and each link leads to its file."""
    dist = tmp_path / "dist"
    for name, python in (("demo", "cp312-cp312"), ("demo", "cp39-cp39"), ("other", "py3-none")):
        write_wheel(dist, {f"{name}/__init__.py": b""}, name=name, version="1.0+rocm7.2", python=python)
    (dist / "magma-1.tar.bz2").write_bytes(b"tarball")
    with served(dist) as address:
        rocwheel.run("release", "pages", "--wheels", dist, "--output", tmp_path, "--tag", "v1", "--url", address)
        notes = (tmp_path / "release-notes.md").read_text()
        assert notes.startswith("# Release v1\n"), notes
        links = re.findall(r"\]\((http[^)]+)\)", notes)
        assert len(links) == 3 + 4, "the Pythons of three wheels, and all files"
        for link in links:
            with urlopen(link) as answer:
                assert answer.status == 200, link
        for file in dist.iterdir():
            assert f"[`{file.name}`]({address}/{quote(file.name)})" in notes
        (command,) = re.findall(r"(?m)^pip install (.+)$", notes)
        pip = [sys.executable, *"-m pip download --quiet --no-deps --no-index --python-version 3.12".split()]
        run(*pip, "--dest", tmp_path / "got", *shlex.split(command))
    assert [path.name for path in (tmp_path / "got").iterdir()] == ["demo-1.0+rocm7.2-cp312-cp312-linux_x86_64.whl"]


def typed(github: GitHub, folder: Path) -> tuple[Path, dict[str, str], list[object]]:
    """A wheel, the variables with which `gh` asks that server, and the command for a release."""
    assert shutil.which("gh"), "gh is not there: scripts/setup installs it"
    proxy = f"http://127.0.0.1:{github.server_port}"
    names = {"GH_HOST": "github.localhost", "GH_TOKEN": "secret", "GH_CONFIG_DIR": str(folder / "gh"), "NO_PROXY": ""}
    wheel = write_wheel(folder / "wheels", {"demo/__init__.py": b""}, python="py3-none")
    command = ["release", "github", "v1", "--wheels", folder / "wheels", "--repo", "owner/name"]
    return wheel, {**names, "HTTP_PROXY": proxy, "http_proxy": proxy, "no_proxy": ""}, command


def test_a_release_gets_what_it_lacks(rocwheel: Rocwheel, github: GitHub, tmp_path: Path) -> None:
    wheel, surroundings, command = typed(github, tmp_path)

    def release(*more: object, expect: int = 0):
        return rocwheel.run(*command, *more, environment=surroundings, expect=expect)

    # Without `--upload` nothing is changed, and the calls are printed as they would be typed.
    said = release()
    assert " | gh release create v1 --title v1" in said.stdout and "`--upload` does it" in said.stderr, said
    assert github.written == []
    release("--upload", "--title", "One", "--prerelease")
    (made,) = github.releases
    assert (made["name"], made["prerelease"], "Python" in made["body"]) == ("One", True, True)
    assert {asset["name"]: asset["size"] for asset in made["assets"]} == {
        wheel.name: wheel.stat().st_size,
        "SHA256SUMS": len(f"{'0' * 64}  {wheel.name}\n"),
    }
    # Again: nothing is left to do.
    written = list(github.written)
    assert "2 are there already" in release("--upload").stderr and github.written == written
    # A new wheel: only that, and what says what is there.
    other = write_wheel(tmp_path / "wheels", {"other/__init__.py": b""}, name="other", python="py3-none")
    document = json.loads(release("--upload", "--json").stdout)
    assert [file["name"] for file in document["uploads"]] == ["SHA256SUMS", other.name] and document["uploaded"]
    # The notes of a release that is there stay, unless others are named.
    assert len(made["assets"]) == 3 and "other" not in made["body"], made
    (tmp_path / "notes.md").write_text("Mine.\n")
    release("--upload", "--notes", tmp_path / "notes.md")
    assert made["body"] == "Mine.\n" and len(made["assets"]) == 3, made
    # What only GitHub has is in the checksums too.
    third = write_wheel(tmp_path / "third", {"third/__init__.py": b""}, name="third", python="py3-none")
    moved = ["release", "github", "v1", "--wheels", tmp_path / "third", "--repo", "owner/name", "--upload"]
    rocwheel.run(*moved, environment=surroundings)
    (sums,) = [github.contents[asset["id"]].decode() for asset in made["assets"] if asset["name"] == "SHA256SUMS"]
    assert [line.split("  ")[1] for line in sums.splitlines()] == sorted([wheel.name, other.name, third.name])
    # The same name with another content is refused, unless it is asked for.
    wheel.unlink()
    write_wheel(tmp_path / "wheels", {"demo/__init__.py": os.urandom(500)}, python="py3-none")
    said = release("--upload", expect=2).stderr
    assert "with another content" in said and "--clobber" in said, said
    release("--upload", "--clobber")
    assert {asset["name"]: asset["size"] for asset in made["assets"]}[wheel.name] == wheel.stat().st_size
    # Who is not logged in is told so, in gh's own words. What would be uploaded needs no login.
    surroundings["GH_TOKEN"] = "wrong"
    said = release("--upload", expect=1).stderr
    assert "`gh release view v1` failed" in said and "gh auth status" in said, said
    shown = release()
    assert "`gh release view v1` failed" in shown.stderr and "would be uploaded" in shown.stderr, shown
    assert " | gh release create v1 " in shown.stdout, shown
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    said = rocwheel.run("release", "github", "v1", "--wheels", nothing, environment=surroundings, expect=2).stderr
    assert "there are no wheels" in said
    path = f"{tmp_path / 'bin'}"
    without = {**surroundings, "PATH": path}
    run(rocwheel.binary, *command, "--upload", environment=without, expect=2).says("there is no `gh`")
    assert " | gh release create v1 " in run(rocwheel.binary, *command, environment=without).stdout


def test_the_printed_calls_work_when_they_are_typed(rocwheel: Rocwheel, github: GitHub, tmp_path: Path) -> None:
    wheel, surroundings, command = typed(github, tmp_path)
    printed = rocwheel.run(*command, environment=surroundings).stdout
    assert all(len(line) < 300 for line in printed.splitlines()), "notes and checksums are not printed at length"
    (tmp_path / "shell").mkdir()
    surroundings["PATH"] = f"{rocwheel.binary.parent}:{os.environ['PATH']}"
    run("bash", "-e", "-o", "pipefail", "-c", printed, environment=surroundings, cwd=tmp_path / "shell")
    (made,) = github.releases
    assert {asset["name"] for asset in made["assets"]} == {wheel.name, "SHA256SUMS"} and "Python" in made["body"], made
    # `--upload` would have done the same.
    assert "2 are there already" in rocwheel.run(*command, "--upload", environment=surroundings).stderr


def test_the_workflow_releases_what_a_tag_has_built(rocwheel: Rocwheel, github: GitHub, tmp_path: Path) -> None:
    """The steps of its last job: the release gets the wheels with notes, and the default branch
    gets the pages."""
    assert shutil.which("gh"), "gh is not there: scripts/setup installs it"
    workflow = rocwheel.run("matrix", "--format", "workflow").stdout
    tree, remote = tmp_path / "tree", tmp_path / "remote.git"
    run("git", "init", "--quiet", "--bare", "--initial-branch", "main", remote)
    run("git", "clone", "--quiet", remote, tree)
    (tree / "README.md").write_text("# Mine\n<!-- rocwheel coverage: begin -->\n<!-- rocwheel coverage: end -->\n")
    git = ("git", "-C", tree, "-c", "user.name=x", "-c", "user.email=x@example.invalid")
    run(*git, "add", ".")
    run(*git, "commit", "--quiet", "--message", "first")
    run("git", "-C", tree, "push", "--quiet", "origin", "HEAD:main")
    version = "2.8.3+rocm6.2torch2.5triton"
    wheel = write_wheel(tmp_path / "dist", {"flash_attn/__init__.py": b""}, "any", "flash_attn", version, "py3-none")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/rocwheel").symlink_to(rocwheel.binary)
    proxy = f"http://127.0.0.1:{github.server_port}"
    environment = {
        **{"GH_HOST": "github.localhost", "GH_TOKEN": "secret", "GH_CONFIG_DIR": str(tmp_path / "gh"), "NO_PROXY": ""},
        **{
            "HTTP_PROXY": proxy,
            "http_proxy": proxy,
            "no_proxy": "",
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        },
        **{"TAG": "v0.1.0", "REPOSITORY": "owner/name", "PAGES": "docs/wheels", "RUNNER_TEMP": str(tmp_path)},
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    for _ in range(2):
        run_step(workflow, ("release", "Upload to the release"), environment, tree)
        run_step(workflow, ("release", "Update the pages"), environment, tree)
    assert (tmp_path / "output").read_text() == "count=1\n" * 2
    (made,) = github.releases
    assert made["tag_name"] == "v0.1.0"
    assert {asset["name"] for asset in made["assets"]} == {wheel.name, "SHA256SUMS"}
    assert "flash-attn (triton) needs `FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE`" in made["body"]
    said = run("git", f"--git-dir={remote}", "log", "main", "--format=%s", "--name-only").stdout.split("\n")
    assert said[0] == "Pages of v0.1.0" and said.count("Pages of v0.1.0") == 1, "the second run changes nothing"
    assert {"docs/wheels/packages.md", "docs/wheels/coverage.md", "docs/wheels/release-notes.md"} <= set(said)
    assert "| flash-attn | 2.8.3 | triton | 1 |" in (tree / "README.md").read_text()
    # A tag for which nothing was built is no fault.
    nothing = {**environment, "RUNNER_TEMP": str(tmp_path / "empty")}
    assert "nothing was built" in run_step(workflow, ("release", "Upload to the release"), nothing, tree).stdout
