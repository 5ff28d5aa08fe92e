"""The RECORD of an installed distribution: which files pip and uv remove when they uninstall it.

Files made after the installation (the expanded devel tree, links into it) are entered *before* they are made, so that
uninstalling removes them whatever happens in between.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


class Record:
    """A RECORD file that rows are added to. `add` is to be called under `exclusive_lock`."""

    def __init__(self, path: Path):
        self.path = path
        text = path.read_text(encoding="utf-8")
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
        self._listed = {row[0] for row in rows}
        self._sizes = {row[0]: int(row[2]) for row in rows if len(row) > 2 and row[2].isdigit()}
        self._needs_newline = not text.endswith("\n") and bool(text)
        self._is_own_file = path.stat().st_nlink == 1

    def __contains__(self, name: str) -> bool:
        return name in self._listed

    def size_of(self, name: str) -> int | None:
        """The size a file was installed with; None if RECORD does not tell."""
        return self._sizes.get(name)

    def add(self, names: Iterable[str]) -> None:
        """Adds the names (relative to site-packages, `/`) that are not listed yet, without hash and size."""
        new = [name for name in dict.fromkeys(names) if name not in self._listed]
        if not new:
            return
        rows = io.StringIO()
        if self._needs_newline:
            rows.write("\n")
        csv.writer(rows, lineterminator="\n").writerows([name, "", ""] for name in new)
        if not self._is_own_file:
            self._break_hard_link()
        # One write: a row is there completely or not at all, also for a process that is killed.
        with open(self.path, "ab", buffering=0) as output:
            output.write(rows.getvalue().encode("utf-8"))
        self._needs_newline = False
        self._listed.update(new)

    def _break_hard_link(self) -> None:
        """Makes the file our own: an installer may have linked it to its cache, which other environments share."""
        temporary = self.path.with_name("RECORD.tmp")
        temporary.write_bytes(self.path.read_bytes())
        os.chmod(temporary, self.path.stat().st_mode & 0o777)
        os.replace(temporary, self.path)
        self._is_own_file = True


@contextlib.contextmanager
def exclusive_lock(path: Path) -> Iterator[None]:
    """Holds a lock on a file that exists, waiting for it; its contents are not touched.

    The file is one the package owns: a lock file of its own would be left behind by an uninstall.
    """
    with open(path, "r+b") as file:
        if sys.platform == "win32":
            import msvcrt
            import time

            while True:
                try:
                    file.seek(0)
                    msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
                    break
                except OSError:
                    time.sleep(0.1)
            try:
                yield
            finally:
                file.seek(0)
                msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
        else:
            import fcntl

            # Given back when the file is closed, also by the kernel when the process is killed. Not lockf: that lock
            # would be lost when any other part of the process closes this file.
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
