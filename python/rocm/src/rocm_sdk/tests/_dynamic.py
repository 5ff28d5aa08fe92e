"""The dynamic loader's result for a program or library, without running it."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

PT_INTERP = 3


def dynamic_objects(loader: str, path: Path | str) -> dict[str, str | None]:
    """The libraries that a program or library needs, with the paths at which the loader finds them;
    None: not found.

    Empty if the loader cannot run here (it is for another machine).
    """
    if not os.access(loader, os.X_OK):
        return {}
    listing = subprocess.run([loader, "--list", str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found: dict[str, str | None] = {}
    for line in listing.stdout.decode(errors="replace").splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow:
            found[name] = None if rest.startswith("not found") else rest.rsplit(" (", 1)[0]
    return found


def program_interpreter(path: Path) -> str | None:
    """The dynamic loader that a 64-bit little-endian ELF executable names; None for any other file."""
    try:
        with open(path, "rb") as file:
            header = file.read(64)
            if header[:6] != b"\x7fELF\x02\x01" or len(header) < 64:
                return None
            (offset,) = struct.unpack_from("<Q", header, 32)
            size, count = struct.unpack_from("<HH", header, 54)
            for index in range(count):
                file.seek(offset + index * size)
                segment = file.read(56)
                if len(segment) == 56 and struct.unpack_from("<I", segment)[0] == PT_INTERP:
                    start, _, _, length = struct.unpack_from("<QQQQ", segment, 8)
                    file.seek(start)
                    return file.read(min(length, 4096)).rstrip(b"\0").decode(errors="replace")
    except OSError:
        return None
    return None
