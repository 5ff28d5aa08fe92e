"""What `rocwheel test report` says of the reports that test frameworks left in `truth/reports`: as
`truth/table.csv` says, and never "passed" where the framework did not."""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from truth_page import PAGE, page
from truth_table import (
    REPORTS,
    SITUATIONS,
    Framework,
    Row,
    broken_promise,
    frameworks,
    judge,
    read_rows,
    write_rows,
)

from command import Rocwheel

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
