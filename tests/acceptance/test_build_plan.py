"""Builds of many cells: as a plan on this machine, killed and continued, and on a real Slurm of
three nodes, one of which loses its power on the way."""

import json
import os
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest
import small_frameworks
from cluster import Cluster
from workflows import job as workflows_job
from workflows import run_step

from command import Rocwheel, run, with_uv
from trees import put

ROCM = ["7.1", "7.2"]

TORCH = ["2.9", "2.10", "2.11"]

CALLER = """
on: push
jobs:
  wheels:
    permissions:
      contents: write
    uses: ./.github/workflows/build-wheels.yml
    with:
      recipes: flash-attn
      rocm: "7.2"
  old:
    permissions:
      contents: write
    uses: ./.github/workflows/build-wheels.yml
    with:
      flash-attn-version: "2.8.3"
      python-version: "3.11"
      torch-version: "2.6.0"
      rocm-version: "6.2"
      build-triton-backend: true
      runner: ubuntu-22.04
      is-upload: false
  after:
    needs: wheels
    runs-on: ubuntu-latest
    steps:
      - run: echo "${{ needs.wheels.outputs.count }} cells"
"""


def cells(rocwheel: Rocwheel, output: Path, expect: int, environment: dict[str, str]) -> dict[str, dict]:
    """How all cells stand, by their names."""
    said = rocwheel.run("build", "status", output, "--json", expect=expect, environment=environment)
    return {cell["cell"]: cell for cell in json.loads(said.stdout)["cells"]}


def wheels(output: Path) -> set[str]:
    return {path.name for path in output.glob("*.whl")}


def test_a_killed_matrix_goes_on(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """SIGKILL in the middle: what is built stays as it is, the rest is built, and what fails does
    not hold up the others."""
    failing = {("7.2", "2.9")}
    small_frameworks.write(tmp_path, ROCM, failing, seconds=0.5)
    command = small_frameworks.options(tmp_path, ROCM, TORCH[:2])
    process = rocwheel.start(*command, env={**os.environ, **with_uv()})
    end = time.monotonic() + 120
    while not wheels(tmp_path / "out") and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in wheels(tmp_path / "out")}
    assert before and len(before) < 6, before
    seen = cells(rocwheel, tmp_path / "out", 3, with_uv())
    assert Counter(cell["state"] for cell in seen.values()).keys() <= {"built", "lost", "waiting"}, seen
    said = rocwheel.run(*command, expect=1, environment=with_uv())
    assert wheels(tmp_path / "out") == small_frameworks.names(ROCM, TORCH[:2], failing)
    for name, modified in before.items():
        assert (tmp_path / "out" / name).stat().st_mtime_ns == modified, f"{name} was built again"
    seen = cells(rocwheel, tmp_path / "out", 1, with_uv())
    states = {name: cell["state"] for name, cell in seen.items() if cell["state"] not in ("built", "unchanged")}
    assert states == {"base-1.0-rocm7.2-torch2.9": "failed", "top-1.0-rocm7.2-torch2.9": "left out"}
    assert "memory ran out" in seen["base-1.0-rocm7.2-torch2.9"]["cause"]
    assert "memory ran out" in said.stdout and "left out" in said.stdout
    assert sum(cell["starts"] for cell in seen.values()) <= 9, "the killed cell alone starts twice"
    logs = rocwheel.run("build", "logs", tmp_path / "out", environment=with_uv()).stdout
    assert "Killed signal terminated program cc1plus" in logs
    for wheel in (tmp_path / "out").glob("*.whl"):
        small_frameworks.check(wheel)


