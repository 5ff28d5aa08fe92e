"""Times `rocwheel package`, `artifact archive`, `split` and `kernels` on one core, two, four and so
on, up to all that this machine has.

In: the built binary; optionally artifacts, and wheels with GPU code. Without artifacts, real
libraries of this machine stand for them: any Linux machine has some. Out: a table on stdout and the
same as JSON in a file. A program gets its cores from the kernel (sched_setaffinity), as in a
container or a job of Slurm; nothing tells it otherwise. Each figure is the median of several runs
with the files in the page cache. Speed-up is the time on one core over the time on N; efficiency is
that over N.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from measuring import MEGABYTE, Measured, measure, median, options, size, write_figures

# Where data files of rocBLAS lie in its artifact.
BASE = "math-libs/BLAS/rocBLAS/stage"


def libraries(folders: list[Path], most: int) -> list[Path]:
    """ELF files of at least 256 KiB with `most` bytes in all, in an order that is not the file
    system's; files with the same bytes once."""
    found: dict[bytes, Path] = {}
    total = 0
    files = (path for folder in folders for path in folder.rglob("*.so*") if path.is_file() and not path.is_symlink())
    for path in sorted(files, key=lambda path: hashlib.sha256(str(path).encode()).digest()):
        length = path.stat().st_size
        if length < 256 << 10 or total + length > most:
            continue
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").digest()
        if digest not in found:
            found[digest] = path
            total += length
    return list(found.values())


def write_base(root: Path, targets: list[str]) -> None:
    """The artifact that says which ROCm this is, and for which GPU targets."""
    base = root / "base_lib_generic/base/aux-overlay/stage/share/therock"
    base.mkdir(parents=True)
    (base.parents[5] / "base_lib_generic/artifact_manifest.txt").write_text("base/aux-overlay/stage\n")
    versions = {"rocm_version": "7.1.0", "rocm_package_version": "7.1.0", "the_rock_commit": None, "submodules": []}
    (base / "therock_manifest.json").write_text(json.dumps(versions))
    (base / "dist_info.json").write_text(json.dumps({"dist_amdgpu_targets": ";".join(targets)}))


def write_artifacts(root: Path, files: list[Path]) -> None:
    """The files as data of rocBLAS. Each begins with another word than an ELF file: what it needs
    is no concern of a packager."""
    write_base(root, ["gfx942"])
    library = root / "blas_lib_generic" / BASE / "lib/rocblas/library"
    library.mkdir(parents=True)
    (root / "blas_lib_generic/artifact_manifest.txt").write_text(f"{BASE}\n")
    for number, path in enumerate(files):
        (library / f"TensileLibrary_{number}.dat").write_bytes(b"database" + path.read_bytes())


def counts(cores: int) -> list[int]:
    """1, 2, 4 … and all."""
    return sorted({*(1 << power for power in range(cores.bit_length())), cores})


class Benchmark:
    def __init__(self, settings: argparse.Namespace) -> None:
        self.settings = settings
        self.work: Path = settings.work
        self.cores = sorted(os.sched_getaffinity(0))
        self.results: list[dict] = []

    def rocwheel(self, cores: int, *arguments: object) -> Measured:
        chosen = self.cores[:cores]
        with (self.work / "messages").open("w") as messages:
            return measure(
                *(self.settings.rocwheel, "--quiet", "--no-progress", "--no-config", *arguments),
                stdout=subprocess.DEVNULL,
                stderr=messages,
                env={**os.environ, "ROCWHEEL_CACHE": str(self.work / "cache")},
                preexec_fn=lambda: os.sched_setaffinity(0, chosen),
            )

    def curve(self, name: str, read: int, *arguments: object) -> None:
        """One row for each number of cores; `read` is how many bytes of input the time is for."""
        one = 0.0
        for cores in self.settings.cores or counts(len(self.cores)):
            runs = []
            for _ in range(self.settings.runs):
                shutil.rmtree(self.work / "output", ignore_errors=True)
                runs.append(self.rocwheel(cores, *arguments))
            figures = median(runs)
            one = one or figures.wall * cores
            speedup = one / figures.wall
            self.results.append({"name": name, "cores": cores, "read": read, "speedup": speedup, **asdict(figures)})
            print(
                f"{name:<18}{cores:6}{figures.wall:9.2f}{figures.user + figures.system:9.2f}"
                f"{figures.peak / MEGABYTE:9.0f}{read / MEGABYTE / figures.wall:9.0f}{speedup:10.2f}{speedup / cores:12.0%}",
                flush=True,
            )

    def run(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        output = self.work / "output"
        artifacts = self.settings.artifacts
        if artifacts is None:
            artifacts = self.work / "artifacts"
            files = libraries(self.settings.libraries, self.settings.megabytes * 1_000_000)
            if not files:
                sys.exit(f"error: no libraries in {', '.join(map(str, self.settings.libraries))}")
            write_artifacts(artifacts, files)
        raw = size(artifacts)
        print(f"{len(self.cores)} cores; artifacts {raw / MEGABYTE:.0f} MB in {len(list(artifacts.rglob('*')))} files")
        print(
            f"{'':18}{'cores':>6}{'wall s':>9}{'cpu s':>9}{'peak MB':>9}{'MB/s':>9}{'speed-up':>10}{'efficiency':>12}"
        )
        package = ("package", "--artifacts", artifacts, "--output", output, "--no-reuse", "--no-audit")
        self.curve("package", raw, *package)
        self.curve("artifact archive", raw, "artifact", "archive", artifacts, "--output", output)
        if self.settings.wheels:
            packed = sum(wheel.stat().st_size for wheel in self.settings.wheels)
            self.curve("split", packed, "split", *self.settings.wheels, "--output", output)
            self.curve("kernels", packed, "kernels", *self.settings.wheels)
        write_figures(self.settings, self.results)


def main() -> None:
    parser = options(__doc__, runs=3)
    parser.add_argument("--cores", type=int, nargs="+", help="numbers of cores; the default is 1, 2, 4 … and all")
    parser.add_argument("--artifacts", type=Path, help="a folder of artifacts")
    parser.add_argument("--libraries", type=Path, nargs="+", default=[Path("/usr")], help="folders of real libraries")
    parser.add_argument("--megabytes", type=int, default=2000, help="how much of them stands for artifacts")
    parser.add_argument("--wheels", type=Path, nargs="*", default=[], help="wheels with GPU code")
    Benchmark(parser.parse_args()).run()


if __name__ == "__main__":
    main()
