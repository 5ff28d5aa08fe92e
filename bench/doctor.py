"""Times `rocwheel doctor` on a copy of a machine with 65 nodes and an environment of 400 packages.

In: the built binary. Out: a table on stdout and the same as JSON in a file. The machine is that of
the acceptance tests, eight MI300X in the mode CPX. The packages are those of a ROCm with the
kernels of a GPU, a torch, and others with 40 Python files each. Figures are medians.
"""

import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from measuring import MEGABYTE, Measured, measure, median, options, write_figures

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/acceptance"))
from doctor_trees import Machine, make_cpx

PACKAGES = 400
FILES = 40


def make(folder: Path) -> Machine:
    machine = make_cpx(folder, 63)
    machine.rocm("gfx942")
    machine.torch("gfx942")
    for number in range(PACKAGES - 5):
        files = {f"package_{number}/module_{file}.py": "x = 1\n" * 50 for file in range(FILES)}
        machine.package(f"package-{number}", "1.0", **files)
    machine.finish()
    return machine


def main() -> None:
    parser = options(__doc__, runs=9)
    settings = parser.parse_args()
    shutil.rmtree(settings.work, ignore_errors=True)
    machine = make(settings.work)
    print(f"{'':32}{'wall s':>10}{'user s':>10}{'sys s':>10}{'peak MB':>10}")
    results = {}
    for name, arguments in {
        "65 nodes": ["--root", machine.root],
        "65 nodes and 400 packages": ["--root", machine.root, "--venv", machine.venv],
    }.items():
        runs: list[Measured] = [
            measure(settings.rocwheel, "doctor", *arguments, stdout=subprocess.DEVNULL) for _ in range(settings.runs)
        ]
        middle = median(runs)
        results[name] = asdict(middle)
        print(
            f"{name:32}{middle.wall:10.3f}{middle.user:10.3f}{middle.system:10.3f}{middle.peak / MEGABYTE:10.0f}",
            flush=True,
        )
    write_figures(settings, results)
    shutil.rmtree(settings.work)


if __name__ == "__main__":
    main()
