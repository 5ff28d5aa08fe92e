"""Times `rocwheel test suite` beside plain pytest on test suites of released packages, in turns.

Both run the same Python, the same files and pytest's default options; the one that begins changes
with every turn. The suites are in a virtual environment: `packaging` (tests of a fifth of a
millisecond, from its sdist), and those that the wheels of networkx and NumPy bring. Prints medians
of wall time and of processor time, and their ratios. Processor time is user and system time of all
processes that were started; on a busy machine, compare that alone.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

from measuring import Benchmark, options

PACKAGES = "pytest==9.0.3 packaging==25.0 pretend==1.0.9 networkx==3.6.1 numpy==2.4.6 hypothesis==6.148.2".split()
SDIST = "packaging==25.0"


@dataclass
class Suite:
    """Tests of a package, and the folder in which pytest starts."""

    name: str
    folder: Path
    tests: tuple[str, ...]


def prepare(work: Path) -> tuple[Path, list[Suite]]:
    """A Python with the packages, and their suites."""
    environment = work / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin/python"
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *PACKAGES], check=True)
    sdist = [*pip, "download", "--no-deps", "--no-binary", ":all:", "--dest", work, SDIST]
    subprocess.run(sdist, check=True)
    (archive,) = work.glob("packaging-*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(work, filter="data")
    site = next(environment.glob("lib/python*/site-packages"))
    return python, [
        Suite("packaging", work / archive.name.removesuffix(".tar.gz"), ("tests",)),
        Suite("networkx", site, ("networkx",)),
        Suite("numpy: lib, linalg, fft", site, ("numpy/lib", "numpy/linalg", "numpy/fft")),
    ]


def run(command: list[object], folder: Path) -> tuple[float, float, int, str]:
    """Seconds on the clock, seconds of the processor, the exit code, and what was printed."""
    begin = time.monotonic()
    words = [str(word) for word in command]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, process.returncode, said


def compare(rocwheel: Path, python: Path, suite: Suite, output: Path, runs: int) -> dict[str, object]:
    options = ["-p", "no:cacheprovider"]
    sides: dict[str, list[object]] = {
        "pytest": [python, "-m", "pytest", *options, *suite.tests],
        "rocwheel": [rocwheel, "test", "suite", "--python", python, "--output", output, *suite.tests, "--", *options],
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    codes, tests = set(), 0
    for turn in range(runs):
        for name in sides if turn % 2 == 0 else reversed(sides):
            wall, processor, code, said = run(sides[name], suite.folder)
            found[name].append((wall, processor))
            codes.add(code)
            if name == "pytest":
                counts = re.findall(r"(\d+) (?:passed|failed|skipped|xfailed|xpassed|errors?)\b", said.splitlines()[-1])
                tests = sum(map(int, counts))
    if len(codes) != 1 or not codes <= {0, 1}:
        sys.exit(f"error: {suite.name}: the runs ended with different exit codes: {sorted(codes)}")
    row: dict[str, object] = {"suite": suite.name, "tests": tests, "runs": runs, "load": round(os.getloadavg()[0], 1)}
    for index, word in enumerate(("wall", "processor")):
        medians = {name: statistics.median(pair[index] for pair in pairs) for name, pairs in found.items()}
        row |= {f"{name}_{word}_seconds": round(seconds, 2) for name, seconds in medians.items()}
        row[f"{word}_ratio"] = round(medians["rocwheel"] / medians["pytest"], 3)
    return row


class Supervisor(Benchmark):
    def run(self) -> None:
        self.results = []
        python, suites = prepare(self.work)
        for suite in suites:
            if suite.name.startswith(self.settings.only):
                output = self.work / "results"
                row = compare(self.settings.rocwheel, python.absolute(), suite, output, self.settings.runs)
                print(json.dumps(row), flush=True)
                self.results.append(row)


if __name__ == "__main__":
    parser = options(__doc__, runs=5)
    parser.add_argument("--only", default="", help="suites whose names begin so")
    Supervisor(parser.parse_args()).start()
