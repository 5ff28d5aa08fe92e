"""Simulates the nights of a stream of ROCm for many GPU families: what a build of every night costs
from archives to the published index, with what was packed the night before and without.

The plan has all families and nights: which libraries change each night, in bytes and in wheels. It
is made of sizes alone. The sample is the beginning of the same stream, fewer bytes, families and
nights, and it is run: `artifact archive` of what the builds of a night leave, `package` from these
archives, which unpacks them below its output, and `release publish`. With means `--reuse` of the
packages of the night before, and `--delta`; without means `--no-reuse`. The wheels of both have to
be equal, byte for byte. Bytes written are what the kernel counts for the program (ru_oublock),
uploaded are the new files of the store, and the disk is looked at four times a second.

A library is real bytes of this machine. Each family and each night that changed it has other bytes
in every 64 KiB, so nothing of a changed library can be used again: that is the worst case.
"""

import filecmp
import hashlib
import os
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from measuring import MEGABYTE, Benchmark, Disk, Measured, options, size
from scaling import BASE, libraries, write_base

# Families of the plan; the sample has the first of them.
FAMILIES = (
    "gfx942 gfx950 gfx90a gfx1100 gfx1201 gfx1151 gfx1030 gfx908 gfx1200 gfx1101 "
    "gfx906 gfx1150 gfx1102 gfx1103 gfx1031 gfx1032 gfx1034 gfx1036 gfx1010 gfx900"
).split()
# Share of the bytes that are for all families.
GENERIC = 0.25
STEP = 64 << 10
NOW = "2026-11-{day:02}T01:02:03Z"


@dataclass(frozen=True)
class Library:
    """A library of a family, or of all of them (`generic`)."""

    family: str
    number: int
    source: Path
    size: int

    @property
    def name(self) -> str:
        return f"TensileLibrary_{self.number}_{self.family}.dat"


class Stream:
    """A stream: its libraries, and which of them change in a night."""

    def __init__(self, sources: list[Path], families: list[str], most: float, share: float) -> None:
        self.families = families
        self.share = share
        self.libraries: list[Library] = []
        parts = {"generic": most * GENERIC, **dict.fromkeys(families, most * (1 - GENERIC) / len(families))}
        for family, wanted in parts.items():
            held, number = 0, 0
            while held < wanted:
                source = sources[number % len(sources)]
                self.libraries.append(Library(family, number, source, source.stat().st_size))
                held += self.libraries[-1].size
                number += 1
        self.bytes = sum(library.size for library in self.libraries)

    def changed(self, night: int) -> list[Library]:
        """The libraries that change in a night, with this share of all bytes; all in the first."""
        if night == 0:
            return self.libraries
        key = lambda library: hashlib.sha256(f"{night} {library.name}".encode()).digest()  # noqa: E731
        chosen, held = [], 0
        for library in sorted(self.libraries, key=key):
            if held + library.size <= self.bytes * self.share:
                chosen.append(library)
                held += library.size
        return chosen

    def write(self, root: Path, night: int) -> None:
        """Brings the artifacts of the night before to this one."""
        if night == 0:
            write_base(root, self.families)
        for library in self.changed(night):
            artifact = root / f"blas_lib_{library.family}"
            folder = artifact / BASE / "lib/rocblas/library"
            folder.mkdir(parents=True, exist_ok=True)
            (artifact / "artifact_manifest.txt").write_text(f"{BASE}\n")
            path = folder / library.name
            path.unlink(missing_ok=True)
            shutil.copyfile(library.source, path)
            mark = hashlib.sha256(f"{library.name} {night}".encode()).digest()
            # In place: a child counts the memory of this process as its own (exec(2), ru_maxrss).
            with path.open("r+b") as file:
                file.write(b"database")
                for position in range(512, library.size - len(mark), STEP):
                    file.seek(position)
                    file.write(mark)


@dataclass(frozen=True)
class Night:
    """What a night cost, with or without the one before: seconds, and bytes."""

    archive: Measured
    package: Measured
    publish: Measured
    uploaded: int
    disk: int


