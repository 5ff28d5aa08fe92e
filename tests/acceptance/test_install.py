"""The packages installed by pip and by uv: they load from the environment alone, answer, and leave
nothing behind."""

import json
import re
import shutil
from pathlib import Path

from command import Rocwheel, own_suite, run
from environment import Environment
from isolation import install_in_root
from packages import PackageSet, unexplained

HERE = Path(__file__).resolve().parent

# What `hipGetDeviceCount` answers: hipErrorNoDevice without a GPU, hipSuccess with one.
ANSWER = 0 if Path("/dev/kfd").exists() else 100

COUNT = """
import ctypes, rocm_sdk
rocm_sdk.initialize_process(preload_shortnames=["amd_comgr", "amdhip64"], check_version=rocm_sdk.__version__)
(path,) = rocm_sdk.find_libraries("amdhip64")
print(ctypes.CDLL(str(path)).hipGetDeviceCount(ctypes.byref(ctypes.c_int())))
"""


def test_all_of_the_set_is_installed(environment: Environment, package_set: PackageSet) -> None:
    version = package_set.manifest["rocm_package_version"]
    expected = {"rocm", "rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-devel", *package_set.device_packages}
    assert environment.installed() == dict.fromkeys(expected, version)


def test_requirements_agree(environment: Environment) -> None:
    environment.check()


def test_its_own_test_passes(environment: Environment) -> None:
    said = environment.run("rocm-sdk", "test")
    counts = re.search(r"^(\d+) checks: (\d+) passed, 0 failed", said.stdout, re.MULTILINE)
    assert counts and int(counts[2]) >= 30, said.stdout


def test_every_library_loads_from_the_environment(environment: Environment, least_loaded: int) -> None:
    report = json.loads(environment.run("python", HERE / "loading.py").stdout)
    assert report["loaded"] >= least_loaded, report
    assert report["failed"] == report["outside"] == {} and report["unlisted"] == [], report


def test_it_loads_in_a_root_without_rocm(package_set: PackageSet, least_loaded: int) -> None:
    report = install_in_root(own_suite(), "pip", package_set)
    assert report["loaded"] >= least_loaded, report


def test_nothing_of_the_release_is_unexplained(package_set: PackageSet) -> None:
    assert unexplained(package_set) == []


def test_the_runtime_answers(environment: Environment) -> None:
    assert environment.run("python", "-c", COUNT).stdout.split() == [str(ANSWER)]


def test_command_line(environment: Environment, package_set: PackageSet) -> None:
    version = package_set.manifest["rocm_package_version"]
    assert environment.run("rocm-sdk", "version").stdout.strip() == version
    assert re.search(r"\bgfx\d", environment.run("rocm-sdk", "targets").stdout)
    for option in ("--cmake", "--bin", "--root"):
        path = Path(environment.run("rocm-sdk", "path", option).stdout.strip())
        assert path.is_dir() and path.is_relative_to(environment.prefix), path
    # Without a GPU rocminfo says so and ends with 1.
    said = environment.run("rocminfo", expect=0 if ANSWER == 0 else 1)
    assert "ROCk" in said.stdout + said.stderr


def test_cmake_finds_compiles_and_links(environment: Environment, tmp_path: Path) -> None:
    cmake = environment.run("rocm-sdk", "path", "--cmake").stdout.strip()
    build = tmp_path / "build"
    run(
        *("cmake", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={cmake}"),
        "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF",
    )
    cached = (build / "CMakeCache.txt").read_text()
    for package in ("hip_DIR", "rocrand_DIR"):
        (found,) = re.findall(rf"^{package}:PATH=(.*)$", cached, re.MULTILINE)
        assert Path(found).is_relative_to(environment.prefix), f"{package} was found in {found}"
    run("cmake", "--build", build)
    said = run(build / "consumer").stdout
    assert re.fullmatch(rf"hipGetDeviceCount {ANSWER} rocrand_get_version 0 \d+\n", said), said


def test_uninstalling_leaves_no_file(
    rocwheel: Rocwheel, environment: Environment, package_set: PackageSet, tmp_path: Path
) -> None:
    # A fresh one: the other tests still need theirs.
    fresh = Environment.create(tmp_path / "venv", environment.installer)
    fresh.install(package_set.dist, "rocm[libraries,devel]", *package_set.device_packages)
    fresh.run("rocm-sdk", "init")
    fresh.run("rocm-sdk", "version")
    # The archive of the devel tree is gone, as it has to be.
    rocwheel.run("test", "smoke", "rocm", "-k", "files", "--python", fresh.python, "--output", tmp_path / "smoke")
    assert fresh.left_over()
    fresh.uninstall(*fresh.installed())
    assert sorted(fresh.left_over()) == []
    shutil.rmtree(fresh.prefix)
