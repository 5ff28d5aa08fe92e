"""docs/framework-authors.md, followed on this machine. test_release_real.py follows it in a root
that has nothing but Python and a compiler."""

import sys
from pathlib import Path

import pytest
import therock
from guides import script

from command import Rocwheel, run
from linked_wheels import extension, write_wheel
from tool_wheel import pip_of

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
def test_the_guide_can_be_followed(tool: Path, dist: Path, tmp_path: Path) -> None:
    write_project(tmp_path, dist)
    (tmp_path / "follow.sh").write_text(script("framework-authors.md", tmp_path))
    environment = {"DIST": str(dist), **pip_of(tool, tmp_path)}
    said = run("bash", "follow.sh", cwd=tmp_path, environment=environment).stdout
    assert "42" in said.split() and "hipsparselt" in said
    assert "compiled against a ROCm version matching '1.0.*'" in said
    assert f'check_version="{therock.VERSION.rpartition(".")[0]}.*"' in (tmp_path / "demo/_rocm_init.py").read_text()
    (wheel,) = (tmp_path / "repaired").glob("plain-1.0-*.whl")
    run(sys.executable, "-m", "zipfile", "--list", wheel).prints("plain/_rocm_init.py")
