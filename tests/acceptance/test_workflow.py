"""The generated workflow, job by job as GitHub would run it: the shell of its steps with the real
rocwheel, and wheels that go from one job to the next as artifacts do. The frameworks are stand-ins
made in test_build_all.py."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from test_build_all import git, options, world  # noqa: F401
from workflows import run_step

from command import Result, Rocwheel, with_uv
from packages import metadata
from trees import put

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PLAN = ("plan", "Find out what is to be built")
BUILD = ("build-1-1", "Build")


@pytest.fixture(scope="module")
def workflow(rocwheel: Rocwheel) -> str:
    return rocwheel.run("matrix", "--format", "workflow").stdout


def plan(
    workflow: str, rocwheel: Rocwheel, folder: Path, expect: int = 0, **inputs: str
) -> tuple[Result, dict[str, str]]:
    """What the first job says, and its outputs."""
    names = ("VERSIONS", "BACKENDS", "ROCM", "TORCH", "PYTHON", "WHEELS", "TARGETS", "SDK", "GITHUB_REF_TYPE")
    given = dict.fromkeys(names, "") | {"PLATFORMS": "linux", "RUNNER": "usual", "RUNNERS": "{}", "IS_UPLOAD": "true"}
    given |= {"GITHUB_OUTPUT": str(folder / "outputs"), **inputs}
    given["PATH"] = f"{rocwheel.binary.parent}:{with_uv()['PATH']}"
    (folder / "outputs").write_text("")
    said = run_step(workflow, PLAN, given, folder, expect=expect)
    return said, dict(line.split("=", 1) for line in (folder / "outputs").read_text().splitlines())


def jobs_of(outputs: dict[str, str], stage: int) -> list[dict]:
    parts = [outputs[f"matrix-{stage}-{part}"] for part in range(1, 5)]
    return [job for part in parts if part for job in json.loads(part)["include"]]


def test_wheels_go_from_triton_to_torch_to_torchvision(
    rocwheel: Rocwheel,
    workflow: str,
    world: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    git(world / "origins/vision", "tag", "v0.24.1")
    inputs = {"RECIPES": "torchvision torch\ntriton", "ROCM": "7.2", "TORCH": "2.9", "PYTHON": PYTHON}
    inputs |= {"TARGETS": "gfx942", "RUNNERS": '{"gfx942": ["self-hosted", "mi300"]}'}
    _, outputs = plan(workflow, rocwheel, tmp_path, **inputs)
    assert (outputs["count"], outputs["windows"]) == ("3", "false")
    stages = [jobs_of(outputs, stage) for stage in (1, 2, 3)]
    assert [[job["recipe"] for job in jobs] for jobs in stages] == [["triton"], ["torch"], ["torchvision"]]
    assert all(job["runner"] == ["self-hosted", "mi300"] for jobs in stages for job in jobs)
    artifacts: dict[str, Path] = {}

    def build(job: dict, given: dict[str, Path], expect: int = 0) -> Result:
        place = tmp_path / job["name"]
        # `pattern` of actions/download-artifact; v4 gives one that is alone a folder too, others
        # may not.
        pattern = re.escape(job.get("pattern", "")).replace(r"\{", "(").replace(r"\}", ")").replace(",", "|")
        names = [name for name in given if re.fullmatch(pattern, name)]
        for name in names:
            target = place / "rocwheel-needs" / ("" if len(names) == 1 and job["recipe"] == "torch" else name)
            shutil.copytree(given[name], target, dirs_exist_ok=True)
        place.mkdir(exist_ok=True)
        variables = {"RECIPE": "recipe", "VERSION": "version", "BACKEND": "backend", "ROCM": "rocm", "TORCH": "torch"}
        variables |= {"PYTHON": "python", "SOURCE": "source", "LINE": "line", "REFERENCE": "ref", "NEEDS": "needs"}
        variables |= {"WITH": "with", "TARGETS": "targets"}
        environment = {name: job.get(key, "") for name, key in variables.items()}
        environment |= {
            "SDK": f"prefix={world / 'rocm'}",
            "EXECUTOR": "here",
            "IMAGE": "",
            "WHEELS": "",
            "LIMIT": "30m",
        }
        environment |= {"OPTIONS": f"--source-table {world / 'sources.toml'} --no-preflight"}
        environment |= {"FOLDER": str(tmp_path / "work"), "GITHUB_OUTPUT": str(place / "outputs")}
        environment["PATH"] = f"{rocwheel.binary.parent}:{with_uv()['PATH']}"
        return run_step(workflow, BUILD, environment, place, expect=expect)

    # What was not built ends a job before it does anything.
    build(stages[1][0], {}, expect=1).prints(f"::error::{stages[0][0]['name']} was not built, and this needs its wheel")
    for (job,) in stages:
        build(job, artifacts)
        place = tmp_path / job["name"]
        assert (place / "outputs").read_text().splitlines()[-1] == "stopped=false"
        shutil.rmtree(place / "dist/.rocwheel", ignore_errors=True)
        artifacts[f"wheel-{job['name']}"] = place / "dist"
    triton, torch, vision = (next(dist.glob("*.whl")) for dist in artifacts.values())
    assert [wheel.name.split("-")[0] for wheel in (triton, torch, vision)] == ["triton", "torch", "torchvision"]
    assert "Requires-Dist: triton==3.5.0+rocm7.2.0" in metadata(torch)
    # The torch that torchvision was built with is the one of the other job, to the byte.
    stated = json.loads((vision.parent / f"{vision.name}.provenance.json").read_text())
    given = {one["name"] for one in stated["predicate"]["buildDefinition"]["resolvedDependencies"] if "name" in one}
    assert {torch.name, triton.name} <= given, given


def test_the_plan_of_a_workflow_refuses_what_would_fail_at_its_end(
    rocwheel: Rocwheel, workflow: str, tmp_path: Path
) -> None:
    torch = {"RECIPES": "torch torchvision", "ROCM": "7.2", "TORCH": "2.11", "PYTHON": "3.12"}
    both = {**torch, "PLATFORMS": "linux,windows"}
    said, _ = plan(workflow, rocwheel, tmp_path, expect=1, **both)
    assert "::error::no image brings ROCm on Windows" in said.stdout
    _, outputs = plan(workflow, rocwheel, tmp_path, **both, SDK="index=https://example.org/gfx1151")
    assert (outputs["count"], outputs["windows"]) == ("4", "true")
    assert [(job["platform"], job["runner"]) for job in jobs_of(outputs, 1)] == [
        ("linux", "usual"),
        ("windows", "windows-2022"),
    ]
    assert jobs_of(outputs, 3) == []
    # Several sets of GPU targets are several jobs, but one release has one wheel of a name.
    sets = {**torch, "TARGETS": "gfx942 gfx1100,gfx1101", "RUNNERS": '{"gfx1100,gfx1101": "navi"}'}
    _, outputs = plan(workflow, rocwheel, tmp_path, **sets)
    assert [(job["targets"], job["runner"]) for job in jobs_of(outputs, 1)] == [
        ("gfx942", "usual"),
        ("gfx1100,gfx1101", "navi"),
    ]
    said, _ = plan(workflow, rocwheel, tmp_path, expect=1, **sets, GITHUB_REF_TYPE="tag")
    assert "wheels for several sets of gpu-targets have the same names" in said.stdout
    plan(workflow, rocwheel, tmp_path, **sets, GITHUB_REF_TYPE="tag", IS_UPLOAD="false")
    for inputs, words in (
        ({"RUNNERS": '{"gfx942": ""}'}, "neither a label nor a list"),
        ({"RUNNERS": "gfx942"}, "`--runners` is no table of labels"),
        ({"RUNNERS": '{"gfx942": "mi300"}'}, "`gfx942`, which no cell is"),
        ({"TARGETS": "gfx942 gfx94X-all"}, "are the same GPU targets"),
        ({"TARGETS": "gfx9999"}, "gfx9999"),
    ):
        said, _ = plan(workflow, rocwheel, tmp_path, expect=2, **{**torch, **inputs})
        assert words in said.stderr, said


def test_a_release_loses_no_wheel_of_two_with_one_name(rocwheel: Rocwheel, workflow: str, tmp_path: Path) -> None:
    """Two jobs may make wheels of one name (triton for two versions of torch): each comes in a
    folder of its own, and the upload stops before it takes either."""
    assert "merge-multiple" not in workflow
    dist = tmp_path / "dist"
    name = "triton-3.5.0-cp312-cp312-linux_x86_64.whl"
    for job, text in (("wheel-triton-torch2.9", "one"), ("wheel-triton-torch2.10", "another")):
        put(dist / job / name, text)
    environment = {"RUNNER_TEMP": str(tmp_path), "TAG": "v1", "REPOSITORY": "owner/name", "GH_TOKEN": "none"}
    environment |= {"GITHUB_OUTPUT": str(tmp_path / "outputs"), "PATH": f"{rocwheel.binary.parent}:{with_uv()['PATH']}"}
    said = run_step(workflow, ("release", "Upload to the release"), environment, tmp_path, expect=2)
    assert "have one name and different contents" in said.stderr, said


def test_the_cells_of_a_matrix_are_built_for_two_versions_of_torch(
    rocwheel: Rocwheel,
    world: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    """`build torch torchvision --matrix` for real: each torch from its own branch, each torchvision
    with its own torch."""
    vision, torch = world / "origins/vision", world / "origins/pytorch"
    (vision / "version.txt").write_text("0.26.0\n")
    git(vision, "commit", "--quiet", "--all", "--message", "for 2.11")
    newer = git(vision, "rev-parse", "HEAD")
    git(torch, "checkout", "--quiet", "-b", "release/2.11")
    (torch / "version.txt").write_text("2.11.0\n")
    pins = json.loads((world / "pins.json").read_text())
    related = (torch / "related_commits").read_text().replace(pins["torchvision"], newer)
    (torch / "related_commits").write_text(related)
    git(torch, "commit", "--quiet", "--all", "--message", "2.11")
    git(torch, "checkout", "--quiet", "release/2.9")
    command = ["build", "torch", "torchvision", "--matrix", "--torch", "2.9,2.11", "--rocm", "7.2", "--python", PYTHON]
    command += ["--feature", "flash-attention=off", *options(world, tmp_path / "out")]
    rocwheel.run(*command, "--dry-run", environment=with_uv()).says("would build 4 of 4 cells")
    rocwheel.run(*command, environment=with_uv())
    wheels = {"-".join(path.name.split("-")[:2]): path for path in (tmp_path / "out").glob("*.whl")}
    assert sorted(wheels) == [
        "torch-2.11.0+rocm7.2.0",
        "torch-2.9.1+rocm7.2.0",
        "torchvision-0.24.0a0+rocm7.2.0",
        "torchvision-0.26.0+rocm7.2.0",
    ]
    for built, of in (("0.24.0a0", "2.9.1"), ("0.26.0", "2.11.0")):
        wheel = wheels[f"torchvision-{built}+rocm7.2.0"]
        stated = json.loads((wheel.parent / f"{wheel.name}.provenance.json").read_text())
        sources, *others = stated["predicate"]["buildDefinition"]["resolvedDependencies"]
        assert sources["digest"]["gitCommit"] == (newer if built == "0.26.0" else pins["torchvision"])
        assert [one["name"] for one in others if one.get("name", "").startswith("torch-")] == [
            wheels[f"torch-{of}+rocm7.2.0"].name
        ]
    # A second run leaves everything as it is.
    stamps = {path: path.stat().st_mtime_ns for path in wheels.values()}
    assert rocwheel.run(*command, environment=with_uv()).stderr.count("4 cells: 4 built") == 1
    assert {path: path.stat().st_mtime_ns for path in wheels.values()} == stamps


def test_what_was_built_is_tested_on_machines_with_gpus(rocwheel: Rocwheel, workflow: str, tmp_path: Path) -> None:
    """The plan names a machine for each target, and the last job fails for a target without
    results."""
    inputs = {"RECIPES": "flash-attn", "ROCM": "7.2", "TORCH": "2.9", "PYTHON": PYTHON}
    machines = {"gfx942": ["self-hosted", "mi300"], "gfx1100": "navi"}
    _, outputs = plan(workflow, rocwheel, tmp_path, **inputs, TEST_RUNNERS=json.dumps(machines))
    tests = json.loads(outputs["tests"])["include"]
    assert sorted(tests, key=lambda row: row["target"]) == [
        {"target": "gfx1100", "runner": "navi"},
        {"target": "gfx942", "runner": ["self-hosted", "mi300"]},
    ]
    _, outputs = plan(workflow, rocwheel, tmp_path, **inputs, TEST_RUNNERS="{}")
    assert outputs["tests"] == ""
    refused, _ = plan(workflow, rocwheel, tmp_path, expect=2, **inputs, TEST_RUNNERS='{"gfx94X-dcgpu": "x"}')
    assert "not one GPU target" in refused.stderr
    # The report, with a Python that installs nothing.
    folder = tmp_path / "temp"
    (folder / "tool").mkdir(parents=True)
    (folder / "tool/rocwheel-1.whl").write_bytes(b"")
    stub = folder / "bin/python"
    put(stub, f'#!/bin/sh\n[ "$2" = pip ] || exec {sys.executable} "$@"\n', 0o755)
    facts = {"run": "a", "suite": "smoke", "shard": 1, "shards": 1, "started": "2026-11-23T12:00:00Z", "rocwheel": "0"}
    events = [
        {"event": "run", **facts, "wheels": {"torch-2.9-py3-none-any.whl": "0" * 64}},
        {"event": "collected", "ids": ["t"]},
        {"event": "attempt", "id": "t", "attempt": 1, "outcome": "passed"},
        {"event": "end", "finished": "2026-11-23T12:01:00Z", "complete": True},
    ]
    given = {"RUNNER_TEMP": str(folder), "TESTS": json.dumps({"include": [{"target": "gfx942", "runner": "x"}]})}
    given["PATH"] = f"{stub.parent}:{rocwheel.binary.parent}:{with_uv()['PATH']}"
    run_step(workflow, ("report", "Report"), given, tmp_path, expect=1)
    results = folder / "results/test-gfx942/a"
    put(results / "events.jsonl", "".join(json.dumps(event) + "\n" for event in events))
    run_step(workflow, ("report", "Report"), given, tmp_path)
    made = {path.name for path in (folder / "report").iterdir()}
    assert made == {"gfx942.html", "gfx942.xml", "gfx942.intoto.json"}
    # Nothing is released that did not pass.
    assert "needs.report.result == 'success'" in workflow
