"""`rocwheel audit` on real wheels, and the commands that it prints for them, typed into a shell.

330 MB of ROCm wheels and three that everybody has; and 87 wheels of PyPI that many people use, 16
of them for Windows, 3 for musl: every finding was looked at, and is in popular-wheels.toml as true
or false: for each wheel its findings, how much they weigh, and what was found with readelf,
llvm-readobj and unzip. A finding that is not in it, weighs something else or is gone, fails. Part
of `--set all`; 2 GB are downloaded once.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from command import CACHE, REPOSITORY, Rocwheel
from linked_wheels import write_wheel
from packages import fetch_wheels, listed_wheel

__all__ = ["popular"]

HERE = Path(__file__).parent

NAMES = (
    "cupy_rocm_7_0 cyllama_rocm jax_rocm7_pjrt jax_rocm7_plugin onnxruntime_rocm torch_scatter_rocm torch_sparse_rocm"
).split()


def summary(finding: dict) -> dict:
    """What a finding says, with the number of files rather than their names."""
    kept = {key: finding[key] for key in ("code", "severity", "file", "subject", "message")}
    return {**kept, "files": len(finding["related"]) + (finding["file"] is not None)}


def check(rocwheel: Rocwheel, wheel: Path, kept: Path) -> None:
    wanted = json.loads(kept.read_text()) if kept.is_file() else {}
    result = rocwheel.run("audit", "--json", wheel.name, cwd=wheel.parent, expect=wanted.get("exit code", 0))
    report = json.loads(result.stdout)
    floor = report["wheels"][0]["floor"]
    found = {
        "exit code": result.code,
        "floor": floor["tag"],
        "newest": floor["newest"],
        "findings": [summary(finding) for finding in report["findings"]],
    }
    if os.environ.get("ROCWHEEL_UPDATE_SNAPSHOTS"):
        kept.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(kept.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_findings_are_kept(rocwheel: Rocwheel, name: str) -> None:
    check(rocwheel, listed_wheel(CACHE / "wheels", name), HERE / f"snapshots/audit-{name}.json")


@pytest.mark.parametrize("name", ["numpy", "scipy", "torch"])
def test_findings_of_popular_wheels_are_kept(rocwheel: Rocwheel, popular: Path, name: str) -> None:
    [wheel] = popular.glob(f"{name}-*manylinux*.whl")
    check(rocwheel, wheel, HERE / f"snapshots/audit-{name}.json")


def test_a_second_audit_of_many_wheels_says_the_same(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """All wheels as one set, of which the cache has the first half and then the whole."""
    wheels = [listed_wheel(CACHE / "wheels", name) for name in NAMES]
    environment = {"ROCWHEEL_CACHE": str(tmp_path / "cache")}

    def audit(*words: object) -> str:
        words = ("audit", "--json", "--offline", *words)
        return rocwheel.run(*words, environment=environment, expect=1).stdout

    def entries() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache/facts").glob("*.facts")}

    plain = audit("--no-cache", *wheels)
    assert not entries()
    audit(*wheels[: len(wheels) // 2])
    half = entries()
    assert audit(*wheels) == plain
    whole = entries()
    assert half and half.items() < whole.items()
    assert audit(*wheels) == plain and entries() == whole


# Of ROCm wheels: what their names, search paths or libraries say of the version they were built for
# is each time something else.
ROCM = (
    "cupy-rocm-5-0==13.3.0 cupy-rocm-7-0==14.2.0 cyllama-rocm==0.7.0 gafime-rocm==0.4.7 "
    "jax-rocm60-plugin==0.5.0 jax-rocm7-plugin==0.12.0 onnxruntime-migraphx==1.27.1 "
    "onnxruntime-rocm==1.22.2.post3 torch-scatter-rocm==2.1.2 torch-sparse-rocm==0.6.18 torchao==0.18.0 "
    "torchcodec==0.17.0"
).split()

POPULAR = "cupy_cuda12x imageio_ffmpeg lightgbm numba nvidia_cuda_nvrtc_cu12 ray shapely torchvision".split()


def identity(finding: dict) -> tuple[str, ...]:
    return tuple(finding[column] or "" for column in ("code", "subject", "file"))


def check_fixes(rocwheel: Rocwheel, wheel: Path, folder: Path) -> None:
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
    fetch_wheels(CACHE / "wheels", requirement)
    [wheel] = (CACHE / "wheels").glob(f"{name.replace('-', '_')}-{version}-*.whl")
    check_fixes(rocwheel, wheel, tmp_path)


@pytest.mark.parametrize("name", POPULAR)
def test_the_block_of_popular_wheels_fixes_what_it_says(
    rocwheel: Rocwheel, popular: Path, name: str, tmp_path: Path
) -> None:
    [wheel] = popular.glob(f"{name}-*linux*.whl")
    check_fixes(rocwheel, wheel, tmp_path)


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
    [finding] = rocwheel.json("audit", wheel, expect=1)["findings"]
    assert finding["fix"].endswith("--requires 'cuda-toolkit[cublas,cudart]==12.*'"), finding
    rocwheel.run(*shlex.split(finding["fix"])[1:])
    assert rocwheel.json("audit", wheel)["verdict"]["answer"] == "unknown"
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-", "--target", tmp_path / "x"]
    planned = json.loads(subprocess.run([*pip, wheel], capture_output=True, text=True, check=True).stdout)
    names = {one["metadata"]["name"] for one in planned["install"]}
    assert {"nvidia-cublas-cu12", "nvidia-cuda-runtime-cu12"} <= names, names


TABLE = tomllib.loads(Path(__file__).with_name("popular-wheels.toml").read_text())["wheel"]


@pytest.fixture(scope="module")
def popular() -> Path:
    folder = CACHE / "popular-wheels"
    subprocess.run([REPOSITORY / "scripts/fetch-popular-wheels", folder], check=True)
    return folder


def test_the_table_has_87_wheels_and_a_reason_for_every_finding() -> None:
    assert len({wheel["file"] for wheel in TABLE}) == len(TABLE) == 87
    assert sum("win_amd64" in wheel["file"] for wheel in TABLE) == 16
    for finding in (finding for wheel in TABLE for finding in wheel.get("finding", [])):
        assert finding["why"], finding


@pytest.mark.parametrize("row", TABLE, ids=[wheel["file"].split("-")[0] for wheel in TABLE])
def test_findings_are_those_of_the_table(rocwheel: Rocwheel, popular: Path, row: dict, tmp_path: Path) -> None:
    wheel = popular / row["file"]
    with open(wheel, "rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == row["sha256"], "another file than the one looked at"
    beside = tmp_path / "beside"
    beside.mkdir()
    for name in row.get("with", []):
        (beside / name).symlink_to(popular / name)
    command = [rocwheel.binary, "audit", "--json", "--scratch", tmp_path, wheel]
    if row.get("with"):
        command += ["--with", beside]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)["findings"]
    columns = ("code", "file", "subject", "severity")
    kept = {tuple(finding[column] or "" for column in columns) for finding in found}
    expected = {tuple(finding[column] for column in columns) for finding in row.get("finding", [])}
    assert kept == expected
    assert done.returncode == int(any(finding["severity"] == "error" for finding in found))