def test_a_kill_between_the_result_and_its_record(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """The next run records the result that is there, and does not write it again."""
    small_frameworks.write(tmp_path, ROCM[:1], set())
    command = small_frameworks.options(tmp_path, ROCM[:1], TORCH[:1])
    rocwheel.run(*command, environment=with_uv())
    modified = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.whl")}
    states = [path for path in tmp_path.rglob("state.json") if '"is_published": true' in path.read_text()]
    assert len(states) == len(modified) == 2
    for path in states:
        record = json.loads(path.read_text())
        made = path.parent / "made"
        made.mkdir()
        for output in record["outputs"]:
            shutil.copy(tmp_path / "out" / output["path"], made)
        del record["done"]["publish"]
        path.write_text(json.dumps({**record, "is_published": False}))
    rocwheel.run(*command, environment=with_uv())
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.whl")} == modified
    assert all('"is_published": true' in path.read_text() for path in states)


def test_twelve_cells_on_slurm(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Two kinds, the second cell by cell after the first, in four arrays, as Slurm takes five tasks
    in one. What fails keeps back only what waits for it.
    """
    failing = {("7.2", "2.10")}
    small_frameworks.write(tmp_path, ROCM, failing)
    command = small_frameworks.options(tmp_path, ROCM, TORCH)
    with Cluster(tmp_path / "cluster", most_tasks=5) as cluster:
        environment = with_uv(**cluster.environment)
        on_slurm = [*command, "--executor", "slurm"]
        refused = rocwheel.run(*on_slurm, "--sbatch-option=--partition=none", expect=1, environment=environment)
        assert "sbatch says:" in refused.stderr and "invalid partition specified: none" in refused.stderr
        assert "hint: `sinfo` lists the partitions" in refused.stderr
        assert not cluster.ask("squeue", "--noheader").strip()
        rocwheel.run(*on_slurm, "--wait", expect=1, environment=environment)
        (plan,) = (tmp_path / "out/.rocwheel/plans").iterdir()
        sizes = [len(array["cells"]) for array in json.loads((plan / "slurm/submitted.json").read_text())["arrays"]]
        assert sizes == [5, 1, 5, 1]
        assert wheels(tmp_path / "out") == small_frameworks.names(ROCM, TORCH, failing)
        seen = cells(rocwheel, tmp_path / "out", 1, environment)
        assert len(seen) == 12
        assert {cell["host"] for cell in seen.values() if cell["state"] == "built"} == {"n1", "n2", "n3"}
        states = Counter(cell["state"] for cell in seen.values())
        assert states["built"] == 10 and states["failed"] == 1, seen
        assert all(cell["starts"] == 1 for cell in seen.values() if cell["state"] == "built")
        # What is built is not submitted again; what failed is, and can be taken off.
        rocwheel.run(*on_slurm, "--sbatch-option=--hold", environment=environment).says("submitted 2 cells")
        assert "JobHeldUser" in str(cells(rocwheel, tmp_path / "out", 3, environment))
        rocwheel.run(*on_slurm, environment=environment).says("there is nothing to submit")
        assert "cancelled 2 cells" in rocwheel.run("build", "cancel", tmp_path / "out", environment=environment).stderr
        cluster.wait(lambda: not cluster.ask("squeue", "--noheader").strip(), "the queue was not empty")
    for wheel in (tmp_path / "out").glob("*.whl"):
        small_frameworks.check(wheel)
    # Without the cluster the plan's folder still says what became of the cells.
    alone = rocwheel.run("build", "status", tmp_path / "out", expect=1, environment=environment)
    assert "what follows is what the plan's folder says" in alone.stderr and "10 built" in alone.stderr


def test_the_workflow_is_one_that_github_takes(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """The reusable workflow, and one that calls it, as actionlint and shellcheck see them, and the
    matrices it gets."""
    workflows = tmp_path / ".github/workflows"
    workflows.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    workflow = rocwheel.run("matrix", "--format", "workflow").stdout
    (workflows / "build-wheels.yml").write_text(workflow)
    (workflows / "caller.yml").write_text(CALLER)
    axes = ("--rocm", "6.1,6.2", "--torch", "2.5.1,2.6.0", "--python", "3.10,3.11,3.12")
    call = rocwheel.run("matrix", "flash-attn", *axes, "--format", "release-workflow").stdout
    (workflows / "release.yml").write_text(call)
    found = run(Path(sys.prefix) / "bin/actionlint", "-no-color", cwd=tmp_path)
    assert not found.stdout.strip(), found.stdout
    assert 'python: "3.10,3.11,3.12"' in call and "contents: write" in call and 'rocwheel: "."' in call
    # Only the job that releases may write, and it runs for tags alone.
    assert workflow.count("contents: write\n    steps") == 1 and "contents: write" in workflows_job(workflow, "release")
    assert "github.ref_type == 'tag'" in workflow and "inputs.is-upload" in workflow
    # What a round has left: stopped cells of every attempt, without those whose wheels have come
    # since.
    assert "run_attempt }}-*" not in workflow
    gather = workflow[workflow.index("  rest-1-1:") :].split("        run: |\n")[1].split("\n\n")[0]
    for mark, names in (("cell.json", ("one", "two")), ("done.json", ("one",))):
        for name in names:
            place = tmp_path / "marks" / f"{mark}-{name}"
            put(place / mark, json.dumps({"name": name}))
    left = tmp_path / "left"
    run(sys.executable, "-c", dedent(gather), cwd=tmp_path, environment={"GITHUB_OUTPUT": str(left)})
    assert left.read_text() == 'count=1\nmatrix={"include": [{"name": "two"}]}\n'
    output = tmp_path / "output"
    arguments = ("matrix", "flash-attn", "--framework-version", "2.8.3", "--format", "github", "--stages", "3")
    arguments += ("--parts", "4")
    rocwheel.run(*arguments, environment={"GITHUB_OUTPUT": str(output)})
    outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
    parts = [json.loads(text)["include"] for text in (outputs[f"matrix-1-{part}"] for part in range(1, 5)) if text]
    assert sum(map(len, parts)) == int(outputs["count"]) > 0 and all(len(part) <= 256 for part in parts)
    assert not any(outputs[f"matrix-{stage}-1"] for stage in (2, 3)), "flash-attn needs no other cell"
    assert {"name", "recipe", "version", "backend", "rocm", "torch"} <= parts[0][0].keys()
    names = [cell["name"] for part in parts for cell in part]
    assert len(set(names)) == len(names), "artifacts of two cells would have one name"


def test_the_steps_of_the_workflow(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """What a job types: cells that need ROCm in a container, others on the machine, and rocwheel
    from its own repository."""
    workflow = rocwheel.run("matrix", "--format", "workflow").stdout
    (tmp_path / "bin").mkdir()
    put(tmp_path / "bin/rocwheel", '#!/bin/sh\necho "$@"\n', 0o755)
    empty = ("SOURCE", "LINE", "REFERENCE", "SDK", "OPTIONS", "IMAGE", "NEEDS", "WITH", "WHEELS", "TARGETS")
    given = dict.fromkeys(empty, "")
    given |= {"RECIPE": "flash-attn", "VERSION": "2.8.3", "BACKEND": "ck", "ROCM": "6.2", "TORCH": "2.5.1"}
    given |= {"PYTHON": "3.11", "LIMIT": "330m", "FOLDER": "work", "SOURCE": "2.8.3", "EXECUTOR": "docker"}
    given |= {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "GITHUB_OUTPUT": str(tmp_path / "output")}

    def built(**more: str) -> str:
        return run_step(workflow, ("build-1-1", "Build"), {**given, **more}, tmp_path).stdout.strip()

    cell = "build flash-attn --backend ck --rocm 6.2 --source 2.8.3 --torch 2.5.1 --python 3.11"
    after = "--output dist --work work/jobs --time-limit 330m"
    assert built() == f"{cell} --executor docker --pull missing {after}"
    assert built(IMAGE="mine:1") == f"{cell} --executor docker --pull missing --image mine:1 {after}"
    assert built(EXECUTOR="here") == f"{cell} {after}"
    assert (tmp_path / "output").read_text() == "stopped=false\n" * 3
    # The line as it was printed is one that rocwheel takes.
    dry = [*cell.split(), "--executor", "docker", "--pull", "missing", *after.split(), "--dry-run"]
    assert "check `import`" in rocwheel.run(*dry).stdout
    cells = json.loads(rocwheel.run("matrix", "flash-attn", "--rocm", "6.2", "--format", "github").stdout)["include"]
    assert {(cell["backend"], cell["sdk"]) for cell in cells} == {("ck", True), ("triton", False)}
    # Another repository is not rocwheel's.
    place = ("plan", "Make rocwheel")
    said = run_step(workflow, place, {"ROCWHEEL": ".", "RUNNER_TEMP": str(tmp_path)}, tmp_path, expect=1).stdout
    assert "::error::this repository is not rocwheel's" in said


def test_a_script_for_sbatch_runs_every_cell(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """`matrix --format slurm` without a cluster: each task calls rocwheel with its own cell."""
    base = (
        *("matrix", "flash-attn", "--rocm", "7.1,7.2", "--torch", "2.11", "--python", "3.12"),
        *("--framework-version", "2.8.3"),
    )
    script = tmp_path / "cells.sh"
    script.write_text(rocwheel.run(*base, "--format", "slurm").stdout)
    run("shellcheck", script)
    (tmp_path / "bin").mkdir()
    put(tmp_path / "bin/rocwheel", '#!/bin/sh\necho "$@"\n', 0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    said = [
        run(
            "bash", script, "--output", "out", environment={"PATH": path, "SLURM_ARRAY_TASK_ID": str(task)}
        ).stdout.strip()
        for task in range(4)
    ]
    cell = "--backend ck --rocm 7.1 --torch 2.11 --python 3.12 --source 2.8.3"
    assert said[0] == f"build flash-attn {cell} --executor here --jobs 1 --output out"
    assert len(set(said)) == 4
    sources = {"PATH": path, "SLURM_ARRAY_TASK_ID": "0", "SOURCE": "src/{version}"}
    assert "--source src/2.8.3 " in run("bash", script, environment=sources).stdout
    said = run("bash", script, "--executor", "podman", environment={**sources, "EXECUTOR": "docker"}).stdout
    assert said.count("--executor") == 1 and "--executor podman" in said, said
    # torch has no release but a line, and MAGMA is a commit.
    for recipe, option in (("torch", "--line 2.11"), ("magma", "--ref a68b9257ac435afa1ebdfb8f50d67668950aef61")):
        version = () if recipe == "magma" else ("--framework-version", "2.11")
        cells = ("matrix", recipe, *version, "--rocm", "7.2", "--format", "slurm")
        script.write_text(rocwheel.run(*cells).stdout)
        said = run("bash", script, environment={"PATH": path, "SLURM_ARRAY_TASK_ID": "0"}).stdout
        assert f"{option} --executor here" in said and "--source" not in said, said


SIX_ROCM = ["6.2", "6.3", "6.4", "7.0", "7.1", "7.2"]

FIVE_TORCH = ["2.7", "2.8", "2.9", "2.10", "2.11"]

FAILING = {("6.3", "2.9"), ("7.2", "2.11")}


@pytest.mark.long
def test_sixty_cells_with_a_node_killed(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Every cell is built but those that fail by design; only the killed node's cells start twice;
    nothing is built twice."""
    small_frameworks.write(tmp_path, SIX_ROCM, FAILING, seconds=2)
    command = small_frameworks.options(tmp_path, SIX_ROCM, FIVE_TORCH)
    with Cluster(tmp_path / "cluster") as cluster:
        environment = with_uv(**cluster.environment)
        process = rocwheel.start(*command, "--executor", "slurm", "--wait", env={**os.environ, **environment})

        def running_on(node: str) -> set[str]:
            lines = cluster.ask("squeue", "--noheader", "--states=running", "--format=%i|%N").splitlines()
            return {line.split("|")[0] for line in lines if line.endswith(f"|{node}")}

        def has_begun(record: Path) -> bool:
            """Whether a cell began on the node within the last second: it takes two."""
            attempts = json.loads(record.read_text())["attempts"]
            is_open = bool(attempts) and attempts[-1]["host"] == "n2" and "end" not in attempts[-1]
            return is_open and time.time() - record.stat().st_mtime < 1

        # In the middle of the first array, with something on the node: what Slurm calls running may
        # have ended on a busy machine.
        def is_time() -> bool:
            records = tmp_path.glob("out/.rocwheel/plans/*/state/*.json")
            return len(wheels(tmp_path / "out")) >= 8 and bool(running_on("n2")) and any(map(has_begun, records))

        # Nothing comes between the last look and the power cut: on a busy machine the cell would
        # end meanwhile.
        cluster.wait(is_time, "nothing was built", 600)
        cluster.kill_node("n2")
        began = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.whl")}
        said, errors = process.communicate(timeout=1500)
        assert process.returncode == 1, errors[-4000:]
        assert wheels(tmp_path / "out") == small_frameworks.names(SIX_ROCM, FIVE_TORCH, FAILING)
        assert len(wheels(tmp_path / "out")) == 56
        seen = cells(rocwheel, tmp_path / "out", 1, environment)
        assert len(seen) == 60
        states = Counter(cell["state"] for cell in seen.values())
        assert (states["built"] + states["unchanged"], states["failed"]) == (56, 2), states
        twice = {name for name, cell in seen.items() if cell["starts"] > 1}
        assert 1 <= len(twice) <= cluster.cpus, twice
        assert all(cell["starts"] <= 2 for cell in seen.values())
        # What was there when the power went is as it was.
        for name, modified in began.items():
            assert (tmp_path / "out" / name).stat().st_mtime_ns == modified, f"{name} was built again"
        places = Counter(cell["host"] for cell in seen.values() if cell["starts"])
        assert places["n1"] and places["n3"], places
        node = cluster.ask("sinfo", "--noheader", "--nodes=n2", "--format=%t").strip()
        assert node.startswith("down"), node
    for wheel in (tmp_path / "out").glob("*.whl"):
        small_frameworks.check(wheel)
