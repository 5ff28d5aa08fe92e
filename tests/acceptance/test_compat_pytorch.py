"""Today's scripts for PyTorch's tests by their names, with their flags, on a small checkout whose
runner starts real pytest processes."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from test_smoke import Site, site  # noqa: F401, the fixture

from command import Result, Rocwheel
from trees import put

FILES = ("test_nn", "test_torch", "test_cuda", "test_unary_ufuncs", "test_binary_ufuncs", "test_autograd")

# As PyTorch's: a process for each file, an error only from exit codes, and none for code 5.
RUNNER = """
import json, os, subprocess, sys
from pathlib import Path
words = sys.argv[1:]
here = Path(__file__).resolve().parent
(here / "words.json").write_text(json.dumps(words))
names = []
for word in words[words.index("--include") + 1:]:
    if word.startswith("-"):
        break
    names.append(word)
chosen = ["-k", words[words.index("-k") + 1]] if "-k" in words else []
failed = False
for name in names:
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", *chosen, f"{name}.py"]
    failed |= subprocess.run(command, cwd=here).returncode not in (0, 5)
sys.exit(int(failed))
"""


@dataclass
class Checkout:
    """A folder with `pytorch`, `skip_tests` and an installed torch of the same commit."""

    rocwheel: Rocwheel
    folder: Path

    @property
    def tests(self) -> Path:
        return self.folder / "pytorch/test"

    def run(self, script: str, *arguments: object, expect: int = 0, **environment: str) -> Result:
        # The environment of Python that is active, and a torch in front of it.
        environment = {"VIRTUAL_ENV": sys.prefix, "PYTHONPATH": str(self.folder / "installed"), **environment}
        words = ("--json", "compat", script, *arguments)
        return self.rocwheel.run(*words, expect=expect, cwd=self.folder, environment=environment)

    def outcomes(self) -> dict[str, str]:
        """The last outcome of each test of the only run."""
        (events,) = (self.folder / "test-results").glob("*/events.jsonl")
        lines = [json.loads(line) for line in events.read_text().splitlines()]
        return {line["id"]: line["outcome"] for line in lines if line["event"] == "attempt"}


def git(folder: Path, *words: str) -> str:
    command = ("git", "-c", "user.name=a", "-c", "user.email=a@b", *words)
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(rocwheel: Rocwheel, tmp_path: Path) -> Checkout:
    tests = tmp_path / "pytorch/test"
    tests.mkdir(parents=True)
    for name in FILES:
        (tests / f"{name}.py").write_text(f"def test_print(): pass\ndef test_{name[5:]}_print_all(): pass\n")
    (tests / "test_cuda.py").write_text(
        "import os\ndef test_rocm(): assert os.environ['PYTORCH_TEST_WITH_ROCM'] == '1'\n"
    )
    (tests / "run_test.py").write_text(RUNNER)
    git(tests.parent, "init", "--quiet")
    git(tests.parent, "add", ".")
    git(tests.parent, "commit", "--quiet", "-m", "a")
    commit = git(tests.parent, "rev-parse", "HEAD")
    torch = tmp_path / "installed/torch"
    put(torch / "__init__.py", "")
    (torch / "version.py").write_text(f"__version__ = '2.12.0'\nhip = '7.1'\ncuda = None\ngit_version = '{commit}'\n")
    lists = tmp_path / "skip_tests"
    lists.mkdir()
    (lists / "generic.py").write_text(
        "skip_tests = {'common': {'torch': ['test_print'], 'nn': {'test_print'}}, 'gfx950': {'nn': ['test_nine']}}\n"
    )
    (lists / "pytorch_2.12.py").write_text("skip_tests = {'windows': {'nn': ['test_windows']}}\n")
    return Checkout(rocwheel, tmp_path)


SKIPPED = {"test_nn.py::test_print", "test_torch.py::test_print"}


def chosen(outcomes: dict[str, str], outcome: str) -> set[str]:
    return {name for name, found in outcomes.items() if found == outcome}


def test_run_pytorch_tests(checkout: Checkout):
    checkout.run("run_pytorch_tests.py", "--", "--continue-on-collection-errors", "--import-mode=importlib", "-v")
    outcomes = checkout.outcomes()
    assert chosen(outcomes, "deselected") == SKIPPED
    assert {name.partition(".py")[0] for name in chosen(outcomes, "passed")} == set(FILES)


def test_run_pytorch_tests_chooses_by_expression(checkout: Checkout):
    checkout.run("run_pytorch_tests.py", "-k", "test_nn and not print_all")
    assert checkout.outcomes() == {"test_nn.py::test_print": "passed"}


def test_run_pytorch_tests_runs_only_what_is_skipped(checkout: Checkout):
    checkout.run("run_pytorch_tests", "--debug", "--no-cache", "--device-query", "unique", "--gpu-policy", "single")
    assert checkout.outcomes() == dict.fromkeys(SKIPPED, "passed")


def test_run_pytorch_tests_refuses_what_would_test_something_else(checkout: Checkout):
    absent = checkout.run(
        "run_pytorch_tests", f"--pytorch-dir={checkout.tests.parent}", "--amdgpu-family=gfx950", expect=2
    )
    assert "no GPU of `gfx950`" in absent.stderr
    (checkout.tests / "test_nn.py").write_text("def test_other(): pass\n")
    git(checkout.tests.parent, "commit", "--quiet", "-am", "b")
    other = checkout.run("run_pytorch_tests", expect=1)
    assert "the installed torch is of" in other.stderr
    checkout.run("run_pytorch_tests", "--allow-version-mismatch", "--", "--no-such-option", expect=2)


def test_run_pytorch_tests_warns_of_a_version_without_a_list(checkout: Checkout):
    """As TheRock's script, which has lists for two versions and takes generic.py for the others."""
    said = checkout.run("run_pytorch_tests", "--pytorch-version", "2.13")
    assert "warning: there is no list `pytorch_2.13.py`" in said.stderr
    assert chosen(checkout.outcomes(), "deselected") == SKIPPED


