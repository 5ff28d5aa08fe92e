"""`release get` from servers that fail, pages and descriptions that are wrong, and places that are
not written: the whole wheel is downloaded, or the error says whose fault it is."""

import gzip
import re
import shutil
import threading
import time
from pathlib import Path

import pytest
from delta_stream import (
    MEGABYTE,
    NAME,
    NEW,
    OLD,
    Ranges,
    Stream,
    assert_whole,
    get,
    got,
    of_other_bytes,
    rewritten,
)
from serving import Answers, served

from command import Rocwheel, on_a_disk


def lying(_: dict, rows: list[bytearray]) -> None:
    """Two pieces that the old wheel has change places: the sizes agree, the wheel does not."""
    data = [row for row in rows if int.from_bytes(row[:4], "little") > 16_000]
    data[-2][:], data[-1][:] = bytes(data[-1]), bytes(data[-2])


def longer(head: dict, rows: list[bytearray]) -> None:
    rows.append(rows[0])
    head["size"] += int.from_bytes(rows[0][:4], "little")


def with_huge_pieces(head: dict, rows: list[bytearray]) -> None:
    rows += [bytearray(b"\xff" * 4 + b"z" * 16)] * 100_000
    head["size"] += 100_000 * (2**32 - 1)


def with_empty_pieces(_: dict, rows: list[bytearray]) -> None:
    rows[:0] = [bytearray(4) + b"q" * 16] * 1000


def of_a_later_version(head: dict, _: list[bytearray]) -> None:
    head["cut"] = "with a knife"


