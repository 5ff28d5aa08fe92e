"""`rocwheel doctor` on this machine, whichever it is: no GPU is needed."""

import json
import subprocess
import sys
from pathlib import Path

from command import Rocwheel
from environment import create_venv


def names_of(report: dict) -> set[str]:
    return {finding["name"] for finding in report["findings"]}


def test_this_machine_is_looked_at(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """No GPU is needed for the test: whatever this machine has, the report is whole, and nothing
    was written."""
    command = [rocwheel.binary, "--json", "doctor", "--python", sys.executable]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    report = json.loads(finished.stdout)
    assert report["python"]["count"] > 5 and report["verdict"], report
    assert finished.returncode == (1 if report["counts"]["errors"] + report["counts"]["unknown"] else 0)
    assert not list(tmp_path.iterdir())


def test_the_python_on_the_path_is_looked_at(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """In images of containers no environment is active."""

    def findings(path: Path) -> tuple[set[str], dict]:
        environment = {"PATH": str(path), "VIRTUAL_ENV": "", "CONDA_PREFIX": ""}
        report = json.loads(rocwheel.run("--json", "doctor", environment=environment, cwd=tmp_path).stdout)
        return names_of(report), report

    create_venv(tmp_path / "image")
    names, report = findings(tmp_path / "image" / "bin")
    assert "no-python" not in names
    assert report["python"]["path"].startswith(str(tmp_path / "image"))
    # pyenv puts scripts on the path, which choose a Python when they are started.
    scripts = tmp_path / "shims"
    scripts.mkdir()
    (scripts / "python3").write_text("#!/bin/sh\nexit 1\n")
    (scripts / "python3").chmod(0o755)
    assert "no-python" in findings(scripts)[0]
