"""What the benchmarks share: a program run to its end with its times and its peak memory, the table
on stdout, and the same as JSON in a file. Every figure is the median of several runs with the files
in the page cache; peak memory is the kernel's ru_maxrss, which counts mapped pages."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

# Wheels are written, and machines made, as for the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/acceptance"))

MEGABYTE = 1e6


@dataclass
class Measured:
    """One run, or the median of several: seconds, and bytes."""

    wall: float
    user: float
    system: float
    peak: int
    written: int = 0


def options(description: str, runs: int | None = None) -> argparse.ArgumentParser:
    """The options of every benchmark; `scripts/bench` gives the first three. `runs` is the default
    of --runs, which a benchmark that runs once does not have."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rocwheel", required=True, type=_absolute, help="the built binary")
    parser.add_argument("--work", required=True, type=_absolute, help="a folder for what is made, emptied first")
    parser.add_argument("--json", required=True, type=Path, help="where to write the figures")
    if runs:
        parser.add_argument("--runs", type=int, default=runs, help="runs of each, of which the median counts")
    return parser


def _absolute(path: str) -> Path:
    return Path(path).absolute()


def write_figures(settings: argparse.Namespace, results: object) -> None:
    settings.json.write_text(json.dumps(results, indent=2) + "\n")


def measure(*command: object, **options: object) -> Measured:
    """Runs a program to its end; what it started and waited for counts too. Its peak memory is at
    least that of this process, with which it starts: read no large file here."""
    begin = time.monotonic()
    with subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, **options) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"error: exit code {process.returncode}: {' '.join(map(str, command))}")
    return Measured(
        time.monotonic() - begin, usage.ru_utime, usage.ru_stime, usage.ru_maxrss * 1024, usage.ru_oublock * 512
    )


def median(runs: list[Measured]) -> Measured:
    columns = zip(*(asdict(run).values() for run in runs), strict=True)
    return Measured(*map(statistics.median, columns))


def size(root: Path, pattern: str = "*") -> int:
    """Bytes of the files below a directory, links not followed."""
    return sum(path.lstat().st_size for path in root.rglob(pattern) if path.is_file() and not path.is_symlink())


class Disk(threading.Thread):
    """The most bytes that a folder had at any moment; it looks `every` so many seconds."""

    def __init__(self, folder: Path, every: float) -> None:
        super().__init__(daemon=True)
        self.folder, self.every = folder, every
        self.most, self.is_done = 0, threading.Event()

    def run(self) -> None:
        while not self.is_done.wait(self.every):
            try:
                # A file with two names counts once.
                found = {path.stat().st_ino: path.stat().st_size for path in self.folder.rglob("*") if path.is_file()}
            except OSError:
                continue
            self.most = max(self.most, sum(found.values()))

    def stop(self) -> int:
        self.is_done.set()
        self.join()
        return self.most


class Benchmark:
    """An empty folder, a table, and the figures of every row."""

    # What a row has beside times and memory, and its format.
    columns: dict[str, str] = {}
    width = 44

    def __init__(self, settings: argparse.Namespace) -> None:
        self.settings, self.work = settings, settings.work
        self.results: dict[str, dict] | list[dict] = {}
        self.environment = {**os.environ, "ROCWHEEL_CACHE": str(self.work / "cache")}
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)

    def run(self) -> None:
        raise NotImplementedError

    def start(self) -> None:
        self.run()
        write_figures(self.settings, self.results)

    def rocwheel(self, *arguments: object, **options: object) -> Measured:
        quiet = {"stdout": subprocess.DEVNULL, "env": self.environment}
        return measure(self.settings.rocwheel, "--quiet", "--no-progress", *arguments, **{**quiet, **options})

    def repeat(
        self, work: Callable[..., Measured], *words: object, empty: Path | None = None, **options: object
    ) -> Measured:
        """The median of all runs; `empty` is removed before each."""
        runs = []
        for _ in range(self.settings.runs):
            if empty:
                shutil.rmtree(empty, ignore_errors=True)
            runs.append(work(*words, **options))
        return median(runs)

    def head(self) -> None:
        heads = ("wall s", "user s", "sys s", "peak MB", *self.columns)
        print(f"{'':{self.width}}" + "".join(f"{head:>11}" for head in heads), flush=True)

    def show(self, name: str, figures: Measured, *cells: float | None, **more: object) -> Measured:
        """Prints a row and keeps its figures with `more`. What is 0 or None was not measured."""
        self.results[name] = {**asdict(figures), **more}
        values = (figures.wall, figures.user, figures.system, figures.peak / MEGABYTE, *cells)
        formats = (".3f", ".3f", ".3f", ".0f", *self.columns.values())
        row = (f"{value:>11{how}}" if value else f"{'':11}" for value, how in zip(values, formats, strict=False))
        print(f"{name[: self.width - 1]:<{self.width}}" + "".join(row).rstrip(), flush=True)
        return figures


def packages_in(folder: str) -> list[Path]:
    """The .deb files of a folder."""
    found = sorted(Path(folder).glob("*.deb"))
    if not found:
        sys.exit(f"error: no .deb files in {folder}")
    return found
