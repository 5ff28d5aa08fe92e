"""What an earlier run packed is not compressed again, from a folder, an index or a bucket; whatever
happens to it, the wheels have the bytes of a run from nothing."""

import hashlib
import json
import shutil
import socket
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from buckets import Bucket
from delta_stream import Ranges
from envelopes import payload, sealed
from serving import Answers, served

import hip_wheels
import synthetic
from command import Rocwheel, on_a_disk, run
from linked_wheels import INIT, check_record, extension, library
from linked_wheels import write_wheel as linked_wheel
from trees import snapshot

CHUNK = 4 << 20
# What the second night reuses: the first of two chunks of the kernels, and small texts of that
# wheel, which others of the same run have too. Other wheels are too small for a record.
TEXTS = 4000
REUSED = range(CHUNK, CHUNK + TEXTS)
KERNELS = "math-libs/BLAS/rocBLAS/stage/lib/rocblas/library/TensileLibrary_gfx942.dat"


def code(length: int, seed: int) -> bytes:
    """Bytes that compress to about half."""
    state, words = seed, []
    for _ in range(length // 256):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append(state.to_bytes(8, "little") * 2 + bytes(16))
    return (b"".join(words) * 8)[:length]


@dataclass(frozen=True)
class Nights:
    """The wheels of a first night and the cache with their records; the artifacts of a second one,
    in which every file is new, and the last chunk of the kernels differs; its wheels from
    nothing."""

    first: Path
    cache: Path
    second: Path
    expected: dict[str, tuple]

    def package(self, rocwheel: Rocwheel, output: Path, *arguments: object, **environment: str) -> dict:
        """Packages the second night, and checks its wheels."""
        words = ("--version", "7.1.1", "--json", *arguments)
        caches = {"ROCWHEEL_CACHE": str(self.cache), **environment}
        ran = rocwheel.package(self.second, output, *words, environment=caches)
        assert snapshot(output / "dist") == self.expected
        return {**json.loads(ran.stdout), "stderr": ran.stderr}


@pytest.fixture(scope="module")
def made(rocwheel: Rocwheel, compiled: synthetic.Compiled, tmp_path_factory: pytest.TempPathFactory) -> Nights:
    folder = tmp_path_factory.mktemp("nights")
    first = synthetic.write_artifacts(folder / "first", compiled)
    kernels = code(CHUNK + 40_000, 7)
    (first / "blas_lib_gfx942" / KERNELS).write_bytes(kernels)
    cache = folder / "cache"
    rocwheel.package(first, folder / "old", environment={"ROCWHEEL_CACHE": str(cache)})
    second = Path(shutil.copytree(first, folder / "second", symlinks=True))
    (second / "blas_lib_gfx942" / KERNELS).write_bytes(kernels[:-9] + b"different")
    rocwheel.package(second, folder / "nothing", "--version", "7.1.1", "--no-reuse")
    return Nights(folder / "old", cache, second, snapshot(folder / "nothing/dist"))


@pytest.fixture
def nights(made: Nights, tmp_path: Path) -> Nights:
    """A copy, for a test to change."""
    first, cache = (shutil.copytree(path, tmp_path / path.name, symlinks=True) for path in (made.first, made.cache))
    return replace(made, first=Path(first), cache=Path(cache))


def test_a_night_packs_what_changed(rocwheel: Rocwheel, nights: Nights, tmp_path: Path) -> None:
    said = nights.package(rocwheel, tmp_path / "new", "--reuse", nights.first)
    assert said["reused"] in REUSED
    for wheel in (tmp_path / "new/dist").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            assert archive.testzip() is None
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target")
    (device,) = (tmp_path / "new/dist").glob("rocm_sdk_device_gfx942-*.whl")
    run(*pip, tmp_path / "installed", device)
    (installed,) = (tmp_path / "installed").rglob("TensileLibrary_gfx942.dat")
    assert installed.read_bytes() == (nights.second / "blas_lib_gfx942" / KERNELS).read_bytes()


def test_the_output_folder_is_always_searched(rocwheel: Rocwheel, nights: Nights) -> None:
    said = nights.package(rocwheel, nights.first, "--replace")
    assert said["reused"] in REUSED
    again = rocwheel.package(
        nights.second, nights.first, "--version", "7.1.1", "--json", environment={"ROCWHEEL_CACHE": str(nights.cache)}
    )
    assert json.loads(again.stdout)["reused"] == 0, "nothing is written"


def test_wheels_of_others_are_not_used(rocwheel: Rocwheel, nights: Nights, tmp_path: Path) -> None:
    # Another machine's cache has no record of them.
    said = nights.package(rocwheel, tmp_path / "a", "--reuse", nights.first, ROCWHEEL_CACHE=str(tmp_path / "other"))
    assert said["reused"] < TEXTS
    # Python packs the same members again, with the same level by its own words.
    (device,) = (nights.first / "dist").glob("rocm_sdk_device_gfx942-*.whl")
    with zipfile.ZipFile(device) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(device, "w", zipfile.ZIP_DEFLATED, compresslevel=5) as archive:
        for info, content in members:
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    assert nights.package(rocwheel, tmp_path / "b", "--reuse", nights.first)["reused"] < TEXTS
    # And a file that is no wheel at all.
    device.write_bytes(b"not a wheel")
    assert nights.package(rocwheel, tmp_path / "c", "--reuse", nights.first)["reused"] < TEXTS


def test_a_folder_that_is_not_there_is_an_error(rocwheel: Rocwheel, nights: Nights, tmp_path: Path) -> None:
    words = ("--reuse", tmp_path / "absent")
    ran = rocwheel.package(nights.second, tmp_path / "new", *words, expect=1)
    assert f"cannot search `{tmp_path}/absent` for wheels" in ran.stderr
    assert not (tmp_path / "new").exists()


def test_a_full_cache_is_a_warning(rocwheel: Rocwheel, nights: Nights, tmp_path: Path) -> None:
    cache = tmp_path / "full"
    words = ("package", "--artifacts", nights.second, "--output", tmp_path / "new", "--version", "7.1.1")
    full = {"filled": "4096", "expect": 0, "environment": {"ROCWHEEL_CACHE": str(cache)}}
    ran = on_a_disk("4k", cache, rocwheel.binary, *words, **full)
    assert snapshot(tmp_path / "new/dist") == nights.expected
    ran.says(f"cannot record in `{cache}/packed` how wheels are packed")


def test_runs_share_a_cache(rocwheel: Rocwheel, nights: Nights, tmp_path: Path) -> None:
    outputs = [tmp_path / f"run{number}" for number in range(3)]
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda output: nights.package(rocwheel, output, "--reuse", nights.first), outputs))


