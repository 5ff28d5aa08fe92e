"""`release publish --delta` and `release get`: only what older wheels do not have is downloaded. A
description that lies, a server without ranges or an old wheel that changed cost no more than
time."""

import hashlib
import json
import re
import shutil
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from delta_stream import (
    CODE,
    DATA,
    MEGABYTE,
    NAME,
    NEW,
    NEW_CODE,
    NOISE,
    OLD,
    Ranges,
    Stream,
    assert_whole,
    get,
    got,
    of_other_bytes,
    publish,
    rewritten,
    write_wheel,
)
from serving import Answers, served
from test_index import pip

from command import Rocwheel, run
from small_index import Servers
from trees import differences, snapshot


@pytest.fixture
def servers(rocwheel: Rocwheel, tmp_path: Path) -> Iterator[Servers]:
    with Servers(rocwheel, tmp_path) as running:
        yield running


def test_only_what_the_old_wheel_lacks_is_downloaded(rocwheel: Rocwheel, described: Stream, tmp_path: Path) -> None:
    handler = type("Counting", (Ranges,), {"sent": []})
    with served(described.folder, handler) as index:
        said = get(rocwheel, index, tmp_path / "out", "demo-core", "--have", described.old, "--json")
    wheel = got(said)
    assert (tmp_path / "out" / NEW).read_bytes() == described.wheel.read_bytes()
    assert wheel["method"] == "delta" and wheel["from"] == [str(described.old / OLD)]
    sent = sum(length for name, length in handler.sent if name.startswith(NEW))
    assert wheel["transferred"] == sent
    size = described.wheel.stat().st_size
    # The rest of the library has other bits: deflate goes on at another place in a byte.
    assert size > 4 * MEGABYTE - 500_000 and sent < size * 0.45, (sent, size)
    assert sent + wheel["reused"] >= size
    assert wheel["hash"] == f"sha256={hashlib.sha256(described.wheel.read_bytes()).hexdigest()}"
    # The data did not change, and only its headers have another date.
    (description,) = (length for name, length in handler.sent if name == f"{NEW}.delta")
    assert description < size / 500
    people = get(rocwheel, described.folder, tmp_path / "people", "demo-core==1.1", "--have", described.old)
    assert OLD in people.stdout and re.search(r"downloaded \(\d+\.\d %\), all hashes", people.stderr)


@pytest.mark.parametrize("kind", ["nginx", "caddy", "file"])
def test_servers_of_files_are_enough(
    rocwheel: Rocwheel, described: Stream, servers: Servers, tmp_path: Path, kind: str
) -> None:
    index = servers.start(kind, described.folder)
    wheel = got(get(rocwheel, index, tmp_path / "out", NEW, "--have", described.old, "--json"))
    assert wheel["method"] == "delta" and wheel["transferred"] < wheel["size"] / 2
    wanted = tmp_path / "wanted.txt"
    wanted.write_text(f"demo-core==1.1 --hash={wheel['hash'].replace('=', ':')}\n")
    target = tmp_path / "target"
    words = ("--no-index", "--find-links", tmp_path / "out", "--require-hashes", "--requirement", wanted)
    pip("install", "--quiet", *words, "--target", target)
    assert (target / "core/lib.bin").read_bytes() == NEW_CODE


def test_a_server_without_ranges_sends_the_whole(rocwheel: Rocwheel, described: Stream, tmp_path: Path) -> None:
    with served(described.folder) as index:
        said = get(rocwheel, index, tmp_path / "out", NEW, "--have", described.old, "--json")
    assert_whole(said, tmp_path / "out", described, "the server sends no ranges")
    wheel = got(said)
    assert wheel["size"] <= wheel["transferred"] < wheel["size"] + 20_000


