"""Times `rocwheel repair`, `edit` and `audit` beside the tools people use for it today, in one run
on the same files.

MB/s are bytes of the input
(for repair: of the libraries that are bundled) by seconds; the ratio is to the row that is named.

The wheel to repair has one extension module, linked against Debian's rocBLAS: the closure that is
bundled is one library of 450 MB and what it needs.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from measuring import MEGABYTE, Benchmark, Measured, measure, median, options, packages_in
from small_wheels import pack

LIBRARY = "librocblas.so.0"
VERSION = "99.0"
NAME = "bench_native"
# Of the machine, whatever its release: the peers bundle none of them either.
SYSTEM = ("libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "ld-linux", "libstdc++.so", "libgcc_s.so")


class Audit(Benchmark):
    columns = {"MB/s": ".0f", "out MB": ".1f", "ratio": ".2f"}

    def run(self) -> None:
        self.head()
        for step in self.settings.only or ("repair", "edit", "audit"):
            getattr(self, step)()

    def timed(
        self, name: str, make: Callable[[Path], tuple[list, dict]], read: int, base: Measured | None = None
    ) -> Measured:
        """Runs what `make` gives: a command, a folder for its output that is emptied first, an
        environment."""
        runs = []
        output = self.work / "output"
        for _ in range(self.settings.runs):
            shutil.rmtree(output, ignore_errors=True)
            output.mkdir()
            command, environment = make(output)
            with open(self.work / "log", "ab") as log:
                runs.append(measure(*command, stdout=log, stderr=log, env={**os.environ, **environment}))
        figures = median(runs)
        written = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
        sizes = (read / MEGABYTE / figures.wall, written / MEGABYTE)
        ratio = figures.wall / base.wall if base else None
        return self.show(name, figures, *sizes, ratio, read=read, written=written)

    def words(self, *arguments: object) -> list[object]:
        return [self.settings.rocwheel, "--quiet", "--no-progress", *arguments]

    def peer(self, name: str) -> Path:
        return Path(self.settings.peers) / "bin" / name

    def repair(self) -> None:
        libraries = self.libraries()
        wheel = self.native(libraries)
        read = sum(path.stat().st_size for path in libraries.iterdir() if not path.is_symlink())
        # Of the three only repairwheel takes folders; the others look where the loader would.
        search = {"LD_LIBRARY_PATH": str(libraries)}
        path = {"PATH": f"{self.settings.peers}/bin:{os.environ['PATH']}"}

        def auditwheel(output: Path) -> tuple[list[object], dict]:
            return [self.peer("auditwheel"), "repair", "--wheel-dir", output, wheel], {**search, **path}

        def repairwheel(output: Path) -> tuple[list[object], dict]:
            return [self.peer("repairwheel"), "--output-dir", output, "--lib-dir", libraries, wheel], path

        def ours(output: Path) -> tuple[list[object], dict]:
            command = self.words("repair", "--mode", "graft", "--lib-path", libraries, "--output", output, wheel)
            return command, {}

        base = self.timed("repair: auditwheel", auditwheel, read)
        self.timed("repair: repairwheel", repairwheel, read, base)
        self.timed("repair: rocwheel --mode graft", ours, read, base)

    def libraries(self) -> Path:
        """The closure of the library in a folder, from the packages."""
        tree = self.work / "tree"
        for package in packages_in(self.settings.debs):
            subprocess.run(["dpkg-deb", "--extract", package, tree], check=True)
        files = {path.name: path for path in sorted(tree.rglob("*.so*")) if path.exists()}
        folder = self.work / "libraries"
        folder.mkdir()
        wanted = [LIBRARY]
        while wanted:
            name = wanted.pop()
            if name.startswith(SYSTEM) or (folder / name).exists():
                continue
            if name not in files:
                sys.exit(f"error: no package in {self.settings.debs} has {name}")
            shutil.copy(files[name].resolve(), folder / name)
            said = subprocess.run(["readelf", "-dW", folder / name], check=True, capture_output=True, text=True).stdout
            wanted += [line.split("[")[1].rstrip("]") for line in said.splitlines() if "(NEEDED)" in line]
        shutil.rmtree(tree)
        return folder

    def native(self, libraries: Path) -> Path:
        """A wheel with one extension module that needs the library."""
        source, module = self.work / "native.c", self.work / "_native.cpython-312-x86_64-linux-gnu.so"
        source.write_text("void *PyInit__native(void) { return 0; }\n")
        link = ["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", f"-l:{LIBRARY}", f"-L{libraries}"]
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", module, source, *link], check=True)
        members = {f"{NAME}/__init__.py": b"", f"{NAME}/{module.name}": module.read_bytes()}
        return pack(self.work, NAME, "1.0", members, tag="cp312-cp312-linux_x86_64", hashed=True, packed=True)

    def edit(self) -> None:
        wheel = Path(self.settings.wheel)
        read = wheel.stat().st_size

        def copy(output: Path) -> tuple[list[object], dict]:
            return ["cp", "--reflink=never", wheel, output], {}

        def unpack(output: Path) -> tuple[list[object], dict]:
            return ["bash", "-c", UNPACK_AND_PACK, "-", self.peer("python"), wheel, VERSION, output], {}

        def change(output: Path) -> tuple[list[object], dict]:
            # It deletes its input unless it cannot.
            copied = output / wheel.name
            shutil.copy(wheel, copied)
            return [self.peer("python"), "-m", "change_wheel_version", "--version", VERSION, copied], {}

        def ours(output: Path) -> tuple[list[object], dict]:
            return self.words("edit", wheel, "--version", VERSION, "--output", output), {}

        base = self.timed("edit: cp", copy, read)
        self.timed("edit: wheel unpack, wheel pack", unpack, read, base)
        self.timed("edit: change_wheel_version", change, read, base)
        self.timed("edit: rocwheel edit --version", ours, read, base)

    def audit(self) -> None:
        wheels = sorted(Path(self.settings.set).glob("*.whl"))
        read = sum(wheel.stat().st_size for wheel in wheels)
        if not wheels:
            sys.exit(f"error: no wheels in {self.settings.set}")
        cache = {"ROCWHEEL_CACHE": str(self.work / "cache")}
        kinds = {"with hashes": ["--no-cache"], "without hashes": ["--no-cache", "--no-hashes"], "again": []}
        for name, more in kinds.items():
            # The set has no errors; findings would end the benchmark here.
            command = self.words("audit", *more, *wheels)
            if name == "again":
                # Hashes of wheels count from the third audit on if the wheels are seconds old.
                for _ in range(2):
                    measure(*command, stdout=subprocess.DEVNULL, env={**os.environ, **cache})
            self.timed(f"audit: the set, {name}", lambda _, command=command: (command, cache), read)


# As people do it by hand: METADATA and the folder's name have the version, `wheel pack` writes
# RECORD anew.
UNPACK_AND_PACK = """
set -eu
python=$1 wheel=$2 version=$3 output=$4
"$python" -m wheel unpack --dest "$output/tree" "$wheel"
cd "$output"/tree/*
for info in *.dist-info; do
    sed -i "s/^Version: .*/Version: $version/" "$info/METADATA"
    mv "$info" "${info%-*}-$version.dist-info"
done
"$python" -m wheel pack --dest-dir "$output" .
rm -rf "$output/tree"
"""


if __name__ == "__main__":
    parser = options(__doc__, runs=3)
    parser.add_argument("--debs", required=True, help="a folder of Debian 13's .deb files")
    parser.add_argument("--wheel", required=True, help="a wheel to change the version of")
    parser.add_argument("--set", required=True, help="a folder of wheels that belong together")
    parser.add_argument(
        "--peers", required=True, help="a Python environment with auditwheel, repairwheel, wheel and others"
    )
    parser.add_argument("--only", nargs="*", choices=("repair", "edit", "audit"), help="all when left out")
    Audit(parser.parse_args()).start()
