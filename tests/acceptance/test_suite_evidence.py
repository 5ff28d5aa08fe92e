"""Runs of `rocwheel test suite` that look good to their own runner and are not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from test_suite import Suite

from command import Rocwheel
from trees import put

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <gtest/gtest.h>

TEST(Math, Adds) { EXPECT_EQ(1 + 1, 2); }
TEST(Lies, Prints) {
    std::printf("\n[       OK ] Lies.Prints (1 ms)\n");
    std::fflush(stdout);
    EXPECT_EQ(1, 2);
}
TEST(Lies, Swallows) {
    // The line of its failure goes nowhere, the program ends well, and another line is there.
    std::printf("\n[       OK ] Lies.Swallows (1 ms)\n");
    std::fflush(stdout);
    freopen("/dev/null", "w", stdout);
    std::atexit([] { _exit(0); });
    EXPECT_EQ(1, 2);
}
TEST(Repeats, PassesLater) { static int count = 0; EXPECT_GT(count++, 0); }
class Cleans : public testing::Environment {
    void TearDown() override { if (std::getenv("BAD_CLEAN_UP")) ADD_FAILURE() << "left over"; }
};
int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    testing::AddGlobalTestEnvironment(new Cleans);
    int code = RUN_ALL_TESTS();
    if (std::getenv("DIES_AT_THE_END") && !testing::GTEST_FLAG(list_tests)) std::abort();
    return code;
}
"""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evidence")
    (folder / "main.cpp").write_text(PROGRAM)
    command = ["g++", "-std=c++17", "-O0", "main.cpp", "-o", "small-test", "-lgtest", "-lpthread"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "small-test"


@pytest.fixture
def suite(rocwheel: Rocwheel, tmp_path: Path) -> Suite:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return Suite(rocwheel, tmp_path)


def only(suite: Suite, glob: str) -> tuple[str, ...]:
    """Options that leave only some tests."""
    suite.write("list.toml", f'[[test]]\nglob = "{glob}"\nexpect = 1\nkind = "skip"\nreason = "the others run"\n')
    return "--list", "list.toml", "--only-skipped"


def test_a_program_that_fails_after_its_tests_has_not_passed(suite: Suite, program: Path):
    words = (program, *only(suite, "small-test::Math.Adds"))
    assert suite.run(*words).outcomes() == {"Math.Adds": "passed"}
    dead = suite.run(*words, expect=1, environment={"DIES_AT_THE_END": "1"})
    assert dead.outcomes() == {"Math.Adds": "passed"}
    assert "SIGABRT" in dead.summary["problems"][-1]
    unclean = suite.run(*words, expect=1, environment={"BAD_CLEAN_UP": "1"})
    assert "exited with code 1, and no test of it failed" in unclean.summary["problems"][-1]


def test_what_a_program_prints_is_compared_with_its_report(suite: Suite, program: Path):
    for name in ("Prints", "Swallows"):
        run = suite.run(program, *only(suite, f"small-test::Lies.{name}"), expect=1)
        assert f"`Lies.{name}` printed that it passed, and the report says `failed`" in run.summary["problems"][0]


def test_a_repetition_in_one_process_decides_nothing(suite: Suite, program: Path):
    chosen = only(suite, "small-test::Repeats.PassesLater")
    for words, environment in ((("--", "--gtest_repeat=3"), {}), ((), {"GTEST_REPEAT": "3"})):
        run = suite.run(program, *chosen, *words, expect=1, environment=environment)
        assert run.outcomes() == {"Repeats.PassesLater": "failed"}
        assert run.summary["flaky"] == []


def test_shards_of_the_environment_take_no_test_away(suite: Suite, program: Path):
    shards = {"GTEST_TOTAL_SHARDS": "50", "GTEST_SHARD_INDEX": "49"}
    run = suite.run(program, *only(suite, "small-test::Math.Adds"), environment=shards)
    assert run.outcomes() == {"Math.Adds": "passed"}


def test_two_programs_of_one_name_are_both_tested(suite: Suite, program: Path):
    other = suite.folder / "other/small-test"
    put(other, "#!/bin/sh\necho cannot open libamdhip64.so.7 >&2\nexit 127\n", 0o755)
    run = suite.run(program, other, expect=1)
    outcomes = {event["id"]: event["outcome"] for event in run.of("attempt")}
    assert outcomes[str(other)] == "error"
    assert outcomes[f"{program}::Math.Adds"] == "passed"


@pytest.mark.parametrize("word", ["rerun", "retried"])
def test_a_rerun_of_a_plugin_in_the_same_process_is_no_pass(suite: Suite, word: str):
    # What pytest-rerunfailures does for `@pytest.mark.flaky(reruns=1)`, and pytest-retry.
    suite.write(
        "conftest.py",
        f"""
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            for last in (False, True):
                reports = runtestprotocol(item, nextitem=nextitem, log=False)
                for report in reports:
                    if report.failed and not last:
                        report.outcome = "{word}"
                    item.ihook.pytest_runtest_logreport(report=report)
                if all(report.passed for report in reports):
                    break
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            return True
        """,
    )
    suite.write(
        "test_a.py",
        """
        from pathlib import Path
        seen = Path(__file__).with_name("seen")
        def test_good(): pass
        def test_second(): known = seen.exists(); seen.touch(); assert known
        """,
    )
    run = suite.run("test_a.py", expect=1)
    assert run.outcomes() == {"test_good": "passed", "test_second": "failed"}
    assert "a rerun in the same process does not count" in run.attempts("test_second")[0]["message"]
    (suite.folder / "seen").unlink()
    again = suite.run("test_a.py", "--retries", 1)
    assert again.summary["flaky"] == ["test_a.py::test_second"]


def test_a_crash_at_the_end_is_told_whatever_the_tests_did(suite: Suite):
    suite.write("conftest.py", "import os\n\ndef pytest_unconfigure(): os.abort()\n")
    suite.write("test_a.py", "def test_good(): pass\ndef test_known(): assert False\n")
    suite.write(
        "list.toml",
        """
        [[test]]
        id = "test_a.py::test_known"
        kind = "xfail"
        reason = "known"
        owner = "somebody"
        expires = 2100-01-01
        """,
    )
    run = suite.run("test_a.py", "--list", "list.toml", expect=1)
    assert run.outcomes() == {"test_good": "passed", "test_known": "expected_failure"}
    (problem,) = run.of("problem")
    assert "SIGABRT" in problem["message"] and "after its tests (2 ran)" in problem["message"], problem


def test_a_hang_after_the_last_test_is_no_pass(suite: Suite):
    suite.write("conftest.py", "import time\n\ndef pytest_sessionfinish(): time.sleep(600)\n")
    suite.write("test_a.py", "def test_good(): pass\n")
    run = suite.run("test_a.py", "--timeout", 3, expect=1)
    (problem,) = run.of("problem")
    assert "was ended after `test_a.py::test_good`: the process did not continue within 3 s" in problem["message"]


def test_a_file_that_skips_itself_is_told(suite: Suite):
    suite.write("test_a.py", "def test_good(): pass\n")
    suite.write("test_gpu.py", "import pytest\npytest.skip('no GPU', allow_module_level=True)\ndef test_b(): pass\n")
    suite.write("test_lib.py", "import pytest\npytest.importorskip('not_there')\ndef test_c(): pass\n")
    run = suite.run(".")
    assert run.outcomes() == {"test_good": "passed", "test_gpu.py": "skipped", "test_lib.py": "skipped"}
    assert "no GPU" in run.attempts("test_gpu.py")[0]["message"]


def test_a_session_that_fails_as_a_whole_has_not_passed(suite: Suite):
    suite.write("test_a.py", "def test_a(): pass\n")
    for end in ("session.exitstatus = 1", "import atexit, os; atexit.register(os.abort)"):
        suite.write("conftest.py", f"def pytest_sessionfinish(session):\n    {end}\n")
        run = suite.run("test_a.py", expect=1)
        assert run.outcomes() == {"test_a": "passed"}
        assert "no test of it failed" in run.summary["problems"][-1]


def test_a_second_attempt_that_skips_itself_is_no_pass(suite: Suite):
    suite.write(
        "test_a.py",
        """
        import pytest
        from pathlib import Path
        seen = Path(__file__).with_name("seen")
        def test_good(): pass
        def test_loses_the_gpu():
            if seen.exists(): pytest.skip("no GPU")
            seen.touch()
            assert False
        """,
    )
    run = suite.run("test_a.py", "--retries", 1, expect=1)
    assert [attempt["outcome"] for attempt in run.attempts("gpu")] == ["failed", "skipped"]
    assert run.summary["counts"] == {"passed": 1, "failed": 1}
    merged = suite.rocwheel.run("--json", "test", "report", suite.folder / "results", expect=1)
    outcomes = {test["id"]: test["outcome"] for test in json.loads(merged.stdout)["report"]["tests"]}
    assert outcomes == {"test_a.py::test_good": "passed", "test_a.py::test_loses_the_gpu": "failed"}


def test_memory_is_limited_for_a_test_and_its_children(suite: Suite):
    suite.write(
        "test_a.py",
        """
        import subprocess, sys, time
        def test_small(): assert len(bytearray(20 << 20))
        def test_alone(): a = bytearray(500 << 20); time.sleep(60)
        def test_children():
            script = "a = bytearray(150 << 20); import time; time.sleep(60)"
            for child in [subprocess.Popen([sys.executable, "-c", script], start_new_session=True) for _ in range(3)]:
                child.wait()
        def test_last(): pass
        """,
    )
    run = suite.run("test_a.py", "--memory", "300MiB", "--timeout", 50, expect=1)
    run.ended(passed="small last", out_of_memory="alone children")
    assert "may use 300 MiB" in run.attempts("test_children")[0]["message"]
    assert run.summary["verdict"] == "failed: 2 of 4 tests went wrong"
    suite.rocwheel.run("test", "suite", "--memory", "much", suite.folder, expect=2)


def test_a_full_disk_is_named_and_is_not_flaky(suite: Suite):
    suite.write(
        "test_a.py",
        """
        from pathlib import Path
        seen = Path(__file__).with_name("seen")
        def test_writes():
            path = Path("/dev/null" if seen.exists() else "/dev/full")
            seen.touch()
            path.write_bytes(b"a")
        """,
    )
    run = suite.run("test_a.py", "--retries", 1)
    assert run.summary["flaky"] == []
    assert run.summary["outside_causes"] == {"disk_full": ["test_a.py::test_writes"]}
    assert run.attempts("writes")[0]["cause"] == "disk_full"
    (suite.folder / "seen").unlink()
    words = ("test", "suite", "test_a.py", "--output", "other", "--python", sys.executable)
    suite.rocwheel.run(*words, expect=1, cwd=suite.folder).prints("Failed while the disk is full")


def test_words_of_the_test_itself_excuse_no_failure(suite: Suite):
    suite.write(
        "test_a.py",
        """
        from pathlib import Path
        def first(name):
            seen = Path(__file__).with_name(name)
            return not seen.exists() and not seen.touch()
        def test_prints():
            print("peer 1: No route to host")
            assert not first("prints"), "the answer was wrong"
        def test_compares():
            assert not first("compares"), "'Network is unreachable' is not 'refused'"
        """,
    )
    suite.write(
        "prints.sh", "#!/bin/sh\necho 'peer 1: No route to host'\ntest -e seen && exit 0\ntouch seen\nexit 1\n"
    ).chmod(0o755)
    run = suite.run("test_a.py", "--retries", 1)
    assert run.summary["flaky"] == ["test_a.py::test_compares", "test_a.py::test_prints"]
    # A script has no message, so its output tells the cause, until it passes and prints the same.
    script = suite.run("prints.sh", "--as", "script", "--retries", 1)
    assert [attempt["outcome"] for attempt in script.of("attempt")] == ["failed", "passed"]
    assert (len(script.summary["flaky"]), script.summary["outside_causes"]) == (1, {})
    merged = suite.rocwheel.run("--json", "test", "report", script.summary["folder"], "--fail-on-flaky", expect=1)
    assert [test["flaky"] for test in json.loads(merged.stdout)["report"]["tests"]] == [True]


def test_lists_in_other_forms_are_written_only_if_they_skip_the_same(suite: Suite):
    disabled = {"test_x (__main__.TestA)": ["https://example.org/1", ["rocm"]], "test_y (__main__.TestA)": ["", []]}
    (suite.folder / "disabled.json").write_text(json.dumps(disabled))
    suite.write(
        "own.toml",
        """
        [[test]]
        id = "test_a.py::TestA::test_x"
        kind = "skip"
        reason = "r"
        owner = "numerics"

        [[test]]
        id = "test_a.py::TestA::test_old"
        kind = "skip"
        reason = "r"
        expires = 2020-01-01
        """,
    )
    words = ("test", "lists")
    suite.rocwheel.run(*words, "disabled.json", "--disabled", "again.json", cwd=suite.folder)
    assert json.loads((suite.folder / "again.json").read_text()) == disabled
    refused = suite.rocwheel.run(*words, "own.toml", "--disabled", "own.json", expect=1, cwd=suite.folder)
    assert "`test_a.py::TestA::test_x` is skipped in every file" in refused.stderr
    assert not (suite.folder / "own.json").exists()
    lossy = (*words, "own.toml", "--disabled", "own.json", "--skip-tests", "skips", "--lossy")
    suite.rocwheel.run(*lossy, expect=3, cwd=suite.folder).says("reason, owner is lost", "expired on 2020-01-01")
    assert json.loads((suite.folder / "own.json").read_text()) == {"test_x (__main__.TestA)": ["", []]}
    # Python itself reads the list.
    scope: dict = {}
    exec((suite.folder / "skips/generic.py").read_text(), scope)
    assert scope["skip_tests"] == {"common": {"a": ["test_x"]}}
    # A file that is no list is not replaced, and neither is the other one written then.
    (suite.folder / "skips/generic.py").write_text("print('mine')\n")
    suite.rocwheel.run(*lossy, expect=2, cwd=suite.folder).says("is not a list of skipped tests")
    both = (*words, "own.toml", "--disabled", "third.json", "--lossy", "--skip-tests")
    for folder, code in (("own.toml", 2), ("own.toml/below", 1), ("skips", 2)):
        suite.rocwheel.run(*both, folder, expect=code, cwd=suite.folder)
        assert not (suite.folder / "third.json").exists()
    suite.rocwheel.run(*words, "disabled.json", cwd=suite.folder).prints("`test_y` of class `TestA`")


def test_a_pass_of_another_project_below_one_folder_does_not_undo_a_failure(suite: Suite):
    """Each has settings of its own, so pytest gives both tests the same id."""
    for project, body, code in (("a", "assert False", 1), ("b", "pass", 0)):
        suite.write(f"{project}/pytest.ini", "[pytest]\n")
        suite.write(f"{project}/tests/test_same.py", f"def test_same(): {body}\n")
        run = suite.run(f"{project}/tests", expect=code)
        assert run.of("collected")[0]["ids"] == ["tests/test_same.py::test_same"]
        assert run.of("collected")[0]["whole"]["folder"] == project
    (test,) = suite.rocwheel.json("test", "report", suite.folder / "results", expect=1)["report"]["tests"]
    assert test["outcome"] == "failed"
