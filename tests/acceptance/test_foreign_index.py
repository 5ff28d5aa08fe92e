"""An index that another program made, and that lacks hashes, METADATA or upload times: `index build
--from-index` and `release mirror` write them, and pip and uv install with `--require-hashes`."""

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from serving import Answers, served
from test_build_all import UV

import small_index
from command import Rocwheel, run

NOW = "2026-11-20T01:02:03Z"
# When the files of the servers were changed last.
CHANGED = "2026-05-06T07:08:09Z"
MIRROR = {"PATH": f"{UV.parent}:/usr/bin:/bin", "UV_NO_CACHE": "1", "UV_HTTP_RETRIES": "0", "HOME": "/nonexistent"}
PIP = (Path(sys.executable).parent / "pip", "--isolated", "--no-cache-dir", "--disable-pip-version-check")


class Ranges(Answers):
    """A server of a folder that also sends ranges, as web servers do; it counts what it sends."""

    sent: dict[str, int]

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if path.is_dir() or not path.is_file():
            super().do_GET()
            return
        content = path.read_bytes()
        kind = "application/octet-stream"
        if asked:
            first, last = int(asked[1]), int(asked[2])
            part, size = content[first : last + 1], len(content)
            self.reply(part, 206, kind, Content_Range=f"bytes {first}-{last}/{size}", ETag='"1"')
        else:
            part = content
            self.reply(part, 200, kind, ETag='"1"')
        if self.command == "GET":
            self.sent[path.name] = self.sent.get(path.name, 0) + len(part)

    do_HEAD = do_GET


