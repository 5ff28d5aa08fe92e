"""Tests of rocwheel.exe under Wine, beside the program for Linux; scripts/run-tests-windows names
both."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "acceptance"))

from command import Rocwheel  # noqa: E402  (it is in the other folder)

# In a GitHub job the program speaks to GitHub.
for name in [name for name in os.environ if name.startswith("GITHUB_")]:
    del os.environ[name]


def program(variable: str) -> Rocwheel:
    assert variable in os.environ, f"{variable} is not set: run scripts/run-tests-windows"
    return Rocwheel(Path(os.environ[variable]))


@pytest.fixture(scope="session")
def linux() -> Rocwheel:
    return program("ROCWHEEL_BINARY")


@pytest.fixture(scope="session")
def windows() -> Rocwheel:
    """Wine looks for a Unix path that begins with `/` on the drive of the working directory."""
    return program("ROCWHEEL_WINDOWS")


@pytest.fixture(scope="session")
def wine() -> Rocwheel:
    """Any other program for Windows: its name is the first argument."""
    return program("ROCWHEEL_WINE")


@pytest.fixture
def share(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The name of a share of a server for Windows, and its folder here. For Wine a folder in its
    own files is one."""
    assert "ROCWHEEL_WINE_FILES" in os.environ, "ROCWHEEL_WINE_FILES is not set: run scripts/run-tests-windows"
    server = Path(os.environ["ROCWHEEL_WINE_FILES"]) / "dosdevices/unc" / f"rocwheel-{os.getpid()}"
    server.mkdir(parents=True)
    (server / "share").symlink_to(tmp_path)
    yield rf"\\{server.name}\share", tmp_path
    (server / "share").unlink()
    server.rmdir()
