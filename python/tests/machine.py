"""Other users, separate file systems, and processes that end at a chosen step."""

from __future__ import annotations

# The modules that `rocm-sdk` imports are imported here, because a forked process may be unable to
# do it.
import argparse  # noqa: F401
import contextlib
import csv  # noqa: F401
import ctypes  # noqa: F401
import fnmatch  # noqa: F401
import hashlib  # noqa: F401
import importlib.metadata  # noqa: F401
import importlib.util  # noqa: F401
import json  # noqa: F401
import lzma  # noqa: F401
import os
import shutil
import signal
import sys
import tarfile  # noqa: F401
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

NOBODY = 65534
# The operations that change files, by their names in Python's audit hooks.
CHANGES = frozenset({"os.link", "os.symlink", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.utime"})


def needs_root() -> None:
    """Only root has other users and mounts. Without root the tests that need them are skipped, or
    fail in CI."""
    if os.geteuid() == 0:
        return
    if os.environ.get("CI") == "true":
        pytest.fail("this test acts as several users and mounts file systems: run it as root")
    pytest.skip("needs root: it acts as several users and mounts file systems")


def mounting(*mounts: str) -> tuple[str, ...]:
    """A command prefix that runs another command with these private mounts; each is a string of
    arguments of `mount`."""
    needs_root()
    if shutil.which("unshare") is None:
        pytest.fail("unshare is missing: install util-linux")
    script = " && ".join(f"mount {mount}" for mount in mounts)
    return ("unshare", "--mount", "sh", "-c", f'{script} && exec "$@"', "sh")


def forked(function: Callable[[], int | None]) -> tuple[int, str]:
    """Runs a function in a new process. Returns the exit status (negative for a signal) and the
    output."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 99
        with open(writer, "w", closefd=False) as output, contextlib.redirect_stdout(output):
            with contextlib.redirect_stderr(output):
                try:
                    status = function() or 0
                except BaseException:
                    traceback.print_exc()
            output.flush()
        os._exit(status)
    os.close(writer)
    with open(reader) as output:
        said = output.read()
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended), said


def rocm_sdk(site: Path, *arguments: str, user: int | None = None) -> Callable[[], int]:
    """`rocm-sdk` of a site-packages folder, for a new process, possibly as another user."""

    def run() -> int:
        sys.path.insert(0, str(site))
        sys.dont_write_bytecode = True
        for name in [name for name in sys.modules if name.split(".")[0] == "rocm_sdk"]:
            del sys.modules[name]
        from rocm_sdk.__main__ import main

        if user is not None:
            # After the imports: other users may be unable to read this interpreter.
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        return main(list(arguments))

    return run


def killed_at(step: int, function: Callable[[], int]) -> Callable[[], int]:
    """The function, killed by SIGKILL directly before its change number `step` of a file, counted
    from 0."""

    def run() -> int:
        count = 0

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal count
            writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            # The lock is opened for writing, but not written to.
            if writes and str(arguments[0]).endswith("rocm_sdk_devel/__init__.py") and "_rocm" not in str(arguments[0]):
                return
            if writes or event in CHANGES:
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1

        sys.addaudithook(hook)
        return function()

    return run
