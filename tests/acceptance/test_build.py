"""Real builds from recipes: flash-attn's sdist of PyPI, and a build against the ROCm packages that
this project makes."""

import base64
import json
import os
import re
import socket
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import Answers, served

from command import Rocwheel, run, with_uv
from packages import PackageSet
from recipes import recipe


@pytest.mark.long
def test_flash_attn_with_triton(rocwheel: Rocwheel, sdist: Path, tmp_path: Path) -> None:
    """One wheel for every Python, without torch and ROCm, the same each time and with only what
    belongs into it."""
    name = "flash_attn-2.8.3+rocm7.2torch2.9triton-py3-none-any.whl"
    options = ["build", "flash-attn", "--backend", "triton", "--rocm", "7.2", "--torch", "2.9"]
    rocwheel.run(*options, "--source", "2.8.3", "--output", tmp_path / "one", environment=with_uv())
    rocwheel.run(*options, "--source", sdist, "--output", tmp_path / "two", "--no-uv")
    wheel = tmp_path / "one" / name
    assert wheel.read_bytes() == (tmp_path / "two" / name).read_bytes()
    stated = f"{name}.provenance.json"
    assert (tmp_path / "one" / stated).read_bytes() == (tmp_path / "two" / stated).read_bytes()
    rocwheel.run(*options, "--source", sdist, "--output", tmp_path / "one", environment=with_uv()).prints("unchanged")
    members = zipfile.ZipFile(wheel).namelist()
    assert {member.split("/")[0].split("-")[0] for member in members} == {"flash_attn"}
    assert any(member.startswith("flash_attn/flash_attn_triton_amd/") for member in members)
    assert not any(member.startswith("flash_attn/cute/") for member in members)
    matrix = rocwheel.run("matrix", "flash-attn", "--wheels", tmp_path / "one", "--rocm", "7.2", "--json")
    found = [row for row in json.loads(matrix.stdout)["rows"] if row.get("files")]
    assert [(row["files"], row["status"], row["torch"]) for row in found] == [([name], "exists", "2.9")]


def test_the_composable_kernel_backend_counts_first(rocwheel: Rocwheel, sdist: Path, tmp_path: Path) -> None:
    """How much there is to compile is known before anything is; then it fails here, because hipcc
    is not there."""
    prefix = tmp_path / "rocm"
    (prefix / "bin").mkdir(parents=True)
    (prefix / ".info").mkdir()
    (prefix / ".info/version").write_text("7.2.0\n")
    rocwheel.run(
        *(*"build flash-attn --backend ck --torch 2.12 --rocm 7.2 --source".split(), sdist, "--only", "estimate"),
        *("--rocm-sdk", f"prefix={prefix}", "--no-preflight", "--output", tmp_path / "out", "-v"),
        environment=with_uv(),
    ).says("2775 files, about 2 h 26 min of compiling")


RECIPE = recipe(
    "asks",
    """
layers = ["compilers", "rocm"]
version-from-wheel = true

[[step]]
name = "ask"
run = ["sh", "-c", "ls $ROCM_HOME/include/hip/hip_runtime.h $CMAKE_PREFIX_PATH && echo found ${rocm.sdk-version} ${label}"]
expect = 'found \\d'

[[step]]
name = "wheel"
run = ["true"]
""",
    version=None,
)


class Guarded(Answers):
    """A server that wants a name and a password."""

    def do_GET(self) -> None:
        if self.headers.get("Authorization") == f"Basic {base64.b64encode(b'me:secret').decode()}":
            super().do_GET()
            return
        self.reply(b"", 401, WWW_Authenticate='Basic realm="here"')


@pytest.fixture(params=["directory", "find-links", "index"])
def sdk(request: pytest.FixtureRequest, package_set: PackageSet, tmp_path: Path) -> Iterator[str]:
    """Where ROCm's packages are: in a folder, and behind links on a page and in an index that are
    not for everybody."""
    if request.param == "directory":
        yield f"directory={package_set.dist}"
        return
    folder = package_set.dist
    if request.param == "index":
        folder = tmp_path / "served"
        for file in package_set.dist.iterdir():
            name, version = file.name.removesuffix(".tar.gz").split("-")[:2]
            place = folder / "simple" / name.replace("_", "-")
            place.mkdir(parents=True, exist_ok=True)
            (place / file.name).symlink_to(file)
    path = "simple/" if request.param == "index" else ""
    with served(folder, Guarded) as address:
        yield f"{request.param}={address.replace('//', '//me:secret@')}/{path}"