def counting() -> type[Ranges]:
    return type("Counting", (Ranges,), {"sent": {}})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder for each project, without pages: the server lists what is in it."""
    root = tmp_path / "files"
    small_index.write_wheel(root / "torch", "torch", "2.9.0+rocm7", "Requires-Dist: sympy", "Requires-Python: >=3.8")
    small_index.write_wheel(root / "sympy", "sympy", "1.14")
    small_index.write_sdist(root / "rocm-demo")
    for path in root.rglob("*.*"):
        os.utime(path, (1778051289, 1778051289))
    return root


def write_pages(root: Path, told: dict[str, str]) -> None:
    """Pages of another program; `told` are the hashes that they have, by file."""
    for folder in [path for path in root.iterdir() if path.is_dir()]:
        names = [path.name for path in folder.iterdir() if path.suffix in (".whl", ".gz")]
        links = "".join(
            f'<a href="{name}{"#sha256=" + told[name] if name in told else ""}">{name}</a>' for name in sorted(names)
        )
        (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def hashes(root: Path) -> dict[str, str]:
    return {path.name: sha256(path) for path in root.rglob("*") if path.suffix in (".whl", ".gz")}


def build(rocwheel: Rocwheel, address: str, pages: Path, *more: object, expect: int = 0):
    return rocwheel.run("index", "build", pages, "--from-index", address, "--now", NOW, *more, expect=expect)


def page_of(pages: Path, project: str) -> list[dict]:
    return json.loads((pages / f"simple/{project}/index.v1_json").read_text())["files"]


def install_with_hashes(index: str, tmp_path: Path) -> None:
    """uv makes a file of requirements with all hashes, from which both install."""
    wanted, lock = tmp_path / "wanted.in", tmp_path / "lock.txt"
    wanted.write_text("torch\n")
    options = ("--no-config", "--no-cache", "--default-index", index)
    run(UV, "pip", "compile", "--quiet", *options, "--generate-hashes", wanted, "--output-file", lock)
    assert lock.read_text().count("--hash=sha256:") == 2
    run(UV, "pip", "install", *options, "--require-hashes", "--target", tmp_path / "uv", "-r", lock)
    pip = (*PIP, "install", "--require-hashes", "--index-url", index, "--target", tmp_path / "pip", "-r", lock)
    run(*pip)
    for installer in ("uv", "pip"):
        assert (tmp_path / installer / "torch.py").is_file() and (tmp_path / installer / "sympy.py").is_file()


@pytest.mark.parametrize("flat", [False, True])
def test_lists_of_a_plain_server_become_an_index_with_hashes(
    rocwheel: Rocwheel, files: Path, tmp_path: Path, flat: bool
) -> None:
    if flat:
        for path in list(files.glob("*/*")):
            path.rename(files / path.name)
            path.parent.rmdir()
    pages = tmp_path / "pages"
    with served(files) as address:
        built = json.loads(build(rocwheel, address, pages, "--json").stdout)
        assert built["indexes"][0]["projects"] == 3 and built["files_read"] == 3
        computed = {"sha256": "computed", "metadata": "missing", "uploaded": "last-modified"}
        torch = "torch-2.9.0+rocm7-py3-none-any.whl"
        assert built["origins"][torch] == computed
        assert built["origins"]["rocm_demo-1.0.tar.gz"] == {**computed, "metadata": None}
        (file,) = page_of(pages, "torch")
        assert file["hashes"] == {"sha256": hashes(files)[torch]} and file["requires-python"] == ">=3.8"
        assert file["upload-time"] == CHANGED and file["size"] > 0 and not file["core-metadata"]
        install_with_hashes((pages / "simple").as_uri() + "/", tmp_path)
        # What is known is not read again.
        again = build(rocwheel, address, pages).stderr
        assert "0 files read" in again and "SHA-256: 3 computed from the file" in again
        assert "upload time: 3 of the server (Last-Modified)" in again and "METADATA: 2 not beside the wheel" in again


def test_with_hashes_metadata_is_read_by_ranges(rocwheel: Rocwheel, files: Path, tmp_path: Path) -> None:
    torch = files / "torch/torch-2.9.0+rocm7-py3-none-any.whl"
    with zipfile.ZipFile(torch, "a") as archive:
        archive.writestr("torch_weights.bin", os.urandom(3_000_000))
    write_pages(files, hashes(files))
    handler, pages = counting(), tmp_path / "pages"
    with served(files, handler) as address:
        said = build(rocwheel, address, pages, "--package", "torch", "--package", "sympy").stderr
        assert "SHA-256: 2 of the index, believed" in said
        assert 0 < handler.sent[torch.name] < 1_000_000
        assert page_of(pages, "torch")[0]["requires-python"] == ">=3.8"
        install_with_hashes((pages / "simple").as_uri() + "/", tmp_path)
        handler.sent.clear()
        compared = json.loads(build(rocwheel, address, pages, "--files", "--json").stdout)
        assert compared["origins"][torch.name]["sha256"] == "compared"
        assert handler.sent[torch.name] >= torch.stat().st_size


def test_metadata_beside_a_wheel_is_on_the_pages_if_it_is_the_wheels_own(
    rocwheel: Rocwheel, files: Path, tmp_path: Path
) -> None:
    for wheel in files.glob("*/*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
            own = archive.read(name)
        lie = b"Requires-Dist: evil\n" if "sympy" in wheel.name else b""
        wheel.with_name(f"{wheel.name}.metadata").write_bytes(own + lie)
    pages = tmp_path / "pages"
    with served(files) as address:
        said = json.loads(build(rocwheel, address, pages, "--json").stdout)["origins"]
        assert said["torch-2.9.0+rocm7-py3-none-any.whl"]["metadata"] == "found"
        (torch,), (sympy,) = page_of(pages, "torch"), page_of(pages, "sympy")
        assert torch["core-metadata"]["sha256"] and not sympy["core-metadata"]
        install_with_hashes((pages / "simple").as_uri() + "/", tmp_path)


def test_what_is_withdrawn_there_is_withdrawn_here(rocwheel: Rocwheel, files: Path, tmp_path: Path) -> None:
    write_pages(files, {})
    page = files / "sympy/index.html"
    status = '<meta name="pypi:project-status" content="deprecated">'
    page.write_text(f'<html><head>{status}</head><a data-yanked="bad" href="sympy-1.14-py3-none-any.whl">x</a></html>')
    pages = tmp_path / "pages"
    with served(files) as address:
        build(rocwheel, address, pages)
    assert page_of(pages, "sympy")[0]["yanked"] == "bad"
    assert 'content="deprecated"' in (pages / "simple/sympy/index.html").read_text()


class Refusing(Answers):
    """Sends the pages, and in place of the wheel of sympy what a test says."""

    answer: Callable[[Answers, bytes], None]

    def do_GET(self) -> None:
        if self.path.endswith(".whl") and "sympy" in self.path:
            type(self).answer(self, Path(self.translate_path(self.path)).read_bytes())
        else:
            super().do_GET()

    def do_HEAD(self) -> None:
        if self.path.endswith(".whl") and "sympy" in self.path:
            self.do_GET()
        else:
            super().do_HEAD()


def forbidden(handler: Answers, _: bytes) -> None:
    handler.reply(b"no", 403)


def login(handler: Answers, _: bytes) -> None:
    handler.reply(b"<html>please log in</html>")


def broken_off(handler: Answers, content: bytes) -> None:
    """The connection ends in the middle."""
    handler.reply(content[: len(content) // 2], kind="application/zip", **{"Content-Length": str(len(content))})
    handler.close_connection = True


def truncated(handler: Answers, content: bytes) -> None:
    """The file is cut off on the server's disk."""
    handler.reply(content[: len(content) // 2], kind="application/zip")


def packed(handler: Answers, content: bytes) -> None:
    handler.reply(content, kind="application/zip", Content_Encoding="gzip")


def part(handler: Answers, content: bytes) -> None:
    """206 and half of the file, although the request had no range."""
    handler.reply(content[: len(content) // 2], 206, kind="application/zip")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (part, "`sympy-1.14-py3-none-any.whl`: the server does not say its size"),
        (forbidden, "`sympy-1.14-py3-none-any.whl`: the server answers 403"),
        (login, "`sympy-1.14-py3-none-any.whl`: the server sends a page in place of the file"),
        (broken_off, "`sympy-1.14-py3-none-any.whl`: cannot read"),
        (truncated, "`sympy-1.14-py3-none-any.whl`: "),
        (packed, "`sympy-1.14-py3-none-any.whl`: the server packs it (gzip)"),
    ],
)
def test_a_file_that_is_not_what_the_page_says_ends_it(
    rocwheel: Rocwheel, files: Path, tmp_path: Path, answer: Callable[[Answers, bytes], None], reason: str
) -> None:
    pages = tmp_path / "pages"
    handler = type("Handler", (Refusing,), {"answer": staticmethod(answer)})
    with served(files, handler) as address:
        said = build(rocwheel, address, pages, expect=1).stderr
        assert reason in said and "hint: " in said
        assert not (pages / "simple").exists()
        assert not pages.exists() or [path.name for path in pages.iterdir()] in ([], [".rocwheel"])
        # A mirror takes no such file either.
        mirrored = tmp_path / "mirror"
        said = subprocess.run(mirror_words(rocwheel, address, mirrored), env=MIRROR, capture_output=True, text=True)
        assert said.returncode != 0 and "sympy" in said.stderr
        assert not list(mirrored.glob("sympy*")) and not (mirrored / "simple").exists()


class Busy(Answers):
    """Sends everything but METADATA, of which it says nothing."""

    def do_GET(self) -> None:
        if self.path.endswith(".metadata"):
            self.reply(b"busy", 503)
        else:
            super().do_GET()


def test_a_server_that_is_busy_does_not_say_that_metadata_is_missing(
    rocwheel: Rocwheel, files: Path, tmp_path: Path
) -> None:
    pages = tmp_path / "pages"
    with served(files, Busy) as address:
        said = build(rocwheel, address, pages, expect=4).stderr
    assert "`sympy-1.14-py3-none-any.whl`: the server answers 503" in said and not (pages / "simple").exists()


def mirror_words(rocwheel: Rocwheel, address: str, folder: Path) -> tuple[object, ...]:
    return (rocwheel.binary, "release", "mirror", f"{address}/", "--to", folder, "--package", "torch")


def mirror(rocwheel: Rocwheel, address: str, folder: Path, *more: object, expect: int = 0):
    return run(*mirror_words(rocwheel, address, folder), *more, environment=MIRROR, expect=expect)


@pytest.mark.parametrize("ranges", [False, True])
def test_a_wrong_hash_is_an_error_and_nothing_is_written(
    rocwheel: Rocwheel, files: Path, tmp_path: Path, ranges: bool
) -> None:
    wrong = {**hashes(files), "sympy-1.14-py3-none-any.whl": "0" * 64}
    write_pages(files, wrong)
    pages, mirrored = tmp_path / "pages", tmp_path / "mirror"
    with served(files, counting() if ranges else Answers) as address:
        # Where METADATA is read by ranges, only `--files` reads all bytes.
        said = build(rocwheel, address, pages, *(["--files"] if ranges else []), expect=1).stderr
        assert "`sympy-1.14-py3-none-any.whl`" in said and f"but the index says {'0' * 64}" in said
        assert not (pages / "simple").exists()
        said = mirror(rocwheel, address, mirrored, expect=1).stderr
        assert "`sympy-1.14-py3-none-any.whl`: its SHA-256 is" in said and f"but the index says {'0' * 64}" in said
        assert not (mirrored / "simple").exists() and not (mirrored / "mirror.json").exists()


@pytest.mark.parametrize("told", ["nothing", "sha256", "sha512"])
def test_a_mirror_of_an_index_without_hashes_has_them(
    rocwheel: Rocwheel, files: Path, tmp_path: Path, told: str
) -> None:
    if told == "sha256":
        write_pages(files, hashes(files))
    if told == "sha512":
        write_pages(files, hashes(files))
        for page in files.glob("*/index.html"):
            (path,) = (path for path in page.parent.iterdir() if path.suffix in (".whl", ".gz"))
            digest = hashlib.sha512(path.read_bytes()).hexdigest()
            page.write_text(page.read_text().replace(f"sha256={sha256(path)}", f"sha512={digest}"))
    folder = tmp_path / "mirror"
    with served(files) as address:
        report = json.loads(mirror(rocwheel, address, folder, "--json").stdout)["report"]
        source = "compared" if told == "sha256" else "computed"
        origin = {"sha256": source, "metadata": "computed", "uploaded": "last-modified"}
        torch = "torch-2.9.0+rocm7-py3-none-any.whl"
        assert report["origins"][torch] == origin
        (file,) = page_of(folder, "torch")
        assert file["hashes"]["sha256"] == sha256(folder / torch) == hashes(files)[torch]
        assert file["upload-time"] == CHANGED and file["core-metadata"]["sha256"]
        said = mirror(rocwheel, address, folder).stderr
        word = "of the index, compared with the file" if told == "sha256" else "computed from the file"
        assert f"SHA-256: 2 {word}" in said and "METADATA: 2 computed from the file" in said
        assert ("upload time: 2 of an earlier run" in said) == (told != "sha512")
    install_with_hashes((folder / "simple").as_uri() + "/", tmp_path)
    rocwheel.run("release", "mirror", "--verify", folder)


def test_a_mirror_keeps_the_times_of_its_index(rocwheel: Rocwheel, files: Path, tmp_path: Path) -> None:
    rocwheel.run("index", "build", files, "--layout", "structured", "--now", "2026-01-02T03:04:05Z")
    with served(files) as address:
        report = json.loads(mirror(rocwheel, address, tmp_path / "mirror", "--json").stdout)["report"]
    origin = {"sha256": "compared", "metadata": "compared", "uploaded": "believed"}
    assert set(map(str, report["origins"].values())) == {str(origin)}
    assert page_of(tmp_path / "mirror", "torch")[0]["upload-time"] == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("<html>please log in</html>", "the page names no project and no package"),
        ('<html><a href="..%2Fsympy-1.0-py3-none-any.whl">x</a></html>', "the page names no project and no package"),
        (
            '<html><a href="torch/">torch</a><a href="missing/">missing</a></html>',
            "missing/`: the server does not have",
        ),
        ('<html><a href="empty/">empty</a></html>', "empty/`: the page lists no package of the project"),
        ("\x1f\x8b and no gzip", "cannot read the index page"),
    ],
)
def test_pages_that_are_no_index_are_named(
    rocwheel: Rocwheel, files: Path, tmp_path: Path, page: str, reason: str
) -> None:
    (files / "empty").mkdir()
    (files / "empty/index.html").write_text("<html>please log in</html>")
    (files / "index.html").write_bytes(page.encode("latin-1"))
    pages = tmp_path / "pages"
    with served(files) as address:
        said = build(rocwheel, address, pages, expect=1).stderr
    assert reason in said and "hint: " in said and not pages.exists()


def test_two_files_of_one_name_and_wrong_words_are_refused(rocwheel: Rocwheel, files: Path, tmp_path: Path) -> None:
    name = "sympy-1.14-py3-none-any.whl"
    (files / "sympy/index.html").write_text(f'<html><a href="{name}">a</a><a href="../{name}">b</a></html>')
    pages = tmp_path / "pages"
    with served(files) as address:
        said = build(rocwheel, address, pages, expect=1).stderr
        assert f"cannot list `{name}`" in said and not pages.exists()
        missing = build(rocwheel, address, pages, "--package", "nothing", expect=1).stderr
        assert "nothing/`: the server does not have it" in missing
    rocwheel.run("index", "build", pages, "--from-index", "dist", expect=2).says("not the address of an index")
    rocwheel.run("index", "build", "s3://b/x", "--from-index", "https://x/", expect=2).says(
        "the pages go into a folder"
    )
