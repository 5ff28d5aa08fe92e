"""Tells rocwheel what a pytest process does, one JSON object a line, while it does it.

rocwheel puts this file on PYTHONPATH, names it with `-p`, and sets two variables:
`ROCWHEEL_TEST_PLAN`, a JSON file that says which tests run, and `ROCWHEEL_TEST_EVENTS`, a folder in
which each process writes its own file. Needs Python 3.10, pytest 7 and no other package.

A line is written with one call, so what a killed process wrote is readable up to the test in which
it died. The file stays open: a test that removes it loses nothing.

Suites have tests that take a fifth of a millisecond, so a test that passes costs one short line:
`[3]` when the third test of the plan (from 0) begins, `[3,0.0002]` when it has passed after so many
seconds. The second one is written together with the begin of the next test.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

PLAN, EVENTS = "ROCWHEEL_TEST_PLAN", "ROCWHEEL_TEST_EVENTS"

OUTPUT_LIMIT = 60 << 10
"""Bytes that are kept of what a test printed, with its traceback."""

CHUNK = 500
"""Ids in one line of collected tests."""


def clean(text: str) -> str:
    """The text without lone surrogates, which are not allowed in UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def bounded(text: str) -> str:
    """The first quarter and the end of a long text."""
    text = clean(text)
    if len(text.encode()) <= OUTPUT_LIMIT:
        return text
    head, tail = text.encode()[: OUTPUT_LIMIT // 4], text.encode()[-(OUTPUT_LIMIT - OUTPUT_LIMIT // 4) :]
    middle = f"\n[{len(text.encode()) - OUTPUT_LIMIT} bytes are not shown]\n"
    return head.decode("utf-8", "ignore") + middle + tail.decode("utf-8", "ignore")


class Teller:
    """The hooks. Only the process that loaded it writes; a process that a test forks does not."""

    def __init__(self, plan: dict, folder: str) -> None:
        self.owner = os.getpid()
        self.plan = plan
        self.sticky = [re.compile(pattern) for pattern in plan.get("sticky", ())]
        name = Path(folder) / f"{self.owner}-{time.time_ns()}.jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self.file = os.open(name, flags, 0o600)
        self.reports: list = []
        self.session = None
        self.numbers: dict[str, int] = {}
        """Index in the plan, for node ids that pytest has."""
        self.pending = ""
        """The line of the test that ended last."""
        self.left = 0
        """Number of tests that have not ended."""
        self.tell(event="process", number=self.owner)

    def tell(self, **event: object) -> None:
        self.write(json.dumps(event) + "\n")

    def write(self, line: str) -> None:
        line, self.pending = self.pending + line, ""
        if os.getpid() == self.owner:
            os.write(self.file, line.encode())

    # Collection

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        if isinstance(collector, pytest.File):
            self.tell(event="collecting", id=clean(collector.nodeid))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            text = report.longreprtext if hasattr(report, "longreprtext") else str(report.longrepr)
            self.tell(event="collect_failed", id=clean(report.nodeid), output=bounded(text), message=last_line(text))
        elif report.skipped and report.nodeid:
            self.tell(event="collect_skipped", id=clean(report.nodeid), message=skip_reason(report.longrepr))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        ids = [clean(item.nodeid) for item in items]
        wanted = self.plan.get("run")
        if wanted is None:
            for start in range(0, len(ids), CHUNK):
                self.tell(event="collected", ids=ids[start : start + CHUNK])
            if "answer" in self.plan:
                wanted = self.ask()
        if wanted is not None:
            numbers = {name: number for number, name in enumerate(wanted)}
            items[:] = [item for item, name in zip(items, ids, strict=True) if name in numbers]
            self.numbers = {item.nodeid: numbers[clean(item.nodeid)] for item in items}
            known = set(ids)
            missing = [name for name in wanted if name not in known]
            if missing:
                self.tell(event="missing", ids=missing)
            return
        skip = self.plan.get("skip") or {}
        if skip:
            kept = []
            for item, name in zip(items, ids, strict=True):
                reason = skip.get(name)
                if reason is None:
                    kept.append(item)
                else:
                    self.tell(event="deselected", id=name, message=reason)
            items[:] = kept

    def ask(self) -> list[str]:
        """Waits until rocwheel has chosen tests; this process has imported all of them."""
        self.tell(event="ready", root=str(self.session.config.rootpath), waits=True)
        answer, parent = Path(self.plan["answer"]), os.getppid()
        while not answer.exists():
            if os.getppid() != parent:
                os._exit(1)
            time.sleep(0.005)
        # Files that could not be imported are known, and no reason for this process to fail.
        self.session.testsfailed = 0
        return json.loads(answer.read_text(encoding="utf-8"))["run"]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.left = len(session.items)
        self.tell(event="ready", root=str(session.config.rootpath))

    # Running

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.reports.clear()
        number = self.numbers.get(nodeid)
        if number is None:
            self.tell(event="started", id=clean(nodeid))
        else:
            self.write(f"[{number}]\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        reports, number = self.reports, self.numbers.get(nodeid)
        self.left -= 1
        if number is not None and has_just_passed(reports):
            seconds = sum([report.duration for report in reports])
            self.pending += f"[{number},{seconds:.6f}]\n"
            if self.left <= 0 or self.session is None or self.session.shouldstop:
                self.write("")
            return
        outcome, message = judge(reports)
        bad = outcome in ("failed", "error")
        texts = [report.longreprtext for report in reports if went_wrong(report)]
        if bad:
            # A phase has the outputs of the earlier ones, too.
            sections = dict.fromkeys(section for report in reports for section in report.sections)
            texts += [f"--- {name} ---\n{text}" for name, text in sections if text.strip()]
        output = bounded("\n".join(texts))
        self.tell(
            event="attempt",
            id=clean(nodeid),
            outcome=outcome,
            seconds=round(sum(getattr(report, "duration", 0.0) for report in reports), 6),
            message=clean(message)[:2000] if message else None,
            output=output or None,
        )
        if bad and self.session is not None and any(pattern.search(output) for pattern in self.sticky):
            self.tell(event="poisoned", id=clean(nodeid))
            self.session.shouldstop = "the GPU context is lost"

    # Ends

    def pytest_internalerror(self, excrepr: object) -> None:
        self.tell(event="problem", message=clean("pytest failed: " + last_line(str(excrepr))))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.tell(event="finished", status=int(exitstatus))


def last_line(text: str) -> str:
    """The line that names the error."""
    lines = [line for line in clean(text).splitlines() if line.strip()]
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (errors or lines or [""])[-1 if not errors else 0][:500]


def skip_reason(longrepr: object) -> str:
    if isinstance(longrepr, tuple) and len(longrepr) == 3:
        return clean(str(longrepr[2]))[:500]
    return clean(str(longrepr))[:500]


def went_wrong(report: pytest.TestReport) -> bool:
    """True for a phase that failed, also if a plugin repeats it and calls that otherwise: `rerun`
    (pytest-rerunfailures), `retried` (pytest-retry)."""
    return report.outcome not in ("passed", "skipped")


def has_just_passed(reports: list) -> bool:
    """True for a test of three phases that passed and of which nothing else is to be told."""
    if len(reports) != 3 or reports[1].when != "call":
        return False
    return all([report.outcome == "passed" and not hasattr(report, "wasxfail") for report in reports])


def judge(reports: list) -> tuple[str, str | None]:
    """The outcome of a test from those of its phases, and why."""
    if not reports:
        return "not_run", "pytest reported no phase of it"
    for report in reports:
        if went_wrong(report):
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message if crash is not None else last_line(report.longreprtext)
            message = message.splitlines()[0] if message else "no reason is given"
            if not report.failed:
                message += " (a rerun in the same process does not count)"
            if report.when == "call":
                return "failed", message
            return "error", f"{report.when} failed: {message}"
    for report in reports:
        if hasattr(report, "wasxfail"):
            reason = clean(str(report.wasxfail))
            return ("expected_failure", reason) if report.skipped else ("unexpected_pass", reason)
    for report in reports:
        # A part of a test (pytest's subtests, with a context of their own) skips nothing else.
        if report.skipped and not hasattr(report, "context"):
            return "skipped", skip_reason(report.longrepr)
    if not any(report.when == "call" for report in reports):
        return "not_run", "it has no call phase"
    return "passed", None


def pytest_configure(config: pytest.Config) -> None:
    # Tests that start pytest themselves must not write into this run.
    plan_file, folder = os.environ.pop(PLAN, None), os.environ.pop(EVENTS, None)
    if os.environ.get("PYTEST_PLUGINS") == __name__:
        del os.environ["PYTEST_PLUGINS"]
    if not plan_file or not folder:
        return
    # A rerun in the same process cannot heal a lost GPU; rocwheel retries in a fresh one.
    if getattr(config.option, "reruns", None):
        config.option.reruns = 0
    with open(plan_file, encoding="utf-8") as file:
        plan = json.load(file)
    if hasattr(faulthandler, "register") and hasattr(signal, "SIGTERM"):
        # rocwheel ends a hanging test with SIGTERM. This prints where it hangs, also inside of C.
        faulthandler.register(signal.SIGTERM, file=os.dup(sys.__stderr__.fileno()), all_threads=True, chain=True)
    config.pluginmanager.register(Teller(plan, folder), "rocwheel-teller")
