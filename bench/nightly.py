"""Times `rocwheel package` of a night in which a part of a Debian release's ROCm changed, beside a
run from nothing.

Every night is a fresh copy of all artifacts with another version, packaged into an empty folder
with `--reuse` of the wheels of the first night, and once more with `--no-reuse`: the wheels of both
have to be equal. Changed libraries have other bytes in every 64 KiB of their largest section, so
nothing of them can be reused; that is the worst case. The floor is one read and one SHA-256 of the
changed files, on one core.
"""

import filecmp
import hashlib
import shutil
import struct
import sys
import time
from pathlib import Path

from measuring import MEGABYTE, Benchmark, Measured, median, options, packages_in, size

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


class Nightly(Benchmark):
    columns = {"x nothing": ".1%"}

    def words(self, artifacts: Path, output: Path, *more: object) -> tuple[object, ...]:
        return ("package", "--artifacts", artifacts, "--output", output, "--shape", "split", *more)

    def row(self, name: str, figures: Measured, nothing: Measured | None = None, **more: object) -> Measured:
        ratio = figures.wall / nothing.wall if nothing else None
        return self.show(name, figures, ratio, ratio=ratio, **more)

    def run(self) -> None:
        debs = packages_in(self.settings.debs)
        first = self.work / "first"
        self.rocwheel("artifact", "import", "--deb", *debs, "--output", first)
        raw = size(first)
        old = self.work / "old"
        self.head()
        fresh = self.repeat(self.rocwheel, *self.words(first, old, "--no-reuse"), empty=old)
        nothing = self.row("from nothing, --no-reuse", fresh)
        for folder in (self.work / "cache", old):
            shutil.rmtree(folder, ignore_errors=True)
        self.row("from nothing, with records", self.rocwheel(*self.words(first, old)), nothing)
        for share in self.settings.shares:
            self.night(first, old, share, nothing)
        records = size(self.work / "cache" / "packed")
        wheels = size(old / "dist", "*.whl")
        print(f"{len(debs)} packages; artifacts {raw / MEGABYTE:.0f} MB; wheels {wheels / MEGABYTE:.1f} MB; "
              f"records {records / MEGABYTE:.2f} MB")  # fmt: skip

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
        self.row(f"floor: read and hash {changed / MEGABYTE:.0f} MB", floor, nothing)
        new, fresh = self.work / "new", self.work / "fresh"
        # The records of the first night stay, those of this one go: each run is the first.
        records = self.work / "cache" / "packed"
        known = set(records.iterdir())
        runs = []
        for _ in range(self.settings.runs):
            for record in set(records.iterdir()) - known:
                record.unlink()
            shutil.rmtree(new, ignore_errors=True)
            runs.append(self.rocwheel(*self.words(artifacts, new, *version, "--reuse", old)))
        self.row(name, median(runs), nothing, changed=changed)
        self.rocwheel(*self.words(artifacts, fresh, *version, "--no-reuse"))
        for wheel in sorted((fresh / "dist").iterdir()):
            if not filecmp.cmp(wheel, new / "dist" / wheel.name, shallow=False):
                sys.exit(f"error: {wheel.name} differs from that of a run from nothing")
        shutil.rmtree(fresh)


if __name__ == "__main__":
    parser = options(__doc__, runs=3)
    parser.add_argument("--debs", required=True, help="a folder of .deb files")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.05], help="shares of bytes that change")
    Nightly(parser.parse_args()).start()
