"""Builds for Windows and Linux, packaged together on Linux and installed for Windows by pip and
uv. What is installed runs in tests/windows. In the long run also libraries and programs that others
have built for ROCm: LLVM reads the import tables beside us; and the wheel of rocwheel itself for
Windows, as pip, twine, unzip and Wine take it."""

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import therock

from command import CACHE, REPOSITORY, TOOLS, Rocwheel, download, run
from tool_wheel import version_of
from trees import files

VERSION = therock.VERSION

WINDOWS = f"{VERSION}-py3-none-win_amd64.whl"

UV = (TOOLS / "uv", "pip", "install", "--quiet", "--no-cache", "--no-index")


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    places = {kind: tmp_path_factory.mktemp(kind) for kind in ("kpack", "windows")}
    for kind, place in places.items():
        therock.BUILDS[kind](place)
    return places


@pytest.fixture(scope="module")
def output(rocwheel: Rocwheel, builds: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages of both systems."""
    place = tmp_path_factory.mktemp("both") / "out"
    rocwheel.package(builds["kpack"], place, "--windows-artifacts", builds["windows"])
    return place


def install(output: Path, target: Path, *requirements: str, platform: str = "x86_64-pc-windows-msvc") -> set[str]:
    """Installs for a platform, as uv can; the answer is which packages there are."""
    where = ["--find-links", output / "dist", "--target", target, "--python", sys.executable]
    run(*UV, "--python-platform", platform, *where, *requirements)
    return {path.name.split("-")[0] for path in target.glob("*.dist-info")}


def test_one_run_makes_both_and_neither_overwrites_the_other(output: Path) -> None:
    names = sorted(path.name for path in (output / "dist").iterdir())
    windows = ["core", "devel", "device_gfx1100", "device_gfx1151", "libraries"]
    assert [name for name in names if name.endswith(WINDOWS)] == [f"rocm_sdk_{name}-{WINDOWS}" for name in windows]
    linux = [name.split("-")[0] for name in names if "manylinux" in name]
    sdk = ["core", "devel", "device_gfx1100", "device_gfx942", "libraries"]
    assert linux == ["rocm_profiler", *(f"rocm_sdk_{name}" for name in sdk)]
    assert len(names) == 12 and f"rocm-{VERSION}.tar.gz" in names


def test_windows_gets_what_is_for_windows(output: Path, tmp_path: Path) -> None:
    installed = install(output, tmp_path / "all", "rocm[libraries,devel,profiler,device-all]")
    sdk = ("core", "devel", "device_gfx1100", "device_gfx1151", "libraries")
    assert installed == {"rocm", *(f"rocm_sdk_{name}" for name in sdk)}, "neither gfx942 nor the profilers"
    there = files(tmp_path / "all")
    assert "_rocm_sdk_core/bin/amdhip64_7.dll" in there
    assert "_rocm_sdk_libraries/.kpack/blas_lib_gfx1151.kpack" in there
    assert not [name for name in there if name.endswith(".so") or ".so." in name]
    linux = install(output, tmp_path / "linux", "rocm[libraries,profiler,device-all]", platform="x86_64-manylinux_2_36")
    assert {"rocm_profiler", "rocm_sdk_device_gfx942"} < linux and "rocm_sdk_device_gfx1151" not in linux


def test_pip_takes_the_wheels_of_its_platform(output: Path, tmp_path: Path) -> None:
    """pip builds no source distribution for another platform, so the selector is left out."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-index", "--only-binary=:all:"]
    target = ["--platform", "win_amd64", "--python-version", "3.12", "--target", tmp_path / "target"]
    device = f"rocm-sdk-device-gfx1100=={VERSION}"
    run(*pip, *target, "--find-links", output / "dist", device, f"rocm-sdk-devel=={VERSION}")
    names = {path.name.split("-")[0] for path in (tmp_path / "target").glob("*.dist-info")}
    assert names == {f"rocm_sdk_{name}" for name in ("core", "devel", "device_gfx1100", "libraries")}
    with zipfile.ZipFile(output / "dist" / f"rocm_sdk_core-{WINDOWS}") as wheel:
        scripts = wheel.read(f"rocm_sdk_core-{VERSION}.dist-info/entry_points.txt").decode()
    assert "hipInfo = rocm_sdk_core._cli:hipInfo\n" in scripts
    assert "amdclang++ = rocm_sdk_core._cli:amdclangpp\n" in scripts and "rocm-smi" not in scripts