@dataclass
class Site:
    """A static server with ranges. It can be told to send other bytes after some answers."""

    root: Path
    address: str = ""
    sent: int = 0
    ranges: list[str] = field(default_factory=list)
    spoil_after: int = 1 << 30
    # The status of further answers to ranges, instead of other bytes.
    spoil_status: int | None = None
    # Answers to requests for pages by their path.
    statuses: dict[str, int] = field(default_factory=dict)
    asked: int = 0


@pytest.fixture
def site(rocwheel: Rocwheel, nights: Nights) -> Iterator[Site]:
    rocwheel.run("index", "build", nights.first / "dist")
    site = Site(nights.first / "dist")

    class Handler(Answers):
        def do_GET(self) -> None:
            path = site.root / unquote(self.path).lstrip("/")
            if self.path in site.statuses:
                self.send_error(site.statuses[self.path])
                return
            path = path / "index.html" if path.is_dir() else path
            if not path.is_file():
                self.send_error(404)
                return
            content, status = path.read_bytes(), 200
            asked = self.headers.get("Range")
            if asked:
                begin, end = map(int, asked.removeprefix("bytes=").split("-"))
                content, status = content[begin : end + 1], 206
                site.asked += 1
                if len(site.ranges) >= site.spoil_after:
                    if site.spoil_status:
                        self.send_error(site.spoil_status)
                        return
                    content = bytes(len(content))
                site.ranges.append(path.name)
            if path.suffix == ".whl":
                site.sent += len(content)
            self.reply(content, status)

    with served(site.root, Handler) as address:
        site.address = f"{address}/simple/"
        yield site


def test_wheels_of_an_index_are_read_by_range(rocwheel: Rocwheel, nights: Nights, site: Site, tmp_path: Path) -> None:
    said = nights.package(rocwheel, tmp_path / "new", "--reuse", site.address)
    assert said["reused"] in REUSED
    (device,) = (nights.first / "dist").glob("rocm_sdk_device_gfx942-*.whl")
    assert set(site.ranges) == {device.name}, "no other wheel has a record"
    # The page of one project is enough.
    said = nights.package(rocwheel, tmp_path / "one", "--reuse", f"{site.address}rocm-sdk-device-gfx942/")
    assert said["reused"] in REUSED


