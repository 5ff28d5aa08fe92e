"""The pages for users: their links lead somewhere, and their commands have the options that they
name."""

import functools
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from command import REPOSITORY, Rocwheel

PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md"), *REPOSITORY.glob("examples/*/*.md")])


def blocks(page: Path) -> Iterator[str]:
    """The code blocks of a page."""
    return (match[1] for match in re.finditer(r"^```\w*\n(.*?)^```", page.read_text(), re.M | re.S))


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_files_and_headings() -> None:
    wrong = []
    for page in PAGES:
        for path, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text()):
            if path.startswith("http"):
                continue
            target = page.parent / path if path else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                wrong.append(f"{page.relative_to(REPOSITORY)}: {path}#{anchor}")
    assert wrong == []


def test_every_page_is_in_the_index() -> None:
    index = REPOSITORY / "docs/README.md"
    linked = {path for path, _ in re.findall(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", index.read_text())}
    assert {page.name for page in REPOSITORY.glob("docs/*.md")} - {"README.md"} == linked


def commands(page: Path) -> Iterator[list[str]]:
    """The command lines of rocwheel in the code blocks of a page, in words."""
    for block in blocks(page):
        for line in block.replace("\\\n", " ").splitlines():
            command = re.match(r"(?:[-+$] *)?(?:[A-Z_]+=\S+ )?rocwheel (.*)", line)
            if command:
                words = shlex.split(command[1], comments=True)
                yield list(itertools.takewhile(lambda word: word not in ("|", ">"), words))


def test_commands_have_the_options_that_they_name(rocwheel: Rocwheel) -> None:
    @functools.cache
    def help_of(*names: str) -> str:
        return rocwheel.run(*names, "--help").stdout

    def is_command(names: tuple[str, ...], word: str) -> bool:
        text = help_of(*names)
        # The program's own commands are in groups, each with a heading.
        listed = re.search(r"^(?:Commands|Scripts):\n(.*?)^(?!  )", text, re.M | re.S) if names else None
        lines = listed[1] if listed else "" if names else text.partition("\nOptions:")[0]
        return re.search(rf"^  {re.escape(word)}(?: |$)", lines, re.M) is not None

    wrong, seen = [], 0
    for page in PAGES:
        if page.name == "benchmarks.md":
            continue  # its blocks are tables, whose rows begin with the names of commands
        for words in commands(page):
            names: tuple[str, ...] = ()
            for word in words:
                if not is_command(names, word):
                    break
                names += (word,)
            # What is behind `--` is for another program.
            own = words[: words.index("--")] if "--" in words else words
            options = {word.partition("=")[0] for word in own if re.match(r"--?[a-z]", word)}
            unknown = sorted(
                option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", help_of(*names))
            )
            seen += 1
            if not names and words[:1] != ["--version"] or unknown:
                wrong.append(f"{page.relative_to(REPOSITORY)}: rocwheel {shlex.join(words)}: {unknown or 'no command'}")
    assert wrong == []
    assert seen > 100, "the pages have more commands than that"