def test_the_plan_shows_both(rocwheel: Rocwheel, builds: dict[str, Path], tmp_path: Path) -> None:
    both = ("--windows-artifacts", builds["windows"], "--dry-run")
    rocwheel.package(builds["kpack"], tmp_path / "out", *both).says("would write 12 packages", "experimental").prints(
        "GPU targets: gfx942, gfx1100 on Linux; gfx1100, gfx1151 on Windows\n", f"rocm_sdk_core-{WINDOWS}"
    )
    plan = rocwheel.json("package", "--artifacts", builds["kpack"], "-o", tmp_path / "out", *both)
    assert plan["systems"] == {"linux": ["gfx942", "gfx1100"], "windows": ["gfx1100", "gfx1151"]}
    assert {wheel["system"] for wheel in plan["wheels"]} == {"linux", "windows"}
    assert not (tmp_path / "out").exists()


def test_a_second_run_writes_nothing_and_the_bytes_are_the_same(
    rocwheel: Rocwheel, builds: dict[str, Path], output: Path, tmp_path: Path
) -> None:
    both = ("--windows-artifacts", builds["windows"])
    again = rocwheel.package(builds["kpack"], output, *both)
    assert again.stdout.count("up to date") == 12, again.stdout
    rocwheel.package(builds["kpack"], tmp_path / "other", *both, "--jobs", "1")
    assert digests(output / "dist") == digests(tmp_path / "other/dist")


def test_archives_of_both_systems(rocwheel: Rocwheel, builds: dict[str, Path], output: Path, tmp_path: Path) -> None:
    """Both have artifacts of the same names, and their archives are unpacked into one folder."""
    for kind, artifacts in builds.items():
        archives = tmp_path / kind
        archives.mkdir()
        for artifact in artifacts.iterdir():
            if artifact.is_dir():
                rocwheel.run("artifact", "archive", artifact, "--output", archives)
    both = (tmp_path / "out", "--windows-artifacts", tmp_path / "windows")
    rocwheel.package(tmp_path / "kpack", *both)
    assert digests(output / "dist") == digests(tmp_path / "out/dist")
    assert rocwheel.package(tmp_path / "kpack", *both).stdout.count("up to date") == 12, "they stay unpacked"


def test_trees_of_both_systems_are_told_apart(rocwheel: Rocwheel, builds: dict[str, Path], tmp_path: Path) -> None:
    linux, windows = builds["kpack"], builds["windows"]

    def refused(*arguments: object, code: int = 1) -> str:
        return rocwheel.run("package", *arguments, "--output", tmp_path / "out", expect=code).stderr

    said = refused("--windows-artifacts", linux)
    assert "the artifacts for Windows in `" in said and "files for Linux: `" in said and "bin/" in said, said
    said = refused("--artifacts", windows, "--windows-artifacts", linux)
    assert "files for Windows: `" in said and ".dll`" in said and "hint: keep the two apart" in said, said
    assert "required arguments" in refused(code=2)
    missing = tmp_path / "missing"
    assert str(missing) in refused("--artifacts", linux, "--windows-artifacts", missing)
    assert "are inside one another" in refused("--artifacts", linux, "--windows-artifacts", tmp_path)
    said = refused("--windows-artifacts", windows, "--platform-tag", "manylinux_2_28_x86_64", code=2)
    assert "`manylinux_2_28_x86_64` is not a platform tag for Windows" in said
    assert not (tmp_path / "out").exists()


def test_a_library_of_rocm_that_is_missing_is_an_error_and_others_are_warned_of(
    rocwheel: Rocwheel, tmp_path: Path
) -> None:
    therock.windows(tmp_path)
    build = therock.Build(tmp_path)
    build.windows_file("rand_lib_generic", "bin/rocrand.dll", ("rocfft.dll", "mystery.dll"))
    arguments = ("package", "--windows-artifacts", tmp_path, "--output", tmp_path.with_name("out-of-it"))
    rocwheel.run(*arguments, expect=1).says("`rocfft.dll` is needed by `_rocm_sdk_libraries/bin/rocrand.dll`")
    build.windows_file("fft_lib_generic", "bin/rocfft.dll")
    rocwheel.run(*arguments).says("`mystery.dll` is in none of the packages")


def test_real_tools_of_python_accept_the_wheels(output: Path) -> None:
    wheels = sorted((output / "dist").glob("*win_amd64.whl"))
    run(sys.executable, "-m", "twine", "check", "--strict", *wheels)
    said = subprocess.run([TOOLS / "check-wheel-contents", *wheels], capture_output=True, text=True).stdout
    # W002 (equal files) is normal in real trees.
    assert set(re.findall(r"\bW\d{3}\b", said)) <= {"W002"} and said.count("OK") + said.count("W002") == 5, said


# Built with hipcc for ROCm 7.2 on Windows, and linked by Microsoft's linker and by Rust's; 16 MB.
WHEEL = "hip_quant-2.2.4.post215-cp312-cp312-win_amd64.whl"

