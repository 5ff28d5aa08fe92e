"""What an earlier run packed is not compressed again, from a folder, an index or a bucket; whatever
happens to it, the wheels have the bytes of a run from nothing."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.parse import unquote

import pytest

import hip_wheels
import synthetic
from command import Rocwheel, run
from linked_wheels import INIT, check_record, extension, library
from linked_wheels import write_wheel as linked_wheel
from trees import snapshot

CHUNK = 4 << 20
# What the second night reuses: the first of two chunks of the kernels, and small texts of that
# wheel, which others of the same run have too. Other wheels are too small for a record.
TEXTS = 4000
REUSED = range(CHUNK, CHUNK + TEXTS)
KERNELS = "math-libs/BLAS/rocBLAS/stage/lib/rocblas/library/TensileLibrary_gfx942.dat"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


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
    cache.mkdir()
    script = 'mount -t tmpfs -o size=4k tmpfs "$1" || exit 99\nhead -c 4096 /dev/zero > "$1/filled"\nshift\nexec "$@"\n'
    namespace = ("unshare", "--map-root-user", "--mount")
    command = (
        rocwheel.binary, "package", "--artifacts", nights.second, "--output", tmp_path / "new", "--version", "7.1.1",
    )  # fmt: skip
    ran = run(*namespace, "bash", "-c", script, "full", cache, *command, environment={"ROCWHEEL_CACHE": str(cache)})
    assert snapshot(tmp_path / "new/dist") == nights.expected
    assert f"cannot record in `{cache}/packed` how wheels are packed" in ran.stderr


def test_runs_share_a_cache(rocwheel: Rocwheel, nights: Nights, tmp_path: Path) -> None:
    threads = [
        threading.Thread(target=nights.package, args=(rocwheel, tmp_path / f"run{number}", "--reuse", nights.first))
        for number in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(3):
        assert snapshot(tmp_path / f"run{number}/dist") == nights.expected


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

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

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
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        site.address = f"http://127.0.0.1:{server.server_port}/simple/"
        yield site
        server.shutdown()


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


@pytest.mark.parametrize(
    "address",
    [
        "http://joe:S3cretPw@[bad/",
        "HTTPS://joe:S3cretPw@host:99999/simple",
        "ftp://joe:S3cretPw@host/simple",
        "file://joe:S3cretPw@localhost/simple",
        "s3://joe:S3cretPw@bucket/simple",
    ],
)
def test_a_wrong_address_shows_no_password(rocwheel: Rocwheel, nights: Nights, tmp_path: Path, address: str) -> None:
    ran = rocwheel.package(nights.second, tmp_path / "new", "--reuse", address, expect=2)
    assert f"`{address.partition(':')[0]}://" in ran.stderr
    assert "S3cretPw" not in ran.stderr and "joe" not in ran.stderr


def test_an_index_that_does_not_answer_is_an_error(rocwheel: Rocwheel, nights: Nights, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    words = ("--reuse", f"http://127.0.0.1:{port}/simple/")
    ran = rocwheel.package(nights.second, tmp_path / "new", *words, expect=1)
    assert "for earlier wheels" in ran.stderr
    assert not (tmp_path / "new").exists()


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[dict[str, str]]:
    """moto's S3 with a bucket `wheels`; the variables that lead there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with (tmp_path / "moto.log").open("wb") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    endpoint = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{endpoint}/moto-api/", timeout=5).close()
            break
        except (URLError, ConnectionError):
            time.sleep(0.1)
    scope = "Credential=AKIATEST/20261123/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    headers = {"Authorization": f"AWS4-HMAC-SHA256 {scope}"}
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/wheels", None, headers, method="PUT")).close()
    yield {**KEYS, "AWS_ENDPOINT_URL": endpoint}
    process.terminate()
    process.wait()


def test_wheels_of_a_bucket(rocwheel: Rocwheel, nights: Nights, bucket: dict[str, str], tmp_path: Path) -> None:
    uploaded = ("release", "upload", "--to", "s3://wheels/night", *sorted((nights.first / "dist").glob("*.whl")))
    rocwheel.run(*uploaded, environment=bucket)
    said = nights.package(rocwheel, tmp_path / "new", "--reuse", "s3://wheels/night", **bucket)
    assert said["reused"] in REUSED


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