class Nights(Benchmark):
    def with_cache(self, cache: str, *arguments: object) -> Measured:
        with (self.work / "messages").open("a") as messages:
            environment = {**os.environ, "ROCWHEEL_CACHE": str(self.work / cache)}
            return self.rocwheel("--no-config", *arguments, stderr=messages, env=environment)

    def run(self) -> None:
        settings = self.settings
        sources = libraries(settings.libraries, int(settings.megabytes * MEGABYTE))
        if not sources:
            sys.exit(f"error: no libraries in {', '.join(map(str, settings.libraries))}")
        whole = Stream(sources, FAMILIES[: settings.families], settings.gigabytes * 1e9, settings.share)
        plan = self.plan(whole)
        sample = Stream(sources, FAMILIES[: settings.sample_families], settings.megabytes * MEGABYTE, settings.share)
        nights = self.sample(sample)
        self.estimate(whole, sample, nights)
        self.results = {"plan": plan, "sample": nights}

    def plan(self, stream: Stream) -> list[dict]:
        print(
            f"plan: {len(stream.families)} families, {stream.bytes / MEGABYTE:.0f} MB in {len(stream.libraries)} files"
        )
        rows = []
        for night in range(1, self.settings.nights):
            changed = stream.changed(night)
            touched = {library.family for library in changed}
            count = sum(library.size for library in changed)
            rows.append({"night": night, "files": len(changed), "bytes": count, "wheels": len(touched)})
        total = sum(row["bytes"] for row in rows)
        fewest, most = (pick(row["wheels"] for row in rows) for pick in (min, max))
        print(
            f"  {len(rows)} nights after the first: {total / MEGABYTE:.0f} MB changed of "
            f"{stream.bytes * len(rows) / MEGABYTE:.0f} MB built, in {fewest} to {most} of {len(stream.families) + 1} "
            "wheels a night",
            flush=True,
        )
        return rows

    def sample(self, stream: Stream) -> list[dict]:
        print(
            f"sample: {len(stream.families)} families, {stream.bytes / MEGABYTE:.0f} MB in "
            f"{len(stream.libraries)} files, {self.settings.sample_nights} nights"
        )
        heads = ("archive s", "package s", "publish s", "cpu s", "written", "uploaded", "disk")
        print(f"{'':24}" + "".join(f"{head:>11}" for head in heads), flush=True)
        tree, archives = self.work / "tree", self.work / "archives"
        results = []
        for night in range(self.settings.sample_nights):
            stream.write(tree, night)
            archived = self.with_cache("cache", "artifact", "archive", tree, "--output", archives)
            row = {"night": night, "changed": sum(library.size for library in stream.changed(night))}
            for name in ("without", "with"):
                figures = self.night(archives, night, name, archived)
                row[name] = asdict(figures)
                self.row(f"night {night}, {name}", figures)
            results.append(row)
            self.compare(night)
            for name in ("without", "with"):
                shutil.rmtree(self.work / f"{name}-{night - 1}", ignore_errors=True)
        return results

    def night(self, archives: Path, night: int, name: str, archived: Measured) -> Night:
        output, store = self.work / f"{name}-{night}", self.work / f"store-{name}"
        before = {path for path in store.rglob("*") if path.is_file()}
        held = size(self.work)
        disk = Disk(self.work, every=0.25)
        disk.start()
        version = f"7.12.0a202611{night + 1:02}"
        package = ["package", "--artifacts", archives, "--output", output, "--shape", "split", "--version", version]
        publish = ["release", "publish", output / "dist", "--to", store, "--stream", "nightly"]
        publish += ["--set", f"rocm-{version}", "--now", NOW.format(day=night + 1)]
        if name == "without":
            package.append("--no-reuse")
        else:
            package += ["--reuse", self.work / f"with-{night - 1}"] if night else []
            publish.append("--delta")
        packaged = self.with_cache(f"cache-{name}", *package)
        published = self.with_cache(f"cache-{name}", *publish)
        most = disk.stop()
        new = {path for path in store.rglob("*") if path.is_file()} - before
        uploaded = {path.stat().st_ino: path.stat().st_size for path in new}
        return Night(archived, packaged, published, sum(uploaded.values()), most - held)

    def compare(self, night: int) -> None:
        one, other = (self.work / f"{name}-{night}" / "dist" for name in ("without", "with"))
        names = sorted(path.name for path in one.iterdir())
        if names != sorted(path.name for path in other.iterdir()):
            sys.exit("error: the packages of both have different names")
        for name in names:
            if not filecmp.cmp(one / name, other / name, shallow=False):
                sys.exit(f"error: {name} differs")

    def row(self, name: str, night: Night) -> None:
        runs = (night.archive, night.package, night.publish)
        seconds = [run.wall for run in runs]
        processor = sum(run.user + run.system for run in runs)
        written = sum(run.written for run in runs)
        columns = [*seconds, processor, *(count / MEGABYTE for count in (written, night.uploaded, night.disk))]
        print(f"{name:24}" + "".join(f"{value:11.1f}" for value in columns), flush=True)

    def estimate(self, whole: Stream, sample: Stream, nights: list[dict]) -> None:
        """The last night of the sample stands for every night of the plan."""
        scale = whole.bytes / sample.bytes
        print(f"estimate: a night of {whole.bytes / 1e9:.0f} GB takes {scale:.0f} times the sample's last one")
        last = nights[-1]
        for name in ("without", "with"):
            wall = sum(last[name][stage]["wall"] for stage in ("archive", "package", "publish"))
            written = sum(last[name][stage]["written"] for stage in ("archive", "package", "publish"))
            print(
                f"  {name:10}{wall * scale / 60:8.1f} min, {written * scale / 1e9:8.1f} GB written, "
                f"{last[name]['uploaded'] * scale / 1e9:8.1f} GB uploaded"
            )


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--libraries", type=Path, nargs="+", default=[Path("/usr")], help="folders of real libraries")
    parser.add_argument("--families", type=int, default=len(FAMILIES), help="of the plan, at most 20")
    parser.add_argument("--nights", type=int, default=30, help="of the plan")
    parser.add_argument("--gigabytes", type=float, default=60, help="of a night of the plan")
    parser.add_argument("--share", type=float, default=0.05, help="share of all bytes that changes in a night")
    parser.add_argument("--sample-families", type=int, default=4)
    parser.add_argument("--sample-nights", type=int, default=3)
    parser.add_argument("--megabytes", type=float, default=1500, help="of a night of the sample")
    settings = parser.parse_args()
    if not (1 <= settings.sample_families <= settings.families <= len(FAMILIES) and 2 <= settings.sample_nights <= 28):
        sys.exit(f"error: 1 to {len(FAMILIES)} families, and 2 to 28 nights of the sample")
    Nights(settings).start()