@pytest.mark.parametrize("installer", ["uv", pytest.param("pip", marks=pytest.mark.long)])
def test_rocm_packages_are_installed_for_a_build(
    rocwheel: Rocwheel, package_set: PackageSet, sdk: str, installer: str, tmp_path: Path
) -> None:
    """The packages that `rocwheel package` made are what a build is made against, and passwords
    stay where they are needed."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/asks.toml").write_text(RECIPE)
    (tmp_path / "source").mkdir()
    (tmp_path / "source/README").write_text("nothing")
    is_index = sdk.startswith("index=")
    said = rocwheel.run(
        *("build", "asks", "--recipes", tmp_path / "recipes", "--source", tmp_path / "source", "--only", "ask"),
        *("--rocm-sdk", sdk, "--gpu-targets", "gfx1030", "--output", tmp_path / "out"),
        *("--keep", *(["--no-uv"] if installer == "pip" else [])),
        # The caller's cache would keep every set of packages that the tests ever made.
        environment=with_uv()
        | {"UV_CACHE_DIR": str(tmp_path / "cache"), "PIP_CACHE_DIR": str(tmp_path / "cache")}
        | ({} if is_index else {"PIP_NO_INDEX": "1", "UV_NO_INDEX": "1"}),
    )
    assert "done up to ask" in said.stdout
    logs = list((tmp_path / "out/.rocwheel/jobs").glob("*/logs/*-ask.log"))
    assert len(logs) == 1
    assert f"found {package_set.sdist.name.removeprefix('rocm-').removesuffix('.tar.gz')}" in logs[0].read_text()
    assert not [log for log in logs[0].parent.iterdir() if "secret" in log.read_text()]
    (job,) = (tmp_path / "out/.rocwheel/jobs").glob("*/job.toml")
    is_open = job.stat().st_mode & 0o077 != 0
    assert is_open == ("secret" not in job.read_text())


COMPILES = recipe(
    "compiles",
    """
layers = ["compilers"]
work-on = "copy"

[[step]]
name = "requirements"
install = ["setuptools", "wheel"]

[[step]]
name = "library"
run = ["cmake", "-S", ".", "-B", "build"]

[[step]]
name = "compile"
run = ["cmake", "--build", "build"]

