"""The project's own workflows, as actionlint and shellcheck see it, and the step that compares."""

import subprocess
import sys
from pathlib import Path

from test_data import checkout
from workflows import run_step

from command import REPOSITORY, Rocwheel, run

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


def test_rows_of_open_changes_are_collected(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Of a repository with changes as GitHub has them, those count that touch what is compared."""
    origin = checkout(tmp_path / "origin")
    target = 'therock_add_amdgpu_target(gfx1300 "New" FAMILY dgpu-all gfx130X-all)\n'
    file = origin / "cmake/therock_amdgpu_targets.cmake"

    def git(*words: object) -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@b")
        return run("git", "-C", origin, *names, *words).stdout.strip()

    def change(number: int, path: Path, text: str) -> None:
        with path.open("a") as opened:
            opened.write(text)
        git("add", ".")
        git("commit", "-qm", f"{number}")
        git("update-ref", f"refs/pull/{number}/merge", "HEAD")
        git("reset", "-q", "--hard", "HEAD~")

    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "main")
    git("config", "uploadpack.allowFilter", "true")
    git("config", "uploadpack.allowAnySHA1InWant", "true")
    change(1, file, target.replace("gfx1300", "gfx1400"))
    change(2, origin / "readme.md", "x\n")
    trees = tmp_path / "trees"
    run(REPOSITORY / "scripts/fetch-open-changes", trees, f"file://{origin}")
    assert sorted(path.name for path in trees.iterdir()) == ["1", "main"]
    program = tmp_path / "target/release/rocwheel"
    program.parent.mkdir(parents=True)
    program.symlink_to(rocwheel.binary)
    step = ("open-changes", "Compare the tables with all of them")
    output = tmp_path / "output"
    variables = {"RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(output)}
    run_step(WORKFLOW.read_text(), step, variables, tmp_path)
    rows = (tmp_path / "rows.toml").read_text()
    assert rows.count('name = "gfx1300"') == 1 and rows.count('name = "gfx1400"') == 1
    assert output.read_text() == "missing=true\n"
    # A change that moves what is looked for is an error, and not a week without rows.
    (trees / "1/cmake/therock_amdgpu_targets.cmake").write_text("# moved\n")
    run_step(WORKFLOW.read_text(), step, variables, tmp_path, expect=1)
