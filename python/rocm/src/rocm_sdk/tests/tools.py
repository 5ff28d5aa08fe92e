"""Checks that every program starts, with libraries of the environment, and prints the expected
text."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from .. import _contents, _dist_info
from ._dynamic import dynamic_objects, program_interpreter
from ._policy import Policy
from ._report import Report

TIMEOUT_SECONDS = 120
INTERPRETERS = ("perl", "python3")


def check_tools(report: Report, site: Path) -> None:
    """Runs each tool of each package according to its probe."""
    report.section("tools")
    packages = _contents.installed_packages()
    ours = {tool.name for package in packages for tool in package.tools}
    has_gpu = bool(_dist_info.discover_gpu_targets())
    policy = Policy(site)
    for package in packages:
        for tool in package.tools:
            probe = tool.probe
            if probe is None:
                report.skip(tool.name, "it has no probe")
                continue
            if probe.needs_gpu and not has_gpu:
                none = "none is looked for on Windows" if os.name == "nt" else f"none is in {_dist_info.KFD_TOPOLOGY}"
                report.skip(tool.name, f"needs a GPU, and {none}")
                continue
            missing = [name for name in _needs(package, tool, probe) if not _is_there(name, ours, packages)]
            if missing:
                report.skip(tool.name, f"needs {', '.join(missing)}, neither installed here nor on PATH")
                continue
            clang = _missing_clang(package, tool)
            if clang is not None:
                report.skip(tool.name, f"needs {clang}, neither in these packages nor on this machine")
                continue
            problem = _run(package, tool, probe) or _outsiders(package.platform_directory / tool.path, policy)
            if problem is not None and probe.no_driver and probe.no_driver in problem:
                report.skip(tool.name, "says that the GPU driver is not loaded")
            elif problem is None:
                report.ok(tool.name, " ".join([tool.path, *probe.arguments]))
            else:
                report.fail(tool.name, problem)


def _needs(package: _contents.Package, tool: _contents.Tool, probe: _contents.Probe) -> list[str]:
    """The programs that the tool starts; a compiled tool needs no interpreter."""
    try:
        with open(package.platform_directory / tool.path, "rb") as file:
            is_script = file.read(2) == b"#!"
    except OSError:
        is_script = True
    return [name for name in probe.needs if is_script or name not in INTERPRETERS]


def _missing_clang(package: _contents.Package, tool: _contents.Tool) -> str | None:
    """The clang that the tool would start and that does not exist; None if it does, or if the tool
    starts none."""
    if not tool.compiler:
        return None
    launcher = importlib.import_module(f"{package.pure_name}._cli")
    program = launcher.program_of(tool.function)
    wanted = launcher.wanted_clang(program)
    if launcher.clang_directory(program, {**os.environ, "PATH": _search_path()}) is not None:
        return None
    return f"clang {wanted}" if wanted else "clang"


def _is_there(name: str, ours: set[str], packages: list[_contents.Package]) -> bool:
    if name in ours or shutil.which(name, path=_search_path()) is not None:
        return True
    folders = (Path("bin"), Path("lib", "llvm", "bin"))
    names = (name, f"{name}.exe") if os.name == "nt" else (name,)
    paths = (package.platform_directory / folder / name for package in packages for folder in folders for name in names)
    return any(path.exists() for path in paths)


def _search_path() -> str:
    return os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])


def _run(package: _contents.Package, tool: _contents.Tool, probe: _contents.Probe) -> str | None:
    """Runs the tool through the function of its console script. Returns the problem, or None."""
    code = f"import sys; from {package.pure_name}._cli import {tool.function} as run; sys.exit(run())"
    try:
        process = subprocess.run(
            [sys.executable, "-c", code, *probe.arguments],
            env={**os.environ, "PATH": _search_path()},
            cwd=package.site,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"gave no answer within {TIMEOUT_SECONDS} s"
    output = process.stdout.decode(errors="replace")
    shown = "\n".join(output.strip().splitlines()[-8:])
    if process.returncode not in probe.exit_codes:
        expected = " or ".join(str(status) for status in probe.exit_codes)
        return f"ended with status {process.returncode}, not {expected}" + (f"\n{shown}" if shown else "")
    if probe.expect not in output:
        return f"did not say '{probe.expect}'" + (f"\n{shown}" if shown else "")
    return None


def _outsiders(path: Path, policy: Policy) -> str | None:
    """The problem of the libraries that a dynamic executable would load; None if there is none."""
    loader = program_interpreter(path)
    if loader is None:
        return None
    objects = dynamic_objects(loader, path)
    for name, found in objects.items():
        if found is None:
            return f"needs {name}, which is not found"
    outsiders = policy.outsiders(found for found in objects.values() if found is not None)
    return f"loads from outside the environment: {', '.join(outsiders)}" if outsiders else None
