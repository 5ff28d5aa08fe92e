"""`rocwheel release promote` on real wheels, and beside TheRock's own tool."""

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
import small_wheels
from test_kernels_real import MEASURE, cached_wheels
from test_promote import NEW, OLD, members, names, sets, torch

__all__ = ["sets"]

from command import Rocwheel, run
from environment import TOOLS, Environment
from packages import record_problems

REPOSITORY = Path(__file__).parents[2]
SCRIPT = "build_tools/packaging/promote_packages.py"
LARGE = "jax_rocm7_pjrt-0.12.0-py3-none-manylinux_2_27_x86_64.whl"


def candidate(rocwheel: Rocwheel, name: str, folder: Path) -> Path:
    """A real wheel of PyPI with the version that frameworks of a candidate have."""
    rocwheel.run("edit", cached_wheels() / name, "--local-version", f"rocm{OLD}", "--output", folder, "--no-audit")
    (edited,) = folder.glob("*.whl")
    return edited


def packed(path: Path) -> dict[str, tuple[int, int, int]]:
    with zipfile.ZipFile(path) as archive:
        return {one.filename: (one.CRC, one.compress_size, one.file_size) for one in archive.infolist()}


@pytest.mark.parametrize("name", [LARGE, "onnxruntime_rocm-1.22.2.post3-cp312-cp312-manylinux_2_34_x86_64.whl"])
def test_a_real_wheel_keeps_its_libraries(rocwheel: Rocwheel, tmp_path: Path, name: str) -> None:
    dist, output = tmp_path / "dist", tmp_path / "out"
    old = candidate(rocwheel, name, dist)
    rocwheel.run("release", "promote", dist, "--version", NEW, "--output", output)
    (new,) = output.glob("*.whl")
    assert new.name == old.name.replace(OLD, NEW)
    before = {member.replace(OLD, NEW): value for member, value in packed(old).items()}
    after = packed(new)
    assert before.keys() == after.keys()
    changed = {member for member in after if after[member] != before[member]}
    info = f"{'-'.join(new.name.split('-')[:2])}.dist-info"
    assert changed <= {f"{info}/METADATA", f"{info}/RECORD"} | {one for one in changed if one.endswith(".py")}
    assert record_problems(new) == []
    environment = Environment.create(tmp_path / "venv", "uv")
    if "py3" in name:
        run(TOOLS / "uv", "pip", "install", "--no-deps", "--python", environment.python, new)


def test_a_large_wheel_needs_little_memory(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist, output = tmp_path / "dist", tmp_path / "out"
    candidate(rocwheel, LARGE, dist)
    command = [rocwheel.binary, "release", "promote", dist, "--version", NEW, "--output", output]
    said = run(sys.executable, "-c", MEASURE, *command)
    peak = int(said.stderr.strip().splitlines()[-1])
    assert peak < 200_000, f"{peak} kB"


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """TheRock's tool and a Python that has what it needs."""
    checkout = Path(run(REPOSITORY / "scripts/fetch-therock").stdout.strip())
    venv = tmp_path_factory.mktemp("peer") / "venv"
    run(TOOLS / "uv", "venv", "--quiet", "--python", os.path.realpath(sys.executable), venv)
    run(
        TOOLS / "uv",
        "pip",
        "install",
        "--python",
        venv / "bin/python",
        "packaging==25.0",
        "pkginfo",
        "installer",
        "wheel==0.45.1",
    )
    return venv / "bin/python", checkout / SCRIPT


def test_what_both_tools_change_is_the_same(rocwheel: Rocwheel, script: tuple[Path, Path], tmp_path: Path) -> None:
    """The peer misses places and packs everything again; what it changes, we change in the same
    way."""
    python, peer = script
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    dist = tmp_path / "dist"
    torch(dist, f"2.14.0a0+rocm{OLD}", OLD)
    small_wheels.write_wheel(tmp_path / "there", "rocm", NEW)
    shutil.copytree(dist, theirs)
    bin_folder = str(Path(python).parent)
    run(python, peer, "--input-dir", theirs, environment={"PATH": f"{bin_folder}:{os.environ['PATH']}"})
    rocwheel.run("release", "promote", dist, "--version", NEW, "--output", ours, "--beside", tmp_path / "there")
    name = f"torch-2.14.0a0+rocm{NEW}-cp312-cp312-linux_x86_64.whl"
    assert name in names(theirs) and name in names(ours)
    made, expected = members(ours / name), members(theirs / name)
    info = f"torch-2.14.0a0+rocm{NEW}.dist-info"
    # Places that the peer misses, and files that it writes anew.
    missed, anew = {f"{info}/sboms/a.cdx.json"}, {f"{info}/RECORD", f"{info}/WHEEL"}
    assert made.keys() == expected.keys()
    assert {one for one in made if made[one] != expected[one]} - anew == missed
    assert OLD.encode() in expected[f"{info}/sboms/a.cdx.json"]


# Members that name the version or targets and that the peer does not change.
MISSED = ("_contents.json", "_devel.tar", "/.devel_links/", "/_device_", "/dist_info.json")


def test_the_packages_of_rocm_are_those_of_the_peer(
    rocwheel: Rocwheel, sets: tuple[Path, Path, Path], script: tuple[Path, Path], tmp_path: Path
) -> None:
    """With a target less: extras, pins, lists and the default target are the same."""
    python, peer = script
    ours, theirs, dist = tmp_path / "ours", tmp_path / "theirs", tmp_path / "dist"
    # The peer knows the selector as a source distribution only.
    for folder in (dist, theirs):
        shutil.copytree(sets[0], folder, ignore=shutil.ignore_patterns("rocm-*.whl"))
    environment = {"PATH": f"{Path(python).parent}:{os.environ['PATH']}"}
    run(python, peer, "--input-dir", theirs, "--multi-arch-targets", "gfx942", environment=environment)
    rocwheel.run("release", "promote", dist, "--version", NEW, "--keep-targets", "gfx942", "--output", ours)
    promoted = [name for name in names(ours) if not name.endswith(".json")]
    assert promoted == [name for name in names(theirs) if OLD not in name]
    for name in promoted:
        made, expected = members(ours / name), members(theirs / name)
        missed = {one for one in made if any(part in one for part in MISSED)}
        anew = {one for one in made if one.endswith((".dist-info/RECORD", ".dist-info/WHEEL"))}
        files = {one for one in made if made[one] or one in expected}
        assert files - {one for one in files if one.endswith("/")} <= expected.keys() | missed, name
        differs = {one for one in expected if one in made and made[one] != expected[one]} - missed - anew
        assert differs == set(), name
