"""Times `rocwheel test suite` beside plain pytest on the same tests, in turns.

Both run the same Python and the same files; the one that begins changes with every turn. Prints the
medians of wall time and processor time, and their ratios. Processor time is user and system time of
all processes that were started; on a busy machine only it says something.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path


def run(command: list[object], folder: Path) -> tuple[float, float, int]:
    """Seconds on the clock, seconds of the processor, and the exit code."""
    begin = time.monotonic()
    with subprocess.Popen(
        [str(word) for word in command], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, process.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rocwheel", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True, help="a Python that has pytest and the tested package")
    parser.add_argument("--folder", type=Path, required=True, help="the folder in which pytest starts")
    parser.add_argument("--output", type=Path, required=True, help="a folder for the runs of rocwheel")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("tests", nargs="+")
    arguments = parser.parse_args()
    python = arguments.python.absolute()
    plain = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments.tests]
    ours = [arguments.rocwheel.resolve(), "test", "suite", "--python", python, "--output", arguments.output.absolute()]
    ours += [*arguments.tests, "--", "-p", "no:cacheprovider"]
    sides = {"pytest": plain, "rocwheel": ours}
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in sides}
    for turn in range(arguments.runs):
        for name in sides if turn % 2 == 0 else reversed(sides):
            found[name].append(run(sides[name], arguments.folder))
    codes = {code for rows in found.values() for *_, code in rows}
    if len(codes) != 1 or not codes <= {0, 1}:
        sys.exit(f"error: the runs ended with different exit codes: {sorted(codes)}")
    medians = {
        name: [statistics.median(column) for column in list(zip(*rows, strict=True))[:2]]
        for name, rows in found.items()
    }
    row: dict[str, object] = {"runs": arguments.runs, "load": os.getloadavg()[0]}
    for index, word in enumerate(("wall", "processor")):
        row |= {f"{name}_{word}_seconds": round(values[index], 3) for name, values in medians.items()}
        row[f"{word}_ratio"] = round(medians["rocwheel"][index] / medians["pytest"][index], 4)
    sys.stdout.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
