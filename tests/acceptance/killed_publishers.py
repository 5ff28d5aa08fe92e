"""Publishers that are killed, and readers that look on: what every state of a stream has to be."""

import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from buckets import Bucket, KillingBucket
from test_index import Links, assert_every_link_is_true, pip, uv

from command import Rocwheel
from small_index import write_wheel

TARGETS = tuple(f"gfx{number}" for number in (906, 908, 942, 950, 1030, 1100, 1101, 1151, 1200, 1201))
EXTRAS = ",".join(f"device-{target}" for target in TARGETS)
# The modules of the wheels say their version.
TEXTS = ("--also-in", "*.py")
NOW = "2026-11-20T01:02:03Z"


def write_set(folder: Path, version: str, targets: tuple[str, ...] = TARGETS) -> Path:
    """ROCm in small with an extra for each GPU, and the torch on it: all that people ask for."""

    def requires(text: str) -> str:
        return f"Requires-Dist: {text}"

    write_wheel(folder, "rocm_sdk_core", version, "Requires-Python: >=3.8")
    lines = [requires(f"rocm-sdk-core=={version}")]
    for target in targets:
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


def downloaded(bucket: Bucket, stream: str, folder: Path) -> dict[str, bool]:
    """What a reader finds at this moment: the first page, the pages that it names, and then all
    files that these name, which have their hashes. The answer is `True` for withdrawn files."""
    shutil.rmtree(folder, ignore_errors=True)
    withdrawn = {}

    def fetch(key: str) -> Path:
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket.ask("GET", f"/whl/{stream}/{quote(key)}")[0])
        return path

    for project in [link["href"] for link in Links(fetch("index.html")).links]:
        for link in Links(fetch(f"{project}index.html")).links:
            name = unquote(link["href"].partition("#")[0])
            fetch(f"{project}{name}")
            fetch(f"{project}{name}.metadata")
        for row in json.loads(fetch(f"{project}index.v1_json").read_text())["files"]:
            name, beside = row["filename"], f"{row['filename']}.metadata"
            for key, digest in ((name, row["hashes"]["sha256"]), (beside, row["core-metadata"]["sha256"])):
                assert hashlib.sha256(fetch(f"{project}{key}").read_bytes()).hexdigest() == digest, key
            withdrawn[name] = bool(row["yanked"])
    assert_every_link_is_true(folder)
    for path in folder.rglob("*.metadata"):
        if not withdrawn.get(path.stem, True):
            for name, version in re.findall(r"^Requires-Dist: (\S+)==(\S+)$", path.read_text(), re.MULTILINE):
                needed = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
                assert not withdrawn.get(needed, True), f"{path.stem} is offered, and {needed} is not"
    return withdrawn


@dataclass(frozen=True)
class Step:
    """A command that changes a stream, and the files that its pages name afterwards."""

    name: str
    stream: str
    words: tuple[object, ...]
    after: set[str]


class KilledCommands:
    """Releases are published to a bucket and promoted, the one before is withdrawn, and old files
    are pruned. Each command is killed twice before it is finished."""

    def __init__(self, rocwheel: Rocwheel, bucket: Bucket, proxy: KillingBucket, scratch: Path) -> None:
        self.rocwheel, self.bucket, self.proxy, self.scratch = rocwheel, bucket, proxy, scratch
        self.environment = {**os.environ, **bucket.environment, "AWS_ENDPOINT_URL": proxy.address}
        self.seen: dict[str, dict[str, bool]] = {"staging": {}, "release": {}}
        self.chosen = random.Random(20261129)
        # Of each command, when nobody kills it: the last change before the end of each request.
        self.phases: dict[str, list[str]] = {}
        self.points: dict[str, Iterator[int]] = {}
        # How often a run was killed in a phase.
        self.kills: Counter[tuple[str, str]] = Counter()
        self.cut = 0
        for stream in self.seen:
            rules = b"[retention]\nversions = 1\ngrace-days = 0\nsnapshots = 3\n"
            bucket.ask("PUT", f"/whl/{stream}/.release/stream.toml", rules)

    def steps(self, number: int) -> Iterator[Step]:
        version, store = f"7.0.{number}", "s3://wheels/whl"
        candidate, before = f"{version}rc1", f"7.0.{number - 1}"

        def files(version: str) -> set[str]:
            names = (f"rocm_sdk_core-{version}", f"rocm-{version}", f"torch-2.14.{number}+rocm{version}")
            return {f"{name}-py3-none-any.whl" for name in names}

        dist, named = write_set(self.scratch / candidate, candidate, ()), ("--set", f"rocm-{candidate}")
        staged, released = ({*self.seen[stream]} for stream in ("staging", "release"))
        yield Step("publish", "staging", (*publish_words(dist, store, "staging"), *named), staged | files(candidate))
        released |= files(version)
        yield Step("promote", "release", (*promote_words(store, version), *named), released)
        there = ("--store", store, "--stream", "release", "--now", NOW)
        if number > 1:
            words = ("release", "yank", f"rocm-sdk-core=={before}", "--reason", "bad", *there)
            yield Step("yank", "release", words, released)
        stream, left = ("staging", files(candidate)) if number % 2 else ("release", files(version))
        words = ("release", "prune", "--orphans", *there[:3], stream, *there[4:])
        yield Step(f"prune {stream}", stream, words, left)

    def run(self, step: Step, last: int | None = None, is_cut: bool = False) -> None:
        """Runs a command, which is killed at its request number `last`. `is_cut`: that arrives in
        half."""

        def start() -> subprocess.Popen[str]:
            return self.rocwheel.start(*step.words, env=self.environment, start_new_session=True)

        self.proxy.start(start, last, is_cut)
        said = self.proxy.process.communicate(timeout=300)[1]
        with self.proxy.alone:
            killed, phases = self.proxy.is_killed, self.proxy.phases
        assert self.proxy.process.returncode == (-signal.SIGKILL if killed else 0), f"{step}\n{said}"
        assert killed or last is None or len(phases) < last
        before, now = self.seen[step.stream], downloaded(self.bucket, step.stream, self.scratch / "seen")
        if killed:
            self.kills[step.name, phases[-1] if phases else "nothing written"] += 1
            self.cut += len(phases) < last
            assert {*before} & step.after <= {*now} <= {*before} | step.after, f"{step}: {now}"
        elif last is None:
            assert {*now} == step.after, f"{step}: {now}"
            self.seen[step.stream] = now
            if not self.kills:
                self.phases[step.name] = phases
                # The first request of every phase, then the second ones.
                requests = sorted(range(len(phases)), key=lambda at: phases[:at].count(phases[at]))
                self.points[step.name] = itertools.cycle(at + 1 for at in requests)

    def kill(self, count: int) -> None:
        for number in itertools.count(1):
            for step in self.steps(number):
                # Later ones do the same, each time.
                if number > 4:
                    self.run(step, next(self.points[step.name]))
                    # What the next run finishes, it does not always finish either.
                    self.run(step, self.chosen.randint(1, len(self.phases[step.name])), self.chosen.random() < 0.5)
                self.run(step)
            if self.kills.total() >= count and not self.missed():
                return
            assert number < 200, self.missed()

    def missed(self) -> set[tuple[str, str]]:
        """The phases in which no run was killed."""
        return {(name, phase) for name, phases in self.phases.items() for phase in phases} - {*self.kills}


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
