"""Times a promotion from one stream to another beside a plain copy of the set.

The set has 300 wheels:
five Pythons of a few frameworks and a device wheel for each of many targets, each with random bytes
that zlib cannot pack, as libraries and kernels are. Members have the order of real wheels: those of
ROCm have their version after the libraries, those of frameworks before. Besides time and the
kernel's ru_maxrss, the disk is looked at every 20 ms: a temporary copy would show as twice the set.

A second set is made by the packer, of real libraries, and promoted with its record of the members
that say the version and without. sha256sum of it is the floor: a promotion hashes what it reads.

With --cold, no run finds a file in the page cache, and each ends when all it wrote is on the disk;
it needs root. Nothing is removed before the end: ext4 without a journal gives no inode again that
was just freed, and looks for another one for as long as it takes.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from measuring import MEGABYTE, Benchmark, Disk, Measured, measure, median, options, size
from scaling import libraries
from small_wheels import core_metadata, pack
from stream import FAMILIES, Stream

OLD, NEW = "7.12.0rc1", "7.12.0"
PYTHONS = (10, 11, 12, 13, 14)
NOW = "2026-11-20T00:00:00Z"


def write_wheel(folder: Path, name: str, version: str, tag: str, megabytes: int, requires: list[str]) -> None:
    stem = name.replace("-", "_")
    said, library = f"version = '{version}'\n", os.urandom(megabytes << 20)
    if stem.startswith("rocm"):
        members = {f"_{stem}/lib/kernels.dat": library, f"{stem}/_dist_info.py": said}
    else:
        members = {f"{stem}/__init__.py": b"", f"{stem}/version.py": said, f"{stem}/lib/kernels.dat": library}
    metadata = core_metadata(name, version, requires)
    pack(folder, name, version, members, tag=tag, metadata=metadata, hashed=True, packed=True)


def make(folder: Path, count: int, megabytes: int) -> None:
    frameworks = [f"framework-{number}" for number in range(max(1, count // 10))]
    devices = count - len(frameworks) * len(PYTHONS) - 1
    requires = [f"rocm=={OLD}"]
    with ProcessPoolExecutor() as pool:
        written = [pool.submit(write_wheel, folder, "rocm", OLD, "py3-none-any", 1, [])]
        for number in range(devices):
            name = f"rocm-sdk-device-gfx{900 + number}"
            written.append(pool.submit(write_wheel, folder, name, OLD, "py3-none-any", megabytes, requires))
        for name in frameworks:
            for minor in PYTHONS:
                tag = f"cp3{minor}-cp3{minor}-linux_x86_64"
                version = f"2.14.0+rocm{OLD}"
                written.append(pool.submit(write_wheel, folder, name, version, tag, megabytes, requires))
        for wheel in written:
            wheel.result()


class Promote(Benchmark):
    def run(self) -> None:
        dist, store = self.work / "dist", self.work / "store"
        began = time.monotonic()
        make(dist, self.settings.wheels, self.settings.megabytes)
        bytes_of_set = size(dist)
        print(
            f"{self.settings.wheels} wheels, {bytes_of_set / MEGABYTE:.0f} MB, made in {time.monotonic() - began:.0f} s"
        )
        self.head()
        words = ["release", "publish", dist, "--to", store, "--stream", "staging", "--set", f"rocm-{OLD}"]
        self.rocwheel(*words, "--now", NOW)
        copies = median([self.copy(store / "staging", number) for number in range(self.settings.runs)])
        self.show("cp of the set", copies)
        promotions, most = [], 0
        for number in range(self.settings.runs):
            before, disk = size(store), Disk(store, every=0.02)
            disk.start()
            promotions.append(self.promote(store, f"release-{number}"))
            most = max(most, disk.stop() - before)
        ratio = self.show("promote it to another stream", median(promotions)).wall / copies.wall
        print(f"{ratio:.1f} times a copy; at most {most / bytes_of_set:.2f} times the set was written", flush=True)
        self.results["ratio"] = {"copy": ratio, "disk": most / bytes_of_set}
        self.packed()

    def packed(self) -> None:
        artifacts, packages, store = (self.work / name for name in ("artifacts", "packages", "packed"))
        most = int(self.settings.packed * MEGABYTE)
        sources = libraries(self.settings.libraries, most)
        if not sources:
            sys.exit(f"error: no libraries in {', '.join(map(str, self.settings.libraries))}")
        Stream(sources, FAMILIES[:4], most, 0).write(artifacts, 0)
        self.rocwheel("package", "--artifacts", artifacts, "--output", packages, "--shape", "split", "--version", OLD)
        dist = packages / "dist"
        self.rocwheel(
            "release", "publish", dist, "--to", store, "--stream", "staging", "--set", f"rocm-{OLD}", "--now", NOW
        )
        print(f"packed by rocwheel: {size(dist) / MEGABYTE:.0f} MB of {size(artifacts) / MEGABYTE:.0f} MB", flush=True)
        hashes = [self.measure("sha256sum", *dist.iterdir()) for _ in range(self.settings.runs)]
        self.show("sha256sum of the packed set", median(hashes))
        copies = [self.copy(store / "staging", f"packed-{number}") for number in range(self.settings.runs)]
        self.show("cp of it", median(copies))
        for name, cache in {"promote it, all is searched": "empty", "promote it, with the record": "cache"}.items():
            self.environment["ROCWHEEL_CACHE"] = str(self.work / cache)
            runs = [self.promote(store, f"{cache}-{number}") for number in range(self.settings.runs)]
            self.show(name, median(runs))

    def measure(self, *command: object) -> Measured:
        if not self.settings.cold:
            return measure(*command, stdout=subprocess.DEVNULL, env=self.environment)
        os.sync()
        Path("/proc/sys/vm/drop_caches").write_text("3")
        return measure("sh", "-c", '"$@" && sync', "sh", *command, stdout=subprocess.DEVNULL, env=self.environment)

    def copy(self, folder: Path, number: int | str) -> Measured:
        return self.measure("cp", "-r", "--reflink=never", folder, self.work / f"copy-{number}")

    def promote(self, store: Path, stream: str) -> Measured:
        streams = ["--store", store, "--from", "staging", "--to", stream, "--version", NEW, "--now", NOW]
        return self.measure(self.settings.rocwheel, "--quiet", "release", "promote", *streams)


if __name__ == "__main__":
    parser = options(__doc__, runs=3)
    parser.add_argument("--wheels", type=int, default=300)
    parser.add_argument("--megabytes", type=int, default=4, help="of each wheel")
    parser.add_argument("--libraries", type=Path, nargs="+", default=[Path("/usr/lib")], help="what the packer packs")
    parser.add_argument("--packed", type=float, default=400, help="megabytes of it")
    parser.add_argument("--cold", action="store_true", help="from the disk to the disk, not between caches")
    settings = parser.parse_args()
    if settings.wheels < 20:
        sys.exit("error: at least 20 wheels")
    Promote(settings).start()
