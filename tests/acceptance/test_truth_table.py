"""What `rocwheel test report` says of the reports that test frameworks left in `truth/reports`: as
`truth/table.csv` says, and never "passed" where the framework did not. In the long run, test
programs of every framework fail, crash, hang and more.

`INSTA_UPDATE=always` writes the reports, the exit codes and the last words into `truth/` anew."""

import dataclasses
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from truth_page import PAGE, page
from truth_table import (
    REPORTS,
    SITUATIONS,
    VERSIONS,
    Framework,
    Row,
    Workshop,
    broken_promise,
    frameworks,
    judge,
    read_rows,
    write_rows,
)

from command import REPOSITORY, Rocwheel, run

FRAMEWORKS = frameworks()

UPDATE = os.environ.get("INSTA_UPDATE") == "always"


def rows_of(framework: Framework) -> dict[str, Row]:
    return {row.situation: row for row in read_rows() if row.framework == framework.key}


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.key)
def test_every_situation_has_a_row(framework: Framework) -> None:
    named = [situation.name for situation in framework.situations()]
    assert list(rows_of(framework)) == named
    assert set(SITUATIONS) - set(named) == set(framework.without)
    assert {folder.name for folder in (REPORTS / framework.key).iterdir()} <= set(named)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.key)
def test_reports_of_frameworks_are_judged_as_the_table_says(
    rocwheel: Rocwheel, tmp_path: Path, framework: Framework
) -> None:
    rows = rows_of(framework)
    kept = [REPORTS / framework.key / name for name in rows]
    folders = [folder if folder.is_dir() else tmp_path for folder in kept]
    codes = [int(row.exit) for row in rows.values()]
    with ThreadPoolExecutor(4) as threads:
        judged = dict(zip(rows, threads.map(judge, itertools.repeat(rocwheel), folders, codes), strict=True))
    if UPDATE:
        new = {row: row.judged_as(judged[name]) for name, row in rows.items()}
        write_rows([new.get(row, row) for row in read_rows()])
        rows = rows_of(framework)
    assert judged == {name: row.judged for name, row in rows.items()}


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.key)
def test_a_run_passes_only_if_the_framework_and_its_reports_say_so(framework: Framework) -> None:
    rows = rows_of(framework)
    broken, idle = {}, []
    for situation in framework.situations():
        row = rows[situation.name]
        code = int(row.exit)
        if promise := broken_promise(situation, code, row.judged):
            broken[situation.name] = promise
        needed = {
            "refused": bool(situation.refused) <= (code == 0),
            "no-trace": bool(situation.no_trace) <= (code != 0 and row.files == "passed"),
            "unseen": bool(situation.unseen) <= (code == 0 and row.files == "passed"),
        }
        idle += [f"{situation.name}: {key}" for key, is_needed in needed.items() if not is_needed]
    assert broken == {}
    assert idle == [], "exceptions that excuse nothing"


def test_the_page_about_frameworks_has_the_table() -> None:
    if UPDATE:
        PAGE.write_text(page())
    assert PAGE.read_text() == page()


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
        document = rocwheel.json("test", "report", "r", "--", *command, expect=int(fault))
        assert document["report"]["runner"] == {"end": "exited", "code": int(fault)}
        assert document["counts"] == {"total": 1, "passed": 1, "flaky": 0}, "the report itself is clean"
        said = "the runner exited with code 1, and no test failed in the reports"
        assert any(said in gap for gap in document["gaps"]) == fault
        # Without the code there is no trace of it.
        rocwheel.run("test", "report", "r")


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    packages = sorted({word for framework in FRAMEWORKS for word in framework.table.get("apt", [])})
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}"]
    missing = [name for name in packages if subprocess.run([*query, name], capture_output=True).stdout != b"installed"]
    if missing:
        script = '. scripts/machine.bash; install_packages "$@"'
        run("bash", "-euc", script, "bash", *missing, cwd=REPOSITORY)
    fresh = Workshop(tmp_path_factory.mktemp("workshop"))
    fresh.install(FRAMEWORKS)
    return fresh


@pytest.mark.long
@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.key)
def test_nothing_passes_that_a_framework_does_not_call_good(
    rocwheel: Rocwheel, workshop: Workshop, framework: Framework
) -> None:
    workshop.build(framework)
    rows, broken = [], {}
    for situation in framework.situations():
        said = workshop.execute(situation)
        judged = judge(rocwheel, workshop.reports(situation), said.code)
        rows.append(Row(framework.key, situation.name, str(said.code), said.words, **dataclasses.asdict(judged)))
        if promise := broken_promise(situation, said.code, judged):
            broken[situation.name] = (promise, said, judged)
    if UPDATE:
        update(workshop, framework, rows)
    assert broken == {}


def update(workshop: Workshop, framework: Framework, rows: list[Row]) -> None:
    shutil.rmtree(REPORTS / framework.key, ignore_errors=True)
    for situation in framework.situations():
        workshop.save(situation)
    kept = [row for row in read_rows() if row.framework != framework.key]
    write_rows(sorted(kept + rows, key=lambda row: row.framework))
    versions = {**json.loads(VERSIONS.read_text()), framework.key: workshop.version(framework)}
    VERSIONS.write_text(json.dumps(versions, indent=4, sort_keys=True) + "\n")


@pytest.mark.long
@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.key)
def test_a_runner_behind_two_dashes_is_run_and_believed(
    rocwheel: Rocwheel, workshop: Workshop, framework: Framework, tmp_path: Path
) -> None:
    workshop.build(framework)
    named = {situation.name: situation for situation in framework.situations()}
    script = tmp_path / "run"
    for name, code in (("passing", 0), ("failing", 1)):
        script.write_text(named[name].run)
        outer = f"{rocwheel.binary} test report $REPORTS -- bash {script}"
        said = workshop.execute(dataclasses.replace(named[name], name=f"{name}-inside", run=outer))
        assert said.code == code, said
