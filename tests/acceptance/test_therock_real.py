"""TheRock's own tests of installed packages (`rocm_sdk.tests`) on packages of ours: with our Python
in them, and with that of TheRock's templates (`--python-templates`). The templates are those of a
checkout (scripts/fetch-therock). Part of `--set all`."""

import ast
import os
import re
import shutil
from pathlib import Path

import pytest
import therock

from command import SCRIPTS, Rocwheel, run
from environment import Environment

MODULES = [f"rocm_sdk.tests.{name}_test" for name in ("base", "core", "libraries", "devel")]


@pytest.fixture(scope="module")
def templates() -> Path:
    checkout = Path(run(SCRIPTS / "fetch-therock").stdout.strip())
    return checkout / "build_tools/packaging/python/templates"


def libraries(templates: Path) -> list[therock.Library]:
    """What `rocm_sdk` of the templates can preload, without what need not be there."""
    text = (templates / "rocm/src/rocm_sdk/_dist_info.py").read_text()
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "LibraryEntry" and not node.keywords:
            _, package, pattern, _, *folder = [ast.literal_eval(argument) for argument in node.args]
            found.append(therock.Library(package, folder[0] if folder else "lib", pattern))
    assert len(found) > 20
    return found


@pytest.mark.parametrize("python", ["ours", "theirs"])
def test_their_tests_pass_on_a_split_set(rocwheel: Rocwheel, templates: Path, python: str, tmp_path: Path) -> None:
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    therock.full(artifacts, libraries(templates))
    options = ("--python-templates", templates) if python == "theirs" else ()
    rocwheel.package(artifacts, tmp_path / "packages", *options)
    environment = Environment.create(tmp_path / "venv", "pip")
    environment.install(tmp_path / "packages/dist", "rocm[libraries,devel,device-gfx942]")
    if python == "ours":
        for path in (templates / "rocm/src/rocm_sdk/tests").glob("*.py"):
            shutil.copy(path, environment.site / "rocm_sdk/tests")
    ran = environment.run("python", "-m", "unittest", *MODULES)
    (count,) = re.findall(r"^Ran (\d+) tests in ", ran.stderr, re.MULTILINE)
    assert int(count) >= 25
    assert "skipped" not in ran.stderr


def test_the_compiler_of_the_devel_tree_is_its_own(rocwheel: Rocwheel, templates: Path, tmp_path: Path) -> None:
    """The driver in `bin` starts the program beside it in the tree, which has the headers, and not
    that of core."""
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    therock.full(artifacts, libraries(templates))
    rocwheel.package(artifacts, tmp_path / "packages", "--python-templates", templates)
    environment = Environment.create(tmp_path / "venv", "pip")
    environment.install(tmp_path / "packages/dist", "rocm[libraries,devel]")
    root = Path(environment.run("rocm-sdk", "path", "--root").stdout.strip())
    program = root / "lib/llvm/bin/amdclang++"
    program.unlink()
    program.write_text("#!/bin/sh\necho DEVEL-TREE\n")
    program.chmod(0o755)
    assert os.readlink(root / "bin/amdclang++") == "../lib/llvm/bin/amdclang++"
    assert run(root / "bin/amdclang++").stdout == "DEVEL-TREE\n"
