"""The packages in a Debian root that has no ROCm, so that nothing of the machine can stand in for
what they lack."""

import json
from pathlib import Path

from command import TOOLS, run
from packages import PackageSet

HERE = Path(__file__).resolve().parent


def install_in_root(suite: str, installer: str, packages: PackageSet) -> dict:
    """Installs the set with pip or uv, runs `rocm-sdk test`, uninstalls it, and returns what
    loading.py found."""
    program = TOOLS / "uv" if installer == "uv" else installer
    shared = ["--share", packages.dist, "--share", HERE, "--share", TOOLS]
    script = ["bash", HERE / "in_root.bash", program, packages.dist, HERE, *packages.device_packages]
    said = run(HERE.parents[1] / "scripts/in-root", suite, *shared, "--", *script).stdout
    version = said.partition("Python ")[2].split()[0]
    report = json.loads(said.partition("== loading\n")[2].partition("== uninstalling\n")[0])
    assert report["failed"] == report["outside"] == {} and report["unlisted"] == [], report
    return {**report, "python": version}
