"""Starts the profilers that `_contents.json` lists; see `rocm_sdk_core._cli`.

A profiler starts another program with a library loaded into it, and has Python parts. Both are
found through environment variables, which this module sets.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from . import _dist_info

SITE = Path(__file__).parent.resolve().parent


def __getattr__(function: str) -> Callable[[], NoReturn]:
    from rocm_sdk_core._cli import tool_function

    return tool_function(Path(__file__).parent, _dist_info, function, _environment)


def _environment(variables: dict[str, str]) -> dict[str, str]:
    profiler = SITE / _dist_info.ALL_PACKAGES["profiler"].get_py_package_name()
    core = SITE / _dist_info.ALL_PACKAGES["core"].get_py_package_name()
    changed = dict(variables)
    _prepend(changed, "LD_LIBRARY_PATH", [profiler / "lib", core / "lib" / "rocm_sysdeps" / "lib"])
    _prepend(changed, "PYTHONPATH", [profiler / "libexec" / "rocprofiler-compute"])
    return changed


def _prepend(variables: dict[str, str], name: str, directories: list[Path]) -> None:
    # An empty entry would mean the working directory.
    before = [variables[name]] if variables.get(name) else []
    variables[name] = os.pathsep.join([str(directory) for directory in directories] + before)
