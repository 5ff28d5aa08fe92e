"""A second run does only what changed."""

from pathlib import Path

import synthetic
from command import Rocwheel
from packages import PackageSet
from trees import snapshot


def identities(dist: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of change of every file: both change when a file is written anew, even with
    the same bytes."""
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in dist.iterdir()}


def test_nothing_changed_nothing_is_written(rocwheel: Rocwheel, package_set: PackageSet) -> None:
    before = identities(package_set.dist)
    rocwheel.package(package_set.artifacts, package_set.output)
    assert identities(package_set.dist) == before


def test_hard_links_to_packages_and_another_mode_write_nothing(
    rocwheel: Rocwheel, artifacts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    rocwheel.package(artifacts, output)
    before = identities(output / "dist")
    served = tmp_path / "served"
    served.mkdir()
    for package in (output / "dist").iterdir():
        (served / package.name).hardlink_to(package)
        package.chmod(0o600)
    rocwheel.package(artifacts, output)
    assert identities(output / "dist") == before
    # A file with the old size and other bytes is written anew.
    spoilt = next((output / "dist").glob("rocm_sdk_core-*"))
    content = spoilt.read_bytes()
    spoilt.unlink()
    spoilt.write_bytes(content[:-1] + b"x")
    rocwheel.package(artifacts, output)
    assert spoilt.read_bytes() == content


def test_one_changed_artifact_rewrites_only_its_wheels(rocwheel: Rocwheel, artifacts: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    rocwheel.package(artifacts, output)
    before = identities(output / "dist")
    kernel = artifacts / "blas_lib_gfx942/math-libs/BLAS/rocBLAS/stage/lib/rocblas/library/TensileLibrary_gfx942.dat"
    kernel.write_text("other kernels\n")
    rocwheel.package(artifacts, output)
    after = identities(output / "dist")
    assert before.keys() == after.keys()
    changed = {name.split("-")[0] for name in after if after[name] != before[name]}
    assert changed == {"rocm_sdk_device_gfx942"}
    # What an incremental run leaves is what a run from nothing makes.
    rocwheel.package(artifacts, tmp_path / "fresh")
    assert snapshot(tmp_path / "fresh/dist") == snapshot(output / "dist")


def test_a_touched_file_with_the_same_content_changes_no_byte(
    rocwheel: Rocwheel, artifacts: Path, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    rocwheel.package(artifacts, output)
    before = snapshot(output / "dist")
    for path in artifacts.rglob("*.dat"):
        path.touch()
    rocwheel.package(artifacts, output)
    assert snapshot(output / "dist") == before


def test_another_version_leaves_no_wheel_of_the_old_one(rocwheel: Rocwheel, artifacts: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    rocwheel.package(artifacts, output)
    refused = rocwheel.package(artifacts, output, "--version", "7.2.0", expect=1)
    assert "which those of version 7.2.0 would replace" in refused.stderr
    rocwheel.package(artifacts, output, "--version", "7.2.0", "--replace")
    versions = {path.name.split("-")[1].removesuffix(".tar.gz") for path in (output / "dist").iterdir()}
    assert versions == {"7.2.0"}


def test_a_dropped_artifact_takes_its_wheel_away(rocwheel: Rocwheel, artifacts: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    rocwheel.package(artifacts, output)
    target = artifacts / "blas_lib_gfx1100"
    for path in sorted(target.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    target.rmdir()
    # An inventory that still named the target would make the set incomplete.
    inventory = artifacts / "base_lib_generic" / synthetic.BASE / "share/therock/dist_info.json"
    inventory.write_text('{"dist_amdgpu_targets": "gfx942"}')
    rocwheel.package(artifacts, output)
    assert not list((output / "dist").glob("rocm_sdk_device_gfx1100-*"))