def test_the_form_of_the_description_is_that_of_its_documentation(described: Stream) -> None:
    """Read as the documentation says, without a line of ours."""
    line, _, table = described.delta.read_bytes().partition(b"\n")
    head = json.loads(line)
    wheel = described.wheel.read_bytes()
    assert (head["schema"], head["size"]) == (1, len(wheel))
    assert head["sha256"] == hashlib.sha256(wheel).hexdigest()
    assert head["table"] == hashlib.sha256(table).hexdigest()
    assert len(table) == 20 * head["pieces"]
    start, ends = 0, []
    for row in range(0, len(table), 20):
        length = int.from_bytes(table[row : row + 4], "little")
        assert hashlib.sha256(wheel[start : start + length]).digest()[:16] == table[row + 4 : row + 20]
        start += length
        ends.append(start)
    assert start == len(wheel)
    with zipfile.ZipFile(described.wheel) as archive:
        members = [member for member in archive.infolist() if member.compress_size >= 4096]
        assert {member.header_offset for member in members[1:]} <= set(ends)


def test_old_wheels_that_changed_give_what_is_still_in_them(rocwheel: Rocwheel, stream: Stream, tmp_path: Path) -> None:
    whole = got(get(rocwheel, stream.folder, tmp_path / "good", NEW, "--have", stream.old, "--json"))
    old = stream.old / OLD
    content = bytearray(old.read_bytes())
    content[len(content) // 4] ^= 1
    old.write_bytes(content)
    wheel = got(get(rocwheel, stream.folder, tmp_path / "changed", NEW, "--have", stream.old, "--json"))
    assert wheel["method"] == "delta" and wheel["reused"] < whole["reused"]
    assert (tmp_path / "changed" / NEW).read_bytes() == stream.wheel.read_bytes()
    for number, damage in enumerate((bytes(content[:-100]), b"no archive", b"")):
        old.write_bytes(damage)
        output = tmp_path / str(number)
        said = get(rocwheel, stream.folder, output, NEW, "--have", stream.old, "--json")
        assert_whole(said, output, stream, "the only other wheel of its project cannot be read")
        assert f"nothing of `{old}` is used: " in said.stderr
    shutil.rmtree(stream.old)
    stream.old.mkdir()
    said = get(rocwheel, stream.folder, tmp_path / "none", NEW, "--have", stream.old, "--json")
    assert_whole(said, tmp_path / "none", stream, "there is no other wheel of its project")


def test_a_file_of_the_server_that_is_not_that_of_the_page_is_refused(
    rocwheel: Rocwheel, stream: Stream, tmp_path: Path
) -> None:
    content = bytearray(stream.served_wheel.read_bytes())
    # In the directory, which no other wheel has.
    content[-100] ^= 1
    stream.served_wheel.write_bytes(content)
    output = tmp_path / "out"
    output.mkdir()
    for have in (stream.old, tmp_path / "servers"):
        have.mkdir(exist_ok=True)
        said = get(rocwheel, stream.folder, output, NEW, "--have", have, expect=1)
        assert re.search(r"the sha256 of `file://.*` is [0-9a-f]{64}, and the page says", said.stderr)
        assert "hint: " in said.stderr and list(output.iterdir()) == []
    stream.served_wheel.write_bytes(content[:-5000])
    said = get(rocwheel, stream.folder, output, NEW, "--have", stream.old, expect=1)
    assert "hint: " in said.stderr and list(output.iterdir()) == []
    stream.served_wheel.unlink()
    said = get(rocwheel, stream.folder, output, NEW, "--have", stream.old, expect=1)
    assert "the server answers 404" in said.stderr and list(output.iterdir()) == []


def test_a_server_that_changes_meanwhile_is_noticed(rocwheel: Rocwheel, stream: Stream, tmp_path: Path) -> None:
    """A publisher that replaces the wheel, and the pages after it, while it is downloaded: the
    answers to ranges are of the new one."""
    right = stream.wheel.read_bytes()
    wrong = bytearray(right)
    wrong[-300_000:] = NOISE.randbytes(300_000)

    class Changing(Ranges):
        sent: list[tuple[str, int]] = []

        def do_GET(self) -> None:  # noqa: N802
            # In one step: another thread may be sending the file at this moment.
            new = tmp_path / f"new-{threading.get_ident()}"
            new.write_bytes(wrong if "Range" in self.headers else right)
            new.replace(stream.served_wheel)
            super().do_GET()

    with served(stream.folder, Changing) as index:
        said = get(rocwheel, index, tmp_path / "out", NEW, "--have", stream.old, "--json")
    assert_whole(said, tmp_path / "out", stream, "a file changed meanwhile")


def test_what_is_there_stays(rocwheel: Rocwheel, described: Stream, tmp_path: Path) -> None:
    output = tmp_path / "out"
    get(rocwheel, described.folder, output, NEW, "--have", described.old)
    before = (output / NEW).stat()
    again = got(get(rocwheel, described.folder, output, NEW, "--json"))
    assert (again["method"], again["transferred"]) == ("existing", 0)
    assert (output / NEW).stat().st_mtime_ns == before.st_mtime_ns
    (output / NEW).write_bytes(b"mine")
    said = get(rocwheel, described.folder, output, NEW, expect=1)
    assert f"`{output / NEW}` has other bytes than the index says" in said.stderr
    assert "move it away, or choose another folder with `--output`" in said.stderr
    assert (output / NEW).read_bytes() == b"mine"
    # A link is what it leads to.
    (output / NEW).unlink()
    (output / NEW).symlink_to(described.wheel)
    assert got(get(rocwheel, described.folder, output, NEW, "--json"))["method"] == "existing"
    (output / NEW).unlink()
    (output / NEW).symlink_to("nowhere")
    get(rocwheel, described.folder, output, NEW, expect=1).says(f"`{output / NEW}` is a link that leads nowhere")
    (output / NEW).unlink()
    (output / NEW).mkdir()
    get(rocwheel, described.folder, output, NEW, expect=1).says(f"`{output / NEW}` is a folder")
    (output / NEW).rmdir()
    (output / NEW).write_bytes(b"mine")
    # The output folder is searched too: an update in place.
    shutil.copy(described.old / OLD, output)
    (output / NEW).unlink()
    assert got(get(rocwheel, described.folder, output, "demo-core", "--json"))["method"] == "delta"


def test_several_wheels_help(rocwheel: Rocwheel, described: Stream, tmp_path: Path) -> None:
    have = tmp_path / "have"
    write_wheel(have / "a", "0.8", {"core/lib.bin": NEW_CODE})
    write_wheel(have / "b/c", "0.9", DATA)
    write_wheel(have, "3.0", {"core/lib.bin": NEW_CODE, **DATA}, name="demo_other")
    (have / "note.txt").write_text("no wheel")
    wheel = got(get(rocwheel, described.folder, tmp_path / "out", NEW, "--have", have, "--json"))
    names = sorted(Path(path).name for path in wheel["from"])
    assert names == [NAME.format("0.8"), NAME.format("0.9")]
    assert wheel["transferred"] < 60_000, "headers, texts, the directory, the description"
    assert (tmp_path / "out" / NEW).read_bytes() == described.wheel.read_bytes()


class Cached(Answers):
    """A server that lets clients keep what it sends."""

    def end_headers(self) -> None:
        self.send_header("ETag", '"1"')
        self.send_header("Cache-Control", "max-age=3600")
        super().end_headers()


def test_the_cache_of_pip_helps(rocwheel: Rocwheel, described: Stream, tmp_path: Path) -> None:
    """pip keeps what it downloaded under names that say nothing, pages and wheels alike."""
    project = tmp_path / "site/demo-core"
    project.mkdir(parents=True)
    shutil.copy(described.old / OLD, project)
    (project / "index.html").write_text(f'<a href="{OLD}">{OLD}</a>')
    cache = tmp_path / "cache"
    with served(tmp_path / "site", Cached) as index:
        command = (sys.executable, "-m", "pip", "--cache-dir", cache, "download", "--no-deps", "demo-core")
        run(*command, "--dest", tmp_path / "downloaded", "--index-url", index, "--trusted-host", "127.0.0.1")
    (body,) = [path for path in cache.rglob("*.body") if path.read_bytes() == (described.old / OLD).read_bytes()]
    wheel = got(get(rocwheel, described.folder, tmp_path / "out", NEW, "--have", cache, "--json"))
    assert (wheel["method"], wheel["from"]) == ("delta", [str(body)])


def test_indexes_and_streams_know_the_description(rocwheel: Rocwheel, stream: Stream, tmp_path: Path) -> None:
    rocwheel.run("release", "verify", stream.folder)
    rocwheel.run("index", "check", stream.folder, "--files").says("0 errors, 0 warnings")
    # The pages are those of a stream without it.
    without = publish(rocwheel, stream.wheel.parent, tmp_path / "without")
    assert "described" not in without.stderr
    deltas = {path for path in snapshot(stream.folder) if path.endswith(".delta")}
    assert deltas == {f"demo-core/{NEW}.delta"}
    assert set(differences(snapshot(tmp_path / "without/nightly"), snapshot(stream.folder))) and len(deltas) == 1
    page = "demo-core/index.v1_json"
    assert (tmp_path / "without/nightly" / page).read_bytes() == (stream.folder / page).read_bytes()
    # It may come later, and then changes no page.
    later = json.loads(publish(rocwheel, stream.wheel.parent, tmp_path / "without", "--delta", "--json").stdout)
    assert later["deltas"] == [f"demo-core/{NEW}.delta"] and later["pages"] == []
    assert differences(snapshot(tmp_path / "without/nightly"), snapshot(stream.folder)) == []

    stream.delta.write_bytes(rewritten(stream.delta.read_bytes(), of_other_bytes))
    verified = rocwheel.run("release", "verify", stream.folder, expect=1)
    assert f"`demo-core/{NEW}.delta` is of other bytes than the wheel" in verified.stdout + verified.stderr
    checked = rocwheel.run("index", "check", stream.folder)
    assert "is of other bytes than the wheel: `rocwheel release get` downloads the whole wheel" in checked.stdout

    # An index over a folder does not list it, and gets wheels from others.
    flat = tmp_path / "flat"
    flat.mkdir()
    shutil.copy(stream.wheel, flat)
    (flat / f"{NEW}.delta").write_bytes((tmp_path / "without/nightly/demo-core" / f"{NEW}.delta").read_bytes())
    built = rocwheel.run("index", "build", flat)
    assert "delta" not in built.stderr + (flat / "simple/demo-core/index.html").read_text()
    assert got(get(rocwheel, flat, tmp_path / "out", "demo-core", "--have", stream.old, "--json"))["method"] == "delta"


def test_pruning_takes_the_description_along(rocwheel: Rocwheel, described: Stream, tmp_path: Path) -> None:
    store = Path(shutil.copytree(described.folder.parent, tmp_path / "store"))
    (store / "nightly/.release/stream.toml").write_text("[retention]\nversions = 1\ngrace-days = 1\n")
    write_wheel(tmp_path / "newer", "1.2", {"core/lib.bin": CODE})
    publish(rocwheel, tmp_path / "newer", store, "--delta")
    files = {path.name for path in (store / "nightly/demo-core").iterdir()}
    assert {NEW, f"{NEW}.delta", NAME.format("1.2"), f"{NAME.format('1.2')}.delta"} <= files
    for day in (21, 25):
        words = ("--store", store, "--stream", "nightly", "--now", f"2026-11-{day}T01:02:03Z")
        rocwheel.run("release", "prune", *words)
    files = {path.name for path in (store / "nightly/demo-core").iterdir()}
    assert {path for path in files if NEW in path} == set()
    assert f"{NAME.format('1.2')}.delta" in files


def test_what_cannot_be_chosen_is_explained(rocwheel: Rocwheel, described: Stream, tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    for tag in ("cp311-cp311-linux_x86_64", "cp312-cp312-linux_x86_64", "cp312-cp312-win_amd64"):
        made = write_wheel(dist, "2.0", {"a.py": b""}, name="many")
        made.rename(dist / f"many-2.0-{tag}.whl")
    write_wheel(dist, "2.1rc1", {"a.py": b""}, name="many")
    rocwheel.run("index", "build", dist)
    output = tmp_path / "out"

    def refused(name: str, *texts: str, words: tuple[str, ...] = (), code: int = 1) -> None:
        said = get(rocwheel, dist, output, name, *words, expect=code)
        assert all(text in said.stderr for text in texts), said.stderr
        assert not output.exists()

    refused("many", "version 2.0 has 2 wheels: `many-2.0-cp311-cp311-linux_x86_64.whl`", "choose one with `--python`")
    refused("nothing", "does not have the project", "name the index with `--index`")
    refused("many==3", "none of the 4 wheels of the project meets it")
    refused("many==2.0", "none of the 4 wheels", words=("--python", "3.10"))
    refused("many-2.0-cp313-cp313-linux_x86_64.whl", "does not list it", "did you mean `many-2.0-cp31")
    refused("many==", "it is no requirement", code=2)
    wheel = got(get(rocwheel, dist, output, "many", "--python", "3.12", "--platform", "windows", "--json"))
    assert Path(wheel["path"]).name == "many-2.0-cp312-cp312-win_amd64.whl"
    assert Path(got(get(rocwheel, dist, output, "many>=2.1rc1", "--json"))["path"]).name.startswith("many-2.1rc1")
    get(rocwheel, tmp_path / "old", output, "many", expect=2).says("has no index", "rocwheel index build")
    missing = get(rocwheel, described.folder, output, NEW, "--have", tmp_path / "missing", expect=1)
    assert str(tmp_path / "missing") in missing.stderr


def test_a_missing_folder_is_found_before_the_download(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Without a description of the wheel, nobody would look into it."""
    dist, output, missing = tmp_path / "dist", tmp_path / "out", tmp_path / "missing"
    write_wheel(dist, "2.0", {"a.py": b""}, name="plain")
    rocwheel.run("index", "build", dist)
    said = get(rocwheel, dist, output, "plain", "--have", missing, expect=1)
    assert str(missing) in said.stderr and not output.exists()


def test_withdrawn_versions_are_named(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist, output = tmp_path / "dist", tmp_path / "out"
    for version in ("1.0", "2.0"):
        write_wheel(dist, version, {"a.py": b""}, name="bad")
    row = "[[yanked]]\nproject = 'bad'\nversion = '{}'\nreason = '{}'\n"
    (dist / "index-status.toml").write_text(row.format("1.0", "old") + row.format("2.0", "loses data"))
    rocwheel.run("index", "build", dist)
    said = get(rocwheel, dist, output, "bad", expect=1)
    assert "every version that meets it is withdrawn; version 2.0 (loses data) is the newest" in said.stderr
    assert "`bad==2.0` gets it all the same" in said.stderr and "--python" not in said.stderr
    wheel = got(get(rocwheel, dist, output, "bad==2.0", "--json"))
    assert Path(wheel["path"]).name.startswith("bad-2.0-")


def test_all_names_are_chosen_before_the_first_download(rocwheel: Rocwheel, described: Stream, tmp_path: Path) -> None:
    output = tmp_path / "out"
    for refused in ("demo-core[nonsense]", "absent"):
        said = get(rocwheel, described.folder, output, NEW, refused, expect=2 if "[" in refused else 1)
        assert refused in said.stderr and not output.exists(), said.stderr
    said = get(rocwheel, described.folder, output, NEW, NEW, "--json")
    assert [wheel["method"] for wheel in json.loads(said.stdout)["wheels"]] == ["whole", "existing"]
