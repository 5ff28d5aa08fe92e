"""Starts the programs of the ROCm packages. Input: the name of a console script. Output: the
program, which replaces this process.

`_contents.json` lists the programs of a package; the console script of each is
`<package>._cli:<function>`. The functions are created on access, so the list and the functions
cannot disagree.
"""

from __future__ import annotations

import json
import os
import re
import shutil
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


def program_of(function: str) -> Path:
    """The program's file of the tool with that function in this package."""
    pure = Path(__file__).parent
    contents = json.loads((pure / "_contents.json").read_text(encoding="utf-8"))
    tool = next(tool for tool in contents["tools"] if tool["function"] == function)
    return _program(tool, pure, contents, _dist_info)


def wanted_clang(program: Path) -> str:
    """The version of clang that a hipcc starts; empty if it takes any.

    Debian builds its name into the program: `lib/llvm-22/bin`, or `clang++-15` in a script.
    """
    for path in (program.with_name("hipcc"), program.with_name("hipcc.pl")):
        try:
            found = re.search(rb"(?:\blib/llvm|/clang\+\+)-([0-9]+)\b", path.read_bytes())
        except OSError:
            continue
        if found is not None:
            return found.group(1).decode()
    return ""


def clang_directory(program: Path, variables: Environment) -> Path | None:
    """The folder with the clang that a hipcc should start: that of these packages, else the
    system's of its version. None if there is none."""
    if variables.get("HIP_CLANG_PATH"):
        return Path(variables["HIP_CLANG_PATH"])
    version = wanted_clang(program)
    suffix = f"-{version}" if version else ""
    name = f"clang++{suffix}" if program.with_name("hipcc.pl").exists() else "clang++"
    if os.name == "nt":
        name += ".exe"
    folders = [program.parents[1] / "lib" / "llvm" / "bin", Path(f"/usr/lib/llvm{suffix}/bin")]
    # A script starts `clang++-15`, which is on PATH; a program starts `clang++` of the folder that
    # the link on PATH leads to.
    found = shutil.which(f"clang++{suffix}", path=variables.get("PATH"))
    if found is not None:
        folders += [Path(found).parent, Path(found).resolve().parent]
    return next((folder for folder in folders if (folder / name).exists()), None)


def _for_compiler(program: Path, variables: Environment) -> Environment:
    """The variables of a tool that starts clang. One outside the packages finds neither their
    headers nor their device libraries by itself."""
    folder = clang_directory(program, variables)
    if folder is None:
        return variables
    added = {"HIP_CLANG_PATH": str(folder)}
    root = program.parents[1]
    if root not in folder.parents:
        added["ROCM_PATH"] = str(root)
        bitcode = root / "lib" / "llvm" / "amdgcn" / "bitcode"
        if bitcode.is_dir():
            added["HIP_DEVICE_LIB_PATH"] = str(bitcode)
    return {**added, **variables}


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
    if tool.get("compiler", False):
        variables = _for_compiler(program, variables)
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