# The second is the merged script of TheRock's open change #6935.
@pytest.mark.parametrize("script", ["run_pytorch_tests_full.py", "run_pytorch_tests.py"])
def test_run_pytorch_tests_full(checkout: Checkout, script: str):
    include = ("--include", "test_nn", "test_torch", "test_cuda")
    flags = ("--test-config", "default", "--device-query", "auto", "--gpu-policy", "auto", *include)
    checkout.run(script, *flags, "--shard", 1, "--num-shards", 2, "--", "--no-such-word")
    outcomes = checkout.outcomes()
    assert chosen(outcomes, "deselected") == SKIPPED
    assert chosen(outcomes, "passed") == {
        "test_nn.py::test_nn_print_all",
        "test_torch.py::test_torch_print_all",
        "test_cuda.py::test_rocm",
    }
    words = json.loads((checkout.tests / "words.json").read_text())
    for part in (["--shard", "1", "2"], list(include), ["--exclude-jit-executor", "--exclude-distributed-tests"]):
        at = words.index(part[0])
        assert words[at : at + len(part)] == part, words
    assert {"--keep-going", "--verbose", "--exclude-quantization-tests"} < set(words)
    assert words[-1] == "--no-such-word"


# Its share of the files, as PyTorch's runner takes it.
DIVIDED = RUNNER.replace(
    "chosen =",
    'index, count = map(int, words[words.index("--shard") + 1 :][:2])\nnames = names[index - 1 :: count]\nchosen =',
)


@pytest.mark.parametrize(("runner", "lost"), [(DIVIDED, False), (DIVIDED.replace(":: count", ":: count + 1"), True)])
def test_shards_of_the_runner_have_to_be_everything(checkout: Checkout, runner: str, lost: bool):
    (checkout.tests / "run_test.py").write_text(runner)
    environment = {"PYTHONPATH": str(checkout.folder / "installed")}
    words = ("--as", "run-test", "--pytorch-dir", "pytorch", "--python", sys.executable, "--allow-version-mismatch")
    for shard in ("1/2", "2/2"):
        command = ("test", "suite", *words, "--shard", shard, "test_nn", "test_torch", "test_cuda")
        checkout.rocwheel.run(*command, cwd=checkout.folder, environment=environment)
    said = checkout.rocwheel.run("test", "report", "test-results", cwd=checkout.folder, expect=1 if lost else 0)
    assert ("have 4 of the 5 tests that were collected" in said.stdout + said.stderr) == lost, said


def test_run_pytorch_tests_full_of_a_configuration(checkout: Checkout):
    (checkout.tests / "nn").mkdir()
    (checkout.tests / "nn/test_convolution.py").write_text("")
    environment = {
        "TEST_CONFIG": "distributed",
        "SHARD_NUMBER": "2",
        "NUM_TEST_SHARDS": "3",
        "TESTS_TO_INCLUDE": "test_nn",
    }
    checkout.run("run_pytorch_tests_full", "--exclude", "test_jit", "--no-exclude-jit-executor", **environment)
    words = json.loads((checkout.tests / "words.json").read_text())
    assert words[words.index("--exclude") :] == ["--exclude", "nn/test_convolution", "test_jit"]
    assert "--distributed-tests" in words
    assert not {"--exclude-jit-executor", "--exclude-distributed-tests"} & set(words)
    assert words[words.index("--shard") : words.index("--shard") + 3] == ["--shard", "2", "3"]
    checkout.run("run_pytorch_tests_full", "--shard", 1, expect=2)
    checkout.run("run_pytorch_tests_full", "--dry-run", expect=2)
    checkout.run("run_pytorch_tests_full", "--test-config", "inductor", expect=2)


