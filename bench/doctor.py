"""Times `rocwheel doctor` on a copy of a machine with 65 nodes and an environment of 400 packages.

The machine is that of the acceptance tests, eight MI300X in the mode CPX. The packages are those of
a ROCm with the kernels of a GPU, a torch, and others with 40 Python files each.
"""

from pathlib import Path

from measuring import Benchmark, options

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


class Doctor(Benchmark):
    def run(self) -> None:
        machine = make(self.work)
        self.head()
        for name, words in {"65 nodes": [], "65 nodes and 400 packages": ["--venv", machine.venv]}.items():
            self.show(name, self.repeat(self.rocwheel, "doctor", "--root", machine.root, *words))


if __name__ == "__main__":
    Doctor(options(__doc__, runs=9).parse_args()).start()
