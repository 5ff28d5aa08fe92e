"""The scripts of the lint find what they are for, in a small tree with one fault each."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def run(script: str, tree: Path, *arguments: str) -> tuple[int, str]:
    copy = tree / "scripts" / script
    copy.parent.mkdir(exist_ok=True)
    shutil.copy(SCRIPTS / script, copy)
    finished = subprocess.run([copy, *arguments], capture_output=True, text=True, check=False)
    return finished.returncode, finished.stdout + finished.stderr


def crate(tree: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = tree / "crates/base/one/src" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


ROOT = "mod a;\nmod b;\nmod c;\npub use a::Thing;\n"
TESTS = "\n#[cfg(test)]\nmod tests {\n    use crate::a::Thing;\n}\n"


@pytest.mark.parametrize(
    "imported",
    [
        "use crate::a::Thing;",
        "use crate::{a::Thing, c};",
        "use crate::{c::{self, Other}, a::{Deep, Thing}};",
        "use super::a;",
        # Through the name that the root offers.
        "use crate::Thing;",
        "fn inside() -> crate::a::Thing { todo() }",
    ],
)
def test_two_modules_that_use_each_other_are_a_knot(tmp_path: Path, imported: str) -> None:
    crate(tmp_path, {"lib.rs": ROOT, "a.rs": "use crate::b::Other;\n", "b.rs": imported + "\n", "c.rs": ""})
    code, said = run("check-knots", tmp_path)
    assert (code, said.splitlines()) == (1, ["base/one: 2 files", "    a uses b", "    b uses a", "1 knots"]), said


@pytest.mark.parametrize(
    "harmless",
    [
        "// use crate::a::Thing;",
        "pub(crate) fn nothing() {}",
        "use rocwheel_other::a::Thing;",
        "use crate::c;" + TESTS,
        # A name that begins as that of a module.
        "use crate::c::a_thing;",
    ],
)
def test_what_is_no_circle_is_none(tmp_path: Path, harmless: str) -> None:
    crate(tmp_path, {"lib.rs": ROOT, "a.rs": "use crate::b::Other;\n", "b.rs": harmless + "\n", "c.rs": ""})
    assert run("check-knots", tmp_path) == (0, "0 knots\n")


def test_a_module_and_its_folder_are_a_family(tmp_path: Path) -> None:
    files = {"lib.rs": "mod a;\n", "a.rs": "mod b;\nmod c;\nuse self::b::Other;\n"}
    files |= {"a/b.rs": "use super::Thing;\nuse super::c;\n", "a/c.rs": "use super::b;\n"}
    crate(tmp_path, files)
    assert run("check-knots", tmp_path) == (0, "0 knots\n")
    assert "3 files (a family)" in run("check-knots", tmp_path, "--all")[1]
    crate(tmp_path, {"lib.rs": "mod a;\nmod d;\n", "a/c.rs": "use crate::d;\n", "d.rs": "use crate::a::b;\n"})
    assert "base/one: 4 files\n" in run("check-knots", tmp_path)[1], "a stranger in the family"


def test_what_grows_is_over_its_budget(tmp_path: Path) -> None:
    crate(tmp_path, {"lib.rs": "fn one() {\n    let two = |x| x;\n}\n" + TESTS})
    (tmp_path / ".ci").mkdir()
    for words in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert run("check-budget", tmp_path, "--write")[0] == 0
    assert run("check-budget", tmp_path)[0] == 0
    crate(tmp_path, {"lib.rs": "fn one() {\n    let two = |x| x;\n    let three = move |x| x;\n}\n"})
    code, said = run("check-budget", tmp_path)
    assert code == 1 and "base/one: 2 named closures, 1 are allowed" in said, said
    crate(tmp_path, {"lib.rs": "fn one() {}\n"})
    assert run("check-budget", tmp_path)[0] == 0
    crate(tmp_path, {"../../two/src/lib.rs": "fn two() {}\n"})
    assert "base/two: 1 lines, 0 are allowed" in run("check-budget", tmp_path)[1]
    (tmp_path / ".ci/budget.json").write_text("{")
    assert run("check-budget", tmp_path)[0] == 1, "a table that cannot be read allows nothing"
