"""Starts the programs of the ROCm packages. Input: the name of a console script. Output: the
program, which replaces this process.

`_contents.json` lists the programs of a package; the console script of each is
`<package>._cli:<function>`. The functions are created on access, so the list and the functions
cannot disagree.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from . import _dist_info

Environment = dict[str, str]


def __getattr__(function: str) -> Callable[[], NoReturn]:
    return tool_function(Path(__file__).parent, _dist_info, function)


def tool_function(
    pure: Path,
    information: ModuleType,
    function: str,
    environment: Callable[[Environment], Environment] | None = None,
) -> Callable[[], NoReturn]:
    """The function with that name: it runs the tool with the arguments of this process, and does
    not return.

    `pure` is the package that contains `_contents.json`; `environment` changes the variables of the
    tool. Raises AttributeError, as every module does, if no tool has such a function.
    """
    missing = AttributeError(f"module '{pure.name}._cli' has no attribute '{function}'")
    if function.startswith("__"):
        raise missing
    contents = json.loads((pure / "_contents.json").read_text(encoding="utf-8"))
    for tool in contents["tools"]:
        if tool["function"] == function:
            return lambda: _run(tool, _program(tool, pure, contents, information), environment)
    raise missing


def _program(tool: dict[str, Any], pure: Path, contents: dict[str, Any], information: ModuleType) -> Path:
    """The program's file: in the devel tree if that exists, because compilers search for headers
    beside themselves."""
    devel = _devel_directory(pure.parent, information, expand=tool.get("devel", False))
    if devel is not None and (devel / tool["path"]).exists():
        return devel / tool["path"]
    return pure.parent / contents["platform_package"] / tool["path"]


def _devel_directory(site: Path, information: ModuleType, *, expand: bool) -> Path | None:
    entry = information.ALL_PACKAGES.get("devel")
    if entry is None:
        return None
    pure = site / entry.get_pure_py_package_name()
    if not (pure / "__init__.py").is_file():
        return None
    directory = site / entry.get_py_package_name()
    packed = any((pure / name).exists() for name in ("_devel.tar", "_devel.tar.xz"))
    if (directory / "__init__.py").is_file() and not packed:
        return directory
    if not expand or util.find_spec("rocm_sdk") is None:
        return None
    # In a separate process, so this process's memory stays unchanged, whatever happens there.
    result = subprocess.run([sys.executable, "-m", "rocm_sdk", "init", "--quiet"], stdin=subprocess.DEVNULL)
    return directory if result.returncode == 0 else None


def _run(tool: dict[str, Any], program: Path, change: Callable[[Environment], Environment] | None) -> NoReturn:
    path = f"{program}.exe" if os.name == "nt" and not program.suffix else str(program)
    variables = dict(os.environ)
    if change is not None:
        variables = change(variables)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        if os.name == "nt":
            sys.exit(subprocess.run([path, *sys.argv[1:]], env=variables).returncode)
        os.execve(path, [path, *sys.argv[1:]], variables)
    except OSError as error:
        print(f"{tool['name']}: cannot run `{path}`: {error.strerror}", file=sys.stderr)
        # The exit codes of a shell for a command that is missing, and for one that it cannot run.
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)