@pytest.mark.parametrize("good", [0, 1])
def test_an_index_changes_under_the_run(
    rocwheel: Rocwheel, nights: Nights, site: Site, tmp_path: Path, good: int
) -> None:
    site.spoil_after = good
    said = nights.package(rocwheel, tmp_path / "new", "--reuse", site.address)
    assert said["reused"] < CHUNK


@pytest.mark.parametrize("good", [0, 1])
def test_a_wheel_that_cannot_be_read_is_given_up(
    rocwheel: Rocwheel, nights: Nights, site: Site, tmp_path: Path, good: int
) -> None:
    site.spoil_after, site.spoil_status = good, 503
    said = nights.package(rocwheel, tmp_path / "new", "--reuse", site.address)
    assert said["reused"] < CHUNK and site.asked <= good + 2
    assert said["stderr"].count("is reused: ") == (1 if site.asked in (1, good + 2) else 0), said["stderr"]


def test_pages_that_went_away_are_skipped(rocwheel: Rocwheel, nights: Nights, site: Site, tmp_path: Path) -> None:
    root = site.root / "simple/index.html"
    root.write_text(root.read_text().replace("</body>", '<a href="vanished/">vanished</a></body>'))
    (site.root / "simple/index.v1_json").unlink(missing_ok=True)
    assert "vanished" in root.read_text()
    site.statuses = {"/simple/rocm-sdk-core/": 503}
    said = nights.package(rocwheel, tmp_path / "new", "--reuse", site.address)
    assert said["reused"] in REUSED
    warning = f"at `{site.address}` cannot be read for earlier wheels: `rocm-sdk-core` (the server answers 503)"
    assert warning in said["stderr"] and "`vanished` (the server answers 404)" in said["stderr"]
    # The page that the user named is another matter.
    site.statuses = {"/simple/": 503}
    ran = rocwheel.package(nights.second, tmp_path / "other", "--reuse", site.address, expect=1)
    assert "the server answers 503" in ran.stderr and not (tmp_path / "other").exists()


