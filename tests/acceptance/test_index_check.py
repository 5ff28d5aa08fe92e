"""`rocwheel index check` calls an index good only if pip and uv can install from it: both are asked
about each bad index here."""

import gzip
import hashlib
import os
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pypi_simple
import pytest
from serving import Answers, served
from small_wheels import write_sdist, write_wheel
from test_index import index

from command import TOOLS, Rocwheel, run

JSON = "application/vnd.pypi.simple.v1+json"
WHEEL = "foo-1.0-py3-none-any.whl"
LOGIN = "<!DOCTYPE html><html><body><p>Please log in</p><a href='/help'>Help</a></body></html>"


@dataclass
class Reply:
    """What a server answers for a path."""

    body: bytes
    kind: str = "text/html"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Replies = dict[str, Reply]


@contextmanager
def answering(replies: Replies) -> Iterator[str]:
    """A server of these paths; the address of its first page."""

    class Server(Answers):
        def do_GET(self) -> None:  # noqa: N802
            reply = replies.get(self.path, Reply(b"", status=404))
            self.reply(reply.body, reply.status, reply.kind, **reply.headers)

        do_HEAD = do_GET  # noqa: N815

    with served(Path(), Server) as address:
        yield f"{address}/simple/"


def link(path: Path, more: str = "") -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f'<a href="/files/{path.name}#sha256={digest}"{more}>{path.name}</a>'


def page(*links: str, head: str = "") -> str:
    return f"<!DOCTYPE html><html><head>{head}</head><body>{''.join(links)}</body></html>"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return write_wheel(tmp_path / "files", "foo", "1.0")


def good(path: Path) -> Replies:
    """An index of one file, without METADATA beside it."""
    kind = "application/gzip" if path.suffix == ".gz" else "application/octet-stream"
    return {
        "/simple/": Reply(page("<a href='foo/'>foo</a>").encode()),
        "/simple/foo/": Reply(page(link(path)).encode()),
        f"/files/{path.name}": Reply(path.read_bytes(), kind),
    }


def with_page(text: str | bytes, kind: str = "text/html", **more: object) -> Callable[[Replies], None]:
    body = text.encode() if isinstance(text, str) else text

    def change(replies: Replies) -> None:
        replies["/simple/foo/"] = Reply(body, kind, **more)

    return change


def changed(old: str, new: str) -> Callable[[Replies], None]:
    def change(replies: Replies) -> None:
        body = replies["/simple/foo/"].body.decode()
        assert old in body
        replies["/simple/foo/"].body = body.replace(old, new).encode()

    return change


def redirected(replies: Replies) -> None:
    replies["/simple/foo/"] = Reply(b"", status=302, headers={"Location": "/login?next=foo"})
    replies["/login?next=foo"] = Reply(LOGIN.encode())


def file_header(name: str, value: str) -> Callable[[Replies], None]:
    def change(replies: Replies) -> None:
        next(reply for path, reply in replies.items() if path.startswith("/files/")).headers[name] = value

    return change


def file_is_login(replies: Replies) -> None:
    replies[f"/files/{WHEEL}"] = Reply(LOGIN.encode())


def packed_page(replies: Replies) -> None:
    replies["/simple/foo/"].body = gzip.compress(replies["/simple/foo/"].body)


def packed_page_of_a_header(replies: Replies) -> None:
    packed_page(replies)
    replies["/simple/foo/"].headers["Content-Encoding"] = "gzip"


def lying_page(replies: Replies) -> None:
    replies["/simple/foo/"].headers["Content-Encoding"] = "gzip"


def nothing_changed(_: Replies) -> None:
    pass


