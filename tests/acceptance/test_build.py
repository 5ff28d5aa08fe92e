"""Real builds from recipes: flash-attn's sdist of PyPI, and a build against the ROCm packages that this project makes."""

from __future__ import annotations

import json
import os
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from command import Rocwheel, run
from packages import PackageSet

UV = Path(__file__).resolve().parents[2] / ".venv/bin/uv"


def with_uv() -> dict[str, str]:
    return {"PATH": f"{UV.parent}:{os.environ['PATH']}"}


def test_flash_attn_with_triton(rocwheel: Rocwheel, sdist: Path, tmp_path: Path) -> None:
    """One wheel for every Python, without torch and ROCm, the same each time and with only what belongs into it."""
    name = "flash_attn-2.8.3+rocm7.2torch2.9triton-py3-none-any.whl"
    options = ["build", "flash-attn", "--backend", "triton", "--rocm", "7.2", "--torch", "2.9"]
    rocwheel.run(*options, "--source", "2.8.3", "--output", tmp_path / "one", environment=with_uv())
    rocwheel.run(*options, "--source", sdist, "--output", tmp_path / "two", "--no-uv")
    wheel = tmp_path / "one" / name
    assert wheel.read_bytes() == (tmp_path / "two" / name).read_bytes()
    stated = f"{name}.provenance.json"
    assert (tmp_path / "one" / stated).read_bytes() == (tmp_path / "two" / stated).read_bytes()
    again = rocwheel.run(*options, "--source", sdist, "--output", tmp_path / "one", environment=with_uv())
    assert "unchanged" in again.stdout
    members = zipfile.ZipFile(wheel).namelist()
    assert {member.split("/")[0].split("-")[0] for member in members} == {"flash_attn"}
    assert any(member.startswith("flash_attn/flash_attn_triton_amd/") for member in members)
    assert not any(member.startswith("flash_attn/cute/") for member in members)
    matrix = rocwheel.run("matrix", "flash-attn", "--wheels", tmp_path / "one", "--rocm", "7.2", "--json")
    found = [row for row in json.loads(matrix.stdout)["rows"] if row.get("files")]
    assert [(row["files"], row["status"], row["torch"]) for row in found] == [([name], "exists", "2.9")]


def test_the_composable_kernel_backend_counts_first(rocwheel: Rocwheel, sdist: Path, tmp_path: Path) -> None:
    """How much there is to compile is known before anything is; then it fails here, because hipcc is not there."""
    prefix = tmp_path / "rocm"
    (prefix / "bin").mkdir(parents=True)
    (prefix / ".info").mkdir()
    (prefix / ".info/version").write_text("7.2.0\n")
    said = rocwheel.run(
        *(
            "build",
            "flash-attn",
            "--backend",
            "ck",
            "--torch",
            "2.9",
            "--rocm",
            "7.2",
            "--source",
            sdist,
            "--only",
            "estimate",
        ),
        *("--rocm-sdk", f"prefix={prefix}", "--no-preflight", "--output", tmp_path / "out", "-v"),
        environment=with_uv(),
    )
    assert "2775 files, about 2 h 26 min of compiling" in said.stderr


RECIPE = """
schema = 1
name = "asks"
summary = "Asks what ROCm is there"
distribution = "asks"
source = "asks"
platforms = ["linux"]
backends = ["rocm"]
any-python = ["rocm"]
layers = ["compilers", "rocm"]
version-from-wheel = true

[[step]]
name = "ask"
run = ["sh", "-c", "ls $ROCM_HOME/include/hip/hip_runtime.h $CMAKE_PREFIX_PATH && echo found ${rocm.sdk-version} ${label}"]
expect = 'found \\d'

[[step]]
name = "wheel"
run = ["true"]

[output]
wheel = "dist/*.whl"
"""


@pytest.fixture(params=["directory", "find-links"])
def sdk(request: pytest.FixtureRequest, package_set: PackageSet) -> Iterator[str]:
    """Where ROCm's packages are: in a folder, and behind links on a page."""
    if request.param == "directory":
        yield f"directory={package_set.dist}"
        return
    handler = partial(SimpleHTTPRequestHandler, directory=package_set.dist)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"find-links=http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_rocm_packages_are_installed_for_a_build(
    rocwheel: Rocwheel, package_set: PackageSet, sdk: str, tmp_path: Path
) -> None:
    """The packages that `rocwheel package` made are what a build is made against."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/asks.toml").write_text(RECIPE)
    (tmp_path / "source").mkdir()
    (tmp_path / "source/README").write_text("nothing")
    said = rocwheel.run(
        *("build", "asks", "--recipes", tmp_path / "recipes", "--source", tmp_path / "source", "--only", "ask"),
        *("--rocm-sdk", sdk, "--gpu-targets", "gfx1030", "--output", tmp_path / "out"),
        *("--keep", "--no-uv"),
        environment={"PIP_NO_INDEX": "1"},
    )
    assert "done up to ask" in said.stdout
    logs = list((tmp_path / "out/.rocwheel/jobs").glob("*/logs/*-ask.log"))
    assert len(logs) == 1
    assert f"found {package_set.sdist.name.removeprefix('rocm-').removesuffix('.tar.gz')}" in logs[0].read_text()


def test_a_build_leaves_nothing_running(rocwheel: Rocwheel, sdist: Path, tmp_path: Path) -> None:
    """A time limit that is over at once stops cleanly, and the next run makes the wheel."""
    options = ["build", "flash-attn", "--backend", "triton", "--rocm", "7.2", "--torch", "2.9", "--source", sdist]
    rocwheel.run(*options, "--output", tmp_path, "--time-limit", "1s", environment=with_uv(), expect=3)
    assert not list(tmp_path.glob("*.whl"))
    assert not run("pgrep", "--full", str(tmp_path), expect=1).stdout
    rocwheel.run(*options, "--output", tmp_path, environment=with_uv())
    assert len(list(tmp_path.glob("*.whl"))) == 1
