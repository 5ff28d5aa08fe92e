"""Times `rocwheel source hipify` beside the original on the same trees in the same run.

In: the built binary and the folder of scripts/fetch-sources. Out: a table on stdout and the same as
JSON in a file. Every run is on a fresh copy of the tree with its files in the page cache, ours and
the original's in turn; figures are medians. The two results are compared byte for byte before
anything is printed. Peak memory is the kernel's ru_maxrss. MB/s are bytes of the sources that were
looked at.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from measuring import MEGABYTE, Measured, measure, median, options, write_figures

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/acceptance"))
import hipify_original


class Benchmark:
    def __init__(self, settings: argparse.Namespace) -> None:
        self.settings = settings
        self.work = settings.work
        self.sources = Path(settings.sources).resolve()
        self.results: dict[str, dict] = {}
        self.environment = {key: value for key, value in os.environ.items() if key != "HIP_PATH"}
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"

    def run(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        (self.work / "hip/lib").mkdir(parents=True)
        (self.work / "hip/lib/.hipInfo").write_text("HIP_COMPILER=clang\n")
        second = self.copy(self.sources / "pytorch", "second")
        hipify_original.second_algorithm(second, self.sources / "torch/utils/hipify")
        print(f"{'':44}{'wall s':>10}{'user s':>10}{'sys s':>10}{'peak MB':>10}{'MB/s':>10}{'ratio':>8}", flush=True)
        pytorch = [sys.executable, "tools/amd_build/build_amd.py"], []
        self.compare("PyTorch 2.6, v1, launches converted", self.sources / "pytorch", *pytorch)
        self.compare("PyTorch 2.6, v1, launches kept", self.sources / "pytorch", *pytorch, hip=self.work / "hip")
        self.compare("PyTorch 2.6, v2", second, *pytorch)
        for name in ("vision", "audio"):
            package = self.sources / "torch/utils/hipify"
            original = [sys.executable, hipify_original.__file__, package, ".", "", ""]
            self.compare(f"{name}, extension, v2", self.sources / name, original, ["--tables", package])
        write_figures(self.settings, self.results)

    def copy(self, tree: Path, name: str) -> Path:
        target = self.work / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(tree, target, symlinks=True)
        return target

    def compare(self, name: str, tree: Path, original: list, options: list, hip: Path | None = None) -> None:
        environment = self.environment | {"HIP_PATH": str(hip or self.work / "nothing")}
        theirs, ours, said = [], [], {}
        for _ in range(self.settings.runs):
            target = self.copy(tree, "original")
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            theirs.append(measure(*original, cwd=target, env=environment, **quiet))
            target = self.copy(tree, "ours")
            command = [self.settings.rocwheel, "--no-progress", "source", "hipify", target, *options]
            ours.append(measure(*command, env=environment, **quiet))
            subprocess.run(
                ["diff", "--recursive", "--brief", "--no-dereference", "--exclude=__pycache__", "original", "ours"],
                cwd=self.work,
                check=True,
            )
        again = self.copy(tree, "ours")
        command = [self.settings.rocwheel, "source", "hipify", again, *options, "--dry-run", "--json"]
        done = subprocess.run(list(map(str, command)), env=environment, check=True, capture_output=True)
        said = json.loads(done.stdout)["counts"]
        self.show(f"{name}: original", median(theirs), said)
        self.show(f"{name}: rocwheel", median(ours), said, median(theirs).wall / median(ours).wall)

    def show(self, name: str, figures: Measured, counts: dict, ratio: float | None = None) -> None:
        self.results[name] = {**asdict(figures), "counts": counts, "ratio": ratio}
        times = "".join(f"{value:10.2f}" for value in (figures.wall, figures.user, figures.system))
        speed = counts["source_bytes"] / MEGABYTE / figures.wall
        shown = f"{ratio:8.1f}" if ratio else ""
        print(f"{name:<44}{times}{figures.peak / MEGABYTE:10.0f}{speed:10.1f}{shown}", flush=True)


def main() -> None:
    parser = options(__doc__, runs=5)
    parser.add_argument("--sources", required=True, help="the folder that scripts/fetch-sources filled")
    Benchmark(parser.parse_args()).run()


if __name__ == "__main__":
    main()
