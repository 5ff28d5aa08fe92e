"""`rocwheel test` on Debian trixie's torch, with the tests of its source: real tests, a real list,
and a crash and a hang that are put into them."""

import json
import os
import shutil
from pathlib import Path

import pytest
from test_containers_real import FOR_TORCH

from command import Result, Rocwheel, download, run
from engines import REPOSITORY

# What PyTorch 2.6 works with; its runner refuses to start without the last three.
RUNNERS = ("pytest==7.4.4", "pluggy==1.5.0", "iniconfig", "packaging", "execnet")
RUNNERS += ("pytest-rerunfailures==14.0", "pytest-flakefinder", "pytest-xdist==3.5.0")

DAMAGE = """

class TestDamage(TestCase):
    def test_abort(self):
        import os
        os.abort()

    def test_hang(self):
        import ctypes
        ctypes.PyDLL(None).sleep(1000)

    def test_in_the_list(self):
        assert False

    def test_after(self):
        pass
"""

LIST = 'skip_tests = {"common": {"indexing": ["test_in_the_list", "test_long_gone"]}, "windows": {"nn": ["test_w"]}}\n'


@pytest.fixture(scope="module")
def share(rocwheel: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The binary, the source of torch, pytest, and a list, for the root."""
    folder = tmp_path_factory.mktemp("share")
    run(REPOSITORY / "scripts/fetch-sources", folder / "sources")
    shutil.copytree(folder / "sources/pytorch", folder / "pytorch", symlinks=True)
    shutil.copy(rocwheel.binary, folder / "rocwheel")
    download(folder / "wheels", *RUNNERS)
    for wheel in (folder / "wheels").iterdir():
        shutil.unpack_archive(wheel, folder / "python", "zip")
    lists = folder / "skip_tests"
    lists.mkdir()
    (lists / "generic.py").write_text(LIST)
    (lists / "pytorch_2.6.py").write_text("skip_tests = {}\n")
    (lists / "create_skip_tests.py").write_text("raise SystemExit('nobody runs this')\n")
    damaged = folder / "pytorch/test/test_indexing.py"
    head, main, tail = damaged.read_text().rpartition('\nif __name__ == "__main__":')
    damaged.write_text(head + DAMAGE + main + tail)
    return folder


def in_root(share: Path, script: str, expect: int) -> tuple[Result, list[dict]]:
    packages = [word for package in FOR_TORCH for word in ("--package", package)]
    after = "cat /tmp/test-results/*/events.jsonl >&2; exit $code"
    text = f"cd /tmp; export PYTHONPATH={share}/python; code=0; {script} || code=$?; {after}"
    command = (REPOSITORY / "scripts/in-root", "trixie", *packages, "--share", share, "--", "bash", "-c", text)
    result = run(*command, expect=expect, environment={"TMPDIR": os.environ.get("TMPDIR", "/var/tmp")})
    lines = [line for line in result.stderr.splitlines() if line.startswith('{"event"')]
    return result, [json.loads(line) for line in lines]


def outcomes(events: list[dict]) -> dict[str, str]:
    return {event["id"].rsplit("::", 1)[-1]: event["outcome"] for event in events if event["event"] == "attempt"}


def test_smoke_on_a_torch_for_the_processor(share: Path):
    result, events = in_root(share, f"{share}/rocwheel test smoke torch --allow-no-gpu", 3)
    found = outcomes(events)
    assert found["torch.cpu_lapack"] == found["torch.cpu_autograd"] == "passed"
    assert found["torch.matmul"] == "not_run"
    assert "incomplete, as allowed" in result.stdout


def test_pytorchs_own_tests_survive_a_crash_and_a_hang(share: Path):
    words = f"--pytorch-dir {share}/pytorch test_indexing --list {share}/skip_tests --timeout 60"
    refused, _ = in_root(share, f"{share}/rocwheel test suite {words}", 1)
    assert "it is not known whether the tests" in refused.stderr
    _, events = in_root(share, f"{share}/rocwheel test suite {words} --allow-version-mismatch", 1)
    found = outcomes(events)
    assert found["test_abort"] == "crashed"
    assert found["test_hang"] == "timed_out"
    assert found["test_in_the_list"] == "deselected"
    assert found["test_after"] == "passed"
    assert sum(outcome == "passed" for outcome in found.values()) > 70
    assert not {"failed", "error", "not_run"} & set(found.values())
    assert events[-1]["complete"] is True


def test_pytorchs_own_runner_tells_every_test(share: Path):
    words = f"--as run-test --pytorch-dir /tmp/pytorch test_indexing --list {share}/skip_tests --timeout 60"
    # The runner writes beside its tests.
    script = f"cp -r {share}/pytorch /tmp/; {share}/rocwheel test suite {words} --allow-version-mismatch"
    _, events = in_root(share, script, 1)
    found = outcomes(events)
    assert found["test_abort"] == "crashed"
    assert found["test_hang"] == "timed_out"
    assert found["test_in_the_list"] == "deselected"
    assert found["test_after"] == "passed"
