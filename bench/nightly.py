"""Times `rocwheel package` of a night in which a part of a Debian release's ROCm changed, beside a
run from nothing.

In: the built binary, a folder of .deb files. Out: a table on stdout and the same as JSON in a file.
Every night is a fresh copy of all artifacts with another version, packaged into an empty folder
with `--reuse` of the wheels of the first night, and once more with `--no-reuse`: the wheels of both
have to be equal. Changed libraries have other bytes in every 64 KiB of their largest section, so
nothing of them can be reused; that is the worst case. The floor is one read and one SHA-256 of the
changed files, on one core.
"""

import argparse
import filecmp
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from measuring import MEGABYTE, Measured, measure, median, options, size, write_figures

STEP = 64 << 10


def largest_section(path: Path) -> tuple[int, int]:
    """Offset and size of the largest section with bytes in an ELF file (gabi, chapter 4); all of
    any other file but its first page."""
    content = (4096, max(path.stat().st_size - 4096, 0))
    with path.open("rb") as file:
        header = file.read(64)
        if header[:5] != b"\x7fELF\x02":
            return content
        (table,), (entry, count) = struct.unpack_from("<Q", header, 40), struct.unpack_from("<HH", header, 58)
        file.seek(table)
        sections = [struct.unpack_from("<IIQQQQ", file.read(entry)) for _ in range(count)]
    program_bits = 1
    sizes = [(length, offset) for _, kind, _, _, offset, length in sections if kind == program_bits]
    length, offset = max(sizes, default=(content[1], content[0]))
    return offset, length


def change(path: Path) -> None:
    offset, length = largest_section(path)
    with path.open("r+b") as file:
        for position in range(offset + 512, offset + length - 16, STEP):
            file.seek(position)
            file.write(b"another night's ")


def change_share(artifacts: Path, share: float) -> tuple[list[Path], int]:
    """Changes files with this share of all bytes, and returns them with their bytes."""
    files = [path for path in artifacts.rglob("*") if path.is_file() and not path.is_symlink()]
    total = sum(path.stat().st_size for path in files)
    by_name = sorted(files, key=lambda path: hashlib.sha256(path.name.encode()).digest())
    chosen, changed = [], 0
    for path in by_name:
        length = path.stat().st_size
        if length > STEP and changed + length <= total * share:
            chosen.append(path)
            changed += length
    for path in chosen:
        change(path)
    return chosen, changed


class Benchmark:
    def __init__(self, settings: argparse.Namespace) -> None:
        self.settings = settings
        self.work = settings.work
        self.results: dict[str, dict] = {}
        self.environment = {**os.environ, "ROCWHEEL_CACHE": str(self.work / "cache")}

    def rocwheel(self, *arguments: object) -> Measured:
        words = (self.settings.rocwheel, "--quiet", "--no-progress", *arguments)
        return measure(*words, stdout=subprocess.DEVNULL, env=self.environment)

    def package(self, artifacts: Path, output: Path, *arguments: object) -> Measured:
        runs = []
        for _ in range(self.settings.runs):
            shutil.rmtree(output, ignore_errors=True)
            words = ("package", "--artifacts", artifacts, "--output", output, "--shape", "split", *arguments)
            runs.append(self.rocwheel(*words))
        return median(runs)

    def show(self, name: str, figures: Measured, nothing: Measured | None = None, **more: object) -> None:
        ratio = figures.wall / nothing.wall if nothing else None
        self.results[name] = {**asdict(figures), "ratio": ratio, **more}
        share = f"{ratio:8.1%}" if ratio is not None else ""
        print(
            f"{name:<40}{figures.wall:9.2f}{figures.user:9.2f}{figures.system:9.2f}"
            f"{figures.peak / MEGABYTE:9.0f}  {share}",
            flush=True,
        )

    def run(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        debs = sorted(Path(self.settings.debs).glob("*.deb"))
        if not debs:
            sys.exit(f"error: no .deb files in {self.settings.debs}")
        first = self.work / "first"
        self.rocwheel("artifact", "import", "--deb", *debs, "--output", first)
        raw = size(first)
        old = self.work / "old"
        print(f"{'':40}{'wall s':>9}{'user s':>9}{'sys s':>9}{'peak MB':>9}  {'x nothing':>8}")
        nothing = self.package(first, old, "--no-reuse")
        self.show("from nothing, --no-reuse", nothing)
        shutil.rmtree(self.work / "cache", ignore_errors=True)
        runs = self.settings.runs
        self.settings.runs = 1
        self.show("from nothing, with records", self.package(first, old), nothing)
        self.settings.runs = runs
        for share in self.settings.shares:
            self.night(first, old, share, nothing)
        records = size(self.work / "cache" / "packed")
        wheels = size(old / "dist", "*.whl")
        print(f"{len(debs)} packages; artifacts {raw / MEGABYTE:.0f} MB; wheels {wheels / MEGABYTE:.1f} MB; "
              f"records {records / MEGABYTE:.2f} MB")  # fmt: skip
        write_figures(self.settings, self.results)

    def night(self, first: Path, old: Path, share: float, nothing: Measured) -> None:
        """A night in which files with this share of all bytes changed."""
        artifacts = self.work / "night"
        shutil.rmtree(artifacts, ignore_errors=True)
        shutil.copytree(first, artifacts, symlinks=True)
        chosen, changed = change_share(artifacts, share)
        version = ("--version", "9.9.9")
        begin = time.monotonic()
        for path in chosen:
            with path.open("rb") as file:
                hashlib.file_digest(file, "sha256")
        floor = Measured(time.monotonic() - begin, 0, 0, 0)
        name = f"night, {share:.0%} changed"
        self.show(f"floor: read and hash {changed / MEGABYTE:.0f} MB", floor, nothing)
        new, fresh = self.work / "new", self.work / "fresh"
        # The records of the first night stay, those of this one go: each run is the first.
        records = self.work / "cache" / "packed"
        known = set(records.iterdir())
        runs = []
        for _ in range(self.settings.runs):
            for record in set(records.iterdir()) - known:
                record.unlink()
            shutil.rmtree(new, ignore_errors=True)
            words = ("package", "--artifacts", artifacts, "--output", new, "--shape", "split", *version)
            runs.append(self.rocwheel(*words, "--reuse", old))
        self.show(name, median(runs), nothing, changed=changed)
        self.rocwheel(
            "package", "--artifacts", artifacts, "--output", fresh, "--shape", "split", *version, "--no-reuse"
        )
        for wheel in sorted((fresh / "dist").iterdir()):
            if not filecmp.cmp(wheel, new / "dist" / wheel.name, shallow=False):
                sys.exit(f"error: {wheel.name} differs from that of a run from nothing")
        shutil.rmtree(fresh)


def main() -> None:
    parser = options(__doc__, runs=3)
    parser.add_argument("--debs", required=True, help="a folder of .deb files")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.05], help="shares of bytes that change")
    Benchmark(parser.parse_args()).run()


if __name__ == "__main__":
    main()
