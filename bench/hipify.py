"""Times `rocwheel source hipify` beside the original on the same trees in the same run.

Every run is on a fresh copy of the tree, ours and the original's in turn. The two results are
compared byte for byte before anything is printed. MB/s are bytes of the sources that were looked
at.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from measuring import MEGABYTE, Benchmark, measure, median, options

import hipify_original


class Hipify(Benchmark):
    columns = {"MB/s": ".1f", "ratio": ".1f"}

    def run(self) -> None:
        self.sources = Path(self.settings.sources).resolve()
        self.environment = {key: value for key, value in os.environ.items() if key != "HIP_PATH"}
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"
        (self.work / "hip/lib").mkdir(parents=True)
        (self.work / "hip/lib/.hipInfo").write_text("HIP_COMPILER=clang\n")
        second = self.copy(self.sources / "pytorch", "second")
        hipify_original.second_algorithm(second, self.sources / "torch/utils/hipify")
        self.head()
        pytorch = [sys.executable, "tools/amd_build/build_amd.py"], []
        self.compare("PyTorch 2.6, v1, launches converted", self.sources / "pytorch", *pytorch)
        self.compare("PyTorch 2.6, v1, launches kept", self.sources / "pytorch", *pytorch, hip=self.work / "hip")
        self.compare("PyTorch 2.6, v2", second, *pytorch)
        for name in ("vision", "audio"):
            package = self.sources / "torch/utils/hipify"
            original = [sys.executable, hipify_original.__file__, package, ".", "", ""]
            self.compare(f"{name}, extension, v2", self.sources / name, original, ["--tables", package])

    def copy(self, tree: Path, name: str) -> Path:
        target = self.work / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(tree, target, symlinks=True)
        return target

    def compare(self, name: str, tree: Path, original: list, options: list, hip: Path | None = None) -> None:
        environment = self.environment | {"HIP_PATH": str(hip or self.work / "nothing")}
        theirs, ours = [], []
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
        megabytes = said["source_bytes"] / MEGABYTE
        original, own = median(theirs), median(ours)
        ratio = original.wall / own.wall
        self.show(f"{name}: original", original, megabytes / original.wall, counts=said)
        self.show(f"{name}: rocwheel", own, megabytes / own.wall, ratio, counts=said, ratio=ratio)


if __name__ == "__main__":
    parser = options(__doc__, runs=5)
    parser.add_argument("--sources", required=True, help="the folder that scripts/fetch-sources filled")
    Hipify(parser.parse_args()).start()