def test_an_index_that_does_not_answer_is_an_error(rocwheel: Rocwheel, nights: Nights, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    words = ("--reuse", f"http://127.0.0.1:{port}/simple/")
    rocwheel.package(nights.second, tmp_path / "new", *words, expect=1).says("for earlier wheels")
    assert not (tmp_path / "new").exists()


def test_wheels_of_a_bucket(rocwheel: Rocwheel, nights: Nights, bucket: Bucket, tmp_path: Path) -> None:
    uploaded = ("release", "upload", "--to", "s3://wheels/night", *sorted((nights.first / "dist").glob("*.whl")))
    rocwheel.run(*uploaded, environment=bucket.environment)
    said = nights.package(rocwheel, tmp_path / "new", "--reuse", "s3://wheels/night", **bucket.environment)
    assert said["reused"] in REUSED


@dataclass(frozen=True)
class Vouched:
    """A stream with the first night, whose signed snapshot names the records, and public keys: the
    right one and another."""

    stream: Path
    key: Path
    other: Path


def publish(rocwheel: Rocwheel, nights: Nights, *words: object, **environment: str) -> dict:
    return rocwheel.json(
        "release", "publish", nights.first / "dist", "--stream", "nightly", *words, environment=environment
    )


@pytest.fixture(scope="module")
def published(rocwheel: Rocwheel, made: Nights, tmp_path_factory: pytest.TempPathFactory) -> Vouched:
    folder = tmp_path_factory.mktemp("vouched")
    for name in ("key", "other"):
        rocwheel.run("release", "key", "new", folder / name)
    words = ("--to", folder, "--signing-key", folder / "key")
    assert publish(rocwheel, made, *words, ROCWHEEL_CACHE=str(made.cache))["recorded"] == 1
    rocwheel.run("release", "verify", folder / "nightly", "--key", folder / "key.pub")
    return Vouched(folder / "nightly", folder / "key.pub", folder / "other.pub")


@pytest.fixture
def vouched(published: Vouched, tmp_path: Path) -> Vouched:
    """A copy, for a test to change."""
    return replace(published, stream=Path(shutil.copytree(published.stream, tmp_path / "nightly", symlinks=True)))


@pytest.mark.parametrize("kind", ["folder", "server", "bucket"])
def test_a_signed_stream_is_reused_where_nothing_was_packed(
    rocwheel: Rocwheel, made: Nights, published: Vouched, bucket: Bucket, tmp_path: Path, kind: str
) -> None:
    environment = {"ROCWHEEL_CACHE": str(tmp_path / "empty"), **bucket.environment}
    words = ("--reuse-key", published.other, "--reuse-key", published.key)
    if kind == "folder":
        said = made.package(rocwheel, tmp_path / "new", "--reuse", published.stream, *words, **environment)
    elif kind == "server":
        handler = type("Counting", (Ranges,), {"sent": []})
        with served(published.stream, handler) as address:
            said = made.package(rocwheel, tmp_path / "new", "--reuse", address, *words, **environment)
        wheels = sum(length for name, length in handler.sent if name.endswith(".whl"))
        assert CHUNK / 4 < wheels < CHUNK, "the packed form of one chunk and of small texts"
    else:
        key = published.stream.parent / "key"
        where = ("--to", "s3://wheels", "--signing-key", key)
        publish(rocwheel, made, *where, **{**bucket.environment, "ROCWHEEL_CACHE": str(made.cache)})
        said = made.package(rocwheel, tmp_path / "new", "--reuse", "s3://wheels/nightly", *words, **environment)
    assert said["reused"] in REUSED
    for wheel in (tmp_path / "new/dist").glob("*.whl"):
        run("unzip", "-tqq", wheel)


def test_without_the_key_of_a_signature_a_stream_is_not_reused(
    rocwheel: Rocwheel, made: Nights, published: Vouched, tmp_path: Path
) -> None:
    environment = {"ROCWHEEL_CACHE": str(tmp_path / "empty")}
    said = made.package(rocwheel, tmp_path / "a", "--reuse", published.stream, **environment)
    assert said["reused"] < TEXTS
    words = ("--version", "7.1.1", "--reuse", published.stream, "--reuse-key", published.other)
    ran = rocwheel.package(made.second, tmp_path / "b", *words, environment=environment, expect=1)
    assert "1.json`: none of its signatures is of a key that was given" in ran.stderr
    assert "hint: give the public key" in ran.stderr and not (tmp_path / "b").exists()
    # What nobody signed has no records.
    publish(rocwheel, made, "--to", tmp_path / "unsigned", ROCWHEEL_CACHE=str(made.cache))
    stream = tmp_path / "unsigned/nightly"
    assert list(stream.rglob("*.packing")) == []
    words = ("--version", "7.1.1", "--reuse", stream, "--reuse-key", published.key)
    ran = rocwheel.package(made.second, tmp_path / "c", *words, environment=environment, expect=1)
    assert "1.json`: it has no signature" in ran.stderr and not (tmp_path / "c").exists()


def test_a_stream_that_is_not_as_it_was_signed(
    rocwheel: Rocwheel, made: Nights, vouched: Vouched, tmp_path: Path
) -> None:
    environment = {"ROCWHEEL_CACHE": str(tmp_path / "empty")}
    (record,) = vouched.stream.rglob("*.packing")
    (device,) = (vouched.stream / "rocm-sdk-device-gfx942").glob("*.whl")
    assert record.name == f"{device.name}.packing"
    content, wheel = record.read_bytes(), device.read_bytes()
    runs = iter(range(100))

    def package() -> dict:
        words = ("--reuse", vouched.stream, "--reuse-key", vouched.key)
        return made.package(rocwheel, tmp_path / str(next(runs)), *words, **environment)

    # A record of another wheel, with all its own checks right, is not the one that was signed.
    line, _, text = content.partition(b"\n")
    for changed in (content[:-1], content + b" ", line + b"\n" + text.replace(b"libdeflate", b"libDeflate"), b""):
        record.write_bytes(changed)
        said = package()
        assert said["reused"] < TEXTS
        assert f"`{record.parent.name}/{record.name}` is not the record that the snapshot names" in said["stderr"]
    rocwheel.run("release", "verify", vouched.stream, expect=1).prints(f"{record.name}` has other bytes")
    record.unlink()
    said = package()
    assert said["reused"] < TEXTS and f"{record.name}` is missing" in said["stderr"]
    record.write_bytes(content)
    # A wheel that was cut, is another one, or is gone, has nothing to offer.
    for changed in (wheel[: len(wheel) // 2], bytes(len(wheel)), b"", None):
        device.unlink()
        if changed is not None:
            device.write_bytes(changed)
        assert package()["reused"] < TEXTS
    device.write_bytes(wheel)
    assert package()["reused"] in REUSED
    # A snapshot with one other byte.
    (snapshot_file,) = (vouched.stream / ".release/snapshots").iterdir()
    snapshot_file.write_bytes(snapshot_file.read_bytes().replace(b"payload", b"Payload", 1))
    words = ("--version", "7.1.1", "--reuse", vouched.stream, "--reuse-key", vouched.key)
    ran = rocwheel.package(made.second, tmp_path / "altered", *words, environment=environment, expect=1)
    assert "1.json` is not what the stream's snapshot says it is" in ran.stderr
    assert not (tmp_path / "altered").exists()


def sign_again(vouched: Vouched, change: Callable[[dict], None]) -> None:
    """Changes the first snapshot; openssl makes the signature, as another version of rocwheel would
    have done."""
    stream = vouched.stream
    path = stream / ".release/snapshots/1.json"
    envelope = json.loads(path.read_bytes())
    content = payload(envelope)
    change(content)
    path.write_text(json.dumps(sealed(content, vouched.key.with_suffix(""), envelope)))
    head = stream / ".release/head.json"
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    head.write_text(json.dumps({**json.loads(head.read_bytes()), "sha256": sha256}))


def test_a_stream_of_another_version_of_rocwheel(
    rocwheel: Rocwheel, made: Nights, vouched: Vouched, tmp_path: Path
) -> None:
    environment = {"ROCWHEEL_CACHE": str(tmp_path / "empty")}
    words = ("--reuse", vouched.stream, "--reuse-key", vouched.key)
    (record,) = vouched.stream.rglob("*.packing")

    def name_record(snapshot: dict) -> None:
        rows = [row for row in snapshot["files"].values() if "packing-sha256" in row]
        (row,) = rows
        row["packing-sha256"] = hashlib.sha256(record.read_bytes()).hexdigest()

    sign_again(vouched, name_record)
    assert made.package(rocwheel, tmp_path / "same", *words, **environment)["reused"] in REUSED
    record.write_bytes(record.read_bytes().replace(b"libdeflate 1", b"libdeflate 0"))
    sign_again(vouched, name_record)
    said = made.package(rocwheel, tmp_path / "other", *words, **environment)
    assert said["reused"] < TEXTS
    assert "1 wheel" in said["stderr"] and "not packed by this version of rocwheel" in said["stderr"]

    def forget_record(snapshot: dict) -> None:
        for row in snapshot["files"].values():
            row.pop("packing-sha256", None)

    sign_again(vouched, forget_record)
    said = made.package(rocwheel, tmp_path / "none", *words, **environment)
    assert said["reused"] < TEXTS
    assert "was published with a record of how it was packed" in said["stderr"]


def test_an_expired_snapshot_is_not_trusted(rocwheel: Rocwheel, made: Nights, vouched: Vouched, tmp_path: Path) -> None:
    words = ("--reuse", vouched.stream, "--reuse-key", vouched.key)
    empty = {"ROCWHEEL_CACHE": str(tmp_path / "empty")}
    sign_again(vouched, lambda snapshot: snapshot.update(expires="2999-01-01T00:00:00Z"))
    assert made.package(rocwheel, tmp_path / "valid", *words, **empty)["reused"] in REUSED
    shutil.rmtree(tmp_path / "empty")
    sign_again(vouched, lambda snapshot: snapshot.update(expires="2026-01-01T00:00:00Z"))
    said = made.package(rocwheel, tmp_path / "expired", *words, **empty)
    assert said["reused"] < TEXTS
    assert "`--reuse-key` changes nothing at" in said["stderr"]
    assert "snapshot 1 expired on 2026-01-01T00:00:00Z: this may be an old copy" in said["stderr"]


def test_the_newest_wheels_count_and_pruning_takes_records_along(
    rocwheel: Rocwheel, made: Nights, vouched: Vouched, tmp_path: Path
) -> None:
    own, empty = ({"ROCWHEEL_CACHE": str(tmp_path / name)} for name in ("own", "empty"))
    words = ("--reuse", vouched.stream, "--reuse-key", vouched.key)
    made.package(rocwheel, tmp_path / "second", *words, **own)
    store = vouched.stream.parent
    where = ("--to", store, "--signing-key", vouched.key.with_suffix(""))
    assert publish(rocwheel, replace(made, first=tmp_path / "second"), *where, **own)["recorded"] == 1
    # Everything of the second night is packed already, by this chain of machines.
    said = made.package(rocwheel, tmp_path / "again", *words, **empty)
    assert said["reused"] > CHUNK + 40_000
    (vouched.stream / ".release/stream.toml").write_text("[retention]\nversions = 1\ngrace-days = 0\n")
    for _ in range(2):
        rocwheel.run("release", "prune", "--store", store, "--stream", "nightly", *where[2:])
    (record,) = vouched.stream.rglob("*.packing")
    assert "7.1.1" in record.name and record.with_suffix("").is_file()


def test_what_is_no_stream_is_searched_as_without_a_key(
    rocwheel: Rocwheel, nights: Nights, published: Vouched, tmp_path: Path
) -> None:
    said = nights.package(rocwheel, tmp_path / "new", "--reuse", nights.first, "--reuse-key", published.key)
    assert said["reused"] in REUSED
    assert f"`{nights.first}` is no stream, so `--reuse-key` changes nothing there" in said["stderr"]


@pytest.mark.long
def test_split_fuse_prune_and_repair(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """A wheel whose library has megabytes of host data: what each command compressed in the first
    run is not compressed in the second, and the results are equal."""
    (tmp_path / "hip").mkdir()
    (tmp_path / "wheel").mkdir()
    members = hip_wheels.members(hip_wheels.Compiled.make(tmp_path / "hip"))
    (tmp_path / "data").write_bytes(code(2 << 20, 3))
    for name in ("demo/lib/libdemo.so", "demo_hip.libs/libdemo-1f7b8bcc.so"):
        (tmp_path / "library").write_bytes(members[name])
        run("objcopy", "--add-section", f".data.more={tmp_path / 'data'}", tmp_path / "library")
        members[name] = (tmp_path / "library").read_bytes()
    wheel = hip_wheels.write_wheel(tmp_path / "wheel", members)
    parts = tmp_path / "parts"
    cache = {"ROCWHEEL_CACHE": str(tmp_path / "cache")}
    rocwheel.run("split", wheel, "--output", parts, environment=cache)
    commands = {
        "split": ("split", wheel),
        "fuse": ("fuse", *sorted(parts.glob("*.whl"))),
        "prune": ("prune", wheel, "--keep", "gfx942"),
    }
    for name, command in commands.items():
        outputs = [tmp_path / f"{name}{number}" for number in range(3)]
        rocwheel.run(*command, "--output", outputs[0], "--no-reuse", environment=cache)
        rocwheel.run(*command, "--output", outputs[1], environment=cache)
        ran = rocwheel.run(*command, "--output", outputs[2], "--reuse", outputs[1], environment=cache)
        assert snapshot(outputs[0]) == snapshot(outputs[1]) == snapshot(outputs[2]), name
        assert "of unchanged content were not compressed again" in ran.stderr, (name, ran.stderr)


def test_repair_packs_a_grafted_library_once(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """The library that a repair brings into the wheel has megabytes of data, and the next wheel
    gets the same one."""
    (tmp_path / "data").write_bytes(code(2 << 20, 5))
    data = f'__asm__(".section .rodata\\n.global big\\nbig: .incbin \\"{tmp_path}/data\\"\\n.text\\n");'
    library(tmp_path / "lib", "outer", "outer", f"{data} int outer(void) {{ return 42; }}")
    words = (f"-L{tmp_path / 'lib'}", "-Wl,--no-as-needed", "-louter", "-Wl,-rpath,/build/lib")
    built = extension(tmp_path / "built", "outer", *words).read_bytes()
    cache = {"ROCWHEEL_CACHE": str(tmp_path / "cache")}

    def repair(version: str, output: Path, *more: object) -> str:
        members = {"demo/__init__.py": INIT.encode(), "demo/_ext.so": built}
        wheel = linked_wheel(tmp_path / version, members, version=version)
        paths = ("--lib-path", tmp_path / "lib", "--output", output)
        return rocwheel.run("repair", wheel, *paths, *more, environment=cache).stderr

    first, nothing, second = (tmp_path / name for name in ("first", "nothing", "second"))
    repair("1.0", first)
    repair("1.1", nothing, "--no-reuse")
    said = repair("1.1", second, "--reuse", first)
    assert "of unchanged content were not compressed again" in said, said
    assert snapshot(nothing) == snapshot(second)
    (repaired,) = second.glob("*.whl")
    check_record(repaired)
