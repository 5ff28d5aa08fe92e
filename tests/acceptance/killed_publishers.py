"""Publishers that are killed, and readers that look on: what every state of a stream has to be."""

import random
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from test_index import assert_every_link_is_true, pip, uv

from command import Rocwheel
from small_index import write_wheel

TARGETS = tuple(f"gfx{number}" for number in (906, 908, 942, 950, 1030, 1100, 1101, 1151, 1200, 1201))
EXTRAS = ",".join(f"device-{target}" for target in TARGETS)
# The modules of the wheels say their version.
TEXTS = ("--also-in", "*.py")
NOW = "2026-11-20T01:02:03Z"


def write_set(folder: Path, version: str) -> Path:
    """ROCm in small with an extra for each GPU, and the torch on it: all that people ask for."""

    def requires(text: str) -> str:
        return f"Requires-Dist: {text}"

    write_wheel(folder, "rocm_sdk_core", version, "Requires-Python: >=3.8")
    lines = [requires(f"rocm-sdk-core=={version}")]
    for target in TARGETS:
        write_wheel(folder, f"rocm_sdk_device_{target}", version, requires(f"rocm-sdk-core=={version}"))
        pinned = f"rocm-sdk-device-{target}=={version}; extra == 'device-{target}'"
        lines += [f"Provides-Extra: device-{target}", requires(pinned)]
    write_wheel(folder, "rocm", version, *lines)
    # `+rocm7.0.10rc1` sorts before `+rocm7.0.1rc1`, so torch gets a number of its own.
    number = re.findall(r"\d+", version)[2]
    write_wheel(folder, "torch", f"2.14.{number}+rocm{version}", requires(f"rocm=={version}"))
    return folder


def publish_words(dist: Path, store: object, stream: str) -> tuple[object, ...]:
    return ("release", "publish", dist, "--to", store, "--stream", stream, "--now", NOW)


def promote_words(store: object, version: str) -> tuple[object, ...]:
    words = ("--store", store, "--from", "staging", "--to", "release", "--version", version, *TEXTS, "--now", NOW)
    return ("release", "promote", *words)


def resolve_with_uv(index: str, scratch: Path) -> set[str]:
    """The versions of ROCm that uv would install with torch and every extra; one if all is well."""
    wanted, out = scratch / "wanted.in", scratch / "lock.txt"
    wanted.write_text(f"torch\nrocm[{EXTRAS}]\n")
    out.unlink(missing_ok=True)
    uv("pip", "compile", "--quiet", "--generate-hashes", "--index-url", index, "--output-file", out, wanted)
    pinned = [line.split(" ")[0] for line in out.read_text().splitlines() if "==" in line]
    assert len(pinned) == len(TARGETS) + 3, pinned
    return {line.split("==")[1].split("rocm")[-1] for line in pinned}


def resolve_with_pip(index: str, scratch: Path) -> str:
    said = pip("install", "--dry-run", "--index-url", index, "--target", scratch / "none", f"rocm[{EXTRAS}]", "torch")
    [line] = [line for line in said.stdout.splitlines() if line.startswith("Would install")]
    versions = {word.rsplit("-", 1)[1].split("rocm")[-1] for word in line.split()[2:]}
    assert len(versions) == 1, line
    return versions.pop()


def assert_whole(stream: Path, scratch: Path) -> str:
    """The newest version of every entry point can be installed, and every listed file has its hash.
    The answer is that version."""
    assert_every_link_is_true(stream)
    index = f"{stream.as_uri()}/"
    [found] = resolve_with_uv(index, scratch)
    assert resolve_with_pip(index, scratch) == found
    return found


def timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def kill_one(rocwheel: Rocwheel, words: tuple[object, ...], after: float) -> bool:
    process = rocwheel.start(*words)
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def kill_publishers(rocwheel: Rocwheel, scratch: Path, points: int) -> None:
    """Kills `points` publications at random moments of their work."""
    store, stream = scratch / "store", scratch / "store/nightly"
    rocwheel.run(*publish_words(write_set(scratch / "0", "7.0.0"), store, "nightly"))
    shutil.copytree(store, scratch / "timed")
    takes = timed(lambda: rocwheel.run(*publish_words(write_set(scratch / "1", "7.0.1"), scratch / "timed", "nightly")))
    chosen, killed = random.Random(points), 0
    for number in range(1, points + 1):
        dist = write_set(scratch / f"7.0.{number}", f"7.0.{number}")
        killed += kill_one(rocwheel, publish_words(dist, store, "nightly"), chosen.uniform(0, takes))
        assert_whole(stream, scratch)
    assert killed > 0
    rocwheel.run(*publish_words(write_set(scratch / "last", "7.0.999"), store, "nightly"))
    assert assert_whole(stream, scratch) == "7.0.999"
    rocwheel.run("release", "verify", stream)


def kill_promotions(rocwheel: Rocwheel, scratch: Path, points: int) -> None:
    """The same with promotions: neither stream is ever broken, and the next one sweeps up."""
    store = scratch / "store"
    staging, release = store / "staging", store / "release"

    def stage(version: str) -> None:
        dist = write_set(scratch / f"{version}rc1", f"{version}rc1")
        rocwheel.run(*publish_words(dist, store, "staging"), "--set", f"rocm-{version}rc1")

    def words(version: str, where: Path = store) -> tuple[object, ...]:
        return (*promote_words(where, version), "--set", f"rocm-{version}rc1")

    for version in ("7.0.0", "7.0.1"):
        stage(version)
    rocwheel.run(*words("7.0.0"))
    shutil.copytree(store, scratch / "timed")
    takes = timed(lambda: rocwheel.run(*words("7.0.1", scratch / "timed")))
    chosen, killed = random.Random(points), 0
    for number in range(1, points + 1):
        version = f"7.0.{number}"
        if number > 1:
            stage(version)
        killed += kill_one(rocwheel, words(version), chosen.uniform(0, takes))
        assert_whole(release, scratch)
        assert_every_link_is_true(staging)
    assert killed > 0
    # The one that was killed last is repeated.
    rocwheel.run(*words(f"7.0.{points}"))
    assert assert_whole(release, scratch) == f"7.0.{points}"
    assert_whole(staging, scratch)
    rocwheel.run("release", "verify", release)
    rocwheel.run("release", "verify", staging)
    assert sorted(path.name for path in store.iterdir()) == ["release", "staging"], "staging folders are swept"


class Reader(threading.Thread):
    """Resolves without pause until it is stopped. Everything that fails is remembered."""

    def __init__(self, resolve: Callable[[str, Path], object], index: str, scratch: Path) -> None:
        super().__init__()
        self.resolve, self.index, self.scratch = resolve, index, scratch
        self.stopped = threading.Event()
        self.count, self.failures = 0, []
        scratch.mkdir(parents=True)

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                self.resolve(self.index, self.scratch)
                self.count += 1
            except (AssertionError, ValueError, subprocess.SubprocessError) as failure:
                self.failures.append(failure)
                return

    def stop(self) -> None:
        self.stopped.set()
        self.join()
        assert self.failures == [] and self.count > 0, self.failures


def publish_while_people_read(rocwheel: Rocwheel, scratch: Path, index_of: Callable[[Path], str], count: int) -> None:
    """`count` publications, a withdrawal and a rollback, while pip and uv resolve."""
    store, stream = scratch / "store", scratch / "store/nightly"
    rocwheel.run(*publish_words(write_set(scratch / "0", "7.0.0"), store, "nightly"))
    index = index_of(stream)
    readers = [
        Reader(resolve_with_uv, index, scratch / "uv"),
        Reader(resolve_with_pip, index, scratch / "pip"),
        Reader(resolve_with_uv, f"{stream.as_uri()}/", scratch / "uv-file"),
    ]
    for reader in readers:
        reader.start()
    try:
        for number in range(1, count + 1):
            dist = write_set(scratch / f"7.0.{number}", f"7.0.{number}")
            rocwheel.run(*publish_words(dist, store, "nightly"))
        there = ("--store", store, "--stream", "nightly")
        rocwheel.run("release", "rollback", "--to", count, *there)
        rocwheel.run("release", "rollback", "--to", count + 1, *there)
    finally:
        for reader in readers:
            reader.stopped.set()
    for reader in readers:
        reader.stop()
