"""Every supported Python that is found on this machine: 3.10 to 3.14."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from fixtures import PYTHON_FOLDER, Environment, run

MINORS = range(10, 15)


def interpreters() -> dict[str, str]:
    """The interpreters on PATH and in pyenv, by version; the running one is always included."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    pyenv = shutil.which("pyenv")
    versions = Path(pyenv).resolve().parent.parent / "versions" if pyenv else Path(os.devnull)
    for minor in MINORS:
        installed = sorted(str(path) for path in versions.glob(f"3.{minor}.*/bin/python3"))
        on_path = shutil.which(f"python3.{minor}")
        for candidate in [*installed, *([on_path] if on_path else [])]:
            # A pyenv shim is found on PATH, but fails if its version is not the selected one.
            answer = run([candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"], check=False)
            if answer.stdout.strip() == f"3.{minor}":
                found.setdefault(f"3.{minor}", candidate)
    return found


@pytest.mark.parametrize(
    ("version", "interpreter"), [pytest.param(*each, id=each[0]) for each in sorted(interpreters().items())]
)
def test_the_set_installs_and_works(version: str, interpreter: str, distribution: Path, tmp_path: Path) -> None:
    for folder in ("rocm", "rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-devel", "rocm-sdk-hpc", "rocm-profiler"):
        code = f"import compileall, sys; sys.exit(not compileall.compile_dir({str(PYTHON_FOLDER / folder)!r}, quiet=1))"
        run([interpreter, "-W", "error", "-X", f"pycache_prefix={tmp_path / 'bytecode'}", "-c", code])
    environment = Environment(tmp_path / "venv", distribution, "uv", interpreter)
    # Warnings are errors: an earlier Python warns of code that a later one refuses.
    environment.install("rocm[libraries,device-gfx942,devel]", PYTHONWARNINGS="error")
    assert environment.site.parent.name == f"python{version}"
    result = environment.rocm_sdk("test", PYTHONWARNINGS="error")
    assert " 0 failed" in result.stdout
    names = [name for name in environment.files() if "/rocm_sdk/" in name and name.endswith(".py")]
    modules = [Path(name).with_suffix("").as_posix().split("site-packages/")[1].replace("/", ".") for name in names]
    assert "rocm_sdk.tests._load" in modules
    code = f"import importlib; [importlib.import_module(name.removesuffix('.__init__')) for name in {modules!r}]"
    environment.execute(code, PYTHONWARNINGS="error")
