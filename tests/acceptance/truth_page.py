"""Writes `docs/frameworks.md` of the truth table."""

import json
from collections.abc import Iterable

from truth_table import SITUATIONS, VERSIONS, Row, Situation, frameworks, read_rows

from command import REPOSITORY

PAGE = REPOSITORY / "docs/frameworks.md"
Rows = dict[tuple[str, str], Row]

HEAD = """# What test frameworks say

`rocwheel test report` reads the reports of other tools ([testing.md](testing.md#read-the-results)).
`make test-real` runs small test programs of {count} frameworks that pass, fail, crash, hang and more
({runs} runs), and compares what the framework says with what rocwheel says. `make test` reads the
reports that those runs left. No run that is not good passes once rocwheel knows its exit code,
except for the last table, where the framework itself calls it good.

A cell has the exit code of the framework, and rocwheel's result with it (`-- COMMAND` or
`--runner-exit`). Where the reports alone say something else, that result is first. `–` is for
frameworks that do not try again. All runs, with the framework's last words, are in
`tests/acceptance/truth/table.csv`; the test programs are beside it.

Other versions leave other reports. With pytest 8.4 and pytest-rerunfailures 15.1, first tries are
in none, so a failure whose second try skipped itself is not seen.

"""

NO_TRACE = """
## Runs that only the exit code tells from a pass

The reports of these are those of a pass. Put the command behind `--`, or name its exit code.

"""

REFUSED = """
## Runs that frameworks call good, and rocwheel does not

The exit code is 0.

"""

UNSEEN = """
## Runs in which nothing shows what went wrong

The framework takes these for passes, in its reports too, and so does rocwheel. `--expect` finds
the tests that an earlier run had.

"""


def page() -> str:
    rows = {(row.framework, row.situation): row for row in read_rows()}
    situations = [situation for framework in frameworks() for situation in framework.situations()]
    return "".join(
        [
            HEAD.format(count=len(frameworks()), runs=len(rows)),
            *main_table(rows),
            NO_TRACE,
            *table_of_runs(rows, {one: one.no_trace for one in situations if one.no_trace}),
            REFUSED,
            *table_of_reasons(rows, [one for one in situations if one.refused and one.name != "truncated"]),
            UNSEEN,
            *table_of_runs(rows, {one: one.unseen for one in situations if one.unseen}),
        ]
    )


def main_table(rows: Rows) -> Iterable[str]:
    versions = json.loads(VERSIONS.read_text())
    yield from heading("framework", *map(in_words, SITUATIONS))
    for framework in frameworks():
        cells = (cell(rows.get((framework.key, name))) for name in SITUATIONS)
        yield table_line([f"{framework.name} {versions[framework.key]}", *cells])


def table_of_runs(rows: Rows, reasons: dict[Situation, str]) -> Iterable[str]:
    yield from heading("framework", "situation", "its last words", "result", "why")
    for situation, reason in reasons.items():
        row = rows[situation.framework.key, situation.name]
        words = f"`{row.words}`".replace("|", "\\|") if row.words else ""
        yield table_line([situation.framework.name, in_words(situation.name), words, cell(row), reason])


def table_of_reasons(rows: Rows, situations: list[Situation]) -> Iterable[str]:
    yield from heading("why", "result", "runs")
    groups: dict[tuple[str, str], list[str]] = {}
    for situation in situations:
        row = rows[situation.framework.key, situation.name]
        run = f"{situation.framework.name} ({in_words(situation.name)})"
        groups.setdefault((situation.refused, cell(row)), []).append(run)
    for (reason, result), runs in sorted(groups.items(), key=lambda group: -len(group[1])):
        yield table_line([reason, result, ", ".join(runs)])


def cell(row: Row | None) -> str:
    if row is None:
        return "–"
    alone = f"{row.files} → " if row.files != row.runner else ""
    return f"{row.exit}: {alone}{row.runner}"


def in_words(situation: str) -> str:
    return situation.replace("-", " ")


def heading(*cells: str) -> Iterable[str]:
    yield table_line(cells)
    yield table_line(["---"] * len(cells))


def table_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |\n"
