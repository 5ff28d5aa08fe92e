"""Times `rocwheel artifact import` and `rocwheel package` on a whole Debian release's ROCm, beside
what no program can beat.

The floor is measured in the same run: for the import, the packages unpacked by dpkg-deb on all
cores; for the packages, one read of all artifact bytes, one deflate on all cores and one write,
one after the other.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from measuring import MEGABYTE, Benchmark, Measured, measure, median, options, packages_in, size

# libdeflate's level that `--compression default` uses.
LEVEL = 5


class Package(Benchmark):
    columns = {"MB/s in": ".0f", "x floor": ".2f"}

    def package(self) -> Measured:
        force = ["--force"] if self.settings.split else []
        places = ("--artifacts", self.artifacts, "--output", self.output)
        return self.rocwheel("package", *places, "--shape", "split", *force)

    def row(self, name: str, figures: Measured, read: int = 0, **more: object) -> Measured:
        """`read` is how many bytes of input the time stands for."""
        return self.show(name, figures, read / MEGABYTE / figures.wall, more.get("ratio"), read=read, **more)

    def run(self) -> None:
        self.debs = packages_in(self.settings.debs)
        self.artifacts, self.output = self.work / "artifacts", self.work / "packages"
        packed = sum(deb.stat().st_size for deb in self.debs)
        self.head()
        floor = self.row("floor: dpkg-deb on all cores", self.unpack_floor(), packed)
        # Debian's runtime cannot read archives yet.
        split = ["--split", "--force"] if self.settings.split else []
        words = ("artifact", "import", *split, "--deb", *self.debs, "--output", self.artifacts)
        imported = self.repeat(self.rocwheel, *words, empty=self.artifacts)
        name = " ".join(["rocwheel artifact import", *split])
        self.row(name, imported, packed, ratio=imported.wall / floor.wall)

        raw = size(self.artifacts)
        floor = self.deflate_floor()
        made = self.repeat(self.package, empty=self.output)
        wheels = size(self.output / "dist", "*.whl")
        self.row("rocwheel package, from nothing", made, raw, ratio=made.wall / floor.wall, wheels=wheels)
        self.row("rocwheel package, nothing changed", self.repeat(self.package))
        self.row("rocwheel package, one GPU changed", self.changed())
        print(f"{len(self.debs)} packages, {packed / MEGABYTE:.0f} MB; artifacts {raw / MEGABYTE:.0f} MB; "
              f"wheels {wheels / MEGABYTE:.1f} MB in {len(list((self.output / 'dist').glob('*.whl')))} files")  # fmt: skip
        if self.settings.peer:
            self.peer()

    def unpack_floor(self) -> Measured:
        """Every package unpacked to one file by dpkg-deb, the largest first, as many at a time as
        there are cores."""
        scratch = self.work / "unpacked"
        scratch.mkdir()

        def unpack(deb: Path) -> Measured:
            with open(scratch / deb.name, "wb") as output:
                return measure("dpkg-deb", "--fsys-tarfile", deb, stdout=output)

        begin = time.monotonic()
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            runs = list(pool.map(unpack, sorted(self.debs, key=lambda deb: -deb.stat().st_size)))
        wall = time.monotonic() - begin
        shutil.rmtree(scratch)
        return Measured(
            wall, sum(run.user for run in runs), sum(run.system for run in runs), max(run.peak for run in runs)
        )

    def deflate_floor(self) -> Measured:
        """The three steps of the floor program, each in its row, and their sum."""
        command = [self.settings.floor, LEVEL, self.work / "scratch", self.artifacts]
        runs = [
            json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)
            for _ in range(self.settings.runs)
        ]
        total = 0.0
        for name in ("read", "deflate", "write"):
            seconds = statistics.median(run[name] for run in runs)
            total += seconds
            amount = runs[0]["output" if name == "write" else "input"]
            self.row(f"floor: one {name}", Measured(seconds, 0, 0, 0), amount)
        return self.row("floor: their sum", Measured(total, 0, 0, 0), runs[0]["input"], output=runs[0]["output"])

    def changed(self) -> Measured:
        """One more byte in one GPU's kernels, and back again."""
        kernel = max(
            (path for path in self.artifacts.glob("*_lib_gfx*/**/*") if path.is_file() and not path.is_symlink()),
            key=lambda path: (path.stat().st_size, path),
        )
        length = kernel.stat().st_size
        runs = []
        for _ in range(self.settings.runs):
            # Not read into this process: its peak would be counted as the child's.
            with open(kernel, "ab") as file:
                file.write(b"\0")
            runs.append(self.package())
            os.truncate(kernel, length)
            self.package()
        return median(runs)

    def peer(self) -> None:
        """Today's tool on the same artifacts: a checkout of TheRock, with its Python requirements
        in $PYTHON."""
        python = os.environ.get("PYTHON", "python3")
        script = Path(self.settings.peer) / "build_tools/build_python_packages.py"
        if not script.is_file():
            sys.exit(f"error: {script} is not there: PEER names a checkout of TheRock")
        destination, artifacts = self.work / "peer", self.work / "peer-artifacts"
        self.peer_artifacts(artifacts)
        with open(self.work / "peer.log", "wb") as log:
            figures = measure(
                python, script, "--artifact-dir", artifacts, "--dest-dir", destination, "--version", "0.1.0",
                stdout=log, stderr=log,
            )  # fmt: skip
        wheels = size(destination / "dist", "*.whl")
        self.row("build_python_packages.py", figures, size(self.artifacts), wheels=wheels)
        print(f"its wheels: {wheels / MEGABYTE:.1f} MB")

    def peer_artifacts(self, destination: Path) -> None:
        """The same files as hard links; the flag that asks for device wheels, and a profiler,
        without which the tool stops."""
        shutil.copytree(self.artifacts, destination, symlinks=True, copy_function=os.link)
        manifest = destination / "base_lib_generic/base/aux-overlay/stage/share/therock/therock_manifest.json"
        content = json.loads(manifest.read_text())
        content["flags"]["KPACK_SPLIT_ARTIFACTS"] = True
        manifest.unlink()
        manifest.write_text(json.dumps(content))
        profiler = destination / "rocprofiler-systems_run_generic"
        program = profiler / "rocprofiler-systems/stage/bin/rocprof-sys-run"
        program.parent.mkdir(parents=True)
        program.write_text("placeholder\n")
        (profiler / "artifact_manifest.txt").write_text("rocprofiler-systems/stage\n")


if __name__ == "__main__":
    parser = options(__doc__, runs=3)
    parser.add_argument("--floor", required=True, help="the built floor program")
    parser.add_argument("--debs", required=True, help="a folder of .deb files")
    parser.add_argument("--split", action="store_true", help="split the GPU code of libraries as they are imported")
    parser.add_argument("--peer", help="a checkout of TheRock to run beside it")
    Package(parser.parse_args()).start()
