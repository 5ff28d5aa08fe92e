"""`rocwheel source checkout` of a release of PyPI: flash-attention's sdist, 6,600 files. Part of `--set all`; 8 MB are downloaded once."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from command import Rocwheel, run

UPSTREAM = "THEROCK_UPSTREAM_DIFFBASE"


def git(tree: Path, *arguments: str) -> str:
    return run("git", "-C", tree, *arguments).stdout


@pytest.fixture(scope="module")
def checked_out(rocwheel: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The checkout, and the archive that it was made of, in a cache of its own."""
    root = tmp_path_factory.mktemp("source")
    environment = {"ROCWHEEL_CACHE": str(root / "cache")}
    command = ["source", "checkout", "flash-attention", "--archive", "2.8.3", "--root", root, "--json"]
    outcome = json.loads(rocwheel.run(*command, environment=environment).stdout)["checkouts"][0]
    assert outcome["status"] == "new"
    again = json.loads(rocwheel.run(*command, environment=environment).stdout)["checkouts"][0]
    assert (again["status"], again["commit"]) == ("unchanged", outcome["commit"])
    (archive,) = (root / "cache").rglob("flash_attn-2.8.3.tar.gz")
    return root / "flash-attention", archive


def test_the_commit_has_every_file_of_the_archive(checked_out: tuple[Path, Path]) -> None:
    tree, archive = checked_out
    with tarfile.open(archive) as sdist:
        members = [member for member in sdist if member.isfile()]
        wanted = {member.name.partition("/")[2]: member.mode & 0o100 != 0 for member in members}
        differ = [
            member.name
            for member in members
            if (tree / member.name.partition("/")[2]).read_bytes() != sdist.extractfile(member).read()
        ]
    assert differ == []
    listed = git(tree, "ls-tree", "-r", "-z", UPSTREAM).split("\0")[:-1]
    entries = [entry.partition("\t") for entry in listed]
    assert {name: head.startswith("100755 ") for head, _, name in entries} == wanted
    assert len(wanted) > 6000
    assert git(tree, "status", "--porcelain", "--ignored") == ""


def test_a_patch_survives_a_checkout_from_scratch(
    rocwheel: Rocwheel, checked_out: tuple[Path, Path], tmp_path: Path
) -> None:
    tree, archive = checked_out
    setup = tree / "setup.py"
    setup.write_text(setup.read_text() + "# patched\n")
    refused = rocwheel.run("source", "checkout", "flash-attention", "--archive", archive, "--root", tree.parent, expect=1)
    assert " M setup.py" in refused.stderr
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
    git(tree, *identity, "commit", "--quiet", "--all", "--message", "Say that it is patched")
    rocwheel.run("source", "patches", "save", tree, "--patches", tmp_path / "patches")
    command = ["source", "checkout", "flash-attention", "--archive", archive, "--root", tmp_path]
    rocwheel.run(*command, "--patches", tmp_path / "patches")
    again = tmp_path / "flash-attention"
    assert git(again, "rev-parse", "HEAD^{tree}") == git(tree, "rev-parse", "HEAD^{tree}")
    # The packages that pip would build of it know nothing of git.
    assert subprocess.run(["diff", "-r", "--exclude=.git", tree, again], check=False).returncode == 0