NEITHER = (False, False)
# What is done to a good index, what `check` says, and whether uv and pip install from it.
BROKEN = {
    "a login page": (with_page(LOGIN), "it lists no file of `foo`", NEITHER),
    "only a heading": (with_page("<!DOCTYPE html><h1>Links for foo</h1>"), "it lists no file of `foo`", NEITHER),
    "an empty page": (with_page(""), "it lists no file of `foo`", NEITHER),
    "a redirect to a login": (redirected, "the request was redirected to `", NEITHER),
    "no files in JSON": (
        with_page('{"meta": {"api-version": "1.1"}, "name": "foo", "files": []}', JSON),
        "it lists no file of `foo`",
        NEITHER,
    ),
    "HTML called JSON": (with_page(LOGIN, JSON), "and it is HTML: installers cannot read it", NEITHER),
    "an error called JSON": (with_page('{"message": "no access"}', JSON), "missing field `files`", NEITHER),
    "an error with a status": (with_page(LOGIN, status=503), "it answers 503", NEITHER),
    "cut in its last tag": (
        with_page(f'<!DOCTYPE html><html><body><a href="/files/{WHEEL}#sha2'),
        "cut off in",
        NEITHER,
    ),
    "an unreadable Requires-Python": (
        changed('">foo', '" data-requires-python="&gt;=3.x">foo'),
        "`>=3.x`",
        (False, True),
    ),
    "a packed page without a word": (packed_page, "its headers do not say so", NEITHER),
    "a page that is not packed": (lying_page, "it cannot be unpacked", NEITHER),
    "a login instead of a file": (file_is_login, "it is a page (`text/html`), and no file", NEITHER),
    "a wheel called packed": (file_header("Content-Encoding", "gzip"), "one of the two cannot read it", (False, True)),
    "a later version": (
        changed("<head>", '<head><meta name="pypi:repository-version" content="2.0">'),
        "clients that know version 1 have to stop there (PEP 629)",
        # They do not look; pypi-simple stops.
        (True, True),
    ),
}
SOUND = {
    "as it is": (nothing_changed, "0 errors"),
    "a packed page": (packed_page_of_a_header, "0 errors"),
    "without a last tag": (changed("</body></html>", ""), "its last end tag is missing"),
}


def works(program: str, *words: object) -> bool:
    """`true` if an installer ends well; pip has a traceback for some answers of servers."""
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull}
    command = [str(word) for word in (TOOLS / program, *words)]
    return subprocess.run(command, capture_output=True, env=environment).returncode == 0


def install(root: str, folder: Path, *, with_uv: bool, with_pip: bool | None) -> None:
    """Insists on what uv and pip do; `None` does not ask pip."""
    of_uv = ("--no-config", "--no-cache", "--target", folder / "uv")
    assert works("uv", "pip", "install", *of_uv, "--no-deps", "--index-url", root, "foo") == with_uv
    if with_pip is not None:
        of_pip = ("--no-cache-dir", "--dest", folder / "pip")
        assert works("pip", "download", *of_pip, "--no-deps", "--index-url", root, "foo") == with_pip


@pytest.mark.parametrize("name", BROKEN)
def test_what_an_installer_cannot_use_is_an_error(rocwheel: Rocwheel, wheel: Path, tmp_path: Path, name: str) -> None:
    change, said, (with_uv, with_pip) = BROKEN[name]
    replies = good(wheel)
    change(replies)
    with answering(replies) as root:
        answer = rocwheel.run("index", "check", root, "--files", expect=1)
        errors = [line for line in answer.stdout.splitlines() if line.startswith("error: ")]
        assert any(said in line for line in errors), answer.stdout
        install(root, tmp_path, with_uv=with_uv, with_pip=with_pip)


@pytest.mark.parametrize("name", SOUND)
def test_what_both_install_is_none(rocwheel: Rocwheel, wheel: Path, tmp_path: Path, name: str) -> None:
    change, said = SOUND[name]
    replies = good(wheel)
    change(replies)
    with answering(replies) as root:
        answer = rocwheel.run("index", "check", root, "--files")
        assert said in answer.stdout + answer.stderr and "1 file: 0 errors" in answer.stderr
        install(root, tmp_path, with_uv=True, with_pip=True)