[[step]]
name = "wheel"
run = ["${python}", "setup.py", "bdist_wheel", "--python-tag", "py3", "--plat-name", "linux_x86_64"]
""",
    "plain",
    any_python=False,
)
COMPILED = {
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.18)\nproject(compiles CXX)\n"
    "add_library(compiles SHARED one.cpp two.cpp)\n"
    "set_target_properties(compiles PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR}/compiles)\n",
    "one.cpp": "#include <string>\nint one() { return std::string(1, 'x').size(); }\n",
    "two.cpp": "#include <vector>\nint two() { return std::vector<int>(2).size(); }\n",
    "compiles/__init__.py": "",
    "setup.py": "from setuptools import setup\n"
    "setup(name='compiles', version='1.0', packages=['compiles'], package_data={'compiles': ['*.so']})\n",
}


@pytest.mark.parametrize(("cache", "hits"), [("ccache", r"Hits: +(\d+)"), ("sccache", r"Cache hits +(\d+)")])
def test_a_compiler_cache_knows_what_was_compiled_in_another_folder(
    rocwheel: Rocwheel, cache: str, hits: str, tmp_path: Path
) -> None:
    """A second build in another place compiles nothing that is the same."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/compiles.toml").write_text(COMPILES)
    for name, text in COMPILED.items():
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / name).write_text(text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    kept = {"CCACHE_DIR": str(tmp_path / "cache"), "SCCACHE_DIR": str(tmp_path / "cache"), "SCCACHE_SERVER_PORT": port}
    counted = []
    try:
        for number in ("first", "second"):
            rocwheel.run(
                *("build", "compiles", "--recipes", tmp_path / "recipes", "--source", tmp_path / "source"),
                *("--compiler-cache", cache, "--output", tmp_path / number, "--jobs", "2"),
                environment=with_uv() | kept,
            )
            assert len(list((tmp_path / number).glob("compiles-1.0-py3-none-linux_x86_64.whl"))) == 1
            (log,) = (tmp_path / number).glob(".rocwheel/jobs/*/logs/*-cache-statistics.log")
            found = re.search(hits, log.read_text())
            assert found, log.read_text()
            counted.append(int(found[1]))
    finally:
        if cache == "sccache":
            subprocess.run(["sccache", "--stop-server"], env=os.environ | kept, capture_output=True)
    # The two files, and CMake's own trial of the compiler where that is one that counts.
    first, second = counted
    assert first <= 1 and second - first >= 2, counted


def test_a_build_leaves_nothing_running(rocwheel: Rocwheel, sdist: Path, tmp_path: Path) -> None:
    """A time limit that is over at once stops cleanly, and the next run makes the wheel."""
    options = ["build", "flash-attn", "--backend", "triton", "--rocm", "7.2", "--torch", "2.9", "--source", sdist]
    rocwheel.run(*options, "--output", tmp_path, "--time-limit", "1s", environment=with_uv(), expect=3)
    assert not list(tmp_path.glob("*.whl"))
    assert not run("pgrep", "--full", str(tmp_path), expect=1).stdout
    rocwheel.run(*options, "--output", tmp_path, environment=with_uv())
    assert len(list(tmp_path.glob("*.whl"))) == 1


HUGE = recipe(
    "huge",
    """
[[environment]]
if-variable = "LLVM"
exists = "${environment.LLVM}/libLLVM.so"
error = "no libLLVM.so there"
set = { FLAGS = "-L${environment.LLVM}" }

[[step]]
name = "configure"
run = ["sh", "-c", "echo flags=$FLAGS."]

[[step]]
name = "wheel"
run = ["true"]


[[cost]]
memory-per-job = 1
disk = 9000
""",
    "plain",
    any_python=False,
)


def test_conditions_of_a_block_hold_together_and_space_is_for_what_compiles(rocwheel: Rocwheel, tmp_path: Path) -> None:
    for folder in ("recipes", "source", "llvm"):
        (tmp_path / folder).mkdir()
    (tmp_path / "recipes/huge.toml").write_text(HUGE)
    (tmp_path / "source/README").write_text("nothing")
    command = ["build", "huge", "--recipes", tmp_path / "recipes", "--source", tmp_path / "source"]
    named = with_uv() | {"LLVM": str(tmp_path / "llvm")}
    configure = [*command, "--output", tmp_path / "out", "--only", "configure"]
    rocwheel.run(*configure, environment=named, expect=2).says("no libLLVM.so there")
    (tmp_path / "llvm/libLLVM.so").write_text("")
    for environment, flags in ((with_uv(), "flags=."), (named, f"flags=-L{tmp_path}/llvm.")):
        rocwheel.run(*configure, environment=environment)
        (log,) = tmp_path.glob("out/.rocwheel/jobs/*/logs/*-configure.log")
        assert flags in log.read_text()
    script = rocwheel.run(*command, "--output", tmp_path / "out", "--dry-run", environment=named).stdout
    assert script.index('[ -n "${LLVM:-}" ]') < script.index('[ -e "${LLVM}/libLLVM.so" ]'), script
    rocwheel.run(*command, "--output", tmp_path / "out", environment=named, expect=1).says("it takes about 9000 GB")
    # What is there of an earlier run need not be free.
    (job,) = tmp_path.glob("out/.rocwheel/jobs/*/job.toml")
    with (job.parent / "objects").open("wb") as objects:
        objects.truncate(9_000_000_000_000)
    said = rocwheel.run(*command, "--output", tmp_path / "out", environment=named, expect=1).stderr
    assert "it takes about" not in said, said
