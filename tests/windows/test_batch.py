"""The builds that `recipe show` prints for Windows, run by the command prompt and Python for
Windows with modules that write down how they were called: pip, build, and what the sources have.

Wine's findstr knows no sets of letters, and its command prompt finds no files by a pattern in
quotes: the line that installs the finished wheel does nothing there.
"""

import json
from pathlib import Path

import pytest
from windows_python import WindowsPython, on_windows

from command import Rocwheel, run

# A module that is run or imported, and the `setup.py` of the sources.
MODULE = """\
import json, os, subprocess, sys, zipfile
call = [{name!r}, *sys.argv[1:]]
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps(call) + "\\n")
if os.environ.get("FAILS") in call:
    sys.exit(1)
if "--cmake-only" in call:
    print("--   USE_ROCM              : ON")
elif "build_ext" in call:
    subprocess.check_call(["cmake", "--build", "."])
elif "--wheel" in call or "bdist_wheel" in call:
    os.mkdir("dist")
    with zipfile.ZipFile("dist/" + os.environ["RECIPE"] + "-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("x-1.dist-info/METADATA", "Name: x\\n\\n")
__version__ = "1"
class cuda: is_available = bool
"""
STARTER = r"""@echo off
set "PATH={python};{python}\Scripts;%PATH%"
set "PYTHONPATH={here}\modules"
set "CALLS={here}\calls.txt"
set "VCToolsRedistDir={here}\VC (x86)"
set "libuv_ROOT={here}\uv"
set "SOURCE={here}\the sources"
set "ROCWHEEL={here}\rocwheel.cmd"
set "RECIPE={recipe}"
set "FAILS={fails}"
call "{here}\build.cmd"
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The modules, and what Visual Studio and the trees of the projects have."""
    files = {
        "VC (x86)/14.40/onecore/libomp140.x86_64.dll": "omp",
        "uv/bin/uv.dll": "uv",
        "the sources/version.txt": "2.9.0\n",
        "the sources/pyproject.toml": 'build-backend = "scikit_build_core.build"\n',
        "the sources/requirements-build.txt": "",
        "the sources/setup.py": MODULE.format(name="setup.py"),
        "the sources/torch/__init__.py": "import torch._rocm_init\n",
        "llvm/include/llvm.h": "",
        "rocwheel.cmd": "@python -m rocwheel %*",
        "calls.txt": "",
    }
    for name in ("pip", "build", "rocwheel"):
        files[f"modules/{name}/__init__.py"] = ""
        files[f"modules/{name}/__main__.py"] = MODULE.format(name=name)
    for name in ("torch", "triton", "torchvision", "torchaudio"):
        files[f"modules/{name}/__init__.py"] = MODULE.format(name=name)
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def start(
    rocwheel: Rocwheel, here: Path, python: WindowsPython, *recipe: str, fails: str = "", expect: int = 0
) -> tuple[list[list[str]], str]:
    """The calls, and what was printed."""
    script = rocwheel.run("recipe", "show", *recipe, "--platform", "windows", "--gpu-targets", "gfx1100").stdout
    (here / "build.cmd").write_text(script.replace("[^_:]*", " .*"), newline="\r\n")
    words = {"here": on_windows(here), "python": on_windows(python.folder), "recipe": recipe[0], "fails": fails}
    (here / "start.cmd").write_text(STARTER.format(**words), newline="\r\n")
    said = run(*python.starter, "cmd", "/c", "start.cmd", cwd=here, expect=expect)
    return [json.loads(line) for line in (here / "calls.txt").read_text().splitlines()], said.stdout + said.stderr


MADE = {
    "torch": "build --wheel --no-isolation -Cwheel.force-include.torch/_rocm_init.py=torch/_rocm_init.py",
    "triton": "build --wheel",
    "torchvision": "setup.py bdist_wheel",
    "torchaudio": "setup.py bdist_wheel",
}


@pytest.mark.parametrize("recipe", MADE)
def test_a_build(linux: Rocwheel, here: Path, python: WindowsPython, recipe: str) -> None:
    after = ["--torch", "2.9"] if recipe in ("torchvision", "torchaudio") else []
    calls, said = start(linux, here, python, recipe, *after)
    assert "recognize" not in said and "Traceback" not in said, said
    lines = [" ".join(call) for call in calls]
    assert [line for line in lines if line.startswith(MADE[recipe])], lines
    assert (here / f"the sources/dist/{recipe}-1-py3-none-any.whl").is_file() and lines[-1] == recipe, lines
    if recipe == "torchaudio":
        assert "rocwheel edit --in-place --no-audit --requires torch dist\\torchaudio-1-py3-none-any.whl" in lines
    if recipe == "triton":
        # The program stops before it compiles: there is no cmake.
        assert "setup.py build_ext" in lines
    if recipe != "torch":
        return
    (build,) = (call for call in calls if call[0] == "build")
    assert build[-1] == "--skip-dependency-check" and "setup.py build --cmake --cmake-only" in lines
    init = (here / "the sources/torch/_rocm_init.py").read_text()
    assert "preload_shortnames=['amd_comgr', 'amdhip64', 'hiprtc', 'hipblas']," in init, init
    assert f"check_version='{python.run('-m', 'rocm_sdk', 'version').stdout.strip()}')" in init
    compile(init, "_rocm_init.py", "exec")
    libraries = sorted(path.name for path in (here / "the sources/torch/lib").iterdir())
    assert libraries == ["libomp140.x86_64.dll", "uv.dll"]


def test_sources_that_never_import_the_hook(linux: Rocwheel, here: Path, python: WindowsPython) -> None:
    """The check is a Python program of several lines, and a batch file has no such words."""
    (here / "the sources/torch/__init__.py").write_text("")
    calls, said = start(linux, here, python, "torch", expect=1)
    assert calls == [] and "torch/__init__.py never imports torch._rocm_init" in said, said


def test_a_step_that_fails_ends_the_batch_file(linux: Rocwheel, here: Path, python: WindowsPython) -> None:
    calls, _ = start(linux, here, python, "torch", fails="--yes", expect=1)
    assert calls == [["pip", "uninstall", "--yes", "torch"]]
