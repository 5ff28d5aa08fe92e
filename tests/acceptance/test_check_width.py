"""`scripts/check-width`: comments and prose end at 100 columns."""

import subprocess
import sys
from pathlib import Path

import pytest

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
