"""Debian trixie's ROCm, with rocBLAS's kernels for each GPU in device wheels, on trixie's own
Python 3.13."""

import re
import sys
import zipfile

import pytest

from command import Rocwheel, run
from environment import TOOLS
from isolation import install_in_root
from packages import PackageSet, fetch_debs, make_package_set, record_problems, unexplained

# Debian has a version directory in between.
KERNEL = re.compile(r"/rocblas/(?:[^/]+/)?library/")


@pytest.fixture(scope="module")
def trixie(rocwheel: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> PackageSet:
    directory = tmp_path_factory.mktemp("trixie")
    debs = fetch_debs("trixie", directory / "debs", "all")
    return make_package_set(rocwheel, debs, directory, "--shape", "split")


def test_each_gpu_has_a_device_wheel(trixie: PackageSet) -> None:
    assert {"rocm-sdk-device-gfx900", "rocm-sdk-device-gfx906", "rocm-sdk-device-gfx1100"} <= set(
        trixie.device_packages
    )
    with zipfile.ZipFile(trixie.wheel("rocm_sdk_libraries")) as libraries:
        kernels = [
            name for name in libraries.namelist() if KERNEL.search(name) and re.search(r"gfx[0-9a-f]{3,4}", name)
        ]
    assert kernels == [], "kernels of one GPU are in the neutral wheel"
    for package in trixie.device_packages:
        target = package.rpartition("-")[2]
        with zipfile.ZipFile(trixie.wheel(package.replace("-", "_"))) as device:
            kernels = [name for name in device.namelist() if KERNEL.search(name)]
        assert kernels and all(target in name for name in kernels), (package, kernels[:3])


def test_nothing_of_the_release_is_unexplained(trixie: PackageSet) -> None:
    assert unexplained(trixie) == []


def test_every_member_reads_back(trixie: PackageSet) -> None:
    assert [problem for wheel in trixie.wheels for problem in record_problems(wheel)] == []


def test_other_tools_are_content(trixie: PackageSet) -> None:
    run(TOOLS / "twine", "check", "--strict", *trixie.wheels, trixie.sdist)
    run(TOOLS / "check-wheel-contents", "--no-config", "--ignore", "W002", *trixie.wheels)
    for wheel in trixie.wheels:
        run(sys.executable, "-m", "zipfile", "-t", wheel)


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_it_loads_in_a_root_without_rocm(trixie: PackageSet, installer: str) -> None:
    report = install_in_root("trixie", installer, trixie)
    assert report["python"].startswith("3.13."), report
    assert report["loaded"] >= 30, report
