"""Loads every library of an installed set, each in a process of its own, and looks at where the
loader took what from.

Runs on the environment's own interpreter, with the standard library alone, also in a root that has
nothing else. Prints JSON:

    {"loaded": 35, "skipped": {"PATH": "reason"}, "unlisted": [], "failed": {"PATH": "message"},
    "outside": {"PATH": []}}

`outside` lists objects that came neither from the environment nor from the system libraries that
every manylinux platform has: with a system ROCm in place, a library can load and still be broken.
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

# The part of the manylinux policies' list that ROCm has a use for (PEP 600).
SYSTEM = {
    "ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6",
    "libpthread.so.0", "librt.so.1", "libstdc++.so.6",
}  # fmt: skip

LOAD = """
import ctypes, json, sys

def mapped():
    with open("/proc/self/maps") as maps:
        return {line.split(maxsplit=5)[5].strip() for line in maps if len(line.split(maxsplit=5)) == 6}

before = mapped()
ctypes.CDLL(sys.argv[1])
print(json.dumps(sorted(path for path in mapped() - before if path.startswith("/"))))
"""


def load(library: Path) -> tuple[list[str], str | None]:
    """The objects that loading a library brought in, or what the loader said."""
    command = [sys.executable, "-I", "-c", LOAD, str(library)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if child.returncode != 0:
        lines = child.stderr.strip().splitlines()
        return [], lines[-1] if lines else f"ended by signal {-child.returncode}"
    return json.loads(child.stdout), None


def is_system(mapped: str) -> bool:
    """The kernel shows what a link points at: libstdc++.so.6.0.30 for libstdc++.so.6. Files that
    are no library do not count."""
    name = Path(mapped).name
    return ".so" not in name or any(name == known or name.startswith(f"{known}.") for known in SYSTEM)


def is_shared_library(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        start = file.read(20)
    # ET_DYN for x86-64: AMDGPU code objects are ELF too.
    return start[:4] == b"\x7fELF" and start[16:20] == b"\x03\x00\x3e\x00"


def main() -> int:
    site = Path(sysconfig.get_path("purelib")).resolve()
    prefix = Path(sys.prefix).resolve()
    report = {"loaded": 0, "skipped": {}, "unlisted": [], "failed": {}, "outside": {}}
    packages = {site / held["platform_package"]: held["libraries"] for held in contents(site)}
    listed = {package / entry["path"]: entry for package, entries in packages.items() for entry in entries}
    # The devel tree holds other packages' libraries as hard links.
    inodes = {path.stat().st_ino for path in listed if path.exists()}
    for package in sorted(packages):
        for path in sorted(filter(is_shared_library, package.rglob("*.so*"))):
            if path.stat().st_ino not in inodes:
                report["unlisted"].append(str(path.relative_to(site)))
    for path, entry in sorted(listed.items()):
        name = str(path.relative_to(site))
        if not entry["load"]:
            report["skipped"][name] = entry["reason"]
            continue
        objects, message = load(path)
        if message is not None:
            report["failed"][name] = message
            continue
        report["loaded"] += 1
        outside = [one for one in objects if not Path(one).resolve().is_relative_to(prefix) and not is_system(one)]
        if outside:
            report["outside"][name] = outside
    json.dump(report, sys.stdout, indent=2)
    print()
    return 1 if report["failed"] or report["outside"] or report["unlisted"] else 0


def contents(site: Path) -> list[dict]:
    """What the installed packages say that they hold; the device packages' kernels are no libraries
    and say nothing."""
    return [json.loads(path.read_text()) for path in sorted(site.glob("rocm*/_contents.json"))]


if __name__ == "__main__":
    sys.exit(main())
