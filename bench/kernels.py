"""Times `rocwheel kernels` on wheels and libraries, beside one read of the same bytes.

In: the built binary, files. Out: a table on stdout and the same as JSON in a file. Every figure is
the median of several runs with the files in the page cache; peak RSS is the kernel's ru_maxrss,
which counts mapped pages. The floor is one read of the file, and, of a wheel, one inflation of what
it holds, by Python's zlib on one core. "written" is what the run leaves in the folder for temporary
files at any moment, the largest of the sizes that a look every 20 ms sees.
"""

import os
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import asdict
from pathlib import Path

from measuring import MEGABYTE, Measured, measure, median, options, size, write_figures

PIECE = 1 << 20


def floor(path: Path) -> tuple[float, int]:
    """Seconds to read all of a file, unpacked if it is a wheel, and the bytes that were read."""
    begin, total = time.monotonic(), 0
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                with wheel.open(name) as member:
                    while piece := member.read(PIECE):
                        total += len(piece)
    else:
        with open(path, "rb", buffering=0) as file:
            while piece := file.read(PIECE):
                total += len(piece)
    return time.monotonic() - begin, total


def watched(command: list[object], scratch: Path) -> tuple[Measured, int]:
    """A run, and the most bytes that were in its folder for temporary files."""
    most, done = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.02):
            try:
                most = max(most, size(scratch))
            except FileNotFoundError:
                continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        environment = {**os.environ, "TMPDIR": str(scratch)}
        figures = measure(*command, stdout=subprocess.DEVNULL, env=environment)
    finally:
        done.set()
        watcher.join()
    return figures, most


def main() -> None:
    parser = options(__doc__, runs=3)
    parser.add_argument("files", nargs="+", type=Path, help="wheels and libraries with GPU code")
    settings = parser.parse_args()
    results: dict[str, dict] = {}
    heads = ("file MB", "read MB", "floor s", "wall s", "user s", "peak MB", "written MB")
    print(f"{'':30}" + "".join(f"{head:>11}" for head in heads) + f"{'x floor':>9}", flush=True)
    for path in settings.files:
        if not path.is_file():
            sys.exit(f"error: {path} is not a file")
        least, total = floor(path)
        runs, most = [], 0
        for _ in range(settings.runs):
            shutil.rmtree(settings.work, ignore_errors=True)
            settings.work.mkdir(parents=True)
            command = [settings.rocwheel, "--quiet", "--no-progress", "kernels", "--json", path]
            figures, written = watched(command, settings.work)
            runs.append(figures)
            most = max(most, written)
        figures = median(runs)
        length = path.stat().st_size
        results[path.name] = {**asdict(figures), "size": length, "read": total, "floor": least, "written": most}
        columns = (length / MEGABYTE, total / MEGABYTE, least, figures.wall, figures.user)
        row = "".join(f"{value:11.2f}" for value in (*columns, figures.peak / MEGABYTE, most / MEGABYTE))
        print(f"{path.name[:29]:<30}{row}{figures.wall / least:9.2f}", flush=True)
    write_figures(settings, results)


if __name__ == "__main__":
    main()
