"""Times `rocwheel edit` of wheels beside `cp` of the same files, in turns.

With `--peer` also `wheel tags` of the Python package `wheel`, once for each wheel: it packs
everything again.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from measuring import MEGABYTE, Benchmark, Measured, measure, median, options

EDITS = {"edit --metadata": ["--metadata", "Summary=changed"], "edit --version": ["--version", "9999.1"]}


class Edit(Benchmark):
    columns = {"x cp": ".2f"}

    def run(self) -> None:
        for wheel in self.settings.wheels:
            results: dict[str, list[Measured]] = {}
            for _ in range(self.settings.runs):
                results.setdefault("cp", []).append(self.into("cp", wheel))
                for name, words in EDITS.items():
                    results.setdefault(name, []).append(
                        self.into(self.settings.rocwheel, "edit", wheel, *words, "--output")
                    )
            if self.settings.peer:
                copy = Path(shutil.copy(wheel, self.work))
                command = [sys.executable, "-m", "wheel", "tags", "--build", "1", copy]
                results["wheel tags"] = [measure(*command, stdout=subprocess.DEVNULL)]
            copied = median(results["cp"]).wall
            print(f"{wheel.name}, {wheel.stat().st_size / MEGABYTE:.0f} MB, median of {self.settings.runs}")
            self.head()
            shown, self.results = self.results, {}
            for name, runs in results.items():
                self.show(name, median(runs), median(runs).wall / copied)
            self.results = {**shown, wheel.name: self.results}

    def into(self, *command: object) -> Measured:
        """Runs a program that writes into an empty folder, its last argument."""
        output = self.work / "output"
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir()
        return measure(*command, output, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    parser = options(__doc__, runs=11)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("wheels", type=Path, nargs="+")
    Edit(parser.parse_args()).start()
