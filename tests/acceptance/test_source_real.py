"""`rocwheel source checkout` of flash-attention's sdist and Debian's tarball of PyTorch. Part of
`--set all`."""

import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from command import Rocwheel, run

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
UPSTREAM = "THEROCK_UPSTREAM_DIFFBASE"
PYTORCH = "pytorch_2.6.0+dfsg.orig.tar.xz"


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
    rocwheel.run("source", "checkout", "flash-attention", "--archive", archive, "--root", tree.parent, expect=1).says(
        " M setup.py"
    )
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
    git(tree, *identity, "commit", "--quiet", "--all", "--message", "Say that it is patched")
    rocwheel.run("source", "patches", "save", tree, "--patches", tmp_path / "patches")
    command = ["source", "checkout", "flash-attention", "--archive", archive, "--root", tmp_path]
    rocwheel.run(*command, "--patches", tmp_path / "patches")
    again = tmp_path / "flash-attention"
    assert git(again, "rev-parse", "HEAD^{tree}") == git(tree, "rev-parse", "HEAD^{tree}")
    # The packages that pip would build of it know nothing of git.
    assert subprocess.run(["diff", "-r", "--exclude=.git", tree, again], check=False).returncode == 0


def test_torch_is_converted_as_by_the_command_alone(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """The committed tree is the archive's, converted by `rocwheel source hipify`; test_hipify_real
    knows the original."""
    subprocess.run([SCRIPTS / "fetch-sources", tmp_path / "given"], check=True)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rocwheel"
    archive = Path(os.environ.get("ROCWHEEL_CACHE", cache)) / "sources" / PYTORCH
    command = ["source", "checkout", "torch", "--archive", archive, "--root", tmp_path, "--json"]
    outcome = json.loads(rocwheel.run(*command).stdout)["checkouts"][0]
    rocwheel.run("source", "hipify", tmp_path / "given/pytorch", "--output", tmp_path / "alone")
    tree = tmp_path / "pytorch"
    # git knows no empty folders.
    run("find", tmp_path / "alone", "-type", "d", "-empty", "-delete")
    run("diff", "-r", "--no-dereference", "--exclude=.git", tree, tmp_path / "alone")
    # 593 new files and 96 changed ones, as the original makes of it.
    assert outcome["converted"] == 689
    assert len(git(tree, "diff", "--name-only", UPSTREAM, "HEAD").splitlines()) == 689
    assert git(tree, "rev-parse", "THEROCK_HIPIFY_DIFFBASE^").strip() == outcome["commit"]
    assert git(tree, "status", "--porcelain") == ""
