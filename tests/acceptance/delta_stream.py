"""A stream with descriptions of its wheels, and servers of it, for the tests of `release get`."""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from serving import Answers
from small_wheels import core_metadata, pack

from command import Result, Rocwheel

MEGABYTE = 1 << 20
NOISE = random.Random(25)
CODE = NOISE.randbytes(3 * MEGABYTE)
# Another build of the same library: some bytes more near the end.
NEW_CODE = CODE[: 2 * MEGABYTE] + b"inserted" + CODE[2 * MEGABYTE :]
DATA = {f"core/data{number}.bin": NOISE.randbytes(60_000) for number in range(10)}
OTHER = NOISE.randbytes(MEGABYTE)
NAME = "demo_core-{}-py3-none-any.whl"
OLD, NEW = NAME.format("1.0"), NAME.format("1.1")


def write_wheel(folder: Path, version: str, members: dict[str, bytes], name: str = "demo_core") -> Path:
    """A wheel as other tools write it, with the date of its build at each member."""
    date = (2026, 11, 1 + sum(version.encode()) % 28, 1, 2, 4)
    metadata = core_metadata(name.replace("_", "-"), version)
    return pack(folder, name, version, members, metadata=metadata, packed=True, date=date)


@dataclass(frozen=True)
class Stream:
    """A stream with a new wheel, and the wheel of the night before, which it does not have."""

    folder: Path
    old: Path
    wheel: Path

    def copy(self, folder: Path) -> Stream:
        """A copy, to be broken."""
        copied = shutil.copytree(self.folder, folder / "stream")
        return Stream(copied, shutil.copytree(self.old, folder / "old"), self.wheel)

    @property
    def served_wheel(self) -> Path:
        return self.folder / "demo-core" / NEW

    @property
    def delta(self) -> Path:
        return self.folder / "demo-core" / f"{NEW}.delta"


def publish(rocwheel: Rocwheel, dist: Path, store: Path, *words: object) -> Result:
    where = ("--to", store, "--stream", "nightly", "--now", "2026-11-20T01:02:03Z")
    return rocwheel.run("release", "publish", dist, *where, *words)


def published_stream(rocwheel: Rocwheel, folder: Path) -> Stream:
    write_wheel(folder / "old", "1.0", {"core/lib.bin": CODE, **DATA, "core/gone.bin": OTHER})
    wheel = write_wheel(folder / "new", "1.1", {"core/lib.bin": NEW_CODE, "core/first.py": b"x = 1\n", **DATA})
    publish(rocwheel, folder / "new", folder / "store", "--delta").says("1 wheel described for `rocwheel release get`")
    return Stream(folder / "store/nightly", folder / "old", wheel)


def get(rocwheel: Rocwheel, index: object, output: Path, *words: object, **options) -> Result:
    return rocwheel.run("release", "get", *words, "--index", index, "--output", output, **options)


def got(said: Result) -> dict:
    (wheel,) = json.loads(said.stdout)["wheels"]
    return wheel


def assert_whole(said: Result, output: Path, stream: Stream, reason: str) -> None:
    wheel = got(said)
    assert wheel["method"] == "whole" and re.search(reason, wheel["reason"]), wheel
    assert "was downloaded as a whole: " in said.stderr
    assert (output / NEW).read_bytes() == stream.wheel.read_bytes()
    assert [path.name for path in output.iterdir()] == [NEW]


class Ranges(Answers):
    """A plain server with ranges, as nginx sends them, that counts what it sends of wheels."""

    sent: list[tuple[str, int]]

    def do_GET(self) -> None:  # noqa: N802
        path = Path(self.translate_path(self.path))
        if path.is_dir():
            path /= "index.html"
        if not path.is_file():
            return self.send_error(404)
        body, status = path.read_bytes(), 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked:
            status, body = 206, body[int(asked[1]) : int(asked[2]) + 1]
        self.sent.append((path.name, len(body)))
        return self.reply(body, status, self.guess_type(path))


Change = Callable[[dict, list[bytearray]], None]


def rewritten(delta: bytes, change: Change) -> bytes:
    """The description with another head or table, which it admits to."""
    line, _, table = delta.partition(b"\n")
    head, rows = json.loads(line), [bytearray(table[at : at + 20]) for at in range(0, len(table), 20)]
    change(head, rows)
    table = b"".join(rows)
    head |= {"table": hashlib.sha256(table).hexdigest(), "pieces": len(rows)}
    return json.dumps(head).encode() + b"\n" + table


def of_other_bytes(head: dict, _: list[bytearray]) -> None:
    head["sha256"] = "0" * 64
