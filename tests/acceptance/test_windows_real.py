"""Libraries and programs for Windows that others have built for ROCm, in packages of ours: what
they import, and that nothing in them changes. LLVM reads the import tables beside us."""

from __future__ import annotations

import json
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
import therock

from command import Rocwheel, download

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
