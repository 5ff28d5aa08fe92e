"""docs/framework-authors.md: its blocks are run one after the other, as somebody would who follows
the page."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import therock

from command import Rocwheel, run
from linked_wheels import extension, write_wheel

PAGE = Path(__file__).resolve().parents[2] / "docs/framework-authors.md"
BLOCKS = re.findall(r"^```(sh|python|cmake)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)

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


def test_the_guide_can_be_followed(rocwheel: Rocwheel, dist: Path, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "answer.c").write_text("extern int hip(void);\nint answer(void) { return hip(); }\n")
    hip = tmp_path / "other/libamdhip64.so.7"
    hip.parent.mkdir()
    run("gcc", "-shared", "-fPIC", "-Wl,-soname,libamdhip64.so.7", "-x", "c", "-o", hip, dist.parents[1] / "hip.c")
    module = extension(tmp_path / "other", "hip", hip)
    write_wheel(tmp_path, {"plain/__init__.py": b"", "plain/_ext.so": module.read_bytes()}, name="plain")
    # Files are there before the commands that need them; the page shows them where it speaks of
    # them.
    steps = ["set -eux", f"PATH={rocwheel.binary.parent}:$PATH"]
    for language, text in BLOCKS:
        file = re.match(r"# (\S+\.(?:py|txt))\n", text)
        if file:
            (tmp_path / file[1]).write_text(text)
        elif language == "sh":
            steps.append(f"({text})" if "cd /" in text else text)
        else:
            steps.append(f"python - <<'BLOCK'\n{text}\nBLOCK")
    assert len(steps) > 8
    (tmp_path / "follow.sh").write_text("\n".join(steps))
    said = run("bash", "follow.sh", cwd=tmp_path, environment={"DIST": str(dist)}).stdout
    assert "42" in said.split() and "hipsparselt" in said
    assert "compiled against a ROCm version matching '1.0.*'" in said
    assert f'check_version="{therock.VERSION.rpartition(".")[0]}.*"' in (tmp_path / "demo/_rocm_init.py").read_text()
    (wheel,) = (tmp_path / "repaired").glob("plain-1.0-*.whl")
    listed = run(sys.executable, "-m", "zipfile", "--list", wheel).stdout
    assert "plain/_rocm_init.py" in listed
