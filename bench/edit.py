"""Times `rocwheel edit` of wheels beside `cp` of the same files, in turns.

With `--peer` also `wheel tags` of the Python package `wheel`, once for each wheel: it packs
everything again.
"""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from measuring import MEGABYTE, Measured, measure, median, options, write_figures

HEADER = f"{'wall s':>34}  {'user s':>7}  {'sys s':>7}  {'peak MB':>7}  {'x cp':>6}"


def line(name: str, measured: Measured, copy: Measured) -> str:
    times = "  ".join(f"{value:7.3f}" for value in (measured.user, measured.system))
    ratio = measured.wall / copy.wall
    return f"  {name:24}{measured.wall:8.3f}  {times}  {measured.peak / MEGABYTE:7.0f}  {ratio:6.2f}"


def into(output: Path, *command: object) -> Measured:
    """Runs a program that writes into an empty folder, its last argument."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    return measure(*command, output, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> None:
    parser = options(__doc__, runs=11)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("wheels", type=Path, nargs="+")
    arguments = parser.parse_args()
    edits = {
        "edit --metadata": ["--metadata", "Summary=changed"],
        "edit --version": ["--version", "9999.1"],
    }
    figures = {}
    for wheel in arguments.wheels:
        results: dict[str, list[Measured]] = {}
        arguments.work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            output = Path(folder) / "output"
            for _ in range(arguments.runs):
                results.setdefault("cp", []).append(into(output, "cp", wheel))
                for name, words in edits.items():
                    edited = into(output, arguments.rocwheel, "edit", wheel, *words, "--output")
                    results.setdefault(name, []).append(edited)
            if arguments.peer:
                copy = Path(folder) / wheel.name
                shutil.copy(wheel, copy)
                command = [sys.executable, "-m", "wheel", "tags", "--build", "1", copy]
                results["wheel tags"] = [measure(*command, stdout=subprocess.DEVNULL)]
        copied = median(results["cp"])
        print(f"{wheel.name}, {wheel.stat().st_size / MEGABYTE:.0f} MB, median of {arguments.runs}\n{HEADER}")
        for name, runs in results.items():
            print(line(name, median(runs), copied))
        figures[wheel.name] = {name: asdict(median(runs)) for name, runs in results.items()}
    write_figures(arguments, figures)


if __name__ == "__main__":
    main()