def test_a_file_that_dies_on_import_is_not_hidden_by_a_known_failure(checkout: Checkout):
    """The runner's exit code is that of the known failure as well, so it cannot say this."""
    (checkout.tests / "test_nn.py").write_text("def test_known(): assert False\n")
    (checkout.tests / "test_torch.py").write_text("import os\nos._exit(1)\n")
    (checkout.folder / "list.toml").write_text(
        '[[test]]\nid = "test_nn.py::test_known"\nkind = "xfail"\nreason = "a"\nowner = "b"\nexpires = 2099-01-01\n'
    )
    environment = {"PYTHONPATH": str(checkout.folder / "installed")}
    words = ("--as", "run-test", "--pytorch-dir", "pytorch", "--allow-version-mismatch", "--python", sys.executable)
    # Without the bad file among those that are collected for the lists.
    finished = checkout.rocwheel.run(
        "--json", "test", "suite", *words, "test_nn", "test_cuda", "--list", "list.toml",
        cwd=checkout.folder, environment=environment,
    )  # fmt: skip
    assert json.loads(finished.stdout)["counts"] == {"passed": 1, "expected_failure": 1}
    runner = (checkout.tests / "run_test.py").read_text()
    (checkout.tests / "run_test.py").write_text(
        runner.replace("failed = False", "failed = False\nnames.append('test_torch')")
    )
    finished = checkout.rocwheel.run(
        "--json", "test", "suite", *words, "test_nn", "test_cuda", "--list", "list.toml",
        cwd=checkout.folder, environment=environment, expect=1,
    )  # fmt: skip
    (problem,) = json.loads(finished.stdout)["problems"]
    assert problem == "a pytest process of `test_torch.py` died outside of its tests"


def test_run_pytorch_smoke_tests(site: Site):  # noqa: F811
    from test_smoke import TORCH

    site.install("torch", "2.12.0+rocm7.1", {"torch/__init__.py": TORCH.encode()})
    environment = {"VIRTUAL_ENV": str(site.folder / "venv")}
    arguments = ("--json", "compat", "run_pytorch_smoke_tests.py", "--", "--log-cli-level=INFO", "-v")
    result = site.rocwheel.run(*arguments, cwd=site.folder, environment=environment, expect=1)
    # This torch has no GPU, and computes nothing: neither is a pass.
    counts = json.loads(result.stdout)["counts"]
    assert counts["not_run"] > 0
    assert "--log-cli-level=INFO" in result.stderr
    absent = ("compat", "run_pytorch_smoke_tests", "--amdgpu-family", "gfx942")
    site.rocwheel.run(*absent, cwd=site.folder, environment=environment, expect=1)


def test_create_skip_tests(checkout: Checkout):
    def expression(*flags: str, expect: int = 0) -> str:
        words = ("compat", "create_skip_tests.py", *flags)
        return checkout.rocwheel.run(*words, cwd=checkout.folder, expect=expect).stdout.strip()

    assert expression() == "not test_print"
    assert expression("--amdgpu-family", "gfx942,gfx950-dcgpu") == "not test_nine and not test_print"
    assert expression("--amdgpu-family", "gfx950", "--include-tests") == "test_nine or test_print"
    windows = expression("--platform", "Windows", "--pytorch-version", "2.12")
    assert windows == "not test_print and not test_windows"
    # pytest takes it.
    command = (sys.executable, *"-m pytest -q -p no:cacheprovider -k".split(), windows, checkout.tests / "test_nn.py")
    environment = {**os.environ, "PYTORCH_TEST_WITH_ROCM": "1"}
    found = subprocess.run(command, cwd=checkout.tests, capture_output=True, text=True, env=environment, check=False)
    assert "1 passed, 1 deselected" in found.stdout
    (checkout.folder / "skip_tests/generic.py").write_text("skip_tests = {}\n")
    expression(expect=2)


def test_summarize_test_results(rocwheel: Rocwheel, tmp_path: Path):
    summary = tmp_path / "summary.md"
    github = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}

    def summarize(*flags: object, expect: int) -> str:
        words = ("compat", "summarize_test_results.py", *flags)
        return rocwheel.run(*words, cwd=tmp_path, environment=github, expect=expect).stdout

    (tmp_path / "empty").mkdir()
    summarize("--reports-dir", "empty", expect=1)
    good = '<testsuites><testsuite name="pytest"><testcase classname="test_nn" name="test_a" time="1"/>'
    for number in (1, 2):
        folder = tmp_path / f"all/test-reports-default-{number}-2/python-pytest/test_nn"
        put(folder / "a.xml", f"{good.replace('test_a', f'test_{number}')}</testsuite></testsuites>")
    flags = ("--combined-dir", "all", "--amdgpu-family", "gfx942", "--torch-version", "2.12.0")
    said = summarize(*flags, "--python-version", "3.12", "--pytorch-git-ref", "release/2.12", expect=0)
    assert "gfx942, torch 2.12.0, Python 3.12, sources release/2.12: passed, 2 tests" in said
    assert "| default | 2 | 2 |" in summary.read_text()
    (tmp_path / "all/test-reports-default-2-2/python-pytest/test_nn/b.xml").write_text(good)
    assert "gfx942, torch 2.12.0: incomplete" in summarize(*flags, expect=1)
