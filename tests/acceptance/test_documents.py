"""The command lines of `data/documents.toml`: what other documents print, with a script's name
after `rocwheel compat`, and the same in rocwheel's own words. Both run, and both do the same.

The repositories are small ones that are made here; the addresses of the documents lead to them by
git's own settings. The index with ROCm's packages is a folder on a port of this machine.
"""

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import therock
from serving import served
from test_build_all import git, rocm_packages, world  # noqa: F401
from test_repair import hip, rocm  # noqa: F401

from command import REPOSITORY, UV, Result, Rocwheel, run, with_uv
from trees import snapshot

TABLE = tomllib.loads((REPOSITORY / "data/documents.toml").read_text())
COMMANDS = [command for document in TABLE["document"] for command in document["command"]]
RUN = [command for command in COMMANDS if command.get("test") in ("plan", "result", "run")]
INDEX = "https://rocm.nightlies.amd.com"
# Variables that the documents set for themselves.
OWN_VARIABLES = {"RUN_ID", "ARTIFACT_GROUP", "ARTIFACTS_DIR", "PACKAGES_DIR", "PATH"}
# Places of the documents with the artifacts of a ROCm.
ARTIFACTS = (
    "home/.therock/17123441166/artifacts",
    "build/artifacts",
    "output-linux-portable/build/artifacts",
    "artifacts",
    "artifacts/artifacts",
)


def name_of(command: dict) -> str:
    return command["theirs"].strip().partition("\n")[0]


@dataclass(frozen=True)
class Place:
    """A folder as the documents expect it, and the variables of somebody who works there."""

    folder: Path
    environment: dict[str, str]

    def shell(self, line: str, expect: int = 0) -> Result:
        return run("bash", "-euc", line, cwd=self.folder, expect=expect, environment=self.environment)

    def said(self, line: str) -> str:
        """What a command line prints, without the line that names the command behind it, and
        wherever it runs."""
        result = self.shell(line)
        lines = [text for text in f"{result.stdout}\n{result.stderr}".splitlines() if not text.startswith("runs `")]
        return "\n".join(lines).replace(str(self.folder), "FOLDER")


