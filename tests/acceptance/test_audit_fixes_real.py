"""The commands that `rocwheel audit` prints for 20 real wheels, typed into a shell: nothing that
they fix is left.

Part of `--set all`; most of the wheels are those of other tests.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_kernels_real import cached_wheels
from test_popular_wheels_real import popular

from command import Rocwheel
from linked_wheels import write_wheel
from packages import fetch_wheels

__all__ = ["popular"]

# Of ROCm wheels: what their names, search paths or libraries say of the version they were built for
# is each time something else.
ROCM = (
    "cupy-rocm-5-0==13.3.0",
    "cupy-rocm-7-0==14.2.0",
    "cyllama-rocm==0.7.0",
    "gafime-rocm==0.4.7",
    "jax-rocm60-plugin==0.5.0",
    "jax-rocm7-plugin==0.12.0",
    "onnxruntime-migraphx==1.27.1",
    "onnxruntime-rocm==1.22.2.post3",
    "torch-scatter-rocm==2.1.2",
    "torch-sparse-rocm==0.6.18",
    "torchao==0.18.0",
    "torchcodec==0.17.0",
)
POPULAR = (
    "cupy_cuda12x",
    "imageio_ffmpeg",
    "lightgbm",
    "numba",
    "nvidia_cuda_nvrtc_cu12",
    "ray",
    "shapely",
    "torchvision",
)


def identity(finding: dict) -> tuple[str, ...]:
    return tuple(finding[column] or "" for column in ("code", "subject", "file"))


def check(rocwheel: Rocwheel, wheel: Path, folder: Path) -> None:
    """Types the block in a folder with a copy of the wheel."""
    shutil.copy(wheel, folder)
    path = {"PATH": f"{rocwheel.binary.parent}{os.pathsep}{os.environ['PATH']}"}
    environment = {**os.environ, **path}

    def audit(name: Path | str, *options: str) -> str:
        command = [rocwheel.binary, "audit", name, *options]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    before = json.loads(audit(wheel.name, "--json"))["findings"]
    fixable = {identity(finding) for finding in before if finding["fix"] and " audit " not in finding["fix"]}
    text = audit(wheel.name)
    block = re.search(r"^To fix (\d+) of (\d+):\n((?:  .*\n)+)", text, re.MULTILINE)
    if block is None:
        assert not fixable
        return
    assert (int(block[1]), int(block[2])) == (len(fixable), len(before))
    commands = [line.strip() for line in block[3].splitlines()]
    assert all(len(command) < 1000 for command in commands), commands
    typed = subprocess.run(
        ["sh", "-ec", "\n".join(commands)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert typed.returncode == 0, f"{commands}\n{typed.stdout}{typed.stderr}"
    repaired = folder / "wheelhouse"
    [result] = (repaired if repaired.is_dir() else folder).glob("*.whl")
    left = json.loads(audit(result, "--json"))["findings"]
    assert not fixable & {identity(finding) for finding in left}
    again = [finding for finding in left if finding["fix"] and " audit " not in finding["fix"]]
    assert not again, "the next audit has more to fix"


@pytest.mark.parametrize("requirement", ROCM)
def test_the_block_of_rocm_wheels_fixes_what_it_says(rocwheel: Rocwheel, requirement: str, tmp_path: Path) -> None:
    name, _, version = requirement.partition("==")
    fetch_wheels(cached_wheels(), requirement)
    [wheel] = cached_wheels().glob(f"{name.replace('-', '_')}-{version}-*.whl")
    check(rocwheel, wheel, tmp_path)


@pytest.mark.parametrize("name", POPULAR)
def test_the_block_of_popular_wheels_fixes_what_it_says(
    rocwheel: Rocwheel, popular: Path, name: str, tmp_path: Path
) -> None:
    [wheel] = popular.glob(f"{name}-*linux*.whl")
    check(rocwheel, wheel, tmp_path)


def test_a_proposed_requirement_brings_the_library(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """`cuda-toolkit` has its libraries behind extras. pip is the judge, with PyPI's packages."""
    for library in ("libcublas.so.12", "libcudart.so.12"):
        build = ["gcc", "-shared", "-fPIC", "-x", "c", os.devnull, f"-Wl,-soname,{library}", "-o", tmp_path / library]
        subprocess.run(build, check=True)
    code = tmp_path / "ext.c"
    code.write_text("void *PyInit__ext(void) { return 0; }\n")
    links = ["-Wl,--no-as-needed", f"-L{tmp_path}", "-l:libcublas.so.12", "-l:libcudart.so.12"]
    subprocess.run(["gcc", "-shared", "-fPIC", code, *links, "-o", tmp_path / "_ext.so"], check=True)
    members = {"demo/__init__.py": b"from . import _ext\n", "demo/_ext.so": (tmp_path / "_ext.so").read_bytes()}
    wheel = write_wheel(tmp_path / "dist", members, "manylinux_2_34_x86_64")
    [finding] = json.loads(rocwheel.run("audit", "--json", wheel, expect=1).stdout)["findings"]
    assert finding["fix"].endswith("--requires 'cuda-toolkit[cublas,cudart]==12.*'"), finding
    rocwheel.run(*shlex.split(finding["fix"])[1:])
    assert json.loads(rocwheel.run("audit", "--json", wheel).stdout)["verdict"]["answer"] == "unknown"
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-", "--target", tmp_path / "x"]
    planned = json.loads(subprocess.run([*pip, wheel], capture_output=True, text=True, check=True).stdout)
    names = {one["metadata"]["name"] for one in planned["install"]}
    assert {"nvidia-cublas-cu12", "nvidia-cuda-runtime-cu12"} <= names, names
