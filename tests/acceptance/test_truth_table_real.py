"""The truth table by real runs: test programs of every framework fail, crash, hang and more, and
`rocwheel test report` says "passed" of none that the framework does not call good.

`INSTA_UPDATE=always` writes the reports, the exit codes and the last words into `truth/` anew."""

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from truth_table import (
    REPORTS,
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

from command import Rocwheel, run
from engines import REPOSITORY

FRAMEWORKS = frameworks()
UPDATE = os.environ.get("INSTA_UPDATE") == "always"


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