FILES = {
    "hip_quantize.dll": "bin/hip_quantize.dll",
    "_C.cp312-win_amd64.pyd": "bin/hip_quant_C.dll",
    "tools/gpu-smi.exe": "bin/gpu-smi.exe",
}


@pytest.fixture(scope="module")
def real() -> dict[str, bytes]:
    """The files of the wheel, by the path that they shall have in a package."""
    folder = CACHE / "windows-wheels"
    if not (folder / WHEEL).is_file():
        name, version = WHEEL.split("-")[:2]
        download(folder, "--platform", "win_amd64", "--python-version", "3.12", f"{name}=={version}")
    with zipfile.ZipFile(folder / WHEEL) as archive:
        prefix = f"{WHEEL.split('-cp312')[0]}.data/purelib/hip_quant/"
        return {path: archive.read(prefix + name) for name, path in FILES.items()}


def imports(path: Path) -> set[str]:
    """The names in the table of imports, as LLVM reads it."""
    said = subprocess.run(
        ["llvm-readobj-19", "--coff-imports", path], check=True, capture_output=True, text=True
    ).stdout
    return set(re.findall(r"^Import \{\n  Name: (\S+)$", said, re.MULTILINE))


@pytest.mark.long
def test_real_libraries_are_packaged_as_they_are(rocwheel: Rocwheel, real: dict[str, bytes], tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    therock.windows(artifacts)
    build = therock.Build(artifacts)
    known = set()
    for path, content in real.items():
        place = build.place("rand_lib_generic", path)
        place.write_bytes(content)
        known |= imports(place)
    assert {"amdhip64_7.dll", "torch_cpu.dll", "KERNEL32.dll", "bcryptprimitives.dll", "python312.dll"} <= known
    arguments = ("package", "--windows-artifacts", artifacts, "--output", tmp_path / "out")
    plan = rocwheel.json(*arguments, "--dry-run")
    # PyTorch's are in none of these packages; Windows has, or the packages bring, everything else.
    unknown = {missing["library"]: missing["needed_by"] for missing in plan["unknown_libraries"]}
    assert set(unknown) == {"c10.dll", "c10_hip.dll", "torch_cpu.dll", "torch_python.dll"} <= known
    assert set(map(tuple, unknown.values())) == {("_rocm_sdk_libraries/bin/hip_quant_C.dll",)}
    rocwheel.run(*arguments)
    (wheel,) = (tmp_path / "out/dist").glob("rocm_sdk_libraries-*-win_amd64.whl")
    with zipfile.ZipFile(wheel) as archive:
        for path, content in real.items():
            assert archive.read(f"_rocm_sdk_libraries/{path}") == content, path
    # Without the runtime that they were linked to there is no set.
    (artifacts / "core-hip_lib_generic/core-hip/stage/bin/amdhip64_7.dll").unlink()
    said = rocwheel.run(*arguments, expect=1).stderr
    assert "`amdhip64_7.dll` is needed by" in said and "`_rocm_sdk_libraries/bin/hip_quantize.dll`" in said, said


@pytest.mark.long
def test_pip_takes_the_wheel_of_the_tool_and_wine_starts_it(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Compiled without optimisation, which takes minutes and not half an hour. The script starts
    the program under Wine from the folder into which pip has installed it."""
    dist, downloaded, installed = tmp_path / "dist", tmp_path / "downloaded", tmp_path / "installed"
    said = run(REPOSITORY / "scripts/dist-windows", "--debug", "--dirty", "--output", dist, timeout=7200)
    (wheel,) = dist.iterdir()
    version = version_of(rocwheel)
    assert wheel.name == f"rocwheel-{version}-py3-none-win_amd64.whl" and wheel.name in said.stdout
    assert f"\nrocwheel {version}" in said.stderr.replace("\r", ""), said.stderr
    run("unzip", "-tqq", wheel)
    run(sys.executable, "-m", "twine", "check", "--strict", wheel)
    for_windows = ("--quiet", "--no-index", "--find-links", dist, "--platform", "win_amd64", "--only-binary", ":all:")
    run(sys.executable, "-m", "pip", "download", *for_windows, "--dest", downloaded, f"rocwheel=={version}")
    assert [path.read_bytes() for path in downloaded.iterdir()] == [wheel.read_bytes()]
    run(sys.executable, "-m", "pip", "install", *for_windows, "--target", installed, "rocwheel")
    # Windows has all that it imports: no DLL of MinGW's is beside it.
    needed = imports(installed / "bin/rocwheel.exe")
    assert "KERNEL32.dll" in needed and not [name for name in needed if name.startswith("lib")], needed
    # It is a wheel for one system only: pip refuses it here.
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--target", tmp_path / "here", wheel, expect=1)