DAMAGES = {
    "missing": (None, "there is no `demo_core-1.1-py3-none-any.whl.delta`"),
    "empty": (lambda _: b"", "is cut off"),
    "cut": (lambda delta: delta[:-1], "is cut off: it has"),
    "damaged": (lambda delta: delta[:-1] + bytes([delta[-1] ^ 1]), "is damaged"),
    "html": (lambda _: b"<html>\nnot here", "is damaged"),
    "lying": (lambda delta: rewritten(delta, lying), "the pieces do not make it"),
    "longer": (lambda delta: rewritten(delta, longer), "is of other bytes than the wheel"),
    "other": (lambda delta: rewritten(delta, of_other_bytes), "is of other bytes than the wheel"),
    "later": (lambda delta: rewritten(delta, of_a_later_version), "made by another version of rocwheel"),
    "huge": (lambda delta: rewritten(delta, with_huge_pieces), "is damaged: it has a piece of 4294967295 bytes"),
    "nothing": (lambda delta: rewritten(delta, with_empty_pieces), "is damaged: it has a piece of 0 bytes"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bad_description_costs_a_whole_download(
    rocwheel: Rocwheel, stream: Stream, tmp_path: Path, damage: str
) -> None:
    change, reason = DAMAGES[damage]
    if change is None:
        stream.delta.unlink()
    else:
        stream.delta.write_bytes(change(stream.delta.read_bytes()))
    said = get(rocwheel, stream.folder, tmp_path / "out", NEW, "--have", stream.old, "--json")
    assert_whole(said, tmp_path / "out", stream, reason)


class Sizeless(Ranges):
    """A server whose pages say no sizes, as those of a plain PEP 503 index."""

    def do_HEAD(self) -> None:  # noqa: N802
        path = Path(self.translate_path(self.path))
        self.send_response(200 if path.is_file() else 404)
        self.send_header("Content-Length", str(path.stat().st_size if path.is_file() else 0))
        self.end_headers()


def without_sizes(stream: Stream) -> None:
    page = stream.folder / "demo-core/index.html"
    text = re.sub(r' data-size="\d+"', "", page.read_text())
    page.write_text(text)
    (stream.folder / "demo-core/index.v1_json").unlink()


LIES = {"more": longer, "twice": lambda head, rows: (rows.extend(rows * 3), head.update(size=head["size"] * 4))}


@pytest.mark.parametrize("lie", LIES)
def test_a_size_that_only_the_description_says_is_compared(
    rocwheel: Rocwheel, stream: Stream, tmp_path: Path, lie: str
) -> None:
    without_sizes(stream)
    handler = type("Counting", (Sizeless,), {"sent": []})
    with served(stream.folder, handler) as index:
        said = get(rocwheel, index, tmp_path / "good", NEW, "--have", stream.old, "--json")
        assert got(said)["method"] == "delta"
        stream.delta.write_bytes(rewritten(stream.delta.read_bytes(), LIES[lie]))
        said = get(rocwheel, index, tmp_path / "out", NEW, "--have", stream.old, "--json")
    assert_whole(said, tmp_path / "out", stream, "is of other bytes than the wheel")
    said = get(rocwheel, stream.folder, tmp_path / "folder", NEW, "--have", stream.old, "--json")
    assert_whole(said, tmp_path / "folder", stream, "is of other bytes than the wheel")


class Refusing(Ranges):
    """A server that sends files, and answers `fault` to requests for ranges: a status, fewer bytes,
    a connection that ends, or a status for all but the first one."""

    sent: list[tuple[str, int]]
    fault: int | str

    def do_GET(self) -> None:  # noqa: N802
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not asked or (self.fault == "later" and NEW not in dict(self.sent)):
            return super().do_GET()
        if isinstance(self.fault, int) or self.fault == "later":
            return self.send_error(503 if self.fault == "later" else self.fault)
        body = bytes(int(asked[2]) - int(asked[1]))
        self.send_response(206)
        self.send_header("Content-Length", str(len(body) + (self.fault == "cut")))
        self.end_headers()
        return self.wfile.write(body)


FAULTS = {
    **{status: f"the server answers {status}" for status in (400, 403, 501, 503)},
    416: "the server has fewer bytes of it",
    "short": "bytes arrived",
    "cut": "Peer disconnected",
    "later": "the server answers 503",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_for_a_range_that_fails_costs_a_whole_download(
    rocwheel: Rocwheel, described: Stream, tmp_path: Path, fault: int | str
) -> None:
    handler = type("Faulty", (Refusing,), {"sent": [], "fault": fault})
    with served(described.folder, handler) as index:
        said = get(rocwheel, index, tmp_path / "out", NEW, "--have", described.old, "--json")
    assert_whole(said, tmp_path / "out", described, f"a request for a range of it failed: .*{FAULTS[fault]}")


class Stalling(Ranges):
    """A server that sends half of each range, and then nothing more on that connection."""

    sent: list[tuple[str, int]]
    asked: list[str]
    is_over: threading.Event

    def do_GET(self) -> None:  # noqa: N802
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not asked:
            return super().do_GET()
        self.asked.append(asked[0])
        length = int(asked[2]) - int(asked[1]) + 1
        self.send_response(206)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(bytes(length // 2))
        self.is_over.wait()
        return None


@pytest.mark.long
def test_a_server_that_stalls_is_an_error_after_a_minute(rocwheel: Rocwheel, described: Stream, tmp_path: Path) -> None:
    handler = type("Stalled", (Stalling,), {"sent": [], "asked": [], "is_over": threading.Event()})
    start = time.monotonic()
    with served(described.folder, handler) as index:
        said = get(rocwheel, index, tmp_path / "out", NEW, "--have", described.old, expect=4)
        handler.is_over.set()
    assert 50 < time.monotonic() - start < 110 and len(handler.asked) == 1
    assert re.search(rf"cannot download `http://.*{NEW}`: the server stopped sending: ", said.stderr), said.stderr
    assert "hint: try again later; without `--have`" in said.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("wrong", "text"), [(-1, "and the server sends more"), (1, "has the sha256 of the page")])
def test_a_page_with_the_wrong_size_is_an_error(
    rocwheel: Rocwheel, stream: Stream, tmp_path: Path, wrong: int, text: str
) -> None:
    size = stream.served_wheel.stat().st_size
    page = stream.folder / "demo-core/index.v1_json"
    page.write_text(re.sub(rf'"size":\s*{size}\b', f'"size":{size + wrong}', page.read_text()))
    said = get(rocwheel, stream.folder, tmp_path / "out", NEW, expect=1)
    assert "the index is wrong: " in said.stderr and text in said.stderr
    assert "rocwheel index check" in said.stderr
    assert not list((tmp_path / "out").glob("*"))


class Wheelless(Answers):
    """A server whose wheels are another matter."""

    def do_GET(self) -> None:  # noqa: N802
        self.do_wheel() if self.path.endswith(".whl") else super().do_GET()

    def do_wheel(self) -> None:
        raise NotImplementedError


class Endless(Wheelless):
    sent = 0

    def do_wheel(self) -> None:
        self.send_response(200)
        self.end_headers()
        # Far more than the page says, and not for ever if nobody stops it.
        for _ in range(500):
            try:
                self.wfile.write(bytes(MEGABYTE))
            except OSError:
                return
            Endless.sent += MEGABYTE


class Packing(Wheelless):
    def do_wheel(self) -> None:
        packed = gzip.compress(Path(self.translate_path(self.path)).read_bytes())
        self.reply(packed, kind=None, Content_Encoding="gzip")


class Huge(Wheelless):
    def do_wheel(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 40))
        self.end_headers()


PACKED = (f"{NEW}`: the server packed it with gzip, and was not asked to", "without `Content-Encoding`")
SIZELESS = (f"{NEW}`: the index does not say its size, and the server sends more than 16 GiB",)


@pytest.mark.parametrize(
    ("server", "words"),
    [(Endless, ("the index is wrong: ",)), (Packing, PACKED), (Huge, SIZELESS)],
    ids=["endless", "packed", "huge"],
)
def test_what_servers_make_of_a_wheel_is_their_fault(
    rocwheel: Rocwheel, stream: Stream, tmp_path: Path, server: type[Wheelless], words: tuple[str, ...]
) -> None:
    if server is Huge:
        without_sizes(stream)
    with served(stream.folder, server) as index:
        get(rocwheel, index, tmp_path / "out", NEW, expect=1).says(*words)
    assert Endless.sent < 100 * MEGABYTE
    assert not list((tmp_path / "out").glob("*"))


def test_a_full_disk_is_no_fault_of_the_index(rocwheel: Rocwheel, described: Stream, tmp_path: Path) -> None:
    """With a description, the pieces do not fit; without, the whole wheel does not."""
    output = tmp_path / "small"
    for have in ((), ("--have", described.old)):
        words = ("release", "get", NEW, "--index", described.folder, "--output", output, *have)
        said = on_a_disk("1m", output, rocwheel.binary, *words)
        said.says(f"cannot write `{output / NEW}`", "No space left")
        assert "index check" not in said.stderr and "try again later" not in said.stderr


def test_half_written_wheels_and_broken_ones_do_not_count(
    rocwheel: Rocwheel, described: Stream, tmp_path: Path
) -> None:
    have = tmp_path / "have"
    (have / ".rocwheel-abc").mkdir(parents=True)
    (have / ".rocwheel-abc" / NAME.format("1.0.9")).write_bytes(b"half")
    for patch in range(6):
        (have / NAME.format(f"1.0.{patch}")).write_bytes(b"broken")
    said = get(rocwheel, described.folder, tmp_path / "none", NEW, "--have", have, "--json")
    assert_whole(said, tmp_path / "none", described, "none of the 6 other wheels of its project can be read")
    assert ".rocwheel-abc" not in said.stderr
    shutil.copy(described.old / OLD, have)
    wheel = got(get(rocwheel, described.folder, tmp_path / "out", NEW, "--have", have, "--json"))
    assert (wheel["method"], wheel["from"]) == ("delta", [str(have / OLD)])


def test_schemes_have_any_case(rocwheel: Rocwheel, described: Stream, tmp_path: Path) -> None:
    with served(described.folder) as index:
        address = index.replace("http://", "HTTP://joe:S3cretPw@")
        said = get(rocwheel, address, tmp_path / "out", NEW, "--json")
    assert got(said)["method"] == "whole" and "S3cretPw" not in said.stdout + said.stderr


def test_links_that_lead_nowhere_are_not_tried_again(rocwheel: Rocwheel, stream: Stream, tmp_path: Path) -> None:
    """A page in a folder that links to a server, and a server whose page links to a file."""
    page = stream.folder / "demo-core/index.html"
    (stream.folder / "demo-core/index.v1_json").unlink()
    before = page.read_text()

    def linked(address: str) -> None:
        page.write_text(re.sub(r'href="[^"]*\.whl', f'href="{address}/{NEW}', before))

    linked("http://joe:S3cretPw@localhost")
    said = get(rocwheel, stream.folder, tmp_path / "out", NEW, expect=1)
    assert f"`http://localhost/{NEW}` is no path of this machine" in said.stderr
    assert "S3cretPw" not in said.stderr and "try again later" not in said.stderr
    checked = rocwheel.run("index", "check", stream.folder, expect=1)
    assert "S3cretPw" not in checked.stdout + checked.stderr
    linked("file:///srv")
    with served(stream.folder) as index:
        said = get(rocwheel, index, tmp_path / "out", NEW, expect=1)
    assert f"`file:///srv/{NEW}` is not the address of a web server" in said.stderr
    assert "try again later" not in said.stderr
