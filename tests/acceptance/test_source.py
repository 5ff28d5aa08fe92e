"""`rocwheel source` without rights, into a pipe that closes, in a narrow terminal, and with flags
that are nearly right."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from command import Rocwheel, run, unprivileged
from trees import snapshot

TABLES = """\
import collections
NAMES = collections.OrderedDict([('cudaMalloc', 'hipMalloc'), ('cudaStream_t', 'hipStream_t')])
CUDA_TO_HIP_MAPPINGS = [NAMES]
"""


def extension(folder: Path, count: int = 3) -> Path:
    """An extension with tables beside it, which anybody may read and change."""
    (folder / "torch").mkdir()
    (folder / "torch/cuda_to_hip_mappings.py").write_text(TABLES)
    tree = folder / "tree"
    (tree / "csrc").mkdir(parents=True)
    for number in range(count):
        (tree / f"csrc/k{number}.cu").write_text(f" cudaMalloc({number});\n cudaNewThing{number}();\n")
    for path in (tree, tree / "csrc"):
        path.chmod(0o777)
    return tree


def test_what_a_user_may_not_read_or_write_is_named(public: Path) -> None:
    tree = extension(public)
    hipify = [*unprivileged(), public / "rocwheel", "source", "hipify", tree, "--tables", public / "torch"]
    culprit = tree / "csrc/k1.cu"
    culprit.chmod(0)
    before = snapshot(tree)
    for more in ([], ["--output", public / "out"], ["--check"]):
        said = run(*hipify, *more, expect=1).says("csrc/k1.cu", "Permission denied").stderr
        assert "error: " in said and "panicked" not in said, said
    assert snapshot(tree) == before and not (public / "out").exists()
    culprit.chmod(0o644)
    # Where nothing may be written nothing is begun, and another folder helps.
    for path in (tree / "csrc", tree):
        path.chmod(0o755)
    before = snapshot(tree)
    run(*hipify, expect=1).says("Permission denied", "`--output` writes into another folder")
    assert snapshot(tree) == before
    run(*hipify, "--output", public / "out")
    assert "hipMalloc(1)" in (public / "out/csrc/k1.hip").read_text()


def test_checkouts_need_a_place(public: Path) -> None:
    closed = public / "closed"
    closed.mkdir(mode=0o755)
    (public / "home").mkdir(mode=0o777)
    command = [*unprivileged(), public / "rocwheel", "source", "checkout", "apex", "--origin", public, "--root", closed]
    run(*command, expect=1, environment={"HOME": str(public / "home")}).says(str(closed / "apex"), "Permission denied")
    assert list(closed.iterdir()) == []


def test_a_pipe_that_closes_is_no_error_of_ours(rocwheel: Rocwheel, tmp_path: Path) -> None:
    tree = extension(tmp_path, 2000)
    command = [rocwheel.binary, "source", "hipify", tree, "--tables", tmp_path / "torch"]
    before = snapshot(tree)
    for more in (["--diff"], ["--json", "--dry-run"], ["--dry-run", "--unmapped"]):
        with subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout.read(100)
            child.stdout.close()
            said = child.stderr.read().decode()
        assert "panicked" not in said and "Broken pipe" not in said, said
    assert snapshot(tree) == before


@pytest.mark.parametrize(
    "wrong, right",
    [
        (["hipify", "tree", "--table", "torch"], "--tables"),
        (["hipify", "tree", "--fix-defect"], "--fix-defects"),
        (["hipify", "tree", "--mode", "extention"], "extension"),
        (["checkout", "torch", "--lines", "2.9"], "--line"),
        (["checkout", "torch", "--no-comit-hipify"], "--no-commit-hipify"),
        (["checkot", "torch"], "checkout"),
        (["patches", "aply", "tree"], "apply"),
        (["manifest", "--rocm-versions", "7"], "--rocm-version"),
    ],
)
def test_what_is_nearly_right_is_suggested(rocwheel: Rocwheel, wrong: list[str], right: str) -> None:
    rocwheel.run("source", *wrong, expect=2).says(f"'{right}'", "similar")


def test_a_narrow_terminal_breaks_nothing(rocwheel: Rocwheel, tmp_path: Path) -> None:
    for name in ("audio", "vision"):
        origin = tmp_path / f"a folder with a name of some length/{name}"
        origin.mkdir(parents=True)
        run("git", "init", "--quiet", "--initial-branch=nightly", origin)
        identity = ["-c", "user.name=Owner", "-c", "user.email=owner@example.org"]
        run("git", "-C", origin, *identity, "commit", "--quiet", "--allow-empty", "--message", "first")
    folder = tmp_path / "a folder with a name of some length"
    origins = [f"--origin=torch{name}={folder / name}" for name in ("audio", "vision")]
    command = [rocwheel.binary, "source", "checkout", "torchaudio", "torchvision", *origins, "--root", tmp_path / "x"]
    primary, secondary = pty.openpty()
    environment = {**os.environ, "COLUMNS": "40", "TERM": "xterm"}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=secondary, stderr=secondary, env=environment
    ) as run_:
        os.close(secondary)
        said = b""
        # Linux says with an error that nobody has the other side any more.
        try:
            while page := os.read(primary, 4096):
                said += page
        except OSError:
            pass
    os.close(primary)
    assert run_.returncode == 0, said
    assert b"torchaudio" in said and b"panicked" not in said, said
    again = rocwheel.run(*map(str, command[1:]), "--json", environment={"COLUMNS": "40"})
    assert [one["status"] for one in json.loads(again.stdout)["checkouts"]] == ["unchanged"] * 2
