"""Times `rocwheel split` on real ROCm wheels and on Debian 12's librocsparse, beside what no
program can beat.

MB/s are bytes of GPU code, decompressed, by seconds. The floor is measured in the same run: one
read, one inflation of what holds GPU code, one zstd level 3 of the code objects, one deflate of
the host parts and one write, one after the other. The check that split ends with is in the first
row of each input and not in the second.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import zipfile
from pathlib import Path

from measuring import MEGABYTE, Benchmark, Measured, measure, options, size

STEPS = ("read", "inflate", "decompress", "zstd", "deflate", "write")
LIBRARY = "librocsparse"


class Split(Benchmark):
    columns = {"MB/s code": ".0f", "x floor": ".2f"}

    def run(self) -> None:
        self.output = self.work / "output"
        inputs = {path.name.split("-")[0]: path for path in sorted(Path(self.settings.wheels).glob("*.whl"))}
        if self.settings.debs:
            inputs[LIBRARY] = self.artifact()
        wanted = self.settings.only or list(inputs)
        missing = sorted(set(wanted) - set(inputs))
        if missing:
            sys.exit(f"error: no {', '.join(missing)} among {', '.join(inputs)}")
        self.head()
        for name in wanted:
            self.split(name, inputs[name])

    def split(self, name: str, path: Path) -> None:
        floor, total = self.floor(path)
        self.row(f"{name}: floor", Measured(total, 0, 0, 0), floor["code"], steps=floor)
        for label, arguments in (("rocwheel split", []), ("rocwheel split --no-verify", ["--no-verify"])):
            words = ("split", path, "--output", self.output, *arguments)
            figures = self.repeat(self.rocwheel, *words, empty=self.output)
            self.row(f"{name}: {label}", figures, floor["code"], ratio=figures.wall / total, output=size(self.output))
        shutil.rmtree(self.output)
        if self.settings.peer:
            self.peer(name, path, floor["code"])

    def floor(self, path: Path) -> tuple[dict, float]:
        """The floor program's sizes and steps, each the median of the runs, and the steps' sum."""
        library = next((file for file in path.rglob("*.so*") if file.is_file() and not file.is_symlink()), path)
        runs = []
        for _ in range(self.settings.runs):
            command = [self.settings.floor, self.work / "scratch", library]
            done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
            runs.append(json.loads(done.stdout))
        floor = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        return floor, sum(floor[step] for step in STEPS)

    def artifact(self) -> Path:
        """Debian's package as an artifact of one library."""
        debs = sorted(Path(self.settings.debs).glob(f"{LIBRARY}0_*.deb"))
        if not debs:
            sys.exit(f"error: no {LIBRARY}0 package in {self.settings.debs}")
        unpacked = self.work / "deb"
        subprocess.run(["dpkg-deb", "--extract", debs[0], unpacked], check=True)
        root = self.work / "artifacts" / "blas_lib_debian"
        library = root / "math-libs/rocSPARSE/stage/lib"
        library.mkdir(parents=True)
        for path in unpacked.rglob(f"{LIBRARY}.so*"):
            path.rename(library / path.name)
        shutil.rmtree(unpacked)
        (root / "artifact_manifest.txt").write_text("math-libs/rocSPARSE/stage\n")
        return root

    def peer(self, name: str, path: Path, code: float) -> None:
        """Today's splitter of artifacts: a checkout of rocm-kpack, with its Python requirements in
        $PYTHON.

        It knows no wheels, so it gets the unpacked members as an artifact: unpacking and packing
        are not in its time.
        """
        artifact = path
        if path.is_file():
            artifact = self.work / "peer-artifact"
            with zipfile.ZipFile(path) as wheel:
                wheel.extractall(artifact / "wheel/stage")
            (artifact / "artifact_manifest.txt").write_text("wheel/stage\n")
        output = self.work / "peer-output"
        environment = {**os.environ, "PYTHONPATH": str(Path(self.settings.peer, "python").resolve())}
        command = [os.environ.get("PYTHON", "python3"), "-m", "rocm_kpack.tools.split_artifacts"]
        command += ["--artifact-dir", artifact, "--artifact-prefix", "bench_lib", "--output-dir", output]
        command += ["--tmp-dir", self.work]
        try:
            with open(self.work / f"peer-{name}.log", "wb") as log:
                figures = measure(*command, stdout=log, stderr=log, env=environment)
            self.row(f"{name}: split_artifacts.py", figures, code, output=size(output))
        except SystemExit as error:
            print(f"{name}: split_artifacts.py failed: {error}", flush=True)
            self.results[f"{name}: split_artifacts.py"] = {"failed": str(error)}
        shutil.rmtree(output, ignore_errors=True)
        if path.is_file():
            shutil.rmtree(artifact)

    def row(self, name: str, figures: Measured, code: float, **more: object) -> None:
        self.show(name, figures, code / MEGABYTE / figures.wall, more.get("ratio"), code=code, **more)


if __name__ == "__main__":
    parser = options(__doc__, runs=3)
    parser.add_argument("--floor", required=True, help="the built split-floor program")
    parser.add_argument("--wheels", required=True, help="a folder of wheels with GPU code")
    parser.add_argument("--debs", help="a folder of Debian 12's .deb files, for its librocsparse")
    parser.add_argument("--only", nargs="*", help="names of inputs, for example jax_rocm7_pjrt; all when left out")
    parser.add_argument("--peer", help="a checkout of rocm-kpack to run beside it")
    Split(parser.parse_args()).start()
