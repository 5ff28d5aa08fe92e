"""Test programs of every framework in `truth/frameworks/*.toml`, each in situations that go well or
wrong: what the framework says of them, and the reports that it leaves.

A file has the `name` of the framework, the packages of Debian (`apt`), PyPI (`python`) and npm
(`npm`) that it needs, and

| key | |
| --- | --- |
| `version` | prints the version |
| `words` | expressions that find the last words of the framework, the best one first |
| `files` | the test program |
| `head` | how files of these names begin in every situation |
| `shared`, `build` | files, and what is made of them, once for all situations, in `$SHARED` |
| `prepare` | makes the test program; it has to succeed |
| `run` | runs the tests: its exit code is the framework's, and the reports are in `$REPORTS` |
| `without` | situations of `SITUATIONS` that the framework does not have, and why |

A situation adds to them or replaces them; `like` names the situation whose files it takes. Each
exception has its reason: `refused`, that a run is no pass although the framework calls it good;
`no-trace`, that it looks like a pass where only the files are read; `unseen`, that nothing shows
what went wrong.
"""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from command import Rocwheel

HERE = Path(__file__).parent / "truth"
REPORTS = HERE / "reports"
VERSIONS = HERE / "versions.json"
SITUATIONS = "passing failing crashing hanging skipped flaky collection-error nothing-collected truncated".split()
CUT = "the report ends in the middle"


@dataclass(frozen=True, eq=False)
class Situation:
    framework: Framework
    name: str
    files: dict[str, str]
    prepare: str
    run: str
    refused: str
    no_trace: str
    unseen: str


@dataclass(frozen=True, eq=False)
class Framework:
    key: str
    table: dict

    @property
    def name(self) -> str:
        return self.table["name"]

    @property
    def without(self) -> dict[str, str]:
        return self.table.get("without", {})

    def situations(self) -> list[Situation]:
        named = self.table["situation"]
        cut = {**named["passing"], "refused": CUT}
        return [self.situation(name, table) for name, table in {**named, "truncated": cut}.items()]

    def situation(self, name: str, table: dict) -> Situation:
        files = self.table["situation"][table["like"]]["files"] if "like" in table else table.get("files", {})
        head = self.table.get("head", {})
        return Situation(
            framework=self,
            name=name,
            files={**self.table.get("files", {}), **{path: head.get(path, "") + text for path, text in files.items()}},
            prepare=table.get("prepare", self.table.get("prepare", "")),
            run=table.get("run", self.table["run"]),
            refused=table.get("refused", ""),
            no_trace=table.get("no-trace", ""),
            unseen=table.get("unseen", ""),
        )


def frameworks() -> list[Framework]:
    paths = sorted((HERE / "frameworks").glob("*.toml"))
    return [Framework(path.stem, tomllib.loads(path.read_text())) for path in paths]


@dataclass(frozen=True)
class Said:
    """The exit code of a framework, and its last words."""

    code: int
    words: str


@dataclass(frozen=True)
class Judged:
    """rocwheel's result for the reports alone, and for the reports with the exit code."""

    files: str
    runner: str


def judge(rocwheel: Rocwheel, reports: Path, code: int) -> Judged:
    return Judged(result(rocwheel, reports), result(rocwheel, reports, "--runner-exit", code))


def result(rocwheel: Rocwheel, *words: object) -> str:
    command = [rocwheel.binary, "--json", "test", "report", *map(str, words)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    word = json.loads(finished.stdout)["result"]
    assert finished.returncode == (0 if word == "passed" else 1), finished
    return word


def broken_promise(situation: Situation, code: int, judged: Judged) -> str:
    """Why rocwheel may not judge a run like that, else nothing."""
    results = (judged.files, judged.runner)
    good = code == 0 and not situation.refused
    if good and results != ("passed", "passed"):
        return "the framework says that all is well"
    if not good and judged.runner == "passed":
        return "a run that is not good has passed"
    if not good and judged.files == "passed" and not situation.no_trace:
        return "a run that is not good has passed by its files"
    return ""


@dataclass(frozen=True)
class Row:
    """A line of `truth/table.csv`."""

    framework: str
    situation: str
    exit: str
    words: str
    files: str
    runner: str

    @property
    def judged(self) -> Judged:
        return Judged(self.files, self.runner)

    def judged_as(self, judged: Judged) -> Row:
        return replace(self, files=judged.files, runner=judged.runner)


def read_rows() -> list[Row]:
    with (HERE / "table.csv").open(newline="") as file:
        return [Row(**line) for line in csv.DictReader(file)]


def write_rows(rows: list[Row]) -> None:
    with (HERE / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, rows))


