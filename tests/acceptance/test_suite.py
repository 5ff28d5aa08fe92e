"""`rocwheel test suite`: tests that crash, hang, lie or do not exist, with a real pytest."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from command import Result, Rocwheel

EVENTS = "events.jsonl"


@dataclass
class Run:
    """One run: its result and its events."""

    result: Result
    events: list[dict]
    summary: dict

    def outcomes(self) -> dict[str, str]:
        """The last outcome of each test, by the last part of its id."""
        attempts = [event for event in self.events if event["event"] == "attempt"]
        return {event["id"].rsplit("::", 1)[-1]: event["outcome"] for event in attempts}

    def ended(self, **by_outcome: str) -> None:
        """Insists on how the tests with these names ended."""
        wanted = {f"test_{name}": outcome for outcome, names in by_outcome.items() for name in names.split()}
        assert self.outcomes() == wanted

    def attempts(self, name: str) -> list[dict]:
        return [event for event in self.events if event["event"] == "attempt" and event["id"].endswith(name)]

    def of(self, kind: str) -> list[dict]:
        return [event for event in self.events if event["event"] == kind]


@dataclass
class Suite:
    rocwheel: Rocwheel
    folder: Path

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def run(self, *arguments: object, expect: int = 0, python: object = sys.executable, **options) -> Run:
        output = self.folder / "results"
        before = set(output.iterdir()) if output.exists() else set()
        words = ("test", "suite", "--json", "--output", output, "--python", python, *arguments)
        result = self.rocwheel.run(*words, expect=expect, cwd=self.folder, **options)
        (folder,) = set(output.iterdir()) - before
        lines = (folder / EVENTS).read_text().splitlines()
        return Run(result, [json.loads(line) for line in lines], json.loads(result.stdout or "{}"))


@pytest.fixture
def suite(rocwheel: Rocwheel, tmp_path: Path) -> Suite:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return Suite(rocwheel, tmp_path)


def test_good_tests_pass_and_every_step_is_told(suite: Suite):
    suite.write("test_a.py", "import pytest\n\n@pytest.mark.parametrize('x', [1, 2])\ndef test_p(x):\n    assert x\n")
    run = suite.run("test_a.py")
    assert [event["event"] for event in run.events] == "run collected started attempt started attempt end".split()
    assert run.events[1]["ids"] == ["test_a.py::test_p[1]", "test_a.py::test_p[2]"]
    assert run.events[-1]["complete"] is True
    assert run.summary["verdict"] == "passed: 2 tests"
    facts = run.events[0]
    assert (facts["suite"], facts["shard"], facts["shards"]) == ("pytest", 1, 1)


def test_what_is_tested_is_imported_once(suite: Suite):
    """The process that lists the tests runs the first of them, beside a broken file too."""
    text = "with open('imports', 'a') as file:\n    file.write('x')\n\n"
    suite.write("test_a.py", text + "def test_a(): pass\n\ndef test_skip_me(): pass\n")
    suite.write("test_b.py", "import no_such_module\n")
    suite.write("test_c.py", "import os\n\ndef test_dies(): os._exit(0)\n\ndef test_after(): pass\n")
    suite.write("list.toml", '[[test]]\nid = "test_a.py::test_skip_me"\nkind = "skip"\nreason = "no"\n')
    run = suite.run("test_a.py", "--list", "list.toml")
    assert run.outcomes() == {"test_a": "passed", "test_skip_me": "deselected"}
    assert (suite.folder / "imports").read_text() == "x"
    run = suite.run(".", expect=1)
    expected = {"test_a": "passed", "test_skip_me": "passed", "test_b.py": "error", "test_dies": "crashed"}
    assert run.outcomes() == {**expected, "test_after": "passed"}
    # The process that continues after the crash needs one file only.
    assert (suite.folder / "imports").read_text() == "xx"
    assert run.of("problem") == []


def test_a_path_that_does_not_exist_is_named(suite: Suite):
    """pytest says that it has collected, and then refuses the path."""
    suite.write("test_a.py", "def test_a(): pass\n")
    for words in (("test_b.py",), ("test_a.py", "test_b.py")):
        words = ("test", "suite", "--python", sys.executable, *words)
        said = suite.rocwheel.run(*words, expect=2, cwd=suite.folder).stderr
        assert "pytest refuses its command line: ERROR: file or directory not found: test_b.py" in said


def test_each_way_to_end_has_its_outcome(suite: Suite):
    suite.write(
        "test_a.py",
        """
        import ctypes, os, pytest, signal, sys

        @pytest.fixture
        def broken():
            raise OSError("no device")

        @pytest.fixture
        def broken_after():
            yield
            raise OSError("cannot close")

        def test_first(): pass
        def test_failed(): assert 1 == 2
        def test_set_up(broken): pass
        def test_cleaned_up(broken_after): pass
        def test_skipped(): pytest.skip("no such thing")
        @pytest.mark.xfail(reason="known")
        def test_known(): assert False
        @pytest.mark.xfail(reason="known")
        def test_mended(): pass
        def test_abort(): print("before the end", flush=True); os.abort()
        def test_between(): pass
        def test_segfault(): ctypes.string_at(0)
        def test_exit_0(): os._exit(0)
        def test_exit_3(): os._exit(3)
        def test_killed(): os.kill(os.getpid(), signal.SIGKILL)
        def test_sys_exit(): sys.exit(0)
        def test_binary(): sys.stdout.buffer.write(bytes(range(256)) * 10); assert False
        def test_last(): pass
        """,
    )
    run = suite.run("test_a.py", expect=1)
    run.ended(
        passed="first between last",
        failed="failed sys_exit binary",
        error="set_up cleaned_up",
        skipped="skipped",
        expected_failure="known",
        unexpected_pass="mended",
        crashed="abort segfault exit_0 exit_3 killed",
    )
    assert "SIGABRT" in run.attempts("test_abort")[0]["message"]
    assert "Fatal Python error: Aborted" in run.attempts("test_abort")[0]["output"]
    assert "code 3" in run.attempts("test_exit_3")[0]["message"]
    assert "1 == 2" in run.attempts("test_failed")[0]["message"]
    assert run.events[-1]["complete"] is True
    assert run.summary["unexpected_passes"] == ["test_a.py::test_mended"]


def test_a_hanging_test_costs_itself(suite: Suite):
    suite.write(
        "test_a.py",
        """
        import ctypes, os, signal, time

        def test_first(): pass
        def test_in_c(): ctypes.PyDLL(None).sleep(1000)
        def test_stopped(): os.kill(os.getpid(), signal.SIGSTOP)
        def test_deaf():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(1)
        def test_last(): pass
        """,
    )
    begun = time.monotonic()
    run = suite.run("test_a.py", "--timeout", 2, expect=1)
    took = time.monotonic() - begun
    run.ended(passed="first last", timed_out="in_c stopped deaf")
    assert "test_in_c" in run.attempts("test_in_c")[0]["output"], "the stack says where it hangs"
    # Each may take its time and ten seconds more; starting processes is slow on a busy machine.
    assert took < 3 * (2 + 10) + 60


def test_a_retry_needs_a_fresh_process_and_every_attempt_is_kept(suite: Suite):
    suite.write(
        "test_a.py",
        """
        import os, pathlib
        here = pathlib.Path(__file__).parent

        def test_process(): (here / f"seen-{os.getpid()}").touch(); assert len(list(here.glob("seen-*"))) > 1
        def test_crash_once():
            if not (here / "crashed").exists():
                (here / "crashed").touch()
                os.abort()
        def test_always(): assert False
        """,
    )
    run = suite.run("test_a.py", "--retries", 2, expect=1)
    names = ("test_process", "test_crash_once", "test_always")
    outcomes = {name: [attempt["outcome"] for attempt in run.attempts(name)] for name in names}
    assert outcomes == {
        "test_process": ["failed", "passed"],
        "test_crash_once": ["crashed", "passed"],
        "test_always": ["failed", "failed", "failed"],
    }
    assert [attempt["attempt"] for attempt in run.attempts("test_always")] == [1, 2, 3]
    assert sorted(run.summary["flaky"]) == ["test_a.py::test_crash_once", "test_a.py::test_process"]


def test_after_a_lost_gpu_the_next_tests_have_a_fresh_process(suite: Suite):
    suite.write(
        "test_a.py",
        """
        lost = False
        def use_gpu():
            if lost:
                raise RuntimeError("HIP error: an illegal memory access was encountered")

        def test_first(): use_gpu()
        def test_loses_it():
            global lost
            lost = True
        def test_victim(): use_gpu()
        def test_after(): use_gpu()
        def test_own_fault(): raise RuntimeError("HIP error: an illegal memory access was encountered")
        def test_last(): use_gpu()
        """,
    )
    run = suite.run("test_a.py", expect=1)
    assert [attempt["outcome"] for attempt in run.attempts("test_victim")] == ["failed", "passed"]
    assert run.outcomes()["test_after"] == "passed"
    assert run.outcomes()["test_own_fault"] == "failed"
    assert run.outcomes()["test_last"] == "passed"


def test_nothing_collected_is_a_failure(suite: Suite):
    """False green T1: PyTorch's runner turns pytest's code 5 into success."""
    suite.write("test_a.py", "def test_a(): pass\n")
    suite.write("test_empty.py", "x = 1\n")
    for arguments in (
        ("test_empty.py",),
        ("test_a.py", "-k", "nothing_has_this_name"),
        ("test_a.py", "--", "-m", "no_such"),
    ):
        run = suite.run(*arguments, expect=1)
        assert run.events[-1] == {**run.events[-1], "event": "end", "complete": False}
        assert "no test was collected" in run.of("problem")[0]["message"]
        assert run.summary["verdict"] == "failed: nothing was tested"


def test_a_suite_that_skips_everything_tested_nothing(suite: Suite):
    suite.write("test_a.py", "import pytest\n\ndef test_a(): pytest.skip('no GPU')\n")
    assert suite.run("test_a.py", expect=1).summary["verdict"] == "failed: none of 1 test ran"


def test_files_that_cannot_be_imported_are_errors(suite: Suite):
    suite.write("test_a.py", "def test_a(): pass\n")
    suite.write("test_b.py", "import no_such_module\n\ndef test_b(): pass\n")
    run = suite.run("test_a.py", "test_b.py", expect=1)
    assert run.outcomes() == {"test_a": "passed", "test_b.py": "error"}
    assert "no_such_module" in run.attempts("test_b.py")[0]["message"]


def test_a_file_that_kills_its_import_is_named(suite: Suite):
    suite.write("test_a.py", "import os\n\nos._exit(0)\n")
    run = suite.run("test_a.py", expect=1)
    assert "while it imported `test_a.py`" in run.of("problem")[0]["message"]
    assert "test_a.py" in run.result.stderr


def test_a_test_that_removes_the_report_changes_nothing(suite: Suite):
    suite.write(
        "test_a.py",
        """
        import os, pathlib, shutil, sys

        def test_first(): pass
        def test_removes():
            plugin = pathlib.Path(sys.modules["rocwheel_pytest"].__file__)
            shutil.rmtree(plugin.parents[1])
            for run in (pathlib.Path(__file__).parent / "results").iterdir():
                (run / "events.jsonl").rename(run / "moved.jsonl")
                (run / "events.jsonl").symlink_to("moved.jsonl")
        def test_failed(): assert False
        def test_last(): pass
        """,
    )
    run = suite.run("test_a.py", expect=1)
    run.ended(passed="first removes last", failed="failed")


def test_forks_of_a_test_do_not_report_for_it(suite: Suite):
    suite.write(
        "test_a.py",
        """
        import os, subprocess, sys, time

        def test_forks():
            if os.fork() == 0:
                raise RuntimeError("the child goes on through pytest")
            os.wait()
        def test_leaves_a_process():
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        def test_starts_pytest(tmp_path):
            (tmp_path / "test_inner.py").write_text("def test_inner(): assert False")
            assert subprocess.run([sys.executable, "-m", "pytest", "-q", tmp_path]).returncode == 1
        """,
    )
    run = suite.run("test_a.py")
    assert run.outcomes() == {"test_forks": "passed", "test_leaves_a_process": "passed", "test_starts_pytest": "passed"}
    assert "processes were left" in run.result.stderr or "1 process" in run.result.stderr


def test_output_is_bounded(suite: Suite):
    suite.write("test_a.py", "def test_a():\n    print('begin ' + 'x' * 10_000_000 + ' end')\n    assert False\n")
    output = suite.run("test_a.py", expect=1).attempts("test_a")[0]["output"]
    assert len(output) < 70_000
    assert "bytes are not shown" in output


def test_wrong_options_are_wrong_usage(suite: Suite):
    suite.write("test_a.py", "def test_a(): pass\n")
    assert "--no-such-option" in suite.run("test_a.py", "--", "--no-such-option", expect=2).result.stderr
    words = ("test", "suite", "--python", sys.executable, "test_a.py")
    for option, word in (("--reruns=3", "--retries"), ("-n4", "--workers"), ("--collect-only", "--dry-run")):
        assert word in suite.rocwheel.run(*words, "--", option, expect=2, cwd=suite.folder).stderr
    suite.rocwheel.run(*words, "--no-such-option", expect=2, cwd=suite.folder)
    assert "does not exist" in suite.rocwheel.run("test", "suite", "nothing.bin", expect=2, cwd=suite.folder).stderr


def test_a_python_without_pytest_is_an_error(suite: Suite):
    bare = suite.folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    suite.write("test_a.py", "def test_a(): pass\n")
    words = ("test", "suite", "--python", bare / "bin/python", "test_a.py")
    assert "has no pytest" in suite.rocwheel.run(*words, expect=1, cwd=suite.folder).stderr
    words = ("test", "suite", "--python", "/bin/true", "test_a.py")
    assert "does not work as a Python" in suite.rocwheel.run(*words, expect=1, cwd=suite.folder).stderr


def test_early_stop_leaves_tests_that_did_not_run(suite: Suite):
    suite.write("test_a.py", "def test_a(): assert False\ndef test_b(): pass\n")
    run = suite.run("test_a.py", "--", "-x", expect=1)
    assert run.outcomes() == {"test_a": "failed", "test_b": "not_run"}
    assert run.events[-1]["complete"] is False


def test_workers_and_shards_run_everything_once(suite: Suite):
    for letter in "abcdef":
        suite.write(f"test_{letter}.py", "\n".join(f"def test_{letter}{number}(): pass" for number in range(7)))
    run = suite.run("--workers", 3)
    assert len(run.outcomes()) == 42
    assert len(run.of("attempt")) == 42
    times = {name: 1.0 for name in run.events[1]["ids"]} | {"test_a.py::test_a0": 1000.0}
    (suite.folder / "times.json").write_text(json.dumps(times))
    parts = [suite.run("--shard", f"{index}/3", "--durations", "times.json") for index in (1, 2, 3)]
    ids = [set(part.outcomes()) for part in parts]
    assert set().union(*ids) == set(run.outcomes())
    assert sum(map(len, ids)) == 42
    assert sorted(map(len, ids))[0] == 1, "the slow test has a shard alone"
    assert "-2of3" in parts[1].events[0]["run"]


def test_lists_decide_and_are_checked(suite: Suite):
    values = {"print": 0, "print_all": 1, "known": 0, "mended": 1}
    suite.write("test_a.py", "\n".join(f"def test_{name}(): assert {value}" for name, value in values.items()))
    suite.write(
        "list.toml",
        """
        [[test]]
        id = "test_a.py::test_print"
        kind = "skip"
        reason = "prints another number"
        link = "https://example.org/1"

        [[test]]
        id = "test_a.py::test_known"
        kind = "xfail"
        owner = "me"
        expires = 2999-01-01
        reason = "known"

        [[test]]
        id = "test_a.py::test_mended"
        kind = "xfail"
        owner = "me"
        expires = 2999-01-01
        reason = "known"

        [[test]]
        id = "test_a.py::test_gone"
        kind = "skip"
        reason = "gone"
        """,
    )
    run = suite.run("test_a.py", "--list", "list.toml")
    run.ended(deselected="print", passed="print_all", expected_failure="known", unexpected_pass="mended")
    assert [remark["kind"] for remark in run.summary["remarks"]] == ["stale"]
    assert len(run.events[0]["lists"]["list.toml"]) == 64
    only = suite.run("test_a.py", "--list", "list.toml", "--only-skipped", expect=1)
    assert only.outcomes() == {"test_print": "failed"}
    assert (
        "needs a list"
        in suite.rocwheel.run("test", "suite", "--only-skipped", "test_a.py", expect=2, cwd=suite.folder).stderr
    )


def test_a_dry_run_lists_and_tests_nothing(suite: Suite):
    suite.write("test_a.py", "def test_a(): pass\ndef test_b(): pass\n")
    suite.write("test_b.py", "import no_such_module\n")
    words = ("test", "suite", "--json", "--dry-run", "--python", sys.executable, "test_a.py", "test_b.py")
    preview = json.loads(suite.rocwheel.run(*words, cwd=suite.folder).stdout)
    assert preview["run"] == ["test_a.py::test_a", "test_a.py::test_b"]
    assert list(preview["unusable"]) == ["test_b.py"]
    assert not (suite.folder / "test-results").exists()


def test_lists_of_therock_skip_methods_of_their_module_alone(suite: Suite):
    for name in ("torch", "nn"):
        suite.write(f"test_{name}.py", "def test_print(): pass\ndef test_print_all(): pass\n")
    suite.write("skip_tests/generic.py", 'skip_tests = {"common": {"torch": ["test_print"]}}\n')
    run = suite.run(*"test_torch.py test_nn.py --list skip_tests --list-version 2.12 --allow-missing-list".split())
    outcomes = {event["id"]: event["outcome"] for event in run.of("attempt")}
    assert [name for name, outcome in outcomes.items() if outcome == "deselected"] == ["test_torch.py::test_print"]
    assert run.events[0]["lists"]["pytorch_2.12.py"] == "missing"
    words = ("test", "suite", "--python", sys.executable, *"test_nn.py --list skip_tests --list-version 2.12".split())
    assert "pytorch_2.12.py" in suite.rocwheel.run(*words, expect=1, cwd=suite.folder).stderr


def test_a_killed_supervisor_leaves_a_readable_file(suite: Suite):
    suite.write("test_a.py", "import time\n\ndef test_a(): pass\ndef test_b(): time.sleep(60)\n")
    output = suite.folder / "results"
    command = [suite.rocwheel.binary, "test", "suite", "--python", sys.executable, "--output", output, "test_a.py"]
    running = subprocess.Popen(command, cwd=suite.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        texts = [path.read_text() for path in output.glob(f"*/{EVENTS}")] if output.exists() else []
        if texts and "test_b" in texts[0].splitlines()[-1] and '"started"' in texts[0].splitlines()[-1]:
            break
        time.sleep(0.1)
    running.kill()
    running.wait()
    (path,) = output.glob(f"*/{EVENTS}")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert events[-1]["event"] == "started"
    assert [event["outcome"] for event in events if event["event"] == "attempt"] == ["passed"]


def test_an_interruption_ends_the_tests(suite: Suite):
    suite.write(
        "test_a.py",
        """
        import os, pathlib, time

        def test_b():
            pathlib.Path("pid").write_text(str(os.getpid()))
            time.sleep(600)
        """,
    )
    command = [suite.rocwheel.binary, "test", "suite", "--python", sys.executable, "test_a.py"]
    running = subprocess.Popen(command, cwd=suite.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while not (suite.folder / "pid").exists() and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=60) == 130
    number = int((suite.folder / "pid").read_text())
    time.sleep(0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_scripts_are_a_test_each(suite: Suite):
    for name, text in {
        "good": "exit 0",
        "bad": "echo why; exit 4",
        "dead": "kill -SEGV $$",
        "slow": "sleep 600",
    }.items():
        suite.write(name, f"#!/bin/sh\n{text}\n").chmod(0o755)
    run = suite.run("--as", "script", "good", "bad", "dead", "slow", "--timeout", 2, expect=1)
    assert run.outcomes() == {"good": "passed", "bad": "failed", "dead": "crashed", "slow": "timed_out"}
    assert run.attempts("bad")[0]["output"] == "why\n"
