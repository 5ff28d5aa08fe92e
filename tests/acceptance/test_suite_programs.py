"""`rocwheel test suite` on GoogleTest programs and ctest folders that crash and hang, and in the
long run on the torch of Debian trixie, with the tests of its source, and a crash and a hang that
are put into them."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_containers_real import FOR_TORCH
from test_suite import Suite

from command import REPOSITORY, Result, Rocwheel, download, run

SOURCE = r"""
#include <cstdlib>
#include <iostream>
#include <unistd.h>
#include <gtest/gtest.h>

TEST(Math, Adds) { EXPECT_EQ(1 + 1, 2); }
TEST(Math, AddsWrong) { std::cout << "no line end"; EXPECT_EQ(1 + 1, 3); }
TEST(Math, Add) { std::cout << "a prefix of other names\n"; }
TEST(Ends, Aborts) { std::cerr << "why it died\n"; std::abort(); }
TEST(Ends, ExitsWell) { std::_Exit(0); }
TEST(Ends, Hangs) { sleep(600); }
TEST(Ends, Skips) { GTEST_SKIP() << "no GPU"; }
TEST(Ends, DISABLED_Never) { FAIL(); }
class Shared : public testing::Test {
protected:
    static void TearDownTestSuite() {
        if (getenv("HANG_AFTER")) sleep(600);
    }
};
TEST_F(Shared, Works) {
    if (getenv("TELL_LIES")) std::cout << "[ RUN      ] Nested.Test\n[       OK ] Nested.Test (0 ms)\n";
}
class Numbers : public testing::TestWithParam<int> {};
TEST_P(Numbers, IsSmall) { EXPECT_LT(GetParam(), 2); }
INSTANTIATE_TEST_SUITE_P(All, Numbers, testing::Values(0, 1, 2));
int main(int argc, char **argv) {
    std::cout << "Query device success: there are 1 devices\n  gfx942\n";
    if (getenv("NO_LINE_END")) std::cout << "device: none ";
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gtest")
    (folder / "main.cpp").write_text(SOURCE)
    subprocess.run(
        ["g++", "-std=c++17", "-O0", "main.cpp", "-o", "small-test", "-lgtest", "-lpthread"], cwd=folder, check=True
    )
    return folder / "small-test"


@pytest.fixture
def suite(rocwheel: Rocwheel, tmp_path: Path) -> Suite:
    return Suite(rocwheel, tmp_path)


ENDS = {
    "passed": "Math.Adds Math.Add Shared.Works All/Numbers.IsSmall/0 All/Numbers.IsSmall/1",
    "failed": "Math.AddsWrong All/Numbers.IsSmall/2",
    "crashed": "Ends.Aborts Ends.ExitsWell",
    "timed_out": "Ends.Hangs",
    "skipped": "Ends.Skips Ends.DISABLED_Never",
}
EXPECTED = {name: outcome for outcome, names in ENDS.items() for name in names.split()}


def test_a_program_of_googletest_is_read_while_it_runs(suite: Suite, program: Path):
    other = suite.folder / "other-test"
    shutil.copy(program, other)
    run = suite.run(program, other, "--timeout", 2, expect=1)
    outcomes = {event["id"]: event["outcome"] for event in run.of("attempt")}
    assert outcomes == {
        f"{name}::{test}": outcome for name in ("small-test", "other-test") for test, outcome in EXPECTED.items()
    }
    assert "why it died" in run.attempts("small-test::Ends.Aborts")[0]["output"]
    assert "SIGABRT" in run.attempts("small-test::Ends.Aborts")[0]["message"]
    assert "Expected equality" in run.attempts("small-test::Math.AddsWrong")[0]["output"]


def test_shards_of_a_program_are_the_whole(suite: Suite, program: Path):
    parts = [suite.run(program, "--timeout", 2, "--shard", f"{index}/3", expect=1) for index in (1, 2, 3)]
    ids = [set(part.outcomes()) for part in parts]
    assert set().union(*ids) == {f"{test}" for test in EXPECTED}
    assert sum(map(len, ids)) == len(EXPECTED)


def test_lists_and_retries_are_for_programs_too(suite: Suite, program: Path):
    suite.write(
        "list.toml",
        """
        [[test]]
        glob = "small-test::Ends.*"
        expect = 5
        kind = "skip"
        reason = "ends badly"
        """,
    )
    run = suite.run(program, "--list", "list.toml", "--retries", 1, expect=1)
    assert [attempt["attempt"] for attempt in run.attempts("AddsWrong")] == [1, 2]
    assert sum(outcome == "deselected" for outcome in run.outcomes().values()) == 5


def test_what_the_environment_would_leave_out_is_tested(suite: Suite, program: Path):
    """False green T21: GTEST_SHARD_INDEX of somebody else, and the failing test in another
    shard."""
    (suite.folder / "build").mkdir()
    (suite.folder / "build/CTestTestfile.cmake").write_text(
        f'add_test([=[all]=] "{program}" "--gtest_filter=Math.*")\n'
    )
    others = {"GTEST_TOTAL_SHARDS": "3", "GTEST_SHARD_INDEX": "0", "GTEST_FILTER": "Math.Adds", "GTEST_REPEAT": "2"}
    run = suite.run("build", expect=1, environment=others)
    assert run.outcomes() == {"all": "failed"}
    run = suite.run(program, "--timeout", 2, expect=1, environment={**others, "GTEST_FAIL_FAST": "1"})
    assert run.outcomes() == {name.rpartition("::")[2]: outcome for name, outcome in EXPECTED.items()}


def test_what_a_program_prints_around_its_tests_changes_nothing(suite: Suite, program: Path):
    lies = {"TELL_LIES": "1", "NO_LINE_END": "1"}
    run = suite.run(program, "--timeout", 2, expect=1, environment=lies)
    assert run.outcomes() == EXPECTED
    assert run.of("problem") == []


def test_a_hang_after_a_test_is_no_pass(suite: Suite, program: Path):
    run = suite.run(program, "--timeout", 2, expect=1, environment={"HANG_AFTER": "1"}, timeout=120)
    assert run.outcomes() == EXPECTED
    (problem,) = run.of("problem")
    assert "was ended after `small-test::Shared.Works`" in problem["message"]


def test_disabled_tests_run_if_that_is_asked_for(suite: Suite, program: Path):
    run = suite.run(program, "--timeout", 2, "--", "--gtest_also_run_disabled_tests", expect=1)
    assert run.outcomes() == {**EXPECTED, "Ends.DISABLED_Never": "failed"}


def test_a_program_without_tests_or_that_does_not_start_is_an_error(suite: Suite):
    suite.write("nothing", "#!/bin/sh\nexit 0\n").chmod(0o755)
    suite.write("broken", "#!/bin/sh\necho cannot open libamdhip64.so.7 >&2\nexit 127\n").chmod(0o755)
    run = suite.run("nothing", "broken", expect=1)
    assert run.outcomes() == {"nothing": "error", "broken": "error"}
    assert "libamdhip64" in run.attempts("broken")[0]["output"]


def test_a_folder_of_ctest(suite: Suite, program: Path):
    lines = [
        f'add_test([=[good]=] "{program}" "--gtest_filter=Math.Adds")',
        f'add_test([=[bad (1)]=] "{program}" "--gtest_filter=Math.AddsWrong")',
        f'add_test([=[dead]=] "{program}" "--gtest_filter=Ends.Aborts")',
        f'add_test([=[slow]=] "{program}" "--gtest_filter=Ends.Hangs")',
        'add_test([=[skipped]=] "/bin/sh" "-c" "exit 77")',
        'set_tests_properties([=[skipped]=] PROPERTIES SKIP_RETURN_CODE "77")',
        'add_test([=[absent]=] "/no/such/program")',
        'add_test([=[off]=] "/bin/true")',
        'set_tests_properties([=[off]=] PROPERTIES DISABLED "TRUE")',
        'add_test([=[fails as it should]=] "/bin/false")',
        'set_tests_properties([=[fails as it should]=] PROPERTIES WILL_FAIL "TRUE")',
    ]
    (suite.folder / "build").mkdir()
    (suite.folder / "build/CTestTestfile.cmake").write_text("\n".join(lines) + "\n")
    run = suite.run("build", "--timeout", 3, expect=1)
    assert run.outcomes() == {
        "good": "passed",
        "bad (1)": "failed",
        "dead": "crashed",
        "slow": "timed_out",
        "skipped": "skipped",
        "absent": "not_run",
        "off": "skipped",
        "fails as it should": "passed",
    }
    assert run.events[-1]["complete"] is False


def test_tests_of_ctest_that_share_something_do_not_meet(suite: Suite):
    """As `ctest --parallel` keeps them apart."""
    (suite.folder / "build").mkdir()
    once = "mkdir taken && sleep 0.2 && rmdir taken"
    lines = [f'add_test([=[t{number}]=] "/bin/sh" "-c" "{once}")' for number in range(4)]
    lines += [f'set_tests_properties([=[t{number}]=] PROPERTIES RESOURCE_LOCK "gpu")' for number in range(4)]
    lines += ['add_test([=[alone]=] "/bin/sh" "-c" "mkdir taken; sleep 0.2; rmdir taken")']
    lines += ['set_tests_properties([=[alone]=] PROPERTIES RUN_SERIAL "TRUE")']
    (suite.folder / "build/CTestTestfile.cmake").write_text("\n".join(lines) + "\n")
    run = suite.run("build", "--workers", 4)
    assert set(run.outcomes().values()) == {"passed"}


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


@pytest.mark.long
def test_smoke_on_a_torch_for_the_processor(share: Path):
    result, events = in_root(share, f"{share}/rocwheel test smoke torch --allow-no-gpu", 3)
    found = outcomes(events)
    assert found["torch.cpu_lapack"] == found["torch.cpu_autograd"] == "passed"
    assert found["torch.matmul"] == "not_run"
    assert "incomplete, as allowed" in result.stdout


@pytest.mark.long
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


@pytest.mark.long
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
