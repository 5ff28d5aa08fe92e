"""Times `rocwheel index build` beside dumb-pypi on the same files in the same run.

In: the built binary. Out: a table on stdout and the same as JSON in a file. The files are wheels of
a few hundred bytes, as many as four months of nightly builds leave in one stream: 130 projects, of
which the largest page lists 4,800 files. Hashes are known from the first run, which reads every
file; dumb-pypi gets them in its list of packages. Figures are medians. Peak memory is the kernel's
ru_maxrss.
"""

import argparse
import json
import os
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path

from measuring import MEGABYTE, Measured, measure, median, options, write_figures

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/acceptance"))
from small_wheels import write_wheel

PROJECTS = 130
LARGEST = 4800
OLD = 1_700_000_000
# Seconds.
BARS = {"no pages, hashes known": 3.0, "one more wheel, --project": 0.05}
MEMORY_BAR = 200  # MB


def make(root: Path, count: int) -> None:
    largest = min(LARGEST, count // 4)
    each = (count - largest) // (PROJECTS - 1)
    for project in range(PROJECTS):
        name = f"project-{project}"
        for number in range(largest if project == 0 else each):
            version = f"2.{number // 40}.{number % 40}+rocm10.1.0a20261120"
            path = write_wheel(root / name, name, version, tag="cp312-cp312-linux_x86_64")
            os.utime(path, (OLD, OLD))


class Benchmark:
    def __init__(self, settings: argparse.Namespace) -> None:
        self.settings = settings
        self.root = settings.work / "whl-next"
        self.results: dict[str, dict] = {}

    def run(self) -> None:
        shutil.rmtree(self.settings.work, ignore_errors=True)
        began = time.monotonic()
        make(self.root, self.settings.files)
        files = sum(1 for _ in self.root.glob("*/*.whl"))
        print(f"{files} files in {PROJECTS} projects, made in {time.monotonic() - began:.0f} s")
        print(f"{'':44}{'wall s':>10}{'user s':>10}{'sys s':>10}{'peak MB':>10}{'bar s':>8}{'bar MB':>8}", flush=True)
        self.show("every file is new", [measure(*self.build())])
        self.show("nothing changed", [measure(*self.build()) for _ in range(self.settings.runs)])
        self.show("no pages, hashes known", [self.without_pages() for _ in range(self.settings.runs)])
        self.show("one more wheel", [self.one_more(number) for number in range(self.settings.runs)])
        self.show(
            "one more wheel, --project",
            [self.one_more(number, "--project", "project-1") for number in range(100, 100 + self.settings.runs)],
        )
        self.peer(min(files, self.settings.peer_files))
        write_figures(self.settings, self.results)

    def build(self, *more: object) -> list[object]:
        return [self.settings.rocwheel, "--quiet", "index", "build", self.root, "--now", "2026-11-20T00:00:00Z", *more]

    def without_pages(self) -> Measured:
        for page in self.root.glob("**/index.*"):
            page.unlink()
        return measure(*self.build(), stdout=2)

    def one_more(self, number: int, *more: object) -> Measured:
        path = write_wheel(self.root / "project-1", "project-1", f"9.{number}", tag="cp312-cp312-linux_x86_64")
        os.utime(path, (OLD, OLD))
        return measure(*self.build(*more), stdout=2)

    def peer(self, files: int) -> None:
        """dumb-pypi makes HTML and JSON of a list that has names, hashes and times already."""
        listed = self.settings.work / "packages.json"
        with listed.open("w") as lines:
            for path in sorted(self.root.glob("*/*.whl"))[:files]:
                row = {
                    "filename": path.name,
                    "hash": f"sha256={'0' * 64}",
                    "upload_timestamp": OLD,
                    "requires_python": ">=3.8",
                }
                lines.write(json.dumps(row) + "\n")
        command = [
            self.settings.peers / "bin/dumb-pypi",
            "--package-list-json",
            listed,
            "--packages-url",
            "../../packages",
            "--output-dir",
            self.settings.work / "peer",
        ]
        self.show(f"dumb-pypi, {files} files only", [measure(*command, stdout=2)], is_peer=True)

    def show(self, name: str, runs: list[Measured], *, is_peer: bool = False) -> None:
        middle = median(runs)
        self.results[name] = asdict(middle)
        bar = BARS.get(name, "")
        bars = "" if is_peer else f"{bar:>8}{MEMORY_BAR:8}"
        print(
            f"{name:44}{middle.wall:10.2f}{middle.user:10.2f}{middle.system:10.2f}{middle.peak / MEGABYTE:10.0f}{bars}",
            flush=True,
        )


if __name__ == "__main__":
    parser = options(__doc__, runs=3)
    parser.add_argument("--peers", type=Path, required=True, help="environment with dumb-pypi")
    parser.add_argument("--files", type=int, default=300_000)
    parser.add_argument("--peer-files", type=int, default=100_000, help="how many of them dumb-pypi lists")
    Benchmark(parser.parse_args()).run()