@dataclass(frozen=True)
class Workshop:
    """A folder with the tools of PyPI and npm, in which test programs run."""

    folder: Path

    def install(self, wanted: list[Framework]) -> None:
        """Installs the packages of PyPI and npm."""
        python = sorted({word for framework in wanted for word in framework.table.get("python", [])})
        npm = sorted({word for framework in wanted for word in framework.table.get("npm", [])})
        subprocess.run([sys.executable, "-m", "venv", self.folder / "venv"], check=True)
        subprocess.run([self.folder / "venv/bin/python", "-m", "pip", "install", "--quiet", *python], check=True)
        (self.folder / "package.json").write_text("{}")
        path = f"{self.folder}/venv/bin:{os.environ['PATH']}"
        words = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *npm]
        subprocess.run(words, cwd=self.folder, env={**os.environ, "PATH": path}, check=True)

    def run(self, script: str, folder: Path, **variables: object) -> tuple[int, str]:
        """Runs the script in the folder and ends what it leaves behind: the exit code, and all that
        was printed."""
        environment = {
            "HOME": self.folder,
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "PATH": f"{self.folder}/venv/bin:{self.folder}/node_modules/.bin:/usr/bin:/bin",
            "TZ": "UTC",
            "GOFLAGS": "-mod=mod",
            "GOPROXY": "off",
            **variables,
        }
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            env={name: str(value) for name, value in environment.items()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=120)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return process.returncode, output

    def must_run(self, script: str, folder: Path, **variables: object) -> str:
        code, output = self.run(script, folder, **variables)
        assert code == 0, f"{script}\n{output}"
        return output

    def version(self, framework: Framework) -> str:
        return " ".join(self.must_run(framework.table["version"], self.folder).split())

    def build(self, framework: Framework) -> None:
        """Makes what all situations of the framework share, once."""
        shared = self.folder / framework.key / "shared"
        if not shared.is_dir():
            write_files(shared, framework.table.get("shared", {}))
            self.must_run(framework.table.get("build", ""), shared)

    def reports(self, situation: Situation) -> Path:
        return self.folder / situation.framework.key / situation.name / "reports"

    def execute(self, situation: Situation) -> Said:
        reports = self.reports(situation)
        tests = reports.parent / "tests"
        write_files(tests, situation.files)
        reports.mkdir()
        places = {"SHARED": self.folder / situation.framework.key / "shared", "REPORTS": reports}
        if situation.prepare:
            self.must_run(situation.prepare, tests, **places)
        code, output = self.run(situation.run, tests, **places)
        if situation.refused == CUT:
            for report in files_below(reports):
                report.write_bytes(report.read_bytes()[: report.stat().st_size * 2 // 3])
        return Said(code if code >= 0 else 128 - code, last_words(situation.framework.table["words"], output))

    def save(self, situation: Situation) -> None:
        """Copies the reports to those that are kept, without what they tell about the machine."""
        kept = REPORTS / situation.framework.key / situation.name
        for report in files_below(self.reports(situation)):
            kept.mkdir(parents=True, exist_ok=True)
            text = self.without_the_machine(report.read_bytes().decode(errors="replace"))
            (kept / self.without_the_machine(report.name)).write_bytes(text.encode())

    def without_the_machine(self, text: str) -> str:
        text = text.replace(str(self.folder), "/home/user")
        text = text.replace(sysconfig.get_path("stdlib"), "/usr/lib/python3")
        for pattern, replacement in MACHINE:
            text = re.sub(pattern, replacement, text)
        return text


MACHINE = (
    (r'(?i)\b(hostname=)"[^"]*"', r'\1"host"'),
    (r"\b20\d\d-\d\d-\d\d([T ])\d\d:", r"2026-01-01\g<1>12:"),
    (r"\b20\d{6}-\d{4}\b", "20260101-1200"),
    (r"\b20\d{12}\b", "20260101120000"),
    (r"\b[A-Z][a-z]{2} \d\d \d\d:\d\d UTC", "Jan 01 12:00 UTC"),
    (r"\b1[789]\d{8}(?:\.\d+)?\b", "1767268800"),
    (r"(\b(?:OS\w+|Vendor\w+|\w+ID|Processor\w+|NumberOf\w+CPU|Total\w+Memory)=)\"[^\"]*\"", r'\1""'),
    (r'("env": )\{[^}]*\}', r"\1{}"),
    (r"\b0x[0-9a-f]{6,}\b", "0x0"),
    # Frames of frameworks in JavaScript.
    (r"(?m)^ *(?:at|❯) [^<\n]*node_modules/[^<\n]*\n", ""),
)


def write_files(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def last_words(patterns: list[str], output: str) -> str:
    """The last line that the first of the patterns fits, or else the next; or nothing."""
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", output).splitlines()
    fitting = (re.search(pattern, line) for pattern in patterns for line in reversed(lines))
    first = next(filter(None, fitting), None)
    return " ".join(first[1].split()) if first else ""
