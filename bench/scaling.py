"""Times `rocwheel package` and the audit of its wheels on 1, 2, 4 … cores of this machine.

In: the built binary, and a folder of .deb files or of artifacts. Out: a table on stdout and the
same as JSON in a file: seconds, speed, how many times one core, and the share of that in the number
of cores. Each figure is the median of several runs from nothing with the files in the page cache.
The process is bound to its cores, so what the kernel does for it counts too; the table stops at the
cores that the machine has. More threads than cores would measure the scheduler.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from measuring import MEGABYTE, Measured, measure, median, size


def counts(available: int, most: int) -> list[int]:
    """1, 2, 4 and so on, and all cores."""
    powers = [1 << power for power in range(16) if 1 << power <= min(available, most)]
    return sorted({*powers, min(available, most)})


class Benchmark:
    def __init__(self, settings: argparse.Namespace) -> None:
        self.settings = settings
        self.work = settings.work.absolute()
        self.cores = sorted(os.sched_getaffinity(0))
        self.results: dict[str, list[dict]] = {}

    def rocwheel(self, cores: int, *arguments: object, may_fail: bool = False) -> Measured:
        words = [self.settings.rocwheel, "--quiet", "--no-progress", "--jobs", cores, *arguments]
        bound = self.cores[:cores]
        options = {"stdout": subprocess.DEVNULL, "preexec_fn": lambda: os.sched_setaffinity(0, bound)}
        if may_fail:
            # An audit that finds something ends with 1, and has looked at everything all the same.
            words = ["sh", "-c", '"$@" || [ $? = 1 ]', "sh", *words]
        return measure(*words, **options)

    def curve(self, name: str, amount: int, run: Callable[[int], Measured]) -> None:
        """A row for each number of cores; `amount` is the bytes of input."""
        rows: list[dict] = []
        for cores in counts(len(self.cores), self.settings.most):
            figures = median([run(cores) for _ in range(self.settings.runs)])
            times = rows[0]["wall"] / figures.wall if rows else 1.0
            rows.append({"cores": cores, "wall": figures.wall, "user": figures.user, "system": figures.system,
                         "peak": figures.peak, "speed": amount / figures.wall, "times": times,
                         "efficiency": times / cores})  # fmt: skip
            print(f"{name:<12}{cores:>6}{figures.wall:10.2f}{figures.user + figures.system:10.2f}"
                  f"{figures.peak / MEGABYTE:9.0f}{amount / MEGABYTE / figures.wall:9.0f}"
                  f"{times:9.2f}{times / cores:11.0%}", flush=True)  # fmt: skip
        self.results[name] = rows

    def run(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        artifacts = self.settings.artifacts
        if artifacts is None:
            debs = sorted(self.settings.debs.glob("*.deb"))
            if not debs:
                sys.exit(f"error: no .deb files in {self.settings.debs}")
            artifacts = self.work / "artifacts"
            self.rocwheel(len(self.cores), "artifact", "import", "--deb", *debs, "--output", artifacts)
        raw, output = size(artifacts), self.work / "packages"

        def package(cores: int) -> Measured:
            shutil.rmtree(output, ignore_errors=True)
            words = ("package", "--artifacts", artifacts, "--output", output, "--shape", "split")
            return self.rocwheel(cores, *words, "--no-reuse", "--no-audit")

        package(len(self.cores))
        wheels = size(output / "dist", "*.whl")
        print(f"{len(self.cores)} cores; artifacts {raw / MEGABYTE:.0f} MB; wheels {wheels / MEGABYTE:.0f} MB")
        header = ("cores", "wall s", "cpu s", "peak MB", "MB/s in", "x one", "efficiency")
        print(
            f"{'':12}"
            + "".join(f"{name:>{width}}" for name, width in zip(header, (6, 10, 10, 9, 9, 9, 11), strict=True))
        )
        self.curve("package", raw, package)
        self.curve("audit", wheels, lambda cores: self.rocwheel(cores, "audit", output / "dist", may_fail=True))
        self.settings.json.write_text(json.dumps(self.results, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rocwheel", type=Path, required=True)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--debs", type=Path, help="folder of .deb files")
    source.add_argument("--artifacts", type=Path, help="folder of artifacts, such as TheRock's")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--most", type=int, default=16, help="cores at most")
    Benchmark(parser.parse_args()).run()


if __name__ == "__main__":
    main()
