"""Times `rocwheel choose`, an answer and a table, on the nights of an index with many GPUs.

In: the built binary. Out: a table on stdout and the same as JSON in a file. The index has a torch
for each night and Python, and a part of ROCm and torch for each night and GPU; one part in 50 is
missing. It is served by Python's http.server. Beside an answer there is `uv pip compile` of the
same packages, which is the floor: rocwheel asks uv. Figures are medians, without the first run,
which fills uv's cache. Peak memory is that of the largest process.
"""

import argparse
import http.server
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import asdict
from functools import partial
from pathlib import Path

from measuring import MEGABYTE, Measured, measure, median, options, write_figures

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/acceptance"))
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


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass


def show(results: dict[str, dict], name: str, runs: list[Measured]) -> None:
    middle = median(runs)
    results[name] = asdict(middle)
    bar = f"{BARS[name]:10.1f}{MEMORY_BAR:10}" if name in BARS else ""
    figures = f"{middle.wall:10.2f}{middle.user:10.2f}{middle.system:10.2f}{middle.peak / MEGABYTE:10.0f}"
    print(f"{name:28}{figures}{bar}", flush=True)


def main(settings: argparse.Namespace) -> None:
    shutil.rmtree(settings.work, ignore_errors=True)
    root = settings.work / "dist"
    make(root, settings.nights)
    index = [settings.rocwheel, "--quiet", "index", "build", root, "--now", "2026-11-20T00:00:00Z"]
    measure(*index, stdout=2)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=root))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/simple/"
    print(
        f"{len(list(root.glob('*.whl')))} files, {settings.nights} nights, {len(TARGETS)} GPUs, {len(PYTHONS)} Pythons"
    )
    print(f"{'':28}{'wall s':>10}{'user s':>10}{'sys s':>10}{'peak MB':>10}{'bar s':>10}{'bar MB':>10}", flush=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "UV_CACHE_DIR": str(settings.work / "cache"), "PATH": path}
    asked = settings.work / "asked.txt"
    asked.write_text(f"torch[device-{GPU}]\nrocm[device-{GPU}]\n")
    place = ["--python", sys.executable, "--python-platform", "x86_64-manylinux_2_36", "--prerelease", "allow"]
    uv = [
        Path(sys.executable).parent / "uv",
        "pip",
        "compile",
        "--quiet",
        "--no-config",
        "--index-url",
        address,
        *place,
        asked,
    ]
    choose = [settings.rocwheel, "--quiet", "--json", "choose", "torch", "--index", address]
    choose += ["--public-index", "no", "--system", "debian12"]
    one = [*choose, "--gpu", GPU, "--python", sys.executable]
    every = [word for gpu in TARGETS for word in ("--gpu", gpu)]
    results: dict[str, dict] = {}
    for name, command in {
        "floor: uv pip compile": uv,
        "choose --installer uv": [*one, "--installer", "uv"],
        "choose, all installers": one,
        "choose --table": [*choose, "--table", "--nights", 30, *every],
    }.items():
        runs = []
        for _ in range(settings.runs + 1):
            runs.append(
                measure("sh", "-c", '"$@" || [ $? -eq 1 ]', "sh", *command, env=environment, stdout=subprocess.DEVNULL)
            )
        show(results, name, runs[1:])
    server.shutdown()
    write_figures(settings, results)


if __name__ == "__main__":
    parser = options(__doc__, runs=3)
    parser.add_argument("--nights", type=int, default=40)
    main(parser.parse_args())
