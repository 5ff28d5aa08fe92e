"""Kills before every single change of a file: nothing incomplete counts as complete, and the next
run completes it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from machine import forked, killed_at, rocm_sdk

from conftest import device_wheel
from sites import Site

# More changes than any of the runs makes.
TOO_MANY = 1000


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("installed") / "site")
    site.unpack_libraries()
    site.unpack(device_wheel("gfx942"))
    site.unpack_devel()
    return site


def expanded(installed: Site, directory: Path, *options: str) -> Site:
    site = copy_of(installed, directory)
    status, _, errors = site.init(*options)
    assert status == 0, errors
    return site


def copy_of(original: Site, directory: Path) -> Site:
    """Keeps hard links, which Python's own copying would split."""
    subprocess.run(["cp", "-a", original.directory, directory], check=True)
    site = object.__new__(Site)
    site.directory, site.devel = directory, directory / "_rocm_sdk_devel"
    return site


def problems(site: Site) -> list[tuple[str, str]]:
    status, output = forked(rocm_sdk(site.directory, "init", "--verify", "--json"))
    found = [(problem["kind"], problem["path"]) for problem in json.loads(output)["problems"]]
    assert status == bool(found), output
    return found


def nothing_would_be_left(site: Site) -> None:
    """Every file is in a RECORD, and a symbolic link also in that of its target's package."""
    records = {path.parent.name.split("-")[0]: path.read_text() for path in site.directory.glob("*.dist-info/RECORD")}
    for path in [path for path in site.directory.rglob("*") if path.is_symlink() or path.is_file()]:
        row = path.relative_to(site.directory).as_posix()
        if row.startswith("rocm_sdk/") or "__pycache__" in row or row.endswith("METADATA"):
            continue
        # RECORD quotes names that contain a comma or quotes.
        row = '"' + row.replace('"', '""') + '"' if '"' in row or "," in row else row
        assert [name for name, text in records.items() if f"{row}," in text], row
        end = os.path.relpath(os.path.realpath(path), site.directory)
        if path.is_symlink() and not end.startswith("_rocm_sdk_devel/"):
            owner = "rocm_sdk_device_gfx942" if "rocblas/library" in end else end.split("/")[0].removeprefix("_")
            assert f"{row}," in records[owner], (row, owner)


def kill_at_each_step(
    before: Site, directory: Path, options: list[str], check: Callable[[Site], None], every: int = 1
) -> int:
    """Kills `rocm-sdk init` at each step on a new copy, and lets a second, plain run complete it.
    Returns the number of steps."""
    for step in range(0, TOO_MANY, every):
        site = copy_of(before, directory / str(step))
        status, said = forked(killed_at(step, rocm_sdk(site.directory, "init", *options)))
        assert status in (0, -9), said
        nothing_would_be_left(site)
        if status == 0:
            assert problems(site) == []
            return step
        check(site)
        status, said = forked(rocm_sdk(site.directory, "init"))
        assert status == 0, said
        assert problems(site) == [], step
        nothing_would_be_left(site)
        for name in ("rocm_sdk_devel", "rocm_sdk_core", "rocm_sdk_device_gfx942"):
            assert len(site.record(name)) == len(set(site.record(name)))
        subprocess.run(["rm", "-r", site.directory], check=True)
    raise AssertionError(f"not done after {TOO_MANY} steps")


def test_expanding(installed: Site, tmp_path: Path) -> None:
    whole = []

    def check(site: Site) -> None:
        # The tree is either recognised as unfinished, or correct.
        found = problems(site)
        packed = (site.directory / "rocm_sdk_devel" / "_devel.tar").exists()
        assert ([kind for kind, _ in found] == ["not-expanded"]) == packed, found
        whole.append(not packed)
        # Only the kernels of the device package are left afterwards.
        assert all("K_gfx942.co" in path or kind == "leftover" for kind, path in found) or packed, found

    steps = kill_at_each_step(installed, tmp_path, [], check, every=8)
    assert steps > 60 and 0 < sum(whole) < 20, (steps, sum(whole))


@pytest.mark.parametrize(("old", "new"), [("hardlink", "symlink"), ("symlink", "copy"), ("symlink", "hardlink")])
def test_changing_links(installed: Site, tmp_path: Path, old: str, new: str) -> None:
    before = expanded(installed, tmp_path / "before", "--link-mode", old)
    contents = {path.name: path.read_bytes() for path in before.devel.rglob("*") if path.is_file()}
    done = expanded(installed, tmp_path / "done", "--link-mode", new)

    def check(site: Site) -> None:
        # It is in use at the same time: no file is ever missing or different.
        for path in [path for path in site.devel.rglob("*") if path.name in contents]:
            if path.is_file() and path.name not in (".expanded.json", "__init__.py"):
                assert path.read_bytes() == contents[path.name]
        files = {path.relative_to(site.devel) for path in site.devel.rglob("*") if path.is_file()}
        assert {path.relative_to(before.devel) for path in before.devel.rglob("*") if path.is_file()} <= files
        begun = site.receipt()["link_mode"] == new
        status, said = forked(rocm_sdk(site.directory, "init"))
        assert status == 0, said
        # The next run completes what was begun, with the same result.
        wanted = done if begun else before
        assert kinds(site) == kinds(wanted)

    assert kill_at_each_step(before, tmp_path, ["--link-mode", new], check, every=11) > 20


def kinds(site: Site) -> dict[str, str]:
    receipt = site.receipt()
    return {**{name: kind for name, (_, kind) in receipt["links"].items()}, **receipt["devices"]}


def test_repairing(installed: Site, tmp_path: Path) -> None:
    before = expanded(installed, tmp_path / "before")
    for name in ("lib/libamdhip64.so", "lib/librocblas.so.4", "llvm", "lib/rocblas/library/K_gfx942.co"):
        (before.devel / name).unlink()
    (before.devel / "share" / "empty").rmdir()
    split = before.devel / "lib" / "libamdhip64.so.6"
    content = split.read_bytes()
    split.unlink()
    split.write_bytes(content)
    assert len(problems(before)) == 7

    def check(site: Site) -> None:
        assert all(kind in ("link-missing", "split", "folder-missing", "leftover") for kind, _ in problems(site))
        status, said = forked(rocm_sdk(site.directory, "init", "--repair"))
        assert status == 0, said

    assert kill_at_each_step(before, tmp_path, ["--repair"], check, every=5) > 6
