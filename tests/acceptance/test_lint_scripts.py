"""The scripts of the lint find what they are for, in a small tree with one fault each, and comments
and prose end at 100 columns."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from command import SCRIPTS


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


SCRIPT = Path(__file__).parents[2] / "scripts/check-width"

WORDS = "word " * 19  # 95 columns

URL = "https://example.org/" + "a" * 100


def check(folder: Path, name: str, text: str) -> list[str]:
    """The lines of a file that the script complains about, by their numbers."""
    (folder / name).write_text(text)
    result = subprocess.run([sys.executable, SCRIPT, name], cwd=folder, capture_output=True, text=True, check=False)
    assert result.stderr == "" and result.returncode == (1 if result.stdout else 0), result
    lines = result.stdout.splitlines()
    assert all(line.startswith(f"{name}:") and line.endswith(" columns") for line in lines), lines
    return [line.split(":")[1] for line in lines]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", f"{WORDS}one more\n"),
        ("page.md", f"# Title\n\n* item\n* {WORDS}and more\n"),
        ("page.md", f"{WORDS}see [the page]({URL})\n"),
        ("page.md", f"```\ncode\n```\n{WORDS}behind code\n"),
        ("page.md", f"> {WORDS}quoted\n"),
        ("code.rs", f"/// {WORDS}documented\n"),
        ("code.rs", f"    //! {WORDS}documented\n"),
        ("code.rs", f"fn f() {{}} // {WORDS}\n"),
        ("code.rs", f"/// ```\n/// code\n/// ```\n/// {WORDS}behind code\n"),
        ("code.py", f"value = 1  # {WORDS}behind code\n"),
        ("code.py", f'"""{WORDS}documented."""\n'),
        ("code.py", f'def f():\n    """First.\n\n    {WORDS}documented."""\n'),
        ("table.toml", f"# {WORDS}commented\n"),
        ("script.sh", f"# {WORDS}commented\n"),
        ("script", f"#!/usr/bin/env bash\n# {WORDS}commented\n"),
        ("script", f"#!/usr/bin/env python3\n# {WORDS}commented\n"),
        ("Makefile", f"# {WORDS}commented\n"),
    ],
)
def test_what_is_too_wide_is_named_with_its_line(tmp_path: Path, name: str, text: str) -> None:
    assert check(tmp_path, name, text) == [str(text.count("\n"))]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("page.md", f"{WORDS}fits\n"),
        ("page.md", f"| {WORDS}| a table |\n"),
        ("page.md", f"```\n$ {WORDS}recorded output\n```\n"),
        ("page.md", f"<!-- {WORDS}for machines -->\n"),
        ("page.md", f"* [{WORDS}]({URL})\n"),
        ("page.md", f"`{WORDS}one code span`\n"),
        ("page.md", f"{URL}\n"),
        ("page.md", f"## {WORDS}a heading\n"),
        ("code.rs", f"/// <{URL}>\n"),
        ("code.rs", f'const TEXT: &str = "{WORDS}https://example.org/ and more";\n'),
        ("code.rs", f"/// | {WORDS}| a table |\n"),
        ("code.rs", f"/// ```\n/// {WORDS}code\n/// ```\n"),
        ("code.py", f'TEXT = "# {WORDS}no comment"\n'),
        ("code.py", f'TEXT = """\n{WORDS}no docstring\n"""\n'),
        ("code.py", f'call("{"a" * 100}")  # noqa: E501\n'),
        ("table.toml", f'key = "{WORDS}a value"\n'),
        ("data.json", f'"{WORDS}another kind of file"\n'),
    ],
)
def test_what_fits_or_cannot_be_broken_passes(tmp_path: Path, name: str, text: str) -> None:
    assert check(tmp_path, name, text) == []


def test_without_names_it_looks_at_tracked_files(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "tracked.md").write_text(f"{WORDS}too wide\n")
    (tmp_path / "stray.md").write_text(f"{WORDS}too wide\n")
    subprocess.run(["git", "-C", tmp_path, "add", "tracked.md"], check=True)
    result = subprocess.run([sys.executable, SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "tracked.md:1: 103 columns\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_a_signal_ends_has_not_passed(number: signal.Signals) -> None:
    script = f". '{SCRIPTS / 'steps.bash'}'; try one true; echo ready; try two sleep 1"
    with subprocess.Popen(["bash", "-c", f"kind=quick; {script}"], stdout=subprocess.PIPE, text=True) as run_of_tests:
        assert run_of_tests.stdout and run_of_tests.stdout.readline() == "ready\n"
        run_of_tests.send_signal(number)
        said = run_of_tests.stdout.read()
    assert run_of_tests.returncode == 128 + number and "summary: quick FAILED" in said, said
