"""Checks that every library loads alone, and only with libraries of the environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .. import _contents, _dist_info, find_libraries
from ._policy import Policy
from ._report import Report

LOADER = Path(__file__).with_name("_load.py")
TIMEOUT_SECONDS = 300

# A verdict: the problem, or None, and a detail for display.
Verdict = tuple["str | None", str]


def check_libraries(report: Report, site: Path) -> None:
    """Loads each library of each package in a new process, several at a time."""
    report.section("libraries")
    policy = Policy(site)
    jobs: list[tuple[str, Callable[[], Verdict]]] = []
    for package in _contents.installed_packages():
        for library in package.libraries:
            what = f"{package.distribution} {library.path}"
            if library.load:
                path = package.platform_directory / library.path
                jobs.append((what, lambda path=path: load(path, policy)))  # type: ignore[misc]
            else:
                report.skip(what, library.reason or "cannot be loaded by itself")
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        verdicts = pool.map(lambda job: job[1](), jobs)
        for (what, _), (problem, detail) in zip(jobs, verdicts, strict=True):
            if problem is None:
                report.ok(what, detail)
            else:
                report.fail(what, problem)


def load(path: Path, policy: Policy) -> Verdict:
    """Loads one library in a new process, and checks the paths of everything that is loaded with
    it."""
    if not path.is_file():
        return "the file is missing", ""
    try:
        process = subprocess.run(
            [sys.executable, "-I", "-S", str(LOADER), str(path), *dll_directories()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"loading it took more than {TIMEOUT_SECONDS} s", ""
    if process.returncode != 0:
        errors = process.stderr.decode(errors="replace").strip()
        return f"loading it ended the process {_how(process.returncode)}" + (f"\n{errors}" if errors else ""), ""
    answer = json.loads(process.stdout.rsplit(b"\n", 1)[-1].decode("utf-8", "surrogateescape"))
    if answer["error"] is not None:
        return str(answer["error"]), ""
    outsiders = policy.outsiders(answer["loaded"])
    if outsiders:
        return f"loads from outside the environment: {', '.join(outsiders)}", ""
    return None, f"{len(answer['loaded'])} objects" if answer["loaded"] else ""


def dll_directories() -> list[str]:
    """The folders that a process on Windows needs; empty elsewhere."""
    return [str(folder) for folder in _contents.dll_directories()] if os.name == "nt" else []


def _how(status: int) -> str:
    if status >= 0:
        return f"with status {status}"
    try:
        return f"by {signal.Signals(-status).name}"
    except ValueError:
        return f"by signal {-status}"


def check_short_names(report: Report) -> None:
    """`find_libraries` finds every library of the packages that frameworks request by name."""
    report.section("library names")
    listed = {package.logical_name: package.libraries for package in _contents.installed_packages()}
    found, absent = [], []
    for name, entry in _dist_info.ALL_LIBRARIES.items():
        libraries = listed.get(entry.package_name, [])
        if not entry.pattern or not any(entry.matches(library.path) for library in libraries):
            absent.append(name)
            continue
        try:
            found += [name for _ in find_libraries(name)]
        except (ImportError, OSError) as error:
            report.fail(name, str(error))
    if found:
        report.ok("rocm_sdk.find_libraries", f"finds {len(found)}: {', '.join(found)}")
    if absent:
        report.note(f"not in the installed packages: {', '.join(absent)}")
