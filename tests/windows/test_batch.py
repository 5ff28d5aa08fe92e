"""The build that `recipe show` prints for Windows, run by the command prompt with programs that
write down how they were called."""

import os
from pathlib import Path

import pytest

from command import Rocwheel, run

STUB = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
int main(int count, char **words) {
    FILE *calls = fopen(getenv("CALLS"), "ab");
    const char *name = strrchr(words[0], '\\') ? strrchr(words[0], '\\') + 1 : words[0];
    fprintf(calls, "%s", name);
    for (int at = 1; at < count; at++) fprintf(calls, "|%s", words[at]);
    fprintf(calls, "\n");
    fclose(calls);
    const char *line = GetCommandLineA();
    if (strstr(line, "--root")) puts("C:\\Program Files (x86)\\rocm sdk");
    else if (strstr(line, "find_libraries")) puts("['amdhip64', 'hipblas']");
    else if (count > 1 && !strcmp(words[1], "version")) puts("7.10.0");
    return getenv("FAILS") && strstr(line, getenv("FAILS"));
}
"""
STARTER = r"""@echo off
set "PATH=Z:{here}\programs;%PATH%"
set "CALLS=Z:{here}\calls.txt"
set "VCToolsRedistDir=Z:{here}\VC (x86)"
set "libuv_ROOT=Z:{here}\uv"
set "SOURCE=Z:{here}\the sources"
set "FAILS={fails}"
call "Z:{here}\build.cmd"
"""


@pytest.fixture
def here(linux: Rocwheel, tmp_path: Path) -> Path:
    """The batch file, the programs, and what torch's tree and Visual Studio have."""
    if os.name == "nt":
        pytest.skip("MinGW makes the programs, in the root that Wine is in")
    for folder in ("programs", "VC (x86)/14.40/onecore", "uv/bin", "the sources/torch"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "VC (x86)/14.40/onecore/libomp140.x86_64.dll").write_text("omp")
    (tmp_path / "uv/bin/uv.dll").write_text("uv")
    for name, text in {
        "version.txt": "2.9.0\n",
        "pyproject.toml": 'build-backend = "scikit_build_core.build"\n',
        "requirements-build.txt": "",
    }.items():
        (tmp_path / "the sources" / name).write_text(text)
    (tmp_path / "stub.c").write_text(STUB)
    root = Path(os.environ["ROCWHEEL_WINE_FILES"]).parent / "root"
    gcc = ["chroot", root, "/usr/bin/x86_64-w64-mingw32-gcc", tmp_path / "stub.c", "-o"]
    for name in ("python", "rocm-sdk"):
        run(*gcc, tmp_path / f"programs/{name}.exe", environment={"PATH": "/usr/sbin:/usr/bin:/bin"})
    script = linux.run("recipe", "show", "torch", "--platform", "windows", "--gpu-targets", "gfx1100").stdout
    (tmp_path / "build.cmd").write_text(script, newline="\r\n")
    return tmp_path


def start(here: Path, starter: list[str], fails: str = "", expect: int = 0) -> list[list[str]]:
    text = STARTER.format(here=str(here).replace("/", "\\"), fails=fails)
    (here / "start.cmd").write_text(text, newline="\r\n")
    run(*starter, "cmd", "/c", "start.cmd", cwd=here, expect=expect)
    return [line.split("|") for line in (here / "calls.txt").read_text().splitlines()]


def test_the_command_prompt_runs_the_batch_file(here: Path, starter: list[str]) -> None:
    calls = start(here, starter)
    assert calls[:2] == [["rocm-sdk", "version"], ["rocm-sdk", "path", "--root"]]
    assert [call[:4] for call in calls if "build" in call and "--wheel" in call] == [
        ["python", "-m", "build", "--wheel"]
    ]
    (build,) = (call for call in calls if "--no-isolation" in call)
    assert "-Cwheel.force-include.torch/_rocm_init.py=torch/_rocm_init.py" in build
    assert build[-1] == "--skip-dependency-check"
    init = (here / "the sources/torch/_rocm_init.py").read_text()
    assert "preload_shortnames=['amdhip64', 'hipblas']," in init and "check_version='7.10.0')" in init
    compile(init, "_rocm_init.py", "exec")
    libraries = sorted(path.name for path in (here / "the sources/torch/lib").iterdir())
    assert libraries == ["libomp140.x86_64.dll", "uv.dll"]


def test_a_step_that_fails_ends_the_batch_file(here: Path, starter: list[str]) -> None:
    calls = start(here, starter, fails="requirements.txt", expect=1)
    assert "requirements.txt" in calls[-1][-2] and not [call for call in calls if "--wheel" in call]
