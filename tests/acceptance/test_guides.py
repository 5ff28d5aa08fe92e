"""The terminal of the README, docs/first-wheel.md and docs/framework-authors.md, followed with the
debug binary on this machine. test_release_real.py follows them in a root that has nothing but
Python and a compiler."""

import sys
from pathlib import Path

import pytest
import therock
from guides import script

from command import REPOSITORY, Rocwheel, download, run
from linked_wheels import extension, write_wheel
from tool_wheel import pip_of


@pytest.mark.long
def test_the_first_wheel_can_be_followed(tool: Path, tmp_path: Path) -> None:
    (tmp_path / "follow.sh").write_text(script("first-wheel.md", tmp_path))
    said = run("bash", "follow.sh", cwd=tmp_path, environment=pip_of(tool, tmp_path)).prints("RW007 too-new")
    assert list((tmp_path / "repaired").glob("gafime_rocm-0.4.7-*manylinux_2_34_x86_64.whl"))
    received = sorted(path.name.split("-")[0] for path in (tmp_path / "received").glob("*.whl"))
    assert received == ["gafime_rocm", "gafime_rocm_device_gfx942"]
    assert ", 0 errors" in said.stdout.splitlines()[-1] or ": 0 errors" in said.stdout.splitlines()[-1]


def test_the_terminal_of_the_readme_is_what_the_program_prints(rocwheel: Rocwheel, tmp_path: Path) -> None:
    download(tmp_path, "--python-version", "3.12", "--platform", "manylinux_2_28_x86_64", "gafime-rocm==0.4.7")
    (wheel,) = tmp_path.glob("*.whl")
    drawn = tmp_path / "audit.svg"
    run(
        *(sys.executable, REPOSITORY / "scripts/terminal-picture"),
        *("--rocwheel", rocwheel.binary, "--wheel", wheel, "--output", drawn),
    )
    kept = REPOSITORY / "docs/images/audit.svg"
    assert drawn.read_text() == kept.read_text(), "run scripts/terminal-picture, and look at the picture"


# What a ROCm has there.
CONFIG = """
get_filename_component(prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
add_library(hip::host SHARED IMPORTED)
set_target_properties(hip::host PROPERTIES IMPORTED_LOCATION "${prefix}/lib/libamdhip64.so.7")
"""


@pytest.fixture(scope="module")
def dist(rocwheel: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rocm")
    therock.kpack(folder / "artifacts")
    build = therock.Build(folder / "artifacts")
    build.file("core-hip_dev_generic", "lib/cmake/hip/hip-config.cmake", CONFIG)
    place = folder / "artifacts/core-hip_lib_generic/core-hip/stage/lib/libamdhip64.so.7.1.0"
    source = folder / "hip.c"
    source.write_text("int hip(void) { return 42; }\n")
    run("gcc", "-shared", "-fPIC", "-Wl,-soname,libamdhip64.so.7", source, "-o", place)
    rocwheel.run("package", "--artifacts", folder / "artifacts", "--output", folder / "packages")
    return folder / "packages/dist"


def write_project(folder: Path, dist: Path) -> None:
    """What the author of a framework has: sources, and a wheel that was built without ROCm's
    packages."""
    (folder / "demo").mkdir()
    (folder / "answer.c").write_text("extern int hip(void);\nint answer(void) { return hip(); }\n")
    hip = folder / "other/libamdhip64.so.7"
    hip.parent.mkdir()
    run("gcc", "-shared", "-fPIC", "-Wl,-soname,libamdhip64.so.7", "-x", "c", "-o", hip, dist.parents[1] / "hip.c")
    module = extension(folder / "other", "hip", hip)
    write_wheel(folder, {"plain/__init__.py": b"", "plain/_ext.so": module.read_bytes()}, name="plain")


@pytest.mark.long
def test_the_guide_of_frameworks_can_be_followed(tool: Path, dist: Path, tmp_path: Path) -> None:
    write_project(tmp_path, dist)
    (tmp_path / "follow.sh").write_text(script("framework-authors.md", tmp_path))
    environment = {"DIST": str(dist), **pip_of(tool, tmp_path)}
    said = run("bash", "follow.sh", cwd=tmp_path, environment=environment).stdout
    assert "42" in said.split() and "hipsparselt" in said
    assert "compiled against a ROCm version matching '1.0.*'" in said
    assert f'check_version="{therock.VERSION.rpartition(".")[0]}.*"' in (tmp_path / "demo/_rocm_init.py").read_text()
    (wheel,) = (tmp_path / "repaired").glob("plain-1.0-*.whl")
    run(sys.executable, "-m", "zipfile", "--list", wheel).prints("plain/_rocm_init.py")
