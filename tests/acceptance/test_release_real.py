"""The tool's own wheel and source archive: built twice, installed from both, and run on an old
system."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import synthetic
from command import Rocwheel, run

REPOSITORY = Path(__file__).resolve().parents[2]
# Debian 11: the oldest release that mirrors carry.
OLD, OLD_GLIBC = "bullseye", "2.31"


def build(repository: Path, output: Path, target: Path) -> Path:
    """What `make dist` does, from a tree that need not be committed."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "SOURCE_DATE_EPOCH": "1700000000"}
    command = [repository / "scripts/dist", "--dirty", "--output", output]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-8000:]
    return output


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def outputs_in(folder: str, names: list[str], outputs: set[Path]) -> set[str]:
    """What of a folder a copy of the sources leaves behind."""
    return {name for name in names if Path(folder, name) in outputs or name == "__pycache__"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(REPOSITORY, tmp_path_factory.mktemp("release") / "dist", REPOSITORY / "target")


def test_the_files_are_those_of_a_release(dist: Path) -> None:
    names = sorted(path.name for path in dist.iterdir())
    assert len(names) == 3 and names[0] == "SHA256SUMS", names
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=dist)
    (wheel,) = dist.glob("*.whl")
    assert wheel.name.endswith("-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [name for name in names if name.endswith(".data/scripts/rocwheel")], names
    assert [name for name in names if name.endswith("/licenses/LICENSE-MIT")], names
    (source,) = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
        times = {member.mtime for member in archive}
    assert {"Cargo.lock", "PKG-INFO", "data/targets.toml", "python/rocm/rocm_build.py"} <= members
    assert times == {1_700_000_000}
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, source)


def test_the_same_sources_give_the_same_bytes_in_another_folder(dist: Path, tmp_path: Path) -> None:
    clone = tmp_path / "elsewhere"
    outputs = {REPOSITORY / name for name in ("target", ".venv", "dist", ".demo", ".git")}
    shutil.copytree(REPOSITORY, clone, symlinks=True, ignore=lambda folder, names: outputs_in(folder, names, outputs))
    again = build(clone, tmp_path / "dist", tmp_path / "target")
    assert digests(dist) == digests(again)


def test_it_works_on_an_old_system_as_here(rocwheel: Rocwheel, dist: Path, tmp_path: Path) -> None:
    artifacts = synthetic.write_artifacts(tmp_path / "artifacts", synthetic.Compiled.make(tmp_path))
    rocwheel.run("package", "--artifacts", artifacts, "--output", tmp_path / "here")
    script = f"""
        set -euo pipefail
        ldd --version | sed -n 1p
        python3 -m venv /opt/tool
        /opt/tool/bin/python -m pip install --quiet --no-index --find-links {dist} rocwheel
        cd {tmp_path}
        /opt/tool/bin/rocwheel --version
        /opt/tool/bin/rocwheel package --artifacts artifacts --output /opt/set
        /opt/tool/bin/rocwheel audit /opt/set/dist/*.whl
        cd /opt/set && sha256sum dist/*
    """
    in_root = [REPOSITORY / "scripts/in-root", OLD, "--share", dist, "--share", tmp_path, "--"]
    result = run(*in_root, "bash", "-c", script)
    assert result.stdout.splitlines()[0].endswith(f" {OLD_GLIBC}"), result.stdout
    there = dict(reversed(line.split("  ")) for line in result.stdout.splitlines() if "  dist/" in line)
    here = {f"dist/{name}": digest for name, digest in digests(tmp_path / "here/dist").items()}
    assert there == here


def test_the_archive_builds_without_a_network_and_without_a_registry(dist: Path, tmp_path: Path) -> None:
    (source,) = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("rocwheel-*/")
    # What Cargo has fetched for the build is enough.
    vendored = run("cargo", "vendor", "--locked", "--offline", cwd=unpacked)
    (unpacked / ".cargo").mkdir()
    (unpacked / ".cargo/config.toml").write_text(vendored.stdout)
    elsewhere = {"CARGO_HOME": str(tmp_path / "cargo"), "CARGO_TARGET_DIR": str(tmp_path / "target")}
    check = ["cargo", "check", "--locked", "--offline", "--package", "rocwheel"]
    run(*check, cwd=unpacked, environment={**elsewhere, "CARGO_NET_OFFLINE": "true"})
    assert not (tmp_path / "cargo/registry").exists()
