"""The RECORD of an installed distribution: the files that pip and uv remove when they uninstall it.

Files that are created after the installation (the expanded devel tree, links into it) are added
*before* they are created, so uninstalling removes them whatever happens in between.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path


class Record:
    """A RECORD file that rows are added to. Call `add` only under `exclusive_lock`."""

    def __init__(self, path: Path):
        self.path = path
        text = path.read_text(encoding="utf-8")
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
        self._listed = {row[0] for row in rows}
        self._sizes = {row[0]: int(row[2]) for row in rows if len(row) > 2 and row[2].isdigit()}
        self._hashes = {row[0]: row[1] for row in rows if len(row) > 1 and row[1]}
        self._needs_newline = not text.endswith("\n") and bool(text)
        # Installers may link it to their cache, by a hard or a symbolic link, and other
        # environments share that.
        self._is_own_file = not path.is_symlink() and path.stat().st_nlink == 1

    def __contains__(self, name: str) -> bool:
        return name in self._listed

    @property
    def distribution(self) -> tuple[str, str]:
        """The name and version in the name of its folder."""
        name, _, version = self.path.parent.name.removesuffix(".dist-info").partition("-")
        return name.replace("_", "-"), version

    def size_of(self, name: str) -> int | None:
        """The size of a file at its installation; None if RECORD does not contain it."""
        return self._sizes.get(name)

    def hash_of(self, name: str) -> str | None:
        """The hash of a file at its installation, `algorithm=digest`; None if RECORD does not
        contain it."""
        return self._hashes.get(name)

    def add(self, names: Iterable[str]) -> None:
        """Adds those names (relative to site-packages, `/`) that are not listed yet, without hash
        and size."""
        new = [name for name in dict.fromkeys(names) if name not in self._listed]
        if not new:
            return
        rows = io.StringIO()
        if self._needs_newline:
            rows.write("\n")
        csv.writer(rows, lineterminator="\n").writerows([name, "", ""] for name in new)
        if not self._is_own_file:
            self._become_own_file()
        content = rows.getvalue().encode("utf-8")
        # A single write: a row is complete or missing, even if the process is killed.
        with open(self.path, "ab", buffering=0) as output:
            before = output.seek(0, os.SEEK_END)
            written = output.write(content)
            if written != len(content):
                # The disk became full during the write: half a row would name a file that does not
                # exist.
                output.truncate(before)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self._needs_newline = False
        self._listed.update(new)

    def _become_own_file(self) -> None:
        temporary = self.path.with_name("RECORD.tmp")
        temporary.write_bytes(self.path.read_bytes())
        os.chmod(temporary, self.path.stat().st_mode & 0o777 | 0o200)
        os.replace(temporary, self.path)
        self._is_own_file = True


@contextlib.contextmanager
def exclusive_lock(path: Path, waits: Callable[[], None] | None = None) -> Iterator[None]:
    """Waits for a lock on an existing file and holds it; `waits` is called if another process has
    it.

    The file belongs to the package, because uninstalling would leave a separate lock file behind.
    Its contents do not change, it need not be writable, and it can be read while it is locked.
    """
    with _open_for_lock(path) as file:
        if not _try_lock(file):
            if waits is not None:
                waits()
            _wait_for_lock(file)
        try:
            yield
        finally:
            _unlock(file)


def _open_for_lock(path: Path) -> io.BufferedIOBase:
    try:
        return open(path, "r+b")
    except OSError as error:
        # Enough for local file systems; on NFS an exclusive lock needs a file that is open for
        # writing.
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return open(path, "rb")


if sys.platform == "win32":
    import msvcrt
    import time

    # Other processes cannot read locked bytes. One far after the end disturbs no reader.
    _LOCKED_BYTE = 1 << 30

    def _try_lock(file: io.BufferedIOBase) -> bool:
        try:
            file.seek(_LOCKED_BYTE)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _wait_for_lock(file: io.BufferedIOBase) -> None:
        while not _try_lock(file):
            time.sleep(0.1)

    def _unlock(file: io.BufferedIOBase) -> None:
        file.seek(_LOCKED_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(file: io.BufferedIOBase) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait_for_lock(file: io.BufferedIOBase) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)

    def _unlock(file: io.BufferedIOBase) -> None:
        # The kernel also frees it when the process is killed. Not lockf: that lock is lost when any
        # other part of the process closes this file.
        fcntl.flock(file, fcntl.LOCK_UN)