@pytest.fixture(scope="module")
def index(rocm_packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:  # noqa: F811
    """The packages of a ROCm as an index of one GPU family, and its address."""
    root = tmp_path_factory.mktemp("index")
    for path in [*rocm_packages.glob("*.whl"), *rocm_packages.glob("*.tar.gz")]:
        project = root / "v2/gfx110X-all" / re.sub(r"[-_.]+", "-", path.name.partition("-")[0])
        project.mkdir(parents=True, exist_ok=True)
        (project / path.name).symlink_to(path)
    with served(root) as address:
        yield address


@pytest.fixture(scope="module")
def template(
    rocwheel: Rocwheel,
    world: Path,  # noqa: F811
    rocm: Path,  # noqa: F811
    hip: Path,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The folder that each command gets a copy of; `trees` are the checkouts of those that need
    some."""
    template = tmp_path_factory.mktemp("template")
    origins = world / "origins"
    for branch in ("main", "nightly"):
        for folder in ("pytorch", "vision", "audio"):
            subprocess.run(["git", "-C", origins / folder, "branch", branch], capture_output=True, check=False)
    home = template / "home"
    home.mkdir()
    pairs = [("pytorch/pytorch", "pytorch"), ("ROCm/pytorch", "pytorch"), ("pytorch/audio", "audio")]
    pairs += [("pytorch/vision", "vision"), ("ROCm/triton", "triton")]
    settings = [f'[url "{origins / folder}"]\n\tinsteadOf = https://github.com/{name}.git\n' for name, folder in pairs]
    (home / ".gitconfig").write_text("".join(settings))
    shutil.copytree(world / "rocm", template / "build/dist/rocm")
    for place in ARTIFACTS:
        (template / place).mkdir(parents=True)
        therock.kpack(template / place)
    shutil.copytree(rocm, template / "build/dist/rocm", symlinks=True, dirs_exist_ok=True)
    shutil.copy(hip, template)
    run(UV, "venv", "--quiet", template / ".venv")
    trees = template / "trees"
    checkout = ["source", "checkout", "torch", "torchaudio", "torchvision", "--root", trees]
    rocwheel.run(*checkout, environment={"HOME": str(home)})
    (trees / "pytorch/mine.txt").write_text("mine\n")
    git(trees / "pytorch", "add", "--all")
    git(trees / "pytorch", "commit", "--quiet", "--message", "mine")
    return template


def place(template: Path, folder: Path, rocwheel: Rocwheel, index: str, command: dict) -> Place:
    shutil.copytree(template, folder, symlinks=True)
    trees = folder / "trees"
    if "checkout" not in command["theirs"]:
        shutil.copytree(trees, folder / "C:/b", symlinks=True)
        for old, new in (("pytorch_audio", "audio"), ("pytorch_vision", "vision")):
            (folder / "C:/b" / old).rename(folder / "C:/b" / new)
        for tree in list(trees.iterdir()):
            tree.rename(folder / tree.name)
    shutil.rmtree(trees)
    home = folder / "home"
    binary = folder / "bin"
    binary.mkdir()
    (binary / "rocwheel").symlink_to(rocwheel.binary)
    wheel = next(folder.glob("*.whl")).name
    variables = {
        "IMAGE": "rocm/pytorch:rocm7.1.1_ubuntu24.04_py3.12_pytorch_release_2.9.1",
        "WHEEL": wheel,
        "HOME": str(home),
        "VIRTUAL_ENV": str(folder / ".venv"),
        "INDEX": index,
    }
    variables |= {"ARTIFACTS_DIR": str(folder / "artifacts"), "PACKAGES_DIR": str(folder / "packages")}
    variables["PATH"] = f"{binary}:{folder / '.venv/bin'}:{with_uv()['PATH']}"
    return Place(folder, variables)


def results(place: Place) -> dict[str, object]:
    """Files, and of checkouts the commit and the tags."""
    found: dict[str, object] = {}
    for tree in [*place.folder.glob("*/.git"), *place.folder.glob("C:/b/*/.git")]:
        name = str(tree.parent.relative_to(place.folder))
        found[name] = git(tree.parent, "show-ref", "--head", "--tags")
    files = snapshot(place.folder)
    return found | {
        str(name): what for name, what in files.items() if "/.git" not in f"/{name}" and "home/" not in str(name)
    }


@pytest.mark.parametrize("command", RUN, ids=name_of)
def test_the_command_and_ours_do_the_same(
    rocwheel: Rocwheel, template: Path, index: str, tmp_path: Path, command: dict
) -> None:
    lines = [command[key].strip().replace(INDEX, index) for key in ("script", "ours") if key in command]
    assert lines, "a test runs something"
    places = [place(template, tmp_path / str(number), rocwheel, index, command) for number in range(len(lines))]
    match command["test"]:
        case "plan":
            plans = [place.said(f"{line} --dry-run") for place, line in zip(places, lines, strict=True)]
            assert len(set(plans)) == 1 and plans[0].strip(), "\n---\n".join(plans)
        case "result":
            said = [place.said(line) for place, line in zip(places, lines, strict=True)]
            made = [results(place) for place in places]
            assert len(lines) == 2 and made[0] == made[1], said
        case "run":
            for place_, line in zip(places, lines, strict=True):
                place_.shell(line)
        case other:
            raise AssertionError(other)


def test_the_quickstart_ends_with_a_torch_that_can_be_imported(
    rocwheel: Rocwheel, template: Path, index: str, tmp_path: Path
) -> None:
    """The lines of TheRock's quickstart for Linux one after the other, the scripts' names after
    `rocwheel compat`."""
    (checkout,) = (command for command in COMMANDS if "\npython pytorch_audio_repo.py checkout\n" in command["theirs"])
    (build,) = (command for command in COMMANDS if "--output-dir $HOME/tmp/pyout" in command["theirs"])
    there = place(template, tmp_path / "here", rocwheel, index, checkout)
    shutil.rmtree(there.folder / ".venv")
    there.shell("python3 -m venv .venv && . .venv/bin/activate")
    there.shell(checkout["script"])
    there.shell(build["script"].strip().replace(INDEX, index) + " --pytorch-rocm-arch gfx942 -- --no-preflight")
    wheels = sorted(path.name.split("-")[0] for path in (there.folder / "home/tmp/pyout").glob("*.whl"))
    assert wheels == ["torch", "torchaudio", "torchvision"]
    said = there.shell('rocm-sdk version; python -c "import torch, torchvision; print(torch.cuda.is_available())"')
    assert said.stdout.split() == [therock.VERSION, "False"]


def test_options_of_the_scripts_are_kept_noted_or_refused(rocwheel: Rocwheel, template: Path, tmp_path: Path) -> None:
    checkout = ["compat", "pytorch_torch_repo", "checkout", "--dry-run"]
    for more, code, words in (
        (["--repo-name", "x"], 0, "`--repo-name` has no effect: `--checkout-dir` names the folder"),
        (["--repo", "src", "--repo-name", "x"], 0, "source checkout torch --directory src/x"),
        (["--repo", "src"], 0, "source checkout torch --directory src/pytorch"),
        (["--repo", "src", "--checkout-dir", "x"], 2, "cannot be used with"),
        (["--patch"], 0, "`--patch` has no effect"),
        (["--no-patch", "--patch-dir", "patches/pytorch"], 0, "runs `rocwheel source checkout torch --dry-run`"),
        (["--hipify", "--no-hipify"], 0, "source checkout torch --no-hipify"),
        (["--no-submodules", "--depth", "1"], 0, "torch --depth 1 --no-submodules"),
        (["--torch-dir", "x"], 2, "the script for torch has no `--torch-dir`"),
        (["--release"], 2, "the script for torch has no `--release`"),
        (["--patch-dir", "patches/other"], 2, "the folder of `--patch-dir` is not called `pytorch`"),
        (["--checkout-folder", "x"], 2, "unexpected argument"),
    ):
        said = rocwheel.run(*checkout, *more, cwd=tmp_path, expect=code).stderr
        assert words in said, (more, said)
    triton = ["compat", "pytorch_triton_repo"]
    assert "has no `hipify`" in rocwheel.run(*triton, "hipify", cwd=tmp_path, expect=2).stderr
    trees = template / "trees"
    audio = ["compat", "pytorch_audio_repo", "hipify", "--checkout-dir", trees / "pytorch_audio"]
    assert "nothing is converted" in rocwheel.run(*audio).stderr
    assert (
        "0 changed"
        in rocwheel.run("compat", "pytorch_torch_repo", "hipify", "--checkout-dir", trees / "pytorch").stdout
    )


def test_what_the_script_of_wheels_would_take_from_elsewhere_is_asked_for(
    rocwheel: Rocwheel, template: Path, tmp_path: Path
) -> None:
    environment = {"VIRTUAL_ENV": str(template / ".venv")}
    script = ["compat", "build_prod_wheels", "build", "--output-dir", tmp_path / "out", "--dry-run"]
    for more, code, words in (
        (["--install-rocm"], 2, "there are no sources to build in `.`"),
        (["--root-checkout-dir", template / "trees"], 2, "the place of ROCm's packages is not given"),
        (["--root-checkout-dir", template / "trees", "--build-apex"], 2, "`--apex-dir` names their folder"),
        (["--pytorch-dir", tmp_path / "no", "--install-rocm"], 2, "there are no sources of torch at"),
        (["--use-ccache", "--use-sccache", "--install-rocm"], 2, "cannot be used with"),
    ):
        said = rocwheel.run(*script, *more, cwd=tmp_path, expect=code, environment=environment).stderr
        assert words in said, (more, said)
    more = ["--root-checkout-dir", template / "trees", "--no-build-pytorch-audio", "--no-build-pytorch-vision"]
    more += ["--find-links", tmp_path, "--pytorch-rocm-arch", "gfx942", "--use-sccache", "--no-pre", "--clean"]
    more += ["--no-enable-pytorch-flash-attention", "--pip-cache-dir", "x", "--version-suffix", "+rocm7"]
    said = rocwheel.run(*script, *more, cwd=tmp_path, environment=environment).stderr
    assert "`--pip-cache-dir` has no effect" in said
    line = next(line for line in said.splitlines() if line.startswith("runs `"))
    trees, out = template / "trees", tmp_path / "out"
    assert line == (
        f"runs `rocwheel build torch --source torch={trees}/pytorch --rocm-sdk find-links={tmp_path} --output {out} "
        f"--into {template}/.venv --gpu-targets gfx942 --compiler-cache sccache --feature flash-attention=off "
        "--version-suffix +rocm7 --clean --no-pre --dry-run`"
    )
    # Without an environment the wheels stay in their folder, and ROCm cannot be installed.
    bare = {"VIRTUAL_ENV": ""}
    assert "are not installed into one" in rocwheel.run(*script, *more, cwd=tmp_path, environment=bare).stderr
    alone = ["compat", "build_prod_wheels", "install-rocm"]
    assert "none is active" in rocwheel.run(*alone, expect=2, environment=bare).stderr
    refused = rocwheel.run("compat", "windows_patch_fat_wheel", "x.whl", "rocm", "--output-path", "y.whl", expect=2)
    assert "the name of a wheel follows from its version" in refused.stderr
    assert "has 0" in rocwheel.run("compat", "build_rocm.sh", expect=2).stderr


def test_every_option_and_variable_of_the_documents_leads_somewhere() -> None:
    known = {typed for word in TABLE["word"] for typed in word["typed"]}
    variables = {variable["name"] for variable in TABLE["variable"]}
    for command in COMMANDS:
        theirs = command["theirs"]
        named = set(re.findall(r"(?<![\w-])([A-Z][A-Z_]{3,})=", theirs)) - OWN_VARIABLES
        assert named <= variables, theirs
        if command.get("unchanged"):
            continue
        taken = f"{command.get('script', '')} {command.get('ours', '')}"
        for option in re.findall(r"(?<!\S)--[a-z][a-z-]*", theirs):
            assert option in known or option in taken, f"{option} of {theirs}"


def test_every_command_has_an_answer() -> None:
    for command in COMMANDS:
        answers = [key for key in ("ours", "unchanged", "note") if command.get(key)]
        assert answers, command
        assert ("test" in command) == ("ours" in command), command
        if command.get("test", "").endswith(".py"):
            # Another file of tests runs the command, with machines and packages of its own.
            verbs = re.findall(r"rocwheel (\w+) (\w+)", command["ours"])
            text = (Path(__file__).parent / command["test"]).read_text()
            assert verbs and all(f'"{first}", "{second}"' in text for first, second in verbs), command
        assert not command.get("later") or "note" in command, command
