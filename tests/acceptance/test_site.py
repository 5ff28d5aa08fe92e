"""The documentation's site: it builds without a warning, loads nothing from elsewhere, and its
search works from `file:`."""

import re
import subprocess
import time
import tomllib
from pathlib import Path

import pytest
from browser import Browser

from command import REPOSITORY, Rocwheel


@pytest.fixture(scope="module")
def site(rocwheel: Rocwheel) -> Path:
    made = subprocess.run([REPOSITORY / "scripts/site", rocwheel.binary], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return Path(made.stdout.strip()).parent


def test_every_finding_and_command_has_a_page(site: Path, rocwheel: Rocwheel) -> None:
    rows = tomllib.loads((REPOSITORY / "data/findings.toml").read_text())["finding"]
    for row in rows:
        page = (site / f"findings/{row['code'].lower()}-{row['name']}.html").read_text()
        assert row["title"] in re.sub(r"</?code>", "`", page), row["code"]
    listed = rocwheel.run("--help").stdout.partition("\nOptions:")[0]
    names = re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE)
    assert len(names) > 20
    # The word `help` has no page: it prints the others'.
    for name in set(names) - {"help"}:
        assert (site / f"commands/rocwheel-{name}.html").exists(), name


def test_links_lead_to_pages_and_headings(site: Path) -> None:
    """Of the finished pages, not of their sources."""
    texts = {page: page.read_text() for page in site.rglob("*.html") if page.name != "404.html"}
    names = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in texts.items()}
    wrong = []
    for page, text in texts.items():
        for target in re.findall(r'<a\b[^>]*\bhref="([^"]*)"', text):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            file = file / "index.html" if file.is_dir() else file
            if not file.exists() or (anchor and file in names and anchor not in names[file]):
                wrong.append(f"{page.relative_to(site)}: {target}")
    assert len(texts) > 60 and not wrong, "\n".join(wrong)


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r'<(?:script|img|iframe)\b[^>]*\bsrc="([^"]*)"|<link\b[^>]*rel="stylesheet"[^>]*href="([^"]*)"')
    for page in site.rglob("*.html"):
        for match in loaded.finditer(page.read_text()):
            assert not re.match(r"(https?:)?//", match[1] or match[2]), f"{page}: {match[0]}"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_search_finds_what_people_see(site: Path, browser: Browser, width: int) -> None:
    browser.resize(width)
    browser.open((site / "index.html").as_uri())
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.run("document.querySelector('#__search').click(); document.querySelector('.md-search__input').focus()")
    browser.type(*"libamdhip64 not found")
    found: list[str] = []
    for _ in range(100):
        found = browser.run("return [...document.querySelectorAll('.md-search-result__link')].map(l => l.href)")
        if found:
            break
        time.sleep(0.2)
    assert any("findings/rw0" in link or "doctor" in link for link in found), found
    errors = [line for line in browser.console() if "SEVERE" in line or "error" in line.lower()]
    assert not errors, errors
