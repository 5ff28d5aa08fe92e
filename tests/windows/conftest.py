"""Tests of rocwheel.exe: under Wine, beside the program for Linux, and on Windows itself, where
there is nothing to compare with. scripts/run-tests-windows names the programs."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "acceptance"))

import therock  # noqa: E402  (it is in the other folder, and so is what these import)
from pair import SYSTEMS, Pair  # noqa: E402
from windows_python import WindowsPython  # noqa: E402

from command import Rocwheel  # noqa: E402

# In a GitHub job the program speaks to GitHub.
for name in [name for name in os.environ if name.startswith("GITHUB_")]:
    del os.environ[name]


def program(variable: str) -> Rocwheel:
    assert variable in os.environ, f"{variable} is not set: run scripts/run-tests-windows"
    return Rocwheel(Path(os.environ[variable]))


@pytest.fixture(scope="session")
def linux() -> Rocwheel:
    if "linux" not in SYSTEMS:
        pytest.skip("there is no program for Linux here")
    return program("ROCWHEEL_BINARY")


@pytest.fixture(scope="session")
def windows() -> Rocwheel:
    """Wine looks for a Unix path that begins with `/` on the drive of the working directory."""
    return program("ROCWHEEL_WINDOWS")


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Pair:
    folders = {system: tmp_path / system for system in SYSTEMS}
    for folder in folders.values():
        folder.mkdir()
    return Pair({system: request.getfixturevalue(system) for system in SYSTEMS}, folders)


@pytest.fixture(scope="session")
def starter() -> list[str]:
    """The words before any other program for Windows: those of Wine, none on Windows itself."""
    return [] if os.name == "nt" else [str(program("ROCWHEEL_WINE").binary)]


@pytest.fixture(scope="session")
def dist(windows: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of a build for Windows."""
    if os.name == "nt":
        pytest.skip("Debian's compilers make the libraries of the build")
    place = tmp_path_factory.mktemp("packages")
    (place / "build").mkdir()
    therock.BUILDS["windows"](place / "build")
    windows.run("package", "--windows-artifacts", "build", "--output", "out", cwd=place)
    return place / "out/dist"


@pytest.fixture(scope="session")
def python(dist: Path, starter: list[str], tmp_path_factory: pytest.TempPathFactory) -> WindowsPython:
    """The packages, installed by pip on Windows."""
    assert "ROCWHEEL_WINDOWS_PYTHON" in os.environ, "ROCWHEEL_WINDOWS_PYTHON is not set: run scripts/run-tests-windows"
    place = tmp_path_factory.mktemp("python") / "Python (x86)"
    shutil.copytree(os.environ["ROCWHEEL_WINDOWS_PYTHON"], place)
    python = WindowsPython(place, starter)
    where = ("--no-index", "--no-cache-dir", "--find-links", dist)
    python.run("-m", "pip", "install", "--quiet", *where, "rocm[libraries,devel,device-gfx1151]")
    return python


@pytest.fixture
def share(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The name of a share of a server for Windows, and its folder here. For Wine a folder in its
    own files is one; Windows shares every drive with its administrators."""
    if os.name == "nt":
        drive, _, rest = str(tmp_path).partition(":")
        yield rf"\\localhost\{drive}${rest}", tmp_path
        return
    assert "ROCWHEEL_WINE_FILES" in os.environ, "ROCWHEEL_WINE_FILES is not set: run scripts/run-tests-windows"
    server = Path(os.environ["ROCWHEEL_WINE_FILES"]) / "dosdevices/unc" / f"rocwheel-{os.getpid()}"
    server.mkdir(parents=True)
    (server / "share").symlink_to(tmp_path)
    yield rf"\\{server.name}\share", tmp_path
    (server / "share").unlink()
    server.rmdir()
