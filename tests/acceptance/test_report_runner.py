"""`rocwheel test report -- COMMAND` with real frameworks whose exit code says more than their
reports."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command import Rocwheel

NODE = """
const {{ describe, it, after }} = require("node:test");
describe("group", () => {{
  after(() => {{ {0} }});
  it("works", () => {{}});
}});
"""

# What pytest-cov does with `--cov-fail-under`.
CONFTEST = """
def pytest_sessionfinish(session):
    session.exitstatus = {0}
"""

GO = """
package it
import ("os"; "testing")
func TestMain(m *testing.M) {{ if code := m.Run(); code != 0 {{ os.Exit(code) }}; os.Exit({0}) }}
func TestIt(t *testing.T) {{}}
"""

# go test has no report of its own; this is what a converter of its events writes.
CONVERTER = """
import json, pathlib, subprocess, sys
ran = subprocess.run(["go", "test", "-json", "./..."], stdout=subprocess.PIPE, text=True)
events = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
cases = [
    f'<testcase classname="{event["Package"]}" name="{event["Test"]}"/>'
    for event in events if event.get("Test") and event["Action"] == "pass"
]
pathlib.Path("r").mkdir(exist_ok=True)
pathlib.Path("r/go.xml").write_text(f'<testsuites><testsuite name="go">{"".join(cases)}</testsuite></testsuites>')
sys.exit(ran.returncode)
"""


def node(folder: Path, fault: bool) -> list[str]:
    (folder / "it.test.js").write_text(NODE.format("throw new Error('clean-up')" if fault else ""))
    reporter = ["--test-reporter=junit", "--test-reporter-destination=r/node.xml"]
    return ["sh", "-c", f"mkdir -p r && exec node --test {' '.join(reporter)}"]


def pytest_command(folder: Path, fault: bool) -> list[str]:
    (folder / "test_it.py").write_text("def test_it(): ...\n")
    (folder / "conftest.py").write_text(CONFTEST.format(int(fault)))
    return [sys.executable, "-m", "pytest", "-q", "--junit-xml=r/junit.xml"]


def go(folder: Path, fault: bool) -> list[str]:
    (folder / "go.mod").write_text("module example.org/it\n\ngo 1.19\n")
    (folder / "it_test.go").write_text(GO.format(int(fault)))
    return [sys.executable, "-c", CONVERTER]


@pytest.mark.parametrize("framework", [node, pytest_command, go])
def test_the_exit_code_of_a_framework_decides(
    rocwheel: Rocwheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: Callable[[Path, bool], list[str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    for fault in (False, True):
        command = framework(tmp_path, fault)
        ran = rocwheel.run("--json", "test", "report", "r", "--", *command, expect=int(fault))
        document = json.loads(ran.stdout)
        assert document["report"]["runner"] == {"end": "exited", "code": int(fault)}
        assert document["counts"] == {"total": 1, "passed": 1, "flaky": 0}, "the report itself is clean"
        said = "the runner exited with code 1, and no test failed in the reports"
        assert any(said in gap for gap in document["gaps"]) == fault
        # Without the code there is no trace of it.
        rocwheel.run("test", "report", "r")
