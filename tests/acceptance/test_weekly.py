"""The project's own workflows, as actionlint and shellcheck see it, and the step that compares."""

import subprocess
import sys
from pathlib import Path

from workflows import run_step

from command import Rocwheel, run

REPOSITORY = Path(__file__).resolve().parents[2]
WORKFLOW = REPOSITORY / ".github/workflows/weekly.yml"


def test_github_takes_the_workflows(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    folder = tmp_path / ".github/workflows"
    folder.mkdir(parents=True)
    workflows = list(WORKFLOW.parent.glob("*.yml"))
    assert {"weekly.yml", "windows.yml"} <= {path.name for path in workflows}
    for workflow in workflows:
        (folder / workflow.name).write_text(workflow.read_text())
    found = run(Path(sys.prefix) / "bin/actionlint", "-no-color", cwd=tmp_path)
    assert not found.stdout.strip(), found.stdout


def test_a_new_package_fails_the_job_with_its_row(rocwheel: Rocwheel, tmp_path: Path) -> None:
    tree = tmp_path / "debs/librocnew1"
    for path, text in {
        "usr/lib/x86_64-linux-gnu/librocnew.so.1": "x",
        "DEBIAN/control": "Package: librocnew1\nVersion: 9-1\nArchitecture: amd64\n"
        "Maintainer: Debian ROCm Team <a@b>\nDescription: x\n",
    }.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    subprocess.run(["dpkg-deb", "--build", tree, tree.parent], check=True, capture_output=True)
    program = tmp_path / "target/release/rocwheel"
    program.parent.mkdir(parents=True)
    program.symlink_to(rocwheel.binary)
    step = ("drift", "Compare the tables with them")
    run_step(WORKFLOW.read_text(), step, {"RUNNER_TEMP": str(tmp_path)}, tmp_path, expect=1)
    assert 'soname = "librocnew.so"' in (tmp_path / "rows.toml").read_text()
