"""What the source archive of the tool has to hold, without building it; which names of a set others
have, or could register; and the workflow that publishes rocwheel itself: as actionlint and
shellcheck see it, and the shell of its steps on files with the names of a release."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Answers, served
from test_chooser import write_wheel as tagged_wheel
from test_release_publish import publish, rocm
from workflows import run_step

from command import REPOSITORY, Rocwheel, run
from tool_wheel import version_of

EMBEDDING = re.compile(r'include_(?:str|bytes)!\(\s*(?:concat!\(\s*)?"(\.\./[^"]*)"')


def test_what_the_crates_embed_is_in_the_source_archive() -> None:
    """maturin packs crates by their folders. What they take from elsewhere, pyproject.toml has to
    name."""
    settings = (REPOSITORY / "pyproject.toml").read_text()
    included = re.findall(r'\{ path = "([\w/]+)/\*\*/\*", format = "sdist" \}', settings)
    elsewhere = set()
    for source in (REPOSITORY / "crates").rglob("*.rs"):
        crate = source.relative_to(REPOSITORY).parts[:3]
        for path in EMBEDDING.findall(source.read_text()):
            place = Path(os.path.normpath(source.parent / path)).relative_to(REPOSITORY)
            # A crate that another one depends on is in the archive as well.
            if place.parts[:3] != crate and place.parts[0] != "crates":
                elsewhere.add(place)
    assert {"data", "python"} <= {place.parts[0] for place in elsewhere}, "the expression finds them"
    for place in elsewhere:
        assert any(place.is_relative_to(folder) for folder in included), f"{place} would be missing"
        assert place.parts[:2] != ("python", "tests"), f"{place} is left out of the archive"


def test_a_release_is_made_of_what_is_committed(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", REPOSITORY.as_uri(), clone], check=True)
    # As they are now, whether they are committed or not.
    script = clone / "scripts/dist"
    script.write_bytes((REPOSITORY / "scripts/dist").read_bytes())
    script.chmod(0o755)
    (clone / "README.md").write_text("changed\n")
    refused = subprocess.run([script, "--output", tmp_path / "dist"], capture_output=True, text=True)
    assert refused.returncode == 1 and "README.md" in refused.stderr and "--dirty" in refused.stderr, refused
    assert not (tmp_path / "dist").exists() and not (clone / "target").exists()
    unknown = subprocess.run([script, "--help"], capture_output=True, text=True)
    assert unknown.returncode == 1 and "usage: scripts/dist" in unknown.stderr


def states(said: str) -> dict[str, dict]:
    return {one.pop("name"): one for one in json.loads(said)["public-names"]}


def test_names_on_a_public_index_are_reported(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist = rocm(tmp_path / "dist", "7.2.0")
    public = tmp_path / "public"
    tagged_wheel(public, "rocm", "7.2.0", "1-py3-none-any")
    tagged_wheel(public, "rocm", "7.1.0", "9-py3-none-any")
    tagged_wheel(public, "rocm-sdk-core", "99.0", "py3-none-any")
    rocwheel.run("index", "build", public)
    words = ("--dry-run", "--public-index", public)
    said = publish(rocwheel, dist, tmp_path / "store", *words).stderr
    assert "for `rocm==7.2.0`, an installer with both indexes may take `rocm-7.2.0-1-py3-none-any.whl`" in said
    assert "has higher versions of `rocm-sdk-core`" in said
    assert "2 names are free" in said and "`rocm-sdk-device-gfx1100`, `rocm-sdk-device-gfx942`" in said
    told = rocwheel.run(
        *("--json", "release", "publish", dist, "--to", tmp_path / "store", "--stream", "nightly"), *words
    )
    registered = {"version": "7.2.0", "state": "registered"}
    assert states(told.stdout) == {
        "rocm": {**registered, "against-pins": ["rocm-7.2.0-1-py3-none-any.whl"], "higher": []},
        "rocm-sdk-core": {**registered, "against-pins": [], "higher": ["rocm_sdk_core-99.0-py3-none-any.whl"]},
        **{f"rocm-sdk-device-{gpu}": {"version": "7.2.0", "state": "free"} for gpu in ("gfx942", "gfx1100")},
    }


class Broken(Answers):
    """Lists projects, and has no page of any but one."""

    def do_GET(self) -> None:
        body = b'<!DOCTYPE html><a href="rocm/">rocm</a>' if self.path == "/simple/" else b"no"
        self.reply(body, {"/simple/": 200, "/simple/rocm/": 403}.get(self.path, 404))


def test_what_an_index_does_not_answer_is_unknown(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist = rocm(tmp_path / "dist", "7.2.0")
    with served(tmp_path, Broken) as address:
        words = ("--dry-run", "--public-index")
        said = publish(rocwheel, dist, tmp_path / "store", *words, f"{address}/simple/").stderr
        assert f"whether {address}/simple/ has `rocm` is unknown: the server answers 403" in said
        # Without a list of projects, every name would seem free.
        refused = publish(rocwheel, dist, tmp_path / "store", *words, f"{address}/", expect=1).stderr
        assert f"cannot read the index `{address}/`" in refused and "the server answers 404" in refused
        assert "names are free" not in refused


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
