"""The workflow that publishes rocwheel itself: as actionlint and shellcheck see it, and the shell
of its steps on files with the names of a release."""

import re
import shutil
import sys
from pathlib import Path

import pytest
from workflows import run_step

from command import Rocwheel, run
from tool_wheel import version_of

REPOSITORY = Path(__file__).resolve().parents[2]
WORKFLOW = REPOSITORY / ".github/workflows/release.yml"
# What scripts/dist and the job for Windows leave.
NAMES = (
    "rocwheel-1.2.3-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
    "rocwheel-1.2.3-py3-none-win_amd64.whl",
    "rocwheel-1.2.3-x86_64-unknown-linux-gnu.tar.gz",
    "rocwheel-1.2.3.tar.gz",
    "rocwheel.cdx.json",
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the scripts of a release read of the repository."""
    for name in ("Cargo.toml", "CHANGELOG.md", "Containerfile"):
        shutil.copy(REPOSITORY / name, tmp_path)
    for name in ("release-notes", "image", "machine.bash"):
        (tmp_path / "scripts").mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / "scripts" / name, tmp_path / "scripts")
    return tmp_path


def write_release(folder: Path) -> Path:
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_text(name)
    return folder


def test_github_takes_every_workflow(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    shutil.copytree(WORKFLOW.parent, tmp_path / ".github/workflows")
    found = run(Path(sys.prefix) / "bin/actionlint", "-no-color", cwd=tmp_path)
    assert not found.stdout.strip(), found.stdout
    # Nothing is published without a tag, and only these jobs may write.
    text = WORKFLOW.read_text()
    writing = re.findall(r"^  ([\w-]+):\n(?:    .*\n|\n)*?    permissions:\n((?:      .*\n)+)", text, re.M)
    assert {name: sorted(re.findall(r"([\w-]+): write", rights)) for name, rights in writing} == {
        "collect": ["attestations", "id-token"],
        "image": ["packages"],
        "pypi": ["id-token"],
        "page": ["contents"],
    }


def test_checksums_cover_every_file(tmp_path: Path) -> None:
    dist = write_release(tmp_path / "dist")
    run_step(WORKFLOW.read_text(), ("collect", "Write the checksums"), {}, tmp_path)
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=dist)
    assert {line.split("  ")[1] for line in (dist / "SHA256SUMS").read_text().splitlines()} == set(NAMES)


def test_pypi_gets_wheels_and_sources_alone(tmp_path: Path) -> None:
    write_release(tmp_path / "release")
    run_step(WORKFLOW.read_text(), ("pypi", "Choose what belongs on PyPI"), {}, tmp_path)
    assert sorted(path.name for path in (tmp_path / "dist").iterdir()) == sorted([*NAMES[:2], NAMES[3]])


def test_a_tag_is_the_version_and_has_notes(rocwheel: Rocwheel, checkout: Path) -> None:
    version = version_of(rocwheel)
    place = ("linux", "Compare the tag with the version")
    run_step(WORKFLOW.read_text(), place, {"TAG": f"v{version}"}, checkout)
    run_step(WORKFLOW.read_text(), place, {"TAG": "v9.9.9"}, checkout, expect=1).says(f"expected `v{version}`")
    notes = run(checkout / "scripts/release-notes", f"v{version}").stdout
    assert f"pip install rocwheel=={version}" in notes and "## [" not in notes
    changelog = checkout / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(f"## [{version}]", "## [0.0.1]"))
    said = run(checkout / "scripts/release-notes", f"v{version}", expect=1)
    assert f"CHANGELOG.md has no section `## [{version}]`" in said.stderr


def test_the_newest_release_is_found_by_its_major_version(tmp_path: Path) -> None:
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    run("git", "init", "--quiet", "--bare", origin)
    run("git", "clone", "--quiet", origin, clone)
    git = ("git", "-C", clone, "-c", "user.name=a", "-c", "user.email=a@b")
    for tag in ("v0.1.0", "v0.2.0"):
        run(*git, "commit", "--quiet", "--allow-empty", "--message", tag)
        run(*git, "tag", tag)
        run(*git, "push", "--quiet", "origin", tag)
        place = ("page", "Move the tag of the major version")
        run_step(WORKFLOW.read_text(), place, {"TAG": tag}, clone)
        at = run("git", "-C", origin, "rev-parse", "v0^{commit}", f"{tag}^{{commit}}").stdout.split()
        assert len(set(at)) == 1
    # The tag of the major version is no release.
    (pattern,) = re.findall(r'^    tags: \["(.*)"\]$', WORKFLOW.read_text(), re.M)
    assert [name for name in ("v0", "v0.2.0") if Path(name).match(pattern)] == ["v0.2.0"]


def test_an_image_needs_one_archive(checkout: Path) -> None:
    (checkout / "dist").mkdir()
    said = run(checkout / "scripts/image", expect=1).stderr
    assert said.endswith("has 0 archives of the program for Linux, and needs one: run make dist\n"), said
