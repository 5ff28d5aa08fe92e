"""Times `rocwheel choose`, an answer and a table, on the nights of an index with many GPUs.

The index has a torch for each night and Python, and a part of ROCm and torch for each night and
GPU; one part in 50 is missing. It is served by Python's http.server. Beside an answer there is `uv
pip compile` of the same packages, which is the floor: rocwheel asks uv. The first run, which fills
uv's cache, is not counted.
"""

import os
import subprocess
import sys
from pathlib import Path

from measuring import Benchmark, measure, options
from serving import Answers, served
from small_wheels import write_wheel

LINUX = "py3-none-manylinux_2_28_x86_64"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
TARGETS = (
    "gfx906 gfx908 gfx90a gfx942 gfx950 gfx1010 gfx1012 gfx1030 gfx1031 gfx1032 gfx1100 gfx1101 gfx1102 gfx1103 "
    "gfx1150 gfx1151 gfx1152 gfx1153 gfx1200 gfx1201"
).split()
NIGHT, GPU = "2.11.0a{date}+rocm7.13.0a{date}", "gfx1100"
MISSING = 50
# Seconds.
BARS = {"choose --installer uv": 1.0, "choose --table": 10.0}
MEMORY_BAR = 200  # MB


def make(root: Path, nights: int) -> None:
    for night in range(nights):
        date = 20261001 + night % 30 + 100 * (night // 30)
        rocm, torch = f"7.13.0a{date}", NIGHT.format(date=date)
        for name in ("rocm-sdk-core", "rocm-sdk-libraries"):
            write_wheel(root, name, rocm, tag=LINUX)
        of_rocm = [f'rocm-sdk-device-{gpu}=={rocm}; extra == "device-{gpu}"' for gpu in TARGETS]
        libraries = f'rocm-sdk-libraries=={rocm}; extra == "libraries"'
        write_wheel(root, "rocm", rocm, f"rocm-sdk-core=={rocm}", libraries, *of_rocm)
        parts = [f'amd-torch-device-{gpu}=={torch}; extra == "device-{gpu}"' for gpu in TARGETS]
        for number, gpu in enumerate(TARGETS):
            write_wheel(root, f"rocm-sdk-device-{gpu}", rocm, tag=LINUX)
            if (night * len(TARGETS) + number) % MISSING:
                write_wheel(root, f"amd-torch-device-{gpu}", torch, tag=LINUX)
        for python in PYTHONS:
            tag = f"cp{python.replace('.', '')}"
            needs = (f"rocm[libraries]=={rocm}", *parts)
            write_wheel(root, "torch", torch, *needs, tag=f"{tag}-{tag}-manylinux_2_28_x86_64")


class Kept(Answers):
    """Connections stay, as with a real server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True


class Choose(Benchmark):
    columns = {"bar s": ".1f", "bar MB": ".0f"}

    def run(self) -> None:
        root = self.work / "dist"
        make(root, self.settings.nights)
        self.rocwheel("index", "build", root, "--now", "2026-11-20T00:00:00Z")
        files = len(list(root.glob("*.whl")))
        print(f"{files} files, {self.settings.nights} nights, {len(TARGETS)} GPUs, {len(PYTHONS)} Pythons")
        self.head()
        with served(root, Kept) as address:
            for name, command in self.commands(f"{address}/simple/").items():
                path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
                environment = {**os.environ, "UV_CACHE_DIR": str(self.work / "uv"), "PATH": path}
                words = ("sh", "-c", '"$@" || [ $? -eq 1 ]', "sh", *command)
                quiet = {"env": environment, "stdout": subprocess.DEVNULL}
                measure(*words, **quiet)
                bars = (BARS[name], MEMORY_BAR) if name in BARS else ()
                self.show(name, self.repeat(measure, *words, **quiet), *bars)

    def commands(self, address: str) -> dict[str, list[object]]:
        asked = self.work / "asked.txt"
        asked.write_text(f"torch[device-{GPU}]\nrocm[device-{GPU}]\n")
        uv = [Path(sys.executable).parent / "uv", *"pip compile --quiet --no-config --index-url".split(), address]
        uv += ["--python", sys.executable, *"--python-platform x86_64-manylinux_2_36 --prerelease allow".split(), asked]
        choose = [self.settings.rocwheel, *"--quiet --json choose torch --index".split(), address]
        choose += "--public-index no --system debian12".split()
        one = [*choose, "--gpu", GPU, "--python", sys.executable]
        every = [word for gpu in TARGETS for word in ("--gpu", gpu)]
        return {
            "floor: uv pip compile": uv,
            "choose --installer uv": [*one, "--installer", "uv"],
            "choose, all installers": one,
            "choose --table": [*choose, "--table", "--nights", 30, *every],
        }


if __name__ == "__main__":
    parser = options(__doc__, runs=3)
    parser.add_argument("--nights", type=int, default=40)
    Choose(parser.parse_args()).start()
