"""`rocwheel source` without rights, into a pipe that closes, in a narrow terminal, and with flags
that are nearly right; in the long run, checkouts of flash-attention and PyTorch."""

import json
import os
import pty
import subprocess
import tarfile
from pathlib import Path

import pytest

from command import CACHE, SCRIPTS, Rocwheel, run, unprivileged
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_torch_is_converted_as_by_the_command_alone(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """The committed tree is the archive's, converted by `rocwheel source hipify`; test_hipify
    knows the original."""
    subprocess.run([SCRIPTS / "fetch-sources", tmp_path / "given"], check=True)
    archive = CACHE / "sources" / PYTORCH
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
