"""What rocwheel.exe writes and prints is what the program for Linux writes and prints, byte for
byte: on wheels of PyPI, and on packages of both systems."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import therock

from command import Rocwheel
from packages import fetch_wheels
from trees import differences, digest_file, snapshot


@dataclass(frozen=True)
class Pair:
    """Both programs, each with a folder of its own, in which the same commands run."""

    programs: dict[str, Rocwheel]
    folders: dict[str, Path]

    def put(self, *paths: Path) -> None:
        for folder in self.folders.values():
            for path in paths:
                if path.is_dir():
                    shutil.copytree(path, folder / path.name, symlinks=True)
                else:
                    shutil.copy(path, folder)

    def run(self, *words: object, expect: int = 0) -> str:
        """Runs a command with both; what it prints on stdout must be the same."""
        said = {}
        for system, program in self.programs.items():
            result = program.run(*words, expect=expect, cwd=self.folders[system])
            said[system] = result.stdout
        assert said["windows"] == said["linux"]
        return said["linux"]

    def compare(self, place: str) -> Path:
        """Compares a result, a file or a folder; modes are not compared. Returns that of Linux."""
        linux, windows = (self.folders[system] / place for system in ("linux", "windows"))
        if linux.is_file():
            assert digest_file(windows) == digest_file(linux)
            return linux
        found = [{path: (entry[0], *entry[2:]) for path, entry in snapshot(root).items()} for root in (linux, windows)]
        assert found[0], f"{linux} is empty"
        assert differences(*found) == []
        return linux


@pytest.fixture
def pair(linux: Rocwheel, windows: Rocwheel, tmp_path: Path) -> Pair:
    folders = {system: tmp_path / system for system in ("linux", "windows")}
    for folder in folders.values():
        folder.mkdir()
    return Pair({"linux": linux, "windows": windows}, folders)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of PyPI with GPU code for several targets."""
    folder = fetch_wheels(tmp_path_factory.mktemp("wheel"), "gafime-rocm==0.4.7")
    (wheel,) = folder.glob("gafime_rocm-*.whl")
    return wheel


def test_audit(pair: Pair, wheel: Path) -> None:
    pair.put(wheel)
    said = pair.run("audit", wheel.name, expect=1)
    assert "RW007" in said
    document = json.loads(pair.run("audit", "--json", wheel.name, expect=1))
    assert document["findings"]


def test_kernels(pair: Pair, wheel: Path) -> None:
    pair.put(wheel)
    document = json.loads(pair.run("kernels", "--json", "--by", "kernel", wheel.name))
    assert document["files"]
    pair.run("kernels", wheel.name, "--plot", "sizes.svg")
    pair.compare("sizes.svg")


def test_edit_and_diff(pair: Pair, wheel: Path) -> None:
    pair.put(wheel)
    pair.run("edit", wheel.name, "--local-version", "rocm7.0", "--output", "edited")
    (edited,) = pair.compare("edited").iterdir()
    assert "+rocm7.0" in edited.name
    said = pair.run("diff", wheel.name, f"edited/{edited.name}", "--json")
    assert json.loads(said)


def test_repair(pair: Pair, wheel: Path) -> None:
    pair.put(wheel)
    pair.run("repair", wheel.name, "--mode", "rocm", "--rocm-version", "7.*", "--output", "repaired")
    assert len(list(pair.compare("repaired").glob("*.whl"))) == 1


def test_prune(pair: Pair, wheel: Path) -> None:
    pair.put(wheel)
    target = json.loads(pair.run("kernels", "--json", wheel.name))["targets"][0]["target"]
    pair.run("prune", "--keep", target, wheel.name, "--output", "pruned")
    pair.compare("pruned")


def test_split_and_fuse(pair: Pair, wheel: Path) -> None:
    pair.put(wheel)
    pair.run("split", wheel.name, "--output", "parts")
    parts = sorted(f"parts/{path.name}" for path in pair.compare("parts").glob("*.whl"))
    assert len(parts) > 1
    pair.run("fuse", *parts, "--output", "fused")
    pair.compare("fused")


def test_package_for_both_systems(pair: Pair, tmp_path: Path) -> None:
    builds = {kind: tmp_path / kind for kind in ("kpack", "windows")}
    for kind, place in builds.items():
        place.mkdir()
        therock.BUILDS[kind](place)
        pair.put(place)
    pair.run("package", "--windows-artifacts", "windows", "--output", "for-windows")
    assert list(pair.compare("for-windows/dist").glob("*-win_amd64.whl"))
    wheels = (pair.folders["linux"] / "for-windows/dist").glob("*.whl")
    said = pair.run("audit", "--json", *sorted(f"for-windows/dist/{path.name}" for path in wheels))
    assert "findings" in json.loads(said)


def test_artifacts(pair: Pair, tmp_path: Path) -> None:
    place = tmp_path / "windows-build"
    place.mkdir()
    therock.BUILDS["windows"](place)
    pair.put(place)
    pair.run("artifact", "list", "--json", place.name)
    pair.run("artifact", "archive", place.name, "--output", "archives")
    pair.compare("archives")
    pair.run("artifact", "flatten", "archives", "--output", "tree")
    pair.compare("tree")


def test_index(pair: Pair, wheel: Path) -> None:
    for folder in pair.folders.values():
        (folder / "index").mkdir()
        shutil.copy(wheel, folder / "index")
    pair.run("index", "build", "index", "--now", "2026-11-25T00:00:00Z")
    pair.compare("index/simple")
