"""Starts the programs of this package that `_contents.json` lists; see `rocm_sdk_core._cli`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from . import _dist_info


def __getattr__(function: str) -> Callable[[], NoReturn]:
    from rocm_sdk_core._cli import tool_function

    return tool_function(Path(__file__).parent, _dist_info, function)