def test_a_later_version_stops_a_strict_client(rocwheel: Rocwheel, wheel: Path) -> None:
    for version, is_later in (("1.0", False), ("1.9", False), ("2.0", True), ("10", True)):
        replies = good(wheel)
        changed("<head>", f'<head><meta name="pypi:repository-version" content="{version}">')(replies)
        with answering(replies) as root, pypi_simple.PyPISimple(root) as client:
            said = rocwheel.run("index", "check", root, expect=int(is_later)).stdout
            assert ("have to stop there (PEP 629)" in said) == is_later
            if is_later:
                with pytest.raises(pypi_simple.UnsupportedRepoVersionError):
                    client.get_project_page("foo")
            else:
                assert client.get_project_page("foo").packages


def test_a_source_distribution_called_packed_is_an_error(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """As a caching proxy served them: `.tar.gz` with `Content-Encoding: gzip`."""
    replies = good(write_sdist(tmp_path / "files", "foo", "1.0"))
    file_header("Content-Encoding", "gzip")(replies)
    with answering(replies) as root:
        assert "one of the two cannot read it" in rocwheel.run("index", "check", root, expect=1).stdout
        install(root, tmp_path, with_uv=False, with_pip=None)


def test_a_quarantined_project_may_list_nothing(rocwheel: Rocwheel, wheel: Path) -> None:
    """PEP 792: nobody is to install it."""
    replies = good(wheel)
    with_page(page(head='<meta name="pypi:project-status" content="quarantined">'))(replies)
    with answering(replies) as root:
        assert "0 errors" in rocwheel.run("index", "check", root).stderr


def test_metadata_beside_a_wheel_is_what_each_installer_gets(rocwheel: Rocwheel, wheel: Path, tmp_path: Path) -> None:
    """uv asks for it packed, pip does not; a server that packs for both serves one of them."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("foo-1.0.dist-info/METADATA")
    digest = hashlib.sha256(metadata).hexdigest()
    replies = good(wheel)
    changed('">foo', f'" data-core-metadata="sha256={digest}" data-requires-python="&gt;=3.8">foo')(replies)
    beside = f"/files/{WHEEL}.metadata"
    replies[beside] = Reply(metadata, "text/plain")
    with answering(replies) as root:
        assert "0 errors" in rocwheel.run("index", "check", root, "--files").stderr
        replies[beside] = Reply(gzip.compress(metadata), "text/plain", headers={"Content-Encoding": "gzip"})
        said = rocwheel.run("index", "check", root, expect=1).stdout
        assert f"{beside}: its hash is not that of the page: pip stops" in said and "uv stops" not in said
        install(root, tmp_path, with_uv=True, with_pip=False)
        replies[beside] = Reply(metadata.replace(b"Name: foo", b"Name: bar"), "text/plain")
        assert "its metadata is of `bar`" in rocwheel.run("index", "check", root, expect=1).stdout


def test_build_refuses_what_publish_refuses(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """One set of rules: what one command lets pass, another one must not call wrong."""
    for name, python, said in [
        ("range", ">=3.x", "has a Requires-Python that cannot be read, `>=3.x`"),
        ("arrow", "=>3.8", "has a Requires-Python that cannot be read, `=>3.8`"),
    ]:
        dist = tmp_path / name
        write_wheel(dist, "foo", "1.0", python=python)
        for words in (("index", "build", dist), ("release", "publish", dist, "--to", tmp_path / "s", "--stream", "x")):
            assert said in rocwheel.run(*words, expect=1).stderr
        assert not (dist / "simple").exists() and not (tmp_path / "s").exists()


def test_a_part_of_a_set_is_no_good_index(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """`index check` and `release publish` agree about `rocm[libraries]` without the libraries."""
    dist = tmp_path / "dist"
    write_wheel(dist, "rocm-sdk-core", "7.2.0")
    requires = ("rocm-sdk-core==7.2.0", 'rocm-sdk-libraries==7.2.0; extra == "libraries"')
    write_wheel(dist, "rocm", "7.2.0", *requires)
    publish = ("release", "publish", dist, "--to", tmp_path / "s", "--stream", "x")
    rocwheel.run("index", "check", dist, expect=1).says("has no index", f"`rocwheel index build {dist}`")
    index(rocwheel, dist)
    said = rocwheel.run("index", "check", dist, expect=1).stdout
    assert "requires `rocm-sdk-libraries` of its own version" in said and "rocm[libraries]==7.2.0" in said, said
    assert "To fix" not in said  # The pages say what is there.
    assert "rocm-sdk-libraries" in rocwheel.run(*publish, expect=1).stderr
    write_wheel(dist, "rocm-sdk-libraries", "7.2.0")
    index(rocwheel, dist)
    assert "0 errors" in rocwheel.run("index", "check", dist).stderr


def test_a_broken_index_in_a_folder_gets_its_command(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """It is typed as printed, for a missing file, an altered page of the same size, and a replaced
    file with the time of the old one."""
    dist = tmp_path / "my dist"
    write_wheel(dist, "foo", "1.0")
    kept = write_wheel(dist, "foo", "2.0")
    index(rocwheel, dist)
    assert "To fix" not in rocwheel.run("index", "check", dist, "--files").stdout

    def fixed() -> None:
        document = rocwheel.json("index", "check", dist, "--files", expect=1)
        said = rocwheel.run("index", "check", dist, "--files", expect=1).stdout.splitlines()[-1]
        assert said == f"To fix: {document['indexes'][0]['fix']}"
        path = f"{rocwheel.binary.parent}:/usr/bin:/bin"
        run("bash", "-c", said.removeprefix("To fix: "), environment={"PATH": path})
        assert "0 errors" in rocwheel.run("index", "check", dist, "--files").stderr

    (dist / "foo-1.0-py3-none-any.whl").unlink()
    fixed()
    page = dist / "simple/foo/index.html"
    digest = hashlib.sha256(kept.read_bytes()).hexdigest()
    page.write_text(page.read_text().replace(digest, digest[::-1]))
    fixed()
    before = kept.stat()
    with zipfile.ZipFile(kept) as archive:
        members = {one: archive.read(one) for one in archive.infolist()}
    with zipfile.ZipFile(kept, "w") as archive:
        for one, content in members.items():
            archive.writestr(one, content.replace(b"Generator: test", b"Generator: tesT"))
    os.utime(kept, ns=(before.st_atime_ns, before.st_mtime_ns))
    fixed()


def test_a_wheel_that_cannot_be_unpacked_is_an_error(rocwheel: Rocwheel, wheel: Path, tmp_path: Path) -> None:
    """Its hash is right: the page was made of the damaged file."""
    damaged = tmp_path / "dist" / wheel.name
    damaged.parent.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        member = next(one for one in archive.infolist() if one.filename.endswith(".py"))
    content = bytearray(wheel.read_bytes())
    content[member.header_offset + 30 + len(member.filename) + member.compress_size - 1] ^= 0xFF
    damaged.write_bytes(content)
    rocwheel.run("index", "build", damaged.parent)
    said = rocwheel.run("index", "check", damaged.parent, "--files", expect=1)
    assert f"cannot unpack member `{member.filename}`" in said.stdout
    assert "build or download the wheel again" in said.stdout and "To fix" not in said.stdout


@pytest.mark.parametrize(
    "words",
    [
        "index check {0}",
        "choose --gpu gfx942 --index {0}",
        "audit --install-check {0} foo-1.0-py3-none-any.whl",
        "audit --with {0} foo-1.0-py3-none-any.whl",
        "release get foo --index {0}",
        "doctor --index {0}",
        "kernels {0}",
    ],
)
def test_an_address_without_its_scheme_is_named(rocwheel: Rocwheel, tmp_path: Path, words: str) -> None:
    write_wheel(tmp_path, "foo", "1.0")
    code = 2 if words.startswith(("choose", "doctor", "release", "audit --install")) else 1
    said = rocwheel.run(*words.format("index.example.org:8080/simple").split(), expect=code, cwd=tmp_path)
    assert "hint: if it is an address, write it with `https://`: `https://index.example.org:8080/simple`" in said.stderr
