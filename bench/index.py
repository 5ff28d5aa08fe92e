"""Times `rocwheel index build` beside dumb-pypi on the same files in the same run.

The files are wheels of a few hundred bytes, as many as four months of nightly builds leave in one
stream: 130 projects, of which the largest page lists 4,800 files. Hashes are known from the first
run, which reads every file; dumb-pypi gets them in its list of packages.
"""

import json
import os
import time
from pathlib import Path

from measuring import Benchmark, Measured, measure, options
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


class Index(Benchmark):
    columns = {"bar s": ".2f", "bar MB": ".0f"}

    def run(self) -> None:
        self.root = self.work / "whl-next"
        began = time.monotonic()
        make(self.root, self.settings.files)
        files = sum(1 for _ in self.root.glob("*/*.whl"))
        print(f"{files} files in {PROJECTS} projects, made in {time.monotonic() - began:.0f} s")
        self.head()
        self.row("every file is new", measure(*self.build()))
        self.row("nothing changed", self.repeat(measure, *self.build()))
        self.row("no pages, hashes known", self.repeat(self.without_pages))
        self.row("one more wheel", self.repeat(self.one_more))
        self.row("one more wheel, --project", self.repeat(self.one_more, "--project", "project-1"))
        self.peer(min(files, self.settings.peer_files))

    def row(self, name: str, figures: Measured) -> None:
        self.show(name, figures, BARS.get(name), MEMORY_BAR)

    def build(self, *more: object) -> list[object]:
        return [self.settings.rocwheel, "--quiet", "index", "build", self.root, "--now", "2026-11-20T00:00:00Z", *more]

    def without_pages(self) -> Measured:
        for page in self.root.glob("**/index.*"):
            page.unlink()
        return measure(*self.build(), stdout=2)

    def one_more(self, *more: object) -> Measured:
        number = len(list((self.root / "project-1").glob("*.whl")))
        path = write_wheel(self.root / "project-1", "project-1", f"9.{number}", tag="cp312-cp312-linux_x86_64")
        os.utime(path, (OLD, OLD))
        return measure(*self.build(*more), stdout=2)

    def peer(self, files: int) -> None:
        """dumb-pypi makes HTML and JSON of a list that has names, hashes and times already."""
        listed = self.work / "packages.json"
        with listed.open("w") as lines:
            for path in sorted(self.root.glob("*/*.whl"))[:files]:
                row = {"filename": path.name, "hash": f"sha256={'0' * 64}", "upload_timestamp": OLD}
                lines.write(json.dumps({**row, "requires_python": ">=3.8"}) + "\n")
        command = [self.settings.peers / "bin/dumb-pypi", "--package-list-json", listed]
        command += ["--packages-url", "../../packages", "--output-dir", self.work / "peer"]
        self.show(f"dumb-pypi, {files} files only", measure(*command, stdout=2))


if __name__ == "__main__":
    parser = options(__doc__, runs=3)
    parser.add_argument("--peers", type=Path, required=True, help="environment with dumb-pypi")
    parser.add_argument("--files", type=int, default=300_000)
    parser.add_argument("--peer-files", type=int, default=100_000, help="how many of them dumb-pypi lists")
    Index(parser.parse_args()).start()
