"""Times `rocwheel package`, `artifact archive`, `split` and `kernels` on one core, two, four and
so on, up to all that this machine has.

Without artifacts, real libraries of this machine stand for them: any Linux machine has some. A
program gets its cores from the kernel (sched_setaffinity), as in a container or a job of Slurm;
nothing tells it otherwise. Speed-up is the time on one core over the time on N; efficiency is that
over N.
"""

import hashlib
import json
import os
import sys
from functools import partial
from pathlib import Path

from measuring import MEGABYTE, Benchmark, options, size

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


class Scaling(Benchmark):
    columns = {"MB/s": ".0f", "speed-up": ".2f", "efficiency": ".0%"}

    def curve(self, name: str, read: int, *arguments: object) -> None:
        """One row for each number of cores; `read` is how many bytes of input the time is for."""
        one = 0.0
        every = sorted(os.sched_getaffinity(0))
        for cores in self.settings.cores or counts(len(every)):
            bound = {"preexec_fn": partial(os.sched_setaffinity, 0, every[:cores])}
            with (self.work / "messages").open("w") as messages:
                words = (self.rocwheel, "--no-config", *arguments)
                figures = self.repeat(*words, empty=self.work / "output", stderr=messages, **bound)
            one = one or figures.wall * cores
            speedup = one / figures.wall
            more = {"cores": cores, "read": read, "speedup": speedup}
            speed = read / MEGABYTE / figures.wall
            self.show(f"{name}, {cores} cores", figures, speed, speedup, speedup / cores, **more)

    def run(self) -> None:
        output = self.work / "output"
        artifacts = self.settings.artifacts
        if artifacts is None:
            artifacts = self.work / "artifacts"
            files = libraries(self.settings.libraries, self.settings.megabytes * 1_000_000)
            if not files:
                sys.exit(f"error: no libraries in {', '.join(map(str, self.settings.libraries))}")
            write_artifacts(artifacts, files)
        raw = size(artifacts)
        print(
            f"{len(os.sched_getaffinity(0))} cores; artifacts {raw / MEGABYTE:.0f} MB in {len(list(artifacts.rglob('*')))} files"
        )
        self.head()
        package = ("package", "--artifacts", artifacts, "--output", output, "--no-reuse", "--no-audit")
        self.curve("package", raw, *package)
        self.curve("artifact archive", raw, "artifact", "archive", artifacts, "--output", output)
        if self.settings.wheels:
            packed = sum(wheel.stat().st_size for wheel in self.settings.wheels)
            self.curve("split", packed, "split", *self.settings.wheels, "--output", output)
            self.curve("kernels", packed, "kernels", *self.settings.wheels)


if __name__ == "__main__":
    parser = options(__doc__, runs=3)
    parser.add_argument("--cores", type=int, nargs="+", help="numbers of cores; the default is 1, 2, 4 … and all")
    parser.add_argument("--artifacts", type=Path, help="a folder of artifacts")
    parser.add_argument("--libraries", type=Path, nargs="+", default=[Path("/usr")], help="folders of real libraries")
    parser.add_argument("--megabytes", type=int, default=2000, help="how much of them stands for artifacts")
    parser.add_argument("--wheels", type=Path, nargs="*", default=[], help="wheels with GPU code")
    Scaling(parser.parse_args()).start()
